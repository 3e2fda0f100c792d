"""Public facts of a store, an answer or a release, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.accounting.budget import Budget
from sparseq.accounting.pilots.sample_quantiles import median
from sparseq.answers.answer import Answer
from sparseq.answers.answer_texts import budget_of
from sparseq.base.defaults import DELTA
from sparseq.ledger.releases import Release
from sparseq.released.result_columns import ColumnRole, column_parts, other_names

if TYPE_CHECKING:
    pass


def answer_facts(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data; sigma and bounds are lists for several measures."""
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
        **({"names": names} if (names := other_names(answer.arrow())) else {}),
        **(
            {"interval": facts.interval, "price": facts.price, "scale": only(facts.scale)}
            if facts.interval
            else {}
        ),
    }


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
    """Return a release, without its answer, as plain data: see `RELEASE_FACTS`."""
    answer = Answer.from_bytes(release.answer)
    return {name: fact(release, answer) for name, fact in RELEASE_FACTS.items()}


def half_widths(answer: Answer) -> list[float]:
    """Return the median half-width of the intervals about everybody, by column; [] without any."""
    table, found = answer.arrow(), []
    for parts in column_parts(table).values():
        if ColumnRole.LOW in parts:
            ends = zip(table[parts[ColumnRole.LOW]], table[parts[ColumnRole.HIGH]], strict=True)
            known = [(b.as_py() - a.as_py()) / 2 for a, b in ends if a.is_valid and b.is_valid]
            found.append(median(np.array(known)) if known else math.inf)
    return found


RELEASE_FACTS: Mapping[str, Callable[[Release, Answer], Any]] = {
    "release": lambda release, _: release.id,
    "released_at": lambda release, _: release.released_at.isoformat(timespec="seconds") + "Z",
    "request_id": lambda release, _: release.request_id,
    "asked_by": lambda release, _: release.asker.value,
    "pot": lambda release, answer: answer.facts.series or release.pot.name.lower(),
    "query": lambda release, _: release.query,
    "coordinates": lambda release, _: release.coordinates,
    "sigma": lambda release, _: list(release.sigma),
    "bound": lambda _, answer: list(both_bounds(answer)[0]),
    "half_width": lambda _, answer: half_widths(answer),
    "corollary_bound": lambda _, answer: list(both_bounds(answer)[1]),
    "confidence": lambda release, _: release.confidence,
    "root": lambda release, _: release.root or None,
}
"""The columns of `sparseq history`: facts of a release and its answer, by name, in order."""
