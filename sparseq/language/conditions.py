"""The sense of one condition of a WHERE: which values an expression has, or which limits.

One reading of a condition: the values of an expression, instants above all, that it lets pass.

A condition is read into two sets of each expression that it is about: the values with which it may
be true, and those with which it may be false; with all others it is NULL. The sets are exact, or
too large: "not known" is every value. So whatever is free, apart or skipped because a set is small
is so for every row. Windows of accounts, the days and moments that a WHERE allows, answers from
answers and rows that are read ahead all ask here.

**Why it is exact.** A truncation, a year, a cast, a shift f is a function of one expression from
places to places (`sparseq.language.value_sets`) that never falls (or never rises). The values with
which f(x) lies in a span [a, b] are then those from the first x with f(x) >= a up to the one before
the first with f(x) >= b + 1, where places are whole numbers and f is computed in Python's, which
have no end. A set's inverse is that of its spans; NULL's is NULL, and what f has no value for. NOT
swaps the two sets; AND is true in what all have in common and false in what any has; OR the other
way round: Kleene's three-valued truth. By induction over the condition, the sets are exact if it is
about one expression and all functions above it are known, and contain the exact sets otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparseq.language.expression_tree import Term, constant
from sparseq.language.types import BOOLEAN, Family
from sparseq.language.value_sets import (
    DAY,
    FINER,
    UNITS,
    Spans,
    Texts,
    Values,
    common,
    image,
    is_within,
    nothing,
    place_of,
    step_of,
    union,
)

# -- one reading of a condition --------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """The values of an expression with which a condition may be true, and may be false."""

    of: Term
    true: Values
    false: Values


@dataclass(frozen=True)
class TruthSets:
    """Sets of values that a condition says expressions to have.

    Attributes:
        said: By their SQL. Of all others nothing is said: they may have any value.
        exact: It is about one, and the condition is true, or false, with just these values.
    """

    said: Mapping[str, Said]
    exact: bool = False


_NOT_KNOWN = TruthSets({})
FLIPPED = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "IS DISTINCT FROM": "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM": "IS NOT DISTINCT FROM",
}


def read(condition: Term) -> TruthSets:
    """Return what a condition says.

    Example:
        >>> from sparseq.language.expression_tree import call, column, constant
        >>> from sparseq.language.types import BIGINT, BOOLEAN
        >>> n = column("n", BIGINT)
        >>> few = call("<", "({0} < {1})", BOOLEAN, n, constant(5, BIGINT))
        >>> read(few).said["n"].true.known
        Spans(spans=((-inf, 4),))
    """
    arguments = condition.arguments
    match condition.function:
        case "not":
            return _each(read(arguments[0]), lambda s: (s.false, s.true))
        case "is true" | "is false":
            return _is(read(arguments[0]), condition.function == "is true")
        case "and" | "or":
            parts = _flat(condition)
            constants = [p.value for p in parts if p.constant]
            return _together(
                condition.function, [read(p) for p in parts if not p.constant], constants
            )
        case "between":
            value, low, *other, high = arguments
            if other:
                return _together(
                    "and", (_compare(">=", value, low), _compare("<=", other[0], high))
                )
            return _both("and", value, [_decide(">=", value, low), _decide("<=", value, high)])
        case "in":
            return _is_among(arguments[0], arguments[1:])
        case "is null":
            null = place_of(arguments[0].type, None)
            return _NOT_KNOWN if null is None else _about(arguments[0], null, null.others())
        case operator if operator in FLIPPED and len(arguments) == 2:
            left, right = arguments
            if left.constant:
                return _compare(FLIPPED[operator], right, left)
            return _compare(operator, left, right)
    is_truth = condition.type.family is Family.BOOLEAN and not condition.constant
    if is_truth and (not condition.function or step_of(condition) is not None):
        return _compare("=", condition, constant(True, BOOLEAN))
    return _NOT_KNOWN


_LOGIC = {"not", "is true", "is false", "and", "or", "between", "in", "is null", *FLIPPED}


def values_where(conditions: Iterable[Term], of: Term) -> Values | None:
    """Return the values that an expression may have where all conditions are true.

    None: its type has no order. The expression has no functions above it that are known.
    """
    none = nothing(of.type)
    if none is None:
        return None
    said = (read(condition).said.get(of.sql) for condition in conditions)
    return common([none.others(), *(s.true for s in said if s is not None)])


def values_of_any(term: Term, conditions: Sequence[Term]) -> Values | None:
    """Return the values that any expression may have where all conditions are true; None: any."""
    return image(term, lambda of: values_where(conditions, of))


def _each(reading: TruthSets, swap: Callable[[Said], tuple[Values, Values]]) -> TruthSets:
    said = {sql: Said(s.of, *swap(s)) for sql, s in reading.said.items()}
    return TruthSets(said, reading.exact)


def _is(reading: TruthSets, truth: bool) -> TruthSets:
    """Return what IS TRUE, or IS FALSE, of a condition says: of NULL too it is false."""

    def of(s: Said) -> tuple[Values, Values]:
        true = s.true if truth else s.false
        return true, true.others() if reading.exact else true.either(true.others())

    return _each(reading, of)


def _flat(condition: Term) -> list[Term]:
    """Return the parts of AND in AND, or of OR in OR."""
    pending, found = [condition], list[Term]()
    while pending:
        term = pending.pop()
        if term.function == condition.function:
            pending += reversed(term.arguments)
        else:
            found.append(term)
    return found


def _together(name: str, parts: Sequence[TruthSets], constants: Sequence[Any] = ()) -> TruthSets:
    """Return what AND or OR of conditions and of constant truths says."""
    found: dict[str, list[Said]] = {}
    for part in parts:
        for sql, said in part.said.items():
            found.setdefault(sql, []).append(said)
    of_true, of_false = (common, union) if name == "and" else (union, common)
    together = {}
    for sql, known in found.items():
        of, every = known[0].of, known[0].true.either(known[0].true.others())
        more = [(every, every)] if len(known) < len(parts) else []
        none = every.others()
        more += [(every if c is True else none, every if c is False else none) for c in constants]
        together[sql] = Said(
            of,
            of_true([*(s.true for s in known), *(true for true, _ in more)]),
            of_false([*(s.false for s in known), *(false for _, false in more)]),
        )
    return TruthSets(together, len(found) == 1 and all(part.exact for part in parts))


def _compare(operator: str, subject: Term, value: Term) -> TruthSets:
    """Return what a comparison with a constant says."""
    return _both("and", subject, [_decide(operator, subject, value)])


def _both(name: str, subject: Term, decided: Sequence[tuple[Values, Values] | None]) -> TruthSets:
    """Return what AND or OR of comparisons of one thing says; it is read once, however deep."""
    known = [sets for sets in decided if sets is not None]
    if not known:
        return _NOT_KNOWN
    of_true, of_false = (common, union) if name == "and" else (union, common)
    said = _about(subject, of_true([t for t, _ in known]), of_false([f for _, f in known]))
    rest = [_NOT_KNOWN] * (len(decided) - len(known))
    return _together(name, [said, *rest]) if rest else said


def _decide(operator: str, subject: Term, value: Term) -> tuple[Values, Values] | None:
    """Return where a comparison is true and where false; of NULL it is neither. None: not known."""
    none = nothing(subject.type)
    written = value.is_written and value.type.stored != "FLOAT" and not subject.constant
    place = place_of(subject.type, value.value) if written else None
    if none is None or place is None:
        return None
    if operator.startswith("IS "):
        same = operator == "IS NOT DISTINCT FROM"
        return (place, place.others()) if same else (place.others(), place)
    if place.null:
        return none, none
    if isinstance(place.known, Spans):
        ((at, _),) = place.known.spans
        known: Spans | Texts = Spans.of(
            {
                "=": [(at, at)],
                "<>": [(-math.inf, at - 1), (at + 1, math.inf)],
                "<": [(-math.inf, at - 1)],
                "<=": [(-math.inf, at)],
                ">": [(at + 1, math.inf)],
                ">=": [(at, math.inf)],
            }[operator]
        )
    elif operator in ("=", "<>"):
        known = place.known if operator == "=" else place.known.others()
    else:
        return None
    return Values(known), Values(known.others())


def _is_among(subject: Term, listed: Sequence[Term]) -> TruthSets:
    """Return what IN says of a list: with NULL in it, it is never false."""
    known = all(t.is_written and t.type.stored != "FLOAT" for t in listed) and not subject.constant
    places = [place_of(subject.type, t.value) for t in listed] if known else [None]
    found = [place for place in places if place is not None]
    if len(found) < len(places):
        return _both("or", subject, [_decide("=", subject, value) for value in listed])
    values = union(found)
    return _about(
        subject,
        Values(values.known),
        values.both(values.others()) if values.null else replace(values.others(), null=False),
    )


def _about(subject: Term, true: Values, false: Values) -> TruthSets:
    """Return what a condition says of the innermost expression that decides it."""
    while (step := step_of(subject)) is not None:
        inner = step.inverse(true), step.inverse(false)
        if inner[0] is None or inner[1] is None:
            break
        subject, true, false = step.of, inner[0], inner[1]
    if subject.type.family is Family.BOOLEAN and subject.function in _LOGIC:
        reading = read(subject)
        if reading.exact:
            return _each(reading, lambda s: (_through(s, true), _through(s, false)))
    return TruthSets({subject.sql: Said(subject, true, false)}, True)


def _through(said: Said, truths: Values) -> Values:
    """Return the values with which a condition has one of some truths."""
    assert isinstance(truths.known, Spans)
    chosen = [said.true] if 1 in truths.known else []
    chosen += [said.false] if 0 in truths.known else []
    chosen += [said.true.either(said.false).others()] if truths.null else []
    return union([said.true.both(said.true.others()), *chosen])


# -- stretches of time -----------------------------------------------------------------------------


def cells(term: Term, of: Term) -> str:
    """Return a unit of time of which each value of a term is about one alone; "": there is none.

    So rows of one value are of one month, say. Each term below keeps its argument's stretch, and
    tells which it is; what shifts a time does not, nor does a clock alone.

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
    """Return the unit of a time that decides the value of a term; "": it may be finer.

    Args:
        term: An expression.
        of: A column of timestamps in it.
        zone: Returns the unit at whose ends alone clocks of a zone are changed, and by which they
            differ from others; "": it is not known.
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
        shift = "year" if _is_same(of, a) else _shift_of(a, of, zone)
        known = shift and own in FINER["year"]
        units.append(finest([own, shift]) if known else fineness(a, of, zone))
    return finest(units)


def finest(units: Sequence[str]) -> str:
    """Return the finest of some units; "": one is not known, or there is none."""
    return "" if "" in units else min(units, key=FINER["year"].index, default="")


def _shift_of(term: Term, of: Term, zone: Callable[[str], str]) -> str:
    """Return the unit whose stretches stay whole in a time plus a constant, or by another clock.

    "": it is neither.
    """
    name, _, unit = term.function.partition(" ")
    if name == "timezone" and _is_same(of, term.arguments[0]):
        return zone(str(term.arguments[1].value))
    plain = name in ("+", "-") and len(term.arguments) == 2 and term.arguments[1].constant
    if not plain or unit not in FINER["year"] or not _is_same(of, term.arguments[0]):
        return ""
    return finest([unit, "day"])


def _is_of_seconds(term: Term, of: Term) -> bool:
    """Tell whether a term is epoch(of), divided by whole numbers or not.

    Its floor never falls, is exact at whole seconds, and grows by at most 1 from one to the next.
    So between two of them it has the value of one or the other, and after the last one within a
    range that of it or of the range's end, whatever the divisions round.
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
    """Tell whether a term is a column, maybe as a timestamp."""
    if term.function in ("cast to TIMESTAMP", "in range"):
        return _is_same(of, term.arguments[0])
    return term.sql == of.sql


def _format(form: str) -> str:
    """Return the unit of the finest code in a format such as '%Y-%m'."""
    codes = [b[0] if b[0] != "-" else b[1:2] for b in form.split("%")[1:] if b]
    units = [_CODES.get(code, "") for code in codes]
    return "" if "" in units else min(units, key=FINER["year"].index, default="day")
