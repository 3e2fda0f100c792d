"""Bounds on the values of a look-up: for functions with small arguments and large results.

Memory limits don't help here: DuckDB computes 2,048 rows at a time, and counts neither texts nor
lists in them. There are no users' rows here, so an error may depend on values.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sparseq.pgwire.wire_errors import WireError

MOST_TEXT = 10_000
"""The maximum number of characters of a text, or of items of a list, that a function builds."""
MOST_TIMES = 1_000
"""The maximum number of repetitions of a text, and of characters that it is padded to."""
MOST_REPEATED = 100
"""The maximum number of characters of a repeated text, or of a replacement."""
MOST_SERIES = 1_000_000
"""The maximum length of a series."""
_JOINED = (exp.DPipe, exp.Concat, exp.ConcatWs, exp.ArrayConcat, exp.ArrayAppend)
_NAMED = frozenset(("format", "array_cat", "array_append", "list_concat", "string_to_array"))


def bounded(node: exp.Expr) -> exp.Expr:
    """Return a part of a look-up with bounded values; its arguments are bounded already.

    Raises:
        WireError: The part can't be bounded in this form.

    Example:
        >>> from sqlglot import parse_one
        >>> bounded(parse_one("a || b", dialect="duckdb")).sql("duckdb")
        '(a || b)[1:10000]'
        >>> bounded(parse_one("repeat('-', 3)", dialect="duckdb")).sql("duckdb")
        "REPEAT('-', 3)"
    """
    for kinds, bound in _BOUNDS:
        if isinstance(node, kinds):
            return bound(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() in _NAMED:
        return _cut(node)
    return node


def _cut(node: exp.Expr) -> exp.Expr:
    ends = exp.Slice(this=exp.Literal.number(1), expression=exp.Literal.number(MOST_TEXT))
    inside = type(node)(**node.args)  # the new node replaces this one
    return exp.Bracket(this=exp.Paren(this=inside), expressions=[ends])


def _repeat(node: exp.Expr) -> exp.Expr:
    text = node.this.unnest()
    if not isinstance(text, exp.Literal) or len(text.this) > MOST_REPEATED:
        raise _refusal(f"repeat() repeats a constant of at most {MOST_REPEATED} characters")
    said = f"repeat(): at most {MOST_TIMES:,} times"
    node.set("times", _check(node.args["times"], MOST_TIMES, said))
    return node


def _pad(node: exp.Expr) -> exp.Expr:
    length = _whole(node.expression)
    if length is None or length > MOST_TIMES:
        raise _refusal(f"lpad() and rpad() fill to a constant length of at most {MOST_TIMES:,}")
    return node


def _replace(node: exp.Expr) -> exp.Expr:
    text = node.args.get("replacement")
    if text is None:
        return node
    if not isinstance(text, exp.Literal) or len(text.this) > MOST_REPEATED:
        raise _refusal(f"a replacement is a constant of at most {MOST_REPEATED} characters")
    return _cut(node)


def _series(node: exp.Expr) -> exp.Expr:
    """Bound a series of numbers by its length.

    A series of times must be in FROM, where it gives rows one by one.
    """
    start, end, step = (node.args.get(k) for k in ("start", "end", "step"))
    first, stride = _whole(start), 1 if step is None else _whole(step)
    if first is None or not stride:
        above = node.parent
        if isinstance(above, exp.Table | exp.From | exp.Lateral):
            return node
        raise _refusal("a series in SELECT begins with a constant, and goes up by one")
    last = first + stride * MOST_SERIES
    said = f"generate_series(): at most {MOST_SERIES:,} numbers"
    node.set("end", _check(end, last, said, below=stride < 0))
    return node


def _check(value: exp.Expr | None, most: int, said: str, below: bool = False) -> exp.Expr | None:
    """Return a number, or raise an error if it exceeds its limit."""
    known = _whole(value)
    if known is not None and (known < most if below else known > most):
        raise _refusal(said)
    if known is not None or value is None:
        return value
    kind = exp.LT if below else exp.GT
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string(said)])
    over = kind(this=exp.Paren(this=value.copy()), expression=_number(most))
    return exp.Case(ifs=[exp.If(this=over, true=error)], default=value.copy())


def _number(value: int) -> exp.Expr:
    number = exp.Literal.number(abs(value))
    return number if value >= 0 else exp.Neg(this=number)


def _whole(e: exp.Expr | None) -> int | None:
    """Return the value of an integer literal."""
    if isinstance(e, exp.Paren):
        return _whole(e.this)
    if isinstance(e, exp.Neg):
        found = _whole(e.this)
        return None if found is None else -found
    if not isinstance(e, exp.Literal) or e.is_string or not e.this.isdecimal():
        return None
    return int(e.this)


def _refusal(said: str) -> WireError:
    return WireError("54000", said, "docs/limits.md has the limits of look-ups")


_BOUNDS: tuple[tuple[type | tuple[type, ...], Callable[[exp.Expr], exp.Expr]], ...] = (
    (exp.Repeat, _repeat),
    (exp.Pad, _pad),
    ((exp.Replace, exp.RegexpReplace), _replace),
    ((exp.GenerateSeries, exp.ExplodingGenerateSeries), _series),
    (_JOINED, _cut),
)
