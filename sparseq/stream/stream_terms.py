"""Facts of all answers of a stream, and of one: who took part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.engine.reduce import Index
from sparseq.stream.stream_progress import Course


@dataclass(frozen=True)
class Participation:
    """Who was asked and who was active in a release: private."""

    release: int
    users: Index
    active: NDArray[np.bool_]


@dataclass(frozen=True)
class Terms:
    """What is true of every answer of a stream: public.

    Attributes:
        budget: Of the store.
        seed: Of a simulation; None: the noise is the operating system's.
        losses: How often the store was opened although a part of it was missing.
        course: What the stream of a new store begins with; None: people are in or out.
        rows: The most that a person has in a table, if that was declared.
        aside: Shares of every budget that are for something else.
        unit: Whom an account is for, if not for a person.
    """

    budget: Budget
    seed: int | None = None
    losses: int = 0
    course: Course | None = None
    rows: int | None = None
    unit: str = ""
    aside: tuple[float, ...] = ()
