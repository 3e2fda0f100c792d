"""A life of a store that is driven from outside, and its history.

Every part is a separate process, started by its command: `sparseq serve`, `sparseq sql`, `sparseq
backup`. Clients speak HTTP and PostgreSQL's protocol. While they ask and a curator brings rows,
servers are killed, older copies are put back, and second drivers try to come in; a lake has two
servers. All messages of each client are recorded immediately.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
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

from checks.judge.book import (
    ANSWERS,
    COLUMNS,
    DAYS,
    FEW,
    IN_OR_OUT,
    KAPPA,
    MANY,
    MOST_SECONDS,
    QUOTA,
    SPARE,
    SPARSEQ,
    Book,
    Row,
)
from checks.judge.client import LOST, Client, Refused, post
from checks.judge.random_questions import question, some_rows
from checks.judge.server_process import Server, Silent, command, environment, told


@dataclass
class Life:
    """One store, its servers and clients, and the events.

    Attributes:
        folder: An empty folder.
        seed: Seed of the questions and the times of events; noise is the system's.
        lake: True for two servers of a lake instead of one of a file.
        weighted: True if people are weighted; else they are in or out.
        program: Command that serves.
        events: The events: "copy", "second", "put_back", "kill", "nothing"; (): all except the
            last, in random order; four kills for a lake.
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
            "create",
            self.store,
            str(self.folder / "first.csv"),
            "--table",
            "t",
            "--user",
            "who",
            "--kappa",
            str(KAPPA),
            "--for",
            f"questions,{ANSWERS if self.weighted else IN_OR_OUT}",
            "--keys",
            "day=" + ",".join(map(str, DAYS)),
            "--bounds",
            "x=0..7",
            "--type",
            "x=DOUBLE",
            *(("--buckets", "3") if self.lake else ()),
        )
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
        """Wait for this number of further answers, and a moment longer."""
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
        """Try to open the served store: by a command, by a server, and with a copy."""
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
        """Ask by a command, as a separate driver."""
        self.driven += 1
        sql, parts = question(self.draw)
        asked = {
            "name": "",
            "way": "command",
            "sql": sql,
            "parts": parts,
            "request": f"analyst/{self.driven}",
            "fresh": False,
        }
        number = self.book.begin("ask", **asked)
        done = command(
            "sql",
            self.store,
            sql,
            "--request-id",
            str(self.driven),
            "--format",
            "json",
            program=self.program,
        )
        if done.returncode:
            self.book.note("refusal", op=number, why=done.stderr[:200])
            return
        said = json.loads(done.stdout)
        self.book.note(
            "answer",
            op=number,
            release=said["release"],
            rows=said["rows"],
            follows=False,
            repeat=said.get("repeated", False),
        )

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
            [sys.executable, "-m", "checks.judge.export", self.store],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        error = json.dumps({"error": done.stderr[-500:]})
        path.write_text(error if done.returncode else done.stdout)
        return path


def _cannot_be_opened(export: Path) -> bool:
    return "error" in json.loads(export.read_text())


def lives(folder: Path, runs: int, seed: int = 1) -> Iterator[tuple[Path, Path]]:
    """Run some lives, files and lakes in turn; yield each history and its export."""

    def life(run: int) -> tuple[Path, Path]:
        here = folder / f"run{run}"
        here.mkdir(parents=True)
        return Life(here, seed + run, lake=run % 2 == 1, weighted=run % 4 >= 2).live()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(life, range(runs))
