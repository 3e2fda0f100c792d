"""Conformance of the two kernels: each is held against twenty lines of Python integers."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparseq.engine import reduction, weighted_reduction
from sparseq.engine.reduction import (
    CELL_LIMIT,
    NORM_LIMIT,
    Reduction,
    Runs,
    find_bins,
    join_parts,
    quantise,
    quantise_numpy,
    reduce,
    reduce_compiled,
    reduce_numpy,
)

Kernel = Callable[[Runs, Any, Any, int, bool], Reduction]
needs_numba = pytest.mark.skipif(reduction.compiled() is None, reason="Numba is not installed")
KERNELS = [
    pytest.param(reduce_numpy, id="numpy"),
    pytest.param(reduce_compiled, id="compiled", marks=needs_numba),
]
EXTREME = 2**31 - 1
many = settings(derandomize=True, deadline=None, max_examples=40)


@dataclass(frozen=True)
class Case:
    """Rows in order of user; None stands for all 0 (coordinates) or all 1 (values)."""

    users: list[int]
    coordinates: list[int] | None
    values: list[int] | None
    size: int
    distinct: bool

    @property
    def runs(self) -> Runs:
        return Runs.of(np.array(self.users, np.int32))

    def reduced_by(self, kernel: Kernel, runs: Runs | None = None) -> Reduction:
        k = None if self.coordinates is None else np.array(self.coordinates, np.int32)
        v = None if self.values is None else np.array(self.values, np.int32)
        return kernel(self.runs if runs is None else runs, k, v, self.size, self.distinct)

    def only(self, users: set[int]) -> Case:
        rows = [i for i, u in enumerate(self.users) if u in users]

        def take(column: list[int] | None) -> list[int] | None:
            return None if column is None else [column[i] for i in rows]

        return Case(
            [self.users[i] for i in rows],
            take(self.coordinates),
            take(self.values),
            self.size,
            self.distinct,
        )


def reference(case: Case) -> tuple[dict[int, int], list[int]]:
    """Squared norm of each user that has one, and the sums, in Python integers."""
    cells: dict[tuple[int, int], int] = {}
    for i, user in enumerate(case.users):
        k = 0 if case.coordinates is None else case.coordinates[i]
        v = 1 if case.values is None else case.values[i]
        if k < 0 or (case.distinct and v == 0):
            continue
        cells[user, k] = 1 if case.distinct else cells.get((user, k), 0) + v
    norms: dict[int, int] = {}
    totals = [0] * case.size
    for (user, k), x in cells.items():
        over = abs(x) > CELL_LIMIT
        norms[user] = min(norms.get(user, 0) + (NORM_LIMIT if over else x * x), NORM_LIMIT)
        totals[k] += x
    return {u: n for u, n in norms.items() if n}, totals


def norms_of(reduced: Reduction) -> dict[int, int]:
    assert np.all(np.diff(reduced.users) > 0), "users ascend and are distinct"
    assert reduced.norms.dtype == np.int64
    norms = dict(zip(reduced.users.tolist(), reduced.norms.tolist(), strict=True))
    return {u: n for u, n in norms.items() if n}


def assert_same(reduced: Reduction, case: Case) -> None:
    norms, totals = reference(case)
    assert norms_of(reduced) == norms
    assert reduced.totals.tolist() == totals


values_of_all_sizes = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0, 1, -1, EXTREME, -EXTREME, EXTREME - 1, 2**30, -(2**30), 2**20]),
    st.integers(-EXTREME, EXTREME),
)


@st.composite
def cases(draw: st.DrawFn, max_rows: int = 40) -> Case:
    rows = draw(st.integers(0, max_rows))
    column = {"min_size": rows, "max_size": rows}
    size = draw(st.sampled_from([1, 2, 3, 7, 50, 200]))
    owner = st.integers(0, draw(st.sampled_from([0, 3, 10, 2**31 - 1])))
    return Case(
        sorted(draw(st.lists(owner, **column))),
        draw(st.none() | st.lists(st.integers(-1, size - 1), **column)),
        draw(st.none() | st.lists(values_of_all_sizes, **column)),
        size,
        draw(st.booleans()),
    )


# Both kernels against the reference ---------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@many
@given(case=cases())
def test_norms_and_sums_are_those_of_python_integers(kernel: Kernel, case: Case) -> None:
    assert_same(case.reduced_by(kernel), case)


@pytest.mark.parametrize("kernel", KERNELS)
@many
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_a_users_rows_makes_no_difference(
    kernel: Kernel, case: Case, seed: int
) -> None:
    shuffled = np.random.default_rng(seed).permutation(len(case.users))
    order = shuffled[np.argsort(np.array(case.users)[shuffled], kind="stable")].tolist()
    other = Case(
        case.users,
        None if case.coordinates is None else [case.coordinates[i] for i in order],
        None if case.values is None else [case.values[i] for i in order],
        case.size,
        case.distinct,
    )
    assert_same(other.reduced_by(kernel), case)


@pytest.mark.parametrize("kernel", KERNELS)
@many
@given(case=cases(), chosen=st.sets(st.integers(0, 10)))
def test_some_users_alone_are_what_they_are_among_all(
    kernel: Kernel, case: Case, chosen: set[int]
) -> None:
    """`Runs.only` serves the subtraction of dropped users; it may be asked for strangers too."""
    runs = case.runs.only(np.array(sorted(chosen), np.int32))
    assert runs.owners.tolist() == sorted(chosen & set(case.users))
    assert runs.owners.dtype == np.int32
    assert_same(case.reduced_by(kernel, runs), case.only(chosen))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("values", "norm"),
    [
        ([EXTREME], EXTREME**2),
        ([EXTREME, 1], NORM_LIMIT),
        ([-EXTREME, -1], NORM_LIMIT),
        ([EXTREME, 1, -1], EXTREME**2),
        ([EXTREME] * 4 + [-EXTREME] * 4 + [5], 25),
        ([EXTREME] * 10, NORM_LIMIT),
    ],
)
def test_a_cell_beyond_31_bits_saturates_its_users_norm(
    kernel: Kernel, values: list[int], norm: int
) -> None:
    case = Case([4] * len(values) + [9], None, [*values, 3], 1, False)
    reduced = case.reduced_by(kernel)
    assert norms_of(reduced) == {4: norm, 9: 9}
    assert reduced.totals.tolist() == [sum(values) + 3]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 8, 9, 100])
@pytest.mark.parametrize("value", [EXTREME, 2**30, -(2**30), 2**29 + 1])
def test_a_sum_of_squares_saturates_and_never_wraps(kernel: Kernel, cells: int, value: int) -> None:
    case = Case([1] * cells, list(range(cells)), [value] * cells, cells, False)
    assert norms_of(case.reduced_by(kernel)) == {1: min(cells * value**2, NORM_LIMIT)}


@needs_numba
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("owners", [1, 2, 3, 1000])
def test_large_inputs_go_to_the_compiled_loop_and_come_back_the_same(
    distinct: bool, owners: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(owners)
    rows = 20_000
    users = np.sort(draw.integers(0, owners, rows)).astype(np.int32)
    coordinates = draw.integers(-1, 40, rows).astype(np.int8)
    values = draw.integers(-5, 6, rows).astype(np.int32)
    expected = reduce_numpy(Runs.of(users), coordinates, values, 40, distinct)
    calls: list[int] = []
    monkeypatch.setattr(reduction, "worthwhile", lambda rows: True)
    monkeypatch.setattr(
        reduction, "reduce_compiled", lambda *a: calls.append(1) or reduce_compiled(*a)
    )
    reduced = reduce(Runs.of(users), coordinates, values, 40, distinct)
    assert calls == [1]
    assert norms_of(reduced) == norms_of(expected)
    assert reduced.totals.tolist() == expected.totals.tolist()


# Parts --------------------------------------------------------------------------------------------


@many
@given(lengths=st.lists(st.integers(1, 50), max_size=12), threads=st.integers(1, 5))
def test_parts_cover_all_users_and_split_none(lengths: list[int], threads: int) -> None:
    users = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "THREADS", threads)
        parts = reduction.even_parts(Runs.of(users))
    covered = [u for part in parts for u in range(part.start, part.stop)]
    assert covered == list(range(len(lengths)))


@many
@given(case=cases(), cut=st.integers(0, 11))
def test_ranges_of_users_joined_are_the_whole(case: Case, cut: int) -> None:
    low = case.only({u for u in case.users if u < cut})
    high = case.only({u for u in case.users if u >= cut})
    assert_same(join_parts([p.reduced_by(reduce_numpy) for p in (low, high)]), case)


# The lattice --------------------------------------------------------------------------------------

AWKWARD = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    5e-324,
    -5e-324,
    2.0**-1022,
    2**31 - 1.5,
    2**31 - 1.0,
    2.0**31,
    -(2.0**31),
    0.1,
    1 / 3,
    2.0**52 + 1,
    4503599627370497.5,
    1e-300,
]
STEPS = [2.0**e for e in (-1000, -60, -20, -3, -1, 0, 1, 5, 40, 900)]


def on_lattice(value: float, granularity: float) -> int:
    """round(value / granularity), halves to even, in exact rationals; saturated."""
    if not math.isfinite(value):
        return 0
    return max(-CELL_LIMIT, min(CELL_LIMIT, round(Fraction(value) / Fraction(granularity))))


def compiled_quantise(values: NDArray[Any], granularity: float) -> NDArray[np.int32]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "worthwhile", lambda rows: True)
        patch.setattr(weighted_reduction, "worthwhile", lambda rows: True)
        return quantise(values, granularity)


QUANTISERS = [
    pytest.param(quantise_numpy, id="numpy"),
    pytest.param(compiled_quantise, id="compiled", marks=needs_numba),
]


@pytest.mark.parametrize("put", QUANTISERS)
@many
@given(
    values=st.lists(st.sampled_from(AWKWARD) | st.floats(width=64), max_size=20),
    granularity=st.sampled_from(STEPS),
)
def test_quantise_rounds_as_fractions_do(
    put: Callable[[NDArray[Any], float], NDArray[np.int32]],
    values: list[float],
    granularity: float,
) -> None:
    steps = put(np.array(values, np.float64), granularity)
    assert steps.dtype == np.int32
    assert steps.tolist() == [on_lattice(v, granularity) for v in values]


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("granularity", [0.25, 1.0, 8.0])
def test_quantise_takes_every_integer_type(kind: type, granularity: float) -> None:
    values = np.array([0, 1, 100], np.int64).astype(kind)
    expected = [on_lattice(float(v), granularity) for v in values.tolist()]
    assert quantise(values, granularity).tolist() == expected


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_numba)])
@many
@given(
    edges=st.lists(st.floats(-9, 9), min_size=2, max_size=70, unique=True).map(sorted),
    others=st.lists(st.sampled_from(AWKWARD) | st.floats(-10, 10), max_size=20),
    nearest=st.booleans(),
)
def test_a_bin_is_where_python_finds_it(
    compiled: bool, edges: list[float], others: list[float], nearest: bool
) -> None:
    """At every edge and beside it; beyond the ends, NaN and infinities are in none."""
    values = [*edges, *(math.nextafter(e, math.inf) for e in edges), *others]
    ends = (-sys.float_info.max, sys.float_info.max) if nearest else (edges[0], edges[-1])
    places = np.empty(len(values), np.int8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "worthwhile", lambda rows: compiled)
        patch.setattr(weighted_reduction, "worthwhile", lambda rows: compiled)
        find_bins(np.array(edges[1:-1]), ends, np.array(values), places)
    assert places.tolist() == [
        bisect_right(edges[1:-1], v) if ends[0] <= v <= ends[1] else -1 for v in values
    ]
