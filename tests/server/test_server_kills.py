"""A server that is killed at any moment: what a client saw is in the journal, with its charge."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pytest
from server.made import made
from server.running import Running, secret

import sparseq
from sparseq.errors import ServerError
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.server.audit import AuditLog

pytest.importorskip("uvicorn")


class Clients:
    """Threads that ask one question after the other, each under an id of its own, until stopped.

    A question whose answer was lost is asked again under its id; now and then an earlier one is.

    Attributes:
        seen: Name and id of each question that was answered, with the answer's bytes.
        wrong: What should not have happened.
    """

    def __init__(self, tokens: dict[str, str]) -> None:
        self.seen: dict[tuple[str, str], bytes] = {}
        self.wrong: list[str] = []
        self.url = ""
        self.stop = threading.Event()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, args=(name, token)) for name, token in tokens.items()
        ]
        for thread in self._threads:
            thread.start()

    def serve(self, url: str) -> None:
        with self._changed:
            self.url = url
            self._changed.notify_all()

    def wait_for(self, answers: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= answers or self.wrong, 60)

    def end(self) -> None:
        self.stop.set()
        self.serve(self.url)
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, token: str) -> None:
        draw, number, url = random.Random(name), 0, ""
        while not self.stop.is_set():
            url = self._next(url)
            try:
                with sparseq.connect(url, token=token) as con:
                    while not self.stop.is_set():
                        again = number and draw.random() < 0.2
                        k = draw.randrange(number) if again else number
                        sql = f"SELECT count(*) AS n FROM t WHERE x > {k % 7} AND x < {k}.5"
                        answer = con.sql(sql, request_id=f"{k}").to_bytes()
                        self._note((name, f"{k}"), answer)
                        number += not again
            except ServerError:
                continue  # it was killed
            except Exception as error:
                self.wrong.append(repr(error))
                return

    def _next(self, url: str) -> str:
        """Wait for another server than the one there was."""
        with self._changed:
            self._changed.wait_for(lambda: self.stop.is_set() or self.url != url)
            return self.url

    def _note(self, key: tuple[str, str], answer: bytes) -> None:
        with self._changed:
            if self.seen.setdefault(key, answer) != answer:
                self.wrong.append(f"{key} has two answers")
            self._changed.notify_all()


def survives(path: Path, kills: int, clients: int, seed: int) -> None:
    """Kill a server so often while clients ask it, and check what is left."""
    made(path).close()
    draw = random.Random(seed)
    people = Clients({f"c{i}": secret(path, f"c{i}") for i in range(clients)})
    try:
        for _ in range(kills):
            running = Running(path)
            people.serve(running.url)
            people.wait_for(len(people.seen) + draw.randint(1, 20))
            people.stop.wait(draw.random() * 0.02)
            running.kill()
        running = Running(path)
        people.serve(running.url)
        people.wait_for(len(people.seen) + clients)
    finally:
        people.end()
    assert running.stop() == 0
    assert people.wrong == []
    with sparseq.connect(path) as con, made() as alone:
        for (name, text), answer in people.seen.items():
            recorded = con.recorded(RequestId.of(Asker.CLIENT, name, text))
            assert recorded is not None
            assert recorded.to_bytes() == answer
        for release in con.history():
            assert release.request is not None
            again = alone.ask(alone.lower(release.query), request_id=release.request)
            assert again.to_bytes() == release.answer
        assert np.array_equal(con.stream.accounts.spent, alone.stream.accounts.spent)
        assert con.stream.course == alone.stream.course
        releases = con.releases
    log = AuditLog.beside(path)
    log.verify()
    noted = {line["release"] for line in log.lines() if "release" in line}
    assert noted == set(range(1, releases + 1))


def test_a_few_kills(tmp_path: Path) -> None:
    survives(tmp_path / "s.sparseq", kills=2, clients=4, seed=1)


@pytest.mark.deep
def test_many_kills(tmp_path: Path) -> None:
    """Twenty moments in place of two, under 16 clients."""
    survives(tmp_path / "s.sparseq", kills=20, clients=16, seed=2)
