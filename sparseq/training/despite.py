"""Work on a set of people that goes on despite those for whom it fails.

Whether a model fails is a fact about records: a class or a word that it does not have, a branch
of its code. So no failure may reach an analyst, and none may wipe what the others contribute (an
answer about nobody tells as much as an error). The set is halved, with the same work, until those
are found for whom it fails alone; only they count for nothing, and the curator is told. A set for
which it fails though it succeeds for both halves is the sum of its halves. Everybody else is
worked on at the same place of a batch of the same shape, so that what comes out for them is what
comes out when nobody fails (`sparseq.training.network.engine` says why).

The module has no idea what the work is: it is tested without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Rows = NDArray[np.int64]
"""(places, records): which records a place has; -1 where there is none."""


@dataclass(frozen=True)
class PartialResult(Generic[T]):
    """What came of it.

    Attributes:
        parts: Results whose sum is that of everybody who can be worked on.
        failed: Places that fail alone.
    """

    parts: list[T]
    failed: NDArray[np.intp]


def despite_failures(work: Callable[[Rows], T], rows: Rows) -> PartialResult[T]:
    """Do the work for a set of places, or for as large parts of it as it succeeds for.

    Args:
        work: Of rows, to a result that is a sum over places. Whatever exception it raises is a
            failure.
        rows: Of the places; they stay as they are.

    Example:
        >>> def work(rows):
        ...     return [5, 7, 9][rows.max()]
        >>> done = despite_failures(work, np.array([[0], [1], [8]]))
        >>> done.parts, done.failed.tolist()
        ([7], [2])
    """
    try:
        return PartialResult([work(rows)], np.zeros(0, np.intp))
    except Exception:
        pass
    places = np.flatnonzero((rows >= 0).any(axis=1))
    if len(places) < 2:
        return PartialResult([], places)
    halves = [despite_failures(work, _only(rows, half)) for half in np.array_split(places, 2)]
    failed = np.concatenate([half.failed for half in halves])
    rest = np.setdiff1d(places, failed)
    if len(failed) and len(rest):  # as if those had never been there
        try:
            return PartialResult([work(_only(rows, rest))], failed)
        except Exception:
            pass
    return PartialResult([part for half in halves for part in half.parts], failed)


def _only(rows: Rows, places: NDArray[np.intp]) -> Rows:
    """Return rows in which other places have no records."""
    some = np.full_like(rows, -1)
    some[places] = rows[places]
    return some
