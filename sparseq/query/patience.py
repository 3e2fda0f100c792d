"""Interrupting what takes too long, by one thread for all: a thread a look would cost more than it.

Only looks at public tables and constants are interrupted, so that the clock tells of nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_changed = threading.Condition()
_due: dict[object, tuple[float, Callable[[], None]]] = {}
_watcher: threading.Thread | None = None
_wakes = 0.0  # when the watcher looks again


@contextmanager
def interrupted_after(seconds: float, interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `interrupt` if what is done within takes longer; never after it is done."""
    global _watcher
    key, deadline = object(), time.monotonic() + seconds
    with _changed:
        _due[key] = deadline, interrupt
        if _watcher is None or not _watcher.is_alive():  # none yet, or left behind by a fork
            _watcher = threading.Thread(target=_watch, name="patience", daemon=True)
            _watcher.start()
        elif deadline < _wakes:
            _changed.notify()
    try:
        yield
    finally:
        with _changed:
            _due.pop(key, None)


def _watch() -> None:
    global _wakes
    with _changed:
        while True:
            now = time.monotonic()
            for key in [k for k, (deadline, _) in _due.items() if deadline <= now]:
                _due.pop(key)[1]()
            _wakes = min((deadline for deadline, _ in _due.values()), default=now + 3600)
            _changed.wait(_wakes - now)
