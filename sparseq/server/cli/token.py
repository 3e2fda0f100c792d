"""`sparseq token` and `audit`: who may ask a served store, and who has."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import click

from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.json_text import json_text
from sparseq.base.texts import shown
from sparseq.cli.options import Group, facts_format_option, store_argument
from sparseq.cli.text import one_line, say
from sparseq.pictures.tables import format_table
from sparseq.server.audit import SUM, AuditLog
from sparseq.server.tokens import Quota, Role, Tokens
from sparseq.store.address import kind_at


@click.group(cls=Group, short_help="Make, list and revoke tokens of a served store.")
def token() -> None:
    """Say who may ask a served store. It works while the store is served.

    \b
    Examples:
      sparseq token create shop.sparseq --name ada
      sparseq token list shop.sparseq
    """


@token.command()
@store_argument
@click.option(
    "--name", required=True, help="Name of its holder, and user name for PostgreSQL clients."
)
@click.option(
    "--role",
    type=click.Choice([r.value for r in Role]),
    default="analyst",
    show_default=True,
    help="What it may do.",
)
@click.option(
    "--quota",
    default="",
    metavar="N/day,P%",
    help="New answers a day; a share of what all planned answers may cost.",
)
@click.option("--expires", metavar="90d", help="After so many days or hours it is over.")
def create(store: Path, name: str, role: str, quota: str, expires: str | None) -> None:
    """Make a token of STORE and show it, once.

    \b
    Examples:
      sparseq token create shop.sparseq --name ada
      sparseq token create shop.sparseq --name bot --quota 20/day,5% --expires 90d
    """
    made = _tokens(store).create(name, Role(role), Quota.parse(quota), _span(expires))
    _note(store, "token made", name, role=role, quota=quota)
    say(made)
    say("Keep it: it is not shown again.", err=True)


@token.command(name="list")
@store_argument
@facts_format_option
def list_tokens(store: Path, format: str) -> None:
    """List the tokens of STORE: names, roles, quotas; never a token.

    \b
    Examples:
      sparseq token list shop.sparseq
    """
    found = _tokens(store).every()
    if format == "json":
        say(json_text(found))
        return
    now = dt.datetime.now(dt.UTC)
    rows = [
        [
            t.name,
            t.role.value,
            str(t.quota),
            *map(_day, (t.created, t.used, t.expires)),
            t.state(now),
        ]
        for t in found
    ]
    head = ["name", "role", "quota", "made", "last used", "expires", ""]
    say(format_table(head, rows, ["l"] * len(head)))


@token.command()
@store_argument
@click.option("--name", required=True, help="Name of its holder.")
def revoke(store: Path, name: str) -> None:
    """End a name's token of STORE at once, in open connections too.

    \b
    Examples:
      sparseq token revoke shop.sparseq --name ada
    """
    if not _tokens(store).revoke(name):
        raise ParameterError(f"{name!r} has no valid token", "`sparseq token list` shows all")
    _note(store, "token revoked", name)
    say(f"the token of {shown(name)} is revoked")


@click.group(cls=Group, short_help="Look at the audit log of a served store.")
def audit() -> None:
    """Look at who asked what, when, from where, and at what price: for the curator.

    \b
    Examples:
      sparseq audit show shop.sparseq --last 20
      sparseq audit verify shop.sparseq
    """


@audit.command()
@store_argument
def verify(store: Path) -> None:
    """Check that no line of STORE's audit log was changed, taken out or put in.

    That lines are missing at its end shows only if a later hash was kept elsewhere: keep what this
    prints.

    \b
    Examples:
      sparseq audit verify shop.sparseq
    """
    chain = AuditLog.beside(_there(store)).verify()
    number = chain.lines - chain.first + 1
    since = f", from line {chain.first:,} on: earlier files are not here" if chain.first > 1 else ""
    say(f"{number:,} lines follow from each other{since}; the last has the hash {chain.last}")


@audit.command(name="show")
@store_argument
@click.option("--last", type=click.IntRange(1), help="Only so many.")
@facts_format_option
def show_audit(store: Path, last: int | None, format: str) -> None:
    """Show STORE's audit log, oldest line first.

    \b
    Examples:
      sparseq audit show shop.sparseq --last 20
    """
    log = AuditLog.beside(_there(store))
    lines = list(log.lines()) if last is None else log.latest(last)[::-1]
    if format == "json":
        say(json_text(lines))
        return
    rows = [
        [
            line["at"][:19].replace("T", " "),
            one_line(line["who"], 20),
            line["what"],
            str(line.get("release", "")),
            f"{line['price']:.4g}" if "price" in line else "",
            one_line(str(line.get("query", line.get("why", ""))), 60),
        ]
        for line in lines
        if line.get("what") != SUM
    ]
    head = ["time (UTC)", "who", "what", "release", "price", ""]
    say(format_table(head, rows, ["l", "l", "l", "r", "r", "l"]))


def _note(store: Path, what: str, name: str, **facts: str) -> None:
    AuditLog.beside(store).add([{"what": what, "who": "", "token": name} | facts])


def _there(store: Path) -> Path:
    if not store.is_file() and kind_at(store) is None:
        raise StoreError(f"there is no store at {store}", "`sparseq create` makes one")
    return store


def _tokens(store: Path) -> Tokens:
    return Tokens.beside(_there(store))


def _span(text: str | None) -> dt.timedelta | None:
    if text is None:
        return None
    read = re.fullmatch(r"(\d{1,5})([dh])", text)
    if read is None:
        raise ParameterError(f"expires is {text!r}", "days or hours, such as 90d or 12h")
    number = int(read[1])
    return dt.timedelta(days=number) if read[2] == "d" else dt.timedelta(hours=number)


def _day(moment: dt.datetime | None) -> str:
    return "" if moment is None else moment.isoformat(" ", timespec="minutes")[:16]
