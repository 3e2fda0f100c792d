"""The effect of each user on a Lipschitz analysis, in integers; and the analysis's answer.

See docs/theorems/lipschitz.md.

`sparseq.papers.analyses` has the statement, the proof and the analyses; this module is their
interface to a plan: contributions whose norms are the effects, and whose sum depends on the set of
active users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import NORM_LIMIT, Index, Ints, Reduction, Runs, quantise, reduce
from sparseq.question.plan import Plan
from sparseq.store.backend import Backend

_FINE = 40  # constants are rounded up to multiples of 2^-40 lattice steps


class Analysis(Protocol):
    """A function g of all users' vectors, with its proven bounds.

    Attributes:
        inputs: d, the length of a user's vector.
        outputs: d', the length of the answer.
        weights: Public whole numbers, 1 to 2^20, by user; 1 for a user not in it.
        error: Bound on ||computed g - g||, whatever the data: public.
    """

    @property
    def inputs(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    @property
    def weights(self) -> Mapping[Any, int]: ...

    @property
    def error(self) -> Fraction: ...

    def lipschitz(self, weight: int) -> Fraction:
        """Return L_i for a user of this weight."""
        ...

    def reach(self, weight: int) -> Fraction | None:
        """Return the most that such a user can move g by leaving; None: no such bound."""
        ...

    def evaluate(self, vectors: Ints, step: float, weights: Ints) -> list[Fraction]:
        """Return g of the vectors (n, d), in units of step, none of them the origin."""
        ...


class SetFunction(Contributions):
    """Contributions whose sum depends on the active users: `pull` evaluates g without some."""

    def without(self, dropped: Index) -> list[Ints]:
        """Return g over all users except `dropped`, on the answer's lattice."""
        return self.pull(dropped)


def lipschitz_contributions(
    backend: Backend, table: pa.Table, analysis: Analysis, plan: Plan
) -> SetFunction:
    """Return each user's largest effect on the answer, and the answer by active users."""
    granularity = Fraction(plan.noise[0].granularity)
    heaviest = max([1, *analysis.weights.values()])
    step = _power_of_two_below(granularity / analysis.lipschitz(heaviest))
    users, coordinates, values = backend.triplets(table, analysis.inputs)
    order = np.argsort(users, kind="stable")
    users, coordinates = users[order], coordinates[order]
    cells = quantise(values[order], step)
    reduced = reduce(Runs.of(users), coordinates, cells, analysis.inputs, distinct=False)
    touched = reduced.norms > 0
    owners, norms = reduced.users[touched], reduced.norms[touched]
    vectors = _dense(owners, users, coordinates, cells, analysis.inputs)
    weights = _weights_of(backend, owners, analysis.weights)
    move = mover(analysis, step, granularity)
    moves = [move(s, w) for s, w in zip(norms.tolist(), weights.tolist(), strict=True)]

    def evaluate(dropped: Index) -> list[Ints]:
        stay = ~np.isin(owners, dropped)
        found = analysis.evaluate(vectors[stay], step, weights[stay])
        return [np.array([round(y / granularity) for y in found], np.int64)]

    nothing = np.zeros(analysis.outputs, np.int64)
    return SetFunction([Reduction(owners, np.array(moves, np.int64), nothing)], evaluate)


def mover(analysis: Analysis, step: float, granularity: Fraction) -> Callable[[int, int], int]:
    """Return (S, weight) -> the squared lattice steps by which such a user may move the answer.

    That is ceil((A sqrt(S) + e)²), or ceil((reach + e)²) if that is less, in steps of the answer's
    lattice; A, e and reach are rounded up to multiples of 2^-40 first. Saturated S: reach, or 2^62.
    """
    slack = _fine(2 * analysis.error / granularity) + _root_up(analysis.outputs << 2 * _FINE)

    @cache
    def constants(weight: int) -> tuple[int, int, int]:
        """Return the constants of (A sqrt(S) + e)² = A² S + e² + sqrt(4 A² e² S), and its limit."""
        slope = _fine(analysis.lipschitz(weight) * Fraction(step) / granularity)
        most = NORM_LIMIT << 2 * _FINE
        reach = analysis.reach(weight)
        if reach is not None:
            far = _fine(reach / granularity) + slack
            most = min(most, far * far)
        return slope * slope, 4 * slope * slope * slack * slack, most

    def move(norm: int, weight: int) -> int:
        square, cross, most = constants(weight)
        if norm < NORM_LIMIT:
            most = min(most, square * norm + slack * slack + _root_up(cross * norm))
        return -(-most >> 2 * _FINE)

    return move


def _fine(x: Fraction) -> int:
    return math.ceil(x * (1 << _FINE))


def _root_up(x: int) -> int:
    root = math.isqrt(x)
    return root if root * root == x else root + 1


def _power_of_two_below(x: Fraction) -> float:
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return math.ldexp(1.0, exponent if Fraction(2) ** exponent <= x else exponent - 1)


def _dense(owners: Index, users: Index, coordinates: Index, cells: Index, size: int) -> Ints:
    """Return the vectors of `owners` (ascending), one per row, exact."""
    vectors = np.zeros((len(owners), size), np.int64)
    mine = np.isin(users, owners)
    place = np.searchsorted(owners, users[mine])
    np.add.at(vectors, (place, coordinates[mine]), cells[mine].astype(np.int64))
    return vectors


def _weights_of(backend: Backend, owners: Index, weights: Mapping[Any, int]) -> Ints:
    """Return the weight of each of `owners`; weights of users without an account are ignored."""
    found = np.ones(len(owners), np.int64)
    if not weights or not len(owners):
        return found
    users = backend.numbers_of(pa.array(list(weights)))
    place = np.searchsorted(owners, users)
    here = (place < len(owners)) & (owners[np.minimum(place, len(owners) - 1)] == users)
    found[place[here]] = np.array(list(weights.values()))[here]
    return found
