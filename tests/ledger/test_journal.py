"""The journal: a release and its charges are one, and what everybody spent can be read off it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseq.base.errors import ParameterError, QueryRefused, StoreError
from sparseq.ledger._duckdb.journal import TABLES, Journal
from sparseq.ledger.departures import Departures
from sparseq.ledger.notes import NoteTable
from sparseq.ledger.packed_integers import pack, pack_set
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import Asker, RequestId, requested

PEOPLE = 8
Charges = dict[int, int]


def release(id: int, request_id: RequestId | str | None = None, query: str = "SELECT 1") -> Release:
    when = dt.datetime(2024, 5, 1, 12, 30, 15, 123456)
    answer = bytes(range(256)) * id
    request = requested(request_id)
    return Release(id, request, when, query, 3, (1.5, 2.0**40), (0.1, 1e300), 0.95, answer)


MADE = TABLES + "CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR)"


def fresh() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(MADE)
    return connection


def commit(journal: Journal, one: Release, charges: Charges) -> None:
    users = np.array(sorted(charges), np.int32)
    journal.commit([Entry(one, users, np.array([charges[u] for u in sorted(charges)], np.int64))])


def accounts(budget: int = 10**6, people: int = PEOPLE) -> Pots:
    return Pots(np.full(people, budget, np.int64), {})


def restored(connection: duckdb.DuckDBPyConnection, budget: int = 10**6) -> list[int]:
    """What everybody has spent, read anew."""
    who = accounts(budget)
    Journal(connection).restore(who)
    spent: list[int] = who[Pot.QUERIES].spent.tolist()
    return spent


def test_a_release_is_read_back_as_it_was_written() -> None:
    connection = fresh()
    journal = Journal(connection)
    written = [release(1), release(2, "r", "SELECT 'ü' -- 漢\n"), replace(release(3), sigma=(0.1,))]
    for one in written:
        commit(journal, one, {0: 1})
    for again in (journal, Journal(connection)):
        assert again.releases() == written
        assert [again.read(i) for i in (1, 2, 3)] == written
        assert again.releases(last=2) == written[1:]
        assert again.releases(last=0) == []
        assert again.releases(last=99) == written
        assert len(again) == 3
        assert again.next_id == 4


def test_a_release_that_is_not_there_is_told() -> None:
    with pytest.raises(StoreError, match="no release 7"):
        Journal(fresh()).read(7)


def test_releases_follow_each_other_without_a_gap() -> None:
    journal = Journal(fresh())
    for wrong in (0, 2):
        with pytest.raises(StoreError, match="does not follow"):
            commit(journal, release(wrong), {0: 1})
    assert journal.releases() == []


def test_a_request_id_stands_for_its_release_also_after_opening_again() -> None:
    connection = fresh()
    journal = Journal(connection)
    commit(journal, release(1, "mine"), {0: 1})
    for again in (journal, Journal(connection)):
        assert again.recorded(RequestId.of_analyst("mine"), "SELECT 1") == release(1, "mine")
        assert again.recorded(RequestId.of_analyst("yours"), "SELECT 1") is None
        assert again.recorded(None, "SELECT 1") is None


def test_a_request_id_of_another_query_is_refused_with_that_query() -> None:
    journal = Journal(fresh())
    commit(journal, release(1, "mine"), {0: 1})
    with pytest.raises(QueryRefused, match="'mine' belongs to another query: SELECT 1"):
        journal.recorded(RequestId.of_analyst("mine"), "SELECT 2")


@pytest.mark.parametrize("asker", [a for a in Asker if a is not Asker.ANALYST])
def test_no_text_of_an_analyst_is_the_name_of_anything_that_the_system_asks(asker: Asker) -> None:
    """Whatever is stored for it, shown of it, or was its spelling in earlier versions."""
    journal = Journal(fresh(), former=0)
    ours = RequestId.of(asker, "a/b", "2024-01-01", question="SELECT 1", former="a/b: 2024-01-01")
    texts = [ours.stored, str(ours), ours.text, ours.former, f"{asker}/", f"analyst/{ours.stored}"]
    for number, text in enumerate(texts, 1):
        commit(journal, release(number, text), {0: 1})
    for again in (journal, Journal(journal._con)):
        assert again.recorded(ours, "SELECT 1") is None
        assert again.numbers([ours]) == {}
        for number, text in enumerate(texts, 1):
            found = again.recorded(RequestId.of_analyst(text), "SELECT 1")
            assert found is not None
            assert (found.id, found.request_id, found.asker) == (number, text, Asker.ANALYST)
    commit(journal, release(len(texts) + 1, ours), {0: 1})
    found = journal.recorded(ours, "SELECT 1")
    assert found is not None
    assert (found.id, found.asker) == (len(texts) + 1, asker)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.lists(st.text("/%2Fa", max_size=4), min_size=1, max_size=3),
    st.lists(st.text("/%2Fa", max_size=4), min_size=1, max_size=3),
)
def test_names_of_other_parts_are_other_names(some: list[str], others: list[str]) -> None:
    if len(some) == len(others):
        one, two = RequestId.of(Asker.TRAIN, *some), RequestId.of(Asker.TRAIN, *others)
        assert (one == two) == (some == others)
    one = RequestId.of(Asker.REPLAY, *some, question="q")
    assert RequestId.read(one.stored) == one
    assert RequestId.read(RequestId.of_analyst("/".join(some)).stored).text == "/".join(some)


def test_a_former_spelling_is_found_up_to_the_upgrade_and_for_the_same_question() -> None:
    journal = Journal(fresh())
    commit(journal, release(1, "log: 1"), {0: 1})
    commit(journal, release(2, "log: 2"), {0: 1})
    upgraded = Journal(journal._con, former=1)

    def line(number: int) -> RequestId:
        return RequestId.of(Asker.REPLAY, "log", f"{number}", former=f"log: {number}")

    assert upgraded.recorded(line(1), "SELECT 1") == release(1, "log: 1")
    assert upgraded.recorded(line(1), "SELECT 2") is None, "another question"
    assert upgraded.recorded(line(2), "SELECT 1") is None, "asked since, by an analyst"
    assert journal.recorded(line(1), "SELECT 1") is None, "a store that was never upgraded"


streams = st.lists(
    st.tuples(st.dictionaries(st.integers(0, PEOPLE - 1), st.integers(0, 400)), st.booleans()),
    max_size=25,
)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(stream=streams)
def test_with_or_without_snapshots_what_was_spent_is_the_sum_of_the_charges(
    stream: list[tuple[Charges, bool]],
) -> None:
    """A snapshot is taken after some releases; it changes nothing but the time to open."""
    plain, folded = fresh(), fresh()
    without, taking, who = Journal(plain), Journal(folded), accounts()
    total = [0] * PEOPLE
    for i, (charges, snapshot) in enumerate(stream, 1):
        users = np.array(sorted(charges), np.int32)
        who[Pot.QUERIES].charge(users, np.array([charges[u] for u in sorted(charges)], np.int64))
        for journal in (without, taking):
            commit(journal, release(i), charges)
        if snapshot:
            taking.snapshot(who, 0)
        total = [t + charges.get(u, 0) for u, t in enumerate(total)]
        assert who[Pot.QUERIES].spent.tolist() == total
    assert restored(plain) == restored(folded) == total
    for connection in (plain, folded):
        connection.close()


def test_a_snapshot_is_taken_once_enough_charges_have_piled_up() -> None:
    connection = fresh()
    journal, who = Journal(connection), accounts()

    def snapshots() -> list[tuple[int]]:
        return connection.execute("SELECT release_id FROM ledger.snapshot").fetchall()

    journal.snapshot(who, 0)
    assert snapshots() == []  # nothing to take one of
    for i in range(1, 4):
        commit(journal, release(i), {0: 1, 1: 1})
        journal.snapshot(who, 5)
        assert snapshots() == ([(3,)] if i == 3 else [])
    commit(journal, release(4), {0: 1})
    journal.snapshot(who, 1)
    assert snapshots() == [(4,)]  # the older one is gone


def test_opening_counts_the_charges_since_the_snapshot() -> None:
    connection = fresh()
    journal, who = Journal(connection), accounts()
    commit(journal, release(1), {0: 5})
    who[Pot.QUERIES].charge(np.array([0], np.int32), np.array([5]))
    journal.snapshot(who, 0)
    commit(journal, release(2), {0: 7, 3: 1})
    again, reopened = Journal(connection), accounts()
    again.restore(reopened)
    assert reopened[Pot.QUERIES].spent.tolist() == [12, 0, 0, 1, 0, 0, 0, 0]
    again.snapshot(reopened, 3)
    assert connection.execute("SELECT release_id FROM ledger.snapshot").fetchall() == [(1,)]
    again.snapshot(reopened, 2)
    assert connection.execute("SELECT release_id FROM ledger.snapshot").fetchall() == [(2,)]


def test_users_who_came_after_the_snapshot_have_spent_what_came_after_it() -> None:
    connection = fresh()
    journal, few = Journal(connection), accounts(people=2)
    commit(journal, release(1), {0: 5, 1: 6})
    few[Pot.QUERIES].charge(np.array([0, 1], np.int32), np.array([5, 6]))
    journal.snapshot(few, 0)
    commit(journal, release(2), {1: 1, 7: 2})
    assert restored(connection) == [5, 7, 0, 0, 0, 0, 0, 2]


# Damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM ledger.release_1 WHERE id = 1", "lacks a release"),
        ("DROP VIEW ledger.release; DROP TABLE ledger.release_1", "no table of releases"),
        ("UPDATE ledger.release_1 SET charges = charges || '\\x00'::BLOB", "cut short"),
        ("UPDATE ledger.release_1 SET users = '\\x00'::BLOB WHERE id = 2", "did not write"),
        (
            "INSERT INTO ledger.snapshot SELECT 9, 0, charges FROM ledger.release LIMIT 1",
            "matches no release",
        ),
    ],
)
def test_a_ledger_that_contradicts_itself_is_not_opened(damage: str, message: str) -> None:
    connection = fresh()
    journal = Journal(connection)
    for i in (1, 2):
        commit(journal, release(i), {0: 1, 1: 300})
    assert restored(connection)[:2] == [2, 600]
    connection.execute(damage)
    with pytest.raises(StoreError, match=message):
        restored(connection)


@pytest.mark.parametrize(
    ("users", "charges"),
    [([0, 1], [1]), ([0], [1, 1]), ([PEOPLE], [1]), ([2**31 - 1], [1])],
)
def test_charges_to_nobody_known_are_told(users: list[int], charges: list[int]) -> None:
    connection = fresh()
    commit(Journal(connection), release(1), {0: 1})
    packed = [pack_set(np.array(users, np.int32)), pack(np.array(charges))]
    connection.execute("UPDATE ledger.release_1 SET users = ?, charges = ?", packed)
    with pytest.raises(StoreError, match="a person who has no account"):
        restored(connection)


def test_a_snapshot_of_more_people_than_there_are_is_told() -> None:
    connection = fresh()
    journal = Journal(connection)
    commit(journal, release(1), {0: 1})
    journal.snapshot(accounts(people=PEOPLE + 1), 0)
    with pytest.raises(StoreError, match="matches no release"):
        restored(connection)


def test_an_overdrawn_account_is_told() -> None:
    connection = fresh()
    journal = Journal(connection)
    commit(journal, release(1), {2: 60})
    commit(journal, release(2), {2: 40})
    assert restored(connection, budget=100)[2] == 100
    with pytest.raises(StoreError, match="overdrawn"):
        restored(connection, budget=99)


def test_a_release_is_on_disk_when_commit_returns(tmp_path: Path) -> None:
    """Read from a copy of the files as they lie, as after a loss of power."""
    path = tmp_path / "j.db"
    connection = duckdb.connect(str(path))
    connection.execute(MADE + "; CHECKPOINT;")
    journal = Journal(connection)
    for i in range(1, 6):
        commit(journal, release(i), {0: i})
        copy = tmp_path / f"copy{i}.db"
        copy.write_bytes(path.read_bytes())
        Path(f"{copy}.wal").write_bytes(Path(f"{path}.wal").read_bytes())
        with duckdb.connect(str(copy)) as other:
            assert Journal(other).releases() == [release(k) for k in range(1, i + 1)]
            assert restored(other)[0] == sum(range(i + 1))


def test_pots_are_charged_apart_with_or_without_a_snapshot() -> None:
    budgets, shares = np.full(3, 100, np.int64), {Pot.WATCH: 0.25}
    for at_least in (0, 10**9):
        connection = fresh()
        journal, pots = Journal(connection), Pots(budgets, shares)
        for i, pot in enumerate((Pot.QUERIES, Pot.WATCH), 1):
            users, charges = np.array([i - 1], np.int32), np.array([10 * i])
            pots[pot].charge(users, charges)
            journal.commit([Entry(replace(release(i), pot=pot), users, charges)])
            journal.snapshot(pots, at_least)
        again = Pots(budgets, shares)
        Journal(connection).restore(again)
        assert again[Pot.QUERIES].spent.tolist() == [10, 0, 0]
        assert again[Pot.WATCH].spent.tolist() == [0, 20, 0]
        assert [a.spent.tolist() for _, a in again.items()] == [
            a.spent.tolist() for _, a in pots.items()
        ]


def test_what_is_written_with_a_release_is_there_with_it_or_not_at_all() -> None:
    connection = fresh()
    seen = NoteTable("seen", {"id": "BIGINT"})
    bad_table = NoteTable("seen; nothing", {"id": "BIGINT"})
    nobody, nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    good = Entry(release(1), nobody, nothing, notes=(seen.rows(id=7),))
    bad = Entry(release(2), nobody, nothing, notes=(bad_table.rows(id=7),))
    with pytest.raises(duckdb.Error):
        Journal(connection).commit([good, bad])
    connection.rollback()
    assert len(Journal(connection)) == 0
    Journal(connection).commit([good])
    assert len(Journal(connection)) == 1
    assert connection.execute("SELECT id FROM ledger.seen").fetchall() == [(7,)]


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    budgets=st.lists(st.integers(0, 2**44), max_size=8),
    watch=st.floats(0, 0.5),
    forecast=st.floats(0, 0.499),
)
def test_pots_add_up_to_the_budget(budgets: list[int], watch: float, forecast: float) -> None:
    pots = Pots(np.array(budgets, np.int64), {Pot.WATCH: watch, Pot.FORECAST: forecast})
    parts = [accounts.budgets for _, accounts in pots.items()]
    assert np.sum(parts, axis=0, dtype=np.int64).tolist() == budgets or not budgets
    for pot, share in ((Pot.WATCH, watch), (Pot.FORECAST, forecast)):
        if pot in pots:
            assert pots[pot].budgets.tolist() == [int(Fraction(share) * b) for b in budgets]


def test_shares_that_leave_nothing_for_queries_are_refused() -> None:
    with pytest.raises(ParameterError, match="nothing for queries"):
        Pots(np.zeros(1, np.int64), {Pot.WATCH: 0.5, Pot.FORECAST: 0.5})
    with pytest.raises(ParameterError, match="no reserve for watch"):
        Pots(np.zeros(1, np.int64), {})[Pot.WATCH]


# Who was left out ---------------------------------------------------------------------------------


def test_first_departures_are_written_with_their_release_and_read_back() -> None:
    connection = fresh()
    journal = Journal(connection)
    nobody, nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    for id, who in enumerate([[], [1, 5], [], [0]], 1):
        journal.commit([Entry(release(id), nobody, nothing, np.array(who, np.int32))])
    departures = Departures()
    departures.add_users(PEOPLE)
    Journal(connection).restore_departures(departures)
    assert departures.first.tolist() == [4, 2, 0, 0, 0, 2, 0, 0]
    assert departures.between(0, 2).tolist() == [1, 5]
    assert departures.between(3, 4).tolist() == [0]
    assert departures.between(2, 9).tolist() == [0, 1, 5]
    assert departures.between(3, 3).tolist() == []


@pytest.mark.parametrize("users", [[PEOPLE], [5]], ids=str)
def test_departures_that_never_were_are_told(users: list[int]) -> None:
    connection = fresh()
    nobody, nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    for number in (1, 2):
        only = np.array([5] if number == 1 else [], np.int32)
        Journal(connection).commit([Entry(release(number), nobody, nothing, only)])
    packed = pack_set(np.array(users, np.int32))
    connection.execute("UPDATE ledger.release_1 SET departed = ? WHERE id = 2", [packed])
    departures = Departures()
    departures.add_users(PEOPLE)
    with pytest.raises(StoreError, match="no account"):
        Journal(connection).restore_departures(departures)
