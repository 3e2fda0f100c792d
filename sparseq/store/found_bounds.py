"""Bounds of a column of numbers without declared bounds, found from one noised answer.

The question is an ordinary one: it counts people by the interval between 1, 2, 5, 10, 20, 50 … that
has their largest |value|, and by whether they have a value below 0. Each person is in one cell, so
each person is charged 1, as for a count of people. Noise, charges and payers are those of any
answer. The rest is post-processing of released numbers, so the bounds are then public, and a sum of
values clamped to them is an ordinary sum.

`sparseq.store.read_bounds` has the rule. Values beyond the bounds are clamped. The number of people
with such values is a query too; only they pay for it, and every sum reports it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sparseq.base.arguments import check_arguments
from sparseq.base.errors import QueryRefused
from sparseq.ledger.notes import Fact
from sparseq.question.catalog import FOUND_BOUNDS, FOUND_VALUES, Column, FoundBounds, Table
from sparseq.question.plan import Options, Sought, ValueSearch
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.store.bound_questions import FAILURE, FLOATS, needs_bounds, questions_about
from sparseq.store.read_bounds import MARGIN, interval_ends, read_off, too_few

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.question.plan import Query
    from sparseq.store.ask import Asking


def _about(answer: Answer) -> str:
    """Return the number of people in a count in words, or that it is too small to be shown."""
    (row,), (low, high) = answer.rows(), (ends[0] for ends in interval_ends(answer.arrow()))
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
        found = self._found(of.id_of(one))
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
        found = self._found(search)
        kept = {**(store.stream.ledger.fact(FOUND_VALUES) or {}), search.key: asdict(found)}
        self._keep(Fact(FOUND_VALUES, kept))
        store.found_bounds.by_value[search.key] = found
        store.relearn()
        return found

    def _found(self, sought: Sought) -> FoundBounds:
        store = self._store
        cells, beyond = questions_about(store, sought)
        answer = store.ask(cells, Options(confidence=1 - FAILURE))
        ends = read_off(answer.arrow(), MARGIN if store.stream.course is not None else 0)
        if ends is None:
            raise too_few(store, sought)
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
