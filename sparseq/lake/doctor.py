"""Checks of a store or a lake: each by itself, on what is durable."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sparseq.base.errors import StoreError
from sparseq.engine._duckdb.connection import JUDGED, not_judged
from sparseq.lake import lake_ledger as rows
from sparseq.lake.fenced_log import FencedLog, Overtaken
from sparseq.lake.lake_store import LakeBackend
from sparseq.ledger._duckdb.session import read_progress
from sparseq.ledger.notes import DIFFERENT, LoggedLine
from sparseq.store._duckdb.open_file import open_backend
from sparseq.version import __version__


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes:
        of: What was checked.
        said: What it is like, or what is wrong.
        wrong: Something is.
        hint: What can be done about it.
    """

    of: str
    said: str
    wrong: bool = False
    hint: str = ""


def examine(folder: Path, deep: bool = False) -> Iterator[Finding]:
    """Check a lake; what can only be seen in a lake that opens is not checked in another.

    Args:
        folder: Of the lake.
        deep: Read all rows, and compare them with what was written.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> folder = tempfile.mkdtemp()
        >>> people = pa.table({"who": [1, 2, 3]})
        >>> sparseq.create(f"lake://{folder}/l", {"t": people}, user="who", buckets=2).close()
        >>> [(f.of, f.wrong) for f in examine(Path(folder, "l"))][:3]
        [('lake', False), ('buckets', False), ('accounts', False)]
    """
    opened: list[LakeBackend] = []
    yield _found("lake", lambda: _open(folder, opened))
    for lake in opened:
        yield _found("buckets", partial(_buckets, lake, deep))
        yield _found("accounts", partial(_accounts, lake))
        yield _found("left over", partial(_left_over, lake))
        lake.release()
    yield _found("fence", lambda: _fence(folder))
    yield _found("files", lambda: _files([folder]))
    yield _found("DuckDB", _engine)


def examined_file(path: Path) -> Iterator[Finding]:
    """Check a store in a file, and what lies beside it.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> path = Path(tempfile.mkdtemp(), "s.sparseq")
        >>> sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who").close()
        >>> [(f.of, f.wrong) for f in examined_file(path)]
        [('store', False), ('evaluators', False), ('files', False), ('DuckDB', False)]
        >>> path.chmod(0o644)
        >>> print([f.hint for f in examined_file(path) if f.wrong][0])  # doctest: +ELLIPSIS
        chmod go= ...s.sparseq
    """
    log: list[LoggedLine] = []
    yield _found("store", lambda: _opened_file(path, log))
    yield _found("evaluators", lambda: _evaluators(log))
    yield _found("files", lambda: _files([path, *path.parent.glob(f"{glob.escape(path.name)}.*")]))
    yield _found("DuckDB", _engine)


def swept(folder: Path) -> int:
    """Remove the files that nothing refers to: see `LakeBackend.sweep`; return how many."""
    lake = LakeBackend(folder)
    try:
        return len(lake.sweep())
    finally:
        lake.release()


def _found(of: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(of, check())
    except StoreError as error:
        return Finding(of, error.message, True, error.hint)
    except Exception as error:  # of a file that was cut, or written by something else
        return Finding(of, f"can't be read ({type(error).__name__})", True, "restore a copy")


def _open(folder: Path, opened: list[Any]) -> str:
    lake = LakeBackend(folder)
    opened.append(lake)
    return f"opens, at version {lake.ledger.version:,} of its log"


def _opened_file(path: Path, log: list[LoggedLine]) -> str:
    backend = open_backend(path)
    reached = read_progress(backend.database)
    log += backend.curator_log()
    backend.abandon()
    return f"opens, at release {reached.releases:,}"


def _evaluators(log: list[LoggedLine]) -> str:
    """Tell whether somebody's rows gave another answer alone, in this version of sparseq."""
    found = [one for one in log if one.kind == DIFFERENT]
    now = [one for one in found if f"sparseq {__version__}" in one.message]
    if now:
        raise StoreError(
            f"{len(now):,} times somebody's rows gave another answer alone than among all, last "
            f"at {now[-1].at:%Y-%m-%d %H:%M} UTC",
            "ask nothing more, and report what `sparseq curator STORE log` says of it",
        )
    before = f"; {len(found):,} differences of earlier versions" if found else ""
    return f"agree, as far as they were compared{before}"


def _files(paths: list[Path]) -> str:
    """Tell whether only their owner can read files: those of earlier versions had another mode."""
    open_to_others = [path for path in paths if path.stat().st_mode & 0o077]
    if open_to_others and os.name != "nt":
        names = ", ".join(path.name for path in open_to_others)
        raise StoreError(
            f"{names} can be read by others on this machine",
            f"chmod go= {' '.join(shlex.quote(str(path)) for path in open_to_others)}",
        )
    return "can be read by their owner alone"


def _engine() -> str:
    if said := not_judged():
        raise StoreError(said, f"pip install duckdb=={JUDGED[-1]}")
    return "is one all of whose optimiser's rules were judged"


def _buckets(lake: LakeBackend, deep: bool) -> str:
    lake.check_buckets(deep)
    how = "are as they were written" if deep else "open; --deep reads all of them"
    return f"{len(lake.ledger.manifest()):,} {how}"


def _accounts(lake: LakeBackend) -> str:
    lake.ledger.audit()
    return f"what was spent is the sum of the charges of {len(lake.ledger):,} releases; roots hold"


def _left_over(lake: LakeBackend) -> str:
    files = lake.orphans()
    size = sum(path.stat().st_size for path in files)
    sweep = "; --sweep removes them" if files else ""
    return f"{len(files):,} files that nothing refers to, {size:,} bytes{sweep}"


def _fence(folder: Path) -> str:
    """Have two writers commit after the same version, in a log of their own beside the lake's."""
    scratch = Path(tempfile.mkdtemp(prefix=".fence-", dir=folder))
    try:
        first = FencedLog.create(scratch, b"", rows.all_columns())
        second = FencedLog(scratch, b"")
        first.commit([])
        try:
            second.commit([])
        except Overtaken:
            return "of two writers one is told that the other was first"
        raise StoreError(
            "two writers were both first: charges can get lost",
            "put the lake on a file system that creates a file only if it is absent",
        )
    finally:
        shutil.rmtree(scratch)
