"""Making a store, and opening one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparseq._duckdb.opening import open_backend
from sparseq.accounting import Budget
from sparseq.engine.files.schema import Declarations
from sparseq.errors import DataError, ParameterError
from sparseq.ledger.pots import Pot, Pots
from sparseq.query.limits import check_most
from sparseq.store import Store


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
    from sparseq._duckdb.creating import Declaration, create_file, in_memory

    shares, limits = _reserves(reserves or {}), check_most(most)
    budget = _budget(kappa, epsilon, delta, norm_budget, gaussian="watch" not in shares)
    sources = _sources(source, table, tables)
    declaration = Declaration(
        sources, public or {}, budget, user, time, keys or {}, bounds or {}, row_key,
        budget_column, halt, shares, limits, Declarations(types or {}, multiline), seed,
    )  # fmt: skip
    if path is None:
        return Store(in_memory(declaration))
    create_file(Path(path), declaration)
    return connect(path)


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
    return Store(open_backend(Path(path), cache_bytes, accept_loss))


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
