"""Small runs of private SGD, for tests and for the processes that they kill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparseq.networks.sgd import PrivateSGD, SpendLess
from sparseq.training import ClosedForm, family
from sparseq.training.protocol import Floats

N, DELTA = 1000, 1e-5
PLAIN = PrivateSGD(steps=60, sampling=0.1, rate=2.0, people=N, checkpoint=7)
OWN = replace(PLAIN, clip=0.5, rate=4.0, refreshes=2.0, filtering=True, most=120)
ASKING = replace(
    PLAIN,
    people=None,
    policy=SpendLess(noise=1.0, every=1.0, room=1.0),
    most=120,
    question_noise=30.0,
)


def data() -> tuple[Floats, Floats]:
    """Half of the people are easy to be right about, and soon have small gradients."""
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-0.3, 0.3, (N, 3)), rng.integers(0, 2, N).astype(float)
    x[: N // 2, 0] = 2 * y[: N // 2] - 1
    return x, y


def engine() -> ClosedForm:
    """Logistic regression on these people."""
    x, y = data()
    return ClosedForm(family("logistic"), np.arange(N), x, y, bound=1.0)
