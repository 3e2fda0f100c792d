"""Asks a store a session of questions, as an analyst would, and judges the answers."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sparseq
from benchmarks.truth.judge import Floats, Judged, judged
from benchmarks.truth.questions import Question
from benchmarks.truth.sets import EventSet
from checks.stores import made_store
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.base.errors import QueryRefused
from sparseq.stream.full_weight import QUESTION, norm_budget_for


@dataclass(frozen=True)
class Session:
    """The answers of a store.

    Attributes:
        answers: Judged, in order.
        refused: Number of questions without an answer.
        spent_up: Share of people with less than one answer left.
        budget: The store's norm_budget.
    """

    answers: list[Judged]
    refused: int
    spent_up: float
    budget: float


def session(
    events: EventSet,
    questions: Sequence[Question],
    seed: int,
    answers: int | None = None,
    declared: bool = False,
) -> Session:
    """Ask a new store questions, one after another; see `opened`."""
    found, refused = [], 0
    with (
        tempfile.TemporaryDirectory(prefix="sparseq-truth-") as folder,
        opened(Path(folder) / "events.sparseq", events, seed, answers, declared) as con,
    ):
        for question in questions:
            try:
                found.append(asked(con, question))
            except QueryRefused:
                refused += 1
        people = np.arange(con.stream.people.inside(), dtype=np.int32)
        spent_up = con.stream.accounts.left(people) < QUESTION * UNITS_PER_NORM
        budget = con.stream.terms.budget.norm_budget
    return Session(found, refused, float(spent_up.mean()), budget)


def opened(
    path: Path, events: EventSet, seed: int, answers: int | None, declared: bool
) -> sparseq.Store:
    """Create a store of a set, with default settings.

    Args:
        path: Of the store.
        events: The set.
        seed: Of its noise.
        answers: How many are planned; None: the default.
        declared: The most rows of a person are declared, as they are.
    """
    rows = events.rows
    more: dict[str, Any] = {} if answers is None else {"answers": answers}
    if declared:
        more["most"] = {"rows": rows.group_by("person").len()["len"].max()}
    if events.budgets is not None:
        own = events.budgets * norm_budget_for(answers or 60)
        rows = rows.with_columns(budget=own[rows["person"].to_numpy()])
        more |= {"budget_column": "budget", "least_budget": float(own.min())}
    bounds = {"value": (-events.top if events.signed else 0.0, events.top)}
    return made_store(
        path,
        rows.to_arrow(),
        table="events",
        user="person",
        time="day",
        bounds=bounds,
        seed=seed,
        **more,
    )


def asked(con: sparseq.Store, question: Question) -> Judged:
    """Ask one question, and judge the answer."""
    answer = con.sql(question.sql, fresh=True)
    found = by_group(answer.rows(), question.groups)
    facts = answer.facts
    return judged(question.kind, question.truth, found, facts.interval, facts.scale[0])


def by_group(rows: list[dict[str, Any]], groups: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """Return value, low and high by group; infinite bounds for unknown ones."""
    at = {_key(row.get("g", "")): row for row in rows}
    columns = [
        [unknown if at[g][name] is None else at[g][name] for g in groups]
        for name, unknown in (("x", 0.0), ("x_low", -np.inf), ("x_high", np.inf))
    ]
    value, low, high = (np.array(c, float) for c in columns)
    return value, low, high


def _key(value: object) -> str:
    return str(value)[:10] if isinstance(value, dt.date) else str(value)
