"""SQL over noised answers, in a database without people.

It is post-processing: free, whatever it does. Its tables are the answers to the questions in it,
and public ones; `sparseq.sql.select` has made it, typed and total like all SQL here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.language.functions import rule_of
from sparseq.language.interval_arithmetic import Floats, lies_in
from sparseq.released.outputs import (
    Estimate,
    Intervals,
    LeastPeople,
    Measurements,
    Outputs,
)
from sparseq.released.render import Suppression, key_columns, noised_column
from sparseq.sql.plan import Domain

ENDS = "#ends"
"""The suffix of the column that says where the values of another lie."""
FEW = "#few"
"""The suffix of the column that says whether those of another are of too few people: 1, else 0."""


@dataclass(frozen=True)
class Place:
    """The place of one of several questions in the one that is asked.

    Attributes:
        outputs, domains: Its own.
        measures: The places of its measures among all.
        first: The place of its first group among all.
        types: DuckDB's types of its keys.
        sums: Which of its measures are sums.
        whole: Which of them are of whole numbers.
    """

    outputs: Outputs
    domains: tuple[Domain, ...]
    measures: tuple[int, ...]
    first: int
    groups: int
    types: tuple[str, ...]
    sums: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()

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


Run = Callable[[str, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class ShownColumn:
    """A column of an answer.

    Attributes:
        noised: It comes of noised values.
        has_ends: It has a column beside it that says where its values lie.
        has_few: It has one that says of which values too few people are.
        whole: Its values are whole numbers, but for the noise.
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
        sql: Its tables are "#q0", "#q1" …, the answers to `parts`.
        columns: What is shown.
        run: Runs SQL over public tables and those that it is given.
    """

    sql: str
    parts: tuple[Place, ...]
    columns: tuple[ShownColumn, ...]
    run: Run = field(compare=False)

    @property
    def least(self) -> LeastPeople | None:
        """The fewest people that what is shown may be about; None: any number."""
        return self.parts[0].outputs.least

    def hidden(self, noised: Measurements, i: int) -> NDArray[np.bool_]:
        """Tell in which groups and bins of all parts measure i is not shown."""
        hidden = np.zeros(noised.measures[i].shape, np.bool_)
        for part in self.parts:
            if i in part.measures:
                rows = slice(part.first, part.first + part.groups)
                hidden[rows] = part.outputs.hidden(part.of(noised), part.measures.index(i))
        return hidden

    def called(self, names: Mapping[str, str]) -> After:
        """Return it with columns called as they were written; `names`: by their small letters."""
        return replace(
            self, columns=tuple(replace(c, name=names.get(c.name, c.name)) for c in self.columns)
        )

    def shown(self, noised: Measurements, whole: bool) -> pa.Table:
        """Return the answer.

        Args:
            noised: What was measured for all parts.
            whole: Counts may be rounded to integers.
        """
        tables = {f"#q{i}": answer(part, noised) for i, part in enumerate(self.parts)}
        rows = self.run(self.sql, tables)
        columns: dict[str, pa.Array] = {}
        for shown in self.columns:
            name = shown.name.lower()  # as DuckDB was told
            values = rows[name].combine_chunks()
            few = np.zeros(len(values), np.bool_)
            if shown.has_few:
                few = np.nan_to_num(_floats(rows[name + FEW].combine_chunks())) > 0
            if not shown.noised or not _is_number(values.type):
                columns[shown.name] = pc.if_else(pa.array(few), None, values)
                continue
            value = _floats(values)
            low, high = (
                _floats(pc.struct_field(rows[name + ENDS].combine_chunks(), end))
                if shown.has_ends
                else np.full(len(value), np.nan)
                for end in ("low", "high")
            )
            integral = pa.types.is_integer(values.type) or (shown.whole and whole)
            hidden = None if self.least is None else Suppression(few, self.least.mark)
            columns |= noised_column(
                shown.name,
                Estimate(value, low, high),
                noised.weighted is not None,
                integral,
                hidden,
            )
        return pa.table(columns)


@dataclass(frozen=True)
class PublicRows:
    """The rows of a SELECT over public tables: an answer as they are, of which nobody is asked."""

    rows: pa.Table = field(compare=False)

    def called(self, names: Mapping[str, str]) -> PublicRows:
        """Return them with columns called as they were written; `names`: by their small letters."""
        written = [names.get(name.lower(), name) for name in self.rows.column_names]
        return PublicRows(self.rows.rename_columns(written))

    def shown(self, noised: Measurements, whole: bool) -> pa.Table:
        """Return the answer; there is nothing noised in it."""
        return self.rows


def _is_number(type: pa.DataType) -> bool:
    kinds = pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal
    return any(is_kind(type) for is_kind in kinds)


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def answer(part: Place, noised: Measurements) -> pa.Table:
    """Return the answer to one question, all of its groups: keys, values and their ends."""
    mine = part.of(noised)
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
            columns[output.name] = pa.array(np.broadcast_to(found, mine.groups).tolist())
    rows = pa.table(columns)
    return rows.take(part.outputs.rows(mine)) if part.outputs.possible else rows


def _finite(values: Floats) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def ends_function(name: pa.ChunkedArray, *arguments: pa.ChunkedArray) -> pa.StructArray:
    """Return where a function's values lie, for DuckDB.

    Args:
        name: The function's name in the table, in every row.
        arguments: Where its arguments lie, as pairs, or numbers that stand for themselves.

    Returns:
        Pairs; an end is NULL where nothing is known.
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
    return _floats(pc.struct_field(values, "low")), _floats(pc.struct_field(values, "high"))
