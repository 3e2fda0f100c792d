"""All ledgers keep every promise of the protocol, and one that breaks a promise is found."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conformance.dict_ledger import Crash, DictLedger, Disk
from conformance.ledgers import CHECKS, PEOPLE, Maker
from sampled import one_in

import sparseq
from sparseq.accounting import budget_units
from sparseq.lake import delta_table, ledger_rows
from sparseq.lake.fenced_log import FencedLog
from sparseq.lake.lake_ledger import LakeLedger
from sparseq.ledger.pots import Pot
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.releases import Entry

PARTS = {Pot.WATCH: 0.25}
NAMES = [f"p{k:02}" for k in range(PEOPLE)]


class InDict:
    """A ledger over a dict."""

    def __init__(self, kind: type[DictLedger] = DictLedger) -> None:
        self._kind, self._shelf = kind, {"disk": Disk()}

    def ledger(self) -> Ledger:
        budgets = np.full(PEOPLE, budget_units(10_000), np.int64)
        return self._kind(self._shelf, budgets, PARTS, NAMES)

    opened_again = second = ledger

    @contextlib.contextmanager
    def dying(self, writes: int) -> Iterator[None]:
        self._shelf["disk"].fails = writes
        try:
            yield
        finally:
            self._shelf["disk"].fails = None


class Dying:
    """A connection that fails after so many more statements."""

    def __init__(self, connection: Any, left: list[int | None]) -> None:
        self._connection, self._left = connection, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *args: Any) -> Any:
        if self._left[0] is not None:
            self._left[0] -= 1
            if self._left[0] < 0:
                raise OSError("the machine died")
        return self._connection.execute(*args)


class InDuckDB:
    """A ledger in a DuckDB file; opened again, it is a copy as it would lie there if killed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "0.sparseq"
        rows = pa.table({"who": NAMES})
        sparseq.create(
            self._path,
            {"t": rows},
            user="who",
            purposes=[sparseq.Questions(counts=10_000, watch=0.25)],
        ).close()
        self._store, self._earlier = sparseq.connect(self._path), []

    def ledger(self) -> Ledger:
        return self._store.stream.ledger

    def second(self) -> Ledger:
        return sparseq.connect(self._path).stream.ledger

    def opened_again(self) -> Ledger:
        copy = self._path.with_name(f"{int(self._path.stem) + 1}.sparseq")
        for end in ("", ".wal", ".session"):
            if Path(f"{self._path}{end}").exists():
                shutil.copyfile(f"{self._path}{end}", f"{copy}{end}")
        self._earlier.append(self._store)  # like a process that hangs, and never writes again
        self._path, self._store = copy, sparseq.connect(copy)
        return self._store.stream.ledger

    @contextlib.contextmanager
    def dying(self, writes: int) -> Iterator[None]:
        left: list[int | None] = [writes]
        ledger, storage = self._store.stream.ledger, self._store.backend.storage
        ledger._con = ledger._segments._con = storage._con = Dying(storage._con, left)
        with contextlib.suppress(OSError):
            try:
                yield
            except OSError as error:
                raise sparseq.StoreError(str(error)) from None
            finally:
                left[0] = None


class InLake:
    """A ledger in a lake of three buckets; whoever opens it again reads the same folder."""

    def __init__(self, folder: Path, kind: type[FaultyLog] | None = None) -> None:
        pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
        self._folder, self._kind = folder, kind
        FencedLog.create(folder, b"key", ledger_rows.all_columns())

    def ledger(self) -> Ledger:
        self._open = (self._kind or FaultyLog)(self._folder, b"key")
        budgets = np.full(PEOPLE, budget_units(10_000), np.int64)
        return LakeLedger(
            self._open, 3, budgets, PARTS, False, lambda users: {u: NAMES[u] for u in users}
        )

    opened_again = second = ledger

    @contextlib.contextmanager
    def dying(self, writes: int) -> Iterator[None]:
        self._open.left = writes
        try:
            yield
        finally:
            self._open.left = None


class FaultyLog(FencedLog):
    """A log whose machine dies after so many more writes."""

    left: int | None = None

    def _step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError("the machine died")

    def _write(self, *given: Any) -> None:
        self._step()
        super()._write(*given)

    def _extend(self, *given: Any) -> None:
        self._step()
        super()._extend(*given)
        self._step()  # it is in the log, and nobody is told

    def _is_entry(self, *given: Any) -> bool:
        self._step()
        return super()._is_entry(*given)


class UnfencedLog(FaultyLog):
    """A log that puts whoever comes late on top of what has been written meanwhile."""

    def _extend(self, new: Any, old: Any, number: str) -> None:
        delta_table.extend(self._table, map(astuple, new), map(astuple, old), {}, retries=15)

    def _is_entry(self, *given: Any) -> bool:
        return True


MAKERS: dict[str, Callable[[Path], Maker]] = {
    "dict": lambda _: InDict(),
    "duckdb": InDuckDB,
    "lake": InLake,
}


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        *itertools.product(["dict"], CHECKS),
        *one_in(2, itertools.product(["duckdb", "lake"], CHECKS)),
    ],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_ledger_keeps_its_promise(
    tmp_path: Path, kind: str, check: Callable[[Maker], None]
) -> None:
    check(MAKERS[kind](tmp_path))


class OneUnitOff(DictLedger):
    """Charges a unit less than it was told."""

    def commit(self, entries: Any) -> None:
        super().commit([replace(e, charges=np.maximum(e.charges - 1, 0)) for e in entries])


class Forgetful(DictLedger):
    """Loses the last release of a group."""

    def commit(self, entries: Any) -> None:
        super().commit(entries[:-1] or entries)


class TooEarly(DictLedger):
    """Writes the entries of a group one transaction each."""

    def commit(self, entries: Any) -> None:
        for one in entries:
            super().commit([one])


class Unnoted(DictLedger):
    """Makes notes durable after the release that they belong to."""

    def commit(self, entries: Any) -> None:
        super().commit([replace(e, notes=()) for e in entries])
        self.in_transaction(lambda: [self.write(n) for e in entries for n in e.notes])


class Renaming(DictLedger):
    """Takes an analyst's name for the system's."""

    def number(self, request: Any) -> int | None:
        return next((r.id for r in self.releases() if str(r.request) == request.text), None)


class Unfenced(DictLedger):
    """Writes over what another has written."""

    def commit(self, entries: list[Entry]) -> None:
        self._seen = len(self._disk.entries)
        super().commit([replace(e, release=replace(e.release, id=self._seen + 1)) for e in entries])


class Carefree(DictLedger):
    """Says that it is durable, and the machine has died."""

    def commit(self, entries: list[Entry]) -> None:
        with contextlib.suppress(Crash, sparseq.StoreError):
            super().commit(entries)


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        (OneUnitOff, "what_was_committed_is_there_when_it_is_opened_again"),
        (Forgetful, "what_was_committed_is_there_when_it_is_opened_again"),
        (TooEarly, "a_commit_is_all_or_nothing_whenever_the_machine_dies"),
        (Unnoted, "a_commit_is_all_or_nothing_whenever_the_machine_dies"),
        (Renaming, "a_name_stands_for_one_query"),
        (Unfenced, "of_two_the_second_is_told"),
        (Carefree, "a_commit_is_all_or_nothing_whenever_the_machine_dies"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_ledger_that_breaks_a_promise_is_found(kind: type[DictLedger], by: str) -> None:
    (check,) = [check for check in CHECKS if check.__name__ == by]
    with pytest.raises((AssertionError, pytest.fail.Exception, Crash, sparseq.StoreError)):
        check(InDict(kind))


def test_without_the_fence_two_drivers_both_get_through(tmp_path: Path) -> None:
    (check,) = [check for check in CHECKS if check.__name__ == "of_two_the_second_is_told"]
    with pytest.raises((AssertionError, pytest.fail.Exception, sparseq.StoreError)) as found:
        check(InLake(tmp_path, UnfencedLog))
    assert not isinstance(found.value, sparseq.StoreInUse)
