-- top products
SELECT product_id, count(*) AS orders FROM orders GROUP BY product_id ORDER BY orders DESC LIMIT 10

-- top products by name
SELECT p.name, sum(o.amount) AS revenue FROM orders o JOIN products p USING (product_id) GROUP BY p.name ORDER BY revenue DESC LIMIT 5

-- top categories
SELECT p.category, count(*) AS n FROM orders o JOIN products p ON p.product_id = o.product_id GROUP BY 1 ORDER BY 2 DESC LIMIT 3

-- top three per category
SELECT category, name, revenue FROM (
  SELECT p.category, p.name, sum(o.amount) AS revenue, row_number() OVER (PARTITION BY p.category ORDER BY sum(o.amount) DESC) AS rk
  FROM orders o JOIN products p USING (product_id) GROUP BY p.category, p.name)
WHERE rk <= 3 ORDER BY category, revenue DESC

-- ranked channels
SELECT channel, sum(amount) AS revenue, rank() OVER (ORDER BY sum(amount) DESC) AS rk FROM orders GROUP BY channel ORDER BY rk

-- top pages
SELECT page, count(*) AS views FROM events WHERE event = 'view' GROUP BY page ORDER BY views DESC LIMIT 20

-- top search terms
SELECT lower(trim(query)) AS term, count(*) AS n FROM events WHERE event = 'search' GROUP BY 1 ORDER BY n DESC LIMIT 25

-- top coupons
SELECT coupon, count(*) AS uses, sum(amount) AS revenue FROM orders WHERE coupon IS NOT NULL GROUP BY coupon ORDER BY uses DESC LIMIT 10

-- top referrers
SELECT coalesce(referrer, '(direct)') AS referrer, count(DISTINCT person_id) AS people FROM customers GROUP BY 1 ORDER BY 2 DESC LIMIT 10

-- top countries
SELECT country, count(*) AS people FROM customers GROUP BY country ORDER BY count(*) DESC LIMIT 3

-- countries with more than five people
SELECT country, count(*) AS people FROM customers GROUP BY country HAVING count(*) > 5 ORDER BY people DESC

-- top country and share
SELECT country, count(*) AS n, count(*) * 100.0 / sum(count(*)) OVER () AS pct FROM customers GROUP BY country ORDER BY n DESC LIMIT 5

-- favourite channel of each person
SELECT channel, count(*) AS people FROM (
  SELECT person_id, channel, row_number() OVER (PARTITION BY person_id ORDER BY count(*) DESC, channel) AS rn FROM orders GROUP BY person_id, channel)
WHERE rn = 1 GROUP BY channel ORDER BY people DESC

-- favourite channel with mode
-- is: SELECT fav, count(*) AS people FROM (SELECT person_id, mode(channel ORDER BY channel) AS fav FROM orders GROUP BY person_id) GROUP BY fav ORDER BY 2 DESC
SELECT fav, count(*) AS people FROM (SELECT person_id, mode(channel) AS fav FROM orders GROUP BY person_id) GROUP BY fav ORDER BY 2 DESC

-- largest order of each person by channel
SELECT channel, count(*) AS n FROM (SELECT person_id, arg_max(channel, amount) AS channel FROM orders GROUP BY person_id) GROUP BY channel

-- top decile of spenders: their channel
SELECT channel, count(*) AS orders FROM orders WHERE person_id IN (
  SELECT person_id FROM orders GROUP BY person_id HAVING sum(amount) > 1000) GROUP BY channel

-- top diagnoses
SELECT diagnosis, count(DISTINCT person_id) AS patients FROM visits GROUP BY diagnosis ORDER BY patients DESC, diagnosis LIMIT 5

-- top clinics by cost
SELECT c.city, sum(v.cost) AS total_cost FROM visits v INNER JOIN clinics c ON v.clinic_id = c.clinic_id GROUP BY c.city ORDER BY total_cost DESC LIMIT 3

-- hardest courses
SELECT c.title, avg(g.score) AS avg_score FROM grades g JOIN courses c ON c.course_id = g.course_id GROUP BY c.title ORDER BY avg_score LIMIT 5

-- courses by share that passed
SELECT c.title, avg(CASE WHEN passed THEN 1 ELSE 0 END) AS pass_rate, count(*) AS n FROM grades g JOIN courses c USING (course_id)
GROUP BY c.title HAVING count(*) >= 10 ORDER BY pass_rate ASC LIMIT 5

-- busiest hours
SELECT hour(ts) AS h, count(*) AS n FROM events GROUP BY 1 ORDER BY n DESC LIMIT 5

-- busiest teams
SELECT team, count(*) AS tickets, dense_rank() OVER (ORDER BY count(*) DESC) AS place FROM tickets GROUP BY team QUALIFY place <= 3 ORDER BY place

-- best customers
-- never: it lists people
SELECT person_id, sum(amount) AS total FROM orders GROUP BY person_id ORDER BY total DESC LIMIT 10

-- revenue of the best ten customers
-- never: who is among the best ten hangs on everybody's rows together
SELECT sum(total) AS revenue FROM (SELECT person_id, sum(amount) AS total FROM orders GROUP BY person_id ORDER BY total DESC LIMIT 10)

-- largest orders
-- never: it lists orders of people
SELECT order_id, amount FROM orders ORDER BY amount DESC LIMIT 5

-- first three orders of everybody
SELECT avg(amount) AS avg_amount FROM (SELECT person_id, amount, row_number() OVER (PARTITION BY person_id ORDER BY ordered_at) AS n FROM orders) WHERE n <= 3

-- top brand in each country
SELECT country, brand, n FROM (
  SELECT c.country, p.brand, count(*) AS n, rank() OVER (PARTITION BY c.country ORDER BY count(*) DESC) AS rk
  FROM orders o JOIN customers c USING (person_id) JOIN products p USING (product_id) GROUP BY 1, 2) WHERE rk = 1 ORDER BY country

-- product most often bought first
SELECT product_id, count(*) AS firsts FROM (SELECT DISTINCT ON (person_id) product_id FROM orders ORDER BY person_id, ordered_at, order_id) GROUP BY 1 ORDER BY 2 DESC LIMIT 5
