"""Records on a lattice: features as integers, so that every sum of theirs is exact.

A feature x in [-bound, bound] is stored as the integer rint(x / step), step being a power of two
with 2**`FEATURE_BITS` steps to the bound (or a little less), and the intercept's 1 is a power of
two of them: float32 holds both. They are held as floats, so that products and sums of theirs are
exact in float64 while everything that is added up stays below 2**53 in absolute value, whatever the
order, the blocking or the machine.

Sums of products of integers held as floats: exact in whatever order they are added up.

Float64 holds the integers up to 2**53, and adds and multiplies them exactly as long as no result
is beyond. Features are integers that float32 holds as well; so that
is how rows are kept where the compiled loops are there to read them, and each row is then half as
long. Two versions, one meaning, as everywhere: BLAS, and a compiled loop for large inputs.

Work on a set of people that goes on despite those for whom it fails.

Whether a model fails is a fact about records: a class or a word that it does not have, a branch
of its code. So no failure may reach an analyst, and none may wipe what the others contribute (an
answer about nobody tells as much as an error). The set is halved, with the same work, until those
are found for whom it fails alone; only they count for nothing, and the curator is told. A set for
which it fails though it succeeds for both halves is the sum of its halves. Everybody else is
worked on at the same place of a batch of the same shape, so that what comes out for them is what
comes out when nobody fails (`sparseq.training.network.engine` says why).

The module has no idea what the work is: it is tested without one.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from sparseq.base.errors import DataError, ParameterError
from sparseq.compiled import compiled, halves, worthwhile
from sparseq.engine.contributions import NORM_LIMIT, Index, Ints, Runs, as_arrow
from sparseq.training.protocol import Floats, saturate

# -- sums of products of integers held as floats: exact in whatever order they are added up --------

Matrix = Any
"""Integers (rows, features): NDArray[float64 or float32], or a scipy CSR array of float64."""

STORED: Any = np.float32 if importlib.util.find_spec("numba") else np.float64
"""The type in which rows of integers are kept."""

_EXACT = 2.0**53
_BLOCK = 1 << 12  # rows made float64 at a time
_FOLDED = 1 << 15  # cells squared at a time
_SHARED = 1 << 20  # cells from which a second thread pays


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


@np.errstate(over="ignore")  # infinite is dearer than any budget, and nothing to warn of
def fixed_row_squares(x: Matrix) -> Floats:
    """Return |x|² of each row, by float additions in an order that the row alone decides.

    For rows whose squares go beyond 2**53, where additions round: the order is then part of the
    result. Sparse rows are added up by ascending column, one entry after the other (`bincount`
    takes its input in order). Dense rows are folded, the last half onto the first, so that the
    order is that of the width. No row's number depends on what other rows hold, on how many there
    are, on memory layout or on whether a matrix happens to be sorted.

    Example:
        >>> fixed_row_squares(np.array([[3.0, 4.0], [2.0**30, 1.0]])).tolist()
        [25.0, 1.152921504606847e+18]
    """
    if sparse.issparse(x):
        sorted_ = sparse.csr_array(x, copy=True)
        sorted_.sum_duplicates()  # by ascending column too
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
        limit: Of |x|. Where one row's |k| · limit is beyond 2**53, its products are not.

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
    """Return what each row is charged for, and the sum of all rows, k ⊗ x.

    k is residual · weight · factor, rounded towards 0; what is charged for is |k|² · squares ·
    unit, rounded up. A row for which this is NORM_LIMIT or more is charged that, and counts for
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
    """Return `weighted_sums` of residuals and weights made on the way, in one pass over the rows.

    The loops are those that make them one after the other (and `accountant.weights`), on a few
    rows at a time: the integers are the same.

    Args:
        x: For which `by_loop` is true.
        y, lengths, squares: Of the rows, as a `RecordBatch` has them.
        limits: Of the rows' norms: one a row, or a single one.
        params, param_unit: As `dots` takes them, of one output; and what their unit stands for.
        logistic: Whether means are the predictors' sigmoids, or the predictors themselves.
        huge: A norm that is not below counts for nothing.
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
    """Tell whether the compiled loops do the work for these rows."""
    return not sparse.issparse(x) and worthwhile(x.size)


# -- records on a lattice: features as integers, so that every sum of theirs is exact --------------

FEATURE_BITS = 18
BOUNDS = (2.0**-8, 2.0**FEATURE_BITS)
"""Of what `bound` can be: the intercept's 1 is then 1 to 2**26 steps, and |x|² below 2**53."""
MAX_WIDTH = 1 << 16
"""Features a record has at most: |x|² is then below 2**53."""
_BATCH_ROWS = 1 << 16
_BATCH_CELLS = 1 << 22  # of gradients that have to be written out: users with several records


@dataclass(frozen=True)
class RecordBatch:
    """All records of some users: either one record each, or several.

    Attributes:
        users: int32, ascending.
        x: Integers held as floats, in feature steps; a record that counts for nothing is all 0. The
            last column is the intercept's.
        y: Targets (outputs, rows).
        counts: Which records count; None: all.
        squares: float64 (rows,), |x|², exact.
        lengths: float64 (rows,), |x| in the features' unit, rounded up.
        runs: The rows of each user; None: row i is user i's only one.
    """

    users: Index
    x: Matrix
    y: Floats
    counts: NDArray[np.bool_] | None
    squares: Floats
    lengths: Floats
    runs: Runs | None

    def only(self, users: Index) -> RecordBatch:
        """Return the records of those who are among `users` (ascending)."""
        place = np.flatnonzero(np.isin(self.users, users, assume_unique=True))
        if self.runs is None:
            rows, runs = place, None
        else:
            some = self.runs.only(self.users[place])
            rows, lengths = some.row_numbers(), some.stop - some.first
            stops = np.cumsum(lengths)
            runs = Runs(some.owners, stops - lengths, stops)
        return RecordBatch(
            self.users[place],
            self.x[rows],
            np.ascontiguousarray(self.y[:, rows]),
            None if self.counts is None else self.counts[rows],
            self.squares[rows],
            self.lengths[rows],
            runs,
        )


@dataclass(frozen=True)
class Records:
    """Everybody's records, in batches.

    Attributes:
        bound: Of the features, as it was given.
        step: Feature step, a power of two.
        width: Columns of x, the intercept's included.
        limit: No |x| in feature steps is larger.
        all: The batches.
    """

    bound: float
    step: float
    width: int
    limit: float
    all: tuple[RecordBatch, ...]


def records(
    users: NDArray[Any],
    features: Any,
    target: NDArray[Any],
    *,
    bound: float,
    valid: Any = np.isfinite,
    expand: Any = lambda y: np.asarray(y, np.float64)[None, :],
) -> Records:
    """Put records on the lattice.

    Args:
        users: The store's index of each record's user.
        features: (records, features): an array, a scipy sparse matrix, or columns of numbers as an
            Arrow table, record batch, or stream of batches (Polars and pandas frames too).
        target: (records,).
        bound: Public: features lie in [-bound, bound]; what does not is moved to the edge. A
            feature that is NaN makes its record count for nothing.
        valid, expand: Of the model, see `ModelFamily`.

    Raises:
        DataError: The arrays are not of one length, or a column holds no numbers.
        ParameterError: bound is out of its range, or there are too many features.
    """
    if not BOUNDS[0] <= bound <= BOUNDS[1]:
        raise ParameterError(
            f"bound is {bound!r}; it must be in [{BOUNDS[0]:g}, {BOUNDS[1]:g}]",
            "scale the features, to ± 1 for example, and say what they lie within",
        )
    users, target, features = np.asarray(users), _numbers(target), _matrix(features)
    if not len(users) == features.shape[0] == len(target):
        raise DataError(
            f"{len(users)} users, {features.shape[0]} rows of features, {len(target)} targets",
            "give one of each for every record",
        )
    if features.shape[1] >= MAX_WIDTH:
        raise ParameterError(
            f"there are {features.shape[1]:,} features", f"{MAX_WIDTH - 1:,} at most"
        )
    step = math.ldexp(1.0, math.ceil(math.log2(bound)) - FEATURE_BITS)
    order = np.argsort(users, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        users, features, target = users[order], features[order], target[order]
    runs = Runs.of(users.astype(np.int32))
    counts = np.asarray(valid(target), np.bool_)
    x, finite = _on_lattice(features, bound, step)
    counts &= finite
    x = _without(x, ~counts)
    y = expand(np.where(counts, target, 0.0))
    parts = tuple(_batches(runs, x, y, counts, step))
    limit = max(math.ceil(bound / step), 1 / step)
    return Records(bound, step, x.shape[1], float(limit), parts)


def _matrix(features: Any) -> Any:
    """Return features as an array or a sparse matrix; what is missing is NaN."""
    if sparse.issparse(features):
        return features
    if any(hasattr(features, f"__arrow_c_{kind}__") for kind in ("stream", "array")):
        table = as_arrow(features)
        columns = [_numbers(table[name], name) for name in table.column_names]
        return np.column_stack([np.zeros((table.num_rows, 0)), *columns])
    numeric = isinstance(features, np.ndarray) and features.dtype.kind in "biuf"
    matrix = features if numeric else _numbers(features, "a feature")
    if matrix.ndim != 2:
        raise DataError(
            f"features have shape {matrix.shape}", "(records, features): one row a record"
        )
    return matrix


def _numbers(values: Any, name: str = "the target") -> Floats:
    """Return a column as float64; what is missing is NaN.

    Raises:
        DataError: It holds no numbers.
    """
    try:
        if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
            chunks = pa.chunked_array(values)
            values = chunks.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, pa.ArrowException):
        raise DataError(
            f"{name} holds no numbers", "encode it first: a number, or 0 and 1 for each key"
        ) from None


def _on_lattice(features: Any, bound: float, step: float) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return integers with the intercept's column, and which rows are finite."""
    rows = features.shape[0]
    if sparse.issparse(features):
        x = sparse.csr_array(features, dtype=np.float64, copy=True)
        x.sum_duplicates()
        bad = np.zeros(rows, np.bool_)
        bad[np.repeat(np.arange(rows), np.diff(x.indptr))[np.isnan(x.data)]] = True
        x.data = np.rint(
            np.clip(np.nan_to_num(x.data, posinf=bound, neginf=-bound), -bound, bound) / step
        )
        ones = sparse.csr_array(np.full((rows, 1), 1 / step))
        return sparse.csr_array(sparse.hstack([x, ones], format="csr")), ~bad
    dense = np.empty((rows, features.shape[1] + 1))
    dense[:, :-1] = features
    dense[:, -1] = 1.0
    finite: NDArray[np.bool_] = np.logical_not(np.isnan(dense).any(axis=1))
    dense[~finite] = 0.0
    np.clip(dense[:, :-1], -bound, bound, out=dense[:, :-1])
    dense /= step
    return np.rint(dense, out=dense).astype(STORED, copy=False), finite


def _without(x: Matrix, rows: NDArray[np.bool_]) -> Matrix:
    """Return x with some rows all 0."""
    if not rows.any():
        return x
    if sparse.issparse(x):
        return sparse.csr_array(sparse.diags_array((~rows).astype(np.float64)) @ x)
    x[rows] = 0.0
    return x


def _batches(
    runs: Runs, x: Matrix, y: Floats, counts: NDArray[np.bool_], step: float
) -> Iterator[RecordBatch]:
    """Yield users with one record in large batches, and the others in small ones."""
    single = runs.stop - runs.first == 1
    for one_each in (True, False):
        chosen = np.flatnonzero(single == one_each)
        for part in _parts(runs, chosen, x.shape[1] * len(y), one_each):
            some = runs.only(runs.owners[part])
            rows: Any = some.row_numbers()
            if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
                rows = slice(int(rows[0]), int(rows[-1]) + 1)  # a view
            own = x[rows]
            lengths = some.stop - some.first
            stops = np.cumsum(lengths)
            squares = row_squares(own)
            yield RecordBatch(
                some.owners,
                own,
                np.ascontiguousarray(y[:, rows]),
                None if counts[rows].all() else counts[rows],
                squares,
                np.sqrt(squares) * (step * (1 + 2.0**-50)),
                None if one_each else Runs(some.owners, stops - lengths, stops),
            )


def _parts(
    runs: Runs, chosen: NDArray[np.intp], cells: int, one_each: bool
) -> Iterable[NDArray[np.intp]]:
    if len(chosen) == 0:
        return
    size = _BATCH_ROWS if one_each else max(_BATCH_CELLS // cells, 1)
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]


# -- work on a set of people that goes on despite those for whom it fails --------------------------

T = TypeVar("T")
Rows = NDArray[np.int64]
"""(places, records): which records a place has; -1 where there is none."""


@dataclass(frozen=True)
class PartialResult(Generic[T]):
    """Results of parts of the work, and the places where it failed.

    Attributes:
        parts: Results whose sum is that of everybody who can be worked on.
        failed: Places that fail alone.
    """

    parts: list[T]
    failed: NDArray[np.intp]


def despite_failures(work: Callable[[Rows], T], rows: Rows) -> PartialResult[T]:
    """Do the work for a set of places, or for as large parts of it as it succeeds for.

    Args:
        work: Of rows, to a result that is a sum over places. Whatever exception it raises is a
            failure.
        rows: Of the places; they stay as they are.

    Example:
        >>> def work(rows):
        ...     return [5, 7, 9][rows.max()]
        >>> done = despite_failures(work, np.array([[0], [1], [8]]))
        >>> done.parts, done.failed.tolist()
        ([7], [2])
    """
    try:
        return PartialResult([work(rows)], np.zeros(0, np.intp))
    except Exception:
        pass
    places = np.flatnonzero((rows >= 0).any(axis=1))
    if len(places) < 2:
        return PartialResult([], places)
    halves = [despite_failures(work, _only(rows, half)) for half in np.array_split(places, 2)]
    failed = np.concatenate([half.failed for half in halves])
    rest = np.setdiff1d(places, failed)
    if len(failed) and len(rest):  # as if those had never been there
        try:
            return PartialResult([work(_only(rows, rest))], failed)
        except Exception:
            pass
    return PartialResult([part for half in halves for part in half.parts], failed)


def _only(rows: Rows, places: NDArray[np.intp]) -> Rows:
    """Return rows in which other places have no records."""
    some = np.full_like(rows, -1)
    some[places] = rows[places]
    return some
