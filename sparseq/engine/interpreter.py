"""A program over one table, fused with the reduction: blocks of people's rows that stay in cache.

The rows lie in order of user. Each block is some people, whole; its rows are narrowed down by the
conditions, put on the lattice and reduced before the next one is looked at. Blocks are shared out
between threads, and all that meets are integers, so that the result depends on neither.

A plan as a program: a small list of operations on columns, evaluated a block of rows at a time.

Nothing is compiled for a query. `program_of` writes the terms of a plan down as steps, each an
operation of `sparseq.engine.operations` on the results of steps before it; a term that occurs twice
is one step. `Rows` carries them out on some rows of one table, each step when it is first needed;
where few rows fulfil the conditions, on these only.

What depends on one column of few values is worked out once for each of them and looked up by code:
texts by dictionary (`Leaf.said`), days and small integers by what they are above the least one
(`looked_up`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparseq.base.cancellation import current
from sparseq.compiled import SHARED, THREADS, as_mask, bits_as, looked_up, true_places
from sparseq.engine.contributions import (
    Contributions,
    Index,
    Reduction,
    RowBatch,
    Runs,
    Weights,
    combine_positions,
    join_parts,
    lattice,
    losses,
    pulled,
    quantise,
    reduce_measure,
)
from sparseq.engine.operations import (
    ALL,
    Kernel,
    Vector,
    constant_vector,
    kernel_of,
    on_lattice,
    placed,
    representable,
    typed,
)
from sparseq.language import types as T
from sparseq.language.expression_tree import Term, call, constant
from sparseq.language.types import Family
from sparseq.sql.catalog import Table
from sparseq.sql.plan import Domain, Kind, Lookup, Measure, Noise, Plan

# -- a plan as a program ---------------------------------------------------------------------------

RowNumbers = NDArray[np.uint32]
FEW = 8
"""Rows of which a share below one in so many fulfil the conditions are picked out of a block."""


@dataclass(frozen=True)
class Leaf:
    """A column that a program reads.

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
    """The interpreter does not have an operation."""


def program_of(plan: Plan, table: Table) -> Program | None:
    """Return a plan over one stored table as a program; None: it has what only DuckDB can do.

    Which of them it is depends on the query and on public facts alone.
    """
    relation = plan.query.relation
    writer = Writer(table, relation.lookups)
    try:
        return Program(
            conditions=(
                *map(writer.found, relation.lookups),
                *map(writer.step, relation.conditions),
            ),
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
    """Writes the steps of terms over one stored table, and public ones that are looked up."""

    def __init__(self, table: Table, lookups: Sequence[Lookup] = ()) -> None:
        self._table, self._lookups = table, lookups
        self.steps: list[Leaf | Vector | Step] = []
        self._known: dict[str, int] = {}

    def position(self, domain: Domain) -> int:
        """Return the step that gives a row's place in a domain."""
        term = _term(domain.position.term)
        if domain.dictionary is not None:
            place = self._add(f"place {domain}", Leaf(term.column, T.TEXT, domain))
        else:
            place = self.step(_inside_cases(term))
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
        columns = _columns(term)
        if any(map(self._lookup_of, columns)):
            return self._looked_up(term, columns)
        if term.column:
            if self._is_coded(term) or not representable(term.type):
                raise Unwritable
            return self._add(term.sql, Leaf(term.column, term.type))
        named = {t.column: t for t in columns}
        if len(named) == 1 and all(map(self._is_coded, named.values())):
            return self._said(term, next(iter(named.values())), term.sql)
        return self._operation(term)

    def found(self, lookup: Lookup) -> int:
        """Return the step that tells which rows have one in a public table."""
        there = f"EXISTS (SELECT 1 FROM {lookup.sql} WHERE {lookup.on.sql})"
        return self._said(Term(T.BOOLEAN, there), lookup.column, there)

    def _looked_up(self, term: Term, columns: Sequence[Term]) -> int:
        """Return the step of a term that looks at public tables."""
        tables = {lookup.alias: lookup for lookup in map(self._lookup_of, columns) if lookup}
        own = {lookup.column.sql: lookup.column for lookup in tables.values()}
        own |= {t.sql: t for t in columns if self._lookup_of(t) is None}
        if len(own) > 1 or not all(map(self._is_coded, own.values())):
            return self._operation(term)
        origin = ", ".join(lookup.sql for lookup in tables.values())
        on = " AND ".join(lookup.on.sql for lookup in tables.values())
        (column,) = own.values()
        return self._said(term, column, f"(SELECT {term.sql} FROM {origin} WHERE {on})")

    def _lookup_of(self, column: Term) -> Lookup | None:
        return next((x for x in self._lookups if column.sql.startswith(f"{x.alias}.")), None)

    def _said(self, term: Term, column: Term, sql: str) -> int:
        """Return the step of what SQL says of each string of a coded column."""
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
            inner = term.sql.replace(value.sql, result.sql)
            arguments[i] = _inside_cases(replace(term, sql=inner, arguments=(result, *listed)))
        elif result.is_written:
            arguments[i] = constant(places.get(result.value, -1), T.BIGINT)
        else:
            return term
    if not count % 2:
        arguments.append(constant(places.get(None, -1), T.BIGINT))
    return replace(term, function="case", arguments=tuple(arguments))


class StepValues:
    """A step's values for every row of a table, by row or by code.

    Attributes:
        values: By row; or codes by row.
        known: By row, or ALL.
        table: Of codes: what each stands for.
    """

    def __init__(self, values: NDArray[Any], known: Any = ALL, table: Vector | None = None):
        self.values, self.known, self.table = values, as_mask(known), table

    def at(self, some: slice, rows: RowNumbers | None) -> Vector:
        """Return some of a block's rows; None: all of them."""

        def of_rows(array: NDArray[Any]) -> NDArray[Any]:
            return array[some] if rows is None else looked_up(array[some], rows)

        values = of_rows(self.values)
        if self.table is not None:
            not_null = self.table.known
            return Vector(
                looked_up(self.table.values, values),
                ALL if not_null is ALL else looked_up(not_null, values),
            )
        return Vector(values, ALL if self.known is ALL else of_rows(self.known))


def with_tables(program: Program, leaves: Mapping[int, StepValues]) -> dict[int, StepValues]:
    """Return the leaves, and the steps that depend on one column by code: worked out for each code.

    Args:
        program: Of which they are steps.
        leaves: By step.
    """
    columns, of = dict(leaves), {i: leaf.column for i, leaf in program.leaves.items()}
    for i, step in enumerate(program.steps):
        if not isinstance(step, Step):
            continue
        inside = [a for a in step.arguments if not isinstance(program.steps[a], Vector)]
        tables = [columns[a].table for a in inside if a in columns]
        alike = len({of[a] for a in inside if a in of}) == 1
        if len(tables) < len(inside) or None in tables or not alike:
            continue
        column = columns[inside[0]]
        assert column.table is not None
        codes = len(column.table.values)
        result = step.kernel(*(_table(program, columns, a) for a in step.arguments))
        not_null = result.known if result.known is ALL else np.broadcast_to(result.known, codes)
        values = np.ascontiguousarray(np.broadcast_to(result.values, codes))
        of[i] = of[inside[0]]
        columns[i] = StepValues(column.values, ALL, Vector(values, not_null))
    return columns


def _table(program: Program, columns: Mapping[int, StepValues], step: int) -> Vector:
    """Return what a step gives for each code, or as a constant."""
    made = program.steps[step]
    if isinstance(made, Vector):
        return made
    table = columns[step].table
    assert table is not None
    return table


class Rows:
    """Some rows of a block, and what a program says of them.

    Args:
        program: What is evaluated.
        columns: What its leaves are, and other steps that are at hand, by step.
        block: Where the block's rows lie.

    Attributes:
        rows: Those that are looked at, ascending; None: all.
        kept: Which of these fulfil the conditions, or ALL.
    """

    def __init__(self, program: Program, columns: Mapping[int, StepValues], block: slice) -> None:
        self._program, self._columns, self._block = program, columns, block
        self._results: dict[int, Vector] = {}
        self.rows: RowNumbers | None = None
        self.kept: Any = ALL
        for condition in program.conditions:
            self._keep(self.result(condition).values)

    def __len__(self) -> int:
        if self.rows is None:
            return int(self._block.stop - self._block.start)
        return len(self.rows)

    def result(self, step: int) -> Vector:
        """Return what a step gives for these rows."""
        if step not in self._results:
            self._results[step] = self._evaluated(step)
        return self._results[step]

    def _evaluated(self, step: int) -> Vector:
        made = self._program.steps[step]
        if step in self._columns:
            result = self._columns[step].at(self._block, self.rows)
            return typed(result, made.type) if isinstance(made, Leaf) else result
        if isinstance(made, Vector):
            return made
        assert isinstance(made, Step)
        result = made.kernel(*map(self.result, made.arguments))
        for array in (result.values, result.known):
            if array.ndim and len(array) != len(self):
                raise ValueError(f"{len(array)} values of {len(self)} rows")
        return result

    def _keep(self, true: Any) -> None:
        true = np.broadcast_to(as_mask(true), len(self))
        kept = true if self.kept is ALL else self.kept & true
        many = int(np.count_nonzero(kept))
        if many == len(kept):
            return
        if FEW * many > len(kept):
            self.kept = kept
            return
        keep = true_places(kept)
        self.rows = keep if self.rows is None else looked_up(self.rows, keep)
        self.kept = ALL
        self._results.clear()


# -- a program over one table ----------------------------------------------------------------------

Made = TypeVar("Made")
BLOCK_ROWS = 1 << 18
"""Small enough for a core's cache, large enough that few calls are made."""


class Interpreter:
    """Evaluates the program of a plan.

    Args:
        plan, program: What is asked.
        leaves: What the program's leaves are, by step.
        users: Whose each row is, ascending.
        runs: Where each user's rows lie, without gaps.
    """

    def __init__(
        self,
        plan: Plan,
        program: Program,
        leaves: Mapping[int, StepValues],
        users: Index,
        runs: Runs,
    ) -> None:
        self._plan, self._program = plan, program
        with np.errstate(all="ignore"):
            self._columns = with_tables(program, leaves)
        self._users, self._runs = users, runs
        size = max(plan.query.groups * m.bins for m in plan.query.measures)
        self._blocks = _blocks(runs, max(BLOCK_ROWS, size))

    def contributions(self) -> Contributions:
        """Return what everybody contributes."""
        measures = range(len(self._plan.query.measures))
        norms = [np.empty(len(self._runs.owners), np.int64) for _ in measures]

        def reduced(people: slice) -> tuple[RowBatch, list[Reduction]]:
            batch, some = self._batch(people), people.stop - people.start
            own = [n[people] if len(batch.runs.owners) == some else None for n in norms]
            return batch, [reduce_measure(self._plan, batch, i, own[i]) for i in measures]

        parts = self._shared(reduced, self._blocks)
        batches = [batch for batch, _ in parts]
        return Contributions(
            [join_parts([reductions[i] for _, reductions in parts]) for i in measures],
            lambda only: self._pull(batches, only),
            weigh=lambda weights: self._weigh(batches, weights),
        )

    def batches(self) -> list[RowBatch]:
        """Return everybody's rows on the lattice, some people after the other."""
        return self._shared(self._batch, self._blocks)

    def whole(self) -> RowBatch:
        """Return all rows on the lattice, of a program without conditions."""
        parts = self.batches()

        def joined(arrays: list[Any]) -> NDArray[Any] | None:
            return None if arrays[0] is None else np.concatenate(arrays)

        groups = joined([p.groups for p in parts])
        if groups is not None:  # less to read in every pass
            groups = groups.astype(np.min_scalar_type(-max(self._plan.query.groups, 1)))
        columns = list(zip(*(p.measures for p in parts), strict=True))
        measures = [(joined([b for b, _ in c]), joined([v for _, v in c])) for c in columns]
        return RowBatch(self._runs, groups, measures)

    def _pull(self, batches: list[RowBatch], only: Index) -> list[NDArray[np.int64]]:
        """Return the sums over some users' rows."""

        def sums(batch: RowBatch) -> list[NDArray[np.int64]]:
            first, last = _ends(batch)
            here = only[slice(*np.searchsorted(only, [first, last + 1]))]
            return pulled(self._plan, batch, here)

        return self._added(sums, batches)

    def _weigh(self, batches: list[RowBatch], weights: Weights) -> list[NDArray[np.int64]]:
        """Return what weights take from the sums."""
        return self._added(
            lambda batch: losses(self._plan, batch, weights.between(*_ends(batch))), batches
        )

    def _added(
        self, sums: Callable[[RowBatch], list[NDArray[np.int64]]], batches: list[RowBatch]
    ) -> list[NDArray[np.int64]]:
        parts = self._shared(sums, batches)
        return [np.sum(of_blocks, axis=0, dtype=np.int64) for of_blocks in zip(*parts, strict=True)]

    def _shared(self, work: Callable[[Any], Made], blocks: list[Any]) -> list[Made]:
        """Return what comes of each block, in order."""

        stopped, cancellation = threading.Event(), current()

        def one(block: Any) -> Made:
            if cancellation is not None:
                cancellation.check()
            if stopped.is_set():
                raise CancelledError
            return work(block)

        def part(some: list[Any]) -> list[Made]:
            with np.errstate(all="ignore"):
                return [one(block) for block in some]

        if self._runs.rows < SHARED:
            return part(blocks)
        cuts = [len(blocks) * i // THREADS for i in range(THREADS + 1)]
        try:
            parts = _pool().map(part, [blocks[a:b] for a, b in pairwise(cuts)])
            return [result for some in parts for result in some]
        finally:
            stopped.set()  # by Ctrl-C: the other threads look at no further block

    def _batch(self, people: slice) -> RowBatch:
        """Return a block's rows on the lattice; those that the program does not keep count 0."""
        all_ = self._runs
        runs = Runs(all_.owners[people], all_.first[people], all_.stop[people])
        start = int(runs.first[0]) if len(runs.first) else 0
        runs = Runs(runs.owners, runs.first - start, runs.stop - start)
        block = slice(start, start + int(runs.stop[-1]) if len(runs.stop) else start)
        rows = Rows(self._program, self._columns, block)
        if rows.rows is not None:
            runs = Runs.of(looked_up(self._users[block], rows.rows))
        groups = self._groups(rows)
        return RowBatch(
            runs,
            groups,
            [
                self._measure(rows, lattice(m, n.granularity), *steps, groups is None)
                for m, n, steps in zip(
                    self._plan.query.measures, self._plan.noise, self._program.measures, strict=True
                )
            ],
        )

    def _groups(self, rows: Rows) -> NDArray[Any] | None:
        places = [_by_row(rows, step) for step in self._program.positions]
        sizes = [len(d.values) for d in self._plan.query.domains]
        index = places[0] if len(places) == 1 else combine_positions(places, sizes)
        return None if index is None else _placed_if(rows.kept, index)

    def _measure(
        self, rows: Rows, step: float, bin: int | None, value: int | None, alone: bool
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return a measure's (bin, value) by row; `alone`: nothing else says which rows count."""
        bins = None if bin is None else _by_row(rows, bin)
        values = None if value is None else _by_row(rows, value)
        if values is None and step != 1.0:
            values = np.full(len(rows), quantise(np.ones(1), step)[0])
        if rows.kept is ALL or not alone:
            return bins, values
        if bins is not None:
            return _placed_if(rows.kept, bins), values
        ones = bits_as(rows.kept, np.bool_, np.uint8)
        return None, ones if values is None else values * ones


def _ends(batch: RowBatch) -> tuple[int, int]:
    """Return the first and the last user of a batch."""
    owners = batch.runs.owners
    return (int(owners[0]), int(owners[-1])) if len(owners) else (0, -1)


def _by_row(rows: Rows, step: int) -> NDArray[Any]:
    values = rows.result(step).values
    return values if np.ndim(values) else np.full(len(rows), values)


def _placed_if(kept: Any, places: NDArray[Any]) -> NDArray[Any]:
    """Return places of the rows that are kept, -1 for the others."""
    return places if kept is ALL else places | (bits_as(kept, np.bool_, np.int8) - np.int8(1))


def _blocks(runs: Runs, rows: int) -> list[slice]:
    """Split people into ranges of about so many rows each."""
    people, total = len(runs.owners), runs.rows
    cuts = np.searchsorted(runs.first, np.arange(0, total, rows)).tolist()
    edges = sorted({0, *cuts, people})
    return [slice(a, b) for a, b in pairwise(edges)] or [slice(0, 0)]


@cache
def _pool() -> ThreadPoolExecutor:
    """Return threads of the interpreter's own: they wait for those of the loops."""
    return ThreadPoolExecutor(THREADS)
