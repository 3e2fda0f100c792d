"""Small parts of SQL text, and the first line of an error."""

from __future__ import annotations


def quote(name: str) -> str:
    """Return an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
