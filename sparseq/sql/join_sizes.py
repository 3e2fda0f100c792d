"""Bounded work: the number of rows that the joins of one SELECT may make from one person's rows.

If sources are joined, the number of row combinations of person i is the product of

    the rows of i in each private source (at least 1 for an outer-joined source),
    and, for each public source, the maximum number of its rows with one join key

(1 if the key is unique; all rows of the source if no condition says `column = …`). Person i has at
most this number of joined rows; with a FULL JOIN at most twice this number, as a + b <= 2 a b for
a, b >= 1, and each of its rows is a pair or an unmatched row. A person above the limit `most_of` is
removed from every source of the SELECT before the join: no row of i leaves it, so i contributes
nothing and is charged nothing. The rows of all others stay unchanged.

The work of a join is the number of combinations of all people together, and neither the number of
people nor of rows is public. So the limit, sqrt of `most`, applies to the combinations per *row*:
with k private tables (including those in subqueries), n rows of a person in each and n^(k-1) <=
sqrt(most), a table of N rows makes at most N sqrt(most) joined rows, whatever their distribution
over people. For k = 2 this means n^2 <= most; for k = 3 the default allows 66 rows. The remaining
time depends on N: time-outs and cancellation bound it. More than `people` tables in one join are
refused.

Neighbours. By induction over the query's tree (see `sparseq.sql.scope`), the rows of i in a source
are a function of i's rows and of public tables; subqueries have their own caps, which are such
functions too. The public factor and `most` are public. So i's rows and public facts alone decide
whether i is removed, and the output under j's index is the same whether or not i has any rows: a
query's vector remains q(X_i), and its charge is that of this vector. The decision uses integers:
counts below 2**63, and products capped at `most` + 1 after each factor, so that none overflows.

If rows cannot multiply, nobody is counted or removed: one private source (alone, or with others
that have at most one row per person, or at most one per row of the sources before them) joined to
public sources by unique keys makes no more rows than it has. A plain scan removes nobody.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.base.sql_text import quote
from sparseq.question.catalog import INTEGER_TYPES
from sparseq.question.plan import Cap
from sparseq.sql.from_clause import USER, FromItem

MAX_FACTOR = 10_000
"""Rows that public sources may make of one row; planning refuses a query with more."""
_PLAIN_TYPE = re.compile(r"[A-Z][A-Z0-9_ ]*(\(\d+,\d+\))?")


def cap(private: Sequence[FromItem], factor: int, most: int) -> Cap | None:
    """Return the people to remove from a join where public sources make `factor` rows of one.

    Returns None if public facts show that nobody can exceed the limit.
    """
    several = [s for s in private if not (s.single or s.once)]
    if len(several) + (factor > 1) < 2 or not several:
        return None
    factor *= 1 + any(source.full for source in private)
    most = most_of(most, people_in(private) + sum(s.domain for s in private))
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
    """Return the people to remove because their lists have too many values to unnest into rows."""
    rows, column = f"{source.rows_sql()} AS {quote(source.alias)}", lists.sql("duckdb")
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
    """Return the number of private tables that a join combines, including those in its subqueries.

    A domain does not count: its rows are joined back to the rows that they come from.
    """
    several = (s for s in private if not (s.single or s.once or s.domain))
    return sum(source.people for source in several)


def most_of(most: int, sources: int) -> int:
    """Return the most row combinations of one person in a join of `sources` private sources.

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


@dataclass(frozen=True)
class Equality:
    """`alias.column` must equal an expression over the sources `needs`; see `factor`.

    Attributes:
        key: SQL of the column, in the type of the comparison.
    """

    alias: str
    key: str
    needs: frozenset[str]


def factor(
    sources: Iterable[FromItem],
    equalities: Sequence[Equality],
    most_rows: Callable[[str, Sequence[str]], int],
) -> int:
    """Return the number of rows that public sources may make of one combination of people's rows.

    Given the values of the others, the rows of a source with `column = value` are at most the rows
    of its most frequent key. So the sources are added one after the other, each once the values
    that its columns must equal are available, smallest factor first; any order gives a valid bound.

    Args:
        sources: The sources of a join.
        equalities: Equalities that hold for every joined row.
        most_rows: Returns the maximum number of rows of SQL (an item of FROM, with its alias) that
            agree in some columns.
    """
    there = {s.alias for s in sources if s.private}
    left = [s for s in sources if not s.private]
    product = 1
    while left:
        choices = []
        for source in left:
            keys = [e.key for e in equalities if e.alias == source.alias and e.needs <= there]
            rows = f"{source.rows_sql()} AS {quote(source.alias)}"
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
    """Return an estimate of the rows of a join of public sources, with `factor`'s arguments.

    Joins by equal columns are assumed not to multiply rows. Only tables are counted: an answer does
    not exist yet, and a subquery may take long.
    """

    def counted(rows: str, keys: Sequence[str]) -> int:
        return 1 if keys else known[rows] or most_rows(rows, keys)

    known = {f"{s.rows_sql()} AS {quote(s.alias)}": s.most for s in sources}
    return factor(sources, equalities, counted)


def check_factor(product: int, sources: Sequence[FromItem], most: int) -> None:
    """Refuse public sources that make too many rows of one row.

    Raises:
        QueryRefused: The product exceeds `most`.
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
    """Return the SQL of a public column, so that values which compare as equal are one key.

    Two keys may be equal in the type of the comparison: '1' and '01' are the same integer.

    Args:
        column: The column's SQL.
        type, other: Its type, and the type it is compared with; "" if unknown.

    Returns:
        The SQL, or "" if a type is unknown.
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
