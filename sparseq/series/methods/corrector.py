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

The numbers of a forecast's counter: lattice, noise, and how large a forecast anyone can pay for.

A user who leaves x, a vector of lattice steps, at tick s of a counter over T ticks is asked for

    sum_t charge(a_(t-s)² ||x||²)

over the ticks t = s..T, a being the counter's coefficients (`mechanisms.toeplitz_counter`). Each
charge is rounded up, to a unit and then to 11 significant bits, so that with R ledger units to a
squared step of a row, N_s the column's squared norm and n = T - s + 1 rows it is at most

    (||x||² R N_s + n) (1 + 2^-10).

`most` solves that for ||x||² in integers: whoever stays within it can pay the whole column from
what is left in the reserve, whatever comes. sigma is chosen so that a full forecast, of norm
`scale`, costs a full slice of the reserve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget, Price, simultaneous_bound
from sparseq.accounting._numbers import count, in_range, sqrt_up
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.toeplitz_counter import BITS, column_norms, decoder

# -- from released numbers to a series about everybody: post-processing, and so free ---------------

Floats = NDArray[np.float64]

WINDOW = 28
_FEW = 8
_SEASONS = 4
_MOST_FACTOR = 3.0
_DEVIATIONS = 2.0  # of the forecast's error


@dataclass(frozen=True)
class PostProcessing:
    """The use that is made of the running sum.

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
        """Most that the values may be off the sums over everybody: see the module, (d,)."""
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
        """The weight of a contribution a tick later."""
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


# -- the numbers of a forecast's counter -----------------------------------------------------------

STEPS = 2**16
"""A full forecast has at least half as many lattice steps, and at most so many."""
_ROUNDED = Fraction(1025, 1024)  # what rounding up to 11 significant bits adds at most
_FAR = 2.0**22  # beyond every limit
_FINE = 40
_MOST_NORM = 2**35  # times the squared first coefficient: below 2^62


@dataclass(frozen=True)
class Columns:
    """The counter of one slice of the reserve.

    Args:
        budget: The store's.
        horizon: T.
        scale: C, the norm of a full forecast; larger ones are scaled down.
        units: What a user with the store's whole norm_budget can pay, in ledger units.

    Raises:
        ParameterError: The reserve is next to nothing.

    Example:
        >>> columns = Columns(Budget(0.5, 20.0), horizon=365, scale=1.0, units=5 * 2**24)
        >>> round(columns.sigma, 3)  # sqrt(20) sqrt(2.944 / 5), and what rounding adds
        3.433
    """

    budget: Budget
    horizon: int
    scale: float
    units: int

    def __post_init__(self) -> None:
        if self.units < 2 * self.horizon:
            raise ParameterError(
                "the reserve is too small for so many ticks", "set more aside, or fewer ticks"
            )

    @cached_property
    def step(self) -> float:
        """Lattice step of a forecast: a power of two."""
        return math.ldexp(1.0 / STEPS, math.ceil(math.log2(self.scale)))

    @cached_property
    def row_step(self) -> float:
        """Lattice step of a row."""
        return math.ldexp(self.step, -BITS)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of each row's noise, such that `full` squared steps can be paid."""
        full = (Fraction(self.scale) / Fraction(self.step)) ** 2
        columns = full * int(column_norms(self.horizon)[0]) * Fraction(self.row_step) ** 2
        payable = Fraction(self.units) / _ROUNDED - self.horizon
        square = columns * self.budget.unit_variance * UNITS_PER_NORM / payable
        return sqrt_up(square * (1 + Fraction(1, 2**40)))

    @cached_property
    def _price(self) -> Price:
        return Price.of(self.sigma, self.row_step, self.budget)

    def most(self, units: int, tick: int) -> int:
        """Return the largest ||x||² that `units` pay for, left at `tick` (0, 1, … T-1)."""
        add, of = _ROUNDED.as_integer_ratio()
        payable = of * units - add * (self.horizon - tick)  # times `add`
        if payable <= 0:
            return 0
        price = self._price
        each = add * price.multiplier * int(column_norms(self.horizon)[tick])
        return min((payable << price.shift) // each, _MOST_NORM)

    def full(self) -> int:
        """Return the squared steps of a forecast of norm `scale`, the most that anyone leaves."""
        return self._full

    @cached_property
    def _full(self) -> int:
        return math.floor((Fraction(self.scale) / Fraction(self.step)) ** 2)

    def limit(self, units: int, tick: int) -> int:
        """Return the squared steps that anyone with `units` leaves at `tick` at most.

        Who has the whole slice can pay for a full forecast at the first tick, and so at all.
        """
        return self.full() if units >= self.units else min(self.most(units, tick), self.full())

    def root(self, units: int, tick: int) -> int:
        """Return the largest norm, in whole steps, that `units` pay for, left at `tick`."""
        return math.isqrt(self.limit(units, tick))

    @staticmethod
    def shrunk(steps: Ints, owner: Ints, norms: Ints, most: Ints) -> Ints:
        """Return steps, each user's scaled down to what it may leave at most.

        Args:
            steps, owner: A row a coordinate, and whose it is.
            norms, most: Squared, of each user's steps, and what they may be.
        """
        factor = np.full(len(norms), 1 << _FINE, np.int64)
        over = np.flatnonzero(norms > most)
        pairs = zip(norms[over].tolist(), most[over].tolist(), strict=True)
        factor[over] = [math.isqrt((limit << 2 * _FINE) // norm) for norm, limit in pairs]
        scaled: Ints = np.sign(steps) * (np.abs(steps) * factor[owner] >> _FINE)
        return scaled

    def fitted(self, owner: Ints, rates: Floats, units: Ints, ticks: Ints) -> Ints:
        """Return forecasts as lattice steps, each user's scaled down to what it can pay.

        Args:
            owner, rates: Whose (0, 1, …, users - 1), and the forecast, one row a coordinate.
            units, ticks: What the user has for it, and when it leaves it (0, …, T-1), by user.
        """
        wanted = np.clip(np.nan_to_num(rates) / self.step, -_FAR, _FAR)
        steps: Ints = np.rint(wanted).astype(np.int64)
        norms = np.zeros(len(units), np.int64)
        np.add.at(norms, owner, steps**2)
        pairs = list(zip(units.tolist(), ticks.tolist(), strict=True))
        limits = {pair: self.limit(*pair) for pair in set(pairs)}
        return self.shrunk(steps, owner, norms, np.array([limits[p] for p in pairs], np.int64))
