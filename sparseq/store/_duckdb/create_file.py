"""Creating a store's file: it appears whole or not at all."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from sparseq.accounting import Budget, budget_units
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.base.whole_files import private_folder
from sparseq.engine._duckdb.connection import connect
from sparseq.engine._duckdb.storage import FACTS, SCHEMAS, Storage
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.journal import TABLES
from sparseq.ledger._duckdb.mark import mark_at
from sparseq.ledger._duckdb.notes import told_where_not_written
from sparseq.ledger._duckdb.session import PLACE, StoreSession
from sparseq.ledger.purposes import Purpose, kept
from sparseq.load._duckdb.linked_rows import KeyIndex
from sparseq.load._duckdb.load_tables import Outside
from sparseq.load.content_hashes import FilesSeen
from sparseq.load.key_chain import KeyChains, check_declared, declared_links
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations, check_named
from sparseq.sql.catalog import AccountWindow, Bound, Catalog, KeyLink, Table, declare
from sparseq.store._duckdb.file_backend import (
    FORMAT,
    FORMAT_WITH_KEYS,
    FORMAT_WITH_LINKS,
    POPULATION_FORMAT,
    DuckBackend,
    held_bytes,
    loading_bytes,
)
from sparseq.store._duckdb.open_file import check_free, publish


@dataclass(frozen=True)
class Declaration:
    """The rows that a store is made of, and its curator's declarations: see `sparseq.create`.

    Attributes:
        links: Columns that lead to other tables' rows, and so to people: `TABLE.COL` to another.
        users: The user column of each table, of rows for which links were followed already.
        coded: Of each table, the columns whose strings have codes; None: its rows decide.
        lifetime_kappa: Of all windows of a person together; None: there is no such cap.
        population: That budgets are drawn from, as settings have it; None: people have their own.
        marks: Where the high-water mark of the store lies from its beginning; "": it has none yet.
    """

    sources: Mapping[str, Any]
    public: Mapping[str, Any]
    really_public: Sequence[str]
    budget: Budget
    user: str
    time: str
    keys: Mapping[str, Sequence[Any]]
    bounds: Mapping[str, tuple[Bound, Bound]]
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]]
    budget_column: str
    halt: bool
    weights: Mapping[str, float] | None
    reserves: Mapping[str, float]
    most: Mapping[str, int]
    read_as: Declarations
    seed: int | None
    again: bool
    purposes: Sequence[Purpose] = ()
    coded: Mapping[str, frozenset[str]] | None = None
    lifetime_kappa: float | None = None
    ids: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] | None = None
    least_people: int = 0
    finds_bounds: bool = True
    population: Mapping[str, Any] | None = None
    marks: str = ""

    def chains(self) -> KeyChains:
        """Return whom the rows of each table are about; raises `ParameterError`."""
        if self.users is not None:
            return KeyChains(self.users, {}, {})
        return KeyChains.of(self.user, self.links, self.sources, self.public)

    def settings(self) -> dict[str, Any]:
        """Return what the store's file has of it, with a number for the store."""
        return {
            "format": self._format(),
            "store": secrets.token_hex(16),
            "kappa": self.budget.kappa,
            "norm_budget": self.budget.norm_budget,
            "keys_delta": self.budget.keys_delta,
            "halt": self.halt,
            "weights": None if self.weights is None else dict(self.weights),
            "reserves": dict(self.reserves),
            "purposes": kept(self.purposes),
            "most": dict(self.most),
            "seed": self.seed,
            "budget_column": self.budget_column,
            "lifetime": self._lifetime(),
            "least_people": self.least_people,
            "finds_bounds": self.finds_bounds,
            **({} if self.population is None else {"population": dict(self.population)}),
        }

    def _format(self) -> int:
        if self.chains().links:
            return FORMAT_WITH_LINKS
        return FORMAT_WITH_KEYS if self.budget.keys_delta else FORMAT

    def _lifetime(self) -> int | None:
        """Return what a person may spend over all windows, in ledger units, rounded down."""
        if self.lifetime_kappa is None:
            return None
        share = Fraction(self.lifetime_kappa) / Fraction(self.budget.kappa)
        return math.floor(share * budget_units(self.budget.norm_budget))


def in_memory(declaration: Declaration) -> DuckBackend:
    """Return a new store without a file."""
    connection = connect(locked=True)
    _fill(connection, declaration)
    return DuckBackend(connection, None)


def create_file(path: Path, declaration: Declaration) -> None:
    """Create a store's file.

    Raises:
        StoreError: Something is there already.
        DataError, ParameterError: See `sparseq.create`.
    """
    check_free(path)
    with private_folder(path) as folder, told_where_not_written(f"there is no store at {path}"):
        working = folder / "store"
        connection = connect(working, locked=True, memory=loading_bytes())
        try:
            _fill(connection, declaration)
            if declaration.marks:
                begin_mark(connection, declaration.marks)
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        publish(working, path)


def create_population_file(path: Path, budget: Budget, marks: str) -> None:
    """Create a population's file: accounts, and nothing that can be asked about.

    Args:
        path: Of the file.
        budget: Of everybody, for all stores together.
        marks: Where its high-water mark lies, and those of its stores.

    Raises:
        StoreError: Something is there already.
    """
    check_free(path)
    with (
        private_folder(path) as folder,
        told_where_not_written(f"there is no population at {path}"),
    ):
        working = folder / "population"
        connection = connect(working, locked=True)
        try:
            connection.execute(SCHEMAS + FACTS + TABLES + notes.TABLE)
            storage = Storage(connection)
            settings = {
                "format": POPULATION_FORMAT,
                "store": secrets.token_hex(16),
                "kappa": budget.kappa,
                "norm_budget": budget.norm_budget,
                "halt": False,
                "reserves": {},
                "budget_column": "",
                "marks": marks,
            }
            storage.put("settings", settings)
            storage.put("catalog", Catalog(()).to_dict())
            storage.identify_users("a population", "VARCHAR")
            begin_mark(connection, marks)
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        publish(working, path)


def begin_mark(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Have the high-water mark of a file that is being made in a folder, or at an address."""
    store = Storage(connection).get("settings")["store"]
    mark = mark_at(f"{folder}/{store}.mark")
    notes.put(connection, PLACE, mark.place)
    StoreSession(connection, None, store).keep_mark(mark)
    mark.release()


def _fill(connection: duckdb.DuckDBPyConnection, made: Declaration) -> None:
    """Write a new store's tables."""
    connection.execute(SCHEMAS + FACTS + TABLES + notes.TABLE)
    storage = Storage(connection, held_bytes=held_bytes())
    storage.put("settings", made.settings())
    row_keys = _row_keys(made.row_key, made.sources)
    public = _opened_public(made)
    chains, loaded, budgets = made.chains(), dict[str, Table](), False
    elsewhere = declared_links({**made.sources, **made.public}, made.read_as.rename)
    check_declared(chains, elsewhere, made.public, made.really_public)
    for name in chains.order():
        loaded[name], has_budgets = _load_private(
            storage, made, chains, loaded, name, row_keys.get(name, ())
        )
        budgets |= has_budgets
    tables = [loaded[name] for name in made.sources]
    if made.budget_column and not budgets:
        raise ParameterError(
            f"no table has a column {made.budget_column!r}", "check --budget-column"
        )
    schemas = [storage.schema(table) for table in tables]
    for name, rows in public.items():
        schemas.append(rows.schema)
        tables.append(storage.create_public(name, rows))
        rows.close()
    catalog = Catalog(())
    for table in tables:
        keys = {column: tuple(values) for column, values in made.keys.items()}
        catalog = catalog.with_table(declare(table, keys, dict(made.bounds), made.ids))
    known = {c.name.lower() for t in catalog.tables for c in t.columns}
    for name in (*made.keys, *made.bounds, *made.ids, *made.read_as.types):
        if name.lower() not in known | {made.budget_column.lower()}:
            raise ParameterError(
                f"no table has a column {name!r}", "check --keys, --bounds and --type"
            )
    check_named(schemas, made.read_as)
    storage.put("catalog", catalog.to_dict())
    for table in catalog.private:
        Outside().tell(connection, table)


def _opened_public(made: Declaration) -> dict[str, IncomingRows]:
    """Return the public tables' rows, of which none is read; refuse those that name people."""
    for name in made.really_public:
        if name not in made.public:
            raise ParameterError(
                f"no public table is called {name!r}", did_you_mean(name, made.public)
            )
    opened = {}
    for name, source in made.public.items():
        opened[name] = IncomingRows(source, declared=replace(made.read_as.of(name), bounds={}))
        if name not in made.really_public:
            opened[name].check_public(name, made.chains().ways())
    return opened


def _load_private(
    storage: Storage,
    made: Declaration,
    chains: KeyChains,
    loaded: Mapping[str, Table],
    name: str,
    row_key: Sequence[str],
) -> tuple[Table, bool]:
    """Return a table that was loaded, and whether it says budgets of people."""
    source, whose = made.sources[name], chains.users[name]
    rows = IncomingRows(source, declared=made.read_as.of(name), user=whose)
    try:
        files = FilesSeen(storage, name, rows)
        if not made.again and not row_key:
            files.check(new=True)
        types = rows.usable()
        actual = {n.lower(): n for n in types}
        rows.check_people(name, made.time, linked=not whose)
        above = chains.links.get(name)
        parent = loaded[above.parent] if above else None
        link = chains.link_of(name, types, parent.in_files if parent else {})
        below = chains.below(name, types)
        user = chains.user_name(name, types) if parent else actual[rows.user.lower()]
        if parent is not None:
            types[user] = parent.column(parent.user).type
        check_bounds(made, name, link, below)
        column = budget_column_of(made, name, types, rows.user, link)
        if column:
            types.pop(column)
        time = actual[made.time.lower()] if made.time else ""
        said = rows.schema
        table = storage.create_private(
            name, types, user, time, row_key, link, said.not_null, said.zoned
        )
        if made.read_as.window:
            table = replace(table, window=_window(made, types[time], row_key))
        storage.identify_users(name, types[user])
        storage.keep_schema(name, rows.schema)
        units = budget_units(made.budget.norm_budget) if made.population is None else 0
        coded = None if made.coded is None else made.coded[name]
        table, _ = storage.load(table, rows, units, column, True, coded, below)
        for keys in () if made.again else below:  # a part of a lake has some of the keys only
            KeyIndex(storage.connection, name, keys).check()
        files.keep()
        return table, bool(column)
    finally:
        rows.close()


def check_bounds(
    made: Declaration, table: str, link: KeyLink | None, below: Sequence[Sequence[str]]
) -> None:
    """Check that no column has bounds by which people are found: cut, it would lead to others.

    Raises:
        ParameterError: One has.
    """
    keys = [*(link.columns if link else ()), *(name for names in below for name in names)]
    for name in made.bounds:
        if name.lower() in map(str.lower, keys):
            raise ParameterError(
                f"{name} of {table} leads to people, and has no bounds",
                "a key that is cut to bounds would be another one: leave them out",
            )


def budget_column_of(
    made: Declaration, table: str, types: Mapping[str, str], user: str, link: KeyLink | None
) -> str:
    """Return the column of a table that says people's own budgets; "" if it has none.

    Raises:
        ParameterError: It says something else too, or the table doesn't say whose it is.
    """
    actual = {name.lower(): name for name in types}
    column = actual.get(made.budget_column.lower(), "") if made.budget_column else ""
    if column and link is not None:
        raise ParameterError(
            f"{column} of {table} can't say a person's own budget: a link says whose the row is",
            "--budget-column is a column of a table that has the user column",
        )
    if column and column.lower() in (user.lower(), made.time.lower()):
        raise ParameterError(
            f"{column} can't say both a person's own budget and whom a row is about, or when",
            "--budget-column is a column of its own",
        )
    return column


def _window(made: Declaration, type: str, row_key: Sequence[str]) -> AccountWindow:
    read_as = made.read_as
    if type not in ("DATE", "TIMESTAMP"):
        raise ParameterError(
            f"{read_as.time} is {type}: it says no {read_as.window}",
            "--time names a column of dates or times",
        )
    if row_key:
        raise ParameterError(
            "a store with windows has no row keys",
            "a row that is corrected could go to another window; leave --row-key out",
        )
    return AccountWindow(read_as.window, made.user, made.lifetime_kappa)


def _row_keys(
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]], tables: Iterable[str]
) -> dict[str, Sequence[str]]:
    """Return the row key of each table that has one."""
    tables = list(tables)
    if not isinstance(row_key, Mapping):
        columns = [row_key] if isinstance(row_key, str) else list(row_key)
        if columns and len(tables) > 1:
            raise ParameterError(
                f"several tables could have the row key {', '.join(columns)}?",
                f"one of {', '.join(tables)}",
            )
        return dict.fromkeys(tables, columns)
    for name in row_key:
        if name not in tables:
            raise ParameterError(f"no private table is called {name!r}", did_you_mean(name, tables))
    return {t: [c] if isinstance(c, str) else c for t, c in row_key.items()}
