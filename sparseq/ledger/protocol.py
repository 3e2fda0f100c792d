"""The protocol of a ledger: who has spent what, and every release, durable, for the stream.

People taken in to a series that goes on charging them, and what they hold back: private.

    series_taken    what people were taken in with, tick by tick and coordinate by coordinate, and
                    what they hold back from then on, in ledger units. Ticks are in blocks, as long
                    as the series goes on charging, so that the last two have all that counts.

A note is written in the transaction of its tick's release. What is held back only gets less until a
person is taken in again: so the newest note of each is enough, and mostly a little more.
"""

from __future__ import annotations

import datetime as dt
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import USER, Asker, Fact, NoteRows, NoteTable, RequestId
from sparseq.ledger.purposes import Pot

if TYPE_CHECKING:
    from sparseq.engine.protocol import EngineFailure
    from sparseq.ledger.accounts import Departures, Index, Ints
    from sparseq.ledger.lifetimes import LifetimeDues, Lifetimes
    from sparseq.ledger.notes import Note, NoteTable, RequestId
    from sparseq.ledger.purposes import Pot, Pots

# -- an entry of a ledger for one answer -----------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """One answered query: all of it public.

    `request` is its name, if it has one; `answer` is the answer as an Arrow IPC stream; sigma and
    bound have one entry a measure; `pot` is what it was paid from. `sealed` is a hash of who paid
    how much for it, with a secret salt, and `root` one of that, of the rest, and of all releases
    before, as hexadecimal digits; empty until it is durable, and where a ledger has none.
    """

    id: int
    request: RequestId | None
    released_at: dt.datetime
    query: str
    coordinates: int
    sigma: tuple[float, ...]
    bound: tuple[float, ...]
    confidence: float
    answer: bytes = field(repr=False)
    pot: Pot = Pot.QUERIES
    sealed: str = field(default="", compare=False, repr=False)
    root: str = field(default="", compare=False, repr=False)

    @property
    def request_id(self) -> str | None:
        """Its name as a text; `asker` says whose it is."""
        return None if self.request is None else str(self.request)

    @property
    def asker(self) -> Asker:
        """The kind of asker: an analyst, or a part of sparseq, whose names no analyst can take."""
        return Asker.ANALYST if self.request is None else self.request.asker


@dataclass(frozen=True)
class Entry:
    """A release, and what is written with it or not at all.

    Attributes:
        release: The public part.
        users, charges: Who pays how much, ascending users.
        departed: Who was left out of a query for the first time.
        notes: Of features, to be written in the same transaction.
        failed: What went wrong in the engine: for the curator's log.
        lifetimes: What it costs people over all windows; None: the store has no such cap.
    """

    release: Release
    users: Index
    charges: Ints
    departed: Index = field(default_factory=lambda: np.zeros(0, np.int32))
    notes: tuple[Note, ...] = ()
    failed: Sequence[EngineFailure] = ()
    lifetimes: LifetimeDues | None = None


@dataclass(frozen=True)
class Loss:
    """One time that a store was opened although a part of it was missing: public.

    Attributes:
        at: When, in UTC.
        after: The last release that was there.
        missing: What was said to be missing.
    """

    at: str
    after: int
    missing: str


# -- roots of releases: each has a hash of itself, of whom it charged, and of all that was before --
#
# Whoever has seen the root of a release has a promise of the whole past: whatever of it is changed,
# its root is another. It tells nothing of anybody.

ROOT_KEY = "root key"
"""The fact that has the secret key of all salts, 256 bits in hexadecimal digits."""
ACCOUNT_ROOT = "account root"
"""The fact that says after which release the last root of accounts was made, and which it is."""
_NOTHING, _LENGTH = bytes(32), Struct(">Q")
Parts = Sequence[bytes | memoryview]
"""The people whom a release charged: who paid, and how much; who was left out for the first time;
people and units over all windows. Each as it is packed; empty where there is none."""


def said_of(release: Release) -> dict[str, Any]:
    """Return what a person is told of an answer that charged her, in the order of the hash."""
    return {
        "release": release.id,
        "released_at": release.released_at.isoformat(timespec="seconds") + "Z",
        "asked_by": release.asker.value,
        "request": release.request_id or "",
        "question": release.query,
    }


def said_hash(release: Release) -> bytes:
    """Return the SHA-256 of what is said of it, as a JSON list without spaces, in ASCII."""
    text = json.dumps(list(said_of(release).values()), separators=(",", ":"))
    return sha256(text.encode()).digest()


@dataclass
class RootChain:
    """Gives releases their roots, one after the other.

    public  SHA-256 of what is said of it (`said_hash`), SHA-256 of the answer
    sealed  SHA-256(HMAC(key, "charges" public), pot, then of each part: its length, its bytes)
    root    SHA-256(3, root before, public, sealed)

    Parts are what is written of whom it charged. The salt is secret, and of this answer alone: so
    nobody can try whom it may have charged, and copies of a store have other salts for other noise.

    Attributes:
        key: Secret.
        head: The root before; 32 zero bytes: there is none.
        new: The key is not in the store yet.
    """

    key: bytes
    head: bytes = _NOTHING
    new: bool = False

    @classmethod
    def after(cls, last: Release | None, fact: Callable[[str], Any]) -> RootChain:
        """Return what gives the next release its root.

        Args:
            last: The release before; None: there is none.
            fact: Returns what a ledger keeps under a name.
        """
        key, accounts = fact(ROOT_KEY), fact(ACCOUNT_ROOT)
        chain = cls(bytes.fromhex(key or "") or secrets.token_bytes(32), new=key is None)
        root, number = ("", 0) if last is None else (last.root, last.id)
        if accounts is not None and (accounts["release"] == number or not root):
            root = accounts["root"]
        chain.head = bytes.fromhex(root) or _NOTHING
        return chain

    def facts(self) -> list[Fact]:
        """Return what a commit has to write with the first root."""
        return [Fact(ROOT_KEY, self.key.hex())] if self.new else []

    def facts_of_accounts(self, release: int, root: bytes) -> list[Fact]:
        """Return what has the next release's root hold a root of accounts."""
        said = {"release": release, "root": root.hex()}
        return [Fact(ROOT_KEY, self.key.hex()), Fact(ACCOUNT_ROOT, said)]

    def add(self, release: Release, parts: Parts) -> tuple[bytes, bytes]:
        """Return what seals whom a release charged, and its root, which is the next one's head."""
        public = said_hash(release) + sha256(release.answer).digest()
        sealed = sha256(hmac.digest(self.key, b"charges" + public, "sha256") + bytes([release.pot]))
        for part in parts:
            sealed.update(_LENGTH.pack(len(part)))
            sealed.update(part)
        self.head = sha256(b"\3" + self.head + public + sealed.digest()).digest()
        return sealed.digest(), self.head

    def follow(self, release: int, row: Mapping[str, str] | None) -> None:
        """Put a root of accounts, if one was made after a release, into the chain."""
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
"""Roots of accounts. All is public but the number of accounts, and the key of salts and blanks."""


def check_past(ledger: Ledger) -> None:
    """Compute the root of each release, and those of accounts, again.

    Raises:
        StoreError: One is another: what was asked, answered or charged has been changed.
    """
    accounts = {row["release"]: row for row in ledger.notes(ROOTS).to_pylist()}
    chain, begun = RootChain(ledger.chain().key), False
    chain.follow(0, accounts.get(0))
    for release, parts in ledger.past():
        begun = begun or bool(release.root)
        if begun:
            hashes = tuple(one.hex() for one in chain.add(release, parts))
            if hashes != (release.sealed, release.root):
                raise changed_past(release.id)
        chain.follow(release.id, accounts.get(release.id))


def changed_past(release: int) -> StoreError:
    """Return what is said where the past is not what its root says."""
    return StoreError(
        f"the past up to release {release} is not what was published",
        "restore a copy, and report it",
    )


def account_root(before: bytes, release: int, tree: bytes) -> bytes:
    """Return the root of accounts after a release, from the top of their tree."""
    return sha256(b"\2" + before + _LENGTH.pack(release) + tree).digest()


# -- the protocol of a ledger: who has spent what, and every release, durable, for the stream ------


class Ledger(Protocol):
    """The accounts of one store, and its releases: numbers 1, 2, … without a gap.

    Opened anew after any crash, a ledger has the entries of every `commit` that returned, and of
    the one that was interrupted all or none; accounts and departures are those of its entries.

    Attributes:
        pots: What everybody may spend and has spent: private, in memory. The stream charges them,
            and then commits.
        departures: Who has been left out of a query, and of which first: private, in memory.
        lifetimes: What people have spent over all windows: private, in memory. None: no cap.
    """

    pots: Pots
    departures: Departures
    lifetimes: Lifetimes | None

    @property
    def next_id(self) -> int:
        """The number of the release to come."""

    def recover(self) -> None:
        """Get rid of what an interrupt may have left half read."""

    def commit(self, entries: Sequence[Entry]) -> None:
        """Make releases durable with their charges and notes, all or none.

        Args:
            entries: Numbered from `next_id` on.

        Raises:
            StoreInUse: Another was first: nothing of them is durable. What was read may be out of
                date, so the ledger must be opened anew.
            StoreError: They are not durable, or nobody can tell; the ledger must not be used
                again. Nothing of them may have been given to anybody.
        """

    def fold(self, at_least: int) -> None:
        """Sum up what has been spent, if so many charges have piled up: opening is quicker then."""

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """Return the release that a request stands for, if there is one.

        Raises:
            ParameterError: The name is empty.
            QueryRefused: The name was given to another query.
        """

    def under(self, request: RequestId) -> Release | None:
        """Return what was released for a request, whatever its query, if anything was."""

    def number(self, request: RequestId) -> int | None:
        """Return the release of a request, whatever its query, if there is one."""

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the releases of requests, of those that have one."""

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return what releases were called, of those that have a name."""

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        """Read the releases of these requests together; it changes nothing but the time."""

    def read(self, release_id: int) -> Release:
        """Return one release; raises `StoreError` if there is none of that number."""

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return the releases, or those before one, oldest first; the `last` of them if given."""

    def charges(self, release_id: int) -> tuple[Index, Ints]:
        """Return who paid how much for a release: private."""

    def past(self) -> Iterable[tuple[Release, Parts]]:
        """Yield all releases in order, as they are written, and whom they charged: private."""

    def chain(self) -> RootChain:
        """Return what gives the next release its root; whoever adds to it has to write it."""

    def payments(self, user: int) -> list[tuple[int, int]]:
        """Return the releases that a person has paid for, each with the charge: private."""

    def paid_from(self, pot: Pot) -> int:
        """Return how many releases were paid for from a pot."""

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        """Return the rows of a table of notes, in the order of writing: private, mostly.

        Args:
            table: Which.
            users: About these people only.
            latest: So many at most, those that were written last.
            equal: Where columns have these values.
        """

    def fact(self, key: str) -> Any:
        """Return the fact under a key, or None."""

    def in_transaction(self, work: Callable[[], Any]) -> Any:
        """Run what writes: it is durable all, or none; the following may be called in it only.

        Raises:
            StoreError: It is not durable.
        """

    def write(self, note: Note) -> None:
        """Write a note."""

    def drop(self, table: NoteTable, besides: Index, **equal: Any) -> None:
        """Take away the rows of a table of notes, but for those about some people."""

    def rewrite(self, table: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Change a table of notes, some rows at a time; what goes is erased for good."""

    def identifiers(self, users: Iterable[int]) -> dict[int, Any]:
        """Return what people are called, None where that was erased: private."""

    def __len__(self) -> int:
        """Return the number of releases."""


# -- people taken in to a series that goes on charging them, and what they hold back: private ------

TAKEN = NoteTable(
    "series_taken",
    {
        "series": "VARCHAR",
        "block": "BIGINT",
        "tick": "BIGINT",
        USER: "INTEGER",
        "coordinate": "INTEGER",
        "steps": "BIGINT",
        "held": "BIGINT",
    },
)
_BLOCKS, _FORGOTTEN = "series_blocks", "series_forgotten"


def block_of(tick: int, band: int) -> int:
    """Return the block of a tick of a series that goes on charging for `band` ticks."""
    return tick // (band + 1)


def taken(ledger: Ledger, series: str, block: int) -> pa.Table:
    """Return the notes of a block and the one before it, by tick, person and coordinate."""
    parts = [ledger.notes(TAKEN, series=series, block=b) for b in (block - 1, block)]
    order = [(name, "ascending") for name in ("tick", USER, "coordinate")]
    return pa.concat_tables(parts).sort_by(order)


def remember(
    ledger: Ledger, series: str, tick: int, band: int, cells: tuple[Index, Index, Ints], held: Ints
) -> Sequence[NoteRows | Fact]:
    """Return what writes whom a tick takes in.

    Args:
        ledger: Where it goes.
        series, tick, band: See the module.
        cells: Person, coordinate, steps.
        held: What the person of each cell holds back from now on.
    """
    users, coordinates, steps = cells
    block = block_of(tick, band)
    rows = TAKEN.rows(
        series=series,
        block=block,
        tick=tick,
        coordinate=coordinates,
        steps=steps,
        held=held,
        **{USER: users},
    )
    blocks: Mapping[str, int] = ledger.fact(_BLOCKS) or {}
    if blocks.get(series) == block:
        return [rows]
    return [rows, Fact(_BLOCKS, {**blocks, series: block})]


def held(ledger: Ledger) -> Iterator[tuple[str, Index, Ints]]:
    """Yield each series with who holds how much back for it, ascending."""
    for series, block in (ledger.fact(_BLOCKS) or {}).items():
        notes = taken(ledger, series, block)
        users, units = notes[USER].to_numpy(), notes["held"].to_numpy()
        people, newest = np.unique(users[::-1], return_index=True)
        yield series, people.astype(np.int32), units[::-1][newest].astype(np.int64)


def forget_taken(ledger: Ledger, users: Sequence[int]) -> None:
    """Erase what some people were taken in with, in a transaction of the caller."""

    def of_others(batch: pa.RecordBatch) -> pa.RecordBatch:
        whose = batch[USER].to_numpy(zero_copy_only=False)
        return batch.filter(pa.array(~np.isin(whose, users)))

    ledger.rewrite(TAKEN, of_others)
    ledger.write(Fact(_FORGOTTEN, forgotten(ledger) + 1))


def forgotten(ledger: Ledger) -> int:
    """Return how often somebody was erased: public."""
    return int(ledger.fact(_FORGOTTEN) or 0)


# -- the settings that a store's watch was begun with: public, and read without the watch ----------

WATCH = "watch"
"""The fact that a ledger keeps it under."""


def watch_begun(ledger: Ledger) -> dict[str, Any] | None:
    """Return the numbers that the watch was begun with; None: it was not."""
    begun: dict[str, Any] | None = ledger.fact(WATCH)
    return begun


# -- draws of a store from its population: public, see `sparseq.store.population` ------------------

DRAWN = "population"
"""The fact that a ledger keeps them under."""


@dataclass(frozen=True)
class Begun:
    """A draw that the store has begun, and that the population may have given.

    Attributes:
        nonce: That it is asked for under.
        share: Of all that the store may ever draw; of newcomers, of all that others have drawn.
        newcomers: It is for people who are new.
    """

    nonce: str
    share: str
    newcomers: bool = False


@dataclass(frozen=True)
class Drawn:
    """The draws of a store: public.

    Attributes:
        place: Of the population.
        share: Of all that the store may ever draw, as a fraction.
        draws: How many there were; None: a part of the store was lost, and with it the number.
        units: That somebody has been given at most, in units of the store.
        losses: How many losses of the store are written off.
        begun: A draw that is not done.
    """

    place: str
    share: str = "0"
    draws: int | None = 0
    units: int = 0
    losses: int = 0
    begun: Begun | None = None

    @classmethod
    def by(cls, ledger: Ledger, link: Mapping[str, Any]) -> Drawn:
        """Return what a store has drawn; at first, what it is to draw.

        Args:
            ledger: Of the store.
            link: Its population, as its settings have it.
        """
        kept = ledger.fact(DRAWN)
        if kept is None:
            return cls(link["place"], begun=Begun(secrets.token_hex(16), link["draw"]))
        return cls(**kept | {"begun": kept["begun"] and Begun(**kept["begun"])})

    def fact(self) -> Fact:
        """Return what writes it."""
        return Fact(DRAWN, asdict(self))


def drawn_facts(ledger: Ledger, link: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what a store has drawn, as plain data: public; None: its budget is its own."""
    if link is None:
        return None
    drawn = Drawn.by(ledger, link)
    return {
        "id": link["id"],
        "kappa": link["kappa"],
        "place": Path(drawn.place).name,  # where it lies is for who runs the store
        "drawn": float(Fraction(drawn.share)),
        "draws": drawn.draws,
        "begun": drawn.begun is not None,
    }
