"""The ladder of norms on which pilots count users."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CELLS = 32
"""Edges 1, 2, 4, … in the joint unit of a question."""


@dataclass(frozen=True)
class Ladder:
    """The public ladder of a question.

    Attributes:
        edges: e_k, ascending; cell k reaches from e_(k-1) to e_k.
        cap: The last cell that can contain people.
        bounded: True if norms are bounded by a declared maximum or the type of the question, not by
            the ladder.
    """

    edges: Floats
    cap: int
    bounded: bool


def ladder(most: float, least_allowance: float) -> Ladder:
    """Return the ladder of r/a for norms up to `most` (infinite: nothing is known).

    A faded person lies up to 1/a_min higher. The last edge is reduced to the greatest possible
    value of r/a: the same number is used for the cells and for the cut.

    Example:
        >>> found = ladder(most=5.0, least_allowance=1.0)
        >>> found.cap, found.edges[:5].tolist()
        (3, [1.0, 2.0, 4.0, 5.0, 16.0])
    """
    edges = np.ldexp(1.0, np.arange(CELLS)).astype(np.float64)
    if math.isinf(most):
        return Ladder(edges, CELLS - 1, False)
    greatest = most / least_allowance
    cap = min(CELLS - 1, max(0, math.ceil(math.log2(greatest) - 1e-9)))
    edges[cap] = min(edges[cap], greatest)
    return Ladder(edges, cap, cap < CELLS - 1 or greatest <= 2.0 ** (CELLS - 1))
