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
    """Return what the curator knows of a store."""
    with sparseq.connect(path) as store:
        names = store.stream.ledger.identifiers(range(store.stream.people))
        people = [str(name) for name in names.values() if name is not None]
        accounts = [account for one in receipts(store, people) for account in one["accounts"]]
        return {
            "budget": store.budget(),
            "releases": [_release(one) for one in store.releases()],
            "people": [
                {
                    "person": account["account"],
                    "rows": sum(account["rows"].values()),
                    "parts": account["parts"],
                    "charges": account["charges"],
                }
                for account in accounts
            ],
        }


def _release(one: Release) -> dict[str, Any]:
    return {
        "release": one.id,
        "request": f"analyst/{one.request_id}" if one.asker is Asker.ANALYST and one.request else one.request_id,
        "query": one.query,
        "sigma": list(one.sigma),
        "rows": answer_facts(Answer.from_bytes(one.answer))["rows"],
    }


if __name__ == "__main__":
    json.dump(exported(sys.argv[1]), sys.stdout, default=str)
