"""The public facts of an open store, for look-ups while a question is being answered.

Nothing here waits for the stream. Records are read on a separate connection, which sees durable
data; the course of the stream is an immutable object that is replaced. So a look-up sees the store
between two commits, at a moment after the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparseq.answers.answer import Answer, first_row
from sparseq.base.errors import StoreError
from sparseq.ledger.pots import Pot
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Options, Query
from sparseq.reuse.answer_cache import Recall
from sparseq.store.explain import Explanation, explained
from sparseq.store.store_promise import StorePromise
from sparseq.store.whole_price import charge_of
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.public_questions import PublicQuestions

if TYPE_CHECKING:
    from sparseq.ledger.releases import Release
    from sparseq.sql.lowered_queries import Lowering
    from sparseq.store.store import Store


class PublicView:
    """A view of a store for look-ups; used by one thread at a time.

    Args:
        store: An open store.
        lowering: Lowers SQL for this view alone.

    Attributes:
        store, lowering: See the arguments.
        stream: The public part of its stream, as of the last `refresh`.
    """

    def __init__(self, store: Store, lowering: Lowering) -> None:
        self.store, self.lowering = store, lowering
        self.stream = ViewedStream(store, lowering)

    @property
    def catalog(self) -> Catalog:
        """The store's tables."""
        return self.store.catalog

    def lower(self, sql: str) -> Query:
        """Lower SQL to a query: see `Store.lower`."""
        return self.lowering.lower(sql)

    def refresh(self) -> None:
        """Update the view to the present state of the store.

        Raises:
            StoreError: It is closed.
        """
        if self.store.backend.database is None:
            raise StoreError("the store is closed")
        self.stream.refresh()

    def known(self, query: Query, options: Options, anyhow: bool = False) -> Answer | None:
        """Return the recorded answer of a question: see `PublicQuestions.known`."""
        return self.stream.known(query, options, anyhow)

    def repeat(self, query: Query, options: Options) -> Answer | None:
        """Return the answer that asking would return, free; None: it must be asked."""
        return None if self.store.backend.behind else self.known(query, options)

    def explain(self, query: Query, options: Options) -> Explanation:
        """Return the explanation of a question, with its known answer."""
        return explained(self, query, options, self.known(query, options, anyhow=True))

    def charge(self, query: Query, options: Options) -> float:
        """Return the most that a question charges one account, in squared norm."""
        return charge_of(self, query, options)


class ViewedStream(PublicQuestions):
    """The public part of a store's stream at one moment."""

    def __init__(self, store: Store, lowering: Lowering) -> None:
        self._stream, self._records = store.stream, store.backend.records
        self.terms = store.stream.terms
        self._at = self._moment()
        self.parts = {}
        self.recall = Recall(self._records, self.terms.budget, self.terms.losses)

        def lower_again(sql: str, first: Sequence[Answer]) -> Query:
            rows = (first_row(answer.arrow(), answer.facts.release) for answer in first)
            return lowering.lower(sql, tuple(rows))

        self.lower_again = lower_again
        self.refresh()

    def refresh(self) -> None:
        """Read the answers and ingests since the last call."""
        before, self._at = self._at, self._moment()
        if before[1] != self._at[1]:
            self.recall = Recall(self._records, self.terms.budget, self.terms.losses)
        elif before != self._at:
            self.recall.catch_up()
        parts = list(self._stream.parts.items())
        self.parts = {pot: replace(part) for pot, part in parts}

    def _moment(self) -> tuple[int, int]:
        return self._stream.ledger.next_id, self._stream.recall.changes

    def new_payer(self, pot: Pot = Pot.QUERIES) -> FullPayer:
        """See `PublicQuestions`."""
        return self._stream.new_payer(pot)

    def flush(self) -> None:
        """Do nothing: a view sees durable answers only."""

    def settle(self, release: int) -> None:
        """Do nothing: see `flush`."""


def recorded(store: Store, number: int) -> Answer:
    """Return a recorded answer, without waiting for the stream.

    Raises:
        StoreError: There is no such release.
    """
    known = store.backend.records
    return Answer.from_bytes(known.read(min(max(number, 0), store.released + 1)).answer)


def releases(store: Store, last: int | None = None, before: int | None = None) -> list[Release]:
    """Return releases, oldest first, without waiting for the stream: see `Store.releases`."""
    return store.backend.records.releases(last, before)


def budget_facts(store: Store) -> dict[str, Any]:
    """Return the promise of a store and the progress of its stream, without waiting for it."""
    return StorePromise(store.backend, store.backend.records).facts()


def card_facts(store: Store, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return a store's deployment card, without waiting for its stream: see `StorePromise.card`."""
    return StorePromise(store.backend, store.backend.records).card(notes)
