"""An entry of a ledger for one answer: the release, who paid for it, and what features note."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sparseq.ledger.pots import Pot
from sparseq.ledger.request_id import Asker, RequestId

if TYPE_CHECKING:
    from sparseq.engine.protocol import EngineFailure
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.lifetimes import LifetimeDues
    from sparseq.ledger.notes import Note


@dataclass(frozen=True)
class Release:
    """One answered query: all of it public.

    `request` is its name, if it has one; `answer` is the answer as an Arrow IPC stream; sigma and
    bound have one entry a measure; `pot` is what it was paid from.
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

    @property
    def request_id(self) -> str | None:
        """Its name as a text; `asker` says whose it is."""
        return None if self.request is None else str(self.request)

    @property
    def asker(self) -> Asker:
        """Who asked: an analyst, or a part of sparseq, whose names no analyst can take."""
        return Asker.ANALYST if self.request is None else self.request.asker


@dataclass(frozen=True)
class Entry:
    """A release, and what is written with it or not at all.

    Attributes:
        release: The public part.
        users, charges: Who pays how much, ascending users.
        departed: Who was left out of a query for the first time.
        notes: Of features, to be written in the same transaction.
        failed: What went wrong in the engine: for the curator's log.
        lifetimes: What it costs people over all windows; None: the store has no such cap.
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
    """One time that a store was opened although a part of it was missing: public.

    Attributes:
        at: When, in UTC.
        after: The last release that was there.
        missing: What was said to be missing.
    """

    at: str
    after: int
    missing: str
