"""Making a store, and opening one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sparseq.accounting import Budget
from sparseq.address import backend_at, lake_folder
from sparseq.arguments import checked
from sparseq.engine.files.found import table_name
from sparseq.engine.files.schema import NULLS, Declarations, schemas_of
from sparseq.errors import DataError, ParameterError
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.purposes import Purpose, made
from sparseq.query.catalog import WINDOWS, Bound
from sparseq.query.limits import check_most
from sparseq.store import Store
from sparseq.stream.course import norm_budget_for, tau_for

if TYPE_CHECKING:
    from sparseq.cluster.fleets import Fleet
    from sparseq.remote import Remote


@checked
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
    keys_delta: float = 0.0,
    norm_budget: float | None = None,
    time: str = "",
    keys: Mapping[str, Sequence[Any]] | None = None,
    bounds: Mapping[str, tuple[Bound, Bound]] | None = None,
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]] = (),
    budget_column: str = "",
    halt: bool = False,
    in_or_out: bool = False,
    answers: int | None = None,
    least_budget: float | None = None,
    reserves: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    multiline: bool = False,
    nulls: Sequence[str] | None = None,
    encoding: str = "",
    most: Mapping[str, int] | None = None,
    schema: Mapping[str, Any] | None = None,
    again: bool = False,
    window: str | None = None,
    lifetime_kappa: float | None = None,
    seed: int | None = None,
    buckets: int | None = None,
    purposes: Sequence[Purpose] = (),
) -> Store:
    """Create a store from events, and return it open. The file appears whole, or not at all.

    Args:
        path: Of the store's file; None keeps it in memory; lake://FOLDER makes a lake.
        source: Rows for one private table. A place or several: a file (Parquet, CSV, JSON, Arrow,
            a workbook), a folder, a pattern, `FILE#TABLE` of SQLite or DuckDB, `delta:FOLDER`, `postgresql://…`
            with `#TABLE` or `#SELECT …`. Or a table in memory: Arrow's tables, datasets and
            streams, frames of Polars and pandas, anything with `__arrow_c_stream__`.
        user: The column that says whom a row is about, the same in every private table; or several,
            as `"shop,customer"`, which together do (see `sparseq.engine.files.composite`).
        table: Name of that table; by default the first file's.
        tables: More private tables, name to source.
        public: Tables that are not about people.
        kappa: zCDP level of everything ever released (0.5 if nothing is said), or
        epsilon, delta: the same, converted by way of mu-GDP (with a watch, of zCDP).
        keys_delta: What privately found keys may fail with, 0: none (see `sparseq.keys`): all that
            is promised is then keys_delta-approximate. With epsilon and delta it is a part of
            delta, at most a tenth.
        norm_budget: B_norm, squared norm that each user can contribute; sigma_0² = B / (2 kappa).
            By default what so many answers take; with `in_or_out` or `halt` 20.
        answers: About how many mixed questions are to be answered well (60). More of them mean
            more noise in each; past them intervals widen.
        time: The column that most queries select by; by default the first date or timestamp.
        keys: Column to its public values, a domain to group by.
        bounds: Column to its public (low, high), to which its values are cut as they come in, and
            from which sums have a scale; of dates and times two days, ("2024-01-01",
            "2024-12-31"), a domain to group by.
        row_key: Column or columns that, with the user, say which row is meant: a row that arrives
            later replaces the one of the same user and key. Of several private tables: each
            table's columns by its name.
        budget_column: Column with a user's own norm_budget, at most the store's; it must not
            depend on the user's data.
        least_budget: With a budget column, the least that anybody has, declared and public.
        in_or_out: Whoever can't pay for a question wholly is left out of it, and scales are
            declared (Algorithm 2 as it stands). By default people are weighted down to what they
            have left and to a scale that pilots choose, and every interval is about everybody.
        halt: In or out; and once a user would have overdrawn, the user stays out (Corollary 4.7's
            S_t).
        reserves: Shares of every budget that are set aside: "watch" for estimates of how many
            users have been dropped (its alarm is no Gaussian, so only zCDP is then claimed),
            "forecast" for what they would still have contributed.
        types: Column to its type, or to `TYPE:FORMAT` where its texts are written in a way of their
            own: `"DATE:%d/%m/%Y"`, `"DOUBLE:,"`. Types of other columns are guessed, from the first
            rows, and fixed from then on (see `sparseq.engine.files.schema`).
        schema: All columns of the table with their types, as in `types`; or a mapping for each
            table, by its name. Other columns are not stored, and a file that lacks one of these is
            refused.
        multiline: In text files, values between quotes may have several lines. One odd quote can
            then change how the lines after it are read: only for files that are known to be well.
        nulls: Values of text files that are NULL, in every column, beside the empty one: "NULL" and
            "\\N" if nothing is said. Nobody is called so either.
        encoding: Of text files, one with a byte a character, such as "latin-1"; "": UTF-8. A value
            that can't be decoded is NULL.
        most: Limits by name; docs/limits.md has them all. "work", for one, is how many row
            combinations a person may have in a join (20,000,000): whose rows make more is left out
            of that join, and pays nothing (see `sparseq.query.work`).
        again: Files may have the same contents; else a file that is there twice is refused, but for
            tables with a row key.
        window: "day", "week", "month", "quarter" or "year": an account is for a person's rows of
            one such window of `time`, which must be given. The guarantee is for each window of a
            person, and of n windows of one together n² times kappa, or n times (see
            docs/theorems/windows.md). The user is then the column USER_WINDOW.
        lifetime_kappa: With `window`, the level of all windows of a person together, kept by an
            account of the person beside those of the windows. Windows are then in or out.
        seed: For tests and simulations only: repeatable noise, no privacy; every answer says so.
        purposes: Series that have a part of every budget for themselves: whatever is asked beside
            them, they go on, and the other way round (see `sparseq.Purpose`).
        buckets: Of a lake: how many small stores people lie in, 5 to 20 million rows each. It
            stays.

    Raises:
        ParameterError: A number is out of range, or a declaration is about no column.
        DataError: A file can't be read or does not fit.
        StoreError: The path exists already.
    """
    from sparseq._duckdb.creating import Declaration, create_file, in_memory

    shares, limits = _reserves(reserves or {}), check_most(most)
    weighted = not (in_or_out or halt or lifetime_kappa is not None)
    if norm_budget is None:
        norm_budget = norm_budget_for(60 if answers is None else answers) if weighted else 20.0
    elif answers is not None:
        raise ParameterError("answers and norm_budget say the same thing; give one of them")
    budget = _budget(
        kappa, epsilon, delta, norm_budget, gaussian="watch" not in shares, keys_delta=keys_delta
    )
    weights = _weights(budget, budget_column, least_budget) if weighted else None
    least = 0.0 if budget_column else None
    if weights is not None and budget_column:
        least = weights["least"]
    parts = made(purposes, budget, sum(shares.values()), least)
    sources = _sources(source, table, tables)
    if window is not None and keys_delta:
        raise ParameterError("a store with windows finds no keys", "leave keys_delta out")
    if window is not None and (window not in WINDOWS or not time):
        raise ParameterError(
            f"window is {window!r}, by the column {time!r}",
            f'one of {", ".join(WINDOWS)}, with the column that says when: time="date"',
        )
    _check_lifetime(lifetime_kappa, budget, window, halt or bool(shares) or bool(parts))
    read_as = Declarations(
        types or {}, multiline, schemas_of(schema or {}), window=window or "", time=time,
        nulls=NULLS if nulls is None else tuple(nulls), bounds=bounds or {},
        encoding=encoding,
    )  # fmt: skip
    declaration = Declaration(
        sources, public or {}, budget, user, time, keys or {}, bounds or {}, row_key,
        budget_column, halt, weights, shares, limits, read_as, seed, again,
        purposes=parts, lifetime_kappa=lifetime_kappa,
    )  # fmt: skip
    folder = lake_folder(path)
    if (buckets is None) != (folder is None):
        raise ParameterError("a lake has a number of buckets, and its address begins with lake://")
    if folder is not None and buckets is not None:
        from sparseq.cluster.lake import create_lake

        if keys_delta:
            raise ParameterError("a lake finds no keys", "leave --keys-delta out, or make one file")
        if window is not None:
            raise ParameterError("a lake has no windows", "leave --window out, or make one file")
        create_lake(folder, declaration, buckets)
        return connect(folder)
    if path is None:
        return Store(in_memory(declaration))
    create_file(Path(path), declaration)
    return connect(path)


@overload
def connect(
    path: str | Path,
    *,
    cache_bytes: int | None = None,
    accept_loss: bool = False,
    fleet: Fleet | None = None,
) -> Store: ...


@overload
def connect(path: str, *, token: str) -> Remote: ...


@checked
def connect(
    path: str | Path,
    *,
    cache_bytes: int | None = None,
    accept_loss: bool = False,
    token: str | None = None,
    fleet: Fleet | None = None,
) -> Store | Remote:
    """Open a store, or connect to a server that has one.

    Args:
        path: Of the store's file; or a server's address, https://… (see `sparseq.remote`); or of a
            lake, lake://FOLDER.
        cache_bytes: Memory for decoded columns; by default a quarter of what SPARSEQ_MEMORY
            says, or of the machine's.
        accept_loss: Open it even if a part of it is missing, and charges with it. The guarantee
            then has a hole, and the store says so for ever (`Store.losses`).
        token: For a server; by default the one in the environment's SPARSEQ_TOKEN.
        fleet: Of a lake: does its tasks, such as `sparseq.cluster.spark.SparkFleet`. By default
            processes of this machine do, or this one alone where there are few rows.

    Raises:
        StoreError: There is no store at the path, it is damaged, or a part of it is missing; the
            message says which, and no file has been changed.
        StoreInUse: Another process, or this one, has it open.
    """
    if isinstance(path, str) and path.startswith(("https://", "http://")):
        from sparseq.remote import Remote

        return Remote(path, token)
    if token is not None:
        raise ParameterError("a token is for a server", "its address begins with https://")
    return Store(backend_at(path, cache_bytes, accept_loss, fleet))


def _weights(budget: Budget, budget_column: str, least_budget: float | None) -> dict[str, float]:
    """Return the settings of weighted answers."""
    least = (0.0 if least_budget is None else least_budget) if budget_column else budget.norm_budget
    return {"tau": tau_for(budget.norm_budget), "least": min(least, budget.norm_budget)}


def _check_lifetime(kappa: float | None, budget: Budget, window: str | None, aside: bool) -> None:
    if kappa is None:
        return
    if window is None:
        raise ParameterError("lifetime_kappa is for a store with windows", 'window="month"')
    if aside:
        raise ParameterError(
            "a store with lifetime_kappa has neither halt nor reserves",
            "an account of all windows is for queries alone; leave these out",
        )
    if not budget.kappa <= kappa <= 1000 * budget.kappa:
        raise ParameterError(
            f"lifetime_kappa is {kappa:g}", f"between kappa, {budget.kappa:g}, and 1,000 times that"
        )


def _budget(
    kappa: float | None,
    epsilon: float | None,
    delta: float | None,
    norm_budget: float,
    gaussian: bool,
    keys_delta: float,
) -> Budget:
    if epsilon is None and delta is None:
        return Budget(0.5 if kappa is None else kappa, norm_budget, gaussian, keys_delta)
    if kappa is not None:
        raise ParameterError("kappa and epsilon, delta say the same thing; give one of them")
    if epsilon is None or delta is None:
        raise ParameterError(
            "epsilon and delta go together", "for example --epsilon 1 --delta 1e-6"
        )
    return Budget.from_epsilon_delta(epsilon, delta, norm_budget, gaussian, keys_delta)


def _sources(source: Any, table: str | None, tables: Mapping[str, Any] | None) -> dict[str, Any]:
    sources = dict(tables or {})
    if source is not None:
        paths = [source] if isinstance(source, (str, Path)) else source
        if table is None and isinstance(paths, (list, tuple)) and paths:
            table = table_name(paths[0])
        sources[table or "events"] = source
    if not sources:
        raise DataError("a store needs rows about people", "give a file")
    return sources


def _reserves(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the shares set aside, by name, those of nothing left out."""
    known = [pot.name.lower() for pot in (Pot.WATCH, Pot.FORECAST)]
    for name in shares:
        if name not in known:
            raise ParameterError(f"nothing is set aside for {name!r}", f"one of {', '.join(known)}")
    Pots(np.zeros(0, np.int64), {Pot[name.upper()]: share for name, share in shares.items()})
    return {name: float(share) for name, share in shares.items() if share > 0}
