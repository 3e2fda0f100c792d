"""What it means that a store could not be written, in plain words."""

from __future__ import annotations

import re

from sparseq.engine.load import first_line
from sparseq.errors import StoreError

_FULL = re.compile(
    "no space left|disk (is )?full|file too large|quota exceeded|not enough space|out of disk", re.I
)


def is_full(error: BaseException) -> bool:
    """Tell whether an error is that of a full disk.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError("no such file"))
    (True, False)
    """
    return bool(_FULL.search(str(error)))


def not_written(error: BaseException, consequence: str, unsure: bool = True) -> StoreError:
    """Return what is said of a write that failed.

    Args:
        error: DuckDB's.
        consequence: What is sure, such as "the answer was not given".
        unsure: It failed in the middle of a commit: whether it counts is known when the store has
            been opened anew.
    """
    why = "the disk is full" if is_full(error) else f"the store can't be written: {_line(error)}"
    hint = "make room" if is_full(error) else "look at the disk"
    if unsure:
        hint += ", and open the store again: `sparseq history` says whether it was written"
    return StoreError(f"{why}; {consequence}", hint)


def _line(error: BaseException) -> str:
    return first_line(error) if str(error) else type(error).__name__
