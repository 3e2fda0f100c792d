"""Connections: so many in all and of one address, and nobody is shut out by those who only wait."""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.made import made
from server.running import ROOT, secret

from sparseq.server import open_connections
from sparseq.server.open_connections import RESERVE, OpenConnections, most_connections

pytest.importorskip("uvicorn")


class Fake:
    """A connection that is closed when it is shut down."""

    def __init__(self, file: int, closed: list[int]) -> None:
        self.file, self.closed = file, closed

    def fileno(self) -> int:
        return self.file

    def shutdown(self, _: int) -> None:
        self.closed.append(self.file)


def enters(connections: OpenConnections) -> tuple[Callable[[int, str], None], list[int]]:
    closed = list[int]()

    def enter(file: int, address: str) -> None:
        fake: Any = Fake(file, closed)
        connections.enter(fake, address)

    return enter, closed


def test_the_number_follows_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((1024, 824), (8192, 2000), (resource.RLIM_INFINITY, 2000), (100, 16)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert most_connections() == most


def test_who_waits_longest_at_the_address_with_most_is_closed() -> None:
    connections = OpenConnections(most=100, each=60)
    enter, closed = enters(connections)
    for file in range(60):
        enter(file, "eve")
    enter(60, "eve")
    assert closed == [0], "of one address"
    for file in range(61, 101):
        enter(file, "bob")
    assert len(connections) == 100
    enter(101, "carol")
    assert closed == [0, 1], "in all: of the address that has most"
    assert len(connections) == 100
    assert connections.closed == 2


def test_users_stay_and_there_is_room_for_others_beside_them() -> None:
    connections = OpenConnections(most=40, each=40)
    enter, closed = enters(connections)
    for file in range(40):
        enter(file, "ada")
        assert connections.hold(file)
    for file in range(40, 40 + 3 * RESERVE):
        enter(file, "bob")
    assert len(connections) == 40 + RESERVE
    assert closed == list(range(40, 40 + 2 * RESERVE)), "nobody who is a user"
    assert not connections.hold(40 + 2 * RESERVE), "users have all"
    connections.let_go(7)
    assert connections.hold(40 + 2 * RESERVE)
    connections.leave(7)
    connections.leave(7)
    assert len(connections) == 39 + RESERVE


def test_one_address_holds_so_many_at_most() -> None:
    connections = OpenConnections(most=40, each=3)
    enter, _ = enters(connections)
    for file in range(5):
        enter(file, "ada")
    assert [connections.hold(file) for file in range(5)] == [True, True, True, False, False]
    enter(9, "bob")
    assert connections.hold(9)


def healthz(url: str) -> bool:
    place = urlsplit(url)
    made = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
    made.request("GET", "/healthz")
    answer = made.getresponse()
    return bool(json.loads(answer.read())["ok"])


def test_two_thousand_idle_sockets_shut_nobody_out(tmp_path: Path) -> None:
    """With 400 files; all of one address, the one that asks how the server is."""
    path = tmp_path / "s.sparseq"
    made(path).close()
    token, files, idle = secret(path, "ada"), 400, 800
    command = [
        sys.executable,
        "-m",
        "sparseq",
        "serve",
        str(path),
        "--http",
        "127.0.0.1:0",
        "--pg",
        "127.0.0.1:0",
    ]
    server = subprocess.Popen(
        ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    urls = [word for word in server.stdout.readline().split() if "://" in word]
    held = list[socket.socket]()
    try:
        for i in range(idle):
            place = urlsplit(urls[i % 2])
            held.append(socket.create_connection((place.hostname, place.port), timeout=60))
            if i % 100 == 99:
                assert healthz(urls[0])
        open_files = len(os.listdir(f"/proc/{server.pid}/fd"))
        assert open_files < files
        place = urlsplit(urls[0])
        asked = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        sql = json.dumps({"sql": "SELECT count(*) AS n FROM t"})
        asked.request("POST", "/v1/query", sql, {"Authorization": f"Bearer {token}"})
        assert asked.getresponse().status == 200
    finally:
        for one in held:
            one.close()
        server.kill()
        server.wait()


def test_all_in_all_there_are_files_left() -> None:
    """Connections, those that are being closed for others, and the rest of the server's files."""
    accepted = 2 * open_connections.AT_ONCE  # by two protocols, before one of them is closed
    assert RESERVE + accepted < open_connections.OTHER_FILES - 64
