"""Public values of an expression: what it can be, whatever the rows are.

They follow from the query and what was declared: a list or range in the WHERE, declared keys and
bounds, a public table, a truth, a part of a date, a CASE with constant results. An expression over
such parts has the values that it takes on all their combinations, and is computed on these. A time
in a range is stood for by a grid of moments, if the expression looks at nothing finer.
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
from sparseq.language import types as T
from sparseq.language.conditions import fineness, finest, values_of_any
from sparseq.language.expression_tree import Term
from sparseq.language.types import NULL, Family, Type, find_type
from sparseq.language.value_sets import DAY, UNITS, ZONES_SINCE, Spans, places_of
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.catalog import INTEGER_TYPES, TIME_TYPES
from sparseq.sql.from_clause import quoted
from sparseq.sql.parsed_expressions import chooses, constants, counts, is_constant, listed_by
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.scope import Scope, integral

MAX_VALUES = 100_000
_EPOCH = dt.date(1970, 1, 1)
_MAX_GRID = 2_400_000
_MAX_PIECES = 1000  # of time; more are taken as one
_MAX_COMBINATIONS = 1_000_000
_PARTS = {
    "MONTH": range(1, 13),
    "QUARTER": range(1, 5),
    "DAY": range(1, 32),
    "HOUR": range(24),
    "MINUTE": range(60),
    "SECOND": range(60),
    "DOW": range(7),
    "DAYOFWEEK": range(7),
    "WEEKDAY": range(7),
    "ISODOW": range(1, 8),
    "WEEK": range(1, 54),
    "DOY": range(1, 367),
    "DAYOFYEAR": range(1, 367),
}
_PART_NODES: dict[type, str] = {
    exp.Month: "MONTH",
    exp.Quarter: "QUARTER",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
    exp.Second: "SECOND",
    exp.DayOfWeek: "DOW",
    exp.DayOfWeekIso: "ISODOW",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.DayOfYear: "DOY",
}
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_NEVER_NULL = (
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Exists,
)
_FIRST_KNOWN = (exp.Coalesce, exp.Greatest, exp.Least, exp.Concat)
"""Functions that leave NULL out."""
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_STRICT = (
    *_COMPARED,
    exp.Paren,
    exp.Not,
    exp.And,
    exp.Or,
    exp.Between,
    exp.In,
    exp.Like,
    exp.ILike,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Neg,
    exp.Abs,
    exp.Sign,
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Trunc,
    exp.DPipe,
    exp.Lower,
    exp.Upper,
    exp.Length,
    exp.Trim,
    exp.Substring,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.Extract,
    exp.Year,
    exp.LastDay,
    exp.DateBin,
    exp.AtTimeZone,
    exp.DateDiff,
    exp.TimeToStr,
    exp.Dayname,
    exp.Monthname,
    exp.Min,
    exp.Max,
    exp.Sum,
    exp.Avg,
    exp.Interval,
)
"""Expressions that have a value where all of their parts have one."""


class PublicValues:
    """Finds the public values of the expressions of one scope.

    Args:
        scope, public: Of the query.
        found: Keys that were privately found are values of their column too, though not all.
    """

    def __init__(self, scope: Scope, public: PublicFacts, found: bool = False) -> None:
        self._scope = scope
        self._public = public
        self._found = found

    def of(self, e: exp.Expr, type: str) -> list[Any] | None:
        """Return an expression's public values in order, without NULL; None: not known.

        Args:
            e: Over the columns of the scope.
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
        """Return the same of a column of a subquery, whose type is not known yet."""
        literal = _literal_results(e)
        if literal is not None and all(isinstance(x, exp.Null) or x.is_string for x in literal):
            return self._constants(literal, "VARCHAR")
        plain = _of_one_row(e)
        if plain is None or plain.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return None
        return self.of(plain, self._scope.term(plain).type.sql)

    # -- values of the expression itself ---------------------------------------------------------

    def _direct(self, e: exp.Expr, type: str, equated: bool = True) -> list[Any] | None:
        """Values that the WHERE or the curator gives for the very expression, or an equal one."""
        for condition in self._scope.where:
            listed = listed_by(condition, e)
            if listed is None or not self._spell_out(listed, type):
                continue
            values = self._constants(listed, type)
            if values is not None:
                return values
        span = self._range(e, type)
        if span is not None:
            return span
        if isinstance(e, exp.Column):
            values = self._declared_values(e)
            return self._equal_values(e, type) if values is None and equated else values
        if is_constant(e):
            return self._constants([e], type)
        return None

    def _spell_out(self, listed: Sequence[exp.Expr], type: str) -> bool:
        """Tell whether a list holds all spellings: a text is a number in many ways."""
        kinds = (Family.TEXT, Family.NULL)
        return type != "VARCHAR" or all(self._scope.term(x).type.family in kinds for x in listed)

    def confined(self, column: exp.Column, type: str) -> bool:
        """Tell whether the WHERE itself gives a column's values, and so lets no NULL pass."""
        found = (listed_by(condition, column) for condition in self._scope.where)
        listed = any(x is not None and self._spell_out(x, type) for x in found)
        return listed or (self._range(column, type) is not None and not self._limits_of(column)[1])

    def may_be_null(self, e: exp.Expr) -> bool:
        """Tell whether NULL may pass: from the query and public facts, and so yes if in doubt."""
        if isinstance(e, exp.Column) and not self._scope.sources[e.table].optional:
            source, facts = self._scope.sources[e.table], self._scope.facts(e)
            if self._scope.is_user(e) or (facts.null is not None and not facts.null()):
                return False
            if facts.null is None and source.private and facts.stored and facts.stored.not_null:
                return False
            if facts.stored is not None and source.table is not None and not source.private:
                name, field = quoted(source.table.name), quoted(facts.stored.name)
                found = f"SELECT 1 FROM public.{name} WHERE {field} IS NULL LIMIT 1"
                if not self._public.values(found):
                    return False
        if isinstance(e, exp.Column):
            return not self._is_refuted(e)
        if isinstance(e, exp.Filter):  # of no rows that pass
            return not _is_never_null(e.this)
        if _is_never_null(e) or not isinstance(e, exp.Condition | exp.AtTimeZone):
            return False
        if is_constant(e):
            return bool(self._public.constant(f"({e.sql('duckdb')}) IS NULL"))
        if self._is_refuted(e):
            return False
        if isinstance(e, exp.Case | exp.If):
            branches = [e] if isinstance(e, exp.If) else e.args["ifs"]
            default = e.args.get("false") if isinstance(e, exp.If) else e.args.get("default")
            results = [branch.args["true"] for branch in branches]
            return default is None or any(map(self.may_be_null, [*results, default]))
        if isinstance(e, _FIRST_KNOWN):
            return all(map(self.may_be_null, e.iter_expressions()))
        return not self._is_strict(e) or any(map(self.may_be_null, e.iter_expressions()))

    def _is_strict(self, e: exp.Expr) -> bool:
        """Tell whether an expression surely has a value where all of its parts do."""
        if isinstance(e, exp.Div | exp.IntDiv | exp.Mod):
            by = e.expression
            return isinstance(by, exp.Literal) and not by.is_string and float(by.name) != 0
        if isinstance(e, exp.Cast) and not isinstance(e, exp.TryCast):
            return e.find(exp.AggFunc, exp.Window) is None and (
                self._scope.term(e.this).type.family is not Family.TEXT
            )
        if isinstance(e, exp.Anonymous):
            return e.name.upper() in ("DATE_PART", *_PARTS)
        return isinstance(e, (*_STRICT, *_PART_NODES))

    def _is_refuted(self, e: exp.Expr) -> bool:
        """Tell whether no row passes where an expression is NULL."""
        text = e.sql("duckdb")
        about = [
            c for c in self._scope.held if any(part.sql("duckdb") == text for part in c.walk())
        ]
        if not about or e.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return False
        sides = [x for c in about if isinstance(c, _COMPARED) for x in (c.left, c.right)]
        if any(side.sql("duckdb") == text for side in sides):
            return True
        if any(listed_by(c, e) is not None for c in about):
            return True
        values = values_of_any(self._scope.term(e), self._scope.held_terms())
        return values is not None and not values.null

    def covers(self, e: exp.Expr, type: str) -> bool:
        """Tell whether an expression surely has no other values than the public ones."""
        return type == "BOOLEAN" or _literal_results(e) is not None or self._part_of(e) in _PARTS

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
            name, field = quoted(source.table.name), quoted(stored.name)
            rows = self._public.values(
                f"SELECT DISTINCT {field} FROM public.{name} WHERE {field} IS NOT NULL ORDER BY 1 "
                f"LIMIT {MAX_VALUES + 1}"
            )
            return [v for (v,) in rows]
        values = facts.values() if facts.values is not None else None
        return values if values is None else self._in_range(column, values)

    def _in_range(self, column: exp.Column, values: list[Any]) -> list[Any]:
        """Leave out the times that the WHERE's limits on a column don't let pass."""
        type = self._scope.type_of(column)
        if type not in ("DATE", "TIMESTAMP"):
            return values
        spans, _ = self._limits_of(column)
        return values if spans is None else [v for v in values if _place(v) in spans]

    def _equal_values(self, e: exp.Column, type: str) -> list[Any] | None:
        """Values of a column of the same type that it equals on every row."""
        for other in self._scope.equal_to(e):
            same = self._scope.type_of(other) == type
            values = self._direct(other, type, equated=False) if same else None
            if values is not None:
                return values
        return None

    def _constants(self, literals: Sequence[exp.Expr], type: str) -> list[Any] | None:
        """Evaluate constants as values of a type, NULLs and repeats left out."""
        if not all(map(is_constant, literals)):
            return None
        listed = ", ".join(f"TRY_CAST(({e.sql('duckdb')}) AS {type})" for e in literals)
        return self._values_of(f"SELECT unnest([{listed}])") if listed else []

    def _values_of(self, sql: str) -> list[Any]:
        """Return the values of a SELECT's column, NULLs and repeats left out."""
        return list(dict.fromkeys(v for (v,) in self._public.values(sql) if v is not None))

    def _range(self, e: exp.Expr, type: str) -> list[Any] | None:
        """All days, or all integers, that the WHERE lets pass."""
        if type != "DATE" and type not in INTEGER_TYPES:
            return None
        spans, _ = self._limits_of(e)
        if spans is None or (spans and not all(map(math.isfinite, spans.ends))):
            return None
        return _values_at(spans, type)

    def _limits_of(self, e: exp.Expr) -> tuple[Spans | None, bool]:
        """Return what the WHERE lets an expression be: places, None if not known; and NULL."""
        if e.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return None, True
        values = values_of_any(self._scope.term(e), self._scope.conditions())
        if values is None or not isinstance(values.known, Spans):
            return None, True
        return values.known, values.null

    # -- values of a kind of expression ----------------------------------------------------------

    def own(self, e: exp.Expr, type: str) -> list[Any] | None:
        """Values that a kind of expression can have, whatever it is of."""
        if isinstance(e, exp.Dayname):
            return list(_DAYS)
        if isinstance(e, exp.Monthname):
            return list(_MONTHS)
        part = self._part_of(e)
        if part in _PARTS:
            return list(_PARTS[part])
        return self._values_within(e, type)

    @staticmethod
    def _part_of(e: exp.Expr) -> str:
        """Return the part of a time that an expression is; "": none that has public values."""
        if isinstance(e, exp.Extract):
            return str(e.this.name.upper())
        if isinstance(e, exp.Anonymous):
            part = e.expressions[0] if e.name.upper() == "DATE_PART" else e
            return str(part.name.upper())
        return _PART_NODES.get(e.__class__, "")

    def _values_within(self, e: exp.Expr, type: str) -> list[Any] | None:
        """All whole numbers, or days, within the bounds of an expression."""
        whole = integral(type) or isinstance(e, exp.Floor | exp.Ceil)
        if isinstance(e, exp.Round | exp.Trunc):
            whole = e.args.get("decimals") is None
        if not whole and type != "DATE":
            return None
        ends, held = self._scope.ends(e), self._type_of(e)
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

    def _type_of(self, e: exp.Expr) -> Type:
        if e.find(exp.AggFunc, exp.Window, exp.Select) is not None:
            return NULL
        return self._scope.term(e).type

    # -- values of an expression of others -------------------------------------------------------

    def _values_by_parts(self, e: exp.Expr) -> list[Any] | None:
        """Values of a function of parts whose own values are public."""
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
        reader = ExpressionReader(lambda c: Term(parts.known[c.name].type, c.name), self._constant)
        found = self._public.values(
            f"SELECT DISTINCT {reader.at_rest(made).sql} AS v FROM {rows} WHERE v IS NOT NULL "
            f"ORDER BY 1 LIMIT {MAX_VALUES + 1}"
        )
        return self._filter(e, [v for (v,) in found])

    def together(self, keys: Sequence[exp.Expr]) -> list[tuple[Any, ...]] | None:
        """Return the values that keys have at once; None: any of one may go with any of another.

        Args:
            keys: Of columns of one public table alone, or of one column alone.
        """
        found = {c.sql("duckdb"): c for key in keys for c in key.find_all(exp.Column)}
        shown = [self._scope.term(key) for key in keys]
        sources = {self._scope.sources[c.table].alias for c in found.values()}
        table = self._scope.sources[next(iter(sources))].table if len(sources) == 1 else None
        if table is not None and not table.private:
            (alias,) = sources
            columns = ", ".join(term.sql for term in shown)
            rows = f"public.{quoted(table.name)} AS {quoted(alias)}"
            if self._scope.sources[alias].optional:  # a row may find none of its rows
                rows = f'(VALUES (true), (false)) AS "#one"(found) LEFT JOIN {rows} ON "#one".found'
        elif len(found) == 1:
            (column,) = found.values()
            part = self._stands_for(column, shown) if self._is_known(column, keys) else None
            if part is None:
                return None
            reader = ExpressionReader(lambda _: Term(part.type, "v"), self._constant)
            columns = ", ".join(reader.at_rest(key).sql for key in keys)
            rows = f"({part.rows}) AS t(v)"
        else:
            return None
        sql = f"SELECT DISTINCT {columns} FROM {rows} LIMIT {MAX_VALUES + 1}"
        values = self._public.values(sql)
        return None if len(values) > MAX_VALUES else values

    def _is_known(self, column: exp.Column, keys: Sequence[exp.Expr]) -> bool:
        """Tell whether each row that is in a group of some keys has a public value of a column.

        Declared keys are not all values that a column may have; bounds are, as values are cut to
        them.
        """
        if column in keys:
            return True
        type, stored = self._scope.type_of(column), self._scope.facts(column).stored
        listed = stored is not None and (stored.keys is not None or stored.found is not None)
        return self.confined(column, type) or (is_time(type) and not listed)

    def _stands_for(self, column: exp.Column, of: Sequence[Term]) -> _Part | None:
        """Return values of a column that stand for all, as far as some terms of it go."""
        type, held = self._scope.type_of(column), self._scope.facts(column).held
        values = self.of(column, type) if held is not None else None
        if held is not None and values is not None and len(values) <= MAX_VALUES:
            return _Part(
                held, len(values), f"SELECT unnest({constants([*values, None], held.sql)})"
            )
        moments = self.moments(column, of) if type == "TIMESTAMP" else None
        if moments is None or held is None:
            return None
        return _Part(held, moments[0], f"{moments[1]} UNION ALL SELECT NULL")

    def _constant(self, sql: str) -> Any:
        return self._public.constant(sql)

    def _filter(self, e: exp.Expr, values: list[Any]) -> list[Any]:
        """Leave out what the WHERE's limits on the very expression don't let pass."""
        if not values or not isinstance(values[0], int) or isinstance(values[0], bool):
            return values
        spans, _ = self._limits_of(e)
        return values if spans is None else [v for v in values if v in spans]

    def moments(self, column: exp.Column, of: Sequence[Term]) -> tuple[int, str] | None:
        """Return moments that stand for all times of a column, as far as some terms of it go.

        They are the beginning of each unit that decides the terms, and the last moment of each
        stretch. None: there is no range, or the terms may look at less than all units.

        Returns:
            How many, and SQL of them.
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
    """Return f(x) for f(min(x)), also of some rows: its values are among those; else None.

    A column that is there twice may have two values at once, as in max(x) - min(x).
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


def _is_one_of(e: exp.Expr) -> bool:
    return isinstance(e, exp.Paren | exp.Distinct) or chooses(e)


def _is_never_null(e: exp.Expr) -> bool:
    return isinstance(e, _NEVER_NULL) or counts(e)


def _is_inside_another(e: exp.Expr) -> bool:
    return e.find_ancestor(exp.Window, exp.AggFunc) is not None


def _is_within(e: exp.Expr, other: exp.Expr) -> bool:
    return e is other or (e.parent is not None and _is_within(e.parent, other))


@dataclass(frozen=True)
class _Part:
    """A part's type, how many values it has, and SQL of them."""

    type: Type
    number: int
    rows: str


class _Parts:
    """The parts of one expression that have public values, each under a name."""

    def __init__(self, values: PublicValues, scope: Scope, root: exp.Expr) -> None:
        self._values = values
        self._scope = scope
        self._root = root
        self._names = count()
        self._by_text: dict[str, str] = {}
        self.known: dict[str, _Part] = {}

    def of(self, e: exp.Expr) -> exp.Expr | None:
        """Return an expression with names for its parts; None: some part has no public values."""
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
        """Take a part as it is, its columns unknown: a truth, a part of a date, a whole number."""
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
    """Return a day's number, or a moment's, from 1970 on: as `Spans` have them."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return (value - _EPOCH).days


def is_time(type: str) -> bool:
    """Tell whether values of a DuckDB type are dates or timestamps."""
    return type in TIME_TYPES


def _values_at(spans: Spans, type: str) -> list[Any]:
    """Return the values at some places, up to one more than are answered."""
    ends = (T.FIRST_DAY, T.LAST_DAY) if type == "DATE" else T.INT64
    parts = (range(int(a), int(b) + 1) for a, b in spans.both(Spans.of([ends])).spans)
    places = islice(chain.from_iterable(parts), MAX_VALUES + 1)
    return [_EPOCH + dt.timedelta(place) for place in places] if type == "DATE" else list(places)


def _literal_results(e: exp.Expr) -> list[exp.Expr] | None:
    """Return the results of a CASE or IF that has only literal ones."""
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
