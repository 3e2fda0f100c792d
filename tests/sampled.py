"""Long lists of cases: some in every run of the tests, all of them among the deep ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases to parametrize a test with: each `step`-th is always run, the others if deep.

    A case is a value, a tuple of several, or a `pytest.param`.
    """
    return [case if k % step == 0 else _deep(case) for k, case in enumerate(cases)]


def _deep(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.deep])
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.deep)
