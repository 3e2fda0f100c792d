"""An answer as a table with error bars, as CSV, JSON, Parquet or Arrow.

The place of an answer: standard output, or a file that appears whole or not at all.

A place that can't be written to is found out before anything is asked, and so before anything is
charged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from sparseq.base.texts import json_text
from sparseq.cli.text import guarantee_line, labelled, loud_lines, one_line, say
from sparseq.pictures.answer_texts import (
    IMPRECISE,
    answer_csv,
    answer_table,
    budget_of,
    is_imprecise,
    with_interval,
)
from sparseq.pictures.tables import format_bound, format_table, number, percent
from sparseq.released.render import LOW_SUFFIX
from sparseq.store.store_promise import answer_facts, both_bounds

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.store.answer import Answer

# -- an answer as a table with error bars, as CSV, JSON, Parquet or Arrow --------------------------


def encode(
    answer: Answer, format: str, width: int | None = None, recorded: bool = False
) -> str | bytes:
    """Return an answer in one of `output.FORMATS`.

    Args:
        answer: The answer.
        format: One of `output.FORMATS`.
        width: Columns that a table may take.
        recorded: It was read back; the table says so.
    """
    if format == "csv":
        return answer_csv(answer.arrow())
    if format == "json":
        return json_text(answer_facts(answer))
    if format == "table":
        return answer_text(answer, width, recorded)
    return _binary(answer, format)


def answer_text(answer: Answer, width: int | None = None, recorded: bool = False) -> str:
    """Return the values with their ±, and under them what is known about the noise."""
    values = format_table(*answer_table(answer.arrow()), max_width=width)
    loud = loud_lines(answer.facts.seeded, answer.facts.losses)
    return "\n".join([values, "", *loud, labelled(_footer(answer, recorded))])


def _footer(answer: Answer, recorded: bool) -> list[tuple[str, str]]:
    facts = answer.facts
    recall = " (recorded: no new noise, no charge)" if recorded else ""
    if facts.repeated:
        recall = " (the same question was asked before: no new noise, no charge)"
    if facts.follows:
        recall = " (this follows from its cells: no new noise, no charge)"
    if facts.interval:
        about = interval_lines(answer)
    else:
        about = [
            ("noise", "\n".join(noise_lines(answer))),
            ("", f"{_how_sure(answer)};\n{_left_out(answer)}"),
        ]
    return [
        *about,
        *((("groups" if k == 0 else ""), note) for k, note in enumerate(facts.notes)),
        ("private", guarantee_line(budget_of(answer.facts), answer.facts.unit)),
        ("release", f"{facts.release}{recall}"),
    ]


def interval_lines(answer: Answer) -> list[tuple[str, str]]:
    """Say what the intervals of a weighted answer are about, and what they rest on."""
    facts = answer.facts
    found = answer.interval
    lines = [("interval", f"{found.what};"), ("", found.why)]
    if any(few for _, few in _marks(answer.arrow())):
        lines.append(("", f"{IMPRECISE}: the interval is wider than the value"))
    several = len(facts.labels) > 1
    rows = [
        f"sigma {number(s)}, at scale {number(c)}" + f"  {one_line(label, 50)}" * several
        for s, c, label in zip(facts.sigma, facts.scale, facts.labels, strict=True)
    ]
    return [*lines, ("noise", "\n".join(dict.fromkeys(rows)))]


def _marks(table: pa.Table) -> list[tuple[str, bool]]:
    """Return the noised columns of a weighted answer, and whether one of their values is marked."""
    names = [n for n in table.column_names if n + LOW_SUFFIX in table.column_names]
    return [(n, any(is_imprecise(*row) for row in with_interval(table, n))) for n in names]


def brief_text(answer: Answer, width: int | None = None) -> str:
    """Return the values with their ±, and as little as will do about the noise."""
    values = format_table(*answer_table(answer.arrow()), max_width=width)
    loud = loud_lines(answer.facts.seeded, answer.facts.losses)
    sure = percent(answer.facts.confidence)
    if answer.facts.interval:
        said = [f"{label}: {text}" if label else text for label, text in interval_lines(answer)]
        first, others = "; ".join(said[:1]).rstrip(";"), said[1:-1]
    else:
        first, *others = noise_lines(answer)
    again = ", asked before (free)" if answer.facts.repeated else ""
    again = ", from which this follows (free)" if answer.facts.follows else again
    lines = [f"release {answer.facts.release}{again}, {sure} confidence: {first}", *others]
    return "\n".join([values, *loud, *(click.style(line, dim=True) for line in lines)])


def noise_lines(answer: Answer) -> list[str]:
    """One line a measure."""
    facts = answer.facts
    bounds, corollary = both_bounds(answer)
    if facts.comparisons:
        return [
            f"Laplace, scale {number(s)}: ± {format_bound(b)} for all {facts.comparisons:,} "
            "comparisons of a sparse vector's run"
            for s, b in zip(facts.sigma, bounds, strict=True)
        ]
    several = len(facts.labels) > 1
    rows = [
        f"sigma {number(s)}, ± {format_bound(b)} (Corollary 4.7: ± {format_bound(c)})"
        + (f"  {one_line(label, 50)}" if several else "")
        for s, b, c, label in zip(facts.sigma, bounds, corollary, facts.labels, strict=True)
    ]
    return list(dict.fromkeys(rows))


def _how_sure(answer: Answer) -> str:
    sure = f"with {percent(answer.facts.confidence)} confidence"
    if answer.facts.comparisons:
        return f"no comparison is wrong by more than the ±, {sure}"
    d = answer.facts.coordinates
    if d == 1:
        return f"the value is within its ± {sure}"
    return f"the {d:,} noised values are all within their ± {sure}"


def _left_out(answer: Answer) -> str:
    """Say whom no ± covers; how much is too much follows from public facts."""
    limits: dict[str, float] = {}
    for kind, reach in zip(answer.facts.kinds, answer.facts.reach, strict=True):
        limits[kind] = min(reach, limits.get(kind, reach))
    reasons = []
    if "rows" in limits:
        reasons.append(
            f"who have more than {math.floor(limits['rows'] * (1 + 2**-40)):,} rows in it"
        )
    if "sum" in limits:
        reasons.append(f"who add more than {format_bound(limits['sum'])}")
    if not reasons:
        return "people who have used up their budget are left out, which no ± covers"
    return f"left out, and in no ±: people who have used up their budget,\n{' or '.join(reasons)}"


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
