"""Parts of dates, the beginnings of their units, and the units between two of them."""

from __future__ import annotations

import datetime as dt

import pytest
from language.one_value import Argument, day, moment, text, value

LEAP, LATE = day("2024-02-29"), moment("2024-12-30 23:59:58")


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("year", (LEAP,), 2024),
        ("doy", (LEAP,), 60),
        ("dow", (day("2024-03-03"),), 0),  # a Sunday
        ("isodow", (day("2024-03-03"),), 7),
        ("week", (LATE,), 1),  # of 2025
        ("isoyear", (LATE,), 2025),
        ("yearweek", (LATE,), 202501),
        ("quarter", (LEAP,), 1),
        ("second", (LATE,), 58),
        ("date_trunc month", (LEAP,), dt.datetime(2024, 2, 1)),
        ("date_trunc week", (LATE,), dt.datetime(2024, 12, 30)),
        ("date_diff year", (day("2023-12-31"), day("2024-01-01")), 1),
        ("date_sub year", (day("2023-12-31"), day("2024-01-01")), 0),
        ("date_diff day", (LEAP, day("2024-03-01")), 1),
        ("epoch", (day("1970-01-02"),), 86400.0),
        ("epoch_ms", (moment("1970-01-01 00:00:01"),), 1000),
        ("age month", (day("2024-03-31"), LEAP), 1),
        ("age day", (day("2024-03-31"), LEAP), 2),
        ("strftime", (LEAP, text("%Y-%m")), "2024-02"),
        ("strptime", (text("29/02/24"), text("%d/%m/%y")), dt.datetime(2024, 2, 29)),
        ("strptime", (text("30/02/24"), text("%d/%m/%y")), None),
    ],
)
def test_values(name: str, arguments: tuple[Argument, ...], expected: object) -> None:
    assert value(name, *arguments) == expected
