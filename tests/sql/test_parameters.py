"""Parameters are tokens, and values are literals: no value becomes SQL."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.series import QueryText
from sparseq.series.ticks import TICK_PARAMETERS
from sparseq.sql.parameters import Value, bound, literal
from sparseq.sql.parameters import given as given_values
from sparseq.sql.parse import Dialect

PLAIN = duckdb.connect()
VALUES = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00")),
    st.integers(-(10**17), 10**17),
    st.booleans(),
    st.floats(-1e12, 1e12, allow_nan=False),
    st.dates(),
)


@given(VALUES)
def test_a_value_is_one_literal_and_means_itself(value: object) -> None:
    sql = f"SELECT {literal(value)} AS x, 1 AS y"  # type: ignore[arg-type]
    (statement,) = sqlglot.parse(sql, dialect=Dialect)
    assert isinstance(statement, exp.Select)
    assert [e.alias for e in statement.expressions] == ["x", "y"]
    ((x, y),) = PLAIN.sql(sql).fetchall()
    assert (float(x) if isinstance(value, float) else x, y) == (value, 1)


def test_only_bare_names_after_a_colon_are_parameters() -> None:
    text = """SELECT x::INT, y[1:2], ':a', ":a", :'a', : a /* :a */ -- :a\n, :b"""
    assert QueryText.of(text).names == ("b",)
    assert QueryText.of(text).with_values({"b": 1}) == text.replace(":b", "1")


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_bound_text_is_the_tokens_of_the_query_with_each_literals_in_its_place(
    values: list[Value],
) -> None:
    def tokens(sql: str) -> list[tuple[object, str]]:
        return [(t.token_type, t.text) for t in sqlglot.tokenize(sql, dialect=Dialect)]

    asked = ", ".join("?" for _ in values)
    literals = [token for v in values for token in (*tokens(literal(v)), *tokens(","))][:-1]
    text = bound(f"SELECT '?', {asked} -- ?", values)
    assert tokens(text) == [*tokens("SELECT '?',"), *literals]


def test_a_hostile_value_stays_text() -> None:
    evil = "x'; DROP TABLE t; --"
    sql = QueryText.of("SELECT count(*) FROM t WHERE c = :c").with_values({"c": evil})
    (where,) = sqlglot.parse_one(sql, dialect=Dialect).find_all(exp.EQ)
    assert where.right.this == evil


def test_a_name_without_a_value_is_said() -> None:
    with pytest.raises(ParameterError, match=":nxt_day") as caught:
        QueryText.of("SELECT :nxt_day").with_values({"next_day": dt.date(2024, 1, 1)})
    assert "next_day" in caught.value.hint
    with pytest.raises(QueryRefused):
        QueryText.of("SELECT 'open")


@pytest.mark.parametrize("pair", ["", "a", "=1", "a b=1", "day=2024-01-01", "next_tick=1"])
def test_params_that_are_none(pair: str) -> None:
    with pytest.raises(ParameterError):
        given_values((pair,), TICK_PARAMETERS)


def test_params() -> None:
    assert given_values(("a=1", "b=", "c=a=b")) == {"a": 1, "b": "", "c": "a=b"}
    with pytest.raises(ParameterError, match="twice"):
        given_values(("a=1", "a=2"))
