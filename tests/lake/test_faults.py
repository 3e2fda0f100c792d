"""No charge is lost, and nothing is answered without a charge: whatever dies, sleeps or repeats."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.lake import delta_table, fenced_log
from sparseq.lake.fenced_log import FencedLog
from sparseq.lake.fleets import Here, Processes
from sparseq.lake.lake_store import open_lake
from sparseq.store.store import Store

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
COUNT = "SELECT kind, count(*) AS n FROM visits GROUP BY kind"
PEOPLE = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of three buckets."""
    path = tmp_path_factory.mktemp("made") / "lake"
    rng = np.random.default_rng(5)
    who = [*range(PEOPLE), *rng.integers(0, PEOPLE, 200).tolist()]
    rows = pa.table({"who": who, "kind": rng.choice(["a", "b"], len(who))})
    sparseq.create(
        f"lake://{path}",
        {"visits": rows},
        user="who",
        keys={"kind": ["a", "b"]},
        buckets=3,
        purposes=[sparseq.Questions(in_or_out=True, counts=40_000)],
    ).close()
    return path


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "lake")


def spent(path: Path) -> tuple[int, int]:
    """How many releases there are, and what all people have spent, as it is durable."""
    with sparseq.connect(path) as opened:
        ledger = opened.stream.ledger
        total = int(opened.stream.accounts.spent.sum())
        assert total == sum(int(ledger.charges(n + 1)[1].sum()) for n in range(len(ledger)))
        assert (opened.stream.accounts.spent <= opened.stream.accounts.budgets).all()
        return len(ledger), total


def price(path: Path) -> int:
    """What a question costs all people, who can all pay."""
    before = spent(path)[1]
    with sparseq.connect(path) as opened:
        opened.sql(COUNT, fresh=True)
    return spent(path)[1] - before


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.deep), "after"])
def test_a_driver_dies_beside_its_commit(lake: Path, moment: str) -> None:
    cost, (releases, total) = price(lake), spent(lake)
    died = subprocess.run([sys.executable, __file__, str(lake), moment], check=False)
    assert died.returncode == -signal.SIGKILL
    done = int(moment == "after")
    assert spent(lake) == (releases + done, total + done * cost)
    with sparseq.connect(lake) as opened:
        again = [opened.sql(COUNT, request_id="mine").to_bytes() for _ in range(2)]
    assert again[0] == again[1]
    assert spent(lake) == (releases + 1, total + cost)


def dies_in_its_commit(lake: Path, every: int) -> None:
    """Kill a driver at its writes, one after the other, every so many; compare what is durable."""
    cost, (releases, total) = price(lake), spent(lake)
    done = subprocess.run(
        [sys.executable, __file__, str(lake), str(every)], stdout=subprocess.PIPE, check=True
    )
    died, now = int(done.stdout), spent(lake)
    assert died * every > 8
    assert now[1] == total + (now[0] - releases) * cost
    assert 1 <= now[0] - releases < died  # the last one lived; most died before the entry


def test_a_driver_dies_in_its_commit(lake: Path) -> None:
    dies_in_its_commit(lake, 7)


@pytest.mark.deep
def test_a_driver_dies_anywhere_in_its_commit(lake: Path) -> None:
    """At every write: before a file, before it has its name, before and after the entry."""
    dies_in_its_commit(lake, 1)


@pytest.mark.deep
def test_a_driver_dies_at_random_moments(lake: Path) -> None:
    """At moments that nobody chose: a driver asks on and on, and is killed, twenty times."""
    cost, draw = price(lake), random.Random(1)
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, __file__, str(lake), "on and on"], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0, 1))
        process.kill()
        told = len(process.stdout.read().splitlines())
        releases, total = spent(lake)
        assert releases >= told  # what was told is durable
        assert total == releases * cost


def test_of_two_drivers_one_is_told_and_goes_on_after_opening_again(lake: Path) -> None:
    cost, (releases, total) = price(lake), spent(lake)
    one, other = sparseq.connect(lake), sparseq.connect(lake)
    one.sql(COUNT, fresh=True)
    with pytest.raises(sparseq.StoreInUse):
        other.sql(COUNT, fresh=True)
    assert spent(lake) == (releases + 1, total + cost)
    with pytest.raises(sparseq.StoreError):
        other.sql(COUNT, fresh=True)  # it is closed: what it knows is out of date
    with sparseq.connect(lake) as other:
        other.sql(COUNT, fresh=True)
    assert spent(lake) == (releases + 2, total + 2 * cost)


def test_a_driver_that_slept_through_many_commits_is_told(lake: Path) -> None:
    cost, (releases, total) = price(lake), spent(lake)
    sleeper = sparseq.connect(lake)
    with sparseq.connect(lake) as driver:
        for _ in range(5):
            driver.sql(COUNT, fresh=True)
    with pytest.raises(sparseq.StoreInUse):
        sleeper.sql(COUNT, fresh=True)
    assert spent(lake) == (releases + 5, total + 5 * cost)


def test_drivers_that_race_commit_in_some_order(lake: Path) -> None:
    cost, (releases, total) = price(lake), spent(lake)
    answered: list[int] = []

    def race() -> None:
        for _ in range(3):
            with contextlib.suppress(sparseq.StoreError), sparseq.connect(lake) as driver:
                answered.append(driver.sql(COUNT, fresh=True).facts.release)

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(race) for _ in range(3)]:
            done.result()
    now = spent(lake)
    assert sorted(answered) == list(range(releases + 1, now[0] + 1))
    assert now[1] == total + len(answered) * cost


@pytest.mark.parametrize(
    "fault",
    [
        test_of_two_drivers_one_is_told_and_goes_on_after_opening_again,
        test_a_driver_that_slept_through_many_commits_is_told,
        test_drivers_that_race_commit_in_some_order,
    ],
    ids=["two", "slept", "race"],
)
def test_without_the_fence_the_same_tests_fail(
    lake: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Path], None]
) -> None:
    """Nothing stops the second driver: this is what the fence is for."""

    def unfenced(log: FencedLog, new: Sequence[object], old: Sequence[object], _: str) -> None:
        table = delta_table.open_table(log.folder)
        parts = [[(f.path, f.kind, f.size) for f in some] for some in (new, old)]  # type: ignore[attr-defined]
        delta_table.extend(table, *parts, {}, retries=15)

    monkeypatch.setattr(FencedLog, "_extend", unfenced)
    monkeypatch.setattr(FencedLog, "_is_entry", lambda *_: True)
    with pytest.raises((AssertionError, sparseq.StoreError, pytest.fail.Exception)) as found:
        fault(lake)
    assert not isinstance(found.value, sparseq.StoreInUse)


def test_a_reply_that_is_lost_is_looked_up(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is there: it is answered, and charged once."""
    cost, (releases, total) = price(lake), spent(lake)
    loses_replies(monkeypatch)
    with sparseq.connect(lake) as driver:
        assert driver.sql(COUNT, fresh=True).facts.release == releases + 1
        assert driver.sql(COUNT, fresh=True).facts.release == releases + 2
    assert spent(lake) == (releases + 2, total + 2 * cost)


def test_a_reply_that_is_lost_and_can_not_be_looked_up_is_not_answered(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been charged. Opened again the lake knows, and a request id has its answer."""
    cost, (releases, total) = price(lake), spent(lake)
    with monkeypatch.context() as broken, sparseq.connect(lake) as driver:
        loses_replies(broken, also_the_log=True)
        with pytest.raises(sparseq.StoreError, match="the answer was not given"):
            driver.sql(COUNT, request_id="mine")
        with pytest.raises(sparseq.StoreError):
            driver.sql(COUNT, request_id="mine")  # until it is opened again
    assert spent(lake) == (releases + 1, total + cost)
    with sparseq.connect(lake) as again:
        assert again.sql(COUNT, request_id="mine").facts.release == releases + 1
    assert spent(lake) == (releases + 1, total + cost)


def loses_replies(monkeypatch: pytest.MonkeyPatch, also_the_log: bool = False) -> None:
    """Have every put succeed, and nobody be told; and the log not be readable either."""
    put = fenced_log.extend

    def lost(*given: Any) -> None:
        put(*given)
        raise OSError("the connection was closed")

    def unreadable(*_: object) -> bool:
        raise OSError("no route to host")

    monkeypatch.setattr(fenced_log, "extend", lost)
    if also_the_log:
        monkeypatch.setattr(FencedLog, "_is_entry", unreadable)


class Odd(Here):
    """A fleet that does tasks twice, or loses or repeats what came of them."""

    def __init__(self, how: str) -> None:
        self._how = how

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Fleet`."""
        if self._how == "done twice":
            list(super().run(tasks))
            return super().run(tasks)
        answers = list(super().run(tasks))
        if self._how == "told twice":
            return iter([*answers, answers[0]])
        return iter(answers[1:])


def test_a_task_that_is_done_twice_changes_nothing(lake: Path) -> None:
    cost, (releases, total) = price(lake), spent(lake)
    with Store(open_lake(lake, Odd("done twice"))) as store:
        store.sql(COUNT, fresh=True)
    assert spent(lake) == (releases + 1, total + cost)


@pytest.mark.parametrize("how", ["told twice", "lost"])
def test_what_a_fleet_repeats_or_loses_is_not_answered(lake: Path, how: str) -> None:
    before = spent(lake)
    store = Store(open_lake(lake, Odd(how)))
    with pytest.raises(sparseq.StoreError, match="a bucket"):
        store.sql(COUNT, fresh=True)
    assert spent(lake) == before


def test_a_process_that_is_killed_is_replaced_and_its_task_done_again(lake: Path) -> None:
    cost, (releases, total) = price(lake), spent(lake)
    fleet = Processes(1)
    with Store(open_lake(lake, fleet)) as store:
        store.sql(COUNT, fresh=True)
        fleet.workers[0].process.kill()
        store.sql(COUNT, fresh=True)
    assert fleet.workers == []
    assert spent(lake) == (releases + 2, total + 2 * cost)


def test_half_written_files_change_nothing(lake: Path) -> None:
    before = spent(lake)
    (lake / "ledger" / "kind=charges").mkdir(exist_ok=True)
    (lake / "ledger" / "kind=charges" / "half.parquet").write_bytes(b"PAR1")
    (lake / "buckets" / "00000-half.bucket").write_bytes(b"half of it")
    assert spent(lake) == before


def _victim(path: Path, how: str) -> None:
    """Ask, and die beside the commit; or ask on and on."""

    def dying(self: FencedLog, new: Sequence[object], old: Sequence[object], number: str) -> None:
        if how == "after":
            whole(self, new, old, number)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    opened = sparseq.connect(path)
    if how == "on and on":
        print(flush=True)
        while True:
            print(opened.sql(COUNT, fresh=True).facts.release, flush=True)
    whole = FencedLog._extend
    FencedLog._extend = dying  # type: ignore[assignment,method-assign]
    opened.sql(COUNT, request_id="mine")


def _everywhere(path: Path, every: int) -> None:
    """Have children die at a write in a commit, and at later ones; say how many died."""
    died = 0
    for moment in range(0, 1000, every):
        child = os.fork()
        if child == 0:
            _dies_at(path, moment)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            break
        died += 1
    print(died)


def _dies_at(path: Path, moment: int) -> None:
    left = [moment]

    def counted(call: Any) -> Any:
        def counting(*given: Any, **more: Any) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*given, **more)

        return counting

    opened = sparseq.connect(path)
    for name in ("fsync", "replace"):
        setattr(os, name, counted(getattr(os, name)))
    fenced_log.extend = counted(fenced_log.extend)
    opened.sql(COUNT, fresh=True)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[2].isdigit():
        _everywhere(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        _victim(Path(sys.argv[1]), sys.argv[2])
