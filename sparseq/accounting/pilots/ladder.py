"""The ladder of norms that pilots count people on."""

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
    """Public.

    Attributes:
        edges: e_k, ascending; cell k reaches from e_(k-1) to e_k.
        cap: The last cell that anybody can be in.
        bounded: Because of a declared maximum or by the type of the question, not by the ladder.
    """

    edges: Floats
    cap: int
    bounded: bool


def ladder(most: float, least_allowance: float) -> Ladder:
    """Return the ladder of r/a for norms up to `most` (infinite: nothing is known).

    Whoever has faded lies up to 1/a_min higher. The last edge is cut down to the greatest value of
    r/a that anybody can have: the same number where people are put into cells and in the cut.

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
