"""A log of the questions that dashboards ask over some days."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PEOPLE, ROWS, DAYS, KNOWN_DAYS = 60_000, 300_000, 114, 100
REGIONS, KINDS = ("east", "north", "south", "west"), tuple(f"activity_{k:02d}" for k in range(1, 7))


@dataclass(frozen=True)
class Asked:
    """One question of the log.

    Attributes:
        day: Number of days of rows.
        who: The analyst.
        tile: Its place on a dashboard.
        sql: Its text.
    """

    day: int
    who: int
    tile: str
    sql: str


def log(seed: int) -> list[Asked]:
    """Return the questions of all days, in order."""
    draw = np.random.default_rng([18, seed])
    found = []
    for day in range(KNOWN_DAYS, DAYS + 1):
        found += [Asked(day, *one) for one in _of_a_day(date_of(day), draw)]
    return found


def _of_a_day(today: dt.date, draw: np.random.Generator) -> Iterator[tuple[int, str, str]]:
    """Yield the questions until the next rows come: `today` is the first day without any."""
    month = _span(today - dt.timedelta(28), today)
    for who in draw.permutation(len(REGIONS)).tolist():
        region = f"region = '{REGIONS[who]}'"
        if draw.random() < 0.6:
            for tile, sql in _overview(today):
                yield who, tile, sql
        for _ in range(1 + (draw.random() < 0.3)):
            yield who, "page: by day", _ask("day", "count(*)", f"{month} AND {region}")
            yield who, "page: by kind", _ask("kind", "sum(amount)", f"{month} AND {region}")
            yield who, "page: number", _ask("", "count(*)", f"{month} AND {region}")
        for _ in range(draw.integers(1, 4)):
            yield who, *_drilled(today, REGIONS[who], draw)


def _overview(today: dt.date) -> Iterator[tuple[str, str]]:
    """Yield the tiles that everybody has."""
    days, week = dt.timedelta(28), dt.timedelta(7)
    month, first = _span(today - days, today), today.replace(day=1)
    quarter = (first - dt.timedelta(62)).replace(day=1)
    yield "by day", _ask("day", "count(*)", month)
    yield "by region and kind", _ask("region, kind", "count(*)", month)
    yield "by region", _ask("region", "count(*)", month)
    yield "number", _ask("", "count(*)", month)
    yield "number before", _ask("", "count(*)", _span(today - 2 * days, today - days))
    yield "revenue by kind", _ask("kind", "sum(amount)", month)
    yield "people, a week", _ask("", "count(DISTINCT who)", _span(today - week, today))
    yield "by month", _ask("date_trunc('month', day)", "sum(amount)", _span(quarter, first))
    monday = today - dt.timedelta(today.weekday())
    yield "by week", _ask("date_trunc('week', day)", "count(*)", _span(monday - 4 * week, monday))


def _drilled(today: dt.date, region: str, draw: np.random.Generator) -> tuple[str, str]:
    """Return what somebody asks who clicks on a tile."""
    month = _span(today - dt.timedelta(28), today)
    day = today - dt.timedelta(int(draw.integers(1, 29)))
    kind = KINDS[min(int(draw.geometric(0.4)) - 1, len(KINDS) - 1)]
    monday = today - dt.timedelta(today.weekday() + 7 * int(draw.integers(1, 4)))
    week = _span(monday, monday + dt.timedelta(7))
    first = (today.replace(day=1) - dt.timedelta(1)).replace(day=1)
    choices = (
        ("click: a day", _ask("region", "count(*)", _span(day, day + dt.timedelta(1)))),
        ("click: a kind", _ask("region", "count(*)", f"{month} AND kind = '{kind}'")),
        (
            "click: a cell",
            _ask("", "count(*)", f"{month} AND kind = '{kind}' AND region = '{region}'"),
        ),
        ("click: a region", _ask("kind", "count(*)", f"{month} AND region = '{region}'")),
        ("click: a week", _ask("day", "count(*)", week)),
        ("click: a month", _ask("day", "count(*)", _span(first, today.replace(day=1)))),
        ("zoom: a week", _ask("", "count(*)", week)),
        ("zoom: two regions", _ask("", "count(*)", f"{month} AND region IN ('{region}', 'east')")),
    )
    return choices[int(draw.integers(len(choices)))]


def _ask(keys: str, what: str, where: str) -> str:
    columns = f"{keys}, " if keys else ""
    by = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {columns}{what} AS x FROM events WHERE {where}{by}"


def _span(first: dt.date, after: dt.date) -> str:
    return f"day >= DATE '{first}' AND day < DATE '{after}'"


def date_of(day: int) -> dt.date:
    return dt.date(2024, 1, 1) + dt.timedelta(day)
