"""Suggestions about groups: `sparseq.sql.suggestion_rules.groups`."""

from __future__ import annotations

from sql.rewritten import rewritten

from sparseq.sql.suggestion_rules.groups import DAYS, RULES


def test_rows_are_counted_instead_of_shown() -> None:
    found = rewritten(RULES, "SELECT k FROM t ORDER BY x LIMIT 3", "use an aggregate: COUNT, SUM")
    assert found == [("SELECT COUNT(*) AS n FROM t", False)]


def test_distinct_values_become_groups() -> None:
    found = rewritten(RULES, "SELECT DISTINCT k FROM t", "use GROUP BY and COUNT")
    assert found == [("SELECT k, COUNT(*) AS n FROM t GROUP BY k", False)]


def test_example_keys_are_texts_and_then_numbers() -> None:
    query, hint = "SELECT k, count(*) FROM t GROUP BY k", "list them: WHERE k IN (…)"
    found = [query for query, _ in rewritten(RULES, query, hint)]
    wanted = "SELECT k, COUNT(*) FROM t WHERE k IN ({}) GROUP BY k"
    assert found == [wanted.format("'a', 'b'"), wanted.format("1, 2")]


def test_users_are_never_listed() -> None:
    query, hint = "SELECT who, count(*) FROM t GROUP BY who", "list them: WHERE who IN (…)"
    assert rewritten(RULES, query, hint) == []


def test_an_example_range_of_days() -> None:
    hint = "give a range: WHERE day BETWEEN a AND b"
    ((found, _),) = rewritten(RULES, "SELECT count(*) FROM t", hint)
    assert found == f"SELECT COUNT(*) FROM t WHERE day BETWEEN {DAYS}"
