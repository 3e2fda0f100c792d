"""The tutorial's hospital is the same everywhere, and its answers are as exact as the page says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks.tutorial import PAGE, QUESTIONS, commands, run
from data.hospital import write


def test_the_page_asks_ten_questions_before_anything_is_repeated() -> None:
    asked = [words[3] for words in commands() if words[1:3] == ["sql", "ward.sparseq"]]
    assert len(set(asked[:QUESTIONS])) == QUESTIONS
    assert asked[QUESTIONS] == asked[0]


@pytest.mark.deep
def test_the_same_bytes_every_time_and_those_of_the_page(tmp_path: Path) -> None:
    """Both files, whole, twice."""
    found = []
    for k in range(2):
        folder = tmp_path / str(k)
        folder.mkdir()
        write(folder)
        found.append([hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())])
    assert found[0] == found[1]
    assert len(set(found[0])) == 2
    first = (tmp_path / "0" / "visits-2024.csv").read_text().split("\n")[:3]
    assert "\n".join(f"    {line}" for line in first) in PAGE.read_text("utf-8")


@pytest.mark.deep
def test_answers_are_as_exact_as_promised() -> None:
    """All commands of the page as processes, and every interval beside the truth."""
    found = {f["name"]: f for f in run()}
    assert all(f["ok"] for f in found.values()), found
    assert found["tutorial.held"]["figure"] >= QUESTIONS - 2
