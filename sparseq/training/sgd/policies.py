"""Costs of the next epochs, decided from noised training accuracy (Lécuyer 2021, section 5).

    SpendLess    under a filter: save while accuracy grows, and train for longer (section 5.1)
    SpendMore    under an odometer: begin cheaply, and pay more where accuracy doesn't grow (5.2)

Now and then the run asks how many users the model is right about, by a Gaussian that is paid for as
the steps are. "Grew" is by at least `GROWN` standard deviations of that noise. A policy sees that,
and what the account has left: released numbers, so that what it decides is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sparseq.base.errors import ParameterError
from sparseq.training.sgd.sampled_steps import LEAST_NOISE

GROWN = 3.0


@dataclass(frozen=True)
class StepCost:
    """What a step costs: `noise` over clip, and each user's probability `sampling`."""

    noise: float
    sampling: float


class Policy(Protocol):
    """Says after each question how to go on."""

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
    """Pay less while accuracy grows, and more, up to what was planned, where it doesn't.

    Attributes:
        noise: Added to the noise, or taken from it; the paper: 0.1.
        sampling: Taken from the sampling rate, or added; the paper: 128 users of 50,000.
        least_sampling: The rate doesn't fall below; the paper: 256 users.
        every: Epochs between questions.
        room: Less is paid only while more than so many epochs are left at the present price.

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
    """Take from the noise whenever accuracy has not grown.

    Attributes:
        noise: Taken from the noise; the paper: 0.1.
        least_noise: It doesn't fall below.
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
