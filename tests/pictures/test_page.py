"""The page is one well-formed file, safe for any text, with every number."""

from __future__ import annotations

import base64
import doctest
import hashlib
import html
import json
import re
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Page, browse, loosened, needs_browser, shoot
from sampled import one_in

from sparseq.pictures import page
from sparseq.pictures.figure import Axis, Figure, Mark, Series, Sheet
from sparseq.pictures.page import html_page
from sparseq.pictures.tables import Table

NASTY = "</script><script>alert(1)</script> & \"q\" 'a'"


def figure(n: int = 40, title: str = "Buyers", **changes: object) -> Figure:
    days = [date(2024, 1, 1) + timedelta(days=k) for k in range(n)]
    truth = 100 + np.arange(float(n))
    series = [
        Series("ours", days, truth + 1, 2.5),
        Series("worst", days, truth - 3, 20.0, "band", "orange"),
        Series("exact value", days, truth, look="dots", color="ink", exact=True),
    ]
    keywords = {"y": Axis("a day"), "notes": ["A note."], **changes}
    return Figure(title, series, **keywords)  # type: ignore[arg-type]


def paged(*figures: Figure) -> str:
    return html_page(Sheet(figures[0].title, figures))


def test_docstring_examples() -> None:
    assert doctest.testmod(page).failed == 0


def test_the_page_parses_and_has_all_numbers() -> None:
    parsed = Page(paged(figure()))
    cells, heads = parsed.text["td"], parsed.text["th"]
    assert heads[:4] == ["date", "ours", "worst", "exact value"]
    for k in range(40):
        assert heads[4 + k] == (date(2024, 1, 1) + timedelta(days=k)).isoformat()
        assert cells[3 * k : 3 * k + 3] == [f"{101 + k}.0 ± 2.5", f"{97 + k} ± 20", f"{100 + k}"]
    assert parsed.text["caption"] == ["Buyers"]
    assert parsed.text["h1"] == ["Buyers"]
    assert "A note." in parsed.text["p"]
    assert "The exact value is in the band of ours at 40 of 40 dates." in parsed.text["p"]


def test_the_page_needs_no_network() -> None:
    text = paged(figure())
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import|\bsrc=|\bhref=", text)
    policy = next(str(a["content"]) for t, a in Page(text).found if "http-equiv" in a)
    assert "default-src 'none'" in policy


def test_nothing_inline_runs_but_what_the_policy_names() -> None:
    text = html_page(Sheet("t", [figure(), figure()], "Mind.", Table(["a"], [["b"]], ["l"])))
    assert "unsafe" not in text
    assert not re.search(r"<[^>]*\s(style|on\w+)=", text)
    for kind in ("style", "script"):
        (inside,) = re.findall(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in text


def test_any_text_is_shown_as_text() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    table = Table([NASTY, NASTY], [[NASTY, NASTY]] * 2, ["l", "l"])
    nasty = Figure(
        NASTY,
        [Series(NASTY, days, np.ones(2), 1.0, panel=p) for p in ("", NASTY)],
        Axis(NASTY, unit=NASTY),
        Axis(NASTY, unit=NASTY),
        [Mark(1, NASTY)],
        [NASTY],
    )
    text = html_page(Sheet(NASTY, [nasty, figure(2)], NASTY, table, (NASTY, table)))
    assert "<script>alert" not in text
    assert text.count("</script>") == 4
    parsed = Page(text)
    for tag in ("h1", "h2", "h3", "title", "p", "th", "td", "text", "caption", "summary"):
        assert "".join(parsed.text[tag]).count(NASTY) >= 1
    assert next(a for t, a in parsed.found if "aria-label" in a)["aria-label"] == NASTY
    assert json.loads("".join(parsed.text["script"][:1]))["names"] == [NASTY]


def test_tooltips_show_value_and_bound() -> None:
    data = json.loads(Page(paged(figure())).text["script"][0])
    assert data["names"] == ["ours", "worst", "exact value"]
    assert data["rows"][0] == ["1 Jan 2024", "101.0 ± 2.5", "97 ± 20", "100"]
    assert len(data["x"]) == 40
    assert data["x"] == sorted(set(data["x"]))
    (line,) = Page(paged(figure())).paths("line blue s0")
    assert [float(x) for x, _ in re.findall(r"([\d.]+) ([\d.]+)", line)] == data["x"]


HOVER = """
const svg = document.querySelector("svg[role=img]"), box = svg.getBoundingClientRect();
const { x } = JSON.parse(document.querySelector(".data").textContent);
const said = x.map(at => {
  const clientX = box.left + at / svg.viewBox.baseVal.width * box.width;
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY: box.top + 9 }));
  return document.querySelector(".tip b").textContent;
});
document.title = said.join("|");
"""


@needs_browser
@pytest.mark.parametrize(
    "x",
    one_in(
        3,
        [
            [date(2024, 1, 1) + timedelta(k) for k in range(30)],
            np.arange("2024-01-01T00", "2024-01-02T06", dtype="datetime64[h]").astype(
                "datetime64[us]"
            ),
            np.arange(30.0),
        ],
    ),
    ids=["days", "hours", "numbers"],
)
def test_each_place_under_the_pointer_is_named(tmp_path: Path, x: Any) -> None:
    one = Figure("Buyers", [Series("ours", x, np.arange(30.0), 1.0)])
    path = tmp_path / "page.html"
    path.write_text(loosened(html_page(Sheet("Buyers", [one])), HOVER))
    title = re.search("<title>(.*?)</title>", browse(path, tmp_path / "profile"))
    assert title is not None
    assert title[1].split("|") == [tip[0] for tip in one.tips()]
    assert len(set(title[1].split("|"))) == 30


def named(names: int = 3, **changes: Any) -> Figure:
    x = [f"name {NASTY if k == 1 else k}" for k in range(names)]
    values = np.arange(float(names)) * 10 - 10
    ends = (values - 2, values + 10)
    return Figure("t", [Series("n", x, values, look="bars", ends=ends, **changes)])


def test_names_have_bars_as_long_as_their_values_and_intervals_about_them() -> None:
    parsed = Page(paged(named()))
    bars = [a for t, a in parsed.found if t == "rect" and a["class"] == "bars"]
    whiskers = [a for t, a in parsed.found if a.get("class") == "whisker" and a["y1"] == "50%"]
    low, high = named().value_range()

    def share(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    assert (low, high) == (-12.0, 20.0)
    assert [(b["x"], b["width"]) for b in bars] == [
        (share(-10), f"{1000 / 32:.2f}%"),
        (share(0), "0.00%"),
        (share(0), f"{1000 / 32:.2f}%"),
    ]
    assert [(w["x1"], w["x2"]) for w in whiskers] == [
        (share(10 * k - 12), share(10 * k)) for k in range(3)
    ]
    assert "-10.0 (-12.0 to 0.0)" in parsed.text["div"]
    assert f"name {NASTY}" in "".join(parsed.text["div"])


def test_many_names_are_drawn_up_to_a_hundred_and_all_are_in_the_table() -> None:
    parsed = Page(paged(named(130)))
    assert sum(t == "rect" for t, _ in parsed.found) == 100
    assert "The first 100 of 130 are drawn." in parsed.text["p"]
    assert sum(text.startswith("name") for text in parsed.text["th"]) == 130


HOVER_NAMES = """
const said = [...document.querySelectorAll(".of-name .bar")].map(bar => {
  bar.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
  return document.querySelector(".tip").textContent;
});
document.title = said.join("|");
"""


@needs_browser
def test_each_name_under_the_pointer_is_named_with_its_interval(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(loosened(paged(named()), HOVER_NAMES))
    title = re.search("<title>(.*?)</title>", browse(path, tmp_path / "profile"))
    assert title is not None
    assert html.unescape(title[1]).split("|") == [
        "".join([t[0], "n", t[1]]) for t in named().tips()
    ]


def test_a_rising_series_rises_inside_its_band() -> None:
    parsed = Page(paged(figure()))
    (line,) = parsed.paths("line blue s0")
    heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", line)]
    assert len(heights) == 40
    assert all(a > b for a, b in pairwise(heights))
    (band,) = parsed.paths("band blue s0")
    edge = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", band)]
    assert all(up < y < down for up, y, down in zip(edge[:40], heights, edge[:39:-1], strict=True))


def test_gaps_break_the_line_and_the_band() -> None:
    drawn = figure()
    drawn.series[0].values[10:20] = np.nan
    parsed = Page(paged(drawn))
    assert parsed.paths("line blue s0")[0].count("M") == 2
    assert parsed.paths("band blue s0")[0].count("M") == 2
    assert "nan" not in paged(drawn).lower()
    assert "–" in parsed.text["td"]


@pytest.mark.parametrize("values", [[5.0], [np.nan], [np.inf]])
def test_a_single_day(values: list[float]) -> None:
    Page(paged(Figure("t", [Series("a", [date(2024, 1, 1)], np.array(values), 1.0)])))


def test_a_series_on_other_days_has_blanks_in_the_table() -> None:
    first = Series("a", [date(2024, 1, 1), date(2024, 1, 2)], np.ones(2), 1.0)
    second = Series("b", [date(2024, 1, 2), date(2024, 1, 3)], np.ones(2), 1.0)
    rows = Figure("t", [first, second]).table().rows
    assert [row[2] for row in rows] == ["–", "1.0 ± 1.0", "1.0 ± 1.0"]


@needs_browser
@pytest.mark.parametrize("colors", ["light", pytest.param("dark", marks=pytest.mark.deep)])
def test_a_chart_wider_than_the_window_says_that_it_goes_on(tmp_path: Path, colors: str) -> None:
    """Its right edge is shaded in a narrow window; the left one is after scrolling to the end."""
    days = [date(2024, 1, 1) + timedelta(k) for k in range(60)]
    drawn = loosened(paged(Figure("Visits", [Series("a", days, np.arange(60.0), 8.0)])))
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


@pytest.mark.parametrize("n", [1, 12, 546, 5_000, 50_000])
def test_pages_have_a_bounded_size_and_keep_the_extremes(n: int) -> None:
    values = 100 + np.random.default_rng(n).normal(0, 5, n)
    values[n // 3], values[n // 2] = 200, -30
    days = [date(1900, 1, 1) + timedelta(days=k) for k in range(n)]
    text = paged(Figure("t", [Series("a", days, values, 2.0)]))
    assert len(text) < 400_000
    assert "200.0 ± 2.0" in text or n == 1
    assert "-30.0 ± 2.0" in text
    assert ("points are drawn" in text) == (n > 1_000)


def test_groups_are_small_charts_with_one_scale_and_one_legend() -> None:
    days = [date(2024, 1, 1) + timedelta(days=k) for k in range(9)]
    shared = [Series("n", days, np.arange(9.0) + 10 * k, 1.0, panel=f"g{k}") for k in range(3)]
    parsed = Page(paged(Figure("t", shared)))
    assert parsed.text["h3"] == ["g0", "g1", "g2"]
    assert sum(tag == "input" for tag, _ in parsed.found) == 1
    labels = [t for t in parsed.text["text"] if t.isdigit()]
    assert labels[: len(labels) // 3] * 3 == labels
    apart = [Series("n", days, np.arange(9.0) * 40**k, 1.0, panel=f"g{k}") for k in range(3)]
    assert "Each chart has a scale of its own." in Page(paged(Figure("t", apart))).text["p"]


def test_a_mark_and_a_unit_are_written_at_their_place() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    share = Series("share", days, np.array([99.0, 85.0]), 1.0)
    marks = [Mark(90, "alarm below 90 %")]
    parsed = Page(paged(Figure("t", [share], y=Axis(unit="%"), marks=marks)))
    lines = {a["class"]: a for t, a in parsed.found if t == "line"}
    at = {a["y"]: "" for t, a in parsed.found if t == "text"}
    assert "alarm below 90 %" in parsed.text["text"]
    assert "90 %" in parsed.text["text"]
    assert "85.0 ± 1.0 %" in parsed.text["td"]
    assert f"{float(str(lines['mark']['y1'])) + 4:.1f}" in at  # level with its label on the axis


def test_a_logarithmic_axis_gives_every_decade_the_same_height() -> None:
    x = np.arange(1.0, 5.0)
    parsed = Page(paged(Figure("t", [Series("a", x, 10.0**x)], y=Axis(scale="log"))))
    (line,) = parsed.paths("line blue s0")
    heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", line)]
    assert np.ptp(np.diff(heights)) < 0.3
    assert {"10", "100", "1,000", "10,000"} <= set(parsed.text["text"])


def test_no_band_is_drawn_where_nothing_was_measured() -> None:
    bound = np.array([1.0] * 4 + [np.nan] * 3 + [1.0])
    parsed = Page(paged(Figure("t", [Series("a", np.arange(8.0), np.arange(8.0), bound)])))
    (band,) = (b for b in parsed.paths("band blue s0") if b != "M0 1h26v12H0z")
    assert band.count("M") == 2
    (line,) = parsed.paths("line blue s0")
    assert line.count("M") == 1


@needs_browser
def test_a_browser_runs_it_under_its_own_policy(tmp_path: Path) -> None:
    """Boxes work, so the script has run; a script that the policy doesn't name has not."""
    path = tmp_path / "page.html"
    text = paged(figure()).replace('name="s1" autocomplete="off" checked', 'name="s1"')
    path.write_text(text.replace("</html>", "<script>document.title = 'evil'</script></html>"))
    seen = browse(path, tmp_path / "profile")
    assert 'class="no-s1"' in seen
    assert "<title>Buyers</title>" in seen
