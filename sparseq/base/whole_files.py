"""Files that appear whole or not at all, and who may read them.

What holds people's rows, accounts or secrets is its owner's alone: files of mode 0600, in folders
of mode 0700 where several lie together. A released answer is a file like any other.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparseq.base.errors import ParameterError

# -- files that appear whole or not at all, and who may read them ----------------------------------

PRIVATE = 0o600
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_umask: int | None = None


def keep_private() -> None:
    """Have all that this process makes from now on be its owner's, but what is for others.

    It is for commands, at their start: DuckDB makes logs and temporary files of its own, in the
    mode that the process's umask leaves, and a library may not change that of its caller.
    """
    global _umask
    if _umask is None:
        _umask = os.umask(0o077)


def for_others(file: int) -> None:
    """Give a new file the mode that files have without `keep_private`; `file` is its number."""
    if _umask is not None:
        os.fchmod(file, 0o666 & ~_umask)


@contextmanager
def private_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside `path`, its owner's alone, in which a file is made; then remove it.

    Raises:
        ParameterError: It can't be made.

    Example:
        >>> import stat, tempfile
        >>> with private_folder(Path(tempfile.mkdtemp(), "a")) as folder:
        ...     oct(stat.S_IMODE(folder.stat().st_mode))
        '0o700'
        >>> folder.exists()
        False
    """
    folder = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _remove(folder)  # of a process of the same number that was killed
    with writing(path):
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # on a disk that can't be written, nothing is there
            path.unlink()


@contextmanager
def whole_file(path: Path, private: bool = False) -> Iterator[Path]:
    """Yield a path to write to; what is written there is `path` at the end, durably.

    Where the block raises, `path` is as it was, and nothing is left beside it.

    Args:
        path: Of the file; one that is there is replaced.
        private: Only the one who runs this can read it.

    Raises:
        ParameterError: It can't be written; a folder in which it can't is found out before the
            block is entered.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> with whole_file(path) as working, writing(path):
        ...     _ = working.write_text("all of it")
        >>> path.read_text()
        'all of it'
    """
    working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            file = os.open(working, flags, PRIVATE if private else 0o666)
            try:
                if not private:
                    for_others(file)
            finally:
                os.close(file)
        yield working
        with writing(path):
            with open(working, "rb") as written:
                os.fsync(written.fileno())
            os.replace(working, path)
            sync_folder(path)
    finally:
        _remove(working)


def make_durable(path: Path) -> None:
    """Flush a file, or a folder, and its name to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path)


def sync_folder(path: Path) -> None:
    """Flush the name of a file or a folder to the disk."""
    if os.name == "nt":
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def check_writable(path: Path) -> None:
    """Check that a file can be written in its folder.

    Raises:
        ParameterError: It can't.
    """
    working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            working.write_bytes(b"")
    finally:
        _remove(working)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell of an error in the block that `path` can't be written.

    Raises:
        ParameterError: There was an OSError.
    """
    try:
        yield
    except OSError as error:
        raise ParameterError(
            f"can't write {str(path)!r}: {error.strerror or type(error).__name__}",
            how_to_mend(error),
        ) from None


def how_to_mend(error: OSError) -> str:
    """Return the hint that goes with an error of writing.

    >>> how_to_mend(OSError(errno.ENOSPC, "No space left on device"))
    'make room there, or choose another disk'
    """
    if error.errno in _FULL:
        return "make room there, or choose another disk"
    if error.errno == errno.EROFS:
        return "nothing can be written on that disk; choose another"
    return "give a file in a folder that exists, where you may write"


# -- formats of tables in files, by name -----------------------------------------------------------

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow",
}
"""Formats that are written; those that are only read are in `sparseq.load.open_sources.KINDS`."""
PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
"""Endings of packed texts."""
ASKED = {".txt": "csv", ".psv": "csv"}
"""Endings that are read where they are named; in a folder such a file may be anything."""


def format_of(path: Path) -> tuple[str, str]:
    """Return what a file's name says: its format, and how it is packed; "" for nothing known.

    Example:
        >>> format_of(Path("log.JSONL.gz")), format_of(Path("a.pq")), format_of(Path("a.md"))
        (('jsonl', 'gzip'), ('parquet', ''), ('', ''))
    """
    last, packed = suffix_of(path)
    return SUFFIXES.get(last, ""), packed


def asked_format(path: Path) -> tuple[str, str]:
    """Return the format, as `format_of`, of a file that somebody has named to be read.

    Example:
        >>> asked_format(Path("export.txt.gz")), asked_format(Path("a.csv"))
        (('csv', 'gzip'), ('csv', ''))
    """
    last, packed = suffix_of(path)
    return (SUFFIXES | ASKED).get(last, ""), packed


def suffix_of(path: Path) -> tuple[str, str]:
    """Return what a file's name ends in, in lower case, and how the file is packed.

    Example:
        >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("a.md"))
        (('.csv', 'gzip'), ('.md', ''))
    """
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    packed = PACKED.get(suffixes[-1], "") if suffixes else ""
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    return last[0] if last else "", packed
