"""Tables of text for a terminal.

day         buyers
─────────────────────
1997-01-01   209 ± 13
1997-01-02    71 ± 13
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.cells import cell_len, set_cell_size

from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown

if TYPE_CHECKING:
    from sparseq.accounting import Budget

# -- numbers for people, written as precisely as their error bound allows --------------------------

MISSING = "–"
PLUS_MINUS = " ± "
_MOST_DECIMALS, _LARGEST = 12, 1e15


def format_number(value: float, digits: int) -> str:
    """`value` with thousands separators and `digits` decimals; below 0, rounded to tens and up.

    Numbers beyond 10^15, or with more than 12 decimals, are written like 1.2e-15.

    >>> format_number(1234567.891, 1), format_number(1234567.891, -3), format_number(-0.04, 1)
    ('1,234,567.9', '1,235,000', '0.0')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if digits > _MOST_DECIMALS or abs(value) >= _LARGEST:
        return f"{float(value):.3g}"
    rounded = round(float(value), digits)
    return f"{rounded + 0.0:,.{max(digits, 0)}f}"  # + 0.0 turns -0.0 into 0.0


def digits_for(bound: float) -> int:
    """Return the decimals to show beside an error bound: it is left with two significant digits.

    >>> digits_for(0.0123), digits_for(6.3), digits_for(46), digits_for(4612)
    (3, 1, 0, -2)
    """
    if not math.isfinite(bound) or bound <= 0:
        return 0
    digits = max(min(1 - math.floor(math.log10(bound)), 300), -300)
    # 9.96 becomes 10, not 10.0: one digit less where rounding up carries over.
    return digits - 1 if _up(bound, digits) >= 10.0 ** (2 - digits) else digits


def format_with_bound(value: float, bound: float) -> str:
    """`value ± bound`, both cut to the bound's two significant digits.

    The bound is rounded up: what is shown stays a bound.

    >>> format_with_bound(1234.567, 12.3), format_with_bound(0.5, 0.01234)
    ('1,235 ± 13', '0.500 ± 0.013')
    """
    digits = digits_for(bound)
    return f"{format_number(value, digits)}{PLUS_MINUS}{format_bound(bound)}"


Ends = tuple[float | None, float | None, float | None]
"""A value, and the ends of its interval; None: not known."""
_EVEN = 1.1  # the longer side of an interval is at most so many times the shorter one


def interval_texts(rows: Sequence[Ends], whole: bool = False) -> list[str]:
    """A column of values with their intervals: `28 ± 3`, or `28 (21–43)` where that says too much.

    All are written with ± if on both sides of each value the interval is as long, up to a tenth;
    ± is the longer side. `whole` numbers have no decimals.

    >>> interval_texts([(28, 25.0, 31.1), (400, 390.0, 410.0)], whole=True)
    ['28 ± 3.1', '400 ± 10']
    >>> interval_texts([(28, 21.0, 43.0), (7, None, None)]), interval_texts([(3.04, -2.0, 9.0)])
    (['28 (21–43)', '7 ± ?'], ['3.0 (-2.0 to 9.0)'])
    """
    between = " to " if any((low or 0) < 0 for _, low, _ in rows) else "–"
    between = PLUS_MINUS if all(_is_even(*row) for row in rows) else between
    return [_interval_text(*row, between, whole) for row in rows]


def _is_even(value: float | None, low: float | None, high: float | None) -> bool:
    if value is None or low is None or high is None:
        return True
    sides = value - low, high - value
    return max(sides) <= _EVEN * min(sides)


def _interval_text(
    value: float | None, low: float | None, high: float | None, between: str, whole: bool
) -> str:
    if value is None:
        return MISSING
    if low is None or high is None:
        return (f"{value:,}" if whole else f"{value:.4g}") + f"{PLUS_MINUS}?"
    even = between == PLUS_MINUS
    bound = max(value - low, high - value) if even else (high - low) / 2
    digits = digits_for(bound)
    digits = min(digits, 0) if whole else digits
    if even:
        return f"{format_number(value, digits)}{PLUS_MINUS}{format_bound(bound)}"
    ends = [format_number(end, digits) for end in (low, high)]
    return f"{format_number(value, digits)} ({between.join(ends)})"


def format_bound(bound: float) -> str:
    """An error bound with two significant digits, rounded up.

    >>> format_bound(45.86), format_bound(0.30000000000000004)
    ('46', '0.30')
    """
    digits = digits_for(bound)
    return format_number(_up(bound, digits), digits)


def number(value: float) -> str:
    """Return a number with up to five digits.

    >>> number(6.3245553), number(20.0), number(1234567.0)
    ('6.3246', '20', '1,234,567')
    """
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.5g}"


def upper(value: float, digits: int = 3) -> str:
    """Return a number that must not look smaller than it is, rounded up to `digits` digits.

    >>> upper(4.886554), upper(1.0), upper(0.25, 2)
    ('4.89', '1', '0.25')
    """
    if not math.isfinite(value) or value <= 0:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}"


def percent(share: float) -> str:
    """Return a share as a percentage.

    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * share:.6g} %"


def _up(bound: float, digits: int) -> float:
    """`bound` rounded up to `digits` decimals, forgiving the last bits of a float."""
    unit = 10.0**-digits
    return math.ceil(bound / unit * (1 - 1e-12)) * unit if math.isfinite(bound) else bound


# -- tables of text for a terminal -----------------------------------------------------------------

GAP = "  "
_MIN_TRUNCATED = 4
_CELL = re.compile(
    r"([^ ]*)(?:( ± )([^ ]*))?( \([^)]*\))?( .*)?"
)  # a number, and what is behind it


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
    """Pad numbers, what is behind a ±, and intervals in brackets, so that their points are in line.

    What stands behind them is in line as well.
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


# -- lines of words for a terminal -----------------------------------------------------------------


def one_line(text: str, width: int | None = None) -> str:
    """Return text on one line, cut to `width`.

    >>> one_line("SELECT\\n  1", 6)
    'SELEC…'
    """
    line = shown(" ".join(text.split()), None)
    return line if width is None or len(line) <= width else line[: max(width - 1, 1)] + "…"


def label_lines(lines: list[tuple[str, str]], wrap: int | None = None) -> str:
    """Return (label, text) lines, the labels dim, in a column of their own; a text may have lines.

    Nothing in them is hidden. With `wrap`, texts are broken at words to be that many columns wide
    at most, labels and all.

    >>> print(label_lines([("a", "one"), ("bcd", "two")]))
    \x1b[2ma    \x1b[0mone
    \x1b[2mbcd  \x1b[0mtwo
    """
    width = max(len(label) for label, _ in lines) + 2
    margin = "\n" + " " * width

    def broken(text: str) -> list[str]:
        return textwrap.wrap(text, max(wrap - width, 20)) if wrap else [text]

    return "\n".join(
        click.style(shown(label, None).ljust(width), dim=True)
        + margin.join(part for line in text.split("\n") for part in broken(shown(line, None)))
        for label, text in lines
    )


# -- words about a guarantee, in pictures and by commands ------------------------------------------

NOT_PRIVATE = "NOT PRIVATE: the noise comes from a seed, so anyone can take it off again."
HOLE = "A HOLE IN THE GUARANTEE: the store was opened without a part of it."
LOUD = (NOT_PRIVATE, HOLE)
"""Words that nobody may overlook."""
CURATOR = (
    "For the curator of this data only; it is no release, and nothing of it may be shown to an "
    "analyst."
)


def guarantee(budget: Budget, unit: str = "") -> str:
    """Return the guarantee of a store for a chart; `unit`: for whom, if not for a person."""
    return (
        f"{budget.promise} (epsilon {upper(budget.epsilon(DELTA))} at delta "
        f"{DELTA_TEXT}){f' for {unit}' if unit else ''}"
    )
