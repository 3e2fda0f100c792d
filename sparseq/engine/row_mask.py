"""Masks of the rows of a table that count: a condition's result, one bit per row.

A word has 64 bits, with the first row in the lowest bit. The number of set bits before each word is
also kept, so that counting a user's rows takes two look-ups, independent of their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import compiled, halves, worthwhile

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


def empty_words(rows: int) -> Words:
    """Return words without a set bit, for this number of rows and one more."""
    return np.zeros(rows // 64 + 1, np.uint64)


def words_of(truths: NDArray[Any]) -> Words:
    """Return truth values (bool or 0 and 1, one per row) as words.

    Example:
        >>> words_of(np.array([True, False, True])).tolist()
        [5]
    """
    words = empty_words(len(truths))
    packed = np.packbits(truths, bitorder="little")
    words.view(np.uint8)[: len(packed)] = packed
    return words


def words_within(
    values: NDArray[Any], spans: list[tuple[Any, Any]], missing: Any, known_nan: int = 0
) -> Words:
    """Return the words of rows whose value lies in a span, both ends included.

    Args:
        values: One value per row.
        spans: The ends of the spans, of the values' type.
        missing: The value that represents NULL, which never counts; NaN for numbers.
        known_nan: The bits of a NaN that counts; 0: no NaN counts.
    """
    words = empty_words(len(values))
    raw = values.view(np.uint64) if known_nan else None
    if worthwhile(len(values)):
        known = np.uint64(known_nan)

        def part(some: slice) -> None:
            rows = slice(some.start * 64, some.stop * 64)
            bits = None if raw is None else raw[rows]
            for low, high in spans or [(1, 0)]:
                compiled().row_loops.add_within(
                    values[rows], low, high, missing, bits, known, words[some]
                )

        halves(len(words), part, 1 << 13)
        return words
    passes = np.zeros(len(values), np.bool_) if raw is None else raw == known_nan
    for low, high in spans:
        passes |= (values >= low) & (values <= high) & (values != missing)
    return words_of(passes)


@dataclass(frozen=True)
class RowMask:
    """The rows of a table that count.

    Attributes:
        words: The bits; there is at least one more bit than rows, and it is not set.

    Example:
        >>> mask = RowMask(words_of(np.array([True, False, True])))
        >>> mask.counts(np.array([0, 1]), np.array([1, 3])).tolist()
        [1, 1]
    """

    words: Words

    @cached_property
    def before(self) -> Words:
        """The number of set bits before each word."""
        before = np.zeros(len(self.words), np.uint64)
        if worthwhile(len(self.words)):
            compiled().row_loops.bits_before(self.words, before)
        else:
            np.cumsum(np.bitwise_count(self.words[:-1]), out=before[1:])
        return before

    def counts(self, first: Ints, stop: Ints) -> Ints:
        """Return the number of rows that count in each run from `first` to before `stop`."""
        if worthwhile(len(first)):
            counts = np.empty(len(first), np.int64)

            def part(some: slice) -> None:
                ends = first[some], stop[some]
                compiled().row_loops.rows_that_count(*ends, self.words, self.before, counts[some])

            self.before  # noqa: B018 - made once, before there are two threads
            halves(len(first), part)
            return counts
        return self._before_row(stop) - self._before_row(first)

    def _before_row(self, rows: Ints) -> Ints:
        word, bit = rows >> 6, (rows & 63).astype(np.uint64)
        low = self.words[word] & ((np.uint64(1) << bit) - np.uint64(1))
        return np.asarray(self.before[word] + np.bitwise_count(low), np.int64)

    def of(self, rows: Ints) -> NDArray[np.bool_]:
        """Return a mask of those of some rows that count."""
        bits = self.words[rows >> 6] >> (rows & 63).astype(np.uint64)
        return np.asarray(bits & np.uint64(1) != 0)

    @property
    def nbytes(self) -> int:
        """Number of bytes in use."""
        return 2 * self.words.nbytes
