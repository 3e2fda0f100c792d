"""Suggestions about names: `sparseq.sql.suggestion_rules.names`."""

from __future__ import annotations

from sql.rewritten import rewritten

from sparseq.sql.suggestion_rules.names import RULES


def test_a_slip_means_the_same_and_another_function_does_not() -> None:
    query, hint = "SELECT sum(xx) FROM t", "did you mean 'x'?"
    found = rewritten(RULES, query, hint, "there is no column 'xx'")
    assert found == [("SELECT sum(x) FROM t", True)]
    query, hint = "SELECT second(x) FROM t", "did you mean 'sum'?"
    found = rewritten(RULES, query, hint, "there is no function second()")
    assert found == [("SELECT sum(x) FROM t", False)]


def test_the_first_word_is_corrected() -> None:
    found = rewritten(RULES, "SELCT sum(x) FROM t", "did you mean SELECT?")
    assert found == [("SELECT sum(x) FROM t", True)]


def test_the_second_of_two_columns_of_one_name_gets_another() -> None:
    query, message = "SELECT k, sum(x) AS k FROM t GROUP BY 1", "two columns are named 'k'"
    found = rewritten(RULES, query, "rename one: … AS other", message)
    assert found == [("SELECT k, SUM(x) AS other FROM t GROUP BY 1", True)]


def test_a_column_gets_the_table_that_has_it() -> None:
    query = "SELECT sum(y) FROM t JOIN u ON t.who = u.who"
    found = rewritten(RULES, query, "write table.column", "column 'y' is not known here")
    assert ("SELECT SUM(u.y) FROM t JOIN u ON t.who = u.who", True) in found
