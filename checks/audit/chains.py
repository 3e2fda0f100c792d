"""Neighbouring stores whose tables lead to people by keys: one person there or not, with the rows
that lead to that person.

`Chains` is the rule in plain Python: whose each key is, which rows wait, what an erasure takes, and
so which rows lead to whom. A life is drawn first, as whose a row is may be known only when a later
one has come; then the four stores live it, each with its rows.
"""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

import sparseq
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.neighbours import ALONE, NOBODY, VARIANTS, WITH, WITHOUT
from checks.audit.trial import Act, Ask, Trial
from sparseq.store.curator import forget
from sparseq.store.store import Store

Row = dict[str, Any]
Place = tuple[str, tuple[Any, ...]]
"""A key: what it is called, and its value."""
PEOPLE, KEYS, STEPS = 6, 9, 14
PERSON = "p0"


@dataclass(frozen=True)
class Made:
    """A table: `k` and `l` are its key, `p` and `q` its parent's.

    Attributes:
        parent: "": it has the user column.
        named: `p` is the person, as the link leads to the user column.
        wide: Two columns together are the parent's key.
        text: Its key is text.
        row_key: Its key names a row of a person.
    """

    name: str
    parent: str = ""
    named: bool = False
    wide: bool = False
    text: bool = False
    row_key: bool = False

    @property
    def led(self) -> bool:
        """A person is found by a key."""
        return bool(self.parent) and not self.named

    @property
    def user(self) -> str:
        """The user column, where there is one."""
        return "p" if self.named else "who"

    @property
    def above(self) -> tuple[str, str]:
        """The name of its parent's key, and its columns here."""
        return (f"{self.parent}.kl", "pq") if self.wide else (f"{self.parent}.k", "p")


def key_of(row: Row, columns: str) -> tuple[Any, ...] | None:
    """Return a row's key; None: it has none."""
    found = tuple(row[c] for c in columns)
    return None if None in found else found


@dataclass
class Chains:
    """Whose keys are, and which rows wait.

    Attributes:
        whose: By key: the user of the first row that had it.
        hidden: The same, of keys of erased users.
        led: By row (`id`): whom it leads to; None: nobody.
    """

    tables: Sequence[Made]
    whose: dict[Place, str] = field(default_factory=dict)
    hidden: dict[Place, str] = field(default_factory=dict)
    waiting: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    led: dict[int, str | None] = field(default_factory=dict)

    def arrive(self, table: Made, rows: Sequence[Row]) -> dict[str, list[tuple[str, Row]]]:
        """Take in rows; return those that are somebody's now, by table, parents first."""
        found = list[tuple[str, Row]]()
        for row in rows:
            if not table.led:
                who = row[table.user]
            else:
                name, columns = table.above
                key = key_of(row, columns)
                if key is not None and (name, key) not in self.whose:
                    self.waiting[table.name].append(row)
                    continue
                who = None if key is None else self.whose[name, key]
            self.led[id(row)] = who
            if who is not None:
                found.append((who, row))
        self._know(table, found)
        done = {table.name: found}
        for child in self.tables:
            if child.led and child.parent == table.name:
                waited, self.waiting[child.name] = self.waiting[child.name], []
                done |= self.arrive(child, waited) if waited else {}
        return done

    def _know(self, table: Made, rows: Sequence[tuple[str, Row]]) -> None:
        """Take in the keys of rows that are somebody's."""
        for name in {t.above[0] for t in self.tables if t.led and t.parent == table.name}:
            for who, row in rows:
                key = key_of(row, name.rpartition(".")[2])
                if key is None or self.hidden.get((name, key), who) != who:
                    continue
                self.hidden.pop((name, key), None)
                self.whose.setdefault((name, key), who)

    def erase(self, who: str) -> dict[str, int]:
        """Forget a person; return how many rows are gone that waited, by table."""
        for place in [p for p, owner in self.whose.items() if owner == who]:
            self.hidden[place] = self.whose.pop(place)
        gone: dict[str, list[Row]] = {}
        for table in self.tables:  # parents come first
            rows = self.waiting[table.name]
            gone[table.name] = [r for r in rows if self._is_of(r, table, who, gone)]
        for name, rows in gone.items():
            self.led |= {id(row): who for row in rows}
            self.waiting[name] = [r for r in self.waiting[name] if not any(r is g for g in rows)]
        return {name: len(rows) for name, rows in gone.items()}

    def _is_of(self, row: Row, table: Made, who: str, gone: Mapping[str, list[Row]]) -> bool:
        name, columns = table.above
        key = key_of(row, columns)
        if key is None or (name, key) in self.hidden:
            return key is not None and self.hidden[name, key] == who
        return any(key_of(r, name.rpartition(".")[2]) == key for r in gone.get(table.parent, ()))

    def ended(self) -> None:
        """Tell whom rows lead to that have waited to the end: those whose keys were erased."""
        for table in self.tables:
            for row in self.waiting[table.name]:
                name, columns = table.above
                self.led[id(row)] = self.hidden.get((name, key_of(row, columns) or ()))


class Drawn:
    """A tree of tables, at most four steps deep, and rows for them.

    Args:
        rng: Source of the choices.
        often: Share of rows that are `PERSON`'s; the others are of anybody.
    """

    def __init__(self, rng: random.Random, often: float = 0.0) -> None:
        self.rng, self._often = rng, often
        self.tables = [Made("t0", row_key=rng.random() < 0.2, text=rng.random() < 0.5)]
        depth = {"t0": 0}
        for n in range(1, rng.randint(2, 5)):
            parent = rng.choice([t for t in self.tables if depth[t.name] < 4])
            named = not parent.parent and rng.random() < 0.25
            wide = not named and rng.random() < 0.25
            name, depth[f"t{n}"] = f"t{n}", depth[parent.name] + 1
            text, row_key = rng.random() < 0.5, rng.random() < 0.2
            self.tables.append(Made(name, parent.name, named, wide, text, row_key))
        self.named = {t.name: t for t in self.tables}

    @property
    def links(self) -> dict[str, str]:
        """As `sparseq.create` takes them."""
        found = {}
        for table in self.tables:
            own, key = ("p,q", "k,l") if table.wide else ("p", "who" if table.named else "k")
            if table.parent:
                found[f"{table.name}.{own}"] = f"{table.parent}.{key}"
        return found

    @property
    def row_keys(self) -> dict[str, tuple[str, ...]]:
        """As `sparseq.create` takes them."""
        return {t.name: ("k", "l") for t in self.tables if t.row_key}

    def _value(self, text: bool) -> Any:
        number = None if self.rng.random() < 0.05 else self.rng.randrange(KEYS)
        return number if number is None or not text else f"key {number}"

    def rows(self, table: Made, most: int, distinct: bool = False) -> list[Row]:
        """Return some rows; `distinct`: no key twice."""
        found = []
        for n in range(self.rng.randint(1, most)):
            row: Row = {c: self._value(table.text) for c in "kl"}
            row["x"] = self.rng.randrange(10)
            if distinct:
                row["k"] = f"key {n}" if table.text else n
            person = f"p{self.rng.randrange(PEOPLE)}" if self.rng.random() < 0.95 else None
            person = PERSON if self.rng.random() < self._often else person
            if table.led:
                row |= {c: self._value(self.named[table.parent].text) for c in "pq"}
            else:
                row[table.user] = person
            found.append(row)
        return found

    def arrow(self, table: Made, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table of Arrow."""
        kinds = {False: pa.int64(), True: pa.string()}
        types = dict.fromkeys("kl", kinds[table.text]) | {"x": pa.int64()}
        if table.led:
            types |= dict.fromkeys("pq", kinds[self.named[table.parent].text])
        else:
            types[table.user] = pa.string()
        return pa.table({c: pa.array([r[c] for r in rows], kind) for c, kind in types.items()})

    def question(self, table: Made, user: str, same: str = "") -> str:
        """Return a question about a table, joined with its parent half of the time.

        Args:
            table: One of these tables.
            user: The column that names the user of a row.
            same: A condition about the two, in addition to their keys.
        """
        what = self.rng.choice(["count(*) AS n", "sum(a.x) AS s", f"count(DISTINCT a.{user}) AS u"])
        text = f"SELECT {what} FROM {table.name} AS a"
        if table.parent and self.rng.random() < 0.7:
            pairs = [("p", "k"), ("q", "l")][: 1 + table.wide] if table.led else [(user, "who")]
            on = [f"a.{own} = b.{key}" for own, key in pairs]
            on += [same] if table.led and same else []
            text += f" JOIN {table.parent} AS b ON {' AND '.join(on)}"
        return f"{text} WHERE a.x <> {self.rng.randrange(10)}"


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores live; yield what breaks a rule, with all that was done before."""
    rng, drawn = trial.rng, Drawn(trial.rng, 0.3)
    terms = Terms(0.5, rng.choice((9.0, 48.0, 2.0**14)))
    in_or_out, seed = rng.random() < 0.6, rng.randrange(2**31)
    chains, steps = Chains(drawn.tables), list[tuple[str, Made | str, list[Row]]]()
    first = {t.name: [_known(drawn, t, n) for n in range(2)] for t in drawn.tables}
    for table in drawn.tables:
        chains.arrive(table, first[table.name])
    for _ in range(STEPS):
        steps += _drawn_steps(drawn, chains)
    chains.ended()

    def create(_: str) -> Store:
        return sparseq.create(
            None,
            {t.name: drawn.arrow(t, first[t.name]) for t in drawn.tables},
            user="t0.who",
            links=drawn.links,
            bounds={f"{t.name}.x": (0, 9) for t in drawn.tables},
            row_key=drawn.row_keys,
            seed=seed,
            purposes=[sparseq.Questions(in_or_out=in_or_out, counts=terms.norm_budget)],
        )

    with contextlib.ExitStack() as stack:
        stores = {v: stack.enter_context(create(v)) for v in VARIANTS}
        users = {table.name: table.user for table in stores[WITHOUT].catalog.private}
        acts = ((name, _act(drawn, chains, users, what, rows)) for name, what, rows in steps)
        story = f"{terms}, in or out {in_or_out}, {drawn.links}"
        yield from trial.life(story, stores, acts, lambda seen: compare(seen, PERSON, terms))


def _known(drawn: Drawn, table: Made, number: int) -> Row:
    """Return a row of a person who is in all four stores, under keys that nobody else has."""

    def key(of: Made) -> Any:
        return f"known {number}" if of.text else 1_000 + number

    above = dict.fromkeys("pq", key(drawn.named[table.parent])) if table.led else {}
    whose = above or {table.user: f"known {number}"}
    return {**dict.fromkeys("kl", key(table)), "x": 1, **whose}


def _drawn_steps(drawn: Drawn, chains: Chains) -> Iterator[tuple[str, Made | str, list[Row]]]:
    """Yield the next action, its description and its rows; then a question."""
    rng = drawn.rng
    table = rng.choice(drawn.tables)
    if rng.random() < 0.9:
        rows = drawn.rows(table, 10)
        came = [name for name, some in chains.arrive(table, rows).items() if some]
        yield f"{table.name}: {rows}", table, rows
        table = drawn.named[came[-1]] if came else table
    else:
        who = f"p{rng.randrange(PEOPLE)}"
        chains.erase(who)
        yield f"{who} is erased", who, []
    sql = drawn.question(table, "{user}").replace("{user}", f"{{{table.name}}}")
    yield sql, sql, []


def _act(
    drawn: Drawn, chains: Chains, users: Mapping[str, str], what: Made | str, rows: list[Row]
) -> Act:
    if isinstance(what, str):
        asks = what.startswith("SELECT")
        return Ask(what.format(**users)) if asks else partial(_erase, what)
    of = {
        WITH: rows,
        WITHOUT: [r for r in rows if chains.led[id(r)] != PERSON],
        ALONE: [r for r in rows if chains.led[id(r)] == PERSON],
        NOBODY: [],
    }

    def take(variant: str, store: Store) -> object:
        store.ingest(drawn.arrow(what, of[variant]), what.name)
        return "taken in"

    return take


def _erase(who: str, variant: str, store: Store) -> object:
    if store.backend.find(who).inside() is not None:
        forget(store, who)
    return "erased"
