"""Functions of text: positions, concatenation and search."""

from __future__ import annotations

import pytest
from language.one_value import Argument, text, value, whole

from sparseq.language.functions.texts import MAX_PLACE, MAX_TEXT


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("upper", (text("née"),), "NÉE"),
        ("trim", (text(" x "),), "x"),
        ("ltrim", (text("xxy"), text("x")), "y"),
        ("length", (text("日本"),), 2),
        ("substring", (text("abcd"), whole(2)), "bcd"),
        ("substring", (text("abcd"), whole(-2), whole(1)), "c"),
        ("left", (text("abcd"), whole(-1)), "abc"),
        ("right", (text("abcd"), whole(2**62)), "abcd"),
        ("||", (text("a"), text("b")), "ab"),
        ("starts_with", (text("100%"), text("1")), True),
        ("contains", (text("a_b"), text("%")), False),
        ("strpos", (text("日本"), text("本")), 2),
        ("strpos", (text("x"), text("y")), 0),
    ],
)
def test_values(name: str, arguments: tuple[Argument, ...], expected: object) -> None:
    assert value(name, *arguments) == expected


def test_a_joined_text_is_cut() -> None:
    long = text("x" * 900)
    assert value("||", long, long) == "x" * MAX_TEXT


def test_a_position_beyond_the_limit_is_the_limit() -> None:
    beyond = text("x"), whole(MAX_PLACE + 1)
    assert value("substring", *beyond) == ""
    assert value("left", *beyond) == "x"
