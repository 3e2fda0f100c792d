"""The part that a series is paid from: one of every budget, or that of questions."""

from __future__ import annotations

from dataclasses import dataclass

from sparseq.accounting import Budget
from sparseq.ledger.purposes import Pot, Purpose
from sparseq.sql.plan import Options, Plan, Query, calibrate
from sparseq.store.store import Store


@dataclass(frozen=True)
class SeriesPart:
    """Public.

    Attributes:
        budget: Level of all that is paid from the part, and how far a person reaches in it.
        answers, forecasts: What is paid from.
        aside: Share of the part that is for forecasts.
        purpose: That the part is for; None: questions.
    """

    budget: Budget
    answers: Pot
    forecasts: Pot
    aside: float
    purpose: Purpose | None

    @classmethod
    def of(cls, store: Store, series: str) -> SeriesPart:
        """Return what a series of this name is paid from."""
        purpose = purpose_of(store, series)
        if purpose is None:
            aside = store.reserves.get(Pot.FORECAST, 0.0)
            return cls(store.guarantee, Pot.QUERIES, Pot.FORECAST, aside, None)
        answers, forecasts = Pot(purpose.answers), Pot(purpose.forecasts)
        budget = store.stream.part(answers).budget
        return cls(budget, answers, forecasts, purpose.forecast, purpose)

    def plan(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a question that is paid from here; nothing is asked."""
        return calibrate(query, self.budget, options or Options())


def purpose_of(store: Store, series: str) -> Purpose | None:
    """Return the purpose that is a series' own; None: it is paid from what is for questions."""
    return next((p for p in store.stream.pots.purposes if p.name == series), None)
