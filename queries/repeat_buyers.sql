-- How many customers bought how often: the inner query is computed for each customer apart.
WITH orders AS (
  SELECT customer_id, count(*) AS n FROM purchases GROUP BY customer_id
)
SELECT n, count(*) AS customers
FROM orders
WHERE n BETWEEN 1 AND 10
GROUP BY n
ORDER BY n
