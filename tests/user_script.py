"""What a user may write: mypy (strict) and pyright (basic) find nothing in it, and it runs.

`make types` checks it against what the package says of its types.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pyarrow as pa

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.accounting import Budget

ROWS = pa.table(
    {
        "who": [1, 1, 2, 3],
        "day": [dt.date(2024, 1, day) for day in (1, 2, 1, 2)],
        "kind": ["a", "b", "a", "a"],
        "amount": [1.0, 2.5, 30.0, 4.0],
    }
)


def monthly(store: sparseq.Store) -> list[float]:
    """Ask in SQL and in Polars; return single numbers."""
    answer: sparseq.Answer = store.sql("SELECT count(*) AS n FROM t", request_id="january")
    assert answer.interval.confidence == 0.95
    here = pl.col("day").is_between(dt.date(2024, 1, 1), dt.date(2024, 1, 31))
    spent: sparseq.Aggregation = store.sum(pl.col("amount").clip(0, 50)).where(here)
    events: sparseq.Events = store.table("t")
    return [answer.value(), spent.ask(confidence=0.9).value(), events.users().ask().value()]


def by_kind(store: sparseq.Store) -> tuple[pl.DataFrame, pa.Table]:
    """Ask for groups; return them as frames."""
    answer = store.sql("SELECT kind, count(*) AS n FROM t WHERE kind IN ('a', 'b') GROUP BY kind")
    bound = answer.bound(beta=0.05)
    width = max(bound) if isinstance(bound, tuple) else bound
    assert width > 0
    return answer.pl(), answer.arrow()


def people(con: sparseq.AnyStore) -> float:
    """Ask a file, a lake or a server; return the recorded answer."""
    con.sql("SELECT count(DISTINCT who) AS people FROM t", fresh=True)
    assert con.tables == ("t",)
    assert con.explain("SELECT count(*) AS n FROM t").facts
    return con.release(con.released).value()


def ways(path: Path, address: str) -> tuple[sparseq.AnyStore, sparseq.AnyStore]:
    """Return a store of this machine, and one that is served: they are asked alike."""
    return sparseq.connect(path), sparseq.connect(address, token="sq_…")


def refused(store: sparseq.Store) -> str:
    """Ask what is not answered; return what is said."""
    try:
        store.sql("SELECT amount FROM t")
    except sparseq.QueryRefused as error:
        return error.message
    return ""


def main(folder: Path) -> None:
    """Make a store, ask it, and open it again."""
    path = folder / "shop.sparseq"
    with sparseq.create(
        path,
        {"t": ROWS},
        user="who",
        time="day",
        kappa=0.5,
        bounds={"amount": (0, 50)},
        purposes=IN_OR_OUT,
    ) as store:
        numbers = monthly(store)
        frame, table = by_kind(store)
        assert refused(store)
        assert people(store) > -100
    assert (len(numbers), frame.height, table.num_rows) == (3, 2, 2)
    with sparseq.connect(path) as store:
        assert store.recorded("january") is not None
        assert [release.id for release in store.releases()] == [1, 2, 3, 4, 5]
        assert store.ingest(ROWS.slice(0, 1)) == 1
    assert Budget(kappa=0.5, norm_budget=20).epsilon(1e-6) > 0
