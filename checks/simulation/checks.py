"""What must hold in every life: from released answers, and without sparseq's own sums.

The people of every world are the same: `PEOPLE`, each with one row, of one of `KINDS`. There is one
question, the number of people of each kind, and of none (NULL), which nobody has. It costs each
counted person the `COUNTS`-th part of its budget. So the payers of each release, and the noise of
an answer, follow from the order of releases alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparseq.answers.answer import Answer
from sparseq.ledger.releases import Release
from sparseq.store.store import Store

PEOPLE = 12
KINDS = tuple("abcdefgh")
COUNTS = 30
QUESTION = "SELECT kind, count(DISTINCT who) AS n FROM visits GROUP BY kind"


def rows() -> pa.Table:
    """Return everybody's rows."""
    kinds = [KINDS[who % len(KINDS)] for who in range(PEOPLE)]
    return pa.table({"who": list(range(PEOPLE)), "kind": kinds})


class Finding(Exception):
    """Something that must never happen has happened."""


@dataclass
class Witness:
    """An observer of all released answers, who checks stores.

    Attributes:
        takes: Returns the people of a release, whether they can pay for it or not.
        answers: Released answers by release.
        requests: Released answers by request.
        noises: By noise: the answer that had it.
        spent: Lower bounds on spending at the last check.
    """

    takes: Callable[[Release], Collection[int]] = lambda _: range(PEOPLE)
    answers: dict[int, bytes] = field(default_factory=dict)
    requests: dict[str, bytes] = field(default_factory=dict)
    noises: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    def sees(self, answer: Answer, request: str = "") -> None:
        """Take note of an answer that has left.

        Raises:
            Finding: It was another before.
        """
        self.told(answer.facts.release, cells(answer), request)

    def told(self, release: int | None, found: Cells, request: str = "") -> None:
        """Take note of an answer that has left by some protocol; without its number, maybe.

        Raises:
            Finding: It was another before.
        """
        data = repr(found).encode()
        if release and self.answers.setdefault(release, data) != data:
            raise Finding(f"release {release} was answered twice, with other bits")
        if request and self.requests.setdefault(request, data) != data:
            raise Finding(f"request {request} was answered twice, with other bits")

    def keeps(self, store: Store) -> dict[int, Release]:
        """Compare the history of a store with the released answers; return it.

        Raises:
            Finding: Something does not hold.
        """
        history = {release.id: release for release in store.stream.ledger.releases()}
        if sorted(history) != list(range(1, len(history) + 1)):
            raise Finding("the history has a hole")
        for number, data in self.answers.items():
            if number not in history:
                raise Finding(f"release {number} has left, and is in no history")
            if _bits(history[number]) != data:
                raise Finding(f"release {number} has left with other bits")
        asked = [one for one in history.values() if one.request is not None]
        named = {str(one.request): one for one in asked}
        if len(named) != len(asked):
            raise Finding("the history has two answers to one request")
        for request, data in self.requests.items():
            if request not in named or _bits(named[request]) != data:
                raise Finding(f"request {request} has left, and the history has another answer")
        return history

    def looks_at(self, store: Store) -> None:
        """Compare a store with the released answers, and with itself.

        Raises:
            Finding: Something does not hold.
        """
        ledger, history = store.stream.ledger, self.keeps(store)
        accounts = store.stream.accounts
        budgets = accounts.budgets.tolist()
        paid = [0] * len(budgets)
        for number in sorted(history):
            users, charges = (some.tolist() for some in ledger.charges(number))
            who = self.takes(history[number])
            self._paid(number, dict(zip(users, charges, strict=True)), who, budgets, paid)
            self._noise(Answer.from_bytes(history[number].answer), users)
        if accounts.spent.tolist() != paid:
            raise Finding("what people have spent is not the sum of what they paid")
        for user, before in self.spent.items():
            if paid[user] < before:
                raise Finding(f"person {user} has more left than before")
        self.spent = dict(enumerate(paid))

    @staticmethod
    def _paid(
        number: int,
        charges: dict[int, int],
        who: Collection[int],
        budgets: list[int],
        paid: list[int],
    ) -> None:
        for user, budget in enumerate(budgets):
            price = -(-budget // COUNTS)
            due = price if user in who and budget and paid[user] + price <= budget else 0
            if abs(charges.get(user, 0) - due) > (1 if due else 0):
                raise Finding(f"person {user} paid {charges.get(user, 0)} for {number}, not {due}")
            paid[user] += charges.get(user, 0)
            if paid[user] > budget:
                raise Finding(f"person {user} is above its budget")

    def _noise(self, answer: Answer, users: list[int]) -> None:
        """Take note of an answer's noise, which no other may have."""
        truth = Counter(KINDS[user % len(KINDS)] for user in users)
        shown = [(row["kind"], int(row["n"])) for row in answer.rows()]
        if [kind for kind, _ in shown] not in ([*KINDS], [*KINDS, None]):  # NULL if it is present
            raise Finding(f"release {answer.facts.release} has other groups than were declared")
        noise = tuple(n - truth[kind] for kind, n in shown)
        data = repr((answer.facts.release, shown)).encode()
        if self.noises.setdefault(noise, data) != data:
            raise Finding(f"the noise of release {answer.facts.release} was drawn before")
        if max(map(abs, noise)) > 12 * answer.facts.sigma[0]:
            raise Finding(f"release {answer.facts.release} is not the truth and noise: {noise}")


Cells = list[tuple[Any, ...]]
"""The rows of an answer: kinds, each with its number."""


def cells(answer: Answer) -> Cells:
    """Return all that was released in an answer."""
    return [
        (row["kind"], int(row["n"])) if {"kind", "n"} <= row.keys() else tuple(row.values())
        for row in answer.rows()
    ]


def _bits(release: Release) -> bytes:
    """Return what tells answers apart."""
    return repr(cells(Answer.from_bytes(release.answer))).encode()
