"""Titles before a header are found in each file; what comes of an odd file is right or refused."""

from __future__ import annotations

import datetime as dt
import doctest
import gzip
import io
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from sparseq.base.errors import SparseqError
from sparseq.load import title_rows
from sparseq.load.title_rows import header_by_names
from sparseq.store.curator import exact_sql

JAN = "who;day;x\n1;2024-01-05;3\n2;2024-01-06;4\n"
FEB = "who;day;x\n3;2024-02-05;5\n"
ONE = [(1, dt.date(2024, 1, 5), 3), (2, dt.date(2024, 1, 6), 4)]
BOTH = [*ONE, (3, dt.date(2024, 2, 5), 5)]
TEXTS = [(str(who), *rest) for who, *rest in ONE]
ALL_TEXTS = [tuple(line.split(";")) for line in JAN.splitlines()[1:]]
TITLE = "Visits, printed for the board\n"
UTF8_MARK = b"\xef\xbb\xbf"


class Case(NamedTuple):
    """Files, what is declared of them, and what comes of it.

    `rows` are those of the store; a text is a part of the error.
    """

    files: tuple[bytes | str, ...]
    rows: list[Any] | str
    csv: dict[str, Any] | None = None
    says: str = ""
    names: tuple[str, ...] = ("a.csv", "b.csv", "c.csv")
    more: dict[str, Any] | None = None


def book(*rows: list[Any]) -> bytes:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made) as file:
        sheet = file.add_worksheet()
        for k, row in enumerate(rows):
            sheet.write_row(k, 0, row)
    return made.getvalue()


PASSED = "before its header was passed over"
CASES = {
    "a title": Case((TITLE + JAN,), ONE, says=PASSED),
    "two titles": Case((TITLE + "for 2024\n" + JAN,), ONE, says="the 2 lines with titles"),
    "nine titles": Case(("".join(f"line {k}\n" for k in range(9)) + JAN,), ONE, says="9 lines"),
    "a title in the first file only": Case((TITLE + JAN, FEB), BOTH, says=PASSED),
    "a title in the second file only": Case((JAN, TITLE + FEB), BOTH, says="b.csv: the line"),
    "titles of different length": Case((TITLE + JAN, TITLE * 3 + FEB), BOTH, says="3 lines"),
    "declared, and in one file only": Case((TITLE + JAN, FEB), BOTH, {"skip": 1}),
    "declared for the other file": Case((JAN, TITLE + FEB), BOTH, {"skip": 1}),
    "declared one too many": Case((TITLE + JAN,), ONE, {"skip": 2}, PASSED),
    "declared one too few": Case((TITLE * 3 + JAN,), ONE, {"skip": 2}, "3 lines"),
    "declared as it is": Case((TITLE * 2 + JAN,), ONE, {"skip": 2}),
    "declared where there is none": Case((JAN,), ONE, {"skip": 4}),
    "a title, then empty lines": Case((TITLE + "\n\n\n" + JAN,), ONE, says=PASSED),
    "empty lines, then a title": Case(("\n\n" + TITLE + JAN,), ONE, says=PASSED),
    "a title with separators at its end": Case(("Visits;;\n" + JAN,), ONE, says=PASSED),
    "a line of separators": Case(("Visits;;\n;;\n" + JAN,), ONE, says="2 lines"),
    "a title with a comma": Case(("Visits, 2024, all\n" + JAN,), ONE, says=PASSED),
    "a title in quotes": Case(('"Visits; all"\n' + JAN,), ONE, says=PASSED),
    "a title with a name of a column": Case(("day\n" + JAN,), ONE, says=PASSED),
    "a title and a mark of UTF-8": Case((UTF8_MARK + (TITLE + JAN).encode(),), ONE, says=PASSED),
    "a mark after the title": Case((TITLE.encode() + UTF8_MARK + JAN.encode(),), ONE, says=PASSED),
    "a mark in one file only": Case((UTF8_MARK + (TITLE + JAN).encode(), FEB), BOTH, says=PASSED),
    "UTF-16": Case(((TITLE + JAN).encode("utf-16"),), ONE, says=PASSED),
    "cp1252": Case(
        ("Übersicht der Fälle\nwho;Straße\n1;Königsweg\n2;Höhe\n".encode("cp1252"),),
        [(1, "Königsweg"), (2, "Höhe")],
        says="cp1252",
    ),
    "Windows": Case(((TITLE + JAN).replace("\n", "\r\n"),), ONE, says=PASSED),
    "old Mac": Case(((TITLE + JAN).replace("\n", "\r"),), ONE, says=PASSED),
    "packed": Case((gzip.compress((TITLE + JAN).encode()),), ONE, names=("a.csv.gz",), says=PASSED),
    "tabs": Case(((TITLE + JAN).replace(";", "\t"),), ONE, names=("a.tsv",), says=PASSED),
    "bars": Case(((TITLE + JAN).replace(";", "|"),), ONE, says=PASSED),
    "commas, and commas in the title": Case(((TITLE + JAN).replace(";", ","),), ONE, says=PASSED),
    "a line for Excel before the title": Case(("sep=;\n" + TITLE + JAN,), ONE, says=PASSED),
    "a line for Excel after the title": Case((TITLE + "sep=;\n" + JAN,), ONE, says=PASSED),
    "other order in the second file": Case(
        (TITLE + JAN, TITLE + "x;who;day\n5;3;2024-02-05\n"), BOTH, says=PASSED
    ),
    "other separator in the second file": Case(
        (TITLE + JAN, TITLE + FEB.replace(";", ",")), BOTH, says=PASSED
    ),
    "mixed widths": Case(
        (TITLE + JAN + "4;2024-01-07\n5;2024-01-08;6;7\n",),
        [*ONE, (4, dt.date(2024, 1, 7), None)],
        says="too many values",
    ),
    "an escape": Case(
        (TITLE + 'who;w\n1;"say \\"hi\\""\n2;b\n',), [(1, 'say "hi"'), (2, "b")], {"escape": "\\"}
    ),
    "a footer with the number of rows": Case(
        (TITLE + JAN + "(2 rows)\n",),
        ONE,
        more={"types": {"who": "BIGINT"}},
        says="they name no user",
    ),
    "a footer with a total": Case(
        (TITLE + JAN + "Total;;7\n",), ONE, {"null": ["Total", "NULL"]}, "they name no user"
    ),
    "a total that nobody declared": Case(
        (TITLE + JAN + "Total;;7\n",),
        [*TEXTS, ("Total", None, 7)],
        says="Total",
    ),
    "two tables below each other": Case(
        (JAN + "\nwho;day;x\n9;2024-03-01;8\n",),
        [*ALL_TEXTS, ("9", "2024-03-01", "8"), ("who", "day", "x")],
    ),
    "a row like the header": Case((JAN + "who;day;x\n",), [*ALL_TEXTS, ("who", "day", "x")]),
    "a title of two cells": Case(("from;2024\n" + JAN,), ONE, says=PASSED),
    "a title as wide as the table": Case(("a;b;c\n" + JAN,), ONE, says=PASSED),
    "more titles than are looked through": Case((TITLE * 30 + JAN,), "has no column 'who'"),
    "more titles, declared": Case((TITLE * 30 + JAN,), ONE, {"skip": 30}),
    "only titles": Case((TITLE * 3,), "has no column 'who'"),
    "only a header below a title": Case((TITLE + "who;day\n",), [], says=PASSED),
    "an unknown user column": Case((TITLE + JAN,), "it has who, day, x", more={"user": "patient"}),
    "a user column that is renamed": Case(
        (TITLE + JAN.replace("who", "N° patient"),),
        ONE,
        says=PASSED,
        more={"rename": {"N° patient": "who"}},
    ),
    "capitals": Case((TITLE + JAN.replace("who", "WHO"),), ONE, says=PASSED),
    "spaces in the header": Case((TITLE + JAN.replace("who;", " who ;"),), ONE, says=PASSED),
    "a workbook": Case(
        (book(["Visits"], [], ["who", "x"], [1, 3], [2, 4]),),
        [(1, 3), (2, 4)],
        names=("a.xlsx",),
        says=PASSED,
    ),
    "a workbook without titles, declared": Case(
        (book(["who", "x"], [1, 3]),), [(1, 3)], {"skip": 1}, names=("a.xlsx",)
    ),
}


def test_there_are_enough() -> None:
    assert len(CASES) >= 50


@pytest.mark.parametrize("name", one_in(3, CASES))
def test_an_odd_file_is_right_or_refused(tmp_path: Path, name: str) -> None:
    """Every third is always run; the others are deep."""
    case = CASES[name]
    paths = [tmp_path / called for called in case.names[: len(case.files)]]
    for path, data in zip(paths, case.files, strict=True):
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    words = {"user": "who", "csv": case.csv or {}, **(case.more or {})}
    files = {"t": [str(p) for p in paths]}
    if isinstance(case.rows, str):
        with pytest.raises(SparseqError, match=case.rows) as caught:
            sparseq.create(None, files, **words)
        assert caught.value.hint
        return
    store = sparseq.create(None, files, **words)
    found = [tuple(row.values()) for row in exact_sql(store, "SELECT * FROM t").to_pylist()]
    assert sorted(found, key=repr) == sorted(case.rows, key=repr)
    assert case.says in "\n".join(store.curator_notes())


def test_a_later_file_has_titles_of_its_own(tmp_path: Path) -> None:
    """The names are known then: no row decides where the header is."""
    (tmp_path / "a.csv").write_text(JAN)
    store = sparseq.create(None, {"t": str(tmp_path / "a.csv")}, user="who")
    (tmp_path / "b.csv").write_text(TITLE * 2 + FEB)
    assert store.ingest(tmp_path / "b.csv") == 1
    (tmp_path / "c.csv").write_text("day;x\n2024-01-05;3\nwho;day;x\n9;2024-01-06;3\n")
    with pytest.raises(SparseqError, match="no column 'who'"):  # a row is never a header
        store.ingest(tmp_path / "c.csv")


CELLS = st.lists(st.sampled_from(["", "a", "who", "day", "Visits"]), min_size=1, max_size=6)


@given(st.lists(CELLS, min_size=1, max_size=8), st.lists(CELLS, max_size=8))
def test_rows_below_the_header_never_decide(above: list[list[str]], below: list[list[str]]) -> None:
    """Where a header with the names is found, nothing after it changes its place."""
    place = header_by_names(above, ["who"], ["day"])
    if place is not None:
        assert header_by_names([*above[: place + 1], *below], ["who"], ["day"]) == place


@given(st.lists(CELLS, max_size=4), CELLS, st.lists(CELLS, max_size=8))
def test_no_row_is_taken_for_a_header(
    titles: list[list[str]], header: list[str], below: list[list[str]]
) -> None:
    """Below a header with any of the names, whatever it lacks, no row is one."""
    if not {"who", "day"} & set(header):
        return
    place = header_by_names([*titles, header, *below], ["who"], ["day"])
    assert place is None or place <= len(titles)


def test_docstring_examples() -> None:
    assert doctest.testmod(title_rows).failed == 0
