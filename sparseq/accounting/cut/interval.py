"""The interval about everybody: noise, what was cut, and what no pilot can see."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.cut.choice import Choice, missing_by_coordinate
from sparseq.accounting.cut.ladder import Floats
from sparseq.accounting.cut.rules import RULES, Rules


class IntervalKind(enum.StrEnum):
    """What an interval rests on."""

    EXACT = "exact"
    """Nobody can be above the scale: noise alone."""
    BOUNDED = "bounded"
    """Declared maxima, or the type of the question: proved."""
    ASSUMED = "assumed"
    """A stated model of the people whom no pilot sees."""


@dataclass(frozen=True)
class Interval:
    """About the truth over everybody, in the joint unit, by coordinate: released.

    Attributes:
        value, low, high: The estimate, and its interval, all coordinates at once.
        few: The half-width exceeds the value: too few people to say.
        missing: From above, what the answer lacks, by coordinate.
        kind: What the interval rests on.
    """

    value: Floats
    low: Floats
    high: Floats
    few: NDArray[np.bool_]
    missing: Floats
    kind: IntervalKind


def interval(choice: Choice, answer: Floats, rules: Rules = RULES) -> Interval:
    """Return the interval of a noised answer.

    Args:
        choice: Its scale.
        answer: Noised weighted sums, in the joint unit.
        rules: Constants.

    Example:
        >>> from sparseq.accounting.cut import CELLS, Reading, ladder
        >>> from sparseq.accounting.cut.choice import Question, choose
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> seen = Reading(ladder(np.inf, 1.0), people, np.full(CELLS, 20.0), 2)
        >>> found = interval(
        ...     choose(Question(1, 1, np.zeros(1, bool), 7.0, 0.05), seen), np.array([9000.0]))
        >>> bool(found.low[0] <= found.value[0] <= found.high[0]), str(found.kind)
        (True, 'assumed')
    """
    assumed = _one(choice, answer) if choice.of.one else _several(choice, answer, rules)
    if not choice.of.pilots:
        return _marked(choice, answer, assumed, IntervalKind.EXACT)
    if choice.reading.ladder.bounded:
        proved = _bounded(choice, answer, assumed)
        narrower = (proved.high - proved.low).mean() <= (assumed.high - assumed.low).mean()
        if choice.prove or narrower:
            return _marked(choice, answer, proved, IntervalKind.BOUNDED)
    return _marked(choice, answer, assumed, IntervalKind.ASSUMED)


def _lost(choice: Choice) -> float:
    """Return about what is missing: between the two readings of C, and the tail."""
    m, seen = choice.missing, choice.reading
    visible = np.where(np.arange(len(seen.people)) <= seen.top, seen.people, 0.0)
    return (m.cut + max(float(visible @ m.below), 0.0)) / 2 + m.mean


def _one(choice: Choice, answer: Floats) -> Interval:
    """Return the assumed interval of one number that is never negative.

    The cut is added back, or only goes into the upper end: whichever is narrower.
    """
    q, m, seen = choice.of, choice.missing, choice.reading
    visible = np.where(np.arange(len(seen.people)) <= seen.top, seen.people, 0.0)
    noise, spread = q.z() * m.noise, q.z_pilots() * m.unsure
    half = float(np.hypot(noise, spread))
    if half * 2 + m.tail < 2 * noise + m.cut + spread + m.tail:
        low = np.maximum(answer + visible @ m.below - half, answer - noise)
        high = answer + visible @ m.above + half + m.tail
    else:
        low, high = answer - noise, answer + noise + m.cut + spread + m.tail
    value = np.clip(answer + _lost(choice), low, np.maximum(low, high))
    return Interval(value, low, high, low < high, high - (answer - noise), IntervalKind.ASSUMED)


def _several(choice: Choice, answer: Floats, rules: Rules) -> Interval:
    """Return the assumed interval of several numbers, or of signed ones."""
    q, m = choice.of, choice.missing
    noise = q.z() * m.noise
    there = float(np.maximum(answer, 0.0).sum())
    visible, unseen = missing_by_coordinate(
        rules, q, choice.reading, m, choice.hidden, answer, there
    )
    missing = visible + unseen
    low = answer - noise - np.where(q.signed, missing, 0.0)
    high = answer + noise + missing
    lost = _lost(choice)
    share = min(lost / max(choice.total - lost, 1e-9), 2.0) * np.maximum(answer, 0.0)
    value = np.where(q.signed, answer, np.clip(answer + share, low, high))
    return Interval(value, low, high, low < high, missing, IntervalKind.ASSUMED)


def _bounded(choice: Choice, answer: Floats, assumed: Interval) -> Interval:
    """Return the proved interval: all cells to the cap, without clipping, slope or visibility."""
    q, m, people = choice.of, choice.missing, choice.reading.people
    noise = q.z() * m.noise
    if q.one:
        half = float(np.hypot(noise, choice.union * m.exact))
        low = np.maximum(answer + people @ m.below - half, answer - noise)
        high = answer + people @ m.above + half
    else:
        low = answer - noise - np.where(q.signed, m.proved, 0.0)
        high = answer + noise + m.proved
    high = np.maximum(low, high)
    value = np.clip(assumed.value, low, high)
    missing = np.full(len(answer), m.proved)
    return Interval(value, low, high, low < high, missing, IntervalKind.BOUNDED)


def _marked(choice: Choice, answer: Floats, found: Interval, kind: IntervalKind) -> Interval:
    """End intervals at 0 where nothing is negative; mark cells of which almost nothing is known.

    The values of those go towards 0, all together (James & Stein 1961, the positive part): most
    of them are noise.
    """
    q, noise = choice.of, choice.missing.noise
    low = np.where(q.signed, found.low, np.maximum(found.low, 0.0))
    high = np.maximum(low, found.high)
    few = (high - low) / 2 > np.abs(found.value)
    faint = few & ~q.signed
    square = float((answer[faint] ** 2).sum())
    freedom = max(int(faint.sum()) - 2, 0)
    left = max(1 - freedom * noise**2 / square, 0.0) if square else 1.0
    value = np.clip(np.where(faint, left * found.value, found.value), low, high)
    return Interval(value, low, high, few, found.missing, kind)
