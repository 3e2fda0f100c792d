"""A purpose that is added later, and receives a share of every user's budget left for questions.

The move is one release of the stream, without noise because it contains nothing about users. Each
user is charged floor(share · left), a function of the user's own account, and receives exactly that
in the new part. A user's total over all parts is unchanged, so the filters of Algorithm 2 (Feldman
& Zrnic 2021) still add up: see docs/theorems/purposes.md. The charges are in the journal; a
store that opens computes the accounts of the purpose from them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.answers.answer import Answer, Facts
from sparseq.base.cancellation import check
from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import ParameterError
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import Fact, Note
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import PURPOSES, Purpose, kept, later
from sparseq.ledger.releases import Entry, Release
from sparseq.stream.budget_part import charges_for, course_after_move, of_purpose
from sparseq.stream.step import Stream


def add_purpose(stream: Stream, asked: Purpose) -> Purpose:
    """Give a series a share of every user's remaining budget; it is durable on return.

    Args:
        stream: The store's stream.
        asked: The requested purpose; its share is of the remaining budgets for questions.

    Returns:
        The purpose, with its number and level.

    Raises:
        ParameterError: A purpose of that name exists, or the remaining budget is unknown.
    """
    with stream.lock:
        stream.flush()
        purpose = foreseen(stream, asked)
        users = np.flatnonzero(stream.accounts.budgets > 0).astype(np.int32)
        moved = charges_for(stream.accounts.left(users), asked.share)
        entry = _entry(stream, purpose, users, moved)
        course = stream.course
        check()
        stream.half_done = True
        stream.charge(entry, None if course is None else course_after_move(course, asked.share))
        stream.pots.move(purpose, users, moved)
        stream.parts |= {part.pot: part for part in of_purpose(purpose, stream.terms)}
        stream.half_done = False
        stream.flush()
        return purpose


def foreseen(stream: Stream, asked: Purpose) -> Purpose:
    """Return the purpose that `add_purpose` would add now, or raise its errors; change nothing."""
    if stream.ledger.lifetimes is not None or stream.accounts.halt:
        raise ParameterError(
            "budgets that end for good can't be parted afterwards",
            "say what a store is for when it is made: create --for",
        )
    pots, budget = stream.pots, stream.terms.budget
    shares = [*stream.terms.aside, *(p.share for p in pots.purposes if not p.came)]
    left = 1 - sum(map(Fraction, shares), Fraction())
    for earlier in pots.purposes:
        if earlier.came:
            left *= 1 - Fraction(earlier.share)
    least = 0.0 if stream.course is None else stream.course.about(None).least_left
    return later(asked, pots.purposes, budget, left, least, stream.next_release)


def _entry(stream: Stream, purpose: Purpose, users: Index, moved: Ints) -> Entry:
    """Return the release: public words, and private charges."""
    words = (
        f"{purpose.name} has {purpose.share:.0%} of what everybody had left for questions, "
        f"for {purpose.ticks} ticks"
    )
    told = {"series": purpose.name, "share": purpose.share}
    release = quiet_release(stream, purpose.came, words, told)
    later_ones: Sequence[Purpose] = [p for p in stream.pots.purposes if p.came]
    notes: list[Note] = [Fact(PURPOSES, kept([*later_ones, purpose]))]
    if stream.course is not None:
        course = course_after_move(stream.course, purpose.share)
        notes.append(Fact(stream.parts[Pot.QUERIES].key, course.to_dict()))
    return Entry(release, users, moved, notes=tuple(notes))


def quiet_release(
    stream: Stream, number: int, words: str, told: Mapping[str, Any], pot: Pot = Pot.QUERIES
) -> Release:
    """Return a release without noise, which contains public words and nothing about users.

    Args:
        stream: The store's stream.
        number: The number of the release.
        words: The text for the history.
        told: The columns of its answer's one row.
        pot: The pot that is charged for it.
    """
    budget = stream.terms.budget
    facts = Facts(
        number,
        None,
        words,
        (),
        (),
        (),
        (),
        (),
        0,
        CONFIDENCE,
        budget.kappa,
        budget.norm_budget,
        stream.terms.seed is not None,
        budget.gaussian,
        losses=stream.terms.losses,
        unit=stream.terms.unit,
        keys_delta=budget.keys_delta,
    )
    answer = Answer(pa.table({name: [value] for name, value in told.items()}), facts)
    at = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    return Release(number, None, at, words, 0, (), (), CONFIDENCE, answer.to_bytes(), pot)
