"""One budget for everybody, outside of stores: several stores about the same people draw on it.

A population is a file with an account for each person, in whole units, and no rows. A store that is
made with it has no budget of its own: its accounts are what it has *drawn*. A draw is a public
amount, the same for everybody in the store, chosen from public facts; person i is given

    g_i = min(amount, what i has left in the population)

**Theorem.** Let a population have level K and any number of stores. Then all releases of all of its
stores together, whoever asks them, in any order, and whatever depends on what, are K-zCDP (and
sqrt(2 K)-GDP) for removing all rows of one person from all stores. docs/theorems/population.md has
the proof: one filter over all of a person's charges, of which each lies within an earlier draw.

Two phases, each durable before the next begins:

    store        note that a draw has begun, under a number that nobody else has (a nonce)
    population   charge everybody g_i, under that nonce: a journal's release, all or nothing
    store        add g_i to the accounts, note that the draw is done: one transaction

A crash between them leaves a draw that was begun; whoever opens the store finishes it first: the
population gives under a nonce what it has given under it, and nothing twice. So what stores have
is never more than what the population has charged, and no answer leaves a store but within it.

Copies. A store has its high-water mark from its beginning, in the population's folder of marks, so
of all copies only the one that was asked last opens. One that is opened all the same, with
`accept_loss`, counts all that it had drawn as spent, as the copy that is lost may have spent it.
A population has its own mark there: one that was put back to an earlier time does not open.

Everything about a store that the population tells it is public, but for the units themselves.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.accounting import Budget
from sparseq.accounting.budget import NORM_BUDGET_RANGE
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.base.arguments import check_arguments
from sparseq.base.defaults import CONFIDENCE, DELTA, KAPPA
from sparseq.base.errors import ParameterError, StoreError, StoreInUse
from sparseq.engine._duckdb.people import kind_of
from sparseq.ledger._duckdb.mark import Lock
from sparseq.ledger._duckdb.notes import told_where_not_written
from sparseq.ledger.accounts import Index, Ints, pack, pack_set
from sparseq.ledger.notes import Asker, Fact, RequestId
from sparseq.ledger.protocol import DRAWN, Begun, Drawn, Entry, Ledger, Release, forget_taken, held
from sparseq.ledger.purposes import DRAWS, Pot
from sparseq.store._duckdb.file_backend import POPULATION_FORMAT, DuckBackend
from sparseq.store._duckdb.open_file import MissingPart, open_backend
from sparseq.store.backend import Backend
from sparseq.stream.new_purpose import quiet_release
from sparseq.stream.step import Stream
from sparseq.stream.stream_progress import Course

UNITS = budget_units(NORM_BUDGET_RANGE[1])
"""Of everybody in a population: together they are worth its kappa."""
PATIENCE = 60.0
"""Seconds that a store waits while others draw."""
_PAUSE, _CREATE = 0.01, os.O_CREAT
_STORES, _KIND = "stores", "kind of identifiers"
"""Facts of a population: of each store what it has drawn, and how people are called."""
_WHOLE_NUMBERS = {"BIGINT", "UBIGINT", "HUGEINT"}

# -- the population's side: a file of accounts, and what was drawn from them -----------------------


@dataclass(frozen=True)
class DrawRequest:
    """A draw that a store asks for.

    Attributes:
        store, name: Which store, and what it is called.
        nonce: Of this draw: asked again under it, the answer is the same.
        after: The last draw that the store has; None: it can't know, as a part of it was lost.
        amount: For each person, in units of the population: public.
        newcomers: It is for people who are new to the store, who catch up with its earlier draws.
        kind: Of identifiers: a type of SQL.
        people: Identifiers, each once: private.
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
        number: Of the store's draws, from 1; None: it is not known.
        least: That everybody was given at least, whichever stores they are in: public.
        units: Of each person, in the order in which they were asked for: private.
    """

    number: int | None
    least: int
    units: Ints


class Population:
    """An open population; `open_population` makes one.

    Attributes:
        id: Which: no other population has the same.
        kappa: Of everything that all of its stores ever release.
        ledger: Its accounts and draws: private.
    """

    def __init__(self, backend: DuckBackend) -> None:
        self._backend, self.ledger = backend, backend.ledger
        self.id: str = backend.settings["store"]
        self.kappa: float = backend.settings["kappa"]

    @property
    def marks(self) -> str:
        """The folder, or address, of the marks of all of its stores, and its own."""
        return str(self._backend.settings["marks"])

    @property
    def people(self) -> int:
        """Number of people who have an account: private."""
        return len(self.ledger.pots)

    @property
    def spent(self) -> Ints:
        """Units that each person has given to stores: private."""
        return self.ledger.pots[Pot.QUERIES].spent

    @property
    def _stores(self) -> dict[str, dict[str, Any]]:
        return dict(self.ledger.fact(_STORES) or {})

    def facts(self) -> dict[str, Any]:
        """Return what is public of it, as plain data; shares are of everybody's whole budget."""
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
        """Return what somebody who is in all stores has left: public.

        Args:
            besides: A store whose draws are not counted.
        """
        amounts = [one["amount"] for store, one in self._stores.items() if store != besides]
        return max(UNITS - sum(map(int, amounts)), 0)

    def give(self, asked: DrawRequest) -> Given:
        """Charge a draw, and return it; durable when it returns. The same nonce gets the same.

        Raises:
            ParameterError: People are called otherwise here.
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
        """Put keyed hashes in the place of identifiers; return how many were there.

        Accounts stay, with what they have given: who comes back has the same one.

        Raises:
            ParameterError: Nobody has one of them; nothing was erased.
        """
        found = {one: self._backend.find(one) for one in identifiers}
        for identifier, person in found.items():
            if person is None:
                raise ParameterError(
                    f"nobody has the identifier {identifier!r}", "nothing was erased"
                )
        users = sorted({p.user for p in found.values() if p is not None and not p.erased})
        self._backend.forget(users, lambda: None)
        return len(users)

    def _check_kind(self, asked: DrawRequest) -> None:
        """Refuse identifiers of another kind, by which nobody would be found again."""
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
        """Open accounts for people who have none, in a transaction of the caller."""
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
    """Create a population: one budget for everybody, which several stores draw on.

    Args:
        path: Of its file, which appears whole or not at all.
        kappa: zCDP level of everything that all of its stores ever release (0.5), or
        epsilon: (epsilon, delta): the same.
        marks: A folder on another disk or machine, or the address of one in a bucket
            (s3://bucket/folder), for the high-water marks of the population and of all its stores.
            By default the folder `PATH.marks` beside it.

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
    """Return what is public of a population; raises as `open_population`."""
    with open_population(path) as population:
        return population.facts()


@contextlib.contextmanager
def open_population(
    path: str | Path, id: str = "", patience: float | None = None
) -> Iterator[Population]:
    """Open a population for a moment; others wait.

    Args:
        path: Of its file.
        id: Which it must be; "": any.
        patience: Seconds to wait while others have it open; None: `PATIENCE`.

    Raises:
        StoreError: There is none, it is another, it lacks what was drawn from it, or the disk is
            full.
        StoreInUse: Others have had it open for too long.
    """
    path = Path(path)
    _check_there(path)
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


def _check_there(path: Path) -> None:
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


# -- the store's side: its accounts are what it has drawn ------------------------------------------


def _drawn(backend: Backend) -> Drawn:
    return Drawn.by(backend.ledger, backend.settings["population"])


def describe_link(place: str | Path, name: str, budget: Budget, draw: float) -> dict[str, Any]:
    """Return what the settings of a new store say of its population: public.

    Args:
        place: Of the population.
        name: Of the store.
        budget: The most that it may ever draw.
        draw: Share of it that it draws at once.

    Raises:
        ParameterError: It is more than the population has.
        StoreError: See `open_population`.
    """
    share = _share(draw)
    with open_population(place) as population:
        if budget.kappa > population.kappa:
            raise ParameterError(
                f"the store may draw {budget.kappa:.6g} at most, and the population has "
                f"{population.kappa:.6g}",
                "a smaller --kappa, or --epsilon",
            )
        return {
            "id": population.id,
            "kappa": population.kappa,
            "units": UNITS,
            "marks": population.marks,
            "place": str(Path(place).resolve()),
            "name": name,
            "draw": str(share),
        }


def settle(stream: Stream, backend: Backend, without: bool = False) -> None:
    """Finish a draw that was begun, and write off what was lost.

    Args:
        stream, backend: Of the store.
        without: Go on without the population, if it is not there: nobody is given anything.

    Raises:
        StoreError: The population is needed for it, and can't be opened.
    """
    if backend.settings.get("population") is None:
        return
    with stream.lock:
        stream.flush()
        drawn = _drawn(backend)
        if len(backend.losses) > drawn.losses:
            drawn = _written_off(stream, backend, drawn)
        if drawn.begun is not None and without and not Path(drawn.place).is_file():
            _given_up(stream, backend, drawn)
        elif drawn.begun is not None:
            _finish(stream, backend, drawn)


@contextlib.contextmanager
def newcomers(stream: Stream, backend: Backend) -> Iterator[None]:
    """Have a block in which people may come to a store; then they are given what others were.

    The draw is begun before, and is one whether anybody is new or not: that rows have come is
    public, and who is in them is not.

    Raises:
        StoreError: The population is not where it was: nobody comes.
    """
    if backend.settings.get("population") is None:
        yield
        return
    with stream.lock:
        settle(stream, backend)
        drawn = _drawn(backend)
        _check_there(Path(drawn.place))
        begun = Begun(secrets.token_hex(16), drawn.share, newcomers=True)
        _note(stream.ledger, replace(drawn, begun=begun))
        try:
            yield
        finally:
            whole = not (stream.half_done or backend.half_done)
            if whole and backend.database is not None:  # else it is done when it is opened next
                settle(stream, backend)


def draw(stream: Stream, backend: Backend, share: float, place: str | Path | None = None) -> None:
    """Draw a share of all that a store may ever draw; durable when it returns.

    Raises:
        ParameterError: The store has no population, or has drawn the rest already.
        StoreError: The population can't be opened.
    """
    _check_linked(backend)
    asked = _share(share)
    with stream.lock:
        if place is not None:
            move(stream, backend, place)
        settle(stream, backend)
        drawn = _drawn(backend)
        left = 1 - Fraction(drawn.share)
        if asked > left:
            raise ParameterError(
                f"the store may draw {float(left):.4%} more of its {_kappa(backend):.6g}",
                "a store's kappa is the most that it ever draws, said when it is made",
            )
        begun = Begun(secrets.token_hex(16), str(asked))
        _finish(stream, backend, _note(stream.ledger, replace(drawn, begun=begun)))


def move(stream: Stream, backend: Backend, place: str | Path) -> None:
    """Tell a store where its population lies now.

    Raises:
        ParameterError: The store has none.
        StoreError: It does not lie there.
    """
    _check_linked(backend)
    with open_population(place, backend.settings["population"]["id"]):
        pass
    with stream.lock:
        _note(stream.ledger, replace(_drawn(backend), place=str(Path(place).resolve())))


def _check_linked(backend: Backend) -> None:
    if backend.settings.get("population") is None:
        raise ParameterError(
            "the store has a budget of its own, and no population",
            "a store is made with one: `sparseq create STORE … --population POPULATION`",
        )


def _share(share: float) -> Fraction:
    if not 0 < share <= 1:
        raise ParameterError(f"the share to draw is {share:.6g}", "more than 0, and at most 100%")
    return Fraction(share).limit_denominator(10**6)


def _kappa(backend: Backend) -> float:
    return float(backend.settings["kappa"])


def _note(ledger: Ledger, drawn: Drawn) -> Drawn:
    """Write down how far the draws of a store are, durably."""
    ledger.in_transaction(lambda: ledger.write(drawn.fact()))
    return drawn


def _whom(stream: Stream, backend: Backend, begun: Begun) -> dict[int, str]:
    """Return whom a draw is for, with their identifiers, but who was erased: private."""
    users = backend.people()
    if begun.newcomers:
        users = users[stream.pots.drawn(users) < 0]
    known = stream.ledger.identifiers(users.tolist())
    return {user: str(name) for user in users.tolist() if (name := known[user]) is not None}


def _finish(stream: Stream, backend: Backend, drawn: Drawn) -> Drawn:
    """Ask the population for a draw that was begun, and add what it gives to the accounts."""
    begun, link = drawn.begun, backend.settings["population"]
    assert begun is not None
    if backend.ledger.fact(DRAWN) is None:
        _note(stream.ledger, drawn)  # of the first one: its nonce, before anybody is asked
    whom = _whom(stream, backend, begun)
    table = backend.catalog.private[0]
    asked = DrawRequest(
        backend.settings["store"],
        link["name"],
        begun.nonce,
        drawn.draws,
        math.ceil(
            UNITS * Fraction(begun.share) * Fraction(_kappa(backend)) / Fraction(link["kappa"])
        ),
        begun.newcomers,
        table.column(table.user).type,
        list(whom.values()),
    )
    with open_population(drawn.place, link["id"]) as population:
        given = population.give(asked)
    return _add(stream, backend, drawn, np.array(list(whom), np.int32), given, asked.amount)


def _given_up(stream: Stream, backend: Backend, drawn: Drawn) -> None:
    """Let go of a draw that was begun: the population is gone, and whoever is new has nothing."""
    assert drawn.begun is not None
    begun = replace(drawn.begun, share=drawn.share if drawn.begun.newcomers else "0")
    whom = np.array(list(_whom(stream, backend, begun)), np.int32)
    nothing = Given(None, 0, np.zeros(len(whom), np.int64))
    _add(stream, backend, replace(drawn, begun=begun), whom, nothing, 0)


def _add(
    stream: Stream, backend: Backend, drawn: Drawn, users: Index, given: Given, amount: int
) -> Drawn:
    """Add what the population has given to the accounts, in one transaction."""
    begun, ledger, pots = drawn.begun, stream.ledger, stream.pots
    assert begun is not None
    rate, cap = _rate(backend.settings), budget_units(backend.settings["norm_budget"])
    units = np.minimum(_convert(given.units, rate), cap - np.maximum(pots.drawn(users), 0))
    before = 0 if begun.newcomers else drawn.units
    least = np.array([min(int(rate * given.least), cap - before)])
    release = stream.next_release
    parts = pots.split(least, release)
    courses = {
        pot: _course_after(part.course, int(parts[pot][0]), begun.newcomers)
        for pot, part in stream.parts.items()
        if part.course is not None
    }
    done = replace(drawn, draws=given.number, begun=None)
    if not begun.newcomers:
        share = Fraction(drawn.share) + Fraction(begun.share)
        most = min(drawn.units + int(rate * amount), cap)
        done = replace(done, share=str(share), units=most)
    packed = [bytes(pack_set(users))], [bytes(pack(units))]
    rows = DRAWS.rows(number=given.number or 0, release=release, users=packed[0], units=packed[1])

    def work() -> None:
        ledger.write(rows)
        ledger.write(done.fact())
        for pot, course in courses.items():
            ledger.write(Fact(stream.parts[pot].key, course.to_dict()))

    ledger.in_transaction(work)
    stream.half_done = True
    pots.draw(users, units, release)
    for pot, course in courses.items():
        stream.parts[pot].course = course
    stream.half_done = False
    return done


def _rate(settings: Mapping[str, Any]) -> Fraction:
    """Return how many units of a store one unit of its population is worth, exactly."""
    link = settings["population"]
    own = Fraction(settings["kappa"]) / Fraction(settings["norm_budget"]) / UNITS_PER_NORM
    return Fraction(link["kappa"]) / int(link["units"]) / own


def _convert(units: Ints, rate: Fraction) -> Ints:
    """Return units of the population in units of the store, rounded down: worth no more.

    Example:
        >>> _convert(np.array([10, 0, 10]), Fraction(1, 3)).tolist()
        [3, 0, 3]
    """
    different, which = np.unique(units, return_inverse=True)
    return np.array([int(rate * one) for one in different.tolist()], np.int64)[which]


def _course_after(course: Course, units: int, newcomers: bool) -> Course:
    """Return a course after everybody, or everybody new, was given at least so many units."""
    given = units / UNITS_PER_NORM
    if newcomers:
        return replace(course, least=min(course.least, given))
    return replace(course, least=max(course.least, 0.0) + given)


def _written_off(stream: Stream, backend: Backend, drawn: Drawn) -> Drawn:
    """Count all that a store has as spent: a part of it was lost, and may have spent it.

    It is a release of the stream without noise: that a part was lost is public, and everybody is
    charged what that person has. What another copy has drawn, this one never gets: `draws` is None,
    so that the population goes on after the last draw that it knows of.
    """
    ledger, nobody = stream.ledger, np.zeros(0, np.int32)
    own = {p.name: Pot(p.answers) for p in stream.pots.purposes}
    for series, users, _ in held(ledger):
        stream.pots[own.get(series, Pot.QUERIES)].hold(series, nobody, np.zeros(0, np.int64))
        ledger.in_transaction(partial(forget_taken, ledger, users.tolist()))
    done = replace(drawn, losses=len(backend.losses), draws=None, begun=None)
    words = "a part of the store was lost: all that it had drawn from its population is spent"
    for pot, accounts in stream.pots.items():
        users = np.flatnonzero(accounts.budgets > accounts.spent).astype(np.int32)
        part, left = stream.part(pot), accounts.budgets[users] - accounts.spent[users]
        course = part.course and replace(part.course, least=0.0)
        notes = [done.fact(), *([] if course is None else [Fact(part.key, course.to_dict())])]
        release = quiet_release(stream, stream.next_release, words, {"part": pot.name.lower()}, pot)
        stream.half_done = True
        stream.charge(Entry(release, users, left, notes=tuple(notes)), course)
        stream.half_done = False
    stream.flush()
    return done
