"""A release, and the entry of the ledger that makes it durable."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.pots import Pot
from sparseq.ledger.request_id import Asker, RequestId

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.engine_failure import EngineFailure
    from sparseq.ledger.lifetimes import LifetimeDues
    from sparseq.ledger.notes import Note
    from sparseq.ledger.pots import Pot
    from sparseq.ledger.request_id import RequestId


@dataclass(frozen=True)
class Release:
    """One answered query: public.

    `request` is its name, if it has one; `answer` is the answer as an Arrow IPC stream; sigma and
    bound have one entry per measure; `pot` is the pot that was charged. `sealed` is a hash of the
    charges, with a secret salt, and `root` a hash of `sealed`, of the rest and of all releases
    before, in hexadecimal digits; both are empty until the release is durable, and in a ledger
    without roots.
    """

    id: int
    request: RequestId | None
    released_at: dt.datetime
    query: str
    coordinates: int
    sigma: tuple[float, ...]
    bound: tuple[float, ...]
    confidence: float
    answer: bytes = field(repr=False)
    pot: Pot = Pot.QUERIES
    sealed: str = field(default="", compare=False, repr=False)
    root: str = field(default="", compare=False, repr=False)

    @property
    def request_id(self) -> str | None:
        """The name as a text; `asker` gives its namespace."""
        return None if self.request is None else str(self.request)

    @property
    def asker(self) -> Asker:
        """The kind of asker: an analyst, or a part of sparseq with a namespace that no analyst can
        use.
        """
        return Asker.ANALYST if self.request is None else self.request.asker


@dataclass(frozen=True)
class Entry:
    """A release with everything that is written in its transaction.

    Attributes:
        release: The public part.
        users, charges: The charged users, ascending, and their charges.
        departed: Users who were left out of a query for the first time.
        notes: Notes of features, written in the same transaction.
        failed: Messages of engine failures, for the curator's log.
        lifetimes: The charges to persons over all windows; None: the store has no lifetime cap.
    """

    release: Release
    users: Index
    charges: Ints
    departed: Index = field(default_factory=lambda: np.zeros(0, np.int32))
    notes: tuple[Note, ...] = ()
    failed: Sequence[EngineFailure] = ()
    lifetimes: LifetimeDues | None = None


@dataclass(frozen=True)
class Loss:
    """One opening of a store that lacked a part: public.

    Attributes:
        at: The time, in UTC.
        after: The last release in the store.
        missing: The missing part, as it was reported.
    """

    at: str
    after: int
    missing: str
