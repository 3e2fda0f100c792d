"""Privately found keys of columns, which are then a domain to group by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparseq.answers.answer import Answer
from sparseq.base.arguments import check_arguments
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import USER
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import Fact, Note
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.question.catalog import FOUND, FoundColumns, Table
from sparseq.question.plan import Options, Plan
from sparseq.sql.parse import COLUMN_EXAMPLE, columns_asked_for
from sparseq.stream.participation import Participation
from sparseq.stream.partition_selection import (
    DELTAS,
    MOST_KEYS,
    Picks,
    Threshold,
    count_rows,
    pick_keys,
    search_query,
    threshold_for,
    units_of_delta,
)

if TYPE_CHECKING:
    from sparseq.store.store import Store

PICKS, SHARE, PRICE = 16, 8, 4.0
Found = dict[str, dict[str, list[Any]]]
_TYPES = ("VARCHAR", "BOOLEAN", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP")


class Keys:
    """The privately found keys of a store.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> from sparseq.store.found_keys import Keys
        >>> rows = pa.table({"who": [*range(400)], "page": ["home"] * 399 + ["mine"]})
        >>> said = sparseq.Questions(keys_delta=1e-6)
        >>> con = sparseq.create(None, {"t": rows}, user="who", seed=1, purposes=[said])
        >>> Keys(con).discover("SELECT page FROM t").arrow().to_pydict()
        {'page': ['home']}
        >>> Keys(con).list()
        {'t': {'page': ['home']}}
        >>> [row["page"] for row in con.sql("SELECT page, count(*) AS n FROM t GROUP BY page")]
        ['home', None, '(other)']
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> Found:
        """Return the found keys, by table and column: public, and free.

        For several columns, named `a, b`, each key is a list of their values.
        """
        with self._store.stream.held():
            kept = self._store.stream.ledger.fact(FOUND) or {}
        found: Found = {}
        for name, keys in kept.items():
            table = self._store.catalog.table(name)
            for said, texts in keys.items():
                of = FoundColumns.said(said, table)
                values = sorted(map(of.decoded, texts))
                single = len(of.names) == 1
                some = [v[0] if single else [*v] for v in values]
                found.setdefault(name, {})[", ".join(of.names)] = some
        return found

    @check_arguments
    def discover(
        self, sql: str, *, picks: int = PICKS, delta: float | None = None, price: float = PRICE
    ) -> Answer:
        """Search for new keys, and return those found now.

        Args:
            sql: `SELECT page FROM visits`, or `SELECT page, day FROM visits`: columns of text,
                whole numbers, numbers, dates, times or booleans. The keys of several are the tuples
                of values that occur together.
            picks: The most new keys to divide a person's weight among: those with the most of the
                person's rows.
            delta: The most charge to a person in the store's keys_delta; an eighth of that by
                default.
            price: The most charge to a person in norm_budget.

        Raises:
            ParameterError: The store was made without keys_delta, or a number is out of range.
            QueryRefused: The SQL is something else, or a single column has declared keys.
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
        table, columns = self._columns(sql)
        with store.stream.held():
            search = _Search(store, table, columns, picks, share)
            answer = store.step(
                search_query(table.name, columns.names),
                search.contributions,
                Options(price=price),
                gated=search.notes,
                mechanism=search.released,
                shown=search.table,
            )
            store.relearn()
        return answer

    def _columns(self, sql: str) -> tuple[Table, FoundColumns]:
        """Return the columns of a SELECT, in the order of the table's columns."""
        named, names = columns_asked_for(sql)
        table = self._store.catalog.table(named)
        if not table.private:
            raise QueryRefused(f"{table.name} is public: its keys are known")
        asked = [table.column(name) for name in names]
        columns = [c for c in table.columns if c in asked]
        for column in columns:
            window = table.window
            if column.name in (table.user, "" if window is None else window.person):
                raise QueryRefused(f"{column.name} says who people are", COLUMN_EXAMPLE)
            whole = column.integral and column.type != "HUGEINT"
            if not (whole or column.type in _TYPES or column.type.startswith("DECIMAL")):
                raise QueryRefused(f"no keys are found of {column.type}", COLUMN_EXAMPLE)
        if len(columns) == 1 and columns[0].keys is not None:
            raise QueryRefused(f"the keys of {columns[0].name} were declared; they are public")
        return table, FoundColumns(tuple(c.name for c in columns), tuple(c.type for c in columns))


class _Search:
    """One search; its methods are in the order in which the stream calls them."""

    def __init__(
        self, store: Store, table: Table, columns: FoundColumns, most: int, share: float
    ) -> None:
        self._stream, self._table, self._columns = store.stream, table, columns
        self._most, self._share = most, share
        self._whole = units_of_delta(store.guarantee.keys_delta)
        self._picks: Picks
        self._threshold: Threshold
        self._new: list[str] = []

    @property
    def _known(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return self._stream.ledger.fact(FOUND) or {}

    def contributions(self, plan: Plan) -> Contributions:
        """Return the contributions of people able to pay the delta."""
        stream, columns = self._stream, self._columns
        self._threshold = threshold_for(plan.noise[0].lattice_sigma, self._most, self._share)
        tallies = stream.engine.by_people(
            self._table, columns.names, count_rows, stream.people.inside()
        )
        known = self._known.get(self._table.name, {}).get(columns.said_so, ())
        picks = pick_keys(list(tallies), known, self._most)
        users, counts = picks.people()
        left = self._whole - self._spent()[users]
        self._picks = picks.only(users[np.array(self._threshold.deltas)[counts] <= left])
        return self._picks.contributions()

    def _spent(self) -> Ints:
        """Return the delta that each person has paid so far, in units."""
        rows = self._stream.ledger.notes(DELTAS)
        spent = np.zeros(self._stream.people.inside(), np.int64)
        np.add.at(spent, rows[USER].to_numpy(), rows["units"].to_numpy())
        return spent

    def released(self, plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> Sequence[Ints]:
        """Add noise to the active people's sums, keep the keys above the threshold, and count them.

        A key that no active person has picked is not kept: nobody has paid for it to appear by
        noise alone.
        """
        (weights,) = sums
        noised = weights + rounded_gaussian(plan.noise[0].lattice_sigma, len(weights), entropy)
        above = np.flatnonzero((weights > 0) & (noised > self._threshold.steps))
        self._new = [self._picks.keys[i] for i in above]
        return [np.array([len(above)], np.int64)]

    def notes(self, who: Participation) -> Sequence[Note]:
        """Return the notes of the release: the keys, and the delta of each active person."""
        users, counts = self._picks.people()
        active = np.isin(users, who.users[who.active])
        units = np.array(self._threshold.deltas, np.int64)[counts[active]]
        name, column = self._table.name, self._columns.said_so
        found = {t: dict(columns) for t, columns in self._known.items()}
        before = found.setdefault(name, {}).get(column, ())
        found[name][column] = sorted([*before, *self._new])
        paid = {USER: users[active]}
        return [Fact(FOUND, found), DELTAS.rows(release=who.release, units=units, **paid)]

    def table(self) -> pa.Table:
        """Return the new keys, in their order."""
        of = self._columns
        if of.plain:
            return pa.table({of.names[0]: pa.array(self._new, pa.string())})
        values = sorted(of.decoded(key) for key in self._new)
        parts = zip(of.names, of.types, strict=True)
        return pa.table(
            {n: pa.array([v[i] for v in values], arrow_of(t)) for i, (n, t) in enumerate(parts)}
        )


def arrow_of(type: str) -> pa.DataType:
    """Return the Arrow type of a column's found keys.

    Example:
        >>> arrow_of("DATE"), arrow_of("DECIMAL(9,2)"), arrow_of("SMALLINT")
        (DataType(date32[day]), Decimal128Type(decimal128(9, 2)), DataType(int64))
    """
    if type.startswith("DECIMAL"):
        width, scale = type.removeprefix("DECIMAL(").removesuffix(")").split(",")
        return pa.decimal128(int(width), int(scale))
    return _ARROW.get(type, pa.int64())


_ARROW = {
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "UBIGINT": pa.uint64(),
}
