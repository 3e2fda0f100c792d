"""The split of a query: a part about people, and a part after the noise.

A SELECT over people's rows that aggregates, and not by user, is a question: it is answered with
noise. What is selected from its answer (HAVING, windows over the answer, subqueries that are joined
to it, an outer SELECT) is computed from released values: free, in a database without people
(`sparseq.released.sql_over_noise`). Which is which follows from the text and from which tables are
private.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language.functions import rule_of
from sparseq.sql.catalog import Catalog
from sparseq.sql.normalize import BINNED, WINDOWED
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import call_of, is_constant
from sparseq.sql.subqueries import mapped, split_groups

_FIRST = "ask the inner question first, and write its answer into this one as a number or a list"
_SHOWN = (
    exp.Paren,
    exp.Alias,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Between,
    exp.In,
    exp.Null,
    exp.Ordered,
    exp.Column,
)
"""Nodes that `sparseq.released.outputs` computes, beside functions of numbers that have a rule."""


class RowKind(Enum):
    """The kinds of rows that a query can have."""

    PEOPLE = "rows about people"
    RELEASED = "made of released answers"
    PUBLIC = "rows of public tables"


@dataclass(frozen=True)
class _Known:
    """A subquery: what its rows are, which columns are the user, its tree and what it sees."""

    rows: RowKind
    users: frozenset[str] = frozenset()
    tree: exp.Expr | None = None
    sees: Mapping[str, _Known] = field(default_factory=dict)


@dataclass
class QueryParts:
    """A query taken apart.

    Attributes:
        after: What is selected from the answers, which are its tables #q0, #q1 …
        questions: The SELECTs about people, whose columns are k0, k1 … (keys) and a0, a1 …
    """

    after: exp.Select
    questions: list[exp.Select] = field(default_factory=list)


def separated(tree: exp.Select, catalog: Catalog) -> QueryParts | None:
    """Return a query taken apart; None: all of it is one question, or is about no answer.

    Raises:
        QueryRefused: It puts people's rows and answers together.
    """
    if sum(1 for _ in tree.find_all(exp.Select)) == 1 and not _needs_more(tree):
        return None  # as most questions are
    separator = _Separator(catalog)
    after, known = separator.query(tree.copy(), {})
    if known.rows is not RowKind.RELEASED:
        return None
    if separator.asked == 1 and separator.last is after and not _needs_more(tree):
        return None
    assert isinstance(after, exp.Select)
    return _pruned(after, separator.questions)


def _pruned(after: exp.Select, questions: list[exp.Select]) -> QueryParts:
    """Leave out subqueries that have a name and are not read, and the questions in them."""
    while unread := [c for c in after.find_all(exp.CTE) if not _is_read(after, c)]:
        for cte in unread:
            clause = cte.parent
            cte.pop()
            if clause is not None and not clause.expressions:
                clause.pop()
    names = {t.name for t in after.find_all(exp.Table) if t.name.startswith("#q")}
    kept = [i for i in range(len(questions)) if f"#q{i}" in names]
    places = {f"#q{i}": f"#q{n}" for n, i in enumerate(kept)}
    for name in after.find_all(exp.Identifier):
        name.set("this", places.get(name.this, name.this))
    return QueryParts(after, [questions[i] for i in kept])


def _is_read(after: exp.Select, cte: exp.CTE) -> bool:
    inside = set(map(id, cte.find_all(exp.Table)))
    return any(t.name == cte.alias and id(t) not in inside for t in after.find_all(exp.Table))


def _needs_more(select: exp.Select) -> bool:
    """Tell whether a question selects something that its outputs can't compute."""
    if select.args.get("distinct") or select.args.get("qualify"):
        return True
    keys = _keys(select)
    kinds = {type(key) for key in keys.values()}

    def computed(e: exp.Expr) -> bool:
        if is_aggregate(e) or is_constant(e) or (type(e) in kinds and e.sql("duckdb") in keys):
            return True
        if isinstance(e, exp.Cast | exp.TryCast):
            return e.to.is_type(*exp.DataType.NUMERIC_TYPES) and computed(e.this)
        if isinstance(e, exp.Subquery | exp.Select):
            return True  # of public tables, or joined by `sparseq.sql.subquery_expressions`
        called = None if isinstance(e, exp.IntDiv) else call_of(e)
        ruled = called is not None and rule_of(called[0], len(called[1])) is not None
        return (ruled or isinstance(e, _SHOWN)) and all(map(computed, _operands(e)))

    return not all(computed(part) for part in _shown_parts(select))


def _operands(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions that an expression is made of: the conditions of CASE too."""
    for child in e.iter_expressions():
        if isinstance(child, exp.If) and isinstance(e, exp.Case):
            yield from child.iter_expressions()
        elif not isinstance(child, exp.Identifier):
            yield child


def _shown_parts(select: exp.Select) -> list[exp.Expr]:
    having, order = select.args.get("having"), select.args.get("order")
    parts = [e.unalias() for e in select.expressions]
    parts += [having.this] if having is not None else []
    return parts + ([o.this for o in order.expressions] if order is not None else [])


def is_aggregate(e: exp.Expr) -> bool:
    """Tell whether an expression is an aggregate, not the function of a window."""
    if isinstance(e.parent, exp.Window) and e.parent.this is e:
        return False
    binned = isinstance(e, exp.Anonymous) and e.name.lower() in BINNED
    return binned or (isinstance(e, exp.AggFunc | exp.Filter) and not isinstance(e, WINDOWED))


def _aggregates(e: exp.Expr) -> bool:
    """Tell whether an aggregate is in an expression, subqueries left out."""
    if isinstance(e, exp.Select | exp.Subquery):
        return False
    return is_aggregate(e) or any(map(_aggregates, e.iter_expressions()))


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


def _keys(select: exp.Select) -> dict[str, exp.Expr]:
    group = select.args.get("group")
    return {_bare(k).sql("duckdb"): _bare(k) for k in group.expressions} if group else {}


def _items(select: exp.Select) -> list[exp.Expr]:
    """Return the items of FROM."""
    origin = select.args.get("from_")
    return [
        *([origin.this] if origin is not None else []),
        *(j.this for j in select.args.get("joins") or []),
    ]


class _Separator:
    """Takes one query apart.

    Attributes:
        questions: Found so far; the same one twice is one.
        asked: How often one was found.
        last: What is selected from the one that was found last.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.questions: list[exp.Select] = []
        self.asked = 0
        self.last: exp.Select | None = None

    def query(self, node: exp.Expr, known: dict[str, _Known]) -> tuple[exp.Expr, _Known]:
        """Return a query with answers for the questions in it, and what its rows are.

        Args:
            node: SELECT, set operation or subquery; changed in place.
            known: The subqueries that have a name.
        """
        if isinstance(node, exp.Subquery):
            inner, found = self.query(node.this, known)
            node.set("this", inner)
            return node, found
        if isinstance(node, exp.SetOperation):
            return self._both(node, known)
        if not isinstance(node, exp.Select):
            return node, _Known(RowKind.PUBLIC)
        return self._select(node, dict(known))

    def _both(self, node: exp.SetOperation, known: dict[str, _Known]) -> tuple[exp.Expr, _Known]:
        (left, a), (right, b) = (self.query(side, known) for side in (node.this, node.expression))
        kinds = {a.rows, b.rows}
        if kinds == {RowKind.RELEASED, RowKind.PEOPLE}:
            _refuse("one side is an answer, the other one has rows about people", _FIRST)
        node.set("this", left)
        node.set("expression", right)
        return node, _Known(next(k for k in RowKind if k in kinds), a.users)

    def _named(self, node: exp.Expr, known: dict[str, _Known]) -> dict[str, _Known]:
        """Return the CTEs of a query; those about people leave it."""
        clause = node.args.get("with_")
        if clause is None:
            return {}
        found: dict[str, _Known] = {}
        for cte in clause.expressions:
            original = cte.this.copy()
            tree, what = self.query(cte.this, known | found)
            cte.set("this", tree)
            found[cte.alias] = _Known(what.rows, what.users, original, known | found)
        return found

    def _select(self, select: exp.Select, known: dict[str, _Known]) -> tuple[exp.Expr, _Known]:
        original = select.copy()
        known |= self._named(select, known)
        users: dict[str, frozenset[str]] = {}
        kinds = set()
        for item in _items(select):
            what = self._item(item, known)
            kinds.add(what.rows)
            users[item.alias_or_name] = what.users
        if {RowKind.PEOPLE, RowKind.RELEASED} <= kinds:
            return self._picked(original, select, known), _Known(RowKind.RELEASED)
        if RowKind.PEOPLE in kinds:
            grouped = select.args.get("group") is not None or any(
                _aggregates(e.unalias()) for e in select.expressions
            )
            if grouped and not any(_is_user(k, users) for k in _keys(select).values()):
                return self._question(original, select, known), _Known(RowKind.RELEASED)
            mine = {e.alias_or_name for e in select.expressions if _is_user(e.unalias(), users)}
            return original, _Known(RowKind.PEOPLE, frozenset(mine))
        if self._subqueries(select, known) or RowKind.RELEASED in kinds:
            _keep_named(select, known)
            return _with_scalars(select), _Known(RowKind.RELEASED)
        return original, _Known(RowKind.PUBLIC)

    def _item(self, item: exp.Expr, known: dict[str, _Known]) -> _Known:
        if isinstance(item, exp.Table):
            if item.name in known:
                return known[item.name]
            table = self._catalog.table(item.name)
            if not table.private:
                return _Known(RowKind.PUBLIC)
            return _Known(RowKind.PEOPLE, frozenset([table.user.lower()]))
        return self.query(item, known)[1]

    def _subqueries(self, select: exp.Select, known: dict[str, _Known]) -> bool:
        """Put answers for the questions in a SELECT's expressions; tell whether there are any."""
        found = False
        parts = [select.args.get(k) for k in ("where", "having", "qualify", "order")]
        for part in [*select.expressions, *(p for p in parts if p is not None)]:
            for inner in _outermost(part):
                if _is_correlated(inner):
                    continue
                tree, what = self.query(inner, known)
                if what.rows is RowKind.PEOPLE:
                    _refuse(f"{said(inner)[:60]} has rows about people", "aggregate them")
                if what.rows is RowKind.RELEASED:
                    inner.replace(tree)
                    tree.set("answered", True)
                    found = True
        return found

    # -- a question --------------------------------------------------------------------------------

    def _picked(
        self, select: exp.Select, answered: exp.Select, known: dict[str, _Known]
    ) -> exp.Select:
        """Return a question some of whose keys an answer picks, as tools ask for the largest ones.

        JOIN (an answer) ON key = a: every key is asked for, and joined afterwards. It is the same,
        since no two rows of the answer are alike in the columns that it is joined by.
        """
        keys, picks = list(_keys(select)), []
        for join in list(select.args.get("joins") or []):
            what = self._item(join.this.copy(), known)
            if what.rows is RowKind.RELEASED:
                picks.append((join.pop(), _picking(join, what.tree or join.this.unnest(), keys)))
        names = {join.alias_or_name for join, _ in picks}
        rows = self._item(select.args["from_"].this.copy(), known).rows
        looked = any(column.table in names for column in select.find_all(exp.Column))
        if looked or rows is not RowKind.PEOPLE or not all(pairs for _, pairs in picks):
            _refuse("this query joins people's rows with an answer", _FIRST)
        after = self._question(select, answered, known)
        place = after.args["from_"].this.name
        for join, pairs in picks:
            join.set("this", self.query(join.this, known)[0])
            on = [exp.column(f"k{k}", place, quoted=True).eq(column) for k, column in pairs]
            join.set("on", exp.and_(*on))
            after.append("joins", join)
        return after

    def _move_picks(self, select: exp.Select, known: dict[str, _Known]) -> None:
        """Have `key IN (an answer)` in HAVING, not in WHERE: it is the same of a key."""
        keys, where = _keys(select), select.args.get("where")
        whole = where.this if where is not None else exp.true()
        for part in list(whole.flatten()) if isinstance(whole, exp.And) else [whole]:
            inner = part.args.get("query") if isinstance(part, exp.In) else None
            if inner is None or _bare(part.this).sql("duckdb") not in keys:
                continue
            tree = inner.unnest()
            if (
                not _is_correlated(tree)
                and self.query(tree.copy(), known)[1].rows is RowKind.RELEASED
            ):
                select.having(part.copy(), copy=False)
                part.replace(exp.true())

    def _question(
        self, select: exp.Select, answered: exp.Select, known: dict[str, _Known]
    ) -> exp.Select:
        """Return what is selected from a question's answer; its keys and aggregates are asked.

        Args:
            select: The question.
            answered: The same; its named subqueries that are questions have their answers.
            known: The subqueries that have a name.
        """
        self._move_picks(select, known)
        keys = _keys(select)
        names = {text: f"k{i}" for i, text in enumerate(keys)}
        asked = [exp.alias_(k.copy(), names[text], quoted=True) for text, k in keys.items()]
        kinds, place = {type(key) for key in keys.values()}, "#q"

        def lifted(e: exp.Expr) -> exp.Expr:
            text = e.sql("duckdb") if type(e) in kinds or is_aggregate(e) else None
            if text is not None and (text in keys or is_aggregate(e)):
                if text not in names:
                    names[text] = f"a{len(names) - len(keys)}"
                    asked.append(exp.alias_(e.copy(), names[text], quoted=True))
                return exp.column(names[text], place, quoted=True)
            if isinstance(e, exp.Select | exp.Subquery):
                return e.copy()
            if isinstance(e, exp.Column) and e.table:
                _refuse(f"{said(e)} is neither in GROUP BY nor aggregated", "add it to GROUP BY")
            return mapped(e, lifted)

        after = exp.Select(
            expressions=[
                exp.alias_(lifted(e.unalias()), e.alias_or_name, quoted=True)
                for e in select.expressions
            ]
        )
        having = select.args.get("having")
        if having is not None:
            after.set("where", exp.Where(this=lifted(having.this)))
        for clause in ("qualify", "order", "limit", "offset", "distinct"):
            found = select.args.get(clause)
            if found is not None:
                after.set(clause, lifted(found))
        clauses = ("from_", "joins", "where", "group")
        whole = select.copy()
        question = exp.Select(expressions=asked, **{k: whole.args.get(k) for k in clauses})
        _name(question, known)
        number = self._ask(question)
        for column in after.find_all(exp.Column):
            if column.table == place:
                column.set("table", exp.to_identifier(f"#q{number}", quoted=True))
        table = exp.Table(this=exp.to_identifier(f"#q{number}", quoted=True))
        table.set("single", not keys)
        after.set("from_", exp.From(this=table))
        self._subqueries(after, known)
        _keep_named(answered, known)
        after.set("with_", answered.args.get("with_"))
        self.last = _with_scalars(after)
        return self.last

    def _ask(self, question: exp.Select) -> int:
        self.asked += 1
        if question not in self.questions:
            self.questions.append(question)
        return self.questions.index(question)


def _picking(join: exp.Join, inner: exp.Expr, keys: list[str]) -> list[tuple[int, exp.Column]]:
    """Return the places of the keys that an answer is joined on, each with the answer's column.

    Nothing: it is joined otherwise, or may have several rows for a key.
    """
    plain = join.kind in ("", "INNER") and not join.side and not join.method
    if not plain or not isinstance(inner, exp.Select):
        return []
    on, pairs = join.args.get("on"), []
    for part in on.flatten() if isinstance(on, exp.And) else [on]:
        if not isinstance(part, exp.EQ):
            return []
        sides = ((part.left, part.right), (part.right, part.left))
        found = [
            (keys.index(_bare(a).sql("duckdb")), b)
            for a, b in sides
            if isinstance(b, exp.Column) and b.table == join.alias_or_name
            if _bare(a).sql("duckdb") in keys
        ]
        if len(found) != 1:
            return []
        pairs += found
    by = {column.name for _, column in pairs}
    taken = {_bare(e.unalias()).sql("duckdb") for e in inner.selects if e.alias_or_name in by}
    return pairs if inner.args.get("group") and _keys(inner).keys() <= taken else []


def _name(question: exp.Select, known: dict[str, _Known]) -> None:
    """Give a question the named subqueries that it reads."""
    needed: dict[str, exp.Expr] = {}

    def need(tree: exp.Expr, seen: Mapping[str, _Known]) -> None:
        own = {cte.alias for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            what = seen.get(table.name)
            if what is None or what.tree is None or table.name in own:
                continue
            if needed.get(table.name, what.tree) is not what.tree:
                _refuse(f"two subqueries are called {table.name}", "give each a name of its own")
            if table.name not in needed:
                need(what.tree, what.sees)
                needed[table.name] = what.tree

    need(question, known)
    if needed:
        ctes = [
            exp.CTE(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier(n, quoted=True)))
            for n, tree in needed.items()
        ]
        question.set("with_", exp.With(expressions=ctes))


def _keep_named(select: exp.Select, known: dict[str, _Known]) -> None:
    """Leave the named subqueries out that are about people."""
    clause = select.args.get("with_")
    if clause is not None:
        kept = [c for c in clause.expressions if known[c.alias].rows is not RowKind.PEOPLE]
        clause.set("expressions", kept)
        if not kept:
            select.set("with_", None)


def _is_user(e: exp.Expr, users: dict[str, frozenset[str]]) -> bool:
    e = _bare(e)
    if isinstance(e, exp.Coalesce):
        return all(_is_user(p, users) for p in [e.this, *e.expressions])
    return isinstance(e, exp.Column) and e.name in users.get(e.table, ())


def _is_correlated(select: exp.Select) -> bool:
    """Tell whether a subquery looks at a row outside of it."""
    own = {i.alias_or_name for s in select.find_all(exp.Select) for i in _items(s)}
    return any(c.table and c.table not in own for c in select.find_all(exp.Column))


def _outermost(e: exp.Expr) -> list[exp.Select]:
    if isinstance(e, exp.Select):
        return [e]
    return [found for child in e.iter_expressions() for found in _outermost(child)]


def _with_scalars(select: exp.Select) -> exp.Select:
    """Join the answers that stand in expressions: one row each, or a list that IN looks into."""
    order = select.args.get("order")
    parts = [select.args.get(k) for k in ("where", "qualify")]
    found = [
        s
        for p in [*select.expressions, *(p for p in parts if p is not None)]
        for s in _outermost(p)
        if s.args.get("answered")
    ]
    if order is not None and any(s.args.get("answered") for s in _outermost(order)):
        _refuse("ORDER BY holds a subquery", "select it, and order by its name")
    if not found:
        return select
    if select.args.get("group") or any(_aggregates(e) for e in select.expressions):
        return _with_scalars(split_groups(select))
    for i, inner in enumerate(found):
        _join(select, inner, f"#s{i}")
    return select


def _join(select: exp.Select, inner: exp.Select, alias: str) -> None:
    holder = inner.parent if isinstance(inner.parent, exp.Subquery) else inner
    around = holder.parent
    inner.set("answered", None)
    if len(inner.expressions) != 1:
        _refuse(f"the subquery {said(inner)[:60]} has several columns", "select one")
    name = inner.expressions[0].alias_or_name
    column = exp.column(name, alias, quoted=True)
    listed = around if isinstance(around, exp.In) and around.args.get("query") is holder else None
    if listed is not None:  # each value once, whatever they are sorted by
        whole = exp.Subquery(
            this=inner.copy(), alias=exp.TableAlias(this=exp.to_identifier("#c", quoted=True))
        )
        inner = exp.select(exp.column(name, "#c", quoted=True)).from_(whole).distinct()
    join = exp.Join(
        this=exp.Subquery(
            this=inner.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        )
    )
    if listed is not None:
        if not isinstance(listed.parent, exp.Where | exp.And):
            _refuse(f"{said(listed)[:60]} is not answered here", "join the subquery")
        join.set("on", exp.EQ(this=listed.this.copy(), expression=column))
        listed.replace(exp.true())
    elif isinstance(around, exp.Exists) or not _has_one_row(inner):
        _refuse(f"the subquery {said(inner)[:60]} may have several rows", "join it in FROM")
    else:
        join.set("side", "LEFT")
        alias_of = holder.alias if isinstance(holder, exp.Subquery) else ""
        holder.replace(exp.alias_(column, alias_of, quoted=True) if alias_of else column)
    if select.args.get("from_") is None:
        select.set("from_", exp.From(this=join.this))
    else:
        select.append("joins", join)


def _has_one_row(select: exp.Select) -> bool:
    limit = select.args.get("limit")
    if limit is not None and limit.expression.name == "1":
        return True
    if select.args.get("group"):
        return False
    if any(_aggregates(e) for e in select.expressions):
        return True
    clauses = ("joins", "where", "qualify", "limit", "offset")
    items = _items(select)
    single = bool(items) and bool(items[0].args.get("single"))
    return single and not any(select.args.get(c) for c in clauses)


def _refuse(message: str, hint: str) -> NoReturn:
    raise QueryRefused(message, hint)
