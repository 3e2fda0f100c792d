"""The outcome of one question: answered as by plain DuckDB, or refused."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sparseq
from benchmarks.written import Question
from sparseq.answers.answer import first_row
from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import FoundBounds
from sparseq.question.plan import FirstAnswer, Options, Plan, Query, Sought, ValueSearch, calibrate
from sparseq.released.outputs import Measurements
from sparseq.released.render import key_columns, render
from sparseq.released.result_columns import columns_of, noised_of
from sparseq.store.bound_questions import questions_about
from sparseq.store.read_bounds import read_off

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a question. `said`: the refusal, or the difference of the answer."""

    kind: str  # answered, refused, differs
    said: str = ""
    hint: str = ""


def outcome(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, question: Question, sql: str = ""
) -> Outcome:
    """Ask a question, or another text in its place, and compare."""
    sql = sql or question.sql
    try:
        calibrate(lowered(con, sql), con.guarantee, Options())
    except QueryRefused as refused:
        return Outcome("refused", refused.message, refused.hint)
    wrong = difference(exact(con, sql), plain, question)
    return Outcome("differs", wrong) if wrong else Outcome("answered")


def exact(con: sparseq.Store, sql: str) -> pa.Table:
    """Answer without noise and with everybody in: what no analyst can ask."""
    return unnoised(con, lowered(con, sql), Options())


def lowered(con: sparseq.Store, sql: str) -> Query:
    """Lower a question, with exact numbers for the questions that are asked first.

    Bounds that are needed are found without noise, and kept.
    """
    query, first = con.lower(sql), list[FirstAnswer]()
    if query.unbounded is not None:
        for sought in query.unbounded.columns:
            _find_exactly(con, sought)
        query = con.lower(sql)
    while query.first:
        first.append(first_row(unnoised(con, query.first[0], Options()), 0))
        query = con.lowering.lower(sql, tuple(first))
    return query


def _find_exactly(con: sparseq.Store, sought: Sought) -> None:
    cells, _ = questions_about(con, sought)
    ends = read_off(unnoised(con, cells, Options()), 0) or (0.0, 1.0)
    known = con.found_bounds
    found = FoundBounds(*ends, "nobody has some", 0)
    if isinstance(sought, ValueSearch):
        known.by_value[sought.key] = found
    else:
        known.by_column[sought] = found
    con.relearn()


def unnoised(con: sparseq.Store, query: Query, options: Options) -> pa.Table:
    """Answer a lowered question without noise and with everybody in."""
    plan = calibrate(query, con.guarantee, options)
    return render(plan, measured(con, plan))


def measured(con: sparseq.Store, plan: Plan) -> Measurements:
    """Return what a plan measures, without noise and with everybody in."""
    found = con.stream.engine.contributions(plan, len(con.stream.accounts)).measures
    measures = [
        np.asarray(m.totals * n.granularity, np.float64).reshape(-1, asked.bins)
        for m, n, asked in zip(found, plan.noise, plan.query.measures, strict=True)
    ]
    keys = key_columns(plan.query.domains)
    return Measurements(measures, [0.0] * len(measures), keys, plan.query.groups)


def sums(con: sparseq.Store, sql: str) -> list[NDArray[np.int64]]:
    """Return the exact sums of every measure, on the lattice.

    Raises:
        QueryRefused: It is not answered.
    """
    plan = calibrate(lowered(con, sql), con.guarantee, Options())
    found = con.stream.engine.contributions(plan, len(con.stream.accounts)).measures
    return [measure.totals for measure in found]


def difference(ours: pa.Table, plain: duckdb.DuckDBPyConnection, question: Question) -> str:
    """Return how an answer differs from the plain one; "" where it doesn't.

    A group that plain SQL has no row for may be there, and holds nothing. A sum over no rows is 0,
    where SQL has NULL.
    """
    text, _, limit = question.plain.rpartition(" LIMIT ")
    text = text if limit.isdecimal() else question.plain
    theirs = [tuple(map(_value, row)) for row in plain.execute(text).fetchall()]
    shown = columns_of(ours)
    noised = [c in noised_of(ours) for c in shown]
    mine = [tuple(map(_value, row.values())) for row in ours.select(shown).to_pylist()]
    if theirs and len(theirs[0]) != len(shown):
        return f"{len(shown)} columns for {len(theirs[0])}"
    left = list(theirs)
    for row in mine:
        found = next((t for t in left if _same(row, t, question.within)), None)
        if found is not None:
            left.remove(found)
        elif not all(v in (0, None) for v, n in zip(row, noised, strict=True) if n):
            return f"{row} is not in the plain answer"
    if limit.isdecimal():
        return "" if len(mine) >= min(int(limit), len(theirs)) else "rows are missing"
    told = [tuple(v for v, n in zip(row, noised, strict=True) if n) or row for row in left]
    missing = [row for row, t in zip(left, told, strict=True) if any(v is not None for v in t)]
    return f"{missing[0]} is missing" if missing else ""


def _value(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return float(value) if isinstance(value, Decimal) else value


def _same(a: Row, b: Row, within: float) -> bool:
    return len(a) == len(b) and all(_equal(x, y, within) for x, y in zip(a, b, strict=True))


def _equal(a: Any, b: Any, within: float) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=max(within, 1e-2))
    return bool(a == b)
