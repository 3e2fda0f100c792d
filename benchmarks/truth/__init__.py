"""Coverage of intervals: sessions of questions to a store with default settings.

    python -m benchmarks truth --json                      60 questions of all kinds on every set
    python -m benchmarks.truth --session some240 --sets cdnow,flights
    python -m benchmarks.truth --adversarial [--declared]

Every question is asked in SQL of a store on disk; the truth is that of the same SQL in plain
DuckDB. The store is compared with the best choice in hindsight: `benchmarks.truth.fixed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scipy.special import betaincinv

from benchmarks.truth.asking import session
from benchmarks.truth.fixed import best_fixed
from benchmarks.truth.judge import Judged, standard_error, summary
from benchmarks.truth.made import HARD, made
from benchmarks.truth.questions import EVERY, GROUPS, MIXED, SAME, SOME, SUMS, Asker, Shape
from benchmarks.truth.sets import REAL, EventSet

SMALL = 2000
"""People under whom error is only held beside the best fixed C's."""


@dataclass(frozen=True)
class Plan:
    """A session of questions.

    Attributes:
        kinds: Kinds of questions.
        length: Number of questions.
        planned: Number of answers that the store is created for; None: the default.
        inside: The least coverage.
    """

    kinds: Mapping[str, Shape]
    length: int
    planned: int | None = None
    inside: float = 0.95


SESSIONS = {
    "every60": Plan(EVERY, 60),
    "every180": Plan(EVERY, 180, inside=0.93),
    "mixed60": Plan(MIXED, 60),
    "mixed240": Plan(MIXED, 240, 240),
    "some240": Plan(SOME, 240, 240),
    "mixed90": Plan(MIXED, 90, inside=0.93),
    "mixed180": Plan(MIXED, 180, inside=0.93),
    "mixed360": Plan(MIXED, 360, 240, inside=0.93),
    "mixed720": Plan(MIXED, 720, 240, inside=0.93),
    "same96": Plan(SAME, 96, inside=0.93),
    "sums60": Plan(SUMS, 60, inside=0.93),
    "groups60": Plan(GROUPS, 60, inside=0.93),
    "one60": Plan({"rows over a value": MIXED["rows over a value"]}, 60, inside=0.93),
}


ASIDE = {
    ("mixed240", "cdnow"): {"beside_worst": 1.0},
    ("some240", "cdnow"): {"beside_worst": 0.85},
    ("mixed240", "flights"): {"beside_fixed": 1.3},
    ("some240", "flights"): {"beside_fixed": 1.7},
}
"""Limits of long sessions, by set."""


def limits(session: str, events: EventSet) -> dict[str, float]:
    """Return the most that figures of a session may be."""
    if session not in ("every60", "mixed60"):
        return ASIDE.get((session, events.name), {})
    if session == "every60":
        if events.people < SMALL:
            return {"beside_fixed": 1.3, "half": 0.6}
        return {"error_90": 0.3, "half": 0.12, "beside_fixed": 1.25}
    if events.people < SMALL:
        return {"beside_fixed": 1.4}
    error, half = (0.04, 0.18) if events.name == "flights" else (0.025, 0.12)
    return {"error": error, "error_90": 0.3, "half": half, "cell": half, "beside_fixed": 1.5}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a set's sessions.

    Attributes:
        events, plan: The set, and the sessions.
        answers: Answers of the store.
        fixed, worst: Answers by the best fixed C, and by worst-case composition if it is compared.
        refused: Number of questions without an answer.
        spent_up: Share of people with less than one answer left at the end.
    """

    events: EventSet
    plan: Plan
    answers: list[Judged] = field(default_factory=list)
    fixed: list[Judged] = field(default_factory=list)
    worst: list[Judged] = field(default_factory=list)
    refused: int = 0
    spent_up: float = 0.0


def outcome(
    events: EventSet,
    plan: Plan,
    seeds: Sequence[int],
    beside: bool = True,
    declared: bool = False,
) -> Outcome:
    """Ask a set's sessions.

    Args:
        events: The set.
        plan: The session.
        seeds: One session each.
        beside: True to answer them by the best fixed C as well.
        declared: True if the most rows of a person are declared.
    """
    asker, people, spent = Asker(events), events.people, []
    found = Outcome(events, plan)
    refused = 0
    for seed in seeds:
        questions = asker.session(plan.kinds, plan.length, seed)
        done = session(events, questions, seed, plan.planned, declared)
        found.answers.extend(done.answers)
        spent.append(done.spent_up)
        refused += done.refused
        if beside:
            found.fixed.extend(best_fixed(questions, people, done.budget, seed))
            if plan.planned:
                found.worst.extend(best_fixed(questions, people, 0.0, seed, plan.length))
    return Outcome(
        events, plan, found.answers, found.fixed, found.worst, refused, sum(spent) / len(spent)
    )


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures of 60 questions of all kinds on every real set."""
    yield from real("every60", tuple(REAL), 5)


def real(name: str, sets: Sequence[str], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a session on some of the real sets."""
    for one in sets:
        found = outcome(REAL[one](), SESSIONS[name], range(seeds))
        yield from _figures(name, found)


def adversarial(
    sets: Sequence[str], seeds: int, declared: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the figures of 60 mixed questions on adversarial sets.

    Args:
        sets: Their names.
        seeds: Sessions of each.
        declared: The most rows of a person are; then all answers together hold the truth.
    """
    title, every = "declared" if declared else "adversarial", []
    for one in sets:
        found = outcome(made(one), SESSIONS["mixed60"], range(seeds), False, declared)
        every += found.answers
        name = f"truth.{title}.{one.replace(' ', '_')}"
        yield from _coverage(name, found, None if declared or one in HARD else 0.93)
        got = summary(found.answers)
        yield _at_most(f"{name}.error", got.error, "median")
        yield _at_most(f"{name}.half", got.half, "median half-width")
    if declared:
        inside = sum(a.inside for a in every)
        limit = upper_limit(inside, len(every))
        yield {
            "name": "truth.declared.inside",
            "figure": inside / len(every),
            "unit": f"of {len(every):,} answers; at most {limit:.4f} with 99 % confidence",
            "limit": ">= 0.95 at most",
            "ok": limit >= 0.95,
        }


def upper_limit(inside: int, answers: int, confidence: float = 0.99) -> float:
    """Return the upper confidence limit of a share (Clopper & Pearson 1934).

    Example:
        >>> round(upper_limit(1880, 2000), 4)
        0.9517
    """
    if inside == answers:
        return 1.0
    return float(betaincinv(inside + 1, answers - inside, confidence))


def _figures(session: str, found: Outcome) -> Iterator[dict[str, Any]]:
    name = f"truth.{session}.{found.events.name}"
    got, best = summary(found.answers), summary(found.fixed)
    compared = {a.kind for a in found.fixed}
    linear = summary([a for a in found.answers if a.kind in compared])
    yield from _coverage(name, found, found.plan.inside)
    yield _at_most(f"{name}.refused", found.refused, "questions", 0)
    yield _at_most(f"{name}.spent_up", found.spent_up, "of the people", 0.01)
    most = limits(session, found.events)
    of = {"error": [a.error for a in found.answers], "half": [a.half for a in found.answers]}
    unsure = {k: f"median, standard error {standard_error(some):.2g}" for k, some in of.items()}
    seen = {
        "error": (got.error, unsure["error"]),
        "error_90": (got.error_90, "90th percentile"),
        "half": (got.half, unsure["half"]),
        "cell": (got.cell, "median half-width of a value"),
        "some_marked": (got.some_marked, f"of the answers; {best.some_marked:.3g} by best fixed C"),
        "all_marked": (got.all_marked, f"of the answers; {best.all_marked:.3g} by best fixed C"),
        "beside_fixed": (
            linear.error / best.error,
            "x error of best fixed C, of what it can answer",
        ),
        "half_beside_fixed": (
            linear.half / best.half,
            "x half-width of whoever knows what the best fixed C cuts",
        ),
    }
    if found.worst:
        worst = summary(found.worst).error
        seen["beside_worst"] = got.error / worst, "x error of worst-case composition"
    for figure, (value, unit) in seen.items():
        yield _at_most(f"{name}.{figure}", value, unit, most.get(figure))
    yield from _by_sixty(name, found)
    for title, some in (("best_fixed", found.fixed), ("worst_case", found.worst)):
        if some:
            yield _at_most(f"{name}.{title}", summary(some).error, "median error") | _parts(some)


def _by_sixty(name: str, found: Outcome) -> Iterator[dict[str, Any]]:
    """Yield the figures of each sixty questions of a session, one after the other."""
    length = found.plan.length
    if length == 60 or found.refused:
        return
    for first in range(0, length, 60):
        some = [a for i, a in enumerate(found.answers) if first <= i % length < first + 60]
        got = summary(some)
        title = f"{name}.{first + 1}_to_{first + 60}"
        yield _at_most(f"{title}.half", got.half, f"{got.inside:.1%} inside, {got.error:.1%} off")


def _coverage(name: str, found: Outcome, least: float | None) -> Iterator[dict[str, Any]]:
    """Yield the share of answers that hold the truth, in all of their values."""
    inside, n = sum(a.inside for a in found.answers), len(found.answers)
    yield {
        "name": f"{name}.inside",
        "figure": inside / n,
        "unit": f"of {n:,} answers",
        "limit": None if least is None else f">= {least:g}",
        "ok": least is None or inside >= least * n,
        "upper_limit": upper_limit(inside, n),
        **_parts(found.answers),
    }


def _parts(answers: Sequence[Judged]) -> dict[str, Any]:
    """Return a summary, in all and by kind, for a figure."""
    kinds = sorted({a.kind for a in answers})
    return {
        "summary": asdict(summary(answers)),
        "intervals": dict(Counter(a.interval for a in answers)),
        "kinds": {k: asdict(summary([a for a in answers if a.kind == k])) for k in kinds},
    }


def _at_most(name: str, figure: float, unit: str, most: float | None = None) -> dict[str, Any]:
    limit = None if most is None else f"<= {most:g}"
    ok = most is None or figure <= most
    return {"name": name, "figure": figure, "unit": unit, "limit": limit, "ok": ok}
