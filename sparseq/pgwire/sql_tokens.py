"""Statements as PostgreSQL's tokens."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sparseq.pgwire.wire_errors import SYNTAX_ERROR, WireError


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
        """The position of its end."""
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """The name as PostgreSQL folds it.

        Example:
            >>> [token.name for token in tokens('Ab "Ab" "a""b"')]
            ['ab', 'Ab', 'a"b']
        """
        if self.kind is TokenKind.QUOTED:
            return self.text[1:-1].replace('""', '"')
        return self.text.lower()

    @property
    def value(self) -> str:
        """The value of a string; for other tokens, the text."""
        if self.kind is not TokenKind.STRING:
            return self.text
        if self.text[0] in "eE":
            return re.sub(r"\\(.)", _escape, self.text[2:-1].replace("''", "'"), flags=re.DOTALL)
        if self.text[0] == "$":
            tag = self.text.index("$", 1) + 1
            return self.text[tag:-tag]
        return self.text[self.text.index("'") + 1 : -1].replace("''", "'")

    def is_word(self, *words: str) -> bool:
        """Tell whether the token is one of these words, in any case."""
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
    """Return a statement with each parameter `$n` written by `written(n, is_cast)`.

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
    """Return the number of parameters: the greatest `n` of a `$n`.

    Raises:
        WireError: A number is not from 1 to 65,535.
    """
    return max((number(t) for t in statement if t.kind is TokenKind.PARAMETER), default=0)


def number(token: Token) -> int:
    """Return the number of a parameter.

    Raises:
        WireError: The number is not from 1 to 65,535.
    """
    digits = token.text[1:]
    value = int(digits) if len(digits) <= 5 else 0
    if not 1 <= value <= 65_535:
        raise WireError("42P02", "parameters are $1 to $65535")
    return value
