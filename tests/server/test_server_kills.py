"""A server that is killed at any moment: what a client saw is in the journal, with its charge."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from server.made import made
from server.running import Running, secret

import sparseq
from sparseq.answers.answer import Answer
from sparseq.base.errors import ServerError, StoreError
from sparseq.ledger._duckdb.progress_record import read_record
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.server.audit import AuditLog
from sparseq.server.operator_socket import served_backup
from sparseq.store._duckdb.outside_mark import keep_mark

pytest.importorskip("uvicorn")
psycopg = pytest.importorskip("psycopg")


Seen = tuple[float, ...]
"""An answer's only row: as HTTP gives it, and as PostgreSQL's protocol does."""


def question(number: int) -> str:
    return f"SELECT count(*) AS n FROM t WHERE x > {number % 7} AND x < {number}.5"


def common(number: int) -> str:
    """One that everybody asks, without an id: all but the first get the recorded answer, free."""
    return f"SELECT sum(x) AS s FROM t WHERE x <> {number}.25"


class Clients:
    """Threads that ask one question after the other, until stopped; every second by PostgreSQL's.

    Most questions are under an id of their own. One whose answer was lost is asked again under its
    id; now and then an earlier one is. Others have no id, and are everybody's.

    Attributes:
        seen: Name and id of each question that was answered, with its answer; ("", its text) of one
            without an id.
        wrong: What should not have happened.
    """

    def __init__(self, tokens: dict[str, str]) -> None:
        self.seen: dict[tuple[str, str], Seen] = {}
        self.wrong: list[str] = []
        self.places = ("", "")
        self.stop = threading.Event()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, args=(name, token)) for name, token in tokens.items()
        ]
        for thread in self._threads:
            thread.start()

    def serve(self, *places: str) -> None:
        with self._changed:
            self.places = places or self.places
            self._changed.notify_all()

    def wait_for(self, answers: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= answers or self.wrong, 300)

    def end(self) -> None:
        self.stop.set()
        self.serve()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, token: str) -> None:
        draw, number, places, by_pg = random.Random(name), 0, ("", ""), int(name[1:]) % 2 == 1
        while not self.stop.is_set():
            places = self._next(places)
            if self.stop.is_set():
                return
            try:
                with (_postgresql if by_pg else _http)(places[by_pg], name, token) as ask:
                    while not self.stop.is_set():
                        if draw.random() < 0.3:
                            sql = common(draw.randrange(len(self.seen) // 8 + 1))
                            self._note(("", sql), ask(sql, ""))
                            continue
                        again = number and draw.random() < 0.2
                        k = draw.randrange(number) if again else number
                        self._note((name, f"{k}"), ask(question(k), f"{k}"))
                        number += not again
            except (ServerError, psycopg.OperationalError):
                continue  # it was killed
            except Exception as error:
                self.wrong.append(repr(error))
                return

    def _next(self, places: tuple[str, ...]) -> tuple[str, ...]:
        """Wait for another server than the one there was."""
        with self._changed:
            self._changed.wait_for(lambda: self.stop.is_set() or self.places != places)
            return self.places

    def _note(self, key: tuple[str, str], answer: Seen) -> None:
        with self._changed:
            if self.seen.setdefault(key, answer) != answer:
                self.wrong.append(f"{key} has two answers")
            self._changed.notify_all()


@contextlib.contextmanager
def _http(url: str, name: str, token: str) -> Iterator[Callable[[str, str], Seen]]:
    with sparseq.connect(url, token=token) as con:
        yield lambda sql, id: row(con.sql(sql, request_id=id or None))


@contextlib.contextmanager
def _postgresql(url: str, name: str, token: str) -> Iterator[Callable[[str, str], Seen]]:
    where = url.replace("://", f"://{name}:{token}@") + "/s"
    with psycopg.connect(where, autocommit=True, connect_timeout=300) as con:

        def ask(sql: str, id: str) -> Seen:
            con.execute(f"SET sparseq.request_id = '{id}'")
            return tuple(map(float, con.execute(sql).fetchall()[0]))  # type: ignore[arg-type]

        yield ask


def row(answer: Answer) -> Seen:
    (values,) = answer.arrow().to_pylist()
    return tuple(map(float, values.values()))


def survives(path: Path, kills: int, clients: int, seed: int) -> None:
    """Kill a server so often while clients ask it, and check what is left."""
    made(path).close()
    keep_mark(path, path.with_name("mark"))
    draw, copies = random.Random(seed), []
    people = Clients({f"c{i}": secret(path, f"c{i}") for i in range(clients)})
    try:
        for i in range(kills):
            running = Running(path, "--pg", "127.0.0.1:0")
            people.serve(running.url, running.pg)
            people.wait_for(len(people.seen) + draw.randint(1, 20))
            made_of = served_backup(path, path.with_name(f"copy{i}"))
            assert made_of is not None
            copies.append(made_of.releases)
            people.stop.wait(draw.random() * 0.02)
            running.kill()
        running = Running(path, "--pg", "127.0.0.1:0")
        people.serve(running.url, running.pg)
        people.wait_for(len(people.seen) + clients)
    finally:
        people.end()
    assert running.stop() == 0
    assert people.wrong == []
    releases = journal_has(path, people.seen)
    for i, has in enumerate(copies):
        if has < releases:
            with pytest.raises(StoreError, match="lacks"):
                sparseq.connect(path.with_name(f"copy{i}"))
    log = AuditLog.beside(path)
    log.verify()
    noted = {line["release"] for line in log.lines() if "release" in line}
    assert noted == set(range(1, releases + 1))


def journal_has(path: Path, seen: dict[tuple[str, str], Seen]) -> int:
    """Check that a store has what was seen, and charged each release once; return their number.

    A store of its own that is asked the same, one by one, is the oracle.
    """
    with sparseq.connect(path) as con, made() as alone:
        history = con.releases()
        unnamed = {release.query: release for release in history if release.request is None}
        for (name, text), answer in seen.items():
            if name:
                recorded = con.recorded(RequestId.of(Asker.CLIENT, name, text))
            else:
                recorded = Answer.from_bytes(unnamed[con.lower(text).text].answer)
            assert recorded is not None
            assert row(recorded) == answer
        assert len(unnamed) == sum(release.request is None for release in history)
        for release in history:
            again = alone.ask(alone.lower(release.query), request_id=release.request)
            assert again.to_bytes() == release.answer
        assert np.array_equal(con.stream.accounts.spent, alone.stream.accounts.spent)
        assert (con.stream.accounts.spent <= con.stream.accounts.budgets).all()
        assert con.stream.course == alone.stream.course
        record = read_record(path.with_name("mark"))
        assert record is not None
        assert record.reached.releases == con.released
        return con.released


def test_a_kill(tmp_path: Path) -> None:
    survives(tmp_path / "s", kills=1, clients=4, seed=1)


@pytest.mark.deep
def test_many_kills(tmp_path: Path) -> None:
    """Twenty moments in place of one, under 16 clients."""
    survives(tmp_path / "s", kills=20, clients=16, seed=2)
