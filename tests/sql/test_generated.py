"""Random queries of a small grammar, without their noise, against plain DuckDB."""

from __future__ import annotations

import re

import duckdb
import pytest
from compare import check_same
from grammar import Pair, queries
from hypothesis import HealthCheck, Phase, given, settings
from shop import answer, store, truth

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Options

OPTIONS = Options(sigma=8.0)
"""A lattice of 2**-20, on which the grammar's values are far from too large."""
REFUSED = "Division by zero in expression| has no value$|no value of .* can pass the WHERE"
"""A constant that fails, and keys between two ends that can't be used together."""
quickly = settings(
    derandomize=True,
    max_examples=30,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
thoroughly = settings(quickly, max_examples=5000)


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    """Without the optimiser, which moves what two expressions share out of TRY; a division by zero
    is NULL, as docs/sql.md has it."""
    con = truth()
    con.execute("PRAGMA disable_optimizer")
    con.execute("SET error_on_division_by_zero = false")
    return con


def _check(con: sparseq.Store, plain: duckdb.DuckDBPyConnection, pair: Pair) -> None:
    theirs = plain.sql(pair.plain).to_arrow_table()
    try:
        ours = answer(con, pair.asked, OPTIONS)
    except QueryRefused as refused:
        if not re.search(REFUSED, refused.message):
            raise
    else:
        check_same(ours, theirs, in_order=False, exact=False)


@quickly
@given(pair=queries())
def test_a_random_query_is_duckdbs(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, pair: Pair
) -> None:
    _check(con, plain, pair)


@pytest.mark.deep
@thoroughly
@given(pair=queries())
def test_many_random_queries_are_duckdbs(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, pair: Pair
) -> None:
    _check(con, plain, pair)
