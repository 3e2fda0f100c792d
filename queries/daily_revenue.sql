-- Dollars taken; an order over 200 counts as 200.
SELECT sum(least(greatest(amount, 0), 200)) AS revenue
FROM purchases
WHERE date >= :day AND date < :next_day
