"""The local model: every person's device has its own data, its own filter and its own noise.

See docs/theorems/local-model.md.

**Statement** (Feldman & Zrnic 2021, Remark 4.6). Whether user i is active depends on i's own data
and on releases, so user i can decide it alone. A client answers each broadcast query q_t with
q_t(X_i) + N(0, sigma_t² I) while its charges ||q_t(X_i)||² (sigma_0 / sigma_t)² add up to at most
norm_budget, and otherwise with the noise alone: its answers never reveal whether it has halted.

**Guarantee.** Everything that one client ever sends, to any receiver, is kappa-zCDP for its user,
against a client that holds no data (add/remove one user: Theorem 4.5 with a data set of one; also
mu-GDP with mu = sqrt(2 kappa)). Nobody is trusted: not the aggregator, not the other clients.
Between any two data sets of the user it is 4 kappa-zCDP (zCDP grows by the square along a chain of
two, X - no data - X'; Bun & Steinke 2016). It is the guarantee of the central store at the same
kappa, by the same integer arithmetic.

**Cost.** The sum of n answers has n independent noises: standard deviation sqrt(n) sigma_t instead
of sigma_t in the central store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import (
    UNITS_PER_NORM,
    Budget,
    Price,
    budget_units,
    sigma_for_scale,
    simultaneous_bound,
)
from sparseq.accounting._numbers import count, in_range
from sparseq.base.defaults import BETA
from sparseq.base.errors import ParameterError
from sparseq.engine.reduction import Index, Ints, Runs, quantise, reduce
from sparseq.ledger.accounts import Accounts
from sparseq.mechanisms import SYSTEM_ENTROPY, Entropy, rounded_gaussian
from sparseq.stream.charge_amounts import charges_of, rounded_up
from sparseq.stream.release_charges import Bill

Floats = NDArray[np.float64]

_LATTICE_BITS = 20


@dataclass(frozen=True)
class Broadcast:
    """A query as it is sent to every client: public.

    Args:
        question: Maps one person's data to a vector of `coordinates` numbers.
        coordinates: d.
        sigma: Standard deviation of each client's noise.

    The lattice has 2^20 to 2^21 steps to sigma, so that rounding the noise of n clients adds at
    most n sigma / 2^21.

    Example:
        >>> steps = Broadcast.of_scale(lambda walks: [sum(walks)], 1, 10.0, Budget(0.5, 100))
        >>> round(steps.sigma, 9)
        100.0
    """

    question: Callable[[Any], Sequence[float] | Floats]
    coordinates: int
    sigma: float

    def __post_init__(self) -> None:
        count("coordinates", self.coordinates, 1, 2**20)
        in_range("sigma", self.sigma, 2.0**-500, 2.0**500)

    @classmethod
    def of_scale(
        cls,
        question: Callable[[Any], Sequence[float] | Floats],
        coordinates: int,
        scale: float,
        budget: Budget,
    ) -> Broadcast:
        """Return the query with noise C · sigma_0, as in Corollary 4.7."""
        return cls(question, coordinates, sigma_for_scale(scale, budget))

    @property
    def granularity(self) -> float:
        """The lattice step, a power of two."""
        return math.ldexp(1.0, math.frexp(self.sigma)[1] - 1 - _LATTICE_BITS)

    def vector(self, data: Any) -> Floats:
        """Return q(X), not yet on the lattice.

        Raises:
            ParameterError: The question gave another number of coordinates.
        """
        values = np.asarray(self.question(data), np.float64)
        if values.shape != (self.coordinates,):
            raise ParameterError(
                f"the question gave shape {values.shape}; it must be ({self.coordinates},)"
            )
        return values


class Clients:
    """The devices of n people, each with its own filter: a batch that runs in one process.

    No client's answer depends on another's data: the arrays are rows of single clients. `Client` is
    a batch of one.

    Args:
        data: One entry per person; None for an absent person. If the question fails on a person's
            data, the answer is noise alone.
        budget: kappa and norm_budget, of each client.
        halt: A client that could not pay once never uses its data again (the variant of
            Corollary 4.7); otherwise it may take part in a later, cheaper query (Algorithm 2).
        entropy: Private only when unpredictable, as the default is.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> clients = Clients([3.0, 1.0, None], Budget(0.5, 100), entropy=SeededEntropy(1))
        >>> query = Broadcast(lambda x: [x], coordinates=1, sigma=10.0)
        >>> clients.answer(query).shape
        (3, 1)
    """

    def __init__(
        self,
        data: Sequence[Any],
        budget: Budget,
        *,
        halt: bool = False,
        entropy: Entropy = SYSTEM_ENTROPY,
    ) -> None:
        self.budget = budget
        self._data = data
        units = np.full(len(data), budget_units(budget.norm_budget), np.int64)
        self._accounts = Accounts(units, halt)
        self._entropy = entropy

    def answer(self, query: Broadcast) -> Ints:
        """Return every client's noised vector, int64 (n, d), in lattice steps (Algorithm 2).

        If a client can't pay, its row is noise alone: nobody else can detect it.
        """
        vectors = self._vectors(query)
        n, d = vectors.shape
        users, norms = _squared_norms(vectors)
        price = Price.of(query.sigma, query.granularity, self.budget)
        charges = rounded_up(charges_of(price, norms))
        bill = Bill(self._accounts)
        active = bill.admit(users, charges)
        self._accounts.charge(*bill.paid())
        vectors[users[~active]] = 0
        noise = rounded_gaussian(query.sigma / query.granularity, n * d, self._entropy)
        return vectors + noise.reshape(n, d)

    def _vectors(self, query: Broadcast) -> Ints:
        """Return q(X_i) on the lattice, one per row; NaN and infinity contribute nothing."""
        vectors = np.zeros((len(self._data), query.coordinates))
        for i, data in enumerate(self._data):
            if data is not None:
                with suppress(Exception):  # a failing question contributes nothing: an error
                    vectors[i] = query.vector(data)  # would reveal something about the data
        steps = quantise(vectors.reshape(-1), query.granularity)
        return steps.reshape(vectors.shape).astype(np.int64)

    @property
    def spent(self) -> Floats:
        """Spending of each client, in units of norm_budget. Private: for the person only."""
        return self._accounts.spent / UNITS_PER_NORM


class Client(Clients):
    """One person's device.

    Args:
        data: The person's data.
        budget, halt, entropy: See `Clients`.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> client = Client({"visits": 4}, Budget(0.5, 20.0), entropy=SeededEntropy(1))
        >>> query = Broadcast(lambda x: [x["visits"]], coordinates=1, sigma=Budget(0.5, 20).sigma_0)
        >>> client.answer(query).shape, float(client.spent[0])
        ((1, 1), 16.0)
        >>> client.answer(query).shape, float(client.spent[0])  # can't pay again: noise alone
        ((1, 1), 16.0)
    """

    def __init__(
        self, data: Any, budget: Budget, *, halt: bool = False, entropy: Entropy = SYSTEM_ENTROPY
    ) -> None:
        super().__init__([data], budget, halt=halt, entropy=entropy)


@dataclass(frozen=True)
class Total:
    """The sum of n clients' answers.

    Attributes:
        values: (d,), in the query's unit.
        sigma: Standard deviation of the noise in each, sqrt(n) sigma_t.
        clients: n.
        granularity: The lattice step.
    """

    values: Floats
    sigma: float
    clients: int
    granularity: float

    def bound(self, beta: float = BETA) -> float:
        """Return the ± that contains the errors of all d values with probability 1 - beta.

        It is about the clients that took part with their data: exact quantile of the Gaussian sum,
        plus half a lattice step per client.
        """
        rounding = self.clients * self.granularity
        return simultaneous_bound(self.sigma, len(self.values), beta, lattice_step=rounding)


def aggregate(query: Broadcast, answers: Sequence[Ints]) -> Total:
    """Add up the answers of all clients: the work of an aggregator that nobody has to trust.

    Args:
        query: The query.
        answers: Arrays (any number of clients, d) of `Clients.answer`.

    Raises:
        ParameterError: There is no answer, or one has another shape.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> budget, entropy = Budget(0.5, 100), SeededEntropy(1)
        >>> query = Broadcast(lambda x: [x], 1, sigma=10.0)
        >>> people = [Client(1.0, budget, entropy=entropy) for _ in range(100)]
        >>> total = aggregate(query, [client.answer(query) for client in people])
        >>> total.sigma, bool(abs(total.values[0] - 100) < total.bound(0.05))
        (100.0, True)
    """
    for rows in answers:
        if rows.ndim != 2 or rows.shape[1] != query.coordinates:
            raise ParameterError(
                f"an answer has shape {rows.shape}; it must be (clients, {query.coordinates})"
            )
    clients = sum(len(rows) for rows in answers)
    if clients == 0:
        raise ParameterError("there are 0 answers; it must be at least 1")
    total = sum((rows.sum(axis=0) for rows in answers), np.zeros(query.coordinates, np.int64))
    values = np.asarray(total * query.granularity, np.float64)
    return Total(values, query.sigma * math.sqrt(clients), clients, query.granularity)


def _squared_norms(vectors: Ints) -> tuple[Index, Ints]:
    """Return the clients with vectors other than 0, and their squared norms, exact."""
    n, d = vectors.shape
    runs = Runs.of(np.repeat(np.arange(n, dtype=np.int32), d))
    places = np.tile(np.arange(d, dtype=np.int32), n)
    found = reduce(runs, places, vectors.reshape(-1).astype(np.int32), d, distinct=False)
    return found.users, found.norms
