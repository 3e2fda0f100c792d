"""An answer drawn: a table with its intervals for a notebook, a figure over its key."""

from __future__ import annotations

import datetime as dt
import html
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sparseq.base.errors import ParameterError
from sparseq.pictures.answer_texts import (
    answer_table,
    budget_of,
    first_rows,
    footnote,
    key_texts,
    lines_about,
    loud_of,
    said,
    with_interval,
)
from sparseq.pictures.figure import Axis, Color, Figure, Floats, PagePart, Series, Sheet
from sparseq.pictures.image import write_picture
from sparseq.pictures.page import document, escaped, html_page
from sparseq.pictures.tables import LOUD, guarantee
from sparseq.pictures.terminal import terminal_chart
from sparseq.released.render import ERROR_SUFFIX, HIGH_SUFFIX, LOW_SUFFIX, columns_of, keys_of
from sparseq.store.answer_facts import Facts

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
        f"<p><strong>{escaped(line)}</strong></p>" if line in LOUD else f"<p>{escaped(line)}</p>"
        for line in (
            *more,
            *footnote(texts),
            *facts.asked_first,
            *said(table, facts),
            guarantee(budget_of(facts), facts.unit),
        )
    )
    return (
        f'<div class="sparseq-answer"><table><thead><tr>{head}</tr></thead>\n'
        f'<tbody>\n{body}\n</tbody></table>\n<div style="font-size: 85%">{about}</div></div>'
    )


def answer_part(
    table: pa.Table, facts: Facts, heading: str = "", text: str = "", chart: str = ""
) -> PagePart:
    """Return an answer as a part of a document: "bars", "lines", a "table" or "none" of them.

    What the store promises, and what nobody may overlook, stands once in the document. An answer
    without rows is a table.

    Args:
        table, facts: The answer.
        heading: Of the part.
        text: Above the answer, in paragraphs with blank lines between.
        chart: How it is shown. "": lines or bars where it has keys.

    Raises:
        ParameterError: It has nothing to draw in that way.
    """
    paragraphs = paragraphs_of(text)
    about = [line for line in lines_about(table, facts)[:-1] if line not in LOUD]
    chart = chart_of(table, chart) if table.num_rows else "table"
    if chart == "none":
        return PagePart(heading, paragraphs, notes=about)
    if chart == "table":
        texts = answer_table(table)
        return PagePart(heading, paragraphs, table=texts, notes=[*footnote(texts), *about])
    figure = answer_figure(table, facts, heading, "bars" if chart == "bars" else "lines")
    notes = [note for note in figure.notes[:-1] if note not in LOUD]
    return PagePart(heading, paragraphs, replace(figure, notes=notes))


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a text, which have blank lines between.

    >>> paragraphs_of("One,\\nand more.\\n\\nTwo.")
    ['One, and more.', 'Two.']
    """
    return [" ".join(p.split()) for p in re.split(r"\n\s*\n", text) if p.strip()]


def chart_of(table: pa.Table, chart: str) -> str:
    """Return how an answer with such columns is shown, if nothing is said.

    Raises:
        ParameterError: Lines were asked for, and there is no one key of dates, times or numbers.
    """
    ordered, keys = _order(table), keys_of(table)
    if chart == "lines" and len(ordered) != 1:
        raise ParameterError(
            "lines are drawn over one key of dates, times or numbers; "
            f"this answer has {len(ordered) or 'none'}",
            "draw it as bars",
        )
    return chart or ("lines" if len(ordered) == 1 else "bars" if keys else "table")


def answer_page(table: pa.Table, facts: Facts, title: str = "") -> str:
    """Return a page with all rows of an answer, each value with its interval."""
    promise = PagePart(notes=[guarantee(budget_of(facts), facts.unit)])
    parts = [answer_part(table, facts, chart="table"), promise]
    return document(title or default_title(table), parts, loud_of(facts))


def default_title(table: pa.Table) -> str:
    """Return what an answer has, and by what.

    >>> default_title(pa.table({"kind": ["a"], "n": [1], "n_error": [1.0]}))
    'n by kind'
    """
    keys, names = keys_of(table), _noised(table)
    return ", ".join(names) + (f" by {', '.join(keys)}" if keys else "")


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
        (value, None, None)
        if value is None or error is None
        else (value, value - error, value + error)
        for value, error in both
    ]


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


Chart = Literal["lines", "bars"]
"""Draw an answer."""
_MOST_BESIDE = 4
"""Groups that share a chart; more have one each."""


def answer_figure(
    table: pa.Table, facts: Facts, title: str = "", chart: Chart | None = None
) -> Figure:
    """Return an answer as lines with bands over its one key of times or numbers, or as bars.

    Bars are as many as the answer has rows, in its order. Other keys are lines, or bars, of their
    own; if there are many of them, and for each of several columns, they have charts of their own.

    Args:
        table, facts: The answer.
        title: Of the figure. "": what is measured, and by what.
        chart: "lines" or "bars"; None: lines where it has one such key.

    Raises:
        ParameterError: It has no row or no noised column; or it was to be lines, and it has no key
            or several of dates, times or numbers.
    """
    keys, names = keys_of(table), _noised(table)
    if not (names and table.num_rows):
        what = "no rows" if names else "no noised column"
        raise ParameterError(
            f"there is nothing to draw: the answer has {what}", "its table is what there is"
        )
    across, place = _places(table, keys, chart)
    texts = [key_texts(table[k].to_pylist()) for k in keys if k != across]
    groups: dict[str, list[int]] = {}
    for i, at in enumerate(place):
        if at is not None:
            groups.setdefault(", ".join(t[i] for t in texts), []).append(i)
    drawn = [
        _series(table, name, group, rows, k, place)
        for name in names
        for k, (group, rows) in enumerate(groups.items())
    ]
    if len(groups) > _MOST_BESIDE:
        drawn = [(n, replace(s, panel=s.name, color=_SERIES[0], name=n)) for n, s in drawn]
    if len(names) > 1:
        drawn = [(n, replace(s, panel=", ".join(filter(None, [n, s.panel])))) for n, s in drawn]
    undrawn = [f"A row without a {across} is not drawn."] * (None in place)
    notes = [*undrawn, *lines_about(table, facts)]
    return Figure(title or default_title(table), [s for _, s in drawn], Axis(across), notes=notes)


def _places(table: pa.Table, keys: Sequence[str], chart: Chart | None) -> tuple[str, list[Any]]:
    """Return the key that a chart is over, and the place of each row: a time, a number or a name.

    It is the one key of times, else the one of numbers; for bars the key with most values. Without
    a key the one bar has the name of its column.
    """
    ordered = _order(table)
    if not keys:
        return "", [_noised(table)[0]] * table.num_rows
    if chart_of(table, chart or "") != "lines":
        across = max(keys, key=lambda k: len(set(table[k].to_pylist())))
        values = table[across].to_pylist()
        names = key_texts(values)
        if "NULL" in values:  # a text, which is not the same as none
            names = ["(NULL)" if v is None else n for n, v in zip(names, values, strict=True)]
        return across, names
    found = table[ordered[0]].to_pylist()
    known = [p for p in found if p is not None]
    if known and isinstance(known[0], dt.datetime) and all(p.time() == dt.time.min for p in known):
        return ordered[0], [None if p is None else p.date() for p in found]
    return ordered[0], found


def _series(
    table: pa.Table, name: str, group: str, rows: Sequence[int], k: int, place: Sequence[Any]
) -> tuple[str, Series]:
    """Return a column's name, and its values and intervals in some rows."""
    bars = isinstance(place[rows[0]], str)
    place = place if keys_of(table) else [name] * table.num_rows
    rows = rows if bars else sorted(rows, key=place.__getitem__)

    def numbers(column: str) -> Floats:
        found = table[column].take(rows).to_pylist()
        return np.array([math.nan if x is None else x for x in found], float)

    weighted = name + LOW_SUFFIX in table.column_names
    return name, Series(
        group or name,
        [place[i] for i in rows],
        numbers(name),
        None if weighted else numbers(name + ERROR_SUFFIX),
        "bars" if bars else "line",
        _SERIES[k % len(_SERIES)],
        ends=(numbers(name + LOW_SUFFIX), numbers(name + HIGH_SUFFIX)) if weighted else None,
    )


def _order(table: pa.Table) -> list[str]:
    """Return the one key of times; else all keys of times and numbers."""
    keys = keys_of(table)
    times = [k for k in keys if _is_day(table[k].type)]
    return times if len(times) == 1 else [k for k in keys if _is_ordered(table[k].type)]


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(_is_day(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


class Drawing:
    """A figure that shows itself, in a notebook or at a prompt.

    Attributes:
        figure: What is drawn, as data.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def html(self) -> str:
        """Return a page with the figure; it needs no network."""
        return html_page(self.sheet)

    @property
    def sheet(self) -> Sheet:
        """A page, or an image, that has nothing else."""
        return Sheet(self.figure.title, [self.figure])

    def save(self, path: str | Path) -> None:
        """Write a page (.html) or an image (.png, .svg), which appears whole or not at all.

        Raises:
            ParameterError: The name has another ending, or the file can't be written.
        """
        write_picture(self.sheet, Path(path))

    def terminal(self, width: int = 100, color: bool = False) -> str:
        """Return the figure as text, at most so many columns wide."""
        return terminal_chart(self.figure, width, color=color)

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{escaped(self.figure.title)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {self._height()}px; border: 0" '
            f'srcdoc="{html.escape(self.html())}">'
            "</iframe>"
        )

    def _height(self) -> int:
        """Return about how many pixels high the page is; what is higher scrolls."""
        if not self.figure.is_named:
            return 640
        panels = self.figure.panels().values()
        lines = sum(len(p.places()) * len(p.series) for p in panels)
        return min(240 + 30 * lines + 60 * len(panels), 1600)

    def __repr__(self) -> str:
        return self.terminal(min(shutil.get_terminal_size((100, 24)).columns, 100))
