"""Files as they come: titles before the header, any header, other encodings, columns not wanted."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparseq
from sparseq.base.errors import DataError, ParameterError
from sparseq.load.read_schema import NAME, fit_name
from sparseq.load.text_streams import Letters
from sparseq.store.curator import exact_sql

EXPORT = (
    "Hospital export 2024\nmade on 03.01.2024\nPatient;Visit date;Cost (EUR);Ward name;Free text\n"
    "p1;25/01/2024;1.234,50;Kardiologie;a\np2;03/02/2024;20,00;Gynäkologie;b\n"
    "p1;13/02/2024;7,25;Pädiatrie;c\n"
)
READ = {"csv": {"skip": 2}, "rename": {"Visit date": "day"}, "drop": ["free text"]}


def made(path: Path, **more: Any) -> sparseq.Store:
    return sparseq.create(
        None, {"v": str(path)}, user="Patient", kappa=1000.0, seed=1, **(READ | more)
    )


def types(con: sparseq.Store) -> dict[str, str]:
    return {column.name: column.type for column in con.catalog.tables[0].columns}


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_an_export_is_read_as_it_is(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "v.csv").write_bytes(EXPORT.encode(encoding))
    con = made(
        tmp_path / "v.csv", keys={"Ward name": ["Gynäkologie"]}, bounds={"Cost_EUR": (0, 2000)}
    )
    assert types(con) == {
        "Patient": "VARCHAR",
        "day": "DATE",
        "Cost_EUR": "DOUBLE",
        "Ward name": "VARCHAR",
    }
    stored = exact_sql(con, 'SELECT day, Cost_EUR, "Ward name" FROM v ORDER BY day').to_pylist()
    assert [tuple(row.values()) for row in stored] == [
        (dt.date(2024, 1, 25), 1234.5, "Kardiologie"),
        (dt.date(2024, 2, 3), 20.0, "Gynäkologie"),
        (dt.date(2024, 2, 13), 7.25, "Pädiatrie"),
    ]
    answer = con.sql("SELECT count(*) AS n FROM v WHERE \"Ward name\" = 'Gynäkologie'")
    assert round(answer.rows()[0]["n"]) == 1


def test_later_files_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes(EXPORT.encode("cp1252"))
    store = tmp_path / "s.sparseq"
    sparseq.create(store, {"v": str(tmp_path / "v.csv")}, user="Patient", **READ).close()  # type: ignore[arg-type]
    later = EXPORT.replace("p1;", "p7;").replace("p2;", "p8;").encode("cp1252")
    (tmp_path / "w.csv").write_bytes(later)
    with sparseq.connect(store) as con:
        con.ingest(str(tmp_path / "w.csv"))
        assert not [note for note in con.curator_notes() if "NULL" in note or "rows were" in note]
        with pytest.raises(DataError, match="no column"):  # without its titles it is another file
            con.ingest(pa.table({"Patient": ["p9"], "day": ["2024-01-01"]}))


def test_columns_of_every_kind_of_file_are_renamed(tmp_path: Path) -> None:
    table = pa.table({"a/b": [1, 2], "x y": [0.5, 1.5], "2024": ["u", "v"], "secret": [1, 1]})
    pq.write_table(table, tmp_path / "v.parquet")
    (tmp_path / "v.jsonl").write_text('{"a/b": 1, "x y": 0.5, "2024": "u", "secret": 1}\n')
    for source in (table, str(tmp_path / "v.parquet"), str(tmp_path / "v.jsonl")):
        con = sparseq.create(
            None, {"v": source}, user="who", rename={"A/B": "who"}, drop=["Secret"], seed=1
        )
        assert list(types(con)) == ["who", "x y", "_2024"]


def test_several_columns_that_are_a_person_can_be_renamed() -> None:
    table = pa.table({"shop #": [1, 1, 2], "customer #": [1, 1, 1]})
    con = sparseq.create(
        None,
        {"v": table},
        user="shop,customer",
        rename={"shop #": "shop", "customer #": "customer"},
        kappa=1000.0,
        seed=1,
    )
    assert con.curator_notes()[:2] == ["v: shop: renamed", "v: customer: renamed"]
    (row,) = con.sql("SELECT count(DISTINCT shop_customer) AS n FROM v").rows()
    assert round(row["n"]) == 2


def test_columns_of_two_tables_get_one_name() -> None:
    tables = {"v": pa.table({"N°": ["a"], "x": [1]}), "w": pa.table({"who.no": ["b"], "y": [2]})}
    con = sparseq.create(None, tables, user="who", rename={"N°": "who", "who.no": "who"})
    names = [[c.name for c in table.columns] for table in con.catalog.tables]
    assert names == [["who", "x"], ["who", "y"]]


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"rename": {"Visit": "day"}}, ParameterError, "no table has a column 'Visit'"),
        ({"drop": ["Visit"]}, ParameterError, "no table has a column 'Visit'"),
        ({"rename": {"Visit date": "patient"}}, DataError, "already a column 'patient'"),
        ({"rename": {"Visit date": "a/b"}}, ParameterError, "can't be called 'a/b'"),
        ({"rename": {"Visit date": "_user"}}, ParameterError, "can't be called"),
        ({"rename": {"Visit date": "a", "Free text": "A"}}, ParameterError, "get the same name"),
        ({"csv": {"skip": "two"}}, ParameterError, "skip is 'two'"),
        ({"csv": {"skip": -1}}, ParameterError, "skip is -1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, more: dict[str, Any], error: type[Exception], message: str
) -> None:
    (tmp_path / "v.csv").write_text(EXPORT)
    with pytest.raises(error, match=message):
        made(tmp_path / "v.csv", **({"rename": {}, "drop": []} | more))


@given(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=4))
def test_any_header_becomes_a_name_of_its_own(header: str, taken: list[str]) -> None:
    name = fit_name(header, taken)
    assert NAME.fullmatch(name)
    assert name.lower() not in {one.lower() for one in taken}


@given(st.text(max_size=200))
def test_what_is_utf_8_is_taken_for_it(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(text.encode("utf-8", "ignore"))
        assert Letters.of(path).encoding == ""


@pytest.mark.parametrize(
    ("lines", "encoding"),
    [
        ([b"who,ward", b"1,a"], ""),
        ([b"who,ward", b"1,Gyn\xe4kologie"], ""),  # one row decides nothing
        ([b"who,ward", b"1,Gyn\xe4kologie", b"2,Gyn\xe4kologie"], "cp1252"),
        ([b"who,Gr\xf6\xdfe", b"1,2"], "cp1252"),  # a header is no row
        ([b"who,ward", b"1,\x81\xe4", b"1,\xe4"], "iso8859-1"),
        ([b"who,ward", "1,ä".encode(), *[b"2,\xe4"] * 9], ""),
    ],
)
def test_an_encoding_is_told_by_more_than_one_row(
    tmp_path: Path, lines: list[bytes], encoding: str
) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    assert Letters.of(tmp_path / "a.csv").encoding == encoding


def test_all_files_of_a_table_are_read_as_one_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("who,ward\n1,Gynäkologie\n".encode())
    (tmp_path / "b.csv").write_bytes(b"who,ward\n3,Gyn\xe4kologie\n5,Gyn\xe4kologie\n")
    (tmp_path / "c.csv").write_bytes(b"who,ward\n4,Chirurgie\n")

    def wards(*names: str) -> list[str | None]:
        files = [str(tmp_path / name) for name in names]
        con = sparseq.create(None, {"v": files}, user="who", seed=1)
        return exact_sql(con, "SELECT ward FROM v ORDER BY who")["ward"].to_pylist()

    assert wards("a.csv", "b.csv") == ["Gynäkologie", None, None]
    assert wards("c.csv", "b.csv") == ["Gynäkologie", "Chirurgie", "Gynäkologie"]


def test_a_later_file_may_have_the_names_of_the_store() -> None:
    first = pa.table({"who": [1], "Cost (EUR)": [1.0]})
    con = sparseq.create(None, {"v": first}, user="who", seed=1)
    con.ingest(pa.table({"who": [2], "Cost_EUR": [2.0]}))
    con.ingest(pa.table({"who": [3], "cost (eur)": [3.0]}))
    con.ingest(pa.table({"who": [4], "Cost (EUR)": [4.0], "Cost_EUR": [9.0]}))
    assert exact_sql(con, "SELECT * FROM v ORDER BY who")["Cost_EUR"].to_pylist() == [1, 2, 3, 4]
    assert any("of two columns" in note for note in con.curator_notes())


def test_names_can_be_exchanged() -> None:
    table = pa.table({"who": [1], "a": [10], "b": [20]})
    con = sparseq.create(None, {"v": table}, user="who", rename={"a": "b", "b": "a"}, seed=1)
    assert exact_sql(con, "SELECT a, b FROM v").to_pylist() == [{"a": 20, "b": 10}]
    con.ingest(pa.table({"who": [2], "a": [30], "b": [40]}))
    assert exact_sql(con, "SELECT a, b FROM v ORDER BY a").to_pylist()[1] == {"a": 40, "b": 30}
