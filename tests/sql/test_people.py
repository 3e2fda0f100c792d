"""Suggestions that keep people's rows together: `sparseq.sql.suggestion_rules.people`."""

from __future__ import annotations

from sql.rewritten import rewritten

from sparseq.sql.suggestion_rules.people import RULES


def test_a_join_without_a_condition_gets_the_user() -> None:
    found = rewritten(RULES, "SELECT sum(x) FROM t, u", "add ON t.who = u.who")
    assert found == [("SELECT SUM(x) FROM t JOIN u ON t.who = u.who", False)]


def test_a_condition_is_kept_beside_the_user() -> None:
    query = "SELECT sum(x) FROM t JOIN u ON t.x = u.y"
    ((found, same),) = rewritten(RULES, query, "add ON t.who = u.who")
    assert (found, same) == ("SELECT SUM(x) FROM t JOIN u ON t.who = u.who AND t.x = u.y", False)


def test_the_tables_of_a_left_join_are_swapped() -> None:
    query = "SELECT count(*) FROM days LEFT JOIN t ON day = d"
    ((found, _),) = rewritten(RULES, query, "put the private table first")
    assert found == "SELECT COUNT(*) FROM t LEFT JOIN days ON day = d"


def test_windows_are_partitioned_by_user_all_or_one() -> None:
    query = "SELECT sum(r) FROM (SELECT rank() OVER (ORDER BY x) AS r FROM t)"
    found = rewritten(RULES, query, "add PARTITION BY who: each person's own rows")
    wanted = "SELECT SUM(r) FROM (SELECT RANK() OVER (PARTITION BY who ORDER BY x) AS r FROM t)"
    assert found == [(wanted, False)] * 2


def test_union_becomes_union_all() -> None:
    query = "SELECT count(*) FROM (SELECT x FROM t UNION SELECT y FROM u)"
    ((found, _),) = rewritten(RULES, query, "select who too, or write UNION ALL")
    assert found == "SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT y FROM u)"
