"""Private subqueries in expressions as joins, evaluated per person, after Neumann and Kemper.

EXISTS, IN and a scalar subquery become a LEFT JOIN with the subquery's rows, grouped by the values
that it uses of the outer row: by the columns of its domain (`sparseq.sql.dependent_joins`). So each
outer row matches at most one row, and no row is multiplied. If every correlated condition equates
columns of the same type, the subquery's own columns replace the domain's.

An aggregate without GROUP BY has one row in SQL, even over no rows. So only the aggregates are
joined. Without a match, each has its value over no rows: 0 for a count, NULL for all others.
Expressions over them, and the subquery's HAVING, are computed in the outer row.

Neighbours. The result consists of joins, DISTINCT and GROUP BY in SQL, and `sparseq.sql.scope` and
`sparseq.sql.subqueries` process it like any other text: the domain keeps each value once per
person, and its join with the subquery, as well as the join with the outer row, must be on the user
or is refused. So by the induction there, user i's rows of the domain, of the grouped subquery and
of the outer FROM are functions of i's rows and public tables. No condition of a subquery can change
this, as conditions only select among rows that are already joined on the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import Catalog
from sparseq.sql.aggregate_calls import aggregates_in, is_aggregate, value_over_no_rows
from sparseq.sql.dependent_joins import join_domain, sources_of
from sparseq.sql.from_clause import FromItem
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import conjuncts

TypeOf = Callable[[exp.Select, exp.Column], str]
"""Returns the type of a column of a SELECT's sources; "" if it is unknown before lowering."""


@dataclass(frozen=True)
class _Correlation:
    """Conditions of a subquery, by the rows that they use.

    Attributes:
        pairs: The (inner, outer) expressions that must be equal.
        mixed: Other conditions on both rows.
        rest: Conditions on the inner rows alone.
        outer: Conditions on the outer row alone.
    """

    pairs: tuple[tuple[exp.Expr, exp.Expr], ...] = ()
    mixed: tuple[exp.Expr, ...] = ()
    rest: tuple[exp.Expr, ...] = ()
    outer: tuple[exp.Expr, ...] = ()


def unnest(select: exp.Select, is_private: Callable[[exp.Select], bool], type_of: TypeOf) -> None:
    """Join the private subqueries in the expressions of a SELECT, in place.

    Args:
        select: One SELECT with qualified columns.
        is_private: Tells whether a subquery's rows are private.
        type_of: Returns the types of the SELECT's columns, and of the subqueries' columns.

    Raises:
        QueryRefused: A subquery's rows are not the user's, or its condition cannot become a join.
    """
    joined: dict[str, exp.Expr] = {}  # equal subqueries in SELECT and GROUP BY are one
    waiting = _parts(select)
    while waiting:
        for found in _subqueries(waiting.pop(0)):
            if not is_private(found):
                continue
            target = _replaced(found)
            text = target.sql("duckdb")
            if text not in joined:
                joined[text] = _join(select, found, f"#{len(joined)}", type_of)
            value = joined[text].copy()
            target.replace(value)
            waiting.append(value)


def _parts(select: exp.Select) -> list[exp.Expr]:
    parts: list[exp.Expr | None] = list(select.expressions)
    parts += [select.args.get(k) for k in ("where", "group")]
    return [p for p in parts if p is not None]


def _subqueries(e: exp.Expr) -> list[exp.Select]:
    """Return the outermost subqueries in an expression."""
    if isinstance(e, exp.Select):
        return [e]
    return [found for child in e.iter_expressions() for found in _subqueries(child)]


def _replaced(found: exp.Select) -> exp.Expr:
    """Return the expression around a subquery: IN, EXISTS, or the subquery itself."""
    holder = found.parent if isinstance(found.parent, exp.Subquery) else found
    around = holder.parent
    is_in = isinstance(around, exp.In) and around.args.get("query") is holder
    return around if around is not None and (is_in or isinstance(around, exp.Exists)) else holder


def _join(select: exp.Select, found: exp.Select, alias: str, type_of: TypeOf) -> exp.Expr:
    """Join a subquery, and return the expression that replaces it."""
    target = _replaced(found)
    rows = _Rows(select, found, alias, type_of)
    if isinstance(target, exp.Exists):
        return rows.exists()
    if isinstance(target, exp.In):
        return rows.contain(target)
    if isinstance(target.parent, exp.Any | exp.All | exp.SetOperation):
        raise _join_refusal(found)
    if len(found.expressions) != 1:
        raise _several_columns(found)
    value = rows.value()
    named = isinstance(target, exp.Subquery) and target.alias
    return exp.alias_(value, named, quoted=True) if named else value


class _Rows:
    """A subquery's rows, as the outer row uses them.

    Args:
        select: The outer SELECT; joins are added to it.
        found: The subquery.
        alias: The alias of its rows in the outer SELECT.
        type_of: Returns the types of columns.
    """

    def __init__(self, select: exp.Select, found: exp.Select, alias: str, type_of: TypeOf) -> None:
        self._select, self._found, self._alias, self._type_of = select, found, alias, type_of
        self._inside = {s.alias_or_name for s in sources_of(found)}
        group = found.args.get("group")
        self._keys = [key.unnest() for key in group.expressions] if group is not None else []
        having, order = found.args.get("having"), found.args.get("order")
        parts = [*found.expressions, *([order] if order is not None else [])]
        self._one = group is None and (having is not None or any(map(aggregates_in, parts)))
        if found.args.get("qualify") is not None or self._is_cut():
            raise _join_refusal(found)
        self._correlated = _correlation(found, self._inside)

    def _is_cut(self) -> bool:
        """Tell whether LIMIT or OFFSET may remove a row that matters."""
        limit, target = self._found.args.get("limit"), _replaced(self._found)
        first = limit is None or (limit.expression.is_int and int(limit.expression.name) > 0)
        whole = limit is None or self._one or isinstance(target, exp.Exists) or self._is_first()
        return not (first and whole) or self._found.args.get("offset") is not None

    def _is_first(self) -> bool:
        """Tell whether the subquery gives the value of the first row in an order of columns."""
        order, limit = self._found.args.get("order"), self._found.args.get("limit")
        if order is None or limit is None or limit.expression.name != "1" or self._keys:
            return False
        named = (o.this for o in order.expressions)
        return not isinstance(_replaced(self._found), exp.In) and not any(
            isinstance(e, exp.Literal) or (isinstance(e, exp.Column) and not e.table) for e in named
        )

    def exists(self) -> exp.Expr:
        """Return the condition that a row exists."""
        if self._one:
            held, parts = self._over_aggregates([self._having()])
            self._join_aggregates(parts)
            return _sure(held[0])
        held, parts = self._over_keys([self._having()])
        self._join_groups(parts)
        there = _there(self._alias)
        return there if self._found.args.get("having") is None else _sure(exp.and_(there, held[0]))

    def value(self) -> exp.Expr:
        """Return the single value, NULL if there is no row."""
        shown = self._found.expressions[0].unalias()
        if self._one:
            (held, value), parts = self._over_aggregates([self._having(), shown])
            self._join_aggregates(parts)
            return _where(held, value)
        if not self._correlated.pairs:
            raise QueryRefused(
                f"the subquery {said(self._found)[:60]} is about everybody",
                "ask it first, by itself, and write its answer as a number; or say that its user "
                "is the outer row's: WHERE inner.user = outer.user",
            )
        if not self._keys:
            if self._found.args.get("distinct"):
                raise _join_refusal(self._found)
            value = shown.copy()
            if self._is_first():
                order = self._found.args["order"].copy()
                order.set("this", value)
                value = exp.First(this=order)
            self._join_groups([exp.alias_(value, "v", quoted=True)])
            return exp.column("v", self._alias, quoted=True)
        (held, value), parts = self._over_keys([self._having(), shown])
        self._join_groups(parts)
        return _where(exp.and_(_there(self._alias), held), value)

    def contain(self, around: exp.In) -> exp.Expr:
        """Return the condition x IN (…), which SQL evaluates to true, false or NULL."""
        if len(self._found.expressions) != 1 or isinstance(around.this, exp.Tuple):
            raise _several_columns(self._found)
        if self._one:
            shown = self._found.expressions[0].unalias()
            (held, value), parts = self._over_aggregates([self._having(), shown])
            self._join_aggregates(parts)
            same = exp.EQ(this=around.this.copy(), expression=exp.paren(value))
            return exp.paren(_where(held, same, exp.false()))
        if self._correlated.pairs or self._correlated.mixed:
            return self._among(around)
        if self._correlated.outer:
            raise _join_refusal(self._found)
        value = around.this
        on = exp.EQ(this=value.copy(), expression=exp.column("k0", self._alias, quoted=True))
        _left_join(self._select, _listed(self._found), [on], self._alias)
        there = _there(self._alias)
        if _is_filter(around):
            return there
        unknown = exp.Is(this=value.copy(), expression=exp.Null())  # except for an empty list
        return exp.paren(
            exp.Case()
            .when(there, exp.true())
            .when(unknown, exp.cast(exp.Null(), "BOOLEAN"))
            .else_(exp.false())
        )

    def _among(self, around: exp.In) -> exp.Expr:
        """Return x IN (SELECT y … of the outer row): a row with y = x was joined.

        Where NULL and false differ, as under NOT, all rows for the outer row are joined too:
        without rows the condition is false, otherwise NULL if x or one y is NULL.
        """
        inner, value, own = self._found.expressions[0].unalias(), around.this, self._correlated
        if self._keys or inner.find(exp.AggFunc, exp.Window):
            raise _join_refusal(self._found)
        equal = replace(own, pairs=(*own.pairs, (inner, value)))
        self._join_grouped(equal, [], self._alias)
        there = _there(self._alias)
        if _is_filter(around):
            return there
        known = exp.alias_(exp.Count(this=inner.copy()), "v", quoted=True)
        every = self._alias + " all"
        self._join_grouped(own, [known], every)
        n, v = (exp.column(name, every, quoted=True) for name in "nv")
        unknown = exp.or_(
            exp.Is(this=value.copy(), expression=exp.Null()), exp.GT(this=n, expression=v)
        )
        nobody = exp.Is(this=n.copy(), expression=exp.Null())
        return exp.paren(
            exp.Case()
            .when(there, exp.true())
            .when(nobody, exp.false())
            .when(unknown, exp.cast(exp.Null(), "BOOLEAN"))
            .else_(exp.false())
        )

    def _having(self) -> exp.Expr:
        having = self._found.args.get("having")
        return having.this if having is not None else exp.true()

    def _over_aggregates(self, asked: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """Return expressions over the joined aggregates with their defaults, and the aggregates."""
        names: dict[str, str] = {}
        parts: list[exp.Expr] = []

        def outside(e: exp.Expr) -> exp.Expr:
            if is_aggregate(e):
                text = e.sql("duckdb")
                if text not in names:
                    names[text] = f"v{len(names) or ''}"
                    parts.append(exp.alias_(e.copy(), names[text], quoted=True))
                column = exp.column(names[text], self._alias, quoted=True)
                default = value_over_no_rows(e)
                if default is None:
                    return column
                return exp.Coalesce(this=column, expressions=[exp.Literal.number(default)])
            if isinstance(e, exp.Column) and e.table in self._inside:
                raise QueryRefused(
                    f"{said(e)} is neither in GROUP BY nor aggregated", "add it to GROUP BY"
                )
            nested = isinstance(e, exp.Select | exp.SetOperation)
            if isinstance(e, exp.Window) or (
                nested and any(c.table in self._inside for c in _free(e))
            ):
                raise _join_refusal(self._found)
            return e.copy() if nested else e  # its operands are not searched

        return [e.copy().transform(outside) for e in asked], parts

    def _over_keys(self, asked: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """Return the same for groups; the outer row sees one group, as it equals the group keys."""
        held = {i.sql("duckdb"): o for i, o in self._correlated.pairs if self._is_same(i, o)}
        if len(self._correlated.pairs) == 1:  # the user
            held = {i.sql("duckdb"): o for i, o in self._correlated.pairs}
        if any(key.sql("duckdb") not in held for key in self._keys):
            raise _join_refusal(self._found)

        def key(e: exp.Expr) -> exp.Expr:
            outer = held.get(e.sql("duckdb")) if self._keys else None
            if is_aggregate(e) or isinstance(e, exp.Select | exp.SetOperation):
                return e.copy()
            return outer.copy() if outer is not None else e

        return self._over_aggregates([e.copy().transform(key) for e in asked])

    def _join_aggregates(self, parts: list[exp.Expr]) -> None:
        """Join aggregates of the rows for the outer row; without aggregates no row is read."""
        if parts:
            self._join_groups(parts)

    def _join_groups(self, parts: list[exp.Expr]) -> None:
        self._join_grouped(self._correlated, parts, self._alias)

    def _join_grouped(self, own: _Correlation, more: list[exp.Expr], alias: str) -> None:
        """Join the subquery's rows, one for each combination of the outer values that it uses.

        Args:
            own: The conditions on its rows.
            more: The named expressions to compute over each group of rows.
            alias: The alias of the rows.
        """
        if not own.pairs:
            raise QueryRefused(
                f"the subquery {said(self._found)[:60]} looks at other people's rows",
                "say that its user is the outer row's: WHERE inner.user = outer.user",
            )
        rows = self._found.copy()
        for clause in ("having", "order", "distinct", "limit", "group", "where"):
            rows.set(clause, None)
        more = [_number(), *more]
        alike = len(own.pairs) == 1 or all(self._is_same(*pair) for pair in own.pairs)
        taken = any(next(_free(e, frozenset(self._inside)), None) is not None for e in more)
        build = self._by_own_columns if alike and not own.mixed and not taken else self._by_domain
        on = build(rows, own, more, alias)
        _left_join(self._select, rows, [*on, *own.outer], alias)

    def _is_same(self, inner: exp.Expr, outer: exp.Expr) -> bool:
        """Tell whether two expressions are columns of one type: equal values are identical."""
        if not (isinstance(inner, exp.Column) and isinstance(outer, exp.Column)):
            return False
        type = self._type_of(self._found, inner)
        return bool(type) and type == self._type_of(self._select, outer)

    def _by_own_columns(
        self, rows: exp.Select, own: _Correlation, more: list[exp.Expr], alias: str
    ) -> list[exp.Expr]:
        """Group rows by the columns that must equal the outer row's, and return the equalities."""
        keys = [inner.copy() for inner, _ in own.pairs]
        named = [exp.alias_(k.copy(), f"k{i}", quoted=True) for i, k in enumerate(keys)]
        rows.set("expressions", [*named, *more])
        if own.rest:
            rows.set("where", exp.Where(this=exp.and_(*(r.copy() for r in own.rest))))
        rows.set("group", exp.Group(expressions=keys))
        return [
            exp.EQ(this=outer.copy(), expression=exp.column(f"k{i}", alias, quoted=True))
            for i, (_, outer) in enumerate(own.pairs)
        ]

    def _by_domain(
        self, rows: exp.Select, own: _Correlation, more: list[exp.Expr], alias: str
    ) -> list[exp.Expr]:
        """Join rows with the outer values that they use, and group them by these."""
        same = [exp.EQ(this=i.copy(), expression=o.copy()) for i, o in own.pairs]
        conditions = [*same, *(e.copy() for e in (*own.mixed, *own.rest))]
        rows.set("expressions", more)
        rows.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
        origin, *_ = sources_of(self._select)
        joins = self._select.args.get("joins") or []
        taken = join_domain(
            rows, list(_free(rows)), (origin, joins), f"{alias} outer", "d{}".format
        )
        keys = [column for _, column in taken]
        rows.set("group", exp.Group(expressions=keys))
        named = [exp.alias_(key.copy(), key.name, quoted=True) for key in keys]
        rows.set("expressions", [*named, *rows.expressions])
        never_null = {o.sql("duckdb") for _, o in own.pairs}
        return [
            (exp.EQ if outer.sql("duckdb") in never_null else exp.NullSafeEQ)(
                this=outer, expression=exp.column(column.name, alias, quoted=True)
            )
            for outer, column in taken
        ]


def _where(condition: exp.Expr, value: exp.Expr, other: exp.Expr | None = None) -> exp.Expr:
    """Return a value where a condition is true, and `other` elsewhere; NULL if `other` is None."""
    if condition == exp.true():
        return value
    case = exp.Case().when(condition, value)
    return exp.paren(case.else_(other) if other is not None else case)


def _sure(condition: exp.Expr) -> exp.Expr:
    """Return a condition that is false where it would be NULL."""
    if isinstance(condition, exp.Boolean):
        return condition
    return exp.Coalesce(this=exp.paren(condition), expressions=[exp.false()])


def _left_join(select: exp.Select, rows: exp.Select, on: list[exp.Expr], alias: str) -> None:
    """Join rows to the FROM of a SELECT; each row of the FROM matches at most one of them.

    Args:
        select: A SELECT; it is changed in place.
        rows: A subquery.
        on: The conditions of the join, all of which must hold.
        alias: The alias of the rows.
    """
    source = exp.Subquery(
        this=rows, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )
    condition = exp.and_(*(part.copy() for part in on))
    select.append("joins", exp.Join(this=source, side="LEFT", on=condition))


def _is_filter(condition: exp.Expr) -> bool:
    """Tell whether a condition only filters rows, so that NULL acts as false."""
    above = condition.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where)


def _free(e: exp.Expr, bound: frozenset[str] = frozenset()) -> Iterator[exp.Column]:
    """Yield the columns that an expression uses of the surrounding query."""
    if isinstance(e, exp.Column):
        if e.table and e.table not in bound:
            yield e
        return
    if isinstance(e, exp.Select):
        bound |= {s.alias_or_name for s in sources_of(e)}
    for child in e.iter_expressions():
        yield from _free(child, bound)


def _correlation(found: exp.Select, inside: set[str]) -> _Correlation:
    """Separate the conditions of a subquery's WHERE by the rows that they use, inner or outer."""
    where, pairs = found.args.get("where"), list[tuple[exp.Expr, exp.Expr]]()
    mixed, rest, outer = list[exp.Expr](), list[exp.Expr](), list[exp.Expr]()
    for part in conjuncts(where.this if where is not None else None):
        tables = {c.table for c in _free(part)}
        if tables <= inside:
            rest.append(part)
        elif not tables & inside and part.find(exp.Select) is None:
            outer.append(part)
        elif (pair := _equal_sides(part, inside)) is not None:
            pairs.append(pair)
        else:
            mixed.append(part)
    return _Correlation(tuple(pairs), tuple(mixed), tuple(rest), tuple(outer))


def _equal_sides(part: exp.Expr, inside: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the inner and the outer expression that a condition equates."""
    if isinstance(part, exp.EQ) and part.find(exp.Select) is None:
        for inner, outer in permutations((part.this, part.expression)):
            tables = [{c.table for c in side.find_all(exp.Column)} for side in (inner, outer)]
            if tables[0] and tables[0] <= inside and not tables[1] & inside:
                return inner, outer
    return None


def _listed(found: exp.Select) -> exp.Select:
    """Return the rows of x IN (SELECT y …): the subquery's rows, by y."""
    column = exp.column(found.expressions[0].alias_or_name, "#in", quoted=True)
    rows = exp.Select(
        expressions=[exp.alias_(column, "k0", quoted=True), _number()],
        group=exp.Group(expressions=[column.copy()]),
    )
    inner = exp.Subquery(
        this=found.copy(), alias=exp.TableAlias(this=exp.to_identifier("#in", quoted=True))
    )
    rows.set("from_", exp.From(this=inner))
    return rows


def _number() -> exp.Expr:
    return exp.alias_(exp.Count(this=exp.Star()), "n", quoted=True)


def _there(alias: str) -> exp.Expr:
    """Return the condition that a row was joined."""
    number = exp.column("n", alias, quoted=True)
    return exp.paren(exp.Not(this=exp.Is(this=number, expression=exp.Null())))


def _join_refusal(found: exp.Select) -> QueryRefused:
    return QueryRefused(
        f"the subquery {said(found)[:60]} is held against the outer row in a way that has no join",
        "join the tables on the user, and count people: count(DISTINCT user)",
    )


def _several_columns(found: exp.Select) -> QueryRefused:
    return QueryRefused(f"the subquery {said(found)[:60]} has several columns", "select one")


def reads_people(select: exp.Select, named: Mapping[str, FromItem], catalog: Catalog) -> bool:
    """Tell whether a subquery uses a private table.

    Args:
        select: The subquery.
        named: The named subqueries outside of it.
        catalog: The store's tables.
    """
    own = {cte.alias for cte in select.find_all(exp.CTE)}
    for table in select.find_all(exp.Table):
        if table.name in named:
            if named[table.name].private:
                return True
        elif table.name not in own and catalog.table(table.name).private:
            return True
    return False


def stored_type(
    select: exp.Select, column: exp.Column, named: Mapping[str, FromItem], catalog: Catalog
) -> str:
    """Return the type of a column of a table or of a named subquery; "" for other columns.

    Args:
        select: A SELECT with the column's source in its FROM.
        column: A column whose table is an alias there.
        named: The named subqueries.
        catalog: The store's tables.
    """
    found = (s for s in sources_of(select) if s.alias_or_name == column.table)
    source = next(found, None)
    own = {cte.alias for cte in select.ctes}
    if not isinstance(source, exp.Table) or source.name in own:
        return ""
    if source.name in named:
        facts = named[source.name].columns.get(column.name)
        return facts.type if facts is not None else ""
    columns = catalog.table(source.name).columns
    return next((c.type for c in columns if c.name.lower() == column.name.lower()), "")
