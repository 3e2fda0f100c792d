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

-- rows, by a number
SELECT count(1) AS n FROM events;

-- rows with an expression
SELECT count(qty + 1) AS c FROM events;

-- values, filtered
SELECT count(kind) FILTER (WHERE NOT gift) AS n FROM events;

-- two countifs
SELECT countif(qty > 2) AS n, count_if(gift) AS f FROM events;

-- countif, filtered
SELECT countif(qty > 2) FILTER (WHERE amount > 0) AS n FROM events;

-- users and rows together
SELECT count(*) AS n, count(DISTINCT who) AS u, count(*) FILTER (WHERE qty > 3) AS m FROM events
  WHERE amount > 0;

-- nothing
SELECT count(*) AS n, count(DISTINCT who) AS u FROM events WHERE amount > 1000;

-- # sums and moments

-- sum
SELECT sum(amount) s FROM events;

-- sum of integers
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(qty) s FROM events;

-- sum of decimals
SELECT sum(price) s FROM events;

-- sum of a product
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(qty * amount) s FROM events;

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
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  avg(amount) a, avg(price) p, avg(qty) q FROM events;

-- average that leaves out nan and infinity
SELECT avg(reading) s FROM events;
-- is
SELECT avg(reading) FILTER (WHERE isfinite(reading)) s FROM events;

-- average that leaves them out, of one thing or another
SELECT avg(reading) FILTER (WHERE qty > 0 OR qty < 0) s FROM events;
-- is
SELECT avg(reading) FILTER (WHERE isfinite(reading) AND (qty > 0 OR qty < 0)) s FROM events;

-- average filtered
SELECT avg(amount) FILTER (WHERE qty > 0) a FROM events;

-- variances
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  variance(amount) a, var_samp(qty) b FROM events;

-- public rows first, those that nobody has included
SELECT s.city, count(e.qty) AS n, count(DISTINCT e.who) AS people, sum(e.price) AS s
  FROM shops s LEFT JOIN events e ON e.shop_id = s.shop_id AND e.gift GROUP BY s.city;
-- is
SELECT s.city, count(e.qty) AS n, count(DISTINCT e.who) AS people, coalesce(sum(e.price), 0) AS s
  FROM shops s LEFT JOIN events e ON e.shop_id = s.shop_id AND e.gift GROUP BY s.city;

-- a time is one already
SELECT count(*) n FROM events WHERE day >= CAST(DATE '1997-03-02' AS DATE) AND
  CAST(seen + INTERVAL 1 DAY AS TIMESTAMP) > CAST(TIMESTAMP '1997-03-01' AS TIMESTAMP);

-- lengths of texts
SELECT sum(least(length(kind), 20)) AS n FROM events;

-- covariance, correlation, a line
SELECT corr(price, q) AS a, covar_pop(m, price) AS b, covar_samp(price, m) AS c,
  regr_slope(m, q) AS d, regr_intercept(m, q) AS e, regr_r2(price, q) AS f,
  regr_count(price, q) AS g FROM (SELECT price, least(greatest(qty, -2), 9) AS q,
  least(greatest(amount, 0), 60) AS m FROM events);

-- sums of squares of pairs, and averages of those that have both
SELECT regr_sxx(price, q) AS a, regr_syy(price, q) AS b, regr_sxy(price, q) AS c,
  regr_avgx(price, q) AS d, regr_avgy(price, q) AS e, corr(q, price) FILTER (WHERE gift) AS f
  FROM (SELECT price, least(greatest(qty, -2), 9) AS q, gift FROM events);

-- a line for each kind
SELECT kind, regr_slope(price, q) AS s, corr(price, q) AS r FROM (SELECT kind, price,
  least(greatest(qty, 0), 7) AS q FROM events) WHERE kind IN ('book', 'Book') GROUP BY kind;

-- variances within declared bounds
SELECT var_samp(price) AS v, var_pop(price) AS w, var_pop(amount) AS x, stddev_pop(price) AS y,
  stddev(amount) AS z FROM events;

-- standard deviations
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  stddev(amount) a, stddev_samp(qty) b, stddev_pop(amount) FILTER (WHERE gift) c FROM
  events;

-- several at once
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  count(*) n, count(DISTINCT who) u, sum(amount) s, avg(qty) a FROM events;

-- sum of truths
SELECT sum(CASE WHEN gift THEN 1 ELSE 0 END) AS s FROM events;

-- sum of a constant
SELECT sum(2) AS s FROM events;

-- sum of negatives
SELECT sum(-amount) AS s FROM events WHERE amount < 0;

-- sum of a CASE
SELECT sum(CASE WHEN gift THEN amount WHEN qty > 2 THEN -1 ELSE 0 END) AS s FROM events;

-- sum of a simple CASE
SELECT sum(CASE kind WHEN 'book' THEN 3 WHEN 'o''brien' THEN 2.5 END) AS s FROM events;

-- clamped
SELECT sum(least(greatest(qty * 4, -8), 12)) AS s FROM events;

-- arithmetic with decimals in between
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64) sum((amount + 2) * 3 - qty / 4 - qty % 3 +
  qty // 2) AS s FROM events;

-- missing values replaced
SELECT sum(coalesce(amount, 1.5)) AS s FROM events;

-- missing values made
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64) sum(nullif(qty, 3)) AS s FROM events;

-- rounding
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64) sum(round(amount) + floor(amount) +
  ceil(amount)) AS s FROM events;

-- functions
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64) sum(abs(amount) + sign(qty) +
  sqrt(abs(amount))) AS s FROM events;

-- logarithms
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64) sum(ln(price + 1) + exp(qty / 10) + pow(qty,
  2)) AS s FROM events;

-- product of columns
SELECT sum(amount * price) AS s FROM events;

-- average of an expression
SELECT avg(least(abs(qty), 5)) AS a FROM events WHERE qty <> 0;

-- deviation, filtered
SELECT stddev(amount) FILTER (WHERE qty > 0) AS s FROM events;

-- several
SELECT count(*) AS n, sum(amount) AS s, avg(price) AS a, stddev(amount) AS d FROM events WHERE
  kind IN ('book', 'Book');

-- not finite counts for nothing
SELECT sum(reading) AS s, avg(reading) AS a, stddev(reading) AS d, count(*) AS n FROM events;
-- is
SELECT sum(reading) FILTER (WHERE isfinite(reading)) AS s, avg(reading) FILTER (WHERE
  isfinite(reading)) AS a, stddev(reading) FILTER (WHERE isfinite(reading)) AS d, count(*) AS n
  FROM events;

-- not finite in conditions
SELECT count(*) AS n, countif(isnan(reading)) AS m FROM events WHERE reading > 50 OR
  isinf(reading);

-- a cast that fails counts for nothing
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64) sum(CAST(replaced AS INTEGER)) AS s FROM
  (SELECT CASE WHEN qty > 2 THEN kind ELSE '7' END AS replaced FROM events);
-- is
SELECT 7 * count(*) AS s FROM events WHERE NOT coalesce(qty > 2, false);

-- an overflow counts for nothing
SELECT count(*) AS n FROM events WHERE (item - 100) * 300000000000000000 % 7 >= 0;
-- is
SELECT count(*) AS n FROM events WHERE item - 100 <= 30;

-- division by zero in conditions
SELECT countif(10 / (qty - 1) > 2) AS n, countif(10 % qty >= 0) AS m FROM events;
-- is
SELECT countif(10 / (qty - 1) > 2) AS n, countif(10 % nullif(qty, 0) >= 0) AS m FROM events;

-- # expressions

-- arithmetic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(amount * 2 - qty / 4 + 1) s FROM events;

-- integer division and remainder
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(qty // 2) a, sum(qty % 3) b FROM events;

-- functions of numbers
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(abs(amount)) a, sum(round(amount)) b, sum(floor(amount)) c, sum(sign(qty)) d,
  sum(ceil(amount)) e, countif(sqrt(abs(amount)) > 5) f, countif(exp(qty) > 50) g,
  countif(ln(price + 1) > 6) h, countif(pow(qty, 2) = 4) i FROM events;

-- functions of strings
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  countif(upper(kind) = 'BOOK') a, sum(length(kind)) b, countif(left(kind, 1) = 'b') c,
  countif(substr(kind, 2, 2) = 'oo') d, countif(concat(kind, code) = 'book2') e, countif(kind ||
  code = 'book1') f, countif(starts_with(kind, 'o''')) g, countif(contains(code, '.')) h,
  sum(strpos(kind, 'o')) i, countif(trim(code) = '4') j FROM events;

-- casts that fail on some rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(CAST(code AS INT)) s, count(CAST(code AS INT)) n FROM events;
-- is
SELECT sum(TRY_CAST(code AS INT)) s, count(TRY_CAST(code AS INT)) n FROM events;

-- division by zero
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(10 // qty) s, countif(10 // qty > 2) n FROM events;
-- is
SELECT sum(TRY(10 // qty)) s, countif(TRY(10 // qty) > 2) n FROM events;

-- overflow
SELECT count(qty + 9223372036854775803) n FROM events;
-- is
SELECT count(TRY(qty + 9223372036854775803)) n FROM events;

-- the same failing part twice
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(CAST(code AS INT) + 1) a, sum(CAST(code AS INT) * 2) b FROM events WHERE CAST(code AS
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
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  count(*) n, sum(qty) s FROM events WHERE who IN (3, 4, 28);

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

-- comparisons
SELECT count(*) AS n FROM events WHERE amount >= 2.5 AND qty <> 3 AND price < 50.25 AND NOT item =
  120;

-- missing or not
SELECT count(*) AS n FROM events WHERE amount IS NULL OR day IS NOT NULL AND gift IS TRUE;

-- three-valued logic
SELECT count(*) AS n FROM events WHERE NOT (gift AND qty > 2);

-- missing in a list
SELECT count(*) AS n FROM events WHERE qty NOT IN (1, 2) AND NOT kind IN ('book');

-- equal or both missing
SELECT count(*) AS n FROM events WHERE qty IS NOT DISTINCT FROM NULL OR kind IS DISTINCT FROM
  'book';

-- LIKE
SELECT count(*) AS n FROM events WHERE kind LIKE '%b%i%' OR kind LIKE '_ook' OR kind LIKE '100%';

-- ILIKE
SELECT count(*) AS n FROM events WHERE kind ILIKE 'b%' OR kind NOT LIKE '%o%';

-- IN dates
SELECT count(*) AS n FROM events WHERE day IN (DATE '1997-01-05', '1997-01-07');

-- IN decimals
SELECT count(*) AS n FROM events WHERE price IN (91.5, 147.25, 99.7);

-- BETWEEN
SELECT count(*) AS n FROM events WHERE amount BETWEEN -1.5 AND 3 AND qty NOT BETWEEN 2 AND 3;

-- BETWEEN dates
SELECT count(*) AS n FROM events WHERE day BETWEEN '1997-01-05' AND DATE '1997-01-05' + INTERVAL 3
  DAY;

-- times
SELECT count(*) AS n FROM events WHERE seen >= TIMESTAMP '1997-01-05 12:00:00' AND seen <
  '1997-01-20 06:30:00';

-- parts of dates
SELECT count(*) AS n FROM events WHERE month(seen) = 2 OR day(seen) IN (3, 4) OR extract(hour FROM
  seen) = 7 OR year(day) < 1997 OR quarter(seen) = 2 OR dayofweek(seen) = 0 OR isodow(seen) = 3 OR
  minute(seen) = 59 OR week(seen) = 4;

-- date arithmetic
SELECT count(*) AS n FROM events WHERE date_diff('day', DATE '1997-01-05', day) > 3 AND day - DATE
  '1997-01-01' < 30 AND date_trunc('week', seen) < DATE '1997-02-01' AND seen + INTERVAL 2 HOUR >
  day;

-- names of days
SELECT count(*) AS n FROM events WHERE dayname(seen) = 'Monday' OR monthname(seen) = 'February';

-- last of the month
SELECT count(*) AS n FROM events WHERE last_day(day) = DATE '1997-01-31' AND dayofyear(seen) > 4;

-- casts
SELECT count(*) AS n FROM events WHERE CAST(amount AS INTEGER) = 3 OR CAST(seen AS DATE) = day OR
  CAST(qty AS VARCHAR) = '2';

-- strings
SELECT count(*) AS n FROM events WHERE upper(kind) = 'BOOK' OR lower(kind) = 'book' OR
  length(kind) = 6 OR substring(kind, 1, 2) = 'o''' OR left(kind, 1) = '日' OR right(kind, 1) = '%';

-- more strings
SELECT count(*) AS n FROM events WHERE starts_with(kind, 'n') OR ends_with(kind, '本') OR
  contains(kind, 'oo') OR kind || '!' = '100%!' OR concat(kind, 'x') = 'x' OR trim(' ' || kind) =
  'Book' OR strpos(kind, 'b') = 3;

-- the user
SELECT count(*) AS n FROM events WHERE who IN (3, 4, 7, 12) OR who > 1000;

-- comparing a truth
SELECT count(*) AS n FROM events WHERE gift OR gift = false AND qty = 2;

-- a long list of integers to filter by
SELECT count(*) AS n FROM events WHERE item IN (101, 102, 103, 104, 105, 106, 107, 108, 109, 110,
  111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129,
  130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148,
  149);

-- a subquery over a public table
SELECT count(*) AS n FROM events WHERE kind IN (SELECT kind FROM families WHERE weight > 0);

-- a value from a public table
SELECT count(*) AS n FROM events WHERE item > (SELECT min(item) + 30 FROM items);

-- a public table has rows
SELECT count(*) AS n FROM events WHERE EXISTS (SELECT 1 FROM families WHERE weight = 5) AND qty =
  1;

-- not in a public list that is empty
SELECT count(*) n FROM events WHERE kind NOT IN (SELECT kind FROM families WHERE weight > 100);

-- a public truth in a join
SELECT count(*) n FROM events e JOIN shops s ON EXISTS (SELECT 1 FROM families) AND e.shop_id =
  s.shop_id;

-- a public truth as a join's only condition
SELECT count(*) n FROM events e JOIN shops s ON EXISTS (SELECT 1 FROM families);

-- # groups

-- keys by the curator
SELECT kind, count(*) n FROM events GROUP BY kind;
-- is
SELECT kind, count(*) n FROM events WHERE (kind IS NULL OR kind NOT IN ('100%', 'Book')) GROUP BY kind;

-- a range, beside an equality that lists no values
SELECT qty, count(*) n FROM events
WHERE qty = CASE WHEN amount > 5 THEN 2 ELSE 3 END AND qty > 0 AND qty <= 4 GROUP BY qty;

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
-- is
SELECT upper(kind) k, count(*) n FROM events WHERE kind IS NULL OR upper(kind) <> '100%' GROUP BY k;

-- functions of listed keys
SELECT length(code) k, count(*) n FROM events WHERE code IN ('x7', 'many') GROUP BY k;

-- two keys
SELECT kind, gift, sum(amount) s FROM events GROUP BY kind, gift;
-- is
SELECT kind, gift, sum(amount) s FROM events WHERE (kind IS NULL OR kind NOT IN ('100%', 'Book')) GROUP BY kind, gift;

-- three keys
SELECT kind, month(day) m, shop_id, count(*) n FROM events WHERE shop_id IN (1, 2) GROUP BY 1,
  2, 3;
-- is
SELECT kind, month(day) m, shop_id, count(*) n FROM events WHERE shop_id IN (1, 2) AND
  (kind IS NULL OR kind NOT IN ('100%', 'Book')) GROUP BY 1, 2, 3;

-- a group by what is not shown
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  sum(qty) s FROM events WHERE gift IS NOT NULL GROUP BY gift ORDER BY s;

-- keys of a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  city, count(*) n, sum(rent) r FROM events JOIN shops USING (shop_id) GROUP BY city;

-- decimal keys
SELECT price, count(*) n FROM events WHERE price IN (91.5, 147.25, 1234.5) GROUP BY price;

-- float keys
SELECT amount, count(*) n FROM events WHERE amount IN (1.953125, 95.859375, -2.5, 7) GROUP BY
  amount;

-- alternatives
SELECT item, count(*) AS n FROM events WHERE item = 103 OR item IN (105, 9) GROUP BY item;

-- declared strings
SELECT kind, count(*) AS n, count(DISTINCT who) AS u FROM events GROUP BY kind;
-- is
SELECT kind, count(*) AS n, count(DISTINCT who) AS u FROM events
  WHERE (kind IS NULL OR kind NOT IN ('100%', 'Book')) GROUP BY kind;

-- declared integers
SELECT pages, count(*) c FROM visits GROUP BY pages;
-- is
SELECT pages, count(*) c FROM visits WHERE pages IN (1, 2, 3, 4, 5) GROUP BY pages;

-- declared dates
SELECT due, count(*) AS c FROM events GROUP BY due;
-- is
SELECT due, count(*) AS c FROM events WHERE due IS NULL OR due IN ('1997-01-05', '1997-01-06') GROUP BY due;

-- a list beats what is declared
SELECT kind, count(*) AS n FROM events WHERE kind IN ('100%', 'book') GROUP BY kind;

-- a range of dates
SELECT day, count(*) AS c, count(DISTINCT who) AS u, avg(amount) AS a FROM events WHERE day
  BETWEEN '1996-12-30' AND '1997-01-09' GROUP BY day;

-- a half-open range
SELECT day, count(*) AS c FROM events WHERE day >= DATE '1997-01-03' AND day < DATE '1997-01-03' +
  INTERVAL 1 WEEK GROUP BY 1;

-- a range of integers
SELECT item, count(*) AS c FROM events WHERE item > 95 AND item <= 140 GROUP BY item;

-- negative integers
SELECT qty, count(*) AS c FROM events WHERE qty BETWEEN -5 AND 2 GROUP BY qty;

-- a long list of integers
SELECT item, count(*) AS c FROM events WHERE item IN (99, 101, 103, 105, 107, 109, 111, 113, 115,
  117, 119, 121, 123, 125, 127, 129, 131, 133, 135, 137, 139, 141, 143, 145, 147, 149, 151, 153,
  155, 157, 159, 161, 163, 165, 167, 169, 171, 173, 175, 177, 179) GROUP BY item;

-- a long list of strings
SELECT kind, count(*) AS c FROM events WHERE kind IN ('book', 'Book', 'k0', 'k1', 'k2', 'k3',
  'k4', 'k5', 'k6', 'k7', 'k8', 'k9', 'k10', 'k11', 'k12', 'k13', 'k14', 'k15', 'k16', 'k17',
  'k18', 'k19', 'k20', 'k21', 'k22', 'k23', 'k24', 'k25', 'k26', 'k27', 'k28', 'k29', 'k30',
  'k31', 'k32', 'k33', 'k34', 'k35', 'k36', 'k37', 'k38', 'k39') GROUP BY kind;

-- a long list of an expression
SELECT item * 2 AS k, count(*) AS c FROM events WHERE item * 2 IN (200, 203, 206, 209, 212, 215,
  218, 221, 224, 227, 230, 233, 236, 239, 242, 245, 248, 251, 254, 257, 260, 263, 266, 269, 272,
  275, 278, 281, 284, 287, 290, 293, 296, 299, 302, 305, 308, 311, 314, 317) GROUP BY item * 2;

-- a CASE of numbers
SELECT CASE WHEN gift THEN 1 ELSE 0 END AS k, avg(price) AS a FROM events GROUP BY 1;

-- months of times
SELECT month(seen) AS m, count(*) AS n FROM events GROUP BY m;

-- days of the week of times
SELECT dayofweek(seen) AS d, count(*) AS n FROM events GROUP BY 1;

-- ISO days of the week
SELECT extract(isodow FROM seen) AS d, count(*) AS n FROM events GROUP BY 1;

-- the day of a time
SELECT CAST(seen AS DATE) AS d, count(*) AS n FROM events WHERE seen >= TIMESTAMP '1997-01-02
  18:00:00' AND seen < TIMESTAMP '1997-01-05' GROUP BY 1;

-- months of a range that begins within one
SELECT date_trunc('month', day) AS m, count(*) AS n FROM events WHERE day BETWEEN '1997-01-10' AND
  '1997-03-20' GROUP BY 1;

-- hours of a range that begins within one
SELECT date_trunc('hour', seen) AS h, count(*) AS n FROM events WHERE seen BETWEEN '1997-01-02
  18:30:00' AND '1997-01-03 06:00:00' GROUP BY 1;

-- a function of listed values
SELECT item // 10 AS t, count(*) AS n FROM events WHERE item BETWEEN 105 AND 134 GROUP BY item //
  10;

-- a list of an expression
SELECT coalesce(kind, 'none') AS k, count(*) AS c FROM events WHERE coalesce(kind, 'none') IN
  ('none', 'book') GROUP BY k;

-- a list of years
SELECT year(day) AS y, count(*) AS c FROM events WHERE year(day) IN (1997, 1998) GROUP BY y;

-- several keys
SELECT kind, month(seen) AS m, count(*) AS n, sum(amount) AS s FROM events WHERE kind IN ('book',
  'o''brien') GROUP BY kind, m;

-- three keys of three kinds
SELECT gift, day, item, count(*) AS n FROM events WHERE day BETWEEN '1997-01-03' AND '1997-01-05'
  AND item BETWEEN 100 AND 110 AND gift IS NOT NULL GROUP BY 1, 2, 3;

-- keys that are not shown
SELECT count(*) AS n FROM events WHERE item BETWEEN 100 AND 104 GROUP BY item ORDER BY item;

-- several aggregates
SELECT kind, count(*) AS n, count(DISTINCT who) AS u, sum(amount) AS s, avg(price) AS a,
  stddev(amount) AS d, countif(gift) AS f FROM events WHERE kind IN ('book', 'Book', '') GROUP BY
  kind;

-- a value for what is missing
SELECT coalesce(kind, 'none') AS k, count(*) n FROM events WHERE kind = 'book' OR kind IS NULL
  GROUP BY k;

-- a value for what a join does not find
SELECT coalesce(city, 'none') AS k, count(*) n FROM events e LEFT JOIN shops s ON e.shop_id =
  s.shop_id GROUP BY k;

-- a case of declared keys with something else
SELECT CASE WHEN kind = 'book' THEN upper(kind) ELSE 'other' END k, count(*) n FROM events GROUP
  BY k;

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

-- private tables by full join
SELECT count(*) n, count(e.who) m, count(v.who) o, count(DISTINCT coalesce(e.who, v.who)) u,
  count(DISTINCT v.who) w, sum(v.pages) p FROM events e FULL JOIN visits v ON e.who = v.who AND
  e.day = v.day;

-- subqueries by full join, then a table
SELECT gift, count(*) n, count(DISTINCT who) u FROM (SELECT who, gift, count(*) AS m FROM events
  WHERE who < 900 GROUP BY who, gift) a FULL JOIN (SELECT who, max(pages) AS k FROM visits WHERE
  who > 100 GROUP BY who) b USING (who) LEFT JOIN visits c USING (who) WHERE m IS NULL OR k > 3
  GROUP BY gift;

-- a full join's rows of a person
SELECT c, count(*) n, countif(d > 0) s FROM (SELECT coalesce(e.who, v.who) AS who, count(e.day) AS c,
  count(v.day) AS d FROM events e FULL JOIN visits v ON e.who = v.who AND e.day < v.day GROUP BY 1)
  WHERE c BETWEEN 0 AND 9 GROUP BY c;

-- people among any of rows
SELECT count(*) n FROM events e WHERE e.who = ANY (SELECT who FROM visits v WHERE v.pages > 5);

-- a greatest value of no rows
SELECT g, count(*) n FROM (SELECT who, max(shop_id) FILTER (WHERE qty > 100) AS g FROM events GROUP
  BY who) WHERE g IS NULL OR g = 1 GROUP BY g;

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

-- public
SELECT count(*) AS n, sum(least(greatest(weight, 0), 9)) AS w FROM events JOIN families USING
  (kind);
-- is
SELECT count(*) AS n, sum(CASE WHEN weight IS NULL THEN 0 ELSE weight END) AS w FROM events JOIN
  families USING (kind);

-- public, its column as key
SELECT family, count(*) AS n FROM events JOIN families USING (kind) GROUP BY family;

-- public, its key of integers
SELECT half, count(*) AS n, count(DISTINCT who) AS u FROM events e JOIN items c ON e.item = c.item
  GROUP BY half;

-- public, its long key
SELECT c.item, count(*) AS n FROM events e JOIN items c ON e.item = c.item GROUP BY c.item;

-- public, outer
SELECT count(*) AS n, count(weight) AS w FROM events LEFT JOIN families ON events.kind =
  families.kind WHERE amount > 0;

-- public, anti
SELECT count(*) AS n FROM events e LEFT JOIN families f ON e.kind = f.kind WHERE f.kind IS NULL;

-- public, by an inequality
SELECT count(*) AS n FROM events e JOIN families f ON e.qty > f.weight AND e.kind = f.kind;

-- public, a subquery of it
SELECT half, count(*) AS n FROM events JOIN (SELECT item, half FROM items WHERE item < 120) c
  USING (item) WHERE half IN (0, 1) GROUP BY half;

-- private on the user and a day
SELECT count(*) AS n, sum(pages) AS p, count(DISTINCT e.who) AS u FROM events e JOIN visits v ON
  e.who = v.who AND e.day = v.day;

-- private, condition in WHERE
SELECT count(*) AS n FROM events e, visits v WHERE e.who = v.who AND v.pages > 5;

-- private, outer
SELECT count(*) AS n, count(v.pages) AS p, count(DISTINCT v.who) AS u FROM events e LEFT JOIN
  visits v ON e.who = v.who AND e.day = v.day;

-- private, anti
SELECT count(*) AS n FROM events e LEFT JOIN visits v ON e.who = v.who WHERE v.who IS NULL;

-- private with itself
SELECT count(*) AS n FROM events a JOIN events b ON a.who = b.who AND a.seen < b.seen WHERE a.kind
  = 'book' AND b.kind = 'Book';

-- three tables, two of them private
SELECT f.family, count(*) AS n FROM events e JOIN visits v USING (who) JOIN families f ON e.kind =
  f.kind WHERE v.pages > 3 GROUP BY f.family;

-- # subqueries, per user

-- grouped by the user
SELECT count(*) n FROM (SELECT who, count(*) c FROM events GROUP BY who) WHERE c > 10;

-- rows by user and key
SELECT count(*) n, sum(least(c, 5)) s, avg(least(c, 5)) a FROM (SELECT who, kind, count(*) c FROM
  events GROUP BY who, kind);

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
SELECT count(*) n FROM (SELECT DISTINCT who, kind FROM events);

-- row_number
SELECT sum(least(greatest(amount, 0), 9)) s FROM (SELECT who, amount, row_number() OVER
  (PARTITION BY who ORDER BY day, seen, amount DESC) r FROM events) WHERE r <= 3;

-- windows get the user
SELECT count(*) n FROM (SELECT row_number() OVER (PARTITION BY who ORDER BY day) r FROM events)
  WHERE r <= 3;

-- a window by a distance in days
SELECT count(*) n, sum(least(greatest(l, 0), 50)) s FROM (SELECT who, sum(qty) OVER (PARTITION BY who ORDER BY day RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW) l FROM events) AS i WHERE l > 3;

-- a window by a distance, from the end
SELECT count(*) n FROM (SELECT who, count(*) OVER (PARTITION BY who ORDER BY seen DESC NULLS FIRST RANGE BETWEEN INTERVAL 36 HOURS PRECEDING AND INTERVAL 2 MONTH FOLLOWING) l FROM events) AS i WHERE l > 2;

-- a window by a distance between numbers
SELECT count(*) n FROM (SELECT who, avg(amount) OVER (PARTITION BY who ORDER BY qty RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) l, count(*) OVER (PARTITION BY who ORDER BY amount RANGE BETWEEN 2.5 PRECEDING AND CURRENT ROW) m FROM events) AS i WHERE l > 20 AND m > 1;

-- a window by groups of peers
SELECT count(*) n FROM (SELECT who, max(amount) OVER (PARTITION BY who, kind ORDER BY day GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) l FROM events) AS i WHERE l > 20;

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

-- the user and several keys
WITH d AS (SELECT who, day, kind, sum(amount) AS a FROM events GROUP BY who, day, kind) SELECT
  count(*) AS c, sum(least(greatest(a, 0), 50)) AS s FROM d WHERE day IS NOT NULL;
-- is
WITH d AS (SELECT who, day, kind, sum(amount) AS a FROM events GROUP BY 1, 2, 3) SELECT count(*)
  AS c, sum(CASE WHEN a IS NULL THEN 0 ELSE least(greatest(a, 0), 50) END) AS s FROM d WHERE day
  IS NOT NULL;

-- the user added to DISTINCT
SELECT kind, count(*) AS n FROM (SELECT DISTINCT who, kind, day FROM events) WHERE kind IN
  ('book', 'Book') GROUP BY kind;

-- the user added to a partition
SELECT count(*) AS n FROM (SELECT rank() OVER (PARTITION BY who, kind ORDER BY day DESC NULLS
  LAST) AS r FROM events) WHERE r = 1;

-- the row before
SELECT count(*) AS n FROM (SELECT seen, lag(seen) OVER (PARTITION BY who ORDER BY seen) AS before
  FROM events) WHERE date_diff('hour', before, seen) < 24;

-- the row after next
SELECT sum(x) AS s FROM (SELECT lead(amount, 2) OVER (PARTITION BY who ORDER BY seen,
  amount) AS x FROM
  events);

-- a running sum
SELECT countif(s > 100) AS n FROM (SELECT sum(amount) OVER (PARTITION BY who ORDER BY seen) AS s
  FROM events);

-- a moving average
SELECT countif(a > 20) AS n FROM (SELECT avg(amount) OVER (PARTITION BY who ORDER BY seen,
  amount ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM events);

-- all of a user's rows
SELECT count(*) AS n FROM (SELECT amount, max(amount) OVER (PARTITION BY who) AS m FROM events)
  WHERE amount = m;

-- aggregates of a user
SELECT count(*) AS n, sum(least(d, 4)) AS s FROM (SELECT who, min(seen) AS a, max(amount) AS m,
  bool_or(gift) AS f, bool_and(gift) AS g, avg(price) AS p, count(DISTINCT kind) AS d FROM events
  GROUP BY who) WHERE m > 40 AND f AND NOT g AND p < 500 AND a < '1997-01-20';

-- filtered aggregates of a user
SELECT countif(a > b) AS n FROM (SELECT who, count(*) FILTER (WHERE gift) AS a, countif(qty > 4)
  AS b FROM events GROUP BY who);

-- arithmetic on a user's aggregates
SELECT avg(least(greatest(r, 0), 50)) AS a FROM (SELECT who, sum(amount) / count(*) AS r FROM
  events GROUP BY who);

-- HAVING inside
SELECT count(*) AS n FROM (SELECT who FROM events GROUP BY who HAVING count(*) > 14 AND
  sum(amount) > 100);

-- a HAVING of groups by user and key
SELECT count(*) AS n FROM (SELECT kind FROM events GROUP BY who, kind HAVING count(*) >= 3);

-- a CTE on a CTE
WITH big AS (SELECT * FROM events WHERE amount > 10), u AS (SELECT who, count(*) AS k FROM big
  GROUP BY who) SELECT count(*) AS n FROM u WHERE k > 4;

-- a CTE twice
WITH g AS (SELECT who, seen FROM events WHERE kind = 'book') SELECT count(*) AS n FROM g AS a JOIN
  g AS b ON a.who = b.who AND a.seen < b.seen;

-- joined with its aggregate
SELECT count(*) AS n FROM events e JOIN (SELECT who, avg(amount) AS m FROM events GROUP BY who) u
  ON e.who = u.who WHERE e.amount > u.m;

-- a user's first day as key
SELECT first, count(*) AS users FROM (SELECT who, min(day) AS first FROM events GROUP BY who)
  WHERE first BETWEEN '1997-01-01' AND '1997-01-14' GROUP BY first;

-- renamed columns
SELECT count(DISTINCT person) AS u FROM (SELECT who AS person, amount AS a FROM events) t WHERE
  t.a > 30;

-- an aggregated public table by a CTE
WITH f AS (SELECT family, count(*) AS k, max(kind) AS kind FROM families GROUP BY family) SELECT
  count(*) AS n FROM events JOIN f ON events.kind = f.kind WHERE f.k = 1;

-- # after the noise

-- outer arithmetic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)
  count(*) * 2.0 / count(DISTINCT who) + 1 r, round(avg(amount), 1) m, abs(sum(qty) - 1000)
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

-- a ratio
SELECT count(*) * 1.0 / count(DISTINCT who) AS r FROM events;

-- a share in percent
SELECT round(100.0 * countif(gift) / count(*), 1) AS p FROM events WHERE qty > 0;

-- differences
SELECT count(*) - countif(gift) + 3 AS d, -sum(amount) AS m FROM events;

-- functions of answers
SELECT sqrt(count(*)) AS r, ln(count(*)) AS l, abs(-sum(price)) AS a, greatest(count(*), 10000) AS
  g, least(count(*), 5) AS t, floor(avg(amount)) AS f FROM events;

-- a CASE of answers
SELECT kind, CASE WHEN count(*) > 100 THEN 'many' ELSE 'few' END AS k, count(*) AS n FROM events
  WHERE kind IN ('book', 'Book') GROUP BY kind;

-- division by nothing
SELECT sum(amount) / nullif(count(*), 0) AS r FROM events WHERE amount > 1000;

-- HAVING
SELECT item, count(*) AS n FROM events WHERE item BETWEEN 100 AND 130 GROUP BY item HAVING
  count(*) > 15 AND count(*) BETWEEN 0 AND 20;

-- HAVING something not shown
SELECT item, count(*) AS n FROM events WHERE item BETWEEN 100 AND 130 GROUP BY item HAVING
  sum(amount) > 200;

-- HAVING a key
SELECT item, count(*) AS n FROM events WHERE item BETWEEN 100 AND 130 GROUP BY item HAVING item <>
  120;

-- HAVING a range of dates
SELECT day, count(*) AS n FROM events WHERE day BETWEEN '1997-01-01' AND '1997-01-09' GROUP BY day
  HAVING day > DATE '1997-01-04' AND day <> '1997-01-06';

-- HAVING some strings
SELECT kind, count(*) AS n FROM events WHERE kind IN ('Book', 'book', '') GROUP BY kind HAVING
  kind IN ('Book', '') AND count(*) > 0;

-- HAVING by a name in SELECT
SELECT gift, sum(amount) AS s FROM events WHERE gift IN (true, false) GROUP BY gift HAVING s > 0
  AND gift;

-- arithmetic on a key
SELECT item, item * 2 + count(*) AS n FROM events WHERE item BETWEEN 100 AND 105 GROUP BY item;

-- ORDER BY an answer
SELECT item, sum(amount) AS s FROM events WHERE item BETWEEN 100 AND 130 GROUP BY item ORDER BY s
  DESC;

-- ORDER BY several
SELECT gift, item, count(*) AS n FROM events WHERE item BETWEEN 100 AND 105 AND gift IN (true,
  false) GROUP BY gift, item ORDER BY gift DESC, 3, item;

-- ORDER BY an expression
SELECT kind, count(*) AS n FROM events WHERE kind IN ('book', 'Book', 'o''brien') GROUP BY kind
  ORDER BY sum(amount) / count(*) DESC;

-- ORDER BY strings
SELECT kind, count(*) AS n FROM events WHERE kind IN ('o''brien', 'book', 'Book', '日本') GROUP BY
  kind ORDER BY kind DESC;

-- LIMIT
SELECT item, count(*) AS n FROM events WHERE item BETWEEN 100 AND 130 GROUP BY item ORDER BY n DESC,
  item LIMIT 5;

-- LIMIT and OFFSET
SELECT item, count(*) AS n FROM events WHERE item BETWEEN 100 AND 130 GROUP BY item HAVING
  count(*) > 5 ORDER BY 2 DESC, item LIMIT 4 OFFSET 2;

-- an accuracy
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(accuracy = 5) sum(amount) AS s FROM events;

-- no options
SELECT WITH DIFFERENTIAL_PRIVACY count(*) AS n FROM events;

-- halves are rounded away from zero
SELECT item, round(count(*) / 2) a, round(-count(*) / 2) b, round(count(*) / 8, 2) c,
  round(count(*) / 4 * 10, -1) d FROM events WHERE item BETWEEN 100 AND 159 GROUP BY item;

-- casts of answers
SELECT item, CAST(count(*) / 2 AS INT) a, CAST(count(*) / 3 AS DECIMAL(10, 2)) b,
  CAST(count(*) AS DOUBLE) c, CAST(count(*) / 3 AS DECIMAL) d FROM events WHERE item BETWEEN 100
  AND 159 GROUP BY item;

-- missing answers are ordered last
SELECT qty, avg(amount) FILTER (WHERE qty = 1) a FROM events WHERE qty IN (1, 2, 3) GROUP BY qty
  ORDER BY a DESC, qty;

-- missing answers are ordered first
SELECT qty, avg(amount) FILTER (WHERE qty <> 1) a FROM events WHERE qty IN (1, 2, 3) GROUP BY qty
  ORDER BY a DESC NULLS FIRST;

-- missing texts are ordered
SELECT kind, CASE WHEN count(*) > 110 THEN 'x' WHEN count(*) > 100 THEN 'w' END c FROM events
  WHERE kind IN ('book', 'Book', '') GROUP BY kind ORDER BY c NULLS FIRST, kind;

-- having what is not known
SELECT qty, count(*) n FROM events WHERE qty IN (1, 2, 3, 4) GROUP BY qty HAVING NOT (avg(amount)
  FILTER (WHERE qty <> 1) > 1000) AND (sum(amount) / nullif(qty, 2) <> 0 OR count(*) > 0);

-- having a list with a hole
SELECT qty, count(*) n FROM events WHERE qty IN (1, 2, 3) GROUP BY qty HAVING qty NOT IN (1, NULL)
  OR qty = 3;

-- ifs of answers
SELECT kind, if(count(*) > 110, count(*), -1) c FROM events WHERE kind IN ('book', 'Book', '')
  GROUP BY kind;

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

-- # lists of a person's own

-- a value in another table's
SELECT count(*) n FROM events WHERE qty IN (SELECT pages FROM visits v WHERE v.who = events.who);

-- a value not in it, which is NULL where one of them is
SELECT count(*) n FROM events WHERE qty NOT IN (SELECT pages FROM visits v WHERE v.who = events.who);

-- the other way, with NULLs in the list
SELECT count(*) n FROM visits WHERE pages NOT IN (SELECT qty FROM events e WHERE e.who = visits.who);

-- neither true nor false
SELECT count(*) n FROM visits
WHERE (pages IN (SELECT qty FROM events e WHERE e.who = visits.who)) IS NULL;

-- beside other conditions
SELECT count(*) n FROM events
WHERE NOT (qty IN (SELECT pages FROM visits v WHERE v.who = events.who) OR qty > 5);

-- of different days, and each once
SELECT count(*) n FROM events e
WHERE day IN (SELECT DISTINCT day FROM visits v WHERE v.who = e.who AND pages > 2) OR amount > 90;

-- bought before
SELECT count(*) n FROM events e
WHERE item IN (SELECT item FROM events o WHERE o.who = e.who AND o.day < e.day);

-- counted where it holds
SELECT countif(pages IN (SELECT qty FROM events e WHERE e.who = v.who AND e.amount > 3)) n
FROM visits v;

-- # LATERAL

-- the dearest of each visitor
SELECT t.gift, count(*) n FROM visits v, LATERAL (
  SELECT gift FROM events WHERE events.who = v.who ORDER BY price DESC, day, qty LIMIT 1) t
GROUP BY t.gift;

-- all that agree, and those that have none
SELECT count(*) n, count(t.pages) m FROM events e
LEFT JOIN LATERAL (SELECT pages FROM visits v WHERE v.who = e.who AND v.day = e.day) t ON true;

-- two of each, with names of their own
SELECT count(*) n FROM visits v JOIN LATERAL (
  SELECT qty, day FROM events e WHERE e.who = v.who AND qty > 1 ORDER BY day, qty, amount LIMIT 2
) t(q, d) ON true WHERE d >= v.day;


-- # more functions and forms

-- moments of parts, and parts of moments
SELECT count(*) FILTER (WHERE make_timestamp(year(day), 2, 3, hour(seen), 5, 6.5) > TIMESTAMP '1997-02-03 12:00') a,
  countif(century(day) = 20 AND decade(seen) = 199) b, countif(isoyear(day) = 1997) c,
  countif(extract(yearweek FROM day) > 199710) d, countif(epoch_ms(seen) > 860000000000) e FROM events;

-- moments of numbers
SELECT countif(to_timestamp(850000000 + qty * 3000000) > TIMESTAMP '1997-01-01') a,
  countif(epoch_ms(850000000000 + qty * 3000000000) > seen) b FROM events;
-- is
SELECT countif(CAST(to_timestamp(850000000 + qty * 3000000) AS TIMESTAMP) > TIMESTAMP '1997-01-01') a,
  countif(epoch_ms(850000000000 + qty * 3000000000) > seen) b FROM events;

-- later by DATEADD
SELECT countif(dateadd(day, 30, day) > DATE '1997-03-01') a, countif(dateadd('hour', qty, seen) > day) b FROM events;
-- is
SELECT countif(day + INTERVAL 30 DAY > DATE '1997-03-01') a,
  countif(seen + to_hours(qty) > day) b FROM events;

-- ages, and times between, in parts
SELECT countif(extract(year FROM age(day, DATE '1994-03-15')) >= 3) a,
  countif(date_part('month', age(TIMESTAMP '1999-02-27 10:00:00', seen)) > 9) b,
  countif(extract(day FROM age(seen, TIMESTAMP '1996-02-29 10:00:00')) = 30) c,
  countif(extract(day FROM seen - TIMESTAMP '1997-03-01 12:00:00') < -30) d,
  countif(extract(epoch FROM (TIMESTAMP '1997-03-01 12:00:00' - seen)) > 3600.5) e FROM events;

-- bits
SELECT countif(qty & 1 = 1) a, sum(qty | 2) b, countif(xor(qty, 3) > 2) c, sum(greatest(qty, 0) << 2) d,
  countif(qty >> 1 = 1) e, countif(~qty < -3) f, sum(bit_count(qty)) g FROM events;

-- divisors and roots
SELECT countif(gcd(qty, 6) = 3) a, countif(lcm(qty, 4) = 12) b, countif(cbrt(amount) > 2) c FROM events;

-- angles
SELECT countif(sin(amount) > 0) a, countif(cos(radians(amount)) < 0.5) b, countif(tan(reading) > 1) c,
  countif(atan2(amount, qty) > 1) d, countif(degrees(atan(reading)) > 45) e, countif(amount > 2 * pi()) f
FROM events;

-- texts made again and again
SELECT countif(repeat(kind, 2) = 'bookbook') a, countif(length(repeat(kind, qty)) > 9) b,
  countif(chr(CAST(64 + qty AS INTEGER)) = 'C') c, countif(kind = chr(26085) || chr(26412)) d FROM events;

-- capitals
SELECT countif(initcap(kind || ' of gold') = 'Book Of Gold') n, countif(initcap(kind) = 'O''Brien') b FROM events;
-- is
SELECT countif(lower(kind) = 'book') n, countif(kind = 'o''brien') b FROM events;

-- patterns with a sign before what stands for itself
SELECT countif(kind LIKE '100!%' ESCAPE '!') a, countif(kind LIKE '%!%' ESCAPE '!') b,
  countif(kind NOT LIKE '_o_\_%' ESCAPE '\') c, countif(kind ILIKE 'BxO%' ESCAPE 'x') d,
  countif(kind || '_' LIKE '%0!%!_' ESCAPE '!') e, countif(kind LIKE '%_!%' ESCAPE '!') f FROM events;

-- similar to
SELECT countif(kind SIMILAR TO '(book|Book)') a, countif(kind NOT SIMILAR TO '[a-z]+') b FROM events;

-- rows of values
SELECT countif((kind, qty) IN (('book', 2), ('Book', 3))) a, countif((kind, qty) NOT IN (('book', 2), ('', 1))) b,
  countif((kind, qty) = ('book', 1)) c, countif((kind, qty) <> ('book', 1)) d,
  countif((qty, shop_id) = (shop_id, qty)) e FROM events;

-- any and all
SELECT countif(qty = ANY ([1, 2])) a, countif(qty > ANY ([2, 3])) b, countif(qty < ALL ([2, NULL])) c,
  countif(qty <> ALL ([1, 2])) d FROM events;
-- is
SELECT countif(qty IN (1, 2)) a, countif(qty > 2) b, countif(qty < 2 AND NULL) c, countif(qty NOT IN (1, 2)) d
FROM events;

-- groups in parentheses, and the first of them
SELECT gift, shop_id, count(*) n FROM events WHERE gift IN (true, false) AND shop_id IN (1, 2)
GROUP BY (gift, shop_id) ORDER BY gift, shop_id FETCH FIRST 3 ROWS ONLY;

-- medians and deviations of each person
SELECT count(*) FILTER (WHERE a > 40) a, countif(b > 30) b, countif(c >= 3) c, sum(least(greatest(d, 0), 100)) d,
  countif(e > 20.5) e, countif(f = 1) f, countif(g > 2) g
FROM (SELECT who, median(amount) a, stddev(amount) b, var_pop(qty) c, quantile_cont(amount, 0.9) d,
    median(price) e, quantile_disc(qty, 0.25) f, percentile_cont(0.5) WITHIN GROUP (ORDER BY qty) g
  FROM events GROUP BY who, gift HAVING stddev_pop(qty) > 0);

-- more than the person's own median
SELECT count(*) n FROM events e WHERE amount > (SELECT median(amount) FROM events i WHERE i.who = e.who);

-- intervals that are a number times one
SELECT countif(day + to_days(3) > DATE '1997-03-01') a, countif(seen + to_hours(qty) > DATE '1997-03-01') b,
  countif(day + qty * INTERVAL '1 day' > DATE '1997-03-01') c, countif(day - INTERVAL 1 MONTH * 2 > DATE '1997-03-01') d
FROM events;

-- constants as tables
WITH w(i) AS (VALUES (1), (3))
SELECT v.y, count(*) n FROM events JOIN (VALUES ('book', 1.5), ('Book', 2), ('no', NULL)) AS v(x, y) ON kind = v.x
  JOIN w ON qty > w.i WHERE qty IN (SELECT z FROM (SELECT 2 AS z UNION ALL SELECT 4)) AND y IS NOT NULL GROUP BY v.y;

-- series as tables
SELECT i, count(*) n, countif(j = 1) m FROM events JOIN range(0, 5, 2) r(i) ON qty = i
  JOIN generate_series(3, 1, -1) s(j) ON shop_id = j GROUP BY i;

-- days of a series, with those that have none
SELECT d, count(who) n FROM generate_series(DATE '1997-01-30', DATE '1997-02-05', INTERVAL 2 DAYS) AS g(d)
LEFT JOIN events ON day = d GROUP BY d;

-- # one condition of all branches, one inequality in EXISTS

-- a condition that all branches have
SELECT count(*) n, count(DISTINCT who) people FROM events e, shops s
WHERE (e.shop_id = s.shop_id AND city = 'Oslo') OR (qty > 2 AND e.shop_id = s.shop_id);

-- a condition that one branch is
SELECT count(*) n FROM events e WHERE (qty > 2 AND gift) OR qty > 2 OR (amount > 50 AND qty > 2);

-- branches with NULLs, negated
SELECT count(*) n FROM events e WHERE NOT ((qty > 2 AND gift) OR (amount > 50 AND qty > 2));

-- another row of the same day
SELECT count(*) n FROM events e
WHERE EXISTS (SELECT * FROM events o WHERE o.who = e.who AND o.day = e.day AND o.qty <> e.qty);

-- no other row of the same day
SELECT count(*) n FROM events e
WHERE NOT EXISTS (SELECT * FROM events o WHERE o.who = e.who AND o.day = e.day AND e.kind <> o.kind);

-- a later row
SELECT count(*) n, count(DISTINCT e.who) people FROM events e
WHERE EXISTS (SELECT 1 FROM events o WHERE o.who = e.who AND e.day < o.day AND o.gift);

-- the greatest reading, NaN among them
SELECT count(*) n FROM events e
WHERE NOT EXISTS (SELECT 1 FROM events o WHERE o.who = e.who AND o.reading > e.reading);

-- at most as great a reading
SELECT count(*) n FROM events e
WHERE EXISTS (SELECT 1 FROM events o WHERE o.who = e.who AND o.reading <= e.reading AND o.qty = 1);

-- whether there is a later row, beside a condition
SELECT count(*) n FROM events e
WHERE gift OR NOT EXISTS (SELECT 1 FROM events o WHERE o.who = e.who AND o.seen >= e.seen AND o.gift);

-- # as other tools write it

-- texts that are said to be texts
SELECT date_trunc('month'::VARCHAR, day) m, count(*) n FROM events WHERE day >= CAST('1997-02-01' AS TEXT) AND day < '1997-04-01' AND kind LIKE 'b%'::TEXT GROUP BY m
-- is
SELECT date_trunc('month', day) m, count(*) n FROM events WHERE day >= '1997-02-01' AND day < '1997-04-01' AND kind LIKE 'b%' GROUP BY m;

-- a date of a moment
SELECT date(seen) d, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-04' GROUP BY d;

-- five minutes
SELECT DATE_TRUNC('HOUR', seen) + INTERVAL '5 MINUTES' * FLOOR(EXTRACT(MINUTE FROM seen) / 5) t, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-02' GROUP BY t
-- is
SELECT time_bucket(INTERVAL 5 MINUTE, seen) t, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-02' GROUP BY t;

-- thirty seconds, turned round
SELECT FLOOR(EXTRACT(second FROM seen) / 30.0) * INTERVAL '30' SECOND + date_trunc('minute', seen) t, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-02' GROUP BY t
-- is
SELECT time_bucket(INTERVAL 30 SECOND, seen) t, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-02' GROUP BY t;

-- date_bin
SELECT DATE_BIN('6 hours', seen, MAKE_TIMESTAMP(CAST(1970 AS INT), 1, 1, 0, 0, 0)) t, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-04' GROUP BY t
-- is
SELECT time_bucket(INTERVAL 6 HOUR, seen, TIMESTAMP '1970-01-01') t, count(*) n FROM events WHERE seen >= '1997-01-01' AND seen < '1997-01-04' GROUP BY t;

-- clipped with NULL as it was
SELECT sum(CASE WHEN CASE WHEN qty IS NULL THEN qty ELSE LEAST(5, qty) END IS NULL
  THEN CASE WHEN qty IS NULL THEN qty ELSE LEAST(5, qty) END
  ELSE GREATEST(1, CASE WHEN qty IS NULL THEN qty ELSE LEAST(5, qty) END) END) s FROM events
-- is
SELECT sum(least(greatest(qty, 1), 5)) s FROM events WHERE qty IS NOT NULL;

-- the series of the largest
SELECT gift, kind, count(*) n FROM events JOIN (SELECT kind AS kind__, count(*) AS inner__ FROM events WHERE kind IN ('book', '日本', '100%') GROUP BY kind ORDER BY count(*) DESC LIMIT 2) AS series_limit ON kind = kind__ WHERE kind IN ('book', '日本', '100%') GROUP BY gift, kind;

-- those of the largest
SELECT gift, kind, avg(qty) n FROM events WHERE kind IN ('book', '日本', '100%') AND qty BETWEEN 1 AND 5 AND kind IN
  (SELECT kind FROM events WHERE kind IN ('book', '日本', '100%') GROUP BY kind ORDER BY count(*) DESC LIMIT 2)
GROUP BY gift, kind HAVING count(*) > 20;

-- those of the largest, one inside the other
SELECT kind, count(*) n FROM events WHERE kind IN ('book', '日本', '100%') AND (kind IN
  (SELECT kind FROM events WHERE kind IN ('book', '100%') AND kind IN
    (SELECT kind FROM events WHERE kind IN ('book', '日本', '100%') GROUP BY kind ORDER BY count(*) DESC LIMIT 2)
  GROUP BY kind HAVING count(*) > 0))
GROUP BY kind;

-- the series of the largest, of two keys
SELECT gift, qty, kind, count(*) n FROM events JOIN (SELECT kind AS kind__, qty AS qty__, count(*) AS inner__ FROM events WHERE kind IN ('book', '日本', '100%') AND qty IN (1, 2, 3) GROUP BY kind, qty ORDER BY inner__ DESC, kind, qty LIMIT 4) AS series_limit ON kind = kind__ AND qty = qty__ WHERE kind IN ('book', '日本', '100%') AND qty IN (1, 2, 3) GROUP BY gift, qty, kind;

-- those of the largest, of two keys
SELECT e.kind, e.qty, sum(amount) s FROM events e, (SELECT kind k, qty q FROM events WHERE kind IN ('book', '日本', '100%') AND qty IN (1, 2, 3) GROUP BY kind, qty HAVING count(*) > 5 ORDER BY count(*) DESC, kind, qty LIMIT 5) top
WHERE e.kind = top.k AND top.q = e.qty AND e.kind IN ('book', '日本', '100%') AND e.qty IN (1, 2, 3) AND (e.kind, e.qty) IN (SELECT kind, qty FROM events WHERE kind IN ('book', '日本', '100%') AND qty IN (1, 2, 3) GROUP BY qty, kind ORDER BY sum(amount) DESC, kind, qty LIMIT 7) GROUP BY e.kind, e.qty;

-- # another question, asked first

-- rows above the average of all
SELECT count(*) n, sum(greatest(least(qty, 9), 0)) s FROM events WHERE amount > (SELECT avg(amount) FROM events);

-- above a part of it, in groups
SELECT kind, count(*) n FROM events WHERE amount < 0.5 * (SELECT avg(amount) FROM events WHERE gift) AND kind IN ('book', '日本') GROUP BY kind;

-- in FILTER and in CASE
SELECT count(*) FILTER (WHERE amount >= (SELECT avg(amount) FROM events)) a, sum(CASE WHEN qty > (SELECT avg(greatest(least(qty, 9), 0)) FROM events) THEN amount ELSE 0 END) b FROM events;

-- between two of them
SELECT count(*) n FROM events WHERE amount BETWEEN (SELECT avg(amount) - stddev(amount) FROM events) AND (SELECT avg(amount) + stddev(amount) FROM events);

-- as a key
SELECT amount > (SELECT avg(amount) FROM events) AS above, count(*) n FROM events WHERE amount IS NOT NULL GROUP BY above;

-- a named one, joined
WITH m AS (SELECT avg(amount) AS mu, stddev(amount) AS sd, count(*) AS n FROM events) SELECT count(*) n FROM events CROSS JOIN m WHERE amount > m.mu + 0.5 * m.sd;

-- first of FROM, and joined by a condition
SELECT count(*) n FROM (SELECT avg(greatest(least(qty, 9), 0)) AS a FROM events) m JOIN events e ON e.qty >= m.a WHERE e.gift;

-- read from a named one
WITH m AS (SELECT avg(amount) AS mu FROM events) SELECT count(*) n FROM events WHERE amount > (SELECT mu FROM m);

-- people above the average of people
WITH p AS (SELECT who, count(*) AS c FROM events WHERE who IS NOT NULL GROUP BY who) SELECT count(*) n FROM p WHERE c > (SELECT avg(least(c, 100)) FROM p);

-- in HAVING of each person
SELECT count(*) n FROM (SELECT who FROM events WHERE who IS NOT NULL GROUP BY who HAVING avg(qty) > (SELECT avg(greatest(least(qty, 9), 0)) FROM events));

-- one inside another, inside another
SELECT count(*) n FROM events WHERE amount > (SELECT avg(amount) FROM events WHERE amount > (SELECT avg(amount) FROM events));

-- in a question that stands beside another
SELECT count(*) FILTER (WHERE amount > (SELECT avg(amount) FROM events)) / (SELECT count(*) FROM events WHERE amount > (SELECT avg(amount) FROM events WHERE gift)) AS share FROM events;

-- the most frequent key
SELECT count(*) n FROM events WHERE qty = (SELECT qty FROM events WHERE qty IS NOT NULL GROUP BY qty ORDER BY count(*) DESC LIMIT 1);

-- compared with nothing
SELECT count(*) n FROM events WHERE amount > (SELECT CASE WHEN count(*) < 0 THEN 1 END FROM events);

-- with a name of its own, beside a person's own rows of that name
SELECT count(*) n FROM events, (SELECT avg(amount) AS a FROM events) m WHERE amount > m.a AND EXISTS (SELECT 1 FROM events m WHERE m.who = events.who AND m.qty > 3) AND amount > (WITH z AS (SELECT 0.5 * avg(amount) a FROM events) SELECT a FROM z);
