"""Suggestions about clauses: `sparseq.sql.suggestion_rules.clauses`."""

from __future__ import annotations

from sql.rewritten import rewritten

from sparseq.sql.suggestion_rules.clauses import RULES


def test_a_sample_is_left_out() -> None:
    query = "SELECT count(*) FROM t TABLESAMPLE 10%"
    ((found, same),) = rewritten(RULES, query, "leave TABLESAMPLE out")
    assert (found, same) == ("SELECT COUNT(*) FROM t", False)


def test_a_limit_inside_is_left_out_with_its_order() -> None:
    query = "SELECT count(*) FROM (SELECT x FROM t ORDER BY x LIMIT 3) LIMIT 5"
    ((found, _),) = rewritten(RULES, query, "leave it out", "LIMIT inside a subquery")
    assert found == "SELECT COUNT(*) FROM (SELECT x FROM t) LIMIT 5"


def test_having_without_groups_becomes_where() -> None:
    query = "SELECT count(*) FROM t WHERE k = 'a' HAVING x > 1"
    ((found, _),) = rewritten(RULES, query, "use WHERE")
    assert found == "SELECT COUNT(*) FROM t WHERE k = 'a' AND x > 1"
