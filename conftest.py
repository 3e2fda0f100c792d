"""Test set-up for the whole checkout."""

import gc
import importlib.util
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

settings.register_profile("sparseq", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("sparseq")

# Tests run in a process a core, whose threads for linear algebra would mostly wait for each other,
# each on a core that it keeps busy. NumPy and torch read this when they are imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# whose doctests can't be collected where an extra is not installed
_NEEDS = {
    "sparseq/compiled/loops.py": "numba",
    "sparseq/networks/network": "torch",
    "sparseq/server/http": "starlette",
    "sparseq/server/serve.py": "uvicorn",
}
collect_ignore = [p for p, extra in _NEEDS.items() if not importlib.util.find_spec(extra)]

FEWEST_TESTS = 600
# what takes longest begins first, so that no process is left alone with it at the end
_LONGEST = [
    "tests/audit/test_audit.py",
    "tests/repository/test_docs.py",
    "tests/stream/test_reference.py",
    "tests/store/test_crash.py",
    "tests/series/test_watch.py",
    "tests/series/test_forecast.py",
    "tests/stream/test_interrupted.py",
]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: there is none, and it takes a fifth longer."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest (`make test` hands them out in this order)."""
    place = {name: k for k, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], len(place)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail a full run that has lost its tests: a suite that collects nothing passes too easily."""
    gc.collect()
    gc.freeze()  # thousands of tests, which every collection of garbage would look at
    config = session.config
    whole = config.args == [str(config.rootpath / p) for p in ("tests", "sparseq")]
    whole = whole or config.args == ["tests", "sparseq"]
    if (
        whole
        and not (config.option.keyword or config.option.ignore)
        and len(session.items) < FEWEST_TESTS
    ):
        raise pytest.UsageError(f"only {len(session.items)} tests were collected")
