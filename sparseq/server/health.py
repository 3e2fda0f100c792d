"""The health of a server: whether it can make answers durable. For monitoring, without a token.

It depends on the engine and its disk, never on rows or questions: a failure that is specific to a
question changes nothing here. It follows from the last event, so nobody waits for the stream: the
stream thread records the store's last state, and any thread reads it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sparseq.base.errors import StoreError

LEAST_FREE = 16 << 20
"""The free bytes that the store's disk needs to count as well."""
SECONDS = 60.0
"""The time for which a failure counts; then the state is unknown until the next question."""
_BROKEN = (StoreError, OSError)


class Health:
    """The store's last state of its engine and its disk.

    Args:
        folder: The folder of the store; None: in memory.
        seconds: A monotonic clock.

    Example:
        >>> health = Health(None, lambda: 0.0)
        >>> health.failed(StoreError("the disk is full")), health.well
        (None, False)
        >>> health.done(), health.well
        (None, True)
    """

    def __init__(self, folder: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._seconds = folder, seconds
        self._failure: float | None = None

    def done(self) -> None:
        """Record that an answer was made durable."""
        self._failure = None

    def failed(self, error: BaseException) -> None:
        """Record an error, if it is one of the engine or its disk."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _BROKEN):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            self._failure = self._seconds()

    @property
    def well(self) -> bool:
        """True if nothing failed lately."""
        return self._failure is None or self._seconds() - self._failure >= SECONDS

    def roomy(self) -> bool:
        """Tell whether the disk has room; it reads the disk, so an event loop must not call it."""
        try:
            return self._folder is None or shutil.disk_usage(self._folder).free >= LEAST_FREE
        except OSError:
            return False
