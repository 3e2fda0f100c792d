"""A store's draws from its population: public, see `sparseq.store.population`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sparseq.ledger.notes import Fact
from sparseq.ledger.protocol import ReleaseArchive

DRAWN = "population"
"""The fact under which the draws are stored."""


@dataclass(frozen=True)
class Begun:
    """A draw that the store has begun, and that the population may have granted.

    Attributes:
        nonce: The identifier of the draw.
        share: The share of all that the store may ever draw; for new users, of all that others have
            drawn.
        newcomers: True if the draw is for new users.
    """

    nonce: str
    share: str
    newcomers: bool = False


@dataclass(frozen=True)
class Drawn:
    """The draws of a store: public.

    Attributes:
        place: The address of the population.
        share: The share of all that the store may ever draw, as a fraction.
        draws: The number of draws; None: a part of the store was lost, and the number with it.
        units: The maximum that one user has been given, in units of the store.
        losses: The number of losses of the store that are written off.
        begun: A draw that is not finished.
    """

    place: str
    share: str = "0"
    draws: int | None = 0
    units: int = 0
    losses: int = 0
    begun: Begun | None = None

    @classmethod
    def by(cls, ledger: ReleaseArchive, link: Mapping[str, Any]) -> Drawn:
        """Return the draws of a store; before the first, the planned share.

        Args:
            ledger: The ledger of the store.
            link: The store's population, from its settings.
        """
        kept = ledger.fact(DRAWN)
        if kept is None:
            return cls(link["place"], begun=Begun(secrets.token_hex(16), link["draw"]))
        return cls(**kept | {"begun": kept["begun"] and Begun(**kept["begun"])})

    def fact(self) -> Fact:
        """Return the fact that records the draws."""
        return Fact(DRAWN, asdict(self))


def drawn_facts(ledger: ReleaseArchive, link: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a store's draws as plain data: public; None: its budget is its own."""
    if link is None:
        return None
    drawn = Drawn.by(ledger, link)
    return {
        "id": link["id"],
        "kappa": link["kappa"],
        "place": Path(drawn.place).name,  # the full path is only for the operator
        "drawn": float(Fraction(drawn.share)),
        "draws": drawn.draws,
        "begun": drawn.begun is not None,
    }
