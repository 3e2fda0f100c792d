"""Creating a store's file: it appears whole or not at all."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from sparseq.accounting import Budget, budget_units
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.base.whole_files import private_folder
from sparseq.engine._duckdb.connection import connected
from sparseq.engine._duckdb.storage import FACTS, SCHEMAS, Storage
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.journal import TABLES
from sparseq.ledger._duckdb.notes import told_where_not_written
from sparseq.ledger.purposes import Purpose, kept
from sparseq.load._duckdb.load_tables import Outside
from sparseq.load.content_hashes import FilesSeen
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations, check_named
from sparseq.sql.catalog import AccountWindow, Bound, Catalog, Table, declared
from sparseq.store._duckdb.file_backend import (
    FORMAT,
    FORMAT_WITH_KEYS,
    DuckBackend,
    held_bytes,
    loading_bytes,
    machine_memory,
)
from sparseq.store._duckdb.open_file import check_free, publish


@dataclass(frozen=True)
class Declaration:
    """The rows that a store is made of, and its curator's declarations: see `sparseq.create`.

    Attributes:
        coded: Of each table, the columns whose strings have codes; None: its rows decide.
        lifetime_kappa: Of all windows of a person together; None: there is no such cap.
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

    def settings(self) -> dict[str, Any]:
        """Return what the store's file has of it, with a number for the store."""
        return {
            "format": FORMAT_WITH_KEYS if self.budget.keys_delta else FORMAT,
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
        }

    def _lifetime(self) -> int | None:
        """Return what a person may spend over all windows, in ledger units, rounded down."""
        if self.lifetime_kappa is None:
            return None
        share = Fraction(self.lifetime_kappa) / Fraction(self.budget.kappa)
        return math.floor(share * budget_units(self.budget.norm_budget))


def in_memory(declaration: Declaration) -> DuckBackend:
    """Return a new store without a file."""
    connection = connected(locked=True)
    _fill(connection, declaration)
    return DuckBackend(connection, None, machine_memory() // 4)


def create_file(path: Path, declaration: Declaration) -> None:
    """Create a store's file.

    Raises:
        StoreError: Something is there already.
        DataError, ParameterError: See `sparseq.create`.
    """
    check_free(path)
    with private_folder(path) as folder, told_where_not_written(f"there is no store at {path}"):
        working = folder / "store"
        connection = connected(working, locked=True, memory=loading_bytes())
        try:
            _fill(connection, declaration)
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        publish(working, path)


def _fill(connection: duckdb.DuckDBPyConnection, made: Declaration) -> None:
    """Write a new store's tables."""
    connection.execute(SCHEMAS + FACTS + TABLES + notes.TABLE)
    storage = Storage(connection, held_bytes=held_bytes())
    storage.put("settings", made.settings())
    row_keys = _row_keys(made.row_key, made.sources)
    public = _opened_public(made)
    tables, budgets = list[Table](), False
    for name, source in made.sources.items():
        table, has_budgets = _load_private(storage, made, name, source, row_keys.get(name, ()))
        tables.append(table)
        budgets |= has_budgets
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
        catalog = catalog.with_table(declared(table, keys, dict(made.bounds), made.ids))
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
            opened[name].check_public(name, made.user)
    return opened


def _load_private(
    storage: Storage, made: Declaration, name: str, source: Any, row_key: Sequence[str]
) -> tuple[Table, bool]:
    """Return a table that was loaded, and whether it says budgets of people."""
    rows = IncomingRows(source, declared=made.read_as.of(name), user=made.user)
    try:
        files = FilesSeen(storage, name, rows)
        if not made.again and not row_key:
            files.check(new=True)
        types = rows.usable()
        actual = {n.lower(): n for n in types}
        rows.check_people(name, made.time)
        user = actual[rows.user.lower()]
        column = actual.get(made.budget_column.lower(), "") if made.budget_column else ""
        if column and column.lower() in (rows.user.lower(), made.time.lower()):
            raise ParameterError(
                f"{column} can't say both a person's own budget and whom a row is about, or when",
                "--budget-column is a column of its own",
            )
        if column:
            types.pop(column)
        time = actual[made.time.lower()] if made.time else ""
        table = storage.create_private(name, types, user, time, row_key)
        if made.read_as.window:
            table = replace(table, window=_window(made, types[time], row_key))
        storage.identify_users(name, types[user])
        storage.keep_schema(name, rows.schema)
        units = budget_units(made.budget.norm_budget)
        coded = None if made.coded is None else made.coded[name]
        table, _ = storage.load(table, rows, units, column, new=True, coded=coded)
        files.keep()
        return table, bool(column)
    finally:
        rows.close()


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
