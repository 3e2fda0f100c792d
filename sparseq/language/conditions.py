"""Reading of conditions: the values of an expression, above all instants, that a condition admits.

A condition gives two sets for each expression that it constrains: the values for which it may be
true, and those for which it may be false; for all others it is NULL. The sets are exact, or too
large: "unknown" is every value. So any saving that relies on a small set is valid for every row.
The windows of accounts, the days and moments that a WHERE allows, answers derived from answers, and
rows that are read ahead all use this module.

**Exactness.** A truncation, a year, a cast or a shift f is a function of one expression from places
to places (`sparseq.language.monotone_functions`) that is monotone. For increasing f, f(x) lies in a
span [a, b] for exactly the x from the first with f(x) >= a up to the one before the first with f(x)
>= b + 1, if places are integers and f is computed in Python's unbounded integers. The inverse of a
set is the union of the inverses of its spans; the inverse of NULL is NULL, and every value for
which f is NULL. NOT swaps the two sets; AND is true on the intersection of the true sets and false
on the union of the false sets; OR is the dual: Kleene's three-valued logic. By induction over the
condition, the sets are exact if it constrains one expression and all functions above it are known;
otherwise they contain the exact sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparseq.language.expression_tree import Term, constant
from sparseq.language.monotone_functions import image, step_of
from sparseq.language.types import BOOLEAN, Family
from sparseq.language.value_sets import Spans, Texts, Values, common, nothing, place_of, union


@dataclass(frozen=True)
class Said:
    """The values of an expression that allow a condition to be true, and those that allow false."""

    of: Term
    true: Values
    false: Values


@dataclass(frozen=True)
class TruthSets:
    """The sets of values that a condition allows for expressions.

    Attributes:
        said: The sets, by the expressions' SQL. All other expressions may have any value.
        exact: There is one expression, and the sets are exact.
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
    """Return the sets of a condition.

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

    Returns None if its type has no order. The expression must not be a known function of another
    one.
    """
    none = nothing(of.type)
    if none is None:
        return None
    said = (read(condition).said.get(of.sql) for condition in conditions)
    return common([none.others(), *(s.true for s in said if s is not None)])


def values_of_any(term: Term, conditions: Sequence[Term]) -> Values | None:
    """Return the values that any expression may have where all conditions are true; None if any."""
    return image(term, lambda of: values_where(conditions, of))


def _each(reading: TruthSets, swap: Callable[[Said], tuple[Values, Values]]) -> TruthSets:
    said = {sql: Said(s.of, *swap(s)) for sql, s in reading.said.items()}
    return TruthSets(said, reading.exact)


def _is(reading: TruthSets, truth: bool) -> TruthSets:
    """Return the sets of IS TRUE, or IS FALSE, of a condition: for NULL it is false."""

    def of(s: Said) -> tuple[Values, Values]:
        true = s.true if truth else s.false
        return true, true.others() if reading.exact else true.either(true.others())

    return _each(reading, of)


def _flat(condition: Term) -> list[Term]:
    """Return the operands of nested ANDs, or of nested ORs."""
    pending, found = [condition], list[Term]()
    while pending:
        term = pending.pop()
        if term.function == condition.function:
            pending += reversed(term.arguments)
        else:
            found.append(term)
    return found


def _together(name: str, parts: Sequence[TruthSets], constants: Sequence[Any] = ()) -> TruthSets:
    """Return the sets of AND or OR over conditions and constant truth values."""
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
    """Return the sets of a comparison with a constant."""
    return _both("and", subject, [_decide(operator, subject, value)])


def _both(name: str, subject: Term, decided: Sequence[tuple[Values, Values] | None]) -> TruthSets:
    """Return the sets of AND or OR over comparisons of one expression, which is bound once."""
    known = [sets for sets in decided if sets is not None]
    if not known:
        return _NOT_KNOWN
    of_true, of_false = (common, union) if name == "and" else (union, common)
    said = _about(subject, of_true([t for t, _ in known]), of_false([f for _, f in known]))
    rest = [_NOT_KNOWN] * (len(decided) - len(known))
    return _together(name, [said, *rest]) if rest else said


def _decide(operator: str, subject: Term, value: Term) -> tuple[Values, Values] | None:
    """Return where a comparison is true and where false (NULL is in neither); None if unknown."""
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
    """Return the sets of IN over a list: if the list contains NULL, it is never false."""
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
    """Return the sets of a condition for the innermost expression that decides it."""
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
    """Return the values for which a condition has one of some truth values."""
    assert isinstance(truths.known, Spans)
    chosen = [said.true] if 1 in truths.known else []
    chosen += [said.false] if 0 in truths.known else []
    chosen += [said.true.either(said.false).others()] if truths.null else []
    return union([said.true.both(said.true.others()), *chosen])
