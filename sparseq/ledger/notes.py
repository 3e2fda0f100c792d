"""Notes of features beside the releases: typed, in a ledger's own transactions.

A feature (a forecast, a watch, a run of training) says what its notes look like, once, and hands
them over with a release; it knows no database. They are durable with the release or not at all.

The name of a request in the journal: who asks, and a name that nobody else can take.

An analyst may call a request by any text. What the system itself asks (a monitor's tick, the node
of a watch, a step of training, a line of a replayed log) has a name in the asker's own namespace,
and only code can make a `RequestId` of one: a text, wherever it comes from, is an analyst's.

    RequestId.of_analyst("monday")                   analyst/monday
    RequestId.of(Asker.WATCH, "1", "alarm")          watch//1/alarm

On the right is what the journal stores. The asker is what stands before the first slash, and has
none itself, so two askers' names are never the same, whatever their texts are.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.base.arguments import check_text
from sparseq.base.errors import ParameterError

# -- notes of features beside the releases: typed, in a ledger's own transactions ------------------

USER = "_user"
"""The column of a note that says whom it is about."""
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
"""One thing that can be written with a release."""


# -- the name of a request in the journal: who asks, and a name that nobody else can take ----------


class Asker(StrEnum):
    """The kind of asker: each has names of its own."""

    ANALYST = "analyst"
    MONITOR = "monitor"
    WATCH = "watch"
    TRAIN = "train"
    REPLAY = "replay"
    CLIENT = "client"  # of a server: the first part is the token's name


@dataclass(frozen=True)
class RequestId:
    """The name of one request.

    Attributes:
        asker: Whose name it is.
        text: The name, as it is shown.
        question: What is asked, in short, where the same name may stand for several questions: a
            series whose query was changed, a log of the same file name. Each has its own answer.
        former: How an earlier version of sparseq spelled it, where such names can't be told from
            analysts'. Answers of that version are still found by it (see `Journal`).

    Example:
        >>> RequestId.of_analyst("watch//1").stored, RequestId.of(Asker.WATCH, "1").stored
        ('analyst/watch//1', 'watch//1')
        >>> RequestId.read("analyst/watch//1") == RequestId.of_analyst("watch//1")
        True
    """

    asker: Asker
    text: str
    question: str = ""
    former: str = field(default="", compare=False, repr=False)

    @classmethod
    def of_analyst(cls, text: str) -> RequestId:
        """Return an analyst's: any text."""
        return cls(Asker.ANALYST, text)

    @classmethod
    def of(cls, asker: Asker, *parts: str, question: str = "", former: str = "") -> RequestId:
        """Return the system's: parts that no other parts give the same name as.

        >>> a, b = RequestId.of(Asker.TRAIN, "a/b", "c"), RequestId.of(Asker.TRAIN, "a", "b/c")
        >>> a.text, b.text
        ('a%2Fb/c', 'a/b/c')
        """
        *some, last = parts
        text = "/".join([*(part.replace("%", "%25").replace("/", "%2F") for part in some), last])
        return cls(asker, text, digest(question) if question else "", former)

    @classmethod
    def read(cls, stored: str) -> RequestId:
        """Return what `stored` was made from."""
        asker, _, rest = stored.partition("/")
        if asker == Asker.ANALYST:
            return cls(Asker.ANALYST, rest)
        question, _, text = rest.partition("/")
        return cls(Asker(asker), text, question)

    @property
    def stored(self) -> str:
        """The text that the journal has."""
        if self.asker is Asker.ANALYST:
            return f"{self.asker}/{self.text}"
        return f"{self.asker}/{self.question}/{self.text}"

    def __str__(self) -> str:
        """An analyst's as it was given; another's with its asker before it."""
        return self.text if self.asker is Asker.ANALYST else f"{self.asker}/{self.text}"


def requested(given: RequestId | str | None) -> RequestId | None:
    """Return what a caller gave: a text is always an analyst's."""
    if given is None or isinstance(given, RequestId):
        return given
    if not isinstance(given, str):
        raise ParameterError(f"a request id is a {type(given).__name__}; it must be a text")
    check_text("the request id", given)
    return RequestId.of_analyst(given)


def digest(question: str) -> str:
    """Return 64 bits that stand for a text. The journal compares the text itself as well."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]
