"""Kills and failures at any moment: on disk is every release with its charges, or neither."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import endless_stream
import pyarrow as pa
import pytest
from algorithm2 import Algorithm2, on_lattice
from sampled import one_in

import sparseq
from checks.stores import IN_OR_OUT, made_store
from sparseq.ledger._duckdb import segments
from sparseq.load._duckdb.load_tables import Loading
from sparseq.load._duckdb.storage import Storage

SILENT = {"before": (0,), "after": (1,), "snapshot": (1,)}  # releases that nobody was told of
HERE = Path(__file__).parents[1]


def rows(seed: int = 7) -> list[tuple[int, int, float]]:
    """(who, day, amount): 30 users, the first of them in nearly every row of their share."""
    draw = random.Random(seed)
    people = [*range(30), *[0] * 20, *[1] * 10]
    whose = [*range(30), *(draw.choice(people) for _ in range(120))]
    return [(who, draw.randrange(10), round(draw.uniform(0, 10), 2)) for who in whose]


def events(data: list[tuple[int, int, float]]) -> pa.Table:
    who, day, amount = zip(*data, strict=True)
    return pa.table({"who": who, "day": day, "amount": amount})


def make(path: Path | None, **more: Any) -> sparseq.Store:
    return made_store(
        path,
        events(rows()),
        table="t",
        user="who",
        bounds={"amount": (0, 10)},
        **more,
        in_or_out=True,
    )


class Auditor:
    """Follows a store release by release with Algorithm 2, and finds whatever does not add up."""

    def __init__(self, con: sparseq.Store) -> None:
        self.data = rows()
        self.reference = Algorithm2(con.guarantee.kappa, con.guarantee.norm_budget)
        for who, _, _ in self.data:
            self.reference.add_user(who)
        self.seen = 0

    def vectors(self, i: int, facts: Any) -> list[dict[int, dict[int, int]]]:
        """q(X_u) of query number i: a vector a user, for each measure."""
        kind, day = i % 4, i % 10
        ones, sums = {}, {}
        for who, on, amount in self.data:
            if (kind == 0 and on != day) or (kind == 1 and on > day):
                continue
            one = ones.setdefault(who, {})
            one[0] = 1 if kind == 0 else one.get(0, 0) + 1
            total, place = sums.setdefault(who, {}), on if kind == 2 else 0
            total[place] = total.get(place, 0) + on_lattice(amount, facts.granularity[-1])
        return [[ones], [ones], [sums], [ones, sums]][kind]

    def audit(self, con: sparseq.Store) -> list[sparseq.Answer]:
        """Check every release not seen yet, then all accounts; return all answers."""
        history = con.releases()
        assert [r.id for r in history] == list(range(1, len(history) + 1))
        answers = [sparseq.Answer.from_bytes(r.answer) for r in history]
        for release, answer in list(zip(history, answers, strict=True))[self.seen :]:
            i = release.id - 1
            assert release.request_id == f"q{i}"
            assert release.query == endless_stream.question(i)[0]
            noise = zip(answer.facts.sigma, answer.facts.granularity, strict=True)
            self.reference.step(self.vectors(i, answer.facts), list(noise))
        self.seen = len(history)
        spent = dict(zip(range(30), con.stream.accounts.spent.tolist(), strict=True))
        assert spent == self.reference.spent
        assert all(spent[u] <= budget for u, budget in self.reference.budgets.items())
        return answers


class Asker:
    """The process that asks, one short life after another."""

    def __init__(self, path: Path) -> None:
        root = str(Path(sparseq.__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "endless_stream.py"), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )

    def live(
        self, first: int, how: str = "never", kill: Callable[[str], bool] | None = None
    ) -> Any:
        """Run one life; `kill` sees each line and says when. Return what it had answered."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{first} {how}\n")
        stdin.flush()
        pid, answered = int(stdout.readline().split()[1]), []
        for line in stdout:
            assert not line.startswith("error"), line
            if line == "dead\n":
                break
            if line.startswith("answer"):
                answered.append(json.loads(line.split(" ", 1)[1]))
            if kill is not None and kill(line):
                os.kill(pid, signal.SIGKILL)
                kill = None
        return answered

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "s.sparseq"
    make(path, norm_budget=20).close()
    return path


@pytest.fixture
def stored(made: Path, tmp_path: Path) -> Path:
    """A copy of the store that was made once."""
    return Path(shutil.copy(made, tmp_path / "s.sparseq"))


@pytest.fixture
def asker(stored: Path) -> Iterator[Asker]:
    asker = Asker(stored)
    yield asker
    asker.close()


def at_random(draw: random.Random) -> Callable[[str], bool]:
    """Kill some moment after some line; every other time within a commit, if it can be hit."""
    lines, aim = draw.randrange(12), draw.random() < 0.5
    delay = draw.uniform(0, 0.003 if aim else 0.02)
    seen = 0

    def kill(line: str) -> bool:
        nonlocal seen
        seen += 1
        if seen <= lines or (aim and line != "commit\n"):
            return False
        time.sleep(delay)
        return True

    return kill


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.deep)])
def test_after_kills_every_charge_has_its_release_and_nobody_is_overdrawn(
    stored: Path, asker: Asker, kills: int
) -> None:
    draw = random.Random(1)
    with sparseq.connect(stored) as con:
        auditor = Auditor(con)
    releases = unheard = 0
    for life in range(kills):
        how = ("never", "never", "never", "before", "after", "snapshot")[life % 6]
        kill = at_random(draw) if how == "never" else None
        answered = asker.live(releases, how, kill)
        with sparseq.connect(stored) as con:
            answers = auditor.audit(con)
            silent = len(answers) - releases - len(answered)
            assert silent in SILENT.get(how, (0, 1))
            unheard += silent
            for said in answered:
                recorded = answers[said["release"] - 1].to_bytes()
                assert hashlib.sha256(recorded).hexdigest() == said["sha256"]
                assert said["release"] == said["i"] + 1
            releases = len(answers)
            if releases:  # heard or not, the last one is there to be read, free of charge
                assert endless_stream.ask(con, releases - 1).to_bytes() == answers[-1].to_bytes()
                auditor.audit(con)
                assert len(con.releases()) == releases
    assert releases > kills
    assert unheard >= kills // 6
    spent, budgets = auditor.reference.spent, auditor.reference.budgets
    assert any(budgets[u] - s < 2**24 for u, s in spent.items()), "somebody was left out"


def test_an_ingest_that_is_killed_leaves_nothing(stored: Path, asker: Asker) -> None:
    assert asker.live(0, "ingest") == []
    with sparseq.connect(stored) as con:
        assert number(con, "by_user.t") == 150
        assert number(con, "ledger.users") == 30
        assert con.taken() == {}
        Auditor(con).audit(con)


def number(con: sparseq.Store, table: str) -> int:
    ((count,),) = con.backend.database.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(count)


# Failures without a kill --------------------------------------------------------------------------


class Failing:
    """A connection that fails before or after a statement that starts so."""

    def __init__(self, connection: Any, start: str, after: bool, error: BaseException) -> None:
        self._connection, self._start, self._after, self._error = connection, start, after, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        failing = sql.startswith(self._start)
        if failing and not self._after:
            raise self._error
        result = self._connection.execute(sql, *parameters)
        if failing:
            raise self._error
        return result


@pytest.mark.parametrize("error", one_in(2, [OSError("disk full"), KeyboardInterrupt()]), ids=repr)
@pytest.mark.parametrize(
    ("start", "after"),
    one_in(
        3,
        [
            ("BEGIN", False),
            ("BEGIN", True),
            ("CREATE", False),
            ("COMMIT", True),
            ("CREATE", True),
            ("INSERT", False),
            ("COMMIT", False),
            ("INSERT", True),
        ],
    ),
)
def test_a_commit_that_fails_leaves_both_or_neither_and_the_store_must_be_reopened(
    stored: Path, start: str, after: bool, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = sparseq.connect(stored)
    auditor = Auditor(con)
    endless_stream.ask(con, 0)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1)  # a table of its own for every release
    failing: Any = Failing(con.backend.database, start, after, error)
    con.stream.ledger._con = con.stream.ledger._segments._con = failing
    with pytest.raises(type(error)):
        endless_stream.ask(con, 1)
    for use in (
        lambda: endless_stream.ask(con, 2),
        con.releases,
        lambda: con.ingest(events(rows())),
    ):
        with pytest.raises(sparseq.StoreError, match="closed"):
            use()
    con.close()
    with sparseq.connect(stored) as con:
        assert len(auditor.audit(con)) == (2 if (start, after) == ("COMMIT", True) else 1)
        endless_stream.ask(con, 1)
        assert len(auditor.audit(con)) == 2


@pytest.mark.parametrize("start", one_in(2, ["INSERT INTO ledger.snapshot", "DELETE"]))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_snapshot_that_fails_changes_nothing_about_who_has_spent_what(
    stored: Path, start: str, after: bool
) -> None:
    con = sparseq.connect(stored)
    auditor = Auditor(con)
    for i in range(3):
        endless_stream.ask(con, i)
    working = con.stream.ledger._con
    con.stream.ledger._con = Failing(con.backend.database, start, after, OSError("disk full"))  # type: ignore[assignment]
    with pytest.raises(OSError, match="disk full"):
        con.stream.ledger.fold(0)
    con.stream.ledger._con = working
    endless_stream.ask(con, 3)
    assert len(auditor.audit(con)) == 4
    con.close()
    with sparseq.connect(stored) as con:
        auditor.audit(con)


def test_a_transaction_left_open_by_an_interrupt_stops_the_stream(stored: Path) -> None:
    """The release would be durable only at the transaction's end: no answer may leave before."""
    con = sparseq.connect(stored)
    con.backend.database.execute("BEGIN")
    with pytest.raises(sparseq.StoreError, match="can't be written"):
        endless_stream.ask(con, 0)
    with pytest.raises(sparseq.StoreError, match="closed"):
        endless_stream.ask(con, 0)
    with sparseq.connect(stored) as con:
        assert Auditor(con).audit(con) == []


def test_a_step_that_fails_before_its_commit_costs_nothing_and_the_stream_goes_on(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sparseq.stream.step

    def broken(*_: Any) -> Any:
        raise MemoryError

    with sparseq.connect(stored) as con:
        auditor = Auditor(con)
        for part in ("rounded_gaussian", "render", "admit"):
            with monkeypatch.context() as patch:
                patch.setattr(sparseq.stream.step, part, broken)
                with pytest.raises(MemoryError):
                    endless_stream.ask(con, auditor.seen)
            assert len(auditor.audit(con)) == auditor.seen
            assert not con.stream.accounts.spent.any() or auditor.seen
            endless_stream.ask(con, auditor.seen)
            auditor.audit(con)


def test_a_child_that_was_forked_and_ends_does_not_touch_the_store(stored: Path) -> None:
    """Its copy of the database must not write: the log it would clear is still the parent's."""
    script = f"""
import os, sys
sys.path[:0] = [{str(HERE)!r}]
import endless_stream, sparseq
con = sparseq.connect({str(stored)!r})
endless_stream.ask(con, 0)
sys.stdout.flush()
if os.fork() == 0:
    sys.exit()  # the interpreter winds down, and lets go of everything
os.wait()
endless_stream.ask(con, 1)
os.kill(os.getpid(), 9)
"""
    root = str(Path(sparseq.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with sparseq.connect(stored) as con:
        assert len(Auditor(con).audit(con)) == 2


# Creating and taking in ---------------------------------------------------------------------------


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=repr)
def test_a_creation_that_is_interrupted_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def broken(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Loading, "_add_held", broken)
        with pytest.raises(type(error)):
            make(tmp_path / "s.sparseq")
    assert list(tmp_path.iterdir()) == []
    make(tmp_path / "s.sparseq").close()


def test_what_a_killed_creation_left_is_in_nobodys_way(tmp_path: Path) -> None:
    """A later process may well have the number of the one that was killed."""
    left = tmp_path / f".s.sparseq.{os.getpid()}.tmp"
    left.mkdir()
    (left / "store").write_bytes(b"half a file")
    (left / "store.wal").write_bytes(b"half a log")
    make(tmp_path / "s.sparseq").close()
    assert [f.name for f in tmp_path.iterdir()] == ["s.sparseq"]


STEPS = [
    (Storage, "take"),
    (Storage, "_order_again"),
    (Storage, "_cut_rows"),
    (Storage, "put"),
    (Loading, "_create"),
    (Loading, "_add_held"),
]


@pytest.mark.parametrize("error", one_in(2, [MemoryError(), KeyboardInterrupt()]), ids=repr)
@pytest.mark.parametrize(("part", "step"), one_in(2, STEPS))
def test_an_ingest_that_fails_at_any_step_leaves_nothing(
    stored: Path, monkeypatch: pytest.MonkeyPatch, part: type, step: str, error: BaseException
) -> None:
    path = stored.with_name("kinds.sparseq")
    kinds = pa.table({"who": [1, 2], "kind": ["a", "b"]})
    more = pa.table({"who": [2, 3], "kind": ["b", "c"]})
    tables = ["by_user.t", "ledger.users", "taken"]
    done = getattr(part, step)

    def broken(*args: Any) -> Any:
        done(*args)
        raise error

    with sparseq.create(path, {"t": kinds}, user="who", purposes=IN_OR_OUT) as con:
        con.sql("SELECT count(*) FROM t")
        spent = con.stream.accounts.spent.tolist()
        before = [number(con, t) for t in tables]
        with monkeypatch.context() as patch:
            patch.setattr(part, step, broken)
            with pytest.raises(type(error)):
                con.ingest(more, once="more")
        assert [number(con, t) for t in tables] == before
        assert con.stream.accounts.spent.tolist() == spent
        assert con.ingest(more, once="more") == 2
        assert [number(con, t) for t in tables] == [4, 3, 1]
        con.sql("SELECT count(*) FROM t")
        assert con.stream.accounts.spent.tolist() == [2 * 2**24, 5 * 2**24, 2**24]
