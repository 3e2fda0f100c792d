"""Odometers: the privacy loss so far, without a limit set beforehand.

    IndividualOdometer    each user's own loss, at one order, in blocks (Feldman & Zrnic 2020)
    LecuyerOdometer       one bound for everybody, over a set of orders (Lécuyer 2021)

They have different uses. The first reports a user's loss after a number of blocks *fixed in
advance*: "the first k blocks cost at most k · block". If it decides when to stop, k depends on the
answers, and the sentence is no longer proven (Lécuyer 2021, section 4.2). The second is valid if a
stream stops at any time and for any reason: its failure probability is spread over all sizes that
it may ever show. That costs about 30 % of epsilon.

A filter keeps a promise made beforehand; an odometer only measures. Neighbours: add/remove one
user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting import _rdp_integers as rdp_integers
from sparseq.accounting import rdp
from sparseq.accounting._numbers import count, in_range, probability, spendable, whole_numbers
from sparseq.accounting._rdp_integers import NO_BOUND, nats_up, times, units_up
from sparseq.accounting.charge import add_charges
from sparseq.base.errors import ParameterError

State = Mapping[str, NDArray[Any]]
"""A state that `state` returns and `from_state` takes; numpy.savez can store it."""

TEXT_ORDERS = np.array([1 + k / 4 for k in range(1, 37)] + [16.0, 32.0])
"""The 38 orders of Lécuyer (2021), section 4.5: 1.25, 1.5, ..., 10, 16, 32."""
CODE_ORDERS = np.array([2 + k / 4 for k in range(1, 33)] + [16.0, 32.0])
"""The 34 orders of the code released with it: 2.25, 2.5, ..., 10, 16, 32."""
TEXT_START, CODE_START = 1.0, 0.25
"""Size of the first filters, in log(2 |orders| / delta)/(alpha - 1): section 4.5, and the code."""

ODOMETER_ORDERS = np.array(
    [2 + k / 4 for k in range(1, 33)] + [12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0, 40.0, 48.0, 64.0]
)
"""Default orders, 42: 2.25, 2.5, ..., 10, then 12 to 64 in growing steps. See `LecuyerOdometer`."""
ODOMETER_START = CODE_START
"""Default size of the first filters."""
for _orders in (TEXT_ORDERS, CODE_ORDERS, ODOMETER_ORDERS):
    _orders.flags.writeable = False

BLOCK_RANGE = (2.0**-30, 2.0**20)
START_RANGE = (2.0**-20, 2.0**20)
_LARGEST_FILTER = 2**60  # largest first filter, in units; orders near 1 would exceed it
_BLOCK = 1 << 15  # users per step: the temporaries stay in cache
_ROUNDING = 1 + 2.0**-50  # covers the few roundings of a sum of positive terms


class IndividualOdometer:
    """Every user's own Rényi loss so far, in whole blocks.

    See docs/theorems/individual-odometer.md.

    Source: Feldman & Zrnic (2020, workshop), Algorithm 2 and Corollary 2.3.

    Statement. Fix a user i and a number k, both independent of the data and of the answers. All
    releases until just before i's odometer would pass k · block differ, with i's rows and without,
    by at most k · block in Rényi divergence of order `order`, in both directions.

    Assumptions. At step t, `rho` holds for each user an individual RDP parameter of the mechanism
    at this order (for a Gaussian, order · ||q(X_i)||² / (2 sigma²)); it may depend on all earlier
    answers. Corollary 2.3 asks that no single loss exceed `block`. A larger loss fills several
    blocks here, as many as the proof needs, instead of being an error: an error would reveal
    something about that user's rows.

    Limits of use. It must not decide when to stop (see the module), and a user may see only their
    own: it is computed from the user's data, without noise.

    Proof sketch. The losses of the blocks so far add up to at most blocks · block, by construction.
    So the stream, cut just before a user's odometer passes k · block, has losses whose sum is at
    most k · block almost surely, and Theorem 2.1 applies with B = k · block.

    Cost: a few passes over the users named in a step. Losses are integers of 2**-40 nats, rounded
    up; `block` is rounded down to one.

    Args:
        users: Number of users, >= 1.
        order: alpha > 1.
        block: Delta of the paper (nats), in [2**-30, 2**20].

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> odometer = IndividualOdometer(users=3, order=2.0, block=0.5)
        >>> for _ in range(4):
        ...     odometer.step(np.array([0.0, 0.25, 0.375]))
        >>> odometer.losses()
        array([0.5, 1. , 2. ])
    """

    def __init__(self, users: int, order: float, block: float) -> None:
        self.order = in_range("order", order, 1.0, math.inf, open_low=True)
        block = in_range("block", block, *BLOCK_RANGE)
        self._block = math.floor(math.ldexp(block, 40))
        self._fill = np.zeros(count("users", users), np.int64)
        self._blocks = np.ones_like(self._fill)

    @property
    def blocks(self) -> NDArray[np.int64]:
        """k of Algorithm 2 for each user: the number of blocks begun, at least 1."""
        return self._blocks.copy()

    def step(self, rho: ArrayLike, users: NDArray[np.int64] | None = None) -> None:
        """Add one step's individual losses.

        Args:
            rho: For each user, or each of `users`: rho >= 0 at this odometer's order (nats).
            users: Indices of these users, each once; all, in order, by default.

        Raises:
            ParameterError: A loss is negative or not finite, or the users don't fit; nothing is
                added then.
        """
        named = None if users is None else self._check(users)
        losses = spendable("rho", rho)
        size = self._fill.size if named is None else named.size
        if losses.shape != (size,):
            raise ParameterError(f"rho has shape {losses.shape}; {(size,)} is needed")
        for start in range(0, size, _BLOCK):
            block = slice(start, start + _BLOCK)
            self._add(block if named is None else named[block], units_up(losses[block]))

    def _add(self, users: NDArray[np.int64] | slice, losses: NDArray[np.int64]) -> None:
        """Algorithm 2 for some users, in units."""
        fill = self._fill[users]
        total = fill + losses
        over = np.flatnonzero(total > self._block)
        if over.size:
            large = losses[over]
            filled = -(-large // self._block)
            total[over] = large - (filled - 1) * self._block
            begun = filled - (fill[over] == 0)  # an empty block is not skipped
            begun[large == NO_BOUND] = NO_BOUND
            where = over + users.start if isinstance(users, slice) else users[over]
            self._blocks[where] = add_charges(self._blocks[where], begun)
        self._fill[users] = total

    def losses(self) -> NDArray[np.float64]:
        """Return blocks · block for each user: RDP at `order` (nats), rounded up; inf for no bound.

        The loss is that user's alone, and private.
        """
        return nats_up(times(self._blocks, self._block))

    def epsilons(self, delta: float) -> NDArray[np.float64]:
        """Return the epsilon at `delta` of each user's loss, see `rdp.epsilon`.

        Raises:
            ParameterError: `delta` is not in [2**-500, 1).
        """
        return rdp.epsilons(self.losses()[:, None], [self.order], delta)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `from_state` needs."""
        return {
            "order": np.array(self.order),
            "block": np.array(self._block),
            "fill": self._fill.copy(),
            "blocks": self._blocks.copy(),
        }

    @classmethod
    def from_state(cls, state: State) -> IndividualOdometer:
        """Return an odometer with exactly the saved state.

        Raises:
            ParameterError: The state is not that of such an odometer.

        Example:
            >>> odometer = IndividualOdometer(users=2, order=2.0, block=0.5)
            >>> odometer.step([0.25, 3.0])
            >>> IndividualOdometer.from_state(odometer.state()).losses()
            array([0.5, 3. ])
        """
        block = math.ldexp(int(state["block"]), -40)
        odometer = cls(np.size(state["fill"]), float(state["order"]), block)
        odometer._fill[:] = _save("fill", state["fill"], odometer._fill, 0, odometer._block)
        odometer._blocks[:] = _save("blocks", state["blocks"], odometer._blocks, 1)
        return odometer

    def _check(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        users = whole_numbers("a user", users, 0, self._fill.size - 1)
        if users.ndim != 1:
            raise ParameterError(f"users have shape {users.shape}; one row is needed")
        if np.unique(users).size < users.size:
            raise ParameterError("a user is named twice in one step", "add up its losses first")
        return users


class LecuyerOdometer:
    """A bound on the privacy loss so far that holds for any time and reason of stopping.

    Source: Lécuyer (2021), Algorithm 2, Theorem 2, equation 5 and section 4.5.

    Statement. Let the curve of each step depend on earlier answers in any way, and also the time
    at which the stream ends. With probability at least 1 - delta over the answers, their privacy
    loss log P(answers | X) / P(answers | X') is at most `epsilon()` at that time, for neighbours
    X, X' in either order. So P(E) <= e^e P'(E) + delta for every number e and every set E of runs
    that end with `epsilon()` <= e.

    Assumptions. At each step `rdp` bounds the mechanism's Rényi divergence at each of the orders,
    for any data; orders, delta and start are fixed in advance. It is one account for all users.
    Curves that depend on a user's own data would make epsilon() private, and belong in
    `IndividualOdometer`.

    Proof sketch. At each order alpha, filters of sizes start · L / (alpha - 1) · 2**(f-1), with
    f = 1, 2, ... and L = log(2 |orders| / delta), all run from the beginning (nested, not one after
    another). Cut at the step that filter f would refuse, the stream has at most that Rényi
    divergence (Theorem 1), so that its loss exceeds size + log(2 |orders| f² / delta) / (alpha - 1)
    with probability at most delta / (2 |orders| f²). These add up to less than delta over all f and
    orders: all bounds hold at once, so the smallest does. The bound at alpha is that of the first
    filter which has not refused.

    Default orders and start. For a Gaussian and four sampled ones (rates 0.001 to 0.01, noise 0.7
    to 2), at delta 1e-5, 1e-6 and 1e-9, compare with the epsilon of plain RDP (Mironov's
    conversion, best of all orders). If that is from 1 to 10, epsilon() is 1.30 times as large
    in the geometric mean; from 0.3 to 20, it is at most 1.79 times as large. With the orders and
    start of the paper's text these are 1.44 and 5.39, with those of its released code 1.34 and
    3.35: both lack orders for small epsilons, and the text's first filters are too large. See
    docs/theorems/lecuyer-odometer.md.

    Cost: O(orders) per step and per reading, for any number of earlier steps.

    Args:
        delta: delta of the whole odometer, in [2**-500, 1).
        orders: alpha > 1, each once.
        start: Size of the first filters: in [2**-20, 2**20], as a multiple of L / (alpha - 1).

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> odometer = LecuyerOdometer(delta=1e-6)
        >>> epoch = rdp.subsampled_gaussian(512 / 50_000, 1.0, odometer.orders)
        >>> odometer.step(epoch, times=20 * 98)
        >>> round(odometer.epsilon(), 3)
        4.793
    """

    def __init__(
        self, delta: float, orders: ArrayLike = ODOMETER_ORDERS, start: float = ODOMETER_START
    ) -> None:
        self.delta = probability("delta", delta)
        self.orders = rdp.checked_orders(orders)
        self.start = in_range("start", start, *START_RANGE)
        if self.orders.ndim != 1 or not self.orders.size:
            raise ParameterError(f"orders have shape {self.orders.shape}; one row is needed")
        if np.unique(self.orders).size < self.orders.size:
            raise ParameterError("an order is there twice", "each order costs; give each once")
        self._log = math.log(2 * self.orders.size / self.delta)
        sizes = np.ldexp(self.start * self._log / (self.orders - 1), 40)
        self._first = [int(s) for s in np.clip(sizes, 1, _LARGEST_FILTER)]
        self._spent = np.zeros(self.orders.size, np.int64)

    def step(self, rdp_values: ArrayLike, times: int = 1) -> None:
        """Add the curve of a past or future step.

        Args:
            rdp_values: RDP (nats) at each of `orders`; inf without a bound.
            times: Number of such steps, >= 1.

        Raises:
            ParameterError: The curve doesn't fit, or has a negative number or a NaN; nothing is
                added then.
        """
        values = rdp.evaluate(lambda _: np.asarray(rdp_values), self.orders)
        units = rdp_integers.times(units_up(values), count("times", times))
        self._spent = add_charges(self._spent, units)

    def spent(self) -> NDArray[np.float64]:
        """Return the sum of all curves so far (nats, rounded up).

        It is a guarantee by itself only if the curves and their number were fixed in advance.
        """
        return nats_up(self._spent)

    def filters(self) -> NDArray[np.int64]:
        """Return f at each order: the index of the first filter that has not refused."""
        spent = self._spent.tolist()
        full = [-(-used // first) for used, first in zip(spent, self._first, strict=True)]
        return np.array([1 + max(ratio - 1, 0).bit_length() for ratio in full])

    def epsilon(self) -> float:
        """Return the bound on the privacy loss so far, rounded up; inf if no order has one."""
        return float(self._candidates().min())

    def best_order(self) -> float:
        """Return the order that gives `epsilon`."""
        return float(self.orders[self._candidates().argmin()])

    def _candidates(self) -> NDArray[np.float64]:
        """Return Theorem 2 with equation 5, at each order."""
        f = self.filters().astype(np.float64)
        size = np.ldexp(np.array(self._first, np.float64), f.astype(np.int64) - 41)
        tail = (self._log + 2 * np.log(f)) / (self.orders - 1)
        return np.where(self._spent < NO_BOUND, (size + tail) * _ROUNDING, np.inf)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `from_state` needs."""
        return {
            "delta": np.array(self.delta),
            "orders": self.orders.copy(),
            "start": np.array(self.start),
            "spent": self._spent.copy(),
        }

    @classmethod
    def from_state(cls, state: State) -> LecuyerOdometer:
        """Return an odometer with exactly the saved state.

        Raises:
            ParameterError: The state is not that of such an odometer.

        Example:
            >>> odometer = LecuyerOdometer(delta=1e-6)
            >>> odometer.step(rdp.gaussian(5.0, odometer.orders))
            >>> LecuyerOdometer.from_state(odometer.state()).epsilon() == odometer.epsilon()
            True
        """
        odometer = cls(float(state["delta"]), state["orders"], float(state["start"]))
        odometer._spent[:] = _save("spent", state["spent"], odometer._spent, 0)
        return odometer


def dyadic_orders(users: int) -> NDArray[np.float64]:
    """Return 2, 4, 8, ... up to users²: few orders that reach down to epsilons of 1/users².

    Source: Lécuyer (2021), section 4.5. With them the odometer depends on the number of users like
    the lower bound of Rogers et al. (2016, Theorem 6.1). They are for very small epsilons: between
    1 and 10 they are too few.

    Args:
        users: n, in [2, 2**500].

    Raises:
        ParameterError: `users` is out of its range.

    Example:
        >>> dyadic_orders(10)
        array([ 2.,  4.,  8., 16., 32., 64.])
    """
    users = count("users", users, low=2, high=2**500)
    return np.ldexp(1.0, np.arange(1, (users * users).bit_length()))


def _save(
    name: str,
    values: NDArray[Any],
    like: NDArray[np.int64],
    low: int,
    high: int = NO_BOUND,
) -> NDArray[np.int64]:
    """Return saved integers, if they have the required shape and range."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != like.shape:
        raise ParameterError(f"the saved {name} are no row of {like.size} whole numbers")
    wrong = array[(array < low) | (array > high)]
    if wrong.size:
        raise ParameterError(f"saved {name} is {wrong[0].item()!r}; it must be in [{low}, {high}]")
    return array.astype(np.int64)
