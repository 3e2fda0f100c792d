"""The schema of a table for reading files: public, fixed when the table is created.

    type        of each column, one of a closed list
    format      of its texts, where it has one: `%d/%m/%Y` for dates and times, `,` for numbers with
                a decimal comma
    separator   between the values of a line, multiline: values may have several lines
    nulls       texts of text files that stand for no value
    names       of columns that files call otherwise, dropped: columns that are not stored
    skip        lines of text files before their header

The curator declares it (`create --type day=DATE:%d/%m/%Y`), or it is guessed from the first rows of
the first files (`type_guesses`); a guess is shown, and is as public as a declaration. The store
keeps the schema and uses it for every file from then on, including the first: types are never
guessed again, so no row affects the reading of another.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import duckdb

from sparseq.base._duckdb.connection import scratch
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.language.types import LISTS
from sparseq.load.convert import literal
from sparseq.load.named_columns import check_alone, said_of_table, table_apart, time_of
from sparseq.question.catalog import Bound, Catalog, Table

TYPES = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "FLOAT",
        "DOUBLE",
        "VARCHAR",
        "DATE",
        "TIMESTAMP",
        "TIME",
        "UUID",
    ]
)
"""Types that are stored, besides DECIMAL(p, s) up to `MOST_DIGITS` digits, and `LISTS`."""
MOST_DIGITS = 38
NULLS = ("NULL", r"\N")
"""Texts that databases write for NULL."""
_SAME = {
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "INT": "INTEGER",
    "BOOL": "BOOLEAN",
    "REAL": "FLOAT",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPWITHTIMEZONE": "TIMESTAMP",
}
_MOMENTS = ("TIMESTAMPTZ", "TIMESTAMPWITHTIMEZONE")


@dataclass(frozen=True)
class Schema:
    """The schema of one table for reading files: public.

    Attributes:
        types: The stored type of each column.
        formats: The format of a column's texts, if it is not the usual one.
        separator: The separator of text files; "": taken from their header.
        multiline: True if a value between quotes may have several lines.
        user: The columns that identify a user together, if there are several.
        window: A unit of time: the identifier consists of these columns and a window of `time`.
        time: The column of the time.
        nulls: Values of text files that mean NULL in every column, in addition to the empty one.
        encoding: The encoding of text files, with one byte per character, such as latin-1; "":
            UTF-8.
        names: A column's new name, by its name in files.
        dropped: Names in files, in lower case, of columns that are not stored.
        skip: The number of lines before the header of text files.
        escape: The character before a quote, a separator or itself in a value of text files.
        not_null: Columns without NULL: a row that has NULL there after reading is left out.
        zoned: Columns of moments: TIMESTAMPTZ. They are stored in UTC.
    """

    types: Mapping[str, str]
    formats: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    multiline: bool = False
    user: tuple[str, ...] = ()
    window: str = ""
    time: str = ""
    nulls: tuple[str, ...] = ()
    encoding: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    skip: int = 0
    not_null: frozenset[str] = frozenset()
    zoned: frozenset[str] = frozenset()
    escape: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that the catalog does not contain, as plain data."""
        later = ("encoding", "names", "dropped", "skip", "escape")
        left = {"types", "not_null", "zoned", *(name for name in later if not getattr(self, name))}
        return {k: v for k, v in asdict(self).items() if k not in left}

    def in_files(self, name: str) -> str:
        """Return the name of a column in files."""
        return next((old for old, new in self.names.items() if new.lower() == name.lower()), name)


@dataclass(frozen=True)
class Declarations:
    """The curator's declarations about the reading of text.

    Attributes:
        types: Column to `TYPE`, `TYPE:FORMAT`, `TYPE NOT NULL:FORMAT`, or `NOT NULL` for a guessed
            type; names in any case. This and all other names of columns may be `TABLE.COL`
            (`sparseq.load.named_columns`), until `of` picks those of one table.
        multiline: See `Schema`.
        schemas: All columns of a table, by its name.
        tables: The names of all tables.
        only: The table has these columns, and no others.
        window, time: See `Schema`.
        nulls: See `Schema`.
        bounds: Column to its bounds: numbers, to which its values are cut, or days.
        encoding: See `Schema`; None: it is guessed from the first rows (`Letters`).
        rename: A column's new name, by its name in files.
        drop: Columns that are not stored.
        skip, escape: See `Schema`.
        dates: The order of dates in texts, "dmy" or "mdy", by the column's name, or by "" for all
            others.

    Raises:
        ParameterError: A text can't mean NULL, an encoding is unknown, or a column's name is
            invalid.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    multiline: bool = False
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    only: bool = False
    window: str = ""
    time: str = ""
    nulls: tuple[str, ...] = NULLS
    bounds: Mapping[str, tuple[Bound, Bound]] = field(default_factory=dict)
    encoding: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    skip: int = 0
    dates: Mapping[str, str] = field(default_factory=dict)
    escape: str = ""

    def __post_init__(self) -> None:
        _check_orders(self.dates, self.given_types())
        if self.encoding is not None:
            object.__setattr__(self, "encoding", find_encoding(self.encoding))
        if self.escape and (len(self.escape) > 1 or self.escape not in "\\^~`$%&*#"):
            raise ParameterError(f"{self.escape!r} can't escape", r"a backslash: --csv escape=\\")
        if self.escape and self.multiline:
            raise ParameterError(
                "csv has both escape and multiline", "values with escapes have one line each"
            )
        _check_names(self.rename)
        dropped = {name.lower() for name in self.drop}
        for name in self.rename:
            if name.lower() in dropped:
                raise ParameterError(f"{name!r} is renamed and left out", "use one of them")
        for text in self.nulls:
            if not text or not text.isprintable() or '"' in text or text != text.strip():
                raise ParameterError(
                    f"{text!r} can't mean NULL", "give a word of one line, such as NA"
                )

    def of(self, table: str) -> Declarations:
        """Return the declarations for one table, by the names of its columns."""
        whole = self.schemas.get(table, {})
        return replace(
            self,
            types={**whole, **said_of_table(self.types, table, self.tables)},
            bounds=said_of_table(self.bounds, table, self.tables),
            rename=said_of_table(self.rename, table, self.tables),
            drop=tuple(said_of_table(dict.fromkeys(self.drop), table, self.tables)),
            dates=said_of_table(self.dates, table, self.tables),
            time=time_of(self.time, table, self.tables),
            schemas={},
            tables=(),
            only=bool(whole),
        )

    def order(self, column: str) -> str:
        """Return the declared order of dates of a column; "" if there is none."""
        own = (order for name, order in self.dates.items() if name.lower() == column.lower())
        return next(own, self.dates.get("", ""))

    def has_own_order(self, column: str) -> bool:
        """Tell whether the order is declared for this column itself."""
        return column.lower() in map(str.lower, self.dates)

    def numbers(self) -> dict[str, tuple[float, float]]:
        """Return the bounds that are numbers."""
        return {
            name: (low, high)
            for name, (low, high) in self.bounds.items()
            if isinstance(low, int | float) and isinstance(high, int | float)
        }

    def given_types(self) -> dict[str, str]:
        """Return the declarations of columns whose types are not guessed."""
        guessed = ("", True)  # only NOT NULL
        return {n: text for n, text in self.types.items() if null_apart(n, text) != guessed}

    def not_null(self) -> frozenset[str]:
        """Return the columns that are declared NOT NULL, in lower case."""
        found = {name.lower(): null_apart(name, text)[1] for name, text in self.types.items()}
        return frozenset(name for name, declared in found.items() if declared)

    def zoned(self) -> frozenset[str]:
        """Return the columns that are declared TIMESTAMPTZ, in lower case."""
        kinds = {name: _kind_of(name, text)[0] for name, text in self.types.items()}
        return frozenset(name.lower() for name, kind in kinds.items() if kind in _MOMENTS)

    def parsed(self) -> dict[str, tuple[str, str]]:
        """Return type and format by the column's name in lower case; raise `ParameterError`."""
        said = self.types if self.only else self.given_types()
        return {name.lower(): declared_type(name, text) for name, text in said.items()}


def find_encoding(name: str) -> str:
    """Return Python's name of an encoding with one byte per character; "" for UTF-8.

    A longer character could extend over the end of a line, into another row.

    Raises:
        ParameterError: The encoding is unknown, or has characters of several bytes.

    >>> find_encoding("Latin-1"), find_encoding("UTF-8"), find_encoding("windows-1252")
    ('iso8859-1', '', 'cp1252')
    """
    try:
        found = codecs.lookup(name or "utf-8").name
        if found in ("utf-8", "utf-8-sig", "ascii"):
            return ""
        plain = bytes(range(128))
        alone = all(len(bytes([b, 64]).decode(found, "replace")) == 2 for b in range(256))
        if plain.decode(found) == plain.decode("ascii") and alone:
            return found
    except (LookupError, UnicodeError):
        pass
    raise ParameterError(
        f"{name!r} is not an encoding that text files can have here",
        "use utf-8, latin-1, cp1252, iso8859-15, …: one byte per character; UTF-16 is recognised "
        "by its mark",
    )


def types_apart(types: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the types of single columns, and of tables with all of their columns.

    Raises:
        ParameterError: An entry is neither.

    >>> types_apart({"who": "BIGINT", "visits": {"day": "DATE"}})
    ({'who': 'BIGINT'}, {'visits': {'day': 'DATE'}})
    """
    found = {k: dict(v) for k, v in types.items() if isinstance(v, Mapping)}
    single = {k: v for k, v in types.items() if k not in found}
    for columns in (single, *found.values()):
        for name, text in columns.items():
            if not isinstance(text, str):
                raise ParameterError(
                    f"the type of {name} is {text!r}",
                    ("give a type for each column: 'DATE:%d/%m/%Y'"),
                )
    return single, found


def text_files(csv: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of text files, as arguments of `Declarations`.

    Raises:
        ParameterError: There is an unknown option.

    >>> text_files({"null": "NA", "skip": 2})
    {'multiline': False, 'nulls': ('NA',), 'encoding': None, 'skip': 2, 'escape': ''}
    """
    known = ("encoding", "null", "multiline", "skip", "escape")
    for word in csv:
        if word not in known:
            raise ParameterError(
                f"csv has no {word!r}", did_you_mean(word, known) or f"one of {', '.join(known)}"
            )
    null = csv.get("null")
    nulls = (null,) if isinstance(null, str) else null
    return {
        "multiline": bool(csv.get("multiline", False)),
        "nulls": NULLS if nulls is None else tuple(nulls),
        "encoding": csv.get("encoding"),
        "skip": _whole(csv.get("skip", 0)),
        "escape": str(csv.get("escape", "")),
    }


def _whole(lines: Any) -> int:
    if re.fullmatch(r"[0-9]{1,4}", str(lines)) and not isinstance(lines, bool):
        return int(lines)
    raise ParameterError(f"csv skip is {lines!r}", "give the number of lines before the header: 2")


NAME = re.compile(r"(?!_user)[^\W\d][\w .-]*", re.IGNORECASE)
"""A column's name."""


def fit_name(column: str, taken: Collection[str]) -> str:
    """Return a valid and unused column name, made from that in a file.

    >>> fit_name("Cost (EUR)", ()), fit_name("2024", ()), fit_name("a/b", ["a_b"])
    ('Cost_EUR', '_2024', 'a_b_2')
    >>> fit_name('patient."a.b"', ())
    'patient.a.b'
    """
    plain = re.sub(r"_?[^\w .-]+_?", "_", column.replace('"', "")).strip(" ._-")
    plain = re.sub(r" ?_ ?", "_", re.sub(r"^_?user", "user", plain, flags=re.IGNORECASE))
    plain = plain if NAME.fullmatch(plain) else f"_{plain}" if plain else "column"
    used, found, n = {name.lower() for name in taken}, plain, 2
    while found.lower() in used:
        found, n = f"{plain}_{n}", n + 1
    return found


def check_named(
    schemas: Mapping[str, Schema],
    declared: Declarations,
    public: Collection[str] = (),
    shared: Collection[str] = (),
) -> None:
    """Check that each column in an option is in exactly one table.

    Args:
        schemas: The schemas by table.
        declared: The options.
        public: The tables that are not about people.
        shared: The columns of users and of times: every table about people has them, and an option
            that names one is about all of these tables.

    Raises:
        ParameterError: A column is in no table, or a bare name is in several.
    """
    apart, everywhere = declared.tables, {name.lower() for name in shared}
    options: tuple[tuple[str, Collection[str], Mapping[str, set[str]]], ...] = (
        ("--type", declared.types, {t: {*s.types} for t, s in schemas.items()}),
        ("--dates", [*filter(None, declared.dates)], {t: {*s.types} for t, s in schemas.items()}),
        ("--rename", declared.rename, {t: {*s.names} for t, s in schemas.items()}),
        ("--drop", declared.drop, {t: {*s.dropped} for t, s in schemas.items()}),
    )
    for option, names, columns in options:
        for written in names:
            table, name = table_apart(written, apart)
            having = [
                t
                for t, there in columns.items()
                if table in ("", t) and name.lower() in map(str.lower, there)
            ]
            if not having:
                raise ParameterError(f"no table has a column {written!r}", f"check {option}")
            if everywhere & {name.lower(), declared.rename.get(written, name).lower()}:
                about = [t for t in having if t not in public]
                having = [*about[:1], *(t for t in having if t in public)]
            check_alone(option, written, having)


def order_of_dates(dates: str | Mapping[str, str]) -> dict[str, str]:
    """Return the order of dates by column, as an argument of `Declarations`.

    >>> order_of_dates("dmy"), order_of_dates({"day": "mdy"})
    ({'': 'dmy'}, {'day': 'mdy'})
    """
    return dict(dates) if isinstance(dates, Mapping) else {"": dates} if dates else {}


def _check_orders(dates: Mapping[str, str], types: Mapping[str, str]) -> None:
    typed = {name.lower() for name in types}
    for name, order in dates.items():
        if not isinstance(name, str):
            raise ParameterError(f"dates: {name!r} is not a column's name", "dates={'day': 'dmy'}")
        if order not in ORDERS:
            raise ParameterError(
                f"dates is {order!r}",
                ("use dmy (the day comes first) or mdy (the month comes first)"),
            )
        if name.lower() in typed:
            raise ParameterError(
                f"both --type and --dates set the format of {name}", "use one of them"
            )


ORDERS = ("dmy", "mdy")
"""The possible orders of dates whose year is last."""


def _check_names(rename: Mapping[str, str]) -> None:
    for old, new in rename.items():
        if not NAME.fullmatch(new):
            raise ParameterError(
                f"{old!r} can't be called {new!r}", "letters, digits, _, spaces, . and -"
            )


_NOT_NULL = re.compile(r"(?:^|\s+)NOT\s+NULL\s*$", re.IGNORECASE)


def null_apart(column: str, text: str) -> tuple[str, bool]:
    """Return a declaration without its NOT NULL, and whether it had one.

    Raises:
        ParameterError: It comes after a format, and would belong to the format.

    >>> null_apart("day", "DATE NOT NULL:%d/%m/%Y"), null_apart("ward", "not null")
    (('DATE:%d/%m/%Y', True), ('', True))
    """
    kind, colon, format = text.partition(":")
    if _NOT_NULL.search(format):
        format = _NOT_NULL.sub("", format)
        raise ParameterError(
            f"the type of {column} is {text!r}",
            f"write NOT NULL before a format: '{kind} NOT NULL:{format}'",
        )
    return _NOT_NULL.sub("", kind.strip()) + colon + format, bool(_NOT_NULL.search(kind))


def declared_type(column: str, text: str) -> tuple[str, str]:
    """Return type and format of a declaration without NOT NULL.

    Raises:
        ParameterError: The type can't be stored, or the format is invalid.

    >>> declared_type("day", "date:%d/%m/%Y"), declared_type("price", "DECIMAL(9,2):,")
    (('DATE', '%d/%m/%Y'), ('DECIMAL(9,2)', ','))
    """
    kind, format = _kind_of(column, text)
    kind = _SAME.get(kind, kind)
    if kind not in TYPES | LISTS and not _is_decimal(kind):
        raise ParameterError(
            f"the type of {column} is {kind or 'empty'}",
            f"use one of {', '.join(sorted(TYPES))}, DECIMAL(digits,scale) up to {MOST_DIGITS} "
            f"digits, or a list: {', '.join(sorted(LISTS))}",
        )
    if format:
        _check_format(column, kind, format)
    return kind, format


def _kind_of(column: str, text: str) -> tuple[str, str]:
    """Return the type that a declaration names, and its format."""
    kind, _, format = null_apart(column, text)[0].partition(":")
    return re.sub(r"\s", "", kind).upper(), format


def _is_decimal(kind: str) -> bool:
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return found is not None and int(found[2]) <= int(found[1]) <= MOST_DIGITS and found[1] != "0"


def _check_format(column: str, kind: str, format: str) -> None:
    if kind in ("DATE", "TIMESTAMP"):
        try:
            with scratch() as con:
                con.execute(f"SELECT epoch_us(try_strptime('', {literal(format)}))").fetchall()
        except duckdb.Error:
            pass
        else:
            return
    elif format == "," and re.match("FLOAT|DOUBLE|DECIMAL", kind):
        return
    raise ParameterError(
        f"the format of {column}, {format!r}, does not fit a {kind}",
        "for example day=DATE:%d/%m/%Y, at='TIMESTAMP:%d.%m.%Y %H:%M', price=DOUBLE:, "
        "(decimal comma)",
    )


def schema_of(table: Table, kept: Mapping[str, Any] | None) -> Schema:
    """Return the schema of a stored table.

    Args:
        table: The table in the catalog, with the types.
        kept: The result of `Schema.to_dict`; None for a table of an earlier version, which is then
            read in the usual formats.
    """
    types = table.in_files
    said = dict(kept or {})
    lists = {name: tuple(said.get(name, ())) for name in ("user", "nulls", "dropped")}
    return Schema(
        types,
        **said | lists,
        not_null=table.not_null & types.keys(),
        zoned=table.zoned & types.keys(),
    )


def schema_of_existing(catalog: Catalog) -> dict[str, Schema]:
    """Return the schemas of private tables of an earlier version: types as stored."""
    return {table.name: schema_of(table, None) for table in catalog.private}
