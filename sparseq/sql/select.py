"""Lowering of SQL to contributions: the outer SELECT, its groups and its aggregates.

    parse → scope (rows by user) → measures and domains (noised) → outputs (shown)

Every aggregate of the outer SELECT becomes measures, linear queries q(X_i) over one user's rows;
averages, variances and quantiles are computed from noised measures, at no charge.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from sparseq.base.errors import QueryRefused, with_query
from sparseq.base.sql_text import quote
from sparseq.language.interval_arithmetic import rising_rule, round_to
from sparseq.language.interval_rules import rule_of
from sparseq.question.catalog import Catalog, FoundTuples
from sparseq.question.limits import LIMITS
from sparseq.question.plan import (
    BoundGaps,
    BoundSearch,
    Domain,
    FirstAnswer,
    Kind,
    Measure,
    Options,
    Query,
    Relation,
    no_public_scale,
    values_of_keys,
)
from sparseq.released import outputs as out
from sparseq.released.outputs import LeastPeople
from sparseq.released.presence import Presence, row_count
from sparseq.released.sql_over_noise import (
    After,
    AskedTotal,
    PublicRows,
)
from sparseq.released.statistics import combine
from sparseq.sql.aggregate_calls import aggregates_in, is_aggregate
from sparseq.sql.aggregates import Aggregates, with_people
from sparseq.sql.constants import is_constant
from sparseq.sql.dialect import DUCKDB, sql_of
from sparseq.sql.first_questions import SIZES, Before, FirstQuestions
from sparseq.sql.joint_questions import MOMENTS, alone, together
from sparseq.sql.key_domains import Domains
from sparseq.sql.layers import counts_own_values, with_first_rows
from sparseq.sql.moving_ranges import widen_moving_ranges
from sparseq.sql.outer_names import name_apart, plain_name
from sparseq.sql.over_answers import after
from sparseq.sql.parse import RELEASED, parse, said
from sparseq.sql.parsed_expressions import conjuncts
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_groups import possible_groups
from sparseq.sql.public_values import MAX_VALUES, PublicValues
from sparseq.sql.scope import Scope, refuse
from sparseq.sql.sought_bounds import SoughtBounds
from sparseq.sql.spellings import call_of
from sparseq.sql.split_question import QueryParts, split
from sparseq.sql.subqueries import lower_inner

MAX_MESSAGE = 240


def lower_sql(
    text: str, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer] = ()
) -> Query:
    """Lower one SELECT.

    Args:
        text: The query; `WITH DIFFERENTIAL_PRIVACY OPTIONS(…)` may follow SELECT.
        catalog: The public facts of the tables.
        public: The types and public values.
        first: The available answers to the questions that precede it.

    Raises:
        QueryRefused: It is not understood, or cannot be answered privately.
    """
    try:
        return _lower(text, catalog, public, first)
    except QueryRefused as refused:
        if first:
            told = "; ".join(answer.said for answer in first)
            raise type(refused)(f"{refused.message}, with {told}", refused.hint) from None
        from sparseq.sql.suggestions import suggest

        other = suggest(text, refused, catalog, lambda sql: _check(sql, catalog, public))
        hint = with_query(_short(refused.hint), other.query, other.same)
        raise type(refused)(refused.message, hint) from None


def _check(text: str, catalog: Catalog, public: PublicFacts) -> Query:
    """Lower a query; refuse it if it needs options that only the analyst can choose."""
    query = _lower(text, catalog, public, ())
    query = query if query.unbounded is None else query.unbounded.after
    for measure in (m for one in (*query.first, query) for m in one.measures):
        if measure.kind is Kind.SUM and measure.scale is None and query.options == Options():
            raise no_public_scale(measure)
    return query


def _lower(text: str, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer]) -> Query:
    query, unbounded = _lower_once(text, catalog, public, first)
    if not unbounded.values:
        return query
    public.assumes_bounds = True
    try:
        after, _ = _lower_once(text, catalog, public, first)
    finally:
        public.assumes_bounds = False
    search = BoundSearch(unbounded.values, after, unbounded.binned)
    return replace(query, unbounded=search)


def _lower_once(
    text: str, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer]
) -> tuple[Query, BoundGaps]:
    try:
        select, options = parse(text, catalog, public.limits)
        names = name_apart(select, catalog)
        if _is_public(select, catalog):
            _check_public_joins(select, public)
            rows = PublicRows(public.rows(sql_of(select))).called(names)
            query = Query(text.strip(), Relation(""), (), (), rows, options=options)
            return query, BoundGaps()
        widened = widen_moving_ranges(select, catalog)
        if len(list(select.find_all(exp.Select))) == 1:  # the usual case
            query, unbounded = _of_tree(select, catalog, public)
        else:
            query, unbounded = _with_numbers(select, catalog, public, first)
        outputs, notes = query.outputs.called(names), (*query.notes, *widened)
        query = replace(query, text=text.strip(), options=options, outputs=outputs, notes=notes)
        return replace(query, left_out=(*query.left_out, *widened)), unbounded
    except RecursionError:
        raise QueryRefused("the query is nested too deeply", "split it into parts") from None
    except QueryRefused as refused:
        raise type(refused)(_short(refused.message), " ".join(refused.hint.split())) from None


def _with_numbers(
    select: exp.Select, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer]
) -> tuple[Query, BoundGaps]:
    """Lower a tree that contains questions' numbers, or placeholders for them."""
    why: QueryRefused | None = None
    for size in SIZES:
        before = Before(lambda tree: _of_tree(tree, catalog, public), first, size)
        try:
            tree = select.copy()
            FirstQuestions(catalog, before.numbers).put(tree)
            query, unbounded = _of_tree(tree, catalog, public)
        except QueryRefused as refused:
            why = why or refused
            if not before.stand_in:
                break
            continue
        notes, left_out = (*query.notes, *before.told), (*query.left_out, *before.told)
        query = replace(query, notes=notes, left_out=left_out, first=before.stand_in)
        return query, before.unbounded | unbounded
    assert why is not None
    raise why


def _of_tree(select: exp.Select, catalog: Catalog, public: PublicFacts) -> tuple[Query, BoundGaps]:
    """Lower a tree over private tables; its query has no text yet."""
    taken_apart = split(select, catalog)
    outers = (
        [_Outer(select, public, direct=True)]
        if taken_apart is None
        else [_Outer(q, public) for q in taken_apart.questions]
    )
    query = outers[0].lower() if taken_apart is None else _after(taken_apart, outers, public)
    return query, reduce(operator.or_, (one.unbounded for one in outers), BoundGaps())


def _is_public(select: exp.Select, catalog: Catalog) -> bool:
    """Tell whether a query names only public tables; if so, replace names by stored ones."""
    found = [source for scope in traverse_scope(select) for source in scope.sources.values()]
    tables = [source for source in found if isinstance(source, exp.Table)]
    if not tables or any(catalog.table(t.name).private for t in tables):
        return False
    for table in tables:
        table.set("db", exp.to_identifier("public", quoted=True))
    return True


def _check_public_joins(select: exp.Select, public: PublicFacts) -> None:
    """Refuse a join of public tables that has too many rows, before it reads a row.

    Tables that an equality joins are assumed not to multiply, as in `public_factor`. A subquery has
    at most the rows of its own join.
    """
    most: dict[int, int] = {}  # by scope, inner ones first
    for scope in traverse_scope(select):
        own = {name: source for name, (_, source) in scope.selected_sources.items()}
        alike = {name: {name} for name in own}
        clauses = [scope.expression.args.get("where"), *scope.expression.args.get("joins", [])]
        places = ("this" if isinstance(c, exp.Where) else "on" for c in clauses)
        for clause, place in zip(clauses, places, strict=True):
            for part in conjuncts(clause and clause.args.get(place)):
                both = {c.table for c in part.find_all(exp.Column)} & own.keys()
                if isinstance(part, exp.EQ) and len(both) == 2:
                    joined = set[str]().union(*(alike[name] for name in both))
                    alike |= dict.fromkeys(joined, joined)
        sizes = {
            name: public.most_rows(f"public.{quote(source.name)} AS t", ())
            if isinstance(source, exp.Table)
            else most.get(id(source), 1)
            for name, source in own.items()
        }
        distinct = {frozenset(names) for names in alike.values()}
        product = math.prod(max(sizes[name] for name in names) for names in distinct)
        most[id(scope)] = product + sum(most.get(id(one), 0) for one in scope.set_operation_scopes)
        LIMITS["public"].check(most[id(scope)], public.limits)


def _short(text: str) -> str:
    """Return a message on one line, shortened if it quotes a long query."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def _after(query: QueryParts, outers: Sequence[_Outer], public: PublicFacts) -> Query:
    """Lower the questions of a query as one, with the SELECT over their answers."""
    several = len(query.questions) > 1
    lowered, types = [o.lower() for o in outers], [o.kinds_of_keys() for o in outers]
    if several:
        asked, parts = together(lowered, types)
    else:
        asked, parts = lowered[0], [alone(lowered[0], types[0])]
    words = [o.key_names for o in outers]
    parts = [replace(p, names=tuple(w)) for p, w in zip(parts, words, strict=True)]
    outputs = _in_words(query, lambda: after(query.after, parts, public))
    outputs = replace(outputs, totals=_totals_of(query.questions, lowered))
    unknown = [shown.name for shown in outputs.columns if shown.noised and not shown.has_ends]
    notes = ["HAVING, windows and outer SELECTs see the noised answer, not the rows"]
    if unknown:
        notes.append(f"no interval is known for {', '.join(unknown)}")
    return replace(asked, outputs=outputs, notes=(*asked.notes, *notes))


def _totals_of(questions: Sequence[exp.Select], lowered: Sequence[Query]) -> tuple[AskedTotal, ...]:
    """Return the grouped questions whose total row count another question also asks for."""
    clauses = ("from_", "joins", "where", "with_")
    rows = [exp.Select(**{k: q.args.get(k) for k in clauses}).sql(DUCKDB) for q in questions]
    counts = [row_count(query.measures) for query in lowered]
    found = []
    for i, j in product(range(len(lowered)), repeat=2):
        mine, all_of_them = counts[i], counts[j]
        if rows[i] != rows[j] or mine is None or all_of_them is None:
            continue
        if lowered[i].domains and not lowered[j].domains:
            found.append(AskedTotal(i, j, (mine, all_of_them)))
    return tuple(found)


def _in_words(query: QueryParts, lower: Callable[[], After]) -> After:
    """Lower the SELECT over answers; a refusal uses the query's words, not internal names."""
    words = {e.alias: said(e.this) for q in reversed(query.questions) for e in q.expressions}
    try:
        return lower()
    except QueryRefused as refused:
        message, hint = (
            re.sub(r"\b[ak]\d+\b", lambda found: words.get(found[0], found[0]), text)
            for text in (refused.message, refused.hint)
        )
        raise type(refused)(message, hint) from None


class _Outer:
    """Lowers one outer SELECT.

    Args:
        select, public: See `lower_sql`.
        direct: Its columns are the answer's columns, of any type; otherwise a SELECT over numbers
            follows.
    """

    def __init__(
        self,
        select: exp.Select,
        public: PublicFacts,
        direct: bool = False,
    ) -> None:
        self._direct = direct
        self.select = select
        self.key_types: list[str] = []
        self.public = public
        self._numbered = False  # for count(DISTINCT x) of values that each belong to one person
        owned = public.catalog.owned
        if owned and counts_own_values(select, owned):
            self._numbered_rows()
        self.scope = Scope(self.select, public, {}, lower_inner)
        if not self.scope.private:
            refuse(
                "this query is about public tables only",
                "use another tool; no privacy is needed for public tables",
            )
        if select.args.get("qualify"):
            refuse("QUALIFY looks at rows of the answer", "use HAVING, or ORDER BY and LIMIT")
        if select.args.get("distinct"):
            refuse("DISTINCT would release rows as they are", "use GROUP BY and COUNT")
        group = self.select.args.get("group")
        self.keys: list[exp.Expr] = [_bare(e) for e in group.expressions] if group else []
        self.sought = SoughtBounds(self.scope)
        self.unbounded = BoundGaps()
        self.aggregates = Aggregates(self.scope, self.sought)
        self._check_aggregated()

    def _numbered_rows(self) -> None:
        """Number the rows, for the distinct count of values that each belong to one person."""
        written = self.select.copy()
        scope = Scope(self.select, self.public, {}, lower_inner)
        first = scope.private[0] if scope.private else None
        user = exp.column(scope.user_name, first.alias, quoted=True) if first else None
        if user is not None and scope.is_user(user):
            self.select = with_first_rows(written, scope.is_owned, user)
            self._numbered = True
        else:
            self.select = written

    def _check_aggregated(self) -> None:
        parts = [*self.select.expressions, self.select.args.get("having")]
        if not any(p is not None and aggregates_in(p) for p in parts):
            refuse(
                "this query would release rows about people",
                "use an aggregate: COUNT, SUM, AVG, HISTOGRAM or MEDIAN",
            )

    def lower(self) -> Query:
        shown = self._outputs()
        self.scope.prepare()
        domains, joins = self._domains()
        self._check_answer(domains)
        measures = self.aggregates.measures(self._types(self.aggregates.values(), joins))
        if not measures:
            refuse("this query asks nothing about people: its values are public", "add count(*)")
        origin = self.scope.from_sql() + joins
        stored = self.scope.stored_table()  # each key has at most one place
        relation = Relation(
            origin,
            self.scope.where_sql(),
            self.scope.user,
            self.scope.caps,
            stored,
            self.scope.conditions(),
            stored != "" and len(self.scope.sources) > 1,
        )
        self._check_sql(relation, domains, measures)
        possible = possible_groups(self.scope, self.keys, self.key_types, domains)
        shown = replace(shown, possible=possible)
        _check_outputs(shown, domains, measures)
        left_out = self._left_out(domains)
        added: tuple[str, ...] = ()
        if least := self.public.least_people:
            asked = len(measures)
            measures, counts = with_people(measures, shown.histogram, self._single)
            bins = tuple(m.bins for m in measures)
            shown = replace(shown, least=LeastPeople(least, counts, bins))
            left_out += (f"values about fewer than {least:,} people, as counted, are not shown",)
            added = tuple(f"{m.label} are counted for that, and paid for" for m in measures[asked:])
        shown = replace(shown, presence=Presence.of(measures, domains))
        left_out += (*self.sought.cut, *self.aggregates.notes)
        self.unbounded = self.sought.unbounded()
        notes, apart = (*left_out, *added, *self._notes()), self.scope.window_apart() is not None
        return Query(
            "",
            relation,
            domains,
            measures,
            shown,
            notes,
            left_out=left_out,
            apart=apart,
            span=self.scope.span(),
            statistics=self.aggregates.statistics(),
            single=self._single,
        )

    @property
    def _single(self) -> bool:
        """Tell whether each person has at most one row."""
        return [s.single for s in self.scope.sources.values()] == [True]

    def _check_answer(self, domains: Sequence[Domain]) -> None:
        """Refuse an answer that is too large, or takes too long to compute from noised values."""
        groups = math.prod(len(domain.values) for domain in domains)
        parts = (self.select.args.get(k) for k in ("having", "order"))
        shown = [*self.select.expressions, *(part for part in parts if part is not None)]
        LIMITS["cells"].check(groups * len(self.select.expressions), self.public.limits)
        LIMITS["after"].check(groups * sum(1 for e in shown for _ in e.walk()), self.public.limits)

    def _types(self, values: Sequence[str], joins: str) -> list[str]:
        """Return the types of expressions over the relation, found without rows."""
        if not values:
            return []
        where = self.scope.where_sql()
        return self.public.types(
            f"SELECT {', '.join(values)} {self.scope.from_sql()}{joins}"
            + (f" WHERE {where}" if where else "")
        )

    def _domains(self) -> tuple[tuple[Domain, ...], str]:
        finder = Domains(self.scope, self.public, self.sought)
        names = {sql_of(e.unalias()): e.alias_or_name for e in self.select.expressions}
        # all types first: they determine which strings are needed
        types = self.key_types = [self._key_type(key) for key in self.keys]
        texts = [sql_of(key) for key in self.keys]
        called = [
            names[text] if text in names else said(key)
            for text, key in zip(texts, self.keys, strict=True)
        ]
        found, left = list[Domain](), dict(enumerate(self.keys))
        for places, several in self._found_together(finder):
            if not left.keys() >= set(places):
                continue
            columns = [left.pop(p) for p in places]
            some = [(called[p], p) for p in places]
            found.append(finder.of_tuples(columns, some, [types[p] for p in places], several))
        found += [finder.of(key, called[p], types[p]) for p, key in left.items()]
        if self._numbered and any(domain.rest for domain in found):
            refuse(
                "distinct values are not counted in the group of all other keys",
                "list the keys in the WHERE, or count rows or people",
            )
        return tuple(found), finder.joins

    def _found_together(self, finder: Domains) -> list[tuple[list[int], FoundTuples]]:
        """Return the keys that were found together, by their positions: the most columns first.

        Keys that have public values of their own are not among them.
        """
        at: dict[tuple[str, str], int] = {}
        for place, key in enumerate(self.keys):
            if isinstance(key, exp.Column) and (stored := self.scope.facts(key).stored) is not None:
                at[key.table, stored.name] = place
        together = []
        for alias, source in self.scope.sources.items():
            for found in () if source.table is None else source.table.found:
                places = [at.get((alias, name), -1) for name in found.columns]
                if min(places) >= 0 and not all(
                    finder.is_public(self.keys[p], self.key_types[p]) for p in places
                ):
                    together.append((places, found))
        return sorted(together, key=lambda one: -len(one[0]))

    @property
    def key_names(self) -> list[str]:
        """The keys, as the query writes them."""
        return [said(key) for key in self.keys]

    def kinds_of_keys(self) -> list[str]:
        """Return the types of the keys, which distinguish moments from local times."""
        zoned = [self.scope.term(key).type.zoned for key in self.keys]
        return [MOMENTS if z else t for z, t in zip(zoned, self.key_types, strict=True)]

    def _key_type(self, key: exp.Expr) -> str:
        (type,) = self._types([self.scope.value_sql(key)], "")
        return type

    def _check_sql(
        self, relation: Relation, domains: Sequence[Domain], measures: Sequence[Measure]
    ) -> None:
        """Run the whole SQL without rows: an error appears here, where it reveals nothing."""
        cells = [d.position for d in domains]
        cells += [c for m in measures for c in (m.value, m.bin) if c is not None]
        columns = ", ".join([relation.user, *(c.sql for c in cells)])
        where = f" WHERE {relation.where}" if relation.where else ""
        self.public.types(f"SELECT {columns} {relation.sql}{where}")

    def _left_out(self, domains: Sequence[Domain]) -> tuple[str, ...]:
        """Return notes about keys for which rows may be in no group, by public facts only.

        There is no note if the WHERE admits only rows that are in a group.
        """
        sides = [x for c in self.scope.where for x in _limited_columns(c)]
        ranged = {x for x in sides if sides.count(x) > 1}
        covers = PublicValues(self.scope, self.public).covers
        of_keys = zip(self.keys, self.key_types, values_of_keys(domains), strict=True)
        names = [
            name if self._direct else said(key)
            for key, type, (i, name, _) in of_keys
            if not (domains[i].rest or covers(key, type))
            and not {sql_of(c) for c in key.find_all(exp.Column)} <= ranged
        ]
        return tuple(
            f"rows whose {name} is in no group are not counted, and cost nothing" for name in names
        )

    def _notes(self) -> list[str]:
        notes = []
        if any(s.derived and s.private for s in self.scope.sources.values()):
            notes.append("subqueries are computed for each user apart")
        if self.scope.caps:
            most = min(cap.most for cap in self.scope.caps)
            notes.append(
                f"whose rows make more than {most:,} combinations in a join, or of lists, is left "
                "out of it, and pays nothing"
            )
        return notes

    def _outputs(self) -> out.Outputs:
        if self.aggregates.has_histogram(self.select):
            return self._histogram()
        columns = tuple(
            out.OutputColumn(e.alias_or_name, self._node(e.unalias()), _counts(e.unalias()))
            for e in self._shown()
        )
        return out.Outputs(columns, *self._rest())

    def _histogram(self) -> out.Outputs:
        """Return the outputs of a single HISTOGRAM, whose bins become rows."""
        columns, measure = [], None
        for e in self._shown():
            value = e.unalias()
            if self.aggregates.is_histogram(value):
                if measure is not None:
                    refuse("one HISTOGRAM at a time", "ask for the other in a query of its own")
                measure = self.aggregates.histogram(value)
                columns.append(out.OutputColumn(e.alias_or_name, out.measure(measure), True))
            elif self._key_index(value) is not None:
                columns.append(out.OutputColumn(e.alias_or_name, self._node(value)))
            else:
                refuse("HISTOGRAM goes with group keys only", "ask for the rest in another query")
        return out.Outputs(tuple(columns), *self._rest(), histogram=measure)

    def _shown(self) -> list[exp.Expr]:
        renamed = []
        for e in self.select.expressions:
            if e.alias_or_name.startswith("_col_"):
                e = exp.alias_(e.unalias(), plain_name(e.unalias()), quoted=True)
            renamed.append(e)
        return renamed

    def _rest(self) -> tuple[out.Node | None, tuple[out.Ordering, ...], int | None, int]:
        having = self.select.args.get("having")
        order = self.select.args.get("order")
        ordered = tuple(
            (self._order_node(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
            for o in (order.expressions if order else [])
        )
        limit, offset = (self._count(self.select.args.get(k)) for k in ("limit", "offset"))
        return (self._node(having.this) if having else None, ordered, limit, offset or 0)

    def _count(self, clause: exp.Expr | None) -> int | None:
        if clause is None:
            return None
        value = clause.expression
        if not isinstance(value, exp.Literal) or value.is_string or not _is_whole(value):
            refuse(f"{said(clause)[:40]} needs a whole number", "LIMIT 10")
        return int(value.this)

    def _order_node(self, e: exp.Expr) -> out.Node:
        if isinstance(e, exp.Literal) and not e.is_string and _is_whole(e):
            place = int(e.this) - 1
            if not 0 <= place < len(self.select.expressions):
                refuse(f"ORDER BY {e.this}: there are {len(self.select.expressions)} columns")
            return self._node(self.select.expressions[place].unalias())
        if isinstance(e, exp.Column) and not e.table:
            for shown in self.select.expressions:
                if shown.alias_or_name == e.name:
                    return self._node(shown.unalias())
        return self._node(e)

    def _key_index(self, e: exp.Expr) -> int | None:
        text = sql_of(_bare(e))
        return next((i for i, k in enumerate(self.keys) if sql_of(k) == text), None)

    def _node(self, e: exp.Expr) -> out.Node:
        """Return the post-processing that computes an outer expression."""
        place = self._key_index(e)
        if place is not None:
            return out.key(place)
        if isinstance(e, exp.Paren | exp.Alias):
            return self._node(e.this)
        if isinstance(e, exp.AnyValue | exp.Min | exp.Max) and self._direct:
            known = self._said_by_keys(e.this)
            if known is not None:
                return known
        if is_aggregate(e):
            return self.aggregates.node(e)
        if isinstance(e, exp.Column):
            refuse(f"{said(e)} is neither in GROUP BY nor aggregated", "add it to GROUP BY")
        if isinstance(e, exp.Window):
            refuse(f"{said(e)} is a window over the answer", "compute it from the answer")
        if isinstance(e, exp.Literal) and (
            e.is_string or (e.this.isdecimal() and len(e.this) < 10)
        ):
            return out.constant(e.this if e.is_string else int(e.this))
        if is_constant(e) and not isinstance(e, exp.Null):
            noised = any(RELEASED in part.meta for part in e.walk())
            return out.constant(self.public.constant(self.scope.value_sql(e)), noised)
        return self._scalar(e)

    def _said_by_keys(self, e: exp.Expr) -> out.Node | None:
        """Return a value of a public table's columns, if the group keys determine it; else None."""
        tables = {c.table for c in e.find_all(exp.Column)}
        source = self.scope.sources[next(iter(tables))] if len(tables) == 1 else None
        if source is None or source.private or source.table is None:
            return None
        by = []
        for i, key in enumerate(self.keys):
            same = self.scope.equal_to(key) if isinstance(key, exp.Column) else []
            of = (k for k in [key, *same] if {c.table for c in k.find_all(exp.Column)} == tables)
            if (own := next(of, None)) is not None:
                by.append((i, own))
        if not by:
            return None
        shown = ", ".join(self.scope.value_sql(key) for _, key in by)
        value = self.scope.value_sql(e)
        rows = self.public.values(
            f"SELECT {shown}, min({value}), count(DISTINCT {value}) FROM "
            f"public.{quote(source.table.name)} AS {quote(source.alias)} "
            f"GROUP BY ALL LIMIT {MAX_VALUES + 1}"
        )
        if len(rows) > MAX_VALUES or any(several > 1 for *_, several in rows):
            return None
        values = {tuple(key): found for *key, found, _ in rows}
        return out.LookupNode(tuple(i for i, _ in by), values)

    def _scalar(self, e: exp.Expr) -> out.Node:
        if isinstance(e, exp.Null):
            return out.constant(None)
        if isinstance(e, exp.Binary) and type(e) in _COMPARISONS:
            return out.compare(_COMPARISONS[type(e)], self._node(e.left), self._node(e.right))
        if isinstance(e, exp.And | exp.Or):
            together = out.all_of if isinstance(e, exp.And) else out.any_of
            return together(self._node(e.left), self._node(e.right))
        if isinstance(e, exp.Not):
            return out.negation(self._node(e.this))
        if isinstance(e, exp.Between):
            value = out.share(self._node(e.this))
            low = out.compare(operator.ge, value, self._node(e.args["low"]))
            high = out.compare(operator.le, value, self._node(e.args["high"]))
            return out.all_of(low, high)
        if isinstance(e, exp.In) and not e.args.get("query"):
            value = out.share(self._node(e.this))
            same = [out.compare(operator.eq, value, self._node(x)) for x in e.expressions]
            return out.any_of(*same)
        return self._function(e)

    def _function(self, e: exp.Expr) -> out.Node:
        if isinstance(e, exp.Cast | exp.TryCast) and e.to.is_type(*exp.DataType.NUMERIC_TYPES):
            return self._cast(e)
        name, parts = call_of(e) or ("", [])
        rule = rule_of(name, len(parts))
        if rule is None:
            refuse(
                f"{said(e)} is not computed from noised values",
                "arithmetic, comparisons, CASE, CAST, COALESCE, NULLIF, ROUND, ABS, SQRT, LN, EXP, "
                "GREATEST and LEAST are; compute the rest from the answer",
            )
        nodes = [self._node(x) for x in parts]
        if name in ("round", "trunc") and len(parts) == 2:
            self._check_digits(e, nodes[1])
        if isinstance(e, exp.Binary):
            return combine(rule, nodes[0], nodes[1], self.public.weighted)
        return out.apply(rule, *nodes)

    def _check_digits(self, e: exp.Expr, digits: out.Node) -> None:
        value = digits.value if isinstance(digits, out.ConstantNode) else None
        if not isinstance(value, float) or value != int(value) or abs(value) > 300:
            refuse(f"{said(e)}: the number of decimals is an integer", "ROUND(x, 2)")

    def _cast(self, e: exp.Cast) -> out.Node:
        inner = self._node(e.this)
        if e.to.is_type(*exp.DataType.INTEGER_TYPES):
            return out.apply(rising_rule(np.rint), inner)
        if e.to.is_type(exp.DataType.Type.DECIMAL):
            parameters = [int(p.name) for p in e.to.expressions] or [18, 3]
            digits = parameters[1] if len(parameters) > 1 else 0
            return out.apply(rising_rule(lambda x: round_to(x, digits)), inner)
        return inner


_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
}


def _check_outputs(
    outputs: out.Outputs, domains: Sequence[Domain], measures: Sequence[Measure]
) -> None:
    """Compute the outputs from zeros and ones, so that mismatched values fail here."""
    keys = [np.array([values[0]], object) for _, _, values in values_of_keys(domains)]
    try:
        for value in (0.0, 1.0):
            same = [np.full((1, m.bins), value) for m in measures]
            noised = out.Measurements(same, [1.0] * len(measures), keys, 1)
            outputs.rows(noised)
            for column in outputs.columns:
                column.node(noised)
    except (TypeError, ValueError):
        refuse(
            "SELECT, HAVING or ORDER BY compares or computes with values of different kinds",
            "compare numbers with numbers, dates with DATE '…', text with text",
        )


def _limited_columns(condition: exp.Expr) -> list[str]:
    """Return the columns that a condition limits, one entry per end; NULL passes no such condition.

    >>> from sqlglot import parse_one
    >>> _limited_columns(parse_one("x BETWEEN 1 AND 2")), _limited_columns(parse_one("1 < x"))
    (['x', 'x'], ['x'])
    """
    ends = 0
    if isinstance(condition, exp.Between | exp.EQ) or (
        isinstance(condition, exp.In) and condition.expressions
    ):
        ends = 2
    elif isinstance(condition, exp.LT | exp.LTE | exp.GT | exp.GTE):
        ends = 1
    sides = [condition.this, condition.args.get("expression")] if ends else []
    return [sql_of(c) for c in sides if isinstance(c, exp.Column)] * ends


def _is_whole(e: exp.Literal) -> bool:
    return e.this.isdecimal() and len(e.this) <= 18


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


def _counts(e: exp.Expr) -> bool:
    """Tell whether an output is a count, which is shown as an integer."""
    e = e.this if isinstance(e, exp.Filter) else _bare(e)
    return isinstance(e, exp.Count | exp.CountIf)
