"""Contributions read outside the stream, so that other questions do not wait for a long read.

A read changes nothing: it computes vectors from rows, independent of concurrent questions and
charges. So another thread may make a long read while the stream answers other questions. The step
then continues in the stream with these readings: it computes weights, sums, noise and charges in
its turn, from the accounts at that time.

**Claim.** The answer and the charges equal those of a question asked when the step is made. The
users' contributions to a plan are a function of the plan and of their rows. A reading is used only
for an equal plan, and only while the engine's `version` has not changed since the read began; the
version grows whenever rows have come, changed or gone, which happens only in the stream. A reading
of another version is discarded and made again. A step that needs a missing reading ends with
`Unread` at its first need, where nothing durable has changed and **no noise was drawn**. A step
that has drawn noise is never restarted: its next plan may depend on that noise (a parent pilot
determines how fine the lattice is), so repeated draws until a read plan appears would select among
several noised values but charge only one. In that case the stream reads.

The plan alone (`Engine.reads_long`), never rows or a clock, decides whether another thread reads
it. The time at which a question returns, and so the order in which several analysts are
answered, depends on timing, as it does for questions that they ask one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sparseq.base.cancellation import Cancellation, current
from sparseq.base.errors import QueryCancelError, TimedOut
from sparseq.base.private import Private
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import Engine, SideReader
from sparseq.question.plan import Plan

MOST_VERSIONS = 6
"""Number of times that a question's read restarts, because rows may keep arriving; after that the
stream reads."""


_LEAST = 1e-3  # seconds


class Unread(Exception):
    """A step needs the contributions to a plan, and they have not been read yet."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("not read yet")
        self.plan = plan


@dataclass
class Readings:
    """Contributions read for one question outside the stream: private.

    Attributes:
        seconds: The time left for reading; None: no limit.
        versions: Number of versions of the rows among the reads.
        noised: The current step has drawn noise.
    """

    seconds: float | None = None
    versions: int = 0
    noised: bool = False
    _version: int = -1
    _made: list[tuple[Plan, Contributions]] = field(default_factory=list)
    _beside: SideReader | None = None

    def contributions(self, engine: Engine, plan: Plan, users: int) -> Contributions:
        """Return all users' contributions to a plan; called in the stream.

        Raises:
            Unread: The plan must first be read outside the stream.
        """
        made = self.need(engine, plan)
        if made is not None:
            return made
        with self._timed():
            return engine.contributions(plan, users)

    def need(self, engine: Engine, plan: Plan) -> Contributions | None:
        """Return the reading of a plan; None: the stream must read it.

        Raises:
            Unread: The plan must first be read outside the stream.
        """
        for known, made in self._made if self._version == engine.version else ():
            if known == plan:
                return made
        if self.noised or self.versions > MOST_VERSIONS or not engine.reads_long(plan.query):
            return None
        raise Unread(plan)

    def reading(self, engine: Engine, plan: Plan, users: Private[int]) -> Callable[[], None]:
        """Return a function that reads a plan in another thread; called in the stream.

        If the function fails, the stream reads. It raises `QueryCancelError` if it was cancelled.
        """
        if self._beside is None or self._version != engine.version:
            self.close()
            self._beside, self._version = engine.beside(), engine.version
            self.versions += 1
        beside, people = self._beside, users.inside()

        def read() -> None:
            try:
                with self._timed():
                    self._made.append((plan, beside.contributions(plan, people)))
            except QueryCancelError:
                raise
            except Exception:  # rows came meanwhile, or the backstop is needed
                self.versions = MOST_VERSIONS + 1

        return read

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Subtract a read's time from the time left; cancel the question when none is left."""
        work, begun = current(), time.monotonic()
        with Cancellation(self.seconds) as reading:
            try:
                yield
            finally:
                if self.seconds is not None:
                    self.seconds = max(self.seconds - (time.monotonic() - begun), _LEAST)
                if work is not None and isinstance(reading.error, TimedOut):
                    work.cancel(reading.error)

    def close(self) -> None:
        """Release the readings and the reader."""
        self._made = []
        if self._beside is not None:
            self._beside.close()
        self._beside = None
