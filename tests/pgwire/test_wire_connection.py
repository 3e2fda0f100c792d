"""Connections: signing in, TLS, what is too large, cancelling, leaving, stopping."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pgwire.wired import COUNT, Address, fields, served

from sparseq.pgwire import messages as m
from sparseq.server.audit import AuditLog
from sparseq.server.wrong_tokens import MOST_WRONG, Door


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served() as address:
        yield address


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            key,
            "-out",
            cert,
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1,DNS:localhost",
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


class Raw:
    """A client that sends bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=300)

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def read(self, count: int) -> bytes:
        found = b""
        while len(found) < count and (more := self.socket.recv(count - len(found))):
            found += more
        return found

    def message(self) -> tuple[bytes, bytes]:
        head = self.read(5)
        return head[:1], self.read(int.from_bytes(head[1:], "big") - 4) if head else b""

    def startup(self, user: str, database: str = "shop", minor: int = 0, **more: str) -> None:
        self.send(m.write_packet(m.Startup({"user": user, "database": database, **more}, minor)))

    def sasl(self) -> bytes:
        """Begin SCRAM; return the server's first message."""
        first = b"n,,n=,r=abcdefghijklmnop"
        self.send(
            m.write_message(m.Sasl(b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        )
        kind, body = self.message()
        assert (kind, body[:4]) == (b"R", struct.pack("!i", 11))
        return body[4:]


def test_an_unknown_name_goes_the_same_way_as_a_wrong_token(at: Address) -> None:
    said = []
    for user in ("ada", "nobody", "nobody"):
        raw = Raw(at.port)
        raw.startup(user)
        kind, offer = raw.message()
        first = raw.sasl()
        nonce = first.split(b",")[0]
        raw.send(m.write_message(m.Sasl(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")))
        failed, body = raw.message()
        told = fields(body)
        said.append((kind, offer, len(first), failed, told["C"], told["M"].replace(user, "")))
        salt = first.split(b",")[1]
    assert said[0] == said[1] == said[2]
    raw = Raw(at.port)
    raw.startup("nobody")
    raw.message()
    assert raw.sasl().split(b",")[1] == salt  # a salt that changes would tell


def test_wrong_tokens_of_an_address_are_counted_for_all_protocols_and_a_right_one_comes_in(
    at: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    audit = AuditLog(None)
    monkeypatch.setattr(at.service, "door", Door(audit))
    for _ in range(MOST_WRONG - 1):
        at.service.door.wrong("http", "127.0.0.1")
    for said in ("password authentication failed", "too many wrong tokens from this address"):
        with pytest.raises(psycopg.OperationalError, match=said):
            psycopg.connect(at.url.replace(at.token, "sq_wrong"))
    psycopg.connect(at.url).close()
    assert [line["source"] for line in audit.lines()] == ["http 127.0.0.1", "postgresql 127.0.0.1"]


def test_psycopg_with_a_wrong_token_is_refused(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(at.url.replace(at.token, "sq_wrong"))
    with pytest.raises(psycopg.OperationalError, match='database "postgres" does not exist'):
        psycopg.connect(at.url.replace("/shop", "/postgres"))


def test_what_was_heard_does_not_sign_in_again(at: Address) -> None:
    raw = Raw(at.port)
    raw.startup("ada")
    raw.message()
    heard = raw.sasl()
    other = Raw(at.port)
    other.startup("ada")
    other.message()
    other.sasl()
    nonce = heard.split(b",")[0]
    other.send(m.write_message(m.Sasl(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")))
    kind, body = other.message()
    assert (kind, fields(body)["C"]) == (b"E", "08P01")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 20,
        struct.pack("!ii", 100_000, 3 << 16),
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 3, 0),
        struct.pack("!ii", 9, 3 << 16) + b"x",
        m.write_packet(m.Startup({"user": "ada"})) + m.write_message(m.SimpleQuery("SELECT 1")),
    ],
)
def test_what_makes_no_sense_at_the_start_ends_the_connection(at: Address, data: bytes) -> None:
    raw = Raw(at.port)
    raw.send(data)
    told = raw.read(10_000)
    assert b"FATAL" in told
    assert b"SELECT" not in told


def test_requests_for_encryption_and_newer_protocols(at: Address) -> None:
    raw = Raw(at.port)
    raw.send(m.write_packet(m.GssRequest()))
    assert raw.read(1) == b"N"
    raw.send(m.write_packet(m.TlsRequest()))
    assert raw.read(1) == b"N"
    raw.startup("ada", minor=2, **{"_pq_.colour": "red"})
    kind, body = raw.message()
    assert (kind, body) == (b"v", struct.pack("!ii", 0, 1) + b"_pq_.colour\0")
    assert raw.message()[0] == b"R"


def test_a_message_too_large_ends_the_connection(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(at.url, autocommit=True) as con:
        with pytest.raises(psycopg.OperationalError, match="taken"):
            con.execute("SELECT '" + "x" * m.MOST_AFTER + "'")
        assert con.closed


def test_settings_of_the_startup(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    options = "-c statement_timeout=5s -c sparseq.precision=2%"
    with psycopg.connect(at.url, options=options, application_name="test") as con:
        found = [
            con.execute(f"SHOW {n}").fetchone() for n in ("statement_timeout", "sparseq.precision")
        ]
        assert found == [("5000ms",), ("2%",)]
        assert con.info.parameter_status("application_name") == "test"
        con.execute("RESET ALL")
        assert con.execute("SHOW statement_timeout").fetchone() == ("5000ms",)


def test_tls(certificate: tuple[Path, Path]) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with served(context) as at:
        where = f"{at.url}?sslmode=verify-full&sslrootcert={certificate[0]}"
        with psycopg.connect(where) as con:
            assert con.pgconn.ssl_in_use
            assert con.execute(COUNT).fetchone()[0] == at.store.release(1).rows()[0]["n"]
        with pytest.raises(psycopg.OperationalError, match="accepts only TLS"):
            psycopg.connect(f"{at.url}?sslmode=disable")
        with pytest.raises(psycopg.OperationalError, match="channel binding"):
            psycopg.connect(f"{where}&channel_binding=require")
        raw = Raw(at.port)  # bytes stuffed in before TLS is there
        raw.send(m.write_packet(m.TlsRequest()), m.write_packet(m.Startup({"user": "ada"})))
        assert b"FATAL" in raw.read(1_000)


def test_a_client_cancels_what_waits(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    before, busy, begun = at.store.released, threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        begun.set()
        busy.wait(30)

    who = at.service.named("ada")
    with psycopg.connect(at.url, autocommit=True) as con:
        told: list[BaseException] = []

        def ask() -> None:
            try:
                con.execute(COUNT)
            except psycopg.Error as error:
                told.append(error)

        held = asyncio.run_coroutine_threadsafe(at.service.call(who, hold), at.loop)
        begun.wait(30)
        asking = threading.Thread(target=ask)
        asking.start()
        while at.service.waiting < 1:
            pass
        con.cancel_safe()
        asking.join(30)
        busy.set()
        held.result(30)
        assert isinstance(told[0], psycopg.errors.QueryCanceled)
        assert con.execute("SELECT 1").fetchone() == (1,)
    assert at.store.released == before


def test_a_wrong_secret_cancels_nothing(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(at.url, autocommit=True) as con:
        Raw(at.port).send(m.write_packet(m.Cancel(con.pgconn.backend_pid, 1)))
        assert con.execute(COUNT).fetchone() is not None


def test_what_stops_answers_what_runs_and_says_so() -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with served() as at:
        con = psycopg.connect(at.url, autocommit=True)
        con.execute(COUNT)
    with pytest.raises(psycopg.OperationalError, match="stopping"):
        con.execute(COUNT)


def test_a_client_that_goes_away_before_its_turn_has_not_asked(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    before, busy, begun = at.store.released, threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        begun.set()
        busy.wait(30)

    who = at.service.named("ada")
    held = asyncio.run_coroutine_threadsafe(at.service.call(who, hold), at.loop)
    begun.wait(30)
    con = psycopg.connect(at.url, autocommit=True)
    con.pgconn.send_query(f"{COUNT} WHERE amount < 17".encode())
    con.pgconn.flush()
    while at.service.waiting < 1:
        pass
    con.pgconn.finish()
    left = psycopg.connect(at.url, autocommit=True)
    for _ in range(5):  # what happened before is seen before these are answered
        left.execute("SELECT 1")
    busy.set()
    held.result(30)
    left.execute(f"{COUNT} WHERE amount < 18")
    assert at.store.released == before + 1
    assert "< 18" in at.store.release(before + 1).facts.query
    left.close()


def test_a_slow_reader_holds_nobody_up(at: Address) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    slow = psycopg.connect(at.url, autocommit=True)
    slow.pgconn.send_query(b"SELECT a.attname FROM pg_attribute a, pg_am b, pg_am c")
    slow.pgconn.flush()  # and reads nothing
    with psycopg.connect(at.url, autocommit=True) as con:
        assert con.execute(f"{COUNT} WHERE amount < 19").fetchone() is not None
    slow.close()
