-- order values in steps of 50
SELECT floor(amount / 50) * 50 AS bin, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1

-- order values in steps of 100, cast
SELECT CAST(amount / 100 AS INTEGER) * 100 AS bin, count(*) AS n FROM orders GROUP BY bin ORDER BY bin

-- width_bucket
SELECT width_bucket(amount, 0, 500, 10) AS bucket, count(*) AS n FROM orders GROUP BY bucket ORDER BY bucket

-- price bands
SELECT CASE WHEN amount < 20 THEN 'small' WHEN amount BETWEEN 20 AND 100 THEN 'medium' ELSE 'large' END AS band, count(*) AS n, avg(amount) AS mean FROM orders GROUP BY 1

-- median and p90
-- within: 20
SELECT median(amount) AS p50, quantile_cont(amount, 0.9) AS p90 FROM orders

-- percentile_cont
-- within: 20
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS p50, percentile_cont(0.95) WITHIN GROUP (ORDER BY amount) AS p95 FROM orders

-- approx_quantile by channel
-- within: 20
SELECT channel, approx_quantile(amount, 0.5) AS p50 FROM orders GROUP BY channel ORDER BY channel

-- quantiles of several at once
-- within: 20
SELECT quantile_cont(score, 0.25) AS q1, quantile_cont(score, 0.5) AS q2, quantile_cont(score, 0.75) AS q3 FROM grades

-- spread
SELECT avg(amount) AS mean, stddev(amount) AS sd, variance(amount) AS var FROM orders

-- stddev by team
SELECT term, avg(score) AS mean, stddev_samp(score) AS sd, count(score) AS n FROM grades GROUP BY term ORDER BY term

-- coefficient of variation
SELECT stddev(amount) / avg(amount) AS cv FROM orders

-- orders per person
SELECT n, count(*) AS people FROM (SELECT person_id, count(*) AS n FROM orders GROUP BY person_id) GROUP BY n ORDER BY n

-- orders per person, those without included
SELECT least(n, 12) AS orders, count(*) AS people FROM (
  SELECT c.person_id, count(o.order_id) AS n FROM customers c LEFT JOIN orders o ON o.person_id = c.person_id GROUP BY c.person_id) GROUP BY 1 ORDER BY 1

-- spend per person in bands
SELECT CASE WHEN spend < 100 THEN '0-100' WHEN spend < 500 THEN '100-500' WHEN spend < 1000 THEN '500-1000' ELSE '1000+' END AS band, count(*) AS people
FROM (SELECT person_id, sum(amount) AS spend FROM orders GROUP BY person_id) GROUP BY band

-- scores as letters
SELECT CASE WHEN score >= 90 THEN 'A' WHEN score >= 80 THEN 'B' WHEN score >= 70 THEN 'C' WHEN score >= 60 THEN 'D' ELSE 'F' END AS grade, count(*) AS n FROM grades GROUP BY grade ORDER BY grade

-- scores by tens
SELECT 10 * (score // 10) AS bin, count(*) AS n FROM grades WHERE score IS NOT NULL GROUP BY bin ORDER BY bin

-- rounded blood pressure
SELECT round(systolic, -1) AS bp, count(*) AS n FROM visits GROUP BY bp ORDER BY bp

-- length of stay
SELECT los_days, count(*) AS visits FROM visits WHERE los_days <= 14 GROUP BY los_days ORDER BY los_days

-- share of visits that cost more than 1000
SELECT count(*) FILTER (WHERE cost > 1000) / count(*)::DOUBLE AS share FROM visits

-- histogram function
-- is: SELECT low, high, count(amount) FROM (VALUES (0, 50), (50, 100), (100, 250), (250, 500)) AS b(low, high) LEFT JOIN orders ON amount >= low AND amount < high GROUP BY 1, 2
SELECT histogram(amount, [0, 50, 100, 250, 500]) AS orders FROM orders

-- log bins
SELECT floor(log10(greatest(duration_ms, 1))) AS magnitude, count(*) AS n FROM events WHERE duration_ms BETWEEN 1 AND 600000 GROUP BY 1 ORDER BY 1

-- cumulative distribution
-- is: SELECT bin, n, sum(n) OVER (ORDER BY bin) * 1.0 / sum(n) OVER () FROM (SELECT bin, (SELECT count(*) FROM orders WHERE amount BETWEEN 0 AND 500 AND floor(amount / 50) * 50 = bin) AS n FROM (SELECT unnest(range(0, 501, 50)) AS bin))
SELECT bin, n, sum(n) OVER (ORDER BY bin) * 1.0 / sum(n) OVER () AS cdf
FROM (SELECT floor(amount / 50) * 50 AS bin, count(*) AS n FROM orders WHERE amount BETWEEN 0 AND 500 GROUP BY 1) ORDER BY bin

-- ratings
SELECT rating, count(*) AS n FROM tickets GROUP BY rating ORDER BY rating

-- average of a rating by team, at least so many
SELECT team, avg(rating) AS csat FROM tickets WHERE rating IS NOT NULL GROUP BY team HAVING count(*) > 5

-- correlation of age and spend
SELECT corr(birth_year, total) AS r FROM (SELECT c.person_id, c.birth_year, least(sum(o.amount), 2000) AS total FROM customers c JOIN orders o USING (person_id) GROUP BY 1, 2)

-- regression slope
SELECT regr_slope(cost, los_days) AS slope, regr_intercept(cost, los_days) AS intercept FROM visits

-- parity of identifiers
SELECT quantity % 2 = 0 AS even, count(*) AS n FROM orders GROUP BY 1

-- quantity as text ranges
SELECT CASE quantity WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'more' END AS q, count(*) AS n FROM orders GROUP BY q

-- minimum and maximum
-- within: 8
SELECT min(amount) AS lo, max(amount) AS hi FROM orders

-- deciles by rank over everybody
-- never: a row's rank among all rows hangs on other people's rows
SELECT decile, avg(amount) AS mean FROM (SELECT amount, ntile(10) OVER (ORDER BY amount) AS decile FROM orders) GROUP BY decile
