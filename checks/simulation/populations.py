"""Stores that draw on one population: nobody is above a budget, whatever is killed or put back."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import sparseq
from checks.population_children import ENDS
from checks.population_kills import audited
from checks.simulation.checks import COUNTS, KINDS, PEOPLE, QUESTION, Finding, Witness, rows
from checks.simulation.drivers import Setting
from sparseq.answers.answer import Answer
from sparseq.base.errors import SparseqError
from sparseq.question.plan import Query
from sparseq.store.population import open_population
from sparseq.store.store import Store

STORES = ("a", "b")
KAPPA, MOST, SHARE = 0.5, 0.35, 0.05
"""Of the population; of each store, which together may draw more; of a draw."""
MORE: dict[str, Any] = {
    "user": "who",
    "keys": {"kind": list(KINDS)},
    "kappa": MOST,
    "purposes": [sparseq.Questions(in_or_out=True, counts=20 * COUNTS)],
}


class Populated(Setting):
    """Two stores about the same people: they ask, draw, and people come to them."""

    ways: ClassVar[dict[str, int]] = {
        "ask": 6,
        "again": 3,
        "draw": 3,
        "come": 2,
        "history": 1,
        "fold": 1,
    }
    longest: ClassVar[int] = 800

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`: a store knows where its population lies, so each world has its own."""
        with sparseq.create(None, {"visits": rows()}, **MORE) as store:
            return store.lower(QUESTION)

    def prepare(self) -> None:
        """See `Setting`."""
        root = self.world.root
        self.people = root / "people"
        self.saved = root.with_name(f"{root.name}.saved")
        self.witnesses = {name: Witness() for name in STORES}

        def made() -> None:
            sparseq.create_population(self.people, kappa=KAPPA)
            for name in STORES:
                drawn = (self.people, SHARE)
                sparseq.create(root / name, {"visits": rows()}, population=drawn, **MORE).close()

        self.quietly(made)

    def live(self, steps: int) -> None:
        """See `Setting`."""
        try:
            super().live(steps)
        finally:
            shutil.rmtree(self.saved, ignore_errors=True)

    def places(self) -> list[Path]:
        """See `Setting`."""
        return [self.world.root / name for name in STORES]

    def _drive(self, name: str, place: Path, end: int) -> None:
        """See `Setting`: of each store there is another witness."""
        self.world.step("connect")
        try:
            store = sparseq.connect(place)
        except SparseqError:
            self.world.rest(300)
            return
        with suppress(SparseqError):
            while self.world.steps < end and self.world.draw.random() < 0.95:
                self._one(store, self.witnesses[place.name], name)
        with suppress(SparseqError):
            store.close()

    def _one(self, store: Store, witness: Witness, name: str) -> None:
        draw = self.world.draw
        what = draw.choices(list(self.ways), list(self.ways.values()))[0]
        self.world.step(what)
        if what in ("ask", "again"):
            mine = [one for one in self.asked if one.startswith(name)]
            request = draw.choice(mine) if mine and what == "again" else self._request(name)
            witness.sees(store.ask(self.query, request_id=request), request)
        elif what == "history":
            for release in store.releases(last=3):
                witness.sees(Answer.from_bytes(release.answer))
        elif what == "fold":
            store.stream.ledger.fold(0)
        else:
            self.act(store, what, name)

    def act(self, store: Store, what: str, name: str) -> None:
        """See `Setting`."""
        draw = self.world.draw
        if what == "draw" and 1 - store.budget()["population"]["drawn"] > SHARE:
            store.draw(SHARE)
        elif what == "come":
            who = draw.randrange(2 * PEOPLE)
            came = pa.table({"who": [who], "kind": [KINDS[who % len(KINDS)]]})
            store.ingest(came, once=f"{name}.{self.world.steps}")

    def look(self) -> None:
        """See `Setting`: all stores together."""
        self.quietly(self._look_at_all)

    def _look_at_all(self) -> None:
        with ExitStack() as stack:
            try:
                stores = [stack.enter_context(sparseq.connect(place)) for place in self.places()]
                with open_population(self.people) as population:
                    self.world.tell(repr(population.spent.tolist()))
                audited(self.people, stores)
            except SparseqError as error:
                raise Finding(f"a store or its population does not open: {error}") from error
            except AssertionError as error:
                raise Finding(f"somebody has more than was drawn: {error}") from error
            for place, store in zip(self.places(), stores, strict=True):
                self.witnesses[place.name].keeps(store)

    def operate(self) -> None:
        """Keep a copy of a file, or put one back: it is refused, or has all released answers.

        A copy that has all of them may be written to, for a begun draw: then it is the valid one.
        """
        name = self.world.draw.choice([*STORES, "people"])
        kept = self.saved / name
        if not kept.exists() or self.world.draw.random() < 0.5:
            shutil.rmtree(kept, ignore_errors=True)
            self._moved(self.world.root, kept, name, shutil.copy)
            return
        now = self.saved / "now"
        self._moved(self.world.root, now, name, shutil.move)
        self._moved(kept, self.world.root, name, shutil.copy)
        self.world.disk.begin()
        marks = self._marks()
        self.quietly(lambda: self._tried(name))
        if self._marks() == marks:
            for end in ENDS:
                (self.world.root / f"{name}{end}").unlink(missing_ok=True)
            self._moved(now, self.world.root, name, shutil.move)
        shutil.rmtree(now)
        self.world.disk.begin()

    def _marks(self) -> list[bytes]:
        """Return the progress of all stores, as recorded outside of them."""
        return [mark.read_bytes() for mark in sorted(self.people.parent.glob("people.marks/*"))]

    def _tried(self, name: str) -> None:
        """Open a restored file, if it opens; nothing in it may be behind."""
        with suppress(SparseqError):
            if name == "people":
                self._gave_all()
                return
            store = sparseq.connect(self.world.root / name)
            try:
                self.witnesses[name].keeps(store)
            finally:
                store.backend.abandon()

    def _gave_all(self) -> None:
        with open_population(self.people) as population:
            stores = [sparseq.connect(self.world.root / one) for one in STORES]
            try:
                given = population.facts()["stores"]
                for store in stores:
                    mine = store.budget()["population"]["draws"]
                    known = [
                        one["draws"]
                        for one in given
                        if one["store"] == store.backend.settings["store"]
                    ]
                    if mine is not None and mine > max(known, default=0):
                        raise Finding("a population opens that lacks what was drawn from it")
            finally:
                for store in stores:
                    store.backend.abandon()

    @staticmethod
    def _moved(at: Path, to: Path, name: str, how: Any) -> None:
        to.mkdir(parents=True, exist_ok=True)
        for end in ENDS:
            if (at / f"{name}{end}").exists():
                how(at / f"{name}{end}", to / f"{name}{end}")
