"""Faults of a lake."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from checks.simulation.faults.registry import LAKE, Place, do_nothing, plant, unflushed
from sparseq.base import whole_files
from sparseq.lake import fenced_log
from sparseq.lake.fenced_log import FencedLog, Overtaken
from sparseq.lake.lake_ledger import LakeLedger


@plant(*LAKE)
def fence_out() -> list[Place]:
    """A late driver puts its entry after entries that it has not read."""

    def extend(log: FencedLog, new: Any, old: Any, number: str) -> None:
        table = fenced_log.open_table(log.folder)
        parts = [[(f.path, f.kind, f.size) for f in some] for some in (new, old)]
        fenced_log.extend(table, *parts, {"commit": number}, retries=15)

    return [(FencedLog, "_extend", extend), (FencedLog, "_is_entry", lambda *_: True)]


@plant(*LAKE)
def entry_not_synced() -> list[Place]:
    """The log's entry is not flushed before the answer leaves."""
    return unflushed(FencedLog, "_extend")


@plant(*LAKE)
def fsync_skipped() -> list[Place]:
    """The bytes of a new file of the log are not flushed, its name is."""

    def write(self: FencedLog, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        whole_files.make_durable(path.parent)
        working = path.with_name(f".{path.name}.working")
        working.write_bytes(data)
        os.replace(working, path)
        whole_files.sync_folder(path)

    return [(FencedLog, "_write", write)]


@plant(*LAKE)
def rename_not_synced() -> list[Place]:
    """A new file of the log is flushed before it has its name, and its name is not."""

    def write(self: FencedLog, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        whole_files.make_durable(path.parent)
        working = path.with_name(f".{path.name}.working")
        with open(working, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(working, path)

    return [(FencedLog, "_write", write)]


@plant(*LAKE)
def folder_not_synced() -> list[Place]:
    """The name of a folder of the log is not flushed."""
    write = FencedLog._write

    def unnamed(self: FencedLog, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        self._named.add(path.parent)
        write(self, path, data)

    return [(FencedLog, "_write", unnamed)]


@plant(*LAKE)
def head_not_flushed() -> list[Place]:
    """An entry whose writer may have died before it was durable is read and used."""
    return unflushed(FencedLog, "__init__")


@plant(*LAKE)
def sweep_without_a_fence() -> list[Place]:
    """Files are removed that another is about to refer to."""
    return [(LakeLedger, "fence", do_nothing)]


@plant(*LAKE)
def checkpoint_not_flushed() -> list[Place]:
    """Entries of the log are removed while the checkpoint that sums them up is not durable."""
    return unflushed(FencedLog, "trim")


@plant(*LAKE)
def lost_reply_is_a_yes() -> list[Place]:
    """A commit with an unknown outcome is taken to have happened."""
    return [(FencedLog, "_did_happen", lambda *_: True)]


@plant(*LAKE)
def overtaken_goes_on() -> list[Place]:
    """A driver that was overtaken answers all the same."""
    commit = FencedLog.commit

    def going_on(self: FencedLog, *given: Any) -> None:
        with suppress(Overtaken):
            commit(self, *given)

    return [(FencedLog, "commit", going_on)]


@plant(*LAKE)
def charges_after_the_sum_ignored() -> list[Place]:
    """When a lake is opened, spending is read from the last sum alone."""
    return [(LakeLedger, "_charge", do_nothing)]
