"""The schema by which rows of a table are read: public, fixed when the table is made.

    type        of each column, one of a closed list
    format      of its texts, where it has one: `%d/%m/%Y` for dates and times, `,` for numbers with
                a decimal comma
    separator   between the values of a line, multiline: values may have several lines
    nulls       texts of text files that stand for no value
    names       of columns that files call otherwise, dropped: columns that are not stored
    skip        lines of text files before their header

The curator declares it (`create --type day=DATE:%d/%m/%Y`), or has it guessed from the first rows
of the first files (`sniff`); what is guessed is shown, and is as public as what is
declared. It is kept in the store and given for every file from then on, the first one included: a
file is never guessed at again, so no row decides how another one is read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import duckdb

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.engine._duckdb.connection import scratch
from sparseq.language.types import LISTS
from sparseq.load.convert import literal
from sparseq.sql.catalog import Bound, Catalog, Table

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
MOST_DIGITS = 18
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
    """The way in which the rows of one table are read. Public.

    Attributes:
        types: Column to its stored type.
        formats: Column to how its texts are written, where that is not the usual way.
        separator: Of text files; "": the one that their header has.
        multiline: A value between quotes may have several lines.
        user: The columns that make the identifier of a person, where they are several.
        window: A unit of time: the identifier is of these columns and a window of `time`.
        time: The column that says when.
        nulls: Values of text files, beside the empty one, that are NULL in every column.
        encoding: Of text files, with a byte a character, such as latin-1; "": UTF-8.
        names: What a column is called here, by its name in files.
        dropped: Names in files, in lower case, of columns that are not stored.
        skip: Lines with words before the header of text files.
        not_null: Columns without NULL: a row that has it there, once it is read, is left out.
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

    def to_dict(self) -> dict[str, Any]:
        """Return what the catalog doesn't say, as plain data."""
        later = ("encoding", "names", "dropped", "skip")
        left = {"types", "not_null", "zoned", *(name for name in later if not getattr(self, name))}
        return {k: v for k, v in asdict(self).items() if k not in left}

    def in_files(self, name: str) -> str:
        """Return what files call a column."""
        return next((old for old, new in self.names.items() if new.lower() == name.lower()), name)


@dataclass(frozen=True)
class Declarations:
    """Declarations of the curator on how text is read.

    Attributes:
        types: Column to `TYPE`, `TYPE:FORMAT`, `TYPE NOT NULL:FORMAT`, or `NOT NULL` of a type that
            is guessed; names in any case.
        multiline: See `Schema`.
        schemas: All columns of a table, by its name.
        only: The table has these columns, and no others.
        window, time: See `Schema`.
        nulls: See `Schema`.
        bounds: Column to its bounds: numbers, to which its values are cut, or days.
        encoding: See `Schema`; None: it is guessed from the first rows (`Letters`).
        rename: A column's name here, by its name in files.
        drop: Columns that are not stored.
        skip: See `Schema`.
        dates: In which order dates of texts are written, "dmy" or "mdy", by the column's name, or
            by "" for all others.

    Raises:
        ParameterError: A text can't stand for NULL, an encoding is not known, a column can't be
            called so.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    multiline: bool = False
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
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

    def __post_init__(self) -> None:
        _check_orders(self.dates, self.given_types())
        if self.encoding is not None:
            object.__setattr__(self, "encoding", find_encoding(self.encoding))
        _check_names(self.rename)
        dropped = {name.lower() for name in self.drop}
        for name in self.rename:
            if name.lower() in dropped:
                raise ParameterError(f"{name!r} is renamed and left out", "say one of them")
        for text in self.nulls:
            if not text or not text.isprintable() or '"' in text or text != text.strip():
                raise ParameterError(
                    f"{text!r} can't stand for NULL", "give a word of one line, such as NA"
                )

    def of(self, table: str) -> Declarations:
        """Return what is said of one table."""
        whole = self.schemas.get(table, {})
        return replace(self, types={**whole, **self.types}, schemas={}, only=bool(whole))

    def order(self, column: str) -> str:
        """Return in which order dates of a column are written; "" if it is not said."""
        own = (order for name, order in self.dates.items() if name.lower() == column.lower())
        return next(own, self.dates.get("", ""))

    def has_own_order(self, column: str) -> bool:
        """Tell whether the order is said of this column itself."""
        return column.lower() in map(str.lower, self.dates)

    def numbers(self) -> dict[str, tuple[float, float]]:
        """Return the bounds that are numbers."""
        return {
            name: (low, high)
            for name, (low, high) in self.bounds.items()
            if isinstance(low, int | float) and isinstance(high, int | float)
        }

    def given_types(self) -> dict[str, str]:
        """Return what is said of columns whose types are not guessed."""
        guessed = ("", True)  # NOT NULL, and no more
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
        """Return type and format by the column's name in lower case; raises `ParameterError`."""
        said = self.types if self.only else self.given_types()
        return {name.lower(): declared_type(name, text) for name, text in said.items()}


def find_encoding(name: str) -> str:
    """Return an encoding of a byte a character by Python's name; "" for UTF-8.

    A character of more bytes could reach over the end of a line, into another row.

    Raises:
        ParameterError: It is not known, or has characters of several bytes.

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
        f"{name!r} is no encoding of text files here",
        "utf-8, latin-1, cp1252, iso8859-15, …: a byte a character; UTF-16 is told by its mark",
    )


def types_apart(types: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return types of single columns, and of tables of which all columns are said.

    Raises:
        ParameterError: They are neither.

    >>> types_apart({"who": "BIGINT", "visits": {"day": "DATE"}})
    ({'who': 'BIGINT'}, {'visits': {'day': 'DATE'}})
    """
    found = {k: dict(v) for k, v in types.items() if isinstance(v, Mapping)}
    single = {k: v for k, v in types.items() if k not in found}
    for columns in (single, *found.values()):
        for name, text in columns.items():
            if not isinstance(text, str):
                raise ParameterError(
                    f"the type of {name} is {text!r}", "a column has a type: 'DATE:%d/%m/%Y'"
                )
    return single, found


def text_files(csv: Mapping[str, Any]) -> dict[str, Any]:
    """Return how text files are read, as `Declarations` has it.

    Raises:
        ParameterError: It has another word.

    >>> text_files({"null": "NA", "skip": 2})
    {'multiline': False, 'nulls': ('NA',), 'encoding': None, 'skip': 2}
    """
    known = ("encoding", "null", "multiline", "skip")
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
    }


def _whole(lines: Any) -> int:
    if re.fullmatch(r"[0-9]{1,4}", str(lines)) and not isinstance(lines, bool):
        return int(lines)
    raise ParameterError(f"csv skip is {lines!r}", "how many lines stand before the header: 2")


NAME = re.compile(r"(?!_user)[^\W\d][\w .-]*", re.IGNORECASE)
"""A column's name."""


def fit_name(column: str, taken: Collection[str]) -> str:
    """Return a name that a column can have, made of the one that a file has, and not taken.

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


def check_named(schemas: Iterable[Schema], declared: Declarations) -> None:
    """Check that each column that is renamed, not stored, or has dates, is in some table.

    Raises:
        ParameterError: One is in none.
    """
    schemas = list(schemas)
    there = {n.lower() for schema in schemas for n in (*schema.names, *schema.dropped)}
    here = {n.lower() for schema in schemas for n in schema.types}
    for name in (*declared.rename, *declared.drop):
        if name.lower() not in there:
            raise ParameterError(f"no table has a column {name!r}", "check --rename and --drop")
    for name in filter(None, declared.dates):
        if name.lower() not in here:
            raise ParameterError(f"no table has a column {name!r}", "check --dates")


def order_of_dates(dates: str | Mapping[str, str]) -> dict[str, str]:
    """Return the order of dates by column, as `Declarations` has it.

    >>> order_of_dates("dmy"), order_of_dates({"day": "mdy"})
    ({'': 'dmy'}, {'day': 'mdy'})
    """
    return dict(dates) if isinstance(dates, Mapping) else {"": dates} if dates else {}


def _check_orders(dates: Mapping[str, str], types: Mapping[str, str]) -> None:
    typed = {name.lower() for name in types}
    for name, order in dates.items():
        if not isinstance(name, str):
            raise ParameterError(f"dates: {name!r} is no name of a column", "dates={'day': 'dmy'}")
        if order not in ORDERS:
            raise ParameterError(
                f"dates is {order!r}", "dmy (the day comes first) or mdy (the month comes first)"
            )
        if name.lower() in typed:
            raise ParameterError(
                f"both --type and --dates say how {name} is read", "say one of them"
            )


ORDERS = ("dmy", "mdy")
"""In which order dates can be written whose year is last."""


def _check_names(rename: Mapping[str, str]) -> None:
    for old, new in rename.items():
        if not NAME.fullmatch(new):
            raise ParameterError(
                f"{old!r} can't be called {new!r}", "letters, digits, _, spaces, . and -"
            )


_NOT_NULL = re.compile(r"(?:^|\s+)NOT\s+NULL\s*$", re.IGNORECASE)


def null_apart(column: str, text: str) -> tuple[str, bool]:
    """Return a declaration without its NOT NULL, and whether it has one.

    Raises:
        ParameterError: It comes after a format, of which it would be a part.

    >>> null_apart("day", "DATE NOT NULL:%d/%m/%Y"), null_apart("ward", "not null")
    (('DATE:%d/%m/%Y', True), ('', True))
    """
    kind, colon, format = text.partition(":")
    if _NOT_NULL.search(format):
        format = _NOT_NULL.sub("", format)
        raise ParameterError(
            f"the type of {column} is {text!r}",
            f"NOT NULL comes before a format: '{kind} NOT NULL:{format}'",
        )
    return _NOT_NULL.sub("", kind.strip()) + colon + format, bool(_NOT_NULL.search(kind))


def declared_type(column: str, text: str) -> tuple[str, str]:
    """Return type and format of a declaration; that it is NOT NULL is another matter.

    Raises:
        ParameterError: No such type can be stored, or the format is none.

    >>> declared_type("day", "date:%d/%m/%Y"), declared_type("price", "DECIMAL(9,2):,")
    (('DATE', '%d/%m/%Y'), ('DECIMAL(9,2)', ','))
    """
    kind, format = _kind_of(column, text)
    kind = _SAME.get(kind, kind)
    if kind not in TYPES | LISTS and not _is_decimal(kind):
        raise ParameterError(
            f"the type of {column} is {kind or 'empty'}",
            f"one of {', '.join(sorted(TYPES))}, DECIMAL(digits,scale) up to {MOST_DIGITS} digits, "
            f"or a list: {', '.join(sorted(LISTS))}",
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
        table: Of the catalog; it has the types.
        kept: What `Schema.to_dict` returned; None for a table that was made before it was kept,
            which is then read as the usual formats are.
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
    """Return the schemas of private tables made without one: types as stored."""
    return {table.name: schema_of(table, None) for table in catalog.private}
