"""Lipschitz analyses: questions that are not sums, charged by one user's largest effect on them.

See docs/theorems/lipschitz.md.

**Statement** (Feldman & Zrnic 2021, Example 2.7). Let g(x_1, …, x_n) be L_i-Lipschitz in x_i, in
the Euclidean norm, and let an absent user count as the origin. Then g(q(X_1), …, q(X_n)) +
N(0, sigma² I) is L_i² ||q(X_i)||² / (2 sigma²)-zCDP for user i (add/remove one user). So Algorithm
2 applies: user i is active while the charges L_i² ||q(X_i)||² fit; the others are put at the
origin, and g is evaluated on the rest.

**One user's effect.** The charge is the distance between the *released lattice points* with and
without the user. Each q(X_i) is put on a lattice of step h, exactly. g is evaluated to within
`analysis.error`, whatever the data, and rounded to the answer's lattice of step g, which moves each
coordinate by at most g/2. With d' coordinates the points differ by at most

    L_i h sqrt(S_i) + e,    S_i = ||q(X_i)||² / h²,    e = g sqrt(d') + 2 error,

and also by at most reach_i + e, if the analysis proves that nobody moves g further than that. The
charge is the square of the smaller bound, in integers, rounded up. A user with S_i = 0 is not
evaluated at all: the answer is then the same to the last bit, and the charge is 0. Exact Gaussian
noise is added to the integers, so the stream stays kappa-zCDP and mu-GDP (`sparseq.store.store`).

`WeightedMean` is exact; `SmoothedMedian` is another example. Your own analysis is a class with the
members of `Analysis`, and a proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range
from sparseq.answers.answer import Answer
from sparseq.base.errors import QueryRefused
from sparseq.engine.contribution_tables import as_arrow, triplet_query
from sparseq.engine.reduction import Ints
from sparseq.papers.lipschitz import Analysis, lipschitz_contributions
from sparseq.question.plan import Options
from sparseq.store.store import Store

Floats = NDArray[np.float64]

MAX_WEIGHT = 2**20


@dataclass(frozen=True)
class WeightedMean:
    """sum_i w_i x_i / total, with public weights.

    L_i = w_i / total: the mean moves by (w_i / total) (x_i - x_i'). All arithmetic is exact.

    Args:
        dimension: d.
        total: Assumed sum of the weights of all users, a public whole number. A wrong one scales
            the answer, and never costs privacy.
        weights: Whole numbers, 1 to 2^20, by user; 1 for a user not in it. Public: they must not
            depend on the data.

    Example:
        >>> mean = WeightedMean(1, total=10, weights={"a": 3})
        >>> mean.lipschitz(3), mean.evaluate(np.array([[4], [8]]), 0.5, np.array([3, 1]))
        (Fraction(3, 10), [Fraction(1, 1)])
    """

    dimension: int
    total: int
    weights: Mapping[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count("dimension", self.dimension, 1, 2**20)
        count("total", self.total, 1, 2**53)
        for user, weight in self.weights.items():
            count(f"the weight of {user!r}", weight, 1, MAX_WEIGHT)

    @property
    def inputs(self) -> int:
        return self.dimension

    @property
    def outputs(self) -> int:
        return self.dimension

    @property
    def error(self) -> Fraction:
        return Fraction(0)

    def lipschitz(self, weight: int) -> Fraction:
        return Fraction(weight, self.total)

    def reach(self, weight: int) -> None:
        return None

    def evaluate(self, vectors: Ints, step: float, weights: Ints) -> list[Fraction]:
        unit = Fraction(step) / self.total
        sums = [0] * self.dimension
        for start in range(0, len(vectors), 2048):  # 2^11 cells below 2^31, times 2^20: below 2^62
            part = slice(start, start + 2048)
            block = (vectors[part] * weights[part, None]).sum(axis=0)
            sums = [a + b for a, b in zip(sums, block.tolist(), strict=True)]
        return [unit * s for s in sums]


@dataclass(frozen=True)
class SmoothedMedian:
    """A geometric median: a few distant users hardly move it, however distant they are.

        g(x) = argmin_v  pull/2 ||v||² + (1/population) sum_i r(x_i) f(v - x_i),
        f(u) = sqrt(||u||² + smoothing²),    r(x) = min(1, ||x||/near).

    f is the distance, smoothed; r lets users near the origin count less, and users at the origin
    not at all; the pull makes the minimum unique and stable, and draws it towards the origin.

    **L = (1/near + 1/smoothing) / (population pull).** Proof. The objective is pull-strongly
    convex; F(v; x), its gradient, has (F(v; x) - F(v'; x))·(v - v') >= pull ||v - v'||². With v, v'
    the minima for x and for x' that differs in user i, F(v; x) = F(v'; x') = 0, so that pull ||v -
    v'|| <= ||F(v'; x) - F(v'; x')||. That is 1/population times the change of r(x_i) f'(v' - x_i),
    where ||f'|| < 1 and f' is 1/smoothing-Lipschitz, r <= 1 and r is 1/near-Lipschitz.

    **reach = 1 / (population pull)**: for x_i' = 0, r(x_i') = 0, and only ||r f'|| < 1 is lost.

    **error = 2^-16 reach.** By the same inequality ||v - g|| <= ||F(v)||/pull for every v. The
    solver stops only when the *computed* ||F(v)|| plus its own rounding, (d + 20) 2^-53 (sum_i r_i
    / population + pull ||v||), is no more than 2^-16 / population: sums are exactly rounded
    (`math.fsum`), each term has a relative error of (d + 12) roundings at most.

    Args:
        dimension: d, 1 to 48.
        population: A public whole number, the approximate number of users.
        near, smoothing, pull: Positive, public; near and smoothing in the vectors' unit, pull in
            its inverse. A tenth of the vectors' spread, and its inverse, are a good start.

    Example:
        >>> median = SmoothedMedian(1, population=4, near=0.1, smoothing=0.1, pull=0.01)
        >>> at = median.evaluate(np.array([[10], [11], [12], [10**6]]), 1.0, np.ones(4, np.int64))
        >>> round(float(at[0]), 1)
        11.1
    """

    dimension: int
    population: int
    near: float
    smoothing: float
    pull: float

    def __post_init__(self) -> None:
        count("dimension", self.dimension, 1, 48)
        count("population", self.population, 1, 2**31)
        for name in ("near", "smoothing", "pull"):
            in_range(name, getattr(self, name), 2.0**-40, 2.0**40)

    @property
    def inputs(self) -> int:
        return self.dimension

    @property
    def outputs(self) -> int:
        return self.dimension

    @property
    def weights(self) -> Mapping[Any, int]:
        return {}

    @property
    def error(self) -> Fraction:
        return self.reach(1) / 2**16

    def lipschitz(self, weight: int) -> Fraction:
        return self.reach(weight) * (1 / Fraction(self.near) + 1 / Fraction(self.smoothing))

    def reach(self, weight: int) -> Fraction:
        return weight / (self.population * Fraction(self.pull))

    def evaluate(self, vectors: Ints, step: float, weights: Ints) -> list[Fraction]:
        x: Floats = np.asarray(vectors * step, np.float64)
        counts = np.minimum(1.0, np.sqrt((x * x).sum(axis=1)) / self.near)
        v: Floats = np.zeros(self.dimension)
        best = math.inf
        for _ in range(1000):
            size, newton, descent = self._look(x, counts, v)
            if size <= 2.0**-16 / self.population:
                return [Fraction(c) for c in v.tolist()]
            v -= newton if size < best / 2 else descent
            best = min(best, size)
        raise QueryRefused(
            "the median could not be found to its precision; nothing was charged",
            "take a larger smoothing or pull",
        )

    def _look(self, x: Floats, counts: Floats, v: Floats) -> tuple[float, Floats, Floats]:
        """Return ||F(v)|| with its rounding, and two steps: Newton's, and a safe one.

        The safe one leads to the minimum of a quadratic above the objective (Weiszfeld).
        """
        away = v - x
        f = np.sqrt((away * away).sum(axis=1) + self.smoothing**2)
        terms = away * (counts / f)[:, None]
        sums = np.array([math.fsum(column) for column in terms.T.tolist()])
        force = self.pull * v + sums / self.population
        share = math.fsum(counts.tolist()) / self.population
        length = math.hypot(*force.tolist())
        rounding = share + self.pull * math.hypot(*v.tolist())
        size = length + (self.dimension + 20) * 2.0**-53 * rounding
        curve = self.pull + float((counts / f).sum()) / self.population
        bend = (away * (counts / f**3)[:, None]).T @ away / self.population
        newton = np.linalg.solve(curve * np.eye(self.dimension) - bend, force)
        return size, newton, force / curve


def ask_lipschitz(
    store: Store,
    contributions: Any,
    analysis: Analysis,
    *,
    label: str,
    scale: float = 1.0,
    sigma: float | None = None,
    accuracy: float | None = None,
    confidence: float | None = None,
    request_id: str | None = None,
) -> Answer:
    """Answer g(q(X_1), …, q(X_n)), one step of the store's stream (see the module).

    Args:
        store: Store with the users, budgets and journal.
        contributions: Arrow table (or an object that converts to one) of user, coordinate, value:
            q(X_i) by rows, each computed from its own user's data and public facts alone.
        analysis: g, and its proven bounds.
        label: Public text of the question.
        scale: Norm of a full q(X_i), public; the noise is L · scale · sigma_0, or reach · sigma_0
            if that is less.
        sigma, accuracy, confidence, request_id: See `Store.sql`; in the unit of the answer.

    Raises:
        DataError: The table does not fit, or a user has no account.
        ParameterError: A number is out of its range.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, {"t": pa.table({"who": [7, 8]})}, user="who", seed=1)
        >>> rows = pa.table({"user": [7, 8], "coordinate": [0, 0], "value": [1.0, 3.0]})
        >>> mean = WeightedMean(1, total=2)
        >>> ask_lipschitz(con, rows, mean, label="mean", scale=3.0).arrow().column_names
        ['coordinate', 'value', 'value_error']
    """
    scale = in_range("scale", scale, 2.0**-100, 2.0**100)
    heaviest = max([1, *analysis.weights.values()])
    constant, reach = analysis.lipschitz(heaviest), analysis.reach(heaviest)
    full = constant * Fraction(scale) if reach is None else min(constant * Fraction(scale), reach)
    query = triplet_query(analysis.outputs, label, float(full))
    return store.step(
        query,
        lambda plan: lipschitz_contributions(
            store.backend, as_arrow(contributions), analysis, plan
        ),
        Options(sigma, accuracy, confidence=confidence),
        request_id,
    )
