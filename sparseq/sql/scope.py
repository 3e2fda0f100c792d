"""The FROM of a query: sources whose rows are kept separate by user.

The FROM of a query becomes SQL over the stored tables in which every private row carries its user's
index, and in which no operation combines the rows of two users: private tables are joined on the
user, and in a subquery the user is added to its GROUP BY, its windows and its DISTINCT. A query for
which this is impossible is refused. By induction over the tree, the rows that leave a scope with
user i's index depend only on i's rows and public tables; so q(X_i) is a function of X_i (DESIGN: "a
query maps each user's rows, and nothing of any other user's").

Expressions become typed terms that have a value on every row (`language.expression_tree`), because
an error would reveal the row. Subqueries in expressions may use public tables only; they are
answered during lowering, and become constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import permutations
from typing import NoReturn

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.base.sql_text import quote
from sparseq.language.conditions import values_of_any, values_where
from sparseq.language.ends import ANY, Interval, RowFacts, ends_of, finite, of_rows
from sparseq.language.expression_tree import Term, all_of, known_where, may_be_null
from sparseq.language.monotone_functions import ends_at, exact_ends_at
from sparseq.language.types import BIGINT, MOST_LISTED, Type
from sparseq.language.value_sets import Spans
from sparseq.question.catalog import INTEGER_TYPES, TIME_TYPES, AccountWindow
from sparseq.question.limits import LIMITS
from sparseq.question.plan import Cap
from sparseq.sql.account_windows import is_window_apart, mentions, window_of, window_span
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.condition_limits import sees_only
from sparseq.sql.dependent_joins import DOMAIN
from sparseq.sql.from_clause import (
    USER,
    USER_ID,
    ColumnFacts,
    FromItem,
    column_of,
    most_rows,
    source_sql,
)
from sparseq.sql.join_sizes import (
    Equality,
    cap,
    cap_of_lists,
    check_factor,
    factor,
    key_sql,
    people_in,
    public_factor,
)
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import conjuncts
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_joins import joins_once
from sparseq.sql.public_subqueries import PublicSubqueries
from sparseq.sql.set_operations import combine
from sparseq.sql.subquery_expressions import reads_people, stored_type, unnest

Conjuncts = list[exp.Expr]
Inner = Callable[[exp.Select, str, PublicFacts, dict[str, FromItem]], FromItem]
"""Returns a source for a subquery and its alias: its rows, with the user's index if private."""


class Scope:
    """The FROM and WHERE of one SELECT, in physical form.

    Args:
        select: The SELECT.
        public: The facts about tables and constants.
        outer: The named subqueries.
        inner: Lowers a subquery or CTE (`sparseq.sql.subqueries`).
    """

    def __init__(
        self, select: exp.Select, public: PublicFacts, outer: dict[str, FromItem], inner: Inner
    ) -> None:
        self.select = select
        self.public = public
        self._inner = inner
        self.ctes = dict(outer)
        self.sources: dict[str, FromItem] = {}
        self._full = frozenset[str]()  # the sides of a FULL JOIN of private rows
        self.unnested: exp.Column | None = None  # a list whose values become rows
        self.most = 0  # public rows: see `FromItem`
        self._conditions: dict[int, Term] = {}
        self._columns: dict[str, exp.Column] = {}  # by the SQL of their terms
        self._reader = ExpressionReader(self._column, public.constant, self._identity)
        self._cap: tuple[Cap | None] | None = None
        for cte in select.ctes:
            self.ctes[cte.alias] = self._derive(cte.this, cte.alias)
        self._joins: list[tuple[FromItem, Conjuncts]] = []
        if len(list(select.find_all(exp.Select))) > 1:
            unnest(
                select,
                lambda inner: reads_people(inner, self.ctes, public.catalog),
                lambda select, column: stored_type(select, column, self.ctes, public.catalog),
            )
            PublicSubqueries(select, public, inner, self.ctes).answer()
        self._read_from()
        where = select.args.get("where")
        self.where: Conjuncts = conjuncts(where.this if where else None)
        self.held = [*self.where]  # on every row; not those of a LEFT JOIN
        for source, on in self._joins:
            self.held += [] if source.optional else on
        self._check_users_are_joined()
        self._find_joined_once()
        self._choose_order()
        self._check_public_rows()

    def _read_from(self) -> None:
        origin = self.select.args.get("from_") or self.select.args.get("from")
        if origin is None and self.select.parent is None:
            refuse("the query has no FROM", "name a table of the store")
        if origin is None:  # constants: one public row
            self.sources["#one"] = FromItem("#one", False, set(), {}, derived="(SELECT 1)", most=1)
            return
        self._add(origin.this)
        for join in self.select.args.get("joins") or []:
            self._read_join(join)

    def _read_join(self, join: exp.Join) -> None:
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        method = (join.method or "").upper()
        first, whole = self.private[0] if self.private else None, side == "FULL"
        if side == "RIGHT" or kind not in ("", "INNER", "CROSS", "OUTER") or method:
            refuse(
                f"{' '.join(filter(None, (method, side, kind)))} JOIN is not answered",
                "use JOIN or LEFT JOIN",
            )
        if whole and first is not None and len(self.sources) > 1:
            refuse("a FULL JOIN of people's rows comes first", "put what it is of in a subquery")
        source = self._add(join.this)
        if whole and source.private != (first is not None):
            refuse("FULL JOIN of public rows and people's is not answered", "use JOIN or LEFT JOIN")
        source.full = whole
        if join.args.get("using"):
            refuse("USING could not be resolved", "write JOIN … ON a.x = b.x")
        if whole and first is not None:  # each side may be unmatched
            self._full, first.optional = frozenset([first.alias, source.alias]), True
        source.optional = side == "LEFT" or bool(self._full and whole)
        if source.optional and self.private == [source]:
            if not sees_only(self.select, join.this.alias_or_name):
                refuse(
                    "a LEFT JOIN from public rows to people's rows would count rows that nobody "
                    "has",
                    "put the private table first, or count one of its columns and leave it out of "
                    "the WHERE",
                )
            source.optional = False  # public keys have their groups even so
        self._joins.append((source, conjuncts(join.args.get("on"))))

    def _add(self, item: exp.Expr) -> FromItem:
        alias = item.alias_or_name
        if isinstance(item, exp.Table):
            source = self._table(item.name, alias)
        elif isinstance(item, exp.Subquery):
            source = self._derive(item.this, alias)
            source.domain = DOMAIN in item.meta
        else:
            refuse(f"{said(item)} is not a table", "name a table of the store")
        if alias in self.sources:
            refuse(f"{alias} is named twice in FROM", "give each its own alias")
        self.sources[alias] = source
        return source

    def _table(self, name: str, alias: str) -> FromItem:
        if name in self.ctes:
            cte = self.ctes[name]
            return replace(cte, alias=alias, needs_ids=False, optional=False, once=False)
        table = self.public.catalog.table(name)
        users = {table.user.lower()} if table.private else set()
        columns = {
            c.name.lower(): ColumnFacts(c.type)
            if c.name.lower() in users
            else ColumnFacts(c.type, c.bounds, c, table.id_of(c), zoned=c.zoned)
            for c in table.columns
        }
        return FromItem(alias, table.private, users, columns, table=table)

    def _derive(self, tree: exp.Expr, alias: str) -> FromItem:
        while isinstance(tree, exp.Subquery):
            tree = tree.this
        if isinstance(tree, exp.SetOperation):
            return combine(tree, alias, self._derive)
        if not isinstance(tree, exp.Select):
            refuse("joins in parentheses are not answered", "write FROM a JOIN b ON … JOIN c ON …")
        return self._inner(tree, alias, self.public, self.ctes)

    @property
    def joins(self) -> list[tuple[FromItem, Conjuncts]]:
        """The sources after the first one, each with its join conditions."""
        return self._joins

    @property
    def private(self) -> list[FromItem]:
        """The private sources, in order."""
        return [s for s in self.sources.values() if s.private]

    @property
    def user(self) -> str:
        """SQL of a row's user index."""
        if self._full:
            return self._user_in(sorted(self._full))
        return column_of(self.private[0].alias, USER)

    @staticmethod
    def _user_in(aliases: Sequence[str]) -> str:
        """Return SQL of the user's index, from the first of some sources that has the row."""
        found = (column_of(alias, USER) for alias in aliases)
        return f"coalesce({', '.join(found)})"

    @property
    def user_name(self) -> str:
        """The name that the query may use for the user."""
        return min(self.private[0].users or {"user"})

    @property
    def user_of_all_rows(self) -> str:
        """The user as the query may write it, even for rows that a join did not match."""
        aliases = sorted(self._full) or [self.private[0].alias]
        names = [f"{alias}.{min(self.sources[alias].users or {'user'})}" for alias in aliases]
        return names[0] if len(names) == 1 else f"coalesce({', '.join(names)})"

    def is_user(self, e: exp.Expr | None) -> bool:
        """Tell whether an expression is the row's user on every row."""
        return self.names_user(e) and not self.may_lack_user(e)

    def is_owned(self, e: exp.Expr) -> bool:
        """Tell whether an expression is a column whose values each belong to one person."""
        stored = self.facts(e).stored if isinstance(e, exp.Column) else None
        return stored is not None and stored.owned

    def is_person_in_a_window(self, e: exp.Expr) -> bool:
        """Tell whether an expression identifies people as well as the user does: in one window."""
        window = self.window_apart()
        if window is None or not isinstance(e, exp.Column):
            return False
        return e.table == self.private[0].alias and e.name.lower() == window.person.lower()

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last window of time that rows may belong to; None if any."""
        found = window_of(self.private)
        return found and window_span(found[0].unit, self.term(found[1]), self.conditions())

    def window_apart(self) -> AccountWindow | None:
        """Return the accounts' window, if no value combines rows from two windows of a person."""
        found, group = window_of(self.private), self.select.args.get("group")
        if found is None:
            return None
        window, time = found
        by = group.expressions if group else []
        keys = [self.term(key) for key in by if mentions(key, time)]
        apart = is_window_apart(window.unit, self.term(time), self.conditions(), keys)
        return window if apart else None

    def names_user(self, e: exp.Expr | None) -> bool:
        """Tell whether an expression is the user of a row, or of one that a join may lack."""
        if isinstance(e, exp.Paren):
            return self.names_user(e.this)
        if isinstance(e, exp.Coalesce):
            return all(self.names_user(p) for p in [e.this, *e.expressions])
        return isinstance(e, exp.Column) and e.name in self._users_of(e.table)

    def may_lack_user(self, e: exp.Expr | None) -> bool:
        """Tell whether an expression is the user, or NULL in unmatched rows of an outer join."""
        if not self.names_user(e):
            return False
        assert e is not None
        named = {c.table for c in e.find_all(exp.Column)}
        one_side = not self._full or not self._full <= named
        return one_side and all(self.sources[alias].optional for alias in named)

    def _users_of(self, alias: str) -> set[str]:
        return self.sources[alias].users if alias in self.sources else set()

    def _check_users_are_joined(self) -> None:
        """Check that every private source is joined to the first one on the user."""
        if not self.private:
            return
        joined = {self.private[0].alias}
        everywhere = list(self.where)
        for source, on in self._joins:
            everywhere += [] if source.optional else on
        conditions = [(c, "") for c in everywhere]
        conditions += [(c, s.alias) for s, on in self._joins if s.optional for c in on]
        for _ in self.private:
            for condition, optional in conditions:
                pair = self._user_pair(condition)
                if pair == self._full and not optional:
                    continue  # a FULL JOIN is on the user itself
                if not optional and pair & joined:
                    joined |= pair
                elif optional in pair and (pair - {optional}) & joined:
                    joined.add(optional)  # the other side's rows stay, matched or not
        for source in self.private:
            if source.alias not in joined:
                first = self.private[0]
                if source.alias.startswith("#"):
                    refuse(
                        "a subquery in a condition looks at other people's rows",
                        "say that its user is the outer row's: WHERE inner.user = outer.user",
                    )
                message = f"{first.alias} and {source.alias} are joined across users"
                if not (first.users and source.users):
                    refuse(message, "select the user in each of the two, and join them by it")
                user = min(source.users)
                refuse(message, f"add ON {first.alias}.{self.user_name} = {source.alias}.{user}")

    def _user_pair(self, condition: exp.Expr) -> set[str]:
        """Return the two sources whose users a condition sets equal, or nothing."""
        if isinstance(condition, exp.EQ):
            sides = (condition.left, condition.right)
            named = [{c.table for c in side.find_all(exp.Column)} for side in sides]
            if self._full:  # either side of a FULL JOIN gives the row's user
                first = self.private[0].alias
                named = [{first} if found == self._full else found for found in named]
            if all(map(self.names_user, sides)) and all(len(found) == 1 for found in named):
                return named[0] | named[1]
        return set()

    def _find_joined_once(self) -> None:
        """Find the private sources that are joined on columns in which all rows of a person differ.

        Each of these columns must equal a column of the same type in an earlier source: with
        different types, several values may be equal to one value.
        """
        before = {next(iter(self.sources), "")}
        for source, on in self._joins:
            held = on if source.optional else [*on, *self.where]
            equal = {name for c in held if (name := self._same_as_before(c, source, before))}
            unique = source.unique or frozenset[str]()
            source.once = bool(unique) and unique <= equal and not source.full
            before.add(source.alias)

    def _same_as_before(self, condition: exp.Expr, source: FromItem, before: set[str]) -> str:
        """Return the column of a source that must equal a column of an earlier source."""
        sides = (condition.this, condition.args.get("expression"))
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
            return ""
        for own, other in permutations(sides):
            if isinstance(own, exp.Column) and isinstance(other, exp.Column):
                if own.table != source.alias or other.table not in before:
                    continue
                if (type := self.type_of(own)) and type == self.type_of(other):
                    return own.name
        return ""

    def _choose_order(self) -> None:
        """Read a table in order of time if the WHERE limits the time column."""
        for condition in self.where:
            for column in condition.find_all(exp.Column):
                source = self.sources.get(column.table)
                if source and source.table and source.table.time.lower() == column.name:
                    source.by_time = bool(source.table.time)

    def _check_public_rows(self) -> None:
        """Refuse a join that makes too many rows of public tables or of answers."""
        if not self.private:
            sources = list(self.sources.values())
            self.most = public_factor(sources, self._equalities(), self.public.most_rows)
            LIMITS["public"].check(self.most, self.public.limits)

    @property
    def caps(self) -> tuple[Cap, ...]:
        """The caps that remove people from the joins: those of inner joins, and this one's."""
        own = self._own_cap()
        inside = [c for s in self.sources.values() for c in s.caps]
        return tuple(dict.fromkeys([*inside, *([own] if own is not None else [])]))

    def unnests(self, column: exp.Column) -> None:
        """Record that each row of the only source becomes one row per value of a list column."""
        self.unnested = column
        if not self.private:
            self.most *= MOST_LISTED
            LIMITS["public"].check(self.most, self.public.limits)

    def _own_cap(self) -> Cap | None:
        """Return the cap that removes people from this join before it runs."""
        if self._cap is None:
            sources, found = list(self.sources.values()), None
            if self.private:
                LIMITS["people"].check(people_in(self.private), self.public.limits)
                product = factor(sources, self._equalities(), self.public.most_rows)
                check_factor(product, sources, self.public.most_work)
                found = cap(self.private, product, self.public.most_work)
                if self.unnested is not None:
                    found = cap_of_lists(self.private[0], self.unnested, self.public.most_work)
            if found is not None:
                self.public.know_cap(found)
            self._cap = (found,)
        return self._cap[0]

    def _equalities(self) -> list[Equality]:
        """Return the expressions that columns of public sources must equal on every joined row."""
        conditions = [(c, s.alias) for s, on in self._joins if s.optional for c in on]
        conditions += [(c, "") for s, on in self._joins if not s.optional for c in on]
        conditions += [(c, "") for c in self.where]
        found = []
        for condition, optional in conditions:
            if isinstance(condition, exp.EQ):
                for side, other in permutations((condition.left, condition.right)):
                    if isinstance(side, exp.Column) and optional in ("", side.table):
                        found += self._equality(side, other, bool(optional))
        return found

    def _equality(self, column: exp.Column, other: exp.Expr, optional: bool) -> list[Equality]:
        source = self.sources.get(column.table)
        if source is None or source.private or source.optional is not optional:
            return []
        needs = frozenset(c.table for c in other.find_all(exp.Column))
        key = key_sql(column.sql("duckdb"), self.type_of(column), self._type_beside(other))
        return [Equality(column.table, key, needs)] if key and column.table not in needs else []

    def equal_to(self, column: exp.Column) -> list[exp.Column]:
        """Return the columns that a column equals on every joined row."""
        inner = [c for source, on in self._joins if not source.optional for c in on]
        found = []
        for condition in (c for c in [*inner, *self.where] if isinstance(c, exp.EQ)):
            for side, other in permutations((condition.left, condition.right)):
                if side == column and isinstance(other, exp.Column):
                    found.append(other)
        return found

    def _type_beside(self, e: exp.Expr) -> str:
        if isinstance(e, exp.Column):
            return self.type_of(e)
        value = self.value_sql(e)
        (type,) = self.public.types(f"SELECT {value} {self._from_sql(None)} LIMIT 0")
        return type

    def facts(self, column: exp.Column) -> ColumnFacts:
        """Return the public facts of a column."""
        source = self.sources.get(column.table)
        if source is None:
            refuse(
                f"{said(column)} belongs to an outer query",
                "join the tables instead; a subquery sees its own tables only",
            )
        return source.columns.get(column.name, ColumnFacts())

    def type_of(self, column: exp.Column) -> str:
        """Return a column's DuckDB type, "" if it is unknown."""
        return self.facts(column).type

    def bounds(self, e: exp.Expr) -> Interval | None:
        """Return a public interval that holds an expression's values, or None.

        The declared bounds of a column are used as they are; the WHERE may narrow other
        expressions.
        """
        return finite(self.ends(e))

    @cached_property
    def _facts(self) -> RowFacts:
        """Public facts of terms: declared ends of columns as they are, others under the WHERE."""
        return RowFacts(self._public_ends, self._is_known)

    @cached_property
    def _facts_of_passed(self) -> RowFacts:
        """Public facts of terms on rows that pass the WHERE, which limits declared ends, too."""
        return RowFacts(self._ends_where, self._is_known)

    @cached_property
    def _most(self) -> int | None:
        return most_rows(self.sources.values(), self.public.limits)

    def _public_ends(self, term: Term) -> Interval | None:
        if term.sql not in self._columns:
            counted = None if self._most is None else of_rows(term, self._most, self._facts)
            return counted or self._by_conditions(term, self.where, ends_at)
        column = self._columns[term.sql]
        facts = self.facts(column)
        if facts.type == "BOOLEAN":
            return (0.0, 1.0)
        if (facts.stored is not None and facts.bounds) or facts.type in TIME_TYPES:
            return facts.bounds
        known = facts.bounds or self._ends_of_public(column) or ANY
        return _both(known, self._by_conditions(term, self.where, ends_at))

    def _by_conditions(
        self, term: Term, conditions: Conjuncts, read: Callable[[Type, Interval], Interval]
    ) -> Interval | None:
        """Return the ends that conditions set for a number that they mention; None if none.

        Args:
            read: Returns the numbers at two places of a type.
        """
        if not term.type.is_number or term.sql not in self._mentioned:
            return None
        passed = values_where([self._condition(c) for c in conditions], term)
        if passed is None or not isinstance(passed.known, Spans) or not passed.known:
            return None
        return read(term.type, passed.known.ends)

    def _ends_of_public(self, e: exp.Column) -> Interval | None:
        """Return the least and the greatest number of a public table's column."""
        facts, source = self.facts(e), self.sources[e.table]
        if facts.stored is None or source.table is None or source.private:
            return None
        numbers = (*INTEGER_TYPES, "FLOAT", "DOUBLE", "DECIMAL")
        numeric = facts.type.partition("(")[0] in numbers
        return self.public.ends(source.table.name, facts.stored.name) if numeric else None

    def only_value(self, e: exp.Expr) -> float | None:
        """Return the number that an expression equals on every row; None if it is unknown."""
        low, high = self.ends(e)
        return low if low == high else None

    def ends(self, e: exp.Expr) -> Interval:
        """Return an interval that holds an expression's values; an unknown end is infinite."""
        return ends_of(self.term(e), self._facts)

    def ends_of_term(self, term: Term) -> Interval:
        """Return the ends of a term over the scope's columns, or over its groups."""
        return ends_of(term, self._facts)

    def ends_where(self, e: exp.Expr) -> Interval:
        """Return the ends of an expression in rows that pass the WHERE; it limits columns."""
        return ends_of(self.term(e), self._facts_of_passed)

    def _ends_where(self, term: Term) -> Interval | None:
        known = self._public_ends(term)
        if term.sql not in self._columns:
            return known
        return _both(known or ANY, self._by_conditions(term, self.held, exact_ends_at))

    def term(self, e: exp.Expr) -> Term:
        """Return an expression over the stored columns, as a term that has a value on every row."""
        self._check_one_row(e)
        return self._reader.read(e)

    def column_term(self, e: exp.Expr) -> Term:
        """Return an expression as a column of a subquery."""
        self._check_one_row(e)
        return self._reader.at_rest(e)

    def value_sql(self, e: exp.Expr) -> str:
        """Return SQL of an expression over the stored columns; it cannot raise an error."""
        return self.term(e).sql

    def truth(self, e: exp.Expr) -> Term:
        """Return a condition over the stored columns, as a term that has a value on every row."""
        self._check_one_row(e)
        return self._reader.truth(e)

    def truth_sql(self, e: exp.Expr) -> str:
        """Return SQL of a condition over the stored columns; it cannot raise an error."""
        return self.truth(e).sql

    def _check_one_row(self, e: exp.Expr) -> None:
        found = e.find(exp.Window, exp.AggFunc)
        if found is not None:
            refuse(
                f"{said(found)[:60]} looks at more than one row here",
                "compute it in a subquery, and use its column",
            )

    def _identity(self, e: exp.Expr) -> str:
        """Return the SQL of the user's index, if an expression is a user column; else ""."""
        if not self.names_user(e):
            return ""
        if isinstance(e, exp.Column):
            sql = column_of(e.table, USER)
            self._columns[sql] = e
            return sql
        return self._user_in([c.table for c in e.find_all(exp.Column)])

    def _column(self, column: exp.Column) -> Term:
        facts = self.facts(column)
        source = self.sources[column.table]
        name, type, place = column.name, facts.held, None
        if type is None:
            refuse(
                f"{said(column)} is of type {facts.type[:40]}, which no expression takes",
                "`sparseq upgrade` converts such columns of older stores",
            )
        if name in source.users:
            source.needs_ids = True
            name = USER_ID
            type = BIGINT if type.family is BIGINT.family and type.stored != "UBIGINT" else type
        elif source.table is not None and facts.stored is not None:
            place = facts.place
        sql = column_of(column.table, name)
        self._columns[sql] = column
        return Term(type, sql, column=place)

    def may_be_null(self, term: Term) -> bool:
        """Tell whether a term may be NULL, by the query and public facts; True if in doubt."""
        return may_be_null(term, self._is_known)

    def _has_holes(self, column: exp.Column) -> bool:
        """Tell whether a column may be NULL, whatever the conditions are."""
        source, facts = self.sources[column.table], self.facts(column)
        if source.optional:
            return True
        if self.is_user(column):
            return False
        if facts.null is not None:
            return facts.null()
        if source.private or facts.stored is None or source.table is None:
            return not (source.private and facts.stored and facts.stored.not_null)
        table, name = quote(source.table.name), quote(facts.stored.name)
        found = f"SELECT 1 FROM public.{table} WHERE {name} IS NULL LIMIT 1"
        return bool(self.public.values(found))

    @cached_property
    def _known(self) -> frozenset[str]:
        """SQL of terms that the conditions on every row exclude from being NULL."""
        return frozenset(t.sql for c in self.held_terms() for t in known_where(c))

    @cached_property
    def _mentioned(self) -> frozenset[str]:
        """SQL of all terms in the conditions that hold on every row."""
        waiting, found = [*self.held_terms()], set[str]()
        while waiting:
            term = waiting.pop()
            found.add(term.sql)
            waiting += term.arguments
        return frozenset(found)

    def _is_known(self, term: Term) -> bool:
        """Tell whether a term is NULL on no row: as declared, or by the conditions."""
        column = self._columns.get(term.sql)
        if column is not None and not self._has_holes(column):
            return True
        if term.sql in self._known:
            return True
        if term.sql not in self._mentioned:
            return False
        values = values_of_any(term, self.held_terms())
        return values is not None and not values.null

    def from_sql(self) -> str:
        """Return the FROM clause; call it after every expression is in physical form."""
        return self._from_sql(self._own_cap())

    def _from_sql(self, cap: Cap | None) -> str:
        def item(source: FromItem) -> str:
            return source_sql(source, cap.name if cap is not None and source.private else "")

        first, *_ = self.sources.values()
        sql = "FROM " + item(first)
        for source, on in self._joins:
            condition = all_of(map(self._condition, on)) or "true"
            kind = "FULL" if source.full else "LEFT" if source.optional else "INNER"
            sql += f" {kind} JOIN {item(source)} ON {condition}"
        return sql

    def where_sql(self) -> str:
        """Return the WHERE condition, "" if there is none."""
        return all_of(self.conditions())

    def conditions(self) -> tuple[Term, ...]:
        """Return the conjuncts of the WHERE condition."""
        return tuple(map(self._condition, self.where))

    def held_terms(self) -> tuple[Term, ...]:
        """Return the conditions that hold on every row, as terms."""
        return tuple(map(self._condition, self.held))

    def _condition(self, e: exp.Expr) -> Term:
        if id(e) not in self._conditions:  # nodes of a tree that lives as long as the scope
            self._conditions[id(e)] = self.truth(e)
        return self._conditions[id(e)]

    def prepare(self) -> None:
        """Bind every condition once, so that sources know whether identifiers are needed."""
        for condition in [*self.where, *(c for _, on in self._joins for c in on)]:
            self._condition(condition)

    def stored_table(self) -> str:
        """Return the table's name if all rows come from one stored table."""
        source, *others = self.private
        if others or source.table is None or source.needs_ids:
            return ""
        once = joins_once(self.sources, self._joins, self.public, self._condition)
        return source.table.name if once else ""


def _both(known: Interval, more: Interval | None) -> Interval:
    """Return what two intervals share, and the first if they share nothing: no row has a value."""
    low, high = known if more is None else (max(known[0], more[0]), min(known[1], more[1]))
    return (low, high) if low <= high else known


def integral(type: str) -> bool:
    """Tell whether values of a DuckDB type are integers."""
    return type in INTEGER_TYPES or type == "BOOLEAN"


def refuse(message: str, hint: str = "") -> NoReturn:
    """Raise QueryRefused."""
    raise QueryRefused(message, hint)
