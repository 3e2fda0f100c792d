"""The latest releases, without their answers, as lists of them need: public."""

from __future__ import annotations

from dataclasses import replace

from sparseq.ledger.protocol import Release
from sparseq.store.store import Store

MOST_LISTED = 10_000
_AT_ONCE = 256  # are read, with their answers


class LatestReleases:
    """So many are held in memory, whatever the store has; earlier ones are read from it.

    The stream thread adds to them; any thread may read.
    """

    def __init__(self, most: int = MOST_LISTED) -> None:
        self._most = most
        self.held: list[Release] = []

    def __len__(self) -> int:
        return self.held[-1].id if self.held else 0

    def catch_up(self, store: Store) -> None:
        """Take in what was released since."""
        new: list[Release] = []
        first = max(len(self), store.released - self._most) + 1
        for at in range(first, store.released + 1, _AT_ONCE):
            until = min(at + _AT_ONCE, store.released + 1)
            new += [replace(one, answer=b"") for one in store.releases(until - at, until)]
        if new:
            self.held = [*self.held, *new][-self._most :]

    def before(self, number: int, last: int) -> list[Release] | None:
        """Return so many before a release, oldest first; None: not all of them are held."""
        held = self.held
        until = min(number, len(self) + 1)
        first = max(until - last, 1)
        if until <= first:
            return []
        if first < held[0].id:
            return None
        return held[first - held[0].id : until - held[0].id]
