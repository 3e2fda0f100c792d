"""Random streams of weighted questions under a cap over all windows of a person, in fractions.

Sums, pilots, and both accounts of everybody equal the reference's to the last unit; what all
windows of a person say together is paid for, part by part; and nobody has less left than the stream
says in public.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from algorithm2 import UNITS, Vector, WeightedLife
from stream.test_reference import cut
from stream.test_weighted_reference import (
    DAY,
    GROUPS,
    KEYS,
    Asked,
    Measure,
    N,
    Row,
    Running,
    V,
    X,
    arrow,
    on_disk,
    question,
    some_rows,
    tapped,
)

import sparseq
from sparseq.ledger.lifetimes import LifeDues
from sparseq.question.plan import Options
from sparseq.stream.stream_progress import Course


def pair(who: int, day: dt.date) -> int:
    return who * 10 + (day - DAY).days


@dataclass(frozen=True)
class Together(Asked):
    """About several days, added up."""

    @property
    def sql(self) -> str:
        by_day = super().sql.replace("SELECT kind, day,", "SELECT kind,")
        by_day = by_day.replace("SELECT day,", "SELECT").replace("kind, day", "kind")
        sql = by_day.replace(" GROUP BY day", "")
        return sql.replace("DISTINCT who", "DISTINCT who_day").replace(
            "THEN who END", "THEN who_day END"
        )

    @property
    def groups(self) -> int:
        return len(GROUPS) if self.by_kind else 1

    def place(self, row: Row) -> int | None:
        found = super().place(row)
        return None if found is None else found // max(self.days, 1)


class Lived(Running):
    """A store whose people have accounts for days, and for life."""

    def __init__(self, draw: random.Random, path: Path | None) -> None:
        self.silent = draw.random() < 0.3
        self.kappa = draw.choice([0.5, 0.5, 2.0, 300.0])
        self.norm_budget = draw.choice([48.0, 12.0, 5.0, 2.75])
        self.budgets, self.reserves, self.part = None, {}, Fraction(1)
        self.times = draw.choice([1.0, 2.0, 10.0, 40.0])
        self.rows: list[Row] = []
        lifetime = int(
            Fraction(self.kappa * self.times)
            / Fraction(self.kappa)
            * int(Fraction(self.norm_budget) * UNITS)
        )
        self.reference = WeightedLife(self.kappa, self.norm_budget, lifetime=lifetime)
        some = some_rows(draw, draw.choice([60, 25, 8]))
        self.con = sparseq.create(
            path,
            {"t": arrow(some, None)},
            user="who",
            time="day",
            kappa=self.kappa,
            window=("day", self.kappa * self.times),
            keys={"kind": KEYS},
            bounds={"x": X, "v": V, "n": N},
            seed=draw.randrange(2**31),
            purposes=[sparseq.Questions(counts=self.norm_budget)],
        )
        self._arrived(some)

    def _arrived(self, rows: list[Row]) -> None:
        mine = [r for r in rows if r.who is not None]
        self.rows = self.rows + [
            r._replace(who=pair(r.who or 0, r.day), x=cut(r.x, X), v=cut(r.v, V), n=cut(r.n, N))
            for r in mine
        ]
        for row in mine:
            user = pair(row.who or 0, row.day)
            self.reference.of[user] = row.who or 0
            if user not in self.reference.budgets:
                self.reference.add_user(user)

    def ingest(self, rows: list[Row]) -> None:
        self.con.ingest(arrow(rows, None), again=True)
        self._arrived(rows)

    def ask(self, asked: Asked) -> None:
        before, query = self.course, self.con.lower(asked.sql)
        self.asked, self.reference.apart = asked, query.apart
        assert query.apart == (not isinstance(asked, Together) or asked.days == 1)
        with tapped(self.silent) as turns:
            try:
                self.con.ask(query, Options(**asked.options), fresh=True)
            except sparseq.QueryRefused:  # a wish that has no price yet, or one beyond the cap
                assert {"sigma", "accuracy", "precision"} & set(asked.options)
                assert (turns, self.course) == ([], before)
                self.reference.end()
                return
        labels = {m.label: i for i, m in enumerate(query.measures)}
        course = before.about(query.span)
        for turn in turns:
            if turn.of == "parent":
                course = self._follow_parent(course, turn)
            elif turn.of == "values":
                together, self.reference.apart = self.reference.apart, False
                course = self._follow_values(course, turn, query, asked)
                self.reference.apart = together
            else:
                which = [labels[m.label] for m in turn.asked.query.measures]
                course = self._follow_turn(asked, course, turn, which)
        self.reference.end()
        assert self.course.parents == {}
        assert self.course.windows == course.windows
        assert self.course.life == course.life

    def cautious(self, course: Course, price: float = 1.0) -> float:
        assert course.life is not None
        assert course.span is not None
        first, last = course.span
        clocks = [course.windows.get(w, (0.0, course.clock))[1] for w in range(first, last + 1)]
        wanted = min(max(price, 0.5), 1.0)
        for_life = (course.life.tau + 0.5 * course.life.clock) * wanted
        self.reference.for_life = max(for_life, 1.25 * (price + 5 / 16))
        return max((course.tau + 0.5 * max(clocks)) * wanted, 1.25 * (price + 5 / 16))

    def allowances(self, r: dict[int, Fraction], cautious: float) -> dict[int, Fraction]:
        """Of who contributes nothing it is of no account, and does not count among a person's."""
        some = {user for user, norm in r.items() if norm}
        return dict.fromkeys(r, Fraction(0)) | self.reference.allowances(some, cautious)

    def of_all(self, measure: Measure, step: Fraction) -> dict[int, Vector]:
        return self.asked.vectors(measure, self.rows, step, grouped=False)

    def check_accounts(self) -> None:
        ids = self.con.backend.database.execute("SELECT id FROM ledger.users ORDER BY _user")
        users = [_user(i) for (i,) in ids.fetchall()]
        spent = dict(zip(users, self.con.stream.accounts.spent.tolist(), strict=True))
        assert spent == self.reference.spent
        left = [self.reference.budgets[u] - s for u, s in spent.items()]
        lifetimes = self.con.stream.ledger.lifetimes
        assert lifetimes is not None
        first: dict[int, int] = {}
        for k, user in enumerate(users):
            first.setdefault(user // 10, k)
        lived = {who: int(lifetimes.spent[k]) for who, k in first.items()}
        assert lived == {who: self.reference.lived.get(who, 0) for who in first}
        most = max(lived.values(), default=0)
        assert min(left, default=0) >= 0
        assert most <= self.reference.lifetime
        life = self.course.life
        assert life is not None
        assert life.least * UNITS <= self.reference.lifetime - most


def _user(identifier: Any) -> int:
    who, day = identifier.split(",")
    return pair(int(who), dt.date.fromisoformat(day))


def about_days(draw: random.Random) -> Asked:
    """A question about some days, by day or added up."""
    asked = question(draw)
    free = tuple(c for c in asked.conditions if c != "who <> 2" and "day" not in c)  # of a person
    asked = replace(asked, conditions=free, days=draw.choice([1, 1, 2, 4]))
    asked.options.pop("scale", None) if draw.random() < 0.5 else None
    together = draw.random() < 0.4
    return Together(**vars(asked)) if together else asked


def follow(seed: int, path: Path | None = None) -> None:
    """Run a random stream in a store and by the reference."""
    draw = random.Random(seed)
    running = Lived(draw, path)
    try:
        for _ in range(draw.choice([3, 6, 12, 25])):
            what = draw.random()
            if what < 0.88:
                running.ask(about_days(draw))
            elif what < 0.94:
                running.ingest(some_rows(draw, draw.choice([1, 10])))
            else:
                running.reopen()
            running.check_accounts()
        running.reopen()
        running.check_accounts()
    finally:
        running.con.close()


@pytest.mark.parametrize(
    "seed",
    [*range(4, 7), *(pytest.param(k, marks=pytest.mark.deep) for k in (*range(4), *range(7, 500)))],
)
def test_any_stream_under_a_cap_for_life_is_that_of_the_reference(
    seed: int, tmp_path: Path
) -> None:
    follow(seed, on_disk(seed, tmp_path))


# What is found ------------------------------------------------------------------------------------


def sum_in_place_of_roots(dues: Any, due: Any, able: Any, apart: bool) -> Any:
    """Windows that add up pay as if they did not."""
    return ADMIT(dues, due, able, True)


def roots_in_place_of_sum(dues: Any, due: Any, able: Any, apart: bool) -> Any:
    """Windows that do not add up pay as if they did."""
    return ADMIT(dues, due, able, False)


def as_if_one(dues: Any, there: Any) -> Any:
    """A window's share of life is all of it."""
    return dues._left[dues.places]


def of_another(dues: Any, there: Any) -> Any:
    """A window's share of life is another person's."""
    return np.roll(SHARES(dues, there), 1)


ADMIT, SHARES = LifeDues.admit, LifeDues.shares
MUTANTS = {
    "the sum of charges, not the square of roots": ("admit", sum_in_place_of_roots),
    "the square of roots, not the sum of charges": ("admit", roots_in_place_of_sum),
    "a share as of one window": ("shares", as_if_one),
    "another person's share": ("shares", of_another),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of few streams at the latest; without it there are none (see above)."""
    monkeypatch.setattr(LifeDues, *MUTANTS[name])
    for seed in range(4, 12):
        try:
            follow(seed)
        except AssertionError:
            return
    pytest.fail("nobody saw it")
