"""Subqueries and CTEs, evaluated per user: user i's output rows are a function of i's input rows.

The user's index is added to the select list, to GROUP BY, and to every window's PARTITION BY; so
DISTINCT also applies within a user. A LIMIT, a sample or an aggregate without GROUP BY would
combine the rows of different users, and is refused.

The order of row processing must not carry information between users. Sums use DECIMAL, whose result
does not depend on the order; a window that processes its rows one by one breaks ties by every
column that the subquery uses; and values that are equal but not identical, like zero and minus
zero, or NaN and minus NaN, are normalized before grouping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from sqlglot import exp

from sparseq.base.sql_text import quote
from sparseq.language import types as T
from sparseq.language.aggregate_functions import (
    Takes,
    Use,
    overloads,
)
from sparseq.language.aggregate_functions.prepared_values import plain
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family
from sparseq.question.limits import LIMITS
from sparseq.sql.aggregate_calls import aggregates_in, is_aggregate
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.dialect import sql_of
from sparseq.sql.from_clause import PLACE, USER, ColumnFacts, FromItem, column_of
from sparseq.sql.join_sizes import people_in
from sparseq.sql.layers import is_grouped, make_layers
from sparseq.sql.parse import SEEN, said
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_values import PublicValues, unit_of
from sparseq.sql.scope import Scope, refuse
from sparseq.sql.window_frames import distance_key, frame, has_offsets, whole
from sparseq.sql.written_calls import WrittenCall, is_count_of_values, written_call

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
        self.grouped = is_grouped(self.select)
        self._check_keys()
        self.steps: list[Term] = []  # computed before the projection, as _step0, _step1 …
        self.users: set[str] = set()
        # of each window with ties: its order with tie breakers, and the tie breakers alone
        self.orders: dict[tuple[str, ...], list[str]] = {}
        self.columns: dict[str, ColumnFacts] = {}
        self.values = PublicValues(scope, scope.public)

    def _check_keys(self) -> None:
        """Refuse to group unmatched rows of a join by the user: their NULLs would be one group."""
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
                "DISTINCT in a subquery keeps one of equal values, also of different people",
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
                quote(n) if n == USER else f"{self._plain_column(n, t)} AS {quote(n)}"
                for n, t in types.items()
            )
            derived = f"(SELECT DISTINCT {shown} FROM {derived}{tail})"
        return FromItem(
            self.alias,
            self.private,
            self.users,
            self.columns,
            derived=derived,
            unique=self._unique(),
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

    def _unique(self) -> frozenset[str] | None:
        """Return columns that together differ between all rows of a person, if selected."""
        if not self.private:
            return None
        if self.select.args.get("distinct"):
            return frozenset(self.columns.keys() - self.users)
        if not self.grouped:
            return None
        shown = {sql_of(e.unalias()): e.alias_or_name for e in self.select.expressions}
        keys = [shown.get(sql_of(k)) for k in self.keys if not self._is_user(k)]
        return frozenset(k for k in keys if k) if None not in keys else None

    def _plain_column(self, name: str, type: str) -> str:
        held = T.find_type(type)
        return quote(name) if held is None else plain(Term(held, quote(name))).sql

    def _origin(self) -> str:
        where = self.scope.where_sql()
        return self.scope.from_sql() + (f" WHERE {where}" if where else "")

    def _first_step(self, keys: list[str]) -> str:
        """Return SQL of the aggregates; expressions over them come later, and may fail by row."""
        user = [f"{self.scope.user} AS {USER}"] if self.private else []
        computed = [f"{step.sql} AS _step{i}" for i, step in enumerate(self.steps)]
        by = ([self.scope.user] if self.private else []) + keys
        first = f"SELECT {', '.join([*user, *computed]) or '1'} {self._origin()}"
        return first + (f" GROUP BY {', '.join(by)}" if by else "")

    def _tail(self) -> str:
        """Return ORDER BY and LIMIT, which only public subqueries may have."""
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
            return quote(e.name)
        return self._over_groups(e).sql if self.grouped else self.scope.value_sql(e)

    def _is_user(self, e: exp.Expr) -> bool:
        return self.private and self.scope.is_user(e)

    def _projection(self, e: exp.Expr) -> str:
        """Return `SQL AS name`; "" for the user column, which is always selected."""
        name, value = e.alias_or_name, e.unalias()
        if not name or name.lower().startswith(USER):
            refuse(f"a column can't be called {name!r}", "give it another name")
        if name in self.columns:
            refuse(f"two columns are called {name!r}", "rename one: … AS other")
        if self._is_user(value):
            self.users.add(name)
            column = value.find(exp.Column)
            assert column is not None
            self.columns[name] = ColumnFacts(self.scope.type_of(column))
            return ""
        if isinstance(value, exp.Explode):
            self.columns[name] = ColumnFacts()
            return f"unnest({self._unnest(value).sql}) AS {quote(name)}"
        term = self._select(value)
        null = cache(partial(self.scope.may_be_null, term))
        self.columns[name] = replace(self._facts(value, term), null=null, zoned=term.type.zoned)
        return f"{term.sql} AS {quote(name)}"

    def _select(self, value: exp.Expr) -> Term:
        """Return the term of a selected column."""
        if self.grouped:
            return self._over_groups(value)
        if isinstance(value, exp.Window):
            return self._window(value)
        if value.find(exp.Window) is not None:
            refuse(
                f"{said(value)} has a window inside an expression",
                "give the window a column of its own in a subquery",
            )
        return self.scope.column_term(value)

    def _unnest(self, e: exp.Explode) -> Term:
        """Return the list whose values become rows; people with too many values are removed."""
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

    def _facts(self, value: exp.Expr, term: Term) -> ColumnFacts:
        bounds = self.scope.ends_of_term(term)
        found = cache(partial(self.values.inside, value))
        if isinstance(value, exp.Column):
            facts = self.scope.facts(value)
            stored, place = facts.stored, facts.place
            return ColumnFacts(facts.type, facts.bounds, stored, place, found, unit=facts.unit)
        counted = value.this.expressions if is_count_of_values(value) else []
        if len(counted) == 1 and not self._is_user(counted[0]):
            known = self.values.inside(counted[0])
            bounds = (0.0, float(len(known))) if known is not None else bounds
        return ColumnFacts("", bounds, values=found, unit=unit_of(value))

    def _over_groups(self, e: exp.Expr, truth: bool = False) -> Term:
        """Return an expression over the first step's columns, and add the columns it needs."""
        done = self._over_steps(e)
        reader = ExpressionReader(self._step_column, self.scope.public.constant)
        return reader.truth(done) if truth else reader.at_rest(done)

    def _step_column(self, column: exp.Column) -> Term:
        step = self.steps[int(column.name.removeprefix("_step"))]
        return Term(step.type, column.name, stands_for=step)

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
        text = sql_of(node)
        return any(text == sql_of(k) for k in self.keys)

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

    def _read_call(self, e: exp.Expr) -> tuple[str, WrittenCall]:
        """Return SQL of a FILTER, and the aggregate or window function that it applies to."""
        condition = ""
        if isinstance(e, exp.Filter):
            condition, e = self.scope.truth_sql(e.expression.this), e.this
        written = written_call(e)
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
        return condition, WrittenCall(function, arguments, written.distinct, order)

    def _window(self, window: exp.Window) -> Term:
        """Return a window function over each person's own rows."""
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
        """Return the tie breakers: one order of a person's rows for all windows of a query.

        The order uses all columns that the query names; the rows carry it as a place column into
        outer SELECTs.
        """
        place = self._place_inside()
        if place and len(self.scope.sources) == 1:
            return [place]
        breakers = self._tie_breakers(by, seen)
        self.orders[(*by, *breakers)] = self._tie_breakers([], seen)
        return [place, *breakers] if place else breakers

    def _place_inside(self) -> str:
        """Return SQL of the place that a row has in an inner subquery; "" if it has none."""
        only = self.scope.private[0] if len(self.scope.private) == 1 else None
        if only is None or not only.placed:
            return ""
        return column_of(only.alias, PLACE)

    def _place(self) -> list[str]:
        """Return a row's place among the person's rows as a column, if windows have used it."""
        many = self.scope.unnested  # rows that share a place
        if self.grouped or not self.private or many or self.select.args.get("distinct"):
            return []
        place = self._place_inside()
        if not place and self.orders:
            ((own, common), *others) = self.orders.items()
            by = ", ".join(common if others else own)
            order = f" ORDER BY {by}" if by else ""  # else rows agree in all named columns
            place = f"row_number() OVER (PARTITION BY {self.scope.user}{order})"
        return [f"{place} AS {quote(PLACE)}"] if place else []

    def _tie_breakers(self, by: list[str], seen: frozenset[str]) -> list[str]:
        """Return every column that the query names: rows equal in all of them are interchangeable.

        Columns that already determine the order are omitted.
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
