"""The latest releases, without their answers, as lists of them need: public.

Answers that were asked for again lately: the next time they need no turn in the stream.

What a question's text is answered with is told by the stream alone, in its thread. Here it is kept,
and given again from any thread as long as the stream still knows of no other release for the
question (`Recall.stands`): none newer, and no rows that came since. So it is the answer that a turn
would have given, at a moment between asking and being answered; nothing is charged, and no row and
no account is looked at.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from sparseq.ledger.notes import Asker
from sparseq.ledger.protocol import Release
from sparseq.reuse.answer_cache import Inquiry
from sparseq.sql.plan import Options, Query
from sparseq.store.answer import Answer
from sparseq.store.store import Store
from sparseq.stream.step import Outcome, Stream

# -- the latest releases, without their answers, as lists of them need: public ---------------------

MOST_LISTED = 10_000
_OF_SERIES = (Asker.MONITOR, Asker.WATCH)
_AT_ONCE = 256  # are read, with their answers


class LatestReleases:
    """So many are held in memory, whatever the store has; earlier ones are read from it.

    The stream thread adds to them; any thread may read.
    """

    def __init__(self, most: int = MOST_LISTED) -> None:
        self._most = most
        self.held: list[Release] = []

    def __len__(self) -> int:
        return self.held[-1].id if self.held else 0

    def catch_up(self, store: Store) -> None:
        """Take in what was released since."""
        new: list[Release] = []
        first = max(len(self), store.released - self._most) + 1
        for at in range(first, store.released + 1, _AT_ONCE):
            until = min(at + _AT_ONCE, store.released + 1)
            new += [replace(one, answer=b"") for one in store.releases(until - at, until)]
        if new:
            self.held = [*self.held, *new][-self._most :]

    def these(self, numbers: Iterable[int]) -> list[Release]:
        """Return the releases of these numbers that are held, in this order."""
        held = self.held
        first = held[0].id if held else 1
        return [held[n - first] for n in numbers if first <= n < first + len(held)]

    def questions(self, number: int, last: int) -> tuple[list[Release], int | None]:
        """Return so many before a release that are no ticks of series, newest first.

        Only those that are held are looked at. With them comes the number before which to look on;
        None: there are no more.
        """
        asked = (r for r in reversed(self.held) if r.id < number and r.asker not in _OF_SERIES)
        found = list(islice(asked, last + 1))
        return found[:last], found[last - 1].id if len(found) > last else None

    def before(self, number: int, last: int) -> list[Release] | None:
        """Return so many before a release, oldest first; None: not all of them are held."""
        held = self.held
        until = min(number, len(self) + 1)
        first = max(until - last, 1)
        if until <= first:
            return []
        if first < held[0].id:
            return None
        return held[first - held[0].id : until - held[0].id]


def find_asker(release: Release) -> str:
    """Return whose request a release answers: a token's name, or a series'; "": it has no name."""
    name = "" if release.request is None else release.request.text.partition("/")[0]
    return name.replace("%2F", "/").replace("%25", "%")


# -- answers that were asked for again lately: the next time they need no turn in the stream -------

MOST_REPEATS, _SMALL = 1024, 1000  # answers, and rows of each


@dataclass(frozen=True)
class Repeat:
    """An answer, and the question that it is the recorded answer to."""

    question: Inquiry
    answer: Answer


class Repeats:
    """The answers, by text and options."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, Options], Repeat] = OrderedDict()
        self._lock = threading.Lock()

    def keep(
        self, stream: Stream, sql: str, query: Query, options: Options, outcome: Outcome
    ) -> None:
        """Keep what a question without a name got, if it is a release's own answer, recorded."""
        answer, question = outcome.answer, Inquiry.of(query, options)
        if query.first:  # whether it stands depends on other questions, too
            return
        if answer is None or question is None or not outcome.recorded or len(answer) > _SMALL:
            return
        if not stream.recall.stands(question, answer.facts.release):
            return
        with self._lock:
            self._kept[sql, options] = Repeat(question, answer)
            if len(self._kept) > MOST_REPEATS:
                self._kept.popitem(last=False)

    def get(self, stream: Stream, sql: str, options: Options) -> Answer | None:
        """Return the answer that a question still has; None: the stream has to tell."""
        with self._lock:
            found = self._kept.pop((sql, options), None)
            if found is None:
                return None
            if not stream.recall.stands(found.question, found.answer.facts.release):
                return None
            self._kept[sql, options] = found
        return found.answer
