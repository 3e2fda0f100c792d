"""Messages on the reading of each column: public."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparseq.base._duckdb.connection import scratch
from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.load.convert import literal
from sparseq.load.read_schema import Declarations
from sparseq.load.type_guesses import Guess, order_of

_DOUBTS = {
    "lists": "some look like lists or objects of JSON, and are kept as JSON writes them",
    "people": "most are whole numbers; --type {4} leaves the others out, as rows about nobody",
    "footer": "{5} is taken for a person; --csv null={5} --csv null=NULL leaves such rows out",
    "signs": "most look like numbers with a currency, %, brackets, or spaces, quotes or commas "
    "between thousands; write them without, and they are numbers",
    "dates": "most look like dates, and not all are written in one way; --dates {0} (or mdy), or "
    "--type {1} for 2025-12-24, reads those that are",
    "numbers": "most look like numbers, and not all are; --type {2}, or --type {3} for a decimal "
    "comma, reads those that are",
    "thousands": "in 1,234 the comma can be a decimal comma or stand between thousands; --type {3} "
    "says that it is a decimal comma",
}


_ALSO = {
    "thousands": "numbers with a point; if it stands between thousands, --type {0} says so",
    "zeros": "whole numbers: 007 and 7 are the same; --type {1} keeps zeros before them",
    "digits": "some have more than 17 digits, and not all are kept; --type {1} keeps them",
}


@dataclass(frozen=True)
class ColumnRead:
    """The reading of one column of files.

    Attributes:
        there: Its name in files.
        name: Its name in the table; "" if it is not stored.
        type: Its stored type.
        said: The message about a change, an omission or a guess, with the reason.
        declared: Other declarations of the curator, or of its source.
    """

    there: str
    name: str = ""
    type: str = ""
    said: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    def fact(self) -> str:
        """Return the message about the column in one line; "" for none."""
        return f"{shown(self.name or self.there)}: {'; '.join(self.said)}" if self.said else ""


def as_word(text: str) -> str:
    """Return a word of a command as a user types it."""
    return shown(text) if re.fullmatch(r"[\w=:,.-]+", text) else f'"{shown(text)}"'


def said_of(name: str, format: str, guessed: Guess, dates: str) -> list[str]:
    """Return the message about a column's guess."""

    def word(way: str) -> str:
        return as_word(f"{name}={way}")

    said = []
    if guessed.like:
        words = [
            *map(word, ("dmy", "DATE", "DOUBLE", "DOUBLE:,", "BIGINT")),
            as_word(guessed.example),
        ]
        said.append(f"text: {_DOUBTS[guessed.like].format(*words)}")
    if format == ",":
        said.append("decimal comma: every value fits")
    elif format and dates:
        said.append(f"read as {format}, as --dates says")
    elif format:
        order = {"dmy": ": the day comes first", "mdy": ": the month comes first"}
        said.append(f"read as {format}{order.get(order_of(format), '')}")
    if guessed.also in _ALSO:
        said.append(_ALSO[guessed.also].format(*map(word, ("DOUBLE:,", "VARCHAR"))))
    if guessed.nulls:
        said.append(f"{', '.join(guessed.nulls)}: no value (NULL)")
    return said


class UnclearDates(DataError):
    """Dates can be read in two ways; `columns` has the names of their columns."""

    def __init__(self, guesses: Mapping[str, Guess]) -> None:
        (name, found), *more = guesses.items()
        day, other = (_in_words(found.example, f) for f in (found.format, found.also))
        ways = {order_of(found.format): day, order_of(found.also): other}
        also = f" (so can those of {', '.join(map(shown, [n for n, _ in more]))})" if more else ""
        super().__init__(
            f"the dates of {shown(name)} can be read in two ways: {shown(found.example)} is "
            f"{ways['dmy']} or {ways['mdy']}{also}",
            "use --dates dmy if the day comes first, --dates mdy if the month does; for one "
            f"column --dates {as_word(f'{name}=dmy')}",
        )
        self.columns = tuple(guesses)


def _in_words(date: str, format: str) -> str:
    with scratch() as con:
        ((day,),) = con.execute(
            f"SELECT strftime(strptime(?, {literal(format)}), '%-d %B %Y')", [date]
        ).fetchall()
    return str(day)


def check_dates(guesses: Mapping[str, Guess], declared: Declarations) -> None:
    """Check that dates can be read in one way only, and that it is the declared one.

    Raises:
        UnclearDates: Some can be read in two ways, and no order is declared.
        DataError: They have another order than the declared one.
    """
    unclear = {n: g for n, g in guesses.items() if g.also.startswith("%")}
    if unclear:
        raise UnclearDates(unclear)
    for name, found in guesses.items():
        order = declared.order(name)
        if order and order_of(found.format) not in ("", order):
            first = "day" if order == "mdy" else "month"
            raise DataError(
                f"the dates of {shown(name)} are not {order}: the {first} comes first in them",
                f"say --dates {as_word(f'{name}={order_of(found.format)}')}",
            )
