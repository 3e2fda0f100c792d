"""What must hold whatever happens: from what people saw, and from no sum of sparseq's own.

The people of every world are the same: `PEOPLE`, of whom each has one row, of one of `KINDS`. There
is one question, how many people there are of each kind, and of none (NULL), which nobody is of. It
costs whoever is counted the `COUNTS`-th part of its budget. So who pays for which release, and how
much noise an answer has, follow from nothing but the order of releases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparseq.ledger.protocol import Release
from sparseq.store.answer import Answer
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
    """Whoever has seen all answers that have left, and looks at stores.

    Attributes:
        takes: Tells who a release is about, whether they can pay for it or not.
        answers: By release: what has left.
        requests: By request: what has left.
        noises: By noise: the answer that had it.
        spent: What everybody had paid at least, when it was looked at last.
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
        """Compare the history of a store with what has left; return it.

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
        """Compare a store with what has left, and with itself.

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
        if [kind for kind, _ in shown] != [*KINDS, None]:
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
