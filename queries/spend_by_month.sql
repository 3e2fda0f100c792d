-- Orders and money by month, each with its own noise; a day's orders over 500 count as 500.
SELECT date_trunc('month', date) AS month,
       count(*) AS orders,
       sum(least(greatest(amount, 0), 500)) AS revenue,
       avg(least(greatest(amount, 0), 500)) AS per_order
FROM purchases
WHERE date BETWEEN DATE '1997-01-01' AND DATE '1998-06-30'
GROUP BY month
ORDER BY month
