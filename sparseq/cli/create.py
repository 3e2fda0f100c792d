"""`sparseq create` and `sparseq ingest`: make a store from rows about people, and add rows."""

from __future__ import annotations

import datetime as dt
import re
import shlex
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sparseq
from sparseq.accounting import simultaneous_bound
from sparseq.answers.answer_texts import plain_text
from sparseq.base.defaults import BETA, CONFIDENCE, DELTA, DELTA_TEXT, KAPPA
from sparseq.base.errors import ParameterError
from sparseq.base.sql_text import quote
from sparseq.base.texts import count_of, shown
from sparseq.cli.budget import aside_lines, population_lines, purpose_lines
from sparseq.cli.declare import (
    bounds_of,
    csv_of,
    dates_of,
    found_at_once,
    keys_of,
    links_of,
    most_of,
    public_tables,
    renamed_of,
    row_key_of,
    schema_text,
    tables_of,
    types_of,
)
from sparseq.cli.options import (
    Command,
    FileAndShare,
    NameAndNumber,
    NumberPair,
    bounds_option,
    command,
    dates_option,
    keys_option,
    memory_option,
    new_store_argument,
    of_today,
    open_store,
    seed_option,
    store_argument,
    table_option,
)
from sparseq.cli.progress import reading_bar
from sparseq.cli.purpose_text import PurposeText, purposes_of
from sparseq.cli.text import (
    banner,
    course_text,
    label_lines,
    one_line,
    say,
    statement_lines,
    tell_curator,
    terminal_width,
)
from sparseq.load.column_report import ColumnRead, UnclearDates
from sparseq.load.composite_identifier import composite_name, parts_of
from sparseq.load.file_patterns import table_name
from sparseq.load.key_chain import ForeignLinks, KeyChains, check_declared, declared_links
from sparseq.load.load_rows import IncomingRows
from sparseq.load.named_columns import time_of
from sparseq.load.read_schema import (
    ORDERS,
    Declarations,
    Schema,
    check_named,
    text_files,
    types_apart,
)
from sparseq.load.title_rows import PASSED_OVER
from sparseq.pictures.bounded_numbers import format_bound, number, percent, upper
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.pictures.tables import format_table
from sparseq.question.catalog import TIME_TYPES, bound_text
from sparseq.store.address import address
from sparseq.store.curator import counts

if TYPE_CHECKING:
    from sparseq.question.catalog import Catalog, Column, Table
    from sparseq.store.store import Store


again_option = click.option(
    "--again", is_flag=True, help="Load a file even if its contents were loaded before."
)


class AskingCommand(Command):
    """The command `create`: on a terminal it asks for missing arguments and shows the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; ask for those that are missing."""
        args = of_today(str(self.name), args)
        both = pairwise([*args, ""])
        users = [a.partition("=")[2] or b for a, b in both if a.partition("=")[0] == "--user"]
        if len(users) > 1:
            raise click.UsageError(
                f"--user is given {len(users)} times: {' and '.join(map(shown, users))}. All "
                "tables call the column of people alike: --rename TABLE.COL=NAME renames it in "
                "one; a table without it has a --link. Two columns of a person are COL,COL.",
                ctx=ctx,
            )
        try:
            return click.Command.parse_args(self, ctx, list(args))
        except click.MissingParameter:
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            if not isinstance(given.get("store"), str) or not on_terminal():
                raise
        usual = {name: ctx.lookup_default(name) for name in _MULTIPLE}
        args = [*_answers(usual | given, args)]
        ctx.params.clear()
        say(f"\nthe same without questions:\n  sparseq create {shlex.join(args)}\n", err=True)
        return click.Command.parse_args(self, ctx, args)


_MULTIPLE = ("files", "types", "csv", "rename", "drop", "dates", "bounds")


def _answers(given: Mapping[str, Any], args: Sequence[str]) -> list[str]:
    """Ask for missing arguments, and return all arguments.

    Args:
        given: The values on the command line, by the options' names.
        args: The command line.
    """
    args = list(args)
    said = {k: list(given[k]) if isinstance(given.get(k), list | tuple) else [] for k in _MULTIPLE}
    table = given["table"] if isinstance(given.get("table"), str) else None
    if not said["files"]:
        said["files"] = [given["store"]]
        name = f"{table or table_name(given['store'])}.sparseq"
        args.insert(0, _ask("Where is the store to be made?", default=name))
    tables = tables_of(said["files"], table)
    inspected = None
    while inspected is None:
        try:
            unasked = KeyChains.of("", {}, tables)
            inspected = inspect(tables, {}, read_as(said, list(tables)), unasked)
        except UnclearDates as unclear:
            say(unclear.message, err=True)
            first = "Which comes first? dmy: the day, mdy: the month"
            order = _ask(first, among=dict(enumerate(ORDERS, 1)))
            said["dates"].append(order)
            args += ["--dates", order]
    everywhere = _everywhere(inspected)
    columns = everywhere or {  # keys link one table to another: see `_accept_links`
        f"{table}.{c.name}": c.type
        for table, found in inspected.columns.items()
        for c in found
        if c.name
    }
    rows = [[str(k), shown(name), kind] for k, (name, kind) in enumerate(columns.items(), 1)]
    say(format_table(["", "column", "type"], rows, "rll"), err=True)
    titles = [note for note in inspected.notes if note.endswith(PASSED_OVER)]
    for note in titles:
        say(note, err=True)
    if len(columns) == 1:
        say(
            "only one column: if lines with titles stand before the header, end this with Ctrl-C, "
            "and say their number: --csv skip=1",
            err=True,
        )
    user = given.get("user")
    if not isinstance(user, str):
        whom = "Which column says whom a row is about? Its name or number"
        user = _ask(whom, among=dict(enumerate(columns, 1)))
        args += ["--user", user]
    days = {
        k: name
        for k, (name, kind) in enumerate(everywhere.items(), 1)
        if kind in TIME_TYPES and name.lower() != user.lower()
    }
    if not isinstance(given.get("time"), str) and len(days) > 1:
        when = f"Which says when, {' or '.join(map(shown, days.values()))}? Queries select by it"
        args += ["--time", _ask(when, default=next(iter(days.values())), among=days)]
    elif not days and everywhere:
        say("no column has dates or times: none says when", err=True)
    return args


def _everywhere(inspected: Inspection) -> dict[str, str]:
    """Return the columns that all tables have, with their types."""
    first, *others = [
        {c.name: c.type for c in columns if c.name} for columns in inspected.columns.values()
    ]
    return {n: t for n, t in first.items() if all(n in other for other in others)}


def _ask(question: str, default: str | None = None, among: Mapping[int, str] | None = None) -> str:
    """Return the answer to a question: any text, or one of several choices by number or name."""

    def chosen(text: str) -> str:
        known, said = among or {}, text.strip().lower()
        named = [one for k, one in known.items() if said in (str(k), one.lower())]
        if known and not named:
            raise click.BadParameter(
                f"{text!r} is none of {', '.join(map(shown, known.values()))}."
            )
        return next((one for one in named if one.lower() == said), named[0]) if known else text

    return str(click.prompt(question, default=default, value_proc=chosen, err=True))


@command(cls=AskingCommand, short_help="Make a store from files of events about people.")
@new_store_argument
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--user",
    required=True,
    metavar="COL[,COL]",
    help="Column that says whom a row is about, or several columns; with --link also TABLE.COL, "
    "of this table alone.",
)
@click.option(
    "--link",
    "links",
    multiple=True,
    metavar="TABLE.COL=TABLE.COL",
    help="For a table without the --user column: its column with the keys of another table, "
    "such as lineitem.l_orderkey=orders.o_orderkey. Its rows belong to the person of that row. "
    "Several steps may follow each other. TABLE.A,B=TABLE.C,D if the key has several columns.",
)
@click.option("--table", metavar="NAME", help="Name of the table. [default: the first file's]")
@click.option("--kappa", type=float, help=f"zCDP level of all answers ever. [default: {KAPPA}]")
@click.option(
    "--epsilon",
    type=NumberPair(),
    metavar="E,DELTA",
    help="The same as epsilon, with its delta: 1,1e-6.",
)
@click.option(
    "--for",
    "purposes",
    multiple=True,
    type=PurposeText(),
    metavar="NAME=SHARE,…",
    help="Part every budget by what it is for. A series: daily_buyers=60%,ticks=365, "
    "as `sparseq plan` prints it. What is left is for questions, of which more can be "
    "said: questions,answers=240 is about how many are to be answered well [default: "
    "60]; questions,in-or-out; see docs/stores.md.",
)
@click.option(
    "--time",
    default="",
    metavar="COL",
    help="Column that most queries select by; TABLE.COL,TABLE.COL where tables have several names.",
)
@click.option(
    "--window",
    type=NameAndNumber(),
    metavar="WINDOW[=KAPPA]",
    help="day, week, month, quarter or year: an account is for a person's rows of one "
    "such window of --time, not for a person: budgets for years. KAPPA: the level of all "
    "windows of a person together, too.",
)
@keys_option
@bounds_option
@click.option(
    "--public", multiple=True, metavar="NAME=FILE", help="A table that isn't about people."
)
@click.option(
    "--really-public",
    multiple=True,
    metavar="TABLE",
    help="Such a table has the --user column, or one that leads to it, and everybody may see every "
    "row of it.",
)
@click.option(
    "--row-key",
    multiple=True,
    metavar="COL[,COL]",
    help="Columns that name a row of a person; a later row with that key replaces it. "
    "TABLE=COL[,COL] if there are several tables.",
)
@click.option(
    "--budget-column",
    type=NameAndNumber(),
    default="",
    metavar="COL[=LEAST]",
    help="People's own budgets, at most the store's; LEAST is what everybody has, known to all.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="COL=TYPE[:FORMAT]",
    help="How a column is read, such as day=DATE:%d/%m/%Y or price=DOUBLE:, (decimal "
    "comma); 'ward=NOT NULL', or 'day=DATE NOT NULL:%d/%m/%Y': a row without a value there is "
    "left out; @FILE has all columns with their types, a line each in TOML, and others are "
    "not stored. [default: guessed from the first rows, then fixed]",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Call a column of the files otherwise. [default: as they do; what can't be a name, such "
    "as 'Cost (EUR)', is called Cost_EUR]",
)
@click.option("--drop", multiple=True, metavar="COL", help="A column of the files is not stored.")
@dates_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print how FILEs would be read, column by column: what would be changed, left out or "
    "guessed, and why. Make nothing.",
)
@click.option(
    "--print-schema",
    is_flag=True,
    help="Print columns and types as a file for --type @FILE, and make nothing.",
)
@click.option(
    "--csv",
    multiple=True,
    metavar="WORD=VALUE",
    help="How text files are read. encoding=latin-1 (cp1252, …) [default: UTF-8, or UTF-16 by its "
    "mark, or cp1252 where the first part has other letters, and none of UTF-8]; skip=1: the "
    "number of lines with titles before the header [default: found in each file, by the names of "
    "columns]; escape=\\\\: what is before a quote within a value "
    "[default: quotes are doubled]; null=NA: a text that is NULL in every column, null= for "
    "no other than the empty one [default: NULL and \\N]; multiline: values between quotes may "
    "have several lines, and one odd quote can change how later lines are read.",
)
@click.option(
    "--most",
    multiple=True,
    metavar="NAME=N",
    help="rows: the most that a person has in a table; later ones are left out, and "
    "intervals are proved. work: the most row combinations of one person in a join; a person with "
    "more is left out of that join. Also limits of queries: text, nodes, cells … "
    "(docs/limits.md). [default: work=20000000]",
)
@click.option(
    "--least-people",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Show no value about fewer than N people, as counted with noise: it is NULL, and marked "
    "'< N people'. Each question then also counts people, for a charge. N can be raised "
    "(sparseq curator STORE least-people), never lowered. [default: all are shown]",
)
@click.option(
    "--find-bounds",
    multiple=True,
    metavar="COL",
    help="Find the bounds of a column of numbers now, by one question that is charged. "
    "never: find none, and refuse sums of columns without --bounds that are not clamped. [default: "
    "when the first sum or average of one is asked for]",
)
@click.option(
    "--buckets",
    type=int,
    metavar="N",
    help="With lake://FOLDER: the number of small stores, 5 to 20 million rows each "
    "(docs/lake.md).",
)
@click.option(
    "--population",
    type=FileAndShare(),
    metavar="FILE[=SHARE]",
    help="One budget for everybody that several stores draw on (`sparseq population create`). "
    "--kappa, or --epsilon, is then the most that this one may ever draw, and SHARE what of it is "
    "drawn now. [default: 100%]",
)
@seed_option
def create(
    store: Path | str, files: tuple[str, ...], dry_run: bool, print_schema: bool, **options: Any
) -> None:
    """Make STORE from FILEs of events.

    A FILE is Parquet, CSV, JSON, Arrow or a workbook; a folder of such files or a pattern in
    quotes; FILE#TABLE of SQLite or DuckDB; delta:FOLDER; postgresql://HOST/DB#TABLE.

    On a terminal it asks for missing arguments: `sparseq create visits.csv` is enough.

    An option names a column as COL, or as TABLE.COL where several tables have a column of that
    name. Bounds and keys are of private tables; a public table's own values are used.

    Columns' types and formats are shown and then fixed. Rows are independent: a value that does not
    fit is NULL, a row without a user is left out, and the numbers of both are shown. A file that is
    given twice is refused.

    All FILEs make one table. NAME=FILE makes a table of that name; all tables about people have the
    --user column, or a --link to a table with it.

    \b
    Examples:
      sparseq create shop.sparseq purchases.parquet --user customer_id
      sparseq create shop.sparseq purchases.csv --user customer_id --dates dmy --dry-run
      sparseq create shop.sparseq jan.csv feb.csv --table purchases --user customer_id
          --epsilon 2,1e-6 --bounds amount=0..200
      sparseq create web.sparseq visits=v.csv orders=o.csv --user id --keys page=home,cart,pay
      sparseq create web.sparseq "exports/visits-*.csv.gz" --user id
      sparseq create shop.sparseq postgresql://db.example/shop#orders --user customer_id
      sparseq create shop.sparseq purchases.parquet --user customer_id
          --for daily_buyers=60%,ticks=365
      sparseq create shop.sparseq orders=o.csv lineitem=l.csv --user orders.o_custkey
          --link lineitem.l_orderkey=orders.o_orderkey
      sparseq create ward.sparseq "exports/*.csv" --user Patient --dates dmy
          --rename "Cost (EUR)=cost" --drop "Free text"
      sparseq create lake://events "events/*.parquet" --user customer_id --buckets 16
    """

    tables = tables_of(files, options.pop("table"))
    public = options["public"] = public_tables(options["public"])
    for name in tables.keys() & public.keys():
        raise ParameterError(f"two tables are called {name!r}", f"--public OTHER={public[name][0]}")
    declared = read_as(options, (*tables, *public))
    links, unchecked = links_of(options["links"]), options["really_public"]
    found = declared_links(tables | public, declared)
    links = options["links"] = links | _accept_links(found, options["user"], links, tables)
    chains = KeyChains.of(options["user"], links, tables, public)
    check_declared(chains, found, public, unchecked)
    inspected = inspect(tables, public, declared, chains, options["time"], unchecked)
    if print_schema:
        say("\n\n".join(schema_text(name, found) for name, found in inspected.schemas.items()))
        return
    if dry_run:
        say(reading_text(inspected))
        return
    options["types"] = types_of(options["types"], (*tables, *public))
    options["csv"] = csv_of(options["csv"])
    options["keys"] = keys_of(options["keys"], inspected.types)
    options["row_key"] = row_key_of(options["row_key"])
    options["bounds"] = declared.bounds
    options["rename"] = declared.rename
    options["dates"] = declared.dates
    options["most"] = most_of(options["most"])
    options["find_bounds"] = found_at_once(options["find_bounds"], inspected.types)
    options["purposes"] = purposes_of(options["purposes"])
    with reading_bar():
        made = sparseq.create(store, tables, **options)
    with made as opened:
        say(made_text(opened))
        notes = opened.curator_notes()
        if changed := reading_text(inspected, short=True):
            say(changed, err=True)
        tell_curator(n for n in notes if n.partition(": ")[2] not in inspected.said)


def on_terminal() -> bool:
    """Return True if a user can be asked questions on a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _accept_links(
    declared: Mapping[str, ForeignLinks],
    user: str,
    links: Mapping[str, str],
    tables: Collection[str],
) -> dict[str, str]:
    """Return the foreign keys of databases to use as links; on a terminal, ask first."""
    found: dict[str, str] = {}
    if not on_terminal():
        return found
    linked = {child.partition(".")[0].lower() for child in links}
    for table, said in declared.items():
        if table.lower() in linked or table not in tables:
            continue
        for child, parent in said.leading(user.rpartition(".")[2], tables).items():
            asked = f"{child} is a key of {parent}. Do rows of {table} belong to that row's person?"
            if click.confirm(asked, err=True):
                found[child] = parent
                break
    if found:
        written = " ".join(f"--link {child}={parent}" for child, parent in found.items())
        say(f"the same without questions: {written}", err=True)
    return found


def read_as(options: Mapping[str, Any], tables: Sequence[str]) -> Declarations:
    """Return the declarations for reading files from options; raises `ParameterError`."""
    own, whole = types_apart(types_of(options["types"], tables))
    return Declarations(
        own,
        schemas=whole,
        tables=tuple(tables),
        bounds=bounds_of(options["bounds"]),
        rename=renamed_of(options["rename"]),
        drop=tuple(options["drop"]),
        dates=dates_of(options["dates"]),
        **text_files(csv_of(options["csv"])),
    )


@dataclass
class Inspection:
    """The contents of files: each column's type, by its name and by `table.name`, in lower case."""

    types: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """Notes on columns that are converted or not read."""
    columns: dict[str, list[ColumnRead]] = field(default_factory=dict)
    """The reading of each column of each table."""
    notes: list[str] = field(default_factory=list)
    """Other notes on the files."""
    schemas: dict[str, Schema] = field(default_factory=dict)
    """The schema of each table."""


def inspect(
    tables: Mapping[str, list[str]],
    public: Mapping[str, list[str]],
    declared: Declarations,
    chains: KeyChains,
    time: str = "",
    really_public: Sequence[str] = (),
) -> Inspection:
    """Return the columns of the files; raises `DataError` where they can't be read."""

    found, all_tables = Inspection(), (*tables, *public)
    for table, files in (*((t, tables[t]) for t in chains.order()), *public.items()):
        whom = chains.users.get(table, "")
        rows = IncomingRows(files, declared=declared.of(table), user=whom)
        if whom or table in chains.links:
            rows.check_people(table, time_of(time, table, all_tables), linked=not whom)
        elif table in public and table not in really_public:
            rows.check_public(table, chains.ways())
        found.schemas[table] = rows.schema
        for name, kind in rows.usable().items():
            found.types.setdefault(name.lower(), kind)
            found.types[f"{table}.{name}".lower()] = kind
        found.columns[table] = rows.columns()
        if table in tables:
            found.columns[table] += _link_columns(table, chains, found.schemas)
        said = [fact for column in found.columns[table] if (fact := column.fact())]
        found.said += said
        found.notes += [note for note in rows.told.messages() if note not in said]
        rows.close()
    if any(chains.users.values()):  # else the column with the user is not known yet
        times = {time_of(time, table, all_tables) for table in tables} - {""}
        shared = [*chains.user_columns(), *times]
        check_named(found.schemas, declared, public, shared)
    found.columns = {t: found.columns[t] for t in (*tables, *public)}
    found.schemas = {t: found.schemas[t] for t in (*tables, *public)}
    return found


def _link_columns(table: str, chains: KeyChains, schemas: Mapping[str, Schema]) -> list[ColumnRead]:
    """Return the column that a table's link makes, after its own columns; [] without a link."""
    types = schemas[table].types
    chains.below(table, types)
    above = chains.links.get(table)
    link = chains.link_of(table, types, schemas[above.parent].types if above else {})
    if link is None:
        return []
    name, first = chains.user_name(table, types), chains.first(table)
    own = composite_name(parts_of(chains.users[first]) or (chains.users[first],))
    kind = next(t for n, t in schemas[first].types.items() if n.lower() == own.lower())
    said = f"whom a row is about, by --link {link.said(table)}"
    return [ColumnRead("", name, kind, declared=(said,))]


def reading_text(inspected: Inspection, short: bool = False) -> str:
    """Return a table with the reading of files' columns; "" if there is nothing to show.

    Args:
        inspected: The contents of the files.
        short: Only the columns with a change, an omission or a guess.
    """
    rows = [
        ([table, shown(column.there), shown(column.name), column.type], _why(column))
        for table, columns in inspected.columns.items()
        for column in columns
        if column.said or not short
    ]
    if not rows:
        return ""
    first = len(inspected.columns) == 1  # the table is obvious
    titles = ["table", "in the file", "in the store", "type", "changed, left out or guessed"]
    width, lines = terminal_width(), list[list[str]]()
    if width:
        width -= sum(max(map(len, cells)) + 2 for cells in zip(*[r for r, _ in rows], strict=True))
    for cells, why in rows:
        told = textwrap.wrap(why, max(width, 40)) if width and why else [why]
        lines += [[*cells, told[0]], *(["", "", "", "", more] for more in told[1:])]
    text = format_table(titles[first:], [line[first:] for line in lines], "l" * (5 - first))
    return text if short else "\n".join([text, *([""] * bool(inspected.notes)), *inspected.notes])


def _why(column: ColumnRead) -> str:
    return "; ".join([*column.said, *column.declared])


def made_text(store: Store) -> str:
    """Return the facts about a new store for its curator."""

    made = counts(store)
    loaded = ", ".join(f"{count_of(rows, 'row')} in {name}" for name, rows in made.rows.items())
    lines = [
        *guarantee_lines(store),
        (
            "loaded",
            f"{loaded}; {store.promise.statement.accounts(made.users)} (exact, so for the curator "
            "only)",
        ),
    ]
    table = store.catalog.private[0]
    user, name = (
        word if re.fullmatch(r"[^\W\d]\w*", word) else quote(word)
        for word in (table.user, table.name)
    )
    query = f"SELECT count(DISTINCT {user}) AS people FROM {name}"
    asked = shlex.quote(query) if '"' in query else f'"{query}"'
    loud = [banner(NOT_PRIVATE)] if store.seed is not None else []
    return "\n".join(
        [
            click.style(f"made {shown(address(store.path), None)}", bold=True),
            "",
            catalog_text(store.catalog),
            "",
            *loud,
            label_lines([*lines, ("try", f"sparseq sql {address(store.path)} {asked}")]),
        ]
    )


def guarantee_lines(store: Store) -> list[tuple[str, str]]:
    """Return the promise of a store's two numbers, in words."""

    budget, (queries, *_), facts = store.guarantee, store.parts.values(), store.promise.facts()
    gdp = "" if budget.mu is None else f", {number(budget.mu)}-GDP"
    bound = float(simultaneous_bound(budget.sigma_0, 1, BETA, lattice_step=1.0))
    return [
        (
            "private",
            f"all answers ever, together: {budget.promise}{gdp},\n"
            f"epsilon {upper(budget.epsilon(DELTA))} at delta {DELTA_TEXT}, "
            f"{upper(budget.epsilon(1e-9))} at delta 1e-9",
        ),
        *statement_lines(facts["statement"]),
        (
            "noise",
            f"sigma_0 {number(budget.sigma_0)}: a count is ± {format_bound(bound)} "
            f"({percent(CONFIDENCE)})",
        ),
        ("budget", _budget_text(store, queries)),
        *population_lines(facts["population"]),
        *purpose_lines(facts["purposes"]),
        *aside_lines(facts),
    ]


def _budget_text(store: Store, queries: float) -> str:
    course = store.course_facts()
    if course is None:
        return (
            f"a person takes part in {number(queries)} counts at full weight, and is then left out"
        )
    unit = store.promise.statement.unit
    return f"{number(store.guarantee.norm_budget)} for {unit}: {course_text(course)}"


def catalog_text(catalog: Catalog) -> str:
    """Return the tables and columns with their declarations: public facts."""
    rows = []
    for table in catalog.tables:
        for k, column in enumerate(table.columns):
            name = table.name if k == 0 else ""
            rows.append([name, column.name, column.shown, column_role(table, column)])
    return format_table(["table", "column", "type", "known to all"], rows, ["l", "l", "l", "l"])


def column_role(table: Table, column: Column) -> str:
    """Return the public facts of a column besides its type.

    Example: `time; keys (2): a, b`.
    """
    parts = []
    if not table.private:
        parts.append("public table")
    if column.name == table.user:
        parts.append("whom a row is about")
    if column.name == table.time:
        parts.append("time")
    if column.name in table.row_key:
        parts.append("row key")
    if column.not_null and column.name != table.user:
        parts.append("NOT NULL")
    if column.owned:
        parts.append("of one person each")
    if column.bounds is not None:
        parts.append(" to ".join(bound_text(column, end) for end in column.bounds))
    if column.keys is not None:
        values = ", ".join(plain_text(k) for k in column.keys)
        parts.append(one_line(f"keys ({len(column.keys):,}): {values}", 60))
    return "; ".join(parts)


@command(short_help="Add rows, and people that are new.")
@store_argument
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@table_option
@memory_option
@again_option
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Rows of earlier days are left out; what is known of those stays known.",
)
def ingest(
    store: Path, files: tuple[str, ...], table: str | None, again: bool, since: dt.datetime | None
) -> None:
    """Add the rows of FILEs to STORE, all or none.

    Rows are independent and have the types and formats of the table: a value that does not fit is
    NULL, a row without a user is left out, and the numbers of both are shown.

    New people get an account; other accounts stay as they are. If the table was made with
    --row-key, a row replaces the same person's row with the same key. Otherwise a file whose
    contents were loaded before is refused.

    Without --since, rows may be of any day, and every question is new. With it, answers about
    earlier days stay valid and free.

    \b
    Examples:
      sparseq ingest shop.sparseq march.parquet --since 2024-03-01
      sparseq ingest web.sparseq visits-2024-03.csv --table visits
    """

    with open_store(store) as opened:
        before = counts(opened)
        told = len(opened.curator_notes())
        with reading_bar():
            rows = opened.ingest(list(files), table, again=again, since=since and since.date())
        after, accounts = counts(opened), opened.promise.statement.accounts
        tell_curator(opened.curator_notes()[told:])
    replaced = rows - (sum(after.rows.values()) - sum(before.rows.values()))
    in_place = f" ({replaced:,} of them in place of earlier ones)" if replaced > 0 else ""
    say(
        f"added {count_of(rows, 'row')}{in_place}"
        f" and {accounts(after.users - before.users, new=True)} (exact, so for the curator only)"
    )
