"""A plan's rows, read from one DuckDB: the store's own, or one with some people's rows only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.compiled import bits_as
from sparseq.engine._duckdb.scans import PlanRows
from sparseq.engine._duckdb.tables import dictionary_table
from sparseq.engine.columns import combine_positions
from sparseq.engine.contributions import lattice
from sparseq.engine.reduce import Index, quantise
from sparseq.engine.sql import quote
from sparseq.sql.plan import Cap, Domain, Kind, Measure, Plan

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
        lookup = np.full(max((c for c, _ in codes), default=-1) + 2, -1, np.int32)  # -1: no string
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
        """What it reads through."""
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
