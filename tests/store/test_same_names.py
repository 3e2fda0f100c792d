"""Two tables have a column of one name: what is declared of the one does not hold for the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

import sparseq
from sparseq.base._duckdb.connection import connect
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger.question_settings import Questions
from sparseq.load._duckdb.storage import Storage
from sparseq.question.catalog import Column
from sparseq.store._duckdb.upgrade import upgraded
from sparseq.store.shared_facts import FACTS_OF_COLUMNS

PEOPLE = 600
_N = np.arange(PEOPLE)
SALES = pa.table(
    {
        "who": _N,
        "pid": _N % 3 + 1,
        "price": (_N % 100).astype(float),
        "status": np.where(_N % 2, "open", "paid"),
        "order_id": _N,
    }
)
VISITS = pa.table(
    {
        "who": _N,
        "status": np.where(_N % 3, "seen", "left"),
        "price": _N % 7 * 1000.0,
        "order_id": _N % 5,
    }
)
PROD = pa.table(
    {"pid": [1, 2, 3], "status": ["new", "old", "open"], "price": [1.0, 2000.0, 3000.0]}
)
BOUNDS: dict[str, Any] = {"price": (0, 100)}
KEYS: dict[str, Any] = {"status": ["open", "paid"]}
LEVEL = 1024.0


def made(tables: dict[str, Any], **options: Any) -> sparseq.Store:
    return sparseq.create(None, tables, user="who", kappa=LEVEL, seed=5, **options)


def column(con: sparseq.Store, table: str, name: str) -> Column:
    return con.catalog.table(table).column(name)


def values(con: sparseq.Store, sql: str) -> list[Any]:
    """Return the first column of an answer."""
    return con.sql(sql).arrow().column(0).to_pylist()


@pytest.fixture(scope="module")
def shop() -> sparseq.Store:
    return made({"sales": SALES}, public={"prod": PROD}, bounds=BOUNDS, keys=KEYS)


def test_a_public_table_keeps_its_own_values(shop: sparseq.Store) -> None:
    for name in ("price", "status"):
        assert column(shop, "prod", name).bounds is column(shop, "prod", name).keys is None
    assert column(shop, "sales", "price").bounds == (0, 100)
    joined = "FROM sales JOIN prod USING (pid)"
    (mean,) = values(shop, f"SELECT avg(prod.price) AS a {joined}")
    assert mean == pytest.approx(1667, rel=0.1)
    keys = values(shop, f"SELECT prod.status, count(*) AS n {joined} GROUP BY prod.status")
    assert keys == ["new", "old", "open"]
    (most,) = values(shop, f"SELECT max(prod.price) AS m {joined}")
    assert most > 2500
    both = f"SELECT sales.status, prod.status AS kind, count(*) AS n {joined} GROUP BY ALL"
    found = shop.sql(both).arrow().select(["status", "kind"]).to_pylist()
    assert {row["kind"] for row in found} == {"new", "old", "open"}
    assert {row["status"] for row in found} == {"open", "paid"}


def test_an_alias_is_of_the_column_that_it_names(shop: sparseq.Store) -> None:
    inside = "(SELECT who, price AS p, status AS s FROM sales)"
    counted = values(shop, f"SELECT s, count(*) AS n FROM {inside} GROUP BY s")
    assert counted[:2] == ["open", "paid"]
    other = "(SELECT who, pid AS price FROM sales)"  # no price: it has no bounds of one
    said = repr(shop.explain(f"SELECT avg(price) AS a FROM {other}"))
    assert "once for all questions" in said  # its own are looked for
    prices = "(SELECT pid, price * 2 AS price FROM prod)"
    (mean,) = values(shop, f"SELECT avg(p.price) AS a FROM sales JOIN {prices} p USING (pid)")
    assert mean == pytest.approx(3334, rel=0.1)


def test_of_two_private_tables_one_is_named() -> None:
    both: dict[str, Any] = {"sales": SALES, "visits": VISITS}
    with pytest.raises(sparseq.ParameterError) as refused:
        made(both, keys=KEYS)
    assert "sales, visits each have a column status" in refused.value.message
    assert "--keys sales.status or --keys visits.status" in refused.value.hint
    named = {"sales.status": ["open", "paid"], "Visits.Status": ["seen", "left"]}
    con = made(both, keys=named, bounds={"sales.price": (0, 100), "visits.price": (0, 6000)})
    for table, keys in (("sales", ("open", "paid")), ("visits", ("seen", "left"))):
        assert column(con, table, "status").keys == keys
        counted = values(con, f"SELECT status, count(*) AS n FROM {table} GROUP BY status")
        assert counted[:2] == list(keys)
    (mean,) = values(con, "SELECT avg(price) AS a FROM visits")
    assert mean == pytest.approx(3000, rel=0.1), "not cut to the bounds of the other table"


def test_what_is_owned_in_one_table_is_shared_in_another() -> None:
    con = made({"sales": SALES, "visits": VISITS}, keys={"sales.order_id": "@own"})
    assert [str(place) for place in con.catalog.owned] == ["sales.order_id"]
    (number,) = values(con, "SELECT count(DISTINCT order_id) AS n FROM sales")
    assert number == pytest.approx(PEOPLE, abs=60)
    with pytest.raises(sparseq.QueryRefused):
        con.sql("SELECT count(DISTINCT order_id) AS n FROM visits")


def test_found_bounds_are_of_one_column() -> None:
    both: dict[str, Any] = {"sales": SALES, "visits": VISITS}
    with pytest.raises(sparseq.ParameterError, match="each have a column price"):
        made(both, find_bounds=["price"])
    con = made(both, find_bounds=["visits.price"])
    assert {str(place) for place in con.found_bounds.by_column} == {"visits.price"}


REFUSED: list[tuple[str, Callable[[str], dict[str, Any]]]] = [
    ("bounds", lambda at: {"bounds": {f"{at}price": (0, 9)}}),
    ("keys", lambda at: {"keys": {f"{at}status": ["open"]}}),
    ("types", lambda at: {"types": {f"{at}price": "FLOAT"}}),
    ("not null", lambda at: {"types": {f"{at}price": "NOT NULL"}}),
    ("rename", lambda at: {"rename": {f"{at}price": "cost"}}),
    ("drop", lambda at: {"drop": [f"{at}price"]}),
    ("budget", lambda at: {"budget_column": f"{at}price", "purposes": [_PLAIN]}),
]
_PLAIN = Questions(in_or_out=True)


@pytest.mark.parametrize(("option", "said"), REFUSED, ids=[option for option, _ in REFUSED])
def test_every_option_names_one_column(option: str, said: Callable[[str], dict[str, Any]]) -> None:
    both: dict[str, Any] = {"sales": SALES, "visits": VISITS}
    with pytest.raises(sparseq.ParameterError, match="each have a column"):
        made(both, **said(""))
    con = made(both, **said("sales."))
    for name in ("price", "status"):
        theirs = column(con, "visits", name)
        assert (theirs.bounds, theirs.keys, theirs.not_null) == (None, None, False)
        assert theirs.type == ("DOUBLE" if name == "price" else "VARCHAR")
    with pytest.raises(sparseq.ParameterError, match="no table has a column"):
        made(both, **said("sales.no_"))


def test_dates_are_read_as_each_table_has_them(tmp_path: Path) -> None:
    for name, day in (("a", "01/02/2024"), ("b", "02/01/2024")):
        (tmp_path / f"{name}.csv").write_text("who,day\n" + f"1,{day}\n2,{day}\n")
    files: dict[str, Any] = {"a": tmp_path / "a.csv", "b": tmp_path / "b.csv"}
    with pytest.raises(sparseq.ParameterError, match="each have a column day"):
        made(files, dates={"day": "dmy"})
    con = made(files, dates={"a.day": "dmy", "b.day": "mdy"})
    for table in "ab":
        found = con.backend.database.sql(f"SELECT DISTINCT day FROM by_user.{table}").fetchall()
        assert str(found[0][0]) == "2024-02-01"


def test_the_user_column_is_of_all_tables() -> None:
    for said in ({"types": {"who": "VARCHAR"}}, {"rename": {"who": "person"}}):
        user = "person" if "rename" in said else "who"
        tables = {"sales": SALES, "visits": VISITS}
        con = sparseq.create(None, tables, user=user, kappa=LEVEL, seed=1, **said)
        kinds = {column(con, table, user).type for table in ("sales", "visits")}
        assert kinds == {"VARCHAR" if "types" in said else "BIGINT"}


@pytest.mark.parametrize("bad", ["prod.price", "price"])
def test_nothing_is_declared_of_public_values(bad: str) -> None:
    private = SALES.drop_columns(["price"])
    with pytest.raises(sparseq.ParameterError) as refused:
        made({"sales": private}, public={"prod": PROD}, bounds={bad: (0, 100)})
    assert "own values are used" in refused.value.hint


def test_a_lake_has_the_same_rules(tmp_path: Path) -> None:
    both: dict[str, Any] = {"sales": SALES, "visits": VISITS}
    options: dict[str, Any] = {"user": "who", "buckets": 2, "seed": 1, "public": {"prod": PROD}}
    with pytest.raises(sparseq.ParameterError, match="each have a column price"):
        sparseq.create(f"lake://{tmp_path}/no", both, bounds=BOUNDS, **options)
    where = f"lake://{tmp_path}/yes"
    with sparseq.create(where, both, bounds={"sales.price": (0, 50)}, **options) as con:
        assert column(con, "sales", "price").bounds == (0, 50)
        assert column(con, "visits", "price").bounds is column(con, "prod", "price").bounds is None


def test_pilots_of_a_join_are_not_those_of_the_table() -> None:
    rows = pa.table({"who": _N, "code": np.where(_N < 20, "rare", "usual"), "x": _N % 50})
    few = pa.table({"code": ["rare"], "x": [49]})
    con = made({"t": rows}, public={"few": few}, bounds={"x": (0, 49)})
    con.sql("SELECT count(*) AS n, sum(few.x) AS s FROM t JOIN few USING (code)")
    assert not {"rows of t", "people of t", "sum of x in t up to 49"} & set(parents(con))
    con.sql("SELECT count(*) AS n, sum(x) AS s FROM t")
    assert {"rows of t", "sum of x in t up to 49"} <= set(parents(con))


def parents(con: sparseq.Store) -> list[str]:
    assert con.stream.course is not None
    return [*con.stream.course.parents]


def older(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Give a closed store a catalogue such as earlier versions have made."""
    connection = connect(path)
    storage = Storage(connection)
    kept = storage.get("catalog")
    for table in kept["tables"]:
        for one in table["columns"]:
            change(one)
    storage.put("catalog", json.loads(json.dumps(kept)))
    storage.drop(FACTS_OF_COLUMNS)
    connection.execute("CHECKPOINT")
    connection.close()


def test_upgrade_tells_which_facts_went_by_names(tmp_path: Path) -> None:
    path, both = tmp_path / "s.sparseq", {"sales": SALES, "visits": VISITS}
    sparseq.create(path, both, user="who", public={"prod": PROD}, seed=1).close()

    def by_name(one: dict[str, Any]) -> None:
        if one["name"] == "status":
            one["keys"] = ["open", "paid"]
        if one["name"] == "price":
            one["bounds"] = [0.0, 100.0]

    older(path, by_name)
    with sparseq.connect(path) as con:
        assert column(con, "prod", "price").bounds is column(con, "prod", "status").keys is None
        assert column(con, "visits", "status").keys == ("open", "paid"), "nobody knows better"
    done = upgraded(path)
    assert not done.changed
    told = "\n".join(done.messages)
    assert told.count("applied to prod.") == 2
    assert "sales.status and visits.status have the same keys" in told
    assert "--bounds sales.price=" in told
    assert upgraded(path).messages == (), "it is told once"
    with sparseq.connect(path) as con:
        logged = [line.message for line in CuratorLog(con.backend.database).entries()]
        assert len([message for message in logged if "by its name" in message]) == 2


def test_the_command_line_names_tables(tmp_path: Path) -> None:
    from command_runs import run

    for name, table in (("sales", SALES), ("visits", VISITS), ("prod", PROD)):
        pc.write_csv(table, tmp_path / f"{name}.csv")
    files = [f"sales={tmp_path}/sales.csv", f"visits={tmp_path}/visits.csv"]
    made_of = [*files, "--user", "who", "--public", f"prod={tmp_path}/prod.csv"]
    for option in (["--keys", "status=open,paid"], ["--bounds", "price=0..100"]):
        done = run("create", str(tmp_path / "no"), *made_of, *option)
        assert done.exit_code != 0
        assert f"{option[0]} sales." in done.stderr
    named = ["--keys", "sales.status=open,paid", "--bounds", "visits.price=0..6000"]
    done = run("create", str(tmp_path / "yes"), *made_of, *named)
    assert done.exit_code == 0, done.stderr
    with sparseq.connect(tmp_path / "yes") as con:
        assert column(con, "sales", "status").keys == ("open", "paid")
        assert column(con, "visits", "price").bounds == (0, 6000)
        assert column(con, "sales", "price").bounds is column(con, "visits", "status").keys is None


def test_hints_name_the_table_where_the_name_is_not_enough() -> None:
    con = made({"sales": SALES, "visits": VISITS})
    with pytest.raises(sparseq.QueryRefused, match="not public") as refused:
        con.sql("SELECT s, count(*) AS n FROM (SELECT who, status AS s FROM visits) GROUP BY s")
    assert "create --keys visits.status=a,b,c" in refused.value.hint
    with pytest.raises(sparseq.QueryRefused, match="not public") as refused:
        con.sql("SELECT pid, count(*) AS n FROM sales GROUP BY pid")
    assert "create --keys pid=a,b,c" in refused.value.hint


def test_each_table_has_its_own_column_of_time() -> None:
    day = pa.array([19000 + i % 300 for i in range(PEOPLE)], pa.date32())
    one = pa.table({"who": _N, "made": day, "paid": day})
    two = pa.table({"who": _N, "seen": day, "paid": day})
    both: dict[str, Any] = {"one": one, "two": two}
    con = made(both, time="one.paid, two.paid")
    assert [con.catalog.table(name).time for name in both] == ["paid", "paid"]
    con = made(both, time="two.paid")
    assert [con.catalog.table(name).time for name in both] == ["made", "paid"]
    con = made(both, time="paid", window="month")
    assert [con.catalog.table(name).time for name in both] == ["paid", "paid"]
    con = made(both, time="one.made,two.seen", window="month")
    assert [con.catalog.table(name).time for name in both] == ["made", "seen"]
    with pytest.raises(sparseq.ParameterError, match="nothing says when a row of one is"):
        made(both, time="two.seen", window="month")
    with pytest.raises(sparseq.DataError, match="one has no column 'seen'"):
        made(both, time="seen")
