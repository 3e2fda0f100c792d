"""SQL over noised answers, in a database without people.

It is post-processing: free, whatever it does. Its expressions are typed and total like all others,
its tables are the answers to the questions in it, and public ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sparseq.released.interval_propagation import HIGH, LOW, Shape, Width, carried
from sparseq.released.outputs import Estimate, Floats, Measurements, MeasureNode
from sparseq.released.question_batch import Place
from sparseq.released.render import noised_column
from sparseq.sql.from_clause import ColumnFacts, FromItem, quoted
from sparseq.sql.plan import LIMITS
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.subqueries import lower_inner

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
