"""All ways of evaluating a question, each compared with every other.

    python -m checks.evaluators                                   50,000 questions
    python -m checks.evaluators --questions 2000 --seed 3 --json

The way of evaluating a question depends on private facts: whether a column has a NULL, the number
of rows, earlier questions, the rows on which the engine failed. So all of these ways must give the
same integers, for any rows: squared norms by person, sums, sums without some people, sums under
weights, and activity. Each question here goes all of the ways (`WAYS`), of one store after another,
with extreme values, columns with and without NULLs, and conditions that no row or every row
fulfils. The exit code is 1 if two ways differ.

Questions are combined from pieces that were lowered, as lowering takes longer than all evaluations:
conditions, keys and measures of a world, in any combination.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import click
import numpy as np
import pyarrow as pa

import sparseq
import sparseq.compiled
import sparseq.engine._duckdb.backstop
import sparseq.engine._duckdb.engine
import sparseq.engine._duckdb.kept_rows
import sparseq.engine._duckdb.reader
import sparseq.engine.reduction
from checks.audit.neighbours import NASTY, PUBLIC, SCHEMA, TYPE_OF, VISITS, Row, ordinary
from checks.audit.queries import T_COLUMNS, Questions, Source
from checks.language import BOOL, TEXT, TYPES, Function, functions
from checks.term_reader import TermReader
from sparseq.engine._duckdb.backstop import Failure
from sparseq.engine._duckdb.reader import TooManyRows
from sparseq.engine._duckdb.wanted_columns import TableSource
from sparseq.engine.contributions import Contributions, of_batch
from sparseq.engine.weighted_reduction import Weights
from sparseq.language.expression_tree import Term, all_of
from sparseq.language.types import Family
from sparseq.ledger.accounts import Accounts
from sparseq.question.plan import (
    Cell,
    Domain,
    Kind,
    Measure,
    Options,
    Plan,
    Query,
    Relation,
    calibrate,
)
from sparseq.store.store import Store
from sparseq.stream.release_charges import Bill, admit

WORLD = 700
"""Questions that a world is asked."""
TERMS = 800
"""Terms of a world that its questions are put together from."""
STATEMENTS = 8
"""Statements from which a world's keys, and some measures, are lowered."""
HUGE = 2**62
Setting = tuple[Any, str, Any]
Arrays = list[np.ndarray]
LOOKED_UP = pa.table({"label": ["a", "b", "zz", "1"], "weight": [0.5, -1.0, None, 3.0]})
_NUMBERS = ("float", "int")
_AGGREGATES = (
    "sum(least(greatest({0}, -5), 5))",
    "sum({0})",
    "count({1})",
    "histogram({0}, [0, 1, 10, 100])",
    "quantile({0}, 0.9, [-10, 0, 10, 1000])",
    "avg(least(greatest({0}, 0), 100))",
    "sum(least(greatest({1}, 0), 9))",
    "sum({1})",
    "countif({1} > 3)",
)
_FROM = ("FROM t", "FROM t JOIN h ON h.label = t.s")


@dataclass(frozen=True)
class Case:
    """A question to a store.

    Attributes:
        ahead: The same question of another time, if it has one.
    """

    store: Store
    plan: Plan
    ahead: Plan | None

    def smaller(self) -> Iterator[Plan]:
        """Yield plans of less."""
        query = self.plan.query
        for i in range(len(query.measures)):
            if len(query.measures) > 1:
                yield replace(
                    self.plan,
                    query=replace(query, measures=query.measures[i : i + 1]),
                    noise=self.plan.noise[i : i + 1],
                )
        if query.domains:
            yield replace(self.plan, query=replace(query, domains=()))
        for i in range(len(query.relation.conditions)):
            some = [c for k, c in enumerate(query.relation.conditions) if k != i]
            relation = _under(query.relation, some)
            yield replace(self.plan, query=replace(query, relation=relation))


def by_sql(case: Case) -> Contributions:
    """Evaluate by one SQL statement."""
    return case.store.stream.engine._made(case.plan, case.store.stream.people.inside())


def in_ranges(case: Case) -> Contributions:
    """Evaluate by SQL, a statement for each half of the people."""
    engine, people = case.store.stream.engine, case.store.stream.people.inside()
    many = Failure(TooManyRows())
    return engine._join(case.plan, lambda: engine._parts(case.plan, 0, people - 1, many))


def read_ahead(case: Case) -> Contributions:
    """Evaluate on rows that one scan has read for questions of several times."""
    engine = case.store.stream.engine
    assert case.ahead is not None
    engine.read_ahead([case.plan, case.ahead])
    try:
        found = by_sql(case)
        found.measures  # noqa: B018  while the rows are there
        return found
    finally:
        engine._ahead.clear()


def on_kept_columns(case: Case) -> Contributions:
    """Evaluate on columns that are kept from an earlier question."""
    engine = case.store.stream.engine
    for _ in range(3):  # the first time nothing is kept, the second time all is read
        batch = engine._kept.batch(case.plan, engine._rows)
    assert batch is not None
    return of_batch(case.plan, batch)


def in_backstop(case: Case) -> Contributions:
    """Evaluate as after a failure of the engine: a part of the people, or each alone."""
    engine, people = case.store.stream.engine, case.store.stream.people.inside()
    work, failures = engine._work(case.plan), list[Any]()
    try:
        return engine._join(
            case.plan, lambda: engine._backstop.parts(work, 0, people - 1, failures)
        )
    finally:
        engine.take_failures()


def has_kept_columns(case: Case) -> bool:
    """Tell whether a plan can be read from kept columns."""
    stored = case.plan.query.relation.stored
    return TableSource.of(case.plan) is not None and case.store.stream.engine._rows(stored) > 0


def _failing(most: int) -> Callable[..., Any]:
    """Return an attempt that fails on more than some people."""
    attempt = sparseq.engine._duckdb.backstop.Room.attempt

    def tried(room: Any, first: int, last: int) -> Any:
        too_many = last - first + 1 > most and last >= first
        return Failure(RuntimeError("planted")) if too_many else attempt(room, first, last)

    return tried


_COMPILED: tuple[Setting, ...] = (
    (sparseq.compiled, "COLD", 1),
    (sparseq.compiled, "WARM", 1),
)
_NUMPY: tuple[Setting, ...] = (
    (sparseq.compiled, "COLD", HUGE),
    (sparseq.compiled, "WARM", HUGE),
)
_SHARED: tuple[Setting, ...] = (
    (sparseq.engine.reduction, "SHARED", 0),
    (sparseq.engine._duckdb.reader, "SHARED", 0),
)
_KEPT: Setting = (sparseq.engine._duckdb.kept_rows, "LEAST_ROWS", 1)
_ROOM = sparseq.engine._duckdb.backstop.Room


@dataclass(frozen=True)
class Way:
    """A way of evaluating a question.

    Attributes:
        name: Name of the way.
        evaluate: Evaluates a question.
        settings: Context manager with the settings.
        every: Only one of this many possible questions goes this way.
        can: Returns True if a question can go this way.
    """

    name: str
    evaluate: Callable[[Case], Contributions]
    settings: tuple[Setting, ...] = _NUMPY
    every: int = 1
    can: Callable[[Case], bool] = lambda _: True

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Have it all evaluated this way."""
        before = [(place, name, getattr(place, name)) for place, name, _ in self.settings]
        for place, name, value in self.settings:
            setattr(place, name, value)
        try:
            yield
        finally:
            for place, name, value in before:
                setattr(place, name, value)


WAYS = (
    Way("DuckDB", by_sql),
    Way("DuckDB, compiled loops", by_sql, _COMPILED, every=2),
    Way("DuckDB, compiled loops, threads", by_sql, (*_COMPILED, *_SHARED), every=2),
    Way("DuckDB, by ranges of people", in_ranges, every=6),
    Way("DuckDB, read ahead", read_ahead, can=lambda case: case.ahead is not None),
    Way("kept columns", on_kept_columns, (*_NUMPY, _KEPT), can=has_kept_columns),
    Way(
        "kept columns, compiled loops",
        on_kept_columns,
        (*_COMPILED, *_SHARED, _KEPT),
        every=2,
        can=has_kept_columns,
    ),
    Way(
        "backstop, few people fail",
        in_backstop,
        (*_NUMPY, (_ROOM, "attempt", _failing(9))),
        every=250,
    ),
    Way("backstop, each alone", in_backstop, (*_NUMPY, (_ROOM, "attempt", _failing(1))), every=900),
)
"""The first is what the others are compared with."""


@dataclass(frozen=True)
class Probe:
    """People to leave out, weights and accounts: arguments of sums and prices."""

    dropped: np.ndarray
    weights: Weights
    budgets: np.ndarray

    @classmethod
    def of(cls, rng: random.Random, people: int, measures: int) -> Probe:
        """Return a probe for this number of people."""

        def some(share: float) -> np.ndarray:
            return np.array([i for i in range(people) if rng.random() < share], np.int32)

        weighed = some(0.7)
        mantissa = np.array([rng.choice((0, 1, 2**16, rng.randrange(2**16))) for _ in weighed])
        exponent = np.array([rng.randrange(16, 30) for _ in weighed])
        shifts = tuple(rng.randrange(14) for _ in range(measures))
        weights = Weights(weighed, mantissa.astype(np.int64), exponent.astype(np.int64), shifts)
        budget = rng.choice((0, 2**20, 2**24, 2**30, 2**40))
        own = [budget if rng.random() < 0.9 else rng.randrange(2**30) for _ in range(people)]
        budgets = np.array(own if rng.random() < 0.5 else [budget] * people, np.int64)
        return cls(some(0.3), weights, budgets)

    def facts(self, plan: Plan, found: Contributions, people: int) -> Arrays:
        """Return all that anything later takes from contributions, as arrays."""
        facts: Arrays = []
        for measure in found.measures:
            norms = np.zeros(people, np.int64)
            norms[measure.users] = measure.norms
            facts += [norms, np.asarray(measure.totals)]
        facts += found.without(self.dropped)
        facts += found.weighted(self.weights)
        bill = Bill(Accounts(self.budgets))
        passed, due = admit(plan, found, bill), np.zeros(people, np.int64)
        paying, charges = bill.paid()
        due[paying] = charges
        out = np.zeros(people, np.bool_)
        out[passed.left_out] = True
        return [*facts, due, out, *passed.sums]


def _alike(a: Arrays | str, b: Arrays | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return False
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@dataclass
class Pieces:
    """Pieces from which the questions about one FROM are combined."""

    conditions: list[Term] = field(default_factory=list)
    domains: list[Domain] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)

    def add(self, term: Term) -> None:
        """Add a term as a condition, or as a counted or summed value."""
        if term.type.family is Family.BOOLEAN:
            self.conditions.append(term)
            kinds = (Kind.ROWS, Kind.USERS)
            self.measures += [Measure(kind, Cell.of(term), "") for kind in kinds]
        elif term.type.is_number:
            self.measures.append(Measure(Kind.SUM, Cell.of(term), "", scale=None))


def _under(relation: Relation, conditions: Sequence[Term]) -> Relation:
    """Return a relation's rows that fulfil some conditions."""
    where = all_of(conditions)
    return replace(relation, where=where, conditions=tuple(conditions))


class World:
    """A store of extreme values, and pieces of questions about it; a context manager.

    Args:
        rng: Decides.
        words: Functions that questions have.
    """

    def __init__(self, rng: random.Random, words: Sequence[Function]) -> None:
        self._rng = rng
        rows = _rows(rng)
        self.store = _store(rng, rows)
        self._reader = TermReader(self.store, "t")
        values: dict[str, list[object]] = {t: [] for t in TYPES}
        values |= _some_values(rows)
        self._questions = Questions(rng, words, values, depth=3)

    @cached_property
    def _terms(self) -> list[Term]:
        return self._read()

    @cached_property
    def _froms(self) -> list[tuple[Relation, list[Term], Pieces]]:
        froms = [self._lowered(source) for source in _FROM]
        return [f for f in froms if f[0].stored]  # a join is, where texts have codes

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def _read(self) -> list[Term]:
        """Return terms over a row, read as a query's are."""
        rng, expressions, terms = self._rng, self._questions.expressions, list[Term]()
        while len(terms) < TERMS:
            type = rng.choice((BOOL, BOOL, BOOL, "int", "float"))
            text = expressions.term(type, T_COLUMNS, rng.choice((1, 2, 2, 3, 4))).sql
            term = self._reader.read(text)
            if term is not None and len(term.sql) < 4_000:
                terms.append(term)
        return terms

    def _lowered(self, source: str) -> tuple[Relation, list[Term], Pieces]:
        """Return a FROM, conditions on its times, and pieces of questions about it."""
        questions, rng, pieces = self._questions, self._rng, Pieces()
        every = "lower(t.s) = lower(t.w)"  # of a relation that has all columns
        whole = self.store.lower(f"SELECT count(*) AS a {source} WHERE {every}")
        pieces.measures.append(whole.measures[0])
        for term in self._terms:
            pieces.add(term)
        here = Source(source, "who", _columns(source))
        for _ in range(STATEMENTS):
            keys, allowed = questions.keys(here)
            listed = [f"{k.sql} AS g{i}" for i, k in enumerate(keys[:1])]
            numbers = [questions.term(type, here).sql for type in _NUMBERS]
            listed.append(rng.choice(_AGGREGATES).format(*numbers) + " AS a")
            where = [a.sql for a in allowed] + [questions.term(BOOL, here).sql]
            conditions = " AND ".join(f"({w})" for w in where)
            text = f"SELECT {', '.join(listed)} {source} WHERE {conditions}"
            with contextlib.suppress(sparseq.SparseqError):
                query = self.store.lower(text + (" GROUP BY g0" if keys else ""))
                pieces.conditions += query.relation.conditions
                pieces.domains += [d for d in query.domains if len(d.values) <= 40]
                pieces.measures += query.measures
        times = list[Term]()
        for _ in range(3):
            day = dt.date(2024, 1, 1) + dt.timedelta(rng.randrange(20))
            for time_ in (f"day = DATE '{day}'", f"day < DATE '{day}'", f"at >= TIMESTAMP '{day}'"):
                query = self.store.lower(f"SELECT count(*) AS a {source} WHERE t.{time_}")
                times += query.relation.conditions
        return _under(whole.relation, []), times, pieces

    def case(self) -> Case | None:
        """Return the next question; None where it is refused."""
        rng = self._rng
        relation, times, pieces = rng.choice((self._froms[0], *self._froms))
        conditions = _some(rng, pieces.conditions, (0, 1, 1, 2))
        domains = tuple(_some(rng, pieces.domains, (0, 0, 1, 2)))
        measures = tuple(_some(rng, pieces.measures, (1, 1, 2)))
        sums = any(m.kind is Kind.SUM and m.scale is None for m in measures)
        options = Options(
            sigma=None if sums else rng.choice((8.0, 0.75, 1e6)),
            scale=rng.choice((1.0, 3e-3, 1e6, 2.0**40)) if sums else None,
        )
        asked = [rng.choice(times)] if rng.random() < 0.12 else []
        plans = []
        for time_ in (asked, [rng.choice(times)]):
            query = Query("", _under(relation, [*conditions, *time_]), domains, measures, None)
            try:
                plans.append(calibrate(query, self.store.guarantee, options))
            except sparseq.SparseqError:
                return None
        return Case(self.store, plans[0], plans[1] if asked else None)


def _some(rng: random.Random, pieces: list[Any], counts: tuple[int, ...]) -> list[Any]:
    return rng.sample(pieces, min(rng.choice(counts), len(pieces)))


def _columns(source: str) -> dict[str, tuple[str, ...]]:
    columns = {k: tuple(f"t.{c}" for c in v) for k, v in T_COLUMNS.items()}
    if "h" in source.split():
        columns[TEXT] = (*columns[TEXT], "h.label")
        columns["float"] = (*columns["float"], "h.weight")
    return columns


def _rows(rng: random.Random) -> list[Row]:
    """Return some hundred rows: ordinary and extreme values, NULLs in about half of the columns."""
    full = {c for c in NASTY if rng.random() < 0.5}
    rows = []
    for who in rng.sample(range(-50, 10_000), rng.choice((2, 30, 40))):
        for _ in range(rng.choice((1, 1, 3, 9, 20))):
            row = ordinary(rng, who)
            for column, values in NASTY.items():
                if column in row and rng.random() < 0.35:
                    row[column] = rng.choice([v for v in values if v is not None])
                if column in row and column not in full and rng.random() < 0.25:
                    row[column] = None
            if "s" in full:
                row["s"] = row["s"] or "a"
            if "w" in full:
                row["w"] = row["w"] or "1"
            rows.append(row)
    rng.shuffle(rows)
    return rows


def _store(rng: random.Random, rows: list[Row]) -> Store:
    """Return a store of the rows; half of them come later."""
    half = len(rows) // 2 if rng.random() < 0.5 else len(rows)
    visits = [{"who": r["who"], "pages": 3, "day": r["day"]} for r in rows[:5]]
    bounds = {"x": (0, 100), "n": (0, 10), "u": (0, 250)}
    tables = {
        "t": pa.Table.from_pylist(rows[:half], SCHEMA),
        "v": pa.Table.from_pylist(visits, VISITS),
    }
    store = sparseq.create(
        None,
        tables,
        user="who",
        public={"p": PUBLIC, "h": LOOKED_UP},
        time="day",
        seed=rng.randrange(2**31),
        kappa=1024.0,
        keys={"s": ["a", "b", "zz", ""], "k": [0, 1, 2, 3, 77]},
        bounds={name: both for name, both in bounds.items() if rng.random() < 0.5},
        purposes=[sparseq.Questions(in_or_out=True, counts=2.0**20)],
    )
    if half < len(rows):
        store.ingest(pa.Table.from_pylist(rows[half:], SCHEMA), "t")
    return store


def _some_values(rows: list[Row]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {"who": [rows[0]["who"]]}
    for row in rows[:6]:
        for column, value in row.items():
            if column in TYPE_OF and value is not None:
                found.setdefault(TYPE_OF[column], []).append(value)
    return found


@dataclass
class Report:
    """Compared questions and differences; for each way, the questions that went it, and could."""

    questions: int = 0
    refused: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    could: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0


def compare(case: Case, rng: random.Random, report: Report, ways: Sequence[Way] = WAYS) -> None:
    """Have one question go all ways that it can; note what differs."""
    people = case.store.stream.people.inside()
    probe = Probe.of(rng, people, len(case.plan.query.measures))
    report.questions += 1
    first: Arrays | str | None = None
    for way in ways:
        if not way.can(case):
            continue
        report.could[way.name] += 1
        if report.could[way.name] % way.every != 1 % way.every:
            continue
        report.ways[way.name] += 1
        found = _found(way, case, probe)
        if first is None:
            first = found
        if isinstance(found, str) or not _alike(first, found):
            report.differences.append(_told(way, case, probe, first, found))
            return


def _found(way: Way, case: Case, probe: Probe) -> Arrays | str:
    try:
        with way.entered():
            return probe.facts(case.plan, way.evaluate(case), case.store.stream.people.inside())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _told(way: Way, case: Case, probe: Probe, first: Arrays | str, found: Arrays | str) -> str:
    """Say what differs, of the smallest question that shows it."""
    again = True
    while again:
        again = False
        for plan in case.smaller():
            weights = replace(probe.weights, shifts=probe.weights.shifts[: len(plan.noise)])
            fewer = Case(case.store, plan, plan if case.ahead else None)
            some = replace(probe, weights=weights)
            one, other = (_found(w, fewer, some) for w in (WAYS[0], way))
            if not _alike(one, other):
                case, probe, first, found, again = fewer, some, one, other, True
                break
    query = case.plan.query
    measures = [f"{m.kind} {m.value and m.value.sql} {m.bin and m.bin.sql}" for m in query.measures]
    keys = [d.position.sql for d in query.domains]
    what = found if isinstance(found, str) else _first_difference(first, found)
    return (
        f"{way.name}: {what}\n   {'; '.join(measures)}\n   {query.relation.sql} "
        f"WHERE {query.relation.where} GROUP BY {keys} {case.plan.noise[0]}"
    )


def _first_difference(first: Arrays | str, found: Arrays) -> str:
    if isinstance(first, str):
        return first
    for i, (a, b) in enumerate(zip(first, found, strict=False)):
        if not np.array_equal(a, b):
            at = np.flatnonzero(np.asarray(a != b))[:3]
            return f"array {i} at {at.tolist()}: {a[at].tolist()} against {b[at].tolist()}"
    return "another number of arrays"


def run(
    questions: int,
    seed: int,
    first: bool = False,
    world: int = WORLD,
    ways: Sequence[Way] = WAYS,
    words: Sequence[Function] | None = None,
) -> Report:
    """Compare ways on some questions.

    Args:
        questions: Number of questions.
        seed: The same seed asks the same questions of the same stores.
        first: Stop at the first difference.
        world: Number of questions per store.
        ways: Ways of evaluating them.
        words: Functions that they use; None: all.
    """
    begun, report, turn = time.perf_counter(), Report(), 0
    while report.questions < questions and not (first and report.differences):
        rng = random.Random(f"{seed}/{turn}")
        with World(rng, functions() if words is None else words) as here:
            for _ in range(world):
                if report.questions >= questions or (first and report.differences):
                    break
                case = here.case()
                if case is None:
                    report.refused += 1
                else:
                    compare(case, rng, report, ways)
        turn += 1
        if sys.stderr.isatty():
            text = f"{report.questions:,} questions, {len(report.differences)} differences"
            print(f"\r{text}", end="\r", file=sys.stderr, flush=True)
    report.seconds = time.perf_counter() - begun
    return report


@click.command()
@click.option("--questions", default=50_000, show_default=True, help="How many to compare.")
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The last line as an object.")
def main(questions: int, seed: int, as_json: bool) -> None:
    """Have questions evaluated in every way; exit code 1 if two ways differ."""
    report = run(questions, seed)
    for difference in report.differences[:40]:
        click.echo(difference)
    figures = {
        "questions": report.questions,
        "evaluations": sum(report.ways.values()),
        "differences": len(report.differences),
        "seconds": round(report.seconds),
    }
    for name, count in report.ways.items():
        click.echo(f"{count:9,}  {name}")
    shown = ", ".join(f"{k} {v:,}" for k, v in figures.items())
    click.echo(json.dumps(figures) if as_json else shown)
    sys.exit(1 if report.differences else 0)


if __name__ == "__main__":
    main()
