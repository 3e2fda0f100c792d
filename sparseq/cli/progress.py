"""The progress bar on a terminal's standard error, removed at the end; it shows public facts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from sparseq.base.texts import count_of, shown
from sparseq.load.reading_progress import reading_told


def progress_bar(*columns: ProgressColumn | str, quiet: bool = False) -> Progress:
    """Return a bar with a description before it and a count after it, or with the given columns."""
    usual = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *(columns or usual),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
        transient=True,
    )


@contextmanager
def late_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows progress on a bar: the task, the amount done, and the total.

    A total of 0 is unknown. The bar appears after one second.
    """
    start = time.monotonic()
    with progress_bar() as bar:
        task = bar.add_task("", visible=False)

        def told(what: str, done: int, of: int) -> None:
            if time.monotonic() - start > 1:
                bar.update(task, description=what, completed=done, total=of or None, visible=True)

        yield told


@contextmanager
def reading_bar() -> Iterator[None]:
    """Show the file, the number of rows that have been read, and the memory, during the block."""
    start = time.monotonic()
    columns = ("{task.description}", BarColumn(), "{task.fields[rows]}", "{task.fields[memory]}")
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=None, visible=False, rows="", memory="")

        def told(name: str, rows: int) -> None:
            if time.monotonic() - start > 1:
                bar.update(
                    task,
                    description=shown(name),
                    visible=True,
                    rows=count_of(rows, "row"),
                    memory=_memory_text(),
                )

        with reading_told(told):
            yield


def _memory_text() -> str:
    """Return the memory that the process has now; "" where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return ""
    return f"{size / 2**30:.2f} GiB of memory"
