"""The closed list of expression types, with the range of values of each.

A type contains more than its name: integers have a range, decimals their digits, dates and times a
maximum distance from 1970. So the types alone show which operations cannot overflow, and the others
are written to give NULL (`sparseq.language.functions`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sparseq.base.errors import QueryRefused

MAX_DIGITS = 38
"""The most digits of a DECIMAL in DuckDB."""
INT64 = (-(2**63), 2**63 - 1)
UINT64 = (0, 2**64 - 1)
WIDEST = (-(10**MAX_DIGITS - 1), 10**MAX_DIGITS - 1)
"""The integers that both a HUGEINT and a DECIMAL hold: the widest range of an expression."""
FIRST_DAY, LAST_DAY = -719162, 2932896
"""0001-01-01 and 9999-12-31, in days since 1970: the range of stored dates and times."""
SAFE_DAYS = 50_000_000
"""Days from 1970 within which every DuckDB function of dates and times has a value."""
_WIDTHS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": INT64,
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": UINT64,
}


class Family(enum.StrEnum):
    """The families of types that operators and functions distinguish."""

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
        """The name with its article."""
        return f"{'an' if self in (Family.INTEGER, Family.ENDS) else 'a'} {self}"


@dataclass(frozen=True)
class Type:
    """The type of an expression.

    Attributes:
        family: Its family.
        low, high: The range of integers; of dates and timestamps, in days since 1970.
        width, scale: A decimal's number of digits, and of digits after the point.
        stored: DuckDB's name, if it differs from the family's (INTEGER, FLOAT).
        zoned: For timestamps: a moment, in UTC, rather than a local time.
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
        """The most digits before the point of a number of this type."""
        if self.family is Family.DECIMAL:
            return self.width - self.scale
        return max(len(str(abs(self.low))), len(str(abs(self.high))))

    @property
    def is_number(self) -> bool:
        """Tell whether it is an integer, decimal or double."""
        return self.family in (Family.INTEGER, Family.DECIMAL, Family.DOUBLE)

    @property
    def is_time(self) -> bool:
        """Tell whether it is a date or timestamp."""
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
"""TIMESTAMPTZ: for constants, and expressions over them; stored times are in UTC already."""
TIME = Type(Family.TIME)
UUID = Type(Family.UUID)
NULL = Type(Family.NULL)
ENDS = Type(Family.ENDS)
"""The interval of a noised value; no stored column has it, and no query can write it."""
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
    """Return the type of integers from low to high, limited to 64 bits.

    Example:
        >>> integer(0, 9).sql, integer(-1, 2**80).high == 2**63 - 1
        ('BIGINT', True)
    """
    return Type(Family.INTEGER, max(low, INT64[0]), min(high, INT64[1]))


def whole(low: int, high: int) -> Type:
    """Return the type of integers from low to high, with as many bits as they need.

    Raises:
        QueryRefused: They may have more than 38 digits.

    Example:
        >>> whole(-1, 9).sql, whole(0, 2**64 - 1).sql, whole(-1, 2**64 - 1).sql
        ('BIGINT', 'UBIGINT', 'HUGEINT')
    """
    if low < WIDEST[0] or high > WIDEST[1]:
        raise QueryRefused(
            f"whole numbers here can have more than {MAX_DIGITS} digits",
            "compute with CAST(x AS DOUBLE), or CAST(x AS BIGINT) where the values are small",
        )
    held = Type(Family.INTEGER, low, high)
    if held.within(*INT64):
        return held
    return replace(held, stored="UBIGINT" if held.within(*UINT64) else "HUGEINT")


def decimal(width: int, scale: int) -> Type:
    """Return the type of decimals with `width` digits, `scale` behind the point."""
    return Type(Family.DECIMAL, width=width, scale=scale)


def shift_type(type: Type, before: int, after: int) -> Type:
    """Return the type of a date or timestamp that may be up to this many days earlier or later."""
    return replace(type, low=type.low - before, high=type.high + after)


def find_type(name: str) -> Type | None:
    """Return the type with this DuckDB name; None if it is not on the list.

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
"""Types of list columns; lists are truncated to `MOST_LISTED` values when they are loaded."""
MOST_LISTED = 1000


def as_decimal(type: Type) -> Type:
    """Return the decimal type that holds every value of an integer or decimal type."""
    return type if type.family is Family.DECIMAL else decimal(type.digits, 0)


def common(types: Iterable[Type]) -> Type | None:
    """Return the type that holds the values of all types; None if there is none.

    As in DuckDB, exact numbers become a DECIMAL of 38 digits if they need more, and values with
    more digits do not fit; FLOAT and DOUBLE do not hold all exact numbers.

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
    if families == {Family.LIST}:  # lists are neither compared nor chosen from
        return None
    if len(families) == 1 and Family.DECIMAL not in families:
        return _together(known)
    if families <= {Family.DATE, Family.TIMESTAMP}:
        return replace(_together(known), family=Family.TIMESTAMP)
    if families <= {Family.INTEGER, Family.DECIMAL}:
        exact = [as_decimal(t) for t in known]
        scale = max(t.scale for t in exact)
        width = max(t.digits for t in exact) + scale
        return decimal(min(width, MAX_DIGITS), scale)
    if families <= {Family.INTEGER, Family.DECIMAL, Family.DOUBLE}:
        for t in known:
            if t.family is Family.DOUBLE and t.stored != "FLOAT":
                return DOUBLE
        return FLOAT
    return None


def _together(types: list[Type]) -> Type:
    """Return the common type of several types of one family."""
    first = types[0]
    if all(t == first for t in types):
        return first
    low, high = min(t.low for t in types), max(t.high for t in types)
    if first.family is Family.INTEGER:
        return whole(low, high)
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
