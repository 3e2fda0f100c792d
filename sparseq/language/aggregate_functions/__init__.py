"""The table of all aggregate and window functions of subqueries, over one person's rows.

An entry gives a function's form in a query, its argument and result types, its SQL, and its
meaning. The page in docs and the tests of every entry
(`tests/language/test_aggregate_functions.py`) use this table.

**Order.** The order of the rows may depend on other people, so no entry's value depends on it. Sums
are exact: integers in 128 bits, all others in DECIMAL. A chosen value is the least or the greatest
of the candidates, and values that are equal but not identical, such as 0 and -0, have one
representative. Functions that process rows one by one need an order of all rows, which a
subquery provides (`sparseq.sql.subqueries`).

**Total.** As in `sparseq.language.functions`, no entry can raise an error.
"""

from __future__ import annotations

from sparseq.language.aggregate_functions import (
    chosen_values,
    quantiles,
    sums,
    window_functions,
)
from sparseq.language.aggregate_functions.aggregate_function import AggregateFunction, Takes, Use

__all__ = ["AGGREGATE_FUNCTIONS", "AggregateFunction", "Takes", "Use", "overloads"]
AGGREGATE_FUNCTIONS: list[AggregateFunction] = [
    *sums.FUNCTIONS,
    *chosen_values.FUNCTIONS,
    *quantiles.FUNCTIONS,
    *window_functions.FUNCTIONS,
]
_BY_NAME: dict[str, list[AggregateFunction]] = {}
for _f in AGGREGATE_FUNCTIONS:
    _BY_NAME.setdefault(_f.name, []).append(_f)


def overloads(name: str) -> list[AggregateFunction]:
    """Return the overloads of a function, in the order in which they are tried.

    Example:
        >>> [str(f.takes[0]) for f in overloads("sum")]
        ['integer or truth', 'number']
    """
    return _BY_NAME.get(name, [])
