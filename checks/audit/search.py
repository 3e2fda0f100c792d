"""The search: question after question to four neighbouring stores, until time is up.

Each world (see `neighbours`) is asked some hundred questions; then the next one follows. Every
question to a pair of neighbours is a case. A finding is asked again on fresh stores, and made
smaller as long as it persists: a query, and two stores.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from checks.audit import (
    chains,
    dashboards,
    keys,
    limits,
    loads,
    meanings,
    oracle,
    purposes,
    sequences,
    series,
    windows,
    wire,
)
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.limits import lowered
from checks.audit.neighbours import (
    VARIANTS,
    WITH,
    WITHOUT,
    Quartet,
    World,
    world,
)
from checks.audit.noise import NoiseTest
from checks.audit.queries import Question, Questions
from checks.audit.seams import Seen, Step, Watching, plan_of, rules_not_judged
from checks.audit.trial import Ask, Result, Trial
from checks.language import functions

QUESTIONS = {"rich": 50, "poor": 25, "small": 30, "loops": 30, "terms": 60}
"""How many a world is asked; the poor have soon spent what they have."""
KINDS = (
    "loads",
    "meanings",
    "chains",
    "moments",
    "series",
    "windows",
    "keys",
    "purposes",
    "poor",
    "loads",
    "files",
    "terms",
    "rich",
    "loads",
    "small",
    "files",
    "windows",
    "meanings",
    "terms",
    "loads",
    "wire",
    "chains",
    "terms",
    "files",
    "rich",
    "loops",
    "windows",
    "terms",
    "dashboards",
)
"""In turns; the first ones take seconds each."""
RUNS = {
    "files": sequences.run,
    "series": series.run,
    "windows": windows.run,
    "wire": wire.run,
    "keys": keys.run,
    "moments": oracle.run,
    "purposes": purposes.run,
    "chains": chains.run,
    "loads": loads.run,
    "meanings": meanings.run,
    "dashboards": dashboards.run,
}
"""Lives; the other kinds are worlds that are asked questions."""
LIMITS = {"small": limits.SMALL, "loops": limits.LOOPS}
"""Of the worlds that go the ways of large stores."""
SHRINKING = 20.0
"""Seconds for making a finding smaller."""
PLANS = 2
"""Of so many questions, the engine's plans of one are compared."""
_LEAST = 30


def search(
    seed: int,
    seconds: float,
    *,
    first: bool = False,
    kinds: tuple[str, ...] = KINDS,
    worlds: int = sys.maxsize,
    report: Callable[[str], None] = lambda _: None,
) -> Result:
    """Search until time is up, or until the first finding.

    Args:
        seed: The same seed asks the same questions of the same stores.
        seconds: Approximate duration: a begun case is finished.
        first: Stop at the first finding.
        kinds: Kinds of worlds, in turn.
        worlds: Largest number of worlds.
        report: Called with the progress.

    Example:
        >>> search(1, 0.5, kinds=("poor",)).findings
        []
    """
    begun, result, noise, turn = time.monotonic(), Result(), NoiseTest(), 0
    watching = Watching()
    with watching.entered():
        while turn < worlds and (left := seconds - (time.monotonic() - begun)) > 0:
            kind = kinds[turn % len(kinds)]
            rng = random.Random(f"{seed}/{turn}")
            run = RUNS.get(kind, _world)
            ends = time.monotonic() + left
            for finding in run(Trial(rng, kind, watching, noise, result, ends)):
                result.seconds = time.monotonic() - begun
                if isinstance(finding, Asking):
                    finding = finding.finding if first else shrunk(*finding, watching)
                found = replace(finding, case=f"seed {seed}, turn {turn}: {finding.case}")
                result.findings.append(found)
                report(f"{found.rule}: {found.detail[:120]}")
                if first:
                    break
            if first and result.findings:
                break
            turn += 1
            report(f"{result.cases:,} cases, {len(result.findings)} findings")
    if not (first and result.findings):
        result.seconds = time.monotonic() - begun
    return result


class Asking(NamedTuple):
    """A finding, and where it was found: it can be made smaller."""

    finding: Finding
    world: World
    question: Question


def _world(trial: Trial) -> Iterator[Asking | Finding]:
    """Ask one world its questions; yield what breaks a rule."""
    rng, kind = trial.rng, trial.kind
    here = world(rng, kind)
    seen_rules: set[str] = set()
    with lowered(LIMITS.get(kind, {})), Quartet(here) as quartet:
        questions = _questions(trial, here, quartet)
        yield from unjudged(quartet)
        for number in range(QUESTIONS[kind]):
            if number and trial.is_over():
                return
            question = questions.question()
            seen, found = trial.did(quartet.stores, Ask(question.sql))
            found += compare(seen, here.who, _terms(here), here.path)
            if here.path and number % PLANS == 0 and not found:
                found += engine_plans(quartet, seen)
            if number % 10 == 3:
                found += _renamed(trial, questions, quartet)
            for finding in found:
                if finding.rule not in seen_rules:
                    seen_rules.add(finding.rule)
                    yield Asking(replace(finding, case=question.sql), here, question)


def _questions(trial: Trial, here: World, quartet: Quartet) -> Questions:
    """Return the questions for a world: "terms" are about one table."""
    if trial.kind != "terms":
        return Questions(trial.rng, functions(), here.values())
    return Questions(trial.rng, functions(), here.values(), 2, plain=True)


def asked(watching: Watching, quartet: Quartet, sql: str) -> dict[str, Seen]:
    """Ask the four stores the same, with the first one's outputs frozen in the others."""
    return watching.all_four(quartet.stores, Ask(sql), sql)


def _terms(here: World) -> Terms:
    return Terms(here.options["kappa"], here.options["norm_budget"])


def unjudged(quartet: Quartet) -> Iterator[Finding]:
    """Yield it if a rule of the optimiser is on that nobody judged: in any store of the four."""
    for name in sorted(rules_not_judged(quartet.stores[WITHOUT])):
        yield Finding("unjudged rule", name)


def engine_plans(quartet: Quartet, seen: dict[str, Seen]) -> Iterator[Finding]:
    """Compare the engine's own plans: they may depend on no value.

    Only if one table is read, as the order of joins follows sizes, which depend on time.
    """
    for sql in seen[WITHOUT].path[:2]:
        if " JOIN " not in sql:
            one, other = (plan_of(quartet.stores[v], sql) for v in (WITHOUT, WITH))
            if one != other:
                yield Finding("engine's plan", f"{one[-150:]!r} against {other[-150:]!r}", sql)


def _renamed(trial: Trial, questions: Questions, quartet: Quartet) -> Iterator[Finding]:
    """Check that a column that a subquery redefines is a new column: its name means nothing.

    The same query under a new name has the same noise, sums and charges. A product that looks up
    declared bounds by name fails here.
    """
    name = trial.rng.choice(("x", "n"))
    term = questions.expressions.term(
        {"x": "float", "n": "int"}[name], {"float": ("x", "a"), "int": ("n", "k")}, 2
    )
    form = trial.rng.choice(("sum", "avg"))
    text = f"SELECT {form}({{c}}) AS a0 FROM (SELECT who, {term.sql} AS {{c}} FROM t) AS i"
    yield from name_counts(trial, quartet, name, text)


def name_counts(trial: Trial, quartet: Quartet, name: str, text: str) -> Iterator[Finding]:
    """Ask a question with `{c}` for a column called `name`, and called otherwise."""
    seen = []
    for column in (name, "zz"):
        one, found = trial.did(quartet.stores, Ask(text.format(c=column)))
        seen.append(one)
        yield from found
    for variant in VARIANTS:
        one, other = (s[variant] for s in seen)
        if any(step.weighted for step in one.steps):
            continue  # pilots of each question have noise of their own, and so has its scale
        noise = [
            [(s.noise, *_sums(s, o)) for s, o in zip(x.steps, y.steps, strict=False)]
            for x, y in ((one, other), (other, one))
        ]
        if one.public[0] != other.public[0] or noise[0] != noise[1]:
            shown = [
                x.public[0] + str([n for n, *_ in some])
                for x, some in zip((one, other), noise, strict=True)
            ]
            detail = f"{shown[0]} as {name}, {shown[1]} as zz: {text.format(c=name)}"
            yield Finding("a name counts", detail)
            return


def _sums(step: Step, other: Step) -> list[list[int]]:
    """Return a step's sums; none where somebody could pay but once."""
    return [s.tolist() for s in step.sums] if step.out == other.out else []


def shrunk(finding: Finding, here: World, question: Question, watching: Watching) -> Finding:
    """Return a finding with the smallest query and rows that still show it on fresh stores."""
    ends = time.monotonic() + SHRINKING

    def shows(some: World, sql: str) -> bool:
        try:
            with Quartet(some) as quartet:
                seen = asked(watching, quartet, sql)
                found = [*compare(seen, some.who, _terms(some), some.path)]
                if some.path and finding.rule == "engine's plan":
                    found += engine_plans(quartet, seen)
        except Exception:  # too small to be made
            return False
        return any(f.rule == finding.rule for f in found)

    if finding.rule in ("noise", "a name counts"):
        return replace(finding, case=question.sql)
    if not shows(here, question.sql):
        return replace(finding, case=f"not on fresh stores, after others: {question.sql}")
    again = True
    while again and time.monotonic() < ends:
        again = False
        for less in question.smaller():
            if time.monotonic() > ends:
                break
            if shows(here, less.sql):
                question, again = less, True
                break
    again = True
    while again and time.monotonic() < ends:
        again = False
        for fewer in here.smaller():
            if time.monotonic() < ends and shows(fewer, question.sql):
                here, again = fewer, True
                break
    return replace(finding, case=question.sql, reproduction=reproduction(here, question.sql))


def reproduction(here: World, sql: str) -> str:
    """Return a script that opens both stores and asks them."""
    own = {i: here.own[i] for i in sorted(here.own)} if here.own else {}
    return "\n".join(
        [
            "import datetime",
            "from math import inf, nan",
            "from checks.audit.neighbours import World",
            f"world = World({dict(here.crowd)!r},",
            f"              {dict(here.person)!r},",
            f"              {here.who!r}, {dict(here.options)!r}, {own!r})",
            f"for variant in ({WITHOUT!r}, {WITH!r}):",
            "    try:",
            f"        print(variant, world.open(variant).sql({sql!r}).arrow())",
            "    except Exception as error:",
            "        print(variant, type(error).__name__, error)",
        ]
    )
