"""ROLLUP, CUBE and GROUPING SETS as a UNION ALL of one SELECT per set.

A key that a set omits is NULL in the set's rows, and GROUPING(key) is 1. The positions of a key are
found once, for all sets: outside aggregates, by its expression or by the item of the SELECT list
that GROUP BY names. The inside of a key is not searched, so a key nested in another key stays
unchanged there.

Windows, DISTINCT, and an ORDER BY of anything but names apply to the rows of all sets. They are
computed over the UNION ALL, which has the keys and aggregates as columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import Catalog
from sparseq.sql.aggregate_calls import aggregates_in, check_distinct_order, is_aggregate

MAX_SETS = 32
Keys = tuple[exp.Expr, ...]
_PLACE = "the place of a key among the keys"
_AFTER = ("order", "limit", "offset")
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def without_sets(select: exp.Select, catalog: Catalog | None = None) -> exp.Expr:
    """Return a SELECT with grouping sets as a UNION ALL of one SELECT per set.

    Args:
        select: A SELECT; without grouping sets it is returned unchanged.
        catalog: The store's catalog: a name in GROUP BY means a column first, then an item's alias.

    Raises:
        QueryRefused: There are too many sets, or an expression may be one of several keys.

    Example:
        >>> from sqlglot import parse_one
        >>> q = parse_one("SELECT a, count(*) FROM t GROUP BY ROLLUP (a)", dialect="duckdb")
        >>> without_sets(q).sql("duckdb")
        'SELECT a, COUNT(*) FROM t GROUP BY a UNION ALL SELECT NULL AS a, COUNT(*) FROM t'
    """
    group = select.args.get("group")
    parts = list(group.expressions) if group is not None else []
    if not any(isinstance(p, _SETS) for p in parts):
        return select
    check_distinct_order(select)
    sets = [tuple(k for s in some for k in s) for some in product(*(_sets(p) for p in parts))]
    if len(sets) > MAX_SETS:
        raise QueryRefused(f"there are {len(sets)} grouping sets; the limit is {MAX_SETS}")
    keys = _GroupKeys(select, catalog)
    places = [[keys.place(k) for k in s] for s in sets]
    marked = keys.mark(select)
    outer = _over_all_sets(marked)
    branches = [_branch(marked, keys.known, s) for s in places]
    whole: exp.Expr = branches[0]
    for branch in branches[1:]:
        whole = exp.Union(this=whole, expression=branch, distinct=False)
    if outer is not None:
        alias = exp.TableAlias(this=exp.to_identifier(_ALL, quoted=True))
        outer.set("from_", exp.From(this=exp.Subquery(this=whole, alias=alias)))
        return outer
    if isinstance(whole, exp.SetOperation):
        for clause in ("with_", *_AFTER):
            whole.set(clause, marked.args.get(clause))
    return whole


def _sets(part: exp.Expr) -> list[Keys]:
    """Return the sets of keys that an item of GROUP BY denotes."""
    if isinstance(part, exp.Rollup):
        keys = [_keys(k) for k in part.expressions]
        return [_flat(keys[:n]) for n in range(len(keys), -1, -1)]
    if isinstance(part, exp.Cube):
        keys = [_keys(k) for k in part.expressions]
        return [_flat(some) for n in range(len(keys), -1, -1) for some in combinations(keys, n)]
    if isinstance(part, exp.GroupingSets):
        inner = part.expressions
        return [s for e in inner for s in (_sets(e) if isinstance(e, _SETS) else [_keys(e)])]
    return [(part,)]


def _keys(e: exp.Expr) -> Keys:
    return tuple(e.expressions) if isinstance(e, exp.Tuple) else (e.unnest(),)


def _flat(parts: Iterable[Keys]) -> Keys:
    return tuple(k for part in parts for k in part)


class _GroupKeys:
    """The keys of a SELECT's grouping sets, each with an index.

    Args:
        select: The SELECT.
        catalog: The store's catalog.

    Attributes:
        known: The expression of each key, by its index.
    """

    def __init__(self, select: exp.Select, catalog: Catalog | None) -> None:
        self._items = [e.unalias() for e in select.expressions]
        self._columns = {s.alias_or_name.lower(): _names_of(s, catalog) for s in _sources(select)}
        called = [e.alias_or_name.lower() for e in select.expressions if e.alias_or_name]
        if (twice := next((name for name in called if called.count(name) > 1), None)) is not None:
            raise QueryRefused(
                f"two columns of grouping sets are called {twice!r}", "rename one: … AS other"
            )
        self._names: dict[str, int] = {}
        for i, e in enumerate(select.expressions):
            if isinstance(e, exp.Alias):
                self._names.setdefault(e.alias.lower(), i)
        self._places: dict[int | str, int] = {}  # of an item of the list, or of an expression
        self._written: dict[str, set[int]] = {}
        self.known: list[exp.Expr] = []

    def place(self, key: exp.Expr) -> int:
        """Return the index of a key of GROUP BY; a new key gets the next index."""
        item = self._item(key)
        named = self._items[item] if item is not None else key.unnest()
        text = self._text(named)
        identity = text if item is None else item
        if identity not in self._places:
            self._places[identity] = len(self.known)
            self._written.setdefault(text, set()).add(len(self.known))
            self.known.append(named)
        return self._places[identity]

    def _item(self, key: exp.Expr) -> int | None:
        """Return the index of the SELECT item that a key names, by its number or its alias."""
        if isinstance(key, exp.Literal) and key.name.isdecimal():
            number = int(key.name) - 1
            return number if 0 <= number < len(self._items) else None
        return None if self._is_column(key) else self._alias(key)

    def _alias(self, e: exp.Expr) -> int | None:
        bare = isinstance(e, exp.Column) and not e.table
        return self._names.get(e.name.lower()) if bare else None

    def _is_column(self, e: exp.Expr) -> bool:
        found = e.name.lower() if isinstance(e, exp.Column) else ""
        own = self._alias(e)
        of_itself = own is not None and any(
            c.name.lower() == found for c in self._items[own].find_all(exp.Column)
        )
        return of_itself or any(found in names for names in self._columns.values())

    def _text(self, e: exp.Expr) -> str:
        """Return a text that is equal for equal expressions, however their columns are spelled."""

        def written_out(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            name, table = node.name.lower(), node.table.lower()
            having = [alias for alias, names in self._columns.items() if name in names]
            if not table and len(having) == 1:
                table = having[0]
            elif len(self._columns) == 1:
                (table,) = self._columns
            return exp.column(name, table or None, quoted=True)

        return e.copy().transform(written_out).sql("duckdb")

    def mark(self, select: exp.Select) -> exp.Select:
        """Return a copy in which each key has its index, and each GROUPING those of its keys."""
        copy = select.copy()
        for i, e in enumerate(copy.expressions):
            if i in self._places:
                e.unalias().meta[_PLACE] = self._places[i]
            else:
                self._mark(e)
        for clause in ("having", "qualify"):
            if (found := copy.args.get(clause)) is not None:
                self._mark(found.this, after=True)
        order = copy.args.get("order")
        for ordered in order.expressions if order is not None else []:
            by = ordered.this if isinstance(ordered, exp.Ordered) else ordered
            shown = {e.alias_or_name.lower() for e in copy.expressions}
            named = isinstance(by, exp.Column) and not by.table and by.name.lower() in shown
            if not named and not isinstance(by, exp.Literal):
                self._mark(by, after=True)
        return copy

    def _mark(self, e: exp.Expr, after: bool = False) -> None:
        """Mark the keys in an expression; if `after`, it may name items of the SELECT list."""
        if _is_grouping(e):
            e.meta[_PLACE] = [self._place_of(key) for key in e.expressions]
            return
        if isinstance(e, exp.Select | exp.SetOperation) or is_aggregate(e):
            return
        own, written = self._alias(e), self._written.get(self._text(e), set())
        if own is not None and self._is_column(e):
            if after and self._text(self._items[own]) != self._text(e):
                raise _open(e)
        elif own is not None and own in self._places:
            written = {self._places[own]}
        if len(written) > 1:
            raise _open(e)
        if written:
            e.meta[_PLACE] = next(iter(written))
            return
        for child in e.iter_expressions():
            self._mark(child, after)

    def _place_of(self, key: exp.Expr) -> int:
        item = self._item(key)
        if item is not None and item in self._places:
            return self._places[item]
        found = self._written.get(self._text(key.unnest()), set())
        if len(found) != 1:
            raise QueryRefused(f"{key.sql('duckdb')[:60]} is no group key", "name one of GROUP BY")
        return next(iter(found))


def _open(e: exp.Expr) -> QueryRefused:
    return QueryRefused(
        f"it is open which key {e.sql('duckdb')[:60]} is: two have this name or expression",
        "give each key and each item of the SELECT list a name of its own",
    )


def _is_grouping(e: exp.Expr) -> bool:
    return isinstance(e, exp.Grouping | exp.GroupingId)


def _branch(marked: exp.Select, known: list[exp.Expr], places: list[int]) -> exp.Select:
    """Return the SELECT of one set of keys."""
    branch = marked.copy()
    for clause in ("with_", *_AFTER):
        branch.set(clause, None)
    keys = [known[place].copy() for place in dict.fromkeys(places)]
    branch.set("group", exp.Group(expressions=keys) if keys else None)
    having = branch.args.get("having")
    for part in [*branch.expressions, *([having] if having is not None else [])]:
        for node in list(part.find_all(exp.Expr)):
            found = node.meta.get(_PLACE)
            if isinstance(found, list):
                bits = "".join("10"[place in places] for place in found)
                node.replace(exp.Literal.number(int(bits, 2)))
            elif found is not None and found not in places:
                is_item = node.parent is branch
                node.replace(exp.alias_(exp.null(), node.alias_or_name) if is_item else exp.null())
    if having is not None:
        _name_tables(having, branch)
    return branch


def _name_tables(having: exp.Expr, branch: exp.Select) -> None:
    """Let columns of a HAVING mean the rows' columns, and not items that are NULL in this set."""
    null = {e.alias.lower() for e in branch.expressions if isinstance(e.unalias(), exp.Null)}
    sources = _sources(branch)
    for column in having.find_all(exp.Column):
        if not column.table and column.name.lower() in null:
            if len(sources) != 1:
                raise _open(column)
            column.set("table", exp.to_identifier(sources[0].alias_or_name, quoted=True))


_ALL = "all sets"


def _over_all_sets(marked: exp.Select) -> exp.Select | None:
    """Return the SELECT over the rows of all sets, and leave only its columns in the marked one.

    Returns None, and leaves the SELECT unchanged, if no item needs the rows of all sets.
    """
    order = marked.args.get("order")
    after = [marked.args.get("qualify"), *(order.expressions if order is not None else [])]
    parts = [*marked.expressions, *(part for part in after if part is not None)]
    windows = any(part.find(exp.Window) for part in parts)
    more = order is not None and any(_is_lifted(node) for node in order.find_all(exp.Expr))
    plain = any(map(_aggregates, marked.expressions)) and not marked.args.get("distinct")
    if plain and not windows and not more:
        return None
    names: dict[int | str, str] = {}
    columns: list[exp.Expr] = []

    def column(e: exp.Expr) -> exp.Expr:
        if not _is_lifted(e):
            return e
        place = e.meta.get(_PLACE)
        identity = place if isinstance(place, int) else e.sql("duckdb")
        if identity not in names:
            names[identity] = f"c{len(names)}"
            columns.append(exp.alias_(e.copy(), names[identity], quoted=True))
        return exp.column(names[identity], _ALL, quoted=True)

    shown = [
        exp.alias_(e.unalias().copy().transform(column), e.alias_or_name or e.sql("duckdb"))
        for e in marked.expressions
    ]
    outer = exp.Select(expressions=shown)
    for clause in ("with_", "qualify", "distinct", *_AFTER):
        if (found := marked.args.get(clause)) is not None:
            outer.set(clause, found.copy().transform(column))
            marked.set(clause, None)
    if not any(map(_aggregates, columns)):  # the set without keys has one row
        columns.append(exp.alias_(exp.Count(this=exp.Star()), "c", quoted=True))
    marked.set("expressions", columns)
    return outer


def _aggregates(e: exp.Expr) -> list[exp.Expr]:
    return [found for found in aggregates_in(e) if not _is_grouping(found)]


def _is_lifted(e: exp.Expr) -> bool:
    return e.meta.get(_PLACE) is not None or is_aggregate(e)


def _sources(select: exp.Select) -> list[exp.Expr]:
    start = select.args.get("from_")
    joins = [join.this for join in select.args.get("joins") or []]
    return [*([start.this] if start is not None else []), *joins]


def _names_of(item: exp.Expr, catalog: Catalog | None) -> set[str]:
    """Return the names of the columns of an item of FROM, in lower case."""
    if isinstance(item, exp.Table):
        for around in _around(item):
            for cte in around.args["with_"].expressions if around.args.get("with_") else []:
                itself = any(inner is item for inner in cte.find_all(exp.Table))
                if cte.alias.lower() == item.name.lower() and not itself:
                    return _names_of(cte, catalog)
        tables = catalog.tables if catalog is not None else ()
        found = (t for t in tables if t.name.lower() == item.name.lower())
        return {c.name.lower() for t in found for c in t.columns}
    named = item.args.get("alias")
    if isinstance(named, exp.TableAlias) and named.columns:
        return {c.name.lower() for c in named.columns}
    inner = item.this if isinstance(item, exp.Subquery | exp.CTE | exp.Lateral) else None
    while isinstance(inner, exp.Subquery | exp.SetOperation):
        inner = inner.this
    names = set[str]()
    for e in inner.expressions if isinstance(inner, exp.Select) else []:
        if e.is_star and isinstance(inner, exp.Select):
            names |= {name for s in _sources(inner) for name in _names_of(s, catalog)}
        else:
            names.add(e.alias_or_name.lower())
    return names


def _around(e: exp.Expr) -> Iterable[exp.Expr]:
    """Yield the queries that contain an expression, innermost first."""
    at = e.find_ancestor(exp.Query)
    while at is not None:
        yield at
        at = at.find_ancestor(exp.Query)
