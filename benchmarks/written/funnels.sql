-- steps of a funnel, people
SELECT event, count(DISTINCT person_id) AS people FROM events
WHERE event IN ('view', 'add_to_cart', 'checkout', 'purchase') GROUP BY event

-- one row funnel
SELECT count(DISTINCT CASE WHEN event = 'view' THEN person_id END) AS viewed,
       count(DISTINCT CASE WHEN event = 'add_to_cart' THEN person_id END) AS carted,
       count(DISTINCT CASE WHEN event = 'purchase' THEN person_id END) AS bought
FROM events

-- ordered funnel with flags
WITH steps AS (SELECT person_id, min(CASE WHEN event = 'view' THEN ts END) AS t1,
                      min(CASE WHEN event = 'add_to_cart' THEN ts END) AS t2,
                      min(CASE WHEN event = 'purchase' THEN ts END) AS t3 FROM events GROUP BY person_id)
SELECT count(t1) AS viewed, count(CASE WHEN t2 > t1 THEN 1 END) AS carted,
       count(CASE WHEN t2 > t1 AND t3 > t2 THEN 1 END) AS bought FROM steps

-- the same with FILTER
WITH steps AS (SELECT person_id, min(ts) FILTER (WHERE event = 'view') AS viewed_at,
                      min(ts) FILTER (WHERE event = 'checkout') AS checkout_at FROM events GROUP BY person_id)
SELECT count(*) FILTER (viewed_at IS NOT NULL) AS viewed, count(*) FILTER (checkout_at > viewed_at) AS checked_out FROM steps

-- conversion by device
SELECT device, count(DISTINCT person_id) FILTER (WHERE event = 'purchase') * 1.0 / count(DISTINCT person_id) AS conversion
FROM events GROUP BY device ORDER BY conversion DESC

-- carts that were left, with NOT EXISTS
SELECT count(DISTINCT e.person_id) AS abandoned FROM events e
WHERE e.event = 'add_to_cart' AND NOT EXISTS (
  SELECT 1 FROM events p WHERE p.person_id = e.person_id AND p.event = 'purchase' AND p.ts > e.ts)

-- carts that were left, with NOT IN
SELECT count(DISTINCT person_id) AS abandoned FROM events
WHERE event = 'add_to_cart' AND person_id NOT IN (SELECT person_id FROM events WHERE event = 'purchase')

-- purchase within a day of the first view
WITH v AS (SELECT person_id, min(ts) AS at FROM events WHERE event = 'view' GROUP BY 1),
     p AS (SELECT person_id, min(ts) AS at FROM events WHERE event = 'purchase' GROUP BY 1)
SELECT count(*) AS viewers, count(p.person_id) AS buyers,
       sum(CASE WHEN p.at <= v.at + INTERVAL '1 day' THEN 1 ELSE 0 END) AS within_a_day
FROM v LEFT JOIN p ON p.person_id = v.person_id AND p.at >= v.at

-- hours from cart to purchase, in bands
WITH c AS (SELECT person_id, min(ts) AS cart_at FROM events WHERE event = 'add_to_cart' GROUP BY 1),
     p AS (SELECT person_id, min(ts) AS buy_at FROM events WHERE event = 'purchase' GROUP BY 1)
SELECT CASE WHEN date_diff('hour', cart_at, buy_at) < 1 THEN '<1h' WHEN date_diff('hour', cart_at, buy_at) < 24 THEN '<1d' ELSE '1d+' END AS lag, count(*) AS n
FROM c JOIN p ON c.person_id = p.person_id WHERE buy_at >= cart_at GROUP BY 1

-- what comes after a search
SELECT next_event, count(*) AS n
FROM (SELECT event, lead(event) OVER (PARTITION BY person_id ORDER BY ts) AS next_event FROM events)
WHERE event = 'search' GROUP BY next_event ORDER BY n DESC

-- transitions between events
SELECT event, next_event, count(*) AS n
FROM (SELECT event, lead(event) OVER (PARTITION BY person_id ORDER BY ts) AS next_event FROM events)
WHERE next_event IS NOT NULL GROUP BY event, next_event

-- funnel as rows with UNION ALL
SELECT '1 view' AS step, count(DISTINCT person_id) AS people FROM events WHERE event = 'view'
UNION ALL SELECT '2 cart', count(DISTINCT person_id) FROM events WHERE event = 'add_to_cart'
UNION ALL SELECT '3 purchase', count(DISTINCT person_id) FROM events WHERE event = 'purchase'

-- share of the step before
WITH f AS (SELECT count(DISTINCT person_id) FILTER (WHERE event = 'view') AS a,
                  count(DISTINCT person_id) FILTER (WHERE event = 'checkout') AS b FROM events)
SELECT a, b, round(100.0 * b / a, 1) AS pct FROM f

-- people by how far they got
SELECT furthest, count(*) AS people
FROM (SELECT person_id, max(CASE event WHEN 'view' THEN 1 WHEN 'add_to_cart' THEN 2 WHEN 'checkout' THEN 3 WHEN 'purchase' THEN 4 ELSE 0 END) AS furthest
      FROM events GROUP BY person_id)
GROUP BY furthest ORDER BY furthest

-- sign-up to first order in days
SELECT width_bucket(days, 0, 90, 9) AS bucket, count(*) AS n
FROM (SELECT c.person_id, date_diff('day', c.signup_date, min(o.ordered_at)) AS days
      FROM customers c JOIN orders o ON o.person_id = c.person_id GROUP BY c.person_id, c.signup_date)
GROUP BY bucket ORDER BY bucket

-- searchers who bought, IN
SELECT count(DISTINCT person_id) AS n FROM events
WHERE event = 'search' AND person_id IN (SELECT person_id FROM orders WHERE status = 'paid')

-- funnel by plan through a join
SELECT c.plan, count(DISTINCT e.person_id) AS visitors, count(DISTINCT o.person_id) AS buyers
FROM customers c LEFT JOIN events e ON e.person_id = c.person_id LEFT JOIN orders o ON o.person_id = c.person_id
GROUP BY c.plan

-- viewers that bought and viewers that did not, in one go
SELECT EXISTS (SELECT 1 FROM orders o WHERE o.person_id = v.person_id) AS bought, count(*) AS people
FROM (SELECT DISTINCT person_id FROM events WHERE event = 'view') v GROUP BY 1

-- order status funnel
SELECT status, count(*) AS orders, round(count(*) * 100.0 / sum(count(*)) OVER (), 2) AS pct FROM orders GROUP BY status

-- tickets: opened, closed, rated
SELECT count(*) AS opened, count(closed_at) AS closed, count(rating) AS rated,
       count(closed_at) / count(*) AS close_rate FROM tickets

-- enrolled, submitted, passed
SELECT term, count(DISTINCT person_id) AS enrolled, count(DISTINCT person_id) FILTER (WHERE score IS NOT NULL) AS graded,
       count(DISTINCT person_id) FILTER (WHERE passed) AS passed FROM grades GROUP BY term ORDER BY term

-- visit followed by readmission within 30 days
SELECT count(*) AS discharges, count(*) FILTER (WHERE next_visit <= visit_date + 30) AS back_in_30
FROM (SELECT visit_date, lead(visit_date) OVER (PARTITION BY person_id ORDER BY visit_date) AS next_visit FROM visits)

-- monthly funnel
SELECT date_trunc('month', ts) AS month, count(DISTINCT person_id) FILTER (WHERE event = 'view') AS views,
       count(DISTINCT person_id) FILTER (WHERE event = 'purchase') AS purchases
FROM events WHERE ts >= TIMESTAMP '2024-01-01' AND ts < TIMESTAMP '2024-07-01' GROUP BY month ORDER BY month

-- last event before leaving
SELECT event, count(*) AS people
FROM (SELECT person_id, event, row_number() OVER (PARTITION BY person_id ORDER BY ts DESC) AS rn FROM events)
WHERE rn = 1 GROUP BY event

-- who dropped out at checkout
-- never: it lists people
SELECT DISTINCT person_id FROM events WHERE event = 'checkout'
EXCEPT SELECT DISTINCT person_id FROM events WHERE event = 'purchase'

-- how many dropped out at checkout, by EXCEPT
SELECT count(*) AS dropped FROM (
  SELECT DISTINCT person_id FROM events WHERE event = 'checkout'
  EXCEPT SELECT DISTINCT person_id FROM events WHERE event = 'purchase')
