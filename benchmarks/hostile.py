"""Statements that cost much: each is refused or ended, and others hardly feel it.

    python -m benchmarks.hostile [--only WORDS] [--short] [--json]

A store is served with a time-out of 8 s (`--statement-timeout`). Eve sends the statements, one
after the other, by PostgreSQL's protocol, HTTP, MCP, and at the command line over a copy of the
store; they are about people, about what follows an answer, and about nobody. Each must be refused,
answered or ended within 10 s, with 500 MB more than the idle process at most. Meanwhile Bob asks,
explains, looks up and reads back: the median of each thing he does may at most double. The exit
code is 1 where that doesn't hold.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np
import psycopg
import pyarrow as pa

import sparseq
from sparseq.pictures.tables import format_table
from sparseq.server.tokens import Role, Tokens

MOST_SECONDS, MOST_MB, MOST_RATIO = 10.0, 500.0, 2.0
TIME_OUT = 8.0
PEOPLE, EACH, PUBLIC = 1_500, 1_000, 2_000
HTTP, WIRE, MCP, CLI = "http", "wire", "mcp", "cli"
_EVERY = 0.05  # seconds between two looks at a process's memory, and between Bob's requests
_ALL = "SELECT count(*) AS n FROM t"


def joined(times: int, on: str = "a0.who = a{i}.who") -> str:
    """Return a table joined to itself so often."""
    joins = "".join(f" JOIN t a{i} ON {on.format(i=i)}" for i in range(1, times))
    return f"SELECT count(*) AS n FROM t a0{joins}"


def nested(times: int) -> str:
    """Return subqueries in one another."""
    inner = "SELECT who, x, day FROM t"
    for i in range(times):
        inner = f"SELECT who, x + {i} AS x, day FROM ({inner}) q{i}"
    return f"SELECT sum(x) AS s FROM ({inner}) q"


def doubled(times: int) -> str:
    """Return named subqueries, each of which has the one before twice."""
    named = ["a0 AS (SELECT who, x FROM t)"]
    for i in range(1, times):
        named.append(f"a{i} AS (SELECT l.who, l.x FROM a{i - 1} l JOIN a{i - 1} r USING (who))")
    return f"WITH {', '.join(named)} SELECT count(*) AS n FROM a{times - 1}"


PEOPLES = {
    "a join of two": joined(2),
    "a join of two, summed": "SELECT sum(a.x * b.x) AS s FROM t a JOIN t b USING (who) "
    "GROUP BY a.k",
    "a join of three": joined(3),
    "a join of four": joined(4),
    "a join of eight": joined(8),
    "a join of thirty": joined(30),
    "a join by less than": joined(3, "a0.who = a{i}.who AND a0.x < a{i}.x + 1e9"),
    "a join with public rows": "SELECT count(*) AS n FROM t, p, p p2 WHERE t.k >= p.k",
    "public rows three times": "SELECT count(*) AS n FROM t JOIN p ON true JOIN p q ON true",
    "a series beside people": "SELECT count(*) AS n FROM t, generate_series(1, 1000000000) s(i)",
    "doubled names": doubled(12),
    "doubled names, forty": doubled(40),
    "nested a hundred times": nested(100),
    "nested two thousand times": nested(2_000),
    "a union of a thousand": " UNION ALL ".join([_ALL] * 1_000),
    "a long OR": f"{_ALL} WHERE {' OR '.join(f'x = {i}.5' for i in range(20_000))}",
    "a long IN": f"{_ALL} WHERE x IN ({', '.join(map(str, range(100_000)))})",
    "a long text": f"{_ALL} WHERE k <> '{'x' * 900_000}'",
    "many parentheses": f"SELECT sum({'(' * 5_000}x{')' * 5_000}) AS s FROM t",
    "many NOTs": f"{_ALL} WHERE {'NOT ' * 20_000} x > 1",
    "a long sum": f"SELECT sum({' + '.join(['x'] * 20_000)}) AS s FROM t",
    "nested CASE": f"SELECT sum({'CASE WHEN x > 1 THEN ' * 400}1{' ELSE x END' * 400}) AS s FROM t",
    "thousands of columns": "SELECT "
    + ", ".join(f"sum(x + {i}) AS s{i}" for i in range(3_000))
    + " FROM t",
    "billions of groups": f"{_ALL} GROUP BY day, who % 1000000, k",
    "a wide histogram": "SELECT histogram(x, 0, 100, 100000000) AS h FROM t",
    "days of ten thousand years": f"{_ALL} GROUP BY date_trunc('second', ts)",
    "a window over everybody": "SELECT sum(r) AS s FROM (SELECT who, row_number() OVER "
    "(PARTITION BY who ORDER BY x) AS r FROM t) q",
    "repeated texts of people": f"{_ALL} WHERE length(repeat(k, 1000000)) > 3",
    "padded texts of people": f"{_ALL} WHERE length(lpad(k, 100000000, 'x')) > 3",
    "a pattern that backtracks": f"{_ALL} WHERE regexp_matches(k, '(a+)+(b+)+(a|b|ab)*c')",
    "subqueries in subqueries": f"{_ALL} WHERE x > (SELECT avg(k) FROM p WHERE k > (SELECT avg(k) "
    "FROM p a, p b, p c))",
    "public rows that repeat": "SELECT count(*) AS n FROM t WHERE x IN (SELECT a.k FROM p a, p b, "
    "p c, p d)",
}
AFTER = {
    "a product of many": f"SELECT n{' * 1.0' * 12} AS m FROM ({_ALL}) q",
    "a product of sums": f"SELECT {' * '.join(['(n + 1)'] * 10)} AS m FROM ({_ALL}) q",
    "a power of powers": f"SELECT {'power(' * 30}n{', 2)' * 30} AS m FROM ({_ALL}) q",
    "a long answer times itself": "SELECT count(*) AS c FROM (SELECT day, count(*) AS n FROM t "
    "GROUP BY day) a, (SELECT day, count(*) AS n FROM t GROUP BY day) b, (SELECT day, count(*) "
    "AS n FROM t GROUP BY day) c",
    "an answer and a series": f"SELECT sum(n + i) AS s FROM ({_ALL}) q, "
    "generate_series(1, 1000000000) s(i)",
    "repeated answers": f"SELECT repeat(n::VARCHAR, 100000000) AS r FROM ({_ALL}) q",
    "nested CASE of an answer": f"SELECT {'CASE WHEN n > 1 THEN ' * 60}1{' ELSE n END' * 60} AS m "
    f"FROM ({_ALL}) q",
}
TENFOLD = ", 'x', 'xxxxxxxxxx')"
LOOKUPS = {
    "repeated texts": "SELECT repeat('x', 1000000) FROM generate_series(1, 600)",
    "a long series": "SELECT count(*) FROM generate_series(1, 100000000000)",
    "a series sent": "SELECT * FROM generate_series(1, 100000000)",
    "attributes four times": "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, "
    "pg_attribute d",
    "attributes, sorted": "SELECT a.attname FROM pg_attribute a, pg_attribute b, pg_attribute c "
    "ORDER BY md5(a.attname || b.attname || c.attname)",
    "attributes, one text": "SELECT string_agg(a.attname || b.attname || c.attname, ',') FROM "
    "pg_attribute a, pg_attribute b, pg_attribute c",
    "attributes, one list": "SELECT array_agg(a.attname || b.attname || c.attname) FROM "
    "pg_attribute a, pg_attribute b, pg_attribute c",
    "groups of a series": "SELECT count(*) FROM (SELECT i, count(*) FROM generate_series(1, "
    "1000000000) s(i) GROUP BY i) q",
    "padded texts": "SELECT lpad('x', 500000000, 'y')",
    "texts that double": f"SELECT {'replace(' * 12}'xxxxxxxxxx'{TENFOLD * 12}",
    "texts put together": "SELECT " + " || ".join(["repeat('x', 10000000)"] * 60),
    "a pattern": "SELECT regexp_replace(repeat('ab', 5000000), '(a|b)*?c', 'x', 'g')",
    "a window": "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY md5(i::text)) AS r FROM "
    "generate_series(1, 200000000) s(i)) q",
    "a recursion": "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT "
    "count(*) FROM r",
    "a recursion that doubles": "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r, "
    "generate_series(1, 2) WHERE i < 60) SELECT count(*) FROM r",
    "a deep look-up": f"SELECT {'(' * 3_000}1{')' * 3_000}",
    "a wide look-up": f"SELECT {', '.join(map(str, range(100_000)))}",
    "public rows four times": "SELECT count(*) FROM p a, p b, p c, p d WHERE a.k + b.k > c.k + d.k",
    "public rows, all": "SELECT a.k, b.k FROM p a, p b, p c",
}


@dataclass(frozen=True)
class Statement:
    """What Eve sends, and by which road."""

    name: str
    road: str
    sql: str
    explain: bool = False


def statements() -> list[Statement]:
    """Return the whole list."""
    found = [Statement(name, HTTP, sql) for name, sql in PEOPLES.items()]
    found += [Statement(name, WIRE, sql) for name, sql in (AFTER | LOOKUPS).items()]
    names = list(PEOPLES)
    found += [Statement(name, WIRE, PEOPLES[name]) for name in names[0:12:3]]
    found += [Statement("a join of two", road, joined(2)) for road in (WIRE, MCP, CLI)]
    found += [Statement(name, MCP, PEOPLES[name]) for name in names[1:30:5]]
    found += [Statement(name, MCP, PEOPLES[name], True) for name in names[3:30:9]]
    found += [Statement(name, HTTP, PEOPLES[name], True) for name in names[2:30:6]]
    found += [Statement(name, CLI, PEOPLES[name]) for name in names[1:20:4]]
    found += [Statement(name, HTTP, sql) for name, sql in list(AFTER.items())[::3]]
    return found


SHORT = (
    ("a join of two", HTTP), ("a join of three", WIRE), ("doubled names", MCP),
    ("public rows three times", HTTP), ("a long OR", HTTP), ("attributes four times", WIRE),
    ("a long series", WIRE), ("public rows four times", WIRE), ("nested a hundred times", HTTP),
    ("a window over everybody", HTTP),
)  # fmt: skip


def short() -> list[Statement]:
    """Return ten of them, of all kinds."""
    found = {(one.name, one.road): one for one in statements() if not one.explain}
    return [found[key] for key in SHORT if key in found] + [
        Statement(name, road, (PEOPLES | LOOKUPS)[name])
        for name, road in SHORT
        if (name, road) not in found
    ]


@dataclass
class Result:
    """What became of a statement.

    Attributes:
        seconds: Until it was refused, answered or ended.
        mb: More memory than the process had when it was idle.
        said: How it ended.
    """

    statement: str
    road: str
    seconds: float
    mb: float
    said: str

    @property
    def good(self) -> bool:
        """Within the limits."""
        return self.seconds <= MOST_SECONDS and self.mb <= MOST_MB


class Shop:
    """The store, served; its tokens; and a copy of it for the command line."""

    def __init__(self, folder: Path, timeout: float = TIME_OUT) -> None:
        self.path, self.copy = folder / "shop.sparseq", folder / "copy.sparseq"
        for path in (self.path, self.copy):
            make(path)
        tokens = Tokens.beside(self.path)
        self.tokens = {name: tokens.create(name, Role.CURATOR) for name in ("eve", "bob")}
        tokens.close()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sparseq", "serve", str(self.path), "--http", "127.0.0.1:0",
             "--pg", "127.0.0.1:0", "--statement-timeout", str(timeout)],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        self.http, self.pg = (urlsplit(w) for w in words if "://" in w)

    def post(self, name: str, path: str, body: Any) -> tuple[int, Any]:
        """Send a request of somebody's."""
        made = http.client.HTTPConnection(str(self.http.hostname), self.http.port, timeout=120)
        with contextlib.closing(made):
            method = "GET" if body is None else "POST"
            data = None if body is None else json.dumps(body)
            made.request(method, path, data, {"Authorization": f"Bearer {self.tokens[name]}"})
            response = made.getresponse()
            return response.status, json.loads(response.read())

    def url(self, name: str) -> str:
        """Return where PostgreSQL's clients connect."""
        return f"postgresql://{name}:{self.tokens[name]}@127.0.0.1:{self.pg.port}/shop"

    def stop(self) -> float:
        """End the server; return how long it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return time.monotonic() - began


def make(path: Path) -> None:
    """Make a store of people with many rows, and a public table."""
    n = PEOPLE * EACH
    rows = pa.table(
        {
            "who": np.arange(n) // EACH,
            "x": (np.arange(n) % 7).astype(float),
            "k": pa.array(np.array(["aaaa", "abab", "bbbb"])[np.arange(n) % 3]),
            "day": pa.array((np.arange(n) % 365 + 19_000).astype("int32")).cast(pa.date32()),
            "ts": pa.array(np.arange(n) * 10**9, pa.timestamp("us")),
        }
    )
    public = pa.table({"k": np.arange(PUBLIC)})
    bounds: dict[str, Any] = {"x": (0, 7), "day": ("2022-01-01", "2023-01-01")}
    keys = {"k": ["aaaa", "abab", "bbbb"]}
    sparseq.create(
        path, {"t": rows}, user="who", public={"p": public}, bounds=bounds, keys=keys
    ).close()


# -- Eve -------------------------------------------------------------------------------------------


def by_http(shop: Shop, one: Statement) -> str:
    """Send a statement over HTTP."""
    path = "/v1/explain" if one.explain else "/v1/query"
    status, body = shop.post("eve", path, {"sql": one.sql, "fresh": True})
    return f"{status} {body['error']['message'] if status != 200 else 'answered'}"


def by_mcp(shop: Shop, one: Statement) -> str:
    """Send a statement as an agent does."""
    params = {"name": "explain" if one.explain else "ask", "arguments": {"sql": one.sql}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    status, found = shop.post("eve", "/mcp", body)
    return f"{status} {found['result']['content'][0]['text']}"


def by_wire(shop: Shop, one: Statement) -> str:
    """Send a statement as PostgreSQL's clients do."""
    try:
        with psycopg.connect(shop.url("eve"), autocommit=True) as con, con.cursor() as cursor:
            cursor.execute(one.sql.encode())
            return f"answered, {cursor.rowcount} rows"
    except psycopg.Error as error:
        return str(error)


def at_command_line(shop: Shop, one: Statement) -> tuple[str, int]:
    """Ask at the command line; return what was said, and the most memory in kB."""
    asked = subprocess.Popen(
        [sys.executable, "-m", "sparseq", "sql", str(shop.copy), "-", "--timeout", "5"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with watched(asked.pid) as seen:
        _, said = asked.communicate(one.sql)
    return said or "answered", max(seen, default=0)


ROADS: dict[str, Callable[[Shop, Statement], str]] = {HTTP: by_http, MCP: by_mcp, WIRE: by_wire}


def resident(process: int) -> int:
    """Return a process's memory, in kB; 0: it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def watched(process: int) -> Iterator[list[int]]:
    """Look at a process's memory as long as this lasts; yields what was seen, in kB."""
    seen, over = [resident(process)], threading.Event()

    def look() -> None:
        while not over.wait(_EVERY):
            seen.append(resident(process))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def send(shop: Shop, one: Statement, idle: int) -> Result:
    """Send one statement, and see what becomes of it."""
    began = time.monotonic()
    if one.road == CLI:
        said, most = at_command_line(shop, one)
        most -= IDLE_CLI
    else:
        with watched(shop.process.pid) as seen:
            said = ROADS[one.road](shop, one)
        most = max(seen) - idle
    seconds, kind = time.monotonic() - began, " explain" * one.explain
    return Result(one.name, one.road + kind, seconds, most / 1024, " ".join(said.split())[:70])


IDLE_CLI = 150_000
"""Memory of a command that has opened a store, in kB."""


# -- Bob -------------------------------------------------------------------------------------------


@dataclass
class Prober:
    """Bob does some things again and again, each in a thread of its own, and notes the times."""

    shop: Shop
    times: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def __enter__(self) -> Prober:
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._again, args=one) for one in self._things().items()
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _things(self) -> dict[str, Callable[[], Any]]:
        shop, con = self.shop, psycopg.connect(self.shop.url("bob"), autocommit=True)
        number = iter(range(10**9))

        def post(path: str, body: Any) -> None:
            status, found = shop.post("bob", path, body)
            assert status == 200, found

        return {
            "catalog": lambda: post("/v1/catalog", None),
            "repeat": lambda: post("/v1/query", {"sql": _ALL}),
            "explain": lambda: post("/v1/explain", {"sql": f"{_ALL} WHERE x > {next(number)}"}),
            "question": lambda: post("/v1/query", {"sql": f"{_ALL} WHERE x > 2", "fresh": True}),
            "look-up": lambda: con.execute("SELECT relname FROM pg_class LIMIT 1").fetchall(),
        }

    def _again(self, name: str, do: Callable[[], Any]) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                do()
            except Exception as error:
                self.failed.append(f"{name}: {error!r}"[:200])
            self.times.setdefault(name, []).append(time.monotonic() - began)
            self._over.wait(_EVERY)

    def medians(self) -> dict[str, float]:
        """Return the median of each thing, in seconds."""
        return {name: statistics.median(times) for name, times in self.times.items()}


def run(
    shop: Shop, sent: list[Statement], alone: float, tell: Callable[[Result], None]
) -> tuple[list[Result], dict[str, tuple[float, float]], list[str]]:
    """Send statements; return what became of them, Bob's medians alone and beside them, failures.

    Args:
        shop: Served.
        sent: The statements.
        alone: Seconds that Bob is alone.
        tell: Is told each result.
    """
    with Prober(shop) as before:
        time.sleep(alone)
    idle, results = resident(shop.process.pid), []
    with Prober(shop) as beside:
        for one in sent:
            results.append(send(shop, one, idle))
            tell(results[-1])
    both = {name: (m, beside.medians()[name]) for name, m in before.medians().items()}
    return results, both, before.failed + beside.failed


@click.command(help=__doc__)
@click.option("--only", default="", help="Of statements whose roads and names have these words.")
@click.option("--short", "few", is_flag=True, help="Ten of them.")
@click.option("--json", "as_json", is_flag=True)
def main(only: str, few: bool, as_json: bool) -> None:
    sent = [one for one in (short() if few else statements()) if only in f"{one.road} {one.name}"]

    def tell(one: Result) -> None:
        mark = " " if one.good else "!"
        used = f"{one.seconds:6.1f} s {one.mb:6.0f} MB"
        click.echo(f"{mark} {used}  {one.road:12} {one.statement}: {one.said}", err=True)

    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder))
        try:
            results, medians, failed = run(shop, sent, 10.0, tell)
        finally:
            stopped = shop.stop()
    bad = [one for one in results if not one.good]
    slow = [name for name, (a, b) in medians.items() if b > MOST_RATIO * a]
    if as_json:
        facts = {"medians": medians, "failed": failed, "stopped": stopped}
        click.echo(json.dumps({"results": [asdict(one) for one in results]} | facts))
    else:
        rows = [
            [name, f"{a * 1e3:.1f}", f"{b * 1e3:.1f}", f"{b / a:.2f}"]
            for name, (a, b) in medians.items()
        ]
        heads = ["others", "alone, ms", "beside, ms", "times"]
        click.echo(format_table(heads, rows, list("lrrr")))
        click.echo(f"{len(results) - len(bad)} of {len(results)} statements within "
                   f"{MOST_SECONDS:g} s and {MOST_MB:g} MB; others failed {len(failed)} times; "
                   f"stopped in {stopped:.1f} s")  # fmt: skip
        for one in failed[:5]:
            click.echo(f"  {one}", err=True)
    sys.exit(bool(bad or slow or failed or stopped > MOST_SECONDS))


if __name__ == "__main__":
    main()
