"""Roots of releases: each is a hash of the release, of its charges and of the whole past.

A user who knows the root of a release can verify the whole past: any change of it gives another
root. A root reveals nothing about any user.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Any

from sparseq.base.errors import StoreError
from sparseq.ledger.notes import Fact, NoteTable
from sparseq.ledger.releases import Release

if TYPE_CHECKING:
    from sparseq.ledger.notes import NoteTable

ROOT_KEY = "root key"
"""The fact that holds the secret key of all salts, 256 bits in hexadecimal digits."""
ACCOUNT_ROOT = "account root"
"""The fact that holds the last root of accounts, and the release after which it was made."""
_NOTHING, _LENGTH = bytes(32), Struct(">Q")
Parts = Sequence[bytes | memoryview]
"""The users whom a release charged: the payers and their charges; the users who were left out for
the first time; persons and units over all windows. Each part is packed, and empty if there is none.
"""


def said_of(release: Release) -> dict[str, Any]:
    """Return the public fields of an answer, for its charged users, in the order of the hash."""
    return {
        "release": release.id,
        "released_at": release.released_at.isoformat(timespec="seconds") + "Z",
        "asked_by": release.asker.value,
        "request": release.request_id or "",
        "question": release.query,
    }


def said_hash(release: Release) -> bytes:
    """Return the SHA-256 of these fields as a JSON list without spaces, in ASCII."""
    text = json.dumps(list(said_of(release).values()), separators=(",", ":"))
    return sha256(text.encode()).digest()


@dataclass
class RootChain:
    """The chain that gives each release its root, in order.

    public  SHA-256 of what is said of it (`said_hash`), SHA-256 of the answer
    sealed  SHA-256(HMAC(key, "charges" public), pot, then of each part: its length, its bytes)
    root    SHA-256(3, root before, public, sealed)

    The parts are the packed records of the charges. The salt is secret and differs for each answer,
    so nobody can test a guess about the charged users, and copies of a store with other noise have
    other salts.

    Attributes:
        key: The secret key of the salts.
        head: The last root; 32 zero bytes before the first.
        new: True if the key is not in the store yet.
    """

    key: bytes
    head: bytes = _NOTHING
    new: bool = False

    @classmethod
    def after(cls, last: Release | None, fact: Callable[[str], Any]) -> RootChain:
        """Return the chain that continues after the last release.

        Args:
            last: The last release; None: there is none.
            fact: Returns the ledger's fact under a key.
        """
        key, accounts = fact(ROOT_KEY), fact(ACCOUNT_ROOT)
        chain = cls(bytes.fromhex(key or "") or secrets.token_bytes(32), new=key is None)
        root, number = ("", 0) if last is None else (last.root, last.id)
        if accounts is not None and (accounts["release"] == number or not root):
            root = accounts["root"]
        chain.head = bytes.fromhex(root) or _NOTHING
        return chain

    def facts(self) -> list[Fact]:
        """Return the facts that a commit must write with the first root."""
        return [Fact(ROOT_KEY, self.key.hex())] if self.new else []

    def facts_of_accounts(self, release: int, root: bytes) -> list[Fact]:
        """Return the facts that include a root of accounts in the next release's root."""
        said = {"release": release, "root": root.hex()}
        return [Fact(ROOT_KEY, self.key.hex()), Fact(ACCOUNT_ROOT, said)]

    def add(self, release: Release, parts: Parts) -> tuple[bytes, bytes]:
        """Return the seal of a release's charges and its root, which becomes the new head."""
        public = said_hash(release) + sha256(release.answer).digest()
        sealed = sha256(hmac.digest(self.key, b"charges" + public, "sha256") + bytes([release.pot]))
        for part in parts:
            sealed.update(_LENGTH.pack(len(part)))
            sealed.update(part)
        self.head = sha256(b"\3" + self.head + public + sealed.digest()).digest()
        return sealed.digest(), self.head

    def follow(self, release: int, row: Mapping[str, str] | None) -> None:
        """Add a root of accounts to the chain, if one was made after this release."""
        if row is not None:
            root = account_root(self.head, release, bytes.fromhex(row["tree"]))
            if (self.head.hex(), root.hex()) != (row["before"], row["root"]):
                raise changed_past(release)
            self.head = root


ROOTS = NoteTable(
    "account_roots",
    {
        "release": "BIGINT",
        "accounts": "BIGINT",
        "key": "BLOB",
        "published_at": "VARCHAR",
        "tree": "VARCHAR",
        "before": "VARCHAR",
        "root": "VARCHAR",
    },
)
"""Roots of accounts. All columns are public, except the number of accounts and the key of salts and
blanks.
"""


def changed_past(release: int) -> StoreError:
    """Return the error for a past that does not match its root."""
    return StoreError(
        f"the recorded past up to release {release} does not match the published root",
        "restore a copy of the store, and report it",
    )


def account_root(before: bytes, release: int, tree: bytes) -> bytes:
    """Return the root of accounts after a release, from the root of their tree."""
    return sha256(b"\2" + before + _LENGTH.pack(release) + tree).digest()
