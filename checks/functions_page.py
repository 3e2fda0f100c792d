"""docs/functions.md, made from the table: `python -m checks.functions_page`."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions import AGGREGATE_FUNCTIONS, AggregateFunction
from sparseq.language.functions import FUNCTIONS, Function
from sparseq.language.text_functions import MAX_TEXT
from sparseq.language.types import Family, Type

_HEAD = f"""\
# What every function means, for every value

Made from the table that queries are lowered by (`python -m checks.functions_page`).
Nothing here can fail on a row: where there is no value, there is NULL, and a row whose expression
is NULL counts for nothing. Arguments that are NULL make NULL, but for `coalesce`, `concat`,
`greatest`, `least`, `IS` and CASE.

Families of types: *integer* (up to 64 bits), *decimal* (up to 38 digits), *number* (a double, NaN
and infinities included), *text*, *date* and *timestamp* (from year 1 to 9999 where they are stored
or leave a subquery), *time*, *UUID*, *truth*, *list* (of up to {T.MOST_LISTED:,} texts, integers,
numbers, truths or dates). An integer goes where a decimal or a number is taken, a decimal where a
number is, a date where a timestamp is, and a constant in quotes where any type is. A constant that
has no value is refused. Of FLOATs, and of FLOATs and exact numbers, `+ - * / % //`, a minus, `abs`,
`floor`, `ceil`, `trunc`, `round` and comparisons are those of 32 bits, as in DuckDB.

| written | takes | gives | means |
|---|---|---|---|
"""
_TAIL = f"""
## Forms

| written | means |
|---|---|
| `a = b`, `<>`, `<`, `<=`, `>`, `>=`, `BETWEEN`, `IN (…)`, `IS [NOT] DISTINCT FROM` | both in a type that holds the values of both, decimals exactly; a text that is compared with another type is cast to it; NaN equals itself and is the largest number |
| `CAST(a AS t)`, `TRY_CAST(a AS t)`, `a::t` | the same: NULL where the value does not fit; numbers round to even |
| `a LIKE 'pattern'`, `ILIKE` | % any text, _ any character; the pattern is a constant |
| `CASE`, `if`, `coalesce`, `nullif`, `greatest`, `least` | as in SQL, the results in one type that holds them all; `greatest` and `least` leave NULL out |
| `concat(a, b, …)` | of any types, NULL left out, cut to {MAX_TEXT:,} characters |
| `a IS NULL`, `a IS NOT NULL` | never NULL |
| `a[1]`, `a[-1]` | the value at a place of a list, from its end; NULL where there is none |
| `a = ANY(b)` | whether the list b has a; NULL if a is NULL, or one of b is and no other is a; false of no list |
"""  # noqa: E501
_AGGREGATES = """
## Aggregates and windows inside a subquery

They are over one person's rows, and their values don't depend on the order of the rows, but for
what ORDER BY says: a window breaks ties by all columns that the subquery names. NULL is left out,
but by `count(*)`, `first`, `last` and the neighbours of a window. Any aggregate takes FILTER.
Which aggregates a whole question may have, with noise, is in [SQL](sql.md#aggregates).

| written | takes | stands | means |
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
