"""A question inside another is asked first: two steps, as if an analyst had written the number."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from server.made import made, person

import sparseq
from checks.stores import made_store
from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import ParameterError, QueryCancelError, QueryRefused, ServerError, Why
from sparseq.question.plan import Plan
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Quota, Tokens
from sparseq.stream.batches import Request

INNER = "SELECT avg(x) AS a FROM t"
OUTER = f"SELECT count(*) AS n FROM t WHERE x > ({INNER})"
DEEP = pytest.mark.deep
MODES = pytest.mark.parametrize("in_or_out", [True, pytest.param(False, marks=DEEP)])


def rows(first: int = 0) -> pa.Table:
    who = [first + i % 300 for i in range(1200)]
    kinds = [("a", "b")[i % 3 == 0] for i in range(1200)]
    numbers = {"x": [float(i * i % 101) for i in range(1200)], "i": [i % 5 for i in range(1200)]}
    return pa.table({"who": who, "kind": kinds} | numbers)


def store(path: Path | None = None, **more: Any) -> sparseq.Store:
    args: dict[str, Any] = {"table": "t", "user": "who", "seed": 3, "keys": {"kind": ["a", "b"]}}
    return made_store(path, rows(), bounds={"x": (0, 100)}, **args | more)


def standing(con: sparseq.Store) -> tuple[int, list[int]]:
    return con.released, con.stream.accounts.spent.tolist()


@pytest.mark.parametrize("in_or_out", [False, pytest.param(True, marks=DEEP)])
def test_it_is_two_questions_of_an_analyst(in_or_out: bool) -> None:
    """The same noise, charges and intervals, to the last bit; and the texts mean the same."""
    whole, by_hand = store(in_or_out=in_or_out), store(in_or_out=in_or_out)
    answer = whole.sql(OUTER)
    number = by_hand.sql(INNER).value()
    written = by_hand.sql(f"SELECT count(*) AS n FROM t WHERE x > {number!r}")
    assert answer.arrow().equals(written.arrow())
    assert standing(whole) == standing(by_hand)
    assert [release.query for release in whole.releases()] == ["SELECT AVG(x) AS a FROM t", OUTER]
    assert whole.sql(INNER).facts.release == 1  # known now
    assert whole.sql(f"SELECT count(*) AS n FROM t WHERE x > {number!r}").facts.release == 2
    (said,) = answer.facts.notes
    assert said.startswith("SELECT AVG(x) AS a FROM t was asked first: ")
    assert "(release 1)" in said
    assert whole.release(2).facts.notes == answer.facts.notes


@MODES
def test_again_it_is_free_and_so_is_each_part(in_or_out: bool) -> None:
    con = store(in_or_out=in_or_out)
    first, cost = con.sql(OUTER, request_id="r"), standing(con)
    for again in (con.sql(OUTER), con.sql(OUTER, request_id="r"), con.sql(OUTER.lower())):
        assert again.arrow().equals(first.arrow())
    assert standing(con) == cost
    joined = con.sql(f"WITH m AS ({INNER}) SELECT count(*) AS n FROM t, m WHERE x > m.a")
    assert joined.facts.release == 2
    anew = con.sql(OUTER, fresh=True)
    assert (anew.facts.release, con.released) == (3, 3)  # of the same number
    con.ingest(rows(first=1000), "t")
    assert con.sql(OUTER, request_id="r").arrow().equals(first.arrow())
    assert con.released == 3
    assert con.sql(OUTER).facts.release == 5  # of other rows: both are asked anew


@MODES
@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        (f"SELECT x, count(*) AS n FROM t WHERE x > ({INNER}) GROUP BY x", {}, "not public"),
        (f"SELECT sum(x / x - ({INNER})) AS s FROM t", {}, "no public scale"),
        (
            f"SELECT count(*) AS n FROM t WHERE x > (SELECT sum(x / x - ({INNER})) FROM t)",
            {},
            "no public scale",
        ),
        (f"SELECT sum(x * y) AS s FROM t WHERE x > ({INNER})", {}, "no column 'y'"),
        (f"SELECT count(*) AS n FROM t WHERE x > ({INNER} GROUP BY kind)", {}, "ask it first"),
    ],
)
def test_a_refusal_comes_before_anything_is_charged(
    in_or_out: bool, sql: str, options: Any, said: str
) -> None:
    con = store(in_or_out=in_or_out)
    with pytest.raises((QueryRefused, ParameterError), match=said):
        con.sql(sql, **options)
    assert standing(con) == (0, [0] * 300)


def test_no_use_is_told_before_the_inner_question_is_asked() -> None:
    con = made_store(None, {"t": rows().slice(0, 40)}, user="who", seed=3, bounds={"x": (0, 100)})
    con.sql("SELECT count(*) AS n FROM t")  # so that there is an outlook
    before = standing(con)
    with pytest.raises(QueryRefused, match="wider than the value"):
        con.sql(OUTER, price=1 / 1024, at_least_useful=True)
    assert standing(con) == before


@MODES
def test_the_price_is_that_of_both_until_one_is_known(in_or_out: bool) -> None:
    con = store(in_or_out=in_or_out)
    alone = con.explain(INNER).facts
    found = con.explain(OUTER)
    (first,) = found.facts["first"]
    assert first["query"] == "SELECT AVG(x) AS a FROM t"
    key = "worst_case_charge" if in_or_out else "price"
    assert first["price"] >= alone[key] > 0
    assert f"asked first, for {first['price']:g} at most" in str(found)
    con.sql(INNER)
    assert "first" not in con.explain(OUTER).facts
    assert "release 1" in str(con.explain(OUTER))
    con.sql(OUTER)
    assert con.explain(OUTER).facts["known"]["free"]


def _before_the_second(con: sparseq.Store, do: Callable[[], object]) -> None:
    """Do something as soon as a second plan is read."""
    engine, plans = con.stream.engine, list[Plan]()
    read = engine.contributions

    def contributions(plan: Plan, users: int) -> Any:
        plans.append(plan)
        if len({one.query.relation for one in plans}) == 2:
            do()
        return read(plan, users)

    engine.contributions = contributions  # type: ignore[method-assign]


def test_the_first_is_durable_before_the_second_looks_at_a_row() -> None:
    told = list[int]()
    con = store(in_or_out=True)
    _before_the_second(con, lambda: told.append(con.released))
    con.sql(OUTER)
    assert told == [1]


KILLED = """
import os, signal, sys, sparseq
con = sparseq.connect(sys.argv[1])
engine, seen = con.stream.engine, set()
read = engine.contributions

def contributions(plan, users):
    seen.add(plan.query.relation)
    if len(seen) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(plan, users)

engine.contributions = contributions
con.sql(sys.argv[2])
"""


@pytest.mark.deep
def test_killed_between_the_two_the_number_stays(tmp_path: Path) -> None:
    """So nobody draws it again by questions that a number makes too large for the machine."""
    store(tmp_path / "s", seed=None).close()
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "s", OUTER], check=False)
    assert done.returncode == -signal.SIGKILL
    with sparseq.connect(tmp_path / "s") as con:
        assert con.released == 1
        paid = con.stream.accounts.spent.copy()
        number = con.sql(INNER).value()
        assert (con.stream.accounts.spent == paid).all()
        answer = con.sql(OUTER)
        assert con.released == 2
        (said,) = answer.facts.notes
        assert "(release 1)" in said
        assert con.sql(f"SELECT count(*) AS n FROM t WHERE x > {number!r}").facts.release == 2


@pytest.mark.parametrize("of_many", [True, pytest.param(False, marks=DEEP)])
def test_cancelled_between_the_two_the_first_stays_and_is_not_drawn_again(of_many: bool) -> None:
    """Else who cancels could choose among several noised numbers, of which one is paid for."""
    con, plain = store(in_or_out=True), store(in_or_out=True)
    with Cancellation() as work:
        _before_the_second(con, work.cancel)
        if of_many:
            (outcome,) = con.ask_many([Request(con.lower(OUTER), cancellation=work)])
            assert outcome.charged
            assert "what is asked before it was charged" in str(outcome.refused)
        else:
            with pytest.raises(QueryCancelError, match="what is asked before it was charged"):
                con.sql(OUTER)
    assert con.released == 1
    number = plain.sql(INNER).value()
    assert standing(con) == standing(plain)
    del con.stream.engine.contributions
    assert con.sql(INNER).value() == number
    assert con.sql(OUTER).arrow().equals(plain.sql(OUTER).arrow())
    assert standing(con) == standing(plain)


@MODES
def test_without_a_number_nothing_is_counted(in_or_out: bool) -> None:
    con = store(in_or_out=in_or_out)
    nothing = "SELECT CASE WHEN count(*) < 0 THEN 1 END FROM t"
    answer = con.sql(f"SELECT count(*) AS n FROM t WHERE x > ({nothing})")
    assert "NULL" in answer.facts.notes[0] or "–" in answer.facts.notes[0]
    row = answer.rows()[0]
    assert abs(row["n"]) <= row["n_error"]
    paid = con.stream.accounts.spent.copy()
    con.sql(f"SELECT count(*) AS n FROM t WHERE x < ({nothing})")  # nobody is in it
    assert in_or_out <= (paid == con.stream.accounts.spent).all()


def test_a_noised_number_that_is_shown_has_no_interval_of_the_other_question() -> None:
    answer = store().sql(f"SELECT m.a, count(*) AS n FROM t, ({INNER}) m WHERE x > m.a GROUP BY 1")
    (row,) = answer.rows()
    assert row["a"] > 0
    assert row["a_error"] is row["a_low"] is row["a_high"] is None
    assert row["n_low"] <= row["n"] <= row["n_high"]


def test_what_the_number_leaves_nothing_of_is_refused_with_the_number() -> None:
    con = store(keys={"i": [0, 1, 2]}, in_or_out=True)
    nothing = "SELECT CASE WHEN count(*) < 0 THEN 1 END FROM t"
    sql = f"SELECT i, count(*) AS n FROM t WHERE i > ({nothing}) GROUP BY i"
    with pytest.raises(QueryRefused, match=r"no value of i can pass .*\(release 1\); what is ask"):
        con.sql(sql)
    assert con.released == 1
    with pytest.raises(QueryRefused, match=r"release 1"):
        con.sql(sql)
    assert con.released == 1


def test_a_quota_pays_for_both() -> None:
    tokens = Tokens(None)
    ada = replace(person(tokens, "ada"), quota=Quota.parse("8%"))  # of 78.75 it is 6.3

    async def main() -> None:
        service = Service(made(), tokens)
        sql = "SELECT count(*) AS n FROM t WHERE x > ({})".format("SELECT avg(x) FROM t{}")
        await service.ask(ada, Statement(sql.format("")))
        assert service.desk.used("ada")[1] == 5.9375  # pilots of all rows too, which are asked once
        with pytest.raises(ServerError) as refused:
            await service.ask(ada, Statement(sql.format(" WHERE x < 5")))
        assert refused.value.why == Why.QUOTA
        assert len(service.latest) == 2
        await service.ask(ada, Statement(sql.format("")))  # known: free
        await service.close()

    asyncio.run(main())
