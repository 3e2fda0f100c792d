"""Ends of expressions hold every value that DuckDB computes from values within columns' ends."""

from __future__ import annotations

import math
from itertools import islice, product

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from checks.total import COLUMNS, Bench, Report, nest, variants, written
from sparseq.language import aggregate_functions
from sparseq.language import types as T
from sparseq.language.ends import ANY, Interval, RowFacts, ends_of, finite, of_rows
from sparseq.language.expression_tree import Term, call, column, constant
from sparseq.language.functions import FUNCTIONS
from sparseq.language.types import Family
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.parse import Dialect

BOUNDS = {"x": (-3.0, 7.0), "y": (0.5, 2.0), "z": (-20.0, -1.0), "born": (-7305.0, 5000.0)}
TYPES = {"born": T.DATE, "t": T.TEXT, "ts": T.TIMESTAMP}
FACTS = RowFacts(lambda term: BOUNDS.get(term.sql), lambda term: term.sql == "sure")
CON = duckdb.connect()


def read(text: str) -> Term:
    """Return an expression over columns of numbers, which may be NULL, but for `sure`."""

    def constant_of(sql: str) -> object:
        ((value,),) = CON.execute(f"SELECT {sql}").fetchall()
        return value

    tree = sqlglot.parse_one(f"SELECT {text}", dialect=Dialect)
    assert isinstance(tree, exp.Select)
    reader = ExpressionReader(lambda c: column(c.name, TYPES.get(c.name, T.DOUBLE)), constant_of)
    return reader.read(tree.expressions[0])


numbers = st.sampled_from(["0", "1", "2.5", "-4", "100", "0.125"])
leaves = numbers | st.sampled_from(["x", "y", "z"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["least", "greatest", "coalesce", "nullif"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(st.sampled_from(["abs", "floor", "ceil", "round", "trunc", "-"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(inner, st.sampled_from(["1", "-1", "2"])).map(lambda t: f"round({t[0]}, {t[1]})"),
        st.tuples(
            inner, st.sampled_from(["INT", "DOUBLE", "DECIMAL(18, 1)", "BOOLEAN)::INT + (0"])
        ).map(lambda t: f"(({t[0]})::{t[1]})"),
        two.map(lambda t: f"CASE WHEN {t[0]} > 1 THEN {t[0]} ELSE {t[1]} END"),
        two.map(lambda t: f"if({t[0]} > {t[1]}, {t[0]}, 1)"),
        two.map(lambda t: f"({t[0]} > {t[1]})::INT"),
    )


expressions = st.recursive(leaves, _grown, max_leaves=6)
values = st.fixed_dictionaries(
    {
        name: st.none() | st.floats(*BOUNDS[name]) | st.sampled_from(BOUNDS[name])
        for name in ("x", "y", "z")
    }
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(expressions, st.lists(values, min_size=1, max_size=4))
def test_ends_hold_every_value(text: str, rows: list[dict[str, float | None]]) -> None:
    term = read(text)
    low, high = ends_of(term, FACTS)
    slack = 1e-9 * max([abs(end) for end in (low, high) if math.isfinite(end)] + [1])
    for row in rows:
        columns = ", ".join("$" + f"{n}::DOUBLE AS {n}" for n in row)
        sql = f"SELECT CAST(({term.sql}) AS DOUBLE) FROM (SELECT {columns})"
        ((value,),) = CON.execute(sql, row).fetchall()
        assert value is None or not math.isfinite(value) or low - slack <= value <= high + slack


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", (-3, 7)),
        ("x * z", (-140, 60)),
        ("z / y", (-40, -0.5)),
        ("y / x", None),
        ("least(greatest(unknown, 0), 100)", (0, 100)),
        ("greatest(least(unknown, 100), 0)", (0, 100)),
        ("least(unknown, x)", None),
        ("least(greatest(unknown, 0), NULL)", None),
        ("least(greatest(unknown, 0), CASE WHEN t = 'a' THEN 5 END)", None),
        ("unknown", None),
        ("1e999", None),
        ("t", None),
        ("round(x, -1)", (0, 10)),
        ("CAST(2.7 AS INT)", (3, 3)),
        ("CAST(y AS INT)", (0, 2)),
        ("CAST(x AS VARCHAR)", None),
        ("CASE WHEN t = 'a' THEN 3 END", (3, 3)),
        ("CASE WHEN sure IS NULL THEN 1000 ELSE y END", (0.5, 2)),
        ("CASE WHEN x IS NULL THEN 1000 ELSE y END", (0.5, 1000)),
        ("nullif(x, 2)", (-3, 7)),
        ("unknown > 3", (0, 1)),
        ("x % 5", (-3.0, math.nextafter(5.0, 0.0))),
        ("sqrt(y)", (0.5**0.5, 2**0.5)),
        ("least(unknown, sure)", None),
        ("least(greatest(unknown, sure), 5)", None),
        ("year(born)", (1950, 1983)),
        ("date_diff('day', DATE '1970-01-01', born)", (-7305, 5000)),
        ("date_diff('hour', DATE '1970-01-01', born)", None),
        ("born - DATE '1970-01-02'", (-7306, 4999)),
        ("hour(ts)", (0, 23)),
        ("year(ts)", None),
        ("length(t)", None),
        ("least(length(t) - length(replace(t, 'a', '')), 9)", (0, 9)),
        ("least(length(t) - length(replace(t, 'a', 'bb')), 9)", None),
    ],
)
def test_ends(text: str, expected: tuple[float, float] | None) -> None:
    found = finite(ends_of(read(text), FACTS))
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_part_that_is_never_null_limits_the_least() -> None:
    facts = RowFacts(lambda term: BOUNDS.get(term.sql), lambda term: term.sql == "x")
    assert ends_of(read("least(unknown, x)"), facts) == (-math.inf, 7)
    assert ends_of(read("least(unknown, x)"), FACTS) == ANY


@pytest.mark.parametrize(
    ("name", "of", "expected"),
    [
        ("min", ["x"], (-3, 7)),
        ("avg", ["y"], (0.5, 2)),
        ("lag", ["x", 1], (-3, 7)),
        ("sum", ["y"], (0, math.inf)),
        ("sum", ["x"], ANY),
        ("sum", ["z"], (-math.inf, 0)),
        ("count", [], (0, math.inf)),
        ("row_number", [], (0, math.inf)),
        ("ntile", [4], (1, 4)),
        ("var_samp", ["y"], ANY),
        ("bool_or", ["b"], (0, 1)),
    ],
)
def test_ends_of_aggregates(name: str, of: list[str | int], expected: Interval) -> None:
    arguments = [
        constant(one, T.BIGINT) if isinstance(one, int) else column(one, T.DOUBLE) for one in of
    ]
    entry = [f for f in aggregate_functions.overloads(name) if len(f.takes) == len(of)][-1]
    assert ends_of(entry.apply(arguments), FACTS) == expected


def test_ends_of_sums_of_a_number_of_rows() -> None:
    total, number = (aggregate_functions.overloads(name)[-1] for name in ("sum", "count"))
    x = column("x", T.DOUBLE)
    assert of_rows(total.apply([x]), 5, FACTS) == (-15, 35)
    assert of_rows(number.apply([x], distinct=True), 5, FACTS) == (0, 5)
    assert of_rows(x, 5, FACTS) is None


def test_the_first_time_is_not_after_the_last() -> None:
    least, greatest = (aggregate_functions.overloads(name)[0] for name in ("min", "max"))
    born = column("born", T.DATE)
    first, last = (
        Term(T.DATE, name, stands_for=entry.apply([born]))
        for name, entry in (("_step0", least), ("_step1", greatest))
    )
    days = "date_diff('day', {0}, {1})"
    known = call("date_diff day", days, T.integer(-(10**9), 10**9), first, last)
    assert ends_of(known, FACTS) == (0, 12305)
    assert ends_of(call("date_diff day", days, known.type, last, first), FACTS) == (-12305, 12305)


def beyond(con: duckdb.DuckDBPyConnection, term: Term) -> str | None:
    """Say which value of a term lies beyond its ends, if its columns lie within theirs."""
    names = [c.name for c in COLUMNS if f'"{c.name}"' in term.sql]
    known = {f'"{name}"': _ends_of_rows(con, name) for name in names}
    type = term.type
    if not (type.is_number or type.is_time):
        return None
    low, high = ends_of(term, RowFacts(lambda part: known.get(part.sql)))
    if (low, high) == ANY:
        return None
    shown = _days(f"({term.sql})") if type.is_time else f"({term.sql})"
    where = " AND ".join(f"isfinite(CAST({c} AS DOUBLE))" for c in known if _is_number(c))
    for (value,) in con.sql(f"SELECT {shown} FROM t WHERE {where or 'true'}").fetchall():
        number = _number(value)
        slack = 1e-9 * max(abs(end) for end in (low, high, 1) if math.isfinite(end))
        if number is not None and not low - slack <= number <= high + slack:
            return f"{value} is not in {low} to {high}"
    return ""


def _is_number(name: str) -> bool:
    return next(c.type.is_number for c in COLUMNS if f'"{c.name}"' == name)


def _ends_of_rows(con: duckdb.DuckDBPyConnection, name: str) -> Interval | None:
    type = next(c.type for c in COLUMNS if c.name == name)
    if not (type.is_number or type.is_time or type.family is Family.BOOLEAN):
        return None
    if type.is_number:
        value, where = f"CAST({name} AS DOUBLE)", f"isfinite(CAST({name} AS DOUBLE))"
    else:
        value, where = (_days(name) if type.is_time else name), f"{name} IS NOT NULL"
    (ends,) = con.sql(f"SELECT min({value}), max({value}) FROM t WHERE {where}").fetchall()
    low, high = map(_number, ends)
    return None if low is None or high is None else (low, high)


def _days(time: str) -> str:
    return f"date_diff('day', DATE '1970-01-01', CAST({time} AS DATE))"


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@pytest.mark.parametrize(
    ("number", "rows"), [(1, 60), pytest.param(4, 600, marks=pytest.mark.deep)]
)
def test_values_of_every_function_lie_within_its_ends(number: int, rows: int) -> None:
    """Of columns of other types, and of rows of extreme values."""
    bench = Bench(Report(), beyond)
    for f in FUNCTIONS:
        for columns in islice(variants(f), number):
            distinct = list(dict.fromkeys(columns))
            every = product(*(c.values[::-1] for c in distinct))
            bench.fill(distinct, list(islice(every, rows)))
            texts = written(f, columns)
            bench.judge(f.name, [t for text in texts if (t := bench.read(text)) is not None])
    assert bench.report.failures == []
    assert bench.report.judged > 100


@pytest.mark.parametrize("terms", [150, pytest.param(1000, marks=pytest.mark.deep)])
def test_values_of_nested_terms_lie_within_their_ends(terms: int) -> None:
    report = Report()
    nest(Bench(report, beyond), terms, seed=7)
    assert report.failures == []
    assert report.judged > terms // 10


def test_ends_that_are_too_narrow_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check has power: years without their last one fail it."""
    monkeypatch.setattr("sparseq.language.ends._years", lambda days: (1970.0, 1970.0))
    bench = Bench(Report(), beyond)
    days = next(c for c in COLUMNS if c.name == "d1")
    bench.fill([days], [[value] for value in days.values])
    bench.judge("year", [term for text in ["year(d1)"] if (term := bench.read(text)) is not None])
    assert bench.report.failures
