"""The grids of the latest releases, found by their measures: in bounded memory."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from sparseq.reuse.grids import MOST_GROUPS, Grid

LOOKED_THROUGH = 512
"""The number of the latest releases from which an answer may follow."""
_PIECES = 128 * MOST_GROUPS  # the maximum number of values of keys in memory
_Key = tuple[str, str, frozenset[str]]


@dataclass(frozen=True)
class GridOf:
    """The grid of a release, and the epoch of its measurement."""

    epoch: int
    release: int
    grid: Grid

    @property
    def keys(self) -> set[_Key]:
        """The sums of its measures: the table of their rows, and the other conditions."""
        return _keys(self.grid)

    @property
    def pieces(self) -> int:
        """The number of values of its keys."""
        return sum(len(key.pieces) for key in self.grid.keys)


class Grids:
    """The grids of the latest releases; the oldest are dropped first."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, GridOf] = OrderedDict()
        self._by_key: defaultdict[_Key, deque[GridOf]] = defaultdict(deque)
        self._pieces = 0

    def add(self, one: GridOf) -> None:
        """Add the grid of a release that is later than all others."""
        self._held[one.release] = one
        self._pieces += one.pieces
        for key in one.keys:
            self._by_key[key].append(one)
        while len(self._held) > LOOKED_THROUGH or self._pieces > _PIECES:
            _, oldest = self._held.popitem(last=False)
            self._pieces -= oldest.pieces
            for key in oldest.keys:
                self._by_key[key].popleft()
                if not self._by_key[key]:
                    del self._by_key[key]

    def of(self, release: int) -> Grid | None:
        """Return the grid of a release, if it is in memory."""
        held = self._held.get(release)
        return None if held is None else held.grid

    def like(self, question: Grid) -> Iterator[GridOf]:
        """Yield the grids with measures like those of a question, the latest first."""
        fewest = min((self._by_key.get(key, ()) for key in _keys(question)), key=len, default=())
        yield from reversed(fewest)


def _keys(grid: Grid) -> set[_Key]:
    return {(grid.origin, m.adds, m.region.conditions) for m in grid.measures}
