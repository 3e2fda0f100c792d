"""`sparseq history`: what was answered, and any old answer again. Public, and free."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.texts import json_text
from sparseq.cli.options import command, format_option, open_store, output_option, store_argument
from sparseq.cli.output import LISTS, Output, chosen_format
from sparseq.cli.show import encode, warn_if_seeded
from sparseq.cli.text import course_text, labelled, loud_lines, one_line, terminal_width
from sparseq.pictures.tables import format_bound, format_table, number
from sparseq.store.store_promise import release_facts

if TYPE_CHECKING:
    from sparseq.store.store import Store

LAST = 20
_LISTS = ("sigma", "bound", "half_width", "corollary_bound")


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
    so_far = ["", labelled([("budget", course_text(course))])] if course else []
    return "\n".join([*loud, _table(releases, width), *more, *so_far])


def _table(releases: list[dict[str, Any]], width: int | None) -> str:
    with_ids = any(r["request_id"] for r in releases)
    with_askers = any(r["asked_by"] != "analyst" for r in releases)
    with_pots = any(r["pot"] != "queries" for r in releases)
    rows = [
        [
            str(r["release"]),
            r["released_at"].replace("T", " "),
            *([r["request_id"] or ""] if with_ids else []),
            *([r["asked_by"]] if with_askers else []),
            *([r["pot"]] if with_pots else []),
            ", ".join(dict.fromkeys(map(number, r["sigma"]))),
            ", ".join(dict.fromkeys(map(format_bound, r["half_width"] or r["bound"]))),
            one_line(r["query"]),
        ]
        for r in releases
    ]
    ids, align = (["request"], ["l"]) if with_ids else ([], [])
    pots, pot_align = (["paid from"], ["l"]) if with_pots else ([], [])
    askers, asker_align = (["asked by"], ["l"]) if with_askers else ([], [])
    columns = ["release", "time (UTC)", *ids, *askers, *pots, "sigma", "±", "query"]
    aligned = ["r", "l", *align, *asker_align, *pot_align, "r", "r", "l"]
    return format_table(columns, rows, aligned, width)


def _csv(releases: list[dict[str, Any]]) -> str:
    sink = io.StringIO()
    names = [
        "release",
        "released_at",
        "request_id",
        "asked_by",
        "pot",
        "query",
        "coordinates",
        "sigma",
        "bound",
        "half_width",
        "corollary_bound",
        "confidence",
    ]
    writer = csv.DictWriter(sink, names, lineterminator="\n")
    writer.writeheader()
    for r in releases:
        lists = {k: ";".join(map(repr, r[k])) for k in _LISTS}
        writer.writerow(r | lists)
    return sink.getvalue().removesuffix("\n")
