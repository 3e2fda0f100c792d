"""The curator's export of a store, as JSON: python -m benchmarks.judge.export STORE

The promise, every answer as it is recorded, and the receipt of every account, without what neither
an auditor nor the judge needs. It is exact and private.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import sparseq
from sparseq.ledger.notes import Asker
from sparseq.ledger.protocol import Release
from sparseq.store.answer import Answer
from sparseq.store.receipt import receipts
from sparseq.store.store_promise import answer_facts


def exported(path: str) -> dict[str, Any]:
    """Return what the curator knows of a store; `broken` is why there are no receipts."""
    with sparseq.connect(path) as store:
        found: dict[str, Any] = {
            "budget": store.budget(),
            "releases": [_release(one) for one in store.releases()],
            "people": [],
        }
        names = store.stream.ledger.identifiers(range(store.stream.people))
        people = [str(name) for name in names.values() if name is not None]
        try:
            for one in receipts(store, people):
                found["people"] += map(_account, one["accounts"])
        except sparseq.StoreError as error:
            found["broken"] = str(error)
        return found


def _account(account: dict[str, Any]) -> dict[str, Any]:
    return {
        "person": account["account"],
        "rows": sum(account["rows"].values()),
        "parts": [{name: part[name] for name in ("budget", "spent")} for part in account["parts"]],
        "charges": [
            {name: charge[name] for name in ("release", "units")} for charge in account["charges"]
        ],
    }


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
