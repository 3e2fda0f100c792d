"""Erasure of users: their rows, facts that only they brought, and the remaining bytes of both.

`erase` runs in a transaction: after it, no query of the store shows the rows. Two more steps remove
them from the file as well. Every table that contained them is rewritten, because DuckDB only marks
deleted rows, and keeps the extremes of a column. And the old blocks, which DuckDB leaves in the
file until it needs them, are overwritten: `scrub` fills all free blocks with a temporary table. If
a store was killed in between, the next opening does so.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import duckdb

from sparseq.base.private import Private
from sparseq.engine.protocol import USER
from sparseq.load._duckdb.storage import Storage
from sparseq.question.catalog import Catalog

_PENDING = "scrub"
_BLOCK, _SMALL_BLOCK = 1 << 18, 1 << 12  # bytes of a block of DuckDB's data, and of its catalogue
_MARGIN = 4  # blocks


def erase(storage: Storage, catalog: Catalog, users: Sequence[int]) -> Private[dict[str, int]]:
    """Delete all rows of some users, in a transaction of the caller; return their number by table.

    Args:
        storage: The store's.
        catalog: The catalog of its tables.
        users: By index.
    """
    from sparseq.load._duckdb.linked_rows import forget_linked

    if storage.get("erasure_key") is None:
        storage.put("erasure_key", secrets.token_hex(32))
    rows = {}
    for table in catalog.private:
        rows[table.name] = storage.count_rows(table, users).inside()
        if rows[table.name]:
            storage.write_anew(table, f"{USER} NOT IN ({', '.join(map(str, users))})")
    secret = storage.secret()
    assert secret is not None
    for name, waited in forget_linked(storage.connection, catalog, users, secret).items():
        rows[name] += waited
    storage.people().forget(users)
    scrub_later(storage)
    return Private(rows)


def scrub_later(storage: Storage) -> None:
    """Record, in the transaction of an erasure, that the free space must be overwritten."""
    storage.put(_PENDING, True)


def scrub(connection: duckdb.DuckDBPyConnection) -> None:
    """Overwrite what an erasure has left in the file, if there was one.

    A checkpoint empties the log, and frees the blocks of every dropped table. Then all free space
    is overwritten, twice: DuckDB writes blocks with the current contents of its memory at their
    unused ends, and the first pass has put only harmless bytes there.
    """
    storage = Storage(connection)
    if not storage.get(_PENDING):
        return
    connection.execute("DROP TABLE IF EXISTS filling")  # of a killed process
    connection.execute("CHECKPOINT")
    _overwrite_free_space(connection)
    _overwrite_free_space(connection)
    storage.drop(_PENDING)
    connection.execute("CHECKPOINT")


def _overwrite_free_space(connection: duckdb.DuckDBPyConnection) -> None:
    """Create, store and drop a table as large as the free space.

    Its rows fill data blocks (with hashes, which don't compress). DuckDB's statistics about
    columns, with their extremes, are in small blocks of its catalogue, which a long comment fills;
    they are freed in every checkpoint, because the connection does not reuse them.
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
