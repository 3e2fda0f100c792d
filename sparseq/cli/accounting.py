"""`sparseq accounting`: conversion and comparison of guarantees, without a store."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import filters, gdp, odometers, rdp, zcdp
from sparseq.accounting._numbers import in_range
from sparseq.accounting._safe_floats import round_down, sqrt_up
from sparseq.accounting.odometers import ODOMETER_START, LecuyerOdometer
from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.base.errors import ParameterError
from sparseq.base.json_text import json_text
from sparseq.cli.budget_curves import curve_facts, curve_table, curves_of, named_curves
from sparseq.cli.options import Group, facts_format_option, file_option
from sparseq.cli.text import label_lines, say, terminal_width
from sparseq.pictures.bounded_numbers import MISSING, number, percent, upper
from sparseq.pictures.figure import Sheet
from sparseq.pictures.image import write_picture
from sparseq.pictures.tables import format_table
from sparseq.pictures.terminal import terminal_chart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Facts = dict[str, Any]
SENSIBLE = 2.0**-200, 2.0**200
ORDER_SETS = ("default", "text", "code", "dyadic")

delta_option = click.option(
    "--delta",
    type=float,
    default=DELTA,
    metavar="D",
    help=f"The failure probability at which epsilon is stated. Default: {DELTA_TEXT}.",
)


@click.group(
    cls=Group,
    short_help="Convert and compare guarantees; no store needed.",
    subcommand_metavar="COMMAND [ARGS]...",
)
def accounting() -> None:
    """Convert and compare guarantees. Needs no store and reads no data.

    \b
    Examples:
      sparseq accounting convert --kappa 0.5
      sparseq accounting odometer --noise 1 --batch 512 --examples 50000 --epochs 20
      sparseq accounting curve --gaussian 2 --laplace 1
      sparseq accounting compare --epsilon 1
    """


@accounting.command(short_help="kappa, mu and epsilon, one from the other.")
@click.option("--kappa", type=float, metavar="K", help="Start from kappa-zCDP.")
@click.option("--mu", type=float, metavar="MU", help="Start from mu-GDP.")
@click.option(
    "--sigma", type=float, metavar="S", help="Start from the noise of a query of scale 1."
)
@click.option(
    "--norm-budget",
    type=float,
    metavar="B",
    help="What a person may spend, in full contributions; goes with --sigma.",
)
@click.option(
    "--epsilon", type=float, metavar="E", help="Start from epsilon at --delta, by way of GDP."
)
@delta_option
@facts_format_option
def convert(
    kappa: float | None,
    mu: float | None,
    sigma: float | None,
    norm_budget: float | None,
    epsilon: float | None,
    delta: float,
    format: str,
) -> None:
    """Show one guarantee in all its forms: kappa (zCDP), mu (GDP), epsilon at a delta.

    GDP holds while every mechanism is an unsubsampled Gaussian, zCDP for all mechanisms.

    \b
    Examples:
      sparseq accounting convert --kappa 0.5 --delta 1e-6
      sparseq accounting convert --mu 1
      sparseq accounting convert --sigma 20 --norm-budget 400
      sparseq accounting convert --epsilon 2 --delta 1e-9 --format json
    """
    starts = {"--kappa": kappa, "--mu": mu, "--sigma": sigma, "--epsilon": epsilon}
    if len([name for name, value in starts.items() if value is not None]) != 1:
        raise click.UsageError("give one of --kappa, --mu, --epsilon, or --sigma and --norm-budget")
    if (sigma is None) != (norm_budget is None):
        raise click.UsageError("--sigma and --norm-budget go together")
    facts = converted(kappa, mu, sigma, norm_budget, epsilon, delta)
    say(json_text(facts) if format == "json" else convert_text(facts))


def converted(
    kappa: float | None,
    mu: float | None,
    sigma: float | None,
    norm_budget: float | None,
    epsilon: float | None,
    delta: float,
) -> Facts:
    """Return the guarantee as plain data, rounded to the safe side of the given value."""

    more: Facts = {}
    if sigma is not None and norm_budget is not None:
        variance = Fraction(in_range("sigma", sigma, *SENSIBLE)) ** 2
        budget = in_range("norm_budget", norm_budget, *SENSIBLE)
        kappa = -round_down(-Fraction(budget) / (2 * variance))
        more = {"sigma": sigma, "norm_budget": norm_budget}
    if epsilon is not None:
        mu = gdp.mu(epsilon, delta)
        kappa = round_down(Fraction(mu) ** 2 / 2)
        more = {"epsilon": epsilon, "kappa_zcdp": zcdp.rho(epsilon, delta)}
    elif mu is not None:
        mu = in_range("mu", mu, *SENSIBLE)
        kappa = -round_down(-(Fraction(mu) ** 2) / 2)
    elif kappa is not None:
        kappa = in_range("kappa", kappa, *SENSIBLE)
        mu = sqrt_up(2 * Fraction(kappa))
    else:
        raise ParameterError("nothing to convert", "give kappa, mu, epsilon, or sigma and a budget")
    return {
        "kappa": kappa,
        "mu": mu,
        "delta": delta,
        "epsilon_zcdp": zcdp.epsilon(delta, kappa),
        "epsilon_gdp": gdp.epsilon(delta, mu),
        "right_guess": gdp.best_guess(mu),
        **more,
    }


def convert_text(facts: Facts) -> str:
    """Return the guarantee in words."""
    at = f"at delta {_power(facts['delta'])}"
    lines = [
        ("kappa", f"{number(facts['kappa'])} (zCDP)"),
        ("mu", f"{number(facts['mu'])} (GDP, while every mechanism is a Gaussian)"),
        ("epsilon", f"{upper(facts['epsilon_gdp'], 4)} {at}, by GDP"),
        ("", f"{upper(facts['epsilon_zcdp'], 4)} {at}, by zCDP"),
    ]
    if "sigma" in facts:
        spends = f"norm_budget {number(facts['norm_budget'])}, sigma {number(facts['sigma'])}"
        lines.insert(0, ("from", f"{spends} at scale 1: kappa = norm_budget / (2 sigma²)"))
    if "kappa_zcdp" in facts:
        lines.append(("", f"for that epsilon by zCDP alone, kappa is {facts['kappa_zcdp']:.5g}"))
    guess = percent(round(facts["right_guess"], 3))
    lines.append(("guess", f"whether somebody is in the data: {guess} are right, of a coin 50 %"))
    return label_lines(lines)


@accounting.command(short_help="Epsilon of training that may stop at any time.")
@click.option(
    "--noise",
    type=float,
    required=True,
    metavar="S",
    help="Noise of a step, as a multiple of the clipping norm.",
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    required=True,
    metavar="N",
    help="Examples in a step, on average (Poisson sampling).",
)
@click.option(
    "--examples", type=click.IntRange(2), required=True, metavar="N", help="Examples in all."
)
@click.option(
    "--epochs",
    type=click.IntRange(0),
    required=True,
    metavar="N",
    help="How long it has trained; an epoch is examples / batch steps, rounded up.",
)
@delta_option
@click.option(
    "--orders",
    type=click.Choice(ORDER_SETS),
    default="default",
    show_default=True,
    help="Rényi orders: ours; those of the paper's text or of its code; 2, 4, 8, … examples².",
)
@click.option(
    "--start",
    type=float,
    metavar="X",
    help="Size of the first filters, 1 in the paper's text. Default: a quarter, as in its code.",
)
@facts_format_option
def odometer(
    noise: float,
    batch: int,
    examples: int,
    epochs: int,
    delta: float,
    orders: str,
    start: float | None,
    format: str,
) -> None:
    """Show the spending of private gradient descent: with free stopping, and as planned.

    The odometer (Lécuyer 2021) holds at any time and for any reason of stopping. Plain RDP holds
    only if the number of epochs was fixed beforehand.

    \b
    Examples:
      sparseq accounting odometer --noise 1 --batch 512 --examples 50000 --epochs 20 --delta 1e-6
      sparseq accounting odometer --noise 1 --batch 512 --examples 50000 --epochs 20
          --orders code --start 0.25 --format json
    """
    facts = odometer_facts(noise, batch, examples, epochs, delta, orders, start)
    say(json_text(facts) if format == "json" else odometer_text(facts))


def odometer_facts(
    noise: float,
    batch: int,
    examples: int,
    epochs: int,
    delta: float,
    orders: str,
    start: float | None,
) -> Facts:
    """Return both epsilons as plain data."""

    if batch > examples:
        raise ParameterError(f"batch is {batch}; it must be in [1, {examples}]: the examples")
    reading = LecuyerOdometer(
        delta, order_set(orders, examples), ODOMETER_START if start is None else start
    )
    rate, steps = batch / examples, epochs * -(-examples // batch)
    plain = steps * rdp.subsampled_gaussian(rate, noise, rdp.DEFAULT_ORDERS)
    if steps:
        reading.step(rdp.subsampled_gaussian(rate, noise, reading.orders), steps)
    return {
        "noise": noise,
        "batch": batch,
        "examples": examples,
        "epochs": epochs,
        "rate": rate,
        "steps": steps,
        "delta": delta,
        "epsilon_odometer": reading.epsilon(),
        "epsilon_rdp": rdp.epsilon(plain, rdp.DEFAULT_ORDERS, delta),
        "epsilon_rdp_mironov": rdp.epsilon_mironov(plain, rdp.DEFAULT_ORDERS, delta),
        "order_odometer": reading.best_order(),
        "orders": reading.orders.size,
        "start": reading.start,
    }


def order_set(name: str, examples: int) -> NDArray[np.float64]:
    """Return the orders of an option's name."""

    sets = {
        "default": odometers.ODOMETER_ORDERS,
        "text": odometers.TEXT_ORDERS,
        "code": odometers.CODE_ORDERS,
    }
    return sets[name] if name in sets else odometers.dyadic_orders(examples)


def odometer_text(facts: Facts) -> str:
    """Return both epsilons in words."""
    lines = [
        (
            "steps",
            f"{facts['steps']:,} in {facts['epochs']:,} epochs, each with noise "
            f"{number(facts['noise'])} on a sample of {percent(facts['rate'])}",
        ),
        (
            "odometer",
            f"epsilon {upper(facts['epsilon_odometer'])} at delta "
            f"{_power(facts['delta'])}, stopped at any time, for any reason",
        ),
        (
            "planned",
            f"epsilon {upper(facts['epsilon_rdp'])} by RDP, if the number of epochs was "
            f"fixed beforehand\n({upper(facts['epsilon_rdp_mironov'])} by Mironov's "
            "conversion)",
        ),
    ]
    return label_lines(lines)


@accounting.command(short_help="Draw Rényi budget curves.")
@click.option(
    "--gaussian",
    type=float,
    multiple=True,
    metavar="S",
    help="A Gaussian of this deviation, at sensitivity 1. Repeatable, as are all curves.",
)
@click.option(
    "--laplace", type=float, multiple=True, metavar="B", help="Laplace noise of this scale."
)
@click.option(
    "--response",
    type=float,
    multiple=True,
    metavar="P",
    help="Randomised response that is true with probability P.",
)
@click.option(
    "--pure", type=float, multiple=True, metavar="E", help="The worst mechanism of pure epsilon E."
)
@click.option(
    "--sampled",
    type=(float, float),
    multiple=True,
    metavar="Q S",
    help="A Gaussian of deviation S on a Poisson sample of rate Q.",
)
@click.option(
    "--orders",
    "span",
    type=(float, float),
    default=(1.1, 128.0),
    metavar="LOW HIGH",
    help="Range of Rényi orders. Default: 1.1 128.",
)
@delta_option
@file_option("--plot", help="Draw into FILE: .html, .png or .svg.")
@facts_format_option
def curve(
    gaussian: tuple[float, ...],
    laplace: tuple[float, ...],
    response: tuple[float, ...],
    pure: tuple[float, ...],
    sampled: tuple[tuple[float, float], ...],
    span: tuple[float, float],
    delta: float,
    plot: Path | None,
    format: str,
) -> None:
    """Draw the Rényi divergence that mechanisms allow at each order, on logarithmic axes.

    Without options: a Gaussian, Laplace noise and randomised response, of comparable epsilon.

    \b
    Examples:
      sparseq accounting curve
      sparseq accounting curve --gaussian 2 --laplace 1 --delta 1e-9
      sparseq accounting curve --sampled 0.01 1 --sampled 0.01 2 --orders 1.5 32 --plot rdp.svg
    """

    if not (gaussian or laplace or response or pure or sampled):
        gaussian, laplace, response = (1.0,), (1.0,), (0.75,)
    named = named_curves(gaussian, laplace, response, pure, sampled, span)
    figure = curves_of(named)
    if plot is not None:
        write_picture(Sheet(figure.title, [figure]), plot)
    if format == "json":
        say(json_text(curve_facts(named, delta)))
        return
    width = min(terminal_width() or 80, 100)
    table = curve_table(named, delta, f"epsilon at delta {_power(delta)}, by these orders")
    say(f"{terminal_chart(figure, width, 20)}\n\n{table}")


@accounting.command(short_help="How many queries each filter admits.")
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    metavar="E",
    help="The target that every filter keeps, with --delta.",
)
@delta_option
@click.option(
    "--sigma",
    type=float,
    default=100.0,
    show_default=True,
    metavar="S",
    help="Noise of a Gaussian query, at sensitivity 1.",
)
@click.option(
    "--query-epsilon",
    type=float,
    default=0.01,
    show_default=True,
    metavar="E",
    help="Epsilon of a query that is differentially private without a delta.",
)
@facts_format_option
def compare(epsilon: float, delta: float, sigma: float, query_epsilon: float, format: str) -> None:
    """Count how many equal queries each privacy filter admits, at one target for all.

    Next to each number is the number by the paper's own formula, where it has one.

    \b
    Examples:
      sparseq accounting compare
      sparseq accounting compare --epsilon 2 --delta 1e-9 --sigma 50 --format json
    """

    found = filters.compare(epsilon, delta, sigma, query_epsilon)
    if format == "json":
        facts = {"epsilon": epsilon, "delta": delta, "sigma": sigma}
        rules = [asdict(one) for one in found]
        say(json_text(facts | {"query_epsilon": query_epsilon, "rules": rules}))
        return
    rows = [
        [one.rule, *map(_count, (one.gaussian, one.paper_gaussian, one.pure, one.paper_pure))]
        for one in found
    ]
    titles = [
        "filter",
        f"Gaussian, sigma {number(sigma)}",
        "paper",
        f"pure, epsilon {number(query_epsilon)}",
        "paper",
    ]
    say(format_table(titles, rows, ["l", "r", "r", "r", "r"]))


def _count(queries: int | None) -> str:
    return MISSING if queries is None else f"{queries:,}"


def _power(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")
