"""Regular expressions by RE2."""

from __future__ import annotations

import pytest
from language.one_value import Argument, text, value, whole

from sparseq.language.functions.text_patterns import FUNCTIONS
from sparseq.language.functions.texts import MAX_TEXT


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("regexp_matches", (text("a1"), text("[0-9]")), True),
        ("regexp_full_match", (text("a1"), text("[0-9]")), False),
        ("regexp_extract", (text("k=v"), text("(.)=(.)"), whole(2)), "v"),
        ("regexp_extract", (text("k"), text("(.)=(.)"), whole(1)), ""),
        ("regexp_replace", (text("aa"), text("a"), text("b")), "ba"),
        ("regexp_replace all", (text("aa"), text("a"), text("b")), "bb"),
    ],
)
def test_values(name: str, arguments: tuple[Argument, ...], expected: object) -> None:
    assert value(name, *arguments) == expected


def test_the_expression_is_always_a_constant() -> None:
    """So a bad one is refused before a row is read, and cannot depend on one."""
    assert all(1 in f.fixed for f in FUNCTIONS)


def test_a_replaced_text_is_cut() -> None:
    found = value("regexp_replace all", text("x" * 900), text("x"), text("yy"))
    assert found == "y" * MAX_TEXT
