"""An evaluator of its own, that DuckDB is compared with: questions over one table, in NumPy.

`program_of` writes the terms of a plan down as steps, each an operation of `oracle.operations` on
the results of steps before it; a term that occurs twice is one step. `Judge` carries them out on
all rows of a store's table. It has no say in what `sparseq` does: it is there to be compared with,
to the last unit. What is said of a text alone is looked up by the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sparseq
from second_evaluator.operations import (
    Kernel,
    Vector,
    constant_vector,
    kernel_of,
    on_lattice,
    placed,
    representable,
    typed,
)
from sparseq.base.sql_text import quote
from sparseq.engine.contributions import (
    Contributions,
    RowBatch,
    coordinates_of,
    lattice,
    of_batch,
)
from sparseq.engine.positions import combine_positions
from sparseq.engine.protocol import USER
from sparseq.engine.reduction import Runs, quantise
from sparseq.language import types as T
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Term, call, constant
from sparseq.language.types import Family
from sparseq.question.catalog import Table
from sparseq.question.plan import Domain, Kind, Measure, Noise, Plan

# -- a plan as a program ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """A column that a program reads.

    Attributes:
        column: A stored column.
        type: Of the values, or of what is said of them; TEXT of a group key.
        said: SQL of what is said of each text of a column, or the group key whose place is looked
            up; "": the values are those of the column.
        name: What the SQL calls the column.
    """

    column: ColumnId
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
        positions: Places in the group keys' domains, -1 for none.
        measures: (bin, lattice value) of each measure, None where it has none; a bin as a place.
    """

    steps: tuple[Leaf | Vector | Step, ...]
    conditions: tuple[int, ...]
    positions: tuple[int, ...]
    measures: tuple[tuple[int | None, int | None], ...]

    @property
    def leaves(self) -> dict[int, Leaf]:
        """The columns that it reads, by step."""
        return {i: s for i, s in enumerate(self.steps) if isinstance(s, Leaf)}


class Unwritable(Exception):
    """There is no such operation here."""


def program_of(plan: Plan, table: Table) -> Program | None:
    """Return a plan over one stored table as a program; None: it has what only DuckDB can do."""
    relation = plan.query.relation
    if relation.stored != table.name or relation.joined:
        return None
    writer = Writer()
    try:
        return Program(
            conditions=tuple(map(writer.step, relation.conditions)),
            positions=tuple(map(writer.position, plan.query.domains)),
            measures=tuple(
                (
                    None if m.bin is None else writer.bin(_term(m.bin.term), m.bins),
                    None if m.value is None else writer.value(m, n),
                )
                for m, n in zip(plan.query.measures, plan.noise, strict=True)
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

    def __init__(self) -> None:
        self.steps: list[Leaf | Vector | Step] = []
        self._known: dict[str, int] = {}

    def position(self, domain: Domain) -> int:
        """Return the step that gives a row's place in a domain."""
        if domain.key is not None and _is_text(domain.key) and not domain.rest:
            place = self._add(f"place {domain}", Leaf(domain.key.column, T.TEXT, domain))
        else:
            place = self.step(_inside_cases(_term(domain.position.term)))
        return self._end(place, f"placed {len(domain.values)}", placed(len(domain.values)))

    def bin(self, term: Term, bins: int) -> int:
        """Return the step that gives a row's bin."""
        return self._end(self.step(term), f"placed {bins}", placed(bins))

    def value(self, measure: Measure, noise: Noise) -> int:
        """Return the step that gives a measure's lattice value: of a number, or else of a truth."""
        assert measure.value is not None
        term, step = _term(measure.value.term), lattice(measure, noise.granularity)
        if measure.kind is Kind.SUM and term.type.family is not Family.DOUBLE:
            term = call("cast to DOUBLE", "TRY_CAST({0} AS DOUBLE)", T.DOUBLE, term)
        return self._end(self.step(term), f"on lattice {step}", on_lattice(step))

    def _end(self, step: int, name: str, kernel: Kernel) -> int:
        return self._add(f"{name} of step {step}", Step(kernel, (step,)))

    def step(self, term: Term) -> int:
        """Return the step that gives a term."""
        if term.sql in self._known:
            return self._known[term.sql]
        if term.is_written:
            if not representable(term.type):
                raise Unwritable
            return self._add(term.sql, constant_vector(term))
        if term.column is not None:
            if _is_text(term) or not representable(term.type):
                raise Unwritable
            return self._add(term.sql, Leaf(term.column, term.type))
        named = {t.column: t for t in _columns(term)}
        if len(named) == 1 and all(map(_is_text, named.values())):
            return self._said(term, next(iter(named.values())), term.sql)
        return self._operation(term)

    def _said(self, term: Term, column: Term, sql: str) -> int:
        """Return the step of what SQL says of each text of a column."""
        if not representable(term.type):
            raise Unwritable
        return self._add(sql, Leaf(column.column, term.type, sql, column.sql))

    def _operation(self, term: Term) -> int:
        kernel = kernel_of(term) if term.arguments else None
        if kernel is None:
            raise Unwritable
        step = Step(kernel, tuple(map(self.step, term.arguments)))
        return self._add(term.sql, step)

    def _add(self, key: str, step: Leaf | Vector | Step) -> int:
        if key not in self._known:
            self._known[key] = len(self.steps)
            self.steps.append(step)
        return self._known[key]


def _is_text(term: Term) -> bool:
    """Tell whether a term is a stored column of texts."""
    return term.column is not None and term.type.family is Family.TEXT


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
            inner = term.sql.replace(value.sql, result.sql)
            arguments[i] = _inside_cases(replace(term, sql=inner, arguments=(result, *listed)))
        elif result.is_written:
            arguments[i] = constant(places.get(result.value, -1), T.BIGINT)
        else:
            return term
    if not count % 2:
        arguments.append(constant(places.get(None, -1), T.BIGINT))
    return replace(term, function="case", arguments=tuple(arguments))


# -- a program over all rows -----------------------------------------------------------------------


def values_of(column: pa.ChunkedArray) -> Vector:
    """Return a column as operations have it: 0 or false for NULL."""
    known = column.is_valid().to_numpy()
    if pa.types.is_decimal128(column.type):
        numbers = [0 if x is None else int(x.scaleb(column.type.scale)) for x in column.to_pylist()]
        return Vector(np.array(numbers, np.int64), known)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    filled = column.fill_null(pa.scalar(0).cast(column.type))
    return Vector(filled.to_numpy(), known)


def carried_out(program: Program, leaves: Mapping[int, Vector], rows: int) -> list[Vector]:
    """Return what each step gives, for all rows or as one value for them."""
    found: list[Vector] = []
    with np.errstate(all="ignore"):
        for i, step in enumerate(program.steps):
            if isinstance(step, Leaf):
                found.append(typed(leaves[i], step.type))
            elif isinstance(step, Vector):
                found.append(step)
            else:
                found.append(step.kernel(*(found[a] for a in step.arguments)))
            for array in (found[-1].values, found[-1].known):
                assert np.ndim(array) == 0 or len(array) == rows
    return found


class Judge:
    """Evaluates plans on the rows of a store.

    Args:
        store: Whose rows; they may be in any order.
    """

    def __init__(self, store: sparseq.Store) -> None:
        self._store = store

    def program(self, plan: Plan) -> Program | None:
        """Return a plan's program; None: it can't be evaluated here."""
        table = plan.query.relation.stored
        return program_of(plan, self._store.catalog.table(table)) if table else None

    def contributions(self, plan: Plan) -> Contributions:
        """Return what everybody contributes to a plan that has a program."""
        program, table = self.program(plan), plan.query.relation.stored
        assert program is not None
        users = self._read(f"SELECT {USER} FROM by_user.{quote(table)}")[0].to_numpy()
        leaves = {i: self._leaf(table, leaf) for i, leaf in program.leaves.items()}
        found = carried_out(program, leaves, len(users))
        kept = np.ones(len(users), np.bool_)
        for condition in program.conditions:
            kept &= found[condition].values
        order = np.argsort(users[kept], kind="stable")

        def by_row(step: int) -> NDArray[Any]:
            return np.broadcast_to(found[step].values, len(users))[kept][order]

        places = [by_row(step).astype(np.int32) for step in program.positions]
        groups = combine_positions(places, [len(d.values) for d in plan.query.domains])
        measures = []
        for m, n, (bin, value) in zip(
            plan.query.measures, plan.noise, program.measures, strict=True
        ):
            one = quantise(np.ones(1), lattice(m, n.granularity))[0]
            values = np.full(len(order), one) if value is None else by_row(value).astype(np.int32)
            bins = None if bin is None else by_row(bin).astype(np.int32)
            measures.append((coordinates_of(plan, len(measures), groups, bins), values))
        return of_batch(plan, RowBatch(Runs.of(users[kept][order]), measures))

    def _leaf(self, table: str, leaf: Leaf) -> Vector:
        """Return what a leaf has for each row."""
        column, rows = quote(leaf.column.name), f"by_user.{quote(table)}"
        read = self._read(f"SELECT {column} FROM {rows}")[0]
        if not leaf.said:
            return values_of(read)
        if isinstance(leaf.said, Domain):
            place = {value: i for i, value in enumerate(leaf.said.values)}
            return Vector(np.array([place.get(text, -1) for text in read.to_pylist()], np.int64))
        said, of = self._read(
            f'SELECT {leaf.said} AS said, {column} AS "#text" FROM (SELECT DISTINCT {column} '
            f"FROM {rows}) AS {leaf.name[: -len(column) - 1]}"
        )
        by_text, results = {text: i for i, text in enumerate(of.to_pylist())}, values_of(said)
        places = np.array([by_text[text] for text in read.to_pylist()], np.int64)
        return Vector(results.values[places], results.known[places])

    def _read(self, sql: str) -> list[pa.ChunkedArray]:
        return list(self._store.backend.database.sql(sql).to_arrow_table().columns)
