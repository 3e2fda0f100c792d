"""The words a query may use. What is not listed is refused, with what to write instead.

A function is listed if it looks at one row only, has no side effect, reads nothing but its
arguments, can't use up memory, and has a value, NULL maybe, for every value of its arguments: it is
in the table of functions (`sparseq.query.functions`), or a form that `sparseq.query.typed` reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from sparseq.errors import QueryRefused, did_you_mean
from sparseq.query.functions import FUNCTIONS
from sparseq.query.limits import LIMITS
from sparseq.query.paired import PAIRED
from sparseq.query.spellings import BINARY, LISTED, NAMED, UNARY

_STRUCTURE = {
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Offset, exp.With, exp.CTE, exp.Subquery, exp.Table, exp.TableAlias, exp.Alias,
    exp.Identifier, exp.Column, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Var, exp.Paren,
    exp.Tuple, exp.Distinct, exp.Filter, exp.DataType, exp.DataTypeParam, exp.Interval,
    exp.Array, exp.Window, exp.WindowSpec, exp.Qualify, exp.Union, exp.Intersect, exp.Except,
}  # fmt: skip
_OPERATORS = {
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
    exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Between, exp.In, exp.Like, exp.ILike,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe,
    exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Cast, exp.TryCast,
    exp.Exists,
}  # fmt: skip
_SCALARS = {
    *BINARY, *UNARY, exp.Round, exp.Trunc, exp.Log, exp.Trim, exp.Substring, exp.Concat,
    exp.StrPosition, exp.Extract, exp.DateTrunc, exp.TimestampTrunc, exp.DateDiff, exp.DateAdd,
    exp.DateSub, exp.Date, exp.TsOrDsToDate, exp.DateFromParts, exp.CurrentDate, *LISTED,
    exp.JSONPath, exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript, exp.SHA2, exp.Pad,
    exp.RegexpLike, exp.RegexpFullMatch, exp.RegexpExtract, exp.RegexpReplace, exp.TimeToStr,
    exp.ToChar, exp.StrToTime, exp.DateBin, exp.WidthBucket, exp.ArraySize, exp.Split,
    exp.ConcatWs,
}  # fmt: skip
_AGGREGATES: set[type] = {
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Variance, exp.VariancePop,
    exp.Stddev, exp.StddevPop, exp.StddevSamp,
    exp.LogicalAnd, exp.LogicalOr, exp.ArgMax, exp.ArgMin, *PAIRED,
}  # fmt: skip
_WINDOWS = {
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue,
    exp.NthValue, exp.Ntile,
}  # fmt: skip
BINNED = frozenset(["histogram", "median", "quantile", "quantile_cont"])
"""Aggregates over declared bins; `sparseq.query.parse.Dialect` reads them with all arguments."""
_NAMED = BINNED | NAMED.keys() | {"date_part", "datepart", "date_sub", "datesub"}
_UNITS = frozenset(
    [
        "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DOW", "ISODOW",
        "DOY", "DAYOFWEEK", "DAYOFYEAR", "YEARS", "QUARTERS", "MONTHS", "WEEKS", "DAYS", "HOURS",
        "MINUTES", "SECONDS", "WEEKOFYEAR", "ISOYEAR", "EPOCH",
    ]
)  # fmt: skip
_TYPES = frozenset(
    [
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT",
        "UINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "TEXT", "VARCHAR", "DATE", "TIME",
        "TIMESTAMP", "TIMESTAMPNTZ", "UUID",
    ]
)  # fmt: skip
"""Types to cast to, by sqlglot's names; none loads an extension or depends on a time zone."""
_PARTS: dict[type, frozenset[str]] = {
    exp.Table: frozenset(["alias", "db", "catalog"]),
    exp.Subquery: frozenset(["alias"]),
    exp.Join: frozenset(["side", "kind", "method", "on", "using"]),
    exp.CTE: frozenset(["alias"]),
    exp.With: frozenset(["expressions"]),
    exp.TableAlias: frozenset(["columns"]),
    exp.Limit: frozenset(["expression"]),
    exp.Offset: frozenset(["expression"]),
    exp.Order: frozenset(["expressions"]),
    exp.Ordered: frozenset(["desc", "nulls_first"]),
    exp.Window: frozenset(["partition_by", "order", "spec", "over"]),
    exp.Column: frozenset(["table"]),
    exp.In: frozenset(["expressions", "query"]),
    exp.Cast: frozenset(["to", "safe"]),
    exp.TryCast: frozenset(["to", "safe"]),
    exp.Interval: frozenset(["unit"]),
    exp.Star: frozenset(["except_", "except"]),
    exp.Group: frozenset(["expressions"]),
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), frozenset(["expression", "distinct"])),
}
"""What these may have beside `this`; lowering reads all of it, and nothing else."""
MAX_CONCAT = 20
_OUTSIDE = ("read_", "glob", "duckdb_", "pragma_", "query")
_BECAUSE = {
    "joins": ("joins in parentheses are not answered", "write FROM a JOIN b ON … JOIN c ON …"),
    "sample": ("sampling rows ties users to each other", "leave the sampling out"),
    "recursive": ("WITH RECURSIVE is not answered", "write a subquery for each step"),
    "all": ("GROUP BY ALL is not answered", "name the keys"),
    "over": ("named windows are not answered", "write OVER (…)"),
    "alias": ("named windows are not answered", "write OVER (…)"),
    "db": ("a column has at most a table's name before it", "write table.column"),
}

ALLOWED: frozenset[type] = frozenset(_STRUCTURE | _OPERATORS | _SCALARS | _AGGREGATES | _WINDOWS)


def function_names() -> list[str]:
    """Return the functions and aggregates that a query may call, as they are written.

    Example:
        >>> names = function_names()
        >>> "count" in names, "median" in names, "date_trunc" in names, "random" in names
        (True, True, True, False)
    """
    calls = (_CALL.match(function.form) for function in FUNCTIONS)
    over_rows: set[type[exp.Func]] = _AGGREGATES | _WINDOWS
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
    exp.Escape: ("LIKE … ESCAPE is not answered", "use LIKE without ESCAPE"),
    exp.Cube: ("CUBE is not answered", "ask one GROUP BY at a time"),
    exp.Rollup: ("ROLLUP is not answered", "ask one GROUP BY at a time"),
    exp.GroupingSets: ("GROUPING SETS are not answered", "ask one GROUP BY at a time"),
    exp.ArrayAgg: ("lists of rows are never released", "use COUNT, SUM or HISTOGRAM"),
    exp.GroupConcat: ("lists of rows are never released", "use COUNT, SUM or HISTOGRAM"),
    exp.First: ("one person's value is never released", "use HISTOGRAM or MEDIAN"),
    exp.AnyValue: ("one person's value is never released", "use HISTOGRAM or MEDIAN"),
}  # fmt: skip


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
            if node.name.lower() not in _NAMED:
                raise _unknown(node.name)
        elif kind in _WHY:
            raise QueryRefused(*_WHY[kind])
        elif kind not in ALLOWED:
            raise _refused(node, text)
        _check_parts(node)
    selects = tree.find_all(exp.Select)
    LIMITS["joins"].check(sum(1 for _ in tree.find_all(exp.Join)), most)
    for select in selects:
        _check_clauses(select)


def _check_depth(tree: exp.Expr, most: Mapping[str, int]) -> None:
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in node.iter_expressions()], depth + 1
    LIMITS["depth"].check(depth, most)


def _check_parts(node: exp.Expr) -> None:
    known = _PARTS.get(type(node))
    if known is not None:
        for name, value in node.args.items():
            if value and name != "this" and name not in known:
                word = name.strip("_").replace("_", " ").upper()
                reason = (f"{word} is not answered here", "leave it out")
                raise QueryRefused(*_BECAUSE.get(name, reason))
    _check_unit(node.this if isinstance(node, exp.Extract) else node.args.get("unit"))
    if isinstance(node, exp.DataType) and not _is_plain(node):
        raise QueryRefused(
            f"{node.sql('duckdb')[:40]} is not a type of a column here",
            "cast to BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL, VARCHAR, DATE or TIMESTAMP",
        )
    if isinstance(node, exp.Ordered) and isinstance(node.this, exp.Var):
        raise QueryRefused("ORDER BY ALL is not answered", "name the columns")
    if isinstance(node, exp.Table) and node.alias_column_names:
        raise QueryRefused("a table's columns can't be renamed in FROM", "use SELECT … AS name")
    if isinstance(node, exp.Concat) and len(node.expressions) > MAX_CONCAT:
        raise QueryRefused(f"concat() has more than {MAX_CONCAT} arguments", "use fewer")


def _is_plain(type: exp.DataType) -> bool:
    name = type.this.value if isinstance(type.this, exp.DataType.Type) else str(type.this)
    parameters = all(isinstance(e, exp.DataTypeParam) for e in type.expressions)
    return name.upper() in _TYPES and parameters and not type.args.get("nested")


def _check_unit(unit: object) -> None:
    if unit is None:
        return
    if not isinstance(unit, exp.Var | exp.Literal) or unit.name.upper() not in _UNITS:
        shown = unit.sql("duckdb")[:40] if isinstance(unit, exp.Expr) else str(unit)
        raise QueryRefused(f"{shown} is not a unit of time", "year, month, week, day, hour, …")


def _check_clauses(select: exp.Select) -> None:
    known = {
        "expressions", "from_", "from", "joins", "where", "group", "having", "order", "limit",
        "offset", "with", "with_", "distinct", "qualify", "kind", "hint",
        "laterals", "operation_modifiers",
    }  # fmt: skip
    for name, value in select.args.items():
        if value and name not in known:
            raise QueryRefused(f"{name.upper().strip('_')} is not answered", "leave it out")
        if value and name in ("laterals", "hint", "kind"):
            raise QueryRefused(f"{name.upper()} is not answered", "leave it out")


def _unknown(name: str) -> QueryRefused:
    if name.lower().startswith(_OUTSIDE) or name.lower().endswith("_scan"):
        return QueryRefused(
            f"{name}() is not a table of the store", "FROM names the store's tables"
        )
    known = [*_NAMED, *(k.sql_name().lower() for k in ALLOWED if issubclass(k, exp.Func))]
    close = did_you_mean(name, known)
    hint = close if close.startswith("did") else "docs/sql.md lists the functions"
    return QueryRefused(f"function {name}() is not available", hint)


def _refused(node: exp.Expr, text: str) -> QueryRefused:
    inside = next((c for c in node.iter_expressions() if type(c) in _WHY), None)
    if inside is not None:
        return QueryRefused(*_WHY[type(inside)])
    if isinstance(node, exp.Func):
        written = text[node.meta.get("start", 0) : node.meta.get("end", -1) + 1]
        return _unknown(written if written.isidentifier() else node.sql_name().lower())
    shown = node.sql("duckdb") or node.key.upper()
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return QueryRefused(f"{shown!r} is not answered", "docs/sql.md says what a query may hold")
