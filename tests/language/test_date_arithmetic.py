"""Arithmetic of dates and times: never an error, NULL for amounts that no date has room for."""

from __future__ import annotations

import datetime as dt

import pytest
from language.one_value import Argument, day, moment, number, text, value, whole

from sparseq.language import types as T
from sparseq.language.functions.date_arithmetic import DAYS_DIGITS, FUNCTIONS, INTERVALS

SUMMER = moment("2024-07-01 12:00:00")
INSTANT = T.INSTANT, "TIMESTAMP '2024-07-01 10:00:00'"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("-", (day("2024-03-01"), day("2024-02-28")), 2),
        ("+", (day("2024-02-28"), whole(2)), dt.date(2024, 3, 1)),
        ("+", (day("2024-02-28"), whole(10**DAYS_DIGITS)), None),
        ("+ month", (day("2024-01-31"), whole(1)), dt.datetime(2024, 2, 29)),
        ("- hour", (SUMMER, whole(13)), dt.datetime(2024, 6, 30, 23)),
        ("- day", (SUMMER, moment("2024-06-29 13:00:00")), 1),
        ("- epoch", (SUMMER, moment("2024-07-01 11:59:58.5")), 1.5),
        ("timezone", (SUMMER, text("Europe/Berlin")), dt.datetime(2024, 7, 1, 10)),
        ("timezone", (INSTANT, text("Europe/Berlin")), dt.datetime(2024, 7, 1, 12)),
        ("to_timestamp", (number("0.5"),), dt.datetime(1970, 1, 1, 0, 0, 0, 500_000)),
        ("to_timestamp", (number("inf"),), None),
        ("epoch_ms", (whole(1500),), dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("make_timestamp", (whole(2**62),), None),
    ],
)
def test_values(name: str, arguments: tuple[Argument, ...], expected: object) -> None:
    assert value(name, *arguments) == expected


@pytest.mark.parametrize("unit", INTERVALS)
def test_an_amount_with_too_many_digits_is_null(unit: str) -> None:
    digits, _, days = INTERVALS[unit]
    assert value(f"+ {unit}", SUMMER, whole(10**digits)) is None
    after = [f.gives([T.TIMESTAMP, T.BIGINT]) for f in FUNCTIONS if f.name == f"+ {unit}"]
    assert {type.high for type in after if type is not None} == {T.LAST_DAY + days}
