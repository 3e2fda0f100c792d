"""Found workloads: questions of the history that are asked again and again.

Questions have one shape if they differ only in dates that move with the day of asking. A shape that
was asked on `LEAST_DAYS` days or more is proposed as a panel: its dates become `:today - n`. Only
the release log is read, which is public.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from sparseq.base.errors import SparseqError
from sparseq.dashboards.common_cells import board_of
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.refresh import morning_cost
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Release
from sparseq.store.store import Store

LEAST_DAYS = 5
_DATE = re.compile(r"(?:DATE\s*)?'(\d{4}-\d{2}-\d{2})'", re.IGNORECASE)
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class FoundPanel:
    """A question that was asked on several days.

    Attributes:
        sql: Its text, with `:today - n` in place of dates.
        days: Number of days on which it was asked.
        asked: Number of releases.
        last: The day of the last one.
        cost: The most that a release charged an account, in the median of its releases.
    """

    sql: str
    days: int
    asked: int
    last: dt.date
    cost: float


@dataclass(frozen=True)
class FoundWorkload:
    """The questions that a dashboard could answer.

    Attributes:
        panels: The questions.
        board_cost: The mean cost of a dashboard's morning to a user at most.
    """

    panels: tuple[FoundPanel, ...]
    board_cost: float

    @property
    def cost(self) -> float:
        """The most that the questions cost a user on a morning on which all of them are asked."""
        return sum(panel.cost for panel in self.panels)

    def toml(self) -> str:
        """Return the file of the dashboard."""
        parts = [
            f"[[panel]]\ntitle = {json.dumps(f'Panel {i}')}\nsql = {json.dumps(panel.sql)}\n"
            for i, panel in enumerate(self.panels, 1)
        ]
        return "\n".join(parts)


def find_workload(store: Store) -> FoundWorkload:
    """Return the questions in a store's history that a dashboard could answer."""
    kept: list[FoundPanel] = []
    numbers = 0
    for panel in found_panels(store.releases(), store):
        board = Dashboard.of(
            "found",
            {"panel": [{"title": str(i), "sql": p.sql} for i, p in enumerate([*kept, panel])]},
        )
        try:
            numbers = len(board_of(store, board, panel.last).numbers)
        except SparseqError:
            continue
        kept.append(panel)
    return FoundWorkload(tuple(kept), morning_cost(numbers))


def found_panels(releases: Iterable[Release], store: Store) -> list[FoundPanel]:
    """Return the questions that were asked on several days, the dearest first."""
    shapes: dict[str, list[tuple[dt.date, float]]] = defaultdict(list)
    for release in releases:
        if release.pot is Pot.QUERIES:
            day = release.released_at.date()
            charge = store.release(release.id).facts.charge
            shapes[shape_of(release.query, day)].append((day, charge))
    found = [
        FoundPanel(
            sql,
            len({day for day, _ in asked}),
            len(asked),
            max(asked)[0],
            median(c for _, c in asked),
        )
        for sql, asked in shapes.items()
        if ":today" in sql
    ]
    several = [one for one in found if one.days >= LEAST_DAYS]
    return sorted(several, key=lambda one: (-one.cost * one.asked, one.sql))


def shape_of(sql: str, day: dt.date) -> str:
    """Return a question with its dates as distances from the day on which it was asked.

    Example:
        >>> shape_of("SELECT 1 FROM t WHERE d >= DATE '2024-02-02'", dt.date(2024, 3, 1))
        'SELECT 1 FROM t WHERE d >= :today - 28'
        >>> shape_of("SELECT 1 FROM t WHERE d < DATE '2024-03-01'", dt.date(2024, 3, 1))
        'SELECT 1 FROM t WHERE d < :today'
    """

    def moved(found: re.Match[str]) -> str:
        try:
            past = (day - dt.date.fromisoformat(found[1])).days
        except ValueError:
            return found[0]
        return f":today - {past}" if past > 0 else ":today" if past == 0 else f":today + {-past}"

    return _SPACES.sub(" ", _DATE.sub(moved, sql)).strip()
