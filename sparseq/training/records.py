"""Records on a lattice: features as integers, so that all their sums are exact.

A feature x in [-bound, bound] is stored as the integer rint(x / step), step being a power of two
with 2**`FEATURE_BITS` steps to the bound (or a little less), and the intercept's 1 is a power of
two of these steps: float32 holds both. Floats hold them, so that their products and sums are
exact in float64 while all sums stay below 2**53 in absolute value, whatever the order, the blocking
or the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from sparseq.base.errors import DataError, ParameterError
from sparseq.engine.contribution_tables import as_arrow
from sparseq.engine.reduction import Index, Runs
from sparseq.training.exact_sums import STORED, Matrix, row_squares
from sparseq.training.protocol import Floats

FEATURE_BITS = 18
BOUNDS = (2.0**-8, 2.0**FEATURE_BITS)
"""Range of `bound`: the intercept's 1 is then 1 to 2**26 steps, and |x|² below 2**53."""
MAX_WIDTH = 1 << 16
"""Largest number of features of a record: |x|² is then below 2**53."""
_BATCH_ROWS = 1 << 16
_BATCH_CELLS = 1 << 22  # of explicit gradients, for users with several records


@dataclass(frozen=True)
class RecordBatch:
    """All records of some users: either one record each, or several.

    Attributes:
        users: int32, ascending.
        x: Integers held as floats, in feature steps; a record that does not count is all 0. The
            last column is the intercept's.
        y: Targets (outputs, rows).
        counts: Mask of the records that count; None: all.
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
        """Return the records of those users that are among `users` (ascending)."""
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
    """The records of all users, in batches.

    Attributes:
        bound: The given bound of the features.
        step: Feature step, a power of two.
        width: Number of columns of x, including the intercept's.
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
        bound: Public: features lie in [-bound, bound]; others are moved to the edge. A record with
            a feature that is NaN does not count.
        valid, expand: Functions of the model, see `ModelFamily`.

    Raises:
        DataError: The arrays have different lengths, or a column holds no numbers.
        ParameterError: bound is out of its range, or there are too many features.
    """
    if not BOUNDS[0] <= bound <= BOUNDS[1]:
        raise ParameterError(
            f"bound is {bound!r}; it must be in [{BOUNDS[0]:g}, {BOUNDS[1]:g}]",
            "scale the features, to ± 1 for example, and give their bound",
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
    x = _with_zero_rows(x, ~counts)
    y = expand(np.where(counts, target, 0.0))
    parts = tuple(_batches(runs, x, y, counts, step))
    limit = max(math.ceil(bound / step), 1 / step)
    return Records(bound, step, x.shape[1], float(limit), parts)


def _matrix(features: Any) -> Any:
    """Return features as an array or a sparse matrix; a missing value is NaN."""
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
    """Return a column as float64; a missing value is NaN.

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
    """Return integers with the intercept's column, and a mask of the finite rows."""
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


def _with_zero_rows(x: Matrix, rows: NDArray[np.bool_]) -> Matrix:
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
