"""An answer drawn: a table with its intervals for a notebook, a figure over its key."""

from __future__ import annotations

import csv
import datetime as dt
import html
import io
import math
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.accounting.budget import Budget
from sparseq.base.errors import ParameterError
from sparseq.pictures.figure import Axis, Color, Figure, Floats, Series, Sheet
from sparseq.pictures.page import escaped, html_page
from sparseq.pictures.tables import (
    MISSING,
    NOT_PRIVATE,
    Table,
    digits_for,
    format_bound,
    format_number,
    format_table,
    guarantee,
    percent,
)
from sparseq.pictures.terminal import terminal_chart
from sparseq.released.render import ERROR_SUFFIX, HIGH_SUFFIX, LOW_SUFFIX, columns_of, keys_of
from sparseq.store.answer_facts import Facts

# -- the values of an answer as text ---------------------------------------------------------------

MOST_ROWS = 40
"""Of an answer that is looked at; `rows` and the frames have all."""
_RESTS_ON = {
    "exact": "proved",
    "bounded": "proved, by the most that one person can add",
    "assumed": "if people with very much data are few, and their data are like everybody's",
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


# -- an answer drawn: a table with its intervals for a notebook, a figure over its key -------------

_WIDE, _HIGH = 180, 16  # of a drawn interval, in pixels
_SERIES: tuple[Color, ...] = ("blue", "orange", "green", "purple", "red", "teal", "brown", "ink")


def html_table(table: pa.Table, facts: Facts) -> str:
    """Return the first rows as a table for a page, each interval drawn on its column's scale.

    It has no script and no style of the page's, so that any notebook shows it.
    """
    shown, more = first_rows(table)
    texts = answer_table(shown)
    drawn = {texts.columns.index(name): _drawings(shown, name) for name in _noised(shown)}
    head = "".join(
        f"<th>{escaped(name)}</th>" + "<th></th>" * (k in drawn)
        for k, name in enumerate(texts.columns)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            _cell(text, side) + (f"<td>{drawn[k][i]}</td>" if k in drawn else "")
            for k, (text, side) in enumerate(zip(row, texts.align, strict=True))
        )
        + "</tr>"
        for i, row in enumerate(texts.rows)
    )
    about = "".join(
        f"<p><strong>{escaped(line)}</strong></p>" if line == NOT_PRIVATE
        else f"<p>{escaped(line)}</p>"
        for line in (*more, *footnote(texts), *said(facts), guarantee(budget_of(facts), facts.unit))
    )  # fmt: skip
    return (
        f'<div class="sparseq-answer"><table><thead><tr>{head}</tr></thead>\n'
        f'<tbody>\n{body}\n</tbody></table>\n<div style="font-size: 85%">{about}</div></div>'
    )


def _cell(text: str, side: str) -> str:
    style = "text-align: left" if side == "l" else "text-align: right; white-space: pre"
    return f'<td style="{style}">{escaped(text)}</td>'


def _noised(table: pa.Table) -> list[str]:
    return [n for n in columns_of(table) if n + ERROR_SUFFIX in table.column_names]


def intervals(table: pa.Table, name: str) -> list[tuple[float | None, float | None, float | None]]:
    """Return each value of a noised column, with the ends of its interval or of its ±."""
    if name + LOW_SUFFIX in table.column_names:
        return with_interval(table, name)
    both = zip(table[name].to_pylist(), table[name + ERROR_SUFFIX].to_pylist(), strict=True)
    return [
        (value, None, None) if value is None or error is None
        else (value, value - error, value + error)
        for value, error in both
    ]  # fmt: skip


def _drawings(table: pa.Table, name: str) -> list[str]:
    """Draw the intervals of a column, all on one scale, in which 0 has its place."""
    rows = intervals(table, name)
    ends = [x for row in rows for x in row if x is not None and math.isfinite(x)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    per = (_WIDE - 8) / ((high - low) or 1.0)

    def at(x: float) -> str:
        return f"{4 + (x - low) * per:.1f}"

    def drawn(value: float | None, left: float | None, right: float | None) -> str:
        shapes = f'<line x1="{at(0)}" y1="0" x2="{at(0)}" y2="{_HIGH}" stroke="#888" />'
        if left is not None and right is not None:
            wide = max((right - left) * per, 1.0)
            shapes += (
                f'<rect x="{at(left)}" y="5" width="{wide:.1f}" height="{_HIGH - 10}" rx="2" '
                'fill="#0b62d6" fill-opacity="0.35" />'
            )
        if value is not None and low <= value <= high:
            shapes += f'<circle cx="{at(value)}" cy="{_HIGH / 2:g}" r="3" fill="#0b62d6" />'
        return (
            f'<svg width="{_WIDE}" height="{_HIGH}" viewBox="0 0 {_WIDE} {_HIGH}" '
            f'role="img" aria-label="interval">{shapes}</svg>'
        )

    return [drawn(*row) for row in rows]


def answer_figure(table: pa.Table, facts: Facts) -> Figure:
    """Return an answer over its one key of dates, times or numbers, with its bands.

    Other keys are lines of their own.

    Raises:
        ParameterError: No key, or more than one, is a date, a time or a number.
    """
    keys = keys_of(table)
    across = [k for k in keys if _is_ordered(table[k].type)]
    if len(across) != 1 or not table.num_rows:
        raise ParameterError(
            "an answer is plotted over one key of dates, times or numbers; "
            f"this one has {len(across)}",
            "shown as a table in a notebook, its intervals are drawn",
        )
    others = [k for k in keys if k != across[0]]
    groups: dict[tuple[str, ...], list[int]] = {}
    texts = [key_texts(table[k].to_pylist()) for k in others]
    place = table[across[0]].to_pylist()
    for i, at in enumerate(place):
        if at is not None:
            groups.setdefault(tuple(t[i] for t in texts), []).append(i)
    names = _noised(table)
    drawn = [
        one
        for k, (group, rows) in enumerate(groups.items())
        for m, name in enumerate(names)
        for one in _lines(
            table, name, " ".join([*group, *([name] if len(names) > 1 or not group else [])]),
            sorted(rows, key=place.__getitem__), across[0],
            _SERIES[(k * len(names) + m) % len(_SERIES)],
        )
    ]  # fmt: skip
    drawn.sort(key=lambda one: one.look == "band")
    warning = [NOT_PRIVATE] if facts.seeded else []
    notes = [*warning, *said(facts)[-1:], guarantee(budget_of(facts), facts.unit)]
    ends = [x for name in names for row in intervals(table, name) for x in row if x is not None]
    tall = Axis(low=min(ends), high=max(ends)) if ends else Axis()
    return Figure(", ".join(names), drawn, Axis(across[0]), tall, notes=notes)


def _lines(
    table: pa.Table, name: str, label: str, rows: Sequence[int], across: str, color: Color
) -> list[Series]:
    """Return the values of some rows with their ±; or, with what is behind, their intervals."""
    places = table[across].take(rows).to_pylist()
    if isinstance(places[0], dt.datetime) and all(p.time() == dt.time.min for p in places):
        places = [p.date() for p in places]

    def numbers(column: str) -> Floats:
        found = table[column].take(rows).to_pylist()
        return np.array([math.nan if x is None else x for x in found], float)

    if name + LOW_SUFFIX not in table.column_names:
        return [Series(label, places, numbers(name), numbers(name + ERROR_SUFFIX), color=color)]
    low, high = numbers(name + LOW_SUFFIX), numbers(name + HIGH_SUFFIX)
    return [
        Series(label, places, numbers(name), color=color),
        Series(f"{label}: interval", places, (low + high) / 2, (high - low) / 2, "band", color),
    ]


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    )


class Drawing:
    """A figure that shows itself, in a notebook or at a prompt.

    Attributes:
        figure: What is drawn, as data.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def html(self) -> str:
        """Return a page with the figure; it needs no network."""
        return html_page(Sheet(self.figure.title, [self.figure]))

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{escaped(self.figure.title)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: 640px; border: 0" srcdoc="{html.escape(self.html())}">'
            "</iframe>"
        )

    def __repr__(self) -> str:
        return terminal_chart(self.figure, min(shutil.get_terminal_size((100, 24)).columns, 100))


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
