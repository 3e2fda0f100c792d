"""kill -9 at random moments, then a mishap with the store's files: refused, or nothing is lost.

    python -m benchmarks.kills --times 200 [--seed N] [--json]

A child answers, answers many at once, takes in rows, erases people and makes checkpoints, and says
what is durable after each. It is killed; then the store's file, its log and its record are renamed,
copied, linked, cut, removed or mixed up with those of other moments; then the store is opened. It
must have every release, bit by bit, every charge and every change that the child had told of; or be
refused, with every file as it was, but for what DuckDB takes off a log because the file has it
(a kill within a checkpoint leaves such a log): then, with what the mishap took put back, nothing
may be lost. Where all parts are there, whatever they are called, it must open. After each trial
the files are put back as the kill had left them, and the life goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

import sparseq
import sparseq.store.create  # what every child would else import
from sparseq.store.curator import forget
from sparseq.stream.step import Request

PEOPLE = 30
QUERIES = (
    "SELECT count(*) AS n FROM t",
    "SELECT day, sum(amount) AS x FROM t WHERE day BETWEEN 0 AND 9 GROUP BY day",
    "SELECT count(DISTINCT who) AS n FROM t WHERE day < 5",
)
ENDS = ("", ".wal", ".session")


def make(path: Path) -> None:
    """Make a store of a few people with room for all that will be asked."""
    rows = [(who, who * k % 10, float(k)) for who in range(PEOPLE) for k in range(3)]
    who, day, amount = zip(*rows, strict=True)
    table = pa.table({"who": who, "day": day, "amount": amount})
    sparseq.create(
        path,
        {"t": table},
        user="who",
        bounds={"amount": (0, 10)},
        purposes=[sparseq.Questions(in_or_out=True, counts=100_000)],
    ).close()


# -- the child -------------------------------------------------------------------------------------


def live(path: str, seed: int) -> None:
    """Use a store until killed; a line after each step says how far it has come."""
    draw = random.Random(seed)
    con = sparseq.connect(path)
    step = 0
    while True:
        step += 1
        kind = draw.choices(["ask", "many", "ingest", "erase", "checkpoint"], [8, 2, 2, 1, 1])[0]
        name = f"{seed}.{step}"
        if kind == "ask":
            con.sql(draw.choice(QUERIES), request_id=name)
        elif kind == "many":
            asked = [Request(con.lower(q), request_id=f"{name}.{i}") for i, q in enumerate(QUERIES)]
            list(con.ask_many(asked))
        elif kind == "checkpoint":  # as DuckDB does when its log is long
            con.backend.database.execute("CHECKPOINT")
        else:
            who = 1000 + 100 * seed + step
            rows = {"who": [who, 1], "day": [1, 2], "amount": [1.0, 2.0]}
            con.ingest(pa.table(rows), once=name)
            if kind == "erase":
                forget(con, str(who))
        say(state(con))


def state(con: sparseq.Store) -> dict[str, Any]:
    """How far a store has come: its last answers, what was spent, taken in and erased."""
    ((erased,),) = con.backend.database.execute(
        "SELECT count(*) FROM ledger.users WHERE id IS NULL"
    ).fetchall()
    return {
        "releases": con.released,
        "last": [hashlib.sha256(r.answer).hexdigest() for r in con.releases(3)],
        "spent": sum(con.stream.accounts.spent.tolist()),
        "taken": len(con.taken()),
        "erased": erased,
    }


def say(fact: dict[str, Any]) -> None:
    """Write one line at once: a kill can't cut it."""
    os.write(1, (json.dumps(fact) + "\n").encode())


def serve() -> None:
    """Fork a child for each line of standard input, `PATH SEED`: it has imported everything."""
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401 - and, where it is installed, at its first Arrow table
    for line in sys.stdin:
        path, seed = line.rsplit(" ", 1)
        child = os.fork()
        if child == 0:
            say({"pid": os.getpid()})
            try:
                live(path, int(seed))
            except BaseException as error:
                say({"error": repr(error)})
            os._exit(1)
        os.waitpid(child, 0)
        say({"dead": True})


class Children:
    """The process whose children are killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.kills", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )

    def killed(self, path: Path, seed: int, lines: int, delay: float) -> dict[str, Any] | None:
        """Run one life of so many steps, and a little more; return what it said last."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{path} {seed}\n")
        stdin.flush()
        pid, said = json.loads(stdout.readline())["pid"], None
        for count, line in enumerate(stdout):
            fact = json.loads(line)
            if "error" in fact:
                raise RuntimeError(fact["error"])
            if "dead" in fact:
                return said
            said = fact
            if count == lines:
                time.sleep(delay)
                os.kill(pid, signal.SIGKILL)
        raise RuntimeError("the children are gone")

    def close(self) -> None:
        """End it."""
        self._process.communicate()


# -- mishaps ---------------------------------------------------------------------------------------


@dataclass
class Files:
    """A killed store's files in a folder of its own, and those of earlier moments of its life."""

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


# -- trials ----------------------------------------------------------------------------------------


@dataclass
class Report:
    """What came out of the trials, and each that should not have."""

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
    """Kill, harm and open a store so many times."""
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
    """Tell whether all is there once what the mishap took is put back.

    What the refusal has changed stays as it made it: that must be a log that became shorter.
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
    """Tell whether everything that was said to be durable is there."""
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
    """All files and what is in them; one that is empty is none."""
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
