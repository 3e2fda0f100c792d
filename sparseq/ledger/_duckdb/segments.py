"""Segments of releases: a sequence of tables; a full table is never rewritten.

When DuckDB moves its log into a table, it rewrites that table's last row group, which has up to
122,880 rows. With all releases in one table, a checkpoint would rewrite those of years, and one
answer would wait for it. So a table holds `SEGMENT_BYTES`, and then the transaction that writes
next begins another one. `ledger.release` is a view of all tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError

SEGMENT_BYTES = 1 << 26
"""A table with this number of bytes of answers and charges is full; a checkpoint rewrites no more.
"""
_MANY = 4  # rows from which one statement for all is faster
_COLUMNS = """(
    id BIGINT NOT NULL, request_id VARCHAR, released_at TIMESTAMP NOT NULL,
    query VARCHAR NOT NULL, coordinates BIGINT NOT NULL, sigma DOUBLE[] NOT NULL,
    bound DOUBLE[] NOT NULL, confidence DOUBLE NOT NULL, answer BLOB NOT NULL,
    users BLOB NOT NULL, charges BLOB NOT NULL USING COMPRESSION uncompressed,
    pot UTINYINT NOT NULL, departed BLOB, sealed BLOB, root BLOB)"""
_LONG = ("answer", "users", "charges")
_PUBLIC = "id, request_id, released_at, query, coordinates, sigma, bound, confidence, answer, pot"


def _segment_sql(number: int) -> str:
    """Return the SQL that creates a segment."""
    every = " UNION ALL BY NAME ".join(
        f"SELECT * FROM ledger.release_{n + 1}" for n in range(number)
    )
    return (
        f"CREATE TABLE ledger.release_{number} {_COLUMNS};\n"
        f"CREATE OR REPLACE VIEW ledger.release AS {every};\n"
    )


FIRST_SEGMENT = _segment_sql(1)


def public_columns(names: Collection[str]) -> str:
    """Return the columns of a `Release`, of a table or view with these columns."""
    return f"{_PUBLIC}, sealed, root" if "root" in names else _PUBLIC


class Segments:
    """The tables of releases; rows are added to the last one.

    Attributes:
        rooted: True if releases have roots; else an earlier version made the tables, and the next
            new table has roots.
        public: The columns of a `Release`.

    Raises:
        StoreError: There is no table.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con, self._number = connection, 1
        try:
            self._bytes = self._count_bytes()
        except duckdb.CatalogException:
            raise StoreError("the ledger has no table of releases", "restore a copy") from None
        self._read_columns()
        if self._bytes >= SEGMENT_BYTES or not self.rooted:  # only then can there be another table
            self._number = self._count()
            self._bytes = self._count_bytes()
            self._read_columns()

    def _read_columns(self) -> None:
        self._schema = self._con.sql(f"FROM {self._table} LIMIT 0").to_arrow_table().schema
        self._long = [self._schema.get_field_index(column) for column in _LONG]
        self.rooted = "root" in self._schema.names
        self.public = public_columns(self._schema.names)

    @property
    def _table(self) -> str:
        return f"ledger.release_{self._number}"

    def _count(self) -> int:
        """Return the number of tables; the first look at a database's tables takes 9 ms."""
        ((number,),) = self._con.execute(
            "SELECT count(*) FROM duckdb_tables() "
            "WHERE schema_name = 'ledger' AND table_name SIMILAR TO 'release_[0-9]+'"
        ).fetchall()
        return int(number)

    def _count_bytes(self) -> int:
        """Return the number of bytes in the last table."""
        bytes_of_a_row = " + ".join(f"octet_length({column})" for column in _LONG)
        ((bytes,),) = self._con.execute(
            f"SELECT coalesce(sum({bytes_of_a_row}), 0)::BIGINT FROM {self._table}"
        ).fetchall()
        return int(bytes)

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write releases in a transaction of the caller; large numbers of rows go through Arrow.

        If the transaction fails, this object must not be used again.
        """
        if self._bytes >= SEGMENT_BYTES or not self.rooted:
            self._number, self._bytes = self._count() + 1, 0
            self._con.execute(_segment_sql(self._number))
            self._read_columns()
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
