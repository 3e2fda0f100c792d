"""Files of every format, with and without one person's rows, and values that trip readers up.

A text file's columns may hold any text. The public facts of a file are its frame: its name, its
format and its header. So every file has a row of a person who is in all four stores.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.base.errors import SparseqError
from sparseq.store.store import Store

TEXTS = ("csv", "tsv", "jsonl", "csv.gz", "jsonl.gz")
TYPED = ("parquet", "arrow")
FORMATS = (*TEXTS, *TYPED)
DATES = ("%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y")
"""How text files write a day: the second and third can be taken for each other."""
ORDERS = {"%m/%d/%Y": "mdy", "%d/%m/%Y": "dmy"}
COLUMNS = ("who", "day", "n", "x", "s", "b", "key")
SCHEMA = pa.schema(
    [
        ("who", pa.int64()),
        ("day", pa.date32()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("key", pa.int64()),
    ]
)
Row = dict[str, Any]
_ODD: dict[str, tuple[str, ...]] = {
    "who": ("{}", "{}", "{}", " {}", "{}.0", "0{}", "{}e0"),
    "day": (
        "02/13/2024",
        "31/12/2024",
        "02/13/2024",
        "31/01/2024",
        "2024-02-30",
        "13.02.2024",
        "",
        "infinity",
        "2024-01-05T10:00:00",
        "20240105",
        "never",
    ),
    "n": (
        "1e3",
        "abc",
        "1.50",
        "TRUE",
        "99999999999999999999",
        "-9223372036854775808",
        "",
        "0x10",
        "1_000",
        " 7",
    ),
    "x": ("nan", "-inf", "1e400", "abc", "1,5", "", "TRUE", "5e-324"),
    "s": (
        '"',
        "a,b",
        "1e3",
        "TRUE",
        "\x1b[31m",
        "x" * 3000,
        "2024-01-05",
        "é\u200b",
        "",
        "1.50",
        "NULL",
    ),
    "b": ("yes", "1", "abc", "", "t", "2"),
    "key": ("1", "abc", "", "1e0"),
}
_NASTY: dict[str, tuple[Any, ...]] = {
    "day": (dt.date(1, 1, 1), dt.date(9999, 12, 31), None),
    "n": (2**63 - 1, -(2**63), None),
    "x": (float("nan"), float("inf"), -1e308, None),
    "s": ("", "\x00", "x" * 3000, None),
    "b": (True, None),
    "key": (1, None),
}


def ordinary(rng: random.Random, who: int, day: dt.date) -> Row:
    """Return a row that fits."""
    return {
        "who": who,
        "day": day,
        "n": rng.randrange(10),
        "x": rng.randrange(1000) / 8,
        "s": rng.choice("abc"),
        "b": rng.random() < 0.5,
        "key": rng.randrange(3),
    }


def odd(rng: random.Random, who: int, day: dt.date, format: str) -> Row:
    """Return a person's row with unusual values: texts for a text file, else typed ones."""
    row: Row = ordinary(rng, who, day)
    if format in TYPED:
        for column in rng.sample(sorted(_NASTY), rng.choice((1, 3, 6))):
            row[column] = rng.choice(_NASTY[column])
        return row
    for column in rng.sample(COLUMNS, rng.choice((1, 1, 2, 7))):
        row[column] = rng.choice(_ODD[column]).format(who)
    return row


def one_odd(rng: random.Random, who: int, day: dt.date, format: str) -> Row:
    """Return a row that is odd in one column, so that a reader that sniffs may follow it."""
    if format in TYPED:
        return odd(rng, who, day, format)
    column = "day" if rng.random() < 0.7 else rng.choice(COLUMNS)
    if column == "day" and rng.random() < 0.8:  # a date that can be read in one order only
        other = day.replace(month=2, day=rng.randint(13, 28))
        # who guesses takes the day first where both orders fit: the month first tells more
        dates = rng.choice((DATES[1], DATES[1], DATES[2], DATES[3]))
        return ordinary(rng, who, day) | {"day": other.strftime(dates)}
    return ordinary(rng, who, day) | {column: rng.choice(_ODD[column]).format(who)}


def write(path: Path, format: str, rows: Sequence[Row], dates: str) -> Path:
    """Write rows as a file of a format; `dates`: how text files write a day."""
    file = path.with_name(f"{path.name}.{format}")
    if format in TYPED:
        table = pa.Table.from_pylist(list(rows), SCHEMA)
        if format == "parquet":
            pq.write_table(table, file)
        else:
            with pa.ipc.new_file(file, SCHEMA) as sink:
                sink.write_table(table)
        return file
    texts = [{c: _text(v, dates) for c, v in row.items()} for row in rows]
    if format.startswith("jsonl"):
        plain = (bool, int, float, type(None))
        lines = [
            {c: row[c] if isinstance(row[c], plain) else text[c] for c in row}
            for row, text in zip(rows, texts, strict=True)
        ]
        data = "".join(json.dumps(line) + "\n" for line in lines)
    else:
        out = io.StringIO()
        quoting = csv.QUOTE_MINIMAL
        writer = csv.DictWriter(
            out,
            COLUMNS,
            delimiter="\t" if format == "tsv" else ",",
            quoting=quoting,
            lineterminator="\n",
        )
        writer.writeheader()
        writer.writerows(texts)
        data = out.getvalue()
    raw = data.encode()
    file.write_bytes(gzip.compress(raw, mtime=0) if format.endswith(".gz") else raw)
    return file


def _text(value: Any, dates: str) -> str:
    if isinstance(value, dt.date):
        return value.strftime(dates)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def ingested(store: Store, file: Path, once: str, late: bool) -> str:
    """Load a file; return the effects that others than the curator can notice."""
    try:
        store.ingest([file], once=once, late=late)
    except SparseqError as error:
        return f"set aside: {type(error).__name__}"
    return "taken in"
