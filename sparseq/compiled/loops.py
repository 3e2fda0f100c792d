"""The loops of `engine.reduce`, `pricing` and `ledger.codec`, compiled and cached on disk.

Each is the plainest way to write what its NumPy twin means; the tests hold the two together.
Missing coordinates or values (None) are compiled away.
"""

from __future__ import annotations

import numba
import numpy as np

from sparseq.compiled import dense, weights
from sparseq.compiled.numbers import charged, rounded_up

__all__ = ["dense", "weights"]  # and all below

_CELL_LIMIT = np.int64(2**31 - 1)
_NORM_LIMIT = np.int64(2**62)
_SMALL = 128  # coordinates up to which all cells are cleared sooner than those of many rows
_TOGETHER = 4096
_SAFE = np.int64(2**31 - 1)  # a sum of magnitudes up to here has squares that add up to < 2**62


@numba.njit(nogil=True, cache=True)
def quantise(values, inverse, out):  # type: ignore[no-untyped-def]
    """Put float64 values on the lattice; `inverse` is 1 / granularity, a power of two."""
    for i in range(len(values)):
        x = min(max(values[i] * inverse, -2147483647.0), 2147483647.0)
        out[i] = np.int32(np.rint(x)) if abs(values[i]) < np.inf else np.int32(0)


@numba.njit(nogil=True, cache=True)
def bins(values, inner, low, high, out):  # type: ignore[no-untyped-def]
    """Fill out with how many of the inner edges are at most a value; -1 beyond low and high.

    Some values at a time are halved together, so that nothing hangs on what one of them is.
    """
    places = np.zeros(_TOGETHER, np.int64)
    for start in range(0, len(values), _TOGETHER):
        some = values[start : start + _TOGETHER]
        places[:] = 0
        length = len(inner)
        while length > 1:
            half = length >> 1
            for i in range(len(some)):
                places[i] += half * (inner[np.uint64(places[i] + half - 1)] <= some[i])
            length -= half
        for i in range(len(some)):
            place = places[i] + (length > 0 and inner[np.uint64(places[i])] <= some[i])
            out[start + i] = place if low <= some[i] <= high else -1


@numba.njit(nogil=True, cache=True)
def charge(norms, upper, lower, shift, most, significant_bits, out):  # type: ignore[no-untyped-def]
    """Fill out with charges; see `prices.charged`."""
    for i in range(len(norms)):
        out[i] = charged(norms[i], upper, lower, shift, most, significant_bits)


@numba.njit(nogil=True, cache=True)
def add_at(users, charges, spent):  # type: ignore[no-untyped-def]
    """Add charges to what distinct users have spent."""
    for i in range(len(users)):
        spent[users[i]] += charges[i]


@numba.njit(nogil=True, cache=True)
def places(values, among, out):  # type: ignore[no-untyped-def]
    """Fill out with where `values` lie in `among`, both ascending; return how many are there."""
    count = 0
    k = 0
    for value in values:
        while k < len(among) and among[k] < value:
            k += 1
        if k < len(among) and among[k] == value:
            out[count] = k
            count += 1
    return count


@numba.njit(nogil=True, cache=True)
def select(values, mask, out):  # type: ignore[no-untyped-def]
    """Fill out with the values where the mask says so; return how many."""
    count = 0
    for i in range(len(values)):
        out[count] = values[i]
        count += mask[i]
    return count


@numba.njit(nogil=True, cache=True)
def look_up(table, codes, out):  # type: ignore[no-untyped-def]
    """Fill out with what the table has for each code, which is within it."""
    for i in range(len(codes)):
        out[i] = table[codes[i]]


@numba.njit(nogil=True, cache=True)
def starts(users, out):  # type: ignore[no-untyped-def]
    """Fill out with where each run of equal, ascending users begins; -1 if they don't ascend."""
    count = 0
    for i in range(len(users)):
        if i > 0 and users[i] < users[i - 1]:
            return -1
        out[count] = i
        count += i == 0 or users[i] != users[i - 1]
    return count


@numba.njit(nogil=True, cache=True)
def shorten(numbers, out):  # type: ignore[no-untyped-def]
    """Fill out with numbers of at most 11 significant bits as 16 bits.

    Return the lowest, the highest, and whether all have no more bits. Numbers beyond 2**53, which a
    float64 might not hold exactly, count as having more.
    """
    unused = (np.int64(1) << 42) - 1
    more = np.int64(0)
    low = high = numbers[0]
    for i in range(len(numbers)):
        number = numbers[i]
        low, high = min(low, number), max(high, number)
        bits = np.float64(number).view(np.int64)
        more |= (number >> 53) | (bits & unused)
        out[i] = (bits >> 42) - 1022 * 1024 if number > 0 else 0
    return low, high, more == 0


@numba.njit(nogil=True, cache=True)
def tally(codes, counts):  # type: ignore[no-untyped-def]
    """Count each code."""
    for i in range(len(codes)):
        counts[codes[i]] += 1


@numba.njit(nogil=True, cache=True)
def round_up(charges, significant_bits, out):  # type: ignore[no-untyped-def]
    """Fill out with charges rounded up to some significant bits, as `accounting.round_up` does."""
    for i in range(len(charges)):
        out[i] = rounded_up(charges[i], significant_bits)


@numba.njit(nogil=True, cache=True)
def reduce_sums(first, stop, coordinates, values, size, norms, totals):  # type: ignore[no-untyped-def]
    """Fill norms (one a run) and add to totals; a user's value is the sum of its rows.

    One pass: where v joins a cell of x, the square grows by v (2 x + v).
    """
    if coordinates is None and values is not None:
        _one_sum(first, stop, values, norms, totals)
        return
    cells = np.zeros(size + 1, np.int64)  # cell 0 takes the rows that count for nothing
    sums = np.zeros(size + 1, np.int64)
    for r in range(len(first)):
        start, end = np.uint64(first[r]), np.uint64(stop[r])  # unsigned: no check for negative ones
        magnitude = np.int64(0)
        norm = np.int64(0)
        for i in range(start, end):
            k = np.uint64(1) if coordinates is None else np.uint64(np.int64(coordinates[i]) + 1)
            v = np.int64(1) if values is None else np.int64(values[i])
            v = v if k != 0 else np.int64(0)
            x = cells[k]
            cells[k] = x + v
            sums[k] += v
            norm += v * (x + x + v)
            magnitude += abs(v)
        if size <= _SMALL and size <= 4 * (end - start):
            cells[:] = 0
        else:
            for i in range(start, end):
                k = np.uint64(1) if coordinates is None else np.uint64(np.int64(coordinates[i]) + 1)
                cells[k] = 0
        if magnitude > _SAFE:  # the squares may have wrapped around: once more, saturating
            norm = _large_norm(first[r], stop[r], coordinates, values, cells)
        norms[r] = norm
    totals += sums[1:]


@numba.njit(nogil=True, cache=True)
def _one_sum(first, stop, values, norms, totals):  # type: ignore[no-untyped-def]
    """`reduce_sums` for one coordinate."""
    for r in range(len(first)):
        total = np.int64(0)
        for i in range(first[r], stop[r]):
            total += np.int64(values[i])
        totals[0] += total
        norms[r] = total * total if abs(total) <= _CELL_LIMIT else _NORM_LIMIT


@numba.njit(nogil=True, cache=True)
def _large_norm(start, stop, coordinates, values, cells):  # type: ignore[no-untyped-def]
    """Return one user's squared norm, saturated; leaves cells as they were, all 0."""
    for i in range(start, stop):
        k = 1 if coordinates is None else np.int64(coordinates[i]) + 1
        cells[k] += 1 if values is None else values[i]
    cells[0] = 0
    norm = np.int64(0)
    for i in range(start, stop):
        k = 1 if coordinates is None else np.int64(coordinates[i]) + 1
        x = abs(cells[k])
        cells[k] = 0
        norm = _NORM_LIMIT if x > _CELL_LIMIT else min(norm + x * x, _NORM_LIMIT)
    return norm


@numba.njit(nogil=True, cache=True)
def weight_losses(  # type: ignore[no-untyped-def]
    first, stop, coordinates, values, distinct, mantissa, exponent, shift, totals
):
    """Add to totals what every user's cells times 2**shift lose when they are m · 2**(shift - x).

    That is cut off towards zero. With `distinct` a cell with a row of a value is 1. All is modulo
    2**64.
    """
    cells = np.zeros(len(totals), np.int64)
    for r in range(len(first)):
        for i in range(first[r], stop[r]):
            k = 0 if coordinates is None else np.int64(coordinates[i])
            if k >= 0:
                cells[k] += 1 if values is None else np.int64(values[i])
        back = exponent[r] - shift
        for i in range(first[r], stop[r]):
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
def reduce_distinct(first, stop, coordinates, values, size, norms, totals):  # type: ignore[no-untyped-def]
    """Fill norms (one a run) and add to totals; a user's value is 1 where any row has a value."""
    seen = np.zeros(size + 1, np.bool_)
    for r in range(len(first)):
        seen[0] = True
        norm = np.int64(0)
        for i in range(first[r], stop[r]):
            if values is not None and values[i] == 0:
                continue
            k = 1 if coordinates is None else np.int64(coordinates[i]) + 1
            if not seen[k]:
                seen[k] = True
                totals[k - 1] += 1
                norm += 1
        for i in range(first[r], stop[r]):
            seen[1 if coordinates is None else np.int64(coordinates[i]) + 1] = False
        norms[r] = norm


@numba.njit(nogil=True, cache=True)
def counting_order(keys, ends, order):  # type: ignore[no-untyped-def]
    """Fill order with the places of keys from 0 up, the smallest first; what is equal stays.

    `ends` has a 0 for every key that there can be, and one more.
    """
    for key in keys:
        ends[np.uint64(key) + np.uint64(1)] += 1
    for k in range(1, len(ends)):
        ends[k] += ends[k - 1]
    for i in range(len(keys)):
        key = np.uint64(keys[i])
        order[ends[key]] = i
        ends[key] += 1
