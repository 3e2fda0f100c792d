"""Frames and expressions of Python's libraries against a running server, beside DuckDB's answers.

All are deep; `tests/pgwire/test_clients.py` asks each of them once.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from pgwire.client_venv import programs
from pgwire.orders import check_near, rows, store
from pgwire.test_clients import need
from pgwire.wired import Address, served, spent

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served(made=store) as address:
        yield address


def last(at: Address) -> list[dict[str, Any]]:
    """Return the rows of the answer that was recorded last, with their intervals."""
    return at.store.release(at.store.released).showing("interval").rows()


def _few(t: Any) -> Any:
    return t.filter(t.day.between(dt.date(1997, 1, 5), dt.date(1997, 1, 14)))


def _persons(t: Any) -> Any:
    return t.group_by("customer").aggregate(n=t.count(), s=t.amount.sum())


WRITTEN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "months": lambda t, _, ibis: t.group_by(m=_.day.truncate("M")).aggregate(
        n=_.count(), s=_.amount.sum()
    ),
    "weeks": lambda t, _, ibis: t.group_by(w=_.seen.truncate("W")).aggregate(n=_.count()),
    "days": lambda t, _, ibis: _few(t).group_by("day").aggregate(n=_.count()).order_by("day"),
    "dates of times": lambda t, _, ibis: t.group_by(d=_.seen.date()).aggregate(n=_.count()),
    "six hours": lambda t, _, ibis: (
        _few(t).group_by(b=_.seen.bucket(hours=6)).aggregate(n=_.count())
    ),
    "weekdays": lambda t, _, ibis: t.group_by(d=_.day.day_of_week.index()).aggregate(n=_.count()),
    "people": lambda t, _, ibis: t.group_by("kind").aggregate(
        n=_.customer.nunique(), a=_.amount.mean()
    ),
    "cases": lambda t, _, ibis: t.group_by(
        b=ibis.cases((t.amount < 10, "low"), (t.amount < 30, "middle"), else_="high")
    ).aggregate(n=_.count()),
    "buckets": lambda t, _, ibis: t.group_by(b=_.amount.bucket([0, 10, 20, 50])).aggregate(
        n=_.count()
    ),
    "clipped": lambda t, _, ibis: t.aggregate(
        s=_.amount.clip(5, 40).sum(), n=_.count(where=_.paid)
    ),
    "per person": lambda t, _, ibis: _persons(t).aggregate(a=_.s.clip(0, 500).mean()),
    "people by orders": lambda t, _, ibis: (
        _persons(t).filter(_.n.between(5, 15)).group_by("n").aggregate(people=_.count())
    ),
    "first orders": lambda t, _, ibis: (
        t.mutate(r=ibis.row_number().over(group_by="customer", order_by=["seen", "amount"]))
        .filter(_.r == 0)
        .group_by("kind")
        .aggregate(n=_.count())
    ),
    "having": lambda t, _, ibis: t.group_by("kind").having(_.count() > 9).aggregate(n=_.count()),
    "twice": lambda t, _, ibis: _few(t).group_by("kind").aggregate(n=_.count()).mutate(m=2 * _.n),
    "upper": lambda t, _, ibis: t.group_by(k=_.kind.fill_null("none").upper()).aggregate(
        n=_.count()
    ),
}
"""What people write in ibis over a table."""


@pytest.mark.parametrize("name", WRITTEN)
def test_ibis_means_what_duckdb_does(at: Address, name: str) -> None:
    ibis = need("ibis")
    con = ibis.connect(at.url)
    table = con.table("purchases")
    found = con.to_pyarrow(WRITTEN[name](table, ibis._, ibis)).to_pylist()
    con.disconnect()
    answer = last(at)
    assert len(found) == len(answer)
    assert list(found[0]) == [n for n in answer[0] if not n.endswith(("_error", "_low", "_high"))]
    unbound = ibis.table(table.schema(), name="purchases")
    text = ibis.to_sql(WRITTEN[name](unbound, ibis._, ibis), dialect="duckdb")
    with duckdb.connect() as plain:
        true = plain.register("purchases", rows()).sql(str(text)).to_arrow_table()
    check_near(answer, true.to_pylist())


def test_ibis_says_what_it_cannot_create(at: Address) -> None:
    """`sql` without a schema makes a view to learn of one, `memtable` a table."""
    ibis = need("ibis")
    con, text = (
        ibis.connect(at.url),
        "SELECT kind, count(*) AS n FROM purchases WHERE paid GROUP BY kind",
    )
    for make in (lambda: con.sql(text), lambda: con.execute(ibis.memtable({"x": [1]}))):
        with pytest.raises(Exception, match="in a read-only transaction"):
            make()
    frame = con.sql(text, schema={"kind": "string", "n": "float64"}).order_by("kind").execute()
    assert frame["n"].to_list() == [row["n"] for row in last(at)]
    con.disconnect()


def test_sqlalchemy_reflects_all_and_builds(at: Address) -> None:
    sa = need("sqlalchemy")
    need("psycopg")
    made = sa.create_engine(at.url.replace("postgresql:", "postgresql+psycopg:"))
    before, everything = spent(at.store), sa.MetaData()
    everything.reflect(made)
    assert list(everything.tables) == ["purchases"]
    looked = sa.inspect(made)
    assert looked.get_view_names() == []
    assert looked.get_table_names(schema="released") == ["releases"]
    kinds = {c.name: str(c.type) for c in everything.tables["purchases"].columns}
    assert kinds == {
        "customer": "BIGINT",
        "day": "DATE",
        "seen": "TIMESTAMP",
        "kind": "TEXT",
        "amount": "DOUBLE PRECISION",
        "paid": "BOOLEAN",
    }
    assert spent(at.store) == before
    c, count = everything.tables["purchases"].c, sa.func.count()
    some = c.amount < 44  # nobody has asked of these yet
    person = sa.select(c.customer, count.label("k")).group_by(c.customer).subquery()
    named = sa.select(c.kind, count.label("n")).where(some, c.paid).group_by(c.kind).cte("q")
    statements = [
        sa.select(c.kind, count.label("n")).group_by(c.kind).having(count > 10).order_by(c.kind),
        sa.select(sa.func.date_trunc("month", c.seen).label("m"), count.label("n")).group_by("m"),
        sa.select(sa.extract("dow", c.day).label("d"), count.label("n")).group_by("d"),
        sa.select(count.filter(c.paid).label("n"), sa.func.sum(c.amount).label("s")),
    ]
    statements = [s.where(some) for s in statements]
    statements.append(sa.select(sa.func.avg(sa.func.least(person.c.k, 20)).label("a")))
    with made.connect() as con, duckdb.connect() as plain:
        plain.register("purchases", rows())
        for statement in statements:
            found = [dict(row) for row in con.execute(statement).mappings()]
            answer = last(at)
            assert found == [{n: row[n] for n in found[0]} for row in answer]
            literal = {"literal_binds": True}
            text = str(statement.compile(made, compile_kwargs=literal))
            check_near(answer, plain.sql(text).to_arrow_table().to_pylist())
        low = sa.select(named.c.kind, sa.literal_column("n_low")).select_from(named)
        lows = dict(con.execute(low).tuples().all())
        assert lows == {row["kind"]: row["n_low"] for row in last(at)}
    made.dispose()


QUERY = "SELECT kind, date_trunc('month', seen) AS m, count(*) AS n FROM purchases GROUP BY 1, 2"
SCRIPT = """
import json, os, sys
import pandas, polars, psycopg2, sqlalchemy
url, query = os.environ["SPARSEQ_URL"], sys.argv[1]
old = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg2:"))
ways = {
    "connectorx": lambda: polars.read_database_uri(query, url, engine="connectorx"),
    "parts": lambda: polars.read_database_uri([query, query], url, engine="connectorx")[:6],
    "polars psycopg2": lambda: polars.read_database(query, old),
    "polars batches": lambda: polars.concat(
        polars.read_database(query, old, iter_batches=True, batch_size=2)
    ),
    "pandas psycopg2": lambda: polars.from_pandas(pandas.read_sql(query, old)),
    "pandas chunks": lambda: polars.from_pandas(
        pandas.concat(pandas.read_sql(query, old, chunksize=4, parse_dates=["m"]))
    ),
    "psycopg2": lambda: polars.from_pandas(pandas.read_sql(query, psycopg2.connect(url))),
}
found = {name: way() for name, way in ways.items()}
shown = {name: [frame.columns, frame.rows()] for name, frame in found.items()}
print(json.dumps(shown, default=str))
"""


def test_frames_by_older_drivers_and_connectorx(at: Address) -> None:
    """They are no packages of this project's, so an environment of their own has them."""
    here = programs(
        "frames", "polars", "pandas", "sqlalchemy", "psycopg2-binary", "connectorx", "pyarrow"
    )
    inside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"SPARSEQ_URL": at.url}
    number = at.store.released
    done = subprocess.run(
        [here / "python", "-W", "ignore", "-c", SCRIPT, QUERY],
        env=inside,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert at.store.released == number + 1  # all ways together
    answer = last(at)
    rows_of = [[row["kind"], str(row["m"]), row["n"]] for row in answer]
    whole = found.pop("psycopg2")  # which is a script, and so has intervals
    assert whole == [
        list(answer[0]),
        [[*r, *list(a.values())[3:]] for r, a in zip(rows_of, answer, strict=True)],
    ]
    assert found.keys() == {
        "connectorx",
        "parts",
        "polars psycopg2",
        "polars batches",
        "pandas psycopg2",
        "pandas chunks",
    }
    for name, frame in found.items():
        assert frame == [["kind", "m", "n"], rows_of], name
