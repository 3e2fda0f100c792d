"""`dashboard`: planned, refreshed, shown; its questions are found in the history."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_runs import output, run
from dashboards.shop import FIRST, sales

FILE = '''
title = "The shop"

[[panel]]
title = "Yesterday"
sql = "SELECT count(*) AS n FROM sales WHERE day = :yesterday"

[[panel]]
title = "By kind"
sql = """
SELECT kind, count(*) AS n FROM sales WHERE day >= :today - 7 AND day < :today
AND kind IN ('a', 'b') GROUP BY kind"""
'''


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, a store of old data, and the file of a dashboard."""
    folder = tmp_path_factory.mktemp("dashboard")
    pq.write_table(sales(3000), folder / "sales.parquet")
    (folder / "shop.toml").write_text(FILE)
    said = ["--user", "who", "--time", "day", "--keys", "kind=a,b", "--bounds", "v=0..10"]
    for name in ("shop", "old"):
        output("create", folder / f"{name}.sparseq", folder / "sales.parquet", *said)
    output("purpose", "add", folder / "shop.sparseq", "shop=30%,ticks=30,counts=20")
    return folder


def test_it_is_refreshed_and_shown(shop: Path) -> None:
    store, file = shop / "shop.sparseq", shop / "shop.toml"
    dry = output("dashboard", "refresh", store, file, "--on", FIRST, "--dry-run")
    assert dry.startswith(
        "would measure 7 nodes; a person pays for the own days alone, and 8.75 of"
    )
    made = run("dashboard", "refresh", store, file, "--on", FIRST)
    assert made.stderr.startswith("measured 7 nodes")
    assert "The shop\n\nYesterday\n" in made.stdout
    assert "all intervals of a panel contain the true values for everybody" in made.stdout
    again = run("dashboard", "refresh", store, file, "--on", FIRST)
    assert "nothing to measure" in again.stderr
    assert output("dashboard", "show", store, file) == again.stdout
    found = json.loads(output("dashboard", "show", store, file, "--format", "json"))
    assert [row["kind"] for row in found["By kind"]["rows"]] == ["a", "b"]
    assert "shop: count(*) on" in output("history", store, "--all")


def test_a_morning_that_was_not_refreshed_is_refused(shop: Path) -> None:
    later = FIRST + dt.timedelta(days=20)
    shown = run("dashboard", "show", shop / "old.sparseq", shop / "shop.toml")
    assert shown.exit_code == 2
    assert "was not refreshed yet" in shown.stderr
    output("dashboard", "refresh", shop / "shop.sparseq", shop / "shop.toml", "--on", FIRST)
    shown = run("dashboard", "show", shop / "shop.sparseq", shop / "shop.toml", "--on", later)
    assert shown.exit_code == 3
    assert "has days that were not measured" in shown.stderr


def test_a_plan_compares_both_ways(shop: Path) -> None:
    said = ["dashboard", "plan", shop / "old.sparseq", shop / "shop.toml", "--from", FIRST]
    text = output(*said, "--mornings", "3")
    assert "one by one" in text
    assert "3 mornings are too few for a dashboard" in text
    facts = json.loads(output(*said, "--mornings", "2", "--share", "20%", "--format", "json"))
    assert facts["pays"] is False
    assert facts["purpose"].startswith("shop=20%,ticks=2,counts=")
    assert facts["charges"] > 0


def test_nothing_is_found_in_a_new_history(shop: Path) -> None:
    assert "no question" in output("dashboard", "find", shop / "old.sparseq")


def test_a_date_is_a_date(shop: Path) -> None:
    said = run("dashboard", "refresh", shop / "shop.sparseq", shop / "shop.toml", "--on", "March")
    assert said.exit_code == 2
    assert "is not a date" in said.stderr
