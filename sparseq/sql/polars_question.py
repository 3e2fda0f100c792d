"""Questions in Python: aggregates of Polars expressions, put together step by step.

    con.count(pl.col("amount") > 20).by("activity", keys=["gift", "book"]).ask()
    con.sum(pl.col("amount").clip(0, 100)).where(pl.col("date") == day).ask(confidence=0.99)

Each becomes an SQL query (`.sql`), and is lowered, priced and recorded as that.

Polars expressions become SQL, and then are what SQL is: one way in, one set of checks.

An expression is read from Polars' own description of it. What looks at more than one row (sum,
over, shift, unique …), or runs Python, has no translation and is refused. Constants are evaluated
by Polars. Results follow SQL where the two differ: a row whose expression fails counts for nothing.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sparseq.accounting._numbers import in_range
from sparseq.base.arguments import check_arguments, needed_polars
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.sql.catalog import Catalog
from sparseq.sql.parameters import literal
from sparseq.sql.parse import Dialect
from sparseq.sql.plan import Options, Plan, Query

if TYPE_CHECKING:
    import polars

    from sparseq.store.answer import Answer

# -- polars expressions become SQL, and then are what SQL is: one way in, one set of checks --------

_OPERATORS = {
    "Eq": exp.EQ,
    "NotEq": exp.NEQ,
    "Gt": exp.GT,
    "GtEq": exp.GTE,
    "Lt": exp.LT,
    "LtEq": exp.LTE,
    "And": exp.And,
    "LogicalAnd": exp.And,
    "Or": exp.Or,
    "LogicalOr": exp.Or,
    "Plus": exp.Add,
    "Minus": exp.Sub,
    "Multiply": exp.Mul,
    "Divide": exp.Div,
    "TrueDivide": exp.Div,
    "EqValidity": exp.NullSafeEQ,
    "NotEqValidity": exp.NullSafeNEQ,
}
_TYPES = {
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INTEGER",
    "Int64": "BIGINT",
    "UInt8": "UTINYINT",
    "UInt16": "USMALLINT",
    "UInt32": "UINTEGER",
    "UInt64": "UBIGINT",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "String": "VARCHAR",
    "Boolean": "BOOLEAN",
    "Date": "DATE",
}
_CALLS = {
    "Abs": "abs",
    "Exp": "exp",
    "Floor": "floor",
    "Ceil": "ceil",
    "Sign": "sign",
    "Coalesce": "coalesce",
    "FillNull": "coalesce",
    "MinHorizontal": "least",
    "MaxHorizontal": "greatest",
    "Pow.Sqrt": "sqrt",
    "Pow.Generic": "pow",
    "Boolean.IsNan": "isnan",
    "Boolean.IsFinite": "isfinite",
    "StringExpr.StartsWith": "starts_with",
    "StringExpr.EndsWith": "ends_with",
    "StringExpr.Lowercase": "lower",
    "StringExpr.Uppercase": "upper",
    "StringExpr.LenChars": "length",
    "TemporalExpr.Year": "year",
    "TemporalExpr.Month": "month",
    "TemporalExpr.Day": "day",
    "TemporalExpr.Quarter": "quarter",
    "TemporalExpr.Hour": "hour",
    "TemporalExpr.Minute": "minute",
    "TemporalExpr.Week": "week",
    "TemporalExpr.WeekDay": "isodow",
    "TemporalExpr.OrdinalDay": "dayofyear",
}
_UNITS = {"1h": "hour", "1d": "day", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}
Node = Any


def to_sql(expression: polars.Expr | str) -> str:
    """Return an expression as SQL; a string is the name of a column.

    Raises:
        QueryRefused: It can't be computed from one row at a time.

    Example:
        >>> import polars as pl
        >>> to_sql((pl.col("amount").abs() > 20) & pl.col("kind").is_in(["a", "b"]))
        "(ABS(amount) > 20) AND (kind IN ('a', 'b'))"
    """
    if isinstance(expression, str):
        return _column(expression).sql("duckdb")
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception:  # Polars raises what it likes for Python functions inside
        _refuse("this expression runs Python", "use Polars' own functions")
    return _Reader().read(tree).sql("duckdb")


class _Reader:
    def read(self, node: Node) -> exp.Expr:
        if isinstance(node, str):
            _refuse(f"{node} looks at more than one row")
        ((kind, body),) = node.items()
        if kind == "Column":
            return _column(body)
        if kind == "Alias":
            return self.read(body[0])
        if _is_constant(node):
            return _literal(_evaluate(node))
        if kind == "BinaryExpr":
            return self._binary(body)
        if kind == "Cast":
            return self._cast(body)
        if kind == "Ternary":
            branch = exp.If(this=self.read(body["predicate"]), true=self.read(body["truthy"]))
            return exp.Case(ifs=[branch], default=self.read(body["falsy"]))
        if kind == "Function":
            return self._function(body)
        if kind == "Selector":
            _refuse("this selects several columns", "name one column")
        _refuse(
            f"{kind.lower()} looks at more than one row", "the aggregate is con.sum, con.count …"
        )

    def _binary(self, body: Node) -> exp.Expr:
        left, right, name = self.read(body["left"]), self.read(body["right"]), body["op"]
        if name in _OPERATORS:
            return _OPERATORS[name](this=_wrap(left), expression=_wrap(right))
        if name == "FloorDivide":
            return _call("floor", exp.Div(this=_wrap(left), expression=_wrap(right)))
        if name == "Modulus":  # the sign of Polars' and Python's remainder is the divisor's
            quotient = _call("floor", exp.Div(this=_wrap(left), expression=_wrap(right)))
            product = exp.Mul(this=_wrap(right.copy()), expression=quotient)
            return exp.Sub(this=_wrap(left.copy()), expression=product)
        _refuse(f"the operator {name} is not available")

    def _cast(self, body: Node) -> exp.Expr:
        kind = body["dtype"]
        name = kind.get("Literal") if isinstance(kind, dict) else kind
        if not isinstance(name, str) or name not in _TYPES:
            _refuse("a cast to this type is not available", f"known: {', '.join(_TYPES)}")
        return exp.cast(self.read(body["expr"]), _TYPES[name])

    def _function(self, body: Node) -> exp.Expr:
        name, detail = _function_name(body["function"])
        special: dict[str, Callable[[list[Node], Any], exp.Expr]] = {
            "Boolean.IsNull": lambda a, _: exp.Is(this=self.read(a[0]), expression=exp.Null()),
            "Boolean.IsNotNull": lambda a, _: exp.Not(
                this=exp.Is(this=self.read(a[0]), expression=exp.Null())
            ),
            "Boolean.Not": lambda a, _: exp.Not(this=_wrap(self.read(a[0]))),
            "Negate": lambda a, _: exp.Neg(this=_wrap(self.read(a[0]))),
            "Boolean.IsIn": self._is_in,
            "Boolean.IsBetween": self._is_between,
            "Clip": self._clip,
            "Round": lambda a, d: _call("round", self.read(a[0]), _literal(d["decimals"])),
            "Log": self._log,
            "StringExpr.Contains": self._contains,
            "TemporalExpr.Date": lambda a, _: exp.cast(self.read(a[0]), "DATE"),
            "TemporalExpr.Truncate": self._truncate,
        }
        if name in special:
            return special[name](body["input"], detail)
        if name in _CALLS:
            return _call(_CALLS[name], *(self.read(a) for a in body["input"]))
        _refuse(
            f"{name.split('.')[-1].lower()} looks at more than one row, or is not available",
            "docs/polars.md lists what is",
        )

    def _is_in(self, args: list[Node], _: Any) -> exp.Expr:
        if not _is_constant(args[1]):
            _refuse("is_in needs a list of constants")
        values = _evaluate(args[1])
        return exp.In(this=self.read(args[0]), expressions=[_literal(v) for v in values])

    def _is_between(self, args: list[Node], detail: Any) -> exp.Expr:
        closed = detail["closed"]
        low = exp.GTE if closed in ("Both", "Left") else exp.GT
        high = exp.LTE if closed in ("Both", "Right") else exp.LT
        value, first, last = (self.read(a) for a in args)
        return exp.and_(
            low(this=_wrap(value), expression=first),
            high(this=_wrap(value.copy()), expression=last),
        )

    def _clip(self, args: list[Node], detail: Any) -> exp.Expr:
        """GREATEST and LEAST would make something of NULL, where Polars keeps it missing."""
        value, *limits = (self.read(a) for a in args)
        clipped = value
        if detail["has_min"]:
            clipped = _call("greatest", clipped, limits.pop(0))
        if detail["has_max"]:
            clipped = _call("least", clipped, limits.pop(0))
        present = exp.Not(this=exp.Is(this=_wrap(value.copy()), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=present, true=clipped)])

    def _log(self, args: list[Node], _: Any) -> exp.Expr:
        natural = _call("ln", self.read(args[0]))
        base = _evaluate(args[1]) if _is_constant(args[1]) else 0
        if base == math.e:
            return natural
        return exp.Div(this=natural, expression=_call("ln", self.read(args[1])))

    def _contains(self, args: list[Node], detail: Any) -> exp.Expr:
        pattern = _evaluate(args[1]) if _is_constant(args[1]) else None
        if not isinstance(pattern, str):
            _refuse("str.contains needs a constant")
        if not detail["literal"] and any(c in pattern for c in r".^$*+?{}[]\|()"):
            _refuse("regular expressions are not answered", "str.contains(text, literal=True)")
        return _call("contains", self.read(args[0]), _literal(pattern))

    def _truncate(self, args: list[Node], _: Any) -> exp.Expr:
        every = _evaluate(args[1]) if _is_constant(args[1]) else ""
        if every not in _UNITS:
            _refuse(f"dt.truncate({every!r}) is not available", f"known: {', '.join(_UNITS)}")
        return _call("date_trunc", _literal(_UNITS[every]), self.read(args[0]))


_OVER_ROWS = {
    "Sum": "SUM",
    "Mean": "AVG",
    "Median": "MEDIAN",
    "Count": "COUNT",
    "Min": "MIN",
    "Max": "MAX",
}
_SPREADS = {
    ("Std", 1): "STDDEV",
    ("Std", 0): "STDDEV_POP",
    ("Var", 1): "VARIANCE",
    ("Var", 0): "VAR_POP",
}


def aggregate_sql(expression: polars.Expr, user: str) -> str:
    """Return an aggregate of Polars, or arithmetic with some, as SQL.

    Args:
        expression: Of `len`, `sum`, `mean`, `std`, `var`, `median`, `quantile`, `count`, `min`,
            `max`, `corr`, each maybe of `filter(…)`, and `n_unique` of the user.
        user: The user's column.

    Raises:
        QueryRefused: It is something else.

    Example:
        >>> import polars as pl
        >>> spent = pl.col("amount").filter(pl.col("gift")).sum()
        >>> aggregate_sql(spent / pl.col("who").n_unique(), "who")
        'SUM(amount) FILTER(WHERE gift) / COUNT(DISTINCT who)'
    """
    return _OverRows(user).read(json.loads(expression.meta.serialize(format="json"))).sql("duckdb")


class _OverRows(_Reader):
    """Reads what is computed from all rows of a group."""

    def __init__(self, user: str) -> None:
        self._user = user

    def read(self, node: Node) -> exp.Expr:
        if node == "Len":
            return exp.Count(this=exp.Star())
        kind, body = next(iter(node.items())) if isinstance(node, dict) else ("", {})
        if kind == "Agg":
            return self._aggregate(*next(iter(body.items())))
        if kind == "Function":
            name, detail = _function_name(body["function"])
            if name == "Quantile":
                return self._over("QUANTILE", *body["input"])
            if name == "Correlation" and detail.get("method") == "Pearson":
                return self._over("CORR", *body["input"])
        if kind == "Column":
            _refuse(f"{body} is of one row", "aggregate it: pl.col(…).sum(), or group by it")
        return super().read(node)

    def _aggregate(self, name: str, body: Node) -> exp.Expr:
        if isinstance(body, list) and (name, body[1]) in _SPREADS:
            return self._over(_SPREADS[name, body[1]], body[0])
        inside = body.get("input", body)
        if name == "Count" and body.get("include_nulls"):
            return exp.Count(this=exp.Star())
        if name in _OVER_ROWS:
            return self._over(_OVER_ROWS[name], inside)
        if name == "NUnique" and inside == {"Column": self._user}:
            return exp.Count(this=exp.Distinct(expressions=[_column(self._user)]))
        _refuse(
            f"{name.lower()} is not answered",
            f"len, sum, mean, std, var, median, quantile, count, min, max, corr are, and n_unique "
            f"of {self._user}",
        )

    def _over(self, name: str, value: Node, *others: Node) -> exp.Expr:
        """Return an aggregate, of the rows that `filter` leaves."""
        condition = value["Filter"]["by"] if isinstance(value, dict) and "Filter" in value else None
        value = value["Filter"]["input"] if condition is not None else value
        parts = ", ".join(_Reader().read(part).sql("duckdb") for part in (value, *others))
        only = (
            ""
            if condition is None
            else f" FILTER (WHERE {_Reader().read(condition).sql('duckdb')})"
        )
        return sqlglot.parse_one(f"{name}({parts}){only}", dialect=Dialect)


def _function_name(function: Any) -> tuple[str, Any]:
    """Return the dotted name of a function and its settings."""
    if isinstance(function, str):
        return function, {}
    ((family, detail),) = function.items()
    if isinstance(detail, str):
        return f"{family}.{detail}", {}
    if family in ("Boolean", "StringExpr", "TemporalExpr", "Pow"):
        ((name, settings),) = detail.items()
        return f"{family}.{name}", settings
    return family, detail


def _is_constant(node: Node) -> bool:
    """Tell whether there is no column in a tree, and only literals, casts and operators."""
    if not isinstance(node, dict):
        return False
    ((kind, body),) = node.items()
    if kind == "Literal":
        return True
    if kind == "Alias":
        return _is_constant(body[0])
    if kind == "Cast":
        return _is_constant(body["expr"])
    if kind == "BinaryExpr":
        return _is_constant(body["left"]) and _is_constant(body["right"])
    return False


def _evaluate(node: Node) -> Any:
    import polars as pl

    text = io.BytesIO(json.dumps(node).encode())
    try:
        value = pl.select(pl.Expr.deserialize(text, format="json")).to_series()
    except pl.exceptions.PolarsError:
        _refuse("a constant in this expression can't be read", "write it as a plain number")
    return value.to_list()[0] if len(value) == 1 else value.to_list()


def _column(name: str) -> exp.Column:
    try:
        plain = sqlglot.parse_one(name, dialect="duckdb")
    except SqlglotError:
        plain = None
    is_name = isinstance(plain, exp.Column) and plain.name == name
    return exp.column(exp.to_identifier(name, quoted=not is_name))


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, dt.date):
        return sqlglot.parse_one(literal(value), dialect="duckdb")
    if isinstance(value, float) and not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
    if value is None or isinstance(value, (bool, int, float, str)):
        return exp.convert(value)
    _refuse(f"a constant of type {type(value).__name__} is not available")


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.func(name, *args, dialect="duckdb")


def _wrap(e: exp.Expr) -> exp.Expr:
    """Return an operand in parentheses where it has an operator of its own."""
    return exp.paren(e, copy=False) if isinstance(e, exp.Binary | exp.Not | exp.In) else e


def _refuse(message: str, hint: str = "") -> NoReturn:
    raise QueryRefused(message, hint)


# -- questions in Python: aggregates of Polars expressions, put together step by step --------------


class Queryable(Protocol):
    """Anything that can be asked: a store."""

    catalog: Catalog

    def lower(self, sql: str) -> Query:
        """Lower SQL to a query."""

    def explain(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a query."""

    def ask(
        self,
        query: Query,
        options: Options | None = None,
        request_id: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a query."""


@dataclass(frozen=True)
class Aggregation:
    """A question not yet asked; every method returns a new one.

    Attributes:
        store: Whom to ask.
        table: SQL of what it is asked of: the private table, or a join.
        aggregates: SQL of each aggregate, with the name of its column in the answer.
        conditions: SQL conditions that all must hold.
        groups: SQL of the group keys.
    """

    store: Queryable
    table: str
    aggregates: tuple[tuple[str, str], ...]
    conditions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def where(self, condition: polars.Expr) -> Aggregation:
        """Count only rows for which `condition` is true."""
        return replace(self, conditions=(*self.conditions, to_sql(condition)))

    def by(
        self,
        key: polars.Expr | str,
        keys: Sequence[Any] | None = None,
        between: tuple[Any, Any] | None = None,
    ) -> Aggregation:
        """Group by a column or expression.

        Args:
            key: What to group by.
            keys: Its public values; without them, those that the curator declared.
            between: First and last of its public values, both included (dates, integers).

        Raises:
            ParameterError: Both `keys` and `between` are given, or Polars is not installed.
        """
        if keys is not None and between is not None:
            raise ParameterError("keys and between say the same thing; give one of them")
        pl = needed_polars()
        sql = to_sql(key)
        column = pl.col(key) if isinstance(key, str) else key
        conditions = self.conditions
        if keys is not None:
            conditions = (*conditions, to_sql(column.is_in(list(keys))))
        if between is not None:
            low, high = between
            conditions = (*conditions, to_sql(column >= low), to_sql(column <= high))
        return replace(self, conditions=conditions, groups=(*self.groups, sql))

    @property
    def sql(self) -> str:
        """The question as SQL."""
        named = (f"{sql} AS {_identifier(name)}" for sql, name in self.aggregates)
        text = f"SELECT {', '.join([*self.groups, *named])} FROM {self.table}"
        if self.conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in self.conditions)
        if self.groups:
            text += " GROUP BY " + ", ".join(self.groups)
        return text

    @check_arguments
    def ask(self, *, request_id: str | None = None, fresh: bool = False, **options: Any) -> Answer:
        """Ask it; see `Store.sql` for the options."""
        return self.store.ask(self.store.lower(self.sql), Options(**options), request_id, fresh)

    def explain(self, **options: Any) -> Plan:
        """Return its plan: noise, bounds and worst case. Nothing is charged."""
        return self.store.explain(self.store.lower(self.sql), Options(**options))


class Events:
    """One private table, to ask about in Python.

    Example:
        >>> import polars as pl, sparseq
        >>> events = pl.DataFrame({"who": [1, 1, 2], "amount": [5.0, 30.0, 40.0]})
        >>> con = sparseq.create(None, {"events": events}, user="who", seed=1)
        >>> con.table("events").count(pl.col("amount") > 20).sql
        'SELECT COUNTIF(amount > 20) AS count FROM events'
        >>> con.sum(pl.col("amount").clip(0, 50)).ask().facts.kinds
        ('sum',)
    """

    def __init__(self, store: Queryable, name: str) -> None:
        self._store = store
        self._table = store.catalog.table(name)
        self._from = _identifier(self._table.name)
        self._conditions: tuple[str, ...] = ()

    def _aggregation(self, aggregate: str, name: str) -> Aggregation:
        return Aggregation(self._store, self._from, ((aggregate, name),), self._conditions)

    def where(self, condition: polars.Expr) -> Events:
        """Return the rows for which `condition` is true, to ask about."""
        return self._like(self._from, (*self._conditions, to_sql(condition)))

    def join(self, other: Events | str, on: str | None = None, how: str = "inner") -> Events:
        """Return rows with those of another table beside them, to ask about.

        Args:
            other: Another table of people, joined on the user; or the name of a public one.
            on: The column that both have; of people's tables the user's, if nothing is said.
            how: "inner", or "left" to keep rows that the other table has none for.

        Raises:
            ParameterError: `how` is something else, or `on` is missing.

        Example:
            >>> import pyarrow as pa, sparseq
            >>> sizes = pa.table({"quantity": [1, 2], "size": ["one", "two"]})
            >>> rows = pa.table({"who": [1, 2], "quantity": [1, 2]})
            >>> con = sparseq.create(None, {"t": rows}, user="who", public={"sizes": sizes}, seed=1)
            >>> con.table("t").join("sizes", on="quantity").count().by("size").sql
            'SELECT size, COUNT(*) AS count FROM t JOIN sizes USING (quantity) GROUP BY size'
        """
        if how not in ("inner", "left"):
            raise ParameterError(f"how is {how!r}", "inner or left")
        if isinstance(other, str):
            other = Events(self._store, other)
        if on is None and not other._table.private:
            raise ParameterError(
                f"{other._table.name} is joined on no column", "name one that both have: on=…"
            )
        source = other._from
        if other._conditions:
            only = " AND ".join(f"({c})" for c in other._conditions)
            name = _identifier(other._table.name)
            source = f"(SELECT * FROM {source} WHERE {only}) AS {name}"
        word = "JOIN" if how == "inner" else "LEFT JOIN"
        column = _identifier(on or self._table.user)
        return self._like(f"{self._from} {word} {source} USING ({column})", self._conditions)

    def agg(self, *expressions: polars.Expr, **named: polars.Expr) -> Aggregation:
        """Ask for several aggregates of Polars at once, each under its name.

        Raises:
            QueryRefused: One is not answered (see `aggregate_sql`).
            ParameterError: There is none.

        Example:
            >>> import polars as pl, pyarrow as pa, sparseq
            >>> rows = pa.table({"who": [1, 2], "spent": [1.0, 2.0]})
            >>> con = sparseq.create(None, {"t": rows}, user="who", seed=1)
            >>> con.table("t").agg(n=pl.len(), sd=pl.col("spent").std()).sql
            'SELECT COUNT(*) AS n, STDDEV(spent) AS sd FROM t'
        """
        every = [(e.meta.output_name(), e) for e in expressions] + list(named.items())
        if not every:
            raise ParameterError("there is no aggregate", "agg(n=pl.len())")
        user = self._table.user
        made = tuple((aggregate_sql(e, user), name) for name, e in every)
        return Aggregation(self._store, self._from, made, self._conditions)

    def _like(self, origin: str, conditions: tuple[str, ...]) -> Events:
        made = Events(self._store, self._table.name)
        made._from, made._conditions = origin, conditions
        return made

    def count(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count rows, or those for which `condition` is true."""
        sql = "COUNT(*)" if condition is None else f"COUNTIF({to_sql(condition)})"
        return self._aggregation(sql, "count")

    def users(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count users with a row, or with a row for which `condition` is true."""
        only = "" if condition is None else f" FILTER (WHERE {to_sql(condition)})"
        return self._aggregation(f"COUNT(DISTINCT {to_sql(self._table.user)}){only}", "users")

    def sum(self, value: polars.Expr | str) -> Aggregation:
        """Add up a number; its scale comes from clips, declared bounds, or `ask(scale=…)`."""
        return self._aggregation(f"SUM({to_sql(value)})", "sum")

    def mean(self, value: polars.Expr | str) -> Aggregation:
        """Average a number."""
        return self._aggregation(f"AVG({to_sql(value)})", "mean")

    def std(self, value: polars.Expr | str) -> Aggregation:
        """Return the standard deviation of a number, of rows as a sample."""
        return self._aggregation(f"STDDEV({to_sql(value)})", "std")

    def quantile(
        self, value: polars.Expr | str, q: float, edges: Sequence[float] | None = None
    ) -> Aggregation:
        """Read a quantile off a noised histogram; without edges, 64 bins of the bounds."""
        bins = "" if edges is None else f", {_edges(edges)}"
        share = in_range("q", q, 0.0, 1.0)
        return self._aggregation(f"QUANTILE({to_sql(value)}, {share}{bins})", "quantile")

    def histogram(self, value: polars.Expr | str, edges: Sequence[float]) -> Aggregation:
        """Count rows by bin."""
        return self._aggregation(f"HISTOGRAM({to_sql(value)}, {_edges(edges)})", "count")


def _identifier(name: str) -> str:
    return exp.to_identifier(name).sql("duckdb")


def _edges(edges: Sequence[float]) -> list[float]:
    if not isinstance(edges, Sequence) or isinstance(edges, str):
        raise ParameterError("edges are no list of numbers", "for example [0, 10, 100]")
    return [in_range("an edge", edge, -math.inf, math.inf) for edge in edges]
