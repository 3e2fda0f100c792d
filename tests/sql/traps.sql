-- # after the noise

SELECT count(*) // 2 AS n FROM e

SELECT count(*) / 2 AS n FROM e

SELECT count(*) % 7 AS n FROM e

SELECT sum(i) / count(*) AS a, sum(i) / count(i) AS b, avg(i) AS c FROM e

SELECT k, count(*) AS n FROM e GROUP BY k HAVING count(*) > 300

SELECT k, count(*) AS n FROM e GROUP BY k ORDER BY n DESC, k LIMIT 2

SELECT k, count(*) AS n FROM e GROUP BY k ORDER BY k

SELECT k, count(*) AS n FROM e GROUP BY k ORDER BY k DESC NULLS FIRST

SELECT k, count(*) AS n FROM e GROUP BY ROLLUP (k)

SELECT k, o, count(*) AS n FROM e GROUP BY CUBE (k, o)

SELECT k, o, count(*) AS n FROM e GROUP BY GROUPING SETS ((k), (o), ())

SELECT count(*) AS n FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS g WHERE k IS NULL

SELECT sum(n) AS n FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS g

SELECT a.k, a.n, b.n AS m FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS a JOIN (SELECT k, count(*) AS n FROM visits GROUP BY k) AS b ON a.k = b.k

SELECT k, count(*) AS n FROM e GROUP BY k UNION ALL SELECT k, count(*) AS n FROM visits GROUP BY k

SELECT DISTINCT o, n > 100 AS many FROM (SELECT o, k, count(*) AS n FROM e GROUP BY o, k) AS g

SELECT coalesce(k, 'none') AS k, n FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS g

SELECT round(count(*) / 3.0, 2) AS n FROM e

SELECT CAST(count(*) / 2 AS INTEGER) AS n FROM e

SELECT sum(i) AS s, -sum(i) // 2 AS h FROM e

SELECT nullif(count(*), 0) AS n FROM e WHERE false

SELECT count(*) AS n, sum(i) / nullif(count(*), 0) AS a FROM e WHERE i > 100
