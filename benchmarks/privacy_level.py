"""The meaning of a privacy level for one person: tables and picture of docs/privacy-level.md.

    python -m benchmarks.privacy_level          the tables
    python -m benchmarks.privacy_level --draw   the picture too, into docs/pictures

All of it is computed from the definition of mu-GDP (`sparseq.accounting.gdp`), not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from sparseq.accounting import gdp, zcdp
from sparseq.base.defaults import DELTA, KAPPA
from sparseq.pictures.bounded_numbers import upper
from sparseq.pictures.figure import Axis, Figure, Series, Sheet
from sparseq.pictures.image import image

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "belief.svg"
LEVELS = (0.005, 0.02, 0.05, 0.125, KAPPA, 1.0, 2.0, 5.0)
GROUPS = (1, 2, 3, 4, 5)
STORES = (1, 2, 4, 12)
LUCK = {"usually": 0.5, "1 time in 20": 0.95, "1 in a million": 1 - 1e-6}
DRAWN = (0.05, KAPPA, 2.0)

OTHERS = (
    (
        "US Census 2020, redistricting, persons",
        "a changed person, for good",
        "rho 2.56",
        "rho",
        2.56,
    ),
    ("Israel's live births of 2014", "a birth, for good", "epsilon 9.98", "epsilon", 9.98),
    (
        "LinkedIn Audience Engagement",
        "a member's month",
        "epsilon 34.9, delta 7e-9",
        "epsilon",
        34.9,
    ),
    ("LinkedIn hiring reports", "one hire in a month", "epsilon 4.8, delta 4e-10", "epsilon", 4.8),
    ("Google mobility reports", "a user's day", "epsilon 2.64", "epsilon", 2.64),
    ("Wikipedia's page views by country", "a device's day", "rho 0.015", "rho", 0.015),
    ("Apple's popular emojis, on the device", "one emoji", "epsilon 4", "epsilon", 4.0),
)
"""Of others: name, whom or what it protects, the level as it is published, and its kind."""

Row = list[str]


def tables() -> dict[str, list[Row]]:
    """Return the rows of each table, as they stand on the page."""
    return {
        "levels": list(levels()),
        "groups": list(groups()),
        "stores": [[str(n), f"{n * KAPPA:g}", *told(n * KAPPA)] for n in STORES],
        "others": [[*words, at_most(kind, level)] for *words, kind, level in OTHERS],
    }


def levels() -> Iterator[Row]:
    """Yield kappa, mu, epsilon, the best guess, and what 1 % becomes."""
    for kappa in LEVELS:
        mu = math.sqrt(2 * kappa)
        beliefs = [percent(gdp.belief(0.01, mu, luck)) for luck in LUCK.values()]
        bold = "**" if kappa == KAPPA else ""
        cells = [f"{kappa:g}", f"{mu:.2g}", upper(gdp.epsilon(DELTA, mu)), guessed(kappa), *beliefs]
        yield [f"{bold}{cell}{bold}" for cell in cells]


def groups() -> Iterator[Row]:
    """Yield a number of people, their joint kappa, and the kappa that protects them like one.

    For k people kappa-zCDP is k² kappa-zCDP (Bun & Steinke 2016, Proposition 1.9), and mu-GDP is
    k mu-GDP (Dong, Roth & Su 2022, Theorem 2.14).
    """
    for k in GROUPS:
        yield [
            str(k),
            f"{k * k * KAPPA:g}",
            *told(k * k * KAPPA),
            f"{math.floor(KAPPA / k**2 * 1000) / 1000:g}",
        ]


def told(kappa: float) -> Row:
    """Return epsilon and the best guess at a level."""
    return [upper(gdp.epsilon(DELTA, math.sqrt(2 * kappa))), guessed(kappa)]


def guessed(kappa: float) -> str:
    """Return how often the best guess is right."""
    return percent(gdp.best_guess(math.sqrt(2 * kappa)))


def at_most(kind: str, level: float) -> str:
    """Return how often the best guess is right under the level of another publication.

    For epsilon, e^epsilon / (1 + e^epsilon), which a delta hardly changes; a rho is assumed to be
    of Gaussian noise.
    """
    return guessed(level) if kind == "rho" else percent(1 / (1 + math.exp(-level)))


def zcdp_guess(kappa: float) -> float:
    """Return what no guess passes under kappa-zCDP alone: by Pinsker's inequality, or the other's.

    kappa-zCDP bounds the Kullback-Leibler divergence by kappa, so the total variation is at most
    sqrt(kappa / 2) (Pinsker) and sqrt(1 - e^-kappa) (Bretagnolle & Huber).
    """
    return (1 + min(math.sqrt(kappa / 2), math.sqrt(-math.expm1(-kappa)))) / 2


def percent(share: float) -> str:
    """Return a share as a percentage of two or three digits, never as 100 % where it is less."""
    digits = 0 if 0.1 <= share < 0.995 else 1
    if share >= 0.9995:
        return "over 99.9 %" if share < 1 else "100 %"
    return f"{100 * share:.{digits}f} %"


def drawing() -> Figure:
    """Return the picture: the chance given to a person's being in, before and after all answers."""
    before = 100 * np.linspace(0.03, 0.9999, 160) ** 3
    series = []
    for kappa in DRAWN:
        panel = f"kappa {kappa:g}" + (", the default" if kappa == KAPPA else "")
        lines = zip(LUCK.items(), ("blue", "orange", "red"), strict=True)
        for (name, luck), color in lines:
            mu = math.sqrt(2 * kappa)
            after = np.array([100 * gdp.belief(b / 100, mu, luck) for b in before])
            series.append(Series(name, before, after, color=color, panel=panel))
        series.append(
            Series("nothing learnt", before, before, look="dashes", color="ink", panel=panel)
        )
    return Figure(
        "How sure somebody can be that a person is in the data, after all answers",
        series,
        Axis("chance before", unit="%", low=0, high=100),
        Axis("chance after", unit="%", low=0, high=100),
    )


@click.command()
@click.option("--draw", is_flag=True, help="Draw the picture into docs/pictures.")
def main(draw: bool) -> None:
    """Print the tables; draw the picture."""
    for name, rows in tables().items():
        click.echo(f"\n{name}\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    click.echo(f"\nzCDP alone: at most {percent(zcdp_guess(KAPPA))}")
    click.echo(f"epsilon at {DELTA:g} by zCDP: {zcdp.epsilon(DELTA, KAPPA):.3f}")
    if draw:
        figure = drawing()
        PICTURE.write_bytes(image(Sheet(figure.title, [figure]), "svg"))


if __name__ == "__main__":
    main()
