"""The demo runs end to end, says what it found, and its monitor looks at answers only."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path

import pytest

from conftest import output, run
from sparseq.cli.demo import find_data, fresh_folder
from sparseq.cli.demo_analyst import Findings, true_buyers

DATA = Path(__file__).parent.parent.parent / "data" / "cdnow.parquet"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Path]:
    """The demo's figures, and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    text = output("demo", "--data", DATA, "--output", folder, "--seed", "1", "--format", "json")
    return json.loads(text), folder


def test_individual_accounts_are_three_times_better(done: tuple[dict[str, float], Path]) -> None:
    figures, _ = done
    assert (figures["queries"], figures["kappa"], figures["norm_budget"]) == (546, 0.5, 40)
    assert figures["rmse_worst_case"] == pytest.approx(546**0.5)
    assert figures["ratio"] == pytest.approx(
        figures["rmse_worst_case"] / figures["rmse_individual"]
    )
    assert figures["ratio"] > 3


def test_its_store_has_all_answers(done: tuple[dict[str, str], Path]) -> None:
    figures, folder = done
    assert figures["store"] == str(folder / "cdnow.sparseq")
    listed = json.loads(output("history", figures["store"], "--all", "--format", "json"))
    assert len(listed) == 546
    assert {r["coordinates"] for r in listed} == {1}
    levels = {re.search(r"> (-?\d+) AS busy", r["query"]) for r in listed}
    assert len({m[1] for m in levels if m}) > 20  # the queries are made from the answers


def test_the_page_shows_the_truth_beside_the_answers(done: tuple[dict[str, str], Path]) -> None:
    figures, _ = done
    page = Path(figures["page"]).read_text()
    assert re.findall(r'1997-01-01</th>.*<td class="number">(\d+)</td></tr>', page) == ["209"]
    assert "because these data are public" in page
    assert "NOT PRIVATE" in page
    assert "1997-01-01" in page


def test_never_clobbers(tmp_path: Path) -> None:
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo"
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo"
    (tmp_path / "demo" / "x").touch()
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo-2"


def test_missing_data(tmp_path: Path) -> None:
    result = run("demo", "--data", tmp_path / "no.parquet", "--output", tmp_path / "out")
    assert (result.exit_code, (tmp_path / "out").exists()) == (6, False)
    assert "there is no file" in result.stderr
    assert find_data(None).name == "cdnow.parquet"


def test_next_query_depends_on_the_last_answers() -> None:
    seen, day = Findings(), dt.date(1997, 1, 2)
    assert "busy" not in seen.next_query(day)
    seen.values, seen.bounds = [10.0, 20.0], [5.0, 5.0]
    assert "> 20 AS busy" in seen.next_query(day)


def test_truth() -> None:
    days = [dt.date(1997, 1, 1), dt.date(2000, 1, 1)]
    assert true_buyers(str(DATA), days).tolist() == [209.0, 0.0]
