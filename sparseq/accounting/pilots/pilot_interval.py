"""Intervals about all users: they allow for noise, the cut, and users that no pilot can see."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.pilots.choice import SCALES, Choice, Kept, growth, upper
from sparseq.accounting.pilots.group_sums import group_growth
from sparseq.accounting.pilots.ladder import Floats
from sparseq.accounting.pilots.sample_quantiles import median, quantiles, sample_quantile


@dataclass(frozen=True)
class IntervalRules:
    """Constants of intervals by the model (docs/theorems/pilots.md, "What was cut").

    Attributes:
        skew: The addition to the median of the cut, as a part of it: its mean exceeds its median.
        widen: Factor of every distance from the value to an end: the model may be wrong.
        widen_up: The same upwards where samples were cut to a parent's tail, which is often too
            small.
    """

    skew: float = 0.05
    widen: float = 1.2
    widen_up: float = 1.6


INTERVALS = IntervalRules()


class IntervalKind(enum.StrEnum):
    """The basis of an interval."""

    EXACT = "exact"
    """Nobody can be above the scale: noise alone."""
    BOUNDED = "bounded"
    """Declared maxima: proved."""
    MEASURED = "measured"
    """Few are above the scale: a bound from measurements of people's fading."""
    ASSUMED = "assumed"
    """`alike`: a stated model of the users that no pilot sees, and of the groups of their rows."""


@dataclass(frozen=True)
class Interval:
    """An interval about the truth over everybody, in the joint unit, by coordinate: released.

    Attributes:
        value, low, high: The estimate, and its interval, all coordinates at once.
        few: True if the half-width exceeds the value: too few people for a statement.
        missing: Upper bound of the mass missing from the answer, by coordinate.
        kind: The basis of the interval.
    """

    value: Floats
    low: Floats
    high: Floats
    few: NDArray[np.bool_]
    missing: Floats
    kind: IntervalKind


@dataclass(frozen=True)
class _Ends:
    value: Floats
    low: Floats
    high: Floats


def interval(choice: Choice, answer: Floats) -> Interval:
    """Return the interval of a noised answer.

    Args:
        choice: Its scale.
        answer: Noised weighted sums, in the joint unit.

    Example:
        >>> from sparseq.accounting.pilots import CELLS, Reading, ladder
        >>> from sparseq.accounting.pilots.choice import Question, choose
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> seen = Reading(ladder(np.inf, 1.0), people, np.full(CELLS, 20.0), 2)
        >>> found = interval(
        ...     choose(Question(1, 1, np.zeros(1, bool), 7.0, 0.05), seen), np.array([9000.0]))
        >>> bool(found.low[0] <= found.value[0] <= found.high[0]), str(found.kind)
        (True, 'assumed')
    """
    q, noise = choice.of, choice.of.z() * choice.missing.noise
    if q.cut.some:
        return _shown(choice, answer, _less_the_cut(choice, answer), IntervalKind.MEASURED)
    if q.whole or not q.pilots:
        exact = _Ends(answer, answer - noise, answer + noise)
        return _shown(choice, answer, exact, IntervalKind.EXACT)
    if q.signed.any():
        assumed = _signed_ends(choice, answer)
    else:
        assumed = (_one_number if q.one else _groups)(choice, answer)
    if q.declared:
        return _shown(choice, answer, _proved_ends(choice, answer, assumed), IntervalKind.BOUNDED)
    return _shown(choice, answer, assumed, IntervalKind.ASSUMED)


def _one_number(choice: Choice, answer: Floats) -> _Ends:
    """Return the interval of one number that is never negative.

    The cut is added back: the median of its samples, and a little more as their mean is larger. The
    ends are quantiles of the answer, its noise and the samples, each with an error of `unsure`; the
    cut is never negative, which bounds the lower end. The tail is least known, so the upper end
    leaves out a quarter of beta, and the lower one a half.
    """
    m, half_beta = choice.missing, choice.of.beta / 2
    if m.kept is not None:
        return _one_number_weighed(choice, m.kept, answer)
    # the middle of each of 150 equal parts of the samples
    lost = quantiles(m.lost, (np.arange(150) + 0.5) / 150)
    spread = np.hypot(m.noise, SCALES.unsure * lost)
    low, high = (_mixed_quantile(lost, spread, p) for p in (half_beta, 1 - half_beta / 2))
    value = (1 + INTERVALS.skew) * median(m.lost)
    low = max(
        value - (value - low) * INTERVALS.widen, -upper(half_beta) * m.noise * INTERVALS.widen
    )
    if m.faded:
        low = min(low, -upper(half_beta) * m.noise)
    high = value + (high - value) * INTERVALS.widen
    return _Ends(answer + value, answer + min(low, value), answer + max(high, value))


def _one_number_weighed(choice: Choice, kept: Kept, answer: Floats) -> _Ends:
    """Return the interval of one number, whose answer is one more measurement of the kept mass.

    The answer y = K + noise measures K, the mass that C keeps, which the pilots measure, too. So K
    is their mean, weighted by precision, and samples of the cells are weighted by their likelihood
    given y: a sample with many people above C has too many below it. Weights are evened out until
    the effective number of samples is `_EVEN`. The sum is K and a sample of the mass that C cuts.
    """
    m, half_beta, y = choice.missing, choice.of.beta / 2, float(answer[0])
    off = (y - kept.loud - kept.quiet) ** 2 / (2 * (m.noise**2 + kept.sd**2))
    weight = _likely(off - off.min())
    mean = float(weight @ kept.quiet)
    variance = kept.sd**2 + float(weight @ (kept.quiet - mean) ** 2)
    part = variance / (variance + m.noise**2)
    left, noise = part * y + (1 - part) * (kept.loud + mean), math.sqrt(part) * m.noise
    order = np.argsort(m.lost, kind="stable")
    places = np.cumsum(weight[order]) - weight[order] / 2
    lost = np.interp((np.arange(150) + 0.5) / 150, places, m.lost[order])
    spread = np.hypot(max(noise, 1e-9), SCALES.unsure * lost)
    low, high = (_mixed_quantile(lost, spread, p) for p in (half_beta, 1 - half_beta / 2))
    value = (1 + INTERVALS.skew) * median(lost)
    low = max(value - (value - low) * INTERVALS.widen, -upper(half_beta) * noise * INTERVALS.widen)
    high = value + (high - value) * (INTERVALS.widen_up if kept.capped else INTERVALS.widen)
    ends = left + value, left + min(low, value), left + max(high, value)
    return _Ends(*(np.array([end]) for end in ends))


_EVEN = 80


def _likely(off: Floats) -> Floats:
    """Return weights exp(-off), less uneven if only few samples would count."""
    power = 1.0
    while True:
        weight = np.exp(-power * off)
        weight = weight / weight.sum()
        if 1 / float(weight @ weight) >= _EVEN or power < 1e-3:
            return np.asarray(weight)
        power /= 1.5


def _mixed_quantile(means: Floats, spreads: Floats, probability: float) -> float:
    """Return a quantile of an equal mixture of normal distributions, by bisection."""
    low, high = float((means - 10 * spreads).min()), float((means + 10 * spreads).max())
    for _ in range(48):
        middle = (low + high) / 2
        below = sum(map(math.erfc, ((means - middle) / (math.sqrt(2) * spreads)).tolist()))
        if below / 2 < probability * len(means):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _groups(choice: Choice, answer: Floats) -> _Ends:
    """Return the intervals of several numbers that are never negative.

    Each grows by the same factor g (`sparseq.accounting.pilots.group_sums`). Assumption `alike`: a
    group's share of the cut is its share of the answer, up to a factor that varies by `alike`, and
    by chance as few users are cut.
    """
    q, m = choice.of, choice.missing
    z, each = upper(q.beta / 2 / q.coordinates), upper(q.beta / 2)
    grown, unknown = growth(m.share), SCALES.unlike
    if q.rows or q.people:
        grown, unknown = group_growth(choice, answer, grown)
    g_low, g, g_high = quantiles(grown, np.array([q.beta / 2, 0.5, 1 - q.beta / 2]))
    there = np.maximum(answer, 0.0)
    total = max(float(there.sum()), q.coordinates * m.noise)
    at = np.maximum(there, m.noise)
    g_high = max(g_high, sample_quantile(m.lost, 1 - q.beta / 2) * 1.3 / total)
    chance = total / (m.heavy * at)
    alike = (2 if q.people else 1) * SCALES.alike
    unlike = np.minimum(np.sqrt(alike**2 + unknown**2 + chance), 2.5)
    up = np.hypot((g_high - g) / each, g * unlike)
    down = np.hypot((g - g_low) / each, g * unlike)
    noise = m.noise * (1 + g)
    value = answer * (1 + g)
    high = value + z * INTERVALS.widen * np.hypot(noise, at * up)
    low = value - z * INTERVALS.widen * np.hypot(noise, at * down)
    low = np.maximum(low, answer - z * INTERVALS.widen * m.noise)
    if m.faded:
        low = np.minimum(low, answer - z * m.noise)
    return _Ends(value, np.minimum(low, value), np.maximum(high, value))


def _less_the_cut(choice: Choice, answer: Floats) -> _Ends:
    """Return the intervals of counts of people if a bounded number of them is cut.

    The cut from each number is at most the bound, and nobody counts for less than C · a_min: so a
    number is at most its counted part divided by C · a_min. Values lie in the middle of the
    possible cut.
    """
    q, noise, z = choice.of, choice.missing.noise, choice.of.z()
    counted = choice.missing.scale * q.least_allowance
    lacks = np.minimum(q.cut.most, np.maximum(answer, 0.0) * (1 / counted - 1))
    high = answer + q.cut.most + z * math.hypot(noise, q.cut.sd)
    high = np.minimum(high, (np.maximum(answer, 0.0) + z * noise) / counted)
    return _Ends(answer + lacks / 2, answer - z * noise, high)


def _signed_ends(choice: Choice, answer: Floats) -> _Ends:
    """Return the intervals of numbers that may be negative: the cut may have either sign."""
    q, m = choice.of, choice.missing
    lost = sample_quantile(m.lost, 1 - q.beta / 2)
    half = q.z() * m.noise + lost
    return _Ends(answer, answer - half, answer + half)


def _proved_ends(choice: Choice, answer: Floats, around: _Ends) -> _Ends:
    """Return the proved interval: all cells to the cap, without clipping, slope or visibility.

    Half of beta is for the answer's noise, the other half for the pilots' noise, over every C and
    start.
    """
    q, m = choice.of, choice.missing
    noise = upper(q.beta / 4 / q.coordinates) * m.noise
    if q.one:
        half = float(np.hypot(noise, choice.union * m.exact))
        low = np.maximum(answer + m.below - half, answer - noise)
        high = answer + m.proved - choice.union * m.exact + half
    else:
        low = answer - noise - np.where(q.signed, m.proved, 0.0)
        high = answer + noise + m.proved
    return _Ends(np.clip(around.value, low, np.maximum(low, high)), low, high)


def _shown(choice: Choice, answer: Floats, found: _Ends, kind: IntervalKind) -> Interval:
    """Cut intervals at 0 where nothing is negative, and mark values with little information.

    No interval is narrower than a standard deviation of the noise: noise far below 0 is no
    evidence.

    The marked values are shrunk towards 0 together (James & Stein 1961, the positive part): most of
    them are noise.
    """
    q, noise = choice.of, choice.missing.noise
    low = np.where(q.signed, found.low, np.maximum(found.low, 0.0))
    high = np.maximum(low, np.where(q.signed, found.high, np.maximum(found.high, noise)))
    few = (high - low) / 2 > np.abs(found.value)
    faint = few & ~q.signed
    square = float((answer[faint] ** 2).sum())
    freedom = max(int(faint.sum()) - 2, 0)
    left = max(1 - freedom * noise**2 / square, 0.0) if square else 1.0
    value = np.clip(np.where(faint, left * found.value, found.value), low, high)
    missing = np.maximum(high - answer - q.z() * noise, 0.0)
    return Interval(value, low, high, few, missing, kind)
