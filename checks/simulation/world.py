"""One seed's world: the order of tasks, failures, the clock, random bytes, and its inhabitants.

Tasks are threads of which one at a time runs. Each operation on a file of the world, each statement
that writes, each entry of a lake's log and each message is a *step*: there the running task may be
killed, get a fault, sleep, or another task runs; this may also happen when it waits for another.
Everything random comes from the seed, in the order of steps; so a seed has one life, and the digest
of its steps checks that.

Within tasks `os`, `open`, `secrets`, `time` and `datetime` are the world's (`Seams`), and so are
the threads that a server starts (`threads.py`): the code under test is unchanged.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.simulation.disk import MOODS, Disk

FAULTS = ("kill", "power", "full", "broken", "slow", "jump", "lost")
"""Of steps: the process dies; the machine does; no room; an error of the disk; others go first for
a long time; the clock jumps; it was done, and nobody is told."""
HOT = {"told": 10, "COMMIT done": 10, "read": 10, "fsync": 5, "pwrite": 5}
"""Steps at which something is seen that is not durable yet: faults are so many times as often."""
INFINITE = float("inf")
_PATIENCE = 600  # seconds of this machine until a task ends


class Dead(BaseException):
    """The process that this thread is a part of has died: nothing that it does has an effect."""


class Stuck(Exception):
    """A task waits for something that is no step: the simulation is wrong."""


class Process:
    """Threads die with it.

    Attributes:
        number: Its number, as `os.getpid` returns it.
        dead: True if it was killed, or its first thread has ended.
        held: Closes its open objects, as the system does for it.
        threads: The running threads.
    """

    def __init__(self, number: int) -> None:
        self.number, self.dead = number, False
        self.held: list[Callable[[], Any]] = []
        self.threads: list[Task] = []

    def ended(self, task: Task) -> None:
        """Know that a thread has ended: all others end with the first one."""
        self.dead = self.dead or task is self.threads[0]
        self.threads.remove(task)
        if not self.threads:
            self.put_down()

    def put_down(self) -> None:
        """Close its files and databases, and let go of its locks."""
        while self.held:
            self.held.pop()()


class Task:
    """A thread of the world, and its work until it ends.

    Attributes:
        sleeps: Number of times that others go first.
        ready: Returns True if it may continue; None: it may.
        until: Time by the world's `clock` at which it continues in any case.
    """

    def __init__(self, world: World, name: str, process: Process, work: Callable[[], None]) -> None:
        self.name, self.process = name, process
        self.sleeps, self.done = 0, False
        self.ready: Callable[[], bool] | None = None
        self.until = INFINITE
        process.threads.append(self)
        self.failed: BaseException | None = None
        self._world, self._work = world, work
        self._turn = threading.Lock()
        self._turn.acquire()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def give_turn(self) -> None:
        """Let it go on."""
        self._turn.release()

    def wait(self) -> None:
        """Wait until it may go on."""
        self._turn.acquire()

    def _run(self) -> None:
        self._turn.acquire()
        self._world.here.task = self
        try:
            self._work()
        except Dead:
            pass
        except BaseException as error:
            if not self.process.dead:
                self.failed = error
        self.process.ended(self)
        self.done = True
        self._world.pass_on(self)


class World:
    """The processes of one seed.

    Args:
        seed: Determines everything.
        root: An empty folder.
        rates: Frequency of each of `FAULTS` at a step.

    Attributes:
        draw: Source of all choices, except for the draws of the code under test.
        steps: Number of steps so far.
        covered: How often each fault has met each kind of step.
        clock: Seconds of a clock that nobody sets.
        set: Difference of the machine's clock.
    """

    def __init__(self, seed: int, root: Path, rates: dict[str, float]) -> None:
        self.seed, self.root, self.rates = seed, root, rates
        self.draw, self._bytes = random.Random(seed), random.Random(-seed - 1)
        self.disk = Disk(root)
        self.steps, self.clock, self.set = 0, 0.0, 1.7e9
        self.covered: Counter[tuple[str, str]] = Counter()
        self.here = threading.local()
        self.quiet = False  # no faults: what goes on is looked at
        self.lost_power = False
        self._trace = hashlib.blake2b(digest_size=16)
        self._tasks: list[Task] = []
        self._main = threading.Lock()
        self._main.acquire()
        self._processes = 0
        self._inside = False

    @property
    def digest(self) -> str:
        """Return a digest of all steps so far."""
        return self._trace.hexdigest()

    @property
    def now(self) -> float:
        """Return the time of the machine's clock, in seconds since 1970."""
        return self.clock + self.set

    # -- tasks -------------------------------------------------------------------------------------

    def process(self) -> Process:
        """Begin a process."""
        self._processes += 1
        return Process(10_000 + self._processes)

    def task(self, name: str, process: Process, work: Callable[[], None]) -> Task:
        """Begin a task; it runs when its turn comes."""
        task = Task(self, name, process, work)
        self._tasks.append(task)
        return task

    def run(self) -> None:
        """Run all tasks until they end; raise the exception of one of them."""
        ended: list[Task] = []
        try:
            while self._tasks:
                self._next().give_turn()
                if not self._main.acquire(timeout=_PATIENCE):
                    raise Stuck("a task waits for something that is no step")
                ended += [task for task in self._tasks if task.done]
                self._tasks = [task for task in self._tasks if not task.done]
        finally:
            for task in ended:
                if task.failed is not None:
                    raise task.failed

    def pass_on(self, _: Task) -> None:
        """Give the turn back: a task has ended."""
        self._main.release()

    def _next(self) -> Task:
        """Return the next task: dead ones end first."""
        able = []
        for task in self._tasks:
            if not task.done:
                if task.process.dead:
                    return task
                if task.ready is None or self.clock >= task.until or task.ready():
                    able.append(task)
        awake = [task for task in able if task.sleeps <= 0]
        for task in self._tasks:
            task.sleeps = task.sleeps - 1 if awake else 0
        if not able:
            at = min(task.until for task in self._tasks)
            if at == INFINITE:
                waiting = ", ".join(task.name for task in self._tasks)
                raise Stuck(f"all wait for each other: {waiting}")
            self.clock = at
            return self._next()
        return self.draw.choice(awake or able)

    # -- steps -------------------------------------------------------------------------------------

    def current(self) -> Task | None:
        """Return the task that runs in this thread, if one does and is not within a step."""
        return None if self._inside else getattr(self.here, "task", None)

    def step(self, what: str, of: str = "", may: tuple[str, ...] = ()) -> None:
        """Make a step: die, fail, or let others go first.

        Args:
            what: The next operation.
            of: Its object.
            may: The raised faults that can happen here.

        Raises:
            Dead: The process is.
            OSError: The error of the disk.
        """
        task = self.current()
        if task is None:
            return
        if task.process.dead:
            raise Dead
        self._trace.update(
            f"{task.name} {what} {named(of.removeprefix(str(self.root)))}\n".encode()
        )
        if self.quiet:
            return
        self.steps += 1
        self.clock += 0.001
        state = f"{what} {kind_of(of)}".strip()
        self.covered["", state] += 1
        fault = self._fault(may, HOT.get(what, 1))
        if fault:
            self.covered[fault, state] += 1
            self._trace.update(fault.encode())
            self._suffer(task, fault)
        self._switch(task)
        if fault in ("full", "broken", "lost"):
            number = errno.ENOSPC if fault == "full" else errno.EIO
            raise OSError(number, os.strerror(number))

    def rest(self, most: int) -> None:
        """Let others go first for a while."""
        task = self.current()
        if task is not None:
            task.sleeps = self.draw.randint(1, most)
            self.step("rest")

    def wait(self, ready: Callable[[], bool], seconds: float = INFINITE) -> bool:
        """Let others go on until something is so, or for some seconds; return whether it is so."""
        task = self.current()
        if task is None:
            return ready()
        if task.process.dead:
            raise Dead
        task.ready, task.until = ready, self.clock + seconds
        while not ready() and self.clock < task.until:
            self._give(task, self._next())
        task.ready, task.until = None, INFINITE
        return ready()

    def may_go_first(self) -> None:
        """Let another thread of the same process go first: it is no step, as nothing is done."""
        task = self.current()
        if task is not None and len(task.process.threads) > 1 and not self.quiet:
            self._switch(task)

    def tell(self, fact: str) -> None:
        """Have the digest depend on a fact too."""
        self._trace.update(fact.encode())

    def _fault(self, may: tuple[str, ...], times: int) -> str | None:
        at = self.draw.random() / times
        for fault in FAULTS:
            if fault in ("kill", "power", "slow", "jump") or fault in may:
                at -= self.rates.get(fault, 0)
                if at < 0:
                    return fault
        return None

    def _suffer(self, task: Task, fault: str) -> None:
        if fault == "kill":
            task.process.dead = True
            raise Dead
        if fault == "power":
            self.lost_power = True
            for other in self._tasks:
                other.process.dead = True
            raise Dead
        if fault == "slow":
            task.sleeps = self.draw.randint(3, 300)
        if fault == "jump":
            self.set += self.draw.choice([-1, 1]) * 10 ** self.draw.uniform(0, 7)

    def _switch(self, task: Task) -> None:
        if task.sleeps <= 0 and self.draw.random() < 0.6:
            return
        self._give(task, self._next())

    @staticmethod
    def _give(task: Task, other: Task) -> None:
        if other is not task:
            other.give_turn()
            task.wait()
        if task.process.dead:
            raise Dead

    def crash(self) -> str:
        """Lose power: all processes die, and the disk keeps a possible state; return how."""
        self.lost_power = False
        mood = self.draw.choice(MOODS)
        self.disk.lose_power(self.draw, mood)
        self.tell(f"power {mood}")
        return mood

    def held(self, let_go: Callable[[], Any]) -> None:
        """Know how to let go of something when the process that has it dies."""
        task = getattr(self.here, "task", None)
        if task is not None:
            task.process.held.append(let_go)

    # -- what tasks see in place of the machine ----------------------------------------------------

    def bytes(self, count: int) -> bytes:
        """Return random bytes."""
        return self._bytes.randbytes(count)

    def inside(self, path: Any) -> str | None:
        """Return an absolute path, if a task looks at it and it is in the world."""
        if self.current() is None or not isinstance(path, str | os.PathLike):
            return None
        whole = os.path.abspath(os.fspath(path))
        return whole if whole.startswith(str(self.root)) else None

    def opened(self, number: int) -> str | None:
        """Return the path of an open file by its number: see `inside`."""
        if self.current() is None:
            return None
        try:
            return self.inside(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            return None

    def unseen(self, look: Callable[..., None], *given: Any) -> None:
        """Have the disk look at something, which is no step."""
        self._inside = True
        try:
            look(*given)
        finally:
            self._inside = False


def named(path: str) -> str:
    """Return a path without digests, because the names of DuckDB's files contain numbers.

    >>> named("/lake/buckets/00000-" + "a1" * 20 + "-11223344.bucket")
    '/lake/buckets/00000--11223344.bucket'
    """
    return _DIGEST.sub("", path)


_DIGEST = re.compile("[0-9a-f]{40}")


def kind_of(path: str) -> str:
    """Return the kind of a file, without its numbers.

    >>> kind_of("/w/lake/ledger/kind=notes/.ab12-cd.parquet.12"), kind_of("/w/s.sparseq.session.ab")
    ('part.tmp', 'session.tmp')
    """
    name = os.path.basename(path)
    for part, kind in _KINDS:
        if part in name:
            return kind + (".tmp" if name.startswith(".") and kind == "part" else "")
    return "folder" if name and "." not in name else "file" if name else ""


_KINDS = (
    (".parquet", "part"),
    ("checkpoint", "checkpoint"),
    (".json", "entry"),
    (".session.", "session.tmp"),
    (".session", "session"),
    (".wal", "log"),
    (".mark", "mark"),
    (".sparseq", "store"),
)


def silence() -> None:
    """Suppress messages of a dead process's objects when they are deleted."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda args: None if isinstance(args.exc_value, Dead) else before(args)
