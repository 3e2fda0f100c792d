"""A small store and its people, for tests of the server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import sparseq
from sparseq.server.tokens import Principal, Role, Tokens

ROWS = pa.table(
    {
        "who": [i % 50 for i in range(1000)],
        "kind": ["a", "b"] * 500,
        "x": [float(i % 7) for i in range(1000)],
    }
)


def made(path: Path | None = None) -> sparseq.Store:
    keys, bounds = {"kind": ["a", "b"]}, {"x": (0, 7)}
    return sparseq.create(path, {"t": ROWS}, user="who", seed=1, keys=keys, bounds=bounds)


def person(tokens: Tokens, name: str, role: Role = Role.ANALYST) -> Principal:
    who = tokens.signed_in(tokens.create(name, role))
    assert who is not None
    return who
