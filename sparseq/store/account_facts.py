"""Facts of accounts, other than charges and budgets, that a root of accounts seals.

There are two texts of canonical JSON. `own` is about one account: its number of rows in each table,
whether it was erased, and the first release that left it out. `public` is the same for all
accounts: the unit, the promise, and the value of each part of a budget. A leaf has a secret salt,
so its hash of `own` reveals nothing. Rows change and cannot be counted again for an earlier root,
so the facts are stored when the root is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sparseq.engine.reduction import Ints
from sparseq.ledger.notes import NoteRows, NoteTable
from sparseq.ledger.packed_integers import pack, pack_set, unpack, unpack_set
from sparseq.store.promise_statement import SO_FAR
from sparseq.store.store import Store

LIFE = 255
"""Number of the account over all windows; the numbers of pots are smaller."""
ALL_WINDOWS = "all windows"
FACTS = NoteTable(
    "account_facts",
    {"release": "BIGINT", "public": "VARCHAR", "erased": "BLOB", "name": "VARCHAR", "rows": "BLOB"},
)
"""Rows of each account and erased accounts, by root and table; private, except `public`."""


@dataclass(frozen=True)
class AccountFacts:
    """The accounts of a store at the time of a root.

    Attributes:
        release: The release before the root.
        public: The text that all accounts share.
        erased: The accounts erased by then.
        rows: The number of rows of each account, by table.
        left_out: The first release that left each account out; 0: there is none.
    """

    release: int
    public: str
    erased: frozenset[int]
    rows: Mapping[str, Ints]
    left_out: Ints

    @classmethod
    def now(cls, store: Store) -> AccountFacts:
        """Return the facts as they are now."""
        ledger, accounts = store.stream.ledger, len(store.stream.pots)
        people = store.backend.people().for_curator()
        names = ledger.identifiers(people.tolist())
        erased = frozenset(u for u in people.tolist() if names[u] is None)
        rows = {
            table.name: store.backend.rows_of_each(table).for_curator()
            for table in store.catalog.private
        }
        left_out = store.stream.departures.first[:accounts]
        return cls(len(ledger), canonical(public_facts(store)), erased, rows, left_out)

    @classmethod
    def at(cls, store: Store, release: int) -> AccountFacts | None:
        """Return the facts at a root; None: an earlier version made the root and sealed less."""
        kept = [r for r in store.stream.ledger.notes(FACTS).to_pylist() if r["release"] == release]
        if not kept:
            return None
        first = store.stream.departures.first
        rows = {row["name"]: unpack(row["rows"]) for row in kept}
        erased = frozenset(unpack_set(kept[0]["erased"]).tolist())
        left_out = np.where(first <= release, first, 0)
        return cls(release, kept[0]["public"], erased, rows, left_out)

    def notes(self) -> NoteRows:
        """Return the facts as rows of notes."""
        return FACTS.rows(
            release=self.release,
            public=self.public,
            erased=pack_set(np.array(sorted(self.erased), np.int32)),
            name=list(self.rows),
            rows=[bytes(pack(rows)) for rows in self.rows.values()],
        )

    def own(self, user: int) -> str:
        """Return the text about one account."""
        first = int(self.left_out[user])
        return canonical(
            {
                "rows": {name: int(rows[user]) for name, rows in self.rows.items()},
                "erased": user in self.erased,
                "left_out": first or None,
            }
        )


def public_facts(store: Store) -> dict[str, Any]:
    """Return the facts in a receipt that are the same for every account."""
    window = store.promise.window
    return {
        "unit": "" if window is None else window.said,
        "population": store.promise.population,
        "promise": store.promise.statement.to_dict(),
        "so_far": SO_FAR,
        "parts": parts_of(store),
    }


def parts_of(store: Store) -> list[dict[str, Any]]:
    """Return the parts of a budget: number, name, start, and kappa of a squared norm of 1."""
    budget, pots = store.guarantee, store.stream.pots
    purposes = {n: p for p in pots.purposes for n in (p.answers, p.forecasts)}
    names = {int(pot): name for name, pot in pots.named().items()}
    usual = Fraction(budget.kappa) / Fraction(budget.norm_budget)
    found = []
    for pot, _ in sorted(pots.items()):
        purpose = purposes.get(int(pot))
        rate = Fraction(purpose.kappa) / Fraction(purpose.counts) if purpose else usual
        found.append(
            {
                "pot": int(pot),
                "part": names.get(int(pot), pot.name.lower()),
                "since": purpose.came if purpose else 0,
                "kappa_of_norm": float(rate),
            }
        )
    if store.stream.ledger.lifetimes is not None:
        life = {"pot": LIFE, "part": ALL_WINDOWS, "since": 0, "kappa_of_norm": float(usual)}
        found.append(life)
    return found


def canonical(facts: Mapping[str, Any]) -> str:
    """Return plain data as the canonical text to hash."""
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=True)
