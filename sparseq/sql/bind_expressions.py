"""Binding of a parsed expression to a typed tree; all operators and types are in the table.

Constants are computed here. A constant without a value (a date that does not exist, a number out of
range) and arguments of wrong types are refused here, before any engine sees them."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from sqlglot import exp

from sparseq.base.cancellation import check
from sparseq.base.errors import QueryRefused, did_you_mean
from sparseq.language import types as T
from sparseq.language.casts import cast
from sparseq.language.expression_tree import (
    MAX_SIZE,
    Nulls,
    Term,
    call,
    constant,
    day_of,
    fits,
    in_range,
)
from sparseq.language.functions import Function, overloads
from sparseq.language.functions.texts import MAX_TEXT
from sparseq.language.types import Family, Type
from sparseq.sql.constants import DAY_WITH_ZONE
from sparseq.sql.like_patterns import like
from sparseq.sql.overloads import comparison_type, distance, hint_of, is_text_constant
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import ENDS_FUNCTION, EndOf, EndsOf, Pair
from sparseq.sql.spellings import CASTS, COMPARED, PARTS, call_of

_MAY_BE_NULL = (
    exp.Case,
    exp.If,
    exp.Nullif,
    exp.Coalesce,
    exp.TryCast,
    exp.Null,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
)
_ZONED = re.compile(r"[^:]+:[\d:.\s]+?\s*([+-][\d:]+|[A-Za-z][\w/+-]*)\s*")
"""A text with a time of day, and the part that names its zone."""
_ANY_ORDER = frozenset(["+", "*"])
_LISTED = "docs/sql.md lists the functions"


Method = TypeVar("Method", bound=Callable[..., Term])
_METHODS: dict[type, Callable[..., Term]] = {}


def _reads(*kinds: type) -> Callable[[Method], Method]:
    """Mark the method that binds expressions of exactly these kinds."""

    def mark(method: Method) -> Method:
        _METHODS.update(dict.fromkeys(kinds, method))
        return method

    return mark


class ExpressionReader:
    """Binds the expressions of one scope.

    Args:
        column: Returns the term of a column.
        evaluate: Returns the value of SQL without columns.
        identity: Returns the SQL of a user's index if an expression is the user's column; two such
            expressions are compared by the index.
    """

    def __init__(
        self,
        column: Callable[[exp.Column], Term],
        evaluate: Callable[[str], Any],
        identity: Callable[[exp.Expr], str] = lambda _: "",
    ) -> None:
        self._column = column
        self._evaluate = evaluate
        self._identity = identity
        self._known: dict[int, tuple[exp.Expr, Term]] = {}  # by `id`: an expression may occur twice

    def read(self, e: exp.Expr) -> Term:
        """Return an expression as a term.

        Raises:
            QueryRefused: The types do not match, or a constant has no value.
        """
        if isinstance(e, exp.Column):
            return self._column(e)
        if isinstance(e, exp.Paren):
            return self.read(e.this)
        if id(e) not in self._known:
            self._known[id(e)] = e, self._fold(self._node(e), e)
        return self._known[id(e)][1]

    def truth(self, e: exp.Expr) -> Term:
        """Return a condition as a term of type BOOLEAN."""
        return self._as_truth(self.read(e), e)

    def at_rest(self, e: exp.Expr) -> Term:
        """Return an expression as a column of a subquery: dates lie between the years 1 and 9999.

        Integers that need more than 64 bits become decimals there.
        """
        term = self.read(e)
        if term.type.is_time:
            return in_range(term)
        return (term.type.stored == "HUGEINT" and cast(term, T.as_decimal(term.type))) or term

    def _as_truth(self, term: Term, e: exp.Expr) -> Term:
        if term.type.family is Family.BOOLEAN:
            return term
        done = cast(term, T.BOOLEAN)
        if done is None:
            _refuse(
                f"{said(e)} is {term.type.family.one}, not a condition", "compare it with a value"
            )
        return self._fold(done, e)

    def _fold(self, term: Term, e: exp.Expr, wanted: str = "") -> Term:
        """Return a constant as a literal; `wanted` names the type that the query asked for."""
        if not term.constant or term.is_written or term.type.family is Family.ENDS:
            return term
        term = in_range(term) if term.type.is_time else term
        value = self._evaluate(term.sql)
        if value is None or not fits(value, term.type):
            known = isinstance(e, _MAY_BE_NULL) or any(
                a.is_written and a.value is None for a in _leaves(term)
            )
            if not known:
                what = f"is no {wanted}" if wanted else "has no value"
                _refuse(f"{said(e)} {what}", "a constant in the query doesn't fit its type")
            return constant(None, term.type)
        done = constant(value, term.type)
        if term.type.is_time:
            day = day_of(value.date() if term.type.family is Family.TIMESTAMP else value)
            return replace(done, type=replace(term.type, low=day, high=day))
        return done

    def _node(self, e: exp.Expr) -> Term:
        check()
        kind = type(e)
        if kind in COMPARED:
            return self._compared(e)
        if kind in (exp.Add, exp.Sub, exp.DateAdd, exp.DateSub) and self._is_shift(e):
            return self._shift(e)
        if isinstance(e, exp.Neg) and isinstance(e.this, exp.Literal) and not e.this.is_string:
            return self._literal(e.this, negative=True)
        if kind is exp.Length and isinstance(e.this, exp.Split):
            return self._counted_parts(exp.ArraySize(this=e.this))
        if isinstance(e, exp.Anonymous) and (part := self._part(e)) is not None:
            return part
        if kind in _METHODS:
            return _METHODS[kind](self, e)
        if (called := call_of(e)) is not None:
            name, parts = called
            return self._function(name, e, parts)
        if kind is exp.Anonymous:
            _refuse(f"function {e.name.lower()}() is not available", _LISTED)
        _refuse(f"{said(e)} is not answered", _LISTED)

    @_reads(exp.Boolean)
    def _boolean(self, e: exp.Boolean) -> Term:
        return constant(bool(e.this), T.BOOLEAN)

    @_reads(exp.Null)
    def _null(self, e: exp.Null) -> Term:
        return constant(None, T.NULL)

    @_reads(exp.Literal)
    def _literal(self, e: exp.Literal, negative: bool = False) -> Term:
        if e.is_string:
            return constant(e.this, T.TEXT)
        text, sign = e.this, "-" if negative else ""
        if re.fullmatch(r"\d+\.?|\d*\.\d+", text):
            width, scale = T.digits_of(text)
            if width > T.MAX_DIGITS:
                near = float(text)
                _refuse(
                    f"{text[:40]} has {width} digits; exact numbers have {T.MAX_DIGITS} at most",
                    f"write {near!r} for the nearest number that a DOUBLE holds"
                    if math.isfinite(near)
                    else "no number of a column is as large: leave it out",
                )
            if text.isdecimal():
                return constant(int(sign + text), T.BIGINT)
            return constant(sign + text.removesuffix("."), T.decimal(width, scale))
        try:
            return constant(float(sign + text), T.DOUBLE)
        except ValueError:
            _refuse(f"{said(e)[:40]} is not a number")

    @_reads(exp.Cast, exp.TryCast)
    def _cast(self, e: exp.Cast) -> Term:
        target = self._target(e.to)
        term = self.read(e.this)
        done = self._become(term, target, e)
        if done is None:
            _refuse(
                f"{said(e)}: {term.type.family.one} can't be cast to {target.sql}",
                "write TIMESTAMPTZ beside a constant only: stored times are in UTC"
                if target.zoned
                else "cast a TIMESTAMPTZ to TIMESTAMP first"
                if term.type.zoned
                else "cast it to VARCHAR first",
            )
        return done

    def _become(self, term: Term, type: Type, e: exp.Expr) -> Term | None:
        """Return a term in another type; None if there is no cast. Every cast uses this method.

        A constant text denotes one moment only: an offset or a zone in the text is used if the type
        has a zone. If the type has none, DuckDB would drop it, so any zone but UTC is refused. A
        day with an offset and no time of day, as JDBC writes a DATE, is the day as written.
        """
        if type.is_time and not type.zoned and is_text_constant(term):
            day = DAY_WITH_ZONE.fullmatch(str(term.value).strip())
            if day is not None and (type.family is Family.DATE or _is_utc(day[2])):
                term = constant(day[1], T.TEXT)
        clock = type.is_time or type.family is Family.TIME
        zoned = clock and is_text_constant(term) and _ZONED.fullmatch(str(term.value))
        if zoned and not type.zoned and not _is_utc(zoned[1]):
            at = f"TIMESTAMPTZ {term.sql}"
            _refuse(
                f"{term.sql} has a time zone, and {type.sql} has none",
                f"write {at} for that moment; stored times are in UTC"
                if type.is_time
                else "leave the offset out: times of day have none",
            )
        if zoned and type.zoned:
            moment = f"make_timestamp(epoch_us(TRY_CAST({term.sql} AS TIMESTAMPTZ)))"
            return self._fold(call("instant", moment, type, term), _of(term, e), "timestamp")
        return cast(term, type)

    def _target(self, to: exp.DataType) -> Type:
        name = to.this.value if isinstance(to.this, exp.DataType.Type) else str(to.this)
        if name.upper() == "DECIMAL":
            digits = [p.name for p in to.expressions]
            if not all(d.isdecimal() and len(d) <= 2 for d in digits) or len(digits) > 2:
                digits = ["0", "0"]
            width, scale = ([int(d) for d in digits] + [0])[:2] if digits else (18, 3)
            if not 1 <= width <= T.MAX_DIGITS or scale > width:
                _refuse(
                    f"{to.sql('duckdb')[:40]} is not a type of a column here",
                    f"DECIMAL(width, scale) has at most {T.MAX_DIGITS} digits",
                )
            return T.decimal(width, scale)
        known = T.INSTANT if name == "TIMESTAMPTZ" else T.find_type(CASTS.get(name.upper(), ""))
        if known is None:
            written = "HUGEINT" if name.upper() == "INT128" else to.sql("duckdb")[:40]
            _refuse(f"{written} is not a type of a column here", "use BIGINT or DOUBLE")
        return known

    @_reads(exp.AtTimeZone)
    def _at_zone(self, e: exp.AtTimeZone) -> Term:
        """Convert a moment to the local time of a zone, or a local time to the moment."""
        zone, term = e.args["zone"], self.read(e.this)
        if not isinstance(zone, exp.Literal) or not zone.is_string:
            _refuse(f"{said(e)}: a time zone is a constant", "x AT TIME ZONE 'Europe/Berlin'")
        if is_text_constant(term):
            _refuse(
                f"{said(e)}: {term.sql} is a moment, or what a clock shows",
                f"write TIMESTAMPTZ {term.sql} or TIMESTAMP {term.sql}",
            )
        name = self._zone(zone.name)
        if term.type.family is Family.TIMESTAMP and name == "UTC":  # the stored form
            return replace(term, type=replace(term.type, zoned=not term.type.zoned))
        return self._apply("timezone", e, [term, constant(name, T.TEXT)])

    def _zone(self, name: str) -> str:
        """Return a time zone as it is spelled in DuckDB's list, which is public."""
        if _is_utc(name):
            return "UTC"
        known = list(map(str, self._evaluate("(SELECT list(name) FROM pg_timezone_names())")))
        found = next((zone for zone in known if zone.lower() == name.lower()), "")
        offset = re.fullmatch(r"(?:UTC|GMT)?([+-])0?(\d{1,2})(?::?00)?", name.upper())
        if offset and not found:
            away = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{offset[2]}"  # POSIX sign
            _refuse(f"{name!r} is an offset, not a time zone", f"write '{away}', which means it")
        if not found:
            close = did_you_mean(name, known)
            _refuse(
                f"there is no time zone {name[:40]!r}",
                close if close.startswith("did") else "names are as in 'Europe/Berlin'",
            )
        return found

    @_reads(exp.Is)
    def _is(self, e: exp.Is) -> Term:
        if isinstance(e.expression, exp.Null):
            index = self._identity(e.this)
            of = Term(T.BIGINT, index) if index else self.read(e.this)
            return call("is null", "({0} IS NULL)", T.BOOLEAN, of)
        term = self.read(e.this)
        if not isinstance(e.expression, exp.Boolean):
            _refuse(f"{said(e)} is not answered", "IS NULL, IS TRUE and IS FALSE are")
        name = f"is {str(e.expression.this).lower()}"
        return self._apply(name, e, [self._as_truth(term, e.this)])

    def _unit(self, e: exp.Expr, unit: exp.Expr | None) -> str:
        text = unit.name.upper() if unit is not None else ""
        text = PARTS.get(text, text).lower()
        return text.removesuffix("s") if text != "s" else text

    @_reads(exp.Extract)
    def _extract(self, e: exp.Extract) -> Term:
        return self._part_of(self._unit(e, e.this), e, e.expression)

    @_reads(exp.TimeToUnix)
    def _seconds(self, e: exp.TimeToUnix) -> Term:
        return self._part_of("epoch", e, e.this)

    def _part_of(self, unit: str, e: exp.Expr, of: exp.Expr) -> Term:
        """Return a part of a time, or of the span between two times: an age or a difference."""
        of, name = of.unnest(), ""
        if isinstance(of, exp.Anonymous) and of.name.lower() == "age" and len(of.expressions) == 2:
            name, sides = f"age {unit}", list(of.expressions)
        elif isinstance(of, exp.Sub) and not self._is_shift(of):
            sides = [of.this, of.expression]
            if all(self.read(side).type.is_time for side in sides):
                name = f"- {unit}"
        if not name:
            return self._function(unit, e, [of])
        days = all(self.read(side).type.family is Family.DATE for side in sides)
        if not overloads(name) or (days and name.startswith("-")):
            later, earlier = map(said, sides)
            counted = f"date_diff('{'second' if unit == 'epoch' else unit}', {earlier}, {later})"
            _refuse(
                f"{said(e)} is not answered",
                f"write {counted} for {said(e)}: it counts how many begin between, and date_sub "
                "full ones; of two dates, a - b is days",
            )
        return self._function(name, e, sides)

    @_reads(exp.UnixToTime)
    def _from_seconds(self, e: exp.UnixToTime) -> Term:
        """Convert a number with to_timestamp, epoch_ms or make_timestamp (microseconds)."""
        scale = e.args.get("scale")
        if scale is not None and scale.name not in ("3", "6"):
            form = exp.Literal.string(_percents(scale.name))
            return self._format(exp.StrToTime(this=e.this.copy(), format=form))
        names = {"": "to_timestamp", "3": "epoch_ms", "6": "make_timestamp"}
        return self._function(names[scale.name if scale is not None else ""], e, [e.this])

    @_reads(exp.Initcap)
    def _capitals(self, e: exp.Initcap) -> Term:
        if not e.expression.name.startswith(" \t\n"):
            _refuse(f"{said(e)} is not answered", "initcap(x): words are of letters and digits")
        return self._function("initcap", e, [e.this])

    @_reads(exp.DateTrunc, exp.TimestampTrunc)
    def _truncate(self, e: exp.Expr) -> Term:
        return self._function(f"date_trunc {self._unit(e, e.args.get('unit'))}", e, [e.this])

    @_reads(exp.DateDiff)
    def _difference(self, e: exp.Expr) -> Term:
        name = f"date_diff {self._unit(e, e.args.get('unit'))}"
        return self._function(name, e, [e.expression, e.this])

    def _is_shift(self, e: exp.Expr) -> bool:
        return not isinstance(e, exp.Add | exp.Sub) or any(
            isinstance(side, exp.Interval) for side in (e.this, e.expression)
        )

    def _shift(self, e: exp.Expr) -> Term:
        """Add an interval to a time, or subtract it."""
        origin, interval = e.this, e.expression
        plus = isinstance(e, exp.Add | exp.DateAdd)
        if isinstance(origin, exp.Interval) and plus:
            origin, interval = interval, origin
        if not isinstance(interval, exp.Interval):
            unit, number = self._unit(e, e.args.get("unit")) or "day", interval
        else:
            unit, number = self._unit(interval, interval.args.get("unit")), interval.this
        if not unit or isinstance(origin, exp.Interval):
            _refuse(f"{said(e)} is not answered", "write INTERVAL 3 DAY: one number and one unit")
        amount = self._amount(number)
        return self._apply(f"{'+' if plus else '-'} {unit}", e, [self.read(origin), amount])

    @_reads(exp.Interval)
    def _interval(self, e: exp.Interval) -> Term:
        _refuse(
            f"{said(e)}: an interval has no value of its own",
            "add it to a date or time; date_diff('day', a, b) is a number of days",
        )

    def _amount(self, e: exp.Expr) -> Term:
        if isinstance(e, exp.Literal) and re.fullmatch(r"-?\d{1,18}", e.this.strip()):
            return constant(int(e.this), T.BIGINT)
        return self.read(e)

    def _part(self, e: exp.Anonymous) -> Term | None:
        """Return date_part('unit', x) and date_sub('unit', x, y); None for other calls."""
        name, parts = e.name.lower(), list(e.expressions)
        if name in ("date_part", "datepart") and len(parts) == 2:
            return self._part_of(self._unit(e, parts[0]), e, parts[1])
        if name == "age":
            _refuse(
                f"{said(e)}: an age has no value of its own",
                "extract(year FROM age(a, b)) has; date_sub('year', b, a) is full years, "
                "date_diff('day', b, a) days",
            )
        if name in ("date_sub", "datesub") and len(parts) == 3:
            return self._function(f"date_sub {self._unit(e, parts[0])}", e, parts[1:])
        return None

    @_reads(exp.JSONPath)
    def _path(self, e: exp.JSONPath) -> Term:
        """Return a JSON path of names and indices, so that it selects at most one value."""
        plain = (exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript)
        for part in e.expressions:
            if not isinstance(part, plain) or not isinstance(part.this, str | int | None):
                _refuse(f"{said(e)} is a path to several values", "write '$.name' or '$.list[0]'")
        return constant(e.sql("duckdb").strip("'").replace("''", "'"), T.TEXT)

    @_reads(exp.SHA2)
    def _hash(self, e: exp.SHA2) -> Term:
        if e.args.get("length") is not None and e.args["length"].name != "256":
            _refuse(f"{said(e)} is not answered", "sha256(x) is")
        return self._function("sha256", e, [e.this])

    @_reads(exp.Pad)
    def _pad(self, e: exp.Pad) -> Term:
        fill = e.args.get("fill_pattern") or exp.Literal.string(" ")
        return self._function(
            "lpad" if e.args.get("is_left") else "rpad", e, [e.this, e.expression, fill]
        )

    @_reads(exp.RegexpLike, exp.RegexpFullMatch)
    def _match(self, e: exp.Expr) -> Term:
        if e.args.get("flag") is not None or e.args.get("options") is not None:
            _refuse(f"{said(e)} has options", "write (?i) at the beginning of the expression")
        self._check_expression(e)
        whole = isinstance(e, exp.RegexpFullMatch)
        return self._function(
            "regexp_full_match" if whole else "regexp_matches", e, [e.this, e.expression]
        )

    @_reads(exp.RegexpExtract)
    def _extracted(self, e: exp.RegexpExtract) -> Term:
        self._check_expression(e)
        group = e.args.get("group") or exp.Literal.number(0)
        return self._function("regexp_extract", e, [e.this, e.expression, group])

    @_reads(exp.RegexpReplace)
    def _replace(self, e: exp.RegexpReplace) -> Term:
        self._check_expression(e)
        options = e.args.get("modifiers")
        every = options is not None and options.name == "g"
        if options is not None and not every:
            _refuse(f"{said(e)} has options", "'g' replaces all matches")
        name = "regexp_replace all" if every else "regexp_replace"
        return self._function(name, e, [e.this, e.expression, e.args["replacement"]])

    def _check_expression(self, e: exp.Expr) -> None:
        pattern = e.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            _refuse(f"{said(e)}: a regular expression is a constant", "write it in the query")
        if len(pattern.this) > MAX_TEXT:
            _refuse(f"a regular expression has more than {MAX_TEXT:,} characters", "use LIKE")
        self._evaluate(f"regexp_matches('', {pattern.sql('duckdb')})")

    @_reads(exp.TimeToStr, exp.ToChar, exp.StrToTime)
    def _format(self, e: exp.Expr) -> Term:
        form = e.args.get("format")
        if not isinstance(form, exp.Literal) or not form.is_string:
            _refuse(f"{said(e)}: a format is a constant", "strftime(x, '%Y-%m')")
        if isinstance(e, exp.ToChar):
            form = exp.Literal.string(_percents(form.this))
        if isinstance(e, exp.StrToTime) and re.search("%[zZ]", form.this.replace("%%", "")):
            _refuse(f"{said(e)}: zones in texts are not read", "leave %z and %Z out of the format")
        self._evaluate(f"strftime(DATE '2000-01-01', {form.sql('duckdb')})")
        return self._function(
            "strptime" if isinstance(e, exp.StrToTime) else "strftime", e, [e.this, form]
        )

    @_reads(exp.DateBin)
    def _bucket(self, e: exp.DateBin) -> Term:
        """Return the start of the interval of time_bucket that contains a time."""
        width, term = e.this, self.read(e.expression)
        unit = self._unit(width, width.args.get("unit")) if isinstance(width, exp.Interval) else ""
        number = width.name if unit else ""
        if not number.isdecimal() or not 1 <= int(number) <= 1000 or len(e.args) > 2:
            _refuse(f"{said(e)} is not answered", "time_bucket(INTERVAL '15 minutes', x)")
        if not term.type.is_time:
            _refuse(f"{said(e)}: time_bucket is of a date or a time", "use width_bucket")
        moment = cast(in_range(term), T.TIMESTAMP)
        assert moment is not None
        type = T.shift_type(T.TIMESTAMP, 366_000, 0)
        return call(
            f"time_bucket {number} {unit}",
            f"time_bucket(INTERVAL '{number} {unit}', {{0}})",
            type,
            moment,
        )

    @_reads(exp.WidthBucket)
    def _width_bucket(self, e: exp.WidthBucket) -> Term:
        parts = [e.args["min_value"], e.args["max_value"], e.args["num_buckets"]]
        low, high, number = (self._number(x, e) for x in parts)
        if not low < high or not 1 <= number <= 10_000 or number != int(number):
            _refuse(f"{said(e)} makes no buckets", "width_bucket(x, 0, 100, 10)")
        value = self._argument(
            self._apply("+", e, [self.read(e.this), constant(0.0, T.DOUBLE)]), Family.DOUBLE, e
        )
        place = f"least(floor(({{0}} - {low!r}) * {number!r} / {high - low!r}), {number - 1!r})"
        sql = (
            f"CASE WHEN {{0}} < {low!r} THEN 0 WHEN {{0}} >= {high!r} THEN {int(number) + 1} "
            f"WHEN {{0}} IS NOT NULL THEN 1 + CAST({place} AS BIGINT) END"
        )
        return call("width_bucket", sql, T.integer(0, int(number) + 1), value)

    def _number(self, e: exp.Expr, of: exp.Expr) -> float:
        term = self.read(e)
        found = cast(term, T.DOUBLE) if term.is_written else None
        value = found and self._fold(found, e).value
        if not isinstance(value, int | float) or not math.isfinite(value):
            _refuse(f"{said(of)}: {said(e)} is not a constant number", "write the number itself")
        return float(value)

    @_reads(exp.ArraySize)
    def _counted_parts(self, e: exp.ArraySize) -> Term:
        if not isinstance(e.this, exp.Split):
            if e.expression is not None or self.read(e.this).type.family is not Family.LIST:
                _refuse(f"{said(e)} is not answered", "len(string_split(x, ' ')) counts words")
            return self._function("length", e, [e.this])
        return self._function("parts", e, [e.this.this, e.this.expression])

    @_reads(exp.Bracket)
    def _place(self, e: exp.Bracket) -> Term:
        """Return list[i] for a literal index; sqlglot shifts the index to count from 0."""
        place = e.expressions[0] if len(e.expressions) == 1 else e
        plain = place.this if isinstance(place, exp.Neg) else place
        if not isinstance(plain, exp.Literal) or not plain.this.isdecimal():
            _refuse(f"{said(e)}: a place is a whole number", "list_extract(x, i) takes a column")
        at = (-1 if plain is not place else 1) * int(plain.this) + 1
        if not -T.INT64[1] <= at <= T.INT64[1]:
            _refuse(f"{said(e)} is no place in a list", "the first is x[1], the last x[-1]")
        return self._apply("list_extract", e, [self.read(e.this), constant(at, T.BIGINT)])

    def _is_any(self, e: exp.Expr, listed: exp.Any) -> Term:
        """Return x = ANY(list): whether an element equals x; NULL if a NULL leaves it open."""
        if not isinstance(e, exp.EQ):
            _refuse(f"{said(e)} is not answered", "x = ANY(list) is; unnest(list) has its values")
        has = self._apply("contains", e, [self.read(listed.this), self.read(e.this)])
        known = "{2} IS NOT NULL AND list_count({1}) = len({1})"
        none = f"coalesce(len({{1}}), 0) = 0 OR ({known})"
        sql = f"CASE WHEN {{0}} THEN true WHEN {none} THEN false END"
        return call("any", sql, T.BOOLEAN, has, *has.arguments)

    @_reads(exp.Explode)
    def _values_of(self, e: exp.Explode) -> Term:
        _refuse(
            f"{said(e)} makes rows here, in the middle of something",
            "select it by itself in a subquery: SELECT t.*, unnest(t.tags) AS tag FROM t",
        )

    @_reads(exp.ConcatWs)
    def _joined_with(self, e: exp.ConcatWs) -> Term:
        parts = [self._text(x) for x in e.expressions]
        places = ", ".join(f"{{{i}}}" for i in range(len(parts)))
        return call("concat_ws", f"left(concat_ws({places}), {MAX_TEXT})", T.TEXT, *parts)

    @_reads(exp.DPipe, exp.Concat)
    def _join(self, e: exp.Expr) -> Term:
        """Return || of two values, or concat of several values, which skips NULL."""
        if isinstance(e, exp.DPipe):
            return self._apply("||", e, [self._text(e.this), self._text(e.expression)])
        parts = [self._text(x) for x in e.expressions]
        places = ", ".join(f"{{{i}}}" for i in range(len(parts)))
        return call("concat", f"left(concat({places}), {MAX_TEXT})", T.TEXT, *parts)

    def _text(self, e: exp.Expr) -> Term:
        term = cast(self.read(e), T.TEXT)
        if term is None:
            _refuse(f"{said(e)} has a zone, and no text", "cast it to TIMESTAMP first")
        return self._fold(term, e)

    @_reads(exp.Case, exp.If)
    def _case(self, e: exp.Case | exp.If) -> Term:
        if isinstance(e, exp.If):
            ifs, default = [e], e.args.get("false")
        else:
            ifs, default = e.args["ifs"], e.args.get("default")
        conditions = []
        for branch in ifs:
            if isinstance(e, exp.Case) and e.this is not None:
                conditions.append(self._compare("=", e, e.this, branch.this))
            else:
                conditions.append(self.truth(branch.this))
        results = [branch.args["true"] for branch in ifs] + ([default] if default else [])
        terms, type = self._alike(results, e)
        sql = "".join(f" WHEN {{{2 * i}}} THEN {{{2 * i + 1}}}" for i in range(len(conditions)))
        parts = [t for pair in zip(conditions, terms, strict=False) for t in pair]
        if default is not None:
            sql += f" ELSE {{{len(parts)}}}"
            parts.append(terms[-1])
        return call("case", f"CASE{sql} END", type, *parts)

    @_reads(exp.Coalesce, exp.Greatest, exp.Least)
    def _first(self, e: exp.Expr) -> Term:
        """Return coalesce, greatest or least."""
        name = _CHOICES[type(e)]
        terms, type_ = self._alike([e.this, *e.expressions], e)
        places = ", ".join(f"{{{i}}}" for i in range(len(terms)))
        return call(name, f"{name}({places})", type_, *terms)

    @_reads(exp.Nullif)
    def _nullif(self, e: exp.Nullif) -> Term:
        same = self._compare("=", e, e.this, e.expression)
        value = self.read(e.this)
        return call("nullif", "CASE WHEN {0} THEN NULL ELSE {1} END", value.type, same, value)

    def _alike(self, parts: Sequence[exp.Expr], e: exp.Expr) -> tuple[list[Term], Type]:
        """Return the terms in one common type; text constants take the type of the others."""
        terms = [self.read(p) for p in parts]
        others = [t.type for t in terms if not is_text_constant(t)]
        type = T.common(others)
        if type is None or type.family is Family.NULL:
            type = type and T.common(t.type for t in terms)
        if type is None:
            names = ", ".join(dict.fromkeys(str(t.type.family) for t in terms))
            _refuse(f"{said(e)}: {names} don't go together", "write CAST(x AS type)")
        return [self._as(t, type, p) for t, p in zip(terms, parts, strict=True)], type

    def _as(self, term: Term, type: Type, e: exp.Expr) -> Term:
        """Return a term in a type that holds its values."""
        if term.type.family is type.family and type.family is not Family.DECIMAL:
            return term
        done = self._become(term, _widened(type), e)
        if done is None:
            _refuse(
                f"{said(e)} is {term.type.family.one}, not {type.family.one}", "use CAST(x AS type)"
            )
        return self._fold(done, e, str(type.family))

    @_reads(EndsOf)
    def _ends_of(self, e: EndsOf) -> Term:
        terms = [self.read(x) for x in e.expressions]
        terms = [t if t.type.family is Family.ENDS else self._double(t) for t in terms]
        places = ", ".join(f"{{{i}}}" for i in range(len(terms)))
        return call("ends", f"{ENDS_FUNCTION}('{e.name}', {places})", T.ENDS, *terms)

    @_reads(Pair)
    def _pair(self, e: Pair) -> Term:
        ends = [self._double(self.read(x)) for x in (e.this, e.expression)]
        return call("pair", "struct_pack(low := {0}, high := {1})", T.ENDS, *ends)

    @_reads(EndOf)
    def _end(self, e: EndOf) -> Term:
        end = f"struct_extract({{0}}, '{e.expression.name}')"
        return call("end", end, T.DOUBLE, self.read(e.this))

    def _double(self, term: Term) -> Term:
        """Return a public value as both ends of its interval; NULL if it is no number."""
        return cast(term, T.DOUBLE) or constant(None, T.DOUBLE)

    def _compared(self, e: exp.Expr) -> Term:
        if isinstance(e.expression, exp.Any):
            return self._is_any(e, e.expression)
        return self._compare(COMPARED[type(e)], e, e.this, e.expression)

    def _compare(self, operator: str, e: exp.Expr, left: exp.Expr, right: exp.Expr) -> Term:
        ids = self._identity(left), self._identity(right)
        if all(ids):
            return call(
                operator,
                f"({{0}} {operator} {{1}})",
                T.BOOLEAN,
                *(Term(T.BIGINT, sql) for sql in ids),
            )
        a, b = self._comparable(e, self.read(left), self.read(right))
        return call(operator, f"({{0}} {operator} {{1}})", T.BOOLEAN, a, b)

    def _comparable(self, e: exp.Expr, a: Term, b: Term) -> tuple[Term, Term]:
        """Return two terms in types that compare without loss."""
        type = comparison_type(a, b)
        if type is None:
            kinds = f"{a.type.family} with {b.type.family}"
            _refuse(f"{said(e)} compares {kinds}", "write CAST(x AS type) where the types differ")
        if Family.INTEGER is type.family and a.type.family is b.type.family:
            return a, b
        return self._in_type(a, type, e), self._in_type(b, type, e)

    def _numbers(self, several: Sequence[exp.Expr]) -> list[Term]:
        """Return the terms of one comparison; a FLOAT becomes a DOUBLE if another is one."""
        terms = [self.read(x) for x in several]
        if T.common(t.type for t in terms if t.type.is_number) != T.DOUBLE:
            return terms
        return [self._double(t) if t.type == T.FLOAT else t for t in terms]

    def _in_type(self, term: Term, type: Type, e: exp.Expr) -> Term:
        if term.type.family is type.family and type.family is not Family.DECIMAL:
            return term
        self._check_day(term, type)
        done = self._become(term, _widened(type), e)
        if done is None:
            _refuse(
                f"{said(e)}: {term.type.family.one} is not a {type.family}", "use CAST(x AS type)"
            )
        return self._fold(done, _of(term, e), str(type.family))

    def _check_day(self, term: Term, type: Type) -> None:
        """Refuse to compare a DATE with a time of day, which a cast would drop."""
        if type.family is not Family.DATE or not is_text_constant(term):
            return
        moment = cast(term, T.TIMESTAMP)
        at = moment and self._evaluate(moment.sql)
        if isinstance(at, dt.datetime) and at.time() != dt.time(0):
            _refuse(
                f"{term.sql} has a time of day, and a DATE has none",
                f"write TIMESTAMP {term.sql} for that moment",
            )

    @_reads(exp.Between)
    def _between(self, e: exp.Between) -> Term:
        value, low, high = self._numbers([e.this, e.args["low"], e.args["high"]])
        (a, low), (b, high) = self._comparable(e, value, low), self._comparable(e, value, high)
        if a == b:
            return call("between", "({0} BETWEEN {1} AND {2})", T.BOOLEAN, a, low, high)
        return call("between", "(({0} >= {1}) AND ({2} <= {3}))", T.BOOLEAN, a, low, b, high)

    @_reads(exp.In)
    def _in(self, e: exp.In) -> Term:
        value, *listed = self._numbers([e.this, *e.expressions])
        pairs = [self._comparable(e, value, x) for x in listed]
        if all(a == value for a, _ in pairs):
            size = value.size + sum(b.size for _, b in pairs)
            texts = ", ".join(b.sql for _, b in pairs)
            constants = value.constant and all(b.constant for _, b in pairs)
            return Term(
                T.BOOLEAN,
                f"({value.sql} IN ({texts}))",
                constants,
                None,
                size,
                "in",
                (value, *(b for _, b in pairs)),
                nulls=Nulls.STRICT,
            )
        done = [call("=", "({0} = {1})", T.BOOLEAN, a, b) for a, b in pairs]
        if sum(d.size for d in done) > MAX_SIZE:
            _refuse(f"{said(e)[:60]} has too long a list", "join a public table instead")
        places = " OR ".join(f"{{{i}}}" for i in range(len(done)))
        return call("or", f"({places})", T.BOOLEAN, *done)

    @_reads(exp.Like, exp.ILike)
    def _like(self, e: exp.Like | exp.ILike) -> Term:
        value, pattern = self.read(e.this), self.read(e.expression)
        if value.type.family is not Family.TEXT or not pattern.is_written:
            _refuse(
                f"{said(e)}: LIKE compares a text with a constant pattern",
                "CAST(x AS VARCHAR) LIKE 'a%'; starts_with and contains take columns",
            )
        if pattern.value is None:
            return constant(None, T.BOOLEAN)
        any_case, negated = isinstance(e, exp.ILike), bool(e.args.get("negate"))
        return like(value, [(c, c in "%_") for c in str(pattern.value)], any_case, negated)

    @_reads(exp.Escape)
    def _like_with_escape(self, e: exp.Escape) -> Term:
        """Return LIKE 'a!%b' ESCAPE '!': the character after the escape character is literal."""
        inner, sign = e.this, e.expression
        value, pattern = self.read(inner.this), self.read(inner.expression)
        fits = value.type.family is Family.TEXT and is_text_constant(pattern)
        one = isinstance(sign, exp.Literal) and sign.is_string and len(sign.this) == 1
        marked = re.findall("(?s)" + re.escape(sign.name[:1]) + ".?|.", str(pattern.value))
        if not fits or not one or sign.this in marked:
            _refuse(
                f"{said(e)} is not answered",
                "x LIKE '100!%%' ESCAPE '!': constants, and a character after each sign",
            )
        any_case = isinstance(inner, exp.ILike)
        signs = [(part[-1], part in ("%", "_")) for part in marked]
        return like(value, signs, any_case, bool(inner.args.get("negate")))

    @_reads(exp.SimilarTo)
    def _similar(self, e: exp.SimilarTo) -> Term:
        """Return SIMILAR TO, if DuckDB's RE2 and the SQL standard give the pattern one meaning."""
        pattern = e.expression
        if re.search(r"[%_.^$\\]", pattern.name) or pattern.name == "":
            _refuse(
                f"{said(e)}: SIMILAR TO has one meaning in SQL, and another in DuckDB",
                "write LIKE with % and _, or regexp_full_match(x, 'a.*')",
            )
        self._check_expression(e)
        return self._function("regexp_full_match", e, [e.this, pattern])

    def _function(self, name: str, e: exp.Expr, parts: Sequence[exp.Expr]) -> Term:
        return self._apply(name, e, [self.read(p) for p in parts])

    def _apply(self, name: str, e: exp.Expr, terms: list[Term]) -> Term:
        """Return a call of the overload that needs the least conversion, the first of equals."""
        orders = [terms, terms[::-1]] if name in _ANY_ORDER else [terms]
        tried = [
            (cost, i, f, order)
            for order in orders
            for i, f in enumerate(overloads(name))
            if (cost := distance(order, f)) is not None
        ]
        for _, _, f, order in sorted(tried, key=lambda x: x[:2]):
            done = self._call(f, e, order)
            if done is not None:
                return done
        kinds = ", ".join(str(t.type.family) for t in terms)
        _refuse(f"{said(e)}: {name.split(' ')[0]} does not take {kinds}", hint_of(name, e, terms))

    def _call(self, f: Function, e: exp.Expr, terms: Sequence[Term]) -> Term | None:
        for i in f.fixed:
            if not terms[i].is_written or terms[i].value is None:
                what = "a number of decimals" if f.name in ("round", "trunc") else said_in(e, i)
                _refuse(f"{said(e)}: {what} is a constant", "write the value itself")
        numbers = [t for t, k in zip(terms, f.takes, strict=True) if k is Family.DOUBLE]
        held = T.common(t.type for t in numbers if not is_text_constant(t))
        number = T.FLOAT if f.short and held == T.FLOAT else T.DOUBLE
        if not f.wide:
            self._check_64_bits(f, e, terms)
        arguments = [self._argument(t, k, e, number) for t, k in zip(terms, f.takes, strict=True)]
        types = [a.type for a in arguments]
        type = number if f.short else f.gives(types)
        return None if type is None else call(f.name, f.sql(types), type, *arguments)

    def _check_64_bits(self, f: Function, e: exp.Expr, terms: Sequence[Term]) -> None:
        """Refuse integers beyond 64 bits where a function would lose digits."""
        for term, family in zip(terms, f.takes, strict=True):
            whole = family is Family.INTEGER and term.type.family is Family.INTEGER
            if whole and not term.type.within(*T.INT64):
                _refuse(
                    f"{said(e)}: {f.name.split(' ')[0]} takes whole numbers of 64 bits, and here "
                    "they can be beyond",
                    "write CAST(x AS BIGINT), which is NULL beyond",
                )

    def _argument(self, term: Term, family: Family, e: exp.Expr, number: Type = T.DOUBLE) -> Term:
        """Return a term in a family; `number` is the type that numbers become."""
        fits = family is not Family.DOUBLE or term.type == number
        if term.type.family is family and fits:
            return term
        if family is Family.DECIMAL:
            target = T.as_decimal(term.type)
        else:
            target = number if family is Family.DOUBLE else T.find_type(_OWN[family]) or T.DOUBLE
        done = self._become(term, target, e)
        assert done is not None  # `cost_of` found a cast
        return self._fold(done, _of(term, e), str(family))


def _widened(type: Type) -> Type:
    """Return the type to compare with integers: 64 bits, or the type itself if it is wider."""
    if type.family is not Family.INTEGER or not type.within(*T.INT64):
        return type
    return T.BIGINT


_OWN = {
    Family.BOOLEAN: "BOOLEAN",
    Family.INTEGER: "BIGINT",
    Family.DOUBLE: "DOUBLE",
    Family.TEXT: "VARCHAR",
    Family.DATE: "DATE",
    Family.TIMESTAMP: "TIMESTAMP",
    Family.TIME: "TIME",
    Family.UUID: "UUID",
}
_CODES = {
    "YYYY": "%Y",
    "HH24": "%H",
    "HH12": "%I",
    "Month": "%B",
    "Mon": "%b",
    "Day": "%A",
    "MM": "%m",
    "DD": "%d",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "IYYY": "%G",
    "IW": "%V",
    "WW": "%W",
}
_CHOICES: dict[type, str] = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}


def said_in(e: exp.Expr, i: int) -> str:
    """Return the text of a function's argument, for messages."""
    parts = list(e.iter_expressions())
    return said(parts[i]) if i < len(parts) else "it"


def _percents(form: str) -> str:
    """Return the strftime format that means the same as a to_char format.

    >>> _percents("YYYY-MM-DD HH24:MI")
    '%Y-%m-%d %H:%M'
    """
    for word, code in _CODES.items():
        form = form.replace(word, code)
    return form


def _is_utc(zone: str) -> bool:
    """Tell whether a zone's text denotes UTC.

    >>> _is_utc("+00:00"), _is_utc("Z"), _is_utc("+02"), _is_utc("Europe/London")
    (True, True, False, False)
    """
    return zone.upper() in ("Z", "UTC") or not zone.strip("+-0:")


def _of(term: Term, e: exp.Expr) -> exp.Expr:
    """Return the expression to quote in a message: the value of a constant, else the expression."""
    written = isinstance(term.value, str)
    return exp.Literal.string(term.value) if written else e


def _leaves(term: Term) -> list[Term]:
    return [x for a in term.arguments for x in _leaves(a)] if term.arguments else [term]


def _refuse(message: str, hint: str = "") -> NoReturn:
    raise QueryRefused(message, hint)
