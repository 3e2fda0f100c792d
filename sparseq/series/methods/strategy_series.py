"""A series under a strategy: correlated noise, with an account per user.

See docs/theorems/correlated-series.md.

At tick t the sum over people of (C x_i)_t is released: the strategy's taps applied to the
contributions of person i that were admitted during the last k ticks
(`sparseq.accounting.strategies`), with independent exact noise. That is one linear question a tick,
a step of Algorithm 2 (`Store.step`), charged ((C x_i)_t)² like any other. The series is C^-1 of the
released values, which is free.

A person's tick is admitted iff everything that it will ever be charged fits
(`sparseq.series.methods.band`), and is otherwise in no measurement. The admitted contributions, and
what they hold back of the account for the ticks to come, are written in the transaction of the
release (`sparseq.ledger.series_users`): a restart reads the last k ticks of them, never the rows of
the data. So a row that comes late is in no measurement, and an erased person is in none from then
on.

Taps, noise and lattice are recorded before the first tick, and do not change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Price, simultaneous_bound
from sparseq.accounting.strategies import BITS, Strategy
from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine.cells import Cells, contributions_of_distinct
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import USER, Note, NoteTable
from sparseq.ledger.request_id import RequestId
from sparseq.ledger.series_users import block_of, forgotten, remember, taken
from sparseq.question.plan import Kind, Options, Plan, Query
from sparseq.released.outputs import KeyNode, OutputColumn, Outputs, measure
from sparseq.series.methods.band import Band, look_up, most_steps
from sparseq.series.methods.forecast_settings import column_of
from sparseq.series.series_part import SeriesPart
from sparseq.store.store import Store
from sparseq.stream.participation import Participation

Floats = NDArray[np.float64]
MEASURED = "measured"
_ROOM = 8  # multiple of a full contribution that can be admitted
BEGUN = NoteTable("series_strategy", {"series": "VARCHAR", "settings": "VARCHAR"})
RELEASED = NoteTable(
    "series_measured", {"series": "VARCHAR", "tick": "BIGINT", "release": "BIGINT"}
)


@dataclass(frozen=True)
class CorrelatedTick:
    """One tick of a series: public facts.

    Attributes:
        number: The tick.
        answer: The release: the measurement.
        values: The series at the tick, (d,).
        sigma: Standard deviation of its noise.
        error: Half-width of all values of the tick at once, at the answer's confidence.
    """

    number: int
    answer: Answer
    values: Floats
    sigma: float
    error: float


class CorrelatedSeries:
    """A series whose noise is correlated over its ticks.

    Args:
        store: A store in which people are in or out.
        series: Name of the series; a series that was begun continues.
        strategy: See `Strategy.of`; required for a new series.

    Raises:
        ParameterError: The series was begun with another strategy, or the store weights people.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> days = [d for d in range(6) for _ in range(40)]
        >>> visits = pa.table({"who": list(range(40)) * 6, "day": days})
        >>> said = sparseq.Questions(in_or_out=True, counts=4)
        >>> con = sparseq.create(None, {"t": visits}, user="who", purposes=[said], seed=1)
        >>> series = CorrelatedSeries(con, "visitors", "1,-0.5")
        >>> sql = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"
        >>> done = [series.ask(d, con.lower(sql.format(d))) for d in range(6)]
        >>> [round(tick.sigma, 2) for tick in done[:3]]  # sqrt(4) sqrt(1 + 1/4 + 1/16)
        [2.0, 2.24, 2.29]
    """

    _unsure: bool  # the fields below may differ from the ledger
    _settings: dict[str, Any] | None
    _erasures: int
    _done: list[Answer]
    _values: list[Floats]
    _band: Band

    def __init__(self, store: Store, series: str, strategy: str | None = None) -> None:
        stream, part = store.stream, SeriesPart.of(store, series)
        if part.purpose is None and (stream.course is not None or store.halt):
            raise ParameterError(
                f"{series!r} has no part of the budget in which people are in or out",
                f"sparseq purpose add STORE {series}=30%,ticks=365,strategy=…",
            )
        if stream.ledger.lifetimes is not None:
            raise ParameterError(
                "a strategy prepays from an account of each window, not of all windows together",
                "make the store without a level for life, or the series without a strategy",
            )
        self._store, self.series = store, series
        self._part = part
        self._ledger, self._accounts = stream.ledger, stream.pots[part.answers]
        rows = self._ledger.notes(BEGUN, series=self.series).to_pylist()
        self._settings = json.loads(rows[0]["settings"]) if rows else None
        self._text = strategy or ""
        self.strategy = self._strategy(strategy)
        self._load_state()

    def _strategy(self, said: str | None) -> Strategy:
        """Return the strategy that the series was, or is now, begun with."""
        if self._settings is None:
            if said is None:
                raise ParameterError(f"there is no series {self.series!r} yet", "give a strategy")
            return Strategy.of(said)
        fixed = Strategy(tuple(self._settings["taps"]))
        if said not in (None, self._settings["text"]) and Strategy.of(said) != fixed:
            raise ParameterError(
                f"{self.series!r} was begun with strategy {self._settings['text']}, not {said}",
                "taps are fixed before the first tick; leave it out, or begin another series",
            )
        return fixed

    def ask(
        self,
        number: int,
        query: Query,
        options: Options | None = None,
        request_id: RequestId | str | None = None,
    ) -> CorrelatedTick:
        """Measure tick `number` (0, 1, 2, …), or return its recorded measurement.

        Args:
            number: The next tick, or an earlier one.
            query: One COUNT or SUM, with or without groups, the same groups at every tick.
            options: Noise of a measurement, which the first tick fixes, and confidence.
            request_id: Id of the measurement in the journal, see `Store.ask`.

        Raises:
            ParameterError: The tick is not the next.
            QueryRefused: The query is of another kind, or the tick has another query.
        """
        with self._store.stream.lock:
            if self._unsure or forgotten(self._ledger) != self._erasures:
                self._load_state()
            if not 0 <= number <= len(self._done):
                raise ParameterError(
                    f"tick {number} of {self.series!r} is not the next, which is {len(self._done)}",
                    "ask one tick after another, from 0",
                )
            plan = self._begin(query, options or Options())
            if number == len(self._done):
                self._unsure = True  # until the tick is done, for any interruption
                self._next(number, plan, options or Options(), request_id)
                self._unsure = False
            answer = self._done[number]
            if answer.facts.query != self._text_of(query):
                raise QueryRefused(
                    f"tick {number} of {self.series!r} was asked another query: "
                    f"{answer.facts.query}",
                    "a tick has one query",
                )
            return self._tick(number, answer)

    def _next(
        self, number: int, plan: Plan, options: Options, request_id: RequestId | str | None
    ) -> None:
        """Release the measurement, and write the admitted people in the same transaction."""
        admitted: list[tuple[Cells, Ints]] = []

        def contributions(_: Plan) -> Contributions:
            cells = self._store.stream.engine.cells(plan, self._store.stream.people.inside())
            self._accounts.hold(self.series, _NOBODY, _NOTHING)  # release this series' own hold
            done = self._band.tick(cells, lambda users: self._accounts.left(users.astype(np.int32)))
            owing, owed = self._band.owed()
            self._accounts.hold(self.series, owing.astype(np.int32), owed)
            held = look_up(owing, owed, done.cells.users.astype(np.int64))
            admitted.append((done.cells, held))
            return contributions_of_distinct(done.measured, plan.query.coordinates)

        def gated(gated: Participation) -> Sequence[Note]:
            cells, held = admitted[0]
            rows = (cells.users, cells.coordinates, cells.values)
            return [
                RELEASED.rows(series=self.series, tick=number, release=gated.release),
                *remember(self._ledger, self.series, number, self.strategy.band, rows, held),
            ]

        settings = self._fixed
        sigma = Options(sigma=settings["sigma"], confidence=options.confidence)
        query = self._measure(plan.query)
        answer = self._store.step(
            query, contributions, sigma, request_id, pot=self._part.answers, gated=gated
        )
        if not admitted:
            raise QueryRefused(
                f"request id {str(request_id)!r} was answered outside of the series",
                "use a new request id",
            )
        self._take(answer)

    def _take(self, answer: Answer) -> None:
        """Decode the next measurement: x̂_t = m_t - c_1 x̂_(t-1) - …."""
        measured = answer.arrow()[MEASURED].to_numpy().astype(np.float64)
        back = min(len(self._values), self.strategy.band)
        if back:
            taps = self.strategy.numbers[back:0:-1]
            measured = measured - taps @ np.array(self._values[-back:])
        self._values.append(measured)
        self._done.append(answer)

    def _tick(self, number: int, answer: Answer) -> CorrelatedTick:
        values, facts = self._values[number], answer.facts
        spread = self.strategy.inverse(number + 1)
        sigma = facts.sigma[0] * float(np.sqrt(spread @ spread))
        rounding = facts.granularity[0] * float(np.abs(spread).sum())
        error = simultaneous_bound(sigma, len(values), 1 - facts.confidence, lattice_step=rounding)
        return CorrelatedTick(number, answer, values, sigma, error)

    @property
    def _fixed(self) -> dict[str, Any]:
        assert self._settings is not None
        return self._settings

    @property
    def column(self) -> str:
        """The column of the series' number; known once the series is begun."""
        return str(self._fixed["column"])

    def _begin(self, query: Query, options: Options) -> Plan:
        """Return the plan of a tick; the settings are durable before the first one is asked."""
        column = column_of(query)
        rough = self._part.plan(query, options if self._settings is None else Options())
        noise = rough.noise[0]
        shape: dict[str, Any] = {
            "column": column,
            "coordinates": query.coordinates,
            "groups": [[str(v) for v in d.values] for d in query.domains],
        }
        if self._settings is None:
            step = 1.0
            if query.measures[0].kind is Kind.SUM:
                step = _step_for(noise.scale, self.strategy, query.measures[0].integral)
            settings = shape | {
                "text": self._text,
                "taps": list(self.strategy.taps),
                "sigma": noise.sigma,
                "scale": noise.scale,
                "step": step,
            }
            note = BEGUN.rows(series=self.series, settings=json.dumps(settings))
            self._ledger.in_transaction(lambda: self._ledger.write(note))
            self._settings = settings
            self._load_state()
        settings = self._fixed
        if any(settings[name] != value for name, value in shape.items()):
            raise QueryRefused(
                f"the query has other groups than {self.series!r} was begun with",
                "declare the keys (create --keys), so that they are the same at every tick",
            )
        one = replace(query.measures[0], step=settings["step"])
        return self._part.plan(replace(query, measures=(one,)), Options(sigma=settings["sigma"]))

    def _text_of(self, query: Query) -> str:
        return f"measured for {self.series}: {query.text}"

    def _measure(self, query: Query) -> Query:
        """Return the released question: the taps over a person's last ticks."""
        one = replace(
            query.measures[0],
            kind=Kind.SUM,
            integral=False,
            scale=self._fixed["scale"],
            step=math.ldexp(self._fixed["step"], -BITS),
        )
        keys = [column for column in query.outputs.columns if isinstance(column.node, KeyNode)]
        shown = Outputs(
            (*keys, OutputColumn(MEASURED, measure(0))), histogram=query.outputs.histogram
        )
        return replace(query, text=self._text_of(query), measures=(one,), outputs=shown)

    def _load_state(self) -> None:
        """Load the state from the ledger."""
        self._unsure = True
        self._erasures = forgotten(self._ledger)
        self._done, self._values = [], []
        if self._settings is None:
            self._unsure = False
            return
        found = self._ledger.notes(RELEASED, series=self.series).sort_by("tick")
        for release in found["release"].to_pylist():
            self._take(self._store.release(release))
        settings, band = self._settings, self.strategy.band
        step = math.ldexp(settings["step"], -BITS)
        price = Price.of(settings["sigma"], step, self._part.budget)
        self._band = Band(
            self.strategy, price, settings["coordinates"], max(len(self._done) - band, 0)
        )
        notes = taken(self._ledger, self.series, block_of(max(len(self._done) - 1, 0), band))
        ticks = notes["tick"].to_numpy()
        for tick in range(max(len(self._done) - band, 0), len(self._done)):
            low, high = np.searchsorted(ticks, [tick, tick + 1]).tolist()
            rows = notes.slice(low, high - low)
            names = (USER, "coordinate", "steps")
            self._band.measure(Cells(*(rows[name].to_numpy() for name in names)))
        owing, owed = self._band.owed()
        self._accounts.hold(self.series, owing.astype(np.int32), owed)
        self._unsure = False


def has_strategy(store: Store, series: str) -> bool:
    """Return True if a series was begun under a strategy: public."""
    with store.stream.held():
        return bool(store.stream.ledger.notes(BEGUN, series=series).num_rows)


_NOBODY: Index = np.zeros(0, np.int32)
_NOTHING: Ints = np.zeros(0, np.int64)


def _step_for(scale: float, strategy: Strategy, integral: bool) -> float:
    """Return the lattice step of a sum: a power of two, with room for `_ROOM` contributions."""
    step = math.ldexp(1.0, math.ceil(math.log2(_ROOM * scale / most_steps(strategy))))
    return max(step, 1.0) if integral else step
