"""Tables and subqueries of a FROM, and how DuckDB reads them.

Bounded work: how many rows the joins of one SELECT may make of one person's.

Where sources are joined, person i's row combinations are

    own rows of i in each source about people, multiplied (at least 1 of one that may lack it),
    times, for each public source, the most rows that one join key has there

(1 where the key is unique; all rows of the source where nothing says `column = …`). The joined rows
of i are at most that many; of a FULL JOIN at most twice as many, as a + b <= 2 a b from 1 on, and
each of its rows is a pair, or one that has no other. Whoever has more than `most_of` says is taken
out of every source of the SELECT, before anything is joined: no row of i leaves it, so i
contributes nothing and pays nothing. All others' rows are as they were.

What a join takes is the combinations of all people together, and neither how many people nor how
many rows there are is public. So it is the combinations for *each row* that are limited, to sqrt of
`most`: with k tables about people, in subqueries too, n rows of a person in each and
n^(k-1) <= sqrt(most), a table of N rows makes at most N sqrt(most) joined rows, whoever has them.
For k = 2 that is n^2 <= most, as it was; for k = 3 the default leaves 66 rows. How long the rest
takes depends on N: it is what time-outs and cancelling are for. More than `people` tables in one
join are refused.

Neighbours. The own rows of i in a source are, by induction over the query's tree (see
`sparseq.sql.scope`), a function of i's rows and of public tables; subqueries have caps of their
own, which are such functions too. The public factor and `most` are public. So whether i is out is
decided by i's rows and public facts alone, and what leaves the SELECT under j's index is the same
whether or not i has any rows: a query's vector stays q(X_i), and its charge that of this vector.
The decision is made of integers: counts below 2**63, products cut off at `most` + 1 after each
factor, so that none overflows.

Where rows can't multiply, nobody is counted and nobody is out: one source about people (or one, and
others with at most one row a person) and unique keys of public ones make no more rows than there
were. Nothing is ever cut from a plain scan.

Public tables that say something of a coded column: joined by a key that they have but once.

Such a join leaves each row of the private table as it is, or out: what the public table's columns
are follows from the row's string. So it is worked out once for each string, as a function of it is.

UNION, INTERSECT and EXCEPT of subqueries about people: of each person's rows apart.

Every row carries its user's index, which is one of the columns that are compared. So what leaves
under a user's index is made of that user's rows on both sides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from typing import Any

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.expression_tree import Term, call, cast
from sparseq.language.types import Family, Type, find_type
from sparseq.sql.bounds import Interval
from sparseq.sql.catalog import INTEGER_TYPES, Column, Table
from sparseq.sql.parse import said
from sparseq.sql.plan import ROWS, Cap
from sparseq.sql.public_database import PublicFacts

# -- tables and subqueries of a FROM, and how DuckDB reads them ------------------------------------

USER = "_user"
"""The user's dense index, in every row about people; no column of a query can have this name."""
USER_ID = "_user#id"
"""The user's identifier, joined in where an expression looks at it."""
PLACE = "_user#place"
"""A row's place among the person's, in the order in which the windows of a subquery met them."""


@dataclass(frozen=True)
class ColumnFacts:
    """Public facts of a column of a source.

    Attributes:
        type: DuckDB's type, or "" if not known.
        bounds: Declared or derived lowest and highest value.
            Of dates and times in days since 1970, both included.
        stored: The stored column behind it, where it is just that.
        values: Finds the public values of a subquery's column, if there are any.
        null: Tells whether a subquery's column may be NULL.
        zoned: Times are moments.
    """

    type: str = ""
    bounds: Interval | None = None
    stored: Column | None = None
    values: Callable[[], list[Any] | None] | None = field(default=None, compare=False)
    null: Callable[[], bool] | None = field(default=None, compare=False)
    zoned: bool = False

    @property
    def held(self) -> Type | None:
        """The type of its values in an expression; None: no expression takes it."""
        known = find_type(self.type)
        return known and replace(known, zoned=self.zoned)


@dataclass
class FromItem:
    """One item of FROM, by its alias.

    Attributes:
        alias: Its name in the query.
        private: Its rows are about users.
        users: Its columns that hold the user.
        columns: What is known about the others.
        table: The stored table, if it is one.
        derived: The subquery in physical form, in parentheses, if it is one.
        optional: It is LEFT JOINed, or a side of a FULL JOIN: all of its columns may be NULL.
        full: It is FULL JOINed: no row is left out, on either side.
        decoded: Coded columns whose strings are needed.
        needs_ids: The users' identifiers are needed.
        by_time: Read in the order of time.
        single: It has at most one row a person.
        placed: Its rows say, in a column PLACE, in which order windows inside have met them.
        caps: Who is taken out of the joins inside it, innermost first.
        people: How many tables about people its rows are combinations of.
        most: Of an answer, or a subquery about nobody: about how many rows it has at most, where
            joins by equal columns don't multiply.
    """

    alias: str
    private: bool
    users: set[str]
    columns: dict[str, ColumnFacts]
    table: Table | None = None
    derived: str = ""
    optional: bool = False
    full: bool = False
    decoded: set[str] = field(default_factory=set)
    needs_ids: bool = False
    by_time: bool = False
    single: bool = False
    placed: bool = False
    caps: tuple[Cap, ...] = ()
    people: int = 1
    most: int = 0

    def rows_sql(self) -> str:
        """Return its rows as an item of FROM without a name: as they are, nothing looked up."""
        if self.table is None:
            return self.derived
        return f"{'by_user' if self.private else 'public'}.{quoted(self.table.name)}"


def quoted(name: str) -> str:
    """Return an SQL identifier."""
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def source_sql(source: FromItem, over: str = "") -> str:
    """Return a source as an item of FROM; call it when it is known what must be decoded.

    Args:
        source: A table or a subquery.
        over: The table of people who are taken out of it; "": nobody is.
    """
    alias = quoted(source.alias)
    ids = f' JOIN ledger.users AS "#u" ON "#u".{USER} = "#t".{USER}' if source.needs_ids else ""
    id_column = f', "#u".id AS {quoted(USER_ID)}' if source.needs_ids else ""
    out = f' WHERE "#t".{USER} NOT IN (SELECT {USER} FROM temp.{quoted(over)})' if over else ""
    if source.table is not None and not source.table.private:
        return f"public.{quoted(source.table.name)} AS {alias}"
    plain = not source.decoded and not source.needs_ids
    rows = source.rows_sql()
    if source.table is not None and source.by_time:
        rows = f"by_time.{quoted(source.table.name)}"
    if plain and not over:
        return f"{rows} AS {alias}"
    if plain or source.table is None:
        return f'(SELECT "#t".*{id_column} FROM {rows} AS "#t"{ids}{out}) AS {alias}'
    columns = f'"#t".{USER}{id_column}'
    for i, column in enumerate(c.name.lower() for c in source.table.columns):
        name = quoted(column)
        if column in source.decoded:
            dictionary = quoted(f"{source.table.name}.{source.table.column(column).name}")
            ids += f' LEFT JOIN dictionary.{dictionary} AS "#{i}" ON "#{i}".code = "#t".{name}'
            columns += f', "#{i}".value AS {name}, "#t".{name} AS {quoted(code_of(column))}'
        elif column not in source.users:
            columns += f', "#t".{name}'
    return f'(SELECT {columns} FROM {rows} AS "#t"{ids}{out}) AS {alias}'


def code_of(column: str) -> str:
    """Return the name under which a decoded column still shows its code."""
    return f"{column}#code"


def most_rows(sources: Iterable[FromItem], limits: Mapping[str, int]) -> int | None:
    """Return how many rows of a FROM a person has at most, where that is declared: of one table."""
    only = list(sources)
    alone = len(only) == 1 and only[0].private and only[0].table is not None
    return limits.get(ROWS) if alone else None


# -- bounded work: how many rows the joins of one SELECT may make of one person's ------------------

MAX_FACTOR = 10_000
"""Rows that public sources may make of one; more is refused when the query is planned."""
_PLAIN_TYPE = re.compile(r"[A-Z][A-Z0-9_ ]*(\(\d+,\d+\))?")


def cap(private: Sequence[FromItem], factor: int, most: int) -> Cap | None:
    """Return who is out of a join of `private`, one row being `factor` rows of public sources.

    None: by public facts nobody can be.
    """
    several = [s for s in private if not s.single]
    if len(several) + (factor > 1) < 2 or not several:
        return None
    factor *= 1 + any(source.full for source in private)
    most = most_of(most, people_in(private))
    sources: dict[str, list[bool]] = {}
    for source in several:
        sources.setdefault(source.rows_sql(), []).append(source.optional)
    if len(sources) == 1:
        ((rows, optional),) = sources.items()
        limit = _root(most // factor, len(optional))
        sql = f"SELECT {USER} FROM {rows} AS s GROUP BY {USER} HAVING count(*) > {limit}"
    else:
        sql = _product(sources, factor, most)
    return Cap("#over " + hashlib.sha256(sql.encode()).hexdigest()[:16], sql, most)


def cap_of_lists(source: FromItem, lists: exp.Column, most: int) -> Cap:
    """Return who is out where the values of lists become rows: whose lists have too many."""
    rows, column = f"{source.rows_sql()} AS {quoted(source.alias)}", lists.sql("duckdb")
    having = f"coalesce(sum(len({column})), 0) > {most}"
    sql = f"SELECT {USER} FROM {rows} GROUP BY {USER} HAVING {having}"
    return Cap("#over " + hashlib.sha256(sql.encode()).hexdigest()[:16], sql, most)


def _product(sources: Mapping[str, list[bool]], factor: int, most: int) -> str:
    counts, product = [], f"{factor}::HUGEINT"
    for i, (rows, optional) in enumerate(sources.items()):
        counts.append(f"SELECT {USER}, {i} AS s, count(*) AS n FROM {rows} AS s GROUP BY {USER}")
        for one in optional:
            own = f"coalesce(max(n) FILTER (s = {i}), {int(one)})"
            product = f"least({product} * least({own}, {most + 1}), {most + 1})"
    return (
        f"SELECT {USER} FROM ({' UNION ALL '.join(counts)}) GROUP BY {USER} "
        f"HAVING {product} > {most}"
    )


def people_in(private: Sequence[FromItem]) -> int:
    """Return how many tables about people a join combines, inside its subqueries too."""
    return sum(source.people for source in private if not source.single)


def most_of(most: int, sources: int) -> int:
    """Return the most row combinations of one person in a join of so many sources about people.

    Example:
        >>> [most_of(20_000_000, k) for k in (1, 2, 3, 4)]
        [20000000, 20000000, 299069, 73680]
    """
    return most if sources <= 2 else _root(most**sources, 2 * (sources - 1))


def _root(most: int, power: int) -> int:
    """Return the largest n with n**power <= most.

    >>> _root(20_000_000, 2), _root(20_000_000, 3), _root(7, 1), _root(8, 3)
    (4472, 271, 7, 2)
    """
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= most else (low, middle)
    return low


# -- public sources --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Equality:
    """`alias.column` must equal something that `needs` sources of other aliases; see `factor`.

    Attributes:
        key: SQL of the column, in the type that it is compared in.
    """

    alias: str
    key: str
    needs: frozenset[str]


def factor(
    sources: Iterable[FromItem],
    equalities: Sequence[Equality],
    most_rows: Callable[[str, Sequence[str]], int],
) -> int:
    """Return how many rows public sources may make of one combination of people's rows.

    Given values for the others, at most as many rows of a source fulfil `column = value` as one key
    has there. So the sources are taken one after the other, each as soon as what its columns must
    equal is there, the one that multiplies least first; whatever the order, it is a bound.

    Args:
        sources: Of a join.
        equalities: That every joined row fulfils.
        most_rows: Returns the most rows of SQL (an item of FROM, with its alias) that agree in
            some columns.
    """
    there = {s.alias for s in sources if s.private}
    left = [s for s in sources if not s.private]
    product = 1
    while left:
        choices = []
        for source in left:
            keys = [e.key for e in equalities if e.alias == source.alias and e.needs <= there]
            rows = f"{source.rows_sql()} AS {quoted(source.alias)}"
            choices.append((max(most_rows(rows, sorted(set(keys))), 1), source.alias))
        least, alias = min(choices)
        product *= least
        there.add(alias)
        left = [s for s in left if s.alias != alias]
    return product


def public_factor(
    sources: Sequence[FromItem],
    equalities: Sequence[Equality],
    most_rows: Callable[[str, Sequence[str]], int],
) -> int:
    """Return about how many rows a join of sources about nobody has, by `factor`'s arguments.

    Joins by equal columns are taken not to multiply. Nothing but tables is looked at: an answer
    isn't there yet, and a subquery may be what takes long.
    """

    def counted(rows: str, keys: Sequence[str]) -> int:
        return 1 if keys else known[rows] or most_rows(rows, keys)

    known = {f"{s.rows_sql()} AS {quoted(s.alias)}": s.most for s in sources}
    return factor(sources, equalities, counted)


def check_factor(product: int, sources: Sequence[FromItem], most: int) -> None:
    """Refuse public sources that make too many rows of one.

    Raises:
        QueryRefused: They do.
    """
    names = ", ".join(s.alias for s in sources if not s.private)
    limit = min(most, MAX_FACTOR)
    if product > limit:
        raise QueryRefused(
            f"joined with {names}, one row could become {product:,} rows; the limit is {limit:,}",
            "add ON column = …, with a column of the public table by itself on one side; or put "
            "fewer rows in its place: (SELECT … FROM … GROUP BY …)",
        )


def key_sql(column: str, type: str, other: str) -> str:
    """Return SQL of a public column whose equal values are one key where it is compared.

    Two keys may be one in the type that they are compared in: '1' and '01' are the same integer.

    Args:
        column: SQL of it.
        type, other: Its type, and what it is compared with; "": not known.

    Returns:
        "" where nothing is known.
    """
    if not _PLAIN_TYPE.fullmatch(type) or not _PLAIN_TYPE.fullmatch(other):
        return ""
    if type == other or {type, other} <= INTEGER_TYPES:
        return column
    if type == "VARCHAR":
        return f"TRY_CAST({column} AS {other})"
    if _is_number(type) and _is_number(other):
        return f"TRY_CAST({column} AS {'FLOAT' if other == 'FLOAT' else 'DOUBLE'})"
    return column


def _is_number(type: str) -> bool:
    return type in INTEGER_TYPES | {"FLOAT", "DOUBLE"} or type.startswith("DECIMAL")


# -- public tables that say something of a coded column --------------------------------------------


def joins_once(
    sources: Mapping[str, FromItem],
    joins: Sequence[tuple[FromItem, Sequence[exp.Expr]]],
    public: PublicFacts,
    truth: Callable[[exp.Expr], Term],
) -> bool:
    """Tell whether a row has at most one in each other source: a public table, by a coded column.

    Args:
        sources: Of a join, by alias.
        joins: All but the first, and the conditions that each is joined on.
        public: What is known of public tables.
        truth: Reads a condition.
    """
    on = [c for source, conditions in joins if not source.optional for c in conditions]
    found = [_joined_once(sources, condition, public, truth) for condition in on]
    return None not in found and len(found) == len(set(found)) == len(sources) - 1


def _joined_once(
    sources: Mapping[str, FromItem],
    condition: exp.Expr,
    public: PublicFacts,
    truth: Callable[[exp.Expr], Term],
) -> str | None:
    """Return the alias of a public table with at most one row for each string of a column."""
    if not isinstance(condition, exp.EQ):
        return None
    for key, own in permutations((condition.left, condition.right)):
        if not (isinstance(key, exp.Column) and isinstance(own, exp.Column)):
            continue
        table, private = sources[key.table], sources[own.table]
        there, here = table.columns.get(key.name), private.columns.get(own.name)
        if table.private or table.table is None or private.table is None or not (there and here):
            continue
        coded = here.stored is not None and here.stored.coded
        if not (coded and there.type == here.type == "VARCHAR"):
            continue
        if public.most_rows(source_sql(table), [key.sql("duckdb")]) <= 1:
            names = [term.sql for term in truth(condition).arguments]
            return table.alias if own.sql("duckdb") in names else None
    return None


# -- UNION, INTERSECT and EXCEPT of subqueries about people: of each person's rows apart -----------

_WORDS: dict[type, str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def combine(
    tree: exp.SetOperation, alias: str, lower: Callable[[exp.Expr, str], FromItem]
) -> FromItem:
    """Return both sides of a set operation as one source.

    Raises:
        QueryRefused: They have different columns, or only one is about people.
    """
    left, right = lower(tree.this, alias), lower(tree.expression, alias)
    word = _WORDS[type(tree)]
    every = not tree.args.get("distinct")
    if every and word != "UNION":
        raise QueryRefused(f"{word} ALL is not answered", f"use {word}")
    if left.private != right.private:
        raise QueryRefused(
            f"{word} puts rows about people and public rows together",
            "name a private table in both",
        )
    names, others = list(left.columns), list(right.columns)
    if len(names) != len(others):
        raise QueryRefused(f"{word}: the sides have {len(names)} and {len(others)} columns")
    users = {n for n, o in zip(names, others, strict=True) if n in left.users and o in right.users}
    mixed = [
        n for n, o in zip(names, others, strict=True) if (n in left.users) != (o in right.users)
    ]
    if mixed:
        raise QueryRefused(
            f"{word}: {mixed[0]} is the user on one side only", "select the user in the same place"
        )
    if left.private and not every and not users:
        raise QueryRefused(
            f"{word} keeps each row once, whoever it is of",
            "select the user on both sides: each row once a person"
            + (", or write UNION ALL" if word == "UNION" else ""),
        )
    columns: dict[str, ColumnFacts] = {}
    sides: tuple[list[str], list[str]] = ([], [])
    for name, other in zip(names, others, strict=True):
        columns[name] = _facts(left.columns[name], right.columns[other])
        if name not in users:
            for side, source, own in ((0, left, name), (1, right, other)):
                sides[side].append(
                    _column(source.columns[own], own, columns[name].type, name, tree)
                )
    operation = f"{word} ALL" if every else word
    user = [USER] if left.private else []
    texts = [
        f"SELECT {', '.join([*user, *side])} FROM {source.derived} AS s"
        for source, side in zip((left, right), sides, strict=True)
    ]
    return FromItem(
        alias,
        left.private,
        users,
        columns,
        derived=f"({f' {operation} '.join(texts)})",
        caps=tuple(dict.fromkeys([*left.caps, *right.caps])),
        most=left.most + right.most,
        people=max(left.people, right.people),
    )


def _facts(a: ColumnFacts, b: ColumnFacts) -> ColumnFacts:
    types = [f.held for f in (a, b)]
    common = T.common(t for t in types if t is not None) if all(types) else None
    common = types[0] if types[0] == types[1] else common
    bounds = None
    if a.bounds is not None and b.bounds is not None:
        bounds = min(a.bounds[0], b.bounds[0]), max(a.bounds[1], b.bounds[1])

    def values() -> list[Any] | None:
        found = [f.values() if f.values is not None else None for f in (a, b)]
        if found[0] is None or found[1] is None:
            return None
        return list(dict.fromkeys([*found[0], *found[1]]))

    def null() -> bool:
        return any(f.null is None or f.null() for f in (a, b))

    type = common.sql if common is not None else ""
    zoned = common is not None and common.zoned
    return ColumnFacts(type, bounds, values=cache(values), null=cache(null), zoned=zoned)


def _column(facts: ColumnFacts, own: str, type: str, name: str, tree: exp.Expr) -> str:
    """Return a side's column in the type of both, zeros and NaNs of two signs made one."""
    have, wanted = find_type(facts.type), find_type(type)
    done = None if have is None or wanted is None else cast(Term(have, quoted(own)), wanted)
    if done is None:
        raise QueryRefused(
            f"{said(tree)[:60]}: {name} is of different types", "write CAST(x AS type)"
        )
    if done.type.family is Family.DOUBLE:
        kind = done.type.sql
        plain = f"CASE WHEN isnan({{0}}) THEN CAST('nan' AS {kind}) ELSE {{0}} + 0 END"
        done = call("plain", plain, done.type, done)
    return f"{done.sql} AS {quoted(name)}"
