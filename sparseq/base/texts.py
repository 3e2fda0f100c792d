"""Texts from data, made safe for display: keys, names of files, of series, of columns.

A terminal executes control characters. A key such as `]0;title` sets its title, a mark that
reverses the direction of writing makes one name look like another, a newline forges a line.
"""

from __future__ import annotations

import os
import unicodedata

MOST_SHOWN = 200
"""The default maximum number of characters that are shown of a text."""
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])
"""Categories of Unicode: controls, formats (direction, zero width), halves of pairs, private use,
ends of lines and paragraphs.
"""


def shown(text: object, most: int | None = MOST_SHOWN) -> str:
    """Return a text in a form that is safe to show: one line, nothing hidden, limited length.

    Characters that a terminal would execute or hide are escaped as in Python. Bytes of a file's
    name that are not UTF-8 are escaped as bytes.

    Args:
        text: Any text, or a path; other values as `str` converts them.
        most: The maximum number of characters of the result; None: no limit.

    >>> shown("red\\x1b[31m"), shown("a\\nb"), shown("abc\\u202egpj.exe"), shown("x" * 9, 5)
    ('red\\\\x1b[31m', 'a\\\\nb', 'abc\\\\u202egpj.exe', 'xxxx…')
    >>> shown(b"day-\\xff.csv".decode("utf-8", "surrogateescape")), shown("Käse 🧀")
    ('day-\\\\xff.csv', 'Käse 🧀')
    """
    text = os.fsdecode(text) if isinstance(text, os.PathLike | bytes) else str(text)
    if most is not None:
        text = text[: most + 1]  # each character gives at least one
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_spell, text))
    return text if most is None or len(text) <= most else text[: max(most - 1, 0)] + "…"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> count_of(1, "tick"), count_of(2_000, "tick"), count_of(1, "line was", "lines were")
    ('1 tick', '2,000 ticks', '1 line was')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _spell(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that Python could not decode (PEP 383)
        return f"\\x{ord(character) - 0xDC00:02x}"
    if unicodedata.category(character) in _UNSEEN:
        return character.encode("unicode_escape", "surrogatepass").decode()
    return character
