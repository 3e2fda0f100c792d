"""Stores in one line, for tests and benchmarks, with keyword arguments for questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sparseq

IN_OR_OUT = [sparseq.Questions(in_or_out=True)]
"""Purposes of a store whose questions leave people out."""
_OF_QUESTIONS = {
    "in_or_out": "in_or_out",
    "halt": "halt",
    "answers": "answers",
    "norm_budget": "counts",
    "keys_delta": "keys_delta",
}
_PAIRS = {"lifetime_kappa": "window", "least_budget": "budget_column"}
"""Numbers that belong to the name that another option says."""


def made_store(
    path: Any,
    source: Any = None,
    *,
    table: str | None = None,
    tables: Mapping[str, Any] | None = None,
    reserves: Mapping[str, float] | None = None,
    purposes: Sequence[sparseq.Purpose | sparseq.Questions] = (),
    **options: Any,
) -> sparseq.Store:
    """Return a store from `sparseq.create`.

    Args:
        path, source: See `sparseq.create`.
        table: Name of the source's table.
        tables: Sources by the names of their tables, in addition or instead.
        reserves: Shares that are set aside from questions.
        purposes: Series.
        options: Of `sparseq.create`, or of `sparseq.Questions`; `lifetime_kappa` goes with a
            window, `least_budget` with the column of own budgets.
    """
    said = dict[str, Any](reserves or {})
    for name, now in _OF_QUESTIONS.items():
        if name in options:
            said[now] = options.pop(name)
    if said:
        purposes = [*purposes, sparseq.Questions(**said)]
    for number, name in _PAIRS.items():
        if (given := options.pop(number, None)) is not None:
            options[name] = options[name], given
    named = {} if table is None or source is None else {table: source}
    rows = {**tables, **named} if tables is not None else named or source
    return sparseq.create(path, rows, purposes=purposes, **options)
