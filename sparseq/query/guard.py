"""What could fail on a row, and how it is kept from raising: an error would tell of the row.

DuckDB's TRY turns a failure into NULL, but DuckDB's optimiser moves parts that occur twice out of
it (common subexpressions), and lists behind IN into joins. Out of the branches of a CASE nothing
may be moved, so `guarded` puts both around, and IN becomes OR. What can't fail is left bare, so
that DuckDB can use it to skip rows: comparisons of a column with constants that fit its type.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from sparseq.errors import QueryRefused
from sparseq.query.catalog import INTEGER_TYPES

MAX_GUARDED_LIST = 1000
MAX_TEXT = 1000
"""Text made by a query is cut to so many characters."""
_LONGEST_NUMBER = 15
_INTEGERS = INTEGER_TYPES - {"HUGEINT"}
_FLOATS = frozenset(["FLOAT", "DOUBLE"])
_STEADY = _INTEGERS | _FLOATS | {"DATE", "TIMESTAMP", "VARCHAR", "BOOLEAN", "UUID"}
"""Types whose comparison with a constant that fits can't fail; DECIMAL and HUGEINT can overflow."""
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between,
)  # fmt: skip
_NOT_EVALUATED = (
    exp.Literal, exp.Boolean, exp.Null, exp.Var, exp.Identifier, exp.DataType, exp.DataTypeParam,
    exp.Star, exp.Tuple, exp.Distinct, exp.Ordered, exp.Order, exp.WindowSpec, exp.Window,
    exp.Filter, exp.AggFunc, exp.Array,
)  # fmt: skip
TypeOf = Callable[[exp.Column], str]


def guarded(sql: str, always: str) -> str:
    """Return SQL that is NULL on the rows where `sql` fails.

    Args:
        sql: A scalar expression.
        always: A condition that holds on every row, which DuckDB can't know.
    """
    return f"TRY(CASE WHEN {always} THEN {sql} END)"


def can_fail(e: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether a scalar expression could fail on some row."""
    if isinstance(e, exp.Column | exp.Literal | exp.Boolean | exp.Null):
        return False
    if isinstance(e, exp.Paren):
        return can_fail(e.this, type_of)
    if isinstance(e, exp.And | exp.Or | exp.Not):
        return any(condition_can_fail(c, type_of) for c in e.iter_expressions())
    if isinstance(e, exp.Is):
        return not isinstance(e.expression, exp.Null) or can_fail(e.this, type_of)
    if isinstance(e, _COMPARISONS):
        return not _alike(e.iter_expressions(), type_of)
    if isinstance(e, exp.In) and not e.args.get("query"):
        return not _alike([e.this, *e.expressions], type_of)
    if isinstance(e, exp.Like | exp.ILike):
        return not (_is_text(e.this, type_of) and _is_text(e.expression, type_of))
    if isinstance(e, exp.Case) and e.this is None:
        return _case_can_fail(e, type_of)
    if isinstance(e, exp.Least | exp.Greatest | exp.Coalesce):
        return not _alike([e.this, *e.expressions], type_of)
    return True


def condition_can_fail(e: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether an expression could fail where a truth is needed, as text does."""
    if isinstance(e, exp.Paren):
        return condition_can_fail(e.this, type_of)
    if isinstance(e, exp.Column):
        return type_of(e) != "BOOLEAN"
    if isinstance(e, exp.Literal | exp.Case | exp.Least | exp.Greatest | exp.Coalesce):
        return True
    return can_fail(e, type_of)


def _case_can_fail(e: exp.Case, type_of: TypeOf) -> bool:
    results = [i.args["true"] for i in e.args["ifs"]] + [e.args.get("default") or exp.Null()]
    if any(condition_can_fail(i.this, type_of) for i in e.args["ifs"]):
        return True
    kinds = {("text" if r.is_string else "number") for r in results if isinstance(r, exp.Literal)}
    return len(kinds) > 1 or not all(isinstance(r, exp.Literal | exp.Null) for r in results)


def _is_text(e: exp.Expr, type_of: TypeOf) -> bool:
    if isinstance(e, exp.Column):
        return type_of(e) == "VARCHAR"
    return isinstance(e, exp.Literal) and e.is_string


def _alike(parts: Iterable[exp.Expr], type_of: TypeOf) -> bool:
    """All columns of one type, and constants that are compared in that type or a wider one."""
    parts = list(parts)
    columns = [p for p in parts if isinstance(p, exp.Column)]
    types = {type_of(c) for c in columns}
    if len(types) != 1 or "" in types:
        return False
    (type,) = types
    others = [p for p in parts if not isinstance(p, exp.Column)]
    return not others or (type in _STEADY and all(_fits(p, type) for p in others))


def _fits(e: exp.Expr, type: str) -> bool:
    """Tell whether a constant can be compared with every value of a type."""
    if isinstance(e, exp.Null):
        return True
    if isinstance(e, exp.Neg | exp.Paren):
        return _fits(e.this, type)
    if not is_constant(e):
        return False
    if isinstance(e, exp.Literal) and e.is_string:
        return True  # takes the column's type, which `check_constants` has tried
    if type in ("DATE", "TIMESTAMP"):  # see `exact_times`
        return isinstance(e, exp.Cast) and isinstance(e.this, exp.Literal) and e.to.sql() == type
    if type in _INTEGERS | _FLOATS:
        return isinstance(e, exp.Literal) and len(e.this) <= _LONGEST_NUMBER
    return type == "BOOLEAN" and isinstance(e, exp.Boolean)


def is_constant(e: exp.Expr) -> bool:
    """Tell whether an expression has the same value on every row."""
    return e.find(exp.Column, exp.Subquery, exp.Select, exp.Window, exp.AggFunc) is None


def constant(value: object, type: str) -> exp.Expr:
    """Return a value that DuckDB gave, as an expression that DuckDB reads."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool | int | str):
        return exp.convert(value)
    return exp.cast(exp.Literal.string(str(value)), type)


def constants(values: Sequence[object], type: str) -> str:
    """Return values that DuckDB gave as a list of a type, in DuckDB's SQL.

    Example:
        >>> constants(["it's", None, "b"], "VARCHAR")
        "['it''s', NULL, 'b']::VARCHAR[]"
    """

    def written(value: object) -> str:
        if isinstance(value, str):  # the rule without sqlglot's detour: there can be very many
            return "'" + value.replace("'", "''") + "'"
        return constant(value, type).sql("duckdb")

    return f"[{', '.join(map(written, values))}]::{type}[]"


def check_constants(e: exp.Expr, type_of: TypeOf, evaluate: Callable[[str], object]) -> None:
    """Evaluate every constant in an expression once, where a failure tells of nobody.

    DuckDB evaluates a constant that fails again on the rows, and raises if there is one.

    Raises:
        QueryRefused: By `evaluate`: a constant fails.
    """
    for sql in _constants(e, type_of):
        if not _plain_date(sql):
            evaluate(sql)


def exact_times(e: exp.Expr, type_of: TypeOf, evaluate: Callable[[str], object]) -> exp.Expr:
    """Return the expression with constants of the very type of the DATE or TIMESTAMP compared.

    Where the types differ, DuckDB turns the column into the constant's type, which can fail.
    """

    if not _inexact_times(e, type_of):
        return e
    root = exp.paren(e.copy(), copy=False)
    for constant, type in _inexact_times(root, type_of):
        _replace_time(constant, type, evaluate)
    inside = root.this
    assert isinstance(inside, exp.Expr)
    return inside


def _inexact_times(e: exp.Expr, type_of: TypeOf) -> list[tuple[exp.Expr, str]]:
    """Return the constants of another type that a DATE or TIMESTAMP is compared with."""
    found: list[tuple[exp.Expr, str]] = []
    for node in e.find_all(*_COMPARISONS, exp.In):
        types = {type_of(c) for c in node.iter_expressions() if isinstance(c, exp.Column)}
        if len(types) == 1 and types <= {"DATE", "TIMESTAMP"}:
            (type,) = types
            for child in node.iter_expressions():
                if is_constant(child) and _has_a_value(child, node) and not _fits(child, type):
                    found.append((child, type))
    return found


def _replace_time(e: exp.Expr, type: str, evaluate: Callable[[str], object]) -> None:
    sql = e.sql("duckdb")
    exact = f"CAST(({sql}) AS {type})"
    same = f"CAST({exact} AS TIMESTAMP) = CAST(({sql}) AS TIMESTAMP)"
    value = evaluate(f"CASE WHEN {same} THEN CAST({exact} AS VARCHAR) END")
    if value is not None:
        e.replace(exp.cast(exp.Literal.string(str(value)), type))


def _constants(e: exp.Expr, type_of: TypeOf) -> list[str]:
    types = set()
    if isinstance(e, (*_COMPARISONS, exp.In, exp.Least, exp.Greatest, exp.Coalesce)):
        types = {type_of(c) for c in e.iter_expressions() if isinstance(c, exp.Column)}
    found: list[str] = []
    for child in e.iter_expressions() if not isinstance(e, exp.Window) else ():
        if isinstance(child, exp.Literal) and child.is_string:
            found += [f"CAST({child.sql('duckdb')} AS {t})" for t in types - {"VARCHAR", ""}]
        elif _has_a_value(child, e) and is_constant(child):
            found.append(child.sql("duckdb"))
        else:
            found += _constants(child, type_of)
    return found


def _has_a_value(e: exp.Expr, parent: exp.Expr) -> bool:
    branch = isinstance(e, exp.If) and isinstance(parent, exp.Case)
    return not (branch or isinstance(e, _NOT_EVALUATED) or isinstance(parent, exp.Interval))


def _plain_date(sql: str) -> bool:
    """Tell whether a constant is a date that needs no trying."""
    match = re.fullmatch(r"CAST\('(\d{4}-\d\d-\d\d)' AS DATE\)", sql)
    try:
        return match is not None and bool(dt.date.fromisoformat(match[1]))
    except ValueError:
        return False


def tamed(e: exp.Expr) -> exp.Expr:
    """Return an expression fit for `guarded`: IN as OR, and text that can't grow without end."""
    root = exp.paren(e, copy=False)
    for node in reversed(list(root.walk())):  # the innermost first
        if isinstance(node, exp.In):
            node.replace(_as_or(node))
        elif isinstance(node, exp.DPipe | exp.Concat):
            cut = exp.Left(this=node.copy(), expression=exp.Literal.number(MAX_TEXT))
            node.replace(cut)
    inside = root.this
    assert isinstance(inside, exp.Expr)
    return inside


def _as_or(e: exp.In) -> exp.Expr:
    if len(e.expressions) > MAX_GUARDED_LIST:
        raise QueryRefused(
            f"a list of {len(e.expressions):,} values behind an expression; the limit is "
            f"{MAX_GUARDED_LIST:,}",
            "compare a column itself with the list, or join a public table",
        )
    same = [exp.EQ(this=e.this.copy(), expression=x.copy()) for x in e.expressions]
    return exp.paren(exp.or_(*same, copy=False), copy=False)
