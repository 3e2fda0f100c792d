"""The operands of an expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlglot import exp


def parts(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what an expression is made of, types left out."""
    yield from (x for x in e.iter_expressions() if not isinstance(x, exp.DataType))


def operands(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what an interval is made of; all of it but conditions and orders."""
    if isinstance(e, exp.Window | exp.Filter | exp.Paren):
        yield from operands(e.this)
    elif isinstance(e, exp.AggFunc):
        yield from [bare(e.this)] if isinstance(e.this, exp.Expr) else []
    else:
        yield from (bare(x.args["true"] if isinstance(x, exp.If) else x) for x in parts(e))


def bare(e: exp.Expr) -> exp.Expr:
    """Return an expression without the parentheses around it."""
    return bare(e.this) if isinstance(e, exp.Paren) else e


def factor(e: exp.Expr) -> float | None:
    """Return a number that is written out, by which something is multiplied or divided.

    Example:
        >>> from sqlglot import parse_one
        >>> factor(parse_one("n * (-1.5)")), factor(parse_one("n / m")), factor(parse_one("n / 0"))
        (-1.5, None, None)
    """
    if isinstance(e, exp.Mul):
        return next((x for x in map(_number, (e.left, e.right)) if x is not None), None)
    return (_number(e.right) or None) if isinstance(e, exp.Div | exp.IntDiv) else None


def rising_in(e: exp.Expr) -> exp.Expr | None:
    """Return what a monotone function is of; None: it falls, as a logarithm to a base below 1 does.

    Example:
        >>> from sqlglot import parse_one
        >>> [str(rising_in(parse_one(f"{x}(2, n)", dialect="duckdb"))) for x in ("log", "round")]
        ['n', '2']
    """
    if not isinstance(e, exp.Log) or e.expression is None:
        return e.this if isinstance(e.this, exp.Expr) else None
    base = _number(e.this)
    return e.expression if base is not None and base > 1 else None


def _number(e: exp.Expr) -> float | None:
    e = bare(e)
    if isinstance(e, exp.Neg):
        found = _number(e.this)
        return None if found is None else -found
    written = isinstance(e, exp.Literal) and re.fullmatch(r"\d*\.?\d+", e.this)
    return float(e.this) if written else None


def own(e: exp.Expr) -> exp.Expr:
    """Return an expression to be put somewhere: a copy, if it stands somewhere already."""
    return e if e.parent is None else e.copy()


def with_this(e: exp.Expr, this: exp.Expr, of: exp.Expr | None = None) -> exp.Expr:
    """Return the same operation of something else.

    Args:
        e: The operation.
        this: What it is to be of.
        of: The operand in whose place it comes; by default the first.

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
    """Return the parts of a condition that must all hold."""
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]
