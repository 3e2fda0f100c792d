"""Functions that create and open a store."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sparseq.accounting import Budget
from sparseq.accounting._numbers import in_range
from sparseq.base.arguments import check_arguments
from sparseq.base.defaults import ANSWERS, COUNTS, KAPPA
from sparseq.base.errors import DataError, ParameterError, did_you_mean
from sparseq.ledger.purposes import Purpose, made
from sparseq.ledger.question_settings import Questions, told_apart
from sparseq.load.file_patterns import table_name
from sparseq.load.named_columns import NamedColumns, time_of
from sparseq.load.read_schema import Declarations, order_of_dates, text_files, types_apart
from sparseq.question.catalog import OWN, WINDOWS, Bound
from sparseq.question.limits import check_most
from sparseq.store.address import address, kind_at
from sparseq.store.found_bounds import Bounds
from sparseq.store.open_address import backend_at
from sparseq.store.store import Store
from sparseq.store.store_promise import checked_least
from sparseq.stream.full_weight import norm_budget_for, tau_for

if TYPE_CHECKING:
    from sparseq.store.remote import Remote


@check_arguments
def create(
    path: str | Path | None,
    source: Any,
    *,
    user: str,
    public: Mapping[str, Any] | None = None,
    really_public: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
    kappa: float | None = None,
    epsilon: tuple[float, float] | None = None,
    purposes: Sequence[Purpose | Questions] = (),
    time: str = "",
    window: str | tuple[str, float] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    bounds: Mapping[str, tuple[Bound, Bound]] | None = None,
    row_key: str | Sequence[str] | Mapping[str, Sequence[str]] = (),
    budget_column: str | tuple[str, float] = "",
    types: Mapping[str, Any] | None = None,
    csv: Mapping[str, Any] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    dates: str | Mapping[str, str] = "",
    most: Mapping[str, int] | None = None,
    least_people: int = 0,
    find_bounds: Sequence[str] | None = (),
    buckets: int | None = None,
    population: str | Path | tuple[str | Path, float] | None = None,
    seed: int | None = None,
) -> Store:
    """Create a store from events, and return it open. The file appears whole or not at all.

    Columns are named as `"COL"`, or as `"TABLE.COL"` where several tables have a column of that
    name: in keys, bounds, types, rename, drop, dates, find_bounds and budget_column. Bounds and
    keys are of private tables; a public table's own values are used.

    Args:
        path: Path of the store's file; None keeps it in memory; lake://FOLDER makes a lake.
        source: Rows of private tables, by their names, `{"visits": rows}`; or of one table, named
            after the first file. Rows are one source or several: a file (Parquet, CSV, JSON, Arrow,
            a workbook), a folder, a pattern, `FILE#TABLE` of SQLite or DuckDB, `delta:FOLDER`,
            `postgresql://…` with `#TABLE` or `#SELECT …`. Or a table in memory: Arrow's tables,
            datasets and streams, frames of Polars and pandas, anything with `__arrow_c_stream__`.
        user: The column that identifies the user of a row, the same in every private table without
            a link; or several columns that identify the user together, as `"shop,customer"` (see
            `sparseq.load.composite_identifier`). With links also `"TABLE.COL"`: a column of this
            table alone.
        public: Tables that are not about people, by their names. A public table with the column
            `user` is refused, as its rows would be shown without noise.
        really_public: Names of public tables that may have that column, as everybody may see every
            row.
        links: Columns that link a table's rows to rows of another private table about the same
            person: `{"lineitem.l_orderkey": "orders.o_orderkey"}`, in any number of steps;
            `"a.x,y": "b.u,v"` where several columns form a key. A row whose key is still missing
            waits on disk until it comes (see docs/loading.md).
        kappa: zCDP level of all releases together (default 0.5), or
        epsilon: (epsilon, delta): the same, converted through mu-GDP (with a watch, through zCDP).
        purposes: The purposes of every budget: series with a reserved part, which other questions
            cannot use up and which leaves the rest alone (`sparseq.Purpose`); and the way questions
            are answered from the rest (`sparseq.Questions`).
        time: The column that most queries filter by, in every private table; or `"TABLE.COL"` for
            some tables, separated by commas. By default a table's first date or timestamp.
        window: "day", "week", "month", "quarter" or "year": an account is for a person's rows of
            one such window of `time`, which must be given. The guarantee is for each window of a
            person, and n windows of one person together have n² times kappa, or n times (see
            docs/theorems/windows.md). The user is then the column USER_WINDOW. Or (window, kappa):
            the level of all windows of a person together, too, kept by an account of the person in
            addition to the accounts of the windows.
        keys: Column to its public values, a domain to group by. Or to "@own": each value belongs to
            one person, as with the number of an order, a session or a ticket, so that
            count(DISTINCT order_id) is answered. Like bounds, this is a promise about the meaning
            of answers; privacy does not rest on it. A value that two people have counts for each.
        bounds: Column to its public (low, high), to which its values are clamped on ingest, and
            which give sums their scale; for dates and times two days, ("2024-01-01", "2024-12-31"),
            a domain to group by.
        row_key: Column or columns that, with the user, identify a row: a later row replaces the
            earlier row of the same user and key. For several private tables: each table's columns
            by its name.
        budget_column: Column with a user's own norm_budget, at most the store's; it must not
            depend on the user's data. Or (column, least): with a declared public lower bound of all
            these budgets.
        types: Column to its type, or to `TYPE:FORMAT` where its texts have a special format:
            `"DATE:%d/%m/%Y"`, `"DOUBLE:,"`. Types of other columns are guessed from the first rows
            and then fixed (see `sparseq.load.read_schema`). Or a table to all its columns with
            their types: other columns are not stored, and a file that lacks one of these is
            refused.
        csv: Options for reading text files. "encoding": a single-byte encoding such as "latin-1"; a
            value that can't be decoded is NULL. "skip": the number of title lines before the
            header. "escape": the character before a quote, a separator or itself within a value,
            such as a backslash; without it quotes are doubled. "null": texts that are NULL in every
            column, in addition to the empty text ("NULL" and "\\N" by default); such a text is no
            user identifier either. "multiline": True if values between quotes may have several
            lines; one odd quote can then change the reading of the lines after it.
        rename: New names of columns, by their names in the files. An invalid name, such as "Cost
            (EUR)", is replaced by a valid one.
        drop: Columns of the files that are not stored.
        dates: The order of dates in text whose year is last: "dmy" if the day comes first, "mdy" if
            the month comes first; or a column to its order. By default the first rows decide; the
            file is refused where they fit both.
        most: Limits by name; docs/limits.md lists them all. For example, "work" is the most row
            combinations that a person may have in a join (20,000,000): a person with more is left
            out of that join and pays nothing (see `sparseq.sql.from_clause`).
        least_people: Values about fewer people than this noised count are not shown. It can be
            raised later (`sparseq.store.curator.raise_least_people`), and never lowered.
        find_bounds: Columns of numbers without declared bounds, whose bounds are found at once by a
            noised, charged query (see `sparseq.store.found_bounds`). By default they are found for
            the first sum or average of a column. None: never; sums of such columns are refused.
        buckets: For a lake: the number of small stores that people are spread over, 5 to 20 million
            rows each. It cannot be changed later.
        population: A population, from which the accounts of this store are drawn: see
            `sparseq.create_population`. `kappa`, or `epsilon`, is then the most that the store may
            ever draw from each person's budget there. All of it is drawn at once; or (population,
            share): this share of it, and `Store.draw` draws more.
        seed: For tests and simulations only: repeatable noise, no privacy; every answer says so.

    Raises:
        ParameterError: A number is out of range, a declaration is about no column, or a public
            table contains users.
        DataError: A file can't be read, does not fit, or is given twice for a table without a row
            key.
        StoreError: The path exists already.
    """
    from sparseq.store._duckdb.create_file import Declaration, create_file, in_memory

    for name, values in (keys or {}).items():
        if isinstance(values, str) and values != OWN:
            raise ParameterError(
                f"keys of {name} are {values!r}", f'a list of values, or "{OWN}": see `create`'
            )
    questions, series = told_apart(purposes)
    shares, (budget_of, least) = questions.aside(), _pair("budget_column", budget_column)
    by, lifetime = _pair("window", window or "")
    budget = _budget(kappa, epsilon, questions)
    weights = _weights(budget, budget_of, least) if questions.weighs else None
    link = None
    if population is not None:
        place, share = population if isinstance(population, tuple) else (population, 1.0)
        _check_population(questions, by, budget_of, kappa, epsilon)
        from sparseq.store.store_draws import describe_link

        link = describe_link(place, address(path), budget, share)
        least, weights = 0.0, weights and {"tau": tau_for(budget.norm_budget * share), "least": 0.0}
    if budget_of:
        least = 0.0 if weights is None else weights["least"]
    parts = made(series, budget, sum(shares.values()), least)
    _check_window(by, time, lifetime, budget, questions, parts)
    sources = _sources(source)
    own, whole = types_apart(types or {})
    tables = (*sources, *(public or ()))
    for name in whole:
        if name not in tables:
            raise ParameterError(f"no table is called {name!r}", did_you_mean(name, tables))
    read_as = Declarations(
        own,
        schemas=whole,
        tables=tables,
        window=by,
        time=time,
        bounds=bounds or {},
        rename=rename or {},
        drop=tuple(drop),
        dates=order_of_dates(dates),
        **text_files(csv or {}),
    )
    declaration = Declaration(
        sources,
        public or {},
        tuple(really_public),
        budget,
        user,
        time,
        {name: values for name, values in (keys or {}).items() if values != OWN},
        bounds or {},
        row_key,
        budget_of,
        questions.halt,
        weights,
        shares,
        check_most(most),
        read_as,
        seed,
        False,
        purposes=parts,
        lifetime_kappa=lifetime,
        links=links or {},
        ids=tuple(name for name, values in (keys or {}).items() if values == OWN),
        least_people=checked_least(least_people),
        finds_bounds=find_bounds is not None,
        population=link,
        marks="" if link is None or path is None else link["marks"],
    )
    if by and links:
        raise ParameterError(
            "a store with windows has no links",
            "a row of another table would be of another window; give each table the user column",
        )
    for name in sources if by else ():
        if not time_of(time, name, tables):
            raise ParameterError(
                f"nothing says when a row of {name} is, and a store has windows of it",
                f'time="{time},{name}.COLUMN"',
            )
    located = kind_at(path)
    if (buckets is None) != (located is None):
        raise ParameterError(
            "a lake has a number of buckets, and its address begins with lake://",
            "--buckets 16 for some million people" if located else "leave the buckets out",
        )
    if located is not None and buckets is not None:
        kind, folder = located
        kind.create(folder, declaration, buckets)
        return _open_first(folder, find_bounds)
    if path is None:
        return _with_bounds(_settle(Store(in_memory(declaration))), find_bounds)
    create_file(Path(path), declaration)
    return _open_first(Path(path), find_bounds)


def _open_first(path: Path, columns: Sequence[str] | None) -> Store:
    """Open a new store and find bounds; a store that is refused is removed again."""
    try:
        return _with_bounds(connect(path), columns)
    except ParameterError:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def _with_bounds(store: Store, columns: Sequence[str] | None) -> Store:
    """Find the bounds of columns and return the new store."""
    tables = store.catalog.tables
    named = NamedColumns(
        {t.name: [c.name for c in t.columns] for t in tables if t.private},
        {t.name: [c.name for c in t.columns] for t in tables if not t.private},
    )
    try:
        for column in [named.find("--find-bounds", name) for name in columns or ()]:
            Bounds(store).find(column.table, column.name)
    except ParameterError:
        store.close()
        raise
    return store


@overload
def connect(
    path: str | Path,
    *,
    accept_loss: bool = False,
    fleet: Any = None,
) -> Store: ...


@overload
def connect(path: str, *, token: str) -> Remote: ...


@check_arguments
def connect(
    path: str | Path,
    *,
    accept_loss: bool = False,
    token: str | None = None,
    fleet: Any = None,
) -> Store | Remote:
    """Open a store, or connect to a server with one.

    Args:
        path: Path of the store's file; or a server's address, https://… (see
            `sparseq.store.remote`); or a lake, lake://FOLDER.
        accept_loss: Open the store even if a part is missing, with charges in it. The guarantee
            then has a hole, which the store reports for ever (`Store.losses`). A store of a
            population has no hole: all that it had drawn counts as spent. It then also opens if its
            population is gone; a draw that was begun gives nothing.
        token: For a server; by default the environment's SPARSEQ_TOKEN.
        fleet: For a lake: the workers for its tasks, such as `sparseq.lake.spark_fleet.SparkFleet`.
            By default processes of this machine, or this process alone if there are few rows.

    Raises:
        StoreError: There is no store at the path, it is damaged, or a part is missing; the message
            names it, and no file has been changed.
        StoreInUse: Another process, or this one, has it open.
    """
    if isinstance(path, str) and path.startswith(("https://", "http://")):
        from sparseq.store.remote import Remote

        return Remote(path, token)
    if token is not None:
        raise ParameterError("a token is for a server", "its address begins with https://")
    return _settle(Store(backend_at(path, accept_loss, fleet)), accept_loss)


def _settle(store: Store, without: bool = False) -> Store:
    """Finish the draws of a store from its population, and return the store; see `settle`."""
    if store.backend.settings.get("population") is None:
        return store
    from sparseq.store.store_draws import settle

    try:
        settle(store.stream, store.backend, without)
    except BaseException:
        store.close()
        raise
    return store


def _check_population(
    questions: Questions,
    window: str,
    budget_column: str,
    kappa: float | None,
    epsilon: tuple[float, float] | None,
) -> None:
    if kappa is None and epsilon is None:
        raise ParameterError(
            "a store of a population says the most that it may ever draw",
            "--kappa, or --epsilon: a part of what the population has",
        )
    without = {
        "windows": window,
        "a column of budgets": budget_column,
        "halt": questions.halt,
        "a watch": questions.watch,
        "keys_delta": questions.keys_delta,
    }
    for name, there in without.items():
        if there:
            raise ParameterError(
                f"a store of a population has not {name}",
                "leave it out, or give the store a budget of its own",
            )


def _pair(name: str, given: str | tuple[str, float]) -> tuple[str, float | None]:
    """Return a name and the number given with it."""
    if isinstance(given, str):
        return given, None
    if not (isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str)):
        raise ParameterError(f"{name} is {given!r}", "a name, or a name and a number")
    return given[0], in_range(f"the number of {name}", given[1], 0.0, math.inf)


def _weights(budget: Budget, budget_column: str, least_budget: float | None) -> dict[str, float]:
    """Return the settings of weighted answers."""
    least = (0.0 if least_budget is None else least_budget) if budget_column else budget.norm_budget
    return {"tau": tau_for(budget.norm_budget), "least": min(least, budget.norm_budget)}


def _check_window(
    window: str,
    time: str,
    lifetime: float | None,
    budget: Budget,
    questions: Questions,
    parts: Sequence[Purpose],
) -> None:
    if not window and lifetime is None:
        return
    if window not in WINDOWS or not time:
        raise ParameterError(
            f"window is {window!r}, by the column {time!r}",
            f'one of {", ".join(WINDOWS)}, with the column that says when: time="date"',
        )
    if lifetime is None:
        return
    if questions.keys_delta:
        raise ParameterError(
            "a store with a level for life finds no keys: a delta of a window is none of a life",
            "leave keys_delta out, or the level of all windows",
        )
    if questions.halt or questions.aside() or parts:
        raise ParameterError(
            "a store with a level for life has neither halt nor parts for anything but questions",
            "an account of all windows is for questions alone; leave these out",
        )
    if not budget.kappa <= lifetime <= 1000 * budget.kappa:
        raise ParameterError(
            f"the level of all windows is {lifetime:g}",
            f"between kappa, {budget.kappa:g}, and 1,000 times that",
        )


def _budget(
    kappa: float | None, epsilon: tuple[float, float] | None, questions: Questions
) -> Budget:
    counts = questions.counts
    if counts is None:
        usual = norm_budget_for(questions.answers or ANSWERS)
        counts = usual if questions.weighs else COUNTS
    gaussian, keys_delta = not questions.watch, questions.keys_delta
    if epsilon is None:
        return Budget(KAPPA if kappa is None else kappa, counts, gaussian, keys_delta)
    if kappa is not None:
        raise ParameterError("kappa and epsilon say the same thing; give one of them")
    if not (isinstance(epsilon, tuple | list) and len(epsilon) == 2):
        raise ParameterError(
            f"epsilon is {epsilon!r}, and goes with a delta", "epsilon=(1, 1e-6), --epsilon 1,1e-6"
        )
    return Budget.from_epsilon_delta(*epsilon, counts, gaussian, keys_delta)


def _sources(source: Any) -> dict[str, Any]:
    """Return the rows of each table, by its name."""
    if isinstance(source, Mapping):
        sources = dict(source)
    elif source is None:
        sources = {}
    else:
        paths = [source] if isinstance(source, (str, Path)) else source
        named = isinstance(paths, (list, tuple)) and paths
        sources = {table_name(paths[0]) if named else "events": source}
    if not sources:
        raise DataError("a store needs rows about people", "give a file")
    return sources
