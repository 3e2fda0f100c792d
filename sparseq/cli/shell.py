"""`sparseq shell`: ask one query after another, at a prompt or from a pipe."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory

from sparseq.cli.completion import Words
from sparseq.cli.options import command, store_argument
from sparseq.cli.session import ShellSession
from sparseq.cli.statements import is_complete
from sparseq.cli.text import guarantee_line, loud_lines, say
from sparseq.escape import shown

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from sparseq.cli.session import ShellSession


@command(short_help="Ask one query after another, at a prompt or from a pipe.")
@store_argument
@click.pass_context
def shell(ctx: click.Context, store: Path) -> None:
    """Open STORE, and answer queries as they are typed; each ends with a semicolon.

    \\? lists the commands. From a pipe or a file, answers are printed in order, an error does not
    stop the rest, and the exit code is that of the first error.

    \b
    Examples:
      sparseq shell shop.sparseq
      sparseq shell shop.sparseq < queries.sql
    """

    session = ShellSession(store)
    try:
        if sys.stdin.isatty():
            _talk(session)
        else:
            session.run_all(sys.stdin)
            ctx.exit(session.failed)
    finally:
        session.close()


def _talk(session: ShellSession) -> None:
    """Prompt until \\q or Ctrl-D; Ctrl-C drops the line."""
    store = session.store
    tables = ", ".join(shown(t.name) for t in store.catalog.tables)
    say(f"{shown(store.path)}: {tables}; {guarantee_line(store.budget)}")
    for line in loud_lines(store.seed is not None, len(store.losses)):
        say(line)
    say("A query ends with ; and Tab completes. \\? shows more, \\q leaves.\n")
    prompt = _prompt(session)
    while not session.done:
        try:
            session.run_all(prompt.prompt().splitlines())
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _prompt(session: ShellSession) -> PromptSession[str]:

    return PromptSession(
        "sparseq> ",
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation="    ...> ",
        completer=Words(session.store.catalog),
        complete_while_typing=False,
        history=_history(),
        enable_history_search=True,
    )


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
