"""Nothing over HTTP depends on a row, but noised values: neighbours are told the same words."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pyarrow as pa
import pytest
from server.made import ROWS

import sparseq
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

httpx = pytest.importorskip("httpx")
app = pytest.importorskip("sparseq.server.http.app")

HERE = {"Origin": "http://here"}
ODD = pa.table(
    {
        "who": [999] * 5,
        "kind": ["a", "zz", None, "b", "a"],
        "x": [float("nan"), 1e308, -1e308, None, float("inf")],
    }
)
QUESTIONS = (
    "SELECT count(*) AS n FROM t",
    "SELECT kind, sum(x) AS s FROM t GROUP BY kind",
    "SELECT kind, count(*) AS n FROM t GROUP BY kind HAVING n > 1000000",
    "SELECT count(*) AS n FROM t WHERE x > 1e300",
    "SELECT sum(1 / (x - 3)) AS s FROM t",
    "SELECT sum(CAST(kind AS INTEGER)) AS s FROM t",
    "SELECT count(*) AS n FROM t WHERE kind = 'zz'",
    "SELECT * FROM t",
    "SELECT max(x) FROM t",
    "SELECT DISTINCT kind FROM t",
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.who = b.who",
    "SELECT nothing FROM t",
)


async def seen(rows: pa.Table) -> list[Any]:
    """All that an analyst is told about a store, but the noised values."""
    keys, bounds = {"kind": ["a", "b"]}, {"x": (0, 7)}
    con = sparseq.create(None, {"t": rows}, user="who", seed=1, keys=keys, bounds=bounds)
    service = Service(con, Tokens(None))
    told: list[Any] = []
    secret = service.tokens.create("ada", Role.ANALYST)
    transport = httpx.ASGITransport(app.application(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        client.headers["Authorization"] = f"Bearer {secret}"
        await client.post("/sign-in", data={"token": secret}, headers=HERE)
        for sql in QUESTIONS:
            for path in ("/v1/explain", "/v1/query"):
                found = await client.post(path, json={"sql": sql})
                told.append((sql, path, found.status_code, sorted(found.headers)))
                told.append(without_values(found.json()))
            looked = await client.get("/", params={"sql": sql, "part": "1"})
            told.append((looked.status_code, looked.text))
        for path in ("/v1/catalog", "/v1/budget", "/v1/series", "/metrics", "/healthz", "/budget"):
            told.append((path, (await client.get(path)).text))
        for path in ("/v1/releases", "/answers"):
            text = (await client.get(path)).text
            told.append(re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d", "", text))
    await service.close()
    return told


def without_values(found: dict[str, Any]) -> dict[str, Any]:
    """An answer's JSON: names of fields, number of rows, and public facts."""
    if "rows" in found:
        found["rows"] = [sorted(row) for row in found["rows"]]
        for chosen_by_pilots in ("sigma", "bound", "corollary_bound", "scale"):
            found.pop(chosen_by_pilots, None)
    return found


def test_neighbours_are_told_the_same() -> None:
    with_odd = pa.concat_tables([ROWS, ODD])
    here, there = asyncio.run(seen(ROWS)), asyncio.run(seen(with_odd))
    # what is expected follows from the noised answers of pilots
    outlook = re.compile(
        r"'(value|half_width|scale|doubt)': [^,}]*|expect[^\n]*\n *if all[^\n]*|"
        r"expect[^\n]*|(?<=the answer: n ± )[\d,]+|(?<=at most )[\d,]+(?= rows)|"
        r"\d{4}-\d\d-\d\d \d\d:\d\d \(UTC\)|"  # the minute in which it was asked
        r"\"root\": \"[0-9a-f]{64}\""  # of a secret key that each store has of its own
    )
    assert len(here) == len(there) == 5 * len(QUESTIONS) + 8
    for one, other in zip(here, there, strict=True):
        assert outlook.sub("", str(one)) == outlook.sub("", str(other))
