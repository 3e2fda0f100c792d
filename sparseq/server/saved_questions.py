"""Saved questions: each with a name, a look and a place on the dashboard.

They are in a file in the store's folder, `shop.sparseq.saved`, each with the released answer that
is shown for it, so viewing them never asks. All readers of answers may read them; the owner may
change one, and so may a curator.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError, ServerError, Why
from sparseq.server.side_file import SideFile
from sparseq.server.tokens import Principal, Role

MOST_SAVED, MOST_EACH, MOST_SHOWN = 500, 100, 24
"""The maximum number of saved questions of a store, of one name, and on its dashboard."""
MOST_NAME = 80
"""The maximum number of characters of a name."""
MOST_TEXT = 20_000
"""The maximum number of characters of a question."""
MOST_ANSWER = 1 << 18
"""The maximum bytes of a kept answer."""
_TABLE = """
CREATE TABLE IF NOT EXISTS saved (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, look TEXT NOT NULL,
    place INTEGER, sql TEXT NOT NULL, price TEXT NOT NULL, owner TEXT NOT NULL, made TEXT NOT NULL,
    answer BLOB NOT NULL, answered TEXT NOT NULL);
"""
_COLUMNS = "id, name, look, place, sql, price, owner"


class AnswerLook(enum.StrEnum):
    """The look of an answer."""

    CHART = "chart"
    """Over its key, if it has one for a figure."""
    BARS = "bars"
    """As many as the answer has rows, also over times and numbers."""
    TABLE = "table"
    """With its intervals as bars."""


@dataclass(frozen=True)
class SavedLabel:
    """A name, a look and a place.

    Attributes:
        name: The unique name of the question.
        look: The way its answer is drawn.
        place: The place on the dashboard, 1 is first; None: it has none.
    """

    name: str
    look: AnswerLook = AnswerLook.CHART
    place: int | None = None


@dataclass(frozen=True)
class SavedQuestion:
    """A saved question.

    Attributes:
        id: Its number.
        shown: Its name, its look and its place.
        sql, price: The question, and its noise: `Options.price` as a text.
        owner: The name of its owner's token.
    """

    id: int
    shown: SavedLabel
    sql: str
    price: str
    owner: str

    def is_of(self, who: Principal) -> bool:
        """Tell whether a user may change it."""
        return who.role is Role.CURATOR or (who.role is Role.ANALYST and who.name == self.owner)


@dataclass(frozen=True)
class KeptAnswer:
    """A released answer, and its time."""

    answer: Answer
    at: dt.datetime


class SavedQuestions:
    """The saved questions of one store. Threads and processes may share the file.

    Args:
        path: The path of the file, which is created if it is missing; None: in memory.

    Example:
        >>> SavedQuestions(None).every()
        []
    """

    def __init__(self, path: Path | None) -> None:
        self._file = SideFile(path, "the saved questions", _TABLE)

    @classmethod
    def beside(cls, store: Path) -> SavedQuestions:
        """Return the saved questions of the store with this file."""
        return cls(store.with_name(store.name + ".saved"))

    def every(self) -> list[SavedQuestion]:
        """Return all questions, by name."""
        return _read(self._file.rows(f"SELECT {_COLUMNS} FROM saved ORDER BY lower(name), id"))

    def on_dashboard(self) -> list[SavedQuestion]:
        """Return those with a place on the dashboard, in this order."""
        found = [one for one in self.every() if one.shown.place is not None]
        return sorted(found, key=lambda one: one.shown.place or 0)

    def one(self, number: int) -> SavedQuestion:
        """Return one question.

        Raises:
            ServerError: No question has this number.
        """
        found = _read(self._file.rows(f"SELECT {_COLUMNS} FROM saved WHERE id = ?", [number]))
        if not found:
            raise ServerError(
                Why.ABSENT,
                f"there is no saved question {number}",
                ("another user may have deleted it"),
            )
        return found[0]

    def kept(self, numbers: Iterable[int]) -> dict[int, KeptAnswer]:
        """Return the kept answers of the questions that exist."""
        sql = "SELECT answer, answered FROM saved WHERE id = ?"
        return {
            number: KeptAnswer(Answer.from_bytes(answer), dt.datetime.fromisoformat(at))
            for number in numbers
            for answer, at in self._file.rows(sql, [number])
        }

    def add(self, who: Principal, shown: SavedLabel, sql: str, price: str, kept: KeptAnswer) -> int:
        """Save a question with its answer, and return its number.

        Raises:
            ParameterError: The name is taken, there are too many, or the answer is too long.
        """
        answer = _bytes(kept)
        made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self._file.writes() as db:
            self._check(shown)
            self._check_room(who)
            done = db.execute(
                "INSERT INTO saved (name, look, place, sql, price, owner, made, answer, answered) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [*_values(shown), sql, price, who.name, made, answer, kept.at.isoformat()],
            )
        assert done.lastrowid is not None
        return done.lastrowid

    def change(self, who: Principal, number: int, shown: SavedLabel) -> None:
        """Rename a question, or change its look.

        Raises:
            ParameterError: The name is taken, or the dashboard is full.
            ServerError: The number does not exist, or the question belongs to another user.
        """
        with self._file.writes() as db:
            self.theirs(who, number)
            self._check(shown, number)
            db.execute(
                "UPDATE saved SET name = ?, look = ?, place = ? WHERE id = ?",
                [*_values(shown), number],
            )

    def keep(self, number: int, kept: KeptAnswer) -> None:
        """Show this answer for a question from now on; raise `ParameterError` as `add`."""
        with self._file.writes() as db:
            db.execute(
                "UPDATE saved SET answer = ?, answered = ? WHERE id = ?",
                [_bytes(kept), kept.at.isoformat(), number],
            )

    def delete(self, who: Principal, number: int) -> str:
        """Delete a question, and return its name; its answers stay.

        Raises:
            ServerError: The number does not exist, or the question belongs to another user.
        """
        with self._file.writes() as db:
            name = self.theirs(who, number).shown.name
            db.execute("DELETE FROM saved WHERE id = ?", [number])
        return name

    def theirs(self, who: Principal, number: int) -> SavedQuestion:
        """Return a question that the user may change; raise `ServerError`."""
        found = self.one(number)
        if not found.is_of(who):
            raise ServerError(
                Why.ROLE,
                f"{found.owner} has saved this question",
                "only they or a curator may change it; save your own copy",
            )
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_room(self, who: Principal) -> None:
        saved = self.every()
        theirs = sum(one.owner == who.name for one in saved)
        for there, most in ((len(saved), MOST_SAVED), (theirs, MOST_EACH)):
            if there >= most:
                whose = "of yours " * (most == MOST_EACH)
                raise ParameterError(
                    f"{most} questions {whose}are saved already", "delete some that are not needed"
                )

    def _check(self, shown: SavedLabel, number: int = 0) -> None:
        others = [one for one in self.every() if one.id != number]
        if not shown.name.strip():
            raise ParameterError("the name is empty", "describe the numbers in a few words")
        if shown.name in [one.shown.name for one in others]:
            raise ParameterError(f"there is a saved question {shown.name!r}", "use another name")
        there = sum(one.shown.place is not None for one in others)
        if shown.place is not None and there >= MOST_SHOWN:
            raise ParameterError(
                f"{MOST_SHOWN} questions are on the dashboard already",
                "leave the place empty, or remove another question",
            )


def _values(shown: SavedLabel) -> list[object]:
    return [shown.name, shown.look.value, shown.place]


def _read(rows: Iterable[tuple[int, str, str, int | None, str, str, str]]) -> list[SavedQuestion]:
    return [
        SavedQuestion(number, SavedLabel(name, AnswerLook(look), place), sql, price, owner)
        for number, name, look, place, sql, price, owner in rows
    ]


def _bytes(kept: KeptAnswer) -> bytes:
    data = kept.answer.to_bytes()
    if len(data) > MOST_ANSWER:
        raise ParameterError(
            f"an answer of {len(data):,} bytes is too long to be kept",
            f"the limit is {MOST_ANSWER:,}: ask for fewer groups",
        )
    return data
