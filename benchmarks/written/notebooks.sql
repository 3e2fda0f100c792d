-- GROUP BY ALL
SELECT country, plan, avg(2024 - birth_year) AS age, count(*) AS n FROM customers GROUP BY ALL ORDER BY ALL

-- FROM first
FROM orders SELECT channel, count(*) AS n GROUP BY channel

-- COLUMNS and EXCLUDE
SELECT channel, count(*) AS n FROM (SELECT * EXCLUDE (coupon) FROM orders) GROUP BY channel

-- SUMMARIZE
-- never: least and greatest values are one person's each
SUMMARIZE orders

-- PIVOT without a list
PIVOT orders ON status USING count(*) GROUP BY channel

-- PIVOT on a year
PIVOT (SELECT channel, year(ordered_at) AS y, amount, person_id FROM orders) ON y USING sum(amount) GROUP BY channel

-- UNPIVOT of an answer
SELECT measure, value FROM (UNPIVOT (SELECT count(*) AS orders, count(delivered_at) AS delivered FROM orders) ON orders, delivered INTO NAME measure VALUE value)

-- lateral alias
SELECT channel, sum(amount) AS revenue, count(*) AS n, revenue / n AS aov FROM orders GROUP BY channel

-- list of bins by VALUES
SELECT b.label, count(o.order_id) AS n
FROM (VALUES ('small', 0, 50), ('medium', 50, 200), ('large', 200, 501)) AS b(label, lo, hi)
LEFT JOIN orders o ON o.amount >= b.lo AND o.amount < b.hi GROUP BY b.label

-- weights by VALUES
SELECT sum(w.weight) AS score FROM tickets t JOIN (VALUES ('low', 1), ('normal', 2), ('high', 5)) AS w(priority, weight) ON t.priority = w.priority

-- hours by range()
SELECT h.range AS hour, count(e.person_id) AS events FROM range(24) h LEFT JOIN events e ON hour(e.ts) = h.range GROUP BY 1 ORDER BY 1

-- months by generate_series
SELECT m::DATE AS month, count(t.ticket_id) AS open_at_start
FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-06-01', INTERVAL 1 MONTH) AS s(m)
LEFT JOIN tickets t ON t.opened_at < m AND (t.closed_at >= m OR t.closed_at IS NULL) GROUP BY 1 ORDER BY 1

-- EXISTS in a FILTER
SELECT count(*) AS customers, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM tickets t WHERE t.person_id = c.person_id)) AS with_ticket FROM customers c

-- EXISTS in a CASE
SELECT CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.person_id = c.person_id AND o.amount > 400) THEN 'big' ELSE 'other' END AS kind, count(*) AS n FROM customers c GROUP BY 1

-- IN in a CASE
SELECT plan, sum(CASE WHEN person_id IN (SELECT person_id FROM tickets WHERE priority = 'high') THEN 1 ELSE 0 END) AS urgent, count(*) AS n FROM customers GROUP BY plan

-- SIMILAR TO
SELECT count(*) AS n FROM tickets WHERE subject SIMILAR TO '(Refund please|LATE)'

-- LIKE with ESCAPE
SELECT count(*) AS n FROM events WHERE page LIKE '/product/!_%' ESCAPE '!' OR page LIKE '/h%'

-- row values
SELECT count(*) AS n FROM customers WHERE (country, plan) IN (('BE', 'pro'), ('SE', 'free'))

-- ANY of a list
SELECT count(*) AS n FROM orders WHERE channel = ANY (['web', 'phone']) AND status <> ALL (['cancelled', 'open'])

-- FETCH FIRST
SELECT channel, count(*) AS n FROM orders GROUP BY channel ORDER BY n DESC FETCH FIRST 2 ROWS ONLY

-- GROUP BY in parentheses
SELECT channel, status, count(*) AS n FROM orders GROUP BY (channel, status)

-- bits
SELECT quantity & 1 AS odd, count(*) AS n FROM orders GROUP BY quantity & 1

-- median inside a person
SELECT avg(med) AS avg_median FROM (SELECT person_id, median(amount) AS med FROM orders GROUP BY person_id)

-- deviation inside a person
SELECT count(*) AS steady FROM (SELECT person_id FROM visits GROUP BY person_id HAVING count(*) > 1 AND stddev(systolic) < 20)

-- initcap and labels
SELECT initcap(status) AS label, count(*) AS n FROM orders GROUP BY 1

-- date arithmetic in days
SELECT count(*) AS slow FROM orders WHERE delivered_at - ordered_at::DATE > 5

-- epoch and modulo
SELECT (epoch(ts)::BIGINT // 3600) % 24 AS h, count(*) AS n FROM events GROUP BY 1 ORDER BY 1

-- average of a share of each person
SELECT avg(share) AS avg_share FROM (SELECT person_id, sum(amount) FILTER (WHERE channel = 'web') / sum(amount) AS share FROM orders GROUP BY person_id HAVING sum(amount) > 0)

-- people whose last visit was dearer than their first
SELECT count(*) AS n FROM (SELECT person_id, first(cost ORDER BY visit_date) AS a, last(cost ORDER BY visit_date) AS b FROM visits GROUP BY person_id) WHERE b > a

-- streak of passes
SELECT max_streak, count(*) AS students FROM (
  SELECT person_id, max(run) AS max_streak FROM (
    SELECT person_id, grp, count(*) FILTER (WHERE passed) AS run FROM (
      SELECT person_id, passed, sum(CASE WHEN NOT passed THEN 1 ELSE 0 END) OVER (PARTITION BY person_id ORDER BY submitted_at) AS grp FROM grades) GROUP BY 1, 2) GROUP BY 1)
WHERE max_streak BETWEEN 0 AND 4 GROUP BY max_streak

-- quantile_disc
-- within: 25
SELECT quantile_disc(amount, 0.5) AS p50 FROM orders

-- mean of the tags in a document
SELECT avg(json_array_length(props, '$.tags')) AS avg_tags FROM events WHERE json_array_length(props, '$.tags') <= 5

-- time of day with strftime
SELECT strftime(opened_at, '%H') AS hh, count(*) AS n FROM tickets GROUP BY 1 ORDER BY 1

-- week labels
SELECT strftime(ordered_at, '%G-W%V') AS wk, count(*) AS n FROM orders WHERE ordered_at >= '2024-01-01' AND ordered_at < '2024-03-01' GROUP BY 1 ORDER BY 1

-- offset of a local zone
SELECT count(*) AS n FROM events WHERE ts AT TIME ZONE 'UTC' >= TIMESTAMPTZ '2024-05-01 00:00:00+02:00'

-- difference of two averages
SELECT (SELECT avg(amount) FROM orders WHERE coupon IS NOT NULL) - (SELECT avg(amount) FROM orders WHERE coupon IS NULL) AS lift

-- standard error of a conversion
WITH c AS (SELECT count(DISTINCT person_id) AS n, count(DISTINCT CASE WHEN event = 'purchase' THEN person_id END) AS k FROM events)
SELECT k * 1.0 / n AS p, sqrt((k * 1.0 / n) * (1 - k * 1.0 / n) / n) AS se FROM c

-- a value for each key of a macro-like CTE
WITH params AS (SELECT DATE '2024-01-01' AS lo, DATE '2024-07-01' AS hi)
SELECT channel, count(*) AS n FROM orders, params WHERE ordered_at >= params.lo AND ordered_at < params.hi GROUP BY channel

-- constants in a sub-select
SELECT count(*) AS n FROM orders WHERE ordered_at >= (SELECT DATE '2024-06-30' - INTERVAL 30 DAY) AND ordered_at < (SELECT DATE '2024-06-30')

-- sum of squares and root mean square
SELECT sqrt(avg(amount * amount)) AS rms FROM orders

-- weighted average
SELECT sum(cost * los_days) / sum(los_days) AS weighted FROM visits

-- rows of everybody
-- never: it shows people's rows
SELECT o.*, c.plan FROM orders o JOIN customers c USING (person_id) ORDER BY ordered_at DESC LIMIT 20

-- a random sample of people
-- never: who is drawn hangs on everybody's rows together
SELECT avg(amount) AS mean FROM orders USING SAMPLE 10%
