-- What was our revenue last quarter compared with the one before?
WITH current_quarter AS (
  SELECT SUM(amount) AS revenue FROM orders WHERE ordered_at >= '2024-10-01' AND ordered_at < '2025-01-01'
), previous_quarter AS (
  SELECT SUM(amount) AS revenue FROM orders WHERE ordered_at >= '2024-07-01' AND ordered_at < '2024-10-01'
)
SELECT c.revenue AS current_revenue, p.revenue AS previous_revenue, ROUND(((c.revenue - p.revenue) / NULLIF(p.revenue, 0)) * 100, 2) AS pct_change
FROM current_quarter c CROSS JOIN previous_quarter p

-- How many unique orders did we get in 2024?
SELECT COUNT(DISTINCT order_id) AS total_orders FROM orders WHERE EXTRACT(YEAR FROM ordered_at) = 2024

-- Average orders per customer, customers without orders included
SELECT ROUND(AVG(order_count), 2) AS avg_orders
FROM (SELECT c.person_id, COUNT(o.order_id) AS order_count FROM customers c LEFT JOIN orders o ON c.person_id = o.person_id GROUP BY c.person_id) AS customer_orders

-- Orders above average order value, by channel
SELECT channel, COUNT(*) AS orders_above_average
FROM orders
WHERE amount > (SELECT AVG(amount) FROM orders)
GROUP BY channel
ORDER BY orders_above_average DESC

-- Products that sell more than the average product
-- is: WITH s AS (SELECT product_id, SUM(quantity) AS units FROM orders GROUP BY product_id UNION ALL SELECT NULL, 0) SELECT product_id, units FROM s WHERE units > (SELECT AVG(units) FROM s) ORDER BY units DESC
WITH product_sales AS (SELECT product_id, SUM(quantity) AS units FROM orders GROUP BY product_id)
SELECT product_id, units FROM product_sales WHERE units > (SELECT AVG(units) FROM product_sales) ORDER BY units DESC

-- Customers who spent more than the average customer
WITH customer_spend AS (SELECT person_id, SUM(amount) AS total FROM orders GROUP BY person_id)
SELECT COUNT(*) AS above_average FROM customer_spend WHERE total > (SELECT AVG(total) FROM customer_spend)

-- Retention cohort table
WITH first_purchase AS (
  SELECT person_id, DATE_TRUNC('month', MIN(ordered_at)) AS cohort_month FROM orders GROUP BY person_id
), activity AS (
  SELECT o.person_id, f.cohort_month, DATE_DIFF('month', f.cohort_month, DATE_TRUNC('month', o.ordered_at)) AS month_number
  FROM orders o JOIN first_purchase f ON o.person_id = f.person_id
  WHERE f.cohort_month >= '2024-01-01' AND f.cohort_month < '2024-07-01'
)
SELECT cohort_month, month_number, COUNT(DISTINCT person_id) AS active
FROM activity
WHERE month_number BETWEEN 0 AND 5
GROUP BY cohort_month, month_number
ORDER BY cohort_month, month_number

-- Retention in percent of the cohort's size
WITH cohort AS (
  SELECT person_id, DATE_TRUNC('quarter', MIN(ordered_at)) AS q FROM orders GROUP BY 1
), sizes AS (SELECT q, COUNT(*) AS size FROM cohort GROUP BY q),
back AS (
  SELECT c.q, COUNT(DISTINCT o.person_id) AS returned FROM cohort c JOIN orders o ON o.person_id = c.person_id AND o.ordered_at >= c.q + INTERVAL '3 months' GROUP BY c.q
)
SELECT s.q, s.size, COALESCE(b.returned, 0) AS returned, ROUND(100.0 * COALESCE(b.returned, 0) / s.size, 1) AS pct
FROM sizes s LEFT JOIN back b ON s.q = b.q
WHERE s.q >= '2023-01-01' AND s.q < '2024-01-01'
ORDER BY s.q

-- Which weekday has the highest average order value?
SELECT DAYNAME(ordered_at) AS day_name, AVG(amount) AS avg_order_value, COUNT(*) AS n FROM orders GROUP BY DAYNAME(ordered_at), EXTRACT(DOW FROM ordered_at) ORDER BY avg_order_value DESC LIMIT 1

-- Churn rate
SELECT 1.0 - COUNT(DISTINCT b.person_id) * 1.0 / COUNT(DISTINCT a.person_id) AS churn_rate
FROM orders a LEFT JOIN orders b ON a.person_id = b.person_id AND b.ordered_at >= '2024-07-01' AND b.ordered_at < '2025-01-01'
WHERE a.ordered_at >= '2024-01-01' AND a.ordered_at < '2024-07-01'

-- Top 3 products in each channel
WITH ranked AS (
  SELECT channel, product_id, SUM(amount) AS revenue, ROW_NUMBER() OVER (PARTITION BY channel ORDER BY SUM(amount) DESC) AS rn
  FROM orders GROUP BY channel, product_id
)
SELECT channel, product_id, revenue FROM ranked WHERE rn <= 3 ORDER BY channel, rn

-- Daily active, weekly active and the ratio
-- is: SELECT day, (SELECT count(DISTINCT person_id) FROM events WHERE ts::DATE = day) AS dau, (SELECT count(DISTINCT person_id) FROM events WHERE ts::DATE BETWEEN day - 6 AND day) AS wau FROM calendar WHERE day >= '2024-03-01' AND day < '2024-03-08'
SELECT d.day,
  (SELECT COUNT(DISTINCT e.person_id) FROM events e WHERE CAST(e.ts AS DATE) = d.day) AS dau,
  (SELECT COUNT(DISTINCT e.person_id) FROM events e WHERE CAST(e.ts AS DATE) BETWEEN d.day - 6 AND d.day) AS wau
FROM calendar d
WHERE d.day >= '2024-03-01' AND d.day < '2024-03-08'
ORDER BY d.day

-- Average time to first purchase after signing up
SELECT AVG(DATE_DIFF('day', c.signup_date, f.first_order)) AS avg_days
FROM customers c
JOIN (SELECT person_id, MIN(ordered_at) AS first_order FROM orders GROUP BY person_id) f ON f.person_id = c.person_id
WHERE f.first_order >= c.signup_date

-- Median days between consecutive orders
-- within: 20
WITH gaps AS (
  SELECT person_id, DATE_DIFF('day', LAG(ordered_at) OVER (PARTITION BY person_id ORDER BY ordered_at), ordered_at) AS days
  FROM orders
)
SELECT MEDIAN(days) AS median_gap FROM gaps WHERE days IS NOT NULL

-- Average days between consecutive orders
WITH gaps AS (
  SELECT person_id, DATE_DIFF('day', LAG(ordered_at) OVER (PARTITION BY person_id ORDER BY ordered_at), ordered_at) AS days
  FROM orders
)
SELECT AVG(days) AS avg_gap FROM gaps WHERE days IS NOT NULL

-- Which customers are at risk? How many by plan
SELECT c.plan, COUNT(*) AS at_risk
FROM customers c
JOIN (SELECT person_id, MAX(ordered_at) AS last_order FROM orders GROUP BY person_id) l ON l.person_id = c.person_id
WHERE l.last_order < TIMESTAMP '2025-01-01' - INTERVAL '180 days'
GROUP BY c.plan
ORDER BY at_risk DESC

-- Age of customers
SELECT AVG(EXTRACT(YEAR FROM DATE '2024-12-31') - birth_year) AS avg_age FROM customers

-- Customers by tenure
SELECT CASE WHEN EXTRACT(YEAR FROM AGE(TIMESTAMP '2025-01-01', signup_date)) >= 1 THEN 'a year or more' ELSE 'less than a year' END AS tenure, COUNT(*) AS customers FROM customers GROUP BY 1

-- Share of repeat customers
SELECT ROUND(100.0 * SUM(CASE WHEN order_count > 1 THEN 1 ELSE 0 END) / COUNT(*), 2) AS repeat_customer_pct
FROM (SELECT person_id, COUNT(*) AS order_count FROM orders GROUP BY person_id) t

-- Month with the highest growth
WITH monthly AS (
  SELECT DATE_TRUNC('month', ordered_at) AS month, SUM(amount) AS revenue FROM orders WHERE ordered_at >= '2023-01-01' AND ordered_at < '2025-01-01' GROUP BY 1
), growth AS (
  SELECT month, revenue, (revenue - LAG(revenue) OVER (ORDER BY month)) / LAG(revenue) OVER (ORDER BY month) * 100 AS growth_pct FROM monthly
)
SELECT month, ROUND(growth_pct, 1) AS growth_pct FROM growth WHERE growth_pct IS NOT NULL ORDER BY growth_pct DESC LIMIT 1

-- Revenue by city
SELECT city, SUM(amount) AS revenue FROM orders JOIN customers USING (person_id) GROUP BY city ORDER BY revenue DESC LIMIT 10

-- Visits by clinic
SELECT clinic_id, COUNT(*) AS visits FROM visits GROUP BY clinic_id ORDER BY visits DESC LIMIT 3

-- Visits by clinic's name
SELECT cl.clinic_id, cl.city, COUNT(*) AS visits, AVG(v.cost) AS avg_cost FROM visits v JOIN clinics cl ON v.clinic_id = cl.clinic_id GROUP BY cl.clinic_id, cl.city ORDER BY visits DESC

-- Visits by the equated column
SELECT v.clinic_id, COUNT(*) AS visits FROM visits v JOIN clinics cl ON v.clinic_id = cl.clinic_id WHERE cl.region = 'north' GROUP BY v.clinic_id

-- Courses with a low pass rate
SELECT g.course_id, c.title, ROUND(AVG(CASE WHEN g.passed THEN 1.0 ELSE 0.0 END) * 100, 1) AS pass_rate
FROM grades g JOIN courses c ON g.course_id = c.course_id GROUP BY g.course_id, c.title HAVING AVG(CASE WHEN g.passed THEN 1.0 ELSE 0.0 END) < 0.9 ORDER BY pass_rate

-- Credits earned by a student on average
SELECT AVG(credits_earned) AS avg_credits FROM (
  SELECT g.person_id, SUM(c.credits) AS credits_earned FROM grades g JOIN courses c ON g.course_id = c.course_id WHERE g.passed GROUP BY g.person_id) s

-- First response in working days
SELECT team, AVG(CASE WHEN closed_at IS NOT NULL THEN DATE_DIFF('hour', opened_at, closed_at) END) AS avg_hours, COUNT(*) FILTER (WHERE closed_at IS NULL) AS still_open
FROM tickets GROUP BY team ORDER BY avg_hours DESC NULLS LAST

-- People by number of channels used
SELECT channels_used, COUNT(*) AS people, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct
FROM (SELECT person_id, COUNT(DISTINCT channel) AS channels_used FROM orders GROUP BY person_id) t GROUP BY channels_used ORDER BY channels_used

-- Ordered on the web and in the store
SELECT COUNT(*) AS omnichannel FROM (
  SELECT person_id FROM orders WHERE channel IN ('web', 'store') GROUP BY person_id HAVING COUNT(DISTINCT channel) = 2) t

-- Basket of products of one person as an array
SELECT COUNT(*) AS both FROM (SELECT person_id, ARRAY_AGG(DISTINCT product_id) AS products FROM orders GROUP BY person_id) t WHERE list_contains(products, 1) AND list_contains(products, 2)

-- Share of revenue of the top category
SELECT MAX(revenue) / SUM(revenue) AS share FROM (SELECT p.category, SUM(o.amount) AS revenue FROM orders o JOIN products p USING (product_id) GROUP BY p.category) t

-- Standard deviation of monthly revenue
SELECT STDDEV(revenue) AS sd FROM (SELECT DATE_TRUNC('month', ordered_at) AS m, SUM(amount) AS revenue FROM orders WHERE ordered_at >= '2023-01-01' AND ordered_at < '2025-01-01' GROUP BY 1) t

-- The day with most orders
SELECT CAST(ordered_at AS DATE) AS day, COUNT(*) AS n FROM orders WHERE ordered_at >= '2024-06-01' AND ordered_at < '2024-07-01' GROUP BY day HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders WHERE ordered_at >= '2024-06-01' AND ordered_at < '2024-07-01' GROUP BY CAST(ordered_at AS DATE)) t)

-- Ten best customers
-- never: it lists people
SELECT c.person_id, c.city, SUM(o.amount) AS total FROM customers c JOIN orders o ON c.person_id = o.person_id GROUP BY c.person_id, c.city ORDER BY total DESC LIMIT 10

-- Revenue share of the top tenth of customers
-- never: who is in the top tenth hangs on everybody's totals together
WITH t AS (SELECT person_id, SUM(amount) AS total, NTILE(10) OVER (ORDER BY SUM(amount) DESC) AS decile FROM orders GROUP BY person_id)
SELECT SUM(CASE WHEN decile = 1 THEN total END) / SUM(total) AS share FROM t

-- Schema look-up
-- never: it shows people's rows
SELECT DISTINCT city, country FROM customers LIMIT 20
