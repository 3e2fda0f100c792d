"""Pilots that serve many questions: parents, and the values of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.pilots.column_values import value_edges
from sparseq.accounting.pilots.ladder import CELLS, Floats
from sparseq.accounting.pilots.parent import NO_PARENT, Parent
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Term
from sparseq.question.plan import (
    Cell,
    Kind,
    Measure,
    Query,
    Relation,
)
from sparseq.question.work import is_very_slow
from sparseq.sql.bins import bin_of, even_bins, less, times
from sparseq.stream.joint_unit import BELOW, Joint
from sparseq.stream.part_price import PartPrice
from sparseq.stream.stream_progress import ROWS, SUM, WEIGHTS, Course

OWN_PRICE = 0.25
"""The price of a column pilot that serves one question."""


@dataclass(frozen=True)
class ColumnPilot:
    """A column pilot that a question needs: public.

    Attributes:
        key: Its name; "" if it serves this question only.
        query: Counts rows by value.
        edges: The edges of its cells.
        price: The most that it costs a user.
    """

    key: str
    query: Query
    edges: Floats
    price: float


def column_pilot(query: Query, measure: Measure) -> ColumnPilot | None:
    """Return the column pilot of a sum's values; None: the values have no bounds.

    The pilot covers all rows of the stored table if the value is computed from its columns;
    otherwise, or if conditions are part of the value, it covers the rows of the question.
    """
    if measure.kind is not Kind.SUM or measure.bounds is None or measure.value is None:
        return None
    low, high = measure.bounds
    if not low < high:
        return None
    edges = value_edges(low, high)
    places = tuple(edges.tolist())
    value, table = measure.value, rows_in(query)
    rows = Measure(Kind.ROWS, None, "values", edges=places, bin=bin_of(value, places, nearest=True))
    shared = table and value.term is not None
    relation = query.relation
    if shared:
        relation = all_rows(query)
    asked = Query("pilot: values", relation, (), (rows,), None)
    key = f"values of {value.sql} in {table} within {low!r}..{high!r}" if shared else ""
    return ColumnPilot(key, asked, edges, 1.0 if shared else OWN_PRICE)


def asks_values(query: Query, known: bool) -> bool:
    """Tell whether a column's values may be measured, or looked up, before a question.

    They may not before joins. Before a very slow question they may only if they are `known`,
    because another thread reads its rows, before any noise is drawn.
    """
    return not query.relation.caps and (known or not is_very_slow(query))


def own_pilot(pilot: ColumnPilot, query: Query) -> ColumnPilot:
    """Return a column pilot that covers the rows of one question only."""
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
    """Return a measure that counts rows by bin, with new bins."""
    assert measure.bin is not None
    assert measure.bin.term is not None
    place = bin_of(Cell.of(measure.bin.term.arguments[0]), edges, nearest=True)
    return replace(measure, edges=edges, bin=place)


def all_rows(query: Query) -> Relation:
    """Return all rows of a question's stored table."""
    table = query.relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
    return replace(query.relation, sql=table, where="", conditions=())


def parents_of(query: Query) -> dict[str, Query]:
    """Return the parent pilots that inform a question, by name.

    They count all rows of the same stored table per user and, for a sum of a column that is never
    negative, measure the column's total per user.
    """
    table = rows_in(query)
    kinds = {m.kind for m in query.measures}
    if not table or kinds == {Kind.USERS}:
        return {}
    parents = {}
    if kinds != {Kind.SUM}:
        parents[rows_of(table)] = _parent(query, Measure(Kind.ROWS, None, "rows"))
    for measure in query.measures:
        column = _column(measure)
        if measure.kind is Kind.SUM and column is not None:
            key = _sum_of(column, measure, table)
            parents[key] = _parent(query, replace(measure, edges=(), bin=None))
    return parents


def people_of(query: Query) -> dict[str, Query]:
    """Return the pilot of users by faded weight, by name: only for stored tables and for questions
    that count users."""
    rows = rows_in(query)
    if not rows or all(m.kind is not Kind.USERS for m in query.measures):
        return {}
    return {f"{WEIGHTS}{rows}": _parent(query, Measure(Kind.USERS, None, "people"))}


def rows_in(query: Query) -> str:
    """Return the name of the rows that the pilots of a question's stored table cover.

    It is the table's name, plus the join if public tables are joined to it: the join drops rows
    without a match, and a column may belong to a public table. "": no such rows.
    """
    relation = query.relation
    return f"{relation.stored}, {all_rows(query).sql}" if relation.joined else relation.stored


def rows_of(rows: str) -> str:
    """Return the name of the parent pilot of some rows (`rows_in`)."""
    return f"{ROWS}{rows}"


def _sum_of(column: ColumnId, measure: Measure, rows: str) -> str:
    name = column.name if column.table == rows else str(column)
    return f"{SUM}{name} in {rows} up to {measure.scale!r}"


def parent_in(parents: Mapping[str, Parent], asked: Joint) -> Parent:
    """Return the parent of a question, in its joint unit: the sum over its measures.

    A sum without its own parent is treated as up to twice a user's rows, with values of one unit.
    """
    table = rows_in(asked.query)
    rows, together = parents.get(rows_of(table), NO_PARENT), NO_PARENT
    for part in asked.parts:
        measure = part.measure
        column = _column(measure) if measure.kind is Kind.SUM else None
        own = rows if measure.kind is not Kind.SUM else None
        if column is not None:
            own = parents.get(_sum_of(column, measure, table))
        if measure.kind is not Kind.SUM:
            together = together.add(rows)
            continue
        greatest = math.ceil(math.log2((measure.scale or part.unit) / part.unit) - 1e-9)
        mine = rows.shift(min(greatest, 1)) if own is None else own.shift(greatest - BELOW)
        together = together.add(mine)
    return together


def counted_before(asked: Joint, course: Course, pays: PartPrice) -> Floats | None:
    """Return the parent pilot that counted exactly the users of a question on the same ladder.

    It repeats the measurement of the question's own pilots, if the question is about all rows of a
    table or a column's total, and if no user had a weight below 1 at the parent's release or has
    one now. None: there is no such pilot.
    """
    query, relation = asked.query, asked.query.relation
    kin = list(parents_of(query).items())
    if len(kin) != 1 or query.coordinates != 1 or relation.where or not math.isinf(asked.most):
        return None
    ((key, parent),) = kin
    known, (mine,), (whole,) = course.parents.get(key), query.measures, parent.measures
    if replace(mine, label="") != replace(whole, label="") or relation.caps:
        return None
    if known is None or known.epoch != course.epoch or course.life is not None:
        return None
    faded = known.allowance < 1 or course.least_allowance(pays.base) < 1
    people = np.array(known.people)
    return None if faded or len(people) != CELLS else people


def centred_total(total: Measure, centre: float, spread: float) -> tuple[Measure, float]:
    """Return the sum of values minus a centre, and the centre, which has few binary digits.

    Example:
        >>> from sparseq.question.plan import Cell
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
    """Count the centred values that a summand multiplies: 1, 2 in products, otherwise 0.

    Example:
        >>> from sparseq.language.expression_tree import Term
        >>> from sparseq.language.types import DOUBLE
        >>> from sparseq.question.plan import Cell
        >>> x = Measure(Kind.SUM, Cell.of(Term(DOUBLE, "x")), "sum of x", bounds=(0, 8))
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
    """Return the sum of products of two centred values, or of squares of one.

    Its lattice has 2**17 steps to the greatest product, or up to 2**8 times more where values lie
    in a small part of their bounds: then a user may have 64 rows of the greatest product in a cell.

    Args:
        x, y: Sums of the centred values; the same object twice: squares.
        products: The measure that the question asks for.
        size: The approximate size of a product.

    Example:
        >>> from sparseq.question.plan import Cell
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
        products,
        value=times(x.value, y.value),
        bounds=(0.0 if x is y else min(ends), max(ends)),
        scale=math.ldexp(most, -finer),
        integral=False,
    )


def _parent(query: Query, measure: Measure) -> Query:
    return Query(f"pilot: {measure.label}", all_rows(query), (), (measure,), None)


def _column(measure: Measure) -> ColumnId | None:
    """Return the column that a measure sums if it is never negative; otherwise None."""
    term = None if measure.value is None else without_casts(measure.value.term)
    if term is None or measure.bounds is None or measure.bounds[0] < 0:
        return None
    return measure.cut or term.column


def without_casts(term: Term | None) -> Term | None:
    """Return a term without its outer casts."""
    while term is not None and term.function.startswith("cast") and len(term.arguments) == 1:
        term = term.arguments[0]
    return term
