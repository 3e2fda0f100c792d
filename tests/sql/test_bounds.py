"""Intervals of expressions hold every value that DuckDB computes from values within the bounds."""

from __future__ import annotations

import math

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseq.sql.bounds import interval

BOUNDS = {"x": (-3.0, 7.0), "y": (0.5, 2.0), "z": (-20.0, -1.0)}
numbers = st.sampled_from(["0", "1", "2.5", "-4", "100", "0.125"])
leaves = numbers | st.sampled_from(list(BOUNDS))


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["least", "greatest", "coalesce"]), inner, inner).map(
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
        name: st.none() | st.floats(*bounds) | st.sampled_from(bounds)
        for name, bounds in BOUNDS.items()
    }
)
CON = duckdb.connect()


@settings(derandomize=True, max_examples=200, deadline=None)
@given(expressions, st.lists(values, min_size=1, max_size=4))
def test_interval_holds_every_value(text: str, rows: list[dict[str, float | None]]) -> None:
    found = interval(sqlglot.parse_one(text, dialect="duckdb"), lambda c: BOUNDS.get(c.name))
    if found is None:
        return
    low, high = found
    slack = 1e-9 * max(abs(low), abs(high), 1)
    for row in rows:
        columns = ", ".join("$" + f"{n}::DOUBLE AS {n}" for n in row)
        sql = f"SELECT TRY(CAST(({text}) AS DOUBLE)) FROM (SELECT {columns})"
        ((value,),) = CON.execute(sql, row).fetchall()
        assert value is None or low - slack <= value <= high + slack


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
        ("least(greatest(unknown, 0), CASE WHEN false THEN 5 END)", None),
        ("unknown", None),
        ("1e999", None),
        ("'abc'", None),
        ("round(x, -1)", (0, 10)),
        ("round(x, unknown)", None),
        ("CAST(2.7 AS INT)", (2, 3)),
        ("CASE WHEN unknown THEN 3 END", (3, 3)),
        ("unknown > 3", (0, 1)),
        ("lag(x) OVER ()", (-3, 7)),
        ("lag(x, 1, 99) OVER ()", None),
        ("row_number() OVER ()", None),
        ("sum(y)", None),
        ("least(sum(y), 10)", (0, 10)),
        ("x % 5", (-3.0, math.nextafter(5.0, 0.0))),
        ("sqrt(y)", (0.5**0.5, 2**0.5)),
    ],
)
def test_interval(text: str, expected: tuple[float, float] | None) -> None:
    tree = sqlglot.parse_one(text, dialect="duckdb")
    found = interval(tree, lambda c: BOUNDS.get(c.name))
    assert found == (None if expected is None else pytest.approx(expected))
    assert found is None or all(map(math.isfinite, found))
