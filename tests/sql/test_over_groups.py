"""Random questions over groups are answered as DuckDB answers them, or a note says what is not.

The rows have groups that nobody is in, a NULL key, a key that is not declared, and days and numbers
without rows: what an answer lists beside SQL's groups must not change a value over groups silently.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from differential import Kind, Outcome, Pair

from benchmarks.written.check import lowered, measured, unnoised
from sparseq.question.plan import Options, calibrate
from sparseq.released.group_notes import group_notes

ROWS, PEOPLE = 3_000, 300
KEYS = {
    "kind": "kind",
    "plan": "plan",
    "size": "size",
    "month": "date_trunc('month', day)",
    "day": "day",
    "big": "size > 2",
    "odd": "size % 2",
    "shop": "shops.name",
}
WHERES = (
    "true",
    "true",
    "kind <> 'c'",
    "plan IS NOT NULL",
    "day < '2025-02-01'",
    "size >= 2",
    "kind = 'a' OR size = 3",
)
VALUES = {
    "n": "count(*)",
    "people": "count(DISTINCT who)",
    "s": "sum(amount)",
    "a": "avg(amount)",
    "high": "count(*) FILTER (WHERE amount > 50)",
    "known": "count(plan)",
}
OVER = (
    "SELECT {f}({v}) AS v FROM g",
    "SELECT avg({v}) AS v, count({v}) AS c FROM g WHERE {v} > {x}",
    "SELECT count(*) AS v FROM g",
    "SELECT count(*) AS v FROM g WHERE n > 0",
    "SELECT {k}, {v} FROM g WHERE n > {x}",
    "SELECT {k}, {v} FROM g ORDER BY {v} DESC NULLS LAST, {k} LIMIT 2",
    "SELECT {k}, {v}, rank() OVER (ORDER BY {v} DESC NULLS LAST) AS r FROM g",
    "SELECT {k}, {v}, row_number() OVER (ORDER BY {k}) AS r FROM g",
    "SELECT {k}, {v}, dense_rank() OVER (ORDER BY {k} DESC) AS r FROM g",
    "SELECT {k}, {v}, lag({v}) OVER (ORDER BY {k}) AS before FROM g",
    "SELECT {k}, {v} * 1.0 / sum({v}) OVER () AS share FROM g",
    "SELECT {k}, sum({v}) OVER (ORDER BY {k}) AS total FROM g",
    "SELECT {k}, {v} - avg({v}) OVER () AS off FROM g",
    "SELECT first_value({k}) OVER (ORDER BY {k}) AS first, {k}, {v} FROM g",
    "SELECT {k}, {v}, ntile(2) OVER (ORDER BY {k}) AS half FROM g",
    "SELECT {k}, {v} FROM g QUALIFY row_number() OVER (ORDER BY {v} DESC NULLS LAST, {k}) = 1",
    "SELECT {k}, {v} FROM g WHERE {v} > (SELECT avg({v}) FROM g)",
    "SELECT max({k}) AS last, min({k}) AS first FROM g",
    "SELECT count(DISTINCT {k}) AS keys FROM g",
    "SELECT CASE WHEN n > {x} THEN 'many' ELSE 'few' END AS c, count(*) AS v FROM g GROUP BY 1",
)
OVER_TWO = (
    "SELECT {k}, {f}({v}) AS v FROM g GROUP BY {k}",
    "SELECT {k}, {l}, rank() OVER (PARTITION BY {k} ORDER BY {v} DESC NULLS LAST, {l}) AS r FROM g",
    "SELECT {k}, {l}, {v} * 1.0 / sum({v}) OVER (PARTITION BY {k}) AS share FROM g",
    "SELECT {k}, count(*) AS c FROM g GROUP BY {k}",
    "SELECT DISTINCT {k} FROM g",
    "SELECT {k}, {l}, dense_rank() OVER (ORDER BY {l}) AS r, {v} FROM g",
    "SELECT {k}, {l}, {v}, min({v}) OVER (PARTITION BY {l}) AS least FROM g",
)


def rows() -> pa.Table:
    rng = np.random.default_rng(4)
    days = [dt.date(2025, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 59, ROWS)]
    size = rng.choice([1, 2, 3, 5], ROWS)
    return pa.table(
        {
            "who": rng.integers(0, PEOPLE, ROWS),
            "kind": rng.choice(["a", "b", "c"], ROWS),
            "plan": [(None, "free", "paid")[i] for i in rng.choice(3, ROWS, p=[0.1, 0.5, 0.4])],
            "size": size,
            "day": [d if d.day % 7 else dt.date(2025, 1, 1) for d in days],
            "amount": rng.integers(0, 100, ROWS).astype(float),
            "shop_id": rng.choice([1, 2], ROWS),
        }
    )


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Nobody is of the kind "d", the size 4, the shop 3, or of every seventh day."""
    table = rows()
    shops = pa.table({"shop_id": [1, 2, 3], "name": ["North", "South", "Closed"]})
    types = dict.fromkeys(("kind", "size", "day", "amount", "t.shop_id"), "NOT NULL")
    with Pair(
        {"t": table},
        public={"shops": shops},
        keys={"kind": ["a", "b", "c", "d"], "plan": ["free", "paid"]},
        bounds={"size": (1, 5), "day": ("2025-01-01", "2025-02-28"), "amount": (0, 100)},
        types=types,
    ) as made:
        yield made


@dataclass(frozen=True)
class Asked:
    """A question over the groups of another.

    Attributes:
        inner: The question by groups, without HAVING.
        keys, values: The names of its columns.
        having: Its HAVING.
        outer: The SELECT over the groups g.
    """

    inner: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    having: str
    outer: str

    @property
    def sql(self) -> str:
        """The question."""
        return f"WITH g AS ({self.inner}{self.having}) {self.outer}"

    @property
    def over_listed(self) -> str:
        """The same over the groups of the table `listed`: no rows in those that SQL has not."""
        same = " AND ".join(f"i.{k} IS NOT DISTINCT FROM listed.{k}" for k in self.keys)
        shown = [f"listed.{k}" for k in self.keys]
        shown += [v if v == "a" else f"coalesce({v}, 0) AS {v}" for v in self.values]
        where = self.having.replace(" HAVING count(*)", " WHERE n")
        rows = f"(SELECT {', '.join(shown)} FROM listed LEFT JOIN ({self.inner}) AS i ON {same})"
        return f"WITH g AS (SELECT * FROM {rows}{where}) {self.outer}"


def question(rng: random.Random) -> Asked:
    """Return a random question."""
    keys = rng.sample(sorted(KEYS), rng.choice([1, 1, 2]))
    value = rng.choice(sorted(VALUES))
    values = tuple(dict.fromkeys(["n", value, *rng.sample(sorted(VALUES), 1)]))
    shown = [f"{KEYS[k]} AS {k}" for k in keys] + [f"{VALUES[v]} AS {v}" for v in values]
    origin = "t JOIN shops USING (shop_id)" if "shop" in keys else "t"
    by = ", ".join(str(i + 1) for i in range(len(keys)))
    inner = f"SELECT {', '.join(shown)} FROM {origin} WHERE {rng.choice(WHERES)} GROUP BY {by}"
    having = f" HAVING count(*) > {rng.choice([0, 200])}" if rng.random() < 0.1 else ""
    outer = rng.choice(OVER if len(keys) == 1 else OVER_TWO).format(
        k=keys[0],
        l=keys[-1],
        v=value,
        x=rng.choice([0, 40, 600]),
        f=rng.choice(["avg", "sum", "min", "max"]),
    )
    return Asked(inner, tuple(keys), values, having, outer)


def ask(pair: Pair, asked: Asked) -> Outcome:
    """Ask both; groups without rows may take part in a result over groups, if a note says so."""
    outcome = pair.ask(asked.sql)
    if outcome.agrees:
        return outcome
    query = lowered(pair.store, asked.sql)
    plan = calibrate(query, pair.store.guarantee, Options())
    notes = group_notes(plan, measured(pair.store, plan))
    said = next((note for note in notes if "results over groups include them" in note), "")
    if not said:
        return outcome
    inner = unnoised(pair.store, lowered(pair.store, asked.inner), Options())
    pair.plain.register("listed", inner.select(asked.keys))
    other = pair.ask(asked.sql, asked.over_listed)
    return Outcome(Kind.NOTED, said) if other.agrees else other


@pytest.mark.parametrize(
    ("seed", "number"), [(1, 60), pytest.param(2, 600, marks=pytest.mark.deep)]
)
def test_questions_over_groups_are_answered_as_by_duckdb(
    pair: Pair, seed: int, number: int
) -> None:
    rng, kinds, different = random.Random(seed), Counter[Kind](), list[str]()
    for _ in range(number):
        asked = question(rng)
        outcome = ask(pair, asked)
        kinds[outcome.kind] += 1
        if not outcome.agrees:
            different.append(f"{asked.sql}: {outcome.said}")
    assert different == []
    assert kinds[Kind.EQUAL] > number // 3 < number * 2 // 3 < kinds.total() - kinds[Kind.REFUSED]
    assert kinds[Kind.NOTED] > number // 10
    assert kinds[Kind.UNDEFINED] == 0


def test_a_group_without_rows_in_a_result_over_groups_is_said(pair: Pair) -> None:
    sql = "SELECT avg(n) AS v FROM (SELECT kind, count(*) AS n FROM t GROUP BY kind)"
    answer = pair.store.sql(sql)
    said = "kind: 1 of 4 groups may have no rows, as their counts are not above the noise"
    assert any(note.startswith(said) for note in answer.facts.notes)
    plain = pair.store.sql("SELECT kind, n FROM (SELECT kind, count(*) AS n FROM t GROUP BY kind)")
    assert not any("may have no rows" in note for note in plain.facts.notes)
