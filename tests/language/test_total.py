"""No expression fails on a row: every function of the table, on extreme values, and nested terms.

The whole of it, in every position and with 200,000 nested terms, is `python -m checks.total`.
Here every function runs in the positions that DuckDB plans differently, and some thousand terms.
"""

from __future__ import annotations

from itertools import islice, product
from pathlib import Path

import duckdb
import numpy as np
import pytest
from second_evaluator.interpreter import Program, Unwritable, Writer, carried_out, values_of
from second_evaluator.operations import Vector

from checks.functions_page import page
from checks.total import COLUMNS, POSITIONS, Bench, Report, exhaust, nest, variants, written
from sparseq.language import functions
from sparseq.language.expression_tree import ARITHMETIC, PLAIN, Term, may_be_null
from sparseq.language.functions import FUNCTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def oracle(con: duckdb.DuckDBPyConnection, term: Term) -> str | None:
    """Say how what DuckDB has is not the oracle's, to the last bit: of all rows, and of one."""
    writer = Writer()
    try:
        step = writer.step(term)
    except Unwritable:
        return None
    program = Program(tuple(writer.steps), (), (step,), ())
    if any(leaf.said for leaf in program.leaves.values()):
        return None  # what SQL says of each text is DuckDB's, too
    names = {i: leaf.column.name for i, leaf in program.leaves.items()}
    columns = ", ".join([f"({term.sql})", *(f'"{name}"' for name in names.values())])
    table = con.sql(f"SELECT {columns} FROM t ORDER BY u").to_arrow_table()
    for rows in (table, table.slice(len(table) // 2, 1)):
        theirs, *read = map(values_of, rows.columns)
        found = carried_out(program, dict(zip(names, read, strict=True)), len(rows))[step]
        if not alike(found, theirs):
            return f"{found} and not {theirs}"
    return ""


def alike(a: Vector, b: Vector) -> bool:
    """Tell whether two vectors are the same, where they are known, with all NaN being one."""
    length = len(b.values)
    x, known = np.broadcast_to(a.values, length), np.broadcast_to(a.known, length)
    if not np.array_equal(known, np.broadcast_to(b.known, length)):
        return False
    x, y = x[known], b.values[known]
    same = (x == y) & (np.signbit(x) == np.signbit(y)) | (x != x) & (y != y)
    return bool(np.all(same if x.dtype.kind == "f" else x == y))


def parts_of(term: Term) -> list[Term]:
    return [term, *(part for argument in term.arguments for part in parts_of(argument))]


def lacking(con: duckdb.DuckDBPyConnection, term: Term) -> str | None:
    """Say on which rows a term is NULL that is said to have a value where its columns have one."""
    parts = parts_of(term)
    columns = {part.sql for part in parts if part.column is not None}
    known = may_be_null(term, lambda part: part.sql in columns)
    if known or any(p.function.partition(" ")[0] in ARITHMETIC for p in parts):
        return None  # where 64 bits do not hold a number, it is NULL
    if any(p.function in PLAIN for p in parts):
        return None
    where = " AND ".join(f"{c} IS NOT NULL" for c in columns) or "true"
    found = con.sql(f"SELECT * FROM t WHERE {where} AND ({term.sql}) IS NULL").fetchall()
    return f"it is NULL on {found[:2]}" if found else ""


@pytest.mark.parametrize(
    ("positions", "rows", "others", "step"),
    [
        (["SELECT"], 4, 480, 6),
        pytest.param(["SELECT"], 4, 120, 2, marks=pytest.mark.deep),
        pytest.param(["SELECT", "WHERE"], 60, 1, 1, marks=pytest.mark.deep),
    ],
)
def test_every_function_has_a_value_for_every_value(
    positions: list[str], rows: int, others: int, step: int
) -> None:
    report = Report()
    exhaust(Bench(report, oracle), positions, rows=rows, others=others, step=step)
    assert report.failures == []
    assert report.cases > 1_000
    assert report.judged > 100


@pytest.mark.parametrize(
    ("step", "number", "rows"), [(4, 1, 60), pytest.param(1, 4, 600, marks=pytest.mark.deep)]
)
def test_a_function_says_whether_it_may_be_null(step: int, number: int, rows: int) -> None:
    """Of every so many-th function, of columns of other types, and of rows of extreme values."""
    bench = Bench(Report(), lacking)
    for f in FUNCTIONS[::step]:
        for columns in islice(variants(f), number):
            distinct = list(dict.fromkeys(columns))
            every = product(*(c.values[::-1] for c in distinct))
            bench.fill(distinct, list(islice(every, rows)))
            texts = written(f, columns)
            bench.judge(f.name, [t for text in texts if (t := bench.read(text)) is not None])
    assert bench.report.failures == []
    assert bench.report.judged > 150 * number // step


TARGETS = (
    "TINYINT",
    "UTINYINT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "VARCHAR",
)


def test_a_cast_says_whether_a_value_may_not_fit() -> None:
    """Both ways: a cast that is said to be NULL at times is, for a type that has such values."""
    bench, judged = Bench(Report(), lacking), 0
    for column in COLUMNS:
        bench.fill([column], [[value] for value in column.values])
        terms = [
            term
            for word in ("CAST", "TRY_CAST")
            for target in TARGETS
            if (term := bench.read(f"{word}({column.name} AS {target})")) is not None
        ]
        bench.judge("a cast", terms)
        judged += len(terms)
    assert bench.report.failures == []
    assert judged > 200
    assert bench.report.judged > 50


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.deep)])
def test_a_function_of_null_is_null(step: int) -> None:
    """Of any argument that a text has; but for the two that ask. Of every so many-th variant."""
    bench, cases = Bench(Report()), 0
    for f in FUNCTIONS:
        if f.name in ("is true", "is false"):
            continue
        for columns in list(variants(f))[::step]:
            distinct = list(dict.fromkeys(columns))
            some = [c.values[1] for c in distinct]
            for i, column in enumerate(distinct):
                bench.fill(distinct, [["NULL" if k == i else v for k, v in enumerate(some)]] * 2)
                for text in written(f, columns):
                    term = bench.read(text)
                    if term is not None and column.name in text:
                        (one, other) = bench.run(f.name, f"SELECT {term.sql} FROM t")[1]
                        assert one == other == (None,), text
                        cases += 1
    assert cases > 1_500 // step


@pytest.mark.parametrize("terms", [150, pytest.param(5000, marks=pytest.mark.deep)])
def test_nested_terms_have_a_value_for_every_value(terms: int) -> None:
    report = Report()
    nest(Bench(report, oracle, lacking), terms, seed=7)
    assert report.failures == []
    assert report.terms >= terms
    assert report.judged > terms // 10


def test_a_function_that_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check has power: one function without its guard fails it."""
    plain = next(f for f in FUNCTIONS if f.name == "//" and f.takes[0] == "integer")
    raising = functions.Function(
        plain.name, plain.form, plain.takes, plain.gives, lambda _: "({0} // {1})", plain.meaning
    )
    monkeypatch.setitem(functions._BY_NAME, "//", [raising])
    monkeypatch.setattr("checks.total.FUNCTIONS", [raising])
    report = Report()
    exhaust(Bench(report), ["SELECT"], rows=12, others=0)
    assert report.failures


def test_the_page_is_made_from_the_table() -> None:
    assert (DOCS / "functions.md").read_text() == page()
    assert set(POSITIONS) >= {"SELECT", "WHERE", "JOIN ON", "GROUP BY", "ORDER BY", "HAVING"}
