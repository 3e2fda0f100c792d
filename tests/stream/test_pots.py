"""Budgets in pots, from outside: who pays from what, and who was first left out of what."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.ledger.pots import Pot
from sparseq.stream.batches import Request

UNIT = 2**24
OWN = {"ann": 20.0, "bob": 8.0, "cid": 0.0}


def test_own_budgets_are_parted_like_the_stores(tmp_path: Path) -> None:
    rows = pa.table({"who": list(OWN), "own": list(OWN.values())})
    shares = {"watch": 0.125, "forecast": 0.25}
    path = tmp_path / "s.sparseq"
    sparseq.create(
        path,
        {"t": rows},
        user="who",
        budget_column="own",
        purposes=[sparseq.Questions(in_or_out=True, **shares)],
    ).close()
    with sparseq.connect(path) as con:
        con.ingest(pa.table({"who": ["dan"], "own": [4.0]}))
        for pot, share in ((Pot.QUERIES, 0.625), (Pot.WATCH, 0.125), (Pot.FORECAST, 0.25)):
            budgets = [share * own * UNIT for own in (*OWN.values(), 4.0)]
            assert con.stream.pots[pot].budgets.tolist() == budgets
            assert con.parts[pot] == 20 * share
        assert con.guarantee.sigma_0 == pytest.approx(20**0.5)


@pytest.mark.parametrize("halt", one_in(2, [False, True]))
def test_the_first_release_that_somebody_is_left_out_of_is_remembered(
    tmp_path: Path, halt: bool
) -> None:
    """The reference is what people spent, release by release: whoever is asked and pays nothing."""
    draw = random.Random(5)
    people = 30
    weight = [draw.randrange(1, 6) for _ in range(people)]
    rows = {"who": [i for i, w in enumerate(weight) for _ in range(w)]}
    path = tmp_path / "s.sparseq"
    sparseq.create(
        path,
        {"t": pa.table(rows)},
        user="who",
        purposes=[sparseq.Questions(in_or_out=True, halt=halt, watch=0.25)],
    ).close()
    first, spent = [0] * people, np.zeros(people, np.int64)
    for release in range(1, 13):
        factor = draw.choice([1.0, 2.0, 4.0])  # a later query may be cheaper than one before
        with sparseq.connect(path) as con:
            price = [w * w * UNIT / factor**2 for w in weight]
            left = con.stream.accounts.left(np.arange(people, dtype=np.int32))
            con.sql("SELECT count(*) FROM t", sigma=factor * con.guarantee.sigma_0, fresh=True)
            for i in range(people):
                if price[i] > left[i] and not first[i]:
                    first[i] = release
                if price[i] <= left[i]:
                    assert con.stream.accounts.spent[i] == spent[i] + price[i]
            spent = con.stream.accounts.spent.copy()
            assert con.stream.departures.first.tolist() == first
    assert 0 < sum(map(bool, first)) < people or halt
    with sparseq.connect(path) as con:
        assert con.stream.departures.first.tolist() == first
        con.ingest(pa.table({"who": [999]}))
        assert con.stream.departures.first.tolist() == [*first, 0]
        assert not con.stream.pots[Pot.WATCH].spent.any()


def test_history_says_what_a_release_was_paid_from_and_others_leave_nobody_out() -> None:
    rows = pa.table({"who": [1, 1, 2]})
    con = sparseq.create(
        None,
        {"t": rows},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(in_or_out=True, watch=0.05)],
    )
    query = con.lower("SELECT count(*) AS n FROM t")
    con.step(
        query, con.stream.contributions, pot=Pot.WATCH
    )  # 1 of norm 2 can't pay 4 of 1: left out
    con.ask(query)
    assert [r.pot for r in con.releases()] == [Pot.WATCH, Pot.QUERIES]
    assert con.stream.pots[Pot.WATCH].spent.tolist() == [0, UNIT]
    assert con.stream.departures.first.tolist() == [0, 0]


def test_many_at_once_leave_out_the_same_people_as_one_by_one(tmp_path: Path) -> None:
    rows = pa.table({"who": [i for i in range(20) for _ in range(1 + i % 5)]})
    firsts = []
    for batch in (False, True):
        path = tmp_path / f"{batch}.sparseq"
        with sparseq.create(
            path,
            {"t": rows},
            user="who",
            seed=1,
            purposes=[sparseq.Questions(in_or_out=True, watch=0.25)],
        ) as con:
            query = con.lower("SELECT count(*) AS n FROM t")
            asked = [Request(query, fresh=True)] * 16
            one_by_one = (con.ask(query, fresh=True) for _ in asked)
            for one in con.ask_many(asked) if batch else one_by_one:
                assert one is not None
            firsts.append(con.stream.departures.first.tolist())
            between = con.stream.departures.between(2, 5).tolist()
        with sparseq.connect(path) as con:
            firsts.append(con.stream.departures.first.tolist())
            assert con.stream.departures.between(2, 5).tolist() == between != []
    assert firsts == [firsts[0]] * 4
    assert set(firsts[0]) == {1, 2, 4, 16}
