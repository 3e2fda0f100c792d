-- How many customers bought.
SELECT count(DISTINCT customer_id) AS buyers
FROM purchases
WHERE date >= :day AND date < :next_day
