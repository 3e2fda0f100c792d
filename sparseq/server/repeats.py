"""Repeated answers: the next repetition takes no turn in the stream.

Only the stream decides the answer to a question's text, in its thread. This module keeps the
answer, and returns it from any thread as long as the stream still knows no other release for the
question (`Recall.stands`): no newer one, and no rows that came since. So it is the answer that a
turn would have given, at a moment between request and response; nothing is charged, and no row and
no account is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from sparseq.answers.answer import Answer
from sparseq.question.plan import Options, Query
from sparseq.reuse.answer_cache import Inquiry
from sparseq.stream.batches import Outcome
from sparseq.stream.step import Stream

MOST_REPEATS, _SMALL = 1024, 1000  # answers, and rows of each


@dataclass(frozen=True)
class Repeat:
    """An answer, and the question for which it is recorded."""

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
        """Keep the answer of a question without a name, if it is a release's own answer."""
        answer, question = outcome.answer, Inquiry.of(query, options)
        if query.first:  # its validity depends on other questions, too
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
        """Return the valid answer of a question; None: the stream must decide."""
        with self._lock:
            found = self._kept.pop((sql, options), None)
            if found is None:
                return None
            if not stream.recall.stands(found.question, found.answer.facts.release):
                return None
            self._kept[sql, options] = found
        return found.answer
