"""Private SGD: noised gradients of Poisson samples, accounted for in Rényi DP.

See docs/theorems/sampled-gradients.md.

**Where its privacy lives.** Not in a store. A step on a secret sample costs a user far less than
its zCDP: that gain, amplification by sampling, lives in a Rényi curve that grows without bound at
large orders and is no zCDP number, which is all that a store's ledger adds up. To let the drawn
users pay in full from the ledger would be sound (coins don't depend on data, so that with the
coins public it is Algorithm 2), but it buys nothing: at the same spending, sampling at rate q has
sqrt(q) of the signal that full batches have. `PrivateGD` is what trains on a store. So a run of SGD
is an account of its own, with its own guarantee, in its own file:

    a run with epsilon is (epsilon, delta)-DP for add/remove of one user, however it was stopped
    or continued. Whoever asks the same people's data through a store as well adds the two:
    releases of both are (alpha, curve(alpha) + alpha · kappa)-RDP only for a run without policy
    and filtering, whose curve is fixed in advance; otherwise epsilons and deltas add up.

What the guarantee is from:

    fixed noise and rate        all curves fixed in advance        Mironov et al. 2019; composition
    a policy                    a filter over the Rényi curve      Lécuyer 2021, as mended
    filtering                   such a filter for each user        Feldman & Zrnic, Theorem 4.5
    no epsilon, stop any time   the odometer                       Lécuyer 2021, Theorem 2

**Nothing leaves before it is on disk.** A checkpoint holds parameters and what they cost, written
in one transaction; only then is anything told or validated. A killed run goes on from its last
checkpoint: what was drawn after it was never seen by anybody.

**Seeds** are for tests: coins and noise that can be computed again protect nobody, and the result
says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparseq.accounting import rdp
from sparseq.accounting._numbers import probability
from sparseq.base.errors import ParameterError
from sparseq.papers.filters import RenyiCurveRule
from sparseq.papers.sgd_account import TrajectoryAccount
from sparseq.training.identity import identity_of
from sparseq.training.protocol import Floats, GradientEngine
from sparseq.training.sgd.promise import (
    IndividualAccounts,
    Promise,
    StepCost,
    noise_for,
    rule_for,
    total,
)
from sparseq.training.sgd.run import Checkpoint, RunFile, SgdRun, SgdSettings
from sparseq.training.sgd.sampled_steps import SampledGaussian, everybody_of


@dataclass(frozen=True)
class SgdResult:
    """The result of a run. All of it is public but `individual`.

    Attributes:
        params: The parameters.
        steps: How many were taken.
        epsilon: Promised beforehand, at `delta`; None: nothing was, see `odometer`.
        delta: Of both.
        odometer: Epsilon as spent, true because it holds for every way of stopping.
        log: The checkpoints.
        stopped: Why.
        seeded: Coins and noise came from a seed: not private.
        individual: PRIVATE, the curator's: what each user's data cost along this run.
    """

    params: Floats
    steps: int
    epsilon: float | None
    delta: float
    odometer: float
    log: tuple[Checkpoint, ...]
    stopped: str
    seeded: bool
    individual: TrajectoryAccount | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PrivateSGD(SgdSettings):
    """Stochastic gradient descent on Poisson samples, clipped and noised; see `SgdSettings`.

    Individual accounts are of steps: a run with `refreshes` asks no questions.

    Example:
        >>> from sparseq.training import ClosedForm, family
        >>> x = np.linspace(-1, 1, 2000)[:, None]
        >>> engine = ClosedForm(family("logistic"), range(2000), x, x[:, 0] > 0, bound=1.0)
        >>> how = PrivateSGD(steps=100, sampling=0.1, rate=2.0, people=2000)
        >>> trained = how.fit(engine, epsilon=2.0, delta=1e-5)
        >>> bool(trained.params[0] > 1), trained.steps, trained.epsilon, trained.seeded
        (True, 100, 2.0, False)
    """

    def fit(
        self,
        engine: GradientEngine,
        *,
        delta: float,
        epsilon: float | None = None,
        path: str | Path | None = None,
        start: Floats | None = None,
        validate: Callable[[Floats], float] | None = None,
        watch: Callable[[Checkpoint], None] = lambda _: None,
        seed: int | None = None,
    ) -> SgdResult:
        """Train; or go on where the run in that file stopped.

        Args:
            engine: The model and its data; one with `of` is asked about the drawn users only, one
                with `right` can be asked for accuracy.
            delta: Of every epsilon that is told.
            epsilon: Promised beforehand; the run stops before it would pass it. None: give noise;
                without a policy epsilon follows from the plan.
            path: File of the run, private; None: it can't be continued.
            start: Parameters to start from, public; 0 by default.
            validate: Something to show of the parameters, computed on public data.
            watch: Told of every checkpoint, once it is on disk.
            seed: For tests: not private.

        Raises:
            ParameterError: A number makes no sense.
            QueryRefused: The file holds a run with other settings.
            StoreError: The file can't be used; another process has it.
        """
        delta = probability("delta", delta)
        first = np.zeros(engine.coordinates) if start is None else np.asarray(start, np.float64)
        if first.shape != (engine.coordinates,):
            raise ParameterError(f"start has shape {first.shape}; it has {engine.coordinates}")
        if self.asks and not hasattr(engine, "right"):
            raise ParameterError("this engine can't be asked for accuracy", "it has no `right`")
        if self.filtering and epsilon is None:
            raise ParameterError("filtering needs an epsilon that nobody may pass")
        noise, rule = self._noise_and_rule(epsilon, delta)
        promised = epsilon
        if promised is None and self.policy is None:
            orders = tuple(rdp.DEFAULT_ORDERS.tolist())
            promised = rdp.epsilon(total(self.planned(noise, self.last), orders), orders, delta)
        users = everybody_of(engine)
        own = None
        if self.refreshes:
            step = SampledGaussian.of(self.sampling, noise, self.clip)
            own = IndividualAccounts(len(users), step, rule if self.filtering else None, self.cut)
        promise = Promise(None if self.filtering else rule, delta)
        settings = self._digest(engine, first, noise, epsilon, delta, seed)
        with RunFile(path, settings) as file:
            run = SgdRun(
                self, engine, users, file, promise, own, StepCost(noise, self.sampling), seed
            )
            run.begin(first)
            stopped = run.go(validate, watch)
        return SgdResult(
            run.shown,
            run.step,
            promised,
            delta,
            promise.odometer.epsilon(),
            tuple(run.log),
            stopped,
            seed is not None,
            None if own is None else own.report,
        )

    def _noise_and_rule(
        self, epsilon: float | None, delta: float
    ) -> tuple[float, RenyiCurveRule | None]:
        if epsilon is None:
            if self.noise is None:
                raise ParameterError("neither noise nor epsilon is given", "give one of them")
            return self.noise, None
        asides = self.planned(1.0, self.steps)[1:]

        def enough(rule: RenyiCurveRule) -> float:
            if self.noise is not None:
                return self.noise
            return noise_for(rule, self.sampling, self.steps, asides)

        rule = rule_for(epsilon, delta)
        noise = enough(rule)
        if self.policy is not None or self.filtering:
            rule = rule_for(epsilon, delta, self.planned(noise, self.steps))
            noise = enough(rule)
        return noise, rule

    def _digest(
        self,
        engine: Any,
        start: Floats,
        noise: float,
        epsilon: float | None,
        delta: float,
        seed: int | None,
    ) -> str:
        """Return what tells runs apart: settings and the engine's facts. One is not continued as
        another.
        """
        settings = asdict(self) | {"policy": repr(self.policy)}
        if callable(self.rate):
            settings["rate"] = [self.rate(t + 1) for t in range(self.last)]
        model = identity_of("", engine).digest
        text = repr((sorted(settings.items()), noise, epsilon, delta, seed, model)).encode()
        return hashlib.sha256(text + start.tobytes()).hexdigest()
