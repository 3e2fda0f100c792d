"""One person's rows never change how another person's rows are read, or whether they are."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import json
import os
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.base.errors import DataError
from sparseq.load.convert import MOST_TEXT
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Schema, schema_of_existing

HEADER = "who,day,amount,kind,late\n"
FIRST = HEADER + "0,2024-01-01,1.5,a,true\n"


def store(path: Path, text: str | bytes = FIRST, **more: Any) -> sparseq.Store:
    first = path / "first.csv"
    first.write_bytes(text.encode() if isinstance(text, str) else text)
    return made_store(None, first, user="who", table="t", seed=1, **more)


def rows(con: sparseq.Store) -> list[tuple[Any, ...]]:
    """Return all rows, with identifiers, as they are stored."""
    names = [c.name for c in con.catalog.tables[0].columns if c.name != "who"]
    columns = ", ".join(f"b.{n}" for n in names)
    return con.backend.database.execute(
        f"SELECT u.id, {columns} FROM by_user.t AS b JOIN ledger.users AS u USING (_user) "
        "ORDER BY ALL"
    ).fetchall()


def of_others(found: list[tuple[Any, ...]], who: Any) -> list[tuple[Any, ...]]:
    return [row for row in found if row[0] != who]


# With and without a hostile row -------------------------------------------------------------------

CELL = st.one_of(
    st.sampled_from(
        [
            '"',
            '""',
            '"a',
            'a"',
            "a,b",
            "\r",
            "\t",
            "\0",
            "",
            "NULL",
            "nan",
            "1e400",
            "-1",
            "0x1F",
            "'",
            "9" * 39,
            "2024-13-1",
            "02/13/2024",
            "9999999-01-01",
            "infinity",
            "\\",
            "#",
            "\ufeff",
            "x" * 99,
        ]
    ),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8),
)
BAD_BYTES = st.sampled_from([b"", b"\xff", b"\xc3", b"\xf0\x9f", b"\xfd\xfe", b"\xef\xbb\xbf"])
QUIET = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


SCHEMA = Schema(
    {"who": "BIGINT", "day": "DATE", "amount": "DOUBLE", "kind": "VARCHAR", "late": "BOOLEAN"},
    separator=",",
)


@cache
def reader() -> duckdb.DuckDBPyConnection:
    """Return what rows are read with: a connection takes longer to make than a few rows to read."""
    return duckdb.connect(":memory:")


def read(source: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a source as they would be stored, in order."""
    con = reader()
    try:
        rows = IncomingRows(source, SCHEMA, bounds={"amount": (0, 100)})
        rows.read(con, SCHEMA.types, "who")
        return con.execute(
            "SELECT * REPLACE (CAST(amount AS VARCHAR) AS amount) FROM staged"
        ).fetchall()
    finally:
        con.execute("DROP TABLE IF EXISTS staged")


def neighbours(path: Path, good: list[bytes], hostile: bytes, at: int, head: bytes = b"") -> None:
    """Read lines with and without a hostile one; the rows of the others are the same."""
    found = []
    for lines in (good, [*good[:at], hostile, *good[at:]]):
        path.write_bytes(head + b"".join(line + b"\n" for line in lines))
        found.append(read(path))
    without, one_more = found
    assert len(without) == len(good)
    assert one_more in (without, [*without[:at], *one_more[at : at + 1], *without[at:]])


@QUIET
@given(st.lists(CELL, max_size=7), BAD_BYTES, st.integers(0, 4))
@example(["666", "2024-01-01", '"never closed', "x", "true"], b"", 1)
@example(["666", "02/13/2024", "abc", "x", "maybe"], b"", 4)
@example(["666", "a\rb,2024-01-01,1,a,true"], b"\r", 0)
def test_a_hostile_line_of_csv(tmp_path: Path, cells: list[str], odd: bytes, at: int) -> None:
    good = [b'%d,2024-01-0%d,%d.5,"k, %d",false' % (k, k, k, k) for k in range(1, 5)]
    hostile = ",".join(cells).encode() + odd
    neighbours(tmp_path / "more.csv", good, hostile, at, HEADER.encode())


@QUIET
@given(
    st.one_of(
        st.dictionaries(
            st.sampled_from(["who", "day", "amount", "kind", "late", "x"]),
            st.one_of(
                CELL, st.none(), st.integers(), st.floats(), st.just([[1]]), st.just({"a": 1})
            ),
        ).map(json.dumps),
        CELL,
        st.sampled_from(
            ["[" * 5000, '{"who": 1', '{"who": "\\ud800"}', '{"who":1}{"who":2}', "null"]
        ),
    ),
    BAD_BYTES,
    st.integers(0, 4),
)
def test_a_hostile_line_of_json(tmp_path: Path, hostile: str, odd: bytes, at: int) -> None:
    good = [
        json.dumps({"who": k, "day": f"2024-01-0{k}", "amount": k, "kind": "k", "late": False})
        for k in range(1, 5)
    ]
    lines = [g.encode() for g in good]
    neighbours(tmp_path / "more.jsonl", lines, hostile.encode() + odd, at)


TYPED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["x", "", "\0", "x" * (MOST_TEXT + 1)]),
    (pa.int64(), [2**63 - 1, -(2**63)]),
    (pa.uint64(), [2**64 - 1]),
    (pa.float64(), [float("nan"), float("inf"), 1e308, 0.5]),
    (pa.float16(), [float("nan"), 65504.0]),
    (pa.decimal128(38, 0), [decimal.Decimal("9" * 38)]),
    (pa.decimal256(60, 2), [decimal.Decimal("9" * 58)]),
    (pa.date32(), [2**31 - 1, -(2**31)]),
    (pa.date64(), [2**63 - 1, -(2**63)]),
    (pa.timestamp("s"), [2**63 - 1, -(2**63)]),
    (pa.timestamp("ns", "Europe/Berlin"), [2**63 - 1, -(2**63) + 1]),
    (pa.timestamp("us"), [2**63 - 1, -(2**63) + 1]),
    (pa.time64("us"), [2**63 - 1, -1]),
    (pa.time32("s"), [2**31 - 1, -1]),
    (pa.bool_(), [True]),
]


def extreme(kind: pa.DataType, value: Any) -> pa.Array:
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([value], width).view(kind)
    return (
        pa.array([value], pa.float32()).cast(kind)
        if kind == pa.float16()
        else pa.array([value], kind)
    )


@pytest.mark.parametrize(("kind", "values"), one_in(4, TYPED), ids=lambda v: str(v)[:24])
@pytest.mark.parametrize("how", ["memory", "parquet", "arrow"])
def test_an_extreme_value_of_any_type_in_any_column(
    tmp_path: Path, kind: pa.DataType, values: list[Any], how: str
) -> None:
    """All columns are of the odd type; a row of an extreme value changes no other row."""
    usual = pa.nulls(3, kind)
    for value in values:
        found = []
        for column in (usual, pa.concat_arrays([usual, extreme(kind, value)])):
            others = dict.fromkeys(["day", "amount", "kind", "late"], column)
            table = pa.table({"who": list(range(1, len(column) + 1)), **others})
            found.append(read(as_source(table, tmp_path, how)))
        assert found[1][:3] == found[0] == [(k, None, None, None, None) for k in (1, 2, 3)]
        assert len(found[1]) == 4


def as_source(table: pa.Table, folder: Path, how: str) -> Any:
    if how == "parquet":
        try:
            pq.write_table(table, folder / "x.parquet")
        except (pa.ArrowException, OSError):
            pytest.skip("Parquet has no such type")
        return folder / "x.parquet"
    if how == "arrow":
        with pa.ipc.new_file(folder / "x.arrow", table.schema) as writer:
            writer.write_table(table)
        return folder / "x.arrow"
    return table


# Odd types and shapes -----------------------------------------------------------------------------

BROKEN = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
)
ODD: dict[str, Callable[[], pa.Array]] = {
    "null": lambda: pa.nulls(2),
    "list": lambda: pa.array([[1.0], [2.0]]),
    "struct": lambda: pa.array([{"a": 1}, {"a": 2}]),
    "map": lambda: pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "binary": lambda: pa.array([b"\xff", b"b"]),
    "fixed": lambda: pa.array([b"\xff1", b"b2"], pa.binary(2)),
    "broken text": lambda: BROKEN,
    "nul": lambda: pa.array(["a\0b", "\0"]),
    "large": lambda: pa.array(["a", "b"], pa.large_string()),
    "view": lambda: pa.array(["a", "b"], pa.string_view()),
    "dictionary": lambda: pa.array(["a", None]).dictionary_encode(),
    "dictionary of lists": lambda: pa.DictionaryArray.from_arrays([0, 0], pa.array([[1]])),
    "run ends": lambda: pc.run_end_encode(pa.array([1, 1])),
    "duration": lambda: pa.array([1, 2], pa.duration("s")),
    "interval": lambda: pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval()),
    "decimal of tens": lambda: pa.array([decimal.Decimal(100)] * 2, pa.decimal128(5, -2)),
    "small decimal": lambda: pa.array([decimal.Decimal("1.50")] * 2, pa.decimal32(5, 2)),
    "uuid": lambda: pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()),
    "json": lambda: pa.array(['{"a": 1}', None], pa.json_()),
    "bool8": lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())),
}


@pytest.mark.parametrize("name", one_in(4, ODD))
@pytest.mark.parametrize("how", ["memory", "parquet", "arrow"])
def test_any_type_in_any_column_is_taken_in(tmp_path: Path, name: str, how: str) -> None:
    column = ODD[name]()
    texts = dict.fromkeys(["day", "amount", "kind", "late"], pa.array(["1", "2"]))
    odd = dict.fromkeys(texts, column)
    for table in ({"who": pa.array([1, 2]), **odd}, {"who": column, **texts}):
        found = read(as_source(pa.table(table), tmp_path, how))
        assert len(found) == 2
        if table["who"] is not column:
            assert [row[0] for row in found] == [1, 2]


@pytest.mark.parametrize("name", one_in(4, ODD))
def test_any_type_when_a_table_is_made(name: str) -> None:
    table = pa.table({"who": [1, 2], "x": ODD[name]()})
    con = sparseq.create(None, {"t": table}, user="who", seed=1)
    assert [row[0] for row in rows(con)] == [1, 2]
    assert all(
        c.type in schema_of_existing(con.catalog)["t"].types.values()
        for c in con.catalog.tables[0].columns
    )


def test_shapes_of_tables(tmp_path: Path) -> None:
    con = store(tmp_path)
    usual = {"day": ["2024-01-02"] * 2, "amount": [1, 2], "kind": ["a", "b"], "late": [True, False]}
    twice = pa.table({"who": [1, 2], **usual})
    con.ingest(twice.append_column("who", pa.array([7, 8])).append_column("WHO", pa.array([9, 9])))
    con.ingest(pa.table({"who": pa.chunked_array([[3], [], [4]]), **usual}))
    con.ingest(twice.slice(0, 0))
    assert [row[0] for row in rows(con)] == [0, 1, 2, 3, 4]
    for bad in (pa.table({}), pa.table({"who": [1]})):
        with pytest.raises(DataError, match="no column"):
            con.ingest(bad)


def test_wide_numbers_have_a_stored_type(tmp_path: Path) -> None:
    wide = decimal.Decimal("9" * 30)
    table = pa.table(
        {
            "who": [1],
            "d": pa.array([wide], pa.decimal128(38, 2)),
            "e": pa.array([wide], pa.decimal256(60, 2)),
            "f": pa.array([decimal.Decimal("1.5")], pa.decimal128(18, 2)),
        }
    )
    con = sparseq.create(None, {"t": table}, user="who", seed=1)
    assert {c.name: c.type for c in con.catalog.tables[0].columns} == {
        "who": "BIGINT",
        "d": "DECIMAL(38,2)",
        "e": "DOUBLE",
        "f": "DECIMAL(18,2)",
    }
    con = store(tmp_path, f"who,n\n1,{'9' * 30}\n")
    assert [c.type for c in con.catalog.tables[0].columns] == ["BIGINT", "DOUBLE"]
    con = store(tmp_path, f"who,n\n{'9' * 30},1\n")
    assert [c.type for c in con.catalog.tables[0].columns] == ["VARCHAR", "BIGINT"]


# Identifiers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    one_in(
        2,
        [
            "007",
            "+7",
            "1e5",
            "1.50",
            "7.0",
            "1_000",
            "12345678901234567890",
            "0x1F",
            "true",
            "TRUE",
            "2024-1-5",
            "01/02/2024",
            "12:00:00",
            "1e400",
            "-0",
            "null",
            '" 7"',
            "7 ",
            "nan",
            "inf",
            "Ä",
            "00000000-0000-0000-0000-00000000000A",
        ],
    ),
)
def test_one_spelling_is_one_account_in_every_file(tmp_path: Path, text: str) -> None:
    con = store(tmp_path, f"who,day\n{text},2024-01-01\nA12,2024-01-01\n")
    alone = tmp_path / "alone.csv"
    alone.write_text(f"who,day\n{text},2024-01-02\n")
    con.ingest(alone)
    exact = text.strip('"')
    con.ingest(pa.table({"who": [exact], "day": [dt.date(2024, 1, 3)]}))
    (tmp_path / "x.jsonl").write_text(json.dumps({"who": exact, "day": "2024-01-04"}))
    con.ingest(tmp_path / "x.jsonl")
    assert sorted(row[0] for row in rows(con)) == sorted([exact] * 4 + ["A12"])
    assert len(con.stream.accounts) == 2


def test_a_number_in_json_is_one_text_however_written(tmp_path: Path) -> None:
    lines = ['"A12"', "5", "5.0", "5e0", '"5"', "-0.0", "0", "1.50", "1.5", "1e400", "9" * 30]
    (tmp_path / "x.jsonl").write_text(
        "".join(f'{{"who": {line}, "x": {line if line[0].isdigit() else 1}}}\n' for line in lines)
    )
    con = sparseq.create(None, {"t": [tmp_path / "x.jsonl"]}, user="who")
    people = con.backend.database.execute("SELECT id FROM ledger.users ORDER BY id").fetchall()
    assert [p for (p,) in people] == ["0", "1.5", "1e400", "5", "9" * 30, "A12"]


def test_numbers_with_a_point_in_json_are_no_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"who": 1.0, "x": 5.0, "n": 5}\n{"who": 2, "x": 6, "n": 6}')
    con = sparseq.create(None, {"t": [tmp_path / "x.jsonl"]}, user="who")
    types = {c.name: c.type for c in con.catalog.tables[0].columns}
    assert types == {"who": "BIGINT", "x": "DOUBLE", "n": "BIGINT"}


def test_one_number_is_one_account_from_every_format(tmp_path: Path) -> None:
    con = store(tmp_path, "who,n\n7,1\n")
    (tmp_path / "x.csv").write_text("who,n\n+7,2\n007,2\n7.0,2\n 7,2\nseven,2\n7.5,2\n1e1,2\n")
    con.ingest(tmp_path / "x.csv")
    assert con.curator_notes() == [
        "t: 3 of 7 rows were left out: they name no user",
        "t: who: 3 values did not fit, and are NULL",
    ]
    (tmp_path / "x.jsonl").write_text(
        '{"who": 7, "n": 3}\n{"who": "7", "n": 3}\n{"who": 7.0, "n": 3}'
    )
    con.ingest(tmp_path / "x.jsonl")
    for kind in (pa.int8(), pa.uint64(), pa.float64(), pa.string(), pa.decimal128(22, 3)):
        con.ingest(pa.table({"who": pa.array([7], pa.int64()).cast(kind), "n": [4]}))
    assert len(con.stream.accounts) == 1
    assert len(rows(con)) == 1 + 4 + 3 + 5


def test_who_is_nobody(tmp_path: Path) -> None:
    """No identifier, an empty one, and one that is too long to be told from others."""
    con = store(tmp_path, "who,n\nann,1\n")
    long = "x" * (MOST_TEXT + 1)
    con.ingest(pa.table({"who": ["", None, long, long + "y", "bob"], "n": [2] * 5}))
    assert [row[0] for row in rows(con)] == ["ann", "bob"]
    assert "4 of 5 rows were left out" in con.curator_notes()[0]


# Values -------------------------------------------------------------------------------------------


def test_one_row_does_not_move_everybody_to_another_month(tmp_path: Path) -> None:
    for extra in ("", "5000,02/13/2024,1\n"):
        con = store(tmp_path, "who,day,n\n0,2024-01-01,1\n")
        later = tmp_path / "later.csv"
        later.write_text(
            "who,day,n\n" + "".join(f"{k},01/02/2024,1\n" for k in range(1, 9)) + extra
        )
        con.ingest(later)
        assert of_others(rows(con), 5000)[1:] == [(k, None, 1) for k in range(1, 9)]
        con = store(tmp_path, "who,day,n\n0,01/01/2024,1\n", types={"day": "DATE:%d/%m/%Y"})
        con.ingest(later)
        assert of_others(rows(con), 5000)[1:] == [(k, dt.date(2024, 2, 1), 1) for k in range(1, 9)]


@pytest.mark.parametrize(
    ("kind", "first", "common", "odd", "stored"),
    one_in(
        4,
        [
            (None, "a", "1e3", "x", "1e3"),
            (None, "a", "TRUE", "x", "TRUE"),
            (None, "a", "1.50", "x", "1.50"),
            (None, "1", "5", "abc", 5),
            (None, "1", "5", "5.5", 5),
            (None, "1", "5", "99999999999999999999", 5),
            (None, "1.0", "1.5", "n/a", 1.5),
            (None, "2024-01-01", "2024-01-05", "05.01.2024", dt.date(2024, 1, 5)),
            ("DATE:%m/%d/%y", "01/01/24", "05/01/24", "01/13/24", dt.date(2024, 5, 1)),
            (None, "false", "true", "maybe", True),
            (None, "2024-01-01", "2024-01-05", "12024-01-05", dt.date(2024, 1, 5)),
            ("DOUBLE:,", "1", "1.234,5", "x", 1234.5),
            ("DECIMAL(9,2)", "1", "1.25", "1e400", decimal.Decimal("1.25")),
            ("TIME", "10:00", "10:00:01", "24:00:01", dt.time(10, 0, 1)),
        ],
    ),
)
def test_one_odd_value_is_null_and_no_other_changes(
    tmp_path: Path, kind: str | None, first: str, common: str, odd: str, stored: Any
) -> None:
    for extra in ("", f'5;"{odd}"\n'):
        con = store(tmp_path, f"who;c\n1;{first}\n", types={"c": kind} if kind else None)
        more = tmp_path / "more.csv"
        more.write_text("who;c\n" + "".join(f"{k};{common}\n" for k in range(10, 30)) + extra)
        con.ingest(more)
        assert of_others(rows(con), 5)[1:] == [(k, stored) for k in range(10, 30)]


def test_long_texts_are_cut_and_the_curator_is_told(tmp_path: Path) -> None:
    con = store(tmp_path)
    con.ingest(
        pa.table(
            {
                "who": [1],
                "day": ["x"],
                "amount": ["1"],
                "kind": ["ä" * (MOST_TEXT + 5)],
                "late": [None],
            }
        )
    )
    assert rows(con)[1][3] == "ä" * MOST_TEXT
    assert con.curator_notes() == [
        "t: day: 1 values did not fit, and are NULL",
        "t: kind: 1 texts were cut to 65,536 characters",
    ]


def test_types_are_kept_and_given_to_later_files(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    (tmp_path / "a.csv").write_text('who|day|price\n1|31/12/2023|"1,5"\n')
    read_as = {"price": "DOUBLE:,"}
    sparseq.create(path, {"t": tmp_path / "a.csv"}, user="who", types=read_as).close()
    with sparseq.connect(path) as con:
        schema = con.schema("t")
        assert dict(schema.types) == {"who": "BIGINT", "day": "DATE", "price": "DOUBLE"}
        assert dict(schema.formats) == {"day": "%d/%m/%Y", "price": ","}
        assert schema.separator == "|"
        (tmp_path / "b.csv").write_text("price|who|day\n2,5|2|01/02/2024\n")
        con.ingest(tmp_path / "b.csv")
        assert rows(con)[1] == (2, dt.date(2024, 2, 1), 2.5)
        assert not schema_of_existing(con.catalog)["t"].formats


# Frames -------------------------------------------------------------------------------------------


def test_only_the_frame_sets_a_file_aside(tmp_path: Path) -> None:
    con = store(tmp_path)
    whole = (HEADER + "1,2024-01-01,SECRET,a,true\n" * 3000).encode()
    bad = {
        "empty.csv": b"",
        "blank.csv": b"\n\n",
        "lacks.csv": whole.replace(b"amount", b"cost"),
        "torn.csv.gz": gzip.compress(whole)[:-9],
        "torn.parquet": b"PAR1" + b"\xff" * 50 + b"PAR1",
        "torn.arrow": b"ARROW1\0\0" + b"\xff" * 50 + b"ARROW1",
        "no.xlsx": whole,
        "torn.csv.zst": b"\xff",
        "endless.csv": b"x" * (3 << 20),
    }
    before = rows(con)
    for name, contents in bad.items():
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(DataError) as raised:
            con.ingest(tmp_path / name)
        assert "SECRET" not in str(raised.value)
        assert len(str(raised.value)) < 600
    assert rows(con) == before
    good = {
        "a.csv.gz": gzip.compress(whole),
        "b.csv": b"\xef\xbb\xbf\r\n" + whole.replace(b"\n", b"\r\n"),
    }
    for name, contents in good.items():
        (tmp_path / name).write_bytes(contents)
        assert con.ingest(tmp_path / name) == 3000


def test_names_are_no_patterns(tmp_path: Path) -> None:
    con = store(tmp_path, "who,n\n0,1\n")
    for k, name in enumerate(
        ["x[12].csv", "*.csv", "?.csv", "x1.csv", ".hidden.csv", "a'; --.csv"], 1
    ):
        (tmp_path / name).write_text(f"who,n\n{k},1\n")
    (tmp_path / "who=zed").mkdir()
    os.rename(tmp_path / "x1.csv", tmp_path / "who=zed" / "x1.csv")
    for name in ("x[12].csv", "*.csv", "?.csv", "a'; --.csv", "who=zed/x1.csv"):
        con.ingest(tmp_path / name)
    assert [row[0] for row in rows(con)] == [0, 1, 2, 3, 4, 6]
    odd = os.fsencode(tmp_path) + b"/\xff\xfe"
    for end in (b".csv", b".csv.gz"):
        with open(odd + end, "wb") as file:
            file.write(gzip.compress(b"who,n\n9,1\n") if end == b".csv.gz" else b"who,n\n8,1\n")
        con.ingest(os.fsdecode(odd + end))
    with open(odd + b".parquet", "wb") as file:
        pq.write_table(pa.table({"who": [10], "n": [1]}), file)
    con.ingest(os.fsdecode(odd + b".parquet"))
    assert [row[0] for row in rows(con)][-3:] == [8, 9, 10]
