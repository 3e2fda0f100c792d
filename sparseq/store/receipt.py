"""A receipt for one person: what the person's data were used for, and a proof that it was counted.

Private, and for the curator, who may give it to that person. It is a function of what was released
(and when, under which name) and of that person's own account, which is one of that person's own
rows and of past releases. So it tells the person nothing of anybody else that the answers do not.

A proof shows that an account lies in a tree of hashes (Merkle 1987) whose root follows that of an
answer, so that it is in what everybody sees. See docs/receipt.md for the lemma, and for what is not
proved. A store has a secret key K, and each root of accounts a secret key K_k of its own, each of
256 bits from the operating system:

    charge   (release, pot, units, SHA-256 of what was asked); pot 255: of all windows together
    chain    SHA-256(chain before, charge), from 32 zero bytes, over an account's charges in order
    name     SHA-256(HMAC(K, "name" i), identifier) of account i
    leaf     SHA-256(0, HMAC(K_k, "salt" i), name, chain, every pot with its budget)
    node     SHA-256(1, left, right)
    root     SHA-256(2, root before, release, top of the tree)

The tree is 48 levels deep, whoever is in it. An account's place is of HMAC(K, "place" i); what no
account lies under is HMAC(K_k, "blank" …), or 32 bytes of SHAKE-256(K_k, "beside" place) beside the
way of a leaf that is alone. So a path has 48 hashes that look random, and neither they, nor the
place, nor the root tell how many people there are, who, or what they spent; and as each root has a
key of its own, two of them don't tell whose account has changed.
"""

from __future__ import annotations

import datetime as dt
import hmac
import math
import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256, shake_256
from struct import pack
from typing import Any

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, gdp
from sparseq.accounting.budget import KAPPA_RANGE, Budget
from sparseq.base.arguments import check_arguments
from sparseq.base.defaults import DELTA
from sparseq.base.errors import ParameterError, StoreError
from sparseq.engine._duckdb.people import person_of
from sparseq.ledger.accounts import pack_set, unpack, unpack_set
from sparseq.ledger.lifetimes import LIFETIMES
from sparseq.ledger.notes import USER, Fact, NoteTable
from sparseq.ledger.protocol import (
    ROOT_KEY,
    ROOTS,
    Ledger,
    account_root,
    changed_past,
    check_past,
    said_hash,
    said_of,
)
from sparseq.ledger.purposes import Pot
from sparseq.store._duckdb.file_backend import as_duckdb
from sparseq.store.store import Store

# -- what a person's data were used for ------------------------------------------------------------

LIFE = 255
"""Number of the account over all windows, beside those of pots."""
_ALL_WINDOWS = "all windows"


@check_arguments
def receipt(
    store: Store, person: str, proof: bool = False, since: int | None = None
) -> dict[str, Any]:
    """Return what one person's data were used for, as plain data: private.

    Args:
        store: Open.
        person: An identifier. Where windows have accounts, a person's, or that of one window.
        proof: With proofs under the last root that was published.
        since: And under that of this release.

    Raises:
        ParameterError: Nobody has that identifier, or a root is asked for that there is not.
        StoreError: The account is not what its charges add up to, or the past is not what was
            published.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1)
        >>> _ = con.sql("SELECT count(*) AS n FROM t")
        >>> (account,) = receipt(con, "a")["accounts"]
        >>> [(used["release"], used["question"]) for used in account["charges"]]
        [(1, 'SELECT count(*) AS n FROM t')]
    """
    return receipts(store, [person], proof, since)[0]


@check_arguments
def receipts(
    store: Store, people: Sequence[str], proof: bool = False, since: int | None = None
) -> list[dict[str, Any]]:
    """Return the receipts of several people; the tree of a proof is made once for all of them.

    Args, errors: see `receipt`.
    """
    with store.stream.held():
        found, users = [], list[int]()
        for person in people:
            theirs = _users_of(store, person)
            found.append(_receipt(store, person, theirs))
            users += [user for _, user, _ in theirs]
        if proof:
            _prove(store, users, [account for one in found for account in one["accounts"]], since)
        return found


def _receipt(store: Store, person: str, users: Sequence[tuple[str, int, bool]]) -> dict[str, Any]:
    window = store.promise.window
    lifetime = None if window is None else window.lifetime
    accounts = [_account(store, user, name, erased) for name, user, erased in users]
    return {
        "person": person if store.catalog.unit else users[0][0],
        "erased": all(erased for _, _, erased in users),
        "answers": len(store.stream.ledger),
        "unit": "" if window is None else window.said,
        "population": store.promise.population,
        "accounts": accounts,
        "means": _explain_level(store, _kappa_of_all(store, accounts, users[0][1])),
        "promise": _explain_level(store, store.guarantee.kappa) | {"lifetime_kappa": lifetime},
    }


def windows_of(store: Store, person: str) -> list[str]:
    """Return the identifiers of a person: several, where each window has an account."""
    if not store.catalog.unit:
        return [person]
    found = as_duckdb(store.backend).storage.people().beginning_with(f"{person},")
    return [one for one in found if person_of(one) == person] or [person]


def _users_of(store: Store, person: str) -> list[tuple[str, int, bool]]:
    """Return a person's accounts: identifier, number, and whether it was erased."""
    found = []
    for identifier in windows_of(store, person):
        known = store.backend.find(identifier)
        if known is None:
            hint = "`sparseq curator sql` finds identifiers"
            if store.catalog.unit:
                hint = f"of who was erased, name one window: {person},2024-03-01"
            raise ParameterError(f"nobody has the identifier {identifier!r}", hint)
        name = store.stream.ledger.identifiers([known.user])[known.user]
        found.append((identifier if name is None else str(name), known.user, known.erased))
    return found


def _account(store: Store, user: int, name: str, erased: bool) -> dict[str, Any]:
    charges = list(_charges(store, user))
    parts = _parts(store, user)
    for part in parts:
        paid = sum(one["units"] for one in charges if one["pot"] == part["pot"])
        if paid != part["spent"]:
            raise StoreError(
                f"an account has spent {part['spent']} units, and its charges are {paid}",
                "restore a copy, and report it",
            )
    return {
        "account": name,
        "erased": erased,
        "rows": {t.name: store.backend.count_rows(t, user) for t in store.catalog.private},
        "left_out": int(store.stream.departures.first[user]) or None,
        "parts": parts,
        "charges": charges,
        "means": _explain_level(store, float(_kappa(store, charges))),
    }


def _parts(store: Store, user: int) -> list[dict[str, Any]]:
    """Return what an account had and has, in ledger units, by what for."""
    pots, lifetimes = store.stream.pots, store.stream.ledger.lifetimes
    alone, parts = np.array([user], np.int32), []
    drawn = store.promise.population is not None
    came = {n: p.came for p in pots.purposes for n in (p.answers, p.forecasts)}
    names = {pot: name for name, pot in pots.named().items()}
    for pot, accounts in sorted(pots.items()):
        budget, spent = int(accounts.budgets[user]), int(accounts.spent[user])
        left = int(accounts.left(alone)[0])
        parts.append(
            {
                "pot": int(pot),
                "part": names.get(pot, pot.name.lower()),
                "since": came.get(int(pot), 0),
                "budget": budget,
                **({"drawn": budget} if drawn else {}),
                "spent": spent,
                "held": budget - spent - left,
                "left": left,
            }
        )
    if lifetimes is not None and int(lifetimes.people[user]) == user:
        spent = int(lifetimes.spent[user])
        whole = {"budget": lifetimes.budget, "spent": spent, "left": lifetimes.budget - spent}
        parts.append({"pot": LIFE, "part": _ALL_WINDOWS, "since": 0, "held": 0} | whole)
    return parts


def _charges(store: Store, user: int) -> Iterator[dict[str, Any]]:
    """Yield what an account was charged for, oldest first."""
    ledger = store.stream.ledger
    names = {pot: name for name, pot in store.stream.pots.named().items()}
    paid = [(number, 0, units) for number, units in ledger.payments(user)]
    for number, people, units in _for_life(ledger):
        at = int(np.searchsorted(people, user))
        if at < len(people) and people[at] == user and units[at]:
            paid.append((number, LIFE, int(units[at])))
    for number, life, charged in sorted(paid):
        release = ledger.read(number)
        part = names.get(release.pot, release.pot.name.lower())
        yield {
            **said_of(release),
            "pot": life or int(release.pot),
            "part": _ALL_WINDOWS if life else part,
            "units": charged,
            "norm": charged / UNITS_PER_NORM,
        }


def _for_life(ledger: Ledger) -> Iterator[tuple[int, Any, Any]]:
    """Yield what was paid over all windows: release, people, units."""
    if ledger.lifetimes is not None:
        for row in ledger.notes(LIFETIMES).to_pylist():
            yield row["release"], unpack_set(row["people"]), unpack(row["units"])


def _kappa(store: Store, charges: Iterable[Mapping[str, Any]]) -> Fraction:
    """Return what charges are worth; what was moved to another part has not been used."""
    budget, pots = store.guarantee, store.stream.pots
    moves = {p.came for p in pots.purposes if p.came}
    rates = {
        n: Fraction(p.kappa) / Fraction(p.counts)
        for p in pots.purposes
        for n in (p.answers, p.forecasts)
    }
    usual, whole = Fraction(budget.kappa) / Fraction(budget.norm_budget), Fraction()
    for one in charges:
        if one["pot"] != LIFE and one["release"] not in moves:
            whole += rates.get(one["pot"], usual) * one["units"]
    return whole / UNITS_PER_NORM


def _kappa_of_all(store: Store, accounts: Sequence[Mapping[str, Any]], user: int) -> float:
    """Return what all windows together have used: by the account for life, or n roots, squared."""
    lifetimes, budget = store.stream.ledger.lifetimes, store.guarantee
    each = [float(_kappa(store, account["charges"])) for account in accounts]
    if lifetimes is None or len(accounts) == 1:
        return math.fsum(map(math.sqrt, each)) ** 2 if len(each) > 1 else each[0]
    units = int(lifetimes.spent[lifetimes.people[user]])
    return float(Fraction(budget.kappa) / Fraction(budget.norm_budget) * units / UNITS_PER_NORM)


def _explain_level(store: Store, kappa: float) -> dict[str, float | None]:
    """Return what a level of zCDP means; None: nothing can be said."""
    budget, (low, high) = store.guarantee, KAPPA_RANGE
    if kappa == 0:
        return {"kappa": 0.0, "mu": 0.0, "epsilon": 0.0, "delta": DELTA, "right_guess": 0.5}
    if kappa > high:
        return {"kappa": kappa, "mu": None, "epsilon": None, "delta": DELTA, "right_guess": None}
    level = Budget(max(kappa, low), budget.norm_budget, budget.gaussian, budget.keys_delta)
    epsilon = level.epsilon(DELTA)
    return {
        "kappa": kappa,
        "mu": level.mu,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": DELTA,
        "right_guess": None if level.mu is None else gdp.best_guess(level.mu),
    }


# -- roots of all accounts, and proofs under them --------------------------------------------------

NAMES = NoteTable("account_names", {USER: "INTEGER", "name": "BLOB"})
"""Names of people who were erased after a first root was published: salted hashes."""
GAPS = "numbers without accounts"
"""The fact that has, by root of accounts, the numbers below its last one that nobody had: a lake's,
which may be somebody's later."""
_DEEP = 48
_FEW = 8  # leaves, whose node is made again where it is needed
_NOTHING = bytes(32)


def publish_root(store: Store) -> dict[str, Any]:
    """Return the root of all accounts after the last answer: public, and durable.

    After one answer there is one root: who comes in between is under the next one.

    Returns:
        release, published_at, tree, before and root. Hashes are in hexadecimal digits.

    Raises:
        StoreError: It can't be written, or the past is not what was published.

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
        key, people = secrets.token_bytes(32), store.backend.people()
        gaps = np.setdiff1d(np.arange(accounts, dtype=np.int32), people)
        tree = _grown(store, chain.key, key, release, people.tolist()).top
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
            if len(gaps):
                known = ledger.fact(GAPS) or {}
                ledger.write(Fact(GAPS, known | {str(release): pack_set(gaps).hex()}))

        ledger.in_transaction(work)
        chain.head, chain.new = root, False
        return _public(row)


def published_roots(store: Store) -> list[dict[str, Any]]:
    """Return all roots, oldest first: public, and without the words of questions.

    Of an answer: hashes of what a receipt says of it, of itself and of whom it charged, and its
    root; of all accounts: see `publish_root`. Answers of a version that gave none are left out.

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
    """Keep the salted names of people whose identifiers go, in a transaction of the caller."""
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
    """A tree over leaves by place; what is under none of them is blank.

    Attributes:
        key: Of blanks.
        places: Of leaves, ascending.
        leaves: By place.
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
        """Return the hashes beside the way from a place to the top."""
        return [self._node(height, (place >> height) ^ 1) for height in range(_DEEP)]

    def over(self, place: int, path: Iterable[bytes]) -> bytes:
        """Return the node over a leaf and the hashes beside its way up."""
        found = self.leaves[place]
        for below, beside in enumerate(path):
            pair = beside + found if place >> below & 1 else found + beside
            found = sha256(b"\1" + pair).digest()  # as `_join`, which takes longer to call
        return found

    def _node(self, height: int, which: int) -> bytes:
        low = bisect_left(self.places, which << height)
        high = bisect_left(self.places, (which + 1) << height, low)
        if low == high:
            return self._blank(height, which)
        if (height, which) in self.known:
            return self.known[height, which]
        if high - low == 1:
            place = self.places[low]  # a node over one leaf: all beside its way are blank
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
        """Return what is beside the way of a leaf as far as it is alone: by one call, for speed."""
        whole = shake_256(self.key + b"beside" + pack(">Q", place)).digest(32 * _DEEP)
        return [whole[at : at + 32] for at in range(0, 32 * _DEEP, 32)]


def _grown(store: Store, key: bytes, own: bytes, release: int, users: Sequence[int]) -> _Tree:
    """Return the tree of a root, with a key of its own: of the accounts and charges by then."""
    accounts = users[-1] + 1 if users else 0
    names, places = _names(store, key, users), _places(key, users)
    chains, budgets = _chains(store, release, accounts), _budgets(store, release, accounts)
    leaves = {
        places[u]: sha256(b"\0" + _key(own, b"salt", u) + name + chains[u] + budgets[u]).digest()
        for u, name in zip(users, names, strict=True)
    }
    return _Tree(own, sorted(places.values()), leaves)


def _places(key: bytes, users: Iterable[int]) -> dict[int, int]:
    """Return the place of each account; who comes to a place that is taken takes the next draw."""
    found: dict[int, int] = {}
    for user in users:
        draw = 0
        while (place := int.from_bytes(_key(key, b"place", user, draw)[: _DEEP // 8])) in found:
            draw += 1
        found[place] = user
    return {user: place for place, user in found.items()}


def _names(store: Store, key: bytes, users: Sequence[int]) -> list[bytes]:
    """Return salted names; of who was erased before there were roots, of an empty one."""
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
    for_life = {number: (people, units) for number, people, units in _for_life(ledger)}
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
    """Return each account's budgets of the pots that there were, as bytes.

    What was drawn from a population is none of the store's: it grows, and is not under a root.
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


def _prove(
    store: Store, users: Sequence[int], accounts: Sequence[dict[str, Any]], since: int | None
) -> None:
    """Put the proofs of a person's accounts beside them."""
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
        tree, places = _grown(store, key, row["key"], row["release"], under), _places(key, under)
        for user, account in zip(users, accounts, strict=True):
            if user not in places:
                continue
            path = tree.path(places[user])
            if tree.over(places[user], path).hex() != row["tree"]:
                raise changed_past(row["release"])
            proof = {"salt": _key(tree.key, b"salt", user).hex(), "place": places[user]}
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
    "receipt",
    "receipts",
    "windows_of",
]
