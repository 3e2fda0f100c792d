"""Departure forecasts: a series about everybody, although users drop out of it.

See docs/theorems/departure-forecasts.md.

When a user is first dropped from a series, the user leaves it, and leaves once a forecast r_i in
R^d: its mean contribution per tick so far (`sparseq.series.methods.departure_mean`). The running
sum of the forecasts is released continually, by a square-root Toeplitz counter, and added to the
answers. Each tick is two releases:

    answer   the series' query over the users who have not left it, paid from the queries' pot
    row      sum_i a_(t - s_i) x_i, the counter's next row, paid from the reserve

**Privacy.** Both are steps of Algorithm 2 (`Store.step`). The answer's contribution of user i is
q_t(X_i), or 0 once i has departed; the time of i's departure follows from i's own charges. The
row's contribution is a_(t - s_i) x_i with s_i the tick of departure and x_i the forecast on a
lattice: a public coefficient times a function of i's own data. So q_t(X_i) is in each case a
function of X_i and of public facts, which is all that Theorem 4.5 requires, and the charges are
those of the summed integers. There is no new theorem. New users and late rows change only their own
users' contributions.

**The reserve.** x_i is scaled down, if necessary, to what i's own part of the reserve can pay
over all the ticks to come (`sparseq.series.methods.counter_columns`), so that nobody is ever
dropped from a row.

**Horizons.** A counter serves a declared number of ticks. The reserve may be divided into slices:
then a new counter starts at the end of the previous one, paid from the next slice, and all
forecasts enter it again. After the last slice the running sum stays as it is, which is free.

The journal decides: an answer and the departures at it with their forecasts are one transaction,
the row is another, and a restart continues after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sparseq.accounting import budget_units
from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine.cells import Cells, contributions_from
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Index
from sparseq.ledger.forecast_notes import CounterRows, ForecastNotes, Seen
from sparseq.ledger.notes import Note
from sparseq.ledger.request_id import RequestId
from sparseq.mechanisms.toeplitz_counter import coefficients
from sparseq.question.plan import Cell, Domain, Kind, Measure, Options, Plan, Query, Relation
from sparseq.released.outputs import OutputColumn, Outputs, key, measure
from sparseq.series.methods.corrector import Corrector, PostProcessing
from sparseq.series.methods.counter_columns import Columns
from sparseq.series.methods.departure_mean import Form
from sparseq.series.methods.forecast_settings import (
    ForecastTick,
    check_same,
    column_of,
    new_settings,
)
from sparseq.series.series_part import SeriesPart, purpose_of
from sparseq.store.store import Store
from sparseq.stream.participation import Participation


class Forecast:
    """A monitored series with departure forecasts.

    Args:
        store: A store with a part for the series that has forecasts (`sparseq.Purpose`), or made
            with a reserve for them.
        series: Name of the series; a series that was begun continues.
        ticks: T, the number of ticks that a counter serves; public. Required without a part.
        form: Form of the forecast: see `sparseq.series.methods.departure_mean`.
        share: Share of the reserve for this series, if several share it.
        slices: Number of slices of the share, one for each counter of T ticks.
        cap: Forecasts beyond cap · C are scaled down to it: less noise, more error.
        post: Settings of the post-processing; free, so they may change at any time.
        query_of: Returns the query of an earlier tick. With it, earlier ticks are counted again
            before the next one is asked, if rows have arrived that may be about them.

    Raises:
        ParameterError: A number is out of range or differs from the series as it was begun, or
            the store has no reserve.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> days = [d for d in range(6) for _ in range(40)]
        >>> visits = pa.table({"who": list(range(40)) * 6, "day": days})
        >>> said = sparseq.Questions(counts=4, forecast=0.25)
        >>> con = sparseq.create(None, {"t": visits}, user="who", purposes=[said], seed=1)
        >>> forecast = Forecast(con, "visitors", ticks=6, post=PostProcessing(smoothing=1.0))
        >>> sql = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"
        >>> done = [forecast.ask(d, con.lower(sql.format(d))) for d in range(6)]
        >>> done[5].active.value(), done[5].forecast.round().tolist()  # all have left: 3 in 4 days
        (-1, [25.0])
    """

    _unsure: bool  # the fields below may differ from the ledger
    _begun: dict[str, Any] | None
    _left: CounterRows
    _done: list[ForecastTick]
    _known: dict[int, Answer]
    _answers: dict[int, int]
    _rows: dict[int, int]
    _asked: Cells

    def __init__(
        self,
        store: Store,
        series: str,
        ticks: int | None = None,
        form: str | None = None,
        *,
        share: float | None = None,
        slices: int | None = None,
        cap: float | None = None,
        post: PostProcessing | None = None,
        query_of: Callable[[int], Query] | None = None,
    ) -> None:
        self._store = store
        self._part = SeriesPart.of(store, series)
        self._reserve = store.stream.pots[self._part.forecasts]
        self._notes = ForecastNotes(store.stream.ledger, series)
        self.series = series
        given = {"ticks": ticks, "form": form, "share": share, "slices": slices, "cap": cap}
        if (purpose := self._part.purpose) is not None:
            post = post or PostProcessing(period=purpose.season, off=purpose.off)
        known = self._notes.all_settings()
        others = [] if purpose else [s for n, s in known.items() if not purpose_of(store, n)]
        self._settings = known.get(series) or new_settings(series, given, others, purpose)
        if self._settings.pop("part_time", False):
            raise ParameterError(
                f"{series!r} was begun in part time, which no longer exists",
                "its answers stay; to continue, give another series a part: sparseq purpose add",
            )
        said = {name: value for name, value in given.items() if value is not None}
        check_same(series, self._settings, said)
        self._form = Form.of(self._settings["form"])
        self._post = post or PostProcessing()
        self._query_of = query_of
        self._load_state()

    def ask(
        self,
        number: int,
        query: Query,
        options: Options | None = None,
        request_id: RequestId | str | None = None,
    ) -> ForecastTick:
        """Answer tick `number` (0, 1, 2, …), or return its recorded answer.

        Args:
            number: The next tick, or an earlier one.
            query: One COUNT or SUM, with or without groups, the same groups at every tick.
            options: Noise and confidence of the answer.
            request_id: Id of the answer in the journal, see `Store.ask`.

        Raises:
            ParameterError: The tick is not the next.
            QueryRefused: The query is of another kind, or the tick has another query.
        """
        with self._store.stream.lock:
            if self._unsure:
                self._load_state()
            if number > len(self._done) or number < 0:
                raise ParameterError(
                    f"tick {number} of {self.series!r} is not the next, which is {len(self._done)}",
                    "ask one tick after another, from 0",
                )
            if number < len(self._done):
                done = self._done[number]
            else:
                self._unsure = True  # until the tick is done, for any interruption
                done = self._next(number, query, options or Options(), request_id)
                self._unsure = False
            if done.active.facts.query != query.text:
                raise QueryRefused(
                    f"tick {number} of {self.series!r} was asked another query: "
                    f"{done.active.facts.query}",
                    "a tick has one query",
                )
            return done

    def _next(
        self, number: int, query: Query, options: Options, request_id: RequestId | str | None
    ) -> ForecastTick:
        if number not in self._answers:
            plan = self._part.plan(query, options)
            self._check(plan)
            self._recount(number, options)
            self._answer(number, query, options, request_id)
        if number not in self._rows and number < self._last:
            self._row(number)
        return self._finish(number)

    def _answer(
        self, number: int, query: Query, options: Options, request_id: RequestId | str | None
    ) -> None:
        """Release the answer; dropped users leave a forecast in the same transaction."""
        after: list[Callable[[], None]] = []

        def gated(gated: Participation) -> Sequence[Note]:
            then, written = self._departures(number, gated)
            after.append(then)
            return written

        answer = self._store.step(
            query, self._contributions, options, request_id, pot=self._part.answers, gated=gated
        )
        if not after:
            raise QueryRefused(
                f"request id {str(request_id)!r} was answered outside of the forecast",
                "use a new request id",
            )
        after[0]()
        self._begun = self._settings
        self._answers[number] = answer.facts.release
        self._known[answer.facts.release] = answer

    def _contributions(self, plan: Plan) -> Contributions:
        """Return the contributions of users that did not leave the series."""
        cells = self._store.stream.engine.cells(plan, self._store.stream.people.inside())
        self._asked = cells.where(~np.isin(cells.users, self._left.users))
        self._step = plan.noise[0].granularity
        return contributions_from(self._asked, plan.query.coordinates)

    def _seen(self, number: int) -> Seen:
        """Return the contributions of a tick, for the ledger."""
        asked = self._asked
        return number, asked.users, asked.coordinates, asked.values.astype(float) * self._step

    def _departures(
        self, number: int, gated: Participation
    ) -> tuple[Callable[[], None], list[Note]]:
        """Return the action for after the commit, and the notes to write."""
        notes = self._notes
        written: list[Note] = [notes.released(number, False, gated.release)]
        if self._begun is None:
            written.append(notes.begin(self._settings))
            written.append(notes.count_of(self._store.backend.revision))
        if number >= self._last:
            return lambda: None, written
        written.append(notes.remember_seen(*self._seen(number)))
        counter, tick = divmod(number, self._settings["ticks"])
        old = self._left
        new = self._departing_rates(number, gated.users[~gated.active])
        if tick == 0 and counter > 0:
            old, new = CounterRows.nothing(), old.joined(new)
        new = self._fit(new, tick)
        written.append(notes.remember_left(counter, new))

        def then() -> None:
            self._left = old.joined(new)

        return then, written

    def _departing_rates(self, number: int, users: Index) -> CounterRows:
        """Return the rates of users who depart, from their contributions so far."""
        if not len(users):
            return CounterRows.nothing()
        history, places = self._notes.seen(users), self._settings["coordinates"]
        mine, coordinates, rates = self._form.means(history, users, number, places)
        left = np.full(len(mine), number)
        silent = np.setdiff1d(np.arange(len(users)), mine)  # contributed nothing before
        nothing = np.zeros(len(silent))
        found = CounterRows(users[mine], coordinates.astype(np.int32), left, rates, left)
        none, zeros = nothing.astype(np.int32), nothing.astype(np.int64)
        return found.joined(CounterRows(users[silent], none, zeros, nothing, zeros))

    def _fit(self, left: CounterRows, tick: int) -> CounterRows:
        """Return forecasts left at a counter's tick, on the lattice and within the reserve."""
        users, owner = np.unique(left.users, return_inverse=True)
        ticks = np.full(len(users), tick)
        different, which = np.unique(self._reserve.budgets[users], return_inverse=True)
        units = np.array([self._slice(int(b)) for b in different], np.int64)[which]
        steps = self._columns.fitted(owner, left.rates, units, ticks)
        return CounterRows(
            left.users, left.coordinates, np.full(len(steps), tick), left.rates, steps
        )

    def _row(self, number: int) -> None:
        """Release the counter's row."""
        written: list[Note] = []

        def gated(gated: Participation) -> Sequence[Note]:
            written.append(self._notes.released(number, True, gated.release))
            return written

        answer = self._store.step(
            self._row_query(number),
            lambda plan: self._row_contributions(number, plan),
            Options(sigma=self._columns.sigma),
            pot=self._part.forecasts,
            gated=gated,
        )
        self._rows[number] = answer.facts.release
        self._known[answer.facts.release] = answer

    def _row_contributions(self, number: int, plan: Plan) -> Contributions:
        ages = number % self._settings["ticks"] - self._left.ticks
        a = coefficients(self._settings["ticks"])
        cells = Cells(self._left.users, self._left.coordinates, a[ages] * self._left.steps)
        return contributions_from(cells, plan.query.coordinates)

    def _finish(self, number: int) -> ForecastTick:
        """Correct a tick's answer, free of charge."""
        if not self._done:
            self._corrector = Corrector(self._settings["coordinates"], self._post)
        active = self._release(self._answers[number])
        if number in self._rows:
            if number % self._settings["ticks"] == 0:
                self._corrector.begin(self._columns.sigma, self._columns.row_step)
            row = self._release(self._rows[number]).arrow()["value"].to_numpy()
            self._corrector.row(row.astype(np.float64))
        facts = active.facts
        values = active.arrow()[self._settings["column"]].to_numpy().astype(np.float64)
        found = self._corrector.correct(
            values, facts.sigma[0], facts.granularity[0], 1 - facts.confidence
        )
        done = ForecastTick(
            number,
            active,
            found.values,
            found.forecast,
            found.noise_error,
            found.forecast_error,
            found.error,
        )
        self._done.append(done)
        return done

    def _release(self, release: int) -> Answer:
        """Return a release, from the journal if it was not made in this step."""
        return self._known.pop(release, None) or self._store.release(release)

    def _recount(self, number: int, options: Options) -> None:
        """Count the ticks before `number` again if rows have arrived that may be about them.

        Only later forecasts use it: nothing is released or charged, and the forecasts of departed
        users stay. The time of a recount and its ticks are public, so that the recorded
        contributions of a user remain a function of that user's own rows. It is one transaction,
        with the revision of the rows in it, and ends before the next release: a crash makes no
        difference.
        """
        backend, notes = self._store.backend, self._notes
        if self._query_of is None or self._begun is None or number >= self._last:
            return
        if (revision := backend.revision) == notes.counted:
            return
        plans = [self._part.plan(self._query_of(tick), options) for tick in range(number)]
        for plan in plans:
            self._check(plan)
        self._store.stream.engine.read_ahead(plans)

        departed = np.unique(self._left.users)

        def counted() -> Iterator[Seen]:
            for tick, plan in enumerate(plans):
                self._contributions(plan)
                yield self._seen(tick)

        notes.recount(revision, departed, counted())

    def _check(self, plan: Plan) -> None:
        """Refuse a query that is not one number per group; fix the settings at the first tick."""
        column = column_of(plan.query)
        shape = {
            "coordinates": plan.query.coordinates,
            "column": column,
            "groups": [[str(v) for v in d.values] for d in plan.query.domains],
        }
        if self._begun is None:
            self._settings |= shape | {"scale": plan.noise[0].scale}
        elif any(self._settings[name] != value for name, value in shape.items()):
            raise QueryRefused(
                f"the query has other groups than {self.series!r} was begun with",
                "declare the keys (create --keys), so that they are the same at every tick",
            )

    @property
    def _last(self) -> int:
        """The first tick after the last slice of the reserve."""
        return int(self._settings["ticks"] * self._settings["slices"])

    @property
    def _columns(self) -> Columns:
        settings, part = self._settings, self._part
        whole = int(Fraction(part.aside) * budget_units(part.budget.norm_budget))
        scale = settings["cap"] * settings["scale"]
        return Columns(part.budget, settings["ticks"], scale, self._slice(whole))

    def _slice(self, units: int) -> int:
        """Return the part of a reserve that one counter of this series may spend."""
        return int(units * Fraction(self._settings["share"]) / self._settings["slices"])

    def _row_query(self, number: int) -> Query:
        settings = self._settings
        domain = Domain("coordinate", tuple(range(settings["coordinates"])), Cell("coordinate"))
        label = f"forecasts of {self.series}"
        scale = settings["cap"] * settings["scale"]
        step = self._columns.row_step
        one = Measure(Kind.SUM, Cell("value"), label, integral=False, scale=scale, step=step)
        shown = Outputs((OutputColumn("coordinate", key(0)), OutputColumn("value", measure(0))))
        return Query(
            f"{label}, tick {number}", Relation("FROM forecasts"), (domain,), (one,), shown
        )

    def _load_state(self) -> None:
        """Load the state from the ledger: the releases, and the forecasts that were left."""
        self._unsure = True
        self._begun = self._notes.settings()
        self._left = CounterRows.nothing()
        self._done, self._known = [], {}
        self._answers = self._notes.releases(rows=False)
        self._rows = self._notes.releases(rows=True)
        self._asked = Cells(*(np.zeros(0, np.int32),) * 2, np.zeros(0, np.int64))
        if self._begun is not None:
            self._replay()
        self._unsure = False

    def _replay(self) -> None:
        """Correct the released answers again, and load the forecasts as of the last tick."""
        for number in self._answers:
            if number >= self._last or number in self._rows:
                self._finish(number)
        if self._answers:
            last = min(max(self._answers), self._last - 1)
            self._left = self._notes.left(last // self._settings["ticks"])
