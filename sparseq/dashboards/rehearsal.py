"""A rehearsal of a dashboard on data that may be looked at: both ways, morning by morning.

Two copies of a store answer the same panels on the same mornings: one as ordinary questions, the
other from a dashboard's nodes. Each has (almost) the whole budget. Errors are distances to exact
answers, so a rehearsal is for old or public data only. From them follows the verdict: whether the
dashboard pays, and from which morning on.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.panel_answers import answer_panels
from sparseq.dashboards.refresh import refresh
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.store.create import connect
from sparseq.store.curator import exact_sql
from sparseq.store.store import Store
from sparseq.stream.new_purpose import add_purpose

WHOLE = 0.99
"""The share of every budget that the rehearsed dashboard has: the most that a part may have."""
_DAY = dt.timedelta(days=1)
Truths = dict[dt.date, dict[str, list[dict[str, Any]]]]
"""The exact answers of each morning, by panel."""


@dataclass(frozen=True)
class Score:
    """The quality of one answer.

    Attributes:
        error: The distance to the truth, as a part of the truth's length.
        width: The length of half-widths, likewise.
        inside: All true values lie in their intervals.
    """

    error: float
    width: float
    inside: bool


@dataclass(frozen=True)
class AskScores:
    """All answers of one way of asking.

    Attributes:
        scores: By panel, one score a morning.
        charged: The mean charge of a user by morning, as a part of the budget.
        poorest: The remainder of the poorest 1 % of users at the end, as a part of the budget.
    """

    scores: dict[str, list[Score]]
    charged: list[float]
    poorest: float

    def error(self, panel: str, mornings: int) -> float:
        """Return the root mean square error of a panel over the first mornings."""
        return math.sqrt(
            float(np.mean([min(s.error, 3.0) ** 2 for s in self.scores[panel][:mornings]]))
        )

    @property
    def inside(self) -> float:
        """The share of answers with all true values in their intervals."""
        return float(np.mean([s.inside for some in self.scores.values() for s in some]))


@dataclass(frozen=True)
class Rehearsal:
    """Both ways of asking, on the same mornings."""

    one_by_one: AskScores
    board: AskScores
    mornings: int

    def errors(self, mornings: int | None = None) -> dict[str, float]:
        """Return the errors of the dashboard by panel, in those of asking one by one."""
        first = mornings or self.mornings
        return {
            panel: self.board.error(panel, first) / max(self.one_by_one.error(panel, first), 1e-9)
            for panel in self.board.scores
        }

    def mean_error(self, mornings: int | None = None) -> float:
        """Return their geometric mean."""
        logs = [math.log(max(ratio, 1e-9)) for ratio in self.errors(mornings).values()]
        return math.exp(float(np.mean(logs)))

    def mean_width(self) -> float:
        """Return the geometric mean of the dashboard's widths in those of asking one by one."""
        one, board = (
            {k: float(np.mean([s.width for s in some])) for k, some in way.scores.items()}
            for way in (self.one_by_one, self.board)
        )
        logs = [math.log(max(board[k], 1e-9) / max(one[k], 1e-9)) for k in one]
        return math.exp(float(np.mean(logs)))

    def charges(self, mornings: int | None = None) -> float:
        """Return the charges of the dashboard in those of asking one by one."""
        last = (mornings or self.mornings) - 1
        return self.board.charged[last] / max(self.one_by_one.charged[last], 1e-12)

    @property
    def pays_from(self) -> int | None:
        """The first morning from which on errors and charges are no larger; None: never."""
        good = [
            self.mean_error(m) <= 1 and self.charges(m) <= 1 for m in range(1, self.mornings + 1)
        ]
        if not good[-1]:
            return None
        return max((m for m, fine in enumerate(good, 1) if not fine), default=0) + 1


def rehearse(
    path: Path, dashboard: Dashboard, first: dt.date, mornings: int, counts: float
) -> Rehearsal:
    """Ask the panels of a dashboard in both ways on copies of a store.

    Args:
        path: A store with data that may be looked at, in which nothing was asked.
        dashboard: The dashboard.
        first: The first morning.
        mornings: The number of mornings.
        counts: See `Purpose.counts`.

    Raises:
        ParameterError: Something was asked of the store already.
    """
    days = [first + i * _DAY for i in range(mornings)]
    with _copy(path) as store:
        if store.released:
            raise ParameterError(
                f"{path} was asked already, so its budgets are not whole",
                "make a store of old data: sparseq create old.sparseq …",
            )
        truths = {
            day: {p.title: exact_sql(store, p.sql(day)).to_pylist() for p in dashboard.panels}
            for day in days
        }
        one = _ask(store, dashboard, truths, Pot.QUERIES)
    with _copy(path) as store:
        part = add_purpose(store.stream, Purpose(dashboard.name, WHOLE, mornings, counts))
        board = _ask(store, dashboard, truths, Pot(part.answers))
    return Rehearsal(one, board, mornings)


@contextmanager
def _copy(path: Path) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="sparseq-rehearsal-") as folder:
        copied = Path(folder) / path.name
        shutil.copyfile(path, copied)
        with connect(copied) as store:
            yield store


def _ask(store: Store, dashboard: Dashboard, truths: Truths, pot: Pot) -> AskScores:
    """Ask the panels on all mornings, as questions or from nodes."""
    scores: dict[str, list[Score]] = {panel.title: [] for panel in dashboard.panels}
    accounts, level, charged = store.stream.pots[pot], store.stream.part(pot).budget, list[float]()
    worth = level.kappa / store.guarantee.kappa / level.norm_budget / UNITS_PER_NORM
    for day, exact in truths.items():
        if pot is Pot.QUERIES:
            answers = {p.title: store.ask(store.lower(p.sql(day))) for p in dashboard.panels}
        else:
            made = refresh(store, dashboard, day)
            answers = {one.title: one.answer for one in answer_panels(made.board, made.nodes)}
        for title, answer in answers.items():
            scores[title].append(score(answer, exact[title]))
        charged.append(float(np.mean(accounts.spent)) * worth)
    left = (accounts.budgets - accounts.spent) / np.maximum(accounts.budgets, 1)
    return AskScores(scores, charged, float(np.quantile(left, 0.01)))


def score(answer: Answer, truth: Sequence[dict[str, Any]]) -> Score:
    """Return the quality of an answer; a group that only one of both has counts as 0 in the other.

    The score of an answer with several numbers is the mean of their scores.
    """
    table = answer.arrow()
    parts = column_parts(table)
    keys = [name for name, roles in parts.items() if ColumnRole.KEY in roles]
    rows = {tuple(map(str, (row[k] for k in keys))): row for row in table.to_pylist()}
    exact = {tuple(map(str, (row[k] for k in keys))): row for row in truth}
    found = []
    for name, roles in parts.items():
        if ColumnRole.VALUE not in roles:
            continue
        places = [name, roles[ColumnRole.LOW], roles[ColumnRole.HIGH]]
        value, low, high = (
            np.array([float(rows.get(k, {}).get(at) or 0.0) for k in rows]) for at in places
        )
        true = np.array([float(exact.get(k, {}).get(name) or 0.0) for k in rows])
        size = max(float(np.linalg.norm(true)), 1e-9)
        room = 1e-6 * (1 + np.abs(true))
        inside = bool(((low - room <= true) & (true <= high + room)).all())
        error = float(np.linalg.norm(value - true)) / size
        found.append(Score(error, float(np.linalg.norm((high - low) / 2)) / size, inside))
    return Score(
        float(np.mean([s.error for s in found])),
        float(np.mean([s.width for s in found])),
        all(s.inside for s in found),
    )
