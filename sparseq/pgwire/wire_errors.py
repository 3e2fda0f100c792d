"""Errors in the form of PostgreSQL's clients: an SQLSTATE, a message, a hint, a position."""

from __future__ import annotations

from sparseq.base.errors import SparseqError

PROTOCOL_VIOLATION = "08P01"
TOO_LARGE = "54000"
FEATURE_NOT_SUPPORTED = "0A000"
SYNTAX_ERROR = "42601"
INVALID_PASSWORD = "28P01"
NOT_AUTHORIZED = "28000"
INVALID_PARAMETER = "22023"
READ_ONLY = "25006"
FAILED_TRANSACTION = "25P02"
NO_STATEMENT = "26000"
NO_CURSOR = "34000"
CANCELLED = "57014"
TOO_MANY = "53300"
SHUTTING_DOWN = "57P01"


class WireError(SparseqError):
    """An error with an SQLSTATE.

    Attributes:
        code: SQLSTATE, five characters.
        position: Position of the mistake in the statement, counted in characters from 1; 0:
            unknown.
        fatal: The connection ends with it.
    """

    def __init__(
        self, code: str, message: str, hint: str = "", *, position: int = 0, fatal: bool = False
    ) -> None:
        super().__init__(message, hint)
        self.code, self.position, self.fatal = code, position, fatal


def bad_value(message: str) -> WireError:
    """Return the error for a value that does not have its type."""
    return WireError("22P02", message)
