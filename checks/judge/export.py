"""The curator's export of a store, as JSON: python -m checks.judge.export STORE

The promise, every answer as it is recorded, and every account with its charges. It is exact and
private.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import Any

import sparseq
from sparseq.answers.answer import Answer
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.store.release_facts import answer_facts


def exported(path: str) -> dict[str, Any]:
    """Return the curator's facts about a store."""
    with sparseq.connect(path) as store:
        releases, ledger = store.releases(), store.stream.ledger
        charges = defaultdict[int, list[dict[str, int]]](list)
        for one in releases:
            users, units = ledger.charges(one.id)
            for user, paid in zip(users.tolist(), units.tolist(), strict=True):
                charges[user].append({"release": one.id, "units": paid})
        names = ledger.identifiers(range(store.stream.people.inside()))
        accounts = [accounts for _, accounts in store.stream.pots.items()]
        people = [
            {
                "person": str(name),
                "rows": sum(
                    store.backend.count_rows(t, user).inside() for t in store.catalog.private
                ),
                "budget": sum(int(one.budgets[user]) for one in accounts),
                "spent": sum(int(one.spent[user]) for one in accounts),
                "charges": charges[user],
            }
            for user, name in names.items()
            if name is not None
        ]
        told = [_release(one) for one in releases]
        return {"budget": store.budget(), "releases": told, "people": people}


def _release(one: Release) -> dict[str, Any]:
    analysts = one.request is not None and one.asker is Asker.ANALYST
    facts = answer_facts(Answer.from_bytes(one.answer))
    scale = facts.get("scale", [])
    return {
        "release": one.id,
        "request": f"analyst/{one.request_id}" if analysts else one.request_id,
        "query": one.query,
        "sigma": list(one.sigma),
        "scale": scale if isinstance(scale, (list, tuple)) else [scale],
        "rows": facts["rows"],
    }


if __name__ == "__main__":
    json.dump(exported(sys.argv[1]), sys.stdout, default=str)
