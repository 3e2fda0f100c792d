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
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.compiled import SHARED, bits_as, halves, looked_up
from sparseq.engine._duckdb.tables import dictionary_table
from sparseq.engine.contributions import combine_positions, find_bins, lattice, quantise
from sparseq.engine.protocol import quote
from sparseq.language.conditions import Said, read
from sparseq.language.expression_tree import Term, all_of
from sparseq.language.types import DATE, TIMESTAMP, Family
from sparseq.language.value_sets import DAY, Spans, places_of
from sparseq.sql.plan import Cap, Cell, Domain, Kind, Measure, Plan

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

    @property
    def moment(self) -> str:
        """SQL of a row's days or microseconds."""
        if self.type == TIMESTAMP.sql:
            return f"epoch_us({self.column})"
        return f"({self.column} - CAST('1970-01-01' AS DATE))"


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
            missing = [w for w in windows.values() if self._find_cover(key, w) is None]
            for part in hulls(missing):
                for together in self._small_enough(plan, part, room):
                    room -= self._keep(key, plan, together)

    def rows(self, plan: Plan) -> PlanRows | None:
        """Return the rows of a plan, if they have been read."""
        scan = self._find(plan)
        return None if scan is None else scan[1].between(*scan[0][1:])

    def made_of(self, plan: Plan, make: Callable[[], Made]) -> Made:
        """Return what `make` makes of a plan's rows; kept, if the rows have been read ahead.

        The same rows are asked for again and again: by dashboards, by other people.
        """
        place = self._find(plan)
        if place is None:
            return make()
        at, scan = place
        if at in self._made:
            return cast(Made, self._made[at])
        made = make()
        self._made_rows += len(scan.between(*at[1:]).users)
        if self._made_rows <= self._most_rows // 4:
            self._made[at] = made
        return made

    def _find(self, plan: Plan) -> tuple[tuple[Hashable, int, int], Scan] | None:
        if not self._scans or (shape := self._window(plan)) is None:
            return None
        key, window = shape
        scan = self._find_cover(key, window)
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

    def _find_cover(self, key: Hashable, w: Window) -> Scan | None:
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
_FINITE = -sys.float_info.max, sys.float_info.max
_TYPES_OF = {1: "TINYINT", 2: "SMALLINT", 4: "INTEGER"}


class TooManyRows(Exception):
    """A read gives more rows than it may; so do parts of it, or they don't."""


@dataclass(frozen=True)
class ReadColumn:
    """Something that is read of every row, as whole numbers.

    Attributes:
        sql: Gives it: a number.
        missing: What stands for NULL.
        fill: Puts what some rows have into their part of an array.
        kind: Of the array.
    """

    sql: str
    missing: float
    fill: Callable[[NDArray[Any], NDArray[Any]], object]
    kind: Any = np.int32

    def array(self, read: pa.ChunkedArray) -> NDArray[Any]:
        """Return it for all rows, of what DuckDB gives for its SQL."""
        out = np.empty(len(read), self.kind)
        ends = np.cumsum([0, *map(len, read.chunks)])

        def part(some: slice) -> None:
            for i in range(some.start, some.stop):
                self.fill(_numbers(read.chunk(i), self.missing), out[ends[i] : ends[i + 1]])

        halves(read.num_chunks, part, 0 if len(read) >= SHARED else read.num_chunks + 1)
        return out


class Reader:
    """Reads through one connection; every error is passed on as it is, and is private."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._caps: set[str] = set()  # whose tables are there

    def read(
        self, plan: Plan, where: str, at: Window | None = None, most: int | None = None
    ) -> tuple[NDArray[np.int64], PlanRows]:
        """Return the times of a plan's rows, and the rows.

        Args:
            plan: Its caps' tables must be there (see `have`).
            where: Condition, "" for none.
            at: Whose column has the times, and no NULL; None: they are not read.
            most: Rows; None for no limit.

        Raises:
            TooManyRows: There are more.
        """
        query = plan.query
        user = ReadColumn(query.relation.user, -1, lambda users, out: np.copyto(out, users))
        places = [self._place(domain) for domain in query.domains]
        bins = [None if m.bin is None else _bin(m.bin, m.bins) for m in query.measures]
        values = [_value(m, n.granularity) for m, n in zip(query.measures, plan.noise, strict=True)]
        columns = [c for c in (user, *places, *bins, *values) if c is not None]
        texts = list(dict.fromkeys(c.sql for c in columns))
        listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(texts))
        moment = "" if at is None else f", {at.moment} AS t"
        fetched = self.fetch(
            f"SELECT {listed}{moment} {query.relation.sql}"
            + (f" WHERE {where}" if where else "")
            + (f" LIMIT {most + 1}" if most is not None else "")
        )
        if most is not None and len(fetched[0]) > most:
            raise TooManyRows
        times = [_numbers(chunk) for chunk in fetched.pop().chunks] if at is not None else []
        read = dict(zip(texts, fetched, strict=True))
        found = {column: column.array(read[column.sql]) for column in columns}
        positions, sizes = [found[c] for c in places], [len(d.values) for d in query.domains]
        groups = positions[0] if len(positions) == 1 else combine_positions(positions, sizes)
        measures = [
            (None if bin is None else found[bin], None if value is None else found[value])
            for bin, value in zip(bins, values, strict=True)
        ]
        return np.concatenate([np.zeros(0, np.int64), *times]), PlanRows(
            found[user], groups, measures
        )

    def fetch(self, sql: str) -> list[pa.ChunkedArray]:
        """Run SQL; return its columns."""
        table: pa.Table = self._con.sql(sql).to_arrow_table()
        return list(table.columns)

    def count(self, plan: Plan, where: str) -> int:
        """Return how many rows of a plan a condition holds for."""
        sql = f"SELECT count(*) {plan.query.relation.sql} WHERE {where}"
        ((rows,),) = self._con.execute(sql).fetchall()
        return int(rows)

    def _place(self, domain: Domain) -> ReadColumn:
        """Return a row's place in a domain; -1 or beyond its end: in none."""
        if domain.dictionary is None:
            return _whole(_place_sql(domain), len(domain.values))
        strings = f"SELECT code, value FROM {dictionary_table(*domain.dictionary)}"
        codes, texts = (column.to_pylist() for column in self.fetch(strings))
        place, last = {text: i for i, text in enumerate(domain.values)}, max(codes, default=-1) + 1
        kind = np.min_scalar_type(-len(domain.values) - 1)
        places = np.full(last + 1, -1, kind)
        places[codes] = [place.get(text, -1) for text in texts]
        places[last] = place.get(None, -1)  # of no string
        return ReadColumn(domain.position.sql, last, partial(looked_up, places), kind)

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


def _numbers(chunk: pa.Array, missing: float = 0) -> NDArray[Any]:
    """Return an array's numbers, `missing` for NULL."""
    some, (known, values) = slice(chunk.offset, chunk.offset + len(chunk)), chunk.buffers()
    numbers = np.frombuffer(values, chunk.type.to_pandas_dtype())[some]
    if not chunk.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")
    return np.where(bits[some], numbers, numbers.dtype.type(missing))


def _whole(sql: str, size: int) -> ReadColumn:
    """Return a place among so many, in the narrowest type; what is NULL or beyond it as none."""
    kind = np.min_scalar_type(-size - 1)

    def fill(places: NDArray[Any], out: NDArray[Any]) -> None:
        out[:] = places
        np.copyto(out, -1, where=bits_as(out, np.signedinteger, f"u{out.itemsize}") >= size)

    return ReadColumn(f"TRY_CAST({sql} AS {_TYPES_OF[kind.itemsize]})", -1, fill, kind)


def _bin(cell: Cell, size: int) -> ReadColumn:
    """Return a row's bin; of edges that are written out, found here: a CASE of many is slow."""
    term = cell.term
    if term is None or term.function not in ("bin", "nearest bin"):
        return _whole(cell.sql, size)
    number, *written = term.arguments
    edges = np.array([edge.value for edge in written], np.float64)
    kind = np.min_scalar_type(-size - 1)
    ends = _FINITE if term.function == "nearest bin" else (edges[0], edges[-1])
    return ReadColumn(number.sql, np.nan, partial(find_bins, edges[1:-1], ends), kind)


def _place_sql(domain: Domain) -> str:
    """Return SQL of a place; that of a CASE among texts as a CASE of places.

    So no text is made for a row, and none is looked for.
    """
    term = domain.position.term
    if term is None or term.function != "place" or term.arguments[0].function != "case":
        return domain.position.sql
    case, *listed = term.arguments
    conditions, texts = case.arguments[:-1:2], case.arguments[1::2]
    otherwise = case.arguments[-1:] if len(case.arguments) % 2 else ()
    for text in (*listed, *texts, *otherwise):
        if not text.is_written or text.type.family is not Family.TEXT:
            return domain.position.sql
    places = {text.value: i for i, text in enumerate(listed)}
    last = places.get(otherwise[0].value if otherwise else None, -1)
    when = [
        f"WHEN {condition.sql} THEN {places.get(text.value, -1)}"
        for condition, text in zip(conditions, texts, strict=True)
    ]
    return f"CASE {' '.join(when)} ELSE {last} END"


def _value(measure: Measure, granularity: float) -> ReadColumn | None:
    """Return a row's value on its lattice; None: it is 1."""
    step = lattice(measure, granularity)
    if measure.kind is Kind.SUM and measure.value is not None:
        number = f"TRY_CAST({measure.value.sql} AS DOUBLE)"
        return ReadColumn(number, 0, lambda values, out: quantise(values, step, out))
    if measure.value is None and step == 1.0:
        return None
    truth = "true" if measure.value is None else measure.value.sql
    one = quantise(np.ones(1), step)
    return ReadColumn(
        f"({truth})::UTINYINT", 0, lambda values, out: np.multiply(values, one, out=out)
    )
