"""Request ids that have a release: stored on disk, so that memory does not grow with their number.

Almost every id in a look-up is new. A sieve (Bloom 1970) recognises most new ids without reading
the store. It takes two to four bytes per release, its "new" is never wrong, and a wrong "perhaps"
costs one read of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import numpy as np
from numpy.typing import NDArray

_PLACES = 6  # bits that a text sets
_BITS_A_TEXT = 16  # at least; then 1 new text in 1,000 gives a wrong "perhaps"
_FIRST_LAYER = 4096  # texts


class Sieve:
    """A Bloom filter that recognises most new texts.

    >>> sieve = Sieve()
    >>> sieve.add(["a", "b"])
    >>> sieve.passes(["a", "new"])
    ['a']
    """

    def __init__(self) -> None:
        self._layers: list[NDArray[np.uint8]] = []
        self._room = 0

    def add(self, texts: Sequence[str]) -> None:
        """Add texts."""
        start = 0
        while start < len(texts):
            if self._room == 0:  # the new layer is twice as large as the last one, which is kept
                self._room = _FIRST_LAYER << len(self._layers)
                self._layers.append(np.zeros(self._room * _BITS_A_TEXT // 8, np.uint8))
            part = texts[start : start + self._room]
            layer = self._layers[-1]
            places = _places(part, layer)
            np.bitwise_or.at(layer, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))
            self._room -= len(part)
            start += len(part)

    def passes(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that may have been added: all that were, and a few others."""
        maybe = np.zeros(len(texts), np.bool_)
        for layer in self._layers:
            places = _places(texts, layer)
            maybe |= ((layer[places >> 3] >> (places & 7)) & 1).all(axis=1)
        return [text for text, may in zip(texts, maybe, strict=True) if may]


def _places(texts: Sequence[str], layer: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the bits of each text in a layer."""
    hashes = np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64)
    steps = (hashes >> np.uint64(32)) | np.uint64(1)
    nth = np.arange(_PLACES, dtype=np.uint64)
    places: NDArray[np.uint64] = hashes[:, None] + np.multiply.outer(steps, nth)
    return (places % np.uint64(8 * len(layer))).astype(np.int64)


class RequestIds:
    """The release of each request id.

    Args:
        connection: The store's; ids (`RequestId.stored`) and their releases are columns of
            `ledger.release`.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._sieve = Sieve()
        self._ahead: dict[str, int] = {}
        self._looked_up: set[str] = set()
        for batch in connection.sql(
            "SELECT request_id FROM ledger.release WHERE request_id IS NOT NULL"
        ).to_arrow_reader(1 << 16):
            self._sieve.add(batch.column(0).to_pylist())

    def look_up(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the ids that have a release, with it; `get` knows them until the next call.

        This takes at most one query to the store for any number of ids.
        """
        wanted = set(ids)
        if not wanted <= self._looked_up:
            ahead = self._store(self._sieve.passes(list(wanted)))
            # an interrupt at any line leaves no id marked as without a release
            self._looked_up = set()
            self._ahead = ahead
            self._looked_up = wanted
        return {id: self._ahead[id] for id in wanted if id in self._ahead}

    def get(self, id: str) -> int | None:
        """Return the release of an id, or None."""
        if id in self._looked_up:
            return self._ahead.get(id)
        return self._store(self._sieve.passes([id])).get(id)

    def add(self, numbers: dict[str, int]) -> None:
        """Add ids that were written since."""
        self._sieve.add(list(numbers))
        self._ahead.update((id, n) for id, n in numbers.items() if id in self._looked_up)

    def _store(self, ids: Sequence[str]) -> dict[str, int]:
        if not ids:
            return {}
        return dict(
            self._con.execute(
                "SELECT request_id, id FROM ledger.release "
                "WHERE request_id IN (SELECT unnest(?::VARCHAR[]))",
                [ids],
            ).fetchall()
        )
