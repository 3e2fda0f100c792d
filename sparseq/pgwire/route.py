"""The route of a SELECT: to the stream as a question, to the catalogue, or to an error.

Tools explore tables: all rows up to a limit, the values of a column, its least and largest. On
private tables such queries are never sent to the stream. They are answered from public facts, or
with no rows.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sparseq.pgwire.sql_tokens import Token, TokenKind, tokens
from sparseq.question.catalog import Catalog, Column, Table, bound_text
from sparseq.released.result_columns import may_be_beside
from sparseq.sql.aggregate_calls import is_binned
from sparseq.sql.constants import moment_of
from sparseq.sql.parameters import literal
from sparseq.sql.parse import Dialect

_TABLES_FOLLOW = ("FROM", "JOIN", "TABLE", "ONLY", "LATERAL", "PIVOT")
_TABLES_END = (
    "SELECT",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "ON",
    "USING",
    "WINDOW",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "OFFSET",
    "FETCH",
    "QUALIFY",
)


_SCHEMAS = ("public", "main")
"""PostgreSQL's name of the schema of private tables, and DuckDB's."""
ANSWER = "answer_"
"""Prefix of the name of an answer in a SELECT over it."""


class Aim(enum.Enum):
    """The destination of a SELECT."""

    QUESTION = "question"
    LOOK_UP = "look up"
    AFTER = "after"
    """A question, and a SELECT over its answer with intervals."""
    NO_ROWS = "no rows"
    """A SELECT that would show users' rows."""
    SAMPLE = "sample"
    """A count over a few rows, by which tools guess the contents of a column. If it can be answered
    it is a question, else it has no rows.
    """
    PUBLIC = "public"
    """A SELECT of the values or the ends of columns; declared values are public."""


@dataclass(frozen=True)
class Destination:
    """A SELECT and its destination.

    Attributes:
        aim: The destination.
        sql: The SQL there, without the schema of private tables.
        tables: The private tables that it names.
        column: The column whose values or ends it requests, if it is one.
        after: The SELECT over the answer, which it calls `answer_`.
        question: The question if a sample can be answered.
    """

    aim: Aim
    sql: str
    tables: tuple[str, ...] = ()
    column: str = ""
    after: str = ""
    question: str = ""


def find_route(text: str, catalog: Catalog) -> Destination:
    """Return the destination of a SELECT. Public facts decide: its text, and the names of tables.

    Raises:
        WireError: A string or a comment has no end.
    """
    private = {table.name.lower(): table for table in catalog.private}
    found = tokens(text)
    named = list(_name(found, private))
    if not named:
        return Destination(Aim.LOOK_UP, text)
    sql = _without_schema(text, found, private)
    tables = tuple(dict.fromkeys(private[token.name.lower()].name for token in named))
    if _plainly_asks(found):
        return Destination(Aim.QUESTION, sql, tables)
    is_table = sql[:6].upper() in ("TABLE ", 'TABLE"')
    try:
        tree = parse_one(f"SELECT * FROM {sql[5:]}" if is_table else sql, dialect=Dialect)
    except (SqlglotError, RecursionError):
        return Destination(
            Aim.QUESTION, sql, tables
        )  # the stream refuses it, with the message of a question
    if (asked := _asked_inside(tree)) is not None:
        return Destination(Aim.AFTER, asked.sql(Dialect), tables, after=tree.sql(Dialect))
    tree = tree.transform(lambda node: moment_of(node) or node, copy=False)
    aim, column = _aim(tree)
    if aim is Aim.PUBLIC and isinstance(tree, exp.Query):
        stand_in = _with_public_rows(tree, private)
        if stand_in is None:
            return Destination(Aim.NO_ROWS, tree.sql(Dialect), tables)
        return Destination(aim, stand_in, tables, column)
    question = sql if aim is Aim.SAMPLE else ""
    told = sql if aim is Aim.QUESTION else tree.sql(Dialect)
    return Destination(aim, told, tables, question=question)


def _plainly_asks(found: Sequence[Token]) -> bool:
    """Tell whether the text is one SELECT of a count, a sum or an average: never an exploration."""
    counts = any(a.is_word("COUNT", "SUM", "AVG") and b.text == "(" for a, b in pairwise(found))
    return counts and sum(token.is_word("SELECT", "FROM") for token in found) == 2


def _asked_inside(tree: exp.Expr) -> exp.Expr | None:
    """Return the question in a SELECT over its answer's intervals, and put `answer_` in its place.

    Each SELECT reads one subquery, in its FROM or named before; the last one that reads an interval
    reads the question. None: there is no question, and nothing was changed.
    """
    named = {cte.alias.lower(): cte for cte in tree.ctes} if isinstance(tree, exp.Select) else {}
    left, outer, chain, holder, links = {**named}, tree, [], None, []
    while (inside := _only_source(outer, left)) is not None:
        own = _own_nodes(outer, inside)
        chain.append(inside)
        links += [node for node in own if isinstance(node, exp.Table | exp.With)]
        taken = {n.name for n in own if isinstance(n, exp.Column)} - {*inside.this.named_selects}
        if any(map(may_be_beside, taken)):
            holder, allowed = inside, [*links]
        outer = inside.this
    if holder is None or not any(_aggregates(holder)):
        return None
    passed = chain[: chain.index(holder) + 1]
    if len(allowed) != sum(isinstance(link, exp.CTE) for link in passed):
        return None  # it reads other tables
    asked = holder.this.copy()
    assert isinstance(asked, exp.Query)
    before = [cte for cte in named.values() if cte not in passed]
    holder.set("this", exp.select("*").from_(ANSWER))
    asked.set("with_", exp.With(expressions=[*(c.copy() for c in before), *asked.ctes]))
    for cte in before:
        cte.pop()
    return asked


def _only_source(select: exp.Expr, named: dict[str, exp.CTE]) -> exp.Expr | None:
    """Return the only subquery that a SELECT reads, and remove it from the named ones.

    None: it reads something else.
    """
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    if source is None or select.args.get("joins"):
        return None
    if isinstance(source.this, exp.Table):
        return named.pop(source.this.name.lower(), None) if not source.this.db else None
    return source.this if isinstance(source.this, exp.Subquery) and source.this.alias else None


def _own_nodes(select: exp.Expr, inside: exp.Expr) -> list[exp.Expr]:
    """Return the nodes of a SELECT without the subquery and those named before."""
    others = [inside, *(cte for cte in select.ctes)] if isinstance(select, exp.Query) else [inside]
    within = {id(node) for other in others for node in other.walk()}
    return [n for n in select.walk() if id(n) not in within and n is not select.args.get("with_")]


def _name(found: Sequence[Token], private: Collection[str]) -> Iterator[Token]:
    """Yield the tokens that name private tables in places of tables."""
    inside, wanted = [False], False  # by depth: True among tables; the next name is a table's
    for i, token in enumerate(found):
        if token.text == "(":
            inside.append(wanted)
        elif token.text == ")":
            wanted = False
            del inside[1 + max(len(inside) - 2, 0) :]
        elif token.is_word(*_TABLES_FOLLOW):
            inside[-1] = wanted = True
        elif token.is_word(*_TABLES_END):
            inside[-1] = wanted = False
        elif token.text == ",":
            wanted = inside[-1]
        elif wanted and token.kind in (TokenKind.WORD, TokenKind.QUOTED):
            if i + 1 < len(found) and found[i + 1].text == ".":
                continue
            before = found[i - 2].name.lower() if found[i - 1].text == "." else "public"
            if token.name.lower() in private and before in _SCHEMAS:
                yield token
            wanted = False


def _without_schema(text: str, found: Sequence[Token], private: Collection[str]) -> str:
    """Return a SELECT in which private tables have no schema: sparseq has none."""
    cuts: list[tuple[int, int]] = []
    for i, (schema, dot, name) in enumerate(zip(found, found[1:], found[2:], strict=False)):
        if schema.name in _SCHEMAS and dot.text == "." and name.name.lower() in private:
            start = schema.start
            if i >= 2 and found[i - 1].text == "." and found[i - 2].kind is not TokenKind.OTHER:
                start = found[i - 2].start  # the name of the database
            cuts.append((start, name.start))
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    return text


def _aim(tree: exp.Expr) -> tuple[Aim, str]:
    if not isinstance(tree, exp.Select):
        return Aim.QUESTION, ""
    aggregates = list(_aggregates(tree))
    if not aggregates and any(isinstance(node, exp.Anonymous) for node in tree.walk()):
        return Aim.QUESTION, ""
    if not aggregates:
        column = _values_of(tree)
        return (Aim.PUBLIC, column) if column else (Aim.NO_ROWS, "")
    plain = _over_one_table(tree) and not any(tree.args.get(k) for k in ("where", "group"))
    ends = [e.unalias() for e in tree.expressions]
    if plain and all(
        isinstance(e, exp.Min | exp.Max) and isinstance(e.this, exp.Column) for e in ends
    ):
        return Aim.PUBLIC, ends[0].this.name if len({e.this.name for e in ends}) == 1 else ""
    if any(_is_sample(inner) for inner in tree.find_all(exp.Select) if inner is not tree):
        return Aim.SAMPLE, ""
    return Aim.QUESTION, ""


def _aggregates(tree: exp.Expr) -> Iterator[exp.Expr]:
    for node in tree.walk():
        if isinstance(node, exp.AggFunc) or is_binned(node):
            yield node


def _is_sample(select: exp.Select) -> bool:
    """Tell whether a subquery selects a number of arbitrary rows."""
    return (
        select.args.get("limit") is not None
        and not select.args.get("group")
        and not select.args.get("distinct")
        and not any(_aggregates(select))
    )


def _over_one_table(tree: exp.Select) -> bool:
    source = tree.args.get("from_") or tree.args.get("from")
    return (
        source is not None
        and isinstance(source.this, exp.Table)
        and not tree.args.get("joins")
        and not tree.args.get("with_")
    )


def _values_of(tree: exp.Select) -> str:
    """Return the column whose values are requested; "": the query is different."""
    group = tree.args.get("group")
    once = tree.args.get("distinct") or group
    (only, *more) = tree.expressions or [None]
    column = only.unalias() if isinstance(only, exp.Expr) else None
    if more or not once or not isinstance(column, exp.Column) or not _over_one_table(tree):
        return ""
    named = {c.name.lower() for c in tree.find_all(exp.Column)}
    return column.name if named <= {column.name.lower(), only.alias_or_name.lower()} else ""


def _with_public_rows(tree: exp.Query, private: dict[str, Table]) -> str | None:
    """Return the SELECT over the declared values of its columns; None: there are none."""
    table = tree.find(exp.Table)
    assert table is not None
    declared = private[table.name.lower()]
    named = {c.name.lower() for c in tree.find_all(exp.Column)}
    columns = [c for c in declared.columns if c.name.lower() in named]
    aggregates = any(_aggregates(tree))
    lists = [_ends(c) if aggregates else _literals(_values(c)) for c in columns]
    length = max(map(len, lists), default=0)
    if length == 0:
        return None
    cells = [
        [f"CAST({each[i] if i < len(each) else 'NULL'} AS {c.type})" for i in range(length)]
        for c, each in zip(columns, lists, strict=True)
    ]
    rows = ", ".join(f"({', '.join(row)})" for row in zip(*cells, strict=True))
    names = ", ".join(exp.to_identifier(c.name, quoted=True).sql(Dialect) for c in columns)
    alias = exp.to_identifier(table.alias_or_name, quoted=True).sql(Dialect)
    stand_in = parse_one(f"SELECT * FROM (VALUES {rows}) AS {alias}({names})", dialect=Dialect)
    source = stand_in.find(exp.From)
    assert source is not None
    changed = tree.copy()
    for e in list(changed.selects):
        if isinstance(e, exp.Min | exp.Max):  # PostgreSQL's name of the column
            e.replace(exp.alias_(e.copy(), e.key))
    there = changed.find(exp.Table)
    assert there is not None
    there.replace(source.this.copy())
    return changed.sql(Dialect)


def _ends(column: Column) -> list[str]:
    if column.bounds is not None:
        return [f"'{bound_text(column, end).replace(',', '')}'" for end in column.bounds]
    keys = [key for key in _values(column) if key is not None]
    return _literals((min(keys), max(keys))) if keys else []


def _values(column: Column) -> Sequence[Any]:
    return column.keys or ((False, True) if column.type == "BOOLEAN" else ())


def _literals(values: Sequence[object]) -> list[str]:
    return [literal(value) for value in values]  # type: ignore[arg-type]
