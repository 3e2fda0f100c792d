"""The demo runs end to end, says what it found, and its monitor looks at answers only."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_runs import output, run

from sparseq.cli import demo
from sparseq.cli.demo import Results, closing_lines, find_data, fresh_folder
from sparseq.cli.demo_analyst import Findings, true_buyers

DATA = Path(__file__).parent.parent.parent / "data" / "cdnow.parquet"


@pytest.fixture(scope="module", params=[90, pytest.param(546, marks=pytest.mark.deep)])
def done(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """The figures of the demo, and its folder: of its first days, and of all of them.

    All are among the deep tests; `.ci/wheel` runs the whole demo too.
    """
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "LAST", demo.FIRST + dt.timedelta(days=request.param - 1))
        text = output("demo", "--data", DATA, "--output", folder, "--seed", "1", "--format", "json")
    return json.loads(text), folder


@pytest.mark.deep
@pytest.mark.parametrize("done", [546], indirect=True)
def test_individual_accounts_are_three_times_better(done: tuple[dict[str, float], Path]) -> None:
    figures, _ = done
    assert (figures["queries"], figures["kappa"], figures["share"]) == (546, 0.5, 0.6)
    assert figures["rmse_worst_case"] == pytest.approx((546 / 0.6) ** 0.5)
    assert figures["ratio"] == pytest.approx(figures["rmse_worst_case"] / figures["rmse"])
    assert figures["ratio"] > 3
    assert 0.95 <= figures["inside"] <= 1


def test_its_store_has_all_answers(done: tuple[dict[str, Any], Path]) -> None:
    figures, folder = done
    assert figures["store"] == str(folder / "cdnow.sparseq")
    listed = json.loads(output("history", figures["store"], "--all", "--format", "json"))
    days = figures["queries"]
    assert days in (90, 546)
    assert len(listed) == days + days + 2, "answers, rows of forecasts, and two questions"
    assert {r["pot"] for r in listed[:-2]} == {"daily_buyers", "daily_buyers (forecasts)"}
    assert {r["pot"] for r in listed[-2:]} == {"queries"}
    assert {r["coordinates"] for r in listed[:-2]} == {1}
    assert [r["query"] for r in listed[-2:]] == [q["query"] for q in figures["questions"]]


def test_questions_are_about_the_busiest_month(done: tuple[dict[str, Any], Path]) -> None:
    """Of the exact data too; and their intervals, of 95 % each, hold the truth, but for one."""
    figures, _ = done
    (month,), (people,) = (q["rows"] for q in figures["questions"])
    asked = figures["questions"][0]["query"]
    found = re.search(r"date >= DATE '(\S+)' AND date < DATE '(\S+)'", asked)
    assert found is not None
    rows = pq.read_table(DATA).to_pandas()
    day = rows["date"].astype(str)
    buyers = rows.groupby(day)["customer_id"].nunique()
    assert found[1][:7] == buyers.groupby(buyers.index.str[:7]).sum().idxmax()
    here = rows[(day >= found[1]) & (day < found[2])]
    held = []
    for row, name, truth in (
        (month, "people", here["customer_id"].nunique()),
        (month, "orders", len(here)),
        (people, "per_order", rows["amount"].clip(0, 500).mean()),
        (people, "typical", rows["amount"].median()),
    ):
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        held.append(low <= truth <= high)
        assert low - (high - low) < truth < high + (high - low)
    assert sum(held) >= 3


def test_what_it_says_is_what_it_found(done: tuple[dict[str, Any], Path]) -> None:
    figures, _ = done
    lines = closing_lines(Results(**figures), True)
    text = "\n".join(f"{label} {line}" for label, line in lines)
    assert f"{figures['ratio']:.1f} times as much" in text
    assert "60% of every budget" in text
    assert all(q["query"] in text for q in figures["questions"])


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


def test_questions_depend_on_what_the_series_said() -> None:
    """The month with the most buyers by released numbers; December is followed by January."""
    days = [dt.date(1997, month, day) for month in (3, 12) for day in (1, 2)]
    spring = Findings(days, [90.0, 20.0, 50.0, 50.0], [5.0] * 4)
    assert spring.busiest_month == dt.date(1997, 3, 1)
    assert "date >= DATE '1997-03-01' AND date < DATE '1997-04-01'" in spring.questions()[0]
    winter = Findings(days, [90.0, 20.0, 60.0, 60.0], [5.0] * 4)
    assert "date >= DATE '1997-12-01' AND date < DATE '1998-01-01'" in winter.questions()[0]
    assert len(winter.questions()) == 2


def test_truth() -> None:
    days = [dt.date(1997, 1, 1), dt.date(2000, 1, 1)]
    assert true_buyers(str(DATA), days).tolist() == [209.0, 0.0]
