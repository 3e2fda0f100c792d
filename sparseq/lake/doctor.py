"""Independent checks of the durable state of a lake."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sparseq.base.errors import StoreError
from sparseq.lake import ledger_rows
from sparseq.lake.fenced_log import FencedLog, Overtaken
from sparseq.lake.lake_store import LakeBackend
from sparseq.store._duckdb.doctor import Finding, check_engine, check_files, finding


def examine(folder: Path, deep: bool = False) -> Iterator[Finding]:
    """Check a lake; if it does not open, checks that need an open lake are left out.

    Args:
        folder: The folder of the lake.
        deep: Read all rows, and compare them with their digests.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> folder = tempfile.mkdtemp()
        >>> people = pa.table({"who": [1, 2, 3]})
        >>> sparseq.create(f"lake://{folder}/l", {"t": people}, user="who", buckets=2).close()
        >>> [(f.of, f.wrong) for f in examine(Path(folder, "l"))][:3]
        [('lake', False), ('buckets', False), ('accounts', False)]
    """
    opened: list[LakeBackend] = []
    yield finding("lake", lambda: _open(folder, opened))
    for lake in opened:
        yield finding("buckets", partial(_buckets, lake, deep))
        yield finding("accounts", partial(_accounts, lake))
        yield finding("left over", partial(_left_over, lake))
        lake.release()
    yield finding("fence", lambda: _fence(folder))
    yield finding("files", lambda: check_files([folder]))
    yield finding("DuckDB", check_engine)


def swept(folder: Path) -> int:
    """Remove the files that no commit refers to: see `LakeBackend.sweep`; return their number."""
    lake = LakeBackend(folder)
    try:
        return len(lake.sweep())
    finally:
        lake.release()


def _open(folder: Path, opened: list[Any]) -> str:
    lake = LakeBackend(folder)
    opened.append(lake)
    return f"opens, at version {lake.ledger.version:,} of its log"


def _buckets(lake: LakeBackend, deep: bool) -> str:
    lake.check_buckets(deep)
    how = "are as they were written" if deep else "open; --deep also reads them"
    return f"{len(lake.ledger.manifest()):,} {how}"


def _accounts(lake: LakeBackend) -> str:
    lake.ledger.audit()
    return (
        f"the spent amounts are the sums of the charges of {len(lake.ledger):,} releases; the "
        "roots are correct"
    )


def _left_over(lake: LakeBackend) -> str:
    files = lake.orphans()
    size = sum(path.stat().st_size for path in files)
    sweep = "; --sweep removes them" if files else ""
    return f"{len(files):,} files that no commit refers to, {size:,} bytes{sweep}"


def _fence(folder: Path) -> str:
    """Let two writers commit after the same version, in a separate log next to the lake's."""
    scratch = Path(tempfile.mkdtemp(prefix=".fence-", dir=folder))
    try:
        first = FencedLog.create(scratch, b"", ledger_rows.all_columns())
        second = FencedLog(scratch, b"")
        first.commit([])
        try:
            second.commit([])
        except Overtaken:
            return "of two writers the second is refused"
        raise StoreError(
            "two writers both committed as the first: charges can get lost",
            "move the lake to a file system that can create a file only if it is absent",
        )
    finally:
        shutil.rmtree(scratch)
