"""A question's measures in one joint unit: public, from the query and what was declared.

One weight serves measures that are made together, so their norms are measured together: r_i² is
the sum over measures of (‖q_m‖ / u_m)², with u_m the size of the joint unit in the measure's own. A
unit is one row where rows are counted; that of values about a centre is about their spread, that of
a sum a part of the greatest value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price, sigma_for_scale
from sparseq.accounting._numbers import in_range
from sparseq.accounting.pilots import CELLS
from sparseq.sql.plan import Kind, Measure, Noise, Options, Plan, Query, no_public_scale
from sparseq.stream.release_charges import finer_steps

SUM_STEPS = 17
"""2**17 lattice steps to the greatest value of a sum: 16,384 such rows of a person in one cell."""
BELOW = 10
"""The ladder of a sum alone begins 2**10 below its greatest value."""
_SUM_BITS = 38  # of one person in the sums: 33 million such people fit into 63 bits
_NOISE_BITS = 43  # of sigma in lattice steps, what the sampler takes
LEAST_PRICE = 2.0**-10
"""Of an answer; the most is what lets all parts of a question fit into what people have left."""
_VALUES = (2.0**-300, 2.0**300)  # of a sum's greatest value


@dataclass(frozen=True)
class JointMeasure:
    """One measure of a question.

    Attributes:
        measure: Which.
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
        most: The greatest norm that anybody can have, in joint units; infinite if unknown.
        by_type: It is bounded by the type of the question.
        declared: It is bounded by what was declared.
        scale: C in joint units, if it is given.
        most_scale: The greatest C: beyond, the noise of the least price is not one of the sampler.
            So no answer is refused for what its pilots released.
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
        """Of every measure's lattice step."""
        return [part.exponent for part in self.parts]

    @property
    def signed(self) -> NDArray[np.bool_]:
        """Tell which coordinates may be negative."""
        sizes = [self.query.groups * part.measure.bins for part in self.parts]
        return np.repeat([part.signed for part in self.parts], sizes)

    @property
    def reach(self) -> int:
        """The cell that a person with one row can be in."""
        rows = [_row(part) for part in self.parts if part.measure.kind is Kind.SUM]
        known = [one for one in rows if 1 < one < math.inf]
        return math.ceil(math.log2(max(known)) - 1e-9) if known else 0

    @property
    def cells(self) -> int:
        """Coordinates of the largest measure."""
        return self.query.groups * max(part.measure.bins for part in self.parts)

    def before(self, beta: float) -> Plan:
        """Return the plan of what everybody contributes, before any noise is known."""
        noise = tuple(Noise(1.0, part.step, 1.0, part.step, _FREE) for part in self.parts)
        return Plan(self.query, noise, beta)

    def after(self, scale: float, price: float, budget: Budget, beta: float) -> Plan:
        """Return the plan of the weighted answer: its noise, and its finer lattice."""
        noise = tuple(_noise(part, scale, price, budget) for part in self.parts)
        return Plan(self.query, noise, beta)

    def shifts(self, plan: Plan) -> tuple[int, ...]:
        """Return by how many bits the answer's lattice is finer, one a measure."""
        return tuple(
            round(math.log2(part.step / noise.granularity))
            for part, noise in zip(self.parts, plan.noise, strict=True)
        )

    def prices(self, plan: Plan) -> list[tuple[Price, int]]:
        """Return the price of each measure, and by how many bits norms are priced more finely."""
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
        """Return joint values by measure, in its own unit, (groups, bins) each."""
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
        options: A caller's scale, or sigma, stands in where nothing public bounds a sum.
        budget: The store's.
        rows: The most that a person has in a stored table, if that was declared.
        units: By place of a sum, the power of two that is its joint unit; by default its greatest
            value, or a part of it where it is alone.

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
    """Return a caller's C in joint units; it is of the sums, or else of the counts."""
    if options.scale is None:
        return None
    sums = [part for part in parts if part.measure.kind is Kind.SUM]
    rows = [part for part in parts if part.measure.kind is Kind.ROWS]
    return min(options.scale / (sums or rows or parts)[0].unit, 2.0 ** (CELLS - 1), most)


def _noise(part: JointMeasure, scale: float, price: float, budget: Budget) -> Noise:
    """Return the noise C · sigma_0 / sqrt(p) of a measure, and the lattice of its weighted sums."""
    own = scale * part.unit
    sigma = sigma_for_scale(own / math.sqrt(price), budget)
    steps = own / part.step
    bits = min(
        _SUM_BITS - math.ceil(math.log2(steps)),
        _NOISE_BITS - math.ceil(math.log2(sigma / part.step)),
    )
    granularity = math.ldexp(part.step, -max(bits, 0))
    norm_step = math.ldexp(part.step, -finer_steps(steps))
    return Noise(sigma, granularity, own, norm_step, Price.of(sigma, norm_step, budget))


_FREE = Price.of(1.0, 1.0, Budget(0.5, 1.0))  # of a lattice without noise: nothing is priced by it
