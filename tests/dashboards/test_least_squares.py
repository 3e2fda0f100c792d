"""Least squares over nodes: the best estimate, the truth where there is no noise, or nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sparseq.dashboards.least_squares import CellSolution, CellUnion, NodeValues


def node(first: int, last: int, values: np.ndarray, noise: float) -> NodeValues:
    none = np.zeros(len(values))
    return NodeValues(first, last, values, noise, none, none, none, none)


def measured(truth: np.ndarray, first: int, last: int) -> np.ndarray:
    """The groups of some days and, if there are several, their total."""
    groups = truth[first : last + 1].sum(axis=0)
    return np.append(groups, groups.sum()) if len(groups) > 1 else groups


def some_log(
    draw: random.Random, g: np.random.Generator
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Numbers by day and group, and nodes of some days and some weeks."""
    days, groups = 28, draw.choice([1, 2, 5])
    truth = g.integers(0, 1000, (days, groups)).astype(float)
    share = draw.random()
    spans = [(d, d) for d in range(days) if draw.random() < share]
    spans += [(d, d + 6) for d in range(0, days, 7) if draw.random() < 0.6]
    draw.shuffle(spans)
    return truth, spans


def union(draw: random.Random, truth: np.ndarray) -> CellUnion:
    days, groups = truth.shape
    first = draw.randrange(days)
    last = min(days - 1, first + draw.choice([0, 6, 13, draw.randrange(days)]))
    chosen = (
        None
        if draw.random() < 0.5 or groups == 1
        else frozenset(draw.sample(range(groups), draw.randrange(1, groups + 1)))
    )
    return CellUnion(frozenset(range(first, last + 1)), chosen)


def true_value(truth: np.ndarray, of: CellUnion) -> float:
    rows = truth[sorted(of.days)]
    return float(rows.sum() if of.groups is None else rows[:, sorted(of.groups)].sum())


def test_without_noise_it_is_the_truth_or_nothing() -> None:
    draw, g, found, none = random.Random(1), np.random.default_rng(1), 0, 0
    for _ in range(5000):
        truth, spans = some_log(draw, g)
        nodes = [node(a, b, measured(truth, a, b), draw.choice([0.5, 1, 3])) for a, b in spans]
        wanted = union(draw, truth)
        estimate = CellSolution(nodes, truth.shape[1]).estimate(wanted, 0.05, 1)
        if estimate is None:
            none += 1
            continue
        found += 1
        assert estimate.value == pytest.approx(true_value(truth, wanted), rel=1e-9, abs=1e-6)
    assert found > 1000
    assert none > 1000


def design(spans: list[tuple[int, int]], days: int, groups: int) -> np.ndarray:
    """The matrix of all nodes' numbers over cells, written out."""
    rows = []
    for a, b in spans:
        for group in range(groups):
            row = np.zeros((days, groups))
            row[a : b + 1, group] = 1
            rows.append(row.ravel())
        if groups > 1:
            row = np.zeros((days, groups))
            row[a : b + 1] = 1
            rows.append(row.ravel())
    return np.array(rows)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_best_linear_estimate(seed: int) -> None:
    draw, g = random.Random(seed), np.random.default_rng(seed)
    truth, spans = some_log(draw, g)
    days, groups = truth.shape
    noises = [draw.choice([0.5, 1.0, 3.0]) for _ in spans]
    nodes = [
        node(a, b, measured(truth, a, b) + g.normal(0, s, groups + (groups > 1)), s)
        for (a, b), s in zip(spans, noises, strict=True)
    ]
    if not spans:
        return
    matrix = design(spans, days, groups)
    size = groups + (groups > 1)
    weight = np.repeat([1 / s**2 for s in noises], size)
    y = np.concatenate([one.values for one in nodes])
    information = matrix.T @ (weight[:, None] * matrix)
    for _ in range(5):
        wanted = union(draw, truth)
        estimate = CellSolution(nodes, groups).estimate(wanted, 0.05, 1)
        target = np.zeros((days, groups))
        chosen = list(range(groups) if wanted.groups is None else wanted.groups)
        target[np.ix_(sorted(wanted.days), chosen)] = 1
        solved = np.linalg.pinv(information) @ target.ravel()
        can = np.allclose(information @ solved, target.ravel(), atol=1e-6)
        if estimate is None:
            continue
        assert can
        assert estimate.value == pytest.approx(float(solved @ matrix.T @ (weight * y)), abs=1e-6)
        assert estimate.noise**2 == pytest.approx(float(target.ravel() @ solved), rel=1e-6)


def test_parts_add_up_to_their_total() -> None:
    draw, g = random.Random(5), np.random.default_rng(5)
    truth, _ = some_log(draw, g)
    truth = g.integers(0, 9, (28, 5)).astype(float)
    spans = [(d, d) for d in range(28)] + [(0, 6), (7, 13)]
    nodes = [node(a, b, measured(truth, a, b) + g.normal(0, 4, 6), 4.0) for a, b in spans]
    solution = CellSolution(nodes, 5)

    def value(days: range, group: int | None) -> float:
        chosen = None if group is None else frozenset([group])
        found = solution.estimate(CellUnion(frozenset(days), chosen), 0.05, 1)
        assert found is not None
        return found.value

    whole = value(range(28), None)
    assert sum(value(range(28), k) for k in range(5)) == pytest.approx(whole)
    assert sum(value(range(d, d + 1), None) for d in range(28)) == pytest.approx(whole)
    assert sum(value(range(d, d + 7), k) for d in range(0, 28, 7) for k in range(5)) == (
        pytest.approx(whole)
    )


def test_the_interval_holds_a_cut_that_all_nodes_share() -> None:
    values = np.array([100.0])
    none = np.zeros(1)
    days = [
        NodeValues(d, d, values, 1.0, values * 0.1, values * 0.05, none, none) for d in range(28)
    ]
    found = CellSolution(days, 1).estimate(CellUnion(frozenset(range(28)), None), 0.05, 1)
    assert found is not None
    assert found.value == pytest.approx(2800)
    assert found.high - found.value == pytest.approx(1.2 * 1.96 * 280, rel=0.01)
    assert found.value - found.low == pytest.approx(1.2 * 1.96 * 140, rel=0.01)
