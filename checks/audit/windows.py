"""Neighbouring stores with accounts by window: one month of a person, or all of it, or not.

As in `series`, each step is done to four stores, with the first one's outputs frozen in the others.
There are three kinds of neighbours:

    month       the rows of one window of a person; the person's other windows are the crowd's
    person      under a cap over all windows: all of a person, charged to the account for life
    capped      under such a cap, one window: contributions of other people may change, but all the
                changes are worth at most 3 budgets of a window (docs/theorems/windows.md)
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa

from checks.audit.comparison import UNITS, Finding, Terms, compare, told_free
from checks.audit.neighbours import ALONE, VARIANTS, WITH, WITHOUT
from checks.audit.seams import Seen
from checks.audit.trial import Act, Trial
from checks.stores import made_store
from sparseq.question.plan import Options, Query
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.store.curator import forget
from sparseq.store.store import Store

KINDS = ("month", "person", "capped")
STEPS = 40
PERSON, KNOWN = 5_000, 7
FIRST, DAYS = dt.date(2024, 1, 25), 40
APART = (
    "SELECT count(*) AS n FROM t WHERE day = DATE '{day}'",
    "SELECT s, count(*) AS n FROM t WHERE day = DATE '{day}' GROUP BY s",
    "SELECT sum(x) AS n, count(DISTINCT who) AS m FROM t WHERE day = DATE '{day}'",
    "SELECT day, sum(x) AS n FROM t WHERE day BETWEEN DATE '{day}' AND DATE '{late}' GROUP BY day",
    "SELECT day::TIMESTAMP AS k, count(*) AS n, sum(x) AS y FROM t "
    "WHERE day BETWEEN DATE '{early}' AND DATE '{day}' GROUP BY k",
)
TOGETHER = (
    "SELECT count(*) AS n FROM t",
    "SELECT sum(x) AS n FROM t WHERE day BETWEEN DATE '{early}' AND DATE '{late}'",
    "SELECT s, count(*) AS n FROM t WHERE day >= DATE '{day}' GROUP BY s",
    "SELECT avg(x) AS n FROM t WHERE x > 2",
    "SELECT count(DISTINCT {user}) AS n FROM t WHERE day < DATE '{day}'",
    "SELECT count(*) AS n FROM (SELECT {user}, count(*) AS c FROM t GROUP BY 1) AS i WHERE c > 1",
)
NEARLY = (
    "SELECT count(DISTINCT {user}) AS n FROM t WHERE day >= DATE '{begun}' "
    "AND date_trunc('{longer}', day) < DATE '{day}'",
    "SELECT count(DISTINCT {user}) AS n, sum(x) AS m FROM t WHERE day < DATE '{next}' "
    "AND date_trunc('{longer}', day) >= date_trunc('{longer}', DATE '{begun}')",
    "SELECT count(DISTINCT {user}) AS n FROM t WHERE day >= DATE '{begun}' AND year(day) < 2024.4",
)
"""Conditions that a careless reader takes for ones of one window."""
LONGER = {
    "day": ("week", "month", "year"),
    "week": ("month", "quarter", "year"),
    "month": ("quarter", "year"),
}
_SCHEMA = pa.schema(
    [("who", pa.int64()), ("day", pa.date32()), ("s", pa.string()), ("x", pa.float64())]
)
Row = dict[str, object]


def run(trial: Trial, neighbours: str = "", steps: int = STEPS) -> Iterator[Finding]:
    """Let four stores live; yield what breaks a rule, with all that was done before."""
    life = Life(trial.rng, neighbours or trial.rng.choice((*KINDS, "person", "person")))
    with contextlib.ExitStack() as stack:
        stores = {v: stack.enter_context(life.store()) for v in VARIANTS}
        story = f"{life.neighbours} {life.window} {life.options}"
        yield from trial.life(story, stores, (life.step() for _ in range(steps)), life.check)


class Life:
    """The life of four stores, drawn at random: public except for the rows.

    Args:
        rng: Source of the choices.
        neighbours: One of `KINDS`.

    Attributes:
        who: The identifier in which neighbours differ.
    """

    def __init__(self, rng: random.Random, neighbours: str) -> None:
        self._rng, self.neighbours = rng, neighbours
        self.window = rng.choice(("month", "month", "week", "day"))
        budget = rng.choice((1.0, 3.0, 9.0, 300.0, 300.0))
        self.terms = Terms(0.5, budget)
        self.options: dict[str, object] = {"norm_budget": budget, "seed": rng.randrange(2**31)}
        if neighbours != "month":
            self.options["lifetime_kappa"] = 0.5 * rng.choice((1.0, 1.5, 2.0, 4.0))
        self.options["in_or_out"] = neighbours == "capped" or rng.random() < 0.6
        self.own = self._begun(FIRST + dt.timedelta(rng.randrange(DAYS)))
        self.who = f"{PERSON},{self.own}" if neighbours != "person" else f"{PERSON}"
        self._series: dict[str, CorrelatedSeries] = {}
        self._tick, self._taps = 0, rng.choice(("news:0.5,3", "1,-1,1", "window:3", "1,0,0,-0.7"))
        self._lowered: dict[str, Query] = {}
        self._first = True
        self._worth = Fraction(0)

    def _begun(self, day: dt.date) -> dt.date:
        if self.window == "month":
            return day.replace(day=1)
        return day - dt.timedelta(day.weekday()) if self.window == "week" else day

    def store(self) -> Store:
        """Create one of the four: all begin with the same person."""
        known = pa.Table.from_pylist([{"who": KNOWN, "day": FIRST, "s": "a", "x": 3.5}], _SCHEMA)
        return made_store(
            None,
            known,
            table="t",
            user="who",
            time="day",
            window=self.window,
            keys={"s": ["a", "b"]},
            bounds={"x": (0, 10)},
            **self.options,
        )

    def step(self) -> tuple[str, Act]:
        """Return the next action and its description."""
        rng, first = self._rng, self._first
        self._first = False
        if first or rng.random() < 0.2:
            return self._rows()
        if rng.random() < 0.06:
            return "somebody is erased", lambda _, s: str(forget(s, KNOWN).people)
        if self.neighbours == "month" and self.options["in_or_out"] and rng.random() < 0.3:
            return self._ticked()
        apart = rng.random() < 0.5 or self.neighbours == "capped"
        day = FIRST + dt.timedelta(rng.randrange(DAYS))
        week = dt.timedelta(7)
        sql = rng.choice(APART if apart else rng.choice((TOGETHER, NEARLY))).format(
            day=day,
            early=day - week,
            late=day + week,
            begun=self._begun(day),
            next=self._begun(day) + dt.timedelta(1),
            longer=rng.choice(LONGER[self.window]),
            user=f"who_{self.window}",
        )
        sigma = rng.choice((None, None, 1.5, 4.0)) if self.neighbours == "month" else None
        more = {} if sigma is None or not self.options["in_or_out"] else {"sigma": sigma}
        return f"{sql} {more}", lambda _, s: self._asked(s, sql, Options(**more))

    def check(self, seen: dict[str, Seen]) -> Iterator[Finding]:
        """Yield what breaks a rule, of these neighbours."""
        if self.neighbours != "capped":
            of = over_lives(seen) if self.neighbours == "person" else seen
            yield from compare(of, self.who, self.terms)
            return
        self._worth += differing(seen, self.terms)
        yield from public(seen)
        if self._worth > 3 * self.terms.norm_budget * UNITS:
            yield Finding("a window's promise", f"{float(self._worth / UNITS):.6g}")

    def _asked(self, store: Store, sql: str, options: Options) -> object:
        """Ask as it was lowered in one of the four: `queries` compares how each lowers."""
        if sql not in self._lowered:
            self._lowered[sql] = store.lower(sql)
        return store.ask(self._lowered[sql], options, fresh=True)

    def _ticked(self) -> tuple[str, Act]:
        """A tick of a series under a strategy: its band goes over the ends of windows."""
        tick, self._tick = self._tick, self._tick + 1
        sql = f"SELECT count(*) AS n FROM t WHERE day = DATE '{FIRST + dt.timedelta(tick)}'"

        def ask(variant: str, store: Store) -> object:
            if variant not in self._series:
                self._series[variant] = CorrelatedSeries(store, "s", self._taps)
            got = self._series[variant].ask(tick, store.lower(sql))
            return [got.answer.rows(), got.values.tolist(), got.sigma, got.error]

        return f"tick {tick} of {self._taps}", ask

    def _rows(self) -> tuple[str, Act]:
        """Rows of any days come in, late or not."""
        rng = self._rng
        span = [FIRST + dt.timedelta(d) for d in range(DAYS)]
        some = rng.randint(0, 12)
        crowd = [self._row(rng.randrange(10, 14), rng.choice(span)) for _ in range(some)]
        every = [self._row(PERSON, rng.choice(span)) for _ in range(rng.randint(1, 8))]
        if self.neighbours == "person":
            mine, rest = every, []
        else:
            mine = [r for r in every if self._begun(r["day"]) == self.own]  # type: ignore[arg-type]
            mine += [self._row(PERSON, d) for d in span if self._begun(d) == self.own][:2]
            rest = [r for r in every if self._begun(r["day"]) != self.own]  # type: ignore[arg-type]
        cut = len(crowd) // 2
        crowd = [*crowd[:cut], *rest, *crowd[cut:]]
        of = {WITHOUT: crowd, WITH: [*crowd, *mine], ALONE: mine}

        def take(variant: str, store: Store) -> object:
            store.ingest(pa.Table.from_pylist(of.get(variant, []), _SCHEMA))
            return "taken in"

        return f"{len(crowd)} rows and {len(mine)} of {self.who}", take

    def _row(self, who: int, day: dt.date) -> Row:
        rng = self._rng
        return {"who": who, "day": day, "s": rng.choice("abc"), "x": rng.choice((0.25, 3.5, 9.75))}


def public(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    """Yield it if what anybody sees differs."""
    first = seen[WITHOUT].public
    for variant, one in seen.items():
        if one.public != first:
            yield Finding("answer", f"{WITHOUT} and {variant}: {first!r:.200} {one.public!r:.200}")
            return
    yield from told_free(seen)


def differing(seen: Mapping[str, Seen], terms: Terms) -> Fraction:
    """Return the price of the difference of the sums, in units."""
    worth = Fraction(0)
    for one, other in zip(seen[WITH].steps, seen[WITHOUT].steps, strict=True):
        for (_, sigma, step), a, b in zip(one.noise, one.sums, other.sums, strict=True):
            norm = sum((int(x) - int(y)) ** 2 for x, y in zip(a, b, strict=True))
            worth += norm * terms.price(sigma, step)
    return worth


def over_lives(seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Return the same with each whole person as payer, from the account for life.

    It is not checked for being too much: the total cost of windows is a bound.
    """

    def person(window: object) -> str:
        return str(window).rpartition(",")[0]

    def of(one: Seen) -> Seen:
        steps = [
            replace(
                step,
                charges={person(w): units for w, units in step.lived.items()},
                out=frozenset({person(w) for w in step.out} | {str(PERSON)}),
            )
            for step in one.steps
        ]
        spent = {person(w): units for w, units in one.lived.items()}
        return replace(one, steps=steps, spent={"lived": spent})

    return {variant: of(one) for variant, one in seen.items()}
