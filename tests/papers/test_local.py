"""The local model: clients that hold their own data and filter, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import sparseq
from sparseq import ParameterError
from sparseq.accounting import Budget
from sparseq.mechanisms import SeededEntropy
from sparseq.papers.local import Broadcast, Client, Clients, aggregate

BUDGET = Budget(kappa=0.5, norm_budget=20.0)


def identity(x: Any) -> Any:
    return x


def rounded_up(charge: Fraction) -> tuple[int, Fraction]:
    """The least a client may be charged, in units, and the most: what rounding may add."""
    return math.ceil(charge), charge * (1 + Fraction(1, 2**9)) + 1


# The filter -------------------------------------------------------------------------------------


@given(
    values=st.lists(
        st.tuples(st.floats(-5, 5), st.floats(-5, 5), st.sampled_from([3.0, 4.5, 20.0])),
        max_size=12,
    ),
    halt=st.booleans(),
)
def test_a_client_charges_itself_as_algorithm_2_says(
    values: list[tuple[float, float, float]], halt: bool
) -> None:
    """Against fractions: what it pays for each query, and when it can't."""
    client = Client(0, BUDGET, halt=halt, entropy=SeededEntropy(1))
    halted = False
    for x, y, sigma in values:
        query = Broadcast(lambda _, v=(x, y): v, 2, sigma)  # type: ignore[misc]
        g = Fraction(query.granularity)
        steps = [round(Fraction(v) / g) for v in (x, y)]
        variance = Fraction(20) / (2 * Fraction(0.5))
        charge = sum(s * s for s in steps) * g**2 * variance / Fraction(sigma) ** 2 * 2**24
        before = int(client._accounts.spent[0])
        client.answer(query)
        paid = int(client._accounts.spent[0]) - before
        least, most = rounded_up(charge)
        left = 20 * 2**24 - before
        if halted or paid == 0:
            assert charge == 0 or most > left or halted
        elif halt and least > left:
            assert paid == left
            halted = True
        else:
            assert least <= paid <= most
        assert before + paid <= 20 * 2**24


@given(data=st.lists(st.integers(0, 6) | st.none(), min_size=1, max_size=20), halt=st.booleans())
def test_a_batch_is_its_clients(data: list[int | None], halt: bool) -> None:
    """Same spends, and the same answers but for the noise: data minus no data, same entropy."""
    batch = Clients(data, BUDGET, halt=halt, entropy=SeededEntropy(2))
    silent = Clients([None] * len(data), BUDGET, entropy=SeededEntropy(2))
    alone = [Client(x, BUDGET, halt=halt, entropy=SeededEntropy(3)) for x in data]
    nobody = [Client(None, BUDGET, entropy=SeededEntropy(3)) for _ in data]
    for scale in (1.0, 2.0, 1.0):
        query = Broadcast.of_scale(lambda x: [x, 1.0], 2, scale, BUDGET)
        exact = batch.answer(query) - silent.answer(query)
        own = [c.answer(query) - z.answer(query) for c, z in zip(alone, nobody, strict=True)]
        assert np.array_equal(exact, np.concatenate(own))
    assert batch.spent.tolist() == [float(c.spent[0]) for c in alone]


def test_clients_and_a_central_store_count_the_same_people() -> None:
    """The same queries, the same integers: spends are equal after every query."""
    people = [0, 1, 2, 3, 4, 9]
    clients = Clients(people, BUDGET, entropy=SeededEntropy(4))
    known = pa.table({"who": list(range(6))})
    with sparseq.create(
        None,
        {"t": known},
        user="who",
        kappa=0.5,
        seed=1,
        purposes=[sparseq.Questions(in_or_out=True, counts=20.0)],
    ) as con:
        for t in range(25):
            query = Broadcast.of_scale(lambda x: [x], 1, 1.0, BUDGET)
            clients.answer(query)
            rows = pa.table({"user": range(6), "coordinate": [0] * 6, "value": map(float, people)})
            con.contribute(rows, coordinates=1, label=f"{t}", scale=1.0)
            assert con.stream.accounts.spent.tolist() == clients._accounts.spent.tolist()
        assert (clients.spent <= 20).all()
        assert clients.spent.tolist()[:4] == [0.0, 20.0, 20.0, 18.0]


def test_a_question_that_fails_tells_nothing() -> None:
    """No error and no missing answer: noise alone, and nothing charged."""

    def fails(x: int) -> list[float]:
        return [1 / x]

    def other_shape(x: int) -> list[float]:
        return [1.0] * x

    for question in (fails, other_shape):
        clients = Clients([0, 1], BUDGET, entropy=SeededEntropy(5))
        assert clients.answer(Broadcast(question, 1, 10.0)).shape == (2, 1)
        assert clients.spent[0] == 0 < clients.spent[1]
    with pytest.raises(ParameterError, match=r"gave shape \(0,\); it must be \(1,\)"):
        Broadcast(other_shape, 1, 10.0).vector(0)


# Noise ------------------------------------------------------------------------------------------


def noise_fits(found: np.ndarray, sigma: float) -> bool:
    """Chi-square on the sum of squares, two-sided 1e-6."""
    p = stats.chi2.cdf(float((found**2).sum()) / sigma**2, found.size)
    return bool(1e-6 < p < 1 - 1e-6)


def test_a_halted_clients_answers_are_noise_alone() -> None:
    """20,000 of them have mean 0 and variance sigma²; 10 % more or less noise fails."""
    query = Broadcast(lambda x: [x], 1, 20.0)
    clients = Clients([1000.0] * 20_000, BUDGET, entropy=SeededEntropy(6))
    found = clients.answer(query).astype(float) * query.granularity
    assert clients.spent.max() == 0
    assert abs(found.mean()) < 4.9 * 20 / math.sqrt(20_000)
    assert noise_fits(found, 20.0)
    assert not noise_fits(found, 18.0)
    assert not noise_fits(found, 22.0)


# The simulation ---------------------------------------------------------------------------------

N = 10_000
SMALL = Budget(kappa=0.5, norm_budget=6.0)


def simulate(queries: int) -> tuple[Clients, list[float], list[int], Broadcast]:
    """10,000 people with one count a day; each day client i contributes with its own chance."""
    rng = np.random.default_rng(7)
    chance = rng.beta(0.5, 3.0, N)
    days: Sequence[Any] = (rng.random((N, queries)) < chance[:, None]).astype(float)
    clients = Clients(days, SMALL, entropy=SeededEntropy(8))
    errors, active = [], []
    for t in range(queries):
        query = Broadcast.of_scale(lambda x, t=t: [x[t]], 1, 1.0, SMALL)  # type: ignore[misc]
        before = clients._accounts.spent.copy()
        total = aggregate(query, [clients.answer(query)])
        counted = int((clients._accounts.spent > before).sum())
        errors.append(float(total.values[0]) - counted)
        active.append(counted)
    return clients, errors, active, query


def test_ten_thousand_clients_keep_the_guarantee_and_pay_sqrt_n() -> None:
    """25 days. Nobody overdraws; the error about the active is sqrt(n) sigma, bound as stated."""
    clients, errors, active, query = simulate(25)
    assert (clients.spent <= 6).all()
    assert clients.spent.max() == 6  # some have been left out since, and
    assert active[0] > active[-1] > 0  # the rest go on
    total = aggregate(query, [clients.answer(query)])
    assert math.isclose(total.sigma, math.sqrt(N) * SMALL.sigma_0, rel_tol=1e-9)
    spread = math.sqrt(np.mean(np.square(errors)))
    assert 0.5 < spread / total.sigma < 1.5  # 25 squares: more than three standard deviations
    assert np.sum(np.abs(errors) > total.bound(0.1)) <= 9
    assert spread / SMALL.sigma_0 > 50  # the price of trusting nobody: a factor 100


def test_the_sums_noise_is_sqrt_n_sigma() -> None:
    """3,000 coordinates of 400 clients: chi-square at 1e-6, and 10 % off fails."""
    query = Broadcast(lambda x: np.zeros(3000), 3000, 10.0)
    clients = Clients([0] * 400, BUDGET, entropy=SeededEntropy(9))
    total = aggregate(query, [clients.answer(query)])
    assert math.isclose(total.sigma, 200.0)
    assert noise_fits(total.values, total.sigma)
    assert not noise_fits(total.values, 1.1 * total.sigma)
    assert not noise_fits(total.values, 0.9 * total.sigma)
    assert np.abs(total.values).max() < total.bound(1e-4)


# The interface ----------------------------------------------------------------------------------


def test_aggregating_parts_is_aggregating_all() -> None:
    query = Broadcast(identity, 2, 5.0)
    answers = Clients([[1.0, 2.0]] * 7, BUDGET, entropy=SeededEntropy(10)).answer(query)
    whole, parts = aggregate(query, [answers]), aggregate(query, [answers[:3], answers[3:]])
    assert whole.values.tolist() == parts.values.tolist()
    assert whole.clients == parts.clients == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Broadcast(identity, 0, 1.0), "coordinates is 0"),
        (lambda: Broadcast(identity, 1, 0.0), "sigma is 0.0"),
        (lambda: Broadcast(identity, 1, math.nan), "sigma is nan"),
        (lambda: aggregate(Broadcast(identity, 1, 1.0), []), "there are 0 answers"),
        (
            lambda: aggregate(Broadcast(identity, 1, 1.0), [np.zeros((2, 2), np.int64)]),
            r"an answer has shape \(2, 2\); it must be \(clients, 1\)",
        ),
        (lambda: Broadcast.of_scale(identity, 1, -1.0, BUDGET), "scale is -1.0"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
