"""Atomic files, and their permissions.

Files with users' rows, accounts or secrets belong to their owner only: files of mode 0600, in
folders of mode 0700 if several lie together. A released answer has the usual permissions.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparseq.base.errors import ParameterError

PRIVATE = 0o600
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_umask: int | None = None


def keep_private() -> None:
    """Make all new files of this process private, except those for others.

    Commands call this at their start: DuckDB creates logs and temporary files with the mode that
    the process's umask gives, and a library may not change the umask of its caller.
    """
    global _umask
    if _umask is None:
        _umask = os.umask(0o077)


def for_others(file: int) -> None:
    """Give a new file the mode that has without `keep_private`; `file` is its descriptor."""
    if _umask is not None:
        os.fchmod(file, 0o666 & ~_umask)


@contextmanager
def private_folder(path: Path) -> Iterator[Path]:
    """Yield a private folder next to `path` for a new file; then remove it.

    Raises:
        ParameterError: The folder can't be created.

    Example:
        >>> import stat, tempfile
        >>> with private_folder(Path(tempfile.mkdtemp(), "a")) as folder:
        ...     oct(stat.S_IMODE(folder.stat().st_mode))
        '0o700'
        >>> folder.exists()
        False
    """
    folder = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _remove(folder)  # of a killed process with the same number
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
        with suppress(OSError):  # on a read-only disk the folder does not exist
            path.unlink()


@contextmanager
def whole_file(path: Path, private: bool = False) -> Iterator[Path]:
    """Yield a path to write to; at the end, the written file becomes `path`, durably.

    If the block raises an error, `path` is unchanged, and no other file is left.

    Args:
        path: The path of the file; an existing file is replaced.
        private: True if only the current user may read it.

    Raises:
        ParameterError: The file can't be written; an unwritable folder is found before the block is
            entered.

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
        ParameterError: It can't be written.
    """
    working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            working.write_bytes(b"")
    finally:
        _remove(working)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an error in the block to the message that `path` can't be written.

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
    """Return the hint for an error of writing.

    >>> how_to_mend(OSError(errno.ENOSPC, "No space left on device"))
    'free some space there, or choose another disk'
    """
    if error.errno in _FULL:
        return "free some space there, or choose another disk"
    if error.errno == errno.EROFS:
        return "that disk is read-only; choose another"
    return "give a file in an existing folder in which you may write"
