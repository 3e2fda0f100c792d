"""The harness tells what is equal, refused, noted, undefined and different."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from differential import Kind, Pair, compared

T = pa.table(
    {
        "who": [1, 1, 2, 3, 3, None],
        "k": ["a", "b", "a", None, "c", "a"],
        "x": [1.0, 2.0, 3.0, 4.0, None, 6.0],
    }
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair({"t": T}, keys={"k": ["a", "b", "none"]}, bounds={"x": (0, 10)}) as made:
        yield made


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT k, count(*) AS n, sum(x) AS s FROM t WHERE k <> 'c' GROUP BY k", Kind.EQUAL),
        ("SELECT k, count(*) AS n FROM t WHERE k <> 'c' GROUP BY k ORDER BY n DESC", Kind.EQUAL),
        ("SELECT count(*) AS n FROM t WHERE x > (SELECT avg(x) FROM t)", Kind.EQUAL),
        ("SELECT sum(x) AS s FROM t WHERE x > 100", Kind.EQUAL),
        ("SELECT k, count(*) AS n FROM t GROUP BY k", Kind.NOTED),
        ("SELECT x, count(*) AS n FROM t GROUP BY x", Kind.REFUSED),
        ("SELECT count(*) AS n FROM t WHERE CAST(k AS INTEGER) = 1", Kind.UNDEFINED),
    ],
)
def test_what_becomes_of_a_question(pair: Pair, sql: str, kind: Kind) -> None:
    assert pair.ask(sql).kind is kind


@pytest.mark.parametrize(
    ("sql", "other"),
    [
        ("SELECT count(*) AS n FROM t", "SELECT count(*) + 1 AS n FROM t"),
        ("SELECT count(*) AS n FROM t", "SELECT count(*) AS n, 1 AS m FROM t"),
        ("SELECT count(*) AS n FROM t", "SELECT count(*) AS n FROM t WHERE false GROUP BY k"),
        ("SELECT avg(x) AS a FROM t", "SELECT NULL::DOUBLE AS a"),
        (
            "SELECT k, count(*) AS n FROM t WHERE k IN ('a', 'b') GROUP BY k ORDER BY n",
            "SELECT k, count(*) AS n FROM t WHERE k IN ('a', 'b') GROUP BY k ORDER BY n DESC",
        ),
        (
            "SELECT k, count(*) AS n FROM t WHERE k IN ('a', 'b') GROUP BY k",
            "SELECT upper(k) AS k, count(*) AS n FROM t WHERE k IN ('a', 'b') GROUP BY 1",
        ),
    ],
)
def test_a_difference_is_seen(pair: Pair, sql: str, other: str) -> None:
    assert pair.ask(sql, other).kind is Kind.DIFFERENT


def test_rows_are_missing_only_with_a_note() -> None:
    ours = pa.table({"k": ["a"], "n": [2.0], "n_error": [0.1]})
    theirs = pa.table({"k": ["a", "b"], "n": [2, 1]})
    assert compared(ours, theirs, ordered=False).kind is Kind.DIFFERENT
    note = "rows whose k is in no group are not counted, and cost nothing"
    assert compared(ours, theirs, ordered=False, notes=[note]).kind is Kind.NOTED


def test_a_refusal_charges_nobody(pair: Pair) -> None:
    before = pair.store.stream.accounts.spent.copy()
    assert pair.ask("SELECT x, count(*) FROM t GROUP BY x").kind is Kind.REFUSED
    assert (pair.store.stream.accounts.spent == before).all()
