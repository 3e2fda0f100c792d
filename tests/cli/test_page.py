"""The page is one well-formed file, safe for any text, with every number; the PNG is a picture."""

from __future__ import annotations

import doctest
import json
import re
import sys
from datetime import date, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser, shoot

from sparseq.cli import page
from sparseq.cli.page import Figure, Series, html_page, write_png
from sparseq.errors import ParameterError
from sparseq.pictures.tables import Table

VOID = {"meta", "input"}
NASTY = "</script><script>alert(1)</script> & \"q\" 'a'"


class Page(HTMLParser):
    """Collects elements, attributes and text; fails on a tag that closes no open one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def paths(self, kind: str) -> list[str]:
        """The drawn paths of a class, without those of the legend, which come first."""
        return [str(a["d"]) for t, a in self.found if t == "path" and a["class"] == kind][1:]


def figure(n: int = 40, title: str = "Buyers", **changes: object) -> Figure:
    days = [date(2024, 1, 1) + timedelta(days=k) for k in range(n)]
    truth = 100 + np.arange(float(n))
    ours = Series("ours", days, truth + 1, 2.5)
    worst = Series("worst", days, truth - 3, 20.0)
    keywords = {"truth": truth, "notes": ["A note."], **changes}
    return Figure(title, "a day", [ours, worst], **keywords)  # type: ignore[arg-type]


def test_docstring_examples() -> None:
    assert doctest.testmod(page).failed == 0


def test_the_page_parses_and_has_all_numbers() -> None:
    parsed = Page(html_page(figure()))
    cells = parsed.text["td"]
    for k in range(40):
        assert cells[4 * k : 4 * k + 4] == [
            (date(2024, 1, 1) + timedelta(days=k)).isoformat(),
            f"{101 + k}.0 ± 2.5",
            f"{97 + k} ± 20",
            f"{100 + k}.0",
        ]
    assert parsed.text["h1"] == ["Buyers"]
    assert "A note." in parsed.text["p"]
    assert "The exact value is in the band of ours at 40 of 40 dates." in parsed.text["p"]


def test_the_page_needs_no_network() -> None:
    text = html_page(figure())
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import|\bsrc=|\bhref=", text)
    policy = next(a["content"] for t, a in Page(text).found if "http-equiv" in a)
    assert "default-src 'none'" in str(policy)


def test_any_text_is_shown_as_text() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    nasty = Figure(NASTY, NASTY, [Series(NASTY, days, np.ones(2), 1.0)], notes=[NASTY])
    text = html_page(nasty, Table([NASTY], [[NASTY]], ["l"]))
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    parsed = Page(text)
    for tag in ("h1", "title", "p", "th", "td"):
        assert "".join(parsed.text[tag]).count(NASTY) >= 1
    assert next(a for t, a in parsed.found if "aria-label" in a)["aria-label"] == NASTY
    assert json.loads("".join(parsed.text["script"][:1]))["names"] == [NASTY]


def test_tooltips_show_value_and_bound() -> None:
    data = json.loads(Page(html_page(figure())).text["script"][0])
    assert data["names"] == ["ours", "worst", "exact value"]
    assert data["rows"][0] == ["1 Jan 2024", "101.0 ± 2.5", "97 ± 20", "100.0"]
    assert len(data["x"]) == 40
    assert data["x"] == sorted(data["x"])


def test_a_rising_series_rises_inside_its_band() -> None:
    parsed = Page(html_page(figure()))
    (line,) = parsed.paths("line ours")
    heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", line)]
    assert len(heights) == 40
    assert all(a > b for a, b in pairwise(heights))
    (band,) = parsed.paths("band ours")
    edge = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", band)]
    assert all(up < y < down for up, y, down in zip(edge[:40], heights, edge[:39:-1], strict=True))


def test_gaps_break_the_line_and_the_band() -> None:
    drawn = figure(truth=None)
    drawn.series[0].values[10:20] = np.nan
    parsed = Page(html_page(drawn))
    assert parsed.paths("line ours")[0].count("M") == 2
    assert parsed.paths("band ours")[0].count("M") == 2
    assert "nan" not in html_page(drawn).lower()
    assert "–" in parsed.text["td"]


@pytest.mark.parametrize("values", [[5.0], [np.nan], [np.inf]])
def test_a_single_day(values: list[float]) -> None:
    single = Figure("t", "u", [Series("a", [date(2024, 1, 1)], np.array(values), 1.0)])
    Page(html_page(single))


def test_a_series_on_other_days_has_blanks_in_the_table() -> None:
    first = Series("a", [date(2024, 1, 1), date(2024, 1, 2)], np.ones(2), 1.0)
    second = Series("b", [date(2024, 1, 2), date(2024, 1, 3)], np.ones(2), 1.0)
    rows = Figure("t", "u", [first, second]).table().rows
    assert [row[2] for row in rows] == ["–", "1.0 ± 1.0"]


@needs_browser
@pytest.mark.parametrize("colors", ["light", "dark"])
def test_a_chart_wider_than_the_window_says_that_it_goes_on(tmp_path: Path, colors: str) -> None:
    """Its right edge is shaded in a narrow window; the left one is after scrolling to the end."""
    days = [date(2024, 1, 1) + timedelta(k) for k in range(60)]
    drawn = html_page(Figure("Visits", "", [Series("a", days, np.arange(60.0), 8.0)]))
    if colors == "dark":
        drawn = drawn.replace("(prefers-color-scheme: dark)", "all")
    at_end = 'document.querySelector(".chart").scrollLeft = 1e6;</script>'
    shaded = {}
    for name, width, text in (
        ("narrow", 500, drawn),
        ("scrolled", 500, drawn.replace("</script>\n</html>", f"{at_end}\n</html>")),
        ("wide", 1200, drawn),
    ):
        path = tmp_path / f"{name}.html"
        path.write_text(text)
        seen = shoot(path, tmp_path / name, width)[..., :3]
        paper, edge = seen[0, 0], 16 if width == 500 else 100  # the page's margin
        sides = seen[:, edge + 1], seen[:, width - edge - 2]
        grey = [(np.abs(s - paper).min(axis=1) > 0.05).sum() > 150 for s in sides]
        shaded[name] = tuple(map(bool, grey))
    assert shaded == {"narrow": (False, True), "scrolled": (True, False), "wide": (False, False)}


def test_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "chart.png"
    write_png(figure(title="Up to $5 and $6_{"), out)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 10_000


def test_png_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ParameterError, match="Matplotlib") as caught:
        write_png(figure(), tmp_path / "chart.png")
    assert caught.value.hint == "pip install 'sparseq[plot]'"
