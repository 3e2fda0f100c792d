"""The same world as a store on one machine and as a lake: everything must be equal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.audit.neighbours import PUBLIC, WITH, World
from checks.audit.neighbours import world as some_world
from checks.audit.queries import Questions
from checks.language import functions
from checks.stores import made_store
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.lake.fleets import Fleet
from sparseq.lake.lake_store import open_lake
from sparseq.store.store import Store


@dataclass
class Twins:
    """A store on one machine, and a lake, of the same rows.

    Attributes:
        asked: How many questions both were asked.
        answered: How many of them were answered.
    """

    one: Store
    lake: Store
    asked: int = 0
    answered: int = 0

    def ask(self, sql: str) -> None:
        """Ask both, and compare what everybody sees and what everybody pays."""
        self.asked += 1
        theirs, ours = (outcome(store, sql) for store in (self.one, self.lake))
        assert ours == theirs, sql
        if isinstance(theirs, bytes):
            self.answered += 1
            last = self.one.released
            assert charges(self.lake, last) == charges(self.one, last), sql

    def same_accounts(self) -> None:
        """Compare what everybody has spent, has, and when everybody was first left out."""
        assert accounts(self.lake) == accounts(self.one)


def outcome(store: Store, sql: str) -> bytes | str:
    """The answer to the last bit; or why there is none."""
    try:
        return store.sql(sql).to_bytes()
    except (QueryRefused, ParameterError) as error:
        return str(error)


def charges(store: Store, release: int) -> dict[Any, int]:
    """Who paid how much for a release."""
    users, paid = store.stream.ledger.charges(release)
    names = store.stream.ledger.identifiers(users.tolist())
    found = {names[u]: c for u, c in zip(users.tolist(), paid.tolist(), strict=True) if c}
    assert len({u for u, c in zip(users.tolist(), paid.tolist(), strict=True) if c}) == len(found)
    return found


def accounts(store: Store) -> dict[Any, tuple[int, ...]]:
    """Budget and spent of each pot, and first departure, of everybody who has an account."""
    pots, first = store.stream.pots, store.stream.departures.first
    names = store.stream.ledger.identifiers(range(len(first)))
    parts = [part.tolist() for _, pot in pots.items() for part in (pot.budgets, pot.spent)]
    rows = zip(*parts, first.tolist(), strict=True)
    return {names[u]: row for u, row in enumerate(rows) if names.get(u) is not None}


@contextmanager
def opened(folder: Path, here: World, buckets: int, fleet: Fleet | None = None) -> Iterator[Twins]:
    """Make both of a world."""
    tables = {name: here.table(WITH, name) for name in ("t", "v")}
    own = {"budget_column": "own"} if here.own else {}
    path = folder / "lake"
    made_store(
        f"lake://{path}",
        tables=tables,
        user="who",
        public={"p": PUBLIC},
        buckets=buckets,
        **own,
        **here.options,
    ).close()
    with here.open(WITH) as one, Store(open_lake(path, fleet)) as lake:
        yield Twins(one, lake)


def worlds(seed: int) -> Iterator[tuple[World, Iterator[str]]]:
    """Yield worlds with generated questions about each, for ever."""
    rng = random.Random(seed)
    while True:
        here = some_world(rng, rng.choice(("rich", "poor")))
        questions = Questions(rng, functions(), here.values())
        yield here, iter(lambda q=questions: q.question().sql, None)
