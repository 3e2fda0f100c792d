"""A small shop, day by day: 12 days, 40 customers, seeded."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparseq
from checks.stores import made_store
from sparseq.series import QuerySeries, QueryText, Ticks

FIRST = dt.date(2024, 1, 1)
DAYS = [FIRST + dt.timedelta(days=k) for k in range(12)]
BUYERS = "SELECT count(DISTINCT who) AS buyers FROM shop WHERE day >= :day AND day < :next_day"
KINDS = (
    "SELECT kind, count(*) AS n, sum(least(greatest(amount, 0), 50)) AS money FROM shop "
    "WHERE day = :day AND kind IN ('a', 'b') GROUP BY kind"
)
QUERIES = {"buyers": BUYERS, "kinds": KINDS}


def sales(day: dt.date) -> pa.Table:
    """What was sold on a day."""
    draw = random.Random(day.toordinal())
    n = 5 + draw.randrange(20)
    return pa.table(
        {
            "who": [draw.randrange(40) for _ in range(n)],
            "day": [day] * n,
            "kind": [draw.choice("abc") for _ in range(n)],
            "amount": [round(draw.uniform(0, 60), 2) for _ in range(n)],
        }
    )


def ticks(last: dt.date = DAYS[-1]) -> Ticks:
    at = dt.time()
    return Ticks(dt.datetime.combine(FIRST, at), "1d", dt.datetime.combine(last, at))


def make(
    path: Path | None, days: list[dt.date] = DAYS, in_or_out: bool = False, **more: Any
) -> sparseq.Store:
    """A seeded store of these days' sales."""
    rows = pa.concat_tables([sales(DAYS[0]).slice(0, 0), *map(sales, days)])
    more = {"norm_budget": 6, "seed": 5, **more}
    return made_store(path, rows, table="shop", user="who", in_or_out=in_or_out, **more)


def sources(con: sparseq.Store, over: Ticks | None = None) -> list[QuerySeries]:
    return [
        QuerySeries(con, name, QueryText.of(sql), over or ticks()) for name, sql in QUERIES.items()
    ]


def spends(con: sparseq.Store) -> list[list[int]]:
    """What everybody has spent, pot by pot."""
    return [accounts.spent.tolist() for _, accounts in con.stream.pots.items()]
