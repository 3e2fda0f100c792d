"""Drafts: answers that are measured and not yet charged, and what is written with them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.engine.contributions import Index
from sparseq.engine.protocol import Difference
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import DIFFERENT, CuratorLine, RequestId
from sparseq.ledger.protocol import Entry, Release
from sparseq.ledger.purposes import Pot
from sparseq.released.outputs import Measurements
from sparseq.released.render import key_columns
from sparseq.reuse.answer_cache import Inquiry
from sparseq.sql.plan import Kind, Plan, Query
from sparseq.store.answer import Answer, Facts
from sparseq.stream.stream_progress import Course
from sparseq.version import __version__

# -- facts of all answers of a stream, and of one: who took part -----------------------------------


@dataclass(frozen=True)
class Participation:
    """The people asked, and those active, in a release: private."""

    release: int
    users: Index
    active: NDArray[np.bool_]


@dataclass(frozen=True)
class Terms:
    """Facts that are true of every answer of a stream: public.

    Attributes:
        budget: Of the store.
        seed: Of a simulation; None: the noise is the operating system's.
        losses: How often the store was opened although a part of it was missing.
        course: What the stream of a new store begins with; None: people are in or out.
        rows: The most that a person has in a table, if that was declared.
        aside: Shares of every budget that are for something else.
        unit: Whom an account is for, if not for a person.
    """

    budget: Budget
    seed: int | None = None
    losses: int = 0
    course: Course | None = None
    rows: int | None = None
    unit: str = ""
    aside: tuple[float, ...] = ()


# -- drafts: answers that are measured and not yet charged, and what is written with them ----------


@dataclass(frozen=True)
class Draft:
    """An answer that is measured, and not charged: dropped, it has changed nothing.

    Attributes:
        answer: What is to leave.
        entry: What is to be written with it: private.
        noised: What was measured.
        course: How far the stream has come with it.
        question: What it is the answer to; None: to nothing that may be asked again.
    """

    answer: Answer
    entry: Entry
    noised: Measurements
    course: Course | None
    question: Inquiry | None


def most_charge(plan: Plan) -> float:
    """Return what an in-or-out answer can cost a person at most: public; infinite if unknown."""
    kinds = {m.kind for m in plan.query.measures}
    if plan.query.single and kinds <= {Kind.USERS, Kind.ROWS}:
        return plan.worst_case_charge
    if not kinds <= {Kind.USERS, Kind.DENSE}:
        return math.inf
    bins = max(m.bins for m in plan.query.measures)
    cells = max(plan.query.groups * bins, 1) if Kind.USERS in kinds else 1
    return plan.worst_case_charge * cells


def release_of(plan: Plan, answer: Answer, pot: Pot, request: RequestId | None) -> Release:
    """Return what the journal has of an answer: public."""
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
    """Return what the curator is told of a difference: private."""
    return CuratorLine(
        DIFFERENT,
        f"release {release}: the rows of {names.get(one.user)!s} give another answer alone than "
        f"among all ({one.said}): answers may be wrong, and people charged for others' rows. Stop "
        f"asking, and report it (sparseq {__version__})",
    )


def facts_of(
    plan: Plan, release: int, request: RequestId | None, terms: Terms, series: str
) -> Facts:
    """Return what is public about an answer."""
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
    """Return what the intervals of a weighted answer rest on: see `Facts.interval`."""
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
