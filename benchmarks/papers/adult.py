"""Private logistic regression on Adult, without and with filtering: Feldman & Zrnic's table.

    python -m benchmarks.papers.adult --data FOLDER --epsilon 0.5 --trials 3 --format json

The table is that of the workshop version (2020, section 4): test accuracy in percent at delta
1e-5. One run yields both columns: until step k nobody can have run out, so its parameters there
are those of private gradient descent, and filtering goes on from them. FOLDER has adult.data and
adult.test, see `benchmarks.papers.uci_adult`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

import sparseq
from benchmarks.papers.table import shown
from benchmarks.papers.uci_adult import arrays, load
from sparseq.training import ClosedForm, PrivateGD, family
from sparseq.training.protocol import Floats

DELTA = 1e-5
PAPER = {0.3: (83.80, 83.91), 0.5: (84.11, 84.18), 1.2: (84.45, 84.48)}
SETTINGS = PrivateGD(
    steps=60,
    most=75,
    clip=1.0,
    rate=3.0,
    momentum=0.9,
    averaging=0.8,
    people=32_561,
    checks=4,
    check_cost=0.01,
)
QUICK = PrivateGD(steps=15, most=20, clip=1.0, rate=4.0, people=4_000, checks=2, check_cost=0.02)


def trial(train: Any, test: Any, epsilon: float, settings: PrivateGD) -> tuple[float, float]:
    """Return test accuracy in percent, without filtering and with it, of one fresh store."""
    x, y = train
    users = np.arange(len(y))
    people = pa.table({"who": users})
    with sparseq.create(
        None,
        {"people": people},
        user="who",
        epsilon=(epsilon, DELTA),
        purposes=[sparseq.Questions(in_or_out=True, counts=settings.steps)],
    ) as store:
        engine = ClosedForm(family("logistic"), users, x, y, bound=1.0)
        trained = settings.fit(store, engine, run="adult", about="income")
    return accuracy(trained.plain, test), accuracy(trained.params, test)


def accuracy(params: Floats, test: Any) -> float:
    """Return the share of the test set that is classified right, in percent."""
    x, y = test
    return float(100 * np.mean((x @ params[:-1] + params[-1] > 0) == (y == 1)))


def row(data: Path, epsilon: float, trials: int, quick: bool) -> dict[str, Any]:
    """Return the means over trials, and the standard deviation of the filtered column."""
    start = time.perf_counter()
    train, test = arrays(load(data, "adult.data")), arrays(load(data, "adult.test"))
    if quick:
        train = train[0][:4000], train[1][:4000]
    settings = QUICK if quick else SETTINGS
    got = np.array([trial(train, test, epsilon, settings) for _ in range(trials)])
    plain, filtered = PAPER.get(epsilon, (None, None))
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "accuracy_plain": round(float(got[:, 0].mean()), 2),
        "accuracy_filtered": round(float(got[:, 1].mean()), 2),
        "sd": round(float(got[:, 1].std(ddof=min(1, trials - 1))), 2),
        "paper_plain": plain,
        "paper_filtered": filtered,
        "seconds": round(time.perf_counter() - start, 1),
    }


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="With adult.data.gz.")
@click.option("--epsilon", type=float, multiple=True, help="One or more; the paper's by default.")
@click.option("--trials", type=int, default=3, show_default=True)
@click.option("--format", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--quick", is_flag=True, help="A small run that shows that it works.")
def main(data: Path, epsilon: tuple[float, ...], trials: int, format: str, quick: bool) -> None:
    """Print test accuracy and the paper's."""
    try:
        rows = [row(data, e, trials, quick) for e in epsilon or tuple(PAPER)]
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from None
    click.echo(shown(rows, format))


if __name__ == "__main__":
    main()
