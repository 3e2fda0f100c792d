"""Released numbers as constants of another question, and their placeholders."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from sparseq.base.defaults import BETA
from sparseq.question.plan import Plan, Query
from sparseq.released.outputs import Measurements
from sparseq.released.render import key_columns, render
from sparseq.released.result_columns import columns_of, noised_of
from sparseq.sql.constants import constant_sql
from sparseq.sql.parse import RELEASED, STANDS_IN

Number = Callable[[bool], exp.Expr]


def released(values: Sequence[Any]) -> list[Number]:
    """Return the values of an answer's row as constants."""
    return [_constant(value, value) for value in values]


def standing_in(query: Query, size: float) -> list[Number]:
    """Return placeholders, of the right types, for the values of a question's answer.

    Args:
        query: The question.
        size: The size of placeholder numbers: a lower limit is -size, an upper limit is size.
    """
    zeros = [np.zeros((query.groups, m.bins)) for m in query.measures]
    keys = key_columns(query.domains)
    nothing = Measurements(zeros, [0.0] * len(zeros), keys, query.groups)
    table = render(Plan(query, (), BETA), nothing)
    found = list[Number]()
    for name in columns_of(table):
        value = next(iter(table[name].to_pylist()), None)
        noised = name in noised_of(table)
        low, high = (-size, size) if noised else (value, value)
        found.append(_constant(low, high, stands_in=True))
    return found


def _constant(low: Any, high: Any, stands_in: bool = False) -> Number:
    """Return a value as a constant: `low` where it is a lower limit, else `high`."""

    def constant(from_below: bool) -> exp.Expr:
        value = low if from_below else high
        kind = "DOUBLE"
        if isinstance(value, dt.date):
            kind = "TIMESTAMP" if isinstance(value, dt.datetime) else "DATE"
        found = constant_sql(value, kind)
        if isinstance(value, float):
            found.meta[RELEASED] = True
        if stands_in:
            found.meta[STANDS_IN] = True
        return found

    return constant


def limits_from_below(e: exp.Expr) -> bool:
    """Tell whether an expression is a lower limit in the comparison around it."""
    at, above = e, e.parent
    while above is not None and not isinstance(above, exp.Select):
        right = at is above.args.get("expression")
        if isinstance(above, exp.GT | exp.GTE | exp.LT | exp.LTE):
            return right == isinstance(above, exp.GT | exp.GTE)
        if isinstance(above, exp.Between | exp.Greatest):
            return at is above.args.get("low") or isinstance(above, exp.Greatest)
        if isinstance(above, exp.Least):
            return False
        at, above = above, above.parent
    return False
