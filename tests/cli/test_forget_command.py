"""`sparseq curator forget`: asks first, erases all or nothing, and the account stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runs import output, run


def facts(store: Path, who: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(output("curator", store, "user", who, "--format", "json"))
    return found


@pytest.mark.parametrize("order", ["forget first", "store first"])
def test_rows_go_and_the_account_stays(store: Path, order: str) -> None:
    output("sql", store, "SELECT count(*) FROM visits WHERE day = DATE '2024-01-01'")
    before = facts(store, "u1")
    words = ["forget", str(store)] if order == "forget first" else [str(store), "forget"]
    result = run("curator", *words, "u1", "--yes")
    assert result.exit_code == 0
    assert result.stdout == "erased u1: 10 rows of visits, 2 rows of orders; what was spent stays\n"
    assert "PRIVATE" in result.stderr
    after = facts(store, "u1")
    assert after == before | {"id": "(erased)", "rows": {"visits": 0, "orders": 0}}
    again = output("curator", "forget", store, "u1", "--yes")
    assert again == "nothing to do: u1 was erased before\n"
    assert json.loads(output("curator", store, "summary", "--format", "json"))["users"] == 40
    assert "(erased)" in output("curator", store, "spend", "--top", "40")


def test_it_asks_first(store: Path) -> None:
    for answer, rows in [("n\n", 10), ("", 10), ("y\n", 0)]:
        result = run("curator", "forget", store, "u1", "u2", input=answer)
        assert "Erase everything about 2 people" in result.stderr
        assert result.exit_code == (rows > 0)
        assert facts(store, "u1")["rows"]["visits"] == rows  # type: ignore[index]


def test_nobody_is_erased_if_one_is_unknown(store: Path) -> None:
    result = run("curator", "forget", store, "u1", "who?", "--yes")
    assert result.exit_code == 2
    assert "nobody has the identifier 'who?'" in result.stderr
    assert "nothing was erased" in result.stderr
    assert facts(store, "u1")["rows"] == {"visits": 10, "orders": 2}


def test_its_help_needs_no_store() -> None:
    assert "Erase all rows of the people" in output("curator", "forget", "--help")
