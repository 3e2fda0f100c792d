"""Policies that choose the cost of the next epochs by noised training accuracy.

Lécuyer (2021), section 5:

    SpendLess    under a filter: save while accuracy grows, and train for longer (section 5.1)
    SpendMore    under an odometer: begin cheaply, and pay more if accuracy does not grow (5.2)

At some epochs the run asks for the number of users that the model classifies correctly, by a
Gaussian that is paid like the steps. Accuracy has grown if it grew by at least `GROWN` standard
deviations of that noise. A policy sees this answer and the rest of the budget: released numbers, so
that its decisions are public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sparseq.base.errors import ParameterError
from sparseq.networks.sgd.sampled_steps import LEAST_NOISE

GROWN = 3.0


@dataclass(frozen=True)
class StepCost:
    """The cost of a step: `noise` over clip, and each user's probability `sampling`."""

    noise: float
    sampling: float


class Policy(Protocol):
    """Decides after each question how to continue."""

    @property
    def every(self) -> float:
        """Epochs between questions."""
        ...

    def adapted(
        self, now: StepCost, start: StepCost, grew: bool, epochs_left: Callable[[], float]
    ) -> StepCost:
        """Return the setting until the next question."""
        ...


@dataclass(frozen=True)
class SpendLess:
    """Pay less while accuracy grows, and more, up to the plan, if it does not.

    Attributes:
        noise: Added to the noise, or subtracted from it; the paper: 0.1.
        sampling: Subtracted from the sampling rate, or added; the paper: 128 users of 50,000.
        least_sampling: The rate does not fall below it; the paper: 256 users.
        every: Epochs between questions.
        room: The run pays less only while more than this number of epochs is left at present cost.

    Example:
        >>> start = StepCost(noise=1.0, sampling=0.01)
        >>> SpendLess(noise=0.1).adapted(start, start, True, lambda: 60.0)
        StepCost(noise=1.1, sampling=0.01)
    """

    noise: float = 0.0
    sampling: float = 0.0
    least_sampling: float = 0.0
    every: float = 10.0
    room: float = 50.0

    def __post_init__(self) -> None:
        if min(self.noise, self.sampling, self.least_sampling, self.room) < 0 or self.every <= 0:
            raise ParameterError("a policy's numbers are at least 0, and `every` is above 0")
        if not self.noise and not self.sampling:
            raise ParameterError("the policy changes nothing", "give noise or sampling")

    def adapted(
        self, now: StepCost, start: StepCost, grew: bool, epochs_left: Callable[[], float]
    ) -> StepCost:
        """Return the setting until the next question."""
        if not grew:
            return StepCost(
                max(now.noise - self.noise, start.noise),
                min(now.sampling + self.sampling, start.sampling),
            )
        if epochs_left() <= self.room:
            return now
        least = min(self.least_sampling or now.sampling - self.sampling, now.sampling)
        sampling = max(now.sampling - self.sampling, least)
        return StepCost(now.noise + self.noise, sampling if sampling > 0 else now.sampling)


@dataclass(frozen=True)
class SpendMore:
    """Reduce the noise whenever accuracy has not grown.

    Attributes:
        noise: Subtracted from the noise; the paper: 0.1.
        least_noise: The noise does not fall below it.
        every: Epochs between questions.

    Example:
        >>> start = StepCost(noise=2.0, sampling=0.01)
        >>> SpendMore().adapted(start, start, False, lambda: 0.0)
        StepCost(noise=1.9, sampling=0.01)
    """

    noise: float = 0.1
    least_noise: float = 0.5
    every: float = 1.0

    def __post_init__(self) -> None:
        if not self.noise > 0 or self.every <= 0 or self.least_noise < LEAST_NOISE:
            raise ParameterError(
                f"noise and every are above 0, least_noise is at least {LEAST_NOISE}"
            )

    def adapted(
        self, now: StepCost, start: StepCost, grew: bool, epochs_left: Callable[[], float]
    ) -> StepCost:
        """Return the setting until the next question."""
        if grew:
            return now
        return StepCost(max(now.noise - self.noise, self.least_noise), now.sampling)
