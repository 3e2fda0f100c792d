"""Until its commit a question that is cancelled has charged nothing, and the store goes on.

Long work is made by people with many rows each, joined to themselves: it runs for minutes where
nobody stops it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.answers.answer import Answer
from sparseq.base.cancellation import Cancellation, check, current, interruptible
from sparseq.base.errors import QueryCancelError, TimedOut
from sparseq.engine._duckdb import backstop
from sparseq.mechanisms.entropy import SeededEntropy
from sparseq.question.plan import Plan
from sparseq.stream import step
from sparseq.stream.batches import Request
from sparseq.stream.draft import Draft
from sparseq.stream.side_reads import Readings
from sparseq.stream.step import Stream

COUNT = "SELECT count(*) AS n FROM t"
LONG = COUNT + " a JOIN t b ON a.who = b.who"
LARGE = 8_000  # rows of a person: joined to themselves they are 64 million
MANY = {"work": 10**12}


def rows(people: int = 50, each: int = LARGE) -> pa.Table:
    n = people * each
    return pa.table({"who": np.arange(n) // each, "x": (np.arange(n) % 7).astype(float)})


def store(path: Path | None = None, seed: int | None = 1, each: int = LARGE) -> sparseq.Store:
    return sparseq.create(
        path, {"t": rows(each=each)}, user="who", seed=seed, bounds={"x": (0, 7)}, most=MANY
    )


def standing(con: sparseq.Store) -> tuple[int, list[int], object]:
    """What must not change: releases, charges, and the public course of the stream."""
    return con.released, con.stream.accounts.spent.tolist(), con.stream.course


def when(seen: Callable[[], bool], do: Callable[[], object]) -> threading.Thread:
    """Do something in another thread, once something is so."""

    def wait() -> None:
        until = monotonic() + 600
        while not seen():
            assert monotonic() < until
            sleep(0.005)  # processors are for what is waited for
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def busy(process: int, seconds: float = 0.5) -> Callable[[], bool]:
    """Tell whether a process has used processors for so long since now."""
    tick = os.sysconf("SC_CLK_TCK")

    def used() -> float:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / tick

    before = used()
    return lambda: used() > before + seconds


# -- the mechanism ---------------------------------------------------------------------------------


def test_what_is_cancelled_is_interrupted_until_it_ends() -> None:
    calls: list[int] = []
    with Cancellation() as work, work.interrupts(lambda: calls.append(1)):
        work.cancel()
        when(lambda: len(calls) >= 3, lambda: None).join()
    seen = len(calls)
    with pytest.raises(QueryCancelError, match="nothing was charged"):
        work.check()
    assert len(calls) == seen, "never after it has ended"


def test_parts_are_cancelled_with_the_whole_and_not_the_other_way() -> None:
    with Cancellation() as whole, Cancellation() as part:
        assert current() is part
        part.cancel()
        whole.check()
    with Cancellation() as whole, Cancellation() as part:
        whole.cancel()
        with pytest.raises(QueryCancelError):
            part.check()
        with pytest.raises(QueryCancelError), interruptible(lambda: None):
            pass
    assert current() is None
    check()


def test_a_clock_cancels() -> None:
    with Cancellation(0.01) as work:
        when(lambda: work.error is not None, lambda: None).join()
        with pytest.raises(TimedOut, match=r"longer than 0\.01 s") as told:
            check()
    assert isinstance(told.value, TimeoutError)
    con = store(each=2)
    for seconds in (0, -1.0, float("nan"), 1e9):
        with pytest.raises(sparseq.ParameterError, match="timeout"):
            con.sql(COUNT, timeout=seconds)


# -- questions -------------------------------------------------------------------------------------


def test_a_time_out_charges_nothing_and_the_next_answer_is_as_without() -> None:
    con, other = store(), store()
    before = standing(con)
    with pytest.raises(TimedOut):
        con.sql(LONG, timeout=0.2)
    assert standing(con) == before
    assert con.stream.engine.take_failures() == []
    mine, theirs = con.sql(COUNT + " WHERE x > 1"), other.sql(COUNT + " WHERE x > 1")
    assert mine.arrow().equals(theirs.arrow())
    assert standing(con) == standing(other)


def test_the_backstop_takes_no_interrupt_for_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    con = store()

    def never(*_: object) -> None:
        raise AssertionError("people are halved")

    monkeypatch.setattr(backstop.Backstop, "parts", never)
    with pytest.raises(TimedOut):
        con.sql(LONG, timeout=0.2)


def test_the_backstop_itself_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    con = store()
    before, engine = standing(con), con.stream.engine
    query = con.lower(LONG)

    def read(*_: object) -> None:
        raise RuntimeError("an error that nobody knows of")

    monkeypatch.setattr(type(engine), "_reads", read)
    with pytest.raises(TimedOut), Cancellation(0.5):
        con.ask(query)
    monkeypatch.undo()
    assert standing(con) == before
    con.sql(COUNT)


def test_from_its_commit_on_a_question_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    con, stage = store(each=12), Stream._stage

    def late(self: Stream, draft: Draft) -> Answer:
        answer = stage(self, draft)
        work = current()
        assert work is not None
        work.cancel()
        return answer

    monkeypatch.setattr(Stream, "_stage", late)
    query = con.lower(COUNT)
    with Cancellation() as work:
        answer = con.ask(query)
    assert work.error is not None
    assert con.release(1).arrow().equals(answer.arrow())


def test_cancelled_just_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    con, stage = store(each=12), Stream._stage
    before = standing(con)

    def late(self: Stream, draft: Draft) -> Answer:
        work = current()
        assert work is not None
        work.cancel()
        return stage(self, draft)

    monkeypatch.setattr(Stream, "_stage", late)
    query = con.lower(COUNT)
    with Cancellation(), pytest.raises(QueryCancelError):
        con.ask(query)
    monkeypatch.undo()
    assert standing(con) == before
    assert con.sql(COUNT).facts.release == 1


def test_one_of_a_group_is_cancelled_and_the_others_are_answered() -> None:
    con, other = store(each=12), store(each=12)
    asked = [con.lower(f"{COUNT} WHERE x > {i}") for i in range(3)]
    work = Cancellation()
    work.cancel()
    group = [Request(asked[0]), Request(asked[1], cancellation=work), Request(asked[2])]
    first, second, third = con.ask_many(group)
    assert isinstance(second.refused, QueryCancelError)
    for mine, query in ((first, asked[0]), (third, asked[2])):
        assert mine.answer is not None
        assert mine.answer.arrow().equals(other.ask(query).arrow())
    assert standing(con) == standing(other)


@pytest.mark.parametrize("seed", one_in(2, range(4)))
def test_cancelled_at_random_moments_it_is_answered_or_was_not_asked(seed: int) -> None:
    """The ledger is as before, or has the answer; and the next questions are answered as without.

    Moments are counted in looks at the cancellation (`check`), not in seconds.
    """
    draw = np.random.default_rng(seed)
    con, other = store(each=12), store(each=12)
    texts = [f"{COUNT} WHERE x > {i}" for i in range(4)]
    texts += [f"SELECT sum(a.x) AS s FROM t a JOIN t b USING (who) WHERE b.x > {i}" for i in (1, 3)]
    for text in texts:
        left = int(draw.integers(0, 12))
        work = Counted(left)
        try:
            with work:
                mine = con.ask(con.lower(text))
        except QueryCancelError:
            assert standing(con) == standing(other)
            mine = con.sql(text)
        assert mine.arrow().equals(other.sql(text).arrow())
        assert standing(con) == standing(other)


class Counted(Cancellation):
    """Is cancelled when it is looked at for the nth time."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.cancel()
        super().check()


# -- reading beside the stream ---------------------------------------------------------------------


def beside(con: sparseq.Store, text: str, readings: Readings) -> list[Plan]:
    """Ask a question as a server does; return the plans that were read beside."""
    query, plans = con.lower(text), []
    while True:
        (outcome,) = con.ask_many([Request(query, readings=readings)])
        if outcome.unread is None:
            assert outcome.answer is not None, outcome.refused
            return plans
        plans.append(outcome.unread)
        with con.stream.held():
            read = readings.reading(con.stream.engine, outcome.unread, con.stream.people)
        with ThreadPoolExecutor(1) as reader:
            reader.submit(read).result()


JOINED = "SELECT sum(a.x) AS s, count(*) AS n FROM t a JOIN t b USING (who)"


def test_what_is_read_beside_gives_the_very_answer(tmp_path: Path) -> None:
    con, other = store(tmp_path / "a.sparseq", each=12), store(each=12)
    assert beside(con, JOINED, Readings())
    assert not beside(con, COUNT, Readings()), "a scan is the stream's"
    for text in (JOINED, COUNT):
        other.sql(text)
    for number in (1, 2):
        assert con.release(number).arrow().equals(other.release(number).arrow())
    assert standing(con) == standing(other)
    con.close()
    assert [p.name for p in tmp_path.iterdir()] == ["a.sparseq"]


def test_a_step_that_has_drawn_noise_is_never_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """To draw again until the plan is one that was read would choose among noised values."""
    drawn: list[tuple[int, str]] = []
    real = step.for_release

    def noted(seed: int, release: int, part: str = "") -> SeededEntropy:
        drawn.append((release, part))
        return real(seed, release, part)

    monkeypatch.setattr(step, "for_release", noted)
    con = store(each=12)
    several = "sum(a.x) AS s, count(*) AS n, count(DISTINCT a.who) AS people"
    plans = beside(con, f"SELECT {several} FROM t a JOIN t b USING (who)", Readings())
    assert len(plans) == 3, "a sum, rows and people: each has a weight"
    assert len(drawn) == len(set(drawn)) >= 4


def test_what_was_read_of_other_rows_is_read_again(tmp_path: Path) -> None:
    con, other = store(tmp_path / "a.sparseq", each=12), store(each=12)
    readings, query = Readings(), con.lower(JOINED)
    (outcome,) = con.ask_many([Request(query, readings=readings)])
    assert outcome.unread is not None
    readings.reading(con.stream.engine, outcome.unread, con.stream.people)()
    for each in (con, other):
        each.ingest(pa.table({"who": [7, 7, 1000], "x": [1.0, 2.0, 3.0]}))
    assert beside(con, JOINED, readings), "rows have come: it is read again"
    other.sql(JOINED)
    assert con.release(1).arrow().equals(other.release(1).arrow())
    assert standing(con) == standing(other)
    con.close()


def test_rows_that_come_all_the_time_are_read_by_the_stream() -> None:
    con, readings, query = store(each=12), Readings(), None
    for i in range(20):
        query = query or con.lower(JOINED)
        (outcome,) = con.ask_many([Request(query, readings=readings)])
        if outcome.answer is not None:
            break
        assert outcome.unread is not None
        readings.reading(con.stream.engine, outcome.unread, con.stream.people)()
        con.ingest(pa.table({"who": [i], "x": [1.0]}))
    assert outcome.answer is not None


def test_whoever_closes_the_store_does_not_wait_for_what_is_read(tmp_path: Path) -> None:
    con, readings = store(tmp_path / "a.sparseq"), Readings()
    (outcome,) = con.ask_many([Request(con.lower(LONG), readings=readings)])
    assert outcome.unread is not None
    read = readings.reading(con.stream.engine, outcome.unread, con.stream.people)
    begun = threading.Event()

    def reads() -> None:
        begun.set()
        read()

    thread = threading.Thread(target=reads)
    thread.start()
    begun.wait(30)
    con.close()
    thread.join(10)
    assert not thread.is_alive()
    with sparseq.connect(tmp_path / "a.sparseq") as again:
        assert again.released == 0


# -- Ctrl-C ----------------------------------------------------------------------------------------

SCRIPT = """
import os, signal, sys, threading
sys.path.insert(0, {tests!r})
from stream.test_cancellation import COUNT, LONG, standing, store
con, other = store(), store()
before = standing(con)
from sparseq.engine._duckdb.reader import Reader
fetch = Reader.fetch
pressed = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
def begins(self, sql):
    if pressed.ident is None:
        pressed.start()
    return fetch(self, sql)
Reader.fetch = begins
try:
    con.sql(LONG)
except KeyboardInterrupt:
    Reader.fetch = fetch
    assert standing(con) == before
    assert con.sql(COUNT).arrow().equals(other.sql(COUNT).arrow())
    print("stopped")
"""


@pytest.mark.deep
def test_ctrl_c_in_python() -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout == "stopped\n", done.stderr


def test_ctrl_c_at_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    store(path, seed=None).close()
    asked = subprocess.Popen(
        [sys.executable, "-m", "sparseq", "sql", str(path), LONG],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    when(busy(asked.pid, 2.5), lambda: None).join()  # it is under way
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=600)
    assert (asked.returncode, "stopped: nothing was answered" in said) == (130, True), said
    with sparseq.connect(path) as con:
        assert con.released == 0


def test_a_time_out_at_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    store(path, seed=None).close()
    done = subprocess.run(
        [sys.executable, "-m", "sparseq", "sql", str(path), LONG, "--timeout", "0.5"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 8, done.stderr
    assert "took longer than 0.5 s; nothing was charged" in done.stderr
