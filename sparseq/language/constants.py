"""Constants of a query: what is one, and how a value that DuckDB gave is written again."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def is_constant(e: exp.Expr) -> bool:
    """Tell whether an expression has the same value on every row."""
    return e.find(exp.Column, exp.Subquery, exp.Select, exp.Window, exp.AggFunc) is None


def constant(value: object, type: str) -> exp.Expr:
    """Return a value that DuckDB gave, as an expression that DuckDB reads."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool | int | str):
        return exp.convert(value)
    return exp.cast(exp.Literal.string(str(value)), type)


def constants(values: Sequence[object], type: str) -> str:
    """Return values that DuckDB gave as a list of a type, in DuckDB's SQL.

    Example:
        >>> constants(["it's", None, "b"], "VARCHAR")
        "['it''s', NULL, 'b']::VARCHAR[]"
    """

    def written(value: object) -> str:
        if isinstance(value, str):  # the rule without sqlglot's detour: there can be very many
            return "'" + value.replace("'", "''") + "'"
        return constant(value, type).sql("duckdb")

    return f"[{', '.join(map(written, values))}]::{type}[]"
