"""An answer drawn: a table with its intervals for a notebook, a figure over its key."""

from __future__ import annotations

import datetime as dt
import html
import math
import shutil
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sparseq.base.errors import ParameterError
from sparseq.pictures.answer_texts import (
    answer_table,
    budget_of,
    first_rows,
    footnote,
    key_texts,
    said,
    with_interval,
)
from sparseq.pictures.figure import Axis, Color, Figure, Floats, Series, Sheet
from sparseq.pictures.page import escaped, html_page
from sparseq.pictures.tables import NOT_PRIVATE, guarantee
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
        f"<p><strong>{escaped(line)}</strong></p>"
        if line == NOT_PRIVATE
        else f"<p>{escaped(line)}</p>"
        for line in (*more, *footnote(texts), *said(facts), guarantee(budget_of(facts), facts.unit))
    )
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
            table,
            name,
            " ".join([*group, *([name] if len(names) > 1 or not group else [])]),
            sorted(rows, key=place.__getitem__),
            across[0],
            _SERIES[(k * len(names) + m) % len(_SERIES)],
        )
    ]
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
