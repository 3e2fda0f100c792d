"""Text tables line up, and numbers show what their bound allows."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sparseq.base.errors import ParameterError
from sparseq.pictures import tables
from sparseq.pictures.bounded_numbers import (
    digits_for,
    format_bound,
    format_number,
    format_with_bound,
)
from sparseq.pictures.tables import format_table


def test_docstring_examples() -> None:
    assert doctest.testmod(tables).failed == doctest.testmod(tables).failed == 0


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.0, 0, "0"),
        (-0.0, 0, "0"),
        (-0.4, 0, "0"),
        (1234.5, 1, "1,234.5"),
        (-1234567, 0, "-1,234,567"),
        (1_250_049, -2, "1,250,000"),
        (float("nan"), 2, "–"),
        (float("inf"), 2, "∞"),
        (float("-inf"), 2, "-∞"),
    ],
)
def test_format_number(value: float, digits: int, shown: str) -> None:
    assert format_number(value, digits) == shown


@pytest.mark.parametrize(
    ("value", "bound", "shown"),
    [
        (209, 12.348, "209 ± 13"),
        (209.44, 9.96, "209 ± 10"),
        (209.44, 9.86, "209.4 ± 9.9"),
        (0.123456, 0.00042, "0.12346 ± 0.00042"),
        (1_234_567, 4_612, "1,234,600 ± 4,700"),
        (5, 0, "5 ± 0"),
        (float("nan"), 2.5, "– ± 2.5"),
        (5, float("inf"), "5 ± ∞"),
    ],
)
def test_format_with_bound(value: float, bound: float, shown: str) -> None:
    assert format_with_bound(value, bound) == shown


@given(st.floats(1e-9, 1e12))
def test_a_shown_bound_is_a_bound_and_has_two_significant_digits(bound: float) -> None:
    shown = format_bound(bound)
    number = float(shown.replace(",", ""))
    assert number >= bound * (1 - 1e-9)
    assert number <= bound * 1.1 * (1 + 1e-9)
    decimals = len(shown.partition(".")[2])
    assert decimals == max(digits_for(bound), 0)
    assert len(shown.replace(",", "").replace(".", "").strip("0")) <= 2


def test_numbers_line_up_at_the_point_and_the_plus_minus() -> None:
    table = format_table(
        ["day", "buyers"],
        [["Mon", "1,234.5 ± 9.9"], ["Tue", "7 ± 13"], ["Wed", "0.25 ± 0.10"], ["Thu", "–"]],
        ["l", "."],
    )
    lines = table.splitlines()
    assert lines == [
        "day            buyers",
        "─────────────────────",
        "Mon  1,234.5  ±  9.9",
        "Tue      7    ± 13",
        "Wed      0.25 ±  0.10",
        "Thu      –",
    ]
    assert len({line.index("±") for line in lines[2:5]}) == 1


def test_wide_characters_take_two_columns() -> None:
    table = format_table(["name", "n"], [["東京", "1"], ["Rome", "22"]], ["l", "r"])
    assert [cell_len(line) for line in table.splitlines()] == [8, 8, 8, 8]


def test_control_characters_are_escaped() -> None:
    table = format_table(["a"], [["x\x1b[31m\ny"]], ["l"])
    assert table.splitlines()[2] == r"x\x1b[31m\ny"


def test_long_text_is_cut_to_the_width_but_numbers_never_are() -> None:
    table = format_table(["name", "n"], [["a" * 50, "123,456"], ["東" * 30, "7"]], ["l", "."], 20)
    assert max(map(cell_len, table.splitlines())) <= 20
    assert table.count("…") == 2
    assert "123,456" in table
    narrow = format_table(["n"], [["123,456"]], ["."], 3)
    assert "123,456" in narrow


def test_a_table_without_rows_is_its_heading() -> None:
    assert format_table(["a", "b"], [], ["l", "."]) == "a  b\n────"


@pytest.mark.parametrize(
    ("columns", "rows", "align", "message"),
    [
        (["a", "b"], [], ["l"], "2 columns with 1 alignments"),
        (["a"], [], ["x"], "unknown alignment 'x'"),
        (["a"], [["1", "2"]], ["l"], "row 0 has 2 cells for 1 columns"),
        ([], [], [], "0 columns"),
    ],
)
def test_shapes_that_do_not_agree_are_refused(
    columns: list[str], rows: list[list[str]], align: list[str], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        format_table(columns, rows, align)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(st.text(max_size=8), min_size=n, max_size=n), min_size=1)
    )
)
def test_any_text_gives_one_line_a_row(rows: list[list[str]]) -> None:
    n = len(rows[0])
    table = format_table([f"c{k}" for k in range(n)], rows, ["l", "r", ".", "l"][:n])
    assert len(table.split("\n")) == len(rows) + 2


def test_digits_for_a_useless_bound() -> None:
    assert digits_for(math.nan) == digits_for(0) == digits_for(-1) == 0
