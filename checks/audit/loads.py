"""Neighbouring stores are loaded in the same way: decisions at loading must reveal nothing.

The person brings texts before anybody else has them, one text more than a limit on distinct values
allows, and more rows than `--most rows` keeps. Rows come in several loads, in memory or as files,
with a time column or without; public tables are joined by text columns, with and without a unique
key; people are erased, and stores are closed and opened again. Each question is explained first, in
Python, and in half of the lives over HTTP, where it is also asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random
import string
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import sparseq
from checks.audit.comparison import Finding, Terms, compare
from checks.audit.doors import Served
from checks.audit.limits import lowered
from checks.audit.neighbours import ALONE, VARIANTS, WITH, WITHOUT
from checks.audit.seams import Seen, Step, Watching
from checks.audit.trial import Act, Ask, Trial
from sparseq.store.curator import forget
from sparseq.store.store import Store

STEPS = 12
PERSON, KNOWN, STAYING = 5_000, 7, 8
MANY = 10_000
"""Distinct texts up to which columns once had codes."""
COUNT = "SELECT count(*) AS n FROM t"
QUESTIONS = (
    COUNT,
    "SELECT count(*) AS n FROM t JOIN m ON t.s = m.label WHERE m.section IN ('s0', 's1')",
    "SELECT s, count(*) AS n FROM t WHERE s IN ('{a}', '{b}', '{c}') GROUP BY s",
    "SELECT count(*) AS n FROM t WHERE s = '{a}'",
    "SELECT count(DISTINCT who) AS n FROM t WHERE s < '{a}'",
    "SELECT m.section, count(*) AS n FROM t JOIN m ON t.s = m.label GROUP BY m.section",
    "SELECT sum(least(greatest(t.x * m.weight, 0), 10)) AS n FROM t JOIN m ON t.w = m.label",
    "SELECT count(*) AS n FROM t LEFT JOIN m ON t.s = m.label WHERE m.label IS NULL",
    "SELECT sum(x) AS n, count(*) AS k FROM t WHERE w >= '{a}'",
    "SELECT avg(x) AS n FROM t WHERE s <> '{b}'",
    "SELECT count(*) AS n FROM (SELECT who, min(s) AS f FROM t GROUP BY who) AS i WHERE f = '{a}'",
    "SELECT count(*) AS n FROM (SELECT who, arg_max(s, x) AS f FROM t GROUP BY who) AS i "
    "WHERE f <> '{a}'",
    "SELECT count(*) AS n FROM (SELECT who, s, row_number() OVER (PARTITION BY who ORDER BY s, x) "
    "AS r FROM t) AS i WHERE r = 1 AND s IN ('{a}', '{b}')",
    "SELECT count(*) AS n FROM (SELECT DISTINCT who, s FROM t) AS i",
    "SELECT count(*) AS n FROM t AS a JOIN t AS b ON a.who = b.who AND a.s = b.w",
    "SELECT s, avg(x) AS n FROM t WHERE s IN ('{a}', '{b}') GROUP BY s ORDER BY s LIMIT 1",
    "SELECT count(*) AS n FROM t JOIN p ON t.n = p.n WHERE p.label > '{a}'",
)
_DAY = dt.date(2024, 1, 1)
_SCHEMA = pa.schema(
    [
        ("who", pa.int64()),
        ("day", pa.date32()),
        ("s", pa.string()),
        ("w", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
    ]
)
_NUMBERS = pa.table({"n": [0, 1, 2, 3], "label": ["a", "b", "a", "z"]})
Row = dict[str, Any]


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores live; yield what breaks a rule, with all that was done before."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runner = stack.enter_context(asyncio.Runner())
        life = Life(trial.rng, folder, runner, trial.watching)
        stack.enter_context(lowered({"runs": life.runs}))
        stack.callback(life.close)
        first = life.rows(0)
        for variant in VARIANTS:
            life.begin(variant, first[variant])
        story = f"{life.options}, {life.distinct} texts, {life.format}, HTTP {life.http}"
        yield from trial.life(story, life.stores, life.steps(), life.check)


@dataclass
class Life:
    """The life of four stores, drawn at random: public except for the rows.

    Attributes:
        most: Number of rows of a person that are kept; None: all.
        texts: Values, in the order in which people may bring them.
        distinct: Number of texts that the crowd has in the first load.
        runs: Number of loads after which rows are sorted again.
        format: Format of the rows.
        http: True if questions are asked over HTTP too.
    """

    rng: random.Random
    folder: Path
    runner: asyncio.Runner
    watching: Watching
    stores: dict[str, Store] = field(default_factory=dict)
    served: dict[str, Served] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng
        self.most = rng.choice((None, 1, 1, 2, 3))
        self.distinct, self.runs = rng.choice((3, 3, 3, 8, 8, MANY)), rng.choice((1, 8))
        self.format = rng.choice(("memory", "memory", "csv", "parquet"))
        self.http, self.filed = rng.random() < 0.4, rng.random() < 0.3
        self.terms = Terms(0.5, rng.choice((48.0, 2.0**14)))
        self.texts = rng.sample(string.ascii_lowercase, 12)
        labels = [*self.texts, *(f"page {i}" for i in range(min(self.distinct, 60)))]
        if rng.random() < 0.3:
            labels += labels[:3]
        self.tables = {
            "m": pa.table(
                {
                    "label": labels,
                    "section": [f"s{i % 4}" for i in range(len(labels))],
                    "weight": [i % 3 + 0.5 for i in range(len(labels))],
                }
            ),
            "p": _NUMBERS,
        }
        timed = {"time": "day"} if rng.random() < 0.5 else {}
        self.options: dict[str, Any] = {
            **timed,
            **({} if self.most is None else {"most": {"rows": self.most}}),
            "bounds": {"x": (0, 10)},
            "seed": rng.randrange(2**31),
            "kappa": self.terms.kappa,
            "row_key": ("n", "x") if rng.random() < 0.2 else (),
            "keys": rng.choice(({}, {"w": self.texts[:3]})),
        }
        self.in_or_out = rng.random() < 0.6
        self._asked = ""

    def begin(self, variant: str, rows: list[Row]) -> None:
        """Make one of the four stores, of its first rows."""
        path = self.folder / f"{variant}.sparseq" if self.filed else None
        questions = sparseq.Questions(in_or_out=self.in_or_out, counts=self.terms.norm_budget)
        source = self._source(variant, rows)
        store = sparseq.create(
            path,
            {"t": source},
            user="who",
            public=self.tables,
            purposes=[questions],
            **self.options,
        )
        self._take(variant, store)

    def _take(self, variant: str, store: Store) -> None:
        self.stores[variant] = store
        if self.http:
            self.served[variant] = Served(self.runner, store)

    def close(self) -> None:
        """Close everything that is open."""
        for variant, store in self.stores.items():
            self.served.pop(variant).close() if variant in self.served else store.close()

    def _source(self, variant: str, rows: list[Row]) -> Any:
        """Return rows as a table in memory, or as a file."""
        table = pa.Table.from_pylist(rows, _SCHEMA)
        if self.format == "memory":
            return table
        file = self.folder / f"{variant}-{self.rng.randrange(10**9)}.{self.format}"
        if self.format == "csv":
            pyarrow.csv.write_csv(table, file)
        else:
            pyarrow.parquet.write_table(table, file)
        return [file]

    def rows(self, load: int) -> dict[str, list[Row]]:
        """Draw the rows of a load, by store.

        With the first one the crowd has `distinct` texts, and the person most often one more.
        """
        rng, codes = self.rng, self.distinct
        crowd, size = list[Row](), rng.choice((6, 20))
        own = rng.sample(self.texts, rng.choice((1, 1, 2, 3)))
        theirs = rng.sample(self.texts, rng.choice((2, 2, 4)))
        if load == 0:
            pages = [f"page {i}" for i in range(codes - 2)]
            crowd += [self._row(10 + i % size, [page]) for i, page in enumerate(pages)]
            theirs = ["known 0"]
            if rng.random() < 0.4:
                own = ["known 0", *own[: rng.randrange(2)]]
            elif rng.random() < 0.2 and codes < MANY:
                own += [f"only {i}" for i in range(codes)]
        crowd += [
            self._row(10 + i, theirs) for i in range(size) for _ in range(rng.choice((1, 2, 4)))
        ]
        person = [self._row(PERSON, [text]) for text in own for _ in range(rng.choice((1, 1, 3)))]
        known = [self._row(KNOWN, ["known 0"]), self._row(STAYING, ["known 1"])]
        known = known if load == 0 else []
        if rng.random() < 0.25 and load:
            person = []
        cut = rng.choice((0, len(crowd) // 3))
        return {
            WITHOUT: [*known, *crowd],
            WITH: [*known, *crowd[:cut], *person, *crowd[cut:]],
            ALONE: [*known, *person],
        } | {v: known for v in VARIANTS if v not in (WITHOUT, WITH, ALONE)}

    def _row(self, who: int, texts: list[str]) -> Row:
        rng = self.rng
        return {
            "who": who,
            "day": _DAY + dt.timedelta(rng.choice((0, 0, 0, 1, 5))),
            "s": rng.choice(texts),
            "w": rng.choice((*texts, None)),
            "n": rng.randrange(4),
            "x": rng.randrange(80) / 8,
        }

    def steps(self) -> Iterator[tuple[str, Act]]:
        """Yield each action and its description."""
        rng = self.rng
        yield self._question(QUESTIONS[1])
        for number in range(1, STEPS):
            what = rng.random()
            if what < 0.35 or number == 2:
                yield self._load(number)
            elif what < 0.42:
                yield "somebody is erased", lambda v, s: self._do(v, s, _erase)
            elif what < 0.5 and self.filed:
                yield "closed, and opened again", self._again
            else:
                yield self._question(rng.choice((COUNT, COUNT, *QUESTIONS)))

    def _question(self, text: str) -> tuple[str, Act]:
        a, b, c = self.rng.sample(self.texts, 3)
        sql = text.format(a=a, b=b, c=c)
        self._asked = sql
        if not self.http:
            return sql, Ask(sql)
        return sql, AskedByHttp(sql, self.served)

    def _load(self, number: int) -> tuple[str, Act]:
        self._asked = ""
        rows = self.rows(number)

        def take(variant: str, store: Store) -> object:
            source = self._source(variant, rows[variant])
            self._do(variant, store, lambda s: s.ingest(source))
            return "taken in"

        return f"rows {rows[ALONE]} of the person", take

    def _do(self, variant: str, store: Store, act: Any) -> object:
        """Do something as the curator does."""
        served = self.served.get(variant)
        return act(store) if served is None else served.operate(act)

    def _again(self, variant: str, store: Store) -> object:
        served = self.served.get(variant)
        store.close() if served is None else served.close()
        again = sparseq.connect(store.path)
        self.watching.opened(store, again)
        self._take(variant, again)
        return "open"

    def check(self, seen: dict[str, Seen]) -> Iterator[Finding]:
        """Yield what breaks a rule; nobody adds more rows than are kept."""
        asked, self._asked = self._asked, ""
        if asked == COUNT:
            yield from self._too_many(seen)
        yield from compare(seen, PERSON, self.terms)

    def _too_many(self, seen: dict[str, Seen]) -> Iterator[Finding]:
        if self.most is None:
            return
        for one, other in zip(seen[WITH].steps, seen[WITHOUT].steps, strict=False):
            rows = _last(one) - _last(other)
            if rows > self.most:
                yield Finding("too many rows", f"{rows:g} of {PERSON}; {self.most} are kept")
                return


def _last(step: Step) -> float:
    """Return the exact sum behind the last number that a step released."""
    return float(step.sums[-1][-1]) * step.noise[-1][2]


def _erase(store: Store) -> str:
    return str(forget(store, KNOWN).people)


class AskedByHttp(Ask):
    """A question that is asked, and explained again, over HTTP."""

    def __init__(self, sql: str, served: dict[str, Served]) -> None:
        super().__init__(sql)
        object.__setattr__(self, "served", served)

    def __call__(self, variant: str, _: Store) -> object:
        """Explain and ask it, and read the server's facts about the store."""
        door: Served = self.served[variant]  # type: ignore[attr-defined]
        said = door.post("/v1/explain", sql=self.sql)
        return said, door.post("/v1/query", sql=self.sql, fresh=True), door.pages()
