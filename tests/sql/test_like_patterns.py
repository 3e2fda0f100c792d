"""LIKE in linear time means what DuckDB's LIKE means."""

from __future__ import annotations

import itertools

import pytest

from sparseq.base._duckdb.connection import scratch
from sparseq.language import types as T
from sparseq.language.expression_tree import column
from sparseq.sql.like_patterns import like

TEXTS = ["", "a", "ab", "aXb", "a\nb", "a%b", "a_b", "AB", "é", "a.b", "%", "日本"]
PATTERNS = ["", "%", "_", "a%", "%b", "a_b", "_%b", "a%_b", "é", "a.b", "%%", "A_B", "日_"]


@pytest.mark.parametrize(("any_case", "negated"), [*itertools.product((False, True), repeat=2)])
def test_each_pattern_on_each_text(any_case: bool, negated: bool) -> None:
    operator = f"{'NOT ' if negated else ''}{'I' if any_case else ''}LIKE"
    rows = ", ".join(f"('{text}')" for text in TEXTS)
    for pattern in PATTERNS:
        signs = [(sign, sign in "%_") for sign in pattern]
        made = like(column("x", T.TEXT), signs, any_case, negated).sql
        both = f"SELECT {made}, x {operator} '{pattern}' FROM (VALUES {rows}) t(x)"
        with scratch() as connection:
            found = connection.sql(both).fetchall()
        assert [ours for ours, _ in found] == [theirs for _, theirs in found], pattern


def test_an_escaped_wildcard_is_itself() -> None:
    made = like(column("x", T.TEXT), [("a", False), ("%", False), ("_", True)], False, False).sql
    with scratch() as connection:
        found = connection.sql(f"SELECT {made} FROM (VALUES ('a%b'), ('aab')) t(x)").fetchall()
    assert found == [(True,), (False,)]
