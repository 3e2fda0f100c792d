"""Accounts under a rule: one account, or one for each of n users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, spendable
from sparseq.accounting.filters._fixed_point import SATURATED, FixedPoint
from sparseq.accounting.filters._rule import Rule, Units
from sparseq.base.errors import ParameterError

_BLOCK = 1 << 15  # users per step: the temporaries stay in cache


class IndividualFilter:
    """A rule kept for each of n users: arrays in, a mask of the admitted out.

    See docs/theorems/individual-filter.md.

    Args:
        rule: Limit of every user's total.
        users: n, in 0 to 2**40.
        shares: For each user, the part in [0, 1] of every budget of the rule that belongs to the
            user, shape (n,); it must not depend on the users' data. Default: 1.

    Guarantee: with each step's charge for user i a bound on its *individual* divergence for X_i
    (Definition 2.5), and the step applied to the admitted users only, all steps together have the
    rule's guarantee: Algorithm 2 and Theorem 4.5 (Feldman & Zrnic 2021). Steps may be chosen
    adaptively; neighbours differ by one user. The mask and all other outputs of this object are
    private: they depend on the users' data.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> from sparseq.accounting.filters import ZcdpRule
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
        """Return a mask of the users for whom the step would be admitted; nothing changes.

        Args:
            step: Arguments of the rule, one number for all users or an array of shape (n,) - for
                rules over K orders, shape (K,) or (n, K).

        Raises:
            ParameterError: A charge is negative, NaN or infinite, or an array doesn't fit.
        """
        mask = np.empty(self.users, np.bool_)
        for block, _, fits in self._decide(*step):
            mask[block] = fits
        return mask

    def admit(self, *step: Any) -> NDArray[np.bool_]:
        """Charge the step to the users for whom it is admitted, and return their mask.

        See `would_admit`. The others pay nothing, and may be admitted to a later, cheaper step. An
        error changes no account.
        """
        mask = np.empty(self.users, np.bool_)
        for block, totals, fits in self._decide(*step):
            mask[block] = fits
            for spent, total in zip(self._spent, totals, strict=True):
                np.copyto(spent[block], total, where=fits)
        return mask

    def spent(self) -> tuple[NDArray[np.float64], ...]:
        """Return the spending of each user, one array per column of the rule, rounded up."""
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
        """Return a filter with exactly the saved state.

        Raises:
            ParameterError: The state is not that of a filter, or has spent more than allowed.

        Example:
            >>> from sparseq.accounting.filters import GdpRule
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
        """Yield, block by block, the totals after the step, and a mask of those allowed."""
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
        # A share of 1 is the whole budget; a smaller share is rounded down, beyond the product's
        # rounding.
        return [
            np.where(share == 1, limit, np.floor(share * (limit * (1 - 2.0**-51))).astype(np.int64))
            for limit in whole
        ]


class Filter:
    """A rule kept for one account, such as all users together.

    Args:
        rule: Limit of the total.

    Guarantee: if a step runs only after `admit` returned True, with a bound on its privacy loss
    over all neighbours, then all steps together have the rule's guarantee, even if each is chosen
    after the results of earlier ones, for any number of steps.

    Example:
        >>> from sparseq.accounting.filters import ZcdpRule
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
            step: Arguments of the rule; for rules over K orders, K numbers or a `Curve`.

        Raises:
            ParameterError: A charge is negative, NaN or infinite.
        """
        return bool(self._one.would_admit(*step)[0])

    def admit(self, *step: Any) -> bool:
        """Charge the step if it fits, and return whether it did; see `would_admit`."""
        return bool(self._one.admit(*step)[0])

    def spent(self) -> tuple[float, ...]:
        """Return the spending in each column of the rule, rounded up."""
        return tuple(float(column[0]) for column in self._one.spent())

    def state(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold, exactly."""
        spent = [int(column[0]) for column in self._one.state()["spent"]]
        return {"rule": self.rule.state(), "spent": spent}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Filter:
        """Return a filter with exactly the saved state.

        Raises:
            ParameterError: The state is not that of a filter, or has spent more than allowed.

        Example:
            >>> import json
            >>> from sparseq.accounting.filters import ZcdpRule
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
    """Return the number of copies of one step that a new `Filter` admits, up to 2**61.

    Raises:
        ParameterError: The step is free, so any number fits, or it does not belong to the rule.

    Example:
        >>> from sparseq.accounting.filters import ZcdpRule
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
