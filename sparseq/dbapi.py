"""Python's database interface, version 2.0 (PEP 249), for programs that expect one.

    from sparseq import dbapi

    with dbapi.connect("shop.sparseq") as connection:
        frame = pandas.read_sql("SELECT count(*) AS n FROM purchases", connection)

Every statement is one SELECT, and is charged when it is executed: its answer is durable before it
can be fetched. So there is nothing to commit, and a rollback takes nothing back. Rows have the
columns of `Answer.arrow`: x_low and x_high beside each noised x.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sparseq
from sparseq.base import errors

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.store.ask import Params
    from sparseq.store.remote import Remote
    from sparseq.store.store import Store

apilevel = "2.0"
threadsafety = 2  # threads may share the module and connections
paramstyle = "qmark"  # and $name, with a mapping


class Warning(Exception):
    """Never raised."""


class Error(Exception):
    """Base of all errors here; the text ends with how to mend it."""


class InterfaceError(Error):
    """The interface was used in a way that it can't be."""


class DatabaseError(Error):
    """Base of what has to do with the store."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The store or the server can't be used now."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class InternalError(DatabaseError):
    """Something went wrong inside."""


class ProgrammingError(DatabaseError):
    """The text is no SQL, parameters do not fit, or what is used is closed."""


class NotSupportedError(DatabaseError):
    """The query can't be answered privately; the text says what to write instead."""


_KINDS: tuple[tuple[type[errors.SparseqError], type[Error]], ...] = (
    (errors.NotSql, ProgrammingError),
    (errors.ParameterError, ProgrammingError),
    (errors.QueryRefused, NotSupportedError),
    (errors.DataError, DataError),
    (errors.StoreError, OperationalError),
    (errors.ServerError, OperationalError),
    (errors.SparseqError, InternalError),
)


@contextmanager
def _translate() -> Iterator[None]:
    try:
        yield
    except errors.SparseqError as error:
        raise next(here for kind, here in _KINDS if isinstance(error, kind))(str(error)) from error


class TypeObject:
    """Equal to the type codes of a kind of columns (`Cursor.description`)."""

    def __init__(self, name: str, *codes: str) -> None:
        self._name, self._codes = name, codes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self is other
        return isinstance(other, str) and other.partition("[")[0].partition("(")[0] in self._codes

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


_WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
STRING = TypeObject("STRING", "string", "large_string", "string_view")
BINARY = TypeObject("BINARY", "binary", "fixed_size_binary", "extension<arrow.uuid>")
NUMBER = TypeObject("NUMBER", *_WHOLE, "float", "double", "decimal128", "bool")
DATETIME = TypeObject("DATETIME", "date32", "timestamp", "time64")
ROWID = TypeObject("ROWID")

Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes


def DateFromTicks(ticks: float) -> dt.date:
    """Return the day of a moment, in seconds since 1970, where this runs."""
    return dt.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> dt.time:
    """Return the time of day of a moment, in seconds since 1970, where this runs."""
    return dt.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:
    """Return a moment, in seconds since 1970, where this runs."""
    return dt.datetime.fromtimestamp(ticks)


def connect(database: str | PathLike[str] | Store | Remote, token: str | None = None) -> Connection:
    """Connect to a store.

    Args:
        database: Its path, the address of a server, or an open store, which stays open.
        token: For a server.

    Raises:
        OperationalError: It can't be opened, or asked.

    Example:
        >>> import pyarrow as pa
        >>> store = sparseq.create(None, {"t": pa.table({"who": [1, 2]})}, user="who", seed=1)
        >>> cursor = connect(store).cursor()
        >>> _ = cursor.execute("SELECT count(*) AS n FROM t WHERE who > ?", [0])
        >>> [column[0] for column in cursor.description], len(cursor.fetchall())
        (['n', 'n_error', 'n_low', 'n_high'], 1)
    """
    if isinstance(database, (str, PathLike)):
        with _translate():
            path = database if isinstance(database, str) else str(database)
            opened = sparseq.connect(path) if token is None else sparseq.connect(path, token=token)
        return Connection(opened, True)
    return Connection(database, False)


class Connection:
    """A store that is asked by cursors. As a context manager, it is closed at the end."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError = InternalError, ProgrammingError
    NotSupportedError = NotSupportedError
    autocommit = True

    def __init__(self, store: Store | Remote, owned: bool) -> None:
        self._store: Store | Remote | None = store
        self._owned = owned

    @property
    def store(self) -> Store | Remote:
        """The store that is asked; raises `ProgrammingError` where the connection is closed."""
        if self._store is None:
            raise ProgrammingError("the connection is closed")
        return self._store

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        _ = self.store
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: what was answered is durable."""
        _ = self.store

    def rollback(self) -> None:
        """Do nothing: what was answered was charged, and can't be taken back."""
        _ = self.store

    def close(self) -> None:
        """Close the store, if it was opened by `connect`."""
        store, self._store = self.store, None
        if self._owned:
            store.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self.close()


class Cursor:
    """Executes statements, and has the rows of the last one.

    Attributes:
        connection: The connection of the cursor.
        arraysize: Number of rows that `fetchmany` returns by default.
        answer: The answer of the last statement.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.answer: Answer | None = None
        self.rownumber: int | None = None
        self._rows: list[tuple[Any, ...]] | None = None
        self._closed = False

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]] | None:
        """Name, type code and whether it may be NULL, of each column; None before a statement."""
        if self.answer is None:
            return None
        schema: pa.Schema = self.answer.arrow().schema
        return [(f.name, str(f.type), None, None, None, None, f.nullable) for f in schema]

    @property
    def rowcount(self) -> int:
        """Number of rows of the last statement; -1: there was none."""
        return -1 if self._rows is None else len(self._rows)

    def execute(self, operation: str, parameters: Params | None = None) -> Cursor:
        """Ask, and charge; parameters by place for `?`, or by name for `$name`.

        Raises:
            ProgrammingError: It is no SQL, or parameters do not fit.
            NotSupportedError: It can't be answered privately.
        """
        store = self._open()
        self.answer = self._rows = self.rownumber = None
        with _translate():
            self.answer = store.sql(operation, parameters)
        columns = (column.to_pylist() for column in self.answer.arrow().columns)
        self._rows, self.rownumber = list(zip(*columns, strict=True)), 0
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Params]) -> Cursor:
        """Execute once for each of the parameters; rows are those of the last."""
        self._open()
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, None after the last."""
        found = self._fetch(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows, at most `size` (`arraysize`)."""
        return self._fetch(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        return self._fetch(None)

    def _fetch(self, size: int | None) -> list[tuple[Any, ...]]:
        self._open()
        if self._rows is None or self.rownumber is None:
            raise ProgrammingError("nothing was executed")
        rows = self._rows[self.rownumber :][:size]
        self.rownumber += len(rows)
        return rows

    def close(self) -> None:
        """Let go of the rows."""
        self._open()
        self._closed, self._rows, self.answer = True, None, None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            self.close()

    def _open(self) -> Store | Remote:
        if self._closed:
            raise ProgrammingError("the cursor is closed")
        return self.connection.store
