"""Private SGD: noised gradients of Poisson samples, accounted for in Rényi DP.

See docs/theorems/sampled-gradients.md.

**Where its privacy lives.** Not in a store. A step on a secret sample costs a user far less than
its zCDP: that gain, amplification by sampling, lives in a Rényi curve that grows without bound at
large orders and is no zCDP number, which is all that a store's ledger adds up. It would be sound to
let the drawn users pay in full from the ledger (coins don't depend on data, so that with public
coins it is Algorithm 2), but it gains nothing: at the same spending, sampling at rate q has sqrt(q)
of the signal of full batches. `PrivateGD` trains on a store. So a run of SGD is a separate account,
with its own guarantee, in its own file:

    a run with epsilon is (epsilon, delta)-DP for add/remove of one user, however it was stopped
    or continued. If the same people's data are also queried through a store, the two add up:
    releases of both are (alpha, curve(alpha) + alpha · kappa)-RDP only for a run without policy
    and filtering, whose curve is fixed in advance; otherwise epsilons and deltas add up.

Sources of the guarantee:

    fixed noise and rate        all curves fixed in advance        Mironov et al. 2019; composition
    a policy                    a filter over the Rényi curve      Lécuyer 2021, as corrected
    filtering                   such a filter for each user        Feldman & Zrnic, Theorem 4.5
    no epsilon, stop any time   the odometer                       Lécuyer 2021, Theorem 2

**No result before it is on disk.** A checkpoint holds parameters and their cost, written in one
transaction; only then are they reported or validated. A killed run continues from its last
checkpoint: nobody has seen the draws after it.

**Seeds** are for tests: reproducible coins and noise protect nobody, and the result says so.
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
from sparseq.accounting.filters import RenyiCurveRule
from sparseq.base.errors import ParameterError
from sparseq.networks.sgd.accounts import IndividualAccounts
from sparseq.networks.sgd.policies import StepCost
from sparseq.networks.sgd.promise import Promise, noise_for, rule_for, total
from sparseq.networks.sgd.run import Checkpoint, SgdRun
from sparseq.networks.sgd.run_file import RunFile
from sparseq.networks.sgd.sampled_steps import SampledGaussian, all_users
from sparseq.networks.sgd.settings import SgdSettings
from sparseq.networks.sgd_account import TrajectoryAccount
from sparseq.training.identity import identity_of
from sparseq.training.protocol import Floats, GradientEngine


@dataclass(frozen=True)
class SgdResult:
    """The result of a run: public except `individual`.

    Attributes:
        params: The parameters.
        steps: Number of steps taken.
        epsilon: Promised beforehand, at `delta`; None: no promise, see `odometer`.
        delta: delta of both.
        odometer: Spent epsilon, valid for every way of stopping.
        log: The checkpoints.
        stopped: Reason of the end.
        seeded: Coins and noise came from a seed: not private.
        individual: PRIVATE, for the curator: the cost of each user's data along this run.
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

    Individual accounts cover steps only: a run with `refreshes` asks no questions.

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
        """Train, or continue the run in that file.

        Args:
            engine: The model and its data; with `of` it is asked about the drawn users only, with
                `right` it can be asked for accuracy.
            delta: delta of every reported epsilon.
            epsilon: Promised beforehand; the run stops before it would exceed it. None: give noise;
                without a policy epsilon follows from the plan.
            path: File of the run, private; None: it can't be continued.
            start: Parameters to start from, public; 0 by default.
            validate: A function of the parameters to show, computed on public data.
            watch: Called with every checkpoint, once it is on disk.
            seed: For tests: not private.

        Raises:
            ParameterError: A number is out of its range.
            QueryRefused: The file holds a run with other settings.
            StoreError: The file can't be used, or another process has it open.
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
        users = all_users(engine)
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
        """Return a digest of settings and the engine's facts, which identifies the run."""
        settings = asdict(self) | {"policy": repr(self.policy)}
        if callable(self.rate):
            settings["rate"] = [self.rate(t + 1) for t in range(self.last)]
        model = identity_of("", engine).digest
        text = repr((sorted(settings.items()), noise, epsilon, delta, seed, model)).encode()
        return hashlib.sha256(text + start.tobytes()).hexdigest()
