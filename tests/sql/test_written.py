"""Questions as people write them: what becomes of each is in golden/written.txt.

Each answer is plain DuckDB's, but for noise. UPDATE_GOLDEN=1 writes the file anew: a question that
was answered and is not any more shows there, as does every message.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from sql.outcomes import line, recorded, text_of
from sql.test_suggestions import own_names
from sqlglot.tokenizer_core import TokenType

import sparseq
from benchmarks.written import Question, questions
from benchmarks.written.check import outcome, sums
from benchmarks.written.town import plain, store
from sparseq.base.errors import QueryRefused, without_query
from sparseq.sql.parse import Dialect

GOLDEN = Path(__file__).parent / "golden" / "written.txt"
QUESTIONS = questions()


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store(found=True)


@pytest.fixture(scope="module")
def truth() -> duckdb.DuckDBPyConnection:
    return plain()


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.deep)])
def test_what_becomes_of_each_question(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, step: int
) -> None:
    """Of all questions, or of each fourth one against what the file has of it."""
    update = bool(os.environ.get("UPDATE_GOLDEN"))
    asked = QUESTIONS[:: 1 if update else step]
    text = text_of([(q, line(con, truth, q, own_names)) for q in asked])
    if update:
        GOLDEN.write_text(text)
    else:
        assert text == recorded(GOLDEN, QUESTIONS, step)
    assert "differs" not in text, "an answer is not plain DuckDB's"


def _with_a_slip(rng: random.Random, sql: str) -> str:
    """Return a question in which one name has two letters swapped, one missing or one doubled."""
    tokens = sqlglot.tokenize(sql, dialect=Dialect)
    names = [t for t in tokens if t.token_type is TokenType.VAR and len(t.text) > 3]
    if not names:
        return sql
    token = rng.choice(names)
    i = rng.randrange(len(token.text) - 1)
    before, (a, b), after = token.text[:i], token.text[i : i + 2], token.text[i + 2 :]
    written = before + rng.choice([b + a, b, a + a + b]) + after
    return sql[: token.start] + written + sql[token.end + 1 :]


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.deep)])
def test_a_slip_is_mended_into_the_question_that_was_meant(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, step: int
) -> None:
    """What is offered as the same has DuckDB's answer to the question without the slip.

    So it has where BETWEEN says that its ends may be in either order.
    """
    rng, same = random.Random(step), 0
    for question in QUESTIONS[::step]:
        if refused_for(con, question.sql) is not None:
            continue
        symmetric = re.sub(r"(?<!ROWS |ANGE |OUPS )BETWEEN ", "BETWEEN SYMMETRIC ", question.sql)
        for sql in [*(_with_a_slip(rng, question.sql) for _ in range(3)), symmetric]:
            refused = refused_for(con, sql)
            _, offered, alike = without_query(refused.hint) if refused else ("", "", False)
            if offered and alike:
                assert outcome(con, truth, question, offered).kind == "answered", (sql, offered)
                same += 1
            elif offered:
                assert own_names(con, sql, offered), (sql, offered)
    assert same >= 600 // step


def refused_for(con: sparseq.Store, sql: str) -> QueryRefused | None:
    try:
        con.lower(sql)
    except QueryRefused as refused:
        return refused
    return None


def test_of_two_names_that_are_as_near_none_is_taken_for_the_one_that_was_meant(
    con: sparseq.Store,
) -> None:
    refused = refused_for(con, "SELECT count(mtea) FROM tickets")
    assert refused is not None
    hint, offered, same = without_query(refused.hint)
    assert (hint, same) == ("did you mean 'team'?", False)
    assert offered == "SELECT COUNT(team) AS other FROM tickets"


@pytest.mark.parametrize(
    "step", [80, pytest.param(24, marks=pytest.mark.deep), pytest.param(1, marks=pytest.mark.deep)]
)
def test_what_people_add_adds_up(step: int) -> None:
    """Nobody's rows change what another's add: the sums of two halves are those of the whole."""
    con = store()  # keys that are found are not those of the halves
    halves = [store(lives_here=lambda person, i=i: person % 2 == i) for i in (0, 1)]
    compared = 0
    for question in QUESTIONS[::step]:
        try:
            whole = sums(con, question.sql)
        except QueryRefused:
            continue
        parts = [sums(half, question.sql) for half in halves]
        for all_of_them, *some in zip(whole, *parts, strict=True):
            assert np.array_equal(all_of_them, some[0] + some[1]), question.title
        compared += 1
    assert compared >= 400 // step


def test_the_file_has_each_question_once_and_no_other() -> None:
    assert recorded(GOLDEN, QUESTIONS, 1) == GOLDEN.read_text()


def test_there_are_enough_of_each_kind() -> None:
    kinds = {q.category for q in QUESTIONS}
    assert len(QUESTIONS) >= 500
    assert len(kinds) == 20
    assert all(sum(q.category == kind for q in QUESTIONS) >= 18 for kind in kinds)
    assert len({(q.category, q.title) for q in QUESTIONS}) == len(QUESTIONS)


FORMS = [
    # numbers of what is one person's each, in groups, with conditions, beside people and rows
    "SELECT device, count(DISTINCT session_id) FILTER (WHERE event = 'view') AS v, "
    "count(DISTINCT person_id) AS p, count(*) AS n FROM events WHERE page IN ('/home', '/x') "
    "GROUP BY device HAVING count(DISTINCT session_id) > 3",
    "SELECT count(DISTINCT o.order_id) AS n, count(DISTINCT t.ticket_id) AS k "
    "FROM orders o LEFT JOIN tickets t ON t.person_id = o.person_id",
    # an answer says which groups are wanted
    "SELECT channel, status, sum(amount) AS s FROM orders WHERE channel IN (SELECT channel "
    "FROM orders GROUP BY channel ORDER BY sum(amount) DESC LIMIT 2) GROUP BY 1, 2 ORDER BY 1, 2",
    "WITH top AS (SELECT channel, count(*) AS n FROM orders GROUP BY channel ORDER BY n DESC "
    "LIMIT 2) SELECT o.channel, o.status, count(*) AS n FROM orders o JOIN top "
    "ON top.channel = o.channel WHERE o.amount > 100 GROUP BY 1, 2",
    "SELECT quarter(ordered_at) AS q, sum(amount) AS s, avg(amount) FILTER (WHERE amount > 9) AS a "
    "FROM orders WHERE amount > 1 AND channel IN (SELECT channel FROM orders GROUP BY channel "
    "ORDER BY count(*) DESC LIMIT 2) GROUP BY 1 HAVING count(*) > 30",
    # a number about people for each row of a public table
    "SELECT p.name, (SELECT count(*) FROM orders o WHERE o.product_id = p.product_id "
    "AND o.amount > p.list_price) AS n, (SELECT count(*) FROM orders) AS every "
    "FROM products p WHERE p.category = 'books'",
    # one of a person's values, whatever row comes first
    "SELECT count(*) AS n FROM (SELECT person_id, first(cost ORDER BY visit_date) AS a, "
    "last(cost ORDER BY visit_date DESC) AS b FROM visits GROUP BY person_id) WHERE b > a - 5",
    "SELECT status, mode(channel) AS m FROM orders WHERE amount > 100 GROUP BY status",
    # what a key of a public table says
    "SELECT o.product_id, any_value(p.name) AS name, max(p.list_price) AS price, count(*) AS n "
    "FROM orders o JOIN products p USING (product_id) GROUP BY 1 ORDER BY max(p.list_price)",
    # answers in a FULL JOIN
    "SELECT coalesce(a.channel, b.channel) AS c, a.n, b.n AS m FROM (SELECT channel, count(*) AS n "
    "FROM orders WHERE channel IN ('web', 'store') GROUP BY channel) a FULL JOIN (SELECT channel, "
    "count(*) AS n FROM orders WHERE channel IN ('web', 'phone') GROUP BY channel) b "
    "ON a.channel = b.channel",
    # a name that is a column's too, in subtotals
    "SELECT CASE WHEN grouping(channel) = 1 THEN 'all' ELSE upper(channel) END AS channel, "
    "count(*) AS n FROM orders GROUP BY ROLLUP (channel)",
    "SELECT count(*) AS n FROM orders WHERE list_contains(['web', 'phone'], channel) "
    "AND ordered_at AT TIME ZONE 'UTC' >= TIMESTAMPTZ '2024-05-01 00:00:00+02:00'",
]


@pytest.mark.parametrize("sql", FORMS, ids=lambda sql: sql[:50])
def test_a_form_is_answered_as_duckdb_answers_it(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, sql: str
) -> None:
    found = outcome(con, truth, Question("", "", sql, sql))
    assert (found.kind, found.said) == ("answered", "")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT page, count(DISTINCT session_id) FROM events GROUP BY page", "all other keys"),
        ("SELECT count(DISTINCT coupon) FROM orders", "these are not public"),
        # an answer with several rows of a channel would count rows twice
        (
            "WITH top AS (SELECT channel, status, count(*) AS n FROM orders GROUP BY 1, 2) SELECT "
            "o.channel, count(*) AS k FROM orders o JOIN top ON top.channel = o.channel GROUP BY 1",
            "joins people's rows with an answer",
        ),
        (
            "SELECT p.category, max(p.name) FROM orders o JOIN products p USING (product_id) "
            "GROUP BY 1",
            "MAX is the value of one person",
        ),
        (
            "SELECT p.product_id, max(p.name) FROM orders o JOIN products p USING (product_id) "
            "GROUP BY 1",
            "nothing about people",
        ),
        (
            "SELECT max(CASE WHEN person_id IS NULL THEN 1 ELSE 0 END) FROM orders",
            "nothing about people",
        ),
        (
            "SELECT subject, count(DISTINCT ticket_id) FROM tickets GROUP BY subject",
            "the values of subject are not public",
        ),
        ("SELECT first(amount) FROM orders", "one person's value"),
        ("SELECT max(status) FROM orders", "MAX is the value of one person"),
        (
            "SELECT count(*) FROM (SELECT person_id, first(amount) AS a FROM orders GROUP BY 1) "
            "WHERE a > 1",
            "which row comes first is open",
        ),
    ],
)
def test_another_meaning_is_refused(con: sparseq.Store, sql: str, said: str) -> None:
    with pytest.raises(QueryRefused, match=said):
        con.lower(sql)


def test_groups_that_no_row_can_be_in_are_not_shown(con: sparseq.Store) -> None:
    """Declared keys are not all values that a column may have: then each combination may be.

    NULL goes with what is made of NULL alone, and is listed only where a row is sure to have it.
    """

    def groups(keys: str, rows: str = "orders") -> int:
        answer = con.sql(f"SELECT {keys}, count(*) AS n FROM {rows} GROUP BY ALL", fresh=True)
        return len(answer.rows())

    assert groups("year(ordered_at) AS y, date_trunc('month', ordered_at) AS m") == 24
    assert groups("c.clinic_id, c.city, readmit", "visits JOIN clinics c USING (clinic_id)") == 8
    assert groups("channel, upper(channel) AS u") == 4
    assert groups("channel, coalesce(channel, 'none') AS c") == 4
    assert groups("channel = 'web' AS w, channel = 'store' AS s") == 2 * 2
    assert groups("month(ordered_at) AS m, dayofweek(ordered_at) AS d") == 84
    books = "orders o LEFT JOIN products p ON o.product_id = p.product_id AND p.category = 'books'"
    assert groups("p.product_id, coalesce(p.name, 'none') AS name", books) == 3 + 1


def test_the_greatest_and_the_least_lie_in_their_intervals(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection
) -> None:
    sql = "SELECT status, min(amount) AS lo, max(quantity) AS hi FROM orders GROUP BY status"
    rows = con.sql(sql, price=1000).rows()
    assert None not in {row["status"] for row in rows}  # of no row
    for row in rows:
        where = f"status = '{row['status']}'"
        ((low, high),) = truth.execute(
            f"SELECT min(amount), max(quantity) FROM orders WHERE {where}"
        ).fetchall()
        assert abs(row["lo"] - low) <= row["lo_error"] < 500
        assert abs(row["hi"] - high) <= row["hi_error"] <= 20


def test_quantiles_at_the_ends_go_beside_others() -> None:
    """A quantile has bins of its own; the ends of a distribution have those of the bounds."""
    rows = pa.table({"who": range(300), "x": [float(i % 100) for i in range(300)]})
    with sparseq.create(None, {"t": rows}, user="who", bounds={"x": (0, 100)}, seed=1) as one:
        answer = one.sql("SELECT quantile(x, 1.0) AS a, quantile(x, 0.5) AS b FROM t").rows()[0]
    assert answer["a_low"] <= 99 <= answer["a_high"]
    assert answer["b_low"] <= 50 <= answer["b_high"]
