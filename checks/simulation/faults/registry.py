"""Faults that are planted in sparseq, one at a time: the simulator must find each.

Each removes one thing that the promises rest on, as a mistake in a later change would. Its name
says what is missing; its settings are those in which it can do harm.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Place = tuple[Any, str, Any]


@dataclass(frozen=True)
class Fault:
    """A fault to be planted.

    Attributes:
        settings: Settings in which it can do harm.
        places: Returns the replacements, once for each planting.
    """

    settings: tuple[str, ...]
    places: Callable[[], list[Place]]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the fault in sparseq."""
        with ExitStack() as stack:
            for of, name, value in self.places():
                stack.enter_context(patch.object(of, name, value))
            yield


LAKE, FILE, MARKED = ("lake",), ("file", "marked"), ("marked",)
MONITORS, SERVERS = ("monitors", "monitor"), ("servers", "server")
PLANTED: dict[str, Fault] = {}


def plant(*settings: str) -> Callable[[Callable[[], list[Place]]], Callable[[], list[Place]]]:
    """Have a function's fault in `PLANTED`, under the function's name."""

    def kept(places: Callable[[], list[Place]]) -> Callable[[], list[Place]]:
        PLANTED[places.__name__.replace("_", "-")] = Fault(settings, places)
        return places

    return kept


def do_nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


_here = threading.local()


def unflushed(of: Any, name: str) -> list[Place]:
    """Have a function flush nothing, in whichever thread it runs; others go on meanwhile."""
    real, fsync = getattr(of, name), os.fsync

    def call(*given: Any) -> Any:
        _here.off = True
        try:
            return real(*given)
        finally:
            _here.off = False

    def flush(file: Any) -> None:
        if not getattr(_here, "off", False):
            fsync(file)

    return [(of, name, call), (os, "fsync", flush)]
