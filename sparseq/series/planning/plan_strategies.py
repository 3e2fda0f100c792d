"""Search for the best strategies for some targets: taps and norm_budget.

The targets are ticks, sums over windows and the running total (`PlanTarget`), with weights.
Strategies are from families with few parameters (`sparseq.accounting.strategies`). For each
strategy, the charges of all users without drops give the budget at which nobody is dropped, and the
noise at that budget ranks the strategies. The best of them are tried at that budget and below, with
the drops that follow (`sparseq.series.planning.simulate_strategy`, the store's own maths).
`sparseq.series.planning.verdict` decides whether to use one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting.budget import NORM_BUDGET_RANGE
from sparseq.accounting.strategies import MOST_TAPS, Strategy
from sparseq.base.errors import ParameterError
from sparseq.series.left_out import rate_of, rounded_up
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.simulate_strategy import (
    MeasuredStream,
    StrategySetting,
    simulate_setting,
)

INDEPENDENT = "none"
CAUTION = 1.4
_MARGIN = 1.06
"""Budgets are planned for people whose charges are larger than in the data by this factor."""
_BUDGETS = (1.0, 0.85, 0.7, 0.5, 0.35)
_FINER = (0.92, 0.78, 0.6, 0.42)
_BEST = 4
_BLOCK = 2048  # people, or groups of them, per block
_SMALL = (0.05, 0.1, 0.15, 0.22, 0.28)  # shares of the worst case, for data with few drops


@dataclass(frozen=True)
class PlanTarget:
    """A target of a series: sums over this number of ticks; 0: the running total."""

    name: str
    ticks: int
    weight: float = 1.0

    def width(self, ticks: int) -> int:
        """Return the number of ticks in a sum, for a series of `ticks` ticks."""
        return min(self.ticks or ticks, ticks)


_NAMED = {"tick": 1, "day": 1, "week": 7, "month": 28, "total": 0}


def targets_of(text: str) -> tuple[PlanTarget, ...]:
    """Read targets: names or ticks, each with a weight if it is not 1.

    Example:
        >>> [(t.name, t.ticks, t.weight) for t in targets_of("day,28d:2,total")]
        [('day', 1, 1.0), ('28d', 28, 2.0), ('total', 0, 1.0)]
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(([1-9]\d{0,4})[a-z]?|[a-z]+)(?::([1-9]\d{0,5}))?\s*", part)
        if match is None or not (match[2] or match[1] in _NAMED):
            raise ParameterError(f"{part!r} is nothing to plan for", "day,week,28d,total:2")
        ticks = int(match[2]) if match[2] else _NAMED[match[1]]
        found.append(PlanTarget(match[1], ticks, float(match[3] or 1)))
    return tuple(found)


@dataclass(frozen=True)
class StrategyCandidate:
    """A strategy with a budget, and its results: root mean squares, one per target.

    Attributes:
        strategy: Text that `Strategy.of` reads.
        norm_budget: B_norm of the series.
        left_out: Share of contributions that are in no measurement.
        noise, bias, total: Errors by target.
        relative: Weighted total over that of the first candidate, independent noise.
    """

    strategy: str
    norm_budget: float
    left_out: float
    noise: tuple[float, ...]
    bias: tuple[float, ...]
    total: tuple[float, ...]
    relative: float = 1.0


@dataclass(frozen=True)
class StrategySearch:
    """Tries strategies on streams.

    Attributes:
        kappa: zCDP level of the series.
        targets: Targets of the series.
        advance: Called after each strategy.
    """

    kappa: float
    targets: tuple[PlanTarget, ...]
    advance: Callable[[], None]

    def tried(self, stream: KnownStream) -> list[StrategyCandidate]:
        """Return the best candidate of each strategy that was tried; independent noise first."""
        independent = self.best(stream, INDEPENDENT)
        busiest = _Costs(_busiest(stream))
        ranked = sorted(
            (self._bound(busiest, text, stream.ticks), text) for text in families(stream.ticks)
        )
        others = [self.best(stream, text) for _, text in ranked[:_BEST]]
        scored = [replace(c, relative=self.relative(c.total, independent.total)) for c in others]
        return [independent, *sorted(scored, key=lambda c: c.relative)]

    def best(self, stream: KnownStream, text: str) -> StrategyCandidate:
        """Return a strategy with its best budget."""
        self.advance()
        costs = costs_of(stream, text, self.kappa)
        whole = float(costs.max())
        shares = (*_BUDGETS, *_SMALL) if text == INDEPENDENT else _BUDGETS
        found = {share: self._at(stream, text, share * whole, costs) for share in shares}
        near = min(found, key=lambda share: self._score(found[share]))
        for share in _FINER:
            if 0.75 * near < share < 1.35 * near and share not in found:
                found[share] = self._at(stream, text, share * whole, costs)
        return min(found.values(), key=self._score)

    def _at(
        self, stream: KnownStream, text: str, budget: float, costs: NDArray[np.float64]
    ) -> StrategyCandidate:
        """Return the result of a budget; users with far smaller costs are in without a check."""
        norm_budget = _nice(budget * _MARGIN)
        close = stream_of(stream, costs > 0.7 * norm_budget)
        done = self.outcome(simulate_setting(close, StrategySetting(text, norm_budget, self.kappa)))
        share = done.left_out * len(close.users) / len(stream.users)
        return StrategyCandidate(text, norm_budget, share, done.noise, done.bias, done.total)

    def outcome(self, found: MeasuredStream) -> StrategyCandidate:
        """Return the errors of a measurement."""
        errors = [found.errors(t.width(found.stream.ticks)) for t in self.targets]
        noise, bias, total = zip(*errors, strict=True)
        text, budget = found.setting.strategy, found.setting.norm_budget
        return StrategyCandidate(text, budget, found.left_out, noise, bias, total)

    def lacking(self, stream: KnownStream, c: StrategyCandidate) -> float:
        """Return how fast the missing share grows, by the targets' sums."""
        found = simulate_setting(stream, StrategySetting(c.strategy, c.norm_budget, self.kappa))
        widths = [t.width(stream.ticks) for t in self.targets]
        rates = [rate_of(found.missing, stream.truth, width) for width in widths]
        return rounded_up(min(CAUTION * max(rates), 0.99))  # a share is below 1

    def relative(self, errors: ArrayLike, of: ArrayLike) -> float:
        """Return errors over others': weighted root mean square."""
        weights = np.array([t.weight for t in self.targets])
        ratios = np.asarray(errors) / np.asarray(of)
        return math.sqrt(float(np.sum(weights * ratios**2) / np.sum(weights)))

    def _score(self, c: StrategyCandidate) -> float:
        """Return a score for one strategy at several budgets; lower is better.

        Bias counts more than in the data: noise is certain and in the intervals, bias is neither.
        """
        doubtful = np.hypot(c.noise, CAUTION * np.array(c.bias))
        return self.relative(doubtful, [math.sqrt(max(t.ticks, 1)) for t in self.targets])

    def _bound(self, busiest: _Costs, text: str, ticks: int) -> float:
        """Return the error of a strategy's noise, at the budget at which nobody is left out."""
        self.advance()
        strategy = Strategy.of(text)
        most = float(busiest.of(strategy).max())
        variances = [most * strategy.variance(t.width(ticks), ticks).mean() for t in self.targets]
        if not np.all(np.isfinite(variances)):
            return math.inf
        worst = [
            float(np.arange(1, ticks + 1).clip(max=t.width(ticks)).mean()) for t in self.targets
        ]
        return self.relative(np.sqrt(variances), np.sqrt(worst))


def families(ticks: int) -> Iterator[str]:
    """Yield the strategies to try for a series of `ticks` ticks."""
    bands = [k for k in (7, 28, 60, MOST_TAPS) if k < ticks] or [1]
    for band in bands:
        for height, power in ((0.06, 0.6), (0.08, 0.7), (0.12, 0.8), (0.16, 1.0), (0.08, 1.0)):
            yield f"news:{height:g},{band},{power:g}"
        for power in (0.1, -0.1, -0.2, -0.3, -0.4, -0.5):
            yield f"fractional:{power:g},{band}"
    for width in (k for k in (7, 14, 28) if k < ticks):
        for height, power in ((0.2, 1.2), (0.4, 1.2), (0.3, 0.8), (0.4, 0.8)):
            yield f"window:{width},{height:g},{power:g}"


def costs_of(stream: KnownStream, text: str, kappa: float) -> NDArray[np.float64]:
    """Return the charge of each user without drops, in squared norm."""
    taken = simulate_setting(stream, StrategySetting(text, NORM_BUDGET_RANGE[1], kappa))
    return taken.charged


class _Costs:
    """The costs of strategies to the people of a stream without drops.

    The measurement of a person is the convolution of the person's contributions with the taps.

    Args:
        stream: Stream with these people.
    """

    def __init__(self, stream: KnownStream) -> None:
        self._stream, places = stream, stream.query.coordinates
        rows, row = np.unique(stream.users * places + stream.coordinate, return_inverse=True)
        self._order = np.argsort(row, kind="stable")
        self._row = row[self._order]
        _, self._owner = np.unique(rows // places, return_inverse=True)

    def of(self, strategy: Strategy) -> NDArray[np.float64]:
        """Return the squared norm of all measurements of each person, without roundings."""
        ticks, squares = self._stream.ticks, np.zeros(len(self._owner))
        taps = np.fft.rfft(np.array(strategy.taps[:ticks]) / strategy.taps[0], 2 * ticks)
        for first in range(0, len(squares), _BLOCK):
            at = slice(*np.searchsorted(self._row, [first, first + _BLOCK]).tolist())
            some = self._order[at]
            series = np.zeros((min(_BLOCK, len(squares) - first), ticks))
            series[self._row[at] - first, self._stream.tick[some]] = self._stream.values[some]
            measured = np.fft.irfft(np.fft.rfft(series, 2 * ticks) * taps, 2 * ticks)[:, :ticks]
            squares[first : first + _BLOCK] = (measured**2).sum(axis=1)
        return np.bincount(self._owner, squares).astype(np.float64)


def stream_of(stream: KnownStream, some: NDArray[np.bool_]) -> KnownStream:
    """Return the stream of some of the people."""
    keep = some[stream.users]
    columns = (stream.tick[keep], stream.users[keep], stream.coordinate[keep], stream.values[keep])
    return KnownStream(stream.query, stream.ticks, stream.people, *columns)


def _busiest(stream: KnownStream, many: int = 1000) -> KnownStream:
    weight = np.bincount(stream.users, stream.values**2, stream.people)
    least = np.sort(weight)[-min(many, len(weight))]
    return stream_of(stream, weight >= max(least, 1e-300))


def _nice(norm_budget: float) -> float:
    """Round up to three digits."""
    step = 10.0 ** (math.floor(math.log10(norm_budget)) - 2)
    return min(math.ceil(norm_budget / step) * step, NORM_BUDGET_RANGE[1])
