"""Texts that come from data, made safe to look at: keys, names of files, of series, of columns.

A terminal obeys what it is sent. A key such as `\x1b]0;title\x07` sets its title, a mark that
turns the direction of writing around makes one name look like another, a newline forges a line.
"""

from __future__ import annotations

import json
import math
import os
import unicodedata
from dataclasses import asdict, is_dataclass
from typing import Any

# -- texts that come from data ---------------------------------------------------------------------

MOST_SHOWN = 200
"""So many characters of a text are shown, if nothing else is said."""
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])
"""Categories of Unicode: controls, formats (direction, zero width), halves of pairs, private use,
ends of lines and paragraphs."""


def shown(text: object, most: int | None = MOST_SHOWN) -> str:
    """Return a text as it can be shown to anybody: on one line, nothing hidden, at most so long.

    What a terminal would obey or hide is spelled out as in Python. Bytes of a file's name that are
    no UTF-8 are shown as what they are.

    Args:
        text: Any text, or a path; anything else as `str` has it.
        most: Characters of the result; None for all of it.

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


def _spell(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that Python could not decode (PEP 383)
        return f"\\x{ord(character) - 0xDC00:02x}"
    if unicodedata.category(character) in _UNSEEN:
        return character.encode("unicode_escape", "surrogatepass").decode()
    return character


# -- plain data as JSON ----------------------------------------------------------------------------


def json_text(value: Any, indent: int | None = 2) -> str:
    """Return plain data as JSON: dataclasses are objects, dates texts, what is not finite null.

    >>> json_text({"a": [1, float("nan")]}, indent=None)
    '{"a": [1, null]}'
    """
    return json.dumps(_finite(value), indent=indent, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
