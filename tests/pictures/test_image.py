"""Images show what the description says, with its own ticks and bounds."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from sparseq.base.errors import ParameterError
from sparseq.pictures.figure import Axis, Figure, Mark, Series, Sheet
from sparseq.pictures.image import image


def sheet() -> Sheet:
    x = np.arange(1.0, 41.0)
    looks = ("line", "band", "dashes", "steps", "dots")
    series = [Series(f"${look}", x, x * 10**k, 0.5 * x, look) for k, look in enumerate(looks)]  # type: ignore[arg-type]
    bars = Series("bars", x, x, look="bars")
    panels = [Series("n", x, x, 1.0, panel=f"g{k}") for k in range(4)]
    return Sheet(
        "Up to $5 and $6_{",
        [
            Figure("t", series, Axis("x", "log"), Axis("y", "log", "%"), [Mark(40, "m")], ["A $."]),
            Figure("u", [bars], marks=[Mark(5, "here", "x")]),
            Figure("v", panels),
        ],
        "Mind.",
    )


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_every_look_is_drawn(kind: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    drawn = image(sheet(), kind)
    assert drawn.startswith(start)
    assert len(drawn) > 10_000
    if kind == "svg":
        text = drawn.decode()
        ElementTree.fromstring(text)
        assert ">Up to $5 and $6_{</text>" in text
        assert max(map(len, re.findall(r"\.\d+", "".join(re.findall(r' d="([^"]*)"', text))))) == 3
        assert not re.search(r' d="[^"]*\n', text)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ParameterError, match="Matplotlib") as caught:
        image(sheet())
    assert "pip install 'sparseq[plot]'" in str(caught.value.hint)


@pytest.mark.parametrize("n", [1, 2])
def test_a_narrow_axis_has_ticks_all_the_same(n: int) -> None:
    pytest.importorskip("matplotlib")
    x = np.array([2.1, 2.2])[:n]
    figure = Figure("t", [Series("a", x, x)], Axis("x", "log"), Axis("y", "log"))
    across, up = figure.scales()
    assert across.ticks(5)
    assert up.ticks(5)
    assert image(Sheet("t", [figure])).startswith(b"\x89PNG")
