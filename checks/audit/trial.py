"""One turn of a search: four neighbouring stores get the same actions, and are compared."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from checks.audit.books import Books
from checks.audit.comparison import Finding
from checks.audit.neighbours import PAIRS, WITHOUT
from checks.audit.noise import NoiseTest
from checks.audit.seams import Seen, Watching
from sparseq.store.store import Store

Act = Callable[[str, Store], object]
"""What is done to a store, given which of the four it is."""


@dataclass(frozen=True)
class Ask:
    """An action: a question in SQL, asked again if it was asked before."""

    sql: str

    def __call__(self, _: str, store: Store) -> object:
        """Ask it."""
        return store.sql(self.sql, fresh=True)


Check = Callable[[dict[str, Seen]], Iterable[Finding]]
"""What is wrong with what was seen of the four."""


@dataclass
class Result:
    """The result of a search.

    Attributes:
        cases: Questions asked of a pair of neighbours.
        answered: Number of answered questions.
        seconds: Until the end, or until the first finding if the search stops there.
    """

    cases: int = 0
    questions: int = 0
    answered: int = 0
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Result) -> None:
        """Take in what another search did."""
        self.cases += other.cases
        self.questions += other.questions
        self.answered += other.answered
        self.findings += other.findings
        self.seconds = max(self.seconds, other.seconds)


@dataclass
class Trial:
    """The context of a turn.

    Attributes:
        rng: Source of the choices.
        kind: Kind of the world, or of the life.
        watching: Records the actions of stores.
        noise, result: Of the whole search.
        books: Of the four stores.
        ends: End of the time (`time.monotonic`): a begun case is finished.
    """

    rng: random.Random
    kind: str
    watching: Watching
    noise: NoiseTest
    result: Result
    ends: float
    books: Books = field(default_factory=Books)

    def is_over(self) -> bool:
        """Tell whether time is up."""
        return time.monotonic() > self.ends

    def did(self, stores: dict[str, Store], act: Act) -> tuple[dict[str, Seen], list[Finding]]:
        """Do an action to the four stores, and count it.

        Returns:
            The effects, and errors of the noise and the books.
        """
        sql = act.sql if isinstance(act, Ask) else ""
        seen = self.watching.all_four(stores, act, sql)
        self.result.questions += 1
        self.result.cases += len(PAIRS)
        first = seen[WITHOUT]
        answered = first.steps if self.kind == "wire" else first.public[0] in ("answered", "done")
        self.result.answered += bool(answered)
        return seen, [*self.noise.take(first), *self.books.take(seen, bool(sql))]

    def life(
        self,
        story: str,
        stores: dict[str, Store],
        steps: Iterable[tuple[str, Act]],
        check: Check,
    ) -> Iterator[Finding]:
        """Let four stores live; yield the first broken rule.

        Args:
            story: Beginning of the life; a finding's case is this, and all actions so far.
            stores: The four.
            steps: Actions and their descriptions; drawn one after another.
            check: Compares the stores after each.
        """
        done = list[str]()
        for name, act in steps:
            if done and self.is_over():
                return
            done.append(name)
            seen, found = self.did(stores, act)
            found += check(seen)
            if found:
                yield replace(found[0], case=f"{story}: {'; '.join(done)}")
                return
