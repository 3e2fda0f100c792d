"""Real clients against a running server: each asks, and gets what the store recorded."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pgwire.wired import Address, served, spent

DAY = dt.date(1997, 2, 1)
JDBC = Path("/usr/share/java/postgresql.jar")
ODBC = Path("/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so")


def need(name: str) -> Any:
    """Return a client's module; without it, the test is skipped."""
    return pytest.importorskip(name, reason=f"{name} is not installed")


def by_kind() -> str:
    """The same, by kind."""
    return f"SELECT kind, count(*) AS n FROM purchases WHERE amount < {next(_NUMBERS)} GROUP BY 1"


_NUMBERS = itertools.count(1)


def anew() -> str:
    """Return a question that nobody has asked yet: what was asked is answered as it was."""
    return f"SELECT count(*) AS n FROM purchases WHERE amount < {next(_NUMBERS)}"


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served() as address:
        yield address


def last(at: Address, columns: str = "interval") -> list[dict[str, Any]]:
    """Return the rows of the answer that was recorded last."""
    return at.store.release(at.store.released).showing(columns).rows()


def records(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame of pandas, which says NaN of a text that is NULL."""
    rows = frame.to_dict("records")
    return [{name: None if v != v else v for name, v in row.items()} for row in rows]


def psql(at: Address, *commands: str) -> str:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    args = [part for command in commands for part in ("-c", command)]
    found = subprocess.run(
        [
            "psql",
            "-X",
            "-h",
            "127.0.0.1",
            "-p",
            str(at.port),
            "-U",
            at.user,
            "-d",
            at.database,
            "-v",
            "ON_ERROR_STOP=1",
            *args,
        ],
        env={**os.environ, "PGPASSWORD": at.token},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_psql_asks(at: Address) -> None:
    told = psql(at, anew())
    assert "n_low" in told
    assert str(int(last(at)[0]["n"])) in told


def test_psql_describes_tables(at: Address) -> None:
    before = spent(at.store)
    assert "purchases" in psql(at, "\\d")
    told = psql(at, "\\d purchases")
    assert "timestamp without time zone" in told
    assert "about people" in psql(at, "\\dt+")
    assert "released" in psql(at, "\\dn")
    assert "shop" in psql(at, "\\l")
    assert "ada" in psql(at, "\\du")
    psql(at, "\\df", "\\dv", "\\di", "\\dT", "\\conninfo", "\\dt released.*")
    assert spent(at.store) == before


def test_psql_copies_to_a_file(at: Address, tmp_path: Path) -> None:
    text = f"SELECT kind, n, n_error, n_low, n_high FROM ({by_kind()}) AS q"
    psql(at, f"\\copy ({text}) to '{tmp_path}/out.csv' csv header")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "kind,n,n_error,n_low,n_high"
    assert [float(line.split(",")[1]) for line in lines[1:]] == [row["n"] for row in last(at)]


def test_psycopg(at: Address) -> None:
    psycopg = need("psycopg")
    with psycopg.connect(at.url) as con:
        row = con.execute(f"{anew()} AND day < %s", (DAY,)).fetchone()
        assert row == tuple(last(at)[0].values())
        with pytest.raises(psycopg.errors.UndefinedTable) as refused:
            con.execute("SELECT count(*) FROM purchasse")
        assert "purchases" in refused.value.diag.message_hint
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            con.execute(anew())


def test_psycopg_in_binary_and_prepared(at: Address) -> None:
    psycopg = need("psycopg")
    text = anew()
    with psycopg.connect(at.url) as con:
        for _ in range(2):  # the second is a repeat
            row = con.execute(text, binary=True, prepare=True).fetchone()
            assert row == tuple(last(at)[0].values())


def test_psycopg_sends_parameters_in_binary(at: Address) -> None:
    psycopg = need("psycopg")
    with psycopg.connect(at.url) as con:
        where = "day < %b AND quantity < %b AND amount < %b AND paid = %b"
        text = f"SELECT count(*) AS n FROM purchases WHERE {where}"
        row = con.execute(text, (DAY, 4, 40.5, True), binary=True).fetchone()
        assert row == tuple(last(at)[0].values())
        assert "1997-02-01" in at.store.release(at.store.released).facts.query


def test_psycopg_pipelines(at: Address) -> None:
    psycopg = need("psycopg")
    before = at.store.released
    with psycopg.connect(at.url, autocommit=True) as con, con.pipeline():
        found = [con.execute(anew()) for _ in range(5)]
        rows = [cursor.fetchone() for cursor in found]
    recorded = [tuple(at.store.release(before + 1 + i).rows()[0].values()) for i in range(5)]
    assert rows == recorded


def test_psycopg_takes_rows_by_a_server_side_cursor(at: Address) -> None:
    psycopg = need("psycopg")
    with psycopg.connect(at.url) as con, con.cursor(name="few") as cursor:
        cursor.itersize = 2
        cursor.execute("SELECT day, count(*) AS n FROM purchases GROUP BY day ORDER BY day")
        assert len(cursor.fetchall()) == len(last(at))


def test_psycopg_copies_out(at: Address) -> None:
    psycopg = need("psycopg")
    text = f"COPY ({anew()}) TO STDOUT (FORMAT binary)"
    with psycopg.connect(at.url) as con, con.cursor().copy(text) as copy:
        copy.set_types(["float8"] * 4)
        assert list(copy.rows()) == [tuple(last(at)[0].values())]


def test_psycopg_async(at: Address) -> None:
    psycopg = need("psycopg")

    async def ask() -> Any:
        async with await psycopg.AsyncConnection.connect(at.url) as con:
            return await (await con.execute(anew())).fetchone()

    assert asyncio.run(ask()) == tuple(last(at)[0].values())


def test_asyncpg(at: Address) -> None:
    asyncpg = need("asyncpg")

    async def ask() -> Any:
        con = await asyncpg.connect(at.url)
        try:
            row = await con.fetchrow(f"{anew()} AND day < $1 AND kind = $2", DAY, "gift")
            async with con.transaction():
                held = await con.fetch("SELECT typname FROM pg_type WHERE oid = 20")
            await con.reset()
            return tuple(row), held[0]["typname"]
        finally:
            await con.close()

    row, type = asyncio.run(ask())
    assert row == tuple(last(at, "plain")[0].values())
    assert type == "int8"


def engine(at: Address) -> Any:
    need("psycopg")
    return need("sqlalchemy").create_engine(at.url.replace("postgresql:", "postgresql+psycopg:"))


def test_sqlalchemy_reflects_and_builds(at: Address) -> None:
    sa, made = need("sqlalchemy"), engine(at)
    before = spent(at.store)
    looked = sa.inspect(made)
    assert looked.get_table_names() == ["purchases"]
    assert {"public", "released", "budget"} <= set(looked.get_schema_names())
    columns = {c["name"]: str(c["type"]) for c in looked.get_columns("purchases")}
    assert (columns["day"], columns["seen"]) == ("DATE", "TIMESTAMP")
    assert looked.get_pk_constraint("purchases")["constrained_columns"] == []
    assert looked.get_indexes("purchases") == looked.get_foreign_keys("purchases") == []
    assert "about people" in looked.get_table_comment("purchases")["text"]
    table = sa.Table("purchases", sa.MetaData(), autoload_with=made)
    assert spent(at.store) == before
    counted = sa.select(sa.func.count().label("n")).select_from(table).where(table.c.day > DAY)
    with made.connect() as con:
        assert tuple(con.execute(counted).one()) == tuple(last(at, "plain")[0].values())
        con.execute(sa.text("SET sparseq.columns = interval"))
        assert tuple(con.execute(counted).one()) == tuple(last(at)[0].values())
    made.dispose()


def test_pandas_by_sqlalchemy(at: Address) -> None:
    pandas, made = need("pandas"), engine(at)
    frame = pandas.read_sql(by_kind(), made)
    assert records(frame) == last(at, "plain")
    made.dispose()


def test_polars_by_a_connection(at: Address) -> None:
    polars, made = need("polars"), engine(at)
    assert polars.read_database(anew(), made).to_dicts() == last(at, "plain")
    made.dispose()


def test_polars_by_an_address(at: Address) -> None:
    polars = need("polars")
    need("adbc_driver_postgresql")
    assert polars.read_database_uri(anew(), at.url, engine="adbc").to_dicts() == last(at, "plain")


def test_adbc(at: Address) -> None:
    adbc = need("adbc_driver_postgresql.dbapi")
    with adbc.connect(at.url) as con, con.cursor() as cursor:
        cursor.execute(anew())
        assert cursor.fetch_arrow_table().to_pylist() == last(at, "plain")
        names = con.adbc_get_objects(depth="tables").read_all()["catalog_name"].to_pylist()
        assert "shop" in names


def test_ibis(at: Address) -> None:
    """It lays out the columns that it asked for, whatever comes."""
    ibis = need("ibis")
    con = ibis.connect(at.url)
    table = con.table("purchases")
    cheap, by = table.filter(table.amount < next(_NUMBERS)), {"N": ibis._.count()}
    assert con.current_catalog == "shop"
    assert con.execute(cheap.count()) == last(at, "plain")[0]["CountStar()"]
    frame = con.execute(cheap.group_by("kind").aggregate(**by, Total=ibis._.amount.sum()))
    assert records(frame) == last(at, "plain")
    assert list(frame) == ["kind", "N", "Total"]
    con.disconnect()


@pytest.mark.deep
def test_pgjdbc(at: Address) -> None:
    """A Java machine takes long to start; psycopg sends the same messages."""
    jaydebeapi = need("jaydebeapi")
    if not JDBC.exists() or shutil.which("java") is None:
        pytest.skip("libpostgresql-jdbc-java or Java is not installed")
    url = f"jdbc:postgresql://127.0.0.1:{at.port}/{at.database}"
    con = jaydebeapi.connect("org.postgresql.Driver", url, [at.user, at.token], str(JDBC))
    with con.cursor() as cursor:
        cursor.execute(anew())
        assert cursor.fetchall() == [tuple(last(at, "plain")[0].values())]
    before, facts = spent(at.store), con.jconn.getMetaData()
    tables = facts.getTables(None, "public", "%", None)
    assert tables.next()
    assert str(tables.getString("TABLE_NAME")) == "purchases"
    columns, names = facts.getColumns(None, "public", "purchases", "%"), []
    while columns.next():
        names.append(str(columns.getString("COLUMN_NAME")))
    assert names[:2] == ["customer", "day"]
    for asked, given in (
        ("getPrimaryKeys", (None, "public", "purchases")),
        ("getTypeInfo", ()),
        ("getImportedKeys", (None, "public", "purchases")),
        ("getSchemas", ()),
        ("getIndexInfo", (None, "public", "purchases", False, False)),
        ("getCatalogs", ()),
    ):
        getattr(facts, asked)(*given).next()
    con.close()
    assert spent(at.store) == before


@pytest.mark.deep
def test_psqlodbc(at: Address) -> None:
    """The driver is a Debian package, not one of Python's."""
    if not ODBC.exists():
        pytest.skip("odbc-postgresql is not installed")
    try:
        pyodbc = importlib.import_module("pyodbc")
    except ImportError as error:
        pytest.skip(f"pyodbc: {error}")
    words = {
        "Driver": ODBC,
        "Server": "127.0.0.1",
        "Port": at.port,
        "Database": at.database,
        "Uid": at.user,
        "Pwd": at.token,
    }
    con = pyodbc.connect(";".join(f"{k}={v}" for k, v in words.items()), autocommit=True)
    row = con.cursor().execute(anew()).fetchone()
    assert tuple(row) == tuple(last(at)[0].values())
    before = spent(at.store)
    assert [t.table_name for t in con.cursor().tables(schema="public")] == ["purchases"]
    names = [c.column_name for c in con.cursor().columns(table="purchases")]
    assert names[:2] == ["customer", "day"]
    con.close()
    assert spent(at.store) == before
