"""Accounts under a rule: one account, or one for each of n users.

The interface of all rules of filters, and checks that they share.

Fixed-point budgets: the integer arithmetic that every filter decides by.

A budget becomes `limit` units of 2**-exponent, between 2**60 and 2**61 of them, rounded down; a
charge becomes units rounded up. Multiplying a float64 by a power of two and taking its ceiling
are exact, so a charge in units is never below the charge, and is 0 only for 0. Totals are sums
of integers: the same in any order, on any machine.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range, spendable
from sparseq.base.errors import ParameterError

# -- fixed-point budgets: the integer arithmetic that every filter decides by ----------------------

SATURATED = 2**61
"""Charges end here, above every limit: a total below it plus one more charge fits in 63 bits."""

SMALLEST_BUDGET, LARGEST_BUDGET = 2.0**-500, 2.0**60

_LOW_BITS = 2**27 - 1  # of a float64's fraction: where they are 0, 26 significant bits are left
_SMALLEST_ROOT = 2.0**-500  # the squares of smaller numbers would lose digits, or be 0


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A budget in units of its own size.

    Attributes:
        limit: The budget in units, 2**60 <= limit < 2**61.
        exponent: A unit is 2**-exponent; it is >= 0, since budgets are at most 2**60.

    Example:
        >>> half = FixedPoint.of(Fraction(1, 2))
        >>> half.limit == 2**60, half.units(np.array([0.25, 5e-324, 0.0, 1e300])).tolist()
        (True, [576460752303423488, 1, 0, 2305843009213693952])
    """

    limit: int
    exponent: int

    @classmethod
    def of(cls, budget: Fraction) -> FixedPoint:
        """Return the units of a budget in [2**-500, 2**60]."""
        exponent = 60 - (budget.numerator.bit_length() - budget.denominator.bit_length())
        while math.floor(budget * Fraction(2) ** exponent) < 2**60:
            exponent += 1
        return cls(math.floor(budget * Fraction(2) ** exponent), exponent)

    def units(self, charges: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return charges >= 0 in units, rounded up; from SATURATED on, infinity included, that."""
        with np.errstate(over="ignore"):
            scaled = charges * math.ldexp(1.0, self.exponent)
        np.ceil(scaled, out=scaled)
        np.minimum(scaled, SATURATED, out=scaled)
        return scaled.astype(np.int64)

    def in_budget_units(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return numbers of units in the budget's own unit, as floats rounded up."""
        nearest = units.astype(np.float64)
        short = nearest.astype(np.int64) < units
        return np.where(short, np.nextafter(nearest, np.inf), nearest) * 2.0**-self.exponent


def square_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squares rounded up, of numbers >= 0: 0 only for 0, however small the number is.

    The square of a number of up to 26 significant bits, such as 1, 1.5 or 0.25, is exact; that of
    another is too large by a relative 2**-50 at most. (Below 2**-500 it is 2**-1000.)

    Example:
        >>> square_up(np.array([0.0, 1e-200, 3.0, 0.1])) > [-1, 0, 9, 0.01]
        array([ True,  True, False,  True])
    """
    with np.errstate(over="ignore"):
        squares = values * values
        long = (values.view(np.int64) & _LOW_BITS) != 0
        np.multiply(squares, 1 + 2.0**-51, out=squares, where=long)
    if values.size and values.min() < _SMALLEST_ROOT:
        np.copyto(squares, _SMALLEST_ROOT**2, where=(values < _SMALLEST_ROOT) & (values > 0))
    return squares


# -- the interface of all rules of filters, and checks that they share -----------------------------

Floats = NDArray[np.float64]
Units = NDArray[np.int64]


class Rule(ABC):
    """A theorem as a filter applies it: what is summed, and up to where.

    A rule has one column, or several, of numbers >= 0 that add up from step to step. A rule is
    an immutable description; `Filter` and `IndividualFilter` hold what was spent under it.
    """

    overdraws: ClassVar[bool] = False
    """Says that a step can be admitted although one of its columns passes its limit."""

    known: ClassVar[dict[str, type[Rule]]] = {}

    def __init_subclass__(cls) -> None:
        Rule.known[cls.__name__] = cls

    @property
    @abstractmethod
    def limits(self) -> tuple[Fraction, ...]:
        """The budget of each column, exactly."""

    @abstractmethod
    def read(self, *step: Any) -> tuple[Floats, ...]:
        """Return what `charges` takes from one step's description, checked; mutates nothing."""

    @abstractmethod
    def charges(self, *read: Any) -> tuple[Floats, ...]:
        """Return what each column is charged, rounded up; element by element."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return epsilon at `delta` of everything that a filter under this rule admits."""

    def fits(
        self, totals: Sequence[Units], limits: Sequence[Any], columns: Sequence[FixedPoint]
    ) -> NDArray[np.bool_]:
        """Return where the totals are allowed: by default, where no column passes its limit."""
        fit = totals[0] <= limits[0]
        for total, limit in zip(totals[1:], limits[1:], strict=True):
            fit &= total <= limit
        return np.asarray(fit)

    def nothing(self) -> tuple[Any, ...]:
        """Return a step that costs nothing."""
        return (0.0,)

    def state(self) -> dict[str, Any]:
        """Return the rule as plain values: floats, tuples of them, and the rule's name."""
        return {"rule": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]

    @staticmethod
    def from_state(state: dict[str, Any]) -> Rule:
        """Return the rule that `state` came from.

        Raises:
            ParameterError: It names no rule, or values that the rule refuses.
        """
        fields = dict(state)
        name = fields.pop("rule", None)
        if name not in Rule.known:
            raise ParameterError(f"rule is {name!r}; it must be one of {', '.join(Rule.known)}")
        try:
            return Rule.known[name](**fields)
        except TypeError:
            raise ParameterError(f"the saved {name} has fields {sorted(fields)}") from None


def positive(name: str, value: float) -> float:
    """Return a budget in [2**-500, 2**60], or refuse it by name."""
    return in_range(name, value, SMALLEST_BUDGET, LARGEST_BUDGET)


def rootable(name: str, value: float) -> float:
    """Return a budget whose square is one, in [2**-240, 2**29], or refuse it by name."""
    return in_range(name, value, 2.0**-240, 2.0**29)


# -- accounts under a rule: one account, or one for each of n users --------------------------------

_BLOCK = 1 << 15  # users per step: the temporaries stay in cache


class IndividualFilter:
    """A rule kept for each of n users: arrays in, a mask of the admitted out.

    See docs/theorems/individual-filter.md.

    Args:
        rule: What no user's total may pass.
        users: n, in 0 to 2**40.
        shares: Of each user, the part in [0, 1] of every budget of the rule that is the user's
            own, shape (n,); it must not depend on the users' data. Default: all of it.

    Guarantee: with each step's charge for user i a bound on its *individual* divergence for X_i
    (Definition 2.5), and the step applied to the admitted users only, everything together has
    the rule's guarantee: Algorithm 2 and Theorem 4.5 (Feldman & Zrnic 2021). Steps may be chosen
    adaptively; neighbours differ by one user. The mask, and all that this object shows, is
    private: it depends on the users' data.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> from sparseq.papers.filters import ZcdpRule
        >>> filter = IndividualFilter(ZcdpRule(rho=1.0), users=3)
        >>> filter.admit(np.array([0.25, 0.5, 1.5]))
        array([ True,  True, False])
        >>> filter.admit(np.array([0.5, 0.625, 1.0]))
        array([ True, False,  True])
        >>> filter.spent()
        (array([0.75, 0.5 , 1.  ]),)
    """

    def __init__(self, rule: Rule, users: int, shares: NDArray[np.float64] | None = None) -> None:
        self.rule = rule
        self.users = count("users", users, 0, 2**40)
        self._columns = tuple(FixedPoint.of(limit) for limit in rule.limits)
        self._spent = tuple(np.zeros(self.users, np.int64) for _ in self._columns)
        self._shares = None if shares is None else _checked_shares(shares, self.users)

    def would_admit(self, *step: Any) -> NDArray[np.bool_]:
        """Return which users the step would be admitted for; nothing changes.

        Args:
            step: What the rule takes, one number for all users or an array of shape (n,) - for
                rules over K orders, shape (K,) or (n, K).

        Raises:
            ParameterError: A charge is negative, NaN or infinite, or an array doesn't fit.
        """
        mask = np.empty(self.users, np.bool_)
        for block, _, fits in self._decide(*step):
            mask[block] = fits
        return mask

    def admit(self, *step: Any) -> NDArray[np.bool_]:
        """Charge the step to the users it is admitted for, and return which; see `would_admit`.

        The others pay nothing, and may be admitted to a later, cheaper step. An error leaves
        everybody as they were.
        """
        mask = np.empty(self.users, np.bool_)
        for block, totals, fits in self._decide(*step):
            mask[block] = fits
            for spent, total in zip(self._spent, totals, strict=True):
                np.copyto(spent[block], total, where=fits)
        return mask

    def spent(self) -> tuple[NDArray[np.float64], ...]:
        """Return what each user has spent, an array per column of the rule, rounded up."""
        pairs = zip(self._columns, self._spent, strict=True)
        return tuple(column.in_budget_units(spent) for column, spent in pairs)

    def state(self) -> dict[str, Any]:
        """Return everything as plain values and int64 arrays (copies), exactly."""
        return {
            "rule": self.rule.state(),
            "spent": [spent.copy() for spent in self._spent],
            "shares": None if self._shares is None else self._shares.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> IndividualFilter:
        """Return a filter that goes on exactly where the one that gave `state` was.

        Raises:
            ParameterError: The state is none of a filter, or has spent more than allowed.

        Example:
            >>> from sparseq.papers.filters import GdpRule
            >>> filter = IndividualFilter(GdpRule(mu=1.0), users=2)
            >>> _ = filter.admit(np.array([0.5, 0.0]))
            >>> IndividualFilter.from_state(filter.state()).spent()[0].round(9).tolist()
            [0.25, 0.0]
        """
        if missing := {"rule", "spent", "shares"} - state.keys():
            raise ParameterError(f"the saved filter lacks {', '.join(sorted(missing))}")
        spent = [np.asarray(column) for column in state["spent"]]
        rule = Rule.from_state(state["rule"])
        shares = state["shares"]
        users = spent[0].size if spent else 0
        loaded = cls(rule, users, None if shares is None else np.asarray(shares))
        if [(users,)] * len(loaded._spent) != [column.shape for column in spent]:
            raise ParameterError(f"the saved columns don't fit {type(rule).__name__}")
        for own, column in zip(loaded._spent, spent, strict=True):
            whole = column.dtype.kind in "iu" or users == 0
            if not whole or (users and not 0 <= column.min() <= column.max() <= SATURATED):
                raise ParameterError("the saved columns must be whole numbers in [0, 2**61]")
            own[:] = column
        if not loaded.would_admit(*rule.nothing()).all():
            raise ParameterError("the saved filter has spent more than its rule allows")
        return loaded

    def _decide(self, *step: Any) -> Iterator[tuple[slice, list[Units], NDArray[np.bool_]]]:
        """Yield block by block the totals after the step, and where they are allowed."""
        read = [_for_users(values, self.users) for values in self.rule.read(*step)]
        for start in range(0, self.users, _BLOCK):
            block = slice(start, start + _BLOCK)
            charges = self.rule.charges(*(values[block] for values in read))
            totals = []
            for column, spent, charge in zip(self._columns, self._spent, charges, strict=True):
                total = column.units(charge)
                total += spent[block]
                totals.append(np.minimum(total, SATURATED) if self.rule.overdraws else total)
            yield block, totals, self.rule.fits(totals, self._limits(block), self._columns)

    def _limits(self, block: slice) -> Sequence[int | Units]:
        whole = [column.limit for column in self._columns]
        if self._shares is None:
            return whole
        share = self._shares[block]
        # A share of 1 is all of it; a smaller one is rounded down, past the product's rounding.
        return [
            np.where(share == 1, limit, np.floor(share * (limit * (1 - 2.0**-51))).astype(np.int64))
            for limit in whole
        ]


class Filter:
    """A rule kept for one account, such as all users together.

    Args:
        rule: What the total may not pass.

    Guarantee: if a step runs only after `admit` returned True, with a bound on its privacy loss
    over all neighbours, then all steps together have the rule's guarantee, however each was
    chosen after the results of those before it, and however many there are.

    Example:
        >>> from sparseq.papers.filters import ZcdpRule
        >>> filter = Filter(ZcdpRule(rho=1.0))
        >>> filter.admit(0.75), filter.would_admit(0.5), filter.would_admit(0.25), filter.spent()
        (True, False, True, (0.75,))
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._one = IndividualFilter(rule, users=1)

    def would_admit(self, *step: Any) -> bool:
        """Return whether the step would be admitted; nothing changes.

        Args:
            step: What the rule takes; for rules over K orders, K numbers or a `Curve`.

        Raises:
            ParameterError: A charge is negative, NaN or infinite.
        """
        return bool(self._one.would_admit(*step)[0])

    def admit(self, *step: Any) -> bool:
        """Charge the step if it fits, and return whether it did; see `would_admit`."""
        return bool(self._one.admit(*step)[0])

    def spent(self) -> tuple[float, ...]:
        """Return what was spent in each column of the rule, rounded up."""
        return tuple(float(column[0]) for column in self._one.spent())

    def state(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold, exactly."""
        spent = [int(column[0]) for column in self._one.state()["spent"]]
        return {"rule": self.rule.state(), "spent": spent}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Filter:
        """Return a filter that goes on exactly where the one that gave `state` was.

        Raises:
            ParameterError: The state is none of a filter, or has spent more than allowed.

        Example:
            >>> import json
            >>> from sparseq.papers.filters import ZcdpRule
            >>> filter = Filter(ZcdpRule(rho=1.0))
            >>> _ = filter.admit(0.1)
            >>> Filter.from_state(json.loads(json.dumps(filter.state()))).spent()
            (0.1,)
        """
        columns = {"spent": [[units] for units in state["spent"]]} if "spent" in state else {}
        one = IndividualFilter.from_state({**state, **columns, "shares": None})
        loaded = cls(one.rule)
        loaded._one = one
        return loaded


def capacity(rule: Rule, *step: Any) -> int:
    """Return how many copies of one step a new `Filter` admits, up to 2**61.

    Raises:
        ParameterError: The step is free, so that any number fits, or is none of the rule's.

    Example:
        >>> from sparseq.papers.filters import ZcdpRule
        >>> capacity(ZcdpRule(rho=1.0), 0.125)
        8
    """
    columns = [FixedPoint.of(limit) for limit in rule.limits]
    read = [_for_users(values, 1) for values in rule.read(*step)]
    charges = [
        int(column.units(charge)[0])
        for column, charge in zip(columns, rule.charges(*read), strict=True)
    ]
    if not any(charges):
        raise ParameterError(
            "the step is free: 0; its cost must be above 0", "a free step needs no filter"
        )

    def fits(copies: int) -> bool:
        totals = [np.array([min(copies * charge, SATURATED)]) for charge in charges]
        return bool(rule.fits(totals, [column.limit for column in columns], columns)[0])

    low, high = 0, 1
    while high < SATURATED and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _for_users(values: NDArray[np.float64], users: int) -> NDArray[np.float64]:
    if values.ndim == 0 or values.shape == (users,):
        return np.broadcast_to(values, (users,))
    raise ParameterError(
        f"the step has shape {values.shape}; it must be one number or {users} of them",
        "give one charge per user",
    )


def _checked_shares(shares: NDArray[np.float64], users: int) -> NDArray[np.float64]:
    checked = spendable("share", shares).astype(np.float64)
    if checked.shape != (users,):
        raise ParameterError(f"shares have shape {checked.shape}; ({users},) is needed")
    if users and checked.max() > 1:
        raise ParameterError(f"share is {checked.max().item()!r}; it must be in [0, 1]")
    return checked
