"""The public catalogue of a store's tables: names, types, and the curator's declarations.

Facts that come from rows are private and absent here, such as the strings in a column or the number
of rows or users.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from sparseq.base.errors import ParameterError, QueryRefused, did_you_mean
from sparseq.language.column_id import ColumnId
from sparseq.language.types import Family, find_type

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
"""An end of declared bounds: a number or, for dates and times, a day: a date or '2024-12-31'."""
FOUND = "found keys"
"""The name of the ledger's fact with found keys: public. By table, then by column."""
FOUND_BOUNDS, FOUND_VALUES = "found bounds", "found bounds of values"
"""The names of the ledger's facts with found bounds: public. By table, then by column; and by the
keys of searches."""
OTHER = "(other)"
"""The key of rows without any of the found keys."""
OWN = "@own"
"""The declaration, in place of keys, that no value of a column belongs to two users."""
_EPOCH = dt.date(1970, 1, 1)
TIME_TYPES = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])


@dataclass(frozen=True)
class Column:
    """One column in the view of analysts.

    Attributes:
        name, type: The name, and DuckDB's name of the type.
        bounds: Declared lowest and highest value; a promise about scale on which privacy does not
            depend. For dates and times in days since 1970, both days included.
        keys: Declared public values, a domain to group by.
        found: Values that a private search found; None: there was no search.
        owned: Declared: no value belongs to two users, such as the number of an order.
        not_null: No row has NULL here, because arriving rows with NULL are left out.
        zoned: Times are instants (TIMESTAMPTZ, in UTC), not local times.
    """

    name: str
    type: str
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
        """The type in the form of a declaration."""
        return "TIMESTAMPTZ" if self.zoned else self.type


def columns_of(
    types: Mapping[str, str], not_null: Collection[str], zoned: Collection[str] = ()
) -> tuple[Column, ...]:
    """Return columns from their types, with the names of NOT NULL and of zoned columns."""
    return tuple(
        Column(name, type, not_null=name in not_null, zoned=name in zoned)
        for name, type in types.items()
    )


@dataclass(frozen=True)
class FoundBounds:
    """Bounds of a column, or of another value, that a noised release found: public.

    Only sums, averages and quantiles clamp values to these ends.

    Attributes:
        low, high: The ends.
        cut: The approximate number of users with a value beyond them, in words.
        release: The number of the release that they come from.
    """

    low: float
    high: float
    cut: str
    release: int

    def said(self, name: str, where: str = "sums") -> str:
        """Return a note that sums of a value, or quantiles, clamp it."""
        ends = f"below {self.low:,.10g} or above {self.high:,.10g}"
        return f"in {where}, values of {name} {ends} count as that end; {self.cut}"


@dataclass
class KnownBounds:
    """The found bounds of a store; it grows.

    Attributes:
        by_column: The bounds by column.
        asks: Further bounds are found when a question needs them.
        by_value: The bounds of other values, by the keys of their searches.
    """

    by_column: dict[ColumnId, FoundBounds]
    asks: bool = False
    by_value: dict[str, FoundBounds] = field(default_factory=dict)

    @classmethod
    def kept(
        cls,
        kept: Mapping[str, Mapping[str, Mapping[str, Any]]],
        values: Mapping[str, Mapping[str, Any]],
        asks: bool,
    ) -> KnownBounds:
        """Return the bounds from a ledger's facts: by table and column, and of other values."""
        found = {
            ColumnId(table, column): FoundBounds(**one)
            for table, columns in kept.items()
            for column, one in columns.items()
        }
        return cls(found, asks, {key: FoundBounds(**one) for key, one in values.items()})


WINDOWS = ("day", "week", "month", "quarter", "year")


@dataclass(frozen=True)
class AccountWindow:
    """A window of time: the rows of one person in it have a separate account.

    Attributes:
        unit: One of `WINDOWS`.
        person: The column with the person of a row.
        lifetime: kappa for all windows of a person together; None: no such promise.
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
    """The columns by which a table's rows belong to rows of another table, and so to a user.

    Attributes:
        columns: The table's columns.
        parent: The other table.
        keys: The other table's columns, one for each.
    """

    columns: tuple[str, ...]
    parent: str
    keys: tuple[str, ...]

    def said(self, table: str) -> str:
        """Return the link in the form of a declaration.

        >>> KeyLink(("l_orderkey",), "orders", ("o_orderkey",)).said("lineitem")
        'lineitem.l_orderkey=orders.o_orderkey'
        """
        return f"{table}.{','.join(self.columns)}={self.parent}.{','.join(self.keys)}"


@dataclass(frozen=True)
class FoundTuples:
    """Keys of several columns that a private search found."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Table:
    """One table. Private tables have a user column; rows are laid out by the column `time`.

    Attributes:
        row_key: Columns that, with the user, identify a row: an arriving row replaces the row of
            the same user and key. Empty: every arriving row is a new row.
        window: The user is a person in a window of `time`; None: a person.
        link: Files lack the user column, and a row of another table determines a row's user. None:
            files have the column.
        found: Found keys of several columns.
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
        """The columns in files of the table, with their types."""
        found = self.link is not None
        return {c.name: c.type for c in self.columns if not (found and c.name == self.user)}

    @property
    def not_null(self) -> frozenset[str]:
        """The columns without NULL."""
        return frozenset(c.name for c in self.columns if c.not_null)

    @property
    def zoned(self) -> frozenset[str]:
        """The columns with instants (TIMESTAMPTZ)."""
        return frozenset(c.name for c in self.columns if c.zoned)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds of columns that have some."""
        return {c.name: c.bounds for c in self.columns if c.bounds is not None}

    def column(self, name: str) -> Column:
        """Return the column of that name (case-insensitive).

        Raises:
            QueryRefused: The table has no such column.
        """
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise QueryRefused(
            f"table {self.name} has no column {name!r}",
            did_you_mean(name, (c.name for c in self.columns)),
        )

    def id_of(self, column: Column) -> ColumnId:
        """Return the identity of one of the columns."""
        return ColumnId(self.name, column.name)

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
            QueryRefused: The store has no such table.
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
    def owned(self) -> frozenset[ColumnId]:
        """The columns without values of two users, in stores where users are persons.

        It is computed once, because every question needs it.
        """
        if self.window is not None:
            return frozenset()
        return frozenset(t.id_of(c) for t in self.private for c in t.columns if c.owned)

    def written(self, column: ColumnId) -> str:
        """Return a private column's name in an option: bare if no other table has the name.

        Example:
            >>> tables = [Table(name, (Column("x", "DOUBLE"),), "who") for name in "ab"]
            >>> one, both = Catalog((tables[0],)), Catalog((*tables,))
            >>> one.written(ColumnId("a", "x")), both.written(ColumnId("a", "x"))
            ('x', 'a.x')
        """
        name = column.name.lower()
        having = [t for t in self.private if name in (c.name.lower() for c in t.columns)]
        return column.name if len(having) == 1 else str(column)

    def only_private(self) -> Table:
        """Return the only private table.

        Raises:
            QueryRefused: The number of private tables is not one.
        """
        if len(self.private) != 1:
            names = ", ".join(t.name for t in self.private)
            raise QueryRefused("there are several tables", f"name one of {names}")
        return self.private[0]

    def children(self, table: Table) -> tuple[Table, ...]:
        """Return the tables whose rows get their user from a row of this table."""
        return tuple(t for t in self.tables if t.link is not None and t.link.parent == table.name)

    def indexed(self, table: Table) -> dict[tuple[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the columns of a table that hold keys of users, by the key's table and columns.

        A key belongs to one user: rows of two tables with the same key belong to the same user.
        """
        found = {(table.name, keys): keys for keys in self.below(table)}
        link = table.link
        return found if link is None else {(link.parent, link.keys): link.columns} | found

    def reached(self, table: Table) -> list[Table]:
        """Return a table and, step by step, the tables whose rows may wait for its rows."""
        found = [table]
        for one in found:
            found += self.children(one)
        return found

    def below(self, table: Table) -> tuple[tuple[str, ...], ...]:
        """Return the groups of a table's columns by which rows of other tables find their user."""
        keys = (t.link.keys for t in self.children(table) if t.link is not None)
        return tuple(dict.fromkeys(keys))

    @property
    def unit(self) -> str:
        """The owner of an account if it is not a person; "": a person."""
        return "" if self.window is None else self.window.promised

    @property
    def window(self) -> AccountWindow | None:
        """The window of time that separates a person's accounts; None: one account per person."""
        return next((t.window for t in self.private if t.window is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the catalog as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Catalog:
        """Return the catalog from the result of `to_dict`.

        Stores of earlier versions may contain declarations about public columns, by bare names.
        These are ignored: the values of the public table itself are used.
        """

        def column(c: dict[str, Any], private: bool) -> Column:
            declared: dict[str, Any] = c if private else {"bounds": None, "keys": None}
            bounds, keys = declared["bounds"], declared["keys"]
            return Column(
                c["name"],
                c["type"],
                (bounds[0], bounds[1]) if bounds is not None else None,
                tuple(keys) if keys is not None else None,
                owned=declared.get("owned", False),
                not_null=c.get("not_null", False),
                zoned=c.get("zoned", False),
            )

        return cls(
            tuple(
                Table(
                    t["name"],
                    tuple(column(c, bool(t["user"])) for c in t["columns"]),
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
        """Return the catalog with found keys in the ledger's encoding (`FoundColumns`)."""
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
    """The columns of found keys, and the text that encodes each key.

    A key of one text column is encoded as itself. Any other key is encoded as the sequence of its
    values, each with its length before it, so different keys always have different texts.

    Attributes:
        names, types: The names and the types of the columns.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def said(cls, text: str, table: Table) -> FoundColumns:
        """Return the columns from a ledger's text: the name of one, or a JSON list of several."""
        names = json.loads(text) if text.startswith("[") else [text]
        columns = [table.column(name) for name in names]
        return cls(tuple(c.name for c in columns), tuple(c.type for c in columns))

    @property
    def said_so(self) -> str:
        """The ledger's text for the columns."""
        return self.names[0] if len(self.names) == 1 else json.dumps(self.names)

    @property
    def plain(self) -> bool:
        """A key is encoded as itself."""
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
    """Return a value from its text in a key."""
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
    keys: Mapping[ColumnId, tuple[Any, ...]],
    bounds: Mapping[ColumnId, tuple[Bound, Bound]],
    owned: Collection[ColumnId] = (),
) -> Table:
    """Return the table with the curator's declarations about its own columns.

    Args:
        table: A private table; the values of a public table have no declarations.
        keys, bounds, owned: The declarations by column, for all tables.

    Raises:
        ParameterError: A declaration makes no sense for its column.
    """
    for column in table.columns if table.private else ():
        place = table.id_of(column)
        if column.type.endswith("[]") and (place in keys or place in bounds or place in owned):
            raise ParameterError(
                f"{column.name} has lists, of which there are neither keys nor bounds",
                "a question lists their values: WHERE tag IN ('a', 'b')",
            )
        if place in bounds:
            low, high = (_bound(column, end) for end in bounds[place])
            if not low < high:
                raise ParameterError(f"bounds of {place} are {low}..{high}; low must be below high")
            column = replace(column, bounds=(low, high))
        if place in keys:
            values = keys[place]
            if len(set(values)) != len(values) or not values:
                raise ParameterError(f"keys of {place} are empty or repeat a value")
            for value in values:
                _check_key(column, value)
            column = replace(column, keys=values)
        table = table.with_column(replace(column, owned=place in owned))
    return table


def _check_key(column: Column, value: Any) -> None:
    """Refuse a declared key that the column's type cannot hold exactly, as no row could have it.

    Example:
        >>> _check_key(Column("h", "UBIGINT"), 2**64)
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: keys of h: 18446744073709551616 is no UBIGINT
          hint: a UBIGINT is a whole number from 0 to 18446744073709551615
    """
    held = find_type(column.type)
    if held is None or not held.is_number or held.family is Family.DOUBLE:
        return
    if not isinstance(value, int | float | decimal.Decimal):
        return
    with decimal.localcontext(prec=1000):
        number = decimal.Decimal(repr(value) if isinstance(value, float) else value)
        steps = number.scaleb(held.scale) if number.is_finite() else None
    if held.family is Family.INTEGER:
        low, high, kind = held.low, held.high, "whole number"
    else:
        high = 10**held.width - 1
        low, kind = -high, f"number with {held.scale} decimals, without its point"
    if steps is None or steps != int(steps) or not low <= int(steps) <= high:
        raise ParameterError(
            f"keys of {column.name}: {value} is no {column.type}",
            f"a {column.type} is a {kind} from {low} to {high}",
        )


def _bound(column: Column, end: Bound) -> float:
    """Return an end of declared bounds as a number.

    Raises:
        ParameterError: It is a day for a column without days, or a number for a column with days.
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
    """Return an end of a column's bounds in the form of a declaration.

    Example:
        >>> bound_text(Column("day", "DATE"), 19723.0), bound_text(Column("x", "DOUBLE"), 0.5)
        ('2024-01-01', '0.5')
    """
    if column.type in TIME_TYPES:
        return (_EPOCH + dt.timedelta(days=end)).isoformat()
    return f"{end:,.10g}"
