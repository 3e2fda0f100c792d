"""Errors of a place that cannot be written, in plain words."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from sparseq.base.errors import StoreError
from sparseq.base.sql_text import first_line

_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_FULL = re.compile(
    "no space left|disk (is )?full|file too large|quota exceeded|not enough space|out of disk", re.I
)


def is_full(error: BaseException) -> bool:
    """Tell whether an error means that the disk is full.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError("no such file"))
    (True, False)
    """
    return bool(_FULL.search(str(error)))


def cannot_write(error: BaseException) -> bool:
    """Tell whether an error means that a place can't be written: full disk or no permission.

    >>> cannot_write(OSError(30, "Read-only file system")), cannot_write(OSError(2, "no such file"))
    (True, False)
    """
    if isinstance(error, OSError) and not is_full(error):
        return error.errno in _CLOSED
    return isinstance(error, duckdb.IOException) or is_full(error)


_AGAIN = ", and open the store again: it is complete"


def not_written(
    error: BaseException, consequence: str, unsure: str = "", then: str = _AGAIN
) -> StoreError:
    """Return the message for a failed write.

    Args:
        error: The error from DuckDB.
        consequence: The certain part, such as "the answer was not given".
        unsure: The uncertain part: the failure was in the middle of a commit, and only the file
            knows.
        then: The remedy, once the disk is in order.

    >>> print(not_written(OSError("No space left"), "no answer was given", "it was charged"))
    the disk is full; no answer was given; whether it was charged, the file knows
      hint: make room, and open the store again: it is complete
    """
    why = "the disk is full" if is_full(error) else f"the store can't be written: {_line(error)}"
    known = f"; whether {unsure}, the file knows" if unsure else ""
    do = "make room" if is_full(error) else "look at the disk, and whether you may write there"
    return StoreError(f"{why}; {consequence}{known}", do + then)


@contextmanager
def told_where_not_written(consequence: str, then: str = "") -> Iterator[None]:
    """Convert an error of an unwritable place in the block: see `not_written`.

    Raises:
        StoreError: The place can't be written; other errors pass.

    >>> with told_where_not_written("there is no store"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    sparseq.base.errors.StoreError: the disk is full; there is no store
      hint: make room
    """
    try:
        yield
    except (OSError, duckdb.Error) as error:
        if not cannot_write(error):
            raise
        raise not_written(error, consequence, then=then) from None


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return first_line(error) if str(error) else type(error).__name__
