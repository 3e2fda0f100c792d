"""The state of a run of private SGD, from step to step and from checkpoint to checkpoint.

A step is [a question,] [a refresh of norms,] a noised gradient; each is paid before it is drawn.
Everything that is not drawn is public arithmetic on released numbers. A step is reported only after
a checkpoint at or after it is on disk, so that a killed run continues from the checkpoint: nobody
has seen the draws after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sparseq.base.errors import DataError
from sparseq.engine.reduction import Index
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy, for_release
from sparseq.networks.sgd.accounts import IndividualAccounts, norms_of
from sparseq.networks.sgd.policies import GROWN, StepCost
from sparseq.networks.sgd.promise import Promise
from sparseq.networks.sgd.run_file import RunFile
from sparseq.networks.sgd.sampled_steps import SampledGaussian
from sparseq.networks.sgd.settings import SgdSettings
from sparseq.training.protocol import Floats
from sparseq.training.user_numbers import Numbers, everybody

_NEVER = -1.0  # in a checkpoint: no such number yet


@dataclass(frozen=True)
class Checkpoint:
    """The public state of a run at one time.

    Attributes:
        step: Steps taken.
        epochs: Sum of their sampling rates.
        noise, sampling: Of the latest step.
        odometer: Epsilon that holds if the run ends here, for whatever reason.
        accuracy: Noised training accuracy, if a question preceded that step.
        validation: Result of the caller's own function, on public data.
    """

    step: int
    epochs: float
    noise: float
    sampling: float
    odometer: float
    accuracy: float | None = None
    validation: float | None = None


@dataclass
class SgdRun:
    """The state of one run: releases, and numbers computed from them."""

    how: SgdSettings
    engine: Any
    users: Index
    file: RunFile
    promise: Promise
    own: IndividualAccounts | None
    planned: StepCost
    seed: int | None
    step: int = 0
    epochs: float = 0.0
    asked: float = 0.0  # epochs at the latest question
    right: float = -math.inf  # its answer
    flat: int = 0  # questions in a row without growth
    people: float = _NEVER
    refreshed: bool = False  # since the latest checkpoint
    limits: Floats | None = None
    stopped: str = ""
    log: list[Checkpoint] = field(default_factory=list)

    def begin(self, params: Floats) -> None:
        """Start, or read the state from the file."""
        self.now = self.planned
        self.params, self.velocity, self.mean = params, np.zeros_like(params), np.zeros_like(params)
        self.people = self.how.people or _NEVER
        self._read()

    @property
    def shown(self) -> Floats:
        """The averaged parameters."""
        past = self.how.averaging**self.step
        return self.mean / (1 - past) if past < 1 else self.params

    def go(
        self, validate: Callable[[Floats], float] | None, watch: Callable[[Checkpoint], None]
    ) -> str:
        """Take steps until the run must stop; return the reason."""
        while not self.stopped:
            accuracy = self._one_step(self._entropy())
            if self.stopped or accuracy is not None or self.step % self.how.checkpoint == 0:
                self._write(accuracy)
                if validate is not None:
                    value = validate(self.shown)
                    self.log[-1] = Checkpoint(**(asdict(self.log[-1]) | {"validation": value}))
                watch(self.log[-1])
        return self.stopped

    def _entropy(self) -> Entropy:
        return SYSTEM_ENTROPY if self.seed is None else for_release(self.seed, self.step + 1)

    def _one_step(self, entropy: Entropy) -> float | None:
        """Ask the due questions, and take a step; return the accuracy if it was asked for."""
        how = self.how
        if self.step >= how.last:
            self.stopped = "all steps are done"
            return None
        if self.people == _NEVER:
            count = self._number(everybody(self.engine), np.zeros(0), entropy)
            self.people = max(count or 0.0, 1.0)
        accuracy = None
        if how.asks and self.epochs - self.asked >= how.asks * (1 - 1e-9):
            accuracy = self._ask(entropy)
            if self.stopped:
                return accuracy
        step = SampledGaussian.of(self.now.sampling, self.now.noise, how.clip)
        if not self.promise.pay(step):
            self.stopped = "the budget is spent"
            return accuracy
        if self.own is not None:
            self._refresh(self.own)
        sums = step.release(self.engine, self.params, self.users, entropy, self.limits)
        self.step += 1
        self.epochs += step.sampling
        self._descend(sums / (step.sampling * self.people))
        return accuracy

    def _descend(self, gradient: Floats) -> None:
        how = self.how
        self.velocity = how.momentum * self.velocity + gradient + how.decay * self.params
        rate = how.rate(self.step) if callable(how.rate) else how.rate
        self.params = self.params - rate * self.velocity
        self.mean = how.averaging * self.mean + (1 - how.averaging) * self.params

    def _refresh(self, own: IndividualAccounts) -> None:
        """Compute every user's norm when it is due, and charge a step."""
        period = max(round(1 / (self.how.sampling * self.how.refreshes)), 1)
        if self.step % period == 0:
            left = min(period, self.how.last - self.step)
            norms = norms_of(self.engine, self.params, self.users)
            self.limits = own.refresh(norms, left)
            self.refreshed = True
        own.stepped()

    def _ask(self, entropy: Entropy) -> float | None:
        """Ask for the accuracy, and let the policy decide how to continue."""
        how = self.how
        right = self._number(Numbers(self.engine, self.engine.right), self.shown, entropy)
        if right is None:
            self.stopped = "the budget is spent"
            return None
        grew = right - self.right >= GROWN * how.question_noise
        self.flat = 0 if grew else self.flat + 1
        self.right, self.asked = right, self.epochs
        if how.policy is not None:
            self.now = how.policy.adapted(self.now, self.planned, grew, self._epochs_left)
        if how.target is not None and right / self.people >= how.target:
            self.stopped = "the target is reached"
        elif how.patience and self.flat >= how.patience:
            self.stopped = "training accuracy no longer grows"
        return right / self.people

    def _epochs_left(self) -> float:
        step = SampledGaussian.of(self.now.sampling, self.now.noise, self.how.clip)
        return self.promise.left(step) * step.sampling

    def _number(self, numbers: Numbers, params: Floats, entropy: Entropy) -> float | None:
        """Ask every user for a number in [0, 1]; None: the budget does not allow it."""
        if not self.promise.pay(self.how.question):
            return None
        return float(self.how.question.release(numbers, params, self.users, entropy)[0])

    # The file: all releases so far, and their cost

    def _write(self, accuracy: float | None) -> None:
        self.log.append(
            Checkpoint(
                self.step,
                self.epochs,
                self.now.noise,
                self.now.sampling,
                self.promise.odometer.epsilon(),
                accuracy,
            )
        )
        rows = [
            [
                c.step,
                c.epochs,
                c.noise,
                c.sampling,
                c.odometer,
                _NEVER if c.accuracy is None else c.accuracy,
            ]
            for c in self.log
        ]
        numbers = [
            self.step,
            self.epochs,
            self.asked,
            self.right,
            self.flat,
            self.people,
            self.now.noise,
            self.now.sampling,
            len(self.users),
        ]
        state = {
            "numbers": np.array(numbers, np.float64),
            "stopped": np.array(self.stopped),
            "params": self.params,
            "velocity": self.velocity,
            "mean": self.mean,
            "log": np.array(rows, np.float64),
            **self.promise.state(),
        }
        parts: dict[str, Any] = {"state": state}
        if self.own is not None and self.refreshed:
            at = np.array(self.step)
            parts["accounts"] = {"at": at, "limits": self.limits, **self.own.state()}
        self.file.write(**parts)
        self.refreshed = False

    def _read(self) -> None:
        state = self.file.read("state")
        if state is None:
            return
        step, self.epochs, self.asked, self.right, flat, self.people, *rest = state["numbers"]
        noise, sampling, users = rest
        if users != len(self.users):
            raise DataError(
                "the run was begun on other data", "continue it on the data that it is about"
            )
        self.step, self.flat, self.now = int(step), int(flat), StepCost(noise, sampling)
        self.stopped = str(state["stopped"])
        self.params, self.velocity, self.mean = (state[k] for k in ("params", "velocity", "mean"))
        self.log = [
            Checkpoint(int(t), e, noise, rate, spent, None if right == _NEVER else right)
            for t, e, noise, rate, spent, right in state["log"].tolist()
        ]
        self.promise.restore(state)
        accounts = self.file.read("accounts")
        if self.own is not None and accounts is not None:
            since = self.step - int(accounts.pop("at"))
            self.limits = accounts.pop("limits")
            self.own.restore(accounts)
            for _ in range(since):
                self.own.stepped()
