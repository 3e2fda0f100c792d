"""The loops of `engine.reduce`, `pricing` and `ledger.codec`, compiled and cached on disk.

Each is the plainest way to write what its NumPy twin means; the tests hold the two together.
Missing coordinates or values (None) are compiled away.
"""

from __future__ import annotations

import numba
import numpy as np

from sparseq.compiled import band, dense, images, row_loops, weights
from sparseq.compiled.charge_loops import charged, rounded_up

__all__ = ["band", "dense", "images", "row_loops", "weights"]  # and all below

_TOGETHER = 4096


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
def merge(left, right, values, at_left, at_right):  # type: ignore[no-untyped-def]
    """Fill values with those of two ascending lists of distinct ones, and the places of each list's
    values among them; return the count."""
    i = j = count = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        values[count] = min(a, b)
        at_left[i] = count  # of the larger one: until its turn comes
        at_right[j] = count
        i += a <= b
        j += b <= a
        count += 1
    for k in range(i, len(left)):
        values[count], at_left[k] = left[k], count
        count += 1
    for k in range(j, len(right)):
        values[count], at_right[k] = right[k], count
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
