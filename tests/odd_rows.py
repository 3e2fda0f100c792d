"""Rows with all that is odd, and random questions about them that follow from each other."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pyarrow as pa

FIRST = dt.date(2024, 1, 1)
AGGREGATES = ("count(*)", "count(*)", "sum(n)", "count(DISTINCT who)")


def rows(draw: random.Random, size: int = 3000) -> pa.Table:
    """Rows with NULL, NaN, ends of ranges and odd texts."""

    def some(values: Any) -> Any:
        return None if draw.random() < 0.08 else values()

    moments = [
        some(lambda: dt.datetime(2024, 1, 1) + dt.timedelta(minutes=draw.randrange(90 * 1440)))
        for _ in range(size)
    ]
    numbers = (0.0, -0.0, 1.0, 1.5, math.nan, math.inf, -math.inf, 2.0, 5e-324)
    return pa.table(
        {
            "who": [draw.randrange(60) for _ in range(size)],
            "kind": [some(lambda: draw.choice(("a", "b", "c", "", "A"))) for _ in range(size)],
            "n": [some(lambda: draw.randrange(-2, 8)) for _ in range(size)],
            "x": [some(lambda: draw.choice(numbers)) for _ in range(size)],
            "ok": [some(lambda: draw.random() < 0.5) for _ in range(size)],
            "day": [some(lambda: FIRST + dt.timedelta(draw.randrange(90))) for _ in range(size)],
            "moment": moments,
        }
    )


def condition(draw: random.Random) -> str:
    date = FIRST + dt.timedelta(draw.choice((0, 7, 31, 45, 60, 90)))
    a, b = sorted(draw.sample(range(-2, 8), 2))
    kinds = ", ".join(f"'{k}'" for k in draw.sample(("a", "b", "c", ""), draw.randrange(1, 4)))
    return draw.choice(
        (
            f"kind IN ({kinds})",
            f"kind NOT IN ({kinds})",
            "kind IS NOT NULL",
            "kind <> 'a'",
            f"n BETWEEN {a} AND {b}",
            f"n > {a} AND n <= {b}",
            f"NOT n = {a}",
            f"n < {a} OR n > {b}",
            f"n IN ({a}, {b})",
            "n IS NULL",
            "ok",
            "NOT ok",
            "x > 1",
            "x <= 1",
            "x = 0",
            "x <> 1.5",
            f"day >= DATE '{date}'",
            f"day < '{date}'",
            f"moment >= TIMESTAMP '{date} 00:00:00'",
            f"moment < TIMESTAMP '{date} 12:00:00'",
            "n % 2 = 1",
            "x IS NULL OR x > 1",
        )
    )


def question(draw: random.Random) -> str:
    keys = {
        "n": "n BETWEEN -2 AND 7",
        "kind": "kind IN ('a', 'b', 'c', '', 'A')",
        "ok": "ok IN (true, false)",
        "day": "day BETWEEN '2024-01-01' AND '2024-03-30'",
        "date_trunc('month', day)": "day BETWEEN '2024-01-01' AND '2024-03-30'",
        "date_trunc('month', moment)": "moment >= '2024-01-01' AND moment < '2024-03-31'",
        "CAST(moment AS DATE)": "moment >= '2024-01-01' AND moment < '2024-03-31'",
        "date_trunc('week', day)": "day BETWEEN '2024-01-01' AND '2024-03-30'",
        "n % 2": "n % 2 IN (0, 1)",
    }
    chosen = draw.sample(sorted(keys), draw.choice((0, 0, 1, 1, 1, 1, 2)))
    where = [keys[k] for k in chosen]
    if not chosen and draw.random() < 0.8:  # what some grouped question covers
        where.append(draw.choice(list(keys.values())))
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
        where.append(condition(draw))
    shown = dict.fromkeys(draw.sample(AGGREGATES, draw.choice((1, 1, 3))))
    columns = [*chosen, *(f"{a} AS m{i}" for i, a in enumerate(shown))]
    text = f"SELECT {', '.join(columns)} FROM t"
    text += f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
    return text + (f" GROUP BY {', '.join(chosen)}" if chosen else "")
