-- this month against the last, side by side
SELECT sum(CASE WHEN ordered_at >= '2024-06-01' AND ordered_at < '2024-07-01' THEN amount END) AS june,
       sum(CASE WHEN ordered_at >= '2024-05-01' AND ordered_at < '2024-06-01' THEN amount END) AS may FROM orders

-- growth in one number
SELECT sum(amount) FILTER (WHERE month(ordered_at) = 6) / sum(amount) FILTER (WHERE month(ordered_at) = 5) - 1 AS growth
FROM orders WHERE ordered_at BETWEEN '2024-05-01' AND '2024-06-30'

-- year over year by month
SELECT month(ordered_at) AS m, sum(amount) FILTER (WHERE year(ordered_at) = 2023) AS y2023, sum(amount) FILTER (WHERE year(ordered_at) = 2024) AS y2024
FROM orders GROUP BY m ORDER BY m

-- year over year by self-join of a CTE
WITH m AS (SELECT year(ordered_at) AS y, month(ordered_at) AS mo, sum(amount) AS revenue FROM orders GROUP BY 1, 2)
SELECT a.mo, a.revenue AS y2024, b.revenue AS y2023, a.revenue - b.revenue AS diff
FROM m a JOIN m b ON a.mo = b.mo AND b.y = a.y - 1 WHERE a.y = 2024 ORDER BY a.mo

-- month over month with lag
SELECT month, n, n - lag(n) OVER (ORDER BY month) AS change
FROM (SELECT date_trunc('month', ts) AS month, count(*) AS n FROM events GROUP BY 1) ORDER BY month

-- month over month with lag in one SELECT
SELECT date_trunc('month', ordered_at) AS month, count(*) AS n, lag(count(*)) OVER (ORDER BY date_trunc('month', ordered_at)) AS before
FROM orders GROUP BY 1 ORDER BY 1

-- same weekday last week
-- is: SELECT day, n, lag(n, 7) OVER (ORDER BY day) FROM (SELECT day, (SELECT count(*) FROM orders WHERE ordered_at::DATE = day) AS n FROM calendar WHERE day >= '2024-05-01' AND day < '2024-06-01')
WITH d AS (SELECT ordered_at::DATE AS day, count(*) AS n FROM orders WHERE ordered_at >= '2024-05-01' AND ordered_at < '2024-06-01' GROUP BY 1)
SELECT day, n, lag(n, 7) OVER (ORDER BY day) AS week_before FROM d ORDER BY day

-- two weeks by UNION ALL
SELECT 'this' AS period, count(*) AS orders, sum(amount) AS revenue FROM orders WHERE ordered_at >= '2024-06-08' AND ordered_at < '2024-06-15'
UNION ALL
SELECT 'last', count(*), sum(amount) FROM orders WHERE ordered_at >= '2024-06-01' AND ordered_at < '2024-06-08'

-- period as CASE
SELECT CASE WHEN ordered_at >= '2024-06-08' THEN 'this' ELSE 'last' END AS period, count(*) AS orders, avg(amount) AS aov
FROM orders WHERE ordered_at >= '2024-06-01' AND ordered_at < '2024-06-15' GROUP BY period

-- scalar subqueries side by side
SELECT (SELECT count(*) FROM orders WHERE ordered_at < '2024-07-01') AS h1, (SELECT count(*) FROM orders WHERE ordered_at >= '2024-07-01') AS h2

-- before and after a change, per person
SELECT avg(after_n - before_n) AS avg_change FROM (
  SELECT person_id, count(*) FILTER (WHERE ordered_at < '2024-07-01') AS before_n, count(*) FILTER (WHERE ordered_at >= '2024-07-01') AS after_n
  FROM orders GROUP BY person_id)

-- people who spend more than before
SELECT count(*) FILTER (WHERE s2 > s1) AS more, count(*) FILTER (WHERE s2 < s1) AS less FROM (
  SELECT person_id, sum(CASE WHEN ordered_at < '2024-07-01' THEN amount ELSE 0 END) AS s1, sum(CASE WHEN ordered_at >= '2024-07-01' THEN amount ELSE 0 END) AS s2
  FROM orders GROUP BY person_id)

-- share of total by segment and half-year
SELECT CASE WHEN month(o.ordered_at) <= 6 THEN 'H1' ELSE 'H2' END AS half, c.segment, sum(o.amount) AS revenue
FROM orders o JOIN customers c USING (person_id) WHERE year(o.ordered_at) = 2024 GROUP BY 1, 2

-- against the average of all months
WITH m AS (SELECT date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM orders GROUP BY 1)
SELECT month, revenue, revenue - avg(revenue) OVER () AS above_average FROM m ORDER BY month

-- best month of each year
WITH m AS (SELECT year(ordered_at) AS y, month(ordered_at) AS mo, count(*) AS n FROM orders WHERE ordered_at >= '2023-01-01' AND ordered_at < '2025-01-01' GROUP BY 1, 2)
SELECT y, mo, n FROM m QUALIFY row_number() OVER (PARTITION BY y ORDER BY n DESC) = 1

-- index against January
WITH m AS (SELECT date_trunc('month', ordered_at) AS month, count(*) AS n FROM orders WHERE ordered_at >= '2024-01-01' AND ordered_at < '2025-01-01' GROUP BY 1)
SELECT month, 100.0 * n / first_value(n) OVER (ORDER BY month) AS idx FROM m ORDER BY month

-- score of the second attempt against the first
SELECT avg(b.score - a.score) AS gain FROM grades a JOIN grades b ON a.person_id = b.person_id AND a.course_id = b.course_id
WHERE a.attempt = 1 AND b.attempt = 2

-- change between terms per student
SELECT avg(s2 - s1) AS change FROM (
  SELECT person_id, avg(score) FILTER (WHERE term = '2024S1') AS s1, avg(score) FILTER (WHERE term = '2024S2') AS s2 FROM grades GROUP BY person_id)
WHERE s1 IS NOT NULL AND s2 IS NOT NULL

-- blood pressure at the first and the last visit
SELECT avg(last_bp - first_bp) AS change FROM (
  SELECT person_id, arg_min(systolic, visit_date) AS first_bp, arg_max(systolic, visit_date) AS last_bp FROM visits GROUP BY person_id)

-- the same by first_value
SELECT avg(l - f) AS change FROM (SELECT DISTINCT person_id, first_value(systolic) OVER w AS f, last_value(systolic) OVER w AS l FROM visits
  WINDOW w AS (PARTITION BY person_id ORDER BY visit_date ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING))

-- weekday against weekend
SELECT dayofweek(ordered_at) IN (0, 6) AS weekend, count(*) AS orders, avg(amount) AS aov FROM orders GROUP BY 1

-- quarter to date against the quarter before
SELECT count(*) FILTER (WHERE ordered_at >= date_trunc('quarter', DATE '2024-08-15') AND ordered_at < DATE '2024-08-15') AS qtd,
       count(*) FILTER (WHERE ordered_at >= date_trunc('quarter', DATE '2024-08-15') - INTERVAL 3 MONTH AND ordered_at < DATE '2024-08-15' - INTERVAL 3 MONTH) AS before FROM orders

-- last seven days against the seven before
SELECT count(*) FILTER (WHERE ts >= current_date - 7) AS this_week, count(*) FILTER (WHERE ts >= current_date - 14 AND ts < current_date - 7) AS last_week FROM events

-- first half against second half by channel, ratio
SELECT channel, count(*) FILTER (WHERE ordered_at >= '2024-07-01') * 1.0 / nullif(count(*) FILTER (WHERE ordered_at < '2024-07-01' AND ordered_at >= '2024-01-01'), 0) AS ratio
FROM orders GROUP BY channel ORDER BY ratio DESC

-- time since the order before, by month
SELECT date_trunc('month', ordered_at) AS month, avg(least(gap, 365)) AS avg_gap FROM (
  SELECT ordered_at, date_diff('day', lag(ordered_at) OVER (PARTITION BY person_id ORDER BY ordered_at), ordered_at) AS gap FROM orders)
WHERE gap IS NOT NULL GROUP BY 1 ORDER BY 1

-- PIVOT of channels by half-year
PIVOT (SELECT channel, quarter(ordered_at) AS q, person_id FROM orders WHERE year(ordered_at) = 2024) ON q IN (1, 2, 3, 4) USING count(*) GROUP BY channel

-- each person's change
-- never: it lists people
SELECT person_id, sum(amount) FILTER (WHERE year(ordered_at) = 2024) - sum(amount) FILTER (WHERE year(ordered_at) = 2023) AS change FROM orders GROUP BY person_id
