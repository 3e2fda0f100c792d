"""A hundred odd files: each is read, or refused whole in one line that says what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from sampled import one_in

import sparseq
from sparseq.base.errors import DataError, SparseqError
from sparseq.store.curator import counts

HEAD = "who,day,amount,kind\n"
ROWS = "1,2024-01-05,1.5,a\n2,2024-01-06,2.5,b\n3,2024-01-07,3.5,c\n"
GOOD = HEAD + ROWS
TABLE = pa.table(
    {"who": [1, 2, 3], "day": ["2024-01-05"] * 3, "amount": [1.5] * 3, "kind": ["a"] * 3}
)
OBJECTS = [{"who": k, "day": "2024-01-05", "amount": 1.5, "kind": "a"} for k in (1, 2, 3)]
LINES = "".join(json.dumps(o) + "\n" for o in OBJECTS)


def parquet(table: pa.Table = TABLE) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def arrow(table: pa.Table = TABLE) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def zst(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def text(data: str) -> bytes:
    return data.encode()


LISTS = TABLE.set_column(3, "kind", pa.array([["a"]] * 3))
QUOTED = '"who","day","amount","kind"\n"1","2024-01-05","1","a"\n'
HUGE = "x" * 900_000
TOO_LONG = "x" * 1_100_000
SWAPPED = GOOD.replace(",", ";")
FILES: dict[str, tuple[str, bytes, int | str]] = {
    # dialects: what separates, what ends a line, how it is encoded
    "semicolons": ("a.csv", text(SWAPPED), 3),
    "tabs": ("a.csv", text(GOOD.replace(",", "\t")), 3),
    "tabs, .tsv": ("a.tsv", text(GOOD.replace(",", "\t")), 3),
    "tabs, .tab": ("a.tab", text(GOOD.replace(",", "\t")), 3),
    "bars": ("a.csv", text(GOOD.replace(",", "|")), 3),
    "bars, .psv": ("a.psv", text(GOOD.replace(",", "|")), 3),
    ".txt": ("a.txt", text(GOOD), 3),
    "commas in .tsv": ("a.tsv", text(GOOD), 3),
    "a line for Excel": ("a.csv", text("sep=;\r\n" + SWAPPED.replace("\n", "\r\n")), 3),
    "a quoted line for Excel": ("a.csv", text('"sep=;"\n' + SWAPPED), 3),
    "Windows": ("a.csv", text(GOOD.replace("\n", "\r\n")), 3),
    "old Mac": ("a.csv", text(GOOD.replace("\n", "\r")), 3),
    "returns twice": ("a.csv", text(GOOD.replace("\n", "\r\r\n")), 3),
    "mixed ends": ("a.csv", text(HEAD + ROWS.replace("\n", "\r\n", 1)), 3),
    "no last end": ("a.csv", text(GOOD.rstrip()), 3),
    "a mark of UTF-8": ("a.csv", b"\xef\xbb\xbf" + text(GOOD), 3),
    "two marks of UTF-8": ("a.csv", b"\xef\xbb\xbf\xef\xbb\xbf" + text(GOOD), 3),
    "UTF-16, little end": ("a.csv", GOOD.encode("utf-16"), 3),
    "UTF-16, big end": ("a.csv", b"\xfe\xff" + GOOD.encode("utf-16-be"), 3),
    "UTF-16, half a sign": ("a.csv", GOOD.encode("utf-16") + b"\x31", 3),
    "UTF-16 without a mark": ("a.csv", GOOD.encode("utf-16-le"), "not UTF-8"),
    "Latin-1": ("a.csv", GOOD.replace("a\n", "é\n").encode("latin-1"), 3),
    "bytes that are nothing": ("a.csv", text(GOOD) + b"4,2024-01-08,1,\xff\xfe\xfd\n", 4),
    "a header in Latin-1": ("a.csv", ("é," + HEAD).encode("latin-1") + b"x,1,,,\n", "not UTF-8"),
    "quotes everywhere": ("a.csv", text(QUOTED), 1),
    "quotes of one kind": ("a.csv", text(QUOTED.replace('"', "'")), "no column"),
    "spaces in the header": ("a.csv", text(" who , day , amount , kind \n1,2024-01-05,1,a\n"), 1),
    "capitals in the header": ("a.csv", text(HEAD.upper() + ROWS), 3),
    "another order": ("a.csv", text("kind,amount,day,who\na,1,2024-01-05,1\n"), 1),
    "one more column": ("a.csv", text("x," + HEAD + "9,1,2024-01-05,1,a\n"), 1),
    "a column twice": ("a.csv", text("who," + HEAD + "1,9,2024-01-05,1,a\n"), 1),
    "a name that is empty": ("a.csv", text("," + HEAD + "0,1,2024-01-05,1,a\n"), 1),
    # rows that are not like the others
    "too few values": ("a.csv", text(GOOD + "4\n5,2024-01-05\n"), 5),
    "too many values": ("a.csv", text(GOOD + "4,2024-01-05,1,a,b,c\n"), 3),
    "commas at the end": ("a.csv", text(GOOD.replace("\n", ",,\n")), 3),
    "blank lines": ("a.csv", text(HEAD + "\n\n" + ROWS.replace("\n", "\n\n")), 3),
    "blank lines before": ("a.csv", text("\n\r\n" + GOOD), 3),
    "types that mix": ("a.csv", text(GOOD + "x,soon,much,7\n4,5,6,7\n"), 4),
    "a number that is no whole one": ("a.csv", text(GOOD + "4.5,2024-01-05,1,a\n"), 3),
    "a number that is too large": ("a.csv", text(GOOD + f"{10**30},2024-01-05,1e999,a\n"), 3),
    "numbers for people in another spelling": ("a.csv", text(HEAD + "007,,,\n+7,,,\n7.0,,,\n"), 3),
    "rows about nobody": ("a.csv", text(GOOD + ",2024-01-05,1,a\n"), 3),
    "dates out of range": ("a.csv", text(GOOD + "4,99999-01-01,1,a\n5,0000-01-01,1,a\n"), 5),
    "dates that are none": ("a.csv", text(GOOD + "4,2024-02-31,1,a\n5,infinity,1,a\n"), 5),
    "a huge cell": ("a.csv", text(GOOD + f"4,2024-01-05,1,{HUGE}\n"), 4),
    "a cell that is too huge": ("a.csv", text(GOOD + f"4,2024-01-05,1,{TOO_LONG}\n"), 3),
    "a huge header": ("a.csv", text(HUGE + "," + GOOD.replace("\n", "\n0,", 3)), 3),
    "a header without an end": ("a.csv", text("who," + TOO_LONG * 2), "no header"),
    "a quote that is not closed": ("a.csv", text(HEAD + '1,2024-01-05,1,"a\n' + ROWS), 4),
    "a quote that closes early": ("a.csv", text(HEAD + '1,2024-01-05,1,"a" b\n' + ROWS), 4),
    "a quote in the middle": ("a.csv", text(HEAD + '1,2024-01-05,1,5" pipe\n' + ROWS), 4),
    "quotes without end": ("a.csv", text(HEAD + '"' * 9999 + "\n" + ROWS), 3),
    "backslashes": ("a.csv", text(HEAD + '1,2024-01-05,1,"a\\"\n' + ROWS), 4),
    "controls": ("a.csv", text(HEAD + "1,2024-01-05,1,\x1b]0;title\x07\n" + ROWS), 4),
    "NUL": ("a.csv", text(HEAD + "1,2024-01-05,1,a\0b\n" + ROWS), 4),
    "only NUL": ("a.csv", b"\0" * 999, "not UTF-8"),
    "a page of errors": ("a.csv", b"<!DOCTYPE html>\n<html>404</html>\n", "no column"),
    "headers between rows": ("a.csv", text(GOOD + GOOD), 6),
    "a total at the end": ("a.csv", text(GOOD + "Total,,7.5,\n"), 3),
    # nothing, or not what the name says
    "nothing": ("a.csv", b"", "no header"),
    "one line end": ("a.csv", b"\n", "no header"),
    "spaces": ("a.csv", b"   \n", "no column"),
    "a header only": ("a.csv", text(HEAD), 0),
    "a header without its end": ("a.csv", text(HEAD.strip()), 0),
    "no header": ("a.csv", text(ROWS), "no column"),
    "Parquet in .csv": ("a.csv", parquet(), "rename it"),
    "gzip in .csv": ("a.csv", gzip.compress(text(GOOD)), "rename it"),
    "a workbook in .csv": ("a.csv", b"PK\x03\x04" + bytes(99), "rename it"),
    "text in .parquet": ("a.parquet", text(GOOD), "can't be read"),
    "text in .arrow": ("a.arrow", text(GOOD), "can't be read"),
    "text in .xlsx": ("a.xlsx", text(GOOD), ""),
    "text in .sqlite": ("a.sqlite", text(GOOD), "can't be read"),
    "text in .duckdb": ("a.duckdb", text(GOOD), "can't be read"),
    "an unknown kind": ("a.docx", text(GOOD), "not known"),
    "no kind": ("data", text(GOOD), "not known"),
    # packed
    "gzip": ("a.csv.gz", gzip.compress(text(GOOD)), 3),
    "gzip in parts": ("a.csv.gz", gzip.compress(text(HEAD)) + gzip.compress(text(ROWS)), 3),
    "gzip that ends early": ("a.csv.gz", gzip.compress(text(GOOD * 99))[:-12], "can't be read"),
    "gzip of nothing": ("a.csv.gz", gzip.compress(b""), "no header"),
    "no byte of gzip": ("a.csv.gz", b"", "no header"),
    "text in .gz": ("a.csv.gz", text(GOOD), "can't be read"),
    "zlib in .gz": ("a.csv.gz", zlib.compress(text(GOOD)), 3),
    "zstd": ("a.csv.zst", zst(text(GOOD)), 3),
    "zstd that ends early": ("a.csv.zst", zst(text(GOOD * 99))[:-9], "can't be read"),
    "bzip2": ("a.csv.bz2", bz2.compress(text(GOOD)), 3),
    "gzip of UTF-16": ("a.csv.gz", gzip.compress(GOOD.encode("utf-16")), 3),
    "gzip of JSON": ("a.jsonl.gz", gzip.compress(text(LINES)), 3),
    "gzip of Parquet": ("a.parquet.gz", gzip.compress(parquet()), "not known"),
    # JSON
    "lines": ("a.jsonl", text(LINES), 3),
    "a list": ("a.json", text(json.dumps(OBJECTS)), 3),
    "a list over many lines": ("a.json", text(json.dumps(OBJECTS, indent=4)), 3),
    "lines in .json": ("a.json", text(LINES), 3),
    "a list with a mark": ("a.json", b"\xef\xbb\xbf" + text(json.dumps(OBJECTS)), 3),
    "a list in UTF-16": ("a.json", json.dumps(OBJECTS).encode("utf-16"), 3),
    "an empty list": ("a.json", b"[]", 0),
    "a list without an end": ("a.json", text(json.dumps(OBJECTS)[:-9]), "no end"),
    "two lists": ("a.json", text(json.dumps(OBJECTS) * 2), "more after the end"),
    "a list of odd items": ("a.json", b'[1, null, "who", [], {"who": 4}, {"who": "x"}]', 1),
    "brackets in texts": ("a.json", b'[{"who": 1, "kind": "]}[{\\"\\\\"}, {"who": 2}]', 2),
    "one object": ("a.json", b'{"who": 1}', 1),
    "lines that are torn": ("a.jsonl", text(LINES + '{"who": 4, "kin'), 3),
    "lines of something else": ("a.jsonl", text(GOOD), 0),
    "deep brackets": ("a.jsonl", text(LINES) + b"[" * 9999 + b"\n", 3),
    "keys twice": ("a.jsonl", b'{"who": 1, "who": 2}\n', 1),
    "lines of nothing": ("a.jsonl", b"", 0),
    # Parquet, Arrow
    "Parquet": ("a.parquet", parquet(), 3),
    "Parquet that ends early": ("a.parquet", parquet()[:-30], "can't be read"),
    "Parquet without rows": ("a.parquet", parquet(TABLE.slice(0, 0)), 0),
    "Parquet that lacks a column": ("a.parquet", parquet(TABLE.drop(["day"])), "no column 'day'"),
    "Parquet of lists": ("a.parquet", parquet(LISTS), 3),
    "no byte of Parquet": ("a.parquet", b"", "can't be read"),
    "Arrow": ("a.arrow", arrow(), 3),
    "Arrow that ends early": ("a.arrow", arrow()[:-200], "can't be read"),
}


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sparseq.Store]:
    first = tmp_path_factory.mktemp("odd") / "first.csv"
    first.write_text(GOOD)
    with sparseq.create(None, {"t": first}, user="who", seed=1) as con:
        yield con


def taken(con: sparseq.Store, places: object) -> int | str:
    """Return how many rows came in of what is there; or the message, if it was refused whole."""
    before, notes, log = counts(con), con.taken(), len(con.curator_notes())
    refused: SparseqError | None = None
    rows = 0
    try:
        rows = con.ingest(places, again=True)
    except SparseqError as error:
        refused = error
    if refused is None:
        assert counts(con).rows["t"] == before.rows["t"] + rows
        return rows
    assert (counts(con), con.taken(), len(con.curator_notes())) == (before, notes, log)
    assert refused.message.isprintable()
    assert refused.hint
    return f"{refused.message}; {refused.hint}"


def test_there_are_a_hundred() -> None:
    assert len(FILES) >= 100


@pytest.mark.parametrize("odd", one_in(2, FILES))
def test_an_odd_file_is_read_or_refused_whole(con: sparseq.Store, tmp_path: Path, odd: str) -> None:
    name, data, expected = FILES[odd]
    (tmp_path / name).write_bytes(data)
    found = taken(con, tmp_path / name)
    if isinstance(expected, int):
        assert found == expected
    else:
        assert isinstance(found, str)
        assert expected in found
        assert name in found


@pytest.mark.parametrize("odd", one_in(8, FILES))
def test_a_store_is_made_of_it_or_nothing_is(tmp_path: Path, odd: str) -> None:
    name, data, _ = FILES[odd]
    (tmp_path / name).write_bytes(data)
    with suppress(DataError):
        sparseq.create(tmp_path / "s.sparseq", tmp_path / name, user="who").close()
        return
    assert [p.name for p in tmp_path.iterdir()] == [name]


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "b.csv").write_text(GOOD)
    (path / "a.csv").write_text(GOOD.replace("3,", "4,"))


def _with_more(path: Path) -> None:
    _folder(path)
    for name in ("README.md", "notes.txt", "_SUCCESS", ".hidden.csv", "c.csv.tmp", ".DS_Store"):
        (path / name).write_text("x")
    (path / "_temporary").mkdir()
    (path / "_temporary" / "d.csv").write_text(GOOD)


def _with_links(path: Path) -> None:
    _folder(path)
    (path / "latest.csv").symlink_to("a.csv")
    (path / "again").symlink_to(path)


def _of_kinds(path: Path) -> None:
    _folder(path)
    (path / "c.jsonl").write_text(LINES)


def _partitions(path: Path) -> None:
    for day in ("2024-01-05", "2024%2D01%2D06", "__HIVE_DEFAULT_PARTITION__"):
        (path / f"day={day}").mkdir(parents=True)
        (path / f"day={day}" / "part-0.csv").write_text("who,amount,kind\n1,1,a\n")


def _one_bad(path: Path) -> None:
    _folder(path)
    (path / "c.csv").write_text("who,day\n1,2024-01-05\n")


def _dead_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone.csv"))


FOLDERS: dict[str, tuple[Callable[[Path], None], str, int | str]] = {
    "a folder": (_folder, "", 6),
    "a folder in a folder": (lambda p: _folder(p / "x") if p.mkdir() is None else None, "", 6),
    "other things in it": (_with_more, "", 6),
    "links in it": (_with_links, "", 6),
    "several kinds": (_of_kinds, "", "files of several kinds: 2 csv, 1 jsonl"),
    "one kind of several": (_of_kinds, "/*.csv", 6),
    "partitions": (_partitions, "", 3),
    "partitions by a pattern": (_partitions, "/day=2024*/*.csv", 2),
    "nothing in it": (Path.mkdir, "", "no file that can be read"),
    "one file that does not fit": (_one_bad, "", "c.csv has no column 'amount'"),
    "a pattern that nothing fits": (_folder, "/*.parquet", "no file fits"),
    "a place that is not there": (_folder, "/c.csv", "there is no file"),
    "a link without a target": (_dead_link, "", "without a target"),
    "a pattern over folders": (_folder, "/../**/*.csv", 6),
}


@pytest.mark.parametrize("odd", FOLDERS)
def test_a_folder_is_read_or_refused_whole(con: sparseq.Store, tmp_path: Path, odd: str) -> None:
    make, more, expected = FOLDERS[odd]
    make(tmp_path / "in")
    found = taken(con, f"{tmp_path / 'in'}{more}")
    assert found == expected if isinstance(expected, int) else expected in str(found)


@pytest.mark.parametrize(
    "name",
    [
        "a[1].csv",
        "*.csv",
        "what?.csv",
        "a b.csv",
        "é.csv",
        "a#b.csv",
        "x=1.csv",
        "'; --.csv",
        "a\x1b[31m.csv",
        "-n.csv",
        "a\nb.csv",
        os.fsdecode(b"\xff.csv"),
    ],
)
def test_names_stand_for_themselves(con: sparseq.Store, tmp_path: Path, name: str) -> None:
    try:
        (tmp_path / name).write_text(GOOD)
    except (OSError, UnicodeError):
        pytest.skip("this file system has no such names")
    assert taken(con, tmp_path / name) == 3
    (tmp_path / name).write_text(ROWS)
    assert "has no column" in str(taken(con, tmp_path / name))


def test_databases_that_are_odd(con: sparseq.Store, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as lite:
        lite.execute("CREATE TABLE 'odd name' (who, day, amount, kind)")
        lite.executemany(
            "INSERT INTO 'odd name' VALUES (?, ?, ?, ?)",
            [
                (1, "2024-01-05", 1.5, "a"),
                ("x", 7, "much", b"\xff"),
                (2.0, None, 2**62, "\0"),
                (None, "", float("inf"), 1e300),
            ],
        )
    lite.close()
    assert taken(con, tmp_path / "a.db") == 2
    assert taken(con, f"{tmp_path / 'a.db'}#odd name") == 2
    assert taken(con, f"{tmp_path / 'a.db'}#SELECT * FROM [odd name] WHERE who = 1") == 1
    assert "no table 'none'" in str(taken(con, f"{tmp_path / 'a.db'}#none"))
    assert "can't be read" in str(taken(con, f"{tmp_path / 'a.db'}#SELECT nonsense"))
    with duckdb.connect(tmp_path / "b.db") as duck:
        duck.execute("CREATE TABLE a AS SELECT 1 AS who; CREATE TABLE b AS SELECT 1 AS who")
    assert "2 tables: which one?" in str(taken(con, tmp_path / "b.db"))
    assert "no column 'day'" in str(taken(con, f"{tmp_path / 'b.db'}#b"))
    sqlite3.connect(tmp_path / "c.sqlite").close()
    assert "has no table" in str(taken(con, tmp_path / "c.sqlite"))
