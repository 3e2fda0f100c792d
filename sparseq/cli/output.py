"""The place of an answer: standard output, or a file that appears whole or not at all.

A place that can't be written to is found out before anything is asked, and so before anything is
charged.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import click

from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown
from sparseq.base.whole_files import format_of, whole_file, writing
from sparseq.cli.text import put_out, say

# -- the place of an answer: standard output, or a file that appears whole or not at all -----------

FORMATS = ("table", "csv", "json", "markdown", "html", "xlsx", "parquet", "arrow")
LISTS = ("table", "csv", "json")
"""Formats of what is no answer."""
BINARY = frozenset(["parquet", "arrow", "xlsx"])
WHOLE = BINARY | {"html"}
"""Of these a file has one answer."""
TITLED = frozenset(["markdown", "html", "xlsx"])
"""These have a title."""
DOCUMENTS = {".md": "markdown", ".html": "html", ".htm": "html", ".xlsx": "xlsx"}
"""By the end of a file's name."""
_TEXTS = frozenset(["csv", "tsv", "json", "jsonl", "markdown", "html"])
EXACT = frozenset(["csv", "json", "markdown", "html"])
"""Texts for machines."""


def chosen_format(format: str | None, path: Path | None) -> str:
    """Return the format asked for, else the one that the file's name says, else a table.

    Raises:
        ParameterError: The name says a kind of file that is not written, or another binary one.

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
    """A context in which `write` puts content where it goes; a file gets its name at the end.

    Args:
        path: Of the file, or None for standard output.
        format: What will be written; binary formats don't go to a terminal.
        private: Only the one who runs this can read the file.

    Raises:
        ParameterError: The place can't be written to.
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
        """The file itself, for what is written bit by bit."""
        assert self._file is not None
        return self._file

    def write(self, content: str | bytes) -> None:
        """Write text (a line end is added), or bytes.

        Formats for machines keep every value as it is; on a terminal, nothing is hidden in them.
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


# -- the clipboard ---------------------------------------------------------------------------------

_CLIPBOARDS = (
    ("", ["pbcopy"]),
    ("", ["clip.exe"]),
    ("WAYLAND_DISPLAY", ["wl-copy"]),
    ("DISPLAY", ["xclip", "-selection", "clipboard"]),
    ("DISPLAY", ["xsel", "--clipboard", "--input"]),
)
"""Programs that fill the clipboard, each with the variable that says that there is one."""
_MOST_COPIED = 74_994  # bytes that a terminal takes for its clipboard, before base64


class Clipboard:
    """The clipboard: of the desktop, or of the terminal (by its OSC 52 sequence, also over SSH).

    Raises:
        ParameterError: There is none.
    """

    def __init__(self) -> None:
        wanted = (words for need, words in _CLIPBOARDS if not need or os.environ.get(need))
        self._program = next((words for words in wanted if shutil.which(words[0])), None)
        if self._program is None and not sys.stderr.isatty():
            raise ParameterError(
                "there is no clipboard here",
                "take --format csv, or install wl-copy or xclip",
            )

    def copy(self, text: str) -> None:
        """Put a text there.

        Raises:
            ParameterError: It does not take the text.
        """
        if self._program is not None:
            content = text.encode("utf-16" if self._program[0] == "clip.exe" else "utf-8")
            done = subprocess.run(self._program, input=content, timeout=10, check=False)
            failed = done.returncode != 0
        else:
            failed = len(text.encode()) > _MOST_COPIED
            code = base64.b64encode(text.encode()).decode()
            if not failed:
                click.echo(f"\033]52;c;{code}\a", nl=False, err=True, color=True)
        if failed:
            raise ParameterError(
                "the clipboard did not take the answer", "ask again, free of charge, with --output"
            )
