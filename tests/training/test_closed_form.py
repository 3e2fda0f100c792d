"""Closed forms against a loop over records; isolation of users to the last bit; exact sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse, special

import sparseq
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.question.plan import DENSE_NORM_STEPS
from sparseq.training import ClosedForm, family
from sparseq.training.model_families import ModelFamily

Floats = NDArray[np.float64]
MODELS = ["logistic", "linear", "softmax", "poisson"]
CLASSES = 3
STEP = 2.0**-42


pytestmark = pytest.mark.filterwarnings("error")  # a warning tells of a record


def model(name: str) -> ModelFamily:
    return family(name, CLASSES)


def targets(name: str, rng: np.random.Generator, size: int) -> Floats:
    if name == "linear":
        return rng.normal(size=size)
    return rng.integers(0, 2 if name == "logistic" else CLASSES, size).astype(float)


def gradient(name: str, params: Floats, x: Floats, y: float) -> Floats:
    """One record's, from the textbook."""
    one = np.append(x, 1.0)
    z = params.reshape(-1, len(one)) @ one
    if name == "logistic":
        r = special.expit(z) - y
    elif name == "linear":
        r = z - y
    elif name == "poisson":
        r = np.exp(z) - y
    else:
        r = special.softmax(z) - (np.arange(CLASSES) == y)
    return np.outer(r, one).reshape(-1)


def on_lattice(x: Floats) -> Floats:
    return np.rint(x * 2.0**18) * 2.0**-18


def run(engine: ClosedForm, params: Floats, weight: Any, step: float = STEP) -> Any:
    """Norms and squares by user, and the sums."""
    norms, squares, sums = {}, {}, np.zeros(engine.coordinates, np.int64)
    for batch in engine.batches():
        n, pull = engine.query(params, batch)
        pulled = pull(np.array([weight(u) for u in batch.users.tolist()]), step)
        norms |= dict(zip(batch.users.tolist(), n.tolist(), strict=True))
        squares |= dict(zip(batch.users.tolist(), pulled.squares.tolist(), strict=True))
        sums += pulled.sums
    return norms, squares, sums


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_norms_and_sums_are_those_of_a_loop(name: str, several: bool, kind: str) -> None:
    rng = np.random.default_rng(1)
    n, d = 200, 7
    users = np.sort(rng.integers(0, 60, n)) if several else rng.permutation(n)
    x = on_lattice(rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.6))
    y = targets(name, rng, n)
    features: Any = sparse.csr_matrix(x) if kind == "csr" else x
    engine = ClosedForm(model(name), users, features, y, bound=1.0)
    params = rng.integers(-200, 200, engine.coordinates) / 256.0
    whole: dict[int, Floats] = {}
    for u, a, b in zip(users.tolist(), x, y, strict=True):
        whole[u] = whole.get(u, 0) + gradient(name, params, a, b)
    weights = {u: 0.3 if u % 3 else 1.0 for u in whole}
    norms, squares, sums = run(engine, params, weights.__getitem__)
    expected = sum(weights[u] * g for u, g in whole.items())
    assert np.allclose(sums * STEP, expected, rtol=1e-6, atol=len(whole) * 2.0**-24)
    for u, g in whole.items():
        assert norms[u] == pytest.approx(np.linalg.norm(g), rel=1e-8 if several else 1e-12)
        paid = np.sqrt(squares[u]) * STEP * DENSE_NORM_STEPS
        assert paid == pytest.approx(weights[u] * np.linalg.norm(g), rel=1e-6, abs=2.0**-22)


hostile = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.3, 2.0**-18, 1e-310, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan]
)


@st.composite
def datasets(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(MODELS))
    n = draw(st.integers(1, 12))
    d = draw(st.integers(1, 3))
    users = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    x = np.array(draw(st.lists(hostile, min_size=n * d, max_size=n * d))).reshape(n, d)
    y = np.array(draw(st.lists(hostile | st.sampled_from([0.0, 1.0, 2.0]), min_size=n, max_size=n)))
    size = (CLASSES if name == "softmax" else 1) * (d + 1)
    params = draw(st.lists(st.floats(-800, 800), min_size=size, max_size=size))
    weights = draw(st.lists(st.floats(0, 1), min_size=5, max_size=5))
    return (
        name,
        np.array(users),
        x,
        y,
        np.array(params),
        weights,
        draw(st.sampled_from([-44, -20, 0])),
    )


@settings(max_examples=75)
@given(data=datasets())
def test_a_users_vector_is_the_users_alone_and_squares_cover_it(data: Any) -> None:
    """v_u is what removing everybody else leaves; sums add up exactly; squares are never too low.

    Users alone, and in another order among others, give the same integers, bit by bit.
    """
    check_vectors(data)


@pytest.mark.deep
@settings(max_examples=300)
@given(data=datasets())
def test_any_users_vector_is_the_users_alone(data: Any) -> None:
    """Four times as many."""
    check_vectors(data)


def check_vectors(data: Any) -> None:
    name, users, x, y, params, weights, exponent = data
    step = 2.0**exponent
    engine = ClosedForm(model(name), users, x, y, bound=1.0)
    _, squares, sums = run(engine, params, weights.__getitem__, step)
    total = np.zeros(engine.coordinates, object)
    for u in sorted(set(users.tolist())):
        own = users == u
        alone = ClosedForm(model(name), np.full(own.sum(), 7), x[own], y[own], bound=1.0)
        _, mine, vector = run(alone, params, lambda _, u=u: weights[u], step)
        assert mine[7] == squares[u]
        exact = sum((Fraction(int(v)) ** 2 for v in vector), Fraction(0))
        assert squares[u] >= exact / DENSE_NORM_STEPS**2
        assert squares[u] > 0 or exact == 0
        assert weights[u] > 0 or exact == squares[u] == 0
        assert squares[u] < NORM_LIMIT or exact == 0
        total += vector.astype(object)
    assert sums.tolist() == total.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_where_a_record_lies_changes_no_bit_of_its_gradient(name: str) -> None:
    """The exponentials, too: 1,000 records, then the same from the middle and in reverse."""
    rng = np.random.default_rng(5)
    n, d = 1003, 33
    x, y = rng.uniform(-1, 1, (n, d)), targets(name, rng, n)
    params = rng.normal(size=(CLASSES if name == "softmax" else 1) * (d + 1))

    def vectors(rows: NDArray[np.int64]) -> list[Any]:
        engine = ClosedForm(model(name), np.arange(len(rows)), x[rows], y[rows], bound=1.0)
        (batch,) = engine.batches()
        norms, _ = engine.query(params, batch)
        return norms.tolist()

    everybody = np.array(vectors(np.arange(n)))
    for rows in (np.arange(n)[::-1], np.arange(1, n), np.arange(n - 7), np.arange(0, n, 3)):
        assert vectors(rows) == everybody[rows].tolist()


def test_sums_are_exact_where_floats_would_not_be() -> None:
    """A thousand users near the lattice's end: float64 sums of their vectors would round."""
    rng = np.random.default_rng(2)
    n = 4000
    x = on_lattice(rng.uniform(-1, 1, (n, 2)))
    y = rng.choice([-4.0, 4.0], n)
    engine = ClosedForm(model("linear"), np.arange(n), x, y, bound=1.0)
    _, _, sums = run(engine, np.zeros(3), lambda _: 1.0, 2.0**-44)
    integers = [[int(v * 2**44) for v in row] for row in np.column_stack([x, np.ones(n)])]
    exact = [sum(-int(b) * row[j] for b, row in zip(y, integers, strict=True)) for j in range(3)]
    assert sums.tolist() == exact


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("bound", [2.0**-8, 0.3, 1.0, 1000.0, 2.0**18])
def test_features_of_any_scale_are_integers_with_an_intercept(bound: float, kind: str) -> None:
    x = np.array([[bound, -bound / 3], [bound / 7, 2 * bound]])
    features: Any = sparse.csr_array(x) if kind == "csr" else x
    engine = ClosedForm(model("linear"), [0, 1], features, [1.0, 2.0], bound=bound)
    (batch,) = engine.batches()
    rows = batch.x.toarray() if kind == "csr" else batch.x
    assert np.all(rows == np.rint(rows))
    assert np.all(rows[:, -1] * engine.records.step == 1)
    assert np.allclose(
        rows[:, :2] * engine.records.step, np.clip(x, -bound, bound), atol=bound * 2.0**-18
    )
    assert np.abs(rows).max() <= engine.records.limit
    z = engine.predictors(np.array([1.0, 2.0, 3.0]) / bound, batch)
    expected = np.clip(x, -bound, bound) @ [1 / bound, 2 / bound] + 3 / bound
    assert np.allclose(z[0], expected, rtol=2e-5, atol=2e-5 * (1 + 1 / bound))


@pytest.mark.parametrize("bound", [0.0, 1e-9, 1e9, np.inf, np.nan])
def test_a_bound_that_is_none_is_refused(bound: float) -> None:
    with pytest.raises(sparseq.ParameterError, match="bound"):
        ClosedForm(model("linear"), [0], np.ones((1, 1)), [1.0], bound=bound)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(sparseq.DataError, match="one of each"):
        ClosedForm(model("linear"), [0], np.ones((2, 1)), [1.0, 2.0], bound=1.0)


@pytest.mark.parametrize("records", [1, 1000])
def test_one_user_with_many_records_has_one_gradient(records: int) -> None:
    x, y = np.tile([[0.5, 0.25]], (records + 1, 1)), np.ones(records + 1)
    users = np.array([3] * records + [8])
    engine = ClosedForm(model("logistic"), users, x, y, bound=1.0)
    norms, squares, _ = run(engine, np.zeros(3), lambda _: 1.0)
    assert norms[3] == pytest.approx(records * norms[8], rel=1e-9)
    _, squares, sums = run(engine, np.zeros(3), lambda u: 1 / norms[u])
    assert np.allclose([squares[3], squares[8]], (STEP * DENSE_NORM_STEPS) ** -2, rtol=1e-4)
    assert np.allclose(sums * STEP * norms[8], 2 * np.array([-0.25, -0.125, -0.5]), rtol=1e-4)


def test_features_come_from_arrow_as_from_arrays() -> None:
    """A table, a record batch, a stream of batches; integers, and what is missing, which is NaN."""
    rng = np.random.default_rng(6)
    a, b = rng.uniform(-1, 1, 50), rng.integers(-1, 2, 50)
    missing = np.arange(50) % 9 == 4
    users, y = rng.permutation(50), rng.poisson(2, 50)
    table = pa.table({"a": pa.array(a, mask=missing), "b": b})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    expected = np.column_stack([np.where(missing, np.nan, a), b])
    whole = [
        ClosedForm(family("poisson"), users, x, target, bound=1.0)
        for x, target in [
            (expected, y),
            (table, pa.array(y)),
            (table.to_batches()[0], y),
            (stream, pa.chunked_array([y[:9], y[9:]])),
        ]
    ]
    first, *others = (run(engine, np.array([0.3, -0.2, 0.1]), lambda _: 1.0) for engine in whole)
    for norms, squares, sums in others:
        assert norms == first[0]
        assert squares == first[1]
        assert sums.tolist() == first[2].tolist()
    assert sum(n == 0 for n in first[0].values()) == missing.sum()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (pa.table({"a": ["x", "y"]}), "a holds no numbers"),
        ([1.0, 2.0], "shape"),
        ([["x"], ["y"]], "numbers"),
    ],
)
def test_features_that_are_no_numbers_are_refused(features: Any, message: str) -> None:
    with pytest.raises(sparseq.DataError, match=message):
        ClosedForm(model("linear"), [0, 1], features, [1.0, 2.0], bound=1.0)


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_never_negative_and_least_where_the_model_is_right(name: str) -> None:
    fam = model(name)
    y = np.array([0.0, 1.0, 1.0, 2.0] if name in ("poisson", "softmax") else [0.0, 1.0, 1.0, 0.0])
    z = np.random.default_rng(1).normal(size=(fam.outputs, 4))
    targets_ = fam.expand(y)
    loss = fam.loss(z, targets_)
    assert np.all(loss >= 0)
    down = z - 0.05 * fam.residual(z.copy(), targets_)
    assert np.all(fam.loss(down, targets_) <= loss)
