"""Frames of windows: offsets are constants, and no distance overflows."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from sparseq.base.errors import QueryRefused
from sparseq.language.types import Family
from sparseq.sql.window_frames import MAX_OFFSET, frame, has_offsets, whole


def spec(text: str) -> exp.Expr:
    found = parse_one(f"sum(x) OVER (ORDER BY d {text})", dialect="duckdb").args["spec"]
    assert isinstance(found, exp.Expr)
    return found


@pytest.mark.parametrize(
    ("text", "family", "expected"),
    [
        ("ROWS 3 PRECEDING", None, " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
        (
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
            None,
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
        ),
        (
            "RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW",
            Family.DATE,
            " RANGE BETWEEN INTERVAL '7' DAY PRECEDING AND CURRENT ROW",
        ),
        (
            "RANGE BETWEEN 2.5 PRECEDING AND CURRENT ROW",
            Family.DOUBLE,
            " RANGE BETWEEN 2.5::DOUBLE PRECEDING AND CURRENT ROW",
        ),
        (
            "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
            Family.INTEGER,
            " RANGE BETWEEN 2::HUGEINT PRECEDING AND CURRENT ROW",
        ),
    ],
)
def test_a_frame_as_sql(text: str, family: Family | None, expected: str) -> None:
    assert frame(spec(text), family) == expected
    assert has_offsets(spec(text))


@pytest.mark.parametrize(
    ("text", "family", "message"),
    [
        ("ROWS x PRECEDING", None, "must be a whole number"),
        (f"ROWS {MAX_OFFSET + 1} PRECEDING", None, "too large here"),
        ("RANGE 7 PRECEDING", Family.DATE, "no distance in time"),
        ("RANGE INTERVAL 36501 DAY PRECEDING", Family.DATE, "too large here"),
        ("RANGE 1e16 PRECEDING", Family.DOUBLE, "no distance between numbers"),
    ],
)
def test_a_frame_that_is_refused(text: str, family: Family | None, message: str) -> None:
    with pytest.raises(QueryRefused, match=message):
        frame(spec(text), family)


def test_no_frame() -> None:
    assert frame(None) == ""
    assert not has_offsets(None)
    assert whole(exp.Literal.number("10"), 10) == 10
