"""Statements that cost much, and the store and server that they are sent to."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

import sparseq
from sparseq.server.tokens import Role, Tokens

MOST_SECONDS, MOST_MB, MOST_RATIO = 10.0, 500.0, 2.0
TIME_OUT = 8.0
PEOPLE, EACH, PUBLIC = 1_500, 1_000, 2_000
EVERY = 0.05  # seconds between two looks at a process's memory, and between Bob's requests
ALL = "SELECT count(*) AS n FROM t"
OTHER = f"{ALL} WHERE x > 2"
LARGE = 1_000_000, 3
"""People, and rows of each, of the large store."""
FILES, SOCKETS, HELD_SECONDS = 1_024, 2_000, 5.0
"""Files that the server may open; sockets that Eve opens, and how long she holds them."""
HTTP, WIRE, MCP, CLI, IDLE = "http", "wire", "mcp", "cli", "sockets"


def joined(times: int, on: str = "a0.who = a{i}.who") -> str:
    """Return a table joined to itself this number of times."""
    joins = "".join(f" JOIN t a{i} ON {on.format(i=i)}" for i in range(1, times))
    return f"SELECT count(*) AS n FROM t a0{joins}"


def nested(times: int) -> str:
    """Return subqueries in one another."""
    inner = "SELECT who, x, day FROM t"
    for i in range(times):
        inner = f"SELECT who, x + {i} AS x, day FROM ({inner}) q{i}"
    return f"SELECT sum(x) AS s FROM ({inner}) q"


def doubled(times: int) -> str:
    """Return named subqueries; each uses the previous one twice."""
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
    "a union of a thousand": " UNION ALL ".join([ALL] * 1_000),
    "a long OR": f"{ALL} WHERE {' OR '.join(f'x = {i}.5' for i in range(20_000))}",
    "a long IN": f"{ALL} WHERE x IN ({', '.join(map(str, range(100_000)))})",
    "a long text": f"{ALL} WHERE k <> '{'x' * 900_000}'",
    "many parentheses": f"SELECT sum({'(' * 5_000}x{')' * 5_000}) AS s FROM t",
    "many NOTs": f"{ALL} WHERE {'NOT ' * 20_000} x > 1",
    "a long sum": f"SELECT sum({' + '.join(['x'] * 20_000)}) AS s FROM t",
    "nested CASE": f"SELECT sum({'CASE WHEN x > 1 THEN ' * 400}1{' ELSE x END' * 400}) AS s FROM t",
    "thousands of columns": "SELECT "
    + ", ".join(f"sum(x + {i}) AS s{i}" for i in range(3_000))
    + " FROM t",
    "billions of groups": f"{ALL} GROUP BY day, who % 1000000, k",
    "a wide histogram": "SELECT histogram(x, 0, 100, 100000000) AS h FROM t",
    "days of ten thousand years": f"{ALL} GROUP BY date_trunc('second', ts)",
    "a window over everybody": "SELECT sum(r) AS s FROM (SELECT who, row_number() OVER "
    "(PARTITION BY who ORDER BY x) AS r FROM t) q",
    "repeated texts of people": f"{ALL} WHERE length(repeat(k, 1000000)) > 3",
    "padded texts of people": f"{ALL} WHERE length(lpad(k, 100000000, 'x')) > 3",
    "a pattern that backtracks": f"{ALL} WHERE regexp_matches(k, '(a+)+(b+)+(a|b|ab)*c')",
    "subqueries in subqueries": f"{ALL} WHERE x > (SELECT avg(k) FROM p WHERE k > (SELECT avg(k) "
    "FROM p a, p b, p c))",
    "public rows that repeat": "SELECT count(*) AS n FROM t WHERE x IN (SELECT a.k FROM p a, p b, "
    "p c, p d)",
}
EDITS = "levenshtein(repeat(k, 400), repeat('ab', 60))"
SCANS = {
    "edits of long texts": f"{ALL} WHERE {EDITS} > 2",
    "edits, averaged": f"SELECT avg(x) AS a FROM t WHERE {EDITS} > 2",
    "edits, in the middle": f"SELECT median(x) AS m FROM t WHERE {EDITS} > 3",
    "edits, by group": f"SELECT k, count(*) AS n FROM t WHERE {EDITS} > 4 GROUP BY k",
    "a pattern in long texts": f"{ALL} WHERE regexp_matches(repeat(k, 250), '(a|b)*(ab)+c')",
    "hashes of hashes": f"{ALL} WHERE {'md5(' * 8}k{')' * 8} < 'a'",
    "hundreds of conditions": f"{ALL} WHERE "
    + " AND ".join(f"abs(x - {i}) > 0.25" for i in range(10, 310)),
}
"""Scans of one table with expressions that are slow on each row."""
AFTER = {
    "a product of many": f"SELECT n{' * 1.0' * 12} AS m FROM ({ALL}) q",
    "a product of sums": f"SELECT {' * '.join(['(n + 1)'] * 10)} AS m FROM ({ALL}) q",
    "a power of powers": f"SELECT {'power(' * 30}n{', 2)' * 30} AS m FROM ({ALL}) q",
    "a long answer times itself": "SELECT count(*) AS c FROM (SELECT day, count(*) AS n FROM t "
    "GROUP BY day) a, (SELECT day, count(*) AS n FROM t GROUP BY day) b, (SELECT day, count(*) "
    "AS n FROM t GROUP BY day) c",
    "an answer and a series": f"SELECT sum(n + i) AS s FROM ({ALL}) q, "
    "generate_series(1, 1000000000) s(i)",
    "repeated answers": f"SELECT repeat(n::VARCHAR, 100000000) AS r FROM ({ALL}) q",
    "nested CASE of an answer": f"SELECT {'CASE WHEN n > 1 THEN ' * 60}1{' ELSE n END' * 60} AS m "
    f"FROM ({ALL}) q",
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
    found += scans()
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


def scans() -> list[Statement]:
    """Return the slow scans, and the sockets."""
    found = [Statement(name, (HTTP, WIRE)[i % 2], SCANS[name]) for i, name in enumerate(SCANS)]
    return [*found, Statement(f"{SOCKETS:,} sockets of a stranger", IDLE, "")]


def large() -> list[Statement]:
    """Return the statements for the large store: the scans, the sockets, and ten others."""
    return [*scans(), *short()]


SHORT = (
    ("a join of two", HTTP),
    ("a join of three", WIRE),
    ("doubled names", MCP),
    ("public rows three times", HTTP),
    ("a long OR", HTTP),
    ("attributes four times", WIRE),
    ("a long series", WIRE),
    ("public rows four times", WIRE),
    ("nested a hundred times", HTTP),
    ("a window over everybody", HTTP),
)


def short() -> list[Statement]:
    """Return ten statements, of all kinds."""
    found = {(one.name, one.road): one for one in statements() if not one.explain}
    return [found[key] for key in SHORT if key in found] + [
        Statement(name, road, (PEOPLES | LOOKUPS)[name])
        for name, road in SHORT
        if (name, road) not in found
    ]


@dataclass
class Result:
    """The result of a statement.

    Attributes:
        seconds: Until it was refused, answered or ended.
        mb: Memory above that of the idle process.
        said: The reply.
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
    """The store, served; its tokens; and a copy of it for the command line.

    Args:
        folder: Folder for the store and its copy.
        timeout: The server's time-out, in seconds.
        eve: A shorter time-out for Eve's statements by HTTP and PostgreSQL; None: the server's.
            With it a slow machine ends none of Bob's statements.
        people, each: The number of people, and of rows of each.
    """

    def __init__(
        self,
        folder: Path,
        timeout: float = TIME_OUT,
        eve: float | None = None,
        people: int = PEOPLE,
        each: int = EACH,
    ) -> None:
        self.eve = eve
        self.path, self.copy = folder / "shop.sparseq", folder / "copy.sparseq"
        make(self.path, people, each)
        shutil.copyfile(self.path, self.copy)
        tokens = Tokens.beside(self.path)
        self.tokens = {name: tokens.create(name, Role.CURATOR) for name in ("eve", "bob")}
        tokens.close()
        limited = ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh"]
        serve = [sys.executable, "-m", "sparseq", "serve", str(self.path), "--http", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*limited, *serve, "--pg", "127.0.0.1:0", "--statement-timeout", str(timeout)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
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


def make(path: Path, people: int, each: int) -> None:
    """Make a store of people with many rows, and a public table."""
    n = people * each
    rows = pa.table(
        {
            "who": np.arange(n) // each,
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
