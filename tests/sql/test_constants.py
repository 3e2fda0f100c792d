"""Suggestions about constants and options: `sparseq.sql.suggestion_rules.constants`."""

from __future__ import annotations

from sql.rewritten import rewritten

from sparseq.sql.suggestion_rules.constants import RULES


def test_between_symmetric_is_both_ways() -> None:
    query = "SELECT count(*) FROM t WHERE x BETWEEN SYMMETRIC 3 AND 1"
    found = rewritten(RULES, query, "write x BETWEEN a AND b OR x BETWEEN b AND a")
    wanted = "SELECT COUNT(*) FROM t WHERE (x BETWEEN 3 AND 1 OR x BETWEEN 1 AND 3)"
    assert found == [(wanted, True)]


def test_rounding_gets_two_decimals() -> None:
    found = rewritten(RULES, "SELECT round(avg(x), y) FROM t", "ROUND(x, 2)")
    assert found == [("SELECT ROUND(AVG(x), 2) FROM t", False)]


def test_the_first_of_two_statements() -> None:
    query = "SELECT count(*) FROM t; SELECT 1"
    assert rewritten(RULES, query, "send each SELECT by itself") == [
        ("SELECT COUNT(*) FROM t", False)
    ]


def test_an_option_is_given_once() -> None:
    query = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 3, sigma => 4) count(*) FROM t"
    found = rewritten(RULES, query, "give it once", "sigma is given twice")
    wanted = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 3) count(*) FROM t"
    assert found == [(wanted, True)]
