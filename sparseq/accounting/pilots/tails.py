"""Bounds on the fading of a table's users, and on the mass that a scale cuts from them.

u_i = sqrt(least / left_i) never grows for any user, so a tail that was measured once bounds the
mass that every later question about the table's users lacks (docs/theorems/pilots.md, facts 1 to
3). The bounds use no model and no assumption about which users a question selects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sparseq.accounting.pilots.ladder import Floats

_SELECT = 2.0
"""Standard deviations added to an estimate when bounds are compared."""
_STANDS_OUT = 2.5
_ABOVE = 1.1
"""1/a of the additional edge, as a multiple of 1/a of a user who was in no question yet."""
_APART = 1.02, 1.1
"""Least factors between this edge and its neighbours above and below; else there is no edge."""


@dataclass(frozen=True)
class CutBound:
    """An upper bound on the mass missing from a count of users, with its standard deviation.

    Example:
        >>> CutBound().some, CutBound(120.0, 40.0).some
        (False, True)
    """

    most: float = 0.0
    sd: float = 0.0

    @property
    def some(self) -> bool:
        """The scale may cut some users."""
        return self.most > 0 or self.sd > 0


NOTHING_CUT = CutBound()


@dataclass(frozen=True)
class NearTail:
    """The tail above the additional edge, which is closely above users who were in no question.

    Attributes:
        place: u at the edge.
        most: Upper bound on the users whose u is larger: those between this edge and the next
            power of 2 count in part.
        sd: Standard deviation of the bound.
    """

    place: float
    most: float
    sd: float


@dataclass(frozen=True)
class Tails:
    """Released bounds on the number of users of a table by their fading.

    Attributes:
        bounds: By j, (A_j, s_j): an upper bound on the users whose u is about 2**-j or larger, and
            its standard deviation. The last counts all users.
        near: The tail above the additional edge of the last measurement, if it had one.
        weight: Mean weight of a user at the last measurement; None: unknown.
        clock, epoch: The clock and the epoch of the course at that time.

    Example:
        >>> tails = NO_TAILS.measured([1.0, 2.0, 4.0], [500.0, 30.0, 4.0], 7.0)
        >>> tails.due(7.9), tails.due(8.0)
        (False, True)
        >>> [round(x, 1) for x in tails.scales(4.0, 1.0)]
        [4.0, 2.0, 1.0]
        >>> tails.cut(1.0), tails.cut(0.5)
        (CutBound(most=0.0, sd=0.0), CutBound(most=8.0, sd=14.0))
    """

    bounds: tuple[tuple[float, float], ...] = ()
    near: NearTail | None = None
    weight: float | None = None
    clock: float = 0.0
    epoch: int = 0

    def due(self, most: float) -> bool:
        """Tell whether a measurement is due: 1/a_min = `most` has passed the next power of 2."""
        return most >= 2.0 ** max(len(self.bounds), 1)

    def measured(
        self,
        edges: Sequence[float],
        people: Sequence[float],
        sd: float,
        clock: float = 0.0,
        epoch: int = 0,
    ) -> Tails:
        """Return the tails after another pilot of the table's users.

        Args:
            edges: The edges of `tail_edges`.
            people: Noised users on the edges, weighted by their allowances.
            sd: Standard deviation of each.
            clock, epoch: The clock and the epoch of the course.
        """
        at = np.array(edges)[::-1]
        weighted = np.array(people)[::-1]
        total, spread = float(weighted @ at), sd * float(np.linalg.norm(at))
        weight = None
        if total > _STANDS_OUT * spread:
            weight = min(max(float(weighted.sum()) / total, 0.0), 1.0)
        octaves, seen, errors = _on_powers(at, weighted, sd)
        number, noise = seen * octaves, errors * octaves
        found = list[tuple[float, float]]()
        for j in range(len(octaves)):
            some = [_summed(number[: j + 1], noise[: j + 1])]
            if j:
                some.append(_added(found[-1], float(number[j]), float(noise[j])))
            if j < len(self.bounds) - 1:  # the last counted all users, and users arrive
                some.append(self.bounds[j])
            found.append(_least(some, found))
        near = None
        if len(at) > len(octaves):
            j = int(np.flatnonzero(octaves[: len(at) - 1] != at[:-1])[0]) - 1
            alone, error = float(weighted[j] * at[j]), sd * float(at[j])
            some = [found[j], _summed(np.append(number[:j], alone), np.append(noise[:j], error))]
            if j:
                some.append(_added(found[j - 1], alone, error))
            near = NearTail(float(at[j + 1] / at[0]), *_least(some, found[:j]))
        return Tails(tuple(found), near, weight, clock, epoch)

    def cut(self, level: float) -> CutBound | None:
        """Return a bound on the cut of C = level / a_min in any question; None: it is unknown.

        Σ (1 − level/u_i)+ is Σ_j A_j (w_j − w_(j+1)), w_j = (1 − level · 2^j)+, and at most this
        between two edges. Standard deviations are added up, as for fully dependent errors.
        """
        if level >= 1 - 1e-12:
            return NOTHING_CUT
        places, bounds = 2.0 ** -np.arange(len(self.bounds)), list(self.bounds)
        if self.near is not None and level >= self.near.place * (1 - 1e-12):
            above = int((places > self.near.place).sum())
            places = np.append(places[:above], self.near.place)
            bounds = [*bounds[: above - 1], (self.near.most, self.near.sd), bounds[above]]
        shares = np.maximum(1 - level / places, 0.0)
        if len(shares) == 0 or shares[-1] > 1e-12:
            return None
        falls = shares[:-1] - shares[1:]
        most, sd = (float(falls @ [one[k] for one in bounds[:-1]]) for k in (0, 1))
        return CutBound(most, sd)

    def scales(self, most: float, newcomer: float) -> list[float]:
        """Return the scales to choose from: 1/a_min, which cuts nobody, and the edges.

        Args:
            most: 1/a_min.
            newcomer: 1/a of a user who was in no question yet. No scale cuts such a user, who may
                not have been there when tails were measured.
        """
        places = [2.0**-j for j in range(1, len(self.bounds))]
        if self.near is not None:
            places.append(self.near.place)
        return [most, *(most * one for one in places if most * one >= newcomer)]

    def to_dict(self) -> dict[str, Any]:
        """Return the tails as plain data."""
        near = None if self.near is None else vars(self.near)
        return vars(self) | {"bounds": [list(one) for one in self.bounds], "near": near}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tails:
        """Return tails from the data of `to_dict`, of this version or of one without `near`."""
        bounds = tuple((most, sd) for most, sd in data["bounds"])
        near = data.get("near")
        return cls(**{**data, "bounds": bounds, "near": near and NearTail(**near)})


NO_TAILS = Tails()


def _summed(numbers: Floats, noises: Floats) -> tuple[float, float]:
    return float(numbers.sum()), float(np.linalg.norm(noises))


def _added(bound: tuple[float, float], number: float, noise: float) -> tuple[float, float]:
    return bound[0] + number, math.hypot(bound[1], noise)


def _least(
    some: Sequence[tuple[float, float]], above: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """Return the least of several bounds, or the last bound for fewer users if that is larger."""
    best = min(some, key=_from_above)
    if above and _from_above(best) < _from_above(above[-1]):
        best = above[-1]
    return max(best[0], 0.0), best[1]


def _from_above(bound: tuple[float, float]) -> float:
    return bound[0] + _SELECT * bound[1]


def _on_powers(edges: Floats, people: Floats, sd: float) -> tuple[Floats, Floats, Floats]:
    """Return the edges that are powers of 2 below the greatest, the users on them, and their noise.

    The users of an edge between two of them are divided between the two in proportion, as in a
    pilot without this edge.
    """
    exponents = np.log2(edges[0] / edges)
    power = np.abs(exponents - np.round(exponents)) < 1e-9
    seen, noise = people.copy(), np.full(len(edges), sd)
    for k in np.flatnonzero(~power):
        up = (edges[k] - edges[k + 1]) / (edges[k - 1] - edges[k + 1])
        for neighbour, part in ((k - 1, up), (k + 1, 1 - up)):
            seen[neighbour] += part * people[k]
            noise[neighbour] = math.hypot(noise[neighbour], part * sd)
    return edges[power], seen[power], noise[power]


def tail_edges(most: float, newcomer: float) -> Floats:
    """Return the edges of 1/a on which a table's users are counted, ascending.

    They are `most` times powers of 2, and one edge closely above the users who were in no question
    yet: a scale there cuts none of them, and few others.

    Args:
        most: 1/a_min.
        newcomer: 1/a of a user who was in no question yet.

    Example:
        >>> tail_edges(5.0, 1.0).tolist()
        [1.25, 2.5, 5.0]
        >>> tail_edges(5.0, 1.5).round(2).tolist()
        [1.25, 1.65, 2.5, 5.0]
    """
    last = max(math.floor(math.log2(most) + 1e-9), 0)
    edges = most * 2.0 ** -np.arange(last, -1.0, -1.0)
    near, (above, below) = _ABOVE * newcomer, _APART
    for low, high in pairwise(edges.tolist()):
        if low * above < near < high / below:
            return np.sort(np.append(edges, near))
    return np.asarray(edges)
