"""A mask is NumPy's bool, everywhere; three-valued logic is SQL's."""

from __future__ import annotations

import ast
import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from second_evaluator import operations
from second_evaluator.interpreter import Judge
from second_evaluator.operations import ALL, OPERATIONS, Vector, kernel_of

import sparseq
from sparseq.compiled import as_mask, bits_as, select
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.question.plan import Options, calibrate

ROOMS = ("engine", "compiled", "stream")
SPARSEQ = Path(sparseq.__file__).parent
CONDITIONS = (
    "DATE '2024-01-01' NOT BETWEEN DATE '2020-01-01' AND until",
    "DATE '2024-01-01' BETWEEN until AND DATE '2030-01-01'",
    "NOT (DATE '2024-01-01' <> DATE '2020-01-01' AND until > DATE '2020-01-01')",
    "DATE '2024-01-01' IS DISTINCT FROM DATE '2020-01-01' AND until < DATE '2022-01-01'",
    "DATE '2024-01-01' NOT IN (DATE '2020-01-01', until)",
    "NOT (5 <> 5) AND NOT (1 = 2 AND until IS NULL)",
    "CASE WHEN NOT (2 > 3) THEN until END < DATE '2022-01-01'",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_one_null_changes_one_row(condition: str) -> None:
    """An analyst could have read from everybody's answer that one person has a NULL."""
    people, day = 3_000, dt.date(2021, 1, 1)
    found = []
    for until in ([], [None]):
        table = pa.table(
            {
                "who": pa.array(range(people + len(until)), pa.int64()),
                "until": pa.array([day] * people + until, pa.date32()),
            }
        )
        with sparseq.create(None, {"t": table}, user="who", seed=1) as con:
            plan = calibrate(
                con.lower(f"SELECT count(*) AS n FROM t WHERE {condition}"),
                con.guarantee,
                Options(sigma=8.0),
            )
            (ours,) = con.stream.engine.contributions(plan, con.stream.people.inside()).measures
            (right,) = Judge(con).contributions(plan).measures
            assert ours.totals.tolist() == right.totals.tolist()
            assert not con.stream.engine.take_failures()
            norms = np.zeros(people + 1, np.int64)
            norms[ours.users] = ours.norms
            found.append((norms[:people].tolist(), int(ours.totals[0]) - int(norms[people])))
    assert found[0] == found[1]


VALUES = (True, False, None)
FORMS = {
    "and": ("{0} AND {1}", 2),
    "or": ("{0} OR {1}", 2),
    "not": ("NOT {0}", 1),
    "=": ("{0} = {1}", 2),
    "<>": ("{0} <> {1}", 2),
    "<": ("{0} < {1}", 2),
    "is true": ("{0} IS TRUE", 1),
    "is false": ("{0} IS FALSE", 1),
    "is null": ("{0} IS NULL", 1),
    "IS DISTINCT FROM": ("{0} IS DISTINCT FROM {1}", 2),
    "IS NOT DISTINCT FROM": ("{0} IS NOT DISTINCT FROM {1}", 2),
    "between": ("{0} BETWEEN {1} AND {2}", 3),
    "in": ("{0} IN ({1}, {2})", 3),
    "case": ("CASE WHEN {0} THEN {1} ELSE {2} END", 3),
    "coalesce": ("coalesce({0}, {1})", 2),
}


@pytest.mark.parametrize("name", FORMS)
def test_truths_are_those_of_sql(name: str) -> None:
    """Of every mix of constants and columns; DuckDB says what is right."""
    form, count = FORMS[name]
    kernel = kernel_of(
        Term(T.BOOLEAN, "", function=name, arguments=(Term(T.BOOLEAN, "b"),) * count)
    )
    assert kernel is not None
    every = list(itertools.product(VALUES, repeat=count))
    con = duckdb.connect()
    right = [
        con.execute(f"SELECT {form.format(*map(_sql, values))}").fetchall()[0][0]
        for values in every
    ]
    for constants in itertools.product((False, True), repeat=count):
        for values, wanted in zip(every, right, strict=True):
            found = kernel(*map(_vector, values, constants))
            assert found.known.dtype == found.values.dtype == np.bool_
            known, value = np.all(found.known), np.all(found.values)
            assert (bool(value) if known else None) is wanted, (name, values, constants)
            assert known or not np.any(found.values)


def _sql(value: bool | None) -> str:
    return "CAST(NULL AS BOOLEAN)" if value is None else str(value)


def _vector(value: bool | None, constant: bool) -> Vector:
    if constant:
        return Vector(np.bool_(value), np.bool_(value is not None))
    if value is None:
        return Vector(np.array([True, False]), np.zeros(2, np.bool_))
    return Vector(np.full(2, value), ALL)


@pytest.mark.parametrize("wrong", [True, 1, -2, np.int64(-2), np.ones(3, np.int8), [True], None])
def test_what_is_no_mask_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        as_mask(wrong)
    with pytest.raises(TypeError):
        Vector(np.ones(3), wrong)
    with pytest.raises(TypeError):
        select(np.ones(3), wrong)


@pytest.mark.parametrize("wrong", [True, 7, 1.5, None, np.array([None]), np.array(["a"])])
def test_values_are_of_numpy(wrong: Any) -> None:
    with pytest.raises(TypeError):
        Vector(wrong)


def test_whole_numbers_stay_whole() -> None:
    """Beside int64 NumPy would make doubles of uint64, which end at 2^53."""
    most = 2**63 - 1
    big = Vector(np.array([most, 0], np.uint64))
    found = operations.chosen(np.array([True, False]), big, Vector(np.int64(-1)))
    assert found.values.tolist() == [most, -1]


def test_bits_are_read_as_what_they_are() -> None:
    assert bits_as(np.array([True]), np.bool_, np.uint8).tolist() == [1]
    for array, of, kind in (
        (np.ones(2, np.int64), np.bool_, np.uint8),
        (np.ones(2, np.bool_), np.bool_, np.int64),
        (np.ones(2, np.uint64), np.signedinteger, np.uint64),
    ):
        with pytest.raises(TypeError):
            bits_as(array, of, kind)


def test_a_kernel_gives_what_its_term_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is entered: a result of another type is refused where it is made."""
    wrong = lambda _: lambda a: Vector(~a.values.astype(np.int64), a.known)  # noqa: E731
    monkeypatch.setitem(OPERATIONS, ("not", (T.Family.BOOLEAN,)), wrong)
    kernel = kernel_of(Term(T.BOOLEAN, "", function="not", arguments=(Term(T.BOOLEAN, "b"),)))
    assert kernel is not None
    with pytest.raises(TypeError, match="BOOLEAN is held as int64"):
        kernel(Vector(np.array([True])))


def test_no_bytes_are_read_unchecked() -> None:
    """In the rooms that masks go through, arrays are viewed by `bits_as` alone.

    Arrow checks its own views; within compiled loops types are those of the loop.
    """
    found = []
    for room in ROOMS:
        for path in sorted((SPARSEQ / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    of_arrow = "pa." in ast.unparse(node) or "_AS_BYTES" in ast.unparse(node)
                    if node.func.attr == "view" and not of_arrow:
                        found.append(f"{path.relative_to(SPARSEQ)}: {ast.unparse(node)}")
    assert [f.split(": ")[0] for f in found] == [
        *["engine/_duckdb/wanted_columns.py"] * 3,  # 64 bits of a number as 64 bits
        "engine/bin_table.py",  # numbers in the order of their bits
        "engine/kept_numbers.py",
        *["engine/row_mask.py"] * 2,  # whole words of bits, made there
        "compiled/__init__.py",
        "compiled/charge_loops.py",
        "compiled/charge_loops.py",
        "compiled/loops.py",
        "compiled/row_loops.py",
        *["compiled/weights.py"] * 3,
    ], found


def test_masks_of_all_are_one() -> None:
    """So that `known is ALL` asks for one thing."""
    assert np.bool_(1) is ALL
    assert np.ones(1, np.bool_)[0] is ALL
    assert as_mask(np.array(True)) is ALL
    assert operations.both(ALL, np.False_) is np.False_
