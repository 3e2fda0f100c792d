"""Public facts of a store, an answer or a release, as plain data."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from sparseq.accounting.budget import Budget
from sparseq.ledger.protocol import Release
from sparseq.pictures.answer_texts import budget_of
from sparseq.pictures.words import DELTA
from sparseq.released.render import HIGH_SUFFIX, LOW_SUFFIX, columns_of
from sparseq.store.answer import Answer


def answer_facts(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data; sigma and bounds are lists if there are several measures."""
    facts = answer.facts
    bounds, corollary = both_bounds(answer)

    def only(numbers: tuple[float, ...]) -> Any:
        return numbers[0] if len(numbers) == 1 else numbers

    return {
        "columns": answer.arrow().column_names,
        "rows": answer.rows(),
        "measures": facts.labels,
        "sigma": only(facts.sigma),
        "bound": only(bounds),
        "corollary_bound": only(corollary),
        "confidence": facts.confidence,
        "coordinates": facts.coordinates,
        "release": facts.release,
        "request_id": facts.request_id,
        "query": facts.query,
        "guarantee": guarantee_facts(budget_of(answer.facts)),
        "seeded": facts.seeded,
        "losses": facts.losses,
        **({"repeated": True} if facts.repeated else {}),
        **({"follows": True} if facts.follows else {}),
        **({"notes": facts.notes} if facts.notes else {}),
        **({"interval": facts.interval, "price": facts.price, "scale": only(facts.scale)}
           if facts.interval else {}),
    }  # fmt: skip


def both_bounds(answer: Answer) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return ± and Corollary 4.7's bound at the answer's confidence, one a measure."""
    beta = 1 - answer.facts.confidence
    tight, corollary = answer.bound(beta), answer.corollary_bound(beta)
    return _many(tight), _many(corollary)


def _many(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


def guarantee_facts(budget: Budget) -> dict[str, Any]:
    """Return the guarantee as plain data."""
    return {
        "kappa": budget.kappa,
        "keys_delta": budget.keys_delta,
        "mu": budget.mu,
        "epsilon": _epsilon(budget),
        "delta": DELTA,
        "norm_budget": budget.norm_budget,
    }


@lru_cache(maxsize=64)
def _epsilon(budget: Budget) -> float:
    return budget.epsilon(DELTA)


def release_facts(release: Release) -> dict[str, Any]:
    """Return a release, without its answer, as plain data."""
    answer = Answer.from_bytes(release.answer)
    bounds, corollary = both_bounds(answer)
    return {
        "release": release.id,
        "released_at": release.released_at.isoformat(timespec="seconds") + "Z",
        "request_id": release.request_id,
        "asked_by": release.asker.value,
        "pot": answer.facts.series or release.pot.name.lower(),
        "query": release.query,
        "coordinates": release.coordinates,
        "sigma": list(release.sigma),
        "bound": list(bounds),
        "half_width": half_widths(answer),
        "corollary_bound": list(corollary),
        "confidence": release.confidence,
    }


def half_widths(answer: Answer) -> list[float]:
    """Return the median half-width of the intervals about everybody, one a column; [] without."""
    table, found = answer.arrow(), []
    for name in columns_of(table):
        if name + LOW_SUFFIX in table.column_names:
            ends = zip(table[name + LOW_SUFFIX], table[name + HIGH_SUFFIX], strict=True)
            known = [(b.as_py() - a.as_py()) / 2 for a, b in ends if a.is_valid and b.is_valid]
            found.append(float(np.median(known)) if known else math.inf)
    return found
