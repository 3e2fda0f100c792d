"""The words that a query may use; others are refused, with a hint that names an alternative.

A function is allowed if it reads one row only, has no side effect, reads nothing but its arguments,
needs bounded memory, and has a value (or NULL) for every value of its arguments: it is in the table
of functions (`sparseq.language.functions`), or `sparseq.sql.bind_expressions` handles it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from sparseq.base.errors import QueryRefused, did_you_mean
from sparseq.language.functions import FUNCTIONS
from sparseq.question.limits import LIMITS
from sparseq.sql.aggregate_calls import BINNED, WINDOWED
from sparseq.sql.spellings import (
    OPERATORS,
    find_function,
    function_of,
    too_few,
)

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
"""Aggregates of two values, and the statistics that they compute."""
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
"""Types allowed in casts, by sqlglot's names; none depends on the reader's time zone."""
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
"""Arguments of these nodes besides `this`: the code that handles the node uses exactly these."""
_OPERANDS = "expression expressions"
"""Arguments of all other nodes, by position."""
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
"""Flags of DuckDB's dialect that sqlglot's parser sets; they do not depend on the query."""
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
"""Nodes that the rewrite rules replace."""
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
    """Return the names of the functions and aggregates that a query may call.

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
    """Check every node of the tree against the list of allowed words.

    Args:
        tree: A parsed query.
        text: The query's text.
        most: All limits, by name.

    Raises:
        QueryRefused: A node is not allowed, or a limit is exceeded.
    """
    check_depth(tree, most)
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


def check_depth(tree: exp.Expr, most: Mapping[str, int]) -> None:
    """Check the nesting depth of a query.

    Raises:
        QueryRefused: The depth exceeds the limit.
    """
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in node.iter_expressions()], depth + 1
    LIMITS["depth"].check(depth, most)


def check_written(tree: exp.Expr) -> None:
    """Check the nodes that rewriting replaces, so that no part of them is lost.

    Raises:
        QueryRefused: A part of the query would be lost.
    """
    for node in tree.walk():
        if isinstance(node, _BEFORE):
            _check_arguments(node)
        if (called := too_few(node)) is not None:
            raise QueryRefused(f"{called}() has too few arguments", "docs/sql.md lists functions")


def _check_arguments(node: exp.Expr) -> None:
    """Refuse a node that has an argument which no code reads."""
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
