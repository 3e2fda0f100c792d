"""Strategies of a series: the combination of ticks that is measured, and its algebra.

See docs/theorems/correlated-series.md.

At tick t the measurement is not of x_t but of (C x)_t = x_t + c_1 x_(t-1) + … + c_k x_(t-k), with
independent noise of deviation sigma. C is lower triangular, Toeplitz and banded, with whole
multiples of 2^-16 for taps. The series is C^-1 of the measurements: x̂ = x + C^-1 z. So the noise
of any linear function of the series is Gaussian, and a function that is the same at every tick (a
tick, a window, a difference, the running total) has one *response*: r with noise_t = sum_u r_u
z_(t-u), and

    Var_t = sum_(u <= t) r_u² sigma_(t-u)².

The response of the ticks themselves is d, the taps of C^-1 (D(w) C(w) = 1 as power series); the
response of a filter of the series with taps f is d * f, their convolution. The whole algebra is
`response` and `deviations`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range
from sparseq.base.errors import ParameterError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BITS = 16
"""Taps are whole multiples of 2^-16; the first is 1."""
ONE = 1 << BITS
MOST_TAPS = 128


@dataclass(frozen=True)
class Strategy:
    """The taps of C, in units of 2^-16: 1, c_1, …, c_k.

    Example:
        >>> Strategy.of("1,-0.5").taps
        (65536, -32768)
        >>> Strategy.of("news:0.5,2").text, Strategy.of("none").text
        ('1,-0.5,-0.25', '1')
    """

    taps: tuple[int, ...] = (ONE,)

    def __post_init__(self) -> None:
        if len(self.taps) > MOST_TAPS + 1:
            raise ParameterError(
                f"a strategy has {len(self.taps) - 1} taps", f"{MOST_TAPS} at most"
            )
        if self.taps[:1] != (ONE,) or max(map(abs, self.taps)) > ONE:
            raise ParameterError("the first tap is 1, and all are from -1 to 1", HINT)

    @classmethod
    def of(cls, text: str) -> Strategy:
        """Read a strategy: the name of a family with its numbers, or the taps themselves.

        none            1: independent noise
        news:A,K,P      1, -A, -A/2^P, …, -A/K^P: a user who comes every day is cheap
        fractional:D,K  (1 - w)^D cut off after K taps: D > 0 favours ticks, D < 0 sums over them
        window:M,A,P    1, A, A/2^P, …, A/M^P: for sums over windows
        sqrt:K          (1 - w)^(-1/2) cut off: for running totals

        Raises:
            ParameterError: The text is none of these, or a number is out of range.
        """
        name, _, rest = text.strip().partition(":")
        try:
            if name in FAMILIES:
                given = [float(part) for part in rest.split(",") if part]
                family, defaults = FAMILIES[name]
                if len(given) > len(defaults):
                    raise ValueError
                return cls.near(family(*given, *defaults[len(given) :]))
            return cls.near(np.array([float(part) for part in text.split(",")]))
        except (ValueError, OverflowError):
            raise ParameterError(f"strategy is {text!r}", HINT) from None

    @classmethod
    def near(cls, taps: Floats) -> Strategy:
        """Return the strategy of these taps, rounded; trailing zeros are dropped."""
        if len(taps) > 4 * MOST_TAPS or not np.all(np.abs(taps) <= 1):
            raise ParameterError("the first tap is 1, and all are from -1 to 1", HINT)
        whole = np.rint(np.ldexp(np.asarray(taps, np.float64), BITS)).astype(np.int64)
        last = int(np.flatnonzero(whole).max(initial=0))
        return cls(tuple(whole[: last + 1].tolist()))

    @property
    def text(self) -> str:
        """The taps as a text that `of` reads back exactly."""
        return ",".join(f"{tap / ONE:.16g}" for tap in self.taps)

    @property
    def band(self) -> int:
        """k: the number of later ticks at which a contribution is measured."""
        return len(self.taps) - 1

    @property
    def numbers(self) -> Floats:
        """The taps as numbers."""
        return np.ldexp(np.array(self.taps, np.float64), -BITS)

    def whole(self) -> Ints:
        """Return the taps in units of 2^-16."""
        return np.array(self.taps, np.int64)

    def inverse(self, ticks: int) -> Floats:
        """Return d_0, …, d_(T-1), the taps of C^-1.

        Example:
            >>> Strategy.of("1,-0.5").inverse(4).tolist()
            [1.0, 0.5, 0.25, 0.125]
        """
        return _inverse(self.taps, 1 << max(ticks - 1, 0).bit_length())[:ticks]

    def response(self, filter: Floats, ticks: int) -> Floats:
        """Return r of a filter of the series, (ticks,).

        Example:
            >>> Strategy.of("1,-0.5").response(np.ones(4), 4).tolist()  # the running total
            [1.0, 1.5, 1.75, 1.875]
        """
        return np.convolve(self.inverse(ticks), filter[:ticks])[:ticks]

    def variance(self, width: int, ticks: int) -> Floats:
        """Return the noise variance of sums over `width` ticks, relative to a measurement, by tick.

        At the first ticks the sum is over the ticks so far.
        """
        r = self.response(np.ones(min(width, ticks)), ticks)
        return np.cumsum(r**2)


def deviations(response: Floats, sigma: Floats) -> Floats:
    """Return the standard deviation at every tick: sqrt(sum_u r_u² sigma_(t-u)²).

    Args:
        response: r, of at least as many ticks.
        sigma: The deviation of the noise of each measurement.

    Example:
        >>> deviations(np.array([1.0, 1.0]), np.array([3.0, 4.0])).tolist()
        [3.0, 5.0]
    """
    n = len(sigma)
    if not n:
        return np.zeros(0)
    return np.sqrt(np.convolve(response[:n] ** 2, sigma**2)[:n])


def decode(measured: Floats, strategy: Strategy) -> Floats:
    """Return C^-1 of the measurements, (ticks, d): free, as it uses released numbers alone.

    Example:
        >>> decode(np.array([[2.0], [0.0]]), Strategy.of("1,-0.5")).ravel().tolist()
        [2.0, 1.0]
    """
    taps, found = strategy.numbers, np.array(measured, np.float64)
    for t in range(1, len(found)):
        back = min(t, strategy.band)
        if back:
            found[t] -= taps[back:0:-1] @ found[t - back : t]
    return found


def news(height: float, band: float, power: float) -> Floats:
    """Return 1, -A, -A/2^P, …, -A/K^P."""
    k = np.arange(1.0, _band(band) + 1)
    heights = in_range("A", height, -1.0, 1.0) / k ** in_range("P", power, 0.0, 4.0)
    return np.concatenate(([1.0], -heights))


def fractional(power: float, band: float) -> Floats:
    """Return the first taps of (1 - w)^D."""
    k = np.arange(1, _band(band) + 1)
    factors = (k - 1 - in_range("D", power, -1.0, 1.0)) / k
    return np.concatenate(([1.0], np.multiply.accumulate(factors)))


def window(width: float, height: float, power: float) -> Floats:
    """Return 1 and positive taps that decrease over M ticks."""
    return news(-height, width, power)


def root(band: float) -> Floats:
    """Return the first taps of (1 - w)^(-1/2)."""
    return fractional(-0.5, band)


def _band(band: float) -> int:
    if not float(band).is_integer() or not 1 <= band <= MOST_TAPS:
        raise ParameterError(f"a strategy has {band:g} taps", f"from 1 to {MOST_TAPS}")
    return int(band)


FAMILIES: dict[str, tuple[Callable[..., Floats], tuple[float, ...]]] = {
    "none": (lambda: np.ones(1), ()),
    "news": (news, (0.16, 40.0, 1.0)),
    "fractional": (fractional, (0.1, 60.0)),
    "window": (window, (28.0, 0.4, 1.2)),
    "sqrt": (root, (64.0,)),
}
"""By name: the function that makes the taps, and its default numbers."""
HINT = 'one of {}, or taps, such as "1,-0.08,-0.04"'.format(
    ", ".join(
        ":".join([name, ",".join(f"{number:g}" for number in numbers)]).rstrip(":")
        for name, (_, numbers) in FAMILIES.items()
    )
)


def prepaid(charge: Ints, ticks: Ints | int) -> Ints:
    """Return ledger units that suffice for squares with the sum S, measured over n ticks.

    Args:
        charge: `Price.charge` of S, ceil(S R).
        ticks: n, the most ticks over which they are measured.

    A tick's square s is charged c = round_up(ceil(s R)). With h(S, n) = ceil(S R) + n, h(S, n) >=
    ceil(s R) + h(S - s, n - 1), since a ceiling of a sum is at most 1 below the ceilings' sum.
    Rounding up to 11 significant bits adds at most floor(c / 1024), so that prepaid = h + ceil(h /
    1024) fulfils prepaid(S, n) >= c + prepaid(S - s, n - 1): a user who prepays this can pay every
    tick.

    Example:
        >>> prepaid(np.array([1000]), 24).tolist()
        [1025]
    """
    h = charge + ticks
    return np.asarray(h + (-(-h >> 10)), np.int64)


@lru_cache(maxsize=64)
def _inverse(taps: tuple[int, ...], ticks: int) -> Floats:
    c = np.ldexp(np.array(taps, np.float64), -BITS)
    d = np.zeros(ticks)
    d[0] = 1.0
    for t in range(1, ticks):
        back = min(t, len(c) - 1)
        if back:
            d[t] = -(c[1 : back + 1] @ d[t - 1 :: -1][:back])
    d.flags.writeable = False
    return d
