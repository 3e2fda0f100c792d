"""Generalised linear models whose gradients have a closed form: (residual) ⊗ (x, 1).

All functions work element by element on arrays (outputs, records), so that the result for a record
does not depend on the other records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sparseq.base.errors import ParameterError
from sparseq.compiled.logistic import sigmoid
from sparseq.training.protocol import Floats


@dataclass(frozen=True)
class ModelFamily:
    """A generalised linear model.

    Attributes:
        name: Name on the command line.
        outputs: Linear predictors per record: 1, or one per class.
        inverse_link: From linear predictors to the mean of the target; may overwrite its argument.
        valid: Function that returns True for targets that fit the model.
        expand: Targets as (outputs, records).
        loss: Loss of each record, from predictors and targets.
    """

    name: str
    outputs: int
    inverse_link: Callable[[Floats], Floats]
    valid: Callable[[Floats], NDArray[np.bool_]]
    expand: Callable[[Floats], Floats]
    loss: Callable[[Floats, Floats], Floats]

    def residual(self, predictors: Floats, targets: Floats) -> Floats:
        """Return the loss's derivative by each linear predictor: mean minus target."""
        with np.errstate(over="ignore", invalid="ignore"):
            residual = self.inverse_link(predictors)
            residual -= targets
        return residual

    def correct(self, predictors: Floats, targets: Floats) -> NDArray[np.bool_]:
        """Return True for each record that the model classifies correctly.

        Raises:
            ParameterError: The model does not classify.
        """
        if self.name == "logistic":
            return np.asarray((predictors[0] > 0) == (targets[0] > 0.5))
        if self.name == "softmax":
            return np.asarray(np.argmax(predictors, axis=0) == np.argmax(targets, axis=0))
        raise ParameterError(f"a {self.name} model has no accuracy", "it predicts numbers")


def family(name: str, classes: int = 2) -> ModelFamily:
    """Return the model of that name; `classes` is for softmax.

    Raises:
        ParameterError: There is no model of that name, or there are too few classes.

    Example:
        >>> logistic = family("logistic")
        >>> logistic.residual(np.array([[0.0, 0.0]]), np.array([[0.0, 1.0]])).tolist()
        [[0.5, -0.5]]
    """
    if name == "logistic":
        return ModelFamily(name, 1, sigmoid, lambda y: (y == 0) | (y == 1), _row, _logistic_loss)
    if name == "linear":
        return ModelFamily(
            name, 1, identity, np.isfinite, _row, lambda z, y: (z[0] - y[0]) ** 2 / 2
        )
    if name == "poisson":
        return ModelFamily(
            name,
            1,
            lambda z: np.exp(z, out=z),
            lambda y: (y >= 0) & np.isfinite(y),
            _row,
            _poisson_loss,
        )
    if name == "softmax":
        if classes < 2:
            raise ParameterError(f"classes is {classes}; softmax chooses among 2 or more")
        known = np.arange(classes, dtype=np.float64)
        return ModelFamily(
            name,
            classes,
            _softmax,
            lambda y: np.isin(y, known),
            lambda y: (y == known[:, None]).astype(np.float64),
            _softmax_loss,
        )
    raise ParameterError(f"there is no model {name!r}", "logistic, linear, softmax or poisson")


def identity(z: Floats) -> Floats:
    """Return z: the mean of a linear model."""
    return z


def _row(y: Floats) -> Floats:
    return np.asarray(y, np.float64)[None, :]


def _logistic_loss(z: Floats, y: Floats) -> Floats:
    return np.asarray(np.logaddexp(0.0, np.where(y[0] > 0.5, -z[0], z[0])))


def _poisson_loss(z: Floats, y: Floats) -> Floats:
    """Return half the deviance: at least 0, and 0 if the mean is the target."""
    return np.asarray(np.exp(z[0]) - y[0] * z[0] + special.xlogy(y[0], y[0]) - y[0])


def _exponentials(z: Floats) -> tuple[Floats, Floats]:
    """Return exp(z - max) and its sum over the outputs, one output after another."""
    largest = z.max(axis=0)
    powers = np.exp(z - largest)
    total = powers[0].copy()
    for one in powers[1:]:
        total += one
    return powers, total


def _softmax(z: Floats) -> Floats:
    powers, total = _exponentials(z)
    powers /= total
    return powers


def _softmax_loss(z: Floats, y: Floats) -> Floats:
    _, total = _exponentials(z)
    return np.asarray(np.log(total) + z.max(axis=0) - (z * y).sum(axis=0))
