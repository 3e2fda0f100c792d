"""Budgets of people outside of stores, which several stores about the same people draw on.

A population is a file with an account for each person, in whole units, and no rows. A store made
with it has no budget of its own: its accounts hold the amounts that it has *drawn*. A draw is a
public amount, the same for everybody in the store, chosen from public facts. Person i is given

    g_i = min(amount, what i has left in the population)

**Theorem.** Let a population have level K and any number of stores. Then all releases of all its
stores together, asked by anybody, in any order and adaptively across stores, are K-zCDP (and sqrt(2
K)-GDP) for removing all rows of one person from all stores. docs/theorems/population.md has the
proof: one filter over all charges of a person, each of them within an earlier draw.

A draw has two phases, each durable before the next begins:

    store        note that a draw has begun, under a number that nobody else has (a nonce)
    population   charge everybody g_i, under that nonce: a journal's release, all or nothing
    store        add g_i to the accounts, note that the draw is done: one transaction

A crash between them leaves a draw that was begun; the next process that opens the store finishes it
first. The population gives the same amount again under the same nonce, and charges it once. So
stores never have more than the population has charged, and every answer that leaves a store is
within that amount.

Copies. A store has its high-water mark from its creation, in the population's folder of marks, so
only the copy that answered last opens. Any other copy opens only with `accept_loss` and counts all
that it had drawn as spent, as the lost copy may have spent it. A population has its own mark there:
a population restored to an earlier time does not open.

All facts that a population gives to a store are public, except the units themselves.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.accounting import Budget
from sparseq.accounting.budget import NORM_BUDGET_RANGE
from sparseq.accounting.charge import budget_units
from sparseq.base.arguments import check_arguments
from sparseq.base.defaults import CONFIDENCE, DELTA, KAPPA
from sparseq.base.errors import ParameterError, StoreError, StoreInUse
from sparseq.engine._duckdb.people import kind_of
from sparseq.ledger._duckdb.progress_record import Lock
from sparseq.ledger._duckdb.write_errors import told_where_not_written
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import Fact
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.store._duckdb.file_backend import POPULATION_FORMAT, DuckBackend
from sparseq.store._duckdb.open_file import MissingPart, open_backend

UNITS = budget_units(NORM_BUDGET_RANGE[1])
"""Units of each person in a population: together they are worth its kappa."""
PATIENCE = 60.0
"""Seconds that a store waits while others draw."""
_PAUSE, _CREATE = 0.01, os.O_CREAT
_STORES, _KIND = "stores", "kind of identifiers"
"""Facts of a population: the draws of each store, and the kind of its identifiers."""
_WHOLE_NUMBERS = {"BIGINT", "UBIGINT", "HUGEINT"}


@dataclass(frozen=True)
class DrawRequest:
    """A draw that a store asks for.

    Attributes:
        store, name: The store's id and its name.
        nonce: The nonce of this draw: a second request under it gets the same answer.
        after: The last draw that the store has; None: unknown, as a part of the store was lost.
        amount: The amount for each person, in units of the population: public.
        newcomers: True for a draw for people who are new to the store, to catch up with its earlier
            draws.
        kind: The SQL type of identifiers.
        people: Distinct identifiers: private.
    """

    store: str
    name: str
    nonce: str
    after: int | None
    amount: int
    newcomers: bool
    kind: str
    people: Sequence[str]


@dataclass(frozen=True)
class Given:
    """A draw that is durable in the population.

    Attributes:
        number: The number of the draw among the store's draws, from 1; None: unknown.
        least: A lower bound of the amount given to each person, in any combination of stores:
            public.
        units: The units given to each person, in the order of the request: private.
    """

    number: int | None
    least: int
    units: Ints


class Population:
    """An open population; `open_population` makes one.

    Attributes:
        id: The unique id of the population.
        kappa: The zCDP level of all releases of all its stores.
        ledger: Its accounts and draws: private.
    """

    def __init__(self, backend: DuckBackend) -> None:
        self._backend, self.ledger = backend, backend.ledger
        self.id: str = backend.settings["store"]
        self.kappa: float = backend.settings["kappa"]

    @property
    def marks(self) -> str:
        """The folder or address of the marks of all its stores and of the population."""
        return str(self._backend.settings["marks"])

    @property
    def people(self) -> int:
        """Number of people with an account: private."""
        return len(self.ledger.pots)

    @property
    def spent(self) -> Ints:
        """Units that each person has given to stores: private."""
        return self.ledger.pots[Pot.QUERIES].spent

    @property
    def _stores(self) -> dict[str, dict[str, Any]]:
        return dict(self.ledger.fact(_STORES) or {})

    def facts(self) -> dict[str, Any]:
        """Return the public facts as plain data; shares are parts of a person's whole budget."""
        budget, stores = Budget(self.kappa, 1.0), self._stores
        return {
            "population": self.id,
            "kappa": self.kappa,
            "mu": budget.mu,
            "epsilon": budget.epsilon(DELTA),
            "delta": DELTA,
            "marks": self.marks,
            "identifiers": self.ledger.fact(_KIND),
            "least_left": self._left_for_sure() / UNITS,
            "stores": [
                {
                    "store": store,
                    "name": one["name"],
                    "share": one["amount"] / UNITS,
                    "draws": one["draws"],
                    "last_draw": one["at"],
                }
                for store, one in stores.items()
            ],
        }

    def _left_for_sure(self, besides: str = "") -> int:
        """Return the remaining units of a person in all stores: public.

        Args:
            besides: A store whose draws are not counted.
        """
        amounts = [one["amount"] for store, one in self._stores.items() if store != besides]
        return max(UNITS - sum(map(int, amounts)), 0)

    def give(self, asked: DrawRequest) -> Given:
        """Charge a draw durably, and return it. The same nonce gets the same draw.

        Raises:
            ParameterError: Identifiers are of another type here.
            StoreError: Another copy of the store has drawn since.
        """
        request = RequestId.of(Asker.CLIENT, asked.store, asked.nonce)
        known = self.ledger.under(request)
        if known is None:
            known = self._new(asked, request)
        said = json.loads(known.answer)
        users, units = self.ledger.charges(known.id)
        given = np.zeros(len(asked.people), np.int64)
        if len(users):
            numbers = self._numbers(asked.people)
            at = np.minimum(np.searchsorted(users, numbers), len(users) - 1)
            given = np.where(users[at] == numbers, units[at], 0)
        return Given(said["number"], said["least"], given)

    def _new(self, asked: DrawRequest, request: RequestId) -> Release:
        stores = self._stores
        before = stores.get(asked.store, {"draws": 0, "amount": 0})
        if asked.after is not None and asked.after != before["draws"]:
            raise StoreError(
                f"{asked.name} has {asked.after} draws, and the population has given it "
                f"{before['draws']}: another copy of the store has drawn since",
                "go on with the copy that was asked last",
            )
        self._check_kind(asked)
        self.ledger.in_transaction(partial(self._open_accounts, asked))
        self.ledger.people_arrived()
        besides = asked.store if asked.newcomers else ""
        least = min(asked.amount, self._left_for_sure(besides))
        numbers = self._numbers(asked.people)
        users = np.sort(numbers).astype(np.int32)
        accounts = self.ledger.pots[Pot.QUERIES]
        units = np.minimum(asked.amount, accounts.left(users))
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        number = before["draws"] + 1
        whom = "people who are new" if asked.newcomers else "everybody"
        words = f"draw {number} of {asked.name}: {asked.amount / UNITS:.6g} of all for {whom}"
        answer = json.dumps({"number": number, "least": least}).encode()
        release = Release(self.ledger.next_id, request, now, words, 0, (), (), CONFIDENCE, answer)
        stores[asked.store] = {
            "name": asked.name,
            "draws": number,
            "amount": before["amount"] + (0 if asked.newcomers else asked.amount),
            "at": now.isoformat(timespec="seconds") + "Z",
        }
        accounts.charge(users, units)
        self.ledger.commit([Entry(release, users, units, notes=(Fact(_STORES, stores),))])
        return release

    def forget(self, identifiers: Sequence[str]) -> int:
        """Replace identifiers by keyed hashes; return the number of those that were there.

        Accounts stay with their charges: a person who comes back has the same account.

        Raises:
            ParameterError: Nobody has one of the identifiers; nothing was erased.
        """
        found = {one: self._backend.find(one).for_curator() for one in identifiers}
        for identifier, person in found.items():
            if person is None:
                raise ParameterError(
                    f"nobody has the identifier {identifier!r}", "nothing was erased"
                )
        users = sorted({p.user for p in found.values() if p is not None and not p.erased})
        self._backend.forget(users, lambda: None)
        return len(users)

    def _check_kind(self, asked: DrawRequest) -> None:
        """Refuse identifiers of another type, which would match no person."""
        kind = kind_of(asked.kind)
        kind = "whole numbers" if kind in _WHOLE_NUMBERS else {"VARCHAR": "text"}.get(kind, kind)
        known = self.ledger.fact(_KIND)
        if known not in (None, kind):
            raise ParameterError(
                f"identifiers are {kind} in {asked.name}, and {known} in the population",
                "the same person needs the same identifier everywhere: --type COL=VARCHAR makes "
                "text of numbers, --type COL=BIGINT numbers of text",
            )
        if known is None:
            self.ledger.in_transaction(lambda: self.ledger.write(Fact(_KIND, kind)))

    def _open_accounts(self, asked: DrawRequest) -> None:
        """Open accounts for people without one, in a transaction of the caller."""
        database = self._backend.database
        database.register("staged", pa.table({"person": pa.array(asked.people, pa.string())}))
        self._backend.storage.people().open_accounts("person", UNITS, "")
        database.unregister("staged")

    def _numbers(self, people: Sequence[str]) -> Ints:
        return self._backend.numbers_of(pa.array(people, pa.string()))


@check_arguments
def create_population(
    path: str | Path,
    *,
    kappa: float | None = None,
    epsilon: tuple[float, float] | None = None,
    marks: str | Path | None = None,
) -> None:
    """Create a population: budgets of people that several stores draw on.

    Args:
        path: Path of its file, which appears whole or not at all.
        kappa: zCDP level of all releases of all its stores (0.5), or
        epsilon: (epsilon, delta): the same.
        marks: A folder on another disk or machine, or the address of one in a bucket
            (s3://bucket/folder), for the high-water marks of the population and of all its stores.
            By default the folder `PATH.marks` next to it.

    Raises:
        ParameterError: A number is out of range.
        StoreError: The path exists already.

    Example:
        >>> import sparseq, tempfile, pyarrow as pa
        >>> folder = tempfile.mkdtemp()
        >>> sparseq.create_population(folder + "/people", kappa=0.5)
        >>> rows, half = pa.table({"who": [7, 8]}), {"user": "who", "kappa": 0.25}
        >>> place = folder + "/visits"
        >>> with sparseq.create(place, rows, population=folder + "/people", **half) as con:
        ...     con.sql("SELECT count(*) AS n FROM events").facts.release
        1
        >>> sparseq.population_facts(folder + "/people")["least_left"]
        0.5
    """
    if kappa is not None and epsilon is not None:
        raise ParameterError("kappa and epsilon say the same thing; give one of them")
    if epsilon is None:
        budget = Budget(KAPPA if kappa is None else kappa, NORM_BUDGET_RANGE[1])
    else:
        budget = Budget.from_epsilon_delta(*epsilon, NORM_BUDGET_RANGE[1])
    place = str(marks or f"{path}.marks")
    if "://" not in place:
        folder = Path(place).resolve()
        folder.mkdir(mode=0o700, exist_ok=True)
        place = str(folder)
    from sparseq.store._duckdb.create_file import create_population_file

    create_population_file(Path(path), budget, place)


def population_facts(path: str | Path) -> dict[str, Any]:
    """Return the public facts of a population; raises the errors of `open_population`."""
    with open_population(path) as population:
        return population.facts()


@contextlib.contextmanager
def open_population(
    path: str | Path, id: str = "", patience: float | None = None
) -> Iterator[Population]:
    """Open a population for a moment, while others wait.

    Args:
        path: Path of its file.
        id: The id that it must have; "": any.
        patience: Seconds to wait while others have it open; None: `PATIENCE`.

    Raises:
        StoreError: There is no population or another one, it lacks a recorded draw, or the disk is
            full.
        StoreInUse: Others have kept it open for too long.
    """
    path = Path(path)
    check_there(path)
    lock = _lock(path, PATIENCE if patience is None else patience)
    try:
        backend = _backend_at(path)
        try:
            population = Population(backend)
            if id and population.id != id:
                raise StoreError(
                    f"{path} is another population than the one that the store was made with",
                    "bring that one; a store stays with its population",
                )
            yield population
            backend.close()
        except BaseException:
            backend.abandon()
            raise
        finally:
            backend.release()
    finally:
        lock.release()


def check_there(path: Path) -> None:
    """Refuse a path without a population, moved or deleted."""
    if not path.is_file():
        raise StoreError(
            f"there is no population at {path}",
            "bring it back; or, if it was moved: `sparseq population relocate POPULATION STORE`",
        )


def _backend_at(path: Path) -> DuckBackend:
    try:
        return open_backend(path, formats=(POPULATION_FORMAT,))
    except MissingPart as lacking:
        raise StoreError(
            f"{path} is not the population that was drawn from last: {lacking.message}",
            "bring that one. What stores have drawn they have, and can go on with",
        ) from None


def _lock(path: Path, patience: float) -> Lock:
    until = time.monotonic() + patience
    while True:
        try:
            with told_where_not_written(f"the population {path} was not asked"):
                return Lock(Path(f"{path}.lock"), _CREATE)
        except StoreInUse:
            if time.monotonic() > until:
                raise StoreInUse(
                    f"other stores have had the population {path} for {patience:.0f} s",
                    "try again; what was begun is finished when the store is opened next",
                ) from None
            time.sleep(_PAUSE)
