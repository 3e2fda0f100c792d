"""The promise of a sampled run, and what it has cost: a filter, and an odometer.

    filter     keeps (epsilon, delta) promised beforehand; says when to stop
    odometer   tells what has been spent, true whenever one stops, for whatever reason

Lécuyer (2021), sections 3.3 and 4, as mended in docs/theorems/renyi-curve-filter.md. Both are about
everybody; the accounts below keep a filter a user.

Costs of the next epochs, decided from noised training accuracy (Lécuyer 2021, section 5).

    SpendLess    under a filter: save while accuracy grows, and train for longer (section 5.1)
    SpendMore    under an odometer: begin cheaply, and pay more where accuracy doesn't grow (5.2)

Now and then the run asks how many users the model is right about, by a Gaussian that is paid for as
the steps are. "Grew" is by at least `GROWN` standard deviations of that noise. A policy sees that,
and what the account has left: released numbers, so that what it decides is public.

Accounts of a sampled run, one a user: Yu et al.'s report, and a filter.

    refresh    now and then everybody's norm is computed at the current model, and rounded up to a
               grid: it is the user's *limit* until the next refresh
    report     what the run has cost each user along the models released (Yu et al. 2023)
    filter     who can't pay for full limits until the next refresh gets a smaller one, down to
               none; so training goes on with the others (Feldman & Zrnic 2021, Theorem 4.5)

**Why the filter is one.** Until the next refresh a user's vector is cut to the user's own limit, so
that each step costs the user at most a sampled Gaussian at that limit, drawn or not: an individual
divergence in the sense of Definition 2.5, see `sparseq.training.sgd.sampled_steps`. The limit is a
function of the user's own records, of released models and of the user's own account, which is a
function of these two. All steps until the next refresh are paid when the limit is set, so that a
limit that fits once is paid for as often as it is used. Shapes of curves depend on norms: the rule
is the one for adaptive shapes.

With `cut=False` gradients are cut to `clip` only, as in the paper's experiments: the report is then
an estimate, as norms may have grown since they were computed, and there can be no filter.

**All of it is private**: made from everybody's rows, without noise. It is the curator's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from sparseq.accounting import rdp
from sparseq.base.errors import ParameterError
from sparseq.engine.contributions import Index
from sparseq.papers.filters import Filter, IndividualFilter, RenyiCurveRule
from sparseq.papers.odometers import LecuyerOdometer
from sparseq.papers.sgd_account import TrajectoryAccount
from sparseq.training.protocol import Floats, GradientEngine
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
        if self._filter is not None and not self._filter.admit(self._price(step, 1)):
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
            fits = self._filter.would_admit(self._price(step, middle))
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _price(self, step: SampledGaussian, times: int) -> Floats:
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
    """The cost of a step: `noise` over clip, and each user's probability `sampling`."""

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


# -- accounts of a sampled run, one a user: Yu et al.'s report, and a filter -----------------------

LEVELS = 100


class IndividualAccounts:
    """Everybody's own account. Private.

    Args:
        users: How many.
        step: What is taken again and again.
        rule: What nobody may pass; None: no filter, a report only.
        cut: Whether gradients are cut to everybody's own limit; with a filter they are.

    Example:
        >>> from sparseq.training.sgd.promise import rule_for
        >>> step = SampledGaussian.of(0.1, noise=2.0)
        >>> own = IndividualAccounts(2, step, rule_for(1.0, 1e-5, [(step, 20)]))
        >>> own.refresh(np.array([0.101, 3.0]), steps=10).round(2).tolist()
        [0.11, 1.0]
        >>> own.refresh(np.array([0.101, 3.0]), steps=10).round(2).tolist()
        [0.11, 0.49]
    """

    def __init__(
        self, users: int, step: SampledGaussian, rule: RenyiCurveRule | None, cut: bool = True
    ) -> None:
        self.cut = cut or rule is not None
        self.report = TrajectoryAccount(users, step.sampling, step.noise, step.clip, LEVELS)
        self._clip = step.clip
        self._filter: IndividualFilter | None = None
        if rule is not None:
            self._filter = IndividualFilter(rule, users)
            self._table = np.stack(
                [step.curve(rule.orders, share=k / LEVELS) for k in range(LEVELS + 1)]
            )

    def refresh(self, norms: Floats, steps: int) -> Floats:
        """Return everybody's limit for so many steps, and charge for them.

        Args:
            norms: At the current model, before clipping.
            steps: Until the next refresh.
        """
        self.report.refresh(norms)
        if self._filter is None:
            limits = self.report.thresholds
        else:
            limits = self._affordable(self.report.thresholds, steps)
            self.report.refresh(limits)
        return limits if self.cut else np.full(len(norms), self._clip)

    def stepped(self) -> None:
        """Charge a step in the report."""
        self.report.step(clipped=self.cut)

    def _affordable(self, wanted: Floats, steps: int) -> Floats:
        """Return the largest limits on the grid that everybody can pay for, by bisection."""
        assert self._filter is not None
        prices = np.minimum(self._table * (steps * _ROUNDING), 2.0**60)
        most = np.rint(wanted * (LEVELS / self._clip)).astype(np.int64)
        fits = self._filter.would_admit(prices[most])
        low, high = np.where(fits, most, 0), np.where(fits, most, most - 1)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._filter.would_admit(prices[middle])
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        paid = self._filter.admit(prices[low])
        return np.where(paid, self._clip * (low / LEVELS), 0.0)

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, as arrays."""
        state = {f"report {name}": value for name, value in self.report.state().items()}
        if self._filter is not None:
            state["spent"] = np.stack(self._filter.state()["spent"])
        return state

    def restore(self, state: Any) -> None:
        """Go on exactly where the accounts that gave `state` were."""
        report = {n.removeprefix("report "): state[n] for n in state if n.startswith("report ")}
        self.report = TrajectoryAccount.from_state(report)
        if self._filter is not None:
            saved = {**self._filter.state(), "spent": list(state["spent"])}
            self._filter = IndividualFilter.from_state(saved)


def norms_of(engine: GradientEngine, params: Floats, everybody: Index) -> Floats:
    """Return everybody's gradient norm, in order of user. Private."""
    norms = np.zeros(len(everybody))
    for batch in engine.batches():
        with np.errstate(all="ignore"):
            own, _ = engine.query(params, batch)
        norms[np.searchsorted(everybody, batch.users)] = own
    return np.minimum(np.nan_to_num(norms, nan=0.0), np.finfo(np.float64).max)
