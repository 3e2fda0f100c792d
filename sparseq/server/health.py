"""The health of a server: can it make answers durable? For who watches it, without a token.

It is about the engine and its disk, never about rows or questions: a question that fails for a
reason of its own changes nothing here. It is told from what happened last, so that nobody waits for
the stream: the stream thread notes what the store said, and anybody reads it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sparseq.base.errors import StoreError

LEAST_FREE = 16 << 20
"""Bytes that are free where the store is, or it is not well."""
SECONDS = 60.0
"""After a failure, so long; then nothing is known until somebody asks."""
_BROKEN = (StoreError, OSError)


class Health:
    """The store's last word on its engine and its disk.

    Args:
        folder: Where the store is; None: in memory.
        seconds: A clock that nobody sets.

    Example:
        >>> health = Health(None, lambda: 0.0)
        >>> health.failed(StoreError("the disk is full")), health.well
        (None, False)
        >>> health.done(), health.well
        (None, True)
    """

    def __init__(self, folder: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._seconds = folder, seconds
        self._failed: float | None = None

    def done(self) -> None:
        """Note that an answer was made durable."""
        self._failed = None

    def failed(self, error: BaseException) -> None:
        """Note an error, if it is one of the engine or its disk."""
        found: BaseException | None = error
        while found is not None and not isinstance(found, _BROKEN):
            found = found.__cause__ or found.__context__
        if found is not None:
            self._failed = self._seconds()

    @property
    def well(self) -> bool:
        """Nothing failed lately."""
        return self._failed is None or self._seconds() - self._failed >= SECONDS

    def roomy(self) -> bool:
        """Tell whether the disk has room; it looks, so it is not called in an event loop."""
        try:
            return self._folder is None or shutil.disk_usage(self._folder).free >= LEAST_FREE
        except OSError:
            return False
