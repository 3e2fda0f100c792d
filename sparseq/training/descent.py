"""Private gradient descent with individual accounts: Algorithm 3 of Feldman & Zrnic (2021).

Every step is a query of the store's stream: the sum of everybody's clipped gradients, noised. For
the first `steps` steps nobody can run out; from then on people with large gradients do, and
training continues with the others, up to `most` steps. Private questions check whether that helps:
at some steps the run asks for the noised training accuracy, for which a part of each budget is kept
back. Later parameters replace earlier ones if they are better by more than the noise explains.

Everything except the steps is public arithmetic on their releases. So a killed run is started again
under its name: the recorded steps are read from the journal, free and without new noise, and the
next step continues from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError
from sparseq.compiled import COLD, compiled
from sparseq.engine.reduction import Index
from sparseq.ledger.pots import Pot
from sparseq.store.store import Store
from sparseq.training.accountant import checked_clip
from sparseq.training.alarm import FewActive, check_zcdp
from sparseq.training.identity import FIRST, Identity, digest_of, identity_of
from sparseq.training.protocol import Floats, GradientEngine
from sparseq.training.query import ask_dense, gradient_of, step_request
from sparseq.training.training_cost import Spending, run_kappa
from sparseq.training.user_numbers import Numbers, everybody

COUNT_COST = 0.01
"""Cost of counting users, as a share of the run."""
EXHAUSTED = 0.01
"""A user who can't pay for this share of a full gradient counts as no longer active."""
MARGIN = 2.0
"""Standard deviations by which a noised accuracy must beat another one."""


@dataclass(frozen=True)
class TrainingStep:
    """The public facts of one step, for logs and progress bars.

    Attributes:
        step: Number of the step, from 1.
        sigma: Standard deviation of the noise on the sum of gradients.
        norm: Norm of the noised mean gradient: mostly noise towards the end.
        worst_case: Share of the run's budget that a user with full gradients has spent.
        accuracy, loss: Noised training accuracy, or mean loss, if the step asked for it.
        active: Noised share of people able to pay, if the step asked for it.
        validation: Result of the caller's own function, on public data.
    """

    step: int
    sigma: float
    norm: float
    worst_case: float
    accuracy: float | None = None
    active: float | None = None
    validation: float | None = None
    loss: float | None = None


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run, computed from releases: public.

    Attributes:
        params: The chosen parameters.
        taken: The step after which they were chosen.
        plain: The parameters after `steps` steps, when nobody can have run out yet.
        log: Public facts of every step.
        kappa: kappa of the run.
        stopped: Reason of the end.
        check_error: 95 % half-width of every noised accuracy or loss, from the noise alone; 0:
            no check was asked.
        seeded: The noise came from a seed: not private.
        gaussian: All noise was Gaussian, so that the run is mu-GDP too (see `Budget`).
    """

    params: Floats
    taken: int
    plain: Floats
    log: tuple[TrainingStep, ...]
    kappa: float
    stopped: str
    check_error: float
    seeded: bool
    gaussian: bool = True


def check_descent(how: Any) -> None:
    """Check the settings of every kind of descent: steps, clip, rate, momentum, averaging, people.

    Raises:
        ParameterError: A number is out of its range.
    """
    if how.steps < 1 or how.last < how.steps:
        raise ParameterError(
            f"steps is {how.steps}, most {how.last}",
            "steps must be at least 1, and most at least steps",
        )
    checked_clip(how.clip)
    if not callable(how.rate) and not 0 <= how.rate < math.inf:
        raise ParameterError(f"rate is {how.rate!r}; it must be at least 0")
    for name in ("momentum", "averaging"):
        if not 0 <= getattr(how, name) < 1:
            raise ParameterError(f"{name} is {getattr(how, name)!r}; it must be in [0, 1)")
    if how.people is not None and not how.people > 0:
        raise ParameterError(f"people is {how.people!r}; it must be positive")


@dataclass(frozen=True)
class PrivateGD:
    """Full-batch gradient descent with momentum, clipped, noised, with individual filtering.

    Attributes:
        steps: k: number of steps in which every user can take part at full norm; sets the noise.
        most: Largest number of steps; by default `steps`, which is private GD without filtering.
        clip: C.
        rate: Learning rate, of the mean gradient: a number, or a function of the step from 1.
        momentum: In [0, 1).
        averaging: In [0, 1): weight of the past in an exponential mean of the parameters.
        decay: Weight decay.
        people: Approximate number of users, if that is public; None: a noised question asks for it.
        checks: Number of questions for training accuracy after `steps`, at equal distances.
        check_cost: Cost of one such question, as a share of the run.
        loss: Checks ask for the mean loss instead, each user's clipped at this; 0: accuracy.
        patience: Stop after this number of checks in a row without improvement; 0: never.
        least_active: Stop if the noised share of people who can still pay for a tenth of a full
            gradient is below this; 0: never asked.
        stop_active: Stop if a sparse vector, asked after every step from `steps` on, reports that
            less than this share of people can still pay for a tenth of a full gradient; 0: never
            asked. A user without budget pays for it, once. For stores with a watch, which claim
            zCDP only.
        stop_cost: Charge to such a user, as a share of the run.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> from sparseq.training import ClosedForm, family
        >>> con = sparseq.create(None, {"t": pa.table({"who": range(500)})}, user="who", seed=1)
        >>> x = np.linspace(-1, 1, 500)[:, None]
        >>> engine = ClosedForm(family("logistic"), range(500), x, x[:, 0] > 0, bound=1.0)
        >>> trained = PrivateGD(steps=20, rate=4.0, people=500).fit(con, engine, run="demo")
        >>> weight, intercept = trained.params
        >>> bool(weight > 1), len(con.releases())
        (True, 20)
    """

    steps: int = 50
    most: int | None = None
    clip: float = 1.0
    rate: float | Callable[[int], float] = 1.0
    momentum: float = 0.9
    averaging: float = 0.0
    decay: float = 0.0
    people: float | None = None
    checks: int = 0
    check_cost: float = 0.01
    loss: float = 0.0
    patience: int = 0
    least_active: float = 0.0
    stop_active: float = 0.0
    stop_cost: float = 0.01

    def __post_init__(self) -> None:
        check_descent(self)
        if not 0 <= self.loss < math.inf:
            raise ParameterError(f"loss is {self.loss!r}; it is the clip of a user's loss")
        if not 0 <= self.stop_active < 1 or not 0 < self.stop_cost < 1:
            raise ParameterError(
                f"stop_active is {self.stop_active!r} at {self.stop_cost!r}", "they are shares"
            )
        if self.stop_active and self.last == self.steps:
            raise ParameterError(
                "nobody can run out within `steps` steps", "give most, or leave out stop_active"
            )
        if not 0 < self.check_cost < 1 or not 0 <= self.questions < 0.9:
            raise ParameterError(
                f"checks would cost {self.questions:.0%} of the run",
                "ask for fewer checks, or lower check_cost",
            )

    @property
    def last(self) -> int:
        """Kmax: the largest number of steps."""
        return self.steps if self.most is None else self.most

    @property
    def questions(self) -> float:
        """Cost of everything but the steps, as a share of the run."""
        a_check = self.check_cost * (2 if self.least_active > 0 else 1)
        alarm = self.stop_cost if self.stop_active else 0.0
        return (COUNT_COST if self.people is None else 0.0) + self.checks * a_check + alarm

    def check_steps(self) -> list[int]:
        """Return the steps after which the run asks for training accuracy."""
        if self.checks < 2:
            return [self.last] * self.checks
        return sorted({round(s) for s in np.linspace(self.steps, self.last, self.checks)})

    def fit(
        self,
        store: Store,
        engine: GradientEngine,
        *,
        run: str,
        about: str = "a model",
        depends: Mapping[str, str] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        pot: Pot = Pot.QUERIES,
        start: Floats | None = None,
        validate: Callable[[Floats], float] | None = None,
        watch: Callable[[TrainingStep], None] = lambda _: None,
    ) -> TrainingResult:
        """Train, or continue a run of that name.

        Args:
            store: Store whose accounts pay.
            engine: The model and its data; with `checks`, it must have `right`, or `losses`.
            run: A name, unique in the store, by which the run is found again.
            about: Public description of the model, for the history.
            depends: Other public facts that the run depends on, by name: the table, and the
                encoding of its columns. The settings, the start, and the engine's own facts are
                added.
            epsilon, delta: Guarantee of the run alone, at most the store's, which is the default.
            pot: Pot that pays.
            start: Parameters to start from, public; 0 by default.
            validate: A function of the parameters to show, computed on public data.
            watch: Called with every step.

        Raises:
            ParameterError: A number is out of its range, or the run needs more than the store has.
            QueryRefused: Another run has that name; the message lists the differences.
        """
        first = np.zeros(engine.coordinates) if start is None else np.asarray(start, np.float64)
        if first.shape != (engine.coordinates,):
            raise ParameterError(f"start has shape {first.shape}; it has {engine.coordinates}")
        if self.stop_active:
            check_zcdp(store)
        kappa = run_kappa(store, pot, epsilon, delta, gaussian=not self.stop_active)
        if store.stream.people.inside() * self.last >= COLD:
            compiled()  # loaded once, and worth it for this number of rows
        identity = identity_of(
            run, engine, {"description": about}, depends or {}, self._facts(first, kappa)
        )
        identity.check(store)
        label = f"train {run} ({about}; settings {identity.digest})"
        return _Run(self, Spending(store, kappa, pot), engine, identity, label, validate, watch).go(
            first
        )

    def _facts(self, start: Floats, kappa: float) -> dict[str, Any]:
        """Return the public facts that the run depends on: settings and start."""
        settings = asdict(self)
        if callable(self.rate):
            settings["rate"] = [self.rate(t + 1) for t in range(self.last)]
        return settings | {"kappa": kappa, "start": digest_of(start.tobytes())}


@dataclass
class _Run:
    """The state of one run: parameters and the log of its steps."""

    how: PrivateGD
    spending: Spending
    engine: Any
    identity: Identity
    label: str
    validate: Callable[[Floats], float] | None
    watch: Callable[[TrainingStep], None]
    seeded: bool = False
    log: list[TrainingStep] = field(default_factory=list)
    kept_back: float = 0.0  # share of the run, for later questions

    def go(self, params: Floats) -> TrainingResult:
        """Descend, check, stop: public arithmetic on released numbers."""
        how, checks = self.how, self.how.check_steps()
        self.kept_back = how.questions
        sigma = self.spending.sigma(how.clip, (1 - how.questions) / how.steps)
        people = how.people or self._people()
        velocity, mean = np.zeros_like(params), np.zeros_like(params)
        shown = plain = params
        noise = self.spending.sigma(1.0, how.check_cost) / people * (how.loss or 1.0)  # per check
        alarm = self._alarm(people) if how.stop_active else None
        best, taken, chosen, worse, stopped = -np.inf, 0, params, 0, "all steps are done"
        for t in range(1, how.last + 1):
            gradient = self._gradient(params, t, sigma) / people
            velocity = how.momentum * velocity + gradient + how.decay * params
            rate = how.rate(t) if callable(how.rate) else how.rate
            params = params - rate * velocity
            mean = how.averaging * mean + (1 - how.averaging) * params
            shown = mean / (1 - how.averaging**t)
            plain = shown if t == how.steps else plain
            accuracy = loss = active = None
            if t in checks:
                if how.least_active > 0:  # first, as the accuracy charges only correct users
                    active = self._active(t) / people
                if how.loss:
                    loss = self._loss(shown, t) / people
                    score = -loss
                else:
                    score = accuracy = self._accuracy(shown, t) / people
                worse += 1
                if score > best + MARGIN * 2**0.5 * noise:
                    best, taken, chosen, worse = score, t, shown, 0
            self._tell(t, sigma, gradient, shown, accuracy, loss, active)
            few = alarm is not None and how.steps <= t < how.last and alarm.fired(t)
            if few or (active is not None and active < how.least_active):
                stopped = "few are active"
                break
            if how.patience and worse >= how.patience:
                stopped = f"training {'loss' if how.loss else 'accuracy'} gets no better"
                break
        if not checks:
            taken, chosen = len(self.log), shown
        error = 1.96 * noise if checks else 0.0
        return TrainingResult(
            chosen,
            taken,
            plain,
            tuple(self.log),
            self.spending.kappa,
            stopped,
            error,
            self.seeded,
            gaussian=not how.stop_active,
        )

    def _tell(
        self,
        t: int,
        sigma: float,
        gradient: Floats,
        shown: Floats,
        accuracy: float | None,
        loss: float | None,
        active: float | None,
    ) -> None:
        how = self.how
        worst = min((1 - how.questions) * min(t / how.steps, 1) + how.questions - self.kept_back, 1)
        validation = self.validate(shown) if self.validate is not None else None
        norm = float(np.linalg.norm(gradient))
        self.log.append(TrainingStep(t, sigma, norm, worst, accuracy, active, validation, loss))
        self.watch(self.log[-1])

    # Questions: each is a query of the stream, with the run's name and a key as request id

    def _gradient(self, params: Floats, t: int, sigma: float) -> Floats:
        return gradient_of(self._ask(self.engine, params, f"{t}", self.how.clip, sigma))

    def _people(self) -> float:
        """Return the approximate number of users, at least 1."""
        number = self._number(everybody(self.engine), np.zeros(0), "people", COUNT_COST)
        return max(number, 1.0)

    def _accuracy(self, params: Floats, t: int) -> float:
        numbers = Numbers(self.engine, self.engine.right)
        return self._number(numbers, params, f"{t} right", self.how.check_cost)

    def _loss(self, params: Floats, t: int) -> float:
        limit = self.how.loss
        numbers = Numbers(self.engine, lambda p, batch: self.engine.losses(p, batch) / limit)
        return limit * self._number(numbers, params, f"{t} loss", self.how.check_cost)

    def _active(self, t: int) -> float:
        """Return the approximate number of users able to pay for a tenth of a full gradient."""
        before = self.kept_back  # including the cost of this question
        numbers = Numbers(
            self.engine, lambda _, batch: self._can_pay(batch.users, before).astype(np.float64)
        )
        return self._number(numbers, np.zeros(0), f"{t} active", self.how.check_cost)

    def _can_pay(self, users: Index, kept_back: float) -> NDArray[np.bool_]:
        without = kept_back + EXHAUSTED * (1 - self.how.questions) / self.how.steps
        can: NDArray[np.bool_] = self.spending.left(users, without) > 0
        return can

    def _alarm(self, people: float) -> FewActive:
        how = self.how
        users = np.concatenate([np.zeros(0, np.int32), *(b.users for b in self.engine.batches())])
        return FewActive(
            self.spending,
            self.identity.run,
            self.label,
            np.sort(users),
            how.stop_active,
            people,
            how.stop_cost,
            how.last - how.steps,
            lambda some: self._can_pay(some, self.kept_back),
        )

    def _number(self, numbers: Numbers, params: Floats, what: str, cost: float) -> float:
        """Ask a question whose share has been kept back."""
        self.kept_back = max(self.kept_back - cost, 0.0)
        answer = self._ask(numbers, params, what, 1.0, self.spending.sigma(1.0, cost))
        return float(gradient_of(answer)[0])

    def _ask(
        self, engine: GradientEngine, params: Floats, what: str, clip: float, sigma: float
    ) -> Answer:
        spending = self.spending
        answer = ask_dense(
            spending.store,
            engine,
            params,
            lambda users: spending.left(users, self.kept_back),
            f"{self.label}: {what}",
            clip,
            sigma,
            step_request(self.identity.run, what),
            spending.pot,
            lambda _: self.identity.written() if what in FIRST else (),
        )
        spending.paid(answer.facts.release)
        self.seeded = self.seeded or answer.facts.seeded
        return answer
