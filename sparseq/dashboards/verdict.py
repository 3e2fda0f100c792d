"""The verdict of a rehearsal: whether a dashboard pays, from which morning on, and its command."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sparseq.dashboards.common_cells import board_of
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.refresh import missing_periods, morning_cost
from sparseq.dashboards.rehearsal import Rehearsal
from sparseq.store.store import Store
from sparseq.stream.node_sums import PLANNED

LEAST_MORNINGS = 14
"""Fewer mornings are asked one by one: a dashboard first measures what lies before them."""


@dataclass(frozen=True)
class BoardVerdict:
    """A verdict, in words.

    Attributes:
        pays: The dashboard is better than questions.
        words: The reason, and what to do.
    """

    pays: bool
    words: str


def counts_for(store: Store, dashboard: Dashboard, first: dt.date, mornings: int) -> float:
    """Return the `counts` of a dashboard's part: a quarter of the cost of all planned nodes.

    So users have full weight until they have been in more than a quarter of the nodes.
    """
    board = board_of(store, dashboard, first)
    before = sum(one.cost for one in missing_periods(board, []))
    return round((before + mornings * morning_cost(len(board.numbers))) / PLANNED, 1)


def verdict_of(found: Rehearsal) -> BoardVerdict:
    """Return the verdict of a rehearsal."""
    longer = "ask one by one; or plan longer buckets: panels of weeks in place of days"
    if found.mornings < LEAST_MORNINGS:
        return BoardVerdict(
            False, f"{found.mornings} mornings are too few for a dashboard: {longer}"
        )
    start = found.pays_from
    if start is None:
        return BoardVerdict(False, f"it does not pay within {found.mornings} mornings: {longer}")
    return BoardVerdict(True, f"it pays from morning {start} on")
