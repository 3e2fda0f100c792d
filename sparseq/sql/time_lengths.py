"""Lengths of time in their various notations, as intervals of one number and one unit each."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

_UNITS = {
    **dict.fromkeys(["y", "yr", "yrs", "year", "years"], ("MONTH", 12)),
    **dict.fromkeys(["quarter", "quarters"], ("MONTH", 3)),
    **dict.fromkeys(["mon", "mons", "month", "months"], ("MONTH", 1)),
    **dict.fromkeys(["w", "week", "weeks"], ("DAY", 7)),
    **dict.fromkeys(["d", "day", "days"], ("DAY", 1)),
    **dict.fromkeys(["h", "hr", "hrs", "hour", "hours"], ("SECOND", 3600)),
    **dict.fromkeys(["m", "min", "mins", "minute", "minutes"], ("SECOND", 60)),
    **dict.fromkeys(["s", "sec", "secs", "second", "seconds"], ("SECOND", 1)),
}
_PART = re.compile(r"\s*([+-]?\d{1,9}(?:\.\d{1,6})?)\s*([A-Za-z]+)")
_CLOCK = re.compile(r"\s*([+-]?)(\d{1,9}):(\d{2})(?::(\d{2}))?\s*")
ONE_UNIT = re.compile(r"\s*-?\d+(\.\d+)?\s*[A-Za-z]+\s*")
"""A text of one number and one unit."""
_ISO = re.compile(
    r"P(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?"
)
_DAY, _MONTH_DAYS = 86_400, 30
Length = dict[str, int]
"""Numbers of months, days and seconds, which are added to a time in this order."""


def length_of_text(text: str) -> Length | None:
    """Return the length that a text denotes; None if it is no whole number of seconds.

    Example:
        >>> length_of_text("1 week 2 days 03:00:00"), length_of_text("7 days ago")
        ({'DAY': 9, 'SECOND': 10800}, {'DAY': -7})
        >>> length_of_text("1.5 days"), length_of_text("a while")
        ({'DAY': 1, 'SECOND': 43200}, None)
        >>> length_of_text("P1DT2H")
        {'DAY': 1, 'SECOND': 7200}
    """
    if iso := _ISO.fullmatch(text):
        text = " ".join(f"{n} {unit}" for unit, n in iso.groupdict().items() if n is not None)
    found: dict[str, Fraction] = {}
    at, sign = 0, -1 if re.search(r"\bago\s*$", text, re.IGNORECASE) else 1
    text = re.sub(r"\bago\s*$", "", text, flags=re.IGNORECASE).rstrip()
    while at < len(text) and (part := _PART.match(text, at)):
        if part[2].lower() not in _UNITS:
            return None
        unit, size = _UNITS[part[2].lower()]
        found[unit] = found.get(unit, Fraction(0)) + Fraction(part[1]) * size
        at = part.end()
    if at < len(text) and (clock := _CLOCK.fullmatch(text, at)):
        seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4] or 0)
        seconds = -seconds if clock[1] == "-" else seconds
        found["SECOND"] = found.get("SECOND", Fraction(0)) + seconds
        at = len(text)
    if at < len(text) or not found or found.get("MONTH", Fraction(0)) % 1:
        return None
    days = found.get("DAY", Fraction(0))
    whole = int(days)
    if days != whole:
        found["DAY"] = Fraction(whole)
        found["SECOND"] = found.get("SECOND", Fraction(0)) + (days - whole) * _DAY
    if found.get("SECOND", Fraction(0)) % 1:
        return None
    order = ("MONTH", "DAY", "SECOND")
    return {unit: sign * int(found[unit]) for unit in order if unit in found}


def lengths(e: exp.Expr) -> list[exp.Interval] | None:
    """Return an expression as a sequence of intervals of one unit each; None if it is no length.

    Example:
        >>> from sqlglot import parse_one
        >>> [i.sql("duckdb") for i in lengths(parse_one("'1 day 02:00:00'::interval"))]
        ["INTERVAL '1' DAY", "INTERVAL '7200' SECOND"]
    """
    if isinstance(e, exp.Paren):
        return lengths(e.this)
    if isinstance(e, exp.Interval):
        if e.args.get("unit") is None:
            return _of_text(e.this.name) if e.this.is_string else None
        fraction = e.this.is_string and "." in e.this.name
        return _of_text(f"{e.this.name} {e.args['unit'].name}") if fraction else [e]
    if isinstance(e, exp.Cast) and e.to.is_type(exp.DataType.Type.INTERVAL):
        return _of_cast(e.this.unnest())
    if isinstance(e, exp.Neg):
        inner = lengths(e.this)
        return None if inner is None else [_times(i, exp.Literal.number(-1)) for i in inner]
    if isinstance(e, exp.Mul):
        for length, number in ((e.this, e.expression), (e.expression, e.this)):
            if (inner := lengths(length)) is not None:
                return [_times(i, number) for i in inner]
    if isinstance(e, exp.Add):
        both = lengths(e.this), lengths(e.expression)
        return None if both[0] is None or both[1] is None else [*both[0], *both[1]]
    if isinstance(e, exp.MakeInterval):
        return _of_words(e)
    return None


def _of_text(text: str) -> list[exp.Interval] | None:
    length = length_of_text(text)
    return None if length is None else [_interval(n, unit) for unit, n in length.items()]


def _interval(number: int, unit: str) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(number)), unit=exp.Var(this=unit))


def _of_cast(e: exp.Expr) -> list[exp.Interval] | None:
    """Return the intervals of a cast text: a constant, or a number with its unit."""
    if e.is_string:
        return _of_text(e.name)
    if not isinstance(e, exp.DPipe) or not e.expression.is_string:
        return None
    word = e.expression.name.strip().lower()
    if word not in _UNITS or not e.expression.name[:1].isspace():
        return None
    unit, size = _UNITS[word]
    return [_times(_interval(size, unit), e.this.copy())]


def _of_words(e: exp.MakeInterval) -> list[exp.Interval] | None:
    """Return the intervals of make_interval(days => 7)."""
    found = []
    for word in e.args.values():
        if not isinstance(word, exp.Kwarg) or word.this.name.lower() not in _UNITS:
            return None
        unit, size = _UNITS[word.this.name.lower()]
        found.append(_times(_interval(size, unit), word.expression.copy()))
    return sorted(found, key=lambda i: ("MONTH", "DAY", "SECOND").index(i.args["unit"].name))


def _times(interval: exp.Interval, number: exp.Expr) -> exp.Interval:
    """Return an interval multiplied by a number."""
    own, plain = interval.this, number.unnest()
    factor = plain.this if isinstance(plain, exp.Neg) else plain
    written = own.is_string and re.fullmatch(r"-?\d+", own.name) is not None
    if written and isinstance(factor, exp.Literal) and factor.name.isdecimal():
        by = int(factor.name) * (-1 if factor is not plain else 1)
        return exp.Interval(
            this=exp.Literal.string(str(int(own.name) * by)), unit=interval.args["unit"].copy()
        )
    amount = exp.Literal.number(own.name) if written else exp.paren(own.unnest().copy())
    product = number.copy()
    if amount.name != "1":
        product = exp.Mul(this=amount, expression=exp.paren(product))
    return exp.Interval(this=exp.paren(product), unit=interval.args["unit"].copy())


def moved(e: exp.Add | exp.Sub) -> exp.Expr:
    """Return a time plus or minus a length, with one addition or subtraction per unit.

    Example:
        >>> from sqlglot import parse_one
        >>> moved(parse_one("x - (7 || ' days')::interval", dialect="duckdb")).sql("duckdb")
        "x - INTERVAL '7' DAY"
    """
    left, right = lengths(e.this), lengths(e.expression)
    if (left is None) == (right is None) or (right is None and isinstance(e, exp.Sub)):
        return e
    parts, time = (right, e.this) if right is not None else (left, e.expression)
    assert parts is not None
    if not parts or (len(parts) == 1 and parts[0] in (e.this, e.expression)):
        return e
    done: exp.Expr = time
    for part in parts:
        done = type(e)(this=done, expression=part)
    return done


def _limits(e: exp.Expr) -> list[exp.Interval] | None:
    """Return the lengths that a difference of times is compared with; a month has 30 days."""
    text = e.unnest()
    clock = text.is_string and _CLOCK.fullmatch(text.name) is not None
    parts = _of_text(text.name) if clock else lengths(e)
    if parts is None:
        return None
    found = []
    for part in parts:
        word = part.args["unit"].name.lower()
        unit, size = _UNITS.get(word, ("", 0))
        days = exp.Literal.number(size * _MONTH_DAYS)
        found.append(
            exp.Interval(this=_times(part, days).this, unit=exp.Var(this="DAY"))
            if unit == "MONTH"
            else part
        )
    return found


def with_plain_lengths(e: exp.Expr) -> exp.Expr:
    """Return a node whose lengths of time are intervals of one unit, added one after the other."""
    if isinstance(e, exp.Add | exp.Sub):
        return moved(e)
    if type(e) in FLIPPED or isinstance(e, exp.Between):
        return _without_interval(e)
    return e


FLIPPED: dict[type, type] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def _without_interval(e: exp.Expr) -> exp.Expr:
    """Rewrite a - b > INTERVAL 3 HOUR as a > b + INTERVAL 3 HOUR, and BETWEEN as two of these."""
    if isinstance(e, exp.Between):
        if not isinstance(e.this.unnest(), exp.Sub) or e.args.get("symmetric"):
            return e
        ends = [
            _without_interval(kind(this=e.this.copy(), expression=e.args[end]))
            for kind, end in ((exp.GTE, "low"), (exp.LTE, "high"))
        ]
        held = [isinstance(end.this.unnest(), exp.Sub) for end in ends]
        return e if any(held) else exp.paren(exp.and_(*ends))
    kind, difference, limit = type(e), e.this.unnest(), e.expression
    if not isinstance(difference, exp.Sub):
        kind, difference, limit = FLIPPED[kind], limit.unnest(), e.this
    if not isinstance(difference, exp.Sub) or lengths(difference.expression) is not None:
        return e
    if (parts := _limits(limit)) is None:
        return e
    later = difference.expression
    for part in parts:
        later = exp.Add(this=later, expression=part)
    return kind(this=difference.this, expression=later)
