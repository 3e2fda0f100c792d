"""Exports as people get them, and commands as people mistype them: by the command line.

Each file gives the right rows, and what was changed, left out or guessed is said; or it is refused
with what to do, and there is no store. No mistake ends in a traceback, or leaves anything behind.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import re
import shlex
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter
from command_runs import run
from sampled import one_in

import sparseq
from data.exports import write as write_exports
from sparseq.store.curator import exact_sql

ROOT = Path(__file__).parent.parent.parent
GERMAN = "who;Straße;Größe\n1;Königsweg;1,5\n2;Allee;2,25\n"
ROOT2 = [(1, "Königsweg", 1.5), (2, "Allee", 2.25)]
ISO = "who,day,x\n1,2024-01-05,3\n2,2024-02-06,4\n"
READ = [(1, dt.date(2024, 1, 5), 3), (2, dt.date(2024, 2, 6), 4)]
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Odd:
    """A file, what is said of it on the command line, and what comes of it.

    Attributes:
        data: Its bytes; a text is written in UTF-8.
        rows: In the store, in any order; None: it is refused.
        says: What is on standard error, among other things.
        how: More words of the command.
        name: Of the file.
    """

    data: bytes | str
    rows: Rows | None
    says: tuple[str, ...] = ()
    how: tuple[str, ...] = ()
    name: str = "a.csv"

    @property
    def bytes(self) -> bytes:
        return self.data.encode() if isinstance(self.data, str) else self.data


def lines(*objects: Any) -> str:
    return "".join(json.dumps(o) + "\n" for o in objects)


def workbook(*rows: list[Any]) -> bytes:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made) as book:
        sheet = book.add_worksheet()
        for k, row in enumerate(rows):
            sheet.write_row(k, 0, row)
    return made.getvalue()


day, moment = dt.date, dt.datetime
FILES: dict[str, Odd] = {
    # what separates, how it is encoded
    "German, UTF-8": Odd(GERMAN, ROOT2, ("decimal comma: every value fits",)),
    "German, cp1252": Odd(GERMAN.encode("cp1252"), ROOT2, ("text files as cp1252: a guess",)),
    "German, Latin-1, declared": Odd(
        GERMAN.encode("latin-1"), ROOT2, ("decimal comma",), ("--csv", "encoding=latin-1")
    ),
    "German, UTF-16": Odd(GERMAN.encode("utf-16"), ROOT2, ("decimal comma",)),
    "German, UTF-16, big end, Windows": Odd(
        b"\xfe\xff" + GERMAN.replace("\n", "\r\n").encode("utf-16-be"), ROOT2, ("decimal comma",)
    ),
    "German, packed": Odd(
        gzip.compress(GERMAN.encode("cp1252")), ROOT2, ("cp1252",), name="a.csv.gz"
    ),
    "UTF-32": Odd(GERMAN.encode("utf-32"), None, ("a.csv", "UTF-8")),
    "cp1252 with a euro": Odd(
        "who;w\n1;5 €\n2;7 €\n".encode("cp1252"),
        [(1, "5 €"), (2, "7 €")],
        ("cp1252", "most look like numbers with a currency"),
    ),
    "one line in another encoding": Odd(
        "who,w\n1,Köln\n".encode() + b"2,K\xf6ln\n",
        [(1, "Köln"), (2, None)],
        ("1 line or row",),
    ),
    "a mark, and a line for Excel": Odd(
        b"\xef\xbb\xbfsep=;\r\n" + GERMAN.replace("\n", "\r\n").encode(), ROOT2, ("decimal comma",)
    ),
    "old Mac": Odd(ISO.replace("\n", "\r"), READ),
    "tabs with decimal commas": Odd("who\tx\n1\t1,5\n", [(1, 1.5)], ("decimal comma",)),
    "a table of psql": Odd(
        " who | x \n-----+---\n   1 | 3\n(1 row)\n",
        [("-----+---", None), ("   1 ", 3), ("(1 row)", None)],
        (),
    ),
    "NUL in a value": Odd("who,w\n1,a\0b\n2,c\n", [(1, None), (2, "c")], ("or NUL",)),
    # the frame: titles, headers, nothing
    "titles": Odd("Report\nof 2024;;\n" + GERMAN, ROOT2, ("decimal comma",), ("--csv", "skip=2")),
    "titles that nobody said": Odd("Report\nof 2024\n" + ISO, READ, ("the 2 lines with titles",)),
    "a title, then an empty line": Odd("Report\n\n" + ISO, READ, (), ("--csv", "skip=1")),
    "nothing": Odd("", None, ("a.csv has no header",)),
    "only a mark": Odd(b"\xef\xbb\xbf", None, ("a.csv has no header",)),
    "only a mark of UTF-16": Odd(b"\xff\xfe", None, ("a.csv has no header",)),
    "only a header": Odd("who,day\n", []),
    "names that are none": Odd(
        "who;Cost (EUR);2024;% new\n1;2;3;4\n",
        [(1, 2, 3, 4)],
        ("Cost_EUR", "_2024", "renamed: '% new' can't be a name"),
    ),
    "names in quotes with separators": Odd(
        '"who";"a;b"\n1;2\n', [(1, 2)], ("renamed: 'a;b' can't be a name",)
    ),
    "a name over two lines": Odd('who,"a\nb"\n1,2\n', None, ("a quote that is not closed",)),
    "a name twice": Odd("who,x,x\n1,2,3\n", [(1, 2, 3)], ("'x' is called 'x_2'",)),
    "a name twice, in capitals": Odd("who,x,X\n1,2,3\n", [(1, 2, 3)], ("'X' is called 'X_2'",)),
    "separators at the ends": Odd("who;x;\n1;2;\n", [(1, 2)], ("without a name: not read",)),
    "separators at the ends of rows": Odd("who;x\n1;2;;\n", [(1, 2)]),
    "spaces that don't break": Odd("who\u00a0,x\n1,2\n", [(1, 2)]),
    # rows
    "ragged": Odd(
        "who,x,y\n1,2,3\n2\n3,4,5,6\n", [(1, 2, 3), (2, None, None)], ("1 line was left out",)
    ),
    "line ends in values, declared": Odd(
        'who,w\n1,"a\nb"\n2,c\n', [(1, "a\nb"), (2, "c")], (), ("--csv", "multiline")
    ),
    "line ends in values": Odd(
        'who,w,x\n1,"a\nb",3\n2,"c",4\n',
        [("1", "a", None), ('b"', "3", None), ("2", "c", 4)],
        ("1 have a quote that is not closed", "--csv multiline"),
    ),
    "a total below": Odd(
        "who;x\n1;2\nTotal;2\n", [("1", 2), ("Total", 2)], ("Total is taken for a person",)
    ),
    "a total below, left out": Odd(
        "who;x\n1;2\nTotal;2\n", [(1, 2)], ("1 of 2 rows were left out",), ("--csv", "null=Total")
    ),
    "a footer of a database": Odd(
        "who,x\n1,2\n2,3\n(2 rows)\n",
        [("1", 2), ("2", 3), ("(2 rows)", None)],
        ("most are whole numbers; --type who=BIGINT leaves the others out",),
    ),
    # numbers
    "points between thousands": Odd(
        "who;x\n1;1.234.567\n2;12\n", [(1, 1234567.0), (2, 12.0)], ("decimal comma",)
    ),
    "points that may be": Odd(
        "who;x\n1;1.234\n2;2.500\n", [(1, 1.234), (2, 2.5)], ("--type x=DOUBLE:, says so",)
    ),
    "commas that may be thousands": Odd(
        "who;x\n1;1,234\n2;12\n", [(1, "1,234"), (2, "12")], ("the comma can be",)
    ),
    "decimal commas among commas": Odd(
        'who,x\n1,"1,5"\n2,"2,5"\n', [(1, "1,5"), (2, "2,5")], ("most look like numbers",)
    ),
    "thousands of the English": Odd(
        'who,x\n1,"1,234.50"\n2,7.00\n', [(1, "1,234.50"), (2, "7.00")], ("commas between",)
    ),
    "thousands of the Swiss": Odd(
        "who;x\n1;1'234.50\n2;12.00\n", [(1, "1'234.50"), (2, "12.00")], ("spaces, quotes",)
    ),
    "brackets for less than nothing": Odd(
        "who,x\n1,(12.50)\n2,3.00\n", [(1, "(12.50)"), (2, "3.00")], ("brackets",)
    ),
    "codes with zeros": Odd(
        "who,zip\n1,01067\n2,99084\n", [(1, 1067), (2, 99084)], ("--type zip=VARCHAR keeps zeros",)
    ),
    "codes with zeros, declared": Odd(
        "who,zip\n1,01067\n", [(1, "01067")], (), ("--type", "zip=VARCHAR")
    ),
    "too many digits": Odd(
        "who,x\n1,12345678901234567890\n2,1\n",
        [(1, 12345678901234567890.0), (2, 1.0)],
        ("more than 17 digits",),
    ),
    "words for nothing": Odd(
        "who,x\n1,NA\n2,7\n3,-\n", [(1, None), (2, 7), (3, None)], ("-, NA: no value (NULL)",)
    ),
    "numbers but for one": Odd(
        "who,x\n1,7\n2,8\n3,many\n", [(1, "7"), (2, "8"), (3, "many")], ("most look like numbers",)
    ),
    # dates
    "day first": Odd(
        "who;d\n1;24.12.2025\n2;01.02.2025\n",
        [(1, day(2025, 12, 24)), (2, day(2025, 2, 1))],
        ("read as %d.%m.%Y: the day comes first",),
    ),
    "month first, with hours": Odd(
        "who,d\n1,12/24/2025 9:05 PM\n",
        [(1, moment(2025, 12, 24, 21, 5))],
        ("%m/%d/%Y %I:%M %p: the month comes first",),
    ),
    "which first?": Odd(
        "who,d\n1,03/04/2025\n", None, ("3 April 2025 or 4 March 2025", "--dates dmy")
    ),
    "month first, declared": Odd(
        "who,d\n1,03/04/2025\n", [(1, day(2025, 3, 4))], ("as --dates says",), ("--dates", "mdy")
    ),
    "day first of one column": Odd(
        "who,d,e\n1,03/04/2025,12/24/2025\n",
        [(1, day(2025, 4, 3), day(2025, 12, 24))],
        ("as --dates says", "%m/%d/%Y: the month comes first"),
        ("--dates", "d=dmy"),
    ),
    "months by name": Odd(
        "who,d\n1,24-DEC-2025\n", [(1, day(2025, 12, 24))], ("read as %d-%b-%Y",)
    ),
    "years of two digits": Odd(
        "who;d\n1;24.12.25\n", [(1, day(2025, 12, 24))], ("read as %d.%m.%y",)
    ),
    "dates in two ways": Odd(
        "who;d\n1;24.12.2025\n2;2025-12-24\n",
        [(1, "24.12.2025"), (2, "2025-12-24")],
        ("most look like dates", "--dates d=dmy"),
    ),
    "dates in two ways, declared": Odd(
        "who;d\n1;24.12.2025\n2;2025-12-24\n",
        [(1, day(2025, 12, 24)), (2, None)],
        ("1 values did not fit",),
        ("--dates", "d=dmy"),
    ),
    # workbooks
    "a workbook with titles": Odd(
        workbook(["Report"], [], ["who", "", "d", "d"], [1, 2, "24.12.2025", 3]),
        [(1, day(2025, 12, 24), 3)],
        ("the day comes first", "d is called d_2", "without a name: not read"),
        ("--csv", "skip=1"),
        "a.xlsx",
    ),
    "a workbook with a total, left out": Odd(
        workbook(["who", "x"], ["ann", 1], ["NULL", 2], ["Total", 3]),
        [("ann", 1)],
        ("2 of 3 rows were left out",),
        ("--csv", "null=Total", "--csv", "null=NULL"),
        "a.xlsx",
    ),
    "a workbook with titles that nobody said": Odd(
        workbook(["Report"], ["who"], [1]), None, ("--csv skip=2",), name="a.xlsx"
    ),
    # JSON
    "objects in objects": Odd(
        lines({"who": 1, "p": {"age": 3, "at": {"ward": "a"}}}, {"who": 2, "p": None}),
        [(1, 3, "a"), (2, None, None)],
        name="a.jsonl",
    ),
    "keys with points in objects": Odd(
        lines({"who": 1, "p": {"a.b": 3}}), [(1, 3)], ("p.a.b",), name="a.jsonl"
    ),
    "lists": Odd(lines({"who": 1, "c": [1]}), None, ("--drop c", "DuckDB"), name="a.jsonl"),
    "lists, left out": Odd(
        lines({"who": 1, "c": [1]}), [(1,)], ("left out",), ("--drop", "c"), "a.jsonl"
    ),
    "lists now and then": Odd(
        lines({"who": 1, "c": "a"}, {"who": 2, "c": ["b"]}),
        [(1, "a"), (2, '["b"]')],
        ("kept as JSON writes them",),
        name="a.jsonl",
    ),
    "objects too deep": Odd(
        lines({"who": 1, "a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}),
        None,
        ("a.b.c.d.e has", "--drop"),
        name="a.jsonl",
    ),
    "the rows in an object": Odd(
        json.dumps({"rows": [{"who": 1}]}), None, ("unnest(rows",), name="a.json"
    ),
    "one object over lines": Odd(
        json.dumps({"who": 1}, indent=1), None, ("one object per line",), name="a.json"
    ),
    "dates day first in JSON": Odd(
        lines({"who": "a", "d": "24.12.2025"}),
        [("a", day(2025, 12, 24))],
        ("the day comes first",),
        name="a.jsonl",
    ),
    "a line that is torn, Windows": Odd(
        lines({"who": 1, "x": 2}).replace("\n", "\r\n") + '{"who": 3,',
        [(1, 2)],
        ("1 of 2 rows were left out",),
        name="a.jsonl",
    ),
}


NEW = "create s v.csv --user who "
MISTAKES: list[tuple[str, int, str]] = [
    # what is missing, or not there
    ("create", 2, "Missing argument 'STORE'"),
    ("create v.csv", 2, "Missing argument 'FILE...'"),
    ("create s v.csv", 2, "Missing option '--user'"),
    ("create s nope.csv --user who", 6, "there is no file"),
    ("create s empty --user who", 6, "no file that can be read"),
    ("create s '*.parquet' --user who", 6, "no file fits"),
    ("create s v.docx --user who", 6, "this kind of file is not known"),
    ("create s v.csv#x --user who", 6, "no tables to choose from"),
    ("create s shop.db#nope --user who", 6, "nope"),
    ("create no/folder/s v.csv --user who", 4, "no/folder"),
    ("create web v.csv --user who", 4, "web"),
    ("create s v.csv v.csv --user who", 6, "name each file once"),
    ("create s a=v.csv b=w.csv --user who", 6, "b has no column 'who'"),
    ("create lake://l v.csv --user who", 2, "buckets"),
    (NEW + "--buckets 2", 2, "lake://"),
    # columns that are none
    ("create s v.csv --user whom", 6, "v has no column 'whom'; it has who, day, x, text"),
    ("create s v.csv --user whom --dry-run", 6, "v has no column 'whom'"),
    ("create s v.csv --user who,day,nope", 6, "nope"),
    ("create s v.csv --user ''", 6, "has no column"),
    (NEW + "--time dayy", 6, "did you mean 'day'?"),
    (NEW + "--time who", 2, "two columns"),
    (NEW + "--budget-column who", 2, "a column of its own"),
    (NEW + "--budget-column day --time day", 2, "a column of its own"),
    (NEW + "--public v=w.csv", 2, "two tables are called 'v'"),
    (NEW + "--bounds x=1..2 --bounds x=2..3", 2, "--bounds says twice"),
    (NEW + "--keys x=1 --keys x=2", 2, "--keys says twice"),
    (NEW + "--drop x --rename x=y", 2, "renamed and left out"),
    (NEW + "--drop who", 6, "has no column 'who'"),
    (NEW + "--drop nope", 2, "no table has a column 'nope'\n  hint: check --drop\n"),
    (NEW + "--rename nope=x", 2, "no table has a column 'nope'\n  hint: check --rename\n"),
    (NEW + "--rename day", 2, "--rename day can't be read"),
    (NEW + "--rename day=x", 6, "already a column 'x'"),
    (NEW + "--rename day=a/b", 2, "can't be called 'a/b'"),
    (NEW + "--rename day=a --rename day=b", 2, "once a column"),
    (NEW + "--rename day=d --rename x=D", 2, "get the same name"),
    (NEW + "--rename who=person", 6, "it has person"),
    (NEW + "--keys nope=a", 2, "nope"),
    (NEW + "--bounds nope=0..1", 2, "nope"),
    (NEW + "--row-key nope", 6, "nope"),
    (NEW + "--budget-column nope", 2, "check --budget-column"),
    # how files are read
    (NEW + "--dates ymd", 2, "--dates ymd can't be read"),
    (NEW + "--dates dmy --dates mdy", 2, "--dates mdy can't be read"),
    (NEW + "--dates =dmy", 2, "--dates =dmy can't be read"),
    (NEW + "--dates nope=dmy", 2, "check --dates"),
    (NEW + "--dates x=dmy", 6, "x has no dates in text"),
    (NEW + "--dates day=dmy", 6, "leave --dates day=dmy out"),
    (NEW + "--dates who=dmy", 6, "who has no dates in text"),
    (NEW + "--dates day=dmy --type day=DATE", 2, "both --type and --dates"),
    ("create s dmy.csv --user who --dates mdy", 6, "say --dates day=dmy"),
    ("create s unclear.csv --user who --dry-run", 6, "--dates dmy"),
    ("create s unclear.csv --user who --print-schema", 6, "--dates dmy"),
    ("create s unclear.csv unclear2.csv --user who", 6, "--dates dmy"),
    (NEW + "--csv skip=two", 2, "skip is 'two'"),
    (NEW + "--csv skip=-1", 2, "skip is '-1'"),
    (NEW + "--csv skip=99", 6, "v.csv has no header"),
    (NEW + "--csv skip=1", 6, "has no column 'who'"),
    (NEW + "--csv skpi=1", 2, "did you mean 'skip'?"),
    (NEW + "--csv encoding=utf-16", 2, "not an encoding"),
    (NEW + "--csv encoding=latni", 2, "not an encoding"),
    (NEW + "--csv multiline=yes", 2, "can't be read"),
    (NEW + "--type day=DAY", 2, "the type of day is DAY"),
    (NEW + "--type day=DATE:%Q", 2, "does not fit a DATE"),
    (NEW + "--type x=BIGINT:,", 2, "does not fit a BIGINT"),
    (NEW + "--type nope=DATE", 2, "nope"),
    (NEW + "--type @nope.toml", 2, "can't be read"),
    (NEW + "--type @v.csv", 2, "can't be read"),
    ("create s rows.jsonl --user who", 6, "--drop codes"),
    # what is promised, and what is public
    (NEW + "--kappa 0", 2, "kappa"),
    (NEW + "--kappa many", 2, "--kappa"),
    (NEW + "--epsilon 1", 2, "1,1e-6"),
    (NEW + "--epsilon 1,1e-6 --kappa 1", 2, "give one of them"),
    (NEW + "--window month", 2, "time="),
    (NEW + "--window fortnight --time day", 2, "fortnight"),
    (NEW + "--window month --time text", 2, "use --time with a column of dates or times"),
    (NEW + "--window month=x --time day", 2, "is not a number"),
    (NEW + "--keys x", 2, "--keys x can't be read"),
    (NEW + "--keys x=many", 2, "'many' is not a BIGINT"),
    (NEW + "--keys text=@nope.txt", 2, "the file of keys 'nope.txt' can't be read"),
    (NEW + "--bounds x=1", 2, "--bounds x=1 can't be read"),
    (NEW + "--bounds x=9..1", 2, "9"),
    (NEW + "--bounds day=2024-13-01..2024-12-31", 2, "can't be read"),
    (NEW + "--bounds day=1..2", 2, "day"),
    (NEW + "--public w.csv", 2, "--public w=w.csv"),
    (NEW + "--public w=nope.csv", 6, "there is no file"),
    (NEW + "--most work", 2, "--most work can't be read"),
    (NEW + "--most rwos=3", 2, "rows"),
    (NEW + "--for a=120%,ticks=3", 2, "120"),
    (NEW + "--seed x", 2, "--seed"),
    (NEW + "--config nope.toml", 2, "nope.toml"),
    (NEW + "--usr who", 2, "--user"),
    (NEW + "--dry", 2, "--dry-run"),
    # later files
    ("ingest nope v.csv", 4, "there is no store at nope"),
    ("ingest v.csv v.csv", 4, "v.csv"),
    ("ingest web", 2, "Missing argument 'FILE...'"),
    ("ingest web nope.csv", 6, "there is no file"),
    ("ingest web v.csv", 6, "--again"),
    ("ingest web w.csv", 6, "has no column"),
    ("ingest web nothing.csv", 6, "no header"),
    ("ingest web v.docx", 6, "this kind of file is not known"),
    ("ingest web v.csv --table nope", 3, "nope"),
    ("ingest web v.csv --since soon", 2, "soon"),
    ("ingest web v.csv --dates dmy", 2, "--dates"),
]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, and a store of one of them."""
    folder = tmp_path_factory.mktemp("exports")
    text = "who,day,x,text\n1,2024-01-05,3,a\n2,2024-02-06,4,b\n"
    files = {
        "v.csv": text,
        "w.csv": "k,v\na,1\n",
        "v.docx": text,
        "nothing.csv": "",
        "dmy.csv": "who,day\n1,24/12/2025\n",
        "unclear.csv": "who,day\n1,03/04/2025\n",
        "unclear2.csv": "who,day\n2,05/05/2025\n",
        "rows.jsonl": lines({"who": 1, "codes": [{"a": 1}]}),
    }
    for name, content in files.items():
        (folder / name).write_text(content)
    (folder / "empty").mkdir()
    with sqlite3.connect(folder / "shop.db") as con:
        con.execute("CREATE TABLE orders (who, x)")
    assert run("create", folder / "web", folder / "v.csv", "--user", "who").exit_code == 0
    return folder


@pytest.mark.parametrize(("command", "code", "says"), one_in(20, MISTAKES))
def test_a_mistake_is_said_and_leaves_nothing(
    exports: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int, says: str
) -> None:
    """A few are run always; the others are deep."""
    monkeypatch.chdir(exports)
    before = _contents(exports)
    made = run(*shlex.split(command))
    assert (made.exit_code, made.stdout) == (code, ""), made.output
    assert says in made.stderr, made.stderr
    assert "something went wrong inside" not in made.stderr
    assert "Traceback" not in made.stderr
    if code != 2:
        assert "\n  hint: " in made.stderr
    assert _contents(exports) == before
    with sparseq.connect(exports / "web") as con:
        assert exact_sql(con, "SELECT * FROM v ORDER BY who").num_rows == 2
        assert con.curator_notes() == []


def _contents(folder: Path) -> dict[str, bytes]:
    """Return what is in files; a store's bytes change when it is opened."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {p.name: b"" if p.name == "web" else p.read_bytes() for p in files}


def test_there_are_enough() -> None:
    assert len(FILES) >= 60
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("odd", one_in(14, FILES))
def test_an_export_gives_right_rows_or_says_what_to_do(tmp_path: Path, odd: str) -> None:
    """A dozen kinds of trouble in a few files are run always; the others are deep."""
    file, store = FILES[odd], tmp_path / "s.sparseq"
    (tmp_path / file.name).write_bytes(file.bytes)
    made = run("create", store, f"t={tmp_path / file.name}", "--user", "who", *file.how)
    told = made.stderr.replace("'", "").replace('"', "")
    for text in file.says:
        assert text.replace("'", "").replace('"', "") in told, made.stderr
    if file.rows is None:
        assert made.exit_code == 6
        assert "\n  hint: " in made.stderr
        assert not store.exists()
        return
    assert made.exit_code == 0, made.stderr
    assert bool(made.stderr) == bool(file.says), made.stderr
    with sparseq.connect(store) as con:
        found = exact_sql(con, "SELECT * FROM t").to_pylist()
    assert sorted((tuple(r.values()) for r in found), key=repr) == sorted(file.rows, key=repr)
    dry = run(
        "create",
        tmp_path / "d",
        f"t={tmp_path / file.name}",
        "--user",
        "who",
        "--dry-run",
        *file.how,
    )
    assert (dry.exit_code, (tmp_path / "d").exists()) == (0, False)
    for line in made.stderr.splitlines()[2:]:  # the table of what was changed is a part of it
        if "for the curator only" not in line:
            assert re.split(" {2,}", line)[-1] in dry.stdout


@pytest.mark.deep
def test_a_folder_of_exports_becomes_a_report_by_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most six; each visit is in the store once, as another reader finds it in the files."""
    page = (ROOT / "docs" / "reports.md").read_text("utf-8").split("## From a folder")[1]
    shown = re.findall(r"^\$ sparseq (.*)$", page, re.MULTILINE)
    assert 2 <= len(shown) <= 6
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries").mkdir()
    shutil.copy(ROOT / "queries" / "hospital.toml", "queries")
    (tmp_path / "exports").mkdir()
    visits, tests = write_exports(tmp_path / "exports")
    for line in shown:
        done = run(*shlex.split(line))
        assert done.exit_code == 0, done.stderr
    assert Path("hospital.html").read_text("utf-8").count("<h2") == 4

    rows: dict[int, tuple[Any, ...]] = {}
    lines_read = 0
    for path in Path("exports").glob("*.csv"):
        with pytest.raises(UnicodeDecodeError):
            path.read_text("utf-8")
        for row in list(csv.reader(path.read_text("latin-1").splitlines(), delimiter=";"))[4:]:
            number, patient, day, ward, cost = row
            date = dt.datetime.strptime(day, "%d/%m/%Y").date()
            rows[int(number)] = (patient, date, ward, min(float(cost.replace(",", ".")), 1500.0))
            lines_read += 1
    assert (len(rows), lines_read > visits * 4 // 3) == (visits, True)
    with sparseq.connect("hospital.sparseq") as con:
        found = exact_sql(con, "SELECT visit, patient, day, ward, cost FROM visits").to_pylist()
        assert {r["visit"]: tuple(r.values())[1:] for r in found} == rows
        assert len(found) == visits
        labs = exact_sql(con, 'SELECT no, patient, day, "test.name", "test.value" FROM tests')
        assert con.curator_notes()
    asked = [json.loads(line) for line in Path("exports/labo.jsonl").read_text().splitlines()]
    assert len(asked) == tests
    assert sorted(tuple(r.values()) for r in labs.to_pylist()) == sorted(
        (
            a["no"],
            a["patient"]["no"],
            dt.datetime.strptime(a["day"], "%d/%m/%Y").date(),
            a["test"]["name"],
            a["test"]["value"],
        )
        for a in asked
    )

    words = shlex.split(shown[1])
    at = words.index("--row-key")
    words[1:2], words[at : at + 2] = ["again.sparseq"], []
    again = run(*words)
    assert (again.exit_code, Path("again.sparseq").exists()) == (6, False)
    assert "visites-2024-01 (copie).csv" in again.stderr
