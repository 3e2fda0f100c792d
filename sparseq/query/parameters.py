"""Queries with parameters: `:day` in the text of a query stands for a value.

A parameter is a token of the SQL, never a piece of its text: `:day` in a string or in a comment is
left alone, and a value enters as one literal of its own type, quoted where it is text. So no value
can become SQL. What comes out is an ordinary query, which goes through the checks of every query.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sparseq.errors import NotSql, ParameterError, did_you_mean
from sparseq.query.parse import Dialect

Value = bool | int | float | str | dt.date | dt.datetime


@dataclass(frozen=True)
class QueryText:
    """A query with parameters: its text, cut where they are.

    Attributes:
        pieces: Text between the parameters.
        names: The parameters, one between any two pieces.
    """

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, sql: str) -> QueryText:
        """Find the parameters in SQL text.

        Raises:
            NotSql: It is not SQL.

        >>> QueryText.of("SELECT ':no' WHERE date >= :day -- :no").names
        ('day',)
        """
        try:
            tokens = list(sqlglot.tokenize(sql, dialect=Dialect))
        except SqlglotError:
            raise NotSql("the query can't be read", "check that every quote is closed") from None
        pieces, names, start = [], [], 0
        for colon, name in pairwise(tokens):
            bare = sql[colon.end + 1 : name.end + 1]  # as it is written: no space, no quotes
            if colon.token_type is TokenType.COLON and bare == name.text and bare.isidentifier():
                pieces.append(sql[start : colon.start])
                names.append(name.text)
                start = name.end + 1
        return cls((*pieces, sql[start:]), tuple(names))

    def with_values(self, values: Mapping[str, Value]) -> str:
        """Return the query with a literal in the place of every parameter.

        Raises:
            ParameterError: A parameter has no value.

        >>> QueryText.of("SELECT :a, :b").with_values({"a": "it's", "b": dt.date(2024, 1, 1)})
        "SELECT 'it''s', DATE '2024-01-01'"
        """
        parts = [self.pieces[0]]
        for name, piece in zip(self.names, self.pieces[1:], strict=True):
            if name not in values:
                raise ParameterError(
                    f"the query has a parameter :{name}, and no value for it",
                    did_you_mean(name, list(values)) or f"--param {name}=…",
                )
            parts += [literal(values[name]), piece]
        return "".join(parts)


def literal(value: Value) -> str:
    """Return a value as an SQL literal of its type.

    >>> literal("a'b"), literal(-2), literal(True), literal(dt.datetime(2024, 1, 1, 6))
    ("'a''b'", '(-2)', 'TRUE', "TIMESTAMP '2024-01-01 06:00:00'")
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value) if value >= 0 else f"({value!r})"


def value_of(text: str) -> Value:
    """Return what a person means by text: a number, a date, a truth, else the text itself.

    Text in single quotes is text, whatever it looks like.

    >>> value_of("7"), value_of("1.5"), value_of("'7'"), value_of("gift"), value_of("2024-01-31")
    (7, 1.5, '7', 'gift', datetime.date(2024, 1, 31))
    """
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,18}\.\d{1,18}", text):
        return float(text)
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return dt.date.fromisoformat(text)
        if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", text):
            return dt.datetime.fromisoformat(text)
    except ValueError:
        pass
    return text


def given(pairs: Sequence[str], taken: Collection[str] = ()) -> dict[str, Value]:
    """Return the values of `name=value` texts.

    Args:
        pairs: The texts.
        taken: Names that have values of their own.

    Raises:
        ParameterError: A text is not of this form, or a name is taken or given twice.
    """
    values: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ParameterError(f"--param {pair!r} is not name=value", "--param country=DE")
        if name in taken:
            raise ParameterError(f":{name} is the tick's own", "choose another name")
        if name in values:
            raise ParameterError(f"--param {name} is given twice", "give it once")
        values[name] = value_of(text)
    return values
