"""Dates (days since 1970) and timestamps (microseconds), by the Gregorian calendar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparseq.engine.operations.logic import Kernel, all_known, both, strict
from sparseq.engine.operations.table import (
    DAY,
    D,
    Make,
    S,
    Z,
    narrow,
    operation,
    plainly,
    whole,
    wide,
)
from sparseq.engine.operations.vector import Vector
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family

# -- dates and times -------------------------------------------------------------------------------


@operation("in range")
def _in_range(term: Term) -> Kernel:
    one = 1 if term.type.family is D else DAY
    low, high = T.FIRST_DAY * one, (T.LAST_DAY + 1) * one - 1
    return lambda a: Vector(a.values, both(a.known, (a.values >= low) & (a.values <= high)))


def _days(a: Any, family: Family) -> Any:
    return a if family is D else a // DAY


def by_day(f: Callable[[Any], Any], days: Any) -> Any:
    """Return a function of days, of each different day once where they lie close."""
    if np.ndim(days) == 0 or len(days) == 0:
        return f(np.asarray(days, np.int64))
    low, high = int(days.min()), int(days.max())
    if high - low >= len(days):
        return f(days.astype(np.int64))
    return f(np.arange(low, high + 1))[days - low]


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day of days since 1970, by the Gregorian calendar.

    Years begin in March and come in eras of 400, as in Hinnant's `civil_from_days`.

    Example:
        >>> [int(x) for x in civil(np.int64(19782))]
        [2024, 2, 29]
    """
    days = days + 719_468
    era = days // 146_097
    doe = days - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = np.where(mp < 10, mp + 3, mp - 9)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def days_of(year: Any, month: Any) -> Any:
    """Return the first day of a month, in days since 1970."""
    year = year - (month <= 2)
    era = year // 400
    yoe = year - era * 400
    doy = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def _first_of(unit: str) -> Callable[[Any], Any]:
    """Return what gives the first day of the year, quarter, month or week that a day is in."""

    def first(days: Any) -> Any:
        if unit == "week":
            return days - (days + 3) % 7
        if unit == "day":
            return days
        year, month, _ = civil(days)
        return days_of(year, {"year": month * 0 + 1, "quarter": (month - 1) // 3 * 3 + 1}.get(
            unit, month))  # fmt: skip

    return first


_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": lambda d: civil(d)[0], "month": lambda d: civil(d)[1], "day": lambda d: civil(d)[2],
    "quarter": lambda d: (civil(d)[1] + 2) // 3, "dow": lambda d: (d + 4) % 7,
    "isodow": lambda d: (d + 3) % 7 + 1, "doy": lambda d: d - _first_of("year")(d) + 1,
}  # fmt: skip
_CLOCK = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}


def _of_days(f: Callable[[Any], Any], family: Family, times: int = 1) -> Kernel:
    return strict(lambda a: by_day(f, _days(a, family)) * times)


def _part_of_day(long: int, many: int) -> Kernel:
    """Return what counts parts of a day; // is quick by a constant, % is not."""

    def counted(a: Any) -> Any:
        parts = a // long
        return parts - parts // many * many

    return strict(counted)


def _start(long: int) -> Kernel:
    return strict(lambda a: a // long * long)


for _kind in (D, S):
    for _name, _part in _PARTS.items():
        plainly(_name, _of_days(_part, _kind), (_kind,))
    for _unit in ("year", "quarter", "month", "week", "day"):
        plainly(f"date_trunc {_unit}", _of_days(_first_of(_unit), _kind, DAY), (_kind,))
for _unit, (_long, _many) in _CLOCK.items():
    plainly(_unit, _part_of_day(_long, _many), (S,))
    plainly(f"date_trunc {_unit}", _start(_long), (S,))
plainly("date_diff day", whole(lambda a, b: b - a), (D, D))
plainly("-", strict(lambda a, b: np.subtract(narrow(a, b), narrow(b, a))), (D, D))


def _shifted(days: int, digits: int) -> Make:
    """Return what makes a kernel of a time and a number of so many days; NULL from 10^digits on."""

    def make(term: Term) -> Kernel:
        one = 1 if term.type.family is D else DAY
        before = DAY if term.arguments[0].type.family is D and one > 1 else 1

        def kernel(a: Vector, by: Vector) -> Vector:
            fits = (by.values < 10**digits) & (by.values > -(10**digits))
            moved = np.where(fits, wide(by.values), 0) * (days * one)
            return Vector(wide(a.values) * before + moved, both(all_known((a, by)), fits))

        return kernel

    return make


for _sign, _op in ((1, "+"), (-1, "-")):
    operation(_op, (D, Z))(_shifted(_sign, 7))
    operation(f"{_op} day", (D, Z), (S, Z))(_shifted(_sign, 7))
    operation(f"{_op} week", (D, Z), (S, Z))(_shifted(_sign * 7, 6))
