"""Every aggregate and window function of a subquery, over one person's rows: one table.

An entry says how it is written, what it takes and gives, its SQL, and what it means. The page in
docs and the tests of every entry (`tests/language/test_aggregate_functions.py`) are made from it.

**Order.** Which rows come first tells of other people, so no entry's value depends on it. What is
added up is exact: whole numbers in 128 bits, all others in DECIMAL. A value that is chosen is the
least or the greatest of those that might be, and of values that are equal without being the same,
as 0 and -0 are, one stands for all. Those that look at rows one by one need an order of all rows,
which a subquery gives them (`sparseq.sql.subqueries`).

**Total.** As in `sparseq.language.functions`, nothing here can raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sparseq.language import types as T
from sparseq.language.expression_tree import Term, call, cast
from sparseq.language.types import Family, Type

EXACT = "DECIMAL(27, 10)"
"""The type of sums of what is not whole: 10^11 rows of the largest don't leave 38 digits."""
_SQUARED = "CASE WHEN abs({0}) < 1e100 THEN {0} + 0 END"
"""A number that may be squared: no square of it leaves the doubles."""
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
        """Tell whether an argument of a type is taken."""
        match self:
            case Takes.WHOLE:
                return type.family in (Family.INTEGER, Family.BOOLEAN)
            case Takes.NUMBER:
                return type.is_number or type.family is Family.BOOLEAN
            case Takes.TRUTH:
                return type.family is Family.BOOLEAN
        return True


class Use(StrEnum):
    """The places that a function may stand in."""

    AGGREGATE = "aggregate"
    BOTH = "aggregate, or over a window"
    WINDOW = "over a window"


@dataclass(frozen=True)
class AggregateFunction:
    """One overload of an aggregate or of a window function.

    Attributes:
        name: What it is looked up by, as DuckDB has it.
        form: How a query writes it, with {0}, {1} for the arguments.
        takes: What its arguments may be.
        gives: Type of the result, or the same by the arguments.
        sql: Its SQL, by the arguments as they were prepared; ORDER BY stands for {order}.
        meaning: What it is; for the page.
        use: Where it may stand.
        prepare: Makes of each argument that is no constant what is computed with.
        after: What becomes of the result, after FILTER and OVER.
        distinct: It may be of values that differ.
        ordered: It takes an ORDER BY, which it needs.
        one_by_one: It looks at its rows one by one, in an order of all of them.
        chooses: Its value is one of those of its first argument, or NULL.
        counts: Its value is never below 0, and of at least one row never NULL.
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

    def apply(
        self,
        arguments: Terms,
        *,
        distinct: bool = False,
        order: Sequence[str] = (),
        condition: str = "",
        over: str = "",
    ) -> Term:
        """Return the function of its arguments.

        Args:
            arguments: As many as it takes.
            distinct: Of values that differ.
            order: SQL of what its rows are ordered by.
            condition: SQL of its FILTER; "": there is none.
            over: SQL of its window, in parentheses; "": it is an aggregate.

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
        return Term(type, self.after.format(sql), size=size, function=name, arguments=tuple(made))


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


# -- what values are made of before they are added up, compared or chosen from ---------------------


def plain(term: Term) -> Term:
    """Return a term whose values are the same where they are equal, as zeros and NaNs of two signs
    are not: which of them a group shows, or a minimum, depends on the order of the rows."""
    if term.type.family is not Family.DOUBLE:
        return term
    template = f"CASE WHEN isnan({{0}}) THEN CAST('nan' AS {term.type.sql}) ELSE {{0}} + 0 END"
    return call("plain", template, term.type, term)


def _exact(term: Term) -> Term:
    """Return a number that can be added up exactly; NULL where it is none, or too large."""
    return call("exact", f"TRY_CAST({{0}} AS {EXACT})", T.DOUBLE, term)


def _first(terms: Terms) -> Type:
    return terms[0].type


# -- counts and sums -------------------------------------------------------------------------------

_ANY, _NUMBER, _TRUTH, _CONSTANT = Takes.ANY, Takes.NUMBER, Takes.TRUTH, Takes.CONSTANT
_IN_64_BITS = "TRY_CAST({0} AS BIGINT)"

_add("count", "count(*)", (), _COUNT, "count(*)", "rows", counts=True)
_add(
    "count",
    "count([DISTINCT] {0})",
    (_ANY,),
    _COUNT,
    "count({0})",
    "rows that have a value; DISTINCT: values",
    distinct=True,
    counts=True,
)
_add(
    "countif",
    "countif({0})",
    (_TRUTH,),
    _COUNT,
    "count_if({0})",
    "rows of which it is true",
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
)
_add(
    "sum",
    "sum([DISTINCT] {0})",
    (_NUMBER,),
    T.DOUBLE,
    "sum({0})",
    "of 10 decimals each, added up exactly; what is not below 10^17 is left out",
    prepare=_exact,
    after="TRY_CAST({0} AS DOUBLE)",
    distinct=True,
)
_add(
    "avg",
    "avg([DISTINCT] {0})",
    (_NUMBER,),
    T.DOUBLE,
    "avg({0})",
    "the sum by the number of values",
    prepare=lambda term: term if term.type.family is Family.INTEGER else _exact(term),
    distinct=True,
)
for _name in ("bool_and", "bool_or"):
    _which = "all" if _name == "bool_and" else "any"
    _add(
        _name,
        f"{_name}({{0}})",
        (_TRUTH,),
        T.BOOLEAN,
        f"{_name}({{0}})",
        f"whether {_which} that are not NULL are true",
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
    )
    _pair = "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN {{'y': {1}, 'x': {0}}} END"
    _add(
        f"arg_{_name}",
        f"arg_{_name}({{0}}, {{1}})",
        (_ANY, _ANY),
        _first,
        f"{_name}({_pair})",
        f"the first where the second is {_which}; of several the {_which}",
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
    "the most frequent; of several the least",
    Use.AGGREGATE,  # a window sorts each frame anew: one person's many rows would take all the time
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
        f"the {_name} in an order; of several the {_which}",
        Use.AGGREGATE,
        prepare=plain,
        ordered=True,
        chooses=True,
    )

# -- deviations and quantiles: of the values in their order ----------------------------------------

for _name in ("stddev_samp", "stddev_pop", "var_samp", "var_pop"):
    _what = "the deviation" if _name.startswith("stddev") else "the variance"
    _of = "of a sample" if _name.endswith("samp") else "of all there are"
    _add(
        _name,
        f"{_name}({{0}})",
        (_NUMBER,),
        T.DOUBLE,
        f"{_name}({{0}} ORDER BY {{0}})",
        f"{_what} {_of}; what is not between -10^100 and 10^100 is left out",
        Use.AGGREGATE,
        prepare=lambda term: call("near", _SQUARED, T.DOUBLE, cast(term, T.DOUBLE) or term),
    )
_add(
    "quantile_cont",
    "quantile_cont({0}, {1})",
    (_NUMBER, _CONSTANT),
    _first,
    "quantile_cont({0}, {1})",
    "between two values, where the share lies between them; `median(a)`: of a half",
    prepare=lambda term: (Takes.WHOLE.allows(term.type) and cast(term, T.DOUBLE)) or plain(term),
)
_add(
    "quantile",
    "quantile({0}, {1})",
    (_NUMBER, _CONSTANT),
    _first,
    "quantile_disc({0}, {1})",
    "the value that has such a share below it",
    Use.AGGREGATE,  # of truths a window takes a time that grows as the square of the rows
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
        f"the place, {_what}",
        Use.WINDOW,
        counts=True,
    )
_add(
    "row_number",
    "row_number()",
    (),
    _COUNT,
    "row_number()",
    "the place",
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
    "which of so many parts, as equal as can be",
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
        f"of the row so many {_what}, 1 if nothing is said",
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
        f"of the {_name.removesuffix('_value')} row of the frame",
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
    "of such a row of the frame",
    Use.WINDOW,
    one_by_one=True,
    chooses=True,
)

_BY_NAME: dict[str, list[AggregateFunction]] = {}
for _f in AGGREGATE_FUNCTIONS:
    _BY_NAME.setdefault(_f.name, []).append(_f)
