"""The 22 queries of TPC-H, each in the form nearest to it that could be asked of people.

    python queries/logs/tpch.py OUT.jsonl

Customers are the people (see data/make_tpch.py). A query that no form comes near is asked as it
is, so that the refusal can be read. What changes is said in docs/replay.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

REVENUE = "sum(l_extendedprice * (1 - l_discount))"
QUERIES = {
    "q01": "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, "
    "sum(l_extendedprice) AS sum_base_price, "
    f"{REVENUE} AS sum_disc_price, "
    "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, "
    "avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, "
    "count(*) AS count_order FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' "
    "GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "q02": "SELECT s_acctbal, s_name, n_name, p_partkey FROM part, supplier, partsupp, nation "
    "WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey "
    "AND p_size = 15 ORDER BY s_acctbal DESC LIMIT 100",
    "q03": f"SELECT l.l_orderkey, {REVENUE} AS revenue FROM customer c "
    "JOIN orders o ON c.custkey = o.custkey "
    "JOIN lineitem l ON l.custkey = o.custkey AND l.l_orderkey = o.o_orderkey "
    "WHERE c.c_mktsegment = 'BUILDING' AND o.o_orderdate < DATE '1995-03-15' "
    "AND l.l_shipdate > DATE '1995-03-15' GROUP BY l.l_orderkey ORDER BY revenue DESC LIMIT 10",
    "q04": "SELECT o_orderpriority, count(*) AS order_count FROM orders o JOIN "
    "(SELECT custkey, l_orderkey FROM lineitem WHERE l_commitdate < l_receiptdate "
    "GROUP BY custkey, l_orderkey) l ON l.custkey = o.custkey AND l.l_orderkey = o.o_orderkey "
    "WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' "
    "GROUP BY o_orderpriority ORDER BY o_orderpriority",
    "q05": f"SELECT n_name, {REVENUE} AS revenue FROM customer c "
    "JOIN orders o ON c.custkey = o.custkey "
    "JOIN lineitem l ON l.custkey = o.custkey AND l.l_orderkey = o.o_orderkey "
    "JOIN supplier s ON l.l_suppkey = s.s_suppkey AND c.c_nationkey = s.s_nationkey "
    "JOIN nation n ON s.s_nationkey = n.n_nationkey "
    "JOIN region r ON n.n_regionkey = r.r_regionkey WHERE r_name = 'ASIA' "
    "AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' "
    "GROUP BY n_name ORDER BY revenue DESC",
    "q06": "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem "
    "WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "q07": f"SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, {REVENUE} AS revenue "
    "FROM customer c JOIN orders o ON c.custkey = o.custkey "
    "JOIN lineitem l ON l.custkey = o.custkey AND l.l_orderkey = o.o_orderkey "
    "JOIN supplier s ON s.s_suppkey = l.l_suppkey "
    "JOIN nation n1 ON s.s_nationkey = n1.n_nationkey "
    "JOIN nation n2 ON c.c_nationkey = n2.n_nationkey "
    "WHERE n1.n_name IN ('FRANCE', 'GERMANY') AND n2.n_name IN ('FRANCE', 'GERMANY') "
    "AND l.l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' "
    "GROUP BY supp_nation, cust_nation",
    "q08": "SELECT year(o_orderdate) AS o_year, sum(CASE WHEN n2.n_name = 'BRAZIL' THEN "
    "l_extendedprice * (1 - l_discount) ELSE 0 END) / sum(l_extendedprice * (1 - l_discount)) "
    "AS mkt_share FROM lineitem l "
    "JOIN orders o ON l.custkey = o.custkey AND l.l_orderkey = o.o_orderkey "
    "JOIN part p ON p.p_partkey = l.l_partkey JOIN supplier s ON s.s_suppkey = l.l_suppkey "
    "JOIN nation n2 ON s.s_nationkey = n2.n_nationkey "
    "WHERE p_type = 'ECONOMY ANODIZED STEEL' AND year(o_orderdate) IN (1995, 1996) "
    "GROUP BY o_year ORDER BY o_year",
    "q09": "SELECT n_name AS nation, sum(least(greatest(l_extendedprice * (1 - l_discount) "
    "- ps_supplycost * l_quantity, -50000), 100000)) AS profit FROM lineitem l "
    "JOIN part p ON p.p_partkey = l.l_partkey JOIN supplier s ON s.s_suppkey = l.l_suppkey "
    "JOIN partsupp ps ON ps.ps_suppkey = l.l_suppkey AND ps.ps_partkey = l.l_partkey "
    "JOIN nation n ON s.s_nationkey = n.n_nationkey WHERE p_name LIKE '%green%' "
    "GROUP BY n_name ORDER BY n_name",
    "q10": f"SELECT c.custkey, {REVENUE} AS revenue FROM customer c "
    "JOIN lineitem l ON c.custkey = l.custkey WHERE l.l_returnflag = 'R' "
    "GROUP BY c.custkey ORDER BY revenue DESC LIMIT 20",
    "q11": "SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp "
    "GROUP BY ps_partkey ORDER BY value DESC",
    "q12": "SELECT l_shipmode, countif(o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high, "
    "countif(o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low FROM orders o "
    "JOIN lineitem l ON o.custkey = l.custkey AND o.o_orderkey = l.l_orderkey "
    "WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate "
    "AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' "
    "AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode ORDER BY l_shipmode",
    "q13": "SELECT c_count, count(*) AS custdist FROM (SELECT c.custkey, count(o.o_orderkey) "
    "AS c_count FROM customer c LEFT JOIN orders o ON c.custkey = o.custkey GROUP BY c.custkey) "
    "WHERE c_count BETWEEN 0 AND 40 GROUP BY c_count ORDER BY custdist DESC",
    "q14": "SELECT 100 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * "
    "(1 - l_discount) ELSE 0 END) / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue "
    "FROM lineitem l JOIN part p ON l.l_partkey = p.p_partkey "
    "WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
    "q15": f"SELECT l_suppkey, {REVENUE} AS total_revenue FROM lineitem "
    "WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' "
    "AND l_suppkey BETWEEN 1 AND 500 GROUP BY l_suppkey ORDER BY total_revenue DESC LIMIT 1",
    "q16": "SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt "
    "FROM partsupp JOIN part ON p_partkey = ps_partkey WHERE p_brand <> 'Brand#45' "
    "GROUP BY p_brand, p_type, p_size",
    "q17": "SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem l "
    "JOIN part p ON p.p_partkey = l.l_partkey WHERE p_brand = 'Brand#23' "
    "AND p_container = 'MED BOX' AND l_quantity < 5.1",
    "q18": "SELECT count(*) AS large_orders FROM (SELECT custkey, l_orderkey, sum(l_quantity) AS q "
    "FROM lineitem GROUP BY custkey, l_orderkey) WHERE q > 300",
    "q19": f"SELECT {REVENUE} AS revenue FROM lineitem l JOIN part p ON p.p_partkey = l.l_partkey "
    "WHERE l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND ("
    "(p_brand = 'Brand#12' AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5) OR "
    "(p_brand = 'Brand#23' AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10) OR "
    "(p_brand = 'Brand#34' AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15))",
    "q20": "SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN "
    "(SELECT ps_suppkey FROM partsupp WHERE ps_availqty > "
    "(SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey)) "
    "AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name",
    "q21": "SELECT s_name, count(*) AS numwait FROM orders o "
    "JOIN (SELECT custkey, l_orderkey, min(l_suppkey) AS l_suppkey FROM lineitem "
    "WHERE l_receiptdate > l_commitdate GROUP BY custkey, l_orderkey "
    "HAVING count(DISTINCT l_suppkey) = 1) l "
    "ON l.custkey = o.custkey AND l.l_orderkey = o.o_orderkey "
    "JOIN supplier s ON s.s_suppkey = l.l_suppkey JOIN nation n ON s.s_nationkey = n.n_nationkey "
    "WHERE o_orderstatus = 'F' AND n_name = 'SAUDI ARABIA' GROUP BY s_name "
    "ORDER BY numwait DESC LIMIT 100",
    "q22": "SELECT substr(c.c_phone, 1, 2) AS cntrycode, count(DISTINCT c.custkey) AS numcust, "
    "sum(c.c_acctbal) AS totacctbal FROM customer c "
    "LEFT JOIN (SELECT custkey, count(*) AS n FROM orders GROUP BY custkey) o "
    "ON o.custkey = c.custkey WHERE o.n IS NULL AND c.c_acctbal > 0 "
    "AND substr(c.c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17') "
    "GROUP BY cntrycode ORDER BY cntrycode",
}


@click.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def main(out: Path) -> None:
    """Write the queries to OUT (JSON Lines)."""
    lines = [json.dumps({"id": id, "sql": sql}) + "\n" for id, sql in QUERIES.items()]
    out.write_text("".join(lines))


if __name__ == "__main__":
    main()
