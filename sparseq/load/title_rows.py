"""The rows with titles that stand before the header of a text file or a sheet.

Where the names of columns are known, the header is the first row with these names, and no row above
it may have any of them. The names are public, and a file that can be used has one of them in its
header: so no row of a person is ever taken for a header, and none decides how the others are read.
While a table is made and no name is known, the header is the first row that splits like the rows
after it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sparseq.base.texts import shown

MOST = 20
"""Largest number of rows with titles that are looked through."""
PASSED_OVER = "passed over"
"""The end of the message about them."""
_WIDE = 5
Row = Sequence[str]


def header_by_names(
    rows: Sequence[Row], needed: Collection[str], known: Collection[str], declared: int = 0
) -> int | None:
    """Return the place of the first row with all needed names, in any case; None: there is none.

    Args:
        rows: The first rows.
        needed: Names of columns that a header has.
        known: All names of columns that a header may have.
        declared: The declared number of rows before the header: that row is looked at first.

    Example:
        >>> header_by_names([["Visits of 2024"], ["who", "day"], ["1", "2024-01-05"]], ["Who"], [])
        1
        >>> header_by_names([["day"], ["1"], ["who", "day"]], ["who"], ["who", "day"])
    """
    wanted, any_of = {n.lower() for n in needed}, {n.lower() for n in (*needed, *known)}
    cells = [{cell.lower() for cell in row} for row in rows[: MOST + 1]]
    if wanted and declared < len(cells) and wanted <= cells[declared]:
        return declared
    place = next((k for k, row in enumerate(cells) if row & any_of), None)
    return place if wanted and place is not None and wanted <= cells[place] else None


def header_by_shape(rows: Sequence[Row]) -> int:
    """Return the place of the first row that splits like the two rows after it; 0: there is none.

    Example:
        >>> header_by_shape([["Visits"], ["", "", ""], ["who", "day", "x"], ["1", "2", "3"]])
        2
        >>> header_by_shape([["who", "day"], ["1", "2"]]), header_by_shape([["who"], ["1"]])
        (0, 0)
    """
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[: MOST + 1]]
    for place, row in enumerate(rows[: MOST + 1]):
        after = rows[place + 1 : place + 3]
        most_of_title = 2 if filled[place] >= _WIDE else 1
        is_below_titles = max(filled[:place], default=0) <= most_of_title
        is_full = filled[place] > max(1, len(row) // 2)
        if is_below_titles and is_full and after and all(len(b) == len(row) for b in after):
            return place
    return 0


def titles_note(name: str, titles: int) -> str:
    """Return the message about the titles of a file.

    Example:
        >>> titles_note("a.csv", 1)
        'a.csv: the line with titles before its header was passed over'
    """
    what = "the line" if titles == 1 else f"the {titles:,} lines"
    was = "was" if titles == 1 else "were"
    return f"{shown(name)}: {what} with titles before its header {was} {PASSED_OVER}"
