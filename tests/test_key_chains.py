"""Tables from which keys lead to people, beside a store in which every row says whom it is about.

`benchmarks.audit.chains` has the rule in plain Python. It hands the rows, as they become
somebody's, to the other store.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparseq
from benchmarks.audit.chains import PEOPLE, Chains, Drawn, Made, Row
from benchmarks.stores import IN_OR_OUT
from sparseq.engine._duckdb.storage import Storage
from sparseq.store.curator import counts, exact_sql, forget


class World:
    """A store with links, and one in which every row says whom it is about, with the same seed.

    Args:
        number: Of the life.
        lake: A folder that is to be the first one; None: it is in memory.
    """

    def __init__(self, number: int, lake: Path | None = None) -> None:
        self.rng = random.Random(number)
        self.drawn = Drawn(self.rng)
        self.tables, self.named = self.drawn.tables, self.drawn.named
        self.chains = Chains(self.tables)
        first = {t.name: self.drawn.rows(t, 3, distinct=True) for t in self.tables}
        more: dict[str, Any] = {
            "seed": number,
            "bounds": {"x": (0, 9)},
            "row_key": self.drawn.row_keys,
            "purposes": self.rng.choice([(), IN_OR_OUT]),
        }
        shuffled = self.rng.sample(self.tables, len(self.tables))
        rows = {t.name: self.drawn.arrow(t, first[t.name]) for t in shuffled}
        place = {} if lake is None else {"buckets": 3}
        path = None if lake is None else f"lake://{lake}"
        links = {"user": "t0.who", "links": self.drawn.links}
        self.linked = sparseq.create(path, rows, **links, **place, **more)
        found: dict[str, list[tuple[str, Row]]] = {t.name: [] for t in self.tables}
        for table in self.tables:
            for name, some in self.chains.arrive(table, first[table.name]).items():
                found[name] += some
        whole = {name: self.whole(self.named[name], some) for name, some in found.items()}
        self.plain = sparseq.create(None, whole, user="who", **more)

    def whole(self, table: Made, rows: list[tuple[str, Row]]) -> pa.Table:
        """Rows with their person."""
        made = self.drawn.arrow(table, [row for _, row in rows])
        if "who" in made.column_names:
            made = made.drop_columns("who")
        return made.append_column("who", pa.array([who for who, _ in rows], pa.string()))

    def user_of(self, table: Made) -> str:
        return self.linked.catalog.table(table.name).user

    # What happens -----------------------------------------------------------------------------

    def ingest(self) -> None:
        table = self.rng.choice(self.tables)
        rows = self.drawn.rows(table, 6)
        done = self.chains.arrive(table, rows)
        came = self.linked.ingest(self.drawn.arrow(table, rows), table.name, again=True)
        assert came == sum(
            self.plain.ingest(self.whole(self.named[name], found), name)
            for name, found in done.items()
        )

    def erase(self) -> None:
        who = f"p{self.rng.randrange(PEOPLE)}"
        if self.plain.backend.find(who) is None:
            with pytest.raises(sparseq.ParameterError, match=who):
                forget(self.linked, who)
            return
        waited, expected = self.chains.erase(who), forget(self.plain, who)
        erased = forget(self.linked, who)
        assert erased.people == expected.people
        assert erased.rows == {n: rows + waited[n] for n, rows in expected.rows.items()}

    def ask(self) -> None:
        table = self.rng.choice(self.tables)
        state = self.rng.getstate()
        linked = self.drawn.question(table, self.user_of(table))
        self.rng.setstate(state)
        plain = self.drawn.question(table, "who", same="a.who = b.who")
        assert self.linked.sql(linked).arrow().equals(self.plain.sql(plain).arrow()), linked

    def check(self) -> None:
        """Everybody has the same rows and the same account, and the same rows wait."""
        assert counts(self.linked) == counts(self.plain)
        for table in self.tables if self.linked.path is None else ():
            columns = ["k", "l", "x", *("pq" if table.led else "")]
            listed = ", ".join(columns)
            rows = [
                sorted(
                    map(str, exact_sql(s, f"SELECT {user}, {listed} FROM {table.name}").to_pylist())
                )
                for s, user in ((self.plain, "who"), (self.linked, self.user_of(table)))
            ]
            assert [r.replace(f"'{self.user_of(table)}'", "'who'", 1) for r in rows[1]] == rows[0]
            if table.led:
                sql = f"SELECT {listed} FROM waiting.{table.name} ORDER BY rowid"
                found = self.linked.backend.database.execute(sql).fetchall()
                expected = [tuple(r[c] for c in columns) for r in self.chains.waiting[table.name]]
                assert sorted(map(str, found)) == sorted(map(str, expected))
        assert accounts(self.linked) == accounts(self.plain)


def accounts(store: sparseq.Store) -> list[tuple[str, int, int]]:
    """Who has spent what."""
    names = store.stream.ledger.identifiers(store.backend.people().tolist())
    pots = store.stream.accounts
    return sorted((str(names[u]), int(pots.spent[u]), int(pots.budgets[u])) for u in names)


def live(number: int, events: int = 10, lake: Path | None = None) -> None:
    """Let one pair of stores live through some events."""
    world = World(number, lake)
    world.check()
    for _ in range(events):
        world.rng.choice(
            [world.ingest, world.ingest, world.ingest, world.ask, world.ask, world.erase]
        )()
    world.ask()
    world.check()


@pytest.mark.parametrize("number", [6, 10])
def test_answers_and_charges_are_those_of_rows_that_say_whom_they_are_about(number: int) -> None:
    live(number, events=8)


@pytest.mark.deep
@pytest.mark.parametrize("first", range(0, 1_000, 50))
def test_the_same_in_a_thousand_streams(first: int) -> None:
    """More schemas, orders and erasures than those that are run with every change."""
    for number in range(100 + first, 150 + first):
        live(number)


@pytest.mark.parametrize("number", [6])
def test_a_row_that_nobody_is_charged_for_when_its_parent_comes_late_is_found(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same lives find it: rows that waited are forgotten."""
    monkeypatch.setattr(Storage, "release", lambda *_: 0)
    with pytest.raises(AssertionError):
        live(number, events=8)
