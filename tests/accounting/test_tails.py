"""How far people have faded: facts 1 to 3 of docs/theorems/pilots.md, on random streams."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.accounting.pilots.tails import NO_TAILS, CutBound, tail_edges
from sparseq.stream.faded_weights import (
    edges_of_tails,
    known_tails,
    newcomer_scale,
    with_tails,
)
from sparseq.stream.pilot_noise import split_price
from sparseq.stream.stream_progress import Course
from sparseq.stream.user_weights import allowances, hats

PEOPLE = 200


class Stream:
    """People who are asked with prices, scales, pilots and norms of all kinds, and their course."""

    def __init__(self, seed: int, budget: float, until: float | None) -> None:
        self.draw = np.random.default_rng(seed)
        self.course = Course(max(budget / 4, 2.0), budget, until=until, begun_with=budget)
        self.left = np.full(PEOPLE, int(budget * UNITS_PER_NORM))
        self.often = self.draw.random(PEOPLE) ** 2

    def allowances(self, price: float) -> np.ndarray:
        return allowances(self.left, self.course.cautious(price))

    @property
    def u(self) -> np.ndarray:
        """u_i = sqrt(least / left_i)."""
        return np.sqrt(self.course.least * UNITS_PER_NORM / self.left)

    def ask(self) -> None:
        """Ask one question, in weights or, one time of twelve, in or out."""
        draw, who = self.draw, self.draw.random(PEOPLE) < self.often
        price = float(draw.choice([0.25, 1.0, 1.0, 4.0]))
        r = draw.choice([1.0, 3.0, 20.0], PEOPLE)
        if draw.random() < 1 / 12 and self.course.least > 1:
            self.left -= np.where(who, math.ceil(0.1 * UNITS_PER_NORM), 0)
            self.course = self.course.after_in_or_out(0.1)
            return
        a, poorest = self.allowances(price), self.course.least_allowance(price)
        scale = float(draw.choice([1 / poorest, 20 / poorest, 1.0, 8.0, 0.01]))
        split = split_price(price)
        pilots = (split.first + split.second) * (draw.random() < 0.5)
        price_of_sums = split.answer if pilots else price
        weight = np.minimum(1, scale * a / r)
        due = pilots * a**2 + price_of_sums * (weight * r / scale) ** 2
        self.left -= np.where(who, np.ceil(due * UNITS_PER_NORM), 0).astype(np.int64)
        worst = pilots + price_of_sums * min(1.0, (20 / scale / poorest) ** 2)
        self.course = replace(self.course.after(worst, price), owed=0.0)  # a release of its own


@pytest.mark.parametrize("until", [None, 400.0])
@pytest.mark.parametrize("budget", [8.0, 48.0, 300.0])
def test_nobody_is_ever_a_larger_part_of_the_poorest(budget: float, until: float | None) -> None:
    """Fact 1: u_i never grows, for anybody, under any question; and it is 1 at most."""
    for seed in range(4):
        stream = Stream(seed, budget, until)
        before = stream.u
        for _ in range(120):
            stream.ask()
            assert stream.course.least > 0
            assert (stream.u <= before).all()
            before = stream.u
        assert before.max() <= 1.0
        assert before.min() < 0.9 * before.max()


@pytest.mark.parametrize("seed", range(4))
def test_a_tail_that_was_measured_bounds_every_later_cut(seed: int) -> None:
    """Facts 2 and 3, without noise: of everybody and of any of the people, at every scale."""
    stream, tails, checked = Stream(seed, 48.0, None), NO_TAILS, 0
    for _ in range(150):
        stream.ask()
        most = 1 / stream.course.least_allowance(1.0)
        if tails.due(most):
            edges, a = edges_of_tails(stream.course), stream.allowances(1.0)
            seen = hats(np.ones(PEOPLE), a, edges).histogram(len(edges)) / 2**16
            tails = tails.measured(edges.tolist(), seen.tolist(), 0.0)
        price = float(stream.draw.choice([0.25, 1.0, 4.0]))
        top, a = 1 / stream.course.least_allowance(price), stream.allowances(price)
        for scale in [*tails.scales(top, newcomer_scale(stream.course, price)), 1.5, 3.0]:
            if (cut := tails.cut(scale / top)) is not None and scale >= 1:
                lacks = np.maximum(1 - scale * a, 0).sum()
                assert lacks <= cut.most + 1e-9 * PEOPLE + PEOPLE * 2**-13
                checked += scale < top
    assert checked > 100


def test_of_several_bounds_the_least_is_kept_and_it_never_grows() -> None:
    first = NO_TAILS.measured([1.0, 2.0], [4000.0, 100.0], 7.0)
    assert first.bounds[0] == (200.0, 14.0)
    later = first.measured([1.0, 2.0, 4.0], [900.0, 300.0, 80.0], 7.0)
    assert later.bounds[0] == (200.0, 14.0)  # 320 were seen now: nobody can have come
    assert later.bounds[1][0] == pytest.approx(800.0)  # 200 + 600
    assert later.cut(1.0) == CutBound()
    assert later.cut(0.75) == CutBound(50.0, 3.5)
    assert later.cut(0.2) is None  # of everybody nothing is known
    assert NO_TAILS.cut(0.9) is None


def test_an_edge_above_newcomers_tells_them_from_users_who_have_faded() -> None:
    """10,000 users who never were asked have 1/a = 1.4: on the edges 1.25 and 2.5 they would count
    as 2,100 who may be cut; with an edge of 1.54 as none."""
    edges = tail_edges(5.0, 1.4)
    assert edges.round(2).tolist() == [1.25, 1.54, 2.5, 5.0]
    a = np.append(np.full(10_000, 1 / 1.4), np.full(30, 1 / 5.0))
    seen = hats(np.ones(len(a)), a, edges).histogram(len(edges)) / 2**16
    tails = NO_TAILS.measured(edges.tolist(), seen.tolist(), 0.0)
    assert tails.bounds[1][0] == pytest.approx(10_000 / 1.4 * 0.12 * 2.5 + 30, abs=5)
    assert tails.near is not None
    assert tails.near.most == pytest.approx(30.0, abs=1)
    assert 1.1 * 1.4 in [round(scale, 6) for scale in tails.scales(5.0, 1.4)]
    cut, coarse = tails.cut(1.1 * 1.4 / 5), tails.cut(0.25)
    assert cut is not None
    assert cut.most == pytest.approx(30 * (1 - 1.1 * 1.4 / 5), abs=1)
    assert coarse is not None
    assert coarse.most > 600
    plain = NO_TAILS.measured(edges[[0, 2, 3]].tolist(), _without(seen, edges).tolist(), 0.0)
    assert np.allclose(plain.bounds, tails.bounds)  # the other bounds are as without the edge


def _without(seen: np.ndarray, edges: np.ndarray) -> np.ndarray:
    up = (edges[1] - edges[0]) / (edges[2] - edges[0])
    return np.array([seen[0] + (1 - up) * seen[1], seen[2] + up * seen[1], seen[3]])


def test_newcomers_are_not_cut() -> None:
    """Who comes later was in no tail: no scale is taken that cuts a person with a whole budget."""
    course = replace(Course(12.0, 48.0, begun_with=48.0), clock=700.0, least=1.0)
    edges = edges_of_tails(course).tolist()
    tails = NO_TAILS.measured(edges, [9.0] * len(edges), 7.0)
    scales = tails.scales(1 / course.least_allowance(1.0), newcomer_scale(course, 1.0))
    assert min(scales) * math.sqrt(48.0 / course.cautious(1.0)) >= 1
    assert len(scales) < 5


def test_tails_of_a_table_hold_while_rows_come_unless_people_were_asked_elsewhere() -> None:
    course = Course(12.0, 3.0, clock=64.0, begun_with=48.0)
    course = with_tails(
        course, "people of t", np.array([1.0, 2.0]), np.array([500.0, 3.0]), 7.0
    ).after_answer(["t"])
    assert known_tails(course.after_rows(), "people of t").bounds
    elsewhere = course.after_answer(["", "t"])
    assert known_tails(elsewhere, "people of t").bounds
    assert not known_tails(elsewhere.after_rows(), "people of t").bounds
    assert not known_tails(course.after_in_or_out(9.0), "people of t").bounds
    assert not known_tails(course.about((3, 4)), "people of t").bounds
