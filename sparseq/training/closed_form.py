"""Gradients of generalised linear models in closed form, exactly summed.

A record's gradient is r ⊗ (x, 1), where r is mean minus target at the record's linear predictors,
and its norm |r| · |(x, 1)|: no gradient is ever written out. A user with several records has one
gradient, their sum (the user's loss is the sum of the records' losses).

**Why the sum is exact**, and a user's part of it depends on nobody else (points 1 and 2 of
`sparseq.training.protocol`). Features are integers, in steps. Parameters, which are public, are
rounded to integers with so few bits that |x| · |params| summed over a row stays below 2**53: linear
predictors are then exact sums of integers, in whatever order BLAS adds them up, and so do not
depend on the place of the row. Residuals are computed from them one by one. The weighted residual
is rounded towards 0 to an integer k, and the user's vector is *defined* as k ⊗ x, in steps of (the
lattice's step / feature step) · feature step: products of integers again, which BLAS adds up
exactly while the sum of |k| · |x| over its rows stays below 2**53. Rows are split until it does,
and parts are added up as int64. (The compiled loop splits by 64: a user whose squared norm is
NORM_LIMIT or more contributes nothing, so that no coordinate of the others' vectors exceeds 2**47.)
It does all of this in one pass over the rows if it can: see `ClosedForm.clipped`.

For a user with several records, the residuals are rounded to integers in units of the user's own
largest residual, the user's sum is exact for the same reason, and its weighted coordinates are
rounded towards 0. The squares of such sums exceed 2**53, so that adding them up rounds: that is
done in an order which depends on the user's own vector only (`exact_sums.fixed_row_squares`).
Otherwise one user's charge could change by a unit when another user leaves, and with it whether the
store has room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from sparseq.compiled.logistic import sigmoid
from sparseq.engine.reduction import NORM_LIMIT, Index, Ints
from sparseq.question.plan import DENSE_NORM_STEPS
from sparseq.training.exact_sums import (
    Matrix,
    by_loop,
    clipped_sums,
    dots,
    exact_sums,
    fixed_row_squares,
    weighted_sums,
)
from sparseq.training.identity import code_of
from sparseq.training.model_families import ModelFamily, identity
from sparseq.training.protocol import Floats, Pull, WeightedSum, saturate
from sparseq.training.records import RecordBatch, Records, records

_SQUARED_UNIT = 1 / DENSE_NORM_STEPS**2  # in squared lattice steps
_HUGE = 2.0**500  # larger gradients are treated as not finite


class ClosedForm:
    """An engine for linear, logistic, softmax and Poisson regression.

    Args:
        family: The model.
        users, features, target, bound: See `records`.

    Example:
        >>> from sparseq.training.model_families import family
        >>> x, y = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([0.0, 1.0])
        >>> engine = ClosedForm(family("logistic"), np.arange(2), x, y, bound=1.0)
        >>> (batch,) = engine.batches()
        >>> norms, pull = engine.query(np.zeros(3), batch)
        >>> norms.round(6).tolist()
        [0.75, 0.707107]
        >>> (pull(np.ones(2), 2.0**-30).sums * 2.0**-30).tolist()
        [0.5, -0.25, 0.0]
    """

    def __init__(
        self, family: ModelFamily, users: Any, features: Any, target: Any, *, bound: float
    ) -> None:
        self.family = family
        self.records: Records = records(
            users, features, target, bound=bound, valid=family.valid, expand=family.expand
        )

    @property
    def coordinates(self) -> int:
        """outputs · (features + 1): weights and intercept, one output after another."""
        return self.family.outputs * self.records.width

    def facts(self) -> dict[str, str]:
        """Return the public facts that a run depends on besides the data (see `Identity`)."""
        family, lattice = self.family, self.records
        return {
            "model": f"{family.name} of {family.outputs} outputs",
            "features": f"{lattice.width - 1}, in [-{lattice.bound:g}, {lattice.bound:g}]",
            "code": code_of(family.inverse_link, family.valid, family.expand, family.loss),
        }

    def batches(self) -> Iterable[RecordBatch]:
        """Return all records."""
        return self.records.all

    def of(self, users: Index) -> Iterable[RecordBatch]:
        """Return the records of some users (ascending)."""
        parts = (batch.only(users) for batch in self.records.all)
        return (part for part in parts if len(part.users))

    def query(self, params: Floats, batch: RecordBatch) -> tuple[Floats, Pull]:
        """Return norms and the pull: see the protocol."""
        residual = self.family.residual(self.predictors(params, batch), batch.y)
        if batch.counts is not None:
            residual *= batch.counts
        if batch.runs is not None:
            return _several_each(residual, batch, self.records)
        return _one_each(residual, batch, self.records)

    def clipped(
        self, params: Floats, batch: RecordBatch, limits: Floats | float, step: float
    ) -> WeightedSum | None:
        """Return the sum in one pass, if the compiled loops can do it: see the protocol.

        A record that does not count is all 0, and so is its norm, whatever its residual.
        """
        link = self.family.inverse_link
        known = link in (identity, sigmoid) and self.family.outputs == 1
        if not known or batch.runs is not None or not by_loop(batch.x):
            return None
        integers, unit = self._round(params)
        return WeightedSum(
            *clipped_sums(
                batch.x,
                batch.y[0],
                batch.lengths,
                batch.squares,
                np.atleast_1d(limits),
                integers[0],
                unit * self.records.step,
                link is sigmoid,
                _HUGE,
                self.records.step / step,
                _SQUARED_UNIT * _upwards(1),
            )
        )

    def right(self, params: Floats, batch: RecordBatch) -> Floats:
        """Return which share of each user's records the model classifies as they are.

        Raises:
            ParameterError: The model does not classify.
        """
        right = self.family.correct(self.predictors(params, batch), batch.y)
        return _mean(right.astype(np.float64), batch)

    def losses(self, params: Floats, batch: RecordBatch) -> Floats:
        """Return each user's loss, the mean of its records'; it may be infinite or NaN."""
        with np.errstate(all="ignore"):
            return _mean(self.family.loss(self.predictors(params, batch), batch.y), batch)

    def predictors(self, params: Floats, batch: RecordBatch) -> Floats:
        """Return linear predictors (outputs, rows): exact, at rounded parameters."""
        integers, unit = self._round(params)
        exact = dots(batch.x, integers)
        exact *= unit * self.records.step
        return exact

    def _round(self, params: Floats) -> tuple[Floats, float]:
        """Return parameters (outputs, width) as integers, and their unit."""
        matrix = np.asarray(params, np.float64).reshape(self.family.outputs, -1)
        room = math.ldexp(1.0, 52) / (self.records.limit * self.records.width)
        bits = math.frexp(room)[1] - 1
        unit = math.ldexp(1.0, math.frexp(float(np.abs(matrix).max(initial=0.0)))[1] - bits)
        return np.rint(matrix / unit), unit


def _mean(values: Floats, batch: RecordBatch) -> Floats:
    """Return each user's mean over its records; those that count for nothing are 0 in it."""
    counted = values if batch.counts is None else np.where(batch.counts, values, 0.0)
    if batch.runs is None:
        return counted
    lengths = batch.runs.stop - batch.runs.first
    whose = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(whose, counted, minlength=len(lengths)) / lengths  # in the rows' order


def _one_each(residual: Floats, batch: RecordBatch, records: Records) -> tuple[Floats, Pull]:
    """Users with one record: the norm is |r| |x|, the sum is k @ x, k rounded towards 0."""
    outputs = len(residual)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.abs(residual[0]) if outputs == 1 else np.sqrt((residual**2).sum(axis=0))
        norms *= batch.lengths
    if not norms.max(initial=0.0) < _HUGE:
        bad = ~(norms < _HUGE)  # left out before anything is weighted
        norms[bad], residual[:, bad] = 0.0, 0.0

    def pull(weights: Floats, step: float) -> WeightedSum:
        return WeightedSum(
            *weighted_sums(
                residual,
                weights,
                records.step / step,
                batch.x,
                batch.squares,
                _SQUARED_UNIT * _upwards(outputs),
                records.limit,
            )
        )

    return norms, pull


def _upwards(terms: int) -> float:
    """Return what outweighs the roundings of a sum of `terms` squares, and of its scaling."""
    return 1 + (terms + 8) * 2.0**-52


def _several_each(residual: Floats, batch: RecordBatch, records: Records) -> tuple[Floats, Pull]:
    """Users with several records: their sums are explicit integers, in each user's unit."""
    assert batch.runs is not None
    first, lengths = batch.runs.first, batch.runs.stop - batch.runs.first
    residual[~np.isfinite(residual)] = 0.0
    largest = np.maximum.reduceat(np.abs(residual).max(axis=0), first)
    room = 2.0**52 / (records.limit * lengths)
    shift = np.minimum(np.frexp(room)[1] - 1, 30) - np.frexp(largest)[1]
    integers = np.rint(np.ldexp(residual, np.repeat(shift, lengths)))
    whose = np.concatenate([first, batch.runs.stop[-1:]])
    gradients = [_by_user(k, whose, batch.x) for k in integers]
    upwards = _upwards(len(residual) * records.width)
    with np.errstate(over="ignore"):
        norms = np.sqrt(_row_norms(gradients)) * upwards
        norms = np.ldexp(norms * records.step, -shift)
    bad = ~(norms < _HUGE)
    norms[bad] = 0.0

    def pull(weights: Floats, step: float) -> WeightedSum:
        factor = np.ldexp(np.where(bad | (norms == 0), 0.0, weights), -shift)
        factor *= records.step / step
        weighted = [_scale(g, factor) for g in gradients]
        squares = _row_norms(weighted) * (_SQUARED_UNIT * upwards)
        over = ~(squares < NORM_LIMIT)
        if over.any():
            weighted = [_scale(g, (~over).astype(np.float64)) for g in weighted]
        ones = np.ones((1, len(norms)))
        limit = 2.0**48  # a bound for vectors below NORM_LIMIT
        return WeightedSum(
            saturate(squares), np.concatenate([exact_sums(ones, g, limit) for g in weighted])
        )

    return norms, pull


def _by_user(k: Floats, whose: Ints, x: Matrix) -> Matrix:
    """Return the sum of k · x over each user's rows: exact, as all are integers below 2**53."""
    shape = (len(whose) - 1, len(k))
    return sparse.csr_array((k, np.arange(len(k)), whose), shape=shape) @ x


def _row_norms(parts: list[Matrix]) -> Floats:
    """Return the sum of squares of each row of all parts together, one part after the other."""
    return np.asarray(sum(fixed_row_squares(part) for part in parts), np.float64)


def _scale(gradients: Matrix, factors: Floats) -> Matrix:
    """Return each row times its factor, rounded towards 0."""
    if sparse.issparse(gradients):
        scaled = sparse.csr_array(gradients, copy=True)
        scaled.data = np.trunc(scaled.data * np.repeat(factors, np.diff(scaled.indptr)))
        return scaled
    return np.trunc(gradients * factors[:, None])
