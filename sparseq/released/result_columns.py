"""The columns of an answer: their roles and their names.

An answer has the columns that its question names, in that order. Each is a key or a noised value.
The columns of an interval follow their noised value. The metadata of the Arrow schema's fields
identify a column by its role and by the column to which it belongs:

    sparseq.role    key, value, error, low, high, suppressed
    sparseq.of      for an interval's column: the name of the value's column

**Names.** `result_names` chooses them for every interface. Names from the question take precedence:
`n` stays `n`. The first of several columns with the same name keeps it; the second becomes `n_1`,
as in a frame from DuckDB. An interval's column is named `n_error`, `n_low`, `n_high` or
`n_suppressed`; if that name is taken, `n_low_2`, then `n_low_3`. Names that differ only in case
count as equal, as in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

import pyarrow as pa

from sparseq.question.plan import ERROR, INTERVAL

_ROLE, _OF = b"sparseq.role", b"sparseq.of"
BIN_ENDS = ("bin_low", "bin_high")
"""The columns of a histogram's bins: keys, left of the counts."""


class ColumnRole(Enum):
    """The role of a column in an answer."""

    KEY = "key"
    VALUE = "value"
    ERROR = "error"
    LOW = "low"
    HIGH = "high"
    SUPPRESSED = "suppressed"

    @property
    def is_own(self) -> bool:
        """The question names the column."""
        return self in (ColumnRole.KEY, ColumnRole.VALUE)


@dataclass(frozen=True)
class ResultColumn:
    """One column that a question names, and the columns of its interval.

    Attributes:
        name: The name in the question.
        parts: Values, or their type, by role: only the key's, or the value's and its interval's.
    """

    name: str
    parts: Mapping[ColumnRole, pa.Array | pa.DataType] = field(compare=False)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return distinct names of columns, also if case is ignored.

    Example:
        >>> unique_names(["n", "n", "N", "n_1", "x"])
        ['n', 'n_2', 'N_3', 'n_1', 'x']
    """
    taken = {name.lower() for name in names}
    seen, found = set[str](), list[str]()
    for name in names:
        called = name if name.lower() not in seen else _free(name, 1, taken)
        seen.add(name.lower())
        taken.add(called.lower())
        found.append(called)
    return found


def result_names(columns: Sequence[ResultColumn]) -> list[dict[ColumnRole, str]]:
    """Return the names of an answer's columns, by role.

    Example:
        >>> n = {role: pa.float64() for role in (ColumnRole.VALUE, ColumnRole.LOW, ColumnRole.HIGH)}
        >>> total = ResultColumn("n_low", {ColumnRole.VALUE: pa.float64()})
        >>> [list(one.values()) for one in result_names([ResultColumn("n", n), total])]
        [['n', 'n_low_2', 'n_high'], ['n_low']]
    """
    own = unique_names([column.name for column in columns])
    taken = {name.lower() for name in own}
    found = []
    for column, name in zip(columns, own, strict=True):
        names: dict[ColumnRole, str] = {}
        for role in column.parts:
            wanted = name if role.is_own else f"{name}_{role.value}"
            free = role.is_own or wanted.lower() not in taken
            names[role] = wanted if free else _free(wanted, 2, taken)
            taken.add(names[role].lower())
        found.append(names)
    return found


def _free(name: str, first: int, taken: set[str]) -> str:
    """Return a name with a number that no other column has."""
    tries = (f"{name}_{k}" for k in count(first))
    return next(one for one in tries if one.lower() not in taken)


def result_schema(columns: Sequence[ResultColumn]) -> pa.Schema:
    """Return the schema of an answer with these columns."""
    fields = []
    for column, names in zip(columns, result_names(columns), strict=True):
        own = next(name for role, name in names.items() if role.is_own)
        for role, name in names.items():
            part = column.parts[role]
            kind = part if isinstance(part, pa.DataType) else part.type
            of = {} if role.is_own else {_OF: own.encode()}
            fields.append(pa.field(name, kind, metadata={_ROLE: role.value.encode(), **of}))
    return pa.schema(fields)


def result_table(columns: Sequence[ResultColumn]) -> pa.Table:
    """Return an answer with these columns."""
    arrays = [array for column in columns for array in column.parts.values()]
    return pa.Table.from_arrays(arrays, schema=result_schema(columns))


def column_parts(table: pa.Table | pa.Schema) -> dict[str, dict[ColumnRole, str]]:
    """Return the columns that a question names, each with the names of its parts by role.

    Answers of earlier versions have no roles in their metadata: there the names determine them.

    Example:
        >>> table = result_table([ResultColumn("k", {ColumnRole.KEY: pa.array([1])})])
        >>> column_parts(table)
        {'k': {<ColumnRole.KEY: 'key'>: 'k'}}
    """
    schema = table if isinstance(table, pa.Schema) else table.schema
    fields = [schema.field(i) for i in range(len(schema))]
    if not any(one.metadata and _ROLE in one.metadata for one in fields):
        return _parts_by_names(schema.names)
    found: dict[str, dict[ColumnRole, str]] = {}
    for one in fields:
        said = one.metadata or {}
        role = ColumnRole(said.get(_ROLE, b"key").decode())
        own = said[_OF].decode() if _OF in said else one.name
        found.setdefault(own, {})[role] = one.name
    return found


def _parts_by_names(names: Sequence[str]) -> dict[str, dict[ColumnRole, str]]:
    noised = {name for name in names if f"{name}_error" in names}
    others = [role for role in ColumnRole if not role.is_own]
    beside = {f"{name}_{role.value}" for name in noised for role in others}
    return {
        name: {ColumnRole.VALUE: name}
        | {r: f"{name}_{r.value}" for r in others if f"{name}_{r.value}" in names}
        if name in noised
        else {ColumnRole.KEY: name}
        for name in names
        if name not in beside
    }


def columns_of(table: pa.Table | pa.Schema) -> list[str]:
    """Return the names of the columns that the question of an answer names."""
    return list(column_parts(table))


def keys_of(table: pa.Table | pa.Schema) -> list[str]:
    """Return the names of an answer's columns without noise: its keys."""
    return [name for name, parts in column_parts(table).items() if ColumnRole.VALUE not in parts]


def noised_of(table: pa.Table | pa.Schema) -> list[str]:
    """Return the names of an answer's noised columns."""
    return [name for name, parts in column_parts(table).items() if ColumnRole.VALUE in parts]


def beside(table: pa.Table | pa.Schema, name: str, role: ColumnRole) -> str | None:
    """Return the name of the column with a role for another column; None: it has none."""
    return column_parts(table)[name].get(role)


def other_names(table: pa.Table | pa.Schema) -> dict[str, dict[str, str]]:
    """Return the interval columns whose names are not of the form x_low, by x and by role.

    Example:
        >>> roles = (ColumnRole.VALUE, ColumnRole.LOW)
        >>> n = ResultColumn("n", {role: pa.array([1.0]) for role in roles})
        >>> other_names(result_table([n, ResultColumn("n_low", {ColumnRole.KEY: pa.array([1])})]))
        {'n': {'low': 'n_low_2'}}
    """
    found = {
        name: {
            role.value: part
            for role, part in parts.items()
            if not role.is_own and part != f"{name}_{role.value}"
        }
        for name, parts in column_parts(table).items()
    }
    return {name: others for name, others in found.items() if others}


_BESIDE = re.compile(r".*_(error|low|high|suppressed)(_\d+)?", re.IGNORECASE | re.DOTALL)


def may_be_beside(name: str) -> bool:
    """Tell whether a name has the form of an interval's column: `n_low`, `n_low_2`."""
    return _BESIDE.fullmatch(name) is not None


def shown_columns(table: pa.Table, columns: str | None) -> pa.Table:
    """Return an answer with only the requested columns: see `Options.columns`.

    Example:
        >>> roles = (ColumnRole.VALUE, ColumnRole.ERROR, ColumnRole.LOW, ColumnRole.HIGH)
        >>> n = ResultColumn("n", {role: pa.array([1.0]) for role in roles})
        >>> shown_columns(result_table([n]), "error").column_names
        ['n', 'n_error']
    """
    if columns in (None, INTERVAL):
        return table
    kept = {ColumnRole.ERROR, ColumnRole.SUPPRESSED} if columns == ERROR else set()
    parts = [one for found in column_parts(table).values() for one in found.items()]
    shown = {name for role, name in parts if role.is_own or role in kept}
    return table.select([name for name in table.column_names if name in shown])
