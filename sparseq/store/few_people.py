"""The number of people in a table as far as a released pilot tells it: a range, and a warning.

A parent pilot has released how many people have how many rows, with noise in each cell. The cells
add up to the people of the table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sparseq.accounting.pilots import PILOTS
from sparseq.stream.stream_progress import ROWS

if TYPE_CHECKING:
    from sparseq.store.store_promise import StorePromise

FEW = 500
"""Noise is small against more people than this."""
_SURE = 1.96  # standard deviations on both sides of 95 %


def people_ranges(promise: StorePromise) -> dict[str, tuple[float, float]]:
    """Return the range of the number of people of each table with a pilot of today's rows, 95 %.

    Example:
        >>> import pyarrow as pa, sparseq
        >>> rows = pa.table({"who": [k % 30 for k in range(300)]})
        >>> con = sparseq.create(None, {"t": rows}, user="who", seed=1)
        >>> people_ranges(con.promise)
        {}
        >>> _ = con.sql("SELECT count(*) AS n FROM t")
        >>> low, high = people_ranges(con.promise)["t"]
        >>> low <= 30 <= high < FEW
        True
    """
    course = promise.course
    if course is None:
        return {}
    found = {}
    for key, known in course.parents.items():
        if key.startswith(ROWS) and known.epoch == course.epoch:
            noise = math.sqrt(PILOTS.parent * len(known.people)) * promise.budget.sigma_0
            total = sum(known.people)
            found[key.removeprefix(ROWS)] = (
                max(total - _SURE * noise, 0.0),
                max(total + _SURE * noise, 0.0),
            )
    return found


def few_people_notes(promise: StorePromise) -> list[str]:
    """Return a warning for each table that has few people, as far as a pilot tells."""
    return [
        f"{table} has {low:,.0f} to {high:,.0f} people, as a released pilot says: noise is large "
        "against so few, and intervals are wide"
        for table, (low, high) in people_ranges(promise).items()
        if high < FEW
    ]
