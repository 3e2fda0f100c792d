"""Hints, taken literally: the query that a refusal offers is answered, and none leads nowhere.

Every refusal of golden/refusals.txt has a hint that a rule of `sparseq.sql.suggestion_rules` takes,
and then the query it leads to is asked here; or one of ADVICE, which no program can take for
somebody. What is left is LEFT, by name.
"""

from __future__ import annotations

import re

import duckdb
import pytest
from test_hostile import EVENTS, LONG, SHOPS, VISITS, read_golden

import sparseq
from benchmarks.written import Question
from benchmarks.written.check import outcome
from checks.stores import IN_OR_OUT
from sparseq.base.errors import QueryRefused, with_query, without_query
from sparseq.released.render import schema_of
from sparseq.released.result_columns import noised_of
from sparseq.sql.suggestion_rules import RULES
from sparseq.sql.suggestion_rules.rule import OTHER
from sparseq.sql.suggestions import suggest

ADVICE = """
write \\S+ for the nearest number|no number of a column is as large|
only SELECT is answered|FROM names the store's tables|docs/sql.md (lists|says)|known here: |
name a table of the store|write it, or give params|give public bounds|
compute it (in a subquery|step by step)|a constant in the query doesn't fit its type|
use another tool; no privacy is needed|write the number itself|a quantile lies between 0 and 1|
\\[0, 10, 20, 50\\]|ask for the rest in another query|write a smaller number|at most 1,000,000|
join the tables|split it|use fewer|send it as UTF-8|the noise is added for you|use ROWS n PRECEDING|
use coalesce\\(\\), one SELECT further out|write a subquery for each step|use SELECT … AS name|
write FROM a JOIN b|compare numbers with numbers|write CAST\\(x AS type\\)|OPTIONS takes sigma|
PIVOT t ON x IN|write them once, in the outer SELECT|SELECT count\\(\\*\\) FROM a table|
select the user in each of the two|count people: |
use COUNT, SUM, AVG, MIN, MAX|count each value: |declare a public table|
count rows by time: |group by longer stretches|
add it to a date or time; |leave the start out: they are counted|use CASE|unnest a list of a table
"""
LEFT = {
    "text has no middle": "SELECT any_value(note) FROM events",
    "nor a histogram": "SELECT histogram(note) FROM events",
    "LATERAL is not answered": "SELECT count(*) FROM events e, (SELECT e.amount AS a) l",
    "no column is a struct": "SELECT count(*) FROM events WHERE events.note.x = 3",
    "a name of its own for a table of the store": "WITH shops AS "
    "(SELECT * FROM events) SELECT count(*) FROM events WHERE shop_id IN "
    "(SELECT shop_id FROM shops)",
    "lists are not answered": "SELECT count(*) FROM events WHERE CAST(qty AS INT[]) = [1]",
    "nothing is asked yet": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(",
    "nor here": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS",
    "nor there": "SELEC",
}
"""Why a rule leads to no answer, and of what query."""
OPTIONS = re.compile(r"WITH DIFFERENTIAL_PRIVACY OPTIONS(\((\([^()]*\)|[^()])*\))?")
NO_SQL = (
    r"evnets|amuont|cuont|cоunt|еvents|SELEC |WIHT|e\.amount|shops\.amount|(by_\w+|public)\.\w+"
)
"""What DuckDB doesn't read either, so that there is nothing to hold a suggestion against."""


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    tables, public = {"visits": VISITS}, {"shops": SHOPS}
    return sparseq.create(
        None,
        {**tables, "events": EVENTS},
        user="who",
        public=public,
        purposes=IN_OR_OUT,
        find_bounds=None,
    )


def refusal(con: sparseq.Store, query: str) -> QueryRefused | None:
    try:
        con.sql(query, fresh=True)
    except QueryRefused as refused:
        return refused
    return None


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    truth = duckdb.connect()
    for name, rows in {"events": EVENTS, "visits": VISITS, "shops": SHOPS}.items():
        truth.register(name, rows)
    return truth


def own_names(con: sparseq.Store, query: str, offered: str) -> bool:
    """Tell whether all that another question shows of people has names that the first has not."""
    noised = {name.lower() for name in noised_of(schema_of(con.lower(offered), False))}
    words = {word.lower() for word in re.findall(r"\w+", without_strings(query))}
    return noised.isdisjoint(words) and all(OTHER in name for name in noised)


def without_strings(query: str) -> str:
    return re.sub(r"'[^']*'", "", query)


def test_every_hint_leads_to_an_answer_or_is_advice(con: sparseq.Store) -> None:
    advice = re.compile(ADVICE.replace("\n", ""))
    left, silent, asked, answered = set(), set(), set[str](), 0
    for query, said in read_golden():
        if "  hint: " not in said or query in LONG:
            continue
        refused = refusal(con, query)
        assert refused is not None
        hint, offered, same = without_query(refused.hint)
        if offered and not same:
            assert own_names(con, query, offered), (query, offered)
        by_rule = any(rule.pattern.search(hint) for rule in RULES)
        if by_rule and not offered:  # a sum without a scale is refused after it is lowered
            offered = suggest(query, refused, con.catalog, con.lower).query
        if offered:
            assert offered in asked or refusal(con, offered) is None, (query, offered)
            asked.add(offered)
            answered += 1
        elif by_rule:
            left.add(query)
        elif not advice.match(hint):
            silent.add(hint)
    assert left == set(LEFT.values())
    assert silent == set()
    assert answered > 100


def test_what_asks_the_same_has_duckdbs_answer(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection
) -> None:
    """Of each "Try": DuckDB answers the refused query as the suggestion is answered here."""
    compared = 0
    for query, said in read_golden():
        _, offered, same = without_query(said)
        if not (offered and same):
            continue
        written = OPTIONS.sub("", query)
        if no_sql := re.search(NO_SQL, query):
            with pytest.raises(duckdb.Error):
                plain.execute(written)
        text = OPTIONS.sub("", offered) if no_sql else written
        if con.lower(offered).measures:
            assert outcome(con, plain, Question("", "", offered, text)).kind == "answered", query
        else:  # public tables alone
            assert [*con.sql(offered).rows()[0].values()] == [*plain.sql(text).fetchall()[0]]
        compared += not no_sql
    assert compared >= 8


def test_what_subqueries_have_is_not_seen(con: sparseq.Store) -> None:
    """A column that one table of the store has may be meant as the subquery's of that name."""
    query = (
        "WITH s AS (SELECT who, sum(qty) AS qty FROM events GROUP BY who) "
        "SELECT count(*) FROM s JOIN events ON s.who = events.who WHERE qty > 1"
    )
    refused = refusal(con, query)
    assert refused is not None
    _, offered, same = without_query(refused.hint)
    assert not same
    assert own_names(con, query, offered)


@pytest.mark.parametrize(
    ("query", "offered"),
    [
        (
            "SELECT count(*) FROM evnets WHERE amuont > 1",
            "SELECT count(*) FROM events WHERE amount > 1",
        ),
        (
            "SELECT sum(DISTINCT amount) FROM events",
            "SELECT SUM(LEAST(GREATEST(amount, 0), 100)) AS other FROM events",
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 9) max(qty) FROM events",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 9) QUANTILE(qty, 0.99, "
            "[0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, "
            "10000]) AS other FROM events",
        ),
        (
            "SELECT count(*) FROM events e JOIN visits v USING (day)",
            "SELECT COUNT(*) AS other FROM events AS e JOIN visits AS v USING (day, who)",
        ),
        (
            "SELECT date_trunc('month', day) AS m, count(*) FROM events GROUP BY m",
            "SELECT DATE_TRUNC('MONTH', day) AS m, COUNT(*) AS other FROM events WHERE day BETWEEN "
            "DATE '2024-01-01' AND DATE '2024-12-31' GROUP BY m",
        ),
        (
            "SELECT count(*) FROM events WHERE amount > "
            "(SELECT avg(amount) FROM events e WHERE e.qty = events.qty)",
            "SELECT COUNT(*) AS other FROM events WHERE amount > (SELECT AVG(amount) "
            "FROM events AS e WHERE e.qty = events.qty AND e.who = events.who)",
        ),
        (
            "SELECT count(*) AS count FROM events GROUP BY note",
            "SELECT COUNT(*) AS count_other FROM events WHERE note IN ('a', 'b') GROUP BY note",
        ),
    ],
)
def test_it_is_what_a_person_would_have_written(
    con: sparseq.Store,
    query: str,
    offered: str,
) -> None:
    refused = refusal(con, query)
    assert refused is not None
    assert without_query(refused.hint)[1] == offered


def test_a_hint_and_its_query_are_told_apart() -> None:
    for hint in ("leave it out", "did you mean 'a'?", ""):
        assert without_query(with_query(hint, "SELECT 1", True)) == (hint, "SELECT 1", True)
        assert without_query(with_query(hint, "")) == (hint, "", True)


def test_it_ends_whatever_is_asked(con: sparseq.Store) -> None:
    tried: list[str] = []

    def lower(query: str) -> None:
        tried.append(query)
        raise QueryRefused("amount is neither in GROUP BY nor aggregated", "add it to GROUP BY")

    why = QueryRefused("amount is neither in GROUP BY nor aggregated", "add it to GROUP BY")
    nested = "SELECT count(*) FROM (SELECT who FROM (SELECT who FROM events))"
    assert suggest(nested, why, con.catalog, lower).query == ""
    assert 3 < len(tried) <= 12
