"""Other libraries on TPC-H: python benchmarks/tpch/peers.py --peer opendp --data out/tpch-1

Each peer is installed where it is run; sparseq is not needed. First

    pip install duckdb pyarrow click pandas

and then one of

    pip install "opendp[polars]"                     # --peer opendp
    pip install smartnoise-sql                       # --peer smartnoise
    pip install tmlt.analytics                       # --peer tumult; it needs Java 17
    pip install diffprivlib "scikit-learn<1.7"       # --peer diffprivlib

Operations that none of them supports are done for all of them, without noise: the joins, the keys
of groups, and the most rows of a person, the 95th percentile of the data. diffprivlib, which has no
persons, gets a person's rows summed by group too, within the 95th percentile of such sums. Every
question has the same part of kappa 0.5: `benchmarks.tpch` has answered the same number with noise.
A library with pure epsilon gets the epsilon that is this zCDP: sqrt(2 rho) for each number.
docs/tpch.md has the table.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import duckdb

NOISED, KAPPA = 12, 0.5
PRICE = (0.0, 105_000.0)
_GAIN = "l_extendedprice * (1 - l_discount)"
_LINES = "lineitem JOIN orders ON o_orderkey = l_orderkey"

Bounds = dict[str, tuple[float, float]]
Question = tuple[str, Bounds]
QUESTIONS: dict[str, Question] = {
    "q01": (
        "SELECT o_custkey AS who, l_returnflag || l_linestatus AS k, l_quantity::DOUBLE AS a, "
        f"l_extendedprice::DOUBLE AS b, ({_GAIN})::DOUBLE AS c, "
        f"({_GAIN} * (1 + l_tax))::DOUBLE AS d FROM {_LINES} WHERE l_shipdate <= DATE '1998-09-02'",
        {"a": (1, 50), "b": (900, 105_000), "c": PRICE, "d": (0, 113_400)},
    ),
    "q04": (
        "SELECT o_custkey AS who, o_orderpriority AS k FROM orders WHERE o_orderdate >= "
        "DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' AND EXISTS (FROM lineitem "
        "WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)",
        {},
    ),
    "q05": (
        f"SELECT c_custkey AS who, n_name AS k, ({_GAIN})::DOUBLE AS v "
        f"FROM {_LINES} JOIN customer ON c_custkey = o_custkey JOIN supplier "
        "ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey JOIN nation "
        "ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey WHERE r_name = "
        "'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'",
        {"v": PRICE},
    ),
    "q06": (
        "SELECT o_custkey AS who, '' AS k, (l_extendedprice * l_discount)::DOUBLE AS v "
        f"FROM {_LINES} WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
        "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        {"v": (0, 10_500)},
    ),
    "q07": (
        "SELECT o_custkey AS who, n1.n_name || n2.n_name || year(l_shipdate) AS k, "
        f"({_GAIN})::DOUBLE AS v FROM {_LINES} JOIN customer ON c_custkey = o_custkey "
        "JOIN supplier ON s_suppkey = l_suppkey JOIN nation n1 ON s_nationkey = n1.n_nationkey "
        "JOIN nation n2 ON c_nationkey = n2.n_nationkey WHERE n1.n_name <> n2.n_name AND n1.n_name "
        "IN ('FRANCE', 'GERMANY') AND n2.n_name IN ('FRANCE', 'GERMANY') AND l_shipdate BETWEEN "
        "DATE '1995-01-01' AND DATE '1996-12-31'",
        {"v": PRICE},
    ),
    "q09": (
        "SELECT o_custkey AS who, n_name || year(o_orderdate) AS k, "
        f"({_GAIN} - ps_supplycost * l_quantity)::DOUBLE AS v FROM {_LINES} "
        "JOIN part ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey JOIN partsupp "
        "ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey JOIN nation "
        "ON s_nationkey = n_nationkey WHERE p_name LIKE '%green%'",
        {"v": (-50_000, 105_000)},
    ),
    "q12": (
        "SELECT o_custkey AS who, l_shipmode AS k, "
        "(o_orderpriority IN ('1-URGENT', '2-HIGH'))::DOUBLE AS a, 1 - a AS b "
        f"FROM {_LINES} WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND "
        "l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < "
        "DATE '1995-01-01'",
        {"a": (0, 1), "b": (0, 1)},
    ),
}
"""SQL of the rows, with the person, the group and the values; and the values' bounds. Without
values, rows are counted."""


Rows = duckdb.DuckDBPyRelation
Values = dict[tuple[str, str], float]
"""Of each group and column, the value."""


def most_rows(rows: Rows) -> int:
    """Return the 95th percentile of people's rows."""
    counted = rows.aggregate("who, count(*) AS n", "who")
    return int(counted.aggregate("quantile_cont(n, 0.95)").fetchall()[0][0])


def keys_of(rows: Rows) -> list[str]:
    """Return the groups."""
    return [key for (key,) in rows.project("k").distinct().order("k").fetchall()]


def truth(rows: Rows, columns: list[str]) -> Values:
    """Return the exact values."""
    sums = [f"sum({c})" for c in columns] if columns != ["n"] else ["count(*)"]
    found = rows.aggregate(f"k, {', '.join(sums)}", "k").fetchall()
    return {(key, c): v for key, *vs in found for c, v in zip(columns, vs, strict=True)}


def summed(rows: Rows, bounds: Bounds) -> tuple[Rows, Bounds, int]:
    """Return one row of each person and group, its values within bounds, and the most groups."""
    columns = list(bounds) or ["n"]
    sums = [f"sum({c}) AS {c}" for c in bounds] or ["count(*)::DOUBLE AS n"]
    cells = rows.aggregate(f"who, k, {', '.join(sums)}", "who, k")
    most = most_rows(cells)
    kept = cells.project("*, row_number() OVER (PARTITION BY who ORDER BY hash(who, k)) AS i")
    kept = kept.filter(f"i <= {most}")
    ends: Bounds = {}
    for c in columns:
        top = cells.aggregate(f"quantile_cont(abs({c}), 0.95)").fetchall()[0][0]
        ends[c] = (-top if bounds.get(c, (0, 0))[0] < 0 else 0.0, top)
    within = (f"greatest(least({c}, {high}), {low}) AS {c}" for c, (low, high) in ends.items())
    return kept.project(f"who, k, {', '.join(within)}"), ends, most


Ask = Callable[[], Values]


def opendp(rows: Rows, bounds: Bounds, rho: float) -> Ask:
    """Prepare a question for OpenDP's Polars context."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    frame, most = pl.from_arrow(rows.to_arrow_table()), most_rows(rows)
    keys = pl.DataFrame({"k": keys_of(rows)})
    sums = [pl.col(n).fill_nan(0).fill_null(0).dp.sum(bounds=ends) for n, ends in bounds.items()]

    def ask() -> Values:
        context = dp.Context.compositor(
            data=frame.lazy(),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("who")),
            privacy_loss=dp.loss_of(rho=rho),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=10_000_000, max_groups=300)],
        )
        query = context.query().truncate_per_group(most).group_by("k")
        made = query.agg(*(sums or [dp.len().alias("n")])).with_keys(keys.lazy())
        out = made.release().collect().to_dicts()
        return {(row["k"], c): row[c] for row in out for c in bounds or ["n"]}

    return ask


def smartnoise(rows: Rows, bounds: Bounds, rho: float) -> Ask:
    """Prepare a question for SmartNoise SQL; in thousands, where it refuses so large a noise."""
    from snsql import Privacy, from_df

    columns, most = list(bounds) or ["n"], most_rows(rows)
    epsilon = math.sqrt(2 * rho / len(columns))
    for unit in (1, 1000):
        parts = (f"{c} / {unit} AS {c}" for c in bounds)
        frame = rows.project(", ".join(["who", "k", *parts])).df()
        ends = {c: {"lower": a / unit, "upper": b / unit} for c, (a, b) in bounds.items()}
        table: dict[str, Any] = {c: {"type": "float", **e} for c, e in ends.items()}
        table |= {"who": {"type": "int", "private_id": True}, "k": {"type": "string"}}
        table |= {"rows": 1, "max_ids": most, "sample_max_ids": True, "censor_dims": False}
        metadata = {"": {"s": {"t": table}}}
        reader = from_df(frame, privacy=Privacy(epsilon=epsilon), metadata=metadata)
        sums = [f"SUM({c}) AS {c}" for c in bounds] or ["COUNT(*) AS n"]
        query = f"SELECT k, {', '.join(sums)} FROM s.t GROUP BY k"
        try:
            reader.get_privacy_cost(query)
            break
        except ValueError as wrong:
            click.echo(f"    in units of {unit}: {str(wrong).partition(' Try ')[0]}")

    def ask() -> Values:
        _, *found = reader.execute(query)
        return {(k, c): v * unit for k, *vs in found for c, v in zip(columns, vs, strict=True)}

    return ask


def written(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str]]:
    """Yield what SmartNoise says of each of the 22 questions as they are; "" if it takes one."""
    from snsql import Privacy
    from snsql.metadata import Metadata
    from snsql.sql.private_reader import PrivateReader
    from snsql.sql.reader.pandas import PandasReader

    kinds = {"INTEGER": "int", "BIGINT": "int", "VARCHAR": "string", "DATE": "datetime"}
    tables: dict[str, dict[str, Any]] = {}
    for (name,) in con.execute("SHOW TABLES").fetchall():
        owned = {"customer": "c_custkey", "orders": "o_custkey"}.get(name)
        table: dict[str, Any] = {"rows": 1000, "censor_dims": False, "row_privacy": owned is None}
        for column, kind in zip(con.table(name).columns, con.table(name).types, strict=True):
            about = {"type": kinds.get(str(kind), "float"), "lower": 0, "upper": 100_000}
            table[column] = about | {"private_id": column == owned}
        tables[name] = table
    metadata = Metadata.from_dict({"": {"": tables}})
    frames = {f".{name}": con.table(name).limit(1).df() for name in tables}
    private = PrivateReader(PandasReader(frames, metadata), metadata, privacy=Privacy(epsilon=1.0))
    text = Path(__file__).with_name("queries.sql").read_text()
    for name, sql in re.findall(r"^-- (q\d\d)\n(.*?);$", text, re.M | re.S):
        try:
            private.get_privacy_cost(sql)
            yield name, ""
        except Exception as wrong:  # it raises what its parser raises
            yield name, str(wrong).partition("\n")[0][:150]


def tumult(rows: Rows, bounds: Bounds, rho: float) -> Ask:
    """Prepare a question for Tumult Analytics."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        KeySet,
        MaxRowsPerID,
        QueryBuilder,
        RhoZCDPBudget,
        Session,
    )

    made = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = made.config("spark.driver.memory", "4g").config("spark.ui.enabled", "false")
    frame, most = spark.getOrCreate().createDataFrame(rows.df()), most_rows(rows)
    keys = KeySet.from_dict({"k": keys_of(rows)})
    columns = list(bounds) or ["n"]

    def ask() -> Values:
        session = Session.from_dataframe(
            privacy_budget=RhoZCDPBudget(rho),
            source_id="t",
            dataframe=frame,
            protected_change=AddRowsWithID("who"),
        )
        found: Values = {}
        for c in columns:
            groups = QueryBuilder("t").enforce(MaxRowsPerID(most)).groupby(keys)
            query = groups.sum(c, *bounds[c], name=c) if bounds else groups.count(name=c)
            answer = session.evaluate(query, RhoZCDPBudget(rho / len(columns)))
            found |= {(row["k"], c): float(row[c]) for row in answer.collect()}
        return found

    return ask


def diffprivlib(rows: Rows, bounds: Bounds, rho: float) -> Ask:
    """Prepare a question for diffprivlib, which has one number of one column at a time."""
    from diffprivlib import tools

    cells, ends, most = summed(rows, bounds)
    frame, keys = cells.df(), keys_of(rows)
    epsilon = math.sqrt(2 * rho / (len(ends) * most))
    parts = {key: frame[frame["k"] == key] for key in keys}

    def ask() -> Values:
        return {
            (key, c): float(tools.sum(part[c].to_numpy(), epsilon=epsilon, bounds=ends[c]))
            for key, part in parts.items()
            for c in ends
        }

    return ask


PEERS: dict[str, tuple[str, Callable[[Rows, Bounds, float], Ask]]] = {
    "opendp": ("opendp", opendp),
    "smartnoise": ("smartnoise-sql", smartnoise),
    "tumult": ("tmlt.analytics", tumult),
    "diffprivlib": ("diffprivlib", diffprivlib),
}
"""Of each: the package, and what prepares a question for it."""


def median_error(asks: list[Values], true: Values) -> float:
    """Return the median of the relative errors of all values in some runs."""
    return statistics.median(abs(v - true[c]) / abs(true[c]) for a in asks for c, v in a.items())


@click.command()
@click.option("--peer", type=click.Choice(list(PEERS)), required=True)
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), required=True, help="TPC-H's tables."
)
@click.option("--runs", default=3, show_default=True)
@click.option("--only", default="", help="One question, as q06.")
@click.option("--written", "as_written", is_flag=True, help="The 22, as SmartNoise reads them.")
def main(peer: str, data: Path, runs: int, only: str, as_written: bool) -> None:
    """Print the median error of each question."""
    warnings.filterwarnings("ignore")
    package, prepare = PEERS[peer]
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    for path in data.glob("*.parquet"):
        con.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
    if as_written:
        for name, said in written(con):
            click.echo(f"{name}  {said or 'answered'}")
        return
    click.echo(f"{package} {version(package)}, {data.name}, median of {runs} runs")
    for name, (sql, bounds) in QUESTIONS.items():
        if only in name:
            con.execute(f"CREATE OR REPLACE TEMP TABLE asked AS {sql}")
            rows = con.table("asked")
            start = time.perf_counter()
            ask = prepare(rows, bounds, KAPPA / NOISED)
            asks: list[Values] = [ask() for _ in range(runs)]
            error = median_error(asks, truth(rows, list(bounds) or ["n"]))
            seconds = time.perf_counter() - start
            click.echo(f"{name}  {100 * error:.1f} %  {seconds:.1f} s")


if __name__ == "__main__":
    main()
