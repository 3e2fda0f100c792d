"""Reads of a plan's rows from one DuckDB: the store's own, or a copy with some users' rows only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.sql_text import quote
from sparseq.compiled import SHARED, bits_as, halves
from sparseq.engine._duckdb.scans import PlanRows
from sparseq.engine._duckdb.time_windows import Window
from sparseq.engine.contributions import lattice
from sparseq.engine.positions import combine_positions
from sparseq.engine.reduction import find_bins, quantise
from sparseq.language.types import Family
from sparseq.question.plan import Cap, Cell, Domain, Kind, Measure, Plan

_MOST_CAPS = 1024  # a query has 64 at most
_FINITE = -sys.float_info.max, sys.float_info.max
_TYPES_OF = {1: "TINYINT", 2: "SMALLINT", 4: "INTEGER"}


class TooManyRows(Exception):
    """A read returns more rows than allowed; reads of its parts may fit."""


@dataclass(frozen=True)
class ReadColumn:
    """A value that is read from every row, as integers.

    Attributes:
        sql: The SQL of the value: a number.
        missing: The number that represents NULL.
        fill: Writes the values of some rows into their part of an array.
        kind: The type of the array.
    """

    sql: str
    missing: float
    fill: Callable[[NDArray[Any], NDArray[Any]], object]
    kind: Any = np.int32

    def array(self, read: pa.ChunkedArray) -> NDArray[Any]:
        """Return the values of all rows, from DuckDB's result."""
        out = np.empty(len(read), self.kind)
        ends = np.cumsum([0, *map(len, read.chunks)])

        def part(some: slice) -> None:
            for i in range(some.start, some.stop):
                self.fill(_numbers(read.chunk(i), self.missing), out[ends[i] : ends[i + 1]])

        halves(read.num_chunks, part, 0 if len(read) >= SHARED else read.num_chunks + 1)
        return out


class Reader:
    """A reader through one connection; it passes on every error unchanged: errors are private."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._caps: set[str] = set()  # limits whose tables exist

    def read(
        self, plan: Plan, where: str, at: Window | None = None, most: int | None = None
    ) -> tuple[NDArray[np.int64], PlanRows]:
        """Return the times of a plan's rows, and the rows.

        Args:
            plan: A plan whose limits' tables exist (see `have`).
            where: A condition; "": none.
            at: The window whose column has the times, without NULL; None: without times.
            most: The maximum number of rows; None: no limit.

        Raises:
            TooManyRows: The read has more rows than `most`.
        """
        query = plan.query
        user = ReadColumn(query.relation.user, -1, lambda users, out: np.copyto(out, users))
        places = [place_column(d) for d in query.domains]
        bins = [None if m.bin is None else bin_column(m.bin, m.bins) for m in query.measures]
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
        """Return the number of rows of a plan that meet a condition."""
        sql = f"SELECT count(*) {plan.query.relation.sql} WHERE {where}"
        ((rows,),) = self._con.execute(sql).fetchall()
        return int(rows)

    def have(self, caps: Iterable[Cap]) -> None:
        """Create the tables of users who are removed from joins; inner ones come first."""
        caps = list(caps)
        if len(self._caps) > _MOST_CAPS:
            self.forget_caps()
        for cap in caps:
            if cap.name not in self._caps:
                self._con.execute(f"CREATE OR REPLACE TEMP TABLE {quote(cap.name)} AS {cap.sql}")
                self._caps.add(cap.name)

    def forget_caps(self) -> None:
        """Drop these tables: rows have arrived, or the database has other rows."""
        for name in self._caps:
            self._con.execute(f"DROP TABLE IF EXISTS temp.{quote(name)}")
        self._caps.clear()

    def drop_caps(self, caps: Iterable[Cap]) -> None:
        """Drop such tables that another reader of the connection may have left."""
        self._caps |= {cap.name for cap in caps}
        self.forget_caps()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection of the reads."""
        return self._con

    def reopened(self) -> None:
        """Record that the connection was opened again, without its temporary tables."""
        self._caps.clear()


def _numbers(chunk: pa.Array, missing: float = 0) -> NDArray[Any]:
    """Return an array's numbers, `missing` for NULL."""
    numbers, known = numbers_of(chunk)
    return numbers if known is None else np.where(known, numbers, numbers.dtype.type(missing))


def numbers_of(chunk: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return an array's numbers, and a mask of those that are not NULL; None: none is NULL."""
    some, (known, values) = slice(chunk.offset, chunk.offset + len(chunk)), chunk.buffers()
    numbers = np.frombuffer(values, chunk.type.to_pandas_dtype())[some]
    if not chunk.null_count:
        return numbers, None
    return numbers, np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")[some] != 0


def place_column(domain: Domain) -> ReadColumn:
    """Return a row's place among the values of a key."""
    return whole_column(_place_sql(domain), len(domain.values))


def whole_column(sql: str, size: int) -> ReadColumn:
    """Return an index below `size`, in the narrowest type; NULL and larger values become -1."""
    kind = np.min_scalar_type(-size - 1)

    def fill(places: NDArray[Any], out: NDArray[Any]) -> None:
        out[:] = places
        np.copyto(out, -1, where=bits_as(out, np.signedinteger, f"u{out.itemsize}") >= size)

    return ReadColumn(f"TRY_CAST({sql} AS {_TYPES_OF[kind.itemsize]})", -1, fill, kind)


def bin_column(cell: Cell, size: int) -> ReadColumn:
    """Return a row's bin."""
    return bin_of_number(cell, size) or whole_column(cell.sql, size)


def bin_of_number(cell: Cell, size: int) -> ReadColumn | None:
    """Return a row's bin among explicit edges, read as a number and searched here, because a CASE
    over many edges is slow. None: the bin has no explicit edges."""
    term = cell.term
    if term is None or term.function not in ("bin", "nearest bin"):
        return None
    number, *written = term.arguments
    edges = np.array([edge.value for edge in written], np.float64)
    kind = np.min_scalar_type(-size - 1)
    ends = _FINITE if term.function == "nearest bin" else (edges[0], edges[-1])
    return ReadColumn(number.sql, np.nan, partial(find_bins, edges[1:-1], ends), kind)


def _place_sql(domain: Domain) -> str:
    """Return SQL of an index; for a CASE among texts, a CASE of indices.

    So DuckDB creates no text for a row, and searches no text.
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
    one = np.int32(steps_of_one(step))  # the type of lattice values: that of truths is too narrow
    return ReadColumn(
        f"({truth})::UTINYINT", 0, lambda values, out: np.multiply(values, one, out=out)
    )


def steps_of_one(step: float) -> int:
    """Return the lattice steps of 1."""
    return int(quantise(np.ones(1), step)[0])
