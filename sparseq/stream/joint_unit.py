"""A question's measures in one joint unit: public, from the query and declared facts.

Measures that are released together share one weight, so their norms are combined: r_i² is the sum
over measures of (‖q_m‖ / u_m)², with u_m the size of the joint unit in the measure's own unit. The
unit is one row for counts of rows, about the spread for centred values, and a fraction of the
greatest value for other sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price, sigma_for_price
from sparseq.accounting._numbers import in_range
from sparseq.accounting.pilots import CELLS
from sparseq.question.plan import Kind, Measure, Noise, Options, Plan, Query, no_public_scale
from sparseq.stream.user_weights import finer_steps

SUM_STEPS = 17
"""2**17 lattice steps per greatest value of a sum: 16,384 such rows of a user in one cell."""
BELOW = 10
"""The ladder of a sum alone begins 2**10 below its greatest value."""
_SUM_BITS = 38  # of one user in the sums: 33 million such users fit into 63 bits
_NOISE_BITS = 43  # of sigma in lattice steps, the limit of the sampler
LEAST_PRICE = 2.0**-10
"""The least price of an answer; at the highest, all parts of a question fit into every account."""
_VALUES = (2.0**-300, 2.0**300)  # range of a sum's greatest value


@dataclass(frozen=True)
class JointMeasure:
    """One measure of a question.

    Attributes:
        measure: The measure.
        step: Its lattice step, in its own unit, a power of two.
        exponent: The step is 2**exponent joint units.
    """

    measure: Measure
    step: float
    exponent: int

    @property
    def unit(self) -> float:
        """The joint unit in the measure's own."""
        return math.ldexp(self.step, -self.exponent)

    @property
    def signed(self) -> bool:
        """It may have negative values."""
        bounds = self.measure.bounds
        return self.measure.kind is Kind.SUM and (bounds is None or bounds[0] < 0)


@dataclass(frozen=True)
class Joint:
    """A question in its joint unit.

    Attributes:
        query: The question.
        parts: Its measures.
        most: The greatest norm that a user can have, in joint units; infinite if unknown.
        by_type: The type of the question bounds the norm.
        declared: Declared facts bound the norm.
        scale: C in joint units, if it is given.
        most_scale: The greatest C for which the sampler can draw the noise of the least price. This
            limit ensures that no answer is refused because of its pilots' releases.
    """

    query: Query
    parts: tuple[JointMeasure, ...]
    most: float
    by_type: bool
    declared: bool
    scale: float | None
    most_scale: float

    @property
    def exponents(self) -> list[int]:
        """The exponent of every measure's lattice step."""
        return [part.exponent for part in self.parts]

    @property
    def signed(self) -> NDArray[np.bool_]:
        """A mask of the coordinates that may be negative."""
        sizes = [self.query.groups * part.measure.bins for part in self.parts]
        return np.repeat([part.signed for part in self.parts], sizes)

    @property
    def reach(self) -> int:
        """The highest cell that a user with one row can be in."""
        rows = [_row(part) for part in self.parts if part.measure.kind is Kind.SUM]
        known = [one for one in rows if 1 < one < math.inf]
        return math.ceil(math.log2(max(known)) - 1e-9) if known else 0

    @property
    def cells(self) -> int:
        """The number of coordinates of the largest measure."""
        return self.query.groups * max(part.measure.bins for part in self.parts)

    def before(self, beta: float) -> Plan:
        """Return the plan for the users' contributions, before the noise is chosen."""
        noise = tuple(Noise(1.0, part.step, 1.0, part.step, _FREE) for part in self.parts)
        return Plan(self.query, noise, beta)

    def after(self, scale: float, price: float, budget: Budget, beta: float) -> Plan:
        """Return the plan of the weighted answer: its noise, and its finer lattice."""
        many = len(self.parts)
        noise = tuple(_noise(part, scale, price, many, budget) for part in self.parts)
        return Plan(self.query, noise, beta)

    def shifts(self, plan: Plan) -> tuple[int, ...]:
        """Return the number of bits by which the answer's lattice is finer, one per measure."""
        return tuple(
            round(math.log2(part.step / noise.granularity))
            for part, noise in zip(self.parts, plan.noise, strict=True)
        )

    def prices(self, plan: Plan) -> list[tuple[Price, int]]:
        """Return the price of each measure, and the number of extra bits of its priced norms."""
        return [
            (noise.price, round(math.log2(part.step / noise.norm_step)))
            for part, noise in zip(self.parts, plan.noise, strict=True)
        ]

    def answer(self, plan: Plan, released: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Return released lattice integers in joint units, all coordinates in a row."""
        return np.concatenate(
            [
                total * (noise.granularity / part.unit)
                for total, noise, part in zip(released, plan.noise, self.parts, strict=True)
            ]
        )

    def in_units(self, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return joint values by measure, each in its own unit, with shape (groups, bins)."""
        sizes = [self.query.groups * part.measure.bins for part in self.parts]
        pieces = np.split(values, np.cumsum(sizes)[:-1])
        return [
            np.reshape(piece * part.unit, (-1, part.measure.bins))
            for piece, part in zip(pieces, self.parts, strict=True)
        ]


def joint(
    query: Query,
    options: Options,
    budget: Budget,
    rows: int | None = None,
    units: Mapping[int, int] = MappingProxyType({}),
) -> Joint:
    """Return a question in its joint unit.

    Args:
        query: The question.
        options: A caller's scale or sigma replaces the bound of a sum that has no public bound.
        budget: The store's budget.
        rows: The declared maximum of rows per user in a stored table, if any.
        units: By place of a sum, the power of two that is its joint unit; by default its greatest
            value, or a fraction of that if all measures are sums.

    Raises:
        QueryRefused: A sum has no public scale.
    """
    alone = all(m.kind is Kind.SUM for m in query.measures)
    below = BELOW if alone else 0
    parts = tuple(
        _part(m, options, budget, below, units.get(i)) for i, m in enumerate(query.measures)
    )
    counted = {m.kind for m in query.measures}
    plain = counted <= {Kind.USERS, Kind.ROWS} and not any(m.role for m in query.measures)
    once = query.single and plain
    by_type = once or counted == {Kind.USERS}
    declared = rows is not None and bool(query.relation.stored)
    cells = len(query.measures) if once else query.coordinates
    most = math.sqrt(cells) if by_type else math.inf
    if declared and rows is not None:
        most = min(most, rows * math.hypot(*(_row(part) for part in parts)))
    steps = 2.0 ** (_NOISE_BITS - 1) * math.sqrt(LEAST_PRICE) / budget.sigma_0
    top = steps * min(part.step / part.unit for part in parts)
    return Joint(
        query,
        parts,
        most,
        by_type,
        declared and math.isfinite(most),
        _scale(parts, options, top),
        top,
    )


def _part(
    m: Measure, options: Options, budget: Budget, below: int, unit: int | None
) -> JointMeasure:
    if m.kind is not Kind.SUM:
        return JointMeasure(m, 1.0, 0)
    most = m.scale or options.scale
    if most is None and options.sigma is not None:
        most = options.sigma / budget.sigma_0
    if most is None:
        raise no_public_scale(m)
    exponent = math.ceil(math.log2(in_range(f"the scale of {m.label}", most, *_VALUES)))
    step = exponent - SUM_STEPS
    return JointMeasure(
        m, math.ldexp(1.0, step), step - (exponent - below if unit is None else unit)
    )


def _row(part: JointMeasure) -> float:
    """Return the most that one row adds, in joint units."""
    if part.measure.kind is not Kind.SUM:
        return 1.0
    return math.inf if part.measure.bounds is None else (part.measure.scale or 0.0) / part.unit


def _scale(parts: Sequence[JointMeasure], options: Options, most: float) -> float | None:
    """Return a caller's C in joint units; it applies to the sums, or without sums to the counts."""
    if options.scale is None:
        return None
    sums = [part for part in parts if part.measure.kind is Kind.SUM]
    rows = [part for part in parts if part.measure.kind is Kind.ROWS]
    return min(options.scale / (sums or rows or parts)[0].unit, 2.0 ** (CELLS - 1), most)


def _noise(part: JointMeasure, scale: float, price: float, measures: int, budget: Budget) -> Noise:
    """Return the noise C · sigma_0 / sqrt(p) of a measure, and the lattice of its weighted sums."""
    own = scale * part.unit
    sigma = sigma_for_price(own, price, measures, budget)
    steps = own / part.step
    bits = min(
        _SUM_BITS - math.ceil(math.log2(steps)),
        _NOISE_BITS - math.ceil(math.log2(sigma / part.step)),
    )
    granularity = math.ldexp(part.step, -max(bits, 0))
    norm_step = math.ldexp(part.step, -finer_steps(steps))
    return Noise(sigma, granularity, own, norm_step, Price.of(sigma, norm_step, budget))


_FREE = Price.of(1.0, 1.0, Budget(0.5, 1.0))  # for a lattice without noise: it prices nothing
