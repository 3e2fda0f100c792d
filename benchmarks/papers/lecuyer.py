"""Adaptive private training on MNIST: Lécuyer (2021), section 5, with the paper's numbers.

    python -m benchmarks.papers.lecuyer --data FOLDER --figure FOLDER --trials 3 --format json

**Under a filter** (section 5.1): a run that pays less while noised training accuracy grows trains
for longer within the same epsilon. Three rows: fixed noise, adapted noise, adapted batch size.

**Under an odometer** (section 5.2): training stops when noised training accuracy reaches a target,
and epsilon is the odometer's at that time. Two rows: fixed noise, and a policy that begins with
twice the noise and reduces it if accuracy does not grow. They have a quarter of the other rows'
noise, as an odometer says little about epsilons far below 1: its first filters are as large.

The paper's experiments are a ResNet9 on CIFAR-10 and a pre-trained ResNet18; CIFAR-10 and
Fashion-MNIST are not available here. So this is softmax regression on MNIST, on images scaled to
length 1; the paper's numbers show the effect of the policies there, and are not a target. The rules
are the paper's, in its proportions: a tenth of the noise, a quarter of the batch, a tenth of the
epochs between questions, counts noised by 100. FOLDER has the files of
`benchmarks.papers.mnist_data`.
`benchmarks.papers.mnist_data`.
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
from sparseq.accounting.rdp import DEFAULT_ORDERS, epsilon
from sparseq.networks.sgd import PrivateSGD, SgdResult, SpendLess, SpendMore
from sparseq.networks.sgd.policies import Policy
from sparseq.networks.sgd.promise import total
from sparseq.pictures.tables import format_table
from sparseq.training import ClosedForm, family

DELTA = 1e-6  # the paper's
KEYS = (
    "rule",
    "accuracy",
    "lowest",
    "highest",
    "epochs",
    "epsilon",
    "paper_accuracy",
    "paper_epochs",
    "paper_epsilon",
    "seconds",
)
PAPER: dict[str, tuple[float | None, float | None, float | None]] = {
    "fixed": (54.58, 100, None),
    "adapted noise": (57.22, None, None),
    "adapted batch": (55.56, None, None),
    "fixed, stopped": (80.0, 6, 3.24),
    "adapted, stopped": (80.0, 8, 1.45),
}
"""Accuracy, epochs and epsilon on CIFAR-10; the last two stop at 80 % of training accuracy."""


@dataclass(frozen=True)
class Problem:
    """Data, and the plan that all rules start from."""

    engine: ClosedForm
    test_x: Any
    test_y: Any
    plan: PrivateSGD
    target: float

    @property
    def noise(self) -> float:
        """Of the plan."""
        assert self.plan.noise is not None
        return self.plan.noise

    @property
    def epochs(self) -> float:
        """Of the plan."""
        return self.plan.steps * self.plan.sampling

    @property
    def epsilon(self) -> float:
        """Epsilon of the fixed run, which the filters keep."""
        how, orders = self.plan, tuple(DEFAULT_ORDERS.tolist())
        asked = replace(how, ask_every=self.epochs / 10)
        return epsilon(total(asked.planned(self.noise, how.steps), orders), orders, DELTA)

    def accuracy(self, trained: SgdResult) -> float:
        """Return accuracy on the test set, in percent."""
        weights = trained.params.reshape(10, -1)
        scores = self.test_x @ weights[:, :-1].T + weights[:, -1]
        return float(100 * np.mean(scores.argmax(axis=1) == self.test_y))


def rules(problem: Problem) -> dict[str, tuple[PrivateSGD, bool]]:
    """Return the compared settings, and for each whether a filter keeps the plan's epsilon."""
    plan, tenth = problem.plan, problem.epochs / 10
    batch = plan.sampling / 4

    def adapted(policy: Policy) -> PrivateSGD:
        return replace(plan, most=20 * plan.steps, policy=policy)

    room = problem.epochs / 2
    often, quarter = problem.epochs / 50, problem.noise / 4
    stopping = replace(plan, noise=quarter, ask_every=often, target=problem.target)
    cheaper = SpendMore(quarter / 10, least_noise=quarter, every=often)
    return {
        "fixed": (replace(plan, ask_every=tenth), False),
        "adapted noise": (adapted(SpendLess(problem.noise / 10, every=tenth, room=room)), True),
        "adapted batch": (
            adapted(SpendLess(sampling=batch, least_sampling=2 * batch, every=tenth, room=room)),
            True,
        ),
        "fixed, stopped": (stopping, False),
        "adapted, stopped": (replace(stopping, noise=2 * quarter, policy=cheaper), False),
    }


def row(
    problem: Problem, name: str, how: PrivateSGD, promised: float | None, trials: int
) -> tuple[dict[str, Any], SgdResult]:
    """Return a line of the table, and the last trial."""
    start = time.perf_counter()
    runs = [how.fit(problem.engine, epsilon=promised, delta=DELTA) for _ in range(trials)]
    got = [problem.accuracy(run) for run in runs]
    paper = PAPER[name]
    spent = [run.odometer if how.target is not None else run.epsilon for run in runs]
    return {
        "rule": name,
        "accuracy": round(float(np.mean(got)), 2),
        "lowest": round(min(got), 2),
        "highest": round(max(got), 2),
        "epochs": round(float(np.mean([run.log[-1].epochs for run in runs])), 1),
        "epsilon": round(float(np.mean(spent)), 3),  # type: ignore[arg-type]
        "paper_accuracy": paper[0],
        "paper_epochs": paper[1],
        "paper_epsilon": paper[2],
        "seconds": round(time.perf_counter() - start, 1),
    }, runs[-1]


def figure(problem: Problem, runs: dict[str, SgdResult]) -> Any:
    """Return the paper's figures 1 and 2 of the last trial: accuracy, cost, noise and batch."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(13, 4), layout="constrained")
    accuracy, spent, knobs = drawn.subplots(1, 3)
    batch = knobs.twinx()
    for number, (name, run) in enumerate(runs.items()):
        style = {"color": f"C{number}", "label": name, "lw": 1.4}
        asked = [c for c in run.log if c.accuracy is not None]
        epochs = [c.epochs for c in run.log]
        if asked:
            accuracy.plot(
                [c.epochs for c in asked], [100 * (c.accuracy or 0) for c in asked], **style
            )
        spent.plot(epochs, [c.odometer for c in run.log], **style)
        if name in ("fixed", "adapted noise", "adapted, stopped"):
            knobs.plot(epochs, [c.noise for c in run.log], drawstyle="steps-pre", **style)
        if name == "adapted batch":
            people = problem.plan.people or 0
            sizes = [c.sampling * people for c in run.log]
            batch.plot(epochs, sizes, drawstyle="steps-pre", ls="--", **style)
    accuracy.set(xlabel="epochs", ylabel="training accuracy, %, noised")
    spent.set(xlabel="epochs", ylabel=f"odometer: epsilon so far, delta {DELTA:g}", ylim=(0, None))
    knobs.set(xlabel="epochs", ylabel="noise over clip")
    batch.set_ylabel("expected batch (dashed)")
    spent.legend(frameon=False, fontsize=9)
    return drawn


def load(folder: Path, noise: float, epochs: float, target: float, quick: bool) -> Problem:
    """Return the problem on MNIST, or a small part of it."""
    (images, y), (test_images, test_y) = digits(folder, "train"), digits(folder, "t10k")
    if quick:
        images, y, test_images, test_y = images[:4000], y[:4000], test_images[:1000], test_y[:1000]
    sampling = 1024 / 60_000 if not quick else 0.1
    plan = PrivateSGD(
        steps=round(epochs / sampling),
        sampling=sampling,
        noise=noise,
        clip=0.5,
        rate=16.0,
        averaging=0.95,
        people=len(y),
        question_noise=100.0,
        checkpoint=20,
    )
    engine = ClosedForm(family("softmax", 10), np.arange(len(y)), unit_rows(images), y, bound=1.0)
    return Problem(engine, unit_rows(test_images), test_y, plan, target)


@click.command()
@click.option("--data", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--noise", type=float, default=4.0, show_default=True, help="Over clip, at first.")
@click.option("--epochs", type=float, default=10.0, show_default=True, help="Of the fixed run.")
@click.option("--target", type=float, default=0.88, show_default=True, help="Where to stop.")
@click.option("--rule", "chosen", type=click.Choice(list(PAPER)), multiple=True, help="Some only.")
@click.option("--trials", type=int, default=3, show_default=True)
@click.option("--figure", "figures", type=click.Path(path_type=Path), help="For lecuyer.png.")
@click.option("--format", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--quick", is_flag=True, help="A small run that shows that it works.")
def main(
    folder: Path,
    noise: float,
    epochs: float,
    target: float,
    chosen: tuple[str, ...],
    trials: int,
    figures: Path | None,
    format: str,
    quick: bool,
) -> None:
    """Print accuracy, epochs and epsilon of each rule."""
    try:
        problem = load(folder, noise, epochs, target, quick)
    except (FileNotFoundError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    rows, runs = [], {}
    for name, (how, filtered) in rules(problem).items():
        if chosen and name not in chosen:
            continue
        promised = problem.epsilon if filtered else None
        line, runs[name] = row(problem, name, how, promised, trials)
        rows.append(line)
        if format == "json":
            click.echo(json.dumps(line))
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        figure(problem, runs).savefig(figures / "lecuyer.png", dpi=150)
    if format == "json":
        return
    cells = [["" if line[k] is None else str(line[k]) for k in KEYS] for line in rows]
    click.echo(format_table(list(KEYS), cells, ["l"] + ["."] * (len(KEYS) - 1)))


if __name__ == "__main__":
    main()
