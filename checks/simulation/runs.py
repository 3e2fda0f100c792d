"""Worlds that are run: one seed, or fresh ones until the time is over."""

from __future__ import annotations

import gc
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty

import pyarrow as pa

from checks.simulation.checks import Finding
from checks.simulation.drivers import File, Lake, Marked, Setting, template
from checks.simulation.faults import PLANTED
from checks.simulation.monitors import Followed, FollowedLake
from checks.simulation.populations import Populated
from checks.simulation.seams import Seams
from checks.simulation.servers import Served, ServedLake
from checks.simulation.upgrades import Upgraded
from checks.simulation.world import FAULTS, World, silence
from sparseq.question.plan import Query

SETTINGS: dict[str, type[Setting]] = {
    "lake": Lake,
    "file": File,
    "marked": Marked,
    "monitor": Followed,
    "monitors": FollowedLake,
    "server": Served,
    "servers": ServedLake,
    "population": Populated,
    "upgrade": Upgraded,
}
_RARE = (
    "file",
    "monitors",
    "marked",
    "servers",
    "population",
    "monitor",
    "server",
    "monitors",
    "upgrade",
    "servers",
)
MIX = tuple(each for setting in _RARE for each in (*("lake",) * 5, setting))
"""Settings of seeds, in turn: a step of a lake takes less time than one of DuckDB."""
_LEAVES_MUCH = ("server", "servers")
STEPS = 3000
_REAL_LOG = 29
"""Each so many seeds, a lake's entries are those of delta-rs."""
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Run:
    """The outcome of a seed.

    Attributes:
        seed, setting: Seed and setting of the world.
        steps: Number of steps.
        digest: Digest of all steps.
        found: The broken rule; "": none.
        covered: How often each fault met each kind of step.
    """

    seed: int
    setting: str
    steps: int
    digest: str
    found: str
    covered: Counter[tuple[str, str]]


class Runner:
    """Runs worlds, in a folder in memory.

    Args:
        base: An empty folder.
    """

    def __init__(self, base: Path) -> None:
        self._base, self._count = base, 0
        self._made: dict[str, tuple[Path, Query]] = {}

    def run(self, seed: int, setting: str = "", steps: int = STEPS, plant: str = "") -> Run:
        """Run the world of a seed.

        Args:
            seed: Determines everything.
            setting: One of `SETTINGS`; by default the seed's.
            steps: Approximate number of steps.
            plant: A fault to plant; see `PLANTED`.
        """
        setting, found = setting or MIX[seed % len(MIX)], ""
        self._count += 1  # a place of its own: this process keeps buckets open by their paths
        root = self._base / f"w{self._count}"
        root.mkdir()
        made = self._template(setting)
        world = World(seed, root, rates(random.Random(seed)))
        fault = PLANTED[plant].planted() if plant else nullcontext()
        try:
            with Seams(world, seed % _REAL_LOG == 0).in_place(), fault:
                SETTINGS[setting](world, *made).live(steps)
        except Finding as finding:
            found = str(finding)
        except Exception as error:  # one that is not ours, in the midst of a driver
            found = "".join(traceback.format_exception(error))
        finally:
            shutil.rmtree(root)
        if setting in _LEAVES_MUCH:
            gc.collect()  # databases in memory of servers that were killed
        return Run(seed, setting, world.steps, world.digest, found, world.covered)

    def _template(self, setting: str) -> tuple[Path, Query]:
        if setting not in self._made:
            folder = self._base / f"made-{setting}"
            folder.mkdir()
            self._made[setting] = folder, template(SETTINGS[setting], folder)
        return self._made[setting]

    def runs(
        self, seed: int, seconds: float, steps: float, plant: str = "", each: int = 1
    ) -> Iterator[Run]:
        """Run the worlds of seeds, one after another, until the time or the steps are used up.

        Args:
            seed: The first seed.
            seconds: Time.
            steps: Approximate largest number of steps.
            plant: See `run`; only settings in which it can do harm are run.
            each: Distance of the seeds: other processes run the rest.
        """
        until, done = time.perf_counter() + seconds, 0
        settings = PLANTED[plant].settings if plant else ()
        while time.perf_counter() < until and done < steps:
            setting = settings[seed % len(settings)] if settings else ""
            run = self.run(seed, setting, plant=plant)
            yield run
            done += run.steps
            seed += each


def runs_of(
    workers: int, seed: int, seconds: float, steps: float, plant: str = ""
) -> Iterator[Run]:
    """Run worlds in several processes, as `Runner.runs` does; yield each when it is over.

    Closing the iterator ends the processes.
    """
    if workers == 1:
        with runner() as worlds:
            yield from worlds.runs(seed, seconds, steps, plant)
        return
    context = get_context("spawn")  # DuckDB's threads don't outlive a fork
    found: Queue[Run | None] = context.Queue()
    given = [(found, seed + k, seconds, steps / workers, plant, workers) for k in range(workers)]
    begun = [context.Process(target=_work, args=one, daemon=True) for one in given]
    try:
        for process in begun:
            process.start()
        left = workers
        while left:
            try:
                run = found.get(timeout=5)
            except Empty:
                if any(process.exitcode for process in begun):
                    raise RuntimeError("a process of the simulation has ended by itself") from None
                continue
            if run is None:
                left -= 1
            else:
                yield run
    finally:
        for process in begun:
            process.terminate()
            process.join()


def _work(
    found: Queue[Run | None], seed: int, seconds: float, steps: float, plant: str, each: int
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # its folder in memory goes with it
    with runner() as worlds:
        for run in worlds.runs(seed, seconds, steps, plant, each):
            found.put(run)
        found.put(None)


@contextmanager
def runner() -> Iterator[Runner]:
    """Have a place for worlds: in memory, where the system has such a place."""
    silence()
    logging.disable()  # of servers that are told of faults
    cores, readers = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    base = tempfile.mkdtemp(prefix="simulation-", dir=_MEMORY if _MEMORY.is_dir() else None)
    try:
        yield Runner(Path(base))
    finally:
        shutil.rmtree(base)
        pa.set_cpu_count(cores)
        pa.set_io_thread_count(readers)


def rates(draw: random.Random) -> dict[str, float]:
    """Return how often each fault happens in a world: most worlds have a few kinds only."""
    often = {
        "kill": (0, 0, 1 / 1000, 1 / 200, 1 / 50),
        "power": (0, 1 / 2000, 1 / 500, 1 / 100),
        "full": (0, 0, 1 / 300, 1 / 50),
        "broken": (0, 0, 1 / 300, 1 / 50),
        "slow": (0, 1 / 100),
        "jump": (0, 1 / 500),
        "lost": (0, 0.05),
    }
    assert set(often) == set(FAULTS)
    return {fault: draw.choice(some) for fault, some in often.items()}
