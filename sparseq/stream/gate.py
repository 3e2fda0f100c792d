"""The gate: who can pay for a query, how much, and the sums over those who can.

Source: Feldman & Zrnic (2021), Algorithm 2: user i's charge is the price of i's own contribution,
i is active iff it fits into what i has left, and the sums are over the active.

Two ways, one meaning. In general it goes pass by pass: price everybody, admit, take those who are
left out off the sums. Where all rows of the one measure lie in memory in order of user, a compiled
loop does it all for some thousand users after the other, while they are in a core's cache. All
numbers are integers, so it makes no difference to any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS
from sparseq.compiled import SHARED, compiled, pool, selected, worthwhile
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduce import Index, Summands, even_parts
from sparseq.ledger.accounts import Accounts, Ints, Mask
from sparseq.ledger.lifetimes import LifetimeDues, Lifetimes
from sparseq.query.plan import Plan
from sparseq.stream.pricing import fit_for_compiled, limbs, price


@dataclass(frozen=True)
class Admission:
    """What the gate lets through: private.

    Attributes:
        users, active: Who was asked, ascending, and who of them can pay.
        left_out: Who can't, ascending.
        paying, due: Who pays, and how much, in ledger units (see `Accounts.due`).
        sums: Over the active, one array a measure.
        lifetimes: What it costs people over all windows, where that has a cap.
    """

    users: Index
    active: Mask
    left_out: Index
    paying: Index
    due: Ints
    sums: list[NDArray[np.int64]]
    lifetimes: LifetimeDues | None = None


def gate(
    plan: Plan,
    contributions: Contributions,
    accounts: Accounts,
    lifetimes: Lifetimes | None = None,
) -> Admission:
    """Price a query, tell who can pay, and add up over these. Changes nothing."""
    rows, whole = contributions.summands, lifetimes is None and not accounts.halt
    if rows is not None and whole and _in_one_pass(plan, rows, accounts):
        return _one_pass(plan, rows, accounts)
    users, charges = price(plan, contributions)
    active, dues = accounts.admits(users, charges), None
    if lifetimes is not None:
        able = np.flatnonzero(active)
        active[able], dues = lifetimes.admits(users[able], charges[able], plan.query.apart)
    left_out = selected(users, ~active)
    sums = contributions.without(left_out)
    paying, due = accounts.due(users, charges, active)
    return Admission(users, active, left_out, paying, due, sums, dues)


def _in_one_pass(plan: Plan, rows: Summands, accounts: Accounts) -> bool:
    """Tell whether the compiled loop can do it, and pays. It checks no bounds: this does."""
    owners = rows.runs.owners
    return (
        worthwhile(len(owners))
        and fit_for_compiled(plan.noise[0].price, owners)
        and accounts.same_budget is not None
        and not (rows.coordinates is None and rows.values is None)
        and int(owners[0]) >= 0
        and int(owners[-1]) < len(accounts)
    )


def _one_pass(plan: Plan, rows: Summands, accounts: Accounts) -> Admission:
    runs, budget, spent = rows.runs, accounts.same_budget, accounts.gone
    users = runs.owners
    charges, active = np.empty(len(users), np.int64), np.empty(len(users), np.bool_)
    left_out = np.empty(len(users), np.int32)
    pricing = (*limbs(plan.noise[0].price), MAX_CHARGE, SIGNIFICANT_BITS)
    loop = compiled().gated_sums

    def part(some: slice) -> tuple[Index, int, Ints]:
        totals = np.zeros(rows.size, np.int64)
        out, owing = loop(
            users[some], runs.first[some], runs.stop[some], rows.coordinates, rows.values,
            rows.size, pricing, budget, spent, charges[some], active[some], left_out[some], totals,
        )  # fmt: skip
        return left_out[some][:out], owing, totals

    shared = runs.rows >= SHARED
    parts = list(pool().map(part, even_parts(runs)) if shared else [part(slice(None))])
    paying, due = accounts.payers(users, charges, sum(owing for _, owing, _ in parts))
    gone = np.concatenate([out for out, _, _ in parts])
    sums = sum((totals for _, _, totals in parts), np.zeros(rows.size, np.int64))
    return Admission(users, active, gone, paying, due, [sums])
