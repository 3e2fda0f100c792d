"""Forms of questions about each person's own rows, as SQL with holes for terms.

Subqueries, unions, windows and joins that combine rows of one person: each must be a function of
that person's rows alone, whoever else is in the store.
"""

from __future__ import annotations

from dataclasses import dataclass

from checks.language import BOOL, DATE, FLOAT, INT, TEXT

T, V = "t", "v"


@dataclass(frozen=True)
class Form:
    """The text after FROM, or a condition about the rows of t.

    Attributes:
        sql: With `{}` for each hole.
        holes: The type of each, and the table whose columns it may have.
        columns: Columns of the rows, by type; none for a condition.
        user: Name of the user column.
    """

    sql: str
    holes: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    user: str = "who"


_OF_T = ((INT, ("n", "k")), (FLOAT, ("x", "a")), (TEXT, ("s",)), (DATE, ("day",)))
SOURCES = (
    *(
        Form(
            f"(SELECT who, n AS c, day FROM t WHERE {{}} {word} "
            "SELECT who, pages, day FROM v WHERE {}) AS i",
            ((BOOL, T), (BOOL, V)),
            ((INT, ("c",)), (DATE, ("day",))),
        )
        for word in ("UNION ALL", "UNION", "INTERSECT", "EXCEPT")
    ),
    Form(
        "(SELECT who, n, k, x, a, s, day FROM t WHERE {} QUALIFY row_number() "
        "OVER (PARTITION BY who, k ORDER BY at, n) <= 2) AS i",
        ((BOOL, T),),
        _OF_T,
    ),
    Form(
        "(SELECT DISTINCT ON (who, k) who, k, {} AS e, s, day FROM t ORDER BY who, k, at, n) AS i",
        ((FLOAT, T),),
        ((INT, ("k",)), (FLOAT, ("e",)), (TEXT, ("s",)), (DATE, ("day",))),
    ),
    *(
        Form(
            f"t {word} JOIN v ON t.who = v.who AND {on}",
            (),
            ((INT, ("t.n", "t.k")), (FLOAT, ("t.x",)), (DATE, ("t.day",)), (TEXT, ("t.s",))),
            "t.who",
        )
        for word in ("SEMI", "ANTI")
        for on in ("t.day = v.day", "v.pages > t.n")
    ),
    Form(
        "t, LATERAL (SELECT v.pages AS c FROM v WHERE v.who = t.who AND {} ORDER BY v.day, "
        "v.pages LIMIT 2) AS l",
        ((BOOL, "v."),),
        ((INT, ("t.n", "l.c")), (FLOAT, ("t.x",)), (DATE, ("t.day",))),
        "t.who",
    ),
    Form(
        "t, LATERAL (SELECT v.pages + t.k AS c FROM v WHERE v.who = t.who AND v.day >= t.day "
        "AND {} ORDER BY v.day, v.pages LIMIT 2) AS l",
        ((BOOL, "v."),),
        ((INT, ("t.n", "l.c")), (FLOAT, ("t.x",)), (DATE, ("t.day",))),
        "t.who",
    ),
    Form(
        "(WITH f AS (SELECT who, n, k, {} AS e, day FROM t WHERE {}) SELECT who, k, day, e, "
        "n AS m FROM f WHERE k > 0) AS i",
        ((FLOAT, T), (BOOL, T)),
        ((INT, ("k", "m")), (FLOAT, ("e",)), (DATE, ("day",))),
    ),
    Form(
        "(SELECT who, day, sum(g) OVER (PARTITION BY who ORDER BY at ROWS UNBOUNDED PRECEDING) "
        "AS c FROM (SELECT who, day, at, CASE WHEN at - lag(at) OVER (PARTITION BY who ORDER BY "
        "at) > INTERVAL 1 HOUR THEN 1 ELSE 0 END AS g FROM t) AS j) AS i",
        (),
        ((INT, ("c",)), (DATE, ("day",))),
    ),
    *(
        Form(
            f"(SELECT who, n, k, day, {{}} AS e, {window} AS r FROM t) AS i",
            ((FLOAT, T),),
            ((INT, ("n", "k", "r")), (FLOAT, ("e",)), (DATE, ("day",))),
        )
        for window in (
            "ntile(3) OVER (PARTITION BY who ORDER BY at, n)",
            "dense_rank() OVER (PARTITION BY who ORDER BY day)",
            "first_value(n) OVER (PARTITION BY who ORDER BY at, n)",
            "nth_value(k, 2) OVER (PARTITION BY who ORDER BY at, n ROWS BETWEEN UNBOUNDED "
            "PRECEDING AND UNBOUNDED FOLLOWING)",
            "avg(x) OVER (PARTITION BY who ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
            "count(*) OVER (PARTITION BY who ORDER BY day RANGE BETWEEN INTERVAL 2 DAYS "
            "PRECEDING AND CURRENT ROW)",
            "count(*) OVER (PARTITION BY who ORDER BY at DESC RANGE BETWEEN CURRENT ROW "
            "AND INTERVAL 9 MONTHS "
            "FOLLOWING)",
            "sum(k) OVER (PARTITION BY who ORDER BY n RANGE BETWEEN 1000 PRECEDING AND 5 "
            "FOLLOWING)",
            "count(*) OVER (PARTITION BY who ORDER BY x RANGE BETWEEN 2.5 PRECEDING AND "
            "2.5 FOLLOWING)",
            "max(k) OVER (PARTITION BY who ORDER BY day GROUPS BETWEEN 1 PRECEDING AND 1 "
            "FOLLOWING)",
        )
    ),
    Form(
        "(SELECT who, arg_min(n, at) AS c, arg_max({}, day) AS e, count(*) AS m FROM t "
        "GROUP BY who HAVING count(*) > 1) AS i",
        ((FLOAT, T),),
        ((INT, ("c", "m")), (FLOAT, ("e",))),
    ),
)
"""What stands after FROM."""

CONDITIONS = (
    *(
        Form(f"{word} (SELECT 1 FROM v WHERE v.who = t.who AND {{}})", ((BOOL, "v."),))
        for word in ("EXISTS", "NOT EXISTS")
    ),
    *(
        Form(f"t.who {word} (SELECT v.who FROM v WHERE {{}})", ((BOOL, "v."),))
        for word in ("IN", "NOT IN")
    ),
    *(
        Form(f"t.k {word} (SELECT v.pages FROM v WHERE v.who = t.who AND {{}})", ((BOOL, "v."),))
        for word in ("IN", "NOT IN")
    ),
    Form("t.n > (SELECT max(v.pages) FROM v WHERE v.who = t.who AND {})", ((BOOL, "v."),)),
    Form("(SELECT count(*) FROM t AS b WHERE b.who = t.who AND b.day < t.day) BETWEEN 1 AND 3"),
    Form(
        "EXISTS (SELECT 1 FROM v WHERE v.who = t.who AND v.day BETWEEN t.day AND t.day + "
        "INTERVAL 3 DAYS)"
    ),
    Form(
        "EXISTS (SELECT 1 FROM t AS b WHERE b.who = t.who AND b.day > t.day "
        "AND b.day <= t.day + 30 AND b.k <> t.k)"
    ),
    Form(
        "t.k NOT IN (SELECT v.pages FROM v WHERE v.who = t.who AND v.day > t.day AND {})",
        ((BOOL, "v."),),
    ),
    Form("(SELECT sum(b.k * t.k) FROM t AS b WHERE b.who = t.who AND b.day < t.day) > 1"),
    Form(
        "(SELECT b.n FROM t AS b WHERE b.who = t.who AND b.day > t.day "
        "ORDER BY b.day, b.n LIMIT 1) > t.n"
    ),
)
"""Conditions about rows of t."""
