"""Each kind of answer has its chart: the same in a terminal, on a page and as an image."""

from __future__ import annotations

import datetime as dt
import doctest
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from browser import needs_browser, shoot
from rich.cells import cell_len

from sparseq.answers import chart_kinds
from sparseq.answers.answer_facts import Facts
from sparseq.answers.answer_figures import Drawing
from sparseq.answers.chart_kinds import answer_figure, chart_of
from sparseq.base.errors import ParameterError
from sparseq.pictures import axis_scales
from sparseq.pictures.figure import Figure, Sheet
from sparseq.pictures.image import image
from sparseq.pictures.page import html_page
from tests.answers.chart_examples import EXAMPLES, PICTURES, ROOT, figure_of, recorded

TABLES = recorded()
FIGURES = {name: figure_of(name, table) for name, table in TABLES.items()}
KINDS = {  # panels, series, what each series is drawn as
    "histogram": (1, 1, "bars"),
    "bins": (1, 1, "bars"),
    "funnel": (1, 1, "bars"),
    "measures": (2, 2, "bars"),
    "months": (1, 1, "line"),
    "weeks": (1, 1, "line"),
    "days": (1, 1, "line"),
    "cohorts": (1, 3, "line"),
    "bars": (1, 1, "bars"),
    "grouped": (1, 2, "bars"),
    "lines": (1, 3, "line"),
    "several": (2, 2, "line"),
}


def texts_of(svg: bytes) -> list[str]:
    """The texts of an image, in their order."""
    found = ElementTree.fromstring(svg.decode()).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(one.itertext()) for one in found]


def ticks(figure: Figure, most: int = 12) -> list[str]:
    """The labels of a figure's x axis."""
    return [label for _, label in figure.scales()[0].ticks(most)]


@pytest.mark.parametrize("module", [chart_kinds, axis_scales])
def test_docstring_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_every_example_has_a_kind() -> None:
    assert list(EXAMPLES) == list(KINDS) == list(FIGURES)


@pytest.mark.parametrize("name", KINDS)
def test_the_chart_of_each_kind(name: str) -> None:
    figure = FIGURES[name]
    looks = {s.look for s in figure.series}
    assert (len(figure.panels()), len(figure.series), *looks) == KINDS[name]
    table = TABLES[name]
    drawn = sum(len(s.x) for s in figure.series)
    noised = [n for n in table.column_names if f"{n}_low" in table.column_names]
    assert drawn == len(noised) * table.num_rows
    assert any("intervals contain the true value" in note for note in figure.notes)


@pytest.mark.parametrize("name", KINDS)
def test_the_documentation_has_the_figure(name: str) -> None:
    """Made by `python -m tests.answers.chart_examples`; look at it before you commit it."""
    pytest.importorskip("matplotlib")
    drawn = texts_of(image(Drawing(FIGURES[name]).sheet, "svg"))
    assert drawn == texts_of((PICTURES / f"{name}.svg").read_bytes())
    page = (ROOT / "docs" / "charts.md").read_text(encoding="utf-8")
    assert f"(pictures/charts/{name}.svg)" in page
    assert " ".join(EXAMPLES[name].sql.split()) in " ".join(page.split())


@pytest.mark.parametrize("name", KINDS)
def test_all_ways_of_drawing_say_the_same(name: str) -> None:
    """The title, the notes, the first tick of x, the names of groups."""
    pytest.importorskip("matplotlib")
    figure = FIGURES[name]
    page = html_page(Sheet(figure.title, [figure]))
    terminal = Drawing(figure).terminal(80)
    drawn = " ".join(texts_of(image(Sheet(figure.title, [figure]), "svg")))
    said = [figure.title, *(s.panel for s in figure.series)]
    said += [] if figure.is_single() else [s.name for s in figure.series]
    if figure.is_named:
        said += figure.places().tolist()
    else:
        said += ticks(figure)[:1]
    for text in said:
        for where in (page.replace("&#x27;", "'"), terminal, drawn):
            assert text in where
    for note in figure.all_notes():
        words = note.split()
        for where in (page, terminal, drawn):
            assert set(words) <= set(re.sub("<[^>]*>", " ", where).split())
    assert max(map(cell_len, terminal.splitlines())) <= 80


def test_a_histogram_has_bars_as_wide_as_its_bins() -> None:
    (bars,) = FIGURES["bins"].series
    assert bars.at.tolist() == [0, 10, 20, 50, 100]
    assert bars.edges[1].tolist() == [10, 20, 50, 100, 200]
    assert FIGURES["bins"].scales()[0].high == 200
    assert "Bins are not equally wide" in FIGURES["bins"].notes[0]
    assert "Bins" not in " ".join(FIGURES["histogram"].notes)
    rows = FIGURES["bins"].table().rows
    assert [row[0] for row in rows[:2]] == ["0 to 10", "10 to 20"]


def test_the_bars_of_an_image_are_as_wide_as_their_bins() -> None:
    """Measured in the drawing of the page, which has no layout of its own."""
    page = html_page(Sheet("t", [FIGURES["bins"]]))
    path = re.search(r'<path class="bars [^"]*" d="([^"]*)"', page[page.index("</clipPath>") :])
    assert path
    spans = [
        (float(a), float(b)) for a, b in re.findall(r"M([\d.]+) [\d.]+V[\d.]+H([\d.]+)", path[1])
    ]
    wide = np.array([b + 1 - a for a, b in spans])
    np.testing.assert_allclose(wide / wide[0], [1, 1, 3, 5, 10], rtol=0.05)


def test_ticks_stand_at_months_weeks_and_whole_numbers() -> None:
    assert ticks(FIGURES["months"])[:3] == ["Jan 1997", "Feb", "Mar"]
    assert ticks(FIGURES["months"], 6)[:3] == ["Jan 1997", "Mar", "May"]
    weeks = FIGURES["weeks"].scales()[0].ticks(8)
    assert [label for _, label in weeks][:2] == ["6 Jan 1997", "20 Jan"]
    assert {at for at, _ in weeks} <= set(FIGURES["weeks"].series[0].at.tolist())
    assert ticks(FIGURES["cohorts"], 30) == [str(k) for k in range(1, 13)]


def facts() -> Facts:
    return Facts(1, None, "", (), (), (), (), (), 1, 0.95, 0.5, 48.0, False, interval="assumed")


def lines(values: list[float], **keys: Any) -> Figure:
    n = len(values)
    found = {"day": [dt.date(2024, 1, 1) + dt.timedelta(days=k) for k in range(n)], **keys}
    table = pa.table({**found, "n": values, "n_error": [1.0] * n})
    return answer_figure(table, facts())


def test_zero_is_on_the_axis_or_a_note_says_where_it_begins() -> None:
    wide, narrow = lines([100.0, 200.0, 160.0]), lines([1000.0, 1002.0, 1001.0])
    assert wide.value_range()[0] == 0
    assert not any("begins at" in note for note in wide.all_notes())
    low = narrow.value_range()[0]
    assert low == 999
    assert "The axis begins at 999, not at 0." in narrow.all_notes()
    below = lines([-1000.0, -1002.0, -1001.0])
    assert "The axis begins at -999, not at 0." in below.all_notes()


@pytest.mark.parametrize(
    ("columns", "across", "names"),
    [
        ({"cohort": [1, 1, 2, 2], "months": [0, 1, 0, 1]}, "months", ["cohort 1", "cohort 2"]),
        (
            {"m": [dt.date(2024, k, 1) for k in (1, 1, 2, 2, 3, 3)], "g": ["a", "b"] * 3},
            "m",
            ["a", "b"],
        ),
        (
            {
                "first": [dt.date(2024, k, 1) for k in (1, 1, 1, 2, 2, 2)],
                "then": [dt.date(2024, k, 1) for k in (1, 2, 3) * 2],
            },
            "then",
            ["Jan 2024", "Feb 2024"],
        ),
    ],
)
def test_lines_are_over_the_longest_key(columns: Any, across: str, names: list[str]) -> None:
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "n": [1.0] * rows, "n_error": [1.0] * rows})
    figure = answer_figure(table, facts())
    assert figure.x.label == across
    assert [s.name for s in figure.series] == names
    assert len(figure.panels()) == 1


def many(keys: Any, groups: int = 12) -> pa.Table:
    """A table of two keys; later groups have larger values."""
    pairs = [(at, k) for at in keys for k in range(groups)]
    name = "d" if isinstance(keys[0], dt.date) else "a"
    columns = {name: [at for at, _ in pairs], "g": [f"g{k}" for _, k in pairs]}
    return pa.table({**columns, "n": [k + 1 for _, k in pairs], "n_error": [1.0] * len(pairs)})


@pytest.mark.parametrize(
    "keys", [[dt.date(2024, 1, d) for d in range(1, 15)], [f"a{k}" for k in range(14)]]
)
def test_of_more_groups_than_colours_the_largest_are_drawn(keys: list[Any]) -> None:
    """In one chart, and a note says so; the table has all."""
    figure = answer_figure(many(keys), facts())
    drawn = figure.readable()
    assert [s.name for s in drawn.series] == [f"g{k}" for k in range(4, 12)]
    assert len({s.color for s in drawn.series}) == 8
    assert len(figure.panels()) == len(drawn.panels()) == 1
    note = "8 of 12 groups are drawn: those with the largest values."
    page, terminal = html_page(Sheet("t", [figure])), Drawing(figure).terminal(80)
    assert note in page
    assert note in terminal
    legend, numbers = page.index('class="legend"'), page.index("The numbers")
    assert "g3<" not in page[legend:numbers]
    assert "g4<" in page[legend:numbers]
    assert all(f">g{k}<" in page[numbers:] for k in range(12))
    few = answer_figure(many(keys, 8), facts())
    assert few.readable() == few


def test_the_image_has_the_largest_groups_as_well() -> None:
    pytest.importorskip("matplotlib")
    figure = answer_figure(many([dt.date(2024, 1, d) for d in (1, 2)]), facts())
    svg = image(Sheet("t", [figure]), "svg")
    said = " ".join(texts_of(svg))
    assert "8 of 12 groups are drawn" in said
    assert "g4" in said
    assert "g3" not in said
    high = {
        text: float(y)
        for y, text in re.findall(
            r'<text[^>]* y="([\d.]+)"[^>]*>\s*([^<]*?)\s*</text>', svg.decode()
        )
    }
    title = next(y for text, y in high.items() if text.startswith("n by"))
    assert min(high[f"g{k}"] for k in range(4, 12)) > title + 10  # no name is over the title


def test_a_single_date_has_bars() -> None:
    assert answer_figure(many([dt.date(2024, 1, 1)], 2), facts()).is_named
    assert not answer_figure(many([dt.date(2024, 1, d) for d in (1, 2)], 2), facts()).is_named


def test_years_have_no_thousands_separator() -> None:
    years = pa.table({"year": [2019, 2020], "n": [3000, 4000], "n_error": [1.0, 1.0]})
    figure = answer_figure(years, facts())
    assert ticks(figure) == ["2019", "2020"]
    assert "4,000" in [label for _, label in figure.scales()[1].ticks(6)]


def test_a_panel_of_one_bar_says_its_name_once() -> None:
    text = Drawing(FIGURES["measures"]).terminal(80)
    assert text.count("average amount") == 1
    assert "<h3>" not in html_page(Sheet("t", [FIGURES["measures"]]))


def test_what_cant_be_lines_says_why() -> None:
    with pytest.raises(ParameterError, match="those of bins") as caught:
        answer_figure(TABLES["bins"], facts(), chart="lines")
    assert caught.value.hint == "draw it as bars"
    assert chart_of(TABLES["funnel"], "") == "bars"
    assert chart_of(TABLES["measures"], "") == "table"


@needs_browser
@pytest.mark.parametrize("width", [500, 1000])
def test_a_browser_shows_all_figures(width: int, tmp_path: Path) -> None:
    """Nothing is wider than the window, and each colour of the series is seen."""
    page = tmp_path / "a.html"
    shown = [FIGURES[name] for name in ("bins", "funnel", "cohorts")]
    for k, figure in enumerate(shown):
        page.write_text(html_page(Sheet("t", [figure])))
        seen = shoot(page, tmp_path / f"p{k}", width)
        blue = (seen[..., 2] > seen[..., 0] + 0.2).mean()
        assert 0.005 < blue < 0.5
        assert (seen[:, -8:, :3] > 0.6).mean() > 0.99
