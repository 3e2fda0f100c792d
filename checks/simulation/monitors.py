"""Monitors: a series, tick after tick, of a store that files of rows come to.

Each day a file is put into a folder, under its name only when it is whole. A monitor loads files
and asks about each complete day; it writes the series to a file. It may be killed at any step, and
started again; a lake has several monitors, each with its own file.
"""

from __future__ import annotations

import csv
import datetime as dt
import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

import sparseq
from checks.simulation.checks import KINDS, PEOPLE, Finding
from checks.simulation.drivers import MORE, File, Setting
from sparseq.answers.answer import Answer
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.question.plan import Query
from sparseq.series.arrivals import Inbox
from sparseq.series.folder import REASON, REJECTED, Folder
from sparseq.series.loop import Monitor
from sparseq.series.query_series import QuerySeries
from sparseq.series.series_file import series_table
from sparseq.series.series_rows import ANSWER
from sparseq.series.ticks import Ticks
from sparseq.sql.parameters import QueryText
from sparseq.store.store import Store

FIRST = dt.date(2024, 1, 1)
DAYS = 40
EVERYBODY = "SELECT kind, count(DISTINCT who) AS n FROM visits GROUP BY kind"
OF_A_DAY = "SELECT kind, count(DISTINCT who) AS n FROM visits WHERE day = :day GROUP BY kind"
SETTLE = 2.0
"""Seconds that a file must not have changed for."""


def day_of(number: int) -> dt.date:
    """Return a day; the 0th is before the first tick, and everybody comes then."""
    return FIRST + dt.timedelta(days=number - 1)


def visitors(day: int) -> list[int]:
    """Return who comes on a day."""
    return [who for who in range(PEOPLE) if not day or (7 * who + day) % 3]


def day_rows(day: int) -> pa.Table:
    """Return the rows of a day."""
    who = visitors(day)
    kinds = [KINDS[one % len(KINDS)] for one in who]
    return pa.table({"who": who, "kind": kinds, "day": [day_of(day)] * len(who)})


class Follows(Setting):
    """A store whose folder a monitor follows, and that is asked as well."""

    def prepare(self) -> None:
        """See `Setting`."""
        super().prepare()
        (self.world.root / "in").mkdir()
        self.brought = 0  # days whose file was put there
        self.taken: set[str] = set()  # files of which it was said that they are in
        self.ticks: dict[tuple[str, str], tuple[int, int]] = {}

    @staticmethod
    def lowered(store: Store) -> Query:
        """Return the question about everybody, of a new store."""
        with store:
            return store.lower(EVERYBODY)

    def takes(self, release: Release) -> Collection[int]:
        """See `Setting`: for a tick, the people of its day."""
        if release.request is None or release.request.asker is not Asker.MONITOR:
            return range(PEOPLE)
        label = dt.date.fromisoformat(release.request.text.rpartition("/")[2])
        return visitors((label - FIRST).days + 1)

    def more(self, end: int) -> None:
        """Have somebody bring files."""
        self.world.task("bringer", self.world.process(), lambda: self._brings(end))

    def _brings(self, end: int) -> None:
        world = self.world
        while world.steps < end and self.brought < DAYS:
            world.rest(200)
            with suppress(OSError):
                self._put(self.brought + 1)
                self.brought += 1

    def _put(self, day: int) -> None:
        """Put a file into the folder safely; a later step may put it there again."""
        folder = self.world.root / "in"
        path, part = folder / f"{day_of(day)}.csv", folder / f"{day_of(day)}.csv.part"
        lines = ["who,kind,day", *(",".join(map(str, row.values())) for row in _plain(day))]
        with open(part, "w") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.utime(part, (self.world.now, self.world.now))
        os.replace(part, path)
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def follow(self, store: Store, name: str) -> None:
        """Load the files, and answer the complete ticks."""
        world, inbox = self.world, Inbox(store, "visits")
        folder = Folder(
            world.root / "in",
            inbox,
            settle=SETTLE,
            once=True,
            wait=self._waits,
            clock=lambda: world.now,
        )
        monitor = self._monitor(store, name)
        try:
            for done in monitor.follow(folder, inbox):
                world.step("tick")
                for row in done.rows:
                    key, said = (row.tick.isoformat(), row.keys["kind"]), (row.release, row.value)
                    if self.ticks.setdefault(key, said) != said:
                        raise Finding(f"the tick {key} has two values")
            monitor.flush()
            self.taken.update(inbox.notes)
        finally:
            if folder.set_aside:
                why = [p.read_text() for p in (folder.path / REJECTED).glob(f"*{REASON}")]
                raise Finding(f"a whole file was set aside: {why}")

    def _waits(self, seconds: float) -> bool:
        self.world.wait(lambda: False, seconds)
        return False

    def _monitor(self, store: Store, name: str) -> Monitor:
        first = dt.datetime.combine(FIRST, dt.time())
        ticks = Ticks(first, "1d", first + dt.timedelta(days=DAYS - 1))
        source = QuerySeries(store, "daily", QueryText.of(OF_A_DAY), ticks)
        return Monitor(store, ticks, [source], self.world.root / f"{name}.csv")

    def _looks_at(self, store: Store) -> None:
        super()._looks_at(store)
        asked = Counter(
            one.request.text
            for one in store.releases()
            if one.request is not None and one.request.asker is Asker.MONITOR
        )
        if asked and max(asked.values()) > 1:
            raise Finding(f"a tick was answered twice: {asked.most_common(1)}")
        prefix = "monitor/visits/"
        taken = {key.removeprefix(prefix) for key in store.taken() if key.startswith(prefix)}
        if not self.taken <= taken:
            raise Finding(f"files are not in any more: {self.taken - taken}")
        rows = Counter(visitors(0))
        for name in taken:
            rows.update(visitors((dt.date.fromisoformat(name[:10]) - FIRST).days + 1))
        table = store.catalog.table("visits")
        for who in range(PEOPLE):
            if store.backend.count_rows(table, who).inside() != rows[who]:
                raise Finding(f"person {who} has other rows than those of the files that are in")
        self._series(store)

    def _series(self, store: Store) -> None:
        """Read the series that monitors have written: each row is the journal's."""
        for path in sorted(self.world.root.glob("driver*.csv")):
            for row in series_table(path).to_pylist():
                answer = Answer.from_bytes(store.release(row["release"]).to_bytes())
                values = {one["kind"]: float(one["n"]) for one in answer.rows()}
                if row["estimate"] != ANSWER or values[row["kind"] or None] != row["value"]:
                    raise Finding(f"{path.name} has another value for {row['tick']}")
            with open(path, newline="") as file:
                ticks = list(dict.fromkeys(row["tick"] for row in csv.DictReader(file)))
            if ticks != [day_of(k + 1).isoformat() for k in range(len(ticks))]:
                raise Finding(f"{path.name} has not one tick after the other")


def _plain(day: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = day_rows(day).to_pylist()
    return found


class Followed(Follows, File):
    """A store in a file, with a monitor."""

    ways: ClassVar[dict[str, int]] = {
        "follow": 8,
        "ask": 2,
        "again": 1,
        "known": 1,
        "history": 1,
        "fold": 1,
    }

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        for name in ("here", "copies"):
            (folder / name).mkdir()
        path = folder / "here" / "s.sparseq"
        return cls.lowered(sparseq.create(path, {"visits": day_rows(0)}, **MORE))

    def act(self, store: Store, what: str, name: str) -> None:
        """See `Setting`."""
        self.follow(store, name)

    def operate(self) -> None:
        """Nobody touches the files: a file that rots is what `File` has."""


class FollowedLake(Follows):
    """A lake that several monitors follow the same folder for."""

    ways: ClassVar[dict[str, int]] = {
        "follow": 8,
        "ask": 2,
        "again": 1,
        "known": 1,
        "history": 1,
        "fold": 1,
    }

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        address = f"lake://{folder / 'lake'}"
        return cls.lowered(sparseq.create(address, {"visits": day_rows(0)}, buckets=1, **MORE))

    def places(self) -> list[Path]:
        """See `Setting`."""
        return [self.world.root / "lake"] * self.world.draw.randint(1, 3)

    def act(self, store: Store, what: str, name: str) -> None:
        """See `Setting`."""
        self.follow(store, name)
