"""Request ids that have a release: looked up in the store, so that memory does not grow with it.

Almost every id that is asked about is new. A sieve (Bloom 1970) tells most of those apart without
the store: two to four bytes a release, never a wrong "new", and a wrong "perhaps" now and then,
which costs a look into the store and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import numpy as np
from numpy.typing import NDArray

_PLACES = 6  # bits a text sets
_BITS_A_TEXT = 16  # at least: then 1 new text in 1,000 looks as if it had been seen
_FIRST_LAYER = 4096  # texts


class Sieve:
    """Tells of most texts that they have not been seen.

    >>> sieve = Sieve()
    >>> sieve.add(["a", "b"])
    >>> sieve.passes(["a", "new"])
    ['a']
    """

    def __init__(self) -> None:
        self._layers: list[NDArray[np.uint8]] = []
        self._room = 0

    def add(self, texts: Sequence[str]) -> None:
        """Remember texts."""
        start = 0
        while start < len(texts):
            if self._room == 0:  # twice as large as the last one, and that is kept
                self._room = _FIRST_LAYER << len(self._layers)
                self._layers.append(np.zeros(self._room * _BITS_A_TEXT // 8, np.uint8))
            part = texts[start : start + self._room]
            layer = self._layers[-1]
            places = _places(part, layer)
            np.bitwise_or.at(layer, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))
            self._room -= len(part)
            start += len(part)

    def passes(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that may have been seen: all that were, and few others."""
        maybe = np.zeros(len(texts), np.bool_)
        for layer in self._layers:
            places = _places(texts, layer)
            maybe |= ((layer[places >> 3] >> (places & 7)) & 1).all(axis=1)
        return [text for text, may in zip(texts, maybe, strict=True) if may]


def _places(texts: Sequence[str], layer: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the bits of a layer that stand for each text."""
    hashes = np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64)
    steps = (hashes >> np.uint64(32)) | np.uint64(1)
    nth = np.arange(_PLACES, dtype=np.uint64)
    places: NDArray[np.uint64] = hashes[:, None] + np.multiply.outer(steps, nth)
    return (places % np.uint64(8 * len(layer))).astype(np.int64)


class RequestIds:
    """The release that each request id stands for.

    Args:
        connection: To the store; ids (`RequestId.stored`) and their releases are columns of
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
        """Return those of the ids that have a release, with it; `get` knows them until next time.

        However many they are, it is at most one look into the store.
        """
        wanted = set(ids)
        if not wanted <= self._looked_up:
            ahead = self._stored(self._sieve.passes(list(wanted)))
            self._looked_up = set()  # interrupted anywhere, no id passes for one without a release
            self._ahead = ahead
            self._looked_up = wanted
        return {id: self._ahead[id] for id in wanted if id in self._ahead}

    def get(self, id: str) -> int | None:
        """Return the release of an id, if there is one."""
        if id in self._looked_up:
            return self._ahead.get(id)
        return self._stored(self._sieve.passes([id])).get(id)

    def add(self, numbers: dict[str, int]) -> None:
        """Know ids that have been written since."""
        self._sieve.add(list(numbers))
        self._ahead.update((id, n) for id, n in numbers.items() if id in self._looked_up)

    def _stored(self, ids: Sequence[str]) -> dict[str, int]:
        if not ids:
            return {}
        return dict(
            self._con.execute(
                "SELECT request_id, id FROM ledger.release "
                "WHERE request_id IN (SELECT unnest(?::VARCHAR[]))",
                [ids],
            ).fetchall()
        )
