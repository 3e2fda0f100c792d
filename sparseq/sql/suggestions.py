"""Suggestions for refused queries: each is applied to the query, and the result is tried.

A rule yields queries in the order in which they are tried. Rules that change a tree are written
with `changes`; the others change the text.

A refused query is rewritten as its hint says:

    refusal → the rule whose pattern matches its hint → rewritten queries → the first that is
    answered

A hint is applied literally, to the query as it was written; if the rewritten query is refused for
another reason, that hint is applied too, a few times. A rule declares whether the rewritten query
has the same meaning. If it has not, the query is offered as another question, and its output
columns get other names, so that nobody mistakes its numbers for the requested ones. Every offered
query has been lowered, from public facts alone, so that it is answered as it stands. Edges, ranges
and lists, which only the analyst can know, are examples in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Query
from sparseq.released.render import schema_of
from sparseq.released.result_columns import noised_of
from sparseq.sql.aggregate_calls import BINNED
from sparseq.sql.parse import Dialect, said, split_options

# -- a refused query, rewritten as its hint says ---------------------------------------------------

MAX_TEXT, MAX_ROUNDS, MAX_TRIED = 2_000, 5, 8


@dataclass(frozen=True)
class Refusal:
    """A refused query, with its error.

    Attributes:
        text: The query as it was written.
        message: The error message.
        hint: The match of the rule's pattern in the hint.
        catalog: The public facts of the tables.
    """

    text: str
    message: str
    hint: re.Match[str]
    catalog: Catalog

    @property
    def name(self) -> str:
        """The word that the message quotes, or the function that it names."""
        found = re.search(r"(?:^|\s)'([^']+)'|function (\S+)\(\)", self.message)
        return (found[1] or found[2]) if found else ""

    @cached_property
    def options(self) -> str:
        """The options as they are written, for the rewritten query."""
        without, _ = split_options(self.text)
        differ = [i for i, (a, b) in enumerate(zip(self.text, without, strict=True)) if a != b]
        return self.text[differ[0] : differ[-1] + 1] + " " if differ else ""

    def tree(self) -> exp.Expr:
        """Return the query's tree, for a rule to change."""
        return sqlglot.parse_one(split_options(self.text)[0], dialect=Dialect)

    def written(self, tree: exp.Expr) -> str:
        """Return a tree as a query, with the options."""
        sql = tree.sql("duckdb", comments=False)
        sql = re.sub(r"CAST\(('[\d-]+') AS DATE\)", r"DATE \1", sql)
        return re.sub("^SELECT ", lambda _: f"SELECT {self.options}", sql)


Rule = Callable[[Refusal], Iterator[str]]
Change = Callable[[Refusal, exp.Expr], bool]
Same = bool | Callable[[Refusal], bool]


@dataclass(frozen=True)
class HintRule:
    """A rule for one kind of hint.

    Attributes:
        pattern: The pattern of the hints that it handles.
        queries: Returns the rewritten queries of a refused query.
        same: Its queries have the same meaning; or a function that decides this for a refusal.
    """

    pattern: re.Pattern[str]
    queries: Rule
    same: Same


RULES: list[HintRule] = []


def rule(pattern: str, same: Same = False) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the rule for hints with a pattern."""

    def known(function: Rule) -> Rule:
        RULES.append(HintRule(re.compile(pattern), function, same))
        return function

    return known


def changes(pattern: str, same: Same = False) -> Callable[[Change], Change]:
    """Return such a decorator for a function that changes a tree and returns whether it did."""

    def known(function: Change) -> Change:
        RULES.append(HintRule(re.compile(pattern), partial(_change, function), same))
        return function

    return known


def _change(change: Change, refusal: Refusal) -> Iterator[str]:
    tree = refusal.tree()
    if change(refusal, tree):
        yield refusal.written(tree)


def parse_sql(text: str) -> exp.Expr:
    """Return the tree of SQL."""
    return sqlglot.parse_one(text, dialect=Dialect)


def selects(tree: exp.Expr) -> list[exp.Select]:
    """Return all SELECTs of a query."""
    return list(tree.find_all(exp.Select))


def replace_nodes(tree: exp.Expr, kind: type[exp.Expr], new: Callable[[exp.Expr], object]) -> bool:
    """Replace all nodes of a kind for which `new` returns a replacement."""
    done = False
    for node in list(tree.find_all(kind)):
        made = new(node)
        if isinstance(made, exp.Expr):
            node.replace(made)
            done = True
    return done


@dataclass(frozen=True)
class Suggestion:
    """A query that would be answered.

    Attributes:
        query: The query; "" if there is none.
        same: It has the same meaning as the refused query.
    """

    query: str = ""
    same: bool = True


def suggest(
    text: str, refused: QueryRefused, catalog: Catalog, lower: Callable[[str], Query]
) -> Suggestion:
    """Return the query that results from applying a refusal's hints literally.

    Args:
        text: The query.
        refused: The refusal.
        catalog: The public facts of the tables.
        lower: Lowers a query, or raises a refusal.
    """
    tried = {text}
    waiting = [(Suggestion(text), refused)]
    for _ in range(MAX_ROUNDS):
        after = list[tuple[Suggestion, QueryRefused]]()
        for made, why in waiting:
            for candidate in _candidates(made, why, catalog):
                if candidate.query in tried or len(tried) > MAX_TRIED:
                    continue
                tried.add(candidate.query)
                try:
                    lowered = lower(candidate.query)
                except QueryRefused as again:
                    after.append((candidate, again))
                else:
                    return (
                        candidate
                        if candidate.same
                        else _with_other_names(candidate, lowered, catalog)
                    )
        waiting = after
    return Suggestion()


def _candidates(made: Suggestion, why: QueryRefused, catalog: Catalog) -> Iterator[Suggestion]:
    if len(made.query) > MAX_TEXT:
        return
    for rule in RULES:
        if found := rule.pattern.search(why.hint):
            refusal = Refusal(made.query, why.message, found, catalog)
            try:
                for query in rule.queries(refusal):
                    same = rule.same if isinstance(rule.same, bool) else rule.same(refusal)
                    yield Suggestion(query, made.same and same)
            except (SqlglotError, QueryRefused):  # unreadable text cannot be rewritten
                continue


_NAMES_A_TABLE = ((exp.Table, "this"), (exp.TableAlias, "this"), (exp.Column, "table"))


def _with_other_names(made: Suggestion, lowered: Query, catalog: Catalog) -> Suggestion:
    """Return a different question, whose noised columns have other names than the original's."""
    refusal = Refusal(made.query, "", next(re.finditer("", "")), catalog)
    noised = [name.lower() for name in noised_of(schema_of(lowered, False))]
    tree, text = refusal.tree(), made.query
    first = next(tree.find_all(exp.Select))
    shown = {e.alias_or_name.lower(): e for e in first.expressions if e.alias_or_name}
    if not any(isinstance(e, exp.Star) for e in first.expressions):
        columns = [e for e in first.expressions if isinstance(e, exp.Column)]
        bare = [e for e in columns if e.name.lower() in noised]
        others = (e for e in first.expressions if not isinstance(e, exp.Alias))
        bare += [e for e in others if e.find(exp.AggFunc, exp.Anonymous) is not None]
        for i, e in enumerate(bare):
            name = f"{OTHER}_{i}" if i else OTHER
            name = f"{e.name}_{OTHER}" if isinstance(e, exp.Column) else name
            e.replace(exp.alias_(e.copy(), name))
        text = refusal.written(tree) if bare else text
        noised = [name for name in noised if isinstance(shown.get(name), exp.Alias)]
    tables = {
        name.meta["start"]
        for name in parse_sql(split_options(text)[0]).find_all(exp.Identifier)
        if (type(name.parent), name.arg_key) in _NAMES_A_TABLE
    }
    tokens = sqlglot.tokenize(text, dialect=Dialect)
    called = {a.start for a, b in pairwise(tokens) if b.token_type is TokenType.L_PAREN}
    for token in reversed(tokens):
        quote = text[token.start]
        if token.text.lower() in noised and quote != "'" and token.start not in tables | called:
            new = f"{token.text}_{OTHER}"
            new = f'"{new}"' if quote == '"' else new
            text = text[: token.start] + new + text[token.end + 1 :]
    return Suggestion(text, False)


# -- the rules -------------------------------------------------------------------------------------

_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT|INTEGER|UINTEGER|DECIMAL|DOUBLE|FLOAT")
OTHER, COUNTED = "other", "count(*) AS n"
_MOST_SLIPS = 2
_FUNCTIONS = frozenset(exp.FUNCTION_BY_NAME)
"""Names of functions in any SQL dialect; such a name is never a misspelling of another."""
DAYS = "DATE '2024-01-01' AND DATE '2024-12-31'"


def _is_name(refusal: Refusal, e: exp.Expr) -> bool:
    """Tell whether an expression is a user column, or a column whose type is not numeric."""
    tables = refusal.catalog.tables
    other = {c.name.lower() for t in tables for c in t.columns if not _NUMBERS.match(c.type)}
    return isinstance(e, exp.Column) and e.name.lower() in other | {t.user.lower() for t in tables}


def _rename(refusal: Refusal, old: str, new: str) -> Iterator[str]:
    """Replace a word by another, wherever it occurs."""
    text, done = refusal.text, False
    for token in reversed(list(sqlglot.tokenize(text, dialect=Dialect))):
        if token.text.lower() == old.lower():
            text, done = text[: token.start] + new + text[token.end + 1 :], True
    if done:
        yield text


def _is_slip(refusal: Refusal) -> bool:
    """Tell whether a name is a known one with few typing errors, and is not another function."""
    meant, written = refusal.hint[1].lower(), refusal.name.lower()
    tables = refusal.catalog.tables
    columns = {c.name.lower() for t in tables for c in t.columns}
    known = {"table": {t.name.lower() for t in tables}, "column": columns}
    others = next((names for kind, names in known.items() if kind in refusal.message), set())
    digits = [re.findall(r"\d", name) for name in (meant, written)]
    slips = _slips(written, meant)
    nearest = all(slips < _slips(written, other) for other in others - {meant})
    few = slips <= _MOST_SLIPS and digits[0] == digits[1]
    return few and nearest and written.upper() not in _FUNCTIONS


def _slips(written: str, meant: str) -> int:
    left = SequenceMatcher(None, written, meant).get_matching_blocks()
    return max(len(written), len(meant)) - sum(block.size for block in left)


@rule(r"did you mean '([^']+)'\?", same=_is_slip)
def nearest(refusal: Refusal) -> Iterator[str]:
    """Replace a name by the nearest known name."""
    yield from _rename(refusal, refusal.name, refusal.hint[1])


@rule(r"did you mean (SELECT|WITH)\?", same=True)
def nearest_word(refusal: Refusal) -> Iterator[str]:
    """Correct the spelling of the first word."""
    yield re.sub(r"^\s*\w+", refusal.hint[1], refusal.text, count=1)


@rule("give it another name", same=True)
def other_name(refusal: Refusal) -> Iterator[str]:
    """Rename a column whose name is not allowed."""
    yield from _rename(refusal, refusal.name, OTHER)


@changes(r"rename one: … AS other", same=True)
def told_apart(refusal: Refusal, tree: exp.Expr) -> bool:
    """Rename the second of two columns with the same name."""
    for select in selects(tree):
        same = [e for e in select.expressions if e.alias_or_name.lower() == refusal.name.lower()]
        if len(same) > 1 and isinstance(same[1], exp.Alias):
            same[1].set("alias", exp.to_identifier(OTHER))
            return True
    return False


@changes(r"^write \w+$", same=True)
def without_schema(refusal: Refusal, tree: exp.Expr) -> bool:
    """Remove the qualifiers of table names."""
    for table in tree.find_all(exp.Table):
        table.set("db", None)
        table.set("catalog", None)
    return True


def _is_there(refusal: Refusal, tree: exp.Expr, column: exp.Column) -> bool:
    """Tell whether a column's table qualifier is consistent with the catalog."""
    if not column.table or column.args.get("db"):
        return False
    columns = {t.name.lower(): {c.name.lower() for c in t.columns} for t in refusal.catalog.tables}
    return any(
        column.name.lower() in columns.get(t.name.lower(), {column.name.lower()})
        for t in tree.find_all(exp.Table, exp.Subquery, exp.Values)
        if t.alias_or_name.lower() == column.table.lower()
    )


def _is_of_one_table(refusal: Refusal) -> bool:
    """Tell whether exactly one table of a query without subqueries has the column."""
    if refusal.tree().find(exp.Subquery, exp.CTE, exp.Values):
        return False
    columns = {t.name.lower(): {c.name.lower() for c in t.columns} for t in refusal.catalog.tables}
    tables = {t.alias_or_name: t.name.lower() for t in refusal.tree().find_all(exp.Table)}
    return sum(refusal.name.lower() in columns.get(t, ()) for t in tables.values()) == 1


@rule(r"write table\.column", same=_is_of_one_table)
def of_a_table(refusal: Refusal) -> Iterator[str]:
    """Qualify a column with its table: with each table that has it, in turn."""
    for table in refusal.tree().find_all(exp.Table):
        tree, found = refusal.tree(), False
        for column in tree.find_all(exp.Column):
            if refusal.name.lower() in (column.name.lower(), "") and not _is_there(
                refusal, tree, column
            ):
                for place in ("db", "catalog"):
                    column.set(place, None)
                column.set("table", exp.to_identifier(table.alias_or_name))
                found = True
        if found:
            yield refusal.written(tree)


@changes(r"^add ON (\w+)\.(\w+) = (\w+)\.(\w+)")
def joined_by_user(refusal: Refusal, tree: exp.Expr) -> bool:
    """Join two tables on the user."""
    tables = {refusal.hint[1], refusal.hint[3]}
    condition = parse_sql(refusal.hint[0].removeprefix("add ON "))
    joins = [join for join in tree.find_all(exp.Join) if join.this.alias_or_name in tables]
    for join in joins[-1:]:
        if using := join.args.get("using"):
            if refusal.hint[2] == refusal.hint[4]:
                join.set("using", [*using, exp.to_identifier(refusal.hint[2])])
                continue
            join.set("using", None)
            pairs = [f"{refusal.hint[1]}.{u.name} = {refusal.hint[3]}.{u.name}" for u in using]
            join.set("on", parse_sql(" AND ".join(pairs)))
        on = join.args.get("on")
        told = on is None or (isinstance(on, exp.Boolean) and on.this)
        join.set("on", condition if told else exp.and_(condition, on))
        for place in ("kind", "method"):
            join.set(place, None)
    return bool(joins)


@changes("use JOIN or LEFT JOIN")
def left_join(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace another kind of join by a LEFT JOIN."""
    joins = [j for j in tree.find_all(exp.Join) if j.side in ("FULL", "RIGHT") or j.method]
    for join in joins:
        join.set("side", None if join.method == "POSITIONAL" else "LEFT")
        join.set("method", None)
    return bool(joins)


@changes("put the private table first")
def private_first(refusal: Refusal, tree: exp.Expr) -> bool:
    """Swap the two tables of a LEFT JOIN."""
    for select in selects(tree):
        joins = select.args.get("joins") or []
        start = select.args.get("from_")
        if start is not None and len(joins) == 1:
            first, second = start.this, joins[0].this
            start.set("this", second.copy())
            joins[0].set("this", first.copy())
            return True
    return False


@rule("say that its user is the outer row's")
def own_rows_only(refusal: Refusal) -> Iterator[str]:
    """Restrict a subquery to the person's own rows."""
    users = {t.name.lower(): t.user for t in refusal.catalog.tables if t.private}
    for i in range(len(selects(refusal.tree()))):
        tree = refusal.tree()
        select = selects(tree)[i]
        outer = select.parent_select
        inside, outside = (s.find(exp.From) if s is not None else None for s in (select, outer))
        if inside is None or outside is None or outer is None:
            continue
        own, others = inside.this, outside.this
        if not all(isinstance(t, exp.Table) and t.name.lower() in users for t in (own, others)):
            continue
        if own.alias_or_name.lower() == others.alias_or_name.lower():
            own.set("alias", exp.TableAlias(this=exp.to_identifier("own")))
        condition = (
            f"{own.alias_or_name}.{users[own.name.lower()]} = "
            f"{others.alias_or_name}.{users[others.name.lower()]}"
        )
        select.where(condition, copy=False, dialect=Dialect)
        yield refusal.written(tree)


@rule(r"^add PARTITION BY (\w+): each person's own rows")
def windows_by_user(refusal: Refusal) -> Iterator[str]:
    """Partition windows by user: all windows that allow it, or each one separately."""
    user, number = refusal.hint[1], len(list(refusal.tree().find_all(exp.Window)))
    distinct_on = refusal.tree()
    for select in selects(distinct_on):
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            distinct.args["on"].append("expressions", exp.column(user))
            yield refusal.written(distinct_on)
    for chosen in (range(number), *([i] for i in range(number))):
        tree = refusal.tree()
        windows = list(tree.find_all(exp.Window))
        for window in (windows[i] for i in chosen):
            parts = window.args.get("partition_by") or []
            if user not in {p.name for p in parts}:
                window.set("partition_by", [exp.column(user), *parts])
        yield refusal.written(tree)


@changes(r"^select (\w+) too: each value once a person")
def distinct_by_user(refusal: Refusal, tree: exp.Expr) -> bool:
    """Select the user in an inner SELECT DISTINCT."""
    inner = [s for s in selects(tree) if s is not tree and s.args.get("distinct")]
    for select in inner:
        if refusal.hint[1] not in {e.alias_or_name for e in select.expressions}:
            select.set("expressions", [exp.column(refusal.hint[1]), *select.expressions])
    return bool(inner)


@changes(r"or write UNION ALL$")
def every_row(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace UNION by UNION ALL."""
    unions = [u for u in tree.find_all(exp.Union) if u.args.get("distinct")]
    for union in unions:
        union.set("distinct", False)
    return bool(unions)


@rule("add it to GROUP BY")
def grouped(refusal: Refusal) -> Iterator[str]:
    """Group by an item that is neither a group key nor aggregated."""
    key = refusal.message.partition(" is neither")[0]
    for i in range(len(selects(refusal.tree()))):
        tree = refusal.tree()
        selects(tree)[i].group_by(key, copy=False, dialect=Dialect)
        yield refusal.written(tree)


@changes("use an aggregate: COUNT")
def counted(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count the rows instead of showing them."""
    if not isinstance(tree, exp.Select):
        return False
    tree.set("expressions", [parse_sql(f"SELECT {COUNTED}").expressions[0]])
    for place in ("group", "order", "limit", "offset", "distinct", "windows"):
        tree.set(place, None)
    return True


@changes("use GROUP BY and COUNT")
def distinct_counted(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count the rows of each value."""
    if not isinstance(tree, exp.Select):
        return False
    keys = [e.unalias().copy() for e in tree.expressions]
    tree.set("distinct", None)
    tree.group_by(*keys, copy=False).select(COUNTED, copy=False, dialect=Dialect)
    return True


@rule(r"^list them: WHERE (.*?) IN \(…\)")
def listed(refusal: Refusal) -> Iterator[str]:
    """List example values of a text or a number."""
    users = {t.user.lower() for t in refusal.catalog.private}
    if refusal.hint[1].lower() in users or not selects(refusal.tree()):  # it is a PIVOT
        return
    for values in ("'a', 'b'", "1, 2"):
        tree = refusal.tree()
        selects(tree)[0].where(f"{refusal.hint[1]} IN ({values})", copy=False, dialect=Dialect)
        yield refusal.written(tree)


@changes(r"^give a range: WHERE (.*) BETWEEN")
def within_days(refusal: Refusal, tree: exp.Expr) -> bool:
    """Add an example range of days."""
    selects(tree)[0].where(f"{refusal.hint[1]} BETWEEN {DAYS}", copy=False, dialect=Dialect)
    return True


@changes(r"^clamp it, as in SUM\((.*?\(x.*?\))\);")
def clamped(refusal: Refusal, tree: exp.Expr) -> bool:
    """Clamp the summed value, as the hint suggests."""
    found = re.match(r"\w+\((.*)\) has no public scale|sum of (.*) has no public", refusal.message)
    if found is None:
        return False
    term = parse_sql(found[1] or found[2]).sql()
    form = refusal.hint[1]

    def clamp(node: exp.Expr) -> object:
        if node.this is None or not isinstance(node.this, exp.Expr) or node.this.sql() != term:
            return None
        node.set("this", parse_sql(form.replace("x", node.this.sql("duckdb"), 1)))
        return node.copy()

    return replace_nodes(tree, exp.AggFunc, clamp)


@changes(r"^write (\w+\(.*\)) for (.+?)(?::|;|$)")
def written_for(refusal: Refusal, tree: exp.Expr) -> bool:
    """Write one expression in another's place, both as the hint has them."""
    new, old = refusal.hint[1], refusal.hint[2]
    return replace_nodes(tree, exp.Expr, lambda node: parse_sql(new) if said(node) == old else None)


@changes(r"^list the edges: (\w+\(.*?\]\));")
def with_edges(refusal: Refusal, tree: exp.Expr) -> bool:
    """Add example edges."""
    whole = parse_sql(refusal.hint[1])
    first = whole.expressions[0].sql()

    def binned(node: exp.Expr) -> object:
        called = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        kinds = exp.Median | exp.Quantile | exp.ApproxQuantile | exp.PercentileCont
        if called not in BINNED and not isinstance(node, kinds):
            return None
        argument = node.expressions[0] if called else node.this
        fits = argument.sql() == first and not _is_name(refusal, argument)
        return whole.copy() if fits else None

    return replace_nodes(tree, exp.Func, binned)


@changes(r"^use QUANTILE\(.*\), or COUNTIF|^use COUNTIF")
def as_quantile(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace one person's extreme value by a quantile near it and a count."""

    def instead(node: exp.Expr) -> object:
        if isinstance(node, exp.LogicalOr | exp.LogicalAnd):
            return parse_sql(f"countif({node.this.sql('duckdb')})")
        if isinstance(node, exp.Min | exp.Max) and not _is_name(refusal, node.this):
            share = 0.01 if isinstance(node, exp.Min) else 0.99
            return parse_sql(f"quantile({node.this.sql('duckdb')}, {share})")
        return None

    return replace_nodes(tree, exp.AggFunc, instead)


@changes(r"^(count\(DISTINCT \w+\))|(COUNT\(DISTINCT user\)) counts users")
def users_counted(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count people."""
    user = next(t.user for t in refusal.catalog.private)
    people = refusal.hint[1] or f"count(DISTINCT {user})"
    wanted = refusal.message.partition(")")[0].upper()

    def instead(node: exp.Expr) -> object:
        is_it = node.find(exp.Distinct) if refusal.hint[1] else wanted.startswith("SUM")
        return parse_sql(people) if is_it else None

    return replace_nodes(tree, exp.Count if refusal.hint[1] else exp.Sum, instead)


@changes("^leave DISTINCT out")
def without_distinct(refusal: Refusal, tree: exp.Expr) -> bool:
    """Sum all values instead of the distinct ones."""
    return replace_nodes(
        tree, exp.Distinct, lambda d: d.expressions[0].copy() if d.expressions else None
    )


@changes(r"use (COUNT), SUM or HISTOGRAM|use HISTOGRAM or (MEDIAN)|CAST them, or (count) instead")
def summarised(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace an unsupported aggregate by a supported summary."""
    name = next(filter(None, refusal.hint.groups())).lower()
    kinds = exp.ArrayAgg | exp.GroupConcat | exp.List | exp.First | exp.Last | exp.AnyValue
    numbers = exp.Sum | exp.Avg

    def instead(node: exp.Expr) -> object:
        if not isinstance(node, numbers if refusal.hint[3] else kinds):
            return None
        if refusal.hint[2] and _is_name(refusal, node.this):
            return None
        return parse_sql(f"{name}({node.this.sql('duckdb')})")

    return replace_nodes(tree, exp.Func, instead)


@changes("leave (TABLESAMPLE|the sampling|FOR UPDATE) out")
def without_sample(refusal: Refusal, tree: exp.Expr) -> bool:
    """Remove sampling and row locks."""
    for node in tree.find_all(exp.Table, exp.Select, exp.Subquery):
        node.set("sample", None)
        node.set("locks", None)
    return True


@changes("^leave it out")
def without_limit(refusal: Refusal, tree: exp.Expr) -> bool:
    """Remove LIMIT: its options, or all of it in subqueries."""
    inner = [s for s in selects(tree) if s is not tree]
    if "inside" not in refusal.message:
        inner, limit = [], tree.args.get("limit")
        if limit is not None:
            limit.set("limit_options", None)
    for select in inner:
        for place in ("limit", "offset", "order"):
            select.set(place, None)
    return True


@changes("^use WHERE")
def where_for_having(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace HAVING without groups by WHERE."""
    for select in selects(tree):
        having = select.args.get("having")
        if having is not None and not select.args.get("group"):
            select.set("having", None)
            select.where(having.this.copy(), copy=False)
    return True


@changes(r"^write (TIMESTAMP|TIMESTAMPTZ) '(.*)' for that moment", same=True)
def as_moment(refusal: Refusal, tree: exp.Expr) -> bool:
    """Mark a text as a moment, with the zone that it names."""
    kind, text = refusal.hint[1], refusal.hint[2].replace("''", "'")

    def typed(node: exp.Expr) -> object:
        cast = node.parent if isinstance(node.parent, exp.Cast) else None
        if node.this != text or not node.args.get("is_string"):
            return None
        if cast is not None:
            cast.set("to", exp.DataType.build(kind, dialect="duckdb"))
            return node.copy()
        return exp.cast(node.copy(), kind, dialect="duckdb")

    return replace_nodes(tree, exp.Literal, typed)


@changes("^write x BETWEEN a AND b OR", same=True)
def both_ways(refusal: Refusal, tree: exp.Expr) -> bool:
    """Rewrite BETWEEN SYMMETRIC as BETWEEN, once for each order of its ends."""

    def either(node: exp.Expr) -> object:
        if not node.args.get("symmetric"):
            return None
        node.set("symmetric", None)
        other = node.copy()
        other.set("low", node.args["high"].copy())
        other.set("high", node.args["low"].copy())
        return exp.paren(exp.or_(node.copy(), other))

    return replace_nodes(tree, exp.Between, either)


@changes("^cast to BOOLEAN, ")
def usual_type(refusal: Refusal, tree: exp.Expr) -> bool:
    """Cast to the nearest supported type."""
    bad = refusal.message.partition(" is not a type")[0]
    near = "TIMESTAMP" if bad.startswith("TIMESTAMP_") else "VARCHAR"
    for cast in tree.find_all(exp.Cast):
        if cast.to.sql("duckdb") == bad or not cast.to.this.name.isidentifier():
            cast.set("to", exp.DataType.build(near, dialect="duckdb"))
    return True


@changes("^LIMIT 10$")
def limit_of_ten(refusal: Refusal, tree: exp.Expr) -> bool:
    """Write LIMIT 10."""
    if not isinstance(tree, exp.Select):
        return False
    tree.limit(10, copy=False)
    return True


@changes(r"^ROUND\(x, 2\)$")
def two_decimals(refusal: Refusal, tree: exp.Expr) -> bool:
    """Round to two decimals."""
    for node in tree.find_all(exp.Round):
        node.set("decimals", exp.Literal.number(2))
    return True


@changes("^year, month, week, day, hour")
def months(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count time in months."""
    for node in tree.find_all(exp.TimestampTrunc, exp.DateTrunc):
        node.set("unit", exp.Var(this="MONTH"))
    for node in tree.find_all(exp.Extract):
        node.set("this", exp.Var(this="MONTH"))
    return True


@rule("send each SELECT by itself")
def first_alone(refusal: Refusal) -> Iterator[str]:
    """Ask the first question separately."""
    trees = sqlglot.parse(refusal.text, dialect=Dialect)
    yield from (tree.sql("duckdb", comments=False) for tree in trees[:1] if tree is not None)


@rule(r"^(OPTIONS\(sigma => 10\))$", same=True)
def options_written(refusal: Refusal) -> Iterator[str]:
    """Write options in the form that the hint gives."""
    yield re.sub(
        r"OPTIONS(\s*\((?:[^()]|\([^()]*\))*\)?)?",
        refusal.hint[1],
        refusal.text,
        count=1,
        flags=re.IGNORECASE,
    )


@rule(r"^for example (0\.\d+)$", same=True)
def usual_confidence(refusal: Refusal) -> Iterator[str]:
    """Set the default confidence."""
    yield re.sub(r"(confidence\s*=>?\s*)[^,)\s]+", rf"\g<1>{refusal.hint[1]}", refusal.text)


@rule("^give it once", same=True)
def once(refusal: Refusal) -> Iterator[str]:
    """Remove the second value of an option."""
    name = re.escape(refusal.message.partition(" is given")[0])
    yield re.sub(rf"({name}\s*=>?\s*[^,)\s]+)\s*,\s*{name}\s*=>?\s*[^,)\s]+", r"\1", refusal.text)
