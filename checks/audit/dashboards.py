"""Neighbouring stores refresh the same dashboard: late rows, erasures, more panels, viewers.

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
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.panel_answers import answer_panels
from sparseq.dashboards.refresh import cost_of_refresh, refresh
from sparseq.store.curator import forget
from sparseq.store.store import Store

MORNINGS = 5
PERSON, KNOWN = 5_000, 7
PANELS = (
    "SELECT count(*) AS n FROM t WHERE day = :yesterday",
    "SELECT s, count(*) AS n FROM t WHERE day >= :today - 3 AND day < :today AND s IN ('a', 'b') "
    "GROUP BY s",
    "SELECT sum(x) AS n, count(*) FILTER (WHERE x > 3) AS m FROM t "
    "WHERE day >= :today - 2 AND day < :today",
    "SELECT sum(x) / count(*) AS n FROM t WHERE day >= :week - 7 AND day < :week",
)
_FIRST = dt.date(2024, 1, 7)
_SCHEMA = pa.schema(
    [("who", pa.int64()), ("day", pa.date32()), ("s", pa.string()), ("x", pa.float64())]
)


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores refresh a dashboard; yield what breaks a rule, with all that was done."""
    rng = trial.rng
    counts, seed = rng.choice((1.5, 6.0, 30.0)), rng.randrange(2**31)
    panels = rng.sample(PANELS, rng.choice((1, 2, 4)))
    with contextlib.ExitStack() as stack:
        stores = {v: stack.enter_context(_store(counts, seed)) for v in VARIANTS}
        (part,) = stores[WITHOUT].stream.pots.purposes
        terms = Terms(part.kappa, part.counts)
        steps = (step for n in range(MORNINGS) for step in _steps(rng, n, panels))
        story = f"counts {counts:g}, {panels}"
        yield from trial.life(story, stores, steps, lambda seen: compare(seen, PERSON, terms))


def _store(counts: float, seed: int) -> Store:
    known = pa.Table.from_pylist([_row(KNOWN, _FIRST, "a", 3.5)], _SCHEMA)
    return sparseq.create(
        None,
        {"t": known},
        user="who",
        time="day",
        keys={"s": ["a", "b"]},
        bounds={"x": (0, 10)},
        seed=seed,
        purposes=[sparseq.Purpose("board", 0.5, 2 * MORNINGS, counts)],
    )


def _steps(rng: random.Random, number: int, panels: list[str]) -> Iterator[tuple[str, Act]]:
    """Yield the actions of a morning and their descriptions."""
    today = _FIRST + dt.timedelta(number)
    if rng.random() < 0.9:
        yield _rows(rng, today - dt.timedelta(1), since=rng.random() < 0.6)
    if rng.random() < 0.3:
        yield _rows(rng, today - dt.timedelta(rng.randrange(2, 9)), since=False)
    if rng.random() < 0.15:
        yield "somebody is erased", lambda _, s: str(forget(s, KNOWN).people)
    some = panels[: rng.randint(1, len(panels))]
    board = Dashboard.of("board", {"panel": [{"title": q, "sql": q} for q in some]})

    def ask(_: str, store: Store) -> object:
        price = cost_of_refresh(store, board, today)
        made = refresh(store, board, today)
        shown = answer_panels(made.board, made.nodes)
        return [price, made.releases, [panel.answer.rows() for panel in shown]]

    yield f"{len(some)} panels on {today}", ask
    if rng.random() < 0.3:
        yield "a viewer", ask


def _rows(rng: random.Random, day: dt.date, since: bool) -> tuple[str, Act]:
    """Load rows of a day."""

    def some(who: int) -> dict[str, object]:
        return _row(who, day, rng.choice("abc"), rng.choice((0.25, 3.5, 9.75, 100.0)))

    crowd = [some(rng.randrange(10, 16)) for _ in range(rng.randint(0, 6))]
    person = [some(PERSON) for _ in range(rng.choice((0, 1, 1, 4)))]
    of = {WITHOUT: crowd, WITH: [*crowd, *person], ALONE: person}

    def take(variant: str, store: Store) -> object:
        rows = pa.Table.from_pylist(of.get(variant, []), _SCHEMA)
        store.ingest(rows, since=day if since else None)
        return "taken in"

    return f"rows of {day}, {len(person)} the person's", take


def _row(who: int, day: dt.date, s: str, x: float) -> dict[str, object]:
    return {"who": who, "day": day, "s": s, "x": x}
