"""The clipboard of the desktop, or of the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from sparseq.base.errors import ParameterError
from sparseq.cli.text import fill_clipboard

_CLIPBOARDS = (
    ("", ["pbcopy"]),
    ("", ["clip.exe"]),
    ("WAYLAND_DISPLAY", ["wl-copy"]),
    ("DISPLAY", ["xclip", "-selection", "clipboard"]),
    ("DISPLAY", ["xsel", "--clipboard", "--input"]),
)
"""Programs that fill the clipboard, each with the environment variable that shows a clipboard."""
_MOST_COPIED = 74_994  # bytes that a terminal takes for its clipboard, before base64


class Clipboard:
    """The clipboard: of the desktop, or of the terminal (by its OSC 52 sequence, also over SSH).

    Raises:
        ParameterError: There is no clipboard.
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
        """Put a text on the clipboard.

        Raises:
            ParameterError: The clipboard does not accept the text.
        """
        if self._program is not None:
            content = text.encode("utf-16" if self._program[0] == "clip.exe" else "utf-8")
            done = subprocess.run(self._program, input=content, timeout=10, check=False)
            failed = done.returncode != 0
        else:
            failed = len(text.encode()) > _MOST_COPIED
            if not failed:
                fill_clipboard(text.encode())
        if failed:
            raise ParameterError(
                "the clipboard did not take the answer", "ask again, free of charge, with --output"
            )
