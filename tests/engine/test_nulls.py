"""What stands for no value in text files: fixed with the table, the same in every row."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparseq
from benchmarks.stores import made_store
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations

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
        'SELECT u.id, age, (SELECT value FROM dictionary."v.city" WHERE code = v.city), '
        "day::VARCHAR FROM by_user.v AS v JOIN ledger.users AS u USING (_user) ORDER BY ALL"
    ).fetchall()  # type: ignore[no-any-return]


def made(tmp_path: Path, text: str = CSV, **more: object) -> sparseq.Store:
    (tmp_path / "v.csv").write_text(text)
    return made_store(None, tmp_path / "v.csv", user="who", **more)  # type: ignore[arg-type]


def test_null_is_null_in_every_column_and_nobody(tmp_path: Path) -> None:
    con = made(tmp_path)
    types = {c.name: c.type for c in con.catalog.private[0].columns}
    assert types == {"who": "VARCHAR", "age": "BIGINT", "city": "VARCHAR", "day": "DATE"}
    assert rows(con) == [
        ("a", 3, "Rome", "2024-01-01"), ("b", None, None, None), ("c", None, "Oslo", None),
        ("d", None, None, None),
    ]  # fmt: skip
    assert con.stream.people == 4
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
    assert con.stream.people == 5
    assert con.schema().nulls == ()


def test_a_marker_is_a_word() -> None:
    for text in ("", '"', " NA", "a\nb", "\x1b"):
        with pytest.raises(sparseq.ParameterError, match="can't stand for NULL"):
            Declarations(nulls=(text,))


def test_a_column_of_placeholders_alone_is_text(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("who,x,y\nNA,NA,NA\nb,-,7\n")
    found = IncomingRows(tmp_path / "v.csv", user="who")
    assert found.schema.types == {"who": "VARCHAR", "x": "VARCHAR", "y": "BIGINT"}
