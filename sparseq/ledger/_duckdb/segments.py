"""Segments of releases: one table after the other; what was written is never written again.

When DuckDB takes its log into a table, it writes that table's last row group anew, which is up to
122,880 rows: were releases in one table, each would be written again with those of years, and the
answer that it falls on would wait for that. So a table takes `SEGMENT_BYTES`, and then the next one
begins, in the transaction that writes to it. `ledger.release` is a view of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError

SEGMENT_BYTES = 1 << 26
"""A table with so many bytes of answers and charges is full; a checkpoint writes no more anew."""
_MANY = 4  # rows from which one statement for all is quicker
_COLUMNS = """(
    id BIGINT NOT NULL, request_id VARCHAR, released_at TIMESTAMP NOT NULL,
    query VARCHAR NOT NULL, coordinates BIGINT NOT NULL, sigma DOUBLE[] NOT NULL,
    bound DOUBLE[] NOT NULL, confidence DOUBLE NOT NULL, answer BLOB NOT NULL,
    users BLOB NOT NULL, charges BLOB NOT NULL USING COMPRESSION uncompressed,
    pot UTINYINT NOT NULL, departed BLOB)"""
_LONG = ("answer", "users", "charges")


def _added(number: int) -> str:
    """Return SQL that begins a segment."""
    every = " UNION ALL ".join(f"SELECT * FROM ledger.release_{n + 1}" for n in range(number))
    return (
        f"CREATE TABLE ledger.release_{number} {_COLUMNS};\n"
        f"CREATE OR REPLACE VIEW ledger.release AS {every};\n"
    )


FIRST_SEGMENT = _added(1)


class Segments:
    """The tables of releases, of which the last one is written to.

    Raises:
        StoreError: There is none.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con, self._number = connection, 1
        try:
            self._bytes = self._count_bytes()
        except duckdb.CatalogException:
            raise StoreError("the ledger has no table of releases", "restore a copy") from None
        if self._bytes >= SEGMENT_BYTES:  # only then can there be more
            self._number = self._count()
            self._bytes = self._count_bytes()
        self._schema = connection.sql(f"FROM {self._table} LIMIT 0").to_arrow_table().schema
        self._long = [self._schema.get_field_index(column) for column in _LONG]

    @property
    def _table(self) -> str:
        return f"ledger.release_{self._number}"

    def _count(self) -> int:
        """Return how many tables there are; the first look at a database's takes 9 ms."""
        ((number,),) = self._con.execute(
            "SELECT count(*) FROM duckdb_tables() "
            "WHERE schema_name = 'ledger' AND table_name SIMILAR TO 'release_[0-9]+'"
        ).fetchall()
        return int(number)

    def _count_bytes(self) -> int:
        """Return how many bytes are in the last table."""
        bytes_of_a_row = " + ".join(f"octet_length({column})" for column in _LONG)
        ((bytes,),) = self._con.execute(
            f"SELECT coalesce(sum({bytes_of_a_row}), 0)::BIGINT FROM {self._table}"
        ).fetchall()
        return int(bytes)

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write releases, in a transaction of the caller; where there are many, by way of Arrow.

        If the transaction fails, this object must not be used again.
        """
        if self._bytes >= SEGMENT_BYTES:
            self._number, self._bytes = self._count() + 1, 0
            self._con.execute(_added(self._number))
        self._bytes += sum(len(row[i]) for row in rows for i in self._long)
        if len(rows) < _MANY:
            marks = ", ".join(["?"] * len(self._schema))
            for row in rows:
                self._con.execute(f"INSERT INTO {self._table} VALUES ({marks})", list(row))
            return
        columns = [list(column) for column in zip(*rows, strict=True)]
        self._con.register("entries", pa.table(columns, schema=self._schema))
        self._con.execute(f"INSERT INTO {self._table} SELECT * FROM entries")
        self._con.unregister("entries")
