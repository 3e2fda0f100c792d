"""`sparseq plan`: how a series is to be asked, from data that may be looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sparseq
from sparseq.accounting import Budget
from sparseq.base.errors import DataError, ParameterError
from sparseq.base.texts import json_text, shown
from sparseq.cli.declare import bounds_of, dates_of, keys_of
from sparseq.cli.options import (
    FilePath,
    Share,
    bounds_option,
    command,
    dates_option,
    every_option,
    facts_format_option,
    file_option,
    keys_option,
    open_store,
    param_option,
    together,
)
from sparseq.cli.progress import late_bar
from sparseq.cli.purpose import written
from sparseq.cli.sql import query_text
from sparseq.cli.text import banner, say
from sparseq.ledger.purposes import Questions
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations
from sparseq.pictures.figures import plan_sheet
from sparseq.pictures.image import picture_kind, write_picture
from sparseq.pictures.tables import format_number, format_table
from sparseq.series import QuerySeries, QueryText, Ticks
from sparseq.series.planning.charged_plan import charged_ranks, charged_verdict, highest_norm
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_strategies import PlanTarget, targets_of
from sparseq.series.planning.verdict import Method, Verdict, verdict
from sparseq.series.ticks import OF_TICKS, moment
from sparseq.sql.parameters import given

if TYPE_CHECKING:
    from sparseq.series.planning.known_stream import KnownStream
    from sparseq.series.ticks import Ticks
    from sparseq.store.store import Store

EXACT_PLAN = (
    "Exact, uncharged facts about the people in the data: plan on public or historical data only."
)
SEASONS = {"1d": 7, "1h": 24}
"""Ticks to a season, by the length of a tick."""
_AHEAD = 512  # ticks that are read together
ADDS_UP = (
    "What stores about the same people tell adds up: two of kappa 0.5 tell as much as one of 1."
)


@dataclass(frozen=True)
class PlanOptions:
    """The options of the command line."""

    queries: tuple[Path, ...]
    first: str
    last: str
    every: str
    params: tuple[str, ...]
    horizon: int | None
    kappa: float | None
    share: float
    targets: str
    plot: Path | None
    format: str

    def __post_init__(self) -> None:
        if self.plot is not None:
            picture_kind(self.plot)


planning = together(
    click.option(
        "--queries",
        multiple=True,
        required=True,
        type=FilePath(),
        metavar="QUERY.sql",
        help="A query of every tick; may be repeated.",
    ),
    click.option("--from", "first", required=True, metavar="D", help="First tick of the data."),
    click.option("--to", "last", required=True, metavar="D", help="Last tick of the data."),
    every_option,
    click.option(
        "--horizon",
        type=click.IntRange(min=1),
        metavar="TICKS",
        help="How many ticks to plan for. Where there are fewer, the data are repeated. "
        "[default: as many as there are]",
    ),
    param_option,
    click.option(
        "--kappa", type=float, help="zCDP level of the store. [default: 0.5, or the STORE's]"
    ),
    click.option(
        "--share",
        type=Share(0, 0.99, min_open=True),
        default="60%",
        show_default=True,
        help="Of every budget, for these series together.",
    ),
    click.option(
        "--target",
        "targets",
        default="day",
        show_default=True,
        metavar="day,week,28d,total",
        help="What people look at: ticks, sums over "
        "windows, the running total; 28d:2 counts twice.",
    ),
    file_option("--plot", help="Draw errors against budgets: .html, .png or .svg."),
    facts_format_option,
)
"""Options of all plans."""


@command(short_help="Say how a series is to be asked, from public or historical data.")
@click.argument("source", metavar="FILE|STORE", type=FilePath())
@planning
@click.option(
    "--charged",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SIGMA",
    help="Plan on a STORE: release people's totals with noise of SIGMA people, once and "
    "charged, and plan on these.",
)
@click.option("--user", metavar="COL", help="Column of FILE that says whom a row is about.")
@click.option("--table", metavar="NAME", help="Of a FILE: the table's name in the queries.")
@click.option("--time", default="", metavar="COL", help="Of a FILE: when a row happened.")
@keys_option
@bounds_option
@dates_option
def plan(
    source: Path,
    charged: float | None,
    user: str | None,
    table: str | None,
    time: str,
    keys: tuple[str, ...],
    bounds: tuple[str, ...],
    dates: tuple[str, ...],
    **options: Any,
) -> None:
    """Try ways to ask a series on a FILE of data that may be looked at, and print one line to use.

    The line goes after --for of `sparseq create`, or into `sparseq purpose add`. Plain has enough
    for every tick of everybody: the noise of any system that splits one budget over all answers.
    Forecasts and strategies have less noise where most people come seldom, or come often. One of
    them is recommended if it would have been better in both halves of the data, chosen on the
    first.

    For a STORE: --charged, or `sparseq curator plan STORE`, which looks at exact facts. Charged
    means: one release of how people's totals are distributed, which everybody in the series pays
    for; it says how much before.

    \b
    Examples:
      sparseq plan last_year.parquet --user customer_id --table purchases
          --queries queries/daily_buyers.sql --from 1997-01-01 --to 1997-12-31 --plot plan.png
      sparseq plan shop.sparseq --charged 10 --queries queries/daily_buyers.sql
          --from 1997-01-01 --to 1998-06-30
    """

    wanted = PlanOptions(**options)
    if not source.is_file():
        raise DataError(f"there is no file {source}", "give a store, or a file of events")
    if not _is_store(source):
        with _made(source, user, table, time, keys, bounds, dates) as store:
            say(banner(EXACT_PLAN), err=True)
            verdicts = _plan(store, wanted)
        _show(verdicts, wanted)
    elif charged is not None:
        with open_store(source) as store:
            say(_told(store, wanted, charged), err=True)
            with late_bar() as bar:
                streams = streams_of(store, wanted, bar)
            done = _charge(store, streams, charged, wanted)
        _show(done, wanted, "")
    else:
        raise ParameterError(
            f"{source} is a store: planning would show exact facts about people in it",
            f"plan with --charged SIGMA; the curator can: sparseq curator plan {source}",
        )


@command("plan", short_help="Say how a series is to be asked, from the store's exact data.")
@planning
@click.pass_obj
def curator_plan(store: Path, /, **options: Any) -> None:
    """Try ways to ask a series on STORE's exact data. See `sparseq plan --help`.

    What is recommended depends on everybody's rows. Use it where the data may be looked at.

    \b
    Examples:
      sparseq curator plan shop.sparseq --queries queries/daily_buyers.sql
          --from 1997-01-01 --to 1998-06-30 --horizon 730 --format json
    """
    wanted = PlanOptions(**options)
    say(banner(EXACT_PLAN), err=True)
    with open_store(store) as opened:
        verdicts = _plan(opened, wanted)
    _show(verdicts, wanted)


def _budget(store: Store, wanted: PlanOptions) -> Budget:
    """Return the budget to plan for."""
    kappa = wanted.kappa if wanted.kappa is not None else store.guarantee.kappa
    return Budget(kappa, store.guarantee.norm_budget)


def _share(wanted: PlanOptions) -> float:
    """Return the share of each series."""
    return wanted.share / len(wanted.queries)


def _plan(store: Store, wanted: PlanOptions) -> list[Verdict]:
    targets, budget = targets_of(wanted.targets), _budget(store, wanted)
    if wanted.plot is not None and not _of_ticks(targets):
        raise ParameterError("--plot draws the errors of single ticks", "--target day")
    with late_bar() as bar:
        return [
            verdict(
                stream if wanted.horizon is None else stream.over(wanted.horizon),
                name,
                budget,
                _share(wanted),
                targets,
                period=SEASONS.get(wanted.every, 0),
                advance=lambda done, of: bar("planning", done, of),
            )
            for name, stream in streams_of(store, wanted, bar).items()
        ]


def _of_ticks(targets: Sequence[PlanTarget]) -> bool:
    return [t.ticks for t in targets] == [1]


def _show(verdicts: list[Verdict], wanted: PlanOptions, warning: str = EXACT_PLAN) -> None:
    if wanted.plot is not None:
        searches = {v.name: v.planned for v in verdicts if v.planned is not None}
        write_picture(plan_sheet(searches, warning), wanted.plot)
    if wanted.format == "json":
        say(json_text({"series": [as_plain(v) for v in verdicts]}))
    else:
        say("\n\n".join([*map(as_text, verdicts), ADDS_UP]))


def _charge(
    store: Store, streams: dict[str, KnownStream], sigma: float, asked: PlanOptions
) -> list[Verdict]:
    """Release the totals, and plan on them."""
    if len(streams) != 1 or asked.horizon is not None or not _of_ticks(targets_of(asked.targets)):
        raise ParameterError(
            "--charged plans for single ticks of one series, over the ticks that there are",
            "give one --queries, and neither --horizon nor --target",
        )
    ((name, stream),) = streams.items()
    ranks = charged_ranks(store, stream, sigma)
    return [charged_verdict(ranks, name, _budget(store, asked), _share(asked), stream)]


def _told(store: Store, asked: PlanOptions, sigma: float) -> str:
    """Return what planning on a store costs, in words; public."""
    most, whole = highest_norm(store, len(_ticks(asked)), sigma), store.guarantee.norm_budget
    return (
        f"Planning is charged, once: whoever is in the series pays up to {most:.3g} of a budget of "
        f"{whole:g} ({most / whole:.1%}), as for {most:.3g} counts at full weight, and has so much "
        "less for other questions. More noise costs less."
    )


def _is_store(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(12)[8:] == b"DUCK"


def _made(
    source: Path,
    user: str | None,
    table: str | None,
    time: str,
    keys: tuple[str, ...],
    bounds: tuple[str, ...],
    dates: tuple[str, ...],
) -> Store:
    """Return a store in memory, made from a file."""
    if user is None:
        raise ParameterError(
            "the user column of FILE is not known",
            "give --user COLUMN, the column that says whom a row is about",
        )
    order = dates_of(dates)
    rows = IncomingRows(str(source), declared=Declarations(dates=order), user=user)
    types = {name.lower(): kind for name, kind in rows.usable().items()}
    rows.close()
    return sparseq.create(
        None,
        {table: str(source)} if table else str(source),
        user=user,
        time=time,
        keys=keys_of(keys, types),
        bounds=bounds_of(bounds),
        dates=order,
        purposes=[Questions(in_or_out=True)],
    )


def streams_of(
    store: Store, asked: PlanOptions, told: Callable[[str, int, int], None]
) -> dict[str, KnownStream]:
    """Compute what every user contributes to every query at every tick; return it by name."""
    ticks, values, streams = _ticks(asked), given(asked.params, OF_TICKS), dict[str, KnownStream]()
    for path in asked.queries:
        if path.stem in streams:
            raise ParameterError(
                f"two series would be called {path.stem!r}", "a series has the name of its file"
            )
        text = QueryText.of(query_text(None, str(path)))
        series = QuerySeries(store, path.stem, text, ticks, values)
        queries = [series.lowered(tick) for tick in ticks]
        if len(queries[0].measures) != 1:
            raise ParameterError(
                f"{path.stem} has several numbers for each group",
                "plan for one COUNT or SUM a query",
            )
        engine, people, cells = store.stream.engine, store.stream.people, []
        plans = [store.explain(query) for query in queries]
        granularity = plans[0].noise[0].granularity
        for first in range(0, len(plans), _AHEAD):
            engine.read_ahead(plans[first : first + _AHEAD])
            for plan in plans[first : first + _AHEAD]:
                cells.append(engine.cells(plan, people))
                told(f"reading {path.stem}", len(cells), len(plans))
        streams[path.stem] = KnownStream.of(queries[0], people, cells, granularity)
    return streams


def _ticks(asked: PlanOptions) -> Ticks:
    return Ticks(moment(asked.first), asked.every, moment(asked.last))


def as_text(verdict: Verdict) -> str:
    """Return what to use, and the table of what was looked at."""
    best, (mean, size) = verdict.recommended, verdict.size
    rows = [_row(m, verdict) for m in verdict.methods]
    errors = [
        f"error of {t.name}" if len(verdict.targets) > 1 else "error" for t in verdict.targets
    ]
    columns = ["method", "counts", *errors, "first half", "second half", "all", ""]
    head = (
        f"{shown(verdict.name)}, {best.purpose.ticks:,} ticks on "
        f"{100 * best.purpose.share:.10g}% of every budget; a value is {mean:,.4g} on "
        f"average\n\n  {line(best)}\n\n"
        f"Use it so: sparseq create … --for {line(best)}\n"
        f"or, later: sparseq purpose add STORE {line(best)}"
    )
    table = format_table(columns, rows, ["l", *"r" * (len(columns) - 2), "l"])
    notes = [head, table, _why(verdict)]
    if verdict.no_better_than_nothing:
        notes.append(
            f"{shown(verdict.name)}: publishing 0 at every tick would do as well: the error would "
            f"be {size:,.4g}, that of this plan is {best.errors[0]:,.4g}. Ask for coarser ticks or "
            "fewer groups, or give it more of the budget."
        )
    return "\n\n".join(notes)


def line(method: Method) -> str:
    """Return a method as `create --for` takes it."""
    return written(method.purpose, f"{100 * method.purpose.share:.10g}%")


def _row(method: Method, verdict: Verdict) -> list[str]:
    return [
        method.name,
        format_number(method.purpose.counts, 2),
        *(f"{error:,.4g}" for error in method.errors),
        *("–" if ratio is None else f"{ratio:.2f}" for ratio in method.ratios),
        "recommended" if method is verdict.recommended else "",
    ]


def _why(verdict: Verdict) -> str:
    """Say what the columns are, and what the recommended intervals rest on."""
    text = (
        "error: root mean square, of everybody. The halves, and all: to plain, of error or width,\n"
        "whichever is more; the halves as chosen on the first.\n"
    )
    best = verdict.recommended.purpose
    if best.forecast and verdict.recommended.ratios[0] is None:
        return text + (
            "Totals don't tell when people come: the ± has room for forecasts that are wholly off."
        )
    if best.forecast:
        return text + (
            f"The ± has room for forecasts that are off by {best.off:.0%}, as they were in the "
            "second half."
        )
    if best.strategy:
        return text + "The ± has room for 1.4 times what is missing in these data."
    return text + "Plain assumes nothing: nobody is ever out, and the ± is that of the noise."


def as_plain(verdict: Verdict) -> dict[str, Any]:
    """Return it as plain data."""
    methods = [
        {
            "method": m.name,
            "errors": m.errors,
            "ratios": m.ratios,
            "line": line(m),
            "purpose": asdict(m.purpose),
        }
        for m in verdict.methods
    ]
    at = verdict.methods.index(verdict.recommended)
    return {
        "name": verdict.name,
        "ticks": verdict.recommended.purpose.ticks,
        "mean": verdict.size[0],
        "root_mean_square": verdict.size[1],
        "publish_0": verdict.no_better_than_nothing,
        "recommended": methods[at],
        "methods": methods,
    }
