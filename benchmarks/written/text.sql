-- subjects that speak of refunds
SELECT count(*) AS n FROM tickets WHERE subject ILIKE '%refund%'

-- by regular expression
SELECT count(*) AS n FROM tickets WHERE regexp_matches(body, '(late|delayed|missing)')

-- tilde
SELECT count(*) AS n FROM tickets WHERE subject ~ '^Re:.*'

-- topic by CASE
SELECT CASE WHEN lower(subject) LIKE '%refund%' THEN 'refund' WHEN lower(subject) LIKE '%login%' THEN 'login' ELSE 'other' END AS topic, count(*) AS n FROM tickets GROUP BY topic

-- order numbers found in a text
SELECT count(*) AS n FROM tickets WHERE regexp_extract(body, 'order #([0-9]+)', 1) <> ''

-- section of a page
SELECT split_part(page, '/', 2) AS section, count(*) AS views FROM events WHERE split_part(page, '/', 2) IN ('home', 'product', 'help') GROUP BY 1

-- section of a page without a list
SELECT split_part(page, '/', 2) AS section, count(*) AS views FROM events GROUP BY 1 ORDER BY 2 DESC

-- length of texts
SELECT avg(least(length(body), 500)) AS avg_length FROM tickets

-- words in a text
SELECT least(array_length(string_split(trim(body), ' ')), 60) AS words, count(*) AS n FROM tickets GROUP BY 1 ORDER BY 1

-- words by replace
SELECT avg(least(length(body) - length(replace(body, ' ', '')) + 1, 100)) AS words FROM tickets

-- upper-case subjects
SELECT count(*) AS shouting FROM tickets WHERE subject = upper(subject)

-- initials
SELECT upper(left(city, 1)) AS initial, count(*) AS n FROM customers WHERE upper(left(city, 1)) IN ('A', 'B', 'C', 'G', 'L') GROUP BY 1

-- initials of a closed alphabet
SELECT substr(diagnosis, 1, 1) AS chapter, count(*) AS n FROM visits GROUP BY chapter ORDER BY chapter

-- normalised coupon
SELECT upper(trim(coupon)) AS code, count(*) AS uses FROM orders WHERE upper(trim(coupon)) IN ('SPRING', 'WELCOME10', 'VIP') GROUP BY code

-- coupons that begin with
SELECT count(*) AS n, sum(amount) AS revenue FROM orders WHERE coupon LIKE 'WELCOME%'

-- starts_with and prefix
SELECT count(*) FILTER (WHERE starts_with(page, '/product')) AS product, count(*) FILTER (WHERE page ^@ '/help') AS help FROM events

-- empty searches
SELECT count(*) AS n FROM events WHERE event = 'search' AND (query IS NULL OR trim(query) = '')

-- length of searches
SELECT length(query) AS len, count(*) AS n FROM events WHERE event = 'search' AND length(query) BETWEEN 1 AND 20 GROUP BY len ORDER BY len

-- searches with digits
SELECT count(*) AS n FROM events WHERE event = 'search' AND regexp_full_match(query, '.*[0-9].*')

-- cleaned text
SELECT count(*) AS n FROM events WHERE regexp_replace(lower(query), '[^a-z]', '', 'g') = 'redshoes'

-- translate and reverse
SELECT count(*) AS n FROM events WHERE translate(query, 'áéí', 'aei') = 'cafe' OR reverse(query) = 'xoba'

-- label with concat
SELECT concat(country, ' / ', plan) AS label, count(*) AS n FROM customers GROUP BY country, plan

-- label as the key
SELECT country || '-' || segment AS label, count(*) AS n FROM customers GROUP BY label

-- similar city names
SELECT count(*) AS n FROM customers WHERE levenshtein(lower(city), 'ghent') <= 1

-- hash buckets for an experiment
SELECT CASE WHEN substr(md5(CAST(person_id AS VARCHAR)), 1, 1) < '8' THEN 'A' ELSE 'B' END AS arm, count(*) AS people FROM customers GROUP BY arm

-- hash of the page
SELECT count(DISTINCT person_id) AS n FROM events WHERE sha256(page) = sha256('/home')

-- lists of words
-- never: it shows what people wrote
SELECT string_agg(subject, '; ') AS subjects FROM tickets

-- unnested words
SELECT word, count(*) AS n FROM (SELECT person_id, unnest(string_split(lower(subject), ' ')) AS word FROM tickets) WHERE word IN ('refund', 'login', 'help', 'late') GROUP BY word

-- concat_ws and initcap in the label
SELECT concat_ws(', ', city, country) AS place, count(*) AS n FROM customers WHERE concat_ws(', ', city, country) IN ('Ghent, BE', 'Lund, SE') GROUP BY 1
