"""One kind of question, asked 250 times of one store: do intervals hold to the end?

Sessions that mix kinds hide a kind that fails when it is repeated: here each kind has a separate
store, for each population, created by default and planned for 240 answers. Figures are by thirds of
the run.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from benchmarks.truth.asking import by_group
from checks.stores import made_store
from sparseq.base.defaults import ANSWERS
from sparseq.base.errors import QueryRefused

START, DAYS, TOP = dt.date(2024, 1, 1), 365, 200.0
GROUPS = tuple("abcde")
LENGTH = 250
CHANCE = 0.001
"""Of exact 95 % intervals, that more miss than a limit allows."""
STORES: dict[str, int | None] = {"default": None, "planned": 240}
"""Answers that stores are made for; None: `ANSWERS`, by default."""
PARTS = 1, 2, 3
BEGIN, END = "<!-- repeats -->", "<!-- end of repeats -->"


def _frame(rows: np.typing.NDArray[np.int64], seed: int) -> pl.DataFrame:
    g = np.random.default_rng(seed)
    person = np.repeat(np.arange(len(rows)), rows)
    kind = np.where(g.random(len(rows)) < 0.05, "few", "most")
    day = g.integers(0, DAYS, len(person))
    group = np.array(GROUPS)[g.integers(0, 5, len(person))]
    return pl.DataFrame(
        {
            "person": person,
            "kind": kind[person],
            "g": group,
            "day": [START + dt.timedelta(int(d)) for d in day],
            "value": np.minimum(g.gamma(2.0, 15.0, len(person)), TOP),
        }
    )


def one_row(seed: int) -> pl.DataFrame:
    """Return 10,000 people with one row each."""
    return _frame(np.ones(10_000, np.int64), seed)


def few_people(seed: int) -> pl.DataFrame:
    """Return 300 people with some rows."""
    return _frame(np.random.default_rng(seed).geometric(0.25, 300), seed)


def many_people(seed: int) -> pl.DataFrame:
    """Return 12,000 people with some rows each, a few with many."""
    rows = np.ceil(np.random.default_rng(seed).lognormal(0.7, 1.0, 12_000))
    return _frame(np.minimum(rows, 300).astype(np.int64), seed)


POPULATIONS: dict[str, Callable[[int], pl.DataFrame]] = {
    "one": one_row,
    "few": few_people,
    "many": many_people,
}


def _days(first: int, days: int) -> str:
    low = START + dt.timedelta(first)
    return f"day >= DATE '{low}' AND day < DATE '{low + dt.timedelta(days)}'"


def _of(what: str, where: str = "", groups: bool = False) -> str:
    by = ("g, ", " GROUP BY g") if groups else ("", "")
    return f"SELECT {by[0]}{what} AS x FROM events{where and ' WHERE ' + where}{by[1]}"


PEOPLE = "count(DISTINCT person)"
KINDS: dict[str, Callable[[int], str]] = {
    "people": lambda i: _of(PEOPLE),
    "rows": lambda i: _of("count(*)"),
    "sum": lambda i: _of("sum(value)"),
    "average": lambda i: _of("avg(value)"),
    "median": lambda i: _of("median(value)"),
    "rows by group": lambda i: _of("count(*)", groups=True),
    "condition": lambda i: _of(PEOPLE, f"value >= {20 + i % 7}"),
    "the same few": lambda i: _of(PEOPLE, "kind = 'few'"),
    "growing window": lambda i: _of(PEOPLE, f"day <= DATE '{START + dt.timedelta(100 + i)}'"),
    "moving window": lambda i: _of(PEOPLE, _days(i * 7 % 350, 7)),
    "disjoint windows": lambda i: _of(PEOPLE, _days(i, 1)),
    "four in turn": lambda i: KINDS[("people", "condition", "rows", "moving window")[i % 4]](i),
}
"""By name, the i-th question."""


@dataclass(frozen=True)
class Repeated:
    """The outcomes of the questions of one kind, in order.

    Attributes:
        inside: Whether all intervals of the answer hold the truth.
        half: The median half-width of its values.
        refused: Number of questions without an answer.
    """

    inside: list[bool]
    half: list[float]
    refused: int = 0

    def thirds(self) -> list[Repeated]:
        """Return the three parts of the run."""
        cuts = [len(self.inside) * k // 3 for k in range(4)]
        return [
            Repeated(self.inside[a:b], self.half[a:b], self.refused)
            for a, b in itertools.pairwise(cuts)
        ]


def repeated(
    population: str, kind: str, planned: int | None, length: int = LENGTH, seed: int = 1
) -> Repeated:
    """Ask one kind of question again and again, with fresh noise.

    Args:
        population: See `POPULATIONS`.
        kind: See `KINDS`.
        planned: Answers that the store is made for; None: the default.
        length: How many questions.
        seed: Of rows and noise.
    """
    frame = POPULATIONS[population](seed)
    more: dict[str, Any] = {} if planned is None else {"answers": planned}
    con = made_store(
        None,
        frame.to_arrow(),
        table="events",
        user="person",
        time="day",
        seed=seed,
        bounds={"value": (0.0, TOP)},
        keys={"g": list(GROUPS)},
        **more,
    )
    exact = duckdb.connect()
    exact.register("events", frame.to_arrow())
    inside, half, refused = list[bool](), list[float](), 0
    for i in range(length):
        sql = KINDS[kind](i)
        truth = {row[0] if len(row) > 1 else "": row[-1] for row in exact.execute(sql).fetchall()}
        groups = GROUPS if len(truth) > 1 else ("",)
        try:
            _, low, high = by_group(con.sql(sql, fresh=True).rows(), groups)
        except QueryRefused:
            refused += 1
            continue
        true = np.array([truth.get(group, 0) for group in groups], float)
        inside.append(bool(((low <= true) & (true <= high)).all()))
        half.append(float(np.median(high - low)) / 2)
    return Repeated(inside, half, refused)


def most_missed(answers: int, beta: float = 0.05, chance: float = CHANCE) -> int:
    """Return how many of exact intervals miss at most, but for a chance.

    Example:
        >>> most_missed(250), most_missed(83), most_missed(22)
        (24, 11, 5)
    """
    tail, term, k = 1.0, (1 - beta) ** answers, 0
    while (tail := tail - term) > chance:
        term *= (answers - k) / (k + 1) * beta / (1 - beta)
        k += 1
    return k


def figures(
    populations: Sequence[str], kinds: Sequence[str], kept: Path | None, length: int = LENGTH
) -> Iterator[dict[str, Any]]:
    """Yield the share inside of each third of each run, and its median half-width.

    Args:
        populations, kinds: See `POPULATIONS` and `KINDS`.
        kept: A file of JSON lines: runs in it are read, the others are done and added to it.
        length: How many questions.
    """
    known = {} if kept is None else {one["name"]: one for one in read_kept(kept)}
    for population in populations:
        for kind in kinds:
            for title, planned in STORES.items():
                names = [name_of(population, kind, title, part) for part in PARTS]
                if all(name in known for name in names):
                    yield from (known[name] for name in names)
                    continue
                thirds = repeated(population, kind, planned, length).thirds()
                found = [_figure(*one) for one in zip(names, thirds, strict=True)]
                if kept is not None:
                    with kept.open("a") as file:
                        file.writelines(json.dumps(one) + "\n" for one in found)
                yield from found


def read_kept(kept: Path) -> list[dict[str, Any]]:
    """Return the figures that a file has; none if there is no file."""
    if not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text().splitlines()]


def name_of(population: str, kind: str, title: str, part: int) -> str:
    """Return the name of a figure.

    Example:
        >>> name_of("few", "the same few", "planned", 3)
        'truth.repeats.few.the_same_few.planned.3.inside'
    """
    return f"truth.repeats.{population}.{kind.replace(' ', '_')}.{title}.{part}.inside"


def _figure(name: str, some: Repeated) -> dict[str, Any]:
    missed, n = some.inside.count(False), max(len(some.inside), 1)
    most = most_missed(n)
    return {
        "name": name,
        "figure": 1 - missed / n,
        "unit": f"{missed} of {n} miss; ± {statistics.median(some.half):.4g}",
        "limit": f">= {1 - most / n:.3f}",
        "ok": missed <= most and not some.refused,
    }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the runs as a Markdown table: a line for each that has all of its thirds.

    Example:
        >>> some = [{"name": name_of("few", "sum", "default", part), "figure": 0.9625,
        ...          "unit": "3 of 80 miss; ± 21.5"} for part in PARTS]
        >>> print(table(some).splitlines()[-1])
        | sum | few | 60 | 9 of 240 | 96.2 %, 96.2 %, 96.2 % | 21.5, 21.5, 21.5 |
    """
    by_name = {one["name"]: one for one in found}
    lines = [
        "| question | users | store for | misses | inside, by thirds | half-width, by thirds |",
        "|---|---|---:|---:|---|---|",
    ]
    for kind, population, title in itertools.product(KINDS, POPULATIONS, STORES):
        names = [name_of(population, kind, title, part) for part in PARTS]
        if not all(name in by_name for name in names):
            continue
        run = [by_name[name] for name in names]
        counts = [[int(n) for n in one["unit"].split(" miss")[0].split(" of ")] for one in run]
        missed, asked = (sum(some) for some in zip(*counts, strict=True))
        inside = ", ".join(f"{one['figure']:.1%}".replace("%", " %") for one in run)
        half = ", ".join(f"{float(one['unit'].split('± ')[1]):,g}" for one in run)
        store = STORES[title] or ANSWERS
        cells = kind, population, store, f"{missed} of {asked}", inside, half
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def write_table(page: Path, found: Sequence[dict[str, Any]]) -> None:
    """Write the table into a page, between its two marks."""
    text = page.read_text()
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    page.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}")
