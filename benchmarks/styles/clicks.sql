-- hits
SELECT count(*) AS c FROM hits

-- hits of advertising
SELECT count(*) AS c FROM hits WHERE AdvEngineID <> 0

-- three aggregates at once
SELECT sum(AdvEngineID) AS s, count(*) AS c, avg(ResolutionWidth) AS w FROM hits

-- average of the user's id
-- never: it is about identifiers
SELECT avg(UserID) FROM hits

-- users
SELECT count(DISTINCT UserID) AS u FROM hits

-- distinct phrases
SELECT count(DISTINCT SearchPhrase) AS phrases FROM hits

-- first and last day
-- never: the value of one person, and no number
SELECT min(EventDate), max(EventDate) FROM hits

-- engines by hits
SELECT AdvEngineID, count(*) AS c FROM hits WHERE AdvEngineID <> 0 GROUP BY AdvEngineID ORDER BY count(*) DESC

-- regions by users
SELECT RegionID, count(DISTINCT UserID) AS u FROM hits GROUP BY RegionID ORDER BY u DESC LIMIT 10

-- regions with everything
SELECT RegionID, sum(AdvEngineID) AS s, count(*) AS c, avg(ResolutionWidth) AS w, count(DISTINCT UserID) AS u
FROM hits GROUP BY RegionID ORDER BY c DESC LIMIT 10

-- phone models by users
SELECT MobilePhoneModel, count(DISTINCT UserID) AS u FROM hits WHERE MobilePhoneModel <> ''
GROUP BY MobilePhoneModel ORDER BY u DESC LIMIT 10

-- phrases by hits
SELECT SearchPhrase, count(*) AS c FROM hits WHERE SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY c DESC LIMIT 10

-- engines and phrases
SELECT SearchEngineID, SearchPhrase, count(*) AS c FROM hits WHERE SearchPhrase <> ''
GROUP BY SearchEngineID, SearchPhrase ORDER BY c DESC LIMIT 10

-- users by hits
-- never: a row a person
SELECT UserID, count(*) FROM hits GROUP BY UserID ORDER BY count(*) DESC LIMIT 10

-- hits of one user
SELECT count(*) AS c FROM hits WHERE UserID = 435090932899640449

-- titles that name google
SELECT count(*) AS c FROM hits WHERE URL LIKE '%google%'

-- phrases of titles with Google
SELECT SearchPhrase, count(*) AS c, count(DISTINCT UserID) AS u FROM hits
WHERE Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' AND SearchPhrase <> ''
GROUP BY SearchPhrase ORDER BY c DESC LIMIT 10

-- average length of addresses by counter
SELECT CounterID, avg(length(URL)) AS l, count(*) AS c FROM hits WHERE URL <> ''
GROUP BY CounterID HAVING count(*) > 100 ORDER BY l DESC LIMIT 25

-- domains by length of address
SELECT regexp_replace(URL, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, avg(length(URL)) AS l, count(*) AS c
FROM hits WHERE URL <> '' GROUP BY k ORDER BY l DESC LIMIT 25

-- sums of shifted widths
SELECT sum(ResolutionWidth) AS a, sum(ResolutionWidth + 1) AS b, sum(ResolutionWidth + 2) AS c FROM hits

-- engine and width of phrases
SELECT SearchEngineID, count(*) AS c, sum(IsRefresh) AS r, avg(ResolutionWidth) AS w FROM hits
WHERE SearchPhrase <> '' GROUP BY SearchEngineID ORDER BY c DESC LIMIT 10

-- addresses by hits in a month
SELECT URL, count(*) AS PageViews FROM hits
WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND DontCountHits = 0 AND IsRefresh = 0
GROUP BY URL ORDER BY PageViews DESC LIMIT 10

-- source and destination
SELECT TraficSourceID, SearchEngineID, AdvEngineID,
       CASE WHEN SearchEngineID = 0 AND AdvEngineID = 0 THEN Title ELSE '' END AS Src, URL AS Dst, count(*) AS PageViews
FROM hits WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0
GROUP BY TraficSourceID, SearchEngineID, AdvEngineID, Src, Dst ORDER BY PageViews DESC LIMIT 10

-- hits by minute of two days
SELECT date_trunc('minute', EventTime) AS M, count(*) AS PageViews FROM hits
WHERE CounterID = 62 AND EventTime >= '2013-07-14' AND EventTime < '2013-07-16' AND IsRefresh = 0
GROUP BY date_trunc('minute', EventTime) ORDER BY date_trunc('minute', EventTime) LIMIT 10

-- hits by hour of the day
SELECT extract(hour FROM EventTime) AS h, count(*) AS c FROM hits GROUP BY h ORDER BY h

-- hits by ten minutes of one day
SELECT time_bucket(INTERVAL '10 minutes', EventTime) AS t, count(*) AS c FROM hits
WHERE EventDate = DATE '2013-07-15' GROUP BY t ORDER BY t

-- hits by second of a day
-- never: 86,400 groups of nearly no rows each are no answer that anybody reads
SELECT date_trunc('second', EventTime) AS t, count(*) AS c FROM hits GROUP BY t ORDER BY c DESC LIMIT 5

-- hits per user
SELECT avg(c) AS hits_per_user FROM (SELECT UserID, count(*) AS c FROM hits GROUP BY UserID)

-- hits per user, percentiles
-- within: 1
SELECT quantile_cont(c, 0.5) AS p50, quantile_cont(c, 0.9) AS p90 FROM (SELECT UserID, count(*) AS c FROM hits GROUP BY UserID)

-- sessions of half an hour
WITH gaps AS (
  SELECT UserID, EventTime, lag(EventTime) OVER (PARTITION BY UserID ORDER BY EventTime) AS prev FROM hits)
SELECT count(*) AS sessions FROM gaps WHERE prev IS NULL OR EventTime - prev > INTERVAL 30 MINUTE

-- sessions per user
WITH gaps AS (
  SELECT UserID, EventTime, lag(EventTime) OVER (PARTITION BY UserID ORDER BY EventTime) AS prev FROM hits),
s AS (SELECT UserID, sum(CASE WHEN prev IS NULL OR EventTime > prev + INTERVAL 30 MINUTE THEN 1 ELSE 0 END) AS n FROM gaps GROUP BY UserID)
SELECT avg(n) AS sessions_per_user FROM s

-- mean length of sessions
WITH gaps AS (
  SELECT UserID, EventTime, lag(EventTime) OVER (PARTITION BY UserID ORDER BY EventTime) AS prev FROM hits),
marked AS (
  SELECT UserID, EventTime,
         sum(CASE WHEN prev IS NULL OR date_diff('second', prev, EventTime) > 86400 THEN 1 ELSE 0 END)
           OVER (PARTITION BY UserID ORDER BY EventTime) AS session FROM gaps),
lengths AS (SELECT UserID, session, date_diff('second', min(EventTime), max(EventTime)) AS secs FROM marked GROUP BY UserID, session)
SELECT avg(secs) AS mean_seconds FROM lengths

-- new users by day
SELECT first_day, count(*) AS new_users FROM (SELECT UserID, min(EventDate) AS first_day FROM hits GROUP BY UserID)
GROUP BY first_day ORDER BY first_day

-- daily users with a moving average
WITH d AS (SELECT EventDate, count(DISTINCT UserID) AS dau FROM hits GROUP BY EventDate)
SELECT EventDate, dau, avg(dau) OVER (ORDER BY EventDate ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS dau7 FROM d ORDER BY EventDate

-- stickiness
SELECT (SELECT avg(u) FROM (SELECT EventDate, count(DISTINCT UserID) AS u FROM hits GROUP BY EventDate)) / count(DISTINCT UserID) AS stickiness FROM hits

-- users active on five days or more
SELECT count(*) AS u FROM (SELECT UserID FROM hits GROUP BY UserID HAVING count(DISTINCT EventDate) >= 5)

-- mean number of active days
SELECT avg(days) AS active_days FROM (SELECT UserID, count(DISTINCT EventDate) AS days FROM hits GROUP BY UserID)

-- number of days with hits
SELECT count(DISTINCT EventDate) AS days FROM hits WHERE CounterID = 34

-- share of bounces
SELECT avg(CASE WHEN n = 1 THEN 1.0 ELSE 0.0 END) AS bounce_rate
FROM (SELECT UserID, EventDate, count(*) AS n FROM hits GROUP BY UserID, EventDate)

-- mean and spread of sending time
SELECT OS, avg(SendTiming) AS mean_ms, stddev(SendTiming) AS spread FROM hits GROUP BY OS

-- 95th percentile of sending time
-- within: 200
SELECT quantile_cont(SendTiming, 0.95) AS p95 FROM hits WHERE DontCountHits = 0

-- users of both search and advertising
SELECT count(DISTINCT a.UserID) AS u FROM hits a
WHERE a.SearchEngineID <> 0 AND a.UserID IN (SELECT b.UserID FROM hits b WHERE b.AdvEngineID <> 0)

-- share of users by number of counters
SELECT counters, count(*) AS users FROM (SELECT UserID, count(DISTINCT CounterID) AS counters FROM hits GROUP BY UserID)
GROUP BY counters ORDER BY counters

-- window size counts
SELECT ResolutionWidth, count(*) AS c FROM hits WHERE ResolutionWidth IN (1024, 1368, 1638, 1996) GROUP BY 1 ORDER BY c DESC

-- growth of hits by week
WITH w AS (SELECT date_trunc('week', EventDate) AS week, count(*) AS c FROM hits GROUP BY 1)
SELECT week, c, 100.0 * (c - lag(c) OVER (ORDER BY week)) / lag(c) OVER (ORDER BY week) AS growth FROM w ORDER BY week

-- time between search and the next advertising
SELECT avg(date_diff('hour', s.t, a.t)) AS hours
FROM (SELECT UserID, min(EventTime) AS t FROM hits WHERE SearchEngineID <> 0 GROUP BY UserID) s
JOIN (SELECT UserID, min(EventTime) AS t FROM hits WHERE AdvEngineID <> 0 GROUP BY UserID) a ON a.UserID = s.UserID
WHERE a.t > s.t

-- the newest hits
-- never: rows about people
SELECT * FROM hits WHERE URL LIKE '%google%' ORDER BY EventTime LIMIT 10
