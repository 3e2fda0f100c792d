"""What stands for no value in text files: fixed with the table, the same in every row."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import sparseq
from checks.stores import made_store
from sparseq.base._duckdb.connection import connect
from sparseq.base.errors import ParameterError
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations
from sparseq.question.catalog import Catalog, Column, Table
from sparseq.store.curator import counts, exact_sql

CSV = """who,age,city,day
a,3,Rome,2024-01-01
b,NA,"NULL",-
c,\\N,Oslo,NULL
NULL,4,NA,2024-01-02
d,,,
"""


def rows(con: sparseq.Store) -> list[tuple[object, ...]]:
    """Each row: who, age, city, day."""
    return con.backend.database.execute(
        "SELECT u.id, age, city, day::VARCHAR FROM by_user.v AS v "
        "JOIN ledger.users AS u USING (_user) ORDER BY ALL"
    ).fetchall()  # type: ignore[no-any-return]


def made(tmp_path: Path, text: str = CSV, **more: object) -> sparseq.Store:
    (tmp_path / "v.csv").write_text(text)
    return made_store(None, tmp_path / "v.csv", user="who", **more)  # type: ignore[arg-type]


def test_null_is_null_in_every_column_and_nobody(tmp_path: Path) -> None:
    con = made(tmp_path)
    types = {c.name: c.type for c in con.catalog.private[0].columns}
    assert types == {"who": "VARCHAR", "age": "BIGINT", "city": "VARCHAR", "day": "DATE"}
    assert rows(con) == [
        ("a", 3, "Rome", "2024-01-01"),
        ("b", None, None, None),
        ("c", None, "Oslo", None),
        ("d", None, None, None),
    ]
    assert con.stream.people.inside() == 4
    assert "v: 1 of 5 rows were left out: they name no user" in con.curator_notes()
    assert "v: age: 1 values did not fit, and are NULL" in con.curator_notes()


@pytest.mark.parametrize("quoted", [False, True], ids=["plain", "some lines in quotes"])
def test_other_texts_are_declared_and_kept(tmp_path: Path, quoted: bool) -> None:
    path = tmp_path / "s.sparseq"
    (tmp_path / "v.csv").write_text(
        "who,age,city,day\na,,n/k,\nb,,NULL,\n" + 'c,,"x;""y",\n' * quoted
    )
    create = {"user": "who", "csv": {"null": ["n/k"]}}
    made_store(path, tmp_path / "v.csv", **create).close()  # type: ignore[arg-type]
    with sparseq.connect(path) as con:
        assert con.schema().nulls == ("n/k",)
        (tmp_path / "w.csv").write_text('who,age,city,day\nd,,"n/k",\ne,,Rome,\nn/k,,Rome,\n')
        assert con.ingest(tmp_path / "w.csv") == 2
        cities = {row[0]: row[2] for row in rows(con)}
    expected = {"a": None, "b": "NULL", "d": None, "e": "Rome"}
    assert cities == expected | ({"c": 'x;"y'} if quoted else {})


def test_nothing_but_the_empty_value(tmp_path: Path) -> None:
    con = made(tmp_path, csv={"null": ()})
    assert con.stream.people.inside() == 5
    assert con.schema().nulls == ()


def test_a_marker_is_a_word() -> None:
    for text in ("", '"', " NA", "a\nb", "\x1b"):
        with pytest.raises(sparseq.ParameterError, match="can't mean NULL"):
            Declarations(nulls=(text,))


def test_a_column_of_placeholders_alone_is_text(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("who,x,y\nNA,NA,NA\nb,-,7\n")
    found = IncomingRows(tmp_path / "v.csv", user="who")
    assert found.schema.types == {"who": "VARCHAR", "x": "VARCHAR", "y": "BIGINT"}


LATER = "who,age,city,day\ne,x,Rome,03/01/2024\ne,5,,03/01/2024\nf,,Bari,04/01/2024\n"


@pytest.mark.parametrize("way", ["held", "staged", "lake"])
def test_rows_without_a_value_where_it_is_not_null_are_left_out(tmp_path: Path, way: str) -> None:
    (tmp_path / "v.csv").write_text(
        "who,age,city,day\na,1,Rome,25/01/2024\nb,2,,25/01/2024\nc,3,Oslo,25/25/2024\n"
        ",4,,01/01/2024\nd,,Oslo,01/02/2024\n"
    )
    (tmp_path / "w.csv").write_text(LATER)
    more = {"row_key": "age"} if way == "staged" else {"buckets": 2} if way == "lake" else {}
    place = f"lake://{tmp_path / 'lake'}" if way == "lake" else tmp_path / "s.sparseq"
    with sparseq.create(
        place,
        {"v": tmp_path / "v.csv"},
        user="who",
        types={"City": "not null", "day": "DATE NOT NULL:%d/%m/%Y"},
        keys={"city": ["Rome", "Oslo"]},
        **more,  # type: ignore[arg-type]
    ) as con:
        assert (counts(con).rows, counts(con).users) == ({"v": 2}, 2)
        told = con.curator_notes()
        for what in (
            "they name no user",
            *(f"{c} is NOT NULL, and they have no value there" for c in ("city", "day")),
        ):
            assert f"v: 1 of 5 rows were left out: {what}" in told
        assert "v: day: 1 values did not fit, their rows were left out" in told
        assert con.ingest(tmp_path / "w.csv", once="w") == 2
    with sparseq.connect(place) as con:
        never = {c.name for c in con.catalog.private[0].columns if c.not_null}
        assert never == {"who", "city", "day"}
        assert counts(con).rows == {"v": 4}
        if way != "lake":
            left = exact_sql(con, "SELECT who, age, city FROM v ORDER BY who").to_pylist()
            assert [tuple(row.values()) for row in left] == [
                ("a", 1, "Rome"),
                ("d", None, "Oslo"),
                ("e", None, "Rome"),
                ("f", None, "Bari"),
            ]
        assert [
            row["city"] for row in con.sql("SELECT city, count(*) AS n FROM v GROUP BY city")
        ] == ["Rome", "Oslo"]


def test_other_columns_are_counted_as_if_no_row_had_been_left_out() -> None:
    found = IncomingRows(
        pa.table({"who": ["a", "b", "c"], "n": ["1", "x", "y"], "m": ["1", "2", None]}),
        declared=Declarations({"n": "BIGINT", "m": "BIGINT NOT NULL"}),
        user="who",
    )
    with connect() as con:
        found.read(con, found.usable(), "who")
    assert (found.told.rows, found.told.no_value, found.told.null) == (3, {"n": 2}, {"m": 1})


def test_what_a_schema_says_of_null_is_kept() -> None:
    rows = pa.table(
        [pa.array(["a", "b"]), pa.array([1, 2]), pa.array([3, 4])],
        pa.schema(
            [("who", pa.string()), pa.field("n", pa.int64(), nullable=False), ("m", "int64")]
        ),
    )

    def never(source: object, **more: object) -> set[str]:
        with made_store(None, source, user="who", table="v", **more) as con:  # type: ignore[arg-type]
            table = con.catalog.private[0]
            kept = Catalog.from_dict(json.loads(json.dumps(con.catalog.to_dict())))
            assert kept.table("v").not_null == table.not_null
            return set(table.not_null) - {"who"}

    assert never(rows) == {"n"}
    assert never(pl.from_arrow(rows)) == never(rows.to_pandas()) == set()


def test_a_catalog_without_it_says_that_null_may_be() -> None:
    said = Catalog((Table("v", (Column("n", "BIGINT", not_null=True),), "n"),)).to_dict()
    del said["tables"][0]["columns"][0]["not_null"]
    assert not Catalog.from_dict(said).table("v").column("n").not_null


def test_not_null_comes_before_a_format() -> None:
    with pytest.raises(ParameterError) as found:
        Declarations({"day": "DATE:%d/%m/%Y NOT NULL"}).parsed()
    assert "'DATE NOT NULL:%d/%m/%Y'" in (found.value.hint or "")
