"""Sums of products of integers, against Python's integers; and the two versions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparseq.compiled import compiled
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.training import ClosedForm, exact_sums, family
from sparseq.training.accountant import clipped, weights

Floats = NDArray[np.float64]
needs_numba = pytest.mark.skipif(compiled() is None, reason="Numba is not installed")
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["numpy", pytest.param("compiled", marks=needs_numba)])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(monkeypatch, request.param)
    return str(request.param)


def choose(monkeypatch: Any, version: str) -> None:
    """Have either version do the work, in two threads from a few rows on."""
    monkeypatch.setattr(exact_sums, "worthwhile", lambda n: version == "compiled")
    monkeypatch.setattr(exact_sums, "_SHARED", 100)


def integers(rng: np.random.Generator, most: float, *shape: int) -> Floats:
    return np.rint(rng.uniform(-most, most, shape))


@pytest.mark.parametrize("rows", [1, 3, 63, 64, 65, 130, 5000])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_dots_are_those_of_python(rows: int, kind: Any, version: str) -> None:
    rng = np.random.default_rng(rows)
    x, weights = integers(rng, 2**18, rows, 7).astype(kind), integers(rng, 2**31, 1, 7)
    expected = [sum(int(a) * int(b) for a, b in zip(row, weights[0], strict=True)) for row in x]
    assert exact_sums.dots(x, weights)[0].tolist() == expected
    assert exact_sums.row_squares(x).tolist() == [sum(int(a) ** 2 for a in row) for row in x]


@pytest.mark.parametrize("rows", [1, 3, 63, 64, 65, 130, 5000])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_are_those_of_python_up_to_the_largest_vectors(
    rows: int, kind: Any, version: str
) -> None:
    """Every coordinate is just below 2**47 and of one sign: whole blocks add up to nearly 2**53."""
    x = np.full((rows, 5), 2.0**18, kind)
    x[:, 3] = -3
    residual = np.full((1, rows), 2.0**29 - 1)
    residual[0, 0] = 12345.0
    charged, sums = exact_sums.weighted_sums(
        residual, np.ones(rows), 1.0, x, exact_sums.row_squares(x), 2.0**-36, 2.0**18
    )
    total = int(residual.sum())
    assert sums.tolist() == [2**18 * total, 2**18 * total, 2**18 * total, -3 * total, 2**18 * total]
    assert all(0 < c < NORM_LIMIT for c in charged.tolist())


hostile = st.sampled_from(
    [0.0, -0.0, 0.5, -1.0, 1e-310, 3.0**20, -(2.0**40), 2.0**200, 1e300, np.inf, -np.inf, np.nan]
)


@needs_numba
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 2**16), rows=st.integers(1, 140))
def test_the_versions_agree_to_the_bit(
    data: Any, seed: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    residual = rng.normal(size=(1, rows)) * 2.0 ** rng.integers(-40, 40, rows)
    some = data.draw(st.lists(hostile, min_size=1, max_size=4))
    residual[0, rng.integers(0, rows, len(some))] = some
    weights = np.where(rng.random(rows) < 0.3, 0.0, rng.random(rows))
    x = integers(rng, 2**18, rows, 6).astype(np.float32)
    got = []
    for version in ("numpy", "compiled"):
        choose(monkeypatch, version)
        with np.errstate(all="ignore"):
            charged, sums = exact_sums.weighted_sums(
                residual, weights, 2.0**20, x, exact_sums.row_squares(x), 2.0**-32, 2.0**18
            )
        got.append((charged.tolist(), sums.tolist()))
    assert got[0] == got[1]


@needs_numba
@pytest.mark.parametrize("name", ["logistic", "linear", "poisson", "softmax"])
def test_whole_gradients_agree_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes or goes may change which version does the work, and so nothing else."""
    rng = np.random.default_rng(9)
    n, d = 4099, 21
    x, y = rng.uniform(-1, 1, (n, d)), (rng.random(n) < 0.5).astype(float)
    engine = ClosedForm(family(name, 2), np.arange(n), x, y, bound=1.0)
    params, weights = rng.normal(size=engine.coordinates), rng.random(n)
    got = []
    for version in ("numpy", "compiled"):
        choose(monkeypatch, version)
        (batch,) = engine.batches()
        norms, pull = engine.query(params, batch)
        pulled = pull(weights, 2.0**-42)
        got.append((norms.tolist(), pulled.squares.tolist(), pulled.sums.tolist()))
    assert got[0] == got[1]


@st.composite
def steps(draw: st.DrawFn) -> Any:
    """An engine, one record a user, parameters and limits; any of them may be hostile."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    name = draw(st.sampled_from(["logistic", "linear"]))
    n, d = draw(st.integers(1, 300)), draw(st.integers(1, 20))
    x, y = rng.uniform(-1, 1, (n, d)), rng.integers(0, 2, n).astype(float)
    some = draw(st.lists(hostile, max_size=4))
    x[rng.integers(0, n, len(some)), rng.integers(0, d, len(some))] = some
    y[rng.integers(0, n, len(some))] = some
    params = rng.normal(size=d + 1) * 2.0 ** draw(st.integers(-4, 30))
    if draw(st.booleans()):
        params[0] = draw(hostile)
    alike = draw(st.booleans())
    limits = 1.5 if alike else np.where(rng.random(n) < 0.3, 0.0, rng.uniform(0, 3, n))
    return ClosedForm(family(name), np.arange(n), x, y, bound=1.0), params, limits


@needs_numba
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(step=steps(), lattice=st.sampled_from([2.0**-42, 2.0**-20, 2.0**-100]))
def test_one_pass_is_norms_weights_and_pull_to_the_bit(
    step: Any, lattice: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, params, limits = step
    (batch,) = engine.batches()
    with np.errstate(all="ignore"):
        choose(monkeypatch, "numpy")
        norms, pull = engine.query(params, batch)
        expected = pull(weights(limits, norms), lattice)
        assert engine.clipped(params, batch, limits, lattice) is None
        assert_same(clipped(engine, params, batch, limits, lattice), expected)
        choose(monkeypatch, "compiled")
        assert_same(engine.clipped(params, batch, limits, lattice), expected)


def assert_same(got: Any, expected: Any) -> None:
    assert got.squares.tolist() == expected.squares.tolist()
    assert got.sums.tolist() == expected.sums.tolist()


@needs_numba
def test_what_has_no_loop_of_its_own_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, "compiled")
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-1, 1, (40, 3)), rng.integers(0, 2, 40).astype(float)
    one_each, several = np.arange(40), np.arange(40) // 2
    for name, users in [("poisson", one_each), ("softmax", one_each), ("logistic", several)]:
        engine = ClosedForm(family(name), users, x, y, bound=1.0)
        (batch,) = engine.batches()
        params = np.zeros(engine.coordinates)
        assert engine.clipped(params, batch, 1.0, 2.0**-40) is None
        norms, pull = engine.query(params, batch)
        expected = pull(weights(0.1, norms), 2.0**-40)
        assert_same(clipped(engine, params, batch, 0.1, 2.0**-40), expected)
