"""Drafts: answers that are measured and not yet charged, and their journal entries."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparseq.accounting import MAX_CHARGE, round_up
from sparseq.answers.answer import Answer, Facts
from sparseq.engine.protocol import Difference
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import DIFFERENT, CuratorLine
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId
from sparseq.question.plan import Kind, Plan, Query
from sparseq.released.outputs import Measurements
from sparseq.released.render import key_columns
from sparseq.reuse.answer_cache import Inquiry
from sparseq.stream.participation import Terms
from sparseq.stream.stream_progress import Course
from sparseq.version import __version__


@dataclass(frozen=True)
class Draft:
    """An answer that is measured and not charged; discarding it changes nothing.

    Attributes:
        answer: The answer, which may leave after the commit.
        entry: The journal entry of the answer: private.
        noised: The released numbers.
        course: The stream's course after the answer.
        question: The question for later look-ups; None: the answer is not reused.
    """

    answer: Answer
    entry: Entry
    noised: Measurements
    course: Course | None
    question: Inquiry | None


def most_charge(plan: Plan) -> float:
    """Return the most that an in-or-out answer can cost a user: public; infinite if unknown."""
    kinds = {m.kind for m in plan.query.measures}
    if plan.query.single and kinds <= {Kind.USERS, Kind.ROWS}:
        return plan.worst_case_charge
    if not kinds <= {Kind.USERS, Kind.DENSE}:
        return math.inf
    bins = max(m.bins for m in plan.query.measures)
    cells = max(plan.query.groups * bins, 1) if Kind.USERS in kinds else 1
    return plan.worst_case_charge * cells


def most_units(plan: Plan) -> int | None:
    """Return the same in ledger units, as the ledger rounds it; None: no public fact bounds it."""
    kinds = {m.kind for m in plan.query.measures}
    single = plan.query.single and kinds <= {Kind.USERS, Kind.ROWS}
    if not (single or kinds <= {Kind.USERS, Kind.DENSE}):
        return None
    total = 0
    for measure, noise in zip(plan.query.measures, plan.noise, strict=True):
        cells = 1 if single else max(plan.query.groups * measure.bins, 1)
        norm = cells if measure.kind is not Kind.DENSE else noise.scale**2
        total += noise.price.charge_one(math.ceil(norm / noise.norm_step**2))
    return int(round_up(np.array([min(total, MAX_CHARGE)], np.int64))[0])


def release_of(plan: Plan, answer: Answer, pot: Pot, request: RequestId | None) -> Release:
    """Return the journal's record of an answer: public."""
    return Release(
        answer.facts.release,
        request,
        dt.datetime.now(dt.UTC).replace(tzinfo=None),
        plan.query.text,
        plan.query.coordinates,
        answer.facts.sigma,
        plan.corollary_bounds,
        1 - plan.beta,
        answer.to_bytes(),
        pot,
    )


def difference_line(release: int, one: Difference, names: Mapping[int, Any]) -> CuratorLine:
    """Return the message to the curator about a difference: private."""
    return CuratorLine(
        DIFFERENT,
        f"release {release}: the rows of {names.get(one.user)!s} give another answer alone than "
        f"among all ({one.said}): answers may be wrong, and people charged for others' rows. Stop "
        f"asking, and report it (sparseq {__version__})",
    )


def facts_of(
    plan: Plan, release: int, request: RequestId | None, terms: Terms, series: str
) -> Facts:
    """Return the public facts of an answer."""
    return Facts(
        release=release,
        request_id=None if request is None else str(request),
        query=plan.query.text,
        labels=tuple(m.label for m in plan.query.measures),
        kinds=tuple(m.kind.value for m in plan.query.measures),
        sigma=tuple(n.sigma for n in plan.noise),
        granularity=tuple(n.granularity for n in plan.noise),
        scale=tuple(n.scale for n in plan.noise),
        coordinates=plan.query.coordinates,
        confidence=1 - plan.beta,
        kappa=terms.budget.kappa,
        norm_budget=terms.budget.norm_budget,
        seeded=terms.seed is not None,
        gaussian=terms.budget.gaussian,
        comparisons=plan.query.comparisons,
        losses=terms.losses,
        unit=terms.unit,
        keys_delta=terms.budget.keys_delta,
        notes=plan.query.left_out,
        series=series,
    )


def rests_on(query: Query, course: Course, kind: str) -> str:
    """Return the assumption behind the intervals of a weighted answer: see `Facts.interval`."""
    if not course.sure:
        return "active"
    return "capped" if query.relation.caps else str(kind)


def in_unit(plan: Plan, released: Sequence[Ints]) -> Measurements:
    """Return released lattice integers in the query's unit."""
    measures = [
        np.reshape(total * float(n.granularity), (-1, m.bins))
        for m, n, total in zip(plan.query.measures, plan.noise, released, strict=True)
    ]
    return Measurements(measures, plan.bounds, key_columns(plan.query.domains), plan.query.groups)
