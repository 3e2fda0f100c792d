"""Mishaps of a store's files: renamed, copied, linked, cut or changed."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checks.kill_children import ENDS


@dataclass
class Files:
    """A killed store's files in a separate folder, and copies of earlier moments of its life."""

    folder: Path
    earlier: list[dict[str, bytes]]
    draw: random.Random

    @property
    def path(self) -> Path:
        """The store's file."""
        return self.folder / "s"

    def part(self, end: str) -> Path:
        """The file, the log or the record."""
        return Path(f"{self.path}{end}")

    def drop(self, *ends: str) -> Path:
        """Remove parts."""
        for end in ends:
            self.part(end).unlink(missing_ok=True)
        return self.path


def _renamed(files: Files, *ends: str) -> Path:
    for end in ends:
        if files.part(end).exists():
            files.part(end).rename(files.folder / f"other{end}")
    return files.folder / "other" if "" in ends else files.path


def _elsewhere(files: Files, *ends: str) -> Path:
    there = files.folder / "there"
    there.mkdir()
    for end in ends:
        if files.part(end).exists():
            shutil.copy(files.part(end), there / f"s{end}")
    return there / "s"


def _linked(files: Files) -> Path:
    os.link(files.path, files.folder / "hard")
    return files.folder / "hard"


def _symlinked(files: Files) -> Path:
    (files.folder / "there").mkdir()
    os.symlink(files.path, files.folder / "there" / "soft")
    return files.folder / "there" / "soft"


def _changed_log(change: Callable[[random.Random, bytearray], bytes]) -> Callable[[Files], Path]:
    def mishap(files: Files) -> Path:
        if files.part(".wal").exists():
            log = bytearray(files.part(".wal").read_bytes())
            files.part(".wal").write_bytes(change(files.draw, log) if log else b"")
        return files.path

    return mishap


def _flipped(draw: random.Random, log: bytearray) -> bytes:
    log[draw.randrange(len(log))] ^= 1 << draw.randrange(8)
    return bytes(log)


def _of_another_time(*ends: str) -> Callable[[Files], Path]:
    def mishap(files: Files) -> Path:
        if files.earlier:
            parts = files.draw.choice(files.earlier)
            for end in ends:
                files.part(end).unlink(missing_ok=True)
                if end in parts:
                    files.part(end).write_bytes(parts[end])
        return files.path

    return mishap


WHOLE: dict[str, Callable[[Files], Path]] = {
    "nothing": lambda f: f.path,
    "file renamed": lambda f: _renamed(f, ""),
    "file and log renamed": lambda f: _renamed(f, "", ".wal"),
    "log renamed": lambda f: _renamed(f, ".wal"),
    "record renamed": lambda f: _renamed(f, ".session"),
    "hard link": _linked,
    "symbolic link": _symlinked,
    "all copied": lambda f: _elsewhere(f, *ENDS),
}
"""Every part is there: the store must open."""
LACKING: dict[str, Callable[[Files], Path]] = {
    "file copied": lambda f: _elsewhere(f, ""),
    "file and log copied": lambda f: _elsewhere(f, "", ".wal"),
    "file and record copied": lambda f: _elsewhere(f, "", ".session"),
    "log removed": lambda f: f.drop(".wal"),
    "record removed": lambda f: f.drop(".session"),
    "both removed": lambda f: f.drop(".wal", ".session"),
    "log cut": _changed_log(lambda draw, log: bytes(log[: draw.randrange(len(log))])),
    "log emptied": _changed_log(lambda _, log: b""),
    "log flipped": _changed_log(_flipped),
    "earlier log": _of_another_time(".wal"),
    "earlier file": _of_another_time(""),
    "earlier file and log": _of_another_time("", ".wal"),
}
"""A part may be missing: the store is refused, or has everything all the same."""
