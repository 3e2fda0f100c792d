"""Pilots that are asked once for many questions: of parents, and of a column's values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparseq.accounting.pilots.choice import value_edges
from sparseq.accounting.pilots.posterior import NO_PARENT, Floats, Parent
from sparseq.language.expression_tree import Term
from sparseq.sql.domains import bin_of, even_bins, less, times
from sparseq.sql.plan import Cell, Kind, Measure, Query, Relation
from sparseq.stream.joint_unit import BELOW, Joint
from sparseq.stream.stream_progress import WEIGHTS

OWN_PRICE = 0.25
"""Of a column pilot that serves one question."""


@dataclass(frozen=True)
class ColumnPilot:
    """A column pilot that a question needs: public.

    Attributes:
        key: Its name, "" where it serves this question only.
        query: Rows by value.
        edges: Of its cells.
        price: What it costs a person at most.
    """

    key: str
    query: Query
    edges: Floats
    price: float


def column_pilot(query: Query, measure: Measure) -> ColumnPilot | None:
    """Return the column pilot of a sum's values; None: nothing bounds them.

    It is of all rows of the same stored table where the value is of its columns; else, and where
    conditions are part of the value, of the rows of the question.
    """
    if measure.kind is not Kind.SUM or measure.bounds is None or measure.value is None:
        return None
    low, high = measure.bounds
    if not low < high:
        return None
    edges = value_edges(low, high)
    places = tuple(edges.tolist())
    value, table = measure.value, query.relation.stored
    rows = Measure(Kind.ROWS, None, "values", edges=places, bin=bin_of(value, places, nearest=True))
    shared = table and value.term is not None
    relation = query.relation
    if shared:
        relation = everything(query)
    asked = Query("pilot: values", relation, (), (rows,), None)
    key = f"values of {value.sql} in {table} within {low!r}..{high!r}" if shared else ""
    return ColumnPilot(key, asked, edges, 1.0 if shared else OWN_PRICE)


def own_pilot(pilot: ColumnPilot, query: Query) -> ColumnPilot:
    """Return a column pilot of the rows of one question alone."""
    asked = replace(pilot.query, relation=query.relation)
    return replace(pilot, key="", query=asked, price=OWN_PRICE)


def quantile_pilot(query: Query, measure: Measure) -> ColumnPilot | None:
    """Return the column pilot of a quantile's values; None: its bins were given."""
    term = None if measure.bin is None else measure.bin.term
    if (
        not measure.role
        or term is None
        or measure.edges != even_bins(measure.edges[0], measure.edges[-1])
    ):
        return None
    value = Cell.of(term.arguments[0])
    ends = measure.edges[0], measure.edges[-1]
    values = Measure(Kind.SUM, value, measure.label, scale=max(map(abs, ends)), bounds=ends)
    return column_pilot(query, values)


def binned_anew(measure: Measure, edges: tuple[float, ...]) -> Measure:
    """Return rows by bin with other bins."""
    assert measure.bin is not None
    assert measure.bin.term is not None
    place = bin_of(Cell.of(measure.bin.term.arguments[0]), edges, nearest=True)
    return replace(measure, edges=edges, bin=place)


def once_for(query: Query) -> list[str]:
    """Return what is asked once for many questions, before measures that share a weight, at most:
    the names of parent and column pilots."""
    pilots = [column_pilot(query, m) or quantile_pilot(query, m) for m in query.measures if m.role]
    columns = [one.key for one in pilots if one is not None and one.key]
    return [*parents_of(query), *people_of(query), *dict.fromkeys(columns)]


def everything(query: Query) -> Relation:
    """Return all rows of a question's stored table."""
    table = query.relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
    return replace(query.relation, sql=table, where="", conditions=())


def parents_of(query: Query) -> dict[str, Query]:
    """Return the parent pilots that say something of a question, by their names.

    They are of all rows of the same stored table, and, for a sum of a column that is never
    negative, of the column's total per person.
    """
    table = query.relation.stored
    kinds = {m.kind for m in query.measures}
    if not table or kinds == {Kind.USERS}:
        return {}
    found = {}
    if kinds != {Kind.SUM}:
        found[rows_of(table)] = _parent(query, Measure(Kind.ROWS, None, "rows"))
    for measure in query.measures:
        if measure.kind is Kind.SUM and _column(measure):
            found[_sum_of(measure, table)] = _parent(query, replace(measure, edges=(), bin=None))
    return found


def people_of(query: Query) -> dict[str, Query]:
    """Return the pilot of people by how they have faded, by its name; none but of stored tables."""
    table = query.relation.stored
    if not table:
        return {}
    return {f"{WEIGHTS}{table}": _parent(query, Measure(Kind.USERS, None, "people"))}


def rows_of(table: str) -> str:
    """Return the name of the parent pilot of a table's rows."""
    return f"rows of {table}"


def _sum_of(measure: Measure, table: str) -> str:
    return f"sum of {_column(measure)} in {table} up to {measure.scale!r}"


def parent_in(known: Mapping[str, Parent], asked: Joint) -> Parent:
    """Return what parents say of a question, in its joint unit: people of each of its measures.

    A sum without a parent of its own is taken for up to twice a person's rows, at the size of a
    value that is its unit.
    """
    table = asked.query.relation.stored
    rows, found = known.get(rows_of(table), NO_PARENT), NO_PARENT
    for part in asked.parts:
        measure = part.measure
        own = known.get(_sum_of(measure, table)) if measure.kind is Kind.SUM else rows
        if measure.kind is not Kind.SUM:
            found = found.add(rows)
            continue
        greatest = math.ceil(math.log2((measure.scale or part.unit) / part.unit) - 1e-9)
        mine = rows.shift(min(greatest, 1)) if own is None else own.shift(greatest - BELOW)
        found = found.add(mine)
    return found


def centred_total(total: Measure, centre: float, spread: float) -> tuple[Measure, float]:
    """Return the sum of values less a centre, and the centre: a short binary number.

    Example:
        >>> from sparseq.sql.plan import Cell
        >>> sum_ = Measure(Kind.SUM, Cell("x"), "sum of x", False, 8.0, bounds=(0.0, 8.0))
        >>> shifted, centre = centred_total(sum_, 2.7, 0.5)
        >>> centre, shifted.bounds, shifted.scale
        (2.6875, (-2.6875, 5.3125), 5.3125)
    """
    step = math.ldexp(1.0, math.floor(math.log2(spread)) - 4)
    centre = round(centre / step) * step
    assert total.value is not None
    assert total.bounds is not None
    bounds = total.bounds[0] - centre, total.bounds[1] - centre
    value = less(total.value, centre)
    scale = max(map(abs, bounds))
    return replace(total, value=value, bounds=bounds, scale=scale, integral=False), centre


def factors(measure: Measure) -> int:
    """Return of how many values about a centre a sum is: 1, 2 of products, 0 of anything else.

    Example:
        >>> from sparseq.sql.plan import Cell
        >>> from sparseq.language.expression_tree import Term
        >>> from sparseq.language.types import DOUBLE
        >>> x = Measure(Kind.SUM, Cell.of(Term(DOUBLE, "x", column="x")), "sum of x", bounds=(0, 8))
        >>> about, _ = centred_total(x, 2.5, 0.5)
        >>> factors(x), factors(about), factors(product_of(about, about, about, 0.3))
        (0, 1, 2)
    """
    term = None if measure.value is None else measure.value.term
    if (not measure.role and measure.kind is not Kind.SUM) or term is None:
        return 0
    if term.function == "*":
        return 2 * all(one.function == "-" for one in term.arguments)
    return int(term.function == "-")


def product_of(x: Measure, y: Measure, products: Measure, size: float) -> Measure:
    """Return the sum of products of two values about their centres, or of squares of one.

    Its lattice has 2**17 steps to the greatest product, or up to 2**8 as many where values lie in a
    small part of their bounds: then a person may have 64 rows of the greatest product in a cell.

    Args:
        x, y: Sums of the values about their centres; the same: squares.
        products: What is asked for.
        size: Of a product, about.

    Example:
        >>> from sparseq.sql.plan import Cell
        >>> about = Measure(Kind.SUM, Cell("x"), "sum", False, 8.0, bounds=(-4.0, 8.0))
        >>> one = product_of(about, about, about, 0.01)
        >>> one.bounds, one.scale
        ((0.0, 64.0), 1.0)
    """
    assert x.value is not None
    assert y.value is not None
    assert x.bounds is not None
    assert y.bounds is not None
    ends = [a * b for a in x.bounds for b in y.bounds]
    most = max(map(abs, ends))
    finer = min(max(math.floor(math.log2(most / size)) - 6, 0), 8)
    return replace(
        products, value=times(x.value, y.value), bounds=(0.0 if x is y else min(ends), max(ends)),
        scale=math.ldexp(most, -finer), integral=False,
    )  # fmt: skip


def _parent(query: Query, measure: Measure) -> Query:
    return Query(f"pilot: {measure.label}", everything(query), (), (measure,), None)


def _column(measure: Measure) -> str:
    """Return the column that a sum is of, where it is never negative; "" for anything else."""
    term = None if measure.value is None else without_casts(measure.value.term)
    if term is None or measure.bounds is None or measure.bounds[0] < 0:
        return ""
    return term.column


def without_casts(term: Term | None) -> Term | None:
    """Return what a term is a cast of."""
    while term is not None and term.function.startswith("cast") and len(term.arguments) == 1:
        term = term.arguments[0]
    return term
