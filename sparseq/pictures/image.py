"""Figures as files: a page, or a PNG or SVG by Matplotlib, the optional extra `plot`."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparseq.base.errors import ParameterError
from sparseq.base.whole_files import whole_file, writing
from sparseq.pictures.axis_scales import Scale
from sparseq.pictures.figure import Figure, Floats, Series, Sheet
from sparseq.pictures.page import html_page

_COLORS = {
    "blue": "#0b62d6",
    "orange": "#d96f0a",
    "green": "#1a7f37",
    "ink": "#1f2328",
    "purple": "#8250df",
    "red": "#c62828",
    "teal": "#0e7c86",
    "brown": "#8a5a2b",
}
_LONG = re.compile(rb"-?\d+\.\d{3,}")
_FAINT, _COLUMNS = "#59636e", 3
_HEAD, _LEGEND = 0.7, 0.2  # inches above each figure, for its title and one line of its legend
_IN_LEGEND = 4  # names in a line of a legend
_OVER = 0.22  # opacity of a band over others
_BANDS = 3  # most lines in one chart with a filled band; the bands of more are fainter
_NAME = 34  # letters in a line of a name next to its bar


def check_image() -> None:
    """Raise `ParameterError` if Matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ParameterError(
            "an image needs Matplotlib, which is not installed",
            "pip install 'sparseq[plot]', or take FILE.html",
        ) from error


KINDS = (".html", ".png", ".svg")
"""Endings of picture files."""


def picture_kind(path: Path, option: str = "--plot") -> str:
    """Return html, png or svg, from the file's name.

    Raises:
        ParameterError: The ending is not that of a picture.
    """
    check_place(path, KINDS, option)
    kind = path.suffix.lower()
    if kind != ".html":
        check_image()
    return kind[1:]


def check_place(path: Path, kinds: Sequence[str], option: str) -> None:
    """Raise `ParameterError` if a file has none of the endings, or its folder does not exist."""
    if path.suffix.lower() not in kinds:
        raise ParameterError(
            f"{option} {str(path)!r} has a suffix that is not known", ", ".join(kinds)
        )
    if not path.parent.is_dir():
        raise ParameterError(
            f"can't write {str(path)!r}: there is no folder {str(path.parent)!r}", "make it first"
        )


def render_file(sheet: Sheet, kind: str) -> str | bytes:
    """Return a picture as the content of a file."""
    return html_page(sheet) if kind == "html" else image(sheet, kind)


def write_picture(sheet: Sheet, path: Path) -> None:
    """Write a picture; a file appears whole or not at all.

    Raises:
        ParameterError: The ending is not that of a picture, or the file can't be written.
    """
    write_whole(path, render_file(sheet, picture_kind(path)))


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, which appears whole or not at all.

    Raises:
        ParameterError: It can't be written.
    """
    path = path.resolve()
    with contextlib.ExitStack() as stack:
        to = path
        if not path.exists() or path.is_file():  # neither a pipe, nor /dev/null
            to = stack.enter_context(whole_file(path))
        with writing(path):
            to.write_bytes(content.encode() if isinstance(content, str) else content)


def image(sheet: Sheet, kind: str = "png") -> bytes:
    """Return the figures below each other, as a `png` or `svg`.

    Raises `ParameterError` if Matplotlib is not installed.
    """
    check_image()
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    figures = [figure.readable() for figure in sheet.figures]
    head = textwrap.wrap(sheet.warning, 130)
    if len(sheet.figures) > 1 or not sheet.figures[0].title.startswith(sheet.title):
        head = [sheet.title, *head]
    heights = [
        0.2 * len(head) + (0.15 if head else 0.05),
        *(_head(f) + _height(f) for f in figures),
    ]
    canvas = Canvas(figsize=(10, sum(heights)), dpi=150, layout="constrained")
    top, *parts = canvas.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    top.text(0.01, 0.95, _plain("\n".join(head)), va="top", fontsize=10)
    for part, figure in zip(parts, figures, strict=True):
        _draw(part, figure)
    drawn = io.BytesIO()
    with rc_context({"svg.fonttype": "none"}):  # texts stay texts: small, and searchable
        canvas.savefig(drawn, format=kind, metadata={"Software" if kind == "png" else "Date": None})
    return _short(drawn.getvalue()) if kind == "svg" else drawn.getvalue()


def _short(svg: bytes) -> bytes:
    """Return a drawing with one path per line, in hundredths of a point."""

    def of_attribute(found: re.Match[bytes]) -> bytes:
        return b" ".join(_LONG.sub(lambda n: b"%.2f" % float(n[0]), found[0]).split())

    tags = re.compile(rb"<\w[^>]*>")
    return tags.sub(lambda tag: re.sub(rb'\b[dxy]="[^"]*"', of_attribute, tag[0]), svg)


def _head(figure: Figure) -> float:
    if figure.is_single():
        return _HEAD / 2
    return _HEAD + _LEGEND * (-(-len(figure.legend()) // _IN_LEGEND) - 1)


def _rows(figure: Figure) -> int:
    return -(-len(figure.panels()) // _columns(figure))


def _columns(figure: Figure) -> int:
    return min(len(figure.panels()), 2 if figure.is_named else _COLUMNS)


def _height(figure: Figure) -> float:
    if figure.is_named:
        most = max(len(part.places()) * len(part.series) for part in figure.panels().values())
        return _rows(figure) * (0.8 + 0.22 * most) + 0.6
    return 4.2 if len(figure.panels()) == 1 else 2.2 * _rows(figure) + 1.0


def _draw(part: Any, figure: Figure) -> None:
    panels = figure.panels()
    head, body = part.subfigures(2, 1, height_ratios=[_head(figure), _height(figure)])
    places = body.subplots(_rows(figure), _columns(figure), squeeze=False).ravel()
    for axes, (name, panel) in zip(places, panels.items(), strict=False):
        axes.set_title(_plain(figure.heading(name)), loc="left", fontsize=9)
        if panel.is_named:
            _names(axes, panel)
            continue
        faint = len(panel.series) > _BANDS
        for k, s in enumerate(panel.series):
            behind = s.look == "band" or k > 0
            _series(axes, s, 0.12 if faint else _OVER if behind else 0.4, s.name)
        _draw_frame(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    head.text(0.01, 0.95, _plain(figure.title), va="top", fontweight="bold")
    labels = {_plain(s.name): _plain(label) for label, s in figure.legend()}
    handles, names = places[0].get_legend_handles_labels()
    own = dict(zip(names, handles, strict=True))
    if not figure.is_single():
        names = [labels[n] for n in own]
        place: dict[str, Any] = {
            "loc": "lower left",
            "ncols": _IN_LEGEND,
            "frameon": False,
            "fontsize": 8,
        }
        head.legend(own.values(), names, **place)
    body.supylabel(_plain(figure.y.label), fontsize=8)
    notes = [line for note in figure.all_notes() for line in textwrap.wrap(note, 160)]
    body.supxlabel(_plain("\n".join(notes)), fontsize=7, color=_FAINT, x=0.01, ha="left")


def _series(axes: Any, s: Series, alpha: float, name: str) -> None:
    x = s.x
    color, label = _COLORS[s.color], _plain(name)
    is_faint = alpha < _OVER and s.look not in ("band", "dots", "bars")  # its line is in the legend
    if np.isfinite(s.bounds).any() and s.look not in ("dots", "bars"):
        axes.fill_between(
            x,
            *s.band,
            color=color,
            alpha=alpha,
            lw=0,
            label="" if is_faint else label,
            zorder=2 if s.look == "band" else 3,
        )
        label = label if is_faint else ""
    if s.look == "bars":
        _columns_with_intervals(axes, s, color, label)
    elif s.look == "dots":
        if np.isfinite(s.bounds).any():
            axes.errorbar(x, s.values, s.bounds, fmt="none", capsize=3, color=color)
        size = 5 if len(x) <= 40 else 1.8
        axes.plot(x, s.values, "o", color=color, markersize=size, zorder=5, label=label)
    elif s.look != "band":
        axes.plot(
            x,
            s.values,
            color=color,
            lw=1.2,
            label=label,
            zorder=4,
            ls="--" if s.look == "dashes" else "-",
            marker="o" if len(x) == 1 else None,
            drawstyle="steps-post" if s.look == "steps" else "default",
        )


def _columns_with_intervals(axes: Any, s: Series, color: str, label: str) -> None:
    """Draw bars over numbers or times, and their intervals in their middles."""
    starts, ends = s.edges
    if s.x.dtype.kind == "M":
        starts, ends = (part.astype("datetime64[s]") for part in (starts, ends))
    width = ends - starts
    gap = (ends[-1] - starts[0]) * 0.003
    axes.bar(starts, s.values, width - gap, align="edge", color=color, alpha=0.45, label=label)
    low, high = s.band
    middles = starts + width / 2
    axes.vlines(middles, low, high, color=_COLORS["ink"], lw=1)
    for end in (low, high):
        axes.plot(middles, end, "_", color=_COLORS["ink"], markersize=6)


def _names(axes: Any, figure: Figure) -> None:
    """Draw horizontal bars, a group for each name, the first at the top."""
    names = figure.places().tolist()
    wide = 0.8 / len(figure.series)
    for k, s in enumerate(figure.series):
        at = np.array([names.index(x) for x in s.x.tolist()]) + (k + 0.5) * wide - 0.4
        low, high = s.band
        whiskers = {"lw": 1, "color": _COLORS["ink"]}
        axes.barh(
            at, s.values, wide * 0.9, color=_COLORS[s.color], alpha=0.45, label=_plain(s.name)
        )
        axes.hlines(at, low, high, **whiskers)
        for end in (low, high):
            axes.vlines(end, at - wide / 5, at + wide / 5, **whiskers)
        for y, x, text in zip(at, np.fmax(high, s.values), s.texts(figure.y.unit), strict=True):
            place = max(float(x), 0.0) if np.isfinite(x) else 0.0
            axes.annotate(
                _plain(text),
                (place, y),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
    up = figure.scales()[1]
    axes.set_xlim(up.low, up.high + 0.3 * (up.high - up.low))  # room for the values
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [_plain(textwrap.fill(n, _NAME)) for n in names])
    _ticks(axes.xaxis, up, 5)
    axes.axvline(0, color=_FAINT, lw=0.8)
    axes.grid(alpha=0.3, axis="x")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_frame(axes: Any, figure: Figure) -> None:
    across, up = figure.scales()
    axes.margins(x=0.01)
    axes.set_ylim(up.low, up.high)
    axes.set_xlabel(_plain(figure.x.label), fontsize=8)
    for axis, scale, most in ((axes.xaxis, across, 8), (axes.yaxis, up, 6)):
        _ticks(axis, scale, most)
    for mark in figure.marks:
        (axes.axhline if mark.of == "y" else axes.axvline)(
            mark.at, color=_COLORS["red"], ls="--", lw=1
        )
        at: Floats = np.array([0.99, float(up.share(mark.at))])
        if mark.of == "x":
            at = np.array([float(across.share(mark.at)), 0.05])
        axes.text(
            *at,
            _plain(mark.label),
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            color=_COLORS["red"],
            fontsize=8,
        )
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _ticks(axis: Any, scale: Scale, most: int) -> None:
    """Set the same ticks as in the other renderers."""
    if scale.kind == "log":
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    at, texts = zip(*scale.ticks(most), strict=True)
    places = np.array(at)
    times = scale.kind in ("date", "moment")
    axis.set_ticks(places.astype("datetime64[s]") if times else places, map(_plain, texts))
    axis.set_ticks([], minor=True)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")
