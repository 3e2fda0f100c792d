"""One sitting at a store: queries and \\-commands in, text out. The shell's inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import click

from sparseq.cli.budget import budget_facts, budget_text
from sparseq.cli.create import catalog_text
from sparseq.cli.explain import plan_text
from sparseq.cli.history import LAST, history_text
from sparseq.cli.options import open_store
from sparseq.cli.output import BINARY, EXACT, FORMATS, Output
from sparseq.cli.show import brief_text, encode, warn_if_seeded
from sparseq.cli.sql import Knobs
from sparseq.cli.statements import is_command, items
from sparseq.cli.text import error_text, say, terminal_width, unexpected
from sparseq.errors import ParameterError, SparseqError
from sparseq.escape import shown
from sparseq.pictures.numbers import percent
from sparseq.pictures.tables import format_table
from sparseq.query.catalog import Catalog

if TYPE_CHECKING:
    from sparseq.store import Store

DEEPEST = 8  # files that \i reads may read others, so many deep


@dataclass(frozen=True)
class ShellCommand:
    """A \\-command: how it is written, what it does, and what runs it."""

    usage: str
    help: str
    run: Callable[[ShellSession, str], None]


class ShellSession:
    """A store, and how its answers are shown. An error is said, and the session goes on.

    Attributes:
        format, confidence: Of the answers to come.
        output: File that answers go to, or None for standard output.
        failed: Exit code of the first error, 0 so far.
        done: The user wants to leave.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store: Store = open_store(path)
        self.format = "table"
        self.confidence: float | None = None
        self.output: Path | None = None
        self.failed = 0
        self.done = False
        self._depth = 0

    def run_all(self, lines: Iterable[str]) -> None:
        """Run what the lines say, in order, until the end or \\q."""
        for item in items(lines):
            if self.done:
                return
            self.run(item)

    def run(self, item: str) -> None:
        """Run one query or command; say what goes wrong on standard error."""
        try:
            if is_command(item):
                self._command(item)
            else:
                self._ask(item)
        except SparseqError as error:
            self._fail(error)
        except KeyboardInterrupt:
            say("stopped", err=True)
            self.store.close()
            self.store = open_store(self.path)
        except BrokenPipeError:
            raise
        except Exception as error:
            self._fail(unexpected(error))

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def _fail(self, error: SparseqError) -> None:
        say(error_text(error), err=True)
        self.failed = self.failed or error.exit_code

    def _ask(self, query: str) -> None:
        with Output(self.output if self.format in BINARY else None, self.format) as out:
            answer = self.store.ask(
                self.store.lower(query), replace(Knobs(), confidence=self.confidence).options()
            )
            warn_if_seeded(answer, self.format)
            if self.format == "table":
                text: str | bytes = brief_text(answer, None if self.output else terminal_width())
            else:
                text = encode(answer, self.format)
            if self.output is None or self.format in BINARY:
                out.write(text)
            else:
                self._append(text)
        if self.output is None and self.format == "table":
            say()

    def _append(self, text: str | bytes) -> None:
        """Write text to the end of the file that answers go to."""
        assert self.output is not None
        assert isinstance(text, str)
        with _opened(self.output, "a") as file:
            file.write((text if self.format in EXACT else click.unstyle(text)) + "\n")

    def _command(self, line: str) -> None:
        name, _, argument = line.strip().partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise ParameterError(f"there is no command {name}", "\\? lists the commands")
        command.run(self, argument.strip().rstrip(";").strip())

    def show_tables(self, name: str) -> None:
        """Show what is public about all tables, or about one."""

        catalog = self.store.catalog
        say(catalog_text(Catalog((catalog.table(name),)) if name else catalog))

    def show_budget(self, _: str) -> None:
        """Show the guarantee."""
        say(budget_text(budget_facts(self.store)))

    def show_history(self, argument: str) -> None:
        """List the last releases."""
        if argument and not argument.isdigit():
            raise ParameterError(f"{argument!r} is not a number of releases", "\\history 5")
        last = max(int(argument or LAST), 1)
        say(history_text(self.store, last, "table", terminal_width()))

    def explain(self, query: str) -> None:
        """Show what a query would be."""
        knobs = replace(Knobs(), confidence=self.confidence)
        plan = self.store.explain(self.store.lower(query), knobs.options())
        say(plan_text(plan, self.store.budget))

    def set_format(self, name: str) -> None:
        """Say, or set, how answers are written."""
        if name and name not in FORMATS:
            raise ParameterError(f"there is no format {name!r}", f"one of {', '.join(FORMATS)}")
        self.format = name or self.format
        say(f"answers are written as {self.format}", err=True)

    def set_confidence(self, text: str) -> None:
        """Say, or set, the confidence of every ±."""
        if text:
            try:
                confidence = float(text)
            except ValueError:
                raise ParameterError(
                    f"confidence {text!r} is not a number", "\\confidence 0.99"
                ) from None
            replace(Knobs(), confidence=confidence).options()
            self.confidence = confidence
        say(f"± holds with {percent(self.confidence or 0.95)} confidence", err=True)

    def set_output(self, name: str) -> None:
        """Send answers to a file, or back to the screen."""
        path = Path(name).expanduser() if name else None
        if path is not None:
            _opened(path, "w").close()
        self.output = path
        say(f"answers go to {shown(path or 'the screen')}", err=True)

    def include(self, name: str) -> None:
        """Run a file."""
        if self._depth >= DEEPEST:
            raise ParameterError(f"\\i {name}: files are included {DEEPEST} deep already")
        with _opened(Path(name).expanduser(), "r") as file:
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
        rows = [[c.usage, c.help] for c in COMMANDS.values()]
        rows.append(["SELECT …;", "ask a query; it may take several lines, up to its ;"])
        say(format_table(["type", "to"], rows, ["l", "l"]))


def _opened(path: Path, mode: str) -> TextIO:
    """Open a text file; raises `ParameterError` where that fails."""
    try:
        return cast(TextIO, open(path, mode, encoding="utf-8"))
    except OSError as error:
        doing = "read" if mode == "r" else "write"
        raise ParameterError(f"can't {doing} {str(path)!r}: {error.strerror}") from None


COMMANDS = {
    "\\d": ShellCommand("\\d [TABLE]", "list tables and columns", ShellSession.show_tables),
    "\\budget": ShellCommand("\\budget", "show the guarantee", ShellSession.show_budget),
    "\\history": ShellCommand("\\history [N]", "list the last releases", ShellSession.show_history),
    "\\explain": ShellCommand(
        "\\explain QUERY", "show what a query would be, free", ShellSession.explain
    ),
    "\\format": ShellCommand(
        "\\format F", f"write answers as {', '.join(FORMATS)}", ShellSession.set_format
    ),
    "\\confidence": ShellCommand(
        "\\confidence C", "set the confidence of ±", ShellSession.set_confidence
    ),
    "\\o": ShellCommand(
        "\\o [FILE]", "send answers to FILE, or back to the screen", ShellSession.set_output
    ),
    "\\i": ShellCommand("\\i FILE", "run what FILE says", ShellSession.include),
    "\\?": ShellCommand("\\?", "show this", ShellSession.help),
    "\\q": ShellCommand("\\q", "leave (as Ctrl-D does)", ShellSession.leave),
}
