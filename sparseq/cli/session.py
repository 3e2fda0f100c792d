"""One sitting at a store: queries and commands in, text out. The shell's inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import click

from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import ParameterError, SparseqError, did_you_mean
from sparseq.base.texts import shown
from sparseq.base.whole_files import for_others
from sparseq.cli.budget import budget_text
from sparseq.cli.create import catalog_text
from sparseq.cli.history import LAST, history_text
from sparseq.cli.options import open_store
from sparseq.cli.output import EXACT, FORMATS, WHOLE, Output
from sparseq.cli.show import answer_text, brief_text, encode, warn_if_seeded
from sparseq.cli.sql import of_no_use
from sparseq.cli.stop_signals import released_so_far, stoppable, stopped_text, unstoppable
from sparseq.cli.text import error_text, say, terminal_width, unexpected_error
from sparseq.pictures.tables import format_table, percent
from sparseq.sql.catalog import Catalog
from sparseq.sql.plan import Options

if TYPE_CHECKING:
    from sparseq.store.answer import Answer
    from sparseq.store.store import Store

# -- statements: typed text, cut into queries and commands -----------------------------------------

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
    """Return the queries that end with `;`, and the rest, which doesn't yet.

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
    """Tell whether there is nothing left to type: a command, or queries up to their `;`."""
    return is_command(text) or _is_blank(split(text)[1])


def items(lines: Iterable[str]) -> Iterator[str]:
    """Yield each query (without its `;`) and each command as soon as it is complete.

    A query that the last line leaves unended is yielded too.

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


# -- one sitting at a store: queries and commands in, text out. The shell's inside -----------------

DEEPEST = 8  # files that .read reads may read others, so many deep


@dataclass(frozen=True)
class ShellCommand:
    """A command: how it is written, what it does, what runs it, and its name in psql."""

    usage: str
    help: str
    run: Callable[[ShellSession, str], None]
    in_psql: str = ""


class ShellSession:
    """A store, and how its answers are shown. An error is said, and the session goes on.

    Args:
        path: Of the store.
        agreed: Asks the user a question; None: there is nobody to ask.

    Attributes:
        mode, confidence: Of the answers to come.
        output: File that answers go to, or None for standard output.
        explains: Queries are explained, and not asked.
        confirms: Each query's price is shown, and it is asked only if the user agrees.
        failed: Exit code of the first error, 0 so far.
        done: The user wants to leave.
    """

    def __init__(self, path: Path, agreed: Callable[[str], bool] | None = None) -> None:
        self.path = path
        self.store: Store = open_store(path)
        self.mode = "table"
        self.confidence: float | None = None
        self.output: Path | None = None
        self.explains = self.confirms = False
        self.failed = 0
        self.done = False
        self._agreed = agreed
        self._depth = 0

    def run_all(self, lines: Iterable[str]) -> None:
        """Run what the lines say, in order, until the end or .quit."""
        for item in items(lines):
            if self.done:
                return
            self.run(item)

    def run(self, item: str) -> None:
        """Run one query or command; say what goes wrong on standard error.

        Raises:
            KeyboardInterrupt: The user stopped it; what it cost is said, and the store open again.
        """
        before = released_so_far(self.store)
        try:
            if is_command(item):
                self._command(item)
            else:
                self._ask(item)
        except SparseqError as error:
            self._fail(error)
        except KeyboardInterrupt:
            if is_command(item):  # a query in a file has said it
                raise
            with unstoppable():
                self.store.close()
                self.store = open_store(self.path)
                say(stopped_text(self.store, before, ".release {}"), err=True)
            raise
        except BrokenPipeError:
            raise
        except Exception as error:
            self._fail(unexpected_error(error))

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def _fail(self, error: SparseqError) -> None:
        say(error_text(error), err=True)
        self.failed = self.failed or error.exit_code

    def _ask(self, text: str) -> None:
        if self.explains:
            self._explain(text)
            return
        options = self._options()
        with Output(self.output if self.mode in WHOLE else None, self.mode) as out:
            query = self.store.lower(text)
            if not self._confirm(text):
                say("not asked, nothing charged", err=True)
                return
            with stoppable():
                answer = self.store.ask(query, options)
            self._show(answer, out)
        if self.output is None and self.mode == "table":
            say()

    def _show(self, answer: Answer, out: Output) -> None:
        warn_if_seeded(answer, self.mode)
        if self.mode == "table":
            text: str | bytes = brief_text(answer, None if self.output else terminal_width())
        else:
            text = encode(answer, self.mode)
        if self.output is None or self.mode in WHOLE:
            out.write(text)
        else:
            self._append(text)

    def _options(self) -> Options:
        return Options(confidence=self.confidence)

    def _confirm(self, query: str) -> bool:
        """Tell whether to ask: after its price with .confirm, or what is expected of no use."""
        if self._agreed is None:
            if self.confirms:
                raise ParameterError("there is nobody to confirm the query", ".confirm off")
            return True
        plan = self.store.explain(query, self._options())
        doubt = of_no_use(plan)
        if not self.confirms and not doubt:
            return True
        say(doubt or plan.price)
        return self._agreed("ask it? [y/N] ")

    def _append(self, text: str | bytes) -> None:
        """Write text to the end of the file that answers go to."""
        assert self.output is not None
        assert isinstance(text, str)
        with _open(self.output, "a") as file:
            file.write((text if self.mode in EXACT else click.unstyle(text)) + "\n")

    def _command(self, line: str) -> None:
        name, _, argument = line.strip().rstrip(";").partition(" ")
        command = NAMED.get(name.lower())
        if command is None:
            hint = did_you_mean(name, (n for n in NAMED if n.startswith(".")))
            if "mean" not in hint:
                hint = ".help lists the commands"
            raise ParameterError(f"there is no command {name}", hint)
        command.run(self, argument.strip())

    def show_tables(self, _: str) -> None:
        """List the tables."""
        rows = [
            [
                t.name,
                f"{len(t.columns)} columns",
                f"about people, by {t.user}" if t.private else "public",
            ]
            for t in self.store.catalog.tables
        ]
        say(format_table(["table", "has", "is"], rows, ["l", "l", "l"]))

    def show_schema(self, name: str) -> None:
        """Show what is public about all tables, or about one."""
        catalog = self.store.catalog
        say(catalog_text(Catalog((catalog.table(name),)) if name else catalog))

    def show_budget(self, _: str) -> None:
        """Show the guarantee."""
        say(budget_text(self.store.budget()))

    def show_history(self, argument: str) -> None:
        """List the last releases."""
        last = _whole(argument, ".history 5") if argument else LAST
        say(history_text(self.store, last, "table", terminal_width()))

    def show_release(self, argument: str) -> None:
        """Show an old answer again."""
        answer = self.store.release(_whole(argument, ".release 5"))
        say(answer_text(answer, terminal_width(), recorded=True))

    def explain(self, argument: str) -> None:
        """Show what a query would be; or do that from now on, for every query."""
        if argument.lower() in ("", "on", "off"):
            self.explains = _switch(argument, self.explains)
            said = "explained, and not asked" if self.explains else "asked"
            say(f"queries are {said}", err=True)
        else:
            self._explain(argument)

    def _explain(self, query: str) -> None:
        say(self.store.explain(query, self._options()).styled)

    def confirm(self, argument: str) -> None:
        """Show each query's price before it is asked, or stop doing so."""
        self.confirms = _switch(argument, self.confirms)
        said = "only if you agree to its price" if self.confirms else "at once"
        say(f"a query is asked {said}", err=True)

    def set_mode(self, name: str) -> None:
        """Say, or set, how answers are written."""
        if name and name not in FORMATS:
            raise ParameterError(f"there is no mode {name!r}", f"one of {', '.join(FORMATS)}")
        self.mode = name or self.mode
        say(f"answers are written as {self.mode}", err=True)

    def set_confidence(self, text: str) -> None:
        """Say, or set, the confidence of every ±."""
        if text:
            try:
                confidence = float(text)
            except ValueError:
                raise ParameterError(
                    f"confidence {text!r} is not a number", ".confidence 0.99"
                ) from None
            Options(confidence=confidence)
            self.confidence = confidence
        say(f"± holds with {percent(self.confidence or CONFIDENCE)} confidence", err=True)

    def set_output(self, name: str) -> None:
        """Send answers to a file, or back to the screen."""
        path = Path(name).expanduser() if name else None
        if path is not None:
            _open(path, "w").close()
        self.output = path
        say(f"answers go to {shown(path or 'the screen')}", err=True)

    def include(self, name: str) -> None:
        """Run a file."""
        if self._depth >= DEEPEST:
            raise ParameterError(f".read {name}: files are included {DEEPEST} deep already")
        with _open(Path(name).expanduser(), "r") as file:
            try:
                lines = file.read().splitlines()
            except UnicodeDecodeError:
                raise ParameterError(f"{name!r} is not UTF-8 text") from None
        self._depth += 1
        try:
            self.run_all(lines)
        finally:
            self._depth -= 1

    def leave(self, _: str) -> None:
        """End the session."""
        self.done = True

    def help(self, _: str) -> None:
        """List the commands."""
        rows = [[c.usage, c.help, c.in_psql] for c in COMMANDS]
        rows.append(["SELECT …;", "ask a query; it may take several lines, up to its ;", ""])
        say(format_table(["type", "to", "or, as in psql"], rows, ["l", "l", "l"]))


def _whole(text: str, example: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"{text!r} is not a number of releases", example)
    return int(text)


def _switch(argument: str, now: bool) -> bool:
    """Return what on or off says, or nothing; raises `ParameterError` for anything else."""
    found = {"": now, "on": True, "off": False}.get(argument.lower())
    if found is None:
        raise ParameterError(f"{argument!r} is neither on nor off")
    return found


def _open(path: Path, mode: str) -> TextIO:
    """Open a text file; raises `ParameterError` where that fails."""
    try:
        file = open(path, mode, encoding="utf-8")  # noqa: SIM115 - the caller closes it
        if mode == "w":
            for_others(file.fileno())
        return cast(TextIO, file)
    except OSError as error:
        doing = "read" if mode == "r" else "write"
        raise ParameterError(f"can't {doing} {str(path)!r}: {error.strerror}") from None


COMMANDS = (
    ShellCommand(".tables", "list the tables", ShellSession.show_tables, r"\dt"),
    ShellCommand(
        ".schema [TABLE]",
        "list columns, and what is public about them",
        ShellSession.show_schema,
        r"\d",
    ),
    ShellCommand(".explain QUERY", "show what a query would be: free", ShellSession.explain),
    ShellCommand(
        ".explain on|off", "explain every query instead of asking it", ShellSession.explain
    ),
    ShellCommand(
        ".confirm on|off",
        "show a query's price, and ask it only if you agree",
        ShellSession.confirm,
    ),
    ShellCommand(".mode M", f"write answers as {', '.join(FORMATS)}", ShellSession.set_mode),
    ShellCommand(".confidence C", "set the confidence of intervals", ShellSession.set_confidence),
    ShellCommand(
        ".output [FILE]",
        "send answers to FILE, or back to the screen",
        ShellSession.set_output,
        r"\o",
    ),
    ShellCommand(".read FILE", "run what FILE says", ShellSession.include, r"\i"),
    ShellCommand(".budget", "show the guarantee", ShellSession.show_budget),
    ShellCommand(".history [N]", "list the last releases", ShellSession.show_history),
    ShellCommand(".release N", "show an old answer again: free", ShellSession.show_release),
    ShellCommand(".help", "show this", ShellSession.help, r"\?"),
    ShellCommand(".quit", "leave; so do .exit and Ctrl-D", ShellSession.leave, r"\q"),
)
_LIKE = {r"\format": ".mode", ".exit": ".quit", "exit": ".quit", "quit": ".quit", "help": ".help"}


def _by_name() -> dict[str, ShellCommand]:
    """Return the commands by all the names that they may be called by."""
    found = {command.usage.split()[0]: command for command in COMMANDS}
    psql = {command.in_psql: command for command in COMMANDS if command.in_psql}
    backslashed = {"\\" + name[1:]: command for name, command in found.items()}
    return backslashed | psql | found | {name: found[like] for name, like in _LIKE.items()}


NAMED = _by_name()
