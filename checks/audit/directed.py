"""Questions written for each planted leak, asked of small stores: seconds, for every change."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import sparseq
from checks.audit import windows
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.files import ingested
from checks.audit.neighbours import ALONE, NOBODY, VARIANTS, WITH, WITHOUT, Quartet
from checks.audit.noise import NoiseTest
from checks.audit.planted_stores import FADING, POOR, SMALL, named
from checks.audit.planting import Leak
from checks.audit.seams import Watching
from checks.audit.search import engine_plans, name_counts, search, unjudged
from checks.audit.trial import Ask, Result, Trial
from checks.stores import IN_OR_OUT

PERSON = "5000"
LIVES = (2, 9, 12)
"""Seeds of lives of stores with accounts by window."""


def directed(leak: Leak, planted: bool = True) -> list[Finding]:
    """Return the findings of a leak's own questions, with the leak planted or without.

    Example:
        >>> from checks.audit.planted import LEAKS
        >>> [f.rule for f in directed(LEAKS[3])], directed(LEAKS[3], planted=False)
        (['undercharged'], [])
    """
    if leak.files:
        with leak.plant() if planted else contextlib.nullcontext():
            return sniffed()
    if leak.life:
        with leak.plant() if planted else contextlib.nullcontext():
            return search(leak.seed, math.inf, kinds=(leak.life,), worlds=1).findings
    if leak.windows:
        with leak.plant() if planted else contextlib.nullcontext():
            return lives(leak)
    world, found = FADING if leak.fading else POOR if leak.poor else SMALL, list[Finding]()
    named = any("{c}" in question for question in leak.questions)
    bounds = {"x": (0.0, 100.0)} if named else {}
    world = replace(
        world, options=world.options | {"in_or_out": not leak.weighted, "bounds": bounds}
    )
    terms = Terms(world.options["kappa"], world.options["norm_budget"])
    with contextlib.ExitStack() as stack:
        if planted:
            stack.enter_context(leak.plant())
        watching = stack.enter_context(Watching().entered())
        trial = Trial(random.Random(1), "rich", watching, NoiseTest(), Result(), math.inf)
        quartet = stack.enter_context(Quartet(world))
        found += unjudged(quartet)
        for question in leak.questions:
            if "{c}" in question:
                found += name_counts(trial, quartet, "x", question)
                continue
            seen, wrong = trial.did(quartet.stores, Ask(question))
            found += [*compare(seen, world.who, terms), *wrong]
            found += engine_plans(quartet, seen)
    return found


def lives(leak: Leak) -> list[Finding]:
    """Let stores with accounts by window live, some times, until a leak is found."""
    found: list[Finding] = []
    watching, noise, result = Watching(), NoiseTest(), Result()
    with watching.entered():
        for seed in LIVES:
            rng = random.Random(seed)
            trial = Trial(rng, "windows", watching, noise, result, math.inf)
            found += windows.run(trial, leak.windows, 15)
            if named(found, leak):
                break
    return found


def sniffed() -> list[Finding]:
    """Load a day's file: can the person's date decide how all dates are read?

    The crowd's date can be read in two orders, the person's in one: not the table's.
    """
    first, day = dt.date(2024, 1, 1), dt.date(2024, 2, 1)
    found: list[Finding] = []
    dates, text = "%d/%m/%Y", "02/13/2024"
    crowd, person = [_line(who, day, dates) for who in ("3", "4")], f"{PERSON},{text}"
    rows = {
        WITHOUT: crowd,
        WITH: [crowd[0], person, crowd[1]],
        ALONE: [person],
        NOBODY: [],
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        watching = stack.enter_context(Watching().entered())
        lines = [_line(who, first, dates) for who in ("1", "2")]
        lines.append(_line("1", dt.date(2024, 1, 13), dates))  # so that there is one format
        base = _csv(folder / "base.csv", lines)
        stores = {
            variant: stack.enter_context(
                sparseq.create(
                    None, {"t": [base]}, user="who", time="day", seed=1, purposes=IN_OR_OUT
                )
            )
            for variant in VARIANTS
        }
        files = {
            v: _csv(folder / f"{v}.csv", [_line("2", day, dates), *some])
            for v, some in rows.items()
        }
        watching.all_four(stores, lambda v, s, f=files: ingested(s, f[v], "1", True))
        for asked_day in (day, dt.date(2024, 1, 2)):
            sql = f"SELECT count(*) AS a0 FROM t WHERE day = DATE '{asked_day}'"
            seen = watching.all_four(stores, lambda _, s, q=sql: s.sql(q, fresh=True))
            found += compare(seen, int(PERSON), Terms(0.5, 20.0))
    return found


def _line(who: str, day: dt.date, dates: str) -> str:
    return f"{who},{day.strftime(dates)}"


def _csv(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(["who,day", *lines, ""]))
    return path
