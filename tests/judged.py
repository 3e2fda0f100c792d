"""Streams for the gate that was extracted from its proof, and random ones with what is right.

`Judged` writes down what is asked and what another judge made of it; `disagreements` runs the
program (`proofs/check.py judge`) and says where it sees something else.
"""

from __future__ import annotations

import math
import random
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from algorithm2 import (
    PILOT,
    UNITS,
    Algorithm2,
    Announced,
    Lifelong,
    Parted,
    Rungs,
    Vector,
    Weighted,
    WeightedLife,
    cells_of,
    power_above,
    squared,
    weight,
)

from sparseq.accounting import Budget, Price
from sparseq.engine.contribution_tables import triplet_query
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Runs, reduce
from sparseq.ledger.accounts import Accounts
from sparseq.question.plan import Noise, Plan
from sparseq.stream.release_charges import Bill, admit


@dataclass
class Judged:
    """One stream: the words for the program, and after each step what it should say."""

    words: list[str] = field(default_factory=list)
    right: list[tuple[list[tuple[int, ...]], list[int]]] = field(default_factory=list)

    def say(self, *some: Any) -> None:
        """Write words: numbers in binary, fractions as two."""
        for one in some:
            if isinstance(one, Fraction):
                self.say(one.numerator, one.denominator)
            elif isinstance(one, int):
                self.words.append(format(one, "b"))
            elif isinstance(one, str):
                self.words.append(one)
            else:
                self.say(*one)

    def vector(self, cells: int, x: Mapping[int, int]) -> None:
        """Write a vector with all of its cells."""
        self.say(cells, [x.get(k, 0) for k in range(cells)])

    def expect(
        self, accounts: Iterable[tuple[int, ...]], sums: Iterable[Mapping[int, int]], cells: int
    ) -> None:
        """Say what is right after the step: accounts in order, each measure's sums."""
        self.right.append(
            (list(accounts), [total.get(k, 0) for total in sums for k in range(cells)])
        )


def disagreements(program: Path, streams: Sequence[Judged]) -> list[int]:
    """Return which streams the program sees in another way."""
    asked = "\n".join(" ".join(s.words) for s in streams) + "\n"
    done = subprocess.run([program], input=asked, capture_output=True, text=True, check=True)
    lines = iter(done.stdout.splitlines())
    found = []
    for k, stream in enumerate(streams):
        same = [_same(next(lines), *right) for right in stream.right]
        if not all(same):
            found.append(k)
    assert next(lines, None) is None
    return found


def _same(line: str, accounts: list[tuple[int, ...]], sums: list[int]) -> bool:
    left, total = line.split("|")
    said = [tuple(int(n, 2) for n in one.split(",")) for one in left.split()]
    values = [int(v, 2) for v in total.split()]
    width = max(len(values), len(sums))
    return said == accounts and _padded(values, width) == _padded(sums, width)


def _padded(values: list[int], width: int) -> list[int]:
    return values + [0] * (width - len(values))


# What is drawn ------------------------------------------------------------------------------------


@dataclass
class Question:
    """Measures with noise in lattices, and everybody's vectors of each."""

    cells: int
    noise: list[tuple[float, float]]
    vectors: list[dict[int, dict[int, int]]]


def question(draw: random.Random, users: int, disjoint: bool = False) -> Question:
    """`disjoint`: each user has a cell of his or her own."""
    cells = users if disjoint else draw.choice([1, 1, 2, 3])
    measures = draw.choice([1, 1, 2])
    noise = [
        (
            draw.choice([0.5, 1.0, 2.75, 1e3 / 3, 4.4e5]) * draw.uniform(1, 2),
            2.0 ** draw.choice([0, 0, -3, -10, 2]),
        )
        for _ in range(measures)
    ]
    most = draw.choice([1, 3, 300, 2**20])
    vectors = []
    for _ in range(measures):
        some = {}
        for user in range(users):
            where = [user] if disjoint else range(cells)
            x = {k: draw.randint(-most, most) for k in where if draw.random() < 0.7}
            x = {k: v for k, v in x.items() if v}
            if x:
                some[user] = x
        vectors.append(some)
    return Question(cells, noise, vectors)


def exact(reference: Algorithm2, sigma: float, granularity: float) -> Fraction:
    """Units per squared lattice step, as a real number."""
    variance = Fraction(reference.norm_budget) / (2 * Fraction(reference.kappa))
    return (Fraction(granularity) / Fraction(sigma)) ** 2 * variance * UNITS


def near(draw: random.Random, reference: Algorithm2, asked: Sequence[Question], user: int) -> int:
    """A budget that a few of the questions use up, but for a unit."""
    twin = Algorithm2(reference.kappa, reference.norm_budget)
    twin.budgets[user], twin.spent[user] = 2**200, 0
    for q in asked[: draw.randint(1, len(asked))]:
        twin.step([{user: v[user]} if user in v else {} for v in q.vectors], q.noise)
    return max(0, twin.spent[user] + draw.choice([-1, -1, 0, 0, 1, 100]))


LEVELS = [(0.5, 20.0), (0.1, 2.75), (2.0, 100.1), (1 / 3, 5.0)]
MOST_UNITS = 2**40


def lower_line(judged: Judged, reference: Algorithm2, q: Question) -> None:
    """Write the measures of a question."""
    judged.say(len(q.noise))
    for sigma, granularity in q.noise:
        judged.say(q.cells, exact(reference, sigma, granularity))


# Three judges of a stream -------------------------------------------------------------------------


class Shipped:
    """The code that answers questions: prices, the filter, sums; noise apart."""

    def __init__(self, kappa: float, norm_budget: float, halt: bool, budgets: list[int]) -> None:
        self.budget = Budget(kappa, norm_budget)
        self.accounts = Accounts(np.array(budgets, np.int64), halt)

    def step(self, q: Question) -> list[dict[int, int]]:
        """Return each measure's sums."""
        noise = tuple(
            Noise(sigma, g, 1.0, g, Price.of(sigma, g, self.budget)) for sigma, g in q.noise
        )
        plan = Plan(triplet_query(q.cells, "x", 1.0), noise, 0.05)
        everybody = np.arange(len(self.accounts), dtype=np.int32)

        def sums(only: Any) -> list[Any]:
            return [self._reduced(v, q.cells, set(only.tolist())).totals for v in q.vectors]

        made = [self._reduced(v, q.cells, set(everybody.tolist())) for v in q.vectors]
        bill = Bill(self.accounts)
        found = admit(plan, Contributions(made, sums), bill).sums
        self.accounts.charge(*bill.paid())
        return [{k: int(v) for k, v in enumerate(total) if v} for total in found]

    def _reduced(self, vectors: Mapping[int, Vector], cells: int, only: set[int]) -> Any:
        rows = [(u, k, v) for u, x in sorted(vectors.items()) for k, v in x.items() if u in only]
        users, coordinates, values = (np.array([r[i] for r in rows], np.int32) for i in range(3))
        return reduce(Runs.of(users), coordinates, values, cells, distinct=False)


def in_or_out(draw: random.Random) -> Judged:
    """A stream of a store whose people are in or out, by all three."""
    kappa, norm_budget = draw.choice(LEVELS)
    reference = Algorithm2(kappa, norm_budget, halt=draw.random() < 0.3)
    users = draw.randint(1, 4)
    asked = [question(draw, users) for _ in range(draw.randint(1, 5))]
    judged = Judged()
    judged.say("plain")
    for user in range(users):
        budget = min(near(draw, reference, asked, user), MOST_UNITS)
        reference.budgets[user], reference.spent[user] = budget, 0
        judged.say("join", budget)
    shipped = Shipped(kappa, norm_budget, reference.halt, list(reference.budgets.values()))
    for q in asked:
        sums = reference.step(q.vectors, q.noise)
        judged.say("in", int(reference.halt))
        lower_line(judged, reference, q)
        for user in range(users):
            for v in q.vectors:
                judged.vector(q.cells, v.get(user, {}))
        left = [reference.budgets[u] - reference.spent[u] for u in range(users)]
        judged.expect([(n,) for n in left], sums, q.cells)
        theirs = shipped.step(q)
        assert theirs == [{k: v for k, v in total.items() if v} for total in sums]
        assert shipped.accounts.left(np.arange(users, dtype=np.int32)).tolist() == left
    return judged


class Recorded(Algorithm2):
    """The reference, which writes down what it is asked; `told` says it to the program."""

    def step(
        self, measures: Sequence[Mapping[int, Vector]], noise: Sequence[tuple[float, float]]
    ) -> list[dict[int, int]]:
        sums = super().step(measures, noise)
        self.steps.append((list(measures), list(noise), sums, dict(self.spent)))
        return sums

    def __init__(self, *level: Any) -> None:
        super().__init__(*level)
        self.steps: list[tuple[Any, Any, list[dict[int, int]], dict[int, int]]] = []

    def told(self) -> Judged:
        """Write the stream, as if all had been there from the start."""
        judged, users = Judged(), list(self.budgets)
        judged.say("plain", [("join", self.budgets[u]) for u in users])
        for measures, noise, sums, spent in self.steps:
            cells = 1 + max((k for v in measures for x in v.values() for k in x), default=0)
            judged.say("in", int(self.halt))
            lower_line(judged, self, Question(cells, noise, measures))
            for user in users:
                for v in measures:
                    judged.vector(cells, v.get(user, {}))
            judged.expect([(self.budgets[u] - spent.get(u, 0),) for u in users], sums, cells)
        return judged


class Recording(Weighted):
    """A weighted reference, which writes down what it is asked."""

    def __init__(self, *level: Any, **more: Any) -> None:
        super().__init__(*level, **more)
        self.parts: list[Callable[[Judged], None]] = []

    def order(self) -> list[int]:
        """Return all users, as the program is told of them."""
        return list(self.budgets)

    def now(self) -> Callable[[], list[tuple[int, ...]]]:
        """Return everybody's account as it is now, told when all are known."""
        spent, due = dict(self.spent), dict(self.due)
        return lambda: [(self.budgets[u] - spent.get(u, 0), due.get(u, 0)) for u in self.order()]

    def begun(self) -> Judged:
        """Return a stream in which all are there from the start."""
        judged = Judged()
        judged.say("owing", [("join", self.budgets[u]) for u in self.order()])
        return judged

    def told(self) -> Judged:
        """Write the stream."""
        judged = self.begun()
        for tell in self.parts:
            tell(judged)
        return judged

    def marks(self) -> list[int]:
        """Return what is said of sums beside them."""
        return []

    def step(
        self, measures: Sequence[Mapping[int, Vector]], noise: Sequence[tuple[float, float]]
    ) -> list[dict[int, int]]:
        """As ever: a question whose people are in or out."""
        sums = super().step(measures, noise)
        cells = 1 + max((k for v in measures for x in v.values() for k in x), default=0)
        then, q = self.now(), Question(cells, list(noise), [dict(v) for v in measures])

        def tell(judged: Judged) -> None:
            judged.say("in", int(self.halt))
            lower_line(judged, self, q)
            for user in self.order():
                for v in q.vectors:
                    judged.vector(cells, v.get(user, {}))
            judged.expect(then(), sums, cells)

        self.parts.append(tell)
        return sums

    def pilot(
        self, r: Mapping[int, Fraction], a: Mapping[int, Fraction], of: Rungs
    ) -> tuple[list[int], set[int]]:
        """As ever."""
        totals, active = super().pilot(r, a, of)
        vectors = {u: cells_of(r[u], a[u], of) for u in r}
        then, cells = self.now(), len(of.edges)

        def tell(judged: Judged) -> None:
            judged.say("pilot", cells, of.price * Fraction(UNITS, PILOT * PILOT))
            for user in self.order():
                judged.vector(cells, vectors.get(user, {}))
            judged.expect(then(), [dict(enumerate(totals))], cells)

        self.parts.append(tell)
        return totals, active

    def answer(
        self,
        measures: Sequence[Mapping[int, Vector]],
        said: Sequence[Announced],
        r: Mapping[int, Fraction],
        a: Mapping[int, Fraction],
        scale: Fraction,
    ) -> list[dict[int, int]]:
        """As ever."""
        sums = super().answer(measures, said, r, a, scale)
        weights = {u: weight(r[u], a[u], scale) for u in r}
        for vectors in measures:
            for user, x in vectors.items():
                if squared(x) >= 2**62:
                    weights[user] = Fraction(0)
        cells = 1 + max((k for v in measures for x in v.values() for k in x), default=0)
        then, vectors_of, announced = self.now(), list(measures), list(said)
        marks = self.marks()

        def tell(judged: Judged) -> None:
            judged.say("sums", marks, len(announced))
            for m in announced:
                g, fine = Fraction(m.granularity), Fraction(power_above(scale * m.unit), 2**29)
                judged.say(cells, self.exact_rate(m), Fraction(m.step) / g, g / fine)
            for user in self.order():
                judged.say(weights.get(user, Fraction(0)))
                for v in vectors_of:
                    judged.vector(cells, v.get(user, {}) if user in weights else {})
            judged.expect(then(), sums, cells)

        self.parts.append(tell)
        return sums

    def end(self) -> None:
        """As ever."""
        super().end()
        then = self.now()

        def tell(judged: Judged) -> None:
            judged.say("end")
            judged.expect(then(), [], 0)

        self.parts.append(tell)


class RecordedWeights(Recording):
    """Of accounts of one kind."""


class RecordedLife(Recording, WeightedLife):
    """Of windows, under a cap."""

    def people(self) -> dict[int, list[int]]:
        """Return everybody's windows."""
        found: dict[int, list[int]] = {}
        for window in self.budgets:
            found.setdefault(self.of[window], []).append(window)
        return found

    def order(self) -> list[int]:
        """Return all windows, person by person."""
        return [w for mine in self.people().values() for w in mine]

    def now(self) -> Callable[[], list[tuple[int, ...]]]:
        """Return everybody's account as it is now."""
        spent, due = dict(self.spent), dict(self.due)
        lived, owed = dict(self.lived), dict(self.owed)

        def then() -> list[tuple[int, ...]]:
            found = []
            for person, mine in self.people().items():
                each = [(self.budgets[w] - spent.get(w, 0), due.get(w, 0)) for w in mine]
                life = self.lifetime - lived.get(person, 0), owed.get(person, 0)
                found.append((*life, *(n for one in each for n in one)))
            return found

        return then

    def begun(self) -> Judged:
        """Return a stream in which all are there from the start."""
        judged = Judged()
        judged.say("living")
        for mine in self.people().values():
            judged.say("join", self.lifetime, len(mine), [self.budgets[w] for w in mine])
        return judged

    def marks(self) -> list[int]:
        """Say whether no value adds up two windows."""
        return [int(self.apart)]


def weighted(draw: random.Random) -> Judged:
    """A stream of pilots and weighted sums, by the reference."""
    reference = RecordedWeights(*draw.choice(LEVELS))
    return _weighted(draw, reference, draw.randint(1, 4))


def living(draw: random.Random) -> Judged:
    """The same of windows under a cap."""
    reference = RecordedLife(*draw.choice(LEVELS))
    people, each = draw.randint(1, 2), draw.randint(1, 3)
    reference.of = {w: w // each for w in range(people * each)}
    whole = math.floor(Fraction(reference.norm_budget) * UNITS)
    reference.lifetime = draw.choice([2 * whole, whole, whole // 40, 5000])
    reference.for_life = draw.choice([1.0, 20.0])
    return _weighted(draw, reference, people * each)


def _weighted(draw: random.Random, reference: Recording, users: int) -> Judged:
    whole = math.floor(Fraction(reference.norm_budget) * UNITS)
    for user in range(users):
        reference.budgets[user] = draw.choice([whole, whole // 50, draw.randint(0, whole), 70])
        reference.spent[user] = 0
    for _ in range(draw.randint(1, 3)):
        apart = isinstance(reference, RecordedLife) and draw.random() < 0.5
        q = question(draw, users, disjoint=apart)
        if isinstance(reference, RecordedLife):
            reference.apart = apart
        r = {u: Fraction(draw.uniform(0, 40)) for u in range(users) if draw.random() < 0.9}
        for _ in range(draw.choice([0, 1, 2])):
            edges = tuple(float(2**k) for k in range(draw.randint(2, 5)))
            a = reference.allowances(set(r), draw.choice([2.0, 30.0]))
            start, variance = draw.choice([0, 0, 1]), draw.choice([4, 16])
            reference.pilot(r, a, Rungs(edges, start, Fraction(1, variance)))
        if draw.random() < 0.9:
            _answered(draw, reference, q, r)
        reference.end()
    return reference.told()


def _answered(
    draw: random.Random, reference: Recording, q: Question, r: dict[int, Fraction]
) -> None:
    """Have sums under weights, with noise that is right for a scale, or a few times as much."""
    a = reference.allowances(set(r), draw.choice([2.0, 30.0]))
    scale = Fraction(draw.choice([256, 100, 2000]), 256)
    variance = Fraction(reference.norm_budget) / (2 * Fraction(reference.kappa))
    said = []
    for _ in q.noise:
        step = Fraction(1, draw.choice([1, 1, 2**10]))
        sigma = math.sqrt(scale**2 * variance) * draw.uniform(0.5, 4)
        g = float(min(step, Fraction(2) ** math.floor(math.log2(sigma / 8))))
        said.append(Announced(step, Fraction(1), sigma, g))
    vectors = [{u: x for u, x in v.items() if u in r} for v in q.vectors]
    reference.answer(vectors, said, r, a, scale)


def windows(draw: random.Random) -> Judged:
    """A stream of people with windows under a cap, by the reference."""
    kappa, norm_budget = draw.choice(LEVELS)
    reference = Lifelong(kappa, norm_budget)
    people, each = draw.randint(1, 3), draw.randint(1, 3)
    users = people * each
    reference.of = {w: w // each for w in range(users)}
    kinds = [draw.random() < 0.5 for _ in range(draw.randint(1, 4))]
    asked = [question(draw, users, disjoint=apart) for apart in kinds]
    for window in range(users):
        reference.budgets[window] = near(draw, reference, asked, window)
        reference.spent[window] = 0
    reference.lifetime = draw.choice([1, 2, 9]) * near(draw, reference, asked, 0) + draw.choice(
        [0, 1]
    )
    judged = Judged()
    judged.say("windows")
    for person in range(people):
        mine = range(person * each, person * each + each)
        judged.say("join", reference.lifetime, each, [reference.budgets[w] for w in mine])
    for apart, q in zip(kinds, asked, strict=True):
        reference.apart = apart
        sums = reference.step(q.vectors, q.noise)
        judged.say("each", int(apart))
        lower_line(judged, reference, q)
        for window in range(users):
            for v in q.vectors:
                judged.vector(q.cells, v.get(window, {}))
        judged.expect(
            [
                (
                    reference.lifetime - reference.lived.get(person, 0),
                    *(
                        reference.budgets[w] - reference.spent[w]
                        for w in range(person * each, person * each + each)
                    ),
                )
                for person in range(people)
            ],
            sums,
            q.cells,
        )
    return judged


def purposes(draw: random.Random) -> Judged:
    """A stream of questions from parts of budgets, of parts and people that come."""
    reference = Parted(*draw.choice(LEVELS))
    judged = Judged()
    judged.say("pots")
    for k in range(draw.choice([0, 1])):
        reference.purpose(f"first {k}", 0.3, *draw.choice(LEVELS), came=False)
    users = 0

    def level(name: str) -> Fraction:
        part = reference.parts[name]
        whole = Fraction(reference.kappa) / Fraction(reference.norm_budget)
        return Fraction(part.kappa) / Fraction(part.norm_budget) / whole

    def join() -> None:
        reference.add_user(users)
        judged.say("join", len(reference.parts))
        for name, part in reference.parts.items():
            judged.say(level(name), part.budgets[users])

    def right(sums: list[dict[int, int]], cells: int) -> None:
        parts = reference.parts.values()
        judged.expect(
            [tuple(p.budgets[u] - p.spent[u] for p in parts) for u in range(users)], sums, cells
        )

    for turn in range(draw.randint(3, 8)):
        what = draw.random()
        if users == 0 or what < 0.2:
            join()
            users += 1
        elif what < 0.4 and len(reference.parts) < 4:
            share, (kappa, counts) = draw.choice([0.2, 0.5, 1.0]), draw.choice(LEVELS)
            name = f"later {turn}"
            reference.purpose(name, share, kappa, counts, came=True)
            judged.say("part", Fraction(share), level(name), math.floor(Fraction(counts) * UNITS))
            right([], 0)
        else:
            q, (j, (name, part)) = (
                question(draw, users),
                draw.choice(list(enumerate(reference.parts.items()))),
            )
            sums = part.step(q.vectors, q.noise)
            judged.say("from", j, level(name), 0)
            lower_line(judged, part, q)
            for user in range(users):
                for v in q.vectors:
                    judged.vector(q.cells, v.get(user, {}))
            right(sums, q.cells)
    return judged
