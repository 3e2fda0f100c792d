"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparseq.errors import ParameterError


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
            os.close(os.open(working, flags, 0o600 if private else 0o666))
        yield working
        with writing(path):
            with open(working, "rb") as file:
                os.fsync(file.fileno())
            os.replace(working, path)
    finally:
        working.unlink(missing_ok=True)


def make_durable(path: Path) -> None:
    """Flush a file, or a folder, and its name to the disk."""
    for one in (path, path.parent):
        descriptor = os.open(one, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_writable(path: Path) -> None:
    """Check that a file can be written in its folder.

    Raises:
        ParameterError: It can't.
    """
    working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        working.write_bytes(b"")
        working.unlink()


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
            "give a file in a folder that exists, where you may write",
        ) from None
