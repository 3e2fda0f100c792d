"""Public domains of group keys: which groups an answer has must not depend on the rows.

A key's values are public when the query lists them (IN, =, a range of dates or integers), when the
curator declared them, when they come from a public table, or when the expression can take only so
many values (a truth, a month, a CASE with literal results). The strings that happen to be in a
column are facts about people and never a domain.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp

from sparseq.query.constants import constants, is_constant
from sparseq.query.parse import said
from sparseq.query.plan import Cell, Domain
from sparseq.query.public import PublicFacts
from sparseq.query.scope import Scope, integral, refuse
from sparseq.query.sources import code_of, quoted
from sparseq.query.terms import Term, constant
from sparseq.query.typed import ExpressionReader
from sparseq.query.types import TEXT, integer, type_named

MAX_VALUES = 100_000
_INLINE = 32
_PARTS = {
    "MONTH": range(1, 13), "QUARTER": range(1, 5), "DAY": range(1, 32), "HOUR": range(24),
    "MINUTE": range(60), "DOW": range(7), "DAYOFWEEK": range(7), "ISODOW": range(1, 8),
    "WEEK": range(1, 54), "DOY": range(1, 367), "DAYOFYEAR": range(1, 367),
}  # fmt: skip
_PART_NODES: dict[type, str] = {
    exp.Month: "MONTH", exp.Quarter: "QUARTER", exp.Day: "DAY", exp.DayOfMonth: "DAY",
    exp.Hour: "HOUR", exp.Minute: "MINUTE", exp.DayOfWeek: "DOW", exp.DayOfWeekIso: "ISODOW",
    exp.Week: "WEEK", exp.WeekOfYear: "WEEK", exp.DayOfYear: "DOY",
}  # fmt: skip
_COARSE = {"HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}


class Domains:
    """Finds the domain of each key of one query."""

    def __init__(self, scope: Scope, public: PublicFacts) -> None:
        self._scope = scope
        self._public = public
        self.joins = ""

    def of(self, key: exp.Expr, name: str, type: str) -> Domain:
        """Return a key's domain and how a row finds its place in it.

        Args:
            key: The expression grouped by.
            name: Its name in the answer.
            type: Its DuckDB type.

        Raises:
            QueryRefused: Nothing public says which values it has.
        """
        values = self._values(key, type)
        if values is None:
            refuse(f"the values of {said(key)} are not public", self._ways(key, type))
        if not values:
            refuse(f"no value of {said(key)} can pass the WHERE")
        if len(values) > MAX_VALUES:
            refuse(
                f"{said(key)} has {len(values):,} public values; the limit is {MAX_VALUES:,}",
                "narrow it in the WHERE, or group by something coarser",
            )
        return self._place(key, name, type, values)

    def _ways(self, key: exp.Expr, type: str) -> str:
        text = said(key)
        if type == "DATE" or type.startswith("TIMESTAMP"):
            return f"give a range: WHERE {text} BETWEEN DATE '…' AND DATE '…'"
        column = text if isinstance(key, exp.Column) else "column"
        return (
            f"list them: WHERE {text} IN (…); or ask the curator to declare them: "
            f"create --keys {column}=a,b,c; or group by a column of a public table"
        )

    # -- which values ----------------------------------------------------------------------------

    def _values(self, key: exp.Expr, type: str) -> list[Any] | None:
        """Return the key's public values in order, or None."""
        direct = self._direct(key, type)
        if direct is not None:
            return direct
        if type == "BOOLEAN":
            return [False, True]
        literal = _literal_results(key)
        if literal is not None:
            return self._constants(literal, type)
        return self._derived(key) or self._parts(key)

    def _direct(self, key: exp.Expr, type: str) -> list[Any] | None:
        """Values that the WHERE or the curator gives for the very expression."""
        for condition in self._scope.where:
            listed = _listed(condition, key)
            values = self._constants(listed, type) if listed is not None else None
            if values is not None:
                return values
        span = self._range(key, type)
        if span is not None:
            return span
        if isinstance(key, exp.Column):
            return self._declared(key)
        return None

    def _confined(self, column: exp.Column, type: str) -> bool:
        """Tell whether the WHERE itself gives a column's values, and so lets no NULL pass."""
        listed = any(_listed(condition, column) is not None for condition in self._scope.where)
        return listed or self._range(column, type) is not None

    def _declared(self, column: exp.Column) -> list[Any] | None:
        stored = self._scope.facts(column).stored
        source = self._scope.sources[column.table]
        if stored is not None and stored.keys is not None:
            listed = constants([str(k) for k in stored.keys], "VARCHAR")
            return self._typed(f"SELECT TRY_CAST(v AS {stored.type}) FROM unnest({listed}) AS t(v)")
        if stored is not None and source.table is not None and not source.private:
            name, field = quoted(source.table.name), quoted(stored.name)
            rows = self._public.values(
                f"SELECT DISTINCT {field} FROM public.{name} WHERE {field} IS NOT NULL ORDER BY 1 "
                f"LIMIT {MAX_VALUES + 1}"
            )
            return [v for (v,) in rows]
        return None

    def _constants(self, literals: Sequence[exp.Expr], type: str) -> list[Any] | None:
        """Evaluate constants as values of a type, NULLs and repeats left out."""
        if not all(map(is_constant, literals)):
            return None
        listed = ", ".join(f"TRY_CAST(({e.sql('duckdb')}) AS {type})" for e in literals)
        return self._typed(f"SELECT unnest([{listed}])") if listed else []

    def _typed(self, sql: str) -> list[Any]:
        """Return the values of a SELECT's column, NULLs and repeats left out."""
        return list(dict.fromkeys(v for (v,) in self._public.values(sql) if v is not None))

    def _range(self, key: exp.Expr, type: str) -> list[Any] | None:
        """All days, or all integers, that the WHERE lets pass."""
        if type != "DATE" and not integral(type):
            return None
        low, high = self._ends(key, type)
        if low is None or high is None:
            return None
        values = range(low, min(high, low + MAX_VALUES) + 1)
        return [dt.date.fromordinal(v) if type == "DATE" else v for v in values]

    def _ends(self, key: exp.Expr, type: str) -> tuple[int | None, int | None]:
        """Return the first and the last value that the WHERE lets pass, None where it is open.

        Of dates their ordinal numbers, as there may be no day before or after.
        """
        low = high = None
        for condition in self._scope.where:
            for operator, bound in _limits(condition, key):
                value = self._limit(bound, type)
                if value is None:
                    continue
                value = value.toordinal() if isinstance(value, dt.date) else value
                if operator in (">=", ">"):
                    first = value + 1 if operator == ">" else value
                    low = first if low is None else max(low, first)
                else:
                    last = value - 1 if operator == "<" else value
                    high = last if high is None else min(high, last)
        return low, high

    def _limit(self, e: exp.Expr, type: str) -> Any:
        """Evaluate a constant limit; None unless it is exactly a value of the type."""
        if not is_constant(e):
            return None
        wide = "TIMESTAMP" if type == "DATE" else "DOUBLE"
        sql = e.sql("duckdb")
        ((value, same),) = self._public.values(
            f"SELECT TRY_CAST(({sql}) AS {type}), "
            f"TRY_CAST(TRY_CAST(({sql}) AS {type}) AS {wide}) = TRY_CAST(({sql}) AS {wide})"
        )
        return value if same else None

    def _derived(self, key: exp.Expr) -> list[Any] | None:
        """Values of a function of one column whose own values are public."""
        columns = {c.sql("duckdb"): c for c in key.find_all(exp.Column)}
        if len(columns) != 1 or isinstance(key, exp.Column):
            return None
        (column,) = columns.values()
        type = self._scope.facts(column).type
        held = type_named(type)
        if held is None:
            return None
        domain = self._timestamps(key, column) if type.startswith("TIMESTAMP") else None
        if domain is None:
            values = self._direct(column, type) if type else None
            if values is None or len(values) > MAX_VALUES:
                return None
            if not self._confined(column, type):
                values = [*values, None]  # coalesce(column, 'none') has a value there
            domain = f"SELECT unnest({constants(values, type)}) AS c"

        reader = ExpressionReader(lambda _: Term(held, "c"), self._public.constant)
        f = reader.at_rest(key).sql
        rows = self._public.values(
            f"SELECT DISTINCT {f} AS v FROM ({domain}) WHERE v IS NOT NULL ORDER BY 1 "
            f"LIMIT {MAX_VALUES + 1}"
        )
        return [v for (v,) in rows]

    def _timestamps(self, key: exp.Expr, column: exp.Column) -> str | None:
        """Hours that stand for all times of a range, if the key looks at nothing finer."""
        if not _coarse(key):
            return None
        lows, highs = [], []
        for condition in self._scope.where:
            for operator, bound in _limits(condition, column):
                limit = f"CAST(({bound.sql('duckdb')}) AS TIMESTAMP)"
                if not is_constant(bound):
                    continue
                if operator in (">", ">="):
                    lows.append(limit)
                else:
                    highs.append(limit + (" - INTERVAL 1 MICROSECOND" if operator == "<" else ""))
        if not lows or not highs:
            return None
        return (
            f"SELECT c FROM generate_series(date_trunc('hour', greatest({', '.join(lows)})), "
            f"least({', '.join(highs)}), INTERVAL 1 HOUR) AS g(c) LIMIT {24 * MAX_VALUES}"
        )

    def _parts(self, key: exp.Expr) -> list[Any] | None:
        """Parts of a date that can take only so many values."""
        part = _PART_NODES.get(type(key), "")
        if isinstance(key, exp.Extract):
            part = key.this.name.upper()
        if isinstance(key, exp.Anonymous) and key.name.lower() in ("isodow", "weekday"):
            part = "ISODOW" if key.name.lower() == "isodow" else "DOW"
        return list(_PARTS[part]) if part in _PARTS else None

    # -- where a row finds its place -------------------------------------------------------------

    def _place(self, key: exp.Expr, name: str, type: str, values: list[Any]) -> Domain:
        domain = tuple(values)
        if isinstance(key, exp.Column):
            source, stored = self._scope.sources[key.table], self._scope.facts(key).stored
            if source.table is not None and stored is not None and stored.coded:
                column = code_of(key.name) if key.name in source.decoded else key.name
                code = exp.column(column, key.table, quoted=True).sql("duckdb")
                cell = Cell.of(Term(TEXT, code, column=stored.name))
                return Domain(name, domain, cell, (source.table.name, stored.name))
        term = self._scope.term(key)
        if type == "DATE" and _consecutive(values):
            first = exp.cast(exp.Literal.string(str(values[0])), "DATE")
            return Domain(name, domain, Cell.of(self._minus(key, first)))
        if integral(type) and type != "BOOLEAN" and _consecutive(values):
            steps = self._minus(key, exp.Literal.number(str(values[0])))
            return Domain(name, domain, Cell.of(steps))
        listed = constants(values, type)
        if len(values) <= _INLINE:
            place = f"list_position({listed}, {term.sql}) - 1"
            found = (term, *(constant(v, term.type) for v in values))
            found_at = Term(integer(0, _INLINE), place, function="place", arguments=found)
            return Domain(name, domain, Cell.of(found_at))
        alias = f'"#key{self.joins.count("LEFT JOIN")}"'
        places = f"SELECT unnest({listed}), unnest(range({len(values)})::INTEGER[])"
        self.joins += f" LEFT JOIN ({places}) AS {alias}(v, i) ON {alias}.v = ({term.sql})"
        return Domain(name, domain, Cell(f"{alias}.i"))

    def _minus(self, key: exp.Expr, first: exp.Expr) -> Term:
        return self._scope.term(exp.Sub(this=exp.paren(key.copy()), expression=first))


def _consecutive(values: list[Any]) -> bool:
    step = dt.timedelta(days=1) if isinstance(values[0], dt.date) else 1
    return all(b - a == step for a, b in pairwise(values))


def _same(a: exp.Expr, b: exp.Expr) -> bool:
    while isinstance(a, exp.Paren):
        a = a.this
    return a.sql("duckdb") == b.sql("duckdb")


def _listed(condition: exp.Expr, key: exp.Expr) -> list[exp.Expr] | None:
    """Return the values that a condition lists for the key."""
    if isinstance(condition, exp.In) and _same(condition.this, key):
        return list(condition.expressions) if not condition.args.get("query") else None
    if isinstance(condition, exp.EQ):
        if _same(condition.left, key):
            return [condition.right]
        if _same(condition.right, key):
            return [condition.left]
    if isinstance(condition, exp.Or):
        left, right = (_listed(_bare(p), key) for p in (condition.left, condition.right))
        return left + right if left is not None and right is not None else None
    return None


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


_OPERATORS: dict[type, str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def _limits(condition: exp.Expr, key: exp.Expr) -> list[tuple[str, exp.Expr]]:
    """Return what a condition says about the key: (operator, limit)."""
    if isinstance(condition, exp.Between) and _same(condition.this, key):
        return [(">=", condition.args["low"]), ("<=", condition.args["high"])]
    if isinstance(condition, exp.EQ) and _same(condition.left, key):
        return [(">=", condition.right), ("<=", condition.right)]
    if not isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return []
    operator = _OPERATORS[type(condition)]
    if _same(condition.left, key):
        return [(operator, condition.right)]
    if _same(condition.right, key):
        return [(_FLIPPED[operator], condition.left)]
    return []


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


def _coarse(key: exp.Expr) -> bool:
    """Tell whether a function of a time looks at nothing finer than the hour."""
    if isinstance(key, exp.Cast | exp.TryCast | exp.Date | exp.TsOrDsToDate):
        target = key.args.get("to")
        return target is None or target.sql("duckdb") == "DATE"
    if isinstance(key, exp.DateTrunc | exp.TimestampTrunc):
        return key.args["unit"].name.upper() in _COARSE
    if isinstance(key, exp.Extract):
        return key.this.name.upper() in {*_PARTS, "YEAR"} - {"MINUTE"}
    return type(key) in {*_PART_NODES, exp.Year} - {exp.Minute}
