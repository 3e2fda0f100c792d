"""The types of text columns, guessed from the first rows of the files that a table is created from.

A guess is made once, when a table is created, and shown to the curator: it is as public as a
declaration. Texts without effect on it leave no trace in it. It applies to all later rows.

The guess is the first of these that every text fits: true or false; integers; numbers; numbers with
a decimal comma, if a comma can't mean anything else; a date, a moment in ISO 8601; a time of day;
one of the other formats of dates, if the day and the month can't be exchanged; text. Users'
identifiers are integers or text. Messages tell the guess for each column, and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.load.convert import from_text, literal
from sparseq.question.catalog import INTEGER_TYPES

_DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%m.%d.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%y",
    "%m.%d.%y",
)
_NAMED_DAYS = ("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y")
_BEGINNING = 128  # the first texts exclude most types
PLACEHOLDERS = ("NA", "N/A", "#N/A", "null", "None", "nan", "NaN", "-", "?", "unknown")
"""Texts that say nothing about a column's type: if the column is not text, they are NULL."""
_TIMES = (
    " %H:%M:%S",
    " %H:%M",
    " %I:%M:%S %p",
    " %I:%M %p",
    "T%H:%M:%S",
    ", %H:%M:%S",
    ", %H:%M",
    " %H:%M:%S.%f",
)


@dataclass(frozen=True)
class TextHints:
    """Facts about a column's texts that are known in advance.

    Attributes:
        user: True if they identify users.
        words: True if they are never numbers or truth values: strings in JSON.
        commas: True if a comma separates nothing: they may be numbers with a decimal comma.
        dates: The order of dates, one of `read_schema.ORDERS`, that is declared for all columns.
        own_dates: The order that is declared for this column.
    """

    user: bool = False
    words: bool = False
    commas: bool = False
    dates: str = ""
    own_dates: str = ""


@dataclass(frozen=True)
class Guess:
    """The guessed type of a column.

    Attributes:
        type, format: See `read_schema.Schema`.
        also: Another meaning of the texts: dates in another format, or a doubt ("thousands",
            "zeros", "digits").
        like: The appearance of most texts, though not all fit: the column is text.
        example: One of the dates that can be read in two ways.
        nulls: The members of `PLACEHOLDERS` that occur: they are NULL.
    """

    type: str
    format: str = ""
    also: str = ""
    like: str = ""
    example: str = ""
    nulls: tuple[str, ...] = ()


def guess(
    con: duckdb.DuckDBPyConnection, texts: pa.Array, expected: TextHints | None = None
) -> Guess:
    """Return the guessed type of texts.

    Args:
        con: The connection for queries: see `connection.connect`.
        texts: The first texts of a column, None for NULL.
        expected: The known facts about them.

    >>> from sparseq.base._duckdb.connection import connect
    >>> con = connect()
    >>> guess(con, pa.array(["1", "2"])).type, guess(con, pa.array(["1.5", "2"])).type
    ('BIGINT', 'DOUBLE')
    >>> guess(con, pa.array(["01/02/2024", "25/02/2024"])).format
    '%d/%m/%Y'
    >>> guess(con, pa.array(["01/02/2024"])).also
    '%m/%d/%Y'
    """
    known, nulls = expected or TextHints(), tuple[str, ...]()
    if not known.user:
        said = pc.is_in(texts, pa.array(PLACEHOLDERS, texts.type))
        nulls = tuple(sorted(pc.unique(texts.filter(said)).to_pylist()))
        texts = pc.if_else(said, pa.scalar(None, texts.type), texts)
    if texts.null_count == len(texts):
        return Guess("VARCHAR")
    con.register("texts", pa.table({"x": texts}))
    con.register("beginning", pa.table({"x": texts.slice(0, _BEGINNING)}))
    if known.user:
        return _people(con, known.words)
    if known.own_dates:
        return _declared_dates(con, known.own_dates)
    for type, format, test in chain(_usual(known), _dates_in(con, known.dates)):
        if _fits(con, test):
            also, example = _other_way(con, type, format, known.dates)
            return Guess(type, format, also, "", example, nulls)
    return Guess("VARCHAR", like=_like(con, known))


FOOTERS = (
    *("total", "totals", "grand total", "subtotal", "sum", "average", "mean"),
    *("summe", "gesamt", "gesamtsumme", "insgesamt", "somme", "totale", "suma"),
)
"""Words below a table, in the user column; in any case."""


def _people(con: duckdb.DuckDBPyConnection, words: bool) -> Guess:
    """Return the guess for identifiers."""
    whole = f"({from_text('x', 'BIGINT')}) IS NOT NULL"
    if not words and _fits(con, whole):
        return Guess("BIGINT", also="zeros" * _any(con, _ZEROS))
    among = ", ".join(map(literal, FOOTERS))
    found = con.execute(f"SELECT DISTINCT x FROM texts WHERE lower(trim(x)) IN ({among})")
    if footers := sorted(x for (x,) in found.fetchall()):
        return Guess("VARCHAR", like="footer", example=footers[0])
    return Guess("VARCHAR", like="people" * (not words and _most(con, whole)))


def _most(con: duckdb.DuckDBPyConnection, test: str) -> bool:
    """Tell whether most texts pass a test."""
    fit = f"count(*) FILTER (WHERE {test}) * 2 > count(x)"
    return con.execute(f"SELECT {fit} FROM texts").fetchall() == [(True,)]


def _any(con: duckdb.DuckDBPyConnection, test: str) -> bool:
    """Tell whether any text passes a test."""
    found = con.execute(f"SELECT coalesce(bool_or({test}), false) FROM texts")
    return found.fetchall() == [(True,)]


_ZEROS = r"regexp_matches(x, '^\s*[+-]?0[0-9]')"
_DIGITS = "length(regexp_replace(regexp_extract(x, '[1-9][0-9.,]*'), '[.,]', '', 'g')) > 17"


def _fits(con: duckdb.DuckDBPyConnection, test: str) -> bool:
    return all(_all_pass(con, test, texts) for texts in ("beginning", "texts"))


_NUMBER = r"\s*[+-]?[0-9][0-9.,]*\s*"
_DATE = r"\s*[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}(,?[ T].*)?"
_NAMED_DATE = r"\s*([0-9]{1,2}[ -])?[A-Za-z]{3,9}[ -][0-9]{1,2}.*"
_GROUPED = {"": r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}", ",": r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+"}
_SIGNED = "[-+( €$£¥%''\u00a0\u202f0-9.,)]+"
_LIKE = {
    "dates": f"regexp_full_match(x, '{_DATE}')",
    "numbers": f"regexp_full_match(x, '{_NUMBER}')",
    "signs": f"regexp_full_match(x, '{_SIGNED}') AND regexp_matches(x, '[0-9]')",
}
_THOUSANDS = f"regexp_full_match(x, '[+-]?[0-9]+') OR regexp_full_match(x, '{_GROUPED[',']}')"
_ENGLISH = r"regexp_full_match(x, '[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]+')"
_NESTED = r"regexp_matches(x, '^[\[{].*[\]}]$', 's')"


def _like(con: duckdb.DuckDBPyConnection, known: TextHints) -> str:
    """Return the appearance of most texts; for words, whether some are written like lists."""
    if known.words and _any(con, _NESTED):
        return "lists"
    if not known.words and _fits(con, _THOUSANDS):
        return "thousands"
    if not known.words and _any(con, _ENGLISH) and _most(con, _LIKE["numbers"]):
        return "signs"
    for kind, test in _LIKE.items():
        if (not known.words or kind == "dates") and _most(con, test):
            return kind
    return ""


def _all_pass(con: duckdb.DuckDBPyConnection, test: str, texts: str) -> bool:
    passed = f"SELECT coalesce(bool_and(coalesce({test}, false)), true) FROM {texts}"
    return con.execute(f"{passed} WHERE x IS NOT NULL").fetchall() == [(True,)]


def _usual(known: TextHints) -> Iterator[tuple[str, str, str]]:
    """Return types and formats, except other formats of dates, each with a test in SQL."""
    if not known.words:
        yield "BOOLEAN", "", "lower(x) IN ('true', 'false')"
        yield "BIGINT", "", f"NOT contains(x, '.') AND ({from_text('x', 'BIGINT')}) IS NOT NULL"
        yield "DOUBLE", "", "NOT contains(x, '_') AND TRY_CAST(x AS DOUBLE) IS NOT NULL"
    if known.commas and not known.words:
        decimal = f"regexp_matches(x, '[0-9]$') AND ({from_text('x', 'DOUBLE', ',')}) IS NOT NULL"
        grouped = f"bool_and(NOT contains(x, ',') OR regexp_full_match(x, '{_GROUPED[',']}'))"
        either = f"(SELECT NOT contains(string_agg(x, ''), '.') AND {grouped} FROM texts)"
        yield "DOUBLE", ",", f"{decimal} AND NOT {either}"
    yield "DATE", "", f"strlen(x) <= 10 AND ({from_text('x', 'DATE')}) IS NOT NULL"
    yield "TIMESTAMP", "", f"({from_text('x', 'TIMESTAMP')}) IS NOT NULL"
    time = "regexp_matches(x, '^ *[0-9]{1,2}:')"
    yield "TIME", "", f"{time} AND ({from_text('x', 'TIME')}) IS NOT NULL"


def order_of(format: str) -> str:
    """Return the order of a date format, one of `read_schema.ORDERS`; "" for another.

    >>> order_of("%d/%m/%Y"), order_of("%m/%d/%Y %H:%M"), order_of("%b %d, %Y"), order_of("")
    ('dmy', 'mdy', '', '')
    """
    return {"%d": "dmy", "%m": "mdy"}.get(format[:2], "") if "%m" in format else ""


def _dates_in(con: duckdb.DuckDBPyConnection, order: str) -> Iterator[tuple[str, str, str]]:
    """Return date formats that all texts may match, by a first look; those of the given order come
    first. By default the day is first between points.
    """
    if _fits(con, f"regexp_full_match(x, '{_DATE}')"):
        days: Sequence[str] = sorted(_DAYS, key=lambda f: order_of(f) not in ("", order or "dmy"))
    elif _fits(con, f"regexp_full_match(x, '{_NAMED_DATE}')"):
        days = _NAMED_DAYS
    else:
        return
    for type, ends in (("DATE", ("",)), ("TIMESTAMP", _TIMES)):
        for format in (day + end for end in ends for day in days):
            yield type, format, _is_date(format)


def _is_date(format: str) -> str:
    year = f"year(try_strptime(x, {literal(format)}))"
    return f"{year} >= 1000" if "%Y" in format else f"{year} > 0"


def _other_way(
    con: duckdb.DuckDBPyConnection, type: str, format: str, order: str
) -> tuple[str, str]:
    """Return another meaning that all texts can have, or "", and an example of dates."""
    if type == "BIGINT":
        return "zeros" * _any(con, _ZEROS), ""
    if type == "DOUBLE":
        grouped = f"regexp_full_match(x, '{_GROUPED['']}')"
        if not format and _fits(con, grouped):
            return "thousands", ""
        return "digits" * _any(con, _DIGITS), ""
    mine = order_of(format)
    if not mine or order == mine or "%d.%m" in format:
        return "", ""
    other = swap_day_and_month(format)
    if not _fits(con, _is_date(other)):
        return "", ""
    tells = f"try_strptime(x, {literal(format)}) <> try_strptime(x, {literal(other)})"
    ((example,),) = con.execute(
        f"SELECT x FROM texts WHERE x IS NOT NULL ORDER BY {tells} DESC LIMIT 1"
    ).fetchall()
    return other, example


def swap_day_and_month(format: str) -> str:
    """Return a format with day and month exchanged.

    >>> swap_day_and_month("%d/%m/%Y %H:%M")
    '%m/%d/%Y %H:%M'
    """
    return format.translate(str.maketrans("dm", "md"))


def _declared_dates(con: duckdb.DuckDBPyConnection, order: str) -> Guess:
    """Return the format in an order that most texts match; without a type if no text does."""
    best, most = Guess(""), 0
    for type, ends in (("DATE", ("",)), ("TIMESTAMP", _TIMES)):
        for format in (day + end for end in ends for day in _DAYS if order_of(day) == order):
            count = f"SELECT count(*) FILTER (WHERE {_is_date(format)}) FROM texts"
            ((fit,),) = con.execute(count).fetchall()
            if fit > most:
                best, most = Guess(type, format), fit
    return best


def wider(one: str, other: str) -> str:
    """Return a type that includes two types of one column in different files."""
    types = {one, other}
    if len(types) == 1:
        return one
    if types <= INTEGER_TYPES:
        return "BIGINT"
    if all(t in INTEGER_TYPES or t in ("FLOAT", "DOUBLE") or t[:7] == "DECIMAL" for t in types):
        return "DOUBLE"
    return "TIMESTAMP" if types == {"DATE", "TIMESTAMP"} else "VARCHAR"
