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

SELECT (sum(i) + 1) // 2 AS a, abs(sum(i)) // 2 AS b, round(sum(i)) // 2 AS c, floor(sum(i)) // 2 AS d FROM e

SELECT CASE WHEN count(*) > 5 THEN count(*) ELSE 1 END // 2 AS a, sum(v) // 3 AS b FROM e

SELECT ceil(avg(i) * 3) // 2 AS f, (count(*) / 2)::INTEGER // 2 AS g FROM e

SELECT o, s // 2 AS h FROM (SELECT o, sum(i) AS s FROM e GROUP BY o) AS x

SELECT i, count(*) // i AS h FROM e WHERE i IN (2, 3) GROUP BY i

SELECT o, n - lag(n) OVER (ORDER BY o) AS more, sum(n) OVER (ORDER BY o) AS so_far FROM (SELECT o, count(*) AS n FROM e GROUP BY o) AS x

SELECT o, n, avg(n) OVER () AS middle FROM (SELECT o, count(*) AS n FROM e GROUP BY o) AS x

-- # groups that are easily lost

SELECT k, i, o, count(*) AS n FROM e GROUP BY ALL

SELECT x.city AS g, count(*) AS n FROM visits LEFT JOIN shops x USING (k) GROUP BY g

SELECT g, count(*) AS n FROM (SELECT who, max(k) FILTER (WHERE i > 3) AS g FROM e GROUP BY who) AS x GROUP BY g

SELECT g, count(*) AS n FROM (SELECT who, CASE WHEN count(i) = 0 THEN NULL ELSE count(i) > 2 END AS g FROM e GROUP BY who) AS x GROUP BY g

SELECT k, count(*) AS n FROM (SELECT who, k FROM e UNION ALL SELECT who, k FROM visits) AS x GROUP BY k

SELECT x.k, count(*) AS n FROM e LEFT JOIN visits x ON x.who = e.who AND x.m = e.i GROUP BY x.k

SELECT date_trunc('month', d) AS g, count(DISTINCT who) AS n FROM e WHERE d >= '2024-01-01' OR d IS NULL GROUP BY g

SELECT k, count(*) AS n FROM e WHERE k IS NULL GROUP BY k

SELECT i + j AS g, count(*) AS n FROM e WHERE i IS NULL GROUP BY g

SELECT coalesce(upper(k), 'none') AS g, count(*) AS n FROM e WHERE k IS DISTINCT FROM 'a' GROUP BY g

SELECT hour(t) AS g, count(*) AS n FROM e WHERE t IS NULL OR hour(t) IN (1, 2) GROUP BY g

SELECT k, bool_and AS g, count(*) AS n FROM (SELECT who, k, bool_and(o) AS bool_and FROM e GROUP BY who, k) AS x GROUP BY k, g

-- # groups and values of the person, whom a join may not have found

SELECT count(*) AS n FROM (SELECT v.who, count(*) AS c FROM e LEFT JOIN visits AS v ON v.who = e.who GROUP BY v.who) AS g WHERE c > 1

SELECT count(*) AS n FROM (SELECT e.who, max(v.who) AS c FROM e FULL JOIN visits AS v ON v.who = e.who GROUP BY e.who) AS g WHERE c > 700

SELECT count(*) AS n FROM (SELECT e.who, count(v.m) AS c FROM e LEFT JOIN visits AS v ON v.who = e.who GROUP BY e.who) AS g WHERE c > 1

SELECT count(*) AS n FROM (SELECT coalesce(e.who, v.who) AS w, count(*) AS c FROM e FULL JOIN visits AS v ON v.who = e.who GROUP BY 1) AS g WHERE c > 1

SELECT count(*) AS n FROM (SELECT e.who, max(v.who) AS c FROM e LEFT JOIN visits AS v ON v.who = e.who GROUP BY e.who) AS g WHERE c > 700

SELECT count(*) AS n, countif(m > 700) AS y FROM (SELECT who, max(who) AS m FROM e WHERE i > 0 GROUP BY who) AS g

SELECT count(*) AS n FROM (SELECT who, median(who) - 700 AS m, arg_max(who, r) AS a FROM e GROUP BY who) AS g WHERE m > 0 AND a < 1200

SELECT count(*) AS n FROM (SELECT who, first_value(who) OVER (PARTITION BY who ORDER BY r) AS m FROM e) AS g WHERE m % 2 = 0

-- # overflow and what is not finite, as docs/functions.md has them

SELECT count(x) AS n FROM (SELECT who, sum(b) AS x FROM e GROUP BY who) AS g
-- is
SELECT count(TRY_CAST(x AS BIGINT)) AS n FROM (SELECT who, sum(b) AS x FROM e GROUP BY who) AS g

SELECT countif(i - b IS NULL) AS n FROM e
-- is
SELECT countif(TRY_CAST(i::HUGEINT - b AS BIGINT) IS NULL) AS n FROM e

SELECT countif(b * 2 > 0) AS n, countif(-b < 0) AS m FROM e
-- is
SELECT countif(TRY_CAST(b::HUGEINT * 2 AS BIGINT) > 0) AS n, countif(TRY_CAST(-(b::HUGEINT) AS BIGINT) < 0) AS m FROM e

SELECT countif(CAST(u AS INTEGER) > 1) AS n FROM e
-- is
SELECT countif(TRY_CAST(u AS INTEGER) > 1) AS n FROM e

SELECT count(*) AS n FROM (SELECT who, avg(b) AS x FROM e GROUP BY who) AS g WHERE x > 1e15
