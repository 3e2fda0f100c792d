"""A gradient on a store: one budget for it and for SQL, and Algorithm 3's scaling down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sparseq
import sparseq.stream.step
from checks.stores import made_store
from sparseq.training import ClosedForm, WeightedSum, charged_squares, family, noised_gradient
from sparseq.training.protocol import Floats

UNIT = 2**24


pytestmark = pytest.mark.filterwarnings("error")  # a warning tells of a record


def silent(sigma: float, size: int, entropy: Any = None) -> Any:
    return np.zeros(size, np.int64)


def store(n: int = 5, **more: Any) -> sparseq.Store:
    people = pa.table({"who": np.arange(n), "a": np.ones(n)})
    return made_store(None, people, **{"table": "t", "user": "who", "norm_budget": 4} | more)


def spent(con: sparseq.Store) -> list[float]:
    return (con.stream.accounts.spent / UNIT).tolist()


def some_records(n: int = 5, seed: int = 0) -> Any:
    """Gradients at 0 that both lattices hold: dyadic features, residuals of ± 1/2."""
    rng = np.random.default_rng(seed)
    return rng.integers(-16, 17, (n, 3)) / 16, rng.integers(0, 2, n).astype(float)


def test_a_step_spends_and_answers_as_the_same_gradients_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
    x, y = some_records()
    users = np.array([0, 1, 1, 3, 4])
    one, other = store(), store()
    engine = ClosedForm(family("logistic"), users, x, y, bound=1.0)
    gradient = noised_gradient(one, engine, np.zeros(4), label="g", clip=3.0)
    rows = np.column_stack([x, np.ones(5)]) * (0.5 - y)[:, None]
    table = pa.table(
        {
            "user": np.repeat(users, 4),
            "coordinate": np.tile(np.arange(4), 5),
            "value": rows.reshape(-1),
        }
    )
    answer = other.contribute(table, coordinates=4, label="g", scale=3.0)
    assert spent(one) == spent(other)
    assert any(spent(one))
    assert gradient.tolist() == answer.arrow()["value"].to_pylist()
    assert one.releases()[0].sigma == other.releases()[0].sigma


def test_any_gradients_cost_what_they_cost_handed_over() -> None:
    """To the last of the 11 bits that a charge has; the lattices differ a little."""
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-1, 1, (5, 3)), np.array([0.0, 1, 1, 0, 1])
    params = rng.normal(size=4)
    one, other = store(), store()
    engine = ClosedForm(family("logistic"), np.arange(5), x, y, bound=1.0)
    noised_gradient(one, engine, params, label="g", clip=3.0)
    full = np.column_stack([x, np.ones(5)])
    rows = full * (1 / (1 + np.exp(-full @ params)) - y)[:, None]
    table = pa.table(
        {
            "user": np.repeat(np.arange(5), 4),
            "coordinate": np.tile(np.arange(4), 5),
            "value": rows.reshape(-1),
        }
    )
    other.contribute(table, coordinates=4, label="g", scale=3.0)
    assert np.allclose(spent(one), spent(other), rtol=2.0**-9)


def test_sql_and_training_are_paid_from_one_account() -> None:
    con = store(norm_budget=2, in_or_out=True)
    engine = ClosedForm(family("linear"), np.arange(5), np.zeros((5, 1)), np.full(5, 9.0), bound=1)
    con.sql("SELECT count(*) AS n FROM t")
    assert spent(con) == [1] * 5
    noised_gradient(con, engine, np.zeros(2), label="g", clip=1.0)
    assert spent(con) == pytest.approx([2] * 5, abs=2e-3)
    before = spent(con)
    con.sql("SELECT count(*) AS n FROM t")
    assert spent(con) == before


def test_a_user_with_less_left_is_scaled_down_and_with_nothing_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Algorithm 3: B = 1.75, C = 1: a full step, then one of norm sqrt(0.75), then nothing."""
    monkeypatch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
    con = store(1, norm_budget=1.75)
    engine = ClosedForm(family("linear"), [0], np.zeros((1, 1)), [9.0], bound=1)
    sums = [noised_gradient(con, engine, np.zeros(2), label="g", clip=1.0)[1] for _ in range(4)]
    assert sums[:2] == pytest.approx([-1, -(0.75**0.5)], rel=1e-3)
    assert sums[2:] == pytest.approx([0, 0], abs=0.05)
    assert spent(con) == pytest.approx([1.75], rel=2e-3)
    assert spent(con)[0] <= 1.75


def test_asked_again_with_the_same_id_nothing_is_computed_or_charged() -> None:
    con = store()
    x, y = some_records()
    engine = ClosedForm(family("logistic"), np.arange(5), x, y, bound=1.0)
    first = noised_gradient(con, engine, np.zeros(4), label="g", clip=1.0, request_id="a")
    after = spent(con)
    again = noised_gradient(con, engine, np.ones(4), label="g", clip=1.0, request_id="a")
    assert again.tolist() == first.tolist()
    assert spent(con) == after


class Liar:
    """An engine whose norms say nothing about what it sums."""

    coordinates = 2

    def __init__(self, norms: list[float], truth: list[float]) -> None:
        self._norms, self._truth = np.array(norms), np.array(truth)

    def batches(self) -> list[Any]:
        return [self]

    @property
    def users(self) -> Any:
        return np.arange(len(self._norms), dtype=np.int32)

    def query(self, params: Floats, batch: Any) -> Any:
        def pull(weights: Floats, step: float) -> WeightedSum:
            counted = np.where(weights > 0, self._truth, 0.0)
            sums = int(np.minimum(counted, 2.0**15).sum() / step)
            return WeightedSum(charged_squares(counted, step), np.array([sums, 0]))

        return self._norms.copy(), pull


hostile = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 0.7, 1.0, 1e9, 1e300, np.inf, np.nan, -1.0])


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.tuples(
            st.lists(hostile, min_size=3, max_size=3),
            st.lists(st.sampled_from([0.0, 1e-300, 0.5, 1.0, 3.0, 1e200]), min_size=3, max_size=3),
        ),
        min_size=1,
        max_size=6,
    ),
    halt=st.booleans(),
)
def test_no_engine_gets_anybody_overdrawn(steps: Any, halt: bool) -> None:
    con = store(3, norm_budget=2.5, halt=halt)
    for norms, truth in steps:
        before = con.stream.accounts.spent.copy()
        noised_gradient(con, Liar(norms, truth), np.zeros(2), label="lies", clip=1.0)
        assert np.all(con.stream.accounts.spent >= before)
        assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)


hostile_features = st.sampled_from([0.0, 1.0, -1.0, 1e-320, 1e308, np.inf, np.nan, 0.25])


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_hostile_records_never_cost_more_than_the_budget(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["linear", "poisson", "logistic"]))
    size = data.draw(st.integers(1, 10))
    users = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    x = np.array(data.draw(st.lists(hostile_features, min_size=size, max_size=size)))[:, None]
    y = np.array(
        data.draw(st.lists(hostile_features | st.just(1e200), min_size=size, max_size=size))
    )
    con = store(3, norm_budget=2.5)
    engine = ClosedForm(family(name), users, x, y, bound=1.0)
    params = np.zeros(2)
    for t in range(5):
        got = noised_gradient(con, engine, params, label=f"{t}", clip=0.9, sigma=3.0)
        assert np.all(np.isfinite(got))
        assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)
        params = params - 300 * got
    worthless = [u for u in range(3) if np.isnan(x[users == u, 0]).all()]
    assert all(con.stream.accounts.spent[u] == 0 for u in worthless)


def test_a_user_in_two_batches_or_without_an_account_is_refused() -> None:
    """Two charges to one account at once: only one of them would be seen."""
    con = store()
    x, y = some_records()
    twice = ClosedForm(family("logistic"), np.arange(5), x, y, bound=1.0)
    (batch,) = twice.batches()
    object.__setattr__(twice.records, "all", (batch, batch))
    unknown = ClosedForm(family("logistic"), np.arange(1, 6), x, y, bound=1.0)
    for engine, error in ((twice, sparseq.ParameterError), (unknown, sparseq.DataError)):
        with pytest.raises(error):
            noised_gradient(con, engine, np.zeros(4), label="g", clip=1.0)
    assert not any(spent(con))


def test_too_little_noise_is_refused() -> None:
    con = store()
    x, y = some_records()
    engine = ClosedForm(family("logistic"), np.arange(5), x, y, bound=1.0)
    with pytest.raises(sparseq.ParameterError, match="sigma"):
        noised_gradient(con, engine, np.zeros(4), label="g", clip=1.0, sigma=1e-6)
    with pytest.raises(sparseq.ParameterError, match="clip"):
        noised_gradient(con, engine, np.zeros(4), label="g", clip=0.0)
    assert len(con.releases()) == 0
