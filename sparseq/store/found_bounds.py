"""Bounds of a column of numbers that nobody declared, read off one noised answer.

The question is an ordinary one: how many people's largest |value| lies between which of 1, 2, 5,
10, 20, 50 …, and do they have a value below 0. Each person is in one cell, so it costs each person
1, as a count of people does; its noise, its charges and who pays are those of any answer. All that
follows is post-processing of released numbers, so that the bounds are public from then on, and a
sum of values cut to them is an ordinary sum.

The rule. An answer's intervals hold all at once, with confidence 1 - FAILURE. A cell whose interval
is above 0 has somebody in it, but with chance FAILURE over all cells together: so noise alone
lifts the bound above everybody's values with at most that chance. The bound is the upper edge of
the highest such cell, and `MARGIN` edges more where people are weighted: there a wide bound costs
little, as pilots choose the scale. Values below 0 are cut to 0 where no cell of those who
have some stands out. Who lies beyond is cut: how many these are is asked too, which they alone pay
for, and said with every sum.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.arguments import check_arguments
from sparseq.base.errors import QueryRefused
from sparseq.engine.protocol import quote
from sparseq.ledger.notes import Fact
from sparseq.released.render import SUPPRESSED_SUFFIX
from sparseq.sql.catalog import FOUND_BOUNDS, Column, FoundBounds, Table
from sparseq.sql.plan import Options

if TYPE_CHECKING:
    from sparseq.sql.plan import Query
    from sparseq.store.answer import Answer
    from sparseq.store.ask import Asking

FAILURE = 1e-3
MARGIN = 2
EDGES = (
    0.0,
    *(float(f"{m}e{k}") for k in range(-9, 19) for m in (1, 2, 5)),
    float(np.finfo(float).max),
)
"""Of the cells: 0 and what is nearly 0, three to a power of ten, and what is larger."""
_FLOATS = ("DOUBLE", "FLOAT")


def question(table: Table, column: Column) -> str:
    """Return the question about a column, in SQL."""
    name, user = quote(column.name), quote(table.user)
    value = f"CASE WHEN isfinite({name}) THEN {name} END" if column.type in _FLOATS else name
    edges = ", ".join(f"{e:.17g}" if e > 1e18 else f"{e:g}" for e in EDGES)
    return (
        f"SELECT below_0, histogram(largest, [{edges}]) AS people FROM (SELECT {user}, "
        f"max(abs({value})) AS largest, min({value}) < 0 AS below_0 FROM {quote(table.name)} "
        f"GROUP BY {user}) GROUP BY below_0"
    )


def read_off(answer: Answer, margin: int) -> tuple[float, float] | None:
    """Return the bounds that an answer to `question` says; None: no cell stands out of the noise.

    Args:
        answer: Intervals of all cells hold together.
        margin: Edges above the highest cell that stands out.
    """
    cells = answer.arrow()
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


def outside(table: Table, column: Column, low: float, high: float) -> str:
    """Return the question how many people have a value beyond bounds, in SQL: only they pay."""
    name, user = quote(column.name), quote(table.user)
    value = f"CASE WHEN isfinite({name}) THEN {name} END" if column.type in _FLOATS else name
    return (
        f"SELECT count(DISTINCT {user}) AS people FROM {quote(table.name)} "
        f"WHERE {value} < {low:.17g} OR {value} > {high:.17g}"
    )


def _ends(cells: pa.Table) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of the intervals of all cells."""
    names = ("people_low", "people_high")
    if names[0] in cells.column_names:
        low, high = (cells[name].to_numpy() for name in names)
        return low, high
    people, error = cells["people"].to_numpy(), cells["people_error"].to_numpy()
    return people - error, people + error


def _about(answer: Answer) -> str:
    """Say how many people a count is of; or that there are too few for it to be shown."""
    (row,), (low, high) = answer.rows(), (ends[0] for ends in _ends(answer.arrow()))
    if row["people"] is None:
        return f"{row['people' + SUPPRESSED_SUFFIX]} have some"
    about = max(round(row["people"]), 0)
    return f"about {about:,} people ({max(math.floor(low), 0):,} to {math.ceil(high):,}) have some"


class Bounds:
    """The bounds of a store's columns that were found.

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
        """Return what was found, by table and column: public, and free."""
        with self._store.stream.held():
            return dict(self._store.stream.ledger.fact(FOUND_BOUNDS) or {})

    @check_arguments
    def find(self, table: str, column: str) -> FoundBounds:
        """Find the bounds of a column, once; it is charged, and those known are free.

        Raises:
            QueryRefused: The column has declared bounds, or is no number; or too few people have a
                value for bounds to be told. The answer that tells so was charged, once.
        """
        store = self._store
        of = store.catalog.table(table)
        one = of.column(column)
        known = store.found_bounds.by_column.get((of.name, one.name))
        if known is not None:
            return known
        self._check(of, one)
        answer = store.ask(store.lower(question(of, one)), Options(confidence=1 - FAILURE))
        ends = read_off(answer, MARGIN if store.stream.course is not None else 0)
        if ends is None:
            raise QueryRefused(
                f"too few people have a value of {one.name} for its bounds to be found",
                f"clamp it, as in SUM(LEAST(GREATEST({one.name}, 0), 100)); or ask the curator to "
                f"declare bounds (create --bounds {one.name}=0..100)",
            )
        beyond = store.ask(store.lower(outside(of, one, *ends)))
        found = FoundBounds(*ends, _about(beyond), answer.facts.release)
        self._keep(of.name, one.name, found)
        return found

    def _check(self, table: Table, column: Column) -> None:
        if not table.private:
            raise QueryRefused(f"{table.name} is public: its values are known")
        is_number = column.integral or column.type.startswith((*_FLOATS, "DECIMAL"))
        if not is_number or column.name == table.user:
            raise QueryRefused(f"{column.name} is no column of numbers")
        if column.bounds is not None:
            raise QueryRefused(f"the bounds of {column.name} were declared; they are public")
        course = self._store.stream.course
        if course is not None and course.life is not None:
            raise QueryRefused(
                f"nothing bounds {column.name}, and where it lies can't be asked: people pay for "
                "all of their windows together, and that would be about all of them",
                "clamp it, as in SUM(LEAST(GREATEST(x, 0), 100)); or make a store with --bounds",
            )

    def _keep(self, table: str, column: str, found: FoundBounds) -> None:
        stream = self._store.stream
        with stream.lock:
            stream.flush()  # what an interrupt left
            kept = {t: dict(of) for t, of in (stream.ledger.fact(FOUND_BOUNDS) or {}).items()}
            kept.setdefault(table, {})[column] = asdict(found)
            stream.ledger.in_transaction(lambda: stream.ledger.write(Fact(FOUND_BOUNDS, kept)))
            self._store.found_bounds.by_column[table, column] = found
            self._store.relearn()


def with_bounds(store: Asking, query: Query, options: Options) -> Query:
    """Return a question of columns without bounds with those that are found, or were.

    A caller who says a scale or a sigma needs none.

    Raises:
        QueryRefused: See `Bounds.find`.
    """
    told = options.over(query.options)
    if told.scale is not None or told.sigma is not None:
        return query
    if store.stream.course is None and told.accuracy is not None:
        return query
    assert query.unbounded is not None
    if told.at_least_useful:
        names = ", ".join(column for _, column in query.unbounded.columns)
        raise QueryRefused(
            f"nobody knows yet where {names} lies, so whether the answer is useful can't be told",
            "ask it once without at_least_useful: where the values lie is asked first, and charged",
        )
    for table, column in query.unbounded.columns:
        Bounds(store).find(table, column)
    return store.lower(query.text)
