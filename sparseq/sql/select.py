"""SQL lowered to contributions: the outer SELECT, its groups and its aggregates.

    parse → scope (rows by user) → measures and domains (what is noised) → outputs (what is shown)

Every aggregate of the outer SELECT becomes measures, linear queries q(X_i) over one user's rows;
averages, variances and quantiles are computed from noised measures, which is free.

From the text of a query to the query, for one store: what was lowered before is remembered.

Queries that differ in their dates only are lowered once: a daily query is the same every day.

A date here is a quoted date, or a date with a time of day: an hourly query is the same every hour.
A date that is compared with a timestamp is lowered to its midnight, and is told by that.
When two queries of one shape have lowered to the same thing but for the dates in their WHERE, a
third is made by putting its dates in the same places. That they are the same is seen, not assumed:
the second must come out of the first by the substitution, letter for letter, with equal groups and
measures. Every date of the text must be one of the WHERE, so that nothing else can depend on it,
and no group may be made of a column that a date limits, as its domain depends on the date.

What is selected from answers: several questions asked as one, and the SELECT over theirs.

A person's vector is that of the first question, then that of the second …: it is charged for all of
them, in one step. Measures of one kind and scale share their noise. The SELECT is lowered to SQL
that `sparseq.released.sql_over_noise` runs.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from sparseq.base.errors import QueryRefused, with_query
from sparseq.language import types as T
from sparseq.language.functions import rule_of
from sparseq.language.interval_arithmetic import rising_rule, round_to
from sparseq.released import outputs as out
from sparseq.released.outputs import LeastPeople, MeasureNode, combine
from sparseq.released.sql_over_noise import ENDS, FEW, After, Place, PublicRows, ShownColumn
from sparseq.sql.aggregates import Aggregates, Domains, possible_keys, with_people
from sparseq.sql.catalog import INTEGER_TYPES, Catalog, FoundTuples
from sparseq.sql.first_questions import SIZES, Before, FirstQuestions, Unbounded
from sparseq.sql.from_clause import ColumnFacts, FromItem, quoted
from sparseq.sql.interval_propagation import Shape, Width, with_ends
from sparseq.sql.parse import RELEASED, parse, said, spell_columns
from sparseq.sql.parsed_expressions import (
    aggregates_in,
    call_of,
    conjuncts,
    is_aggregate,
    is_constant,
)
from sparseq.sql.plan import (
    LIMITS,
    BoundSearch,
    Cell,
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
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_values import MAX_VALUES, PublicValues
from sparseq.sql.scope import Scope, refuse
from sparseq.sql.split_question import QueryParts, split
from sparseq.sql.subqueries import counts_own_values, lower_inner, with_first_rows
from sparseq.sql.suggestions import suggest

# -- what is selected from answers -----------------------------------------------------------------

# -- several questions asked as one: their rows one after the other, each in cells of its own ------


_MOMENTS = "TIMESTAMPTZ"
"""The type of keys that are moments; what holds them is a TIMESTAMP, in UTC."""


def alone(query: Query, types: Sequence[str]) -> Place:
    """Return the part that is all of a question."""
    places = tuple(range(len(query.measures)))
    return _place(query, places, 0, types)


def _place(query: Query, places: Sequence[int], first: int, types: Sequence[str]) -> Place:
    sums = frozenset(i for i, m in enumerate(query.measures) if m.kind is Kind.SUM)
    whole = frozenset(i for i, m in enumerate(query.measures) if m.integral)
    return Place(
        query.outputs, query.domains, tuple(places), first, query.groups, tuple(types), sums, whole
    )


def together(queries: Sequence[Query], types: Sequence[Sequence[str]]) -> tuple[Query, list[Place]]:
    """Return several questions as one, and where they are in it.

    Args:
        queries: Lowered so that every key's place is in its SQL.
        types: DuckDB's types of their keys.
    """
    measures: list[Measure] = []
    firsts = [0, *accumulate(q.groups for q in queries)]
    parts = []
    for query, first, kinds in zip(queries, firsts, types, strict=False):
        places: list[int] = []
        for measure in query.measures:
            alike = (i for i, m in enumerate(measures) if i not in places and _alike(m, measure))
            place = next(alike, len(measures))
            if place == len(measures):
                measures.append(measure)
            places.append(place)
        parts.append(_place(query, places, first, kinds))
    rows = [_batch_rows(q, p, measures) for q, p in zip(queries, parts, strict=True)]
    caps = tuple(dict.fromkeys(cap for q in queries for cap in q.relation.caps))
    relation = Relation(f'FROM ({" UNION ALL ".join(rows)}) AS "#parts"', caps=caps)
    cells = Domain("cell", tuple(range(firsts[-1])), Cell("cell"))
    asked = tuple(
        replace(m, value=Cell(f"v{i}"), bin=Cell(f"b{i}") if m.edges else None)
        for i, m in enumerate(measures)
    )
    notes = tuple(dict.fromkeys(note for q in queries for note in q.notes))
    statistics = tuple(
        dict.fromkeys(
            replace(s, places=tuple(part.measures[i] for i in s.places))
            for query, part in zip(queries, parts, strict=True)
            for s in query.statistics
        )
    )
    left_out = tuple(dict.fromkeys(said for q in queries for said in q.left_out))
    whole = Query(
        "", relation, (cells,), asked, None, notes, left_out=left_out, statistics=statistics
    )
    return whole, parts


def _alike(a: Measure, b: Measure) -> bool:
    facts = ("kind", "integral", "scale", "edges", "step", "bounds", "role")
    return all(getattr(a, name) == getattr(b, name) for name in facts)


def _batch_rows(query: Query, part: Place, measures: Sequence[Measure]) -> str:
    """Return SQL of a question's rows: the user, the cell, and each measure's value and bin."""
    found = dict(zip(part.measures, query.measures, strict=True))
    columns = [f"{query.relation.user} AS _user", f"{_cell(part)} AS cell"]
    for i, like in enumerate(measures):
        measure, kind = found.get(i), "DOUBLE" if like.kind is Kind.SUM else "BOOLEAN"
        value = "NULL" if measure is None else measure.value.sql if measure.value else "true"
        if like.kind is Kind.SUM and like.integral:
            kind = "BIGINT"
        columns.append(f"CAST({value} AS {kind}) AS v{i}")
        if like.edges:
            place = measure.bin.sql if measure is not None and measure.bin else "NULL"
            columns.append(f"CAST({place} AS INTEGER) AS b{i}")
    where = f" WHERE {query.relation.where}" if query.relation.where else ""
    return f"SELECT {', '.join(columns)} {query.relation.sql}{where}"


def _cell(part: Place) -> str:
    """Return SQL of a row's cell; NULL where one of its keys is in no group."""
    place, inside = "0", []
    for domain in part.domains:
        sql, size = f"({domain.position.sql})", len(domain.values)
        inside.append(f"{sql} BETWEEN 0 AND {size - 1}")
        place = f"({place} * {size} + {sql})"
    cell = f"{part.first} + {place}"
    return f"CASE WHEN {' AND '.join(inside)} THEN {cell} END" if inside else cell


# -- what is selected from their answers -----------------------------------------------------------


def after(select: exp.Select, parts: Sequence[Place], public: PublicFacts) -> After:
    """Lower what is selected from answers.

    Args:
        select: Over tables #q0, #q1 …
        parts: The questions that these are the answers to.
        public: Types and public tables.

    Raises:
        QueryRefused: It is not understood, or has several columns of a name.
    """
    shapes = {f"#q{i}": _shape(part) for i, part in enumerate(parts)}
    select, shape = with_ends(select, shapes)
    sources = {name: _source(name, part) for name, part in zip(shapes, parts, strict=True)}
    rows = lower_inner(select, "", public, sources)
    LIMITS["cells"].check(rows.most * len(shape.columns), public.limits)
    sql = rows.derived
    for name, part in zip(shapes, parts, strict=True):
        sql = sql.replace(_rows(part, ""), _rows(part, quoted(name)))
    sql = sql.removeprefix("(").removesuffix(")")
    shown = [
        ShownColumn(name, w.noised, w.ends is not None, w.few is not None, w.whole)
        for name, w in shape.columns.items()
    ]
    return After(sql, tuple(parts), tuple(shown), public.answer)


def _shape(part: Place) -> Shape:
    columns = {}
    for output in part.outputs.columns:
        if output.name.startswith("k"):
            kind = part.types[int(output.name[1:])]
            columns[output.name] = Width(sure=True, integer=kind in INTEGER_TYPES)
        else:
            node, ends = output.node, exp.column(output.name + ENDS, quoted=True)
            is_sum = isinstance(node, MeasureNode) and node.i in part.sums
            sure = isinstance(node, MeasureNode)
            few = None if part.outputs.least is None else exp.null()
            whole = output.integral or (isinstance(node, MeasureNode) and node.i in part.whole)
            columns[output.name] = Width(True, ends, sure, is_sum, output.integral, few, whole)
    return Shape(columns, True)


def _source(name: str, part: Place) -> FromItem:
    zoned = {f"k{i}" for i, t in enumerate(part.types) if t == _MOMENTS}
    columns = {n: ColumnFacts(t, zoned=n in zoned) for n, t in _types(part).items()}
    return FromItem(name, False, set(), columns, derived=_rows(part, ""), most=part.groups)


def _types(part: Place) -> dict[str, str]:
    types: dict[str, str] = {}
    for output in part.outputs.columns:
        if output.name.startswith("k"):
            kind = part.types[int(output.name[1:])]
            types[output.name] = "TIMESTAMP" if kind == _MOMENTS else kind
        else:
            types |= {output.name: "DOUBLE", output.name + ENDS: T.ENDS.sql}
            if part.outputs.least is not None:
                types[output.name + FEW] = "INTEGER"
    return types


def _rows(part: Place, table: str) -> str:
    """Return SQL of an answer's rows; without a table there are none, but they have types."""
    types = _types(part)
    origin = f"FROM {table}" if table else f"WHERE {part.first} < 0"
    columns = (
        f"CAST({quoted(n) if table else 'NULL'} AS {t}) AS {quoted(n)}" for n, t in types.items()
    )
    return f"(SELECT {', '.join(columns)} {origin})"


# -- sQL lowered to contributions: the outer SELECT, its groups and its aggregates -----------------

# -- SQL lowered to contributions: the outer SELECT, its groups and its aggregates -----------------

MAX_MESSAGE = 240


def lower_sql(
    text: str, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer] = ()
) -> Query:
    """Lower one SELECT.

    Args:
        text: The query; `WITH DIFFERENTIAL_PRIVACY OPTIONS(…)` may follow SELECT.
        catalog: What is public about the tables.
        public: Types and public values.
        first: The answers to the first of the questions that are asked before it.

    Raises:
        QueryRefused: It is not understood, or can't be answered privately.
    """
    try:
        return _lower(text, catalog, public, first)
    except QueryRefused as refused:
        if first:
            told = "; ".join(answer.said for answer in first)
            raise type(refused)(f"{refused.message}, with {told}", refused.hint) from None
        other = suggest(text, refused, catalog, lambda sql: _check(sql, catalog, public))
        hint = with_query(_short(refused.hint), other.query, other.same)
        raise type(refused)(refused.message, hint) from None


def _check(text: str, catalog: Catalog, public: PublicFacts) -> Query:
    """Lower a query; refuse it where it needs options of the asker's to be answered."""
    query = _lower(text, catalog, public, ())
    query = query if query.unbounded is None else query.unbounded.after
    for measure in (m for one in (*query.first, query) for m in one.measures):
        if measure.kind is Kind.SUM and measure.scale is None and query.options == Options():
            raise no_public_scale(measure)
    return query


def _lower(text: str, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer]) -> Query:
    query, unbounded = _lower_once(text, catalog, public, first)
    if not unbounded:
        return query
    public.assumes_bounds = True
    try:
        after, _ = _lower_once(text, catalog, public, first)
    finally:
        public.assumes_bounds = False
    return replace(query, unbounded=BoundSearch(unbounded, after))


def _lower_once(
    text: str, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer]
) -> tuple[Query, Unbounded]:
    try:
        select, options = parse(text, catalog, public.limits)
        names = spell_columns(select, catalog)
        if _is_public(select, catalog):
            _check_public_joins(select, public)
            rows = PublicRows(public.rows(select.sql("duckdb"))).called(names)
            return Query(text.strip(), Relation(""), (), (), rows, options=options), ()
        if len(list(select.find_all(exp.Select))) == 1:  # as most questions are
            query, unbounded = _of_tree(select, catalog, public)
        else:
            query, unbounded = _with_numbers(select, catalog, public, first)
        outputs = query.outputs.called(names)
        return replace(query, text=text.strip(), options=options, outputs=outputs), unbounded
    except RecursionError:
        raise QueryRefused("the query is nested too deeply", "split it into parts") from None
    except QueryRefused as refused:
        raise type(refused)(_short(refused.message), " ".join(refused.hint.split())) from None


def _with_numbers(
    select: exp.Select, catalog: Catalog, public: PublicFacts, first: Sequence[FirstAnswer]
) -> tuple[Query, Unbounded]:
    """Lower a tree with the numbers of questions in it, or with what stands in for them."""
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
        return query, (*dict.fromkeys([*before.unbounded, *unbounded]),)
    assert why is not None
    raise why


def _of_tree(select: exp.Select, catalog: Catalog, public: PublicFacts) -> tuple[Query, Unbounded]:
    """Lower a tree that is about people, and has no name for it yet."""
    taken_apart = split(select, catalog)
    outers = (
        [_Outer(select, public, direct=True)]
        if taken_apart is None
        else [_Outer(q, public, len(taken_apart.questions) > 1) for q in taken_apart.questions]
    )
    query = outers[0].lower() if taken_apart is None else _after(taken_apart, outers, public)
    unbounded: dict[tuple[str, str], None] = {}
    for one in outers:
        unbounded |= one.aggregates.unbounded
    return query, (*unbounded,)


def _is_public(select: exp.Select, catalog: Catalog) -> bool:
    """Tell whether a query names public tables, and no other; they are then named as stored."""
    found = [source for scope in traverse_scope(select) for source in scope.sources.values()]
    tables = [source for source in found if isinstance(source, exp.Table)]
    if not tables or any(catalog.table(t.name).private for t in tables):
        return False
    for table in tables:
        table.set("db", exp.to_identifier("public", quoted=True))
    return True


def _check_public_joins(select: exp.Select, public: PublicFacts) -> None:
    """Refuse a join of public tables that has too many rows, before any is read.

    Tables that an equality joins are taken not to multiply, as in `public_factor`. A subquery has
    as many rows at most as its own join.
    """
    most: dict[int, int] = {}  # by scope, those inside first
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
            name: public.most_rows(f"public.{quoted(source.name)} AS t", ())
            if isinstance(source, exp.Table)
            else most.get(id(source), 1)
            for name, source in own.items()
        }
        distinct = {frozenset(names) for names in alike.values()}
        product = math.prod(max(sizes[name] for name in names) for names in distinct)
        most[id(scope)] = product + sum(most.get(id(one), 0) for one in scope.set_operation_scopes)
        LIMITS["public"].check(most[id(scope)], public.limits)


def _short(text: str) -> str:
    """Return a message on one line, cut short where the query itself is long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def _after(query: QueryParts, outers: Sequence[_Outer], public: PublicFacts) -> Query:
    """Lower the questions of a query as one, and what is selected from their answers."""
    several = len(query.questions) > 1
    lowered, types = [o.lower() for o in outers], [o.kinds_of_keys() for o in outers]
    if several:
        asked, parts = together(lowered, types)
    else:
        asked, parts = lowered[0], [alone(lowered[0], types[0])]
    outputs = _in_words(query, lambda: after(query.after, parts, public))
    unknown = [shown.name for shown in outputs.columns if shown.noised and not shown.has_ends]
    notes = ["HAVING, windows and outer SELECTs see the noised answer, not the rows"]
    if unknown:
        notes.append(f"no interval is known for {', '.join(unknown)}")
    return replace(asked, outputs=outputs, notes=(*asked.notes, *notes))


def _in_words(query: QueryParts, lower: Callable[[], After]) -> After:
    """Lower what is selected from answers; a refusal has the query's words, not our names."""
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
        in_sql: See `Domains`.
        direct: Its columns are the answer's, of any type; else a SELECT over numbers follows.
    """

    def __init__(
        self,
        select: exp.Select,
        public: PublicFacts,
        in_sql: bool = False,
        direct: bool = False,
    ) -> None:
        self._direct = direct
        self.select, self._in_sql = select, in_sql
        self.key_types: list[str] = []
        self.public = public
        self._numbered = False  # rows, for count(DISTINCT x) of what is one person's each
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
        self.aggregates = Aggregates(self.scope)
        self._check_aggregated()

    def _numbered_rows(self) -> None:
        """Number the rows where values of what is one person's each are counted."""
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
        stored = self.scope.stored_table() if not joins else ""
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
        if 1 < len(domains) == len(self.keys):  # else some were found together
            shown = replace(shown, possible=possible_keys(self.scope, self.keys, domains))
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
        left_out += tuple(self.aggregates.cut)
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
        """A person has one row at most."""
        return [s.single for s in self.scope.sources.values()] == [True]

    def _check_answer(self, domains: Sequence[Domain]) -> None:
        """Refuse an answer that is too large, or takes too long to compute from noised values."""
        groups = math.prod(len(domain.values) for domain in domains)
        parts = (self.select.args.get(k) for k in ("having", "order"))
        shown = [*self.select.expressions, *(part for part in parts if part is not None)]
        LIMITS["cells"].check(groups * len(self.select.expressions), self.public.limits)
        LIMITS["after"].check(groups * sum(1 for e in shown for _ in e.walk()), self.public.limits)

    def _types(self, values: Sequence[str], joins: str) -> list[str]:
        """Return the types of expressions over the relation, found on no rows."""
        if not values:
            return []
        where = self.scope.where_sql()
        return self.public.types(
            f"SELECT {', '.join(values)} {self.scope.from_sql()}{joins}"
            + (f" WHERE {where}" if where else "")
        )

    def _domains(self) -> tuple[tuple[Domain, ...], str]:
        finder = Domains(self.scope, self.public, self._in_sql)
        names = {e.unalias().sql("duckdb"): e.alias_or_name for e in self.select.expressions}
        # all types first: from then on it is known which strings are needed
        types = self.key_types = [self._key_type(key) for key in self.keys]
        called = [names.get(key.sql("duckdb"), said(key)) for key in self.keys]
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
        """Return the keys that were found together, by their places: the most columns first.

        None whose values are public one by one.
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

    def kinds_of_keys(self) -> list[str]:
        """Return the types of the keys, moments told apart from what clocks show."""
        zoned = [self.scope.term(key).type.zoned for key in self.keys]
        return [_MOMENTS if z else t for z, t in zip(zoned, self.key_types, strict=True)]

    def _key_type(self, key: exp.Expr) -> str:
        if isinstance(key, exp.Column):
            stored = self.scope.facts(key).stored
            if stored is not None and stored.coded:
                return stored.type
        (type,) = self._types([self.scope.value_sql(key)], "")
        return type

    def _check_sql(
        self, relation: Relation, domains: Sequence[Domain], measures: Sequence[Measure]
    ) -> None:
        """Run the whole of it on no rows: a mistake shows here, where it tells of nobody."""
        cells = [d.position for d in domains]
        cells += [c for m in measures for c in (m.value, m.bin) if c is not None]
        columns = ", ".join([relation.user, *(c.sql for c in cells)])
        where = f" WHERE {relation.where}" if relation.where else ""
        self.public.types(f"SELECT {columns} {relation.sql}{where}")

    def _left_out(self, domains: Sequence[Domain]) -> tuple[str, ...]:
        """Say of which keys rows may be in no group: told by public facts, whatever the rows are.

        None, where the WHERE lets no other row pass than one of the groups.
        """
        sides = [x for c in self.scope.where for x in _limited_columns(c)]
        ranged = {x for x in sides if sides.count(x) > 1}
        covers = PublicValues(self.scope, self.public).covers
        of_keys = zip(self.keys, self.key_types, values_of_keys(domains), strict=True)
        names = [
            name
            for key, type, (i, name, _) in of_keys
            if not (domains[i].rest or covers(key, type))
            and not {c.sql("duckdb") for c in key.find_all(exp.Column)} <= ranged
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

    # -- what is shown ---------------------------------------------------------------------------

    def _outputs(self) -> out.Outputs:
        if self.aggregates.has_histogram(self.select):
            return self._histogram()
        columns = tuple(
            out.OutputColumn(e.alias_or_name, self._node(e.unalias()), _counts(e.unalias()))
            for e in self._shown()
        )
        return out.Outputs(columns, *self._rest())

    def _histogram(self) -> out.Outputs:
        """HISTOGRAM alone: its bins become rows."""
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
                e = exp.alias_(e.unalias(), _name(e.unalias()), quoted=True)
            renamed.append(e)
        names = [e.alias_or_name for e in renamed]
        for name in names:
            if names.count(name) > 1:
                refuse(f"two columns are called {name!r}", "rename one: … AS other")
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
        text = _bare(e).sql("duckdb")
        return next((i for i, k in enumerate(self.keys) if k.sql("duckdb") == text), None)

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
        """Return what keys of a public table say of a value of its columns; None: they don't."""
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
            f"public.{quoted(source.table.name)} AS {quoted(source.alias)} "
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
    """Compute what is shown from zeros and ones: values that don't go together show here."""
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
    """Return the columns that a condition limits, once for each end; NULL passes none of them.

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
    return [c.sql("duckdb") for c in sides if isinstance(c, exp.Column)] * ends


def _is_whole(e: exp.Literal) -> bool:
    return e.this.isdecimal() and len(e.this) <= 18


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


def _counts(e: exp.Expr) -> bool:
    """Tell whether an output is a count, to be shown as an integer."""
    e = e.this if isinstance(e, exp.Filter) else _bare(e)
    return isinstance(e, exp.Count | exp.CountIf)


def _name(e: exp.Expr) -> str:
    """Return a name for a column that the query gave none."""
    inside = e.this if isinstance(e, exp.Filter) else e
    if isinstance(inside, exp.Count) and isinstance(inside.this, exp.Star):
        return "count"
    if isinstance(inside, exp.Anonymous):  # leave out the bins
        words = [said(x) for x in inside.expressions if not isinstance(x, exp.Array)]
        text = "_".join([inside.name, *words]).lower()
    else:
        text = said(e).lower()
    return "".join(c if c.isalnum() else "_" for c in text).strip("_")[:40]
