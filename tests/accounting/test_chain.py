"""What is cut of a table's rows at most, as people fade: the chain of parent pilots."""

from __future__ import annotations

import numpy as np
import pytest

from sparseq.accounting.pilots import CELLS
from sparseq.accounting.pilots.chain import (
    LEVELS,
    at_level,
    chain_edges,
    first_bounds,
    later_bounds,
    upper_of,
)
from sparseq.accounting.pilots.parent import Parent
from sparseq.stream.user_weights import hats

PEOPLE = 3000


def norms(seed: int) -> np.ndarray:
    return np.ceil(np.random.default_rng(seed).lognormal(1, 1.2, PEOPLE))


def seen(r: np.ndarray, a: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return hats(r, a, edges).histogram(CELLS) / 2**16


def lacks(r: np.ndarray, a: np.ndarray, scale: float) -> float:
    return float(np.maximum(r - scale * a, 0).sum())


@pytest.mark.parametrize("part", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_whoever_fades(seed: int, part: float) -> None:
    """Without noise: all levels, of all rows and of some, when some people have faded and later."""
    draw, r, a = np.random.default_rng(seed), norms(seed), np.ones(PEOPLE)
    bounds, last = first_bounds(np.tile(seen(r, a, chain_edges(1.0)), (3, 1))), 1.0
    for factor in (2.1, 4.3, 9.0, 17.0):
        faded = draw.random(PEOPLE) < part
        a = np.where(faded, a * last / factor, a)  # as a_min has: nobody's falls by more
        last = factor
        some = np.where(draw.random(PEOPLE) < 0.3, np.ceil(r * draw.random(PEOPLE)), 0.0)
        bounds = later_bounds(bounds, factor, seen(r, a, chain_edges(factor)).tolist(), 0.0)
        most = upper_of(bounds)
        for level in (0.5, 1.0, 3.0, 20.0, 100.0):
            if factor * level >= 1:
                room = 4 * float((r / a).sum()) * 2.0**-16  # what people in cells are rounded by
                assert lacks(r, a, factor * level) <= float(at_level(most, level)) + room
                assert lacks(some, a, factor * level) <= float(at_level(most, level)) + room


def test_where_nobody_has_faded_a_later_pilot_says_so() -> None:
    """In place of a cut of 0.9 of all, one of few rows: with the noise of a store."""
    r, a, draw = np.ones(PEOPLE), np.ones(PEOPLE), np.random.default_rng(1)
    bounds = first_bounds(np.tile(seen(r, a, chain_edges(1.0)), (3, 1)))
    assert at_level(upper_of(bounds), 0.125) > 2600
    people = seen(r, a, chain_edges(16.0)) + draw.normal(0, 7, CELLS)
    most = upper_of(later_bounds(bounds, 16.0, people.tolist(), 7.0))
    assert at_level(most, 0.25) < 1000


def test_levels_move_with_the_unit_of_norms() -> None:
    most = 100.0 / LEVELS
    up, down = (Parent(np.ones((2, CELLS)), 3, most).shift(k) for k in (2, -2))
    assert up.most is not None
    assert down.most is not None
    for level in (4.0, 64.0):
        assert at_level(up.most, level) == pytest.approx(4 * at_level(most, level / 4))
        assert at_level(down.most, level) == pytest.approx(at_level(most, 4 * level) / 4)
    assert (up.top, down.top) == (5, 1)


@pytest.mark.parametrize("factor", [1.0, 1.3, 2.0, 5.0])
def test_no_more_weight_lies_above_an_edge_than_a_faded_parent_says(factor: float) -> None:
    """Of people with any allowances from 1/factor to 1."""
    draw, r = np.random.default_rng(3), norms(3)
    edges = chain_edges(1.0)
    whole = seen(r, np.ones(PEOPLE), edges)
    found = Parent(whole[None, :]).fade(factor).samples
    assert found is not None
    most = np.cumsum(found[0][::-1])[::-1]
    for a in (np.full(PEOPLE, 1 / factor), draw.uniform(1 / factor, 1, PEOPLE), np.ones(PEOPLE)):
        there = np.cumsum(seen(r, a, edges)[::-1])[::-1]
        assert (there <= most * (1 + 1e-9) + 1).all()
