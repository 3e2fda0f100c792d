"""Clients that are broken, slow, gone or malicious: the server lives, and others are answered."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from server.made import made
from server.running import Running, secret

import sparseq

pytest.importorskip("uvicorn")
PATHS = ("/v1/query", "/v1/explain", "/sign-in", "/ask", "/v1/ingest?name=a.csv")
COUNT = b'{"sql": "SELECT count(*) AS n FROM t"}'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    path = tmp_path_factory.mktemp("hostile") / "s.sparseq"
    made(path).close()
    running = Running(path)
    yield running, secret(path, "ada")
    running.kill()


def opened(running: Running) -> socket.socket:
    place = urlsplit(running.url)
    return socket.create_connection((place.hostname, place.port), timeout=300)


def request(token: str, body: bytes = COUNT, path: str = "/v1/query") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def mutated(draw: random.Random, data: bytes) -> bytes:
    """Bytes with a few changes: flipped, cut, doubled, or replaced by what has a meaning."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(found) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del found[at : at + draw.randint(1, 30)]
        elif kind == 2:
            found[at:at] = draw.choice([b"\r\n", b"\0", b"%", b'"', b"{", b"-1", b"\xff", b"'--"])
        elif kind == 3:
            found[at:at] = bytes(found[at : at + 20]) * draw.randint(1, 9)
        else:
            found[at : at + 3] = draw.randbytes(3)
    return bytes(found)


def fuzz(running: Running, token: str, number: int) -> None:
    draw = random.Random(1)
    statuses = set()
    for k in range(number):
        path = draw.choice(
            ["/v1/query", "/v1/explain", "/sign-in", "/ask", "/v1/ingest?name=a.csv"]
        )
        with opened(running) as client:
            client.sendall(mutated(draw, request(token, path=path)))
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while part := client.recv(65536):
                answer += part
        statuses.add(answer[9:12])
        assert b"Traceback" not in answer, k
    assert statuses >= {b"400", b"401"}
    assert b"500" not in statuses


def check_alive(running: Running, token: str) -> None:
    with sparseq.connect(running.url, token=token) as con:
        assert con.sql("SELECT count(*) AS n FROM t").facts.coordinates == 1


def test_mutated_requests(served: tuple[Running, str]) -> None:
    running, token = served
    fuzz(running, token, 300)
    check_alive(running, token)


@pytest.mark.deep
def test_many_mutated_requests(served: tuple[Running, str]) -> None:
    """Ten thousand in place of three hundred."""
    running, token = served
    fuzz(running, token, 10_000)
    check_alive(running, token)


def test_half_a_request_holds_nobody_up(served: tuple[Running, str]) -> None:
    running, token = served
    whole = request(token)
    clients = [opened(running) for _ in range(50)]
    for k, client in enumerate(clients):
        client.sendall(whole[: len(whole) * (k + 1) // 60])
    check_alive(running, token)
    for client in clients:
        client.close()


def test_who_does_not_read_holds_nobody_up(served: tuple[Running, str]) -> None:
    running, token = served
    big = b'{"sql": "SELECT x, count(*) AS n FROM t WHERE x BETWEEN 0 AND 1 GROUP BY x"}'
    clients = [opened(running) for _ in range(30)]
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.sendall(request(token, big))
    check_alive(running, token)
    for client in clients:
        client.close()
    check_alive(running, token)


def test_who_asks_and_goes_away_is_answered_or_was_not_asked(served: tuple[Running, str]) -> None:
    running, token = served
    with sparseq.connect(running.url, token=token) as con:
        before = con.released
        for k in range(10):
            with opened(running) as client:
                body = b'{"sql": "SELECT count(*) AS n FROM t WHERE x > %d"}' % k
                client.sendall(request(token, body))
        check_alive(running, token)
        assert before <= con.released <= before + 11


def test_heads_that_never_end_are_refused(served: tuple[Running, str]) -> None:
    running, token = served
    with opened(running) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000)
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    check_alive(running, token)
