"""`sparseq curator`: exact facts about people, and their erasure, with a loud warning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from sparseq.accounting import UNITS_PER_NORM
from sparseq.answers.answer_exports import answer_csv, csv_text
from sparseq.answers.answer_texts import plain_text
from sparseq.base._duckdb.connection import not_judged
from sparseq.base.errors import ParameterError
from sparseq.base.json_text import json_text
from sparseq.base.texts import shown
from sparseq.cli.budget import population_lines
from sparseq.cli.options import (
    Group,
    facts_format_option,
    list_format_option,
    open_store,
    output_option,
    store_argument,
)
from sparseq.cli.output import LISTS, Output, chosen_format
from sparseq.cli.text import (
    PRIVATE,
    banner,
    label_lines,
    one_line,
    put_out,
    say,
    terminal_width,
)
from sparseq.ledger.pots import Pot
from sparseq.pictures.bounded_numbers import number, upper
from sparseq.pictures.tables import format_table
from sparseq.store import curator as facts
from sparseq.store.account_facts import LIFE
from sparseq.store.account_roots import publish_root, published_roots
from sparseq.store.address import address
from sparseq.store.curator import account, counts, exact_sql
from sparseq.store.curator import log as entries
from sparseq.store.receipt import receipt as receipt_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.ledger.notes import LoggedLine
    from sparseq.ledger.pots import Pot
    from sparseq.store.curator import Account, Spend

_BAR = 40


class _EitherOrder(Group):
    """A group whose first argument may also follow the name of the command.

    `elsewhere` has the modules of commands that take time to import.
    """

    elsewhere: ClassVar = {"plan": "plan", "compare": "replay", "train": "train"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in order."""
        return [*self.commands, *self.elsewhere]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported on demand."""
        if cmd_name not in self.elsewhere:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"sparseq.cli.{self.elsewhere[cmd_name]}")
        command: click.Command = getattr(module, f"curator_{cmd_name}")
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reorder `forget STORE` to `STORE forget`; help on a command needs no store."""
        names = self.list_commands(ctx)
        if len(args) > 1 and args[0] in names and args[1] not in names:
            helping = args[1] in ctx.help_option_names
            args = ["STORE", *args] if helping else [args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)


@click.group(
    cls=_EitherOrder,
    short_help="Exact facts about people, and their erasure: for the curator only.",
    subcommand_metavar="COMMAND [ARGS]...",
)
@store_argument
@click.pass_context
def curator(ctx: click.Context, store: Path) -> None:
    """Show exact facts about the people in STORE. Never show them to an analyst.

    Nothing is noised, and nothing is charged, except by train. `sparseq curator COMMAND STORE …` is
    the same.

    \b
    Examples:
      sparseq curator shop.sparseq summary
      sparseq curator shop.sparseq spend
      sparseq curator shop.sparseq user 4711
      sparseq curator forget shop.sparseq 4711
      sparseq curator shop.sparseq sql "SELECT count(*) FROM purchases"
      sparseq curator plan shop.sparseq --queries daily.sql --from 2024-01-01 --to 2024-12-31
    """
    ctx.obj = store
    say(banner(PRIVATE), err=True)
    if said := not_judged():
        say(banner(said), err=True)


@curator.command(short_help="People, rows, and who is near the end of the budget.")
@facts_format_option
@click.pass_obj
def summary(store: Path, format: str) -> None:
    """Count people and rows, and the people whom a next query would leave out.

    \b
    Examples:
      sparseq curator shop.sparseq summary
      sparseq curator shop.sparseq summary --format json
    """

    with open_store(store) as opened:
        made, spent = counts(opened), facts.spend(opened)
        named = opened.stream.pots.named()
        aside = {n: facts.spend(opened, pot) for n, pot in named.items() if pot is not Pot.QUERIES}
    if format == "json":
        pots = {name: asdict(of) for name, of in aside.items()}
        say(json_text(asdict(spent) | {"rows": made.rows, "aside": pots}))
        return
    say(
        label_lines(
            [
                ("people", f"{made.users:,}"),
                *((f"rows of {name}", f"{rows:,}") for name, rows in made.rows.items()),
                ("releases", ", ".join([f"{spent.releases:,}", *map(_paid_of, aside.items())])),
                ("never charged", f"{spent.untouched:,} people"),
                (
                    "near the end",
                    f"{spent.near:,} people have spent 90 % of their budgets, or more",
                ),
                ("left out so far", f"{spent.left_out:,} people"),
                ("left out next", f"{spent.would_drop:,} people could not pay for one more count"),
                ("spent", _spent_of(spent)),
                *((f"spent ({name})", _spent_of(of)) for name, of in aside.items()),
            ]
        )
    )


def _paid_of(aside: tuple[str, Spend]) -> str:
    name, spent = aside
    return f"and {spent.releases:,} paid by {name}"


def _spent_of(spent: Spend) -> str:
    share = 100 * spent.spent / spent.budget if spent.budget else 0.0
    return f"{share:.1f} % of all budgets; at most {100 * spent.highest:.1f} % of anybody's"


@curator.command(short_help="How far people have spent their budgets.")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Number of people to name, of those who have spent most.",
)
@click.option(
    "--pot",
    default="queries",
    show_default=True,
    metavar="NAME",
    help="Which part of the budgets: queries, watch, or a series.",
)
@facts_format_option
@click.pass_obj
def spend(store: Path, top: int, pot: str, format: str) -> None:
    """Show the distribution of people's spending, and the people with the highest spending.

    \b
    Examples:
      sparseq curator shop.sparseq spend
      sparseq curator shop.sparseq spend --top 0 --format json
      sparseq curator shop.sparseq spend --pot watch
    """

    with open_store(store) as opened:
        pots = opened.stream.pots.named()
        if pot not in pots:
            raise ParameterError(f"there is no part {pot!r}", f"one of {', '.join(pots)}")
        of = pots[pot]
        spent, first = facts.spend(opened, of), facts.top_spenders(opened, top, of)
    if format == "json":
        named = [{"id": _name(i), "spent": s, "budget": b} for i, s, b in first]
        say(json_text(asdict(spent) | {"top": named}))
        return
    say(histogram_text(spent))
    if first:
        rows = [[plain_text(_name(i)), f"{s:.4g}", f"{b:.4g}"] for i, s, b in first]
        say("\n" + format_table(["person", "spent", "of"], rows, ["l", ".", "."]))


def _name(id: Any) -> str:
    return "(erased)" if id is None else str(id)


def histogram_text(spent: Spend) -> str:
    """Return a histogram of people by spent tenth of their budget, as bars."""
    names = ["nothing", *(f"{10 * k}–{10 * (k + 1)} %" for k in range(10))]
    people = [spent.untouched, *spent.tenths]
    most = max(*people, 1)
    rows = [
        [name, f"{n:,}", "█" * round(_BAR * n / most) or ("▏" if n else "")]
        for name, n in zip(names, people, strict=True)
    ]
    return format_table(["spent", "people", ""], rows, ["r", "r", "l"])


@curator.command(short_help="One person's account.")
@click.argument("id")
@facts_format_option
@click.pass_obj
def user(store: Path, id: str, format: str) -> None:
    """Show the account of the person with identifier ID: rows, spending, and paid releases.

    \b
    Examples:
      sparseq curator shop.sparseq user 4711
      sparseq curator shop.sparseq user 4711 --format json
    """

    with open_store(store) as opened:
        found = account(opened, id)
    if format == "json":
        paid = [{"release": r, "charge": c} for r, c in found.releases]
        facts = asdict(found) | {"id": _name(found.id), "releases": paid}
        say(json_text(facts))
    else:
        say(account_text(found))


def account_text(found: Account) -> str:
    """Return an account in words."""
    paid = ", ".join(f"{release} ({charge:.4g})" for release, charge in found.releases[-20:])
    earlier = "… " if len(found.releases) > 20 else ""
    return label_lines(
        [
            ("person", _name(found.id)),
            *((f"rows of {name}", f"{rows:,}") for name, rows in found.rows.items()),
            ("spent", f"{found.spent:.6g} of {number(found.budget)}"),
            ("left", f"{found.budget - found.spent:.6g}"),
            *((f"  {name}", f"{s:.6g} of {number(b)}") for name, (s, b) in _parts(found)),
            ("left out", f"first of release {found.left_out}" if found.left_out else "of nothing"),
            ("paid for", f"{earlier}{paid}" if paid else "no release so far"),
        ]
    )


def _parts(found: Account) -> list[tuple[str, tuple[float, float]]]:
    return list(found.pots.items()) if len(found.pots) > 1 else []


_receipt_format = click.option(
    "--format",
    "format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the output.",
)


@curator.command(short_help="One person's receipt: what the data were used for.")
@click.argument("person")
@click.option("--proof", is_flag=True, help="Prove that it was counted, under the last root.")
@click.option(
    "--since-release",
    "since",
    type=click.IntRange(min=0),
    metavar="RELEASE",
    help="With --proof: under that release's root too, so that nothing was taken away since.",
)
@_receipt_format
@output_option
@click.pass_obj
def receipt(
    store: Path, person: str, proof: bool, since: int | None, format: str, output: Path | None
) -> None:
    """Show the uses of PERSON's data: each answer, its charge, and the budget left.

    It is private, and for that person alone. A proof is for programs: `--format json`.

    \b
    Examples:
      sparseq curator shop.sparseq receipt 4711
      sparseq curator shop.sparseq receipt 4711 --proof --format json --output 4711.json
    """

    if since is not None and not proof:
        raise click.UsageError("--since-release is for a proof; add --proof")
    with open_store(store) as opened, Output(output, format, private=True) as out:
        found = receipt_of(opened, person, proof, since)
        out.write(json_text(found) if format == "json" else receipt_text(found))


def receipt_text(found: dict[str, Any]) -> str:
    """Return a receipt in words."""
    accounts = found["accounts"]
    used = {one["release"] for each in accounts for one in each["charges"]}
    means, promise = found["means"], found["promise"]
    whole = promise["lifetime"] or promise["level"]
    each = bool(found["unit"]) and promise["lifetime"] is None
    of = "" if each else f" of {number(whole['kappa'])} promised"
    lines = [
        ("receipt for", found["person"]),
        *([("erased", "rows and identifier are erased; the account stays")] * found["erased"]),
        ("used for", f"{len(used):,} of {found['answers']:,} answers"),
        ("privacy spent", f"kappa {upper(means['kappa'])}{of}"),
        *population_lines(found["population"]),
        ("so far", means["says"]),
        ("promise", promise["guess"]),
    ]
    texts = [label_lines(lines)]
    texts += [_account_of(each, len(accounts) > 1 or bool(found["unit"])) for each in accounts]
    return "\n\n".join(texts)


def _account_of(account: dict[str, Any], named: bool) -> str:
    rows = ", ".join(f"{rows:,} of {name}" for name, rows in account["rows"].items()) or "not known"
    first = account["left_out"]
    lines = [
        *([("account", account["account"] + " (erased)" * account["erased"])] if named else []),
        ("rows", rows),
        ("left out", f"first of release {first}" if first else "of nothing"),
    ]
    if proofs := account.get("proofs"):
        under = ", ".join(f"{p['root'][:16]}… (release {p['release']})" for p in proofs)
        lines.append(("proved under", under))
    names = ("budget", "spent", "held", "left")
    rows_of = [
        [p["part"], *(f"{p[k]:,}" for k in names), number(p["left"] / UNITS_PER_NORM)]
        for p in account["parts"]
        if p["budget"]
    ]
    header = ["part, in 2^-24", "had", "spent", "held", "left", "left, as a norm"]
    table = format_table(header, rows_of, ["l", "r", "r", "r", "r", "r"])
    return "\n\n".join([label_lines(lines), table, *map(_charge_text, account["charges"])])


def _charge_text(one: dict[str, Any]) -> str:
    asked = one["request"] and f", asked as {one_line(one['request'])}"
    at = one["released_at"].replace("T", " ").removesuffix("Z")
    over = "over all windows" if one["pot"] == LIFE else f"from {one_line(one['part'])}"
    return (
        f"release {one['release']}, {at} UTC, by {one['asked_by']}{asked}\n"
        f"  {one_line(one['question'])}\n"
        f"  charged {one['units']:,} units ({number(one['norm'])}) {over}"
    )


@curator.command(short_help="A root of all accounts, for proofs; all roots.")
@click.option("--list", "listed", is_flag=True, help="List all roots, of answers too; make none.")
@_receipt_format
@click.pass_obj
def root(store: Path, listed: bool, format: str) -> None:
    """Make a root of all accounts after the last answer, and print it.

    Receipts prove that an account lies under it (`receipt --proof`). It follows the root of the
    last answer and precedes the root of the next; `sparseq history` shows these to everybody. Roots
    reveal nothing about people.

    \b
    Examples:
      sparseq curator shop.sparseq root
      sparseq curator shop.sparseq root --list --format json
    """

    with open_store(store) as opened:
        roots = published_roots(opened) if listed else [publish_root(opened)]
    if format == "json":
        put_out(json_text(roots))
        return
    rows = [
        [str(r["release"]), "all accounts" if "tree" in r else "the answer", r["root"]]
        for r in roots
    ]
    header = ["after release", "of", "root"]
    say(format_table(header, rows, ["r", "l", "l"]) if rows else "there is no root yet")


@curator.command(short_help="Erase people's rows for good; their accounts stay.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def forget(store: Path, ids: tuple[str, ...], yes: bool) -> None:
    """Erase all rows of the people with identifiers ID, and the identifiers, from the file.

    Their spending stays, under a keyed hash of the identifier: a person who comes back has the same
    account. Past answers stand. This cannot be undone.

    \b
    Examples:
      sparseq curator forget shop.sparseq 4711
      sparseq curator forget shop.sparseq 4711 4712 --yes
    """

    whom = shown(ids[0]) if len(ids) == 1 else f"{len(ids):,} people"
    if not yes:
        click.confirm(
            f"Erase everything about {whom} from {shown(address(store))} for good?",
            abort=True,
            err=True,
        )
    with open_store(store) as opened:
        erased = facts.forget(opened, *ids)
    rows = ", ".join(f"{n:,} rows of {name}" for name, n in erased.rows.items())
    if erased.people:
        say(f"erased {whom}: {rows}; what was spent stays")
    else:
        say(f"nothing to do: {whom} was erased before")


@curator.command("least-people", short_help="Raise how many people a shown value is about.")
@click.argument("people", type=click.IntRange(min=1), metavar="N")
@click.pass_obj
def least_people(store: Path, people: int) -> None:
    """Hide values about fewer than N people, as counted with noise, from now on.

    This also holds for earlier questions when they are asked again. N is never lowered.

    \b
    Examples:
      sparseq curator shop.sparseq least-people 20
    """
    with open_store(store) as opened:
        facts.raise_least_people(opened, people)
    say(f"values about fewer than {people:,} people, as counted with noise, are not shown")


@curator.command("log", short_help="What only the curator is told.")
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="Number of entries. [default: all]"
)
@list_format_option
@output_option
@click.pass_obj
def log(store: Path, last: int | None, format: str | None, output: Path | None) -> None:
    """List events that depend on private rows, oldest first: they may reveal facts about people.

    Events are values that did not fit, rows that were left out, errors of the engine with the
    people concerned, and models that failed on a person's records. No analyst sees them.

    \b
    Examples:
      sparseq curator shop.sparseq log
      sparseq curator log shop.sparseq --last 20 --format json
    """

    chosen = chosen_format(format, output)
    if chosen not in LISTS:
        raise click.UsageError("the log is written as table, csv or json")
    width = terminal_width() if output is None else None
    with open_store(store) as opened, Output(output, chosen, private=True) as out:
        out.write(log_text(entries(opened, last), chosen, width))


def log_text(notes: Sequence[LoggedLine], format: str, width: int | None = None) -> str:
    """Return the curator's log as table, csv or json."""
    rows = [
        (note.at.isoformat(timespec="seconds") + "Z", note.kind, note.message) for note in notes
    ]
    names = ("at", "kind", "message")
    if format == "json":
        return json_text([dict(zip(names, row, strict=True)) for row in rows])
    if format == "csv":
        return csv_text(names, rows)
    if not rows:
        return "nothing has been noted"
    told = [[at.replace("T", " ").removesuffix("Z"), kind, text] for at, kind, text in rows]
    return format_table(["time (UTC)", "kind", "message"], told, ["l", "l", "l"], width)


@curator.command("sql", short_help="An exact answer.")
@click.argument("query")
@list_format_option
@output_option
@click.pass_obj
def exact(store: Path, query: str, format: str | None, output: Path | None) -> None:
    """Answer QUERY exactly, by DuckDB: one SELECT of any kind, which changes nothing.

    \b
    Examples:
      sparseq curator shop.sparseq sql "SELECT date, count(*) FROM purchases GROUP BY 1 ORDER BY 1"
      sparseq curator shop.sparseq sql "SELECT * FROM purchases LIMIT 5" --format csv
    """

    chosen = chosen_format(format, output)
    if chosen not in LISTS:
        raise click.UsageError("exact rows are written as table, csv or json")
    with open_store(store) as opened, Output(output, chosen, private=True) as out:
        out.write(_exact_text(exact_sql(opened, query), chosen))


def _exact_text(table: pa.Table, format: str) -> str:
    if format == "json":
        return json_text(table.to_pylist())
    if format == "csv":
        return answer_csv(table)
    columns = [table[i].to_pylist() for i in range(table.num_columns)]
    numeric = [any(isinstance(v, int | float) for v in column) for column in columns]
    rows = [[plain_text(v) for v in row] for row in zip(*columns, strict=True)]
    align = ["r" if n else "l" for n in numeric]
    return format_table(table.column_names, rows, align, terminal_width())
