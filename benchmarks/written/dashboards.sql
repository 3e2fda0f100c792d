-- headline numbers
SELECT COUNT(*) AS "Orders", SUM("orders"."amount") AS "Revenue", COUNT(DISTINCT "orders"."person_id") AS "Customers", AVG("orders"."amount") AS "AOV" FROM "orders"

-- Metabase: count by month
SELECT DATE_TRUNC('month', "orders"."ordered_at") AS "ordered_at", COUNT(*) AS "count" FROM "orders"
GROUP BY DATE_TRUNC('month', "orders"."ordered_at") ORDER BY DATE_TRUNC('month', "orders"."ordered_at") ASC

-- Metabase: nested source
SELECT "source"."channel" AS "channel", SUM("source"."amount") AS "sum" FROM (
  SELECT "orders"."person_id" AS "person_id", "orders"."channel" AS "channel", "orders"."amount" AS "amount", "orders"."status" AS "status" FROM "orders") AS "source"
WHERE ("source"."status" = 'paid') GROUP BY "source"."channel" ORDER BY "source"."channel" ASC

-- Metabase: joined question
SELECT "Products"."category" AS "Products__category", COUNT(*) AS "count" FROM "orders" LEFT JOIN "products" AS "Products" ON "orders"."product_id" = "Products"."product_id"
GROUP BY "Products"."category" ORDER BY "count" DESC, "Products"."category" ASC LIMIT 5

-- Metabase: dates cast with intervals
SELECT CAST("orders"."ordered_at" AS DATE) AS "ordered_at", SUM("orders"."amount") AS "sum" FROM "orders"
WHERE "orders"."ordered_at" >= DATE_TRUNC('day', (CAST('2024-06-30' AS TIMESTAMP) + INTERVAL '-30 day')) AND "orders"."ordered_at" < DATE_TRUNC('day', CAST('2024-06-30' AS TIMESTAMP))
GROUP BY CAST("orders"."ordered_at" AS DATE) ORDER BY CAST("orders"."ordered_at" AS DATE) ASC

-- Metabase: binned number
SELECT FLOOR(("orders"."amount" / 25.0)) * 25.0 AS "amount", COUNT(*) AS "count" FROM "orders" GROUP BY FLOOR(("orders"."amount" / 25.0)) * 25.0 ORDER BY 1 ASC

-- Tableau: year part and measure
SELECT CAST(EXTRACT(YEAR FROM "orders"."ordered_at") AS BIGINT) AS "yr:ordered_at:ok", SUM("orders"."amount") AS "sum:amount:ok" FROM "orders" "orders" GROUP BY 1

-- Tableau: truncated month, filter on a list
SELECT "orders"."channel" AS "channel", DATE_TRUNC('MONTH', CAST("orders"."ordered_at" AS DATE)) AS "tmn:ordered_at:ok", COUNT(1) AS "cnt" FROM "orders"
WHERE (("orders"."channel" IN ('web', 'store')) AND (NOT ("orders"."status" IS NULL))) GROUP BY 1, 2

-- Tableau: constant grouping
SELECT SUM("orders"."amount") AS "sum:amount:ok" FROM "orders" HAVING (COUNT(1) > 0)

-- Looker: NULLIF and COALESCE
SELECT COALESCE(SUM(CAST("orders"."amount" AS DOUBLE)), 0) AS "orders.total", COUNT(DISTINCT CASE WHEN "orders"."status" = 'paid' THEN "orders"."person_id" END) AS "orders.payers",
       1.0 * COALESCE(SUM("orders"."amount"), 0) / NULLIF(COUNT(*), 0) AS "orders.avg" FROM "orders" AS "orders" LIMIT 500

-- Looker: dates as text
SELECT (TO_CHAR(DATE_TRUNC('month', "orders"."ordered_at"), 'YYYY-MM')) AS "orders.month", COUNT(*) AS "orders.count" FROM "orders"
WHERE "orders"."ordered_at" >= TIMESTAMP '2024-01-01' AND "orders"."ordered_at" < TIMESTAMP '2024-07-01' GROUP BY 1 ORDER BY 1 DESC LIMIT 500

-- Superset: time grain with limit
SELECT DATE_TRUNC('day', "ts") AS "__timestamp", "device" AS "device", COUNT(*) AS "count" FROM "main"."events"
WHERE "ts" >= '2024-04-01 00:00:00.000000' AND "ts" < '2024-04-08 00:00:00.000000' GROUP BY DATE_TRUNC('day', "ts"), "device" ORDER BY "count" DESC LIMIT 10000

-- Superset: virtual data set
SELECT "plan" AS "plan", count(DISTINCT "person_id") AS "people" FROM (SELECT * FROM customers WHERE newsletter) AS "virtual_table" GROUP BY "plan" ORDER BY "people" DESC LIMIT 1000

-- Grafana: time series
SELECT time_bucket(INTERVAL '1 hour', ts) AS "time", count(*) AS "value" FROM events WHERE ts BETWEEN TIMESTAMP '2024-05-01 00:00:00' AND TIMESTAMP '2024-05-02 00:00:00' GROUP BY 1 ORDER BY 1

-- Grafana: epoch buckets
SELECT CAST(floor(epoch(opened_at) / 86400) * 86400 AS BIGINT) AS time, count(*) AS tickets FROM tickets WHERE opened_at >= '2024-05-01' AND opened_at < '2024-05-15' GROUP BY 1 ORDER BY 1

-- Power BI: SELECT TOP of a sub-select
SELECT "rows"."team" AS "team", sum("rows"."rating") AS "a0" FROM (SELECT "team", "rating", "person_id" FROM "tickets" "$Table" WHERE "rating" IS NOT NULL) "rows" GROUP BY "team" LIMIT 1000001

-- subtotals with ROLLUP
SELECT channel, status, count(*) AS n FROM orders GROUP BY ROLLUP (channel, status)

-- all subtotals with CUBE
SELECT segment, plan, count(*) AS n FROM customers GROUP BY CUBE (segment, plan)

-- grouping sets
SELECT country, plan, count(*) AS n FROM customers GROUP BY GROUPING SETS ((country), (plan), ())

-- totals row with UNION ALL
SELECT channel, count(*) AS n FROM orders GROUP BY channel UNION ALL SELECT 'total', count(*) FROM orders

-- percent of total
SELECT status, count(*) AS n, 100.0 * count(*) / (SELECT count(*) FROM orders) AS pct FROM orders GROUP BY status

-- open tickets by priority and age
SELECT priority, CASE WHEN date_diff('day', opened_at, TIMESTAMP '2024-12-31') <= 7 THEN '0-7' WHEN date_diff('day', opened_at, TIMESTAMP '2024-12-31') <= 30 THEN '8-30' ELSE '31+' END AS age, count(*) AS n
FROM tickets WHERE closed_at IS NULL GROUP BY priority, age

-- service level
SELECT team, 100.0 * count(*) FILTER (WHERE closed_at <= opened_at + INTERVAL 2 DAY) / count(*) AS within_sla FROM tickets GROUP BY team ORDER BY team

-- a filter value list
SELECT DISTINCT channel FROM orders ORDER BY channel

-- a filter's range of dates
-- never: the first and last moment are one person's each
SELECT MIN("orders"."ordered_at") AS "min", MAX("orders"."ordered_at") AS "max" FROM "orders"

-- a preview of the table
-- never: it shows people's rows
SELECT * FROM orders LIMIT 100

-- number of rows with nulls in a column
SELECT count(*) - count(delivered_at) AS undelivered, count(coupon) AS with_coupon, count_if(amount > 100) AS big FROM orders

-- conditional format: one big CASE
SELECT CASE WHEN sum(amount) > 1000 THEN 'good' ELSE 'bad' END AS state, sum(amount) AS revenue FROM orders WHERE ordered_at >= '2024-12-01' AND ordered_at < '2025-01-01'

-- KPI with target
SELECT 100 AS target, count(DISTINCT person_id) AS actual, round(count(DISTINCT person_id) / 100.0, 2) AS attained FROM orders WHERE year(ordered_at) = 2024

-- wide dashboard query
SELECT date_trunc('month', ordered_at) AS month, count(*) AS orders, count(DISTINCT person_id) AS buyers, sum(amount) AS revenue, sum(amount) / count(*) AS aov,
       sum(quantity) AS units, avg(quantity) AS units_per_order, sum(CASE WHEN coupon IS NOT NULL THEN 1 ELSE 0 END) * 100.0 / count(*) AS coupon_pct
FROM orders WHERE ordered_at >= '2024-01-01' AND ordered_at < '2025-01-01' GROUP BY 1 ORDER BY 1
