"""Keys of a column of texts that are found privately, and are then a domain to group by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparseq.base.arguments import checked
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import USER
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import Fact, Note
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.sql.catalog import FOUND, Column, Table
from sparseq.sql.parse import COLUMN_EXAMPLE, column_asked_for
from sparseq.sql.plan import Options, Plan
from sparseq.store.answer import Answer
from sparseq.stream.draft import Participation
from sparseq.stream.partition_selection import (
    DELTAS,
    MOST_KEYS,
    Picks,
    Threshold,
    picked,
    search_query,
    tallied,
    threshold_for,
    units_of_delta,
)

if TYPE_CHECKING:
    from sparseq.store.store import Store

PICKS, SHARE, PRICE = 16, 8, 4.0
Found = dict[str, dict[str, list[str]]]


class Keys:
    """The keys of a store that are privately found.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> from sparseq.store.text_keys import Keys
        >>> rows = pa.table({"who": [*range(400)], "page": ["home"] * 399 + ["mine"]})
        >>> said = sparseq.Questions(keys_delta=1e-6)
        >>> con = sparseq.create(None, {"t": rows}, user="who", seed=1, purposes=[said])
        >>> Keys(con).discover("SELECT page FROM t").arrow().to_pydict()
        {'page': ['home']}
        >>> Keys(con).list()
        {'t': {'page': ['home']}}
        >>> [row["page"] for row in con.sql("SELECT page, count(*) AS n FROM t GROUP BY page")]
        ['home', '(other)']
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> Found:
        """Return what was found, by table and column: public, and free."""
        with self._store.stream.held():
            return dict(self._store.stream.ledger.fact(FOUND) or {})

    @checked
    def discover(
        self, sql: str, *, picks: int = PICKS, delta: float | None = None, price: float = PRICE
    ) -> Answer:
        """Look for keys that were not found yet, and return those that are found now.

        Args:
            sql: `SELECT page FROM visits`, also with count(*) and GROUP BY page: a column of texts.
            picks: New keys that a person's weight is divided among, at most: those with the most of
                the person's rows.
            delta: What it may cost a person of the store's keys_delta; an eighth of that if nothing
                is said.
            price: What it may cost a person of norm_budget.

        Raises:
            ParameterError: The store was made without keys_delta, or a number is out of range.
            QueryRefused: The SQL is something else, or the column has declared keys.
        """
        store = self._store
        whole = store.guarantee.keys_delta
        if not whole:
            raise ParameterError(
                "this store finds no keys: it was made without keys_delta",
                "make one with --for questions,keys-delta=1e-6",
            )
        share = whole / SHARE if delta is None else delta
        if not 0 < share <= whole:
            raise ParameterError(f"delta is {share!r}; it is above 0, and at most {whole:g}")
        if not 1 <= picks <= MOST_KEYS:
            raise ParameterError(f"picks is {picks}; it is from 1 to {MOST_KEYS}")
        table, column = self._column(sql)
        with store.stream.held():
            search = _Search(store, table, column, picks, share)
            answer = store.step(
                search_query(table.name, column.name),
                search.contributions,
                Options(price=price),
                gated=search.notes,
                mechanism=search.released,
                shown=search.table,
            )
            store.relearn()
        return answer

    def _column(self, sql: str) -> tuple[Table, Column]:
        """Return the column that a SELECT is about."""
        named, name = column_asked_for(sql)
        table = self._store.catalog.table(named)
        if not table.private:
            raise QueryRefused(f"{table.name} is public: its keys are known")
        column = table.column(name)
        if column.type != "VARCHAR" or column.name == table.user:
            raise QueryRefused(f"{column.name} is no column of texts", COLUMN_EXAMPLE)
        if column.keys is not None:
            raise QueryRefused(f"the keys of {column.name} were declared; they are public")
        return table, column


class _Search:
    """One search: what the stream asks of it, in the order that it does."""

    def __init__(self, store: Store, table: Table, column: Column, most: int, share: float) -> None:
        self._stream, self._table, self._column = store.stream, table, column
        self._most, self._share = most, share
        self._whole = units_of_delta(store.guarantee.keys_delta)
        self._picks: Picks
        self._threshold: Threshold
        self._new: list[str] = []

    @property
    def _known(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return self._stream.ledger.fact(FOUND) or {}

    def contributions(self, plan: Plan) -> Contributions:
        """Return what those who can pay the delta contribute."""
        stream, name = self._stream, self._column.name
        self._threshold = threshold_for(plan.noise[0].lattice_sigma, self._most, self._share)
        tallies = stream.engine.by_people(self._table, [name], tallied, stream.people)
        known = self._known.get(self._table.name, {}).get(name, ())
        picks = picked(list(tallies), known, self._most)
        users, counts = picks.people()
        left = self._whole - self._spent()[users]
        self._picks = picks.only(users[np.array(self._threshold.deltas)[counts] <= left])
        return self._picks.contributions()

    def _spent(self) -> Ints:
        """Return what everybody has paid of delta so far, in units."""
        rows = self._stream.ledger.notes(DELTAS)
        spent = np.zeros(self._stream.people, np.int64)
        np.add.at(spent, rows[USER].to_numpy(), rows["units"].to_numpy())
        return spent

    def released(self, plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> Sequence[Ints]:
        """Add noise to the sums of the active; keep the keys above the threshold: how many.

        A key that nobody active has picked is none: nobody has paid for the chance of noise alone.
        """
        (weights,) = sums
        noised = weights + rounded_gaussian(plan.noise[0].lattice_sigma, len(weights), entropy)
        above = np.flatnonzero((weights > 0) & (noised > self._threshold.steps))
        self._new = [self._picks.keys[i] for i in above]
        return [np.array([len(above)], np.int64)]

    def notes(self, who: Participation) -> Sequence[Note]:
        """Return what is written with the release: the keys, and what each of the active pays."""
        users, counts = self._picks.people()
        active = np.isin(users, who.users[who.active])
        units = np.array(self._threshold.deltas, np.int64)[counts[active]]
        name, column = self._table.name, self._column.name
        found = {t: dict(columns) for t, columns in self._known.items()}
        before = found.setdefault(name, {}).get(column, ())
        found[name][column] = sorted([*before, *self._new])
        paid = {USER: users[active]}
        return [Fact(FOUND, found), DELTAS.rows(release=who.release, units=units, **paid)]

    def table(self) -> pa.Table:
        """Return the new keys, in canonical order."""
        return pa.table({self._column.name: pa.array(self._new, pa.string())})
