"""A session on a store: queries and commands in, text out; the core of the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from sparseq.cli.typed_statements import is_command, items
from sparseq.pictures.bounded_numbers import percent
from sparseq.pictures.tables import format_table
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Options

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.store.store import Store

DEEPEST = 8  # maximal depth of files that .read reads from one another


@dataclass(frozen=True)
class ShellCommand:
    """A command: its syntax, its description, its function, and its name in psql."""

    usage: str
    help: str
    run: Callable[[ShellSession, str], None]
    in_psql: str = ""


class ShellSession:
    """A store and the display of its answers. An error is printed, and the session continues.

    Args:
        path: Path of the store.
        agreed: Asks the user a question; None: there is no user to ask.

    Attributes:
        mode, confidence: Format and confidence of later answers.
        output: File for answers, or None for standard output.
        explains: True: queries are explained instead of asked.
        confirms: True: each query's price is shown, and it is asked only if the user agrees.
        failed: Exit code of the first error, 0 so far.
        done: True: the user wants to leave.
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
        """Run the lines in order, until the end or .quit."""
        for item in items(lines):
            if self.done:
                return
            self.run(item)

    def run(self, item: str) -> None:
        """Run one query or command; print errors on standard error.

        Raises:
            KeyboardInterrupt: The user stopped it; its charge is printed, and the store is open
                again.
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
            if is_command(item):  # a query in a file has printed it
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
        """Close the store."""
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
        """Return True to ask; the user must accept the price (.confirm) or an answer of no use."""
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
        """Append text to the file for answers."""
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
        """Show the public facts of all tables, or of one."""
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
        """Explain a query; or explain every query from now on."""
        if argument.lower() in ("", "on", "off"):
            self.explains = _switch(argument, self.explains)
            said = "explained, and not asked" if self.explains else "asked"
            say(f"queries are {said}", err=True)
        else:
            self._explain(argument)

    def _explain(self, query: str) -> None:
        say(self.store.explain(query, self._options()).styled)

    def confirm(self, argument: str) -> None:
        """Show each query's price before it is asked, or stop this."""
        self.confirms = _switch(argument, self.confirms)
        said = "only if you agree to its price" if self.confirms else "at once"
        say(f"a query is asked {said}", err=True)

    def set_mode(self, name: str) -> None:
        """Print or set the format of answers."""
        if name and name not in FORMATS:
            raise ParameterError(f"there is no mode {name!r}", f"one of {', '.join(FORMATS)}")
        self.mode = name or self.mode
        say(f"answers are written as {self.mode}", err=True)

    def set_confidence(self, text: str) -> None:
        """Print or set the confidence of every ±."""
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
    """Return the value of on, off or an empty text; raises `ParameterError` for anything else."""
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
    """Return the commands by all their names."""
    found = {command.usage.split()[0]: command for command in COMMANDS}
    psql = {command.in_psql: command for command in COMMANDS if command.in_psql}
    backslashed = {"\\" + name[1:]: command for name, command in found.items()}
    return backslashed | psql | found | {name: found[like] for name, like in _LIKE.items()}


NAMED = _by_name()
