"""Making a store, and opening one: files appear whole or not at all, and have one owner."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sparseq.accounting import Budget, budget_units
from sparseq.engine._duckdb.connection import connected
from sparseq.engine._duckdb.storage import SCHEMAS, Storage
from sparseq.engine.files.load import Rows
from sparseq.engine.files.schema import Declared
from sparseq.errors import DataError, ParameterError, SparseqError, StoreError
from sparseq.ledger._duckdb import curator_log
from sparseq.ledger._duckdb.journal import TABLES
from sparseq.ledger.pots import Pot, Pots
from sparseq.opening import check_free, damaged, hold, open_database, open_whole, publish
from sparseq.query.catalog import Catalog, Table, declared, did_you_mean
from sparseq.query.work import check_most
from sparseq.store import FORMAT, UPGRADED_FROM, Store

_LEAST_MB, _MB_A_CORE, _BYTES_A_PERSON = 512, 128, 256
"""What DuckDB may hold of an open store: pages of the file, which else it keeps for as long as
there is memory; what a query needs, which beyond this goes to `STORE.tmp`; and what can't go there,
the charges of a release (about 2 bytes a person) and those read when a store is opened."""


def create(
    path: str | Path | None,
    source: Any = None,
    *,
    user: str,
    table: str | None = None,
    tables: Mapping[str, Any] | None = None,
    public: Mapping[str, Any] | None = None,
    kappa: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    norm_budget: float = 20.0,
    time: str = "",
    keys: Mapping[str, Sequence[Any]] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]] = (),
    budget_column: str = "",
    halt: bool = False,
    reserves: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    multiline: bool = False,
    most: Mapping[str, int] | None = None,
    seed: int | None = None,
) -> Store:
    """Create a store from events, and return it open. The file appears whole, or not at all.

    Args:
        path: Of the store's file; None keeps it in memory.
        source: Files (Parquet, CSV, JSON Lines, Arrow) or an Arrow table, for one private table.
        user: The column that says whom a row is about, the same in every private table.
        table: Name of that table; by default the first file's.
        tables: More private tables, name to files or Arrow table.
        public: Tables that are not about people.
        kappa: zCDP level of everything ever released (0.5 if nothing is said), or
        epsilon, delta: the same, converted by way of mu-GDP (with a watch, of zCDP).
        norm_budget: B_norm, squared norm that each user can contribute; sigma_0² = B / (2 kappa).
        time: The column that most queries select by; by default the first date or timestamp.
        keys: Column to its public values, a domain to group by.
        bounds: Column to its public (low, high), for the scale of sums.
        row_key: Column or columns that, with the user, say which row is meant: a row that arrives
            later replaces the one of the same user and key. Of several private tables: each
            table's columns by its name.
        budget_column: Column with a user's own norm_budget, at most the store's; it must not
            depend on the user's data.
        halt: Once a user would have overdrawn, the user stays out (Corollary 4.7's S_t).
        reserves: Shares of every budget that are set aside: "watch" for estimates of how many
            users have been dropped (its alarm is no Gaussian, so only zCDP is then claimed),
            "forecast" for what they would still have contributed.
        types: Column to its type, or to `TYPE:FORMAT` where its texts are written in a way of their
            own: `"DATE:%d/%m/%Y"`, `"DOUBLE:,"`. Types of other columns are guessed, from the first
            rows, and fixed from then on (see `sparseq.engine.files.schema`).
        multiline: In text files, values between quotes may have several lines. One odd quote can
            then change how the lines after it are read: only for files that are known to be well.
        most: Limits on one person: "work", row combinations in a join (20,000,000); whose rows make
            more is left out of that join, and pays nothing (see `sparseq.query.work`).
        seed: For tests and simulations only: repeatable noise, no privacy; every answer says so.

    Raises:
        ParameterError: A number is out of range, or a declaration is about no column.
        DataError: A file can't be read or does not fit.
        StoreError: The path exists already.
    """
    shares, limits = _reserves(reserves or {}), check_most(most)
    budget = _budget(kappa, epsilon, delta, norm_budget, gaussian="watch" not in shares)
    sources = _sources(source, table, tables)
    read_as = Declared(types or {}, multiline)
    if path is None:
        connection = connected(locked=True)
        _fill(connection, budget, sources, public or {}, user, time, keys or {}, bounds or {},
              row_key, budget_column, halt, shares, limits, read_as, seed)  # fmt: skip
        return Store(connection, None, _memory() // 4)
    path = Path(path)
    check_free(path)
    working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    working.unlink(missing_ok=True)  # of a process of the same number that was killed
    try:
        connection = connected(working, locked=True)
        try:
            _fill(connection, budget, sources, public or {}, user, time, keys or {}, bounds or {},
                  row_key, budget_column, halt, shares, limits, read_as, seed)  # fmt: skip
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        publish(working, path)
    finally:
        for leftover in (working, Path(f"{working}.wal")):
            leftover.unlink(missing_ok=True)
    return connect(path)


def _budget(
    kappa: float | None,
    epsilon: float | None,
    delta: float | None,
    norm_budget: float,
    gaussian: bool,
) -> Budget:
    if epsilon is None and delta is None:
        return Budget(0.5 if kappa is None else kappa, norm_budget, gaussian)
    if kappa is not None:
        raise ParameterError("kappa and epsilon, delta say the same thing; give one of them")
    if epsilon is None or delta is None:
        raise ParameterError(
            "epsilon and delta go together", "for example --epsilon 1 --delta 1e-6"
        )
    return Budget.from_epsilon_delta(epsilon, delta, norm_budget, gaussian)


def _sources(source: Any, table: str | None, tables: Mapping[str, Any] | None) -> dict[str, Any]:
    sources = dict(tables or {})
    if source is not None:
        paths = [source] if isinstance(source, (str, Path)) else source
        if table is None and isinstance(paths, (list, tuple)) and paths:
            table = re.sub(r"\W", "_", Path(paths[0]).name.split(".")[0])
        sources[table or "events"] = source
    if not sources:
        raise DataError("a store needs rows about people", "give a file")
    return sources


def _reserves(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the shares set aside, by name, those of nothing left out."""
    known = [pot.name.lower() for pot in Pot if pot is not Pot.QUERIES]
    for name in shares:
        if name not in known:
            raise ParameterError(f"nothing is set aside for {name!r}", f"one of {', '.join(known)}")
    Pots(np.zeros(0, np.int64), {Pot[name.upper()]: share for name, share in shares.items()})
    return {name: float(share) for name, share in shares.items() if share > 0}


def _row_keys(
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]], tables: Iterable[str]
) -> dict[str, Sequence[str]]:
    """Return the row key of each table that has one."""
    tables = list(tables)
    if not isinstance(row_key, Mapping):
        columns = [row_key] if isinstance(row_key, str) else list(row_key)
        if columns and len(tables) > 1:
            raise ParameterError(
                f"which table has the row key {', '.join(columns)}?", f"one of {', '.join(tables)}"
            )
        return dict.fromkeys(tables, columns)
    for name in row_key:
        if name not in tables:
            raise ParameterError(f"no private table is called {name!r}", did_you_mean(name, tables))
    return {t: [c] if isinstance(c, str) else c for t, c in row_key.items()}


def _fill(
    connection: duckdb.DuckDBPyConnection,
    budget: Budget,
    sources: Mapping[str, Any],
    public: Mapping[str, Any],
    user: str,
    time: str,
    keys: Mapping[str, Sequence[Any]],
    bounds: Mapping[str, tuple[float, float]],
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]],
    budget_column: str,
    halt: bool,
    reserves: Mapping[str, float],
    most: Mapping[str, int],
    read_as: Declared,
    seed: int | None,
) -> None:
    """Write a new store's tables."""
    connection.execute(SCHEMAS + TABLES + curator_log.TABLE)
    storage = Storage(connection)
    settings = {
        "format": FORMAT,
        "store": secrets.token_hex(16),
        "kappa": budget.kappa,
        "norm_budget": budget.norm_budget,
        "halt": halt,
        "reserves": dict(reserves),
        "most": dict(most),
        "seed": seed,
        "budget_column": budget_column,
    }
    storage.put("settings", settings)
    catalog = Catalog(())
    row_keys = _row_keys(row_key, sources)
    for name, source in sources.items():
        catalog = catalog.with_table(
            _load_private(
                storage,
                name,
                source,
                user,
                time,
                row_keys.get(name, ()),
                budget,
                budget_column,
                read_as,
            )
        )
    for name, source in public.items():
        rows = Rows(source, declared=read_as)
        catalog = catalog.with_table(storage.create_public(name, rows))
        rows.close()
    catalog = Catalog(
        tuple(
            declared(t, {k: tuple(v) for k, v in keys.items()}, dict(bounds))
            for t in catalog.tables
        )
    )
    known = {c.name.lower() for t in catalog.tables for c in t.columns}
    for name in (*keys, *bounds, *read_as.types):
        if name.lower() not in known | {budget_column.lower()}:
            raise ParameterError(
                f"no table has a column {name!r}", "check --keys, --bounds and --type"
            )
    storage.put("catalog", catalog.to_dict())


def _load_private(
    storage: Storage,
    name: str,
    source: Any,
    user: str,
    time: str,
    row_key: Sequence[str],
    budget: Budget,
    budget_column: str,
    read_as: Declared,
) -> Table:
    rows = Rows(source, declared=read_as, user=user)
    try:
        types = rows.usable()
        actual = {n.lower(): n for n in types}
        if user.lower() not in actual:
            raise DataError(
                f"{name} has no column {user!r}; it has {', '.join(types)}",
                "--user names the column that says whom a row is about",
            )
        user = actual[user.lower()]
        column = actual.get(budget_column.lower(), "") if budget_column else ""
        if column:
            types.pop(column)
        if time and time.lower() not in actual:
            raise DataError(f"{name} has no column {time!r}; it has {', '.join(types)}")
        time = actual[time.lower()] if time else ""
        table = storage.create_private(name, types, user, time, row_key)
        storage.identify_users(name, types[user])
        storage.keep_schema(name, rows.schema)
        units = budget_units(budget.norm_budget)
        table, _ = storage.load(table, rows, units, column, new=True)
        return table
    finally:
        rows.close()


def connect(
    path: str | Path, *, cache_bytes: int | None = None, accept_loss: bool = False
) -> Store:
    """Open a store.

    Args:
        path: Of the store's file.
        cache_bytes: Memory for decoded columns; by default a quarter of the machine's.
        accept_loss: Open it even if a part of it is missing, and charges with it. The guarantee
            then has a hole, and the store says so for ever (`Store.losses`).

    Raises:
        StoreError: There is no store at the path, it is damaged, or a part of it is missing; the
            message says which, and no file has been changed.
        StoreInUse: Another process, or this one, has it open.
    """
    path = Path(path)
    held = hold(path)
    try:
        connection, session = open_whole(
            path.resolve(), lambda opened: _check(opened, path), accept_loss
        )
        try:
            _set_up(connection, path)
            return Store(
                connection,
                path,
                _memory() // 4 if cache_bytes is None else cache_bytes,
                held.release,
                session,
                lambda: _set_up(open_database(path.resolve()), path),
            )
        except BaseException as error:
            connection.close()
            session.release()
            if isinstance(error, SparseqError) or not isinstance(error, Exception):
                raise
            raise damaged(path, error) from error
    except BaseException:
        held.release()
        raise


def _check(connection: duckdb.DuckDBPyConnection, path: Path) -> str:
    """Check that there is a store of this version's format; return which store it is."""
    tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
    if not {("main", "meta"), ("ledger", "users"), ("ledger", "snapshot")} <= set(tables):
        raise StoreError(f"{path} is no store", "`sparseq create` makes one")
    settings = Storage(connection).get("settings")
    if settings is None or settings["format"] != FORMAT:
        older = settings is not None and settings["format"] in UPGRADED_FROM
        raise StoreError(
            f"{path} is not a store that this version of sparseq reads",
            f"`sparseq upgrade {path}` makes it one, and changes no charge and no answer"
            if older
            else "open it with the version that made it",
        )
    return str(settings["store"])


def _set_up(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyConnection:
    """Tidy up after a process that was killed, say how much memory DuckDB may have."""
    for leftover in Path(f"{path}.tmp").glob("duckdb_temp_*"):  # private, of a process killed
        leftover.unlink(missing_ok=True)
    _limit_memory(connection)
    connection.execute("SET lock_configuration = true")
    return connection


def _limit_memory(connection: duckdb.DuckDBPyConnection) -> None:
    ((people,),) = connection.execute("SELECT count(*) FROM ledger.users").fetchall()
    cores = os.cpu_count() or 1
    most = max(_LEAST_MB, _MB_A_CORE * cores, (_BYTES_A_PERSON * people) >> 20)
    connection.execute(f"SET memory_limit = '{min(most, (_memory() * 3 // 4) >> 20)}MiB'")


def _memory() -> int:
    """Return the machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 32
