"""The cells of the latest releases, found by what they add up: in bounded memory."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from sparseq.reuse.answer_views import MOST_GROUPS, Grid

LOOKED_THROUGH = 512
"""Releases, the latest, that an answer may follow from."""
_PIECES = 128 * MOST_GROUPS  # values of keys that are held at most
_Key = tuple[str, str, frozenset[str]]


@dataclass(frozen=True)
class GridOf:
    """The grid of a release, and the epoch in which it was measured."""

    epoch: int
    release: int
    grid: Grid

    @property
    def keys(self) -> set[_Key]:
        """What its measures add up: of rows of which table, and under which other conditions."""
        return _keys(self.grid)

    @property
    def pieces(self) -> int:
        """Values of its keys."""
        return sum(len(key.pieces) for key in self.grid.keys)


class Grids:
    """Grids of releases; the oldest go first."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, GridOf] = OrderedDict()
        self._by_key: defaultdict[_Key, deque[GridOf]] = defaultdict(deque)
        self._pieces = 0

    def add(self, one: GridOf) -> None:
        """Hold the grid of a release that is later than all others."""
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
        """Return the grid of a release, if it is held."""
        found = self._held.get(release)
        return None if found is None else found.grid

    def like(self, question: Grid) -> Iterator[GridOf]:
        """Yield those with measures that add up what a question does, the latest first."""
        fewest = min((self._by_key.get(key, ()) for key in _keys(question)), key=len, default=())
        yield from reversed(fewest)


def _keys(grid: Grid) -> set[_Key]:
    return {(grid.origin, m.adds, m.region.conditions) for m in grid.measures}
