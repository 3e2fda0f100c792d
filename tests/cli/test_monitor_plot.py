"""Pictures of a series show the numbers of its file, and nothing else; a browser can open them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from browser import Page, browse, loosened, needs_browser
from command_runs import run

import sparseq
from sparseq.cli.monitor import rival_of
from sparseq.pictures.bounded_numbers import format_with_bound
from sparseq.series import QueryText, Ticks
from sparseq.series.method_series import series_of
from sparseq.series.ticks import moment

QUERIES = {
    "visitors": "SELECT count(DISTINCT who) AS visitors FROM visits WHERE day = :day",
    "pages": (
        "SELECT page, count(*) AS n, avg(seconds) AS seconds FROM visits WHERE day = :day "
        "GROUP BY page"
    ),
}


@pytest.fixture
def plotted(store: Path, tmp_path: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A page, and the rows of the Parquet file it was made from."""
    files = []
    for name, sql in QUERIES.items():
        files.append(tmp_path / f"{name}.sql")
        files[-1].write_text(sql)
    page, out = tmp_path / "series.html", tmp_path / "series.parquet"
    line = ("monitor", store, *files, "--from", "2024-01-01", "--output", out, "--plot", page)
    assert run(*line, "--to", "2024-01-04").exit_code == 0
    assert run(*line, "--to", "2024-01-09").exit_code == 0  # what was there before is drawn too
    return page, pq.read_table(out).to_pylist()


def lines_of(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each figure: a series, group and number."""
    found: dict[Any, dict[Any, list[dict[str, Any]]]] = {}
    for row in rows:
        figure = found.setdefault((row["series"], row["column"]), {})
        figure.setdefault(row["page"], []).append(row)
    return [line for figure in found.values() for line in figure.values()]


def check(text: str, rows: list[dict[str, Any]]) -> None:
    """The numbers of a page are those of the rows, to the last digit and as they are shown.

    Beside those of a series of which it is known stand those of worst-case composition.
    """
    blocks = re.findall(r'<script type="application/json" class="data">(.*?)</script>', text)
    lines = lines_of(rows)
    assert len(blocks) == len(lines) == 9
    parsed = Page(text)
    cells = iter(parsed.text["td"])
    assert [h for h in parsed.text["th"] if h == "group"] == ["group"] * 2
    for block, line in zip(blocks, lines, strict=True):
        data = json.loads(block)
        for row, shown in zip(line, data["rows"], strict=True):
            bound = math.nan if row["error"] is None else row["error"]
            value = row["value"]
            assert shown[1] == ("–" if value is None else format_with_bound(value, bound))
            if row["series"] == "pages":
                assert next(cells) == row["tick"].isoformat()
            assert len(shown) == (3 if row["series"] == "visitors" else 2)
            for cell in shown[1:]:
                assert next(cells) == cell
    assert next(cells, None) is None


def test_the_page_has_the_numbers_of_the_file(plotted: Any) -> None:
    page, rows = plotted
    check(page.read_text(), rows)
    assert "NOT PRIVATE" in page.read_text()
    assert not re.search(r"https?:|@import|\bsrc=|\bhref=", page.read_text())


def test_a_series_stands_beside_the_best_fixed_plan_on_its_part_of_the_budget(
    folder: Path, tmp_path: Path
) -> None:
    """Known where a person is in one number once, and said of whom the series' own ± is not."""
    path, eight = tmp_path / "s.sparseq", Ticks(moment("2024-01-01"), "1d", moment("2024-01-08"))
    line = (
        "create",
        path,
        folder / "visits.csv",
        "--user",
        "who",
        "--keys",
        "page=home,cart,pay",
        "--bounds",
        "seconds=0..90",
        "--for",
        "daily=50%,ticks=18",
    )
    assert run(*line).exit_code == 0
    texts = {"daily": QUERIES["visitors"], "visitors": QUERIES["visitors"]} | {
        "pages": QUERIES["pages"].replace("day = :day", "day >= :day AND day < :next_day"),
    }
    for store_path, everybody in ((path, True), (folder / "web.sparseq", False)):
        with sparseq.connect(store_path) as store:
            daily, visitors, pages = (
                rival_of(series_of(store, name, QueryText.of(sql), eight), eight)
                for name, sql in texts.items()
            )
        assert visitors.bound == pytest.approx(1.96 * 8**0.5 + 0.5, rel=0.02)
        assert visitors.ticks == 8
        assert pages.bound is None
        assert [r.everybody for r in (visitors, pages)] == [everybody] * 2
        if everybody:  # 18 ticks on a half of the budget
            assert (daily.ticks, daily.everybody) == (18, True)
            assert daily.bound == pytest.approx(1.96 * 36**0.5 + 0.5, rel=0.02)


@needs_browser
def test_a_browser_shows_the_page(plotted: Any, tmp_path: Path) -> None:
    page, rows = plotted
    check(browse(page, tmp_path / "profile"), rows)


@needs_browser
def test_the_page_answers_keys_and_boxes(plotted: Any, tmp_path: Path) -> None:
    page, rows = plotted
    use = """
    document.querySelectorAll("svg[tabindex]").forEach((svg, k) => {
      const right = new KeyboardEvent("keydown", {key: "ArrowRight"});
      for (let i = 0; i <= k; i++) svg.dispatchEvent(right);
    });
    const box = document.querySelectorAll("figure")[0].querySelector("input[name=s1]");
    box.checked = false;
    box.dispatchEvent(new Event("change"));
    """
    used = tmp_path / "used.html"
    used.write_text(loosened(page.read_text(), use))
    text = browse(used, tmp_path / "profile")
    tips = re.findall(r'<div class="tip"[^>]*>(.*?)</div></div>', text)
    assert len(tips) == 9
    for k, (tip, line) in enumerate(zip(tips, lines_of(rows), strict=True)):
        shown = format_with_bound(line[k]["value"], line[k]["error"]) if line[k]["error"] else ""
        assert f"<b>{k + 1} Jan 2024</b>" in tip
        assert shown in tip
    assert [' class="no-s1"' in tag for tag in re.findall("<figure[^>]*>", text)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures(store: Path, tmp_path: Path, kind: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    query = tmp_path / "visitors.sql"
    query.write_text(QUERIES["visitors"])
    plot = tmp_path / f"series.{kind}"
    line = ("monitor", store, query, "--from", "2024-01-01", "--to", "2024-01-10")
    assert run(*line, "--quiet", "--plot", plot).exit_code == 0  # without --output too
    assert plot.read_bytes().startswith(start)
    assert plot.stat().st_size > 10_000


def test_hours_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(
        "who,at\n" + "".join(f"{k % 9},2024-01-01 {k % 24:02}:30:00\n" for k in range(99))
    )
    store = tmp_path / "v.sparseq"
    assert run("create", store, tmp_path / "v.csv", "--user", "who", "--seed", "1").exit_code == 0
    query = tmp_path / "hourly.sql"
    query.write_text("SELECT count(*) AS n FROM v WHERE at >= :tick AND at < :next_tick")
    plot = tmp_path / "v.html"
    result = run(
        "monitor",
        store,
        query,
        "--every",
        "1h",
        "--from",
        "2024-01-01T00:00",
        "--to",
        "2024-01-02T05:00",
        "--quiet",
        "--plot",
        plot,
    )
    assert result.exit_code == 0, result.stderr
    assert "06:00" in plot.read_text()
    assert "2024-01-01T23:00:00" in plot.read_text()


@pytest.mark.parametrize(
    ("plot", "says"), [("x.pdf", "has a suffix that is not known"), ("none/x.html", "no folder")]
)
def test_pictures_that_cant_be(store: Path, tmp_path: Path, plot: str, says: str) -> None:
    query = tmp_path / "visitors.sql"
    query.write_text(QUERIES["visitors"])
    line = ("monitor", store, query, "--from", "2024-01-01", "--to", "2024-01-02")
    result = run(*line, "--plot", tmp_path / plot)
    assert result.exit_code == 2
    assert says in result.stderr
    assert run("history", store, "--format", "json").stdout.strip() == "[]"
