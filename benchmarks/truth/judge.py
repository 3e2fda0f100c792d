"""How good answers are: error, coverage, width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """One answer and the truth.

    Attributes:
        kind: Kind of the question.
        error: |answer - truth| / |truth|, over all values.
        inside: True if all intervals of the answer hold the truth.
        half: Mean half-width over the root mean square of the true values.
        cell: Median of half-width / true value, over the values that are not 0.
        marked: Share of values whose half-width exceeds the value.
        interval: Basis of the interval.
        scale: C.
    """

    kind: str
    error: float
    inside: bool
    half: float
    cell: float
    marked: float
    interval: str
    scale: float


def judged(
    kind: str,
    truth: Floats,
    found: tuple[Floats, Floats, Floats],
    interval: str = "",
    scale: float = 0.0,
) -> Judged:
    """Judge one answer.

    Args:
        kind: Of the question.
        truth: By group.
        found: Value, low and high, by group.
        interval, scale: As shown.

    Example:
        >>> j = judged("rows", np.array([100.0]), (np.array([99.0]), np.array([95.0]),
        ...                                        np.array([105.0])))
        >>> j.error, j.inside, j.half, j.marked
        (0.01, True, 0.05, 0.0)
    """
    value, low, high = found
    size = float(np.linalg.norm(truth)) or 1.0
    half, slack = (high - low) / 2, 1e-9 * size
    some = truth != 0
    cells = half[some] / np.abs(truth[some]) if some.any() else half / size
    return Judged(
        kind=kind,
        error=float(np.linalg.norm(value - truth)) / size,
        inside=bool(((low - slack <= truth) & (truth <= high + slack)).all()),
        half=float(half.mean()) / (size / len(truth) ** 0.5),
        cell=float(np.median(cells)),
        marked=float((half > np.abs(value)).mean()),
        interval=interval,
        scale=scale,
    )


@dataclass(frozen=True)
class Summary:
    """Of many answers; all are parts of one.

    Attributes:
        answers: How many.
        error, error_90, half, cell: Medians, and the 90th percentile of the error.
        inside: Answers that hold the truth.
        some_marked, all_marked: Answers with a marked value, and with no other.
    """

    answers: int
    error: float
    error_90: float
    inside: float
    half: float
    cell: float
    some_marked: float
    all_marked: float


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a median: of those of 400 samples with replacement (Efron 1979).

    Example:
        >>> round(standard_error([1.0, 2.0, 3.0, 4.0] * 25), 1)
        0.5
    """
    draw = np.random.default_rng(0)
    some = draw.choice(np.asarray(values, float), (400, len(values)))
    return float(np.median(some, axis=1).std())


def summary(answers: Sequence[Judged]) -> Summary:
    """Summarise judged answers."""
    errors = np.array([a.error for a in answers])
    return Summary(
        answers=len(answers),
        error=float(np.median(errors)),
        error_90=float(np.quantile(errors, 0.9)),
        inside=float(np.mean([a.inside for a in answers])),
        half=float(np.median([a.half for a in answers])),
        cell=float(np.median([a.cell for a in answers])),
        some_marked=float(np.mean([a.marked > 0 for a in answers])),
        all_marked=float(np.mean([a.marked == 1 for a in answers])),
    )
