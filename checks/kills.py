"""kill -9 at random moments, then a mishap with the store's files: refused, or nothing is lost.

    python -m checks.kills --times 200 [--seed N] [--json]

A child answers, answers many at once, loads rows, erases people and makes checkpoints, and reports
after each what is durable. It is killed; then the store's file, its log and its record are renamed,
copied, linked, cut, removed or mixed up with those of other moments; then the store is opened. It
must have every release, bit by bit, every charge and every change that the child had reported; or
be refused, with every file unchanged, except for what DuckDB removes from a log because the file
has it (a kill within a checkpoint leaves such a log): then, with the files restored, nothing may be
lost. If all parts are there, under whatever names, it must open. After each trial the files are put
back as the kill had left them, and the life continues.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

import sparseq
import sparseq.store.create  # what every child would else import
from checks.file_mishaps import LACKING, WHOLE, Files
from checks.kill_children import ENDS, QUERIES, Children, make, serve, state


@dataclass
class Report:
    """The results of the trials, and each failure."""

    opened: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    refused_whole: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    mishaps: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        """Nothing was lost, nothing whole refused, and no refusal changed a file."""
        return not (self.lost or self.refused_whole or self.changed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"trials": self.opened + self.refused, **self.__dict__, "ok": self.ok}


def run(times: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Kill, harm and open a store this number of times."""
    draw, report = random.Random(seed), Report()
    children = Children()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "s")
        said, earlier = None, [_parts(folder)]
        for trial in range(times):
            lines, delay = draw.randrange(8), draw.uniform(0, 0.03)
            said = children.killed(folder / "s", trial, lines, delay) or said
            left = _parts(folder)
            mishap = draw.choice([*WHOLE, *LACKING])
            report.mishaps[mishap] += 1
            _try(Files(folder, earlier, draw), mishap, said, report, f"{trial}: {mishap}")
            tell(f"{trial}: {mishap}")
            _put_back(folder, left)
            earlier = [*earlier[-3:], left]
            if trial % 3 == 0:  # a session that is closed
                with sparseq.connect(folder / "s") as con:
                    con.sql(QUERIES[0], fresh=True)
                    said = state(con)
                earlier = [*earlier[-3:], _parts(folder)]
    children.close()
    return report


def _try(
    files: Files, mishap: str, said: dict[str, Any] | None, report: Report, label: str
) -> None:
    left = _parts(files.folder)
    path = (WHOLE | LACKING)[mishap](files)
    before, harmed = _contents(files.folder), _parts(files.folder)
    try:
        con = sparseq.connect(path)
    except sparseq.StoreError as error:
        report.refused += 1
        if mishap in WHOLE:
            report.refused_whole.append(f"{label}: {error}")
        if _contents(files.folder) != before and not _mended(files, left, harmed, said):
            report.changed.append(label)
        return
    with con:
        report.opened += 1
        found = state(con)
        if said is not None and not _has(con, found, said):
            report.lost.append(f"{label}: {found} instead of {said}")


def _mended(
    files: Files, left: dict[str, bytes], harmed: dict[str, bytes], said: dict[str, Any] | None
) -> bool:
    """Return True if everything is there once the lost files are put back.

    Changes by the refusal stay: they may only have shortened a log.
    """
    now = _parts(files.folder)
    changed = {end for end in ENDS if now.get(end) != harmed.get(end)}
    if changed - {".wal"} or len(now.get(".wal", b"")) > len(harmed.get(".wal", b"")):
        return False
    _put_back(files.folder, {e: v for e, v in left.items() if e not in changed})
    if ".wal" in changed and ".wal" in now:
        files.part(".wal").write_bytes(now[".wal"])
    try:
        with sparseq.connect(files.path) as con:
            return said is None or _has(con, state(con), said)
    except sparseq.StoreError:
        return False


def _has(con: sparseq.Store, found: dict[str, Any], said: dict[str, Any]) -> bool:
    """Return True if everything that was reported as durable is there."""
    hashes = [hashlib.sha256(r.answer).hexdigest() for r in con.releases()]
    last = hashes[: said["releases"]][-len(said["last"]) :] if said["last"] else []
    return last == said["last"] and all(
        found[what] >= said[what] for what in ("releases", "spent", "taken", "erased")
    )


def _parts(folder: Path) -> dict[str, bytes]:
    return {
        end: Path(f"{folder / 's'}{end}").read_bytes()
        for end in ENDS
        if Path(f"{folder / 's'}{end}").exists()
    }


def _put_back(folder: Path, parts: dict[str, bytes]) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for end, content in parts.items():
        Path(f"{folder / 's'}{end}").write_bytes(content)


def _contents(folder: Path) -> dict[str, bytes]:
    """Return all files and their contents; an empty file counts as absent."""
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p): content for p in files if (content := p.read_bytes())}


@click.command()
@click.option("--times", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The last line is a JSON object.")
@click.option("--serve", "serving", is_flag=True, hidden=True)
def main(times: int, seed: int, as_json: bool, serving: bool) -> None:
    """Kill a store's process at random moments, harm its files, and open it."""
    if serving:
        serve()
        return
    report = run(times, seed, lambda line: click.echo(line, err=True))
    facts = report.to_dict()
    click.echo(json.dumps(facts) if as_json else "\n".join(f"{k}: {v}" for k, v in facts.items()))
    sys.exit(not report.ok)


if __name__ == "__main__":
    main()
