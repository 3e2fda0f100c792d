"""Numbers as text, with as many digits as their error bound allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


MISSING = "–"
PLUS_MINUS = " ± "
_MOST_DECIMALS, _LARGEST = 12, 1e15


def format_number(value: float, digits: int) -> str:
    """Return `value` with thousands separators and `digits` decimals; below 0, rounded to tens etc.

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
    """Return the number of decimals that shows an error bound with two significant digits.

    >>> digits_for(0.0123), digits_for(6.3), digits_for(46), digits_for(4612)
    (3, 1, 0, -2)
    """
    if not math.isfinite(bound) or bound <= 0:
        return 0
    digits = max(min(1 - math.floor(math.log10(bound)), 300), -300)
    # 9.96 becomes 10, not 10.0: one digit less if rounding up carries over.
    return digits - 1 if _up(bound, digits) >= 10.0 ** (2 - digits) else digits


def format_with_bound(value: float, bound: float) -> str:
    """Return `value ± bound`, both with the bound's two significant digits.

    The bound is rounded up, so that the shown number is still a bound.

    >>> format_with_bound(1234.567, 12.3), format_with_bound(0.5, 0.01234)
    ('1,235 ± 13', '0.500 ± 0.013')
    """
    digits = digits_for(bound)
    return f"{format_number(value, digits)}{PLUS_MINUS}{format_bound(bound)}"


Ends = tuple[float | None, float | None, float | None]
"""A value, and the ends of its interval; None: not known."""
_EVEN = 1.1  # largest ratio of an interval's longer side to its shorter one


def interval_texts(rows: Sequence[Ends], whole: bool = False) -> list[str]:
    """Return values with their intervals: `28 ± 3`, or `28 (21–43)` for uneven intervals.

    All are written with ± if the two sides of each interval are equally long, up to a tenth; ± is
    the longer side. `whole` numbers have no decimals.

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
    """Return an error bound with two significant digits, rounded up.

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
    """Return `bound` rounded up to `digits` decimals, ignoring the last bits of a float."""
    unit = 10.0**-digits
    return math.ceil(bound / unit * (1 - 1e-12)) * unit if math.isfinite(bound) else bound
