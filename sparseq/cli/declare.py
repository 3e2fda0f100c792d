"""Declarations on the command line: files of tables, public keys, bounds."""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown
from sparseq.load.file_patterns import exists, table_name
from sparseq.load.read_schema import ORDERS, Schema
from sparseq.question.catalog import OWN, Bound

_WHOLE = re.compile("U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")


def tables_of(files: Sequence[str], name: str | None) -> dict[str, list[str]]:
    """Return each table's files: `NAME=FILE` names its table, the others belong to `name`.

    >>> tables_of(["a.csv", "visits=v.csv", "b.csv"], None)
    {'a': ['a.csv', 'b.csv'], 'visits': ['v.csv']}
    """
    tables: dict[str, list[str]] = {}
    for file in files:
        found = re.fullmatch(r"(\w+)=(.+)", file)
        if found and not exists(file):
            tables.setdefault(found[1], []).append(found[2])
        else:
            name = name or table_name(file)
            tables.setdefault(name, []).append(file)
    return tables


def public_tables(files: Sequence[str]) -> dict[str, list[str]]:
    """Return each public table's files.

    Raises:
        ParameterError: A text isn't of the form NAME=FILE.
    """
    for file in files:
        if "=" not in file:
            raise ParameterError(
                f"--public {file} names no table", f"--public {table_name(file)}={file}"
            )
    return tables_of(files, None)


def bounds_of(declarations: Sequence[str]) -> dict[str, tuple[Bound, Bound]]:
    """Return the bounds of columns: numbers, or days.

    Raises:
        ParameterError: A text isn't of the form COL=LOW..HIGH.

    >>> bounds_of(["amount=0..99.5"])
    {'amount': (0.0, 99.5)}
    >>> bounds_of(["day=2024-01-01..2024-12-31"])
    {'day': ('2024-01-01', '2024-12-31')}
    """
    bounds: dict[str, tuple[Bound, Bound]] = {}
    for declaration in declarations:
        column, _, reach = declaration.rpartition("=")
        low, _, high = reach.partition("..")
        if column in bounds:
            raise ParameterError(f"--bounds says twice what {column} has", "say it once")
        try:
            bounds[column] = (_end(low), _end(high))
        except ValueError:
            column = ""
        if not column:
            raise ParameterError(
                f"--bounds {declaration} can't be read",
                "for example --bounds amount=0..100 or --bounds day=2024-01-01..2024-12-31",
            )
    return bounds


def _end(text: str) -> Bound:
    """Return an end of bounds; raises ValueError if it is neither a number nor a day."""
    try:
        return float(text)
    except ValueError:
        return dt.date.fromisoformat(text.strip()).isoformat()


def types_of(declarations: Sequence[str], tables: Sequence[str]) -> dict[str, Any]:
    """Return the types of columns; each is checked when the table is made.

    Args:
        declarations: `COL=TYPE[:FORMAT]`, or `@FILE`: TOML, a column a line, or a section for each
            table, with all columns of it.
        tables: Names of the tables.

    Raises:
        ParameterError: A declaration can't be read.

    >>> types_of(["day=DATE:%d/%m/%Y", "id=VARCHAR"], ["visits"])
    {'day': 'DATE:%d/%m/%Y', 'id': 'VARCHAR'}
    """
    types: dict[str, Any] = {}
    for declaration in declarations:
        if declaration.startswith("@"):
            types |= _types_in(Path(declaration[1:]), tables)
            continue
        column, _, kind = declaration.partition("=")
        if not column or not kind or column in types:
            raise ParameterError(
                f"--type {declaration} can't be read",
                "for example --type day=DATE:%d/%m/%Y, once for each column",
            )
        types[column] = kind
    return types


def _types_in(path: Path, tables: Sequence[str]) -> dict[str, Any]:
    """Return all columns of tables from a file; without sections they apply to each table."""
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"--type @{shown(path)} can't be read: {shown(error)}",
            'it has a line for each column: day = "DATE:%d/%m/%Y"',
        ) from None
    sections = {k: v for k, v in said.items() if isinstance(v, dict)}
    columns = {k: v for k, v in said.items() if k not in sections}
    return dict.fromkeys(tables, columns) | sections if columns else sections


def csv_of(declarations: Sequence[str]) -> dict[str, Any]:
    """Return the options for reading text files; the words are checked where they are used.

    Raises:
        ParameterError: A word has no value, or a wrong one.

    >>> csv_of(["encoding=latin-1", "null=NA", "null=-", "multiline"])
    {'encoding': 'latin-1', 'null': ('NA', '-'), 'multiline': True}
    >>> csv_of(["null="])
    {'null': ()}
    """
    said: dict[str, Any] = {}
    for declaration in declarations:
        word, equals, value = declaration.partition("=")
        if word == "null" and equals:
            said[word] = (*said.get(word, ()), *([value] if value else []))
        elif word == "multiline" and not equals:
            said[word] = True
        elif equals and word not in ("null", "multiline", *said):
            said[word] = value
        else:
            raise ParameterError(
                f"--csv {declaration} can't be read",
                "--csv encoding=latin-1, --csv null=NA, --csv escape=\\\\ or --csv multiline",
            )
    return said


def renamed_of(declarations: Sequence[str]) -> dict[str, str]:
    """Return the new names of columns: name in the file to name in the store.

    Raises:
        ParameterError: A text isn't of the form OLD=NEW, or a column is given twice.

    >>> renamed_of(["Cost (EUR)=cost"])
    {'Cost (EUR)': 'cost'}
    """
    found: dict[str, str] = {}
    for declaration in declarations:
        old, equals, new = (part.strip() for part in declaration.rpartition("="))
        if not old or not equals or not new or old in found:
            raise ParameterError(
                f"--rename {declaration} can't be read", "--rename 'Cost (EUR)=cost', once a column"
            )
        found[old] = new
    return found


def links_of(declarations: Sequence[str]) -> dict[str, str]:
    """Return the columns of other tables that columns link to.

    Raises:
        ParameterError: A text isn't of the form TABLE.COL=TABLE.COL, or a column is given twice.

    >>> links_of(["lineitem.l_orderkey=orders.o_orderkey"])
    {'lineitem.l_orderkey': 'orders.o_orderkey'}
    """
    found: dict[str, str] = {}
    for declaration in declarations:
        child, _, parent = (part.strip() for part in declaration.partition("="))
        if "." not in child or "." not in parent or child in found:
            raise ParameterError(
                f"--link {declaration} can't be read",
                "--link lineitem.l_orderkey=orders.o_orderkey, once for each table",
            )
        found[child] = parent
    return found


def dates_of(declarations: Sequence[str]) -> dict[str, str]:
    """Return the order of dates by column, "" for all others.

    Raises:
        ParameterError: A text is not dmy, mdy or COLUMN=dmy, or is given twice.

    >>> dates_of(["dmy", "born=mdy"])
    {'': 'dmy', 'born': 'mdy'}
    """
    found: dict[str, str] = {}
    for declaration in declarations:
        column, equals, order = (part.strip() for part in declaration.rpartition("="))
        if column in found or order not in ORDERS or bool(column) != bool(equals):
            raise ParameterError(
                f"--dates {declaration} can't be read",
                "--dates dmy if the day comes first, --dates mdy if the month does; "
                "--dates COLUMN=dmy of one column",
            )
        found[column] = order
    return found


def schema_text(table: str, schema: Schema) -> str:
    """Return a table's schema as a section of a schema file.

    >>> types, formats = {"who": "BIGINT", "day": "DATE"}, {"day": "%d/%m/%Y"}
    >>> schema = Schema(types, formats, not_null=frozenset(["day"]))
    >>> print(schema_text("visits", schema))
    [visits]
    "who" = "BIGINT"
    "day" = "DATE NOT NULL:%d/%m/%Y"
    """
    lines = [f"[{table}]"]
    for name, kind in schema.types.items():
        format = schema.formats.get(name, "")
        kind = "TIMESTAMPTZ" if name in schema.zoned else kind
        kind += " NOT NULL" if name in schema.not_null else ""
        lines.append(f"{json.dumps(name)} = {json.dumps(f'{kind}:{format}' if format else kind)}")
    return "\n".join(lines)


def most_of(declarations: Sequence[str]) -> dict[str, int]:
    """Return the limits that are set.

    Raises:
        ParameterError: A text isn't of the form work=N.

    >>> most_of(["work=1000000"])
    {'work': 1000000}
    """
    limits = {}
    for declaration in declarations:
        name, _, number = declaration.partition("=")
        plain = number.replace("_", "").replace(",", "")
        if not name or not plain.isdecimal() or len(plain) > 18:
            raise ParameterError(
                f"--most {declaration} can't be read", "for example --most work=20000000"
            )
        limits[name] = int(plain)
    return limits


def found_at_once(columns: Sequence[str], types: Mapping[str, str]) -> Sequence[str] | None:
    """Return the columns whose bounds are found at once; None: bounds are never found.

    Raises:
        ParameterError: A column has the name of the reserved word.

    >>> found_at_once(["amount"], {}), found_at_once(["never"], {})
    (['amount'], None)
    """
    if "never" not in columns:
        return columns
    if len(columns) > 1 or "never" in types:
        raise ParameterError(
            "--find-bounds never says that none are found, and so no column is",
            "call a column of that name otherwise: --rename never=OTHER",
        )
    return None


def row_key_of(declarations: Sequence[str]) -> dict[str, tuple[str, ...]] | tuple[str, ...]:
    """Return the row key of the only table, or of each table that has one.

    Raises:
        ParameterError: Keys are declared twice.

    >>> row_key_of(["order_id,line"]), row_key_of(["orders=order_id", "visits=day,page"])
    (('order_id', 'line'), {'orders': ('order_id',), 'visits': ('day', 'page')})
    """
    keys: dict[str, tuple[str, ...]] = {}
    for declaration in declarations:
        table, _, columns = declaration.rpartition("=")
        found = tuple(c.strip() for c in next(csv.reader([columns]), []))
        if not all(found) or not found or table in keys or (keys and "" in (table, *keys)):
            raise ParameterError(
                f"--row-key {declaration} can't be read",
                "--row-key order_id,line, or once for each table: --row-key orders=order_id,line",
            )
        keys[table] = found
    return keys.get("", keys)


def keys_of(declarations: Sequence[str], types: dict[str, str]) -> dict[str, tuple[Any, ...] | str]:
    """Return the public values of columns, in the columns' types; or `@own`.

    Args:
        declarations: `COL=a,b,c`, or `COL=@file` with one value a line, or `COL=@own`.
        types: Each column's type, by its name in lower case.

    Raises:
        ParameterError: A declaration can't be read, or a value is not of its column's type.

    >>> keys_of(["size=1,2", 'kind=a,"b,c"'], {"size": "INTEGER", "kind": "VARCHAR"})
    {'size': (1, 2), 'kind': ('a', 'b,c')}
    """
    keys = dict[str, tuple[Any, ...] | str]()
    for declaration in declarations:
        column, _, values = declaration.partition("=")
        if not column or not values:
            raise ParameterError(
                f"--keys {declaration} can't be read",
                "for example --keys size=small,large, or --keys size=@sizes.txt",
            )
        if column in keys:
            raise ParameterError(
                f"--keys says twice what {column} has", f"--keys {column}=a,b has several"
            )
        if values == OWN:
            keys[column] = OWN
            continue
        texts = _lines(values[1:]) if values.startswith("@") else next(csv.reader([values]))
        kind = types.get(column.lower(), "VARCHAR")
        keys[column] = tuple(_value(column, text.strip(), kind) for text in texts)
    return keys


def _lines(file: str) -> list[str]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(
            f"the file of keys {file!r} can't be read", "it has one value a line, in UTF-8"
        ) from None
    return [line for line in text.splitlines() if line.strip()]


def _value(column: str, text: str, kind: str) -> Any:
    try:
        return _reader(kind)(text)
    except (ValueError, KeyError):
        raise ParameterError(
            f"--keys {column}: {text!r} is not a {kind}", f"{column} is a column of {kind}"
        ) from None


def _reader(kind: str) -> Callable[[str], Any]:
    if _WHOLE.fullmatch(kind):
        return int
    if kind in ("FLOAT", "DOUBLE"):
        return float
    if kind == "BOOLEAN":
        return lambda text: {"true": True, "false": False}[text.lower()]
    if kind == "DATE":
        return dt.date.fromisoformat
    return dt.datetime.fromisoformat if kind.startswith("TIMESTAMP") else str
