"""A report is made again without a charge until rows arrive, and is whole or not there at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from browser import Page, needs_browser
from command_runs import output, run

ROOT = Path(__file__).parent.parent.parent
COUNT = "SELECT count(DISTINCT who) AS people FROM visits"
REPORT = """
title = "Our <pages>"
store = "web.sparseq"
text = '''
One paragraph.

Another.'''

[[part]]
heading = "Visitors by page"
text = "The home page has most."
sql = "SELECT page, count(DISTINCT who) AS people FROM visits GROUP BY page ORDER BY page"

[[part]]
heading = "Visits by day"
sql = '''SELECT day, count(*) AS visits FROM visits
WHERE day BETWEEN DATE '2024-01-01' AND DATE '2024-01-10' GROUP BY day'''
chart = "lines"
confidence = 0.9

[[part]]
heading = "In all"
sql = "SELECT count(*) AS visits FROM visits"
chart = "table"

[[part]]
heading = "By day, as it was monitored"
series = "days.csv"
"""


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report: its store, and a series beside it."""
    made = tmp_path_factory.mktemp("report")
    shutil.copy(folder / "web.sparseq", made)
    (made / "q.sql").write_text(f"{COUNT} WHERE day >= :day AND day < :next_day")
    output(
        "monitor",
        made / "web.sparseq",
        made / "q.sql",
        "--over",
        "day",
        "--from",
        "2024-01-01",
        "--to",
        "2024-01-03",
        "--output",
        made / "days.csv",
        "--quiet",
        "--anyway",
    )
    (made / "weekly.toml").write_text(REPORT)
    return made


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy of that store, in a folder of its own."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "web.sparseq"


@pytest.fixture
def described(store: Path) -> Path:
    """The report beside it."""
    return store.with_name("weekly.toml")


def releases(store: Path) -> int:
    return int(json.loads(output("budget", store, "--format", "json"))["releases"])


def test_a_report_has_its_parts_in_order_and_is_free_until_rows_arrive(
    store: Path, described: Path
) -> None:
    before = releases(store)
    assert "3 asked, 0 read back" in run("report", described).stderr
    first = described.with_suffix(".html").read_text()
    charged = releases(store)
    assert charged == before + 3
    assert "0 asked, 3 read back" in run("report", described).stderr
    assert described.with_suffix(".html").read_text() == first
    assert releases(store) == charged
    page = Page(first)
    assert page.text["h1"] == ["Our <pages>"]
    assert page.text["h2"] == [
        "Visitors by page",
        "Visits by day",
        "In all",
        "By day, as it was monitored",
    ]
    assert page.text["p"][1:4] == ["One paragraph.", "Another.", "The home page has most."]
    answer = json.loads(output("history", store, "--show", str(before + 1), "--format", "json"))
    assert [row["page"] for row in answer["rows"]] == ["cart", "home", "pay"]
    bars = [t for t in page.text["div"] if "±" in t]
    assert [t.split(" ")[0] for t in bars] == [f"{row['people']:,}" for row in answer["rows"]]
    assert any("90 % confidence" in text for text in page.text["p"])
    more = described.with_name("more.csv")
    more.write_text("who,day,page,seconds,late\nnew,2024-01-02,home,1.5,false\n")
    output("ingest", store, more, "--table", "visits")
    assert "3 asked, 0 read back" in run("report", described).stderr
    assert described.with_suffix(".html").read_text() != first


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'count(*) AS visits FROM visits"',
            'nonsense FROM visits"',
            "part 3 (In all): there is no",
        ),
        ('chart = "lines"', 'chart = "pie"', "part 2 (Visits by day): there is no chart 'pie'"),
        (
            'ORDER BY page"',
            "ORDER BY page\"\nchart = 'lines'",
            "part 1 (Visitors by page): lines are",
        ),
        ('heading = "In', 'headin = "In', "part 3: there is no word 'headin'"),
        ("days.csv", "none.csv", "part 4"),
        ("title =", "title", "can't read"),
        ('store = "web', 'store = "wob', "there is no store"),
    ],
)
def test_what_is_wrong_in_any_part_is_said_before_anything_is_asked(
    store: Path, described: Path, old: str, new: str, said: str
) -> None:
    before = releases(store)
    described.write_text(REPORT.replace(old, new))
    refused = run("report", described)
    assert refused.exit_code in (2, 3, 4)
    assert said in refused.stderr
    assert "hint" in refused.stderr
    assert not described.with_suffix(".html").exists()
    assert releases(store) == before


def test_without_chromium_no_pdf_is_made_and_nothing_asked(
    store: Path, described: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = releases(store)
    monkeypatch.setenv("PATH", str(described.parent))
    refused = run("report", described, "-o", described.with_suffix(".pdf"))
    assert (refused.exit_code, releases(store)) == (2, before)
    assert "needs Chromium" in refused.stderr


def test_the_file_on_the_page_about_reports_is_the_one_that_is_run() -> None:
    shown = (ROOT / "docs/reports.md").read_text().partition("```toml\n")[2].partition("```")[0]
    assert shown == (ROOT / "queries/weekly.toml").read_text()


@pytest.mark.deep
@needs_browser
def test_a_pdf_has_the_page(described: Path) -> None:
    """That a browser prints it: the other tests look at the page that it prints."""
    assert run("report", described, "-o", described.with_suffix(".pdf")).exit_code == 0
    assert described.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")
