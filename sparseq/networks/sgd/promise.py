"""The promise and the spending of a sampled run: a filter, and an odometer.

    filter     keeps (epsilon, delta) promised beforehand; decides when to stop
    odometer   reports the spent budget; it is valid whenever and for whatever reason a run stops

Lécuyer (2021), sections 3.3 and 4, as corrected in docs/theorems/renyi-curve-filter.md. Both are
about all users together; `sparseq.networks.sgd.accounts` has a filter for each user.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparseq.accounting import rdp
from sparseq.accounting.filters import Filter, RenyiCurveRule
from sparseq.accounting.odometers import LecuyerOdometer
from sparseq.base.errors import ParameterError
from sparseq.networks.sgd.sampled_steps import LEAST_NOISE, SampledGaussian
from sparseq.training.protocol import Floats

Plan = list[tuple[SampledGaussian, int]]
"""Steps, and how many of each."""

ADAPTIVE_ORDERS = np.array([0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0])
"""Factors of the best order's excess over 1, if steps may change their shape.

Each order costs part of delta. Steps that cost less than planned are better at higher orders.
"""
ROUNDING = 1 + 2.0**-50
_MOST_NOISE = 2.0**20


@lru_cache(maxsize=1024)
def _curve(step: SampledGaussian, orders: tuple[float, ...]) -> Floats:
    return step.curve(np.array(orders))


def total(plan: Plan, orders: tuple[float, ...]) -> Floats:
    """Return the RDP of the steps of a plan, rounded up."""
    parts = [_curve(step, orders) * (times * ROUNDING) for step, times in plan]
    return np.asarray(sum(parts, np.zeros(len(orders))) * ROUNDING)


def rule_for(epsilon: float, delta: float, plan: Plan | None = None) -> RenyiCurveRule:
    """Return the rule that keeps (epsilon, delta).

    Args:
        epsilon, delta: The promise.
        plan: None if all steps are fixed beforehand: each order then has all of delta. If their
            shapes may depend on releases, or on a user, orders share delta, and the best order for
            this plan has most of it.

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
    """Return approximately the least noise, over clip, at which `steps` steps fit.

    Args:
        rule: The limit.
        sampling: The rate.
        steps: Number of steps.
        asides: Other costs, (step, times) each.

    Raises:
        ParameterError: No noise is enough: the asides alone are too expensive.

    Example:
        >>> rule = rule_for(epsilon=1.0, delta=1e-5)
        >>> round(noise_for(rule, sampling=256 / 60_000, steps=60 * 234), 2)
        2.18
    """

    def fits(noise: float) -> bool:
        step = SampledGaussian.of(sampling, noise)
        plan = [(step, steps), *(asides or [])]
        costs = sum(step.curve(rule.orders) * times for step, times in plan) * ROUNDING**4
        return bool(Filter(rule).would_admit(np.minimum(costs, 2.0**60)))

    if not fits(_MOST_NOISE):
        raise ParameterError(
            "the questions besides the steps cost more than epsilon", "ask for fewer checks"
        )
    if fits(LEAST_NOISE):
        return LEAST_NOISE
    low, high = LEAST_NOISE, _MOST_NOISE
    while high - low > 1e-4 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


class Promise:
    """The account of a run, for all users together.

    Args:
        rule: The promise; None: no promise, and only the odometer runs.
        delta: delta of the odometer.

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
        """Charge the next step, and return True if it may be taken."""
        if self._filter is not None and not self._filter.admit(self._price(step, 1)):
            return False
        self.odometer.step(_curve(step, self._orders))
        return True

    def left(self, step: SampledGaussian, most: int = 1 << 20) -> int:
        """Return the number of further such steps that fit, at most `most`."""
        if self._filter is None:
            return most
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._filter.would_admit(self._price(step, middle))
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _price(self, step: SampledGaussian, times: int) -> Floats:
        assert self._filter is not None
        orders: tuple[float, ...] = self._filter.rule.orders  # type: ignore[attr-defined]
        return np.asarray(np.minimum(total([(step, times)], orders), 2.0**60))

    def state(self) -> dict[str, Any]:
        """Return the arrays that `restore` needs."""
        spent = [] if self._filter is None else self._filter.state()["spent"]
        return {"spent": np.array(spent, np.int64), "odometer": self.odometer.state()["spent"]}

    def restore(self, state: Any) -> None:
        """Restore the account that gave `state`, exactly."""
        if self._filter is not None:
            spent = state["spent"].tolist()
            self._filter = Filter.from_state({**self._filter.state(), "spent": spent})
        self.odometer = LecuyerOdometer.from_state(
            {**self.odometer.state(), "spent": state["odometer"]}
        )
