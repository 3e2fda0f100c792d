"""Bounds of a column of numbers without declared bounds, found from one noised answer.

The question is an ordinary one: it counts people by the interval between 1, 2, 5, 10, 20, 50 … that
has their largest |value|, and by whether they have a value below 0. Each person is in one cell, so
each person is charged 1, as for a count of people. Noise, charges and payers are those of any
answer. The rest is post-processing of released numbers, so the bounds are then public, and a sum of
values clamped to them is an ordinary sum.

The rule. An answer's intervals hold simultaneously with confidence 1 - FAILURE. So, except with
probability FAILURE over all cells together, every cell whose interval is above 0 has somebody in
it, and noise alone raises the bound above everybody's values with at most that probability. The
bound is the upper edge of the highest such cell, plus `MARGIN` edges where people are weighted:
there a wide bound costs little, as pilots choose the scale. Values below 0 are clamped to 0 if no
cell of people with negative values stands out. Values beyond the bounds are clamped. The number of
people with such values is a query too; only they pay for it, and every sum reports it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.arguments import check_arguments
from sparseq.base.errors import QueryRefused
from sparseq.ledger.notes import Fact
from sparseq.question.bound_cells import EDGES
from sparseq.question.catalog import FOUND_BOUNDS, FOUND_VALUES, Column, FoundBounds, Table
from sparseq.question.plan import Options, Sought, ValueSearch
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.store.bound_questions import FAILURE, FLOATS, needs_bounds, questions_about

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.question.plan import Query
    from sparseq.store.ask import Asking

MARGIN = 2


def read_off(cells: pa.Table, margin: int) -> tuple[float, float] | None:
    """Return the bounds from an answer to `question`; None: no cell stands out of the noise.

    Args:
        cells: The answer; the intervals of all cells hold simultaneously.
        margin: Edges above the highest cell that stands out.
    """
    lows, _ = _ends(cells)
    below = np.array(cells["below_0"].to_pylist(), np.bool_)
    firsts = np.asarray(cells["bin_low"].to_numpy(), np.float64)
    there = lows > 0
    if not there.any():
        return None
    top = EDGES.index(firsts[there].max()) + 1 + margin
    high = EDGES[min(top, len(EDGES) - 2)]
    signed = bool((there & below).any())
    return (-high if signed else 0.0), high


def _ends(cells: pa.Table) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of the intervals of all cells."""
    parts = column_parts(cells)["people"]
    if ColumnRole.LOW in parts:
        low, high = (cells[parts[role]].to_numpy() for role in (ColumnRole.LOW, ColumnRole.HIGH))
        return low, high
    people, error = (cells[parts[role]].to_numpy() for role in (ColumnRole.VALUE, ColumnRole.ERROR))
    return people - error, people + error


def _about(answer: Answer) -> str:
    """Return the number of people in a count in words, or that it is too small to be shown."""
    (row,), (low, high) = answer.rows(), (ends[0] for ends in _ends(answer.arrow()))
    if row["people"] is None:
        mark = column_parts(answer.arrow())["people"][ColumnRole.SUPPRESSED]
        return f"{row[mark]} have some"
    about = max(round(row["people"]), 0)
    return f"about {about:,} people ({max(math.floor(low), 0):,} to {math.ceil(high):,}) have some"


class Bounds:
    """The found bounds of a store's columns.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> rows = pa.table({"who": range(900), "x": [float(i % 90) for i in range(900)]})
        >>> con = sparseq.create(None, {"t": rows}, user="who", seed=1)
        >>> found = Bounds(con).find("t", "x")
        >>> found.low, found.high
        (0.0, 500.0)
        >>> con.sql("SELECT sum(x) AS total FROM t").arrow().num_rows
        1
    """

    def __init__(self, store: Asking) -> None:
        self._store = store

    def list(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the found bounds, by table and column: public, and free."""
        with self._store.stream.held():
            return dict(self._store.stream.ledger.fact(FOUND_BOUNDS) or {})

    @check_arguments
    def find(self, table: str, column: str) -> FoundBounds:
        """Find the bounds of a column: charged once, then free.

        Raises:
            QueryRefused: The column has declared bounds, or is no number; or too few people have a
                value to find bounds. The answer that shows this was charged once.
        """
        store = self._store
        of = store.catalog.table(table)
        one = of.column(column)
        known = store.found_bounds.by_column.get(of.id_of(one))
        if known is not None:
            return known
        self._check(of, one)
        written = store.catalog.written(of.id_of(one))
        found = self._found(
            of.id_of(one),
            one.name,
            f"; or ask the curator to declare bounds (create --bounds {written}=0..100)",
        )
        kept = {t: dict(of) for t, of in (store.stream.ledger.fact(FOUND_BOUNDS) or {}).items()}
        kept.setdefault(of.name, {})[one.name] = asdict(found)
        self._keep(Fact(FOUND_BOUNDS, kept))
        store.found_bounds.by_column[of.id_of(one)] = found
        store.relearn()
        return found

    def find_value(self, search: ValueSearch) -> FoundBounds:
        """Find the bounds of a value that is no column, once: see `find`.

        Raises:
            QueryRefused: Too few people have a value for bounds to be told.
        """
        store = self._store
        known = store.found_bounds.by_value.get(search.key)
        if known is not None:
            return known
        self._check_windows(search.name)
        found = self._found(search, search.name)
        kept = {**(store.stream.ledger.fact(FOUND_VALUES) or {}), search.key: asdict(found)}
        self._keep(Fact(FOUND_VALUES, kept))
        store.found_bounds.by_value[search.key] = found
        store.relearn()
        return found

    def _found(self, sought: Sought, name: str, hint: str = "") -> FoundBounds:
        store = self._store
        cells, beyond = questions_about(store, sought)
        answer = store.ask(cells, Options(confidence=1 - FAILURE))
        ends = read_off(answer.arrow(), MARGIN if store.stream.course is not None else 0)
        if ends is None:
            raise QueryRefused(
                f"too few people have a value of {name} for its bounds to be found",
                f"clamp it, as in SUM(LEAST(GREATEST({name}, 0), 100)){hint}",
            )
        about = _about(store.ask(beyond(*ends)))
        return FoundBounds(*ends, about, answer.facts.release)

    def _check(self, table: Table, column: Column) -> None:
        if not table.private:
            raise QueryRefused(f"{table.name} is public: its values are known")
        is_number = column.integral or column.type.startswith((*FLOATS, "DECIMAL"))
        if not is_number or column.name == table.user:
            raise QueryRefused(f"{column.name} is no column of numbers")
        if column.bounds is not None:
            raise QueryRefused(f"the bounds of {column.name} were declared; they are public")
        self._check_windows(column.name)

    def _check_windows(self, name: str) -> None:
        course = self._store.stream.course
        if course is not None and course.life is not None:
            raise QueryRefused(
                f"nothing bounds {name}, and where it lies can't be asked: people pay for "
                "all of their windows together, and that would be about all of them",
                "clamp it, as in SUM(LEAST(GREATEST(x, 0), 100)); or make a store with --bounds",
            )

    def _keep(self, fact: Fact) -> None:
        stream = self._store.stream
        with stream.lock:
            stream.flush()  # the rest of an interrupted step
            stream.ledger.in_transaction(lambda: stream.ledger.write(fact))


def with_bounds(store: Asking, query: Query, options: Options) -> Query:
    """Return a question with the bounds of its columns, found now or before.

    A question with a given scale or sigma needs no bounds.

    Raises:
        QueryRefused: See `Bounds.find`.
    """
    if not needs_bounds(store, query, options):
        return query
    told = options.over(query.options)
    assert query.unbounded is not None
    if told.at_least_useful:
        names = ", ".join(column.name for column in query.unbounded.columns)
        raise QueryRefused(
            f"nobody knows yet where {names} lies, so whether the answer is useful can't be told",
            "ask it once without at_least_useful: where the values lie is asked first, and charged",
        )
    after = replace(store.stream.known_first(query.unbounded.after, options), first=())
    store.stream.price(store.stream.asked_as(after, told), told)  # refused before any charge
    for sought in query.unbounded.columns:
        if isinstance(sought, ValueSearch):
            Bounds(store).find_value(sought)
        else:
            Bounds(store).find(sought.table, sought.name)
    return store.lower(query.text)
