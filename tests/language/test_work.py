"""Every function of texts and lists is judged: its work on one row is long, or it is short."""

from __future__ import annotations

from sparseq.language.functions import FUNCTIONS
from sparseq.language.types import Family
from sparseq.language.work import MOST_STEPS, STEPS

SHORT = {
    "lower",
    "upper",
    "trim",
    "ltrim",
    "rtrim",
    "length",
    "substring",
    "left",
    "right",
    "||",
    "starts_with",
    "ends_with",
    "contains",
    "strpos",
    "ascii",
    "cardinality",
    "list_extract",
    "array_extract",
    "list_element",
    "timezone",
}
"""These take about the time of reading the text, or a cut of it, as they are in DuckDB."""


def test_every_function_of_texts_and_lists_is_judged() -> None:
    of = {f.name for f in FUNCTIONS if {Family.TEXT, Family.LIST} & set(f.takes)}
    assert of == SHORT | (set(STEPS) & of)
    assert not SHORT & set(STEPS)


def test_what_takes_steps_exists() -> None:
    elsewhere = {"like"}  # not in the table: written as an operator
    assert set(STEPS) - {f.name for f in FUNCTIONS} == elsewhere
    assert all(steps >= MOST_STEPS for steps in STEPS.values())
