"""Mutated sessions: no crash, no hang, no charge without an answer."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from typing import Any

import pytest
from pgwire.wired import COUNT, Wire, catalogue, error, run, spent, wire

from sparseq.pgwire import messages as m
from sparseq.pgwire.connections import Server
from sparseq.pgwire.wire_errors import WireError
from sparseq.server.service import Service
from sparseq.store.store import Store

KINDS = "SELECT kind, count(*) AS n FROM purchases WHERE quantity < $1 GROUP BY kind"
SESSIONS: list[list[m.Message]] = [
    [m.SimpleQuery(COUNT)],
    [m.SimpleQuery("BEGIN; SELECT 1; COMMIT"), m.SimpleQuery("SELECT * FROM purchases LIMIT 3")],
    [
        m.Parse("", KINDS, (23,)),
        m.Bind("", "", (1,), (b"\0\0\0\3",), (1,)),
        m.Describe("P", ""),
        m.Execute("", 1),
        m.Execute("", 0),
        m.Sync(),
    ],
    [
        m.Parse("s", KINDS),
        m.Describe("S", "s"),
        m.Bind("p", "s", (), (b"2",)),
        m.Flush(),
        m.Close("P", "p"),
        m.Close("S", "s"),
        m.Sync(),
        m.Terminate(),
    ],
    [
        m.SimpleQuery(f"BEGIN; DECLARE c CURSOR FOR {COUNT}"),
        m.SimpleQuery("FETCH 1 FROM c; CLOSE c"),
    ],
    [m.SimpleQuery(f"COPY ({COUNT}) TO STDOUT (FORMAT csv, HEADER)"), m.Copy("d", b"1\n")],
    [
        m.SimpleQuery("SET statement_timeout = 0; SHOW ALL"),
        m.SimpleQuery("PREPARE a (int) AS SELECT $1; EXECUTE a (1)"),
    ],
    [m.SimpleQuery("SELECT oid::regclass, relkind FROM pg_class WHERE relname ~ '^p' ORDER BY 1")],
    [m.SimpleQuery("EXPLAIN SELECT count(*) FROM purchases"), m.FunctionCall(b"\0" * 6), m.Sync()],
    [
        m.Parse("", "SELECT $1::text, $2::int8[]"),
        m.Bind("", "", (0, 1), (b"a", b"\0" * 12)),
        m.Execute(""),
        m.Sync(),
        m.SimpleQuery("SELECT release FROM released.releases"),
    ],
]
WORDS = [
    b"\0",
    b"\xff",
    b"'",
    b'"',
    b"$1",
    b"(",
    b")",
    b";",
    b"--",
    b"/*",
    b"$$",
    b"NULL",
    b"\xc3(",
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with some of them changed, cut out, put in or said twice."""
    raw = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(raw) + 1)
        match rng.randrange(5):
            case 0 if at < len(raw):
                raw[at] = rng.randrange(256)
            case 1:
                raw[at:at] = rng.choice(WORDS)
            case 2:
                del raw[at : at + rng.randrange(1, 9)]
            case 3:
                raw[at:at] = raw[at : at + rng.randrange(1, 40)]
            case _ if at + 2 < len(raw):
                raw[at], raw[at + 1] = raw[at + 1], raw[at]
    return bytes(raw)


async def play(client: Wire, data: bytes) -> None:
    """Feed bytes to a session as a connection does."""
    frames = m.Frames()
    frames.most = m.MOST_AFTER
    frames.feed(data)
    while not client.session.over:
        try:
            for message in frames.messages():
                await client.session.take(message)
                if client.session.over:
                    return
            return
        except WireError as error:
            await client.session.broken(error)


def mutate(rng: random.Random) -> bytes:
    """Return the bytes of a session, mutated as a whole or in its messages."""
    messages = list(rng.choice(SESSIONS))
    if rng.random() < 0.3:
        rng.shuffle(messages)
    whole = b"".join(map(m.write_message, messages))
    if rng.random() < 0.4:
        return mutated(rng, whole)
    parts = []
    for message in messages:  # lengths stay right, so that what is inside is reached
        raw = m.write_message(message)
        parts.append(m.frame(raw[:1], mutated(rng, raw[5:])))
    return b"".join(parts)


def fuzz(seed: int, sessions: int) -> None:
    rng = random.Random(seed)

    async def test(first: Wire, store: Store) -> None:
        answers = 0
        for _ in range(sessions):
            client = wire(first.service)
            before, releases = spent(store), store.released
            await asyncio.wait_for(play(client, mutate(rng)), 300)
            replies = client.replies()
            assert error(replies).get("C") != "XX000", replies
            if store.released == releases:
                assert spent(store) == before
            for number in range(releases + 1, store.released + 1):
                assert len(store.release(number)) >= 0
                answers += 1
        assert answers > 0

    run(test)


def test_some_mutated_sessions() -> None:
    fuzz(1, 300)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_mutated_sessions(seed: int) -> None:
    """As above, 10 times 1,000 with other mutations."""
    fuzz(100 + seed, 1_000)


class Writer:
    """A transport that takes all, and has neither TLS nor an address."""

    def __init__(self) -> None:
        self.sent, self.closed = bytearray(), False

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def get_extra_info(self, name: str) -> Any:
        return None

    def close(self) -> None:
        self.closed = True


def starts(seed: int, connections: int) -> None:
    rng = random.Random(seed)
    first = b"SCRAM-SHA-256\0\0\0\0\x0an,,n=,r=ab"
    whole = [
        m.write_packet(m.TlsRequest()),
        m.write_packet(m.Startup({"user": "ada", "database": "shop", "options": "-c a=b"})),
        m.write_message(m.Sasl(first)),
        m.write_message(m.Sasl(b"c=biws,r=ab,p=AAAA")),
        m.write_message(m.SimpleQuery(COUNT)),
    ]

    async def test(client: Wire, store: Store) -> None:
        service: Service = client.service
        server = Server(service, catalogue(service), None)
        for _ in range(connections):
            reader, writer = asyncio.StreamReader(), Writer()
            parts = [part for part in whole if rng.random() < 0.8]
            reader.feed_data(mutated(rng, b"".join(parts)))
            reader.feed_eof()
            await asyncio.wait_for(server.connected(reader, writer), 300)  # type: ignore[arg-type]
            assert writer.closed
            assert b"Z\0\0\0\5" not in writer.sent  # nobody got in
        assert (server._tasks, server.sessions, store.released) == ({}, {}, 0)

    run(test)


def test_some_mutated_starts() -> None:
    starts(2, 200)


@pytest.mark.deep
def test_ten_thousand_mutated_starts() -> None:
    """As above, 10,000 of them, and memory stays as it is."""
    starts(3, 1_000)
    tracemalloc.start()
    starts(4, 4_500)
    before, _ = tracemalloc.get_traced_memory()
    starts(5, 4_500)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2_000_000
