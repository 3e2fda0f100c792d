"""The shell from a pipe, its splitting of what is typed, and its completion."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from conftest import output, run
from sparseq.cli.completion import Words
from sparseq.cli.shell import state_folder
from sparseq.cli.statements import is_complete, items, split
from sparseq.query.catalog import Catalog, Column, Table

COUNT = "SELECT count(DISTINCT who) AS people FROM visits"


def test_answers_in_order(store: Path) -> None:
    text = output(
        "shell", store, input=f"\\d orders\n{COUNT}\n WHERE page = 'cart';\n{COUNT};\n\\q\nX;"
    )
    assert text.index("total") < text.index("release 1") < text.index("release 2")
    assert "BIGINT" in text


def test_errors_never_end_it_and_the_first_gives_the_exit_code(store: Path) -> None:
    result = run("shell", store, input=f"\\nope\nSELECT who FROM visits;\n{COUNT};\n")
    assert result.exit_code == 2
    assert "there is no command \\nope" in result.stderr
    assert "rows about people" in result.stderr
    assert "release 1" in result.stdout


def test_a_last_query_needs_no_semicolon(store: Path) -> None:
    assert "release 1" in output("shell", store, input=COUNT)


def test_format_and_confidence(store: Path) -> None:
    text = output("shell", store, input=f"\\format json\n\\confidence 0.5\n{COUNT};")
    assert json.loads(text)["confidence"] == 0.5
    assert run("shell", store, input="\\confidence lots").exit_code == 2
    assert run("shell", store, input="\\format xml").exit_code == 2


def test_commands_that_read(store: Path) -> None:
    text = output(
        "shell", store, input=f"{COUNT};\n\\budget\n\\history 1\n\\explain {COUNT};\n\\?\n"
    )
    for words in ("sigma_0", "release  time", "Nothing was asked", "\\confidence C"):
        assert words in text
    assert "releases" in output("budget", store)


def test_answers_to_a_file_and_back(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    lines = ["\\format csv", f"\\o {file}", f"{COUNT};", f"{COUNT};", "\\o", f"{COUNT};"]
    shown = output("shell", store, input="\n".join(lines))
    assert shown.count("people_error") == 1
    rows = list(csv.reader(io.StringIO(file.read_text())))
    assert [row[0] == "people" for row in rows] == [True, False, True, False]
    assert run("shell", store, input=f"\\o {tmp_path}/no/folder").exit_code == 2


def test_includes_files_but_not_for_ever(store: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(f"{COUNT};\n")
    assert "release 1" in output("shell", store, input=f"\\i {tmp_path}/q.sql")
    (tmp_path / "loop.sql").write_text(f"\\i {tmp_path}/loop.sql\n")
    result = run("shell", store, input=f"\\i {tmp_path}/loop.sql\n\\d")
    assert "deep already" in result.stderr
    assert "visits" in result.stdout
    assert run("shell", store, input="\\i missing.sql").exit_code == 2


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 'it''s;' ;", True),
        ('SELECT ";', False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; -- done", True),
        ("/* ; */", True),
        ("\\d visits", True),
    ],
)
def test_when_a_query_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@given(st.lists(st.text("ab';\"-/*\n ", max_size=12), max_size=5))
def test_splitting_loses_nothing(lines: list[str]) -> None:
    text = "\n".join(line.strip() for line in lines)
    queries, rest = split(text)
    kept = "".join("".join(queries).split()) + "".join(rest.split())
    assert set(kept) <= set(text)
    assert [q for q in items(text.split("\n")) if not q.strip()] == []


def completions(text: str) -> list[str]:
    visits = Table(
        "visits", (Column("who", "VARCHAR"), Column("page", "VARCHAR", keys=("cart", "pay"))), "who"
    )
    words = Words(Catalog((visits, Table("pages", (Column("section", "VARCHAR"),)))))
    return [c.text for c in words.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT w", ["who"]),
        ("SELECT * FROM ", ["visits", "pages"]),
        ("SELECT * FROM vi", ["visits"]),
        ("SELECT visits.p", ["page"]),
        ("SELECT count(*) FROM visits WHERE page = 'c", ["cart"]),
        ("\\d p", ["pages"]),
        ("\\con", ["\\confidence"]),
        ("\\format p", ["parquet"]),
        ("\\o sel", []),
    ],
)
def test_completion(text: str, offered: list[str]) -> None:
    found = completions(text)
    assert found[: len(offered)] == offered
    assert offered or not found


def test_completion_of_words() -> None:
    assert {"SELECT"} <= set(completions("sel"))
    assert {"page", "pages"} <= set(completions("SELECT pa"))


def test_history_is_kept_in_the_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "sparseq"
