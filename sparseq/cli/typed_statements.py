"""Typed text, split into queries and commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(
    r"""'(?:[^']|'')*(?:'|\Z)      # a string, perhaps not ended yet
    | "(?:[^"]|"")*(?:"|\Z)        # a quoted name
    | --[^\n]*                     # comments
    | /\*.*?(?:\*/|\Z)
    | ;""",
    re.VERBOSE | re.DOTALL,
)
_COMMAND = re.compile(r"\s*(?:\\|\.[a-zA-Z]|(?:help|exit|quit)\s*;?\s*\Z)")
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def split(text: str) -> tuple[list[str], str]:
    """Return the queries that end with `;`, and the unfinished rest.

    >>> split("SELECT 1; SELECT ';' ; SELECT")
    (['SELECT 1', "SELECT ';'"], ' SELECT')
    """
    queries, start = [], 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            queries.append(text[start : token.start()].strip())
            start = token.end()
    return [q for q in queries if not _is_blank(q)], text[start:]


def is_command(text: str) -> bool:
    """Tell whether a line is a command of the shell: `.tables`, psql's `\\d`, or `exit`.

    >>> [is_command(text) for text in (" .tables", "\\\\d", "exit", "SELECT 1", ".5 > x")]
    [True, True, True, False, False]
    """
    return _COMMAND.match(text) is not None


def is_complete(text: str) -> bool:
    """Tell whether the text is complete: a command, or queries up to their `;`."""
    return is_command(text) or _is_blank(split(text)[1])


def items(lines: Iterable[str]) -> Iterator[str]:
    """Yield each query (without its `;`) and each command as soon as it is complete.

    A query without its `;` at the end is yielded too.

    >>> list(items([".tables", "SELECT", " 1; SELECT 2"]))
    ['.tables', 'SELECT\\n 1', 'SELECT 2']
    """
    pending = ""
    for line in lines:
        if is_command(line) and _is_blank(pending):
            yield line.strip()
            continue
        queries, pending = split(f"{pending}\n{line.rstrip()}" if pending else line.rstrip())
        yield from queries
    if not _is_blank(pending):
        yield pending.strip()


def _is_blank(text: str) -> bool:
    return not _COMMENTS.sub("", text).strip()
