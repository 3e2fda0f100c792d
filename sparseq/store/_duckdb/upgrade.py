"""Upgrades of stores of an earlier format in place; charges and answers stay bit by bit.

Each step is a named function. The steps run in order and in one transaction: a killed process
leaves the store unchanged or upgraded. Add a new step to `STEPS`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from sparseq.base.errors import StoreError
from sparseq.base.sql_text import first_line
from sparseq.ledger._duckdb import curator_log
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.former_request_ids import name_askers
from sparseq.load._duckdb.coded_texts import store_texts
from sparseq.load._duckdb.format_3_columns import keep_to_types
from sparseq.load._duckdb.storage import Storage
from sparseq.load.read_schema import schema_of_existing
from sparseq.question.catalog import Catalog
from sparseq.store._duckdb.file_backend import FORMAT, FORMATS, UPGRADED_FROM
from sparseq.store._duckdb.open_file import (
    flush_log,
    hold,
    open_database,
)
from sparseq.store.shared_facts import FACTS_OF_COLUMNS, shared_facts

Connection = duckdb.DuckDBPyConnection


@dataclass(frozen=True)
class UpgradeStep:
    """One change of the format; `apply` runs within the transaction of all steps.

    Attributes:
        name: The state after the step.
        apply: The function that makes the change.
        until: The last format that lacks it.
    """

    name: str
    apply: Callable[[Connection], None]
    until: int = 3


def name_the_store(connection: Connection) -> None:
    """Give the store a unique number, which its copies and records have too."""
    storage = Storage(connection)
    settings = storage.get("settings")
    storage.put("settings", settings | {"store": secrets.token_hex(16)})


def begin_the_curators_log(connection: Connection) -> None:
    """Make the table of the curator's log."""
    connection.execute(curator_log.TABLE)


def fix_how_rows_are_read(connection: Connection) -> None:
    """Keep the schema of each table's rows: the stored types and the usual formats."""
    storage = Storage(connection)
    for table, schema in schema_of_existing(storage.catalog()).items():
        storage.keep_schema(table, schema)


STEPS: tuple[UpgradeStep, ...] = (
    UpgradeStep("texts are stored as they are", store_texts, 6),
    UpgradeStep("the store has a number", name_the_store),
    UpgradeStep("the curator has a log", begin_the_curators_log),
    UpgradeStep("requests have askers", name_askers),
    UpgradeStep("columns are of the closed list of types", keep_to_types),
    UpgradeStep("rows are read in one way", fix_how_rows_are_read),
)
"""The upgrade steps, in order."""


def upgrade(path: str | Path) -> bool:
    """Upgrade a store to this version's format; False: it has that format already.

    Example:
        >>> import sparseq, pyarrow as pa, tempfile
        >>> path = tempfile.mkdtemp() + "/s.sparseq"
        >>> sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who").close()
        >>> sparseq.upgrade(path)
        False

    See `upgraded`, which also returns messages to the curator.
    """
    return upgraded(path).changed


@dataclass(frozen=True)
class UpgradeReport:
    """The outcome of an upgrade.

    Attributes:
        changed: True if the store was of an earlier format.
        messages: Sentences for the curator, as in the curator's log.
    """

    changed: bool
    messages: tuple[str, ...] = ()


def upgraded(path: str | Path) -> UpgradeReport:
    """Upgrade a store to this version's format, and return messages to the curator.

    Questions, answers and charges stay unchanged to the bit. A store of format 3 can't detect a
    missing log: if it was not closed, the log must be next to it.

    Args:
        path: Path of the store's file; no process has it open.

    Raises:
        StoreError: There is no store, it is damaged, or of a format that no step starts from.
        StoreInUse: Another process has it open.

    Example:
        >>> import sparseq, pyarrow as pa, tempfile
        >>> path = tempfile.mkdtemp() + "/s.sparseq"
        >>> sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who").close()
        >>> upgraded(path)
        UpgradeReport(changed=False, messages=())
    """
    path = Path(path)
    held = hold(path)
    try:
        connection = open_database(path.resolve())
        try:
            flush_log(path.resolve())  # before its contents are reported
            return _upgrade(connection, path)
        except duckdb.Error as error:
            raise StoreError(
                f"{path} can't be upgraded: {first_line(error)}", "it is as it was before"
            ) from None
        finally:
            connection.close()
    finally:
        held.release()


def _leave_out_shared_facts(storage: Storage) -> tuple[str, ...]:
    """Remove facts by bare names from public columns; return the messages to the curator."""
    kept = storage.get("catalog")
    messages = tuple(m for fact in shared_facts(kept) for m in fact.messages())
    storage.put(FACTS_OF_COLUMNS, True)
    storage.put("catalog", Catalog.from_dict(kept).to_dict())
    for message in messages:
        CuratorLog(storage.connection).add("upgrade", message)
    return messages


def _upgrade(connection: Connection, path: Path) -> UpgradeReport:
    tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
    if not {("main", "meta"), ("ledger", "users")} <= set(tables):
        raise StoreError(f"{path} is not a sparseq store", "`sparseq create` makes one")
    storage = Storage(connection)
    format = storage.get("settings")["format"]
    if format not in (*FORMATS, *UPGRADED_FROM):
        raise StoreError(
            f"{path} has format {format}, which can't be made format {FORMAT}",
            "open it with the version that made it",
        )
    changed = format not in FORMATS
    if not changed and storage.get(FACTS_OF_COLUMNS):
        return UpgradeReport(False)
    if changed:
        connection.execute("CHECKPOINT")  # the rest of the earlier version's log
    connection.execute("BEGIN")
    if changed:
        for step in STEPS:
            if format <= step.until:
                step.apply(connection)
        storage.put("settings", storage.get("settings") | {"format": UPGRADED_FROM[format]})
    messages = _leave_out_shared_facts(storage)
    connection.execute("COMMIT")
    connection.execute("CHECKPOINT")
    return UpgradeReport(changed, messages)
