"""`sparseq shell`: ask one query after another, at a prompt or from a pipe."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession, prompt
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory

from sparseq.base.texts import shown
from sparseq.cli.completion import Words
from sparseq.cli.options import command, memory_option, store_argument
from sparseq.cli.session import ShellSession
from sparseq.cli.stop_signals import INTERRUPTED
from sparseq.cli.text import guarantee_line, loud_lines, say
from sparseq.cli.typed_statements import is_complete
from sparseq.store.address import address

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from sparseq.cli.session import ShellSession


@command(short_help="Ask one query after another, at a prompt or from a pipe.")
@store_argument
@memory_option
@click.pass_context
def shell(ctx: click.Context, store: Path) -> None:
    """Open STORE, and answer typed queries; each ends with a semicolon.

    .help lists the commands. From a pipe or a file, answers are printed in order, an error does not
    stop the rest, and the exit code is that of the first error. Ctrl-C stops a query: before its
    answer nothing is charged; after it, the charge is shown and the answer can be read again.

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
    """Return the lines typed in earlier sessions, from the user's own file."""

    try:
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "history"
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def state_folder() -> Path:
    """Return the folder of the user's state."""
    home = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".local" / "state") / "sparseq"
