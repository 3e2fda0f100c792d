"""Notes of features beside the releases: typed, in a ledger's own transactions.

A feature (a forecast, a watch, a run of training) says what its notes look like, once, and hands
them over with a release; it knows no database. They are durable with the release or not at all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

USER = "_user"
"""The column of a note that says whom it is about."""
_TYPES = {
    "VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(), "BLOB": pa.binary(),
}  # fmt: skip


@dataclass(frozen=True)
class NoteTable:
    """A table of notes, which grows by rows.

    Attributes:
        name: In the ledger.
        columns: Of a row, each with its type, one of VARCHAR, BIGINT, INTEGER, DOUBLE, BOOLEAN and
            BLOB; none is ever missing. A table of the same name with some of them reads these.

    Example:
        >>> seen = NoteTable("seen", {"tick": "BIGINT", "_user": "INTEGER"})
        >>> seen.rows(tick=7, _user=[1, 2]).table.to_pylist()
        [{'tick': 7, '_user': 1}, {'tick': 7, '_user': 2}]
    """

    name: str
    columns: Mapping[str, str]

    @property
    def schema(self) -> pa.Schema:
        """Its columns in Arrow's types."""
        return pa.schema([pa.field(n, _TYPES[t], nullable=False) for n, t in self.columns.items()])

    def rows(self, **values: Any) -> NoteRows:
        """Return rows of some values; what is one value is in each of them."""
        sizes = [len(v) for v in values.values() if isinstance(v, (list, np.ndarray))]
        size = sizes[0] if sizes else 1
        columns = []
        for name, type in zip(self.columns, self.schema.types, strict=True):
            value = values[name]
            several = isinstance(value, (list, np.ndarray))
            columns.append(
                pa.array(value, type) if several else pa.repeat(pa.scalar(value, type), size)
            )
        return NoteRows(self, pa.table(columns, schema=self.schema))

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class NoteRows:
    """Rows of a table of notes, to be written."""

    of: NoteTable
    table: pa.Table


@dataclass(frozen=True)
class Fact:
    """Plain data under a key, in place of what was there before."""

    key: str
    value: Any


DIFFERENT = "different"
"""The kind of the curator's lines about somebody whose rows give another answer alone."""


@dataclass(frozen=True)
class CuratorLine:
    """A line of the curator's log: private.

    Attributes:
        kind: What it is about, one word.
        message: In words.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class LoggedLine:
    """A line as it stands in the curator's log: private.

    Attributes:
        at: When it was written, UTC.
        kind: What it is about, one word: "ingest", "engine", "loss" …
        message: In words.
    """

    at: dt.datetime
    kind: str
    message: str


Note = NoteRows | Fact | CuratorLine
"""What can be written with a release."""
