"""Neighbouring stores find keys: rows come, searches, questions by what was found, erasures.

As in `series`, each step is done to four stores, with the first one's outputs frozen in the others:
for a search, the found keys. In addition to the rules for every step, a person's payment of delta
must be the same in the crowd and alone, and at least the probability that noise alone lifts one of
the person's own weights over the threshold, computed again here; and no key of a single person may
be found.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from checks.audit.comparison import Finding, Terms, compare
from checks.audit.neighbours import ALONE, NOBODY, VARIANTS, WITH, WITHOUT
from checks.audit.seams import Seen, Step, Watching
from checks.audit.trial import Act, Ask, Trial
from checks.stores import made_store
from sparseq.engine.protocol import USER
from sparseq.store import found_keys as product
from sparseq.store.curator import forget
from sparseq.store.found_keys import Keys
from sparseq.store.store import Store
from sparseq.stream.partition_selection import DELTAS, UNITS_PER_DELTA, units_of_delta

STEPS = 14
PERSON, KNOWN = 5_000, 7
DELTAS_OF_STORES = (1e-9, 1e-8)
"""So small that a key of one person is found in none of a million searches."""
PAGES = ("home", "help", "shop", "\x00é", "")
COLUMNS = ("page", "page", "page, day", "day", "day, x", "x, page, day")
QUESTIONS = (
    "SELECT page, day, count(*) AS n FROM t GROUP BY page, day",
    "SELECT day, sum(x) AS n FROM t GROUP BY day",
    "SELECT x, page, day, count(DISTINCT who) AS n FROM t WHERE x > 1 GROUP BY day, x, page",
    "SELECT page, count(*) AS n FROM t GROUP BY page",
    "SELECT page, count(DISTINCT who) AS n FROM t WHERE x > 1 GROUP BY page",
    "SELECT page, sum(x) AS n FROM t GROUP BY page ORDER BY n DESC LIMIT 2",
    "SELECT page, day, count(*) AS n FROM t WHERE day BETWEEN DATE '2024-01-01' AND "
    "DATE '2024-01-03' GROUP BY page, day",
    "SELECT page, count(*) AS n FROM (SELECT who, page, row_number() OVER (PARTITION BY who "
    "ORDER BY day, x) AS r FROM t) AS i WHERE r = 1 GROUP BY page",
    "SELECT count(*) AS n FROM t WHERE page = 'home'",
)
_FIRST = dt.date(2024, 1, 1)
_SCHEMA = pa.schema(
    [("who", pa.int64()), ("day", pa.date32()), ("page", pa.string()), ("x", pa.float64())]
)


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores find keys; yield what breaks a rule, with all that was done before."""
    life = _Life(trial.rng)
    with contextlib.ExitStack() as stack:
        searches = stack.enter_context(Searches(trial.watching).entered())
        stores = {v: stack.enter_context(life.store()) for v in VARIANTS}

        def steps() -> Iterator[tuple[str, Act]]:
            for number in range(STEPS):
                searches.seen = []
                yield life.step(number)

        def check(seen: dict[str, Seen]) -> Iterator[Finding]:
            if len(searches.seen) == len(VARIANTS):
                yield from _searched(seen, searches.seen, stores, trial.watching, life.delta)
            yield from compare(seen, PERSON, life.terms)

        yield from trial.life(f"{life.options}", stores, steps(), check)


class _Life:
    """The life of four stores, drawn at random: public except for the rows."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.delta = rng.choice(DELTAS_OF_STORES)
        budget = rng.choice((5.0, 9.0, 40.0))
        self.terms = Terms(0.5, budget)
        self.options: dict[str, Any] = {
            "norm_budget": budget,
            "keys_delta": self.delta,
            "in_or_out": rng.random() < 0.5,
            "seed": rng.randrange(2**31),
            "least_people": rng.choice((0, 0, 30)),
        }

    def store(self) -> Store:
        """Create one of the four: all begin with the same person."""
        known = pa.Table.from_pylist([_row(KNOWN, _FIRST, "home", 3.5)], _SCHEMA)
        return made_store(None, known, table="t", user="who", bounds={"x": (0, 10)}, **self.options)

    def step(self, number: int) -> tuple[str, Act]:
        """Return the next action and its description."""
        rng = self._rng
        if number == 0 or rng.random() < 0.25:
            return self._rows(number)
        if rng.random() < 0.05:
            return "somebody is erased", lambda _, s: str(forget(s, KNOWN).people)
        if number == 1 or rng.random() < 0.3:
            how: dict[str, Any] = {
                "picks": rng.choice((1, 2, 16)),
                "price": rng.choice((0.5, 4.0)),
                "delta": self.delta * rng.choice((0.125, 0.5, 1.0)),
            }
            sql = f"SELECT {rng.choice(COLUMNS)} FROM t"
            act: Act = lambda _, s: Keys(s).discover(sql, **how)  # noqa: E731
            return f"a search {sql} {how}", act
        sql = rng.choice(QUESTIONS)
        return sql, Ask(sql)

    def _rows(self, number: int) -> tuple[str, Act]:
        """Rows come: of pages that many are on, of a page of one's own, and none."""
        rng, crowd = self._rng, list[dict[str, object]]()
        size = rng.choice((40, 150, 400))
        for who in range(10, 10 + size):
            crowd += [self._row(who, PAGES) for _ in range(rng.choice((1, 1, 3)))]
            if rng.random() < 0.2:
                crowd.append(self._row(who, (f"own {who} {number}",)))
        own = rng.choice((PAGES, (*PAGES, *(f"mine {k}" for k in range(20)))))
        person = [self._row(PERSON, own) for _ in range(rng.choice((1, 3, 20)))]
        cut = len(crowd) // 3
        of = {WITHOUT: crowd, WITH: [*crowd[:cut], *person, *crowd[cut:]], ALONE: person}

        def take(variant: str, store: Store) -> object:
            store.ingest(pa.Table.from_pylist(of.get(variant, []), _SCHEMA))
            return "taken in"

        return f"{len(crowd)} rows and {len(person)} of {PERSON}", take

    def _row(self, who: int, pages: tuple[str, ...]) -> dict[str, object]:
        rng = self._rng
        day = _FIRST + dt.timedelta(rng.randrange(4))
        return _row(who, day, rng.choice((*pages, None)), rng.choice((0.25, 3.5, 9.75)))


def _row(who: int, day: dt.date, page: str | None, x: float) -> dict[str, object]:
    return {"who": who, "day": day, "page": page, "x": x}


@dataclass
class Search:
    """A store's search for keys: private.

    Attributes:
        weights: Exact sums by key, in steps of the lattice.
        people: Number of people who have picked each key.
        threshold, sigma: Threshold for noised weights, and deviation of the noise, in steps.
        new: Keys found by this store's own noise.
    """

    weights: dict[str, int]
    people: dict[str, int]
    threshold: int
    sigma: float
    new: list[str]


class Searches:
    """Wraps the product's search while it is entered: its first result is frozen."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self.seen: list[Search] = []

    @contextlib.contextmanager
    def entered(self) -> Iterator[Searches]:
        """Watch every search of this process."""
        place = product._Search
        right = place.released

        def released(search: Any, plan: Any, sums: Any, entropy: Any) -> Any:
            right(search, plan, sums, entropy)
            picks = search._picks
            people = np.bincount(picks.places, minlength=len(picks.keys))
            self.seen.append(
                Search(
                    dict(zip(picks.keys, sums[0].tolist(), strict=True)),
                    dict(zip(picks.keys, people.tolist(), strict=True)),
                    search._threshold.steps,
                    plan.noise[0].lattice_sigma,
                    list(search._new),
                )
            )
            if self._watching.tape.at is not None:
                search._new = list(self.seen[0].new)
            return [np.array([len(search._new)], np.int64)]

        place.released = released  # type: ignore[method-assign]
        try:
            yield self
        finally:
            place.released = right  # type: ignore[method-assign]


def _searched(
    seen: dict[str, Seen],
    searches: list[Search],
    stores: Mapping[str, Store],
    watching: Watching,
    most: float,
) -> Iterator[Finding]:
    """Yield what breaks a rule of searches; give every store's step the same coordinates."""
    every = sorted({key for one in searches for key in one.weights})
    for (variant, one), search in zip(list(seen.items()), searches, strict=True):
        (step,) = one.steps
        sums = [np.array([search.weights.get(key, 0) for key in every], np.int64)]
        ids = watching.ids(stores[variant])
        paid, now = _deltas(stores[variant], ids)
        over = [i for i, units in paid.items() if units > units_of_delta(most)]
        steps = [replace(step, sums=sums, gaussian=True), _of_deltas(step, now)]
        spent = one.spent | {"delta": paid}
        seen[variant] = replace(one, steps=steps, spent=spent, overdrawn=[*one.overdrawn, *over])
        single = [key for key in search.new if search.people[key] == 1]
        if single:
            yield Finding("a key of one person", f"{variant}: {single[0]!r} and {len(single)} more")
            return
    of = dict(zip(seen, searches, strict=True))
    yield from _paid_delta(of, seen[ALONE].steps[1].charges.get(PERSON, 0))


def _of_deltas(step: Step, paid: dict[Any, int]) -> Step:
    return Step(f"delta of {step.label}", (), paid, frozenset(), [], gaussian=False)


def _deltas(store: Store, ids: list[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return what everybody has paid of delta, and of that with the latest release."""
    rows = store.stream.ledger.notes(DELTAS).to_pylist()
    last = store.stream.ledger.next_id - 1
    paid, now = dict[Any, int](), dict[Any, int]()
    for row in rows:
        who = ids[row[USER]]
        paid[who] = paid.get(who, 0) + row["units"]
        if row["release"] == last:
            now[who] = row["units"]
    return paid, now


def _paid_delta(of: Mapping[str, Search], units: int) -> Iterator[Finding]:
    """The person pays at least the chance that noise lifts an own weight, and not much more."""
    alone, nobody = of[ALONE], of[NOBODY]
    own = [w - nobody.weights.get(key, 0) for key, w in alone.weights.items()]
    chances = [norm.sf((alone.threshold + 0.5 - w) / alone.sigma) for w in own if w]
    some = -math.expm1(sum(math.log1p(-chance) for chance in chances))
    paid = units / UNITS_PER_DELTA
    if paid < some * (1 - 1e-9):
        yield Finding("undercharged", f"paid a delta of {paid:g} for a chance of {some:g}")
    elif paid > sum(chances) * (1 + 1e-6):
        yield Finding("overcharged", f"paid a delta of {paid:g} for a chance of {some:g}")
