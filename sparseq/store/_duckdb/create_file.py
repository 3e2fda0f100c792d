"""Creating a store's file: it appears whole or not at all."""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from sparseq.accounting import Budget, budget_units
from sparseq.base._duckdb.connection import connect
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.base.whole_files import private_folder
from sparseq.language.column_id import ColumnId
from sparseq.ledger._duckdb import curator_log
from sparseq.ledger._duckdb import facts as store_facts
from sparseq.ledger._duckdb.journal import TABLES
from sparseq.ledger._duckdb.mark import mark_at
from sparseq.ledger._duckdb.session import PLACE, StoreSession
from sparseq.ledger._duckdb.write_errors import told_where_not_written
from sparseq.ledger.purposes import Purpose, kept
from sparseq.load._duckdb.outside_keys import Outside
from sparseq.load._duckdb.storage import FACTS, SCHEMAS, Storage
from sparseq.load.key_chain import KeyChains, check_declared, declared_links
from sparseq.load.load_rows import IncomingRows
from sparseq.load.loaded_files import FilesSeen
from sparseq.load.named_columns import NamedColumns, time_of
from sparseq.load.read_schema import Declarations, check_named
from sparseq.question.catalog import AccountWindow, Bound, Catalog, KeyLink, Table, declare
from sparseq.store._duckdb.file_backend import (
    FORMAT,
    FORMAT_WITH_KEYS,
    FORMAT_WITH_LINKS,
    POPULATION_FORMAT,
    DuckBackend,
    held_bytes,
    loading_bytes,
)
from sparseq.store._duckdb.new_file import check_free, publish
from sparseq.store.shared_facts import FACTS_OF_COLUMNS


@dataclass(frozen=True)
class DeclaredFacts:
    """Declarations about the values of columns of private tables.

    Attributes:
        keys, bounds: The declared keys and bounds, by column.
        owned: The columns whose values each belong to one person.
        budget: The column with people's own budgets.
    """

    keys: Mapping[ColumnId, tuple[Any, ...]]
    bounds: Mapping[ColumnId, tuple[Bound, Bound]]
    owned: frozenset[ColumnId]
    budget: ColumnId | None = None


@dataclass(frozen=True)
class Declaration:
    """The initial rows of a store and its curator's declarations: see `sparseq.create`.

    Attributes:
        links: Columns that refer to other tables' rows, and so to people: `TABLE.COL` to another.
        users: The user column of each table whose rows already have their links resolved.
        lifetime_kappa: The kappa of all windows of a person together; None: there is no such cap.
        population: The population that budgets are drawn from, as in the settings; None: the store
            has its own budgets.
        marks: The place of the store's high-water mark from its creation; "": it has none yet.
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
    lifetime_kappa: float | None = None
    ids: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] | None = None
    least_people: int = 0
    finds_bounds: bool = True
    population: Mapping[str, Any] | None = None
    marks: str = ""

    def facts(
        self, private: Mapping[str, Collection[str]], public: Mapping[str, Collection[str]]
    ) -> DeclaredFacts:
        """Return the declared facts about the values of columns, by column.

        Args:
            private, public: The stored columns of each table.

        Raises:
            ParameterError: A name matches no column, or several.
        """
        columns = NamedColumns(private, public)
        keys = {columns.find("--keys", name): tuple(some) for name, some in self.keys.items()}
        bounds = {columns.find("--bounds", name): both for name, both in self.bounds.items()}
        if len(keys) < len(self.keys) or len(bounds) < len(self.bounds):
            raise ParameterError(
                "two declarations are about one column", "say a column's keys or bounds once"
            )
        owned = frozenset(columns.find("--keys", name) for name in self.ids)
        of = self.budget_column and columns.find("--budget-column", self.budget_column)
        return DeclaredFacts(keys, bounds, owned, of or None)

    def shared(self) -> list[str]:
        """Return the columns that every table about people has: the user and the time."""
        times = {self.time_of(table) for table in self.sources} - {""}
        return [*self.chains().user_columns(), *times]

    def time_of(self, table: str) -> str:
        """Return the time column of a table; "": the first column of dates or times."""
        return time_of(self.time, table, (*self.sources, *self.public))

    def chains(self) -> KeyChains:
        """Return the links from the rows of each table to people; raises `ParameterError`."""
        if self.users is not None:
            return KeyChains(self.users, {}, {})
        return KeyChains.of(self.user, self.links, self.sources, self.public)

    def settings(self) -> dict[str, Any]:
        """Return the settings for the store's file, with a unique number for the store."""
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
        """Return a person's budget over all windows, in ledger units, rounded down."""
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
        StoreError: The path exists already.
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
    """Create a population's file: accounts, and no tables to query.

    Args:
        path: Path of the file.
        budget: The budget of each person for all stores together.
        marks: The place of its high-water mark and of its stores' marks.

    Raises:
        StoreError: The path exists already.
    """
    check_free(path)
    with (
        private_folder(path) as folder,
        told_where_not_written(f"there is no population at {path}"),
    ):
        working = folder / "population"
        connection = connect(working, locked=True)
        try:
            connection.execute(SCHEMAS + FACTS + TABLES + curator_log.TABLE)
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
    """Start the high-water mark of a new file in a folder or at an address."""
    store = Storage(connection).get("settings")["store"]
    mark = mark_at(f"{folder}/{store}.mark")
    store_facts.put(connection, PLACE, mark.place)
    StoreSession(connection, None, store).keep_mark(mark)
    mark.release()


def _fill(connection: duckdb.DuckDBPyConnection, made: Declaration) -> None:
    """Write a new store's tables."""
    connection.execute(SCHEMAS + FACTS + TABLES + curator_log.TABLE)
    storage = Storage(connection, held_bytes=held_bytes())
    storage.put("settings", made.settings())
    row_keys = _row_keys(made.row_key, made.sources)
    public = _opened_public(made)
    chains, loaded = made.chains(), dict[str, Table]()
    elsewhere = declared_links({**made.sources, **made.public}, made.read_as)
    check_declared(chains, elsewhere, made.public, made.really_public)
    opened = {
        name: IncomingRows(
            made.sources[name], declared=made.read_as.of(name), user=chains.users[name]
        )
        for name in chains.order()
    }
    with ExitStack() as closing:
        for rows in (*opened.values(), *public.values()):
            closing.callback(rows.close)
        for name, rows in opened.items():
            rows.check_people(
                name, made.time_of(name), linked=name in chains.links and not chains.users[name]
            )
        facts = made.facts(
            {name: rows.usable() for name, rows in opened.items()},
            {name: rows.usable() for name, rows in public.items()},
        )
        schemas = {name: rows.schema for name, rows in (opened | public).items()}
        check_named(schemas, made.read_as, made.public, made.shared())
        for name, rows in opened.items():
            loaded[name] = _load_private(
                storage, made, facts, chains, loaded, name, rows, row_keys.get(name, ())
            )
        tables = [loaded[name] for name in made.sources]
        tables += [storage.create_public(name, rows) for name, rows in public.items()]
    catalog = Catalog(())
    for table in tables:
        declared = declare(table, facts.keys, facts.bounds, facts.owned)
        catalog = catalog.with_table(declared)
    storage.put("catalog", catalog.to_dict())
    storage.put(FACTS_OF_COLUMNS, True)
    for table in catalog.private:
        Outside().tell(connection, table)


def _opened_public(made: Declaration) -> dict[str, IncomingRows]:
    """Return the public tables' sources, unread; refuse tables that contain users."""
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
    facts: DeclaredFacts,
    chains: KeyChains,
    loaded: Mapping[str, Table],
    name: str,
    rows: IncomingRows,
    row_key: Sequence[str],
) -> Table:
    """Load a private table and return it."""
    files = FilesSeen(storage, name, rows)
    if not made.again and not row_key:
        files.check(new=True)
    types = rows.usable()
    actual = {n.lower(): n for n in types}
    above = chains.links.get(name)
    parent = loaded[above.parent] if above else None
    link = chains.link_of(name, types, parent.in_files if parent else {})
    below = chains.below(name, types)
    user = chains.user_name(name, types) if parent else actual[rows.user.lower()]
    if parent is not None:
        types[user] = parent.column(parent.user).type
    check_bounds(facts, name, link, below)
    column = budget_column_of(made, facts, name, rows.user, link)
    if column:
        types.pop(column)
    said_time = made.time_of(name)
    time = actual[said_time.lower()] if said_time else ""
    said = rows.schema
    table = storage.create_private(
        name, types, user, time, row_key, link, said.not_null, said.zoned
    )
    if made.read_as.window:
        table = replace(table, window=_window(made, time, types[time], row_key))
    storage.identify_users(name, types[user])
    storage.keep_schema(name, rows.schema)
    units = budget_units(made.budget.norm_budget) if made.population is None else 0
    storage.load(table, rows, units, column, True, below)
    files.keep()
    return table


def check_bounds(
    facts: DeclaredFacts, table: str, link: KeyLink | None, below: Sequence[Sequence[str]]
) -> None:
    """Check that no column that identifies people has bounds: clamping would change the person.

    Raises:
        ParameterError: Such a column has bounds.
    """
    keys = [*(link.columns if link else ()), *(name for names in below for name in names)]
    for name in keys:
        if ColumnId(table, name) in facts.bounds:
            raise ParameterError(
                f"{name} of {table} leads to people, and has no bounds",
                "a key that is cut to bounds would be another one: leave them out",
            )


def budget_column_of(
    made: Declaration, facts: DeclaredFacts, table: str, user: str, link: KeyLink | None
) -> str:
    """Return the column of a table with people's own budgets; "" if it has none.

    Raises:
        ParameterError: The column has another meaning too, or the table does not identify its
            users.
    """
    if facts.budget is None or facts.budget.table != table:
        return ""
    column = facts.budget.name
    if link is not None:
        raise ParameterError(
            f"{column} of {table} can't say a person's own budget: a link says whose the row is",
            "--budget-column is a column of a table that has the user column",
        )
    if column.lower() in (user.lower(), made.time_of(table).lower()):
        raise ParameterError(
            f"{column} can't say both a person's own budget and whom a row is about, or when",
            "--budget-column is a column of its own",
        )
    return column


def _window(made: Declaration, time: str, type: str, row_key: Sequence[str]) -> AccountWindow:
    read_as = made.read_as
    if type not in ("DATE", "TIMESTAMP"):
        raise ParameterError(
            f"{time} is {type}: it says no {read_as.window}",
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
