"""The part of every budget that pays for a series: its own purpose, or the part of questions."""

from __future__ import annotations

from dataclasses import dataclass

from sparseq.accounting import Budget
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.question.plan import Options, Plan, Query, calibrate
from sparseq.store.store import Store


@dataclass(frozen=True)
class SeriesPart:
    """The part of the budget that pays for one series: public facts.

    Attributes:
        budget: Privacy level of the part, and a user's budget in it.
        answers, forecasts: The pots that pay for answers and forecasts.
        aside: Share of the part that is reserved for forecasts.
        purpose: Purpose of the part; None: the part of questions.
    """

    budget: Budget
    answers: Pot
    forecasts: Pot
    aside: float
    purpose: Purpose | None

    @classmethod
    def of(cls, store: Store, series: str) -> SeriesPart:
        """Return the part that pays for a series of this name."""
        purpose = purpose_of(store, series)
        if purpose is None:
            aside = store.reserves.get(Pot.FORECAST, 0.0)
            return cls(store.guarantee, Pot.QUERIES, Pot.FORECAST, aside, None)
        answers, forecasts = Pot(purpose.answers), Pot(purpose.forecasts)
        budget = store.stream.part(answers).budget
        return cls(budget, answers, forecasts, purpose.forecast, purpose)

    def plan(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a question that this part pays for, without asking it."""
        return calibrate(query, self.budget, options or Options())


def purpose_of(store: Store, series: str) -> Purpose | None:
    """Return a series' own purpose; None: the part of questions pays for it."""
    return next((p for p in store.stream.pots.purposes if p.name == series), None)
