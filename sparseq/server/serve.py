"""Running a server: sockets first, then the store; SIGTERM ends it with nothing half done.

On SIGTERM or SIGINT no new question is taken. What is answered within `service.GRACE` seconds is
made durable and answered, what isn't is cancelled, the store is closed, and the process ends with
code 0, within `LAST` seconds whatever runs: what then still runs was not committed, and the store
is whole when it is opened again.

Commands of the operator to a server on its machine, without a token: a backup.

A Unix socket in a folder that only the server's own user may enter; the file beside the store that
says where it is served says where the socket is. Whoever gets there may read the store's file too.
A request is one line of JSON, and so is its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import json
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

import sparseq
from sparseq.base.errors import ParameterError, SparseqError, StoreError
from sparseq.base.whole_files import PRIVATE
from sparseq.pgwire import serve_wire
from sparseq.server.audit import AuditLog
from sparseq.server.http import endpoints
from sparseq.server.http.app import application
from sparseq.server.jobs import Job, Jobs, KeptJobs, read_jobs
from sparseq.server.saved_questions import SavedQuestions
from sparseq.server.service import Service
from sparseq.server.thread import stand_behind
from sparseq.server.tokens import Tokens
from sparseq.store._duckdb.backup import Backup, backup
from sparseq.store.address import CONTROL, SERVED, served_at

if TYPE_CHECKING:
    from sparseq.server.service import Service

# -- commands of the operator to a server on its machine, without a token: a backup ----------------


@contextlib.asynccontextmanager
async def control(service: Service) -> AsyncIterator[Path]:
    """Listen as long as this lasts; yields where."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]  # by systemd
    folder = Path(tempfile.mkdtemp(prefix="sparseq-", dir=given or None))  # for its owner alone
    path = folder / "control"
    server = await asyncio.start_unix_server(partial(_answer, service), path)
    try:
        yield path
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _answer(
    service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError, ValueError, KeyError, TypeError):
        said = await _done(service, json.loads(await reader.readline()))
        writer.write(json.dumps(said).encode() + b"\n")
        await writer.drain()
    writer.close()


async def _done(service: Service, request: dict[str, Any]) -> dict[str, Any]:
    path = Path(str(request["backup"]))
    try:
        made = await service.operate(lambda store: backup(store, path))
    except SparseqError as error:
        return {"error": [error.message, error.hint]}
    told = partial(service.desk.tell, "backup", "", source="control", file=path.name)
    await service.write(told)
    return asdict(made)


def served_backup(store: Path, path: Path) -> Backup | None:
    """Have the server that serves a store write a backup; None: no server can be asked.

    Raises:
        StoreError: It did not.
    """
    where = [line.removeprefix(CONTROL) for line in served_at(store) if line.startswith(CONTROL)]
    if not where:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(where[0])
            asked.sendall(json.dumps({"backup": str(path.resolve())}).encode() + b"\n")
            with asked.makefile() as answer:
                said = json.loads(answer.readline())
    except (OSError, ValueError):
        raise StoreError(
            f"the server of {store} could not be asked for a backup",
            "run this as the user that the server runs as",
        ) from None
    if "error" in said:
        raise StoreError(*said["error"])
    return Backup(**said)


# -- running a server: sockets first, then the store; SIGTERM ends it with nothing half done -------

LAST = 9.5
"""Seconds after which the process ends that was told to stop."""
_ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]-]+")  # as browsers write it
_GRACE = 8  # seconds that answers may take to be written once the server is to stop
LOG = logging.getLogger("sparseq.server")


@dataclass(frozen=True)
class Address:
    """The place to listen at. Port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT.

        Example:
            >>> Address.parse("[::1]:80"), Address.parse("localhost:5432").loopback
            (Address(host='::1', port=80), True)
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdecimal():
            raise ParameterError(f"{text!r} is no address", "HOST:PORT, such as 127.0.0.1:8080")
        if int(port[:6]) > 65535:
            raise ParameterError(f"port {port} is out of range", "up to 65535")
        return cls(host.strip("[]"), int(port))

    @property
    def loopback(self) -> bool:
        """Only this machine can reach it."""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def bound(self) -> socket.socket:
        """Return a socket that listens there.

        Raises:
            ParameterError: Nobody can.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, proto=socket.IPPROTO_TCP)[0]
            listening = socket.socket(*found[:3])  # with its protocol: asyncio looks at that
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(found[4])
            listening.listen(512)
            return listening
        except OSError as error:
            why = error.strerror or str(error)
            raise ParameterError(f"can't listen at {self.host}:{self.port}: {why}") from None


@dataclass(frozen=True)
class Serving:
    """The settings of a server of a store.

    Attributes:
        path: Of the store.
        http, pg: Where to listen; None: not at all.
        cert, key: Files of the certificate and its key, PEM; None: no TLS.
        backups: A folder for copies of the store that curators ask for.
        jobs: A file that says what the server does by itself; None: nothing.
        no_tls: Something in front does it, so that other machines may come without.
        url: Where browsers find it, if something in front asks for it by another name.
        timeout: The most seconds that a question may take until it is committed; None: no limit.
    """

    path: Path
    http: Address | None = None
    pg: Address | None = None
    cert: Path | None = None
    key: Path | None = None
    no_tls: bool = False
    backups: Path | None = None
    jobs: Path | None = None
    url: str = ""
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.url and not _ORIGIN.fullmatch(self.url):
            raise ParameterError(
                f"url is {self.url[:60]!r}", "https://HOST or https://HOST:PORT, and nothing after"
            )

    def context(self) -> ssl.SSLContext | None:
        """Return TLS's settings.

        Raises:
            ParameterError: The files can't be read; or there are none, and others can connect.
        """
        if self.cert is None:
            for address in (self.http, self.pg):
                if address is not None and not address.loopback and not self.no_tls:
                    raise ParameterError(
                        f"{address.host} can be reached by others, so it needs TLS",
                        "--tls-cert FILE --tls-key FILE; or --no-tls if something in front does it",
                    )
            return None
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            made.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ParameterError(f"can't use the certificate {self.cert}: {error}") from None
        return made


async def serve(place: Serving, ready: Callable[[str], None] = lambda said: None) -> None:
    """Serve a store until SIGTERM or SIGINT.

    Args:
        place: What, and where.
        ready: Told in words where it listens, once it does.

    Raises:
        ParameterError: An address can't be listened at.
        StoreError: The store can't be opened.
    """
    context = place.context()
    if place.http is None and place.pg is None:
        raise ParameterError("there is nowhere to listen", "--http HOST:PORT, --pg HOST:PORT")
    wanted: list[Job] = []
    if place.jobs is not None:
        wanted = read_jobs(place.jobs)
    sockets = {k: a.bound() for k, a in (("http", place.http), ("pg", place.pg)) if a is not None}
    path = place.path
    with contextlib.ExitStack() as stack:
        for listening in sockets.values():
            stack.callback(listening.close)
        with ThreadPoolExecutor(1, initializer=stand_behind) as begun:  # so do the engine's threads
            store = begun.submit(sparseq.connect, path).result()
        service = Service(
            store,
            Tokens.beside(path),
            audit=AuditLog.beside(path),
            saved=SavedQuestions.beside(path),
            backups=place.backups,
            timeout=place.timeout,
        )
        try:
            said = where(sockets, context is not None)
            async with control(service) as door:
                stack.enter_context(_serve(path, said, door))
                ready(said)
                kept = KeptJobs.beside(path)
                stack.callback(kept.close)
                jobs = Jobs(wanted, service.operate, service.stopping, service.desk, kept)
                service.runs(jobs)
                await asyncio.gather(
                    jobs.run(), _listen(service, sockets, context, place.url, stack)
                )
        finally:
            await service.close()
            service.tokens.close()


async def _listen(
    service: Service,
    sockets: dict[str, socket.socket],
    context: ssl.SSLContext | None,
    url: str,
    stack: contextlib.ExitStack,
) -> None:
    loop, running = asyncio.get_running_loop(), []

    def stop() -> None:
        if not service.stopping.is_set():
            last = threading.Timer(LAST, _end)
            last.daemon = True
            last.start()
            stack.callback(last.cancel)  # it has ended by itself: its process may go on
        service.stop()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop)
    server = None
    if "http" in sockets:
        config = uvicorn.Config(
            endpoints.with_few_headers(application(service, url)),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
            limit_concurrency=2000,
            lifespan="off",
            ws="none",
            http=endpoints.LimitedProtocol,
            h11_max_incomplete_event_size=endpoints.MOST_HEAD,
            timeout_keep_alive=endpoints.KEEP_SECONDS,
        )
        config.load()
        config.ssl = context
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # they are not its own alone
        running.append(asyncio.ensure_future(server.serve([sockets["http"]])))
    if "pg" in sockets:
        running.append(asyncio.ensure_future(serve_wire(service, sockets["pg"], context)))
    stopped = asyncio.ensure_future(service.stopping.wait())
    await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
    service.stop()
    if server is not None:
        server.should_exit = True
    for done in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done


def _end() -> None:
    """End the process: it was told to stop, and something goes on that can't be cancelled."""
    LOG.warning("ended while something went on that was not committed")
    os._exit(0)


def where(sockets: dict[str, socket.socket], tls: bool) -> str:
    """Return in words where a server listens."""
    places = []
    for name, listening in sockets.items():
        host, port = listening.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        scheme = "postgresql" if name == "pg" else "https" if tls else "http"
        places.append(f"{scheme}://{place}")
    return " ".join(places)


@contextlib.contextmanager
def _serve(path: Path, said: str, door: Path) -> Iterator[None]:
    """Tell others where the store is served, in a file beside it, as long as it is."""
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    beside = path.with_name(path.name + SERVED)
    with contextlib.suppress(OSError):
        whose = f"{said} (process {os.getpid()}, since {since})"
        beside.touch(PRIVATE)
        beside.write_text(f"{whose}\n{CONTROL}{door}\n", "utf-8")
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
