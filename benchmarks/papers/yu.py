"""The cost of private SGD to each class of MNIST, and the accuracy of the class: Yu et al.

    python -m benchmarks.papers.yu --data FOLDER --figure FOLDER --format json

Yu, Kamath, Kulkarni, Liu, Yin & Zhang (2023) report every example's own epsilon along the models
that a run has released, and find that groups with worse accuracy also have larger epsilons: on
CIFAR-10, the average epsilon of the class with the lowest test accuracy is 44.2 % above that of the
class with the highest. CIFAR-10 and UTK-Face are not available here, so this is MNIST: by softmax
regression on images scaled to length 1, or with `--model cnn` by the network of
`benchmarks.papers.mnist` (`pip install 'sparseq[networks]'`). FOLDER has MNIST's four files, see
`benchmarks.papers.mnist_data`.

Two reports of the same setting: `bound` cuts every gradient to its charged norm, so that the
reported epsilons are proven (Theorem 3.1); `estimate` does not, as in the paper, and norms may have
grown since they were refreshed. Both are the curator's: exact facts about examples.
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
from sparseq.networks.sgd import PrivateSGD
from sparseq.pictures.tables import format_table
from sparseq.training import ClosedForm, family
from sparseq.training.protocol import Floats

DELTA = 1e-5
PAPER_SPREAD = 44.2  # percent, on CIFAR-10
CLASSES = np.arange(10)
SOFTMAX = PrivateSGD(
    steps=1200,
    sampling=1024 / 60_000,
    clip=0.5,
    rate=16.0,
    averaging=0.95,
    people=60_000,
    refreshes=3.0,
    checkpoint=100,
)
CNN = PrivateSGD(
    steps=600,
    sampling=1024 / 60_000,
    clip=0.2,
    rate=5.0,
    momentum=0.5,
    averaging=0.95,
    people=60_000,
    refreshes=1.0,
    checkpoint=100,
)
KEYS = ("class", "accuracy", "loss", "epsilon_bound", "epsilon_estimate")


@dataclass(frozen=True)
class Problem:
    """A training problem: engines over training and test images, their labels, a plan."""

    train: Any
    test: Any
    y: Any
    test_y: Any
    start: Floats | None
    plan: PrivateSGD


def load(folder: Path, model: str, quick: bool) -> Problem:
    """Return the problem on MNIST, or a small part of it."""
    (x, y), (test_x, test_y) = digits(folder, "train"), digits(folder, "t10k")
    plan = {"softmax": SOFTMAX, "cnn": CNN}[model]
    if quick:
        some = 3000 if model == "softmax" else 600
        x, y, test_x, test_y = x[:some], y[:some], test_x[:some], test_y[:some]
        plan = replace(plan, steps=60 if model == "softmax" else 10, sampling=0.05, people=some)
    if model == "softmax":
        return Problem(softmax(x, y), softmax(test_x, test_y), y, test_y, None, plan)
    from benchmarks.papers.mnist import engine, scaled

    train = engine(*scaled(x, y), seed=0)
    test = engine(*scaled(test_x, test_y), seed=0)
    return Problem(train, test, y, test_y, train.start(), plan)


def softmax(images: Any, labels: Any) -> ClosedForm:
    """Return an engine for softmax regression; every image is a user."""
    rows = unit_rows(images)
    return ClosedForm(family("softmax", 10), np.arange(len(labels)), rows, labels, bound=1.0)


@dataclass(frozen=True)
class YuRun:
    """One run: private.

    Attributes:
        accuracy: On the test set, by class, in percent.
        losses: At the end, of each example.
        epsilons: Of each example.
        worst: Of the whole run, at full norm.
    """

    accuracy: Floats
    losses: Floats
    epsilons: Floats
    worst: float


def reported(problem: Problem, how: PrivateSGD, epsilon: float) -> YuRun:
    """Train, and report."""
    trained = how.fit(problem.train, epsilon=epsilon, delta=DELTA, start=problem.start)
    account = trained.individual
    assert account is not None
    assert account.is_bound or not how.cut
    right = _by_user(problem.test, problem.test.right, trained.params)
    return YuRun(
        np.array([100 * right[problem.test_y == k].mean() for k in CLASSES]),
        _by_user(problem.train, problem.train.losses, trained.params),
        account.epsilons(DELTA),
        account.worst_case(DELTA),
    )


def _by_user(engine: Any, value: Any, params: Floats) -> Floats:
    """Return a value of every user, in order."""
    batches = list(engine.batches())
    users = np.concatenate([batch.users for batch in batches])
    return np.asarray(np.concatenate([value(params, b) for b in batches])[np.argsort(users)])


def summary(problem: Problem, bound: YuRun, estimate: YuRun, seconds: float) -> dict[str, Any]:
    """Return the table, and the paper's statement about groups, here."""
    groups = [problem.y == k for k in CLASSES]
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


def pearson(report: YuRun) -> float:
    """Return Pearson's r between epsilons and log losses."""
    return float(np.corrcoef(report.epsilons, np.log(report.losses + 1e-12))[0, 1])


def figure(y: Any, report: YuRun) -> Any:
    """Return the paper's figures 1, 2 and 5 of this run."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(13, 4), layout="constrained")
    spread, groups, losses = drawn.subplots(1, 3)
    drawn.suptitle("PRIVATE: exact facts about examples, for the curator only", size=10)
    spread.hist(report.epsilons, bins=60, color="tab:blue")
    spread.axvline(report.worst, color="black", lw=1.5, label=f"everybody: {report.worst:.2f}")
    for share, style in ((30, ":"), (50, "--"), (70, "-.")):
        at = np.percentile(report.epsilons, share)
        spread.axvline(at, color="0.3", ls=style, lw=1, label=f"{share} % of them: {at:.2f}")
    spread.set(xlabel=f"an example's epsilon, delta {DELTA:g}", ylabel="examples")
    spread.legend(loc="upper center", framealpha=1, fontsize=9)
    means = np.array([report.epsilons[y == k].mean() for k in CLASSES])
    groups.scatter(report.accuracy, means, color="tab:orange")
    for k in CLASSES:
        groups.annotate(f" {k}", (report.accuracy[k], means[k]), size=11)
    groups.set(xlabel="test accuracy of the class, %", ylabel="mean epsilon of the class")
    some = np.random.default_rng(0).choice(len(y), min(len(y), 4000), replace=False)
    losses.scatter(np.maximum(report.losses[some], 1e-4), report.epsilons[some], s=3, alpha=0.3)
    losses.set(xscale="log", xlabel="final training loss of the example", ylabel="its epsilon")
    losses.set_title(f"Pearson's r = {pearson(report):.2f}", size=10)
    return drawn


@click.command()
@click.option("--data", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--epsilon", type=float, default=2.0, show_default=True, help="Of the whole run.")
@click.option("--model", type=click.Choice(["softmax", "cnn"]), default="softmax")
@click.option("--figure", "figures", type=click.Path(path_type=Path), help="Folder for a PNG.")
@click.option("--format", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--quick", is_flag=True, help="A small run that shows that it works.")
def main(
    folder: Path, epsilon: float, model: str, figures: Path | None, format: str, quick: bool
) -> None:
    """Print accuracy, loss and epsilon by class."""
    start = time.perf_counter()
    try:
        problem = load(folder, model, quick)
    except (FileNotFoundError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    bound = reported(problem, problem.plan, epsilon)
    estimate = reported(problem, replace(problem.plan, cut=False), epsilon)
    got = summary(problem, bound, estimate, time.perf_counter() - start)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        figure(problem.y, bound).savefig(figures / f"yu-{model}.png", dpi=150)
    click.echo(json.dumps(got) if format == "json" else as_table(got))


def as_table(got: dict[str, Any]) -> str:
    """Return the table, and the rest below it."""
    cells = [[f"{row[k]:g}" for k in KEYS] for row in got["classes"]]
    lines = [format_table(list(KEYS), cells, ["."] * len(KEYS)), ""]
    lines += [f"{k}: {v}" for k, v in got.items() if k != "classes"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
