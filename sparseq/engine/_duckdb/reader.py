"""A plan's rows, read from one DuckDB: the store's own, or one with some people's rows only.

Queries that differ in their times only: one scan reads the rows of all of them.

Conditions such as `day = DATE '2024-01-01' AND x` are a window of time, [low, high), and a rest.
The rows of the conditions are those of the rest, in order of time, from low up to high: a slice of
what one scan has read. Nothing but the rows' origin changes, so a query's contributions are the
same, to the last integer.

Rows read ahead: one scan for the many queries to come that differ in their times only.

What a query takes from a scan are the rows that its own SQL would have given, so its contributions
are the same integers. Nothing here is a result: it goes when rows arrive, and with memory's limit.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.compiled import bits_as, order_of
from sparseq.engine._duckdb.tables import dictionary_table
from sparseq.engine.contributions import (
    ColumnCache,
    Index,
    Ints,
    Runs,
    combine_positions,
    lattice,
    quantise,
)
from sparseq.engine.interpreter import Leaf, StepValues
from sparseq.engine.operations import ALL, Vector
from sparseq.engine.protocol import USER, quote
from sparseq.language.conditions import Said, read
from sparseq.language.expression_tree import Term, all_of
from sparseq.language.types import DATE, TIMESTAMP, Family, type_named
from sparseq.language.value_sets import DAY, Spans, places_of
from sparseq.sql.catalog import Column
from sparseq.sql.plan import Cap, Domain, Kind, Measure, Plan

# -- queries that differ in their times only: one scan reads the rows of all of them ---------------

FOREVER = 2**62
_EPOCH = dt.datetime(1970, 1, 1)
_TYPES = {type.sql: type for type in (DATE, TIMESTAMP)}


@dataclass(frozen=True)
class Window:
    """The rows that fulfil `rest`, and whose `column` is in [low, high).

    Attributes:
        column: SQL of a DATE or TIMESTAMP column.
        type: Which of the two.
        rest: The other conditions.
        low, high: Days or microseconds since 1970; ±FOREVER for no limit.
    """

    column: str
    type: str
    rest: str
    low: int
    high: int


def window(conditions: Sequence[Term]) -> Window | None:
    """Return conditions as a window, None if they aren't known to be one.

    Example:
        >>> from sparseq.language.expression_tree import call, column, constant
        >>> from sparseq.language.types import BOOLEAN
        >>> day, x = column('"t"."d"', DATE), column('"t"."x"', BOOLEAN)
        >>> third = call("=", "({0} = {1})", BOOLEAN, day, constant(dt.date(1970, 1, 3), DATE))
        >>> w = window([third, x])
        >>> w.column, w.low, w.high, w.rest
        ('"t"."d"', 2, 3, '("t"."x")')
    """
    column, rest, low, high = None, [], -FOREVER, FOREVER
    for condition in conditions:
        span = _span_of(condition)
        if span is None or span.of.sql != (column or span.of).sql:
            rest.append(condition)
            continue
        column, (first, last) = span.of, span.true.known.ends  # type: ignore[union-attr]
        least, most = places_of(_TYPES[column.type.sql])
        low = max(low, -FOREVER if first <= least else int(first))
        high = min(high, FOREVER if last >= most else int(last) + 1)
    if column is None:
        return None
    return Window(column.sql, column.type.sql, all_of(rest), low, max(low, high))


def _span_of(condition: Term) -> Said | None:
    """Return a condition on a column of times that lets one stretch pass; None: it is none."""
    reading = read(condition)
    if not reading.exact:
        return None
    (only,) = reading.said.values()
    values, column = only.true.known, only.of.type.is_time and not only.of.function
    one = column and isinstance(values, Spans) and len(values.spans) == 1 and not only.true.null
    return only if one else None


def days_of(window: Window) -> float:
    """Return how many days a window has."""
    return (window.high - window.low) / (DAY if window.type == TIMESTAMP.sql else 1)


def hulls(windows: Sequence[Window]) -> list[list[Window]]:
    """Split windows into sets, each of which asks for a quarter at least of the time it spans.

    Example:
        >>> def day(n): return Window("d", "DATE", "", n, n + 1)
        >>> [[w.low for w in part] for part in hulls([day(n) for n in (1, 2, 3, 900, 902)])]
        [[1, 2, 3], [900, 902]]
    """
    ordered = sorted(windows, key=lambda w: (w.low, w.high))
    reach = np.maximum.accumulate([w.high for w in ordered])
    gaps = np.maximum([w.low for w in ordered[1:]] - reach[:-1], 0)
    pending, done = [(0, len(ordered))] if ordered else [], []
    while pending:
        first, stop = pending.pop()
        span = int(reach[stop - 1]) - ordered[first].low
        inside = gaps[first : stop - 1]
        if span <= 4 * (span - int(inside.sum())):
            done.append(ordered[first:stop])
        else:
            cut = first + 1 + int(np.argmax(inside))
            pending += [(cut, stop), (first, cut)]
    return done


def span_sql(windows: Sequence[Window]) -> str:
    """Return SQL of the rows from the first window on to the end of the last."""
    low, high = min(w.low for w in windows), max(w.high for w in windows)
    column, type, rest = windows[0].column, windows[0].type, windows[0].rest
    conditions = [rest or "true", f"{column} IS NOT NULL"]
    conditions += [f"{column} >= {_literal(low, type)}"] if low > -FOREVER else []
    conditions += [f"{column} < {_literal(high, type)}"] if high < FOREVER else []
    return " AND ".join(conditions)


def _literal(at: int, type: str) -> str:
    unit = dt.timedelta(microseconds=1) if type == TIMESTAMP.sql else dt.timedelta(days=1)
    return f"CAST('{_EPOCH + at * unit}' AS {type})"


# -- rows read ahead: one scan for the many queries to come that differ in their times only --------

Made = TypeVar("Made")
ROW_BYTES = 16
"""About what a row read ahead takes."""
MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class PlanRows:
    """Some rows of a plan: users, groups, and (bin, value) a measure, as in a `RowBatch`."""

    users: NDArray[np.int32]
    groups: NDArray[Any] | None
    measures: list[tuple[Any, Any]]

    def at(self, rows: slice | NDArray[np.int64]) -> PlanRows:
        """Return some of the rows, or another order of them."""

        def part(array: Any) -> Any:
            return None if array is None else array[rows]

        measures = [(part(b), part(v)) for b, v in self.measures]
        return PlanRows(self.users[rows], part(self.groups), measures)


@dataclass(frozen=True)
class Scan:
    """Rows in order of time, from `low` up to `high`; `first` is where each of `times` begins."""

    low: int
    high: int
    times: NDArray[np.int64]
    first: NDArray[np.int64]
    rows: PlanRows

    @classmethod
    def of(cls, low: int, high: int, times: NDArray[Any], rows: PlanRows) -> Scan:
        """Return rows as a scan, whatever order they are in."""
        if bool(np.any(times[1:] < times[:-1])):
            order = np.argsort(times, kind="stable")
            times, rows = times[order], rows.at(order)
        first = np.flatnonzero(np.concatenate(([True], times[1:] != times[:-1]))[: len(times)])
        return cls(low, high, times[first].astype(np.int64), first, rows)

    def between(self, low: int, high: int) -> PlanRows:
        """Return the rows of a window."""
        ends = np.append(self.first, len(self.rows.users))
        start = 0 if low == -FOREVER else int(np.searchsorted(self.times, low))
        stop = len(self.times) if high == FOREVER else int(np.searchsorted(self.times, high))
        return self.rows.at(slice(int(ends[start]), int(ends[max(start, stop)])))


Read = Callable[[Plan, list[Window]], tuple[NDArray[Any], PlanRows]]


class Scans:
    """Results that were read ahead, the oldest dropped first.

    Args:
        count, read: Count, or return with their times, the rows of a plan from the first of some
            windows to the last.
        capacity: Bytes.
    """

    def __init__(
        self, count: Callable[[Plan, list[Window]], int], read: Read, capacity: int
    ) -> None:
        self._count, self._read = count, read
        self._most_rows = min(capacity, MOST_BYTES) // ROW_BYTES
        self._scans: OrderedDict[tuple[Hashable, int, int], Scan] = OrderedDict()
        self._made: dict[tuple[Hashable, int, int], object] = {}
        self._made_rows = 0

    def read(self, plans: Iterable[Plan]) -> None:
        """Read ahead for plans that are likely to be asked next."""
        asked: dict[Hashable, tuple[Plan, dict[tuple[int, int], Window]]] = {}
        for plan in plans:
            if (shape := self._window(plan)) is not None:
                key, window = shape
                _, windows = asked.setdefault(key, (plan, {}))
                windows[window.low, window.high] = window
        room = self._most_rows
        for key, (plan, windows) in asked.items():
            missing = [w for w in windows.values() if self._covering(key, w) is None]
            for part in hulls(missing):
                for together in self._small_enough(plan, part, room):
                    room -= self._keep(key, plan, together)

    def rows(self, plan: Plan) -> PlanRows | None:
        """Return the rows of a plan, if they have been read."""
        scan = self._find(plan)
        return None if scan is None else scan[1].between(*scan[0][1:])

    def made_of(self, plan: Plan, make: Callable[[bool], Made]) -> Made:
        """Return what `make` makes of a plan's rows; kept, if the rows have been read ahead.

        `make` is told whether it will be.

        The same rows are asked for again and again: by dashboards, by other people.
        """
        place = self._find(plan)
        if place is None:
            return make(False)
        at, scan = place
        if at in self._made:
            return cast(Made, self._made[at])
        made = make(True)
        self._made_rows += len(scan.between(*at[1:]).users)
        if self._made_rows <= self._most_rows // 4:
            self._made[at] = made
        return made

    def _find(self, plan: Plan) -> tuple[tuple[Hashable, int, int], Scan] | None:
        if not self._scans or (shape := self._window(plan)) is None:
            return None
        key, window = shape
        scan = self._covering(key, window)
        return None if scan is None else ((key, window.low, window.high), scan)

    def clear(self) -> None:
        """Forget everything: rows have arrived."""
        self._scans.clear()
        self._made.clear()
        self._made_rows = 0

    def _window(self, plan: Plan) -> tuple[Hashable, Window] | None:
        """Return the plan's window, and what it shares with the plans of the same shape."""
        relation = plan.query.relation
        stretch = window(relation.conditions)
        if stretch is None:
            return None
        steps = tuple(n.granularity for n in plan.noise)
        shape = (relation.sql, relation.user, stretch.column, stretch.rest)
        return (shape, plan.query.domains, plan.query.measures, steps), stretch

    def _covering(self, key: Hashable, w: Window) -> Scan | None:
        for (other, low, high), scan in self._scans.items():
            if low <= w.low and w.high <= high and other == key:
                return scan
        return None

    def _small_enough(self, plan: Plan, part: list[Window], room: int) -> Iterator[list[Window]]:
        """Halve windows until the rows from first to last fit; one alone is no use reading."""
        if len(part) < 2:
            return
        if self._count(plan, part) <= room:
            yield part
            return
        middle = len(part) // 2
        yield from self._small_enough(plan, part[:middle], room)
        yield from self._small_enough(plan, part[middle:], room)

    def _keep(self, key: Hashable, plan: Plan, part: list[Window]) -> int:
        low, high = min(w.low for w in part), max(w.high for w in part)
        times, rows = self._read(plan, part)
        held = sum(len(scan.rows.users) for scan in self._scans.values())
        while self._scans and held + len(times) > self._most_rows:
            _, oldest = self._scans.popitem(last=False)
            held -= len(oldest.rows.users)
            self._made.clear()
            self._made_rows = 0
        self._scans[key, low, high] = Scan.of(low, high, times, rows)
        return len(times)


# -- a plan's rows ---------------------------------------------------------------------------------

_MOST_CAPS = 1024  # a query has 64 at most


class TooManyRows(Exception):
    """A read gives more rows than it may; so do parts of it, or they don't."""


class Reader:
    """Reads through one connection; every error is passed on as it is, and is private."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._caps: set[str] = set()  # whose tables are there

    def read(
        self, plan: Plan, where: str, first: str = "", most: int | None = None
    ) -> tuple[NDArray[Any], PlanRows]:
        """Return the first column, and the others as a plan's rows.

        Args:
            plan: Its caps' tables must be there (see `have`).
            where: Condition, "" for none.
            first: SQL of another column, and a comma.
            most: Rows; None for no limit.

        Raises:
            TooManyRows: There are more.
        """
        query = plan.query
        columns = [query.relation.user, *(position_sql(d) for d in query.domains)]
        for m, n in zip(query.measures, plan.noise, strict=True):
            if m.bin is not None:
                columns.append(bin_sql(m))
            if m.value is not None or n.granularity != 1.0:
                columns.append(value_sql(m))
        select = first + ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(columns))
        fetched = self.fetch(
            f"SELECT {select} {query.relation.sql}"
            + (f" WHERE {where}" if where else "")
            + (f" LIMIT {most + 1}" if most is not None else "")
        )
        if most is not None and len(fetched[0]) > most:
            raise TooManyRows
        arrays = iter(fetched[1:] if first else fetched)
        users = next(arrays)
        positions = [self.place(next(arrays), d) for d in query.domains]
        groups = combine_positions(positions, [len(d.values) for d in query.domains])
        measures = []
        for m, n in zip(query.measures, plan.noise, strict=True):
            bins = None
            if m.bin is not None:
                bins = combine_positions([as_index(next(arrays))], [m.bins])
            values = (
                quantise(next(arrays), lattice(m, n.granularity))
                if m.value is not None or n.granularity != 1.0
                else None
            )
            measures.append((bins, values))
        return fetched[0], PlanRows(users, groups, measures)

    def fetch(self, sql: str) -> list[NDArray[Any]]:
        """Run SQL; return its columns as arrays."""
        return [_to_numpy(column) for column in self.columns(sql)]

    def columns(self, sql: str) -> list[pa.ChunkedArray]:
        """Run SQL; return its columns."""
        table: pa.Table = self._con.sql(sql).to_arrow_table()
        return list(table.columns)

    def count(self, plan: Plan, where: str) -> int:
        """Return how many rows of a plan a condition holds for."""
        sql = f"SELECT count(*) {plan.query.relation.sql} WHERE {where}"
        ((rows,),) = self._con.execute(sql).fetchall()
        return int(rows)

    def place(self, position: NDArray[Any], domain: Domain) -> Index:
        """Return each row's place in the domain; -1 for none."""
        if domain.dictionary is None:
            return as_index(position)
        codes = self._con.execute(
            f"SELECT code, value FROM {dictionary_table(*domain.dictionary)}"
        ).fetchall()
        place = {value: i for i, value in enumerate(domain.values)}
        lookup = np.full(max((c for c, _ in codes), default=-1) + 2, -1, np.int32)
        lookup[-1] = place.get(None, -1)  # of no string
        for code, value in codes:
            lookup[code] = place.get(value, -1)
        return lookup[as_index(position)]

    def have(self, caps: Iterable[Cap]) -> None:
        """Have the tables of those who are taken out of joins; those inside come first."""
        caps = list(caps)
        if len(self._caps) > _MOST_CAPS:
            self.forget_caps()
        for cap in caps:
            if cap.name not in self._caps:
                self._con.execute(f"CREATE OR REPLACE TEMP TABLE {quote(cap.name)} AS {cap.sql}")
                self._caps.add(cap.name)

    def forget_caps(self) -> None:
        """Drop these tables: rows have arrived, or others are there."""
        for name in self._caps:
            self._con.execute(f"DROP TABLE IF EXISTS temp.{quote(name)}")
        self._caps.clear()

    def drop_caps(self, caps: Iterable[Cap]) -> None:
        """Drop such tables that another reader of the connection may have left."""
        self._caps |= {cap.name for cap in caps}
        self.forget_caps()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection that it reads through."""
        return self._con

    def reopened(self) -> None:
        """Take note that the connection was opened anew, and its temporary tables are gone."""
        self._caps.clear()


def position_sql(domain: Domain) -> str:
    """Return SQL of a row's place in a domain, before it is looked up."""
    return f"coalesce({domain.position.sql}, -1)"


def bin_sql(measure: Measure) -> str:
    """Return SQL of a row's bin."""
    assert measure.bin is not None
    return f"coalesce({measure.bin.sql}, -1)"


def value_sql(measure: Measure) -> str:
    """Return SQL of a row's value."""
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
    chunks = [chunk_values(chunk) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.asarray(column.to_numpy())


def chunk_values(chunk: pa.Array) -> NDArray[Any]:
    """Return an array's values; `to_numpy` would import pandas, where it is installed."""
    if pa.types.is_boolean(chunk.type) and not chunk.null_count:
        bits = np.unpackbits(np.frombuffer(chunk.buffers()[1], np.uint8), bitorder="little")
        return bits_as(bits[chunk.offset : chunk.offset + len(chunk)], np.uint8, np.bool_)
    if chunk.null_count or not pa.types.is_primitive(chunk.type):
        return np.asarray(chunk.to_numpy(zero_copy_only=False))
    return np.from_dlpack(chunk)


def as_index(array: NDArray[Any]) -> Index:
    """Return places as int32, those out of its range as what is in no domain."""
    if array.dtype == np.int32:
        return array
    if array.dtype.itemsize > 2:
        array = np.clip(array, -1, 2**31 - 1)
    return array.astype(np.int32)


# -- columns of stored tables in memory ------------------------------------------------------------

MOST_CODES = 1 << 16
_FIRST_DATE = "CAST('1970-01-01' AS DATE)"


@dataclass(frozen=True)
class Span:
    """Whole numbers or days that lie close: codes count from the least one, the last is NULL's."""

    codes: str
    table: Vector


class StoredColumns:
    """Reads columns, and keeps them while there is room.

    Args:
        reader: Of the store.
        cache: Where they are kept.

    Attributes:
        cache: As given.
    """

    def __init__(self, reader: Reader, cache: ColumnCache) -> None:
        self._reader, self.cache = reader, cache
        self._layouts: dict[str, tuple[Index, Runs, Ints | None]] = {}
        self._spans: dict[tuple[str, str], Span | None] = {}
        self._nulls: dict[tuple[str, str], bool] = {}
        self._last_codes: dict[tuple[str, str], int] = {}

    def layout(self, table: str) -> tuple[Index, Runs]:
        """Return whose each row is, and where each user's rows lie."""
        return self._layout(table)[:2]

    def column(self, table: str, leaf: Leaf) -> StepValues:
        """Return what a leaf of a program is."""
        if leaf.type.family is Family.TEXT or leaf.said:
            codes, last = self._codes(table, leaf.column)
            return StepValues(codes, ALL, self._table(table, leaf, last))
        sql = quote(leaf.column)
        if leaf.type.family in (Family.DATE, Family.INTEGER):
            span = self._span(table, sql, leaf.type.family)
            if span is not None:
                return StepValues(self._kept(table, span.codes), ALL, span.table)
        not_null = self.cache.get((table, "known", sql), lambda: self._known(table, sql))
        return StepValues(self._kept(table, sql), not_null if len(not_null) else ALL)

    def warm(self, table: str, column: Column) -> None:
        """Keep what most questions about a column read, if there is room."""
        type = type_named(column.type)
        if column.coded:
            self._codes(table, column.name)
        elif type is not None and type.family is not Family.TEXT:
            self.column(table, Leaf(column.name, type))

    def clear(self) -> None:
        """Forget everything: rows have arrived."""
        self.cache.clear()
        self._layouts.clear()
        self._spans.clear()
        self._nulls.clear()
        self._last_codes.clear()

    def _layout(self, table: str) -> tuple[Index, Runs, Ints | None]:
        """Return the layout, and how to sort rows by user (None: they are)."""
        if table not in self._layouts:
            users = self._fetch(table, USER)
            order = order_of(users)
            if order is not None:
                users = users[order]
            self._layouts[table] = users, Runs.of(users), order
        return self._layouts[table]

    def _span(self, table: str, sql: str, family: Family) -> Span | None:
        """Return a column's values between the least and the greatest; None: they are many."""
        if (table, sql) not in self._spans:
            ends = f"SELECT min({sql}) AS low, max({sql}) AS high FROM by_user.{quote(table)}"
            some = self._lacks_some(table, sql)
            self._spans[table, sql] = _column_span(sql, family, some, *self._reader.columns(ends))
        return self._spans[table, sql]

    def _lacks_some(self, table: str, sql: str) -> bool:
        """Tell whether a column has a NULL."""
        missing = f"SELECT count(*) > count({sql}) AS x FROM by_user.{quote(table)}"
        return bool(self._reader.columns(missing)[0][0].as_py())

    def _fetch(self, table: str, sql: str) -> NDArray[Any]:
        return values_of(self._reader.columns(f"SELECT {sql} AS x FROM by_user.{quote(table)}")[0])

    def _kept(self, table: str, sql: str) -> NDArray[Any]:
        def make() -> NDArray[Any]:
            array, order = self._fetch(table, sql), self._layout(table)[2]
            return array if order is None else array[order]

        return self.cache.get((table, sql), make)

    def _codes(self, table: str, column: str) -> tuple[NDArray[Any], int]:
        """Return a coded column, and the code that stands for NULL."""
        last = self._last_code(table, column)
        sql = f"CAST(coalesce({quote(column)}, {last}) AS {_code_type(last)})"
        return self._kept(table, sql), last

    def _known(self, table: str, sql: str) -> NDArray[Any]:
        """Return which values of a column are not NULL; nothing where none is."""
        not_null, order = self._fetch(table, f"{sql} IS NOT NULL"), self._layout(table)[2]
        if not_null.all():
            return np.zeros(0, np.bool_)
        return not_null if order is None else not_null[order]

    def _last_code(self, table: str, column: str) -> int:
        """Return the code that stands for NULL, above all others; remembered."""
        if (table, column) not in self._last_codes:
            codes = self._reader.fetch(f"SELECT code FROM {dictionary_table(table, column)}")[0]
            self._last_codes[table, column] = max(codes.tolist(), default=-1) + 1
        return self._last_codes[table, column]

    def _table(self, table: str, leaf: Leaf, last: int) -> Vector:
        """Return what is said of each code."""
        strings = dictionary_table(table, leaf.column)
        if isinstance(leaf.said, Domain):
            codes = np.arange(last + 1, dtype=np.int32)
            return Vector(self._reader.place(codes, leaf.said))
        name = quote(leaf.column)
        alias = leaf.name[: -len(name) - 1]
        results, codes = self._reader.columns(
            f'SELECT {leaf.said} AS said, "#code" FROM (SELECT code AS "#code", value AS {name} '
            f"FROM {strings} UNION ALL SELECT {last}, NULL) AS {alias}"
        )
        values = np.zeros(last + 1, values_of(results).dtype)
        not_null = np.zeros(last + 1, np.bool_)
        values[values_of(codes)] = values_of(results)
        not_null[values_of(codes)] = results.is_valid().to_numpy(zero_copy_only=False)
        if not self._has_null(table, leaf.column) and not_null[:-1].all():  # asked of any column
            return Vector(values)
        return Vector(values, ALL if not_null.all() else not_null)

    def _has_null(self, table: str, column: str) -> bool:
        """Tell whether a coded column has a NULL; remembered."""
        if (table, column) not in self._nulls:
            self._nulls[table, column] = self._lacks_some(table, quote(column))
        return self._nulls[table, column]


def _column_span(
    sql: str, family: Family, lacks_some: bool, low: pa.ChunkedArray, high: pa.ChunkedArray
) -> Span | None:
    if low.null_count:
        return None
    kind, first, last = values_of(low).dtype, int(values_of(low)[0]), int(values_of(high)[0])
    count = last - first + 1
    if count >= MOST_CODES:
        return None
    number = f"CAST({sql} AS BIGINT)" if family is Family.INTEGER else f"({sql} - {_FIRST_DATE})"
    code = f"CAST(coalesce({number} - ({first}), {count}) AS {_code_type(count)})"
    values = np.append(first + np.arange(count), 0).astype(kind)  # last + 1 may be 2^63
    not_null = np.arange(count + 1) < count if lacks_some else ALL
    return Span(code, Vector(values, not_null))


def _code_type(last: int) -> str:
    return "UTINYINT" if last < 1 << 8 else "USMALLINT" if last < 1 << 16 else "UINTEGER"


def values_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column's values as the interpreter has them, 0 or false for NULL."""
    if pa.types.is_decimal128(column.type):
        return np.concatenate([_low_words(c) for c in column.chunks] or [np.zeros(0, np.int64)])
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(pa.scalar(0).cast(column.type))
    chunks = column.chunks
    one = chunks[0] if len(chunks) == 1 else column.combine_chunks()
    return chunk_values(one)


def _low_words(chunk: pa.Decimal128Array) -> NDArray[np.int64]:
    """Return decimals of at most 18 digits, which are the low halves of what they are held in."""
    words = np.frombuffer(chunk.buffers()[1], np.int64)[0::2]
    words = words[chunk.offset : chunk.offset + len(chunk)]
    not_null = chunk.is_valid().to_numpy(zero_copy_only=False)
    return np.where(not_null, words, 0)
