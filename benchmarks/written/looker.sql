-- explore with a joined view
SELECT
    products.category  AS "products.category",
    COUNT(DISTINCT orders.order_id ) AS "orders.count",
    COALESCE(SUM(orders.amount ), 0) AS "orders.total_amount"
FROM orders  AS orders
LEFT JOIN products  AS products ON orders.product_id = products.product_id
WHERE ((( orders.ordered_at ) >= ((TIMESTAMP '2024-01-01')) AND ( orders.ordered_at ) < ((TIMESTAMP '2025-01-01'))))
GROUP BY
    1
ORDER BY
    3 DESC
FETCH NEXT 500 ROWS ONLY

-- symmetric aggregate of the fan-out
SELECT
    customers.country  AS "customers.country",
    COUNT(DISTINCT customers.person_id ) AS "customers.count",
    COUNT(DISTINCT CASE WHEN orders.status = 'paid' THEN orders.order_id ELSE NULL END) AS "orders.paid_count"
FROM customers  AS customers
LEFT JOIN orders  AS orders ON customers.person_id = orders.person_id
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- tier dimension
SELECT
    CASE
WHEN customers.birth_year  < 1960 THEN 'Below 1960'
WHEN customers.birth_year  >= 1960 AND customers.birth_year  < 1980 THEN '1960 to 1979'
WHEN customers.birth_year  >= 1980 AND customers.birth_year  < 2000 THEN '1980 to 1999'
WHEN customers.birth_year  >= 2000 THEN '2000 or Above'
ELSE 'Undefined'
END AS "customers.birth_tier",
    COUNT(*) AS "customers.count"
FROM customers AS customers
GROUP BY 1
ORDER BY 1

-- yesno dimension
SELECT
    (CASE WHEN tickets.rating >= 4  THEN 'Yes' ELSE 'No' END) AS "tickets.is_happy",
    AVG(tickets.rating ) AS "tickets.average_rating",
    COUNT(*) AS "tickets.count"
FROM tickets AS tickets
WHERE (tickets.rating IS NOT NULL)
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- pivoted explore
-- is: SELECT * FROM ( SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank, RANK() OVER (PARTITION BY z__pivot_col_rank ORDER BY z___min_rank) as z__pivot_col_ordering FROM ( SELECT *, MIN(z___rank) OVER (PARTITION BY "orders.month") as z___min_rank FROM ( SELECT *, RANK() OVER (ORDER BY "orders.month" ASC, z__pivot_col_rank) AS z___rank FROM ( SELECT *, DENSE_RANK() OVER (ORDER BY "orders.channel" NULLS LAST) AS z__pivot_col_rank FROM ( SELECT m AS "orders.month", c AS "orders.channel", COUNT(o.person_id) AS "orders.count" FROM (SELECT DISTINCT DATE_TRUNC('month', ordered_at) AS m FROM orders) CROSS JOIN (SELECT DISTINCT channel AS c FROM orders) LEFT JOIN orders o ON DATE_TRUNC('month', o.ordered_at) IS NOT DISTINCT FROM m AND o.channel IS NOT DISTINCT FROM c GROUP BY 1, 2) ww ) bb WHERE z__pivot_col_rank <= 16384 ) aa ) xx ) zz WHERE (z__pivot_col_rank <= 50 OR z__pivot_col_ordering = 1) AND (z___pivot_row_rank <= 500 OR z__pivot_col_ordering = 1) ORDER BY z___pivot_row_rank
SELECT * FROM (
SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank, RANK() OVER (PARTITION BY z__pivot_col_rank ORDER BY z___min_rank) as z__pivot_col_ordering FROM (
SELECT *, MIN(z___rank) OVER (PARTITION BY "orders.month") as z___min_rank FROM (
SELECT *, RANK() OVER (ORDER BY "orders.month" ASC, z__pivot_col_rank) AS z___rank FROM (
SELECT *, DENSE_RANK() OVER (ORDER BY "orders.channel" NULLS LAST) AS z__pivot_col_rank FROM (
SELECT
    DATE_TRUNC('month', orders.ordered_at ) AS "orders.month",
    orders.channel AS "orders.channel",
    COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1, 2) ww
) bb WHERE z__pivot_col_rank <= 16384
) aa
) xx
) zz
WHERE (z__pivot_col_rank <= 50 OR z__pivot_col_ordering = 1) AND (z___pivot_row_rank <= 500 OR z__pivot_col_ordering = 1) ORDER BY z___pivot_row_rank

-- filtered measure
SELECT
    DATE_TRUNC('month', orders.ordered_at ) AS "orders.month",
    COUNT(CASE WHEN orders.channel = 'web' THEN 1 ELSE NULL END) AS "orders.web_count",
    COALESCE(SUM(CASE WHEN orders.channel = 'web' THEN orders.amount ELSE NULL END), 0) AS "orders.web_total",
    AVG(CASE WHEN orders.channel = 'web' THEN orders.amount ELSE NULL END) AS "orders.web_average"
FROM orders AS orders
WHERE orders.ordered_at >= TIMESTAMP '2024-01-01' AND orders.ordered_at < TIMESTAMP '2024-07-01'
GROUP BY 1
ORDER BY 1 DESC

-- derived table of customers' facts
WITH customer_facts AS (SELECT
        orders.person_id AS person_id,
        COUNT(*) AS lifetime_orders,
        SUM(orders.amount) AS lifetime_revenue,
        MIN(orders.ordered_at) AS first_order
      FROM orders
      GROUP BY 1)
SELECT
    CASE WHEN customer_facts.lifetime_orders = 1 THEN '1' WHEN customer_facts.lifetime_orders <= 4 THEN '2-4' ELSE '5+' END AS "customer_facts.tier",
    COUNT(*) AS "customers.count",
    AVG(customer_facts.lifetime_revenue ) AS "customer_facts.average_revenue"
FROM customers
INNER JOIN customer_facts ON customers.person_id = customer_facts.person_id
GROUP BY 1
ORDER BY 1
LIMIT 500

-- date as text, day
SELECT
    (TO_CHAR(orders.ordered_at , 'YYYY-MM')) AS "orders.ordered_month",
    COUNT(*) AS "orders.count"
FROM orders AS orders
WHERE ((( orders.ordered_at ) >= (DATE_TRUNC('month', TIMESTAMP '2024-06-15')) AND ( orders.ordered_at ) < ((DATE_TRUNC('month', TIMESTAMP '2024-06-15') + INTERVAL '3 month'))))
GROUP BY 1
ORDER BY 1 DESC
LIMIT 500

-- having on a measure
SELECT
    orders.product_id  AS "orders.product_id",
    COUNT(*) AS "orders.count",
    COALESCE(SUM(orders.quantity ), 0) AS "orders.units"
FROM orders AS orders
GROUP BY 1
HAVING COUNT(*) > 20
ORDER BY 2 DESC
LIMIT 20

-- percent of the previous row as a table calculation
SELECT "m", "n", 1.0 * "n" / NULLIF(LAG("n") OVER (ORDER BY "m"), 0) - 1 AS "calc" FROM (
SELECT DATE_TRUNC('quarter', orders.ordered_at ) AS "m", COUNT(*) AS "n" FROM orders AS orders GROUP BY 1) AS q ORDER BY "m"

-- average days to close
SELECT
    tickets.team  AS "tickets.team",
    AVG(DATE_DIFF('day', tickets.opened_at, tickets.closed_at) ) AS "tickets.average_days_to_close"
FROM tickets AS tickets
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- average hours by subtraction
SELECT tickets.priority AS "tickets.priority", AVG(EXTRACT(EPOCH FROM (tickets.closed_at - tickets.opened_at)) / 3600.0) AS "tickets.avg_hours"
FROM tickets AS tickets WHERE tickets.closed_at IS NOT NULL GROUP BY 1

-- median measure
-- within: 25
SELECT orders.channel AS "orders.channel", PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY orders.amount ) AS "orders.median_amount" FROM orders AS orders GROUP BY 1 ORDER BY 2 DESC LIMIT 500

-- suggestions of a filter
SELECT DISTINCT orders.channel AS "orders.channel" FROM orders AS orders WHERE (orders.channel ) IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT 1000

-- list of values
-- never: it shows what people wrote
SELECT LISTAGG(DISTINCT tickets.body, '|') AS "tickets.bodies" FROM tickets AS tickets

-- user attribute filter
SELECT COUNT(*) AS "visits.count", COALESCE(SUM(visits.cost), 0) AS "visits.total_cost" FROM visits LEFT JOIN clinics ON visits.clinic_id = clinics.clinic_id WHERE (clinics.region = 'north') AND 1=1 LIMIT 500

-- totals query
SELECT COALESCE(SUM(orders.amount ), 0) AS "orders.total", COUNT(DISTINCT orders.person_id ) AS "orders.buyers", COALESCE(COALESCE(SUM(orders.amount ), 0) / NULLIF(COUNT(DISTINCT orders.person_id ), 0), 0) AS "orders.per_buyer" FROM orders AS orders LIMIT 1

-- period over period with a filtered CASE
SELECT CASE WHEN orders.ordered_at >= TIMESTAMP '2024-04-01' AND orders.ordered_at < TIMESTAMP '2024-07-01' THEN 'This period' WHEN orders.ordered_at >= TIMESTAMP '2024-01-01' AND orders.ordered_at < TIMESTAMP '2024-04-01' THEN 'Previous period' END AS "orders.period",
COUNT(*) AS "orders.count" FROM orders AS orders
WHERE (CASE WHEN orders.ordered_at >= TIMESTAMP '2024-04-01' AND orders.ordered_at < TIMESTAMP '2024-07-01' THEN 'This period' WHEN orders.ordered_at >= TIMESTAMP '2024-01-01' AND orders.ordered_at < TIMESTAMP '2024-04-01' THEN 'Previous period' END) IS NOT NULL
GROUP BY 1
