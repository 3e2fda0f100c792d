"""The shell at a real terminal: what is typed there, and what is seen."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import sparseq

PATIENCE = 120.0
_CONTROLS = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|[=>])|\r")
UP, TAB, CTRL_C, CTRL_D, CTRL_R, ENTER = "\x1b[A", "\t", "\x03", "\x04", "\x12", "\r"


class Terminal:
    """A program at the other end of a terminal."""

    def __init__(self, command: list[str], state: Path, folder: Path | None = None) -> None:
        ours, theirs = pty.openpty()
        env = os.environ | {
            "XDG_STATE_HOME": str(state),
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "TERM": "xterm",
            "COLUMNS": "120",
            "LINES": "40",
        }
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: _control(theirs),
            cwd=folder,
        )
        os.close(theirs)
        self._ours = ours
        self._seen = ""

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def see(self, *texts: str) -> str:
        """Read until the texts have come, one after the other; return all up to there."""
        whole = ""
        for text in texts:
            until = time.monotonic() + PATIENCE
            while text not in self._seen:
                ready, _, _ = select.select([self._ours], [], [], until - time.monotonic())
                assert ready, f"{text!r} has not come; there is {self._seen!r}"
                try:
                    got = os.read(self._ours, 65536)
                except OSError:  # the program has ended
                    got = b""
                assert got, f"{text!r} has not come before the end; there is {self._seen!r}"
                self._seen = _CONTROLS.sub("", self._seen + got.decode())
            end = self._seen.index(text) + len(text)
            whole, self._seen = whole + self._seen[:end], self._seen[end:]
        return whole

    def close(self) -> None:
        os.close(self._ours)
        self.process.kill()
        self.process.wait()


def _control(terminal: int) -> None:
    """Make it the terminal of this process, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@contextmanager
def shell(store: Path) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "sparseq", "shell", str(store)]
    terminal = Terminal(command, store.parent / "state")
    try:
        terminal.see("sparseq>")
        yield terminal
    finally:
        terminal.close()


COUNT = "SELECT count(DISTINCT who) AS people"


@pytest.fixture
def at_prompt(store: Path) -> Iterator[Terminal]:
    with shell(store) as terminal:
        yield terminal


def test_a_sitting(at_prompt: Terminal) -> None:
    screen = at_prompt
    screen.type("help" + ENTER)
    screen.see("type", ".confirm on|off", "sparseq>")
    screen.type(COUNT + ENTER + "FROM vi" + TAB)  # over two lines
    screen.see("...>", "sits")
    screen.type(ENTER + "WHERE page = 'ca" + TAB)
    screen.see("rt")
    screen.type("';" + ENTER)
    screen.see("people", "release 1:", "sparseq>")
    screen.type(".confirm on" + ENTER)
    screen.see("only if you agree", "sparseq>")
    screen.type(CTRL_R + "DISTINCT")  # search, and ask it again
    screen.see("reverse-i-search")
    screen.type(ENTER + ENTER)
    screen.see("To ask is free", "[y/N]")
    screen.type("n" + ENTER)
    screen.see("nothing charged", "sparseq>")
    screen.type(UP * 2 + ENTER)
    screen.see("[y/N]")
    screen.type("y" + ENTER)
    screen.see("release 1,", "sparseq>")  # the same question: recorded, and free
    screen.type(".explain on" + ENTER)
    screen.see("explain>")
    screen.type(COUNT + " FROM visits;" + ENTER)
    screen.see("Nothing was asked, nothing charged.", "explain>")
    screen.type(".exit" + ENTER)
    assert screen.process.wait(PATIENCE) == 0


def test_ctrl_c_drops_a_line_and_ctrl_d_leaves(at_prompt: Terminal) -> None:
    at_prompt.type("SELECT" + ENTER + CTRL_C)
    at_prompt.see("sparseq>")
    at_prompt.type(".history" + ENTER)
    at_prompt.see("nothing has been asked yet", "sparseq>")
    at_prompt.type(CTRL_D)
    assert at_prompt.process.wait(PATIENCE) == 0


def test_ctrl_c_at_the_question_charges_nothing(at_prompt: Terminal) -> None:
    at_prompt.type(".confirm on" + ENTER)
    at_prompt.see("only if you agree", "sparseq>")
    at_prompt.type(COUNT + " FROM visits;" + ENTER)
    at_prompt.see("[y/N]")
    at_prompt.type(CTRL_C)
    at_prompt.see("nothing charged", "sparseq>")
    at_prompt.type(".history" + ENTER)
    at_prompt.see("nothing has been asked yet")


def test_what_was_typed_is_there_the_next_time(store: Path) -> None:
    with shell(store) as terminal:
        terminal.type(".budget" + ENTER)
        terminal.see("sigma_0", "sparseq>")
        terminal.type(".quit" + ENTER)
        assert terminal.process.wait(PATIENCE) == 0
    with shell(store) as terminal:
        terminal.type(UP * 2 + ENTER)
        terminal.see("sigma_0")
    kept = store.parent / "state" / "sparseq" / "history"
    assert kept.stat().st_mode & 0o077 == 0


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A store of 60 people, made by default, of which one question has been asked."""
    rows = pa.table({"who": [k % 60 for k in range(200)], "g": [k % 31 for k in range(200)]})
    path = tmp_path / "few.sparseq"
    with sparseq.create(path, {"t": rows}, user="who", keys={"g": [*range(31)]}) as con:
        con.sql("SELECT count(*) FROM t")
    return path


OF_NO_USE = "SELECT g, count(*) AS n FROM t GROUP BY g"


def test_what_is_of_no_use_is_asked_for_twice(few: Path) -> None:
    with shell(few) as terminal:
        terminal.type(OF_NO_USE + ";" + ENTER)
        terminal.see("expected to be wider than the value: n about", "[y/N]")
        terminal.type("n" + ENTER)
        terminal.see("nothing charged", "sparseq>")
        terminal.type(OF_NO_USE + ";" + ENTER)
        terminal.see("[y/N]")
        terminal.type("y" + ENTER)
        terminal.see("release 2", "sparseq>")
        terminal.type(OF_NO_USE + ";" + ENTER)
        terminal.see("asked before (free)", "sparseq>")  # there is nothing to decide


def test_a_command_asks_twice_too(few: Path) -> None:
    command = [sys.executable, "-m", "sparseq", "sql", str(few), OF_NO_USE]
    for said, expected in (("n", "not asked, nothing charged"), ("y", "release")):
        terminal = Terminal(command, few.parent / "state")
        terminal.see("expected to be wider than the value", "[y/N]")
        terminal.type(said + ENTER)
        terminal.see(expected)
        terminal.close()
    refused = subprocess.run([*command, "--at-least-useful", "--fresh"], capture_output=True)
    assert refused.returncode == 3
    assert b"expected to be wider than the value" in refused.stderr
    with sparseq.connect(few) as con:
        assert con.released == 2


def test_create_asks_for_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "export.csv").write_text(
        "who;born;day;cost\nSECRET;05/06/1970;01/02/2024;1,5\nann;07/08/1980;02/02/2024;2,5\n"
    )
    command = [sys.executable, "-m", "sparseq", "create", "export.csv"]
    screen = Terminal(command, tmp_path / "state", tmp_path)
    try:
        screen.see("Where is the store to be made? [export.sparseq]:")
        screen.type(ENTER)
        asked = screen.see("two ways", "Which comes first?")
        screen.type("ymd" + ENTER)
        screen.see("none of dmy, mdy", "Which comes first?")
        screen.type("dmy" + ENTER)
        asked += screen.see("cost", "DOUBLE", "whom a row is about?")
        assert "SECRET" not in asked
        screen.type("9" + ENTER)
        screen.see("none of who, born, day, cost", "whom a row is about?")
        screen.type("WHO" + ENTER)
        screen.see("Which says when, born or day?", "[born]")
        screen.type("1" + ENTER)
        screen.see("none of born, day.")
        screen.type("3" + ENTER)
        said = screen.see("the same without questions:", "made export.sparseq")
        assert screen.process.wait(PATIENCE) == 0
    finally:
        screen.close()
    (line,) = [line for line in said.splitlines() if line.startswith("  sparseq create ")]
    again = shlex.split(line)
    assert again[2:] == [
        "export.sparseq",
        "export.csv",
        "--dates",
        "dmy",
        "--user",
        "who",
        "--time",
        "day",
    ]
    with sparseq.connect(tmp_path / "export.sparseq") as made:
        (table,) = made.catalog.private
        assert (table.user, table.time) == ("who", "day")
        assert made.schema().formats["born"] == "%d/%m/%Y"
