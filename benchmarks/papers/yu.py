"""What private SGD costs each class of MNIST, beside how well the class is served: Yu et al.

    python -m benchmarks.papers.yu --data FOLDER --figure FOLDER --format json

Yu, Kamath, Kulkarni, Liu, Yin & Zhang (2023) report every example's own epsilon along the models
that a run has released, and find that groups with worse accuracy also have larger epsilons: on
CIFAR-10, the average epsilon of the class with the lowest test accuracy is 44.2 % above that of the
class with the highest. CIFAR-10 and UTK-Face are not to be had here, so this is MNIST, by softmax
regression on images scaled to length 1. FOLDER has the files of `benchmarks.papers.mnist_data`.

Two reports of the same setting: `bound` cuts every gradient to the norm that it is charged for, so
that the reported epsilons are proven (Theorem 3.1); `estimate` doesn't, as in the paper, and norms
may have grown since they were refreshed. Both are the curator's: exact facts about examples.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.papers.mnist_data import digits, unit_rows
from sparseq.cli.tables import format_table
from sparseq.training import ClosedForm, PrivateSGD, family
from sparseq.training.protocol import Floats

DELTA = 1e-5
PAPER_SPREAD = 44.2  # percent, on CIFAR-10
CLASSES = np.arange(10)
SETTINGS = PrivateSGD(
    steps=1200, sampling=1024 / 60_000, clip=0.5, rate=16.0, averaging=0.95, people=60_000,
    refreshes=3.0, checkpoint=100,
)  # fmt: skip
KEYS = ("class", "accuracy", "loss", "epsilon_bound", "epsilon_estimate")


@dataclass(frozen=True)
class Data:
    """Images as rows, and labels."""

    x: Floats
    y: Any
    test_x: Floats
    test_y: Any


@dataclass(frozen=True)
class Reported:
    """One run: private.

    Attributes:
        accuracy: On the test set, by class, in percent.
        losses: At the end, of each example.
        epsilons: Of each example.
        worst: Of the whole run, at full norm.
        is_bound: Whether epsilons are proven.
    """

    accuracy: Floats
    losses: Floats
    epsilons: Floats
    worst: float
    is_bound: bool


def reported(data: Data, how: PrivateSGD, epsilon: float) -> Reported:
    """Train, and report."""
    softmax = family("softmax", len(CLASSES))
    engine = ClosedForm(softmax, np.arange(len(data.y)), data.x, data.y, bound=1.0)
    trained = how.fit(engine, epsilon=epsilon, delta=DELTA)
    account = trained.individual
    assert account is not None
    weights = trained.params.reshape(len(CLASSES), -1)
    right = np.argmax(_scores(weights, data.test_x), axis=0) == data.test_y
    return Reported(
        np.array([100 * right[data.test_y == k].mean() for k in CLASSES]),
        softmax.loss(_scores(weights, data.x), softmax.expand(data.y.astype(np.float64))),
        account.epsilons(DELTA),
        account.worst_case(DELTA),
        account.is_bound,
    )


def _scores(weights: Floats, x: Floats) -> Floats:
    return np.asarray(weights[:, :-1] @ x.T + weights[:, -1:])


def summary(data: Data, bound: Reported, estimate: Reported, seconds: float) -> dict[str, Any]:
    """Return the table, and what the paper says about groups, here."""
    groups = [data.y == k for k in CLASSES]
    means = np.array([bound.epsilons[g].mean() for g in groups])
    worst, best = int(bound.accuracy.argmin()), int(bound.accuracy.argmax())
    rows = [
        {
            "class": k,
            "accuracy": round(float(bound.accuracy[k]), 2),
            "loss": round(float(bound.losses[g].mean()), 4),
            "epsilon_bound": round(float(means[k]), 4),
            "epsilon_estimate": round(float(estimate.epsilons[g].mean()), 4),
        }
        for k, g in enumerate(groups)
    ]
    return {
        "classes": rows,
        "delta": DELTA,
        "worst_case": round(bound.worst, 4),
        "accuracy": round(float(np.mean(bound.accuracy)), 2),
        "median_epsilon": round(float(np.median(bound.epsilons)), 4),
        "lowest_over_highest_percent": round(100 * float(means[worst] / means[best] - 1), 1),
        "paper_lowest_over_highest_percent_cifar10": PAPER_SPREAD,
        "pearson_epsilon_log_loss": round(pearson(bound), 3),
        "seconds": round(seconds, 1),
    }


def pearson(report: Reported) -> float:
    """Return Pearson's r between epsilons and log losses."""
    return float(np.corrcoef(report.epsilons, np.log(report.losses + 1e-12))[0, 1])


def figure(data: Data, report: Reported) -> Any:
    """Return the paper's figures 1, 2 and 5 of this run."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(13, 4), layout="constrained")
    spread, groups, losses = drawn.subplots(1, 3)
    drawn.suptitle("PRIVATE: exact facts about examples, for the curator only", size=10)
    spread.hist(report.epsilons, bins=60, color="tab:blue")
    spread.axvline(report.worst, color="black", lw=1.5, label=f"everybody: {report.worst:.2f}")
    for share in (30, 50, 70):
        at = np.percentile(report.epsilons, share)
        spread.axvline(at, color="0.3", ls="--", lw=1)
        spread.text(
            at, 1.01, f"{share}%", transform=spread.get_xaxis_transform(), ha="center", size=8
        )
    spread.set(xlabel=f"an example's epsilon, delta {DELTA:g}", ylabel="examples")
    spread.legend(loc="upper center", frameon=False)
    means = np.array([report.epsilons[data.y == k].mean() for k in CLASSES])
    groups.scatter(report.accuracy, means, color="tab:orange")
    for k in CLASSES:
        groups.annotate(f" {k}", (report.accuracy[k], means[k]), size=11)
    groups.set(xlabel="test accuracy of the class, %", ylabel="mean epsilon of the class")
    some = np.random.default_rng(0).choice(len(data.y), min(len(data.y), 4000), replace=False)
    losses.scatter(np.maximum(report.losses[some], 1e-4), report.epsilons[some], s=3, alpha=0.3)
    losses.set(xscale="log", xlabel="final training loss of the example", ylabel="its epsilon")
    losses.text(
        0.03, 0.95, f"Pearson's r = {pearson(report):.2f}", transform=losses.transAxes, va="top"
    )
    return drawn


@click.command()
@click.option("--data", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--epsilon", type=float, default=2.0, show_default=True, help="Of the whole run.")
@click.option("--figure", "figures", type=click.Path(path_type=Path), help="Folder for yu.png.")
@click.option("--format", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--quick", is_flag=True, help="A small run that shows that it works.")
def main(folder: Path, epsilon: float, figures: Path | None, format: str, quick: bool) -> None:
    """Print accuracy, loss and epsilon by class."""
    start = time.perf_counter()
    try:
        (images, y), (test_images, test_y) = digits(folder, "train"), digits(folder, "t10k")
    except (FileNotFoundError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    how = SETTINGS
    if quick:
        images, y, test_images, test_y = images[:3000], y[:3000], test_images[:1000], test_y[:1000]
        how = replace(how, steps=60, sampling=0.05, people=len(y))
    data = Data(unit_rows(images), y, unit_rows(test_images), test_y)
    bound = reported(data, how, epsilon)
    estimate = reported(data, replace(how, cut=False), epsilon)
    got = summary(data, bound, estimate, time.perf_counter() - start)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        figure(data, bound).savefig(figures / "yu.png", dpi=150)
    click.echo(json.dumps(got) if format == "json" else as_table(got))


def as_table(got: dict[str, Any]) -> str:
    """Return the table, and the rest below it."""
    cells = [[f"{row[k]:g}" for k in KEYS] for row in got["classes"]]
    lines = [format_table(list(KEYS), cells, ["."] * len(KEYS)), ""]
    lines += [f"{k}: {v}" for k, v in got.items() if k != "classes"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
