"""docs/privacy-level.md: its numbers are those of the script, and the script's are right."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from benchmarks.privacy_level import PICTURE, drawing, percent, tables, zcdp_guess
from sparseq.accounting import gdp
from sparseq.base.defaults import KAPPA
from sparseq.pictures.figure import Sheet
from sparseq.pictures.image import image

PAGE = (Path(__file__).parents[2] / "docs" / "privacy-level.md").read_text("utf-8")


def test_the_page_has_the_tables_that_the_script_computes() -> None:
    for rows in tables().values():
        for row in rows:
            start = f"| {' | '.join(row)} |"
            assert any(line.startswith(start) for line in PAGE.splitlines()), start
    text = " ".join(PAGE.split())
    assert f"in at most {percent(zcdp_guess(KAPPA))} of the cases" in text
    assert f"right in {percent(1 / (1 + math.exp(-3)))} of the cases" in text


@pytest.mark.parametrize("mu", [0.1, 1.0, 2.0, 4.0])
def test_the_best_guess_is_that_of_the_total_variation(mu: float) -> None:
    assert gdp.best_guess(mu) == pytest.approx((1 + gdp.delta(0.0, mu)) / 2, rel=1e-9)
    # no threshold does better on the two Gaussians themselves
    cuts = np.linspace(-3, mu + 3, 2001)
    right = [NormalDist().cdf(c) / 2 + (1 - NormalDist(mu).cdf(c)) / 2 for c in cuts]
    assert max(right) == pytest.approx(gdp.best_guess(mu), abs=1e-6)


@pytest.mark.parametrize("before", [0.01, 0.5, 0.9])
def test_beliefs_are_right_on_average(before: float) -> None:
    """What somebody believes, averaged over both worlds, is what was believed before."""
    mu, lucks = 1.3, (np.arange(20_000) + 0.5) / 20_000
    inside = np.array([gdp.belief(before, mu, u) for u in lucks])
    odds = before / (1 - before)
    # a person who is out makes the same belief less often, by the likelihood ratio
    ratio = inside / (1 - inside) / odds
    assert before * inside.mean() + (1 - before) * (inside / ratio).mean() == pytest.approx(
        before, rel=2e-3
    )


def test_epsilon_bounds_what_odds_change_by_but_for_delta() -> None:
    mu = math.sqrt(2 * KAPPA)
    epsilon = gdp.epsilon(1e-6, mu)
    luck = NormalDist().cdf(epsilon / mu - mu / 2)
    assert gdp.belief(0.5, mu, luck) == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-9)
    assert 1e-6 < 1 - luck < 1e-5


@pytest.mark.deep
def test_the_picture_is_that_of_the_script() -> None:
    """Matplotlib names things anew each time: what is drawn is compared."""
    figure = drawing()
    drawn = image(Sheet(figure.title, [figure]), "svg").decode()
    paths = [re.findall(r' d="([^"]+)"', text) for text in (drawn, PICTURE.read_text())]
    assert sorted(paths[0]) == sorted(paths[1])
    assert PICTURE.stat().st_size < 50_000
