"""Drafts: answers that are measured and not yet charged, and what is written with them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparseq.answer import Answer
from sparseq.engine.protocol import Difference
from sparseq.ledger.entry import Entry, Release
from sparseq.ledger.notes import DIFFERENT, CuratorLine
from sparseq.ledger.pots import Pot
from sparseq.ledger.request_id import RequestId
from sparseq.query.outputs import Measurements
from sparseq.query.plan import Kind, Plan
from sparseq.stream.course import Course
from sparseq.stream.recall import Inquiry
from sparseq.version import __version__


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
    if not kinds <= {Kind.USERS, Kind.DENSE}:
        return math.inf
    cells = max(plan.query.groups, 1) if Kind.USERS in kinds else 1
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
