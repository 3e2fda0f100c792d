"""The `sparseq` command: its subcommands and its reports of failures."""

from __future__ import annotations

import errno
import os
from typing import Any

import click

from sparseq.base.errors import SparseqError, did_you_mean
from sparseq.base.extensions import COMMANDS as OFFERED
from sparseq.base.extensions import Offer, offers
from sparseq.base.texts import shown
from sparseq.cli.stop_signals import INTERRUPTED
from sparseq.cli.text import error_text, say, unexpected_error

__all__ = ["sparseq"]

COMMANDS = {
    "create": ("create", "Make a store from files of events about people."),
    "sql": ("sql", "Ask a query, and get a private answer with its error bound."),
    "shell": ("shell", "Ask one query after another, at a prompt or from a pipe."),
    "monitor": ("monitor", "Ask the same queries day after day, and keep the series in a file."),
    "report": ("report_page", "Put several answers and series on one page."),
    "dashboard": ("dashboard", "Answer the panels of every morning from cells measured once."),
    "derive": ("derive", "Totals, weekly sums and changes of a monitored series: free."),
    "replay": ("replay", "Answer a log of queries; each line is answered or refused by itself."),
    "train": ("train", "Train a model on the rows, privately."),
    "plan": ("plan", "Say how a series is to be asked, from public or historical data."),
    "purpose": ("purpose", "Give a series a part of every budget for itself."),
    "population": ("population", "One budget for everybody, which several stores draw on."),
    "ingest": ("create", "Add rows, and people that are new."),
    "keys": ("keys", "Find the keys of columns privately, and list those that were found."),
    "budget": ("budget", "Show the guarantee, and what it buys."),
    "card": ("card", "Print a card to publish: what is promised to whom, and what was asked."),
    "history": ("history", "List what was answered; show an old answer again, free."),
    "backup": ("keep", "Make a whole copy of a store."),
    "recover": ("keep", "Open a store that was not closed, and tidy up."),
    "mark": ("keep", "Keep a store's high-water mark outside of it."),
    "doctor": ("keep", "Check a store or a lake; remove what nothing refers to."),
    "upgrade": ("keep", "Make a store of an earlier version one of this."),
    "curator": ("curator", "Exact facts about people, and their erasure: for the curator only."),
    "accounting": ("accounting", "Convert and compare guarantees; no store needed."),
    "demo": ("demo", "Monitor real purchases for 546 days, privately."),
}
"""The commands of the core: the module of each, and its first line of help."""


def all_commands() -> dict[str, Offer]:
    """Return the commands of the core, then the commands of extensions."""
    core = {
        name: Offer(f"sparseq.cli.{module}", name, about)
        for name, (module, about) in COMMANDS.items()
    }
    return core | dict(offers(OFFERED))


class Commands(click.Group):
    """Subcommands in the order of a first visit; no traceback ever reaches a user.

    A command's module is imported on demand: so its imports are at its top, and `--help` does not
    need them.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        return list(all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        offered = all_commands().get(cmd_name)
        return None if offered is None else offered.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; one that there is not may be meant as another."""
        if args and not args[0].startswith("-") and args[0] not in all_commands():
            meant = did_you_mean(args[0], list(all_commands()))
            raise click.UsageError(f"No such command {args[0]!r}. {meant}".strip(), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.about) for name, one in all_commands().items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; translate exceptions into errors of the command line."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _with_nothing_hidden(error) from None
        except (click.exceptions.Exit, click.Abort):
            raise
        except SparseqError as error:
            failure = error
        except KeyboardInterrupt:
            say("\nsparseq: stopped", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            failure = unexpected_error(error)
        say(error_text(failure), err=True)
        raise click.exceptions.Exit(failure.exit_code)


def _with_nothing_hidden(error: click.ClickException) -> click.ClickException:
    """Return the error, or an equivalent one with a printable file name."""
    text = error.format_message()
    clean = "\n".join(shown(line, None) for line in text.split("\n"))
    if clean == text:
        return error
    if isinstance(error, click.UsageError):
        return click.UsageError(clean, ctx=error.ctx)
    return click.ClickException(clean)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="sparseq", message="sparseq %(version)s")
@click.pass_context
def sparseq(ctx: click.Context) -> None:
    """Private answers to an endless stream of SQL queries.

    Each answer has noise that protects everybody, and an interval that holds the truth. Each person
    has an account of all charges; a person with little budget left counts for less.

    \b
    Examples:
      sparseq demo
      sparseq create shop.sparseq purchases.parquet --user customer_id
      sparseq sql shop.sparseq "SELECT count(*) FROM purchases"
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
