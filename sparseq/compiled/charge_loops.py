"""The charge of one squared norm, compiled: parts of other loops, as `accounting.charge` has it."""

from __future__ import annotations

import numba
import numpy as np

NORM_LIMIT = np.int64(2**62)


@numba.njit(nogil=True, inline="always")
def rounded_up(charge, significant_bits):  # type: ignore[no-untyped-def]
    """Return a charge rounded up to some significant bits."""
    if charge > np.int64(2**52) or significant_bits > 52:
        return charge
    # as a float64, which is exact, what is above the significant bits are its last ones; a carry
    # out of them goes on to the exponent, as it should
    unused = (np.int64(1) << (53 - significant_bits)) - 1
    bits = (np.float64(charge).view(np.int64) + unused) & ~unused
    return np.int64(np.int64(bits).view(np.float64))


@numba.njit(nogil=True, inline="always")
def charged(norm, upper, lower, shift, most, significant_bits):  # type: ignore[no-untyped-def]
    """Return min(ceil(norm · P / 2**shift), most), P = upper · 2**32 + lower < 2**62.

    It is rounded up to some significant bits; 63 of them are all.

    The product of 63 and 62 bits is made of 32-bit limbs, as in `accounting.charge`; shift is at
    most 127. A norm that has saturated is charged the most.
    """
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    s = np.uint64(norm)
    bottom = (s & mask) * lower
    middle = (s >> half) * lower + (bottom >> half)
    carry = (s & mask) * upper + (middle & mask)
    high = (s >> half) * upper + (middle >> half) + (carry >> half)
    low = (carry << half) | (bottom & mask)
    if shift >= 64:
        whole = high >> np.uint64(shift - 64)
        rest = low | (high & ((np.uint64(1) << np.uint64(shift - 64)) - np.uint64(1)))
    elif high >> np.uint64(shift) != 0:
        whole, rest = np.uint64(most), np.uint64(0)
    else:
        whole = (high << np.uint64(64 - shift)) | (low >> np.uint64(shift))
        rest = low & ((np.uint64(1) << np.uint64(shift)) - np.uint64(1))
    if rest != 0 and whole < np.uint64(most):
        whole += np.uint64(1)
    if norm >= NORM_LIMIT or whole > np.uint64(most):
        return np.int64(most)
    return rounded_up(np.int64(whole), significant_bits)
