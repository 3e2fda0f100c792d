"""No expression fails on a row: every function of the table, on extreme values, and nested terms.

The whole of it, in every position and with 200,000 nested terms, is `python -m benchmarks.total`.
Here every function runs in the positions that DuckDB plans differently, and some thousand terms.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest
from second_evaluator.interpreter import Program, Unwritable, Writer, carried_out, values_of
from second_evaluator.operations import Vector

from benchmarks.functions_page import page
from benchmarks.total import COLUMNS, POSITIONS, Bench, Report, exhaust, nest, variants, written
from sparseq.language import functions
from sparseq.language.expression_tree import Term
from sparseq.language.functions import FUNCTIONS
from sparseq.sql import catalog

TABLE = catalog.Table("t", tuple(catalog.Column(c.name, c.sql) for c in COLUMNS), "u")
DOCS = Path(__file__).resolve().parents[2] / "docs"


def oracle(con: duckdb.DuckDBPyConnection, term: Term) -> str | None:
    """Say how what DuckDB has is not the oracle's, to the last bit: of all rows, and of one."""
    writer = Writer(TABLE)
    try:
        step = writer.step(term)
    except Unwritable:
        return None
    program = Program(tuple(writer.steps), (), (step,), ())
    names = {i: leaf.column for i, leaf in program.leaves.items()}
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
    nest(Bench(report, oracle), terms, seed=7)
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
    monkeypatch.setattr("benchmarks.total.FUNCTIONS", [raising])
    report = Report()
    exhaust(Bench(report), ["SELECT"], rows=12, others=0)
    assert report.failures


def test_the_page_is_made_from_the_table() -> None:
    assert (DOCS / "functions.md").read_text() == page()
    assert set(POSITIONS) >= {"SELECT", "WHERE", "JOIN ON", "GROUP BY", "ORDER BY", "HAVING"}
