"""`create --link`: tables of a shop as its database has them, joined as one writes it there."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from command_runs import output, run
from sql.shop import exact

import sparseq
from sparseq.cli import create as command
from sparseq.load.databases import DuckTable, SqliteTable
from sparseq.question.catalog import KeyLink

TABLES = {
    "region": "r_regionkey INTEGER PRIMARY KEY, r_name TEXT",
    "nation": "n_nationkey INTEGER PRIMARY KEY, n_name TEXT, "
    "n_regionkey INTEGER REFERENCES region(r_regionkey)",
    "supplier": "s_suppkey INTEGER PRIMARY KEY, s_nationkey INTEGER REFERENCES nation(n_nationkey)",
    "part": "p_partkey INTEGER PRIMARY KEY, p_size INTEGER",
    "partsupp": "ps_partkey INTEGER REFERENCES part(p_partkey), "
    "ps_suppkey INTEGER REFERENCES supplier(s_suppkey), PRIMARY KEY (ps_partkey, ps_suppkey)",
    "customer": "c_custkey INTEGER PRIMARY KEY, "
    "c_nationkey INTEGER REFERENCES nation(n_nationkey), c_mktsegment TEXT",
    "orders": "o_orderkey INTEGER PRIMARY KEY, "
    "o_custkey INTEGER REFERENCES customer(c_custkey), o_orderdate DATE, o_totalprice INTEGER",
    "lineitem": "l_orderkey INTEGER REFERENCES orders(o_orderkey), l_linenumber INTEGER, "
    "l_partkey INTEGER, l_quantity INTEGER, l_shipmode TEXT, "
    "PRIMARY KEY (l_orderkey, l_linenumber)",
}
"""The schema of TPC-H, shortened."""
ABOUT_PEOPLE = ("lineitem", "orders", "customer")
LINKS = ("orders.o_custkey=customer.c_custkey", "lineitem.l_orderkey=orders.o_orderkey")
QUERIES = (
    "SELECT count(*) AS n FROM customer, orders, lineitem WHERE c_mktsegment = 'AUTO' "
    "AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15'",
    "SELECT count(*) AS n FROM orders WHERE o_totalprice > 20 "
    "AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_quantity > 30)",
    "SELECT count(*) AS n FROM orders "
    "WHERE NOT EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey)",
    "SELECT count(*) AS n FROM customer JOIN orders ON c_custkey = o_custkey WHERE o_orderkey IN "
    "(SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 100)",
    "SELECT count(*) AS n FROM orders WHERE o_orderkey NOT IN "
    "(SELECT l_orderkey FROM lineitem WHERE l_quantity > 10)",
    "SELECT count(*) AS n FROM orders LEFT JOIN lineitem ON o_orderkey = l_orderkey "
    "AND l_shipmode = 'AIR'",
    "SELECT count(*) AS n FROM lineitem AS a JOIN lineitem AS b ON a.l_orderkey = b.l_orderkey",
    "SELECT count(*) AS n FROM lineitem JOIN orders ON l_orderkey = o_orderkey "
    "JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey "
    "JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'region 1'",
    "SELECT count(*) AS n FROM lineitem, part, partsupp WHERE l_partkey = p_partkey "
    "AND p_partkey = ps_partkey AND p_size > 5",
)


def rows() -> dict[str, list[tuple[Any, ...]]]:
    """Rows of all tables, small: 60 customers, 200 orders."""
    rng = random.Random(4)
    return {
        "region": [(k, f"region {k}") for k in range(3)],
        "nation": [(k, f"nation {k}", k % 3) for k in range(9)],
        "supplier": [(k, k % 9) for k in range(10)],
        "part": [(k, k % 10) for k in range(40)],
        "partsupp": [(k, (k + more) % 10) for k in range(40) for more in (0, 3)],
        "customer": [(k, rng.randrange(9), rng.choice(["AUTO", "FOOD"])) for k in range(60)],
        "orders": [
            (
                k,
                rng.randrange(60),
                f"199{rng.randrange(2, 8)}-0{rng.randrange(1, 10)}-11",
                rng.randrange(100),
            )
            for k in range(200)
        ],
        "lineitem": [
            (k, n, rng.randrange(40), rng.randrange(1, 50), rng.choice(["AIR", "RAIL"]))
            for k in range(180)
            for n in range(rng.randrange(1, 6))
        ],
    }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables in SQLite, with their foreign keys."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    with closing(sqlite3.connect(path)) as con, con:
        for name, columns in TABLES.items():
            con.execute(f"CREATE TABLE {name} ({columns})")
        for name, some in rows().items():
            marks = ", ".join("?" * len(some[0]))
            con.executemany(f"INSERT INTO {name} VALUES ({marks})", some)
    return path


def loaded(shop: Path, *more: str) -> list[str]:
    """Arguments of `create`: three tables about people, the others public."""
    public = (f"--public={name}={shop}#{name}" for name in TABLES if name not in ABOUT_PEOPLE)
    return [*(f"{name}={shop}#{name}" for name in ABOUT_PEOPLE), *public, *more]


def test_tpc_h_is_loaded_and_joined_as_its_queries_are_written(shop: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.sparseq"
    links = [f"--link={link}" for link in LINKS]
    output("create", store, *loaded(shop, "--user=customer.c_custkey", *links))
    plain = duckdb.connect()
    for name, some in rows().items():
        kinds = dict(re.findall(r"(?:^|, )(\w+) (INTEGER|TEXT|DATE)", TABLES[name]))
        made = pa.table(dict(zip(kinds, map(list, zip(*some, strict=True)), strict=True)))
        plain.register("found", made)
        listed = ", ".join(f"{column}::{kind} AS {column}" for column, kind in kinds.items())
        plain.execute(f"CREATE TABLE {name} AS SELECT {listed} FROM found")
    with sparseq.connect(store) as con:
        for query in QUERIES:
            ((truth,),) = plain.execute(query).fetchall()
            assert exact(con, query) == [{"n": truth}], query
            assert truth > 10


def test_foreign_keys_are_proposed_and_never_taken(shop: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.sparseq"
    tried = run("create", store, *loaded(shop, "--user=c_custkey"))
    assert tried.exit_code == 6
    assert "lineitem has no column 'c_custkey'" in tried.stderr
    assert " ".join(f"--link {link}" for link in reversed(LINKS)) in tried.stderr
    assert not store.exists()


def test_foreign_keys_of_several_columns_are_read(tmp_path: Path) -> None:
    made = (
        "CREATE TABLE o (a INTEGER, b INTEGER, PRIMARY KEY (a, b))",
        "CREATE TABLE l (n INTEGER, x INTEGER, y INTEGER, FOREIGN KEY (x, y) REFERENCES o (a, b))",
    )
    with (
        closing(sqlite3.connect(tmp_path / "s.db")) as lite,
        duckdb.connect(tmp_path / "d.duckdb") as duck,
    ):
        for sql in made:
            lite.execute(sql)
            duck.execute(sql)
    expected = [KeyLink(("x", "y"), "o", ("a", "b"))]
    assert SqliteTable(tmp_path / "s.db", "l").foreign_keys() == expected
    assert DuckTable(tmp_path / "d.duckdb", "l").foreign_keys() == expected


def test_on_a_terminal_foreign_keys_are_asked_for(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "on_terminal", lambda: True)
    arguments = loaded(shop, "--dry-run")
    answers = "customer.c_custkey\ny\ny\n"
    asked = run("create", tmp_path / "s.sparseq", *arguments, input=answers)
    assert asked.exit_code == 0, asked.stderr
    assert "lineitem.l_orderkey is a key of orders.o_orderkey" in asked.stderr
    assert f"--link {LINKS[1]} --link {LINKS[0]}" in asked.stderr
    assert "whom a row is about, by --link lineitem.l_orderkey=orders.o_orderkey" in asked.stdout


def test_a_public_table_that_leads_to_people_is_refused(shop: Path, tmp_path: Path) -> None:
    tables = [f"customer={shop}#customer", f"orders={shop}#orders"]
    more = ["--user=c_custkey", f"--link={LINKS[0]}", f"--public=lineitem={shop}#lineitem"]
    tried = run("create", tmp_path / "s.sparseq", *tables, *more)
    assert tried.exit_code == 2
    assert "lineitem is declared public, but its l_orderkey leads to people" in tried.stderr
    output("create", tmp_path / "s.sparseq", *tables, *more, "--really-public=lineitem")
    lines = tmp_path / "returns.csv"  # no database says so, but the name of its column does
    lines.write_text("o_orderkey,reason\n1,late\n")
    more = [*(f"--link={link}" for link in LINKS), f"--public=returns={lines}"]
    tried = run(
        "create",
        tmp_path / "t.sparseq",
        *tables,
        f"lineitem={shop}#lineitem",
        "--user=customer.c_custkey",
        *more,
    )
    assert tried.exit_code == 2
    assert (
        "has o_orderkey, which leads by orders.o_orderkey to the user whom a row is" in tried.stderr
    )


def test_rows_that_lead_nowhere_are_told_to_the_curator_alone(tmp_path: Path) -> None:
    orders, items, store = tmp_path / "o.csv", tmp_path / "l.csv", tmp_path / "s.sparseq"
    orders.write_text("o,who\n1,ann\n2,bob\n3,ann\n3,bob\n")
    items.write_text("o,qty\n1,5\n1,6\n3,7\n9,8\n,9\n")
    more = [f"items={items}", f"orders={orders}", "--user=orders.who", "--link=items.o=orders.o"]
    made = run("create", store, *more)
    assert "1 of 5 rows were left out: they have no o (for the curator only)" in made.stderr
    assert "orders: 1 row has a key (o) that a row of another user had first" in made.stderr
    assert "1 of 5 rows wait: no row has come yet whose orders.o is their o" in made.stderr
    assert "3 rows in items, 4 rows in orders" in made.stdout
    orders.write_text("o,who\n9,cid\n")
    came = run("ingest", store, orders, "--table=orders")
    assert "items: 1 waiting rows were added (for the curator only)" in came.stderr
    assert came.stdout.startswith("added 2 rows and 1 new person")
    assert "erased cid: 1 row" in output("curator", "forget", store, "cid", "--yes")


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (["items.x=orders.o"], "items has no column 'x'"),
        (["items.o=order.o"], "no table about people has the name 'order'"),
        (["items.o=orders.o", "items.qty=orders.o"], "about two people at once (many-to-many)"),
        (
            ["items.o=orders.o", "orders.o=items.o"],
            "links lead in a circle: items → orders → items",
        ),
        (
            ["items.o=orders.who"],
            "the user column of items is BIGINT, that of another table VARCHAR",
        ),
        (["items.name=orders.o"], "items.name is VARCHAR, and orders.o BIGINT: they can't be"),
        (["items.o,qty=orders.o"], "has 2 and 1 columns"),
        (["items.qty=orders.kind"], "many-to-many: 1 of 1 values belong to several people"),
        (["items.o:orders.o"], "can't be read"),
    ],
)
def test_links_that_lead_to_nobody_are_refused(tmp_path: Path, links: list[str], said: str) -> None:
    orders, items = tmp_path / "orders.csv", tmp_path / "items.csv"
    orders.write_text("o,who,kind\n1,ann,5\n2,bob,5\n")
    items.write_text("o,qty,name\n1,5,a\n2,6,b\n")
    tried = run(
        "create",
        tmp_path / "s.sparseq",
        f"items={items}",
        f"orders={orders}",
        "--user=who",
        *(f"--link={link}" for link in links),
    )
    assert tried.exit_code in (2, 6)  # of what is said, or of data
    assert said in tried.stderr, tried.stderr
    assert not (tmp_path / "s.sparseq").exists()
