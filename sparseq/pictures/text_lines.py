"""Lines of text for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from sparseq.base.texts import shown

if TYPE_CHECKING:
    pass


def one_line(text: str, width: int | None = None) -> str:
    """Return text on one line, cut to `width`.

    >>> one_line("SELECT\\n  1", 6)
    'SELEC…'
    """
    line = shown(" ".join(text.split()), None)
    return line if width is None or len(line) <= width else line[: max(width - 1, 1)] + "…"


def label_lines(lines: list[tuple[str, str]], wrap: int | None = None) -> str:
    """Return (label, text) lines, the labels dim, in a separate column; a text may have lines.

    Control characters are shown. With `wrap`, texts are broken at words, so that labels and texts
    together are at most that many columns wide.

    >>> print(label_lines([("a", "one"), ("bcd", "two")]))
    \x1b[2ma    \x1b[0mone
    \x1b[2mbcd  \x1b[0mtwo
    """
    width = max(len(label) for label, _ in lines) + 2
    margin = "\n" + " " * width

    def broken(text: str) -> list[str]:
        return textwrap.wrap(text, max(wrap - width, 20)) if wrap else [text]

    return "\n".join(
        click.style(shown(label, None).ljust(width), dim=True)
        + margin.join(part for line in text.split("\n") for part in broken(shown(line, None)))
        for label, text in lines
    )
