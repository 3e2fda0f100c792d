"""Tables that a key leads from to a person, beside a store in which every row says whom it is about.

`Chains` is the rule in plain Python: whose each key is, which rows wait, and what an erasure takes.
It hands the rows, as they become somebody's, to the other store.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import sparseq
from benchmarks.stores import IN_OR_OUT
from sparseq.engine._duckdb.storage import Storage
from sparseq.store.curator import exact_sql, forget

Row = dict[str, Any]
PEOPLE, KEYS = 6, 9


@dataclass(frozen=True)
class Made:
    """A table: `k` and `l` are its key, `p` and `q` its parent's.

    Attributes:
        parent: "": it has the user column. Of one that is `named`, `p` is the person.
        wide: Two columns together are the parent's key.
    """

    name: str
    parent: str = ""
    named: bool = False
    wide: bool = False
    text: bool = False
    row_key: bool = False

    @property
    def led(self) -> bool:
        return bool(self.parent) and not self.named

    @property
    def user(self) -> str:
        return "p" if self.named else "who"

    def key(self, row: Row, columns: str) -> tuple[Any, ...] | None:
        found = tuple(row[c] for c in columns)
        return None if None in found else found


@dataclass
class Chains:
    """Whose keys are, and which rows wait."""

    tables: list[Made]
    whose: dict[tuple[str, tuple[Any, ...]], str | None] = field(default_factory=dict)
    hidden: dict[tuple[str, tuple[Any, ...]], str | None] = field(default_factory=dict)
    waiting: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[str, list[tuple[str, Row]]] = field(default_factory=lambda: defaultdict(list))

    def keys(self, table: str) -> Iterator[tuple[str, str]]:
        """The keys of a table by which others find it: what they are called, and their columns."""
        for columns in {
            "kl" if t.wide else "k" for t in self.tables if t.led and t.parent == table
        }:
            yield f"{table}.{columns}", columns

    def arrive(self, table: Made, rows: list[Row]) -> dict[str, list[tuple[str, Row]]]:
        """Take in rows; return those that are somebody's now, by table, parents first."""
        found: list[tuple[str, Row]] = []
        if not table.led:
            found = [(row[table.user], row) for row in rows if row[table.user] is not None]
        else:
            columns = "kl" if table.wide else "k"
            for row in rows:
                key = table.key(row, "pq" if table.wide else "p")
                if key is None:
                    continue
                place = (f"{table.parent}.{columns}", key)
                if place not in self.whose:
                    self.waiting[table.name].append(row)
                elif self.whose[place] is not None:
                    found.append((self.whose[place] or "", row))
        self.rows[table.name] += found
        done = {table.name: found}
        new: dict[tuple[str, tuple[Any, ...]], set[str]] = defaultdict(set)
        for name, columns in self.keys(table.name):
            for who, row in found:
                key = table.key(row, columns)
                if key is not None and (name, key) not in self.whose:
                    new[name, key].add(who)
        for place, people in new.items():
            if place not in self.hidden:
                self.whose[place] = people.pop() if len(people) == 1 else None
            elif self.hidden[place] in people:
                self.whose[place] = self.hidden.pop(place)
        for child in self.tables:
            if child.led and child.parent == table.name:
                waited, self.waiting[child.name] = self.waiting[child.name], []
                done |= self.arrive(child, waited) if waited else {}
        return done

    def erase(self, who: str) -> dict[str, int]:
        """Forget a person; return how many rows are gone that waited, by table."""
        for name in self.rows:
            self.rows[name] = [one for one in self.rows[name] if one[0] != who]
        for place in [p for p, one in self.whose.items() if one == who]:
            self.hidden[place] = self.whose.pop(place)
        gone: dict[str, list[Row]] = {}
        for table in self.tables:  # parents come first
            gone[table.name] = [
                r for r in self.waiting[table.name] if self._is_of(r, table, who, gone)
            ]
        for name, rows in gone.items():
            self.waiting[name] = [r for r in self.waiting[name] if not any(r is g for g in rows)]
        return {name: len(rows) for name, rows in gone.items()}

    def _is_of(self, row: Row, table: Made, who: str, gone: dict[str, list[Row]]) -> bool:
        columns = "kl" if table.wide else "k"
        key, parent = table.key(row, "pq" if table.wide else "p"), table.parent
        if self.hidden.get((f"{parent}.{columns}", key or ())) == who:
            return True
        above = [r for r in self.waiting[parent] if table.key(r, columns) == key]
        return bool(above) and all(any(r is g for g in gone[parent]) for r in above)


def tables_of(rng: random.Random) -> list[Made]:
    """A tree of tables, at most four steps deep."""
    made, depth = [Made("t0", row_key=rng.random() < 0.2, text=rng.random() < 0.5)], {"t0": 0}
    for n in range(1, rng.randint(2, 5)):
        parent = rng.choice([t for t in made if depth[t.name] < 4])
        named = not parent.parent and rng.random() < 0.25
        wide, text = not named and rng.random() < 0.25, rng.random() < 0.5
        made.append(Made(f"t{n}", parent.name, named, wide, text, rng.random() < 0.2))
        depth[f"t{n}"] = depth[parent.name] + 1
    return made


class World:
    """A store with links, and one in which every row says whom it is about, with the same seed."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.tables = tables_of(self.rng)
        self.by_name = {t.name: t for t in self.tables}
        self.chains = Chains(self.tables)
        first = {t.name: self.some_rows(t, 3, distinct=True) for t in self.tables}
        links = {}
        for table in self.tables:
            if table.parent:
                own, key = ("p,q", "k,l") if table.wide else ("p", "who" if table.named else "k")
                links[f"{table.name}.{own}"] = f"{table.parent}.{key}"
        more: dict[str, Any] = {
            "seed": number,
            "bounds": {"x": (0, 9)},
            "row_key": {t.name: ("k", "l") for t in self.tables if t.row_key},
        }
        if self.rng.random() < 0.5:
            more["purposes"] = IN_OR_OUT
        shuffled = dict(self.rng.sample(sorted(first.items()), len(first)))
        self.linked = sparseq.create(
            None,
            {name: self.arrow(self.by_name[name], rows) for name, rows in shuffled.items()},
            user="t0.who",
            links=links,
            **more,
        )
        found: dict[str, list[tuple[str, Row]]] = {t.name: [] for t in self.tables}
        for table in self.tables:
            for name, rows in self.chains.arrive(table, first[table.name]).items():
                found[name] += rows
        whole = {name: self.whole(self.by_name[name], rows) for name, rows in found.items()}
        self.plain = sparseq.create(None, whole, user="who", **more)

    def value(self, text: bool) -> Any:
        number = None if self.rng.random() < 0.05 else self.rng.randrange(KEYS)
        return number if number is None or not text else f"key {number}"

    def some_rows(self, table: Made, most: int, distinct: bool = False) -> list[Row]:
        parent = self.by_name.get(table.parent)
        rows: list[Row] = []
        for n in range(self.rng.randint(1, most)):
            row = {c: self.value(table.text) for c in "kl"} | {"x": self.rng.randrange(10)}
            if distinct:
                row["k"] = f"key {n}" if table.text else n
            person = f"p{self.rng.randrange(PEOPLE)}"
            if table.named:
                row["p"] = person if self.rng.random() < 0.95 else None
            elif parent is not None:
                row |= {c: self.value(parent.text) for c in "pq"}
            else:
                row["who"] = person if self.rng.random() < 0.95 else None
            rows.append(row)
        return rows

    def _schema(self, table: Made) -> dict[str, pa.DataType]:
        parent, text = self.by_name.get(table.parent), (pa.int64(), pa.string())
        kinds = dict.fromkeys("kl", text[table.text]) | {"x": pa.int64()}
        if table.named:
            return kinds | {"p": pa.string()}
        if parent is not None:
            return kinds | dict.fromkeys("pq", text[parent.text])
        return kinds | {"who": pa.string()}

    def arrow(self, table: Made, rows: list[Row]) -> pa.Table:
        kinds = self._schema(table)
        return pa.table({c: pa.array([r[c] for r in rows], kind) for c, kind in kinds.items()})

    def whole(self, table: Made, rows: list[tuple[str, Row]]) -> pa.Table:
        """Rows with their person."""
        made = self.arrow(table, [row for _, row in rows])
        if "who" in made.column_names:
            made = made.drop_columns("who")
        return made.append_column("who", pa.array([who for who, _ in rows], pa.string()))

    # What happens -----------------------------------------------------------------------------

    def ingest(self) -> None:
        table = self.rng.choice(self.tables)
        rows = self.some_rows(table, 6)
        done = self.chains.arrive(table, rows)
        self.linked.ingest(self.arrow(table, rows), table.name)
        for name, found in done.items():
            self.plain.ingest(self.whole(self.by_name[name], found), name)

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
        parent = self.by_name.get(table.parent)
        what = self.rng.choice(["count(*) AS n", "sum(a.x) AS s", "count(DISTINCT a.{}) AS u"])
        where = self.rng.choice(["", " WHERE a.x > 4", " WHERE a.x < 8"])
        where += f"{' AND' if where else ' WHERE'} a.x <> {self.rng.randrange(10)}"
        texts = []
        for linked in (True, False):
            user = self.user_of(table) if linked else "who"
            text = f"SELECT {what.format(user)} FROM {table.name} AS a"
            if parent is not None:
                pairs = [("p", "k"), ("q", "l")][: 1 + table.wide]
                if table.named:
                    pairs = [("p" if linked else "who", "who")]
                elif not linked:
                    pairs.append(("who", "who"))
                text += f" JOIN {parent.name} AS b ON " + " AND ".join(
                    f"a.{own} = b.{key}" for own, key in pairs
                )
            texts.append(text + where)
        answers = [
            store.sql(text) for store, text in zip((self.linked, self.plain), texts, strict=True)
        ]
        assert answers[0].arrow().equals(answers[1].arrow()), texts

    def check(self) -> None:
        """Everybody has the same rows and the same account, and the same rows wait."""
        for table in self.tables:
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

    def user_of(self, table: Made) -> str:
        return self.linked.catalog.table(table.name).user


def accounts(store: sparseq.Store) -> list[tuple[str, int, int]]:
    """Who has spent what, in the order of the accounts."""
    names = store.stream.ledger.identifiers(list(range(len(store.backend.people()))))
    pots = store.stream.accounts
    return [(str(names[u]), int(pots.spent[u]), int(pots.budgets[u])) for u in sorted(names)]


def live(number: int, events: int = 10) -> None:
    """Let one pair of stores live through some events."""
    world = World(number)
    world.check()
    for _ in range(events):
        world.rng.choice(
            [world.ingest, world.ingest, world.ingest, world.ask, world.ask, world.erase]
        )()
    world.ask()
    world.check()


@pytest.mark.parametrize("number", range(8))
def test_answers_and_charges_are_those_of_rows_that_say_whom_they_are_about(number: int) -> None:
    live(number)
