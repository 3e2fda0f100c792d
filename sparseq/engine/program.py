"""A plan as a program: a small list of operations on columns, evaluated a block of rows at a time.

Nothing is compiled for a query. `program_of` writes the terms of a plan down as steps, each an
operation of `sparseq.engine.operations` on the results of steps before it; a term that occurs twice
is one step. `Rows` carries them out on some rows of one table, each step when it is first needed,
and the steps behind a condition on the rows that fulfil it only.

Texts are read by dictionary: what depends on one coded column is said once of each of its strings
(`Leaf.said`), and looked up by code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.operations import (
    Kernel,
    Vector,
    constant_vector,
    kernel_of,
    representable,
)
from sparseq.engine.reduce import Ints
from sparseq.query import types as T
from sparseq.query.catalog import Table
from sparseq.query.plan import Domain, Kind, Plan
from sparseq.query.terms import Term, call, constant
from sparseq.query.types import Family


@dataclass(frozen=True)
class Leaf:
    """What a program reads.

    Attributes:
        column: A stored column.
        type: Of the values; of a coded column's codes, TEXT.
        said: SQL of what is said of each string of a coded column, or the group key whose place is
            looked up; "": the values are those of the column.
        name: What the SQL calls the column.
    """

    column: str
    type: T.Type
    said: str | Domain = ""
    name: str = ""


@dataclass(frozen=True)
class Step:
    """One operation, on results of steps before it."""

    kernel: Kernel
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A plan as steps; numbers are those of steps.

    Attributes:
        steps: Leaves, constants and operations.
        conditions: What must be true of a row.
        positions: Places in the group keys' domains.
        measures: (bin, value) of each measure, None where it has none.
    """

    steps: tuple[Leaf | Vector | Step, ...]
    conditions: tuple[int, ...]
    positions: tuple[int, ...]
    measures: tuple[tuple[int | None, int | None], ...]

    @property
    def leaves(self) -> dict[int, Leaf]:
        """What it reads, by step."""
        return {i: s for i, s in enumerate(self.steps) if isinstance(s, Leaf)}


class Unwritable(Exception):
    """The interpreter does not have an operation."""


def program_of(plan: Plan, table: Table) -> Program | None:
    """Return a plan over one stored table as a program; None: it has what only DuckDB can do.

    Which of them it is depends on the query and on public facts alone.
    """
    writer = Writer(table)
    try:
        return Program(
            conditions=tuple(map(writer.step, plan.query.relation.conditions)),
            positions=tuple(map(writer.position, plan.query.domains)),
            measures=tuple(
                (
                    None if m.bin is None else writer.step(_term(m.bin.term)),
                    None if m.value is None else writer.value(m.kind, _term(m.value.term)),
                )
                for m in plan.query.measures
            ),
            steps=tuple(writer.steps),
        )
    except Unwritable:
        return None


def _term(term: Term | None) -> Term:
    if term is None:
        raise Unwritable
    return term


class Writer:
    """Writes the steps of terms over one stored table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.steps: list[Leaf | Vector | Step] = []
        self._known: dict[str, int] = {}

    def position(self, domain: Domain) -> int:
        """Return the step that gives a row's place in a domain."""
        term = _term(domain.position.term)
        if domain.dictionary is not None:
            return self._add(f"place {domain}", Leaf(term.column, T.TEXT, domain))
        return self.step(_inside_cases(term))

    def value(self, kind: Kind, term: Term) -> int:
        """Return the step that gives a measure's value: a number of a sum, else a truth."""
        if kind is Kind.SUM and term.type.family is not Family.DOUBLE:
            term = call("cast to DOUBLE", "TRY_CAST({0} AS DOUBLE)", T.DOUBLE, term)
        return self.step(term)

    def step(self, term: Term) -> int:
        """Return the step that gives a term."""
        if term.sql in self._known:
            return self._known[term.sql]
        if term.is_written:
            if not representable(term.type):
                raise Unwritable
            return self._add(term.sql, constant_vector(term))
        if term.column:
            if self._is_coded(term) or not representable(term.type):
                raise Unwritable
            return self._add(term.sql, Leaf(term.column, term.type))
        columns = {t.column: t for t in _columns(term)}
        if len(columns) == 1 and all(map(self._is_coded, columns.values())):
            if not representable(term.type):
                raise Unwritable
            ((name, column),) = columns.items()
            return self._add(term.sql, Leaf(name, term.type, term.sql, column.sql))
        kernel = kernel_of(term)
        if kernel is None:
            raise Unwritable
        step = Step(kernel, tuple(map(self.step, term.arguments)))
        return self._add(term.sql, step)

    def _add(self, key: str, step: Leaf | Vector | Step) -> int:
        if key not in self._known:
            self._known[key] = len(self.steps)
            self.steps.append(step)
        return self._known[key]

    def _is_coded(self, term: Term) -> bool:
        return term.column != "" and self._table.column(term.column).coded


def _columns(term: Term) -> list[Term]:
    """Return the columns of a term, those that are stored and others (with no name)."""
    if term.arguments:
        return [c for a in term.arguments for c in _columns(a)]
    return [] if term.constant else [term]


def _inside_cases(term: Term) -> Term:
    """Return the place of a CASE among constants as a CASE of places, where results are constants.

    So texts that a query itself writes need not be made for each row.
    """
    value, *listed = term.arguments if term.function == "place" else (term,)
    if term.function != "place" or value.function != "case":
        return term
    places = {x.value: i for i, x in reversed(list(enumerate(listed)))}
    count = len(value.arguments)
    arguments = list(value.arguments)
    for i in [*range(1, count, 2), *([count - 1] if count % 2 else [])]:
        result = arguments[i]
        if result.function == "case":
            inner = f"place of {result.sql} in {term.sql}"  # no SQL: only what tells it apart
            arguments[i] = _inside_cases(replace(term, sql=inner, arguments=(result, *listed)))
        elif result.is_written:
            arguments[i] = constant(places.get(result.value, -1), T.BIGINT)
        else:
            return term
    if not count % 2:
        arguments.append(constant(-1, T.BIGINT))
    return replace(term, function="case", arguments=tuple(arguments))


class Column:
    """A leaf's values for every row of a table, by row or by code.

    Attributes:
        values: By row; or codes by row, the last code being that of NULL.
        known: By row, or True.
        table: Of codes: what each stands for.
    """

    def __init__(self, values: NDArray[Any], known: Any = True, table: Vector | None = None):
        self.values, self.known, self.table = values, known, table

    def at(self, some: slice, rows: Ints | None) -> Vector:
        """Return some of a block's rows; None: all of them."""
        values = self.values[some] if rows is None else self.values[some].take(rows)
        if self.table is not None:
            known = self.table.known
            return Vector(
                self.table.values.take(values), True if known is True else known.take(values)
            )
        if self.known is True:
            return Vector(values)
        return Vector(values, self.known[some] if rows is None else self.known[some].take(rows))


class Rows:
    """Some rows of a block, and what a program says of them.

    Args:
        program: What is evaluated.
        columns: What its leaves are, by step.
        block: Where the block's rows lie.

    Attributes:
        rows: Those that fulfil the conditions, ascending; None: all.
    """

    def __init__(self, program: Program, columns: Mapping[int, Column], block: slice) -> None:
        self._program, self._columns, self._block = program, columns, block
        self._results: dict[int, Vector] = {}
        self.rows: Ints | None = None
        for condition in program.conditions:
            self._keep(self.result(condition).values)

    def __len__(self) -> int:
        if self.rows is None:
            return int(self._block.stop - self._block.start)
        return len(self.rows)

    def result(self, step: int) -> Vector:
        """Return what a step gives for these rows."""
        if step not in self._results:
            what = self._program.steps[step]
            if isinstance(what, Leaf):
                self._results[step] = self._columns[step].at(self._block, self.rows)
            elif isinstance(what, Step):
                self._results[step] = what.kernel(*map(self.result, what.arguments))
            else:
                self._results[step] = what
        return self._results[step]

    def _keep(self, true: Any) -> None:
        if np.ndim(true) == 0:
            true = np.full(len(self), bool(true))
        keep = np.flatnonzero(true)
        if len(keep) < len(true):
            self.rows = keep if self.rows is None else self.rows.take(keep)
            self._results.clear()
