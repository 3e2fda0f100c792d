"""Exact facts about the people in a store, and their erasure, for its curator alone.

Nothing here is noised, charged or written to the journal. Anybody with the store's file could read
the same facts. No analyst may see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Price
from sparseq.accounting._numbers import count
from sparseq.base.arguments import check_arguments
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.base.sql_text import first_line, quote
from sparseq.engine.protocol import USER
from sparseq.ledger.forecast_notes import forget_forecasts
from sparseq.ledger.notes import Fact, LoggedLine
from sparseq.ledger.pots import Pot
from sparseq.ledger.series_users import forget_taken
from sparseq.question.catalog import Table
from sparseq.store._duckdb.file_backend import as_duckdb
from sparseq.store.account_roots import keep_names
from sparseq.store.receipt import windows_of
from sparseq.store.store import Store
from sparseq.store.store_promise import LEAST_PEOPLE, checked_least

NEAR_THE_END = 0.9
"""A person who has spent this share of the budget is near its end."""


@dataclass(frozen=True)
class Counts:
    """Numbers of people and of rows; rows by private table."""

    users: int
    rows: dict[str, int]


@dataclass(frozen=True)
class Spend:
    """The spending of one pot of people's budgets.

    Attributes:
        users: Number of people.
        releases: Number of answers paid from it.
        untouched: People without a charge so far.
        near: People with `NEAR_THE_END` of it spent.
        would_drop: People who could not pay for one more count from it.
        left_out: People who were left out of a query.
        spent, budget: Totals, in squared norm.
        tenths: People by share spent: up to a tenth (and more than nothing), two tenths, …
        highest: The largest share that a person has spent.
    """

    users: int
    releases: int
    untouched: int
    near: int
    would_drop: int
    left_out: int
    spent: float
    budget: float
    tenths: tuple[int, ...]
    highest: float


@dataclass(frozen=True)
class Account:
    """One person's account.

    Attributes:
        id: The identifier; None if it was erased.
        budget, spent: Squared norms, over all pots.
        pots: (spent, budget) of each pot, by name.
        rows: Number of rows, by table.
        left_out: The first release that left the person out; None: none so far.
        releases: (number, charge) of each release that the person paid for.
    """

    id: Any
    budget: float
    spent: float
    pots: dict[str, tuple[float, float]]
    rows: dict[str, int]
    left_out: int | None
    releases: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Erasure:
    """The result of an erasure: erased rows by private table, and the number of people found."""

    people: int
    rows: dict[str, int]


def forget(store: Store, *identifiers: Any) -> Erasure:
    """Erase people's rows and identifiers for good, all or none.

    In a table with a link, the erased rows are those linked to the people, waiting rows included.

    Their accounts stay, under a keyed hash of the identifier: a person who comes back by a later
    ingest has the same account with its earlier spending. Past answers and their charges stand;
    data may change between queries (section 4.2 of Feldman & Zrnic, 2021; see
    `sparseq.load._duckdb.storage`). Old blocks of the file are overwritten. The cost is
    proportional to the file's size for any number of people.

    Args:
        store: Open.
        identifiers: Identifiers of people. A person erased before has no rows, except waiting rows
            that have come since. Where accounts are by window: of persons; all windows of a person
            are erased.

    Raises:
        ParameterError: Nobody has one of the identifiers; nothing was erased.
        StoreError: The rows are erased, but their bytes could not be overwritten yet.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1)
        >>> forget(con, "a")
        Erasure(people=1, rows={'t': 1})
    """
    with store.stream.held():
        asked = [one for i in identifiers for one in windows_of(store, str(i))]
        known = {one: store.backend.find(one).for_curator() for one in asked}
        for identifier, found in known.items():
            if found is None:
                raise ParameterError(
                    f"nobody has the identifier {identifier!r}", "nothing was erased"
                )
        named = sorted({k.user for k in known.values() if k and not k.erased})
        linked = any(table.link for table in store.catalog.private)  # later rows may wait for them
        users = sorted({k.user for k in known.values() if k}) if linked else named

        def also() -> None:
            forget_forecasts(store.stream.ledger, named)
            forget_taken(store.stream.ledger, named)
            keep_names(store.stream.ledger, named)

        gone = store.backend.forget(users, also, asked)
        return Erasure(len(named), gone.for_curator())


@check_arguments
def raise_least_people(store: Store, people: int) -> None:
    """Hide values about fewer people from now on, in new answers and in answers asked again.

    A past release keeps its values when it is returned by number. The limit is never lowered: the
    promise to the people in the store is permanent, and another promise needs another store.

    Args:
        store: Open; it applies the limit at once and keeps it.
        people: More than now.

    Raises:
        ParameterError: It is no number of people, or no more than now.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, pa.table({"who": [7]}), user="who", least_people=5)
        >>> raise_least_people(con, 10)
        >>> con.promise.least_people
        10
    """
    now = store.promise.least_people
    if checked_least(people) <= now:
        raise ParameterError(
            f"values about fewer than {now:,} people are not shown; that is raised, never lowered",
            f"give more than {now:,}, or make another store (sparseq create --least-people)",
        )
    with store.stream.lock:
        store.stream.flush()  # the rest of an interrupted step
        ledger = store.stream.ledger
        ledger.in_transaction(lambda: ledger.write(Fact(LEAST_PEOPLE, people)))
        store.relearn()


def counts(store: Store) -> Counts:
    """Return the numbers of people and rows in the store."""
    with store.stream.held():
        rows = {t.name: store.backend.count_rows(t).for_curator() for t in store.catalog.private}
        return Counts(len(store.backend.people().for_curator()), rows)


@check_arguments
def log(store: Store, last: int | None = None) -> list[LoggedLine]:
    """Return the curator's log, oldest first; `last`: at most that number of the newest lines."""
    with store.stream.held():
        most = None if last is None else count("last", last, 0, 2**62)
        return store.backend.curator_log(most).for_curator()


def spend(store: Store, pot: Pot = Pot.QUERIES) -> Spend:
    """Return the spending of one pot of people's budgets.

    Raises:
        ParameterError: The store has reserved nothing for the pot.
    """
    with store.stream.held():
        people, accounts = store.backend.people().for_curator(), store.stream.pots[pot]
        spent, budgets = accounts.spent[people], accounts.budgets[people]
        share = _share(spent, budgets)
        positive = spent > 0
        tenth = np.clip(np.ceil(share[positive] * 10).astype(int), 1, 10)
        return Spend(
            users=len(people),
            releases=store.stream.ledger.paid_from(pot),
            untouched=int(np.count_nonzero(~positive)),
            near=int(np.count_nonzero(share >= NEAR_THE_END)),
            would_drop=int(np.count_nonzero(budgets - spent < _price_of_count(store))),
            left_out=int(np.count_nonzero(store.stream.departures.first)),
            spent=float(spent.sum(dtype=np.float64)) / UNITS_PER_NORM,
            budget=float(budgets.sum(dtype=np.float64)) / UNITS_PER_NORM,
            tenths=tuple(np.bincount(tenth, minlength=11)[1:].tolist()),
            highest=float(share.max(initial=0.0)),
        )


@check_arguments
def top_spenders(
    store: Store, most: int = 10, pot: Pot = Pot.QUERIES
) -> list[tuple[Any, float, float]]:
    """Return (identifier, spent, budget) of the people with the largest spent shares.

    The identifier is None where it was erased.
    """
    with store.stream.held():
        people, accounts = store.backend.people().for_curator(), store.stream.pots[pot]
        share = _share(accounts.spent[people], accounts.budgets[people])
        order = people[np.argsort(-share, kind="stable")[: count("most", most, 0)]]
        names = store.stream.ledger.identifiers(order.tolist())
        return [
            (names[u], _norm(accounts.spent[u]), _norm(accounts.budgets[u])) for u in order.tolist()
        ]


@check_arguments
def account(store: Store, identifier: str) -> Account:
    """Return one person's account.

    Raises:
        ParameterError: Nobody has that identifier.
    """
    with store.stream.held():
        known = store.backend.find(identifier).for_curator()
        if known is None:
            raise ParameterError(f"nobody has the identifier {identifier!r}")
        user = known.user
        id = store.stream.ledger.identifiers([user])[user]
        tables = store.catalog.private
        rows = {t.name: store.backend.count_rows(t, user).for_curator() for t in tables}
        all_pots = store.stream.pots
        moved = {Pot.QUERIES: all_pots.moved(user)}
        pots = {
            name: (
                _norm(all_pots[pot].spent[user] - moved.get(pot, 0)) * all_pots.worth(pot),
                _norm(all_pots[pot].budgets[user] - moved.get(pot, 0)) * all_pots.worth(pot),
            )
            for name, pot in all_pots.named().items()
        }
        return Account(
            id,
            sum(budget for _, budget in pots.values()),
            sum(spent for spent, _ in pots.values()),
            pots,
            rows,
            int(store.stream.departures.first[user]) or None,
            tuple((n, _norm(paid)) for n, paid in store.stream.ledger.payments(user)),
        )


@check_arguments
def exact_sql(store: Store, text: str) -> pa.Table:
    """Answer SQL exactly, on the tables as they were loaded: one SELECT, which changes nothing.

    Raises:
        QueryRefused: DuckDB can't answer it, or it is no SELECT.
    """
    with store.stream.held(), _views(store) as connection:
        try:
            statements = connection.extract_statements(text)
            if [s.type for s in statements] != [duckdb.StatementType.SELECT]:
                raise QueryRefused("give one SELECT", "a store's rows are never changed by SQL")
            return connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise QueryRefused(f"DuckDB says: {first_line(error)}") from None


@contextmanager
def _views(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a read-only connection on which every table looks as it was loaded."""
    connection = as_duckdb(store.backend).database.cursor()
    try:
        for table in store.catalog.tables:
            connection.execute(f"CREATE TEMP VIEW {quote(table.name)} AS {_rows_sql(table)}")
        connection.execute("BEGIN TRANSACTION READ ONLY")
        yield connection
    finally:
        connection.close()


def _rows_sql(table: Table) -> str:
    """Return SQL that selects a table's rows with identifiers."""
    if not table.private:
        return f"SELECT * FROM public.{quote(table.name)}"
    columns = [
        f"u.id AS {quote(c.name)}" if c.name == table.user else f"r.{quote(c.name)}"
        for c in table.columns
    ]
    return (
        f"SELECT {', '.join(columns)} FROM by_user.{quote(table.name)} AS r "
        f"JOIN ledger.users AS u ON u.{USER} = r.{USER}"
    )


def _price_of_count(store: Store) -> int:
    """Return the price of one count at full weight, in ledger units."""
    return Price.of(store.guarantee.sigma_0, 1.0, store.guarantee).charge_one(1)


def _share(spent: NDArray[np.int64], budgets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of the budget that is spent; an empty budget counts as spent."""
    return np.where(budgets > 0, spent / np.maximum(budgets, 1), 1.0)


def _norm(units: Any) -> float:
    return float(units) / UNITS_PER_NORM
