"""The closed list of types that expressions have, and what each of them may hold.

A type says more than its name: integers know their range, decimals their digits, dates and times
how far from 1970 they can lie. So it is known without a look at a row what can't overflow, and what
could is written so that it is NULL (`sparseq.language.functions`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

MAX_DIGITS = 38
"""Of a DECIMAL in DuckDB."""
INT64 = (-(2**63), 2**63 - 1)
FIRST_DAY, LAST_DAY = -719162, 2932896
"""0001-01-01 and 9999-12-31, in days since 1970: what dates and times that are stored may be."""
SAFE_DAYS = 50_000_000
"""Days from 1970 up to which every function of dates and times has a value in DuckDB."""
_WIDTHS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": INT64,
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
}


class Family(enum.StrEnum):
    """The kinds of types that operators and functions tell apart."""

    BOOLEAN = "truth"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "number"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIME = "time"
    UUID = "UUID"
    LIST = "list"
    NULL = "NULL"
    ENDS = "interval"

    @property
    def one(self) -> str:
        """It, with its article."""
        return f"{'an' if self in (Family.INTEGER, Family.ENDS) else 'a'} {self}"


@dataclass(frozen=True)
class Type:
    """The type of an expression.

    Attributes:
        family: Its family.
        low, high: Of integers, the least and the largest; of dates and timestamps, in days.
        width, scale: Digits of a decimal, and those behind the point.
        stored: DuckDB's name, where it is not the family's own (INTEGER, FLOAT).
        zoned: Of timestamps: a moment, in UTC, and not what a clock shows somewhere.
    """

    family: Family
    low: int = 0
    high: int = 0
    width: int = 0
    scale: int = 0
    stored: str = ""
    zoned: bool = False

    @property
    def sql(self) -> str:
        """DuckDB's name of the type."""
        if self.family is Family.DECIMAL:
            return f"DECIMAL({self.width}, {self.scale})"
        return self.stored or _NAMES[self.family]

    @property
    def inside(self) -> Type:
        """The type of a list's values."""
        return find_type(self.stored.removesuffix("[]")) or NULL

    @property
    def digits(self) -> int:
        """Digits before the point that a number of this type can have."""
        if self.family is Family.DECIMAL:
            return self.width - self.scale
        return max(len(str(abs(self.low))), len(str(abs(self.high))))

    @property
    def is_number(self) -> bool:
        """Integers, decimals and doubles."""
        return self.family in (Family.INTEGER, Family.DECIMAL, Family.DOUBLE)

    @property
    def is_time(self) -> bool:
        """Dates and timestamps."""
        return self.family in (Family.DATE, Family.TIMESTAMP)

    def within(self, low: int, high: int) -> bool:
        """Tell whether every value lies in a range."""
        return low <= self.low and self.high <= high


_NAMES = {
    Family.BOOLEAN: "BOOLEAN",
    Family.INTEGER: "BIGINT",
    Family.DOUBLE: "DOUBLE",
    Family.TEXT: "VARCHAR",
    Family.DATE: "DATE",
    Family.TIMESTAMP: "TIMESTAMP",
    Family.TIME: "TIME",
    Family.UUID: "UUID",
    Family.NULL: '"NULL"',
    Family.ENDS: "STRUCT(low DOUBLE, high DOUBLE)",
}
BOOLEAN = Type(Family.BOOLEAN)
DOUBLE = Type(Family.DOUBLE)
FLOAT = Type(Family.DOUBLE, stored="FLOAT")
"""REAL: numbers of 32 bits."""
TEXT = Type(Family.TEXT)
DATE = Type(Family.DATE, FIRST_DAY, LAST_DAY)
TIMESTAMP = Type(Family.TIMESTAMP, FIRST_DAY, LAST_DAY)
INSTANT = replace(TIMESTAMP, zoned=True)
"""TIMESTAMPTZ: of constants, and what is made of them; stored times are in UTC already."""
TIME = Type(Family.TIME)
UUID = Type(Family.UUID)
NULL = Type(Family.NULL)
ENDS = Type(Family.ENDS)
"""The interval of a noised value: of no stored column, and of nothing that a query writes."""
BIGINT = Type(Family.INTEGER, *INT64)
_OTHERS = {
    "BOOLEAN": BOOLEAN,
    "DOUBLE": DOUBLE,
    "VARCHAR": TEXT,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIME": TIME,
    "UUID": UUID,
    '"NULL"': NULL,
    ENDS.sql: ENDS,
    "FLOAT": FLOAT,
}


def integer(low: int, high: int) -> Type:
    """Return the type of integers from low to high, as far as 64 bits go.

    Example:
        >>> integer(0, 9).sql, integer(-1, 2**80).high == 2**63 - 1
        ('BIGINT', True)
    """
    return Type(Family.INTEGER, max(low, INT64[0]), min(high, INT64[1]))


def decimal(width: int, scale: int) -> Type:
    """Return the type of decimals of so many digits, `scale` of them behind the point."""
    return Type(Family.DECIMAL, width=width, scale=scale)


def shift_type(type: Type, before: int, after: int) -> Type:
    """Return a date's or timestamp's type when it may lie so many days earlier or later."""
    return replace(type, low=type.low - before, high=type.high + after)


def find_type(name: str) -> Type | None:
    """Return the type that DuckDB calls so; None if it is not on the list.

    Example:
        >>> find_type("DECIMAL(10,2)").digits, find_type("INTEGER").high, find_type("INTERVAL")
        (8, 2147483647, None)
    """
    if name in _WIDTHS:
        return Type(Family.INTEGER, *_WIDTHS[name], stored=name)
    digits = re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", name)
    if digits:
        return decimal(int(digits[1]), int(digits[2]))
    if name in LISTS:
        return Type(Family.LIST, stored=name)
    return _OTHERS.get(name)


LISTS = frozenset(f"{of}[]" for of in ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "DATE"))
"""Lists that columns have: of at most `MOST_LISTED` values each, as they are cut when they come."""
MOST_LISTED = 1000


def as_decimal(type: Type) -> Type:
    """Return the decimal type that holds every value of an integer or decimal type."""
    return type if type.family is Family.DECIMAL else decimal(type.digits, 0)


def common(types: Iterable[Type]) -> Type | None:
    """Return the type that holds the values of all; None if there is none.

    As in DuckDB, FLOAT beside whole numbers and decimals, though it doesn't hold all of them.

    Example:
        >>> common([find_type("INTEGER"), decimal(4, 2)]).sql, common([TEXT, DATE])
        ('DECIMAL(12, 2)', None)
        >>> common([FLOAT, decimal(4, 2)]).sql, common([FLOAT, DOUBLE, BIGINT]).sql
        ('FLOAT', 'DOUBLE')
    """
    known = [t for t in types if t.family is not Family.NULL]
    if not known:
        return NULL
    families = {t.family for t in known}
    if families <= {Family.INTEGER, Family.BOOLEAN} and len(families) == 2:
        known = [integer(0, 1) if t.family is Family.BOOLEAN else t for t in known]
        families = {Family.INTEGER}
    if families == {Family.LIST}:  # which are neither compared nor chosen from
        return None
    if len(families) == 1 and Family.DECIMAL not in families:
        return _together(known)
    if families <= {Family.DATE, Family.TIMESTAMP}:
        return replace(_together(known), family=Family.TIMESTAMP)
    if families <= {Family.INTEGER, Family.DECIMAL}:
        exact = [as_decimal(t) for t in known]
        scale = max(t.scale for t in exact)
        width = max(t.digits for t in exact) + scale
        return decimal(width, scale) if width <= MAX_DIGITS else DOUBLE
    if families <= {Family.INTEGER, Family.DECIMAL, Family.DOUBLE}:
        for t in known:
            if t.family is Family.DOUBLE and t.stored != "FLOAT":
                return DOUBLE
        return FLOAT
    return None


def _together(types: list[Type]) -> Type:
    """Return the type of several of one family."""
    first = types[0]
    if all(t == first for t in types):
        return first
    low, high = min(t.low for t in types), max(t.high for t in types)
    return Type(first.family, low, high, zoned=any(t.zoned for t in types))


def digits_of(text: str) -> tuple[int, int]:
    """Return (width, scale) of a decimal constant.

    Example:
        >>> digits_of("12.50"), digits_of(".5")
        ((4, 2), (1, 1))
    """
    before, _, after = text.partition(".")
    width = len(before.lstrip("0")) + len(after)
    return max(width, 1), len(after)
