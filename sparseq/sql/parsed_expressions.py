"""The operands of a parsed expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from sqlglot import exp


def parts(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operands of an expression, without types."""
    yield from (x for x in e.iter_expressions() if not isinstance(x, exp.DataType))


ENDS_FUNCTION = "sparseq_ends"
"""The name of the function that DuckDB calls for `EndsOf`."""


class EndsOf(exp.Expression, exp.Func):
    """The interval of a function (`this`, its name), from its arguments' pairs and numbers."""

    arg_types: ClassVar = {"this": True, "expressions": True}
    is_var_len_args = True


class Pair(exp.Expression, exp.Func):
    """A low end (`this`) and a high end (`expression`) as one value."""

    arg_types: ClassVar = {"this": True, "expression": True}


class EndOf(exp.Expression, exp.Func):
    """One end of a pair (`this`): 'low' or 'high' (`expression`)."""

    arg_types: ClassVar = {"this": True, "expression": True}


def own(e: exp.Expr) -> exp.Expr:
    """Return an expression that can be inserted: a copy, if it already has a parent."""
    return e if e.parent is None else e.copy()


def with_this(e: exp.Expr, this: exp.Expr, of: exp.Expr | None = None) -> exp.Expr:
    """Return the same operation on another operand.

    Args:
        e: The operation.
        this: The new operand.
        of: The operand that it replaces; by default the first.

    Example:
        >>> from sqlglot import exp, parse_one
        >>> with_this(parse_one("round(a * b, 2)"), exp.column("c")).sql()
        'ROUND(c, 2)'
    """

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(x) for x in value]
        return value.copy() if isinstance(value, exp.Expr) else value

    of = e.this if of is None else of
    place = next(name for name, value in e.args.items() if value is of)
    others = {name: copied(value) for name, value in e.args.items() if name != place}
    return type(e)(**{place: own(this)}, **others)


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conjuncts of a condition, all of which must hold."""
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]
