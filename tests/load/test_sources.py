"""Whatever the rows come from, the store is the one that Parquet gives; and who is who."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.base.errors import DataError
from sparseq.load.databases import PostgresTable
from sparseq.question.catalog import KeyLink
from sparseq.store.curator import counts, exact_sql

N = 300
TABLE = pa.table(
    {
        "who": [f"u{k % 40:03}" for k in range(N)],
        "day": [dt.date(2024, 1, 1) + dt.timedelta(k % 28) for k in range(N)],
        "at": pa.array(
            [dt.datetime(2024, 1, 1, 10, 30, k % 60) for k in range(N)], pa.timestamp("us")
        ),
        "n": [k % 7 for k in range(N)],
        "x": [None if k % 11 == 0 else k / 8 for k in range(N)],
        "late": [k % 3 == 0 for k in range(N)],
    }
)


def contents(source: Any, **more: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Return a store's columns and rows, by name and in one order."""
    with made_store(None, source, user="who", table="t", **more) as con:
        columns = sorted((c.name, c.type) for c in con.catalog.tables[0].columns)
        rows = exact_sql(con, "SELECT * FROM t").to_pylist()
    return columns, sorted(str(sorted(row.items())) for row in rows)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sources")
    pq.write_table(TABLE, place / "t.parquet")
    return place


def _csv(place: Path) -> object:
    pl.from_arrow(TABLE).write_csv(place / "t.csv")
    return place / "t.csv"


def _list(place: Path) -> object:
    rows = [json.loads(line) for line in pl.from_arrow(TABLE).write_ndjson().splitlines()]
    (place / "t.json").write_text(json.dumps(rows, indent=2))
    return place / "t.json"


def _workbook(place: Path) -> object:
    pytest.importorskip("fastexcel", reason="the reader of workbooks is an extra")
    pytest.importorskip("xlsxwriter", reason="nothing here writes workbooks")
    pl.from_arrow(TABLE).write_excel(place / "t.xlsx")
    return place / "t.xlsx"


def _sqlite(place: Path) -> object:
    con = sqlite3.connect(place / "t.sqlite")
    con.execute("CREATE TABLE v (who TEXT, day DATE, at DATETIME, n INT, x REAL, late BOOLEAN)")
    rows = [
        [str(v) if isinstance(v, dt.date) else v for v in r.values()] for r in TABLE.to_pylist()
    ]
    con.executemany("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?)", rows)
    con.commit()
    con.close()
    return place / "t.sqlite"


def _duckdb(place: Path) -> object:
    with duckdb.connect(place / "t.duckdb") as con:
        con.register("rows", TABLE)
        con.execute(
            "CREATE TABLE other AS SELECT 1 AS x; CREATE TABLE visits AS SELECT * FROM rows"
        )
    return f"{place / 't.duckdb'}#visits"


def _partitions(place: Path, count: int = 300) -> object:
    folder = place / "parts"
    for k in range(count):
        part = TABLE.slice(k * N // count, (k + 1) * N // count - k * N // count)
        day = part["day"][0] if len(part) else "2024-01-01"
        (folder / f"day={day}").mkdir(parents=True, exist_ok=True)
        pq.write_table(part.drop(["day"]), folder / f"day={day}" / f"part-{k}.parquet")
    return folder


SOURCES: dict[str, Callable[[Path], object]] = {
    "CSV": _csv,
    "a list": _list,
    "workbook": _workbook,
    "SQLite": _sqlite,
    "DuckDB": _duckdb,
    "300 files of partitions": _partitions,
    "LazyFrame": lambda place: pl.scan_parquet(place / "t.parquet"),
    "DataFrame": lambda place: pl.from_arrow(TABLE),
    "dataset": lambda place: ds.dataset(place / "t.parquet"),
    "stream": lambda place: TABLE.to_reader(7),
    "relation": lambda place: duckdb.sql(f"FROM '{place / 't.parquet'}'"),
}


@pytest.mark.parametrize("name", one_in(2, SOURCES))
def test_the_store_is_that_of_parquet(place: Path, name: str) -> None:
    assert contents(SOURCES[name](place)) == contents(place / "t.parquet")


def test_frames_of_pandas(place: Path) -> None:
    pytest.importorskip("pandas")
    frame = TABLE.to_pandas()
    assert contents(frame) == contents(place / "t.parquet")
    assert contents(frame.astype(object)) == contents(place / "t.parquet")
    frame["mixed"] = [7, "x", None] * (N // 3)
    columns, rows = contents(frame)
    assert ("mixed", "VARCHAR") in columns
    assert any("('mixed', '7')" in row for row in rows)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of PostgreSQL of our own, and the address of a database with the table."""
    driver = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="the driver is an extra")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    folder = tmp_path_factory.mktemp("postgresql")
    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runs_as: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to be run by root
        try:
            shutil.chown(folder, "postgres")
        except LookupError:
            pytest.skip("there is no user postgres to run the server")
        for above in folder.parents[:-2]:
            above.chmod(above.stat().st_mode | 0o011)
        runs_as = {"user": "postgres"}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    how: dict[str, Any] = {**quiet, **runs_as, "env": env, "cwd": folder}
    subprocess.run([initdb, "-D", data, "-U", "me", "-A", "trust"], check=True, **how)
    ctl = Path(initdb).with_name("pg_ctl")
    options = f"-p {port} -k '' -c listen_addresses=127.0.0.1 -c fsync=off"
    log = folder / "log"
    subprocess.run([ctl, "-D", data, "-o", options, "-l", log, "-w", "start"], check=True, **how)
    address = f"postgresql://me:secret@127.0.0.1:{port}/postgres"
    try:
        with driver.connect(address) as con, con.cursor() as cursor:
            cursor.adbc_ingest("visits", TABLE)
            cursor.execute(
                "CREATE TABLE odd (who text, at timestamptz, day date, price numeric(9,2))"
            )
            cursor.execute(
                "INSERT INTO odd VALUES ('a', 'infinity', 'infinity', 1.25), "
                "('b', '-infinity', '0044-03-15 BC', 'NaN'), "
                "('c', '2024-01-05 10:00+02', '2024-01-05', NULL), (NULL, now(), NULL, 1)"
            )
            cursor.execute('CREATE TABLE "o\'s" (a int, b int, PRIMARY KEY (b, a))')
            cursor.execute("CREATE SCHEMA web")
            cursor.execute(
                'CREATE TABLE web.l (x int, y int, FOREIGN KEY (x, y) REFERENCES "o\'s" (b, a))'
            )
            cursor.execute("CREATE TABLE m (z int, who int, UNIQUE (z))")
            cursor.execute("CREATE TABLE n (z int REFERENCES m (z))")
            cursor.execute("INSERT INTO m VALUES (1, 7)")
            cursor.execute("INSERT INTO n VALUES (1), (1)")
            con.commit()
        yield address
    finally:
        subprocess.run([ctl, "-D", data, "-m", "immediate", "stop"], check=False, **how)


def test_postgresql_gives_the_store_that_parquet_gives(place: Path, server: str) -> None:
    assert contents(f"{server}#visits") == contents(place / "t.parquet")
    assert contents(f"{server}#SELECT * FROM visits") == contents(place / "t.parquet")


def test_foreign_keys_of_postgresql_are_read_and_proposed(server: str) -> None:
    assert PostgresTable(f"{server}#web.l").foreign_keys() == [
        KeyLink(("x", "y"), "o's", ("b", "a"))
    ]
    rows = {name: f"{server}#{name}" for name in "nm"}
    with pytest.raises(DataError) as refused:
        sparseq.create(None, rows, user="who")
    assert "use --link n.z=m.z" in refused.value.hint
    with sparseq.create(None, rows, user="who", links={"n.z": "m.z"}) as con:
        assert exact_sql(con, "SELECT who FROM n").to_pylist() == [{"who": 7}] * 2


def test_not_null_of_postgresql_is_read(server: str) -> None:
    assert set(PostgresTable(f"{server}#o's").not_null) == {"a", "b"}
    assert set(PostgresTable(f"{server}#m").not_null) == set()
    assert set(PostgresTable(f'{server}#SELECT * FROM "o\'s"').not_null) == set()


def test_no_value_of_postgresql_stops_a_load_and_no_password_is_kept(
    tmp_path: Path, server: str
) -> None:
    with sparseq.create(tmp_path / "s.sparseq", f"{server}#odd", user="who") as con:
        rows = exact_sql(con, 'SELECT who, "at", day, price FROM odd ORDER BY who').to_pylist()
        assert [tuple(r.values())[1:3] for r in rows] == [
            (None, None),
            (None, None),
            (dt.datetime(2024, 1, 5, 8), dt.date(2024, 1, 5)),
        ]
        assert "odd: 1 of 4 rows were left out: they name no user" in con.curator_notes()
    for path in tmp_path.iterdir():
        assert b"secret" not in path.read_bytes()
    nowhere = f"{server.rpartition('/')[0]}/none"
    for what in (f"{server}#none", f"{server}#SELECT nonsense", nowhere):
        with pytest.raises(DataError) as refused:
            contents(what)
        assert "secret" not in f"{refused.value.message}{refused.value.hint}"


def test_not_null_of_files_is_read_where_all_of_them_say_it(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as duck, sqlite3.connect(tmp_path / "t.db") as lite:
        for con in (duck, lite):
            con.execute("CREATE TABLE v (who TEXT, n INT NOT NULL, m INT)")
            con.execute("INSERT INTO v VALUES ('a', 1, 2)")
    lite.close()
    said = pa.schema([("who", "string"), pa.field("n", "int64", nullable=False), ("m", "int64")])
    rows = pa.table([["a"], [1], [2]], schema=said)
    pq.write_table(rows, tmp_path / "t.parquet")
    pl.from_arrow(rows).write_parquet(tmp_path / "u.parquet")
    both = [tmp_path / "t.parquet", tmp_path / "u.parquet"]
    for source, never in [
        (tmp_path / "t.duckdb", {"n"}),
        (tmp_path / "t.db", {"n"}),
        (both[0], {"n"}),
        (f"{tmp_path / 't.duckdb'}#SELECT * FROM v", set()),
        (both[1], set()),
        (both, set()),
    ]:
        with made_store(None, source, user="who", table="t", rename={"n": "N"}) as con:
            found = con.catalog.tables[0].not_null
            assert found - {"who"} == {name.upper() for name in never}, source


# Who is who --------------------------------------------------------------------------------------


def people(rows: pa.Table, **more: Any) -> list[Any]:
    with made_store(None, rows, table="t", **{"user": "who", **more}) as con:
        found = con.backend.database.execute("SELECT id FROM ledger.users ORDER BY id").fetchall()
        return [str(id) for (id,) in found]


def test_text_is_told_apart_to_the_last_space_and_the_curator_is_told() -> None:
    rows = pa.table({"who": ["ann", "Ann", "ann ", "bob", "", None]})
    assert people(rows) == ["Ann", "ann", "ann ", "bob"]
    with sparseq.create(None, {"t": rows}, user="who") as con:
        assert con.curator_notes()[0] == "t: 2 of 6 rows were left out: they name no user"
        alike = "t: 3 people have identifiers that differ only in case or spaces"
        assert [note.startswith(alike) for note in con.curator_notes()].count(True) == 1
        told = len(con.curator_notes())
        con.ingest(pa.table({"who": ["carl"]}))
        assert len(con.curator_notes()) == told


def test_numbers_and_uuids_are_told_apart_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who\n7\n007\n7.0\n8\nx\n")
    how = {"types": {"who": "BIGINT"}}
    assert people(tmp_path / "a.csv", **how) == ["7", "8"]  # type: ignore[arg-type]
    id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    rows = pa.table({"who": [id, id.upper(), f"{{{id}}}", "none"]})
    assert people(rows, types={"who": "UUID"}) == [id]
    assert people(pa.table({"who": [1.0, None, 2.5]}), types={"who": "BIGINT"}) == ["1"]


def test_several_columns_name_a_person() -> None:
    rows = pa.table(
        {"shop": [1, 1, 2, None, 2, 2], "who": ["a", "a", "a", "a", "a,b", ""], "n": range(6)}
    )
    assert people(rows, user="shop,who") == ["1,a", "2,a", "2,a\\,b"]
    with sparseq.create(None, {"t": rows}, user="shop,who") as con:
        con.ingest(pa.table({"shop": ["1", "x"], "who": ["a", "a"], "n": [7, 8]}))
        found = exact_sql(con, "SELECT shop_who, count(*) AS n FROM t GROUP BY 1 ORDER BY 1")
        assert found["shop_who"].to_pylist() == ["1,a", "2,a", "2,a\\,b"]
        assert found["n"].to_pylist() == [3, 1, 1]


# What was declared, and what came before ---------------------------------------------------------


def test_a_schema_says_which_columns_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,day,secret\n1,05/01/2024,x\n")
    types = {"a": {"who": "VARCHAR", "day": "DATE:%d/%m/%Y"}}
    with sparseq.create(None, tmp_path / "a.csv", user="who", types=types) as con:
        assert [(c.name, c.type) for c in con.catalog.tables[0].columns] == [
            ("who", "VARCHAR"),
            ("day", "DATE"),
        ]
        (tmp_path / "b.csv").write_text("who\n1\n")
        with pytest.raises(DataError, match="no column 'day'"):
            con.ingest(tmp_path / "b.csv")


def test_the_same_file_again_is_refused_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,n\n1,2\n")
    (tmp_path / "empty.csv").write_text("who,n\n")
    shutil.copy(tmp_path / "a.csv", tmp_path / "b.csv")
    with sparseq.create(None, tmp_path / "a.csv", user="who") as con:
        with pytest.raises(DataError, match=r"b\.csv has the same content as a\.csv"):
            con.ingest(tmp_path / "b.csv")
        assert con.ingest(tmp_path / "b.csv", again=True) == 1
        assert con.ingest(tmp_path / "empty.csv") == con.ingest(tmp_path / "empty.csv") == 0
    with pytest.raises(DataError, match="content"):
        sparseq.create(None, [tmp_path / "a.csv", tmp_path / "b.csv"], user="who")
    with sparseq.create(None, tmp_path / "a.csv", user="who", row_key="n") as con:
        assert con.ingest(tmp_path / "a.csv") == 1
        assert exact_sql(con, "SELECT count(*) AS n FROM a")["n"].to_pylist() == [1]


def test_what_is_not_as_declared_is_told_of_what_came() -> None:
    rows = pa.table({"who": [1, 2, 3, 4], "n": [5, 500, -1, None], "kind": ["a", "b", "z", None]})
    how: dict[str, Any] = {"bounds": {"n": (0, 100)}, "keys": {"kind": ["a", "b"]}}
    with made_store(None, rows, table="t", user="who", **how) as con:
        first = [
            "t: n: 2 of 3 values (67 %) were outside of the bounds 0 to 100, and were cut to them",
            "t: kind: 1 of 3 values (33 %) are not among the 2 keys, and in no group",
        ]
        assert con.curator_notes() == first
        con.ingest(rows.slice(0, 1))
        assert con.curator_notes() == first


def test_an_address_may_say_that_it_is_parquet(tmp_path: Path) -> None:
    rows = pa.table({"who": [1, 2, 2]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    for place in (f"parquet:{tmp_path / 'rows.parquet'}", f"parquet:{tmp_path}"):
        con = sparseq.create(None, {"t": place}, user="who")
        assert counts(con).rows == {"t": 3}
        con.close()
