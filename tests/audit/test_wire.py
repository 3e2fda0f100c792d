"""The audit of PostgreSQL's protocol finds what is planted and nothing else."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from sampled import one_in

from checks.audit.search import search
from sparseq.pgwire.selects import Selects

LONG, SHORT = 110, 388
"""Of worlds that are sent TABLE t after some other messages, more or fewer."""


@pytest.mark.parametrize(("seed", "first"), one_in(2, [(SHORT, True), (LONG, False)]))
def test_neighbours_get_the_same_bytes_until_something_tells(
    seed: int, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick one ends with what it finds first, the long one with all that a world is sent."""
    told = Selects.table

    async def telling(selects: Selects, text: str) -> Any:
        if text == "TABLE t":
            store = selects._service._thread.store
            selects._state.notice(
                f"{store.backend.count_rows(store.catalog.table('t')).inside()} rows"
            )
        return await told(selects, text)

    monkeypatch.setattr(Selects, "table", telling)
    result = search(seed, math.inf, first=first, kinds=("wire",), worlds=1)
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
