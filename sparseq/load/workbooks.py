"""Sheets of workbooks: every cell as text, so that no cell decides how another is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.load.file_sources import NO_TYPES, ROWS, TextColumns
from sparseq.load.optional_readers import needed

_MIDNIGHT = r"^(\d{4}-\d\d-\d\d) 00:00:00$"
_NO_DAY = r"^1899-12-3[01] (\d\d:\d\d:\d\d(\.\d+)?)$"
"""How the reader spells a day, and a time of day: cells know moments only."""


class SheetFile(TextColumns):
    """One sheet: its first row names the columns.

    Args:
        path: Of the workbook.
        sheet: Its name; "" for the first one.
    """

    def __init__(self, path: Path, sheet: str = "") -> None:
        reader = needed("fastexcel", "excel", f"the workbook {shown(path.name)}")
        self.name = path.name
        try:
            book = reader.read_excel(path.read_bytes())
            names: list[str] = book.sheet_names
            if sheet and sheet not in names:
                raise DataError(
                    f"{shown(path.name)} has no sheet {shown(sheet)!r}",
                    f"it has {', '.join(map(shown, names))}",
                )
            chosen = sheet or names[0]
            cells = book.load_sheet(chosen, dtypes="string").to_arrow()
        except (reader.FastExcelError, IndexError, ValueError) as error:
            raise OSError(_reason(error)) from None
        others = [shown(n) for n in names if n != chosen]
        if others and not sheet:
            self.notes = (
                f"{shown(path.name)}: the sheet {shown(chosen)} was read, and not "
                f"{', '.join(others)}",
            )
        self._cells: pa.RecordBatch = cells
        self.types: dict[str, pa.DataType | None] = {
            name.strip(): pa.string()
            for name in cells.schema.names
            if name.strip() and not name.startswith("__UNNAMED__")
        }
        if not self.types:
            raise DataError(f"{shown(self.name)} has no header", "its first row names columns")

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        names = [name.strip() for name in self._cells.schema.names]
        found = [self._cells.column(names.index(c)) for c in columns]
        for start in range(0, self._cells.num_rows, ROWS):
            yield [_spelled(column.slice(start, ROWS)) for column in found]


def _spelled(cells: pa.Array) -> pa.Array:
    """Return cells as texts, days and times of day as what they are."""
    for pattern in (_MIDNIGHT, _NO_DAY):
        cells = pc.replace_substring_regex(cells.cast(pa.string()), pattern, r"\1")
    return cells


def _reason(error: Any) -> str:
    """Return the first line of what the reader says, without its own context."""
    return str(error).partition("\n")[0]
