"""`sparseq dashboard`: panels that a team looks at every morning, measured once for all viewers."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparseq.base.errors import ParameterError
from sparseq.base.json_text import json_text
from sparseq.cli.options import (
    FilePath,
    Group,
    Share,
    facts_format_option,
    open_store,
    store_argument,
)
from sparseq.cli.show import encode
from sparseq.cli.text import PRIVATE, banner, label_lines, loud_lines, say
from sparseq.dashboards.common_cells import board_of
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.found_workload import find_workload
from sparseq.dashboards.node_log import read_nodes
from sparseq.dashboards.panel_answers import ShownPanel, answer_panels
from sparseq.dashboards.refresh import cost_of_refresh, purpose_of
from sparseq.dashboards.refresh import refresh as refreshed
from sparseq.dashboards.rehearsal import Rehearsal, rehearse
from sparseq.dashboards.verdict import counts_for, verdict_of
from sparseq.pictures.bounded_numbers import number, percent
from sparseq.pictures.tables import format_table
from sparseq.series.ticks import moment

if TYPE_CHECKING:
    from sparseq.store.store import Store

_EPOCH = dt.date(1970, 1, 1)
_CLOCK = dt.date.today


_file = click.argument("file", type=FilePath(), metavar="FILE.toml")
_share = click.option(
    "--share", type=Share(), default="30%", show_default=True, help="Share of every budget for it."
)
_mornings = click.option(
    "--mornings",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Number of mornings.",
)


@click.group(cls=Group)
def dashboard() -> None:
    """Answer the panels of every morning from cells measured once.

    FILE.toml lists the panels: a title and a question each, with dates such as :today - 28. Each
    refresh measures the new days. All panels follow from the measured days, free for every viewer,
    and their totals equal the sums of their parts. A dashboard has a part of every budget.

    \b
    Examples:
      sparseq dashboard plan last-year.sparseq shop.toml --from 2023-03-01
      sparseq purpose add shop.sparseq shop=30%,ticks=30,counts=34
      sparseq dashboard refresh shop.sparseq shop.toml
      sparseq dashboard show shop.sparseq shop.toml
    """


@dashboard.command(short_help="Measure the new days, and show the panels.")
@store_argument
@_file
@click.option(
    "--on",
    metavar="D",
    help="The morning: all days before D are complete. [default: today]",
)
@click.option("--dry-run", is_flag=True, help="Say what it costs, and measure nothing.")
@facts_format_option
def refresh(store: Path, file: Path, on: str | None, dry_run: bool, format: str) -> None:
    """Measure the days and weeks that the panels of FILE.toml need and that are not measured yet.

    A second refresh on one morning measures nothing. Rows that come after their day was measured
    are in no panel.

    \b
    Examples:
      sparseq dashboard refresh shop.sparseq shop.toml
      sparseq dashboard refresh shop.sparseq shop.toml --on 2024-03-01 --dry-run
    """
    board, day = Dashboard.read(file), _day(on) if on else _CLOCK()
    with open_store(store) as opened:
        if dry_run:
            nodes, most = cost_of_refresh(opened, board, day)
            counts = purpose_of(opened, board).counts
            say(
                f"would measure {nodes} nodes; a person pays for the own days alone, and "
                f"{number(most)} of {number(counts)} at most"
            )
            return
        made = refreshed(opened, board, day)
        some = f"{made.measured} nodes in {len(made.releases)} releases"
        say(f"measured {some}" if made.measured else "nothing to measure", err=True)
        _show(opened, board, answer_panels(made.board, made.nodes), format)


@dashboard.command(short_help="Show the panels of the latest refresh: free.")
@store_argument
@_file
@click.option("--on", metavar="D", help="An earlier morning.")
@facts_format_option
def show(store: Path, file: Path, on: str | None, format: str) -> None:
    """Show the panels of FILE.toml from what was measured: nothing is asked or charged.

    \b
    Examples:
      sparseq dashboard show shop.sparseq shop.toml
      sparseq dashboard show shop.sparseq shop.toml --format json
    """
    board = Dashboard.read(file)
    with open_store(store) as opened:
        nodes = read_nodes(opened.stream.ledger, board.name)
        if not nodes:
            raise ParameterError(
                f"{board.name} was not refreshed yet", "sparseq dashboard refresh STORE FILE.toml"
            )
        latest = _EPOCH + dt.timedelta(days=max(node.morning for node in nodes))
        day = _day(on) if on else latest
        _show(opened, board, answer_panels(board_of(opened, board, day), nodes), format)


@dashboard.command(short_help="Compare it with asking one by one, on old or public data.")
@store_argument
@_file
@click.option("--from", "first", required=True, metavar="D", help="First morning.")
@_mornings
@_share
@facts_format_option
def plan(
    store: Path,
    file: Path,
    first: str,
    mornings: int,
    share: float,
    format: str,
) -> None:
    """Rehearse FILE.toml on copies of STORE, in both ways, and say whether a dashboard pays.

    STORE holds old or public data that you may look at, and nothing was asked of it: errors are
    distances to exact answers. Each way has the whole budget.

    \b
    Examples:
      sparseq dashboard plan last-year.sparseq shop.toml --from 2023-03-01
      sparseq dashboard plan last-year.sparseq shop.toml --from 2023-03-01 --mornings 60 --share 20%
    """
    say(banner(PRIVATE), err=True)
    board, start = Dashboard.read(file), _day(first)
    with open_store(store) as opened:
        counts = counts_for(opened, board, start, mornings)
    found = rehearse(store, board, start, mornings, counts)
    verdict = verdict_of(found)
    words = f"{board.name}={percent(share).replace(' ', '')},ticks={mornings},counts={counts:g}"
    if format == "json":
        facts = {
            "pays": verdict.pays,
            "pays_from": found.pays_from,
            "error": found.mean_error(),
            "charges": found.charges(),
            "width": found.mean_width(),
            "inside": found.board.inside,
            "purpose": words,
        }
        say(json_text(facts))
        return
    say(_table(found))
    poorest = (
        f"{percent(found.board.poorest)} left (one by one: {percent(found.one_by_one.poorest)})"
    )
    lines = [
        ("charges", f"{number(found.charges())} times those of asking one by one"),
        ("error", f"{number(found.mean_error())} times, in the geometric mean of panels"),
        (
            "inside",
            f"{percent(found.board.inside)} (one by one: {percent(found.one_by_one.inside)})",
        ),
        ("poorest 1 %", poorest),
        ("verdict", verdict.words),
    ]
    if verdict.pays:
        lines.append(("next", f"sparseq purpose add STORE {words}"))
    say(label_lines(lines))


@dashboard.command(short_help="Find questions that are asked again and again: free.")
@store_argument
@click.option("--output", type=FilePath(), metavar="FILE.toml", help="Write them as a dashboard.")
def find(store: Path, output: Path | None) -> None:
    """Find the questions in the history of STORE that were asked on five days or more.

    They are proposed as a dashboard, with its command and what it would save. Only the history is
    read, which is public: nothing is asked or charged.

    \b
    Examples:
      sparseq dashboard find shop.sparseq
      sparseq dashboard find shop.sparseq --output shop.toml
    """
    with open_store(store) as opened:
        found = find_workload(opened)
    if not found.panels:
        say("no question that a dashboard can answer was asked on five days")
        return
    columns = ["days", "asked", "question"]
    rows = [[str(p.days), str(p.asked), p.sql] for p in found.panels]
    say(format_table(columns, rows, ["r", "r", "l"]))
    name = output.stem if output is not None else "panels"
    if output is not None:
        output.write_text(found.toml(), encoding="utf-8")
    saving = f"{number(found.board_cost)} a morning at most, in place of {number(found.cost)}"
    lines = [
        ("cost to a user", saving),
        ("next", f"sparseq dashboard plan OLD.sparseq {output or f'{name}.toml'} --from DAY"),
    ]
    if output is None:
        lines.insert(1, ("file", "--output panels.toml writes them"))
    say(label_lines(lines))


def _day(text: str) -> dt.date:
    """Return the date of a text."""
    return moment(text).date()


def _show(store: Store, board: Dashboard, panels: Sequence[ShownPanel], format: str) -> None:
    if format == "json":
        shown = {p.title: json.loads(str(encode(p.answer, "json"))) for p in panels}
        say(json_text(shown))
        return
    lines = [board.title]
    for panel in panels:
        lines += ["", panel.title, format_table(*panel.answer.texts())]
    confidence = percent(panels[0].answer.facts.confidence)
    lines += ["", *loud_lines(store.seed is not None, len(store.losses))]
    about = (
        f"all intervals of a panel contain the true values for everybody, with {confidence} "
        "confidence (assumed); a value below 0 is noise around 0"
    )
    lines.append(label_lines([("intervals", about)]))
    say("\n".join(lines))


def _table(found: Rehearsal) -> str:
    ratios = found.errors()
    rows = [
        [
            panel,
            percent(found.one_by_one.error(panel, found.mornings)),
            percent(found.board.error(panel, found.mornings)),
            number(ratios[panel]),
        ]
        for panel in found.board.scores
    ]
    return format_table(["panel", "one by one", "dashboard", "ratio"], rows, ["l", "r", "r", "r"])
