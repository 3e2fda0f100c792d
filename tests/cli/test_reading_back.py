"""`budget`, `history` and `curator`: public facts, old answers, and private facts said loudly."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import output, run
from sampled import one_in

import sparseq

COUNT = "SELECT count(DISTINCT who) AS people FROM visits"


@pytest.fixture(scope="module")
def three(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three releases."""
    store = shutil.copy(folder / "web.sparseq", tmp_path_factory.mktemp("asked"))
    for k in (1, 2, 3):
        day = f"SELECT count(DISTINCT who) AS people FROM visits WHERE day = DATE '2024-01-0{k}'"
        output("sql", store, day, "--request-id", f"day {k}")
    return Path(store)


@pytest.fixture
def asked(three: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(three, tmp_path))


def test_budget(store: Path, golden: Callable[[str, str], None]) -> None:
    golden("budget", output("budget", store))


def test_budget_as_json(asked: Path) -> None:
    facts = json.loads(output("budget", asked, "--format", "json"))
    assert (facts["kappa"], facts["mu"], facts["norm_budget"]) == (0.5, 1.0, 400.0)
    assert (facts["worst_case_queries"], facts["releases"], facts["seeded"]) == (400, 3, True)
    assert facts["sigma_0"] == 20.0
    assert all(e["gdp"] < e["zcdp"] for e in facts["epsilon"])


def test_history_lists_releases(asked: Path, golden: Callable[[str, str], None]) -> None:
    text = output("history", asked)
    root = json.loads(output("history", asked, "--format", "json"))[-1]["root"]
    assert len(bytes.fromhex(root)) == 32
    text = text.replace(root, "0a" * 32)
    golden("history", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "2024-01-01 06:00:00Z", text))


def test_the_list_of_releases_needs_no_scipy(asked: Path) -> None:
    """Which takes 0.4 s to import."""
    code = (
        "import sys; from sparseq.cli.app import sparseq\n"
        f"sparseq(['history', {str(asked)!r}], standalone_mode=False)\n"
        "assert not [name for name in sys.modules if name.startswith('scipy')]"
    )
    root = str(Path(sparseq.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": root})


def test_history_last(asked: Path) -> None:
    text = output("history", asked, "--last", "1")
    assert "day 3" in text
    assert "day 2" not in text
    assert "2 before these" in text


def test_history_of_nothing(store: Path) -> None:
    assert output("history", store) == "nothing has been asked yet\n"


def test_history_as_json_and_csv(asked: Path) -> None:
    listed = json.loads(output("history", asked, "--format", "json"))
    assert [r["request_id"] for r in listed] == ["day 1", "day 2", "day 3"]
    rows = list(csv.DictReader(io.StringIO(output("history", asked, "--format", "csv"))))
    assert [float(r["sigma"]) for r in rows] == [r["sigma"][0] for r in listed]


def test_an_old_answer_is_the_same_and_free(asked: Path) -> None:
    first = output("history", asked, "--show", "2", "--format", "csv")
    assert first == output("history", asked, "--show", "2", "--format", "csv")
    assert json.loads(output("budget", asked, "--format", "json"))["releases"] == 3
    assert "recorded" in output("history", asked, "--show", "2")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--show", "9"], 4),
        (["--show", "0"], 2),
        (["--show", "1", "--last", "1"], 2),
        (["--format", "parquet"], 2),
    ],
)
def test_history_mistakes(asked: Path, args: list[str], code: int) -> None:
    assert run("history", asked, *args).exit_code == code


def test_curator_is_loud(asked: Path) -> None:
    for args in (["summary"], ["spend"], ["user", "u1"], ["sql", "SELECT 1 AS one"]):
        result = run("curator", asked, *args)
        assert result.exit_code == 0
        assert "PRIVATE: exact facts about people. Curator only." in result.stderr
        assert "PRIVATE" not in result.stdout


def test_curator_summary(asked: Path, golden: Callable[[str, str], None]) -> None:
    golden("curator_summary", output("curator", asked, "summary"))
    facts = json.loads(output("curator", asked, "summary", "--format", "json"))
    assert facts["rows"] == {"visits": 400, "orders": 80}
    assert facts["users"] == 40
    assert facts["untouched"] + sum(facts["tenths"]) == 40


def test_curator_spend_adds_up(asked: Path) -> None:
    facts = json.loads(output("curator", asked, "spend", "--top", "40", "--format", "json"))
    assert sum(p["spent"] for p in facts["top"]) == pytest.approx(facts["spent"])
    assert facts["spent"] > 0
    assert "90–100 %" in output("curator", asked, "spend")


def test_curator_user_adds_up(asked: Path) -> None:
    facts = json.loads(output("curator", asked, "user", "u1", "--format", "json"))
    assert sum(p["charge"] for p in facts["releases"]) == pytest.approx(facts["spent"])
    exact = "SELECT count(*) AS n FROM visits WHERE who = 'u1'"
    rows = json.loads(output("curator", asked, "sql", exact, "--format", "json"))
    assert facts["rows"]["visits"] == rows[0]["n"]
    assert run("curator", asked, "user", "nobody").exit_code == 2


def test_curator_sees_the_tables_as_they_were_loaded(asked: Path, folder: Path) -> None:
    query = "SELECT who, day, page, seconds, late FROM visits ORDER BY ALL"
    rows = output("curator", asked, "sql", query, "--format", "csv").splitlines()
    assert sorted(rows[1:]) == sorted((folder / "visits.csv").read_text().splitlines()[1:])
    joined = (
        "SELECT section, sum(total) AS t FROM visits JOIN orders USING (who) "
        "JOIN pages USING (page) GROUP BY section"
    )
    assert "shop" in output("curator", asked, "sql", joined)


@pytest.mark.parametrize(
    "query",
    one_in(
        2,
        [
            "DELETE FROM visits",
            "DELETE FROM ledger.release",
            "SELECT 1; SELECT 2",
            "COPY visits TO 'x.csv'",
            "ATTACH 'x.db'",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SET threads = 1",
            "SELECT FROM WHERE",
        ],
    ),
)
def test_curator_sql_only_reads_the_store(asked: Path, query: str) -> None:
    before = output("curator", asked, "summary")
    result = run("curator", asked, "sql", query)
    assert (result.exit_code, result.stdout) == (3, "")
    assert output("curator", asked, "summary") == before
