"""Tables from which keys lead to people, beside a store in which every row says whom it is about.

`checks.audit.chains` has the rule in plain Python. It hands the rows, as they become
somebody's, to the other store.
"""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparseq
from benchmarks.written.check import exact
from checks.audit.chains import PEOPLE, Chains, Drawn, Made, Row
from checks.stores import IN_OR_OUT
from sparseq.load._duckdb.storage import Storage
from sparseq.store.curator import counts, exact_sql, forget

UNIT = 2**24


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
            "bounds": {f"{t.name}.x": (0, 9) for t in self.tables},
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
        if self.plain.backend.find(who).inside() is None:
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
    names = store.stream.ledger.identifiers(store.backend.people().inside().tolist())
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


@pytest.mark.parametrize("number", [6])
def test_answers_and_charges_are_those_of_rows_that_say_whom_they_are_about(number: int) -> None:
    live(number, events=8)


@pytest.mark.deep
@pytest.mark.parametrize("first", range(0, 1_000, 50))
def test_the_same_in_a_thousand_streams(first: int) -> None:
    """More schemas, orders and erasures than those that are run with every change."""
    for number in range(100 + first, 150 + first):
        live(number)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(20))
def test_the_same_in_a_lake(number: int, tmp_path: Path) -> None:
    """A file of keys beside the buckets says whose rows are."""
    pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
    live(number, events=8, lake=tmp_path / "lake")


@pytest.mark.deep
def test_a_row_that_nobody_is_charged_for_when_its_parent_comes_late_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same lives find it: rows that waited are forgotten."""
    monkeypatch.setattr(Storage, "release", lambda *_: 0)
    with pytest.raises(AssertionError):
        live(6, events=8)


# Rows that wait -----------------------------------------------------------------------------------


def orders(*rows: tuple[int, str, int]) -> pa.Table:
    keys, people, days = zip(*rows, strict=True)
    return pa.table({"o": keys, "who": people, "day": [dt.date(2024, 1, d) for d in days]})


def items(*rows: tuple[int, int]) -> pa.Table:
    keys, days = zip(*rows, strict=True)
    return pa.table({"o": keys, "at": [dt.date(2024, 1, d) for d in days]})


def shop(path: Path | None = None) -> sparseq.Store:
    """Bob's item waits for an order."""
    rows = {"items": items((1, 1), (2, 1)), "orders": orders((1, "ann", 1))}
    links = {"items.o": "orders.o"}
    return sparseq.create(path, rows, user="orders.who", links=links, purposes=IN_OR_OUT, seed=1)


def test_a_row_waits_on_disk_and_is_paid_for_from_when_its_key_is_somebodys(tmp_path: Path) -> None:
    with shop(tmp_path / "s.sparseq") as con:
        con.sql("SELECT count(*) FROM items")
        assert {who: spent for who, spent, _ in accounts(con)} == {"ann": UNIT}
    with sparseq.connect(tmp_path / "s.sparseq") as con:
        assert con.ingest(orders((2, "bob", 9)), "orders") == 2
        con.sql("SELECT count(*) FROM items")
        assert {who: spent for who, spent, _ in accounts(con)} == {"ann": 2 * UNIT, "bob": UNIT}


def test_what_is_known_of_earlier_days_is_asked_anew_when_rows_may_have_waited() -> None:
    """The order is of the 9th; the item that waited for it is of the 1st."""
    con, asked = shop(), "SELECT count(*) FROM items WHERE at = DATE '2024-01-01'"
    before, revision = con.sql(asked), con.backend.revision
    assert con.sql(asked).facts.repeated
    con.ingest(orders((2, "bob", 9)), "orders", since=dt.date(2024, 1, 9), late=False)
    after = con.sql(asked)
    assert not after.facts.repeated
    assert after.facts.release > before.facts.release
    assert con.backend.revision == revision + 1


def test_a_key_stays_whose_it_was_and_a_later_person_keeps_the_row() -> None:
    con = shop()
    con.ingest(orders((1, "bob", 2)), "orders")
    con.ingest(items((1, 3)), "items")
    found = exact_sql(con, "SELECT who, count(*) AS n FROM items GROUP BY 1").to_pylist()
    assert found == [{"who": "ann", "n": 2}]
    assert exact_sql(con, "SELECT who, o FROM orders ORDER BY who").to_pylist() == [
        {"who": "ann", "o": 1},
        {"who": "bob", "o": 1},
    ]


def test_rows_that_come_for_somebody_who_was_erased_are_nobody_elses() -> None:
    con = shop()
    forget(con, "ann")
    con.ingest(items((1, 2), (1, 3)), "items")
    con.ingest(orders((1, "bob", 2)), "orders")
    assert exact_sql(con, "SELECT * FROM items").num_rows == 0
    con.ingest(orders((1, "ann", 4)), "orders")  # ann comes back
    found = exact_sql(con, "SELECT who, count(*) AS n FROM items GROUP BY 1").to_pylist()
    assert found == [{"who": "ann", "n": 2}]
    assert forget(con, "ann").rows == {"items": 2, "orders": 1}
    con.ingest(items((1, 5)), "items")
    assert forget(con, "ann").rows == {"items": 1, "orders": 0}  # it waited


def test_a_key_is_not_cut_to_bounds() -> None:
    rows = {"items": items((1, 1)), "orders": orders((1, "ann", 1))}
    bounds = {"orders.o": (0, 9)}
    with pytest.raises(sparseq.ParameterError, match="o of orders leads to people"):
        sparseq.create(None, rows, user="who", links={"items.o": "orders.o"}, bounds=bounds)


def test_a_public_table_may_stand_between_tables_that_a_key_joins() -> None:
    """No WHERE: that the person is the same is said where both tables are known."""
    rows = {"items": items((1, 1), (1, 2), (2, 2)), "orders": orders((1, "ann", 1), (2, "bob", 1))}
    days = pa.table({"at": [dt.date(2024, 1, 2)]})
    links = {"items.o": "orders.o"}
    con = sparseq.create(None, rows, user="orders.who", links=links, public={"days": days}, seed=1)
    sql = "SELECT count(*) AS n FROM items i JOIN days d ON d.at = i.at JOIN orders o ON i.o = o.o"
    assert exact(con, sql).to_pylist()[0]["n"] == 2
