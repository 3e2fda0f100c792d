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
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM
from sparseq.batch import BLOCK, Asked
from sparseq.engine.duck import Contributions
from sparseq.errors import ParameterError, QueryRefused
from sparseq.ledger.accounts import Accounts
from sparseq.pricing import price
from sparseq.query.plan import Plan, calibrate
from sparseq.replay.log import Line, Log
from sparseq.replay.replay import asked_of
from sparseq.store import Store

WORST_CASE, INDIVIDUAL, HALT = MODES = ("worst-case", "individual", "halt")
SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("id", pa.string()),
        ("mode", pa.string()),
        ("answered", pa.bool_()),
        ("error", pa.float64()),
        ("noise", pa.float64()),
        ("left_out", pa.int64()),
        ("ever_left_out", pa.int64()),
        ("spent", pa.float64()),
        ("most_spent", pa.float64()),
    ]
)
"""One row a line that can be answered, and mode.

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

    def step(self, plan: Plan, asked: Contributions, norm_budget: float) -> dict[str, object]:
        """Account for one query; return its row."""
        if self.name == WORST_CASE:
            return self._worst_case(plan.worst_case_charge / norm_budget)
        users, charges = price(plan, asked)
        active = self.accounts.admits(users, charges)
        left_out = users[~active]
        self.accounts.charge(*self.accounts.due(users, charges, active))
        self.ever[left_out] = True
        spent = self.accounts.spent
        most = np.max(spent / np.maximum(self.accounts.budgets, 1), initial=0.0)
        return {
            "answered": True,
            "error": _error(plan, asked, left_out),
            "left_out": len(left_out),
            "ever_left_out": int(np.count_nonzero(self.ever)),
            "spent": float(spent.sum()) / self.budgets if self.budgets else 0.0,
            "most_spent": float(most),
        }

    def _worst_case(self, charge: float) -> dict[str, object]:
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


def compare(
    store: Store,
    log: Log,
    modes: Sequence[str],
    advance: Callable[[int], None] = lambda lines: None,
) -> pa.Table:
    """Return how a log fares under each way of accounting: rows of `SCHEMA`. Private.

    Args:
        store: Its rows, budget and halting-free accounts from nothing; it is left as it is.
        log: The lines; those that are refused anyway have no row.
        modes: Of `MODES`.
        advance: Told how many lines are done.

    Raises:
        ParameterError: There is no such mode.
    """
    for name in modes:
        if name not in MODES:
            raise ParameterError(f"there is no mode {name!r}", f"one of {', '.join(MODES)}")
    with store._lock:
        store._check_open()
        running = [_mode(store, name) for name in dict.fromkeys(modes)]
        rows: list[dict[str, object]] = []
        done, lines = 0, log.lines()
        while block := list(islice(lines, BLOCK)):
            plans = [(line, _plan(store, line)) for line in block]
            store._engine.read_ahead(plan for _, plan in plans if plan is not None)
            for line, plan in plans:
                done += 1
                if plan is not None:
                    rows += _rows(store, running, line, plan)
                advance(done)
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


def _rows(
    store: Store, running: Sequence[_Mode], line: Line, plan: Plan
) -> list[dict[str, object]]:
    try:
        asked = store._contributions(plan)
    except QueryRefused:
        return []
    same = {"line": line.number, "id": line.id, "noise": plan.noise[0].sigma}
    norm_budget = float(store._accounts.budgets.max(initial=1)) / UNITS_PER_NORM
    return [same | {"mode": mode.name} | mode.step(plan, asked, norm_budget) for mode in running]


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


def fared(rows: pa.Table) -> list[Fared]:
    """Sum the rows of a comparison up, a mode each."""
    found = []
    for mode in dict.fromkeys(rows["mode"].to_pylist()):
        own = rows.filter(pa.compute.equal(rows["mode"], mode)).to_pydict()
        errors = [e for e in own["error"] if e is not None]
        found.append(
            Fared(
                mode,
                len(own["line"]),
                sum(own["answered"]),
                float(np.mean(errors)) if errors else None,
                own["ever_left_out"][-1],
                own["spent"][-1],
                own["most_spent"][-1],
            )
        )
    return found
