"""The destination of an answer: standard output, or a file that appears whole or not at all.

A destination that can't be written to is refused before any query, and so before any charge.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import click

from sparseq.base.errors import ParameterError
from sparseq.base.file_formats import format_of
from sparseq.base.texts import shown
from sparseq.base.whole_files import whole_file, writing
from sparseq.cli.text import put_out, say

FORMATS = ("table", "csv", "json", "markdown", "html", "xlsx", "parquet", "arrow")
LISTS = ("table", "csv", "json")
"""Formats for output other than answers."""
BINARY = frozenset(["parquet", "arrow", "xlsx"])
WHOLE = BINARY | {"html"}
"""Formats whose files hold one answer each."""
TITLED = frozenset(["markdown", "html", "xlsx"])
"""Formats with a title."""
DOCUMENTS = {".md": "markdown", ".html": "html", ".htm": "html", ".xlsx": "xlsx"}
"""Formats by the suffix of a file's name."""
_TEXTS = frozenset(["csv", "tsv", "json", "jsonl", "markdown", "html"])
EXACT = frozenset(["csv", "json", "markdown", "html"])
"""Text formats for machines."""


def chosen_format(format: str | None, path: Path | None) -> str:
    """Return the given format, else the format of the file's name, else a table.

    Raises:
        ParameterError: The name has a suffix of an unknown format, or of another binary format.

    >>> chosen_format(None, Path("a.csv")), chosen_format(None, Path("a.txt"))
    ('csv', 'table')
    """
    named, packed = ("", "") if path is None else format_of(path)
    if path is not None and path.suffix and not named:
        from sparseq.load.open_sources import readable_format

        named = DOCUMENTS.get(path.suffix.lower()) or readable_format(path)
    other = named not in ("", format) and (format is None or named not in _TEXTS)
    if path is not None and (packed or (other and named not in FORMATS) or (format and other)):
        raise ParameterError(
            f"{shown(path.name)} is no name for {format or 'an answer'}: it says {packed or named}",
            "names end in .csv, .json, .md, .html, .xlsx, .parquet or .arrow; any other has a "
            "table as text",
        )
    return format or named or "table"


def check_workbook() -> None:
    """Raise `ParameterError` where XlsxWriter is not installed."""
    if find_spec("xlsxwriter") is None:
        raise ParameterError(
            "a workbook needs XlsxWriter, which is not installed",
            "pip install 'sparseq[excel]', or take csv",
        )


class Output:
    """A context in which `write` writes to the destination; a file gets its name at the end.

    Args:
        path: Path of the file, or None for standard output.
        format: The format of the content; binary formats don't go to a terminal.
        private: Only the user who runs this can read the file.

    Raises:
        ParameterError: The destination can't be written to.
    """

    def __init__(self, path: Path | None, format: str, private: bool = False) -> None:
        self._format = format
        self._path = path.resolve() if path is not None else None
        self._private = private
        self._stack = contextlib.ExitStack()
        self._file: BinaryIO | None = None
        if format == "xlsx":
            check_workbook()
        if path is None and format in BINARY and sys.stdout.isatty():
            raise click.UsageError(
                f"{format} is not for a terminal; add --output FILE, or send it into a pipe"
            )

    def __enter__(self) -> Output:
        if self._path is None:
            return self
        with contextlib.ExitStack() as stack:
            to = path = self._path
            if not path.exists() or path.is_file():  # neither a pipe, nor /dev/null
                to = stack.enter_context(whole_file(path, self._private))
            with writing(path):
                file = self._file = open(to, "wb")

            def close(*_: object) -> None:
                with writing(path):
                    file.close()

            stack.push(close)
            self._stack = stack.pop_all()
        return self

    @property
    def file(self) -> BinaryIO:
        """The file itself, for content that is written in parts."""
        assert self._file is not None
        return self._file

    def write(self, content: str | bytes) -> None:
        """Write text (a line end is added), or bytes.

        Formats for machines keep every value as it is; a terminal shows hidden characters escaped.
        """
        if self._file is None:
            if isinstance(content, bytes):
                click.echo(content, nl=False)
            elif self._format in EXACT:
                put_out(content)
            else:
                say(content)
            return
        if isinstance(content, str):
            exact = content if self._format in EXACT else click.unstyle(content)
            content = (exact + "\n").encode()
        assert self._path is not None
        with writing(self._path):
            self._file.write(content)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)
