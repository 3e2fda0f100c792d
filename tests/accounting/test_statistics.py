"""Averages, variances and quantiles of made-up people, as the stream measures them: no store."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from test_cut import asked, read

from sparseq.accounting.pilots.averages import (
    AverageScale,
    apart,
    average_about_centre,
    average_of_sums,
    average_risk,
    variance,
)
from sparseq.accounting.pilots.choice import Choice, Risk, choose, upper
from sparseq.accounting.pilots.column_values import ColumnValues, column_of, value_edges
from sparseq.accounting.pilots.covariances import covariance, over
from sparseq.accounting.pilots.ladder import CELLS
from sparseq.accounting.pilots.parent import Parent
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.accounting.pilots.quantiles import quantile, quantile_edges, quantile_risk
from sparseq.stream.user_weights import weights

Floats = NDArray[np.float64]
SIGMA_0 = math.sqrt(48.0)
MANY_ROWS = Parent(np.full((1, CELLS), 2000.0) * 0.4 ** np.arange(CELLS))
"""A parent pilot of the rows of people as `rows` makes them."""


class Rows(NamedTuple):
    """Rows of people: who, in which group, the value; values lie in 0 to `top`."""

    who: NDArray[np.int64]
    group: NDArray[np.int64]
    value: Floats
    top: float


def rows(g: np.random.Generator, people: int, groups: int, spread: float) -> Rows:
    """Lognormal rows a person and lognormal values, some people's higher than others'."""
    who = np.repeat(np.arange(people), np.ceil(g.lognormal(1.2, 0.8, people)).astype(int))
    own = g.normal(0, spread / 2, people)[who]
    value = np.exp(3 + own + g.normal(0, spread, len(who)))
    return Rows(who, g.integers(0, groups, len(who)), np.minimum(value, 1000.0), 1000.0)


def column(r: Rows, g: np.random.Generator) -> ColumnValues:
    """The column pilot of it."""
    edges = value_edges(0.0, r.top)
    cell = np.clip(np.searchsorted(edges, r.value, side="right") - 1, 0, len(edges) - 2)
    h = np.zeros((int(r.who.max()) + 1, len(edges) - 1))
    np.add.at(h, (r.who, cell), 1.0)
    h /= np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-9)
    return column_of(edges, h.sum(axis=0) + g.normal(0, SIGMA_0, len(edges) - 1), SIGMA_0)


def measured(
    x: Floats, g: np.random.Generator, risk: Risk | None = None, signed: bool = False
) -> tuple[Choice, Floats]:
    """Pilots, C and noised weighted sums of vectors, one a person; a = 1."""
    d = x.shape[1]
    r, a = np.linalg.norm(x, axis=1), np.ones(len(x))
    question = asked(d, cells=d // 2 if risk and signed else d, signed=np.full(d, signed))
    choice = choose(question, read(r, a, math.inf, 1.0, g), risk=risk)
    mantissa, exponent = weights(r, a, choice.missing.scale)
    w = (mantissa / 2.0**exponent)[:, None]
    return choice, (x * w).sum(axis=0) + g.normal(0, choice.missing.noise, d)


def by_person(r: Rows, value: Floats, groups: int) -> Floats:
    found = np.zeros((int(r.who.max()) + 1, groups))
    np.add.at(found, (r.who, r.group), value)
    return found


def averages(seed: int, groups: int, spread: float) -> tuple[Floats, ...]:
    """Value, low, high and truth of averages by group: centred, or apart as the column says."""
    g = np.random.default_rng([seed, groups])
    r = rows(g, 4000, groups, spread)
    ones = np.ones(len(r.who))
    truth = np.bincount(r.group, r.value) / np.bincount(r.group)
    known = column(r, g)
    about = AverageScale(known.centre, known.spread, known.spread / 2, False, (0.0, r.top))
    if apart(known):
        sides = []
        for value in (ones, r.value / known.size):
            choice, answer = measured(by_person(r, value, groups), g)
            found = interval(choice, answer)
            sides.append((found.value, found.low, found.high))
        counted, total = sides
        added = tuple(known.size * end for end in total)
        z = upper(choice.of.beta / 2 / groups)
        return (*average_of_sums(added, counted, about, z, choice.of), truth)  # type: ignore[arg-type]
    x = by_person(r, ones, groups), by_person(r, (r.value - about.centre) / about.unit, groups)
    choice, answer = measured(np.hstack(x), g, average_risk(about, MANY_ROWS), signed=True)
    counted_, off = np.split(answer, 2)
    return (*average_about_centre(choice, counted_, off * about.unit, about, MANY_ROWS), truth)


@pytest.mark.deep
@pytest.mark.parametrize(("groups", "spread"), [(1, 0.4), (7, 0.4), (1, 1.2), (7, 1.2)])
def test_averages_hold_the_truth_and_are_narrow(groups: int, spread: float) -> None:
    """36 of 40 hold all groups; half-widths below 6 %, or 40 % where values are heavy."""
    inside, half, errors = 0, [], []
    for seed in range(40):
        value, low, high, truth = averages(seed, groups, spread)
        inside += bool(((low <= truth) & (truth <= high)).all())
        half.append(float(((high - low) / 2 / truth).mean()))
        errors.append(float(np.abs(value / truth - 1).mean()))
    assert inside >= 36
    assert np.median(half) < (0.06 if spread < 1 else 0.4)
    assert np.median(errors) < (0.01 if spread < 1 else 0.06)


def test_an_average_allows_for_people_who_faded_because_of_their_values() -> None:
    """Each person has one row; a value far from the centre has faded most, and is cut most."""
    one_row_each = Parent(np.full((1, CELLS), 10_000.0) * (np.arange(CELLS) == 0))
    inside = {id(one_row_each): 0, id(MANY_ROWS): 0}
    for seed in range(30):
        g = np.random.default_rng([seed, 5])
        value = np.minimum(g.gamma(2.0, 15.0, 10_000), 200.0)
        about = AverageScale(31.0, 23.0, 16.0, False, (0.0, 200.0))
        x = np.column_stack([np.ones(len(value)), (value - about.centre) / about.unit])
        r = np.linalg.norm(x, axis=1)
        a = np.clip(2.0 / r**2, 0.06, 1.0)
        question = asked(2, cells=1, signed=np.ones(2, bool), least_allowance=0.06)
        reading = read(r, a, math.inf, 0.06, g)
        for counted in (one_row_each, MANY_ROWS):
            choice = choose(question, reading, risk=average_risk(about, counted))
            mantissa, exponent = weights(r, a, choice.missing.scale)
            answer = (mantissa / 2.0**exponent) @ x + g.normal(0, choice.missing.noise, 2)
            total = answer[1:] * about.unit
            _, low, high = average_about_centre(choice, answer[:1], total, about, counted)
            inside[id(counted)] += bool(low[0] <= value.mean() <= high[0])
    assert inside[id(one_row_each)] >= 26
    assert inside[id(MANY_ROWS)] <= 20, "the test has lost its power"


def test_a_group_of_which_nothing_is_known_may_lie_anywhere() -> None:
    g = np.random.default_rng(1)
    r = rows(g, 3000, 3, 0.4)
    r = r._replace(group=np.minimum(r.group, 1))  # nobody is in the third
    known = column(r, g)
    about = AverageScale(known.centre, known.spread, known.spread / 2, False, (0.0, r.top))
    ones = np.ones(len(r.who))
    x = by_person(r, ones, 3), by_person(r, (r.value - about.centre) / about.unit, 3)
    choice, answer = measured(np.hstack(x), g, average_risk(about, MANY_ROWS), signed=True)
    counted, off = np.split(answer, 2)
    value, low, high = average_about_centre(choice, counted, off * about.unit, about, MANY_ROWS)
    assert abs(value[2] - known.centre) < known.spread  # its value is that of all
    assert (low[2], high[2]) == (0.0, r.top)
    assert high[0] - low[0] < known.spread


@pytest.mark.parametrize("apart_too", [False, True])
def test_a_small_group_of_other_values_is_not_drawn_to_the_centre(apart_too: bool) -> None:
    """300 rows of 900 beside 30,000 of about 20: the interval holds 900 or ends at the bound."""
    g = np.random.default_rng(6)
    who = np.repeat(np.arange(10_100), 3)
    group = (who >= 10_000).astype(int)
    value = np.where(group == 1, 900.0, np.exp(g.normal(3, 0.4, len(who))))
    r = Rows(who, group, value, 1000.0)
    known = column(r, g)
    ones, truth = np.ones(len(who)), np.bincount(group, value) / np.bincount(group)
    if apart_too:
        about = AverageScale(known.centre, known.spread, 1.0, False, (0.0, r.top))
        sides = []
        for some in (value / known.size, ones):  # one group at a time, as WHERE asks for it
            choice, answer = measured(by_person(r, some * group, 2)[:, 1:], g)
            found = interval(choice, answer)
            sides.append((found.value, found.low, found.high))
        added = tuple(known.size * end for end in sides[0])
        z = upper(choice.of.beta / 2)
        _, low, high = average_of_sums(added, sides[1], about, z, choice.of)  # type: ignore[arg-type]
        assert low[0] <= truth[1] <= high[0]
        return
    about = AverageScale(known.centre, known.spread, known.spread / 2, False, (0.0, r.top))
    x = by_person(r, ones, 2), by_person(r, (value - about.centre) / about.unit, 2)
    choice, answer = measured(np.hstack(x), g, average_risk(about, MANY_ROWS), signed=True)
    counted, off = np.split(answer, 2)
    _, low, high = average_about_centre(choice, counted, off * about.unit, about, MANY_ROWS)
    assert (low <= truth).all()
    assert (truth <= high).all()


@pytest.mark.deep
@pytest.mark.parametrize("spread", [0.3, 0.7])
def test_variances_hold_the_truth(spread: float) -> None:
    inside, half = 0, []
    for seed in range(40):
        g = np.random.default_rng([seed, 9])
        r = rows(g, 8000, 1, spread)
        known = column(r, g)
        about = AverageScale(known.centre, known.spread, known.spread / 2, False, (0.0, r.top))
        ones, off = np.ones(len(r.who)), r.value - about.centre
        x = np.hstack([by_person(r, ones, 1), by_person(r, off / about.unit, 1)])
        choice, answer = measured(x, g, average_risk(about, MANY_ROWS), signed=True)
        mean = average_about_centre(choice, answer[:1], answer[1:] * about.unit, about, MANY_ROWS)
        counted = choice.of.z() * choice.missing.noise
        counts = answer[:1], answer[:1] - counted, answer[:1] + counted
        unit = known.spread**2
        second, total = measured(by_person(r, off * off / unit, 1), g)
        found = interval(second, total)
        ends = found.value * unit, found.low * unit, found.high * unit
        _, low, high = np.sqrt(variance(ends, counts, mean, about))
        truth = r.value.std()
        inside += bool(low[0] <= truth <= high[0])
        half.append(float((high - low)[0] / 2 / truth))
    assert inside >= 36
    assert np.median(half) < 0.1


Draw = Callable[[np.random.Generator, int], Floats]
DRAWN: dict[str, Draw] = {
    "lognormal": lambda g, n: np.minimum(np.exp(g.normal(3, 1, n)), 1000.0),
    "whole numbers": lambda g, n: g.poisson(4, n).astype(float),
    "mostly nothing": lambda g, n: np.where(g.random(n) < 0.7, 0.0, g.uniform(0, 1000, n)),
}


@pytest.mark.parametrize("values", DRAWN)
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles_hold_the_truth(values: str, level: float) -> None:
    """As plain SQL has them; 37 of 40, and narrow where values are many."""
    inside, half = 0, []
    for seed in range(40):
        g = np.random.default_rng([seed, 5])
        r = rows(g, 4000, 1, 0.4)
        r = r._replace(value=DRAWN[values](g, len(r.who)))
        edges = np.array(quantile_edges(column(r, g), [level]))
        cell = np.clip(np.searchsorted(edges, r.value, side="right") - 1, 0, len(edges) - 2)
        x = by_person(r._replace(group=cell), np.ones(len(r.who)), len(edges) - 1)
        choice, counts = measured(x, g, quantile_risk(len(edges) - 1))
        value, low, high = quantile(choice, counts[None, :], level, edges)
        truth = float(np.quantile(r.value, level))
        inside += bool(low[0] <= truth <= high[0])
        half.append(float((high - low)[0] / 2 / max(truth, 1.0)))
        assert low[0] <= value[0] <= high[0]
    assert inside >= 37
    if values == "lognormal":
        assert np.median(half) < 0.12


def pairs(seed: int, groups: int, slope: float) -> tuple[tuple[Floats, ...], ...]:
    """Value, low, high and truth of covariances, correlations and slopes of y on x, by group."""
    g = np.random.default_rng([seed, groups, 7])
    r = rows(g, 4000, groups, 0.4)
    other = np.clip(60 + slope * (r.value - 22) + g.normal(0, 9, len(r.who)), 0.0, 1000.0)
    both = r, r._replace(value=other)
    known = [column(one, g) for one in both]
    abouts = [AverageScale(k.centre, k.spread, k.spread / 2, False, (0.0, 1000.0)) for k in known]
    off = [one.value - about.centre for one, about in zip(both, abouts, strict=True)]
    ones = np.ones(len(r.who))
    means, sums = list[tuple[Floats, ...]](), list[tuple[Floats, ...]]()
    for about, one in zip(abouts, off, strict=True):
        x = by_person(r, ones, groups), by_person(r, one / about.unit, groups)
        choice, answer = measured(np.hstack(x), g, average_risk(about, MANY_ROWS), signed=True)
        counted, total = np.split(answer, 2)
        means.append(average_about_centre(choice, counted, total * about.unit, about, MANY_ROWS))
    for first, second in ((0, 0), (1, 1), (0, 1)):
        size = known[first].spread * known[second].spread
        signed = first != second
        x = by_person(r, off[first] * off[second] / size, groups)
        found = interval(*measured(x, g, signed=signed))
        sums.append(tuple(size * end for end in (found.value, found.low, found.high)))
    found = interval(*measured(by_person(r, ones, groups), g))
    number = found.value, found.low, found.high
    spreads = [
        variance(square, number, mean, about)  # type: ignore[arg-type]
        for square, mean, about in zip(sums, means, abouts, strict=False)
    ]
    together = covariance(sums[2], number, means, abouts, 0.0)  # type: ignore[arg-type]
    exact = [np.cov(r.value[r.group == k], other[r.group == k], bias=True) for k in range(groups)]
    c, x_, y_ = (np.array([m[at] for m in exact]) for at in ((0, 1), (0, 0), (1, 1)))
    return (
        (*together, c),
        (*over(together, spreads, 0.5, 1.0), c / np.sqrt(x_ * y_)),
        (*over(together, spreads[:1], 1.0), c / x_),
    )


@pytest.mark.parametrize(
    ("groups", "slope"),
    [(1, 1.0), *(pytest.param(*some, marks=pytest.mark.deep) for some in ((5, 1.0), (1, 0.0)))],
)
def test_pairs_hold_the_truth_and_are_narrow(groups: int, slope: float) -> None:
    """27 of 30 hold all groups, of each; a correlation is told to 0.25, by group to 0.5."""
    inside, halves = np.zeros(3), list[float]()
    for seed in range(30):
        found = pairs(seed, groups, slope)
        inside += [bool(((low <= t) & (t <= high)).all()) for _, low, high, t in found]
        _, low, high, _ = found[1]
        halves.append(float((high - low).mean() / 2))
    assert (inside >= 27).all(), inside
    assert np.median(halves) < (0.25 if groups == 1 else 0.5)


def test_of_a_value_and_itself_the_correlation_is_1() -> None:
    def ends(value: float, off: float) -> tuple[Floats, Floats, Floats]:
        return np.array([value]), np.array([value - off]), np.array([value + off])

    about = AverageScale(0.0, 1.0, 1.0, False, (-10.0, 10.0))
    rows, mean, squares = ends(100.0, 1e-6), ends(2.0, 1e-6), ends(1300.0, 1e-6)
    spread = variance(squares, rows, mean, about)
    together = covariance(squares, rows, (mean, mean), (about, about), 0.0)
    assert spread[0][0] == pytest.approx(9.0)
    assert together[0][0] == pytest.approx(9.0)
    (value,), (low,), (high,) = over(together, (spread, spread), 0.5, 1.0)
    assert value == pytest.approx(1.0)
    assert 1 - 1e-5 < low <= high == 1.0
    assert over(together, (ends(4.0, 5.0),), 1.0)[1][0] == -np.inf  # it may be 0
