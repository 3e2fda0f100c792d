"""The alarm of the watch: a sparse vector, tick after tick, whose threshold stays secret.

Its price, and why it may be paid user by user, is in `sparseq.series.watch`.

**False alarms.** The alarm at tick t is false if it fires though d_t <= (1-s) n_t, s being the
threshold: at least a share s has never been left out. Whoever declares T ticks has a false alarm in
any of them with probability at most `FALSE_ALARMS`, however the queries are chosen and whatever was
released before: at most 1 % of all stores, and less in a year if T is more than one.

Proof sketch. It fires where d_t + nu_t >= limit_t + z, and with n'_t the released number of users
    limit_t = floor((1-s) n'_t) + m_t + 1.
A false alarm at t has d_t <= (1-s) n_t, and so (nu_t - z) + (1-s) (n_t - n'_t) > m_t. On the left
is noise alone, drawn without looking at anything: two independent Laplace and a Gaussian of known
sigma (and its rounding). m_t is such that this has probability at most beta / T, where beta is 1 %
over the number of thresholds; a union over T ticks, and over the thresholds. How the queries were
chosen is of no account: the event is one of noise, and whoever chooses does not choose it.

Without the margin m_t the noise alone reached the limit in stores of up to a few hundred people,
where it is as large as a tenth of all: 97 % of stores with 200 people had an alarm in a year in
which nobody was left out, and 12 % of those with 614 (docs/theorems/watch.md). A store of any size
had one where nearly as many were left out as may be.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparseq.ledger.notes import NoteRows, NoteTable
from sparseq.ledger.purposes import Pot
from sparseq.series.watch_design import WatchDesign
from sparseq.series.watch_state import WatchState, watch_request
from sparseq.sql.plan import Options
from sparseq.store.answer import Answer
from sparseq.stream.comparison import Comparison
from sparseq.stream.stream_terms import Participation

ALARM = NoteTable(
    "alarm",
    {"tick": "BIGINT", "release_id": "BIGINT", "level": "BIGINT", "noise": "BIGINT",
     "counted": "BIGINT", "fired": "BOOLEAN"},
)  # fmt: skip
"""What is written with each comparison: private."""


@dataclass(frozen=True)
class AlarmCheck:
    """One comparison, public: did it fire, below which share, and its ± in users."""

    fired: bool
    threshold: float
    error: float
    release: int


@dataclass(frozen=True)
class _AlarmRun:
    """The run that the next comparison belongs to: private.

    Attributes:
        level: Which threshold.
        noise: z, or None if it is still to be drawn.
        counted: Who has entered, in lattice steps.
        since: The last release whose departures have entered.
    """

    level: int
    noise: int | None = None
    counted: int = 0
    since: int = 0


class Alarm:
    """One run of a sparse vector for each threshold, one comparison a tick."""

    def __init__(self, state: WatchState, design: WatchDesign, options: Options) -> None:
        self._state = state
        self._store = state.store
        self._design = design
        self._options = options

    def compared(self, tick: int, users: float) -> AlarmCheck | None:
        """Return the comparison of a tick; make it if there is none. None: the alarm is over.

        Args:
            tick: Released, and the last one if its comparison is still to be made.
            users: The released number of users: with the threshold it makes the limit.
        """
        answer = self._store.recorded(watch_request(tick, "alarm"))
        run = self._run()
        if answer is None and run.level < len(self._design.thresholds):
            answer = self._compare(tick, users, run)
        if answer is None:
            return None
        (row,) = answer.rows()
        return AlarmCheck(row["alarm"], row["threshold"], row["limit_error"], answer.facts.release)

    def _compare(self, tick: int, users: float, run: _AlarmRun) -> Answer:
        """Compare, and write the state of the run with the release, or neither."""
        threshold = self._design.thresholds[run.level]
        limit = self._design.limit(tick, threshold, users)
        until, _ = self._state.covered(tick)
        compare = Comparison(limit, run.noise, run.counted)

        def state(gated: Participation) -> list[NoteRows]:
            after = {"noise": compare.noise, "counted": compare.counted, "fired": compare.fired}
            return [ALARM.rows(tick=tick, release_id=gated.release, level=run.level, **after)]

        return self._store.step(
            self._design.alarm_query(tick, threshold, limit),
            lambda plan: self._state.ones(plan, self._state.left_out(run.since, until)),
            self._options,
            watch_request(tick, "alarm"),
            pot=Pot.WATCH,
            gated=state,
            mechanism=compare,
        )

    def _run(self) -> _AlarmRun:
        rows = self._store.stream.ledger.notes(ALARM).sort_by("tick")
        if not rows.num_rows:
            return _AlarmRun(0)
        (last,) = rows.slice(rows.num_rows - 1).to_pylist()
        tick, level, noise, counted, fired = (
            last[name] for name in ("tick", "level", "noise", "counted", "fired")
        )
        if fired:
            return _AlarmRun(level + 1)
        return _AlarmRun(level, noise, counted, self._state.covered(tick)[0])
