"""Random expressions of the language: constants, functions and edge values of each type."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal

from checks.language import (
    BOOL,
    CLOCK,
    DATE,
    FLOAT,
    INT,
    NAMED,
    NUMBER,
    TEXT,
    TIME,
    TYPES,
    UUID,
    Function,
    Term,
)

_FIXED: dict[str, tuple[str, ...]] = {
    INT: (
        "0",
        "1",
        "-1",
        "2",
        "7",
        "100",
        "127",
        "128",
        "255",
        "32768",
        "2147483647",
        "-2147483648",
        "9223372036854775807",
        "-9223372036854775807",
        "4294967296",
        "NULL",
        "2147483646",
        "-2147483646",
    ),
    FLOAT: ("0.0", "0.5", "1.0", "-2.5", "1e308", "-1e308", "1e19", "5e-324", "1e-9", "NULL"),
    TEXT: (
        "''",
        "'a'",
        "'b'",
        "'A'",
        "'%'",
        "'1'",
        "'-1'",
        "'1e400'",
        "'2024-01-02'",
        "'2024-02-30'",
        "'infinity'",
        "'日本'",
        "'true'",
        "NULL",
    ),
    BOOL: ("true", "false", "NULL"),
    DATE: (
        "DATE '2024-01-02'",
        "DATE '1970-01-01'",
        "DATE '0001-01-01'",
        "DATE '9999-12-31'",
        "NULL",
    ),
    TIME: (
        "TIMESTAMP '2024-01-02 03:04:05'",
        "TIMESTAMP '1970-01-01 00:00:00'",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
        "NULL",
    ),
    CLOCK: ("TIME '10:00:00'", "TIME '00:00:00'", "TIME '23:59:59.999999'"),
    UUID: ("CAST('00000000-0000-0000-0000-000000000000' AS UUID)",),
}


def _written(value: object) -> list[str]:
    """Return SQL constants at and next to a value of the data; none for a value without SQL."""
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, int):
        return [str(v) for v in (value - 1, value, value + 1, -value) if abs(v) < 2**63]
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return []
        around = (value, value + 1, value - 1, -value)
        return [repr(v) if "e" in repr(v) else f"{v!r}e0" for v in around]
    if isinstance(value, dt.datetime):
        return [f"TIMESTAMP '{value}'"]
    if isinstance(value, dt.date):
        near = [d for d in (-1, 0, 1) if 1 < value.toordinal() + d < 3652059]
        return [f"DATE '{value + dt.timedelta(d)}'" for d in near]
    if isinstance(value, Decimal):
        return [str(value), str(value + Decimal("0.01"))]
    if isinstance(value, str) and "\0" not in value and len(value) < 80:
        return ["'" + value.replace("'", "''") + "'"]
    return []


_EDGES: dict[str, tuple[str, ...]] = {
    INT: (
        "(9223372036854775807 - {} + {})",
        "(-9223372036854775807 + {} - {})",
        "extract(isoyear FROM DATE '0001-01-01' + {} - {})",
        "year(DATE '9999-12-31' - {} + {})",
    ),
    DATE: ("(DATE '0001-01-01' + {} - {})", "(DATE '9999-12-31' - {} + {})"),
    FLOAT: ("exp(709 - {} + {})", "(1e308 * ({} - {}))", "ln({} - {})"),
}


class Expressions:
    """Makes random terms over columns, with constants near the values of the data.

    In half of the cases constants stand next to constants, so that code for constant expressions is
    tested as well.

    Args:
        rng: Source of the choices.
        words: The language.
        values: Some values of the data by type: constants are equal or close to them.
    """

    def __init__(
        self, rng: random.Random, words: Sequence[Function], values: Mapping[str, Sequence[object]]
    ) -> None:
        self.rng = rng
        self._words: dict[str, list[Function]] = {t: [] for t in TYPES}
        for word in words:
            self._words[word.result] += [word] * word.often
        self._decks: dict[str, list[Function]] = {}
        self._constants = {
            t: [*_FIXED[t], *dict.fromkeys(w for v in values.get(t, ()) for w in _written(v))]
            for t in TYPES
        }

    def term(self, type: str, columns: Mapping[str, Sequence[str]], depth: int) -> Term:
        """Return a term of a type over some columns (by type)."""
        if type == NUMBER:
            type = self.rng.choice((INT, FLOAT))
        mine = columns.get(type, ())
        if depth <= 0 or not self._words[type] or self.rng.random() < 0.1:
            if mine and self.rng.random() < 0.5:
                return Term(type, self.rng.choice(mine))
            return Term(type, self.constant(type))
        if mine and type in _EDGES and self.rng.random() < 0.15:
            return self._at_an_edge(type, columns)
        word = self._next_word(type)
        if word.often > 1 and BOOL not in word.arguments and self.rng.random() < 0.5:
            return self._of_leaves(word, columns)
        parts = tuple(self.term(a, columns, depth - 1) for a in word.arguments)
        return Term(type, word.template, parts)

    def _of_leaves(self, word: Function, columns: Mapping[str, Sequence[str]]) -> Term:
        """Return a comparison of columns and constants; as often as not one column is in it."""
        alone, parts = self.rng.randrange(2 * len(word.arguments)), []
        for i, type in enumerate(word.arguments):
            type = self.rng.choice((INT, FLOAT)) if type == NUMBER else type
            any_is = alone >= len(word.arguments) and self.rng.random() < 0.5
            mine = alone == i or any_is
            if mine and columns.get(type):
                parts.append(Term(type, self.rng.choice(columns[type])))
            else:
                parts.append(Term(type, self.constant(type)))
        return Term(word.result, word.template, tuple(parts))

    def _next_word(self, type: str) -> Function:
        """Return a word that gives a type, in turns: each comes as often as it says."""
        deck = self._decks.setdefault(type, [])
        if not deck:
            deck += self._words[type]
            self.rng.shuffle(deck)
        return deck.pop()

    def _at_an_edge(self, type: str, columns: Mapping[str, Sequence[str]]) -> Term:
        """Return a term that is on either side of a type's edge, as a column is of its extreme."""
        numbers = columns.get(INT) or columns.get(FLOAT) or ("0",)
        column = Term(INT, self.rng.choice(numbers))
        beside = Term(INT, self.constant(INT))
        return Term(type, self.rng.choice(_EDGES[type]), (beside, column))

    def constant(self, type: str) -> str:
        """Return a constant of a type: an edge value of the type, or near a value of the data."""
        if self.rng.random() < 0.15:
            return self.rng.choice(("NULL", f"CAST(NULL AS {NAMED[type]})"))
        written = self.rng.choice(self._constants[type])
        return f"({written})" if written.startswith("-") else written  # -- begins a comment
