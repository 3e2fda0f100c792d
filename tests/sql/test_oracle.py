"""DuckDB against `second_evaluator`: the same squared norms and sums, to the last unit."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from grammar import Pair, queries
from hypothesis import HealthCheck, Phase, given, settings
from sampled import one_in
from second_evaluator.interpreter import Judge, Leaf, Step
from shop import events, store

import sparseq
from sparseq import compiled as loops
from sparseq.base.errors import QueryRefused
from sparseq.engine import reduction, weighted_reduction
from sparseq.engine.contributions import Contributions
from sparseq.engine.weighted_reduction import Weights
from sparseq.question.plan import Options, Plan, calibrate
from sparseq.stream.joint_unit import joint

LATTICES = (Options(sigma=8.0), Options(sigma=1e-6), Options(scale=3.0))
"""The second is so fine that sums saturate; the third is not for every query."""
WRITTEN = (
    "SELECT kind, sum(amount), count(*), count(DISTINCT who) FROM events WHERE kind IN ('book', "
    "'', '日本') GROUP BY kind",
    "SELECT upper(kind) AS k, avg(least(amount, 40)) FROM events WHERE kind IN ('book', 'Book') "
    "GROUP BY k",
    "SELECT CASE WHEN amount < 10 THEN 'low' WHEN qty > 2 THEN CASE WHEN gift THEN 'gift' ELSE "
    "'low' END END AS b, count(*) FROM events GROUP BY b",
    "SELECT day, count(DISTINCT who) FROM events WHERE day BETWEEN '1997-02-01' AND '1997-05-09' "
    "AND reading > 1 GROUP BY day",
    "SELECT dayofweek(day) AS d, hour(seen) AS h, count(*) FROM events WHERE code LIKE '%7' "
    "GROUP BY d, h",
    "SELECT date_trunc('month', seen) AS m, sum(price) FROM events WHERE seen >= '1997-02-01' AND "
    "seen < '1997-06-01' GROUP BY m",
    "SELECT histogram(reading, [0, 2, 7.25, 50]) FROM events WHERE NOT (qty > 1 AND gift)",
    "SELECT median(amount, [0, 20, 40, 60]) FROM events WHERE qty IN (1, 2, NULL) OR kind IS NULL",
    "SELECT sum(qty) FILTER (WHERE gift), countif(reading > 3), stddev(price) FROM events",
    "SELECT sum(CASE WHEN kind = 'book' THEN amount ELSE -amount END) FROM events",
    "SELECT count(*) FROM events WHERE kind = 'nobody has it'",
    "SELECT f.family, count(*), sum(f.weight), sum(amount * f.weight) FROM events AS e JOIN "
    "families AS f ON f.kind = e.kind WHERE e.amount > 1 GROUP BY f.family",
    "SELECT count(DISTINCT e.who) FROM events AS e JOIN families AS f ON e.kind = f.kind JOIN "
    "families AS g ON g.kind = e.kind WHERE f.weight + g.weight > 2 AND e.kind LIKE '%o%'",
    "SELECT CASE WHEN amount < 9 THEN 'a' ELSE CASE WHEN kind = 'book' THEN 'b' WHEN kind > 'c' "
    "THEN 'a' END END AS b, count(*) FROM events GROUP BY b",
    "SELECT shop_id, qty, count(*) FROM events WHERE shop_id BETWEEN 1 AND 3 AND qty BETWEEN -1 "
    "AND 4 GROUP BY shop_id, qty",
)
quickly = settings(
    derandomize=True,
    max_examples=40,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


CASES = one_in(5, itertools.product(WRITTEN, [True, False]))
"""Queries, and whether loops are compiled: each of them is always tried."""


def facts(found: Contributions, people: int) -> list[tuple[list[int], list[int]]]:
    """Squared norms by person, 0 for who contributes nothing, and sums."""
    facts = []
    for measure in found.measures:
        norms = np.zeros(people, np.int64)
        norms[measure.users] = measure.norms
        facts.append((norms.tolist(), measure.totals.tolist()))
    return facts


def told(found: Contributions, people: int, some: tuple[np.ndarray, ...]) -> object:
    """Return everything that contributions say: of everybody, and of some people each."""
    pulled = [[sums.tolist() for sums in found.pull(users)] for users in some]
    return facts(found, people), pulled


def compare(con: sparseq.Store, plan: Plan, others: int = 9) -> bool:
    """Tell whether the oracle has a plan; if so, DuckDB must do as it."""
    judge, people = Judge(con), con.stream.people.inside()
    if judge.program(plan) is None:
        return False
    only = np.array(sorted(random.Random(1).sample(range(people), others)), np.int32)
    some = (only, only[:0], np.arange(people, dtype=np.int32))
    found = con.stream.engine.contributions(plan, people)
    assert told(found, people, some) == told(judge.contributions(plan), people, some), (
        plan.query.text
    )
    return True


def plans(con: sparseq.Store, text: str) -> list[Plan]:
    found = []
    for options in LATTICES:
        try:
            found.append(calibrate(con.lower(text), con.guarantee, options))
        except QueryRefused:
            continue
    return found


def with_loops(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    if compiled:
        pytest.importorskip("numba")
    monkeypatch.setattr(reduction, "worthwhile", lambda length: compiled)
    monkeypatch.setattr(weighted_reduction, "worthwhile", lambda length: compiled)
    monkeypatch.setattr(loops, "worthwhile", lambda length, loads=True: compiled)


@pytest.mark.parametrize(("text", "by_loops"), CASES)
def test_a_written_query_is_the_oracle_s(
    con: sparseq.Store, text: str, by_loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By compiled loops and without."""
    with_loops(monkeypatch, by_loops)
    found = [compare(con, plan) for plan in plans(con, text)]
    assert found
    assert all(found) is (" JOIN " not in text)


@pytest.mark.parametrize(("text", "by_loops"), CASES)
def test_weighted_sums_are_those_of_each_person(
    con: sparseq.Store, text: str, by_loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_loops(monkeypatch, by_loops)
    asked = joint(con.lower(text), Options(scale=3.0), con.guarantee)
    plan, people = asked.before(0.05), con.stream.people.inside()
    ours = con.stream.engine.contributions(plan, people)
    weights = some_weights(people, len(plan.noise), ours)
    sums = [total.tolist() for total in ours.weighted(weights)]
    expected = [
        m.totals.astype(object) << shift
        for m, shift in zip(ours.measures, weights.shifts, strict=True)
    ]
    for user, mantissa, exponent in zip(
        weights.users.tolist(), weights.mantissa.tolist(), weights.exponent.tolist(), strict=True
    ):
        for i, own in enumerate(ours.pull(np.array([user], np.int32))):
            cells, shift = own.astype(object), weights.shifts[i]
            weighted = (mantissa * abs(cells) << shift >> exponent) * np.sign(own)
            expected[i] = expected[i] + weighted - (cells << shift)
    assert [total.tolist() for total in expected] == sums


def some_weights(people: int, measures: int, found: Contributions) -> Weights:
    """Of a third of the people: of every size, none for who is beyond the lattice."""
    draw = np.random.default_rng(1)
    users = np.flatnonzero(draw.random(people) < 0.3).astype(np.int32)
    mantissa = draw.integers(2**15, 2**16, len(users))
    for measure in found.measures:
        beyond = measure.users[measure.norms >= reduction.NORM_LIMIT]
        mantissa[np.isin(users, beyond)] = 0
    return Weights(
        users, mantissa, draw.integers(16, 40, len(users)), (5, 16, 24, 0, 20)[:measures]
    )


@quickly
@given(pair=queries())
def test_a_random_query_is_the_oracle_s(con: sparseq.Store, pair: Pair) -> None:
    for plan in plans(con, pair.asked)[:1]:
        compare(con, plan)


@pytest.mark.deep
def test_a_thousand_random_queries_are_the_oracle_s(con: sparseq.Store) -> None:
    """Many more, of which it has a hundred at least."""
    compared = 0

    @settings(quickly, max_examples=1000)
    @given(pair=queries())
    def one(pair: Pair) -> None:
        nonlocal compared
        for plan in plans(con, pair.asked)[:1]:
            compared += compare(con, plan)

    one()
    assert compared > 100


@pytest.fixture(scope="module")
def empty() -> sparseq.Store:
    rows, bounds = events().slice(0, 0), {"price": (0, 900)}
    return sparseq.create(None, {"events": rows}, user="who", bounds=bounds)


@pytest.mark.parametrize("text", WRITTEN)
def test_nobody_contributes_nothing(empty: sparseq.Store, text: str) -> None:
    for plan in plans(empty, text):
        unknown = "stddev(price)" in text  # of more digits than the oracle has
        assert compare(empty, plan, others=0) is not unknown
        assert facts(empty.stream.engine.contributions(plan, 0), 0) == [
            ([], [0] * m.bins * plan.query.groups) for m in plan.query.measures
        ]


def test_a_program_has_no_step_twice(con: sparseq.Store) -> None:
    text = "SELECT sum(amount * 2), sum(amount * 2 + 1) FROM events WHERE amount * 2 > 3"
    (plan, *_) = plans(con, text)
    made = Judge(con).program(plan)
    assert made is not None
    kinds = [type(s) for s in made.steps]
    assert kinds.count(Leaf) == 1
    assert kinds.count(Step) == 5  # amount * 2, > 3, + 1, and two sums on their lattices
