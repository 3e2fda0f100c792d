"""A disk that can lose unflushed data: a real folder, and a record of its durable state.

The code under test, DuckDB and delta-rs write to a real folder, which stands for the page cache.
The disk looks at it at every flush. So after a loss of power it knows the possible states of the
folder:

- Of a file: its contents at its last fsync, or its present contents, or sectors of either; of a
  file that was never flushed, the first of its pages, as file systems extend it page by page.
- Of a folder: its names at its last fsync, and any of the changes since. A rename is one change;
  changes of different names may be lost or kept in any order.

Two assumptions are those of docs/guarantee.md: the data that DuckDB has written to a database's
file or log when a COMMIT or a CHECKPOINT returns are durable, though not the log's name; and a file
of more than `LARGE` bytes does not change after it was flushed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
from pathlib import Path

LARGE = 1 << 16
SECTOR, PAGE = 512, 4096
MOODS = ("lost", "kept", "in order", "any")
"""How much of what was not flushed a loss of power leaves."""
Edit = dict[str, "Node | None"]


class Node:
    """A file or folder, under any name.

    Attributes:
        folder: True for a folder.
        durable: The file's bytes at its last flush; None: it had none.
        whole: True if all its contents are durable: a large file.
        log: True for a file that only grows: it can lose its end, after the flushed part.
        names: A folder's names at its last flush.
        edits: Changes of its names since, each of which is kept or lost as one.
    """

    def __init__(self, folder: bool) -> None:
        self.folder, self.whole = folder, False
        self.log = False
        self.durable: bytes | None = None
        self.names: dict[str, Node] = {}
        self.edits: list[Edit] = []

    def seen(self) -> dict[str, Node]:
        """Return the folder's names as they were seen last."""
        return applied(self.names, self.edits)


def applied(names: dict[str, Node], edits: list[Edit]) -> dict[str, Node]:
    """Return a folder's names after changes."""
    after = dict(names)
    for edit in edits:
        for name, node in edit.items():
            if node is None:
                after.pop(name, None)
            else:
                after[name] = node
    return after


class Disk:
    """The durable state of the folder `root`; all present contents are in the folder itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.begin()

    def begin(self) -> None:
        """Take all that is in the folder as durable."""
        self._nodes: dict[int, Node] = {}
        self._log: int | None = None
        for folder, _, files in os.walk(self.root):
            for name in files:
                self.flushed(os.path.join(folder, name))
            self.flushed(folder)

    def _node(self, path: str) -> Node:
        status = os.stat(path)
        return self._at(status.st_ino, stat.S_ISDIR(status.st_mode))

    def _at(self, number: int, folder: bool) -> Node:
        if number not in self._nodes:
            self._nodes[number] = Node(folder)
        return self._nodes[number]

    def flushed(self, path: str) -> None:
        """Know that a file or a folder has been flushed."""
        node = self._node(path)
        if node.folder:
            self._look(node, path)
            node.names, node.edits = node.seen(), []
        elif not node.log and os.path.getsize(path) > LARGE:
            node.whole = True
        else:
            with open(path, "rb") as file:
                node.durable = file.read()

    def engine_writes(self, database: str) -> None:
        """Know that DuckDB is about to write; a checkpoint removes the log when it is done."""
        with contextlib.suppress(FileNotFoundError):
            self._log = os.open(f"{database}.wal", os.O_RDONLY)

    def engine_wrote(self, database: str, flushed: bool) -> None:
        """Know that it has, and whether all that is in its files is durable; names are not."""
        log, number = f"{database}.wal", self._log
        self._log = None
        if number is not None:
            status = os.fstat(number)
            if not status.st_nlink:  # whatever it had is durable, and its name may come back
                node = self._nodes.pop(status.st_ino, Node(False))
                node.durable = os.pread(number, status.st_size, 0)
            os.close(number)
        if os.path.exists(log):
            node = self._node(log)
            node.log = True
            if flushed:
                self.flushed(log)
        if flushed:
            self._node(database).whole = True

    def look(self, folder: str) -> None:
        """Find the changes in a folder since the last look."""
        self._look(self._node(folder), folder)

    def renamed(self, old: str, new: str) -> None:
        """Record that a file was renamed; both folders were looked at before."""
        node, (to, name) = self._node(new), os.path.split(new)
        source, former = os.path.split(old)
        if source == to:
            self._node(to).edits.append({former: None, name: node})
        else:
            self._node(source).edits.append({former: None})
            self._node(to).edits.append({name: node})

    def _look(self, node: Node, path: str) -> None:
        seen = node.seen()
        with os.scandir(path) as found:
            now = {e.name: self._at(e.inode(), e.is_dir()) for e in found}
        for name in sorted(seen.keys() | now.keys()):
            if seen.get(name) is not now.get(name):
                node.edits.append({name: now.get(name)})

    def forget(self, path: str) -> None:
        """Know that a file is about to lose its last name: its number may be another's soon."""
        status = os.stat(path)
        self.look(os.path.dirname(path))
        if status.st_nlink == 1:
            self._nodes.pop(status.st_ino, None)

    # -- a loss of power ---------------------------------------------------------------------------

    def lose_power(self, draw: random.Random, mood: str) -> None:
        """Put the folder into a state that it may be in after a loss of power."""
        live: dict[Node, str] = {}
        for folder, _, files in os.walk(self.root):
            self.look(folder)
            for name in files:
                live[self._node(os.path.join(folder, name))] = os.path.join(folder, name)
        after, before = (self.root.with_name(self.root.name + end) for end in (".new", ".old"))
        self._build(self._node(str(self.root)), str(after), live, draw, mood)
        os.rename(self.root, before)
        os.rename(after, self.root)
        shutil.rmtree(before)
        self.begin()

    def _build(
        self, node: Node, path: str, live: dict[Node, str], draw: random.Random, mood: str
    ) -> None:
        os.mkdir(path)
        names = applied(node.names, _kept(node.edits, draw, mood))
        for name, child in sorted(names.items()):
            to, at = os.path.join(path, name), live.get(child)
            if child.folder:
                self._build(child, to, live, draw, mood)
            elif at is not None and child.whole:
                os.link(at, to)
            else:
                now = None if at is None else Path(at).read_bytes()
                Path(to).write_bytes(_content(child, now, draw, mood))
                when = 0.0 if at is None else os.path.getmtime(at)
                os.utime(to, (when, when))


def _kept(edits: list[Edit], draw: random.Random, mood: str) -> list[Edit]:
    """Return the changes of a folder's names that a loss of power leaves."""
    if mood in ("lost", "kept"):
        return edits if mood == "kept" else []
    if mood == "in order":
        return edits[: draw.randint(0, len(edits))]
    return [edit for edit in edits if draw.random() < 0.5]


def _content(node: Node, now: bytes | None, draw: random.Random, mood: str) -> bytes:
    """Return the bytes of a file that a loss of power leaves; `now`: None, if it has no name."""
    old = node.durable or b""
    if now is None:
        return old
    if node.log:
        least = min(len(old), len(now))
        kept = next((at for at in range(least) if old[at] != now[at]), least)
        return now[: draw.randint(kept, len(now))]
    if now == old or mood == "kept":
        return now
    if mood == "lost":
        return old
    if node.durable is None:
        return now[: draw.randint(0, 1 + len(now) // PAGE) * PAGE]
    size = draw.choice([len(old), len(now)])
    new = bytearray()
    for at in range(0, size, SECTOR):
        part = draw.choice([old, now])[at : min(at + SECTOR, size)]
        new += part.ljust(min(SECTOR, size - at), b"\0")
    return bytes(new)
