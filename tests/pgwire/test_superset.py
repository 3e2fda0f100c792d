"""Apache Superset itself against a running server: its tables, charts and dashboards.

All are deep: installing it takes minutes, starting it half a minute. `tests/pgwire/look_around.sql`
and the end of `tests/sql/pairs.sql` have statements that it sends, one by one.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pgwire.client_venv import programs
from pgwire.orders import check_near, rows, store
from pgwire.wired import Address, served, spent

pytestmark = pytest.mark.deep

REQUIREMENTS = (
    "apache-superset==6.1.0",
    "psycopg2-binary",
    "flask<3",
    "flask-caching==2.3.1",
    "flask-limiter==3.12",
    "werkzeug<3.2",
    "rich",
    "cachetools",
)
"""Superset's own pins of what has moved on since, and two that it forgets."""
CONFIG = """
SECRET_KEY = {key!r}
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
DATA_CACHE_CONFIG = {{"CACHE_TYPE": "NullCache"}}
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
"""
RANGE = "1997-01-05 : 1997-02-10"
INSIDE = "{} >= TIMESTAMP '1997-01-05' AND {} < TIMESTAMP '1997-02-10'"


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served(made=store) as address:
        yield address


@dataclass
class Superset:
    """A Superset that runs, and its REST API."""

    url: str
    token: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what it answers; a refusal is an error with its text."""
        headers = {"Authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:2000]!r}") from error

    def chart(self, dataset: int, kind: str = "full", **query: Any) -> Any:
        """Return the result of a chart's query, past every cache."""
        body = {
            "datasource": {"id": dataset, "type": "table"},
            "queries": [{"row_limit": 1000, **query}],
            "result_type": kind,
            "force": True,
        }
        (result,) = self.ask("POST", "/api/v1/chart/data", body)["result"]
        return result


@pytest.fixture(scope="module")
def superset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Superset]:
    here = programs("superset", *REQUIREMENTS)
    folder = tmp_path_factory.mktemp("superset")
    config, password = folder / "superset_config.py", secrets.token_urlsafe()
    config.write_text(CONFIG.format(key=secrets.token_urlsafe(42), folder=folder))
    settings = {"SUPERSET_CONFIG_PATH": str(config), "SUPERSET_HOME": str(folder)}
    inside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | settings
    person = ["--username", "ada", "--firstname", "A", "--lastname", "L", "--email", "a@b.org"]
    for command in (
        ["db", "upgrade"],
        ["init"],
        ["fab", "create-admin", *person, "--password", password],
    ):
        done = subprocess.run(
            [here / "superset", *command], env=inside, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(here / "superset"), "run", "-p", str(port)]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(command, env=inside, stdout=log, stderr=log)
    try:
        made = Superset(f"http://127.0.0.1:{port}")
        _await(made.url, folder / "log")
        login = {"username": "ada", "password": password, "provider": "db"}
        made.token = made.ask("POST", "/api/v1/security/login", login)["access_token"]
        yield made
    finally:
        running.terminate()
        running.wait(30)


def _await(url: str, log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"Superset did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def database(at: Address, superset: Superset) -> int:
    body = {
        "database_name": "shop",
        "sqlalchemy_uri": at.url.replace("postgresql:", "postgresql+psycopg2:"),
    }
    assert superset.ask("POST", "/api/v1/database/test_connection/", body) == {"message": "OK"}
    return int(superset.ask("POST", "/api/v1/database/", body)["id"])


@pytest.fixture(scope="module")
def dataset(superset: Superset, database: int) -> int:
    body = {"database": database, "schema": "public", "table_name": "purchases"}
    return int(superset.ask("POST", "/api/v1/dataset/", body)["id"])


def test_what_it_syncs_and_shows_of_tables_is_free(
    at: Address, superset: Superset, database: int, dataset: int
) -> None:
    before = spent(at.store), at.store.released
    url = f"/api/v1/database/{database}"
    assert {"public", "released", "budget"} <= set(superset.ask("GET", f"{url}/schemas/")["result"])
    listed = superset.ask("GET", f"{url}/tables/?q=(schema_name:public)")["result"]
    assert [t["value"] for t in listed] == ["purchases"]
    meta = superset.ask("GET", f"{url}/table_metadata/?name=purchases&schema=public")
    assert "about people" in meta["comment"]
    assert superset.ask("PUT", f"/api/v1/dataset/{dataset}/refresh") == {"message": "OK"}
    synced = superset.ask("GET", f"/api/v1/dataset/{dataset}")["result"]
    columns = {c["column_name"]: (c["type"], c["is_dttm"]) for c in synced["columns"]}
    assert columns == {
        "customer": ("BIGINT", False),
        "day": ("DATE", True),
        "kind": ("TEXT", False),
        "seen": ("TIMESTAMP WITHOUT TIME ZONE", True),
        "paid": ("BOOLEAN", False),
        "amount": ("DOUBLE PRECISION", False),
    }
    values = f"/api/v1/datasource/table/{dataset}/column"
    assert superset.ask("GET", f"{values}/kind/values/")["result"] == ["gift", "own"]
    assert superset.ask("GET", f"{values}/paid/values/")["result"] == [False, True]
    assert superset.ask("GET", f"{values}/amount/values/")["result"] == []
    for kind in ("samples", "drill_detail"):
        shown = superset.chart(dataset, kind, filters=[within("seen"), within("day")])
        assert (shown["rowcount"], len(shown["colnames"])) == (0, 6)
    lab = {"database_id": database, "schema": "public", "runAsync": False, "client_id": "one"}
    found = superset.ask(
        "POST", "/api/v1/sqllab/execute/", {**lab, "sql": "SELECT * FROM purchases"}
    )
    assert (found["data"], len(found["columns"])) == ([], 6)
    assert (spent(at.store), at.store.released) == before


def within(column: str, range: str = RANGE) -> dict[str, str]:
    """Return the filter of a time range."""
    return {"col": column, "op": "TEMPORAL_RANGE", "val": range}


def by(column: str, grain: str) -> dict[str, str]:
    """Return a time axis by a grain."""
    return {
        "columnType": "BASE_AXIS",
        "expressionType": "SQL",
        "sqlExpression": column,
        "label": column,
        "timeGrain": grain,
    }


def simple(function: str, column: str) -> dict[str, Any]:
    """Return a metric of a column, as people click it together."""
    return {
        "expressionType": "SIMPLE",
        "aggregate": function,
        "column": {"column_name": column},
        "label": f"{function}({column})",
    }


SUM, AVG, PEOPLE_SEEN = (
    simple(f, c) for f, c in (("SUM", "amount"), ("AVG", "amount"), ("COUNT_DISTINCT", "customer"))
)
CHARTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "orders": (
        "big_number_total",
        {"columns": [], "metrics": ["count"], "filters": [within("seen")]},
        f"SELECT count(*) AS count FROM orders WHERE {INSIDE.format('seen', 'seen')}",
    ),
    "orders by day": (
        "echarts_timeseries_line",
        {"columns": [by("seen", "P1D")], "metrics": ["count"], "filters": [within("seen")]},
        "SELECT date_trunc('day', seen) AS seen, count(*) AS count FROM orders "
        f"WHERE {INSIDE.format('seen', 'seen')} GROUP BY 1",
    ),
    "orders by kind": (
        "echarts_timeseries_bar",
        {
            "columns": ["kind"],
            "metrics": ["count"],
            "filters": [within("day")],
            "orderby": [["count", False]],
        },
        "SELECT kind, count(*) AS count FROM orders "
        f"WHERE {INSIDE.format('day', 'day')} GROUP BY 1",
    ),
    "revenue": (
        "pie",
        {"columns": ["kind"], "metrics": [SUM], "row_limit": 100, "orderby": [[SUM, False]]},
        'SELECT kind, sum(amount) AS "SUM(amount)" FROM orders GROUP BY 1',
    ),
    "all numbers": (
        "table",
        {
            "columns": ["paid"],
            "metrics": ["count", SUM, AVG, PEOPLE_SEEN],
            "filters": [within("day"), {"col": "kind", "op": "IN", "val": ["own"]}],
        },
        'SELECT paid, count(*) AS count, sum(amount) AS "SUM(amount)", avg(amount) AS '
        '"AVG(amount)", count(DISTINCT customer) AS "COUNT_DISTINCT(customer)" FROM orders '
        f"WHERE kind = 'own' AND {INSIDE.format('day', 'day')} GROUP BY 1",
    ),
}
"""Charts: how they are drawn, their query, and DuckDB's SQL of the true values."""


def shown(value: Any) -> Any:
    """Return a value as Superset sends it: times in milliseconds."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC).timestamp() * 1000
    return value


def check(at: Address, result: dict[str, Any], truth: str) -> None:
    """Check a chart against the answer that was recorded, and that one against the truth."""
    answer = at.store.release(at.store.released).showing("interval").rows()
    with duckdb.connect() as plain:
        true = plain.register("orders", rows()).sql(truth).to_arrow_table()
    assert result["colnames"] == true.column_names
    assert result["data"] == [{n: shown(row[n]) for n in true.column_names} for row in answer]
    check_near(answer, true.to_pylist())


def test_five_charts_and_a_dashboard_that_is_free_to_refresh(
    at: Address, superset: Superset, dataset: int
) -> None:
    seen, ids = {}, {}
    for name, (kind, query, truth) in CHARTS.items():
        before, number = spent(at.store), at.store.released
        seen[name] = superset.chart(dataset, **query)
        check(at, seen[name], truth)
        assert at.store.released == number + 1
        after = spent(at.store)
        assert all(a >= b for a, b in zip(after, before, strict=True))
        assert sum(after) > sum(before)
        source = {"id": dataset, "type": "table"}
        context = {"datasource": source, "queries": [{"row_limit": 1000, **query}]}
        body = {
            "slice_name": name,
            "viz_type": kind,
            "params": json.dumps({"viz_type": kind}),
            "datasource_id": dataset,
            "datasource_type": "table",
            "query_context": json.dumps({**context, "result_type": "full"}),
        }
        ids[name] = superset.ask("POST", "/api/v1/chart/", body)["id"]
    made = superset.ask("POST", "/api/v1/dashboard/", {"dashboard_title": "shop"})["id"]
    for number in ids.values():
        superset.ask("PUT", f"/api/v1/chart/{number}", {"dashboards": [made]})
    before = spent(at.store), at.store.released
    for _ in range(2):
        on_it = superset.ask("GET", f"/api/v1/dashboard/{made}/charts")["result"]
        assert {chart["slice_name"] for chart in on_it} == CHARTS.keys()
        for name, number in ids.items():
            url = f"/api/v1/chart/{number}/data/?force=true"
            (again,) = superset.ask("GET", url)["result"]
            assert not again["is_cached"]
            assert again["data"] == seen[name]["data"]
    assert (spent(at.store), at.store.released) == before


@pytest.mark.parametrize("column", ["seen", "day"])
def test_every_grain_of_time(at: Address, superset: Superset, dataset: int, column: str) -> None:
    (offered,) = (superset.chart(dataset, "timegrains", metrics=["count"]),)
    grains = [g["duration"] for g in offered["data"] if g["duration"]]
    assert {"PT1S", "PT5M", "PT1H", "P1D", "P1W", "P1M", "P3M", "P1Y"} <= set(grains)
    for grain in grains:
        short = "PT" in grain  # an hour of seconds, six weeks of days
        if short and column == "day":
            continue
        range = "1997-01-05T03:00:00 : 1997-01-05T04:00:00" if short else RANGE
        found = superset.chart(
            dataset,
            columns=[by(column, grain)],
            metrics=["count"],
            row_limit=5000,
            filters=[within(column, range)],
        )
        times = [row[column] for row in found["data"]]
        assert len(times) == len(set(times)) == LENGTHS[grain], grain


LENGTHS = {
    "PT1S": 3600,
    "PT5S": 720,
    "PT30S": 120,
    "PT1M": 60,
    "PT5M": 12,
    "PT10M": 6,
    "PT15M": 4,
    "PT30M": 2,
    "PT1H": 1,
    "P1D": 36,
    "P1W": 6,
    "P1M": 2,
    "P3M": 1,
    "P1Y": 1,
}
"""Rows of an hour, or of RANGE, by grain."""


def test_series_that_are_limited_and_compared(
    at: Address, superset: Superset, dataset: int
) -> None:
    """A limit joins rows with the answer to "which are the largest"; a comparison asks twice."""
    weekly = {"columns": [by("seen", "P1W"), "kind"], "filters": [within("seen")]}
    limited = superset.chart(
        dataset,
        **weekly,
        metrics=["count"],
        series_columns=["kind"],
        series_limit=1,
        series_limit_metric="count",
    )
    truth = (
        "SELECT date_trunc('week', seen) AS seen, kind, count(*) AS count FROM orders "
        f"WHERE kind = 'own' AND {INSIDE.format('seen', 'seen')} GROUP BY 1, 2"
    )
    check(at, limited, truth)
    assert len(limited["data"]) == 6
    compared = superset.chart(
        dataset,
        columns=[by("seen", "P1W")],
        metrics=["count"],
        time_offsets=["1 week ago"],
        filters=[within("seen", "1997-02-03 : 1997-03-03")],
    )
    now = [row["count"] for row in compared["data"]]
    assert [row["count__1 week ago"] for row in compared["data"]][1:] == now[:-1]
