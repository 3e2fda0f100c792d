"""The progress bar: on a terminal's standard error, gone at the end; it shows public facts only."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn


def progress_bar(*columns: ProgressColumn | str, quiet: bool = False) -> Progress:
    """Return a bar with a description before it and a count after it, or with these columns."""
    usual = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *(columns or usual), console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
