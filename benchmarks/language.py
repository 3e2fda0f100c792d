"""Typed expressions: what a query may say of one row, with constants around what is in the data.

The words are every entry of `sparseq.language.functions`, and forms that are no functions there:
casts, CASE, comparisons, BETWEEN, IN, LIKE; each of these of every type, and of constants beside
constants and NULL. A `Term` is a tree, so that it can be made smaller. The audit, the comparison of
evaluators and the test that all is total (`benchmarks.total`) write their expressions here.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from sparseq.language import types as T
from sparseq.language.functions import FUNCTIONS

INT, FLOAT, TEXT, BOOL, DATE, TIME = "int", "float", "text", "bool", "date", "time"
CLOCK, UUID = "clock", "uuid"
NUMBER = "number"
"""An argument that may be INT or FLOAT."""
TYPES = (INT, FLOAT, TEXT, BOOL, DATE, TIME, CLOCK, UUID)
NAMED = {INT: "BIGINT", FLOAT: "DOUBLE", TEXT: "VARCHAR", BOOL: "BOOLEAN", DATE: "DATE",
         TIME: "TIMESTAMP", CLOCK: "TIME", UUID: "UUID"}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """An expression: a template with a `{}` for each part, or a leaf without parts."""

    type: str
    template: str
    parts: tuple[Term, ...] = ()

    @property
    def sql(self) -> str:
        """The expression as SQL."""
        return self.template.format(*(p.sql for p in self.parts)) if self.parts else self.template

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return 1 + sum(p.size for p in self.parts)

    def smaller(self) -> Iterator[Term]:
        """Yield terms of the same type with fewer nodes: parts in place of the whole first."""
        for part in self.parts:
            if part.type == self.type:
                yield part
        for i, part in enumerate(self.parts):
            for less in part.smaller():
                yield replace(self, parts=(*self.parts[:i], less, *self.parts[i + 1 :]))


@dataclass(frozen=True)
class Function:
    """A word of the language: its SQL with a `{}` for each argument, the types, and how often."""

    template: str
    arguments: tuple[str, ...]
    result: str
    often: int = 1

    @property
    def name(self) -> str:
        """The first word of the template."""
        return self.template.split("(")[0].strip("{} ") or self.template


def _of(result: str, arguments: str, *templates: str) -> list[Function]:
    return [Function(t, tuple(arguments.split()), result) for t in templates]


_LISTED = [
    *_of(INT, "int", "abs({})", "sign({})", "- {}", "({})", "CAST({} AS TINYINT)",
         "CAST({} AS SMALLINT)", "CAST({} AS INTEGER)", "CAST({} AS UBIGINT)",
         "TRY_CAST({} AS UTINYINT)", "round({}, -2)"),
    *_of(INT, "int int", "({} + {})", "({} - {})", "({} * {})", "({} // {})", "({} % {})",
         "- ({})"),
    *_of(FLOAT, "number", "abs({})", "round({})", "round({}, 2)", "floor({})", "ceil({})",
         "trunc({})", "sqrt({})", "exp({})", "ln({})", "log({})", "- {}", "CAST({} AS DOUBLE)",
         "CAST({} AS FLOAT)", "CAST({} AS DECIMAL(18, 4))", "CAST({} AS DECIMAL(38, 10))"),
    *_of(FLOAT, "number number", "({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})",
         "pow({}, {})", "coalesce({}, {})", "nullif({}, {})", "greatest({}, {})", "least({}, {})"),
    *_of(INT, "float", "CAST({} AS INTEGER)", "CAST({} AS BIGINT)", "TRY_CAST({} AS BIGINT)"),
    *_of(INT, "text", "length({})", "CAST({} AS INTEGER)", "TRY_CAST({} AS BIGINT)"),
    *_of(FLOAT, "text", "CAST({} AS DOUBLE)", "TRY_CAST({} AS DOUBLE)"),
    *_of(INT, "text text", "strpos({}, {})"),
    *_of(TEXT, "text", "lower({})", "upper({})", "trim({})", "left({}, 2)", "right({}, 2)",
         "substring({}, 2, 3)"),
    *_of(TEXT, "text int", "left({}, {})", "right({}, {})", "substring({}, {})"),
    *_of(TEXT, "text int int", "substring({}, {}, {})"),
    *_of(TEXT, "text text", "({} || {})", "concat({}, {})"),
    *_of(TEXT, "number", "CAST({} AS VARCHAR)"), *_of(TEXT, "date", "CAST({} AS VARCHAR)",
         "dayname({})", "monthname({})"), *_of(TEXT, "bool", "CAST({} AS VARCHAR)"),
    *_of(BOOL, "text text", "starts_with({}, {})", "ends_with({}, {})", "contains({}, {})",
         "({} IN ({}, 'b'))"),
    *_of(BOOL, "text", "{} LIKE '%a_'", "{} ILIKE 'B%'", "{} NOT LIKE '%'"),
    *_of(BOOL, "number number", "({} = {})", "({} <> {})", "({} < {})", "({} >= {})",
         "({} IN ({}, 1))", "({} IS DISTINCT FROM {})"),
    *_of(BOOL, "date time", "({} = {})", "({} < {})", "({} IS NOT DISTINCT FROM {})"),
    *_of(BOOL, "float", "isnan({})", "isinf({})", "isfinite({})"),
    *_of(BOOL, "bool", "(({}) IS NOT TRUE)", "(({}) IS FALSE)", "(({}) IS NOT FALSE)"),
    Function("(NOT ({}))", (BOOL,), BOOL, often=12),
    Function("(({}) AND ({}))", (BOOL, BOOL), BOOL, often=8),
    Function("(({}) OR ({}))", (BOOL, BOOL), BOOL, often=8),
    *_of(INT, "date", "year({})", "quarter({})", "month({})", "week({})", "day({})",
         "dayofyear({})", "dayofweek({})", "isodow({})", "extract(isoyear FROM {})",
         "date_part('week', {})", "weekofyear({})"),
    *_of(INT, "time", "hour({})", "minute({})", "second({})", "year({})",
         "extract(isoyear FROM {})"),
    *_of(INT, "date date", "date_diff('day', {}, {})", "date_diff('month', {}, {})"),
    *_of(DATE, "date", "last_day({})", "date_trunc('month', {})", "date_trunc('year', {})",
         "date_trunc('week', {})", "CAST({} + INTERVAL 1 MONTH AS DATE)"),
    *_of(DATE, "date int", "({} + CAST({} AS INTEGER))", "({} - CAST({} AS INTEGER))"),
    *_of(DATE, "time", "CAST({} AS DATE)"), *_of(DATE, "text", "CAST({} AS DATE)"),
    *_of(DATE, "int", "make_date(2024, 1, {})"),
    *_of(TIME, "date", "CAST({} AS TIMESTAMP)", "({} + INTERVAL 1 HOUR)"),
    *_of(TIME, "time", "({} + INTERVAL 1 DAY)", "date_trunc('hour', {})"),
    *_of(TIME, "text", "TRY_CAST({} AS TIMESTAMP)"),
    *_of(CLOCK, "time", "CAST({} AS TIME)"), *_of(CLOCK, "text", "TRY_CAST({} AS TIME)"),
    *_of(UUID, "text", "TRY_CAST({} AS UUID)"), *_of(TEXT, "uuid", "CAST({} AS VARCHAR)"),
]  # fmt: skip
_OF_EVERY_TYPE: tuple[tuple[str, str, str], ...] = (
    *(("bool", "T T", "({} " + o + " {})") for o in
      ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")),
    *(("bool", "T T T", "({} " + o + ")") for o in
      ("BETWEEN {} AND {}", "NOT BETWEEN {} AND {}", "IN ({}, {})", "NOT IN ({}, {})")),
    ("bool", "T T", "({} NOT IN ({}, NULL))"), ("bool", "T", "({} IS NULL)"),
    ("bool", "T", "({} IS NOT NULL)"),
    ("T", "bool T T", "CASE WHEN {} THEN {} ELSE {} END"),
    ("T", "bool T", "CASE WHEN {} THEN {} END"),
    ("T", "bool T bool T T", "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END"),
    ("T", "T T T T", "CASE {} WHEN {} THEN {} ELSE {} END"), ("T", "bool T T", "if({}, {}, {})"),
    ("T", "T T", "coalesce({}, {})"), ("T", "T T T", "coalesce({}, {}, {})"),
    ("T", "T T", "nullif({}, {})"), ("T", "T T", "greatest({}, {})"),
    ("T", "T T T", "least({}, {}, {})"),
)  # fmt: skip
"""Forms of any type T."""
_LISTED += [
    Function(
        form,
        tuple(arguments.replace("T", type).split()),
        result.replace("T", type),
        3 if result == "bool" else 1,
    )
    for type in TYPES
    for result, arguments, form in _OF_EVERY_TYPE
]


def functions() -> list[Function]:
    """Return the words of the language: ours, and every entry of the product's own table."""
    known = {(f.template, f.arguments) for f in _LISTED}
    return [*_LISTED, *(f for f in _tabled() if (f.template, f.arguments) not in known)]


_FAMILIES = {
    "truth": (BOOL, T.BOOLEAN), "integer": (INT, T.BIGINT), "number": (FLOAT, T.DOUBLE),
    "decimal": (FLOAT, T.decimal(18, 4)), "text": (TEXT, T.TEXT),
    "date": (DATE, T.Type(T.Family.DATE, T.FIRST_DAY, T.LAST_DAY)),
    "timestamp": (TIME, T.Type(T.Family.TIMESTAMP, T.FIRST_DAY, T.LAST_DAY)),
    "time": (CLOCK, T.Type(T.Family.TIME)), "uuid": (UUID, T.UUID),
}  # fmt: skip
_WRITTEN = {"decimal": "CAST({} AS DECIMAL(18, 4))"}
"""How an argument becomes one of a type that no column has."""


@cache
def _tabled() -> tuple[Function, ...]:
    """Return the entries of `language.functions`, an argument that is fixed as a constant."""
    found = []
    for entry in FUNCTIONS:
        if not all(family.value in _FAMILIES for family in entry.takes):
            continue
        result = entry.gives([_FAMILIES[family.value][1] for family in entry.takes])
        if result is None or result.family.value not in _FAMILIES:
            continue
        for sample in entry.samples if entry.fixed else ((),):
            places, arguments = [], []
            for i, family in enumerate(entry.takes):
                if i in entry.fixed:
                    places.append(
                        sample[entry.fixed.index(i)].replace("{", "{{").replace("}", "}}")
                    )
                    continue
                places.append(_WRITTEN.get(family.value, "{}"))
                arguments.append(_FAMILIES[family.value][0])
            template = entry.form.format(*places)
            found.append(Function(template, tuple(arguments), _FAMILIES[result.family.value][0]))
    return tuple(dict.fromkeys(found))


# -- constants -------------------------------------------------------------------------------------

_FIXED: dict[str, tuple[str, ...]] = {
    INT: ("0", "1", "-1", "2", "7", "100", "127", "128", "255", "32768", "2147483647",
          "-2147483648", "9223372036854775807", "-9223372036854775807", "4294967296", "NULL",
          "2147483646", "-2147483646"),
    FLOAT: ("0.0", "0.5", "1.0", "-2.5", "1e308", "-1e308", "1e19", "5e-324", "1e-9", "NULL"),
    TEXT: ("''", "'a'", "'b'", "'A'", "'%'", "'1'", "'-1'", "'1e400'", "'2024-01-02'",
           "'2024-02-30'", "'infinity'", "'日本'", "'true'", "NULL"),
    BOOL: ("true", "false", "NULL"),
    DATE: ("DATE '2024-01-02'", "DATE '1970-01-01'", "DATE '0001-01-01'", "DATE '9999-12-31'",
           "NULL"),
    TIME: ("TIMESTAMP '2024-01-02 03:04:05'", "TIMESTAMP '1970-01-01 00:00:00'",
           "TIMESTAMP '9999-12-31 23:59:59.999999'", "NULL"),
    CLOCK: ("TIME '10:00:00'", "TIME '00:00:00'", "TIME '23:59:59.999999'"),
    UUID: ("CAST('00000000-0000-0000-0000-000000000000' AS UUID)",),
}  # fmt: skip


def _written(value: object) -> list[str]:
    """Return SQL constants at and beside a value of the data; none where it has no SQL."""
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
        "(9223372036854775807 - {} + {})", "(-9223372036854775807 + {} - {})",
        "extract(isoyear FROM DATE '0001-01-01' + {} - {})", "year(DATE '9999-12-31' - {} + {})",
    ),
    DATE: ("(DATE '0001-01-01' + {} - {})", "(DATE '9999-12-31' - {} + {})"),
    FLOAT: ("exp(709 - {} + {})", "(1e308 * ({} - {}))", "ln({} - {})"),
}  # fmt: skip


class Expressions:
    """Makes random terms over columns, with constants around the values that are there.

    Constants stand beside constants as often as not, so that what folds, or takes one value for all
    rows, is tried with what doesn't.

    Args:
        rng: Whence chance comes.
        words: The language.
        values: Some values of the data by type: constants lie at and beside them.
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
        """Return a constant of a type: of every type's edge, or beside a value of the data."""
        if self.rng.random() < 0.15:
            return self.rng.choice(("NULL", f"CAST(NULL AS {NAMED[type]})"))
        written = self.rng.choice(self._constants[type])
        return f"({written})" if written.startswith("-") else written  # -- begins a comment
