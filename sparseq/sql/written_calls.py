"""Calls of aggregates and window functions as written in SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from sparseq.language import types as T
from sparseq.language.aggregate_functions import (
    AggregateFunction,
)
from sparseq.language.expression_tree import Term, constant
from sparseq.sql.aggregate_calls import aggregate_name, is_binned
from sparseq.sql.parse import said
from sparseq.sql.scope import refuse
from sparseq.sql.window_frames import MAX_OFFSET, whole

_SHARE = re.compile(r"0?\.\d+|0|1|1\.0+")


@dataclass(frozen=True)
class _Written:
    """A call split into its parts; constants are terms already."""

    name: str
    arguments: list[exp.Expr | Term]
    distinct: bool = False
    order: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class WrittenCall:
    """A function of the table, with its arguments."""

    function: AggregateFunction
    arguments: list[Term]
    distinct: bool
    order: tuple[str, ...]

    def apply(self, condition: str = "", over: str = "") -> Term:
        """Return the value of the call; see `AggregateFunction.apply`."""
        return self.function.apply(
            self.arguments,
            distinct=self.distinct,
            order=self.order,
            condition=condition,
            over=over,
        )


def written_call(e: exp.Expr) -> _Written:
    """Return the called function with its arguments; refuse a call that is not in the table."""
    if is_binned(e):
        return _written_quantile(e)
    name = aggregate_name(e)
    if isinstance(e, exp.Lag | exp.Lead | exp.Ntile | exp.NthValue):
        return _written_place(e, name)
    if isinstance(e, exp.Count) and isinstance(e.this, exp.Star):
        return _Written(name, [])
    if isinstance(e, exp.ArgMax | exp.ArgMin):
        if e.args.get("count") is not None:
            refuse(f"{said(e)} gives a list", f"{said(e)[:7]}(x, y)")
        return _Written(name, [e.this, e.expression])
    inside, order = e.this, []
    if isinstance(inside, exp.Order):
        inside, order = inside.this, inside.expressions
    distinct = isinstance(inside, exp.Distinct)
    values = inside.expressions if distinct else [] if inside is None else [inside]
    others = [v for k, v in e.args.items() if v and k not in ("this", "big_int")]
    if len(values) > 1 or others:
        refuse(f"{said(e)} has more than one argument", "give it one")
    return _Written(name, values, distinct, tuple(order))


def _written_quantile(e: exp.Expr) -> _Written:
    """Return a median or a quantile, with its share as a constant."""
    of, *share = e.expressions
    median = e.name.lower() == "median"
    if median:
        share = [exp.Literal.number("0.5"), *share]
    text = share[0].name if len(share) == 1 and isinstance(share[0], exp.Literal) else ""
    if not _SHARE.fullmatch(text) or isinstance(of, exp.Distinct) or e.name.lower() == "histogram":
        refuse(
            f"{said(e)} is not answered in a subquery",
            "median(x), or quantile_cont(x, 0.9): one number from 0 to 1, and no edges",
        )
    name = "quantile_cont" if median else e.name.lower()
    return _Written(name, [of, Term(T.DOUBLE, text, constant=True, value=float(text))])


def _written_place(e: exp.Expr, name: str) -> _Written:
    """Return a function of a position in a window, which is an integer literal, by default 1."""
    if isinstance(e, exp.Ntile):
        return _Written(name, [_whole_term(max(whole(e.this, MAX_OFFSET), 1))])
    if e.args.get("default") is not None:
        refuse(f"{said(e)} has a default", "use coalesce(), one SELECT further out")
    offset = e.args.get("offset")
    steps = whole(offset, MAX_OFFSET) if offset is not None else 1
    return _Written(name, [e.this, _whole_term(steps)])


def _whole_term(number: int) -> Term:
    return constant(number, T.BIGINT)


def is_count_of_values(e: exp.Expr) -> bool:
    return isinstance(e, exp.Count) and isinstance(e.this, exp.Distinct)
