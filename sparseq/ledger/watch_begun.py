"""The settings that a store's watch was begun with: public, and read without the watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparseq.ledger.protocol import Ledger

WATCH = "watch"
"""The fact that a ledger keeps it under."""


def watch_begun(ledger: Ledger) -> dict[str, Any] | None:
    """Return the numbers that the watch was begun with; None: it was not."""
    begun: dict[str, Any] | None = ledger.fact(WATCH)
    return begun
