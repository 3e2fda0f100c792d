"""Kinds of statements: a question or a look-up, a setting, a cursor, or a write."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparseq.pgwire.sql_tokens import Token, TokenKind, parameters, tokens
from sparseq.pgwire.wire_errors import READ_ONLY, SYNTAX_ERROR, TOO_LARGE, WireError
from sparseq.question.limits import all_limits


class StatementForm(enum.Enum):
    """The way in which a statement is treated."""

    EMPTY = "empty"
    SELECT = "select"
    EXPLAIN = "explain"
    COPY = "copy"
    TRANSACTION = "transaction"
    SETTING = "setting"
    PREPARED = "prepared"
    CURSOR = "cursor"
    NOTHING = "nothing"
    """Accepted without effect: LISTEN, LOAD and similar commands."""


_FORMS = {
    StatementForm.SELECT: "SELECT WITH VALUES TABLE FROM PIVOT (",
    StatementForm.EXPLAIN: "EXPLAIN",
    StatementForm.COPY: "COPY",
    StatementForm.TRANSACTION: "BEGIN START COMMIT END ROLLBACK ABORT SAVEPOINT RELEASE",
    StatementForm.SETTING: "SET RESET SHOW DISCARD",
    StatementForm.PREPARED: "PREPARE EXECUTE DEALLOCATE",
    StatementForm.CURSOR: "DECLARE FETCH MOVE CLOSE",
    StatementForm.NOTHING: "LISTEN UNLISTEN",
}
_FORM_OF = {word: form for form, words in _FORMS.items() for word in words.split()}
_WRITES = frozenset(
    [
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "ALTER",
        "DROP",
        "TRUNCATE",
        "GRANT",
        "REVOKE",
        "COMMENT",
        "REINDEX",
        "CLUSTER",
        "VACUUM",
        "ANALYZE",
        "LOCK",
        "NOTIFY",
        "REFRESH",
        "IMPORT",
        "SECURITY",
        "REASSIGN",
        "DO",
        "CALL",
        "CHECKPOINT",
        "LOAD",
        "ATTACH",
        "DETACH",
        "INSTALL",
        "PRAGMA",
        "USE",
        "EXPORT",
    ]
)
_TWO_WORDS = frozenset(
    ["CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "REFRESH", "IMPORT", "SECURITY", "REASSIGN"]
)
MOST_TEXT = all_limits()["text"]
"""Characters of a statement: those of a query."""
ONLY_READ = "this server answers questions; rows come in by its curator: sparseq ingest STORE FILE"


@dataclass(frozen=True)
class SqlStatement:
    """One statement.

    Attributes:
        text: The text as written, without its semicolon.
        tokens: The tokens of the text.
        form: The treatment of the statement.
    """

    text: str
    tokens: tuple[Token, ...] = field(repr=False, compare=False)
    form: StatementForm

    @classmethod
    def of(cls, text: str) -> SqlStatement:
        """Read a statement.

        Raises:
            WireError: The text is no statement, or would write.

        Example:
            >>> SqlStatement.of("select 1").form
            <StatementForm.SELECT: 'select'>
        """
        if len(text) > MOST_TEXT:
            problem = f"the statement has {len(text):,} letters; the limit is {MOST_TEXT:,}"
            raise WireError(TOO_LARGE, problem, "split it into parts")
        all_tokens = tokens(text)
        while all_tokens and all_tokens[-1].text == ";":
            all_tokens.pop()
        if any(token.text == ";" for token in all_tokens):
            raise WireError(
                SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement"
            )
        if not all_tokens:
            return cls(text, (), StatementForm.EMPTY)
        first = all_tokens[0].text.upper()
        if first in _WRITES:
            raise _writes(all_tokens)
        form = _FORM_OF.get(first)
        if form is None:
            problem = f'syntax error at or near "{all_tokens[0].text[:60]}"'
            raise WireError(SYNTAX_ERROR, problem, position=all_tokens[0].start + 1)
        if form is StatementForm.SELECT:
            _check_reads(all_tokens)
        return cls(text[: all_tokens[-1].end], tuple(all_tokens), form)

    @property
    def word(self) -> str:
        """The first word, in capitals."""
        return self.tokens[0].text.upper() if self.tokens else ""

    @property
    def parameters(self) -> int:
        """Number of its parameters."""
        return parameters(self.tokens)

    def rest(self, token: Token) -> str:
        """Return the text from a token on."""
        return self.text[token.start :]


def _writes(statement: Sequence[Token]) -> WireError:
    count = 2 if statement[0].text.upper() in _TWO_WORDS else 1
    verb = " ".join(
        token.text.upper() for token in statement[:count] if token.kind is TokenKind.WORD
    )
    return WireError(READ_ONLY, f"cannot execute {verb} in a read-only transaction", ONLY_READ)


def _check_reads(statement: Sequence[Token]) -> None:
    """Refuse a SELECT that would write or lock."""
    depth = 0
    for token, before in zip(statement[1:], statement, strict=False):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.is_word("INSERT", "UPDATE", "DELETE", "MERGE") and (
            before.text in ("(", ")") or before.is_word("FOR")
        ):
            verb = f"SELECT FOR {token.text.upper()}" if before.is_word("FOR") else token.text
            problem = f"cannot execute {verb.upper()} in a read-only transaction"
            raise WireError(READ_ONLY, problem, ONLY_READ, position=token.start + 1)
        if token.is_word("INTO") and depth == 0:
            problem = "cannot execute SELECT INTO in a read-only transaction"
            raise WireError(READ_ONLY, problem, ONLY_READ, position=token.start + 1)


class TokenReader:
    """The tokens of a command, read one after the other."""

    def __init__(self, statement: SqlStatement, skip: int = 1) -> None:
        self._statement, self._at = statement, skip

    def peek(self) -> Token | None:
        """The next token; None: there is none."""
        all_tokens = self._statement.tokens
        return all_tokens[self._at] if self._at < len(all_tokens) else None

    def next(self) -> Token:
        """Take the next token."""
        token = self.peek()
        if token is None:
            end = len(self._statement.text) + 1
            raise WireError(SYNTAX_ERROR, "syntax error at end of input", position=end)
        self._at += 1
        return token

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these words, and return it in capitals."""
        token = self.peek()
        if token is not None and (token.is_word(*words) or token.text in words):
            self._at += 1
            return token.text.upper()
        return ""

    def expect(self, *words: str) -> str:
        """Take one of these words."""
        token = self.peek()
        word = self.accept(*words)
        if not word:
            raise self.wrong(token)
        return word

    def name(self) -> str:
        """Take a name."""
        token = self.next()
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise self.wrong(token)
        return token.name

    def end(self) -> None:
        """Check that no token follows."""
        if (token := self.peek()) is not None:
            raise self.wrong(token)

    def rest(self) -> str:
        """Take the rest, as text."""
        token = self.peek()
        self._at = len(self._statement.tokens)
        return "" if token is None else self._statement.rest(token)

    def group(self) -> str:
        """Take the content of parentheses, as text."""
        self.expect("(")
        first, depth = self.peek(), 1
        while True:
            token = self.next()
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                assert first is not None
                return self._statement.text[first.start : token.start].strip()

    def wrong(self, token: Token | None) -> WireError:
        """Return the error for an unexpected token."""
        if token is None:
            end = len(self._statement.text) + 1
            return WireError(SYNTAX_ERROR, "syntax error at end of input", position=end)
        problem = f'syntax error at or near "{token.text[:60]}"'
        return WireError(SYNTAX_ERROR, problem, position=token.start + 1)


_CHANGES = re.compile(r"SET\s+SESSION\s+CHARACTERISTICS|SET\s+TRANSACTION", re.IGNORECASE)


@dataclass(frozen=True)
class Change:
    """The parts of a SET: name, value (None: default), and True if only for this transaction."""

    name: str
    value: str | None
    local: bool


def change(statement: SqlStatement) -> Change | None:
    """Read a SET; None: it sets properties of transactions, which have no effect here.

    Raises:
        WireError: The SET can't be parsed.
    """
    if _CHANGES.match(statement.text):
        return None
    reader = TokenReader(statement)
    scope = reader.accept("SESSION", "LOCAL")
    if reader.accept("AUTHORIZATION"):
        return Change("session_authorization", None, False)
    name = reader.name()
    if name == "names":
        token = reader.next()
        return Change("client_encoding", token.value, scope == "LOCAL")
    if name == "time" and reader.accept("ZONE"):
        return Change("timezone", _values(reader), scope == "LOCAL")
    while reader.accept("."):
        name += "." + reader.name()
    reader.expect("=", "TO") if name != "role" else reader.accept("=", "TO")
    return Change(name, _values(reader), scope == "LOCAL")


def _values(reader: TokenReader) -> str | None:
    parts, sign = [], ""
    while (token := reader.peek()) is not None:
        reader.next()
        if token.text == "-" and not sign:
            sign = "-"
            continue
        if token.text == ",":
            continue
        parts.append(sign + (token.name if token.kind is TokenKind.QUOTED else token.value))
        sign = ""
    if not parts:
        raise reader.wrong(None)
    return None if [p.upper() for p in parts] == ["DEFAULT"] else ", ".join(parts)
