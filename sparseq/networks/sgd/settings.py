"""Settings of a run of private SGD, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sparseq.base.errors import ParameterError
from sparseq.networks.sgd.policies import Policy
from sparseq.networks.sgd.sampled_steps import CHANCES, SampledGaussian
from sparseq.training.descent import check_descent

_NUMBER_CLIP = 1 + 2.0**-8
"""Clip of questions with answers in [0, 1]: a little above, so that none is scaled down."""


@dataclass(frozen=True)
class SgdSettings:
    """The public settings of a run.

    Attributes:
        steps: Number of steps in which every user can take part at full norm; sets the noise.
        sampling: Each user's probability of being drawn for a step, in (0, 1].
        most: Largest number of steps; by default `steps`. More need filtering or a policy.
        noise: The noise's deviation over clip; None: the least at which epsilon allows `steps`.
        clip: C.
        rate: Learning rate, of the mean gradient: a number, or a function of the step from 1.
        momentum: In [0, 1).
        averaging: In [0, 1): weight of the past in an exponential mean of the parameters.
        decay: Weight decay.
        people: Approximate number of users, if that is public; None: a noised question asks for it.
        refreshes: Times per epoch that every user's norm is computed, for individual accounts; 0:
            there are no accounts.
        cut: True to cut gradients to each user's latest norm, rounded up, so that the accounts
            bound the loss; otherwise they estimate it, as in Yu et al.'s experiments.
        filtering: True for a filter per user: it leaves out users without budget.
        policy: Adapts noise or rate to noised training accuracy.
        ask_every: Epochs between questions for accuracy without a policy; 0: none.
        question_noise: Deviation of noised counts, in users.
        target: Stop when noised accuracy has reached this.
        patience: Stop after this number of questions in a row without growth; 0: never.
        checkpoint: Steps between checkpoints.

    Raises:
        ParameterError: A number is out of its range, or two settings contradict each other.
    """

    steps: int
    sampling: float
    most: int | None = None
    noise: float | None = None
    clip: float = 1.0
    rate: float | Callable[[int], float] = 1.0
    momentum: float = 0.0
    averaging: float = 0.0
    decay: float = 0.0
    people: float | None = None
    refreshes: float = 0.0
    cut: bool = True
    filtering: bool = False
    policy: Policy | None = None
    ask_every: float = 0.0
    question_noise: float = 100.0
    target: float | None = None
    patience: int = 0
    checkpoint: int = 20

    def __post_init__(self) -> None:
        check_descent(self)
        SampledGaussian.of(self.sampling, 1.0 if self.noise is None else self.noise)
        if not 0 <= self.ask_every < math.inf or not 0 <= self.refreshes < math.inf:
            raise ParameterError("refreshes and ask_every are at least 0")
        if not self.question_noise >= 1 or self.checkpoint < 1:
            raise ParameterError("question_noise and checkpoint are at least 1")
        if self.filtering and not self.refreshes:
            raise ParameterError("filtering needs norms", "give refreshes, the number in an epoch")
        if self.refreshes and (self.people is None or self.asks):
            raise ParameterError(
                "individual accounts are of steps, and this run asks questions as well",
                "give people, and leave out policy and ask_every",
            )
        if not self.asks and (self.target is not None or self.patience):
            raise ParameterError("nobody asks for accuracy", "give ask_every or a policy")

    @property
    def last(self) -> int:
        """The largest number of steps."""
        return self.steps if self.most is None else self.most

    @property
    def asks(self) -> float:
        """Epochs between questions for training accuracy; 0: none."""
        return self.ask_every if self.policy is None else self.policy.every

    @property
    def question(self) -> SampledGaussian:
        """The mechanism of a noised count of users."""
        return SampledGaussian(CHANCES, self.question_noise / _NUMBER_CLIP, _NUMBER_CLIP)

    def questions(self, steps: int) -> int:
        """Return the largest number of questions in `steps` steps at the planned rate."""
        accuracy = math.floor(steps * self.sampling / self.asks) + 1 if self.asks else 0
        return accuracy + (self.people is None)

    def planned(self, noise: float, steps: int) -> list[tuple[SampledGaussian, int]]:
        """Return everything that is released in `steps` steps, without a policy's changes."""
        step = SampledGaussian.of(self.sampling, noise, self.clip)
        return [(step, steps), (self.question, self.questions(steps))]
