"""Every rule of DuckDB's optimiser was judged; those that look at stored values are off."""

import re

import duckdb
import pyarrow as pa
import pytest

import sparseq
from sparseq.engine._duckdb.connection import OFF, OPTIMIZERS, connected


def test_every_rule_is_judged() -> None:
    rules = {name for (name,) in connected().sql("SELECT * FROM duckdb_optimizers()").fetchall()}
    assert rules == set(OPTIMIZERS)


def test_rules_that_look_at_values_are_off_wherever_a_query_is_planned(tmp_path) -> None:
    rows = pa.table({"who": [1, 2], "v": [3, 4]})
    with sparseq.create(
        tmp_path / "s", rows, table="t", user="who", seed=1, in_or_out=True
    ) as made:
        assert _off(made.backend.database) == OFF
    with (
        sparseq.connect(tmp_path / "s") as opened,
        sparseq.create(None, rows, table="t", user="who", seed=1, in_or_out=True) as in_memory,
    ):
        assert _off(opened.backend.database) == _off(in_memory.backend.database) == OFF
        assert _off(opened.lowering.public._con) == OFF
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


@pytest.mark.parametrize(
    "odd", ["NULL", "DATE '0001-01-01'", "DATE '9999-12-31'"], ids=["NULL", "first", "last"]
)
@pytest.mark.parametrize(
    "condition",
    [
        "date_trunc('minute', day) = TIMESTAMP '2000-01-02 22:11:07'",
        "day IS NOT NULL",
        "day = DATE '2024-01-02'",
        "CAST(day AS TIMESTAMP) < TIMESTAMP '2000-01-01'",
        "day IN (DATE '2024-01-02', DATE '2030-01-01')",
        "coalesce(day, DATE '2024-01-01') = DATE '2024-01-01'",
    ],
)
def test_a_plan_is_the_same_whatever_a_column_holds(condition: str, odd: str) -> None:
    """Else the plan, and with it the time, would tell of a single row."""
    plans = []
    for more in ("", f"INSERT INTO t VALUES (2, {odd})"):
        con = connected()
        con.execute("CREATE TABLE t AS SELECT 1 AS u, DATE '2024-01-01' AS day FROM range(9)")
        con.execute(more or "SELECT 1")
        ((_, plan),) = con.execute(f"EXPLAIN SELECT u, day FROM t WHERE {condition}").fetchall()
        plans.append(re.sub(r"~?[\d,]+ rows?|[\s│─┬┴]+", " ", plan))
    assert plans[0] == plans[1]


def _off(connection) -> frozenset[str]:
    ((names,),) = connection.sql("SELECT current_setting('disabled_optimizers')").fetchall()
    return frozenset(name.strip() for name in names.split(","))
