-- What tools send about user tables without being asked to count anything. Read from their sources
-- and documentation; the shop's table and columns. One statement a line; # names the tool.
# Metabase, field values and fingerprints
SELECT "public"."purchases"."kind" AS "kind" FROM "public"."purchases" GROUP BY "public"."purchases"."kind" ORDER BY "public"."purchases"."kind" ASC LIMIT 1000
SELECT "public"."purchases"."amount" AS "amount", "public"."purchases"."quantity" AS "quantity" FROM "public"."purchases" LIMIT 10000
SELECT SUBSTRING("public"."purchases"."kind", 1, 1234) AS "substring1" FROM "public"."purchases" LIMIT 10000
SELECT TRUE AS "_" FROM "public"."purchases" WHERE 1 <> 1 LIMIT 0
SELECT "source"."kind" AS "kind", COUNT(*) AS "count" FROM (SELECT "public"."purchases"."kind" AS "kind" FROM "public"."purchases" LIMIT 10000) AS "source" GROUP BY "source"."kind"
SELECT min("public"."purchases"."amount") AS "min", max("public"."purchases"."amount") AS "max" FROM "public"."purchases"
# Superset, samples, filters and time ranges
SELECT * FROM public.purchases LIMIT 1001
SELECT kind AS kind FROM public.purchases GROUP BY kind LIMIT 1000
SELECT DISTINCT kind FROM public.purchases LIMIT 10000
SELECT MIN(day) AS min_day, MAX(day) AS max_day FROM public.purchases
SELECT * FROM (SELECT * FROM purchases) AS virtual_table LIMIT 0
SELECT DISTINCT paid AS column_values FROM public.purchases LIMIT 10000
SELECT kind AS kind FROM public.purchases WHERE day >= TO_DATE('1997-01-05', 'YYYY-MM-DD') GROUP BY kind LIMIT 1000
SELECT kind, amount FROM public.purchases WHERE seen >= TO_TIMESTAMP('1997-01-05 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND day < TO_DATE('1997-02-10', 'YYYY-MM-DD') ORDER BY seen LIMIT 50 OFFSET 0
# Grafana, variables and previews
SELECT DISTINCT kind FROM purchases ORDER BY 1
SELECT * FROM purchases LIMIT 50
# DBeaver, data view
SELECT x.* FROM public.purchases x
SELECT x.* FROM public.purchases x ORDER BY x.day DESC LIMIT 200
SELECT kind FROM public.purchases WHERE kind ILIKE '%g%' GROUP BY kind ORDER BY kind LIMIT 100
# pgjdbc, psqlODBC, Tableau, Power BI: the columns of a query
SELECT * FROM "public"."purchases" WHERE 1=0
SELECT * FROM purchases WHERE false
SELECT "purchases"."customer" FROM "public"."purchases" LIMIT 1
select "_"."customer", "_"."day" from "public"."purchases" "_" limit 4096
TABLE purchases
TABLE public.purchases
SELECT day FROM purchases ORDER BY day FETCH FIRST 5 ROWS ONLY
# psql and others
SELECT customer FROM purchases OFFSET 10 LIMIT 10
SELECT 1 FROM purchases
SELECT EXISTS(SELECT 1 FROM purchases)
WITH first AS (SELECT * FROM purchases LIMIT 5) SELECT * FROM first
SELECT purchases FROM purchases LIMIT 1
EXPLAIN SELECT count(*) FROM purchases
EXPLAIN ANALYZE SELECT count(*) FROM purchases
EXPLAIN (FORMAT TEXT, VERBOSE) SELECT kind, count(*) FROM purchases GROUP BY kind
PREPARE look AS SELECT count(*) FROM purchases
DEALLOCATE look
BEGIN
DECLARE look CURSOR FOR SELECT count(*) FROM purchases
CLOSE look
SET sparseq.precision = '2%'
SHOW sparseq.precision
COPY (SELECT * FROM purchases LIMIT 10) TO STDOUT
COPY purchases TO STDOUT
COPY purchases (day, kind) TO STDOUT WITH (FORMAT csv, HEADER)
ROLLBACK
RESET ALL
DISCARD ALL
SELECT pg_catalog.set_config('search_path', '', false)
SELECT reltuples FROM pg_class WHERE oid = 'public.purchases'::regclass
SELECT count(*) FROM pg_stat_user_tables
SELECT count(*) FROM information_schema.columns WHERE table_name = 'purchases'
SELECT most_common_vals FROM pg_stats WHERE tablename = 'purchases'
SELECT * FROM released.releases
SELECT * FROM budget.guarantee
