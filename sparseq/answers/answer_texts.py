"""The values of an answer as text, with as many digits as their intervals allow, in a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparseq.accounting.budget import Budget
from sparseq.answers.answer_facts import Facts
from sparseq.answers.interval_words import AnswerInterval
from sparseq.pictures.bounded_numbers import (
    MISSING,
    Ends,
    digits_for,
    format_bound,
    format_number,
    interval_texts,
)
from sparseq.pictures.guarantee_texts import HOLE, NOT_PRIVATE, guarantee
from sparseq.pictures.tables import Table, format_table
from sparseq.question.plan import ERROR, PLAIN
from sparseq.released.result_columns import ColumnRole, column_parts

MOST_ROWS = 40
"""Largest number of shown rows of an answer; `rows` and the frames have all rows."""
IMPRECISE = "imprecise"
"""Marks a value whose interval's half-width exceeds it."""


def with_interval(table: pa.Table, name: str) -> list[Ends]:
    """Return each value of a weighted answer's column, and the ends of its interval."""
    parts = column_parts(table)[name]
    columns = (parts[role] for role in (ColumnRole.VALUE, ColumnRole.LOW, ColumnRole.HIGH))
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


def is_imprecise(value: float | None, low: float | None, high: float | None) -> bool:
    """Return True if an interval is wider than its value."""
    return value is None or low is None or high is None or (high - low) / 2 > abs(value)


def _marked_texts(rows: list[Ends], whole: bool) -> list[str]:
    """Return values with their intervals, and a mark if the interval is wider than the value.

    >>> _marked_texts([(69343, 67857.95, 71278.1), (3, -2.0, 9.0)], whole=True)
    ['69,300 (67,900 to 71,300)', '3 (-2 to 9) imprecise']
    """
    return [
        text + f" {IMPRECISE}" * (row[0] is not None and is_imprecise(*row))
        for row, text in zip(rows, interval_texts(rows, whole), strict=True)
    ]


def answer_table(table: pa.Table, columns: str | None = None) -> Table:
    """Return the answer for `format_table`, every value with its interval, if any."""
    own, texts, align = [], [], []
    for name, parts in column_parts(table).items():
        values = table[name].to_pylist()
        own.append(name)
        if ColumnRole.LOW in parts and columns != ERROR:
            whole = str(table[name].type).startswith("int")
            texts.append(_marked_texts(with_interval(table, name), whole))
            align.append(".")
        elif ColumnRole.ERROR in parts:
            whole = str(table[name].type).startswith("int")
            bounds = table[parts[ColumnRole.ERROR]].to_pylist()
            texts.append([noised_text(v, b, whole) for v, b in zip(values, bounds, strict=True)])
            align.append(".")
        else:
            texts.append(key_texts(values))
            numeric = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
            align.append("r" if numeric else "l")
        if columns == PLAIN and ColumnRole.VALUE in parts:
            texts[-1] = [text.partition(" ")[0] for text in texts[-1]]
        if ColumnRole.SUPPRESSED in parts:
            marks = table[parts[ColumnRole.SUPPRESSED]].to_pylist()
            texts[-1] = [mark or text for mark, text in zip(marks, texts[-1], strict=True)]
    return Table(own, [list(row) for row in zip(*texts, strict=True)], align)


def noised_text(value: float | None, bound: float | None, whole: bool = False) -> str:
    """Return `13 ± 9`, with as many digits as the bound allows.

    >>> noised_text(13, 8.8, whole=True), noised_text(2.51234, None), noised_text(None, None)
    ('13 ± 8.8', '2.512 ± ?', '–')
    """
    if value is None:
        return MISSING
    if bound is None:
        return f"{value:,} ± ?" if whole else f"{value:.4g} ± ?"
    digits = min(digits_for(bound), 0) if whole else digits_for(bound)
    return f"{format_number(value, digits)} ± {format_bound(bound)}"


def plain_text(value: Any) -> str:
    """Return a public value as text: a key, or a truth value."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)


def key_texts(values: Sequence[Any]) -> list[str]:
    """Return a column of public values; times that are all midnight (months, for example) as dates.

    >>> key_texts([dt.datetime(1998, 2, 1), dt.datetime(1998, 3, 1)])
    ['1998-02-01', '1998-03-01']
    >>> key_texts([dt.datetime(1998, 2, 1), dt.datetime(1998, 2, 1, 1)])
    ['1998-02-01 00:00:00', '1998-02-01 01:00:00']
    """
    times = [v for v in values if isinstance(v, dt.datetime)]
    if times and all(v.time() == dt.time.min for v in times):
        values = [v.date() if isinstance(v, dt.datetime) else v for v in values]
    return [plain_text(v) for v in values]


def terminal_text(
    table: pa.Table, facts: Facts, width: int | None = None, columns: str | None = None
) -> str:
    """Return the first rows, aligned, and a line about the intervals."""
    shown, more = first_rows(table)
    texts = answer_table(shown, columns)
    values = format_table(*texts, max_width=width)
    return "\n".join([values, *more, *footnote(texts), *said(table, facts)])


def first_rows(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return the shown part of a table, and a line about the rest."""
    left = table.num_rows - MOST_ROWS
    return table.slice(0, MOST_ROWS), [f"… {left:,} more rows"] if left > 0 else []


def footnote(texts: Table) -> list[str]:
    """Return a line that explains the mark, if it is used."""
    marked = any(cell.endswith(f" {IMPRECISE}") for row in texts.rows for cell in row)
    return [f"{IMPRECISE}: the interval is wider than the value"] * marked


def interval_of(table: pa.Table, facts: Facts) -> AnswerInterval:
    """Return the facts to print about an answer's intervals."""
    noised = [parts for parts in column_parts(table).values() if ColumnRole.VALUE in parts]
    marks = [parts[ColumnRole.SUPPRESSED] for parts in noised if ColumnRole.SUPPRESSED in parts]
    hidden = sum(table.num_rows - table[name].null_count for name in marks)
    shown = len(noised) * table.num_rows - hidden
    return AnswerInterval(facts.interval, facts.confidence, shown)


def said(table: pa.Table, facts: Facts) -> list[str]:
    """Return the notes of an answer, the warnings, and the line about the intervals."""
    line = interval_of(table, facts).line
    again = ", asked before (free)" if facts.repeated else ""
    again = ", from which this follows (free)" if facts.follows else again
    release = f"release {facts.release}{again}: " if facts.release else ""
    return [*facts.notes, *warnings_of(facts), f"{release}{line}"]


def budget_of(facts: Facts) -> Budget:
    """Return the budget of the store that gave an answer."""
    return Budget(facts.kappa, facts.norm_budget, facts.gaussian, facts.keys_delta)


def warnings_of(facts: Facts) -> list[str]:
    """Return the warnings that must be shown."""
    return [NOT_PRIVATE] * facts.seeded + [HOLE] * (facts.losses > 0)


def fact_lines(table: pa.Table, facts: Facts) -> list[str]:
    """Return the lines under an answer in a document: its intervals, and the store's promise.

    The lines do not depend on the time at which the answer is read.
    """
    once = replace(facts, repeated=False, follows=False)
    return [*said(table, once), guarantee(budget_of(facts), facts.unit)]
