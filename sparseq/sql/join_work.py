"""Bounded work: how many rows the joins of one SELECT may make of one person's.

Where sources are joined, person i's row combinations are

    own rows of i in each source about people, multiplied (of a LEFT JOINed one, at least 1),
    times, for each public source, the most rows that one join key has there

(1 where the key is unique; all rows of the source where nothing says `column = …`). The joined rows
of i are at most that many. Whoever has more than `most_of` says is taken out of every source of the
SELECT, before anything is joined: no row of i leaves it, so i contributes nothing and pays nothing.
All others' rows are as they were.

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
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparseq.base.errors import QueryRefused
from sparseq.sql.catalog import INTEGER_TYPES
from sparseq.sql.from_clause import USER, FromItem, quoted
from sparseq.sql.plan import Cap

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
