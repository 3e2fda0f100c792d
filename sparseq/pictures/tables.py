"""Tables of text for a terminal.

day         buyers
─────────────────────
1997-01-01   209 ± 13
1997-01-02    71 ± 13
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown
from sparseq.pictures.numbers import PLUS_MINUS

GAP = "  "
_MIN_TRUNCATED = 4


class Table(NamedTuple):
    """What `format_table` takes: `format_table(*table)`."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[str]


def format_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    align: Sequence[str],
    max_width: int | None = None,
) -> str:
    """Columns of text under a heading and a rule, two spaces apart; no line ends in spaces.

    `align` has one letter a column: `l` left, `r` right, `.` numbers at their decimal point (and
    at their ±). With `max_width`, the widest left-aligned columns are cut with an ellipsis until
    the table fits, if it can. Nothing in a cell is hidden (`shown`), so that a value can't move the
    cursor. Raises `ParameterError` where the lengths do not agree.

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
    """Pad numbers, and the numbers on both sides of a ±, so that their points are in line."""
    halves = [cell.partition(PLUS_MINUS) for cell in cells]
    left = _points([value for value, _, _ in halves])
    if not any(sign for _, sign, _ in halves):
        return left
    right = _points([bound for _, _, bound in halves])
    return [
        f"{a}{sign or ' ' * len(PLUS_MINUS)}{b}"
        for a, (_, sign, _), b in zip(left, halves, right, strict=True)
    ]


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
