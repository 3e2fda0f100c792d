-- patients by gender
SELECT c.concept_name AS gender, count(DISTINCT p.person_id) AS patients
FROM person p JOIN concept c ON c.concept_id = p.gender_concept_id GROUP BY 1 ORDER BY 2 DESC

-- readmitted within 30 days
SELECT count(DISTINCT v1.person_id) AS readmitted
FROM visit_occurrence v1 JOIN visit_occurrence v2
  ON v2.person_id = v1.person_id AND v2.visit_start_date > v1.visit_end_date
 AND v2.visit_start_date <= v1.visit_end_date + INTERVAL 30 DAY
WHERE v1.visit_concept_id = 9201

-- rate of readmission with EXISTS
SELECT avg(CASE WHEN EXISTS (
         SELECT 1 FROM visit_occurrence n WHERE n.person_id = v.person_id
          AND n.visit_start_date > v.visit_end_date
          AND date_diff('day', v.visit_end_date, n.visit_start_date) <= 30) THEN 1.0 ELSE 0 END) AS rate
FROM visit_occurrence v WHERE v.visit_concept_id = 9201

-- rate of readmission with LEAD
WITH ordered AS (
  SELECT person_id, visit_end_date,
         lead(visit_start_date) OVER (PARTITION BY person_id ORDER BY visit_start_date, visit_end_date) AS next_start
  FROM visit_occurrence WHERE visit_concept_id = 9201)
SELECT count(*) AS stays, sum(CASE WHEN next_start - visit_end_date <= 30 THEN 1 ELSE 0 END) AS readmissions
FROM ordered

-- mean length of stay by kind of visit
SELECT c.concept_name, avg(date_diff('day', v.visit_start_date, v.visit_end_date)) AS mean_days
FROM visit_occurrence v JOIN concept c ON c.concept_id = v.visit_concept_id
GROUP BY c.concept_name

-- mean length of stay by subtraction
SELECT avg(visit_end_date - visit_start_date) AS mean_days FROM visit_occurrence WHERE visit_concept_id = 9201

-- median length of stay
-- within: 12
SELECT median(visit_end_date - visit_start_date) AS days FROM visit_occurrence WHERE visit_concept_id = 9201

-- mean age at first visit
SELECT avg(age) AS mean_age
FROM (SELECT p.person_id, min(year(v.visit_start_date)) - p.year_of_birth AS age
      FROM person p JOIN visit_occurrence v ON v.person_id = p.person_id GROUP BY p.person_id, p.year_of_birth)

-- visits by age group at the visit
SELECT CASE WHEN year(v.visit_start_date) - p.year_of_birth < 40 THEN '18-39'
            WHEN year(v.visit_start_date) - p.year_of_birth < 65 THEN '40-64' ELSE '65+' END AS age_group,
       count(*) AS visits
FROM visit_occurrence v JOIN person p USING (person_id) GROUP BY 1 ORDER BY 1

-- visits per person, mean
SELECT avg(n) AS visits_per_person
FROM (SELECT person_id, count(*) AS n FROM visit_occurrence GROUP BY person_id)

-- visits per person, median
-- within: 1
SELECT median(n) AS visits_per_person
FROM (SELECT person_id, count(*) AS n FROM visit_occurrence GROUP BY person_id)

-- visits per person, as a distribution
SELECT n AS visits, count(*) AS people
FROM (SELECT person_id, count(*) AS n FROM visit_occurrence GROUP BY person_id) GROUP BY n ORDER BY n

-- number of persons with at least three conditions
SELECT count(*) AS people
FROM (SELECT person_id FROM condition_occurrence GROUP BY person_id HAVING count(DISTINCT condition_concept_id) >= 3)

-- conditions per person, min, mean and max
SELECT avg(n) AS mean_conditions, stddev(n) AS spread
FROM (SELECT person_id, count(DISTINCT condition_concept_id) AS n FROM condition_occurrence GROUP BY 1)

-- conditions of inpatient visits by visit id
SELECT c.concept_name, count(*) AS records
FROM condition_occurrence co
JOIN visit_occurrence v ON v.visit_occurrence_id = co.visit_occurrence_id
JOIN concept c ON c.concept_id = co.condition_concept_id
WHERE v.visit_concept_id = 9201 GROUP BY c.concept_name ORDER BY records DESC

-- drugs given at the visits of a condition
SELECT d.drug_concept_id, count(DISTINCT d.person_id) AS people
FROM drug_exposure d JOIN condition_occurrence c ON d.visit_occurrence_id = c.visit_occurrence_id
WHERE c.condition_concept_id = 320128 GROUP BY d.drug_concept_id

-- visits without a diagnosis
SELECT count(*) AS visits
FROM visit_occurrence v LEFT JOIN condition_occurrence c ON c.visit_occurrence_id = v.visit_occurrence_id
WHERE c.visit_occurrence_id IS NULL

-- visits with a diagnosis, by IN
SELECT count(*) AS visits FROM visit_occurrence
WHERE visit_occurrence_id IN (SELECT visit_occurrence_id FROM condition_occurrence WHERE condition_concept_id = 316139)

-- number of visits by count distinct
SELECT count(DISTINCT visit_occurrence_id) AS visits FROM condition_occurrence WHERE condition_concept_id = 317009

-- comorbidity of two conditions
SELECT count(DISTINCT a.person_id) AS both
FROM condition_occurrence a JOIN condition_occurrence b ON a.person_id = b.person_id
WHERE a.condition_concept_id = 201826 AND b.condition_concept_id = 320128

-- new diagnoses by month
SELECT date_trunc('month', first_seen) AS month, count(*) AS new_patients
FROM (SELECT person_id, min(condition_start_date) AS first_seen FROM condition_occurrence
      WHERE condition_concept_id = 201826 GROUP BY person_id)
GROUP BY 1 ORDER BY 1

-- incidence in a year of those without earlier diagnosis
WITH first_dx AS (
  SELECT person_id, min(condition_start_date) AS dx FROM condition_occurrence
  WHERE condition_concept_id = 320128 GROUP BY person_id)
SELECT count(*) AS new_cases FROM first_dx WHERE dx >= DATE '2022-01-01' AND dx < DATE '2023-01-01'

-- drug within 90 days after diagnosis
WITH dx AS (SELECT person_id, min(condition_start_date) AS dx_date FROM condition_occurrence
            WHERE condition_concept_id = 201826 GROUP BY person_id)
SELECT count(DISTINCT dx.person_id) AS treated
FROM dx JOIN drug_exposure d ON d.person_id = dx.person_id
WHERE d.drug_concept_id = 1503297
  AND d.drug_exposure_start_date BETWEEN dx.dx_date AND dx.dx_date + INTERVAL 90 DAY

-- days from diagnosis to first drug
SELECT avg(date_diff('day', dx.d, rx.d)) AS mean_days
FROM (SELECT person_id, min(condition_start_date) AS d FROM condition_occurrence WHERE condition_concept_id = 201826 GROUP BY 1) dx
JOIN (SELECT person_id, min(drug_exposure_start_date) AS d FROM drug_exposure WHERE drug_concept_id = 1503297 GROUP BY 1) rx
  ON rx.person_id = dx.person_id
WHERE rx.d >= dx.d

-- days of supply per person
SELECT avg(total) AS mean_supply
FROM (SELECT person_id, sum(days_supply) AS total FROM drug_exposure GROUP BY person_id)

-- days of supply, quartiles
-- within: 4
SELECT quantile_cont(total, 0.25) AS q1, quantile_cont(total, 0.5) AS q2, quantile_cont(total, 0.75) AS q3
FROM (SELECT person_id, sum(days_supply) AS total FROM drug_exposure GROUP BY person_id)

-- last systolic pressure of each person
WITH ranked AS (
  SELECT person_id, value_as_number,
         row_number() OVER (PARTITION BY person_id ORDER BY measurement_date DESC, value_as_number) AS rn
  FROM measurement WHERE measurement_concept_id = 3004249 AND value_as_number IS NOT NULL)
SELECT avg(value_as_number) AS mean_last FROM ranked WHERE rn = 1

-- share with last HbA1c above seven
SELECT avg(CASE WHEN last_value > 7 THEN 1.0 ELSE 0.0 END) AS share
FROM (SELECT person_id, arg_max(value_as_number, measurement_date) AS last_value
      FROM measurement WHERE measurement_concept_id = 3004410 AND value_as_number IS NOT NULL GROUP BY person_id)

-- change between first and last measurement
SELECT avg(last_v - first_v) AS mean_change
FROM (SELECT person_id, arg_min(value_as_number, measurement_date) AS first_v,
             arg_max(value_as_number, measurement_date) AS last_v
      FROM measurement WHERE measurement_concept_id = 3004249 GROUP BY person_id HAVING count(*) > 1)

-- mortality within a year after first admission
SELECT count(*) AS died
FROM death d JOIN (SELECT person_id, min(visit_start_date) AS first_visit FROM visit_occurrence
                   WHERE visit_concept_id = 9201 GROUP BY person_id) f ON f.person_id = d.person_id
WHERE date_diff('day', f.first_visit, d.death_date) BETWEEN 0 AND 365

-- emergency visits that turned into an admission the same day
SELECT count(*) AS admitted FROM visit_occurrence e
WHERE e.visit_concept_id = 9203 AND EXISTS (
  SELECT 1 FROM visit_occurrence i WHERE i.person_id = e.person_id AND i.visit_concept_id = 9201
    AND i.visit_start_date BETWEEN e.visit_start_date AND e.visit_start_date + 1)

-- visits by month and kind, pivoted
SELECT date_trunc('month', visit_start_date) AS month,
       sum(CASE WHEN visit_concept_id = 9201 THEN 1 ELSE 0 END) AS inpatient,
       sum(CASE WHEN visit_concept_id = 9202 THEN 1 ELSE 0 END) AS outpatient,
       sum(CASE WHEN visit_concept_id = 9203 THEN 1 ELSE 0 END) AS emergency
FROM visit_occurrence GROUP BY 1 ORDER BY 1

-- share of visits by discharge
SELECT coalesce(discharged_to, 'unknown') AS discharged, 100.0 * count(*) / sum(count(*)) OVER () AS percent
FROM visit_occurrence GROUP BY 1 ORDER BY 2 DESC

-- patients of each drug and gender
SELECT c.concept_name AS drug, g.concept_name AS gender, count(DISTINCT d.person_id) AS people
FROM drug_exposure d JOIN person p ON p.person_id = d.person_id
JOIN concept c ON c.concept_id = d.drug_concept_id JOIN concept g ON g.concept_id = p.gender_concept_id
GROUP BY c.concept_name, g.concept_name ORDER BY 1, 2

-- average gap between visits
SELECT avg(gap) AS mean_gap
FROM (SELECT visit_start_date - lag(visit_start_date) OVER (PARTITION BY person_id ORDER BY visit_start_date) AS gap
      FROM visit_occurrence)
WHERE gap IS NOT NULL

-- median gap between visits
-- within: 15
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY gap) AS median_gap
FROM (SELECT date_diff('day', lag(visit_start_date) OVER (PARTITION BY person_id ORDER BY visit_start_date), visit_start_date) AS gap
      FROM visit_occurrence)

-- observation time between first and last visit
SELECT avg(date_diff('day', first_visit, last_visit)) AS days
FROM (SELECT person_id, min(visit_start_date) AS first_visit, max(visit_end_date) AS last_visit
      FROM visit_occurrence GROUP BY person_id)

-- persons never seen
SELECT count(*) AS people FROM person p
WHERE NOT EXISTS (SELECT 1 FROM visit_occurrence v WHERE v.person_id = p.person_id)

-- number of kinds of condition recorded
SELECT count(DISTINCT condition_concept_id) AS kinds FROM condition_occurrence

-- number of kinds of condition by kind of visit
SELECT v.visit_concept_id, count(DISTINCT c.condition_concept_id) AS kinds
FROM visit_occurrence v JOIN condition_occurrence c ON c.visit_occurrence_id = v.visit_occurrence_id
GROUP BY v.visit_concept_id

-- bed days by month
SELECT date_trunc('month', visit_start_date) AS month, sum(date_diff('day', visit_start_date, visit_end_date) + 1) AS bed_days
FROM visit_occurrence WHERE visit_concept_id = 9201 GROUP BY 1 ORDER BY 1

-- patients admitted on each day of a year
SELECT visit_start_date, count(*) AS admissions FROM visit_occurrence
WHERE visit_concept_id = 9201 AND visit_start_date >= '2021-01-01' AND visit_start_date < '2022-01-01'
GROUP BY visit_start_date ORDER BY visit_start_date

-- names of patients with a rare condition
-- never: rows about people
SELECT person_id, condition_start_date FROM condition_occurrence WHERE condition_concept_id = 316139 LIMIT 10

-- the longest stay
-- within: 8
SELECT max(visit_end_date - visit_start_date) AS longest FROM visit_occurrence

-- persons by number of drugs, in bands
SELECT CASE WHEN n = 1 THEN 'one' WHEN n BETWEEN 2 AND 3 THEN 'two or three' ELSE 'more' END AS band, count(*) AS people
FROM (SELECT person_id, count(*) AS n FROM drug_exposure GROUP BY person_id) GROUP BY 1

-- mean charlson-like score
SELECT avg(score) AS mean_score
FROM (SELECT p.person_id, coalesce(sum(CASE c.condition_concept_id WHEN 316139 THEN 2 WHEN 201826 THEN 1 ELSE 0 END), 0) AS score
      FROM person p LEFT JOIN condition_occurrence c ON c.person_id = p.person_id GROUP BY p.person_id)
