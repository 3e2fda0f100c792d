"""An answer as a table with error bars, as CSV, JSON, Parquet or Arrow."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from sparseq.accounting.budget import Budget
from sparseq.cli.output import json_text
from sparseq.cli.text import guarantee_facts, guarantee_line, labelled, loud_lines, one_line, say
from sparseq.pictures.numbers import (
    MISSING,
    digits_for,
    format_bound,
    format_number,
    number,
    percent,
)
from sparseq.pictures.tables import Table, format_table

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.answer import Answer

ERROR = "_error"  # beside every noised column x, x_error has its ±


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
    return [
        ("noise", "\n".join(noise_lines(answer))),
        (
            "",
            f"{_how_sure(answer)};\n{_left_out(answer)}",
        ),
        ("private", guarantee_line(budget_of(answer))),
        ("release", f"{facts.release}{recall}"),
    ]


def brief_text(answer: Answer, width: int | None = None) -> str:
    """Return the values with their ±, and as little as will do about the noise."""
    values = format_table(*answer_table(answer.arrow()), max_width=width)
    loud = loud_lines(answer.facts.seeded, answer.facts.losses)
    sure = percent(answer.facts.confidence)
    first, *others = noise_lines(answer)
    lines = [f"release {answer.facts.release}, {sure} confidence: {first}", *others]
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


def both_bounds(answer: Answer) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return ± and Corollary 4.7's bound at the answer's confidence, one a measure."""
    beta = 1 - answer.facts.confidence
    tight, corollary = answer.bound(beta), answer.corollary_bound(beta)
    return _many(tight), _many(corollary)


def _many(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


def budget_of(answer: Answer) -> Any:
    """Return the budget of the store that an answer came from."""
    facts = answer.facts
    return Budget(facts.kappa, facts.norm_budget, facts.gaussian)


def answer_table(table: pa.Table) -> Table:
    """Return the answer for `format_table`, every value beside its ±."""
    names = table.column_names
    errors = {n for n in names if n.endswith(ERROR) and n.removesuffix(ERROR) in names}
    columns, texts, align = [], [], []
    for name in (n for n in names if n not in errors):
        values = table[name].to_pylist()
        columns.append(name)
        if name + ERROR in errors:
            whole = str(table[name].type).startswith("int")
            bounds = table[name + ERROR].to_pylist()
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


def answer_facts(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data; sigma and bounds are lists if there are several measures."""
    facts = answer.facts
    bounds, corollary = both_bounds(answer)

    def only(numbers: tuple[float, ...]) -> Any:
        return numbers[0] if len(numbers) == 1 else numbers

    return {
        "columns": answer.arrow().column_names,
        "rows": answer.rows(),
        "measures": facts.labels,
        "sigma": only(facts.sigma),
        "bound": only(bounds),
        "corollary_bound": only(corollary),
        "confidence": facts.confidence,
        "coordinates": facts.coordinates,
        "release": facts.release,
        "request_id": facts.request_id,
        "query": facts.query,
        "guarantee": guarantee_facts(budget_of(answer)),
        "seeded": facts.seeded,
        "losses": facts.losses,
    }


def _binary(answer: Answer, format: str) -> bytes:
    """Return Parquet, or an Arrow file; the answer's facts are in the schema's metadata."""
    import pyarrow.parquet as pq

    table = answer.arrow().replace_schema_metadata({b"sparseq": json.dumps(asdict(answer.facts))})
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
