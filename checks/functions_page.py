"""docs/functions.md, made from the table: `python -m checks.functions_page`."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions import AGGREGATE_FUNCTIONS, AggregateFunction
from sparseq.language.functions import FUNCTIONS, Function
from sparseq.language.functions.texts import MAX_TEXT
from sparseq.language.types import Family, Type

_HEAD = f"""\
# What every function means, for every value

`python -m checks.functions_page` makes this page from the table of functions that all queries
use. No function fails on a row: if there is no value, the result is NULL, and a row whose
expression is NULL counts for nothing. If an argument is NULL, the result is NULL, except for
`coalesce`, `concat`, `greatest`, `least`, `IS` and CASE.

The families of types are *integer* (up to 64 bits), *decimal* (up to 38 digits), *number* (a
double, also NaN and infinite), *text*, *date* and *timestamp* (from year 1 to 9999 where they are
stored or leave a subquery), *time*, *UUID*, *truth* (a boolean), and *list* (up to
{T.MOST_LISTED:,} texts, integers, numbers, booleans or dates). An integer can stand for a decimal
or a number, a decimal for a number, a date for a timestamp, and a constant in quotes for any
type. A constant that has no value is refused. `+ - * / % //`, a minus, `abs`, `floor`, `ceil`,
`trunc`, `round` and comparisons of FLOATs, or of FLOATs and exact numbers, are computed in 32
bits, as in DuckDB.

| written | takes | gives | means |
|---|---|---|---|
"""
_TAIL = f"""
## Forms

| written | means |
|---|---|
| `a = b`, `<>`, `<`, `<=`, `>`, `>=`, `BETWEEN`, `IN (…)`, `IS [NOT] DISTINCT FROM` | compared in a type that holds the values of both, decimals exactly; a text is cast to the type of the other side; NaN equals itself and is the largest number |
| `CAST(a AS t)`, `TRY_CAST(a AS t)`, `a::t` | the same: NULL if the value does not fit; numbers round to even |
| `a LIKE 'pattern'`, `ILIKE` | % stands for any text, _ for any character; the pattern is a constant |
| `CASE`, `if`, `coalesce`, `nullif`, `greatest`, `least` | as in SQL; the results have one type that holds them all; `greatest` and `least` ignore NULL |
| `concat(a, b, …)` | takes any types, ignores NULL, and is cut to {MAX_TEXT:,} characters |
| `a IS NULL`, `a IS NOT NULL` | never NULL |
| `a[1]`, `a[-1]` | the value at a position of a list, also from its end; NULL if there is none |
| `a = ANY(b)` | whether the list b contains a; NULL if a is NULL, or if b contains NULL and not a; false if there is no list |
"""  # noqa: E501
_AGGREGATES = """
## Aggregates and windows inside a subquery

They use the rows of one person. Their values do not depend on the order of the rows, except where
ORDER BY gives an order; a window breaks ties by all columns that the subquery names. All of them
ignore NULL, except `count(*)`, `first`, `last` and the functions of single rows of a window. Any
aggregate takes FILTER. [SQL](sql.md#aggregates) lists the aggregates of whole questions, with
noise.

| written | takes | used as | means |
|---|---|---|---|
"""
_EXAMPLES: dict[Family, Type] = {
    Family.BOOLEAN: T.BOOLEAN,
    Family.INTEGER: T.BIGINT,
    Family.DECIMAL: T.decimal(18, 3),
    Family.DOUBLE: T.DOUBLE,
    Family.TEXT: T.TEXT,
    Family.DATE: T.DATE,
    Family.TIMESTAMP: T.TIMESTAMP,
    Family.TIME: T.TIME,
    Family.UUID: T.UUID,
}


def page() -> str:
    """Return the page.

    Example:
        >>> "| `(a || b)` | text, text | text |" in page()
        True
    """
    rows = dict.fromkeys(map(_row, FUNCTIONS))
    inside = map(_aggregate_row, AGGREGATE_FUNCTIONS)
    return _HEAD + "".join(rows) + _TAIL + _AGGREGATES + "".join(inside)


def _row(f: Function) -> str:
    form = f.form.format(*"abcdef").replace("|", "\\|") if "||" not in f.form else "(a || b)"
    held = _EXAMPLES.get(f.takes[-1], T.TEXT)  # of a list: what it is held against
    lists = T.find_type(f"{held.sql}[]") or T.NULL
    types = [lists if k is Family.LIST else _EXAMPLES[k] for k in f.takes]
    gives = f.gives(types)
    assert gives is not None
    held_in = f.name != "contains" and types[0] is lists and gives == lists.inside
    word = "what it holds" if held_in else gives.family
    takes = ", ".join(map(str, f.takes))
    return f"| `{form}` | {takes} | {word} | {f.meaning} |\n"


def _aggregate_row(f: AggregateFunction) -> str:
    takes = ", ".join(map(str, f.takes)) or "nothing"
    return f"| `{f.form.format(*'ab')}` | {takes} | {f.use} | {f.meaning} |\n"


if __name__ == "__main__":
    print(page(), end="")
