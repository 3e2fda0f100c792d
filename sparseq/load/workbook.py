"""Sheets of workbooks: every cell is a text, so no cell affects the reading of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.load.file_sources import ANY_FORM, ROWS, TextColumns, TextForm, distinct
from sparseq.load.optional_modules import import_optional
from sparseq.load.source import NO_TYPES
from sparseq.load.title_rows import MOST, titles_note

_MIDNIGHT = r"^(\d{4}-\d\d-\d\d) 00:00:00$"
_NO_DAY = r"^1899-12-3[01] (\d\d:\d\d:\d\d(\.\d+)?)$"
"""The reader's spelling of a day, and of a time of day: cells only know moments."""


class SheetFile(TextColumns):
    """One sheet: its first row has the columns' names.

    Args:
        path: The path of the workbook.
        sheet: The name of the sheet; "" for the first one.
        form: The texts that mean NULL, and the number of rows with words before the header.
    """

    def __init__(
        self,
        path: Path,
        sheet: str = "",
        form: TextForm = ANY_FORM,
        wanted: Iterable[str] = (),
    ) -> None:
        self._nulls = pa.array(form.nulls, pa.string())
        reader = import_optional("fastexcel", "excel", f"the workbook {shown(path.name)}")
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
            cells = book.load_sheet(chosen, header_row=None, dtypes="string").to_arrow()
        except (reader.FastExcelError, IndexError, ValueError) as error:
            raise OSError(str(error).partition("\n")[0]) from None
        others = [shown(n) for n in names if n != chosen]
        first = zip(*(c.slice(0, 8 * MOST).to_pylist() for c in cells.columns), strict=True)
        texts = [[str(cell or "").strip() for cell in row] for row in first]
        with_words = [row for row in texts if any(row)][: MOST + 3]
        skip = form.header_place([with_words], set(wanted))
        names, self._cells = _below(cells, skip)
        self._names, self.notes = distinct(path.name, names)
        if skip and skip != form.skip:
            self.notes += (titles_note(path.name, skip),)
        if others and not sheet:
            self.notes += (
                f"{shown(path.name)}: the sheet {shown(chosen)} was read; {', '.join(others)} was"
                " not",
            )
        self.types: dict[str, pa.DataType | None] = dict.fromkeys(
            filter(None, self._names), pa.string()
        )
        if not self.types:
            raise DataError(
                f"{shown(self.name)} has no header", ("its first row must have the columns' names")
            )

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        found = [self._cells.column(self._names.index(c)) for c in columns]
        for start in range(0, self._cells.num_rows, ROWS):
            yield [self._without_nulls(_spell(c.slice(start, ROWS))) for c in found]

    def _without_nulls(self, cells: pa.Array) -> pa.Array:
        null = pc.is_in(cells, self._nulls)
        return pc.if_else(null, pa.scalar(None, pa.string()), cells)


def _below(cells: pa.RecordBatch, skip: int) -> tuple[list[str], pa.RecordBatch]:
    """Return the columns' names and the rows below them; `skip` rows with words come before."""
    for k in range(cells.num_rows):
        names = [str(column[k].as_py() or "").strip() for column in cells.columns]
        if any(names) and skip:
            skip -= 1
        elif any(names):
            return names, cells.slice(k + 1)
    return [], cells.slice(0, 0)


def _spell(cells: pa.Array) -> pa.Array:
    """Return cells as texts; days and times of day keep their own spelling."""
    for pattern in (_MIDNIGHT, _NO_DAY):
        cells = pc.replace_substring_regex(cells.cast(pa.string()), pattern, r"\1")
    return cells
