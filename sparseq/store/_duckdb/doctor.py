"""Independent checks of the durable state of a store in a file."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparseq.base._duckdb.connection import JUDGED, not_judged
from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.session import read_progress
from sparseq.ledger.notes import DIFFERENT, LoggedLine
from sparseq.store._duckdb.open_file import open_backend
from sparseq.version import __version__


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes:
        of: The subject of the check.
        said: Its state, or the fault.
        wrong: True if there is a fault.
        hint: The remedy.
    """

    of: str
    said: str
    wrong: bool = False
    hint: str = ""


def examined_file(path: Path) -> Iterator[Finding]:
    """Check a store in a file, and the files in its folder that belong to it.

    Example:
        >>> import sparseq, tempfile, pyarrow as pa
        >>> path = Path(tempfile.mkdtemp(), "s.sparseq")
        >>> sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who").close()
        >>> [(f.of, f.wrong) for f in examined_file(path)]
        [('store', False), ('evaluators', False), ('files', False), ('DuckDB', False)]
        >>> path.chmod(0o644)
        >>> print([f.hint for f in examined_file(path) if f.wrong][0])  # doctest: +ELLIPSIS
        chmod go= ...s.sparseq
    """
    log: list[LoggedLine] = []
    yield finding("store", lambda: _opened_file(path, log))
    yield finding("evaluators", lambda: _evaluators(log))
    yield finding(
        "files", lambda: check_files([path, *path.parent.glob(f"{glob.escape(path.name)}.*")])
    )
    yield finding("DuckDB", check_engine)


def finding(of: str, check: Callable[[], str]) -> Finding:
    """Run a check: it returns the state of its subject, or raises its fault."""
    try:
        return Finding(of, check())
    except StoreError as error:
        return Finding(of, error.message, True, error.hint)
    except Exception as error:  # from a file that was truncated or written by another program
        return Finding(of, f"can't be read ({type(error).__name__})", True, "restore a copy")


def check_files(paths: list[Path]) -> str:
    """Check that only their owner can read files; earlier versions made them with another mode."""
    open_to_others = [path for path in paths if path.stat().st_mode & 0o077]
    if open_to_others and os.name != "nt":
        names = ", ".join(path.name for path in open_to_others)
        raise StoreError(
            f"{names} can be read by other users of this machine",
            f"chmod go= {' '.join(shlex.quote(str(path)) for path in open_to_others)}",
        )
    return "can be read only by their owner"


def check_engine() -> str:
    """Check that DuckDB is of a judged version."""
    if said := not_judged():
        raise StoreError(said, f"pip install duckdb=={JUDGED[-1]}")
    return "has only optimiser rules that were judged"


def _opened_file(path: Path, log: list[LoggedLine]) -> str:
    backend = open_backend(path)
    reached = read_progress(backend.database)
    log += backend.curator_log().for_curator()
    backend.abandon()
    return f"opens, at release {reached.releases:,}"


def _evaluators(log: list[LoggedLine]) -> str:
    """Check that no user's rows evaluated differently alone, in this version of sparseq."""
    found = [one for one in log if one.kind == DIFFERENT]
    now = [one for one in found if f"sparseq {__version__}" in one.message]
    if now:
        raise StoreError(
            f"{len(now):,} times a user's rows gave another result alone than among all, last at "
            f"{now[-1].at:%Y-%m-%d %H:%M} UTC",
            "ask nothing more, and report the output of `sparseq curator STORE log`",
        )
    before = f"; {len(found):,} differences of earlier versions" if found else ""
    return f"agree, as far as they were compared{before}"
