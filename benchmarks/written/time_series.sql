-- orders a day
SELECT CAST(ordered_at AS DATE) AS day, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1

-- revenue a month
SELECT date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM orders GROUP BY month ORDER BY month

-- revenue a month as text
SELECT strftime(ordered_at, '%Y-%m') AS month, sum(amount) AS revenue FROM orders GROUP BY month ORDER BY month

-- year and month in two columns
SELECT year(ordered_at) AS y, month(ordered_at) AS m, count(*) AS n FROM orders GROUP BY y, m ORDER BY y, m

-- daily people in March
SELECT ts::DATE AS day, count(DISTINCT person_id) AS dau FROM events WHERE ts >= '2024-03-01' AND ts < '2024-04-01' GROUP BY day ORDER BY day

-- hours of one day
SELECT date_trunc('hour', ts) AS hour, count(*) AS events FROM events WHERE ts::DATE = '2024-03-15' GROUP BY 1 ORDER BY 1

-- by hour of the day
SELECT extract(hour FROM ordered_at) AS hour, count(*) AS orders, avg(amount) AS avg_amount FROM orders GROUP BY 1 ORDER BY 1

-- by weekday, named
SELECT dayname(ordered_at) AS weekday, count(*) AS orders FROM orders GROUP BY 1

-- by weekday, numbered
SELECT date_part('dow', ordered_at) AS dow, count(*) AS orders FROM orders GROUP BY dow ORDER BY dow

-- running revenue
SELECT month, revenue, sum(revenue) OVER (ORDER BY month) AS running
FROM (SELECT date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM orders GROUP BY 1) t ORDER BY month

-- seven day moving average
-- is: SELECT day, n, avg(n) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM (SELECT day, (SELECT count(*) FROM orders WHERE ordered_at::DATE = day) AS n FROM calendar WHERE day >= '2024-06-01' AND day < '2024-07-01')
WITH daily AS (SELECT CAST(ordered_at AS DATE) AS day, count(*) AS orders FROM orders WHERE ordered_at >= '2024-06-01' AND ordered_at < '2024-07-01' GROUP BY 1)
SELECT day, orders, avg(orders) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS ma7 FROM daily ORDER BY day

-- last thirty days
SELECT CAST(ordered_at AS DATE) AS day, count(*) AS orders FROM orders WHERE ordered_at >= current_date - INTERVAL 30 DAY GROUP BY 1 ORDER BY 1

-- this year, by now()
SELECT date_trunc('month', ordered_at) AS month, count(*) AS n FROM orders WHERE ordered_at >= date_trunc('year', now()) AND ordered_at <= now() GROUP BY 1 ORDER BY 1

-- weeks with the revenue by channel
SELECT date_trunc('week', ordered_at) AS week, channel, sum(amount) AS revenue FROM orders
WHERE ordered_at BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY week, channel ORDER BY week, channel

-- monthly, wide by status
SELECT date_trunc('month', ordered_at) AS month, sum(CASE WHEN status = 'paid' THEN amount ELSE 0 END) AS paid,
       sum(CASE WHEN status = 'refunded' THEN amount ELSE 0 END) AS refunded FROM orders GROUP BY 1 ORDER BY 1

-- average blood pressure by month
SELECT date_trunc('month', visit_date) AS month, avg(systolic) AS avg_systolic, count(*) AS visits FROM visits GROUP BY 1 ORDER BY 1

-- tickets opened a week
SELECT date_trunc('week', opened_at) AS week, count(*) AS opened, count(*) FILTER (WHERE priority = 'high') AS high
FROM tickets WHERE opened_at >= DATE '2024-01-01' AND opened_at < DATE '2024-07-01' GROUP BY week ORDER BY week

-- hours to close by month
SELECT date_trunc('month', opened_at) AS month, avg(least(date_diff('hour', opened_at, closed_at), 240)) AS hours
FROM tickets WHERE closed_at IS NOT NULL GROUP BY 1 ORDER BY 1

-- days with a calendar
SELECT c.day, count(o.order_id) AS orders FROM calendar c LEFT JOIN orders o ON CAST(o.ordered_at AS DATE) = c.day
WHERE c.day BETWEEN '2024-01-01' AND '2024-01-31' GROUP BY c.day ORDER BY c.day

-- fiscal months from a calendar
SELECT c.fiscal_month, sum(o.amount) AS revenue FROM orders o JOIN calendar c ON c.day = o.ordered_at::DATE GROUP BY 1 ORDER BY 1

-- holidays against other days
SELECT c.is_holiday, count(*) AS orders FROM orders o JOIN calendar c ON c.day = CAST(o.ordered_at AS DATE) GROUP BY c.is_holiday

-- time buckets of six hours
SELECT time_bucket(INTERVAL '6 hours', ts) AS bucket, count(*) AS n FROM events WHERE ts >= '2024-02-01' AND ts < '2024-02-08' GROUP BY bucket ORDER BY bucket

-- best month
SELECT date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM orders GROUP BY 1 ORDER BY revenue DESC LIMIT 1

-- growth over the month before
WITH m AS (SELECT date_trunc('month', ordered_at) AS month, sum(amount) AS revenue FROM orders GROUP BY 1)
SELECT month, revenue, revenue / lag(revenue) OVER (ORDER BY month) - 1 AS growth FROM m ORDER BY month

-- quarters by name
SELECT 'Q' || quarter(ordered_at) AS q, sum(amount) AS revenue FROM orders GROUP BY 1 ORDER BY 1

-- new and returning buyers a month
WITH o AS (SELECT person_id, ordered_at, min(ordered_at) OVER (PARTITION BY person_id) AS first_at FROM orders)
SELECT date_trunc('month', ordered_at) AS month, count(DISTINCT CASE WHEN ordered_at = first_at THEN person_id END) AS new,
       count(DISTINCT CASE WHEN ordered_at > first_at THEN person_id END) AS returning FROM o GROUP BY 1 ORDER BY 1

-- scores submitted a day before the exam
SELECT submitted_at::DATE AS day, avg(score) AS avg_score FROM grades WHERE submitted_at BETWEEN '2024-06-01' AND '2024-06-15' GROUP BY day ORDER BY day

-- the time of the last order
-- never: it is one person's
SELECT max(ordered_at) AS last_order FROM orders
