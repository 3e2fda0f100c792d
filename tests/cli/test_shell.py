"""The shell from a pipe, its splitting of what is typed, and its completion."""

from __future__ import annotations

import csv
import io
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import sqlglot
from command_runs import output, run
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from sampled import one_in
from sqlglot.errors import SqlglotError

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.cli.completion import Words
from sparseq.cli.shell import state_folder
from sparseq.cli.typed_statements import is_complete, items, split
from sparseq.question.catalog import Catalog, Column, Table
from sparseq.question.limits import all_limits
from sparseq.sql.allowed_words import check_allowed, function_names
from sparseq.sql.normalize import rewritten
from sparseq.sql.parse import Dialect
from sparseq.store.curator import counts

COUNT = "SELECT count(DISTINCT who) AS people FROM visits"


def test_answers_in_order(store: Path) -> None:
    text = output(
        "shell", store, input=f".schema orders\n{COUNT}\n WHERE page = 'cart';\n{COUNT};\n.quit\nX;"
    )
    assert text.index("total") < text.index("release 1") < text.index("release 2")
    assert "BIGINT" in text


def test_errors_never_end_it_and_the_first_gives_the_exit_code(store: Path) -> None:
    result = run("shell", store, input=f".nope\nSELECT who FROM visits;\n{COUNT};\n")
    assert result.exit_code == 2
    assert "there is no command .nope" in result.stderr
    assert "rows about people" in result.stderr
    assert "release 1" in result.stdout


def test_a_last_query_needs_no_semicolon(store: Path) -> None:
    assert "release 1" in output("shell", store, input=COUNT)


def test_format_and_confidence(store: Path) -> None:
    text = output("shell", store, input=f".mode json\n.confidence 0.5\n{COUNT};")
    assert json.loads(text)["confidence"] == 0.5
    assert run("shell", store, input=".confidence lots").exit_code == 2
    assert run("shell", store, input=".mode xml").exit_code == 2


def test_commands_that_read(store: Path) -> None:
    text = output(
        "shell",
        store,
        input=f"{COUNT};\n.budget\n.history 1\n.release 1\n.explain {COUNT};\n.tables\n.help\n",
    )
    for words in (
        "sigma_0",
        "release  time",
        "no new noise, no charge",
        "Nothing was asked",
        "about people, by who",
        ".confidence C",
    ):
        assert words in text
    assert "1 release;" in output("budget", store)


def test_answers_to_a_file_and_back(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    lines = [".mode csv", f".output {file}", f"{COUNT};", f"{COUNT};", ".output", f"{COUNT};"]
    shown = output("shell", store, input="\n".join(lines))
    assert shown.count("people_error") == 1
    rows = list(csv.reader(io.StringIO(file.read_text())))
    assert [row[0] == "people" for row in rows] == [True, False, True, False]
    assert run("shell", store, input=f".output {tmp_path}/no/folder").exit_code == 2


def test_includes_files_but_not_for_ever(store: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(f"{COUNT};\n")
    assert "release 1" in output("shell", store, input=f".read {tmp_path}/q.sql")
    (tmp_path / "loop.sql").write_text(f".read {tmp_path}/loop.sql\n")
    result = run("shell", store, input=f".read {tmp_path}/loop.sql\n.schema")
    assert "deep already" in result.stderr
    assert "visits" in result.stdout
    assert run("shell", store, input=".read missing.sql").exit_code == 2


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 'it''s;' ;", True),
        ('SELECT ";', False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; -- done", True),
        ("/* ; */", True),
        (".schema visits", True),
        ("\\d visits", True),
        ("exit", True),
        ("exit FROM", False),
    ],
)
def test_when_a_query_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@given(st.lists(st.text("ab';\"-/*\n ", max_size=12), max_size=5))
def test_splitting_loses_nothing(lines: list[str]) -> None:
    text = "\n".join(line.strip() for line in lines)
    queries, rest = split(text)
    kept = "".join("".join(queries).split()) + "".join(rest.split())
    assert set(kept) <= set(text)
    assert [q for q in items(text.split("\n")) if not q.strip()] == []


def completions(text: str) -> list[str]:
    visits = Table(
        "visits", (Column("who", "VARCHAR"), Column("page", "VARCHAR", keys=("cart", "pay"))), "who"
    )
    words = Words(Catalog((visits, Table("pages", (Column("section", "VARCHAR"),)))))
    return [c.text for c in words.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT w", ["who"]),
        ("SELECT * FROM ", ["visits", "pages"]),
        ("SELECT * FROM vi", ["visits"]),
        ("SELECT visits.p", ["page"]),
        ("SELECT count(*) FROM visits WHERE page = 'c", ["cart"]),
        (".schema p", ["pages"]),
        (".", [".tables", ".schema"]),
        (".con", [".confirm", ".confidence"]),
        (".mode p", ["parquet"]),
        (".confirm o", ["on", "off"]),
        (".explain SELECT w", ["who"]),
        (".output no-such-fi", []),
    ],
)
def test_completion(text: str, offered: list[str]) -> None:
    found = completions(text)
    assert found[: len(offered)] == offered
    assert offered or not found


def test_completion_of_words() -> None:
    assert {"SELECT"} <= set(completions("sel"))
    assert {"page", "pages"} <= set(completions("SELECT pa"))


def test_history_is_kept_in_the_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "sparseq"


def test_completion_knows_which_tables_are_read() -> None:
    assert completions("SELECT count(*) FROM visits v WHERE v.") == ["who", "page"]
    assert "section" not in completions("SELECT count(*) FROM visits WHERE s")
    assert "section" in completions("SELECT s")


def test_what_completion_offers_can_be_called() -> None:
    names = function_names()
    assert {"count", "median", "date_trunc", "row_number", "strftime", "coalesce"} <= set(names)
    for name in names:
        for arguments in ("", "x", "x, y", "x, y, z", "x AS DATE", "year FROM x", "'day', x, y"):
            try:
                tree = sqlglot.parse_one(f"SELECT {name}({arguments}) FROM t", dialect=Dialect)
                check_allowed(rewritten(tree), "", all_limits())
            except (SqlglotError, QueryRefused):
                continue
            break
        else:
            pytest.fail(f"{name} can't be called in any way")


def test_psql_names_and_plain_words_work(store: Path) -> None:
    text = output("shell", store, input="\\dt\n\\d orders\nhelp\n\\format json\nexit\nX;")
    assert text.index("about people") < text.index("BIGINT") < text.index(".confirm on|off")


def test_explaining_asks_nothing(store: Path) -> None:
    lines = [
        ".explain on",
        f"{COUNT};",
        "SELECT nonsense;",
        ".explain off",
        ".explain maybe",
        COUNT,
    ]
    result = run("shell", store, input="\n".join(lines))
    assert "Nothing was asked" in result.stdout
    assert "release 1:" in result.stdout
    assert result.exit_code == 3
    assert "the column 'nonsense'" in result.stderr or "nonsense" in result.stderr


def test_nothing_is_confirmed_from_a_pipe(store: Path) -> None:
    result = run("shell", store, input=f".confirm on\n{COUNT};\n.confirm x\n")
    assert result.exit_code == 2
    assert "there is nobody to confirm" in result.stderr
    assert "'x' is neither on nor off" in result.stderr
    assert "release" not in result.stdout


class Stop:
    """Presses Ctrl-C as a function is entered, or as it is left."""

    def __init__(self, file: str, name: str, event: str) -> None:
        self._at = (file, name, event)

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if (Path(code.co_filename).name, code.co_name, event) == self._at:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return self if Path(code.co_filename).name == self._at[0] else None


@pytest.mark.parametrize("command", one_in(2, ["shell", "sql"]))
@pytest.mark.parametrize(
    ("file", "name", "event", "said"),
    [
        ("step.py", "contributions", "call", "nothing was answered, nothing charged"),
        ("journal.py", "commit", "call", "nothing was answered, nothing charged"),
        ("journal.py", "commit", "return", "answered and charged already, as release 1"),
    ],
)
def test_ctrl_c_says_what_it_cost(
    store: Path, command: str, file: str, name: str, event: str, said: str
) -> None:
    before = sys.gettrace()
    sys.settrace(Stop(file, name, event))
    try:
        if command == "shell":
            result = run("shell", store, input=f"{COUNT};\n{COUNT};\n")
        else:
            result = run("sql", store, COUNT)
    finally:
        sys.settrace(before)
    assert result.exit_code == 130
    assert said in result.stderr
    assert result.stdout == ""
    charged = "charged already" in said
    assert ("a contribution the size of its scale cost 1\n" in result.stderr) == charged
    with sparseq.connect(store) as con:
        assert con.released == charged
        assert counts(con).users == 40
        assert bool(con.stream.accounts.spent.any()) == charged
