-- by a property
SELECT json_extract_string(props, '$.source') AS source, count(*) AS n FROM events WHERE json_extract_string(props, '$.source') IN ('ad', 'mail', 'organic') GROUP BY 1

-- by arrow
SELECT props->>'source' AS source, count(*) AS n FROM events WHERE props->>'source' IN ('ad', 'mail', 'organic') GROUP BY source

-- by arrow with a path
SELECT props->>'$.source' AS source, count(DISTINCT person_id) AS people FROM events WHERE props->>'$.source' IN ('ad', 'mail') GROUP BY 1

-- without a list
SELECT props->>'source' AS source, count(*) AS n FROM events GROUP BY 1 ORDER BY 2 DESC

-- a number in it
SELECT avg(CAST(props->>'scroll' AS DOUBLE)) AS avg_scroll FROM events WHERE CAST(props->>'scroll' AS DOUBLE) BETWEEN 0 AND 100

-- a number in it, TRY_CAST and clamp
SELECT avg(least(greatest(TRY_CAST(json_extract_string(props, '$.scroll') AS DOUBLE), 0), 100)) AS avg_scroll FROM events

-- a truth in it
SELECT count(*) AS n FROM events WHERE CAST(props->>'beta' AS BOOLEAN)

-- a truth compared as text
SELECT count(*) AS n FROM events WHERE props->>'beta' = 'true'

-- a nested property
SELECT json_extract_string(props, '$.geo.country') AS country, count(*) AS n FROM events
WHERE json_extract_string(props, '$.geo.country') IN ('BE', 'SE', 'IT') GROUP BY country ORDER BY country

-- chained arrows
SELECT (props->'geo'->>'country') AS country, count(*) AS n FROM events WHERE (props->'geo'->>'country') IN ('BE', 'SE') GROUP BY 1

-- an element of a list
SELECT json_extract_string(props, '$.tags[0]') AS tag, count(*) AS n FROM events WHERE json_extract_string(props, '$.tags[0]') IN ('new', 'sale') GROUP BY tag

-- how long a list is
SELECT json_array_length(props, '$.tags') AS tags, count(*) AS n FROM events WHERE json_array_length(props, '$.tags') BETWEEN 0 AND 5 GROUP BY 1

-- does it hold a key
SELECT count(*) AS n FROM events WHERE json_extract(props, '$.experiment') IS NOT NULL

-- does it hold a key, json_exists
SELECT count(*) AS n FROM events WHERE json_exists(props, '$.experiment')

-- experiment arms and conversion
SELECT props->>'experiment' AS arm, count(DISTINCT person_id) AS people, count(DISTINCT person_id) FILTER (WHERE event = 'purchase') AS buyers
FROM events WHERE props->>'experiment' IN ('A', 'B') GROUP BY arm

-- arm of a person, then revenue
WITH arms AS (SELECT person_id, min(props->>'experiment') AS arm FROM events WHERE props->>'experiment' IN ('A', 'B') GROUP BY person_id)
SELECT arm, sum(o.amount) AS revenue FROM arms JOIN orders o USING (person_id) WHERE arm IN ('A', 'B') GROUP BY arm

-- valid or not
SELECT json_valid(props) AS ok, count(*) AS n FROM events GROUP BY ok

-- type of a value
SELECT json_type(props, '$.scroll') AS type, count(*) AS n FROM events WHERE json_type(props, '$.scroll') IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'VARCHAR') GROUP BY 1

-- meta of tickets
SELECT meta->>'source' AS source, avg(rating) AS csat FROM tickets WHERE meta->>'source' IN ('web', 'phone', 'mail') GROUP BY 1

-- CASE over a property
SELECT CASE WHEN props->>'source' = 'ad' THEN 'paid' WHEN props->>'source' IN ('mail', 'organic') THEN 'owned' ELSE 'unknown' END AS channel, count(*) AS n FROM events GROUP BY channel

-- daily share with a property
SELECT ts::DATE AS day, avg(CASE WHEN props->>'source' = 'ad' THEN 1.0 ELSE 0 END) AS paid_share FROM events WHERE ts >= '2024-04-01' AND ts < '2024-04-08' GROUP BY day ORDER BY day

-- amount bands from a property
SELECT width_bucket(TRY_CAST(props->>'scroll' AS DOUBLE), 0, 100, 4) AS quarter, count(*) AS n FROM events WHERE TRY_CAST(props->>'scroll' AS DOUBLE) IS NOT NULL GROUP BY 1 ORDER BY 1

-- a property of the last event
SELECT source, count(*) AS people FROM (SELECT person_id, props->>'source' AS source, row_number() OVER (PARTITION BY person_id ORDER BY ts DESC) AS rn FROM events)
WHERE rn = 1 AND source IN ('ad', 'mail', 'organic') GROUP BY source

-- contains a tag, by text
SELECT count(*) AS n FROM events WHERE props LIKE '%"sale"%'

-- whole documents
-- never: it shows people's rows
SELECT props FROM events LIMIT 5

-- all keys that occur
-- never: which keys occur is a fact about people
SELECT DISTINCT unnest(json_keys(props)) AS key FROM events
