"""Aggregates of the outer SELECT as measures: linear queries, each with its own noise.

COUNT(*), COUNT(x), COUNTIF(c)     one measure, the number of rows          scale 1
COUNT(DISTINCT user)               one measure, 1 for a user with a row     scale 1
SUM(x)                             one measure                              scale from bounds
AVG, VAR, STDDEV                   N, sum of x - c, sum of (x - c)², with c the middle of the
                                   public bounds, which halves the scale; then arithmetic
CORR, COVAR_…, REGR_…              rows with both values, and moments of the two
HISTOGRAM, MEDIAN, QUANTILE        rows by declared bin
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sqlglot import exp

from sparseq.language.expression_tree import call
from sparseq.language.interval_arithmetic import MINUS, OVER, PLUS, TIMES, rising_rule
from sparseq.language.types import BOOLEAN, Family
from sparseq.question.limits import ROWS
from sparseq.question.plan import AVERAGE, PAIR, QUANTILE, VARIANCE, Cell, Kind, Measure, Statistic
from sparseq.released import outputs as out
from sparseq.released.outputs import OverRowsNode
from sparseq.released.pair_statistics import PairMoments
from sparseq.released.statistics import (
    DistinctNode,
    ExtremeNode,
    QuantileNode,
    RatioNode,
    VarianceNode,
)
from sparseq.sql.aggregate_calls import is_binned
from sparseq.sql.allowed_words import PAIRED
from sparseq.sql.bins import as_double, bin_of, even_bins
from sparseq.sql.key_domains import place_of
from sparseq.sql.parse import said
from sparseq.sql.public_values import PublicValues
from sparseq.sql.scope import Scope, integral, refuse
from sparseq.sql.sought_bounds import WRITTEN, SoughtBounds

MAX_BINS = 1000
EDGES = "[0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]"
"""Edges in a hint: wherever values lie, the bin that they lie in says so."""
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
    """Collects the measures of one query; a repeated aggregate is one measure.

    Args:
        scope: The scope of the query.
        sought: The bounds that nobody declared.

    Attributes:
        notes: Notes about values that an answer leaves out.
    """

    def __init__(self, scope: Scope, sought: SoughtBounds) -> None:
        self._scope, self.sought = scope, sought
        self._measures: list[Measure] = []
        self._places: dict[Measure, int] = {}  # labels removed
        self._averages: list[tuple[int, ...]] = []
        self._variances: list[tuple[int, ...]] = []
        self._pairs: list[tuple[int, ...]] = []
        self._quantiles: dict[int, set[float]] = {}
        self.notes: dict[str, None] = {}

    def is_histogram(self, e: exp.Expr) -> bool:
        """Tell whether an expression is a HISTOGRAM."""
        e = e.this if isinstance(e, exp.Filter) else e
        return isinstance(e, exp.Anonymous) and e.name.lower() == "histogram"

    def has_histogram(self, select: exp.Select) -> bool:
        """Tell whether the SELECT list has a HISTOGRAM."""
        return any(self.is_histogram(e.unalias()) for e in select.expressions)

    def values(self) -> list[str]:
        """Return the SQL of every measure's value, so that the caller can find the types."""
        return [m.value.sql for m in self._measures if m.value is not None]

    def measures(self, types: Sequence[str]) -> tuple[Measure, ...]:
        """Return the measures, given the types of `values`."""
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
        """Return the place of a measure; measures with different roles are kept apart."""
        key = replace(measure, label="", role=role)
        place = self._places.setdefault(key, len(self._measures))
        if place == len(self._measures):
            self._measures.append(measure)
        return place

    def _role(self, value: exp.Expr) -> str:
        """Return the role of the measures of a value's moments; "" if the value has no bounds."""
        bounds = self._scope.bounds(value) if self._scope.public.weighted else None
        return "moments" if bounds is not None and bounds[0] < bounds[1] else ""

    def node(self, e: exp.Expr) -> out.Node:
        """Return the post-processing of an aggregate, and add the measures that it needs."""
        node = self._node(e)
        call = e.this if isinstance(e, exp.Filter) else e
        adds = isinstance(call, (exp.Count, exp.CountIf, exp.Sum, exp.RegrCount))
        return node if adds else OverRowsNode(node)

    def _node(self, e: exp.Expr) -> out.Node:
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
                self._near(e),
            )
        if isinstance(e, exp.Count):
            return self._count(e, condition, label)
        if isinstance(e, exp.CountIf):
            return out.measure(self._rows(_and(e.this, condition), label))
        if isinstance(e, exp.Sum):
            return out.measure(self._sum(self.sought.bound(_argument(e)), condition, label))
        if isinstance(e, exp.Avg):
            return self._average(self.sought.bound(_argument(e)), condition)
        if isinstance(e, _VARIANCES):
            return self._variance(e, condition)
        if type(e) in PAIRED:
            return self._pair(e, condition)
        if is_binned(e) and not self.is_histogram(e):
            return self._quantile(e, condition, label)
        if self.is_histogram(e):
            refuse("HISTOGRAM goes with group keys only", "ask for the rest in another query")
        refuse(f"{label} is not answered", "use COUNT, SUM, AVG, STDDEV, HISTOGRAM or QUANTILE")

    def _near(self, e: exp.Expr) -> str:
        """Return what may be asked in place of one person's value."""
        if isinstance(e, exp.LogicalAnd | exp.LogicalOr):
            return f"use COUNTIF({said(e.this)}): how many"
        if self._scope.names_user(e.this):
            return f"count(DISTINCT {self._scope.user_name}) counts people"
        type, share = self._scope.term(e.this).type, 0.01 if isinstance(e, exp.Min) else 0.99
        if not isinstance(e, exp.Min | exp.Max) or not (type.is_number or type.is_time):
            return "count each value: GROUP BY x ORDER BY count(*) DESC"
        if type.is_time:
            return f"count rows by time: GROUP BY date_trunc('month', {said(e.this)}), in a range"
        return f"use QUANTILE({said(e.this)}, {share}), or COUNTIF(…): how many are beyond a value"

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
        """Return the node of COUNT(DISTINCT user) or COUNT(DISTINCT CASE WHEN … THEN user END)."""
        inside = e.expressions[0] if len(e.expressions) == 1 else None
        branch = _only_branch(inside)
        if branch is not None:
            condition, inside = _and(branch.this, condition), branch.args["true"]
        if inside is not None and self._scope.may_lack_user(inside):
            condition = _and(_present(inside), condition)
        elif inside is None or not (
            self._scope.is_user(inside) or self._scope.is_person_in_a_window(inside)
        ):
            return self._distinct_values(inside, condition, label)
        return out.measure(self._add(Measure(Kind.USERS, self._truth(condition), label)))

    def _distinct_values(
        self, inside: exp.Expr | None, condition: exp.Expr | None, label: str
    ) -> out.Node:
        """Count public values that somebody has: people are counted by value."""
        public, scope = PublicValues(self._scope, self._scope.public), self._scope
        known: list[Any] | None = None
        if inside is not None and not isinstance(inside, exp.Tuple):
            known = public.of(inside, scope.term(inside).type.sql)
        values = [value for value in known or () if value is not None]
        if inside is None or not 0 < len(values) <= MAX_BINS:
            said_of = f"of {len(values):,} public values; the limit is {MAX_BINS:,}"
            unknown = "which values occur is a fact about people, and these are not public"
            ways = f"count(DISTINCT {scope.user_name}) counts people"
            if isinstance(inside, exp.Column):
                ways += (
                    f"; or list the values: WHERE {said(inside)} IN (…); or ask the curator to "
                    f"declare them (create --keys {said(inside)}=a,b,c), or that none is of two "
                    f"people (create --keys {said(inside)}=@own)"
                )
            elif isinstance(inside, exp.Tuple) and any(map(scope.names_user, inside.expressions)):
                pairs = ", ".join(map(said, inside.expressions))
                ways += (
                    f"; count rows of a subquery: SELECT count(*) FROM (SELECT DISTINCT {pairs} …)"
                )
            refuse(f"{label}: {said_of if values else unknown}", ways)
        type = scope.term(inside).type.sql
        if not public.covers(inside, type):
            self.notes[f"{label} is of the {len(values):,} public values alone"] = None
        place = place_of(scope, inside, values)
        edges = tuple(float(i) for i in range(len(values) + 1))
        counted = self._truth(_and(_present(inside), condition))
        return DistinctNode(self._add(Measure(Kind.USERS, counted, label, edges=edges, bin=place)))

    def _truth(self, condition: exp.Expr | None) -> Cell | None:
        return None if condition is None else Cell.of(self._scope.truth(condition))

    def _rows(self, condition: exp.Expr | None, label: str) -> int:
        return self._add(Measure(Kind.ROWS, self._truth(condition), label))

    def _sum(self, value: exp.Expr, condition: exp.Expr | None, label: str, role: str = "") -> int:
        if self._scope.is_user(value) or self._scope.may_lack_user(value):
            refuse(f"{label} adds up identifiers", "COUNT(DISTINCT user) counts users")
        bounds = self._scope.bounds(value)
        scale = None if bounds is None else max(map(abs, bounds)) or 1.0  # of zeros alone: any
        if bounds is not None and ROWS in self._scope.public.limits:
            value = _clamp(value, bounds)
        if condition is not None:
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        cell = Cell.of(self._scope.term(value))
        column = value.meta.get("column")
        place = None if column is None else self._scope.facts(column).place
        return self._add(
            Measure(
                Kind.SUM,
                cell,
                label,
                integral=False,
                scale=scale,
                bounds=bounds,
                cut=place,
            ),
            role,
        )

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
        """Return the places of the count and the sum of centred values, and the centre."""
        (middle, centred), role = self._centre(value), self._role(value)
        number = self._finite_rows(value, condition, role)
        name = _moment("sum", value, condition, middle)
        return number, self._sum(centred, condition, name, role), middle

    def statistics(self) -> tuple[Statistic, ...]:
        """Return the statistics whose measures have a role and so serve no other aggregate."""
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
        """Count the rows that a sum of the value includes: neither NULL, NaN nor infinite."""
        number = as_double(self._scope.term(value))
        counts = call("isfinite", "isfinite({0})", BOOLEAN, number)
        if condition is not None:
            counts = call("and", "({0} AND ({1}))", BOOLEAN, counts, self._scope.truth(condition))
        name = _moment("number", value, condition)
        return self._add(Measure(Kind.ROWS, Cell.of(counts), name), role)

    def _centre(self, value: exp.Expr) -> tuple[float, exp.Expr]:
        """Return the middle of the public bounds, and the value minus it.

        In weighted answers the stream subtracts a released centre instead.
        """
        bounds = None if self._scope.public.weighted else self._scope.bounds(value)
        middle = (bounds[0] + bounds[1]) / 2 if bounds is not None else 0.0
        if middle == 0:
            return 0.0, value
        literal = exp.cast(exp.Literal.number(repr(middle)), "DOUBLE")
        return middle, exp.Sub(this=exp.paren(value.copy()), expression=literal)

    def _variance(self, e: exp.Expr, condition: exp.Expr | None) -> out.Node:
        value = self.sought.bound(_argument(e))
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
        y, x = self.sought.bound(_argument(e)), self.sought.bound(e.args["expression"])
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
        """Return MIN or MAX of numbers between public bounds; None for other arguments."""
        value = _argument(e)
        if not self._scope.term(value).type.is_number:
            return None
        bounds = self._scope.bounds(value)
        if bounds is None or bounds[0] >= bounds[1]:
            return None
        type = self._scope.term(value).type
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
            bounds = self.sought.ends(value, "quantiles")
            if bounds is None or bounds[0] >= bounds[1]:
                refuse(
                    f"{label} needs public bins",
                    f"list the edges: {label[:-1]}, {EDGES}); or ask the curator for "
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
    """Return the measures with counts of their contributors, and the place of each measure's count.

    A count of people is its own count of contributors; so is a count of rows if each person has at
    most one row (`single`). Measures with different conditions have separate counts, and so does
    each bin of a histogram.

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
    """Return the measure that counts the people with at least one row in a measure."""
    people = Measure(Kind.USERS, measure.value, f"people of {measure.label}")
    if measure.kind is Kind.SUM and measure.value is not None:
        number = Cell(f"isfinite(TRY_CAST({measure.value.sql} AS DOUBLE))")
        if measure.value.term is not None:
            number = Cell.of(
                call("isfinite", "isfinite({0})", BOOLEAN, as_double(measure.value.term))
            )
        return replace(people, value=number)
    return people


def _as_written(e: exp.Expr) -> str:
    """Return a value as the query writes it, with its columns before they were clamped."""
    return said(e.transform(lambda one: one.meta.get(WRITTEN) or one))


def _clamp(value: exp.Expr, bounds: tuple[float, float]) -> exp.Expr:
    """Return a value clamped to its public bounds, so that the bounds hold for all rows."""
    low, high = (exp.cast(exp.Literal.number(repr(end)), "DOUBLE") for end in bounds)
    inner = exp.Greatest(this=exp.paren(value.copy()), expressions=[low])
    bound = exp.Least(this=inner, expressions=[high])
    if bounds[0] == 0:
        return bound  # a missing value counts 0 either way
    missing = exp.Is(this=exp.paren(value.copy()), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=missing), true=bound)])


def _moment(which: str, value: exp.Expr, condition: exp.Expr | None, middle: float = 0.0) -> str:
    """Name a measure that the averages and variances of a value share."""
    centre = f" {'-' if middle > 0 else '+'} {abs(middle):g}" if middle else ""
    return f"{which} of {_as_written(value)}{centre}" + (
        f" where {said(condition)}" if condition else ""
    )


def _present(e: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=e.copy(), expression=exp.Null()))


def _only_branch(e: exp.Expr | None) -> exp.If | None:
    """Return the branch of a CASE WHEN … THEN … END that has only one; None otherwise."""
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
