"""Completion in the shell: SQL words, tables, columns, declared keys, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sparseq.cli.output import FORMATS
from sparseq.cli.session import COMMANDS
from sparseq.query.catalog import Catalog


def _words(text: str) -> list[str]:
    return text.split()


KEYWORDS = _words(
    "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT AND OR NOT IN BETWEEN LIKE IS NULL AS JOIN LEFT "
    "USING ON CASE WHEN THEN ELSE END DATE INTERVAL DISTINCT FILTER DESC WITH DIFFERENTIAL_PRIVACY "
    "OPTIONS"
)
FUNCTIONS = _words(
    "count sum avg variance stddev countif histogram median quantile least greatest coalesce round "
    "abs floor ceil sqrt ln exp lower upper length year month day hour date_trunc extract"
)
_WORD = re.compile(r"[\w\\?]*$")
_AFTER_TABLE_WORD = re.compile(r"\b(?:FROM|JOIN)\s+[\w]*$|^\\d\s+\w*$", re.IGNORECASE)
_AFTER_DOT = re.compile(r"(\w+)\.\w*$")
_IN_STRING = re.compile(r"'([^']*)$")


class Words(Completer):
    """Completes from what is public about a store: names, and declared keys."""

    def __init__(self, catalog: Catalog) -> None:
        self._tables = {t.name: [c.name for c in t.columns] for t in catalog.tables}
        self._keys = sorted(
            {
                k
                for t in catalog.tables
                for c in t.columns
                for k in c.keys or ()
                if isinstance(k, str)
            }
        )

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Yield what could stand at the cursor."""
        before = document.text_before_cursor
        string = None if before.lstrip().startswith("\\") else _open_string(before)
        if string is not None:
            return _matching(string, self._keys, "key")
        word = _WORD.search(before)
        return self._words(before, word[0] if word else "")

    def _words(self, before: str, word: str) -> Iterator[Completion]:
        if re.fullmatch(r"\s*\\\S*", before):
            yield from _matching(word, list(COMMANDS), "command")
        elif re.match(r"\s*\\format\s", before):
            yield from _matching(word, list(FORMATS), "format")
        elif dotted := _AFTER_DOT.search(before):
            columns = {t.lower(): c for t, c in self._tables.items()}.get(dotted[1].lower(), [])
            yield from _matching(word, columns, dotted[1])
        elif _AFTER_TABLE_WORD.search(before):
            yield from _matching(word, list(self._tables), "table")
        elif word and not re.match(r"\s*\\(?!explain\s)", before):
            columns = list(dict.fromkeys(c for cs in self._tables.values() for c in cs))
            yield from _matching(word, columns, "column")
            yield from _matching(word, list(self._tables), "table")
            yield from _matching(word, FUNCTIONS, "function")
            yield from _matching(word, KEYWORDS, "")


def _open_string(before: str) -> str | None:
    """Return the text of a string that isn't closed yet."""
    found = _IN_STRING.search(before) if before.count("'") % 2 else None
    return found[1] if found else None


def _matching(start: str, words: Iterable[str], kind: str) -> Iterator[Completion]:
    for word in words:
        if word.lower().startswith(start.lower()):
            yield Completion(word, start_position=-len(start), display_meta=kind)
