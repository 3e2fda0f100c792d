"""SQL over noised answers, in a database without people.

It is post-processing: free, whatever it does. Its expressions are typed and total like all others,
its tables are the answers to the questions in it, and public ones.

Several questions asked as one: their rows one after the other, each in cells of its own.

A person's vector is that of the first question, then that of the second …: it is charged for all of
them, in one step. Measures of one kind and scale share their noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sparseq.released.interval_propagation import HIGH, LOW, Shape, Width, carried
from sparseq.released.outputs import Estimate, Floats, Intervals, Measurements, MeasureNode, Outputs
from sparseq.released.render import key_columns, noised_column
from sparseq.sql.from_clause import ColumnFacts, FromItem, quoted
from sparseq.sql.plan import LIMITS, Cell, Domain, Kind, Measure, Query, Relation
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.subqueries import lower_inner

# -- several questions asked as one: their rows one after the other, each in cells of its own ------


@dataclass(frozen=True)
class Place:
    """Where one of several questions is in the one that is asked.

    Attributes:
        outputs, domains: Its own.
        measures: The places of its measures among all.
        first: The place of its first group among all.
        types: DuckDB's types of its keys.
    """

    outputs: Outputs
    domains: tuple[Domain, ...]
    measures: tuple[int, ...]
    first: int
    groups: int
    types: tuple[str, ...]

    def of(self, noised: Measurements) -> Measurements:
        """Return what was measured of this question."""
        rows = slice(self.first, self.first + self.groups)
        known = noised.weighted
        if known is not None:
            lows, highs, measured, missing = (
                [values[i][rows] for i in self.measures]
                for values in (known.lows, known.highs, known.noised, known.missing)
            )
            sigmas, z = ([values[i] for i in self.measures] for values in (known.sigmas, known.z))
            told = {key: tuple(x[rows] for x in ends) for key, ends in known.told(self.measures)}
            known = Intervals(lows, highs, measured, sigmas, missing, z, told)
        return Measurements(
            [noised.measures[i][rows] for i in self.measures],
            [noised.bounds[i] for i in self.measures],
            key_columns(self.domains),
            self.groups,
            known,
        )


def alone(query: Query, types: Sequence[str]) -> Place:
    """Return the part that is all of a question."""
    places = tuple(range(len(query.measures)))
    return Place(query.outputs, query.domains, places, 0, query.groups, tuple(types))


def together(queries: Sequence[Query], types: Sequence[Sequence[str]]) -> tuple[Query, list[Place]]:
    """Return several questions as one, and where they are in it.

    Args:
        queries: Lowered so that every key's place is in its SQL.
        types: DuckDB's types of their keys.
    """
    measures: list[Measure] = []
    firsts = [0, *accumulate(q.groups for q in queries)]
    parts = []
    for query, first, kinds in zip(queries, firsts, types, strict=False):
        places: list[int] = []
        for measure in query.measures:
            alike = (i for i, m in enumerate(measures) if i not in places and _alike(m, measure))
            place = next(alike, len(measures))
            if place == len(measures):
                measures.append(measure)
            places.append(place)
        parts.append(
            Place(query.outputs, query.domains, tuple(places), first, query.groups, tuple(kinds))
        )
    rows = [_batch_rows(q, p, measures) for q, p in zip(queries, parts, strict=True)]
    caps = tuple(dict.fromkeys(cap for q in queries for cap in q.relation.caps))
    relation = Relation(f'FROM ({" UNION ALL ".join(rows)}) AS "#parts"', caps=caps)
    cells = Domain("cell", tuple(range(firsts[-1])), Cell("cell"))
    asked = tuple(
        replace(m, value=Cell(f"v{i}"), bin=Cell(f"b{i}") if m.edges else None)
        for i, m in enumerate(measures)
    )
    notes = tuple(dict.fromkeys(note for q in queries for note in q.notes))
    statistics = tuple(
        dict.fromkeys(
            replace(s, places=tuple(part.measures[i] for i in s.places))
            for query, part in zip(queries, parts, strict=True)
            for s in query.statistics
        )
    )
    left_out = tuple(dict.fromkeys(said for q in queries for said in q.left_out))
    whole = Query(
        "", relation, (cells,), asked, None, notes, left_out=left_out, statistics=statistics
    )
    return whole, parts


def _alike(a: Measure, b: Measure) -> bool:
    facts = ("kind", "integral", "scale", "edges", "step", "bounds", "role")
    return all(getattr(a, name) == getattr(b, name) for name in facts)


def _batch_rows(query: Query, part: Place, measures: Sequence[Measure]) -> str:
    """Return SQL of a question's rows: the user, the cell, and each measure's value and bin."""
    found = dict(zip(part.measures, query.measures, strict=True))
    columns = [f"{query.relation.user} AS _user", f"{_cell(part)} AS cell"]
    for i, like in enumerate(measures):
        measure, kind = found.get(i), "DOUBLE" if like.kind is Kind.SUM else "BOOLEAN"
        value = "NULL" if measure is None else measure.value.sql if measure.value else "true"
        if like.kind is Kind.SUM and like.integral:
            kind = "BIGINT"
        columns.append(f"CAST({value} AS {kind}) AS v{i}")
        if like.edges:
            place = measure.bin.sql if measure is not None and measure.bin else "NULL"
            columns.append(f"CAST({place} AS INTEGER) AS b{i}")
    where = f" WHERE {query.relation.where}" if query.relation.where else ""
    return f"SELECT {', '.join(columns)} {query.relation.sql}{where}"


def _cell(part: Place) -> str:
    """Return SQL of a row's cell; NULL where one of its keys is in no group."""
    place, inside = "0", []
    for domain in part.domains:
        sql, size = f"({domain.position.sql})", len(domain.values)
        inside.append(f"{sql} BETWEEN 0 AND {size - 1}")
        place = f"({place} * {size} + {sql})"
    cell = f"{part.first} + {place}"
    return f"CASE WHEN {' AND '.join(inside)} THEN {cell} END" if inside else cell


# -- SQL over noised answers, in a database without people -----------------------------------------

Run = Callable[[str, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class After:
    """A SELECT over answers, ready to run.

    Attributes:
        sql: Its tables are "#q0", "#q1" …, the answers to `parts`.
        columns: What is shown: names, and what is known of each.
        run: Runs SQL over public tables and those that it is given.
    """

    sql: str
    parts: tuple[Place, ...]
    columns: tuple[tuple[str, Width], ...]
    run: Run = field(compare=False)

    def shown(self, noised: Measurements, whole: bool) -> pa.Table:
        """Return the answer.

        Args:
            noised: What was measured for all parts.
            whole: Counts may be rounded to integers.
        """
        tables = {f"#q{i}": answer(part, noised) for i, part in enumerate(self.parts)}
        found = self.run(self.sql, tables)
        columns: dict[str, pa.Array] = {}
        for name, width in self.columns:
            values = found[name].combine_chunks()
            number = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
            if not width.noised or not number:
                columns[name] = values
                continue
            value = _floats(values)
            low, high = (
                _floats(found[name + end]) if width.low is not None else np.full(len(value), np.nan)
                for end in (LOW, HIGH)
            )
            integral = pa.types.is_integer(values.type) or (width.whole and whole)
            columns |= noised_column(
                name, Estimate(value, low, high), noised.weighted is not None, integral
            )
        return pa.table(columns)


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def answer(part: Place, noised: Measurements) -> pa.Table:
    """Return the answer to one question, all of its groups: keys, values and their ends."""
    mine = part.of(noised)
    columns = {}
    for output in part.outputs.columns:
        found = output.node(mine)
        if isinstance(found, Estimate):
            ends = (("", found.value), (LOW, found.low), (HIGH, found.high))
            for suffix, values in ends:
                known = np.broadcast_to(values, mine.groups)
                columns[output.name + suffix] = pa.array(known, mask=~np.isfinite(known))
        else:
            columns[output.name] = pa.array(np.broadcast_to(found, mine.groups).tolist())
    return pa.table(columns)


def after(select: exp.Select, parts: Sequence[Place], public: PublicFacts) -> After:
    """Lower what is selected from answers.

    Args:
        select: Over tables #q0, #q1 …
        parts: The questions that these are the answers to.
        public: Types and public tables.

    Raises:
        QueryRefused: It is not understood, or has several columns of a name.
    """
    shapes = {f"#q{i}": _shape(part) for i, part in enumerate(parts)}
    select, shape = carried(select, shapes)
    sources = {name: _source(name, part) for name, part in zip(shapes, parts, strict=True)}
    rows = lower_inner(select, "", public, sources)
    LIMITS["cells"].check(rows.most * len(shape.columns), public.limits)
    sql = rows.derived
    for name, part in zip(shapes, parts, strict=True):
        sql = sql.replace(_rows(part, ""), _rows(part, quoted(name)))
    sql = sql.removeprefix("(").removesuffix(")")
    return After(sql, tuple(parts), tuple(shape.columns.items()), public.answer)


def _shape(part: Place) -> Shape:
    columns = {}
    for output in part.outputs.columns:
        if output.name.startswith("k"):
            columns[output.name] = Width(sure=True)
        else:
            low, high = (exp.column(output.name + end, quoted=True) for end in (LOW, HIGH))
            sure = isinstance(output.node, MeasureNode)
            columns[output.name] = Width(True, low, high, sure, output.integral)
    return Shape(columns, True)


def _source(name: str, part: Place) -> FromItem:
    columns = {n: ColumnFacts(t) for n, t in _types(part).items()}
    return FromItem(name, False, set(), columns, derived=_rows(part, ""), most=part.groups)


def _types(part: Place) -> dict[str, str]:
    types: dict[str, str] = {}
    for output in part.outputs.columns:
        if output.name.startswith("k"):
            types[output.name] = part.types[int(output.name[1:])]
        else:
            types |= dict.fromkeys([output.name + end for end in ("", LOW, HIGH)], "DOUBLE")
    return types


def _rows(part: Place, table: str) -> str:
    """Return SQL of an answer's rows; without a table there are none, but they have types."""
    types = _types(part)
    origin = f"FROM {table}" if table else f"WHERE {part.first} < 0"
    columns = (
        f"CAST({quoted(n) if table else 'NULL'} AS {t}) AS {quoted(n)}" for n, t in types.items()
    )
    return f"(SELECT {', '.join(columns)} {origin})"
