"""Compiled loops of `stream.release_charges`: the same bits as their twins in NumPy.

Only + - × ÷ √, floor and frexp, each correctly rounded, one person after the other. A `price` is
(upper, lower, shift, most), see `prices.charged`.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from sparseq.compiled.charge_loops import NORM_LIMIT, charged, rounded_up

_BLOCK = 1024
"""Users that one pass of a loop takes: what is known of them stays in the nearest cache."""


@numba.njit(nogil=True, cache=True)
def allowances(left, owed, bits, cautious_units, least, out):  # type: ignore[no-untyped-def]
    """Fill out with sqrt(min(1, left / cautious)), 0 below the least; left when what is owed,
    rounded up to some bits, is paid."""
    for i in range(len(left)):
        rest = left[i] - rounded_up(owed[i], bits)
        share = min(1.0, np.float64(rest) / cautious_units)
        out[i] = 0.0 if rest < least else math.sqrt(share)


@numba.njit(nogil=True, cache=True)
def add_squares(norms, factor, total):  # type: ignore[no-untyped-def]
    """Add norms times a power of two to total."""
    for i in range(len(norms)):
        total[i] += np.float64(norms[i]) * factor


@numba.njit(nogil=True, inline="always")
def _settle(due, left, owed, most, bits):  # type: ignore[no-untyped-def]
    """Return what is owed with one part more, or -1 for who can't pay it."""
    with_it = min(owed, most - due) + due
    return with_it if rounded_up(with_it, bits) <= left else np.int64(-1)


@numba.njit(nogil=True, inline="always")
def _power(x):  # type: ignore[no-untyped-def]
    """Return the exponent that frexp finds for a positive number of at least 2**-1022."""
    return np.int64((np.float64(x).view(np.int64) >> 52) & 0x7FF) - 1022


@numba.njit(nogil=True, cache=True, error_model="numpy")
def pilot(  # type: ignore[no-untyped-def]
    r, a, edges, start, step, price, bits, left, owed, totals
):
    """Add each user's two cells on the ladder to totals, and their price to what is owed.

    The loops take a block of users each, one step at a time: a processor then works on several
    users at once. No loop branches on a user's values, but for a cell that is not that of the
    exponent.
    """
    upper, lower, shift, most = price
    last = len(edges) - 1
    surely_below = edges[start - 1] * (1 - 1e-9) if start > 0 else 0.0
    below, width = np.zeros(last + 1), np.empty(last + 1)
    below[1:] = edges[:-1]
    for k in range(last + 1):
        width[k] = edges[k] - below[k]
    who, cell = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    rho, own = np.empty(_BLOCK), np.empty(_BLOCK)
    high, low = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for begin in range(0, len(r), _BLOCK):
        end = min(begin + _BLOCK, len(r))
        some = np.uint64(0)
        for i in range(begin, end):
            who[some] = i
            some += np.uint64(r[i] > surely_below * a[i])
        for j in range(some):
            i = who[j]
            own[j] = a[i]
            rho[j] = r[i] / a[i] if a[i] > 0 else edges[last]
        n = np.uint64(0)
        for j in range(some):
            x = rho[j]
            k = min(max(_power(x), 0), last)
            while k > 0 and edges[k - 1] >= x:
                k -= 1
            while k < last and edges[k] < x:
                k += 1
            who[n], cell[n], rho[n], own[n] = who[j], k, x, own[j]
            n += np.uint64(k >= start)
        for j in range(n):
            k = cell[j]
            t = min(max((rho[j] - below[k]) / width[k], 0.0), 1.0)
            high[j] = np.int64(math.floor(own[j] * t * step))
            low[j] = np.int64(math.floor(own[j] * (1.0 - t) * step)) * (k > start)
        for j in range(n):
            due = charged(low[j] * low[j] + high[j] * high[j], upper, lower, shift, most, 63)
            i = who[j]
            owes = _settle(due, left[i], owed[i], most, bits)
            owed[i] = owes if owes >= 0 else owed[i]
            high[j] *= owes >= 0
            low[j] *= owes >= 0
        for j in range(n):
            totals[cell[j]] += high[j]
            totals[max(cell[j] - 1, 0)] += low[j]


@numba.njit(nogil=True, inline="always")
def _weighted_norm(norm, mantissa, exponent, finer):  # type: ignore[no-untyped-def]
    mask = np.uint64(2**31 - 1)
    limb, zero, one = np.uint64(31), np.uint64(0), np.uint64(1)
    square = np.uint64(mantissa * mantissa)
    s = np.uint64(norm)
    bottom = (s & mask) * square
    top = (s >> limb) * square + (bottom >> limb)
    bottom = bottom & mask
    shift = 2 * exponent - 2 * finer
    if shift - 31 > 63:
        whole = one if (top | bottom) != zero else zero
    elif shift >= 31:
        right = np.uint64(shift - 31)
        rest = (top & ((one << right) - one)) | bottom
        whole = (top >> right) + (one if rest != zero else zero)
    else:
        spare, up = np.uint64(max(shift, 0)), np.uint64(min(max(-shift, 0), 63))
        rest = bottom & ((one << spare) - one)
        left = np.uint64(min(31 - shift, 63))  # top is 0 where it is more
        whole = (top << left) + ((bottom >> spare) << up)
        whole += one if rest != zero else zero
    return np.int64(whole)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def weigh(  # type: ignore[no-untyped-def]
    start, stop, r, a, scale, norms, prices, most, bits, left, owed, users, w_bits, lighter, faint
):
    """Charge the users from start to stop for their weighted vectors, a block at a time.

    Weights are `release_charges.weights`, the price of ceil(w² S 4**finer) is that of
    `release_charges.weighted_norms`; a user whose norm has saturated, or who cannot pay, has no
    weight. From place `start` on, `lighter` is filled with the users whose weight is not 1 (users,
    mantissas, exponents), and `faint` with those below one half. Return the two counts.

    Args:
        norms: Squared norms, a row a measure.
        prices: (upper, lower, shift, finer), an array each with an item a measure.
        w_bits: Bits of a mantissa.
    """
    uppers, lowers, shifts, finer = prices
    who, mantissas, exponents = lighter
    one, whole = np.float64(1 << w_bits), np.int64(1) << (w_bits - 1)
    fraction_bits, half = (np.int64(1) << 52) - 1, np.int64(1022) << 52
    mantissa, exponent = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    due = np.empty(_BLOCK, np.int64)
    found = few = start
    for begin in range(start, stop, _BLOCK):
        n = min(_BLOCK, stop - begin)
        for j in range(n):
            i = begin + j
            w = min(1.0, scale * a[i] / r[i]) if r[i] > 0 else 1.0
            word = np.float64(w).view(np.int64)
            exponent[j] = w_bits - ((word >> 52) - 1022)
            mantissa[j] = np.int64(np.int64((word & fraction_bits) | half).view(np.float64) * one)
            if (word >> 52) == 0:  # 0 or below 2**-1022
                fraction, power = math.frexp(w)
                mantissa[j], exponent[j] = np.int64(fraction * one), w_bits - power
        for m in range(len(norms)):
            for j in range(n):
                mantissa[j] = mantissa[j] if norms[m, begin + j] < NORM_LIMIT else np.int64(0)
        due[:] = 0
        for m in range(len(norms)):
            upper, lower, shift, more_bits = uppers[m], lowers[m], shifts[m], finer[m]
            for j in range(n):
                if mantissa[j] != 0:
                    norm = _weighted_norm(norms[m, begin + j], mantissa[j], exponent[j], more_bits)
                    more = charged(norm, upper, lower, shift, most, 63)
                    due[j] = min(due[j], most - more) + more
        for j in range(n):
            i = begin + j
            owes = _settle(due[j], left[i], owed[i], most, bits)
            owed[i] = owes if owes >= 0 else owed[i]
            mantissa[j] = mantissa[j] if owes >= 0 else np.int64(0)
        for j in range(n):
            if mantissa[j] != whole or exponent[j] != w_bits - 1:
                user = users[begin + j]
                who[found], mantissas[found], exponents[found] = user, mantissa[j], exponent[j]
                found += 1
                if mantissa[j] == 0 or exponent[j] > w_bits:
                    faint[few] = user
                    few += 1
    return found - start, few - start
