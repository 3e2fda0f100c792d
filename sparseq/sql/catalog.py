"""The public catalogue of a store's tables: names, types, and what the curator declared.

Which strings a column holds, how many rows or users there are, and everything else that comes from
the rows is private, and not here.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from sparseq.base.errors import ParameterError, QueryRefused, did_you_mean

INTEGER_TYPES = frozenset(
    [
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
    ]
)
Bound = float | str | dt.date
"""An end of declared bounds: a number, or of dates and times a day, as a date or '2024-12-31'."""
FOUND = "found keys"
"""The fact that a ledger keeps of the keys that were found: public. By table, then by column."""
FOUND_BOUNDS = "found bounds"
"""The fact that a ledger keeps of bounds that were found: public. By table, then by column."""
OTHER = "(other)"
"""The key of rows that have none of the found keys."""
OWN = "@own"
"""The declaration, in place of keys, of a column of which no value is of two people."""
_EPOCH = dt.date(1970, 1, 1)
TIME_TYPES = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])


@dataclass(frozen=True)
class Column:
    """One column, as analysts see it.

    Attributes:
        name, type: DuckDB's name of the type that analysts work with.
        coded: Strings are stored as codes of a private dictionary.
        bounds: Declared lowest and highest value; a promise about scale, never checked for privacy.
            Of dates and times in days since 1970, both days included.
        keys: Declared public values, a domain to group by.
        found: Values that were privately found; None: they have not been looked for.
        owned: No value is of two people, as of an order's or a session's number: declared.
        not_null: No row has NULL there: one that comes with it is left out.
        zoned: Times are moments, TIMESTAMPTZ, in UTC, and not what clocks show somewhere.
    """

    name: str
    type: str
    coded: bool = False
    bounds: tuple[float, float] | None = None
    keys: tuple[Any, ...] | None = None
    found: tuple[Any, ...] | None = None
    owned: bool = False
    not_null: bool = False
    zoned: bool = False

    @property
    def integral(self) -> bool:
        """Values are integers."""
        return self.type in INTEGER_TYPES

    @property
    def shown(self) -> str:
        """The type as it is declared."""
        return "TIMESTAMPTZ" if self.zoned else self.type


def columns_of(
    types: Mapping[str, str], not_null: Collection[str], zoned: Collection[str] = ()
) -> tuple[Column, ...]:
    """Return columns by their types, of which some are NOT NULL, and some have moments."""
    return tuple(
        Column(name, type, not_null=name in not_null, zoned=name in zoned)
        for name, type in types.items()
    )


@dataclass(frozen=True)
class FoundBounds:
    """Bounds of a column that were found with noise: public.

    Sums and averages of the column take values beyond an end as that end. Nothing else does.

    Attributes:
        low, high: The ends.
        cut: About how many people have a value beyond them, in words.
        release: Of the answer that they were read off.
    """

    low: float
    high: float
    cut: str
    release: int

    def said(self, column: str) -> str:
        """Say what sums of the column do."""
        ends = f"below {self.low:,.10g} or above {self.high:,.10g}"
        return f"in sums, values of {column} {ends} count as that end; {self.cut}"


@dataclass
class KnownBounds:
    """The bounds that were found of a store's columns; it grows.

    Attributes:
        by_column: By table and column.
        asks: Others are found when a sum needs them.
    """

    by_column: dict[tuple[str, str], FoundBounds]
    asks: bool = False

    @classmethod
    def kept(cls, kept: Mapping[str, Mapping[str, Mapping[str, Any]]], asks: bool) -> KnownBounds:
        """Return the bounds that a ledger has, by table and column."""
        found = {
            (table, column): FoundBounds(**one)
            for table, columns in kept.items()
            for column, one in columns.items()
        }
        return cls(found, asks)


WINDOWS = ("day", "week", "month", "quarter", "year")


@dataclass(frozen=True)
class AccountWindow:
    """The part of a person that has an account of its own: the rows of one stretch of time.

    Attributes:
        unit: One of `WINDOWS`.
        person: The column that says whom a row is about.
        lifetime: kappa of all windows of a person together; None: nothing is promised of it.
    """

    unit: str
    person: str
    lifetime: float | None = None

    @property
    def said(self) -> str:
        """The unit of privacy in words.

        >>> AccountWindow("month", "customer_id").said
        'one customer_id in one month'
        """
        return f"one {self.person} in one {self.unit}"

    @property
    def promised(self) -> str:
        """The subject of a store's promise.

        >>> AccountWindow("month", "customer_id", 5.0).promised
        'one customer_id in one month; 5-zCDP for all of one customer_id'
        """
        if self.lifetime is None:
            return self.said
        return f"{self.said}; {self.lifetime:g}-zCDP for all of one {self.person}"


@dataclass(frozen=True)
class KeyLink:
    """The columns by which a table's rows belong to rows of another one, and so to a person.

    Attributes:
        columns: Of the table.
        parent: The other table.
        keys: Its columns, one for each.
    """

    columns: tuple[str, ...]
    parent: str
    keys: tuple[str, ...]

    def said(self, table: str) -> str:
        """Return it as it is written.

        >>> KeyLink(("l_orderkey",), "orders", ("o_orderkey",)).said("lineitem")
        'lineitem.l_orderkey=orders.o_orderkey'
        """
        return f"{table}.{','.join(self.columns)}={self.parent}.{','.join(self.keys)}"


@dataclass(frozen=True)
class FoundTuples:
    """Keys of several columns that were privately found."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Table:
    """One table. Private ones have a user column; rows are laid out by the column `time`.

    Attributes:
        row_key: Columns that, with the user, say which row is meant: a row that arrives replaces
            the one of the same user and key. Empty: every row is a row of its own.
        window: The user is a person and a window of `time`; None: a person.
        link: Files don't have the user column: rows are of whom a row of another table is. None:
            they have it.
        found: Keys of several columns that were found.
    """

    name: str
    columns: tuple[Column, ...]
    user: str = ""
    time: str = ""
    row_key: tuple[str, ...] = ()
    window: AccountWindow | None = None
    link: KeyLink | None = None
    found: tuple[FoundTuples, ...] = ()

    @property
    def private(self) -> bool:
        """Rows are about users."""
        return bool(self.user)

    @property
    def in_files(self) -> dict[str, str]:
        """The columns that files of the table have, with their types."""
        found = self.link is not None
        return {c.name: c.type for c in self.columns if not (found and c.name == self.user)}

    @property
    def not_null(self) -> frozenset[str]:
        """The columns that no row has NULL in."""
        return frozenset(c.name for c in self.columns if c.not_null)

    @property
    def zoned(self) -> frozenset[str]:
        """The columns that have moments."""
        return frozenset(c.name for c in self.columns if c.zoned)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds of columns that have some."""
        return {c.name: c.bounds for c in self.columns if c.bounds is not None}

    def column(self, name: str) -> Column:
        """Return the column of that name (case-insensitive).

        Raises:
            QueryRefused: There is none.
        """
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise QueryRefused(
            f"table {self.name} has no column {name!r}",
            did_you_mean(name, (c.name for c in self.columns)),
        )

    def with_column(self, column: Column) -> Table:
        """Return the table with the column of that name replaced."""
        return replace(
            self, columns=tuple(column if c.name == column.name else c for c in self.columns)
        )


@dataclass(frozen=True)
class Catalog:
    """All tables of a store."""

    tables: tuple[Table, ...]

    def table(self, name: str) -> Table:
        """Return the table of that name (case-insensitive).

        Raises:
            QueryRefused: There is none.
        """
        for table in self.tables:
            if table.name.lower() == name.lower():
                return table
        raise QueryRefused(
            f"there is no table {name!r}", did_you_mean(name, (t.name for t in self.tables))
        )

    @property
    def private(self) -> tuple[Table, ...]:
        """The tables about users."""
        return tuple(t for t in self.tables if t.private)

    @cached_property
    def owned(self) -> frozenset[str]:
        """The columns of which no value is of two users, where these are people, in small letters.

        Computed once: it is asked of every question.
        """
        if self.window is not None:
            return frozenset()
        return frozenset(c.name.lower() for t in self.private for c in t.columns if c.owned)

    def only_private(self) -> Table:
        """Return the one private table.

        Raises:
            QueryRefused: There are several.
        """
        if len(self.private) != 1:
            names = ", ".join(t.name for t in self.private)
            raise QueryRefused("there are several tables", f"name one of {names}")
        return self.private[0]

    def children(self, table: Table) -> tuple[Table, ...]:
        """Return the tables whose rows are of whom a row of this one is."""
        return tuple(t for t in self.tables if t.link is not None and t.link.parent == table.name)

    def indexed(self, table: Table) -> dict[tuple[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the keys that find people, by whose they are and as what; here, by which columns.

        A key is of one person: rows of two tables that agree in it are rows of one.
        """
        found = {(table.name, keys): keys for keys in self.below(table)}
        link = table.link
        return found if link is None else {(link.parent, link.keys): link.columns} | found

    def reached(self, table: Table) -> list[Table]:
        """Return a table, and those whose rows may wait for its rows, in steps."""
        found = [table]
        for one in found:
            found += self.children(one)
        return found

    def below(self, table: Table) -> tuple[tuple[str, ...], ...]:
        """Return the columns of a table by which rows of others find a person, together."""
        keys = (t.link.keys for t in self.children(table) if t.link is not None)
        return tuple(dict.fromkeys(keys))

    @property
    def unit(self) -> str:
        """The subject of an account, where it is not a person; "": it is."""
        return "" if self.window is None else self.window.promised

    @property
    def window(self) -> AccountWindow | None:
        """The part of a person that has an account; None: all of a person."""
        return next((t.window for t in self.private if t.window is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the catalog as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Catalog:
        """Return the catalog that `to_dict` described."""

        def column(c: dict[str, Any]) -> Column:
            bounds, keys = c["bounds"], c["keys"]
            return Column(
                c["name"],
                c["type"],
                c["coded"],
                (bounds[0], bounds[1]) if bounds is not None else None,
                tuple(keys) if keys is not None else None,
                owned=c.get("owned", False),
                not_null=c.get("not_null", False),
                zoned=c.get("zoned", False),
            )

        return cls(
            tuple(
                Table(
                    t["name"],
                    tuple(map(column, t["columns"])),
                    t["user"],
                    t["time"],
                    tuple(t.get("row_key", ())),
                    AccountWindow(**t["window"]) if t.get("window") else None,
                    _link(t["link"]) if t.get("link") else None,
                )
                for t in data["tables"]
            )
        )

    def with_table(self, table: Table) -> Catalog:
        """Return the catalog with `table` added, or replaced if it is there."""
        others = tuple(t for t in self.tables if t.name.lower() != table.name.lower())
        return Catalog((*others, table))

    def with_found(self, found: Mapping[str, Mapping[str, Sequence[str]]]) -> Catalog:
        """Return the catalog with keys that were found, as a ledger has them: `FoundColumns`."""
        catalog = self
        for name, keys in found.items():
            table, several = self.table(name), []
            for said, encoded in keys.items():
                of = FoundColumns.said(said, table)
                values = tuple(sorted(map(of.decoded, encoded)))
                if len(of.names) > 1:
                    several.append(FoundTuples(of.names, values))
                    continue
                one = replace(table.column(said), found=tuple(v for (v,) in values))
                table = table.with_column(one)
            catalog = catalog.with_table(replace(table, found=tuple(several)))
        return replace(self, tables=tuple(catalog.table(table.name) for table in self.tables))


def _link(said: Mapping[str, Any]) -> KeyLink:
    return KeyLink(tuple(said["columns"]), said["parent"], tuple(said["keys"]))


@dataclass(frozen=True)
class FoundColumns:
    """The columns that keys are found in, and the one text that stands for each key.

    A key of one column of texts is its own text. Any other is that of its values one after the
    other, each with its length before it: so no two keys have one text, whatever is in them.

    Attributes:
        names, types: Of the columns.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def said(cls, text: str, table: Table) -> FoundColumns:
        """Return the columns that a ledger says: one by its name, several as a list."""
        names = json.loads(text) if text.startswith("[") else [text]
        columns = [table.column(name) for name in names]
        return cls(tuple(c.name for c in columns), tuple(c.type for c in columns))

    @property
    def said_so(self) -> str:
        """The words of a ledger for them."""
        return self.names[0] if len(self.names) == 1 else json.dumps(self.names)

    @property
    def plain(self) -> bool:
        """A key is its own text."""
        return self.types == ("VARCHAR",)

    def decoded(self, key: str) -> tuple[Any, ...]:
        """Return the values of a key.

        Example:
            >>> FoundColumns(("a", "b"), ("VARCHAR", "DATE")).decoded("4:1:xy10:2024-02-29")
            ('1:xy', datetime.date(2024, 2, 29))
        """
        if self.plain:
            return (key,)
        values, rest = [], key
        for type in self.types:
            length, _, rest = rest.partition(":")
            text, rest = rest[: int(length)], rest[int(length) :]
            values.append(_value_of(text, type))
        return tuple(values)


def _value_of(text: str, type: str) -> Any:
    """Return a value by its text in a key."""
    if type in INTEGER_TYPES:
        return int(text)
    if type in ("DOUBLE", "FLOAT"):
        return float(text)
    if type == "BOOLEAN":
        return text == "true"
    if type == "DATE":
        return dt.date.fromisoformat(text)
    if type == "TIMESTAMP":  # microseconds since 1970
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(text))
    return decimal.Decimal(text) if type.startswith("DECIMAL") else text


def declare(
    table: Table,
    keys: dict[str, tuple[Any, ...]],
    bounds: Mapping[str, tuple[Bound, Bound]],
    owned: Sequence[str] = (),
) -> Table:
    """Return the table with the curator's declarations about its columns.

    Raises:
        ParameterError: A declaration is about no column, or makes no sense.
    """
    names = {c.name.lower(): c for c in table.columns}
    for name in (*keys, *bounds, *owned):
        if name.lower() in names and names[name.lower()].type.endswith("[]"):
            raise ParameterError(
                f"{name} has lists, of which there are neither keys nor bounds",
                "a question lists their values: WHERE tag IN ('a', 'b')",
            )
    for name, given in bounds.items():
        if name.lower() in names:
            low, high = (_bound(names[name.lower()], end) for end in given)
            if not low < high:
                raise ParameterError(f"bounds of {name} are {low}..{high}; low must be below high")
            table = table.with_column(replace(table.column(name), bounds=(low, high)))
    for name, values in keys.items():
        if name.lower() in names:
            if len(set(values)) != len(values) or not values:
                raise ParameterError(f"keys of {name} are empty or repeat a value")
            table = table.with_column(replace(table.column(name), keys=values))
    for name in owned:
        if name.lower() in names:
            table = table.with_column(replace(table.column(name), owned=True))
    return table


def _bound(column: Column, end: Bound) -> float:
    """Return an end of declared bounds as a number.

    Raises:
        ParameterError: It is a day for a column without days, or the other way round.
    """
    if column.type not in TIME_TYPES:
        if isinstance(end, str | dt.date):
            raise ParameterError(f"bounds of {column.name} are days; it is {column.type}")
        return end
    try:
        day = dt.date.fromisoformat(end) if isinstance(end, str) else end
    except ValueError:
        day = 0.0
    if not isinstance(day, dt.date):
        raise ParameterError(
            f"bounds of {column.name}: {end!r} is not a day", "write it as 2024-12-31"
        )
    return float((dt.date(day.year, day.month, day.day) - _EPOCH).days)


def bound_text(column: Column, end: float) -> str:
    """Return an end of a column's bounds as it was declared.

    Example:
        >>> bound_text(Column("day", "DATE"), 19723.0), bound_text(Column("x", "DOUBLE"), 0.5)
        ('2024-01-01', '0.5')
    """
    if column.type in TIME_TYPES:
        return (_EPOCH + dt.timedelta(days=end)).isoformat()
    return f"{end:,.10g}"
