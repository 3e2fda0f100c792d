-- revenue by country
SELECT c.country, sum(o.amount) AS revenue FROM orders o JOIN customers c ON c.person_id = o.person_id GROUP BY c.country ORDER BY revenue DESC

-- comma join
SELECT c.country, count(*) AS n FROM customers c, orders o WHERE c.person_id = o.person_id GROUP BY c.country

-- natural join
SELECT segment, count(*) AS n FROM customers NATURAL JOIN orders GROUP BY segment

-- right join
SELECT c.plan, count(*) AS orders FROM customers c RIGHT JOIN orders o ON o.person_id = c.person_id GROUP BY c.plan

-- full join of two behaviours
SELECT count(*) AS people, count(b.person_id) AS buyers, count(t.person_id) AS complainers
FROM (SELECT DISTINCT person_id FROM orders) b FULL OUTER JOIN (SELECT DISTINCT person_id FROM tickets) t ON b.person_id = t.person_id

-- products with category filter
SELECT p.brand, count(*) AS n FROM orders o JOIN products p ON o.product_id = p.product_id WHERE p.category = 'books' GROUP BY p.brand

-- products never bought stay
SELECT p.name, count(o.order_id) AS orders FROM products p LEFT JOIN orders o ON o.product_id = p.product_id GROUP BY p.name ORDER BY p.name

-- orders above list price
SELECT p.category, count(*) AS n FROM orders o JOIN products p USING (product_id) WHERE o.amount > p.list_price * o.quantity GROUP BY 1

-- three tables
SELECT c.segment, p.category, sum(o.amount) AS revenue FROM orders o JOIN customers c USING (person_id) JOIN products p USING (product_id)
WHERE o.ordered_at >= '2024-01-01' GROUP BY c.segment, p.category

-- customers without orders
SELECT count(*) AS n FROM customers c LEFT JOIN orders o ON o.person_id = c.person_id WHERE o.order_id IS NULL

-- customers without orders, NOT EXISTS
SELECT segment, count(*) AS n FROM customers WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.person_id = customers.person_id) GROUP BY segment

-- buyers who also have tickets
SELECT count(*) AS n FROM (SELECT person_id FROM orders INTERSECT SELECT person_id FROM tickets)

-- all contacts
SELECT kind, count(*) AS n FROM (
  SELECT person_id, 'order' AS kind FROM orders UNION ALL SELECT person_id, 'ticket' AS kind FROM tickets UNION ALL SELECT person_id, 'visit' FROM visits) GROUP BY kind

-- people with any contact
SELECT count(DISTINCT person_id) AS people FROM (SELECT person_id FROM orders UNION SELECT person_id FROM tickets)

-- contacts by month over tables
SELECT date_trunc('month', moment) AS month, count(*) AS contacts FROM (
  SELECT person_id, ordered_at AS moment FROM orders UNION ALL SELECT person_id, opened_at FROM tickets) GROUP BY 1 ORDER BY 1

-- tickets after an order within a week
SELECT count(*) AS n FROM tickets t WHERE EXISTS (
  SELECT 1 FROM orders o WHERE o.person_id = t.person_id AND t.opened_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL 7 DAY)

-- total spend of those with a ticket
SELECT sum(amount) AS revenue FROM orders WHERE person_id IN (SELECT person_id FROM tickets)

-- orders above the person's own average
SELECT count(*) AS n FROM orders o WHERE amount > (SELECT avg(amount) FROM orders i WHERE i.person_id = o.person_id)

-- orders above the average of all
SELECT count(*) AS n FROM orders WHERE amount > (SELECT avg(amount) FROM orders)

-- previous order's channel
SELECT a.channel AS first_channel, b.channel AS second_channel, count(*) AS n
FROM (SELECT person_id, channel, row_number() OVER (PARTITION BY person_id ORDER BY ordered_at) AS k FROM orders) a
JOIN (SELECT person_id, channel, row_number() OVER (PARTITION BY person_id ORDER BY ordered_at) AS k FROM orders) b
  ON a.person_id = b.person_id AND b.k = a.k + 1
GROUP BY 1, 2

-- number of tickets beside number of orders
SELECT least(orders, 5) AS orders, least(tickets, 3) AS tickets, count(*) AS people FROM (
  SELECT c.person_id, (SELECT count(*) FROM orders o WHERE o.person_id = c.person_id) AS orders,
         (SELECT count(*) FROM tickets t WHERE t.person_id = c.person_id) AS tickets FROM customers c) GROUP BY 1, 2

-- clinics by region
SELECT cl.region, count(DISTINCT v.person_id) AS patients FROM visits v JOIN clinics cl ON cl.clinic_id = v.clinic_id GROUP BY cl.region

-- departments and gender
SELECT co.department, c.gender, avg(g.score) AS mean FROM grades g JOIN courses co USING (course_id) JOIN customers c USING (person_id) GROUP BY 1, 2

-- retakes: better than the first try
SELECT count(*) AS better FROM grades a JOIN grades b ON a.person_id = b.person_id AND a.course_id = b.course_id AND b.attempt = a.attempt + 1
WHERE b.score > a.score

-- a lateral of the last ticket
SELECT t.priority, count(*) AS n FROM customers c, LATERAL (SELECT priority FROM tickets WHERE tickets.person_id = c.person_id ORDER BY opened_at DESC LIMIT 1) t GROUP BY t.priority

-- bought together
-- never: it joins the orders of different people
SELECT a.product_id, b.product_id AS other, count(*) AS n FROM orders a JOIN orders b ON a.ordered_at::DATE = b.ordered_at::DATE AND a.product_id < b.product_id GROUP BY 1, 2

-- bought by the same person
SELECT pa.category AS a, pb.category AS b, count(DISTINCT x.person_id) AS people
FROM orders x JOIN orders y ON x.person_id = y.person_id AND x.product_id < y.product_id
JOIN products pa ON pa.product_id = x.product_id JOIN products pb ON pb.product_id = y.product_id GROUP BY 1, 2

-- neighbours of the same city
-- never: it puts different people's rows side by side
SELECT count(*) AS pairs FROM customers a JOIN customers b ON a.city = b.city AND a.person_id <> b.person_id

-- inequality join with a public table
SELECT p.name, count(*) AS could_afford FROM orders o JOIN products p ON o.amount >= p.list_price GROUP BY p.name
