"""A life of a store that is driven from outside, and its history.

Every part is a process of its own, started by its command: `sparseq serve`, `sparseq sql`, `sparseq
backup`. Clients speak HTTP and PostgreSQL's protocol. While they ask and a curator brings rows,
servers are killed, older copies are put back, and second drivers try to come in; of a lake there
are two servers. What each client sent and got is written down as it happens.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

ROOT = Path(__file__).parent.parent.parent
DAYS = range(1, 6)
FEW, MANY, KAPPA = 24, 160, 8.0
"""People who are in or out, or weighted: of a few dozen, pilots know too little."""
ANSWERS, IN_OR_OUT = "answers=240", "in-or-out,counts=1500"
QUOTA, COMMON, SPARE = 6, 6, 15
MOST_SECONDS = 240.0
"""Seconds that clients may go without answers, on a machine that does much else."""
SPARSEQ = (sys.executable, "-m", "sparseq")
COLUMNS = {"who": "BIGINT", "day": "BIGINT", "x": "DOUBLE"}
Row = tuple[int, int, float]


class Book:
    """The history, a line at once; from any thread."""

    def __init__(self, path: Path) -> None:
        self._file, self._lock, self._ops = path.open("w", encoding="utf-8"), threading.Lock(), 0

    def note(self, what: str, **facts: Any) -> None:
        """Write a line."""
        with self._lock:
            line = {"at": time.monotonic(), "what": what} | facts
            self._file.write(json.dumps(line, default=float) + "\n")
            self._file.flush()

    def begin(self, what: str, **facts: Any) -> int:
        """Write that something is sent; return its number."""
        with self._lock:
            self._ops += 1
            number = self._ops
        self.note(what, op=number, **facts)
        return number

    def close(self) -> None:
        """Write no more."""
        self._file.close()


# -- questions -------------------------------------------------------------------------------------


def question(draw: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """Return a question, and its measures as plain DuckDB counts them, person by person."""
    day, low = draw.choice(DAYS), draw.randrange(1, 6)
    where = draw.choice([f"day <= {day}", f"x > {low}", f"day = {day} AND x < {low + 1}"])
    of = f"FROM t WHERE {where}"
    kind = draw.randrange(5)
    if kind == 0:
        return f"SELECT count(*) AS n {of}", [part("n", "count(*)", of)]
    if kind == 1:
        return f"SELECT sum(x) AS s {of}", [part("s", "sum(x)", of)]
    if kind == 2:
        return f"SELECT count(DISTINCT who) AS p {of}", [part("p", "1", of)]
    if kind == 3:
        both = [part("s", "sum(x)", of), part("n", "count(*)", of)]
        return f"SELECT sum(x) AS s, count(*) AS n {of}", both
    asked = f"SELECT day, sum(x) AS s {of} GROUP BY day"
    return asked, [part("s", "sum(x)", of, "day")]


def part(column: str, value: str, of: str, *keys: str) -> dict[str, Any]:
    """Return a measure: see `check.Part`."""
    by = ", ".join(("who", *keys))
    return {
        "column": column,
        "keys": keys,
        "each": f"SELECT {by}, {value} {of} GROUP BY {by}",
    }


def some_rows(draw: random.Random, people: Sequence[int], number: int) -> list[Row]:
    """Return rows whose values are whole multiples of 1/1024: sums of them are exact."""
    return [
        (draw.choice(people), draw.choice(DAYS), draw.randrange(1, 7 * 1024) / 1024)
        for _ in range(number)
    ]


# -- processes -------------------------------------------------------------------------------------


def command(*words: str, program: Sequence[str] = SPARSEQ) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*program, *words], capture_output=True, text=True, env=_environment(), check=False,
        timeout=MOST_SECONDS,
    )  # fmt: skip


def told(*words: str) -> str:
    """Return what a command that must succeed prints."""
    done = command(*words)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


class Silent(RuntimeError):
    """Nobody serves the store, or answers, any more."""


class Server:
    """A server of a store; `url` and `pg` are "" while nobody serves."""

    def __init__(self, store: str, program: Sequence[str], log: Path) -> None:
        self._command = [
            *program, "serve", store, "--http", "127.0.0.1:0", "--pg", "127.0.0.1:0",
        ]  # fmt: skip
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self.url = self.pg = ""

    def start(self) -> bool:
        """Begin; tell whether it serves."""
        with self._log.open("a") as log:
            process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment()
            )
        assert process.stdout is not None
        places = re.findall(r"\w+://[\d.:]+", process.stdout.readline().partition(" at ")[2])
        if len(places) != 2:
            process.wait(MOST_SECONDS)
            return False
        self._process, (self.url, self.pg) = process, places
        return True

    def end(self, how: signal.Signals) -> None:
        """End it, with SIGTERM or SIGKILL."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(MOST_SECONDS)
            self._process, self.url, self.pg = None, "", ""


# -- clients ---------------------------------------------------------------------------------------


class Refused(Exception):
    """The server said that nothing was answered; `why` is its word."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


LOST = (OSError, http.client.HTTPException, psycopg.OperationalError, TimeoutError)
"""Nobody can tell whether it was answered."""


def post(url: str, path: str, token: str, body: bytes, **headers: str) -> dict[str, Any]:
    """Send a request, and return its answer.

    Raises:
        Refused: Nothing was done.
        OSError, http.client.HTTPException: Nobody can tell.
    """
    place = urlsplit(url)
    con = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        con.request("POST", path, body, {"Authorization": f"Bearer {token}"} | headers)
        reply = con.getresponse()
        said = json.loads(reply.read())
    except ValueError as error:
        raise http.client.HTTPException(str(error)) from None
    finally:
        con.close()
    if reply.status >= 400:
        error = said["error"]
        if error["charged"] is False:
            raise Refused(error["type"] + ": " + error["message"])
        raise http.client.HTTPException(error["message"])
    return dict(said)


@dataclass
class Client:
    """Somebody who asks, by one way.

    Attributes:
        name, token: Whose.
        way: "http" or "pg".
        fresh: Most questions have no name; else all have one.
    """

    name: str
    token: str
    way: str
    draw: random.Random
    number: int = 0

    def next(self) -> dict[str, Any]:
        """Return what to ask next."""
        named = self.way == "pg" or self.name == "quota" or self.draw.random() < 0.5
        common = random.Random(self.draw.randrange(COMMON))  # asked again and again
        sql, parts = question(self.draw if named else common)
        fresh = not named and self.draw.random() < 0.3
        request = None
        if named:
            self.number += 1
            request = f"client/{self.name}/{self.number}"
        return {"name": self.name, "way": self.way, "sql": sql, "parts": parts,
                "request": request, "fresh": fresh}  # fmt: skip

    def ask(self, server: Server, asked: dict[str, Any]) -> dict[str, Any]:
        """Ask, and return what a history has of the answer; raises `Refused`, or one of `LOST`."""
        id = (asked["request"] or "").rpartition("/")[2]
        return (self._pg if self.way == "pg" else self._http)(server, asked, id)

    def _http(self, server: Server, asked: dict[str, Any], id: str) -> dict[str, Any]:
        body = json.dumps({"sql": asked["sql"], "fresh": asked["fresh"]}).encode()
        named = {"Idempotency-Key": id} if id else {}
        said = post(server.url, "/v1/query", self.token, body, **named)
        return {"release": said["release"], "repeat": said["repeat"], "rows": said["rows"],
                "follows": said.get("follows", False)}  # fmt: skip

    def _pg(self, server: Server, asked: dict[str, Any], id: str) -> dict[str, Any]:
        place = server.pg.replace("://", f"://{self.name}:{self.token}@") + "/s"
        try:
            with psycopg.connect(place, autocommit=True, connect_timeout=20) as con:
                notices: list[str] = []
                con.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
                con.execute(f"SET sparseq.request_id = '{id}'")
                found = con.execute(asked["sql"])
                names = [column.name for column in found.description or ()]
                rows = [dict(zip(names, map(_number, row), strict=True)) for row in found]
        except psycopg.Error as error:
            if error.sqlstate and error.sqlstate[:2] not in ("40", "57", "08", "XX"):
                raise Refused("quota" if error.sqlstate == "53400" else str(error)) from None
            raise OSError(str(error)) from None
        again = [int(m[1]) for text in notices if (m := re.match(r"release (\d+) again", text))]
        return {"release": again[0] if again else None, "repeat": bool(again), "rows": rows,
                "follows": False}  # fmt: skip


def _number(value: Any) -> float | None:
    """Return a number of an answer; None: the group of those without a key."""
    return None if value is None else float(value)


# -- a life ----------------------------------------------------------------------------------------


@dataclass
class Life:
    """One store, its servers and clients, and what happens to them.

    Attributes:
        folder: An empty one.
        seed: Of what is asked and when what happens; noise is the system's.
        lake: Two servers of a lake, in place of one of a file.
        weighted: People are weighted; else they are in or out.
        program: What serves.
        events: Those that happen: "copy", "second", "put_back", "kill", "nothing"; (): all
            but the last, in an order by chance; of a lake four kills.
    """

    folder: Path
    seed: int
    _: KW_ONLY
    lake: bool = False
    weighted: bool = False
    program: Sequence[str] = SPARSEQ
    events: Sequence[str] = ()
    patience: float = MOST_SECONDS
    stop: threading.Event = field(default_factory=threading.Event)
    wrong: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.book = Book(self.folder / "history.jsonl")
        self.path = self.folder / "s"
        self.store = f"lake://{self.path}" if self.lake else str(self.path)
        self.copies: list[Path] = []
        self.people = range(MANY if self.weighted else FEW)
        self.driven = self.answers = self.most = 0

    def live(self) -> tuple[Path, Path]:
        """Live; return the history and the export.

        Raises:
            Silent: Nobody answers, though the store opens.
        """
        self._make()
        self.servers = [
            Server(self.store, self.program, self.folder / f"server{i}.log")
            for i in range(2 if self.lake else 1)
        ]
        threads, silent = [threading.Thread(target=self._brings)], None
        try:
            for server in self.servers:
                if not server.start():
                    raise Silent(f"nobody serves: see {self.folder}")
            threads += [threading.Thread(target=self._asks, args=(c,)) for c in self._clients()]
            for thread in threads:
                thread.start()
            for event in self.events or self._chance():
                self._wait(self.draw.randrange(5, 25))
                self._happens(event)
            self._wait(20)
        except Silent as error:
            silent = error
        finally:
            self.stop.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
            for server in self.servers:
                server.end(signal.SIGTERM)
            self.book.close()
        if self.wrong:
            raise self.wrong[0]
        export = self._export()
        if silent is not None and not _cannot_be_opened(export):
            raise silent
        return self.folder / "history.jsonl", export

    def _make(self) -> None:
        rows = [(who, day, float(1 + (who + day) % 6)) for who in self.people for day in DAYS[:3]]
        rows += some_rows(self.draw, self.people, 40)
        self._write(self.folder / "first.csv", rows)
        number = self.book.begin("bring", rows=rows, columns=COLUMNS)
        told(
            "create", self.store, str(self.folder / "first.csv"), "--table", "t", "--user", "who",
            "--kappa", str(KAPPA), "--for", f"questions,{ANSWERS if self.weighted else IN_OR_OUT}",
            "--keys", "day=" + ",".join(map(str, DAYS)), "--bounds", "x=0..7",
            "--type", "x=DOUBLE", *(("--buckets", "3") if self.lake else ()),
        )  # fmt: skip
        self.book.note("brought", op=number)
        whole = json.loads(told("budget", self.store, "--format", "json"))["norm_budget"]
        self.book.note("promise", kappa=KAPPA, norm_budget=whole, quotas={"quota": QUOTA})
        made = told("token", "create", self.store, "--name", "curator", "--role", "curator")
        self.curator = made.split()[0]
        if not self.lake:
            told("mark", self.store, str(self.folder / "mark"))

    def _write(self, path: Path, rows: Sequence[Row]) -> None:
        lines = ["who,day,x", *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines) + "\n")

    def _clients(self) -> list[Client]:
        ways = {"ada": "http", "ben": "http", "cleo": "pg", "dan": "pg", "quota": "http"}
        made = []
        for name, way in ways.items():
            wanted = {"name": name, "quota": f"{QUOTA}/day" if name == "quota" else ""}
            token = post(
                self.servers[0].url, "/v1/tokens", self.curator, json.dumps(wanted).encode()
            )["token"]
            made.append(Client(name, token, way, random.Random(f"{self.seed} {name}")))
        return made

    def _server(self, draw: random.Random) -> Server | None:
        serving = [server for server in self.servers if server.url]
        return draw.choice(serving) if serving else None

    def _running(self, work: Callable[[], None]) -> None:
        try:
            while not self.stop.is_set():
                work()
        except BaseException as error:
            self.wrong.append(error)
            self.stop.set()

    def _asks(self, client: Client) -> None:
        again: list[dict[str, Any]] = []

        def work() -> None:
            time.sleep(client.draw.uniform(0.02, 0.25))
            if self.answers >= self.most:
                return
            asked = again.pop() if again else client.next()
            server = self._server(client.draw)
            if server is None:
                again.append(asked)
                time.sleep(0.05)
                return
            number = self.book.begin("ask", **asked)
            try:
                self.book.note("answer", op=number, **client.ask(server, asked))
                self.answers += 1
                if asked["request"] and client.draw.random() < 0.1:
                    again.append(asked)  # its name stands for the answer
            except Refused as refused:
                self.book.note("refusal", op=number, why=refused.why.partition(":")[0])
                time.sleep(0.3)
            except LOST as error:
                self.book.note("lost", op=number, error=str(error)[:200])
                if asked["request"]:
                    again.append(asked)
                time.sleep(0.05)

        self._running(work)

    def _brings(self) -> None:
        draw, people = random.Random(f"{self.seed} rows"), list(self.people)

        def work() -> None:
            self.stop.wait(draw.uniform(0.3, 0.9))
            people.append(len(people))
            rows = some_rows(draw, people, 12)
            self._write(self.folder / "more.csv", rows)
            number = self.book.begin("bring", rows=rows)
            body = (self.folder / "more.csv").read_bytes()
            while True:
                if (server := self._server(draw)) is not None:
                    with contextlib.suppress(*LOST, Refused):
                        post(
                            server.url,
                            f"/v1/ingest?name=more.csv&once={number}",
                            self.curator,
                            body,
                        )
                        self.book.note("brought", op=number)
                        return
                elif self.stop.is_set():
                    return
                time.sleep(0.1)

        self._running(work)

    # -- what happens ----------------------------------------------------------------------------

    def _wait(self, answers: int) -> None:
        """Wait for so many more answers, and a moment longer."""
        until, last = self.answers + answers, time.monotonic() + self.patience
        self.most = until + SPARE
        while self.answers < until and not self.stop.is_set():
            if time.monotonic() > last:
                raise Silent(f"nobody answers: see {self.folder}")
            time.sleep(0.01)
        time.sleep(self.draw.uniform(0, 0.05))

    def _chance(self) -> Sequence[str]:
        every = ["kill"] * 4 if self.lake else ["copy", "second", "put_back", "kill"]
        return self.draw.sample(every, len(every))

    def _happens(self, event: str) -> None:
        if event == "nothing":
            return
        if event == "copy":
            self._copy()
        elif event == "second":
            self._second()
        elif event == "put_back":
            self._kill_and_put_back()
        else:
            self._kill(self.draw.choice(self.servers), self._drive)

    def _event(self, said: str) -> None:
        self.book.note("event", said=said)

    def _kill(self, server: Server, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._event("kill -9")
        server.end(signal.SIGKILL)
        meanwhile()
        if not server.start():
            raise Silent(f"nobody serves after a kill: see {self.folder}")
        self._event("served again")

    def _copy(self) -> None:
        copy = self.folder / f"copy{len(self.copies)}"
        done = command("backup", self.store, str(copy))
        self._event(f"backup: {done.returncode}")
        if done.returncode == 0:
            self.copies.append(copy)

    def _second(self) -> None:
        """Try to come in beside the server: by a command, by a server, and with a copy."""
        self._drive()
        other = Server(self.store, self.program, self.folder / "second.log")
        self._beside(other)
        if self.copies:
            self._beside(Server(str(self.copies[-1]), self.program, self.folder / "second.log"))

    def _beside(self, other: Server) -> None:
        """Start another server: if it comes up it is one of the servers, and clients ask it."""
        came = other.start()
        self._event(f"a second server: {came}")
        if came:
            self.servers.append(other)

    def _drive(self) -> None:
        """Ask by a command, as a driver of its own."""
        self.driven += 1
        sql, parts = question(self.draw)
        asked = {"name": "", "way": "command", "sql": sql, "parts": parts,
                 "request": f"analyst/{self.driven}", "fresh": False}  # fmt: skip
        number = self.book.begin("ask", **asked)
        done = command(
            "sql", self.store, sql, "--request-id", str(self.driven), "--format", "json",
            program=self.program,
        )  # fmt: skip
        if done.returncode:
            self.book.note("refusal", op=number, why=done.stderr[:200])
            return
        said = json.loads(done.stdout)
        self.book.note(
            "answer", op=number, release=said["release"], rows=said["rows"], follows=False,
            repeat=said.get("repeated", False),
        )  # fmt: skip

    def _kill_and_put_back(self) -> None:
        """Kill, put an earlier copy in the store's place, and see whether it is served."""
        if not self.copies:
            self._copy()
        self._kill(self.servers[0], self._put_back)

    def _put_back(self) -> None:
        parts = [p for p in self._files() if p.exists()]
        kept = self.folder / "kept"
        kept.mkdir()
        for file in parts:
            shutil.move(file, kept / file.name)
        shutil.copy(self.draw.choice(self.copies[-2:]), self.path)
        opened = self.servers[0].start()
        self._event(f"a copy in the store's place: {'served' if opened else 'refused'}")
        if opened:  # clients ask it for a while; then it is killed, and goes on
            self._wait(10)
            self.servers[0].end(signal.SIGKILL)
        else:
            for file in self._files():
                file.unlink(missing_ok=True)
            for file in parts:
                shutil.move(kept / file.name, file)
        shutil.rmtree(kept)

    def _files(self) -> list[Path]:
        return [Path(f"{self.path}{end}") for end in ("", ".wal", ".session")]

    def _export(self) -> Path:
        """Write the curator's export; of a store that does not open, why."""
        path = self.folder / "export.json"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.judge.export", self.store],
            capture_output=True, text=True, env=_environment(), check=False,
        )  # fmt: skip
        error = json.dumps({"error": done.stderr[-500:]})
        path.write_text(error if done.returncode else done.stdout)
        return path


def _cannot_be_opened(export: Path) -> bool:
    return "error" in json.loads(export.read_text())


def lives(folder: Path, runs: int, seed: int = 1) -> Iterator[tuple[Path, Path]]:
    """Live so many lives, files and lakes in turn; yield each history and its export."""

    def life(run: int) -> tuple[Path, Path]:
        here = folder / f"run{run}"
        here.mkdir(parents=True)
        return Life(here, seed + run, lake=run % 2 == 1, weighted=run % 4 >= 2).live()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(life, range(runs))
