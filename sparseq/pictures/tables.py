"""Tables of text for a terminal.

day         buyers
─────────────────────
1997-01-01   209 ± 13
1997-01-02    71 ± 13
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size

from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown

if TYPE_CHECKING:
    pass


GAP = "  "
_MIN_TRUNCATED = 4
_CELL = re.compile(
    r"([^ ]*)(?:( ± )([^ ]*))?( \([^)]*\))?( .*)?"
)  # a number, and the text after it


class Table(NamedTuple):
    """The arguments of `format_table`: `format_table(*table)`."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[str]


def format_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    align: Sequence[str],
    max_width: int | None = None,
) -> str:
    """Return columns of text under a heading and a rule, two spaces apart, without trailing spaces.

    `align` has one letter a column: `l` left, `r` right, `.` numbers at their decimal point (and
    at their ±). With `max_width`, the widest left-aligned columns are cut with an ellipsis until
    the table fits, if it can. Control characters of a cell are shown (`shown`), so that a value
    can't move the cursor. Raises `ParameterError` if the lengths do not agree.

    >>> print(format_table(["city", "n"], [["Rome", "1,200.5"], ["Oslo", "3"]], ["l", "."]))
    city        n
    ─────────────
    Rome  1,200.5
    Oslo      3
    """
    _check_shape(columns, rows, align)
    cells = [[shown(row[k], None) for row in rows] for k in range(len(columns))]
    cells = [_at_point(c) if a == "." else c for c, a in zip(cells, align, strict=True)]
    titled = [[shown(t, None), *c] for t, c in zip(columns, cells, strict=True)]
    widths = _fit([max(map(cell_len, c)) for c in titled], align, max_width)
    padded = [
        [_pad(cell, width, a) for cell in column]
        for column, width, a in zip(titled, widths, align, strict=True)
    ]
    heading, *body = [GAP.join(line).rstrip() for line in zip(*padded, strict=True)]
    rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    return "\n".join([heading, rule, *body])


def _check_shape(
    columns: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str]
) -> None:
    if not columns or len(align) != len(columns):
        raise ParameterError(f"{len(columns)} columns with {len(align)} alignments")
    if bad := set(align) - {"l", "r", "."}:
        raise ParameterError(f"unknown alignment {min(bad)!r}", "use 'l', 'r' or '.'")
    for k, row in enumerate(rows):
        if len(row) != len(columns):
            raise ParameterError(f"row {k} has {len(row)} cells for {len(columns)} columns")


def _at_point(cells: list[str]) -> list[str]:
    """Pad numbers, half-widths and intervals in brackets, so that their points are aligned.

    The text after them is aligned as well.
    """
    parts = [None if cell.startswith("<") else _CELL.fullmatch(cell) for cell in cells]
    values, signs, bounds, ranges, tails = (
        [part[k] or "" if part else "" for part in parts] for k in range(1, 6)
    )
    values = [
        value if part else cell for value, part, cell in zip(values, parts, cells, strict=True)
    ]
    wide = max(map(cell_len, ranges), default=0)
    padded = [
        _points(values),
        [sign.rjust(max(map(cell_len, signs))) for sign in signs],
        _points(bounds),
        [" " * (wide - cell_len(text)) + text for text in ranges],
        [tail.ljust(max(map(cell_len, tails))) for tail in tails],
    ]
    return ["".join(line) for line in zip(*padded, strict=True)]


def _points(numbers: list[str]) -> list[str]:
    parts = [number.partition(".") for number in numbers]
    whole = max((cell_len(w) for w, _, _ in parts), default=0)
    tail = max((cell_len(point + rest) for _, point, rest in parts), default=0)
    return [
        " " * (whole - cell_len(w)) + w + point + rest + " " * (tail - cell_len(point + rest))
        for w, point, rest in parts
    ]


def _fit(widths: list[int], align: Sequence[str], max_width: int | None) -> list[int]:
    widths = list(widths)
    room = None if max_width is None else max_width - len(GAP) * (len(widths) - 1)
    text = [k for k, a in enumerate(align) if a == "l"]
    while room is not None and sum(widths) > room and text:
        widest = max(text, key=lambda k: widths[k])
        if widths[widest] <= _MIN_TRUNCATED:
            break
        widths[widest] -= 1
    return widths


def _pad(cell: str, width: int, align: str) -> str:
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    space = " " * (width - cell_len(cell))
    return cell + space if align == "l" else space + cell
