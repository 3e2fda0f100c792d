"""Aggregates of the outer SELECT, as measures: linear queries with noise of their own.

COUNT(*), COUNT(x), COUNTIF(c)     one measure, the number of rows          scale 1
COUNT(DISTINCT user)               one measure, 1 for a user with a row     scale 1
SUM(x)                             one measure                              scale from bounds
AVG, VAR, STDDEV                   N, sum of x - c, sum of (x - c)², with c the middle of the
                                   public bounds, which halves the scale; then arithmetic
CORR, COVAR_…, REGR_…              rows with both values, and moments of the two
HISTOGRAM, MEDIAN, QUANTILE        rows by declared bin

Public domains of group keys: which groups an answer has must not depend on the rows.

Which values those are is found in `sparseq.sql.public_values`. The strings that happen to be
in a column are facts about people and never a domain.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sqlglot import exp

from sparseq.language.expression_tree import Term, call, constant
from sparseq.language.interval_arithmetic import MINUS, OVER, PLUS, TIMES, rising_rule
from sparseq.language.types import BOOLEAN, DOUBLE, TEXT, Family, integer
from sparseq.released import outputs as out
from sparseq.released.outputs import (
    ExtremeNode,
    PairMoments,
    PossibleKeys,
    QuantileNode,
    RatioNode,
    VarianceNode,
)
from sparseq.sql.catalog import OTHER, Column, FoundTuples
from sparseq.sql.from_clause import code_of
from sparseq.sql.normalize import PAIRED
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import constants, is_binned
from sparseq.sql.plan import (
    AVERAGE,
    PAIR,
    QUANTILE,
    ROWS,
    VARIANCE,
    Cell,
    Domain,
    Kind,
    Measure,
    Statistic,
)
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_values import MAX_VALUES, PublicValues
from sparseq.sql.scope import Scope, integral, refuse

# -- public domains of group keys: which groups an answer has must not depend on the rows ----------

_INLINE = 32


class Domains:
    """Finds the domain of each key of one query.

    Args:
        scope, public: Of the query.
        in_sql: Every key's place is in its SQL; none is looked up in a private dictionary.
    """

    def __init__(self, scope: Scope, public: PublicFacts, in_sql: bool = False) -> None:
        self._in_sql = in_sql
        self._scope = scope
        self._values = PublicValues(scope, public)
        self._over_found = PublicValues(scope, public, found=True)
        self.joins = ""

    def of_tuples(
        self,
        columns: Sequence[exp.Expr],
        names: Sequence[tuple[str, int]],
        types: Sequence[str],
        found: FoundTuples,
    ) -> Domain:
        """Return the domain of several keys that were found together: their tuples, and the rest.

        Args:
            columns: The keys.
            names: What they are called, and their places among all keys.
            types: Their DuckDB types.
            found: In the order of the columns.
        """
        passing = [self._values.of(c, t) for c, t in zip(columns, types, strict=True)]
        kept = [
            some
            for some in found.values
            if all(p is None or v in p for v, p in zip(some, passing, strict=True))
        ]
        alias = f'"#key{self.joins.count("LEFT JOIN")}"'
        lists = [
            f"unnest({constants([some[i] for some in kept], t) if kept else f'[]::{t}[]'})"
            for i, t in enumerate(types)
        ]
        fields = [f"v{i}" for i in range(len(types))]
        same = " AND ".join(
            f"{alias}.{field} = ({self._scope.term(c).sql})"
            for field, c in zip(fields, columns, strict=True)
        )
        places = f"SELECT {', '.join(lists)}, unnest(range({len(kept)})::INTEGER[])"
        self.joins += f" LEFT JOIN ({places}) AS {alias}({', '.join(fields)}, i) ON {same}"
        rest = tuple(_of_the_rest(type) for type in types)
        cell = Cell(f"coalesce({alias}.i, {len(kept)})")
        name = ", ".join(name for name, _ in names)
        return Domain(name, (*kept, rest), cell, rest=True, keys=tuple(names))

    def is_public(self, key: exp.Expr, type: str) -> bool:
        """Tell whether a key has public values by itself."""
        return self._values.of(key, type) is not None or self._found(key, type) is not None

    def of(self, key: exp.Expr, name: str, type: str) -> Domain:
        """Return a key's domain and how a row finds its place in it.

        Args:
            key: The expression grouped by.
            name: Its name in the answer.
            type: Its DuckDB type.

        Raises:
            QueryRefused: Nothing public says which values it has.
        """
        values = self._values.of(key, type)
        found = self._found(key, type) if values is None else None
        null = self._values.may_be_null(key)
        if found is not None:
            return self._with_rest(key, name, type, found, null)
        if values is None:
            refuse(f"the values of {said(key)} are not public", self._ways(key, type))
        if not values and not null:
            refuse(
                f"no value of {said(key)} can pass the WHERE",
                "ask within what is declared of it, or the curator for wider bounds or more keys",
            )
        if len(values) > MAX_VALUES:
            refuse(
                f"{said(key)} has {len(values):,} public values; the limit is {MAX_VALUES:,}",
                "narrow it in the WHERE, or group by something coarser",
            )
        return self._place(key, name, type, (*values, None) if null else tuple(values))

    def _ways(self, key: exp.Expr, type: str) -> str:
        columns = {said(c) for c in key.find_all(exp.Column)}
        text = said(key)
        if type == "DATE" or type.startswith("TIMESTAMP"):
            text = columns.pop() if len(columns) == 1 else text
            return f"give a range: WHERE {text} BETWEEN DATE '…' AND DATE '…'"
        column = text if isinstance(key, exp.Column) else "column"
        if column.lower() in {t.user.lower() for t in self._scope.public.catalog.private}:
            return f"count people: SELECT count(DISTINCT {column}), in groups that many share"
        return (
            f"list them: WHERE {text} IN (…); or ask the curator to declare them: "
            f"create --keys {column}=a,b,c; or group by a column of a public table"
        )

    def _found(self, key: exp.Expr, type: str) -> tuple[Any, ...] | None:
        """Return the keys that were privately found of a stored column, or what is made of them.

        All other rows are one more value, though a function of theirs may be that of a found key's.
        """
        if isinstance(key, exp.Column):
            stored = self._scope.facts(key).stored
            return None if stored is None else stored.found
        values = self._over_found.of(key, type)
        return None if values is None else tuple(v for v in values if v != OTHER)

    def _with_rest(
        self, key: exp.Expr, name: str, type: str, found: tuple[Any, ...], null: bool
    ) -> Domain:
        """Return found keys as a domain, with one more value for all other rows.

        NULL is a key of its own among texts; of other types it is with all other rows.
        """
        term, rest = self._scope.term(key), _of_the_rest(type)
        known = (*found, *([None] if null and rest is not None else []))
        place = f"coalesce({self._join(term, known, type)}, {len(known)})"
        return Domain(name, (*known, rest), Cell(place), key=term, rest=True)

    # -- where a row finds its place -------------------------------------------------------------

    def _place(self, key: exp.Expr, name: str, type: str, values: tuple[Any, ...]) -> Domain:
        if isinstance(key, exp.Column) and not self._in_sql:
            source, stored = self._scope.sources[key.table], self._scope.facts(key).stored
            if source.table is not None and stored is not None and stored.coded:
                column = code_of(key.name) if key.name in source.decoded else key.name
                code = exp.column(column, key.table, quoted=True).sql("duckdb")
                cell = Cell.of(Term(TEXT, code, column=stored.name))
                text = exp.column(key.name, key.table, quoted=True).sql("duckdb")
                column_term = Term(TEXT, text, column=stored.name)
                return Domain(name, values, cell, (source.table.name, stored.name), column_term)
        term = self._scope.term(key)
        known = [v for v in values if v is not None]
        whole = type == "DATE" or (integral(type) and type != "BOOLEAN")
        if known and whole and _consecutive(known):
            first: exp.Expr = exp.Literal.number(str(known[0]))
            if type == "DATE":
                first = exp.cast(exp.Literal.string(str(known[0])), "DATE")
            steps = self._minus(key, first)
            cell = Cell.of(steps if None not in values else _or_null(term, steps, len(known)))
        elif len(known) <= _INLINE:
            cell = _place_among(term, values)
        else:
            cell = Cell(self._join(term, values, type))
        return Domain(name, values, cell, key=term)

    def _join(self, term: Term, values: Sequence[Any], type: str) -> str:
        """Join the values; return SQL of a row's place among them, NULL for none."""
        alias = f'"#key{self.joins.count("LEFT JOIN")}"'
        known = [v for v in values if v is not None]
        listed = constants(known, type) if known else f"[]::{type}[]"
        places = f"SELECT unnest({listed}), unnest(range({len(known)})::INTEGER[])"
        self.joins += f" LEFT JOIN ({places}) AS {alias}(v, i) ON {alias}.v = ({term.sql})"
        if len(known) == len(values):
            return f"{alias}.i"
        return f"CASE WHEN ({term.sql}) IS NULL THEN {len(known)} ELSE {alias}.i END"

    def _minus(self, key: exp.Expr, first: exp.Expr) -> Term:
        return self._scope.term(exp.Sub(this=exp.paren(key.copy()), expression=first))


def possible_keys(
    scope: Scope, keys: Sequence[exp.Expr], domains: Sequence[Domain]
) -> tuple[PossibleKeys, ...]:
    """Return which values keys of one column, or of one public table, have at once.

    So a year has its own months, and a product its name. None of what no row can have is shown.
    """
    by: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        columns = {c.sql("duckdb"): c for c in key.find_all(exp.Column)}
        tables = {c.table for c in columns.values()}
        public = len(tables) == 1 and not scope.sources[next(iter(tables))].private
        if public or len(columns) == 1:
            by.setdefault(next(iter(tables if public else columns)), []).append(i)
    found = []
    for places in (tuple(some) for some in by.values() if len(some) > 1):
        if any(domains[i].rest and domains[i].values[-1] is None for i in places):
            continue  # of the rest, which can't be told from NULL
        related = [keys[i] for i in places]
        values = PublicValues(scope, scope.public).together(related)
        if values is not None and len(values) < math.prod(len(domains[i].values) for i in places):
            rest = tuple(domains[i].values[-1] if domains[i].rest else None for i in places)
            found.append(PossibleKeys(places, frozenset(values), rest))
    return tuple(found)


def _of_the_rest(type: str) -> str | None:
    """Return the key of all rows that have none of the found keys."""
    return OTHER if type == "VARCHAR" else None


def narrow(domain: Domain, values: Sequence[Any]) -> Domain | None:
    """Return a domain of some of its values alone; None: a row's place among them can't be told."""
    if domain.dictionary is not None:
        return replace(domain, values=tuple(values))
    term = domain.key
    if term is None or len(values) > _INLINE:
        return None
    return replace(domain, values=tuple(values), position=_place_among(term, values))


def _place_among(term: Term, values: Sequence[Any]) -> Cell:
    """Return the place of a value among a few, of which the last may be NULL."""
    known = [v for v in values if v is not None]
    place = f"list_position({constants(known, term.type.sql)}, {term.sql}) - 1" if known else "-1"
    if len(known) < len(values):
        place = f"CASE WHEN {term.sql} IS NULL THEN {len(known)} ELSE {place} END"
    found = (term, *(constant(v, term.type) for v in values))
    return Cell.of(Term(integer(-1, _INLINE), place, function="place", arguments=found))


def _or_null(term: Term, place: Term, last: int) -> Term:
    """Return a place below the last one where a term has a value; the last where it has none."""
    end = constant(last, integer(last, last))
    before = call("<", "({0} < {1})", BOOLEAN, place, end)
    missing = call("is null", "({0} IS NULL)", BOOLEAN, term)
    sql = "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} END"
    return call("case", sql, place.type, before, place, missing, end)


def _consecutive(values: list[Any]) -> bool:
    step = dt.timedelta(days=1) if isinstance(values[0], dt.date) else 1
    return all(b - a == step for a, b in pairwise(values))


# -- the bin of a value, as a cell of a row --------------------------------------------------------

DEFAULT_BINS = 64


def even_bins(low: float, high: float) -> tuple[float, ...]:
    """Return the edges of bins that nobody has given."""
    return tuple(np.linspace(low, high, DEFAULT_BINS + 1).tolist())


def as_double(term: Term) -> Term:
    """Return a term as a DOUBLE."""
    return call("cast to DOUBLE", "TRY_CAST({0} AS DOUBLE)", DOUBLE, term)


def bin_of(value: Cell, edges: Sequence[float], nearest: bool) -> Cell:
    """Return the place of the bin [edge, next edge) that a value lies in; the last one is closed.

    -1 where it lies in none, or has no value.

    Args:
        value: A number.
        edges: Ascending.
        nearest: Of what lies outside, the bin that is nearest.
    """
    number = None if value.term is None else as_double(value.term)
    x = f"TRY_CAST({value.sql} AS DOUBLE)" if number is None else number.sql
    known = f"isfinite({x})" if nearest else f"{x} BETWEEN {edges[0]!r} AND {edges[-1]!r}"
    place = f"CASE WHEN {known} THEN {_bin_sql(x, edges, 0, len(edges) - 1)} ELSE -1 END"
    if number is None:
        return Cell(place)
    arguments = (number, *(constant(edge, DOUBLE) for edge in edges))
    name = "nearest bin" if nearest else "bin"
    return Cell.of(Term(integer(-1, len(edges) - 2), place, function=name, arguments=arguments))


def _bin_sql(x: str, edges: Sequence[float], first: int, last: int) -> str:
    """Return SQL of the bin that x lies in, among those from edge `first` to edge `last`."""
    if last - first == 1:
        return str(first)
    middle = (first + last) // 2
    below, above = _bin_sql(x, edges, first, middle), _bin_sql(x, edges, middle, last)
    return f"CASE WHEN {x} < {edges[middle]!r} THEN {below} ELSE {above} END"


def less(value: Cell, amount: float) -> Cell:
    """Return a number less a constant, as a DOUBLE.

    Example:
        >>> less(Cell("v0"), 2.5).sql
        "(TRY_CAST(v0 AS DOUBLE) - CAST('2.5' AS DOUBLE))"
    """
    taken = constant(amount, DOUBLE)
    if value.term is None:
        return Cell(f"(TRY_CAST({value.sql} AS DOUBLE) - {taken.sql})")
    return Cell.of(call("-", "({0} - {1})", DOUBLE, as_double(value.term), taken))


def times(one: Cell, other: Cell) -> Cell:
    """Return the product of two DOUBLEs."""
    if one.term is None or other.term is None:
        return Cell(f"({one.sql} * {other.sql})")
    return Cell.of(call("*", "({0} * {1})", DOUBLE, one.term, other.term))


# -- aggregates of the outer SELECT, as measures: linear queries with noise of their own -----------

MAX_BINS = 1000
_VARIANCES = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp)
_MINIMA: dict[type, str] = {
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.LogicalAnd: "BOOL_AND",
    exp.LogicalOr: "BOOL_OR",
    exp.ArgMax: "ARG_MAX",
    exp.ArgMin: "ARG_MIN",
}


class Aggregates:
    """Collects the measures of one query; the same aggregate asked twice is one measure.

    Attributes:
        unbounded: Tables and columns of sums whose bounds nobody has declared or found.
        cut: What is said of sums of columns whose bounds were found.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._measures: list[Measure] = []
        self._places: dict[Measure, int] = {}  # without their labels
        self._averages: list[tuple[int, ...]] = []
        self._variances: list[tuple[int, ...]] = []
        self._pairs: list[tuple[int, ...]] = []
        self._quantiles: dict[int, set[float]] = {}
        self.unbounded: dict[tuple[str, str], None] = {}
        self.cut: dict[str, None] = {}

    def is_histogram(self, e: exp.Expr) -> bool:
        """Tell whether an expression is HISTOGRAM."""
        e = e.this if isinstance(e, exp.Filter) else e
        return isinstance(e, exp.Anonymous) and e.name.lower() == "histogram"

    def has_histogram(self, select: exp.Select) -> bool:
        """Tell whether a HISTOGRAM is selected."""
        return any(self.is_histogram(e.unalias()) for e in select.expressions)

    def values(self) -> list[str]:
        """Return the SQL of every measure's value, for their types."""
        return [m.value.sql for m in self._measures if m.value is not None]

    def measures(self, types: Sequence[str]) -> tuple[Measure, ...]:
        """Return the measures, now that the types of `values` are known."""
        found = iter(types)
        roles = {i: s.said for s in self.statistics() for i in s.places}
        return tuple(
            replace(m if m.value is None else self._type(m, next(found)), role=roles.get(i, ""))
            for i, m in enumerate(self._measures)
        )

    def _type(self, m: Measure, type: str) -> Measure:
        if m.kind is not Kind.SUM:
            return m
        numeric = integral(type) or type in ("DOUBLE", "FLOAT") or type.startswith("DECIMAL")
        if not numeric:
            refuse(f"{m.label}: the values are {type}, not numbers", "CAST them, or count instead")
        return replace(m, integral=integral(type))

    def _add(self, measure: Measure, role: str = "") -> int:
        """Return the place of a measure; those of a statistic are its own."""
        key = replace(measure, label="", role=role)
        place = self._places.setdefault(key, len(self._measures))
        if place == len(self._measures):
            self._measures.append(measure)
        return place

    def _role(self, value: exp.Expr) -> str:
        """Return the role of measures of a value's moments: none where it has no bounds."""
        bounds = self._scope.bounds(value) if self._scope.public.weighted else None
        return "moments" if bounds is not None and bounds[0] < bounds[1] else ""

    # -- one aggregate ---------------------------------------------------------------------------

    def node(self, e: exp.Expr) -> out.Node:
        """Return the post-processing that gives an aggregate; adds the measures it needs."""
        condition = None
        label = said(e)
        if isinstance(e, exp.Filter):
            condition, e = e.expression.this, e.this
        if isinstance(e, exp.Min | exp.Max) and (one := self._scope.only_value(e.this)) is not None:
            return out.constant(one)
        if isinstance(e, exp.First | exp.Last | exp.AnyValue):
            refuse("one person's value is never released", "use HISTOGRAM or MEDIAN")
        if isinstance(e, exp.Mode):
            refuse(
                f"{label} goes with group keys only, and without FILTER",
                "count each value: SELECT x, count(*) … GROUP BY x ORDER BY count(*) DESC LIMIT 1",
            )
        if isinstance(e, exp.Min | exp.Max):
            extreme = self._extreme(e, condition, label)
            if extreme is not None:
                return extreme
        if type(e) in _MINIMA:
            refuse(
                f"{_MINIMA[type(e)]} is the value of one person; noise would hide all of it",
                "use QUANTILE(x, 0.01, [edges]), or COUNTIF(…)",
            )
        if isinstance(e, exp.Count):
            return self._count(e, condition, label)
        if isinstance(e, exp.CountIf):
            return out.measure(self._rows(_and(e.this, condition), label))
        if isinstance(e, exp.Sum):
            return out.measure(self._sum(self._bound(_argument(e)), condition, label))
        if isinstance(e, exp.Avg):
            return self._average(self._bound(_argument(e)), condition)
        if isinstance(e, _VARIANCES):
            return self._variance(e, condition)
        if type(e) in PAIRED:
            return self._pair(e, condition)
        if is_binned(e) and not self.is_histogram(e):
            return self._quantile(e, condition, label)
        if self.is_histogram(e):
            refuse("HISTOGRAM goes with group keys only", "ask for the rest in another query")
        refuse(f"{label} is not answered", "use COUNT, SUM, AVG, STDDEV, HISTOGRAM or QUANTILE")

    def _count(self, e: exp.Count, condition: exp.Expr | None, label: str) -> out.Node:
        inside = e.this
        if isinstance(inside, exp.Distinct):
            return self._distinct(inside, condition, label)
        if len(e.expressions) > 0:
            refuse(f"{label} counts more than one column", "count one, or COUNT(*)")
        if isinstance(inside, exp.Star) or self._scope.is_user(inside):
            return out.measure(self._rows(condition, label))
        return out.measure(self._rows(_and(_present(inside), condition), label))

    def _distinct(self, e: exp.Distinct, condition: exp.Expr | None, label: str) -> out.Node:
        """COUNT(DISTINCT user), or of CASE WHEN … THEN user END."""
        inside = e.expressions[0] if len(e.expressions) == 1 else None
        branch = _only_branch(inside)
        if branch is not None:
            condition, inside = _and(branch.this, condition), branch.args["true"]
        if inside is not None and self._scope.may_lack_user(inside):
            condition = _and(_present(inside), condition)
        elif inside is None or not (
            self._scope.is_user(inside) or self._scope.is_person_in_a_window(inside)
        ):
            refuse(
                f"{label}: only users can be counted distinct, as which other values occur is "
                "a fact about people",
                f"count(DISTINCT {self._scope.user_name}); or GROUP BY the column with a public "
                "domain; of numbers that one person each has, such as an order's, ask the curator "
                "to say so: create --keys COLUMN=@own",
            )
        return out.measure(self._add(Measure(Kind.USERS, self._truth(condition), label)))

    def _truth(self, condition: exp.Expr | None) -> Cell | None:
        return None if condition is None else Cell.of(self._scope.truth(condition))

    def _rows(self, condition: exp.Expr | None, label: str) -> int:
        return self._add(Measure(Kind.ROWS, self._truth(condition), label))

    def _sum(self, value: exp.Expr, condition: exp.Expr | None, label: str, role: str = "") -> int:
        if self._scope.is_user(value) or self._scope.may_lack_user(value):
            refuse(f"{label} adds up identifiers", "COUNT(DISTINCT user) counts users")
        bounds = self._scope.bounds(value)
        scale = max(map(abs, bounds)) if bounds is not None else None
        if bounds is not None and ROWS in self._scope.public.limits:
            value = _clamp(value, bounds)
        if condition is not None:
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        cell = Cell.of(self._scope.term(value))
        column = value.meta.get("column")
        stored = None if column is None else self._scope.facts(column).stored
        return self._add(
            Measure(
                Kind.SUM,
                cell,
                label,
                integral=False,
                scale=scale or None,
                bounds=bounds if scale else None,
                cut="" if stored is None else stored.name,
            ),
            role,
        )

    def _bound(self, value: exp.Expr) -> exp.Expr:
        """Return a value with its columns cut to bounds that were found, where it has no bounds."""
        if self._scope.bounds(value) is not None:
            return value

        def cut(e: exp.Expr) -> exp.Expr:
            return self._cut(e) if isinstance(e, exp.Column) else e

        return value.copy().transform(cut)

    def _cut(self, column: exp.Column) -> exp.Expr:
        """Return a column cut to bounds that were found; itself, where there are none."""
        public, source = self._scope.public, self._scope.sources.get(column.table)
        stored = None if source is None else self._scope.facts(column).stored
        if source is None or source.table is None or not source.private or stored is None:
            return column
        is_number = stored.integral or stored.type.startswith(("DOUBLE", "FLOAT", "DECIMAL"))
        if stored.bounds is not None or not is_number:
            return column
        place = source.table.name, stored.name
        found = public.found_bounds.by_column.get(place)
        if found is None and not public.found_bounds.asks:
            return column
        if found is None:
            self.unbounded[place] = None
            return _cut_to(column, (-1.0, 1.0), stored) if public.assumes_bounds else column
        self.cut[found.said(stored.name)] = None
        return _cut_to(column, (found.low, found.high), stored)

    def _average(self, value: exp.Expr, condition: exp.Expr | None) -> out.Node:
        number, total, middle = self._moments(value, condition)
        if self._scope.public.weighted:
            if self._role(value):
                self._averages.append((number, total))
            return RatioNode(total, number)
        mean = out.apply(OVER, out.measure(total), out.measure(number))
        mean = out.apply(PLUS, out.constant(middle), mean) if middle else mean
        bounds = self._scope.bounds(value)
        if bounds is None:
            return mean
        return out.apply(rising_rule(lambda x: np.clip(x, *bounds)), mean)

    def _moments(self, value: exp.Expr, condition: exp.Expr | None) -> tuple[int, int, float]:
        """Return the places of the number and the sum of values, and what was taken from each."""
        (middle, centred), role = self._centre(value), self._role(value)
        number = self._finite_rows(value, condition, role)
        name = _moment("sum", value, condition, middle)
        return number, self._sum(centred, condition, name, role), middle

    def statistics(self) -> tuple[Statistic, ...]:
        """Return what is made of measures of which nothing else is made: they have a role."""
        variances = dict.fromkeys(self._variances)
        with_variance = {places[:2] for places in variances}
        averages = [p for p in dict.fromkeys(self._averages) if p not in with_variance]
        return (
            *(Statistic(AVERAGE, places) for places in averages),
            *(Statistic(VARIANCE, places) for places in variances),
            *(Statistic(PAIR, places) for places in dict.fromkeys(self._pairs)),
            *(Statistic(QUANTILE, (i,), tuple(sorted(q))) for i, q in self._quantiles.items()),
        )

    def _finite_rows(self, value: exp.Expr, condition: exp.Expr | None, role: str = "") -> int:
        """Count the rows that a sum of the value takes in: not NULL, NaN or infinite."""
        number = as_double(self._scope.term(value))
        counts = call("isfinite", "isfinite({0})", BOOLEAN, number)
        if condition is not None:
            counts = call("and", "({0} AND ({1}))", BOOLEAN, counts, self._scope.truth(condition))
        name = _moment("number", value, condition)
        return self._add(Measure(Kind.ROWS, Cell.of(counts), name), role)

    def _centre(self, value: exp.Expr) -> tuple[float, exp.Expr]:
        """Return the middle of the public bounds, and the value minus it.

        In weighted answers the stream takes a released centre.
        """
        bounds = None if self._scope.public.weighted else self._scope.bounds(value)
        middle = (bounds[0] + bounds[1]) / 2 if bounds is not None else 0.0
        if middle == 0:
            return 0.0, value
        literal = exp.cast(exp.Literal.number(repr(middle)), "DOUBLE")
        return middle, exp.Sub(this=exp.paren(value.copy()), expression=literal)

    def _variance(self, e: exp.Expr, condition: exp.Expr | None) -> out.Node:
        value = self._bound(_argument(e))
        number, total, middle = self._moments(value, condition)
        _, centred = self._centre(value)
        square = exp.Mul(this=exp.paren(centred.copy()), expression=exp.paren(centred.copy()))
        name = _moment("sum of squares", value, condition, middle)
        squares = self._sum(square, condition, name, self._role(value))
        if self._role(value):
            self._variances.append((number, total, squares))
        n, s, q = map(out.measure, (number, total, squares))
        around = out.apply(MINUS, q, out.apply(OVER, out.apply(TIMES, s, s), n))
        population = isinstance(e, exp.VariancePop | exp.StddevPop)
        divisor = n if population else out.apply(MINUS, n, out.constant(1))
        variance = out.apply(
            rising_rule(lambda x: np.maximum(x, 0)), out.apply(OVER, around, divisor)
        )
        if self._scope.public.weighted:
            variance = VarianceNode((number, total, squares), population, variance)
        root = isinstance(e, exp.Stddev | exp.StddevPop | exp.StddevSamp)
        return out.apply(rising_rule(np.sqrt), variance) if root else variance

    def _pair(self, e: exp.Expr, condition: exp.Expr | None) -> out.Node:
        y, x = self._bound(_argument(e)), self._bound(e.args["expression"])
        both = exp.Mul(this=exp.paren(y.copy()), expression=exp.paren(x.copy()))
        counted = _and(exp.Anonymous(this="isfinite", expressions=[both]), condition)
        own = self._role(x) and self._role(y) and not isinstance(e, exp.RegrCount)
        if isinstance(e, exp.RegrAvgx | exp.RegrAvgy) and not own:
            return self._average(x if isinstance(e, exp.RegrAvgx) else y, counted)
        (middle_y, from_y), (middle_x, from_x) = self._centre(y), self._centre(x)
        role = PAIR if own else ""

        def named(which: str, value: exp.Expr) -> str:
            return _moment(which, value, condition) + (" in pairs" if own else "")

        def total(*factors: exp.Expr) -> int:
            value = factors[0]
            for factor in factors[1:]:
                value = exp.Mul(this=exp.paren(value.copy()), expression=exp.paren(factor.copy()))
            return self._sum(value, counted, named("sum", value), role)

        number = self._add(Measure(Kind.ROWS, self._truth(counted), named("number", both)), role)
        factors = (from_x,), (from_y,), (from_x, from_x), (from_y, from_y), (from_x, from_y)
        places = (number, *(total(*some) for some in factors)) if own else ()
        if own:
            self._pairs.append(places)

        def moment(i: int) -> Callable[[], out.Node]:
            return lambda: out.measure(total(*factors[i]))

        x_of, y_of, xx_of, yy_of, xy_of = map(moment, range(5))
        return PairMoments(
            out.measure(number), x_of, y_of, xx_of, yy_of, xy_of, middle_x, middle_y, places
        ).statistic(PAIRED[type(e)])

    # -- bins ------------------------------------------------------------------------------------

    def histogram(self, e: exp.Expr) -> int:
        """Return the measure of HISTOGRAM(x, [edges]): rows in [edge, next edge), last closed."""
        condition, label = None, said(e)
        if isinstance(e, exp.Filter):
            condition, e = e.expression.this, e.this
        value, _, edges = self._binned_arguments(e, label)
        return self._binned_rows(value, condition, edges, label, clamp=False)

    def _quantile(self, e: exp.Expr, condition: exp.Expr | None, label: str) -> out.Node:
        value, q, edges = self._binned_arguments(e, label)
        own = self._scope.public.weighted and 0 < q < 1
        role = "quantile" if own else ""
        i = self._binned_rows(value, condition, edges, label, clamp=True, role=role)
        if own:
            self._quantiles.setdefault(i, set()).add(q)
        return QuantileNode(i, q, edges)

    def _extreme(
        self, e: exp.Min | exp.Max, condition: exp.Expr | None, label: str
    ) -> out.Node | None:
        """Return MIN or MAX of numbers between public bounds; None: it is of something else."""
        value = _argument(e)
        bounds = self._scope.bounds(value)
        if bounds is None or bounds[0] >= bounds[1]:
            return None
        type = self._scope.term(value).type
        if not type.is_number:
            return None
        low, high = bounds
        whole = type.family is Family.INTEGER and high - low < MAX_BINS
        edges = even_bins(low, high)
        if whole:
            edges = tuple(float(x) for x in range(math.ceil(low), math.floor(high) + 2))
        i = self._binned_rows(value, condition, edges, label, clamp=True)
        return ExtremeNode(i, edges, isinstance(e, exp.Max), whole)

    def _binned_arguments(
        self, e: exp.Expr, label: str
    ) -> tuple[exp.Expr, float, tuple[float, ...]]:
        args = list(e.expressions)
        name = e.name.lower()
        q = 0.5
        if name in ("quantile", "quantile_cont") and len(args) > 1:
            q = _number(args.pop(1), label)
            if not 0 <= q <= 1:
                refuse(f"{label}: {q} is not a share", "a quantile lies between 0 and 1")
        if not 1 <= len(args) <= 2:
            refuse(f"{label} has the wrong number of arguments", f"{name}(x, …, [0, 10, 20])")
        return args[0], q, self._edges(args[0], args[1] if len(args) == 2 else None, label)

    def _edges(self, value: exp.Expr, given: exp.Expr | None, label: str) -> tuple[float, ...]:
        if given is None:
            bounds = self._scope.bounds(value)
            if bounds is None or bounds[0] >= bounds[1]:
                refuse(
                    f"{label} needs public bins",
                    f"list the edges: {label[:-1]}, [0, 10, 20, 50]); or ask the curator for "
                    "bounds (create --bounds x=0..100)",
                )
            return even_bins(*bounds)
        if not isinstance(given, exp.Array):
            refuse(f"{label}: the bins are a list of edges", "[0, 10, 20, 50]")
        edges = tuple(_number(x, label) for x in given.expressions)
        if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
            refuse(f"{label}: the edges must ascend", "[0, 10, 20, 50]")
        if len(edges) > MAX_BINS + 1:
            refuse(f"{label} has {len(edges) - 1:,} bins; the limit is {MAX_BINS:,}")
        return edges

    def _binned_rows(
        self,
        value: exp.Expr,
        condition: exp.Expr | None,
        edges: tuple[float, ...],
        label: str,
        clamp: bool,
        role: str = "",
    ) -> int:
        place = bin_of(Cell.of(self._scope.term(value)), edges, nearest=clamp)
        measure = Measure(Kind.ROWS, self._truth(condition), label, edges=edges, bin=place)
        return self._add(measure, role)


def with_people(
    measures: Sequence[Measure], histogram: int | None = None, single: bool = False
) -> tuple[tuple[Measure, ...], tuple[int, ...]]:
    """Return measures with counts of the people that they are about, and the place of each's count.

    A count of people is its own, and so is a count of rows where a person has one at most
    (`single`). What differs in its condition has a count for itself, as has a histogram's each bin.

    Example:
        >>> rows, people = Measure(Kind.ROWS, None, "rows"), Measure(Kind.USERS, None, "people")
        >>> with_people([rows, people])[1], len(with_people([rows])[0])
        ((1, 1), 2)
    """
    all_of_them = list(measures)
    places = {replace(m, label=""): i for i, m in enumerate(measures) if m.kind is Kind.USERS}
    counts = []
    for i, measure in enumerate(measures):
        if single and measure.kind is Kind.ROWS and (i == histogram or measure.bins == 1):
            counts.append(i)
            continue
        people = _people_of(measure)
        if i == histogram:
            people = replace(people, edges=measure.edges, bin=measure.bin)
        place = places.setdefault(replace(people, label=""), len(all_of_them))
        if place == len(all_of_them):
            all_of_them.append(people)
        counts.append(place)
    counts += range(len(measures), len(all_of_them))
    return tuple(all_of_them), tuple(counts)


def _people_of(measure: Measure) -> Measure:
    """Return the count of the people who have a row that a measure takes in."""
    people = Measure(Kind.USERS, measure.value, f"people of {measure.label}")
    if measure.kind is Kind.SUM and measure.value is not None:
        number = Cell(f"isfinite(TRY_CAST({measure.value.sql} AS DOUBLE))")
        if measure.value.term is not None:
            number = Cell.of(
                call("isfinite", "isfinite({0})", BOOLEAN, as_double(measure.value.term))
            )
        return replace(people, value=number)
    return people


def _cut_to(column: exp.Column, bounds: tuple[float, float], stored: Column) -> exp.Expr:
    """Return a column cut to bounds, where it is a number; else NULL."""
    is_float = stored.type in ("DOUBLE", "FLOAT")
    low, high = (
        exp.Literal.number(int(end))
        if stored.integral
        else exp.cast(exp.Literal.number(repr(end)), "DOUBLE")
        for end in (abs(bounds[0]), bounds[1])
    )
    least = exp.Neg(this=low) if bounds[0] < 0 else low
    inner = exp.Greatest(this=column.copy(), expressions=[least])
    there = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
    finite = exp.Anonymous(this="isfinite", expressions=[column.copy()]) if is_float else there
    cut = exp.Case(ifs=[exp.If(this=finite, true=exp.Least(this=inner, expressions=[high]))])
    cut.meta["column"] = column
    return cut


def _as_written(e: exp.Expr) -> str:
    """Return a value in the words of the query, its columns as they were before they were cut."""
    return said(e.transform(lambda one: one.meta.get("column") or one))


def _clamp(value: exp.Expr, bounds: tuple[float, float]) -> exp.Expr:
    """Return a value cut to its public bounds, so that they hold whatever rows have."""
    low, high = (exp.cast(exp.Literal.number(repr(end)), "DOUBLE") for end in bounds)
    inner = exp.Greatest(this=exp.paren(value.copy()), expressions=[low])
    bound = exp.Least(this=inner, expressions=[high])
    if bounds[0] == 0:
        return bound  # what is missing counts 0 either way
    missing = exp.Is(this=exp.paren(value.copy()), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=missing), true=bound)])


def _moment(which: str, value: exp.Expr, condition: exp.Expr | None, middle: float = 0.0) -> str:
    """Name a measure that averages and variances of a value have in common."""
    centre = f" {'-' if middle > 0 else '+'} {abs(middle):g}" if middle else ""
    return f"{which} of {_as_written(value)}{centre}" + (
        f" where {said(condition)}" if condition else ""
    )


def _present(e: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=e.copy(), expression=exp.Null()))


def _only_branch(e: exp.Expr | None) -> exp.If | None:
    """Return the branch of CASE WHEN … THEN … END that has no other."""
    if isinstance(e, exp.Case) and e.this is None and len(e.args["ifs"]) == 1:
        branch, otherwise = e.args["ifs"][0], e.args.get("default")
    elif isinstance(e, exp.If):
        branch, otherwise = e, e.args.get("false")
    else:
        return None
    assert isinstance(branch, exp.If)
    return branch if otherwise is None or isinstance(otherwise, exp.Null) else None


def _argument(e: exp.Expr) -> exp.Expr:
    if isinstance(e.this, exp.Distinct):
        refuse(f"{said(e)}: DISTINCT can't be answered privately here", "leave DISTINCT out")
    argument = e.this
    assert isinstance(argument, exp.Expr)
    return argument


def _number(e: exp.Expr, label: str) -> float:
    e = e.this if isinstance(e, exp.Cast) else e
    negative = isinstance(e, exp.Neg)
    literal = e.this if negative else e
    if not isinstance(literal, exp.Literal) or literal.is_string:
        refuse(f"{label}: {said(e)} must be a number", "write the number itself")
    number = -float(literal.this) if negative else float(literal.this)
    if not math.isfinite(number):
        refuse(f"{label}: {said(e)[:30]} is too large", "write a smaller number")
    return number


def _and(a: exp.Expr, b: exp.Expr | None) -> exp.Expr:
    return a if b is None else exp.and_(a.copy(), b.copy())
