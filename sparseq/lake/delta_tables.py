"""Delta tables by delta-rs (PyPI: deltalake), an optional package: what a log needs of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparseq.base.errors import StoreError

KIND = "kind"
"""The column that files are partitioned by."""


def create(folder: Path, columns: pa.Schema) -> None:
    """Begin a table in an empty folder, partitioned by the kind of file."""
    schema = columns.insert(0, pa.field(KIND, pa.string()))
    _deltalake().DeltaTable.create(str(folder), schema, mode="error", partition_by=[KIND])


def opened(folder: Path, version: int | None = None) -> Any:
    """Return a table; raises `StoreError` if there is none, or it can't be read."""
    if not _deltalake().DeltaTable.is_deltatable(str(folder)):
        raise StoreError(f"there is no ledger in {folder}")
    try:
        return _deltalake().DeltaTable(str(folder), version=version)
    except Exception as error:
        raise StoreError(f"the ledger's log can't be read: {error}", "open it again") from None


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
    """Put the entry after the version that was read, if nobody has.

    Args:
        table: As it was read.
        new, old: Path, kind and size of files that come and go.
        facts: To be written into the entry.
        retries: 0: whoever is late fails. Any other number would put the entry on top of what has
            been written meanwhile, unread.
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
