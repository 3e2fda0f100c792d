"""Notes of features, written with the releases: typed, in a ledger's own transactions.

A feature (a forecast, a watch, a run of training) declares the columns of its notes once, and
passes notes with a release; it needs no database. They are durable with the release or not at all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

USER = "_user"
"""The column of a note that holds the index of the user it is about."""
_TYPES = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BLOB": pa.binary(),
}


@dataclass(frozen=True)
class NoteTable:
    """A table of notes, to which rows are added.

    Attributes:
        name: The table's name in the ledger.
        columns: The columns with their types: VARCHAR, BIGINT, INTEGER, DOUBLE, BOOLEAN or BLOB. No
            value is NULL. A table of the same name with a subset of the columns can read these
            rows.

    Example:
        >>> seen = NoteTable("seen", {"tick": "BIGINT", "_user": "INTEGER"})
        >>> seen.rows(tick=7, _user=[1, 2]).table.to_pylist()
        [{'tick': 7, '_user': 1}, {'tick': 7, '_user': 2}]
    """

    name: str
    columns: Mapping[str, str]

    @property
    def schema(self) -> pa.Schema:
        """The schema in Arrow's types."""
        return pa.schema([pa.field(n, _TYPES[t], nullable=False) for n, t in self.columns.items()])

    def rows(self, **values: Any) -> NoteRows:
        """Return rows with these values; a single value is repeated in each row."""
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
    """Rows to be written to a table of notes."""

    of: NoteTable
    table: pa.Table


@dataclass(frozen=True)
class Fact:
    """Plain data under a key; it replaces the former value."""

    key: str
    value: Any


DIFFERENT = "different"
"""The kind of the curator's log lines about a user whose rows alone change an answer's meaning."""


@dataclass(frozen=True)
class CuratorLine:
    """A line for the curator's log: private.

    Attributes:
        kind: The subject, one word.
        message: The text.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class LoggedLine:
    """A line of the curator's log with its time: private.

    Attributes:
        at: The time of writing, UTC.
        kind: The subject, one word: "ingest", "engine", "loss" …
        message: The text.
    """

    at: dt.datetime
    kind: str
    message: str


Note = NoteRows | Fact | CuratorLine
"""A thing that can be written together with a release."""
