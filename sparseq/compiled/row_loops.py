"""Compiled loops over the rows of each user: squared norms, sums, and sums under weights.

Each is the plainest way to write what its NumPy twin means; the tests hold the two together. A
missing argument (None) is compiled away. `words` are the bits of the rows that count (see
`engine.row_mask`), and `factor` turns what a row has into lattice steps: 1 / granularity for a
float64, and the number of steps of 1 for an integer, or where rows have no values.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import overload

_CELL_LIMIT = np.int64(2**31 - 1)
_NORM_LIMIT = np.int64(2**62)
_SMALL = 128  # coordinates up to which all cells are cleared sooner than those of many rows
_AT_ONCE = 1024  # numbers of which one loop does one step
_SAFE = np.int64(2**31 - 1)  # a sum of magnitudes up to here has squares that add up to < 2**62


@numba.njit(nogil=True)
def _quantised(value, factor):  # type: ignore[no-untyped-def]
    """Return the lattice steps of a number; see `engine.reduction.quantise`."""
    x = min(max(value * factor, -2147483647.0), 2147483647.0)
    return np.int64(np.rint(x)) if abs(value) < np.inf else np.int64(0)


@numba.njit(nogil=True)
def _clamped(x, bits, low, high, no_number, null, nan):  # type: ignore[no-untyped-def]
    """Return a number cut to [low, high]; see `engine.kept_numbers.ClampChain`."""
    y = low if x < low else x
    y = high if y > high else y
    z = null if bits == no_number else nan
    return y if x == x else z


def _steps(values: Any, i: Any, factor: Any) -> Any:
    """Return the lattice steps of row i; `values` is an array, or a clamp's arguments."""
    raise NotImplementedError  # Numba compiles the overload below


@overload(_steps)
def _steps_of(values, i, factor):  # type: ignore[no-untyped-def]
    if isinstance(values, types.BaseTuple):

        def of_clamped(values, i, factor):  # type: ignore[no-untyped-def]
            numbers, raw, low, high, no_number, null, nan = values
            cut = _clamped(numbers[i], raw[i], low, high, no_number, null, nan)
            return _quantised(cut, factor)

        return of_clamped
    if isinstance(values.dtype, types.Float):
        return lambda values, i, factor: _quantised(values[i], factor)
    return lambda values, i, factor: np.int64(values[i]) * factor


@numba.njit(nogil=True)
def _bit(words, i):  # type: ignore[no-untyped-def]
    """Return 1 for a row that counts, else 0."""
    return (words[i >> np.uint64(6)] >> (i & np.uint64(63))) & np.uint64(1)


@numba.njit(nogil=True)
def _listed(words, start, end, rows):  # type: ignore[no-untyped-def]
    """List the rows of a run that count, without a branch; return how many."""
    n = np.uint64(0)
    for i in range(start, end):
        rows[n] = i
        n += _bit(words, i)
    return n


@numba.njit(nogil=True, cache=True)
def _longest(first, stop):  # type: ignore[no-untyped-def]
    """Return the most rows of a run."""
    most = np.int64(0)
    for r in range(len(first)):
        most = max(most, stop[r] - first[r])
    return most


@numba.njit(nogil=True)
def _ones(word):  # type: ignore[no-untyped-def]
    """Count the bits of a word."""
    x = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@numba.njit(nogil=True, cache=True)
def bits_before(words, before):  # type: ignore[no-untyped-def]
    """Fill before with the number of bits in the words before each."""
    total = np.uint64(0)
    for w in range(len(words)):
        before[w] = total
        total += _ones(words[w])


@numba.njit(nogil=True, cache=True)
def rows_that_count(first, stop, words, before, counts):  # type: ignore[no-untyped-def]
    """Fill counts with the number of rows of each run that count."""
    for r in range(len(first)):
        a, b = np.uint64(first[r]), np.uint64(stop[r])
        v, w = a >> np.uint64(6), b >> np.uint64(6)
        low = words[v] & ((np.uint64(1) << (a & np.uint64(63))) - np.uint64(1))
        high = words[w] & ((np.uint64(1) << (b & np.uint64(63))) - np.uint64(1))
        counts[r] = np.int64(before[w] + _ones(high) - before[v] - _ones(low))


@numba.njit(nogil=True, cache=True)
def add_within(values, low, high, missing, raw, known, words):  # type: ignore[no-untyped-def]
    """Set the bits of rows whose value is in [low, high], and is not the missing one.

    Args:
        raw: The bits of the values, where a row passes whose bits are `known`, too: a NaN. None: no
            NaN passes.
    """
    for w in range(len(words)):
        bits = np.uint64(0)
        begin = np.uint64(w) << np.uint64(6)
        end = min(begin + np.uint64(64), np.uint64(len(values)))
        for i in range(begin, end):
            x = values[i]
            passes = (x >= low) & (x <= high) & (x != missing)
            if raw is not None:
                passes |= raw[i] == known
            bits |= np.uint64(passes) << (i & np.uint64(63))
        words[w] |= bits


@numba.njit(nogil=True, cache=True)
def clamp(values, out):  # type: ignore[no-untyped-def]
    """Fill out with the numbers of a clamp."""
    numbers, raw, low, high, no_number, null, nan = values
    for i in range(len(numbers)):
        out[i] = _clamped(numbers[i], raw[i], low, high, no_number, null, nan)


def _number(values: Any, i: Any) -> Any:
    """Return the number of row i; `values` is an array, or a clamp's arguments."""
    raise NotImplementedError  # Numba compiles the overload below


@overload(_number)
def _number_of(values, i):  # type: ignore[no-untyped-def]
    if isinstance(values, types.BaseTuple):

        def of_clamped(values, i):  # type: ignore[no-untyped-def]
            numbers, raw, low, high, no_number, null, nan = values
            return _clamped(numbers[i], raw[i], low, high, no_number, null, nan)

        return of_clamped
    return lambda values, i: values[i]


@numba.njit(nogil=True, cache=True)
def bins_by_bits(values, bits, first, below, edges, low, high, out):  # type: ignore[no-untyped-def]
    """Fill out with the bins of numbers; see `engine.bin_table.BinTable`."""
    last, rest = np.int64(len(below) - 1), np.int64(2**63 - 1)
    some, names = np.empty(_AT_ONCE, np.float64), np.empty(_AT_ONCE, np.uint64)
    for start in range(0, len(out), _AT_ONCE):
        n = min(_AT_ONCE, len(out) - start)
        for i in range(n):
            some[i] = _number(values, start + i) + 0.0
        for i in range(n):
            word = np.float64(some[i]).view(np.int64)
            name = ((word ^ ((word >> 63) & rest)) >> bits) - first
            names[i] = min(max(name, np.int64(0)), last)
        for i in range(n):
            k, x = names[i], some[i]
            place = below[k] + np.int64(edges[k] <= x)
            out[start + i] = place if (low <= x) & (x <= high) else np.int64(-1)


@numba.njit(nogil=True, cache=True)
def shift(days, first, size, out):  # type: ignore[no-untyped-def]
    """Fill out with each day's place among days from `first` on, -1 for none."""
    for i in range(len(days)):
        place = np.int64(days[i]) - first
        out[i] = place if (place >= 0) & (place < size) else -1


@numba.njit(nogil=True, cache=True)
def reduce_sums(  # type: ignore[no-untyped-def]
    first, stop, words, coordinates, values, factor, size, norms, totals
):
    """Fill norms (one a run) and add to totals; a user's value is the sum of its rows.

    One pass: where v joins a cell of x, the square grows by v (2 x + v).
    """
    if coordinates is None and values is not None:
        _one_sum(first, stop, words, values, factor, norms, totals)
        return
    cells = np.zeros(size + 1, np.int64)  # cell 0 takes the rows that count for nothing
    sums = np.zeros(size + 1, np.int64)
    rows = np.empty(0 if words is None else _longest(first, stop), np.uint64)
    for r in range(len(first)):
        start = np.uint64(first[r])  # unsigned: no check for negative ones
        count = np.uint64(stop[r]) - start
        if words is not None:
            count = _listed(words, start, start + count, rows)
        magnitude = np.int64(0)
        norm = np.int64(0)
        for j in range(count):
            i = start + j if words is None else rows[j]
            k = np.uint64(1) if coordinates is None else np.uint64(np.int64(coordinates[i]) + 1)
            v = np.int64(factor) if values is None else _steps(values, i, factor)
            v = v if k != 0 else np.int64(0)
            x = cells[k]
            cells[k] = x + v
            sums[k] += v
            norm += v * (x + x + v)
            magnitude += abs(v)
        if size <= _SMALL and size <= 4 * count:
            cells[:] = 0
        else:
            for j in range(count):
                i = start + j if words is None else rows[j]
                k = np.uint64(1) if coordinates is None else np.uint64(np.int64(coordinates[i]) + 1)
                cells[k] = 0
        if magnitude > _SAFE:  # the squares may have wrapped around: once more, saturating
            norm = _large_norm(first[r], stop[r], words, coordinates, values, factor, cells)
        norms[r] = norm
    totals += sums[1:]


@numba.njit(nogil=True, cache=True)
def _one_sum(first, stop, words, values, factor, norms, totals):  # type: ignore[no-untyped-def]
    """`reduce_sums` for one coordinate."""
    for r in range(len(first)):
        total = np.int64(0)
        for i in range(np.uint64(first[r]), np.uint64(stop[r])):
            v = _steps(values, i, factor)
            total += v if words is None else v * np.int64(_bit(words, i))
        totals[0] += total
        norms[r] = total * total if abs(total) <= _CELL_LIMIT else _NORM_LIMIT


@numba.njit(nogil=True, cache=True)
def _large_norm(  # type: ignore[no-untyped-def]
    start, stop, words, coordinates, values, factor, cells
):
    """Return one user's squared norm, saturated; leaves cells as they were, all 0."""
    for i in range(np.uint64(start), np.uint64(stop)):
        if words is None or _bit(words, i):
            k = 1 if coordinates is None else np.int64(coordinates[i]) + 1
            cells[k] += np.int64(factor) if values is None else _steps(values, i, factor)
    cells[0] = 0
    norm = np.int64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        if words is None or _bit(words, i):
            k = 1 if coordinates is None else np.int64(coordinates[i]) + 1
            x = abs(cells[k])
            cells[k] = 0
            norm = _NORM_LIMIT if x > _CELL_LIMIT else min(norm + x * x, _NORM_LIMIT)
    return norm


@numba.njit(nogil=True, cache=True)
def weight_losses(  # type: ignore[no-untyped-def]
    first, stop, words, coordinates, values, factor, distinct, mantissa, exponent, shift, totals
):
    """Add to totals what every user's cells times 2**shift lose when they are m · 2**(shift - x).

    That is cut off towards zero. With `distinct` a cell with a row of a value is 1. All is modulo
    2**64.
    """
    cells = np.zeros(len(totals), np.int64)
    rows = np.empty(0 if words is None else _longest(first, stop), np.uint64)
    for r in range(len(first)):
        start = np.uint64(first[r])
        count = np.uint64(stop[r]) - start
        if words is not None:
            count = _listed(words, start, start + count, rows)
        for j in range(count):
            i = start + j if words is None else rows[j]
            k = 0 if coordinates is None else np.int64(coordinates[i])
            if k >= 0:
                cells[k] += np.int64(factor) if values is None else _steps(values, i, factor)
        back = exponent[r] - shift
        for j in range(count):
            i = start + j if words is None else rows[j]
            k = 0 if coordinates is None else np.int64(coordinates[i])
            if k < 0 or cells[k] == 0:
                continue
            size = np.int64(1) if distinct else abs(cells[k])
            part = mantissa[r] * size
            part = part >> min(back, 63) if back >= 0 else part << -back
            lost = (size << shift) - part
            totals[k] += lost if cells[k] > 0 else -lost
            cells[k] = 0


@numba.njit(nogil=True, cache=True)
def reduce_distinct(  # type: ignore[no-untyped-def]
    first, stop, words, coordinates, values, factor, size, norms, totals
):
    """Fill norms (one a run) and add to totals; a user's value is 1 where any row has a value."""
    seen = np.zeros(size + 1, np.bool_)
    rows = np.empty(0 if words is None else _longest(first, stop), np.uint64)
    for r in range(len(first)):
        start = np.uint64(first[r])
        count = np.uint64(stop[r]) - start
        if words is not None:
            count = _listed(words, start, start + count, rows)
        seen[0] = True
        norm = np.int64(0)
        for j in range(count):
            i = start + j if words is None else rows[j]
            if values is not None and _steps(values, i, factor) == 0:
                continue
            k = 1 if coordinates is None else np.int64(coordinates[i]) + 1
            if not seen[k]:
                seen[k] = True
                totals[k - 1] += 1
                norm += 1
        for j in range(count):
            i = start + j if words is None else rows[j]
            seen[1 if coordinates is None else np.int64(coordinates[i]) + 1] = False
        norms[r] = norm
