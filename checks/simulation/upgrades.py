"""A store of an earlier format becomes this version's, killed and losing power at any step."""

from __future__ import annotations

import gzip
import json
import runpy
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import sparseq
from checks.simulation.checks import Finding
from checks.simulation.drivers import File
from sparseq.base.errors import SparseqError
from sparseq.question.plan import Query
from sparseq.store._duckdb.upgrade import upgrade
from sparseq.store.store import Store

DATA = Path(__file__).parent.parent.parent / "tests" / "data"
BEFORE: dict[str, Any] = json.loads((DATA / "format3.json").read_text())
"""All that must survive, as the earlier version told it."""
facts = runpy.run_path(str(DATA / "make_format3.py"))["facts"]
QUESTION = "SELECT kind, count(*) AS n FROM t GROUP BY kind"


class Upgraded(File):
    """A store of format 3, which the first process upgrades and asks; then another one."""

    ways: ClassVar[dict[str, int]] = {"ask": 2, "again": 2, "history": 1, "fold": 1}
    longest: ClassVar[int] = 150

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        (folder / "here").mkdir()
        path = folder / "here" / "s.sparseq"
        path.write_bytes(gzip.decompress((DATA / "format3.sparseq.gz").read_bytes()))
        other = path.with_name("other")
        shutil.copy(path, other)
        upgrade(other)
        with sparseq.connect(other) as store:
            query = store.lower(QUESTION)
        for file in path.parent.glob("other*"):
            file.unlink()
        return query

    def prepare(self) -> None:
        """See `Setting`."""
        super().prepare()
        self.upgraded = False

    def _drive(self, name: str, place: Path, end: int) -> None:
        """See `Setting`: upgrade it before."""
        try:
            self.world.step("upgrade")
            upgrade(place)
            self.upgraded = True
        except SparseqError:  # another does, or the disk fails
            self.world.rest(100)
            return
        super()._drive(name, place, end)

    def operate(self) -> None:
        """Start again with the original store."""
        self.look()
        for file in self.store.parent.iterdir():
            file.unlink()
        shutil.copy(self.made / "here" / "s.sparseq", self.store)
        self.witness.answers.clear()
        self.witness.requests.clear()
        self.asked.clear()
        self.upgraded = False
        self.world.disk.begin()

    def _look(self, place: Path) -> None:
        """See `Setting`: it is as before, or upgraded; then it is."""
        if self.upgraded and upgrade(place):
            raise Finding("the store was upgraded, and is not any more")
        with suppress(sparseq.StoreError):
            upgrade(place)  # where it can't be, that is said when it is opened
        super()._look(place)

    def _looks_at(self, store: Store) -> None:
        count, now = len(BEFORE["releases"]), json.loads(json.dumps(facts(store)))
        if now["releases"][:count] != BEFORE["releases"]:
            raise Finding("an answer of the earlier version is another")
        if store.released == count and now != BEFORE:
            raise Finding(f"the upgrade has changed {[k for k in BEFORE if now[k] != BEFORE[k]]}")
        self.witness.keeps(store)
        self.world.tell(repr(sorted(self.witness.answers.values())))
