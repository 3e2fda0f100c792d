"""OpenDP's Polars context on the same questions: python -m benchmarks.tpch.peers [--scale 1]

`pip install "opendp[polars]"` first. What OpenDP can't do is done for it, without noise: the joins,
the keys of groups, and the most rows of a person, for which it gets the 95th percentile of the
data. Every question gets the same part of kappa 0.5: as many as `benchmarks.tpch` has answered with
noise. docs/tpch.md has the table.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import click
import duckdb

from benchmarks.tpch import PEOPLE, PUBLIC, data

NOISED, RUNS = 12, 3
PRICE = (0.0, 105_000.0)
_GAIN = "l_extendedprice * (1 - l_discount)"
_LINES = "lineitem JOIN orders ON o_orderkey = l_orderkey"

Question = tuple[str, dict[str, tuple[float, float]]]
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


def errors(rows: Any, bounds: dict[str, tuple[float, float]]) -> list[float]:
    """Return the relative errors of a question's values in some runs."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    most = int(rows.group_by("who").len()["len"].quantile(0.95))
    keys = rows.select("k").unique().sort("k")
    true = rows.group_by("k").agg(pl.len(), *map(pl.sum, bounds)).sort("k")
    found: list[float] = []
    for _ in range(RUNS):
        context = dp.Context.compositor(
            data=rows.lazy(),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("who")),
            privacy_loss=dp.loss_of(rho=0.5 / NOISED),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=10_000_000, max_groups=300)],
        )
        sums = [
            pl.col(n).fill_nan(0).fill_null(0).dp.sum(bounds=ends) for n, ends in bounds.items()
        ]
        query = context.query().truncate_per_group(most).group_by("k")
        out = query.agg(*(sums or [dp.len()])).with_keys(keys.lazy()).release().collect().sort("k")
        for name in bounds or ["len"]:
            pairs = zip(out[name].to_list(), true[name].to_list(), strict=True)
            found += [abs(value - truth) / abs(truth) for value, truth in pairs]
    return found


@click.command()
@click.option("--scale", type=float, default=0.1, show_default=True, help="TPC-H's scale factor.")
def main(scale: float) -> None:
    """Print the median error of each question."""
    import polars as pl

    folder: Path = data(scale)
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    for name in (*PEOPLE, *PUBLIC):
        con.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
    for name, (sql, bounds) in QUESTIONS.items():
        rows = pl.from_arrow(con.sql(sql).to_arrow_table())
        click.echo(f"{name}  {100 * statistics.median(errors(rows, bounds)):.1f} %")


if __name__ == "__main__":
    main()
