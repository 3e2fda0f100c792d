"""Values of the two forms that most constants of a query have, without a look at DuckDB.

A literal day is what ISO 8601 says. A literal decimal of at most 15 digits is n / 10**s with n and
10**s below 2**53, both exact as a DOUBLE: DuckDB's quotient of them is the DOUBLE nearest to it, as
is Python's `float` of its text. All other constants are DuckDB's to compute.
"""

from __future__ import annotations

import datetime as dt
import re

MOST_DIGITS = 15
_DECIMAL = re.compile(
    r"CAST\(CAST\('(-?)(\d+)(?:\.(\d+))?' AS DECIMAL\((\d+), (\d+)\)\) AS DOUBLE\)"
)
_DAY = re.compile(
    r"CASE WHEN TRY_CAST\('(\d{4}-\d\d-\d\d)' AS DATE\) BETWEEN DATE '0001-01-01' AND "
    r"DATE '9999-12-31' THEN TRY_CAST\('\1' AS DATE\) END"
)


def plain_value(sql: str) -> float | dt.date | None:
    """Return the value of a constant expression, None if it has another form or no value.

    Example:
        >>> plain_value("CAST(CAST('1.50' AS DECIMAL(3, 2)) AS DOUBLE)")
        1.5
    """
    if found := _DECIMAL.fullmatch(sql):
        sign, whole, part = found[1], found[2].lstrip("0"), found[3] or ""
        width, scale = int(found[4]), int(found[5])
        fits = len(part) <= scale and len(whole) <= width - scale
        if not fits or len(whole) + scale > MOST_DIGITS:
            return None
        return float(f"{sign}{whole or '0'}.{part or '0'}") or 0.0  # a decimal has no negative zero
    if found := _DAY.fullmatch(sql):
        try:
            return dt.date.fromisoformat(found[1])
        except ValueError:
            return None
    return None
