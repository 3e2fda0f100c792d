"""The public part of a stream: the only inputs of a question's price and explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.question.plan import Options, Query
    from sparseq.stream.participation import Terms
    from sparseq.stream.question_price import QuestionPrice
    from sparseq.stream.stream_progress import Course


class PublicStream(Protocol):
    """The interface of a stream for callers without access to accounts or rows; see `Stream`.

    Attributes:
        terms: Facts of every answer.
    """

    terms: Terms

    @property
    def course(self) -> Course | None:
        """The progress of the questions' weighted answers; None: users are in or out."""

    def weighs(self, query: Query) -> bool:
        """Tell whether an answer weights users."""

    def known_first(self, query: Query, options: Options) -> Query:
        """Return a question with the known numbers of its preceding questions filled in."""

    def asked_as(self, query: Query, options: Options) -> Query:
        """Return a question in its final form; see `Stream.asked_as`."""

    def price(
        self, query: Query, options: Options, *, before: Sequence[QuestionPrice] = ()
    ) -> QuestionPrice:
        """Return the price of a question; see `Stream.price`."""

    def price_first(
        self, query: Query, options: Options, *, before: Sequence[QuestionPrice] = ()
    ) -> list[QuestionPrice]:
        """Return the prices of the questions before a question; see `Stream.price_first`."""

    def known(self, query: Query, options: Options) -> Answer | None:
        """Return the recorded answer to a question; None: there is none."""

    def repeats(self, query: Query, options: Options) -> bool:
        """Tell whether a question has a recorded answer."""
