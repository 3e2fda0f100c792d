"""The ways to send a statement: HTTP, MCP, the PostgreSQL protocol and the command line."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from checks.hostile_statements import (
    CLI,
    EVERY,
    FILES,
    HELD_SECONDS,
    HTTP,
    IDLE,
    MCP,
    MOST_SECONDS,
    SOCKETS,
    WIRE,
    Result,
    Shop,
    Statement,
)


def by_http(shop: Shop, one: Statement) -> str:
    """Send a statement over HTTP."""
    path = "/v1/explain" if one.explain else "/v1/query"
    own = {} if shop.eve is None or one.explain else {"timeout": shop.eve}
    status, body = shop.post("eve", path, {"sql": one.sql, "fresh": True} | own)
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
            if shop.eve is not None:
                cursor.execute(f"SET statement_timeout = {1000 * shop.eve:.0f}".encode())
            cursor.execute(one.sql.encode())
            return f"answered, {cursor.rowcount} rows"
    except psycopg.Error as error:
        return str(error)


def at_command_line(shop: Shop, one: Statement) -> tuple[str, int]:
    """Ask at the command line; return its output, and the largest memory in kB."""
    asked = subprocess.Popen(
        [sys.executable, "-m", "sparseq", "sql", str(shop.copy), "-", "--timeout", "5"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with watched(asked.pid) as seen:
        _, said = asked.communicate(one.sql)
    return said or "answered", max(seen, default=0)


def by_sockets(shop: Shop, _: Statement) -> str:
    """Open many sockets without a word, and hold them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, SOCKETS + 2 * FILES), hard))
    with contextlib.ExitStack() as held:
        for i in range(SOCKETS):
            place = (shop.http, shop.pg)[i % 2]
            at = str(place.hostname), place.port
            held.enter_context(socket.create_connection(at, timeout=MOST_SECONDS))
        time.sleep(HELD_SECONDS)
        status, _ = shop.post("eve", "/healthz", None)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return f"{status}, with {SOCKETS:,} of them"


ROADS: dict[str, Callable[[Shop, Statement], str]] = {
    HTTP: by_http,
    MCP: by_mcp,
    WIRE: by_wire,
    IDLE: by_sockets,
}


def resident(process: int) -> int:
    """Return a process's memory, in kB; 0: it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def watched(process: int) -> Iterator[list[int]]:
    """Sample a process's memory inside the block; yields the samples, in kB."""
    seen, over = [resident(process)], threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            seen.append(resident(process))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def send(shop: Shop, one: Statement, idle: int) -> Result:
    """Send one statement, and return the result."""
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
