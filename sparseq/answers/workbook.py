"""An answer as a workbook (.xlsx), by XlsxWriter: the optional extra `excel`."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sparseq.answers.answer_texts import plain_text
from sparseq.base.errors import ParameterError

MOST_ROWS = 1_048_575
"""Largest number of rows of a sheet, without its header."""
_EXACT = 2**53  # a workbook cannot hold larger whole numbers exactly
_FORMATS = {
    "day": "yyyy-mm-dd",
    "moment": "yyyy-mm-dd hh:mm:ss",
    "whole": "#,##0",
    "real": "#,##0.00",
}


def workbook(table: pa.Table, title: str, lines: Sequence[str]) -> bytes:
    """Return a workbook: a sheet with the columns, and a sheet with lines about them.

    No text is stored as a formula, even if it looks like a formula.

    Args:
        table: An answer's columns, with x_low and x_high next to each noised column.
        title: Title of the second sheet; "": none.
        lines: Text of the second sheet.

    Raises:
        ParameterError: The rows do not fit on a sheet.
    """
    import xlsxwriter

    if table.num_rows > MOST_ROWS:
        raise ParameterError(f"a sheet has no {table.num_rows:,} rows", "take csv or parquet")
    content = io.BytesIO()
    options = {"in_memory": True, "default_date_format": _FORMATS["moment"]}
    with xlsxwriter.Workbook(content, options) as book:
        kinds = {name: book.add_format({"num_format": form}) for name, form in _FORMATS.items()}
        sheet, about = book.add_worksheet("answer"), book.add_worksheet("about")
        bold = book.add_format({"bold": True, "bottom": 1})
        for k, name in enumerate(table.column_names):
            sheet.write_string(0, k, name, bold)
            for i, value in enumerate(table[name].to_pylist(), 1):
                _write(sheet, i, k, value, kinds)
        sheet.freeze_panes(1, 0)
        sheet.autofit()
        for i, line in enumerate([*([title] if title else []), *lines]):
            about.write_string(i, 0, line)
    return content.getvalue()


def _write(sheet: Any, row: int, column: int, value: Any, kinds: dict[str, Any]) -> None:
    """Write a value with its type; an unknown value is left empty."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, dt.datetime) and value.tzinfo is None and value.year >= 1900:
        sheet.write_datetime(row, column, value, kinds["moment"])
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime) and value.year >= 1900:
        sheet.write_datetime(row, column, value, kinds["day"])
    elif isinstance(value, int | float | Decimal) and abs(float(value)) <= _EXACT:
        whole = isinstance(value, int) or abs(float(value)) >= 1000
        sheet.write_number(row, column, float(value), kinds["whole" if whole else "real"])
    else:
        sheet.write_string(row, column, plain_text(value))
