"""CONTRIBUTING.md says where things are, and they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.split("## To change something")[1].split("\n")
    if line.startswith("| ") and not line.startswith(("| What", "| ---"))
]


def defined(path: Path) -> set[str]:
    """The names that a module gives to what it makes."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names


def test_there_are_many() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_is_to_be_changed_is_where_the_map_says(row: list[str]) -> None:
    _, where, begin = row
    files = [ROOT / name for name in re.findall("`([^`]+)`", where)]
    assert files
    assert all(file.is_file() for file in files)
    found = set().union(*map(defined, files))
    assert set(re.findall("`([^`]+)`", begin)) <= found
    assert begin


def test_every_room_is_on_the_map() -> None:
    rooms = {p.name for p in (ROOT / "sparseq").iterdir() if (p / "__init__.py").is_file()}
    assert {room for room in rooms if f"      {room}/" not in TEXT} == set()


def test_files_that_docs_and_packages_name_are_there() -> None:
    """`room/…` in the docs, and names of modules in CONTRIBUTING.md and in what packages say."""
    rooms = "|".join(p.name for p in (ROOT / "sparseq").iterdir() if (p / "__init__.py").is_file())
    places = (ROOT / "sparseq", ROOT / "proofs")
    modules = {path.name for place in places for path in place.rglob("*.py")}
    packages = list((ROOT / "sparseq").rglob("__init__.py"))
    named = [
        ROOT / "sparseq" / place
        for path in (ROOT / "docs").rglob("*.md")
        for place in re.findall(rf"`((?:{rooms})/[a-z_/]*(?:\.py)?)`", path.read_text("utf-8"))
    ]
    assert len(named) > 20
    assert [path for path in named if not path.exists()] == []
    told = [TEXT, *(ast.get_docstring(ast.parse(p.read_text("utf-8"))) or "" for p in packages)]
    assert set(re.findall(r"(?<![\w/])[a-z_]+\.py\b", " ".join(told))) <= modules
