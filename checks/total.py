"""A test of totality: every function on extreme values, in every position, and nested.

    python -m checks.total                  every function, and 200,000 nested terms
    python -m checks.total --terms 5000 --seed 3 --json

A term is written as in a query, read into the typed tree, and run by DuckDB with statistics on and
off: nothing may raise, and a row's value among others must be its value alone. Tests compare the
values with an oracle (`tests/second_evaluator`). The last line has the number of cases. The exit
code is 1 if one failed.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import click
import duckdb
import sqlglot
from sqlglot import exp

from checks.language import BOOL, CLOCK, DATE, FLOAT, INT, TEXT, TIME, TYPES, UUID, functions
from checks.random_expressions import Expressions
from sparseq.base._duckdb.connection import connect
from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Term
from sparseq.language.functions import FUNCTIONS, Function
from sparseq.language.types import Family, Type
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.parse import Dialect

_FAR = T.SAFE_DAYS
_DAYS = [f"DATE '1970-01-01' + {n}" for n in (0, T.FIRST_DAY, T.LAST_DAY, 19782, 20000, 60)]
_FAR_DAYS = [*_DAYS, f"DATE '1970-01-01' + {_FAR}", f"DATE '1970-01-01' - {_FAR}"]
_LONG = ("repeat('x', 1000)", "repeat('ŉ', 1000)", "repeat('a%_', 20000)")


@dataclass(frozen=True)
class Column:
    """A column of extreme values: its name, type and values, as SQL."""

    name: str
    type: Type
    values: tuple[str, ...]

    @property
    def sql(self) -> str:
        return self.type.sql


def _column(name: str, type: Type | None, values: Iterable[str]) -> Column:
    assert type is not None
    cast = [f"CAST({value} AS {type.sql})" for value in values]
    return Column(name, type, (*cast, "NULL"))


COLUMNS = (
    _column("b1", T.BOOLEAN, ("true", "false")),
    _column(
        "i1",
        T.find_type("BIGINT"),
        ("0", "1", "-1", f"{2**63 - 1}", f"{-(2**63)}", "12", "29", "2024", "10000000"),
    ),
    _column("i2", T.find_type("TINYINT"), ("0", "1", "-1", "127", "-128", "2")),
    _column("i3", T.find_type("UBIGINT"), ("0", "1", f"{2**64 - 1}", f"{2**63}")),
    _column("i4", T.find_type("INTEGER"), ("0", "-1", "7", f"{2**31 - 1}", f"{-(2**31)}")),
    _column(
        "c1", T.decimal(18, 3), ("0", "0.5", "-2.5", "999999999999999.999", "-999999999999999.999")
    ),
    _column("c2", T.decimal(4, 1), ("0", "999.9", "-999.9", "0.1")),
    _column(
        "c3",
        T.decimal(38, 10),
        (
            "0",
            "9999999999999999999999999999.9999999999",
            "-9999999999999999999999999999.9999999999",
            "1",
        ),
    ),
    _column(
        "n1",
        T.DOUBLE,
        (
            "0",
            "'-0.0'",
            "1",
            "-1",
            "0.5",
            "2.5",
            "1.7976931348623157e308",
            "-1.7976931348623157e308",
            "5e-324",
            "9.3e18",
            "'nan'",
            "'inf'",
            "'-inf'",
        ),
    ),
    _column("n2", T.find_type("FLOAT"), ("0", "1.5", "3.4e38", "-3.4e38", "1e-45", "'nan'")),
    _column(
        "x1",
        T.TEXT,
        (
            "''",
            "'a'",
            "'1'",
            "'1e400'",
            "'infinity'",
            "'2024-01-01'",
            "'é'",
            "'9223372036854775808'",
            "'5881580-07-10'",
            "chr(0)",
            "'👩‍👩‍👧'",
            "'ß'",
            "'%'",
            "'-infinity'",
            "'290309-12-22 (BC) 00:00:00'",
            "'\\'",
            *_LONG,
        ),
    ),
    _column("x2", T.TEXT, ("'true'", "'nan'", "'-1.5'", "'23:59:59.9999999'", "'x'", "' 7 '")),
    _column("d1", T.DATE, _DAYS),
    _column("d2", Type(Family.DATE, -_FAR, _FAR), _FAR_DAYS),
    _column(
        "s1",
        T.TIMESTAMP,
        [f"CAST({d} AS TIMESTAMP) + INTERVAL 86399999999 MICROSECOND" for d in _DAYS],
    ),
    _column(
        "s2", Type(Family.TIMESTAMP, -_FAR, _FAR), [f"CAST({d} AS TIMESTAMP)" for d in _FAR_DAYS]
    ),
    _column("m1", T.TIME, ("'00:00:00'", "'23:59:59.999999'", "'12:34:56'")),
    _column(
        "u1",
        T.UUID,
        ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    ),
    _column("l1", T.find_type("VARCHAR[]"), ("[]", "['a']", "[NULL, 'a', '']", "[NULL]")),
    _column("l2", T.find_type("BIGINT[]"), ("[]", f"[{2**63 - 1}, {-(2**63)}, 0]", "range(1000)")),
    _column("l3", T.find_type("DOUBLE[]"), ("['nan', '-0.0', 'inf', NULL]", "[1e308, 5e-324]")),
    _column("l4", T.find_type("BOOLEAN[]"), ("[true, NULL]",)),
    _column("l5", T.find_type("DATE[]"), ("['0001-01-01', '9999-12-31']",)),
)
_BY_NAME = {c.name: c for c in COLUMNS}
FORMS: tuple[tuple[Family, str, str], ...] = (
    *(
        (Family.BOOLEAN, "({0} " + o + " {1})", "aa")
        for o in ("=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    ),
    (Family.BOOLEAN, "({0} IS NULL)", "a"),
    (Family.BOOLEAN, "({0} BETWEEN {1} AND {2})", "aaa"),
    (Family.BOOLEAN, "({0} IN ({1}, {2}))", "aaa"),
    (Family.BOOLEAN, "({0} NOT IN ({1}, NULL))", "aa"),
    (Family.BOOLEAN, "({0} LIKE '%a%')", "t"),
    (Family.BOOLEAN, "({0} ILIKE 'A_%')", "t"),
    (Family.BOOLEAN, "({0} NOT LIKE '\\')", "t"),
    (Family.TEXT, "concat({0}, {1}, {2})", "xyz"),
)
"""What is not in the table of functions: (what it gives, form, a: any type, alike)."""
CHOICES = (
    "least({0}, {1})",
    "greatest({0}, {1})",
    "coalesce({0}, {1})",
    "nullif({0}, {1})",
    "CASE WHEN {b} THEN {0} ELSE {1} END",
    "if({b}, {0}, {1})",
)
TARGETS = (
    "BOOLEAN",
    "TINYINT",
    "INTEGER",
    "BIGINT",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 2)",
    "DECIMAL(38, 10)",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIME",
    "UUID",
)
POSITIONS = {
    "SELECT": "SELECT u, CAST({e} AS VARCHAR) FROM t ORDER BY u",
    "WHERE": "SELECT u FROM t WHERE ({e}) IS NOT NULL ORDER BY u",
    "JOIN ON": "SELECT t.u FROM t JOIN (SELECT u AS v FROM t) w ON w.v = t.u AND ({e}) IS NULL",
    "GROUP BY": "SELECT count(*) FROM t GROUP BY {e}",
    "ORDER BY": "SELECT u FROM t ORDER BY {e}, u",
    "HAVING": "SELECT u FROM t GROUP BY u HAVING max({e}) IS NOT NULL",
    "CASE": "SELECT u, CASE WHEN ({e}) IS NULL THEN 1 ELSE 2 END FROM t ORDER BY u",
    "window": "SELECT u, row_number() OVER (PARTITION BY u ORDER BY {e}) FROM t ORDER BY u",
    "subquery": "SELECT count(*) FROM (SELECT u, {e} AS y FROM t) WHERE y IS NOT NULL",
}


@dataclass
class Report:
    """The cases that were run, and the failures."""

    cases: int = 0
    terms: int = 0
    refused: int = 0
    judged: int = 0
    failures: list[str] = field(default_factory=list)

    def fail(self, what: str, sql: str, why: object) -> None:
        self.failures.append(f"{what}: {sql[:300]}: {str(why).splitlines()[0][:200]}")


Judge = Callable[[duckdb.DuckDBPyConnection, Term], str | None]
"""Says how what DuckDB has for the rows of `t` is wrong, "" if it is right; None: unknown."""


class Bench:
    """Two databases with a table of extreme values: statistics on, and as stores have them.

    Args:
        report: The cases that were run.
        judges: Checks for every term.
    """

    def __init__(self, report: Report, *judges: Judge) -> None:
        self.report, self.judges = report, judges
        self.reader = ExpressionReader(self._of, self._constant)
        self._con = connect()
        self.databases = [duckdb.connect(), connect()]
        self._known: dict[str, object] = {}

    def _of(self, column: exp.Column) -> Term:
        name = column.name
        return Term(_BY_NAME[name].type, f'"{name}"', column=ColumnId("t", name))

    def _constant(self, sql: str) -> object:
        if sql not in self._known:
            ((self._known[sql],),) = self._con.sql(f"SELECT {sql}").fetchall()
        return self._known[sql]

    def read(self, text: str) -> Term | None:
        """Return a term from its text; None if it is refused, which is a public fact."""
        try:
            tree = sqlglot.parse_one(f"SELECT {text}", dialect=Dialect)
            return self.reader.read(tree.expressions[0])
        except (QueryRefused, sqlglot.ParseError):
            self.report.refused += 1
            return None

    def fill(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Put rows of values into the table: one person a row."""
        listed = ", ".join(f"({u}, {', '.join(row)})" for u, row in enumerate(rows))
        casts = ", ".join(f"CAST({c.name} AS {c.sql}) AS {c.name}" for c in columns)
        names = ", ".join(c.name for c in columns)
        made = f"SELECT CAST(u AS INTEGER) AS u, {casts} FROM (VALUES {listed}) AS v(u, {names})"
        for con in self.databases:
            con.execute(f"CREATE OR REPLACE TABLE t AS {made}")

    def judge(self, what: str, terms: Sequence[Term]) -> None:
        """Have the judges say whether DuckDB has the right values."""
        for term, judge in itertools.product(terms, self.judges):
            found = judge(self.databases[1], term)
            self.report.judged += found is not None
            if found:
                self.report.fail(f"{what}: DuckDB has another value", term.sql, found)

    def run(self, what: str, sql: str) -> list[list[tuple[object, ...]]]:
        """Run SQL on both; nothing may raise, and both say the same."""
        results = []
        for con in self.databases:
            self.report.cases += 1
            try:
                results.append(con.execute(sql).fetchall())
            except Exception as error:
                self.report.fail(what, sql, error)
        if len(results) == 2 and _sorted(results[0]) != _sorted(results[1]):
            self.report.fail(f"{what}: statistics change it", sql, results)
        return results


def _sorted(rows: Sequence[tuple[object, ...]]) -> list[str]:
    """Return rows in one order: groups and joins come in any."""
    return sorted(map(repr, rows))


def variants(f: Function) -> Iterator[tuple[Column, ...]]:
    """Yield columns of the types that an overload takes."""
    groups = [[c for c in COLUMNS if c.type.family is family] for family in f.takes]
    if len(groups) >= 3:
        groups = [g[:2] for g in groups]
    yield from itertools.product(*groups)


def written(f: Function, columns: Sequence[Column]) -> list[str]:
    """Return the texts of a function of columns, one for each constant that it needs."""
    if not f.fixed:
        return [f.form.format(*(c.name for c in columns))]
    texts = []
    for constants in f.samples:
        parts = [c.name for c in columns]
        for i, constant in zip(f.fixed, constants, strict=True):
            parts[i] = constant
        texts.append(f.form.format(*parts))
    return texts


def exhaust(
    bench: Bench,
    positions: Iterable[str],
    rows: int = 60,
    seed: int = 1,
    others: int = 1,
    step: int = 1,
) -> None:
    """Run every overload on combinations of extreme values, in every position.

    Args:
        rows: Largest number of combinations at once.
        others: Casts, comparisons and choices of every n-th pair of types; 0: of none.
        step: Every n-th overload of a function, including its first.
    """
    rng = random.Random(seed)
    for f in FUNCTIONS:
        for columns in list(variants(f))[::step]:
            distinct = list(dict.fromkeys(columns))
            every = list(itertools.product(*(c.values for c in distinct)))
            bench.fill(distinct, rng.sample(every, rows) if len(every) > rows else every)
            for text in written(f, columns):
                _everywhere(bench, f.name, text, positions)
    if others:
        _others(bench, positions, others)


def _others(bench: Bench, positions: Iterable[str], step: int) -> None:
    """Casts, comparisons and choices, which take many types."""
    for i, (a, b) in enumerate(itertools.product(COLUMNS, COLUMNS)):
        if i % step == 0 or a is b:
            both = list(dict.fromkeys((a, b, _BY_NAME["b1"])))
            most = max(len(c.values) for c in both)
            rows = [
                [c.values[(i * k) % len(c.values)] for c in both]
                for k in (1, 2, 3)
                for i in range(most)
            ]
            bench.fill(both, rows)
            texts = [form.format(a.name, b.name, a.name) for _, form, _ in FORMS]
            texts += [form.format(a.name, b.name, b="b1") for form in CHOICES]
            if a is b:
                texts += [f"CAST({a.name} AS {t})" for t in TARGETS]
            for text in texts:
                _everywhere(bench, "form", text, positions)


def _everywhere(bench: Bench, name: str, text: str, positions: Iterable[str]) -> None:
    term = bench.read(text)
    if term is None:
        return
    bench.report.terms += 1
    for position in positions:
        found = bench.run(f"{name} in {position}", POSITIONS[position].format(e=term.sql))
        if position == "SELECT" and found:
            bench.judge(name, [term])
            _alone(bench, name, term, found[-1])


def _alone(bench: Bench, name: str, term: Term, crowd: Sequence[tuple[object, ...]]) -> None:
    """Compare a row's value alone with its value among others."""
    row = crowd[len(crowd) // 2]
    sql = f"SELECT u, CAST({term.sql} AS VARCHAR) FROM (FROM t WHERE u = {row[0]})"
    for alone in bench.run(f"{name} alone", sql):
        if alone != [row]:
            bench.report.fail(f"{name}: alone it is {alone}, in the crowd {row}", sql, "")


_TYPE_OF = {
    Family.BOOLEAN: BOOL,
    Family.INTEGER: INT,
    Family.DECIMAL: FLOAT,
    Family.DOUBLE: FLOAT,
    Family.TEXT: TEXT,
    Family.DATE: DATE,
    Family.TIMESTAMP: TIME,
    Family.TIME: CLOCK,
    Family.UUID: UUID,
    Family.LIST: "list",
}


def nest(bench: Bench, terms: int, seed: int) -> None:
    """Run random nested terms, some at once; those that fail together are run apart."""
    rng = random.Random(seed)
    expressions, done = Expressions(rng, functions(), {}), 0
    columns: dict[str, list[str]] = {}
    for column in COLUMNS:
        columns.setdefault(_TYPE_OF[column.type.family], []).append(column.name)
    while done < terms:
        rows = [[rng.choice(c.values) for c in COLUMNS] for _ in range(rng.choice((1, 2, 7)))]
        bench.fill(COLUMNS, rows)
        for _ in range(12):
            texts = [
                expressions.term(rng.choice(TYPES), columns, rng.choice((1, 2, 3, 4))).sql
                for _ in range(25)
            ]
            read = [t for t in map(bench.read, texts) if t is not None and len(t.sql) < 20_000]
            done += len(read)
            bench.report.terms += len(read)
            _batch(bench, read, rng)


def _batch(bench: Bench, terms: list[Term], rng: random.Random) -> None:
    if not terms:
        return
    position = rng.choice(("SELECT", "WHERE"))
    if position == "SELECT":
        sql = "SELECT u, " + ", ".join(f"CAST({t.sql} AS VARCHAR)" for t in terms)
        sql += " FROM t ORDER BY u"
    else:
        sql = "SELECT u FROM t WHERE " + " OR ".join(f"({t.sql}) IS NULL" for t in terms)
        sql += " ORDER BY u"
    bench.judge("nested", terms)
    before = len(bench.report.failures)
    found = bench.run("nested", sql)
    bench.report.cases += 2 * (len(terms) - 1)
    if len(bench.report.failures) > before and len(terms) > 1:
        del bench.report.failures[before:]
        for half in (terms[: len(terms) // 2], terms[len(terms) // 2 :]):
            _batch(bench, half, rng)
    elif position == "SELECT" and found and found[-1]:
        row = rng.choice(found[-1])
        one = sql.replace(" FROM t ORDER BY u", f" FROM (FROM t WHERE u = {row[0]})")
        for alone in bench.run("nested alone", one):
            if alone != [row]:
                bench.report.fail("nested: another value alone than in the crowd", one, alone)


@click.command()
@click.option("--terms", default=200_000, show_default=True, help="Nested terms to try.")
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The last line as an object.")
def main(terms: int, seed: int, as_json: bool) -> None:
    """Try every function on extreme values, and random terms of them."""
    start, report = time.perf_counter(), Report()
    bench = Bench(report)
    exhaust(bench, POSITIONS)
    flat = report.cases
    click.echo(f"every function: {report.terms:,} terms, {flat:,} cases", err=True)
    nest(bench, terms, seed)
    for failure in report.failures[:40]:
        click.echo(failure)
    seconds = round(time.perf_counter() - start)
    figures = {
        "functions": len(FUNCTIONS),
        "terms": report.terms,
        "cases": report.cases,
        "refused": report.refused,
        "cases_of_single_functions": flat,
        "failures": len(report.failures),
        "seconds": seconds,
    }
    shown = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in figures.items())
    click.echo(json.dumps(figures) if as_json else shown)
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
