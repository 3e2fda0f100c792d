"""`sparseq plan`: the best way to ask a series, from data that may be read exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

import sparseq
from sparseq.accounting import Budget
from sparseq.base.errors import DataError, ParameterError
from sparseq.base.json_text import json_text
from sparseq.base.sql_text import quote
from sparseq.base.texts import shown
from sparseq.cli.declare import bounds_of, dates_of, keys_of, most_of
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
from sparseq.cli.purpose_text import written
from sparseq.cli.sql import query_text
from sparseq.cli.text import banner, say
from sparseq.ledger.question_settings import Questions
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations
from sparseq.pictures.bounded_numbers import format_number
from sparseq.pictures.image import picture_kind, write_picture
from sparseq.pictures.tables import format_table
from sparseq.question.limits import ROWS
from sparseq.series import QuerySeries, QueryText, Ticks
from sparseq.series.planning.charged_plan import charged_ranks, charged_verdict, highest_norm
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_figures import plan_sheet
from sparseq.series.planning.plan_strategies import PlanTarget, targets_of
from sparseq.series.planning.verdict import Method, Verdict, verdict
from sparseq.series.ticks import TICK_PARAMETERS, moment
from sparseq.sql.parameters import given
from sparseq.store.curator import exact_sql

if TYPE_CHECKING:
    from sparseq.series.planning.known_stream import KnownStream
    from sparseq.series.ticks import Ticks
    from sparseq.store.store import Store

EXACT_PLAN = (
    "Exact, uncharged facts about the people in the data: plan on public or historical data only."
)
SEASONS = {"1d": 7, "1h": 24}
"""Ticks to a season, by the length of a tick."""
_WIDTH = 90  # letters of a line of the notes
_AHEAD = 512  # ticks that are read together
_FEWEST_CUT = 3
_FAR_MORE = 5
"""`--most rows=N` is tried where a user has this many times N rows. N is the number that all but
0.1 % of the users do not exceed, or all but `_FEWEST_CUT` users if these are more."""
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
@click.option(
    "--most",
    "limits",
    multiple=True,
    metavar="rows=N",
    help="Of a FILE: plan for a store that keeps N rows of each user. Without it such a store is "
    "tried where a few users have many more rows than the others.",
)
def plan(
    source: Path,
    charged: float | None,
    user: str | None,
    table: str | None,
    time: str,
    keys: tuple[str, ...],
    bounds: tuple[str, ...],
    dates: tuple[str, ...],
    limits: tuple[str, ...],
    **options: Any,
) -> None:
    """Try ways to ask a series on a FILE that may be read exactly, and print one line to use.

    The line goes after --for of `sparseq create`, or into `sparseq purpose add`. Plain has enough
    budget for every tick of everybody: its noise is that of any system that splits one budget over
    all answers. Forecasts and strategies have less noise if most people come seldom, or come often.
    The plan recommends one of them if it would have been better in both halves of the data, chosen
    on the first.

    For a STORE: --charged, or `sparseq curator plan STORE`, which reads exact facts. Charged means
    one release of the distribution of people's totals, paid by everybody in the series; the price
    is shown before.

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
        most = most_of(limits)
        with _made(source, user, table, time, keys, bounds, dates, most) as store:
            say(banner(EXACT_PLAN), err=True)
            verdicts = _plan(store, wanted)
            cut = None if most else RowsCut.of(store)
        if cut is not None:
            with _made(source, user, table, time, keys, bounds, dates, {ROWS: cut.most}) as store:
                cut = replace(cut, verdicts=tuple(_plan(store, wanted)))
        _show(verdicts, wanted, cut=cut)
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

    The recommendation depends on private rows. Use it only for data that may be read exactly.

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


def _show(
    verdicts: list[Verdict],
    wanted: PlanOptions,
    warning: str = EXACT_PLAN,
    cut: RowsCut | None = None,
) -> None:
    if wanted.plot is not None:
        searches = {v.name: v.planned for v in verdicts if v.planned is not None}
        write_picture(plan_sheet(searches, warning), wanted.plot)
    if wanted.format == "json":
        trial = None if cut is None else cut.as_plain()
        say(json_text({"series": [as_plain(v) for v in verdicts], "with_most": trial}))
    else:
        trials = [] if cut is None else [cut.as_text()]
        say("\n\n".join([*map(as_text, verdicts), *trials, ADDS_UP]))


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
    """Return the price of planning on a store, in words; public."""
    most, whole = highest_norm(store, len(_ticks(asked)), sigma), store.guarantee.norm_budget
    return (
        f"Planning is charged once: a person in the series pays up to {most:.3g} of a budget of "
        f"{whole:g} ({most / whole:.1%}), as much as {most:.3g} counts at full weight. This is no "
        "longer available for other questions. More noise costs less."
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
    most: dict[str, int],
) -> Store:
    """Make a store in memory from a file, and return it."""
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
        most=most or None,
        purposes=[Questions(in_or_out=True)],
    )


def streams_of(
    store: Store, asked: PlanOptions, told: Callable[[str, int, int], None]
) -> dict[str, KnownStream]:
    """Return every user's contributions to every query at every tick, by name."""
    ticks, values, streams = (
        _ticks(asked),
        given(asked.params, TICK_PARAMETERS),
        dict[str, KnownStream](),
    )
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
        engine, people, cells = store.stream.engine, store.stream.people.for_curator(), []
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


def _numbers(store: Store, sql: str) -> list[int]:
    """Return the numbers in the one row of an exact answer."""
    return [int(column[0].as_py()) for column in exact_sql(store, sql).columns]


def _nice_number(number: int) -> int:
    """Return the least of 1, 2, 3, …, 10, 20, 30, …, 100, 200, … that is not below a number.

    >>> [_nice_number(n) for n in (0, 7, 11, 250, 1000)]
    [1, 7, 20, 300, 1000]
    """
    unit = int(10 ** (len(str(max(number, 1))) - 1))
    return max(-(-number // unit), 1) * unit


@dataclass(frozen=True)
class RowsCut:
    """A trial of `--most rows=N`, for data in which a few users have far more rows than the rest.

    Attributes:
        most: N, the number of rows that all but a few users do not exceed, rounded up.
        users: The number of users with more rows.
        rows: The share of all rows that would be left out.
        largest: The most rows that one user has.
        verdicts: The plans of a store that keeps N rows of each user.
    """

    most: int
    users: int
    rows: float
    largest: int
    verdicts: tuple[Verdict, ...] = ()

    @classmethod
    def of(cls, store: Store) -> RowsCut | None:
        """Return the trial for a store's table; None: no user has far more rows than the others."""
        table = store.catalog.only_private()
        users, name = (quote(word) for word in (table.user, table.name))
        each = f"(SELECT count(*) AS n FROM {name} GROUP BY {users})"
        people, largest = _numbers(store, f"SELECT count(*), coalesce(max(n), 0) FROM {each}")
        if people <= _FEWEST_CUT:
            return None
        above = max(people // 1000, _FEWEST_CUT)
        ordered = f"SELECT n FROM {each} ORDER BY n DESC LIMIT 1 OFFSET {above}"
        (usual,) = _numbers(store, ordered)
        most = _nice_number(usual)
        if largest < _FAR_MORE * most:
            return None
        users_cut, cut, rows = _numbers(
            store,
            f"SELECT count(*) FILTER (n > {most}), sum(greatest(n - {most}, 0)), sum(n) "
            f"FROM {each}",
        )
        return cls(most, users_cut, cut / rows, largest)

    def as_text(self) -> str:
        """Describe the trial and the declaration to use."""
        heads = []
        for one in self.verdicts:
            best = one.recommended
            heads.append(
                f"{shown(one.name)}: {best.name}, error {best.errors[0]:,.4g} of the rows that are "
                f"kept\nUse it so: sparseq create … --most rows={self.most} --for {line(best)}"
            )
        who = (
            f"1 user has more than {self.most:,} rows: {self.largest:,}."
            if self.users == 1
            else f"{self.users:,} users have more than {self.most:,} rows, up to {self.largest:,}."
        )
        text = (
            f"{who} A store made with --most rows={self.most} keeps {self.most:,} rows of each "
            f"user and leaves out {self.rows:.2%} of all rows. Planned on such a store:"
        )
        return "\n\n".join([fill(text, _WIDTH), *heads])

    def as_plain(self) -> dict[str, Any]:
        """Return the trial as plain data."""
        facts = {"rows": self.most, "users_cut": self.users, "rows_cut": self.rows}
        return facts | {"series": [as_plain(v) for v in self.verdicts]}


def as_text(verdict: Verdict) -> str:
    """Return the line to use and the table of the compared ways."""
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
    notes = [head, table, _why(verdict), *_objections(verdict)]
    if verdict.no_better_than_nothing:
        notes.append(
            f"{shown(verdict.name)}: publishing 0 at every tick would do as well: the error would "
            f"be {size:,.4g}, that of this plan is {best.errors[0]:,.4g}. Ask for coarser ticks or "
            "fewer groups, or give it more of the budget."
        )
    return "\n\n".join(notes)


def _objections(verdict: Verdict) -> list[str]:
    """Return the reasons against each method that is not recommended, except plain."""
    others = [m for m in verdict.methods[1:] if m is not verdict.recommended]
    said = (f"{m.name} is not recommended: {m.objection or 'the other is better'}." for m in others)
    return ["\n".join(fill(one, _WIDTH) for one in said)] if others else []


def line(method: Method) -> str:
    """Return a method in the form for `create --for`."""
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
    """Explain the columns and the basis of the recommended intervals."""
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
    """Return the verdict as plain data."""
    methods = [
        {
            "method": m.name,
            "errors": m.errors,
            "ratios": m.ratios,
            "line": line(m),
            "purpose": asdict(m.purpose),
            "objection": m.objection,
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
