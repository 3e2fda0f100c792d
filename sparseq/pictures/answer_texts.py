"""The values of an answer as text: as precise as their intervals allow, in a table, with words."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sparseq.accounting.budget import Budget
from sparseq.pictures.tables import (
    MISSING,
    NOT_PRIVATE,
    Table,
    digits_for,
    format_bound,
    format_number,
    format_table,
    percent,
)
from sparseq.released.render import ERROR_SUFFIX, HIGH_SUFFIX, LOW_SUFFIX, columns_of
from sparseq.store.answer_facts import Facts

# -- the values of an answer as text ---------------------------------------------------------------

MOST_ROWS = 40
"""Of an answer that is looked at; `rows` and the frames have all."""
_RESTS_ON = {
    "exact": "proved",
    "bounded": "proved, by the most that one person can add",
    "assumed": "assumes that no small group of people has most of the rows",
    "active": "about those who have budget left",
    "capped": "about those with few enough combinations of rows in the join",
}

IMPRECISE = "imprecise"
"""Marks a value whose interval's half-width exceeds it."""


def with_interval(table: pa.Table, name: str) -> list[tuple[Any, Any, Any]]:
    """Return each value of a weighted answer's column, and the ends of its interval."""
    columns = (name, name + LOW_SUFFIX, name + HIGH_SUFFIX)
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


def is_imprecise(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether an interval is wider than its value."""
    return value is None or low is None or high is None or (high - low) / 2 > abs(value)


def interval_texts(
    value: float | None, low: float | None, high: float | None, whole: bool = False
) -> tuple[str, str]:
    """Return a value and its interval, as precise as the interval allows.

    >>> interval_texts(69343, 67857.95, 71278.1, whole=True), interval_texts(3, -2.0, 9.0)
    (('69,300', '67,900 to 71,300'), ('3.0 imprecise', '-2.0 to 9.0'))
    """
    if value is None:
        return MISSING, MISSING
    mark = f" {IMPRECISE}" if is_imprecise(value, low, high) else ""
    if low is None or high is None:
        return f"{value:.4g}{mark}", "not known"
    digits = digits_for((high - low) / 2)
    digits = min(digits, 0) if whole else digits
    ends = f"{format_number(low, digits)} to {format_number(high, digits)}"
    return format_number(value, digits) + mark, ends


def answer_table(table: pa.Table) -> Table:
    """Return the answer for `format_table`, every value beside its ±."""
    names = table.column_names
    columns, texts, align = [], [], []
    for name in columns_of(table):
        values = table[name].to_pylist()
        columns.append(name)
        if name + LOW_SUFFIX in names:
            whole = str(table[name].type).startswith("int")
            both = [interval_texts(*row, whole) for row in with_interval(table, name)]
            columns.append("interval")
            texts += [[value for value, _ in both], [ends for _, ends in both]]
            align += [".", "r"]
        elif name + ERROR_SUFFIX in names:
            whole = str(table[name].type).startswith("int")
            bounds = table[name + ERROR_SUFFIX].to_pylist()
            texts.append([noised_text(v, b, whole) for v, b in zip(values, bounds, strict=True)])
            align.append(".")
        else:
            texts.append(key_texts(values))
            numeric = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
            align.append("r" if numeric else "l")
    return Table(columns, [list(row) for row in zip(*texts, strict=True)], align)


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


def terminal_text(table: pa.Table, facts: Facts, width: int | None = None) -> str:
    """Return the first rows, aligned, and a line about the intervals."""
    shown, more = first_rows(table)
    texts = answer_table(shown)
    values = format_table(*texts, max_width=width)
    return "\n".join([values, *more, *footnote(texts), *said(facts)])


def first_rows(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return what is shown of a table, and how much is not."""
    left = table.num_rows - MOST_ROWS
    return table.slice(0, MOST_ROWS), [f"… {left:,} more rows"] if left > 0 else []


def footnote(texts: Table) -> list[str]:
    """Say what a mark means, where there is one."""
    marked = any(cell.endswith(f" {IMPRECISE}") for row in texts.rows for cell in row)
    return [f"{IMPRECISE}: the interval is wider than the value"] * marked


def said(facts: Facts) -> list[str]:
    """Say what the intervals are about, and what nobody may overlook."""
    sure = f"with {percent(facts.confidence)} confidence"
    if facts.interval:
        truth = "the truth about everybody is in the interval"
        line = f"{truth}{'s' * (facts.coordinates > 1)} {sure}, {_RESTS_ON[facts.interval]}"
    else:
        line = f"± {sure}, about the people who took part"
    hole = ["A HOLE IN THE GUARANTEE: the store was opened without a part of it."]
    loud = [NOT_PRIVATE] * facts.seeded + hole * (facts.losses > 0)
    again = ", asked before (free)" if facts.repeated else ""
    again = ", from which this follows (free)" if facts.follows else again
    return [*loud, f"release {facts.release}{again}: {line}"]


def budget_of(facts: Facts) -> Budget:
    """Return the budget of the store that an answer came from."""
    return Budget(facts.kappa, facts.norm_budget, facts.gaussian, facts.keys_delta)


# -- rows as CSV -----------------------------------------------------------------------------------


def answer_csv(table: pa.Table) -> str:
    """Return the columns as CSV, x_error and all; unknown is empty."""
    columns = [table[name].to_pylist() for name in table.column_names]
    rows = zip(*columns, strict=True)
    return csv_text(
        table.column_names, (["" if v is None else plain_text(v) for v in row] for row in rows)
    )


def csv_text(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return rows as CSV under a head, every value as it is."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return sink.getvalue().removesuffix("\n")
