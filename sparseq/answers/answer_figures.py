"""An answer drawn: a table with its intervals for a notebook, a part of a page, a drawing."""

from __future__ import annotations

import html
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sparseq.answers.answer_facts import Facts
from sparseq.answers.answer_texts import (
    answer_table,
    budget_of,
    fact_lines,
    first_rows,
    footnote,
    said,
    warnings_of,
    with_interval,
)
from sparseq.answers.chart_kinds import Chart, answer_figure, chart_of, default_title
from sparseq.pictures.figure import Figure, PagePart, Sheet
from sparseq.pictures.guarantee_texts import LOUD, guarantee
from sparseq.pictures.image import write_picture
from sparseq.pictures.page import document, escaped, html_page
from sparseq.pictures.terminal import terminal_chart
from sparseq.released.result_columns import ColumnRole, column_parts, noised_of

_WIDE, _HIGH = 180, 16  # size of a drawn interval, in pixels


def html_table(table: pa.Table, facts: Facts) -> str:
    """Return the first rows as an HTML table, with each interval drawn on its column's scale.

    It needs no script or style sheet, so that any notebook can show it.
    """
    shown, more = first_rows(table)
    texts = answer_table(shown)
    drawn = {texts.columns.index(name): _drawings(shown, name) for name in noised_of(shown)}
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
    """Return an answer as a part of a document: "bars", "lines", a "table" or "none".

    The store's promise and the warnings are printed once in the document. An answer without rows is
    a table.

    Args:
        table, facts: The answer.
        heading: Heading of the part.
        text: Text above the answer, paragraphs separated by blank lines.
        chart: Kind of drawing. "": the kind that suits the answer, see `chart_of`.

    Raises:
        ParameterError: The answer cannot be drawn in that way.
    """
    paragraphs = paragraphs_of(text)
    about = [line for line in fact_lines(table, facts)[:-1] if line not in LOUD]
    chart = chart_of(table, chart) if table.num_rows else "table"
    if chart == "none":
        return PagePart(heading, paragraphs, notes=about)
    if chart == "table":
        texts = answer_table(table)
        return PagePart(heading, paragraphs, table=texts, notes=[*footnote(texts), *about])
    figure = answer_figure(table, facts, heading, "lines" if chart == "lines" else "bars")
    notes = [note for note in figure.notes[:-1] if note not in LOUD]
    return PagePart(heading, paragraphs, replace(figure, notes=notes))


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a text, which are separated by blank lines.

    >>> paragraphs_of("One,\\nand more.\\n\\nTwo.")
    ['One, and more.', 'Two.']
    """
    return [" ".join(p.split()) for p in re.split(r"\n\s*\n", text) if p.strip()]


def answer_page(table: pa.Table, facts: Facts, title: str = "") -> str:
    """Return a page with all rows of an answer, each value with its interval."""
    promise = PagePart(notes=[guarantee(budget_of(facts), facts.unit)])
    parts = [answer_part(table, facts, chart="table"), promise]
    return document(title or default_title(table), parts, warnings_of(facts))


def _cell(text: str, side: str) -> str:
    style = "text-align: left" if side == "l" else "text-align: right; white-space: pre"
    return f'<td style="{style}">{escaped(text)}</td>'


def intervals(table: pa.Table, name: str) -> list[tuple[float | None, float | None, float | None]]:
    """Return each value of a noised column, with the ends of its interval."""
    parts = column_parts(table)[name]
    if ColumnRole.LOW in parts:
        return with_interval(table, name)
    both = zip(table[name].to_pylist(), table[parts[ColumnRole.ERROR]].to_pylist(), strict=True)
    return [
        (value, None, None)
        if value is None or error is None
        else (value, value - error, value + error)
        for value, error in both
    ]


def _drawings(table: pa.Table, name: str) -> list[str]:
    """Return drawings of a column's intervals, all on one scale that contains 0."""
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


class Drawing:
    """A figure that a notebook or a prompt displays.

    Attributes:
        figure: The drawing, as data.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    @classmethod
    def of(cls, table: pa.Table, facts: Facts, title: str, chart: Chart | None) -> Drawing:
        """Return the drawing of an answer: see `answer_figure`."""
        return cls(answer_figure(table, facts, title, chart))

    def html(self) -> str:
        """Return a page with the figure; it works without a network."""
        return html_page(self.sheet)

    @property
    def sheet(self) -> Sheet:
        """A page, or an image, with this figure only."""
        return Sheet(self.figure.title, [self.figure])

    def save(self, path: str | Path) -> None:
        """Write a page (.html) or an image (.png, .svg), which appears whole or not at all.

        Raises:
            ParameterError: The name has another ending, or the file cannot be written.
        """
        write_picture(self.sheet, Path(path))

    def terminal(self, width: int = 100, color: bool = False) -> str:
        """Return the figure as text, at most `width` columns wide."""
        return terminal_chart(self.figure, width, color=color)

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{escaped(self.figure.title)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {self._height()}px; border: 0" '
            f'srcdoc="{html.escape(self.html())}">'
            "</iframe>"
        )

    def _height(self) -> int:
        """Return the approximate height of the page in pixels; a higher page scrolls."""
        if not self.figure.is_named:
            return 640
        panels = self.figure.readable().panels().values()
        lines = sum(len(p.places()) * len(p.series) for p in panels)
        return min(240 + 30 * lines + 60 * len(panels), 1600)

    def __repr__(self) -> str:
        return self.terminal(min(shutil.get_terminal_size((100, 24)).columns, 100))
