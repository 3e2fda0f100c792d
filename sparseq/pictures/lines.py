"""Lines of words for a terminal."""

from __future__ import annotations

import textwrap

import click

from sparseq.base.texts import shown


def one_line(text: str, width: int | None = None) -> str:
    """Return text on one line, cut to `width`.

    >>> one_line("SELECT\\n  1", 6)
    'SELEC…'
    """
    line = shown(" ".join(text.split()), None)
    return line if width is None or len(line) <= width else line[: max(width - 1, 1)] + "…"


def labelled(lines: list[tuple[str, str]], wrap: int | None = None) -> str:
    """Return (label, text) lines, the labels dim, in a column of their own; a text may have lines.

    Nothing in them is hidden. With `wrap`, texts are broken at words to be that many columns wide
    at most, labels and all.

    >>> print(labelled([("a", "one"), ("bcd", "two")]))
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
