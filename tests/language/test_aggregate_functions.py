"""Every aggregate and window function of a subquery: total, in any order, and what is said."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sql.shop import answer

from checks.functions_page import page
from checks.stores import made_store
from checks.total import COLUMNS
from sparseq.base._duckdb.connection import connect
from sparseq.language import types as T
from sparseq.language.aggregate_functions import (
    AGGREGATE_FUNCTIONS,
    AggregateFunction,
    Takes,
    Use,
    overloads,
)
from sparseq.language.expression_tree import Term, column, constant

PEOPLE, ROWS = 5, 12
SHARES = (0.0, 0.25, 0.5, 0.9, 1.0)
PLACES = (1, 3)
NAMES = [f"{f.name}-{'-'.join(f.takes)}" for f in AGGREGATE_FUNCTIONS]
functions = pytest.mark.parametrize("function", AGGREGATE_FUNCTIONS, ids=NAMES)


def _constants(function: AggregateFunction) -> list[Term]:
    if function.name.startswith("quantile"):
        return [Term(T.DOUBLE, repr(q), constant=True, value=q) for q in SHARES]
    return [constant(n, T.BIGINT) for n in PLACES]


def _calls(function: AggregateFunction, columns: Sequence[Term]) -> Iterator[list[Term]]:
    """Yield the arguments of calls: each column first, with what it fits second."""
    if not function.takes:
        yield []
        return
    firsts = [c for c in columns if function.takes[0].allows(c.type)]
    for i, first in enumerate(firsts):
        if len(function.takes) == 1:
            yield [first] if function.takes[0] is not Takes.CONSTANT else _constants(function)[:1]
        elif function.takes[1] is Takes.CONSTANT:
            yield from ([first, c] for c in _constants(function))
        else:
            yield [first, firsts[(i + 3) % len(firsts)]]


def _sql(function: AggregateFunction, arguments: list[Term], distinct: bool, over: bool) -> str:
    """Return its value for each person, or row, as a text that tells all values apart."""
    order = ["k % 5"] if function.ordered else []
    window = "(PARTITION BY u ORDER BY k)" if over else ""
    if over and function.use is Use.BOTH:
        window = "(PARTITION BY u ORDER BY k ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
    term = function.apply(arguments, distinct=distinct, order=order, over=window)
    value = f"CAST({term.sql} AS VARCHAR)"
    if over:
        return f"SELECT u, k, {value} FROM t ORDER BY u, k"
    return f"SELECT u, {value} FROM t GROUP BY u ORDER BY u"


def _every_sql(function: AggregateFunction) -> list[str]:
    columns = [column(c.name, c.type) for c in COLUMNS]
    uses = {Use.AGGREGATE: [False], Use.WINDOW: [True], Use.BOTH: [False, True]}[function.use]
    ways = [(d, o) for d in ([False, True] if function.distinct else [False]) for o in uses]
    if not function.takes:
        ways = [way for way in ways if not way[0]]
    calls = list(_calls(function, columns))
    return [_sql(function, call, *way) for call in calls for way in ways]


def _rows(seed: int = 7) -> list[str]:
    """Return rows of people, as SQL; k tells the rows of a person apart."""
    draw = random.Random(seed)
    rows = []
    for u in range(PEOPLE):
        for k in range(ROWS):
            drawn = ", ".join(draw.choice(c.values) for c in COLUMNS)
            rows.append(f"({u}, {k}, {drawn})")
    return rows


def _table(rows: Sequence[str]) -> duckdb.DuckDBPyConnection:
    con = connect()
    con.execute("SET threads = 2")
    names = ", ".join(["u INTEGER", "k INTEGER", *(f"{c.name} {c.sql}" for c in COLUMNS)])
    con.execute(f"CREATE TABLE t ({names})")
    con.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
    return con


@pytest.fixture(scope="module")
def tables() -> list[duckdb.DuckDBPyConnection]:
    """The same people, their rows in three orders; in the last two among other people."""
    rows, others = _rows(), [row.replace("(", "(9", 1) for row in _rows(8)]
    draw, made = random.Random(3), [_table(rows)]
    for _ in range(2):
        mixed = [*rows, *others]
        draw.shuffle(mixed)
        made.append(_table(mixed))
    return made


@functions
def test_it_has_a_value_whatever_the_rows_and_their_order(
    function: AggregateFunction, tables: list[duckdb.DuckDBPyConnection]
) -> None:
    asked = _every_sql(function)
    assert asked
    for sql in asked:
        first, *others = ([r for r in t.sql(sql).fetchall() if r[0] < PEOPLE] for t in tables)
        assert len(first) >= PEOPLE
        assert all(other == first for other in others), sql


@pytest.mark.parametrize(
    "function",
    [f for f in AGGREGATE_FUNCTIONS if f.use is not Use.AGGREGATE],
    ids=lambda f: f"{f.name}-{'-'.join(f.takes)}",
)
def test_a_window_over_many_rows_takes_little_more_than_its_rows(
    function: AggregateFunction,
) -> None:
    """20,000 rows in frames that grow: sorting each frame anew takes 1,000 times as long as adding.

    The middle function takes 3 times as long, the slowest 15 times. Both are timed here.
    """
    con = connect()
    con.execute("SET enable_progress_bar = false")
    con.execute(
        "CREATE TABLE t AS SELECT i AS k, i % 997 AS i, (i * 7919) % 1000 / 7.0 AS n, "
        "CAST(i % 331 AS VARCHAR) AS x, i % 3 = 0 AS b FROM range(20000) AS r(i)"
    )
    columns = [
        column("i", T.BIGINT),
        column("n", T.DOUBLE),
        column("x", T.TEXT),
        column("b", T.BOOLEAN),
    ]
    over = "(ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    calls = list(_calls(function, columns))

    def seconds(sql: str) -> float:
        started = time.process_time()
        con.sql(f"SELECT count(v) FROM (SELECT {sql} AS v FROM t)").fetchall()
        return time.process_time() - started

    added = max(seconds(f"sum(i) OVER {over}") for _ in range(3))
    for arguments in calls:
        for distinct in (False, True) if function.distinct and arguments else (False,):
            term = function.apply(arguments, distinct=distinct, over=over)
            assert seconds(term.sql) < 100 * added


def test_order_is_told_where_it_matters(tables: list[duckdb.DuckDBPyConnection]) -> None:
    """Sums of doubles, and any value that comes first, would be found by the test above."""
    for sql in ("sum(sin(k))", "any_value(x2)", "first(x1)"):
        asked = f"SELECT u, CAST({sql} AS VARCHAR) FROM t WHERE u < {PEOPLE} GROUP BY u ORDER BY u"
        first, *others = (t.sql(asked).fetchall() for t in tables)
        assert any(other != first for other in others), sql


@pytest.mark.parametrize("ids", ["numbers", "texts"])
def test_the_person_is_a_column_as_others(ids: str) -> None:
    """And not the number that a store has for this person."""
    people = [10_000 + i % 40 if ids == "numbers" else f"p{i % 40:03}" for i in range(100)]
    table = pa.table({"who": people, "x": list(range(100))})
    con = made_store(None, table, table="t", user="who", kappa=1024.0)
    middle = "10020" if ids == "numbers" else "'p020'"
    for value in ("max(who)", "min(who)", "any_value(who)", "mode(who)", "arg_max(who, x)"):
        inner = f"(SELECT who, {value} AS m FROM t GROUP BY who)"
        found = answer(con, f"SELECT count(*) AS n FROM {inner} WHERE m >= {middle}")
        assert found.to_pylist()[0]["n"] == 20, value
    if ids == "numbers":
        inner = "(SELECT who, sum(who) AS m FROM t GROUP BY who)"
        found = answer(con, f"SELECT count(*) AS n FROM {inner} WHERE m > 20000")
        assert found.to_pylist()[0]["n"] == 40


# -- what each of them is, by another program -----------------------------------------------------

Values = list[Any]


def _numbers(values: Values) -> Values:
    return [v for v in values if v is not None]


def _quantile(values: Values, q: float) -> float | None:
    known = _numbers(values)
    return float(np.quantile(list(map(float, known)), q)) if known else None


def _disc(values: Values, q: float) -> Any:
    known = sorted(_numbers(values))
    return (
        known[max(-(-Fraction(q).limit_denominator(1000) * len(known) // 1) - 1, 0)]
        if known
        else None
    )


def _spread(f: Callable[[Values], float], least: int) -> Callable[[Values], float | None]:
    return lambda v: f([float(x) for x in _numbers(v)]) if len(_numbers(v)) >= least else None


def _mode(values: Values) -> Any:
    counts = Counter(_numbers(values))
    return min(counts, key=lambda v: (-counts[v], v)) if counts else None


def _sum(values: Values) -> Any:
    return sum(map(Fraction, _numbers(values))) if _numbers(values) else None


def _mean(values: Values) -> float | None:
    return float(_sum(values) / len(_numbers(values))) if _numbers(values) else None


def _at(choose: Callable[[Values], Any]) -> Callable[[Values, Values], Any]:
    def at(x: Values, y: Values) -> Any:
        pairs = [(b, a) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
        return choose(pairs)[1] if pairs else None

    return at


def _only(f: Callable[[Values], Any]) -> Callable[[Values], Any]:
    return lambda values: f(_numbers(values)) if _numbers(values) else None


ORACLES: dict[str, Callable[..., Any]] = {
    "count": lambda v=None: len(_numbers(v)),
    "countif": lambda v: sum(map(bool, _numbers(v))),
    "sum": _sum,
    "avg": _mean,
    "bool_and": _only(all),
    "bool_or": _only(any),
    "min": _only(min),
    "max": _only(max),
    "any_value": _only(min),
    "arg_min": _at(min),
    "arg_max": _at(max),
    "mode": _mode,
    "stddev_samp": _spread(statistics.stdev, 2),
    "stddev_pop": _spread(statistics.pstdev, 1),
    "var_samp": _spread(statistics.variance, 2),
    "var_pop": _spread(statistics.pvariance, 1),
    "quantile_cont": _quantile,
    "quantile": _disc,
}
"""Of a person's values in the order of k."""
IN_ORDER: dict[str, Callable[..., Values]] = {
    "first": lambda v: [v[0]],
    "last": lambda v: [v[-1]],
    "row_number": lambda v: [i + 1 for i in range(len(v))],
    "rank": lambda v: [v.index(x) + 1 for x in v],
    "dense_rank": lambda v: [sorted(set(v)).index(x) + 1 for x in v],
    "ntile": lambda v, n: sorted([i % n + 1 for i in range(len(v))]),
    "lag": lambda v, n: [v[i - n] if i >= n else None for i in range(len(v))],
    "lead": lambda v, n: [v[i + n] if i + n < len(v) else None for i in range(len(v))],
    "first_value": lambda v: [v[0]] * len(v),
    "last_value": lambda v: [v[-1]] * len(v),
    "nth_value": lambda v, n: [v[n - 1] if len(v) >= n else None] * len(v),
}
"""Of values in an order, for each of them."""


def test_it_is_said_of_which_a_value_is_chosen_and_which_count() -> None:
    """What bounds and public values of an expression rest on."""
    names = {True: set(), False: set()}  # type: dict[bool, set[str]]
    for function in AGGREGATE_FUNCTIONS:
        if function.chooses or function.counts:
            names[function.counts].add(function.name)
    assert names[True] == {"count", "countif", "rank", "dense_rank", "row_number", "ntile"}
    assert names[False] >= {"min", "max", "first", "last", "lag", "lead", "mode", "arg_max"}
    assert not any(f.chooses and f.counts for f in AGGREGATE_FUNCTIONS)


def test_each_name_has_an_oracle_and_a_line_on_the_page() -> None:
    assert {f.name for f in AGGREGATE_FUNCTIONS} == ORACLES.keys() | IN_ORDER.keys()
    lines = page().splitlines()
    for function in AGGREGATE_FUNCTIONS:
        assert any(function.meaning in line and function.name in line for line in lines)


@pytest.fixture(scope="module")
def plain_rows() -> list[tuple[int, int, Any, Any, Any, Any]]:
    """Rows with a whole number, a decimal of three places, a text and a truth; and NULLs, ties."""
    draw, rows = random.Random(11), []
    for u in range(30):
        for k in range(draw.randint(1, 9)):
            values = (
                draw.randint(-4, 4),
                draw.randint(-4000, 4000) / 1000,
                draw.choice("abc"),
                draw.random() < 0.6,
            )
            rows.append((u, k, *(v if draw.random() < 0.8 else None for v in values)))
    return rows


@functions
def test_it_is_what_is_said(
    function: AggregateFunction, plain_rows: list[tuple[int, int, Any, Any, Any, Any]]
) -> None:
    types = {"i": T.BIGINT, "n": T.DOUBLE, "x": T.TEXT, "b": T.BOOLEAN}
    con = connect()
    con.execute("CREATE TABLE t (u INTEGER, k INTEGER, i BIGINT, n DOUBLE, x VARCHAR, b BOOLEAN)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", plain_rows)
    columns, tried = [column(name, type) for name, type in types.items()], 0
    for arguments in _calls(function, columns):
        others = overloads(function.name)[: overloads(function.name).index(function)]
        if any(f.takes and f.takes[0].allows(arguments[0].type) for f in others):
            continue  # another entry's
        for distinct in (False, True) if function.distinct and arguments else (False,):
            tried += 1
            _check(con, function, arguments, distinct, plain_rows)
    assert tried


def _check(
    con: duckdb.DuckDBPyConnection,
    function: AggregateFunction,
    arguments: list[Term],
    distinct: bool,
    rows: list[tuple[int, int, Any, Any, Any, Any]],
) -> None:
    ordered = function.name in IN_ORDER
    over = (
        ""
        if function.use is not Use.WINDOW
        else (
            "(PARTITION BY u ORDER BY i NULLS FIRST)"
            if "rank" in function.name
            else "(PARTITION BY u ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND "
            "UNBOUNDED FOLLOWING)"
        )
    )
    term = function.apply(arguments, distinct=distinct, order=["k"], over=over)
    every = "u, k" if over else "u"
    group = "" if over else "GROUP BY u "
    found: dict[int, Values] = {}
    for u, *_, value in con.sql(
        f"SELECT {every}, {term.sql} FROM t {group}ORDER BY {every}"
    ).fetchall():
        found.setdefault(u, []).append(value)
    places = {"i": 2, "n": 3, "x": 4, "b": 5}
    for u, values in found.items():
        own = [row for row in rows if row[0] == u]
        given = [a.value if a.constant else [row[places[a.sql]] for row in own] for a in arguments]
        if distinct:
            given = [list(dict.fromkeys(given[0]))]
        if "rank" in function.name:
            given = [sorted((-99 if row[2] is None else row[2]) for row in own)]
        elif not arguments or (len(arguments) == 1 and arguments[0].constant):
            given = [[1] * len(own), *given]
        expected = IN_ORDER[function.name](*given) if ordered else [ORACLES[function.name](*given)]
        if "rank" in function.name:
            values, expected = sorted(values), sorted(expected)
        assert len(values) == len(expected), (u, term.sql)
        firsts = (
            []
            if not arguments or arguments[0].constant
            else [row[places[arguments[0].sql]] for row in own]
        )
        assert not function.chooses or {*values} <= {None, *firsts}
        assert not function.counts or all(v is not None and v >= 0 for v in values)
        for value, right in zip(values, expected, strict=True):
            if isinstance(right, int | float | Fraction) and not isinstance(right, bool):
                assert value == pytest.approx(float(right), rel=1e-12, abs=1e-12), (u, term.sql)
            else:
                assert value == right, (u, term.sql)
