"""Tables of other databases as sources: SQLite, DuckDB, PostgreSQL.

A source is `FILE#TABLE`, `FILE#SELECT …`, or the same after `postgresql://…`; without a table, the
only table of the database is read. The curator's own permissions apply. Nothing is written, and no
address, name or password is kept, neither in the store nor in messages.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote as url_quote
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa

from sparseq.base._duckdb.connection import connect
from sparseq.base.errors import DataError
from sparseq.base.sql_text import quote
from sparseq.base.texts import shown
from sparseq.load.file_sources import ArrowSource, TextColumns
from sparseq.load.optional_modules import import_optional
from sparseq.load.read_schema import MOST_DIGITS
from sparseq.load.source import NO_TYPES
from sparseq.question.catalog import KeyLink

_ROWS = 1 << 14
_DRIVER = "adbc_driver_postgresql.dbapi"
_WHOLE = 1e18
_DECLARED = (
    ("INT", "BIGINT"),
    ("REAL", "DOUBLE"),
    ("FLOA", "DOUBLE"),
    ("DOUB", "DOUBLE"),
    ("BOOL", "BOOLEAN"),
)
_TEXT = ("CHAR", "CLOB", "TEXT")


def make_select(name: str, chosen: str, tables: Iterable[str]) -> str:
    """Return the SELECT for a table's name, a SELECT, or nothing.

    Args:
        name: The name of the database, for messages.
        chosen: The table or SELECT that the curator gave.
        tables: All tables of the database, perhaps as `schema.table`.

    Raises:
        DataError: There is no such table, or there are several and none was given.

    >>> make_select("shop.db", "", ["visits"]), make_select("shop.db", "select 1 AS who", [])
    ('SELECT * FROM "visits"', 'select 1 AS who')
    """
    if re.match(r"(?i)\s*(select|with|from|values)\s", chosen):
        return chosen.strip().rstrip(";")
    known = list(tables)
    if not chosen and len(known) == 1:
        chosen = known[0]
    if chosen not in known:
        what = f"no table {shown(chosen)!r}" if chosen else f"{len(known)} tables: which one?"
        listed = ", ".join(map(shown, known[:20])) or "it has no table"
        raise DataError(
            f"{shown(name)} has {what}", (f"write {shown(name)}#TABLE with one of: {listed}")
        )
    return "SELECT * FROM " + ".".join(map(quote, chosen.split(".")))


class SqliteTable(TextColumns):
    """A table of SQLite: any value may have any type there, so all become texts."""

    def __init__(self, path: Path, chosen: str = "") -> None:
        self.name, self._path = path.name, path
        with closing(self._open()) as con:
            found = con.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            ).fetchall()
            names = [name for (name,) in found]
            self._select = (
                f"SELECT * FROM {quote(chosen)}"
                if chosen in names
                else make_select(path.name, chosen, names)
            )
            rows = con.execute(f"SELECT * FROM ({self._select}) LIMIT 0")
            self.types: dict[str, pa.DataType | None] = {
                column[0]: pa.string() for column in rows.description
            }
            table = self._table = chosen or "".join(names)
            info = con.execute(f"PRAGMA table_xinfo({quote(table)})").fetchall()
        kinds = {row[1]: str(row[2]).upper() for row in info if row[1] in self.types}
        self.not_null = frozenset(row[1] for row in info if row[3] and row[1] in self.types)
        self.words = frozenset(n for n, kind in kinds.items() if any(t in kind for t in _TEXT))
        self.declared = {
            name: type
            for name, kind in kinds.items()
            for type in [next((t for word, t in _DECLARED if word in kind), "")]
            if type and name not in self.words
        }

    def foreign_keys(self) -> list[KeyLink]:
        """Return the foreign keys of the table."""
        with closing(self._open()) as con:
            listed = con.execute(f"PRAGMA foreign_key_list({quote(self._table)})").fetchall()
            found = []
            for number in sorted({row[0] for row in listed}):
                rows = sorted(row for row in listed if row[0] == number)
                other, keys = rows[0][2], [row[4] for row in rows]
                if None in keys:  # its primary key
                    info = con.execute(f"PRAGMA table_info({quote(other)})").fetchall()
                    keys = [row[1] for row in sorted(info, key=lambda r: r[5]) if row[5]]
                found.append(KeyLink(tuple(row[3] for row in rows), other, tuple(keys)))
            return found

    def _open(self) -> sqlite3.Connection:
        place = url_quote(bytes(self._path.resolve()))
        con = sqlite3.connect(f"file:{place}?mode=ro", uri=True, check_same_thread=False)
        con.text_factory = lambda text: text if (read := _text(text)) is None else read
        return con

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        listed, self.unreadable = ", ".join(map(quote, columns)) or "1", 0
        with closing(self._open()) as con:
            rows = con.execute(f"SELECT {listed} FROM ({self._select})")
            while some := rows.fetchmany(_ROWS):
                self.unreadable += sum(
                    any(isinstance(v, bytes) and _text(v) is None for v in row) for row in some
                )
                columns_of = zip(*some, strict=True)
                yield [pa.array(map(spell, c), pa.string(), size=len(some)) for c in columns_of]


def spell(value: Any) -> str | None:
    """Return the text of a value: integers have no point; bytes that are not UTF-8 have no text.

    >>> [spell(v) for v in (7, 7.0, 0.5, 1e300, "007", b"\\xff", None)]
    ['7', '7', '0.5', '1e+300', '007', None, None]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, float) and abs(value) < _WHOLE and value == int(value):
        return str(int(value))
    return str(value)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


class DuckTable(ArrowSource):
    """A table of a DuckDB file."""

    def __init__(self, path: Path, chosen: str = "") -> None:
        self._path, self._table = path, chosen
        with self._open() as con:
            found = con.execute(
                "SELECT CASE schema_name WHEN 'main' THEN name ELSE schema_name || '.' || name END "
                "FROM (SELECT schema_name, table_name AS name FROM duckdb_tables() "
                "WHERE NOT internal AND NOT temporary UNION ALL "
                "SELECT schema_name, view_name FROM duckdb_views() "
                "WHERE NOT internal AND NOT temporary) ORDER BY 1"
            ).fetchall()
            names = [name for (name,) in found]
            self._select = make_select(path.name, chosen, names)
            schema, _, table = (chosen or "".join(names)).rpartition(".")
            never = con.execute(
                "SELECT column_name FROM duckdb_columns() WHERE NOT is_nullable AND NOT internal "
                "AND schema_name = ? AND table_name = ?",
                [schema or "main", table],
            ).fetchall()
            none = con.sql(f"SELECT * FROM ({self._select}) LIMIT 0").to_arrow_table()
        super().__init__(path.name, none.schema)
        self.not_null = frozenset(name for (name,) in never if name in self.types)

    def foreign_keys(self) -> list[KeyLink]:
        """Return the foreign keys of the table."""
        schema, _, name = self._table.rpartition(".")
        with self._open() as con:
            rows = con.execute(
                "SELECT constraint_column_names, referenced_table, referenced_column_names "
                "FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY' "
                "AND schema_name = ? AND table_name = ?",
                [schema or "main", name],
            ).fetchall()
        before = f"{schema}." if schema else ""
        return [KeyLink(tuple(own), before + other, tuple(keys)) for own, other, keys in rows]

    def _open(self) -> duckdb.DuckDBPyConnection:
        # a view in the file may read other files; the curator chose the file
        return connect(self._path, read_only=True, enable_external_access="true")

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(map(quote, dict.fromkeys(columns))) or "1"
        with self._open() as con:
            yield from con.sql(f"SELECT {listed} FROM ({self._select})").to_arrow_reader()


class PostgresTable(ArrowSource):
    """A table of PostgreSQL, or the result of a SELECT.

    Args:
        address: `postgresql://…`, with `#TABLE` or `#SELECT …`.
    """

    def __init__(self, address: str) -> None:
        self._address, _, chosen = address.partition("#")
        self._table = unquote(chosen)
        self._driver = import_optional(_DRIVER, "postgresql", "PostgreSQL")
        name = shown_address(self._address)
        with self._cursor() as cursor:
            cursor.execute(
                "SELECT CASE schemaname WHEN 'public' THEN name ELSE schemaname || '.' || name END "
                "FROM (SELECT schemaname, tablename AS name FROM pg_tables UNION ALL "
                "SELECT schemaname, viewname FROM pg_views) AS t "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
            )
            names = [row[0] for row in cursor.fetchall()]
            self._select = make_select(name, self._table, names)
            cursor.execute(f"SELECT * FROM ({self._select}) AS t LIMIT 0")
            schema = cursor.fetch_arrow_table().schema
            cursor.execute(
                "SELECT attname FROM pg_attribute WHERE attnotnull AND attnum > 0 "
                f"AND attrelid = to_regclass('{_regclass(self._table or ''.join(names))}')"
            )
            never = {row[0] for row in cursor.fetchall()}
        self._casts = {field.name: _cast(field) for field in schema}
        super().__init__(name, pa.schema([_with_text(field) for field in schema]))
        self.declared = {f.name: t for f in schema if (t := _numeric_type(f))}
        self.not_null = never & self.types.keys()

    def foreign_keys(self) -> list[KeyLink]:
        """Return the foreign keys of the table."""

        def columns(numbers: str, table: str) -> str:
            return (
                f"(SELECT json_agg(a.attname ORDER BY k.place)::text FROM unnest(c.{numbers}) "
                f"WITH ORDINALITY AS k(number, place) JOIN pg_attribute AS a "
                f"ON a.attrelid = c.{table} AND a.attnum = k.number)"
            )

        with self._cursor() as cursor:
            cursor.execute(
                f"SELECT {columns('conkey', 'conrelid')}, CASE n.nspname WHEN 'public' THEN "
                f"f.relname ELSE n.nspname || '.' || f.relname END, "
                f"{columns('confkey', 'confrelid')} FROM pg_constraint AS c "
                "JOIN pg_class AS f ON f.oid = c.confrelid "
                "JOIN pg_namespace AS n ON n.oid = f.relnamespace "
                f"WHERE c.contype = 'f' AND c.conrelid = to_regclass('{_regclass(self._table)}') "
                "ORDER BY c.conname"
            )
            rows = cursor.fetchall()
        return [
            KeyLink(tuple(json.loads(own)), other, tuple(json.loads(keys)))
            for own, other, keys in rows
        ]

    def _cursor(self) -> _Cursor:
        return _Cursor(self._driver, self._address)

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`; numeric values come as texts."""
        return {n: t for n, t in super().raw_types().items() if n not in self.declared}

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        columns = list(dict.fromkeys(columns))
        listed = ", ".join(f"{self._casts[c]} AS {quote(c)}" for c in columns) or "1"
        with self._cursor() as cursor:
            cursor.execute(f"SELECT {listed} FROM ({self._select}) AS t")
            yield from cursor.fetch_record_batch()


def _regclass(table: str) -> str:
    """Return the argument of PostgreSQL's `to_regclass` for a table, as an SQL string."""
    schema, _, name = table.rpartition(".")
    return f"{quote(schema or 'public')}.{quote(name)}".replace("'", "''")


class _Cursor:
    """A cursor in a read-only transaction; it converts all errors of the driver to `OSError`."""

    def __init__(self, driver: Any, address: str) -> None:
        self._driver, self._address = driver, address
        try:
            self._connection = driver.connect(address)
        except driver.Error as error:
            raise self._without_secrets(error) from None

    def __enter__(self) -> Any:
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET TRANSACTION READ ONLY")
        return self._cursor

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        self._cursor.close()
        self._connection.close()
        if isinstance(error, self._driver.Error):
            raise self._without_secrets(error) from None

    def _without_secrets(self, error: Exception) -> OSError:
        text = str(error).strip().partition("\n")[0]
        secrets = [self._address, urlsplit(self._address).password or ""]
        for secret in filter(None, secrets):
            text = text.replace(secret, "…").replace(unquote(secret), "…")
        return OSError(text)


def shown_address(address: str) -> str:
    """Return the parts of an address that may be shown: the machine and the database.

    >>> shown_address("postgresql://ann:secret@db.example:5433/shop?sslmode=require")
    'postgresql://db.example/shop'
    """
    parts = urlsplit(address)
    return f"postgresql://{parts.hostname or ''}{parts.path}"


def _postgres_type(field: pa.Field) -> str:
    metadata = field.metadata or {}
    return str(metadata.get(b"POSTGRESQL:type", b"").decode())


def _numeric_type(field: pa.Field) -> str:
    """Return the stored type of a numeric column, "" for any other column."""
    if _postgres_type(field) != "numeric":
        return ""
    said = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - 4
    digits, scale = said >> 16, said & 0x7FF
    fits = said > 0 and scale <= digits <= MOST_DIGITS
    return f"DECIMAL({digits},{scale})" if fits else "DOUBLE"


def _cast(field: pa.Field) -> str:
    """Return SQL that makes any value of a column readable for the driver.

    Moments beyond the driver's range are far beyond the stored range: they come as a moment that is
    not stored either.
    """
    name = quote(field.name)
    if pa.types.is_timestamp(field.type):
        return (
            f"CASE WHEN {name} > '20000-01-01' THEN '20000-01-01' "
            f"WHEN {name} < '4000-01-01 BC' THEN '4000-01-01 BC' ELSE {name} END"
        )
    return f"{name}::text" if _is_opaque(field) else name


def _with_text(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.string()) if _is_opaque(field) else field


def _is_opaque(field: pa.Field) -> bool:
    return isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name != (
        "arrow.uuid"
    )
