"""Overloads: what a module adds to the table, and the order in which they are tried."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions import FUNCTIONS, overloads
from sparseq.language.functions.function import FunctionTable
from sparseq.language.types import Family


def test_a_constant_type_and_constant_sql_hold_for_all_arguments() -> None:
    table = FunctionTable()
    table.add("f", "f({0})", [Family.TEXT], T.BIGINT, "f({0})", "means", fixed=(0,), wide=True)
    (f,) = table
    assert (f.takes, f.fixed, f.wide, f.short) == ((Family.TEXT,), (0,), True, False)
    assert f.gives([T.TEXT]) == T.BIGINT
    assert f.sql([T.TEXT]) == "f({0})"


def test_overloads_are_in_the_order_of_the_table() -> None:
    for name in {f.name for f in FUNCTIONS}:
        assert overloads(name) == [f for f in FUNCTIONS if f.name == name]
    first = [f.takes[0] for f in overloads("+")[:3]]
    assert first == [Family.INTEGER, Family.DECIMAL, Family.DOUBLE]
