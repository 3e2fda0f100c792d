"""The part of delta-rs that `sparseq.lake.fenced_log` needs, in small steps with the same files.

delta-rs does the same in one step, out of sight; here other tasks can run in between.
`test_simulation.py` compares it with delta-rs: each reads the other's files. It flushes nothing,
like delta-rs, and makes checkpoints more often, in its own format.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

CHECKPOINT_EVERY = 10
File = tuple[str, str, int]


class Overwritten(Exception):
    """Another entry of the same version is there."""


class Table:
    """One version of a log: see `deltalake.DeltaTable`."""

    def __init__(self, folder: Path, version: int, found: dict[str, tuple[str, int]]) -> None:
        self.folder, self.number, self.found = folder, version, found

    def version(self) -> int:
        """Return the version that was read."""
        return self.number

    def update_incremental(self) -> None:
        """Read the entries written since."""
        entries = _entries(self.folder)
        while self.number + 1 in entries:
            self._take(self.number + 1)

    def _take(self, version: int) -> None:
        for line in _entry(self.folder, version).read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                kind = action["add"]["partitionValues"]["kind"]
                self.found[action["add"]["path"]] = (kind, action["add"]["size"])
            elif "remove" in action:
                self.found.pop(action["remove"]["path"], None)
        self.number = version


def table_at(folder: Path, version: int | None = None) -> Table:
    """Return a table; raises whatever if it can't be read."""
    entries = _entries(folder)
    table = _checkpoint(folder, version) or Table(folder, -1, {})
    last = max(entries, default=table.number) if version is None else version
    for number in range(table.number + 1, last + 1):
        table._take(number)
    if table.number < 0:
        raise FileNotFoundError(f"there is no log in {folder}")
    return table


def files(table: Table) -> list[File]:
    """Return path, kind and size of the files that a table has."""
    return [(path, kind, size) for path, (kind, size) in table.found.items()]


def extend(
    table: Table,
    new: Iterable[File],
    old: Iterable[File],
    facts: dict[str, str],
    retries: int | None = 0,
) -> None:
    """Put the entry after the read version, if no other entry is there."""
    lines: list[dict[str, Any]] = [{"commitInfo": facts}]
    lines += [_add(file) for file in new]
    lines += [{"remove": {"path": path, "dataChange": True}} for path, _, _ in old]
    data, wanted = "\n".join(map(json.dumps, lines)), table.number + 1
    working = _entry(table.folder, wanted).with_suffix(f".json#{os.getpid()}")
    working.write_text(data)
    try:
        while True:
            try:
                os.link(working, _entry(table.folder, wanted))
                break
            except FileExistsError:
                if not retries:
                    raise Overwritten(str(wanted)) from None
                wanted += 1
    finally:
        working.unlink()
    if wanted % CHECKPOINT_EVERY == 0:
        _write_checkpoint(table_at(table.folder, wanted))


def _add(file: File) -> dict[str, Any]:
    path, kind, size = file
    whose = {"path": path, "partitionValues": {"kind": kind}, "size": size}
    return {"add": whose | {"modificationTime": 0, "dataChange": True}}


def _write_checkpoint(table: Table) -> None:
    name = f"{table.number:020d}.checkpoint.parquet"
    whole = io.BytesIO()
    parquet.write_table(pa.table({"files": [json.dumps(files(table))]}), whole, compression="zstd")
    hint = json.dumps({"version": table.number}).encode()
    for last, data in ((name, whole.getvalue()), ("_last_checkpoint", hint)):
        to = table.folder / "_delta_log" / last
        working = to.with_name(f"{last}#{os.getpid()}")
        working.write_bytes(data)
        os.rename(working, to)


def _checkpoint(folder: Path, most: int | None) -> Table | None:
    """Return the last checkpoint: where the hint says, or else by its name."""
    log = folder / "_delta_log"
    try:
        number = int(json.loads((log / "_last_checkpoint").read_text())["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        names = [name for name in os.listdir(log) if name.endswith(".checkpoint.parquet")]
        found = [int(name.split(".")[0]) for name in names]
        number = max((n for n in found if most is None or n <= most), default=-1)
    if number < 0 or (most is not None and number > most):
        return None
    data = (log / f"{number:020d}.checkpoint.parquet").read_bytes()
    rows = json.loads(parquet.read_table(io.BytesIO(data))["files"][0].as_py())
    return Table(folder, number, {path: (kind, size) for path, kind, size in rows})


def _entries(folder: Path) -> set[int]:
    try:
        names = os.listdir(folder / "_delta_log")
    except FileNotFoundError:
        return set()
    return {int(name[:20]) for name in names if name[20:] == ".json"}


def _entry(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020d}.json"
