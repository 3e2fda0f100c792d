"""A ledger over a dict, with a disk that can fail between any two writes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.base.errors import ParameterError, QueryRefused, StoreError, StoreInUse
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.departures import Departures
from sparseq.ledger.notes import USER, CuratorLine, Fact, Note, NoteTable
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId


class Crash(Exception):
    """The machine died."""


class Disk:
    """What was written survives; after `fails` more writes the machine dies (None: never)."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.notes: dict[str, list[dict[str, Any]]] = {}
        self.facts: dict[str, Any] = {}
        self.log: list[CuratorLine] = []
        self.fails: int | None = None

    def write(self) -> None:
        if self.fails is not None:
            self.fails -= 1
            if self.fails < 0:
                raise Crash


class DictLedger:
    """See `sparseq.ledger.protocol`: changes go to a copy, which the last write makes count."""

    def __init__(
        self, shelf: dict[str, Disk], budgets: Ints, reserves: Mapping[Pot, float], names: list[Any]
    ) -> None:
        self._shelf, self._names = shelf, names
        self.pots, self.departures = Pots(budgets, reserves), Departures()
        self.departures.add_users(len(budgets))
        self._seen = len(self._disk.entries)  # more of them are another's
        for entry in self._disk.entries:
            self.pots[entry.release.pot].charge(entry.users, entry.charges)
            self.departures.add(entry.release.id, entry.departed)

    @property
    def _disk(self) -> Disk:
        return self._shelf["disk"]

    @property
    def next_id(self) -> int:
        return self._seen + 1

    def __len__(self) -> int:
        return len(self._disk.entries)

    def recover(self) -> None:
        pass

    def fold(self, at_least: int) -> None:
        pass

    def in_transaction(self, work: Callable[[], Any]) -> Any:
        old = self._disk
        self._shelf["disk"] = copy.deepcopy(old)
        try:
            done = work()
            self._disk.write()
        except BaseException:
            self._shelf["disk"] = old
            raise
        return done

    def commit(self, entries: Sequence[Entry]) -> None:
        def write() -> None:
            if len(self._disk.entries) != self._seen:
                raise StoreInUse("another was first")
            for number, entry in enumerate(entries, self.next_id):
                if entry.release.id != number:
                    raise StoreError(f"release {entry.release.id} is not {number}")
                self._disk.write()
                self._disk.entries.append(entry)
                for note in entry.notes:
                    self.write(note)
                for failure in entry.failed:
                    whose = self._names[failure.user]
                    self.write(CuratorLine("engine", f"{whose}: {failure.error}"))

        try:
            self.in_transaction(write)
        except Crash:
            raise StoreError("the machine died") from None
        self._seen += len(entries)

    def write(self, note: Note) -> None:
        self._disk.write()
        if isinstance(note, Fact):
            self._disk.facts[note.key] = note.value
        elif isinstance(note, CuratorLine):
            self._disk.log.append(note)
        else:
            self._disk.notes.setdefault(note.of.name, []).extend(note.table.to_pylist())

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        rows = [
            row
            for row in self._disk.notes.get(table.name, [])
            if all(row[name] == value for name, value in equal.items())
            and (users is None or row[USER] in users.tolist())
        ]
        first = 0 if latest is None else max(len(rows) - latest, 0)
        return pa.Table.from_pylist(rows[first:], schema=table.schema)

    def fact(self, key: str) -> Any:
        return self._disk.facts.get(key)

    def drop(self, table: NoteTable, besides: Index, **equal: Any) -> None:
        self._disk.write()
        rows = self._disk.notes.get(table.name, [])
        self._disk.notes[table.name] = [
            row
            for row in rows
            if row[USER] in besides.tolist() or any(row[n] != v for n, v in equal.items())
        ]

    def rewrite(self, table: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._disk.write()
        batches = self.notes(table).to_batches()
        self._disk.notes[table.name] = [r for b in batches for r in change(b).to_pylist()]

    def number(self, request: RequestId) -> int | None:
        ids = [e.release.id for e in self._disk.entries if e.release.request == request]
        return ids[0] if ids else None

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        found = {request: self.number(request) for request in requests}
        return {request: number for request, number in found.items() if number is not None}

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        known = {r.id: r.request for r in self.releases() if r.request is not None}
        return {number: known[number] for number in releases if number in known}

    def under(self, request: RequestId) -> Release | None:
        number = self.number(request)
        return None if number is None else self.read(number)

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        if request is None:
            return None
        if not request.text.strip():
            raise ParameterError("the request id is empty")
        release = self.under(request)
        if release is not None and release.query != query:
            raise QueryRefused("the request id belongs to another query")
        return release

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        list(requests)

    def read(self, release_id: int) -> Release:
        if not 1 <= release_id <= len(self):
            raise StoreError(f"there is no release {release_id}")
        return self._disk.entries[release_id - 1].release

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        found = [entry.release for entry in self._disk.entries]
        found = [release for release in found if before is None or release.id < before]
        return found if last is None else found[max(len(found) - last, 0) :]

    def charges(self, release_id: int) -> tuple[Index, Ints]:
        entry = self._disk.entries[release_id - 1]
        return np.asarray(entry.users, np.int32), np.asarray(entry.charges, np.int64)

    def payments(self, user: int) -> list[tuple[int, int]]:
        return [
            (entry.release.id, charge)
            for entry in self._disk.entries
            for who, charge in zip(entry.users.tolist(), entry.charges.tolist(), strict=True)
            if who == user and charge
        ]

    def paid_from(self, pot: Pot) -> int:
        return [entry.release.pot for entry in self._disk.entries].count(pot)

    def identifiers(self, users: Iterable[int]) -> dict[int, Any]:
        return {user: self._names[user] for user in users}
