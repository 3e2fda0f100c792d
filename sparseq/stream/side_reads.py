"""Contributions read beside the stream, so that nobody waits while they are read.

Reading changes nothing: it makes vectors of rows, whatever has been asked and charged meanwhile.
So a long read may be made by another thread, while others are answered; the step then goes on in
the stream with what was read: weights, sums, noise and charges are made there, in turn, from
the accounts as they are then.

**Claim.** The answer and the charges are those of asking at the moment in which the step is made.
What people contribute to a plan is a function of the plan and of their rows. What was read is used
for an equal plan only, and only while the engine's `version` is the one at which reading began: it
grows whenever rows have come, changed or gone, and that happens in the stream alone. What was read
in another version is thrown away, and read again. And before what was read is there, the step has
ended at its first need of it, by `Unread`, where nothing that lasts has changed and **no noise was
drawn**. A step that has drawn noise is never begun anew: which plan comes next may follow from that
noise (a parent pilot says how fine the lattice is), so to draw again until the plan is one that was
read would be to choose among several noised values, of which one is charged. There the stream
reads.

Which plans are read so is decided by the plan (`Engine.reads_long`), never by rows or a clock. When
a question comes back, and so in which order several askers are answered, depends on time, as it
does for questions that they ask one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sparseq.base.errors import QueryCancelError
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import Engine, SideReader
from sparseq.sql.plan import Plan

MOST_READS = 6
"""Reads of one question beside the stream: rows may come all the time; then the stream reads."""


class Unread(Exception):
    """A step needs what a plan's rows contribute, and it has not been read yet."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("not read yet")
        self.plan = plan


@dataclass
class Readings:
    """Contributions read for one question beside the stream: private.

    Attributes:
        reads: How often something was.
        noised: The step that is under way has drawn noise.
    """

    reads: int = 0
    noised: bool = False
    _version: int = -1
    _made: list[tuple[Plan, Contributions]] = field(default_factory=list)
    _beside: SideReader | None = None

    def contributions(self, engine: Engine, plan: Plan, users: int) -> Contributions:
        """Return what everybody contributes, for the stream.

        Raises:
            Unread: It is to be read first.
        """
        made = self.need(engine, plan)
        return engine.contributions(plan, users) if made is None else made

    def need(self, engine: Engine, plan: Plan) -> Contributions | None:
        """Return what was read of a plan; None: the stream is to read it.

        Raises:
            Unread: It is to be read beside the stream first.
        """
        for known, made in self._made if self._version == engine.version else ():
            if known == plan:
                return made
        if self.noised or self.reads >= MOST_READS or not engine.reads_long(plan):
            return None
        raise Unread(plan)

    def reading(self, engine: Engine, plan: Plan, users: int) -> Callable[[], None]:
        """Return what reads a plan, to be called in another thread. Called in the stream.

        Where it fails, the stream reads. It raises `QueryCancelError` if it was cancelled.
        """
        if self._beside is None or self._version != engine.version:
            self.close()
            self._beside, self._version = engine.beside(), engine.version
        self.reads += 1
        beside = self._beside

        def read() -> None:
            try:
                self._made.append((plan, beside.contributions(plan, users)))
            except QueryCancelError:
                raise
            except Exception:  # rows came meanwhile, or what the backstop is for
                self.reads = MOST_READS

        return read

    def close(self) -> None:
        """Let go of what was read, and of what reads."""
        self._made = []
        if self._beside is not None:
            self._beside.close()
        self._beside = None
