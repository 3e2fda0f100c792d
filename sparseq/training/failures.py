"""Work on a set of people that continues despite the people for whom it fails.

A failure of the model is a fact about records: a class or a word that it does not have, a branch
of its code. So no failure may reach an analyst, and none may remove the contributions of others (an
answer about nobody is as revealing as an error). The set is halved, with the same work, until the
people are found for whom it fails alone; only they contribute nothing, and the curator's log says
so. A set that fails although both halves succeed is the sum of its halves. All other people keep
their place in a batch of the same shape, so that their results are those of a run without failures
(`sparseq.networks.network.engine` explains why).

The module does not depend on the kind of work, and is tested with other work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Rows = NDArray[np.int64]
"""(places, records): indices of the records at a place; -1 for none."""


@dataclass(frozen=True)
class PartialResult(Generic[T]):
    """Results of parts of the work, and the places where it failed.

    Attributes:
        parts: Results whose sum is the result for all places without failures.
        failed: Places that fail alone.
    """

    parts: list[T]
    failed: NDArray[np.intp]


def despite_failures(work: Callable[[Rows], T], rows: Rows) -> PartialResult[T]:
    """Do the work for a set of places, or for the largest parts that succeed.

    Args:
        work: Function of rows to a result that is a sum over places. Any exception is a failure.
        rows: Records of the places; they are not changed.

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
    halves = [
        despite_failures(work, _keep_places(rows, half)) for half in np.array_split(places, 2)
    ]
    failed = np.concatenate([half.failed for half in halves])
    rest = np.setdiff1d(places, failed)
    if len(failed) and len(rest):  # again without the failing places
        try:
            return PartialResult([work(_keep_places(rows, rest))], failed)
        except Exception:
            pass
    return PartialResult([part for half in halves for part in half.parts], failed)


def _keep_places(rows: Rows, places: NDArray[np.intp]) -> Rows:
    """Return rows in which other places have no records."""
    some = np.full_like(rows, -1)
    some[places] = rows[places]
    return some
