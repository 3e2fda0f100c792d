-- funnel by flags of each user
SELECT count(*) AS users, sum(viewed) AS viewed, sum(carted) AS carted, sum(bought) AS bought
FROM (SELECT user_id, max(CASE WHEN name = 'view' THEN 1 ELSE 0 END) AS viewed,
             max(CASE WHEN name = 'cart' THEN 1 ELSE 0 END) AS carted,
             max(CASE WHEN name = 'buy' THEN 1 ELSE 0 END) AS bought
      FROM events GROUP BY user_id)

-- funnel in order
WITH v AS (SELECT user_id, min(occurred_at) AS t FROM events WHERE name = 'view' GROUP BY 1),
c AS (SELECT e.user_id, min(e.occurred_at) AS t FROM events e JOIN v ON v.user_id = e.user_id
      WHERE e.name = 'cart' AND e.occurred_at > v.t GROUP BY 1),
b AS (SELECT e.user_id, min(e.occurred_at) AS t FROM events e JOIN c ON c.user_id = e.user_id
      WHERE e.name = 'buy' AND e.occurred_at > c.t GROUP BY 1)
SELECT (SELECT count(*) FROM v) AS viewed, (SELECT count(*) FROM c) AS carted, (SELECT count(*) FROM b) AS bought

-- conversion by platform
SELECT platform, count(DISTINCT CASE WHEN name = 'buy' THEN user_id END) * 1.0 / count(DISTINCT user_id) AS conversion
FROM events GROUP BY platform ORDER BY conversion DESC

-- weekly retention grid
WITH first AS (SELECT user_id, min(date_trunc('week', occurred_at)) AS cohort FROM events GROUP BY user_id)
SELECT f.cohort, date_diff('week', f.cohort, e.occurred_at) AS week_number, count(DISTINCT e.user_id) AS users
FROM events e JOIN first f ON f.user_id = e.user_id
WHERE date_diff('week', f.cohort, e.occurred_at) BETWEEN 0 AND 8
GROUP BY 1, 2 ORDER BY 1, 2

-- weekly retention of some cohorts
WITH first AS (SELECT user_id, date_trunc('month', min(occurred_at)) AS cohort FROM events GROUP BY user_id)
SELECT cohort, date_diff('month', cohort, date_trunc('month', e.occurred_at)) AS month_number, count(DISTINCT e.user_id) AS users
FROM events e JOIN first USING (user_id)
WHERE cohort >= DATE '2024-01-01' AND cohort <= DATE '2024-03-01' GROUP BY 1, 2 ORDER BY 1, 2

-- day-1 retention
SELECT count(DISTINCT e.user_id) * 100.0 / (SELECT count(*) FROM users) AS d1
FROM users u JOIN events e ON e.user_id = u.user_id AND CAST(e.occurred_at AS DATE) = CAST(u.created_at AS DATE) + 1

-- retention at 1, 7 and 30 days
SELECT avg(CASE WHEN d1 > 0 THEN 1.0 ELSE 0 END) AS r1, avg(CASE WHEN d7 > 0 THEN 1.0 ELSE 0 END) AS r7,
       avg(CASE WHEN d30 > 0 THEN 1.0 ELSE 0 END) AS r30
FROM (SELECT u.user_id,
             count(*) FILTER (WHERE date_diff('day', u.created_at, e.occurred_at) >= 1) AS d1,
             count(*) FILTER (WHERE date_diff('day', u.created_at, e.occurred_at) >= 7) AS d7,
             count(*) FILTER (WHERE date_diff('day', u.created_at, e.occurred_at) >= 30) AS d30
      FROM users u LEFT JOIN events e ON e.user_id = u.user_id GROUP BY u.user_id)

-- revenue per user
SELECT sum(price * units) / count(DISTINCT user_id) AS arpu FROM purchases

-- revenue per user of each country, those without purchases included
SELECT country, avg(spent) AS arpu
FROM (SELECT u.user_id, u.country, coalesce(sum(p.price * p.units), 0) AS spent
      FROM users u LEFT JOIN purchases p ON p.user_id = u.user_id GROUP BY u.user_id, u.country)
GROUP BY country ORDER BY country

-- lifetime value, percentiles
-- within: 12
SELECT quantile_cont(ltv, 0.5) AS p50, quantile_cont(ltv, 0.9) AS p90
FROM (SELECT user_id, sum(price * units) AS ltv FROM purchases GROUP BY user_id)

-- lifetime value by plan, median
-- within: 20
SELECT plan, median(ltv) AS median_ltv
FROM (SELECT u.plan, u.user_id, sum(p.price * p.units) AS ltv FROM users u JOIN purchases p ON p.user_id = u.user_id GROUP BY 1, 2)
GROUP BY plan

-- average order value
SELECT sku, avg(price * units) AS aov, sum(units) AS sold FROM purchases GROUP BY sku ORDER BY sku

-- margin by line of products
SELECT pr.line, sum(p.price * p.units - pr.cost * p.units) AS margin
FROM purchases p JOIN products pr ON pr.sku = p.sku GROUP BY pr.line ORDER BY margin DESC

-- days to first purchase
SELECT avg(date_diff('day', u.created_at, f.d)) AS mean_days
FROM users u JOIN (SELECT user_id, min(bought_on) AS d FROM purchases GROUP BY user_id) f USING (user_id)

-- days to first purchase, share within a month
SELECT count(*) FILTER (WHERE f.d - CAST(u.created_at AS DATE) <= 30) * 1.0 / count(*) AS share
FROM users u LEFT JOIN (SELECT user_id, min(bought_on) AS d FROM purchases GROUP BY user_id) f USING (user_id)

-- days sales outstanding
SELECT avg(paid_on - issued_on) AS mean_days FROM invoices WHERE paid_on IS NOT NULL

-- days sales outstanding by month, 90th percentile
-- within: 8
SELECT date_trunc('month', issued_on) AS month, quantile_cont(paid_on - issued_on, 0.9) AS p90
FROM invoices WHERE paid_on IS NOT NULL AND issued_on < '2024-07-01' GROUP BY 1 ORDER BY 1

-- invoices that were paid late
SELECT count(*) AS late, sum(total) AS amount FROM invoices WHERE paid_on > issued_on + INTERVAL 14 DAY

-- aging buckets of open invoices
SELECT CASE WHEN DATE '2024-07-01' - issued_on <= 30 THEN '0-30' WHEN DATE '2024-07-01' - issued_on <= 60 THEN '31-60' ELSE '61+' END AS bucket,
       count(*) AS invoices, sum(total) AS open_amount
FROM invoices WHERE status = 'open' GROUP BY 1 ORDER BY 1

-- monthly recurring revenue and change
-- is: WITH m AS (SELECT g AS month, coalesce(sum(total), 0) AS revenue FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-08-01', INTERVAL 1 MONTH) AS t(g) LEFT JOIN invoices ON date_trunc('month', issued_on) = g AND status = 'paid' GROUP BY 1) SELECT month, revenue, revenue - lag(revenue) OVER (ORDER BY month) AS change FROM m
WITH m AS (SELECT date_trunc('month', issued_on) AS month, sum(total) AS revenue FROM invoices WHERE status = 'paid' GROUP BY 1)
SELECT month, revenue, revenue - lag(revenue) OVER (ORDER BY month) AS change FROM m ORDER BY month

-- churn by plan
SELECT plan, count(churned_at) * 1.0 / count(*) AS churn_rate FROM users GROUP BY plan

-- tenure of churned users
SELECT plan, avg(date_diff('day', created_at, churned_at)) AS mean_tenure FROM users WHERE churned_at IS NOT NULL GROUP BY plan

-- tenure by age()
SELECT avg(extract(day FROM age(churned_at, created_at))) AS days FROM users WHERE churned_at IS NOT NULL

-- average age of users
SELECT avg(date_diff('year', birth_date, DATE '2024-07-01')) AS mean_age FROM users

-- average age by age()
SELECT country, avg(extract(year FROM age(DATE '2024-07-01', birth_date))) AS mean_age FROM users GROUP BY country

-- age groups
SELECT CASE WHEN date_part('year', age(TIMESTAMP '2024-07-01', birth_date)) < 30 THEN 'under 30'
            WHEN date_part('year', age(TIMESTAMP '2024-07-01', birth_date)) < 50 THEN '30-49' ELSE '50+' END AS band, count(*) AS users
FROM users GROUP BY band ORDER BY band

-- oldest and youngest
-- within: 8
SELECT min(date_diff('year', birth_date, DATE '2024-07-01')) AS youngest, max(date_diff('year', birth_date, DATE '2024-07-01')) AS oldest FROM users

-- sessions by a gap of half an hour
WITH e AS (SELECT user_id, occurred_at, date_diff('minute', lag(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at), occurred_at) AS gap FROM events)
SELECT count(*) AS sessions FROM e WHERE gap IS NULL OR gap > 30

-- events per session
WITH e AS (SELECT user_id, occurred_at, CASE WHEN date_diff('minute', lag(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at), occurred_at) <= 30 THEN 0 ELSE 1 END AS is_new FROM events),
s AS (SELECT user_id, sum(is_new) OVER (PARTITION BY user_id ORDER BY occurred_at ROWS UNBOUNDED PRECEDING) AS session FROM e)
SELECT avg(n) AS events_per_session FROM (SELECT user_id, session, count(*) AS n FROM s GROUP BY user_id, session)

-- session length in minutes, median
-- within: 3
WITH e AS (SELECT user_id, occurred_at, CASE WHEN date_diff('minute', lag(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at), occurred_at) <= 30 THEN 0 ELSE 1 END AS is_new FROM events),
s AS (SELECT user_id, occurred_at, sum(is_new) OVER (PARTITION BY user_id ORDER BY occurred_at ROWS UNBOUNDED PRECEDING) AS session FROM e)
SELECT median(minutes) AS minutes FROM (SELECT date_diff('minute', min(occurred_at), max(occurred_at)) AS minutes FROM s GROUP BY user_id, session)

-- experiment: conversion by variant
SELECT variant, count(DISTINCT user_id) AS users, count(DISTINCT user_id) FILTER (WHERE name = 'buy') AS buyers,
       count(DISTINCT user_id) FILTER (WHERE name = 'buy') * 1.0 / count(DISTINCT user_id) AS rate
FROM events GROUP BY variant ORDER BY variant

-- experiment: revenue per user
SELECT v.variant, avg(coalesce(r.revenue, 0)) AS mean_revenue, stddev(coalesce(r.revenue, 0)) AS spread, count(*) AS users
FROM (SELECT DISTINCT user_id, variant FROM events) v
LEFT JOIN (SELECT user_id, sum(price * units) AS revenue FROM purchases GROUP BY user_id) r ON r.user_id = v.user_id
GROUP BY v.variant ORDER BY v.variant

-- daily, weekly and monthly users of a day
SELECT count(DISTINCT CASE WHEN CAST(occurred_at AS DATE) = DATE '2024-05-31' THEN user_id END) AS dau,
       count(DISTINCT CASE WHEN occurred_at >= DATE '2024-05-31' - INTERVAL 6 DAY AND occurred_at < DATE '2024-06-01' THEN user_id END) AS wau,
       count(DISTINCT CASE WHEN occurred_at >= DATE '2024-05-31' - INTERVAL 29 DAY AND occurred_at < DATE '2024-06-01' THEN user_id END) AS mau
FROM events

-- users by number of events, histogram
SELECT least(n, 10) AS events, count(*) AS users FROM (SELECT user_id, count(*) AS n FROM events GROUP BY user_id) GROUP BY 1 ORDER BY 1

-- power users
SELECT count(*) FILTER (WHERE n >= 10) AS power_users, count(*) AS users FROM (SELECT user_id, count(*) AS n FROM events GROUP BY user_id)

-- top decile's share of revenue
WITH t AS (SELECT user_id, sum(price * units) AS r FROM purchases GROUP BY user_id)
SELECT sum(CASE WHEN r > 250 THEN r ELSE 0 END) / sum(r) AS share FROM t

-- repeat purchase rate
SELECT count(*) FILTER (WHERE n > 1) * 1.0 / count(*) AS repeat_rate FROM (SELECT user_id, count(*) AS n FROM purchases GROUP BY user_id)

-- days between purchases
SELECT avg(bought_on - prev) AS mean_days
FROM (SELECT bought_on, lag(bought_on) OVER (PARTITION BY user_id ORDER BY bought_on) AS prev FROM purchases)

-- second purchase within 30 days of the first
SELECT count(*) AS users
FROM (SELECT user_id, bought_on, row_number() OVER (PARTITION BY user_id ORDER BY bought_on) AS n,
             lag(bought_on) OVER (PARTITION BY user_id ORDER BY bought_on) AS prev FROM purchases)
WHERE n = 2 AND bought_on <= prev + 30

-- number of products sold by month
SELECT date_trunc('month', bought_on) AS month, count(DISTINCT sku) AS products FROM purchases GROUP BY 1 ORDER BY 1

-- users of several platforms
SELECT platforms, count(*) AS users FROM (SELECT user_id, count(DISTINCT platform) AS platforms FROM events GROUP BY 1) GROUP BY 1 ORDER BY 1

-- active days of each user by country
SELECT u.country, avg(a.days) AS mean_active_days
FROM users u JOIN (SELECT user_id, count(DISTINCT CAST(occurred_at AS DATE)) AS days FROM events GROUP BY user_id) a ON a.user_id = u.user_id
GROUP BY u.country ORDER BY u.country

-- person-days of activity
SELECT count(*) AS person_days FROM (SELECT DISTINCT user_id, CAST(occurred_at AS DATE) AS d FROM events)

-- sign-ups and churn side by side
SELECT m.month, coalesce(s.n, 0) AS joined, coalesce(c.n, 0) AS churned
FROM (SELECT CAST(g AS DATE) AS month FROM generate_series(DATE '2024-01-01', DATE '2024-06-01', INTERVAL 1 MONTH) AS t(g)) m
LEFT JOIN (SELECT CAST(date_trunc('month', created_at) AS DATE) AS month, count(*) AS n FROM users GROUP BY 1) s ON s.month = m.month
LEFT JOIN (SELECT CAST(date_trunc('month', churned_at) AS DATE) AS month, count(*) AS n FROM users WHERE churned_at IS NOT NULL GROUP BY 1) c ON c.month = m.month
ORDER BY m.month

-- active subscribers on the first of each month
SELECT d.day, count(*) AS active
FROM (SELECT CAST(g AS DATE) AS day FROM generate_series(DATE '2024-02-01', DATE '2024-06-01', INTERVAL 1 MONTH) AS t(g)) d
JOIN users u ON u.created_at < d.day AND (u.churned_at IS NULL OR u.churned_at >= d.day)
GROUP BY d.day ORDER BY d.day

-- percent of revenue by country, with a total
SELECT coalesce(u.country, 'all') AS country, sum(i.total) AS revenue
FROM invoices i JOIN users u ON u.user_id = i.user_id WHERE i.status = 'paid' GROUP BY ROLLUP (u.country)

-- number of invoices by count distinct
SELECT status, count(DISTINCT invoice_id) AS invoices FROM invoices GROUP BY status

-- variance of the total
SELECT var_samp(total) AS v, stddev_pop(total) AS s FROM invoices WHERE status <> 'void'

-- longest streak of days
SELECT avg(streak) AS mean_longest
FROM (SELECT user_id, max(n) AS streak
      FROM (SELECT user_id, island, count(*) AS n
            FROM (SELECT user_id, d, d - CAST(row_number() OVER (PARTITION BY user_id ORDER BY d) AS INTEGER) AS island
                  FROM (SELECT DISTINCT user_id, CAST(occurred_at AS DATE) AS d FROM events))
            GROUP BY user_id, island)
      GROUP BY user_id)

-- time from cart to purchase in minutes
SELECT avg(date_diff('minute', c.t, b.t)) AS minutes
FROM (SELECT user_id, min(occurred_at) AS t FROM events WHERE name = 'cart' GROUP BY user_id) c
JOIN (SELECT user_id, min(occurred_at) AS t FROM events WHERE name = 'buy' GROUP BY user_id) b ON b.user_id = c.user_id AND b.t > c.t

-- cohort of the first purchase and revenue by month
WITH f AS (SELECT user_id, date_trunc('month', min(bought_on)) AS cohort FROM purchases GROUP BY user_id)
SELECT f.cohort, date_trunc('month', p.bought_on) AS month, sum(p.price * p.units) AS revenue
FROM purchases p JOIN f ON f.user_id = p.user_id GROUP BY 1, 2 ORDER BY 1, 2

-- cohort sizes of the first purchase in a range
SELECT cohort, count(*) AS users
FROM (SELECT user_id, min(bought_on) AS cohort FROM purchases GROUP BY user_id)
WHERE cohort BETWEEN DATE '2024-03-01' AND DATE '2024-03-31' GROUP BY cohort ORDER BY cohort
