"""The promise of a sampled run, and what it has cost: a filter, and an odometer.

    filter     keeps (epsilon, delta) promised beforehand; says when to stop
    odometer   tells what has been spent, true whenever one stops, for whatever reason

Lécuyer (2021), sections 3.3 and 4, as mended in docs/theorems/renyi-curve-filter.md. Both are about
everybody: `sparseq.training.sgd.individual` keeps a filter a user.

Costs of the next epochs, decided from noised training accuracy (Lécuyer 2021, section 5).

    SpendLess    under a filter: save while accuracy grows, and train for longer (section 5.1)
    SpendMore    under an odometer: begin cheaply, and pay more where accuracy doesn't grow (5.2)

Now and then the run asks how many users the model is right about, by a Gaussian that is paid for as
the steps are. "Grew" is by at least `GROWN` standard deviations of that noise. A policy sees that,
and what the account has left: released numbers, so that what it decides is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from sparseq.accounting import rdp
from sparseq.base.errors import ParameterError
from sparseq.papers.filters import Filter, RenyiCurveRule
from sparseq.papers.odometers import LecuyerOdometer
from sparseq.training.protocol import Floats
from sparseq.training.sgd.sampled_steps import LEAST_NOISE, SampledGaussian

# -- the promise of a sampled run, and what it has cost: a filter, and an odometer -----------------

Plan = list[tuple[SampledGaussian, int]]
"""Steps, and how many of each."""

ADAPTIVE_ORDERS = np.array([0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0])
"""By which the best order's excess over 1 is multiplied, where steps may change their shape.

Each order costs part of delta. Steps that cost less than planned are better at higher orders.
"""
_ROUNDING = 1 + 2.0**-50
_MOST_NOISE = 2.0**20


@lru_cache(maxsize=1024)
def _curve(step: SampledGaussian, orders: tuple[float, ...]) -> Floats:
    return step.curve(np.array(orders))


def total(plan: Plan, orders: tuple[float, ...]) -> Floats:
    """Return the RDP of steps, so many times each, rounded up."""
    parts = [_curve(step, orders) * (times * _ROUNDING) for step, times in plan]
    return np.asarray(sum(parts, np.zeros(len(orders))) * _ROUNDING)


def rule_for(epsilon: float, delta: float, plan: Plan | None = None) -> RenyiCurveRule:
    """Return the rule that keeps (epsilon, delta).

    Args:
        epsilon, delta: What is promised.
        plan: None where all steps are fixed beforehand: each order then has all of delta. Where
            their shapes may depend on what was released, or on a user, orders share delta, and
            the one that is best for this plan has most of it.

    Example:
        >>> plan = [(SampledGaussian.of(0.01, noise=2.0), 1000)]
        >>> [round(order, 1) for order in rule_for(1.0, 1e-5, plan).orders]
        [17.0, 23.4, 33.0, 45.8, 65.0, 129.0]
    """
    fixed = RenyiCurveRule.for_target(epsilon, delta, rdp.DEFAULT_ORDERS, adaptive=False)
    if plan is None:
        return fixed
    best = np.argmin(total(plan, fixed.orders) / np.array(fixed.rhos))
    orders = 1 + (fixed.orders[best] - 1) * ADAPTIVE_ORDERS
    weights = np.where(ADAPTIVE_ORDERS == 1, 0.8, 0.2 / (len(orders) - 1))
    return RenyiCurveRule.for_target(epsilon, delta, orders, weights, adaptive=True)


def noise_for(
    rule: RenyiCurveRule, sampling: float, steps: int, asides: Plan | None = None
) -> float:
    """Return about the least noise, over clip, at which so many steps fit.

    Args:
        rule: What must not be passed.
        sampling: The rate.
        steps: How many.
        asides: What else is to be paid, (step, times) each.

    Raises:
        ParameterError: No noise is enough: the asides alone are too much.

    Example:
        >>> rule = rule_for(epsilon=1.0, delta=1e-5)
        >>> round(noise_for(rule, sampling=256 / 60_000, steps=60 * 234), 2)
        2.18
    """

    def fits(noise: float) -> bool:
        step = SampledGaussian.of(sampling, noise)
        plan = [(step, steps), *(asides or [])]
        costs = sum(step.curve(rule.orders) * times for step, times in plan) * _ROUNDING**4
        return bool(Filter(rule).would_admit(np.minimum(costs, 2.0**60)))

    if not fits(_MOST_NOISE):
        raise ParameterError(
            "what is asked besides the steps costs more than epsilon", "ask for fewer checks"
        )
    if fits(LEAST_NOISE):
        return LEAST_NOISE
    low, high = LEAST_NOISE, _MOST_NOISE
    while high - low > 1e-4 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


class Promise:
    """The account of a run: one for everybody.

    Args:
        rule: What was promised; None: nothing, and only the odometer runs.
        delta: The odometer's.

    Example:
        >>> promise = Promise(rule_for(1.0, 1e-5), 1e-5)
        >>> step = SampledGaussian.of(0.01, noise=2.0)
        >>> promise.pay(step), promise.left(step)
        (True, 2044)
        >>> round(promise.odometer.epsilon(), 2)
        0.64
    """

    def __init__(self, rule: RenyiCurveRule | None, delta: float) -> None:
        self._filter = None if rule is None else Filter(rule)
        self.odometer = LecuyerOdometer(delta)
        self._orders = tuple(self.odometer.orders.tolist())

    def pay(self, step: SampledGaussian) -> bool:
        """Charge a step that is about to be taken, and return whether it may be."""
        if self._filter is not None and not self._filter.admit(self._priced(step, 1)):
            return False
        self.odometer.step(_curve(step, self._orders))
        return True

    def left(self, step: SampledGaussian, most: int = 1 << 20) -> int:
        """Return how many more such steps fit, at most `most`."""
        if self._filter is None:
            return most
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._filter.would_admit(self._priced(step, middle))
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _priced(self, step: SampledGaussian, times: int) -> Floats:
        assert self._filter is not None
        orders: tuple[float, ...] = self._filter.rule.orders  # type: ignore[attr-defined]
        return np.asarray(np.minimum(total([(step, times)], orders), 2.0**60))

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, as arrays."""
        spent = [] if self._filter is None else self._filter.state()["spent"]
        return {"spent": np.array(spent, np.int64), "odometer": self.odometer.state()["spent"]}

    def restore(self, state: Any) -> None:
        """Go on exactly where the account that gave `state` was."""
        if self._filter is not None:
            spent = state["spent"].tolist()
            self._filter = Filter.from_state({**self._filter.state(), "spent": spent})
        self.odometer = LecuyerOdometer.from_state(
            {**self.odometer.state(), "spent": state["odometer"]}
        )


# -- costs of the next epochs ----------------------------------------------------------------------

GROWN = 3.0


@dataclass(frozen=True)
class StepCost:
    """What a step costs: `noise` over clip, and each user's probability `sampling`."""

    noise: float
    sampling: float


class Policy(Protocol):
    """Says after each question how to go on."""

    @property
    def every(self) -> float:
        """Epochs between questions."""
        ...

    def adapted(
        self, now: StepCost, start: StepCost, grew: bool, epochs_left: Callable[[], float]
    ) -> StepCost:
        """Return the setting until the next question."""
        ...


@dataclass(frozen=True)
class SpendLess:
    """Pay less while accuracy grows, and more, up to what was planned, where it doesn't.

    Attributes:
        noise: Added to the noise, or taken from it; the paper: 0.1.
        sampling: Taken from the sampling rate, or added; the paper: 128 users of 50,000.
        least_sampling: The rate doesn't fall below; the paper: 256 users.
        every: Epochs between questions.
        room: Less is paid only while more than so many epochs are left at the present price.

    Example:
        >>> start = StepCost(noise=1.0, sampling=0.01)
        >>> SpendLess(noise=0.1).adapted(start, start, True, lambda: 60.0)
        StepCost(noise=1.1, sampling=0.01)
    """

    noise: float = 0.0
    sampling: float = 0.0
    least_sampling: float = 0.0
    every: float = 10.0
    room: float = 50.0

    def __post_init__(self) -> None:
        if min(self.noise, self.sampling, self.least_sampling, self.room) < 0 or self.every <= 0:
            raise ParameterError("a policy's numbers are at least 0, and `every` is above 0")
        if not self.noise and not self.sampling:
            raise ParameterError("the policy changes nothing", "give noise or sampling")

    def adapted(
        self, now: StepCost, start: StepCost, grew: bool, epochs_left: Callable[[], float]
    ) -> StepCost:
        """Return the setting until the next question."""
        if not grew:
            return StepCost(
                max(now.noise - self.noise, start.noise),
                min(now.sampling + self.sampling, start.sampling),
            )
        if epochs_left() <= self.room:
            return now
        least = min(self.least_sampling or now.sampling - self.sampling, now.sampling)
        sampling = max(now.sampling - self.sampling, least)
        return StepCost(now.noise + self.noise, sampling if sampling > 0 else now.sampling)


@dataclass(frozen=True)
class SpendMore:
    """Take from the noise whenever accuracy has not grown.

    Attributes:
        noise: Taken from the noise; the paper: 0.1.
        least_noise: It doesn't fall below.
        every: Epochs between questions.

    Example:
        >>> start = StepCost(noise=2.0, sampling=0.01)
        >>> SpendMore().adapted(start, start, False, lambda: 0.0)
        StepCost(noise=1.9, sampling=0.01)
    """

    noise: float = 0.1
    least_noise: float = 0.5
    every: float = 1.0

    def __post_init__(self) -> None:
        if not self.noise > 0 or self.every <= 0 or self.least_noise < LEAST_NOISE:
            raise ParameterError(
                f"noise and every are above 0, least_noise is at least {LEAST_NOISE}"
            )

    def adapted(
        self, now: StepCost, start: StepCost, grew: bool, epochs_left: Callable[[], float]
    ) -> StepCost:
        """Return the setting until the next question."""
        if grew:
            return now
        return StepCost(max(now.noise - self.noise, self.least_noise), now.sampling)
