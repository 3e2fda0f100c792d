"""Questions that people save: each with a name, a look and a place on the dashboard.

They are kept in a file beside the store, `shop.sparseq.saved`, each with the released answer that
is shown for it, so that looking at them never asks. All who may read answers may read them; who
saved one may change it, and so may a curator.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sparseq.base.errors import ParameterError, ServerError, Why
from sparseq.server.tokens import Principal, Role, SideFile
from sparseq.store.answer import Answer

MOST_SAVED, MOST_EACH, MOST_SHOWN = 500, 100, 24
"""Questions that are saved of a store, by one name, and of them on its dashboard."""
MOST_NAME = 80
"""Letters of a name."""
MOST_TEXT = 20_000
"""Letters of a question."""
MOST_ANSWER = 1 << 18
"""Bytes of an answer that is kept."""
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
    """Over its key, where it has one that a figure is drawn over."""
    BARS = "bars"
    """As many as the answer has rows, also over times and numbers."""
    TABLE = "table"
    """With its intervals drawn."""


@dataclass(frozen=True)
class SavedLabel:
    """A name, a look and a place.

    Attributes:
        name: Of the question; no other has it.
        look: How its answer is drawn.
        place: Where on the dashboard, 1 is first; None: it is not there.
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
        sql, price: What was asked, and with how much noise: `Options.price` as a text.
        owner: Of which token's name it is.
    """

    id: int
    shown: SavedLabel
    sql: str
    price: str
    owner: str

    def is_of(self, who: Principal) -> bool:
        """Tell whether somebody may change it."""
        return who.role is Role.CURATOR or (who.role is Role.ANALYST and who.name == self.owner)


@dataclass(frozen=True)
class KeptAnswer:
    """An answer that was released, and when."""

    answer: Answer
    at: dt.datetime


class SavedQuestions:
    """The saved questions of one store. Threads and processes may share the file.

    Args:
        path: Of the file, made if it is not there; None: in memory.

    Example:
        >>> SavedQuestions(None).every()
        []
    """

    def __init__(self, path: Path | None) -> None:
        self._file = SideFile(path, "the saved questions", _TABLE)

    @classmethod
    def beside(cls, store: Path) -> SavedQuestions:
        """Return the saved questions of the store whose file it is."""
        return cls(store.with_name(store.name + ".saved"))

    def every(self) -> list[SavedQuestion]:
        """Return all of them, by name."""
        return _read(self._file.rows(f"SELECT {_COLUMNS} FROM saved ORDER BY lower(name), id"))

    def on_dashboard(self) -> list[SavedQuestion]:
        """Return those that have a place on the dashboard, in this order."""
        found = [one for one in self.every() if one.shown.place is not None]
        return sorted(found, key=lambda one: one.shown.place or 0)

    def one(self, number: int) -> SavedQuestion:
        """Return one of them.

        Raises:
            ServerError: There is none of this number.
        """
        found = _read(self._file.rows(f"SELECT {_COLUMNS} FROM saved WHERE id = ?", [number]))
        if not found:
            raise ServerError(
                Why.ABSENT, f"there is no saved question {number}", "somebody may have deleted it"
            )
        return found[0]

    def kept(self, numbers: Iterable[int]) -> dict[int, KeptAnswer]:
        """Return the answers that are kept for those of the questions that are there."""
        sql = "SELECT answer, answered FROM saved WHERE id = ?"
        return {
            number: KeptAnswer(Answer.from_bytes(answer), dt.datetime.fromisoformat(at))
            for number in numbers
            for answer, at in self._file.rows(sql, [number])
        }

    def add(self, who: Principal, shown: SavedLabel, sql: str, price: str, kept: KeptAnswer) -> int:
        """Save a question with the answer that it has, and return its number.

        Raises:
            ParameterError: The name is another's, there are too many, or the answer is too long.
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
        """Call a question otherwise, or show it otherwise.

        Raises:
            ParameterError: The name is another's, or the dashboard is full.
            ServerError: There is none of this number, or it is not theirs.
        """
        with self._file.writes() as db:
            self.theirs(who, number)
            self._check(shown, number)
            db.execute(
                "UPDATE saved SET name = ?, look = ?, place = ? WHERE id = ?",
                [*_values(shown), number],
            )

    def keep(self, number: int, kept: KeptAnswer) -> None:
        """Have an answer shown for a question from now on; raises `ParameterError` as `add`."""
        with self._file.writes() as db:
            db.execute(
                "UPDATE saved SET answer = ?, answered = ? WHERE id = ?",
                [_bytes(kept), kept.at.isoformat(), number],
            )

    def delete(self, who: Principal, number: int) -> str:
        """Forget a question, and return what it was called; its answers stay.

        Raises:
            ServerError: There is none of this number, or it is not theirs.
        """
        with self._file.writes() as db:
            name = self.theirs(who, number).shown.name
            db.execute("DELETE FROM saved WHERE id = ?", [number])
        return name

    def theirs(self, who: Principal, number: int) -> SavedQuestion:
        """Return a question that somebody may change; raises `ServerError`."""
        found = self.one(number)
        if not found.is_of(who):
            raise ServerError(
                Why.ROLE,
                f"{found.owner} has saved this question",
                "they may change it, or a curator; save one of your own",
            )
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _check_room(self, who: Principal) -> None:
        saved = self.every()
        theirs = sum(one.owner == who.name for one in saved)
        for there, most in ((len(saved), MOST_SAVED), (theirs, MOST_EACH)):
            if there >= most:
                whose = "of yours " * (most == MOST_EACH)
                raise ParameterError(
                    f"{most} questions {whose}are saved already", "delete some that nobody needs"
                )

    def _check(self, shown: SavedLabel, number: int = 0) -> None:
        others = [one for one in self.every() if one.id != number]
        if not shown.name.strip():
            raise ParameterError("the name is empty", "say what the numbers are about")
        if shown.name in [one.shown.name for one in others]:
            raise ParameterError(
                f"there is a saved question {shown.name!r}", "take a name that no other has"
            )
        there = sum(one.shown.place is not None for one in others)
        if shown.place is not None and there >= MOST_SHOWN:
            raise ParameterError(
                f"{MOST_SHOWN} questions are on the dashboard already",
                "leave the place empty, or take another one off",
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
            f"{MOST_ANSWER:,} at most: ask for fewer groups",
        )
    return data
