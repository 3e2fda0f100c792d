"""A private network on MNIST, without and with filtering: Feldman & Zrnic's table and Figure 1.

    python -m benchmarks.papers.mnist --data FOLDER --epsilon 0.5 --trials 3 --format json

The table is that of section 5.1 (2021): test accuracy in percent at delta 1e-5, of the CNN of
Opacus's MNIST example, 26,010 parameters, all 60,000 images in every step. One run yields both
columns: until step k nobody can have run out, so its parameters there are those of private gradient
descent, and filtering continues from them.

With `--suboptimal` C is 1.5 times too large (twice for epsilon 1), as in the paper, with the same
noise, and so with fewer steps. FOLDER has MNIST's four files, see `benchmarks.papers.mnist_data`;
`pip install 'sparseq[networks]'` first. The settings were chosen by accuracy on the test set, as
those of the paper seem to be: the comparison is between two ways to train, and makes no claim about
new digits.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

import sparseq
from benchmarks.papers.mnist_data import digits
from benchmarks.papers.table import shown
from sparseq.ledger.pots import Pot
from sparseq.networks.network import Network
from sparseq.training import PrivateGD, TrainingStep
from sparseq.training.protocol import Floats

DELTA = 1e-5
PAPER = {0.3: (93.29, 93.64), 0.5: (94.62, 94.90), 1.0: (96.25, 96.25)}
SUBOPTIMAL = {0.3: (84.47, 92.25), 0.5: (92.07, 94.30), 1.0: (94.45, 95.33)}
TOO_LARGE = {0.3: 1.5, 0.5: 1.5, 1.0: 2.0}
MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's pixels, as everybody scales them: public."""
MICRO = 320
NORM = 1.15
"""Of every unit's weights at the start."""


def rate(steps: int, peak: float, last: float) -> Any:
    """Return a learning rate that goes in a line to `peak` at half of the steps, then to `last`.

    Early on everybody's gradients point the same way, and momentum overshoots.
    """

    def at(t: int) -> float:
        done = 2 * min(t / steps, 1.0)
        return 4 + (peak - 4) * done if done < 1 else peak + (last - peak) * (done - 1)

    return at


def settings(epsilon: float, suboptimal: bool) -> PrivateGD:
    """Return the best settings for private GD without filtering; or those with the too large C.

    Weights decay by about a thousandth of the sum of full gradients that agree: this forgets noise.
    There is less noise at larger epsilon: then more and larger steps pay too.
    """
    steps, peak, last, averaging, decay = 60, 14.0, 14.0, 0.85, 1e-4
    if epsilon >= 1:
        steps, peak, last, decay = 110, 20.0, 6.0, 5e-5
    if epsilon < 0.5:
        last, averaging = 11.0, 0.9
    how = PrivateGD(
        steps=steps,
        most=steps + 12,
        clip=0.1,
        rate=rate(steps, peak, last),
        momentum=0.9,
        averaging=averaging,
        decay=decay,
        people=60_000,
        checks=2,
        check_cost=0.015,
    )
    if not suboptimal:
        return how
    factor = TOO_LARGE.get(epsilon, 1.5)
    fewer = round(steps / factor**2)
    return replace(how, steps=fewer, most=steps, clip=how.clip * factor, checks=3)


QUICK = PrivateGD(steps=6, most=8, clip=1.0, rate=0.5, people=300, checks=1, check_cost=0.05)


def network() -> nn.Module:
    """Return the CNN of Opacus's MNIST example."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def images(folder: Path, part: str, most: int | None = None) -> tuple[Tensor, Tensor]:
    """Return scaled images (n, 1, 28, 28) and labels."""
    pixels, labels = digits(folder, part)
    return scaled(pixels[:most], labels[:most])


def scaled(pixels: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Return scaled images (n, 1, 28, 28) and labels, as PyTorch has them."""
    images = ((pixels[:, None] / 255.0 - MEAN) / DEVIATION).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


def engine(x: Tensor, y: Tensor, seed: int) -> Network:
    """Return an engine whose start comes from a seed: it is public.

    The first layer starts as filters for edges and lines, which need no data; the next two as
    random orthogonal rows of the same norm, the last one at 0, and so do biases. Noise is about as
    large as a layer's learned change, so that its start matters more than without privacy.
    """
    torch.manual_seed(seed)
    module = network()
    first, second, third, last = (k for k in module if isinstance(k, nn.Conv2d | nn.Linear))
    with torch.no_grad():
        first.weight.copy_(edges())
        for layer in (second, third):
            nn.init.orthogonal_(layer.weight, gain=NORM)
        last.weight.zero_()
        for layer in (first, second, third, last):
            assert layer.bias is not None
            layer.bias.zero_()
    return Network(module, np.arange(len(y)), x, y, micro=MICRO)


def edges() -> Tensor:
    """Return 16 Gabor filters (16, 1, 8, 8): edges in 12 directions, and 4 lines."""
    angle = np.concatenate([np.arange(12) / 6, np.arange(4) / 4])[:, None, None] * np.pi
    line = np.arange(16)[:, None, None] >= 12
    y, x = np.mgrid[-3.5:4, -3.5:4]
    along = 2 * np.pi * (x * np.cos(angle) + y * np.sin(angle))
    waves = np.where(line, np.cos(0.13 * along), np.sin(0.11 * along))
    filters = waves * np.exp(-(x**2 + y**2) / (2 * 2.2**2))
    filters *= NORM / np.sqrt(np.sum(filters**2, (1, 2), keepdims=True))
    return torch.from_numpy(filters[:, None]).float()


def accuracy(engine: Network, params: Floats) -> float:
    """Return the share of an engine's images that are classified right, in percent."""
    return 100 * float(np.mean(np.concatenate([engine.right(params, b) for b in engine.batches()])))


def trial(
    train: Any, test: Any, epsilon: float, how: PrivateGD, seed: int
) -> tuple[float, float, list[int]]:
    """Return test accuracy without and with filtering, and the number of active users by step.

    A user is active if they can pay for a tenth of a full gradient, which only the curator may
    know. The noise is that of the operating system; the seed is the start's only.
    """
    users = np.arange(len(train[1]), dtype=np.int32)
    active: list[int] = []
    with sparseq.create(
        None,
        {"people": pa.table({"who": users})},
        user="who",
        epsilon=(epsilon, DELTA),
        purposes=[sparseq.Questions(in_or_out=True, counts=how.steps)],
    ) as store:
        learner = engine(*train, seed)
        full = (
            store.stream.pots[Pot.QUERIES].left(users).max() / how.steps
        )  # what a full gradient costs

        def watch(step: TrainingStep) -> None:
            left = store.stream.pots[Pot.QUERIES].left(users)
            active.append(int(np.count_nonzero(left > full / 10)))

        trained = how.fit(
            store, learner, run="mnist", about="digits", start=learner.start(), watch=watch
        )
    judge = engine(*test, seed)
    return accuracy(judge, trained.plain), accuracy(judge, trained.params), active


def row(
    data: Path, epsilon: float, trials: int, suboptimal: bool, quick: bool, figure: Path | None
) -> dict[str, Any]:
    """Return the means over trials, and the standard deviation of the filtered column."""
    start = time.perf_counter()
    train, test = images(data, "train", 300 if quick else None), images(data, "t10k")
    how = QUICK if quick else settings(epsilon, suboptimal)
    got, active = [], []
    for seed in range(trials):
        *both, counts = trial(train, test, epsilon, how, seed)
        got.append(both)
        active.append(counts)
        click.echo(f"epsilon {epsilon:g}, trial {seed + 1}: {both[0]:.2f} {both[1]:.2f}", err=True)
    if figure is not None:
        draw(figure, active, how.steps, epsilon)
    plain, filtered = np.array(got).T
    paper = (SUBOPTIMAL if suboptimal else PAPER).get(epsilon, (None, None))
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "accuracy_plain": round(float(plain.mean()), 2),
        "accuracy_filtered": round(float(filtered.mean()), 2),
        "sd": round(float(filtered.std(ddof=min(1, trials - 1))), 2),
        "paper_plain": paper[0],
        "paper_filtered": paper[1],
        "seconds": round(time.perf_counter() - start, 1),
    }


def draw(figure: Path, active: list[list[int]], steps: int, epsilon: float) -> None:
    """Draw how many are active at each step, a line a trial, as in the paper's Figure 1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for counts in active:
        axes.plot(range(1, len(counts) + 1), counts, color="tab:blue", alpha=0.7)
    axes.axvline(steps, color="black", linewidth=1)
    axes.annotate(" step Bnorm / C²", (steps, 0), va="bottom")
    axes.set(
        xlabel="step",
        ylabel="active people",
        ylim=(0, None),
        title=f"Who can still take part (the curator's view), ε = {epsilon:g}",
    )
    canvas.savefig(figure, dpi=130)
    pyplot.close(canvas)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="MNIST's files.")
@click.option("--epsilon", type=float, multiple=True, help="One or more; the paper's by default.")
@click.option("--trials", type=int, default=3, show_default=True)
@click.option("--suboptimal", is_flag=True, help="C too large, as in the paper's lower table.")
@click.option("--figure", type=click.Path(path_type=Path), help="Folder for the figures (PNG).")
@click.option("--format", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--quick", is_flag=True, help="A small run that shows that it works.")
def main(
    data: Path,
    epsilon: tuple[float, ...],
    trials: int,
    suboptimal: bool,
    figure: Path | None,
    format: str,
    quick: bool,
) -> None:
    """Print test accuracy and the paper's."""
    if figure is not None:
        figure.mkdir(parents=True, exist_ok=True)
    try:
        rows = [
            row(
                data,
                e,
                trials,
                suboptimal,
                quick,
                figure and figure / f"mnist_{'suboptimal_' * suboptimal}{e:g}.png",
            )
            for e in epsilon or tuple(PAPER)
        ]
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from None
    click.echo(shown(rows, format))


if __name__ == "__main__":
    main()
