"""The filter: for any charges whatever, spent stays within budget, exactly, for every user."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparseq.accounting.charge import MAX_CHARGE
from sparseq.compiled import compiled
from sparseq.ledger import accounts as module
from sparseq.ledger.accounts import Accounts
from sparseq.stream.release_charges import Bill

many = settings(derandomize=True, deadline=None, max_examples=120)
Step = dict[int, int]  # user to charge
PEOPLE = 6

amounts = st.one_of(st.integers(0, 5), st.integers(0, 2**44), st.just(MAX_CHARGE))
steps = st.lists(st.dictionaries(st.integers(0, PEOPLE - 1), amounts), max_size=20)
of_anybody = st.integers(0, 12) | st.integers(0, 2**44)
budgets = st.lists(of_anybody, min_size=PEOPLE, max_size=PEOPLE)
same_for_all = of_anybody.map(lambda budget: [budget] * PEOPLE)
LOOPS = [
    pytest.param(False, id="numpy"),
    pytest.param(
        True,
        id="compiled",
        marks=pytest.mark.skipif(compiled() is None, reason="Numba is not installed"),
    ),
]


def take(accounts: Accounts, step: Step) -> NDArray[np.bool_]:
    """One query's gate and payment; who was active."""
    users = np.array(sorted(step), np.int32)
    charges = np.array([step[u] for u in sorted(step)], np.int64)
    bill = Bill(accounts)
    active = bill.admit(users, charges)
    accounts.charge(*bill.paid())
    return active


@pytest.mark.parametrize("loops", LOOPS)
@many
@given(own=budgets | same_for_all, stream=steps, halt=st.booleans())
def test_the_filter_is_algorithm_2_in_python_integers(
    loops: bool, own: list[int], stream: list[Step], halt: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "worthwhile", lambda length, loads=True: loops and length > 0)
        follow(own, stream, halt)


def follow(own: list[int], stream: list[Step], halt: bool) -> None:
    accounts = Accounts(np.array(own), halt)
    spent = [0] * PEOPLE
    for step in stream:
        expected = []
        for user in sorted(step):
            fits = spent[user] + step[user] <= own[user]
            expected.append(fits)
            spent[user] += step[user] if fits else (own[user] - spent[user]) * halt
        assert take(accounts, step).tolist() == expected
        assert accounts.spent.tolist() == spent
        assert all(s <= b for s, b in zip(spent, own, strict=True))


@many
@given(own=budgets, stream=steps, halt=st.booleans())
def test_those_who_pay_are_users_of_the_query_each_once_in_order(
    own: list[int], stream: list[Step], halt: bool
) -> None:
    accounts = Accounts(np.array(own), halt)
    for step in stream:
        users = np.array(sorted(step), np.int32)
        charges = np.array([step[u] for u in sorted(step)], np.int64)
        bill = Bill(accounts)
        bill.admit(users, charges)
        paying, due = bill.paid()
        assert np.all(np.diff(paying) > 0)
        assert set(paying.tolist()) <= set(step)
        assert due.min(initial=0) >= 0
        accounts.charge(paying, due)


def test_a_charge_of_exactly_what_is_left_is_paid_and_one_more_unit_is_not() -> None:
    accounts = Accounts(np.array([100, 100]))
    assert take(accounts, {0: 60, 1: 60}).tolist() == [True, True]
    assert take(accounts, {0: 40, 1: 41}).tolist() == [True, False]
    assert accounts.spent.tolist() == [100, 60]


def test_units_beyond_what_a_float_can_tell_apart_are_told_apart() -> None:
    most = 2**61  # float64 has 256 units between neighbours here
    accounts = Accounts(np.array([most, most, most]))
    take(accounts, {0: most - 1, 1: most - 1, 2: most - 2})
    assert take(accounts, {0: 1, 1: 2, 2: 2}).tolist() == [True, False, True]
    assert accounts.spent.tolist() == [most, most - 1, most]
    assert take(Accounts(np.array([most])), {0: most + 1}).tolist() == [False]


def test_a_dropped_user_may_take_part_in_a_cheaper_query_later() -> None:
    accounts = Accounts(np.array([10]))
    assert take(accounts, {0: 11}).tolist() == [False]
    assert take(accounts, {0: 10}).tolist() == [True]


def test_with_halt_a_user_once_over_budget_stays_out_for_good() -> None:
    accounts = Accounts(np.array([10, 10]), halt=True)
    assert take(accounts, {0: 4, 1: 4}).tolist() == [True, True]
    assert take(accounts, {0: 7, 1: 6}).tolist() == [False, True]
    assert take(accounts, {0: 1}).tolist() == [False]
    assert accounts.spent.tolist() == [10, 10]


@pytest.mark.parametrize("halt", [False, True])
def test_a_contribution_of_nothing_costs_nothing_and_halts_nobody(halt: bool) -> None:
    accounts = Accounts(np.array([10, 0]), halt)
    assert take(accounts, {0: 0, 1: 0}).tolist() == [True, True]
    assert accounts.spent.tolist() == [0, 0]
    assert take(accounts, {0: 10}).tolist() == [True]


def test_the_largest_charge_is_beyond_every_budget_and_wraps_nothing() -> None:
    accounts = Accounts(np.array([2**44]))
    take(accounts, {0: 2**44})
    assert take(accounts, {0: MAX_CHARGE}).tolist() == [False]


@pytest.mark.parametrize("arriving", [[10, 10], [10, 7], []])
def test_users_who_arrive_start_from_nothing_with_budgets_of_their_own(
    arriving: list[int],
) -> None:
    accounts = Accounts(np.array([10, 10]))
    take(accounts, {1: 9})
    accounts.add_users(np.array(arriving, np.int64))
    assert accounts.spent.tolist() == [0, 9] + [0] * len(arriving)
    for user, budget in enumerate([10, 10, *arriving]):
        assert accounts.left(np.array([user], np.int32)).tolist() == [budget - 9 * (user == 1)]
