"""Subqueries and CTEs, kept per user: user i's rows out are a function of i's rows in.

The user's index is added to the select list, to GROUP BY, and to every window's PARTITION BY;
DISTINCT then works within a user too. A LIMIT, a sample or an aggregate without GROUP BY would mix
users, and is refused.

The order in which rows are met is a back door for the crowd, and is shut. Sums are taken in
DECIMAL, whose result does not depend on it; a window that looks at its rows one by one breaks ties
by every column that the subquery looks at; and values that are equal without being the same, like
zero and minus zero, or NaN and minus NaN, are made the same before they are grouped.

A SELECT with windows, aggregates and conditions on both: taken apart into simple ones.

QUALIFY, DISTINCT ON, a window inside an expression and a window over groups become a subquery that
computes the groups, one that computes the windows, and a SELECT over its columns. Each of these is
kept per person by the rules for subqueries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from sqlglot import exp

from sparseq.language import types as T
from sparseq.language.aggregate_functions import (
    AggregateFunction,
    Takes,
    Use,
    overloads,
    plain,
)
from sparseq.language.expression_tree import Term, constant
from sparseq.language.types import Family
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.catalog import Column
from sparseq.sql.from_clause import PLACE, USER, ColumnFacts, FromItem, people_in, quoted
from sparseq.sql.parse import SEEN, said
from sparseq.sql.parsed_expressions import (
    aggregate_name,
    aggregates_in,
    is_aggregate,
    is_binned,
)
from sparseq.sql.plan import LIMITS
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_values import PublicValues
from sparseq.sql.scope import Scope, refuse

# -- a window's frame ------------------------------------------------------------------------------

MAX_OFFSET = 1_000_000
_UNITS = {
    "YEAR": 100,
    "QUARTER": 400,
    "MONTH": 1_200,
    "WEEK": 5_200,
    "DAY": 36_500,
    "HOUR": 876_000,
    "MINUTE": 52_560_000,
    "SECOND": 3_153_600_000,
}
"""And the most of each: a hundred years."""
_KEYS = {
    Family.DATE: "CASE WHEN {0} < DATE '0001-01-01' THEN DATE '0001-01-01' "
    "WHEN {0} > DATE '9999-12-31' THEN DATE '9999-12-31' ELSE {0} END",
    Family.TIMESTAMP: "CASE WHEN {0} < TIMESTAMP '0001-01-01' THEN TIMESTAMP '0001-01-01' "
    "WHEN {0} > TIMESTAMP '9999-12-31 23:59:59.999999' THEN TIMESTAMP '9999-12-31 23:59:59.999999' "
    "ELSE {0} END",
    Family.INTEGER: "CAST({0} AS HUGEINT)",
    Family.DOUBLE: "{0}",
}
"""Types that a distance can be taken from, and added to, without going over an end."""


def has_offsets(spec: exp.Expr | None) -> bool:
    """Tell whether a frame begins or ends some rows, groups or distance away."""
    return spec is not None and any(
        isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end")
    )


def distance_key(spec: exp.Expr, terms: list[Term]) -> str:
    """Return SQL of what a frame by distance is ordered by; no distance of it can raise."""
    if len(terms) != 1 or terms[0].type.family not in _KEYS:
        refuse(
            f"{said(spec)}: a distance is in one date, time or number",
            "order by one column, or use ROWS n PRECEDING",
        )
    return _KEYS[terms[0].type.family].format(f"({terms[0].sql})")


def frame(spec: exp.Expr | None, family: Family | None = None) -> str:
    """Return a frame as SQL.

    Args:
        spec: The frame; None: there is none.
        family: Of what a frame by distance is ordered by.
    """
    if spec is None:
        return ""
    kind = (spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE", "GROUPS") or spec.args.get("exclude"):
        refuse(f"{said(spec)}: this frame is not answered", "use ROWS n PRECEDING")
    ends = []
    for name in ("start", "end"):
        value, side = spec.args.get(name), spec.args.get(f"{name}_side") or ""
        if isinstance(value, exp.Expr):
            value = _distance(value, family) if kind == "RANGE" else str(whole(value, MAX_OFFSET))
        ends.append(f"{value} {side}".strip() if value else "CURRENT ROW")
    return f" {kind} BETWEEN {ends[0]} AND {ends[1]}"


def _distance(e: exp.Expr, family: Family | None) -> str:
    """Return a distance as SQL: an interval of one unit, or a number."""
    if family not in (Family.DATE, Family.TIMESTAMP):
        number = e.name if isinstance(e, exp.Literal) and not e.is_string else ""
        if family is Family.INTEGER or number.isdecimal():
            return f"{whole(e, 10**15)}::{'HUGEINT' if family is Family.INTEGER else 'DOUBLE'}"
        if not number or not 0 <= float(number) <= 1e15:
            refuse(f"{said(e)} is no distance between numbers", "write a number from 0 to 1e15")
        return f"{float(number)!r}::DOUBLE"
    unit = e.args.get("unit") if isinstance(e, exp.Interval) else None
    name = unit.name.upper().removesuffix("S") if unit is not None else ""
    if name not in _UNITS or not isinstance(e.this, exp.Literal):
        refuse(f"{said(e)} is no distance in time", "write it as INTERVAL 7 DAY")
    many = whole(exp.Literal.number(e.this.name), _UNITS[name])
    return f"INTERVAL '{many}' {name}"


def whole(e: exp.Expr, most: int) -> int:
    """Return a literal as an integer in 0..most."""
    if not isinstance(e, exp.Literal) or e.is_string or not e.this.isdecimal():
        refuse(f"{said(e)} must be a whole number", "write the number itself")
    if len(e.this) > 18 or int(e.this) > most:
        refuse(f"{said(e)[:30]} is too large here", f"at most {most:,}")
    return int(e.this)


# -- a SELECT with windows, aggregates and conditions on both: taken apart into simple ones --------

_ROWS = ("from_", "from", "joins", "where", "with_", "with")
_GROUPS = (*_ROWS, "group", "having")
_AFTER = ("group", "having", "qualify", "order", "distinct", "limit", "offset")


def make_layers(select: exp.Select) -> exp.Select:
    """Return a subquery in layers, each with groups or windows or conditions on them.

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
    if _is_grouped(select):
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
    """Return a grouped SELECT as one over a subquery that has its keys and aggregates."""
    keys = list(select.args["group"].expressions) if select.args.get("group") else []
    texts = {k.sql("duckdb") for k in keys}
    return _split(select, "#groups", lambda e: is_aggregate(e) or e.sql("duckdb") in texts)


def with_first_rows(
    select: exp.Select, is_owned: Callable[[exp.Expr], bool], user: exp.Column
) -> exp.Select:
    """Return a SELECT with count(DISTINCT x) as the number of each person's first rows of an x.

    The same number, where no x is of two people. Rows are numbered in each group by itself.

    Args:
        select: With its keys written out.
        is_owned: Tells of which columns that is so.
        user: The row's person.
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
    """Return the x of count(DISTINCT x), and of count(DISTINCT CASE WHEN … THEN x END)."""
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


def counts_own_values(select: exp.Select, names: Container[str]) -> bool:
    """Tell whether distinct values of a column of such a name are counted."""
    found = (owned_value(e) for e in _counts_of_values(select))
    return any(isinstance(e, exp.Column) and e.name in names for e in found)


def _counts_of_values(select: exp.Select) -> list[exp.Count]:
    parts = [*select.expressions, select.args.get("having"), select.args.get("order")]
    every = [n for p in parts if p is not None for n in p.find_all(exp.Count)]
    return [n for n in every if _is_count_of_values(n) and len(n.this.expressions) == 1]


def _shown(select: exp.Select) -> list[exp.Expr]:
    others = [select.args.get(k) for k in ("qualify", "order")]
    return [*select.expressions, *(o for o in others if o is not None)]


def _is_grouped(select: exp.Select) -> bool:
    return select.args.get("group") is not None or any(map(aggregates_in, select.expressions))


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
    window.meta.update(distinct.meta)
    if order is not None:
        window.set("order", order.copy().transform(meant))
    copy = select.copy()
    copy.set("distinct", None)
    copy.set("order", None)
    first = exp.EQ(this=window, expression=exp.Literal.number(1))
    copy.set("qualify", exp.Qualify(this=first))
    return copy


# -- subqueries and CTEs, kept per user: user i's rows out are a function of i's rows in -----------

_INSIDE = "use COUNT, SUM, AVG, MIN, MAX, MEDIAN or STDDEV"
_NULLS = ("FIRST", "LAST")


def lower_inner(
    select: exp.Select, alias: str, public: PublicFacts, ctes: dict[str, FromItem]
) -> FromItem:
    """Return the subquery as a source, in physical form."""
    select = make_layers(select)
    scope = Scope(select, public, ctes, lower_inner)
    private = bool(scope.private)
    _check(select, private)
    return _Inner(scope, alias, private).source()


def _check(select: exp.Select, private: bool) -> None:
    grouped = bool(select.args.get("group"))
    if select.args.get("having") is not None and not grouped:
        refuse("HAVING without GROUP BY is not answered in a subquery", "use WHERE")
    if not private:
        return
    if select.args.get("limit") or select.args.get("offset"):
        refuse(
            "a LIMIT inside would choose between people",
            "leave it out, or number each person's rows: "
            "row_number() OVER (PARTITION BY user ORDER BY …) <= n",
        )
    found = next((a for e in select.expressions for a in aggregates_in(e)), None)
    if found is not None and not grouped:
        refuse(
            f"{said(found)} inside, without GROUP BY, would put all people together",
            "add GROUP BY with the user column",
        )


class _Inner:
    """Builds the physical form of one inner SELECT."""

    def __init__(self, scope: Scope, alias: str, private: bool) -> None:
        self.scope = scope
        self.select = scope.select
        self.alias = alias
        self.private = private
        group = self.select.args.get("group")
        expressions = group.expressions if group is not None else []
        self.keys = [k for k in expressions if not isinstance(k, exp.Literal)]
        self.grouped = _is_grouped(self.select)
        self._check_keys()
        self.steps: list[Term] = []  # computed before the projection, as _step0, _step1 …
        self.users: set[str] = set()
        # of each window that leaves ties: its order with them, and that of the ties alone
        self.orders: dict[tuple[str, ...], list[str]] = {}
        self.columns: dict[str, ColumnFacts] = {}
        self.values = PublicValues(scope, scope.public)

    def _check_keys(self) -> None:
        """Refuse groups of the user of rows that a join may not have found: NULL is one group."""
        lacking = [k for k in self.keys if self.private and self.scope.may_lack_user(k)]
        if lacking and not any(map(self._is_user, self.keys)):
            (key, *_) = lacking[0].find_all(exp.Column)
            refuse(
                f"{key.table}.{key.name} is NULL where a join found no row: they are one group",
                f"GROUP BY {self.scope.user_of_all_rows}",
            )

    def source(self) -> FromItem:
        projections = [self._projection(p) for p in self.select.expressions]
        projections = [p for p in projections if p]
        having = self.select.args.get("having")
        condition = self._over_groups(having.this, truth=True).sql if having is not None else ""
        keys = [self._key(k).sql for k in self.keys if not self._is_user(k)]
        tail = "" if self.private else self._tail()
        self.scope.prepare()
        if self.grouped:
            user = [USER] if self.private else []
            origin = f"FROM ({self._first_step(keys)})"
            origin += f" WHERE {condition}" if condition else ""
        else:
            user = [f"{self.scope.user} AS {USER}"] if self.private else []
            origin = self._origin()
        distinct = bool(self.select.args.get("distinct"))
        if distinct and self.private and not self.users:
            refuse(
                "DISTINCT inside keeps each value once, whoever it is of",
                f"select {self.scope.user_name} too: each value once a person",
            )
        inside = "" if distinct else tail
        place = self._place()
        derived = f"(SELECT {', '.join([*user, *place, *projections])} {origin}{inside})"
        LIMITS["sql"].check(len(derived), self.scope.public.limits)
        types = self.scope.public.columns(f"SELECT * FROM {derived} LIMIT 0")
        for name in self.columns.keys() & types.keys():
            self.columns[name] = replace(self.columns[name], type=types[name])
        if distinct:
            shown = ", ".join(
                quoted(n) if n == USER else f"{self._plain_column(n, t)} AS {quoted(n)}"
                for n, t in types.items()
            )
            derived = f"(SELECT DISTINCT {shown} FROM {derived}{tail})"
        return FromItem(
            self.alias,
            self.private,
            self.users,
            self.columns,
            derived=derived,
            single=self._one_row_a_person(),
            caps=self.scope.caps,
            most=self._most(),
            people=max(people_in(self.scope.private), 1),
            placed=bool(place),
        )

    def _most(self) -> int:
        limit = None if self.private else self.select.args.get("limit")
        most = (
            self.scope.most if limit is None else min(self.scope.most, int(limit.expression.name))
        )
        return min(most, 1) if self.grouped and not self.keys else most

    def _one_row_a_person(self) -> bool:
        return self.private and self.grouped and all(map(self._is_user, self.keys))

    def _plain_column(self, name: str, type: str) -> str:
        held = T.find_type(type)
        return quoted(name) if held is None else plain(Term(held, quoted(name))).sql

    def _origin(self) -> str:
        where = self.scope.where_sql()
        return self.scope.from_sql() + (f" WHERE {where}" if where else "")

    def _first_step(self, keys: list[str]) -> str:
        """The aggregates; what is made of them comes after, and may fail row by row."""
        user = [f"{self.scope.user} AS {USER}"] if self.private else []
        computed = [f"{step.sql} AS _step{i}" for i, step in enumerate(self.steps)]
        by = ([self.scope.user] if self.private else []) + keys
        first = f"SELECT {', '.join([*user, *computed]) or '1'} {self._origin()}"
        return first + (f" GROUP BY {', '.join(by)}" if by else "")

    def _tail(self) -> str:
        """ORDER BY and LIMIT, which only subqueries over public tables may have."""
        order = self.select.args.get("order")
        parts = [self._order(o, self._public_order) for o in order.expressions] if order else []
        tail = f" ORDER BY {', '.join(parts)}" if parts else ""
        for name in ("limit", "offset"):
            clause = self.select.args.get(name)
            if clause is not None:
                tail += f" {name.upper()} {whole(clause.expression, 10**18)}"
        return tail

    def _public_order(self, e: exp.Expr) -> str:
        if isinstance(e, exp.Literal):
            return str(whole(e, len(self.select.expressions)))
        if isinstance(e, exp.Column) and not e.table:
            return quoted(e.name)
        return self._over_groups(e).sql if self.grouped else self.scope.value_sql(e)

    # -- what is selected -------------------------------------------------------------------------

    def _is_user(self, e: exp.Expr) -> bool:
        return self.private and self.scope.is_user(e)

    def _projection(self, e: exp.Expr) -> str:
        """Return `SQL AS name`; "" for the user column, which is always there."""
        name, value = e.alias_or_name, e.unalias()
        if not name or name.lower().startswith(USER):
            refuse(f"a column can't be called {name!r}", "give it another name")
        if name in self.columns:
            refuse(f"two columns are called {name!r}", "rename one: … AS other")
        self.columns[name] = self._facts(value)
        if self._is_user(value):
            self.users.add(name)
            column = value.find(exp.Column)
            assert column is not None
            self.columns[name] = ColumnFacts(self.scope.type_of(column))
            return ""
        sql, zoned = self._select(value)
        self.columns[name] = replace(self.columns[name], zoned=zoned)
        return f"{sql} AS {quoted(name)}"

    def _select(self, value: exp.Expr) -> tuple[str, bool]:
        """Return SQL of a column, and whether it has moments."""
        if isinstance(value, exp.Explode):
            return f"unnest({self._unnest(value).sql})", False
        if self.grouped:
            term = self._over_groups(value)
            return term.sql, term.type.zoned
        if isinstance(value, exp.Window):
            term = self._window(value)
            return term.sql, term.type.zoned
        if value.find(exp.Window) is not None:
            refuse(
                f"{said(value)} has a window inside an expression",
                "give the window a column of its own in a subquery",
            )
        term = self.scope.column_term(value)
        return term.sql, term.type.zoned

    def _unnest(self, e: exp.Explode) -> Term:
        """Return the list whose values become rows; who gets too many of them is out."""
        if not isinstance(e.this, exp.Column):
            refuse(f"{said(e)}: a column of lists is unnested", "len(string_split(x, ' ')) counts")
        term, only = self.scope.term(e.this), list(self.scope.sources.values())
        many = [x for p in self.select.expressions for x in p.find_all(exp.Explode, exp.Window)]
        if term.type.family is not Family.LIST:
            refuse(f"{said(e)}: {term.type.family.one} is no list", "unnest a column of lists")
        if len(only) > 1 or len(many) > 1 or self.grouped:
            refuse(
                f"{said(e)} stands beside a join, a window, groups or another unnest",
                "unnest one column in a subquery over one table: SELECT t.*, unnest(t.tags) …",
            )
        self.scope.unnests(e.this)
        return term

    def _facts(self, value: exp.Expr) -> ColumnFacts:
        if isinstance(value, exp.Explode):
            return ColumnFacts()
        inside = value.expressions[0] if is_binned(value) else value  # a quantile lies in them
        bounds = self.scope.ends(inside)
        found = cache(partial(self.values.inside, value))
        null = cache(partial(self.values.may_be_null, value))
        if isinstance(value, exp.Column):
            facts = self.scope.facts(value)
            # strings have been decoded by now, and codes are gone
            return ColumnFacts(facts.type, facts.bounds, _without_code(facts), found, null)
        counted = value.this.expressions if _is_count_of_values(value) else []
        if len(counted) == 1 and not self._is_user(counted[0]):
            known = self.values.inside(counted[0])
            bounds = (0.0, float(len(known))) if known is not None else bounds
        return ColumnFacts("", bounds, values=found, null=null)

    # -- aggregates -------------------------------------------------------------------------------

    def _over_groups(self, e: exp.Expr, truth: bool = False) -> Term:
        """Return an expression over the columns of the first step, adding those it needs."""
        done = self._over_steps(e)
        reader = ExpressionReader(self._step_column, self.scope.public.constant)
        return reader.truth(done) if truth else reader.at_rest(done)

    def _step_column(self, column: exp.Column) -> Term:
        return Term(self.steps[int(column.name.removeprefix("_step"))].type, column.name)

    def _over_steps(self, node: exp.Expr) -> exp.Expr:
        if self._is_key(node):
            return self._step(self._key(node))
        if is_aggregate(node):
            return self._step(self._aggregate(node))
        if isinstance(node, exp.Window):
            refuse(
                f"{said(node)} is a window over groups",
                "group in one subquery, and use the window in the next",
            )
        if isinstance(node, exp.Column):
            refuse(f"{said(node)} is neither in GROUP BY nor aggregated", "add it to GROUP BY")
        copy = node.copy()
        for name, child in list(copy.args.items()):
            if isinstance(child, exp.Expr):
                copy.set(name, self._over_steps(child))
            elif isinstance(child, list):
                parts = [self._over_steps(c) if isinstance(c, exp.Expr) else c for c in child]
                copy.set(name, parts)
        return copy

    def _is_key(self, node: exp.Expr) -> bool:
        text = node.sql("duckdb")
        return any(text == k.sql("duckdb") for k in self.keys)

    def _key(self, key: exp.Expr) -> Term:
        return plain(self.scope.column_term(key))

    def _step(self, term: Term) -> exp.Column:
        if term not in self.steps:
            self.steps.append(term)
        return exp.column(f"_step{self.steps.index(term)}")

    def _aggregate(self, e: exp.Expr) -> Term:
        """Return one aggregate over a user's rows."""
        condition, call = self._read_call(e)
        if call.function.use is Use.WINDOW:
            refuse(f"{said(e)} is not answered in a subquery", _INSIDE)
        return call.apply(condition=condition)

    def _read_call(self, e: exp.Expr) -> tuple[str, _Call]:
        """Return SQL of a FILTER, and the aggregate or window function that it is of."""
        condition = ""
        if isinstance(e, exp.Filter):
            condition, e = self.scope.truth_sql(e.expression.this), e.this
        written = _written_call(e)
        found = overloads(written.name)
        fitting = [f for f in found if len(f.takes) == len(written.arguments)]
        if not fitting or (written.distinct and not fitting[0].distinct):
            refuse(f"{said(e)} is not answered in a subquery", _INSIDE)
        ordered = fitting[0].ordered
        if ordered and not written.order:
            refuse(f"{said(e)}: which row comes first is open", f"{e.key}(x ORDER BY y)")
        if written.order and not ordered:
            refuse(f"{said(e)} has an ORDER BY", "leave it out")
        arguments = [
            x
            if isinstance(x, Term)
            else (self.scope.truth if takes is Takes.TRUTH else self.scope.column_term)(x)
            for x, takes in zip(written.arguments, fitting[0].takes, strict=True)
        ]
        types = [a.type for a in arguments]
        function = next((f for f in fitting if all(map(Takes.allows, f.takes, types))), None)
        if function is None:
            refuse(
                f"{said(e)} is of {types[0].family.one}, not of a number", "write CAST(x AS DOUBLE)"
            )
        read = self.scope.column_term
        order = tuple(self._order(o, lambda x: plain(read(x)).sql) for o in written.order)
        return condition, _Call(function, arguments, written.distinct, order)

    # -- windows ----------------------------------------------------------------------------------

    def _window(self, window: exp.Window) -> Term:
        """Return a window function, over each person's own rows."""
        spec, order = window.args.get("spec"), window.args.get("order")
        kind = (spec.args.get("kind") or "").upper() if spec is not None else ""
        condition, call = self._read_call(window.this)
        function = call.function
        if function.use is Use.AGGREGATE:
            refuse(f"{said(window)} is not answered", "use row_number, rank, lag, lead or sum")
        by_user = [self._is_user(p) for p in window.args.get("partition_by") or []]
        if self.private and not any(by_user):
            refuse(
                f"{said(window)} puts all people's rows in one order",
                f"add PARTITION BY {self.scope.user_name}: each person's own rows",
            )
        every_part = zip(window.args.get("partition_by") or [], by_user, strict=True)
        parts = [self.scope.user] if self.private else []
        parts += [self.scope.value_sql(p) for p, is_user in every_part if not is_user]
        every = order.expressions if order else []
        by, family = [self._order(o, self.scope.value_sql) for o in every], None
        if function.one_by_one and kind != "ROWS" and has_offsets(spec):
            refuse(
                f"{said(window)}: which of its peers comes first is open", "use ROWS n PRECEDING"
            )
        if spec is not None and kind == "RANGE" and has_offsets(spec):
            terms = [self.scope.term(o.this if isinstance(o, exp.Ordered) else o) for o in every]
            key, family = distance_key(spec, terms), terms[0].type.family
            by = [self._order(every[0], lambda _: key)]
        elif kind == "ROWS" or function.one_by_one:
            by += self._ties(by, window.meta.get(SEEN, frozenset()))
        over = f"PARTITION BY {', '.join(parts)}" if parts else ""
        over += f" ORDER BY {', '.join(by)}" if by else ""
        return call.apply(condition=condition, over=f"({over.strip()}{frame(spec, family)})")

    def _ties(self, by: list[str], seen: frozenset[str]) -> list[str]:
        """Return what breaks ties: one order of a person's rows for all windows of a query.

        It is that of all columns which the query names, and goes with the rows, as a place, to
        whatever is selected from them.
        """
        place = self._place_inside()
        if place and len(self.scope.sources) == 1:
            return [place]
        breakers = self._tie_breakers(by, seen)
        self.orders[(*by, *breakers)] = self._tie_breakers([], seen)
        return [place, *breakers] if place else breakers

    def _place_inside(self) -> str:
        """Return SQL of the place that a row had in a subquery; "": it had none."""
        only = self.scope.private[0] if len(self.scope.private) == 1 else None
        if only is None or not only.placed:
            return ""
        return exp.column(PLACE, only.alias, quoted=True).sql("duckdb")

    def _place(self) -> list[str]:
        """Return a row's place among the person's as a column, where windows have looked at it."""
        many = self.scope.unnested  # rows with one place
        if self.grouped or not self.private or many or self.select.args.get("distinct"):
            return []
        place = self._place_inside()
        if not place and self.orders:
            ((own, common), *others) = self.orders.items()
            by = ", ".join(common if others else own)
            order = f" ORDER BY {by}" if by else ""  # else rows are alike in all that is named
            place = f"row_number() OVER (PARTITION BY {self.scope.user}{order})"
        return [f"{place} AS {quoted(PLACE)}"] if place else []

    def _tie_breakers(self, by: list[str], seen: frozenset[str]) -> list[str]:
        """Every column that the query names: rows alike in all of them may change places.

        What they are ordered by already need not come again.
        """
        columns = [
            exp.column(name, source.alias, quoted=True)
            for source in self.scope.sources.values()
            for name in source.columns
            if name in seen and name not in source.users and T.find_type(source.columns[name].type)
        ]
        found = {c.sql(): c for e in self.select.expressions for c in e.find_all(exp.Column)}
        columns += [c for c in found.values() if not self._is_user(c)]
        breakers = list(dict.fromkeys(self.scope.term(c) for c in columns))
        several = [b for b in breakers if b.type.family is Family.DOUBLE]
        signs = [f"signbit({b.sql}) DESC" for b in several]  # equal zeros and NaNs differ in it
        known = {o.removesuffix(f" NULLS {n}").removesuffix(" DESC") for o in by for n in _NULLS}
        return [b.sql for b in breakers if b.sql not in known] + signs

    def _order(self, e: exp.Expr, to_sql: Callable[[exp.Expr], str]) -> str:
        if not isinstance(e, exp.Ordered):
            return to_sql(e)
        direction = " DESC" if e.args.get("desc") else ""
        nulls = "FIRST" if e.args.get("nulls_first") else "LAST"
        return f"{to_sql(e.this)}{direction} NULLS {nulls}"


# -- calls of aggregates and window functions, as they are written ---------------------------------

_SHARE = re.compile(r"0?\.\d+|0|1|1\.0+")


@dataclass(frozen=True)
class _Written:
    """A call, taken apart; constants are terms already."""

    name: str
    arguments: list[exp.Expr | Term]
    distinct: bool = False
    order: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class _Call:
    """A function of the table, and what it is called with."""

    function: AggregateFunction
    arguments: list[Term]
    distinct: bool
    order: tuple[str, ...]

    def apply(self, condition: str = "", over: str = "") -> Term:
        """Return its value; see `AggregateFunction.apply`."""
        return self.function.apply(
            self.arguments,
            distinct=self.distinct,
            order=self.order,
            condition=condition,
            over=over,
        )


def _written_call(e: exp.Expr) -> _Written:
    """Return what is called, with what; what no entry of the table has is refused."""
    if is_binned(e):
        return _written_quantile(e)
    name = aggregate_name(e)
    if isinstance(e, exp.Lag | exp.Lead | exp.Ntile | exp.NthValue):
        return _written_place(e, name)
    if isinstance(e, exp.Count) and isinstance(e.this, exp.Star):
        return _Written(name, [])
    if isinstance(e, exp.ArgMax | exp.ArgMin):
        if e.args.get("count") is not None:
            refuse(f"{said(e)} gives a list", f"{said(e)[:7]}(x, y)")
        return _Written(name, [e.this, e.expression])
    inside, order = e.this, []
    if isinstance(inside, exp.Order):
        inside, order = inside.this, inside.expressions
    distinct = isinstance(inside, exp.Distinct)
    values = inside.expressions if distinct else [] if inside is None else [inside]
    others = [v for k, v in e.args.items() if v and k not in ("this", "big_int")]
    if len(values) > 1 or others:
        refuse(f"{said(e)} has more than one argument", "give it one")
    return _Written(name, values, distinct, tuple(order))


def _written_quantile(e: exp.Expr) -> _Written:
    """Return a median or a quantile, with its share as a constant."""
    of, *share = e.expressions
    median = e.name.lower() == "median"
    if median:
        share = [exp.Literal.number("0.5"), *share]
    text = share[0].name if len(share) == 1 and isinstance(share[0], exp.Literal) else ""
    if not _SHARE.fullmatch(text) or isinstance(of, exp.Distinct) or e.name.lower() == "histogram":
        refuse(
            f"{said(e)} is not answered in a subquery",
            "median(x), or quantile_cont(x, 0.9): one number from 0 to 1, and no edges",
        )
    name = "quantile_cont" if median else e.name.lower()
    return _Written(name, [of, Term(T.DOUBLE, text, constant=True, value=float(text))])


def _written_place(e: exp.Expr, name: str) -> _Written:
    """Return a function of a place in a window, which is a whole number, or 1."""
    if isinstance(e, exp.Ntile):
        return _Written(name, [_whole_term(max(whole(e.this, MAX_OFFSET), 1))])
    if e.args.get("default") is not None:
        refuse(f"{said(e)} has a default", "use coalesce(), one SELECT further out")
    offset = e.args.get("offset")
    steps = whole(offset, MAX_OFFSET) if offset is not None else 1
    return _Written(name, [e.this, _whole_term(steps)])


def _whole_term(number: int) -> Term:
    return constant(number, T.BIGINT)


def _is_count_of_values(e: exp.Expr) -> bool:
    return isinstance(e, exp.Count) and isinstance(e.this, exp.Distinct)


def _without_code(facts: ColumnFacts) -> Column | None:
    return replace(facts.stored, coded=False) if facts.stored is not None else None
