"""Kinds of statements: a question or a look-up, a setting, a cursor, or a write."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from sparseq.pgwire.messages import READ_ONLY, SYNTAX_ERROR, TOO_LARGE, WireError

# -- statements as PostgreSQL cuts them into tokens ------------------------------------------------


class TokenKind(enum.Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    PARAMETER = "parameter"
    NUMBER = "number"
    OTHER = "other"


@dataclass(frozen=True)
class Token:
    """A token; `text` as written, from `start` to `end` of the statement."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """The place of its end."""
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """The name that it is, as PostgreSQL folds it; a word that is no name in capitals aside.

        Example:
            >>> [token.name for token in tokens('Ab "Ab" "a""b"')]
            ['ab', 'Ab', 'a"b']
        """
        if self.kind is TokenKind.QUOTED:
            return self.text[1:-1].replace('""', '"')
        return self.text.lower()

    @property
    def value(self) -> str:
        """The value of a string; of others, the text."""
        if self.kind is not TokenKind.STRING:
            return self.text
        if self.text[0] in "eE":
            return re.sub(r"\\(.)", _escape, self.text[2:-1].replace("''", "'"), flags=re.DOTALL)
        if self.text[0] == "$":
            tag = self.text.index("$", 1) + 1
            return self.text[tag:-tag]
        return self.text[self.text.index("'") + 1 : -1].replace("''", "'")

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words, in any case."""
        return self.kind is TokenKind.WORD and self.text.upper() in words


def _escape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(match[1], match[1])


_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
    | (?P<block>/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*' | (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
    | (?P<parameter>\$\d+)
    | (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<other>::|<=|>=|<>|!=|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_KINDS = {
    "string": TokenKind.STRING,
    "dollar": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "parameter": TokenKind.PARAMETER,
    "word": TokenKind.WORD,
    "other": TokenKind.OTHER,
}


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, without space and comments.

    Raises:
        WireError: A string, a name or a comment has no end.

    Example:
        >>> [token.text for token in tokens("SELECT 'a;''b', $1 -- no")]
        ['SELECT', "'a;''b'", ',', '$1']
    """
    all_tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        assert match.lastgroup is not None
        kind = "dollar" if match.lastgroup == "tag" else match.lastgroup
        if kind == "block":
            at = _comment_end(text, at)
            continue
        if kind == "other" and match[0] in "'\"":
            kind_of_text = "string" if match[0] == "'" else "quoted identifier"
            raise WireError(SYNTAX_ERROR, f"unterminated {kind_of_text}", position=at + 1)
        if kind != "space":
            all_tokens.append(Token(_KINDS[kind], match[0], at))
        at = match.end()
    return all_tokens


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for mark in _COMMENT.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise WireError(SYNTAX_ERROR, "unterminated /* comment", position=start + 1)


def split(text: str) -> list[str]:
    """Return the statements of a text, without their semicolons; empty ones are left out.

    Example:
        >>> split("SELECT ';'; -- one\\n SELECT 2;")
        ["SELECT ';'", '-- one\\n SELECT 2']
    """
    statements, start, some = [], 0, False
    for token in tokens(text):
        if token.text == ";":
            if some:
                statements.append(text[start : token.start].strip())
            start, some = token.end, False
        else:
            some = True
    if some:
        statements.append(text[start:].strip())
    return statements


def with_parameters(text: str, written: Callable[[int, bool], str]) -> str:
    """Return a statement with each parameter `$n` written as it says, told if it is cast.

    Example:
        >>> with_parameters("SELECT $2, '$1', $1::int", lambda n, cast: f"<{n}, {cast}>")
        "SELECT <2, False>, '$1', <1, True>::int"
    """
    parts, at, all_tokens = [], 0, tokens(text)
    for token, after in zip_longest(all_tokens, all_tokens[1:]):
        if token.kind is TokenKind.PARAMETER:
            cast = after is not None and after.text == "::"
            parts += [text[at : token.start], written(number(token), cast)]
            at = token.end
    return "".join([*parts, text[at:]])


def parameters(statement: Sequence[Token]) -> int:
    """Return how many parameters there are: the greatest number of one.

    Raises:
        WireError: A number is not from 1 to 65,535.
    """
    return max((number(t) for t in statement if t.kind is TokenKind.PARAMETER), default=0)


def number(token: Token) -> int:
    """Return the number of a parameter.

    Raises:
        WireError: It is not from 1 to 65,535.
    """
    digits = token.text[1:]
    value = int(digits) if len(digits) <= 5 else 0
    if not 1 <= value <= 65_535:
        raise WireError("42P02", "parameters are $1 to $65535")
    return value


# -- kinds of statements: a question or a look-up, a setting, a cursor, or a write -----------------


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
    """Taken, and nothing is done: LISTEN, LOAD and the like."""


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
MOST_TEXT = 100_000
"""Letters of a statement."""
ONLY_READ = "this server answers questions; rows come in by its curator: sparseq ingest STORE FILE"


@dataclass(frozen=True)
class SqlStatement:
    """One statement.

    Attributes:
        text: As written, without its semicolon.
        tokens: Of the text.
        form: What is done with it.
    """

    text: str
    tokens: tuple[Token, ...] = field(repr=False, compare=False)
    form: StatementForm

    @classmethod
    def of(cls, text: str) -> SqlStatement:
        """Read a statement.

        Raises:
            WireError: It is none, or would write.

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
        """Nothing may follow."""
        if (token := self.peek()) is not None:
            raise self.wrong(token)

    def rest(self) -> str:
        """Take all that is left, as text."""
        token = self.peek()
        self._at = len(self._statement.tokens)
        return "" if token is None else self._statement.rest(token)

    def group(self) -> str:
        """Take what is in parentheses, as text."""
        self.expect("(")
        first, depth = self.peek(), 1
        while True:
            token = self.next()
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                assert first is not None
                return self._statement.text[first.start : token.start].strip()

    def wrong(self, token: Token | None) -> WireError:
        """Return the error of a token that does not belong here."""
        if token is None:
            end = len(self._statement.text) + 1
            return WireError(SYNTAX_ERROR, "syntax error at end of input", position=end)
        problem = f'syntax error at or near "{token.text[:60]}"'
        return WireError(SYNTAX_ERROR, problem, position=token.start + 1)


_CHANGES = re.compile(r"SET\s+SESSION\s+CHARACTERISTICS|SET\s+TRANSACTION", re.IGNORECASE)


@dataclass(frozen=True)
class Change:
    """The parts of a SET: name, value (None: the default), and if for this transaction only."""

    name: str
    value: str | None
    local: bool


def change(statement: SqlStatement) -> Change | None:
    """Read a SET; None: it is about transactions, which are all alike here.

    Raises:
        WireError: It can't be read.
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
