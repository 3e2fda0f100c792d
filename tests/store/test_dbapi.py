"""What PEP 249 asks of a module, in the order of its text, and what programs make of it."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import sparseq
from sparseq import dbapi

ROWS = pa.table(
    {
        "who": [i % 40 for i in range(400)],
        "kind": ["a", "b"] * 200,
        "day": [dt.date(2024, 1, 1 + i % 3) for i in range(400)],
    }
)
COUNT = "SELECT count(*) AS n FROM t"
KINDS = (
    "SELECT kind, count(*) AS n FROM t WHERE kind IN ('a', 'b', 'c') GROUP BY kind ORDER BY kind"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.sparseq"
    sparseq.create(path, {"t": ROWS}, user="who", seed=1).close()
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[dbapi.Connection]:
    with dbapi.connect(path) as connection:
        yield connection


@pytest.fixture
def cursor(connection: dbapi.Connection) -> dbapi.Cursor:
    return connection.cursor()


def test_globals() -> None:
    assert dbapi.apilevel == "2.0"
    assert dbapi.threadsafety in (0, 1, 2, 3)
    assert dbapi.paramstyle == "qmark"
    assert callable(dbapi.connect)


def test_exceptions_are_in_their_tree() -> None:
    parents = {
        "Warning": Exception,
        "Error": Exception,
        "InterfaceError": dbapi.Error,
        "DatabaseError": dbapi.Error,
        "DataError": dbapi.DatabaseError,
        "OperationalError": dbapi.DatabaseError,
        "IntegrityError": dbapi.DatabaseError,
        "InternalError": dbapi.DatabaseError,
        "ProgrammingError": dbapi.DatabaseError,
        "NotSupportedError": dbapi.DatabaseError,
    }
    for name, parent in parents.items():
        assert getattr(dbapi, name).__bases__ == (parent,)
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)


def test_connections(path: Path) -> None:
    connection = dbapi.connect(str(path))
    connection.commit()
    connection.rollback()
    cursor = connection.cursor()
    connection.close()
    for call in (connection.commit, connection.rollback, connection.cursor, connection.close):
        with pytest.raises(dbapi.Error, match="closed"):
            call()
    with pytest.raises(dbapi.Error, match="closed"):
        cursor.execute(COUNT)
    dbapi.connect(path).close()  # it has let go of the file


def test_an_open_store_stays_open(path: Path) -> None:
    with sparseq.connect(path) as store:
        with dbapi.connect(store) as connection:
            connection.cursor().execute(COUNT)
        assert store.released == 1


def test_a_rollback_takes_no_charge_back(connection: dbapi.Connection) -> None:
    connection.cursor().execute(COUNT)
    connection.rollback()
    assert connection.store.released == 1


def test_description(cursor: dbapi.Cursor) -> None:
    assert cursor.description is None
    cursor.execute("SELECT day, count(*) AS n FROM t WHERE day = DATE '2024-01-02' GROUP BY day")
    assert cursor.description is not None
    assert all(len(column) == 7 for column in cursor.description)
    assert [column[0] for column in cursor.description] == [
        "day",
        "n",
        "n_error",
        "n_low",
        "n_high",
    ]
    codes = [column[1] for column in cursor.description]
    assert codes[0] == dbapi.DATETIME != codes[1]
    assert codes[1] == dbapi.NUMBER != dbapi.STRING
    assert cursor.execute(KINDS).description[0][1] == dbapi.STRING  # type: ignore[index]


def test_rowcount(cursor: dbapi.Cursor) -> None:
    assert cursor.rowcount == -1
    assert cursor.execute(KINDS).rowcount == 3


def test_fetching(cursor: dbapi.Cursor) -> None:
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall):
        with pytest.raises(dbapi.Error, match="nothing was executed"):
            fetch()
    cursor.execute(KINDS)
    rows = cursor.fetchall()
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert all(isinstance(row, tuple) for row in rows)
    assert (cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (None, [], [])
    cursor.execute(KINDS)
    first = cursor.fetchone()
    assert first is not None
    assert first[0] == "a"
    assert cursor.arraysize == 1
    assert [row[0] for row in cursor.fetchmany()] == ["b"]
    assert cursor.rownumber == 2
    assert [row[0] for row in cursor.fetchmany(5)] == ["c"]
    cursor.arraysize = 2
    assert len(cursor.execute(KINDS).fetchmany()) == 2
    assert len(list(cursor)) == 1


def test_parameters_and_executemany(cursor: dbapi.Cursor) -> None:
    where = "SELECT count(*) AS n FROM t WHERE kind = ?"
    cursor.execute(where, ["a"])
    assert cursor.answer is not None
    assert cursor.answer.facts.query.endswith("= 'a'")
    cursor.execute("SELECT count(*) AS n FROM t WHERE kind = $kind", {"kind": "b"})
    assert cursor.answer.facts.query.endswith("= 'b'")
    cursor.executemany(where, [["a"], ["b"], ["c"]])
    assert cursor.answer.facts.query.endswith("= 'c'")
    assert cursor.connection.store.released == 3, "what was asked before is free"
    for wrong in (["a", "b"], []):
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute(where, wrong)
    assert cursor.rowcount == -1


def test_cursors_close(cursor: dbapi.Cursor) -> None:
    cursor.setinputsizes([1])
    cursor.setoutputsize(100)
    cursor.setoutputsize(100, 0)
    with cursor.execute(COUNT):
        pass
    for call in (cursor.close, cursor.fetchall, lambda: cursor.execute(COUNT)):
        with pytest.raises(dbapi.Error, match="closed"):
            call()


def test_cursors_have_rows_of_their_own(connection: dbapi.Connection) -> None:
    one, other = connection.cursor(), connection.cursor()
    one.execute(KINDS)
    other.execute(COUNT)
    assert (one.rowcount, other.rowcount) == (3, 1)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("", dbapi.ProgrammingError),
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT kind FROM t", dbapi.NotSupportedError),
        ("DROP TABLE t", dbapi.NotSupportedError),
    ],
)
def test_refusals(cursor: dbapi.Cursor, statement: str, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        cursor.execute(statement)
    assert isinstance(caught.value.__cause__, sparseq.SparseqError)
    assert cursor.connection.store.released == 0


def test_what_can_not_be_opened(path: Path) -> None:
    with pytest.raises(dbapi.OperationalError, match="there is no store"):
        dbapi.connect(path.parent / "none.sparseq")


def test_constructors_and_types() -> None:
    assert dbapi.Date(2024, 1, 2) == dt.date(2024, 1, 2)
    assert dbapi.Time(1, 2, 3) == dt.time(1, 2, 3)
    assert dbapi.Timestamp(2024, 1, 2, 3, 4, 5) == dt.datetime(2024, 1, 2, 3, 4, 5)
    assert dbapi.Binary(b"a") == b"a"
    ticks = dt.datetime(2024, 1, 2, 3, 4, 5).timestamp()
    assert dbapi.DateFromTicks(ticks) == dt.date(2024, 1, 2)
    assert dbapi.TimeFromTicks(ticks) == dt.time(3, 4, 5)
    assert dbapi.TimestampFromTicks(ticks) == dt.datetime(2024, 1, 2, 3, 4, 5)
    types = {dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID}
    assert len(types) == 5
    assert dbapi.DATETIME == "timestamp[us]"


def test_all_that_the_text_names_is_there() -> None:
    for name in ("close", "commit", "rollback", "cursor"):
        assert callable(getattr(dbapi.Connection, name))
    needed = {
        "close",
        "execute",
        "executemany",
        "fetchone",
        "fetchmany",
        "fetchall",
        "setinputsizes",
        "setoutputsize",
        "description",
        "rowcount",
    }
    assert needed <= {name for name, _ in inspect.getmembers(dbapi.Cursor)}


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_pandas_reads_it(connection: dbapi.Connection) -> None:
    frame = pd.read_sql(f"{COUNT} WHERE kind = ?", connection, params=("a",))
    assert frame.columns.tolist() == ["n", "n_error", "n_low", "n_high"]
    assert frame["n_low"][0] <= frame["n"][0] <= frame["n_high"][0]
    days = "day BETWEEN DATE '2024-01-01' AND DATE '2024-01-03'"
    daily = f"SELECT day, count(*) AS n FROM t WHERE {days} GROUP BY day"
    frame = pd.read_sql(daily, connection, index_col="day", parse_dates=["day"])
    assert frame.index.tolist() == [pd.Timestamp(2024, 1, day) for day in (1, 2, 3)]
    with pytest.raises((dbapi.Error, pd.errors.DatabaseError), match="rows about people"):
        pd.read_sql("SELECT kind FROM t", connection)
    assert connection.store.released == 2
