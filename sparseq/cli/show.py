"""An answer as a table with intervals, as a document, and as data.

The place of an answer: standard output, or a file that appears whole or not at all.

A place that can't be written to is found out before anything is asked, and so before anything is
charged.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from sparseq.base.texts import json_text
from sparseq.cli.text import guarantee_line, label_lines, loud_lines, say
from sparseq.pictures.answer_texts import (
    answer_csv,
    answer_markdown,
    budget_of,
    footnote,
    lines_about,
)
from sparseq.pictures.answers import answer_page
from sparseq.pictures.tables import format_bound, format_table, percent
from sparseq.pictures.workbook import workbook
from sparseq.store.store_promise import answer_facts

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.store.answer import Answer

# -- an answer as a table with intervals, as a document, and as data -------------------------------

_WIDE = 88  # columns of what is said under an answer, behind its labels


def encode(
    answer: Answer,
    format: str,
    width: int | None = None,
    recorded: bool = False,
    title: str = "",
) -> str | bytes:
    """Return an answer in one of `output.FORMATS`.

    Args:
        answer: The answer.
        format: One of `output.FORMATS`.
        width: Columns that a table may take.
        recorded: It was read back; the table says so.
        title: Of a document.
    """
    table, facts = answer.arrow(), answer.facts
    if format == "csv":
        return answer_csv(table)
    if format == "json":
        return json_text(answer_facts(answer))
    if format == "table":
        return answer_text(answer, width, recorded)
    if format == "markdown":
        return answer_markdown(table, facts, title)
    if format == "html":
        return answer_page(table, facts, title)
    if format == "xlsx":
        return workbook(table, title, [*lines_about(table, facts), facts.query])
    return _binary(answer, format)


def answer_text(answer: Answer, width: int | None = None, recorded: bool = False) -> str:
    """Return the values with their intervals, and under them what those are about."""
    texts = answer.texts()
    loud = loud_lines(answer.facts.seeded, answer.facts.losses)
    about = label_lines(_footer(answer, footnote(texts), recorded))
    return "\n".join([format_table(*texts, max_width=width), "", *loud, about])


def _footer(answer: Answer, marks: list[str], recorded: bool) -> list[tuple[str, str]]:
    facts = answer.facts
    recall = " (recorded: no new noise, no charge)" if recorded else ""
    if facts.repeated:
        recall = " (the same question was asked before: no new noise, no charge)"
    if facts.follows:
        recall = " (this follows from its cells: no new noise, no charge)"
    return [
        ("interval", "\n".join([*interval_lines(answer), *marks])),
        *((("note" if k == 0 else ""), note) for k, note in enumerate(facts.notes)),
        ("private", guarantee_line(budget_of(answer.facts), answer.facts.unit)),
        *([("release", f"{facts.release}{recall}")] if facts.release else []),
    ]


def interval_lines(answer: Answer) -> list[str]:
    """Say what the intervals of an answer are about, in lines that fit a terminal."""
    facts = answer.facts
    line = answer.interval.line
    if facts.comparisons:
        sure = percent(facts.confidence)
        line = f"no comparison is wrong by more than the ±, with {sure} confidence"
    lines = textwrap.wrap(line, _WIDE)
    return lines if facts.interval or facts.comparisons else [*lines, *_left_out(answer)]


def brief_text(answer: Answer, width: int | None = None) -> str:
    """Return the values with their intervals, and as little as will do about the rest."""
    texts = answer.texts()
    loud = loud_lines(answer.facts.seeded, answer.facts.losses)
    again = ", asked before (free)" if answer.facts.repeated else ""
    again = ", from which this follows (free)" if answer.facts.follows else again
    first, *others = interval_lines(answer)
    release = f"release {answer.facts.release}{again}: " if answer.facts.release else ""
    lines = [f"{release}{first}", *others, *answer.facts.asked_first, *footnote(texts)]
    dim = (click.style(line, dim=True) for line in lines)
    return "\n".join([format_table(*texts, max_width=width), *loud, *dim])


def _left_out(answer: Answer) -> list[str]:
    """Say whom no ± covers but those without budget; the limits follow from public facts."""
    limits: dict[str, float] = {}
    for kind, reach in zip(answer.facts.kinds, answer.facts.reach, strict=True):
        limits[kind] = min(reach, limits.get(kind, reach))
    reasons = []
    if "rows" in limits:
        reasons.append(f"have more than {math.floor(limits['rows'] * (1 + 2**-40)):,} rows in it")
    if "sum" in limits:
        reasons.append(f"add more than {format_bound(limits['sum'])}")
    return [f"left out too: people who {' or '.join(reasons)}"] if reasons else []


def _binary(answer: Answer, format: str) -> bytes:
    """Return Parquet, or an Arrow file; the answer's facts are in the schema's metadata."""
    import pyarrow.parquet as pq

    table = answer.described()
    sink = pa.BufferOutputStream()
    if format == "parquet":
        pq.write_table(table, sink)
    else:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return bytes(sink.getvalue())


def warn_if_seeded(answer: Answer, format: str) -> None:
    """Say on standard error what a format without words can't say."""
    if format != "table":
        for line in loud_lines(answer.facts.seeded, answer.facts.losses):
            say(line, err=True)
