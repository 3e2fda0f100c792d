-- big number with trend
SELECT DATE_TRUNC('week', "ordered_at") AS "__timestamp", COUNT(*) AS "count"
FROM "main"."orders"
WHERE "ordered_at" >= TIMESTAMP '2024-01-01 00:00:00.000000' AND "ordered_at" < TIMESTAMP '2024-04-01 00:00:00.000000'
GROUP BY DATE_TRUNC('week', "ordered_at")
ORDER BY DATE_TRUNC('week', "ordered_at") ASC LIMIT 50000

-- time series with a series limit
SELECT DATE_TRUNC('month', "ordered_at") AS "__timestamp", "channel" AS "channel", SUM("amount") AS "SUM(amount)"
FROM "main"."orders"
JOIN (
  SELECT "channel" AS "channel__", SUM("amount") AS "mme_inner__"
  FROM "main"."orders"
  WHERE "ordered_at" >= '2024-01-01' AND "ordered_at" < '2025-01-01'
  GROUP BY "channel" ORDER BY "mme_inner__" DESC LIMIT 3
) AS "anon_1" ON "channel" = "channel__"
WHERE "ordered_at" >= '2024-01-01' AND "ordered_at" < '2025-01-01'
GROUP BY DATE_TRUNC('month', "ordered_at"), "channel" ORDER BY "SUM(amount)" DESC LIMIT 10000

-- series limit over everything
SELECT DATE_TRUNC('month', ts) AS __timestamp, device AS device, count(*) AS count
FROM events JOIN (SELECT device AS device__, count(*) AS mme_inner__ FROM events GROUP BY device ORDER BY mme_inner__ DESC LIMIT 2) AS anon_1 ON device = device__
GROUP BY DATE_TRUNC('month', ts), device ORDER BY count DESC LIMIT 1000

-- table chart with percent metrics
SELECT "status" AS "status", COUNT(*) AS "count", SUM("amount") AS "%SUM(amount)"
FROM "main"."orders" GROUP BY "status" ORDER BY "count" DESC LIMIT 1000

-- adhoc filter with HAVING
SELECT "country" AS "country", AVG("birth_year") AS "AVG(birth_year)", COUNT(*) AS "n" FROM "main"."customers"
WHERE "plan" IN ('pro', 'basic') AND "newsletter" IS TRUE
GROUP BY "country" HAVING ((COUNT(*) > 3)) ORDER BY "AVG(birth_year)" DESC LIMIT 1000

-- MIN, MAX and AVG in one table
-- within: 8
SELECT "channel" AS "channel", MIN("amount") AS "MIN(amount)", MAX("amount") AS "MAX(amount)", AVG("amount") AS "AVG(amount)" FROM "main"."orders" GROUP BY "channel" LIMIT 100

-- COUNT_DISTINCT of identifiers
SELECT "channel" AS "channel", COUNT(DISTINCT "order_id") AS "COUNT_DISTINCT(order_id)" FROM "main"."orders" GROUP BY "channel" ORDER BY "COUNT_DISTINCT(order_id)" DESC LIMIT 1000

-- COUNT_DISTINCT of a column with a list
SELECT COUNT(DISTINCT "product_id") AS "COUNT_DISTINCT(product_id)" FROM "main"."orders" LIMIT 50000

-- virtual dataset with a join
SELECT "segment" AS "segment", AVG("amount") AS "AVG(amount)"
FROM (SELECT o.person_id, o.amount, o.ordered_at, c.segment, c.country
FROM orders o
JOIN customers c ON o.person_id = c.person_id) AS "virtual_table"
WHERE "country" IN ('BE', 'FR') GROUP BY "segment" ORDER BY "AVG(amount)" DESC LIMIT 100

-- calculated column
SELECT CASE WHEN "amount" < 50 THEN 'low' WHEN "amount" < 200 THEN 'mid' ELSE 'high' END AS "band", COUNT(*) AS "count"
FROM "main"."orders" GROUP BY CASE WHEN "amount" < 50 THEN 'low' WHEN "amount" < 200 THEN 'mid' ELSE 'high' END ORDER BY "count" DESC LIMIT 1000

-- hour by weekday heat map
SELECT EXTRACT(ISODOW FROM "ts") AS "weekday", EXTRACT(HOUR FROM "ts") AS "hour", COUNT(*) AS "count" FROM "main"."events" GROUP BY EXTRACT(ISODOW FROM "ts"), EXTRACT(HOUR FROM "ts") ORDER BY "count" DESC LIMIT 10000

-- box plot
-- within: 25
SELECT "channel" AS "channel", QUANTILE_CONT("amount", 0.25) AS "q1", MEDIAN("amount") AS "median", QUANTILE_CONT("amount", 0.75) AS "q3" FROM "main"."orders" GROUP BY "channel"

-- pivot table with totals by GROUPING SETS
SELECT "channel" AS "channel", "status" AS "status", SUM("amount") AS "SUM(amount)" FROM "main"."orders" GROUP BY GROUPING SETS (("channel", "status"), ("channel"), ("status"), ()) LIMIT 10000

-- filter box values
SELECT "status" AS "status" FROM "main"."orders" GROUP BY "status" ORDER BY "status" ASC LIMIT 1000

-- filter box values with metric
SELECT "country" AS "country", COUNT(*) AS "__count" FROM "main"."customers" GROUP BY "country" ORDER BY "__count" DESC LIMIT 1000

-- time comparison of a year before
SELECT DATE_TRUNC('month', "ordered_at") AS "__timestamp", SUM("amount") AS "SUM(amount)__1 year ago" FROM "main"."orders"
WHERE "ordered_at" >= TIMESTAMP '2023-01-01 00:00:00' AND "ordered_at" < TIMESTAMP '2024-01-01 00:00:00' GROUP BY DATE_TRUNC('month', "ordered_at") LIMIT 10000

-- SQL Lab: percent of total
SELECT channel, ROUND(SUM(amount) / SUM(SUM(amount)) OVER () * 100, 2) AS pct_of_revenue FROM orders GROUP BY channel ORDER BY pct_of_revenue DESC

-- SQL Lab: cumulative customers
SELECT month, new_customers, SUM(new_customers) OVER (ORDER BY month ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS cumulative
FROM (SELECT DATE_TRUNC('month', signup_date) AS month, COUNT(*) AS new_customers FROM customers GROUP BY 1) AS t ORDER BY month

-- sunburst of two levels
SELECT "department" AS "department", "title" AS "title", COUNT(*) AS "count", AVG("score") AS "AVG(score)"
FROM (SELECT g.*, c.title, c.department FROM grades g INNER JOIN courses c ON g.course_id = c.course_id) AS "virtual_table"
GROUP BY "department", "title" ORDER BY "count" DESC LIMIT 50000

-- samples
-- never: it shows people's rows
SELECT "person_id" AS "person_id", "amount" AS "amount" FROM "main"."orders" WHERE "amount" > 400 LIMIT 100

-- rolling by the half year
SELECT DATE_TRUNC('quarter', "visit_date") AS "__timestamp", SUM("cost") AS "SUM(cost)", COUNT(DISTINCT "person_id") AS "COUNT_DISTINCT(person_id)" FROM "main"."visits" WHERE "diagnosis" = 'I10' OR "diagnosis" = 'E11' GROUP BY DATE_TRUNC('quarter', "visit_date") ORDER BY "__timestamp" LIMIT 50000

-- not-like filter
SELECT COUNT(*) AS "count" FROM "main"."tickets" WHERE "subject" NOT LIKE '%login%' AND lower("body") LIKE lower('%ORDER%')
