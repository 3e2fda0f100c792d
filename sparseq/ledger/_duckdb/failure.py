"""What it means that a store could not be written, in plain words."""

from __future__ import annotations

import re

from sparseq.engine.sql import first_line
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


def not_written(error: BaseException, consequence: str, unsure: str = "") -> StoreError:
    """Return what is said of a write that failed.

    Args:
        error: DuckDB's.
        consequence: What is sure, such as "the answer was not given".
        unsure: What isn't: it failed in the middle of a commit, and only the file knows.

    >>> print(not_written(OSError("No space left"), "no answer was given", "it was charged"))
    the disk is full; no answer was given; whether it was charged, the file knows
      hint: make room, and open the store again: it is whole
    """
    why = "the disk is full" if is_full(error) else f"the store can't be written: {_line(error)}"
    known = f"; whether {unsure}, the file knows" if unsure else ""
    do = "make room" if is_full(error) else "look at the disk and its permissions"
    return StoreError(
        f"{why}; {consequence}{known}", f"{do}, and open the store again: it is whole"
    )


def _line(error: BaseException) -> str:
    return first_line(error) if str(error) else type(error).__name__
