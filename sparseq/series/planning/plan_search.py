"""Planning: the norm_budget and the reserve of a stream, before it begins.

On public or historical data the stream is simulated (`sparseq.series.planning.simulate`) under many
settings: worst-case composition, in which nobody is ever dropped, and then norm_budgets below it,
each without forecasts and with. Noise is exact; bias is that of the given data, and of the future
as far as it resembles them.

The recommended setting has the least error in these data among the settings that are surely worth
it: with twice the bias that they have there, they would still be 5 % below worst-case composition,
as noise is certain and bias is not. If there is no such setting, worst-case composition is
recommended. `sparseq.series.planning.verdict` decides whether a setting can be relied on when data
change. With several series the errors are divided by worst-case composition's, series by series,
and their mean square is minimised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from sparseq.accounting import Budget
from sparseq.base.errors import DataError
from sparseq.question.plan import Options, calibrate
from sparseq.series.methods.corrector import PostProcessing
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.simulate import BudgetSplit, Simulation, Simulator

RESERVES = (0.05, 0.1, 0.2, 0.35)
CAPS = (1.0, 0.7, 0.4, 0.2, 0.1)
WORTH = 0.95
CAUTION = 2.0
_RATIO, _FINER = 1.45, (0.83, 0.91, 1.1, 1.2)
_SEASONAL = 0.99  # a season makes the bound of the noise wider, so it must gain at least 1 %


@dataclass(frozen=True)
class Candidate:
    """One setting and its results; errors are root mean squares, one per series.

    Attributes:
        setting: The budget and its parts.
        worst_case: True for worst-case composition.
        sigma: Standard deviations of the answers' noise.
        dropped: Share of all user-ticks that are left out of their answer.
        noise, bias, total: Errors of the corrected series.
        relative: Total error over worst-case composition's.
        cautious: The same with twice the bias.
        period: Season of the post-processing; 0: none.
    """

    setting: BudgetSplit
    worst_case: bool
    sigma: tuple[float, ...]
    dropped: float
    noise: tuple[float, ...]
    bias: tuple[float, ...]
    total: tuple[float, ...]
    relative: float
    cautious: float
    period: int = 0

    @property
    def worth(self) -> bool:
        """True if the error is below worst-case composition's even with twice the bias."""
        return self.cautious <= WORTH

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key of the settings; the least is chosen."""
        return not self.worth, self.relative if self.worth else self.cautious


@dataclass(frozen=True)
class PlanSearch:
    """All settings that were tried; `rows`: worst case first, then by norm_budget.

    `sizes`: mean and root mean square of each series itself, over ticks and groups.
    """

    kappa: float
    ticks: int
    tried: tuple[Candidate, ...]
    sizes: tuple[tuple[float, float], ...] = ()

    @property
    def worst_case(self) -> Candidate:
        """Worst-case composition."""
        return self.tried[0]

    @property
    def recommended(self) -> Candidate:
        """The setting with the least error among those that are worth it."""
        best = min(self.tried, key=lambda c: c.order)
        return best if best.worth else self.worst_case

    @property
    def rows(self) -> list[Candidate]:
        """The table: for each norm_budget tried, the best setting without forecasts, and with."""
        best: dict[tuple[float, bool], Candidate] = {}
        for c in self.tried[1:]:
            key = (round(c.setting.paying, 1), c.setting.forecast > 0)
            if key not in best or c.order < best[key].order:
                best[key] = c
        return [self.worst_case, *(best[key] for key in sorted(best))]


def plan(
    streams: Sequence[KnownStream],
    kappa: float,
    *,
    form: str = "mean",
    forecasts: bool = True,
    post: PostProcessing | None = None,
    period: int = 0,
    advance: Callable[[int, int], None] = lambda done, of: None,
) -> PlanSearch:
    """Try settings on known streams: public or historical data, as nothing is charged.

    Args:
        streams: One per series, over the planned number of ticks: see `KnownStream.over`.
        kappa: zCDP level of the future store, or part.
        form: See `sparseq.series.methods.departure_mean`.
        forecasts: False to try no reserves.
        post: Post-processing to plan for; smoothing only.
        period: Ticks in a season, such as 7 days: forecasts are tried with it and without.
        advance: Called with the number of finished settings, and the approximate total.

    Raises:
        DataError: The streams contain nobody.
    """
    if not any(len(stream.users) for stream in streams):
        raise DataError("no query finds anybody in the data", "check the dates")
    done, of = count(1), 0
    trials = _Trials(
        streams, kappa, form, post or PostProcessing(), period, lambda: advance(next(done), of)
    )
    of = trials.most(forecasts)
    return trials.planned(forecasts)


class _Trials:
    """Tries settings, and measures them against worst-case composition."""

    def __init__(
        self,
        streams: Sequence[KnownStream],
        kappa: float,
        form: str,
        post: PostProcessing,
        period: int,
        advance: Callable[[], None],
    ) -> None:
        self._advance = advance
        self._streams, self._kappa, self._form = streams, kappa, form
        self._simulator = Simulator(streams, kappa)
        self._posts = [post, replace(post, period=period)] if period else [post]
        budget = Budget(kappa, 1.0)
        plans = [calibrate(s.query, budget, Options()) for s in streams]
        full = [p.worst_case_charge * s.ticks for p, s in zip(plans, streams, strict=True)]
        self.full = sum(full)
        self._worst: tuple[float, ...] = ()

    def most(self, forecasts: bool) -> int:
        """Return the largest number of settings to try."""
        payings = len(set(_coarse(self.full))) + len(_FINER)
        return payings * (1 + len(RESERVES) * len(CAPS) * forecasts)

    def planned(self, forecasts: bool) -> PlanSearch:
        """Try all settings: first coarsely, then near the best."""
        found = [self.candidate(BudgetSplit(_nice(self.full)), worst_case=True)]
        known = set(_coarse(self.full))
        for paying in sorted(known):
            found += self.try_budget(paying, forecasts)
        best = min(found, key=lambda c: c.order)
        near = {max(round(best.setting.paying * factor), 1) for factor in _FINER}
        for paying in sorted(near - known):
            found += self.try_budget(paying, forecasts)
        sizes = tuple((float(s.truth.mean()), s.root_mean_square) for s in self._streams)
        return PlanSearch(self._kappa, self._streams[0].ticks, tuple(found), sizes=sizes)

    def try_budget(self, paying: int, forecasts: bool) -> Iterator[Candidate]:
        """Try the settings in which users have `paying` for answers."""
        yield self.candidate(BudgetSplit(_nice(paying)))
        for share in RESERVES if forecasts else ():
            setting = BudgetSplit(_nice(paying / (1 - share)), share, self._form)
            gates = self._simulator.gates(setting)
            for cap in CAPS:
                capped = replace(setting, cap=cap)
                yield self._measure(capped, self._simulator.run(capped, gates), False)

    def candidate(self, setting: BudgetSplit, worst_case: bool = False) -> Candidate:
        return self._measure(setting, self._simulator.run(setting), worst_case)

    def _measure(
        self, setting: BudgetSplit, outcomes: Sequence[Simulation], worst_case: bool
    ) -> Candidate:
        self._advance()
        posts = self._posts if outcomes[0].columns is not None else self._posts[:1]
        plain, *seasonal = [self._with(post, setting, outcomes, worst_case) for post in posts]
        return next((c for c in seasonal if c.relative < _SEASONAL * plain.relative), plain)

    def _with(
        self,
        post: PostProcessing,
        setting: BudgetSplit,
        outcomes: Sequence[Simulation],
        worst_case: bool,
    ) -> Candidate:
        errors = [outcome.errors(post) for outcome in outcomes]
        noise, bias, total = zip(*errors, strict=True)
        if worst_case:
            self._worst = total
        doubtful = np.hypot(noise, CAUTION * np.array(bias)).tolist()
        relative, cautious = (_against(e, self._worst) for e in (total, doubtful))
        pairs = sum(len(outcome.stream.starts) for outcome in outcomes)
        dropped = sum(len(outcome.out) for outcome in outcomes) / pairs
        sigma = tuple(outcome.sigma for outcome in outcomes)
        return Candidate(
            setting, worst_case, sigma, dropped, noise, bias, total, relative, cautious, post.period
        )


def _against(errors: Sequence[float], worst: Sequence[float]) -> float:
    """Return errors against worst-case composition's: root mean square over the series."""
    return math.sqrt(np.mean((np.array(errors) / np.array(worst)) ** 2))


def _coarse(full: float) -> Iterator[int]:
    """Yield budgets for answers, from the whole worst case down to 1.

    They are in full contributions: a user with less than one takes part in nothing.
    """
    for k in range(math.ceil(math.log(max(full, 1.0)) / math.log(_RATIO)) + 1):
        yield max(round(full / _RATIO**k), 1)


def _nice(norm_budget: float) -> float:
    """Round up to a number with few digits; up, so that no whole contribution is lost."""
    return math.ceil(norm_budget * 100 - 1e-9) / 100
