"""Algorithm 2 of Feldman & Zrnic (2021) as the paper and the design state it, in exact fractions.

It shares no code with the package: the filter, the lattice and the price are written out again, on
Python integers, from raw rows. What is public about a query (sigma, lattice step) is given.
"""

from __future__ import annotations

import math
from collections import Counter
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
        active = self.able(charges)
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

    def able(self, charges: Mapping[int, int]) -> set[int]:
        """Who can pay."""
        return {u for u, due in charges.items() if self.spent[u] + due <= self.budgets[u]}

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


# A cap over all windows of a person ---------------------------------------------------------------


@dataclass
class Lifelong(Algorithm2):
    """Users are windows of people, who have an account over all of their windows as well.

    `of` says whose a window is, in the order in which windows' accounts were opened.
    """

    lifetime: int = 0
    of: dict[int, int] = field(default_factory=dict)
    lived: dict[int, int] = field(default_factory=dict)
    apart: bool = False  # no value of the next question adds up two windows

    def step(
        self, measures: Sequence[Mapping[int, Vector]], noise: Sequence[tuple[float, float]]
    ) -> list[dict[int, int]]:
        """As ever; and whoever is summed has paid for what all of their windows say together."""
        before = dict(self.lived)
        windows = dict(self.spent)
        sums = super().step(measures, noise)
        taken = {w for w in self.spent if self.spent[w] > windows[w]}
        worth: dict[int, Fraction] = {}
        for vectors, (sigma, granularity) in zip(measures, noise, strict=True):
            together: dict[int, dict[int, int]] = {}
            for window in taken & set(vectors):
                whole = together.setdefault(self.of[window], {})
                for k, v in vectors[window].items():
                    whole[k] = whole.get(k, 0) + v
            for person, x in together.items():
                rate = self.rate(sigma, granularity)
                worth[person] = worth.get(person, Fraction(0)) + squared(x) * rate
        for person, price in worth.items():
            assert price <= self.lived[person] - before.get(person, 0)
        return sums

    def able(self, charges: Mapping[int, int]) -> set[int]:
        """Who can pay from both accounts; people are charged here."""
        own, found = super().able(charges), set()
        for person in dict.fromkeys(self.of.values()):
            windows = [w for w, whose in self.of.items() if whose == person and w in own]
            left = self.lifetime - self.lived.get(person, 0)
            if self.apart:
                taken, cost = set(), 0
                for window in windows:
                    if cost + charges[window] > left:
                        cost = left  # and out for good
                        break
                    taken, cost = taken | {window}, cost + charges[window]
            else:
                cost = sum(root_above(charges[w]) for w in windows) ** 2
                taken, cost = (set(windows), cost) if cost <= left else (set(), 0)
            found |= taken
            if windows:
                self.lived[person] = self.lived.get(person, 0) + cost
        return found


def root_above(number: int) -> int:
    """The least whole number whose square is no less."""
    found = math.isqrt(number)
    return found + (found * found < number)


# Weights: Algorithm 3's, and the pilots that choose their scale -----------------------------------

PILOT = 2**16  # lattice steps of a pilot to a person
NEAR_NOTHING = 64  # ledger units: whoever has less left has no allowance
SATURATED = 2**62


def rounded(x: Fraction | int) -> Fraction:
    """The float64 nearest to a number: one correctly rounded operation."""
    return Fraction(float(Fraction(x)))


def root(x: Fraction) -> Fraction:
    """The float64 nearest to the square root of a number, by integers."""
    if x == 0:
        return Fraction(0)
    bits = 130 + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    scaled = x.numerator * 4**bits // x.denominator
    below = math.isqrt(scaled)
    exact = below * below == scaled and x.numerator * 4**bits % x.denominator == 0
    return rounded(Fraction(2 * below + (not exact), 2 ** (bits + 1)))


@dataclass(frozen=True)
class Rungs:
    """A pilot as it was announced: edges of the cells, where it begins, and its price."""

    edges: tuple[float, ...]
    start: int
    price: Fraction


@dataclass(frozen=True)
class Announced:
    """A measure of a weighted question: all public. The lattice step of vectors, the size of the
    joint unit, the noise and the lattice of the weighted sums."""

    step: Fraction
    unit: Fraction
    sigma: float = 0.0
    granularity: float = 0.0


@dataclass
class Weighted(Algorithm2):
    """Questions in which people are weighted: the parts in their order, then `end`.

    `due` is what each has to pay exactly for the parts of the question so far; `refused`, who could
    not pay for a part.
    """

    due: dict[int, int] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def left(self, user: int) -> int:
        return self.budgets[user] - self.spent[user] - round_up(self.due.get(user, 0))

    def allowances(self, users: set[int], cautious: float) -> dict[int, Fraction]:
        """a_i = sqrt(min(1, left_i / (tau_t p)))."""
        found = {}
        for user in users:
            share = rounded(Fraction(self.left(user)) / (Fraction(cautious) * UNITS))
            nothing = self.left(user) < NEAR_NOTHING
            found[user] = Fraction(0) if nothing else root(min(Fraction(1), share))
        return found

    def admitted(self, due: Mapping[int, int]) -> set[int]:
        """Who can pay a part: they owe it from here on."""
        active = set()
        for user, more in due.items():
            total = round_up(self.due.get(user, 0) + more)
            if self.spent[user] + total <= self.budgets[user]:
                self.due[user] = self.due.get(user, 0) + more
                active.add(user)
            else:
                self.refused.add(user)
        return active

    def end(self) -> None:
        """Everybody pays what is owed."""
        for user, due in self.due.items():
            self.spent[user] += round_up(due)
        self.due, self.refused = {}, set()

    def pilot(
        self, r: Mapping[int, Fraction], a: Mapping[int, Fraction], of: Rungs
    ) -> tuple[list[int], set[int]]:
        """A pilot's exact sums by cell, and who is in it."""
        parts = {user: cells_of(r[user], a[user], of) for user in r}
        price = of.price * Fraction(UNITS, PILOT * PILOT)
        active = self.admitted(
            {u: math.ceil(sum(v * v for v in x.values()) * price) for u, x in parts.items()}
        )
        totals = [0] * len(of.edges)
        for user in active:
            for cell, value in parts[user].items():
                totals[cell] += value
        return totals, active

    def answer(
        self,
        measures: Sequence[Mapping[int, Vector]],
        said: Sequence[Announced],
        r: Mapping[int, Fraction],
        a: Mapping[int, Fraction],
        scale: Fraction,
    ) -> list[dict[int, int]]:
        """Each measure's exact weighted sums, on the lattice of the answer; they are charged."""
        weights = {user: weight(r[user], a[user], scale) for user in r}
        for vectors in measures:
            for user, x in vectors.items():
                if squared(x) >= SATURATED:
                    weights[user] = Fraction(0)
        due = dict.fromkeys(r, 0)
        for vectors, m in zip(measures, said, strict=True):
            fine = Fraction(power_above(scale * m.unit), 2**29)
            rate = self.rate(m.sigma, float(fine))
            for user, x in vectors.items():
                norm = weights[user] ** 2 * squared(x) * (m.step / fine) ** 2
                due[user] += math.ceil(math.ceil(norm) * rate)
        active = self.admitted(due)
        sums: list[dict[int, int]] = []
        for vectors, m in zip(measures, said, strict=True):
            total: dict[int, int] = {}
            for user in active & set(vectors):
                worth = Fraction(0)
                for k, v in vectors[user].items():
                    part = int(weights[user] * v * m.step / Fraction(m.granularity))
                    total[k] = total.get(k, 0) + part
                    worth += part * part
                assert worth * self.exact_rate(m) <= due[user], "who is summed has paid for it"
            self.added(m, weights, {user: vectors[user] for user in active & set(vectors)})
            sums.append(total)
        return sums

    def added(
        self, m: Announced, weights: Mapping[int, Fraction], vectors: Mapping[int, Vector]
    ) -> None:
        """Told what of a measure is summed."""

    def exact_rate(self, m: Announced) -> Fraction:
        """Units per squared lattice step of an answer, as a real number."""
        variance = Fraction(self.norm_budget) / (2 * Fraction(self.kappa))
        return (Fraction(m.granularity) / Fraction(m.sigma)) ** 2 * variance * UNITS


@dataclass
class WeightedLife(Weighted):
    """Users are windows of people, whose weights fall with what is left for all of their windows.

    `of` says whose a window is; `for_life` is what must be left for one window's full weight.
    """

    lifetime: int = 0
    of: dict[int, int] = field(default_factory=dict)
    lived: dict[int, int] = field(default_factory=dict)
    owed: dict[int, int] = field(default_factory=dict)
    for_life: float = 1.0
    apart: bool = False  # no value of the sums adds up two windows
    _together: bool = False

    def left_for_life(self, person: int) -> int:
        return self.lifetime - self.lived.get(person, 0) - self.owed.get(person, 0)

    def allowances(self, users: set[int], cautious: float) -> dict[int, Fraction]:
        """The less of a window's own, and of what life lets it have among n windows."""
        found = super().allowances(users, cautious)
        many = Counter(self.of[user] for user in users)
        for user in users:
            person = self.of[user]
            share = self.left_for_life(person) // many[person] ** 2
            whole = rounded(Fraction(share) / (Fraction(self.for_life) * UNITS))
            life = Fraction(0) if share < 4096 else root(min(Fraction(1), whole))
            found[user] = min(found[user], life)
        return found

    def admitted(self, due: Mapping[int, int]) -> set[int]:
        """Who can pay for a part from both accounts: they owe it from here on."""
        fits = {
            u
            for u, more in due.items()
            if self.spent[u] + round_up(self.due.get(u, 0) + more) <= self.budgets[u]
        }
        active: set[int] = set()
        for person in {self.of[u] for u in due}:
            mine = {u for u in fits if self.of[u] == person}
            cost = self.cost([due[u] for u in mine])
            if cost <= self.left_for_life(person):
                self.owed[person] = self.owed.get(person, 0) + cost
                active |= mine
        for user in active:
            self.due[user] = self.due.get(user, 0) + due[user]
        self.refused |= set(due) - active
        return active

    def cost(self, charges: Sequence[int]) -> int:
        """What windows cost together: vectors that may lie in one direction, or can't."""
        if self.apart and not self._together:
            return sum(charges)
        return math.ceil(Fraction(sum(root_above(c << 10) for c in charges) ** 2, 2**10))

    def pilot(
        self, r: Mapping[int, Fraction], a: Mapping[int, Fraction], of: Rungs
    ) -> tuple[list[int], set[int]]:
        """A pilot adds up all windows; and whoever is in it has paid for what they say together."""
        before, self._together = dict(self.owed), True
        totals, active = super().pilot(r, a, of)
        self._together = False
        parts = {u: cells_of(r[u], a[u], of) for u in active}
        self._covers(before, parts, of.price * Fraction(UNITS, PILOT * PILOT))
        return totals, active

    def _covers(
        self, before: Mapping[int, int], parts: Mapping[int, Vector], rate: Fraction
    ) -> None:
        whole: dict[int, dict[int, int]] = {}
        for user, x in parts.items():
            vector = whole.setdefault(self.of[user], {})
            for k, v in x.items():
                vector[k] = vector.get(k, 0) + v
        for person, x in whole.items():
            worth = sum(v * v for v in x.values()) * rate
            assert worth <= self.owed[person] - before.get(person, 0), "all windows have paid"

    def added(
        self, m: Announced, weights: Mapping[int, Fraction], vectors: Mapping[int, Vector]
    ) -> None:
        """Of a measure that is summed: what windows say together is paid for."""
        parts = {
            u: {k: int(weights[u] * v * m.step / Fraction(m.granularity)) for k, v in x.items()}
            for u, x in vectors.items()
        }
        self._covers(self._before_sums, parts, self.exact_rate(m))

    def answer(
        self,
        measures: Sequence[Mapping[int, Vector]],
        said: Sequence[Announced],
        r: Mapping[int, Fraction],
        a: Mapping[int, Fraction],
        scale: Fraction,
    ) -> list[dict[int, int]]:
        """As ever."""
        self._before_sums = dict(self.owed)
        return super().answer(measures, said, r, a, scale)

    def end(self) -> None:
        """Everybody pays what is owed."""
        super().end()
        for person, owed in self.owed.items():
            self.lived[person] = self.lived.get(person, 0) + owed
        self.owed = {}


def squared(x: Vector) -> int:
    """The squared norm in lattice steps, saturated where a cell is beyond the lattice."""
    beyond = any(abs(v) > 2**31 - 1 for v in x.values())
    return SATURATED if beyond else min(sum(v * v for v in x.values()), SATURATED)


def joint_norms(
    measures: Sequence[Mapping[int, Vector]], said: Sequence[Announced]
) -> dict[int, Fraction]:
    """Everybody's norm over all measures, in joint units: r_i² = sum (‖q_m‖ / u_m)²."""
    users = sorted({user for vectors in measures for user in vectors})
    found = {}
    for user in users:
        total = Fraction(0)
        for vectors, m in zip(measures, said, strict=True):
            here = rounded(squared(vectors.get(user, {}))) * (m.step / m.unit) ** 2
            total = rounded(total + here)
        found[user] = root(total)
    return found


def cells_of(r: Fraction, a: Fraction, of: Rungs) -> dict[int, int]:
    """What one person adds to a pilot: a (1 - t) in a cell and a t in the next, of r / a."""
    if r == 0:
        return {}
    edges = [Fraction(e) for e in of.edges]
    rho = rounded(r / a) if a else edges[-1]
    cell = next((k for k, e in enumerate(edges) if rho <= e), len(edges) - 1)
    below = edges[cell - 1] if cell else Fraction(0)
    t = rounded(rounded(rho - below) / rounded(edges[cell] - below))
    t = min(max(t, Fraction(0)), Fraction(1))
    found = {}
    if cell >= of.start:
        found[cell] = math.floor(rounded(a * t) * PILOT)
    if cell > of.start:
        found[cell - 1] = math.floor(rounded(a * rounded(1 - t)) * PILOT)
    return found


def weight(r: Fraction, a: Fraction, scale: Fraction) -> Fraction:
    """min(1, C a / r), rounded down to 16 significant bits."""
    w = Fraction(1) if r == 0 else min(Fraction(1), rounded(rounded(scale * a) / r))
    if w == 0:
        return w
    one = Fraction(power_above(w), 2**16)
    one = one * 2 if w == power_above(w) else one  # 1 is 2**15 units of 2**-15
    return math.floor(w / one) * one


def power_above(x: Fraction) -> Fraction:
    """The least power of two that is not below x > 0."""
    power = Fraction(2) ** (x.numerator.bit_length() - x.denominator.bit_length() - 1)
    while power < x:
        power *= 2
    return power


# Parts of a budget by purpose ---------------------------------------------------------------------


@dataclass
class Parted:
    """Filters beside each other, one a purpose; what is in each adds up to one budget.

    `parts` are by name, "questions" first; `level` is kappa and norm_budget of each.
    """

    kappa: float
    norm_budget: float
    parts: dict[str, Algorithm2] = field(default_factory=dict)
    share: dict[str, Fraction] = field(default_factory=dict)
    came: dict[str, bool] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts["questions"] = Algorithm2(self.kappa, self.norm_budget)

    def purpose(self, name: str, share: float, kappa: float, counts: float, came: bool) -> None:
        """A purpose, before anybody is there or after: then it takes of what people have left."""
        part, questions = Algorithm2(kappa, counts), self.parts["questions"]
        self.parts[name], self.share[name], self.came[name] = part, Fraction(share), came
        if came:
            for user in list(questions.budgets):
                left = questions.budgets[user] - questions.spent[user]
                moved = math.floor(Fraction(share) * left)
                questions.spent[user] += moved
                self.moved[user] = self.moved.get(user, 0) + moved
                part.budgets[user], part.spent[user] = self.worth(moved, part), 0

    def worth(self, units: int, part: Algorithm2) -> int:
        """Units of a part that are worth no more than units of the store."""
        one = Fraction(self.kappa) / Fraction(self.norm_budget)
        there = Fraction(part.kappa) / Fraction(part.norm_budget)
        return min(math.floor(units * one / there), math.floor(Fraction(part.norm_budget) * UNITS))

    def add_user(self, user: int) -> None:
        whole = math.floor(Fraction(self.norm_budget) * UNITS)
        given = {n: math.floor(s * whole) for n, s in self.share.items() if not self.came[n]}
        rest = whole - sum(given.values())
        for name, share in self.share.items():
            if self.came[name]:
                given[name] = math.floor(share * rest)
                rest -= given[name]
        self.parts["questions"].budgets[user] = rest
        self.parts["questions"].spent[user] = 0
        for name, units in given.items():
            self.parts[name].budgets[user] = self.worth(units, self.parts[name])
            self.parts[name].spent[user] = 0

    def loss(self, user: int) -> Fraction:
        """What all that a person has ever paid for answers is worth, in zCDP."""
        total = Fraction(0)
        for name, part in self.parts.items():
            unit = Fraction(part.kappa) / Fraction(part.norm_budget) / UNITS
            moved = self.moved.get(user, 0) if name == "questions" else 0
            total += (part.spent[user] - moved) * unit
        return total
