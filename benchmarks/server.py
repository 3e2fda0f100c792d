"""Many clients of a served store, against the same questions in process, in one run.

    python -m benchmarks server --json
    SPARSEQ_STORE=big.sparseq python -m benchmarks server     of an existing store

The store is that of `benchmarks.engine`: 10 million rows, 1 million users, 365 days. `sparseq
serve` has one copy of it, this process another. Clients are psycopg's, over loopback: one asks in
turn with the process; then 32 at once, each its own days; then 32 that repeat recorded questions,
in turn with `SELECT 1`. Clients share the machine's cores with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import sparseq
from benchmarks.engine import ONE_DAY, _calendar, _create, _folder, _generate, _info

CLIENTS, PAIRS, ROUNDS = 32, 60, 4
ASKED, REPEATED, CONNECTIONS = 640, 6_400, 320
MOST_OVERHEAD, LEAST_RATIO, LEAST_REPEATS, MOST_GROWTH = 1.3, 3.0, 0.5, 32.0
FRESH = "-c sparseq.fresh=on"
Ask = Callable[[Any, int], Awaitable[None]]


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    with _folder() as folder:
        served, local = folder / "served.sparseq", folder / "local.sparseq"
        if given := os.environ.get("SPARSEQ_STORE"):
            shutil.copy(given, served)
        else:
            _generate(folder / "events.parquet")
            _create(served, folder / "events.parquet").close()
        shutil.copy(served, local)
        with _server(served) as (process, where), sparseq.connect(local) as con:
            yield from _overhead(where, process.pid, con)
            yield from asyncio.run(_many(where))
            yield from asyncio.run(_memory(where, process.pid))


@contextlib.contextmanager
def _server(store: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a store in another process; yield it and an address for psycopg."""
    sparseq_ = [sys.executable, "-m", "sparseq"]
    made = [*sparseq_, "token", "create", str(store), "--name", "ada"]
    told = subprocess.run(made, check=True, capture_output=True, text=True).stdout
    token = re.search(r"sq_[\w-]+", told)
    assert token is not None
    command = [*sparseq_, "serve", str(store), "--pg", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as p:
        try:
            assert p.stdout is not None
            said = next(m for line in p.stdout if (m := re.search(r"postgresql://(\S+)", line)))
            yield p, f"postgresql://ada:{token[0]}@{said[1]}/{store.stem}"
        finally:
            p.terminate()
            p.wait(60)


def _days() -> Iterator[str]:
    return itertools.cycle(_calendar())


def _overhead(where: str, process: int, con: sparseq.Store) -> Iterator[dict[str, Any]]:
    """One client and the process in turn, the same days; in time, and in processor time.

    On a machine that does other work, time has in it that client and server wait for a processor
    in turn; processor time has not.
    """
    import psycopg

    def local(sql: str) -> object:
        return con.sql(sql, fresh=True)

    seconds: tuple[list[float], list[float]] = ([], [])
    used: tuple[list[float], list[float]] = ([], [])
    with psycopg.connect(where, autocommit=True, options=FRESH) as client:
        for i, day in enumerate(itertools.islice(_days(), PAIRS + 5)):
            sql = ONE_DAY.format(day=day)
            for spent, cpu, ask in zip(seconds, used, (local, client.execute), strict=True):
                started, before = time.perf_counter(), time.process_time() + _used(process)
                ask(sql)
                if i >= 5:
                    spent.append(time.perf_counter() - started)
                    cpu.append(time.process_time() + _used(process) - before)
    ours, theirs = (statistics.median(each) for each in seconds)
    yield _info("server.in_process", ours * 1e3, "ms")
    yield _info("server.overhead_processor", sum(used[1]) / sum(used[0]), "x in process")
    yield _figure("server.overhead", theirs / ours, "x in process", MOST_OVERHEAD, most=True)


async def _many(where: str) -> Iterator[dict[str, Any]]:
    """Throughput of one client and of 32, in rounds; then of repeats and of SELECT 1."""
    days = _days()

    async def fresh(con: Any, i: int) -> None:
        await con.execute(ONE_DAY.format(day=next(days)))

    async def repeat(con: Any, i: int) -> None:
        day = _calendar()[i % CLIENTS]
        await con.execute(ONE_DAY.format(day=day))

    async def one(con: Any, i: int) -> None:
        await con.execute("SELECT 1")

    async with contextlib.AsyncExitStack() as stack:
        clients = [await _client(stack, where, FRESH) for _ in range(CLIENTS)]
        readers = [await _client(stack, where) for _ in range(CLIENTS)]
        await _rate(readers, repeat, 2 * CLIENTS)  # recorded from now on
        rates: dict[str, list[float]] = {"one": [], "many": [], "repeats": [], "select": []}
        waited: list[float] = []
        for _ in range(ROUNDS):
            rates["one"].append((await _rate(clients[:1], fresh, ASKED // 8))[0])
            rate, seconds = await _rate(clients, fresh, ASKED)
            rates["many"].append(rate)
            waited += seconds
            rates["repeats"].append((await _rate(readers, repeat, REPEATED // ROUNDS))[0])
            rates["select"].append((await _rate(readers, one, REPEATED // ROUNDS))[0])
    middle = {name: statistics.median(each) for name, each in rates.items()}
    return iter(
        [
            _info("server.client_1", middle["one"], "answers/s"),
            _info("server.clients_32_rate", middle["many"], "answers/s"),
            _figure("server.clients_32", middle["many"] / middle["one"], "x one", LEAST_RATIO),
            _info("server.select_32", middle["select"], "SELECT 1/s"),
            _figure(
                "server.repeats_32",
                middle["repeats"] / middle["select"],
                "x SELECT 1",
                LEAST_REPEATS,
            ),
            _info("server.p50_32", statistics.median(waited) * 1e3, "ms"),
            _info("server.p99_32", statistics.quantiles(waited, n=100)[98] * 1e3, "ms"),
        ]
    )


async def _client(stack: contextlib.AsyncExitStack, where: str, options: str = "") -> Any:
    import psycopg

    return await stack.enter_async_context(
        await psycopg.AsyncConnection.connect(where, autocommit=True, options=options)
    )


async def _rate(clients: list[Any], ask: Ask, count: int) -> tuple[float, list[float]]:
    """Return questions a second, and the seconds of each."""
    numbers, waited = iter(range(count)), []

    async def work(con: Any) -> None:
        for i in numbers:
            started = time.perf_counter()
            await ask(con, i)
            waited.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(work(con) for con in clients))
    return count / (time.perf_counter() - started), waited


async def _memory(where: str, process: int) -> Iterator[dict[str, Any]]:
    """Yield the server's memory after queries and connections, against a tenth of them."""

    async def some(queries: int, connections: int) -> float:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await _client(stack, where) for _ in range(8)]

            async def look(con: Any, i: int) -> None:
                await con.execute(f"SELECT relname, {i} FROM pg_class WHERE relkind = 'r' LIMIT 5")

            await _rate(clients, look, queries)
        for _ in range(connections):
            async with contextlib.AsyncExitStack() as stack:
                await (await _client(stack, where)).execute("SELECT 1")
        return _resident(process)

    before = await some(REPEATED // 4, CONNECTIONS // 4)
    after = await some(REPEATED, CONNECTIONS)
    unit = f"MiB, over {REPEATED:,} more queries and {CONNECTIONS:,} connections"
    return iter([_figure("server.memory_growth", after - before, unit, MOST_GROWTH, most=True)])


def _used(process: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def _figure(
    name: str, figure: float, unit: str, limit: float, most: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "figure": figure,
        "unit": unit,
        "limit": f"{'<=' if most else '>='} {limit:g}",
        "ok": figure <= limit if most else figure >= limit,
    }
