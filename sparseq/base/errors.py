"""All errors that a user can meet.

    SparseqError                    exit code 1
    ├── ParameterError              2   a number or option out of its range
    │   └── NoSuchKey               2   an answer has no row of this key; a KeyError too
    ├── QueryRefused                3   the query can't be answered privately, or isn't understood
    │   └── NotSql                  3   it can't be read as SQL at all
    ├── StoreError                  4   the store is missing, exists already, or is damaged
    │   └── StoreInUse              5   another process has the store open (try again later)
    ├── DataError                   6   a file to load does not fit; nothing was loaded
    ├── ServerError                 7   a server won't answer now, or not this client
    └── QueryCancelError            8   it was cancelled; nothing was charged
        └── TimedOut                8   it took longer than it was given; a TimeoutError too

The message names the fault in the caller's own words, and `hint` says how to mend it. An error that
an analyst can meet never depends on the value of a row.
"""

from __future__ import annotations

import difflib
import enum
import os
import traceback
from collections.abc import Iterable


class SparseqError(Exception):
    """Base class of all errors; `hint` says how to mend it, `exit_code` is the command line's."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """Return the text that a notebook shows: the error and its hint; the whole trace with
        SPARSEQ_DEBUG.
        """
        if os.environ.get("SPARSEQ_DEBUG"):
            return traceback.format_exception(self)
        return f"{type(self).__name__}: {self}".split("\n")


class ParameterError(SparseqError, ValueError):
    """A number or option is out of its range; the message has the value and the range."""

    exit_code = 2


class NoSuchKey(ParameterError, KeyError):
    """An answer has no row with this key, or several."""


class QueryRefused(SparseqError):
    """The query is not understood, or can't be answered privately; nothing was charged."""

    exit_code = 3


class NotSql(QueryRefused):
    """The query can't be read as SQL; nothing was charged."""


class StoreError(SparseqError):
    """The store is missing, exists already, or is damaged."""

    exit_code = 4


class StoreInUse(StoreError):
    """Another process has the store open."""

    exit_code = 5


class DataError(SparseqError):
    """A file to load does not fit; nothing was loaded."""

    exit_code = 6


class Why(enum.StrEnum):
    """The reason for a server's refusal."""

    SIGN_IN = "sign in"
    """The token does not exist, or has expired or been revoked."""
    ROLE = "role"
    """The token's role does not allow it."""
    QUOTA = "quota"
    """The token's quota is used up."""
    BUSY = "busy"
    """Too many requests are waiting."""
    CLOSING = "closing"
    """The server is about to stop."""
    SIZE = "size"
    """The request is too large."""
    ABSENT = "absent"
    """There is nothing with this name or number."""
    FAILED = "failed"
    """The server failed. To learn whether it was charged, repeat the request with the same id."""


class ServerError(SparseqError):
    """A server refuses a request, for now or for this client; `why` is the reason for programs.

    Nothing was charged, except with `why` = `Why.FAILED`: then it is unknown.
    """

    exit_code = 7

    def __init__(self, why: Why, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.why = why


class QueryCancelError(SparseqError):
    """A question was cancelled before it was committed: nothing was charged, nothing released."""

    exit_code = 8

    def __init__(self, message: str = "cancelled; nothing was charged", hint: str = "") -> None:
        super().__init__(message, hint)


class TimedOut(QueryCancelError, TimeoutError):
    """A question took longer than its time-out, before it was committed; nothing was charged.

    The time-out itself reveals the running time, which depends on rows: see docs/guarantee.md.
    """

    def __init__(self, seconds: float | str, hint: str = "") -> None:
        said = (
            seconds
            if isinstance(seconds, str)
            else (f"it took longer than {seconds:g} s; nothing was charged")
        )
        super().__init__(said, hint or "give it more time, or ask for less")


_TRY, _ANOTHER = " Try: ", " Another question: "


def with_query(hint: str, query: str, same: bool = True) -> str:
    """Return a hint together with the query that it suggests, if there is one.

    Args:
        hint: The hint.
        query: The query; "": none.
        same: True if the query has the same meaning. Otherwise the hint says that it is another
            question.

    Example:
        >>> with_query("leave it out", "SELECT count(*) FROM t")
        'leave it out. Try: SELECT count(*) FROM t'
        >>> with_query("count people", "SELECT count(DISTINCT who) FROM t", same=False)
        'count people. Another question: SELECT count(DISTINCT who) FROM t'
    """
    if not query:
        return hint
    return f"{hint}{'' if hint.endswith('?') else '.'}{_TRY if same else _ANOTHER}{query}"


def without_query(hint: str) -> tuple[str, str, bool]:
    """Return the hint alone, the suggested query or None, and whether it has the same meaning.

    Example:
        >>> without_query(with_query("count people", "SELECT 1", same=False))
        ('count people', 'SELECT 1', False)
    """
    for word in (_TRY, _ANOTHER):
        alone, _, query = hint.partition(word)
        if query:
            return alone.removesuffix("."), query, word == _TRY
    return hint, "", True


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that offers the nearest of the `known` names, or lists them.

    Example:
        >>> did_you_mean("amuont", ["amount", "date"])
        "did you mean 'amount'?"
    """
    known = sorted(set(known))
    close = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1, 0.7)
    if close:
        return f"did you mean {next(k for k in known if k.lower() == close[0])!r}?"
    return "known here: " + ", ".join(known[:20]) if known else ""
