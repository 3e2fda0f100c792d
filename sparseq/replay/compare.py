"""The same log under worst-case composition and under individual accounting: for the curator.

Everything here uses exact values and the set of users who are left out; nothing is released,
charged or written to the store. The results are for data that the curator may look at, and never
for an analyst. Accounts start from nothing, whatever the store's have spent.

    worst-case   every query charges every user a full contribution, and is refused if the budget
                 has no room for that: composition in systems without accounts per user
    individual   Algorithm 2: every user pays for their own part, and is left out individually
    halt         the same, and a user who could not pay once stays out (Corollary 4.7)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Accounts, Ints
from sparseq.question.plan import Plan, calibrate
from sparseq.replay.log import Line, Log, blocks
from sparseq.replay.run import lower_line
from sparseq.store.store import Store
from sparseq.stream.batches import Request
from sparseq.stream.charge_amounts import price
from sparseq.stream.release_charges import Bill

MOST_SHOWN = 1000
"""Largest number of lines that a comparison keeps for its page."""
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
        ("bias", pa.float64()),
        ("noise", pa.float64()),
        ("left_out", pa.int64()),
        ("ever_left_out", pa.int64()),
        ("spent", pa.float64()),
        ("most_spent", pa.float64()),
    ]
)
"""One row for each line that can be answered, and mode.

answered_so_far: number of lines, up to this one.
error: root-mean-square error over the answer's values, from the noise and from the contributions of
users left out, in multiples of the noise's sigma; null if the line is not answered.
noise: the first measure's sigma. left_out, ever_left_out: people. spent, most_spent: share of all
budgets, and the largest share of one budget, after the line.
"""


@dataclass(frozen=True)
class Tally:
    """The outcome of a log under one way of accounting.

    Attributes:
        mode: Name of the way.
        lines, answered: Number of lines that could be answered, and of answered lines.
        error, bias: Mean error of the answered lines, and its part from users left out, in sigmas.
        ever_left_out: Number of people.
        spent, most_spent: Shares at the end.
    """

    mode: str
    lines: int
    answered: int
    error: float | None
    bias: float | None
    ever_left_out: int
    spent: float
    most_spent: float


class _Mode:
    """One way of accounting, with its own accounts; a step costs time by the query's cells."""

    def __init__(self, name: str, budgets: Ints) -> None:
        self.name = name
        self.lines = self.answered = self.ever_left_out = 0
        self.spent = self.most_spent = 0.0
        self._errors = self._biases = 0.0  # their sums
        self._accounts = Accounts(budgets, halt=name == HALT)
        self._ever = np.zeros(len(budgets), np.bool_)
        self._whole = int(budgets.max(initial=1)) / UNITS_PER_NORM
        self._all, self._due = int(budgets.sum()), 0

    def step(self, plan: Plan, asked: Contributions) -> Row:
        """Account for one query; return its row."""
        if self.name == WORST_CASE:
            bias, left_out = self._worst_case(plan), 0
        else:
            bias, left_out = self._individual(plan, asked)
        error = None if bias is None else math.hypot(1.0, bias)
        self.lines += 1
        self.answered += error is not None
        self._errors += error or 0.0
        self._biases += bias or 0.0
        return {
            "mode": self.name,
            "answered": error is not None,
            "answered_so_far": self.answered,
            "error": error,
            "bias": bias,
            "left_out": left_out,
            "ever_left_out": self.ever_left_out,
            "spent": self.spent,
            "most_spent": self.most_spent,
        }

    def _individual(self, plan: Plan, asked: Contributions) -> tuple[float, int]:
        """Return the bias, and the number of users left out."""
        accounts = self._accounts
        users, charges = price(plan, asked)
        bill = Bill(accounts)
        left_out = users[~bill.admit(users, charges)]
        paying, due = bill.paid()
        accounts.charge(paying, due)
        self.ever_left_out += int(np.count_nonzero(~self._ever[left_out]))
        self._ever[left_out] = True
        self._due += int(due.sum())
        self.spent = self._due / max(self._all, 1)
        shares = accounts.spent[paying] / np.maximum(accounts.budgets[paying], 1)
        self.most_spent = float(np.max(shares, initial=self.most_spent))
        return _bias(plan, asked, left_out), len(left_out)

    def _worst_case(self, plan: Plan) -> float | None:
        """Return the bias, if the query is answered: nobody is left out."""
        charge = plan.worst_case_charge / self._whole
        if self.spent + charge > 1 + 1e-12:
            return None
        self.spent = self.most_spent = self.spent + charge
        return 0.0

    def fared(self) -> Tally:
        """Return the summary."""
        error, bias = (
            total / self.answered if self.answered else None
            for total in (self._errors, self._biases)
        )
        return Tally(
            self.name,
            self.lines,
            self.answered,
            error,
            bias,
            self.ever_left_out,
            self.spent,
            self.most_spent,
        )


def _bias(plan: Plan, asked: Contributions, left_out: NDArray[np.int32]) -> float:
    """Return the root mean square, over all values, of the missing part, in sigmas."""
    if len(left_out) == 0:
        return 0.0
    missed = [
        (all_.totals - rest) / n.lattice_sigma
        for n, all_, rest in zip(plan.noise, asked.measures, asked.without(left_out), strict=True)
    ]
    return float(np.sqrt(np.mean(np.concatenate(missed) ** 2)))


class _LineSample:
    """Lines at equal distances, and the last one, for a page."""

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
class ReplayComparison:
    """A comparison: one summary per mode, and rows of `SCHEMA` for some lines, evenly spread."""

    fared: list[Tally]
    shown: pa.Table


def compare(
    store: Store,
    log: Log,
    modes: Sequence[str],
    write: Callable[[pa.Table], object] = lambda rows: None,
    advance: Callable[[int], None] = lambda lines: None,
) -> ReplayComparison:
    """Compare the ways of accounting on a log. Private.

    Args:
        store: Store with the rows and the budget; accounts start from nothing, and it is unchanged.
        log: The lines; refused lines have no row.
        modes: Some of `MODES`.
        write: Called with all rows, of `SCHEMA`, for a few lines at a time to bound the memory.
        advance: Called with the number of finished lines.

    Raises:
        ParameterError: There is no such mode.
    """
    for name in modes:
        if name not in MODES:
            raise ParameterError(f"there is no mode {name!r}", f"one of {', '.join(MODES)}")
    shown = _LineSample()
    with store.stream.held():
        running = [_Mode(name, store.stream.accounts.budgets) for name in dict.fromkeys(modes)]
        done = 0
        for block in blocks(log.lines()):
            plans = [(line, _plan(store, line)) for line in block]
            store.stream.engine.read_ahead(plan for _, plan in plans if plan is not None)
            rows: list[Row] = []
            for line, plan in plans:
                done += 1
                if plan is not None and (own := _rows(store, running, line, plan)):
                    rows += own
                    shown.add(own)
                advance(done)
            write(_table(rows))
    return ReplayComparison([mode.fared() for mode in running], shown.table())


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _plan(store: Store, line: Line) -> Plan | None:
    one = lower_line(store, line, "")
    if not isinstance(one, Request):
        return None
    try:
        return calibrate(one.query, store.guarantee, one.options)
    except (QueryRefused, ParameterError):
        return None


def _rows(store: Store, running: Sequence[_Mode], line: Line, plan: Plan) -> list[Row]:
    try:
        asked = store.stream.contributions(plan)
    except QueryRefused:
        return []
    same = {"line": line.number, "id": line.id, "noise": plan.noise[0].sigma}
    return [same | mode.step(plan, asked) for mode in running]
