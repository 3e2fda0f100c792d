-- Visits of each ward: for the tutorial's hospital.
SELECT ward, count(*) AS visits
FROM visits
WHERE day >= :week AND day < :next_week
GROUP BY ward
