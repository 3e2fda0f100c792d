"""Compiled loops of `series.methods.band`: the future of many users, a column of a ring each."""

from __future__ import annotations

import numba


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
