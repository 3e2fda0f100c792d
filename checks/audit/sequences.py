"""Neighbouring stores live the same life: files, erasures, late rows, monitor, watch, training.

Each step of a life is done to the four stores (see `neighbours`), the first one's outputs frozen in
the others, and compared like a question. So control flow that hangs on a row shows as soon as one
of the four takes another way.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import reprlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from checks.audit import files
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.neighbours import ALONE, VARIANTS, WITH, WITHOUT
from checks.audit.queries import Columns, Expressions
from checks.audit.trial import Act, Ask, Trial
from checks.language import BOOL, DATE, FLOAT, INT, TEXT, functions
from checks.stores import made_store
from sparseq.series import ActiveWatch, Monitor, QuerySeries, QueryText, Ticks
from sparseq.series.methods.forecast import Forecast
from sparseq.store.curator import forget
from sparseq.store.store import Store
from sparseq.stream.batches import Request
from sparseq.training import features_of, noised_gradient, target_of
from sparseq.training.store_rows import engine_for

KNOWN, STAYING = 7, 8
"""Two people whom all four stores know; the first may be erased."""
PERSON = 5_000
LENGTH = 30
_FIRST = dt.date(2024, 1, 1)
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxdict = 20
_SHORT.maxstring = _SHORT.maxother = 40
_COLUMNS: Columns = {
    INT: ("n", "key"),
    FLOAT: ("x",),
    TEXT: ("s",),
    BOOL: ("b",),
    DATE: ("day",),
}
_FIXED = (
    "SELECT count(DISTINCT who) AS a0 FROM t WHERE day = DATE '2024-01-02'",
    "SELECT count(DISTINCT who) AS a0 FROM t WHERE day = DATE '2024-02-01'",
    "SELECT day, count(*) AS a0 FROM t WHERE day BETWEEN '2024-01-01' AND '2024-01-09' "
    "GROUP BY day",
    "SELECT s, count(*) AS a0 FROM t WHERE s IN ('a', 'b', '1e3', 'true', '1.5') GROUP BY s",
    "SELECT sum(least(greatest(n, 0), 9)) AS a0 FROM t",
    "SELECT sum(least(greatest(x, 0), 50)) AS a0, countif(b) AS a1 FROM t",
    "SELECT month(day) AS m, count(*) AS a0 FROM t GROUP BY m",
    "SELECT month(day) AS m, dayofweek(day) AS d, count(*) AS a0 FROM t GROUP BY m, d",
    "SELECT count(DISTINCT who) AS a0 FROM t",
)


@dataclass
class Life:
    """Four stores, and what runs on them."""

    rng: random.Random
    folder: Path
    stores: dict[str, Store] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    crowd: list[int] = field(default_factory=list)
    dates: str = "%Y-%m-%d"
    format: str = "csv"
    day: int = 0
    steps: int = 0
    running: dict[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def today(self) -> dt.date:
        """The day that comes in next."""
        return _FIRST + dt.timedelta(self.day)

    def of(self, variant: str, what: str, make: Callable[[Store], Any]) -> Any:
        """Return what runs on a store; made when it is first asked for."""
        if (variant, what) not in self.running:
            self.running[variant, what] = make(self.stores[variant])
        return self.running[variant, what]


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores live; yield what breaks a rule, with all that was done before."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        life = _begun(trial.rng, Path(folder))
        for store in life.stores.values():
            stack.callback(store.close)
        terms = Terms(life.settings["kappa"], life.settings["norm_budget"])
        steps = (_step(life) for _ in range(LENGTH))
        story = f"{life.format} with dates as {life.dates}, {life.settings}"
        yield from trial.life(story, life.stores, steps, lambda seen: compare(seen, PERSON, terms))


def _begun(rng: random.Random, folder: Path) -> Life:
    """Make the four stores from the same file, of people whom all know."""
    life = Life(rng, folder, format=rng.choice(files.FORMATS))
    if life.format in files.TEXTS:
        life.dates = rng.choice((files.DATES[0], *files.DATES[1:3] * 2))
    reserves = rng.choice(({}, {"watch": 0.1, "forecast": 0.2}, {"forecast": 0.25}))
    poor = rng.random() < 0.6
    life.settings = {
        "kappa": 0.5 if poor else 100.0,
        "norm_budget": 8.0 if poor else 2.0**18,
        "reserves": reserves,
        "bounds": {"x": (0, 100), "n": (0, 10)},
        "row_key": rng.choice(("", "key")),
        "seed": rng.randrange(2**31),
        "in_or_out": rng.random() < 0.5,
    }
    life.crowd = rng.sample(range(10, 4_000), 12)
    known = [files.ordinary(rng, who, _FIRST) for who in (KNOWN, STAYING) for _ in range(3)]
    for row, value in zip(known, ("a", "b", "c"), strict=False):
        row["s"] = value
    file = files.write(folder / "first", life.format, known, life.dates)
    row_key = (life.settings["row_key"],) if life.settings["row_key"] else ()
    for variant in VARIANTS:
        settings = life.settings | {"row_key": row_key}
        life.stores[variant] = made_store(
            None,
            [file],
            table="t",
            user="who",
            time="day",
            keys={"s": ["a", "b", "c"]},
            dates=files.ORDERS.get(life.dates, ""),
            **settings,
        )
    return life


def _step(life: Life) -> tuple[str, Act]:
    """Return the next action and its description."""
    life.steps += 1
    choices: list[Callable[[Life], tuple[str, Act]]] = [
        _file,
        _file,
        _file,
        _question,
        _question,
        _random,
        _batch,
        _tick,
        _gradient,
        _erase,
        _again,
    ]
    if "watch" in life.settings["reserves"]:
        choices += [_watch]
    if "forecast" in life.settings["reserves"]:
        choices += [_forecast]
    if life.steps % 3 == 1:
        choices = [_file]
    if life.steps % 3 == 2:
        choices += [_months] * len(choices)
    return life.rng.choice(choices)(life)


def _file(life: Life) -> tuple[str, Act]:
    """A file of a day comes in, or one of an earlier day: late rows."""
    rng = life.rng
    late = life.day > 0 and rng.random() < 0.25
    day = _FIRST + dt.timedelta(rng.randrange(life.day)) if late else life.today
    life.day += 0 if late else 1
    format = life.format if rng.random() < 0.8 else rng.choice(files.FORMATS)
    known = [files.ordinary(rng, STAYING, day)]
    crowd = [files.ordinary(rng, i, day) for i in rng.sample(life.crowd, 8) for _ in range(2)]
    style = rng.choice(("one", "one", "one", "odd", "ordinary", "absent"))
    many = {"one": 0, "absent": 0}.get(style, rng.choice((1, 2, 12)))
    person = [
        files.odd(rng, PERSON, day, format) if style == "odd" else files.ordinary(rng, PERSON, day)
        for _ in range(many)
    ] + [files.one_odd(rng, PERSON, day, format)] * (style == "one")
    name, paths = f"{day}-{life.steps}", {}
    for variant in VARIANTS:
        folder = life.folder / f"{variant}-{life.steps}"
        folder.mkdir()
        others = crowd if variant in (WITHOUT, WITH) else []
        mine = person if variant in (WITH, ALONE) else []
        rows = [*known, *others[:3], *mine, *others[3:]]
        paths[variant] = files.write(folder / name, format, rows, life.dates)
    words = f"file {name}.{format} with {_SHORT.repr(person)}"
    return words, lambda v, s: files.ingested(s, paths[v], paths[v].name, late)


def _question(life: Life) -> tuple[str, Act]:
    sql = life.rng.choice(_FIXED)
    return sql, Ask(sql)


def _months(life: Life) -> tuple[str, Act]:
    """Ask for counts by month: they show a file that was read differently."""
    sql = "SELECT month(day) AS m, count(*) AS a0 FROM t GROUP BY m"
    return sql, Ask(sql)


def _random(life: Life) -> tuple[str, Act]:
    rng = life.rng
    expressions = Expressions(rng, functions(), {})
    term = expressions.term(BOOL, _COLUMNS, 3)
    sql = f"SELECT s, count(*) AS a0 FROM t WHERE {term.sql} GROUP BY s"
    return sql, Ask(sql)


def _batch(life: Life) -> tuple[str, Act]:
    """Many at once: they share scans, and the days of others."""
    days = [_FIRST + dt.timedelta(i) for i in range(max(life.day, 2))]
    text = "SELECT count(*) AS a0 FROM t WHERE day = DATE '{}'"

    def ask(_: str, store: Store) -> object:
        asked = [Request(store.lower(text.format(day)), fresh=True) for day in days]
        return [
            (o.answer and o.answer.rows(), o.refused and str(o.refused))
            for o in store.ask_many(asked)
        ]

    return f"ask_many of {len(days)} days", ask


def _tick(life: Life) -> tuple[str, Act]:
    """Answer the complete ticks of a monitor: completeness is public."""
    done = life.day

    def tick(variant: str, _: Store) -> object:
        monitor = life.of(variant, "monitor", _monitor)
        return [(t.tick.label, [repr(r) for r in t.rows]) for t in monitor.run(done)]

    return f"monitor up to tick {done}", tick


def _monitor(store: Store) -> Monitor:
    ticks = Ticks(dt.datetime(2024, 1, 1), "1d", dt.datetime(2024, 2, 1))
    query = QueryText.of("SELECT s, count(*) AS a0 FROM t WHERE day = :day GROUP BY s")
    return Monitor(store, ticks, [QuerySeries(store, "rows", query, ticks)])


def _watch(life: Life) -> tuple[str, Act]:
    def tick(variant: str, _: Store) -> object:
        watch = life.of(variant, "watch", lambda s: ActiveWatch(s, ticks=31))
        return watch.tick(watch.done + 1, "a tick")

    return "a tick of the watch", tick


def _forecast(life: Life) -> tuple[str, Act]:
    if life.day == 0:
        return _question(life)

    def ask(variant: str, store: Store) -> object:
        series = life.of(variant, "forecast", lambda s: (Forecast(s, "visits", ticks=40), [0]))
        forecast, at = series
        day = _FIRST + dt.timedelta(at[0] % max(life.day, 1))
        sql = f"SELECT count(DISTINCT who) AS a0 FROM t WHERE day = DATE '{day}'"
        got = forecast.ask(at[0], store.lower(sql))
        at[0] += 1
        return [got.active.rows(), got.corrected.tolist(), repr(got.forecast_error)]

    return "a tick of a forecast", ask


def _gradient(life: Life) -> tuple[str, Act]:
    label = f"step {life.steps}"
    model, features = life.rng.choice((("linear", ("n", "s")), ("linear", ("n/300", "s"))))[:2]

    def ask(_: str, store: Store) -> object:
        table = store.catalog.table("t")
        chosen = features_of(table, features, "x")
        engine = engine_for(store, table, chosen, target_of(table, "x", model), model)
        params = np.linspace(-1, 1, engine.coordinates)
        return noised_gradient(store, engine, params, label=label, clip=1.0).tolist()

    return f"gradient of {model} on {features}", ask


def _erase(life: Life) -> tuple[str, Act]:
    def erase(_: str, store: Store) -> object:
        forget(store, KNOWN)
        return "erased"

    return f"erase {KNOWN}", erase


def _again(life: Life) -> tuple[str, Act]:
    """Read back a request id's answer: free, and the same."""
    sql = _FIXED[-1]
    return "a request id, again", lambda _, s: s.sql(sql, request_id="again")
