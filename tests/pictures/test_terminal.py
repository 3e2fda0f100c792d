"""Charts put values where they belong, fit where they must, and don't hide what they can't show."""

from __future__ import annotations

import doctest
import re
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from rich.cells import cell_len

from sparseq.base.errors import ParameterError
from sparseq.pictures import figure, terminal
from sparseq.pictures.axis_scales import date_ticks, log_ticks, value_ticks
from sparseq.pictures.figure import Axis, Figure, Look, Mark, Series
from sparseq.pictures.terminal import terminal_chart

GOLDEN = Path(__file__).parent / "golden" / "terminal.txt"
START = date(2024, 1, 1)


def days(n: int) -> list[date]:
    return [START + timedelta(days=k) for k in range(n)]


def series(values: ArrayLike, bound: float = 1.0, name: str = "ours") -> Series:
    y = np.asarray(values, dtype=np.float64)
    if name == "ours":
        return Series(name, days(len(y)), y, bound)
    return Series(name, days(len(y)), y, bound, "band", "orange")


def draw(*drawn: Series, width: int = 60, height: int = 16, color: bool = False) -> str:
    return terminal_chart(Figure("Title", list(drawn), y=Axis("unit")), width, height, color)


def dots(text: str) -> np.ndarray:
    """The braille dots right of the value axis, as rows from the top."""
    lines = [
        re.split("[│┤]", line, maxsplit=1)[1]
        for line in text.splitlines()
        if "└" not in line and re.search("[│┤]", line)
    ]
    width = max(map(len, lines), default=0)
    out = np.zeros((4 * len(lines), 2 * width), dtype=bool)
    for r, line in enumerate(lines):
        for c, char in enumerate(line):
            bits = ord(char) - 0x2800 if char != " " else 0
            for k, bit in enumerate((1, 2, 4, 64, 8, 16, 32, 128)):
                out[4 * r + k % 4, 2 * c + k // 4] = bool(bits & bit)
    return out


def named(names: int = 3) -> Figure:
    x = [f"a rather long name {k}" for k in range(names)]
    values = np.arange(float(names)) * 1000
    ends = (values - 200, values + 400)
    return Figure("t", [Series(n, x, values, look="bars", ends=ends) for n in ("one", "two")])


@pytest.mark.parametrize("width", [40, 60, 100])
def test_bars_fit_and_end_where_their_values_are(width: int) -> None:
    """Their lengths are in proportion at every width; with little room, names go above."""
    lines = terminal_chart(named(), width).splitlines()
    assert max(map(len, lines)) <= width
    bars = [line.count("█") + line.count("▓") for line in lines if "(" in line]
    assert len(bars) == 6
    assert bars[4] == pytest.approx(2 * bars[2], abs=2)
    assert sum("long name" in line for line in lines) == 3
    assert sum("2,000 (1,800 to 2,400)" in line for line in lines) == 2


@pytest.mark.parametrize("module", [terminal, figure])
def test_docstring_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@given(
    st.lists(
        st.floats(min_value=-1e150, max_value=1e150) | st.just(float("nan")),
        min_size=1,
        max_size=400,
    ),
    st.floats(0, 1e6),
    st.integers(30, 160),
    st.integers(8, 50),
)
@settings(max_examples=60, deadline=None)
def test_any_series_fits_its_size(
    values: list[float], bound: float, width: int, height: int
) -> None:
    text = draw(
        series(values, bound), series(values, 4 * bound, "worst"), width=width, height=height
    )
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert next(k for k, line in enumerate(lines) if "└" in line) + 2 <= height
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in lines)


def test_colour_adds_nothing_but_colour() -> None:
    drawn = series(np.arange(50.0), 3.0), series(np.arange(50.0), 20.0, "worst")
    painted = draw(*drawn, color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == draw(*drawn)
    assert painted.count("\x1b[38;5;33m") > 5
    assert painted.count("\x1b[38;5;208m") > 5


def test_a_constant_series_is_a_flat_line() -> None:
    drawn = dots(draw(series([7.0] * 40, bound=0.0)))
    rows = np.flatnonzero(drawn.any(axis=1))
    assert len(rows) == 1
    assert drawn[rows[0]].all()


def test_a_rising_series_rises() -> None:
    drawn = dots(draw(series(np.linspace(0, 100, 40), bound=0.0)))
    tops = drawn.argmax(axis=0)
    assert drawn.any(axis=0).all()
    assert (np.diff(tops) <= 0).all()
    assert tops[0] - tops[-1] > 0.8 * len(drawn)


@pytest.mark.parametrize("value", [0, 20, 40, 60])
def test_a_value_is_level_with_its_label(value: float) -> None:
    text = draw(series([0.0] * 20 + [value] * 20 + [60.0] * 20, bound=0.0), width=70, height=20)
    line = next(x for x in text.splitlines() if re.match(rf"\s*{value} ┤", x))
    middle = line.partition("┤")[2][30:34]
    assert re.fullmatch("[\u2801-\u28ff]{4}", middle), text


def test_a_wide_band_is_wider_than_a_narrow_one_and_looks_different() -> None:
    steps = [0.0] * 30 + [500.0] * 30
    drawn = dots(draw(series(steps, 15.0), series(steps, 90.0, "worst"), height=30))
    pair = drawn[:, 10:12]
    ours, either = pair.all(axis=1).sum(), pair.any(axis=1).sum()
    assert ours >= 3
    assert either > 4 * ours


def test_a_thick_band_leaves_the_line_visible() -> None:
    drawn = dots(draw(series([50.0] * 60, 40.0), height=30))
    assert (drawn.mean(axis=1) == 1.0).sum() == 1


def test_gaps_stay_empty() -> None:
    values = np.arange(50.0)
    values[20:30] = np.nan
    drawn = dots(draw(series(values, 0.5), width=56)).any(axis=0)
    assert not drawn[44:56].any()
    assert drawn[:36].all()
    assert drawn[64:].all()


def test_nothing_but_gaps_is_an_empty_chart() -> None:
    assert not dots(draw(series([np.nan] * 5))).any()


def test_a_single_day_is_in_the_middle() -> None:
    columns = np.flatnonzero(dots(draw(series([5.0]))).any(axis=0))
    assert len(columns) == 1
    assert 50 <= columns[0] <= 60


def test_the_worst_case_is_cut_rather_than_flatten_ours() -> None:
    text = draw(series(np.arange(30.0), 1.0), series(np.arange(30.0), 1e6, "worst"))
    assert "The band of worst is taller than the chart." in text
    line = dots(text).all(axis=0)
    assert not line.any()


def test_long_series_show_means_and_say_so() -> None:
    daily = np.tile([0.0] * 6 + [70.0], 78)
    text = draw(series(daily, 0.0), width=100)
    assert "Points are means over 7 days; bands are those of single answers." in text
    assert (dots(text).sum(axis=0) == 1).mean() > 0.9  # the weekly mean is flat


def test_means_hold_the_bound_and_skip_gaps() -> None:
    noisy = Series("a", days(14), np.array([1.0] * 6 + [np.nan] + [3.0] * 7), np.arange(14.0))
    (weekly,) = Figure("t", [noisy]).means(5).series
    assert weekly.x.tolist() == [date(2024, 1, 4), date(2024, 1, 11)]
    np.testing.assert_allclose(weekly.values, [1.0, 3.0])
    np.testing.assert_allclose(weekly.bounds, [2.5, 10.0])
    assert Figure("t", [noisy]).means(14).series[0] is noisy


def test_the_truth_is_counted_in_the_bands() -> None:
    exact = Series("exact", days(3), np.array([1.0, 3.0, 3.0]), exact=True)
    drawn = Figure("t", [series([1.0, 2.0, 9.0], 1.0), exact])
    assert "The exact value is in the band of ours at 2 of 3 dates." in terminal_chart(drawn)


def test_control_characters_do_not_reach_the_terminal() -> None:
    drawn = Figure(
        "a\x1b[2Jb",
        [series([1.0], name="\x07")],
        Axis("\x1b[5n"),
        Axis("u\n", unit="\x1b[7m"),
        [Mark(1, "\x1b[3J")],
        ["\x1b]0;x"],
    )
    text = terminal_chart(drawn)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_long_names_are_cut() -> None:
    text = draw(series([1.0, 2.0], name="x" * 99), series([1.0, 2.0], name="東" * 99), width=40)
    assert max(map(cell_len, text.splitlines())) <= 40
    assert text.count("…") == 2


@pytest.mark.parametrize(("width", "height"), [(29, 20), (80, 7)])
def test_a_size_too_small_is_refused(width: int, height: int) -> None:
    with pytest.raises(ParameterError, match="too few"):
        draw(series([1.0]), width=width, height=height)


def test_data_that_do_not_agree_are_refused() -> None:
    with pytest.raises(ParameterError, match="'a' does not have one value"):
        Series("a", days(2), np.ones(1), 1.0)
    with pytest.raises(ParameterError, match="nothing to draw"):
        Figure("t", [])


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(2, 12))
def test_value_ticks_are_few_round_and_in_range(low: float, span: float, most: int) -> None:
    high = low + span
    if not high - low > 1e-9 * max(abs(low), abs(high)):
        return
    ticks = value_ticks(low, high, most)
    assert len(ticks) <= most
    assert all(low - 1e-6 * span <= t <= high + 1e-6 * span for t in ticks)
    if len(ticks) > 1:
        assert f"{ticks[1] - ticks[0]:.0e}"[0] in "125"


@given(st.dates(date(1900, 1, 1), date(2200, 1, 1)), st.integers(0, 30_000), st.integers(1, 20))
def test_date_ticks_are_few_and_in_range(first: date, span: int, most: int) -> None:
    last = first + timedelta(days=span)
    ticks = date_ticks(first, last, most)
    assert len(ticks) <= most + 1
    assert all(first <= day <= last for day, _ in ticks)
    assert all(str(day.year) in label for day, label in ticks[:1])


@given(st.floats(1e-9, 1e9), st.floats(1.5, 1e12), st.integers(2, 12))
def test_logarithmic_ticks_are_few_round_and_in_range(low: float, ratio: float, most: int) -> None:
    ticks = log_ticks(low, low * ratio, most)
    assert len(ticks) <= most
    assert all(low * 0.999 <= t <= low * ratio * 1.001 and f"{t:.0e}"[0] in "1235" for t in ticks)


@pytest.mark.parametrize("look", ["line", "dashes", "steps", "bars", "dots"])
@pytest.mark.parametrize("n", [1, 12, 546, 5_000])
@pytest.mark.parametrize("width", [80, 200])
def test_every_look_fits(look: Look, n: int, width: int) -> None:
    x = np.arange(float(n))
    text = terminal_chart(Figure("t", [Series("a", x, np.sqrt(x), 0.1, look)]), width, 20)
    assert max(map(cell_len, text.splitlines())) <= width
    assert re.search("[\u2801-\u28ff]", text.split("\n", 2)[2])


def test_bars_stand_on_zero() -> None:
    bars = Series("n", np.arange(10.0), np.arange(10.0) + 1, 0.0, "bars")
    drawn = dots(terminal_chart(Figure("t", [bars]), 60, 16))
    foot = np.flatnonzero(drawn.any(axis=1))[-1]
    assert drawn[foot].mean() > 0.9
    assert drawn[:, -20:].sum() > 4 * drawn[:, :20].sum()


def test_curves_have_a_mark_each_and_panels_a_chart_each() -> None:
    x = np.geomspace(1, 100, 40)
    curves = [Series(name, x, x**k) for k, name in ((1, "one"), (2, "two"))]
    text = terminal_chart(Figure("t", curves, Axis("x", "log"), Axis("y", "log")), 60, 16)
    assert "● one   ○ two" in text
    assert "y, by x" in text
    assert text.count("●") > 20
    assert text.count("○") > 20
    panels = [Series("n", x, x, 1.0, panel=name) for name in ("first", "second")]
    text = terminal_chart(Figure("t", panels), 60, 16)
    assert text.count("└") == 2
    assert re.findall("^(first|second)$", text, re.M) == ["first", "second"]


def test_golden() -> None:
    """Made by `python tests/pictures/test_terminal.py`; look at it before you commit it."""
    assert golden() == GOLDEN.read_text(encoding="utf-8")


def golden() -> str:
    rng = np.random.default_rng(0)
    truth = 60 + 20 * np.sin(np.arange(90) / 9)
    ours = Series("sparseq", days(90), truth + rng.normal(0, 3, 90), 5.88)
    worst = Series(
        "worst-case composition", days(90), truth + rng.normal(0, 10, 90), 19.6, "band", "orange"
    )
    exact = Series("exact value", days(90), truth, look="dots", color="ink", exact=True)
    drawn = Figure("Buyers", [ours, worst, exact], y=Axis("a day"), notes=["Made-up numbers."])
    return terminal_chart(drawn, 72, 16) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(golden(), encoding="utf-8")
