"""Columns that a plan over one stored table needs: its keys, bins, values and conditions.

DuckDB reads each column, or it is derived from a column that DuckDB reads. Equal columns have equal
names in all questions. A condition on one column of numbers, dates or times is a set of intervals
(`sparseq.language.conditions`); the truth of all other conditions is a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.sql_text import quote
from sparseq.compiled import halves, select
from sparseq.engine._duckdb.reader import (
    ReadColumn,
    bin_of_number,
    numbers_of,
    place_column,
    steps_of_one,
    whole_column,
)
from sparseq.engine.contributions import RowBatch, coordinates_of, lattice
from sparseq.engine.kept_numbers import (
    NAN,
    NO_NUMBER,
    ClampChain,
    ClampedNumbers,
    days_from,
    fill_finite,
    map_each,
    map_numbers,
)
from sparseq.engine.positions import combine_positions
from sparseq.engine.protocol import USER
from sparseq.engine.reduction import Runs
from sparseq.engine.row_mask import RowMask, words_of, words_within
from sparseq.language.conditions import read
from sparseq.language.expression_tree import Term, all_of, day_of
from sparseq.language.types import INT64, Family
from sparseq.language.value_sets import Spans, in_order
from sparseq.question.plan import Cell, Domain, Kind, Measure, Plan

_PUBLIC = re.compile(r' INNER JOIN public\."(?:[^"]|"")+" AS ("(?:[^"]|"")+") ON ')


@dataclass(frozen=True)
class TableSource:
    """The FROM of a plan: rows of one table, each joined once to public tables and places of keys.

    Attributes:
        table: The FROM clause of the table alone.
        whole: The FROM clause with the public tables and the places of keys.
        alias: The table's name in both, in SQL.
        public: The names of the public tables; a row without a match in one of them is not in
            `whole`.
    """

    table: str
    whole: str
    alias: str
    public: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> TableSource | None:
        """Return the source of a plan; None: its rows are not rows of one table, each once."""
        relation = plan.query.relation
        alias = relation.user.removesuffix(f".{quote(USER)}")
        if not relation.stored or relation.caps or alias == relation.user:
            return None
        whole = relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
        table = f"FROM by_user.{quote(relation.stored)} AS {alias}"
        joins = whole.removeprefix(table)
        if relation.joined and whole.startswith(table) and _PUBLIC.match(joins):
            return cls(table, whole, alias, tuple(_PUBLIC.findall(joins)))
        plain = joins == "" or joins.startswith(" LEFT JOIN (SELECT unnest(")
        return cls(table, whole, alias) if plain and not relation.joined else None

    def name(self, sql: str) -> Hashable:
        """Return the name of an expression: the same for a stored column under any alias."""
        own = self._own(sql)
        if own:
            return self.table.rpartition(" AS ")[0], own
        return self.whole if self.is_joined(sql) else self.table, sql

    def is_joined(self, sql: str) -> bool:
        """Tell whether an expression uses the public tables or the places of keys."""
        return '"#key' in sql or any(f"{name}." in sql for name in self.public)

    def is_column(self, term: Term) -> bool:
        """Tell whether a term is a column of the table itself."""
        return not term.function and self._own(term.sql) != ""

    def _own(self, sql: str) -> str:
        """Return the name of the table's own column, in SQL; "": it is another expression."""
        found = re.fullmatch(re.escape(self.alias) + r'\.("(?:[^"]|"")+")', sql)
        return found[1] if found else ""

    def condition(self, where: str) -> Hashable:
        """Return the name of a condition on rows: a join is a condition, too."""
        return (self.whole, where) if self.public else self.name(where)

    def columns(self, text: str) -> list[Hashable]:
        """Return the names of the table, and of its columns that a text mentions."""
        found = re.findall(re.escape(self.alias) + r'\.("(?:[^"]|"")+")', text)
        table = self.table.rpartition(" AS ")[0]
        return [(table, ""), *((table, column) for column in dict.fromkeys(found))]


@dataclass(frozen=True)
class KeptColumn:
    """A column that DuckDB reads.

    Attributes:
        name: The name under which it is kept.
        sql: Its SQL.
        array: Makes it from DuckDB's result.
        joined: It uses the joined public tables or places of keys. A row without a match has 0.
    """

    name: Hashable
    sql: str
    array: Callable[[pa.ChunkedArray], NDArray[Any]]
    joined: bool = False


@dataclass(frozen=True)
class DerivedColumn:
    """A column that is derived from another column.

    Attributes:
        of: The other column.
        name: The name under which it is kept.
        make: Makes it from the other column.
    """

    of: KeptColumn | DerivedColumn
    name: Hashable
    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Span:
    """A condition on the values of one column.

    Attributes:
        column: The column.
        spans: The intervals that meet the condition, both ends included.
        missing: See `words_within`.
        nan: See `words_within`.
    """

    column: KeptColumn
    spans: tuple[tuple[Any, Any], ...]
    missing: Any
    nan: int = 0


@dataclass(frozen=True)
class WantedRows:
    """The columns that a plan needs from every row.

    Attributes:
        plan: The plan.
        places: The place of each key.
        bins, values: The bin and the value of each measure.
        factors: The factors from each measure's values to lattice steps (see `reduce`).
        spans, rest: The conditions on one column each, and the truth of all other conditions.
        matches: The rows that have a match in each public table; None: there is no such table.
        where: All conditions as SQL.
    """

    plan: Plan
    places: tuple[KeptColumn | DerivedColumn, ...]
    bins: tuple[KeptColumn | DerivedColumn | None, ...]
    values: tuple[KeptColumn | DerivedColumn | None, ...]
    factors: tuple[float, ...]
    spans: tuple[Span, ...]
    rest: KeptColumn | None
    matches: KeptColumn | None
    where: str

    @classmethod
    def of(cls, plan: Plan, source: TableSource) -> WantedRows:
        """Return the columns that a plan needs."""
        query = plan.query
        spans, rest = [], []
        for condition in query.relation.conditions:
            span = _span(condition, source)
            spans += [span] if span else []
            rest += [] if span else [condition]
        if all_of(query.relation.conditions) != query.relation.where:
            spans, rest_sql = [], query.relation.where
        else:
            rest_sql = all_of(rest)
        valued = [
            _value(m, n.granularity, source)
            for m, n in zip(query.measures, plan.noise, strict=True)
        ]
        return cls(
            plan,
            tuple(_place(d, source) for d in query.domains),
            tuple(None if m.bin is None else _bins(m.bin, m.bins, source) for m in query.measures),
            tuple(value for value, _ in valued),
            tuple(factor for _, factor in valued),
            tuple(spans),
            _truth(rest_sql, source) if rest_sql else None,
            KeptColumn(("matches", source.whole), "1::UTINYINT", _truths, joined=True)
            if source.public
            else None,
            query.relation.where,
        )

    @property
    def filtered(self) -> bool:
        """True if not all rows of the table count."""
        return bool(self.where) or self.matches is not None

    @property
    def tests(self) -> list[KeptColumn]:
        """The columns of the conditions."""
        others = [column for column in (self.rest, self.matches) if column is not None]
        return [*(s.column for s in self.spans), *others]

    @property
    def shown(self) -> list[KeptColumn | DerivedColumn]:
        """The columns that the contributions are computed from."""
        return [c for c in (*self.places, *self.bins, *self.values) if c is not None]

    @property
    def columns(self) -> list[KeptColumn | DerivedColumn]:
        """All columns."""
        return [*self.shown, *self.tests]

    @property
    def names(self) -> dict[Hashable, KeptColumn | DerivedColumn]:
        """All columns, and all columns from which they are derived, by name."""
        named: dict[Hashable, KeptColumn | DerivedColumn] = {}
        for column in self.columns:
            named[column.name] = column
            while isinstance(column, DerivedColumn):
                column = column.of
                named[column.name] = column
        return named

    @property
    def text(self) -> str:
        """The SQL of all columns that DuckDB reads."""
        return " ".join(c.sql for c in self.names.values() if isinstance(c, KeptColumn))

    def passing(self, found: dict[Hashable, Any], runs: Runs) -> tuple[RowMask, Runs]:
        """Return a mask of the rows that meet the conditions, and the runs with such a row."""
        words = [
            words_within(found[s.column.name], list(s.spans), s.missing, s.nan) for s in self.spans
        ]
        for column in (self.rest, self.matches):
            if column is not None:
                words.append(words_of(found[column.name]))
        mask = RowMask(np.bitwise_and.reduce(words) if len(words) > 1 else words[0])
        some = mask.counts(runs.first, runs.stop) > 0
        if not some.all():
            runs = Runs(*(select(x, some) for x in (runs.owners, runs.first, runs.stop)))
        return mask, runs

    def batch(self, found: dict[Hashable, Any], runs: Runs, mask: RowMask | None) -> RowBatch:
        """Return the rows as a batch."""

        def of(column: KeptColumn | DerivedColumn | None) -> NDArray[Any] | None:
            return None if column is None else found[column.name]

        positions = [found[c.name] for c in self.places]
        sizes = [len(d.values) for d in self.plan.query.domains]
        groups = positions[0] if len(positions) == 1 else combine_positions(positions, sizes)
        measures = [
            (coordinates_of(self.plan, i, groups, of(bin)), of(value))
            for i, (bin, value) in enumerate(zip(self.bins, self.values, strict=True))
        ]
        return RowBatch(runs, measures, mask, self.factors)


def _kept(column: ReadColumn, source: TableSource, kind: str, *more: Hashable) -> KeptColumn:
    name = (kind, source.name(column.sql), *more)
    return KeptColumn(name, column.sql, column.array, source.is_joined(column.sql))


def _truth(sql: str, source: TableSource) -> KeptColumn:
    text = f"({sql})::UTINYINT"
    return KeptColumn(("truth", source.name(sql)), text, _truths, source.is_joined(sql))


def _truths(read: pa.ChunkedArray) -> NDArray[Any]:
    return ReadColumn("", 0, lambda some, out: np.copyto(out, some), np.uint8).array(read)


def _place(domain: Domain, source: TableSource) -> KeptColumn | DerivedColumn:
    """Return a row's place among the values of a key; for consecutive days, from the date."""
    term, size = domain.position.term, len(domain.values)
    column = place_column(domain)
    if term is not None and term.function == "-":
        date, first = term.arguments
        if (
            source.is_column(date)
            and date.type.sql == first.type.sql == "DATE"
            and first.is_written
        ):
            of, day = _integer(date, source), day_of(first.value)
            make = partial(days_from, day, size, column.kind)
            return DerivedColumn(of, ("days", of.name, day, size), make)
    return _kept(column, source, "place", size)


def _number(cell: Cell, source: TableSource) -> KeptColumn | DerivedColumn:
    """Return the column of a cell's numbers.

    Args:
        cell: SQL of a number or NULL.
    """
    clamp = None if cell.term is None else _clamp(cell.term, source)
    if clamp is not None:
        column, between = clamp
        of = _number(Cell.of(column), source)
        clamped = partial(ClampedNumbers, clamp=between)
        return DerivedColumn(of, ("clamped", of.name, between), clamped)
    name = ("number", source.name(cell.sql))
    return KeptColumn(name, f"TRY_CAST({cell.sql} AS DOUBLE)", _numbers, source.is_joined(cell.sql))


def _clamp(term: Term, source: TableSource) -> tuple[Term, ClampChain] | None:
    """Return a column of numbers and its clamp; None: the term has another form."""
    if term.function not in ("least", "greatest") or len(term.arguments) != 2:
        return None
    constants = [a for a in term.arguments if a.is_written and a.type.sql == "DOUBLE"]
    others = [a for a in term.arguments if not a.constant and a.type.sql == "DOUBLE"]
    if len(constants) != 1 or len(others) != 1 or not math.isfinite(constants[0].value):
        return None
    (inner,), end = others, float(constants[0].value)
    if source.is_column(inner):
        return inner, ClampChain().after(term.function, end)
    found = _clamp(inner, source)
    return None if found is None else (found[0], found[1].after(term.function, end))


def _numbers(read: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return float64 numbers; NaN and NULL have the bits `NAN` and `NO_NUMBER`."""
    out = np.empty(len(read), np.float64)

    def fill(numbers: NDArray[Any], known: NDArray[np.bool_] | None, own: NDArray[Any]) -> None:
        np.copyto(own, numbers)
        odd = np.isnan(own)
        if odd.any():
            own.view(np.uint64)[odd] = NAN
        if known is not None:
            own.view(np.uint64)[~known] = NO_NUMBER

    _each_chunk(read, out, fill)
    return out


def _bins(cell: Cell, size: int, source: TableSource) -> KeptColumn | DerivedColumn:
    searched = bin_of_number(cell, size)
    if searched is None:
        return _kept(whole_column(cell.sql, size), source, "bin", size)
    assert cell.term is not None
    of = _number(_uncast(cell.term.arguments[0]), source)

    make = partial(map_each, kind=searched.kind, fill=searched.fill)
    return DerivedColumn(of, ("bin", of.name, cell.sql), make)


def _uncast(term: Term) -> Cell:
    """Return the argument of a cast to DOUBLE, or the term itself."""
    return Cell.of(term.arguments[0] if term.function == "cast to DOUBLE" else term)


def _value(
    measure: Measure, granularity: float, source: TableSource
) -> tuple[KeptColumn | DerivedColumn | None, float]:
    """Return a row's value, and the factor from it to lattice steps."""
    step = lattice(measure, granularity)
    if measure.kind is Kind.SUM and measure.value is not None:
        return _number(measure.value, source), 1.0 / step
    one = steps_of_one(step)
    if measure.value is None:
        return None, one
    term = measure.value.term
    finite = term is not None and term.function == "isfinite"
    if term is not None and finite and term.arguments[0].type.sql == "DOUBLE":
        of = _number(_uncast(term.arguments[0]), source)
        make = partial(map_numbers, kind=np.uint8, fill=fill_finite)
        return DerivedColumn(of, ("finite", of.name), make), one
    return _truth(measure.value.sql, source), one


def _span(condition: Term, source: TableSource) -> Span | None:
    """Return a condition as intervals of one column; None: it has another form."""
    reading = read(condition)
    if not reading.exact:
        return None
    (said,) = reading.said.values()
    of, values = said.of, said.true
    if not source.is_column(of) or values.null or not isinstance(values.known, Spans):
        return None
    if of.type.sql == "DOUBLE":
        ends = [_floats(*span) for span in values.known.spans]
        nan = NAN if 2**63 in values.known else 0
        column = _number(Cell.of(of), source)
        assert isinstance(column, KeptColumn)
        return Span(column, tuple(e for e in ends if e), np.float64(np.nan), nan)
    if of.type.sql in ("DATE", "TIMESTAMP") or of.type.family is Family.INTEGER:
        return _integer_span(of, values.known.spans, source)
    return None


def _floats(low: float, high: float) -> tuple[np.float64, np.float64] | None:
    """Return the numbers at two places of `in_order`; None: the places contain at most NaN.

    Example:
        >>> _floats(in_order(1.5), math.inf)
        (np.float64(1.5), np.float64(inf))
    """
    least, most = in_order(-math.inf), in_order(math.inf)
    if low > most or high < least:
        return None
    places = int(max(low, least)), int(min(high, most))
    bits = [place if place >= 0 else -place - 2**63 for place in places]
    first, last = np.array(bits, np.int64).view(np.float64)
    return first, last


_INTEGERS: Mapping[Family, tuple[str, type[np.signedinteger[Any]]]] = {
    Family.DATE: ("CAST({0} - CAST('1970-01-01' AS DATE) AS INTEGER)", np.int32),
    Family.TIMESTAMP: ("epoch_us({0})", np.int64),
    Family.INTEGER: ("CAST({0} AS BIGINT)", np.int64),
}
"""SQL of dates, times and integers as integers, and the NumPy type that holds them."""


def _integer_span(
    of: Term, spans: Sequence[tuple[float, float]], source: TableSource
) -> Span | None:
    """Return the intervals of a column of dates, times or integers."""
    kind = _INTEGERS[of.type.family][1]
    missing, most = np.iinfo(kind).min, np.iinfo(kind).max
    if of.type.family is Family.INTEGER and not of.type.within(*INT64):
        return None
    ends = []
    for a, b in spans:
        if b <= missing or missing < a <= missing + 1:
            return None  # it distinguishes the two least integers, which are kept as one
        if a <= most:
            ends.append((kind(max(a, missing + 1)), kind(min(b, most))))
    return Span(_integer(of, source), tuple(ends), kind(missing))


def _integer(of: Term, source: TableSource) -> KeptColumn:
    """Return a column of dates, times or integers as integers."""
    sql, kind = _INTEGERS[of.type.family]
    name = ("integer", source.name(of.sql))
    return KeptColumn(name, sql.format(of.sql), partial(_integers, kind))


def _integers(kind: type[np.signedinteger[Any]], read: pa.ChunkedArray) -> NDArray[Any]:
    """Return integers; NULL becomes the least integer, and the least one becomes one more."""
    least, out = np.iinfo(kind).min, np.empty(len(read), kind)

    def fill(numbers: NDArray[Any], known: NDArray[np.bool_] | None, own: NDArray[Any]) -> None:
        np.maximum(numbers, least + 1, out=own, casting="unsafe")
        if known is not None:
            own[~known] = least

    _each_chunk(read, out, fill)
    return out


def _each_chunk(
    read: pa.ChunkedArray,
    out: NDArray[Any],
    fill: Callable[[NDArray[Any], NDArray[np.bool_] | None, NDArray[Any]], None],
) -> None:
    """Fill parts of an array from each chunk's numbers and its mask of numbers without NULL."""
    ends = np.cumsum([0, *map(len, read.chunks)])

    def part(some: slice) -> None:
        for i in range(some.start, some.stop):
            fill(*numbers_of(read.chunk(i)), out[ends[i] : ends[i + 1]])

    halves(read.num_chunks, part, 2)
