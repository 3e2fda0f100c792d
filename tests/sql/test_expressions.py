"""Polars expressions as SQL: Polars itself is the oracle; what looks beyond one row is refused."""

from __future__ import annotations

import datetime as dt

import duckdb
import polars as pl
import pytest

from sparseq.base.errors import QueryRefused
from sparseq.sql.polars_expressions import to_sql

ROWS = pl.DataFrame(
    {
        "a": [1, -7, 0, None, 12, 100],
        "x": [1.5, -2.25, 0.5, 3.0, None, 250.0],
        "s": ["gift", "Book", "", None, "a b", "ünï"],
        "flag": [True, False, None, True, False, True],
        "day": [dt.date(1997, 1, 1), dt.date(1998, 6, 30), None, *[dt.date(2024, 2, 29)] * 3],
        "at": [dt.datetime(1997, 1, 1, 23, 59), None, *[dt.datetime(2024, 2, 29, 7, 30)] * 4],
        "order": [1, 2, 3, 4, 5, 6],
    }
)
a, x, s, day = pl.col("a"), pl.col("x"), pl.col("s"), pl.col("day")
ONE_ROW = {
    "arithmetic": (a + 2) * 3 - a / 4,
    "precedence": a - (a - 1) - (2 - a),
    "floor division": a // 4,
    "remainder": a % 4,
    "remainder by a negative": a % -4,
    "power": x**2,
    "negation": -(a + 1),
    "comparison": (a > 0) & ~(x <= 1) | (a == -7),
    "missing": a.is_null() | x.is_not_null(),
    "equal or both missing": a.eq_missing(12),
    "fill": a.fill_null(5) + 1,
    "coalesce": pl.coalesce(a, pl.col("order")),
    "membership": a.is_in([1, 12, 55]),
    "membership of strings": s.is_in(["gift", "it's"]),
    "membership of dates": day.is_in([dt.date(1997, 1, 1)]),
    "between": a.is_between(0, 12),
    "half-open between": a.is_between(0, 12, closed="left"),
    "clip": x.clip(0, 100),
    "clip one side": x.clip(upper_bound=1),
    "choice": pl.when(a > 5).then(x).when(a < 0).then(1.0).otherwise(0.0),
    "cast": x.cast(pl.Float32).cast(pl.Float64),
    "rounding": (x.abs() + 0.001).round(1),
    "functions": x.abs().sqrt() + x.abs().log() + (x / 100).exp() + x.floor() + x.ceil(),
    "log to a base": x.abs().log(2),
    "extremes": pl.max_horizontal(a, "order") - pl.min_horizontal(a, 3),
    "starts": s.str.starts_with("gi") | s.str.ends_with("k"),
    "contains": s.str.contains("o"),
    "contains literally": s.str.contains(".", literal=True),
    "case": s.str.to_lowercase() == "book",
    "length": s.str.len_chars(),
    "parts of a date": day.dt.year() * 10_000 + day.dt.month() * 2 + day.dt.day(),
    "weekday": day.dt.weekday() + day.dt.quarter(),
    "date comparison": day >= pl.date(1998, 1, 1),
    "date constant": day == dt.date(2024, 2, 29),
    "date of a time": pl.col("at").dt.date() == dt.date(2024, 2, 29),
    "truncate": day.dt.truncate("1mo") == dt.date(2024, 2, 1),
    "a name that is a keyword": pl.col("order") > 2,
    "a constant": pl.lit(3) + a,
    "truth": pl.col("flag") & (a > 0),
}


@pytest.mark.parametrize("name", ONE_ROW)
def test_sql_gives_what_polars_gives(name: str) -> None:
    expression = ONE_ROW[name]
    con = duckdb.connect()
    con.register("rows", ROWS.to_arrow())
    ours = con.sql(f"SELECT {to_sql(expression)} AS v FROM rows").to_arrow_table()["v"].to_pylist()
    theirs = ROWS.select(expression.alias("v"))["v"].to_list()
    assert ours == pytest.approx(theirs, nan_ok=True)


SEVERAL_ROWS = {
    "sum": a.sum(),
    "mean inside": x - x.mean(),
    "over": a.sum().over("s"),
    "shift": a.shift(),
    "difference": a.diff(),
    "running": a.cum_sum(),
    "rank": a.rank(),
    "sort": a.sort(),
    "unique": a.is_unique(),
    "first": a.first(),
    "forward fill": a.fill_null(strategy="forward"),
    "fill by the mean": a.fill_null(a.mean()),
    "filter": a.filter(x > 0),
    "sample": a.sample(3),
    "length of the frame": pl.len(),
    "all columns": pl.all(),
    "a pattern of columns": pl.col("^a.*$"),
    "in another column": a.is_in(pl.col("order")),
    "regular expression": s.str.contains("a.b"),
    "python": a.map_elements(lambda v: v, return_dtype=pl.Int64),
    "python on batches": a.map_batches(lambda v: v),
    "an infinite constant": a > float("inf"),
    "cast to a list": a.cast(pl.List(pl.Int64)),
    "truncate to odd steps": day.dt.truncate("17d"),
}


@pytest.mark.parametrize("name", SEVERAL_ROWS)
def test_more_than_one_row_is_refused(name: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        to_sql(SEVERAL_ROWS[name])
    assert "\n" not in refused.value.message
