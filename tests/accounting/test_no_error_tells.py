"""Whatever pilots, answers and columns released, what is made of them is numbers: nothing raises.

An exception after noise was drawn would leave the question uncharged, and to be asked until none
comes; so no released number may lead to one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cut import asked

from sparseq.accounting.pilots import CELLS, Reading, ladder, parent_of, visible_top
from sparseq.accounting.pilots.averages import (
    AverageScale,
    apart,
    average_about_centre,
    average_of_sums,
    average_risk,
    variance,
)
from sparseq.accounting.pilots.choice import choose
from sparseq.accounting.pilots.column_values import column_of, value_edges
from sparseq.accounting.pilots.covariances import covariance, over
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.accounting.pilots.quantiles import quantile, quantile_edges, quantile_risk

size = st.sampled_from([0.0, -1.0, 1e-9, 3.0, 40.0, 1e4, 1e9, -1e9, 2.0**40])
cells = st.lists(size, min_size=CELLS, max_size=CELLS).map(np.array)
noise = st.sampled_from([1e-6, 0.1, 7.0, 1e5])
bounds = st.sampled_from(
    [(0.0, 1e-30), (0.0, 500.0), (-1e9, 3.0), (2.0**140, 2.0**141), (-5.0, 0.0)]
)


released = given(
    people=cells,
    above=cells,
    sd=noise,
    of=st.sampled_from([(math.inf, 1.0), (3.5, 0.2), (1e3, 1e-3)]),
    d=st.sampled_from([1, 2, 12]),
    signed=st.booleans(),
    declared=st.booleans(),
    ends=bounds,
    scale=size,
    seed=st.integers(0, 2**32),
)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@released
def test_nothing_that_was_released_leads_to_an_error(**drawn: Any) -> None:
    check_no_error(**drawn)


@pytest.mark.deep
@settings(few, max_examples=150)
@released
def test_nothing_of_many_that_were_released_leads_to_an_error(**drawn: Any) -> None:
    check_no_error(**drawn)


def check_no_error(
    people: np.ndarray,
    above: np.ndarray,
    sd: float,
    of: tuple[float, float],
    d: int,
    signed: bool,
    declared: bool,
    ends: tuple[float, float],
    scale: float,
    seed: int,
) -> None:
    rungs, g = ladder(*of), np.random.default_rng(seed)
    spreads = np.full(CELLS, 4 * sd)
    seen = Reading(rungs, people, spreads, min(visible_top(people, spreads), rungs.cap))
    parent = parent_of(above, sd, ladder(math.inf, 1.0)).shift(int(g.integers(-8, 9)))
    question = asked(
        d,
        signed=np.full(d, signed),
        sigma_0=sd,
        declared=declared,
        least_allowance=of[1],
        reach=int(g.integers(0, 40)),
    )
    answer = scale * g.normal(1, 2, d)
    choice = choose(question, seen, parent)
    found = interval(choice, answer)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()

    edges = value_edges(*ends)
    column = column_of(edges, scale * g.normal(0.2, 1, len(edges) - 1), sd)
    assert all(map(math.isfinite, map(math.log2, (column.size, column.spread))))  # units
    assert apart(column) in (True, False)
    about = AverageScale(column.centre, column.spread, column.spread / 2, signed, ends)
    pair = asked(2 * d, cells=d, signed=np.full(2 * d, signed), sigma_0=sd)
    choice = choose(pair, seen, parent, risk=average_risk(about, parent))
    rows, total = answer, column.spread * g.normal(0, 3, d) * answer
    mean = average_about_centre(choice, rows, total, about, parent)
    sides = [(x, x - abs(x) - sd, x + abs(x) + sd) for x in (total, rows)]
    other = average_of_sums(sides[0], sides[1], about, 2.2, pair)
    spread = variance(sides[0], sides[1], mean, about)
    together = covariance(sides[0], sides[1], (mean, other), (about, about), 0.1)
    made = over(together, (spread, spread), 0.5, 1.0), over(together, (spread,), 1.0)
    levels = [0.001, 0.5, 0.97]
    grid = np.array(quantile_edges(column, levels))
    counts = scale * g.normal(0.1, 1, (d, len(grid) - 1))
    choice = choose(question, seen, parent, risk=quantile_risk(len(grid) - 1))
    ranks = [quantile(choice, counts, level, grid) for level in levels]
    for value, low, high in (mean, other, spread, together, *made, *ranks):
        assert np.isfinite(value).all()
        assert not np.isnan([low, high]).any()
        assert (low <= value).all()
        assert (value <= high).all()
