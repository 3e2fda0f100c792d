"""Tokens with a name, a role and a quota, in a file beside the store.

A token is shown once, when it is made. The file has its hash, for HTTP, and its SCRAM-SHA-256
verifier (RFC 5802), for PostgreSQL's protocol: neither tells the token. Several processes may use
the file at once, so tokens are made and revoked while the store is served.

Wrong tokens, by where they come from: after so many a minute nobody is told what was wrong.

A request without a token is none of them: it asks how to sign in. Only failures are counted, of all
protocols together: a right token is always let in, whatever was tried beside it. Nobody guesses 256
random bits; what is bounded is the work, and the audit log.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import hashlib
import hmac
import ipaddress
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparseq.base.errors import ParameterError, ServerError, StoreError, Why
from sparseq.base.whole_files import PRIVATE
from sparseq.server.audit import AuditLog

# -- small tables in a file of their own, beside the store -----------------------------------------


class SideFile:
    """An SQLite file for its owner alone. Threads and processes may share it.

    Args:
        path: Where, made if it is not there; None: in memory.
        what: What is in it, for messages, such as "the tokens".
        tables: SQL that makes its tables, where they are not there.
        begin: Does what else is to be done before the file is used.

    Raises:
        StoreError: It can't be written.

    Example:
        >>> file = SideFile(None, "the notes", "CREATE TABLE IF NOT EXISTS notes (text TEXT);")
        >>> with file.writes() as db:
        ...     _ = db.execute("INSERT INTO notes VALUES (?)", ["a note"])
        >>> file.rows("SELECT text FROM notes")
        [('a note',)]
    """

    def __init__(
        self,
        path: Path | None,
        what: str,
        tables: str,
        begin: Callable[[sqlite3.Connection], None] = lambda db: None,
    ) -> None:
        self._lock, self._path, self._what = threading.RLock(), path, what
        new = path is not None and not path.exists()
        try:
            with self._told():
                if path is not None:
                    path.touch(PRIVATE)
                self._db = sqlite3.connect(
                    path or ":memory:", timeout=10, isolation_level=None, check_same_thread=False
                )
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(tables)
            with self.writes() as db:
                begin(db)
        except StoreError:
            if new and path is not None:
                with contextlib.suppress(OSError):  # of a disk that can't be written
                    path.unlink()
            raise

    def rows(self, sql: str, given: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self._lock:
            return self._db.execute(sql, given).fetchall()

    @contextlib.contextmanager
    def writes(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for one transaction: all of it is durable, or nothing is done.

        Raises:
            StoreError: It can't be written.
        """
        with self._lock, self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell of an error in the block that the file can't be written."""
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise StoreError(
                f"{self._what}, {self._path}, can't be written: {why}",
                "look at the disk, and whether you may write there",
            ) from None


# -- tokens with a name, a role and a quota, in a file beside the store ----------------------------

PREFIX = "sq_"
ITERATIONS = 4096  # of SCRAM: a token has 256 random bits, so nobody guesses it anyway
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
_NOTED_EACH = 60.0  # seconds in which uses are written down, at most
_VALID = "revoked IS NULL AND (expires IS NULL OR expires > ?)"


class Role(enum.StrEnum):
    """The rights of the holder of a token."""

    ANALYST = "analyst"
    """Ask, and read what was answered."""
    CURATOR = "curator"
    """That, and bring rows, look at the audit log, make backups."""
    MONITOR = "monitor"
    """Read what was answered and how the server is; ask nothing."""


@dataclass(frozen=True)
class Quota:
    """A share of the stream; None: no limit.

    Attributes:
        a_day: New answers a day, in UTC.
        share: Of what all planned answers may cost a person, what the public prices of these may.
    """

    a_day: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Quota:
        """Read a quota.

        Raises:
            ParameterError: It can't be read.

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
    """Somebody who has signed in.

    Attributes:
        name: Of the token; request ids are in a namespace of this name.
        role, quota: The token's.
        token: Its number.
        expires: When, in UTC; None: never.
        source: Where they ask from, for the audit log: a protocol and an address.
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
                f"it takes the role {' or '.join(roles)}",
            )


@dataclass(frozen=True)
class Verifier:
    """The keys that SCRAM-SHA-256 is checked with (RFC 5802)."""

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
    """The facts of a token; never the token itself. `used`: by a server, the last time."""

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
        path: Of the file, made if it is not there; None: in memory.

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
        """Return the tokens of the store whose file it is."""
        return cls(store.with_name(store.name + ".tokens"))

    def create(
        self, name: str, role: Role, quota: Quota | None = None, expires: dt.timedelta | None = None
    ) -> str:
        """Make a token and return it; nobody can read it again.

        Raises:
            ParameterError: The name can't be one, or has a valid token already.
        """
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"name {name!r} can't be a token's",
                "up to 63 letters, digits and . _ @ -; the first is a letter or a digit",
            )
        secret = PREFIX + secrets.token_urlsafe(32)
        made, now = Verifier.of(secret, secrets.token_bytes(16)), dt.datetime.now(dt.UTC)
        ends = None if expires is None else _text(now + expires)
        with self._file.writes() as db:
            if self._valid("name", name) is not None:
                raise ParameterError(f"{name!r} has a token", "revoke it first, or take a new name")
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
        """End a name's token at once, in open connections too; return how many ended."""
        now = _text(dt.datetime.now(dt.UTC))
        with self._file.writes() as db:
            done = db.execute(
                f"UPDATE tokens SET revoked = ? WHERE name = ? AND {_VALID}", [now, name, now]
            )
            return done.rowcount

    def every(self) -> list[TokenFacts]:
        """Return what is known of all tokens, oldest first."""
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
        """Take note that a token is used now; tell whether it is time to `note_uses`."""
        self._uses[who.token] = dt.datetime.now(dt.UTC).replace(microsecond=0)
        now = time.monotonic()
        if now - self._noted < _NOTED_EACH:
            return False
        self._noted = now
        return True

    def note_uses(self) -> None:
        """Write down when tokens were last used; it writes, so it is not for an event loop."""
        uses = [(token, _text(at)) for token, at in list(self._uses.items())]
        if not uses:
            return
        with self._file.writes() as db:
            db.executemany("INSERT OR REPLACE INTO uses VALUES (?, ?)", uses)

    def signed_in(self, secret: str) -> Principal | None:
        """Return whose token it is; None: nobody's, or not any more.

        What is looked up is a hash, so that the time it takes tells nothing of any token.
        """
        return self._valid("hash", _hash(secret))

    def principal(self, name: str) -> Principal | None:
        """Return who has the name, once it was shown that they know the token."""
        return self._valid("name", name)

    def verifier(self, name: str) -> Verifier:
        """Return what SCRAM is checked with. An unknown name has one as well: nobody fits it."""
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
        """Let go of the file."""
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


# -- wrong tokens ----------------------------------------------------------------------------------

MOST_WRONG, SECONDS = 20, 60.0
MOST_LINES = 1_000
"""Lines of the audit log a minute, from wherever wrong tokens come."""
_MOST_PLACES = 10_000


class Door:
    """Counts wrong tokens, and writes down that there were some: not called in an event loop.

    Example:
        >>> door = Door(AuditLog(None), lambda: 0.0)
        >>> for _ in range(MOST_WRONG):
        ...     door.wrong("http", "192.0.2.1")
        >>> door.wrong("postgresql", "192.0.2.1")
        Traceback (most recent call last):
        sparseq.base.errors.ServerError: too many wrong tokens from this address
          hint: wait a minute
    """

    def __init__(self, audit: AuditLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._audit, self._clock = audit, clock
        self._failed: dict[str, tuple[int, float]] = {}
        self._lines = (0, 0.0)  # written since then

    def wrong(self, protocol: str, peer: str) -> None:
        """Note a wrong token.

        Raises:
            ServerError: There were too many from there.
        """
        place, now = _place(peer), self._clock()
        number, since = self._failed.pop(place, (0, now))
        if now - since > SECONDS:
            number, since = 0, now
        self._failed[place] = number + 1, since
        if len(self._failed) > _MOST_PLACES:
            del self._failed[next(iter(self._failed))]
        if number in (0, MOST_WRONG) and self._line(now):  # once a minute, and once more
            self._audit.add([{"what": "wrong token", "who": "", "source": f"{protocol} {peer}"}])
        if number >= MOST_WRONG:
            raise ServerError(Why.BUSY, "too many wrong tokens from this address", "wait a minute")

    def _line(self, now: float) -> bool:
        """Tell whether a line may be written, and count it."""
        written, since = self._lines
        self._lines = (1, now) if now - since > SECONDS else (written + 1, since)
        return self._lines[0] <= MOST_LINES


def _place(peer: str) -> str:
    """Return what is counted together: an address, or the network that one host has of IPv6.

    >>> _place("2001:db8::1") == _place("2001:db8::ffff:2"), _place("192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
