"""A SELECT with windows, aggregates and conditions on both, split into simple SELECTs.

QUALIFY, DISTINCT ON, a window inside an expression and a window over groups become a subquery that
computes the groups, one that computes the windows, and a SELECT over its columns. The rules for
subqueries keep each of these per person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp

from sparseq.language.column_id import ColumnId
from sparseq.sql.aggregate_calls import aggregates_in, is_aggregate
from sparseq.sql.written_calls import is_count_of_values

_ROWS = ("from_", "from", "joins", "where", "with_", "with")
_GROUPS = (*_ROWS, "group", "having")
_AFTER = ("group", "having", "qualify", "order", "distinct", "limit", "offset")


def make_layers(select: exp.Select) -> exp.Select:
    """Return a subquery as layers: each computes groups or windows, or applies conditions to them.

    Example:
        >>> from sqlglot import parse_one
        >>> q = "SELECT t.a AS a FROM t QUALIFY row_number() OVER (ORDER BY t.b) = 1"
        >>> make_layers(parse_one(q, dialect="duckdb")).sql("duckdb").count("SELECT")
        2
    """
    select = _distinct_on(select)
    windows = [w for part in _shown(select) for w in part.find_all(exp.Window)]
    if not windows:
        return select
    if is_grouped(select):
        return make_layers(split_groups(select))
    bare = all(
        isinstance(e.unalias(), exp.Window) or not e.find(exp.Window) for e in select.expressions
    )
    order = select.args.get("order")
    ordered = order is not None and order.find(exp.Window) is not None
    if bare and not select.args.get("qualify") and not ordered:
        return select
    return _split(select, "#windows", lambda e: isinstance(e, exp.Window | exp.Column))


def split_groups(select: exp.Select) -> exp.Select:
    """Return a grouped SELECT as a SELECT over a subquery with its keys and aggregates."""
    keys = list(select.args["group"].expressions) if select.args.get("group") else []
    texts = {k.sql("duckdb") for k in keys}
    return _split(select, "#groups", lambda e: is_aggregate(e) or e.sql("duckdb") in texts)


def with_first_rows(
    select: exp.Select, is_owned: Callable[[exp.Expr], bool], user: exp.Column
) -> exp.Select:
    """Return a SELECT that replaces count(DISTINCT x) by a count of each person's first rows per x.

    The number is the same if no value of x belongs to two people. Rows are numbered within each
    group.

    Args:
        select: A SELECT with explicit keys.
        is_owned: Tells whether no value of a column belongs to two people.
        user: The row's user.
    """
    select = select.copy()
    group = select.args.get("group")
    keys = [k.copy() for k in group.expressions] if group is not None else []
    for e in [e for e in _counts_of_values(select) if is_owned(owned_value(e))]:
        filtered = e.parent if isinstance(e.parent, exp.Filter) else None
        (value,) = e.this.expressions
        if filtered is not None:
            value = exp.Case(ifs=[exp.If(this=filtered.expression.this.copy(), true=value.copy())])
        order = exp.Order(expressions=[exp.Ordered(this=value.copy(), nulls_first=False)])
        number = exp.Window(
            this=exp.RowNumber(),
            partition_by=[user.copy(), value.copy(), *(k.copy() for k in keys)],
            order=order,
            over="OVER",
        )
        present = exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
        first = exp.EQ(this=number, expression=exp.Literal.number(1))
        (filtered or e).replace(exp.CountIf(this=exp.and_(first, present)))
    return _split(select, "#rows", lambda e: isinstance(e, exp.Window | exp.Column), _ROWS)


def owned_value(e: exp.Count) -> exp.Expr:
    """Return the x of count(DISTINCT x) or of count(DISTINCT CASE WHEN … THEN x END)."""
    value: exp.Expr = e.this.expressions[0]
    while isinstance(value, exp.Paren | exp.Case | exp.If):
        if isinstance(value, exp.Paren):
            value = value.this
            continue
        ifs = value.args["ifs"] if isinstance(value, exp.Case) else [value]
        other = value.args.get("default" if isinstance(value, exp.Case) else "false")
        if len(ifs) != 1 or not (other is None or isinstance(other, exp.Null)):
            break
        value = ifs[0].args["true"]
    return value


def counts_own_values(select: exp.Select, owned: Iterable[ColumnId]) -> bool:
    """Tell, by column names, whether a SELECT may count the distinct values of an owned column."""
    names = {column.name.lower() for column in owned}
    found = (owned_value(e) for e in _counts_of_values(select))
    return any(isinstance(e, exp.Column) and e.name in names for e in found)


def _counts_of_values(select: exp.Select) -> list[exp.Count]:
    parts = [*select.expressions, select.args.get("having"), select.args.get("order")]
    every = [n for p in parts if p is not None for n in p.find_all(exp.Count)]
    return [n for n in every if is_count_of_values(n) and len(n.this.expressions) == 1]


def _shown(select: exp.Select) -> list[exp.Expr]:
    others = [select.args.get(k) for k in ("qualify", "order")]
    return [*select.expressions, *(o for o in others if o is not None)]


def is_grouped(select: exp.Select) -> bool:
    return select.args.get("group") is not None or any(map(aggregates_in, select.expressions))


def _split(
    select: exp.Select,
    alias: str,
    inside: Callable[[exp.Expr], bool],
    clauses: tuple[str, ...] = _GROUPS,
) -> exp.Select:
    """Return a SELECT over a subquery whose columns are the parts that satisfy `inside`.

    Args:
        select: The SELECT to split.
        clauses: The clauses that move to the subquery; the outer SELECT keeps the others.
    """
    names: dict[str, str] = {}
    columns: list[exp.Expr] = []

    def lifted(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.Column) and not e.table:
            return e.copy()  # ORDER BY names a selected item
        if inside(e):
            text = e.sql("duckdb")
            if text not in names:
                names[text] = f"c{len(names)}"
                columns.append(exp.alias_(e.copy(), names[text], quoted=True))
            column = exp.column(names[text], alias, quoted=True)
            column.meta["written"] = e
            return column
        return map_parts(e, lifted)

    shown = [
        exp.alias_(lifted(e.unalias()), e.alias_or_name, quoted=True) for e in select.expressions
    ]
    outer = exp.Select(expressions=shown)
    for clause in _AFTER:
        if clause not in clauses and (value := select.args.get(clause)) is not None:
            outer.set(clause, lifted(value))
    base = exp.Select(**{k: v for k in clauses if (v := select.args.get(k)) is not None})
    base.set("expressions", columns or [exp.alias_(exp.Literal.number(1), "c", quoted=True)])
    source = exp.Subquery(
        this=base, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )
    outer.set("from_", exp.From(this=source))
    qualify = outer.args.get("qualify")
    if qualify is not None and qualify.find(exp.Window) is None:
        outer.set("where", exp.Where(this=qualify.this))
        outer.set("qualify", None)
    return outer


def map_parts(e: exp.Expr, f: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return an expression with `f` applied to its parts."""

    def part(child: Any) -> Any:
        if isinstance(child, list):
            return [part(c) for c in child]
        return f(child) if isinstance(child, exp.Expr) else child

    made = type(e)(**{name: part(child) for name, child in e.args.items()})
    made.type = e.type
    made.meta.update(e.meta)
    return made


def _distinct_on(select: exp.Select) -> exp.Select:
    """Return DISTINCT ON (k) … ORDER BY o as QUALIFY row_number() OVER (… k ORDER BY o) = 1."""
    distinct = select.args.get("distinct")
    if distinct is None or not distinct.args.get("on"):
        return select
    known = {e.alias_or_name: e.unalias() for e in select.expressions}

    def meant(e: exp.Expr) -> exp.Expr:
        named = isinstance(e, exp.Column) and not e.table and e.name in known
        return known[e.name].copy() if named else e

    order = select.args.get("order")
    keys = [meant(k.copy()).transform(meant) for k in distinct.args["on"].expressions]
    window = exp.Window(this=exp.RowNumber(), partition_by=keys, over="OVER")
    window.meta.update(distinct.meta)
    if order is not None:
        window.set("order", order.copy().transform(meant))
    copy = select.copy()
    copy.set("distinct", None)  # and the rows keep their order: LIMIT takes the first rows
    first = exp.EQ(this=window, expression=exp.Literal.number(1))
    copy.set("qualify", exp.Qualify(this=first))
    return copy
