"""The alarm of the watch: a sparse vector, one comparison a tick, with secret threshold noise.

`sparseq.series.watch` has its price and why it may be charged user by user;
`sparseq.series.watch_design` has its noise and the bound on false alarms.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparseq.answers.answer import Answer
from sparseq.ledger.notes import NoteRows, NoteTable
from sparseq.ledger.pots import Pot
from sparseq.question.plan import Options
from sparseq.series.watch_design import WatchDesign
from sparseq.series.watch_state import WatchState, watch_request
from sparseq.stream.comparison import Comparison
from sparseq.stream.participation import Participation

ALARM = NoteTable(
    "alarm",
    {
        "tick": "BIGINT",
        "release_id": "BIGINT",
        "level": "BIGINT",
        "noise": "BIGINT",
        "counted": "BIGINT",
        "fired": "BOOLEAN",
    },
)
"""The private note of each comparison."""


@dataclass(frozen=True)
class AlarmCheck:
    """The public result of one comparison: whether it fired, the share, and its error in users."""

    fired: bool
    threshold: float
    error: float
    release: int


@dataclass(frozen=True)
class _AlarmRun:
    """The run that the next comparison belongs to: private.

    Attributes:
        level: Index of the threshold.
        noise: z, or None before it is drawn.
        counted: Number of users in the count, in lattice steps.
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
        """Return the comparison of a tick, and make it first if necessary. None: the alarm is over.

        Args:
            tick: A released tick; the last one if its comparison is still to be made.
            users: The released number of users, from which the limit follows.
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
        """Compare, and write the state of the run in the transaction of the release."""
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
