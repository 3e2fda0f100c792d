"""Faults of the stream, in all kinds of stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.simulation.faults.registry import Place, plant
from sparseq.mechanisms import entropy
from sparseq.stream.release_charges import Bill
from sparseq.stream.step import Stream


@plant("lake", "file", "marked")
def everybody_can_pay() -> list[Place]:
    """Nobody is left out, whatever they have spent."""

    def admit(self: Bill, users: Any, charges: Any, apart: bool = False) -> Any:
        self.users, self._owed, self._final = users, charges, True
        return np.ones(len(users), np.bool_)

    return [(Bill, "admit", admit)]


@plant("lake", "file", "marked")
def request_forgotten() -> list[Place]:
    """A request that was answered is answered again."""
    return [(Stream, "recorded", lambda *_: None)]


@plant("lake", "file", "marked")
def noise_from_a_constant() -> list[Place]:
    """Each answer has the same noise."""
    return [(Stream, "_entropy", lambda *_: entropy.SeededEntropy(1))]
