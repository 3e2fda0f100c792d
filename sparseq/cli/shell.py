"""`sparseq shell`: ask one query after another, at a prompt or from a pipe."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession, prompt
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory

from sparseq.base.texts import shown
from sparseq.cli.options import command, memory_option, store_argument
from sparseq.cli.output import FORMATS
from sparseq.cli.session import COMMANDS, ShellSession, is_command, is_complete
from sparseq.cli.stop_signals import INTERRUPTED
from sparseq.cli.text import guarantee_line, loud_lines, say
from sparseq.sql.catalog import Catalog
from sparseq.sql.normalize import function_names
from sparseq.store.address import address

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from sparseq.cli.session import ShellSession

# -- completion in the shell: words of SQL, names, functions, declared keys, commands, files -------


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
    """Completes from what is public about a store: names, and declared keys."""

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
        """Yield what could stand at the cursor."""
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
        """Return the tables that a query reads, by the names that they have in it."""
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


# -- `sparseq shell`: ask one query after another, at a prompt or from a pipe ----------------------


@command(short_help="Ask one query after another, at a prompt or from a pipe.")
@store_argument
@memory_option
@click.pass_context
def shell(ctx: click.Context, store: Path) -> None:
    """Open STORE, and answer queries as they are typed; each ends with a semicolon.

    .help lists the commands. From a pipe or a file, answers are printed in order, an error does not
    stop the rest, and the exit code is that of the first error. Ctrl-C stops a query: before it is
    answered nothing is charged; after, you are told what it cost, and can read it again.

    \b
    Examples:
      sparseq shell shop.sparseq
      sparseq shell shop.sparseq < queries.sql
    """

    typed = sys.stdin.isatty()
    session = ShellSession(store, _agree if typed else None)
    try:
        if typed:
            _talk(session)
        else:
            try:
                session.run_all(sys.stdin)
            except KeyboardInterrupt:
                ctx.exit(INTERRUPTED)
            ctx.exit(session.failed)
    finally:
        session.close()


def _agree(question: str) -> bool:
    """Ask the user; only yes is yes."""
    try:
        return prompt(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _talk(session: ShellSession) -> None:
    """Prompt until .quit or Ctrl-D; Ctrl-C drops the line, or stops the query."""
    store = session.store
    tables = ", ".join(shown(t.name) for t in store.catalog.tables)
    where = shown(address(store.path))
    say(f"{where}: {tables}; {guarantee_line(store.guarantee, store.catalog.unit)}")
    for line in loud_lines(store.seed is not None, len(store.losses)):
        say(line)
    say("A query ends with ; and Tab completes. .help shows more, .quit leaves.\n")
    asked = _prompt(session)
    while not session.done:
        try:
            session.run_all(asked.prompt().splitlines())
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _prompt(session: ShellSession) -> PromptSession[str]:
    asked: PromptSession[str] = PromptSession(
        lambda: "explain> " if session.explains else "sparseq> ",
        multiline=Condition(lambda: not is_complete(asked.default_buffer.text)),
        prompt_continuation="    ...> ",
        completer=Words(session.store.catalog),
        complete_while_typing=False,
        history=_history(),
        enable_history_search=True,
    )
    return asked


def _history() -> History:
    """Return what was typed in earlier sessions, from a file that is the user's own."""

    try:
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "history"
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def state_folder() -> Path:
    """Return where the user's state is kept."""
    home = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".local" / "state") / "sparseq"
