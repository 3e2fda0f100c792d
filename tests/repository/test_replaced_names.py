"""Plants and tests replace names that exist, in modules that look them up.

A module that moved leaves a replacement behind that nothing calls: a planted fault that no longer
bites, or a test that passes for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FILES = [p for d in ("tests", "checks", "benchmarks") for p in sorted((ROOT / d).rglob("*.py"))]
IMPORT = re.compile(r"from (sparseq[\w.]*) import (\([^)]*\)|[^\n(]*)")
DOTTED = re.compile(r"(?:setattr|put|object)\(\s*(sparseq(?:\.\w+)+),\s*\"(\w+)\"")
SHORT = re.compile(r"(?:setattr|put|object|return \[)\(\s*(\w+),\s*\"(\w+)\"")
HERE = Path(__file__).name
OPTIONAL = ("torch", "pyspark", "deltalake", "starlette", "uvicorn")


def replaced(text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules in which a file replaces names, with the names."""
    aliases = {}
    for package, names in IMPORT.findall(text):
        for name in names.strip("()").split(","):
            module, _, alias = name.strip().partition(" as ")
            if module and _is_module(f"{package}.{module}"):
                aliases[alias or module] = f"{package}.{module}"
    aliases |= {alias: name for name, alias in re.findall(r"import (sparseq[\w.]*) as (\w+)", text)}
    yield from DOTTED.findall(text)
    yield from ((aliases[of], name) for of, name in SHORT.findall(text) if of in aliases)


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def owner(dotted: str) -> object:
    """Return a module, or what lies in one, by its full name."""
    parts = dotted.split(".")
    size = max(k for k in range(1, len(parts) + 1) if _is_module(".".join(parts[:k])))
    found: object = import_module(".".join(parts[:size]))
    for part in parts[size:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_replaced_is_there_and_is_looked_up(path: Path) -> None:
    for dotted, name in replaced(path.read_text("utf-8")) if path.name != HERE else ():
        try:
            of = owner(dotted)
        except ModuleNotFoundError as error:
            if str(error.name).split(".")[0] in OPTIONAL:
                continue
            raise
        assert hasattr(of, name), f"{dotted} has no {name}"
        if isinstance(of, ModuleType) and of.__file__ and find_spec(of.__name__):
            uses = re.findall(rf"(?<![\w.]){name}\b", Path(of.__file__).read_text("utf-8"))
            assert len(uses) > 1, f"{dotted} does not look {name} up"


def test_a_name_that_moved_is_found() -> None:
    text = 'import sparseq.base\nput(sparseq.base.texts, "gone", 1)\n'
    assert list(replaced(text)) == [("sparseq.base.texts", "gone")]
    text = 'from sparseq.base import texts as t\nmonkeypatch.setattr(t, "shown", f)\n'
    assert list(replaced(text)) == [("sparseq.base.texts", "shown")]
    assert not hasattr(owner("sparseq.base.texts"), "gone")
