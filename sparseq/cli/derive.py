"""`sparseq derive`: totals, weekly sums and changes of a monitored series. Free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa

from sparseq.accounting.strategies import Floats, Strategy
from sparseq.answers.answer_exports import markdown
from sparseq.answers.answer_texts import key_texts, noised_text
from sparseq.answers.workbook import workbook
from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import StoreError
from sparseq.base.whole_files import whole_file, writing
from sparseq.cli.options import FilePath, Share, command, file_option
from sparseq.cli.output import DOCUMENTS, Output
from sparseq.cli.text import put_out, say
from sparseq.pictures.bounded_numbers import percent
from sparseq.pictures.figure import PagePart
from sparseq.pictures.page import document
from sparseq.pictures.tables import Table
from sparseq.series.derive import DERIVED, NoisySeries, out_of_band
from sparseq.series.series_file import CsvFormat, series_format, series_table
from sparseq.series.series_rows import ANSWER, LEFT_OUT, STRATEGY
from sparseq.series.smoothed_series import SmoothSeries, season_length, smooth

if TYPE_CHECKING:
    import pyarrow as pa


@command(short_help="Totals, weekly sums and changes of a monitored series: free.")
@click.argument("series", type=FilePath())
@file_option(
    "--output",
    "-o",
    help="Parquet, CSV, JSON Lines, Markdown, HTML or a workbook (.xlsx), by its name. "
    "[default: CSV on standard output]",
)
@click.option("--title", metavar="TEXT", help="Title of a document.")
@click.option(
    "--confidence",
    type=Share(),
    default=CONFIDENCE,
    show_default=True,
    help="Confidence of every ±.",
)
def derive(series: Path, output: Path | None, title: str | None, confidence: float) -> None:
    """Compute other series from the file SERIES, written by `sparseq monitor`.

    They are the running total, sums and means over 7 ticks, the change against 7 ticks before, and
    the deviation from the same weekday of the 4 weeks before, flagged where it is out of the band.
    No store is needed and nothing is charged. Each value has two ±: `error` holds for the value
    alone, `error_all` for all values of its series at once.

    `smoothed` is an estimate of each value from all ticks together, by a model: a level that moves,
    a season, and a difference from tick to tick. Its ± holds for the value alone.

    \b
    Examples:
      sparseq derive buyers.parquet --output derived.parquet
      sparseq derive buyers.parquet --output derived.xlsx
      sparseq derive shop.csv --confidence 0.99
    """
    kind = None if output is None else DOCUMENTS.get(output.suffix.lower())
    if title and kind is None:
        raise click.UsageError("--title is of a document: add --output FILE.html, .md or .xlsx")
    if output is None:
        put_out(
            CsvFormat().text(derive_rows(series_table(series), confidence), head=True), nl=False
        )
    elif kind is not None:
        with Output(output, kind) as out:
            made = derive_rows(series_table(series), confidence)
            out.write(derived_document(made, kind, title or "", confidence))
    else:
        format = series_format(output)
        with whole_file(output) as working, writing(output):
            format.write(None, derive_rows(series_table(series), confidence), working)
    for name, why in not_smoothed(series_table(series)):
        say(f"{name} is not smoothed: {why}", err=True)


def derived_document(rows: pa.Table, kind: str, title: str, confidence: float) -> str | bytes:
    """Return derived rows as one of `DOCUMENTS`: a workbook has all numbers, a text values ±.

    Args:
        rows: The rows of `derive_rows`.
        kind: "html", "markdown" or "xlsx".
        title: The title of the document; "": a default.
        confidence: The confidence of the ±.
    """
    title = title or "Derived series"
    about = [
        f"the ± of a value holds with {percent(confidence)} confidence, for that value alone",
        "computed from released answers: no charge",
    ]
    if kind == "xlsx":
        return workbook(rows, title, about)
    numbers = ("value", "error", "error_all", "out_of_band")
    names = [name for name in rows.column_names if name not in numbers]
    keys = [key_texts(rows[name].to_pylist()) for name in names]
    pairs = zip(rows["value"].to_pylist(), rows["error"].to_pylist(), strict=True)
    values = [noised_text(value, error) for value, error in pairs]
    flags = ["out of the band" if flag else "" for flag in rows["out_of_band"].to_pylist()]
    texts = [list(row) for row in zip(*keys, values, flags, strict=True)]
    table = Table([*names, "value", ""], texts, [*"l" * len(names), ".", "l"])
    if kind == "html":
        return document(title, [PagePart(table=table, notes=about)])
    return markdown(table, about, title)


def strategy_of(line: Sequence[Mapping[str, Any]]) -> Strategy | None:
    """Return the strategy of a series' rows; None: the noises of its answers are independent."""
    text = line[0].get(STRATEGY)
    return Strategy.of(text) if text else None


def measured(sigma: Floats, strategy: Strategy) -> Floats:
    """Return the noise of the measurements from the noise of the ticks of a whole series.

    Raises:
        StoreError: Ticks are missing: their measurements are in the noise of the others.
    """
    white = sigma / np.sqrt(np.cumsum(strategy.inverse(len(sigma)) ** 2))
    if not np.allclose(white, white[0], rtol=1e-6):
        raise StoreError(
            "ticks of a series with a strategy are missing in the file",
            "`sparseq monitor --output FILE` writes all of them again, free of charge",
        )
    return white


Line = list[dict[str, Any]]
"""Rows of one noised number, by tick."""


def keys_of(rows: pa.Table) -> list[str]:
    """Return the names of the group keys in a series file."""
    names = rows.column_names
    return names[names.index("tick") + 1 : names.index("estimate")]  # type: ignore[no-any-return]


def lines_of(rows: pa.Table) -> dict[tuple[Any, ...], Line]:
    """Return the rows of answers that are one noised number, by series, column and keys."""
    keys = keys_of(rows)
    lines: dict[tuple[Any, ...], Line] = {}
    for row in rows.to_pylist():
        if row["estimate"] == ANSWER and row["sigma"] is not None:
            place = (row["series"], row["column"], *(row[k] for k in keys))
            lines.setdefault(place, []).append(row)
    return {place: sorted(line, key=lambda row: row["tick"]) for place, line in lines.items()}


def smoothed_line(line: Line, confidence: float) -> SmoothSeries:
    """Smooth a line; a series under a strategy has correlated noise, and is refused."""
    values = np.array([np.nan if row["value"] is None else row["value"] for row in line])
    if line[0].get(STRATEGY):
        return SmoothSeries.refused(values, "its noise is correlated by a strategy")
    lacking = np.array([row.get(LEFT_OUT) or 0.0 for row in line])
    sigma = np.array([row["sigma"] for row in line])
    season = season_length([row["tick"] for row in line])
    return smooth(values, sigma, season, confidence, lacking)


def not_smoothed(rows: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield each series that is not smoothed, with the reason of its first refused line."""
    told: set[str] = set()
    for (name, *_), line in lines_of(rows).items():
        refusal = smoothed_line(line, CONFIDENCE).refusal
        if refusal and name not in told:
            told.add(name)
            yield name, refusal


def derive_rows(rows: pa.Table, confidence: float) -> pa.Table:
    """Return the derived rows of a series file, for answers that are one noised number."""

    keys = keys_of(rows)
    made: list[dict[str, Any]] = []
    for line in lines_of(rows).values():
        values = [np.nan if r["value"] is None else r["value"] for r in line]
        sigma, strategy = np.array([r["sigma"] for r in line]), strategy_of(line)
        if strategy is not None:
            sigma = measured(sigma, strategy)
        lacking = np.array([r.get(LEFT_OUT) or 0.0 for r in line])
        answers = NoisySeries.of(np.array(values), sigma, confidence, strategy, lacking)
        flags = out_of_band(answers)[1].tolist()
        for name, f in DERIVED.items():
            found = f(answers)
            numbers = zip(found.values, found.error, found.error_all, flags, strict=True)
            for row, (value, error, error_all, flag) in zip(line, numbers, strict=True):
                if np.isfinite(value):
                    made.append(
                        {key: row[key] for key in ("series", "tick", *keys, "column")}
                        | {"derived": name, "value": float(value), "error": float(error)}
                        | {"error_all": float(error_all)}
                        | {"out_of_band": flag if name == "deviation" else None}
                    )
        smoothed = smoothed_line(line, confidence)
        for row, value, error in zip(line, smoothed.values, smoothed.error, strict=True):
            if np.isfinite(value):
                made.append(
                    {key: row[key] for key in ("series", "tick", *keys, "column")}
                    | {"derived": "smoothed", "value": float(value), "error": float(error)}
                )
    floats = [(name, pa.float64()) for name in ("value", "error", "error_all")]
    first = [rows.schema.field(name) for name in ("series", "tick", *keys, "column")]
    more = [("derived", pa.string()), *floats, ("out_of_band", pa.bool_())]
    schema = pa.schema([*first, *(pa.field(*m) for m in more)])
    return pa.Table.from_pylist(made, schema=schema)
