"""Small words: a mistyped command, options given twice, plurals, widths of tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_runs import output, run

from sparseq.cli.history import COLUMNS
from sparseq.pictures.guarantee_texts import course_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("typed", "meant"), [("sqll", "sql"), ("crate", "create")])
def test_a_mistyped_command_is_guessed(typed: str, meant: str) -> None:
    refused = run(typed)
    assert refused.exit_code == 2
    assert f"No such command '{typed}'. did you mean '{meant}'?" in refused.stderr


def test_two_columns_of_people_are_refused(tmp_path: Path) -> None:
    refused = run("create", tmp_path / "s", "a=a.csv", "b=b.csv", "--user", "a.x", "--user=b.y")
    assert refused.exit_code == 2
    assert "--user is given 2 times: a.x and b.y" in refused.stderr
    assert "--rename" in refused.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [(0, "After the next question"), (1, "about 1 more question\n"), (2, "2 more questions\n")],
)
def test_what_is_left_is_said_in_words(more: int, said: str) -> None:
    facts = {"least_weight": 1.0, "usual_weight": None, "full_answers": more}
    assert said in course_text(facts)
    assert "0 more" not in course_text(facts)


def test_the_table_of_releases_fits_a_line(store: Path) -> None:
    text = "SELECT page, count(*) AS n FROM visits WHERE " + " OR ".join(
        f"seconds > {k}" for k in range(40)
    )
    output("sql", store, f"{text} GROUP BY page")
    shown = click.unstyle(output("history", store))
    table = shown.partition("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 100
    many = {"sigma": [1.0, 2.0, 3.0, 4.0]}
    assert COLUMNS["sigma"].text(many) == "1, 2, 3, …"


def test_explain_names_no_column_of_the_engine(store: Path) -> None:
    shown = output(
        "sql",
        store,
        "--explain",
        "SELECT n, count(*) AS people FROM (SELECT who, least(count(*), 2) AS n FROM visits "
        "GROUP BY who) AS t WHERE n IN (1, 2) GROUP BY n",
    )
    assert "_user" not in shown
    assert "by_user" not in shown
    assert '"#' not in shown


@pytest.mark.parametrize("name", ["budget", "card"])
def test_public_facts_are_of_a_store_or_of_a_server(name: str, store: Path) -> None:
    """A served one is asked in tests/server/test_remote.py."""
    for args in ((), (store, "--server", "http://127.0.0.1:1")):
        refused = run(name, *args)
        assert refused.exit_code == 2
        assert "give a STORE, or a --server" in refused.stderr
    served = run(name, "--server", "http://127.0.0.1:1")
    assert served.exit_code
    assert "SPARSEQ_TOKEN" in served.stderr
    assert run(name, store).exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_for_completion_is_one_that_the_shell_reads(shell: str) -> None:
    """As the page of the commands has it: the variable asks this shell's script of click."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    (line,) = re.findall(rf"^\| {shell} \|.*\| `(.*)` \|$", page, re.MULTILINE)
    assert "\\" not in line
    (name, value) = re.findall(r"(_SPARSEQ_COMPLETE)=(\w+)", line)[0]
    assert value == f"{shell}_source"
    asked = {**os.environ, name: value}
    said = subprocess.run(
        [sys.executable, "-c", "from sparseq.cli import main; main()"],
        env=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_complete" in said.stdout


def test_the_docs_begin_with_an_answer() -> None:
    page = (ROOT / "docs" / "README.md").read_text("utf-8")
    first = page.index("$ sparseq sql")
    assert re.search(r"\d ± \d", page[first : page.index("## Where to go")])


def test_numbers_are_said_with_their_nouns(store: Path, tmp_path: Path) -> None:
    assert "1 releases" not in output("budget", store)
    output("sql", store, "SELECT count(*) AS n FROM visits")
    assert re.search(r"so far +1 release;", click.unstyle(output("budget", store)))
    one = tmp_path / "one.csv"
    one.write_text("who,day,x\n1,2024-01-01,2\n")
    made = run("create", tmp_path / "one.sparseq", one, "--user", "who")
    assert "1 row in one; 1 person" in made.output
