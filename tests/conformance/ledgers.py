"""Every promise of `sparseq.ledger.protocol.Ledger`, once: each check is given a `Maker`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparseq.base.errors import ParameterError, QueryRefused, StoreError, StoreInUse
from sparseq.ledger.notes import USER, Fact, NoteTable
from sparseq.ledger.pots import Pot
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import Asker, RequestId

PEOPLE = 12
SEEN = NoteTable("conformance", {"tick": "BIGINT", USER: "INTEGER", "value": "DOUBLE"})
NAMES = (None, RequestId.of_analyst("monday"), RequestId.of(Asker.WATCH, "1"))


class Maker(Protocol):
    """Makes one ledger, with `PEOPLE` people and a pot for a watch, and opens it again."""

    def ledger(self) -> Ledger:
        """Return the ledger."""

    def opened_again(self) -> Ledger:
        """Return it as it is opened after its process was killed now."""

    def second(self) -> Ledger:
        """Return it as another opens it meanwhile; `StoreInUse`: nobody else can."""

    def dying(self, writes: int) -> Any:
        """Return a context in which the machine dies after so many more writes."""


def entry(number: int, charges: dict[int, int], pot: Pot = Pot.QUERIES, **more: Any) -> Entry:
    """A release with its charges; every third has a name."""
    at = dt.datetime(2024, 1, 1) + dt.timedelta(minutes=number)
    name = NAMES[number % 3] if number < 3 else None
    release = Release(
        number,
        name,
        at,
        f"query {number}",
        2,
        (1.5, 2.0),
        (3.0, 4.5),
        0.95,
        b"answer %d" % number,
        pot,
    )
    users = np.array(sorted(charges), np.int32)
    return Entry(release, users, np.array([charges[u] for u in sorted(charges)]), **more)


def take(ledger: Ledger, *entries: Entry) -> None:
    """Do what the stream does: charge, and then make it durable."""
    for one in entries:
        ledger.pots[one.release.pot].charge(one.users, one.charges)
        ledger.departures.add(one.release.id, one.departed)
    ledger.commit(entries)


def some(ledger: Ledger) -> list[Entry]:
    """Three groups of entries, taken."""
    left = np.array([3, 7], np.int32)
    notes = (SEEN.rows(tick=1, _user=[0, 5], value=[0.5, -1.0]), Fact("conformance", {"a": [1]}))
    entries = [
        entry(1, {0: 1, 5: 2**30, 11: 3}),
        entry(2, {5: 7}, Pot.WATCH),
        entry(3, {}, departed=left, notes=notes),
        entry(4, {0: 2}, departed=np.array([0], np.int32)),
    ]
    take(ledger, *entries[:2])
    take(ledger, entries[2])
    take(ledger, entries[3])
    return entries


def state(ledger: Ledger) -> dict[str, Any]:
    """All that a ledger has."""
    return {
        "releases": ledger.releases(),
        "charges": [[x.tolist() for x in ledger.charges(n + 1)] for n in range(len(ledger))],
        "spent": {pot: accounts.spent.tolist() for pot, accounts in ledger.pots.items()},
        "left": {pot: accounts.budgets.tolist() for pot, accounts in ledger.pots.items()},
        "paid": [ledger.payments(user) for user in range(PEOPLE)],
        "paid from": {pot: ledger.paid_from(pot) for pot, _ in ledger.pots.items()},
        "departed": ledger.departures.first.tolist(),
        "notes": ledger.notes(SEEN).to_pylist(),
        "fact": ledger.fact("conformance"),
    }


def state_of_nothing(ledger: Ledger) -> dict[str, Any]:
    """All that a ledger has before anything was asked."""
    budgets = {pot: accounts.budgets.tolist() for pot, accounts in ledger.pots.items()}
    return {
        "releases": [],
        "charges": [],
        "spent": {pot: [0] * PEOPLE for pot in budgets},
        "paid": [[] for _ in range(PEOPLE)],
        "paid from": dict.fromkeys(budgets, 0),
        "left": budgets,
        "departed": [0] * PEOPLE,
        "notes": [],
        "fact": None,
    }


def expected(entries: list[Entry], before: dict[str, Any]) -> dict[str, Any]:
    """All that a ledger must have that took some entries, by their own words."""
    spent = {pot: list(values) for pot, values in before["spent"].items()}
    departed = list(before["departed"])
    paid, paid_from = [list(one) for one in before["paid"]], dict(before["paid from"])
    notes, fact = list(before["notes"]), before["fact"]
    for one in entries:
        for user, charge in zip(one.users.tolist(), one.charges.tolist(), strict=True):
            spent[one.release.pot][user] += charge
            paid[user] += [(one.release.id, charge)] if charge else []
        paid_from[one.release.pot] += 1
        for user in one.departed.tolist():
            departed[user] = one.release.id
        for note in one.notes:
            if isinstance(note, Fact):
                fact = note.value
            else:
                notes += note.table.to_pylist()  # type: ignore[union-attr]
    return before | {
        "paid": paid,
        "paid from": paid_from,
        "releases": before["releases"] + [one.release for one in entries],
        "charges": before["charges"] + [[e.users.tolist(), e.charges.tolist()] for e in entries],
        "spent": spent,
        "departed": departed,
        "notes": notes,
        "fact": fact,
    }


def a_new_ledger_has_nothing(maker: Maker) -> None:
    ledger = maker.ledger()
    assert state(ledger) == state_of_nothing(ledger)
    assert {pot for pot, _ in ledger.pots.items()} == {Pot.QUERIES, Pot.WATCH}


def what_was_committed_is_there_when_it_is_opened_again(maker: Maker) -> None:
    ledger = maker.ledger()
    after = expected(some(ledger), state_of_nothing(ledger))
    assert state(ledger) == after
    assert state(maker.opened_again()) == after


def summing_up_changes_nothing(maker: Maker) -> None:
    ledger = maker.ledger()
    after = expected(some(ledger), state_of_nothing(ledger))
    ledger.fold(0)
    ledger.fold(10**9)
    again = maker.opened_again()
    assert state(again) == after
    take(again, entry(5, {1: 9}))
    assert maker.opened_again().pots[Pot.QUERIES].spent[1] == 9


def a_commit_is_all_or_nothing_whenever_the_machine_dies(maker: Maker) -> None:
    some(maker.ledger())
    note = SEEN.rows(tick=2, _user=[1], value=[2.0])
    died = 0
    for writes in range(40):
        ledger = maker.opened_again()
        first = ledger.next_id  # what is durable though nobody was told counts
        group = [entry(first, {1: 4}, notes=(note,)), entry(first + 1, {2: 5})]
        before = state(ledger)
        try:
            with maker.dying(writes):
                take(ledger, *group)
            returned = True
        except StoreError:
            returned = False
        found = state(maker.opened_again())
        died += not returned
        assert found in (before, expected(group, before))
        if returned:
            assert found == expected(group, before)
            break
    assert returned, "it never got through"
    assert died > 2, "it wrote in too few steps to die between them"


def of_two_the_second_is_told(maker: Maker) -> None:
    ledger = maker.ledger()
    try:
        other = maker.second()
    except StoreInUse:
        return
    entries = [entry(1, {0: 1}), entry(2, {1: 1})]
    after = expected(entries, state_of_nothing(ledger))
    take(ledger, *entries)
    for late in (entry(1, {2: 5}), entry(3, {2: 5})):
        with pytest.raises(StoreInUse):
            take(other, late)
    assert state(maker.opened_again()) == after


def numbers_have_no_gap(maker: Maker) -> None:
    ledger = maker.ledger()
    assert (ledger.next_id, len(ledger)) == (1, 0)
    some(ledger)
    assert (ledger.next_id, len(ledger)) == (5, 4)
    for wrong in (4, 6):
        with pytest.raises(StoreError):
            ledger.commit([entry(wrong, {})])
    assert len(maker.opened_again()) == 4


def a_name_stands_for_one_query(maker: Maker) -> None:
    ledger = maker.ledger()
    one, two, *_ = some(ledger)
    for again in (ledger, maker.opened_again()):
        monday, watch = NAMES[1], NAMES[2]
        assert monday is not None
        assert watch is not None
        again.read_ahead([monday, watch])
        assert again.recorded(monday, "query 1") == again.under(monday) == one.release
        assert again.recorded(watch, "query 2") == again.read(2) == two.release
        assert again.recorded(None, "query 1") is None
        new = RequestId.of_analyst("watch//1")  # is not the watch's own
        assert again.recorded(new, "query 2") is again.under(new) is again.number(new) is None
        assert again.numbers([monday, new, watch]) == {monday: 1, watch: 2}
        assert again.names([1, 2, 3, 99]) == {1: monday, 2: watch}
        with pytest.raises(QueryRefused):
            again.recorded(monday, "query 2")
        with pytest.raises(ParameterError):
            again.recorded(RequestId.of_analyst(" "), "query 1")


def releases_can_be_read_back(maker: Maker) -> None:
    ledger = maker.ledger()
    entries = some(ledger)
    assert [r.id for r in ledger.releases()] == [1, 2, 3, 4]
    assert ledger.releases(2) == [e.release for e in entries[2:]]
    assert ledger.releases(9) == ledger.releases()
    assert ledger.releases(2, 4) == [e.release for e in entries[1:3]]
    assert ledger.releases(before=3) == ledger.releases(9, 3) == ledger.releases()[:2]
    assert ledger.releases(3, 99) == ledger.releases(3)
    assert ledger.releases(3, 1) == []
    for missing in (0, 5):
        with pytest.raises(StoreError):
            ledger.read(missing)


def notes_are_found_by_person_and_value(maker: Maker) -> None:
    ledger = maker.ledger()
    rows = SEEN.rows(tick=[1, 1, 2, 3], _user=[4, 5, 4, 6], value=0.5)
    take(ledger, entry(1, {}, notes=(rows, SEEN.rows(tick=[], _user=[], value=[]))))
    for again in (ledger, maker.opened_again()):
        assert again.notes(SEEN).schema == SEEN.schema
        assert again.notes(SEEN, tick=1)[USER].to_pylist() == [4, 5]
        four = np.array([4, 9], np.int32)
        assert again.notes(SEEN, four)["tick"].to_pylist() == [1, 2]
        assert again.notes(SEEN, four, tick=2)["tick"].to_pylist() == [2]
        assert again.notes(SEEN, four[:0]).num_rows == 0
        assert again.notes(SEEN, latest=3)[USER].to_pylist() == [5, 4, 6]
        assert again.notes(SEEN, latest=1, tick=1)[USER].to_pylist() == [5]
        assert again.notes(SEEN, latest=0).num_rows == 0
        assert again.notes(SEEN, latest=9).num_rows == 4


def notes_change_in_a_transaction_or_not_at_all(maker: Maker) -> None:
    first = SEEN.rows(tick=[1, 1, 2], _user=[4, 5, 4], value=1.0)
    take(maker.ledger(), entry(1, {}, notes=(first,)))

    def nothing_of_five(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.not_equal(batch[USER], 5))

    for writes in range(40):
        ledger = maker.opened_again()

        def change(ledger: Ledger = ledger) -> str:
            ledger.drop(SEEN, np.array([5], np.int32), tick=1)
            ledger.write(SEEN.rows(tick=9, _user=7, value=2.0))
            ledger.write(Fact("conformance", 2))
            ledger.rewrite(SEEN, nothing_of_five)
            return "done"

        try:
            with maker.dying(writes):
                assert ledger.in_transaction(change) == "done"
            returned = True
        except Exception:
            returned = False
        again = maker.opened_again()
        found = (again.notes(SEEN).to_pylist(), again.fact("conformance"))
        after = ([{"tick": 2, USER: 4, "value": 1.0}, {"tick": 9, USER: 7, "value": 2.0}], 2)
        assert found in ((first.table.to_pylist(), None), after)
        if returned or found == after:  # durable, though nobody was told
            assert found == after
            return
    raise AssertionError("it never got through")


def people_have_their_names(maker: Maker) -> None:
    assert maker.ledger().identifiers([0, 3]) == {0: "p00", 3: "p03"}


CHECKS: list[Callable[[Maker], None]] = [
    a_new_ledger_has_nothing,
    what_was_committed_is_there_when_it_is_opened_again,
    summing_up_changes_nothing,
    a_commit_is_all_or_nothing_whenever_the_machine_dies,
    of_two_the_second_is_told,
    numbers_have_no_gap,
    a_name_stands_for_one_query,
    releases_can_be_read_back,
    notes_are_found_by_person_and_value,
    notes_change_in_a_transaction_or_not_at_all,
    people_have_their_names,
]
