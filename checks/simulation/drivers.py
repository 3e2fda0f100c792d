"""The inhabitants of a world, and their actions until they die: a lake, a store in a file.

A *life* lasts from the start of a machine to its end: it loses power, or all tasks are done.
Between two lives an operator may copy files, and put copies back.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import duckdb

import sparseq
from checks.simulation.checks import COUNTS, KINDS, PEOPLE, QUESTION, Finding, Witness, rows
from checks.simulation.disk import SECTOR
from checks.simulation.seams import Seams
from checks.simulation.world import World, kind_of
from sparseq.answers.answer import Answer
from sparseq.base.errors import SparseqError
from sparseq.ledger.releases import Release
from sparseq.question.plan import Query
from sparseq.store._duckdb.outside_mark import keep_mark
from sparseq.store.store import Store
from sparseq.stream.batches import Request

LIVES = 8
"""Lives in one world, at most."""
MOST_COPIES = 4
"""Of a store."""


MORE: dict[str, Any] = {
    "user": "who",
    "keys": {"kind": list(KINDS)},
    "purposes": [sparseq.Questions(in_or_out=True, counts=COUNTS)],
}
"""How stores are made: each answer is a `COUNTS`-th part of everybody's budget."""


def template(setting: type[Setting], folder: Path) -> Query:
    """Make what all worlds of a setting begin with, in a folder; return the question, lowered."""
    world = World(0, folder, {})
    world.quiet = True
    queries: list[Query] = []
    with Seams(world, real_log=True).in_place():
        world.task("make", world.process(), lambda: queries.append(setting.make(folder)))
        world.run()
    return queries[0]


class Setting(ABC):
    """The inhabitants of a world.

    Args:
        world: The world.
        made: The folder of `template`.
        query: The question.

    Attributes:
        ways: Possible actions of a driver, and their frequencies.
        longest: Largest number of steps of a life.
    """

    ways: ClassVar[dict[str, int]]
    longest: ClassVar[int] = 3000

    def __init__(self, world: World, made: Path, query: Query) -> None:
        self.world, self.made, self.query = world, made, query
        self.witness, self.asked = Witness(self.takes), list[str]()
        self.prepare()
        world.disk.begin()

    @classmethod
    @abstractmethod
    def make(cls, folder: Path) -> Query:
        """Make what worlds begin with, in a folder; return the question, lowered."""

    def prepare(self) -> None:
        """Lay out the files."""
        shutil.copytree(self.made, self.world.root, dirs_exist_ok=True)

    def takes(self, release: Release) -> Collection[int]:
        """Return who a release is about, whether they can pay for it or not."""
        return range(PEOPLE)

    @abstractmethod
    def places(self) -> list[Path]:
        """Return what drivers open in this life, one each."""

    @abstractmethod
    def act(self, store: Store, what: str, name: str) -> None:
        """Do what only such a store knows."""

    def opened(self, place: Path) -> None:  # noqa: B027 - there is one place
        """Record that the store at a place has opened."""

    def instead(self, place: Path) -> Path:
        """Return the place to open after the process that had a place open was killed."""
        return place

    def more(self, end: int) -> None:  # noqa: B027 - drivers are alone there
        """Start further inhabitants, until this number of steps."""

    def operate(self) -> None:  # noqa: B027 - nobody does anything with a lake's files
        """Do what somebody does with files while nothing runs."""

    def live(self, steps: int) -> None:
        """Live until there were enough lives, or steps.

        Raises:
            Finding: Something happened that must never happen.
        """
        world = self.world
        until = world.steps + steps
        for _ in range(LIVES):
            end = min(until, world.steps + world.draw.randint(100, self.longest))
            for number, place in enumerate(self.places()):
                self._begin(f"driver{number}", place, end)
            self.more(end)
            world.run()
            if world.lost_power:
                world.crash()
                self.look()
            if world.steps >= until:
                break
            self.operate()
        self.look()

    def _begin(self, name: str, place: Path, end: int) -> None:
        """Begin a process that has a driver; if it is killed, another one begins."""
        process = self.world.process()

        def life() -> None:
            try:
                while self.world.steps < end:
                    self._drive(name, place, end)
            finally:
                if process.dead and not self.world.lost_power and self.world.steps < end:
                    self._begin(name, self.instead(place), end)

        self.world.task(name, process, life)

    def _drive(self, name: str, place: Path, end: int) -> None:
        """Open a store, and use it until it has to be opened again."""
        self.world.step("connect")
        try:
            store = sparseq.connect(place)
        except SparseqError:  # another has it, or the disk fails
            self.world.rest(300)
            return
        self.opened(place)
        with suppress(SparseqError):
            if self.world.draw.random() < 0.5:
                self._read(store)
                self.world.step("read")
            while self.world.steps < end and self.world.draw.random() < 0.97:
                self._act(store, name)
        with suppress(SparseqError):
            store.close()

    def _act(self, store: Store, name: str) -> None:
        draw = self.world.draw
        what = draw.choices(list(self.ways), list(self.ways.values()))[0]
        self.world.step(what)
        if what == "again" and self.asked:
            self._ask(store, draw.choice(self.asked))
        elif what in ("ask", "again"):
            self._ask(store, self._request(name))
        elif what == "known":
            self.witness.sees(store.ask(self.query))
        elif what == "many":
            named = [self._request(name) for _ in range(draw.randint(2, 4))]
            outcomes = store.ask_many([Request(self.query, request_id=one) for one in named])
            for one, outcome in zip(named, list(outcomes), strict=True):
                if outcome.answer is not None:
                    self.witness.sees(outcome.answer, one)
        elif what == "history":
            self._read(store)
        elif what == "note":
            store.backend.tell_curator("note", "a line")
        elif what == "fold":
            store.stream.ledger.fold(0)
        else:
            self.act(store, what, name)

    def _read(self, store: Store) -> None:
        for release in store.releases(last=3):
            self.witness.sees(Answer.from_bytes(release.answer))

    def _request(self, name: str) -> str:
        self.asked.append(f"{name}.{len(self.asked)}")
        return self.asked[-1]

    def _ask(self, store: Store, request: str) -> None:
        """Ask as a client does, over a network that repeats requests and loses answers."""
        draw, often = self.world.draw, self.world.rates.get("lost", 0)
        for _ in range(2 if draw.random() < often else 1):
            answer = store.ask(self.query, request_id=request)
            if draw.random() >= often:
                self.witness.sees(answer, request)

    def look(self) -> None:
        """Open the store alone and without faults; compare it with the released answers."""
        self.quietly(lambda: self._look(self.places()[0]))

    def quietly(self, work: Callable[[], None]) -> None:
        """Run something as a separate process, without faults."""
        self.world.quiet = True
        self.world.task("look", self.world.process(), work)
        try:
            self.world.run()
        finally:
            self.world.quiet = False

    def _look(self, place: Path) -> None:
        try:
            store = sparseq.connect(place)
        except SparseqError as error:
            raise Finding(f"{place.name} does not open: {error}") from error
        try:
            self._looks_at(store)
        finally:
            store.close()

    def _looks_at(self, store: Store) -> None:
        self.witness.looks_at(store)
        self.world.tell(repr(sorted(self.witness.answers.values())))


class Lake(Setting):
    """A lake that several drivers have open, who ask, note, fold and sweep."""

    ways: ClassVar[dict[str, int]] = {
        "ask": 6,
        "again": 4,
        "many": 1,
        "known": 1,
        "history": 1,
        "fold": 1,
        "note": 1,
        "sweep": 1,
    }

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        with sparseq.create(
            f"lake://{folder / 'lake'}", {"visits": rows()}, buckets=1, **MORE
        ) as s:
            return s.lower(QUESTION)

    def places(self) -> list[Path]:
        """See `Setting`."""
        return [self.world.root / "lake"] * self.world.draw.randint(1, 4)

    def act(self, store: Store, what: str, name: str) -> None:
        """See `Setting`."""
        store.backend.sweep()  # type: ignore[attr-defined]


class File(Setting):
    """A store in a file, and backups of it.

    One driver has it open; a second one tries to. A backup includes the record next to the store;
    so an earlier state of the file alone is refused.
    """

    ways: ClassVar[dict[str, int]] = {
        "ask": 8,
        "again": 4,
        "many": 1,
        "known": 1,
        "history": 2,
        "fold": 1,
        "note": 1,
        "checkpoint": 1,
        "backup": 1,
    }

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        for name in ("here", "far", "copies"):
            (folder / name).mkdir()
        with sparseq.create(folder / "here" / "s.sparseq", {"visits": rows()}, **MORE) as store:
            return store.lower(QUESTION)

    def prepare(self) -> None:
        """See `Setting`."""
        super().prepare()
        self.store = self.world.root / "here" / "s.sparseq"
        self._copies = 0

    def places(self) -> list[Path]:
        """See `Setting`."""
        return [self.store] * self.world.draw.randint(1, 2)

    def act(self, store: Store, what: str, name: str) -> None:
        """See `Setting`."""
        if what == "checkpoint":
            with suppress(duckdb.Error):  # of nobody's words
                store.backend.database.execute("CHECKPOINT")
            return
        self._copies += 1
        sparseq.backup(store, self.world.root / "copies" / f"b{self._copies}.sparseq")

    def operate(self) -> None:
        """Put an earlier state of the file in its place, or have it rot: refused, or whole."""
        if self.world.draw.random() < 0.3:
            self._rots()
        copies = sorted((self.world.root / "copies").glob("b*.sparseq"))
        if not copies or self.world.draw.random() < 0.5:
            return
        log = Path(f"{self.store}.wal")
        if log.exists():
            return
        kept = self.store.with_name("kept")
        self.store.rename(kept)
        shutil.copy(self.world.draw.choice(copies), self.store)
        self.world.disk.begin()
        self.quietly(self._tried)
        self.store.unlink()
        kept.rename(self.store)
        self.world.disk.begin()

    def _rots(self) -> None:
        """Let a sector of a file rot, open the store, and put the sector back."""
        draw = self.world.draw
        files = sorted(p for p in self.world.root.rglob("*") if p.is_file() and p.stat().st_size)
        path = draw.choice([self.store, *files])
        before = path.read_bytes()
        at = draw.randrange(0, len(before), SECTOR)
        rotten = draw.choice([bytes(SECTOR), draw.randbytes(SECTOR)])
        path.write_bytes(before[:at] + rotten + before[at + SECTOR :])
        self.world.tell(f"rot {at}")
        self.world.covered["rot", f"rest {kind_of(str(path))}"] += 1
        aside = self.store.with_name("aside")
        shutil.copytree(self.store.parent, aside)
        self.quietly(self._tried)
        for file in self.store.parent.glob("s.sparseq*"):
            file.unlink()
        for file in aside.iterdir():
            shutil.move(file, self.store.parent / file.name)
        aside.rmdir()
        path.write_bytes(before)
        self.world.disk.begin()

    def _tried(self) -> None:
        """Open the store if it opens: it has all released answers, or reports that it can't know.

        An operation that reads a rotten block may report it at that time.
        """
        with suppress(SparseqError, duckdb.Error):
            store = sparseq.connect(self.store)
            try:
                self.witness.looks_at(store)
            finally:
                store.backend.abandon()


class Marked(File):
    """A store with a mark outside of it, and copies of it that are asked as well.

    All copies have one observer: any that opens has all released answers.
    """

    longest: ClassVar[int] = 600

    def prepare(self) -> None:
        """See `Setting`."""
        super().prepare()
        keep_mark(self.store, self.world.root / "far" / "s.mark")
        self._all = self._used = [self.store]
        self._last = self._latest = self.store

    def places(self) -> list[Path]:
        """See `Setting`: two of the store and its copies, or one."""
        self._used = self.world.draw.sample(self._all, min(2, len(self._all)))
        return self._used

    def instead(self, place: Path) -> Path:
        """See `Setting`: now and then, somebody takes a copy, and often the latest one."""
        other = self.world.draw.choice([place, place, self._latest, *self._all])
        self._used = [*self._used, other]
        return other

    def opened(self, place: Path) -> None:
        """See `Setting`: that one is never written over."""
        self._last = place

    def more(self, end: int) -> None:
        """Start a task that copies a store at some steps, while it is open: all at one moment."""
        self.world.task("copier", self.world.process(), lambda: self._copies_some(end))

    def _copies_some(self, end: int) -> None:
        while self.world.steps < end:
            self.world.rest(40)
            self.world.step("copy")
            self.world.unseen(self._copy)

    def operate(self) -> None:
        """Copy a store with all its files, or let a file rot."""
        if self.world.draw.random() < 0.3:
            self._rots()
        if self.world.draw.random() < 0.5:
            self._copy()
            self.world.disk.begin()

    def _copy(self) -> None:
        """Copy a store with all its files; a later copy replaces an earlier one.

        The copy that opened last is not overwritten: it may be the only whole one.
        """
        at, count = self.world.draw.choice([*self._used, *self._all]), len(self._all)
        free = [one for one in self._all if one not in (at, self._last, *self._used)]
        if count <= MOST_COPIES:
            to = self.world.root / "copies" / f"c{count}" / at.name
            to.parent.mkdir()
            self._all.append(to)
        elif free:
            to = self.world.draw.choice(free)
        else:
            return
        self._latest = to
        for before in sorted(to.parent.iterdir()):
            self.world.disk.forget(str(before))
            before.unlink()
        for beside in sorted(at.parent.glob(f"{at.name}*")):
            shutil.copy(beside, to.parent / beside.name)
            self.world.disk.flushed(str(to.parent / beside.name))
        for folder in (to.parent, to.parent.parent):
            self.world.disk.flushed(str(folder))

    def look(self) -> None:
        """See `Setting`: one of the copies opens."""
        self.quietly(self._look_at_all)

    def _look_at_all(self) -> None:
        refusals = []
        for place in self.world.draw.sample(self._all, len(self._all)):
            try:
                store = sparseq.connect(place)
            except SparseqError as error:
                refusals.append(str(error))
                continue
            self.opened(place)
            self._looks_at(store)
            store.close()
        if len(refusals) == len(self._all):
            raise Finding(f"no copy opens: {refusals}")
