"""Algorithm 2 of Feldman & Zrnic (2021), one step a query, with the mechanism of Corollary 4.7.

Contributions, gate, exact sums of the active, exact noise, a durable commit, and only then the
answer.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.answer import Answer, Facts
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import Engine
from sparseq.engine.reduce import Index
from sparseq.ledger.accounts import Accounts, Ints
from sparseq.ledger.departed import Departures
from sparseq.ledger.entry import Entry, Release
from sparseq.ledger.notes import Note
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.request_id import RequestId, requested
from sparseq.mechanisms import SYSTEM_ENTROPY, Entropy, rounded_gaussian
from sparseq.mechanisms.entropy import for_release
from sparseq.query.outputs import Measurements
from sparseq.query.plan import Options, Plan, Query, calibrate
from sparseq.query.render import key_columns, render
from sparseq.stream.gate import gate

_NOBODY = np.zeros(0, np.int32)

Mechanism = Callable[[Plan, Sequence[Ints], Entropy], Sequence[Ints]]
"""Exact sums in, what is released out: integers in lattice steps, one array a measure."""


@dataclass(frozen=True)
class Participation:
    """Who was asked and who was active in a release: private."""

    release: int
    users: Index
    active: NDArray[np.bool_]


@dataclass(frozen=True)
class Terms:
    """What is true of every answer of a stream: public.

    Attributes:
        budget: Of the store.
        seed: Of a simulation; None: the noise is the operating system's.
        losses: How often the store was opened although a part of it was missing.
    """

    budget: Budget
    seed: int | None = None
    losses: int = 0


class Stream:
    """The stream of queries of one store, by one engine and one ledger.

    Threads may share it; queries are answered one after the other. All that is here is for the
    curator and for parts of sparseq: accounts are private.

    Args:
        engine: Says what people contribute.
        ledger: Says what they have spent.
        terms: Of every answer.
        check: Raises if nothing can be asked now; called with the lock held.
        abandon: Called where memory may not be what is durable: nothing may be asked again.

    Attributes:
        lock: Whoever holds it has the stream for itself.
        half_done: A step was stopped in a moment in which memory may not be what is durable.
    """

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        terms: Terms,
        check: Callable[[], None] = lambda: None,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        self.engine, self.ledger, self.terms = engine, ledger, terms
        self._check, self._abandon = check, abandon
        self.lock = threading.RLock()
        self.half_done = False
        self._staged: list[Entry] = []  # charged, not yet durable; empty when nobody has the lock
        self.staged_bytes = 0  # about what the next transaction will write

    @property
    def accounts(self) -> Accounts:
        """What queries are paid from: private."""
        return self.pots[Pot.QUERIES]

    @property
    def pots(self) -> Pots:
        """The accounts, by what they are for: private."""
        return self.ledger.pots

    @property
    def departures(self) -> Departures:
        """Who was left out of a query, and of which first: private."""
        return self.ledger.departures

    @property
    def people(self) -> int:
        """How many people have an account: private."""
        return len(self.pots)

    @property
    def next_release(self) -> int:
        """The number of the release to come."""
        return self.ledger.next_id + len(self._staged)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the stream still, having checked that it can be asked."""
        with self.lock:
            self._check()
            yield

    def contributions(self, plan: Plan) -> Contributions:
        """Return what everybody contributes to a plan: private."""
        return self.engine.contributions(plan, self.people)

    def step(
        self,
        query: Query,
        contributions: Callable[[Plan], Contributions],
        options: Options | None = None,
        request_id: RequestId | str | None = None,
        *,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Participation], Sequence[Note]] = lambda _: (),
        mechanism: Mechanism | None = None,
    ) -> Answer:
        """Answer one query whose contributions the caller computes: see `Store.step`."""
        with self.lock:
            self.flush()  # what an interrupt left
            request = requested(request_id)
            recorded = self.ledger.recorded(request, query.text)
            if recorded is not None:
                return Answer.from_bytes(recorded.answer)
            plan = calibrate(query, self.terms.budget, options or Options())
            made = contributions(plan)
            answer = self.answer(plan, made, request, pot, gated, mechanism)
            self.flush()
            return answer

    def answer(
        self,
        plan: Plan,
        contributions: Contributions,
        request: RequestId | None,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Participation], Sequence[Note]] = lambda _: (),
        mechanism: Mechanism | None = None,
    ) -> Answer:
        """Gate, sum the active, add noise, charge. The answer may leave after `flush` only."""
        admission = gate(plan, contributions, self.pots[pot])
        noised = _in_unit(plan, (mechanism or add_gaussian)(plan, admission.sums, self._entropy()))
        answer = Answer(render(plan, noised), self._facts(plan, request))
        notes = tuple(gated(Participation(answer.facts.release, admission.users, admission.active)))
        left_out = admission.left_out if pot is Pot.QUERIES else _NOBODY
        departed = self.departures.new(left_out)
        release, failed = _release(plan, answer, pot, request), self.engine.take_failures()
        self._stage(Entry(release, admission.paying, admission.due, departed, notes, failed))
        return answer

    def _stage(self, entry: Entry) -> None:
        """Charge; the next transaction is to make it durable, with the answer."""
        self.half_done = True
        self.pots[entry.release.pot].charge(entry.users, entry.charges)
        self.departures.add(entry.release.id, entry.departed)
        self._staged.append(entry)
        self.staged_bytes += 3 * len(entry.users) + len(entry.release.answer)
        self.half_done = False

    def flush(self) -> None:
        """Make charges and answers durable together; only then may the answers go.

        Raises:
            StoreError: They are not, or nobody can tell; nothing can be asked any more.
        """
        self._check()
        self.ledger.recover()
        if not self._staged:
            return
        self.half_done = True
        try:
            self.ledger.commit(self._staged)
            self._staged, self.staged_bytes = [], 0
            self.ledger.fold(16 * self.people)
        except BaseException:
            self._abandon()  # was it written? only the ledger knows: it must be opened anew
            raise
        self.half_done = False

    def forget(self) -> None:
        """Forget what is not durable, and let nobody pay any more: memory may be wrong."""
        for _, accounts in self.pots.items():
            accounts.spent = accounts.budgets.copy()  # they may be in the middle of growing
        self._staged, self.staged_bytes = [], 0

    def _facts(self, plan: Plan, request: RequestId | None) -> Facts:
        budget = self.terms.budget
        return Facts(
            release=self.next_release,
            request_id=None if request is None else str(request),
            query=plan.query.text,
            labels=tuple(m.label for m in plan.query.measures),
            kinds=tuple(m.kind.value for m in plan.query.measures),
            sigma=tuple(n.sigma for n in plan.noise),
            granularity=tuple(n.granularity for n in plan.noise),
            scale=tuple(n.scale for n in plan.noise),
            coordinates=plan.query.coordinates,
            confidence=1 - plan.beta,
            kappa=budget.kappa,
            norm_budget=budget.norm_budget,
            seeded=self.terms.seed is not None,
            gaussian=budget.gaussian,
            comparisons=plan.query.comparisons,
            losses=self.terms.losses,
        )

    def _entropy(self) -> Entropy:
        """The operating system's, or a stream of this seed and release."""
        if self.terms.seed is None:
            return SYSTEM_ENTROPY
        return for_release(self.terms.seed, self.next_release)


def add_gaussian(plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> list[Ints]:
    """Add floor(Z + 1/2), Z ~ N(0, (sigma/g)²), to the integer sums: Corollary 4.7's mechanism."""
    return [
        total + rounded_gaussian(n.lattice_sigma, len(total), entropy)
        for n, total in zip(plan.noise, sums, strict=True)
    ]


def _in_unit(plan: Plan, released: Sequence[Ints]) -> Measurements:
    """Return released lattice integers in the query's unit."""
    measures = [
        np.reshape(total * float(n.granularity), (-1, m.bins))
        for m, n, total in zip(plan.query.measures, plan.noise, released, strict=True)
    ]
    return Measurements(measures, plan.bounds, key_columns(plan), plan.query.groups)


def _release(plan: Plan, answer: Answer, pot: Pot, request: RequestId | None) -> Release:
    """Return what the journal has of an answer: public."""
    return Release(
        answer.facts.release,
        request,
        dt.datetime.now(dt.UTC).replace(tzinfo=None),
        plan.query.text,
        plan.query.coordinates,
        answer.facts.sigma,
        plan.corollary_bounds,
        1 - plan.beta,
        answer.to_bytes(),
        pot,
    )
