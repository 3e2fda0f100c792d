"""Test set-up for the whole checkout."""

import importlib.util

import pytest
from hypothesis import settings

settings.register_profile("sparseq", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("sparseq")

# whose doctests can't be collected where an extra is not installed
_NEEDS = {"sparseq/compiled/loops.py": "numba", "sparseq/training/network": "torch"}
collect_ignore = [p for p, extra in _NEEDS.items() if not importlib.util.find_spec(extra)]

FEWEST_TESTS = 600


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail a full run that has lost its tests: a suite that collects nothing passes too easily."""
    config = session.config
    whole = config.args == [str(config.rootpath / p) for p in ("tests", "sparseq")]
    whole = whole or config.args == ["tests", "sparseq"]
    if (
        whole
        and not (config.option.keyword or config.option.ignore)
        and len(session.items) < FEWEST_TESTS
    ):
        raise pytest.UsageError(f"only {len(session.items)} tests were collected")
