"""Random questions and rows for a judged life."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from checks.judge.book import DAYS, Row


def question(draw: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """Return a question, and its measures as plain DuckDB counts them, person by person."""
    day, low = draw.choice(DAYS), draw.randrange(1, 6)
    where = draw.choice([f"day <= {day}", f"x > {low}", f"day = {day} AND x < {low + 1}"])
    of = f"FROM t WHERE {where}"
    kind = draw.randrange(5)
    if kind == 0:
        return f"SELECT count(*) AS n {of}", [part("n", "count(*)", of)]
    if kind == 1:
        return f"SELECT sum(x) AS s {of}", [part("s", "sum(x)", of)]
    if kind == 2:
        return f"SELECT count(DISTINCT who) AS p {of}", [part("p", "1", of)]
    if kind == 3:
        both = [part("s", "sum(x)", of), part("n", "count(*)", of)]
        return f"SELECT sum(x) AS s, count(*) AS n {of}", both
    asked = f"SELECT day, sum(x) AS s {of} GROUP BY day"
    return asked, [part("s", "sum(x)", of, "day")]


def part(column: str, value: str, of: str, *keys: str) -> dict[str, Any]:
    """Return a measure: see `check.Part`."""
    by = ", ".join(("who", *keys))
    return {
        "column": column,
        "keys": keys,
        "each": f"SELECT {by}, {value} {of} GROUP BY {by}",
    }


def some_rows(draw: random.Random, people: Sequence[int], number: int) -> list[Row]:
    """Return rows whose values are multiples of 1/1024, so that their sums are exact."""
    return [
        (draw.choice(people), draw.choice(DAYS), draw.randrange(1, 7 * 1024) / 1024)
        for _ in range(number)
    ]
