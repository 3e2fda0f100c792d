"""Every test that docs/clients.md names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_the_tests_that_the_page_names_exist() -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    named = set(NAMED.findall(page))
    assert len(named) > 30
    known = {
        (file, node.name)
        for file in {file for file, _ in named}
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert named <= known


def test_every_feature_has_a_test_and_every_client_says_if_it_was_tried() -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    for line in page.splitlines():
        if line.startswith("| ") and not line.startswith(("| client", "| feature")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert NAMED.search(line) or cells[1] == "no", line
