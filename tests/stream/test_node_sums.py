"""Charges of a dashboard's nodes, held against Algorithms 2 and 3 in exact fractions.

Random lives: rows of a few people, a part of the budget, mornings with other panels, late rows and
erasures. Pilots, sums and accounts equal the reference's to the last unit, given what is public.
Nobody is overdrawn, or has less left than the part's course says in public.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from algorithm2 import UNITS, Announced, Rungs, Vector, Weighted, joint_norms, on_lattice

import sparseq
import sparseq.stream.released_parts
import sparseq.stream.step
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.accounting.pilots.pooled_pilots import Pool
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.node_log import NodeRecord, read_nodes
from sparseq.dashboards.refresh import morning_cost, refresh
from sparseq.ledger.pots import Pot
from sparseq.store import curator
from sparseq.stream.node_sums import NodeSums
from sparseq.stream.step import Stream

FIRST = dt.date(2024, 3, 4)
KINDS = ("a", "b")
TOP = 50.0
ANNOUNCED: list[tuple[Any, int]] = []
"""What was planned at each release, and the mornings before it: public."""
PANELS = (
    "SELECT count(*) AS n FROM t WHERE day = :yesterday",
    "SELECT kind, count(*) AS n FROM t WHERE day >= :today - 3 AND day < :today GROUP BY kind",
    "SELECT sum(v) AS s, count(*) AS n FROM t WHERE day >= :week - 7 AND day < :week",
    "SELECT sum(v) / count(*) AS mean FROM t WHERE day >= :today - 2 AND day < :today",
    "SELECT kind, sum(v) AS s FROM t WHERE day >= :today - 9 AND day < :today GROUP BY kind",
)


@dataclass(frozen=True)
class Row:
    who: int
    day: dt.date
    kind: str | None
    v: float


def some_rows(draw: random.Random, since: int, until: int) -> list[Row]:
    """Rows of a few people, one of whom has most of them."""
    return [
        Row(
            draw.choice([0, 1, 2, 3, *[7] * 6]),
            FIRST + dt.timedelta(draw.randrange(since, until)),
            draw.choice([*KINDS, "else", None]),
            draw.choice([0.0, draw.uniform(0, TOP), TOP]),
        )
        for _ in range(draw.choice([3, 20, 60]))
    ]


def arrow(rows: list[Row]) -> pa.Table:
    schema = pa.schema(
        [("who", pa.int64()), ("day", pa.date32()), ("kind", pa.string()), ("v", pa.float64())]
    )
    return pa.Table.from_pylist([vars(r) for r in rows], schema)


class Life:
    """A store with a dashboard, and the reference of its part."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.rows = some_rows(draw, -20, 12)
        counts = draw.choice([0.5, 3.0, 11.0, 48.0])
        part = sparseq.Purpose("board", draw.choice([0.3, 0.9]), draw.choice([2, 5, 30]), counts)
        self.store = sparseq.create(
            None,
            {"t": arrow(self.rows)},
            user="who",
            time="day",
            keys={"kind": list(KINDS)},
            bounds={"v": (0.0, TOP)},
            purposes=[part],
            seed=seed,
        )
        (self.part,) = self.store.stream.pots.purposes
        self.pot = Pot(self.part.answers)
        self.reference = Weighted(self.part.kappa, counts)
        self.refreshed = 0

    def account(self, user: int) -> int | None:
        """The number of a person's account; None: the person is erased, and has not come back."""
        names = self.store.stream.ledger.identifiers(list(range(len(self.accounts.budgets))))
        known = {int(name): number for number, name in names.items() if name is not None}
        return known.get(user)

    @property
    def accounts(self) -> Any:
        return self.store.stream.pots[self.pot]

    def vectors(self, node: NodeRecord, step: float) -> dict[int, Vector]:
        """What each person adds to a node: the groups, those of no group, and the total."""
        places = {**{kind: i for i, kind in enumerate(KINDS)}, None: len(KINDS)}
        grouped = len(node.sums) > 1
        rest, found = len(KINDS) + 1, dict[int, dict[int, int]]()
        for row in self.rows:
            if not node.first <= (row.day - dt.date(1970, 1, 1)).days <= node.last:
                continue
            value = 1 if "rows" in node.number else on_lattice(row.v, step)
            where = [places.get(row.kind, rest), rest + 1] if grouped else [0]
            own = found.setdefault(row.who, {})
            for place in where if value else []:
                own[place] = own.get(place, 0) + value
        return {user: x for user, x in found.items() if x}

    def morning(self, day: dt.date, panels: list[str]) -> int:
        """Refresh, and compare with the reference; return the number of nodes."""
        before = read_nodes(self.store.stream.ledger, "board")
        dashboard = Dashboard.of(
            "board", {"panel": [{"title": str(i), "sql": sql} for i, sql in enumerate(panels)]}
        )
        for user in {row.who for row in self.rows}:
            if user not in self.reference.budgets:
                number = self.account(user)
                self.reference.budgets[user] = int(self.accounts.budgets[number])
                self.reference.spent[user] = 0
        made = refresh(self.store, dashboard, day)
        new = list(made.nodes)[len(before) :]
        left, numbers = made.measured, len(made.board.numbers)
        announced = dict(zip(made.releases, ANNOUNCED[-len(made.releases) :], strict=False))
        for release in made.releases:
            facts = self.store.release(release).facts
            size = len(facts.labels)
            some, new = new[:size], new[size:]
            planned, answers = announced[release]
            assert planned.morning == morning_cost(numbers)
            later = max(self.part.ticks - answers, 1) * planned.morning / 4
            own = sum(map(cost, some))
            self.compare(some, facts, max(later + (own + planned.waiting) / 4, 1.25 * own))
            left -= size
        assert left == 0
        assert not new
        self.refreshed += bool(made.measured)
        course = self.store.stream.part(self.pot).course
        for user, budget in self.reference.budgets.items():
            if (number := self.account(user)) is None:
                continue
            assert self.accounts.spent[number] == self.reference.spent[user] <= budget
            remains = (budget - self.reference.spent[user]) / UNITS_PER_NORM
            assert remains >= course.least - 1e-9
        return made.measured

    def compare(self, nodes: list[NodeRecord], facts: Any, cautious: float) -> None:
        """Compare a release."""
        reference, parts = self.reference, []
        for node, sigma, granularity in zip(nodes, facts.sigma, facts.granularity, strict=True):
            step = 1.0 if "rows" in node.number else 2.0 ** (math.ceil(math.log2(TOP)) - 17)
            said = Announced(Fraction(step), Fraction(node.unit), sigma, granularity)
            vectors = self.vectors(node, step)
            r = joint_norms([vectors], [said])
            parts.append((node, said, vectors, r, reference.allowances(set(r), cautious)))
        for node, _, _, r, a in parts:
            edges = np.ldexp(1.0, np.arange(32)) * (math.sqrt(2.0) if len(node.sums) > 1 else 1.0)
            totals, active = reference.pilot(r, a, Rungs(tuple(edges.tolist()), 0, Fraction(1, 4)))
            assert active == set(r), "the filter never has to refuse"
            assert [total / 2**16 for total in totals] == node.pilot
        for node, said, vectors, r, a in parts:
            row = math.sqrt(2.0) if len(node.sums) > 1 else 1.0
            (sums,) = reference.answer([vectors], [said], r, a, Fraction(node.steps / 256 * row))
            released = [sums.get(k, 0) * said.granularity for k in range(len(node.sums))]
            assert [x * node.unit for x in node.sums] == pytest.approx(released, abs=1e-12)
            assert not reference.refused
        reference.end()


def cost(node: NodeRecord) -> float:
    return node.price + 0.25


def live(seed: int) -> int:
    """Live one life; return the number of nodes."""
    life, measured, day = Life(seed), 0, FIRST
    draw = life.draw
    panels = draw.sample(PANELS, draw.choice([1, 2, 3]))
    for _ in range(draw.choice([1, 2, 3])):
        day += dt.timedelta(draw.choice([0, 1, 1, 2, 6]))
        measured += life.morning(day, panels)
        if life.refreshed >= life.part.ticks:
            break
        if draw.random() < 0.3:
            late = some_rows(draw, -10, 12)
            since = FIRST + dt.timedelta(draw.randrange(0, 9)) if draw.random() < 0.5 else None
            late = [row for row in late if since is None or row.day >= since]
            life.store.ingest(arrow(late), since=since)
            life.rows += late
        elif draw.random() < 0.2 and life.rows:
            gone = draw.choice(life.rows).who
            curator.forget(life.store, gone)
            life.rows = [row for row in life.rows if row.who != gone]
    life.store.close()
    return measured


def live_all(seeds: range) -> int:
    """Live some lives; return the number of nodes."""
    return sum(live(seed) for seed in seeds)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise, and any public scale: the theorem holds for every choice."""

    def scale(pool: Pool, question: Any, sd: float, alike: float) -> int:
        return random.Random(repr((pool, sd))).choice([1, 90, 256, 700, 2**14, 2**19])

    monkeypatch.setattr(
        sparseq.stream.released_parts, "rounded_gaussian", lambda s, n, e: np.zeros(n, np.int64)
    )
    monkeypatch.setattr(Pool, "scale", scale)
    measure = Stream.measure_nodes

    def heard(self: Stream, pot: Pot, nodes: Any, pools: Any, planned: Any, written: Any) -> int:
        course = self.part(pot).course
        assert course is not None
        ANNOUNCED.append((planned, course.answers))
        return measure(self, pot, nodes, pools, planned, written)

    monkeypatch.setattr(Stream, "measure_nodes", heard)
    ANNOUNCED.clear()


@pytest.mark.parametrize(
    "some", [0, *(pytest.param(k, marks=pytest.mark.deep) for k in range(1, 84))]
)
def test_every_life_is_that_of_the_reference(some: int) -> None:
    assert live_all(range(12 * some, 12 * some + 12)) > 20


def test_a_person_who_is_there_every_day_is_never_overdrawn() -> None:
    rows = [Row(7, FIRST + dt.timedelta(d), "a", TOP) for d in range(-30, 30) for _ in range(9)]
    life = Life(3)
    life.store.close()
    life.rows = rows
    part = sparseq.Purpose("board", 0.9, 25, 4.0)
    life.store = sparseq.create(
        None,
        {"t": arrow(rows)},
        user="who",
        time="day",
        keys={"kind": list(KINDS)},
        bounds={"v": (0.0, TOP)},
        purposes=[part],
        seed=1,
    )
    (life.part,) = life.store.stream.pots.purposes
    life.reference = Weighted(life.part.kappa, 4.0)
    for i in range(25):
        life.morning(FIRST + dt.timedelta(i), list(PANELS))
    course = life.store.stream.part(life.pot).course
    assert course.answers == 25
    left = life.reference.budgets[7] - life.reference.spent[7]
    assert course.least <= left / UNITS
    assert left > 0
    with pytest.raises(sparseq.ParameterError, match="mornings of 'board' are used up"):
        life.morning(FIRST + dt.timedelta(26), list(PANELS))


def pilots_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """Pooled pilots are released, and nobody is charged for them."""
    right = NodeSums._pilot

    def free(self: Any, node: Any, people: Any) -> Any:
        put, self.bill.put = self.bill.put, lambda dues: None
        found = right(self, node, people)
        self.bill.put = put
        return found

    patch.setattr(NodeSums, "_pilot", free)


def allowances_after_pilots(patch: pytest.MonkeyPatch) -> None:
    """Sums have the allowances of accounts that have paid for the pilots."""
    right = NodeSums._sums

    def later(self: Any, node: Any, asked: Any, made: Any, people: Any, *rest: Any) -> Any:
        again = self.contributors(people.dues.users, people.norms, asked, 1.0)
        return right(self, node, asked, made, again, *rest)

    patch.setattr(NodeSums, "_sums", later)


def totals_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """A day's total is released beside its groups, and is not in what users pay for."""
    right = sparseq.stream.step.with_total

    def without(cells: Any, size: int) -> Any:
        return cells

    assert right is not without
    patch.setattr(sparseq.stream.step, "with_total", without)


@pytest.mark.parametrize("leak", [pilots_for_nothing, allowances_after_pilots, totals_for_nothing])
def test_a_planted_leak_is_found(leak: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    leak(monkeypatch)
    with pytest.raises(AssertionError):
        live_all(range(6))
