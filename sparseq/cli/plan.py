"""`sparseq plan`: which norm_budget, and how much in reserve, from data that may be looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sparseq
from sparseq.cli.declare import bounds_of, keys_of
from sparseq.cli.options import (
    ALARM_BELOW,
    GOES,
    Reserve,
    bounds_option,
    command,
    every_option,
    facts_format_option,
    file_option,
    keys_option,
    open_store,
    param_option,
    reserves_of,
    together,
)
from sparseq.cli.picture import check_picture, write_picture
from sparseq.cli.plan_strategies import comparable, strategies_plain, strategies_text
from sparseq.cli.progress import late_bar
from sparseq.cli.sql import query_text
from sparseq.cli.text import banner, say
from sparseq.engine.files.load import IncomingRows
from sparseq.errors import DataError, ParameterError
from sparseq.escape import shown
from sparseq.json_text import json_text
from sparseq.monitor import QuerySeries, QueryText, Ticks
from sparseq.monitor.charged_plan import charged_plan, charged_ranks, most_charged
from sparseq.monitor.known_stream import KnownStream
from sparseq.monitor.plan import plan as planned_of
from sparseq.monitor.plan_strategies import StrategyPlan, plan_strategies, targets_of
from sparseq.monitor.ticks import OF_TICKS, moment
from sparseq.pictures.numbers import format_number
from sparseq.pictures.planning import plan_sheet
from sparseq.pictures.tables import format_table
from sparseq.query.parameters import given

if TYPE_CHECKING:
    from sparseq.monitor.known_stream import KnownStream
    from sparseq.monitor.plan import Candidate, PlanSearch
    from sparseq.monitor.ticks import Ticks
    from sparseq.store import Store

EXACT_PLAN = (
    "Exact, uncharged facts about the people in the data: plan on public or historical data only."
)
SEASONS = {"1d": 7, "1h": 24}
"""Ticks to a season, by the length of a tick."""
_AHEAD = 512  # ticks that are read together
ADDS_UP = (
    "What stores about the same people tell adds up: two of kappa 0.5 tell as much as one of 1."
)
_COLUMNS = ("norm_budget", "watch", "reserve", "cap", "sigma", "left out", "noise", "bias",
            "total", "")  # fmt: skip


@dataclass(frozen=True)
class PlanOptions:
    """What the command line asks for."""

    queries: tuple[Path, ...]
    first: str
    last: str
    every: str
    params: tuple[str, ...]
    horizon: int | None
    kappa: float | None
    reserve: tuple[dict[str, float], ...]
    forecasts: bool
    targets: str | None
    plot: Path | None
    format: str

    def __post_init__(self) -> None:
        if self.plot is not None:
            check_picture(self.plot)

    @property
    def others(self) -> float:
        """The share of the watch."""
        shares = reserves_of(self.reserve)
        if "forecast" in shares:
            raise ParameterError(
                "the planner chooses the reserve for forecasts", "give --reserve watch=5% alone"
            )
        return shares.get("watch", 0.0)


planning = together(
    click.option("--queries", multiple=True, required=True, type=click.Path(path_type=Path),
                 metavar="QUERY.sql", help="A query of every tick; may be repeated."),
    click.option("--from", "first", required=True, metavar="D", help="First tick of the data."),
    click.option("--to", "last", required=True, metavar="D", help="Last tick of the data."),
    every_option,
    click.option("--horizon", type=click.IntRange(min=1), metavar="TICKS",
                 help="How many ticks to plan for. Where there are fewer, the data are repeated. "
                 "[default: as many as there are]"),
    param_option,
    click.option("--kappa", type=float, help="zCDP level. [default: 0.5, or the STORE's]"),
    click.option("--reserve", multiple=True, type=Reserve(), metavar="watch=SHARE",
                 help="Plan with SHARE (5 %) of every budget set aside for a watch."),
    click.option("--forecast/--no-forecast", "forecasts", default=True, show_default=True,
                 help="Whether to try departure forecasts."),
    click.option("--for", "targets", metavar="day,week,28d,total",
                 help="Try strategies too, for what people look at: ticks, sums over windows, the "
                 "running total; 28d:2 counts twice."),
    file_option("--plot", help="Draw the trade-off: .html, .png or .svg."),
    facts_format_option,
)  # fmt: skip
"""Options of all plans."""


@command(short_help="Choose norm_budget and the reserve, from public or historical data.")
@click.argument("source", metavar="FILE|STORE", type=click.Path(path_type=Path))
@planning
@click.option("--historical", is_flag=True, hidden=True, help="Now: sparseq curator plan.")
@click.option("--charged", type=click.FloatRange(min=0, min_open=True), metavar="SIGMA",
              help="Plan on a STORE: release people's totals with noise of SIGMA people, once and "
              "charged, and plan on these.")  # fmt: skip
@click.option("--user", metavar="COL", help="Column of FILE that says whom a row is about.")
@click.option("--table", metavar="NAME", help="Of a FILE: the table's name in the queries.")
@click.option("--time", default="", metavar="COL", help="Of a FILE: when a row happened.")
@keys_option
@bounds_option
def plan(
    source: Path, historical: bool, charged: float | None, user: str | None, table: str | None,
    time: str, keys: tuple[str, ...], bounds: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Try budgets on a FILE of data that may be looked at, and recommend one.

    The first row is worst-case composition: the error of any system that splits one budget over
    all answers. Below it, rows for each budget: dropping alone, with departure forecasts, and with
    people who fade before they run out.
    Recommended is the least error of those that would be 5 % below the first row's with twice the
    bias, too. If a plan made on the first half of the data fails on the second half, the first row
    is recommended.

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
        with _made(source, user, table, time, keys, bounds) as store:
            say(banner(EXACT_PLAN), err=True)
            found = _planned(store, wanted)
        _show(*found, wanted)
    elif charged is not None:
        if wanted.targets is not None:
            raise ParameterError(
                "--for plans on what people do tick by tick, and --charged shows their totals",
                "leave one of them out",
            )
        with open_store(source) as store:
            say(_told(store, wanted, charged), err=True)
            with late_bar() as bar:
                streams, names = streams_of(store, wanted, bar)
            planned = _charged(store, streams, charged, kappa_of(store, wanted), wanted)
        _show(planned, names, None, wanted, "")
    elif historical:
        say(f"plan STORE --historical is now curator plan STORE; {GOES}", err=True)
        plan_exactly(source, wanted)
    else:
        raise ParameterError(
            f"{source} is a store: planning would show exact facts about people in it",
            f"plan with --charged SIGMA; the curator can: sparseq curator plan {source}",
        )


@command("plan", short_help="Choose norm_budget and the reserve, from the store's exact data.")
@planning
@click.pass_obj
def curator_plan(store: Path, /, **options: Any) -> None:
    """Try budgets on STORE's exact data, and recommend one. See `sparseq plan --help`.

    What is recommended depends on everybody's rows. Use it where the data may be looked at.

    \b
    Examples:
      sparseq curator plan shop.sparseq --queries queries/daily_buyers.sql
          --from 1997-01-01 --to 1998-06-30 --horizon 730 --format json
    """
    plan_exactly(store, PlanOptions(**options))


def plan_exactly(path: Path, wanted: PlanOptions) -> None:
    """Plan on a store's exact data."""
    say(banner(EXACT_PLAN), err=True)
    with open_store(path) as store:
        found = _planned(store, wanted)
    _show(*found, wanted)


def kappa_of(store: Store, wanted: PlanOptions) -> float:
    """Return the level to plan for."""
    return wanted.kappa if wanted.kappa is not None else store.guarantee.kappa


def _planned(
    store: Store, wanted: PlanOptions
) -> tuple[PlanSearch, list[str], StrategyPlan | None]:
    kappa = kappa_of(store, wanted)
    targets = None if wanted.targets is None else targets_of(wanted.targets)
    with late_bar() as bar:
        streams, names = streams_of(store, wanted, bar)
        if targets is not None and len(streams) != 1:
            raise ParameterError("--for plans for one series", "give one --queries")
        planned = planned_of(
            streams, kappa, ticks=wanted.horizon, others=wanted.others,
            forecasts=wanted.forecasts, period=SEASONS.get(wanted.every, 0),
            advance=lambda done, of: bar("planning", done, of),
        )  # fmt: skip
        if targets is None:
            return planned, names, None
        stream = streams[0] if wanted.horizon is None else streams[0].over(wanted.horizon)
        return planned, names, plan_strategies(
            stream, kappa, targets, lambda done, of: bar("strategies", done, of)
        )  # fmt: skip


def _show(
    planned: PlanSearch, names: Sequence[str], strategies: StrategyPlan | None,
    wanted: PlanOptions, warning: str = EXACT_PLAN,
) -> None:  # fmt: skip
    if wanted.plot is not None:
        write_picture(plan_sheet(planned, names, warning), wanted.plot)
    if wanted.format == "json":
        say(as_json(planned, names, strategies))
        return
    parts = [as_text(planned, names)]
    if strategies is not None:
        totals = planned.recommended.total
        parts.append(strategies_text(strategies, names[0], comparable(strategies, totals)))
    say("\n\n".join(parts))


def _charged(
    store: Store, streams: Sequence[KnownStream], sigma: float, kappa: float, asked: PlanOptions
) -> PlanSearch:
    """Release the totals, and plan on them."""
    if len(streams) != 1 or asked.horizon is not None:
        raise ParameterError(
            "--charged plans for one series, over the ticks that there are",
            "give one --queries, and no --horizon",
        )
    ranks = charged_ranks(store, streams[0], sigma)
    return charged_plan(ranks, kappa, streams[0].ticks, asked.others)


def _told(store: Store, asked: PlanOptions, sigma: float) -> str:
    """Return what planning on a store costs, in words; public."""
    most, whole = most_charged(store, len(_ticks(asked)), sigma), store.guarantee.norm_budget
    return (
        f"Planning is charged, once: whoever is in the series pays up to {most:.3g} of a budget of "
        f"{whole:g} ({most / whole:.1%}), as for {most:.3g} counts at full weight, and has so much "
        "less for other questions. More noise costs less."
    )


def _is_store(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(12)[8:] == b"DUCK"


def _made(
    source: Path, user: str | None, table: str | None, time: str, keys: tuple[str, ...],
    bounds: tuple[str, ...],
) -> Store:  # fmt: skip
    """Return a store in memory, made from a file."""
    if user is None:
        raise ParameterError(
            "the user column of FILE is not known",
            "give --user COLUMN, the column that says whom a row is about",
        )
    rows = IncomingRows(str(source), user=user)
    types = {name.lower(): kind for name, kind in rows.usable().items()}
    rows.close()
    return sparseq.create(
        None, str(source), user=user, table=table, time=time, keys=keys_of(keys, types),
        bounds=bounds_of(bounds), in_or_out=True,
    )  # fmt: skip


def streams_of(
    store: Store, asked: PlanOptions, told: Callable[[str, int, int], None]
) -> tuple[list[KnownStream], list[str]]:
    """Compute what every user contributes to every query at every tick; return it, and names."""
    ticks, values, found, names = _ticks(asked), given(asked.params, OF_TICKS), [], []
    for path in asked.queries:
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
        found.append(KnownStream.of(queries[0], people, cells, granularity))
        names.append(path.stem)
    return found, names


def _ticks(asked: PlanOptions) -> Ticks:
    return Ticks(moment(asked.first), asked.every, moment(asked.last))


def as_text(planned: PlanSearch, names: Sequence[str]) -> str:
    """Return the table, and what is recommended."""
    rows = [_row(c, planned) for c in planned.rows]
    series = ", ".join(map(shown, names))
    head = f"{series}: {planned.ticks} ticks, kappa {planned.kappa:g}; root mean squares"
    columns, align = list(_COLUMNS), ["r"] * 9 + ["l"]
    if not any(c.setting.others for c in planned.tried):
        at = columns.index("watch")
        columns, rows = columns[:at] + columns[at + 1 :], [r[:at] + r[at + 1 :] for r in rows]
        align = align[1:]
    table = format_table(columns, rows, align)
    return "\n\n".join(
        [head + _sizes(planned, names), table, advice(planned), *_warned(planned, names), ADDS_UP]
    )


def _sizes(planned: PlanSearch, names: Sequence[str]) -> str:
    """Return how large the series are that the errors are of."""
    lines = [
        f"\n{shown(name)} itself: mean {mean:,.4g}, root mean square {size:,.4g}"
        for name, (mean, size) in zip(names, planned.sizes, strict=True)
    ]
    return "".join(lines)


def _warned(planned: PlanSearch, names: Sequence[str]) -> list[str]:
    best = planned.recommended
    return [
        f"{shown(names[i])}: publishing 0 at every tick would do as well. The error would be "
        f"{planned.sizes[i][1]:,.4g}, that of this plan is {best.total[i]:,.4g}."
        for i in planned.no_better_than_nothing
    ]


def _row(c: Candidate, planned: PlanSearch) -> list[str]:
    marks = ["worst case"] * c.worst_case
    marks += ["recommended"] * (c == planned.recommended and not c.worst_case)
    marks += ["fading"] * c.setting.fade + [f"season {c.period}"] * (c.period > 0)
    forecast = c.setting.forecast
    return [
        format_number(c.setting.norm_budget, 2),
        f"{c.setting.others:.0%}" if c.setting.others else "–",
        f"{forecast:.0%}" if forecast else "–",
        _percent(c.setting.cap) if forecast else "–",
        *(_numbers(x) for x in (c.sigma,)),
        f"{c.dropped:.1%}",
        *(_numbers(x) for x in (c.noise, c.bias, c.total)),
        ", ".join(marks),
    ]


def _numbers(values: Sequence[float]) -> str:
    return " / ".join(f"{v:,.4g}" for v in values)


def advice(planned: PlanSearch) -> str:
    """Return what to do, in the words of `create`."""
    best = planned.recommended
    if best.worst_case:
        why = "No smaller budget is sure to be better by 5 %,"
        if planned.misled:
            why = (
                "These data change too much to plan on:\nplanned on the first half, the second "
                f"would have had {planned.hindsight:.2f} times its error;"
            )
        return (
            f"Recommended: worst-case composition. {why}\nand with this one nobody is left out:\n"
            f"  sparseq create … --in-or-out --norm-budget {best.setting.norm_budget:g}"
        )
    setting = best.setting
    made, run = [f"--norm-budget {setting.norm_budget:g}"], []
    if not setting.forecast:
        made.insert(0, "--in-or-out")
    shares = {"watch": setting.others, "forecast": setting.forecast}
    reserve = ",".join(f"{name}={_percent(share)}" for name, share in shares.items() if share)
    if reserve:
        made.append(f"--reserve {reserve}")
    if setting.others:
        run.append(f"--alarm-below {ALARM_BELOW}")
    if setting.forecast:
        run.append("--forecast")
    if run:
        run.append(f"--horizon {planned.ticks}")
    if setting.forecast:
        run.append(f"--forecast-cap {_percent(setting.cap)}")
        run += ["--fade"] * setting.fade
        run += [f"--season {best.period}"] * (best.period > 0)
    text = f"Recommended, {best.relative:.2f} times the error of the worst case:\n"
    text += f"  sparseq create … {' '.join(made)}"
    text += f"\n  sparseq monitor … {' '.join(run)}" if run else ""
    if planned.hindsight is not None:
        text += (
            "\nPlanned on the first half of these data and run on the second, "
            f"{planned.hindsight:.2f} times."
        )
    return text


def _percent(share: float) -> str:
    return f"{100 * share:.10g}%"


def as_json(
    planned: PlanSearch, names: Sequence[str], strategies: StrategyPlan | None = None
) -> str:
    """Return all of it as JSON."""

    def plain(c: Candidate) -> dict[str, Any]:
        fields = asdict(c)
        setting: dict[str, Any] = fields.pop("setting")
        return setting | fields

    return json_text(
        {
            "series": list(names),
            "ticks": planned.ticks,
            "kappa": planned.kappa,
            "hindsight": planned.hindsight,
            "sizes": [{"mean": mean, "root_mean_square": size} for mean, size in planned.sizes],
            "publish_0": [names[i] for i in planned.no_better_than_nothing],
            "recommended": plain(planned.recommended),
            "rows": [plain(c) for c in planned.rows],
        }
        | ({} if strategies is None else {"strategies": strategies_plain(strategies)}),
    )
