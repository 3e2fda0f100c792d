"""The table of all aggregate and window functions of subqueries, over one person's rows.

An entry gives a function's form in a query, its argument and result types, its SQL, and its
meaning. The page in docs and the tests of every entry
(`tests/language/test_aggregate_functions.py`) use this table.

**Order.** The order of the rows may depend on other people, so no entry's value depends on it. Sums
are
exact: integers in 128 bits, all others in DECIMAL. A chosen value is the least or the greatest of
    the candidates, and values that are equal but not identical, such as 0 and -0, have one
    representative. Functions that process rows one by one need an order of all rows, which a
    subquery provides (`sparseq.sql.subqueries`).

**Total.** As in `sparseq.language.functions`, no entry can raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sparseq.language import types as T
from sparseq.language.casts import cast
from sparseq.language.expression_tree import Nulls, Term, call
from sparseq.language.types import Family, Type

EXACT = "DECIMAL(27, 10)"
"""The type of sums of non-integers: 10^11 rows of the largest values fit into 38 digits."""
_SQUARED = "CASE WHEN abs({0}) < 1e100 THEN {0} + 0 END"
"""A number that can be squared without overflow of a double."""
_COUNT = T.integer(0, T.INT64[1])
Terms = Sequence[Term]


class Takes(StrEnum):
    """The kinds of arguments."""

    ANY = "any"
    WHOLE = "integer or truth"
    NUMBER = "number"
    TRUTH = "truth"
    CONSTANT = "constant"

    def allows(self, type: Type) -> bool:
        """Tell whether an argument may have a type."""
        match self:
            case Takes.WHOLE:
                return type.family in (Family.INTEGER, Family.BOOLEAN)
            case Takes.NUMBER:
                return type.is_number or type.family is Family.BOOLEAN
            case Takes.TRUTH:
                return type.family is Family.BOOLEAN
        return True


class Use(StrEnum):
    """The places where a function may occur."""

    AGGREGATE = "aggregate"
    BOTH = "aggregate, or over a window"
    WINDOW = "over a window"


@dataclass(frozen=True)
class AggregateFunction:
    """One overload of an aggregate or of a window function.

    Attributes:
        name: The name for lookups, as DuckDB has it.
        form: Its form in a query, with {0}, {1} for the arguments.
        takes: The allowed kinds of its arguments.
        gives: Type of the result, or a function that gives it for the arguments.
        sql: Its SQL for the prepared arguments; {order} stands for ORDER BY.
        meaning: Its description, for the docs page.
        use: The places where it may occur.
        prepare: Returns the prepared form of each argument that is not constant.
        after: Returns the final form of the result, after FILTER and OVER.
        distinct: It allows DISTINCT.
        ordered: It requires an ORDER BY.
        one_by_one: It processes its rows one by one, in an order of all rows.
        chooses: Its value is a value of its first argument, or NULL.
        counts: Its value is never negative, and over at least one row never NULL.
        over_no_rows: Its value over no rows, as an aggregate; None: NULL.
        keeps: It is never NULL over a row with a value.
    """

    name: str
    form: str
    takes: tuple[Takes, ...]
    gives: Type | Callable[[Terms], Type]
    sql: str
    meaning: str
    use: Use = Use.BOTH
    prepare: Callable[[Term], Term] = lambda term: term
    after: str = "{0}"
    distinct: bool = False
    ordered: bool = False
    one_by_one: bool = False
    chooses: bool = False
    counts: bool = False
    over_no_rows: int | None = None
    keeps: bool = False

    def apply(
        self,
        arguments: Terms,
        *,
        distinct: bool = False,
        order: Sequence[str] = (),
        condition: str = "",
        over: str = "",
    ) -> Term:
        """Return the function applied to its arguments.

        Args:
            arguments: All its arguments.
            distinct: Apply it to distinct values.
            order: SQL of the order of its rows.
            condition: SQL of its FILTER; "" if it has none.
            over: SQL of its window, in parentheses; "" for an aggregate.

        Example:
            >>> from sparseq.language.expression_tree import column
            >>> (total,) = [f for f in overloads("sum") if f.takes == (Takes.WHOLE,)]
            >>> total.apply([column("x", T.BIGINT)], condition="y").sql
            'TRY_CAST(sum(x) FILTER (WHERE y) AS BIGINT)'
        """
        made = [
            a if takes is Takes.CONSTANT else self.prepare(a)
            for a, takes in zip(arguments, self.takes, strict=True)
        ]
        texts = [f"DISTINCT {a.sql}" if distinct and i == 0 else a.sql for i, a in enumerate(made)]
        sql = self.sql.format(*texts, order=", ".join(order))
        sql += f" FILTER (WHERE {condition})" if condition else ""
        sql += f" OVER {over}" if over else ""
        type = self.gives if isinstance(self.gives, Type) else self.gives(made)
        size = 1 + sum(a.size for a in made)
        name = f"{self.name} distinct" if distinct else self.name
        of_all = self.keeps and not condition and not over
        nulls = Nulls.NEVER if self.counts else Nulls.STRICT if of_all else Nulls.FREE
        sql = self.after.format(sql)
        return Term(type, sql, size=size, function=name, arguments=tuple(made), nulls=nulls)


AGGREGATE_FUNCTIONS: list[AggregateFunction] = []


def _add(
    name: str,
    form: str,
    takes: Sequence[Takes],
    gives: Type | Callable[[Terms], Type],
    sql: str,
    meaning: str,
    use: Use = Use.BOTH,
    **more: object,
) -> None:
    entry = AggregateFunction(name, form, tuple(takes), gives, sql, meaning, use, **more)  # type: ignore[arg-type]
    AGGREGATE_FUNCTIONS.append(entry)


def overloads(name: str) -> list[AggregateFunction]:
    """Return the overloads of a function, in the order in which they are tried.

    Example:
        >>> [str(f.takes[0]) for f in overloads("sum")]
        ['integer or truth', 'number']
    """
    return _BY_NAME.get(name, [])


# -- preparation of values before they are summed, compared or chosen ------------------------------


def plain(term: Term) -> Term:
    """Return a term with one representative of equal values, such as 0 and -0, or NaNs of both
    signs.

    Otherwise the order of the rows would decide the form that a group or a minimum shows.
    """
    if term.type.family is not Family.DOUBLE:
        return term
    template = f"CASE WHEN isnan({{0}}) THEN CAST('nan' AS {term.type.sql}) ELSE {{0}} + 0 END"
    return call("plain", template, term.type, term)


def _exact(term: Term) -> Term:
    """Return a number that can be summed exactly; NULL if it is not finite, or too large."""
    return call("exact", f"TRY_CAST({{0}} AS {EXACT})", T.DOUBLE, term)


def _first(terms: Terms) -> Type:
    return terms[0].type


# -- counts and sums -------------------------------------------------------------------------------

_ANY, _NUMBER, _TRUTH, _CONSTANT = Takes.ANY, Takes.NUMBER, Takes.TRUTH, Takes.CONSTANT
_IN_64_BITS = "TRY_CAST({0} AS BIGINT)"

_add("count", "count(*)", (), _COUNT, "count(*)", "rows", counts=True, over_no_rows=0)
_add(
    "count",
    "count([DISTINCT] {0})",
    (_ANY,),
    _COUNT,
    "count({0})",
    "rows with a value; DISTINCT: distinct values",
    distinct=True,
    counts=True,
    over_no_rows=0,
)
_add(
    "countif",
    "countif({0})",
    (_TRUTH,),
    _COUNT,
    "count_if({0})",
    "rows for which it is true",
    after=_IN_64_BITS,
    distinct=True,
    counts=True,
)
_add(
    "sum",
    "sum([DISTINCT] {0})",
    (Takes.WHOLE,),
    T.BIGINT,
    "sum({0})",
    "exact; NULL beyond 64 bits",
    after=_IN_64_BITS,
    distinct=True,
    keeps=True,
)
_add(
    "sum",
    "sum([DISTINCT] {0})",
    (_NUMBER,),
    T.DOUBLE,
    "sum({0})",
    "the exact sum of values rounded to 10 decimals; values from ±10^17 on are left out",
    prepare=_exact,
    after="TRY_CAST({0} AS DOUBLE)",
    distinct=True,
    keeps=True,
)
_add(
    "avg",
    "avg([DISTINCT] {0})",
    (_NUMBER,),
    T.DOUBLE,
    "avg({0})",
    "the sum divided by the number of values",
    prepare=lambda term: term if term.type.family is Family.INTEGER else _exact(term),
    distinct=True,
    keeps=True,
)
for _name in ("bool_and", "bool_or"):
    _which = "all" if _name == "bool_and" else "any"
    _add(
        _name,
        f"{_name}({{0}})",
        (_TRUTH,),
        T.BOOLEAN,
        f"{_name}({{0}})",
        f"whether {_which} values that are not NULL are true",
        distinct=True,
    )

# -- one of the values -----------------------------------------------------------------------------

for _name, _which in (("min", "least"), ("max", "greatest")):
    _add(
        _name,
        f"{_name}({{0}})",
        (_ANY,),
        _first,
        f"{_name}({{0}})",
        f"the {_which}",
        prepare=plain,
        distinct=True,
        chooses=True,
        keeps=True,
    )
    _pair = "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN {{'y': {1}, 'x': {0}}} END"
    _add(
        f"arg_{_name}",
        f"arg_{_name}({{0}}, {{1}})",
        (_ANY, _ANY),
        _first,
        f"{_name}({_pair})",
        f"the first where the second is {_which}; of several, the {_which}",
        prepare=plain,
        after="({0}).x",
        chooses=True,
    )
_add(
    "any_value",
    "any_value({0})",
    (_ANY,),
    _first,
    "min({0})",
    "the least",
    prepare=plain,
    chooses=True,
)
_add(
    "mode",
    "mode({0})",
    (_ANY,),
    _first,
    "mode({0} ORDER BY {0})",
    "the most frequent; of several, the least",
    Use.AGGREGATE,  # a window sorts every frame again: too slow for a person with many rows
    prepare=plain,
    chooses=True,
)
for _name, _which in (("first", "least"), ("last", "greatest")):
    _add(
        _name,
        f"{_name}({{0}} ORDER BY …)",
        (_ANY,),
        _first,
        f"{_name}({{0}} ORDER BY {{order}}, {{0}})",
        f"the {_name} in an order; of several, the {_which}",
        Use.AGGREGATE,
        prepare=plain,
        ordered=True,
        chooses=True,
    )

# -- deviations and quantiles: of the values in their order ----------------------------------------

for _name in ("stddev_samp", "stddev_pop", "var_samp", "var_pop"):
    _what = "the standard deviation" if _name.startswith("stddev") else "the variance"
    _of = "of a sample" if _name.endswith("samp") else "of a population"
    _add(
        _name,
        f"{_name}({{0}})",
        (_NUMBER,),
        T.DOUBLE,
        f"{_name}({{0}} ORDER BY {{0}})",
        f"{_what} {_of}; values outside -10^100 to 10^100 are left out",
        Use.AGGREGATE,
        prepare=lambda term: call("near", _SQUARED, T.DOUBLE, cast(term, T.DOUBLE) or term),
    )
_add(
    "quantile_cont",
    "quantile_cont({0}, {1})",
    (_NUMBER, _CONSTANT),
    _first,
    "quantile_cont({0}, {1})",
    "interpolated between two values; `median(a)` is the quantile 0.5",
    prepare=lambda term: (Takes.WHOLE.allows(term.type) and cast(term, T.DOUBLE)) or plain(term),
)
_add(
    "quantile",
    "quantile({0}, {1})",
    (_NUMBER, _CONSTANT),
    _first,
    "quantile_disc({0}, {1})",
    "the value with this share of the values below it",
    Use.AGGREGATE,  # a window of truth values takes time quadratic in the rows
    prepare=plain,
)

# -- places and neighbours in a window -------------------------------------------------------------

for _name, _what in (("rank", "with gaps after ties"), ("dense_rank", "without gaps")):
    _add(
        _name,
        f"{_name}()",
        (),
        _COUNT,
        f"{_name}()",
        f"the rank, {_what}",
        Use.WINDOW,
        counts=True,
    )
_add(
    "row_number",
    "row_number()",
    (),
    _COUNT,
    "row_number()",
    "the number of the row in the order",
    Use.WINDOW,
    one_by_one=True,
    counts=True,
)
_add(
    "ntile",
    "ntile({0})",
    (_CONSTANT,),
    _COUNT,
    "ntile({0})",
    "the number of the part, of this number of parts of nearly equal size",
    Use.WINDOW,
    one_by_one=True,
    counts=True,
)
for _name, _what in (("lag", "before"), ("lead", "after")):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (_ANY, _CONSTANT),
        _first,
        f"{_name}({{0}}, {{1}})",
        f"the value of the row this number of rows {_what}; by default 1",
        Use.WINDOW,
        one_by_one=True,
        chooses=True,
    )
for _name in ("first_value", "last_value"):
    _add(
        _name,
        f"{_name}({{0}})",
        (_ANY,),
        _first,
        f"{_name}({{0}})",
        f"the value of the {_name.removesuffix('_value')} row of the frame",
        Use.WINDOW,
        one_by_one=True,
        chooses=True,
    )
_add(
    "nth_value",
    "nth_value({0}, {1})",
    (_ANY, _CONSTANT),
    _first,
    "nth_value({0}, {1})",
    "the value of the row with this number in the frame",
    Use.WINDOW,
    one_by_one=True,
    chooses=True,
)

_BY_NAME: dict[str, list[AggregateFunction]] = {}
for _f in AGGREGATE_FUNCTIONS:
    _BY_NAME.setdefault(_f.name, []).append(_f)
