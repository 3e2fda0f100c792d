-- group by and aggregate
SELECT
  "t0"."channel",
  COUNT(*) AS "n",
  AVG("t0"."amount") AS "mean_amount"
FROM "orders" AS "t0"
GROUP BY
  1

-- filter, mutate, group
SELECT
  "t1"."month",
  SUM("t1"."amount") AS "revenue"
FROM (
  SELECT
    "t0"."person_id",
    "t0"."amount",
    DATE_TRUNC('MONTH', "t0"."ordered_at") AS "month"
  FROM "orders" AS "t0"
  WHERE
    "t0"."status" = 'paid' AND "t0"."amount" > CAST(10 AS TINYINT)
) AS "t1"
GROUP BY
  1
ORDER BY
  "t1"."month" ASC

-- value counts
SELECT
  "t1"."status",
  COUNT("t1"."status") AS "status_count"
FROM (
  SELECT
    "t0"."status"
  FROM "orders" AS "t0"
) AS "t1"
GROUP BY
  1

-- nunique
SELECT
  COUNT(DISTINCT "t0"."person_id") AS "CountDistinct(person_id)"
FROM "orders" AS "t0"

-- nunique of orders
SELECT
  "t0"."channel",
  COUNT(DISTINCT "t0"."order_id") AS "orders"
FROM "orders" AS "t0"
GROUP BY
  1

-- join and aggregate
SELECT
  "t4"."segment",
  SUM("t4"."amount") AS "Sum(amount)"
FROM (
  SELECT
    "t2"."person_id",
    "t2"."amount",
    "t3"."segment"
  FROM "orders" AS "t2"
  INNER JOIN "customers" AS "t3"
    ON "t2"."person_id" = "t3"."person_id"
) AS "t4"
GROUP BY
  1

-- case with cases()
SELECT
  "t1"."bucket",
  COUNT(*) AS "CountStar()"
FROM (
  SELECT
    CASE WHEN "t0"."score" >= 80 THEN 'high' WHEN "t0"."score" >= 50 THEN 'pass' ELSE 'fail' END AS "bucket"
  FROM "grades" AS "t0"
  WHERE
    (
      "t0"."score"
    ) IS NOT NULL
) AS "t1"
GROUP BY
  1

-- where in an aggregate
SELECT
  "t0"."team",
  COUNT(*) FILTER(WHERE
    "t0"."priority" = 'high') AS "high",
  SUM(CASE WHEN "t0"."closed_at" IS NULL THEN 1 ELSE 0 END) AS "open",
  COUNT(*) AS "all"
FROM "tickets" AS "t0"
GROUP BY
  1

-- topk
SELECT
  "t1"."product_id",
  "t1"."CountStar(orders)"
FROM (
  SELECT
    "t0"."product_id",
    COUNT(*) AS "CountStar(orders)"
  FROM "orders" AS "t0"
  GROUP BY
    1
) AS "t1"
ORDER BY
  "t1"."CountStar(orders)" DESC
LIMIT 3

-- quantile
-- within: 25
SELECT
  QUANTILE_CONT("t0"."amount", CAST(0.75 AS DOUBLE)) AS "Quantile(amount, 0.75)"
FROM "orders" AS "t0"

-- several quantiles
-- within: 25
-- is: SELECT quantile_cont(amount, 0.25), quantile_cont(amount, 0.5), quantile_cont(amount, 0.75) FROM orders
SELECT
  QUANTILE_CONT("t0"."amount", [0.25, 0.5, 0.75]) AS "quantiles"
FROM "orders" AS "t0"

-- window over a group
SELECT
  "t1"."month",
  "t1"."n",
  "t1"."n" - LAG("t1"."n") OVER (ORDER BY "t1"."month" ASC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS "delta"
FROM (
  SELECT
    DATE_TRUNC('MONTH', "t0"."ordered_at") AS "month",
    COUNT(*) AS "n"
  FROM "orders" AS "t0"
  GROUP BY
    1
) AS "t1"

-- fill_null and groups
SELECT
  COALESCE("t0"."gender", 'unknown') AS "gender",
  COUNT(*) AS "n"
FROM "customers" AS "t0"
GROUP BY
  1

-- isin and notin
SELECT
  COUNT(*) AS "CountStar()"
FROM "orders" AS "t0"
WHERE
  "t0"."channel" IN ('web', 'phone') AND NOT (
    "t0"."status" IN ('refunded', 'cancelled')
  )

-- timestamps truncated and cast
SELECT
  CAST("t0"."ts" AS DATE) AS "day",
  COUNT(DISTINCT "t0"."person_id") AS "users",
  COUNT(*) / COUNT(DISTINCT "t0"."person_id") AS "events_per_user"
FROM "events" AS "t0"
WHERE
  "t0"."ts" >= MAKE_TIMESTAMP(2024, 4, 1, 0, 0, 0.0) AND "t0"."ts" < MAKE_TIMESTAMP(2024, 5, 1, 0, 0, 0.0)
GROUP BY
  1

-- make_date in a filter
SELECT
  COUNT(*) AS "n"
FROM "visits" AS "t0"
WHERE
  "t0"."visit_date" BETWEEN MAKE_DATE(2024, 1, 1) AND MAKE_DATE(2024, 3, 31)

-- ifelse and mean
SELECT
  "t0"."diagnosis",
  AVG(CASE WHEN "t0"."readmit" THEN CAST(1 AS TINYINT) ELSE CAST(0 AS TINYINT) END) AS "rate"
FROM "visits" AS "t0"
GROUP BY
  1
HAVING
  COUNT(*) > 5

-- per user, then histogram
SELECT
  "t2"."bucket",
  COUNT(*) AS "CountStar()"
FROM (
  SELECT
    CAST(FLOOR("t1"."total" / 500) AS BIGINT) AS "bucket"
  FROM (
    SELECT
      "t0"."person_id",
      SUM("t0"."amount") AS "total"
    FROM "orders" AS "t0"
    GROUP BY
      1
  ) AS "t1"
) AS "t2"
WHERE
  "t2"."bucket" BETWEEN 0 AND 8
GROUP BY
  1

-- any and all
SELECT
  AVG(CAST("t1"."any_late" AS INT)) AS "share"
FROM (
  SELECT
    "t0"."person_id",
    BOOL_OR("t0"."priority" = 'high') AS "any_late"
  FROM "tickets" AS "t0"
  GROUP BY
    1
) AS "t1"

-- argmax within a user
SELECT
  "t1"."last_status",
  COUNT(*) AS "people"
FROM (
  SELECT
    "t0"."person_id",
    ARG_MAX("t0"."status", "t0"."ordered_at") AS "last_status"
  FROM "orders" AS "t0"
  GROUP BY
    1
) AS "t1"
GROUP BY
  1

-- correlation
SELECT
  CORR("t0"."systolic", "t0"."cost") AS "Correlation(systolic, cost)"
FROM "visits" AS "t0"

-- mode
SELECT
  MODE("t0"."channel") AS "Mode(channel)"
FROM "orders" AS "t0"

-- head
-- never: it shows people's rows
SELECT
  *
FROM "orders" AS "t0"
LIMIT 5
