"""Lengths of time mean what they say, in each of the ways in which they are written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest
from differential import Kind, Pair

ROWS = 60
MOMENTS = [dt.datetime(2025, 3, 1) + dt.timedelta(hours=17 * i) for i in range(ROWS)]
T = pa.table({"who": range(ROWS), "ts": MOMENTS, "day": [m.date() for m in MOMENTS]})
LAST = "TIMESTAMP '2025-03-31'"
CONDITIONS = (
    f"ts >= {LAST} - INTERVAL '7 days'",
    f"ts >= {LAST} - '7 days'::interval",
    f"ts >= {LAST} - CAST('7 days' AS INTERVAL)",
    f"ts >= {LAST} + (INTERVAL '-7 day')",
    f"ts >= {LAST} + INTERVAL '-7 day'",
    f"ts >= {LAST} - (INTERVAL '7 day')",
    f"ts >= {LAST} - INTERVAL '1 day' * 7",
    f"ts >= {LAST} - 7 * INTERVAL '1 day'",
    f"ts >= {LAST} - (7 * INTERVAL '1 day')",
    f"ts >= {LAST} - (7 || ' days')::interval",
    f"ts >= {LAST} - INTERVAL '1 week 2 days'",
    f"ts >= {LAST} - INTERVAL '7 days 00:00:00'",
    f"ts >= {LAST} - INTERVAL '168:00:00'",
    f"ts >= {LAST} - to_days(7)",
    "ts >= CAST((CAST(now() AS timestamp) + (INTERVAL '-30 day')) AS date)",
    "ts >= CAST((NOW() + (INTERVAL '-30 day')) AS date)",
    "ts >= NOW() + INTERVAL '-30 day'",
    "ts >= DATE_TRUNC('month', NOW() + INTERVAL '-1 month')",
    "ts >= DATE_TRUNC('month', (NOW() + (INTERVAL '-1 month')))",
    "ts - day::timestamp > INTERVAL '12 hours'",
    "ts - day::timestamp > '12 hours'::interval",
    "(ts - day::timestamp) > '12:00:00'",
    "ts - day::timestamp BETWEEN INTERVAL '6 hours' AND INTERVAL '12 hours'",
    # a text of which its first number and unit are not all
    f"ts >= {LAST} - INTERVAL '7 days 12:00:00'",
    f"ts >= {LAST} + INTERVAL '7 days ago'",
    f"ts >= {LAST} - INTERVAL '1 day -6 hours'",
    f"ts >= {LAST} - INTERVAL '1.5 hours'",
    f"ts >= {LAST} - INTERVAL '1 month 1 day'",
    f"ts - {LAST} > INTERVAL '-1 month'",
    f"INTERVAL '1 day 02:00:00' < ts - {LAST}",
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair({"events": T}) as made:
        yield made


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_length_is_duckdbs(pair: Pair, condition: str) -> None:
    outcome = pair.ask(f"SELECT count(*) AS n FROM events WHERE {condition}")
    assert outcome.kind is Kind.EQUAL, outcome


@pytest.mark.parametrize(
    ("length", "same"),
    [
        ("INTERVAL 'P7D'", "INTERVAL '7 days'"),
        ("INTERVAL 'P1DT12H'", "INTERVAL '36 hours'"),
        ("make_interval(days => 7)", "INTERVAL '7 days'"),
        ("make_interval(months => 1, hours => 5)", "INTERVAL '1 month 5 hours'"),
    ],
)
def test_a_length_of_postgresql_is_answered(pair: Pair, length: str, same: str) -> None:
    sql = f"SELECT count(*) AS n FROM events WHERE ts >= {LAST} - {{}}"
    assert pair.ask(sql.format(length), sql.format(same)).kind is Kind.EQUAL


@pytest.mark.parametrize(
    "text", ["7 days 12", "a while", "1.5 months", "0.5 seconds", "7 parsecs", "2 days, 5 hours"]
)
def test_a_text_that_is_not_read_whole_is_refused(pair: Pair, text: str) -> None:
    sql = f"SELECT count(*) AS n FROM events WHERE ts >= {LAST} - INTERVAL '{text}'"
    assert pair.ask(sql).kind is Kind.REFUSED
