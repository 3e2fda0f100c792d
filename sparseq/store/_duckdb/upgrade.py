"""Stores of an earlier format become this version's, in place: charges and answers bit by bit.

Each step is a function with a name, in the order in which they are done, all in one transaction: a
process that is killed leaves the store as it was, or upgraded. Add yours to `STEPS`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from sparseq.base.errors import StoreError
from sparseq.engine._duckdb.storage import Storage, keep_to_types
from sparseq.engine.protocol import first_line
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.notes import name_askers
from sparseq.load.read_schema import schema_of_existing
from sparseq.store._duckdb.file_backend import FORMAT, FORMAT_WITH_KEYS, UPGRADED_FROM
from sparseq.store._duckdb.open_file import hold, open_database

Connection = duckdb.DuckDBPyConnection


@dataclass(frozen=True)
class UpgradeStep:
    """One change of the format; `apply` runs within the transaction of all."""

    name: str
    apply: Callable[[Connection], None]


def name_the_store(connection: Connection) -> None:
    """Give the store a number of its own, which its copies and records have too."""
    storage = Storage(connection)
    settings = storage.get("settings")
    storage.put("settings", settings | {"store": secrets.token_hex(16)})


def begin_the_curators_log(connection: Connection) -> None:
    """Make the table of what only the curator is told."""
    connection.execute(notes.TABLE)


def fix_how_rows_are_read(connection: Connection) -> None:
    """Keep how the rows of each table are read: types as they are stored, the usual formats."""
    storage = Storage(connection)
    for table, schema in schema_of_existing(storage.catalog()).items():
        storage.keep_schema(table, schema)


STEPS: tuple[UpgradeStep, ...] = (
    UpgradeStep("the store has a number", name_the_store),
    UpgradeStep("the curator has a log", begin_the_curators_log),
    UpgradeStep("requests have askers", name_askers),
    UpgradeStep("columns are of the closed list of types", keep_to_types),
    UpgradeStep("rows are read in one way", fix_how_rows_are_read),
)
"""From format 3 to format 4."""


def upgrade(path: str | Path) -> bool:
    """Make a store one of this version's format; False: it is one already.

    What was asked, answered and charged stays as it is, to the bit. A store of format 3 can't tell
    that its log is missing: the log must lie beside it, if it was not closed.

    Args:
        path: Of the store's file; nobody has it open.

    Raises:
        StoreError: There is no store, it is damaged, or of a format that no step starts from.
        StoreInUse: Another process has it open.

    Example:
        >>> import sparseq, pyarrow as pa, tempfile
        >>> path = tempfile.mkdtemp() + "/s.sparseq"
        >>> sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who").close()
        >>> sparseq.upgrade(path)
        False
    """
    path = Path(path)
    held = hold(path)
    try:
        connection = open_database(path.resolve())
        try:
            return _upgraded(connection, path)
        except duckdb.Error as error:
            raise StoreError(
                f"{path} can't be upgraded: {first_line(error)}", "it is as it was before"
            ) from None
        finally:
            connection.close()
    finally:
        held.release()


def _upgraded(connection: Connection, path: Path) -> bool:
    tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
    if not {("main", "meta"), ("ledger", "users")} <= set(tables):
        raise StoreError(f"{path} is not a sparseq store", "`sparseq create` makes one")
    format = Storage(connection).get("settings")["format"]
    if format in (FORMAT, FORMAT_WITH_KEYS):
        return False
    if format not in UPGRADED_FROM:
        raise StoreError(
            f"{path} has format {format}, which can't be made format {FORMAT}",
            "open it with the version that made it",
        )
    connection.execute("CHECKPOINT")  # of what the earlier version left in its log
    connection.execute("BEGIN")
    for step in STEPS:
        step.apply(connection)
    storage = Storage(connection)
    storage.put("settings", storage.get("settings") | {"format": FORMAT})
    connection.execute("COMMIT")
    connection.execute("CHECKPOINT")
    return True
