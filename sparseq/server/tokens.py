"""Tokens with a name, a role and a quota, in a file in the store's folder.

A token is shown once, when it is created. The file has its hash, for HTTP, and its SCRAM-SHA-256
verifier (RFC 5802), for PostgreSQL's protocol: neither reveals the token. Several processes may use
the file at once, so tokens are created and revoked while the store is served.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from sparseq.base.errors import ParameterError, ServerError, Why
from sparseq.server.side_file import SideFile

PREFIX = "sq_"
ITERATIONS = 4096  # of SCRAM: a token has 256 random bits, so nobody can guess it anyway
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_QUOTA = re.compile(r"\s*(?:(?P<day>\d{1,9})\s*/\s*day|(?P<share>\d{1,3}(?:\.\d{1,6})?)\s*%)\s*")
_TABLES = """
CREATE TABLE IF NOT EXISTS tokens (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, quota TEXT NOT NULL,
    created TEXT NOT NULL, expires TEXT, revoked TEXT, hash BLOB NOT NULL UNIQUE,
    salt BLOB NOT NULL, iterations INTEGER NOT NULL, stored_key BLOB NOT NULL,
    server_key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS secret (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS uses (token INTEGER PRIMARY KEY, at TEXT NOT NULL);
"""
_NOTED_EACH = 60.0  # seconds between two writes of the last uses
_VALID = "revoked IS NULL AND (expires IS NULL OR expires > ?)"


class Role(enum.StrEnum):
    """The rights of the holder of a token."""

    ANALYST = "analyst"
    """Ask, and read answers."""
    CURATOR = "curator"
    """The same, and load rows, read the audit log, make backups."""
    MONITOR = "monitor"
    """Read answers and the state of the server; ask nothing."""


@dataclass(frozen=True)
class Quota:
    """A share of the stream; None: no limit.

    Attributes:
        a_day: New answers per day, in UTC.
        share: The maximum sum of the prices of these answers, as a share of that of all planned
            answers.
    """

    a_day: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Quota:
        """Parse a quota.

        Raises:
            ParameterError: It is invalid.

        Example:
            >>> Quota.parse("20/day,5%")
            Quota(a_day=20, share=0.05)
        """
        found: dict[str, str] = {}
        for part in text.split(",") if text.strip() else []:
            read = _QUOTA.fullmatch(part)
            if read is None:
                raise ParameterError(f"quota {text!r} can't be read", "for example 20/day,5%")
            found |= {name: value for name, value in read.groupdict().items() if value}
        share = float(found["share"]) / 100 if "share" in found else None
        return cls(int(found["day"]) if "day" in found else None, share)

    def __str__(self) -> str:
        parts = [f"{self.a_day}/day"] if self.a_day is not None else []
        parts += [f"{100 * self.share:.12g}%"] if self.share is not None else []
        return ",".join(parts)


@dataclass(frozen=True)
class Principal:
    """A signed-in user.

    Attributes:
        name: The name of the token; request ids are in a namespace of this name.
        role, quota: The token's.
        token: The number of the token.
        expires: The time of expiry, in UTC; None: never.
        source: A protocol and an address, for the audit log.
    """

    name: str
    role: Role
    quota: Quota
    token: int
    expires: dt.datetime | None = None
    source: str = ""

    def needs(self, *roles: Role) -> None:
        """Raise `ServerError` unless the role is one of these."""
        if self.role not in roles:
            raise ServerError(
                Why.ROLE,
                f"a token of role {self.role} may not do this",
                f"it needs the role {' or '.join(roles)}",
            )


@dataclass(frozen=True)
class Verifier:
    """The keys with which SCRAM-SHA-256 is checked (RFC 5802)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, secret: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
        """Return the verifier of a secret."""
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, iterations)
        client = hmac.digest(salted, b"Client Key", "sha256")
        server = hmac.digest(salted, b"Server Key", "sha256")
        return cls(salt, iterations, hashlib.sha256(client).digest(), server)


@dataclass(frozen=True)
class TokenFacts:
    """The facts of a token; never the token itself. `used`: its last use by a server."""

    name: str
    role: Role
    quota: Quota
    created: dt.datetime
    expires: dt.datetime | None
    revoked: dt.datetime | None
    used: dt.datetime | None = None

    def state(self, now: dt.datetime) -> str:
        """Return whether it is valid, expired or revoked at a moment."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"


class Tokens:
    """The tokens of one store. Threads and processes may share the file.

    Args:
        path: The path of the file, which is created if it is missing; None: in memory.

    Example:
        >>> tokens = Tokens(None)
        >>> secret = tokens.create("ada", Role.ANALYST, Quota.parse("20/day"))
        >>> tokens.signed_in(secret).name
        'ada'
        >>> tokens.revoke("ada"), tokens.signed_in(secret)
        (1, None)
    """

    def __init__(self, path: Path | None) -> None:
        self._file = SideFile(path, "the tokens", _TABLES, _begin)
        ((self._secret,),) = self._file.rows("SELECT key FROM secret")
        self._uses: dict[int, dt.datetime] = {}
        self._noted = time.monotonic()

    @classmethod
    def beside(cls, store: Path) -> Tokens:
        """Return the tokens of the store with this file."""
        return cls(store.with_name(store.name + ".tokens"))

    def create(
        self, name: str, role: Role, quota: Quota | None = None, expires: dt.timedelta | None = None
    ) -> str:
        """Create a token and return it; it can't be read again.

        Raises:
            ParameterError: The name is invalid, or has a valid token already.
        """
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"name {name!r} can't be a token's",
                "use up to 63 letters, digits and . _ @ -; the first is a letter or a digit",
            )
        secret = PREFIX + secrets.token_urlsafe(32)
        made, now = Verifier.of(secret, secrets.token_bytes(16)), dt.datetime.now(dt.UTC)
        ends = None if expires is None else _text(now + expires)
        with self._file.writes() as db:
            if self._valid("name", name) is not None:
                raise ParameterError(f"{name!r} has a token", "revoke it first, or use a new name")
            db.execute(
                "INSERT INTO tokens (name, role, quota, created, expires, hash, salt, iterations, "
                "stored_key, server_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    name,
                    role.value,
                    str(quota or Quota()),
                    _text(now),
                    ends,
                    _hash(secret),
                    made.salt,
                    made.iterations,
                    made.stored_key,
                    made.server_key,
                ],
            )
        return secret

    def revoke(self, name: str) -> int:
        """End a name's token at once, in open connections too; return the number of tokens."""
        now = _text(dt.datetime.now(dt.UTC))
        with self._file.writes() as db:
            done = db.execute(
                f"UPDATE tokens SET revoked = ? WHERE name = ? AND {_VALID}", [now, name, now]
            )
            return done.rowcount

    def every(self) -> list[TokenFacts]:
        """Return the facts of all tokens, oldest first."""
        rows = self._file.rows(
            "SELECT id, name, role, quota, created, expires, revoked, at FROM tokens "
            "LEFT JOIN uses ON token = id ORDER BY id"
        )
        return [
            TokenFacts(
                name,
                Role(role),
                Quota.parse(quota),
                dt.datetime.fromisoformat(created),
                _time(expires),
                _time(revoked),
                self._uses.get(number) or _time(used),
            )
            for number, name, role, quota, created, expires, revoked, used in rows
        ]

    def use(self, who: Principal) -> bool:
        """Record that a token is used now; tell whether it is time for `note_uses`."""
        self._uses[who.token] = dt.datetime.now(dt.UTC).replace(microsecond=0)
        now = time.monotonic()
        if now - self._noted < _NOTED_EACH:
            return False
        self._noted = now
        return True

    def note_uses(self) -> None:
        """Write the times of the last uses; it writes, so an event loop must not call it."""
        uses = [(token, _text(at)) for token, at in list(self._uses.items())]
        if not uses:
            return
        with self._file.writes() as db:
            db.executemany("INSERT OR REPLACE INTO uses VALUES (?, ?)", uses)

    def signed_in(self, secret: str) -> Principal | None:
        """Return the principal of a token; None: it is invalid, or not valid any more.

        The look-up uses a hash, so its time reveals nothing about any token.
        """
        return self._valid("hash", _hash(secret))

    def principal(self, name: str) -> Principal | None:
        """Return the principal with a name, after its token was verified."""
        return self._valid("name", name)

    def verifier(self, name: str) -> Verifier:
        """Return the verifier for SCRAM. An unknown name has one too, which no token matches."""
        found = self._file.rows(
            "SELECT salt, iterations, stored_key, server_key FROM tokens "
            f"WHERE name = ? AND {_VALID}",
            [name, _text(dt.datetime.now(dt.UTC))],
        )
        if found:
            return Verifier(*found[0])
        salt = hmac.digest(self._secret, name.encode("utf-8", "replace"), "sha256")[:16]
        return Verifier(salt, ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))

    def holds(self, who: Principal) -> bool:
        """Tell whether the token is still valid."""
        return self._valid("id", who.token) is not None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _valid(self, column: str, value: str | bytes | int) -> Principal | None:
        found = self._file.rows(
            f"SELECT name, role, quota, id, expires FROM tokens WHERE {column} = ? AND {_VALID}",
            [value, _text(dt.datetime.now(dt.UTC))],
        )
        if not found:
            return None
        name, role, quota, number, expires = found[0]
        return Principal(name, Role(role), Quota.parse(quota), number, _time(expires))


def _begin(db: sqlite3.Connection) -> None:
    if not db.execute("SELECT 1 FROM secret").fetchall():
        db.execute("INSERT INTO secret VALUES (?)", [secrets.token_bytes(32)])


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _text(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def _time(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)
