"""A receipt for one person: the uses of the person's data, and a proof that they were counted.

A receipt is private, and for the curator, who may give it to that person. It is a function of the
releases (with their times and names) and of that person's own account, which is a function of that
person's own rows and of past releases. So it reveals nothing about other people beyond the answers.
The proof is under the root of all accounts: `sparseq.store.account_roots`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sparseq.accounting import UNITS_PER_NORM
from sparseq.base.arguments import check_arguments
from sparseq.base.errors import ParameterError, StoreError
from sparseq.engine._duckdb.people import person_of
from sparseq.ledger.root_chain import (
    said_of,
)
from sparseq.store._duckdb.file_backend import as_duckdb
from sparseq.store.account_facts import ALL_WINDOWS, LIFE, parts_of, public_facts
from sparseq.store.account_roots import life_charges, prove
from sparseq.store.promise_statement import level_so_far
from sparseq.store.store import Store


@check_arguments
def receipt(
    store: Store, person: str, proof: bool = False, since: int | None = None
) -> dict[str, Any]:
    """Return the uses of one person's data, as plain data: private.

    Args:
        store: Open.
        person: An identifier. If windows have accounts: a person's, or one window's.
        proof: Add proofs under the last published root. Facts that this root seals and the store
            may have changed since (rows, erasure, the promise) are those of the root.
        since: Add proofs under the root of this release, too.

    Raises:
        ParameterError: Nobody has that identifier, or there is no such root.
        StoreError: The account differs from the sum of its charges, or the past from the published
            past.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1)
        >>> _ = con.sql("SELECT count(*) AS n FROM t")
        >>> (account,) = receipt(con, "a")["accounts"]
        >>> [(used["release"], used["question"]) for used in account["charges"]]
        [(1, 'SELECT count(*) AS n FROM t')]
    """
    return receipts(store, [person], proof, since)[0]


@check_arguments
def receipts(
    store: Store, people: Sequence[str], proof: bool = False, since: int | None = None
) -> list[dict[str, Any]]:
    """Return the receipts of several people; the tree of proofs is made once for all.

    Args, errors: see `receipt`.
    """
    with store.stream.held():
        found, users = [], list[int]()
        for person in people:
            theirs = _users_of(store, person)
            found.append(_receipt(store, person, theirs))
            users += [user for _, user, _ in theirs]
        if proof:
            prove(store, users, [account for one in found for account in one["accounts"]], since)
            for one in found:
                _take_sealed(one)
        return found


def _receipt(store: Store, person: str, users: Sequence[tuple[str, int, bool]]) -> dict[str, Any]:
    accounts = [_account(store, user, name, erased) for name, user, erased in users]
    return {
        "person": person if store.catalog.unit else users[0][0],
        "erased": all(erased for _, _, erased in users),
        "answers": len(store.stream.ledger),
        **{name: public_facts(store)[name] for name in _SHARED},
        "accounts": accounts,
        "means": level_so_far(_kappa_of_all(store, accounts, users[0][1])),
    }


_SHARED, _OWN = ("unit", "population", "promise"), ("rows", "erased", "left_out")


def _take_sealed(found: dict[str, Any]) -> None:
    """Replace a receipt's facts of the store and its accounts by those in the last root."""
    proofs = [(a, a["proofs"][-1]) for a in found["accounts"] if a["proofs"]]
    for account in found["accounts"]:  # a later account is under no root
        account.update(rows={}, erased=False, left_out=None)
    for account, proof in proofs:
        if "own" not in proof:
            raise ParameterError(
                "the last root of accounts is of an earlier version, and seals less",
                "`sparseq curator root` makes one after the next answer",
            )
        known = [part["pot"] for part in json.loads(proof["public"])["parts"]]
        if any(part["pot"] not in known for part in account["parts"]):
            raise ParameterError(
                "a part of the budget came after the last root of accounts",
                "`sparseq curator root STORE` makes another",
            )
        account.update(json.loads(proof["own"]))
        found.update((name, json.loads(proof["public"])[name]) for name in _SHARED)
    found["erased"] = all(account["erased"] for account in found["accounts"])


def windows_of(store: Store, person: str) -> list[str]:
    """Return the identifiers of a person: several where each window has an account."""
    if not store.catalog.unit:
        return [person]
    found = as_duckdb(store.backend).storage.people().beginning_with(f"{person},")
    return [one for one in found.for_curator() if person_of(one) == person] or [person]


def _users_of(store: Store, person: str) -> list[tuple[str, int, bool]]:
    """Return a person's accounts: identifier, number, and whether it was erased."""
    found = []
    for identifier in windows_of(store, person):
        known = store.backend.find(identifier).for_curator()
        if known is None:
            hint = "`sparseq curator sql` finds identifiers"
            if store.catalog.unit:
                hint = f"of who was erased, name one window: {person},2024-03-01"
            raise ParameterError(f"nobody has the identifier {identifier!r}", hint)
        name = store.stream.ledger.identifiers([known.user])[known.user]
        found.append((identifier if name is None else str(name), known.user, known.erased))
    return found


def _account(store: Store, user: int, name: str, erased: bool) -> dict[str, Any]:
    charges, tables = list(_charges(store, user)), store.catalog.private
    parts = _parts(store, user)
    for part in parts:
        paid = sum(one["units"] for one in charges if one["pot"] == part["pot"])
        if paid != part["spent"]:
            raise StoreError(
                f"an account has spent {part['spent']} units, and its charges are {paid}",
                "restore a copy, and report it",
            )
    return {
        "account": name,
        "erased": erased,
        "rows": {t.name: store.backend.count_rows(t, user).for_curator() for t in tables},
        "left_out": int(store.stream.departures.first[user]) or None,
        "parts": parts,
        "charges": charges,
        "means": level_so_far(float(_kappa(store, charges))),
    }


def _parts(store: Store, user: int) -> list[dict[str, Any]]:
    """Return the budgets and spending of an account, in ledger units, by purpose."""
    pots, lifetimes = store.stream.pots, store.stream.ledger.lifetimes
    alone, parts = np.array([user], np.int32), []
    drawn = store.promise.population is not None
    known = {one["pot"]: one for one in parts_of(store)}
    for pot, accounts in sorted(pots.items()):
        budget, spent = int(accounts.budgets[user]), int(accounts.spent[user])
        left = int(accounts.left(alone)[0])
        parts.append(
            {
                **known[int(pot)],
                "budget": budget,
                **({"drawn": budget} if drawn else {}),
                "spent": spent,
                "held": budget - spent - left,
                "left": left,
            }
        )
    if lifetimes is not None and int(lifetimes.people[user]) == user:
        spent = int(lifetimes.spent[user])
        whole = {"budget": lifetimes.budget, "spent": spent, "left": lifetimes.budget - spent}
        parts.append(known[LIFE] | {"held": 0} | whole)
    return parts


def _charges(store: Store, user: int) -> Iterator[dict[str, Any]]:
    """Yield the charges of an account, oldest first."""
    ledger = store.stream.ledger
    names = {pot: name for name, pot in store.stream.pots.named().items()}
    paid = [(number, 0, units) for number, units in ledger.payments(user)]
    for number, people, units in life_charges(ledger):
        at = int(np.searchsorted(people, user))
        if at < len(people) and people[at] == user and units[at]:
            paid.append((number, LIFE, int(units[at])))
    for number, life, charged in sorted(paid):
        release = ledger.read(number)
        part = names.get(release.pot, release.pot.name.lower())
        yield {
            **said_of(release),
            "pot": life or int(release.pot),
            "part": ALL_WINDOWS if life else part,
            "units": charged,
            "norm": charged / UNITS_PER_NORM,
        }


def _kappa(store: Store, charges: Iterable[Mapping[str, Any]]) -> Fraction:
    """Return the kappa of charges; units moved to another part have not been used."""
    budget, pots = store.guarantee, store.stream.pots
    moves = {p.came for p in pots.purposes if p.came}
    rates = {
        n: Fraction(p.kappa) / Fraction(p.counts)
        for p in pots.purposes
        for n in (p.answers, p.forecasts)
    }
    usual, whole = Fraction(budget.kappa) / Fraction(budget.norm_budget), Fraction()
    for one in charges:
        if one["pot"] != LIFE and one["release"] not in moves:
            whole += rates.get(one["pot"], usual) * one["units"]
    return whole / UNITS_PER_NORM


def _kappa_of_all(store: Store, accounts: Sequence[Mapping[str, Any]], user: int) -> float:
    """Return the kappa used by all windows: from the account for life, or n roots, squared."""
    lifetimes, budget = store.stream.ledger.lifetimes, store.guarantee
    each = [float(_kappa(store, account["charges"])) for account in accounts]
    if lifetimes is None or len(accounts) == 1:
        return math.fsum(map(math.sqrt, each)) ** 2 if len(each) > 1 else each[0]
    units = int(lifetimes.spent[lifetimes.people[user]])
    return float(Fraction(budget.kappa) / Fraction(budget.norm_budget) * units / UNITS_PER_NORM)


__all__ = ["receipt", "receipts", "windows_of"]
