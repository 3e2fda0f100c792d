"""The settings with which a store's watch was started: public, and readable without the watch."""

from __future__ import annotations

from typing import Any

from sparseq.ledger.protocol import ReleaseArchive

WATCH = "watch"
"""The fact under which the settings are stored."""


def watch_begun(ledger: ReleaseArchive) -> dict[str, Any] | None:
    """Return the numbers with which the watch was started; None: it never was."""
    begun: dict[str, Any] | None = ledger.fact(WATCH)
    return begun
