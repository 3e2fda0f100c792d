"""The SELECT over the answers of several questions.

It is lowered to SQL that `sparseq.released.sql_over_noise` runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sparseq.base.sql_text import quote
from sparseq.language import types as T
from sparseq.question.catalog import INTEGER_TYPES
from sparseq.question.limits import LIMITS
from sparseq.released.outputs import MeasureNode
from sparseq.released.sql_over_noise import (
    ENDS,
    FEW,
    After,
    Place,
    ShownColumn,
)
from sparseq.sql.from_clause import ColumnFacts, FromItem
from sparseq.sql.interval_propagation import Shape, Width, with_ends
from sparseq.sql.joint_questions import MOMENTS
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.subqueries import lower_inner


def after(select: exp.Select, parts: Sequence[Place], public: PublicFacts) -> After:
    """Lower the SELECT over answers.

    Args:
        select: A SELECT over the tables #q0, #q1 …
        parts: The questions, one for each of these tables.
        public: The types and the public tables.

    Raises:
        QueryRefused: It is not understood, or several columns share a name.
    """
    over_groups = select.find(exp.AggFunc, exp.Window, exp.Distinct, exp.Group) is not None
    shapes = {f"#q{i}": _shape(part) for i, part in enumerate(parts)}
    select, shape = with_ends(select, shapes)
    sources = {name: _source(name, part) for name, part in zip(shapes, parts, strict=True)}
    rows = lower_inner(select, "", public, sources)
    LIMITS["cells"].check(rows.most * len(shape.columns), public.limits)
    sql = rows.derived
    for name, part in zip(shapes, parts, strict=True):
        sql = sql.replace(_rows(part, ""), _rows(part, quote(name)))
    sql = sql.removeprefix("(").removesuffix(")")
    shown = [
        ShownColumn(name, w.noised, w.ends is not None, w.few is not None, w.whole)
        for name, w in shape.columns.items()
    ]
    return After(sql, tuple(parts), tuple(shown), public.answer, over_groups=over_groups)


def _shape(part: Place) -> Shape:
    columns = {}
    for output in part.outputs.columns:
        if output.name.startswith("k"):
            kind = part.types[int(output.name[1:])]
            columns[output.name] = Width(sure=True, integer=kind in INTEGER_TYPES)
        else:
            node, ends = output.node, exp.column(output.name + ENDS, quoted=True)
            is_sum = isinstance(node, MeasureNode) and node.i in part.sums
            sure = isinstance(node, MeasureNode)
            few = None if part.outputs.least is None else exp.null()
            whole = output.integral or (isinstance(node, MeasureNode) and node.i in part.whole)
            columns[output.name] = Width(True, ends, sure, is_sum, output.integral, few, whole)
    return Shape(columns, True)


def _source(name: str, part: Place) -> FromItem:
    zoned = {f"k{i}" for i, t in enumerate(part.types) if t == MOMENTS}
    columns = {n: ColumnFacts(t, zoned=n in zoned) for n, t in _types(part).items()}
    return FromItem(name, False, set(), columns, derived=_rows(part, ""), most=part.groups)


def _types(part: Place) -> dict[str, str]:
    types: dict[str, str] = {}
    for output in part.outputs.columns:
        if output.name.startswith("k"):
            kind = part.types[int(output.name[1:])]
            types[output.name] = "TIMESTAMP" if kind == MOMENTS else kind
        else:
            types |= {output.name: "DOUBLE", output.name + ENDS: T.ENDS.sql}
            if part.outputs.least is not None:
                types[output.name + FEW] = "INTEGER"
    return types


def _rows(part: Place, table: str) -> str:
    """Return SQL of an answer's rows; without a table it gives no rows, with the right types."""
    types = _types(part)
    origin = f"FROM {table}" if table else f"WHERE {part.first} < 0"
    columns = (
        f"CAST({quote(n) if table else 'NULL'} AS {t}) AS {quote(n)}" for n, t in types.items()
    )
    return f"(SELECT {', '.join(columns)} {origin})"
