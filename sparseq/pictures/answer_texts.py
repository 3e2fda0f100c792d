"""The values of an answer as text: as precise as their intervals allow, in a table, with words."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparseq.accounting.budget import Budget
from sparseq.base.texts import shown
from sparseq.pictures.tables import (
    HOLE,
    MISSING,
    NOT_PRIVATE,
    Ends,
    Table,
    digits_for,
    format_bound,
    format_number,
    format_table,
    guarantee,
    interval_texts,
)
from sparseq.released.render import (
    ERROR_SUFFIX,
    HIGH_SUFFIX,
    LOW_SUFFIX,
    SUPPRESSED_SUFFIX,
    columns_of,
)
from sparseq.sql.plan import ERROR, PLAIN
from sparseq.store.answer_facts import AnswerInterval, Facts

# -- the values of an answer as text ---------------------------------------------------------------

MOST_ROWS = 40
"""Of an answer that is looked at; `rows` and the frames have all."""
IMPRECISE = "imprecise"
"""Marks a value whose interval's half-width exceeds it."""


def with_interval(table: pa.Table, name: str) -> list[Ends]:
    """Return each value of a weighted answer's column, and the ends of its interval."""
    columns = (name, name + LOW_SUFFIX, name + HIGH_SUFFIX)
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


def is_imprecise(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether an interval is wider than its value."""
    return value is None or low is None or high is None or (high - low) / 2 > abs(value)


def _marked_texts(rows: list[Ends], whole: bool) -> list[str]:
    """Return values with their intervals, and a word behind what is wider than its value.

    >>> _marked_texts([(69343, 67857.95, 71278.1), (3, -2.0, 9.0)], whole=True)
    ['69,300 (67,900 to 71,300)', '3 (-2 to 9) imprecise']
    """
    return [
        text + f" {IMPRECISE}" * (row[0] is not None and is_imprecise(*row))
        for row, text in zip(rows, interval_texts(rows, whole), strict=True)
    ]


def answer_table(table: pa.Table, columns: str | None = None) -> Table:
    """Return the answer for `format_table`, every value with its interval, or ±, or neither."""
    names = table.column_names
    own, texts, align = [], [], []
    for name in columns_of(table):
        values = table[name].to_pylist()
        own.append(name)
        if name + LOW_SUFFIX in names and columns != ERROR:
            whole = str(table[name].type).startswith("int")
            texts.append(_marked_texts(with_interval(table, name), whole))
            align.append(".")
        elif name + ERROR_SUFFIX in names:
            whole = str(table[name].type).startswith("int")
            bounds = table[name + ERROR_SUFFIX].to_pylist()
            texts.append([noised_text(v, b, whole) for v, b in zip(values, bounds, strict=True)])
            align.append(".")
        else:
            texts.append(key_texts(values))
            numeric = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
            align.append("r" if numeric else "l")
        if columns == PLAIN and name + ERROR_SUFFIX in names:
            texts[-1] = [text.partition(" ")[0] for text in texts[-1]]
        if name + SUPPRESSED_SUFFIX in names:
            marks = table[name + SUPPRESSED_SUFFIX].to_pylist()
            texts[-1] = [mark or text for mark, text in zip(marks, texts[-1], strict=True)]
    return Table(own, [list(row) for row in zip(*texts, strict=True)], align)


def noised_text(value: float | None, bound: float | None, whole: bool = False) -> str:
    """Return `13 ± 9`, as precise as the bound allows.

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
    """Return a public value: a key, or a truth."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)


def key_texts(values: Sequence[Any]) -> list[str]:
    """Return a column of public values; times that are all midnight, as months are, as dates.

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
    return "\n".join([values, *more, *footnote(texts), *facts.asked_first, *said(table, facts)])


def first_rows(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return what is shown of a table, and how much is not."""
    left = table.num_rows - MOST_ROWS
    return table.slice(0, MOST_ROWS), [f"… {left:,} more rows"] if left > 0 else []


def footnote(texts: Table) -> list[str]:
    """Say what a mark means, where there is one."""
    marked = any(cell.endswith(f" {IMPRECISE}") for row in texts.rows for cell in row)
    return [f"{IMPRECISE}: the interval is wider than the value"] * marked


def interval_of(table: pa.Table, facts: Facts) -> AnswerInterval:
    """Return what is said of an answer's intervals."""
    noised = [n for n in columns_of(table) if n + ERROR_SUFFIX in table.column_names]
    marks = [n + SUPPRESSED_SUFFIX for n in noised if n + SUPPRESSED_SUFFIX in table.column_names]
    hidden = sum(table.num_rows - table[name].null_count for name in marks)
    shown = len(noised) * table.num_rows - hidden
    return AnswerInterval(facts.interval, facts.confidence, shown)


def said(table: pa.Table, facts: Facts) -> list[str]:
    """Say what the intervals are about, and what nobody may overlook."""
    line = interval_of(table, facts).line
    again = ", asked before (free)" if facts.repeated else ""
    again = ", from which this follows (free)" if facts.follows else again
    release = f"release {facts.release}{again}: " if facts.release else ""
    return [*loud_of(facts), f"{release}{line}"]


def budget_of(facts: Facts) -> Budget:
    """Return the budget of the store that an answer came from."""
    return Budget(facts.kappa, facts.norm_budget, facts.gaussian, facts.keys_delta)


def loud_of(facts: Facts) -> list[str]:
    """Return what nobody may overlook."""
    return [NOT_PRIVATE] * facts.seeded + [HOLE] * (facts.losses > 0)


def lines_about(table: pa.Table, facts: Facts) -> list[str]:
    """Return what stands under an answer in a document: its intervals, and what was promised.

    It is the same whenever the answer is read.
    """
    once = replace(facts, repeated=False, follows=False)
    return [*facts.notes, *said(table, once), guarantee(budget_of(facts), facts.unit)]


# -- rows as CSV, as Markdown ----------------------------------------------------------------------

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~#])")


def answer_markdown(table: pa.Table, facts: Facts, title: str = "") -> str:
    """Return all rows as a table in Markdown, each value with its interval, and what is said of it.

    Texts are shown as they are, whatever they look like.
    """
    texts = answer_table(table)
    return markdown(texts, [*footnote(texts), *lines_about(table, facts)], title)


def markdown(texts: Table, about: Sequence[str], title: str = "") -> str:
    """Return a table in Markdown under its title, and lines about it."""
    rules = [":--" if side == "l" else "--:" for side in texts.align]
    rows = [[_as_markdown(cell) for cell in row] for row in (texts.columns, *texts.rows)]
    lines = ["| " + " | ".join(row) + " |" for row in (rows[0], rules, *rows[1:])]
    head = [f"## {_as_markdown(title)}\n"] if title else []
    return "\n".join([*head, *lines, *(f"\n{_as_markdown(line)}" for line in about)])


def _as_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", shown(text, None))


def answer_csv(table: pa.Table) -> str:
    """Return the columns as CSV, x_error and all; unknown is empty."""
    columns = [table[name].to_pylist() for name in table.column_names]
    rows = zip(*columns, strict=True)
    return csv_text(
        table.column_names, (["" if v is None else plain_text(v) for v in row] for row in rows)
    )


def answer_cells(table: pa.Table) -> str:
    """Return the columns for a spreadsheet to paste: tabs between cells; no text is a formula.

    >>> print(answer_cells(pa.table({"g": ["=1+1", "a\\tb"], "n": [-2, None]})).expandtabs(8))
    g       n
    '=1+1   -2
    a\\tb
    """
    columns = [map(_as_cell, [name, *table[name].to_pylist()]) for name in table.column_names]
    return "\n".join("\t".join(row) for row in zip(*columns, strict=True))


def _as_cell(value: Any) -> str:
    if isinstance(value, str):
        return "'" * value.startswith(("=", "+", "-", "@")) + shown(value, None)
    return "" if value is None else plain_text(value)


def csv_text(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return rows as CSV under a head, every value as it is."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return sink.getvalue().removesuffix("\n")
