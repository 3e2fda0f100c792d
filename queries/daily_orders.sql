-- Orders of one, of two and of three discs; larger ones are in no group, and cost nothing.
SELECT quantity, count(*) AS orders
FROM purchases
WHERE date >= :day AND date < :next_day AND quantity BETWEEN 1 AND 3
GROUP BY quantity
