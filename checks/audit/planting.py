"""A planted leak, and the way to break a product while one is looked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sparseq.engine import contribution_tables, contributions
from sparseq.engine.reduction import reduce

Plant = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Leak:
    """A planted leak.

    Attributes:
        plant: Breaks the product while it is entered.
        questions: Questions that find it, for `SMALL`, or for `POOR` or `FADING` if budgets matter.
        rules: Rules that it breaks.
        poor, fading: True if budgets are nearly spent, or shrink: see `planted_stores`.
        files: True if it is in the reading of files, and found by a life of files.
        weighted: True if it is in weighted stores; else the stores are in-or-out.
        windows: True if it is in accounts by window: found by such neighbours (`windows.KINDS`).
        life: The kind of life that finds it (`search.RUNS`); "": none is needed.
        seed: Seed of the first such life.
    """

    name: str
    plant: Plant
    questions: tuple[str, ...]
    rules: tuple[str, ...]
    poor: bool = False
    fading: bool = False
    files: bool = False
    weighted: bool = False
    windows: str = ""
    life: str = ""
    seed: int = 1


@contextlib.contextmanager
def put(place: Any, name: str, value: Any) -> Iterator[None]:
    """Put something else where a name stands."""
    old = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, old)


@contextlib.contextmanager
def reduced(change: Callable[..., Any]) -> Iterator[None]:
    """Change how rows are added up wherever they are; `change` gets `reduce` and its arguments."""

    def changed(*args: Any, **more: Any) -> Any:
        return change(reduce, *args, *more.values())

    with put(contributions, "reduce", changed), put(contribution_tables, "reduce", changed):
        yield
