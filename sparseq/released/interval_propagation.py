"""Intervals carried through what is selected from noised answers.

Every noised column x of an answer has columns x#low and x#high beside it. Each SELECT over answers
gets such columns for what it computes, as far as the rules go:

    + - * /, abs, greatest, least      interval arithmetic; over zero there is no quotient
    round, floor, ceil, trunc, sign, sqrt, ln, log, exp, casts to numbers     of both ends
    CASE, coalesce                     where the choice is made by public values
    sum, avg, min, max, also OVER      of both ends, where rows, groups and order are public
    lag, lead, first_value …           where the order is public

Each part of an expression has its ends computed once. Where they are written out more than once in
what is made of them (a product has each end of its factors four times), and that would be long, the
parts get a name: they become columns of a subquery (`sparseq.sql.subqueries.name_parts`). So the
text grows as the query does.

The intervals of an answer hold all at once, and so do those that follow. Anything else that comes
of noised values has none: which rows HAVING leaves is noise too, and a sum over them, or a rank by
them, has no interval about the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sqlglot import exp

from sparseq.base.cancellation import check
from sparseq.language.parsed_expressions import factor, operands, own, parts, rising_in, with_this
from sparseq.released.split_question import is_aggregate
from sparseq.sql.subqueries import name_parts

LOW, HIGH = "#low", "#high"
_MONOTONE = (
    exp.Round,
    exp.Floor,
    exp.Ceil,
    exp.Trunc,
    exp.Sign,
    exp.Sqrt,
    exp.Ln,
    exp.Log,
    exp.Exp,
)
_SAME_PLACE = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_NUMBERED = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_TOTALS = (exp.Sum, exp.Avg, exp.Min, exp.Max)
_COPIES: dict[type, int] = {
    exp.Mul: 6,
    exp.Div: 8,
    exp.Abs: 4,
    exp.Greatest: 2,
    exp.Least: 2,
    exp.Coalesce: 2,
}
"""How often an operation has each end of what it is of, at most."""
_LONG = 500
"""Nodes of an interval that is written out; the parts of a longer one get names."""


@dataclass(frozen=True)
class Width:
    """What is known of a value.

    Attributes:
        noised: It comes of noised values.
        low, high: The ends of its interval; None: there is no interval.
        sure: It is never NULL because of noise.
        whole: It is an integer, but for the noise.
        size: About as many nodes have its ends, written out.
    """

    noised: bool = False
    low: exp.Expr | None = None
    high: exp.Expr | None = None
    sure: bool = False
    whole: bool = False
    size: int = 1


PUBLIC = Width(sure=True)
UNKNOWN = Width(noised=True)


@dataclass(frozen=True)
class Shape:
    """What is known of a query's columns, by name, and whether its rows are public."""

    columns: Mapping[str, Width]
    public_rows: bool


def carried(select: exp.Select, answers: Mapping[str, Shape]) -> tuple[exp.Select, Shape]:
    """Return a SELECT over answers with the ends of its columns beside them.

    Args:
        select: Qualified; changed in place.
        answers: The shapes of its tables.
    """
    shape = _Carrier(dict(answers)).query(select)
    return select, shape


class _Carrier:
    def __init__(self, known: dict[str, Shape]) -> None:
        self._known = known

    def query(self, node: exp.Expr) -> Shape:
        if isinstance(node, exp.Subquery):
            return self.query(node.this)
        return self._beside(node, self._measured(node))

    def _beside(self, node: exp.Expr, shape: Shape) -> Shape:
        """Select the ends of a query's columns too, and return its shape with them."""
        noised = not isinstance(node, exp.SetOperation) or _keeps_all(node)
        ends = [name for name, w in shape.columns.items() if w.low is not None and noised]
        self._attach(node, [list(shape.columns).index(name) for name in ends], list(shape.columns))
        columns = {
            name: replace(w, low=None, high=None) if name not in ends else w
            for name, w in shape.columns.items()
        }
        return Shape(columns, shape.public_rows)

    def _measured(self, node: exp.Expr) -> Shape:
        """Return the shape of a query; the ends of its columns are not beside them yet."""
        if isinstance(node, exp.Subquery):
            return self._measured(node.this)
        if isinstance(node, exp.SetOperation):
            left, right = self._measured(node.this), self._measured(node.expression)
            pairs = zip(left.columns.items(), right.columns.values(), strict=False)
            columns = {name: _either(a, b) for (name, a), b in pairs}
            exact = left.public_rows and right.public_rows
            return Shape(columns, exact and (_keeps_all(node) or not _noised(columns)))
        assert isinstance(node, exp.Select)
        return self._select(node, self._sources(node))

    def _select(self, node: exp.Select, sources: dict[str, Shape]) -> Shape:
        """Return the shape of a SELECT, whose parts have names where it would be too long."""
        while True:
            try:
                shape = _Select(node, sources).shape()
                node.set("widths", shape)
                return shape
            except _TooLong as long:
                outer = name_parts(node, long.parts)
                item = outer.args["from_"].this
                sources = {item.alias: self._beside(item.this, self._select(item.this, sources))}
                node.args.clear()
                for clause, value in outer.args.items():
                    node.set(clause, value)

    def _sources(self, select: exp.Select) -> dict[str, Shape]:
        inner = _Carrier(dict(self._known))
        for cte in select.ctes:
            inner._known[cte.alias] = inner.query(cte.this)
        origin = select.args.get("from_")
        items = [origin.this] if origin is not None else []
        found = {}
        for item in [*items, *(j.this for j in select.args.get("joins") or [])]:
            if isinstance(item, exp.Table):
                found[item.alias_or_name] = inner._known.get(item.name, Shape({}, True))
            else:
                found[item.alias_or_name] = inner.query(item)
        return found

    def _attach(self, node: exp.Expr, places: Sequence[int], names: Sequence[str]) -> None:
        """Select the ends of some columns too."""
        if isinstance(node, exp.Subquery):
            return self._attach(node.this, places, names)
        if isinstance(node, exp.SetOperation):
            self._attach(node.this, places, names)
            self._attach(node.expression, places, names)
            return None
        assert isinstance(node, exp.Select)
        shape: Shape = node.args["widths"]
        node.set("widths", None)
        widths = list(shape.columns.values())
        for place in places:
            value = node.expressions[place].unalias()
            low, high = _ends(widths[place], value)
            node.append("expressions", exp.alias_(low, names[place] + LOW, quoted=True))
            node.append("expressions", exp.alias_(high, names[place] + HIGH, quoted=True))
        return None


def _keeps_all(node: exp.SetOperation) -> bool:
    return isinstance(node, exp.Union) and not node.args.get("distinct")


def _noised(columns: Mapping[str, Width]) -> bool:
    return any(w.noised for w in columns.values())


def _either(a: Width, b: Width) -> Width:
    if not a.noised and not b.noised:
        return PUBLIC
    both = all(w.low is not None or not w.noised for w in (a, b))
    end = exp.null() if both else None
    return Width(True, end, end, a.sure and b.sure, a.whole and b.whole)


def _ends(width: Width, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Return both ends of a value: itself, where it is public."""
    if width.low is None or width.high is None:
        number = exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DataType.Type.DOUBLE))
        return number, number.copy()
    return width.low, width.high


class _TooLong(Exception):
    """An interval is too long to be written out; `parts` of it, by `id`, need names."""

    def __init__(self, parts: frozenset[int]) -> None:
        self.parts = parts


class _Select:
    """The widths of one SELECT's columns."""

    def __init__(self, select: exp.Select, sources: dict[str, Shape]) -> None:
        self._select, self._sources = select, sources
        self._known: dict[int, Width] = {}  # by `id`, in a tree that lives as long as this
        self._long: frozenset[int] = frozenset()
        group = select.args.get("group")
        self._keys = list(group.expressions) if group is not None else []
        joins = [j.args.get("on") for j in select.args.get("joins") or []]
        where = select.args.get("where")
        conditions = [*joins, where.this if where is not None else None]
        self._public_rows = all(s.public_rows for s in sources.values())
        self._public_rows &= all(self._is_public(c) for c in conditions if c is not None)
        self._public_groups = self._public_rows and all(map(self._is_public, self._keys))

    def shape(self) -> Shape:
        """Return what is known of the columns.

        Raises:
            _TooLong: An interval of theirs is; of other parts none is needed.
        """
        self._long = frozenset()
        columns = {e.alias_or_name: self.width(e.unalias()) for e in self._select.expressions}
        if self._long:
            raise _TooLong(self._long)
        public = self._public_rows and (not self._keys or self._public_groups)
        for clause in ("having", "qualify"):
            part = self._select.args.get(clause)
            public = public and (part is None or self._is_public(part.this))
        if self._select.args.get("limit") or self._select.args.get("offset"):
            order = self._select.args.get("order")
            by = [o.this for o in order.expressions] if order is not None else []
            public = public and not any(self._by_noise(e, columns) for e in by)
        if self._select.args.get("distinct") is not None and _noised(columns):
            columns = {n: UNKNOWN if w.noised else w for n, w in columns.items()}
            public = False
        return Shape(columns, public)

    def _by_noise(self, e: exp.Expr, columns: Mapping[str, Width]) -> bool:
        if isinstance(e, exp.Column) and not e.table:
            return columns.get(e.name, PUBLIC).noised
        if isinstance(e, exp.Literal):
            return _noised(columns)
        return not self._is_public(e)

    def _is_public(self, e: exp.Expr) -> bool:
        return not self.width(e).noised

    def width(self, e: exp.Expr) -> Width:
        """Return what is known of an expression over the sources."""
        if id(e) not in self._known:
            check()
            size, long = self._size(e), frozenset[int]()
            if size > _LONG and any(self.width(x).low is not None for x in operands(e)):
                parts = [x for x in operands(e) if not isinstance(x, exp.Column)]
                long = frozenset(id(x) for x in parts if x.find(exp.Column) is not None)
            self._long |= long
            self._known[id(e)] = UNKNOWN if long else replace(self._width(e), size=size)
        return self._known[id(e)]

    def _size(self, e: exp.Expr) -> int:
        """Return about how many nodes the interval of an expression has, written out."""
        if isinstance(e, exp.Column):
            return 2
        if isinstance(e, exp.Window) or is_aggregate(e):
            return sum(1 for _ in e.walk()) + 3 * sum(self.width(x).size for x in operands(e))
        copies = _COPIES.get(type(e), 1) if factor(e) is None else 1
        return 2 + copies * sum(self.width(x).size for x in parts(e))

    def _width(self, e: exp.Expr) -> Width:
        if isinstance(e, exp.Paren | exp.Alias):
            return self.width(e.this)
        if isinstance(e, exp.Column):
            return self._column(e)
        if isinstance(e, exp.Window):
            return self._window(e)
        if is_aggregate(e):
            return self._aggregate(e)
        inside = [self.width(x) for x in parts(e)]
        if not any(w.noised for w in inside):
            whole = isinstance(e, exp.Literal) and not e.is_string and "." not in e.this
            return replace(PUBLIC, whole=whole)
        return self._computed(e)

    def _column(self, e: exp.Column) -> Width:
        known = self._sources.get(e.table, Shape({}, True)).columns.get(e.name, PUBLIC)
        if known.low is None:
            return known
        low, high = (exp.column(e.name + s, e.table, quoted=True) for s in (LOW, HIGH))
        return replace(known, low=low, high=high)

    def _computed(self, e: exp.Expr) -> Width:
        if isinstance(e, exp.Neg):
            a = self.width(e.this)
            return self._with(a, exp.Neg(this=_p(a.high)), exp.Neg(this=_p(a.low)))
        if isinstance(e, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.IntDiv):
            return self._arithmetic(e)
        if isinstance(e, exp.Abs):
            return self._absolute(e)
        if isinstance(e, exp.Greatest | exp.Least):
            return self._extreme(e)
        if isinstance(e, exp.If | exp.Case):
            return self._case(e)
        if isinstance(e, exp.Coalesce):
            return self._coalesce(e)
        if isinstance(e, (exp.Cast, exp.TryCast, *_MONOTONE)):
            return self._monotone(e)
        return UNKNOWN

    def _monotone(self, e: exp.Expr) -> Width:
        cast = e.to if isinstance(e, exp.Cast | exp.TryCast) else None
        if (of := rising_in(e)) is None:
            return UNKNOWN
        a = self.width(of)
        number = cast is None or cast.is_type(*exp.DataType.NUMERIC_TYPES)
        if not number or a.low is None or a.high is None:
            return UNKNOWN
        if any(self.width(x).noised for x in parts(e) if x is not of):
            return UNKNOWN
        low, high = (with_this(e, end, of) for end in (a.low, a.high))
        to_whole = cast is not None and cast.is_type(*exp.DataType.INTEGER_TYPES)
        whole = to_whole or isinstance(e, exp.Floor | exp.Ceil | exp.Sign)
        return Width(True, low, high, cast is not None and a.sure, whole)

    def _with(self, a: Width, low: exp.Expr, high: exp.Expr) -> Width:
        return UNKNOWN if a.low is None else replace(a, low=low, high=high)

    def _arithmetic(self, e: exp.Binary) -> Width:
        a, b = self.width(e.left), self.width(e.right)
        if any(w.noised and w.low is None for w in (a, b)):
            return UNKNOWN
        (al, ah), (bl, bh) = _ends(a, e.left), _ends(b, e.right)
        sure, whole = a.sure and b.sure, a.whole and b.whole
        if (sign := factor(e)) is not None:
            sure, whole = (sure, whole) if isinstance(e, exp.Mul) else (False, False)
            ends = _op(type(e), al, bl), _op(type(e), ah, bh)
            return Width(True, *(ends if sign >= 0 else ends[::-1]), sure, whole)
        if isinstance(e, exp.IntDiv):
            return UNKNOWN
        if isinstance(e, exp.Add):
            return Width(True, _op(exp.Add, al, bl), _op(exp.Add, ah, bh), sure, whole)
        if isinstance(e, exp.Sub):
            return Width(True, _op(exp.Sub, al, bh), _op(exp.Sub, ah, bl), sure, whole)
        corners = [_op(type(e), x, y) for x, y in product((al, ah), (bl, bh))]
        known = [_there(x) for x in (al, ah, bl, bh)]
        if isinstance(e, exp.Div):
            zero = exp.Literal.number(0)
            known.append(exp.paren(exp.or_(_op(exp.GT, bl, zero), _op(exp.LT, bh, zero))))
            sure = whole = False
        high = exp.Greatest(this=corners[0].copy(), expressions=[c.copy() for c in corners[1:]])
        low = exp.Least(this=corners[0], expressions=corners[1:])
        return Width(True, _when(known, low), _when(known, high), sure, whole)

    def _absolute(self, e: exp.Abs) -> Width:
        a = self.width(e.this)
        if a.low is None or a.high is None:
            return UNKNOWN
        ends = [exp.Abs(this=_p(x)) for x in (a.low, a.high)]
        known, zero = [_there(a.low), _there(a.high)], exp.Literal.number(0)
        low = exp.Greatest(this=zero, expressions=[_p(a.low), exp.Neg(this=_p(a.high))])
        high = exp.Greatest(this=ends[0], expressions=[ends[1]])
        return Width(True, _when(known, low), _when(known, high), a.sure, a.whole)

    def _extreme(self, e: exp.Greatest | exp.Least) -> Width:
        parts = [e.this, *e.expressions]
        widths = [self.width(p) for p in parts]
        if any(w.noised and w.low is None for w in widths):
            return UNKNOWN
        pairs = [_ends(w, p) for w, p in zip(widths, parts, strict=True)]
        found = []
        for ends in zip(*pairs, strict=True):
            first, *rest = map(own, ends)
            found.append(_when([_there(x) for x in ends], type(e)(this=first, expressions=rest)))
        low, high = found
        return Width(True, low, high, all(w.sure for w in widths), all(w.whole for w in widths))

    def _case(self, e: exp.If | exp.Case) -> Width:
        ifs = [e] if isinstance(e, exp.If) else e.args["ifs"]
        otherwise = e.args.get("false" if isinstance(e, exp.If) else "default")
        if (isinstance(e, exp.Case) and e.this is not None) or not all(
            self._is_public(i.this) for i in ifs
        ):
            return UNKNOWN
        results = [i.args["true"] for i in ifs] + ([otherwise] if otherwise is not None else [])
        widths = [self.width(r) for r in results]
        if any(w.noised and w.low is None for w in widths):
            return UNKNOWN
        pairs = [_ends(w, r) for w, r in zip(widths, results, strict=True)]
        found = []
        for end in (0, 1):
            branches = [
                exp.If(this=i.this.copy(), true=own(pair[end]))
                for i, pair in zip(ifs, pairs, strict=False)
            ]
            last = own(pairs[-1][end]) if otherwise is not None else None
            found.append(exp.Case(ifs=branches, default=last))
        whole = all(w.whole for w in widths)
        return Width(True, found[0], found[1], all(w.sure for w in widths), whole)

    def _coalesce(self, e: exp.Coalesce) -> Width:
        """x where it is there: known to be so where noise never makes it NULL."""
        parts = [e.this, *e.expressions]
        widths = [self.width(p) for p in parts]
        if any(w.noised and w.low is None for w in widths) or not all(w.sure for w in widths):
            return UNKNOWN
        pairs = [_ends(w, p) for w, p in zip(widths, parts, strict=True)]
        found = [
            exp.Case(
                ifs=[
                    exp.If(this=_there(p), true=own(pair[end]))
                    for p, pair in zip(parts[:-1], pairs, strict=False)
                ],
                default=own(pairs[-1][end]),
            )
            for end in (0, 1)
        ]
        return Width(True, found[0], found[1], True, all(w.whole for w in widths))

    # -- of several rows ---------------------------------------------------------------------------

    def _aggregate(self, e: exp.Expr) -> Width:
        condition = e.expression.this if isinstance(e, exp.Filter) else None
        call = e.this if isinstance(e, exp.Filter) else e
        if not self._public_groups or (condition is not None and not self._is_public(condition)):
            return UNKNOWN
        return self._total(call, lambda f: _filtered(e, f))

    def _window(self, e: exp.Window) -> Width:
        order, by = e.args.get("order"), list(e.args.get("partition_by") or [])
        by += [o.this for o in order.expressions] if order is not None else []
        if not self._public_rows or not all(map(self._is_public, by)):
            return UNKNOWN
        call = e.this
        if isinstance(call, _NUMBERED):
            return PUBLIC
        if isinstance(call, _SAME_PLACE):
            a = self.width(call.this)
            if not a.noised:
                return PUBLIC
            if a.low is None or a.high is None:
                return UNKNOWN
            low, high = (with_this(e, with_this(call, end)) for end in (a.low, a.high))
            return Width(True, low, high, False, a.whole)
        return self._total(call, lambda f: with_this(e, f))

    def _total(self, call: exp.Expr, over: object) -> Width:
        """Return the width of a count, a sum … of rows that are public."""
        assert callable(over)
        inside = call.this
        if isinstance(call, exp.Count) and isinstance(inside, exp.Star):
            return PUBLIC
        a = self.width(inside)
        if not a.noised or (isinstance(call, exp.Count) and a.sure):
            return PUBLIC
        if not isinstance(call, _TOTALS) or a.low is None or isinstance(inside, exp.Distinct):
            return UNKNOWN
        rows = over(exp.Count(this=inside.copy()))
        found = []
        for end in (a.low, a.high):
            assert end is not None
            complete = exp.EQ(this=over(exp.Count(this=end.copy())), expression=rows.copy())
            total = over(type(call)(this=end.copy()))
            found.append(exp.Case(ifs=[exp.If(this=complete, true=total)]))
        low, high = found
        return Width(True, low, high, False, a.whole and not isinstance(call, exp.Avg))


def _filtered(e: exp.Expr, f: exp.Expr) -> exp.Expr:
    return with_this(e, f) if isinstance(e, exp.Filter) else f


def _p(e: exp.Expr | None) -> exp.Expr:
    return exp.null() if e is None else exp.Paren(this=own(e))


def _op(kind: type[exp.Expr], a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return kind(this=_p(a), expression=_p(b))


def _there(e: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=_p(e), expression=exp.null()))


def _when(conditions: Sequence[exp.Expr], value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=exp.and_(*conditions, copy=False), true=value)])
