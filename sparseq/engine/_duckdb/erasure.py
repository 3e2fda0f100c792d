"""Erasing people: their rows, what only they brought, and the bytes that are left of both.

`erase` runs in a transaction: after it, nothing that can be asked of the store shows the rows. That
they are gone from the file as well takes two steps more. Every table that knew them is written
anew, since DuckDB only marks deleted rows, and keeps the extremes of a column. And the old blocks,
which DuckDB leaves in the file until it needs them, are overwritten: `scrub` fills all free blocks
with a throw-away table. A store that was killed in between does so when it is opened next.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import duckdb

from sparseq.engine._duckdb.storage import Storage
from sparseq.engine.protocol import USER
from sparseq.sql.catalog import Table

_PENDING = "scrub"
_BLOCK, _SMALL_BLOCK = 1 << 18, 1 << 12  # bytes, of DuckDB's data and catalogue
_MARGIN = 4  # blocks


def erase(storage: Storage, tables: Sequence[Table], users: Sequence[int]) -> dict[str, int]:
    """Delete all rows of some users, in a transaction of the caller; return how many, by table.

    Args:
        storage: The store's.
        tables: Its private tables.
        users: By index.
    """
    if storage.get("erasure_key") is None:
        storage.put("erasure_key", secrets.token_hex(32))
    rows = {}
    for table in tables:
        rows[table.name] = storage.count_rows(table, users)
        if rows[table.name]:
            storage.write_anew(table, f"{USER} NOT IN ({', '.join(map(str, users))})")
        storage.drop_unused_codes(table)
    storage.people().forget(users)
    storage.put(_PENDING, True)
    return rows


def scrub(connection: duckdb.DuckDBPyConnection) -> None:
    """Overwrite what an erasure has left in the file, if one has.

    A checkpoint empties the log, and frees the blocks of every table that was dropped. All free
    space is overwritten then, twice: DuckDB writes blocks with whatever its memory had at their
    unused ends, and the first time has put nothing of anybody's there.
    """
    storage = Storage(connection)
    if not storage.get(_PENDING):
        return
    connection.execute("DROP TABLE IF EXISTS filling")  # of a process that was killed
    connection.execute("CHECKPOINT")
    _overwrite_free_space(connection)
    _overwrite_free_space(connection)
    storage.drop(_PENDING)
    connection.execute("CHECKPOINT")


def _overwrite_free_space(connection: duckdb.DuckDBPyConnection) -> None:
    """Make, store and drop a table as large as the free space.

    Its rows fill data blocks (hashes, which don't compress). What DuckDB keeps about columns, their
    extremes among it, lies in small blocks of its catalogue, which a long comment fills; they are
    freed in every checkpoint, as the connection does not reuse them.
    """
    ((blocks, small),) = connection.execute(
        "SELECT (SELECT free_blocks FROM pragma_database_size()), "
        "(SELECT coalesce(sum(free_blocks), 0)::BIGINT FROM pragma_metadata_info())"
    ).fetchall()
    words = (blocks + _MARGIN) * _BLOCK // 8
    connection.execute(f"CREATE TABLE filling AS SELECT hash(range) AS x FROM range({words})")
    comment = "-" * (small * _SMALL_BLOCK + _BLOCK)
    connection.execute(f"COMMENT ON TABLE filling IS '{comment}'")
    connection.execute("CHECKPOINT")
    connection.execute("DROP TABLE filling")
    connection.execute("CHECKPOINT")
