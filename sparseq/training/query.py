"""A gradient as one query of the stream: an engine's norms and pull become contributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparseq.answers.answer import Answer
from sparseq.base.errors import DataError, ParameterError
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Index, Ints, Reduction
from sparseq.ledger.notes import CuratorLine, Note
from sparseq.ledger.pots import Pot
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.question.plan import Cell, Domain, Kind, Measure, Options, Plan, Query, Relation
from sparseq.released.outputs import OutputColumn, Outputs, measure
from sparseq.store.store import Store
from sparseq.stream.participation import Participation
from sparseq.training.accountant import Accountant, checked_clip, clipped
from sparseq.training.protocol import Floats, GradientEngine

MOST_NAMED = 100
"""Largest number of people that one line of the curator's log names."""
LEAST_SIGMA = 0.25
"""Least sigma / C: with less noise a full gradient would cost more than 8 of kappa."""


def gradient_query(coordinates: int, label: str, clip: float) -> Query:
    """Return the query of a training step; `label` is its text in the history."""
    if coordinates < 1 or not label.strip():
        raise ParameterError("a query has a label, and at least one coordinate")
    domain = Domain("coordinate", tuple(range(coordinates)), Cell("coordinate"))
    one = Measure(Kind.DENSE, None, "gradient", integral=False, scale=checked_clip(clip))
    return Query(
        label,
        Relation("FROM gradients"),
        (domain,),
        (one,),
        Outputs((OutputColumn("gradient", measure(0)),)),
    )


@dataclass
class Gradients:
    """The clipped gradients of all users at some parameters, ready for a plan's lattice.

    Attributes:
        engine: Computes them.
        params: Public: from earlier releases.
        clip: C.
        left: Remaining budgets of users, in ledger units.
    """

    engine: GradientEngine
    params: Floats
    clip: float
    left: Callable[[Index], Ints]
    _limits: list[Floats | float] = field(default_factory=list, init=False)

    def contributions(self, plan: Plan) -> Contributions:
        """Return every user's contribution to a plan with one dense measure."""
        (noise,) = plan.noise
        if noise.sigma < LEAST_SIGMA * self.clip:
            raise ParameterError(
                f"sigma is {noise.sigma:.4g} for a clip of {self.clip:g}: too little for privacy",
                f"sigma is at least {LEAST_SIGMA * self.clip:g} here",
            )
        accountant = Accountant(self.clip, noise, self.left)
        users: list[Index] = []
        squares: list[Ints] = []
        sums = np.zeros(self.engine.coordinates, np.int64)
        self._limits.clear()
        for batch in self.engine.batches():
            with np.errstate(all="ignore"):  # a warning would reveal someone's record
                limits = accountant.limits(batch.users)
                pulled = clipped(self.engine, self.params, batch, limits, noise.granularity)
            self._limits.append(limits)
            users.append(batch.users)
            squares.append(pulled.squares)
            sums += pulled.sums
        who, how_much = _join(users, np.int32), _join(squares, np.int64)
        if len(who) > 1 and not bool(np.all(who[1:] > who[:-1])):
            order = np.argsort(who, kind="stable")
            who, how_much = who[order], how_much[order]
            if not bool(np.all(who[1:] > who[:-1])):
                raise ParameterError("the engine has a user twice", "a user is in one batch, once")
        return Contributions(
            [Reduction(who, how_much, sums)], lambda only: [self._of(only, noise.granularity)]
        )

    def _of(self, only: Index, step: float) -> Ints:
        """Return the sum over some users, to subtract if they can't pay."""
        total = np.zeros(self.engine.coordinates, np.int64)
        for batch, limits in zip(self.engine.batches(), self._limits, strict=True):
            asked = np.isin(batch.users, only)
            if asked.any():
                with np.errstate(all="ignore"):
                    of_asked = np.where(asked, limits, 0.0)
                    total += clipped(self.engine, self.params, batch, of_asked, step).sums
        return total


def _join(parts: list[Any], kind: type) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.zeros(0, kind), *parts])


def noised_gradient(
    store: Store,
    engine: GradientEngine,
    params: Floats,
    *,
    label: str,
    clip: float,
    sigma: float | None = None,
    request_id: RequestId | str | None = None,
    pot: Pot = Pot.QUERIES,
) -> Floats:
    """Answer one gradient query: the noised sum of everybody's clipped gradients.

    It is one step of the store's stream, paid from the same accounts as SQL.

    Args:
        store: Store whose accounts pay.
        engine: Computes the gradients; its users are the store's.
        params: Parameters at which gradients are computed, float64 (d,), public.
        label: Public text of the query.
        clip: C.
        sigma: Standard deviation of the noise; C · sigma_0 by default.
        request_id: With the id of an earlier request, the answer is the recorded one: nothing is
            computed and nothing is charged.
        pot: Pot that pays.
    Raises:
        ParameterError: clip or sigma is out of its range.
        QueryRefused: The id belongs to another query.
    """
    left = store.stream.pots[pot].left
    return gradient_of(ask_dense(store, engine, params, left, label, clip, sigma, request_id, pot))


def ask_dense(
    store: Store,
    engine: GradientEngine,
    params: Floats,
    left: Callable[[Index], Ints],
    label: str,
    clip: float,
    sigma: float | None,
    request_id: RequestId | str | None,
    pot: Pot,
    gated: Callable[[Participation], Sequence[Note]] = lambda _: (),
) -> Answer:
    """Ask one dense query; `left` returns what users may spend on it, at most their budget."""
    gradients = Gradients(engine, params, checked_clip(clip), left)
    known = set(getattr(engine, "failed_users", ()))
    if any(
        len(b.users) and not 0 <= b.users[0] <= b.users[-1] < store.stream.people.inside()
        for b in engine.batches()
    ):
        raise DataError(
            "some records are by users who have no account",
            "users are the store's own indices for them, from 0",
        )
    return store.step(
        gradient_query(engine.coordinates, label, clip),
        gradients.contributions,
        Options(sigma=sigma),
        request_id,
        pot=pot,
        gated=lambda made: [*gated(made), *_failures(store, engine, known, label)],
    )


def _failures(
    store: Store, engine: GradientEngine, known: set[int], label: str
) -> list[CuratorLine]:
    """Return the line of the curator's log about people on whose records the model failed."""
    users = sorted(set(getattr(engine, "failed_users", ())) - known)
    if not users:
        return []
    names = store.stream.ledger.identifiers(users[:MOST_NAMED])
    named = ", ".join("(erased)" if names[u] is None else str(names[u]) for u in users[:MOST_NAMED])
    named += ", …" if len(users) > MOST_NAMED else ""
    whom = "1 person, who counts" if len(users) == 1 else f"{len(users):,} people, who count"
    message = f"{label}: the model fails on records of {whom} for nothing: {named}"
    return [CuratorLine("training", message)]


def step_request(run: str, what: str) -> RequestId:
    """Return the id in the journal of a question of a training run."""
    return RequestId.of(Asker.TRAIN, run, what)


def gradient_of(answer: Answer) -> Floats:
    """Return the noised sum."""
    return np.asarray(answer.arrow()["gradient"].to_numpy(), np.float64)
