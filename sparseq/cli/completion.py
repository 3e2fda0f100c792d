"""Completion in the shell: words of SQL, names, functions, declared keys, commands, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from sparseq.cli.output import FORMATS
from sparseq.cli.session import COMMANDS
from sparseq.cli.typed_statements import is_command
from sparseq.question.catalog import Catalog
from sparseq.sql.allowed_words import function_names


def _split(words: str) -> list[str]:
    return words.split()


KEYWORDS = _split(
    "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT AND OR NOT IN BETWEEN LIKE IS NULL AS JOIN LEFT "
    "USING ON CASE WHEN THEN ELSE END DATE INTERVAL DISTINCT FILTER DESC WITH UNION OVER "
    "DIFFERENTIAL_PRIVACY OPTIONS"
)
_WORD = re.compile(r"\w*$")
_AFTER_TABLE_WORD = re.compile(r"\b(?:FROM|JOIN)\s+\w*$", re.IGNORECASE)
_AFTER_DOT = re.compile(r"(\w+)\.\w*$")
_IN_STRING = re.compile(r"'([^']*)$")
_ARGUMENTS = {".mode": FORMATS, ".explain": ("on", "off"), ".confirm": ("on", "off")}
_FILES = (".output", ".read")


class Words(Completer):
    """A completer from public facts of a store: names and declared keys."""

    def __init__(self, catalog: Catalog) -> None:
        self._tables = {t.name: [c.name for c in t.columns] for t in catalog.tables}
        columns = [c for t in catalog.tables for c in t.columns]
        self._keys = sorted({k for c in columns for k in c.keys or () if isinstance(k, str)})
        self._functions = function_names()
        named = "|".join(map(re.escape, self._tables))
        self._named = re.compile(
            rf'\b(?:FROM|JOIN)\s+"?({named})"?(?:\s+(?:AS\s+)?(?!WHERE|JOIN|ON|GROUP)(\w+))?',
            re.IGNORECASE,
        )

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Yield the possible texts at the cursor."""
        before = document.text_before_cursor
        if is_command(before) or before.strip() == ".":
            name, space, argument = before.lstrip().partition(" ")
            if not space:
                return _complete(name, _COMMAND_NAMES, "command")
            if name in _FILES:
                return PathCompleter(expanduser=True).get_completions(Document(argument), event)
            if name != ".explain" or " " not in argument.lstrip():
                names = self._tables if name in (".schema", "\\d") else _ARGUMENTS.get(name, ())
                return _complete(argument, names, "")
            before = argument
        string = _open_string(before)
        if string is not None:
            return _complete(string, self._keys, "key")
        return self._words(before, document.text_after_cursor)

    def _words(self, before: str, after: str) -> Iterator[Completion]:
        found = _WORD.search(before)
        word = found[0] if found else ""
        if dotted := _AFTER_DOT.search(before):
            names = {name.lower(): name for name in self._tables} | self._meant(before + after)
            table = names.get(dotted[1].lower(), "")
            yield from _complete(word, self._tables.get(table, []), table)
        elif _AFTER_TABLE_WORD.search(before):
            yield from _complete(word, self._tables, "table")
        elif word:
            read = self._meant(before + after).values()
            columns: dict[str, str] = {}
            for table in dict.fromkeys(read) or self._tables:
                for column in self._tables[table]:
                    columns.setdefault(column, table)
            for column, table in columns.items():
                yield from _complete(word, [column], f"column of {table}")
            yield from _complete(word, self._tables, "table")
            yield from _complete(word, self._functions, "function")
            yield from _complete(word, KEYWORDS, "")

    def _meant(self, query: str) -> dict[str, str]:
        """Return the tables that a query reads, by their names in the query."""
        known = {name.lower(): name for name in self._tables}
        found = self._named.findall(query) if known else []
        aliases = {alias.lower(): known[name.lower()] for name, alias in found if alias}
        return {name.lower(): known[name.lower()] for name, _ in found} | aliases


_COMMAND_NAMES = list(dict.fromkeys(command.usage.split()[0] for command in COMMANDS))


def _open_string(before: str) -> str | None:
    """Return the text of a string that isn't closed yet."""
    found = _IN_STRING.search(before) if before.count("'") % 2 else None
    return found[1] if found else None


def _complete(start: str, words: Iterable[str], kind: str) -> Iterator[Completion]:
    for word in words:
        if word.lower().startswith(start.lower()):
            yield Completion(word, start_position=-len(start), display_meta=kind)
