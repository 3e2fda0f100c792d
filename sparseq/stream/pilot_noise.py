"""The noise of pilots, and the split of a question's price between pilots and answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sparseq.accounting import UNITS_PER_NORM, Budget, Price, sigma_for_price
from sparseq.accounting.pilots import PILOTS
from sparseq.question.plan import Noise
from sparseq.stream.full_weight import QUESTION
from sparseq.stream.user_weights import PILOT_BITS


@dataclass(frozen=True)
class PriceSplit:
    """The prices of a question's parts: for each, a user pays at most the price times a².

    Attributes:
        first, second: The prices of the two pilots; 0 without pilots.
        answer: The price of the weighted sums.
    """

    first: float
    second: float
    answer: float


def split_price(price: float) -> PriceSplit:
    """Return the split of p + 5/16, the cost of a question with pilots.

    Pilots cost 1/16 and 1/4 up to p = 2 + 5/16. Above, all three parts grow in proportion: the
    error of the pilots is a large part of an interval, and must shrink with the noise. Prices of
    pilots are whole ledger units, so that the parts add up to p + 5/16 exactly.

    Example:
        >>> split_price(1.0)
        PriceSplit(first=0.0625, second=0.25, answer=1.0)
        >>> split_price(10.1875)
        PriceSplit(first=0.25, second=1.0, answer=9.25)
    """
    whole = Fraction(price) + Fraction(QUESTION - 1)
    times = whole / Fraction(2 * QUESTION)
    if times <= 1:
        return PriceSplit(1 / PILOTS.first, 1 / PILOTS.second, price)
    first, second = (
        Fraction(math.floor(times / variance * UNITS_PER_NORM), UNITS_PER_NORM)
        for variance in (PILOTS.first, PILOTS.second)
    )
    return PriceSplit(float(first), float(second), float(whole - first - second))


def price_of_answer(answer: float) -> float:
    """Return the price of a question with pilots from the price of its answer alone.

    Example:
        >>> price_of_answer(0.5), price_of_answer(9.25)
        (0.5, 10.1875)
    """
    pilots = QUESTION - 1
    return max(answer, answer / (1 - pilots / (2 * QUESTION)) - pilots)


@lru_cache(maxsize=256)
def pilot_noise(price: float, budget: Budget) -> Noise:
    """Return the noise of a pilot that costs `price` · a²: sigma_0 / sqrt(price) per cell.

    Example:
        >>> import numpy as np
        >>> noise = pilot_noise(0.25, Budget(0.5, 48.0))
        >>> int(noise.price.charge(np.array([2**32]))[0]) / 2**24
        0.25
    """
    step = math.ldexp(1.0, -PILOT_BITS)
    sigma = sigma_for_price(1.0, price, 1, budget)
    return Noise(sigma, step, 1 / math.sqrt(price), step, Price.of(sigma, step, budget))
