"""The same log under worst-case composition and under individual accounting: for the curator.

Everything here looks at exact values and at who is left out; nothing of it is released, charged or
written to the store. What it shows is for data that the curator may look at, and never for an
analyst. Accounts start from nothing, whatever the store's have spent.

    worst-case   every query costs everybody what a full contribution to it costs, and is refused
                 where the budget has no room for that: composition in systems that keep no
                 accounts of people
    individual   Algorithm 2: everybody pays for their own part, and is left out alone
    halt         the same, and whoever could once not pay stays out (Corollary 4.7)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM
from sparseq.batch import Asked
from sparseq.engine.duck import Contributions
from sparseq.errors import ParameterError, QueryRefused
from sparseq.ledger.accounts import Accounts
from sparseq.pricing import price
from sparseq.query.plan import Plan, calibrate
from sparseq.replay.log import Line, Log, blocks
from sparseq.replay.replay import asked_of
from sparseq.store import Store

MOST_SHOWN = 1000
"""Lines that a comparison keeps for its page, at most."""
Row = dict[str, object]
WORST_CASE, INDIVIDUAL, HALT = MODES = ("worst-case", "individual", "halt")
SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("id", pa.string()),
        ("mode", pa.string()),
        ("answered", pa.bool_()),
        ("answered_so_far", pa.int64()),
        ("error", pa.float64()),
        ("noise", pa.float64()),
        ("left_out", pa.int64()),
        ("ever_left_out", pa.int64()),
        ("spent", pa.float64()),
        ("most_spent", pa.float64()),
    ]
)
"""One row a line that can be answered, and mode.

answered_so_far: lines, up to this one.
error: root-mean-square error over the answer's values, noise and what is missed by leaving people
out together, in multiples of the noise's sigma; null where the line is not answered.
noise: the first measure's sigma. left_out, ever_left_out: people. spent, most_spent: share of all
budgets, and of anybody's own, after the line.
"""


@dataclass
class _Mode:
    """One way of accounting, on accounts of its own."""

    name: str
    accounts: Accounts
    ever: NDArray[np.bool_]
    budgets: float
    spent: float = 0.0  # worst case: the share that everybody has spent
    lines: int = 0
    answered: int = 0
    errors: float = 0.0  # their sum

    def step(self, plan: Plan, asked: Contributions, norm_budget: float) -> Row:
        """Account for one query; return its row."""
        if self.name == WORST_CASE:
            row = self._worst_case(plan.worst_case_charge / norm_budget)
        else:
            row = self._individual(plan, asked)
        self.lines += 1
        self.answered += bool(row["answered"])
        self.errors += row["error"] or 0.0
        return {"mode": self.name, "answered_so_far": self.answered} | row

    def _individual(self, plan: Plan, asked: Contributions) -> dict[str, Any]:
        users, charges = price(plan, asked)
        active = self.accounts.admits(users, charges)
        left_out = users[~active]
        self.accounts.charge(*self.accounts.due(users, charges, active))
        self.ever[left_out] = True
        return {
            "answered": True,
            "error": _error(plan, asked, left_out),
            "left_out": len(left_out),
            "ever_left_out": int(np.count_nonzero(self.ever)),
            "spent": self.all_spent,
            "most_spent": self.most_spent,
        }

    @property
    def all_spent(self) -> float:
        """The share of all budgets that is spent."""
        if self.name == WORST_CASE:
            return self.spent
        return float(self.accounts.spent.sum()) / self.budgets if self.budgets else 0.0

    @property
    def most_spent(self) -> float:
        """The largest share of anybody's budget that is spent."""
        if self.name == WORST_CASE:
            return self.spent
        shares = self.accounts.spent / np.maximum(self.accounts.budgets, 1)
        return float(np.max(shares, initial=0.0))

    def _worst_case(self, charge: float) -> dict[str, Any]:
        answered = self.spent + charge <= 1 + 1e-12
        self.spent += charge if answered else 0.0
        return {
            "answered": answered,
            "error": 1.0 if answered else None,
            "left_out": 0,
            "ever_left_out": 0,
            "spent": self.spent,
            "most_spent": self.spent,
        }


def _error(plan: Plan, asked: Contributions, left_out: NDArray[np.int32]) -> float:
    """Return the root-mean-square error of all values, in sigmas: sqrt(1 + (missed / sigma)²)."""
    if len(left_out) == 0:
        return 1.0
    squares = [
        ((all_.totals - rest) / n.lattice_sigma) ** 2
        for n, all_, rest in zip(plan.noise, asked.measures, asked.without(left_out), strict=True)
    ]
    return float(np.sqrt(1 + np.mean(np.concatenate(squares))))


class _Shown:
    """Every so many of the lines, and the last: what a page has room for."""

    def __init__(self) -> None:
        self._kept: list[list[Row]] = []
        self._seen, self._step = 0, 1
        self._last: list[Row] = []

    def add(self, rows: list[Row]) -> None:
        """Add the rows of a line."""
        self._last = rows
        if self._seen % self._step == 0:
            self._kept.append(rows)
        self._seen += 1
        if len(self._kept) == MOST_SHOWN:
            self._kept, self._step = self._kept[::2], 2 * self._step

    def table(self) -> pa.Table:
        """Return the rows that were kept."""
        last = [] if self._kept and self._kept[-1] is self._last else [self._last]
        return _table(list(chain.from_iterable(self._kept + last)))


@dataclass(frozen=True)
class Fared:
    """How a log fared under one way of accounting.

    Attributes:
        mode: Which.
        lines, answered: Lines that could be answered, and those that were.
        error: Mean error of the answered, in sigmas.
        ever_left_out: People.
        spent, most_spent: Shares, in the end.
    """

    mode: str
    lines: int
    answered: int
    error: float | None
    ever_left_out: int
    spent: float
    most_spent: float


@dataclass(frozen=True)
class Comparison:
    """A comparison in short: a sum a mode, and rows of `SCHEMA` of some lines, evenly spread."""

    fared: list[Fared]
    shown: pa.Table


def compare(
    store: Store,
    log: Log,
    modes: Sequence[str],
    write: Callable[[pa.Table], object] = lambda rows: None,
    advance: Callable[[int], None] = lambda lines: None,
) -> Comparison:
    """Tell how a log fares under each way of accounting. Private.

    Args:
        store: Its rows, budget and accounts from nothing; it is left as it is.
        log: The lines; those that are refused anyway have no row.
        modes: Of `MODES`.
        write: Given all rows, of `SCHEMA`, some lines' at a time: memory holds no more of them.
        advance: Told how many lines are done.

    Raises:
        ParameterError: There is no such mode.
    """
    for name in modes:
        if name not in MODES:
            raise ParameterError(f"there is no mode {name!r}", f"one of {', '.join(MODES)}")
    shown = _Shown()
    with store._lock:
        store._check_open()
        running = [_mode(store, name) for name in dict.fromkeys(modes)]
        done = 0
        for block in blocks(log.lines()):
            plans = [(line, _plan(store, line)) for line in block]
            store._engine.read_ahead(plan for _, plan in plans if plan is not None)
            rows: list[Row] = []
            for line, plan in plans:
                done += 1
                if plan is not None and (own := _rows(store, running, line, plan)):
                    rows += own
                    shown.add(own)
                advance(done)
            write(_table(rows))
    return Comparison([_fared(mode) for mode in running], shown.table())


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _mode(store: Store, name: str) -> _Mode:
    budgets = store._accounts.budgets
    accounts = Accounts(budgets, halt=name == HALT)
    return _Mode(name, accounts, np.zeros(len(budgets), np.bool_), float(budgets.sum()))


def _plan(store: Store, line: Line) -> Plan | None:
    one = asked_of(store, line, "")
    if not isinstance(one, Asked):
        return None
    try:
        return calibrate(one.query, store.budget, one.options)
    except (QueryRefused, ParameterError):
        return None


def _rows(store: Store, running: Sequence[_Mode], line: Line, plan: Plan) -> list[Row]:
    try:
        asked = store._contributions(plan)
    except QueryRefused:
        return []
    same = {"line": line.number, "id": line.id, "noise": plan.noise[0].sigma}
    norm_budget = float(store._accounts.budgets.max(initial=1)) / UNITS_PER_NORM
    return [same | mode.step(plan, asked, norm_budget) for mode in running]


def _fared(mode: _Mode) -> Fared:
    error = mode.errors / mode.answered if mode.answered else None
    people = int(np.count_nonzero(mode.ever))
    return Fared(
        mode.name, mode.lines, mode.answered, error, people, mode.all_spent, mode.most_spent
    )
