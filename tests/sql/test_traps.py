"""No trap of SQL's meaning is fallen into: an answer is plain DuckDB's, cell by cell, or refused.

The questions are asked without noise, and of everybody. A sum over no rows is 0 there, where SQL
has NULL: noise would hide the one from the other.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import traps
from shop import answer
from traps import Trap

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Options
from sparseq.released.result_columns import columns_of, noised_of

ALL = traps.traps()
SAMPLE = 60
MOST_REFUSED = {"times and zones": 0.1}
"""Of a family. Of the others two in five are the most."""
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return traps.store()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    return traps.plain()


def fate(con: sparseq.Store, plain: duckdb.DuckDBPyConnection, trap: Trap) -> str:
    """Return "equal", why a question is refused, or how its answer differs."""
    theirs = plain.sql(trap.plain).to_arrow_table()
    try:
        ours = answer(con, trap.sql, Options(sigma=8.0))
    except QueryRefused as refused:
        return f"refused: {refused.message}"
    return _difference(ours, theirs) or "equal"


def _difference(ours: pa.Table, theirs: pa.Table) -> str:
    """Return how an answer differs; a group that plain SQL has no row for holds nothing."""
    shown = columns_of(ours)
    if len(shown) != len(theirs.column_names):
        return f"{len(shown)} columns for {len(theirs.column_names)}"
    noised = [c in noised_of(ours) for c in shown]
    left = _rows(theirs)
    for row in _rows(ours.select(shown)):
        found = next((other for other in left if _same(row, other, noised)), None)
        if found is not None:
            left.remove(found)
        elif all(noised) or any(v not in (0, None) for v, n in zip(row, noised, strict=True) if n):
            return f"differs: {row} is not in {left[:5]}"
    return f"differs: {left[0]} is missing" if left else ""


def _rows(table: pa.Table) -> list[Row]:
    return [tuple(map(_value, row.values())) for row in table.to_pylist()]


def _value(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.time() == dt.time() and value.tzinfo is None:
        return value.date()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return float(value) if isinstance(value, Decimal) else value


def _same(ours: Row, theirs: Row, noised: list[bool]) -> bool:
    return all(_equal(a, b, n) for a, b, n in zip(ours, theirs, noised, strict=True))


def _equal(a: Any, b: Any, noised: bool) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int):
        return abs(a - b) < 1e-3
    if isinstance(a, int | float) and isinstance(b, float):  # on a lattice
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-2)
    return bool(a == b) or (noised and a == 0 and b is None)


TIES = {
    "a lag inside and outside": """
        SELECT count(*) AS n, countif(a IS DISTINCT FROM b) AS bad FROM (
          SELECT who, a, lag(i) OVER (PARTITION BY who ORDER BY o) AS b
          FROM (SELECT who, o, i, lag(i) OVER (PARTITION BY who ORDER BY o) AS a FROM e) AS x)""",
    "runs by lag and sum": """
        WITH x AS (SELECT who, o, i, CASE WHEN lag(i) OVER (PARTITION BY who ORDER BY o) = i
                     THEN 0 ELSE 1 END AS f FROM e),
             y AS (SELECT who, i, sum(f) OVER (PARTITION BY who ORDER BY o
                     ROWS UNBOUNDED PRECEDING) AS run FROM x),
             z AS (SELECT who, count(DISTINCT coalesce(i, 9)) AS c FROM y GROUP BY who, run)
        SELECT count(*) AS n, countif(c > 1) AS bad FROM z""",
    "two subqueries that select other columns": """
        SELECT count(*) AS n, countif(x.a IS DISTINCT FROM y.a) AS bad
        FROM (SELECT who, r, i, row_number() OVER (PARTITION BY who ORDER BY o) AS a FROM e) AS x
        JOIN (SELECT who, r, v, row_number() OVER (PARTITION BY who ORDER BY o) AS a FROM e) AS y
        ON x.who = y.who AND x.r = y.r""",
    "beside a public table": """
        SELECT count(*) AS n, countif(a IS DISTINCT FROM b) AS bad FROM (
          SELECT y.who, a, lag(i) OVER (PARTITION BY y.who ORDER BY o) AS b FROM (
            SELECT who, o, i, k, lag(i) OVER (PARTITION BY who ORDER BY o) AS a FROM e) AS y
          LEFT JOIN names USING (i)) AS q""",
}


@pytest.mark.parametrize("sql", TIES.values(), ids=TIES)
def test_all_windows_of_a_query_break_ties_alike(con: sparseq.Store, sql: str) -> None:
    (row,) = answer(con, sql, Options(sigma=8.0)).to_pylist()
    assert row["n"] > 2000
    assert row["bad"] == 0


@pytest.mark.parametrize("trap", ALL[:: len(ALL) // SAMPLE], ids=lambda t: t.sql[:60])
def test_a_trap_is_not_fallen_into(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, trap: Trap
) -> None:
    found = fate(con, plain, trap)
    assert found == "equal" or found.startswith("refused"), trap.sql


@pytest.mark.deep
def test_no_trap_is_fallen_into(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> None:
    """All of them; and of each family few are refused."""
    asked, refused, wrong = Counter[str](), Counter[str](), []
    for trap in ALL:
        found = fate(con, plain, trap)
        asked[trap.family] += 1
        refused[trap.family] += found.startswith("refused")
        if found.startswith("differs"):
            wrong.append((trap.sql, found))
    for family, number in asked.items():
        print(f"{family:20} {number:5} {refused[family]:5} refused")
    assert wrong == []
    assert asked.total() >= 1000
    shares = {family: refused[family] / number for family, number in asked.items()}
    assert {f: s for f, s in shares.items() if s > MOST_REFUSED.get(f, 0.4)} == {}
