"""The types of text columns, guessed from the first rows of the files that a table is made of.

A guess is made once, when a table is made, and shown to the curator: it is as public as what is
declared, and what has no effect on it later can't be told from it. What comes after is read by it.

The first of these that every text fits: true or false; whole numbers; numbers; numbers with a
decimal comma; a date, a moment in ISO 8601; one of the other formats; a time of day; text.
Identifiers of people are whole numbers or text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.load.convert import from_text, literal
from sparseq.sql.catalog import INTEGER_TYPES

_DAYS = (
    "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d/%m/%y", "%m/%d/%y", "%d.%m.%y",
)  # fmt: skip
_BEGINNING = 128  # most of what does not fit is told by the first texts
PLACEHOLDERS = ("NA", "N/A", "#N/A", "null", "None", "nan", "NaN", "-", "?", "unknown")
"""Texts that say nothing of a column's type: where it is no text, they don't fit, and are NULL."""
_TIMES = (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")


@dataclass(frozen=True)
class Guess:
    """What a column is taken for.

    Attributes:
        type, format: See `schema.Schema`.
        also: Other formats that fit all that was looked at.
        like: What most of the texts look like, though not all fit: the column is of texts.
    """

    type: str
    format: str = ""
    also: tuple[str, ...] = ()
    like: str = ""


def guess(
    con: duckdb.DuckDBPyConnection, texts: pa.Array, user: bool = False, words: bool = False
) -> Guess:
    """Return what texts are taken for.

    Args:
        con: What to ask: see `connection.connected`.
        texts: The first of a column, NULL for none.
        user: They identify people.
        words: They are no numbers or truth values, whatever they look like: strings in JSON.

    >>> from sparseq.engine._duckdb.connection import connected
    >>> con = connected()
    >>> guess(con, pa.array(["1", "2"])).type, guess(con, pa.array(["1.5", "2"])).type
    ('BIGINT', 'DOUBLE')
    >>> guess(con, pa.array(["01/02/2024"]))
    Guess(type='DATE', format='%d/%m/%Y', also=('%m/%d/%Y',), like='')
    """
    if not user:
        said = pc.is_in(texts, pa.array(PLACEHOLDERS, texts.type))
        texts = pc.if_else(said, pa.scalar(None, texts.type), texts)
    if texts.null_count == len(texts):
        return Guess("VARCHAR")
    con.register("texts", pa.table({"x": texts}))
    con.register("beginning", pa.table({"x": texts.slice(0, _BEGINNING)}))

    def fits(test: str) -> bool:
        return all(_all_pass(con, test, texts) for texts in ("beginning", "texts"))

    if user:
        whole = f"({from_text('x', 'BIGINT')}) IS NOT NULL"
        return Guess("BIGINT" if not words and fits(whole) else "VARCHAR")
    for type, format, test in _candidates(words):
        if fits(test):
            others = _candidates(words) if format not in ("", ",") else ()
            also = tuple(f for t, f, test in others if t == type and f not in ("", format)
                         and _tell(con, type, format, f) and fits(test))  # fmt: skip
            return Guess(type, format, also + _thousands(con, type, format))
    return Guess("VARCHAR", like=next((k for k, test in _LIKE.items() if _most(con, test)), ""))


_LIKE = {
    "dates": r"\s*[0-9]{1,4}([./-])[0-9]{1,2}[./-][0-9]{2,4}([ T].*)?",
    "numbers": r"\s*[+-]?[0-9][0-9.,]*\s*",
}
_GROUPED = {"": r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}", ",": r"[+-]?[1-9][0-9]{0,2},[0-9]{3}"}


def _most(con: duckdb.DuckDBPyConnection, pattern: str) -> bool:
    """Tell whether most texts are so."""
    fit = f"count(*) FILTER (WHERE regexp_full_match(x, '{pattern}')) * 2 > count(x)"
    return con.execute(f"SELECT {fit} FROM texts").fetchall() == [(True,)]


def _thousands(con: duckdb.DuckDBPyConnection, type: str, format: str) -> tuple[str, ...]:
    """Return what else a number may mean by its point or comma: thousands, if all could be so."""
    if type != "DOUBLE" or format not in _GROUPED:
        return ()
    grouped = f"regexp_full_match(x, '{_GROUPED[format]}')"
    return ("thousands",) if _all_pass(con, grouped, "texts") else ()


def _all_pass(con: duckdb.DuckDBPyConnection, test: str, texts: str) -> bool:
    passed = f"SELECT coalesce(bool_and(coalesce({test}, false)), true) FROM {texts}"
    return con.execute(f"{passed} WHERE x IS NOT NULL").fetchall() == [(True,)]


def _tell(con: duckdb.DuckDBPyConnection, type: str, format: str, other: str) -> bool:
    """Tell whether two formats make different moments of a text."""
    a, b = from_text("x", type, format), from_text("x", type, other)
    ((differ,),) = con.execute(
        f"SELECT bool_or(({a}) IS DISTINCT FROM ({b})) FROM texts"
    ).fetchall()
    return bool(differ)


def _candidates(words: bool) -> Iterator[tuple[str, str, str]]:
    """Return types and formats, each with a test in SQL."""
    if not words:
        yield "BOOLEAN", "", "lower(x) IN ('true', 'false')"
        yield "BIGINT", "", f"NOT contains(x, '.') AND ({from_text('x', 'BIGINT')}) IS NOT NULL"
        yield "DOUBLE", "", "NOT contains(x, '_') AND TRY_CAST(x AS DOUBLE) IS NOT NULL"
        decimal = from_text("x", "DOUBLE", ",")
        yield "DOUBLE", ",", f"regexp_matches(x, '[0-9]$') AND ({decimal}) IS NOT NULL"
    yield "DATE", "", f"strlen(x) <= 10 AND ({from_text('x', 'DATE')}) IS NOT NULL"
    yield "TIMESTAMP", "", f"({from_text('x', 'TIMESTAMP')}) IS NOT NULL"
    for type, ends in (("DATE", ("",)), ("TIMESTAMP", _TIMES)):
        for format in (day + end for end in ends for day in _DAYS):
            year = f"year(try_strptime(x, {literal(format)}))"
            yield type, format, f"{year} >= 1000" if "%Y" in format else f"{year} > 0"
    yield "TIME", "", f"contains(x, ':') AND ({from_text('x', 'TIME')}) IS NOT NULL"


def wider(one: str, other: str) -> str:
    """Return a type for what files of one table have as two."""
    types = {one, other}
    if len(types) == 1:
        return one
    if types <= INTEGER_TYPES:
        return "BIGINT"
    if all(t in INTEGER_TYPES or t in ("FLOAT", "DOUBLE") or t[:7] == "DECIMAL" for t in types):
        return "DOUBLE"
    return "TIMESTAMP" if types == {"DATE", "TIMESTAMP"} else "VARCHAR"
