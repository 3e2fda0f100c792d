"""Statements as PostgreSQL cuts them into tokens: strings, names and comments end where its do."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sparseq.pgwire.sqlstates import SYNTAX_ERROR, WireError


class TokenKind(enum.Enum):
    """What a token is."""

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
        """Where it ends."""
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
        """What a string says; of others, the text."""
        if self.kind is not TokenKind.STRING:
            return self.text
        if self.text[0] in "eE":
            return re.sub(r"\\(.)", _escaped, self.text[2:-1].replace("''", "'"), flags=re.DOTALL)
        if self.text[0] == "$":
            tag = self.text.index("$", 1) + 1
            return self.text[tag:-tag]
        return self.text[self.text.index("'") + 1 : -1].replace("''", "'")

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words, in any case."""
        return self.kind is TokenKind.WORD and self.text.upper() in words


def _escaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(found[1], found[1])


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
    "string": TokenKind.STRING, "dollar": TokenKind.STRING, "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER, "parameter": TokenKind.PARAMETER, "word": TokenKind.WORD,
    "other": TokenKind.OTHER,
}  # fmt: skip


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, without space and comments.

    Raises:
        WireError: A string, a name or a comment has no end.

    Example:
        >>> [token.text for token in tokens("SELECT 'a;''b', $1 -- no")]
        ['SELECT', "'a;''b'", ',', '$1']
    """
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        assert match.lastgroup is not None
        kind = "dollar" if match.lastgroup == "tag" else match.lastgroup
        if kind == "block":
            at = _comment_end(text, at)
            continue
        if kind == "other" and match[0] in "'\"":
            what = "string" if match[0] == "'" else "quoted identifier"
            raise WireError(SYNTAX_ERROR, f"unterminated {what}", position=at + 1)
        if kind != "space":
            found.append(Token(_KINDS[kind], match[0], at))
        at = match.end()
    return found


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
    parts, at, found = [], 0, tokens(text)
    for token, after in zip_longest(found, found[1:]):
        if token.kind is TokenKind.PARAMETER:
            cast = after is not None and after.text == "::"
            parts += [text[at : token.start], written(number(token), cast)]
            at = token.end
    return "".join([*parts, text[at:]])


def parameters(found: Sequence[Token]) -> int:
    """Return how many parameters there are: the greatest number of one.

    Raises:
        WireError: A number is not from 1 to 65,535.
    """
    return max((number(t) for t in found if t.kind is TokenKind.PARAMETER), default=0)


def number(token: Token) -> int:
    """Return the number of a parameter.

    Raises:
        WireError: It is not from 1 to 65,535.
    """
    digits = token.text[1:]
    found = int(digits) if len(digits) <= 5 else 0
    if not 1 <= found <= 65_535:
        raise WireError("42P02", "parameters are $1 to $65535")
    return found
