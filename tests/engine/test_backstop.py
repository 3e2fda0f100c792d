"""Where the engine fails on somebody's rows: who fails alone is out, and everybody else as ever."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.base.errors import QueryRefused, StoreError
from sparseq.engine._duckdb import engine as duck
from sparseq.engine._duckdb.backstop import halves
from sparseq.engine._duckdb.reader import Reader
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.question.plan import Options, Query, calibrate
from sparseq.stream.batches import Request
from sparseq.stream.charge_amounts import price

PEOPLE = 40
FINE = Options(sigma=1000.0)
SECRET = "kumquat-7731"


def rows(*, leaving_out: frozenset[int] = frozenset()) -> pa.Table:
    rng = random.Random(4)
    made = []
    for who in range(PEOPLE):
        for _ in range(1 + who % 7):
            day = dt.date(2024, 1, 1) + dt.timedelta(days=rng.randrange(20))
            kind = rng.choice(["a", "b", None, f"only {who}"])
            made.append((f"p{who:02d}", day, kind, round(rng.uniform(-5, 50), 2)))
    columns = list(zip(*(r for r in made if int(r[0][1:]) not in leaving_out), strict=True))
    names = ["who", "day", "kind", "amount"]
    return pa.table(dict(zip(names, map(list, columns), strict=True)))


def store(
    path: Path | None, leaving_out: frozenset[int] = frozenset(), in_or_out: bool = False
) -> sparseq.Store:
    return sparseq.create(
        path,
        {"t": rows(leaving_out=leaving_out)},
        user="who",
        seed=3,
        public={"p": pa.table({"kind": ["a", "b"], "rent": [1, 2]})},
        purposes=[sparseq.Questions(counts=60, in_or_out=in_or_out)],
    )


QUERIES = {
    "whole table": "SELECT count(*) AS n, sum(least(greatest(amount, 0), 9)) AS s FROM t",
    "users": "SELECT count(DISTINCT who) AS n FROM t",
    "groups": "SELECT kind, count(*) AS n FROM t WHERE kind IN ('a', 'b') GROUP BY kind",
    "filtered": "SELECT count(*) AS n FROM t WHERE day >= DATE '2024-01-05' AND amount > 1",
    "identifiers": "SELECT count(*) AS n FROM t WHERE who >= 'p05'",
    "self join": "SELECT count(*) AS n FROM t a JOIN t b ON a.who = b.who AND a.day < b.day",
    "public join": "SELECT sum(rent) AS n FROM t JOIN p ON t.kind = p.kind",
    "per person": "SELECT count(*) AS n FROM (SELECT who, sum(amount) AS s FROM t GROUP BY who) "
    "WHERE s > 30",
    "histogram": "SELECT histogram(amount, [0, 10, 20]) AS h FROM t WHERE day > DATE '2024-01-02'",
}


def fails_on(
    monkeypatch: pytest.MonkeyPatch, people: frozenset[int], method: str = "fetch"
) -> list[Any]:
    """Have the engine fail wherever somebody of `people` is among the rows; return what it did."""
    method_, said, indices = getattr(Reader, method), list[Any](), list[int]()

    def failing(self: Reader, what: Any, *args: Any, **more: Any) -> Any:
        if not indices:  # the store's own database comes first, and has everybody
            named = self._con.execute("SELECT id, _user FROM ledger.users").fetchall()
            indices.extend(user for name, user in named if int(name[1:]) in people)
        some = ", ".join(map(str, indices))
        # by the rows that the database has, whatever of them the statement asks for
        there = f"SELECT count(*) FROM by_user.t WHERE _user IN ({some})"
        if self._con.execute(there).fetchall() != [(0,)]:
            said.append(what)
            raise duckdb.OutOfRangeException(f"Overflow of a secret: {SECRET}")
        return method_(self, what, *args, **more)

    monkeypatch.setattr(Reader, method, failing)
    return said


def outcome(con: sparseq.Store, sql: str) -> dict[str, Any]:
    """Return what each person is charged, the sums over all, and those without every third."""
    plan = calibrate(con.lower(sql), con.guarantee, FINE)
    made = con.stream.engine.contributions(plan, con.stream.people.inside())
    users, charges = price(plan, made)
    names = dict(con.backend.database.execute("SELECT _user, id FROM ledger.users").fetchall())
    thirds = np.array([u for u in users.tolist() if int(names[u][1:]) % 3 == 0], np.int32)
    paid = {names[u]: int(c) for u, c in zip(users.tolist(), charges.tolist(), strict=True) if c}
    sums = [total.tolist() for total in made.without(thirds[:0])]
    return {"paid": paid, "sums": sums, "pulled": [t.tolist() for t in made.without(thirds)]}


@pytest.mark.parametrize(
    ("name", "people"),
    [
        *one_in(4, ((name, {7, 39}) for name in QUERIES)),
        ("self join", {0}),
        ("filtered", {0, 3, 4, 5, 20}),
    ],
    ids=str,
)
def test_everybody_else_keeps_the_engine_s_bits(
    monkeypatch: pytest.MonkeyPatch, name: str, people: set[int]
) -> None:
    out = frozenset(people)
    whole, without = store(None), store(None, out)
    expected = outcome(without, QUERIES[name])
    fails_on(monkeypatch, out)
    assert outcome(whole, QUERIES[name]) == expected
    assert len(whole.stream.engine.take_failures()) == len(out)


def test_one_person_alone_who_fails_leaves_an_answer_of_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    con = store(None, frozenset(range(1, PEOPLE)))
    fails_on(monkeypatch, frozenset({0}))
    made = outcome(con, QUERIES["whole table"])
    assert (made["paid"], made["sums"]) == ({}, [[0], [0]])


def failing_sql(con: sparseq.Store, condition: str) -> Query:
    """Return a query whose SQL really raises, on the rows that a condition holds for."""
    query = con.lower("SELECT count(*) AS n FROM t WHERE amount > -99")
    bad = f"(CASE WHEN {condition} THEN error('{SECRET}') ELSE true END)"
    return replace(
        query, relation=replace(query.relation, where=f"{query.relation.where} AND {bad}")
    )


def test_a_real_error_is_nobody_else_s_and_only_the_curator_s() -> None:
    whole, without = store(None, in_or_out=True), store(None, frozenset({7, 21}), True)
    condition = "amount = 666"  # nobody's; then two people's
    twice = "(SELECT _user FROM ledger.users WHERE id IN ('p07', 'p21'))"
    answer = without.ask(failing_sql(without, condition)).arrow()
    query = failing_sql(whole, f'"t"._user IN {twice}')
    same = whole.ask(query)
    assert same.arrow() == answer
    (one, two) = CuratorLog(whole.backend.database).entries()
    assert one.kind == "engine"
    assert "p07" in one.message
    assert "p21" in two.message
    assert SECRET in one.message
    assert SECRET not in repr(same) + same.to_bytes().hex() + same.facts.query
    spent = whole.stream.accounts.spent.tolist()
    assert (spent[7], spent[21]) == (0, 0)
    assert spent[0] > 0
    others = [units for user, units in enumerate(spent) if user not in (7, 21)]
    assert others == without.stream.accounts.spent.tolist()


def test_what_fails_without_people_is_refused_and_charges_nothing() -> None:
    con = store(None)
    query = con.lower(QUERIES["whole table"])
    wrong = replace(query, relation=replace(query.relation, sql="FROM by_user.t, nothing"))
    with pytest.raises(QueryRefused):
        con.ask(wrong)
    assert con.released == 0
    assert not con.stream.accounts.spent.any()


def test_a_set_that_fails_is_its_halves_where_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    con = store(None)
    expected = outcome(con, QUERIES["self join"])
    read = Reader.read

    def failing(self: Reader, *args: Any, **more: Any) -> Any:
        found = read(self, *args, **more)
        if len(np.unique(found[1].users)) > 10:
            raise MemoryError
        return found

    monkeypatch.setattr(Reader, "read", failing)
    assert outcome(con, QUERIES["self join"]) == expected
    assert con.stream.engine.take_failures() == []


def test_more_rows_than_fit_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    con = store(None)
    expected = outcome(con, QUERIES["self join"])
    asked: list[str] = []
    fetch = Reader.fetch

    def counted(self: Reader, sql: str) -> Any:
        asked.append(sql)
        return fetch(self, sql)

    monkeypatch.setattr(Reader, "fetch", counted)
    monkeypatch.setattr(duck, "SLICE_ROWS", 20)
    assert outcome(con, QUERIES["self join"]) == expected
    assert len(asked) > 4
    assert con.stream.engine.take_failures() == []


def test_read_ahead_and_groups_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    days = [f"2024-01-{d:02d}" for d in range(1, 7)]
    asked = [f"SELECT count(*) AS n FROM t WHERE day = DATE '{day}'" for day in days]
    whole, without = store(None), store(None, frozenset({6}))
    expected = [o.answer for o in without.ask_many([Request(without.lower(q)) for q in asked])]
    fails_on(monkeypatch, frozenset({6}))
    answers = [o.answer for o in whole.ask_many([Request(whole.lower(q)) for q in asked])]
    assert [a.arrow() for a in answers if a] == [a.arrow() for a in expected if a]
    assert whole.stream.accounts.spent[6] == 0
    told = {line.message for line in CuratorLog(whole.backend.database).entries()}
    assert len(told) == len(days)  # one for each release, a pilot's beside its question's


def test_cells_and_training_rows_are_everybody_else_s(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, without = store(None), store(None, frozenset({6}))
    sql = QUERIES["filtered"]

    def cells(con: sparseq.Store) -> tuple[list[int], list[int]]:
        plan = calibrate(con.lower(sql), con.guarantee, FINE)
        found = con.stream.engine.cells(plan, con.stream.people.inside())
        return [u - (u > 6) * (con is whole) for u in found.users.tolist()], found.values.tolist()

    expected = cells(without)
    fails_on(monkeypatch, frozenset({6}))
    assert cells(whole) == expected


STOPPED = [duckdb.InterruptException("Interrupted!"), RuntimeError("Query interrupted")]


@pytest.mark.parametrize("stopped", STOPPED, ids=lambda error: type(error).__name__)
def test_an_interrupt_is_nobody_s_error(
    monkeypatch: pytest.MonkeyPatch, stopped: Exception
) -> None:
    con = store(None)

    def stops(self: Reader, sql: str) -> Any:
        raise stopped

    monkeypatch.setattr(Reader, "fetch", stops)
    with pytest.raises(KeyboardInterrupt):
        con.sql(QUERIES["whole table"])
    assert con.released == 0


def test_a_row_can_not_pass_for_an_interrupt() -> None:
    con = store(None, in_or_out=True)
    query = failing_sql(con, '"t"._user = 4')
    where = query.relation.where.replace(SECRET, "Query interrupted")
    answer = con.ask(replace(query, relation=replace(query.relation, where=where)))
    without = store(None, frozenset({4}), True)
    assert answer.arrow() == without.ask(failing_sql(without, "false")).arrow()


class GivenUp:
    """A connection to a database that DuckDB has given up: whatever it is asked, it fails."""

    def __init__(self, connection: Any) -> None:
        self.close = connection.close

    def __getattr__(self, name: str) -> Any:
        def fails(*_: Any, **__: Any) -> Any:
            raise duckdb.FatalException("database has been invalidated")

        return fails


def dies_once(monkeypatch: pytest.MonkeyPatch, con: sparseq.Store) -> None:
    fetch, died = Reader.fetch, []

    def failing(self: Reader, sql: str) -> Any:
        if not died:
            died.append(sql)
            con.backend._held._connection = GivenUp(con.backend._held._connection)  # type: ignore[assignment]
        return fetch(self, sql)

    monkeypatch.setattr(Reader, "fetch", failing)


@pytest.mark.parametrize("name", ["whole table", "self join"])
def test_a_fatal_error_opens_the_file_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    expected = [
        (c.sql(QUERIES[n], fresh=True).arrow())
        for c in [store(None)]
        for n in ("users", name, "users")
    ]
    path = tmp_path / "a.sparseq"
    with store(path) as con:
        answers = [con.sql(QUERIES["users"]).arrow()]
        dies_once(monkeypatch, con)
        answers.append(con.sql(QUERIES[name]).arrow())
        answers.append(con.sql(QUERIES["users"], fresh=True).arrow())
        spent = con.stream.accounts.spent.copy()
    assert answers == expected
    with sparseq.connect(path) as again:
        assert again.released == 3
        assert np.array_equal(again.stream.accounts.spent, spent)


def test_what_is_charged_and_not_yet_written_outlives_a_fatal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.sparseq"
    with store(path) as con:
        asked = [Request(con.lower(QUERIES[name])) for name in ("users", "filtered", "self join")]
        dies_once(monkeypatch, con)
        assert all(outcome.answer is not None for outcome in con.ask_many(asked))
        spent = con.stream.accounts.spent.copy()
    with sparseq.connect(path) as again:
        assert again.released == 3
        assert np.array_equal(again.stream.accounts.spent, spent)


def test_a_store_in_memory_can_not_outlive_a_fatal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    con = store(None)
    dies_once(monkeypatch, con)
    with pytest.raises(StoreError, match="memory"):
        con.sql(QUERIES["whole table"])
    with pytest.raises(StoreError, match="closed"):
        con.sql(QUERIES["users"])


def test_halves_cover_a_range_once() -> None:
    for first, last in ((0, 0), (0, 1), (5, 17), (3, 2)):
        parts = halves(first, last)
        assert [u for a, b in parts for u in range(a, b + 1)] == list(range(first, last + 1))
