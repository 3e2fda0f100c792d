"""SQL over noised answers, in a database without data about users.

It is post-processing and costs nothing. Its tables are public tables and the answers to the
questions inside it; `sparseq.sql.select` generates the SQL, which is typed and total like all SQL
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.language.interval_arithmetic import Floats, lies_in
from sparseq.language.interval_rules import rule_of
from sparseq.question.plan import Domain
from sparseq.released.outputs import Estimate, Intervals, LeastPeople, Measurements, Outputs
from sparseq.released.render import Suppression, key_array, key_columns, noised_column
from sparseq.released.result_columns import ColumnRole, ResultColumn, result_table

ENDS = "#ends"
"""The suffix of the column with the intervals of another column."""
FEW = "#few"
"""The suffix of the column that flags values of another column with too few users: 1, else 0."""


@dataclass(frozen=True)
class Place:
    """The place of one of several questions in their combined question.

    Attributes:
        outputs, domains: The outputs and the domains of this question.
        measures: The places of its measures among all.
        first: The place of its first group among all.
        groups: The number of its groups.
        types: DuckDB's types of its keys.
        sums: The places of its measures that are sums.
        whole: The places of its measures with whole numbers.
        names: Its keys in the words of the query.
    """

    outputs: Outputs
    domains: tuple[Domain, ...]
    measures: tuple[int, ...]
    first: int
    groups: int
    types: tuple[str, ...]
    sums: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()

    def of(self, noised: Measurements) -> Measurements:
        """Return the measurements of this question."""
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


@dataclass(frozen=True)
class AskedTotal:
    """A question by groups, and a question about the total of the same rows in the same answer.

    Attributes:
        groups, total: Places of the two questions among the parts.
        counts: The place of the number of rows among the measures of each.
    """

    groups: int
    total: int
    counts: tuple[int, int]


Run = Callable[[str, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class ShownColumn:
    """A column of an answer.

    Attributes:
        noised: It is computed from noised values.
        has_ends: Another column has its intervals.
        has_few: Another column flags its values with too few users.
        whole: Its values are whole numbers, apart from the noise.
    """

    name: str
    noised: bool
    has_ends: bool
    has_few: bool
    whole: bool


@dataclass(frozen=True)
class After:
    """A SELECT over answers, ready to run.

    Attributes:
        sql: The SELECT; its tables are "#q0", "#q1" …, the answers to `parts`.
        parts: The questions.
        columns: The shown columns.
        run: Runs SQL over public tables and the given tables.
        totals: The parts whose total is also a part.
        over_groups: A value depends on several groups: an aggregate, a window or DISTINCT.
    """

    sql: str
    parts: tuple[Place, ...]
    columns: tuple[ShownColumn, ...]
    run: Run = field(compare=False)
    totals: tuple[AskedTotal, ...] = ()
    over_groups: bool = False

    @property
    def least(self) -> LeastPeople | None:
        """The least number of users behind a shown value; None: no minimum."""
        return self.parts[0].outputs.least

    def hidden(self, noised: Measurements, i: int) -> NDArray[np.bool_]:
        """Return a mask of the groups and bins of all parts in which measure i is not shown."""
        hidden = np.zeros(noised.measures[i].shape, np.bool_)
        for part in self.parts:
            if i in part.measures:
                rows = slice(part.first, part.first + part.groups)
                hidden[rows] = part.outputs.hidden(part.of(noised), part.measures.index(i))
        return hidden

    def called(self, names: Mapping[str, str]) -> After:
        """Return a copy with columns spelled as in the query; `names`: by lower-case form."""
        return replace(
            self, columns=tuple(replace(c, name=names.get(c.name, c.name)) for c in self.columns)
        )

    def shown(self, noised: Measurements, whole: bool) -> pa.Table:
        """Return the answer.

        Args:
            noised: The measurements of all parts.
            whole: Counts may be rounded to integers.
        """
        tables = {f"#q{i}": answer(part, noised) for i, part in enumerate(self.parts)}
        rows = self.run(self.sql, tables)
        columns = list[ResultColumn]()
        for shown in self.columns:
            name = shown.name.lower()  # as in the SQL
            values = rows[name].combine_chunks()
            few = np.zeros(len(values), np.bool_)
            if shown.has_few:
                few = np.nan_to_num(_floats(rows[name + FEW].combine_chunks())) > 0
            if not shown.noised or not _is_number(values.type):
                array = _without(values, few)
                columns.append(ResultColumn(shown.name, {ColumnRole.KEY: array}))
                continue
            value = _floats(values)
            low, high = (
                _ends(rows[name + ENDS]) if shown.has_ends else [np.full(len(value), np.nan)] * 2
            )
            integral = pa.types.is_integer(values.type) or (shown.whole and whole)
            hidden = None if self.least is None else Suppression(few, self.least.mark)
            known, weighted = Estimate(value, low, high), noised.weighted is not None
            columns.append(noised_column(shown.name, known, weighted, integral, hidden))
        return result_table(columns)


@dataclass(frozen=True)
class PublicRows:
    """The rows of a SELECT over public tables: an exact answer that uses no data about users."""

    rows: pa.Table = field(compare=False)

    def called(self, names: Mapping[str, str]) -> PublicRows:
        """Return a copy with columns spelled as in the query; `names`: by lower-case form."""
        written = [names.get(name.lower(), name) for name in self.rows.column_names]
        return PublicRows(self.rows.rename_columns(written))

    def shown(self, noised: Measurements, whole: bool) -> pa.Table:
        """Return the answer, which contains no noised value."""
        columns = zip(self.rows.column_names, self.rows.columns, strict=True)
        return result_table([ResultColumn(n, {ColumnRole.KEY: c}) for n, c in columns])


def _is_number(type: pa.DataType) -> bool:
    kinds = pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal
    return any(is_kind(type) for is_kind in kinds)


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _without(values: pa.Array, few: NDArray[np.bool_]) -> pa.Array:
    """Return values with NULL in place of values with too few users."""
    if not few.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=few))


def answer(part: Place, noised: Measurements) -> pa.Table:
    """Return the answer to one question, with all of its groups: keys, values and intervals."""
    mine = part.outputs.present(part.of(noised))
    columns = {}
    for output in part.outputs.columns:
        found = output.node(mine)
        if isinstance(found, Estimate):
            value, *ends = (
                _finite(np.broadcast_to(x, mine.groups))
                for x in (found.value, found.low, found.high)
            )
            columns[output.name] = value
            columns[output.name + ENDS] = pa.StructArray.from_arrays(ends, ["low", "high"])
            if part.outputs.least is not None:
                few = part.outputs.hides(output.node, mine).astype(np.int32)
                columns[output.name + FEW] = pa.array(few)
        else:
            columns[output.name] = key_array(np.broadcast_to(found, mine.groups).tolist())
    rows = pa.table(columns)
    return rows.take(part.outputs.rows(mine))


def _finite(values: Floats) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def ends_function(name: pa.ChunkedArray, *arguments: pa.ChunkedArray) -> pa.StructArray:
    """Return the intervals of a function's values, for DuckDB.

    Args:
        name: The function's name in the table, in every row.
        arguments: The intervals of its arguments as pairs, or exact numbers.

    Returns:
        Pairs of ends; an unknown end is NULL.
    """
    rule = rule_of(name[0].as_py(), len(arguments)) if len(name) else None
    if rule is None:
        return pa.array(
            [None] * len(name), pa.struct([("low", pa.float64()), ("high", pa.float64())])
        )
    ends = lies_in(rule, *map(_ends, arguments))
    return pa.StructArray.from_arrays(
        [_finite(np.broadcast_to(end, len(name))) for end in ends], ["low", "high"]
    )


def _ends(argument: pa.ChunkedArray) -> tuple[Floats, Floats]:
    values = argument.combine_chunks()
    if not pa.types.is_struct(values.type):
        return _floats(values), _floats(values)
    fields = values.flatten()  # NULL where the pair is NULL
    low, high = (fields[values.type.get_field_index(end)] for end in ("low", "high"))
    return _floats(low), _floats(high)
