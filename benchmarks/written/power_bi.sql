-- DirectQuery: a column by a measure
SELECT TOP_T."channel", TOP_T."a0" FROM (
select "_"."channel", sum("_"."amount") as "a0"
from (select "$Table"."channel" as "channel", "$Table"."amount" as "amount" from "main"."orders" "$Table") "_"
group by "_"."channel") TOP_T
WHERE NOT TOP_T."a0" IS NULL
LIMIT 1000001

-- DirectQuery: year and month as parts
select "t0"."c0" as "y", "t0"."c1" as "m", count(*) as "a0"
from (select year("ordered_at") as "c0", month("ordered_at") as "c1" from "orders") "t0"
group by "t0"."c0", "t0"."c1"
order by "t0"."c0", "t0"."c1"
limit 1000001

-- DirectQuery: distinct count with blanks
select "rows"."plan" as "plan", count(distinct "rows"."person_id") + max(case when "rows"."person_id" is null then 1 else 0 end) as "a0"
from (select "plan", "person_id" from "customers" "$Table") "rows"
group by "plan" limit 1000001

-- DirectQuery: a related dimension
select "t1"."category" as "category", sum("t0"."amount") as "a0", count("t0"."amount") as "a1"
from (("orders" "t0" left outer join "products" "t1" on ("t0"."product_id" = "t1"."product_id")))
where "t1"."category" in ('books', 'games')
group by "t1"."category"

-- DirectQuery: basic filter on a date hierarchy
select count(*) as "a0" from "orders" "t0"
where ("t0"."ordered_at" >= TIMESTAMP '2024-01-01 00:00:00') and ("t0"."ordered_at" < TIMESTAMP '2024-02-01 00:00:00')

-- year-to-date
SELECT m, revenue, SUM(revenue) OVER (PARTITION BY y ORDER BY m) AS revenue_ytd
FROM (SELECT year(ordered_at) AS y, date_trunc('month', ordered_at) AS m, SUM(amount) AS revenue FROM orders GROUP BY 1, 2) t
WHERE revenue IS NOT NULL ORDER BY m

-- same period last year
WITH monthly AS (SELECT year(ordered_at) AS y, month(ordered_at) AS m, SUM(amount) AS revenue FROM orders GROUP BY ALL)
SELECT cur.m, cur.revenue, prev.revenue AS revenue_ly, (cur.revenue - prev.revenue) / NULLIF(prev.revenue, 0) AS yoy
FROM monthly cur LEFT JOIN monthly prev ON prev.m = cur.m AND prev.y = cur.y - 1
WHERE cur.y = 2024 ORDER BY cur.m

-- rank of categories
SELECT p.category, SUM(o.amount) AS revenue, RANK() OVER (ORDER BY SUM(o.amount) DESC) AS revenue_rank
FROM orders o INNER JOIN products p ON p.product_id = o.product_id GROUP BY p.category

-- share of the parent
SELECT p.category, p.brand, SUM(o.amount) AS revenue, SUM(o.amount) / SUM(SUM(o.amount)) OVER (PARTITION BY p.category) AS share_of_category
FROM orders o JOIN products p USING (product_id) GROUP BY p.category, p.brand ORDER BY p.category, revenue DESC

-- matrix with subtotals
SELECT region, city, SUM(cost) AS cost, GROUPING(region, city) AS level
FROM visits JOIN clinics USING (clinic_id) GROUP BY ROLLUP (region, city)

-- only the totals that GROUPING names
SELECT CASE WHEN GROUPING(channel) = 1 THEN 'All' ELSE channel END AS channel, COUNT(*) AS orders
FROM orders GROUP BY ROLLUP (channel)

-- new and returning
WITH f AS (SELECT person_id, MIN(date_trunc('month', ordered_at)) AS first_month FROM orders GROUP BY person_id)
SELECT date_trunc('month', o.ordered_at) AS month,
       COUNT(DISTINCT CASE WHEN date_trunc('month', o.ordered_at) = f.first_month THEN o.person_id END) AS new_customers,
       COUNT(DISTINCT CASE WHEN date_trunc('month', o.ordered_at) > f.first_month THEN o.person_id END) AS returning_customers
FROM orders o JOIN f ON f.person_id = o.person_id GROUP BY 1 ORDER BY 1

-- average of distinct buyers a month
SELECT AVG(buyers) AS avg_monthly_buyers FROM (SELECT date_trunc('month', ordered_at) AS m, COUNT(DISTINCT person_id) AS buyers FROM orders GROUP BY 1) x

-- parameter of the last N months
SELECT date_trunc('month', visit_date) AS month, COUNT(*) AS visits FROM visits
WHERE visit_date >= DATE '2024-12-31' - INTERVAL '5' MONTH AND visit_date <= DATE '2024-12-31' GROUP BY date_trunc('month', visit_date)

-- ABC classes of products
SELECT product_id, revenue, CASE WHEN running <= 0.8 * total THEN 'A' WHEN running <= 0.95 * total THEN 'B' ELSE 'C' END AS class
FROM (SELECT product_id, SUM(amount) AS revenue, SUM(SUM(amount)) OVER (ORDER BY SUM(amount) DESC) AS running, SUM(SUM(amount)) OVER () AS total FROM orders GROUP BY product_id) t

-- key figures with switch
SELECT 'orders' AS measure, CAST(COUNT(*) AS DOUBLE) AS value FROM orders
UNION ALL SELECT 'revenue', SUM(amount) FROM orders
UNION ALL SELECT 'customers', CAST(COUNT(DISTINCT person_id) AS DOUBLE) FROM orders

-- customers by number of products
SELECT products_bought, COUNT(*) AS customers FROM (SELECT person_id, COUNT(DISTINCT product_id) AS products_bought FROM orders GROUP BY person_id) t GROUP BY products_bought ORDER BY products_bought

-- slicer's bounds
SELECT MIN(birth_year) AS lo, MAX(birth_year) AS hi FROM customers

-- moving average of three months
SELECT m, AVG(n) OVER (ORDER BY m ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS ma3 FROM (SELECT date_trunc('month', ordered_at) AS m, COUNT(*) AS n FROM orders WHERE ordered_at >= '2023-01-01' AND ordered_at < '2025-01-01' GROUP BY 1) t ORDER BY m

-- cross filter by another table
SELECT COUNT(DISTINCT v.person_id) AS patients FROM visits v WHERE v.person_id IN (SELECT person_id FROM customers WHERE segment = 'school') AND v.clinic_id IN (SELECT clinic_id FROM clinics WHERE region = 'north')
