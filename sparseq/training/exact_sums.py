"""Sums of products of integers held as floats: exact in any order of the additions.

Float64 holds the integers up to 2**53, and adds and multiplies them exactly as long as no result
exceeds it. Features are integers that float32 holds as well; rows are kept in float32 if the
compiled loops are there to read them, which halves the length of a row. There are two versions with
the same result: BLAS, and a compiled loop for large inputs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from sparseq.compiled import compiled, halves, worthwhile
from sparseq.engine.reduction import NORM_LIMIT, Ints
from sparseq.training.protocol import Floats, saturate

Matrix = Any
"""Integers (rows, features): NDArray[float64 or float32], or a scipy CSR array of float64."""

STORED: Any = np.float32 if importlib.util.find_spec("numba") else np.float64
"""Type of stored rows of integers."""

_EXACT = 2.0**53
_BLOCK = 1 << 12  # rows converted to float64 at a time
_FOLDED = 1 << 15  # cells squared at a time
_SHARED = 1 << 20  # cells above which a second thread is faster


def blocks(x: Matrix, size: int | None = None) -> Iterator[tuple[slice, Matrix]]:
    """Yield blocks of at most `size` rows, as float64."""
    rows = x.shape[0]
    narrow = x.dtype != np.float64
    size = min(size or rows, _BLOCK if narrow else rows) or 1
    for start in range(0, rows, size):
        part = slice(start, start + size)
        yield part, x[part].astype(np.float64) if narrow else x[part]


def row_squares(x: Matrix) -> Floats:
    """Return |x|² of each row: exact, and so in any order, as long as it is below 2**53."""
    if sparse.issparse(x):
        return np.asarray((x * x).sum(axis=1)).reshape(-1)
    squares = np.empty(len(x))
    for rows, part in blocks(x):
        np.einsum("ij,ij->i", part, part, out=squares[rows])
    return squares


@np.errstate(over="ignore")  # an infinite norm exceeds every budget, without a warning
def fixed_row_squares(x: Matrix) -> Floats:
    """Return |x|² of each row, by float additions in an order that depends on the row alone.

    It is for rows whose squares exceed 2**53, where additions round: the order is then part of the
    result. Sparse rows are added up by ascending column, one entry after another (`bincount` takes
    its input in order). Dense rows are folded, the last half onto the first, so that the order
    depends on the width. A row's number does not depend on the contents or the number of other
    rows, on memory layout or on whether a matrix happens to be sorted.

    Example:
        >>> fixed_row_squares(np.array([[3.0, 4.0], [2.0**30, 1.0]])).tolist()
        [25.0, 1.152921504606847e+18]
    """
    if sparse.issparse(x):
        sorted_ = sparse.csr_array(x, copy=True)
        sorted_.sum_duplicates()  # also sorts by ascending column
        owners = np.repeat(np.arange(x.shape[0]), np.diff(sorted_.indptr))
        return np.asarray(np.bincount(owners, sorted_.data**2, x.shape[0]), np.float64)
    squares = np.empty(len(x))
    for rows, part in blocks(x, max(_FOLDED // max(x.shape[1], 1), 1)):
        squares[rows] = _fold(part * part)
    return squares


def _fold(terms: Floats) -> Floats:
    """Return each row's sum; the terms are overwritten."""
    width = terms.shape[1]
    while width > 1:
        half = width // 2
        terms[:, :half] += terms[:, width - half : width]
        width -= half
    return terms[:, 0] if width else np.zeros(len(terms))


def dots(x: Matrix, weights: Floats) -> Floats:
    """Return (outputs, rows): every row's product with every output's weights.

    Args:
        x: (rows, width).
        weights: (outputs, width), integers; |x| · |weights| over a row is below 2**53.
    """
    out = np.empty((len(weights), x.shape[0]))
    if len(weights) == 1 and by_loop(x):
        loop, row = compiled().dense.dots, np.ascontiguousarray(weights[0])
        halves(x.shape[0], lambda p: loop(x[p], row, out[0, p]), _SHARED // x.shape[1])
        return out
    for rows, part in blocks(x):
        out[:, rows] = (part @ weights.T).T
    return out


def exact_sums(k: Floats, x: Matrix, limit: float) -> Ints:
    """Return the sum over rows of k ⊗ x, exactly.

    Args:
        k: (outputs, rows), integers held as float64.
        x: (rows, width).
        limit: Bound on |x|. If |k| · limit exceeds 2**53, the products of that row are inexact.

    Example:
        >>> exact_sums(np.array([[2.0**51, 1.0]]), np.array([[2.0, 1.0], [1.0, 1.0]]), 2.0)
        array([4503599627370497, 2251799813685249])
    """
    sums = np.zeros(len(k) * x.shape[1], np.int64)
    peak = max(float(k.max(initial=0.0)), -float(k.min(initial=0.0))) * limit
    size = max(int(min(_EXACT / peak, x.shape[0])), 1) if peak > 0 else None
    for rows, part in blocks(x, size):
        one = (part.T @ k[:, rows].T).T if sparse.issparse(x) else k[:, rows] @ part
        sums += np.asarray(one, np.float64).reshape(-1).astype(np.int64)
    return sums


def weighted_sums(
    residual: Floats,
    weights: Floats,
    factor: float,
    x: Matrix,
    squares: Floats,
    unit: float,
    limit: float,
) -> tuple[Ints, Ints]:
    """Return the charged square of each row, and the sum of all rows, k ⊗ x.

    k is residual · weight · factor, rounded towards 0; the charged square is |k|² · squares · unit,
    rounded up. A row for which this is NORM_LIMIT or more is charged NORM_LIMIT, and contributes
    nothing.

    Args:
        residual: (outputs, rows).
        weights, squares: (rows,).
        x, limit: See `exact_sums`.
    """
    if len(residual) == 1 and by_loop(x):
        return _weighted_compiled(residual[0], weights, factor, x, squares, unit)
    k = residual * weights
    k *= factor
    np.trunc(k, out=k)
    with np.errstate(over="ignore"):
        charged = k[0] * k[0] if len(k) == 1 else (k * k).sum(axis=0)
        charged *= squares
        charged *= unit
    if not charged.max(initial=0.0) < NORM_LIMIT:
        k[:, ~(charged < NORM_LIMIT)] = 0.0
    return saturate(charged), exact_sums(k, x, limit)


def _weighted_compiled(
    residual: Floats, weights: Floats, factor: float, x: Matrix, squares: Floats, unit: float
) -> tuple[Ints, Ints]:
    """`weighted_sums` by the compiled loops, for one output: the same integers."""
    loops, lock = compiled().dense, Lock()
    k, charged = np.empty(len(weights)), np.empty(len(weights), np.int64)
    sums = np.zeros(x.shape[1], np.int64)

    def part(p: slice) -> None:
        loops.weigh(
            residual[p], weights[p], factor, squares[p], unit, float(NORM_LIMIT), k[p], charged[p]
        )
        some = np.zeros_like(sums)
        loops.sums(x[p], k[p], some)
        with lock:
            np.add(sums, some, out=sums)

    halves(len(weights), part, _SHARED // x.shape[1])
    return charged, sums


def clipped_sums(
    x: Matrix,
    y: Floats,
    lengths: Floats,
    squares: Floats,
    limits: Floats,
    params: Floats,
    param_unit: float,
    logistic: bool,
    huge: float,
    factor: float,
    unit: float,
) -> tuple[Ints, Ints]:
    """Return `weighted_sums`, with residuals and weights computed in the same pass over the rows.

    The loops are the ones for the separate steps (and `accountant.weights`), on a few rows at a
    time: the integers are the same.

    Args:
        x: Rows for which `by_loop` is true.
        y, lengths, squares: Of the rows, as in a `RecordBatch`.
        limits: Limits of the rows' norms: one per row, or a single one.
        params, param_unit: Parameters of one output, as for `dots`, and their unit.
        logistic: True if means are the predictors' sigmoids, False for the predictors themselves.
        huge: A row with this norm or a larger one contributes nothing.
        factor, unit: See `weighted_sums`.
    """
    loop, lock, own = compiled().dense.clip, Lock(), len(limits) > 1
    charged, sums = np.empty(len(y), np.int64), np.zeros(x.shape[1], np.int64)

    def part(p: slice) -> None:
        some = np.zeros_like(sums)
        loop(
            x[p],
            y[p],
            lengths[p],
            squares[p],
            limits[p] if own else limits,
            params,
            param_unit,
            logistic,
            huge,
            factor,
            unit,
            float(NORM_LIMIT),
            charged[p],
            some,
        )
        with lock:
            np.add(sums, some, out=sums)

    halves(len(y), part, _SHARED // x.shape[1])
    return charged, sums


def by_loop(x: Matrix) -> bool:
    """Return True if the compiled loops do the work for these rows."""
    return not sparse.issparse(x) and worthwhile(x.size)
