"""Time buckets implied by formatted or truncated times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparseq.language.calendar import DAY, FINER, UNITS, is_within
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family


def cells(term: Term, of: Term) -> str:
    """Return a unit of time such that each value of a term lies in one bucket; "" if none.

    So rows that share a value are, say, of one month. Each function here keeps its argument's
    bucket and identifies it; a function that shifts a time does not, nor does a time of day alone.

    Args:
        term: Any expression.
        of: A column of dates or timestamps.
    """
    if term.sql == of.sql:
        return "microsecond"
    free = [a for a in term.arguments if not a.constant]
    if len(free) != 1 or not free[0].type.is_time:
        return ""
    inner, (name, _, rest) = cells(free[0], of), term.function.partition(" ")
    match name:
        case "cast" if term.type.is_time:
            own = "day" if term.type.family is Family.DATE else "microsecond"
        case "date_trunc" if rest in UNITS:
            own = rest
        case "date_diff" if rest in UNITS and rest != "week":
            own = rest
        case "year":
            own = "year"
        case "last_day":
            own = "month"
        case "time_bucket":
            number, unit = rest.split(" ")
            length = UNITS[unit].length * int(number) if unit in UNITS else 0
            own = unit if number == "1" else "day" if length and DAY % length == 0 else ""
        case _:
            return ""
    if not inner or not own:
        return ""
    return own if is_within(inner, own) else inner if is_within(own, inner) else ""


_PARTS = {
    **dict.fromkeys(
        (
            "year",
            "isoyear",
            "quarter",
            "month",
            "week",
            "day",
            "dow",
            "isodow",
            "doy",
            "last_day",
            "dayname",
            "monthname",
        ),
        "day",
    ),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
_CODES = {
    **dict.fromkeys("aAwdbBmyYjUWVGuxD%-", "day"),
    **dict.fromkeys("HIp", "hour"),
    "M": "minute",
    "S": "second",
}


def fineness(term: Term, of: Term, zone: Callable[[str], str] = lambda _: "") -> str:
    """Return the unit of time that determines a term's value; "" if it may depend on finer time.

    Args:
        term: An expression.
        of: A column of timestamps in it.
        zone: Returns a unit of time such that a zone's clocks change only at its ends, and differ
            from other clocks by multiples of it; "" if unknown.
    """
    if not _is_in(of, term):
        return "day"
    if term.function == "floor" and _is_of_seconds(term.arguments[0], of):
        return "second"
    name, _, rest = term.function.partition(" ")
    own = _PARTS.get(name, "")
    match name:
        case "cast" if rest == "to DATE":
            own = "day"
        case "date_trunc" | "date_diff" if rest in UNITS:
            own = rest
        case "time_bucket":
            own = rest.split(" ")[1]
        case "strftime":
            own = _format(str(term.arguments[1].value))
    own = "day" if own in UNITS and not is_within(own, "hour") else own
    units = []
    for a in term.arguments:
        if (start := _truncated(a, of)) and own in FINER["year"]:
            units.append(own if is_within(start, own) else start)
            continue
        shift = "year" if _is_same(of, a) else _shift_of(a, of, zone)
        known = shift and own in FINER["year"]
        units.append(finest([own, shift]) if known else fineness(a, of, zone))
    return finest(units)


def finest(units: Sequence[str]) -> str:
    """Return the finest of some units; "" if one is unknown, or there are none."""
    return "" if "" in units else min(units, key=FINER["year"].index, default="")


def _truncated(term: Term, of: Term) -> str:
    """Return the unit to whose start a term truncates a column, at most a day; "" if it does not.

    A function of truncated times whose stretches hold whole units depends on these stretches alone.
    """
    if term.function in ("cast to TIMESTAMP", "in range"):
        return _truncated(term.arguments[0], of)
    name, _, unit = term.function.partition(" ")
    if name != "date_trunc" or unit not in UNITS:
        return ""
    own = unit if is_within(unit, "hour") else "day"
    if _is_same(of, term.arguments[0]):
        return own
    inner = _truncated(term.arguments[0], of)
    return inner and (own if is_within(inner, own) else inner)


def _shift_of(term: Term, of: Term, zone: Callable[[str], str]) -> str:
    """Return the unit whose buckets stay whole in a time plus a constant, or in another zone.

    Returns "" for other terms.
    """
    name, _, unit = term.function.partition(" ")
    if name == "timezone" and _is_same(of, term.arguments[0]):
        return zone(str(term.arguments[1].value))
    plain = name in ("+", "-") and len(term.arguments) == 2 and term.arguments[1].constant
    if not plain or unit not in FINER["year"] or not _is_same(of, term.arguments[0]):
        return ""
    return finest([unit, "day"])


def _is_of_seconds(term: Term, of: Term) -> bool:
    """Tell whether a term is epoch(of), optionally divided by integers.

    Its floor is monotone, exact at whole seconds, and grows by at most 1 from one second to the
    next. So between two seconds it has the value at one end, and after the last second of a range
    the value at this second or at the range's end, whatever the divisions round.
    """
    while term.function == "/" and term.arguments[1].is_written:
        by = term.arguments[1].value
        if not isinstance(by, (int, float)) or by < 1 or by % 1:
            return False
        term = term.arguments[0]
    return term.function == "epoch" and _is_same(of, term.arguments[0])


def _is_in(of: Term, term: Term) -> bool:
    return term.sql == of.sql or any(_is_in(of, a) for a in term.arguments)


def _is_same(of: Term, term: Term) -> bool:
    """Tell whether a term is a column, possibly cast to a timestamp."""
    if term.function in ("cast to TIMESTAMP", "in range"):
        return _is_same(of, term.arguments[0])
    return term.sql == of.sql


def _format(form: str) -> str:
    """Return the unit of the finest code in a format such as '%Y-%m'."""
    codes = [b[0] if b[0] != "-" else b[1:2] for b in form.split("%")[1:] if b]
    units = [_CODES.get(code, "") for code in codes]
    return "" if "" in units else min(units, key=FINER["year"].index, default="day")
