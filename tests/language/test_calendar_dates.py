"""Days of the calendar, and dates made of their parts."""

from __future__ import annotations

import datetime as dt

import pytest
from language.one_value import Argument, day, number, value, whole


def parts(*numbers: int) -> tuple[Argument, ...]:
    return tuple(map(whole, numbers))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("last_day", (day("2024-02-01"),), dt.date(2024, 2, 29)),
        ("dayname", (day("2024-02-29"),), "Thursday"),
        ("monthname", (day("2024-02-29"),), "February"),
        ("isfinite", (day("2024-02-29"),), True),
        ("make_date", parts(2024, 2, 29), dt.date(2024, 2, 29)),
        ("make_date", parts(2023, 2, 29), None),
        ("make_date", parts(10**4, 1, 1), None),
        (
            "make_timestamp",
            (*parts(2024, 2, 29, 23, 59), number("59.5")),
            dt.datetime(2024, 2, 29, 23, 59, 59, 500_000),
        ),
        ("make_timestamp", (*parts(2024, 2, 29, 24, 0), number("0")), None),
        ("make_timestamp", (*parts(2024, 2, 29, 23, 0), number("60")), None),
    ],
)
def test_values(name: str, arguments: tuple[Argument, ...], expected: object) -> None:
    assert value(name, *arguments) == expected
