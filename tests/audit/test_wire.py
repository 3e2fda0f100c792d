"""The audit of PostgreSQL's protocol finds what is planted and nothing else."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from benchmarks.audit.search import search
from sparseq.server.wire.selects import Selects

SEED = 110
"""Of a world that is sent TABLE t after some other messages."""


def test_neighbours_get_the_same_bytes_until_something_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Selects.table

    async def telling(selects: Selects, text: str) -> Any:
        if text == "TABLE t":
            store = selects._service._thread.store
            selects._state.notice(f"{store.backend.count_rows(store.catalog.table('t'))} rows")
        return await told(selects, text)

    monkeypatch.setattr(Selects, "table", telling)
    result = search(SEED, math.inf, kinds=("wire",), worlds=1)
    (finding,) = result.findings
    assert finding.case.endswith("TABLE t"), finding
    assert (finding.rule, " rows" in finding.detail) == ("wording", True)
    assert result.questions > 5
    assert result.answered > 1


@pytest.mark.deep
def test_neighbours_get_the_same_bytes() -> None:
    """Many worlds for ten minutes, of poor people too, in place of one."""
    result = search(7, 600.0, worlds=sys.maxsize, kinds=("wire",))
    assert [(f.rule, f.detail, f.case) for f in result.findings] == []
    assert result.answered > result.questions / 5
