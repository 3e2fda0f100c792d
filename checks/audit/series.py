"""Neighbouring stores measure the same series under a strategy: late rows, erasures, restarts.

As in `sequences`, each step is done to four stores, the first one's outputs frozen in the others.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from collections.abc import Iterator

import pyarrow as pa

import sparseq
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.neighbours import ALONE, VARIANTS, WITH, WITHOUT
from checks.audit.trial import Act, Trial
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.store.curator import forget
from sparseq.store.store import Store

TICKS = 9
PERSON, KNOWN = 5_000, 7
STRATEGIES = ("none", "news:0.5,3", "news:0.9,2,0.5", "window:3", "sqrt:5", "1,-1,1", "1,0,0,-0.7")
QUERIES = (
    "SELECT count(DISTINCT who) AS n FROM t WHERE day = DATE '{}'",
    "SELECT s, count(*) AS n FROM t WHERE day = DATE '{}' GROUP BY s",
    "SELECT sum(least(greatest(x, 0), 10)) AS n FROM t WHERE day = DATE '{}'",
)
ANALYST = "SELECT count(DISTINCT who) AS n FROM t"
_FIRST = dt.date(2024, 1, 1)
_SCHEMA = pa.schema(
    [("who", pa.int64()), ("day", pa.date32()), ("s", pa.string()), ("x", pa.float64())]
)


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores measure a series; yield what breaks a rule, with all that was done before."""
    rng = trial.rng
    budget, query, strategy = rng.choice((1.5, 4.0, 12.0)), rng.choice(QUERIES), _taps(rng)
    terms, series, seed = Terms(0.5, budget), dict[str, CorrelatedSeries](), rng.randrange(2**31)
    with contextlib.ExitStack() as stack:
        stores = {v: stack.enter_context(_store(budget, seed)) for v in VARIANTS}
        steps = (s for tick in range(TICKS) for s in _steps(rng, tick, query, strategy, series))
        story = f"{strategy} on {budget:g}, {query}"
        yield from trial.life(story, stores, steps, lambda seen: compare(seen, PERSON, terms))


def _taps(rng: random.Random) -> str:
    """Return a strategy: a known one, or any taps."""
    if rng.random() < 0.6:
        return rng.choice(STRATEGIES)
    return ",".join(["1", *(f"{rng.uniform(-1, 1):.3f}" for _ in range(rng.randint(1, 5)))])


def _store(budget: float, seed: int) -> Store:
    known = pa.Table.from_pylist([_row(KNOWN, _FIRST, "a", 3.5)], _SCHEMA)
    return sparseq.create(
        None,
        {"t": known},
        user="who",
        keys={"s": ["a", "b"]},
        bounds={"x": (0, 10)},
        seed=seed,
        purposes=[sparseq.Questions(in_or_out=True, counts=budget)],
    )


def _steps(
    rng: random.Random, tick: int, query: str, strategy: str, series: dict[str, CorrelatedSeries]
) -> Iterator[tuple[str, Act]]:
    """Yield the actions of a tick and their descriptions."""
    if rng.random() < 0.9:
        yield _rows(rng, tick, late=False)
    if tick and rng.random() < 0.4:
        yield _rows(rng, tick, late=True)
    if rng.random() < 0.15:
        yield "somebody is erased", lambda _, s: str(forget(s, KNOWN).people)
    if rng.random() < 0.15:
        yield "an analyst", lambda _, s: s.sql(ANALYST, fresh=True)
    if rng.random() < 0.2:
        yield "a restart", lambda v, _: str(series.pop(v, None) is not None)

    def ask(variant: str, store: Store) -> object:
        if variant not in series:
            series[variant] = CorrelatedSeries(store, "s", strategy)
        asked = store.lower(query.format(_FIRST + dt.timedelta(tick)))
        got = series[variant].ask(tick, asked)
        return [got.answer.rows(), got.values.tolist(), got.sigma, got.error]

    yield f"tick {tick}", ask


def _rows(rng: random.Random, tick: int, late: bool) -> tuple[str, Act]:
    """Load rows of a tick, or of the one before it."""
    day = _FIRST + dt.timedelta(tick - late)

    def some(who: int) -> dict[str, object]:
        return _row(who, day, rng.choice("abc"), rng.choice((0.25, 3.5, 9.75, 100.0)))

    crowd = [some(rng.randrange(10, 16)) for _ in range(rng.randint(0, 6))]
    person = [some(PERSON) for _ in range(rng.choice((0, 1, 1, 2)))]
    of = {WITHOUT: crowd, WITH: [*crowd, *person], ALONE: person}

    def take(variant: str, store: Store) -> object:
        store.ingest(pa.Table.from_pylist(of.get(variant, []), _SCHEMA))
        return "taken in"

    return f"{'late ' * late}rows of {day}, {len(person)} the person's", take


def _row(who: int, day: dt.date, s: str, x: float) -> dict[str, object]:
    return {"who": who, "day": day, "s": s, "x": x}
