"""Nothing is silent: what is read otherwise than a file has it is said, by column, at the time."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparseq
from checks.stores import made_store
from sparseq.base.errors import DataError, ParameterError
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations
from sparseq.store.curator import exact_sql

DAYS = [f"{1 + i % 12:02}.{1 + i % 12:02}.2023" for i in range(30)]


def csv(path: Path, header: str, lines: list[str], encoding: str = "utf-8") -> Path:
    path.write_bytes("\n".join([header, *lines, ""]).encode(encoding))
    return path


def made(source: Any, **options: Any) -> tuple[pa.Table, list[str]]:
    """Return the rows that a store has, and what its curator was told."""
    with made_store(None, source, user="who", table="t", seed=1, **options) as con:
        return stored(con), con.curator_notes()


def stored(con: sparseq.Store) -> pa.Table:
    return exact_sql(con, "SELECT * FROM t")


@pytest.mark.parametrize(
    ("texts", "type", "format"),
    [
        (["02.01.2023", "31.12.2023"], "DATE", "%d.%m.%Y"),
        (["2.1.23", "31.12.23"], "DATE", "%d.%m.%y"),
        (["02.01.2023 13:45", "31.12.2023 08:00"], "TIMESTAMP", "%d.%m.%Y %H:%M"),
        (["1.234,5", "12", "1.234.567"], "DOUBLE", ","),
        (["02.01", "3.5"], "DOUBLE", ""),
        (["02.01.2023", "02.01.2023 13:45"], "VARCHAR", ""),
        (["1.2.3", "4.5.6"], "DATE", "%d.%m.%y"),
        (["1.2.3.4", "10.0.0.1"], "VARCHAR", ""),
        (["12.34,5"], "VARCHAR", ""),
    ],
    ids=str,
)
def test_points_are_thousands_only_between_three_digits(
    tmp_path: Path, texts: list[str], type: str, format: str
) -> None:
    path = csv(tmp_path / "a.csv", "who;x", [f"{i};{t}" for i, t in enumerate(texts)])
    rows = IncomingRows(path, declared=Declarations(), user="who")
    assert (rows.schema.types["x"], rows.schema.formats.get("x", "")) == (type, format)


def test_a_date_is_no_number_where_a_comma_is_declared(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "who;x", ["1;02.01.2023", "2;1.234,5", "3;1.5", "4;7"])
    rows, told = made(path, types={"x": "DOUBLE:,"})
    assert sorted(rows["x"].drop_null().to_pylist()) == [7.0, 1234.5]
    assert any("2 values did not fit" in note for note in told)


def test_the_format_of_dates_is_public_and_fixed(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "who;x", [f"{i};{d}" for i, d in enumerate(DAYS)])
    with sparseq.create(None, {"t": path}, user="who", seed=1) as con:
        assert con.schema().formats == {"x": "%d.%m.%Y"}
        assert "t: x: read as %d.%m.%Y: the day comes first" in con.curator_notes()
        con.ingest(csv(tmp_path / "b.csv", "who;x", ["1;2023-05-04", "2;24.12.2023"]))
        found = stored(con)["x"].to_pylist()
        assert found.count(None) == 1
        assert dt.date(2023, 12, 24) in found
        assert any("1 values did not fit" in note for note in con.curator_notes())


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["02.01.2023", "02.01.2023", "unclear, ask"], "most look like dates"),
        (["1,5", "2,5", "3,5", "about 4"], "most look like numbers"),
        (["1.234", "2.500"], "between thousands"),
        (["1,234", "2,500", "7"], "text: in 1,234 the comma can be a decimal comma"),
        (["1,5", "NA"], "NA: no value (NULL)"),
    ],
)
def test_what_is_doubtful_is_said(tmp_path: Path, texts: list[str], said: str) -> None:
    path = csv(tmp_path / "a.csv", "who;x", [f"{i};{t}" for i, t in enumerate(texts)])
    assert any(said in note for note in made(path)[1])


def test_latin_1_is_said_and_can_be_declared(tmp_path: Path) -> None:
    lines = ["1;Pädiatrie", "2;Chirurgie", "3;Café"]
    path = csv(tmp_path / "a.csv", "who;x", lines, "latin-1")
    rows, told = made(path)
    assert sorted(rows["x"].to_pylist()) == ["Café", "Chirurgie", "Pädiatrie"]
    assert any("text files as cp1252" in note for note in told)
    rows, told = made(path, csv={"encoding": "utf-8"})
    assert rows["x"].drop_null().to_pylist() == ["Chirurgie"]
    assert any("2 lines" in note and "--csv encoding=latin-1" in note for note in told)
    rows, told = made(path, csv={"encoding": "Latin-1"})
    assert sorted(rows["x"].to_pylist()) == ["Café", "Chirurgie", "Pädiatrie"]
    assert not any("NULL" in note for note in told)
    with sparseq.create(None, {"t": path}, user="who", seed=1, csv={"encoding": "cp1252"}) as con:
        con.ingest(csv(tmp_path / "b.csv", "who;x", ["7;Größe €"], "cp1252"))
        assert "Größe €" in stored(con)["x"].to_pylist()


def test_nobody_becomes_somebody_else_by_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "who;x", ["Jörg;1", "Järg;2", "Ann;3"], "latin-1")
    assert sorted(made(path)[0]["who"].to_pylist()) == ["Ann", "Järg", "Jörg"]
    rows, told = made(path, csv={"encoding": "utf-8"})
    assert rows["who"].to_pylist() == ["Ann"]
    assert any("2 of 3 rows were left out" in note for note in told)


def test_a_header_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "who;Größe", ["1;2"], "latin-1")
    assert made(path)[0].column_names == ["who", "Größe"]
    with pytest.raises(DataError, match="header") as refused:
        made(path, csv={"encoding": "utf-8"})
    assert "--csv encoding=latin-1" in refused.value.hint
    assert made(path, csv={"encoding": "latin-1"})[0].column_names == ["who", "Größe"]


@pytest.mark.parametrize("name", ["utf-16", "shift_jis", "rot13", "nothing", "gb18030"])
def test_an_encoding_in_which_rows_could_run_together_is_refused(name: str) -> None:
    with pytest.raises(ParameterError):
        Declarations(encoding=name)


def test_a_second_column_of_one_name_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "who,day,day,Day_2,,DAY", ["1,2,3,4,5,6"])
    rows, told = made(path)
    assert rows.column_names == ["who", "day", "day_3", "Day_2", "DAY_4"]
    assert rows.to_pylist() == [{"who": 1, "day": 2, "day_3": 3, "Day_2": 4, "DAY_4": 6}]
    assert sum("another column" in note for note in told) == 2
    assert any("without a name" in note for note in told)
    table = pa.table([[1], [2], [3]], names=["who", "x", "x"])
    pq.write_table(table, tmp_path / "b.parquet")
    assert any("several columns x" in note.replace("'", "") for note in made(table)[1])
    mixed = pa.table([[1], [2], [3]], names=["who", "x", "X"])
    assert any("X: not stored: there is x" in note.replace("'", "") for note in made(mixed)[1])


def test_objects_within_objects_are_columns(tmp_path: Path) -> None:
    lines = [
        {
            "who": i,
            "patient": {"age": i, "at": {"ward": "a"}},
            "codes": [{"x": 1}],
            "a.b": i,
            "a": {"b": 9, "c.d": {"e": i}},
        }
        for i in range(5)
    ]
    path = tmp_path / "a.jsonl"
    more = [{"who": 9, "patient": 3}, {"who": 8, "a": None}, {"who": 7, "a": {}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
    with pytest.raises(DataError, match="codes has lists") as refused:
        made(path)
    assert "--drop codes" in refused.value.hint
    rows, told = made(path, drop=["codes"])
    names = ["who", "patient.age", "patient.at.ward", "a.b", "a.c.d.e", "patient"]
    assert rows.column_names == names
    found = {row["who"]: row for row in rows.to_pylist()}
    assert [found[i]["patient.age"] for i in range(5)] == list(range(5))
    assert [found[i]["a.b"] for i in range(5)] == list(range(5))
    assert found[2]["patient.at.ward"] == "a"
    assert [found[i]["a.c.d.e"] for i in range(5)] == list(range(5))
    assert found[9]["patient.age"] is None
    assert any(note == "t: codes: left out, as declared" for note in told)


def test_lists_are_made_rows_as_the_hint_says(tmp_path: Path) -> None:
    for text, rows in (
        ('{"who":1,"c":[["a"],["b"]]}\n{"who":2,"c":[]}\n', [(1, ["a"]), (1, ["b"]), (2, None)]),
        ('{"visits":[{"who":1,"item":"a"},{"who":2,"item":null}]}', [(1, "a"), (2, None)]),
    ):
        path = tmp_path / "a.json"
        path.write_text(text)
        with pytest.raises(DataError) as refused:
            made(path)
        sql = refused.value.hint.partition("DuckDB: ")[2].replace("a.json", str(path))
        duckdb.sql(sql.replace("rows.json", str(tmp_path / "rows.json")))
        found, _ = made(tmp_path / "rows.json", drop=["c"] if "c" in text[:14] else [])
        assert sorted(map(tuple, (r.values() for r in found.to_pylist())), key=str) == rows


def test_values_that_are_lists_now_and_then_are_said(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"who":1,"c":"x"}\n{"who":2,"c":["y"]}\n')
    rows, told = made(tmp_path / "a.jsonl")
    assert set(rows["c"].to_pylist()) == {"x", '["y"]'}
    assert any("kept as JSON writes them" in note for note in told)


def test_what_other_kinds_of_files_have_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE t AS SELECT 1 AS who, 5::HUGEINT AS h, INTERVAL 1 DAY AS i,"
            " 'x'::BLOB AS b, [1] AS l, {'a': 1} AS s, 1.5::DECIMAL(30, 2) AS d, [2.5] AS f,"
            " 'a'::ENUM('a') AS e, TIMESTAMP_NS '2024-01-01 00:00:00.000000001' AS n,"
            " '101'::BIT AS z, MAP {1: 2} AS m"
        )
    rows, told = made(f"{path}#t")
    assert rows.select(["l", "f"]).to_pylist() == [{"l": [1], "f": [2.5]}]
    text = "\n".join(told)
    for column in ("i", "b", "s", "m"):
        assert f"t: {column}: not stored: " in text, (column, text)
    assert "nanoseconds" in text
    assert text.count("DOUBLE") == 1, "of the list alone: other decimals keep their digits"
    assert rows.select(["h", "d"]).to_pylist() == [{"h": Decimal(5), "d": Decimal("1.50")}]
    zoned = pa.table({"who": [1], "at": pa.array([0], pa.timestamp("us", "Europe/Berlin"))})
    assert any("Europe/Berlin, kept in UTC" in note for note in made(zoned)[1])
    far = pa.table({"who": [1, 2], "day": pa.array([2**30, 0], pa.date32())})
    assert any("1 values did not fit" in note for note in made(far)[1])


def test_sqlite_text_that_is_no_text_is_said(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.sqlite") as con:
        con.execute("CREATE TABLE t (who INT, x TEXT)")
        con.execute("INSERT INTO t VALUES (1, CAST(X'E4' AS TEXT)), (2, 'a')")
    rows, told = made(tmp_path / "a.sqlite")
    assert set(rows["x"].to_pylist()) == {"a", None}
    assert any("1 line or row has" in note for note in told)


def test_columns_that_a_table_does_not_have_are_said(tmp_path: Path) -> None:
    with sparseq.create(None, {"t": pa.table({"who": [1], "x": [2]})}, user="who", seed=1) as con:
        con.ingest(pa.table({"who": [1], "x": [2], "more": [3]}))
        assert any("does not have: more" in note.replace("'", "") for note in con.curator_notes())


def test_a_public_tables_values_that_do_not_fit_are_said(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "k;v", ["a;1", "b;x"])
    with sparseq.create(
        None,
        {"t": pa.table({"who": [1]})},
        user="who",
        public={"p": path},
        seed=1,
        types={"p": {"k": "VARCHAR", "v": "BIGINT"}},
    ) as con:
        assert any("p: v: 1 values did not fit" in n.replace("'", "") for n in con.curator_notes())
