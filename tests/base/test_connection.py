"""Every rule of DuckDB's optimiser was judged; those that look at stored values are off."""

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from constraints import pinned

import sparseq
from sparseq.base._duckdb import connection
from sparseq.base._duckdb.connection import JUDGED, OPTIMIZERS, connect, off, scratch
from sparseq.base.errors import StoreError
from sparseq.store.curator import log

SPARSEQ = Path(sparseq.__file__).parent
JUDGED_OFF = {name for name, (on, _) in OPTIMIZERS.items() if not on}


def test_every_rule_of_the_tested_version_is_judged() -> None:
    """With a newer one the same is told to the curator, and its new rules are off."""
    assert pinned("duckdb") == JUDGED[-1]
    if duckdb.__version__ in JUDGED:
        rules = {name for (name,) in connect().sql("FROM duckdb_optimizers()").fetchall()}
        later = {"self_join_aggregate"} if duckdb.__version__ == "2.0.0" else set()
        assert rules == set(OPTIMIZERS) - later
        assert connection.not_judged() == ""
    else:
        assert duckdb.__version__ in connection.not_judged()


def test_rules_that_look_at_values_are_off_wherever_a_query_is_planned(tmp_path) -> None:
    rows = pa.table({"who": [1, 2], "v": [3, 4]})
    with sparseq.create(tmp_path / "s", {"t": rows}, user="who", seed=1) as made:
        assert _off(made.backend.database) == off()
    with (
        sparseq.connect(tmp_path / "s") as opened,
        sparseq.create(None, {"t": rows}, user="who", seed=1) as in_memory,
    ):
        assert _off(opened.backend.database) == _off(in_memory.backend.database) == off()
        assert _off(opened.lowering.public._con) == off()
    assert "statistics_propagation" in off() >= JUDGED_OFF - {"self_join_aggregate"}


def test_no_connection_is_made_elsewhere() -> None:
    """Nor is DuckDB's own connection used, in which every rule is on."""
    own = re.compile(r"\bduckdb\.(?!sql\(\"FROM answer)[a-z_]+\(")
    found = {
        f"{file.relative_to(SPARSEQ)}: {line.strip()}"
        for file in SPARSEQ.rglob("*.py")
        for line in file.read_text("utf-8").splitlines()
        if own.search(line)
    }
    here = "base/_duckdb/connection.py"
    assert found == {
        f"{here}: with duckdb.connect() as con:",
        f"{here}: return duckdb.connect(str(database), read_only, config=settings)",
    }


@pytest.fixture
def newer(monkeypatch):
    """DuckDB as it will be: of another version, with a rule that nobody has heard of."""
    off.cache_clear()
    monkeypatch.setattr(duckdb, "__version__", "2.0.99")
    monkeypatch.delitem(OPTIMIZERS, "filter_pushdown")
    monkeypatch.setattr(connection, "_kept", {})
    yield
    off.cache_clear()


def test_a_store_opens_with_a_newer_engine_whose_new_rules_are_off(tmp_path, newer) -> None:
    rows = pa.table({"who": [1, 2], "v": [3, 4]})
    path = tmp_path / "s"
    for k in range(3):
        make = sparseq.connect if k else sparseq.create
        given = () if k else ({"t": rows},)
        options = {} if k else {"user": "who", "seed": 1}
        with make(path, *given, **options) as store:
            assert "filter_pushdown" in _off(store.backend.database)
            assert "filter_pushdown" in _off(store.lowering.public._con)
            answer = store.sql(f"SELECT count(*) AS n FROM t WHERE v < {k}")
            assert "judged" not in str(answer) + str(store.explain("SELECT count(*) FROM t"))
    with scratch() as con:
        assert "filter_pushdown" in _off(con)
    with sparseq.connect(path) as store:
        told = [line for line in log(store) if line.kind == "engine"]
    assert len(told) == 1  # once, not at each opening
    assert "DuckDB 2.0.99" in told[0].message
    assert "filter_pushdown" in told[0].message


def test_an_engine_that_lacks_a_setting_is_refused_in_words(monkeypatch) -> None:
    monkeypatch.setitem(connection.SETTINGS, "no_such_setting", "false")
    with pytest.raises(StoreError, match="does not know a setting") as refused:
        connect()
    assert "no_such_setting" in refused.value.message
    assert JUDGED[-1] in refused.value.hint


def test_extremes_are_not_evaluated_while_a_query_is_planned() -> None:
    """With statistics on, DuckDB 2.0.0 raises on the largest amount, outside of the TRY."""
    day = "DATE '1970-01-01' - 2147483646 + 1234 - amount"
    guarded = f"TRY(CASE WHEN hash(amount) IS NOT NULL THEN extract(isoyear FROM {day}) END)"
    con = connect()
    con.execute("CREATE TABLE t AS SELECT 1234 AS amount")
    assert con.sql(f"SELECT count(*) FROM t WHERE {guarded} = 5").fetchall() == [(0,)]


def test_plans_of_an_engine_as_it_comes_tell_of_extremes() -> None:
    """What is off matters: the tests above would not see it if nothing could be seen."""
    plans = []
    for con in (duckdb.connect(), connect()):
        con.execute("CREATE TABLE t AS SELECT range AS amount FROM range(9)")
        ((_, plan),) = con.execute("EXPLAIN SELECT amount FROM t WHERE amount > 8").fetchall()
        plans.append("Empty Result" in plan)
    assert plans == [True, False]


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
        con = connect()
        con.execute("CREATE TABLE t AS SELECT 1 AS u, DATE '2024-01-01' AS day FROM range(9)")
        con.execute(more or "SELECT 1")
        ((_, plan),) = con.execute(f"EXPLAIN SELECT u, day FROM t WHERE {condition}").fetchall()
        plans.append(re.sub(r"~?[\d,]+ rows?|[\s│─┬┴]+", " ", plan))
    assert plans[0] == plans[1]


def _off(connection) -> frozenset[str]:
    ((names,),) = connection.sql("SELECT current_setting('disabled_optimizers')").fetchall()
    return frozenset(name.strip() for name in names.split(","))
