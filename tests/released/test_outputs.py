"""Post-processing: every interval holds the truth whenever the measures are within their bounds."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparseq.language.interval_arithmetic import round_to
from sparseq.language.interval_rules import rule_of
from sparseq.released import outputs as out
from sparseq.released.outputs import Estimate, Measurements, Outputs
from sparseq.released.statistics import QuantileNode

MEASURES = 3
numbers = st.floats(-1e4, 1e4).map(lambda x: round(x, 3))
unit = st.floats(-1, 1)


def _nodes(inner: st.SearchStrategy[out.Node]) -> st.SearchStrategy[out.Node]:
    one = [rule_of(name, 1) for name in ("abs", "neg", "round", "floor", "sqrt", "sign", "exp")]
    two = [rule_of(name, 2) for name in ("+", "-", "*", "/", "greatest", "least", "%", "pow")]
    return st.one_of(
        st.tuples(st.sampled_from(two), inner, inner).map(lambda t: out.apply(*t)),
        st.tuples(st.sampled_from(one), inner).map(lambda t: out.apply(*t)),
    )


leaves = st.one_of(
    st.integers(0, MEASURES - 1).map(out.measure),
    st.tuples(st.integers(0, MEASURES - 1), numbers).map(lambda t: out.measure(t[0], t[1])),
    numbers.map(out.constant),
)
nodes = st.recursive(leaves, _nodes, max_leaves=6)


def _noised(values: Any, bounds: Any) -> Measurements:
    return Measurements([np.array([[v]], float) for v in values], bounds, [], 1)


@settings(derandomize=True, max_examples=500, deadline=None)
@given(
    nodes,
    st.lists(numbers, min_size=MEASURES, max_size=MEASURES),
    st.lists(st.floats(0, 100), min_size=MEASURES, max_size=MEASURES),
    st.lists(unit, min_size=MEASURES, max_size=MEASURES),
)
def test_interval_holds_the_truth(
    node: out.Node, truth: list[float], bounds: list[float], off: list[float]
) -> None:
    seen = [t + b * o for t, b, o in zip(truth, bounds, off, strict=True)]
    answer, exact = node(_noised(seen, bounds)), node(_noised(truth, [0.0] * MEASURES))
    assert isinstance(answer, Estimate)
    assert isinstance(exact, Estimate)
    value, low, high = float(exact.value[0]), float(answer.low[0]), float(answer.high[0])
    if np.isfinite(value) and not np.isnan(low) and not np.isnan(high):
        slack = 1e-6 * max(abs(value), 1)
        assert low - slack <= value <= high + slack
        assert answer.error[0] >= abs(answer.value[0] - value) - slack or not np.isfinite(
            answer.value[0]
        )


EDGES = (0.0, 1.0, 2.0, 5.0, 10.0)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=300),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    st.floats(0, 20),
    st.lists(unit, min_size=4, max_size=4),
)
@example([2.0, 2.0], 1.0, 0.97, [0.0, 0.0, -0.943359375, 0.0])  # a tie, rounded
def test_quantile_interval_holds_the_quantile(
    values: list[float], q: float, bound: float, off: list[float]
) -> None:
    counts = np.histogram(values, EDGES)[0]
    noised = Measurements([np.array([counts + bound * np.array(off)])], [bound], [], 1)
    answer = QuantileNode(0, q, EDGES)(noised)
    assert isinstance(answer, Estimate)
    low, high = float(answer.low[0]), float(answer.high[0])
    assert 0 <= answer.value[0] <= 10
    if np.isnan(low):
        assert len(values) <= 3 * 4 * bound + 1e-9
        return
    assert low <= answer.value[0] <= high
    assert low - 1e-9 <= np.quantile(values, q, method="inverted_cdf") <= high + 1e-9


def test_quantiles_without_noise_are_read_off_the_bins() -> None:
    noised = Measurements([np.array([[10.0, 0.0, 10.0, 20.0]])], [0.0], [], 1)
    for q, expected in ((0.125, 0.5), (0.375, 3.5), (0.75, 7.5)):
        answer = QuantileNode(0, q, EDGES)(noised)
        assert isinstance(answer, Estimate)
        assert answer.value[0] == pytest.approx(expected)


def _column(node: out.Node, **known: Any) -> list[Any]:
    noised = Measurements([np.array([[1.0], [4.0], [9.0]])], [0.5], known.get("keys", []), 3)
    result = node(noised)
    return (result.value if isinstance(result, Estimate) else result).tolist()


n = out.measure(0)
large = out.compare(operator.gt, n, out.constant(3))
NULL = out.constant(None)


def test_comparisons_of_keys() -> None:
    days = np.array([dt.date(2024, 1, d) for d in (1, 2, 3)], object)
    later = out.compare(operator.gt, out.key(0), out.constant(dt.date(2024, 1, 1)))
    assert _column(later, keys=[days]) == [False, True, True]
    text = np.array(["a", "b", "c"], object)
    assert _column(out.compare(operator.eq, out.key(0), out.constant("b")), keys=[text])[1]
    with pytest.raises(TypeError):
        _column(out.compare(operator.eq, out.key(0), out.constant(3)), keys=[text])
    places = np.array([1, 2, 3], object)
    assert _column(out.compare(operator.ne, out.key(0), out.constant(2)), keys=[places]) == [
        True,
        False,
        True,
    ]
    assert _column(out.all_of(large, later), keys=[days]) == [False, True, True]


def test_what_is_not_known_is_neither_true_nor_false() -> None:
    values = {True: large, False: out.negation(large), None: out.compare(operator.gt, n, NULL)}
    for a, b in itertools.product(values, values):
        both, either = (_column(f(values[a], values[b]))[1] for f in (out.all_of, out.any_of))
        assert both is (False if False in (a, b) else None if None in (a, b) else True)
        assert either is (True if True in (a, b) else None if None in (a, b) else False)
    assert _column(out.negation(values[None])) == [None, None, None]
    assert out.truth(np.array([True, None, False], object)).tolist() == [True, False, False]


def test_halves_are_rounded_away_from_zero() -> None:
    assert round_to(np.array([0.5, -2.5, 0.49999999999999994])).tolist() == [1, -3, 0]
    assert round_to(np.array([1.125]), 2).tolist() == [1.13]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [
        (False, False, [2, 0, 1]),
        (True, False, [0, 2, 1]),
        (False, True, [1, 2, 0]),
        (True, True, [1, 0, 2]),
    ],
)
def test_missing_values_are_ordered_as_asked(
    descending: bool, nulls_first: bool, expected: list[int]
) -> None:
    noised = Measurements([np.array([[3.0], [np.nan], [1.0]])], [0.0], [], 3)
    order = ((n, descending, nulls_first),)
    assert Outputs((out.OutputColumn("n", n),), order=order).rows(noised).tolist() == expected


def test_rows_are_kept_ordered_and_cut() -> None:
    noised = Measurements(
        [np.array([[3.0], [1.0], [2.0], [1.0]])], [0.0], [np.array(list("abcd"), object)], 4
    )
    shown = (out.OutputColumn("n", n),)
    assert Outputs(shown).rows(noised).tolist() == [0, 1, 2, 3]
    assert Outputs(shown, order=((n, False, False),)).rows(noised).tolist() == [1, 3, 2, 0]
    assert Outputs(shown, order=((n, True, False),)).rows(noised).tolist() == [0, 2, 1, 3]
    by_both = ((n, False, False), (out.key(0), True, False))
    assert Outputs(shown, order=by_both).rows(noised).tolist() == [3, 1, 2, 0]
    assert Outputs(shown, order=by_both, limit=2, offset=1).rows(noised).tolist() == [1, 2]
    assert Outputs(shown, limit=0).rows(noised).tolist() == []
    few = out.compare(operator.lt, n, out.constant(3))
    assert Outputs(shown, having=few).rows(noised).tolist() == [1, 2, 3]
    assert Outputs(shown, having=out.constant(None)).rows(noised).tolist() == []
