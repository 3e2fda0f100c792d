"""An answer as a table with intervals, as a document, and as data."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from sparseq.answers.answer_exports import answer_csv, answer_markdown
from sparseq.answers.answer_texts import budget_of, fact_lines, footnote
from sparseq.answers.workbook import workbook
from sparseq.base.json_text import json_text
from sparseq.cli.text import guarantee_line, label_lines, loud_lines, say
from sparseq.pictures.bounded_numbers import format_bound, percent
from sparseq.pictures.tables import format_table
from sparseq.store.release_facts import answer_facts

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.answers.answer import Answer

_WIDE = 88  # columns of the text under an answer, after its labels


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
        recorded: True for an answer that was read back; the table shows this.
        title: The title of a document.
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
        from sparseq.answers.answer_figures import answer_page

        return answer_page(table, facts, title)
    if format == "xlsx":
        return workbook(table, title, [*fact_lines(table, facts), facts.query])
    return _binary(answer, format)


def answer_text(answer: Answer, width: int | None = None, recorded: bool = False) -> str:
    """Return the values with their intervals, and below them the meaning of the intervals."""
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
    """Explain the intervals of an answer in lines that fit a terminal."""
    facts = answer.facts
    line = answer.interval.line
    if facts.comparisons:
        sure = percent(facts.confidence)
        line = f"no comparison is wrong by more than the ±, with {sure} confidence"
    lines = textwrap.wrap(line, _WIDE)
    if facts.interval == "assumed":
        lines.append("assumed: no small group owns most rows; create --most rows=N proves it")
    return lines if facts.interval or facts.comparisons else [*lines, *_left_out(answer)]


def brief_text(answer: Answer, width: int | None = None) -> str:
    """Return the values with their intervals, and a minimum of other facts."""
    texts = answer.texts()
    loud = loud_lines(answer.facts.seeded, answer.facts.losses)
    again = ", asked before (free)" if answer.facts.repeated else ""
    again = ", from which this follows (free)" if answer.facts.follows else again
    first, *others = interval_lines(answer)
    release = f"release {answer.facts.release}{again}: " if answer.facts.release else ""
    lines = [f"{release}{first}", *others, *answer.facts.notes, *footnote(texts)]
    dim = (click.style(line, dim=True) for line in lines)
    return "\n".join([format_table(*texts, max_width=width), *loud, *dim])


def _left_out(answer: Answer) -> list[str]:
    """Return the other people outside every ±, besides those without budget, from public limits."""
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
    """Warn on standard error of seeded noise if the format has no room for words."""
    if format != "table":
        for line in loud_lines(answer.facts.seeded, answer.facts.losses):
            say(line, err=True)
