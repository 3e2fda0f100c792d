-- questions and answers by year
SELECT year(creation_date) AS y, sum(CASE WHEN post_type_id = 1 THEN 1 ELSE 0 END) AS questions,
       sum(CASE WHEN post_type_id = 2 THEN 1 ELSE 0 END) AS answers
FROM posts GROUP BY y ORDER BY y

-- average score of answers of users above 1000
SELECT avg(p.score) AS mean_score FROM posts p JOIN users u ON u.user_id = p.user_id
WHERE p.post_type_id = 2 AND u.reputation > 1000

-- posts per user
SELECT avg(n) AS posts_per_user FROM (SELECT user_id, count(*) AS n FROM posts GROUP BY user_id)

-- posts per user with those who have none
SELECT avg(n) AS posts_per_user
FROM (SELECT u.user_id, count(p.post_id) AS n FROM users u LEFT JOIN posts p ON p.user_id = u.user_id GROUP BY u.user_id)

-- total score per user, mean and deviation
SELECT avg(total) AS mean_total, stddev_samp(total) AS spread
FROM (SELECT user_id, sum(score) AS total FROM posts GROUP BY user_id)

-- percentiles of reputation
-- within: 160
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY reputation) AS p50,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY reputation) AS p90 FROM users

-- users by number of badges
SELECT badges, count(*) AS users
FROM (SELECT u.user_id, count(b.user_id) AS badges FROM users u LEFT JOIN badges b USING (user_id) GROUP BY u.user_id)
GROUP BY badges ORDER BY badges

-- gold badges by name
SELECT name, count(*) AS n FROM badges WHERE class = 1 GROUP BY name HAVING count(*) > 5 ORDER BY n DESC

-- votes by kind
SELECT t.label, count(*) AS n FROM votes v JOIN vote_types t ON t.id = v.vote_type_id GROUP BY t.label ORDER BY n DESC

-- upvotes per downvote
SELECT sum(CASE WHEN vote_type_id = 2 THEN 1 ELSE 0 END) * 1.0 / sum(CASE WHEN vote_type_id = 3 THEN 1 ELSE 0 END) AS ratio FROM votes

-- share of questions with an accepted answer
SELECT round(100.0 * count(accepted_answer_id) / count(*), 1) AS accepted_percent FROM posts WHERE post_type_id = 1

-- unanswered questions by tag
SELECT tags, count(*) AS n FROM posts WHERE post_type_id = 1 AND answer_count = 0 GROUP BY tags ORDER BY n DESC

-- views per question
SELECT avg(view_count) AS mean_views, sum(view_count) AS views FROM posts WHERE post_type_id = 1

-- median views per question
-- within: 80
SELECT median(view_count) AS views FROM posts WHERE post_type_id = 1

-- average length of posts
SELECT post_type_id, avg(length(body)) AS mean_length FROM posts GROUP BY post_type_id

-- longest comments by hour
SELECT hour(creation_date) AS h, avg(length(text)) AS mean_length, count(*) AS n FROM comments GROUP BY h ORDER BY h

-- days from joining to the first post
SELECT avg(date_diff('day', u.creation_date, f.first_post)) AS mean_days
FROM users u JOIN (SELECT user_id, min(creation_date) AS first_post FROM posts GROUP BY user_id) f ON f.user_id = u.user_id

-- days from joining to the first post, median
-- within: 20
SELECT median(date_diff('day', u.creation_date, f.first_post)) AS days
FROM users u JOIN (SELECT user_id, min(creation_date) AS first_post FROM posts GROUP BY user_id) f ON f.user_id = u.user_id

-- years of membership by age()
SELECT avg(extract(year FROM age(last_access_date, creation_date))) AS years FROM users

-- days of membership by age() in seconds
SELECT avg(extract(epoch FROM age(last_access_date, creation_date))) / 86400 AS days FROM users

-- users who asked but never answered
SELECT count(*) AS users FROM users u
WHERE EXISTS (SELECT 1 FROM posts p WHERE p.user_id = u.user_id AND p.post_type_id = 1)
  AND NOT EXISTS (SELECT 1 FROM posts p WHERE p.user_id = u.user_id AND p.post_type_id = 2)

-- users by first badge
SELECT name, count(*) AS users
FROM (SELECT user_id, name, row_number() OVER (PARTITION BY user_id ORDER BY date, name) AS rn FROM badges) WHERE rn = 1
GROUP BY name

-- posts on each weekday
SELECT dayname(creation_date) AS weekday, count(*) AS n FROM posts GROUP BY weekday ORDER BY n DESC

-- monthly active users
SELECT date_trunc('month', creation_date) AS month, count(DISTINCT user_id) AS users
FROM (SELECT user_id, creation_date FROM posts UNION ALL SELECT user_id, creation_date FROM comments)
GROUP BY 1 ORDER BY 1

-- cohorts by month of joining and their posts
SELECT date_trunc('quarter', u.creation_date) AS cohort, count(DISTINCT u.user_id) AS users, count(p.post_id) AS posts
FROM users u LEFT JOIN posts p ON p.user_id = u.user_id GROUP BY 1 ORDER BY 1

-- retention in the second month
SELECT date_trunc('month', u.creation_date) AS cohort, count(DISTINCT u.user_id) AS joined,
       count(DISTINCT CASE WHEN p.creation_date >= u.creation_date + INTERVAL 30 DAY
                            AND p.creation_date < u.creation_date + INTERVAL 60 DAY THEN u.user_id END) AS came_back
FROM users u LEFT JOIN posts p ON p.user_id = u.user_id GROUP BY 1 ORDER BY 1

-- top locations by users
SELECT location, count(*) AS users FROM users WHERE location IS NOT NULL GROUP BY location ORDER BY users DESC LIMIT 10

-- average reputation by location and website
SELECT location, website_url IS NOT NULL AS has_site, avg(reputation) AS rep FROM users
WHERE location IS NOT NULL GROUP BY 1, 2

-- number of different tags
SELECT count(DISTINCT tags) AS tags FROM posts WHERE post_type_id = 1

-- number of badges by class, distinct names
SELECT class, count(*) AS n, count(DISTINCT name) AS names FROM badges GROUP BY class ORDER BY class

-- users whose best post has a score of ten or more
SELECT count(*) AS users FROM (SELECT user_id, max(score) AS best FROM posts GROUP BY user_id) WHERE best >= 10

-- average best score
SELECT avg(best) AS mean_best FROM (SELECT user_id, max(score) AS best FROM posts GROUP BY user_id)

-- posts above the average score
SELECT count(*) AS posts FROM posts WHERE score > (SELECT avg(score) FROM posts)

-- up votes and down votes correlate
SELECT corr(up_votes, down_votes) AS r FROM users

-- sum of up votes
SELECT sum(up_votes) AS up, sum(down_votes) AS down FROM users WHERE reputation >= 100

-- score of a person's latest post
SELECT avg(score) AS mean_latest
FROM (SELECT DISTINCT ON (user_id) user_id, score FROM posts ORDER BY user_id, creation_date DESC)

-- latest post by LATERAL
SELECT avg(l.score) AS mean_latest
FROM users u, LATERAL (SELECT p.score FROM posts p WHERE p.user_id = u.user_id ORDER BY p.creation_date DESC LIMIT 1) l

-- score buckets
SELECT floor(score / 10) * 10 AS bucket, count(*) AS posts FROM posts GROUP BY bucket ORDER BY bucket

-- total views by user in buckets
SELECT CASE WHEN views IS NULL THEN 'none' WHEN views < 1000 THEN 'few' WHEN views < 5000 THEN 'some' ELSE 'many' END AS band,
       count(*) AS users
FROM (SELECT user_id, sum(view_count) AS views FROM posts GROUP BY user_id) GROUP BY band ORDER BY users DESC

-- gap between consecutive posts in hours
SELECT avg(date_diff('hour', prev, creation_date)) AS mean_gap
FROM (SELECT creation_date, lag(creation_date) OVER (PARTITION BY user_id ORDER BY creation_date) AS prev FROM posts)
WHERE prev IS NOT NULL

-- share of posts by the top users
-- never: which users are on top is about single people
SELECT user_id, sum(score) AS total FROM posts GROUP BY user_id ORDER BY total DESC LIMIT 10

-- comments per post type, ratio
SELECT post_type_id, sum(comment_count) AS comments, sum(comment_count) * 1.0 / count(*) AS per_post FROM posts GROUP BY 1

-- distinct authors and posts by month in one year
SELECT strftime(creation_date, '%Y-%m') AS month, count(DISTINCT user_id) AS authors, count(*) AS posts
FROM posts WHERE creation_date >= '2020-01-01' AND creation_date < '2021-01-01' GROUP BY month ORDER BY month

-- running total of users
-- is: SELECT m AS month, sum(n) OVER (ORDER BY m) AS users_so_far FROM (SELECT m, count(u.creation_date) AS n FROM generate_series(TIMESTAMP '2019-01-01', TIMESTAMP '2021-12-01', INTERVAL 1 MONTH) AS t(m) LEFT JOIN users u ON date_trunc('month', u.creation_date) = m GROUP BY m)
SELECT month, sum(n) OVER (ORDER BY month) AS users_so_far
FROM (SELECT date_trunc('month', creation_date) AS month, count(*) AS n FROM users GROUP BY 1) ORDER BY month

-- share of users with a badge in the first 100 days
SELECT avg(CASE WHEN EXISTS (SELECT 1 FROM badges b WHERE b.user_id = u.user_id
                              AND b.date <= u.creation_date + INTERVAL 100 DAY) THEN 1.0 ELSE 0.0 END) AS share
FROM users u

-- a user's share of answers
SELECT avg(share) AS mean_share
FROM (SELECT user_id, sum(CASE WHEN post_type_id = 2 THEN 1 ELSE 0 END) * 1.0 / count(*) AS share FROM posts GROUP BY user_id)

-- reputation per day of membership
SELECT avg(reputation / (date_diff('day', creation_date, last_access_date) + 1.0)) AS per_day FROM users
