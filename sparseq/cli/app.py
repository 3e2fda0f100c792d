"""The `sparseq` command: its subcommands, and what a failure looks like."""

from __future__ import annotations

import errno
import os
from typing import Any

import click

from sparseq.cli.accounting import accounting
from sparseq.cli.budget import budget
from sparseq.cli.create import create, ingest
from sparseq.cli.curator import curator
from sparseq.cli.demo import demo
from sparseq.cli.derive import derive
from sparseq.cli.history import history
from sparseq.cli.keep import backup, recover, upgrade
from sparseq.cli.monitor import monitor
from sparseq.cli.plan import plan
from sparseq.cli.replay import replay
from sparseq.cli.shell import shell
from sparseq.cli.sql import sql
from sparseq.cli.text import error_text, say, unexpected
from sparseq.cli.train import train
from sparseq.errors import SparseqError
from sparseq.escape import shown

__all__ = ["sparseq"]

INTERRUPTED = 130


class Commands(click.Group):
    """Subcommands in the order of a first visit; no traceback ever reaches a user."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they were added."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; translate what goes wrong."""
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
            failure = unexpected(error)
        say(error_text(failure), err=True)
        raise click.exceptions.Exit(failure.exit_code)


def _with_nothing_hidden(error: click.ClickException) -> click.ClickException:
    """Return the error, or one that says the same where it names a file that is not to be shown."""
    text = error.format_message()
    clean = "\n".join(shown(line, None) for line in text.split("\n"))
    if clean == text:
        return error
    if isinstance(error, click.UsageError):
        return click.UsageError(clean, ctx=error.ctx)
    return click.ClickException(clean)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="sparseq", message="sparseq %(version)s")
@click.pass_context
def sparseq(ctx: click.Context) -> None:
    """Private answers to an endless stream of SQL queries.

    Each answer has calibrated noise and an error bound. Each person has an account of what the
    answers have cost; whoever's is spent is left out, and only they are.

    \b
    Examples:
      sparseq demo
      sparseq create shop.sparseq purchases.parquet --user customer_id
      sparseq sql shop.sparseq "SELECT count(*) FROM purchases"
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


for command in (
    create,
    sql,
    shell,
    monitor,
    derive,
    replay,
    train,
    plan,
    ingest,
    budget,
    history,
    backup,
    recover,
    upgrade,
    curator,
    accounting,
    demo,
):
    sparseq.add_command(command)
