"""Running a server: sockets first, then the store; SIGTERM ends it in a consistent state.

After SIGTERM or SIGINT no new question is accepted. Answers within `service.GRACE` seconds are made
durable and returned, other questions are cancelled, the store is closed, and the process ends with
code 0, within `LAST` seconds in any case: work that still runs then was not committed, and the
store is complete when it is opened again.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.base.extensions import LISTENERS, offers
from sparseq.base.whole_files import PRIVATE
from sparseq.server.audit import AuditLog
from sparseq.server.certificate import Certificate
from sparseq.server.fair_queue import stand_behind
from sparseq.server.http import connection_limits
from sparseq.server.http.app import application
from sparseq.server.http.request_log import with_request_ids
from sparseq.server.job import Job
from sparseq.server.job_file import read_jobs
from sparseq.server.jobs import Jobs
from sparseq.server.kept_jobs import KeptJobs
from sparseq.server.open_connections import AT_ONCE, ListeningSocket
from sparseq.server.operator_socket import control
from sparseq.server.saved_questions import SavedQuestions
from sparseq.server.service import READING_SECONDS, Service
from sparseq.server.tokens import Tokens
from sparseq.store.address import CONTROL, SERVED

if TYPE_CHECKING:
    from sparseq.server.service import Service

LAST = 9.5
"""Seconds after which a process that was told to stop ends."""
_ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]-]+")  # as browsers write it
_GRACE = 8  # seconds for writing answers once the server is stopping
LOG = logging.getLogger("sparseq.server")


@dataclass(frozen=True)
class Address:
    """The address to listen at. Port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse HOST:PORT.

        Example:
            >>> Address.parse("[::1]:80"), Address.parse("localhost:5432").loopback
            (Address(host='::1', port=80), True)
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdecimal():
            raise ParameterError(
                f"{text!r} is no address", ("write HOST:PORT, such as 127.0.0.1:8080")
            )
        if int(port[:6]) > 65535:
            raise ParameterError(f"port {port} is out of range", "up to 65535")
        return cls(host.strip("[]"), int(port))

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach it."""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def bound(self) -> ListeningSocket:
        """Return a socket that listens there.

        Raises:
            ParameterError: The address can't be used.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, proto=socket.IPPROTO_TCP)[0]
            listening = ListeningSocket(*found[:3])  # with its protocol, which asyncio checks
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(found[4])
            listening.listen()
            return listening
        except OSError as error:
            why = error.strerror or str(error)
            raise ParameterError(f"can't listen at {self.host}:{self.port}: {why}") from None


@dataclass(frozen=True)
class Serving:
    """The settings of a server of a store.

    Attributes:
        path: The path of the store.
        http, pg: The addresses to listen at; None: no such protocol.
        cert, key: Files of the certificate and its key, PEM; None: no TLS.
        backups: A folder for copies of the store that curators request.
        jobs: The file of jobs; None: no jobs.
        no_tls: True if a proxy in front provides TLS, so that other machines may connect without.
        url: The address for browsers, if a proxy in front uses another name.
        timeout: The time-out of a question until it is committed, in seconds; None: none.
        reading: The time that a question's rows may be read, in seconds; None: any.
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
    reading: float | None = READING_SECONDS

    def __post_init__(self) -> None:
        if self.url and not _ORIGIN.fullmatch(self.url):
            raise ParameterError(
                f"url is {self.url[:60]!r}",
                ("use https://HOST or https://HOST:PORT, and nothing after"),
            )

    def certificate(self) -> Certificate | None:
        """Return the certificate; None: there is no TLS.

        Raises:
            ParameterError: It can't be used; or there is none, and other machines can connect.
        """
        if self.cert is None:
            for address in (self.http, self.pg):
                if address is not None and not address.loopback and not self.no_tls:
                    raise ParameterError(
                        f"{address.host} can be reached from other machines, so it needs TLS",
                        "use --tls-cert FILE --tls-key FILE; or --no-tls if a proxy in front "
                        "provides it",
                    )
            return None
        return Certificate(self.cert, self.key)


async def serve(place: Serving, ready: Callable[[str], None] = lambda said: None) -> None:
    """Serve a store until SIGTERM or SIGINT.

    Args:
        place: The store, and the addresses.
        ready: Called with the addresses as text, once it listens.

    Raises:
        ParameterError: An address can't be used.
        StoreError: The store can't be opened.
    """
    certificate = place.certificate()
    if place.http is None and place.pg is None:
        raise ParameterError("no address is given", "use --http HOST:PORT, --pg HOST:PORT")
    if place.pg is not None and "pg" not in offers(LISTENERS):
        raise ParameterError(
            "this installation does not speak PostgreSQL's protocol", "leave --pg out"
        )
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
            reading=place.reading,
        )
        service.certificate = certificate
        try:
            said = where(sockets, certificate is not None)
            async with control(service) as door:
                stack.enter_context(_serve(path, said, door))
                ready(said)
                kept = KeptJobs.beside(path)
                stack.callback(kept.close)
                jobs = Jobs(wanted, service.operate, service.stopping, service.desk, kept)
                service.runs(jobs)
                await asyncio.gather(jobs.run(), _listen(service, sockets, place.url, stack))
        finally:
            await service.close()
            service.tokens.close()


async def _listen(
    service: Service,
    sockets: dict[str, ListeningSocket],
    url: str,
    stack: contextlib.ExitStack,
) -> None:
    loop, running = asyncio.get_running_loop(), []
    for listening in sockets.values():
        listening.connections = service.connections
    context = None
    if service.certificate is not None:
        context = service.certificate.context
        watch = asyncio.ensure_future(service.certificate.watch(service.stopping))
        stack.callback(watch.cancel)
        if sys.platform != "win32":
            loop.add_signal_handler(signal.SIGHUP, service.certificate.take)

    def stop() -> None:
        if not service.stopping.is_set():
            last = threading.Timer(LAST, _end)
            last.daemon = True
            last.start()
            stack.callback(last.cancel)  # it has ended by itself: its process may continue
        service.stop()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop)
    server = None
    if "http" in sockets:
        config = uvicorn.Config(
            with_request_ids(connection_limits.with_limits(application(service, url))),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
            backlog=AT_ONCE,
            lifespan="off",
            ws="none",
            http=partial(connection_limits.LimitedProtocol, service.connections),
            h11_max_incomplete_event_size=connection_limits.MOST_HEAD,
            timeout_keep_alive=connection_limits.KEEP_SECONDS,
        )
        config.load()
        config.ssl = context
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # they are shared with other code
        running.append(asyncio.ensure_future(server.serve([sockets["http"]])))
    if "pg" in sockets:
        listen = offers(LISTENERS)["pg"].load()
        running.append(asyncio.ensure_future(listen(service, sockets["pg"], context)))
    stopped = asyncio.ensure_future(service.stopping.wait())
    await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
    service.stop()
    if server is not None:
        server.should_exit = True
    for done in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done


def _end() -> None:
    """End the process after a signal, although work that can't be cancelled is still running."""
    LOG.warning("ended with work in progress that was not committed")
    os._exit(0)


def where(sockets: Mapping[str, socket.socket], tls: bool) -> str:
    """Return the addresses of a server as text."""
    places = []
    for name, listening in sockets.items():
        host, port = listening.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        scheme = "postgresql" if name == "pg" else "https" if tls else "http"
        places.append(f"{scheme}://{place}")
    return " ".join(places)


@contextlib.contextmanager
def _serve(path: Path, said: str, door: Path) -> Iterator[None]:
    """Write the server's addresses to a file in the store's folder, as long as it runs."""
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
