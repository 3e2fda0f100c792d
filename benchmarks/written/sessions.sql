-- sessions by a gap of half an hour
WITH g AS (SELECT person_id, ts, CASE WHEN ts - lag(ts) OVER (PARTITION BY person_id ORDER BY ts) > INTERVAL 30 MINUTE THEN 1 ELSE 0 END AS is_new FROM events),
     s AS (SELECT person_id, ts, sum(is_new) OVER (PARTITION BY person_id ORDER BY ts) AS session FROM g)
SELECT count(*) AS sessions FROM (SELECT DISTINCT person_id, session FROM s)

-- sessions a day, gap in minutes
WITH g AS (SELECT person_id, ts, date_diff('minute', lag(ts) OVER (PARTITION BY person_id ORDER BY ts), ts) AS gap FROM events)
SELECT CAST(ts AS DATE) AS day, count(*) AS sessions FROM g
WHERE (gap IS NULL OR gap > 30) AND ts >= '2024-05-01' AND ts < '2024-06-01' GROUP BY 1 ORDER BY 1

-- average session length in minutes
WITH g AS (SELECT person_id, ts, coalesce(date_diff('minute', lag(ts) OVER w, ts), 999) AS gap FROM events WINDOW w AS (PARTITION BY person_id ORDER BY ts)),
     s AS (SELECT person_id, ts, sum(CASE WHEN gap > 30 THEN 1 ELSE 0 END) OVER (PARTITION BY person_id ORDER BY ts ROWS UNBOUNDED PRECEDING) AS sid FROM g),
     t AS (SELECT person_id, sid, date_diff('minute', min(ts), max(ts)) AS minutes FROM s GROUP BY person_id, sid)
SELECT avg(least(minutes, 240)) AS avg_minutes FROM t

-- events per session
WITH g AS (SELECT person_id, ts, (epoch(ts) - epoch(lag(ts) OVER (PARTITION BY person_id ORDER BY ts)) > 1800)::INT AS new FROM events),
     s AS (SELECT person_id, sum(new) OVER (PARTITION BY person_id ORDER BY ts) AS sid FROM g),
     c AS (SELECT person_id, sid, count(*) AS n FROM s GROUP BY ALL)
SELECT least(n, 20) AS events_in_session, count(*) AS sessions FROM c GROUP BY 1 ORDER BY 1

-- sessions by the given id
SELECT device, count(*) AS sessions FROM (SELECT DISTINCT person_id, session_id, device FROM events) GROUP BY device

-- how many sessions, by COUNT DISTINCT
SELECT count(DISTINCT session_id) AS sessions FROM events

-- bounce rate
WITH s AS (SELECT person_id, session_id, count(*) AS pages FROM events GROUP BY person_id, session_id)
SELECT 100.0 * sum(CASE WHEN pages = 1 THEN 1 ELSE 0 END) / count(*) AS bounce_rate FROM s

-- bounce rate by device
WITH s AS (SELECT person_id, session_id, min(device) AS device, count(*) AS pages FROM events GROUP BY 1, 2)
SELECT device, avg((pages = 1)::INT) AS bounce_rate FROM s GROUP BY device ORDER BY 2 DESC

-- entry page type
SELECT event AS entry, count(*) AS sessions
FROM (SELECT event, row_number() OVER (PARTITION BY person_id, session_id ORDER BY ts) AS k FROM events) WHERE k = 1 GROUP BY event

-- exit page type
SELECT exit_event, count(*) AS sessions
FROM (SELECT DISTINCT person_id, session_id, last_value(event) OVER (PARTITION BY person_id, session_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS exit_event FROM events)
GROUP BY exit_event

-- session with a purchase
SELECT avg(bought::INT) AS conversion FROM (SELECT person_id, session_id, bool_or(event = 'purchase') AS bought FROM events GROUP BY 1, 2)

-- sessions by hour of the day
SELECT hour(start) AS h, count(*) AS sessions FROM (SELECT person_id, session_id, min(ts) AS start FROM events GROUP BY 1, 2) GROUP BY h ORDER BY h

-- sessions by weekday and hour
SELECT dayname(start) AS weekday, hour(start) AS h, count(*) AS n
FROM (SELECT person_id, session_id, min(ts) AS start FROM events GROUP BY 1, 2) GROUP BY 1, 2

-- session length bands
SELECT CASE WHEN secs < 10 THEN '0-10s' WHEN secs < 60 THEN '10-60s' WHEN secs < 600 THEN '1-10m' ELSE '10m+' END AS length, count(*) AS n
FROM (SELECT person_id, session_id, date_diff('second', min(ts), max(ts)) AS secs FROM events GROUP BY person_id, session_id) GROUP BY 1

-- time on page, capped
SELECT event, avg(least(secs, 600)) AS avg_secs
FROM (SELECT event, date_diff('second', ts, lead(ts) OVER (PARTITION BY person_id, session_id ORDER BY ts)) AS secs FROM events)
WHERE secs IS NOT NULL GROUP BY event

-- sessions per person
SELECT n AS sessions, count(*) AS people FROM (SELECT person_id, count(DISTINCT session_id) AS n FROM events GROUP BY person_id)
WHERE n BETWEEN 1 AND 15 GROUP BY n ORDER BY n

-- average sessions per person
SELECT avg(n) AS sessions_per_person FROM (SELECT person_id, count(DISTINCT session_id) AS n FROM events GROUP BY person_id)

-- sessions by time bucket
SELECT time_bucket(INTERVAL '15 minutes', ts) AS slot, count(DISTINCT person_id) AS people
FROM events WHERE ts >= '2024-05-01' AND ts < '2024-05-02' GROUP BY slot ORDER BY slot

-- searches in sessions that ended without purchase
WITH s AS (SELECT person_id, session_id, bool_or(event = 'purchase') AS bought, count_if(event = 'search') AS searches FROM events GROUP BY 1, 2)
SELECT sum(least(searches, 10)) AS searches FROM s WHERE NOT bought

-- sessions with more than three searches
SELECT count(*) AS n FROM (SELECT person_id, session_id FROM events WHERE event = 'search' GROUP BY person_id, session_id HAVING count(*) > 3)

-- median session length
-- within: 120
SELECT median(secs) AS med FROM (SELECT person_id, session_id, least(date_diff('second', min(ts), max(ts)), 3600) AS secs FROM events GROUP BY 1, 2) WHERE secs BETWEEN 0 AND 3600

-- second session within a week
WITH s AS (SELECT person_id, session_id, min(ts) AS start FROM events GROUP BY 1, 2),
     n AS (SELECT person_id, start, row_number() OVER (PARTITION BY person_id ORDER BY start) AS k, lead(start) OVER (PARTITION BY person_id ORDER BY start) AS next FROM s)
SELECT count(*) AS first_sessions, count(*) FILTER (WHERE next < start + INTERVAL 7 DAYS) AS back_in_a_week FROM n WHERE k = 1

-- concurrent sessions of a person's devices
SELECT devices, count(*) AS people FROM (SELECT person_id, count(DISTINCT device) AS devices FROM events GROUP BY person_id) GROUP BY devices

-- clinic stays that overlap
SELECT count(*) AS overlaps FROM (SELECT visit_date, lag(visit_date + los_days) OVER (PARTITION BY person_id ORDER BY visit_date) AS prev_end FROM visits) WHERE visit_date < prev_end

-- the longest session
-- never: it is one person's
SELECT max(date_diff('second', a, b)) AS longest FROM (SELECT person_id, session_id, min(ts) AS a, max(ts) AS b FROM events GROUP BY 1, 2)

-- people online at the same time
-- never: it joins different people's rows
SELECT count(*) AS pairs FROM events a JOIN events b ON a.person_id < b.person_id AND abs(epoch(a.ts) - epoch(b.ts)) < 60

-- moving number of events in the last three of a person
SELECT avg(least(ms, 600000)) AS avg_last_three
FROM (SELECT avg(duration_ms) OVER (PARTITION BY person_id ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS ms FROM events)
