-- day 1, 7, 30 retention
WITH first AS (SELECT person_id, min(CAST(ts AS DATE)) AS d0 FROM events GROUP BY person_id)
SELECT date_diff('day', f.d0, CAST(e.ts AS DATE)) AS day_n, count(DISTINCT e.person_id) AS people
FROM events e JOIN first f ON e.person_id = f.person_id
WHERE date_diff('day', f.d0, CAST(e.ts AS DATE)) IN (0, 1, 7, 30) GROUP BY 1 ORDER BY 1

-- active in January and in February
SELECT count(*) AS retained FROM (
  SELECT person_id FROM orders WHERE ordered_at >= '2024-01-01' AND ordered_at < '2024-02-01'
  INTERSECT
  SELECT person_id FROM orders WHERE ordered_at >= '2024-02-01' AND ordered_at < '2024-03-01')

-- the same with a join
SELECT count(DISTINCT a.person_id) AS retained FROM orders a JOIN orders b ON a.person_id = b.person_id
WHERE a.ordered_at >= '2024-01-01' AND a.ordered_at < '2024-02-01' AND b.ordered_at >= '2024-02-01' AND b.ordered_at < '2024-03-01'

-- the same with IN
SELECT count(DISTINCT person_id) AS retained FROM orders
WHERE month(ordered_at) = 2 AND year(ordered_at) = 2024
  AND person_id IN (SELECT person_id FROM orders WHERE month(ordered_at) = 1 AND year(ordered_at) = 2024)

-- month over month retention
WITH m AS (SELECT DISTINCT person_id, date_trunc('month', ordered_at) AS month FROM orders)
SELECT a.month, count(*) AS active, count(b.person_id) AS came_back
FROM m a LEFT JOIN m b ON a.person_id = b.person_id AND b.month = a.month + INTERVAL 1 MONTH
GROUP BY a.month ORDER BY a.month

-- the same with lead
WITH m AS (SELECT DISTINCT person_id, date_trunc('month', ordered_at) AS month FROM orders),
     n AS (SELECT person_id, month, lead(month) OVER (PARTITION BY person_id ORDER BY month) AS next_month FROM m)
SELECT month, count(*) AS active, count(CASE WHEN next_month = month + INTERVAL 1 MONTH THEN 1 END) * 1.0 / count(*) AS retention
FROM n GROUP BY month ORDER BY month

-- churned: no order in the last quarter
SELECT count(*) AS churned FROM customers c
WHERE c.person_id NOT IN (SELECT o.person_id FROM orders o WHERE o.ordered_at >= '2024-10-01')

-- churned by plan, with an anti join
SELECT c.plan, count(*) AS churned FROM customers c
LEFT JOIN orders o ON o.person_id = c.person_id AND o.ordered_at >= '2024-10-01'
WHERE o.person_id IS NULL GROUP BY c.plan

-- churned with ANTI JOIN
SELECT plan, count(*) AS churned FROM customers ANTI JOIN (SELECT person_id FROM orders WHERE ordered_at >= '2024-10-01') o USING (person_id)
GROUP BY plan

-- kept with SEMI JOIN
SELECT plan, count(*) AS kept FROM customers SEMI JOIN orders USING (person_id) GROUP BY plan

-- resurrected people
WITH m AS (SELECT DISTINCT person_id, date_trunc('month', ordered_at) AS month FROM orders),
     g AS (SELECT person_id, month, lag(month) OVER (PARTITION BY person_id ORDER BY month) AS prev FROM m)
SELECT month, count(*) FILTER (WHERE prev IS NULL) AS new, count(*) FILTER (WHERE prev = month - INTERVAL 1 MONTH) AS kept,
       count(*) FILTER (WHERE prev < month - INTERVAL 1 MONTH) AS resurrected
FROM g GROUP BY month ORDER BY month

-- days between orders
SELECT CASE WHEN gap < 7 THEN 'week' WHEN gap < 30 THEN 'month' WHEN gap < 90 THEN 'quarter' ELSE 'longer' END AS gap, count(*) AS n
FROM (SELECT date_diff('day', lag(ordered_at) OVER (PARTITION BY person_id ORDER BY ordered_at), ordered_at) AS gap FROM orders)
WHERE gap IS NOT NULL GROUP BY 1

-- average days between orders
SELECT avg(gap) AS avg_gap FROM (
  SELECT ordered_at::DATE - lag(ordered_at::DATE) OVER (PARTITION BY person_id ORDER BY ordered_at) AS gap FROM orders) WHERE gap BETWEEN 0 AND 400

-- weekly active people
SELECT date_trunc('week', ts) AS week, count(DISTINCT person_id) AS wau FROM events GROUP BY 1 ORDER BY 1

-- stickiness: days active in a month
WITH d AS (SELECT person_id, count(DISTINCT CAST(ts AS DATE)) AS days FROM events WHERE ts >= '2024-03-01' AND ts < '2024-04-01' GROUP BY person_id)
SELECT days, count(*) AS people FROM d GROUP BY days ORDER BY days

-- average number of active days
SELECT avg(days) AS avg_days FROM (SELECT person_id, count(DISTINCT ts::DATE) AS days FROM events GROUP BY person_id)

-- repeat rate
SELECT count(CASE WHEN n >= 2 THEN 1 END) * 100.0 / count(*) AS repeat_rate
FROM (SELECT person_id, count(*) AS n FROM orders GROUP BY person_id)

-- people by number of orders
SELECT least(n, 10) AS orders, count(*) AS people FROM (SELECT person_id, count(*) AS n FROM orders GROUP BY person_id) GROUP BY 1 ORDER BY 1

-- months in a row
WITH m AS (SELECT DISTINCT person_id, date_trunc('month', ordered_at) AS month FROM orders),
     r AS (SELECT person_id, month, date_diff('month', DATE '2024-01-01', month) - row_number() OVER (PARTITION BY person_id ORDER BY month) AS grp FROM m),
     s AS (SELECT person_id, grp, count(*) AS streak FROM r GROUP BY person_id, grp)
SELECT longest, count(*) AS people FROM (SELECT person_id, max(streak) AS longest FROM s GROUP BY person_id)
WHERE longest BETWEEN 1 AND 12 GROUP BY longest ORDER BY longest

-- last seen
SELECT date_trunc('month', last_seen) AS month, count(*) AS people
FROM (SELECT person_id, max(ts) AS last_seen FROM events GROUP BY person_id) GROUP BY 1 ORDER BY 1

-- students back in the next term
SELECT count(DISTINCT a.person_id) AS back FROM grades a JOIN grades b ON b.person_id = a.person_id
WHERE a.term = '2024S1' AND b.term = '2024S2'

-- patients lost to follow-up
SELECT clinics.region, count(DISTINCT v.person_id) AS lost FROM visits v JOIN clinics USING (clinic_id)
WHERE v.visit_date < '2024-07-01' AND NOT EXISTS (SELECT * FROM visits w WHERE w.person_id = v.person_id AND w.visit_date >= '2024-07-01')
GROUP BY clinics.region

-- readmission within 30 days by diagnosis
SELECT diagnosis, avg(CASE WHEN next_visit - visit_date <= 30 THEN 1.0 ELSE 0.0 END) AS readmission_rate
FROM (SELECT diagnosis, visit_date, lead(visit_date) OVER (PARTITION BY person_id ORDER BY visit_date) AS next_visit FROM visits)
GROUP BY diagnosis

-- plan of those with more than one ticket
SELECT plan, count(*) AS n FROM customers c
WHERE (SELECT count(*) FROM tickets t WHERE t.person_id = c.person_id) > 1 GROUP BY plan

-- people at risk
-- never: it lists people
SELECT person_id, max(ts) AS last_seen FROM events GROUP BY person_id HAVING max(ts) < '2024-06-01'

-- how many are at risk
SELECT count(*) AS at_risk FROM (SELECT person_id FROM events GROUP BY person_id HAVING max(ts) < '2024-10-01')

-- retention curve as a share
WITH first AS (SELECT person_id, min(date_trunc('month', ts)) AS m0 FROM events GROUP BY 1),
     act AS (SELECT DISTINCT e.person_id, date_diff('month', f.m0, e.ts) AS k FROM events e JOIN first f USING (person_id)),
     curve AS (SELECT k, count(*) AS people FROM act WHERE k BETWEEN 0 AND 6 GROUP BY k)
SELECT k, people, people * 1.0 / first_value(people) OVER (ORDER BY k) AS share FROM curve ORDER BY k
