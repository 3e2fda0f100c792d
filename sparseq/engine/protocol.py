"""The protocol of an engine: users' contributions to a plan, for the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from sparseq.ledger.engine_failure import EngineFailure

if TYPE_CHECKING:
    from sparseq.engine.cells import Cells
    from sparseq.engine.contributions import Contributions
    from sparseq.question.catalog import Table
    from sparseq.question.plan import Plan, Query

Made = TypeVar("Made")
USER = "_user"
"""The column that holds the index of a user."""


@dataclass(frozen=True)
class Difference:
    """A user whose rows, evaluated alone, give another result than among all rows: private.

    Attributes:
        user: The user.
        said: The difference, as text.
    """

    user: int
    said: str


class SideReader(Protocol):
    """A reader outside the stream, for one question; one thread at a time uses it."""

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Return contributions (see `Engine`); after any failure the stream reads instead."""

    def close(self) -> None:
        """Return the reader to its pool."""


class Engine(Protocol):
    """An evaluator of plans over the rows of one store.

    A user's contribution depends only on that user's rows and on public facts. Errors that rows
    cause are never raised: if an engine fails on a user's rows, the user contributes nothing, and
    `take_failures` reports the user.

    Attributes:
        version: The number of loads, changes and erasures of rows since the engine was made.
    """

    version: int

    def lacks(self, plan: Plan) -> str:
        """Return the reason that the engine cannot evaluate a plan; "": it can. A public fact."""

    def reads_long(self, query: Query) -> bool:
        """Tell whether a question should be read outside the stream: a public fact."""

    def beside(self) -> SideReader:
        """Return a reader of the current rows for long plans in another thread."""

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Return the contributions of all users: exact squared norms, and exact sums.

        Args:
            plan: The plan, with the lattice of each measure.
            users: The number of users: indices 0, 1, …

        Raises:
            QueryRefused: The engine cannot evaluate the plan (see `lacks`).
        """

    def cells(self, plan: Plan, users: int) -> Cells:
        """Return the contributions of all users to a plan with one measure, cell by cell."""

    def by_people(
        self,
        table: Table,
        columns: Sequence[str],
        make: Callable[[Iterable[pa.RecordBatch]], Made],
        users: int,
    ) -> Iterator[Made]:
        """Yield results of `make` for all users' rows, in ascending ranges of users; usually one.

        Args:
            table: A private table.
            columns: The columns to read, in addition to `USER`; strings are unchanged.
            make: Computes the result from the columns of rows in order of user.
            users: The number of users.
        """

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        """Read rows for coming plans together; this only saves time."""

    def take_failures(self) -> list[EngineFailure]:
        """Return the failures since the last call: private."""

    def check_alone(self) -> list[Difference]:
        """Compare a few users' contributions to the last answer with those of their rows alone:
        private.

        It takes a small fraction of the time of questions, raises nothing, and changes nothing.
        """

    def rows_arrived(self) -> None:
        """Record that rows have come, changed or gone."""
