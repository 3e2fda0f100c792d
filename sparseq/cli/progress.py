"""The progress bar: on a terminal's standard error, gone at the end; it shows public facts only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn


def progress_bar(*columns: ProgressColumn | str, quiet: bool = False) -> Progress:
    """Return a bar with a description before it and a count after it, or with these columns."""
    usual = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *(columns or usual),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
        transient=True,
    )


@contextmanager
def late_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Give what is told of a work's progress to a bar: what is done, how much, of how much.

    The bar is there from the second second on.
    """
    start = time.monotonic()
    with progress_bar() as bar:
        task = bar.add_task("", visible=False)

        def told(what: str, done: int, of: int) -> None:
            if time.monotonic() - start > 1:
                bar.update(task, description=what, completed=done, total=of, visible=True)

        yield told
