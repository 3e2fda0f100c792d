"""The best choice in hindsight: the best fixed C of each question; and worst-case composition.

Both know every truth: C (a clip of everybody's norm) is the best for the error of that question.
The first pays from accounts as the store does; the second gives each of `worst` questions the same
share of the budget, like systems without accounts per person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from benchmarks.truth.judge import Floats, Judged, judged
from benchmarks.truth.questions import Question
from sparseq.stream.full_weight import tau_for

KAPPA, FINEST, BETA = 0.5, 0.01, 0.05


@dataclass(frozen=True)
class Clipped:
    """A question's sums, people's norms clipped to C."""

    scale: float
    weights: Floats
    sums: Floats
    risk: float


def best_fixed(
    questions: Sequence[Question], people: int, budget: float, seed: int, worst: int = 0
) -> list[Judged]:
    """Answer questions with the best C each.

    Args:
        questions: The questions; those that are not linear are left out.
        people: Number of people.
        budget: norm_budget.
        seed: Seed of the noise.
        worst: 0, or the number of questions that share the budget in worst-case composition.
    """
    noise = np.random.default_rng([seed, 98 + worst])
    left, out = np.full(people, budget), []
    sigma_0 = float(np.sqrt((worst or budget) / (2 * KAPPA)))
    for question in questions:
        if not question.linear:
            continue
        a = np.ones(people)
        if not worst:
            a = np.sqrt(np.clip(left / tau_for(budget), 0.0, 1.0))
        best = min(_clipped(question, a, sigma_0, bool(worst)), key=lambda c: c.risk)
        spent = best.weights * _joint(question).norms / best.scale
        left = left - spent * spent
        out.append(_answer(question, best, sigma_0, noise))
    return out


@dataclass(frozen=True)
class _Joint:
    norms: Floats
    values: Floats
    sums: Floats
    finer: float


def _joint(question: Question) -> _Joint:
    """Return the matrix in one unit: of an average, both sums about as large."""
    m = question.matrix
    if not question.average:
        return _Joint(m.norms, m.values, m.sums, 1.0)
    groups = len(question.groups)
    finer = float(np.abs(m.sums[:groups]).sum() / max(np.abs(m.sums[groups:]).sum(), 1e-12))
    factor = np.where(m.cells < groups, 1.0, finer)
    values = m.values * factor
    norms = np.sqrt(np.bincount(m.people, values * values, len(m.norms)))
    sums = np.bincount(m.cells, values, m.coordinates).astype(float)
    return _Joint(norms, values, sums, finer)


def _clipped(q: Question, a: Floats, sigma_0: float, worst: bool) -> Iterator[Clipped]:
    """Yield every C that may be the best."""
    m, joint = q.matrix, _joint(q)
    size = float(np.linalg.norm(joint.sums))
    finest = 0.0 if worst else FINEST * size / np.sqrt(m.coordinates) / sigma_0
    greatest = float(joint.norms.max(initial=0.0)) / max(float(a.min()), 1e-3)
    grid = 2.0 ** np.arange(-12, 17, 0.5)
    for scale in np.unique(np.maximum(grid, max(finest, 1e-9))):
        w = np.divide(scale * a, joint.norms, out=np.ones(len(a)), where=joint.norms > 0)
        w = np.minimum(1.0, w)
        sums = np.bincount(m.cells, joint.values * w[m.people], m.coordinates).astype(float)
        yield Clipped(float(scale), w, sums, _risk(q, joint, sums, scale * sigma_0))
        if scale > greatest:
            return


def _risk(q: Question, joint: _Joint, sums: Floats, sigma: float) -> float:
    """Return the expected squared error of the answer."""
    if not q.average:
        return float(len(sums) * sigma**2 + ((sums - joint.sums) ** 2).sum())
    rows, total = np.split(sums, 2)
    rows = np.maximum(rows, 1e-9)
    ratio, true = total / rows, joint.sums[len(rows) :] / joint.sums[: len(rows)]
    return float(((ratio - true) ** 2 + sigma**2 * (1 + ratio**2) / rows**2).sum())


def _answer(q: Question, best: Clipped, sigma_0: float, noise: np.random.Generator) -> Judged:
    """Return the noised answer, with the interval of an analyst who knows the cut part."""
    joint, sigma = _joint(q), best.scale * sigma_0
    z = -float(ndtri(BETA / 4 / len(best.sums)))
    noised = best.sums + noise.normal(0.0, sigma, len(best.sums))
    half = z * sigma + float(np.abs(best.sums - joint.sums).max())
    if not q.average:
        found = noised * q.unit, (noised - half) * q.unit, (noised + half) * q.unit
        return judged(q.kind, q.truth, found, "fixed", best.scale * q.unit)
    rows, total = np.split(noised, 2)
    unit = q.unit / joint.finer
    value = np.clip(total / np.maximum(rows, 1e-9), 0.0, joint.finer)
    reach = half * (1 + value) / np.maximum(rows - half, 1e-9)
    low, high = np.maximum(value - reach, 0.0), np.minimum(value + reach, joint.finer)
    return judged(q.kind, q.truth, (value * unit, low * unit, high * unit), "fixed", best.scale)
