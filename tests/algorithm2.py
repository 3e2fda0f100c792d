"""Algorithm 2 of Feldman & Zrnic (2021) as the paper and the design state it, in exact fractions.

It shares no code with the package: the filter, the lattice and the price are written out again, on
Python integers, from raw rows. What is public about a query (sigma, lattice step) is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

UNITS = 2**24  # of the ledger, per unit of squared norm
Vector = Mapping[int, int]  # coordinate to lattice value: one row of the sparse matrix


@dataclass
class Algorithm2:
    """Spends of all users, in ledger units; `step` is one query."""

    kappa: float
    norm_budget: float
    halt: bool = False
    budgets: dict[int, int] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    def add_user(self, user: int, norm_budget: float | None = None) -> None:
        if user not in self.budgets:
            own = self.norm_budget if norm_budget is None else norm_budget
            self.budgets[user] = math.floor(Fraction(own) * UNITS)
            self.spent[user] = 0

    def step(
        self, measures: Sequence[Mapping[int, Vector]], noise: Sequence[tuple[float, float]]
    ) -> list[dict[int, int]]:
        """Charge one query of several measures, user to vector, with (sigma, step) each.

        Returns each measure's exact lattice sums over the active users.
        """
        charges: dict[int, int] = {}
        for vectors, (sigma, granularity) in zip(measures, noise, strict=True):
            rate = self.rate(sigma, granularity)
            for user, x in vectors.items():
                norm = sum(v * v for v in x.values())
                charges[user] = charges.get(user, 0) + math.ceil(norm * rate)
        charges = {user: round_up(due) for user, due in charges.items()}
        active = {u for u, due in charges.items() if self.spent[u] + due <= self.budgets[u]}
        for user, due in charges.items():
            if user in active:
                self.spent[user] += due
            elif self.halt:
                self.spent[user] = self.budgets[user]
        sums: list[dict[int, int]] = []
        for vectors in measures:
            total: dict[int, int] = {}
            for user in active & set(vectors):
                for k, v in vectors[user].items():
                    total[k] = total.get(k, 0) + v
            sums.append(total)
        return sums

    def rate(self, sigma: float, granularity: float) -> Fraction:
        """Units per squared lattice norm: g² (sigma_0/sigma)² units, rounded up to 62 bits."""
        variance = Fraction(self.norm_budget) / (2 * Fraction(self.kappa))  # sigma_0²
        exact = Fraction(granularity) ** 2 * variance / Fraction(sigma) ** 2 * UNITS
        power = 1
        while exact * power < 2**61:
            power *= 2
        return Fraction(math.ceil(exact * power), power)


def on_lattice(value: float | None, granularity: float) -> int:
    """round(value / g), halves to even; 0 for what is missing or not finite; 31 bits at most."""
    if value is None or not math.isfinite(value):
        return 0
    most = 2**31 - 1
    return max(-most, min(most, round(Fraction(value) / Fraction(granularity))))


def round_up(charge: int) -> int:
    """The least number >= charge with at most 11 significant bits."""
    step = 2 ** max(charge.bit_length() - 11, 0)
    return math.ceil(Fraction(charge, step)) * step
