"""Who is in a world: drivers of a lake, and what each does until it dies."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import sparseq
from benchmarks.simulation.checks import COUNTS, KINDS, QUESTION, Finding, Witness, rows
from benchmarks.simulation.world import Process, World
from sparseq.base.errors import SparseqError, StoreError
from sparseq.sql.plan import Query
from sparseq.store.store import Store

LIVES = 8
"""Times that a machine is begun, in one world."""


@cache
def template(folder: Path) -> Query:
    """Make what all worlds begin with, in a folder; return the question, lowered."""
    more = {"user": "who", "keys": {"kind": list(KINDS)},
            "purposes": [sparseq.Questions(in_or_out=True, counts=COUNTS)]}  # fmt: skip
    with sparseq.create(folder / "s.sparseq", {"visits": rows()}, **more) as made:
        query = made.lower(QUESTION)
    sparseq.create(f"lake://{folder / 'lake'}", {"visits": rows()}, buckets=1, **more).close()
    return query


class Lake:
    """A lake that several drivers have open, who ask, note, fold and sweep."""

    name = "lake"

    def __init__(self, world: World, made: Path, query: Query) -> None:
        self._world, self._query = world, query
        self._at = world.root / "lake"
        shutil.copytree(made / "lake", self._at)
        world.disk.begin()
        self._witness, self._asked = Witness(), list[str]()

    def live(self, steps: int) -> None:
        """Live until a machine has died so many times, or the steps are over."""
        world = self._world
        until = world.steps + steps
        for _ in range(LIVES):
            end = min(until, world.steps + world.draw.randint(200, 3000))
            for number in range(world.draw.randint(1, 4)):
                self._begin(f"driver{number}", end)
            world.run()
            if world.lost_power:
                world.crash()
            self._look()
            if world.steps >= until:
                break

    def _begin(self, name: str, end: int) -> None:
        world = self._world

        def work() -> None:
            while world.steps < end:
                self._drive(name, end)

        def lives(process: Process) -> Callable[[], None]:
            def life() -> None:
                work()

            return life

        process = world.process()
        world.task(name, process, lives(process))

    def _drive(self, name: str, end: int) -> None:
        world = self._world
        try:
            store = sparseq.connect(self._at)
        except StoreError:
            return  # another was sweeping: once more
        while world.steps < end:
            try:
                self._act(store, name)
            except SparseqError:
                store.close()
                return
        store.close()

    def _act(self, store: Store, name: str) -> None:
        world, draw = self._world, self._world.draw
        what = draw.choices(["ask", "again", "known", "history", "fold", "note", "sweep"],
                            [6, 4, 1, 1, 1, 1, 1])[0]  # fmt: skip
        world.step(what, "answer")
        if what == "again" and self._asked:
            request = draw.choice(self._asked)
            self._witness.sees(store.ask(self._query, request_id=request), request)
        elif what in ("ask", "again"):
            request = f"{name}.{len(self._asked)}"
            self._asked.append(request)
            self._witness.sees(store.ask(self._query, request_id=request), request)
        elif what == "known":
            self._witness.sees(store.ask(self._query))
        elif what == "history":
            for release in store.releases():
                self._witness.sees(store.release(release.id))
        elif what == "fold":
            store.stream.ledger.fold(0)
        elif what == "note":
            store.backend.tell_curator("note", "a line")
        else:
            store.backend.sweep()  # type: ignore[attr-defined]

    def _look(self) -> None:
        """Open the lake, with nobody else there; compare it with what has left."""
        try:
            store = sparseq.connect(self._at)
        except Exception as error:
            raise Finding(f"the lake does not open: {type(error).__name__}: {error}") from error
        try:
            self._witness.looks_at(store)
            self._world.tell(f"{len(self._witness.answers)} {sorted(self._witness.answers)}")
        finally:
            store.close()
