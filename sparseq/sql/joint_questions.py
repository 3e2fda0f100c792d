"""Several questions asked as one: their rows one after the other, each in its own cells.

A person's vector is the concatenation of the questions' vectors: one step charges for the whole
vector. Measures of the same kind and scale share their noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from sparseq.question.plan import (
    Cell,
    Domain,
    Kind,
    Measure,
    Query,
    Relation,
)
from sparseq.released.sql_over_noise import (
    Place,
)

MOMENTS = "TIMESTAMPTZ"
"""The type of keys that are moments; they are stored as TIMESTAMP, in UTC."""


def alone(query: Query, types: Sequence[str]) -> Place:
    """Return the part that covers a whole question."""
    places = tuple(range(len(query.measures)))
    return _place(query, places, 0, types)


def _place(query: Query, places: Sequence[int], first: int, types: Sequence[str]) -> Place:
    sums = frozenset(i for i, m in enumerate(query.measures) if m.kind is Kind.SUM)
    whole = frozenset(i for i, m in enumerate(query.measures) if m.integral)
    return Place(
        query.outputs, query.domains, tuple(places), first, query.groups, tuple(types), sums, whole
    )


def together(queries: Sequence[Query], types: Sequence[Sequence[str]]) -> tuple[Query, list[Place]]:
    """Return several questions as one, and their places in it.

    Args:
        queries: Queries lowered so that every key's place is in its SQL.
        types: The DuckDB types of their keys.
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
        parts.append(_place(query, places, first, kinds))
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
    """Return SQL of a row's cell; NULL if a key of the row is in no group."""
    place, inside = "0", []
    for domain in part.domains:
        sql, size = f"({domain.position.sql})", len(domain.values)
        inside.append(f"{sql} BETWEEN 0 AND {size - 1}")
        place = f"({place} * {size} + {sql})"
    cell = f"{part.first} + {place}"
    return f"CASE WHEN {' AND '.join(inside)} THEN {cell} END" if inside else cell
