"""Files by name, folder or pattern, and the values in folder names.

    visits.csv          that file, whatever signs are in its name
    exports/            all files of one kind in it, and in the folders in it
    exports/2024-*.csv  every file that fits: `*`, `?`, `[…]`, and `**` for any folders
    day=2024-01-05/     a folder of a partition: its files have a column `day` with that value

The search passes over hidden files and those that begin with `_`, over files that are still being
written (`*.tmp`, `*.part`), and over files of other kinds; a message to the curator
lists the last. A file with two names counts once. All of this is decided by names.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from sparseq.base.errors import DataError
from sparseq.base.texts import shown

UNFINISHED = (".tmp", ".part", ".partial", ".swp", ".crdownload", "~")
"""Endings of files that are still being written."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
DELTA = "delta:"
"""Prefix of the address of a Delta table."""
PARQUET = "parquet:"
"""Prefix of the address of Parquet files."""
_PARTITION = re.compile(r"([^\W\d][\w .-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """A file to read.

    Attributes:
        path: The path.
        values: The values in the folders' names: column to text, None for no value.
        part: The table or sheet to read; "" if none was given.
    """

    path: Path
    values: Mapping[str, str | None] = field(default_factory=dict)
    part: str = ""


@dataclass
class Finds:
    """Files to read, in the order in which they were given; those of a folder by name.

    Attributes:
        format_of: Returns the format for a file's name; "" for a file that can't be read.
        notes: Messages about files that were passed over.
    """

    format_of: Callable[[Path], str]
    files: list[Found] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _names: dict[str, Path] = field(default_factory=dict)

    def add(self, place: Path) -> None:
        """Find the files that a place means.

        Raises:
            DataError: There is no file, or a folder has several kinds.
        """
        if not os.path.lexists(place):
            place = Path(str(place).removeprefix(PARQUET))
        if place.is_file():
            self._take(place)
        elif place.is_dir():
            self._take_folder(place)
        elif os.path.lexists(place):
            raise DataError(
                f"{shown(place)} is no file", "it is a link without a target, or a device"
            )
        else:
            self._take_pattern(place)

    def _take(self, path: Path) -> None:
        if self._names.setdefault(os.path.realpath(path), path) != path:
            self.notes.append(
                f"{shown(path.name)} is another name of a file that was given already"
            )
        else:
            self.files.append(Found(path, partition(path)))

    def _take_folder(self, folder: Path) -> None:
        kinds: Counter[str] = Counter()
        passed: list[str] = []
        chosen: list[Path] = []
        for path in _within(folder, frozenset()):
            kind = self.format_of(path)
            if kind:
                kinds[kind] += 1
                chosen.append(path)
            else:
                passed.append(shown(path.name))
        if len(kinds) > 1:
            listed = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
            raise DataError(
                f"the folder {shown(folder)} has files of several kinds: {listed}",
                f"choose one, for example '{shown(folder)}/*{chosen[0].suffix}'",
            )
        if not chosen:
            raise DataError(
                f"the folder {shown(folder)} has no file that can be read",
                "names end in .parquet, .csv, .jsonl, .json, .arrow or .xlsx",
            )
        if passed:
            some = ", ".join(passed[:3]) + ", …" * (len(passed) > 3)
            self.notes.append(
                f"{shown(folder)}: {len(passed):,} other files were passed over: {some}"
            )
        for path in chosen:
            self._take(path)

    def _take_pattern(self, place: Path) -> None:
        paths = [Path(p) for p in sorted(glob.glob(str(place), recursive=True))]
        files = [p for p in paths if p.is_file()]
        if not files and not any(p.is_dir() for p in paths):
            what = "no file fits" if glob.has_magic(str(place)) else "there is no file"
            raise DataError(f"{what} {shown(place)!r}", "check the name, and the current folder")
        for path in files:
            self._take(path)
        for folder in paths if not files else ():
            self._take_folder(folder)


def _within(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    """Return the files in a folder and its subfolders, by name; no folder twice."""
    above = above | {os.path.realpath(folder)}
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.startswith((".", "_")) or entry.name.endswith(UNFINISHED):
                continue
            if entry.is_file():
                yield folder / entry.name
            elif entry.is_dir() and os.path.realpath(entry.path) not in above:
                yield from _within(folder / entry.name, above)


def partition(path: Path) -> dict[str, str | None]:
    """Return the values in the names of a file's folders.

    >>> partition(Path("visits/day=2024-01-05/shop=K%C3%B6ln/part-0.parquet"))
    {'day': '2024-01-05', 'shop': 'Köln'}
    """
    said = [found for part in path.parts[:-1] if (found := _PARTITION.fullmatch(part))]
    return {f[1]: None if f[2] == _NULL else unquote(f[2]) for f in said}


def exists(place: str) -> bool:
    """Tell whether a file matches a name or a pattern."""
    return os.path.lexists(place) or bool(glob.glob(place, recursive=True))


def table_name(place: str | Path) -> str:
    """Return the default name of the table for a place.

    >>> table_name("data/web-log.2024.csv"), table_name("visits/day=*/*.parquet")
    ('web_log', 'visits')
    >>> table_name("exports/sales-*.csv"), table_name("shop.db#web.orders")
    ('sales', 'orders')
    """
    text, _, chosen = str(place).removeprefix(DELTA).partition("#")
    if re.fullmatch(r"\w+(\.\w+)?", chosen):
        return chosen.rpartition(".")[2]
    parts = [p for p in Path(text).parts if p != "/" and not _PARTITION.fullmatch(p)]
    names = [re.split(r"[*?\[]", p)[0].split(".")[0] for p in parts] or [""]
    plain = [re.sub(r"\W", "_", n) for n in names]
    if glob.has_magic(text) and not os.path.lexists(text):
        plain = [name.strip("_") for name in plain]
    return next((n for n in reversed(plain) if n), "events")
