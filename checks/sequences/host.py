"""A store on disk that lives through steps, opened by the way that each step comes in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import numpy as np
import polars as pl
import pyarrow as pa
from click.testing import CliRunner
from pyarrow import csv

import sparseq
from checks.audit import wire
from checks.audit.neighbours import WITH, World
from checks.sequences.steps import Action
from sparseq import dbapi
from sparseq.cli.app import sparseq as command
from sparseq.pgwire import messages as m
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.pg_session import Session
from sparseq.pgwire.pg_settings import Settings
from sparseq.question.plan import Options
from sparseq.server.http.app import application
from sparseq.server.mcp import handle
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
from sparseq.store import curator
from sparseq.store.found_keys import Keys
from sparseq.store.store import Store
from sparseq.stream.batches import Request

PATIENCE = 20.0
"""Seconds of one step; longer is a finding."""
_CODES = frozenset(range(9)) | {130}
_OURS = (sparseq.SparseqError, dbapi.Error, dbapi.Warning)


class Broken(Exception):
    """A rule is broken; `kind` is the same for the same fault."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class Hung(BaseException):
    """A step took too long."""


class _Records(logging.Handler):
    """Keeps the server's log records with a traceback, which clients never see."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, sparseq.SparseqError):
            self.kept.append(error)


def fault(error: BaseException) -> Broken:
    """Return an unexpected error, named by the place where it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/sparseq/" in f.filename]
    at = frames[-1] if frames else None
    where = "" if at is None else f"{at.filename.rpartition('/sparseq/')[2]}:{at.name}"
    text = "".join(traceback.format_exception(error))
    return Broken(f"{type(error).__name__} in {where}", text[-3000:])


class Host:
    """One store, a folder around it, and its open connections.

    Args:
        world: The tables and declarations.
        folder: Empty; commands run in it.
        more: Further options of the store.
    """

    def __init__(self, world: World, folder: Path, more: dict[str, Any]) -> None:
        self.path, self.folder = folder / "s.sparseq", folder
        self.refused = False
        self._rows = {name: world.table(WITH, name) for name in ("t", "v")}
        self._con: Store | None = None
        self._runner = asyncio.Runner()
        self._service: Service | None = None
        self._catalogue: Catalogue | None = None
        self._records = _Records()
        logger = logging.getLogger("sparseq")
        logger.addHandler(self._records)
        logger.propagate = False
        world.create(self.path, **more).close()
        for name in ("rows.csv", "bad.csv"):
            plain = self._rows["v"].slice(0, 9)
            csv.write_csv(plain, folder / name)
        (folder / "bad.csv").write_bytes(b'who,pages\n1,"\xff\x00\n2,3,4\n')
        (folder / "log.sql").write_text("SELECT count(*) FROM t;\nSELECT nonsense;\n")
        self._last = self._state(self.store)

    # -- what is open ----------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The store, opened by Python."""
        self._unserve()
        if self._con is None:
            self._con = sparseq.connect(self.path)
        return self._con

    @property
    def service(self) -> Service:
        """The store, served."""
        if self._service is None:
            self.shut()
            self._service, self._client = self._runner.run(self._serve())
        return self._service

    async def _serve(self) -> tuple[Service, wire.Client]:
        tokens = Tokens(None)
        self.secret = tokens.create("ada", Role.CURATOR)
        service = Service(sparseq.connect(self.path), tokens, "s", backups=self.folder)
        self._catalogue = Catalogue(service.catalog, "s", service.public_rows)
        state, clients = State(Settings("ada")), list[wire.Client]()

        async def send(data: bytes) -> None:
            clients[0].sent += data

        look = self._catalogue.look("ada", state.settings)
        clients.append(wire.Client(Session(service, service.named("ada"), state, look, send)))
        return service, clients[0]

    def _unserve(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            self._runner.run(service.close())
            assert self._catalogue is not None
            self._catalogue.close()

    def shut(self) -> None:
        """Let nothing be open."""
        self._unserve()
        con, self._con = self._con, None
        if con is not None:
            con.close()

    def end(self) -> None:
        """Shut, and let go of all."""
        with contextlib.suppress(Exception):
            self.shut()
        self._runner.close()
        logging.getLogger("sparseq").removeHandler(self._records)

    # -- a step, and what holds after it ---------------------------------------------------------

    def do(self, step: Action) -> None:
        """Do a step, and check what always holds.

        Raises:
            Broken: A rule is broken.
        """
        self.refused = False
        try:
            with _patience(), contextlib.chdir(self.folder):
                getattr(self, f"_{step.way}")(step.name, *step.given)
        except _OURS:
            self.refused = True
        except Hung as error:
            where = fault(error)
            raise Broken(f"too long: {where.kind}", str(where)) from None
        except Broken:
            raise
        except Exception as error:
            raise fault(error) from None
        if self._records.kept:
            raise fault(self._records.kept[0])
        try:
            with _patience():
                self._check()
        except (Hung, sparseq.SparseqError) as error:
            raise Broken(f"afterwards: {fault(error).kind}", str(fault(error))) from None

    def _check(self) -> None:
        """Accounts never fall, nothing is paid without a release, and one more question works."""
        if self._service is not None:
            service = self._service
            state = self._runner.run(service.operate(self._state))
            self._runner.run(service.operate(self._ask))
            self._last, after = self._runner.run(service.operate(self._state)), self._last
        else:
            state = self._state(self.store)
            self._ask(self.store)
            self._last, after = self._state(self.store), self._last
        (spent, released), (before, releases) = state, after
        if np.any(spent[: len(before)] < before):
            raise Broken("an account fell", f"{before.tolist()} {spent.tolist()}")
        if released == releases and spent.sum() != before.sum():
            raise Broken("charged without a release", f"{spent.sum() - before.sum()} units")

    def _ask(self, store: Store) -> None:
        of_a_day = ""  # where people pay for all windows together, a question says from when
        if store.stream.ledger.lifetimes is not None:
            of_a_day = f" WHERE {store.catalog.table('t').time} = DATE '2024-01-01'"
        store.sql(f"SELECT count(*) AS n FROM t{of_a_day}")

    def _state(self, store: Store) -> tuple[np.typing.NDArray[np.int64], int]:
        with store.stream.held():
            parts = [accounts.spent for _, accounts in store.stream.pots.items()]
            return np.sum(parts, axis=0), store.released

    # -- Python ----------------------------------------------------------------------------------

    def _python(self, name: str, *given: Any) -> None:
        getattr(self, f"_py_{name}")(*given)

    def _py_sql(self, text: str, knobs: dict[str, Any]) -> None:
        self.store.sql(text, **knobs).rows()

    def _py_many(self, texts: tuple[str, ...]) -> None:
        queries = []
        for text in texts:
            with contextlib.suppress(sparseq.SparseqError):
                queries.append(Request(self.store.lower(text)))
        list(self.store.ask_many(queries))

    def _py_frame(self, seed: int, knobs: dict[str, Any]) -> None:
        rng = random.Random(seed)
        events = self.store.table(rng.choice(("t", "t", "v", "T", "nothing", "")))
        column = pl.col(rng.choice(("n", "k", "x", "s", "pages", "day", "who", "nothing")))
        value = rng.choice(
            (
                column,
                column.clip(0, 5),
                column + 1,
                column / 0,
                column.cast(pl.Int8),
                column.str.len_chars(),
                column.is_null(),
                column.sum(),
            )
        )
        asked = rng.choice((events.count, events.users, events.sum, events.mean))(value)
        if rng.random() < 0.3:
            edges = rng.choice(([0.0, 1.0, 5.0], [], [1.0, 0.0], [float("nan")], [1e308, 1e309]))
            asked = events.histogram(value, edges)
        if rng.random() < 0.3:
            asked = events.quantile(value, rng.choice((0.5, -1.0, 2.0, float("nan"))))
        if rng.random() < 0.5:
            key = rng.choice(("k", "s", "b", "nothing"))
            keys = rng.choice((None, [1, 2], ["a"], [], [None], [2**70]))
            asked = asked.by(key, keys)
        if rng.random() < 0.3:
            asked = asked.where(column > rng.choice((1, 0.5, "a", None)))
        asked.ask(**knobs)

    def _py_cursor(self, text: str, parameters: Any) -> None:
        cursor = dbapi.connect(self.store).cursor()
        cursor.execute(text, parameters)
        cursor.fetchmany(2)
        cursor.fetchall()

    def _py_explain(self, text: str) -> None:
        repr(self.store.explain(text))

    def _py_parameters(self, text: str, given: Any) -> None:
        self.store.sql(text, given)

    def _py_ingest(self, seed: int, table: Any) -> None:
        rng = random.Random(seed)
        rows = self._rows["v" if isinstance(table, str) and table == "v" else "t"]
        some = rows.slice(rng.randrange(len(rows)), rng.randrange(5))
        some = rng.choice(
            (
                some,
                some,
                some,
                some.to_pandas(),
                some.drop_columns(["day"]),
                "rows.csv",
                "bad.csv",
                "nowhere",
                pa.table({"a": [1]}),
            )
        )
        once = rng.choice((None, None, "a", "b"))
        since = rng.choice((None, None, None, np.datetime64("2024-01-05").item()))
        self.store.ingest(some, table, once=once, since=since)

    def _py_forget(self, who: Any) -> None:
        curator.forget(self.store, who)

    def _py_restart(self) -> None:
        self.store.sql("SELECT count(*) AS n FROM v")
        before = self._state(self.store)
        self.shut()
        after = self._state(self.store)
        if before[1] != after[1] or not np.array_equal(before[0], after[0]):
            raise Broken("a restart changed accounts", f"{before} {after}")

    def _py_kill(self) -> None:
        """Drop the store as a kill does: nothing is closed, and the file is opened again."""
        self.store.backend.abandon()
        self._con = None
        self.store.releases(1)

    def _py_discover(self, text: str) -> None:
        Keys(self.store).discover(text)

    def _py_contribute(self, seed: int, odd: Any) -> None:
        rng, who = random.Random(seed), self._rows["t"]["who"].to_pylist()
        rows = pa.table(
            {
                "user": rng.sample(who, 3),
                "coordinate": [0, 1, rng.choice((1, -1, 9))],
                "value": [1.0, rng.choice((float("nan"), 1e308, -2.0)), 3.0],
            }
        )
        given = odd if rng.random() < 0.3 else rows
        size = odd if rng.random() < 0.2 else 2
        self.store.contribute(given, coordinates=size, label=rng.choice(("demo", odd)))

    def _py_odd(self, seed: int, one: Any, two: Any) -> None:
        con, rng = self.store, random.Random(seed)
        calls: tuple[Callable[[], Any], ...] = (
            lambda: con.sql(one),
            lambda: con.sql("SELECT count(*) FROM t", one),
            lambda: con.lower(one),
            lambda: con.explain(one),
            lambda: con.table(one),
            lambda: con.release(one),
            lambda: con.releases(one, two),
            lambda: con.recorded(one),
            lambda: con.ingest(one, two),
            lambda: Options(sigma=one, confidence=two),
            lambda: con.sql("SELECT count(*) FROM t", request_id=one, fresh=two),
            lambda: curator.forget(con, one, two),
            lambda: curator.account(con, one),
            lambda: curator.exact_sql(con, one),
            lambda: curator.log(con, one),
            lambda: Keys(con).discover(one),
            lambda: con.count(one).ask(),
            lambda: con.sum(one).ask(),
            lambda: con.sum("n").by(one, two).ask(),
            lambda: con.table("t").quantile("x", one, two).ask(),
            lambda: con.table("t").histogram("x", one).ask(),
            lambda: sparseq.connect(one),
            lambda: sparseq.create(None, {"t": one}, user=two),
            lambda: con.contribute(one, coordinates=2, label="x", scale=two),
        )
        rng.choice(calls)()

    def _py_look(self, seed: int, number: Any) -> None:
        con, rng = self.store, random.Random(seed)
        calls: tuple[Callable[[], Any], ...] = (
            lambda: con.promise.facts(),
            lambda: con.releases(),
            lambda: con.releases(number),
            lambda: con.release(number).df(),
            lambda: repr(con.release(con.released)),
            lambda: curator.counts(con),
            lambda: curator.log(con),
            lambda: curator.spend(con),
            lambda: curator.top_spenders(con, number),
            lambda: curator.account(con, str(number)),
            lambda: curator.exact_sql(con, "SELECT count(*) FROM t"),
            lambda: con.requests_of([1]),
            lambda: Keys(con).list(),
            lambda: con.taken(),
        )
        rng.choice(calls)()

    # -- other ways ------------------------------------------------------------------------------

    def _cli(self, _: str, *given: str) -> None:
        self.shut()
        words = [str(self.path) if word == "{store}" else word for word in given]
        words = [w.encode("utf-8", "replace").decode().replace("\0", "") for w in words]
        before = dict(os.environ)
        result = CliRunner().invoke(command, words, input="")
        os.environ.clear()  # what an option says is for the process of one command
        os.environ.update(before)
        error = result.exception
        if error is not None and not isinstance(error, SystemExit):
            raise error
        if result.exit_code not in _CODES or "please report it" in result.output:
            raise Broken(f"{given[0]}: {result.output[-300:]}", result.output[-3000:])
        self.refused = bool(result.exit_code)

    def _http(self, _: str, method: str, path: str, data: bytes, headers: dict[str, str]) -> None:
        service = self.service
        given = {"authorization": f"Bearer {self.secret}", **headers}

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(application(service))
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, content=data, headers=given)

        reply = self._runner.run(ask())
        if reply.status_code >= 500 and reply.status_code != 503:
            raise Broken(f"{reply.status_code} {method} {path[:40]}", reply.text[:3000])
        self.refused = reply.status_code >= 400

    def _wire(self, name: str, *given: Any) -> None:
        _ = self.service
        sent = [m.SimpleQuery(given[0])] if name == "query" else list(given)
        replies = self._runner.run(self._client.take(sent))
        if b"XX000" in replies:
            raise Broken("XX000", repr(replies[-2000:]))
        self.refused = b"SERROR" in replies

    def _mcp(self, _: str, text: str) -> None:
        service = self.service
        response = self._runner.run(handle(service, service.named("ada"), text))
        self.refused = response is not None and ('"isError": true' in response)


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Stop what takes too long."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hung(f"longer than {PATIENCE:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
