"""From released numbers to a series about everybody: post-processing, and so free.

    corrected_t = active_t + g_t S_t,    S_t = (1 - a) S_(t-1) + a R_t

R is the running sum of forecasts, decoded from the counter's rows, S its smoothing, g a factor of
the season (1 unless a period is given). Two errors, kept apart:

**Noise error**, a bound: how far corrected_t is from (sum over the active) + g_t (S without noise).
Without factor and cut-off the difference is one Gaussian, of variance sigma² + sigma_row² ||w||², w
being the weights of the rows in S, and at most half a lattice step for each rounding, weighted as
the noise is. With either of them the bounds of both parts are added, each at half of beta: a
factor that was released is a number, and cutting off at 0 brings no non-negative sum further away.

**Forecast error**, an estimate and no bound: how far g_t S_t may be from what the departed would
contribute. It is S_t times the relative spread of the corrected series over the last ticks, less
the noise in it: as if the departed varied as everybody does. Nothing released tells more.

**Error**, about everybody: the noise error, and two forecast errors or half of the forecast,
whichever is more. It assumes that people who have left contribute within half of what they left
behind, or vary as everybody does (measured: `python -m benchmarks series`).

The mean contribution per tick of a user who departs, from the user's own data only.

A user departs at tick n (ticks are counted from 0) after contributing v_s at ticks s < n. All forms
leave the departing tick itself out: that there is a contribution at it is what made the user
depart, so that counting it would make every forecast too large.

    mean        sum_s v_s / (n + 1): over all ticks of the series so far
    own         sum_s v_s / (n + 1 - f): over the ticks since the user's first, f
    recent:H    sum_s w^(n-s) v_s / sum_{s<=n} w^(n-s), w = 2^(-1/H): ticks count half after H
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import simultaneous_bound
from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.toeplitz_counter import BITS, decoder

# -- from released numbers to a series about everybody: post-processing, and so free ---------------

Floats = NDArray[np.float64]

WINDOW = 28
_FEW = 8
_SEASONS = 4
_MOST_FACTOR = 3.0
_DEVIATIONS = 2.0  # of the forecast's error


@dataclass(frozen=True)
class PostProcessing:
    """How the running sum is used.

    Args:
        smoothing: a, in (0, 1]; 1 smooths nothing. It averages noise away, and lags by 1/a ticks.
        non_negative: Cut S off at 0, for series that can't be negative.
        period: Ticks to a season: 7 for weekdays. g is then the mean of the answers at the same
            place in the last four seasons, against the mean of all their ticks. 0: g is 1.
        off: How far forecasts may be off, in parts of them, as the planner saw it (`forecast_off`).

    Raises:
        ParameterError: A number is out of its range.
    """

    smoothing: float = 0.15
    non_negative: bool = False
    period: int = 0
    off: float = 0.5

    def __post_init__(self) -> None:
        in_range("smoothing", self.smoothing, 0.0, 1.0, open_low=True)
        count("period", self.period, 0, 1000)


@dataclass(frozen=True)
class Correction:
    """A corrected answer, (d,): values, the bound of their noise, the estimate of the rest.

    `forecast_error` is NaN where too little has been released to tell.
    """

    values: Floats
    forecast: Floats
    noise_error: float
    forecast_error: Floats
    off: float = 0.5

    @property
    def error(self) -> Floats:
        """How far the values may be from the sums over everybody: see the module, (d,)."""
        spread = _DEVIATIONS * np.nan_to_num(self.forecast_error)
        return self.noise_error + np.maximum(spread, self.off * np.abs(self.forecast))


class Corrector:
    """Fed with what is released, tick by tick.

    Args:
        coordinates: d.
        post: How the running sum is used.

    Example:
        >>> corrector = Corrector(1, PostProcessing(smoothing=1.0))
        >>> corrector.begin(row_sigma=0.0, row_step=0.0)
        >>> corrector.row(np.array([2.0]))
        >>> corrector.correct(np.array([10.0]), sigma=1.0, step=1.0, beta=0.05).values.tolist()
        [12.0]
    """

    def __init__(self, coordinates: int, post: PostProcessing) -> None:
        self._post = post
        self._rows: list[Floats] = []
        self._noise = (0.0, 0.0)  # sigma and lattice step of a row
        self._weights = np.zeros(0)  # of this counter's rows in S
        self._older = (0.0, 0.0)  # variance and roundings in S that are left of earlier counters
        self._smooth = np.zeros(coordinates)
        self._answers: list[Floats] = []
        self._series: list[tuple[Floats, float]] = []  # corrected, and its variance

    def begin(self, row_sigma: float, row_step: float) -> None:
        """Begin a counter: rows to come have this noise, and the forecasts are left anew in it."""
        self._older = (self.variance, self._roundings)
        self._noise = (row_sigma, row_step)
        self._rows, self._weights = [], np.zeros(0)

    def row(self, row: Floats) -> None:
        """Take the counter's next row, (d,), in the query's unit."""
        self._rows.append(row)
        back = np.ldexp(decoder(len(self._rows))[::-1], BITS)
        running = back @ np.array(self._rows)
        a = self._post.smoothing
        self._smooth = (1 - a) * self._smooth + a * running
        self._weights = (1 - a) * np.append(self._weights, 0.0) + a * back
        self._older = (self._older[0] * (1 - a) ** 2, self._older[1] * (1 - a))

    @property
    def variance(self) -> float:
        """Of the noise in S."""
        return self._older[0] + self._noise[0] ** 2 * float(self._weights @ self._weights)

    @property
    def _roundings(self) -> float:
        return self._older[1] + self._noise[1] * float(np.abs(self._weights).sum())

    def correct(self, active: Floats, sigma: float, step: float, beta: float) -> Correction:
        """Correct a tick's answer, (d,), whose noise is `sigma` on a lattice of `step`."""
        self._answers.append(active)
        d = len(active)
        period = self._post.period
        factor = season(np.array(self._answers[-max(_SEASONS * period, 1) :]), period)
        forecast = factor * (np.maximum(self._smooth, 0) if self._clipped else self._smooth)
        values = active + forecast
        deviation = math.sqrt(self.variance)
        if self._post.period or self._clipped:
            own = simultaneous_bound(sigma, d, beta / 2, lattice_step=step)
            far = _bound(deviation, d, beta / 2, self._roundings)
            noise_error = own + float(factor.max()) * far
        else:
            both = math.hypot(sigma, deviation)
            noise_error = _bound(both, d, beta, step + self._roundings)
        self._series.append((values, sigma**2 + float(factor.max()) ** 2 * deviation**2))
        spread = np.abs(forecast) * self._spread()
        return Correction(values, forecast, noise_error, spread, self._post.off)

    @property
    def _clipped(self) -> bool:
        return self._post.non_negative

    def _spread(self) -> Floats:
        """Relative standard deviation of the corrected series, less its noise's."""
        if len(self._series) < _FEW:
            return np.full(len(self._smooth), np.nan)
        values, noise = zip(*self._series[-WINDOW:], strict=True)
        mean, variance = np.mean(values, axis=0), np.var(values, axis=0, ddof=1)
        beyond = np.sqrt(np.maximum(variance - np.mean(noise), 0.0))
        return np.where(mean > 0, beyond / np.where(mean > 0, mean, 1.0), np.nan)


def season(answers: Floats, period: int) -> Floats:
    """Return g of the last tick, (d,), from the answers up to it; only the last seasons count."""
    if not period or len(answers) < 2 * period:
        return np.ones(answers.shape[1])
    seasons = min(_SEASONS, len(answers) // period)
    last = answers[-seasons * period :]
    level, now = last.mean(axis=0), last[period - 1 :: period].mean(axis=0)
    factor: Floats = np.clip(now / np.maximum(level, 1e-300), 0.0, _MOST_FACTOR)
    return factor


def seasons(answers: Floats, period: int) -> Floats:
    """Return g at every tick, (ticks, d): `season` of the answers up to each."""
    found = np.ones(answers.shape)
    for many in range(2, _SEASONS + 1) if period else ():
        at = np.arange(many * period - 1, len(answers))
        total = np.cumsum(answers, axis=0)
        before = np.concatenate([np.zeros((1, answers.shape[1])), total])[at - many * period + 1]
        level = (total[at] - before) / (many * period)
        now = np.mean([answers[at - k * period] for k in range(many)], axis=0)
        found[at] = np.clip(now / np.maximum(level, 1e-300), 0.0, _MOST_FACTOR)
    return found


def _bound(sigma: float, d: int, beta: float, step: float) -> float:
    return simultaneous_bound(sigma, d, beta, lattice_step=step) if sigma > 0 else step / 2


# -- the mean contribution per tick of a user who departs, from the user's own data only -----------

Ints = NDArray[np.int64]


MEAN, OWN, RECENT = "mean", "own", "recent"
HALF_LIFE = 60.0


@dataclass(frozen=True)
class Form:
    """A way to forecast; `half_life`, in ticks, is of `recent`.

    Example:
        >>> Form.of("recent:28")
        Form(name='recent', half_life=28.0)
    """

    name: str = MEAN
    half_life: float = HALF_LIFE

    @classmethod
    def of(cls, text: str) -> Form:
        """Read `mean`, `own`, `recent` or `recent:H`.

        Raises:
            ParameterError: It is none of these.
        """
        name, _, rest = text.partition(":")
        try:
            half_life = float(rest) if rest else HALF_LIFE
        except ValueError:
            half_life = -1.0
        if name not in (MEAN, OWN, RECENT) or not 0 < half_life < 1e6 or (rest and name != RECENT):
            raise ParameterError(f"form is {text!r}", "one of mean, own, recent, recent:28")
        return cls(name, half_life)

    def __str__(self) -> str:
        return f"{self.name}:{self.half_life:g}" if self.name == RECENT else self.name

    @property
    def decay(self) -> float:
        """What a contribution counts for a tick later."""
        return 2.0 ** (-1 / self.half_life) if self.name == RECENT else 1.0

    def means(
        self,
        history: tuple[NDArray[np.integer], Ints, NDArray[np.integer], Floats],
        users: NDArray[np.integer],
        number: int,
        places: int,
    ) -> tuple[Ints, Ints, Floats]:
        """Return the mean contribution a tick of users before tick `number`.

        Args:
            history: What they contributed: user, tick, coordinate, value; in that order but for
                the tick, which comes last.
            users: Who, ascending.
            number: The tick at which the means are taken, and at which they contribute again.
            places: How many coordinates there are.

        Returns:
            Which of the users, coordinate, mean: one row a cell, in that order.
        """
        user, tick, coordinate, value = history
        owner = np.searchsorted(users, user)
        first = np.full(len(users), number)
        np.minimum.at(first, owner, tick)
        keys, cell = np.unique(owner * places + coordinate, return_inverse=True)
        mine = keys // places
        left = np.full(len(keys), number)
        rates = self.rates(cell, tick, value, left, first[mine])
        return mine.astype(np.int64), (keys % places).astype(np.int64), rates

    def rates(self, cell: Ints, ticks: Ints, values: Floats, left: Ints, first: Ints) -> Floats:
        """Return the mean of every cell, (cells,).

        Args:
            cell, ticks, values: One row a contribution, before its user's departure: which cell
                (user and coordinate), when, and how much; in order of tick within a cell.
            left, first: When the cell's user departed and had its first contribution, (cells,).
        """
        if self.name == RECENT:
            decay = self.decay
            weighted = values * decay ** (left[cell] - ticks)
            per = (1 - decay ** (left + 1.0)) / (1 - decay)
        else:
            weighted = values
            per = left + 1.0 - (first if self.name == OWN else 0)
        return np.asarray(np.bincount(cell, weighted, minlength=len(left)) / per)
