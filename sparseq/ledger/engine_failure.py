"""A failure of an engine on one user's rows, kept for the curator: private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EngineFailure:
    """A failure of an engine: private.

    Attributes:
        user: The user on whose rows alone it failed; this user contributes nothing.
        error: The text of the error.
    """

    user: int
    error: str

    def told(self, release: int, names: Mapping[int, Any]) -> str:
        """Return the message for the curator.

        Args:
            release: The release whose evaluation failed.
            names: The identifiers of users.
        """
        who = names.get(self.user)
        done = "they contribute nothing"
        return f"release {release}: the engine failed on the rows of {who!s}, {done}: {self.error}"
