"""The latest releases, without their answers, for lists: public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.store.store import Store

MOST_LISTED = 10_000
_OF_SERIES = (Asker.MONITOR, Asker.WATCH)
_AT_ONCE = 256  # releases per read, with their answers


class LatestReleases:
    """Keeps a fixed number of releases in memory, and reads earlier ones from the store.

    The stream thread adds to them; any thread may read.
    """

    def __init__(self, most: int = MOST_LISTED) -> None:
        self._most = most
        self.held: list[Release] = []

    def __len__(self) -> int:
        return self.held[-1].id if self.held else 0

    def catch_up(self, store: Store) -> None:
        """Add the releases since the last call."""
        new: list[Release] = []
        first = max(len(self), store.released - self._most) + 1
        for at in range(first, store.released + 1, _AT_ONCE):
            until = min(at + _AT_ONCE, store.released + 1)
            new += [replace(one, answer=b"") for one in store.releases(until - at, until)]
        if new:
            self.held = [*self.held, *new][-self._most :]

    def these(self, numbers: Iterable[int]) -> list[Release]:
        """Return the releases with these numbers that are in memory, in this order."""
        held = self.held
        first = held[0].id if held else 1
        return [held[n - first] for n in numbers if first <= n < first + len(held)]

    def questions(self, number: int, last: int) -> tuple[list[Release], int | None]:
        """Return `last` releases before one that are no ticks of series, newest first.

        Only those in memory are searched. The second result is the number before which to continue;
        None: there are no more.
        """
        asked = (r for r in reversed(self.held) if r.id < number and r.asker not in _OF_SERIES)
        found = list(islice(asked, last + 1))
        return found[:last], found[last - 1].id if len(found) > last else None

    def before(self, number: int, last: int) -> list[Release] | None:
        """Return `last` releases before one, oldest first; None: not all are in memory."""
        held = self.held
        until = min(number, len(self) + 1)
        first = max(until - last, 1)
        if until <= first:
            return []
        if first < held[0].id:
            return None
        return held[first - held[0].id : until - held[0].id]


def find_asker(release: Release) -> str:
    """Return the asker of a release: a token's name, or a series'; "": it has no name."""
    name = "" if release.request is None else release.request.text.partition("/")[0]
    return name.replace("%2F", "/").replace("%25", "%")
