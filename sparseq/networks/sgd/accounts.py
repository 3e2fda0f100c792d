"""Accounts of a sampled run, one per user: Yu et al.'s report, and a filter.

    refresh    at some steps every user's norm is computed at the current model, and rounded up to a
               grid: it is the user's *limit* until the next refresh
    report     the cost of the run to each user along the released models (Yu et al. 2023)
    filter     a user who can't pay for full limits until the next refresh gets a smaller limit,
               down to 0; training continues with the others (Feldman & Zrnic 2021, Theorem 4.5)

**Why the filter is one.** Until the next refresh a user's vector is cut to the user's own limit, so
that each step costs the user at most a sampled Gaussian at that limit, drawn or not: an individual
divergence in the sense of Definition 2.5, see `sparseq.networks.sgd.sampled_steps`. The limit is a
function of the user's own records, of released models and of the user's own account, which is a
function of these two. All steps until the next refresh are paid when the limit is set, so that a
limit that fits once is paid for as often as it is used. Shapes of curves depend on norms: the rule
is the one for adaptive shapes.

With `cut=False` gradients are cut to `clip` only, as in the paper's experiments: the report is then
an estimate, as norms may have grown since they were computed, and there can be no filter.

**Everything here is private**: it is computed from all users' rows, without noise, for the curator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparseq.accounting.filters import IndividualFilter, RenyiCurveRule
from sparseq.engine.reduction import Index
from sparseq.networks.sgd.promise import ROUNDING
from sparseq.networks.sgd.sampled_steps import SampledGaussian
from sparseq.networks.sgd_account import TrajectoryAccount
from sparseq.training.protocol import Floats, GradientEngine

LEVELS = 100


class IndividualAccounts:
    """The accounts of all users. Private.

    Args:
        users: Number of users.
        step: The repeated step.
        rule: The limit of every account; None: no filter, a report only.
        cut: True if gradients are cut to each user's own limit; with a filter they are.

    Example:
        >>> from sparseq.networks.sgd.promise import rule_for
        >>> step = SampledGaussian.of(0.1, noise=2.0)
        >>> own = IndividualAccounts(2, step, rule_for(1.0, 1e-5, [(step, 20)]))
        >>> own.refresh(np.array([0.101, 3.0]), steps=10).round(2).tolist()
        [0.11, 1.0]
        >>> own.refresh(np.array([0.101, 3.0]), steps=10).round(2).tolist()
        [0.11, 0.49]
    """

    def __init__(
        self, users: int, step: SampledGaussian, rule: RenyiCurveRule | None, cut: bool = True
    ) -> None:
        self.cut = cut or rule is not None
        self.report = TrajectoryAccount(users, step.sampling, step.noise, step.clip, LEVELS)
        self._clip = step.clip
        self._filter: IndividualFilter | None = None
        if rule is not None:
            self._filter = IndividualFilter(rule, users)
            self._table = np.stack(
                [step.curve(rule.orders, share=k / LEVELS) for k in range(LEVELS + 1)]
            )

    def refresh(self, norms: Floats, steps: int) -> Floats:
        """Return every user's limit for `steps` steps, and charge for them.

        Args:
            norms: At the current model, before clipping.
            steps: Number of steps until the next refresh.
        """
        self.report.refresh(norms)
        if self._filter is None:
            limits = self.report.thresholds
        else:
            limits = self._affordable(self.report.thresholds, steps)
            self.report.refresh(limits)
        return limits if self.cut else np.full(len(norms), self._clip)

    def stepped(self) -> None:
        """Charge a step in the report."""
        self.report.step(clipped=self.cut)

    def _affordable(self, wanted: Floats, steps: int) -> Floats:
        """Return the largest limits on the grid that each user can pay for, by bisection."""
        assert self._filter is not None
        prices = np.minimum(self._table * (steps * ROUNDING), 2.0**60)
        most = np.rint(wanted * (LEVELS / self._clip)).astype(np.int64)
        fits = self._filter.would_admit(prices[most])
        low, high = np.where(fits, most, 0), np.where(fits, most, most - 1)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._filter.would_admit(prices[middle])
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        paid = self._filter.admit(prices[low])
        return np.where(paid, self._clip * (low / LEVELS), 0.0)

    def state(self) -> dict[str, Any]:
        """Return the arrays that `restore` needs."""
        state = {f"report {name}": value for name, value in self.report.state().items()}
        if self._filter is not None:
            state["spent"] = np.stack(self._filter.state()["spent"])
        return state

    def restore(self, state: Any) -> None:
        """Restore the accounts that gave `state`, exactly."""
        report = {n.removeprefix("report "): state[n] for n in state if n.startswith("report ")}
        self.report = TrajectoryAccount.from_state(report)
        if self._filter is not None:
            saved = {**self._filter.state(), "spent": list(state["spent"])}
            self._filter = IndividualFilter.from_state(saved)


def norms_of(engine: GradientEngine, params: Floats, everybody: Index) -> Floats:
    """Return every user's gradient norm, in order of user. Private."""
    norms = np.zeros(len(everybody))
    for batch in engine.batches():
        with np.errstate(all="ignore"):
            own, _ = engine.query(params, batch)
        norms[np.searchsorted(everybody, batch.users)] = own
    return np.minimum(np.nan_to_num(norms, nan=0.0), np.finfo(np.float64).max)
