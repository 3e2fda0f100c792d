"""HISTOGRAM, MEDIAN and QUANTILE without their noise, against NumPy and plain DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from shop import BOUNDS, PRIVATE, exact, store, truth

import sparseq

EVENTS = [row for row in PRIVATE["events"].to_pylist() if row["who"] is not None]
EDGES = [-20.0, 0.0, 5.0, 10.0, 25.0, 60.0]


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    return truth()


def values(
    column: str, where: Callable[[dict[str, Any]], Any] = lambda row: True
) -> NDArray[np.float64]:
    """Return a column's finite values, of the rows that have a user."""
    found = np.array([float(r[column]) for r in EVENTS if r[column] is not None and where(r)])
    cut = np.clip(found, *BOUNDS[column]) if column in BOUNDS else found
    return cut[np.isfinite(cut)]


# -- histograms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["amount", "reading", "price", "qty"])
def test_a_histogram_is_numpys(con: sparseq.Store, column: str) -> None:
    rows = exact(con, f"SELECT histogram({column}, {EDGES}) AS n FROM events")
    expected, _ = np.histogram(values(column), EDGES)
    assert [r["n"] for r in rows] == expected.tolist()
    assert [(r["bin_low"], r["bin_high"]) for r in rows] == list(pairwise(EDGES))


def test_a_histogram_by_group_is_numpys(con: sparseq.Store) -> None:
    rows = exact(
        con,
        f"SELECT kind, histogram(amount, {EDGES}) FILTER (WHERE gift) AS n FROM events "
        "WHERE kind IN ('book', 'o''brien', 'nothing') GROUP BY kind",
    )
    for kind in ("book", "o'brien", "nothing"):
        chosen = values("amount", lambda row, kind=kind: row["kind"] == kind and row["gift"])
        expected, _ = np.histogram(chosen, EDGES)
        assert [r["n"] for r in rows if r["kind"] == kind] == expected.tolist()


def test_a_histogram_is_duckdbs_counts(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection
) -> None:
    edges = [0, 1, 10, 25, 50, 90, 100]
    rows = exact(con, f"SELECT histogram(amount, {edges}) n FROM events")
    assert [(r["bin_low"], r["bin_high"]) for r in rows] == list(pairwise(edges))
    for i, row in enumerate(rows):
        close = "<=" if i == len(rows) - 1 else "<"
        where = f"amount >= {row['bin_low']} AND amount {close} {row['bin_high']}"
        ((expected,),) = plain.execute(f"SELECT count(*) FROM events WHERE {where}").fetchall()
        assert row["n"] == expected


def test_a_histogram_by_group_is_duckdbs_counts(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection
) -> None:
    counts = "histogram(qty, [0, 3, 6]) FILTER (WHERE amount > 0) n"
    rows = exact(con, f"SELECT gift, {counts} FROM events GROUP BY gift")
    assert [r["gift"] for r in rows] == [False, False, True, True, None, None]
    for row in rows:
        close = "<=" if row["bin_high"] == 6 else "<"
        where = f"qty >= {row['bin_low']} AND qty {close} {row['bin_high']} AND amount > 0"
        ((expected,),) = plain.execute(
            f"SELECT count(*) FROM events WHERE gift IS NOT DISTINCT FROM ? AND {where}",
            [row["gift"]],
        ).fetchall()
        assert row["n"] == expected


# -- quantiles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["amount", "reading"])
@pytest.mark.parametrize("q", [0.0, 0.05, 0.25, 0.5, 0.9, 0.999])
def test_a_quantile_lies_in_the_bin_of_numpys(con: sparseq.Store, column: str, q: float) -> None:
    edges = np.arange(-25, 105, 5.0).tolist()
    (row,) = exact(con, f"SELECT quantile({column}, {q}, {edges}) AS q FROM events")
    expected = np.quantile(values(column), q, method="inverted_cdf")
    assert row["q"] == pytest.approx(expected, abs=5)


@pytest.mark.parametrize("q", [0.0, 0.05, 0.25, 0.5, 0.9, 0.999])
def test_a_quantile_of_decimals_lies_in_the_bin_of_numpys(con: sparseq.Store, q: float) -> None:
    edges = list(range(0, 1001, 50))
    (row,) = exact(con, f"SELECT quantile(price, {q}, {edges}) AS q FROM events")
    expected = np.quantile(values("price"), q, method="inverted_cdf")
    assert row["q"] == pytest.approx(expected, abs=50)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_a_quantile_is_near_duckdbs(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, share: float
) -> None:
    edges = list(range(-10, 102, 2))
    (ours,) = exact(con, f"SELECT quantile(amount, {share}, {edges}) q FROM events")
    ((theirs,),) = plain.execute(f"SELECT quantile_cont(amount, {share}) FROM events").fetchall()
    assert abs(ours["q"] - theirs) <= 2


@pytest.mark.parametrize("spelling", ["median(price)", "quantile_cont(price, 0.5)"])
def test_declared_bounds_are_bins(con: sparseq.Store, spelling: str) -> None:
    (row,) = exact(con, f"SELECT {spelling} AS m, median(-price) AS r FROM events WHERE qty > 0")
    chosen = values("price", lambda row: row["qty"] is not None and row["qty"] > 0)
    assert row["m"] == pytest.approx(np.median(chosen), abs=1000 / 64)
    assert row["r"] == pytest.approx(-np.median(chosen), abs=1000 / 64)


def test_a_median_over_declared_bounds(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection
) -> None:
    (ours,) = exact(con, "SELECT median(amount) m, quantile(amount, 0.5) q FROM events WHERE gift")
    ((theirs,),) = plain.execute("SELECT median(amount) FROM events WHERE gift").fetchall()
    assert ours["m"] == ours["q"]
    assert abs(ours["m"] - theirs) <= 2 * 110 / 64


def test_a_median_by_group_with_a_filter(con: sparseq.Store) -> None:
    edges = list(range(-10, 101, 2))
    rows = exact(
        con,
        f"SELECT gift, median(amount, {edges}) FILTER (WHERE qty >= 2) AS m FROM events "
        "GROUP BY gift",
    )
    assert [row["gift"] for row in rows] == [False, True, None]
    for row in rows:
        chosen = values(
            "amount",
            lambda r, gift=row["gift"]: r["gift"] is gift and r["qty"] is not None and r["qty"] > 1,
        )
        assert row["m"] == pytest.approx(np.median(chosen), abs=2)


def test_values_outside_of_the_bins(con: sparseq.Store) -> None:
    (row,) = exact(con, "SELECT median(amount, [0, 1]) AS m FROM events WHERE amount > 9")
    assert row["m"] == pytest.approx(0.5, abs=0.5)
    bins = exact(con, "SELECT histogram(amount, [0, 1, 2]) AS n FROM events WHERE amount > 9")
    assert [r["n"] for r in bins] == [0, 0]
