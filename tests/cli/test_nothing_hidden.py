"""What a terminal is given of texts from data: spelled out, everywhere, and exact for machines.

Standard output and error are pseudo-terminals here, as they are for a person.
"""

from __future__ import annotations

import csv
import datetime as dt
import html
import io
import json
import os
import pty
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from sampled import one_in

import sparseq
from sparseq.cli import text
from sparseq.cli.app import sparseq as command
from sparseq.ledger._duckdb.curator_log import CuratorLog

EVIL = "ev\x1b[31mil\x1b]0;own\x07\u202egpj\x9b2J"
SPELLED = "ev\\x1b[31mil\\x1b]0;own\\x07\\u202egpj\\x9b2J"
HIDDEN = ("\x1b[31mil", "\x1b]", "\x07", "\u202e", "\x9b")
COLUMN = "x"  # a column is refused that has such a name
DAY = dt.date(2024, 1, 1)
PEOPLE = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with evil people, keys and a column; queries, logs and files of evil names."""
    folder = tmp_path_factory.mktemp("evil")
    rows = pa.table(
        {
            "who": [f"{i}{EVIL}" for i in range(PEOPLE)],
            "day": [DAY] * PEOPLE,
            "g": [EVIL] * PEOPLE,
            COLUMN: [1.0] * PEOPLE,
        }
    )
    path = folder / "s.sparseq"
    with sparseq.create(
        path,
        {"t": rows},
        user="who",
        seed=1,
        keys={"g": [EVIL, "ok"]},
        bounds={COLUMN: (0, 1)},
        purposes=[sparseq.Questions(in_or_out=True, counts=400)],
    ) as con:
        CuratorLog(con.backend.database).add("ingest", EVIL)
    (folder / f"{EVIL}.sql").write_text("SELECT count(*) AS n FROM t WHERE day = :day")
    (folder / "keys.sql").write_text("SELECT g, count(*) AS n FROM t WHERE day = :day GROUP BY g")
    (folder / f"{EVIL}.csv").write_text("garbage")
    lines = [
        {"id": EVIL, "analyst": EVIL, "sql": f"SELECT g FROM t -- {EVIL}"},
        {"id": EVIL, "sql": f'SELECT count(*) AS "{EVIL}" FROM t'},
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    here = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(here)


@contextmanager
def terminal() -> Iterator[list[bytes]]:
    """Have standard output and error be a terminal; what it was given is the list's."""
    leader, follower = pty.openpty()
    given: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # the other side is closed
                return
            given.append(part)
            if part.endswith(b"\x04"):
                return

    reader = threading.Thread(target=read)
    reader.start()
    with (
        open(follower, "w", encoding="utf-8", buffering=1) as screen,
        pytest.MonkeyPatch.context() as m,
    ):
        m.setattr("sys.stdout", screen)
        m.setattr("sys.stderr", screen)
        m.delenv("NO_COLOR", raising=False)
        yield given
        screen.write("\x04")
        screen.flush()
        reader.join()
    os.close(leader)


def on_screen(*line: str) -> str:
    """Run a command for a person at a terminal; return what the terminal was given."""
    with terminal() as given, suppress(SystemExit):
        command.main(list(line), prog_name="sparseq", standalone_mode=True)
    return b"".join(given).decode().removesuffix("\x04")


MONITOR = ("--from", "2024-01-01", "--to", "2024-01-02")
TRAIN = (
    "train",
    "s.sparseq",
    "--target",
    "g=ok",
    "--features",
    COLUMN,
    "--steps",
    "1",
    "--people",
    "50",
)
BY_KEY = "SELECT g, count(*) AS n FROM t GROUP BY g"
EVERY_KEY = "SELECT g, sum(x) AS n FROM t GROUP BY g"  # without a count, NULL is always listed
SHOWN = {
    "a table's keys": ("sql", "s.sparseq", BY_KEY),
    "csv of keys": ("sql", "s.sparseq", "--format", "csv", BY_KEY),
    "an answer's column": ("sql", "s.sparseq", f'SELECT count(*) AS "{EVIL}" FROM t'),
    "an explained query": ("sql", "s.sparseq", "--explain", f"{BY_KEY} -- {EVIL}"),
    "an explained key": ("sql", "s.sparseq", "--explain", BY_KEY),
    "a refused query": ("sql", "s.sparseq", f'SELECT "{EVIL}" FROM nothing'),
    "a refused column": ("sql", "s.sparseq", f'SELECT sum("{COLUMN}z"), sum("{EVIL}") FROM t'),
    "text that is no SQL": ("sql", "s.sparseq", f"SELEC {EVIL}"),
    "a missing store": ("sql", f"{EVIL}.sparseq", "SELECT 1"),
    "a wrong option": ("sql", "s.sparseq", "--format", EVIL),
    "a file that can't be written": ("sql", "s.sparseq", BY_KEY, "-o", f"{EVIL}/no.csv"),
    "series of keys": ("monitor", "s.sparseq", "keys.sql", *MONITOR),
    "a series' name": ("monitor", "s.sparseq", f"{EVIL}.sql", *MONITOR),
    "a file that is no data": ("create", "new.sparseq", f"{EVIL}.csv", "--user", "who"),
    "a file that does not fit": ("ingest", "s.sparseq", f"{EVIL}.csv"),
    "a run's name": (*TRAIN, "--run", EVIL),
    "a replay's reasons": ("replay", "s.sparseq", "log.jsonl", "--dry-run"),
    "a replay": ("replay", "s.sparseq", "log.jsonl", "--output", "r.csv"),
    "the curator's table": ("curator", "s.sparseq", "sql", "SELECT g FROM t LIMIT 1"),
    "the curator's csv": (
        "curator",
        "s.sparseq",
        "sql",
        "SELECT g FROM t LIMIT 1",
        "--format",
        "csv",
    ),
    "who spent most": ("curator", "s.sparseq", "spend"),
    "one person": ("curator", "s.sparseq", "user", f"1{EVIL}"),
    "a receipt": ("curator", "s.sparseq", "receipt", f"1{EVIL}"),
    "nobody": ("curator", "s.sparseq", "user", EVIL),
    "erasing": ("curator", "s.sparseq", "forget", "--yes", f"2{EVIL}"),
    "the curator's log": ("curator", "s.sparseq", "log"),
    "history": ("history", "s.sparseq", "--all"),
    "history's csv": ("history", "s.sparseq", "--all", "--format", "csv"),
}


@pytest.mark.parametrize("what", one_in(2, SHOWN))
def test_a_terminal_is_given_nothing_that_it_would_obey(what: str, folder: Path) -> None:
    if what.startswith("history"):
        with sparseq.connect("s.sparseq") as con:
            con.sql(f"SELECT count(*) AS n FROM t -- {EVIL}", request_id=EVIL)
    seen = on_screen(*SHOWN[what])
    for hidden in HIDDEN:
        assert hidden not in seen
    telling = (
        "a series' name",
        "a table's keys",
        "csv of keys",
        "one person",
        "history",
        "the curator's log",
        "a missing store",
        "a wrong option",
        "erasing",
    )
    if what in telling:
        assert "ev\\x1b[31mil" in seen, "it is spelled out"


@pytest.mark.parametrize(
    "typed",
    [
        f'SELECT count(*) AS "{EVIL}" FROM t;',
        "\\d",
        "\\history",
        f"\\o {EVIL}.txt",
        f"\\explain {BY_KEY}",
    ],
)
def test_nor_by_the_shell(typed: str, folder: Path) -> None:
    (folder / "typed.txt").write_text(f"{typed}\n")
    with open("typed.txt") as stdin, pytest.MonkeyPatch.context() as m:
        m.setattr("sys.stdin", stdin)
        seen = on_screen("shell", "s.sparseq")
    for hidden in HIDDEN:
        assert hidden not in seen


def invoke(*line: str) -> str:
    result = CliRunner().invoke(command, line)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_machines_are_given_every_value_as_it_is(folder: Path) -> None:
    rows = list(
        csv.DictReader(io.StringIO(invoke("sql", "s.sparseq", EVERY_KEY, "--format", "csv")))
    )
    assert [row["g"] for row in rows] == [EVIL, "ok", ""]
    found = json.loads(invoke("sql", "s.sparseq", EVERY_KEY, "--format", "json"))
    assert [row["g"] for row in found["rows"]] == [EVIL, "ok", None]
    text = invoke("monitor", "s.sparseq", "keys.sql", *MONITOR)
    assert {row["g"] for row in csv.DictReader(io.StringIO(text))} == {EVIL, "ok", ""}
    invoke("sql", "s.sparseq", EVERY_KEY, "-o", "out.csv")
    assert EVIL in (folder / "out.csv").read_text()
    for kind, read in READERS.items():
        invoke("sql", "s.sparseq", EVERY_KEY, "-o", f"out.{kind}")
        assert read(f"out.{kind}")["g"].to_pylist() == [EVIL, "ok", None]


def _arrow(path: str) -> Any:
    return pa.ipc.open_file(path).read_all()


def _parquet(path: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


READERS: dict[str, Callable[[str], Any]] = {"parquet": _parquet, "arrow": _arrow}


def test_a_page_has_nothing_hidden_in_it(folder: Path) -> None:
    invoke(
        "monitor",
        "s.sparseq",
        f"{EVIL}.sql",
        "keys.sql",
        *MONITOR,
        "--output",
        "o.csv",
        "--plot",
        "o.html",
    )
    page = (folder / "o.html").read_text()
    for hidden in HIDDEN:
        assert hidden not in page
    assert html.escape(SPELLED) in page


def test_all_that_is_said_goes_through_one_function() -> None:
    """What a text from data is put into may forget to escape it; nothing but a colour passes."""
    assert text.visible(f"\x1b[1m{EVIL}\x1b[0m") == f"\x1b[1m{SPELLED}\x1b[0m".replace(
        "\\x1b[31m", "\x1b[31m"
    )
    own = Path(text.__file__).parent
    for file in own.glob("*.py"):
        if file.name not in ("text.py", "output.py"):
            assert not re.search(
                r"click\.(echo|secho)\(|\bprint\(|from html import",
                re.sub(r">>>.*", "", file.read_text()),
            ), file.name
