-- Queries, and after `-- is` the query that says the same over plain tables, where it is another.

-- # counts

-- all rows
SELECT count(*) FROM events;

-- rows with a value
SELECT count(amount) n, count(kind) k, count(qty) q FROM events;

-- users
SELECT count(DISTINCT who) n FROM events;

-- the user column
SELECT count(who) n FROM events;

-- users with
SELECT count(DISTINCT who) n FROM events WHERE amount > 90;

-- users by case
SELECT count(DISTINCT CASE WHEN amount > 50 THEN who END) n FROM events;

-- users by if
SELECT count(DISTINCT if(gift, who, NULL)) n FROM events;

-- users filtered
SELECT count(DISTINCT who) FILTER (WHERE qty = 2) n FROM events;

-- countif
SELECT countif(amount > 20 AND gift) n FROM events;

-- countif of a number
SELECT countif(qty) n FROM events;
-- is
SELECT countif(qty <> 0) n FROM events;

-- filter
SELECT count(*) FILTER (WHERE amount BETWEEN 0 AND 5) n FROM events;

-- both filters
SELECT countif(gift) FILTER (WHERE qty > 1) a, count(qty) FILTER (WHERE gift) b FROM events;

-- count of an expression that is missing
SELECT count(nullif(kind, 'book')) n, count(amount + qty) m FROM events;

-- # sums and moments

-- sum
SELECT sum(amount) s FROM events;

-- sum of integers
SELECT sum(qty) s FROM events;

-- sum of decimals
SELECT sum(price) s FROM events;

-- sum of a product
SELECT sum(qty * amount) s FROM events;

-- sum of a truth
SELECT sum(gift::INT) s FROM events;

-- sum filtered
SELECT sum(amount) FILTER (WHERE kind = 'book') s FROM events;

-- sum of a clamp
SELECT sum(least(greatest(amount, 0), 50)) s FROM events;

-- sum of case
SELECT sum(CASE WHEN gift THEN amount WHEN qty > 3 THEN 1 ELSE 0 END) s FROM events;

-- sum that leaves out nan and infinity
SELECT sum(reading) s FROM events;
-- is
SELECT sum(reading) FILTER (WHERE isfinite(reading)) s FROM events;

-- average
SELECT avg(amount) a, avg(price) p, avg(qty) q FROM events;

-- average that leaves out nan and infinity
SELECT avg(reading) s FROM events;
-- is
SELECT avg(reading) FILTER (WHERE isfinite(reading)) s FROM events;

-- average filtered
SELECT avg(amount) FILTER (WHERE qty > 0) a FROM events;

-- variances
SELECT variance(amount) a, var_samp(qty) b, var_pop(price) c FROM events;

-- standard deviations
SELECT stddev(amount) a, stddev_samp(qty) b, stddev_pop(amount) FILTER (WHERE gift) c FROM
  events;

-- several at once
SELECT count(*) n, count(DISTINCT who) u, sum(amount) s, avg(qty) a FROM events;

-- # expressions

-- arithmetic
SELECT sum(amount * 2 - qty / 4 + 1) s FROM events;

-- integer division and remainder
SELECT sum(qty // 2) a, sum(qty % 3) b FROM events;

-- functions of numbers
SELECT sum(abs(amount)) a, sum(round(amount)) b, sum(floor(amount)) c, sum(sign(qty)) d,
  sum(ceil(amount)) e, countif(sqrt(abs(amount)) > 5) f, countif(exp(qty) > 50) g,
  countif(ln(price + 1) > 6) h, countif(pow(qty, 2) = 4) i FROM events;

-- functions of strings
SELECT countif(upper(kind) = 'BOOK') a, sum(length(kind)) b, countif(left(kind, 1) = 'b') c,
  countif(substr(kind, 2, 2) = 'oo') d, countif(concat(kind, code) = 'book2') e, countif(kind ||
  code = 'book1') f, countif(starts_with(kind, 'o''')) g, countif(contains(code, '.')) h,
  sum(strpos(kind, 'o')) i, countif(trim(code) = '4') j FROM events;

-- casts that fail on some rows
SELECT sum(CAST(code AS INT)) s, count(CAST(code AS INT)) n FROM events;
-- is
SELECT sum(TRY_CAST(code AS INT)) s, count(TRY_CAST(code AS INT)) n FROM events;

-- division by zero
SELECT sum(10 // qty) s, countif(10 // qty > 2) n FROM events;
-- is
SELECT sum(TRY(10 // qty)) s, countif(TRY(10 // qty) > 2) n FROM events;

-- overflow
SELECT count(qty + 9223372036854775803) n FROM events;
-- is
SELECT count(TRY(qty + 9223372036854775803)) n FROM events;

-- the same failing part twice
SELECT sum(CAST(code AS INT) + 1) a, sum(CAST(code AS INT) * 2) b FROM events WHERE CAST(code AS
  INT) IN (1, 2, 4);
-- is
SELECT sum(TRY_CAST(code AS INT) + 1) a, sum(TRY_CAST(code AS INT) * 2) b FROM events WHERE
  TRY_CAST(code AS INT) IN (1, 2, 4);

-- # conditions

-- date
SELECT count(*) n FROM events WHERE day = DATE '1997-03-01';

-- date as text
SELECT count(*) n FROM events WHERE day >= '1997-03-01';

-- dates between
SELECT count(*) n FROM events WHERE day BETWEEN DATE '1997-03-01' AND '1997-03-31';

-- date and interval
SELECT count(*) n FROM events WHERE day >= '1997-02-01' AND day < DATE '1997-02-01' + INTERVAL 1
  MONTH;

-- date with a time
SELECT count(*) n FROM events WHERE day > TIMESTAMP '1997-03-01 12:00';

-- time
SELECT count(*) n FROM events WHERE seen BETWEEN '1997-02-01 10:30:00' AND DATE '1997-04-01';

-- in
SELECT count(*) n FROM events WHERE kind IN ('book', 'o''brien', 'nothing');

-- not in
SELECT count(*) n FROM events WHERE kind NOT IN ('book', '日本');

-- a long list
SELECT count(*) n FROM events WHERE kind IN ({BIG});

-- like
SELECT count(*) n FROM events WHERE kind LIKE '_oo%' OR kind ILIKE '%X"' OR code NOT LIKE '%1%';

-- missing
SELECT count(*) n FROM events WHERE kind IS NULL OR NOT gift;

-- distinct from
SELECT count(*) n FROM events WHERE kind IS DISTINCT FROM 'book';

-- truths
SELECT count(*) n FROM events WHERE gift AND (qty > 2) IS NOT TRUE;

-- identifiers
SELECT count(*) n, sum(qty) s FROM events WHERE who IN (1, 2, 30);

-- arithmetic on identifiers
SELECT count(*) n FROM events WHERE who % 3 = 1;

-- decimals
SELECT count(*) n FROM events WHERE price > 99.5 AND price <> 0.125;

-- nan and infinity
SELECT countif(isnan(reading)) a, countif(reading > 1e300) b, countif(isinf(reading)) c FROM
  events;

-- a public list
SELECT count(*) n FROM events WHERE shop_id IN (SELECT shop_id FROM shops WHERE rent > 8);

-- a public number
SELECT count(*) n FROM events WHERE amount > (SELECT max(rent) FROM shops);

-- a public truth
SELECT count(*) n FROM events WHERE EXISTS (SELECT 1 FROM shops WHERE city = 'Oslo') OR gift;

-- # groups

-- keys by the curator
SELECT kind, count(*) n FROM events GROUP BY kind;

-- integer keys by the curator
SELECT qty, sum(amount) s FROM events GROUP BY qty;

-- listed keys
SELECT code, count(*) n FROM events WHERE code IN ('x7', 'many', 'none') GROUP BY code;

-- one key
SELECT code, count(*) n FROM events WHERE code = 'x7' GROUP BY 1;

-- keys in OR
SELECT code, count(*) n FROM events WHERE (code = '1' OR code = '2') GROUP BY code;

-- many listed keys
SELECT code, count(*) n FROM events WHERE code IN ({BIG}, '1', '2') GROUP BY code;

-- many keys that are computed
SELECT lower(kind) k, count(*) n FROM events WHERE lower(kind) IN ({BIG}) GROUP BY k;

-- integers in a range
SELECT shop_id, count(*) n FROM events WHERE shop_id BETWEEN 2 AND 7 GROUP BY shop_id;

-- integers in a list
SELECT shop_id, count(*) n FROM events WHERE shop_id IN (5, 2, 11) GROUP BY shop_id;

-- integers from both sides
SELECT shop_id, count(*) n FROM events WHERE 2 < shop_id AND shop_id < 7 GROUP BY shop_id;

-- days
SELECT day, count(*) n, count(DISTINCT who) u FROM events WHERE day BETWEEN '1997-03-01' AND
  '1997-03-20' GROUP BY day;

-- days in a list
SELECT day, count(*) n FROM events WHERE day IN (DATE '1997-03-01', DATE '1997-03-05') GROUP BY
  day;

-- days half open
SELECT day, sum(amount) s FROM events WHERE day >= '1997-05-01' AND day < DATE '1997-05-01' +
  INTERVAL 10 DAY GROUP BY day;

-- months of a range
SELECT date_trunc('month', day) m, count(*) n FROM events WHERE day BETWEEN '1997-01-01' AND
  '1997-06-30' GROUP BY 1;

-- months
SELECT month(day) m, count(*) n FROM events GROUP BY m;

-- quarters
SELECT quarter(day) q, count(*) n FROM events GROUP BY q;

-- hours
SELECT hour(seen) h, count(*) n FROM events GROUP BY h;

-- days of the week
SELECT dayofweek(day) d, count(*) n FROM events GROUP BY 1;

-- iso days of the week
SELECT isodow(day) d, count(*) n FROM events GROUP BY 1;

-- weeks
SELECT extract('week' FROM day) w, count(*) n FROM events GROUP BY 1;

-- dates of times
SELECT CAST(seen AS DATE) d, count(*) n FROM events WHERE seen >= DATE '1997-03-01' AND seen <
  DATE '1997-03-01' + INTERVAL 3 DAY GROUP BY 1;

-- hours of a range
SELECT date_trunc('hour', seen) h, count(*) n FROM events WHERE seen BETWEEN '1997-03-01' AND
  '1997-03-03' GROUP BY 1;

-- years of a range
SELECT year(day) y, count(*) n FROM events WHERE day BETWEEN '1996-01-01' AND '1998-01-01' GROUP
  BY y;

-- truths as keys
SELECT amount > 20 AS big, count(*) n FROM events GROUP BY big;

-- a stored truth as key
SELECT gift, count(*) n FROM events GROUP BY gift;

-- cases as keys
SELECT CASE WHEN amount < 0 THEN 'back' WHEN amount < 50 THEN 'small' ELSE 'large' END k,
  count(*) n FROM events GROUP BY k;

-- ifs as keys
SELECT if(qty > 2, 'many', 'few') k, count(*) n FROM events GROUP BY k;

-- functions of keys
SELECT upper(kind) k, count(*) n FROM events GROUP BY k;

-- functions of listed keys
SELECT length(code) k, count(*) n FROM events WHERE code IN ('x7', 'many') GROUP BY k;

-- two keys
SELECT kind, gift, sum(amount) s FROM events GROUP BY kind, gift;

-- three keys
SELECT kind, month(day) m, shop_id, count(*) n FROM events WHERE shop_id IN (1, 2) GROUP BY 1,
  2, 3;

-- a group by what is not shown
SELECT sum(qty) s FROM events WHERE gift IS NOT NULL GROUP BY gift ORDER BY s;

-- keys of a public table
SELECT city, count(*) n, sum(rent) r FROM events JOIN shops USING (shop_id) GROUP BY city;

-- decimal keys
SELECT price, count(*) n FROM events WHERE price IN (1.25, 2.5, 100.75) GROUP BY price;

-- float keys
SELECT amount, count(*) n FROM events WHERE amount IN (1.25, 2.5, 50) GROUP BY amount;

-- # joins

-- a public table
SELECT count(*) n FROM events e JOIN shops s ON e.shop_id = s.shop_id WHERE s.rent < e.amount;

-- a public table first
SELECT count(*) n FROM shops JOIN events USING (shop_id);

-- a public table by left join
SELECT count(*) n, count(city) c FROM events e LEFT JOIN shops s ON e.shop_id = s.shop_id;

-- all pairs with a public table
SELECT count(*) n FROM events, shops WHERE rent > amount;

-- private tables
SELECT count(*) n FROM events e JOIN visits v ON e.who = v.who WHERE e.day < v.day;

-- private tables by using
SELECT count(*) n, sum(pages) p, count(DISTINCT who) u FROM events JOIN visits USING (who);

-- private tables by where
SELECT count(*) n FROM events e, visits v WHERE e.who = v.who;

-- private tables by left join
SELECT count(*) n, count(v.who) m, count(DISTINCT v.who) u, count(DISTINCT e.who) w FROM events
  e LEFT JOIN visits v ON e.who = v.who AND v.pages > 5;

-- who is missing
SELECT count(DISTINCT e.who) n FROM events e LEFT JOIN visits v ON e.who = v.who WHERE v.who IS
  NULL;

-- a table with itself
SELECT count(*) n FROM events a JOIN events b ON a.who = b.who AND a.day < b.day AND a.kind =
  b.kind;

-- three tables
SELECT city, count(*) n FROM events e JOIN visits v ON e.who = v.who AND e.day = v.day JOIN
  shops s ON s.shop_id = e.shop_id GROUP BY city;

-- a public table on the user
SELECT count(*) n FROM events e JOIN shops s ON e.who = s.shop_id;

-- # subqueries, per user

-- grouped by the user
SELECT count(*) n FROM (SELECT who, count(*) c FROM events GROUP BY who) WHERE c > 10;

-- the user is added to GROUP BY
SELECT count(*) n, sum(least(c, 5)) s FROM (SELECT kind, count(*) c FROM events GROUP BY kind);
-- is
SELECT count(*) n, sum(least(c, 5)) s FROM (SELECT who, kind, count(*) c FROM events GROUP BY
  who, kind);

-- a key of the inner group by that is not selected
SELECT count(*) n FROM (SELECT who FROM events GROUP BY who, upper(kind));

-- how many users have how many
WITH v AS (SELECT who, count(*) n FROM events GROUP BY 1) SELECT n, count(*) users FROM v WHERE
  n BETWEEN 1 AND 20 GROUP BY n;

-- all inner aggregates
SELECT count(*) n FROM (SELECT who, sum(amount) s, avg(qty) a, min(day) f, max(kind) l,
  count(DISTINCT kind) k, bool_or(gift) b, bool_and(qty < 8) c, countif(gift) d FROM events
  GROUP BY who HAVING count(*) > 5) WHERE s > 100 AND a > 1 AND f < '1997-02-01' AND l > 'a' AND
  k > 2 AND b AND c AND d > 1;

-- inner filter
SELECT count(*) n FROM (SELECT who, count(*) FILTER (WHERE gift) c FROM events GROUP BY who)
  WHERE c >= 4;

-- inner arithmetic
SELECT count(*) n FROM (SELECT who, sum(amount) / count(*) m FROM events GROUP BY who) WHERE m >
  40;

-- inner where and expression
SELECT count(*) n FROM (SELECT who, amount * 2 AS d FROM events WHERE gift) WHERE d > 50;

-- distinct
SELECT count(*) n FROM (SELECT DISTINCT who, kind FROM events);

-- distinct gets the user
SELECT count(*) n FROM (SELECT DISTINCT kind FROM events);
-- is
SELECT count(*) n FROM (SELECT DISTINCT who, kind FROM events);

-- row_number
SELECT sum(least(greatest(amount, 0), 9)) s FROM (SELECT who, amount, row_number() OVER
  (PARTITION BY who ORDER BY day, seen, amount DESC) r FROM events) WHERE r <= 3;

-- windows get the user
SELECT count(*) n FROM (SELECT row_number() OVER (ORDER BY day) r FROM events) WHERE r <= 3;
-- is
SELECT count(*) n FROM (SELECT row_number() OVER (PARTITION BY who ORDER BY day) r FROM events)
  WHERE r <= 3;

-- nulls first in a window
SELECT count(*) n FROM (SELECT who, day, row_number() OVER (PARTITION BY who ORDER BY day DESC
  NULLS FIRST) r FROM events) WHERE r = 1 AND day IS NULL;

-- lag and lead
SELECT count(*) n FROM (SELECT who, day, lag(day) OVER (PARTITION BY who ORDER BY day) b,
  lead(day, 2) OVER (PARTITION BY who ORDER BY day) a FROM events WHERE day IS NOT NULL) WHERE
  day - b < 7 OR a - day > 30;

-- running sums
SELECT count(*) n FROM (SELECT who, sum(qty) OVER (PARTITION BY who ORDER BY day) s, count(*)
  OVER (PARTITION BY who) c, avg(amount) OVER (PARTITION BY who) a, rank() OVER (PARTITION BY
  who ORDER BY day) r FROM events) WHERE s > 5 AND c > 9 AND a > 40 AND r > 2;

-- sums over a frame
SELECT count(*) n FROM (SELECT who, sum(qty) OVER (PARTITION BY who ORDER BY seen, qty ROWS
  BETWEEN 2 PRECEDING AND CURRENT ROW) s FROM events WHERE seen IS NOT NULL) WHERE s > 12;

-- a cte that is read twice
WITH v AS (SELECT who, day, count(*) c FROM events GROUP BY who, day) SELECT count(*) n FROM v a
  JOIN v b ON a.who = b.who AND a.day < b.day WHERE a.c = b.c;

-- ctes on ctes
WITH a AS (SELECT who, amount FROM events WHERE amount > 0), b(u, total) AS (SELECT who,
  sum(amount) FROM a GROUP BY who) SELECT count(DISTINCT u) n, count(*) m FROM b WHERE total >
  200;

-- a cte with the name of a table
WITH events AS (SELECT who, amount FROM events WHERE gift) SELECT sum(amount) s FROM events;

-- a subquery joined to a table
SELECT count(*) n FROM events e JOIN (SELECT who, max(day) last FROM events GROUP BY who) l ON
  e.who = l.who AND e.day = l.last;

-- a public subquery
SELECT count(*) n FROM events e JOIN (SELECT shop_id, rent FROM shops ORDER BY rent LIMIT 2) s
  ON e.shop_id = s.shop_id;

-- a public subquery ordered by what it does not select
SELECT count(*) n FROM events e JOIN (SELECT shop_id FROM shops ORDER BY rent DESC NULLS LAST, city
  LIMIT 2) s ON e.shop_id = s.shop_id;

-- distinct public rows
SELECT count(*) n FROM events e JOIN (SELECT DISTINCT city FROM shops ORDER BY city LIMIT 2) s ON
  e.kind < s.city;

-- a public aggregate ordered by its aggregate
SELECT count(*) n FROM events WHERE shop_id IN (SELECT min(shop_id) FROM shops GROUP BY city
  ORDER BY count(*) DESC, min(shop_id) LIMIT 1);

-- a public aggregate
SELECT count(*) n FROM events e JOIN (SELECT city, min(shop_id) f FROM shops GROUP BY city
  HAVING count(*) > 1) s ON e.shop_id = s.f;

-- nested subqueries
SELECT count(*) n FROM (SELECT who, c FROM (SELECT who, kind, count(*) c FROM events GROUP BY
  who, kind) WHERE c > 1) WHERE c < 5;

-- stars
SELECT count(*) n FROM (SELECT * FROM (SELECT * FROM events) WHERE gift);

-- the user by another name
SELECT count(DISTINCT u) n FROM (SELECT who AS u, kind FROM events) WHERE kind = 'book';

-- # after the noise

-- outer arithmetic
SELECT count(*) * 2.0 / count(DISTINCT who) + 1 r, round(avg(amount), 1) m, abs(sum(qty) - 1000)
  d, -count(*) e, greatest(count(*), 900) g FROM events;

-- outer case
SELECT gift, CASE WHEN count(*) > 100000 THEN 'many' WHEN count(*) > 3 THEN 'some' END c FROM
  events WHERE gift IS NOT NULL GROUP BY gift;

-- having
SELECT shop_id, count(*) n FROM events WHERE shop_id IN (1, 2, 3, 4, 5) GROUP BY shop_id HAVING
  count(*) > 70 AND shop_id <> 2;

-- having by date
SELECT day, count(*) n FROM events WHERE day BETWEEN '1997-03-01' AND '1997-03-09' GROUP BY day
  HAVING day > DATE '1997-03-05' AND count(*) > 0;

-- having by text
SELECT kind, count(*) n FROM events GROUP BY kind HAVING kind IN ('book', '日本');

-- order and limit
SELECT shop_id, sum(amount) s FROM events WHERE shop_id BETWEEN 1 AND 5 GROUP BY shop_id ORDER
  BY s DESC LIMIT 2 OFFSET 1;

-- order by place
SELECT shop_id, count(*) FROM events WHERE shop_id BETWEEN 1 AND 5 GROUP BY 1 ORDER BY 2 DESC, 1
  LIMIT 3;

-- # how it is written

-- quotes and capitals
SELECT COUNT(*) AS "N" FROM "Events" WHERE "KIND" = 'book';

-- comments
SELECT /* hm */ count(*) n -- yes
FROM events;

-- bigquery's options
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 10, confidence => 0.9) count(*) n FROM events;
-- is
SELECT count(*) n FROM events;
