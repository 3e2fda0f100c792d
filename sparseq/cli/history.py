"""`sparseq history`: the past releases and their answers. Public, and free."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.json_text import json_text
from sparseq.cli.options import command, format_option, open_store, output_option, store_argument
from sparseq.cli.output import LISTS, Output, chosen_format
from sparseq.cli.show import encode, warn_if_seeded
from sparseq.cli.text import course_text, label_lines, loud_lines, one_line, terminal_width
from sparseq.pictures.bounded_numbers import format_bound, number
from sparseq.pictures.tables import format_table
from sparseq.store.release_facts import RELEASE_FACTS, release_facts

if TYPE_CHECKING:
    from sparseq.store.store import Store

LAST = 20
_WIDE = 100  # columns of the table where no terminal shows it: json and csv have whole queries
_MOST_NUMBERS = 3
_ALWAYS = object()


@dataclass(frozen=True)
class HistoryColumn:
    """One column of the table of releases.

    Attributes:
        head: Its name in the table.
        text: Makes a cell from a release's facts.
        align: "l" or "r".
        usual: The usual value, which needs no column: the column is shown if a release has another.
    """

    head: str
    text: Callable[[dict[str, Any]], str]
    align: str = "l"
    usual: object = _ALWAYS


def _fact(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda facts: str("" if facts[name] is None else facts[name])


_NOT_SHOWN = ("coordinates", "half_width", "corollary_bound", "confidence", "root", "query")
COLUMNS = {
    **{
        n: HistoryColumn(n.replace("_", " "), _fact(n))
        for n in RELEASE_FACTS
        if n not in _NOT_SHOWN
    },
    "release": HistoryColumn("release", _fact("release"), "r"),
    "released_at": HistoryColumn("time (UTC)", lambda r: r["released_at"].replace("T", " ")),
    "request_id": HistoryColumn("request", _fact("request_id"), usual=None),
    "asked_by": HistoryColumn("asked by", _fact("asked_by"), usual="analyst"),
    "pot": HistoryColumn("paid from", _fact("pot"), usual="queries"),
    "sigma": HistoryColumn("sigma", lambda r: _numbers(number, r["sigma"]), "r"),
    "bound": HistoryColumn(
        "±", lambda r: _numbers(format_bound, r["half_width"] or r["bound"]), "r"
    ),
    "query": HistoryColumn("query", lambda r: one_line(r["query"])),
}
"""The table's columns, by fact; other facts have a column of their own name."""


@command(short_help="List what was answered; show an old answer again, free.")
@store_argument
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help=f"Number of releases. [default: {LAST}]"
)
@click.option("--all", "everything", is_flag=True, help="List all releases.")
@click.option(
    "--show", type=click.IntRange(min=1), metavar="N", help="Show the answer of release N."
)
@format_option
@output_option
def history(
    store: Path,
    last: int | None,
    everything: bool,
    show: int | None,
    format: str | None,
    output: Path | None,
) -> None:
    """List the releases of STORE, or show one again: no new noise, no charge.

    \b
    Examples:
      sparseq history shop.sparseq --last 5
      sparseq history shop.sparseq --show 3 --format csv
      sparseq history shop.sparseq --all --format json
    """
    if sum([last is not None, everything, show is not None]) > 1:
        raise click.UsageError("--last, --all and --show can't be used together")
    chosen = chosen_format(format, output)
    if show is None and chosen not in LISTS:
        raise click.UsageError("the list of releases is written as table, csv or json")
    width = terminal_width() if output is None else None
    with open_store(store) as opened, Output(output, chosen) as out:
        if show is not None:
            answer = opened.release(show)
            warn_if_seeded(answer, chosen)
            out.write(encode(answer, chosen, width, recorded=True))
        else:
            out.write(history_text(opened, None if everything else last or LAST, chosen, width))


def history_text(store: Store, last: int | None, format: str, width: int | None) -> str:
    """Return the `last` releases (None: all), oldest first, as table, csv or json."""
    releases = [release_facts(r) for r in store.releases(last)]
    if format == "json":
        return json_text(releases)
    if format == "csv":
        return _csv(releases)
    loud = loud_lines(False, len(store.losses))
    if not releases:
        return "\n".join([*loud, "nothing has been asked yet"])
    earlier = releases[0]["release"] - 1
    more = [f"… {earlier:,} before these: --last N or --all shows them"] if earlier else []
    course = store.course_facts()
    root = releases[-1]["root"]
    facts = [("budget", course_text(course))] if course else []
    facts += [("root", f"{root} after release {releases[-1]['release']}")] if root else []
    so_far = ["", label_lines(facts)] if facts else []
    return "\n".join([*loud, _table(releases, width or _WIDE), *more, *so_far])


def _table(releases: list[dict[str, Any]], width: int | None) -> str:
    columns = [
        column
        for name, column in COLUMNS.items()
        if column.usual is _ALWAYS or any(r[name] != column.usual for r in releases)
    ]
    rows = [[column.text(r) for column in columns] for r in releases]
    return format_table([c.head for c in columns], rows, [c.align for c in columns], width)


def _numbers(text: Callable[[float], str], numbers: list[float]) -> str:
    found = list(dict.fromkeys(map(text, numbers)))
    more = ["…"] * (len(found) > _MOST_NUMBERS)
    return ", ".join([*found[:_MOST_NUMBERS], *more])


def _csv(releases: list[dict[str, Any]]) -> str:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(RELEASE_FACTS), lineterminator="\n")
    writer.writeheader()
    for r in releases:
        lists = {k: ";".join(map(repr, v)) for k, v in r.items() if isinstance(v, list)}
        writer.writerow(r | lists)
    return sink.getvalue().removesuffix("\n")
