"""The protocol of an engine: what people contribute to a plan, for the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from sparseq.engine.contributions import Cells, Contributions
    from sparseq.sql.catalog import Table
    from sparseq.sql.plan import Plan

# -- the protocol of an engine: what people contribute to a plan, for the stream -------------------

Made = TypeVar("Made")
USER = "_user"
"""The column that holds the number of a person."""


@dataclass(frozen=True)
class EngineFailure:
    """A failure of an engine: private.

    Attributes:
        user: On whose rows it failed, they alone; the person contributes nothing.
        error: What it said.
    """

    user: int
    error: str

    def told(self, release: int, names: Mapping[int, Any]) -> str:
        """Return it in words, for the curator.

        Args:
            release: In whose evaluation it was.
            names: Of people.
        """
        who = names.get(self.user)
        done = "they count for nothing"
        return f"release {release}: the engine failed on the rows of {who!s}, {done}: {self.error}"


@dataclass(frozen=True)
class Difference:
    """Somebody whose rows give another answer alone than among all: private.

    Attributes:
        user: Who.
        said: What differs.
    """

    user: int
    said: str


class SideReader(Protocol):
    """A reader beside the stream, for one question; used by one thread at a time."""

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """See `Engine`; may fail in any way, which says nothing: the stream reads then."""

    def close(self) -> None:
        """Give it back."""


class Engine(Protocol):
    """The rows of one store, evaluated.

    What a person contributes depends on that person's rows and on public facts alone. Nothing that
    rows decide is ever raised: on whose rows an engine fails, contributes nothing, and is told of
    by `take_failures`.

    Attributes:
        version: How often rows have come, changed or gone since it was made.
    """

    version: int

    def lacks(self, plan: Plan) -> str:
        """Return why a plan can't be evaluated by this engine, "" if it can: a public fact."""

    def reads_long(self, plan: Plan) -> bool:
        """Tell whether a plan is to be read beside the stream: a public fact."""

    def beside(self) -> SideReader:
        """Return what reads plans that read long in another thread, as the rows are now."""

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Return what everybody contributes: exact squared norms, and exact sums.

        Args:
            plan: What is asked, with the lattice of each measure.
            users: How many people there are: numbers 0, 1, …

        Raises:
            QueryRefused: The engine `lacks` what the plan needs.
        """

    def cells(self, plan: Plan, users: int) -> Cells:
        """Return what everybody contributes to a plan with one measure, cell by cell."""

    def by_people(
        self,
        table: Table,
        columns: Sequence[str],
        make: Callable[[Iterable[pa.RecordBatch]], Made],
        users: int,
    ) -> Iterator[Made]:
        """Yield what is made of everybody's rows, in ranges of people, ascending; mostly one.

        Args:
            table: A private one.
            columns: What is read of it, beside `USER`; strings as they are.
            make: Makes it of rows, which are in order of person, and of the columns.
            users: How many people there are.
        """

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        """Read what coming plans need together; it changes nothing but the time."""

    def take_failures(self) -> list[EngineFailure]:
        """Return what has failed since this was last asked: private."""

    def check_alone(self) -> list[Difference]:
        """Compare a few people's part in the last answer with what their rows alone give: private.

        It takes a small part of the time of questions, raises nothing, and changes nothing.
        """

    def rows_arrived(self) -> None:
        """Take note that rows have come, changed or gone."""


# -- words of SQL, and of what DuckDB says of it ---------------------------------------------------


def quote(name: str) -> str:
    """Return an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
