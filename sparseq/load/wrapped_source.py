"""A source that reads the rows of another one, and counts what that one counts."""

from __future__ import annotations

from sparseq.load.source import Source


class WrappedSource:
    """Base of sources with other columns than the source inside.

    Args:
        inner: The source that is read.
    """

    def __init__(self, inner: Source) -> None:
        self._inner = inner

    @property
    def left_out(self) -> int:
        """See `Source`."""
        return self._inner.left_out

    @property
    def unreadable(self) -> int:
        """See `Source`."""
        return self._inner.unreadable

    @property
    def short(self) -> int:
        """See `Source`."""
        return self._inner.short

    @property
    def torn(self) -> int:
        """See `Source`."""
        return self._inner.torn
