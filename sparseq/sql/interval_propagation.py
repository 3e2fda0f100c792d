"""Intervals propagated through a SELECT over noised answers.

Every noised column x of an answer has a companion column x#ends: its interval, as a pair. Each
SELECT over answers gets such columns for its own results, where these rules apply:

    functions of numbers               by the rules of the table (`sparseq.language.functions`)
    CASE, coalesce                     where public values choose; of noised values, coalesce only
    sum, avg, min, max, also OVER      of both ends, where rows, groups and order are public
    lag, lead, first_value …           where the order is public

A pair is written once for each use of its value, and computed by the arithmetic that all code
shares (`sparseq.language.interval_arithmetic`), which DuckDB calls; so the text grows in proportion
to the query.

The intervals of an answer hold simultaneously, and so do those derived from them. Other results of
noised values have none: HAVING selects rows by noisy values, so a sum over the selected rows, or a
rank by noisy values, has no interval for the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sparseq.base.cancellation import check
from sparseq.language.interval_rules import rule_of
from sparseq.released.sql_over_noise import ENDS, FEW
from sparseq.sql.aggregate_calls import is_aggregate
from sparseq.sql.parse import RELEASED
from sparseq.sql.parsed_expressions import EndOf, EndsOf, Pair, own, parts, with_this
from sparseq.sql.spellings import call_of

_SAME_PLACE = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_NUMBERED = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_TOTALS = (exp.Sum, exp.Avg, exp.Min, exp.Max)

_INTEGERS = (exp.Count, exp.CountIf, exp.Sign, exp.Null, *_NUMBERED)
_OF_FIRST = (
    exp.Paren,
    exp.Alias,
    exp.Window,
    exp.Filter,
    exp.Nullif,
    exp.Round,
    exp.Trunc,
    exp.Sum,
    exp.Min,
    exp.Max,
    *_SAME_PLACE,
)
_OF_ALL = (
    exp.IntDiv,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Mod,
    exp.Neg,
    exp.Abs,
    exp.Coalesce,
    exp.Greatest,
    exp.Least,
)
"""Expressions that are integers if their first part is one, or if all parts are."""


@dataclass(frozen=True)
class Width:
    """The facts of a value.

    Attributes:
        noised: It depends on noised values.
        ends: Its interval; None if there is none.
        sure: It is never NULL because of noise.
        is_sum: It is 0 where the value without noise is NULL: a sum of no rows.
        whole: It would be an integer without the noise.
        few: 1 where it derives from a value about too few people, else 0; None if no value is
            suppressed.
        integer: For a column: its SQL type is an integer type.
    """

    noised: bool = False
    ends: exp.Expr | None = None
    sure: bool = False
    is_sum: bool = False
    whole: bool = False
    few: exp.Expr | None = None
    integer: bool = False


PUBLIC = Width(sure=True)
UNKNOWN = Width(noised=True)


@dataclass(frozen=True)
class Shape:
    """The facts of a query's columns, by name, and whether its rows are public."""

    columns: Mapping[str, Width]
    public_rows: bool


def with_ends(select: exp.Select, answers: Mapping[str, Shape]) -> tuple[exp.Select, Shape]:
    """Return a SELECT over answers, with the ends of its columns added.

    Args:
        select: A qualified SELECT; it is changed in place.
        answers: The shapes of its tables.
    """
    shape = _Queries(dict(answers)).query(select)
    return select, shape


class _Queries:
    """Finds the shapes of a query and its subqueries, and selects the ends of their columns."""

    def __init__(self, named: dict[str, Shape]) -> None:
        self._named = named

    def query(self, node: exp.Expr) -> Shape:
        if isinstance(node, exp.Subquery):
            return self.query(node.this)
        shape = self._measure(node)
        keeps = not isinstance(node, exp.SetOperation) or _keeps_all(node)
        names = [name for name, w in shape.columns.items() if w.ends is not None and keeps]
        places = {name: place for place, name in enumerate(shape.columns)}
        few = [name for name, w in shape.columns.items() if w.few is not None]
        _select_few(node, [places[name] for name in few], few)
        _select_ends(node, [places[name] for name in names], names)
        columns = {n: w if n in names else replace(w, ends=None) for n, w in shape.columns.items()}
        return Shape(columns, shape.public_rows)

    def _measure(self, node: exp.Expr) -> Shape:
        """Return the shape of a query, before the ends of its columns are added."""
        if isinstance(node, exp.Subquery):
            return self._measure(node.this)
        if isinstance(node, exp.SetOperation):
            left, right = self._measure(node.this), self._measure(node.expression)
            pairs = zip(left.columns.items(), right.columns.values(), strict=False)
            columns = {name: _either(a, b) for (name, a), b in pairs}
            exact = left.public_rows and right.public_rows
            return Shape(columns, exact and (_keeps_all(node) or not _noised(columns)))
        assert isinstance(node, exp.Select)
        shape = _Select(node, self._sources(node)).shape()
        node.set("widths", shape)
        return shape

    def _sources(self, select: exp.Select) -> dict[str, Shape]:
        inner = _Queries(dict(self._named))
        for cte in select.ctes:
            inner._named[cte.alias] = inner.query(cte.this)
        origin = select.args.get("from_")
        items = [origin.this] if origin is not None else []
        sources = {}
        for item in [*items, *(j.this for j in select.args.get("joins") or [])]:
            if isinstance(item, exp.Table):
                sources[item.alias_or_name] = inner._named.get(item.name, Shape({}, True))
            else:
                sources[item.alias_or_name] = inner.query(item)
        return sources


def _select_ends(node: exp.Expr, places: Sequence[int], names: Sequence[str]) -> None:
    """Add the ends of some columns to a query; all parts of a set operation use the same names."""
    if isinstance(node, exp.Subquery):
        return _select_ends(node.this, places, names)
    if isinstance(node, exp.SetOperation):
        _select_ends(node.this, places, names)
        return _select_ends(node.expression, places, names)
    assert isinstance(node, exp.Select)
    widths = list(node.args["widths"].columns.values())
    node.set("widths", None)
    for place, name in zip(places, names, strict=True):
        ends = _pair(widths[place], node.expressions[place].unalias())
        node.append("expressions", exp.alias_(ends, name + ENDS, quoted=True))
    return None


def _select_few(node: exp.Expr, places: Sequence[int], names: Sequence[str]) -> None:
    """Add the flags "about too few people" of some columns, as `_select_ends` adds ends."""
    if isinstance(node, exp.Subquery):
        return _select_few(node.this, places, names)
    if isinstance(node, exp.SetOperation):
        _select_few(node.this, places, names)
        return _select_few(node.expression, places, names)
    assert isinstance(node, exp.Select)
    widths = list(node.args["widths"].columns.values())
    for place, name in zip(places, names, strict=True):
        few = widths[place].few
        shown = exp.Literal.number(0) if few is None else few.copy()
        node.append("expressions", exp.alias_(shown, name + FEW, quoted=True))
    return None


def _keeps_all(node: exp.SetOperation) -> bool:
    return isinstance(node, exp.Union) and not node.args.get("distinct")


def _noised(columns: Mapping[str, Width]) -> bool:
    return any(w.noised for w in columns.values())


def _either(a: Width, b: Width) -> Width:
    if not a.noised and not b.noised:
        return PUBLIC
    both = all(w.ends is not None or not w.noised for w in (a, b))
    few = a.few if a.few is not None else b.few
    return Width(
        True,
        exp.null() if both else None,
        a.sure and b.sure,
        a.is_sum or b.is_sum,
        a.whole and b.whole,
        few,
        a.integer and b.integer,
    )


def _pair(width: Width, value: exp.Expr) -> exp.Expr:
    """Return the interval of a value: the value itself if it is public."""
    if width.ends is not None:
        return own(width.ends)
    return Pair(this=value.copy(), expression=value.copy())


class _Select:
    """Finds the widths of one SELECT's columns."""

    def __init__(self, select: exp.Select, sources: dict[str, Shape]) -> None:
        self._select, self._sources = select, sources
        self._widths: dict[int, tuple[exp.Expr, Width]] = {}  # by `id`
        group = select.args.get("group")
        self._keys = list(group.expressions) if group is not None else []
        joins = [j.args.get("on") for j in select.args.get("joins") or []]
        where = select.args.get("where")
        conditions = [*joins, where.this if where is not None else None]
        self._public_rows = all(s.public_rows for s in sources.values())
        self._public_rows &= all(self._is_public(c) for c in conditions if c is not None)
        self._public_groups = self._public_rows and all(map(self._is_public, self._keys))

    def shape(self) -> Shape:
        """Return the facts of the columns."""
        columns = {
            e.alias_or_name: replace(self.width(e.unalias()), integer=self._is_integer(e))
            for e in self._select.expressions
        }
        public = self._public_rows and (not self._keys or self._public_groups)
        for clause in ("having", "qualify"):
            part = self._select.args.get(clause)
            public = public and (part is None or self._is_public(part.this))
        if self._select.args.get("limit") or self._select.args.get("offset"):
            order = self._select.args.get("order")
            by = [o.this for o in order.expressions] if order is not None else []
            public = public and not any(self._by_noise(e, columns) for e in by)
        if self._select.args.get("distinct") is not None and _noised(columns):
            columns = {
                n: replace(UNKNOWN, few=w.few, integer=w.integer) if w.noised else w
                for n, w in columns.items()
            }
            public = False
        self._leave_out_few()
        return Shape(columns, public)

    def _leave_out_few(self) -> None:
        """Extend each condition so that no value about too few people lets a row pass."""
        for clause in ("where", "having", "qualify"):
            part = self._select.args.get(clause)
            few = None if part is None else self.width(part.this).few
            if part is not None and few is not None:
                shown = exp.EQ(this=own(few), expression=exp.Literal.number(0))
                part.set("this", exp.and_(part.this, shown))

    def _by_noise(self, e: exp.Expr, columns: Mapping[str, Width]) -> bool:
        if isinstance(e, exp.Column) and not e.table:
            return columns.get(e.name, PUBLIC).noised
        if isinstance(e, exp.Literal):
            return _noised(columns)
        return not self._is_public(e)

    def _is_public(self, e: exp.Expr) -> bool:
        return not self.width(e).noised

    def width(self, e: exp.Expr) -> Width:
        """Return the facts of an expression over the sources, or over a group if it is a group key.

        For a group key, each row has its own ends; the key is about too few people if any row is.
        """
        if id(e) not in self._widths:
            check()
            width = self._width(e)
            if width.noised:
                width = replace(width, few=self._few(e))
            around = exp.AggFunc, exp.Where, exp.Join, exp.Group, exp.Select
            if e in self._keys and isinstance(e.find_ancestor(*around), exp.Select):
                most = None if width.few is None else exp.Max(this=own(width.few))
                width = replace(width, ends=None, few=most)
            self._widths[id(e)] = e, width
        return self._widths[id(e)][1]

    def _few(self, e: exp.Expr) -> exp.Expr | None:
        """Return 1 where a value derives from one about too few people, else 0; None if none does.

        A sum, average or count is about too few people if all of its values are: the people of any
        one value are among its own people. Any other expression is about too few people if one
        value is.
        """
        if isinstance(e, exp.Column):
            width = self._sources.get(e.table, Shape({}, True)).columns.get(e.name, PUBLIC)
            if width.few is None:
                return None
            return exp.func("coalesce", exp.column(e.name + FEW, e.table, quoted=True), "0")
        if isinstance(e, exp.Window | exp.Filter) or is_aggregate(e):
            return self._few_of_rows(e)
        return _most([f for x in parts(e) if (f := self.width(x).few) is not None])

    def _few_of_rows(self, e: exp.Expr) -> exp.Expr | None:
        call = e.this if isinstance(e, exp.Window | exp.Filter) else e
        if isinstance(call, exp.Filter):
            call = call.this
        few = None if not isinstance(call.this, exp.Expr) else self.width(call.this).few
        if few is None:
            return None
        if isinstance(call, _SAME_PLACE):
            return with_this(e, with_this(call, own(few)))
        adds = isinstance(call, exp.Sum | exp.Avg | exp.Count)
        inner: exp.Expr = exp.Min(this=own(few)) if adds else exp.Max(this=own(few))
        if isinstance(e, exp.Window) and isinstance(e.this, exp.Filter):
            inner = with_this(e.this, inner)
        return inner if e is call else with_this(e, inner)

    def _width(self, e: exp.Expr) -> Width:
        if isinstance(e, exp.Paren | exp.Alias):
            return self.width(e.this)
        if isinstance(e, exp.Column):
            return self._column(e)
        if isinstance(e, exp.Window):
            return self._window(e)
        if is_aggregate(e):
            return self._aggregate(e)
        if RELEASED in e.meta:
            return UNKNOWN
        inside = [self.width(x) for x in parts(e)]
        if not any(w.noised for w in inside):
            whole = isinstance(e, exp.Literal) and not e.is_string and "." not in e.this
            return replace(PUBLIC, whole=whole)
        return self._compute(e)

    def _is_integer(self, e: exp.Expr) -> bool:
        """Tell whether SQL has an integer where noise may have produced a fraction."""
        if isinstance(e, exp.Column):
            return self._sources.get(e.table, Shape({}, True)).columns.get(e.name, PUBLIC).integer
        if isinstance(e, exp.Literal):
            return not e.is_string and e.this.isdecimal()
        if isinstance(e, exp.Cast):
            return bool(e.to.is_type(*exp.DataType.INTEGER_TYPES))
        if isinstance(e, exp.Case):
            results = [i.args["true"] for i in e.args["ifs"]]
            return all(map(self._is_integer, [*results, *filter(None, [e.args.get("default")])]))
        if isinstance(e, exp.If):
            return all(map(self._is_integer, filter(None, [e.args["true"], e.args.get("false")])))
        if isinstance(e, _OF_FIRST):
            return self._is_integer(e.this)
        if isinstance(e, _OF_ALL):
            return all(map(self._is_integer, e.iter_expressions()))
        return isinstance(e, _INTEGERS)

    def _column(self, e: exp.Column) -> Width:
        width = self._sources.get(e.table, Shape({}, True)).columns.get(e.name, PUBLIC)
        if width.ends is None:
            return width
        return replace(width, ends=exp.column(e.name + ENDS, e.table, quoted=True))

    def _compute(self, e: exp.Expr) -> Width:
        if isinstance(e, exp.If | exp.Case):
            return self._case(e)
        if isinstance(e, exp.Coalesce):
            return self._coalesce([e.this, *e.expressions])
        if isinstance(e, exp.Nullif):
            return self._nullif(e.this)
        if isinstance(e, exp.Cast | exp.TryCast):
            return self._cast(e)
        if isinstance(e, exp.IntDiv) and self._is_integer(e):
            # without noise a count is whole, and SQL's integer division truncates towards zero
            whole = exp.Trunc(this=exp.Div(this=e.left.copy(), expression=e.right.copy()))
            e.replace(whole)
            return replace(self.width(whole), whole=True)
        called = call_of(e)
        return UNKNOWN if called is None else self._call(*called)

    def _call(self, name: str, of: Sequence[exp.Expr]) -> Width:
        """Return the width of a function of the table, by its rule."""
        widths, rule = [self.width(x) for x in of], rule_of(name, len(of))
        if rule is None or any(w.noised and w.ends is None for w in widths):
            return UNKNOWN
        whole = rule.makes_whole or (rule.keeps_whole and all(w.whole for w in widths))
        sure = rule.finite and all(w.sure for w in widths)
        return Width(True, self._ends(name, of), sure, False, whole)

    def _ends(self, name: str, of: Sequence[exp.Expr]) -> exp.Expr:
        """Return the interval of a function's value; a public argument is its own interval."""
        pairs = [w.ends if (w := self.width(x)).ends is not None else x.copy() for x in of]
        return EndsOf(this=exp.Literal.string(name), expressions=[own(p) for p in pairs])

    def _nullif(self, value: exp.Expr) -> Width:
        """Return the width of a value that noise may turn into NULL, even a public value."""
        width = self.width(value)
        if width.noised and width.ends is None:
            return UNKNOWN
        return Width(True, _pair(width, value), whole=width.whole)

    def _cast(self, e: exp.Cast) -> Width:
        width = self.width(e.this)
        if width.ends is None or not e.to.is_type(*exp.DataType.NUMERIC_TYPES):
            return UNKNOWN
        if e.to.is_type(*exp.DataType.INTEGER_TYPES):
            return replace(width, ends=self._ends("to integer", [e.this]), whole=True)
        if e.to.is_type(exp.DataType.Type.DECIMAL):
            digits = [p.this for p in e.to.expressions][1:] or [exp.Literal.number(3)]
            if len(e.to.expressions) == 1:
                digits = [exp.Literal.number(0)]
            return replace(width, ends=self._ends("to decimal", [e.this, *digits]), whole=False)
        return replace(width, whole=False)

    def _case(self, e: exp.If | exp.Case) -> Width:
        """Return the width of a CASE whose conditions are public."""
        ifs = [e] if isinstance(e, exp.If) else e.args["ifs"]
        otherwise = e.args.get("false" if isinstance(e, exp.If) else "default")
        if (isinstance(e, exp.Case) and e.this is not None) or not all(
            self._is_public(i.this) for i in ifs
        ):
            return UNKNOWN
        results = [i.args["true"] for i in ifs] + ([otherwise] if otherwise is not None else [])
        widths = [self.width(r) for r in results]
        if any(w.noised and w.ends is None for w in widths):
            return UNKNOWN
        pairs = [_pair(w, r) for w, r in zip(widths, results, strict=True)]
        branches = [
            exp.If(this=i.this.copy(), true=pair) for i, pair in zip(ifs, pairs, strict=False)
        ]
        ends = exp.Case(ifs=branches, default=pairs[-1] if otherwise is not None else None)
        sure, whole = all(w.sure for w in widths), all(w.whole for w in widths)
        return Width(True, ends, sure, any(w.is_sum for w in widths), whole)

    def _coalesce(self, of: Sequence[exp.Expr]) -> Width:
        """Return the width of coalesce: the first value that is not NULL.

        Public values decide. If a noised value may be NULL without the noise, the result may be any
        later value. A sum of no rows is NULL without noise and 0 here, so a following 0 changes
        nothing.
        """
        first, *rest = of
        width = self.width(first)
        sure = width.sure and (not width.is_sum or all(map(_is_zero, rest)))
        if not rest or (width.noised and sure):
            return replace(width, is_sum=False)
        after = self._coalesce(rest)
        if any(w.noised and w.ends is None for w in (width, after)):
            return UNKNOWN
        ends, last = _pair(width, first), _pair(after, rest[-1])
        both: exp.Expr = EndsOf(this=exp.Literal.string("either"), expressions=[ends, last])
        if not width.noised:
            there = exp.Not(this=exp.Is(this=exp.paren(first.copy()), expression=exp.null()))
            both = exp.Case(ifs=[exp.If(this=there, true=ends)], default=last)
        return Width(True, both, after.sure, False, width.whole and after.whole)

    def _aggregate(self, e: exp.Expr) -> Width:
        condition = e.expression.this if isinstance(e, exp.Filter) else None
        call = e.this if isinstance(e, exp.Filter) else e
        if not self._public_groups or (condition is not None and not self._is_public(condition)):
            return UNKNOWN
        return self._total(call, lambda f: with_this(e, f) if isinstance(e, exp.Filter) else f)

    def _window(self, e: exp.Window) -> Width:
        order, by = e.args.get("order"), list(e.args.get("partition_by") or [])
        by += [o.this for o in order.expressions] if order is not None else []
        if not self._public_rows or not all(map(self._is_public, by)):
            return UNKNOWN
        call = e.this
        if isinstance(call, _NUMBERED):
            return PUBLIC
        if not isinstance(call, _SAME_PLACE):
            return self._total(call, lambda f: with_this(e, f))
        width = self.width(call.this)
        if not width.noised:
            return PUBLIC
        if width.ends is None:
            return UNKNOWN
        ends = [
            EndOf(this=width.ends.copy(), expression=exp.Literal.string(end))
            for end in ("low", "high")
        ]
        low, high = (with_this(e, with_this(call, end)) for end in ends)
        return Width(True, Pair(this=low, expression=high), whole=width.whole)

    def _total(self, call: exp.Expr, over: Callable[[exp.Expr], exp.Expr]) -> Width:
        """Return the width of a count, sum or other total over public rows."""
        inside = call.this
        if isinstance(call, exp.Count) and isinstance(inside, exp.Star):
            return PUBLIC
        width = self.width(inside)
        if not width.noised or (isinstance(call, exp.Count) and width.sure):
            return PUBLIC
        if not isinstance(call, _TOTALS) or width.ends is None or isinstance(inside, exp.Distinct):
            return UNKNOWN
        make = _total_of_all if width.sure else _total_of_some
        totals = [make(type(call), inside, width.ends, end, over) for end in ("low", "high")]
        whole = width.whole and not isinstance(call, exp.Avg)
        return Width(True, Pair(this=totals[0], expression=totals[1]), whole=whole)


_Over = Callable[[exp.Expr], exp.Expr]


def _total_of_all(
    call: type[exp.Expr], value: exp.Expr, ends: exp.Expr, end: str, over: _Over
) -> exp.Expr:
    """Return an end of a total of values that are NULL for public reasons alone.

    The end is NULL if the end of any value is unknown.
    """
    of = EndOf(this=ends.copy(), expression=exp.Literal.string(end))
    rows = over(exp.Count(this=value.copy()))
    complete = exp.EQ(this=over(exp.Count(this=of.copy())), expression=rows)
    return exp.Case(ifs=[exp.If(this=complete, true=over(call(this=of)))])


def _total_of_some(
    call: type[exp.Expr], value: exp.Expr, ends: exp.Expr, end: str, over: _Over
) -> exp.Expr:
    """Return an end of a total over values that may be NULL only because of the noise.

    An example is the average of an absent group: without noise it may be NULL, or lie in its
    interval. So each such value may or may not be part of the total.
    """

    def where(condition: exp.Expr, then: exp.Expr, other: exp.Expr | None = None) -> exp.Expr:
        return exp.Case(ifs=[exp.If(this=condition, true=then)], default=other)

    of = EndOf(this=ends.copy(), expression=exp.Literal.string(end))
    lacks = exp.Is(this=exp.paren(value.copy()), expression=exp.null())
    there = exp.Not(this=lacks.copy())
    unsure = exp.and_(lacks.copy(), exp.Not(this=exp.Is(this=ends.copy(), expression=exp.null())))
    counts = [where(there.copy(), of.copy()), value, where(unsure.copy(), of.copy())]
    counts.append(where(unsure.copy(), exp.Literal.number(1)))
    a, b, c, d = (over(exp.Count(this=one.copy())) for one in counts)
    complete = exp.and_(exp.EQ(this=a, expression=b), exp.EQ(this=c, expression=d))
    outer = exp.Least if end == "low" else exp.Greatest
    surely, perhaps = where(there.copy(), of.copy()), where(lacks.copy(), of.copy())
    if call is exp.Sum:
        nothing = exp.Literal.number(0)
        total = over(
            exp.Sum(this=where(there, of.copy(), outer(this=of.copy(), expressions=[nothing])))
        )
    elif call is exp.Avg:
        extreme = exp.Min if end == "low" else exp.Max
        mean, most = over(exp.Avg(this=surely.copy())), over(extreme(this=perhaps.copy()))
        total = _with_others(mean, most, a, c, outer)
    else:  # the minimum of all values is at most the minimum of the present ones
        all_may = (call is exp.Min) == (end == "low")
        total = over(call(this=of.copy() if all_may else surely))
    return exp.Case(ifs=[exp.If(this=complete, true=total)])


def _with_others(
    mean: exp.Expr,
    most: exp.Expr,
    here: exp.Expr,
    others: exp.Expr,
    outer: type[exp.Least] | type[exp.Greatest],
) -> exp.Expr:
    """Return the bound of an average to which some of k other values may belong.

    If s of these join n values of mean m, the mean moves by at most s (e - m)/(n + s), where e is
    the farthest of the others. That is at most min(1, k/(n + 1)) of e - m.

    Args:
        mean, most: m and e; e is NULL where there are no others.
        here, others: n and k.
        outer: LEAST for the low end, GREATEST for the high end.
    """
    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    way = outer(this=exp.Sub(this=most, expression=mean.copy()), expressions=[zero])
    more = exp.paren(exp.Add(this=here.copy(), expression=one.copy()))
    share = exp.Least(this=one, expressions=[exp.Div(this=others.copy(), expression=more)])
    return exp.Add(this=mean, expression=exp.Mul(this=exp.paren(way), expression=share))


def _most(few: Sequence[exp.Expr]) -> exp.Expr | None:
    """Return 1 if any flag is 1; None if there are no flags."""
    if len(few) < 2:
        return few[0] if few else None
    return exp.Greatest(this=own(few[0]), expressions=[own(f) for f in few[1:]])


def _is_zero(e: exp.Expr) -> bool:
    return isinstance(e, exp.Literal) and not e.is_string and float(e.this) == 0
