"""The frame of a window: rows, ranges and distances."""

from __future__ import annotations

from sqlglot import exp

from sparseq.language.expression_tree import Term
from sparseq.language.types import Family
from sparseq.sql.parse import said
from sparseq.sql.scope import refuse

MAX_OFFSET = 1_000_000
_UNITS = {
    "YEAR": 100,
    "QUARTER": 400,
    "MONTH": 1_200,
    "WEEK": 5_200,
    "DAY": 36_500,
    "HOUR": 876_000,
    "MINUTE": 52_560_000,
    "SECOND": 3_153_600_000,
}
"""The units of distances, with the maximum of each: one hundred years."""
_KEYS = {
    Family.DATE: "CASE WHEN {0} < DATE '0001-01-01' THEN DATE '0001-01-01' "
    "WHEN {0} > DATE '9999-12-31' THEN DATE '9999-12-31' ELSE {0} END",
    Family.TIMESTAMP: "CASE WHEN {0} < TIMESTAMP '0001-01-01' THEN TIMESTAMP '0001-01-01' "
    "WHEN {0} > TIMESTAMP '9999-12-31 23:59:59.999999' THEN TIMESTAMP '9999-12-31 23:59:59.999999' "
    "ELSE {0} END",
    Family.INTEGER: "CAST({0} AS HUGEINT)",
    Family.DOUBLE: "{0}",
}
"""SQL of the order key by type, from which no distance causes an overflow."""


def has_offsets(spec: exp.Expr | None) -> bool:
    """Tell whether a frame starts or ends at an offset of rows, groups or distance."""
    return spec is not None and any(
        isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end")
    )


def distance_key(spec: exp.Expr, terms: list[Term]) -> str:
    """Return SQL of the order key of a frame by distance; no offset from it can overflow."""
    if len(terms) != 1 or terms[0].type.family not in _KEYS:
        refuse(
            f"{said(spec)}: a distance is in one date, time or number",
            "order by one column, or use ROWS n PRECEDING",
        )
    return _KEYS[terms[0].type.family].format(f"({terms[0].sql})")


def frame(spec: exp.Expr | None, family: Family | None = None) -> str:
    """Return a frame as SQL.

    Args:
        spec: The frame; None if there is none.
        family: The family of the key that a frame by distance is ordered by.
    """
    if spec is None:
        return ""
    kind = (spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE", "GROUPS") or spec.args.get("exclude"):
        refuse(f"{said(spec)}: this frame is not answered", "use ROWS n PRECEDING")
    ends = []
    for name in ("start", "end"):
        value, side = spec.args.get(name), spec.args.get(f"{name}_side") or ""
        if isinstance(value, exp.Expr):
            value = _distance(value, family) if kind == "RANGE" else str(whole(value, MAX_OFFSET))
        ends.append(f"{value} {side}".strip() if value else "CURRENT ROW")
    return f" {kind} BETWEEN {ends[0]} AND {ends[1]}"


def _distance(e: exp.Expr, family: Family | None) -> str:
    """Return a distance as SQL: an interval of one unit, or a number."""
    if family not in (Family.DATE, Family.TIMESTAMP):
        number = e.name if isinstance(e, exp.Literal) and not e.is_string else ""
        if family is Family.INTEGER or number.isdecimal():
            return f"{whole(e, 10**15)}::{'HUGEINT' if family is Family.INTEGER else 'DOUBLE'}"
        if not number or not 0 <= float(number) <= 1e15:
            refuse(f"{said(e)} is no distance between numbers", "write a number from 0 to 1e15")
        return f"{float(number)!r}::DOUBLE"
    unit = e.args.get("unit") if isinstance(e, exp.Interval) else None
    name = unit.name.upper().removesuffix("S") if unit is not None else ""
    if name not in _UNITS or not isinstance(e.this, exp.Literal):
        refuse(f"{said(e)} is no distance in time", "write it as INTERVAL 7 DAY")
    many = whole(exp.Literal.number(e.this.name), _UNITS[name])
    return f"INTERVAL '{many}' {name}"


def whole(e: exp.Expr, most: int) -> int:
    """Return a literal as an integer in 0..most."""
    if not isinstance(e, exp.Literal) or e.is_string or not e.this.isdecimal():
        refuse(f"{said(e)} must be a whole number", "write the number itself")
    if len(e.this) > 18 or int(e.this) > most:
        refuse(f"{said(e)[:30]} is too large here", f"at most {most:,}")
    return int(e.this)
