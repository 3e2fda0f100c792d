-- summarise by two fields
SELECT "public_orders"."channel" AS "channel", DATE_TRUNC('quarter', "public_orders"."ordered_at") AS "ordered_at", SUM("public_orders"."amount") AS "sum"
FROM "orders" AS "public_orders"
WHERE ("public_orders"."status" <> 'cancelled') OR ("public_orders"."status" IS NULL)
GROUP BY "public_orders"."channel", DATE_TRUNC('quarter', "public_orders"."ordered_at")
ORDER BY "public_orders"."channel" ASC, DATE_TRUNC('quarter', "public_orders"."ordered_at") ASC

-- week that begins on Sunday
SELECT (DATE_TRUNC('week', ("orders"."ordered_at" + INTERVAL '1 day')) + INTERVAL '-1 day') AS "ordered_at", COUNT(*) AS "count"
FROM "orders"
WHERE "orders"."ordered_at" >= CAST('2024-05-05' AS TIMESTAMP) AND "orders"."ordered_at" < CAST('2024-06-02' AS TIMESTAMP)
GROUP BY (DATE_TRUNC('week', ("orders"."ordered_at" + INTERVAL '1 day')) + INTERVAL '-1 day')
ORDER BY (DATE_TRUNC('week', ("orders"."ordered_at" + INTERVAL '1 day')) + INTERVAL '-1 day') ASC

-- hour of day as an integer
SELECT CAST(extract(hour from "events"."ts") AS integer) AS "ts", COUNT(*) AS "count" FROM "events" GROUP BY CAST(extract(hour from "events"."ts") AS integer) ORDER BY CAST(extract(hour from "events"."ts") AS integer) ASC

-- day of week from Sunday as one
SELECT (CAST(extract(dow from "orders"."ordered_at") AS integer) + 1) AS "ordered_at", COUNT(*) AS "count" FROM "orders" GROUP BY (CAST(extract(dow from "orders"."ordered_at") AS integer) + 1) ORDER BY 1 ASC

-- custom expression share
SELECT "customers"."plan" AS "plan", CAST(SUM(CASE WHEN "customers"."newsletter" = TRUE THEN 1 ELSE 0.0 END) AS DOUBLE) / NULLIF(COUNT(*), 0) AS "share" FROM "customers" GROUP BY "customers"."plan" ORDER BY "customers"."plan" ASC

-- custom column in a nested query
SELECT "source"."Age group" AS "Age group", COUNT(*) AS "count" FROM (
  SELECT "customers"."person_id" AS "person_id", CASE WHEN (2024 - "customers"."birth_year") < 30 THEN 'young' WHEN (2024 - "customers"."birth_year") < 60 THEN 'middle' ELSE 'old' END AS "Age group" FROM "customers") AS "source"
GROUP BY "source"."Age group" ORDER BY "source"."Age group" ASC

-- distinct values of identifiers
SELECT count(distinct "tickets"."ticket_id") AS "count" FROM "tickets" WHERE "tickets"."priority" = 'high'

-- cumulative sum
SELECT "month", sum("sum") OVER (ORDER BY "month" ASC ROWS UNBOUNDED PRECEDING) AS "sum" FROM (
  SELECT DATE_TRUNC('month', "orders"."ordered_at") AS "month", SUM("orders"."amount") AS "sum" FROM "orders" GROUP BY DATE_TRUNC('month', "orders"."ordered_at")) AS "source" ORDER BY "month" ASC

-- offset to the month before
SELECT DATE_TRUNC('month', "orders"."ordered_at") AS "m", SUM("orders"."amount") AS "sum", LAG(SUM("orders"."amount"), 1) OVER (ORDER BY DATE_TRUNC('month', "orders"."ordered_at") ASC) AS "previous" FROM "orders" GROUP BY 1 ORDER BY 1

-- filter after summarising
SELECT "source"."channel", "source"."sum" FROM (SELECT "orders"."channel" AS "channel", SUM("orders"."amount") AS "sum" FROM "orders" GROUP BY "orders"."channel") AS "source" WHERE "source"."sum" > 1000

-- average of counts per person
SELECT AVG("source"."count") AS "avg" FROM (SELECT "orders"."person_id" AS "person_id", COUNT(*) AS "count" FROM "orders" GROUP BY "orders"."person_id" ORDER BY "orders"."person_id" ASC) AS "source"

-- average of sums per person
SELECT AVG("source"."sum") AS "avg" FROM (SELECT "orders"."person_id" AS "person_id", SUM("orders"."amount") AS "sum" FROM "orders" GROUP BY "orders"."person_id") AS "source"

-- orders per day, averaged
-- is: SELECT avg(n) FROM (SELECT (SELECT count(*) FROM orders WHERE ordered_at::DATE = day AND ordered_at BETWEEN '2024-01-01' AND '2024-01-31') AS n FROM calendar WHERE day BETWEEN '2024-01-01' AND '2024-01-31')
SELECT AVG("source"."count") AS "avg" FROM (
  SELECT CAST("orders"."ordered_at" AS DATE) AS "day", COUNT(*) AS "count" FROM "orders"
  WHERE "orders"."ordered_at" BETWEEN '2024-01-01' AND '2024-01-31' GROUP BY 1) AS "source"

-- number bins with a floor
SELECT (FLOOR(((2024 - "customers"."birth_year") / 10)) * 10) AS "age", COUNT(*) AS "count" FROM "customers" GROUP BY (FLOOR(((2024 - "customers"."birth_year") / 10)) * 10) ORDER BY 1 ASC

-- is empty and not empty
SELECT COUNT(*) AS "count" FROM "orders" WHERE ("orders"."coupon" IS NOT NULL) AND (("orders"."coupon" <> '') OR ("orders"."coupon" IS NULL))

-- contains, without case
SELECT COUNT(*) AS "count" FROM "tickets" WHERE (LOWER("tickets"."subject") LIKE '%login%') AND (LOWER("tickets"."subject") NOT LIKE '%help%')

-- between dates and a time zone
SELECT CAST(("orders"."ordered_at" AT TIME ZONE 'UTC') AS DATE) AS "d", COUNT(*) AS "count" FROM "orders" WHERE "orders"."ordered_at" >= '2024-02-01' AND "orders"."ordered_at" < '2024-02-08' GROUP BY 1 ORDER BY 1

-- days to deliver
SELECT AVG(DATE_DIFF('day', CAST("orders"."ordered_at" AS DATE), "orders"."delivered_at")) AS "avg" FROM "orders" WHERE "orders"."delivered_at" IS NOT NULL

-- standard deviation and percentile
-- within: 25
SELECT STDDEV_POP("orders"."amount") AS "stddev", PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY "orders"."amount") AS "p90" FROM "orders"

-- joined card
SELECT "Card"."band" AS "band", COUNT(*) AS "count" FROM "customers" LEFT JOIN (
  SELECT "orders"."person_id" AS "person_id", CASE WHEN COUNT(*) > 3 THEN 'often' ELSE 'seldom' END AS "band" FROM "orders" GROUP BY "orders"."person_id") AS "Card" ON "customers"."person_id" = "Card"."person_id"
GROUP BY "Card"."band" ORDER BY "count" DESC

-- records of one customer
SELECT COUNT(*) AS "count" FROM "orders" WHERE "orders"."order_id" = 12
