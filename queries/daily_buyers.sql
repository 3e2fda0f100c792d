-- How many customers bought on one day.
SELECT count(DISTINCT customer_id) AS buyers
FROM purchases
WHERE date = DATE '1997-03-01'
