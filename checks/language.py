"""Typed expressions about one row, with constants near the values of the data.

The words are every entry of `sparseq.language.functions`, and forms that are not functions there:
casts, CASE, comparisons, BETWEEN, IN, LIKE; each of these for every type, and for constants next to
constants and NULL. A `Term` is a tree, so that it can be made smaller. The audit, the comparison of
evaluators and the test of totality (`checks.total`) use these expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from sparseq.language import types as T
from sparseq.language.functions import FUNCTIONS

INT, FLOAT, TEXT, BOOL, DATE, TIME = "int", "float", "text", "bool", "date", "time"
CLOCK, UUID = "clock", "uuid"
NUMBER = "number"
"""An argument that may be INT or FLOAT."""
TYPES = (INT, FLOAT, TEXT, BOOL, DATE, TIME, CLOCK, UUID)
NAMED = {
    INT: "BIGINT",
    FLOAT: "DOUBLE",
    TEXT: "VARCHAR",
    BOOL: "BOOLEAN",
    DATE: "DATE",
    TIME: "TIMESTAMP",
    CLOCK: "TIME",
    UUID: "UUID",
}


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
    *_of(
        INT,
        "int",
        "abs({})",
        "sign({})",
        "- {}",
        "({})",
        "CAST({} AS TINYINT)",
        "CAST({} AS SMALLINT)",
        "CAST({} AS INTEGER)",
        "CAST({} AS UBIGINT)",
        "TRY_CAST({} AS UTINYINT)",
        "round({}, -2)",
    ),
    *_of(
        INT, "int int", "({} + {})", "({} - {})", "({} * {})", "({} // {})", "({} % {})", "- ({})"
    ),
    *_of(
        FLOAT,
        "number",
        "abs({})",
        "round({})",
        "round({}, 2)",
        "floor({})",
        "ceil({})",
        "trunc({})",
        "sqrt({})",
        "exp({})",
        "ln({})",
        "log({})",
        "- {}",
        "CAST({} AS DOUBLE)",
        "CAST({} AS FLOAT)",
        "CAST({} AS DECIMAL(18, 4))",
        "CAST({} AS DECIMAL(38, 10))",
    ),
    *_of(
        FLOAT,
        "number number",
        "({} + {})",
        "({} - {})",
        "({} * {})",
        "({} / {})",
        "({} % {})",
        "pow({}, {})",
        "coalesce({}, {})",
        "nullif({}, {})",
        "greatest({}, {})",
        "least({}, {})",
    ),
    *_of(INT, "float", "CAST({} AS INTEGER)", "CAST({} AS BIGINT)", "TRY_CAST({} AS BIGINT)"),
    *_of(INT, "text", "length({})", "CAST({} AS INTEGER)", "TRY_CAST({} AS BIGINT)"),
    *_of(FLOAT, "text", "CAST({} AS DOUBLE)", "TRY_CAST({} AS DOUBLE)"),
    *_of(INT, "text text", "strpos({}, {})"),
    *_of(
        TEXT,
        "text",
        "lower({})",
        "upper({})",
        "trim({})",
        "left({}, 2)",
        "right({}, 2)",
        "substring({}, 2, 3)",
    ),
    *_of(TEXT, "text int", "left({}, {})", "right({}, {})", "substring({}, {})"),
    *_of(TEXT, "text int int", "substring({}, {}, {})"),
    *_of(TEXT, "text text", "({} || {})", "concat({}, {})"),
    *_of(TEXT, "number", "CAST({} AS VARCHAR)"),
    *_of(TEXT, "date", "CAST({} AS VARCHAR)", "dayname({})", "monthname({})"),
    *_of(TEXT, "bool", "CAST({} AS VARCHAR)"),
    *_of(
        BOOL,
        "text text",
        "starts_with({}, {})",
        "ends_with({}, {})",
        "contains({}, {})",
        "({} IN ({}, 'b'))",
    ),
    *_of(BOOL, "text", "{} LIKE '%a_'", "{} ILIKE 'B%'", "{} NOT LIKE '%'"),
    *_of(
        BOOL,
        "number number",
        "({} = {})",
        "({} <> {})",
        "({} < {})",
        "({} >= {})",
        "({} IN ({}, 1))",
        "({} IS DISTINCT FROM {})",
    ),
    *_of(BOOL, "date time", "({} = {})", "({} < {})", "({} IS NOT DISTINCT FROM {})"),
    *_of(BOOL, "float", "isnan({})", "isinf({})", "isfinite({})"),
    *_of(BOOL, "bool", "(({}) IS NOT TRUE)", "(({}) IS FALSE)", "(({}) IS NOT FALSE)"),
    Function("(NOT ({}))", (BOOL,), BOOL, often=12),
    Function("(({}) AND ({}))", (BOOL, BOOL), BOOL, often=8),
    Function("(({}) OR ({}))", (BOOL, BOOL), BOOL, often=8),
    *_of(
        INT,
        "date",
        "year({})",
        "quarter({})",
        "month({})",
        "week({})",
        "day({})",
        "dayofyear({})",
        "dayofweek({})",
        "isodow({})",
        "extract(isoyear FROM {})",
        "date_part('week', {})",
        "weekofyear({})",
    ),
    *_of(
        INT, "time", "hour({})", "minute({})", "second({})", "year({})", "extract(isoyear FROM {})"
    ),
    *_of(INT, "date date", "date_diff('day', {}, {})", "date_diff('month', {}, {})"),
    *_of(
        DATE,
        "date",
        "last_day({})",
        "date_trunc('month', {})",
        "date_trunc('year', {})",
        "date_trunc('week', {})",
        "CAST({} + INTERVAL 1 MONTH AS DATE)",
    ),
    *_of(DATE, "date int", "({} + CAST({} AS INTEGER))", "({} - CAST({} AS INTEGER))"),
    *_of(DATE, "time", "CAST({} AS DATE)"),
    *_of(DATE, "text", "CAST({} AS DATE)"),
    *_of(DATE, "int", "make_date(2024, 1, {})"),
    *_of(TIME, "date", "CAST({} AS TIMESTAMP)", "({} + INTERVAL 1 HOUR)"),
    *_of(TIME, "time", "({} + INTERVAL 1 DAY)", "date_trunc('hour', {})"),
    *_of(TIME, "text", "TRY_CAST({} AS TIMESTAMP)"),
    *_of(CLOCK, "time", "CAST({} AS TIME)"),
    *_of(CLOCK, "text", "TRY_CAST({} AS TIME)"),
    *_of(UUID, "text", "TRY_CAST({} AS UUID)"),
    *_of(TEXT, "uuid", "CAST({} AS VARCHAR)"),
]
_OF_EVERY_TYPE: tuple[tuple[str, str, str], ...] = (
    *(
        ("bool", "T T", "({} " + o + " {})")
        for o in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    ),
    *(
        ("bool", "T T T", "({} " + o + ")")
        for o in ("BETWEEN {} AND {}", "NOT BETWEEN {} AND {}", "IN ({}, {})", "NOT IN ({}, {})")
    ),
    ("bool", "T T", "({} NOT IN ({}, NULL))"),
    ("bool", "T", "({} IS NULL)"),
    ("bool", "T", "({} IS NOT NULL)"),
    ("T", "bool T T", "CASE WHEN {} THEN {} ELSE {} END"),
    ("T", "bool T", "CASE WHEN {} THEN {} END"),
    ("T", "bool T bool T T", "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END"),
    ("T", "T T T T", "CASE {} WHEN {} THEN {} ELSE {} END"),
    ("T", "bool T T", "if({}, {}, {})"),
    ("T", "T T", "coalesce({}, {})"),
    ("T", "T T T", "coalesce({}, {}, {})"),
    ("T", "T T", "nullif({}, {})"),
    ("T", "T T", "greatest({}, {})"),
    ("T", "T T T", "least({}, {}, {})"),
)
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
    "truth": (BOOL, T.BOOLEAN),
    "integer": (INT, T.BIGINT),
    "number": (FLOAT, T.DOUBLE),
    "decimal": (FLOAT, T.decimal(18, 4)),
    "text": (TEXT, T.TEXT),
    "date": (DATE, T.Type(T.Family.DATE, T.FIRST_DAY, T.LAST_DAY)),
    "timestamp": (TIME, T.Type(T.Family.TIMESTAMP, T.FIRST_DAY, T.LAST_DAY)),
    "time": (CLOCK, T.Type(T.Family.TIME)),
    "uuid": (UUID, T.UUID),
}
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
