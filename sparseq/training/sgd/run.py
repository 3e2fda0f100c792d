"""The state of a run of private SGD, from step to step and from checkpoint to checkpoint.

A step is [a question,] [a refresh of norms,] a noised gradient, each paid before it is drawn. All
that is not drawn is public arithmetic on what was released. Nothing is told of a step before a
checkpoint at or after it is on disk, so that a run that was killed goes on from there: what was
drawn since was seen by nobody.

A run on disk: what a killed run needs to go on, each step in one durable transaction.

It holds what was released so far, and what it cost: with accounts of users in it, it is private.
Only one process at a time has it open.
"""

from __future__ import annotations

import io
import math
import os
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import DataError, ParameterError, QueryRefused, StoreError, StoreInUse
from sparseq.engine.contributions import Index
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy, for_release
from sparseq.training.descent import check_descent
from sparseq.training.protocol import Floats, Numbers, everybody
from sparseq.training.sgd.promise import (
    GROWN,
    IndividualAccounts,
    Policy,
    Promise,
    StepCost,
    norms_of,
)
from sparseq.training.sgd.sampled_steps import CHANCES, SampledGaussian

# -- settings of a run of private SGD, checked -----------------------------------------------------

_NUMBER_CLIP = 1 + 2.0**-8
"""Of questions whose answers are in [0, 1]: a little above, so that none is scaled down."""


@dataclass(frozen=True)
class SgdSettings:
    """The settings of a run. All of them are public.

    Attributes:
        steps: At full norm, everybody can take part in so many: this sets the noise.
        sampling: Each user's probability of being drawn for a step, in (0, 1].
        most: Steps at most; by default `steps`. More are of use with filtering or a policy.
        noise: The noise's deviation over clip; None: the least at which epsilon allows `steps`.
        clip: C.
        rate: Learning rate, of the mean gradient: a number, or a function of the step from 1.
        momentum: In [0, 1).
        averaging: In [0, 1): weight of the past in an exponential mean of the parameters.
        decay: Weight decay.
        people: About how many users there are, if that is public; None: it is asked, noised.
        refreshes: How often an epoch everybody's norm is computed, for individual accounts; 0:
            there are none.
        cut: Whether gradients are cut to everybody's latest norm, rounded up, so that the accounts
            bound what was lost; if not they estimate it, as in Yu et al.'s experiments.
        filtering: Whether everybody has a filter of their own: whoever can't pay is left out.
        policy: Adapts noise or rate to noised training accuracy.
        ask_every: Epochs between questions for accuracy where there is no policy; 0: none.
        question_noise: Deviation of noised counts, in users.
        target: Stop when noised accuracy has reached this.
        patience: Stop after so many questions in a row at which accuracy had not grown; 0: never.
        checkpoint: Steps between checkpoints.

    Raises:
        ParameterError: A number makes no sense, or two don't go together.
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
        """The most steps."""
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
        """Return how many are asked in so many steps at the planned rate, at most."""
        accuracy = math.floor(steps * self.sampling / self.asks) + 1 if self.asks else 0
        return accuracy + (self.people is None)

    def planned(self, noise: float, steps: int) -> list[tuple[SampledGaussian, int]]:
        """Return everything that is released in so many steps, without a policy's changes."""
        step = SampledGaussian.of(self.sampling, noise, self.clip)
        return [(step, steps), (self.question, self.questions(steps))]


# -- a run on disk: what a killed run needs to go on, each step in one durable transaction ---------

_KIND = 0x73707271  # "sprq"
Arrays = Mapping[str, NDArray[Any]]


class RunFile:
    """Named parts, each a set of arrays, written together or not at all.

    Args:
        path: Where; None: in memory, for a run that can't be continued.
        settings: What the run is; a file of other settings is refused.

    Raises:
        QueryRefused: It holds a run with other settings.
        StoreInUse: Another process has it open.
        StoreError: It can't be read as a run, or not be made.

    Example:
        >>> with RunFile(None, "settings") as file:
        ...     file.write(state={"step": np.array(3)})
        ...     file.read("state")["step"], file.read("accounts")
        (array(3), None)
    """

    def __init__(self, path: str | Path | None, settings: str) -> None:
        self._name = "memory" if path is None else str(path)
        try:
            if path is not None:  # nobody else may read it
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._con = sqlite3.connect(
                ":memory:" if path is None else path, isolation_level=None, timeout=0
            )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self._name!r} can't be opened as a run: {error}") from None
        try:
            self._open(settings)
        except sqlite3.OperationalError as error:
            self._con.close()
            if "locked" in str(error):
                raise StoreInUse(
                    f"the run {self._name!r} is going on", "wait for it, or give another file"
                ) from None
            raise StoreError(f"{self._name!r} can't be opened as a run: {error}") from None
        except sqlite3.DatabaseError:
            self._con.close()
            raise StoreError(
                f"{self._name!r} is not the file of a run", "give another one"
            ) from None
        except QueryRefused:
            self._con.close()
            raise

    def _open(self, settings: str) -> None:
        run = self._con.execute
        ((kind,),) = run("PRAGMA application_id").fetchall()
        if kind != _KIND and run("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            raise sqlite3.DatabaseError("another program's database")
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            run(f"PRAGMA {pragma}")
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA application_id = {_KIND}")
        run("CREATE TABLE IF NOT EXISTS parts (name TEXT PRIMARY KEY, arrays BLOB NOT NULL)")
        run("INSERT OR IGNORE INTO parts VALUES ('settings', ?)", (settings.encode(),))
        run("COMMIT")
        ((found,),) = run("SELECT arrays FROM parts WHERE name = 'settings'").fetchall()
        if found != settings.encode():
            raise QueryRefused(
                f"{self._name!r} holds a run with other settings",
                "repeat them, or give another file for another run",
            )

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Return a part; None: it was never written."""
        rows = self._con.execute("SELECT arrays FROM parts WHERE name = ?", (name,)).fetchall()
        if not rows:
            return None
        try:
            with np.load(io.BytesIO(rows[0][0]), allow_pickle=False) as arrays:
                return dict(arrays)
        except (ValueError, OSError, EOFError):
            raise StoreError(f"the run {self._name!r} is damaged: {name} can't be read") from None

    def write(self, **parts: Arrays) -> None:
        """Write parts; when it returns they are on disk, all of them."""
        run = self._con.execute
        run("BEGIN IMMEDIATE")
        try:
            for name, arrays in parts.items():
                buffer = io.BytesIO()
                np.savez(buffer, **arrays)  # type: ignore[arg-type]
                run("INSERT OR REPLACE INTO parts VALUES (?, ?)", (name, buffer.getvalue()))
            run("COMMIT")
        except BaseException:
            if self._con.in_transaction:
                run("ROLLBACK")
            raise

    def __enter__(self) -> RunFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()


# -- the state of a run of private SGD, from step to step and from checkpoint to checkpoint --------

_NEVER = -1.0  # in a checkpoint: no such number yet


@dataclass(frozen=True)
class Checkpoint:
    """The public state of a run at one time.

    Attributes:
        step: Steps taken.
        epochs: Sum of their sampling rates.
        noise, sampling: Of the latest step.
        odometer: Epsilon that holds if the run ends here, for whatever reason.
        accuracy: Noised training accuracy, where it was asked for just before that step.
        validation: What the caller's own function says, on public data.
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
    """The state of one run: what was released, and what is made of it."""

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
        """Start, or read the file back."""
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
        """Take steps until something says stop; return what."""
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
        """Ask what is to be asked, and take a step; return the accuracy if it was asked for."""
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
        """Compute everybody's norm when it is due, and charge a step."""
        period = max(round(1 / (self.how.sampling * self.how.refreshes)), 1)
        if self.step % period == 0:
            left = min(period, self.how.last - self.step)
            norms = norms_of(self.engine, self.params, self.users)
            self.limits = own.refresh(norms, left)
            self.refreshed = True
        own.stepped()

    def _ask(self, entropy: Entropy) -> float | None:
        """Ask how often the model is right, and let the policy say how to go on."""
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
        """Ask a question that everybody answers with a number in [0, 1]; None: it's too dear."""
        if not self.promise.pay(self.how.question):
            return None
        return float(self.how.question.release(numbers, params, self.users, entropy)[0])

    # The file: all that is released so far, and what it cost

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
