"""Public values of an expression: the values that it can have, whatever the private rows are.

They follow from the query and from declared facts: a list or range in the WHERE, declared keys and
bounds, a public table, a truth value, a part of a date, a CASE with constant results. An expression
over such parts is computed on all combinations of their values. A grid of moments represents the
times in a range, if the expression depends on nothing finer.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.base.sql_text import quote
from sparseq.language import types as T
from sparseq.language.calendar import DAY, UNITS, ZONES_SINCE
from sparseq.language.conditions import values_of_any
from sparseq.language.ends import ends_of_type, finite
from sparseq.language.expression_tree import Term
from sparseq.language.functions import values_of
from sparseq.language.monotone_functions import places_of
from sparseq.language.time_stretches import fineness, finest
from sparseq.language.types import Family, Type, find_type
from sparseq.language.value_sets import Spans
from sparseq.question.catalog import INTEGER_TYPES, TIME_TYPES
from sparseq.sql.aggregate_calls import chooses
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.condition_limits import listed_by
from sparseq.sql.constants import constants, is_constant
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.scope import Scope, integral

MAX_VALUES = 100_000
_EPOCH, _MOMENT = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)
_MAX_GRID = 2_400_000
_MAX_PIECES = 1000  # of time; if there are more, they are merged
_MAX_COMBINATIONS = 1_000_000


class PublicValues:
    """Finds the public values of the expressions of one scope.

    Args:
        scope, public: The query's scope and public facts.
        found: Privately found keys count as values of their column, although others may exist.
    """

    def __init__(self, scope: Scope, public: PublicFacts, found: bool = False) -> None:
        self._scope = scope
        self._public = public
        self._found = found

    def of(self, e: exp.Expr, type: str) -> list[Any] | None:
        """Return an expression's public values in order, without NULL; None if they are unknown.

        Args:
            e: An expression over the columns of the scope.
            type: Its DuckDB type.
        """
        direct = self._direct(e, type)
        if direct is not None:
            return direct
        if type == "BOOLEAN":
            return [False, True]
        literal = _literal_results(e)
        if literal is not None:
            return self._constants(literal, type)
        if _is_one_of(e):
            inside = e.this.expressions[0] if isinstance(e.this, exp.Distinct) else e.this
            return self.of(inside, type) if isinstance(inside, exp.Expr) else None
        derived = self._values_by_parts(e)
        return self.own(e, type) if derived is None else derived

    def inside(self, e: exp.Expr) -> list[Any] | None:
        """Return the public values of a subquery's column, whose type is not known yet."""
        literal = _literal_results(e)
        if literal is not None and all(isinstance(x, exp.Null) or x.is_string for x in literal):
            return self._constants(literal, "VARCHAR")
        plain = _of_one_row(e)
        if plain is None or plain.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return None
        return self.of(plain, self._scope.term(plain).type.sql)

    def _direct(self, e: exp.Expr, type: str, equated: bool = True) -> list[Any] | None:
        """Return the values that the WHERE or the curator gives for this or an equal expression."""
        for condition in self._scope.where:
            listed = listed_by(condition, e)
            if listed is None or not self._spell_out(listed, type):
                continue
            values = self._constants(listed, type)
            if values is not None:
                return values
        span = self._range(e, type)
        if span is not None and not (isinstance(e, exp.Column) and self._scope.facts(e).unit):
            return span
        if isinstance(e, exp.Column):
            starts = self._starts(e, type)
            if starts is not None:
                return starts
            values = self._declared_values(e)
            return self._equal_values(e, type) if values is None and equated else values
        if is_constant(e):
            return self._constants([e], type)
        return None

    def _spell_out(self, listed: Sequence[exp.Expr], type: str) -> bool:
        """Tell whether a list holds all spellings; a text can spell one number in many ways."""
        kinds = (Family.TEXT, Family.NULL)
        return type != "VARCHAR" or all(self._scope.term(x).type.family in kinds for x in listed)

    def confined(self, column: exp.Column, type: str) -> bool:
        """Tell whether the WHERE itself limits a column to a list or range without NULL."""
        found = (listed_by(condition, column) for condition in self._scope.where)
        listed = any(x is not None and self._spell_out(x, type) for x in found)
        ranged = self._range(column, type) is not None or self._starts(column, type) is not None
        return listed or (ranged and not self._limits_of(column)[1])

    def is_ranged(self, column: exp.Column) -> bool:
        """Tell whether the WHERE says a range of times, so that their units are public."""
        spans, _ = self._limits_of(column)
        return spans is not None and (not spans or all(map(math.isfinite, spans.ends)))

    def may_be_null(self, e: exp.Expr) -> bool:
        """Tell whether an expression may be NULL on a row that fulfils the conditions."""
        return not self._scope.is_user(e) and self._scope.may_be_null(self._scope.term(e))

    def covers(self, e: exp.Expr, type: str) -> bool:
        """Tell whether an expression can have no values but the public ones."""
        if type == "BOOLEAN" or _literal_results(e) is not None:
            return True
        term = self._scope.term(e)
        return values_of(term.function) is not None or finite(ends_of_type(term)) is not None

    def _declared_values(self, column: exp.Column) -> list[Any] | None:
        facts = self._scope.facts(column)
        stored, source = facts.stored, self._scope.sources[column.table]
        keys = None if stored is None else stored.keys
        if keys is None and stored is not None and self._found:
            keys = stored.found
        if stored is not None and keys is not None:
            listed = constants([str(k) for k in keys], "VARCHAR")
            return self._values_of(
                f"SELECT TRY_CAST(v AS {stored.type}) FROM unnest({listed}) AS t(v)"
            )
        if stored is not None and source.table is not None and not source.private:
            name, field = quote(source.table.name), quote(stored.name)
            rows = self._public.values(
                f"SELECT DISTINCT {field} FROM public.{name} WHERE {field} IS NOT NULL ORDER BY 1 "
                f"LIMIT {MAX_VALUES + 1}"
            )
            return [v for (v,) in rows]
        values = facts.values() if facts.values is not None else None
        return values if values is None else self._in_range(column, values)

    def _in_range(self, column: exp.Column, values: list[Any]) -> list[Any]:
        """Remove the times that the WHERE's limits on a column exclude."""
        type = self._scope.type_of(column)
        if type not in ("DATE", "TIMESTAMP"):
            return values
        spans, _ = self._limits_of(column)
        return values if spans is None else [v for v in values if _place(v) in spans]

    def _equal_values(self, e: exp.Column, type: str) -> list[Any] | None:
        """Return the values of a column of the same type that it equals on every row."""
        for other in self._scope.equal_to(e):
            same = self._scope.type_of(other) == type
            values = self._direct(other, type, equated=False) if same else None
            if values is not None:
                return values
        return None

    def _constants(self, literals: Sequence[exp.Expr], type: str) -> list[Any] | None:
        """Evaluate constants as values of a type, without NULLs and duplicates."""
        if not all(map(is_constant, literals)):
            return None
        listed = ", ".join(f"TRY_CAST(({e.sql('duckdb')}) AS {type})" for e in literals)
        return self._values_of(f"SELECT unnest([{listed}])") if listed else []

    def _values_of(self, sql: str) -> list[Any]:
        """Return the values of a SELECT's column, without NULLs and duplicates."""
        return list(dict.fromkeys(v for (v,) in self._public.values(sql) if v is not None))

    def _range(self, e: exp.Expr, type: str) -> list[Any] | None:
        """Return all days or all integers that the WHERE admits."""
        if type != "DATE" and type not in INTEGER_TYPES:
            return None
        spans, _ = self._limits_of(e)
        if spans is None or (spans and not all(map(math.isfinite, spans.ends))):
            return None
        return _values_at(spans, type)

    def _starts(self, column: exp.Column, type: str) -> list[Any] | None:
        """Return the days or moments that a unit of time begins at, of those the WHERE lets pass.

        None unless each value of the column is one (`unit_of`), and the WHERE says a range.
        """
        unit = self._scope.facts(column).unit
        if not unit or type not in ("DATE", "TIMESTAMP") or self._scope.facts(column).zoned:
            return None
        spans, _ = self._limits_of(column)
        if spans is None or (spans and not all(map(math.isfinite, spans.ends))):
            return None
        one, units, found = (DAY if type == "DATE" else 1), UNITS[unit], list[int]()
        for a, b in spans.spans:
            first, last = units.index(math.ceil(a) * one), units.index(math.floor(b) * one)
            if last - first > MAX_VALUES:
                return None
            starts = map(units.start, range(first, last + 1))
            found += [s for s in starts if math.ceil(a) * one <= s <= math.floor(b) * one]
        if type == "DATE":
            return [_EPOCH + dt.timedelta(start // DAY) for start in found]
        return [_MOMENT + dt.timedelta(microseconds=start) for start in found]

    def _limits_of(self, e: exp.Expr) -> tuple[Spans | None, bool]:
        """Return the spans that the WHERE admits, or None if unknown, and whether NULL passes."""
        if e.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return None, True
        values = values_of_any(self._scope.term(e), self._scope.conditions())
        if values is None or not isinstance(values.known, Spans):
            return None, True
        return values.known, values.null

    def own(self, e: exp.Expr, type: str) -> list[Any] | None:
        """Return the values that this kind of expression can have, whatever its operands are."""
        if self._type_of(e) is None:
            return None
        listed = values_of(self._scope.term(e).function)
        return self._values_within(e, type) if listed is None else list(listed)

    def _values_within(self, e: exp.Expr, type: str) -> list[Any] | None:
        """Return all integers or days within the bounds of an expression."""
        whole = integral(type) or isinstance(e, exp.Floor | exp.Ceil)
        if isinstance(e, exp.Round | exp.Trunc):
            whole = e.args.get("decimals") is None
        if not whole and type != "DATE":
            return None
        held = self._type_of(e)
        if held is None:
            return None
        ends = self._scope.ends(e)
        if held.family is Family.INTEGER:
            ends = max(ends[0], held.low), min(ends[1], held.high)
        spans = self._limits_of(e)[0] if type in INTEGER_TYPES else None
        first, last = spans.ends if spans else (-math.inf, math.inf)
        least, most = max(ends[0], first), min(ends[1], last)
        if not most - least <= MAX_VALUES:
            return None
        low, high = math.ceil(least), math.floor(most)
        if type == "DATE":
            return _values_at(Spans.of([(low, high)]), type)
        return [v if integral(type) else float(v) for v in range(low, high + 1)]

    def _type_of(self, e: exp.Expr) -> Type | None:
        """Return the type of an expression over one row; None for any other."""
        if e.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return None
        return self._scope.term(e).type

    def _values_by_parts(self, e: exp.Expr) -> list[Any] | None:
        """Return the values of a function of parts with public values."""
        if isinstance(e, exp.Column):
            type = self._scope.type_of(e)
            return self._values_within(e, type)
        parts = _Parts(self, self._scope, e)
        made = parts.of(e)
        if made is None or not parts.known:
            return None
        size = math.prod(part.number for part in parts.known.values())
        if size > (_MAX_COMBINATIONS if len(parts.known) > 1 else _MAX_GRID):
            return None
        rows = ", ".join(f"({p.rows}) AS t_{name}({name})" for name, p in parts.known.items())
        reader = ExpressionReader(
            lambda c: Term(parts.known[c.name].type, c.name), self._public.constant
        )
        found = self._public.values(
            f"SELECT DISTINCT {reader.at_rest(made).sql} AS v FROM {rows} WHERE v IS NOT NULL "
            f"ORDER BY 1 LIMIT {MAX_VALUES + 1}"
        )
        return self._filter(e, [v for (v,) in found])

    def _filter(self, e: exp.Expr, values: list[Any]) -> list[Any]:
        """Remove the values that the WHERE's limits on this expression exclude."""
        if not values or not isinstance(values[0], int) or isinstance(values[0], bool):
            return values
        spans, _ = self._limits_of(e)
        return values if spans is None else [v for v in values if v in spans]

    def moments(self, column: exp.Column, of: Sequence[Term]) -> tuple[int, str] | None:
        """Return moments that represent all times of a column for the given terms.

        They are the start of each unit that decides the terms, and the last moment of each span.
        Returns None if there is no range, or if the terms may depend on times finer than all units.

        Returns:
            The number of moments, and SQL that lists them.
        """
        spans, _ = self._limits_of(column)
        assert spans is not None  # of timestamps
        bounds = self._scope.facts(column).bounds
        if bounds is not None and all(map(math.isfinite, bounds)):
            first, last = (math.floor(bound) for bound in bounds)
            spans = spans.both(Spans.of([(first * DAY, (last + 1) * DAY - 1)]))
        if not spans:
            return 1, "SELECT CAST(NULL AS TIMESTAMP)"
        if not all(map(math.isfinite, spans.ends)):
            return None
        kept = self._public.unit_of_zone if spans.ends[0] >= ZONES_SINCE * DAY else lambda _: ""
        unit = finest([fineness(t, self._scope.term(column), kept) for t in of])
        if not unit:
            return None
        within, units = spans.both(Spans.of([places_of(T.TIMESTAMP)])), UNITS[unit]
        pieces = within.spans if len(within.spans) <= _MAX_PIECES else (within.ends,)
        indices = [(units.index(int(a)), units.index(int(b))) for a, b in pieces]
        number = sum(last - first + 2 for first, last in indices)
        if number > _MAX_GRID:
            return None
        starts = ", ".join(
            f"(make_timestamp({units.start(first)}), make_timestamp({units.start(last)}))"
            for first, last in indices
        )
        step = unit if unit[0].isdigit() else f"1 {unit}"
        grid = f"unnest(generate_series(a, b, INTERVAL '{step}'))"
        ends = ", ".join(f"(make_timestamp({int(last)}))" for _, last in pieces)
        return number, f"SELECT {grid} FROM (VALUES {starts}) AS g(a, b) UNION ALL VALUES {ends}"


def _of_one_row(e: exp.Expr) -> exp.Expr | None:
    """Return f(x) for f(min(x)), also of filtered rows; else None. Its values include f(min(x)).

    A column that occurs twice may have two values at once, as in max(x) - min(x).
    """
    e = e.transform(lambda n: n.this if isinstance(n, exp.Filter) else n)
    found = [n for n in e.find_all(exp.Window, exp.AggFunc) if not _is_inside_another(n)]
    if not found:
        return e
    inside: exp.Expr = found[0]
    while _is_one_of(inside) and isinstance(inside.this, exp.Expr):
        inside = inside.this
    within = {c.sql("duckdb") for c in inside.find_all(exp.Column)}
    around = [c.sql("duckdb") for c in e.find_all(exp.Column) if not _is_within(c, found[0])]
    if len(found) > 1 or not within.isdisjoint(around):
        return None
    return inside if e is found[0] else e.transform(lambda n: inside.copy() if n == found[0] else n)


def unit_of(e: exp.Expr) -> str:
    """Return the unit of time that each value of an expression begins; "" for any other.

    Example:
        >>> from sqlglot import parse_one
        >>> unit_of(parse_one("min(date_trunc('month', x))", dialect="duckdb"))
        'month'
    """
    one, days = _of_one_row(e), False
    while one is not None and (isinstance(one, exp.Cast) or _is_one_of(one)):
        if isinstance(one, exp.Cast):
            days = days or one.to.is_type(exp.DataType.Type.DATE)
            if not one.to.is_type(exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP):
                return ""
        one = one.this
    if not isinstance(one, exp.DateTrunc | exp.TimestampTrunc) or one.args.get("zone"):
        return ""
    unit = one.args["unit"].name.lower()
    if unit not in UNITS:
        return ""
    return "day" if days and UNITS[unit].length and UNITS[unit].length < DAY else unit


def _is_one_of(e: exp.Expr) -> bool:
    return isinstance(e, exp.Paren | exp.Distinct) or chooses(e)


def _is_inside_another(e: exp.Expr) -> bool:
    return e.find_ancestor(exp.Window, exp.AggFunc) is not None


def _is_within(e: exp.Expr, other: exp.Expr) -> bool:
    return e is other or (e.parent is not None and _is_within(e.parent, other))


@dataclass(frozen=True)
class _Part:
    """A part's type, the number of its values, and SQL that lists them."""

    type: Type
    number: int
    rows: str


class _Parts:
    """The parts of one expression that have public values, each with a name."""

    def __init__(self, values: PublicValues, scope: Scope, root: exp.Expr) -> None:
        self._values = values
        self._scope = scope
        self._root = root
        self._names = count()
        self._by_text: dict[str, str] = {}
        self.known: dict[str, _Part] = {}

    def of(self, e: exp.Expr) -> exp.Expr | None:
        """Return an expression with names for its parts; None if a part has no public values."""
        if e.find(exp.Column) is None:
            return e.copy()
        if e.sql("duckdb") in self._by_text:
            return exp.column(self._by_text[e.sql("duckdb")])
        if isinstance(e, exp.Column):
            return self._column(e)
        before = dict(self._by_text), dict(self.known)
        made = self._of_children(e)
        if made is None and e is not self._root:
            self._by_text, self.known = before
            return self._whole(e)
        return made

    def _of_children(self, e: exp.Expr) -> exp.Expr | None:
        copy = e.copy()
        for name, child in list(e.args.items()):
            if isinstance(child, exp.Expr):
                done = self.of(child)
                if done is None:
                    return None
                copy.set(name, done)
            elif isinstance(child, list):
                parts = [self.of(c) if isinstance(c, exp.Expr) else c for c in child]
                if any(p is None for p in parts):
                    return None
                copy.set(name, parts)
        return copy

    def _column(self, e: exp.Column) -> exp.Expr | None:
        type = self._scope.type_of(e)
        if find_type(type) is None or self._scope.may_lack_user(e) or self._scope.is_user(e):
            return None
        values = self._values.of(e, type)
        if values is not None and len(values) <= MAX_VALUES:
            confined = self._values.confined(e, type) or not self._values.may_be_null(e)
            return self._name(e, self._scope.facts(e).held, values, confined)
        held = self._scope.facts(e).held
        try:
            root = [self._scope.term(self._root)]
        except QueryRefused:
            return None
        found = self._values.moments(e, root) if type == "TIMESTAMP" else None
        if held is None or found is None:
            return None
        number, rows = found
        return self._add(e, _Part(held, number + 1, f"{rows} UNION ALL SELECT NULL"))

    def _whole(self, e: exp.Expr) -> exp.Expr | None:
        """Take a part whole, without its columns: a truth value, a part of a date, an integer."""
        if not isinstance(e, exp.Condition | exp.Func | exp.Cast | exp.AtTimeZone):
            return None
        try:
            type = self._scope.term(e).type
        except QueryRefused:
            return None
        values = self._values.own(e, type.sql) if type.family is not Family.BOOLEAN else None
        if type.family is Family.BOOLEAN:
            values = [False, True]
        return self._name(e, type, values, False) if values else None

    def _name(
        self, e: exp.Expr, held: Type | None, values: list[Any], confined: bool
    ) -> exp.Expr | None:
        if held is None:
            return None
        # coalesce(column, 'none') has a value where the column has none
        values = [*values, *([] if confined else [None])]
        rows = f"SELECT unnest({constants(values, held.sql)})"
        return self._add(e, _Part(held, len(values), rows))

    def _add(self, e: exp.Expr, part: _Part) -> exp.Expr:
        name = f"p{next(self._names)}"
        self._by_text[e.sql("duckdb")] = name
        self.known[name] = part
        return exp.column(name)


def _place(value: dt.date) -> int:
    """Return the number of a day, or of a moment, since 1970, in the units of `Spans`."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return (value - _EPOCH).days


def is_time(type: str) -> bool:
    """Tell whether values of a DuckDB type are dates or timestamps."""
    return type in TIME_TYPES


def _values_at(spans: Spans, type: str) -> list[Any]:
    """Return the values in some spans, at most one more than the limit."""
    ends = (T.FIRST_DAY, T.LAST_DAY) if type == "DATE" else T.INT64
    parts = (range(int(a), int(b) + 1) for a, b in spans.both(Spans.of([ends])).spans)
    places = islice(chain.from_iterable(parts), MAX_VALUES + 1)
    return [_EPOCH + dt.timedelta(place) for place in places] if type == "DATE" else list(places)


def _literal_results(e: exp.Expr) -> list[exp.Expr] | None:
    """Return the results of a CASE or IF if they are all literals; else None."""
    if isinstance(e, exp.Paren):
        return _literal_results(e.this)
    if isinstance(e, exp.Case):
        parts = [i.args["true"] for i in e.args["ifs"]]
        parts += [e.args["default"]] if e.args.get("default") else []
    elif isinstance(e, exp.If):
        parts = [e.args["true"], *([e.args["false"]] if e.args.get("false") else [])]
    else:
        return None
    results: list[exp.Expr] = []
    for part in parts:
        nested = _literal_results(part)
        if nested is not None:
            results += nested
        elif isinstance(part, exp.Literal | exp.Boolean | exp.Null):
            results.append(part)
        else:
            return None
    return results
