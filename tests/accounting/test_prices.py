"""Prices: a price is charged to the unit, and what it buys is narrower and still true."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sparseq.accounting.pilots import CELLS, Reading, ladder, visible_top
from sparseq.accounting.pilots.choice import Question, choose
from sparseq.accounting.pilots.parent import NO_PARENT, parent_of
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.stream.full_weight import left_for_full_weight
from sparseq.stream.pilot_noise import price_of_answer, split_price
from sparseq.stream.user_weights import PILOT_BITS, hats

SIGMA_0 = math.sqrt(48.0)
UNITS = 2**24
OF = ladder(math.inf, 1.0)
CDNOW = Path(__file__).parents[2] / "data" / "cdnow.parquet"


def people(r: np.ndarray, start: int = 0) -> np.ndarray:
    return hats(r, np.ones_like(r), OF.edges, start).histogram(CELLS) / 2**PILOT_BITS


def ask(r: np.ndarray, price: float, seed: int, same: bool) -> tuple[float, bool]:
    """Return the half-width of a count of rows as a part of it, and whether it holds.

    Args:
        r, price, seed: Rows of each user, the price, the noise.
        same: It is known that the parent pilot counted the same rows.
    """
    g, split = np.random.default_rng(seed), split_price(price)
    parent = people(r) + g.normal(0, SIGMA_0, CELLS)
    known = parent_of(parent, SIGMA_0, OF)
    one, two = split.first, split.second
    first = people(r) + g.normal(0, SIGMA_0 / math.sqrt(one), CELLS)
    sd = np.full(CELLS, SIGMA_0 / math.sqrt(one))
    start = max(visible_top(first, sd), 0)
    second = people(r, start) + g.normal(0, SIGMA_0 / math.sqrt(two), CELLS)
    above = np.arange(CELLS) > start
    seen = np.where(above, (one * first + two * second) / (one + two), first)
    sd = np.where(above, SIGMA_0 / math.sqrt(one + two), sd)
    reading = Reading(OF, seen, sd, visible_top(seen, sd))
    if same:
        reading, known = reading.with_another(parent, SIGMA_0), NO_PARENT
    question = Question(
        1, 1, np.zeros(1, bool), SIGMA_0, 0.05, split.answer, (one, two), floor=False
    )
    choice = choose(question, reading, known)
    y = np.minimum(r, choice.missing.scale).sum() + g.normal(0, choice.missing.noise)
    found, truth = interval(choice, np.array([y])), float(r.sum())
    half = float(found.high[0] - found.low[0]) / 2 / truth
    return half, bool(found.low[0] <= truth <= found.high[0])


def rows_of_customers() -> np.ndarray:
    customers = pq.read_table(CDNOW, columns=["customer_id"])["customer_id"].to_numpy()
    return np.unique(customers, return_counts=True)[1].astype(np.float64)


def lognormal() -> np.ndarray:
    draw = np.random.default_rng(0)
    return np.maximum(np.floor(draw.lognormal(1.5, 1.2, 8000)), 1.0)


def half_width(r: np.ndarray, price: float, seeds: range, misses: int, same: bool = True) -> float:
    """Return the median half-width, of intervals few of which miss."""
    found = [ask(r, price, seed, same) for seed in seeds]
    assert sum(not holds for _, holds in found) <= misses, price
    return float(np.median([half for half, _ in found]))


def test_a_price_narrows_intervals_that_hold() -> None:
    """A right 95 % interval misses three times of 8 or more with a probability of 0.006."""
    r = rows_of_customers()
    usual, dear = (half_width(r, price, range(8), 2) for price in (1.0, 16.0))
    assert dear <= 0.55 * usual


@pytest.mark.deep
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("of", [rows_of_customers, lognormal])
def test_a_price_narrows_intervals_that_hold_in_many_runs(
    of: Callable[[], np.ndarray], same: bool
) -> None:
    """250 runs; a right interval misses 20 or more with a probability of 0.03."""
    prices = 1.0, 4.0, 16.0
    usual, more, most = (half_width(of(), p, range(1000, 1250), 19, same) for p in prices)
    assert more <= 0.8 * usual
    assert most <= 0.6 * usual


def test_the_parts_of_a_price_add_up_to_it_and_its_pilots() -> None:
    draw = np.random.default_rng(3)
    prices = [1.0, 2.3125, 4.0, 16.0, *(2.0 ** draw.uniform(-10, 10, 300)).tolist()]
    for price in prices:
        split = split_price(price)
        pilots = [Fraction(split.first) * UNITS, Fraction(split.second) * UNITS]
        assert all(units.denominator == 1 for units in pilots)
        whole = math.ceil((Fraction(price) + Fraction(5, 16)) * UNITS)
        assert sum(pilots) + math.ceil(Fraction(split.answer) * UNITS) == whole
        assert split.first >= 1 / 16
        assert split.second >= 1 / 4
        assert price_of_answer(split.answer) == pytest.approx(price, rel=1e-6)


@pytest.mark.parametrize("tau", [2.0, 12.0, 40.0])
def test_a_question_never_takes_more_than_four_fifths_of_what_is_left(tau: float) -> None:
    for price in 2.0 ** np.arange(-10, 10.25, 0.25):
        full = left_for_full_weight(tau, float(price))
        assert (price + 5 / 16) / full <= 0.8 + 1e-12
        assert full >= tau * min(max(price, 0.5), 1.0)
