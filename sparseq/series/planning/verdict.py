"""One verdict for a series: forecasts, a strategy, or neither, by both halves of known data.

Plain means a part of the budget that is enough for every tick of every user: the noise of
worst-case composition, and no assumption about people who are out. Another method is recommended
only if the choice made on the first half of the data would have been better on both halves, and on
all data, in its error and in the width of its intervals: the largest of these ratios to plain
decides (minimax), and it must be 2 % below 1. The assumed error of forecasts is that of the second
half, run with the choice made on the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.base.defaults import BETA
from sparseq.base.errors import DataError
from sparseq.ledger.purposes import ROUNDED, Purpose
from sparseq.series.left_out import allowance
from sparseq.series.methods.corrector import PostProcessing
from sparseq.series.plan_alarm import seen_range
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_search import Candidate, PlanSearch, plan
from sparseq.series.planning.plan_strategies import PlanTarget, StrategySearch
from sparseq.series.planning.simulate import Simulation, simulate
from sparseq.series.planning.simulate_strategy import (
    MeasuredStream,
    StrategySetting,
    simulate_setting,
    window_sums,
)
from sparseq.series.query_series import tick_cost

PLAIN, FORECAST, STRATEGY = "plain", "forecast", "strategy"
LEAST_GAIN = 0.98
_SCALES = 24  # number of scales to try for plain
_MOST_OFF = 8.0
_MOST_OUT = 0.4  # largest share after a year: what `allowance` covers, with a margin
Floats = NDArray[np.float64]
Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class Method:
    """A method to release a series, and its results.

    Attributes:
        name: One of PLAIN, FORECAST and STRATEGY.
        purpose: Purpose with its settings, chosen on all data.
        errors: Root mean squares on all data, one per target.
        ratios: Ratio to plain of the error or of the interval's width, the larger one: on the first
            half and on the second, of the choice made on the first, and on all data; None: it was
            not computed.
    """

    name: str
    purpose: Purpose
    errors: tuple[float, ...]
    ratios: tuple[float | None, float | None, float] = (1.0, 1.0, 1.0)

    @property
    def worst(self) -> float:
        """The largest ratio."""
        return max(ratio for ratio in self.ratios if ratio is not None)

    @property
    def objection(self) -> str:
        """The reason why the method is not recommended, or ""."""
        if self.purpose.off >= _MOST_OFF:
            return (
                f"forecasts were off by more than {_MOST_OFF:g} times in the second half, so "
                "intervals would not hold the true value; a few users with many rows, or users who "
                "change how often they come, can cause this"
            )
        if self.purpose.left_out > _MOST_OUT:
            return (
                f"{self.purpose.left_out:.0%} of the contributions would be left out, so intervals "
                "would not hold the true value"
            )
        if self.worst > LEAST_GAIN:
            when = ("in the first half", "in the second half", "on all data")
            part = next(w for w, r in zip(when, self.ratios, strict=True) if r == self.worst)
            return f"its error or width {part} is {self.worst:.2f} of plain's"
        return ""


@dataclass(frozen=True)
class Verdict:
    """The methods that were tried; plain first.

    Attributes:
        methods: The best of each kind.
        size: Mean and root mean square of the series itself, over ticks and groups.
        targets: Targets of the series.
        planned: Settings with forecasts that were tried; None: none were.
    """

    methods: tuple[Method, ...]
    size: tuple[float, float]
    targets: tuple[PlanTarget, ...]
    planned: PlanSearch | None

    @property
    def name(self) -> str:
        """Name of the series."""
        return self.methods[0].purpose.name

    @property
    def recommended(self) -> Method:
        """The method to use."""
        sure = [m for m in self.methods[1:] if not m.objection]
        return min(sure, key=lambda m: m.worst, default=self.methods[0])

    @property
    def no_better_than_nothing(self) -> bool:
        """True if publishing 0 at every tick would do as well."""
        return self.recommended.errors[0] >= self.size[1]


def verdict(
    stream: KnownStream,
    name: str,
    budget: Budget,
    share: float,
    targets: Sequence[PlanTarget],
    *,
    period: int = 0,
    forecasts: bool = True,
    advance: Advance = lambda done, of: None,
) -> Verdict:
    """Find the best method for a series, on known data; nothing is charged.

    Args:
        stream: Stream with the number of ticks of the series.
        name: Name of the series.
        budget: Budget of the store.
        share: Share of the budget for this series.
        targets: Targets of the series; forecasts are for single ticks.
        period: Ticks in a season.
        forecasts: False to try no forecasts.
        advance: Called with the number of finished parts of the work, and of all parts.

    Raises:
        DataError: The stream contains nobody.
    """
    if not len(stream.users):
        raise DataError("no query finds anybody in the data", "check the dates")
    purpose = Purpose(name, share, stream.ticks, kappa=budget.kappa * share)
    work = _Work(purpose, tuple(targets), period)
    half = stream.ticks // 2
    halves = (stream.between(0, half), stream.between(half, 2 * half)) if half else None
    if halves is not None and not all(len(s.users) for s in halves):
        halves = None
    methods = [Method(PLAIN, work.plain(stream), work.plain_errors(stream))]
    planned = None
    if halves is not None and forecasts and [t.ticks for t in targets] == [1]:
        planned = plan([stream], purpose.kappa, period=period, advance=advance)
        methods += work.forecast(planned, stream, *halves)
    if halves is not None:
        methods += work.strategy(stream, *halves)
    size = float(stream.truth.mean()), stream.root_mean_square
    return Verdict(tuple(methods), size, work.targets, planned)


@dataclass(frozen=True)
class _Work:
    purpose: Purpose
    targets: tuple[PlanTarget, ...]
    period: int

    @property
    def search(self) -> StrategySearch:
        return StrategySearch(self.purpose.kappa, self.targets, lambda: None)

    def plain(self, stream: KnownStream) -> Purpose:
        """Return a part that is enough for all ticks."""
        return replace(self.purpose, ticks=stream.ticks, counts=stream.ticks * ROUNDED)

    def plain_errors(self, stream: KnownStream) -> tuple[float, ...]:
        """Return the errors of plain, one per target."""
        noise, cut = plain_parts(stream, self.purpose.kappa)
        widths = [t.width(stream.ticks) for t in self.targets]
        return tuple(
            math.sqrt(
                float(window_sums(noise[:, None], w).mean() + (window_sums(cut, w) ** 2).mean())
            )
            for w in widths
        )

    def plain_width(self, stream: KnownStream) -> float:
        """Return the mean half-width of plain, for the first target."""
        noise, cut = plain_parts(stream, self.purpose.kappa)
        w = self.targets[0].width(stream.ticks)
        spread = np.sqrt(window_sums(noise[:, None], w))
        return float((_z(stream) * spread + window_sums(np.abs(cut), w)).mean())

    def ratio(self, errors: Sequence[float], width: float, stream: KnownStream) -> float:
        """Return the ratio of the error to plain's, or of the width if that is larger."""
        error = self.search.relative(errors, self.plain_errors(stream))
        return max(error, width / self.plain_width(stream))

    def forecast(
        self, planned: PlanSearch, stream: KnownStream, first: KnownStream, second: KnownStream
    ) -> list[Method]:
        """Return the best setting with forecasts, or None."""
        best, kappa = _with_forecasts(planned), self.purpose.kappa
        halfway = plan([first], kappa, period=self.period)
        chosen = _with_forecasts(halfway)
        if best is None or chosen is None:
            return []
        off, ratios = 0.0, list[float]()
        for setting, data in ((chosen, first), (chosen, second), (best, stream)):
            (done,) = simulate([data], kappa, setting.setting)
            post = PostProcessing(period=setting.period)
            here = forecast_off(done, post)
            off = off if data is first else max(off, here)
            added, variance = done.forecast(post)
            width = _z(data) * np.sqrt(variance) + here * np.abs(added)
            ratios.append(self.ratio((done.errors(post)[2],), float(width.mean()), data))
        split = best.setting
        purpose = replace(
            self.purpose,
            counts=split.norm_budget,
            forecast=split.forecast,
            cap=split.cap,
            season=best.period,
            off=off,
            seen=seen_range(stream),
        )
        return [Method(FORECAST, purpose, best.total, (ratios[0], ratios[1], ratios[2]))]

    def strategy(
        self, stream: KnownStream, first: KnownStream, second: KnownStream
    ) -> list[Method]:
        """Return the best strategy, or None."""
        search, kappa = self.search, self.purpose.kappa
        tried, halfway = search.tried(stream), search.tried(first)
        if len(tried) < 2 or len(halfway) < 2:
            return []
        best, chosen = (min(some[1:], key=lambda c: c.relative) for some in (tried, halfway))
        room, ratios = 0.0, list[float]()
        for c, data in ((chosen, first), (chosen, second), (best, stream)):
            done = simulate_setting(data, StrategySetting(c.strategy, c.norm_budget, kappa))
            here = search.lacking(data, c)
            room = room if data is first else max(room, here)
            width = self._strategy_width(done, here)
            ratios.append(self.ratio(search.outcome(done).total, width, data))
        purpose = replace(
            self.purpose,
            counts=best.norm_budget,
            strategy=best.strategy,
            left_out=room,
            seen=seen_range(stream),
        )
        return [Method(STRATEGY, purpose, best.total, (ratios[0], ratios[1], ratios[2]))]

    def _strategy_width(self, done: MeasuredStream, left_out: float) -> float:
        """Return the mean half-width, for the first target, with the allowance."""
        stream, truth = done.stream, done.stream.truth
        w = self.targets[0].width(stream.ticks)
        rooms = [[allowance(v, t, left_out) for v in row] for t, row in enumerate(truth.tolist())]
        sd = done.sigma * np.sqrt(done.strategy.variance(w, stream.ticks))
        return float((_z(stream) * sd[:, None] + window_sums(np.array(rooms), w)).mean())


def _z(stream: KnownStream, beta: float = BETA) -> float:
    """Return the quantile for a bound on all numbers of a tick at once."""
    return NormalDist().inv_cdf(1 - beta / 2 / stream.query.coordinates)


def plain_parts(stream: KnownStream, kappa: float) -> tuple[Floats, Floats]:
    """Return the variance of plain's noise, (ticks,), and the part it cuts off, (ticks, d).

    If each person is in one number, once, it is the noise of worst-case composition. Otherwise
    people are cut to a scale C that pilots choose, tick by tick; here it is the best scale in
    hindsight, at the price of a tick with its pilots.
    """
    unit = stream.ticks * tick_cost(stream.query) / (2 * kappa)
    nothing = np.zeros((stream.ticks, stream.query.coordinates))
    if tick_cost(stream.query) <= 1:
        return np.full(stream.ticks, unit), nothing
    squares = np.add.reduceat(stream.values**2, stream.starts)
    norms = np.sqrt(squares)
    scales = np.unique(np.quantile(norms, np.linspace(0.3, 1.0, _SCALES)))
    best, noise, cut = np.full(stream.ticks, np.inf), np.zeros(stream.ticks), nothing
    for scale in scales[scales > 0].tolist():
        kept = np.minimum(1.0, scale / np.maximum(norms, 1e-300))
        lost = stream.sums(slice(None), stream.values * (1 - kept[stream.pairs]))
        variance = scale**2 * unit
        error = variance + (lost**2).mean(axis=1)
        better = error < best
        best, noise = np.where(better, error, best), np.where(better, variance, noise)
        cut = np.where(better[:, None], lost, cut)
    return noise, cut


def forecast_off(done: Simulation, post: PostProcessing, beta: float = BETA) -> float:
    """Return the relative error of forecasts with which intervals hold the truth.

    It is the least share f such that |truth - corrected| of all numbers of a tick at once is at
    most the bound of the noise plus f times the forecast, as often as the confidence demands, noise
    included, over the ticks that have forecasts.

    Args:
        done: A known stream under a setting.
        post: Settings of the post-processing.
        beta: Probability that an interval misses the truth.
    """
    forecast, variance = done.forecast(post)
    some = np.any(forecast != 0, axis=1)
    if not some.any():
        return 0.0
    gap = np.abs(done.stream.truth - done.active - forecast)[some]
    sd, f = np.sqrt(variance)[some], np.abs(forecast)[some]
    z = _z(done.stream, beta)
    normal = np.vectorize(NormalDist().cdf)

    def holds(off: float) -> float:
        room = z * sd + off * f
        inside = normal((room - gap) / sd) - normal((-room - gap) / sd)
        return float(np.mean(inside.prod(axis=1)))

    shares = np.concatenate([np.arange(0.02, 1.0, 0.02), np.geomspace(1.0, _MOST_OFF, 20)])
    return next((float(f"{s:.2g}") for s in shares if holds(s) >= 1 - beta), _MOST_OFF)


def _with_forecasts(planned: PlanSearch) -> Candidate | None:
    found = [c for c in planned.tried if c.setting.forecast]
    return min(found, key=lambda c: c.order, default=None)
