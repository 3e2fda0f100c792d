"""One turn of a search: four neighbouring stores live alike, and are compared after each act."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from benchmarks.audit.comparison import Finding
from benchmarks.audit.neighbours import PAIRS, WITHOUT
from benchmarks.audit.noise import NoiseTest
from benchmarks.audit.seams import Seen, Watching
from sparseq.store.store import Store

Act = Callable[[str, Store], object]
"""What is done to a store, given which of the four it is."""
Check = Callable[[dict[str, Seen]], Iterable[Finding]]
"""What is wrong with what was seen of the four."""


@dataclass
class Result:
    """What a search did.

    Attributes:
        cases: Questions asked of a pair of neighbours.
        answered: Of all questions, how many.
        seconds: Until the end, or the first finding where it was to stop there.
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
    """What a turn is given.

    Attributes:
        rng: Decides.
        kind: Of the world, or of the life.
        watching: Sees what stores do.
        noise, result: Of the whole search.
        ends: When time is up (`time.monotonic`): what has been begun is ended.
    """

    rng: random.Random
    kind: str
    watching: Watching
    noise: NoiseTest
    result: Result
    ends: float

    def is_over(self) -> bool:
        """Tell whether time is up."""
        return time.monotonic() > self.ends

    def did(self, stores: dict[str, Store], act: Act) -> dict[str, Seen]:
        """Do the same to the four stores, and count it."""
        seen = self.watching.all_four(stores, act)
        self.result.questions += 1
        self.result.cases += len(PAIRS)
        first = seen[WITHOUT]
        answered = first.steps if self.kind == "wire" else first.public[0] in ("answered", "done")
        self.result.answered += bool(answered)
        return seen

    def life(
        self,
        story: str,
        stores: dict[str, Store],
        steps: Iterable[tuple[str, Act]],
        check: Check,
    ) -> Iterator[Finding]:
        """Let four stores live; yield the first thing that breaks a rule.

        Args:
            story: How it began; a finding's case is this, and all that was done before.
            stores: The four.
            steps: What is done, in words and how; drawn one after the other.
            check: Compares them after each.
        """
        done = list[str]()
        for name, act in steps:
            if done and self.is_over():
                return
            done.append(name)
            seen = self.did(stores, act)
            found = [*self.noise.take(seen[WITHOUT]), *check(seen)]  # some checks change the steps
            if found:
                yield replace(found[0], case=f"{story}: {'; '.join(done)}")
                return
