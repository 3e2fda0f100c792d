"""Ways to write a thing, brought to one, before anything is looked up.

Each rule gives a query that means the same in SQL, so that the rest needs to know one form only.

The words a query may use. What is not listed is refused, with what to write instead.

A function is listed if it looks at one row only, has no side effect, reads nothing but its
arguments, can't use up memory, and has a value, NULL maybe, for every value of its arguments: it is
in the table of functions (`sparseq.language.functions`), or a form that
`sparseq.sql.bind_expressions` reads.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sqlglot import exp

from sparseq.base.errors import QueryRefused, did_you_mean
from sparseq.language.functions import FUNCTIONS
from sparseq.sql.catalog import Catalog
from sparseq.sql.parsed_expressions import (
    BINNED,
    OPERATORS,
    WINDOWED,
    aggregates_in,
    conjuncts,
    find_function,
    function_of,
    moment_of,
    respelt,
    too_few,
    without_parentheses,
)
from sparseq.sql.plan import LIMITS
from sparseq.sql.select_rewrites import without_laterals, without_pivot, without_sets

# -- the words a query may use. What is not listed is refused, with what to write instead ----------

_STRUCTURE = {
    exp.Select,
    exp.From,
    exp.Join,
    exp.Where,
    exp.Group,
    exp.Having,
    exp.Order,
    exp.Ordered,
    exp.Limit,
    exp.Offset,
    exp.With,
    exp.CTE,
    exp.Subquery,
    exp.Table,
    exp.TableAlias,
    exp.Alias,
    exp.Identifier,
    exp.Column,
    exp.Star,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Var,
    exp.Paren,
    exp.Tuple,
    exp.Distinct,
    exp.Filter,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Array,
    exp.Window,
    exp.WindowSpec,
    exp.Qualify,
    exp.Union,
    exp.Intersect,
    exp.Except,
}
_OPERATORS = {
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Is,
    exp.Between,
    exp.In,
    exp.Like,
    exp.ILike,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Neg,
    exp.DPipe,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.Nullif,
    exp.Greatest,
    exp.Least,
    exp.Cast,
    exp.TryCast,
    exp.Exists,
    exp.Escape,
    exp.SimilarTo,
} | OPERATORS.keys()
_SCALARS = {
    exp.AtTimeZone,
    exp.UnixToTime,
    exp.Initcap,
    exp.Trim,
    exp.Concat,
    exp.Extract,
    exp.DateTrunc,
    exp.TimestampTrunc,
    exp.DateDiff,
    exp.DateAdd,
    exp.DateSub,
    exp.CurrentDate,
    exp.JSONPath,
    exp.JSONPathRoot,
    exp.JSONPathKey,
    exp.JSONPathSubscript,
    exp.SHA2,
    exp.Pad,
    exp.RegexpLike,
    exp.RegexpFullMatch,
    exp.RegexpExtract,
    exp.RegexpReplace,
    exp.TimeToStr,
    exp.ToChar,
    exp.StrToTime,
    exp.DateBin,
    exp.WidthBucket,
    exp.ArraySize,
    exp.Any,
    exp.Bracket,
    exp.Explode,
    exp.Split,
    exp.ConcatWs,
}
PAIRED: dict[type[exp.Expr], str] = {
    exp.Corr: "corr",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrCount: "regr_count",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
}
"""Aggregates of two values, and the statistics that they are."""
_AGGREGATES: set[type] = {
    exp.Count,
    exp.CountIf,
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.ArgMax,
    exp.ArgMin,
    exp.Mode,
    exp.First,
    exp.Last,
    exp.AnyValue,
    *PAIRED,
}
_NAMED = BINNED | {"date_part", "datepart", "date_sub", "datesub"}
_UNITS = frozenset(
    [
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
        "DOW",
        "ISODOW",
        "DOY",
        "DAYOFWEEK",
        "DAYOFYEAR",
        "YEARS",
        "QUARTERS",
        "MONTHS",
        "WEEKS",
        "DAYS",
        "HOURS",
        "MINUTES",
        "SECONDS",
        "WEEKOFYEAR",
        "ISOYEAR",
        "EPOCH",
        "DECADE",
        "CENTURY",
        "MILLENNIUM",
        "YEARWEEK",
    ]
)
_TYPES = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "INT128",
        "UTINYINT",
        "USMALLINT",
        "UINT",
        "UBIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "TEXT",
        "VARCHAR",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMPNTZ",
        "TIMESTAMPTZ",
        "UUID",
    ]
)
"""Types to cast to, by sqlglot's names; none depends on the time zone of a reader."""
_PARTS: dict[type, str] = {
    exp.Table: "alias db catalog",
    exp.Subquery: "alias",
    exp.Join: "side kind method on using",
    exp.CTE: "alias",
    exp.With: "expressions",
    exp.TableAlias: "columns",
    exp.Limit: "expression",
    exp.Offset: "expression",
    exp.Order: "expressions",
    exp.Ordered: "desc nulls_first",
    exp.Window: "partition_by order spec over",
    exp.WindowSpec: "kind exclude start start_side end end_side",
    exp.Column: "table",
    exp.In: "expressions query",
    exp.Cast: "to safe",
    exp.TryCast: "to safe",
    exp.Interval: "unit",
    exp.Star: "except_ except",
    exp.Group: "expressions",
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), "expression distinct"),
    exp.Select: "expressions from_ from joins where group having order limit offset with with_ "
    "distinct qualify",
    exp.Alias: "alias",
    exp.Distinct: "expressions on",
    exp.Literal: "is_string",
    exp.Between: "low high",
    exp.Like: "expression negate",
    exp.ILike: "expression negate",
    exp.Case: "ifs default",
    exp.If: "true false",
    exp.Round: "decimals",
    exp.Trunc: "decimals",
    exp.Log: "expression",
    exp.Trim: "expression position",
    exp.Substring: "start length",
    exp.StrPosition: "substr",
    exp.DateTrunc: "unit",
    exp.TimestampTrunc: "unit",
    exp.DateDiff: "expression unit",
    exp.DateAdd: "expression unit",
    exp.DateSub: "expression unit",
    exp.DateFromParts: "year month day",
    exp.TimestampFromParts: "year month day hour min sec",
    exp.UnixToTime: "scale",
    exp.AtTimeZone: "zone",
    exp.Repeat: "times",
    exp.Fetch: "direction count limit_options",
    exp.LimitOptions: "rows",
    exp.SplitPart: "delimiter part_index",
    exp.Replace: "expression replacement",
    exp.Translate: "from_ to",
    exp.Pad: "expression is_left fill_pattern",
    exp.RegexpLike: "expression flag",
    exp.RegexpFullMatch: "expression options",
    exp.RegexpExtract: "expression group",
    exp.RegexpReplace: "expression replacement modifiers",
    exp.TimeToStr: "format",
    exp.ToChar: "format",
    exp.StrToTime: "format",
    exp.DateBin: "expression",
    exp.WidthBucket: "min_value max_value num_buckets",
    exp.Min: "count",
    exp.Max: "count",
    exp.ArgMin: "expression count",
    exp.ArgMax: "expression count",
    exp.Lag: "offset default",
    exp.Lead: "offset default",
    exp.NthValue: "offset",
    exp.SHA2: "length",
    exp.Lateral: "alias",
    exp.Pivot: "expressions using group",
    exp.ApproxQuantile: "quantile",
    exp.WithinGroup: "expression",
    exp.GroupingSets: "expressions",
    **dict.fromkeys((exp.ApproxDistinct, exp.CurrentDate, exp.CurrentTimestamp), ""),
}
"""Arguments of these beside `this`; who reads such a node reads all of it, and nothing else."""
_OPERANDS = "expression expressions"
"""Arguments of any other, by place."""
_DIALECT: dict[type, str] = {
    exp.Array: "bracket_notation",
    exp.Coalesce: "is_nvl is_null",
    exp.Concat: "coalesce safe",
    exp.ConcatWs: "coalesce safe",
    exp.Count: "big_int",
    exp.DPipe: "safe",
    exp.DateDiff: "date_part_boundary",
    exp.Div: "typed safe",
    exp.Greatest: "ignore_nulls",
    exp.Identifier: "quoted",
    exp.JSONExtractScalar: "scalar_only",
    exp.JSONPathKey: "quoted",
    exp.Least: "ignore_nulls",
    exp.Pivot: "identify_pivot_strings prefixed_pivot_columns pivot_column_naming",
    exp.RegexpExtract: "null_if_pos_overflow",
    exp.RegexpReplace: "single_replace",
}
"""Notes of DuckDB's parser on its dialect: they are the same whatever a query says."""
_BEFORE = (
    exp.Lateral,
    exp.Limit,
    exp.Fetch,
    exp.LimitOptions,
    exp.Pivot,
    exp.PercentileDisc,
    exp.ApproxDistinct,
    exp.ApproxQuantile,
    exp.WithinGroup,
    exp.GroupingSets,
    exp.CurrentDate,
    exp.CurrentTimestamp,
)
"""Nodes that the rules below replace."""
MAX_CONCAT = 20
_OUTSIDE = ("read_", "glob", "duckdb_", "pragma_", "query")
_BECAUSE = {
    "symmetric": (
        "BETWEEN SYMMETRIC is not answered",
        "write x BETWEEN a AND b OR x BETWEEN b AND a",
    ),
    "joins": ("joins in parentheses are not answered", "write FROM a JOIN b ON … JOIN c ON …"),
    "locks": ("rows can't be locked", "leave FOR UPDATE out"),
    "unpivot": ("UNPIVOT is not answered", "docs/sql.md says what a query may hold"),
    "sample": ("sampling rows ties users to each other", "leave the sampling out"),
    "recursive": ("WITH RECURSIVE is not answered", "write a subquery for each step"),
    "all": ("GROUP BY ALL is not answered", "name the keys"),
    "over": ("named windows are not answered", "write OVER (…)"),
    "alias": ("named windows are not answered", "write OVER (…)"),
    "db": ("a column has at most a table's name before it", "write table.column"),
}

_TABLE = {kind for kind in exp.ALL_FUNCTIONS if function_of(kind)}
ALLOWED: frozenset[type] = frozenset(
    _STRUCTURE | _OPERATORS | _SCALARS | _TABLE | _AGGREGATES | {*WINDOWED}
)


def function_names() -> list[str]:
    """Return the functions and aggregates that a query may call, as they are written.

    Example:
        >>> names = function_names()
        >>> "count" in names, "median" in names, "date_trunc" in names, "random" in names
        (True, True, True, False)
    """
    calls = (_CALL.match(function.form) for function in FUNCTIONS)
    over_rows: set[type[exp.Func]] = _AGGREGATES | {*WINDOWED}
    aggregates = (one.sql_names()[0].lower() for one in over_rows)
    found = {*(call[1] for call in calls if call), *aggregates, *BINNED, *_FORMS}
    return sorted(found - {"logical_and", "logical_or"})


_CALL = re.compile(r"([a-z]\w*)\(")
_FORMS = ("cast", "coalesce", "concat", "greatest", "if", "least", "nullif", "bool_and", "bool_or")

_WHY: dict[type, tuple[str, str]] = {
    exp.TableSample: ("sampling rows ties users to each other", "leave TABLESAMPLE out"),
    exp.Rand: ("random() would make the answer's error unknown", "the noise is added for you"),
    exp.Placeholder: ("the query has a parameter without a value", "write it, or give params"),
    exp.Parameter: ("the query has a parameter without a value", "write it, or give params"),
    exp.SessionParameter: ("settings can't be read", "leave it out"),
    exp.Command: ("this is not a query", "only SELECT is answered"),
    exp.Lambda: ("functions of rows can't be written in a query", "use CASE"),
    exp.ApproxDistinct: (
        "distinct values other than users can't be counted privately",
        "count(DISTINCT user) is answered; group by the column with a public domain",
    ),
    exp.Cube: ("CUBE is not answered", "ask one GROUP BY at a time"),
    exp.Rollup: ("ROLLUP is not answered", "ask one GROUP BY at a time"),
    exp.GroupingSets: ("GROUPING SETS are not answered", "ask one GROUP BY at a time"),
    exp.ArrayAgg: ("lists of rows are never released", "use COUNT, SUM or HISTOGRAM"),
    exp.GroupConcat: ("lists of rows are never released", "use COUNT, SUM or HISTOGRAM"),
}


def check_allowed(tree: exp.Expr, text: str, most: Mapping[str, int]) -> None:
    """Check every node of the tree against the list.

    Args:
        tree: A parsed query.
        text: What it was parsed from.
        most: Every limit, by name.

    Raises:
        QueryRefused: One is not on it, or there are too many.
    """
    _check_depth(tree, most)
    for node in tree.walk():
        kind = type(node)
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            if name not in _NAMED and name != "age" and not find_function(name):
                raise _unknown(node.name)
        elif kind in _WHY:
            raise QueryRefused(*_WHY[kind])
        elif kind not in ALLOWED:
            raise _refusal(node, text)
        _check_parts(node)
    LIMITS["joins"].check(sum(1 for _ in tree.find_all(exp.Join)), most)


def _check_depth(tree: exp.Expr, most: Mapping[str, int]) -> None:
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in node.iter_expressions()], depth + 1
    LIMITS["depth"].check(depth, most)


def check_written(tree: exp.Expr) -> None:
    """Check what rewriting will read, and put something else in the place of: nothing is lost.

    Raises:
        QueryRefused: A part of the query would be.
    """
    for node in tree.walk():
        if isinstance(node, _BEFORE):
            _check_arguments(node)
        if (called := too_few(node)) is not None:
            raise QueryRefused(f"{called}() has too few arguments", "docs/sql.md lists functions")


def _check_arguments(node: exp.Expr) -> None:
    """Refuse a node that has something which nobody reads."""
    known = f"this {_PARTS.get(type(node), _OPERANDS)} {_DIALECT.get(type(node), '')}".split()
    for name, value in node.args.items():
        if value and name not in known:
            word = name.strip("_").replace("_", " ").upper()
            reason = (f"{word} is not answered here", "leave it out")
            raise QueryRefused(*_BECAUSE.get(name, reason))


def _check_parts(node: exp.Expr) -> None:
    if not isinstance(node, exp.DataType):
        _check_arguments(node)
    _check_unit(node.this if isinstance(node, exp.Extract) else node.args.get("unit"))
    if isinstance(node, exp.DataType) and not _is_plain(node):
        raise QueryRefused(
            f"{node.sql('duckdb')[:40]} is not a type of a column here",
            "cast to BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL, VARCHAR, DATE or TIMESTAMP",
        )
    if isinstance(node, exp.Star) and node.parent_select is not node.parent:
        parts = [name for name, value in node.args.items() if value]
        if parts:
            word = parts[0].strip("_").upper()
            raise QueryRefused(f"{word} is not answered here", "leave it out")
    if isinstance(node, exp.Ordered) and isinstance(node.this, exp.Var):
        raise QueryRefused("ORDER BY ALL is not answered", "name the columns")
    if isinstance(node, exp.Table) and node.alias_column_names:
        raise QueryRefused("a table's columns can't be renamed in FROM", "use SELECT … AS name")
    if isinstance(node, exp.Concat) and len(node.expressions) > MAX_CONCAT:
        raise QueryRefused(f"concat() has more than {MAX_CONCAT} arguments", "use fewer")


def _is_plain(type: exp.DataType) -> bool:
    name = type.this.value if isinstance(type.this, exp.DataType.Type) else str(type.this)
    parameters = all(isinstance(e, exp.DataTypeParam) for e in type.expressions)
    others = any(value for key, value in type.args.items() if key not in ("this", "expressions"))
    return name.upper() in _TYPES and parameters and not others


def _check_unit(unit: object) -> None:
    if unit is None:
        return
    if not isinstance(unit, exp.Var | exp.Literal) or unit.name.upper() not in _UNITS:
        shown = unit.sql("duckdb")[:40] if isinstance(unit, exp.Expr) else str(unit)
        raise QueryRefused(f"{shown} is not a unit of time", "year, month, week, day, hour, …")


def _unknown(name: str) -> QueryRefused:
    if name.lower().startswith(_OUTSIDE) or name.lower().endswith("_scan"):
        return QueryRefused(
            f"{name}() is not a table of the store", "FROM names the store's tables"
        )
    known = [*_NAMED, *(f.name for f in FUNCTIONS if f.name.isidentifier())]
    known += [k.sql_name().lower() for k in ALLOWED if issubclass(k, exp.Func)]
    close = did_you_mean(name, known)
    hint = close if close.startswith("did") else "docs/sql.md lists the functions"
    return QueryRefused(f"function {name}() is not available", hint)


def _refusal(node: exp.Expr, text: str) -> QueryRefused:
    inside = next((c for c in node.iter_expressions() if type(c) in _WHY), None)
    if inside is not None:
        return QueryRefused(*_WHY[type(inside)])
    if isinstance(node, exp.Func):
        written = text[node.meta.get("start", 0) : node.meta.get("end", -1) + 1]
        return _unknown(written if written.isidentifier() else node.sql_name().lower())
    shown = node.sql("duckdb") or node.key.upper()
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return QueryRefused(f"{shown!r} is not answered", "docs/sql.md says what a query may hold")


# -- ways to write a thing, brought to one, before anything is looked up ---------------------------


def rewritten(tree: exp.Expr, catalog: Catalog | None = None) -> exp.Expr:
    """Return a query in the forms that lowering reads.

    Example:
        >>> from sqlglot import parse_one
        >>> rewritten(parse_one("SELECT a, count(*) FROM t GROUP BY ALL")).sql()
        'SELECT a, COUNT(*) FROM t GROUP BY a'
    """
    if isinstance(tree, exp.Pivot):
        tree = without_pivot(tree, catalog)
    for node in reversed(list(tree.walk())):  # what is inside comes first
        if (done := respelt(node)) is not node:
            node.replace(done)
    tree = tree.transform(_node, copy=False)
    for select in _selects_with(tree, exp.Rollup, exp.Cube, exp.GroupingSets):
        whole = without_sets(select)
        if select is tree:
            tree = whole
        elif whole is not select:
            select.replace(_select(whole))
    for select in _selects_with(tree, exp.Array):
        _quantile_lists(select)
    for select in list(tree.find_all(exp.Select)):
        for rule in _RULES:
            rule(select)
    return _select(tree)


def _selects_with(tree: exp.Expr, *kinds: type[exp.Expr]) -> list[exp.Select]:
    """Return the SELECTs that have such an expression in them."""
    return [s for s in tree.find_all(exp.Select) if s.find(*kinds) is not None]


def _select(tree: exp.Expr) -> exp.Expr:
    """Return a set operation as SELECT * FROM it; its ORDER BY and LIMIT are the SELECT's."""
    if not isinstance(tree, exp.SetOperation):
        return tree
    select = exp.select("*").from_(exp.Subquery(this=tree, alias=_name("united")))
    for clause in ("with_", "order", "limit", "offset"):
        select.set(clause, tree.args.get(clause))
        tree.set(clause, None)
    return select


def _name(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))


def _node(node: exp.Expr) -> exp.Expr:
    """Rewrite one node: quantiles, people counted roughly, and the day and time of the query."""
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(dt.date.today().isoformat()), "DATE")
    if _is_now(node):
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
        return exp.cast(exp.Literal.string(now.isoformat(" ")), "TIMESTAMPTZ")
    if isinstance(node, exp.ApproxDistinct):
        return exp.Count(this=exp.Distinct(expressions=[node.this]))
    if isinstance(node, exp.ApproxQuantile):
        return _quantile("quantile", node.this, node.args["quantile"])
    if isinstance(node, exp.PercentileDisc) and node.expression is not None:
        return _quantile("quantile", node.this, node.expression)
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, _PERCENTILES):
        (ordered,) = node.expression.expressions
        if not ordered.args.get("desc"):
            exact = isinstance(node.this, exp.PercentileDisc)
            return _quantile("quantile" if exact else "quantile_cont", ordered.this, node.this.this)
    if isinstance(node, exp.Table | exp.Column) and node.db.lower() == "main" and not node.catalog:
        node.set("db", None)
    if (other := moment_of(node)) is not None:
        return other
    if type(node) in _COMPARED:
        return _without_interval(node)
    return node


_PERCENTILES = (exp.PercentileCont, exp.PercentileDisc)


def _is_now(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() in (
        "now",
        "get_current_timestamp",
    )
    return named or isinstance(node, exp.CurrentTimestamp)


def _quantile(name: str, value: exp.Expr, share: exp.Expr) -> exp.Expr:
    assert name in BINNED
    return exp.Anonymous(this=name, expressions=[value, share])


_COMPARED: dict[type, type] = {exp.GT: exp.GT, exp.GTE: exp.GTE, exp.LT: exp.LT, exp.LTE: exp.LTE}
_FLIPPED: dict[type, type] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def _without_interval(e: exp.Expr) -> exp.Expr:
    """Write a - b > INTERVAL 3 HOUR as a > b + INTERVAL 3 HOUR."""
    kind, difference, interval = type(e), _bare(e.this), _bare(e.expression)
    if isinstance(difference, exp.Interval):
        kind, difference, interval = _FLIPPED[kind], interval, difference
    if not isinstance(interval, exp.Interval) or not isinstance(difference, exp.Sub):
        return e
    later = exp.Add(this=difference.expression, expression=interval)
    return kind(this=difference.this, expression=later)


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


# -- rules for one SELECT --------------------------------------------------------------------------


def _name_windows(select: exp.Select) -> None:
    """WINDOW w AS (…): put where it is named."""
    named = {w.this.name.lower(): w for w in select.args.get("windows") or []}
    if not named:
        return
    for window in list(select.find_all(exp.Window)):
        alias = window.args.get("alias")
        known = named.get(alias.name.lower()) if alias is not None else None
        if alias is not None and known is not None:
            for part in ("partition_by", "order", "spec"):
                value, own = known.args.get(part), window.args.get(part)
                if own and value:
                    raise QueryRefused(f"window {alias.name} has {part} already", "leave it out")
                if own:
                    continue
                copied = [v.copy() for v in value] if isinstance(value, list) else value
                window.set(part, copied.copy() if isinstance(copied, exp.Expr) else copied)
            window.set("alias", None)
    select.set("windows", None)


def _group_by_all(select: exp.Select) -> None:
    """GROUP BY ALL, ORDER BY ALL: by what is selected and not aggregated; by every column."""
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and group.args.get("all"):
        plain = [e.unalias() for e in select.expressions if not _of_rows(e)]
        select.set("group", exp.Group(expressions=[e.copy() for e in plain]) if plain else None)
    if order is not None and len(order.expressions) == 1:
        (ordered,) = order.expressions
        if isinstance(ordered.this, exp.Var | exp.Column) and ordered.this.name.upper() == "ALL":
            places = [str(i + 1) for i in range(len(select.expressions))]
            by = [_order(ordered, exp.Literal.number(place)) for place in places]
            select.set("order", exp.Order(expressions=by))


def _order(like: exp.Expr, this: exp.Expr) -> exp.Ordered:
    copy = like.copy()
    copy.set("this", this)
    assert isinstance(copy, exp.Ordered)
    return copy


def _of_rows(e: exp.Expr) -> bool:
    """Tell whether an expression is of several rows."""
    return bool(aggregates_in(e)) or e.find(exp.Window) is not None


_SHARES = ("quantile", "quantile_cont")


def _quantile_lists(select: exp.Select) -> None:
    """quantile_cont(x, [0.25, 0.5]) AS q: a column each, q_25 and q_50."""
    shown = []
    for e in select.expressions:
        call = e.unalias()
        named = isinstance(call, exp.Anonymous) and call.name.lower() in _SHARES
        listed = call.expressions[1:2] if named else []
        if not listed or not isinstance(listed[0], exp.Array):
            shown.append(e)
            continue
        value, shares, *edges = call.expressions
        for share in shares.expressions:
            percent = f"{round(100 * float(share.name), 6):g}" if share.is_number else "?"
            parts = [value.copy(), share.copy(), *(edge.copy() for edge in edges)]
            one = exp.Anonymous(this=call.this, expressions=parts)
            name = f"{e.alias or call.name.lower()}_{percent.replace('.', '_')}"
            shown.append(exp.alias_(one, name, quoted=True))
    select.set("expressions", shown)


def _semi_joins(select: exp.Select) -> None:
    """SEMI and ANTI JOIN: a condition, EXISTS or NOT EXISTS."""
    kept = []
    for join in select.args.get("joins") or []:
        kind = (join.kind or join.side or "").upper()
        if kind not in ("SEMI", "ANTI") or join.method:
            kept.append(join)
            continue
        on, using = join.args.get("on"), join.args.get("using")
        if using:
            first = select.args["from_"].this.alias_or_name
            pairs = [
                exp.EQ(
                    this=exp.column(u.name, first),
                    expression=exp.column(u.name, join.alias_or_name),
                )
                for u in using
            ]
            on = exp.and_(*pairs)
        if on is None:
            raise QueryRefused(f"{kind} JOIN has no condition", "write ON a.x = b.x")
        inside = exp.select("1").from_(join.this.copy()).where(on.copy())
        exists = exp.Exists(this=inside)
        select.where(exists if kind == "SEMI" else exp.Not(this=exists), copy=False)
    select.set("joins", kept or None)


def _right_joins(select: exp.Select) -> None:
    """a RIGHT JOIN b: b LEFT JOIN a."""
    joins = select.args.get("joins") or []
    if joins and (joins[0].side or "").upper() == "RIGHT" and not select.is_star:
        first, join = select.args["from_"], joins[0]
        other = first.this
        first.set("this", join.this)
        join.set("this", other)
        join.set("side", "LEFT")


_LEAST_OR_MOST: dict[type, tuple[type, ...]] = {
    exp.NEQ: (exp.Min, exp.Max),
    exp.LT: (exp.Min,),
    exp.LTE: (exp.Min,),
    exp.GT: (exp.Max,),
    exp.GTE: (exp.Max,),
}
"""There is a value that compares so with another, iff the least or the greatest does."""


def _compared_rows(select: exp.Select) -> None:
    """EXISTS (… FROM t WHERE t.k = o.k AND t.x <> o.x): min(t.x) <> o.x OR max(t.x) <> o.x.

    Where no row of t is left, or no x is known, it is not known, and no such row exists.
    """
    for exists in list(select.find_all(exp.Exists)):
        inside = exists.this
        plain = {"expressions", "from_", "where"} >= {k for k, v in inside.args.items() if v}
        whole = not plain or "where" not in inside.args or any(map(_of_rows, inside.expressions))
        if exists.parent_select is not select or whole:
            continue
        rows, parts = inside.args["from_"].this, conjuncts(inside.args["where"].this)
        name = rows.alias_or_name.lower()
        compared = [c for c in map(partial(_inside_first, name), parts) if c is not None]
        if len(compared) != 1:
            continue
        written, found = compared[0]
        rest = [part for part in parts if part is not written]
        held = [
            type(found)(
                this=exp.Subquery(this=exp.select(kind(this=found.this)).from_(rows).where(*rest)),
                expression=found.expression.copy(),
            )
            for kind in _LEAST_OR_MOST[type(found)]
        ]
        exists.replace(exp.Coalesce(this=exp.paren(exp.or_(*held)), expressions=[exp.false()]))


def _inside_first(name: str, part: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return a comparison of a column of `name` with another's: as written, and that first."""
    if type(part) not in _LEAST_OR_MOST:
        return None
    sides = part.this, part.expression
    tables = [s.table.lower() if isinstance(s, exp.Column) else "" for s in sides]
    if not all(tables) or (tables[0] == name) == (tables[1] == name):
        return None
    if tables[0] == name:
        return part, part
    kind = exp.NEQ if isinstance(part, exp.NEQ) else _FLIPPED[type(part)]
    return part, kind(this=sides[1], expression=sides[0])


def _common_conditions(select: exp.Select) -> None:
    """WHERE a AND b OR a AND c: a AND (b OR c), so that a join's equalities are seen."""
    for clause in [select.args.get("where"), *(select.args.get("joins") or [])]:
        place = "on" if isinstance(clause, exp.Join) else "this"
        for condition in conjuncts(clause and clause.args.get(place)):
            if isinstance(condition, exp.Or):
                condition.replace(exp.paren(_factor(condition), copy=False))


def _factor(either: exp.Or) -> exp.Expr:
    branches = [conjuncts(b) for b in either.flatten()]
    first, *others = branches
    common = [c for c in first if all(c in branch for branch in others)]
    rest = [[c for c in branch if c not in common] for branch in branches]
    if not common or not all(rest):  # one branch is the common part: it says it all
        return exp.and_(*common) if common else either
    return exp.and_(*common, exp.or_(*(exp.and_(*branch) for branch in rest)))


def _qualify(select: exp.Select) -> None:
    """QUALIFY: refused without a window, as it is in SQL."""
    qualify = select.args.get("qualify")
    if qualify and not any(e.find(exp.Window) for e in [qualify, *select.expressions]):
        raise QueryRefused(
            "QUALIFY is about a window function, and there is none",
            "write HAVING, or WHERE outside",
        )


_UNNEST = "unnest"
"""The column of a list's values, where nothing else is said."""


def _unnest_beside(select: exp.Select) -> None:
    """FROM t, unnest(t.tags) AS u(tag): FROM (SELECT *, unnest(tags) AS tag FROM t) AS t.

    And SELECT unnest(tags) AS tag, count(*) FROM t GROUP BY tag: likewise.
    """
    if select.find(exp.Unnest, exp.Explode) is None:
        return
    start = select.args.get("from_")
    for join in list(select.args.get("joins") or []):
        lists, name = _lists_of(join.this)
        if not lists:
            continue
        on = join.args.get("on")
        plain = (
            join.side == "" and join.kind in ("", "CROSS", "INNER") and not join.args.get("using")
        )
        always = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
        if len(lists) > 1 or not plain or not always or join.this.args.get("offset"):
            raise QueryRefused(
                "a list is unnested beside its own table", "FROM t, unnest(t.tags) AS u(tag)"
            )
        assert start is not None
        called = join.this.alias_or_name
        before = [start.this, *(j.this for j in select.args["joins"] if j is not join)]
        table = _with_values(before, lists[0], name)
        for column in select.find_all(exp.Column):
            if column.name.lower() == name.lower() and column.table in ("", called):
                column.set("table", exp.to_identifier(table))
        select.args["joins"].remove(join)
    found = [x for e in select.expressions for x in e.find_all(exp.Explode)]
    grouped = select.args.get("group") or any(map(_of_rows, select.expressions))
    for explode in found if start is not None and grouped and len(found) == 1 else []:
        name = explode.parent.alias if isinstance(explode.parent, exp.Alias) else _UNNEST
        table = _with_values([start.this], explode.this, name) if start is not None else ""
        column = exp.column(name, table)
        explode.replace(column)
        group = select.args.get("group")
        for key in [k for k in group.expressions if k == explode] if group is not None else []:
            key.replace(column.copy())


def _lists_of(item: exp.Expr) -> tuple[list[exp.Expr], str]:
    """Return what an item of FROM unnests, and the name of its values; []: it is no such item."""
    inner, alias = item, item.args.get("alias")
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    if isinstance(item, exp.Lateral):
        inner = item.this
    if isinstance(inner, exp.Unnest):
        return list(inner.expressions), columns[0].name if columns else _UNNEST
    shown = inner.this.expressions if isinstance(inner, exp.Subquery) else []
    bare = isinstance(item, exp.Lateral) and len(shown) == 1 and not inner.this.args.get("from_")
    if not bare or not isinstance(shown[0].unalias(), exp.Explode):
        return [], ""
    return [shown[0].unalias().this], (columns[0].name if columns else shown[0].alias) or _UNNEST


def _with_values(items: Sequence[exp.Expr], of: exp.Expr, name: str) -> str:
    """Give the item that a list is a column of the list's values; return what it is called."""
    column = of.unnest()
    table = column.table.lower() if isinstance(column, exp.Column) else " "
    named = [i for i in items if table in (i.alias_or_name.lower(), "" if not items[1:] else None)]
    if len(named) != 1 or not isinstance(named[0], exp.Table | exp.Subquery):
        raise QueryRefused(
            f"{of.sql('duckdb')[:60]} is not a column of one table here",
            "unnest a list of a table by its name: FROM t, unnest(t.tags) AS u(tag)",
        )
    (item,), called = named, named[0].alias_or_name
    values = exp.alias_(exp.Explode(this=exp.column(column.name)), name)
    inner = exp.select("*", values).from_(item.copy())
    alias = exp.TableAlias(this=exp.to_identifier(called))
    item.replace(exp.Subquery(this=inner, alias=alias))
    return str(called)


_RULES: list[Callable[[exp.Select], object]] = [
    without_parentheses,
    _unnest_beside,
    lambda select: select.find(exp.Lateral) and without_laterals(select),
    _name_windows,
    _group_by_all,
    _semi_joins,
    _right_joins,
    _common_conditions,
    _compared_rows,
    _qualify,
]
