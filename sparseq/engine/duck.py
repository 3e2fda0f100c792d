"""Contributions by DuckDB: a plan's SQL over the stored rows, as squared norms and sums.

The engine's one answer to a plan is a list of `Reduced`, one a measure: exact integer norms by
user and sums by coordinate. It knows nothing of budgets or noise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.engine.columns import ColumnCache, combine_positions
from sparseq.engine.contributions import Batch, Contributions, of_batch, pulled, reduce_measure
from sparseq.engine.load import quote
from sparseq.engine.people import USER
from sparseq.engine.reduce import Index, Reduced, Runs, join_parts, quantise
from sparseq.engine.scans import Rows, Scans
from sparseq.engine.storage import dictionary_table
from sparseq.engine.windows import Window, span_sql
from sparseq.errors import QueryRefused
from sparseq.query.plan import Cap, Domain, Kind, Measure, Plan

SLICE_ROWS = 1 << 25
"""Full scans of more rows than this go by ranges of users, so that memory stays bounded."""
_REMEMBERED = 1024  # types of columns
_MOST_CAPS = 1024  # a query has 64 at most


class Engine:
    """Runs plans against the stored tables, on a locked-down connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, cache_bytes: int) -> None:
        self._con = connection
        self.cache = ColumnCache(cache_bytes)
        self._layouts: dict[str, tuple[Runs, NDArray[np.int64] | None]] = {}
        self._sizes: dict[str, int] = {}
        self._types: dict[tuple[str, str], str] = {}
        self._caps: set[str] = set()  # whose tables are there
        self._ahead = Scans(self._type_of, self._count, self._read_span, cache_bytes)

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        """Read what the coming plans of one shape need in one scan; they come out the same.

        Args:
            plans: What is likely to be asked next.
        """
        try:
            plans = list(plans)
            for plan in plans:
                self._have(plan.query.relation.caps)
            self._ahead.read(plans)
        except (QueryRefused, duckdb.Error):
            self._ahead.clear()  # each for itself will tell

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Compute a plan over everybody.

        Args:
            plan: What to compute.
            users: How many users the store has.
        """
        self._have(plan.query.relation.caps)
        return self._ahead.made_of(plan, lambda kept: self._made(plan, users, kept))

    def _made(self, plan: Plan, users: int, kept: bool) -> Contributions:
        reads = self._reads(plan, users)
        if len(reads) == 1:
            return of_batch(plan, reads[0](), kept)
        parts: list[list[Reduced]] = [[] for _ in plan.query.measures]
        for batch in self.batches(plan, users):
            for i, part in enumerate(parts):
                part.append(reduce_measure(plan, batch, i))

        def pull(only: Index) -> list[NDArray[np.int64]]:  # it is too much to keep: read it again
            parts = (pulled(plan, batch, only) for batch in self.batches(plan, users))
            return [np.sum(totals, axis=0, dtype=np.int64) for totals in zip(*parts, strict=True)]

        return Contributions([join_parts(p) for p in parts], pull)

    def batches(self, plan: Plan, users: int) -> Iterator[Batch]:
        """Yield the rows of a plan in ranges of users, ascending, each as large as fits."""
        return (read() for read in self._reads(plan, users))

    def _reads(self, plan: Plan, users: int) -> list[Callable[[], Batch]]:
        """Return what reads each range of users."""
        relation = plan.query.relation
        self._have(relation.caps)
        ahead = self._ahead.rows(plan)
        if ahead is not None:
            return [lambda: _batch(ahead)]
        rows = self._rows(relation.table) if relation.table else 0
        if relation.table and rows <= SLICE_ROWS:
            return [lambda: self._whole_table(plan)]
        if rows <= SLICE_ROWS:
            return [lambda: self._query(plan, "")]
        width = max(users * SLICE_ROWS // rows, 1)
        ranges = ((start, start + width - 1) for start in range(0, users, width))
        return [
            partial(self._query, plan, f"{relation.user} BETWEEN {first} AND {last}")
            for first, last in ranges
        ]

    def _rows(self, table: str) -> int:
        """Return about how many rows a table has."""
        if table not in self._sizes:
            ((rows,),) = self._con.execute(
                "SELECT estimated_size FROM duckdb_tables() "
                "WHERE schema_name = 'by_user' AND table_name = ?",
                [table],
            ).fetchall()
            self._sizes[table] = int(rows)
        return self._sizes[table]

    def _whole_table(self, plan: Plan) -> Batch:
        """All rows of one table, every vector from the cache or for it."""
        table = plan.query.relation.table

        def fetch(sql: str) -> NDArray[Any]:
            return self._fetch(f"SELECT {sql} AS x {plan.query.relation.sql}")[0]

        runs, order = self._runs(table, lambda: fetch(USER))

        def vector(key: Hashable, sql: str, prepare: Any) -> NDArray[Any]:
            def make() -> NDArray[Any]:
                array: NDArray[Any] = prepare(fetch(sql))
                return array if order is None else array[order]

            return self.cache.get((table, key, sql), make)

        positions = [
            vector((d.values, d.dictionary), _position_sql(d), lambda a, d=d: self._place(a, d))
            for d in plan.query.domains
        ]
        sizes = [len(d.values) for d in plan.query.domains]
        groups = (
            self.cache.get(
                (table, "groups", tuple((d.values, d.position.sql) for d in plan.query.domains)),
                lambda: _narrow(combine_positions(positions, sizes), plan.query.groups),
            )
            if positions
            else None
        )
        measures = [
            (
                vector("bin", _bin_sql(m), _as_index) if m.bin is not None else None,
                vector(step, _value_sql(m), partial(quantise, granularity=step))
                if m.value is not None or step != 1.0
                else None,
            )
            for m, n in zip(plan.query.measures, plan.noise, strict=True)
            for step in (_lattice(m, n.granularity),)  # of the same SQL each lattice has its own
        ]
        return Batch(runs, groups, measures)

    def _runs(
        self, table: str, fetch: Callable[[], Index]
    ) -> tuple[Runs, NDArray[np.int64] | None]:
        """Return where each user's rows lie, and how to sort rows by user (None: they are)."""
        if table not in self._layouts:
            users = fetch()
            order = _order(users)
            self._layouts[table] = Runs.of(users if order is None else users[order]), order
        return self._layouts[table]

    def _have(self, caps: Iterable[Cap]) -> None:
        """Have the tables of those who are taken out of joins; those inside come first."""
        for cap in caps:
            if cap.name not in self._caps:
                if len(self._caps) >= _MOST_CAPS:
                    self._forget_caps()
                    return self._have(caps)
                self._con.execute(f"CREATE TEMP TABLE {quote(cap.name)} AS {cap.sql}")
                self._caps.add(cap.name)

    def _forget_caps(self) -> None:
        for name in self._caps:
            self._con.execute(f"DROP TABLE IF EXISTS temp.{quote(name)}")
        self._caps.clear()

    def rows_arrived(self) -> None:
        """Forget what was kept of the rows."""
        self._forget_caps()
        self.cache.clear()
        self._layouts.clear()
        self._sizes.clear()
        self._ahead.clear()

    def _query(self, plan: Plan, also: str) -> Batch:
        """The rows that one SQL statement gives, in one go."""
        where = " AND ".join(f"({w})" for w in (plan.query.relation.where, also) if w)
        return _batch(self._read(plan, where)[1])

    def _read_span(self, plan: Plan, windows: list[Window]) -> tuple[NDArray[Any], Rows]:
        return self._read(plan, span_sql(windows), f"{windows[0].column} AS t, ")

    def _read(self, plan: Plan, where: str, first: str = "") -> tuple[NDArray[Any], Rows]:
        """Return the first column, and the others as a plan's rows."""
        query = plan.query
        columns = [query.relation.user, *(_position_sql(d) for d in query.domains)]
        for m, n in zip(query.measures, plan.noise, strict=True):
            if m.bin is not None:
                columns.append(_bin_sql(m))
            if m.value is not None or n.granularity != 1.0:
                columns.append(_value_sql(m))
        select = first + ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(columns))
        fetched = self._fetch(
            f"SELECT {select} {query.relation.sql}" + (f" WHERE {where}" if where else "")
        )
        arrays = iter(fetched[1:] if first else fetched)
        users = next(arrays)
        positions = [self._place(next(arrays), d) for d in query.domains]
        groups = combine_positions(positions, [len(d.values) for d in query.domains])
        measures = []
        for m, n in zip(query.measures, plan.noise, strict=True):
            bins = _as_index(next(arrays)) if m.bin is not None else None
            values = (
                quantise(next(arrays), _lattice(m, n.granularity))
                if m.value is not None or n.granularity != 1.0
                else None
            )
            measures.append((bins, values))
        return fetched[0], Rows(users, groups, measures)

    def _count(self, plan: Plan, windows: list[Window]) -> int:
        sql = f"SELECT count(*) {plan.query.relation.sql} WHERE {span_sql(windows)}"
        ((rows,),) = self._con.execute(sql).fetchall()
        return int(rows)

    def _type_of(self, relation: str, column: str) -> str:
        """Return DuckDB's name for the type of a column."""
        key = (relation, column)
        if key not in self._types:
            if len(self._types) >= _REMEMBERED:
                self._types.clear()
            result = self._con.execute(f"SELECT {column} {relation} LIMIT 0")
            self._types[key] = str(result.description[0][1])
            result.fetchall()
        return self._types[key]

    def _fetch(self, sql: str) -> list[NDArray[Any]]:
        """Run SQL; return its columns as arrays.

        Raises:
            QueryRefused: DuckDB failed. What it says may come from a row, so it isn't passed on.
        """
        try:
            table: pa.Table = self._con.sql(sql).to_arrow_table()
        except duckdb.Error:
            raise QueryRefused(
                "the query could not be evaluated; nothing was charged",
                "simplify its expressions, or ask the curator",
            ) from None
        return [_to_numpy(column) for column in table.columns]

    def _place(self, position: NDArray[Any], domain: Domain) -> Index:
        """Return each row's place in the domain; -1 for none."""
        if domain.dictionary is None:
            return _as_index(position)
        codes = self._con.execute(
            f"SELECT code, value FROM {dictionary_table(*domain.dictionary)}"
        ).fetchall()
        place = {value: i for i, value in enumerate(domain.values)}
        lookup = np.full(max((c for c, _ in codes), default=-1) + 2, -1, np.int32)  # -1: no string
        for code, value in codes:
            lookup[code] = place.get(value, -1)
        return lookup[_as_index(position)]


def _lattice(measure: Measure, granularity: float) -> float:
    """USERS is counted in ones first; everything else goes on its lattice at once."""
    return 1.0 if measure.kind is Kind.USERS else granularity


def _position_sql(domain: Domain) -> str:
    return f"coalesce({domain.position.sql}, -1)"


def _bin_sql(measure: Measure) -> str:
    assert measure.bin is not None
    return f"coalesce({measure.bin.sql}, -1)"


def _value_sql(measure: Measure) -> str:
    if measure.value is None:
        return "1::DOUBLE"
    if measure.kind is Kind.SUM:
        return f"coalesce(TRY_CAST({measure.value.sql} AS DOUBLE), 0)"
    return f"coalesce({measure.value.sql}, false)::UTINYINT"


def _to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    chunks = column.chunks
    if len(chunks) == 1:
        return np.asarray(chunks[0].to_numpy(zero_copy_only=False))
    return np.asarray(column.to_numpy())


def _as_index(array: NDArray[Any]) -> Index:
    if array.dtype == np.int32:
        return array
    if array.dtype.itemsize > 2:
        array = np.clip(array, -1, 2**31 - 1)
    return array.astype(np.int32)


def _order(users: Index) -> NDArray[np.int64] | None:
    """Return how to sort by user; None if sorted already."""
    if len(users) < 2 or bool(np.all(users[1:] >= users[:-1])):
        return None
    return np.argsort(users, kind="stable")


def _batch(rows: Rows) -> Batch:
    """Return rows in order of user."""
    order = _order(rows.users)
    rows = rows if order is None else rows.at(order)
    return Batch(Runs.of(rows.users), rows.groups, rows.measures)


def _narrow(places: Index | None, size: int) -> NDArray[Any]:
    """Return places in the smallest type that holds them: less to read in every scan."""
    assert places is not None
    return places.astype(np.int8 if size <= 127 else np.int16 if size <= 32767 else np.int32)
