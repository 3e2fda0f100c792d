"""The gate in one pass lets through what the gate in several passes does, to the last integer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from benchmarks.stores import made_store
from sparseq.compiled import compiled
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduce import Reduction, Runs, Summands, reduce_numpy
from sparseq.ledger.accounts import Accounts
from sparseq.query.plan import Options, Plan, calibrate
from sparseq.stream import gate

pytestmark = pytest.mark.skipif(compiled() is None, reason="Numba is not installed")

SIZE = 3
USERS = 12
EXTREMES = [0, 1, -1, 2**31 - 1, -(2**31 - 1)]
ROWS = st.lists(
    st.tuples(
        st.integers(0, USERS - 1),
        st.integers(-1, SIZE - 1),
        st.one_of(st.integers(-5000, 5000), st.sampled_from(EXTREMES)),
    ),
    min_size=1,
    max_size=80,
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    rows = pa.table({"who": [1], "x": [1.0], "k": ["a"]})
    keys = {"k": ("a", "b", "c")}
    with sparseq.create(
        None,
        {"t": rows},
        user="who",
        bounds={"x": (0, 9)},
        keys=keys,
        kappa=0.5,
        purposes=[sparseq.Questions(in_or_out=True, counts=3)],
    ) as con:
        return calibrate(con.lower("SELECT k, sum(x) FROM t GROUP BY k"), con.guarantee, Options())


def summands(rows: list[tuple[int, int, int]]) -> Summands:
    users, places, values = np.array(sorted(rows), np.int64).T
    runs = Runs.of(users.astype(np.int32))
    return Summands(runs, places.astype(np.int8), values.astype(np.int32), SIZE)


def in_several_passes(rows: Summands) -> Contributions:
    def reduced(runs: Runs) -> Reduction:
        return reduce_numpy(runs, rows.coordinates, rows.values, SIZE, distinct=False)

    return Contributions([reduced(rows.runs)], lambda only: [reduced(rows.runs.only(only)).totals])


@given(ROWS, st.integers(0, 2**26), st.lists(st.floats(0, 1), min_size=USERS, max_size=USERS))
def test_one_pass_is_several(
    plan: Plan, rows: list[tuple[int, int, int]], budget: int, shares: list[float]
) -> None:
    accounts = Accounts(np.full(USERS, budget))
    accounts.spent[:] = np.floor(np.array(shares) * budget).astype(np.int64)
    one = gate._one_pass(plan, summands(rows), accounts)
    many = gate.gate(plan, in_several_passes(summands(rows)), accounts)
    assert by_user(one, accounts) == by_user(many, accounts)
    assert one.left_out.tolist() == many.left_out.tolist()
    assert [s.tolist() for s in one.sums] == [s.tolist() for s in many.sums]


def by_user(passed: gate.Admission, accounts: Accounts) -> tuple[dict[int, bool], list[int]]:
    """Who of those with a norm is active, and what everybody has spent afterwards."""
    active = dict(zip(passed.users.tolist(), passed.active.tolist(), strict=True))
    after = Accounts(accounts.budgets)
    after.spent[:] = accounts.spent
    after.charge(passed.paying, passed.due)
    assert np.all(after.spent <= after.budgets)
    return {u: a for u, a in active.items() if not a}, after.spent.tolist()


@pytest.mark.parametrize("people", one_in(2, [5_000, 200_000]))
def test_a_full_scan_goes_in_one_pass_and_answers_the_same(
    people: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stores alike, one of which is kept from it; every third query leaves somebody out."""
    rng = np.random.default_rng(4)
    rows = pa.table(
        {
            "who": np.repeat(np.arange(people), 3),
            "x": rng.integers(0, 100, 3 * people),
            "k": rng.choice(["a", "b", "c"], 3 * people),
        }
    )
    made: dict[str, Any] = {
        "table": "t", "user": "who", "bounds": {"x": (0, 99)}, "norm_budget": 1.5, "seed": 7,
        "keys": {"k": ("a", "b", "c")},
    }  # fmt: skip
    asked = "SELECT k, sum(x) AS s FROM (SELECT who, k, x FROM t) AS t GROUP BY k"  # by SQL
    went: list[int] = []
    one_pass = gate._one_pass

    def counted(*arguments: Any) -> gate.Admission:
        passed = one_pass(*arguments)
        went.append(len(passed.left_out))
        return passed

    monkeypatch.setattr(gate, "_one_pass", counted)
    with (
        made_store(None, rows, **made, in_or_out=True) as one,
        made_store(None, rows, **made, in_or_out=True) as many,
    ):
        first = [one.sql(asked, scale=200, fresh=True).arrow() for _ in range(5)]
        monkeypatch.setattr(gate, "_in_one_pass", lambda *_: False)
        assert [many.sql(asked, scale=200, fresh=True).arrow() for _ in range(5)] == first
        assert len(went) == 5
        assert went[0] < went[-1]
        assert one.stream.accounts.spent.tolist() == many.stream.accounts.spent.tolist()
        assert one.stream.departures.first.tolist() == many.stream.departures.first.tolist()
