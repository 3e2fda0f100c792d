"""Delta tables by delta-rs (PyPI: deltalake), an optional package: functions for a log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.base.errors import StoreError

KIND = "kind"
"""The column by which files are partitioned."""


def create(folder: Path, columns: pa.Schema) -> None:
    """Create a table in an empty folder, partitioned by the kind of file."""
    schema = columns.insert(0, pa.field(KIND, pa.string()))
    _deltalake().DeltaTable.create(str(folder), schema, mode="error", partition_by=[KIND])


def open_table(folder: Path, version: int | None = None) -> Any:
    """Return a table; raise `StoreError` if it does not exist or is unreadable."""
    try:
        try:
            return table_at(folder, version)
        except Exception:
            if not _drop_torn(folder / "_delta_log"):
                raise
            return table_at(folder, version)
    except Exception as error:
        raise StoreError(f"the ledger's log can't be read: {error}", "open it again") from None


def _drop_torn(log: Path) -> bool:
    """Remove incomplete checkpoints after a loss of power; the entries that they summarise exist.

    delta-rs does not flush a checkpoint; `trim` flushes it before it removes entries. A checkpoint
    may remain whose last entry is lost: no caller was informed of that entry before it was durable.
    """
    names = os.listdir(log)
    entries = {version_of(Path(name)) for name in names if name.endswith(".json")}
    whole, gone = -1, False
    for path in sorted(log / name for name in names if name.endswith(".parquet")):
        version, last = version_of(path), max([whole, *entries])
        if _is_readable(path):
            whole = version
        elif version <= last + 1 and entries.issuperset(range(whole + 1, min(version, last) + 1)):
            path.unlink(missing_ok=True)
            gone = True
    hint = log / "_last_checkpoint"
    if hint.exists():  # names a missing one; others are found by their names
        hint.unlink(missing_ok=True)
        gone = True
    return gone


def _is_readable(path: Path) -> bool:
    try:
        pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def table_at(folder: Path, version: int | None = None) -> Any:
    """Return a table as delta-rs reads it; raise any error that it raises."""
    return _deltalake().DeltaTable(str(folder), version=version)


def files(table: Any) -> list[tuple[str, str, int]]:
    """Return path, kind and size of the files that a table has."""
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [(row["path"], row[f"partition.{KIND}"], row["size_bytes"]) for row in found]


def extend(
    table: Any,
    new: Iterable[tuple[str, str, int]],
    old: Iterable[tuple[str, str, int]],
    facts: dict[str, str],
    retries: int | None = 0,
) -> None:
    """Create the entry after the version that was read, if it is absent.

    Args:
        table: The table as it was read.
        new, old: Path, kind and size of files that are added and removed.
        facts: Facts to write into the entry.
        retries: 0: a late writer fails. Any other number would put the entry on top of commits that
            this writer has not read.
    """
    from deltalake import CommitProperties, PostCommitHookProperties
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    actions = [AddAction(path, size, {KIND: kind}, now, True, "{}") for path, kind, size in new] + [
        RemoveAction(path, True, now, size, {KIND: kind}) for path, kind, size in old
    ]
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        partition_by=[KIND],
        commit_properties=CommitProperties(facts, max_commit_retries=retries),
        post_commithook_properties=PostCommitHookProperties(True, False),
    )


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise StoreError(
            "a lake needs a package that is not installed: deltalake", "pip install 'sparseq[lake]'"
        ) from None
    return deltalake


def version_of(path: Path) -> int:
    """Return the version of an entry or a checkpoint."""
    return int(path.name.partition(".")[0])
