"""The loops of `stream.weights` and `stream.bill`, compiled: the same bits as their twins in NumPy.

Only + - × ÷ √, floor and frexp, each correctly rounded, one person after the other. A `price` is
(upper, lower, shift, most), see `prices.charged`.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from sparseq.compiled.numbers import NORM_LIMIT, charged, rounded_up

# -- the loops of `stream.weights` and `stream.bill` -----------------------------------------------


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
    """Add norms times a power of two to total; tell whether one has saturated."""
    saturated = False
    for i in range(len(norms)):
        total[i] += np.float64(norms[i]) * factor
        saturated |= norms[i] >= NORM_LIMIT
    return saturated


@numba.njit(nogil=True, inline="always")
def _settle(due, left, owed, most, bits):  # type: ignore[no-untyped-def]
    """Return what is owed with one part more, or -1 for who can't pay it."""
    with_it = min(owed, most - due) + due
    return with_it if rounded_up(with_it, bits) <= left else np.int64(-1)


@numba.njit(nogil=True, cache=True)
def pilot(  # type: ignore[no-untyped-def]
    r, a, edges, start, step, price, bits, left, owed, totals
):
    """Add everybody's two cells on the ladder to totals, and what they cost to what is owed."""
    upper, lower, shift, most = price
    last = len(edges) - 1
    surely_below = edges[start - 1] * (1 - 1e-9) if start > 0 else 0.0
    for i in range(len(r)):
        if r[i] <= surely_below * a[i]:
            continue
        rho = r[i] / a[i] if a[i] > 0 else edges[last]
        k = min(max(math.frexp(rho)[1], 0), last)
        while k > 0 and edges[k - 1] >= rho:
            k -= 1
        while k < last and edges[k] < rho:
            k += 1
        if k < start:
            continue
        below = edges[k - 1] if k > 0 else 0.0
        t = min(max((rho - below) / (edges[k] - below), 0.0), 1.0)
        high = np.int64(math.floor(a[i] * t * step))
        low = np.int64(math.floor(a[i] * (1.0 - t) * step)) if k > start else np.int64(0)
        due = charged(low * low + high * high, upper, lower, shift, most, 63)
        owes = _settle(due, left[i], owed[i], most, bits)
        if owes >= 0:
            owed[i] = owes
            totals[k] += high
            totals[max(k - 1, 0)] += low


@numba.njit(nogil=True, cache=True)
def weights(r, a, scale, one, mantissa, exponent):  # type: ignore[no-untyped-def]
    """Fill mantissa and exponent; see `stream.weights.weights`. Bits: one = 2**bits."""
    bits = math.frexp(one)[1] - 1
    for i in range(len(r)):
        w = min(1.0, scale * a[i] / r[i]) if r[i] > 0 else 1.0
        fraction, power = math.frexp(w)
        mantissa[i] = np.int64(math.floor(fraction * one))
        exponent[i] = bits - power


@numba.njit(nogil=True, cache=True)
def drop_saturated(norms, mantissa):  # type: ignore[no-untyped-def]
    """Take the weight of whoever's norm has saturated."""
    for i in range(len(norms)):
        if norms[i] >= NORM_LIMIT:
            mantissa[i] = 0


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


@numba.njit(nogil=True, cache=True)
def add_dues(norms, mantissa, exponent, finer, price, due):  # type: ignore[no-untyped-def]
    """Add to due the price of ceil(w² S 4**finer); see `stream.weights.weighted_norms`."""
    upper, lower, shift, most = price
    for i in range(len(norms)):
        if mantissa[i] == 0:
            continue
        norm = _weighted_norm(norms[i], mantissa[i], exponent[i], finer)
        more = charged(norm, upper, lower, shift, most, 63)
        due[i] = min(due[i], most - more) + more


@numba.njit(nogil=True, cache=True)
def settle(due, most, bits, left, owed, mantissa):  # type: ignore[no-untyped-def]
    """Add what is due to what is owed; take the weight of who can't pay."""
    for i in range(len(due)):
        owes = _settle(due[i], left[i], owed[i], most, bits)
        if owes >= 0:
            owed[i] = owes
        else:
            mantissa[i] = 0


@numba.njit(nogil=True, cache=True)
def less_than_one(users, mantissa, exponent, bits, out, faint):  # type: ignore[no-untyped-def]
    """Fill out with the places of weights below 1, faint with users below one half; return how many
    there are of both."""
    found = few = 0
    one = np.int64(1) << (bits - 1)
    for i in range(len(users)):
        out[found] = i
        found += mantissa[i] != one or exponent[i] != bits - 1
        faint[few] = users[i]
        few += mantissa[i] == 0 or exponent[i] > bits
    return found, few


# -- the loops of `monitor.band`: what lies ahead of many people, a column of a ring each ----------


@numba.njit(nogil=True, cache=True)
def products(ahead, slots, turned, out):  # type: ignore[no-untyped-def]
    """Fill out with the inner products of some columns and the taps; 0 for a slot of -1."""
    out[:] = 0
    for j in range(len(turned)):
        for i in range(len(slots)):
            if slots[i] >= 0:
                out[i] += ahead[j, slots[i]] * turned[j]


@numba.njit(nogil=True, cache=True)
def add_columns(ahead, slots, values, turned):  # type: ignore[no-untyped-def]
    """Add a multiple of the taps to some columns; slots are distinct."""
    for j in range(len(turned)):
        for i in range(len(slots)):
            ahead[j, slots[i]] += values[i] * turned[j]


@numba.njit(nogil=True, cache=True)
def take_row(row, slots, rest, last, oldest, values, gone):  # type: ignore[no-untyped-def]
    """Take a row of the ring out into values; gone: whose last tick is not after the oldest."""
    for i in range(len(slots)):
        slot = slots[i]
        value = row[slot]
        row[slot] = 0
        rest[slot] -= value * value
        values[i] = value
        gone[i] = last[slot] <= oldest


@numba.njit(nogil=True, cache=True)
def places(keys, wanted, out):  # type: ignore[no-untyped-def]
    """Fill out with where each of `wanted` is in keys, -1 if it isn't; both ascend."""
    at = 0
    for i in range(len(wanted)):
        while at < len(keys) and keys[at] < wanted[i]:
            at += 1
        out[i] = at if at < len(keys) and keys[at] == wanted[i] else -1
