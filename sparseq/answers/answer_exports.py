"""An answer as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sparseq.answers.answer_facts import Facts
from sparseq.answers.answer_texts import answer_table, fact_lines, footnote, plain_text
from sparseq.base.texts import shown
from sparseq.pictures.tables import Table

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~#])")


def answer_markdown(table: pa.Table, facts: Facts, title: str = "") -> str:
    """Return all rows as a table in Markdown, each value with its interval, and the notes.

    Texts are escaped, so that they are shown literally.
    """
    texts = answer_table(table)
    return markdown(texts, [*footnote(texts), *fact_lines(table, facts)], title)


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
    """Return the columns as CSV, including x_error; an unknown value is empty."""
    columns = [table[name].to_pylist() for name in table.column_names]
    rows = zip(*columns, strict=True)
    return csv_text(
        table.column_names, (["" if v is None else plain_text(v) for v in row] for row in rows)
    )


def answer_cells(table: pa.Table) -> str:
    """Return the columns as text to paste into a spreadsheet: tab-separated, without formulas.

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
    """Return rows as CSV under a header, with unchanged values."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return sink.getvalue().removesuffix("\n")
