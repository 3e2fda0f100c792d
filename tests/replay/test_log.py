"""Logs in every format are the same lines; a line that can't be read says why, and no more."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import sparseq
from sparseq.question.plan import Options
from sparseq.replay import Line, Log
from sparseq.replay import log as replay_log

LINES: list[dict[str, Any]] = [
    {"id": "a", "sql": "SELECT 'ü,\"x\"' FROM t", "analyst": "bo", "time": "2024-01-01 08:00:00"},
    {"sql": "SELECT 2\nFROM t", "options": {"sigma": 3.5}},
    {"id": "c", "sql": "SELECT :day", "parameters": {"day": "2024-01-01", "n": 4}},
]


def written(folder: Path, kind: str) -> Path:
    path = folder / f"log.{kind}"
    rows = [{k: json.dumps(v) if isinstance(v, dict) else v for k, v in x.items()} for x in LINES]
    columns = ("id", "time", "analyst", "sql", "parameters", "options")
    if kind == "parquet":
        pa.parquet.write_table(
            pa.table({c: pa.array([r.get(c) for r in rows], pa.string()) for c in columns}), path
        )
        return path
    if kind.startswith("jsonl"):
        data = "\n".join(map(json.dumps, LINES)).encode() + b"\n"
    else:
        import csv
        import io

        text = io.StringIO()
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(rows)
        data = text.getvalue().encode()
    if kind.endswith(".gz"):
        data = gzip.compress(data)
    if kind.endswith(".zst"):
        data = pa.compress(data, "zstd", asbytes=True)
    path.write_bytes(data)
    return path


EXPECTED = [
    Line(1, "a", LINES[0]["sql"], "2024-01-01 08:00:00", "bo"),
    Line(2, "line 2", "SELECT 2\nFROM t", options=Options(sigma=3.5)),
    Line(3, "c", "SELECT :day", parameters={"day": "2024-01-01", "n": 4}),
]


@pytest.mark.parametrize(
    "kind", ["jsonl", "jsonl.gz", "jsonl.zst", "csv", "csv.gz", "csv.zst", "parquet"]
)
def test_every_format_gives_the_same_lines(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    log = Log(path)
    assert list(log.lines()) == EXPECTED
    assert log.name == "log"
    assert log.share == 1.0
    assert list(Log(path).lines(after=2)) == EXPECTED[2:]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{", "Expecting"),
        (b"[1]", "not a JSON object"),
        (b'{"query": "SELECT 1"}', "no sql"),
        (b'{"sql": 7}', "not text"),
        (b'{"sql": "  "}', "no sql"),
        (rb'{"sql": "a", "id": "\ud800"}', "UTF-8"),
        (rb'{"sql": "a", "parameters": {"k": "\ud800"}}', "UTF-8"),
        (rb'{"sql": "a", "parameters": {"\ud800": 1}}', "UTF-8"),
        (b'{"sql": "a", "parameters": {"k": {"x": 1}}}', "parameter k must be text"),
        (b'{"sql": "a", "parameters": {"k": [1]}}', "parameter k must be text"),
        (b'{"sql": "a", "parameters": {"k": 1e400}}', "finite"),
        (b'{"sql": "\xff"}', "codec"),
        (b'{"sql": "a", "options": {"sigma": -1}}', "positive"),
        (b'{"sql": "a", "options": {"sigma": true}}', "must be a number"),
        (b'{"sql": "a", "options": {"epsilon": 1}}', "no option 'epsilon'"),
        (b'{"sql": "a", "options": {"sigma": 1, "accuracy": 1}}', "same knob"),
        (b'{"sql": "a", "options": "sigma 3"}', "not JSON"),
        (b'{"sql": "a", "parameters": [3]}', "must be an object"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_cant_be_read_is_a_line_that_says_why(
    raw: bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'{"sql": "one"}\n' + raw + b'\n\n{"sql": "four"}')
    one, two, four = Log(path).lines()
    assert why in two.failed
    assert (one.sql, two.number, two.id, four.number, four.sql) == ("one", 2, "line 2", 4, "four")


def test_a_line_without_end_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_log, "LONGEST_LINE", 100)
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'{"sql": "' + b"x" * 1000 + b'"}\n{"sql": "two"}\n')
    long, two = Log(path).lines()
    assert "longer than 100 bytes" in long.failed
    assert two.sql == "two"


def test_lines_are_looked_at_in_blocks_that_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_log, "BLOCK", 4)
    monkeypatch.setattr(replay_log, "BLOCK_TEXT", 100)
    lines = [Line(n, "", "x" * size) for n, size in enumerate([1] * 9 + [99, 1, 200, 3])]
    found = list(replay_log.blocks(iter(lines)))
    assert [len(block) for block in found] == [4, 4, 2, 2, 1]
    assert [line for block in found for line in block] == lines


def test_rows_of_csv_that_dont_fit_the_head(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes(b"\xef\xbb\xbfID,SQL\n1,SELECT 1\n2,a,b\n\n3\n4,\xff\n5,SELECT 5\n")
    lines = list(Log(path).lines())
    assert [x.id for x in lines] == ["1", "line 2", "3", "line 4", "5"]
    assert [bool(x.failed) for x in lines] == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("log.txt", b"", "not a log that sparseq can read"),
        ("log", b"", "not a log that sparseq can read"),
        ("log.parquet.gz", b"", "not a log that sparseq can read"),
        ("log.csv", b"query\nSELECT 1\n", "no column sql; it has query"),
        ("log.csv", b"", "no column sql"),
        ("log.csv", b"\xfd\x05n," * 900, r"no column sql; it has .{9,200} …\n"),
        ("log.parquet", b"PAR1 or not", "can't be read"),
        ("log.jsonl.gz", b"no gzip", "can't be read"),
        ("log.jsonl.gz", gzip.compress(b'{"sql": "a"}\n' * 999, mtime=0)[:30], "can't be read"),
        ("log.jsonl.zst", b"no zstd", "can't be read"),
    ],
)
def test_a_file_that_is_no_log(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(sparseq.DataError, match=message):
        list(Log(tmp_path / name).lines())
    with pytest.raises(sparseq.DataError, match="no file"):
        Log(tmp_path / "none.csv")
