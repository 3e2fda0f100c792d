"""Keys that several users bring: the first row that has one decides, and nobody else's rows move.

Random lives of stores with key chains, with contested keys in one load and over several, rows that
wait, rows that replace others, erasures and joins. Each is lived again without some users, by the
rule in plain Python (`checks.audit.chains.Chains`); what all others have and are charged must
be the same, row by row and unit by unit. A store has several lives at once, whose keys and users
do not meet: so a thousand take minutes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparseq
from benchmarks.written.check import exact
from checks.audit.chains import PEOPLE, Chains, Drawn, Made, Row
from checks.stores import IN_OR_OUT
from sparseq.store.curator import exact_sql, forget
from sparseq.store.store import Store

View = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One load, question (of SQL) or erasure (of a user)."""

    table: Made | None = None
    rows: tuple[Row, ...] = ()
    sql: str = ""
    erased: str = ""


class Lives:
    """Drawn lives of one store, and whose each row is: known only when all is drawn.

    Args:
        number: Of the store.
        count: How many lives.
        events: How many things happen.
    """

    def __init__(self, number: int, count: int, events: int) -> None:
        self.rng, self.seed, self._count = random.Random(number), number, count
        self.drawn = Drawn(self.rng)
        while sum(t.led for t in self) < 2:
            self.drawn = Drawn(self.rng)
        self.chains = Chains(self.drawn.tables)
        self.first = {t.name: [r for n in range(count) for r in self._first(t, n)] for t in self}
        for table in self:
            self.rng.shuffle(self.first[table.name])
            self.chains.arrive(table, self.first[table.name])
        self.steps = [self._step() for _ in range(events)]
        self.chains.ended()

    def __iter__(self) -> Iterator[Made]:
        return iter(self.drawn.tables)

    def _own(self, row: Row, life: int) -> Row:
        """Return a row with the keys and the user of one life."""

        def own(column: str, value: Any) -> Any:
            if column == "x" or value is None:
                return value
            return value + 100 * life if isinstance(value, int) else f"{life}: {value}"

        return {column: own(column, value) for column, value in row.items()}

    def _first(self, table: Made, life: int) -> list[Row]:
        """Return rows of which most have a key of their own, and some a contested one."""
        own = self.drawn.rows(table, 6, distinct=True)
        later = [dict(row) for row in self.rng.sample(own, len(own) // 3)]
        for row in later:
            row |= {c: v for c, v in self.drawn.rows(table, 1)[0].items() if c not in "kl"}
        return [self._own(row, life) for row in own + later]

    def _step(self) -> Step:
        table, kind = self.rng.choice(self.drawn.tables), self.rng.random()
        if kind < 0.6:
            lives = [life for life in range(self._count) if self.rng.random() < 0.9]
            rows = [self._own(r, life) for life in lives for r in self.drawn.rows(table, 10)]
            self.rng.shuffle(rows)
            self.chains.arrive(table, rows)
            return Step(table, tuple(rows))
        if kind < 0.8:
            return Step(sql=self.drawn.question(table, f"{{{table.name}}}"))
        who = f"{self.rng.randrange(self._count)}: p{self.rng.randrange(PEOPLE)}"
        self.chains.erase(who)
        return Step(erased=who)

    def users(self) -> frozenset[str]:
        """Return one user of each life who has rows there."""
        found: dict[str, set[str]] = {}
        for who in self.chains.led.values():
            if who is not None:
                found.setdefault(who.partition(":")[0], set()).add(who)
        return frozenset(self.rng.choice(sorted(users)) for _, users in sorted(found.items()))

    def _arrow(self, table: Made, rows: list[Row], without: frozenset[str]) -> pa.Table:
        return self.drawn.arrow(table, [r for r in rows if self.chains.led[id(r)] not in without])

    def lived(self, without: frozenset[str], lake: Path | None) -> list[View]:
        """Return what everybody was charged after each step, and everybody's rows at the end."""
        store = sparseq.create(
            None if lake is None else f"lake://{lake}/{len(without)}",
            {t.name: self._arrow(t, self.first[t.name], without) for t in self},
            user="t0.who",
            links=self.drawn.links,
            bounds={f"{t.name}.x": (0, 9) for t in self},
            row_key=self.drawn.row_keys,
            purposes=IN_OR_OUT,
            seed=self.seed,
            **({} if lake is None else {"buckets": 3}),
        )
        users = {t.name: t.user for t in store.catalog.private}
        with store:
            views = [self._charges(store)]
            for step in self.steps:
                if step.table is not None:
                    rows = self._arrow(step.table, list(step.rows), without)
                    store.ingest(rows, step.table.name, again=True)
                elif step.sql:
                    store.sql(step.sql.format(**users), fresh=True)
                elif store.backend.find(step.erased).inside() is not None:
                    forget(store, step.erased)
                views.append(self._charges(store))
            return [*views, self._rows(store)] if lake is None else views

    def _charges(self, store: Store) -> View:
        names = store.stream.ledger.identifiers(store.backend.people().inside().tolist())
        spent = store.stream.accounts.spent
        return {name: int(spent[u]) for u, name in names.items() if name is not None}

    def _rows(self, store: Store) -> View:
        found: View = {}
        for table in self:
            user = store.catalog.table(table.name).user
            listed = ["k", "l", "x", *("pq" if table.led else "")]
            sql = f"SELECT {user}, {', '.join(listed)} FROM {table.name}"
            for row in exact_sql(store, sql).to_pylist():
                found.setdefault(row[user], []).append([table.name, *(row[c] for c in listed)])
        return {who: sorted(rows, key=str) for who, rows in found.items()}


def check(number: int, count: int, events: int, times: int, lake: Path | None = None) -> int:
    """Check lives of one store without one user of each, some times; return how many rows."""
    lives = Lives(number, count, events)
    everybody = lives.lived(frozenset(), lake)
    for _ in range(times):
        users = lives.users()
        without = lives.lived(users, lake)
        for k, (views, others) in enumerate(zip(everybody, without, strict=True)):
            left = {who: view for who, view in views.items() if who not in users}
            wrong = {who for who in left.keys() | others.keys() if left.get(who) != others.get(who)}
            assert not wrong, (number, k, wrong)
    return len(lives.chains.led)


def shop(orders: pa.Table, items: pa.Table, **more: Any) -> Store:
    tables = {"orders": orders, "items": items}
    links = {"items.o": "orders.id"}
    return sparseq.create(None, tables, user="orders.who", links=links, seed=1, **more)


def owners(store: Store) -> dict[str, int]:
    """Return how many items everybody has."""
    sql = "SELECT who, count(*) AS n FROM items GROUP BY 1"
    return {row["who"]: row["n"] for row in exact_sql(store, sql).to_pylist()}


def test_somebody_who_brings_others_keys_in_the_same_load_takes_nothing_from_them() -> None:
    """One user files 80 of 200 orders once more, behind those whose they are."""
    ids, whose = list(range(200)), [f"p{i}" for i in range(200)]
    items = pa.table({"o": [i % 200 for i in range(4_000)]})
    honest = shop(pa.table({"id": ids, "who": whose}), items)
    with shop(pa.table({"id": ids + ids[:80], "who": whose + ["x"] * 80}), items) as contested:
        assert owners(contested) == owners(honest) == dict.fromkeys(whose, 20)
        assert exact_sql(contested, "SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 280}]
        assert contested.curator_notes() == [
            "orders: 80 rows have a key (id) that a row of another user had first: such a row "
            "stays with its own user, and rows that refer to this key belong to the first user"
        ]
    honest.close()


@pytest.mark.parametrize("held", [True, False])
def test_first_is_by_files_and_rows_in_files_however_many_threads_read(
    held: bool, tmp_path: Path
) -> None:
    """In memory (no row key) and staged (a row key), in several files and groups of rows."""
    rng, expected = np.random.default_rng(7), dict[int, int]()
    for k, name in enumerate(["b", "a", "c"]):
        keys, users = rng.integers(0, 40_000, 150_000), rng.integers(0, 300, 150_000)
        rows = pa.table({"id": keys, "n": np.arange(150_000) + 150_000 * k, "who": users})
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=7_000)
    for name in "abc":  # a folder's files are read in the order of their names
        rows = pq.read_table(tmp_path / f"{name}.parquet")
        for key, user in zip(rows["id"].to_pylist(), rows["who"].to_pylist(), strict=True):
            expected.setdefault(key, user)
    places = np.arange(100_000)
    orders = pa.table({"id": places + 40_000, "n": -1 - places, "who": places % 7})
    more: dict[str, Any] = {} if held else {"row_key": {"orders": ("n",)}}
    with shop(orders, pa.table({"o": list(expected)}), **more) as store:
        store.ingest(tmp_path, "orders")
        sql = "SELECT o, who FROM items"
        assert {r["o"]: r["who"] for r in exact_sql(store, sql).to_pylist()} == expected


def test_a_row_that_is_replaced_has_claimed_its_key() -> None:
    """In one load and over two it is the same: ann's first version comes before bob's row."""
    rows = [("ann", 1, 5), ("bob", 2, 5), ("ann", 1, 6)]
    items = pa.table({"o": [5, 5, 6]})

    def orders(some: list[tuple[str, int, int]]) -> pa.Table:
        return pa.table(dict(zip(["who", "no", "id"], zip(*some, strict=True), strict=True)))

    whole = [("cid", 1, 1), ("cid", 2, 2), ("cid", 3, 3)]
    for at in range(3):
        with shop(orders(whole + rows[:at]), items, row_key={"orders": ("no",)}) as store:
            store.ingest(orders(rows[at:]), "orders")
            assert owners(store) == {"ann": 3}


def test_rows_that_waited_claim_in_the_order_in_which_they_came() -> None:
    """Orders wait for their customers; both customers come in one load, the later order's first."""
    tables = {
        "customers": pa.table({"c": [1, 2], "who": ["eve", "fay"]}),
        "orders": pa.table({"id": [8, 8, 9], "c": [11, 12, 2]}),
        "items": pa.table({"o": [8, 8, 9]}),
    }
    links = {"orders.c": "customers.c", "items.o": "orders.id"}
    with sparseq.create(None, tables, user="customers.who", links=links, seed=1) as store:
        assert owners(store) == {"fay": 1}
        store.ingest(pa.table({"c": [12, 11], "who": ["bob", "ann"]}), "customers")
        assert owners(store) == {"fay": 1, "ann": 2}


def test_a_later_claim_is_counted_and_moves_nothing_also_after_erasure() -> None:
    items = pa.table({"o": [1, 1, 2]})
    with shop(pa.table({"id": [1, 2, 3], "who": ["ann", "bob", "bob"]}), items) as store:
        store.ingest(pa.table({"id": [1, 1], "who": ["bob", "cid"]}), "orders")
        assert "orders: 2 rows have" in store.curator_notes()[-1]
        assert owners(store) == {"ann": 2, "bob": 1}
        forget(store, "ann")
        store.ingest(pa.table({"id": [1], "who": ["cid"]}), "orders")
        assert "orders: 1 row has" in store.curator_notes()[-1]
        store.ingest(items, "items")
        assert owners(store) == {"bob": 2}
        store.ingest(pa.table({"id": [4, 1], "who": ["cid", "ann"]}), "orders")
        assert owners(store) == {"bob": 2, "ann": 2}


def test_a_link_most_of_whose_keys_are_contested_is_refused_by_the_name_of_its_key() -> None:
    orders = pa.table({"id": [1, 1, 2, 2, 3], "who": ["ann", "bob", "ann", "bob", "cid"]})
    with pytest.raises(sparseq.DataError, match=r"a link to orders\.id is many-to-many: 2 of 3"):
        shop(orders, pa.table({"o": [1]}))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM orders a JOIN items b ON a.id = b.o",
        "SELECT count(*) AS n FROM items b JOIN orders a ON a.id = b.o AND a.who = 'bob'",
        "SELECT count(*) AS n FROM items b, orders a WHERE a.id = b.o AND a.paid = 7",
        "SELECT count(*) AS n FROM items b LEFT JOIN orders a ON a.id = b.o WHERE a.paid = 7",
        "SELECT count(*) AS n FROM items WHERE o IN (SELECT id FROM orders WHERE paid = 7)",
        "SELECT count(*) AS n FROM items b "
        "WHERE EXISTS (SELECT 1 FROM orders a WHERE a.id = b.o AND a.paid = 7)",
        "SELECT count(*) AS n FROM items b SEMI JOIN orders a ON a.id = b.o AND a.paid = 7",
        "SELECT count(*) AS n FROM items "
        "WHERE o IN (SELECT id FROM orders GROUP BY id HAVING sum(paid) = 7)",
    ],
)
def test_a_join_on_a_contested_key_is_of_one_users_rows(sql: str) -> None:
    """Bob has an order with ann's key. It meets no item, for bob's items are under other keys."""
    orders = {"id": [1, 2, 3, 1], "who": ["ann", "bob", "cid", "bob"], "paid": [0, 0, 0, 7]}
    with shop(pa.table(orders), pa.table({"o": [1, 1, 3]})) as store:
        found = exact(store, sql).to_pylist()[0]["n"]
        assert found == (3 if sql.endswith("a.id = b.o") else 0)


@pytest.mark.parametrize("number", [6, 7, 9])
def test_nobodys_rows_or_charges_depend_on_another_user(number: int) -> None:
    assert check(number, count=10, events=6, times=1) > 100


@pytest.mark.deep
@pytest.mark.parametrize("number", range(100, 150))
def test_the_same_in_a_thousand_lives(number: int) -> None:
    """Longer lives, each without three of its users."""
    check(number, count=20, events=12, times=3)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(20))
def test_the_same_in_lakes(number: int, tmp_path: Path) -> None:
    """Claims come from several buckets, and are decided before rows are laid out."""
    pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
    check(number, count=10, events=8, times=1, lake=tmp_path)
