"""Public groups of a question, by one rule: `SELECT DISTINCT keys` of its FROM and WHERE.

The rows of this SELECT are public. Each private table is replaced by those of its columns that keys
and conditions use and that have few, public values, each with all of its values; public tables
stay. A condition on anything else is weakened to "may be true". So `WHERE team = 'b'` excludes the
groups of other teams, and `GROUP BY fact.key, dim.name` pairs each key with its own name.

**Sound.** Take a row of the question in a group, and its values in the columns that the rule uses:
the replacement contains these values. The weakened condition holds for them, by induction: `a AND
b` holds only if both may be true, `a OR b` if one may be, `NOT a` if `a` may be false, and an
unknown condition may be both. So the rule yields the group, whatever the rows are.

**Public.** It depends on the text of the question, declared keys and bounds, NOT NULL, public
tables and literals. All of these are the same for neighbouring stores. The SQL that runs names no
private table, and the database in which it runs contains none (`sparseq.sql.public_database`).

**Columns with only known values.** Declared keys need not be all values of a column: a row may have
another. Such a column is used only if it is itself a key, because then the group determines its
value, or if the WHERE admits only its listed values. Integers are clamped to their bounds when they
are loaded, and days outside their bounds are in no group, so bounds give all values.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sparseq.base.sql_text import quote
from sparseq.language.conditions import values_where
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family
from sparseq.language.value_sets import Spans, Texts
from sparseq.question.plan import Domain, values_of_keys
from sparseq.released.outputs import PossibleKeys
from sparseq.sql.constants import constants
from sparseq.sql.from_clause import column_of, source_sql
from sparseq.sql.public_values import MAX_VALUES, PublicValues
from sparseq.sql.scope import Scope

MOST_ROWS = 4_000_000
"""The most rows, before conditions, to build groups from; above it, fewer columns are used."""
_EPOCH = dt.date(1970, 1, 1)


def possible_groups(
    scope: Scope, keys: Sequence[exp.Expr], types: Sequence[str], domains: Sequence[Domain]
) -> tuple[PossibleKeys, ...]:
    """Return the combinations of values that related keys can have; other keys take any value.

    Args:
        scope: The question's scope.
        keys: Its group keys.
        types: The keys' DuckDB types.
        domains: The keys' domains, each with all values that the key can have.
    """
    if scope.unnested is not None or any(s.full for s in scope.sources.values()):
        return ()
    return _Rule(scope, keys, types, domains).groups()


def leaves(term: Term, whole: Iterable[str] = ()) -> dict[str, Term]:
    """Return the columns of a term, by their SQL; the terms in `whole` count as columns.

    Example:
        >>> from sparseq.language.expression_tree import call, column
        >>> from sparseq.language.types import BIGINT
        >>> total = call("+", "({0} + {1})", BIGINT, column("a", BIGINT), column("b", BIGINT))
        >>> list(leaves(total)), list(leaves(total, ["(a + b)"]))
        (['a', 'b'], ['(a + b)'])
    """
    if term.constant:
        return {}
    if not term.function or term.sql in whole:
        return {term.sql: term}
    return {sql: one for part in term.arguments for sql, one in leaves(part, whole).items()}


def may_hold(term: Term, known: frozenset[str], truth: bool = True) -> str:
    """Return SQL over some columns that holds wherever a condition may be true (or may be false).

    Args:
        term: The condition.
        known: SQL of the columns, and of terms that count as columns.
        truth: If False, return SQL that holds wherever the condition may be false.

    Example:
        >>> from sparseq.language.expression_tree import call, column, constant
        >>> from sparseq.language.types import BIGINT, BOOLEAN
        >>> a, b = (call("<", "({0} < {1})", BOOLEAN, column(c, BIGINT), constant(1, BIGINT))
        ...         for c in "ab")
        >>> both = call("or", "({0} OR {1})", BOOLEAN, a, b)
        >>> may_hold(both, frozenset("a")), may_hold(both, frozenset("a"), truth=False)
        ('((a < 1) OR true)', '((NOT (a < 1)) AND true)')
    """
    if term.function in ("and", "or"):
        word = " AND " if (term.function == "and") is truth else " OR "
        return f"({word.join(may_hold(part, known, truth) for part in term.arguments)})"
    if term.function == "not":
        return may_hold(term.arguments[0], known, not truth)
    if not leaves(term, known).keys() <= known:
        return "true"
    return term.sql if truth else f"(NOT {term.sql})"


@dataclass(frozen=True)
class _Column:
    """A private column with a complete list of its values.

    Attributes:
        alias, name: The column's source and name.
        rows: A SELECT of its values.
        number: The number of values.
        is_key: It is itself a key.
        exact: The values are the column's own; otherwise they represent others that give the same
            keys.
    """

    alias: str
    name: str
    rows: str
    number: int
    is_key: bool = False
    exact: bool = True


class _Rule:
    def __init__(
        self,
        scope: Scope,
        keys: Sequence[exp.Expr],
        types: Sequence[str],
        domains: Sequence[Domain],
    ) -> None:
        self._scope, self._types = scope, types
        self._values = PublicValues(scope, scope.public)
        self._ends: dict[int, tuple[float, float]] = {}  # by `id` of the keys
        places = values_of_keys(domains)
        self._some = [
            [v for v in values if self._is_within(v, key)]
            for (_, _, values), key in zip(places, keys, strict=True)
        ]
        self._sizes = [len(values) for _, _, values in places]
        self._free = {p for p, (i, _, _) in enumerate(places) if domains[i].rest or domains[i].keys}
        self._keys = [scope.term(key) for key in keys]
        self._conditions = scope.held_terms()
        self._joins = {
            source.alias: tuple(map(scope.truth, on))
            for source, on in scope.joins
            if source.optional and not source.private
        }
        terms = [*self._keys, *self._conditions, *(c for on in self._joins.values() for c in on)]
        self._terms = {sql: one for term in terms for sql, one in leaves(term).items()}
        self._named = {
            column_of(alias, name): (alias, name)
            for alias, source in scope.sources.items()
            for name in source.columns
        }
        self._private = {
            sql
            for sql in self._terms
            if sql not in self._named or scope.sources[self._named[sql][0]].private
        }
        self._same = self._equal_to_public()
        self._columns = self._known_columns()

    def _is_within(self, value: object, key: exp.Expr) -> bool:
        """Tell whether a value of a key lies within the limits that the WHERE sets."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        if id(key) not in self._ends:
            self._ends[id(key)] = self._scope.ends_where(key)
        low, high = self._ends[id(key)]
        return not (value < low or value > high)

    def groups(self) -> tuple[PossibleKeys, ...]:
        """Return the combinations of values of keys, one set per group of related keys."""
        while True:
            parts = self._parts()
            large = [part for part in parts if self._size(part) > MOST_ROWS]
            spare = [
                sql
                for part in large
                for sql in part & self._columns.keys()
                if not self._columns[sql].is_key
            ]
            if not spare:
                break
            del self._columns[max(spare, key=lambda sql: (self._columns[sql].number, sql))]
        found = []
        for part in parts:
            places = [p for p in range(len(self._keys)) if p not in self._free]
            places = [p for p in places if self._nodes(self._keys[p]) & part]
            if not places or self._size(part) > MOST_ROWS:
                continue
            fewer = any(len(self._some[p]) < self._sizes[p] for p in places)
            limited = any(self._nodes(condition) & part for condition in self._conditions)
            if len(part) > 1 or len(places) > 1 or fewer or limited:
                found += self._of_part(part, places)
        return tuple(found)

    def _equal_to_public(self) -> dict[str, str]:
        """Return the private columns that equal a public column on every row, with that column."""
        same: dict[str, str] = {}
        for condition in self._conditions:
            sides = condition.arguments
            if condition.function != "=" or any(s.function or s.constant for s in sides):
                continue
            for mine, other in (sides, sides[::-1]):
                is_mine = mine.sql in self._private and other.sql not in self._private
                if is_mine and mine.type.family is other.type.family:
                    same.setdefault(mine.sql, other.sql)
        return same

    def _known_columns(self) -> dict[str, _Column]:
        """Return the private columns with a complete and short list of values."""
        bare = {
            term.sql: p
            for p, term in enumerate(self._keys)
            if not term.function and p not in self._free and len(self._some[p]) <= MAX_VALUES
        }
        found = {}
        for sql in sorted(self._private):
            if sql not in self._named:
                continue
            alias, name = self._named[sql]
            column = exp.column(name, alias, quoted=True)
            if sql in bare:
                rows = constants(self._some[bare[sql]], self._types[bare[sql]])
                many = len(self._some[bare[sql]])
                select = f"SELECT unnest({rows})"
                found[sql] = _Column(column.table, column.name, select, many, is_key=True)
            elif sql not in self._same and (one := self._closed(sql, column)) is not None:
                found[sql] = one
        return found

    def _closed(self, sql: str, column: exp.Column) -> _Column | None:
        term, null = self._terms[sql], self._values.may_be_null(column)
        if self._scope.may_lack_user(column):
            return None
        passed = values_where(self._conditions, term)
        values: list[object] | None = None
        if term.type.family is Family.BOOLEAN:
            values = [False, True]
        elif passed is not None and isinstance(passed.known, Texts):
            values = None if passed.known.but else sorted(passed.known.listed)
        elif passed is not None and isinstance(passed.known, Spans):
            values = self._in_spans(passed.known, term, column)
        if values is not None:
            null = null and (passed is None or passed.null)
            rows = constants([*values, *([None] if null else [])], term.type.sql)
            return _Column(column.table, column.name, f"SELECT unnest({rows})", len(values) + 1)
        if term.type.sql != "TIMESTAMP":
            return None
        over = [key for key in self._keys if sql in leaves(key)]
        moments = self._values.moments(column, over) if over else None
        if moments is None:
            return None
        rows = f"{moments[1]} UNION ALL SELECT NULL" if null else moments[1]
        return _Column(column.table, column.name, rows, moments[0] + 1, exact=False)

    def _in_spans(self, spans: Spans, term: Term, column: exp.Column) -> list[object] | None:
        """Return all integers or days in some spans and within the column's bounds."""
        facts, days = self._scope.facts(column), term.type.family is Family.DATE
        if term.type.family is not Family.INTEGER and not days:
            return None
        if facts.stored is not None and facts.bounds is not None:
            low, high = facts.bounds
            if math.isfinite(low) and math.isfinite(high):
                spans = spans.both(Spans.of([(math.ceil(low), math.floor(high))]))
        if not spans:
            return []
        if not all(map(math.isfinite, spans.ends)):
            return None
        if sum(b - a + 1 for a, b in spans.spans) > MAX_VALUES:
            return None
        found = [n for a, b in spans.spans for n in range(int(a), int(b) + 1)]
        if not days:
            return [*found]
        first, last = (dt.date.min - _EPOCH).days, (dt.date.max - _EPOCH).days
        if found[0] < first or found[-1] > last:
            return None
        return [_EPOCH + dt.timedelta(n) for n in found]

    def _whole(self) -> dict[str, int]:
        """Return the keys that count as columns, as some of their columns are unknown, by SQL."""
        exact = self._visible() | {sql for sql, one in self._columns.items() if not one.exact}
        return {
            term.sql: p
            for p, term in enumerate(self._keys)
            if p not in self._free and not term.constant and not leaves(term).keys() <= exact
        }

    def _visible(self) -> frozenset[str]:
        """Return the columns whose own values are in the rows."""
        own = {sql for sql, one in self._columns.items() if one.exact}
        public = self._terms.keys() - self._private
        return frozenset(own | public | self._same.keys())

    def _node(self, sql: str) -> str:
        sql = self._same.get(sql, sql) if sql not in self._columns else sql
        if sql in self._private or sql not in self._named:
            return sql
        return self._named[sql][0]

    def _nodes(self, term: Term) -> set[str]:
        return {self._node(sql) for sql in leaves(term, self._whole())}

    def _parts(self) -> list[set[str]]:
        """Return the sets of columns, public tables and whole keys that are linked."""
        whole = self._whole()
        known = self._visible() | whole.keys()
        parts = [self._nodes(k) for p, k in enumerate(self._keys) if p not in self._free]
        for condition in self._conditions:
            for one in _deciding(condition):
                if leaves(one, whole).keys() <= known:
                    parts.append(self._nodes(condition) & self._known_nodes(known))
        for alias, on in self._joins.items():
            looked_at = [self._nodes(c) & self._known_nodes(known) for c in on]
            parts.append({alias}.union(*looked_at))
        merged: list[set[str]] = []
        for part in filter(None, parts):
            for other in [m for m in merged if m & part]:
                merged.remove(other)
                part = part | other
            merged.append(part)
        return merged

    def _known_nodes(self, known: Iterable[str]) -> set[str]:
        return {self._node(sql) for sql in known}

    def _size(self, part: set[str]) -> int:
        whole = self._whole()
        sizes = [self._columns[sql].number for sql in part & self._columns.keys()]
        sizes += [len(self._some[whole[sql]]) for sql in part & whole.keys()]
        sizes += [
            self._scope.public.most_rows(f"{source.rows_sql()} AS t", ())
            if source.table is not None
            else max(source.most, 1)
            for alias, source in self._scope.sources.items()
            if alias in part and not source.private
        ]
        return math.prod(sizes)

    def _of_part(self, part: set[str], places: Sequence[int]) -> list[PossibleKeys]:
        whole = {sql: p for sql, p in self._whole().items() if sql in part}
        items = self._items(part, whole)
        names = {sql: f'"#key{i}".v' for i, sql in enumerate(sorted(whole))}
        same = {a: b for a, b in self._same.items() if a not in self._columns}
        written = _Spelling(names | same)
        tables = {alias for alias in part if alias in self._scope.sources}
        known = {
            sql for sql in self._visible() if self._node(sql) in part or self._node(sql) in tables
        } | whole.keys()
        at = frozenset(known)
        where = " AND ".join(written(may_hold(c, at)) for c in self._conditions) or "true"
        shown = ", ".join(
            f"CAST({written(self._keys[p].sql)} AS {self._types[p]}) AS k{p}" for p in places
        )
        for alias, on in self._joins.items():
            if alias not in tables:
                continue
            sure = all(leaves(c, whole).keys() <= at for c in on)
            conditions = " AND ".join(written(may_hold(c, at)) for c in on) or "true"
            item = source_sql(self._scope.sources[alias])
            if sure:
                items += f" LEFT JOIN {item} ON {conditions}"
            else:  # a private row may match none of its rows
                one = f'(VALUES (true), (false)) AS "#one {alias}"(found)'
                items += (
                    f' CROSS JOIN {one} LEFT JOIN {item} ON "#one {alias}".found AND {conditions}'
                )
        sql = f"SELECT DISTINCT {shown} FROM {items} WHERE {where} LIMIT {MAX_VALUES + 1}"
        values = self._scope.public.values(sql)
        most = math.prod(self._sizes[p] for p in places)
        if len(values) > MAX_VALUES or len(values) >= most:
            return []
        return [PossibleKeys(tuple(places), frozenset(values))]

    def _items(self, part: set[str], whole: Mapping[str, int]) -> str:
        """Return the items of FROM that represent a set, without optional public ones."""
        by_alias: dict[str, list[str]] = {}
        for sql in sorted(part & self._columns.keys()):
            one = self._columns[sql]
            item = f"({one.rows}) AS {quote('#' + one.name)}({quote(one.name)})"
            by_alias.setdefault(one.alias, []).append(item)
        items = [f"(SELECT * FROM {', '.join(c)}) AS {quote(a)}" for a, c in by_alias.items()]
        for i, (_, p) in enumerate(sorted(whole.items())):
            rows = constants(self._some[p], self._types[p])
            items.append(f'(SELECT unnest({rows})) AS "#key{i}"(v)')
        items += [
            source_sql(source)
            for alias, source in self._scope.sources.items()
            if alias in part and not source.private and alias not in self._joins
        ]
        return " CROSS JOIN ".join(items) or '(SELECT 1) AS "#one"'


@dataclass(frozen=True)
class _Spelling:
    """Replaces terms by names in SQL, longest term first."""

    names: Mapping[str, str]

    def __call__(self, sql: str) -> str:
        for old in sorted(self.names, key=len, reverse=True):
            sql = sql.replace(old, self.names[old])
        return sql


def _deciding(term: Term) -> list[Term]:
    """Return the conditions that AND, OR and NOT combine."""
    if term.function in ("and", "or", "not"):
        return [one for part in term.arguments for one in _deciding(part)]
    return [term]
