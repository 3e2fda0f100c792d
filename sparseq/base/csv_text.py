"""Rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import pyarrow as pa

from sparseq.pictures.answer_texts import plain_text


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
