-- sign-ups by month
SELECT date_trunc('month', signup_date) AS cohort, count(*) AS people FROM customers GROUP BY 1 ORDER BY 1

-- sign-ups by quarter of 2024
SELECT date_trunc('quarter', signup_date) AS cohort, count(DISTINCT person_id) AS people
FROM customers WHERE signup_date >= '2024-01-01' AND signup_date < '2025-01-01' GROUP BY cohort ORDER BY cohort

-- first order month
WITH firsts AS (SELECT person_id, min(ordered_at) AS first_order FROM orders GROUP BY person_id)
SELECT date_trunc('month', first_order) AS cohort, count(*) AS buyers FROM firsts GROUP BY 1 ORDER BY 1

-- revenue by cohort and month
WITH firsts AS (SELECT person_id, date_trunc('month', min(ordered_at)) AS cohort FROM orders GROUP BY person_id)
SELECT f.cohort, date_trunc('month', o.ordered_at) AS month, sum(o.amount) AS revenue
FROM orders o JOIN firsts f ON o.person_id = f.person_id GROUP BY 1, 2 ORDER BY 1, 2

-- orders by months since the first order
WITH firsts AS (SELECT person_id, min(ordered_at) AS first_at FROM orders GROUP BY 1)
SELECT date_diff('month', f.first_at, o.ordered_at) AS months_since, count(*) AS orders
FROM orders o JOIN firsts f USING (person_id)
WHERE date_diff('month', f.first_at, o.ordered_at) BETWEEN 0 AND 11 GROUP BY 1 ORDER BY 1

-- cohort by age of account, window instead of join
SELECT cohort, date_diff('month', cohort, month) AS age, count(DISTINCT person_id) AS active
FROM (SELECT person_id, date_trunc('month', ordered_at) AS month,
             min(date_trunc('month', ordered_at)) OVER (PARTITION BY person_id) AS cohort FROM orders)
WHERE date_diff('month', cohort, month) <= 6 GROUP BY 1, 2

-- cohort size as a text label
SELECT strftime(signup_date, '%Y-%m') AS cohort, count(*) AS n FROM customers GROUP BY 1 ORDER BY 1

-- sign-up cohorts by country
SELECT country, date_trunc('month', signup_date) AS cohort, count(*) AS n
FROM customers WHERE signup_date BETWEEN '2024-01-01' AND '2024-06-30' GROUP BY ALL ORDER BY ALL

-- average revenue per person by sign-up quarter
SELECT date_trunc('quarter', c.signup_date) AS cohort, sum(o.amount) / count(DISTINCT c.person_id) AS per_person
FROM customers c LEFT JOIN orders o ON o.person_id = c.person_id GROUP BY 1 ORDER BY 1

-- share of each sign-up cohort that ever bought
SELECT date_trunc('month', c.signup_date) AS cohort,
       count(DISTINCT o.person_id) * 100.0 / count(DISTINCT c.person_id) AS pct_bought
FROM customers c LEFT JOIN orders o USING (person_id) GROUP BY 1 ORDER BY 1

-- first channel as cohort
WITH ranked AS (SELECT person_id, channel, row_number() OVER (PARTITION BY person_id ORDER BY ordered_at) AS rn FROM orders)
SELECT channel AS first_channel, count(*) AS people FROM ranked WHERE rn = 1 GROUP BY channel

-- first channel with QUALIFY
SELECT channel, count(*) AS people
FROM (SELECT person_id, channel FROM orders QUALIFY row_number() OVER (PARTITION BY person_id ORDER BY ordered_at) = 1)
GROUP BY channel ORDER BY people DESC

-- first channel with DISTINCT ON
SELECT channel, count(*) AS people
FROM (SELECT DISTINCT ON (person_id) person_id, channel FROM orders ORDER BY person_id, ordered_at)
GROUP BY channel

-- lifetime value bands by sign-up year
WITH ltv AS (SELECT c.person_id, year(c.signup_date) AS y, coalesce(sum(o.amount), 0) AS value
             FROM customers c LEFT JOIN orders o ON c.person_id = o.person_id GROUP BY 1, 2)
SELECT y, CASE WHEN value = 0 THEN 'none' WHEN value < 200 THEN 'low' WHEN value < 1000 THEN 'mid' ELSE 'high' END AS band, count(*) AS n
FROM ltv GROUP BY 1, 2 ORDER BY 1, 2

-- students by the term of their first course
SELECT first_term, count(*) AS students
FROM (SELECT person_id, min(term) AS first_term FROM grades GROUP BY person_id) GROUP BY first_term ORDER BY first_term

-- patients by year of first visit and readmission
SELECT year(first_visit) AS y, count(*) AS patients, sum(CASE WHEN readmitted THEN 1 ELSE 0 END) AS readmitted
FROM (SELECT person_id, min(visit_date) AS first_visit, bool_or(readmit) AS readmitted FROM visits GROUP BY person_id)
GROUP BY y ORDER BY y

-- birth cohorts by decade
SELECT (birth_year // 10) * 10 AS decade, count(*) AS n FROM customers GROUP BY 1 ORDER BY 1

-- age bands at sign-up
SELECT CASE WHEN year(signup_date) - birth_year < 25 THEN '<25' WHEN year(signup_date) - birth_year < 40 THEN '25-39'
            WHEN year(signup_date) - birth_year < 60 THEN '40-59' ELSE '60+' END AS age_band, plan, count(*) AS n
FROM customers GROUP BY 1, 2 ORDER BY 1, 2

-- second order within 30 days, by cohort
WITH o AS (SELECT person_id, ordered_at, row_number() OVER (PARTITION BY person_id ORDER BY ordered_at) AS n,
                  lead(ordered_at) OVER (PARTITION BY person_id ORDER BY ordered_at) AS next_at FROM orders)
SELECT date_trunc('month', ordered_at) AS cohort, count(*) AS buyers,
       count(*) FILTER (WHERE next_at <= ordered_at + INTERVAL 30 DAY) AS repeated
FROM o WHERE n = 1 GROUP BY 1 ORDER BY 1

-- cohort sizes with running total
SELECT cohort, people, sum(people) OVER (ORDER BY cohort) AS running
FROM (SELECT date_trunc('month', signup_date) AS cohort, count(*) AS people FROM customers GROUP BY 1) ORDER BY cohort

-- cohort matrix pivoted with FILTER
WITH f AS (SELECT person_id, date_trunc('month', min(ordered_at)) AS cohort FROM orders GROUP BY 1)
SELECT cohort, count(DISTINCT o.person_id) FILTER (WHERE date_diff('month', cohort, o.ordered_at) = 0) AS m0,
       count(DISTINCT o.person_id) FILTER (WHERE date_diff('month', cohort, o.ordered_at) = 1) AS m1,
       count(DISTINCT o.person_id) FILTER (WHERE date_diff('month', cohort, o.ordered_at) = 2) AS m2
FROM f JOIN orders o USING (person_id) GROUP BY cohort ORDER BY cohort

-- weekly sign-up cohorts in spring
SELECT date_trunc('week', signup_date) AS week, count(*) AS n FROM customers
WHERE signup_date BETWEEN DATE '2024-03-01' AND DATE '2024-05-31' GROUP BY week ORDER BY week

-- people who signed up in 2024 and have a ticket, by plan
SELECT plan, count(*) AS n FROM customers c
WHERE year(signup_date) = 2024 AND EXISTS (SELECT 1 FROM tickets t WHERE t.person_id = c.person_id) GROUP BY plan

-- cohort by ISO week label
SELECT year(signup_date) || '-W' || lpad(CAST(week(signup_date) AS VARCHAR), 2, '0') AS wk, count(*) AS n
FROM customers WHERE signup_date >= '2024-01-01' AND signup_date < '2024-04-01' GROUP BY wk ORDER BY wk

-- people and their cohort month
-- never: it lists people
SELECT person_id, date_trunc('month', min(ordered_at)) AS cohort FROM orders GROUP BY person_id

-- the newest member of each cohort
-- never: it shows one person's identifier
SELECT date_trunc('month', signup_date) AS cohort, max(person_id) AS newest FROM customers GROUP BY 1

-- cohorts of new students' average first score
WITH first AS (SELECT person_id, first_value(score) OVER (PARTITION BY person_id ORDER BY submitted_at) AS s,
                      row_number() OVER (PARTITION BY person_id ORDER BY submitted_at) AS k, term FROM grades)
SELECT term, avg(s) AS avg_first_score FROM first WHERE k = 1 GROUP BY term ORDER BY term
