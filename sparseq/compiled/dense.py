"""Compiled loops of `training.exact_sums`, over rows of integers that are held as floats.

Float64 adds and multiplies integers exactly below 2**53, in any order, so LLVM may reorder and
fuse these sums: the result is the same to the bit. Operations that may round are in functions
without `fastmath`, and IEEE 754 fixes each of them.
"""

from __future__ import annotations

import numba
import numpy as np

from sparseq.compiled.logistic import sigmoid

_ANY_ORDER = {"reassoc", "contract"}
_BLOCK = 64  # rows whose vectors, of coordinates below 2**47, add up to at most 2**53
_sigmoid = numba.njit(nogil=True, error_model="numpy")(sigmoid)


@numba.njit(nogil=True, cache=True, fastmath=_ANY_ORDER)
def dots(x, weights, out):  # type: ignore[no-untyped-def]
    """Fill out with each row's product with some weights."""
    rows, width = x.shape
    i = 0
    while i + 4 <= rows:
        a = b = c = d = 0.0
        for j in range(width):
            w = weights[j]
            a += np.float64(x[i, j]) * w
            b += np.float64(x[i + 1, j]) * w
            c += np.float64(x[i + 2, j]) * w
            d += np.float64(x[i + 3, j]) * w
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
        i += 4
    for r in range(i, rows):
        a = 0.0
        for j in range(width):
            a += np.float64(x[r, j]) * weights[j]
        out[r] = a


@numba.njit(nogil=True, cache=True, fastmath=_ANY_ORDER)
def _add_rows(x, k, out):  # type: ignore[no-untyped-def]
    """Add k[i] · x[i] of all rows to out."""
    rows, width = x.shape
    i = 0
    while i + 4 <= rows:
        a, b, c, d = k[i], k[i + 1], k[i + 2], k[i + 3]
        for j in range(width):
            out[j] += (
                a * np.float64(x[i, j])
                + b * np.float64(x[i + 1, j])
                + c * np.float64(x[i + 2, j])
                + d * np.float64(x[i + 3, j])
            )
        i += 4
    for r in range(i, rows):
        for j in range(width):
            out[j] += k[r] * np.float64(x[r, j])


@numba.njit(nogil=True, cache=True)
def weigh(residual, weights, factor, squares, unit, limit, k, charged):  # type: ignore[no-untyped-def]
    """Fill k with residuals times weights in lattice steps, towards 0, and charged with squares.

    What costs `limit` or more counts for nothing.
    """
    for i in range(len(k)):  # without branches, so that several are done at once
        one = np.trunc(residual[i] * weights[i] * factor)
        square = one * one * squares[i] * unit
        k[i] = one if square < limit else 0.0
        charged[i] = np.int64(np.ceil(square if square < limit else limit))


@numba.njit(nogil=True, cache=True)
def _add_block(x, k, block, totals):  # type: ignore[no-untyped-def]
    """Add the sum of k[i] · x[i] to totals, int64; there are at most `_BLOCK` rows."""
    block[:] = 0.0
    _add_rows(x, k, block)
    for j in range(len(block)):
        totals[j] += np.int64(block[j])


@numba.njit(nogil=True, cache=True)
def sums(x, k, totals):  # type: ignore[no-untyped-def]
    """Add the sum of k[i] · x[i] to totals, int64; each product is below 2**47."""
    block = np.empty(x.shape[1])
    for start in range(0, len(k), _BLOCK):
        p = slice(start, min(start + _BLOCK, len(k)))
        _add_block(x[p], k[p], block, totals)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def residuals(z, y, unit, logistic):  # type: ignore[no-untyped-def]
    """Put means minus targets in the place of linear predictors, which are in some unit."""
    for i in range(len(z)):
        z[i] *= unit
    if logistic:
        for i in range(len(z)):
            z[i] = _sigmoid(z[i])
    for i in range(len(z)):
        z[i] -= y[i]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _weights(residual, lengths, limits, huge, out):  # type: ignore[no-untyped-def]
    """Fill out with min(limit / norm, 1), 0 for no norm; leave out gradients that are huge."""
    for i in range(len(out)):
        norm = abs(residual[i]) * lengths[i]
        residual[i] = residual[i] if norm < huge else 0.0
        weight = min(limits[i] / norm, 1.0)
        out[i] = weight if 0.0 < norm < huge else 0.0


@numba.njit(nogil=True, cache=True)
def clip(  # type: ignore[no-untyped-def]
    x,
    y,
    lengths,
    squares,
    limits,
    params,
    param_unit,
    logistic,
    huge,
    factor,
    unit,
    limit,
    charged,
    totals,
):
    """Do all of a step while a few rows are at hand: see `training.exact_sums.clipped_sums`.

    Limits are one a row, or a single one.
    """
    z, w, k = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    block, alike = np.empty(x.shape[1]), np.full(_BLOCK, limits[0])
    for start in range(0, len(x), _BLOCK):
        p = slice(start, min(start + _BLOCK, len(x)))
        some = slice(0, p.stop - p.start)
        own = limits[p] if len(limits) > 1 else alike[some]
        dots(x[p], params, z[some])
        residuals(z[some], y[p], param_unit, logistic)
        _weights(z[some], lengths[p], own, huge, w[some])
        weigh(z[some], w[some], factor, squares[p], unit, limit, k[some], charged[p])
        _add_block(x[p], k[some], block, totals)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})
def row_squares(rows, out):  # type: ignore[no-untyped-def]
    """Fill out with each row's sum of squares, added up in float64 in an order of its own."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += np.float64(rows[i, j]) * np.float64(rows[i, j])
        out[i] = total


@numba.njit(nogil=True, cache=True)
def add_rows(rows, factors, totals):  # type: ignore[no-untyped-def]
    """Add trunc(factor · value) of all rows whose factor is not 0 to totals, int64."""
    users, columns = rows.shape
    for i in range(users):
        factor = factors[i]
        if factor != 0.0:
            for j in range(columns):
                totals[j] += np.int64(factor * np.float64(rows[i, j]))


@numba.njit(nogil=True, cache=True)
def add_outer(left, right, factors, totals):  # type: ignore[no-untyped-def]
    """Add trunc(factor · left ⊗ right) of all rows whose factor is not 0 to totals, int64."""
    for i in range(left.shape[0]):
        if factors[i] != 0.0:
            for j in range(left.shape[1]):
                scaled = factors[i] * np.float64(left[i, j])
                for k in range(right.shape[1]):
                    totals[j, k] += np.int64(scaled * np.float64(right[i, k]))
