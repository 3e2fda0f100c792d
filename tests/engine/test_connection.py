"""Every rule of DuckDB's optimiser was judged; those that look at stored values are off."""

import duckdb
import pyarrow as pa
import pytest

import sparseq
from sparseq.engine.connection import OFF, OPTIMIZERS, connected
from sparseq.query.public import PublicFacts


def test_every_rule_is_judged() -> None:
    rules = {name for (name,) in connected().sql("SELECT * FROM duckdb_optimizers()").fetchall()}
    assert rules == set(OPTIMIZERS)


def test_rules_that_look_at_values_are_off_wherever_a_query_is_planned(tmp_path) -> None:
    rows = pa.table({"who": [1, 2], "v": [3, 4]})
    with sparseq.create(tmp_path / "s", rows, table="t", user="who", seed=1) as made:
        assert _off(made._con) == OFF
    with (
        sparseq.connect(tmp_path / "s") as opened,
        sparseq.create(None, rows, table="t", user="who", seed=1) as in_memory,
    ):
        assert _off(opened._con) == _off(in_memory._con) == OFF
        assert _off(PublicFacts(opened.catalog, opened._con)._con) == OFF
    assert "statistics_propagation" in OFF


def test_extremes_are_not_evaluated_while_a_query_is_planned() -> None:
    """With statistics on, the planner raises on the largest amount, outside of the TRY."""
    day = "DATE '1970-01-01' - 2147483646 + 1234 - amount"
    guarded = f"TRY(CASE WHEN hash(amount) IS NOT NULL THEN extract(isoyear FROM {day}) END)"
    sql = f"SELECT count(*) FROM t WHERE {guarded} = 5"
    for con in (duckdb.connect(), connected()):
        con.execute("CREATE TABLE t AS SELECT 1234 AS amount")
        if con.sql("SELECT current_setting('disabled_optimizers')").fetchall() == [("",)]:
            with pytest.raises(duckdb.Error):
                con.sql(sql).fetchall()
        else:
            assert con.sql(sql).fetchall() == [(0,)]


def _off(connection) -> frozenset[str]:
    ((names,),) = connection.sql("SELECT current_setting('disabled_optimizers')").fetchall()
    return frozenset(name.strip() for name in names.split(","))
