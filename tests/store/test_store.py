"""A store from outside: made, opened, filled, asked, read back, shared between threads."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import sparseq
from checks.stores import made_store
from sparseq.accounting import Budget
from sparseq.load._duckdb.storage import MAX_RUNS
from sparseq.store._duckdb.file_backend import FORMAT
from sparseq.store.curator import exact_sql

UNIT = 2**24
COUNT = "SELECT count(*) AS n FROM t"
DAY = dt.date(2024, 1, 1)
ROWS = pa.table(
    {
        "who": ["ann", "ann", "bob", "cid"],
        "day": [DAY, DAY, DAY, DAY + dt.timedelta(1)],
        "amount": [1.5, 2.5, 10.0, 7.0],
        "shop": ["x", "y", "x", None],
    }
)


def store(
    path: Path | None = None, rows: Any = ROWS, in_or_out: bool = False, **more: Any
) -> sparseq.Store:
    return made_store(path, rows, **{"table": "t", "user": "who", "in_or_out": in_or_out, **more})


def spent(con: sparseq.Store) -> dict[Any, int]:
    ids = con.backend.database.execute("SELECT id FROM ledger.users ORDER BY _user").fetchall()
    return dict(zip((i for (i,) in ids), con.stream.accounts.spent.tolist(), strict=True))


def budgets(con: sparseq.Store) -> dict[Any, int]:
    return dict(zip(spent(con), con.stream.accounts.budgets.tolist(), strict=True))


def number(con: sparseq.Store, sql: str) -> int:
    ((count,),) = con.backend.database.execute(sql).fetchall()
    return int(count)


# Creating -----------------------------------------------------------------------------------------


def test_kappa_and_norm_budget_are_the_stores_budget() -> None:
    con = store(kappa=0.25, norm_budget=8)
    assert con.guarantee == Budget(0.25, 8)
    answer = con.sql(COUNT, fresh=True)
    assert answer.sigma == pytest.approx(4.0 * answer.facts.scale[0], rel=1e-12)
    assert store(kappa=0.25, norm_budget=8, in_or_out=True).sql(COUNT).sigma == 4.0
    assert (
        con.sql(COUNT, fresh=True).facts.kappa,
        con.sql(COUNT, fresh=True).facts.norm_budget,
    ) == (0.25, 8)


def test_epsilon_and_delta_are_converted_by_way_of_mu() -> None:
    con = store(epsilon=(1.0, 1e-6))
    assert con.guarantee == Budget.from_epsilon_delta(1.0, 1e-6, 48)
    assert 0.999 < con.guarantee.epsilon(1e-6) <= 1.0


def test_files_of_every_kind_make_the_same_store(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(ROWS, tmp_path / "a.parquet")
    pyarrow.csv.write_csv(ROWS, tmp_path / "a.csv")
    with pa.ipc.new_file(tmp_path / "a.arrow", ROWS.schema) as writer:
        writer.write_table(ROWS)
    lines = [json.dumps(row, default=str) for row in ROWS.to_pylist()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    sums = set()
    for kind in ("parquet", "csv", "arrow", "jsonl"):
        con = sparseq.create(None, tmp_path / f"a.{kind}", user="who", seed=1)
        answer = con.sql("SELECT count(*) AS n, sum(amount) AS s FROM a", scale=9)
        sums.add((*answer.rows()[0].values(), *spent(con).values()))
    assert len(sums) == 1


def test_several_files_are_one_table(tmp_path: Path) -> None:
    for i in range(3):
        pyarrow.parquet.write_table(ROWS.slice(i, 1), tmp_path / f"p{i}.parquet")
    con = sparseq.create(None, {"t": sorted(tmp_path.iterdir())}, user="who")
    assert number(con, "SELECT count(*) FROM by_user.t") == 3
    assert set(spent(con)) == {"ann", "bob"}


def test_private_tables_share_their_users_and_public_ones_have_none() -> None:
    visits = pa.table({"WHO": ["bob", "dan"], "pages": [3, 4]})
    shops = pa.table({"shop": ["x", "y"], "town": ["Ulm", "Bonn"]})
    con = sparseq.create(None, {"t": ROWS, "visits": visits}, user="who", public={"shops": shops})
    assert list(spent(con)) == ["ann", "bob", "cid", "dan"]
    con.sql("SELECT count(*) AS n FROM visits")
    paid = spent(con)
    assert paid == {"ann": 0, "bob": paid["dan"], "cid": 0, "dan": paid["bob"]}
    assert paid["dan"] > 0
    join = "FROM t JOIN shops ON t.shop = shops.shop"
    answer = con.sql(f"SELECT town, count(*) AS n {join} GROUP BY town")
    assert answer.arrow()["town"].to_pylist() == ["Bonn", "Ulm"]
    after = spent(con)
    assert (after["cid"], after["dan"]) == (0, paid["dan"])
    assert after["ann"] > paid["ann"]
    assert after["bob"] > paid["bob"]


@pytest.mark.parametrize("place", [None, "lake"])
def test_a_public_table_that_names_people_is_refused_unless_it_is_said(
    tmp_path: Path, place: str | None
) -> None:
    leaking, split = pa.table({"WHO": ["ann"], "k": [1]}), pa.table({"shop": ["x"]})
    path, lake = (f"lake://{tmp_path / 'l'}", {"buckets": 2}) if place else (None, {})
    with pytest.raises(sparseq.ParameterError, match="p is declared public, and has WHO"):
        sparseq.create(path, {"t": ROWS}, user="who", public={"p": leaking}, **lake)
    assert list(tmp_path.iterdir()) == []
    said = {"public": {"p": leaking}, "really_public": ["p"]}
    sparseq.create(path, {"t": ROWS}, user="who", **said, **lake).close()
    if not place:  # a part of what says who is no person, but all parts are
        sparseq.create(None, {"t": ROWS}, user="shop,who", public={"p": split}).close()
        with pytest.raises(sparseq.ParameterError, match="has shop, who, which"):
            sparseq.create(None, {"t": ROWS}, user="shop,who", public={"p": ROWS})


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.bool_()])
def test_users_of_another_type_in_another_table_are_refused(kind: pa.DataType) -> None:
    """1.2 and 1.4 would both become user 1, each with an account, and a budget, of its own."""
    first = pa.table({"who": [1, 2]})
    second = pa.table({"who": pa.array([1, 0, 1], pa.int8()).cast(kind), "k": [1, 2, 3]})
    with pytest.raises(sparseq.DataError, match="user"):
        sparseq.create(None, {"t": first, "u": second}, user="who")


def test_nobody_has_two_accounts_whatever_the_width_of_the_identifiers() -> None:
    first = pa.table({"who": pa.array([1, 2], pa.int32())})
    second = pa.table({"who": pa.array([2, 3], pa.int8())})
    con = sparseq.create(None, {"t": first, "u": second}, user="who")
    con.ingest(pa.table({"who": [3, 4]}), "t")
    assert list(spent(con)) == [1, 2, 3, 4]


def test_declared_keys_are_the_domain_and_declared_bounds_the_scale() -> None:
    con = store(keys={"shop": ["y", "z"]}, bounds={"amount": (-3, 10)}, in_or_out=True)
    answer = con.sql("SELECT shop, sum(amount) AS s FROM t GROUP BY shop")
    assert answer.arrow()["shop"].to_pylist() == ["y", "z", None]
    assert answer.facts.scale == (10.0,)


def test_budgets_from_a_column_are_each_users_own_and_at_most_the_stores() -> None:
    own = pa.array([2.5, 2.5, None, 0.0])
    con = store(rows=ROWS.append_column("own", own), norm_budget=20, budget_column="own")
    assert budgets(con) == {"ann": 2.5 * UNIT, "bob": 20 * UNIT, "cid": 0}
    with pytest.raises(sparseq.QueryRefused, match="own"):
        con.sql("SELECT sum(own) AS s FROM t")


def test_a_budget_of_minus_zero_is_one_account() -> None:
    own = pa.array([-0.0, -0.0, 0.0, 1.0])
    con = store(rows=ROWS.append_column("own", own), budget_column="own")
    assert budgets(con) == {"ann": 0, "bob": 0, "cid": UNIT}
    assert len(con.stream.accounts) == 3


@pytest.mark.parametrize(
    ("own", "gets"),
    [
        ([30.0, 30.0, 5.0, 5.0], 20),  # above the store's
        ([-1.0, -1.0, 5.0, 5.0], 20),
        ([float("nan"), float("nan"), 5.0, 5.0], 20),
        ([float("inf"), -3.25, 5.0, 5.0], 20),
        ([2.0, 1.0, 5.0, 5.0], 1),  # of two the smaller
        ([float("nan"), 3.0, 5.0, 5.0], 3),
    ],
)
def test_budgets_that_make_no_sense_are_passed_over(own: list[float], gets: int) -> None:
    """They are their person's own: nobody else's change, nothing stops, the curator is told."""
    con = store(rows=ROWS.append_column("own", pa.array(own)), norm_budget=20, budget_column="own")
    assert budgets(con) == {"ann": gets * UNIT, "bob": 5 * UNIT, "cid": 5 * UNIT}
    assert "budget" in " ".join(con.curator_notes())
    assert not any("3.25" in note for note in con.curator_notes())


@pytest.mark.parametrize(
    ("error", "message", "wrong"),
    [
        (sparseq.DataError, "no column 'nobody'", {"user": "nobody"}),
        (sparseq.DataError, "no column 'noon'", {"time": "noon"}),
        (sparseq.ParameterError, "no table has a column kind", {"keys": {"kind": ["a"]}}),
        (sparseq.ParameterError, "keys of t.shop", {"keys": {"shop": ["a", "a"]}}),
        (sparseq.ParameterError, "low must be below high", {"bounds": {"amount": (5, 5)}}),
        (sparseq.ParameterError, "one of them", {"kappa": 1, "epsilon": (1, 1e-6)}),
        (sparseq.ParameterError, "goes with a delta", {"epsilon": 1}),
        (sparseq.ParameterError, "kappa is 0", {"kappa": 0}),
        (sparseq.ParameterError, "counts is -1", {"norm_budget": -1}),
        (sparseq.DataError, "no file 'none.parquet'", {"rows": "none.parquet"}),
        (sparseq.DataError, "a store needs rows", {"rows": None}),
        (sparseq.DataError, "user column is DOUBLE", {"user": "amount"}),
    ],
)
def test_what_is_wrong_with_a_creation_is_said_and_no_file_is_left(
    error: type[sparseq.SparseqError], message: str, wrong: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(error, match=message) as raised:
        store(tmp_path / "s", **wrong)
    assert raised.value.exit_code in (2, 6)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(sparseq.StoreError, match="exists already"):
        store(tmp_path / "s")
    assert (tmp_path / "s").read_text() == "mine"
    with pytest.raises(sparseq.StoreError, match="no folder"):
        store(tmp_path / "none" / "s")


# Opening ------------------------------------------------------------------------------------------


def test_what_is_no_store_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000)
    (tmp_path / "empty").touch()
    duckdb.connect(str(tmp_path / "other.db")).execute("CREATE TABLE meta (a INT)").close()
    duckdb.connect(str(tmp_path / "new.db")).close()
    with duckdb.connect(str(tmp_path / "accounts.db")) as books:  # somebody's bookkeeping
        books.execute("CREATE SCHEMA ledger")
        for table in ("account", "entry", "period", "snapshot", "users"):
            books.execute(f"CREATE TABLE ledger.{table} (id INTEGER)")
    for name, message in [
        ("none", "there is no store"),
        ("", "there is no store"),
        ("text", "can't be opened"),
        ("empty", "can't be opened"),
        ("other.db", "not a sparseq store"),
        ("new.db", "not a sparseq store"),
        ("accounts.db", "not a sparseq store"),
    ]:
        with pytest.raises(sparseq.StoreError, match=message):
            sparseq.connect(tmp_path / name)
    duckdb.connect(str(tmp_path / "accounts.db")).close()  # nobody holds it any more
    assert (tmp_path / "empty").stat().st_size == 0
    assert len((tmp_path / "text").read_text()) == 6000


def test_a_store_of_another_version_says_so(tmp_path: Path) -> None:
    store(tmp_path / "s").close()
    with duckdb.connect(str(tmp_path / "s")) as other:  # as it was before releases had many tables
        other.execute("DROP VIEW ledger.release; ALTER TABLE ledger.release_1 RENAME TO release")
        old = f"replace(value, '\"format\": {FORMAT}', '\"format\": 2')"
        other.execute(f"UPDATE meta SET value = {old} WHERE key = 'settings'")
    with pytest.raises(sparseq.StoreError, match=r"(?s)this version.*the version that made it"):
        sparseq.connect(tmp_path / "s")
    duckdb.connect(str(tmp_path / "s")).close()  # nobody holds it any more


def test_a_store_in_use_by_another_process_says_by_which(tmp_path: Path) -> None:
    with store(tmp_path / "s"):
        script = f"import sparseq; sparseq.connect({str(tmp_path / 's')!r})"
        root = str(Path(sparseq.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "StoreInUse" in done.stderr
    assert f"in use by process {os.getpid()}" in done.stderr


def test_a_store_in_use_by_this_process_says_so_also_by_another_name(tmp_path: Path) -> None:
    con = store(tmp_path / "s")
    os.symlink(tmp_path / "s", tmp_path / "link")
    os.link(tmp_path / "s", tmp_path / "hard")
    for name in ("s", "link", "hard"):
        with pytest.raises(sparseq.StoreInUse, match="in use by this process"):
            sparseq.connect(tmp_path / name)
    con.close()
    sparseq.connect(tmp_path / "s").close()


def test_after_a_fork_the_child_is_told_to_open_its_own(tmp_path: Path) -> None:
    con = store(tmp_path / "s")
    uses = [lambda: con.sql(COUNT, fresh=True), con.releases, lambda: con.ingest(ROWS)]
    child = os.fork()
    if child == 0:
        told = 0
        for use in uses:
            try:
                use()
            except sparseq.StoreError as error:
                told += "before a fork" in str(error)
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(uses)
    con.sql(COUNT, fresh=True)
    con.close()


def test_a_closed_store_says_so_and_closing_twice_is_fine(tmp_path: Path) -> None:
    con = store(tmp_path / "s")
    con.close()
    con.close()
    with pytest.raises(sparseq.StoreError, match="closed"):
        con.sql(COUNT, fresh=True)


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_request_id_is_none(empty: str) -> None:
    with store() as con:
        with pytest.raises(sparseq.ParameterError, match="request id is empty"):
            con.sql(COUNT, request_id=empty)
        assert len(con.releases()) == 0
        assert not any(spent(con).values())


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    with store(tmp_path / "s", kappa=0.7, norm_budget=6.5, halt=True, seed=3) as con:
        answers = [con.sql(COUNT, request_id=f"{i}") for i in range(3)]
        before = spent(con), budgets(con), con.releases(), con.catalog
    with sparseq.connect(tmp_path / "s") as con:
        assert (con.guarantee, con.halt, con.seed) == (Budget(0.7, 6.5), True, 3)
        assert (spent(con), budgets(con), con.releases(), con.catalog) == before
        assert [con.release(i + 1).to_bytes() for i in range(3)] == [a.to_bytes() for a in answers]
    assert [f.name for f in tmp_path.iterdir()] == ["s"], "no log is left behind"


# Taking in ----------------------------------------------------------------------------------------


def test_new_users_start_from_nothing_and_known_ones_keep_what_they_spent(tmp_path: Path) -> None:
    con = store(tmp_path / "s", norm_budget=30)
    con.sql(COUNT, fresh=True)
    paid = spent(con)
    assert min(paid.values()) > 0
    assert con.ingest(pa.table(ROWS).slice(2)) == 2
    aaron = {"who": ["aaron", "bob"], "day": [DAY] * 2, "amount": [1.0] * 2, "shop": ["q", "x"]}
    assert con.ingest(pa.table(aaron)) == 2
    for _ in range(2):
        assert spent(con) == {**paid, "aaron": 0}
        con.close()
        con = sparseq.connect(tmp_path / "s")
    con.sql(COUNT, fresh=True)
    assert all(units > paid.get(who, 0) for who, units in spent(con).items())
    con.close()


def test_ingest_takes_columns_by_name_leaves_out_rows_of_nobody_and_other_columns() -> None:
    con = store()
    odd = pa.table(
        {
            "extra": [1, 2],
            "SHOP": ["new", "new"],
            "Amount": [1, 2],
            "day": ["2024-02-01", "2024-02-02"],
            "who": ["eve", None],
        }
    )
    assert con.ingest(odd) == 1
    assert number(con, "SELECT sum(amount)::INT FROM by_user.t") == 22
    assert number(con, "SELECT count(*) FROM by_user.t WHERE day >= DATE '2024-02-01'") == 1


def test_a_strings_code_is_the_same_before_and_after_more_strings_arrive() -> None:
    """With hardly any noise: intervals are narrower than one person."""
    con = store(keys={"shop": ["a", "x", "y", "zz"]}, kappa=1024, seed=4)
    sql = "SELECT shop, count(DISTINCT who) AS n FROM t WHERE shop IS NOT NULL GROUP BY shop"

    def counted(truth: list[int]) -> None:
        rows = con.sql(sql).rows()
        assert [row["shop"] for row in rows] == ["a", "x", "y", "zz"]
        for row, n in zip(rows, truth, strict=True):
            assert row["n_low"] <= n <= row["n_high"]
            assert row["n_high"] - row["n_low"] < 2

    counted([0, 2, 1, 0])
    assert spent(con)["cid"] == 0
    more = {"who": ["cid"] * 3, "day": [DAY] * 3, "amount": [1.0] * 3, "shop": ["a", "zz", "x"]}
    con.ingest(pa.table(more))
    counted([1, 3, 1, 1])
    assert spent(con)["cid"] > 0


def test_rows_are_taken_in_once_under_a_key(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    with store(path) as con:
        assert con.taken() == {}
        assert con.ingest(ROWS, once="monday.csv", note="4 rows") == 4
        assert con.ingest(ROWS, once="monday.csv") == 0
        assert con.ingest(ROWS) == 4
        with pytest.raises(sparseq.DataError):
            con.ingest(pa.table({"who": ["ann"]}), once="tuesday.csv")
        with pytest.raises(sparseq.DataError):
            con.ingest(tmp_path / "none.csv", once="wednesday.csv")
        assert con.taken() == {"monday.csv": "4 rows"}
    with sparseq.connect(path) as con:
        assert con.ingest(ROWS, once="monday.csv") == 0
        assert con.ingest(ROWS, once="tuesday.csv") == 4
        assert number(con, "SELECT count(*) FROM by_user.t") == 16
        assert con.taken() == {"monday.csv": "4 rows", "tuesday.csv": ""}


def test_many_small_ingests_are_put_in_order_again_now_and_then() -> None:
    con = store(norm_budget=2**20, in_or_out=True)
    for i in range(1, 2 * MAX_RUNS):
        con.ingest(ROWS.slice(i % 4, 1))
        assert con.backend.storage.get("runs.t") < MAX_RUNS
        assert number(con, "SELECT count(*) FROM by_user.t") == 4 + i
        assert number(con, "SELECT count(*) FROM by_time.t") == 4 + i
    con.sql(COUNT, fresh=True)
    assert sum(round((units / UNIT) ** 0.5) for units in spent(con).values()) == 3 + 2 * MAX_RUNS


def file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / name

    return write


@pytest.mark.parametrize(
    "bad",
    [
        pa.table({"who": ["ann"]}),
        file("bad.parquet", b"PAR1 no parquet"),
        file("bad.csv", "who,day,amount\ndan,2024-01-01,1\n"),
        file("bad.arrow", b"ARROW1 no arrow"),
        file("bad.xlsx", b"PK"),
        lambda _: "none.csv",
        42,
    ],
)
def test_what_does_not_fit_is_left_out_whole(bad: Any, tmp_path: Path) -> None:
    con = store()
    con.sql(COUNT, fresh=True)
    before = spent(con)
    with pytest.raises(sparseq.DataError) as raised:
        con.ingest(bad(tmp_path) if callable(bad) else bad)
    assert raised.value.exit_code == 6
    assert number(con, "SELECT count(*) FROM by_user.t") == 4
    assert spent(con) == before
    assert con.ingest(ROWS) == 4


def test_ingest_names_its_table_if_there_are_several_and_public_ones_take_nothing() -> None:
    con = sparseq.create(
        None, {"t": ROWS, "u": ROWS}, user="who", public={"p": ROWS}, really_public=["p"]
    )
    with pytest.raises(sparseq.SparseqError):
        con.ingest(ROWS)
    with pytest.raises(sparseq.ParameterError, match="public"):
        con.ingest(ROWS, "p")
    assert con.ingest(ROWS, "U") == 4


def test_own_budgets_are_set_when_a_user_arrives_and_never_again() -> None:
    own = pa.array([2.0] * 4)
    con = store(rows=ROWS.append_column("own", own), norm_budget=20, budget_column="own")
    more = pa.table(
        {"who": ["ann", "dan"], "day": [DAY] * 2, "amount": [1.0] * 2, "shop": ["x"] * 2}
    )
    con.ingest(more.append_column("own", pa.array([20.0, 3.0])))
    con.ingest(pa.table({**more.to_pydict(), "who": ["ann", "eve"]}))
    assert budgets(con) == {
        "ann": 2 * UNIT,
        "bob": 2 * UNIT,
        "cid": 2 * UNIT,
        "dan": 3 * UNIT,
        "eve": 20 * UNIT,
    }


# Answers ------------------------------------------------------------------------------------------


def test_an_answer_comes_as_arrow_polars_pandas_and_rows() -> None:
    con = store(keys={"shop": ["x", "y"]}, seed=1)
    answer = con.sql("SELECT shop, count(*) AS n FROM t WHERE shop <> 'z' GROUP BY shop")
    assert answer.arrow().column_names == ["shop", "n", "n_error", "n_low", "n_high"]
    assert isinstance(answer.pl(), pl.DataFrame)
    assert isinstance(answer.df(), pd.DataFrame)
    assert answer.pl().to_dicts() == answer.rows() == answer.df().to_dict("records")
    with pytest.raises(sparseq.ParameterError, match="one number"):
        answer.value()
    one = con.sql(COUNT, fresh=True)
    assert one.value() == one.rows()[0]["n"]


def test_the_bounds_of_an_answer_are_those_of_the_paper() -> None:
    con = store(keys={"shop": ["x", "y"]}, kappa=0.5, norm_budget=100, in_or_out=True)
    answer = con.sql("SELECT shop, count(*) AS n FROM t GROUP BY shop", confidence=0.9)
    assert answer.sigma == 10.0
    assert answer.facts.coordinates == 3
    assert answer.corollary_bound(0.1) == pytest.approx(10 * np.sqrt(2 * np.log(3 / 0.1)) + 0.5)
    assert answer.bound(0.1) < answer.corollary_bound(0.1)
    assert answer.arrow()["n_error"].to_pylist() == pytest.approx([answer.bound(0.1)] * 2)
    assert con.releases()[0].bound == pytest.approx((answer.corollary_bound(0.1),))


def test_several_measures_have_a_sigma_and_a_bound_each() -> None:
    con = store(kappa=0.5, norm_budget=100, bounds={"amount": (0, 3)}, in_or_out=True)
    answer = con.sql("SELECT count(*) AS n, sum(amount) AS s FROM t")
    assert answer.sigma == pytest.approx((10.0, 30.0))
    low, high = answer.bound()
    assert high == pytest.approx(3 * (low - 0.5), rel=1e-4)  # half a step of 1 is in the first


def test_every_answer_of_a_seeded_store_says_so_and_can_be_had_again() -> None:
    runs = []
    for seed in (5, 5, 6):
        con = store(seed=seed)
        answers = [con.sql(COUNT, fresh=True) for _ in range(3)]
        assert all(a.facts.seeded for a in answers)
        assert sparseq.Answer.from_bytes(con.releases()[0].answer).facts.seeded
        runs.append([a.value() for a in answers])
    assert runs[0] == runs[1] != runs[2]
    assert len(set(runs[0])) == 3, "each release has noise of its own"


def test_without_a_seed_noise_is_new_every_time_and_nothing_is_said_of_one() -> None:
    answers = [store().sql(COUNT) for _ in range(3)]
    assert len({tuple(a.rows()[0].values()) for a in answers}) == 3
    assert not any(a.facts.seeded for a in answers)


def test_explaining_costs_nothing_and_is_no_release() -> None:
    con = store(bounds={"amount": (0, 3)})
    plan = con.explain(con.lower("SELECT count(*) AS n, sum(amount) AS s FROM t"))
    assert plan.worst_case_charge == pytest.approx(2)
    assert con.releases() == []
    assert set(spent(con).values()) == {0}


def test_history_and_releases_are_read_back() -> None:
    con = store()
    queries = [COUNT, "SELECT count(DISTINCT who) AS n FROM t", f"{COUNT} WHERE amount > 2"]
    answers = [con.sql(q, request_id=f"id {i}") for i, q in enumerate(queries)]
    assert [r.query for r in con.releases()] == queries
    assert [r.query for r in con.releases(last=2)] == queries[1:]
    assert [r.request_id for r in con.releases()] == ["id 0", "id 1", "id 2"]
    assert [con.release(i).to_bytes() for i in (1, 2, 3)] == [a.to_bytes() for a in answers]
    for wrong in (0, 4, -1):
        with pytest.raises(sparseq.StoreError, match="no release"):
            con.release(wrong)


# Threads ------------------------------------------------------------------------------------------


def test_threads_share_a_store_and_the_total_is_what_it_would_be_one_by_one(tmp_path: Path) -> None:
    con = store(tmp_path / "s", norm_budget=2**20, in_or_out=True)
    queries = [COUNT, "SELECT count(DISTINCT who) AS n FROM t", f"{COUNT} WHERE amount > 2"]

    def ask(i: int) -> sparseq.Answer:
        return con.sql(queries[i % 3], request_id=f"{i % 60}")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(120)))
    assert len(con.releases()) == 60
    assert all(a.to_bytes() == b.to_bytes() for a, b in zip(answers, answers[60:], strict=False))
    assert sorted(r.id for r in con.releases()) == list(range(1, 61))
    expected = {"ann": 20 * (4 + 1 + 1) * UNIT, "bob": 60 * UNIT, "cid": 60 * UNIT}
    assert spent(con) == expected
    con.close()
    with sparseq.connect(tmp_path / "s") as con:
        assert spent(con) == expected


def test_threads_may_ingest_and_close_while_others_ask(tmp_path: Path) -> None:
    con = store(tmp_path / "s", norm_budget=2**20)

    def work(i: int) -> str:
        try:
            if i % 5 == 4:
                con.ingest(ROWS)
            elif i == 35:
                con.close()
            else:
                con.sql(COUNT, fresh=True)
        except sparseq.StoreError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(work, range(40)))
    assert all(s == "" or "closed" in s for s in said)
    with sparseq.connect(tmp_path / "s") as again:
        rows = number(again, "SELECT count(*) FROM by_user.t")
        assert rows == 4 + 4 * sum(s == "" for s in said[4::5])
        asked = [s for i, s in enumerate(said) if i % 5 != 4 and i != 35]
        assert len(again.releases()) == sum(s == "" for s in asked)


@pytest.mark.parametrize(("kappa", "norm_budget"), [(0.5, 20.0), (0.5, 16.0), (0.1, 7.0)])
def test_reach_is_the_most_that_any_budget_pays_for(kappa: float, norm_budget: float) -> None:
    """Public, and exact: that many rows are counted, one more is left out."""
    rows = range(1, 30)
    whose = [n for n in rows for _ in range(n)]
    con = sparseq.create(
        None,
        {"t": pa.table({"who": whose})},
        user="who",
        kappa=kappa,
        seed=1,
        purposes=[sparseq.Questions(in_or_out=True, counts=norm_budget)],
    )
    (reach,) = con.sql("SELECT count(*) AS n FROM t").facts.reach
    counted = [n for n, units in spent(con).items() if units > 0]
    assert counted == [n for n in rows if n <= reach * (1 + 2**-40)]


def test_aggregates_share_what_they_have_in_common() -> None:
    con = store(bounds={"amount": (-3, 10)})
    sql = "SELECT avg(amount), stddev(amount), variance(amount) FILTER (WHERE true) FROM t"
    labels = con.sql(sql).facts.labels
    assert len(labels) == len(set(labels)) == 6
    assert labels[:3] == (
        "number of amount",
        "sum of amount",
        "sum of squares of amount",
    )
    two = con.sql("SELECT median(amount) AS m, quantile(amount, 0.9) AS q FROM t")
    assert len(two.facts.labels) == 1


def test_columns_without_a_name_get_one_that_can_be_typed() -> None:
    con = store(bounds={"amount": (-3, 10)})
    names = con.sql("SELECT median(amount, [0, 5]), quantile(amount, 0.9), count(*) FROM t")
    beside = ("_error", "_low", "_high")
    assert [n for n in names.arrow().column_names if not n.endswith(beside)] == [
        "median_amount",
        "quantile_amount_0_9",
        "count",
    ]
    assert (
        "histogram_amount"
        in con.sql("SELECT histogram(amount, [0, 5]) FROM t").arrow()[:0].column_names
    )
    both = con.sql("SELECT median(amount, [0, 5]), median(amount, [0, 6]) FROM t")
    assert both.values == ["median_amount", "median_amount_1"]


@pytest.mark.parametrize("in_memory", [False, True])
def test_settings_are_locked_once_a_store_is_open(tmp_path: Path, in_memory: bool) -> None:
    rows = pa.table({"who": [1, 2]})
    with sparseq.create(None if in_memory else tmp_path / "s", {"t": rows}, user="who") as con:
        for setting in ("memory_limit = '1TB'", "enable_external_access = true"):
            with pytest.raises(duckdb.Error, match="locked"):
                con.backend.database.execute(f"SET {setting}")


def test_what_a_killed_process_had_put_aside_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who").close()
    folder = tmp_path / "s.tmp"
    folder.mkdir()
    private, other = folder / "duckdb_temp_7_0_storage_DEFAULT-0.tmp", folder / "notes.txt"
    private.write_text("somebody's rows")
    other.write_text("mine")
    with sparseq.connect(path):
        assert not private.exists()
        assert other.read_text() == "mine"


def test_nobody_has_more_rows_than_declared_and_the_curator_is_told() -> None:
    """Kept are a person's first rows; an interval that rests on it is proved."""
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=k) for k in range(30)]
    rows = pa.table(
        {
            "who": ["heavy"] * 30 + ["light"] * 2,
            "day": days + days[:2],
            "amount": [1.0] * 30 + [900.0, 5.0],
        }
    )
    con = sparseq.create(
        None, {"t": rows}, user="who", most={"rows": 5}, bounds={"amount": (0, 10)}, seed=1
    )
    counted = exact_sql(con, "SELECT count(*) AS n FROM t WHERE day <= DATE '2024-01-05'")
    assert exact_sql(con, "SELECT count(*) AS n FROM t")["n"].to_pylist() == [7]
    assert counted["n"].to_pylist() == [7]
    cut = "t: 25 rows were left out: the declared maximum for one person is 5"
    assert cut in con.curator_notes()
    (total,) = con.lower("SELECT sum(amount) AS s FROM t").measures
    assert total.value is not None
    assert total.value.sql.lower().startswith("least(")  # values are cut to their bounds
    con.ingest(pa.table({"who": ["light"] * 9, "day": days[10:19], "amount": [1.0] * 9}))
    assert exact_sql(con, "SELECT count(*) AS n FROM t")["n"].to_pylist() == [10]
    answer = con.sql("SELECT count(*) AS n FROM t")
    assert answer.facts.interval == "bounded"
    row = answer.rows()[0]
    assert row["n_low"] <= 10 <= row["n_high"]
    con.close()


def test_an_interval_says_when_a_join_may_leave_people_out() -> None:
    rows = pa.table({"who": [1, 1, 2], "x": [1, 2, 3]})
    con = sparseq.create(None, {"t": rows}, user="who", seed=1)
    joined = "SELECT count(DISTINCT a.who) AS n FROM t a JOIN t b ON a.who = b.who AND a.x < b.x"
    answer = con.sql(joined)
    assert answer.facts.interval == "capped"
    assert "combinations" in repr(answer)
    con.close()


def test_an_interval_says_when_some_may_be_used_up() -> None:
    """A series of counts of rows may take all that somebody has: nobody can tell from outside."""
    con = sparseq.create(None, {"t": pa.table({"who": [1, 1, 2]})}, user="who", seed=1)
    query = con.lower("SELECT count(*) AS n FROM t")
    assert con.ask(query).facts.interval == "assumed"
    con.step(query, con.stream.contributions)
    assert con.ask(query, fresh=True).facts.interval == "active"
    con.close()
