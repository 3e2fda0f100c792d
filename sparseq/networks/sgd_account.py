"""The cost of one run of private gradient descent to each of its examples.

See docs/theorems/individual-sgd.md.

Source: Yu, Kamath, Kulkarni, Liu, Yin & Zhang (2023), "Individual Privacy Accounting for
Differentially Private Stochastic Gradient Descent", Theorem 3.1.

Each step adds the clipped gradients of a Poisson sample and Gaussian noise of deviation
noise · clip. An example whose gradient there has norm z <= clip loses no more than a sampled
Gaussian of noise (noise · clip)/z would cost. Neighbours: add/remove one example.

    refresh(norms)    the gradient norms of all examples at the current model, K times an epoch
    step()            a step was taken
    epsilons(delta)   the total so far, for each example

Norms are rounded **up** to a grid of `levels`. Rounding to nearest, as in the authors' code, is not
a bound: a norm just below the middle of two grid points is charged as the lower one, so that a
term up to half a grid step larger than its charge goes into the sum - at every step, and relatively
most for the small norms that profit from individual accounting. Rounding up costs at most one grid
step, and z -> divergence is increasing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting import _rdp_integers as rdp_integers
from sparseq.accounting import rdp
from sparseq.accounting._numbers import all_in_range, count, in_range, probability
from sparseq.accounting.charge import add_charges
from sparseq.base.errors import ParameterError

SGD_ORDERS = np.array(
    [1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256, 512]
)
"""Default orders: 24, so that a million examples take 200 MB."""
SGD_ORDERS.flags.writeable = False

MOST_LEVELS = 2**15
_CURVE_ERROR = 1 + 2e-12  # of `rdp.subsampled_gaussian`
_SIGMA_DOWN = 1 - 2.0**-50  # covers the roundings of noise · clip / norm
_BLOCK = 1 << 14  # examples per step of a gather: its temporaries stay in cache


class TrajectoryAccount:
    """Every example's own privacy loss along the models that one run has released.

    Statement (output-specific, Theorem 3.1). Fix an example d, an order and a number B. Among all
    sequences of models, take the set A of those along which d's charges add up to at most B. For
    data sets D, D' that differ in d alone and any event S within A,

        P(run on D in S) <= e^epsilon P(run on D' in S) + delta,    and the other way round,

    with epsilon from B, the order and delta as in `rdp.epsilon`. `epsilons` reports it for the
    charges along the one sequence that was observed, at the order that makes it smallest.

    It promises: had d been left out, models of this run and others that are as cheap for d would
    have been about as likely. It does **not** promise that the run is (epsilon_i, delta)-DP for d.
    Other models were possible, along which d is charged more, up to `worst_case`; only that is a
    promise made before the run. It is not a filter and must not decide whether to continue.

    **It is itself private.** epsilon_i is computed from d's gradients, without noise; a large one
    reveals that there is an unusual example. Show it to the curator only.

    Assumptions. Every charged norm bounds the norm that went into the sum. That holds for the
    first step after a `refresh`, and before the first, where everybody is charged `clip`. A later
    step uses norms of an older model: it is an *estimate*, as in the paper's experiments, unless
    each gradient was clipped at `thresholds`; then pass `clipped=True`. `is_bound` is True if all
    steps so far were of the proven kind.

    Proof sketch. Cut the run before the step that would bring d's charges above B. That is a
    stream with losses of at most B almost surely, and so (order, B)-RDP for d (Feldman & Zrnic
    2020, Theorem 2.1); the conversion gives the inequality for every S. Within A the run and the
    cut run are the same.

    Cost: a table of `levels` curves, made once; one gather of the table per refresh; a step only
    counts. Charges are integers, rounded up.

    Args:
        examples: Number of examples, >= 1.
        rate: Sampling probability of each step, in [0, 1].
        noise: The noise's deviation as a multiple of `clip`, > 0.
        clip: Largest norm of an example's gradient in the sum, > 0.
        levels: Grid points of norms in (0, clip], in 1 to 32,768.
        orders: alpha > 1.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> account = TrajectoryAccount(examples=3, rate=0.01, noise=1.0)
        >>> for norms in ([0.1, 0.5, 3.0], [0.0, 0.5, 2.0]):
        ...     account.refresh(norms)
        ...     account.step(clipped=True, times=500)
        >>> account.epsilons(1e-5).round(2)
        array([0.08, 0.69, 2.11])
        >>> account.is_bound, round(account.worst_case(1e-5), 2)
        (True, 2.11)
    """

    def __init__(
        self,
        examples: int,
        rate: float,
        noise: float,
        clip: float = 1.0,
        levels: int = 100,
        orders: ArrayLike = SGD_ORDERS,
    ) -> None:
        self.orders = np.atleast_1d(rdp.checked_orders(orders))
        if self.orders.ndim != 1 or not self.orders.size:
            raise ParameterError(f"orders have shape {self.orders.shape}; one row is needed")
        self.clip = in_range("clip", clip, 2.0**-500, 2.0**500)
        levels = count("levels", levels, high=MOST_LEVELS)
        self.rate = in_range("rate", rate, 0.0, 1.0)
        self.noise = in_range("noise", noise, 0.0, math.inf, open_low=True)
        self._grid = self.clip * (np.arange(levels + 1) / levels)
        self._table = self._charges_by_level()
        self._level = np.full(count("examples", examples), levels, np.uint16)
        self._spent = np.zeros((self._level.size, self.orders.size), np.int64)
        self._pending = 0  # steps at the current levels that are not yet in _spent
        self._steps = 0
        self._norms_are_current = True
        self._estimated = 0

    def refresh(self, norms: ArrayLike) -> None:
        """Set the gradient norm of every example at the current model, before clipping.

        Args:
            norms: Shape (examples,), >= 0; above `clip` they count as `clip`.

        Raises:
            ParameterError: A norm is negative or not finite, or the shape is wrong; nothing
                changes then.
        """
        checked = all_in_range("norm", np.asarray(norms), 0.0)
        if checked.shape != self._level.shape:
            raise ParameterError(f"norms have shape {checked.shape}; {self._level.shape} is needed")
        self._settle()
        top = self._grid.size - 1
        # The first grid point that is not below the norm: an exact comparison, and so rounded up.
        self._level[:] = np.minimum(np.searchsorted(self._grid, checked), top)
        self._norms_are_current = True

    def step(self, times: int = 1, clipped: bool = False) -> None:
        """Charge every example for steps taken, whether it was in the sample or not.

        Args:
            times: Number of steps, >= 1.
            clipped: True if every gradient was clipped at `thresholds`, so that norms of an older
                model still bound it.

        Raises:
            ParameterError: `times` is not a whole number >= 1.
        """
        times = count("times", times)
        if not clipped:
            worst = bool((self._level == self._grid.size - 1).all())  # `clip` bounds every model
            self._estimated += 0 if worst else times - self._norms_are_current
        self._norms_are_current = False
        self._pending += times
        self._steps += times

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Each example's charged norm: its norm, rounded up. Private."""
        return self._grid[self._level]

    @property
    def is_bound(self) -> bool:
        """True if all charges so far are bounds, and none an estimate; see the class."""
        return self._estimated == 0

    def epsilons(self, delta: float) -> NDArray[np.float64]:
        """Return epsilon_i at `delta` for each example, see the class. Private.

        Raises:
            ParameterError: `delta` is not in [2**-500, 1).
        """
        delta = probability("delta", delta)
        self._settle()
        result = np.empty(self._level.size)
        for start in range(0, result.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = rdp.epsilons(
                rdp_integers.nats_up(self._spent[block]), self.orders, delta
            )
        return result

    def worst_case(self, delta: float) -> float:
        """Return epsilon at `delta` for the same steps at norm `clip`: public, and valid for all.

        It requires that the number of steps was fixed in advance.
        """
        total = (
            rdp_integers.times(self._table[-1], self._steps) if self._steps else 0 * self._table[-1]
        )
        return rdp.epsilon(rdp_integers.nats_up(total), self.orders, delta)

    def losses(self) -> NDArray[np.float64]:
        """Return each example's charges at each of `orders` (nats, rounded up). Private."""
        self._settle()
        return rdp_integers.nats_up(self._spent)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `from_state` needs; numpy.savez stores them."""
        self._settle()
        return {
            "setting": np.array([self.rate, self.noise, self.clip]),
            "orders": self.orders.copy(),
            "counters": np.array(
                [self._grid.size - 1, self._steps, self._estimated, self._norms_are_current],
                np.int64,
            ),
            "level": self._level.copy(),
            "spent": self._spent.copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> TrajectoryAccount:
        """Return an account with exactly the saved state.

        Raises:
            ParameterError: The state is not that of such an account.

        Example:
            >>> account = TrajectoryAccount(examples=2, rate=0.01, noise=1.0, levels=4)
            >>> account.refresh([0.1, 0.6])
            >>> account.step()
            >>> TrajectoryAccount.from_state(account.state()).thresholds
            array([0.25, 0.75])
        """
        rate, noise, clip = state["setting"].tolist()
        levels, steps, estimated, current = state["counters"].tolist()
        account = cls(len(state["level"]), rate, noise, clip, levels, state["orders"])
        level, spent = np.asarray(state["level"]), np.asarray(state["spent"])
        fits = spent.shape == account._spent.shape and level.shape == account._level.shape
        if not (fits and spent.dtype == np.int64 and level.dtype == np.uint16):
            raise ParameterError("the saved account is damaged: its arrays don't fit together")
        fits = spent.min() >= 0 and spent.max() <= rdp_integers.NO_BOUND and level.max() <= levels
        if not fits or min(steps, estimated, current) < 0 or estimated > steps:
            raise ParameterError("the saved account is damaged: a number is out of its range")
        account._level[:], account._spent[:] = level, spent
        account._steps, account._estimated = steps, estimated
        account._norms_are_current = bool(current)
        return account

    def _settle(self) -> None:
        """Charge all accounts for the steps since the last refresh: the one gather."""
        if not self._pending:
            return
        charges = rdp_integers.times(self._table, self._pending)
        for start in range(0, self._level.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            self._spent[block] = add_charges(self._spent[block], charges[self._level[block]])
        self._pending = 0

    def _charges_by_level(self) -> NDArray[np.int64]:
        """Return the charge of one step at each grid point and order, rounded up; 0 at norm 0."""
        table = np.zeros((self._grid.size, self.orders.size), np.int64)
        for level, norm in enumerate(self._grid.tolist()):
            if norm:
                sigma = self.noise * (self.clip / norm) * _SIGMA_DOWN
                curve = rdp.subsampled_gaussian(self.rate, sigma, self.orders)
                table[level] = rdp_integers.units_up(curve * _CURVE_ERROR)
        return table
