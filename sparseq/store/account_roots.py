"""Roots of all accounts, and proofs under them.

A proof shows that an account lies in a tree of hashes (Merkle 1987) whose root follows the root of
an answer, so everybody can see that root. See docs/receipt.md for the lemma and the limits of the
proof. A store has a secret key K, and each root of accounts a secret key K_k of its own, each of
256 bits from the operating system:

    charge   (release, pot, units, SHA-256 of the question); pot 255: of all windows together
    chain    SHA-256(chain before, charge), from 32 zero bytes, over an account's charges in order
    name     SHA-256(HMAC(K, "name" i), identifier) of account i
    facts    SHA-256(public), SHA-256(own): see `sparseq.store.account_facts`
    leaf     SHA-256(4, HMAC(K_k, "salt" i), name, chain, facts, every pot with its budget)
    node     SHA-256(1, left, right)
    root     SHA-256(2, root before, release, top of the tree)

The tree is 48 levels deep, for any accounts. An account's place is HMAC(K, "place" i); a place
without an account holds HMAC(K_k, "blank" …), or 32 bytes of SHAKE-256(K_k, "beside" place) next to
the path of a leaf that is alone. So a path has 48 hashes that look random. The path, the place and
the root do not reveal the number of people, their identity or their spending. Each root has its own
key, so two roots do not reveal whose account has changed.
"""

from __future__ import annotations

import datetime as dt
import hmac
import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256, shake_256
from struct import pack
from typing import Any

import numpy as np

from sparseq.base.errors import ParameterError
from sparseq.ledger.lifetimes import LIFETIMES
from sparseq.ledger.notes import USER, Fact, NoteTable
from sparseq.ledger.packed_integers import pack_set, unpack, unpack_set
from sparseq.ledger.past_check import check_past
from sparseq.ledger.pots import Pot
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.root_chain import (
    ROOT_KEY,
    ROOTS,
    account_root,
    changed_past,
    said_hash,
)
from sparseq.store.account_facts import LIFE, AccountFacts
from sparseq.store.store import Store


def life_charges(ledger: Ledger) -> Iterator[tuple[int, Any, Any]]:
    """Yield the charges over all windows: release, people, units."""
    if ledger.lifetimes is not None:
        for row in ledger.notes(LIFETIMES).to_pylist():
            yield row["release"], unpack_set(row["people"]), unpack(row["units"])


NAMES = NoteTable("account_names", {USER: "INTEGER", "name": "BLOB"})
"""Salted hashes of the names of people who were erased after the first published root."""
GAPS = "numbers without accounts"
"""The fact with the unused account numbers of a lake, by root; it may assign them later."""
_DEEP = 48
_FEW = 8  # leaves; their node is computed again where it is needed
_NOTHING = bytes(32)


def publish_root(store: Store) -> dict[str, Any]:
    """Return the root of all accounts after the last answer. It is public and durable.

    There is one root after each answer. Accounts opened later are under the next root.

    Returns:
        release, published_at, tree, before and root. Hashes are in hexadecimal digits.

    Raises:
        StoreError: The root can't be written, or the past differs from the published past.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1)
        >>> first = publish_root(con)
        >>> first["release"], first == publish_root(con)
        (0, True)
    """
    with store.stream.held():
        ledger, roots = store.stream.ledger, _roots(store)
        if roots and roots[-1]["release"] == len(ledger):
            return _public(roots[-1])
        check_past(ledger)
        chain, release, accounts = ledger.chain(), len(ledger), len(store.stream.pots)
        key, people = secrets.token_bytes(32), store.backend.people().for_curator()
        gaps = np.setdiff1d(np.arange(accounts, dtype=np.int32), people)
        facts = AccountFacts.now(store)
        tree = _grown(store, chain.key, key, release, people.tolist(), facts).top
        root = account_root(chain.head, release, tree)
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        row = {
            "release": release,
            "accounts": accounts,
            "key": key,
            "published_at": now.isoformat(timespec="seconds") + "Z",
            "tree": tree.hex(),
            "before": chain.head.hex(),
            "root": root.hex(),
        }

        def work() -> None:
            for fact in chain.facts_of_accounts(release, root):
                ledger.write(fact)
            ledger.write(ROOTS.rows(**row))
            ledger.write(facts.notes())
            if len(gaps):
                known = ledger.fact(GAPS) or {}
                ledger.write(Fact(GAPS, known | {str(release): pack_set(gaps).hex()}))

        ledger.in_transaction(work)
        chain.head, chain.new = root, False
        return _public(row)


def published_roots(store: Store) -> list[dict[str, Any]]:
    """Return all roots, oldest first. They are public and do not contain the text of questions.

    The entry of an answer has its root and the hashes of its line in a receipt, of the answer and
    of its charges. `publish_root` describes the roots of all accounts. Answers of versions that
    made no root are left out.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1)
        >>> _ = con.sql("SELECT count(*) AS n FROM t")
        >>> _ = publish_root(con)
        >>> for one in published_roots(con):
        ...     print(list(one))
        ['release', 'said', 'answer', 'sealed', 'root']
        ['release', 'published_at', 'tree', 'before', 'root']
    """
    with store.stream.held():
        accounts = {row["release"]: _public(row) for row in _roots(store)}
        found = [accounts[0]] if 0 in accounts else []
        for one in store.stream.ledger.releases():
            if one.root:
                hashes = {"said": said_hash(one).hex(), "answer": sha256(one.answer).hexdigest()}
                found.append(
                    {"release": one.id} | hashes | {"sealed": one.sealed, "root": one.root}
                )
            found += [accounts[one.id]] if one.id in accounts else []
        return found


def keep_names(ledger: Ledger, users: Sequence[int]) -> None:
    """Keep salted names of people whose identifiers are erased, in the caller's transaction."""
    key = _secret(ledger)
    if key is None:
        return
    names = {u: _name(key, u, str(id)) for u, id in ledger.identifiers(users).items() if id}
    if names:
        ledger.write(NAMES.rows(name=list(names.values()), **{USER: list(names)}))


def _roots(store: Store) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.stream.ledger.notes(ROOTS).to_pylist()
    return rows


def _public(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("accounts", "key")}


def _people_under(ledger: Ledger, root: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the accounts under a root."""
    gaps = (ledger.fact(GAPS) or {}).get(str(root["release"]))
    numbers = np.arange(root["accounts"], dtype=np.int32)
    if gaps is not None:
        numbers = np.setdiff1d(numbers, unpack_set(bytes.fromhex(gaps)))
    return list(map(int, numbers))


def _secret(ledger: Ledger) -> bytes | None:
    kept = ledger.fact(ROOT_KEY)
    return None if kept is None else bytes.fromhex(kept)


def _key(key: bytes, what: bytes, *numbers: int) -> bytes:
    return hmac.digest(key, what + pack(f">{len(numbers)}Q", *numbers), "sha256")


def _name(key: bytes, user: int, identifier: str) -> bytes:
    return sha256(_key(key, b"name", user) + identifier.encode()).digest()


def _join(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


@dataclass(frozen=True)
class _Tree:
    """A hash tree over leaves by place; a subtree without leaves is blank.

    Attributes:
        key: The key of blank nodes.
        places: The places of the leaves, ascending.
        leaves: The hashes of the leaves, by place.
        known: Nodes over several leaves, by height and place; grows.
    """

    key: bytes
    places: Sequence[int]
    leaves: Mapping[int, bytes]
    known: dict[tuple[int, int], bytes] = field(default_factory=dict)

    @property
    def top(self) -> bytes:
        return self._node(_DEEP, 0)

    def path(self, place: int) -> list[bytes]:
        """Return the sibling hashes on the path from a place to the top."""
        return [self._node(height, (place >> height) ^ 1) for height in range(_DEEP)]

    def over(self, place: int, path: Iterable[bytes]) -> bytes:
        """Return the top node for a leaf and the sibling hashes on its path."""
        found = self.leaves[place]
        for below, beside in enumerate(path):
            pair = beside + found if place >> below & 1 else found + beside
            found = sha256(b"\1" + pair).digest()  # like `_join`, without the cost of a call
        return found

    def _node(self, height: int, which: int) -> bytes:
        low = bisect_left(self.places, which << height)
        high = bisect_left(self.places, (which + 1) << height, low)
        if low == high:
            return self._blank(height, which)
        if (height, which) in self.known:
            return self.known[height, which]
        if high - low == 1:
            place = self.places[low]  # a node over one leaf: all siblings on its path are blank
            return self.over(place, self._beside(place)[:height])
        node = _join(self._node(height - 1, 2 * which), self._node(height - 1, 2 * which + 1))
        if high - low >= _FEW:
            self.known[height, which] = node
        return node

    def _blank(self, height: int, which: int) -> bytes:
        low = bisect_left(self.places, (which ^ 1) << height)
        if bisect_left(self.places, ((which ^ 1) + 1) << height, low) == low + 1:
            return self._beside(self.places[low])[height]
        return _key(self.key, b"blank", height, which)

    def _beside(self, place: int) -> list[bytes]:
        """Return the blank siblings on the path of a leaf that is alone, by one call for speed."""
        whole = shake_256(self.key + b"beside" + pack(">Q", place)).digest(32 * _DEEP)
        return [whole[at : at + 32] for at in range(0, 32 * _DEEP, 32)]


def _grown(
    store: Store,
    key: bytes,
    own: bytes,
    release: int,
    users: Sequence[int],
    facts: AccountFacts | None,
) -> _Tree:
    """Return the tree of a root over the accounts and charges by then; it has its own key."""
    accounts = users[-1] + 1 if users else 0
    names, places = _names(store, key, users), _places(key, users)
    chains, budgets = _chains(store, release, accounts), _budgets(store, release, accounts)
    public = b"" if facts is None else sha256(facts.public.encode()).digest()
    leaves = {}
    for user, name in zip(users, names, strict=True):
        sealed, kind = b"", b"\0"
        if facts is not None:
            sealed, kind = public + sha256(facts.own(user).encode()).digest(), b"\4"
        parts = kind, _key(own, b"salt", user), name, chains[user], sealed, budgets[user]
        leaves[places[user]] = sha256(b"".join(parts)).digest()
    return _Tree(own, sorted(places.values()), leaves)


def _places(key: bytes, users: Iterable[int]) -> dict[int, int]:
    """Return the place of each account; an account whose place is taken takes the next draw."""
    found: dict[int, int] = {}
    for user in users:
        draw = 0
        while (place := int.from_bytes(_key(key, b"place", user, draw)[: _DEEP // 8])) in found:
            draw += 1
        found[place] = user
    return {user: place for place, user in found.items()}


def _names(store: Store, key: bytes, users: Sequence[int]) -> list[bytes]:
    """Return salted names; people erased before the first root have the hash of an empty name."""
    ledger = store.stream.ledger
    ids, kept = ledger.identifiers(users), ledger.notes(NAMES)
    erased = dict(zip(kept[USER].to_pylist(), kept["name"].to_pylist(), strict=True))
    return [
        erased.get(u) or _name(key, u, "") if ids[u] is None else _name(key, u, str(ids[u]))
        for u in users
    ]


def _chains(store: Store, release: int, accounts: int) -> list[bytes]:
    """Return the chain of each account's charges up to a release."""
    ledger, chains = store.stream.ledger, [_NOTHING] * accounts
    for_life = {number: (people, units) for number, people, units in life_charges(ledger)}
    for number in range(1, release + 1):
        one = ledger.read(number)
        question = said_hash(one)
        paid = [(int(one.pot), *ledger.charges(number))]
        if number in for_life:
            paid.append((LIFE, *for_life[number]))
        for pot, users, charges in paid:
            records = {
                units: pack(">QBQ", number, pot, units) + question
                for units in np.unique(charges).tolist()
            }
            for user, units in zip(users.tolist(), charges.tolist(), strict=True):
                if units:
                    chains[user] = sha256(chains[user] + records[units]).digest()
    return chains


def _budgets(store: Store, release: int, accounts: int) -> list[bytes]:
    """Return each account's budgets in the pots that existed at a release, as bytes.

    Amounts drawn from a population are not the store's own budget: they grow and are not sealed.
    """
    own = 0 if store.promise.population is not None else 1
    pots, lifetimes = store.stream.pots, store.stream.ledger.lifetimes
    later = {n for p in pots.purposes if p.came > release for n in (p.answers, p.forecasts)}
    known: list[tuple[Pot, list[int]]] = [
        (pot, (own * of.budgets[:accounts]).tolist())
        for pot, of in sorted(pots.items())
        if pot not in later
    ]
    found = [b"".join(pack(">BQ", pot, units[u]) for pot, units in known) for u in range(accounts)]
    if lifetimes is not None:
        for user in np.unique(lifetimes.people[:accounts]).tolist():
            found[user] += pack(">BQ", LIFE, lifetimes.budget)
    return found


def prove(
    store: Store, users: Sequence[int], accounts: Sequence[dict[str, Any]], since: int | None
) -> None:
    """Add the proofs of a person's accounts to their entries."""
    roots, key = _roots(store), _secret(store.stream.ledger)
    check_past(store.stream.ledger)
    if not roots or key is None:
        raise ParameterError("no root was published yet", "`sparseq curator root STORE` does it")
    chosen = roots[-1:] if since is None else [r for r in roots[:-1] if r["release"] == since]
    if not chosen:
        known = ", ".join(str(row["release"]) for row in roots[:-1]) or "none before the last"
        raise ParameterError(f"no root was published after release {since}", f"there are: {known}")
    chosen = chosen if since is None else [*chosen, roots[-1]]
    for user, account, name in zip(users, accounts, _names(store, key, users), strict=True):
        spelled = [one for one in (account["account"], "") if _name(key, user, one) == name]
        if not spelled:
            raise ParameterError("the identifier is spelled otherwise", "give it as it was loaded")
        account |= {"name": spelled[0], "proofs": []}
        account["name_salt"] = _key(key, b"name", user).hex()
    for row in chosen:
        under = _people_under(store.stream.ledger, row)
        facts = AccountFacts.at(store, row["release"])
        tree = _grown(store, key, row["key"], row["release"], under, facts)
        places = _places(key, under)
        for user, account in zip(users, accounts, strict=True):
            if user not in places:
                continue
            path = tree.path(places[user])
            if tree.over(places[user], path).hex() != row["tree"]:
                raise changed_past(row["release"])
            proof = {"salt": _key(tree.key, b"salt", user).hex(), "place": places[user]}
            if facts is not None:
                proof |= {"own": facts.own(user), "public": facts.public}
            hashes = [beside.hex() for beside in path]
            account["proofs"].append(_public(row) | proof | {"path": hashes})
    if not any(account["proofs"] for account in accounts):
        raise ParameterError(
            f"the person came after the root of release {roots[-1]['release']}",
            "nothing was charged by then; the next root has the account",
        )


__all__ = [
    "LIFE",
    "keep_names",
    "publish_root",
    "published_roots",
]
