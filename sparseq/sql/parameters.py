"""Queries with parameters: `:day`, `$day` or `?` in the text of a query stands for a value.

A parameter is a token of the SQL, never part of another token: `:day` in a string or in a comment
is ignored, and a value becomes one literal of its own type, quoted if it is text. So a value cannot
become SQL. The result is an ordinary query, to which all checks of queries apply.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sparseq.base.errors import NotSql, ParameterError, did_you_mean
from sparseq.sql.parse import Dialect

_DIGITS = 38
_HUGE = 10**_DIGITS  # DuckDB has no integer of this size
_OFFSET = r"(Z|[+-]\d\d(:?\d\d)?)?"
Value = bool | int | float | str | dt.date | dt.datetime | Decimal | None


@dataclass(frozen=True)
class QueryText:
    """A query with parameters: its text, split at the parameters.

    Attributes:
        pieces: Text between the parameters.
        names: The parameters, one between any two pieces; the names of `?` are 1, 2, ….
    """

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, sql: str) -> QueryText:
        """Find the parameters in SQL text.

        Raises:
            NotSql: The text is not SQL.

        >>> QueryText.of("SELECT ':no' WHERE date >= :day -- :no").names
        ('day',)
        """
        try:
            tokens = list(sqlglot.tokenize(sql, dialect=Dialect))
        except SqlglotError:
            raise NotSql("the query can't be read", "check that every quote is closed") from None
        pieces: list[str] = []
        names: list[str] = []
        start = 0
        for mark, name in zip_longest(tokens, tokens[1:]):
            end, called = mark.end, str(len(names) + 1)
            if mark.token_type is not TokenType.PLACEHOLDER:
                called = sql[mark.end + 1 : name.end + 1] if name else ""  # no space, no quotes
                if called != getattr(name, "text", None) or not _is_name(mark.token_type, called):
                    continue
                end = name.end
            pieces.append(sql[start : mark.start])
            names.append(called)
            start = end + 1
        return cls((*pieces, sql[start:]), tuple(names))

    def with_values(self, values: Mapping[str, Value]) -> str:
        """Return the query with each parameter replaced by a literal.

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


def _is_name(mark: TokenType, name: str) -> bool:
    if mark is TokenType.PARAMETER:  # $name, $1
        return name.isidentifier() or name.isdecimal()
    return mark is TokenType.COLON and name.isidentifier()


def bound(sql: str, params: Sequence[Value] | Mapping[str, Value]) -> str:
    """Return SQL with the values of its parameters, by position (`?`, `$1`) or by name (`$day`).

    Raises:
        ParameterError: A parameter has no value, or a value has no parameter or an unknown type.

    >>> bound("SELECT ?, $1, '?'", ["it's"]) == "SELECT 'it''s', 'it''s', '?'"
    True
    """
    text = QueryText.of(sql)
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise ParameterError("params are a list of values, or a dict of them by name")
    places = {str(i + 1): value for i, value in enumerate(params)}
    values = params if isinstance(params, Mapping) else places
    if missing := [name for name in dict.fromkeys(text.names) if name not in values]:
        raise ParameterError(
            f"there is no value for the parameter {missing[0]}", did_you_mean(missing[0], values)
        )
    if extra := [name for name in values if name not in text.names]:
        raise ParameterError(
            f"the query has no parameter {extra[0]}", did_you_mean(extra[0], text.names)
        )
    return text.with_values(values)


def literal(value: Value | np.generic) -> str:
    """Return a value as an SQL literal of its type; a moment with a zone is converted to UTC.

    Values of NumPy, pandas and pyarrow are treated as their Python equivalents.

    >>> literal("a'b"), literal(-2), literal(True), literal(dt.datetime(2024, 1, 1, 6))
    ("'a''b'", '(-2)', 'TRUE', "TIMESTAMP '2024-01-01 06:00:00'")
    >>> literal(["a", "b"])  # for x = ANY (?), or x IN ?
    "['a', 'b']"
    >>> literal(dt.datetime.fromisoformat("2024-03-31 02:00:00+02:00"))
    "TIMESTAMPTZ '2024-03-31 00:00:00+00:00'"
    """
    value = _plain(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        return f"TIMESTAMPTZ '{value.astimezone(dt.UTC).isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if not isinstance(value, int | float | Decimal):
        raise ParameterError(
            f"a parameter is a {type(value).__name__}",
            "give text, a number, a date, a time, True, False, None, or a list of them",
        )
    if isinstance(value, int):
        if abs(value) >= _HUGE:
            raise ParameterError(
                "a parameter is a whole number of more than 38 digits", "give a smaller one"
            )
    elif not math.isfinite(value):
        raise ParameterError(f"a parameter is {value}", "give a finite number")
    text = _written_out(value) if isinstance(value, Decimal) else f"{value}"
    return text if value >= 0 else f"({text})"


def _written_out(value: Decimal) -> str:
    """Return a decimal without an exponent, with which it would be a DOUBLE.

    >>> _written_out(Decimal("1E+20")), _written_out(Decimal("-2.50"))
    ('100000000000000000000', '-2.50')
    """
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not exponent >= -_DIGITS or value.adjusted() >= _DIGITS:
        raise ParameterError(
            f"a parameter is a decimal of more than {_DIGITS} digits", "give fewer, or a float"
        )
    return f"{value:f}"


def _plain(value: Any) -> Any:
    """Return another library's value as a Python value; raise if microseconds cannot hold it."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, pa.Array | pa.ChunkedArray | np.ndarray):
        return value.to_pylist() if hasattr(value, "to_pylist") else value.tolist()
    nanoseconds = getattr(value, "nanosecond", 0)
    if isinstance(value, np.datetime64):
        whole = value.astype("datetime64[us]")
        unit = np.datetime_data(value.dtype)[0]
        nanoseconds = 0 if np.isnat(value) or whole == value else 1
        value = whole.astype("datetime64[D]").item() if unit in "YMWD" else whole.item()
    if isinstance(value, np.timedelta64):
        value = value.astype("timedelta64[us]").item()
    if isinstance(value, np.generic):
        value = value.item()
    if nanoseconds == nanoseconds and nanoseconds:
        raise ParameterError("a parameter has nanoseconds", "round it to microseconds")
    return None if isinstance(value, dt.datetime) and value != value else value  # pandas.NaT


def value_of(text: str) -> Value:
    """Return the value that a text denotes: a number, a date, a truth value, else the text.

    Text in single quotes is always text.

    >>> value_of("2024-03-31T02:00+02:00").isoformat()
    '2024-03-31T02:00:00+02:00'
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
        number = float(text)
        return number if Decimal(repr(number)) == Decimal(text) else Decimal(text)
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return dt.date.fromisoformat(text)
        if re.fullmatch(rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?{_OFFSET}", text):
            return dt.datetime.fromisoformat(text)
    except ValueError:
        pass
    return text


def given(pairs: Sequence[str], taken: Collection[str] = ()) -> dict[str, Value]:
    """Return the values of `name=value` texts.

    Args:
        pairs: The texts.
        taken: Names that already have values.

    Raises:
        ParameterError: A text is not of this form, or a name is in `taken` or repeated.
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
