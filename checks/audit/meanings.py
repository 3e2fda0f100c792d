"""Questions without matching rows: their counts and sums against plain DuckDB.

As in `oracle`, the exact sum behind an answer must be DuckDB's for the same rows. The questions are
about people who have no rows in another table, values that are NULL or not finite, fills before
and after values are cut to bounds, and several aggregates with different noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa

import sparseq
from checks.audit.comparison import Finding
from checks.audit.oracle import counted
from checks.audit.trial import Trial
from sparseq.store.store import Store

QUESTIONS = 50
NUMBERS = (
    "count(*)",
    "count(v.pages)",
    "sum(v.pages)",
    "coalesce(sum(v.pages), 0)",
    "max(v.pages)",
    "coalesce(min(v.pages), {c})",
    "count(*) + {c}",
    "coalesce(max(v.pages), 0) - count(*)",
    "CASE WHEN count(*) = 0 THEN {c} ELSE sum(v.pages) END",
    "count(DISTINCT v.pages)",
    "CASE WHEN sum(v.pages) IS NULL THEN {c} END",
    "coalesce(count(v.pages), {c})",
    "{c}",
)
"""What a subquery says of a person's rows of another table, or of none."""
CONDITIONS = (
    "{s} {o} {c}",
    "{s} {o} {c}",
    "{s} IS NULL",
    "{s} IS NOT NULL",
    "coalesce({s}, {c}) {o} {d}",
    "NOT ({s} {o} {c})",
    "{s} IN ({c}, {d})",
    "{s} NOT IN ({c}, {d})",
    "{s} BETWEEN {c} AND {d}",
    "{s} {o} t.n",
    "CASE WHEN {s} {o} {c} THEN false ELSE true END",
    "{s} IS DISTINCT FROM {c}",
    "EXISTS (SELECT {a} FROM v WHERE v.who = t.who{w})",
    "NOT EXISTS (SELECT 1 FROM v WHERE v.who = t.who{w})",
    "t.n IN (SELECT v.pages FROM v WHERE v.who = t.who{w})",
    "t.n NOT IN (SELECT v.pages FROM v WHERE v.who = t.who{w})",
)
VALUES = (
    "least(greatest({e}, {c}), {d})",
    "coalesce(least(greatest({e}, {c}), {d}), {d})",
    "least(greatest(coalesce({e}, {c}), {c}), {d})",
    "nullif(least(greatest({e}, {c}), {d}), {c})",
    "CASE WHEN {e} {o} {d} THEN least(greatest({e}, {c}), {d}) ELSE {c} END",
    "least(greatest(coalesce(nullif({e}, {c}), {d}), {c}), {d})",
    "CASE WHEN {e} BETWEEN {c} AND {d} THEN {e} END",
    "least(greatest(coalesce({e}, CAST('NaN' AS DOUBLE)), {c}), {d})",
)
AGGREGATES = ("sum({v})", "count({v})", "count(*) FILTER (WHERE {v} {o} {c})")
_SCHEMAS = {
    "t": pa.schema([("who", pa.int64()), ("n", pa.int64()), ("x", pa.float64())]),
    "v": pa.schema([("who", pa.int64()), ("pages", pa.int64()), ("m", pa.int64())]),
}


def run(trial: Trial) -> Iterator[Finding]:
    """Ask a store; yield each question whose exact sum differs from DuckDB's."""
    tables = _rows(trial.rng)
    plain = duckdb.connect()
    plain.execute("PRAGMA disable_optimizer")
    for name, rows in tables.items():
        plain.register(name, rows)
    with _store(trial.rng, tables) as store:
        for _ in range(QUESTIONS):
            if trial.is_over():
                return
            found = counted(trial, store, plain, _question(trial.rng))
            if found is not None:
                yield found
                return


def _store(rng: random.Random, tables: dict[str, pa.Table]) -> Store:
    return sparseq.create(
        None,
        tables,
        user="who",
        kappa=1024.0,
        seed=rng.randrange(2**31),
        purposes=[sparseq.Questions(in_or_out=True, counts=2.0**20)],
    )


def _rows(rng: random.Random) -> dict[str, pa.Table]:
    """Draw people; half of them have no rows in the second table."""
    odd = (math.nan, math.inf, -math.inf, None, -0.0, 1e300)
    t = [
        {
            "who": i // 2,
            "n": rng.choice((None, *range(-3, 9))),
            "x": rng.choice(odd) if rng.random() < 0.3 else rng.randrange(-40, 80) / 8,
        }
        for i in range(rng.choice((40, 120)))
    ]
    v = [
        {"who": i, "pages": rng.choice((None, *range(-3, 9))), "m": rng.randrange(3)}
        for i in range(0, 60, 2)
        for _ in range(rng.choice((0, 1, 3)))
    ]
    return {name: pa.Table.from_pylist(rows, _SCHEMAS[name]) for name, rows in (("t", t), ("v", v))}


def _question(rng: random.Random) -> str:
    def filled(form: str, **more: str) -> str:
        low, high = sorted((rng.randrange(-2, 5), rng.randrange(-2, 5)))
        return form.format(
            c=low,
            d=high + 1,
            o=rng.choice(("<", "<=", ">", ">=", "=", "<>")),
            e=rng.choice(("n", "x")),
            **more,
        )

    if rng.random() < 0.4:
        value = filled(rng.choice(VALUES))
        return f"SELECT {filled(rng.choice(AGGREGATES), v=value)} AS a0 FROM t"
    where = rng.choice(("", "", " AND v.m = 1", " AND v.pages > 2"))
    number = filled(rng.choice(NUMBERS))
    subquery = f"(SELECT {number} FROM v WHERE v.who = t.who{where})"
    if number.lstrip("-").isdigit():  # at most one row, as SQL demands it
        subquery = f"(SELECT max({number}) FROM v WHERE v.who = t.who{where})"
    condition = filled(rng.choice(CONDITIONS), s=subquery, a=number, w=where)
    return f"SELECT count(*) AS a0 FROM t WHERE {condition}"
