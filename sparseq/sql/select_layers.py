"""A SELECT with windows, aggregates and conditions on both: taken apart into simple ones.

QUALIFY, DISTINCT ON, a window inside an expression and a window over groups become a subquery that
computes the groups, one that computes the windows, and a SELECT over its columns. Each of these is
kept per person by the rules for subqueries (`sparseq.sql.subqueries`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

_ROWS = ("from_", "from", "joins", "where", "with_", "with")
_GROUPS = (*_ROWS, "group", "having")
_AFTER = ("group", "having", "qualify", "order", "distinct", "limit", "offset")


def layered(select: exp.Select) -> exp.Select:
    """Return a subquery in layers, each with groups or windows or conditions on them.

    Example:
        >>> from sqlglot import parse_one
        >>> q = "SELECT t.a AS a FROM t QUALIFY row_number() OVER (ORDER BY t.b) = 1"
        >>> layered(parse_one(q, dialect="duckdb")).sql("duckdb").count("SELECT")
        2
    """
    select = _distinct_on(select)
    windows = [w for part in _shown(select) for w in part.find_all(exp.Window)]
    if not windows:
        return select
    if _is_grouped(select):
        return layered(split_groups(select))
    bare = all(isinstance(e.unalias(), exp.Window) or not e.find(exp.Window)
               for e in select.expressions)  # fmt: skip
    order = select.args.get("order")
    ordered = order is not None and order.find(exp.Window) is not None
    if bare and not select.args.get("qualify") and not ordered:
        return select
    return _split(select, "#windows", lambda e: isinstance(e, exp.Window | exp.Column))


def split_groups(select: exp.Select) -> exp.Select:
    """Return a grouped SELECT as one over a subquery that has its keys and aggregates."""
    keys = list(select.args["group"].expressions) if select.args.get("group") else []
    texts = {k.sql("duckdb") for k in keys}
    return _split(select, "#groups", lambda e: _is_aggregate(e) or e.sql("duckdb") in texts)


def _shown(select: exp.Select) -> list[exp.Expr]:
    others = [select.args.get(k) for k in ("qualify", "order")]
    return [*select.expressions, *(o for o in others if o is not None)]


def _is_grouped(select: exp.Select) -> bool:
    return select.args.get("group") is not None or any(
        _is_aggregate(e) and not isinstance(e.parent, exp.Window | exp.Filter)
        for part in select.expressions
        for e in part.find_all(exp.AggFunc)
    )


def _is_aggregate(e: exp.Expr) -> bool:
    if isinstance(e.parent, exp.Window) and e.parent.this is e:
        return False
    return isinstance(e, exp.AggFunc | exp.Filter) and not isinstance(e, WINDOWED)


WINDOWED = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue,
    exp.NthValue, exp.Ntile,
)  # fmt: skip


def name_parts(select: exp.Select, parts: frozenset[int]) -> exp.Select:
    """Return a SELECT over a subquery in which some parts of its expressions have a name.

    Args:
        select: Whose parts they are.
        parts: By `id`. If some are in aggregates, only these get names: the others' turn comes.
    """
    if _is_grouped(select):
        rows = {id(e) for e in select.walk() if id(e) in parts and _is_aggregated(e)}
        if not rows:
            return split_groups(select)
        return _split(select, NAMED, lambda e: id(e) in rows or isinstance(e, exp.Column), _ROWS)
    return _split(select, NAMED, lambda e: id(e) in parts or isinstance(e, exp.Column))


NAMED = "#named"


def _is_aggregated(e: exp.Expr) -> bool:
    above = e.parent
    while above is not None and not isinstance(above, exp.Select):
        if _is_aggregate(above):
            return True
        above = above.parent
    return False


def _split(
    select: exp.Select,
    alias: str,
    inside: Callable[[exp.Expr], bool],
    clauses: tuple[str, ...] = _GROUPS,
) -> exp.Select:
    """Return a SELECT over a subquery that has, as columns, the parts that are `inside`.

    Args:
        select: Is taken apart.
        clauses: That the subquery has; the others are the SELECT's.
    """
    names: dict[str, str] = {}
    columns: list[exp.Expr] = []

    def lifted(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.Column) and not e.table:
            return e.copy()  # ORDER BY names what is selected
        if inside(e):
            text = e.sql("duckdb")
            if text not in names:
                names[text] = f"c{len(names)}"
                columns.append(exp.alias_(e.copy(), names[text], quoted=True))
            return exp.column(names[text], alias, quoted=True)
        return mapped(e, lifted)

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


def mapped(e: exp.Expr, f: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return an expression with its parts mapped."""

    def part(child: Any) -> Any:
        if isinstance(child, list):
            return [part(c) for c in child]
        return f(child) if isinstance(child, exp.Expr) else child

    made = type(e)(**{name: part(child) for name, child in e.args.items()})
    made.type = e.type
    made.meta.update(e.meta)
    return made


def _distinct_on(select: exp.Select) -> exp.Select:
    """DISTINCT ON (k) … ORDER BY o: QUALIFY row_number() OVER (PARTITION BY k ORDER BY o) = 1."""
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
    if order is not None:
        window.set("order", order.copy().transform(meant))
    copy = select.copy()
    copy.set("distinct", None)
    copy.set("order", None)
    first = exp.EQ(this=window, expression=exp.Literal.number(1))
    copy.set("qualify", exp.Qualify(this=first))
    return copy
