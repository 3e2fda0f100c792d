"""One word, one option: the words of the command line, files of options, and former names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_runs import output, run

from sparseq.cli.app import sparseq
from sparseq.cli.options import FORMER_NAMES, Command, FilePath


def commands(
    group: click.Group = sparseq, of: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*of, name))
        else:
            yield (*of, name), command


EVERY = dict(commands())


def options_of(command: click.Command) -> dict[str, click.Option]:
    found = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    return {word: option for option in found for word in option.opts if word.startswith("--")}


def test_an_option_of_one_word_takes_one_kind_of_value_everywhere() -> None:
    kinds: dict[str, set[tuple[str, bool]]] = {}
    for command in EVERY.values():
        for word, option in options_of(command).items():
            kind = "flag" if option.is_flag else option.type.name
            kinds.setdefault(word, set()).add((kind, option.nargs == 1))
    several = {word for word, of in kinds.items() if len(of) > 1}
    known = {"--orders": "a name of a set, and a range", "--epsilon": "of a store, with its delta"}
    assert several <= set(known)
    assert kinds["--output"] == {("path", True)}


def test_every_path_is_one_that_a_file_system_can_have(made: Path, tmp_path: Path) -> None:
    """Where an option or an argument is a path, too long a one is told before anything is done."""
    paths = [p for c in EVERY.values() for p in c.params if isinstance(p.type, click.Path)]
    assert len(paths) > 60
    assert all(isinstance(p.type, FilePath) for p in paths)
    long = "x" * 5000
    for asked in (("history", made, "--output", long), ("budget", long), ("mark", made, long)):
        found = run(*asked)
        assert found.exit_code == 2, asked
        assert "5,000 bytes; the limit is 4,095" in found.stderr or "a name of" in found.stderr


@pytest.mark.parametrize("names", EVERY, ids=" ".join)
def test_every_command_takes_options_from_a_file(names: tuple[str, ...]) -> None:
    assert isinstance(EVERY[names], Command)
    assert "--config" in options_of(EVERY[names])


@pytest.mark.parametrize("name", FORMER_NAMES)
def test_a_former_name_is_an_option_no_more_and_what_replaces_it_is_one(name: str) -> None:
    words = options_of(EVERY[name,])
    for former, now in FORMER_NAMES[name].items():
        assert now.now in words
        assert former == now.now or former not in words or words[former].is_flag


@pytest.fixture
def made(folder: Path, tmp_path: Path) -> Path:
    """A store made with options from a file."""
    config = tmp_path / "sparseq.toml"
    config.write_text(
        """seed = 1
        for = "questions,counts=7"
        [create]
        user = "who"
        keys = ["page=home,cart"]
        bounds = {seconds = "0..60"}
        for = ["questions,counts=30,halt", "questions,watch=10%"]
        """
    )
    output("create", tmp_path / "s", folder / "visits.csv", "--config", config)
    return tmp_path


def test_options_come_from_the_commands_table_and_from_the_top(made: Path) -> None:
    facts = json.loads(output("budget", made / "s", "--format", "json"))
    assert facts["norm_budget"] == 30
    assert facts["parts"] == {"queries": 27, "watch": 3}


def test_the_command_line_wins(made: Path, folder: Path) -> None:
    again = ("create", made / "t", folder / "visits.csv", "--config", made / "sparseq.toml")
    output(*again, "--for", "questions,counts=50")
    facts = json.loads(output("budget", made / "t", "--format", "json"))
    assert facts["norm_budget"] == 50


def test_commands_within_a_group_have_tables_of_theirs(made: Path) -> None:
    config = made / "c.toml"
    config.write_text('[curator]\nformat = "json"\n[curator.spend]\ntop = 3\n')
    spend = json.loads(run("curator", made / "s", "spend", "--config", config).stdout)
    assert len(spend["top"]) == 3
    config.write_text("[accounting.odometer]\nbatch = 4\nnoise = 1.5\nexamples = 8\nepochs = 1\n")
    assert "epsilon" in output("accounting", "odometer", "--config", config)


def test_dates_and_lists_are_as_on_the_command_line(made: Path, folder: Path) -> None:
    config, query = made / "m.toml", made / "n.sql"
    query.write_text("SELECT count(*) AS n FROM visits WHERE day = :day AND seconds >= :least")
    config.write_text(
        f"output = '{made / 'n.csv'}'\n[monitor]\nquiet = true\nparam = {{least = 3}}\n"
        "from = 2024-01-01\nto = 2024-01-02\n"
    )
    output("monitor", made / "s", query, "--config", config)
    assert (made / "n.csv").read_text().splitlines()[1].startswith("n,2024-01-01,")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[create]\nbouns = 1", "there is no option 'bouns'\n  hint: did you mean 'bounds'?"),
        ("alarm-bellow = 1", "did you mean 'alarm-below'?"),
        ("[craete]\nseed = 1", "did you mean 'create'?"),
        ("create = 3", "create is a command"),
        ("[create]\nconfig = 'x'", "there is no option 'config'"),
        ("a = [", "can't read"),
    ],
)
def test_what_is_unknown_in_a_file_is_told_with_the_nearest_word(
    text: str, says: str, folder: Path, tmp_path: Path
) -> None:
    config = tmp_path / "odd.toml"
    config.write_text(text)
    made = run("create", tmp_path / "s", folder / "visits.csv", "--config", config, "--user", "who")
    assert made.exit_code == 2
    assert says in made.stderr
    assert str(config) in made.stderr
    assert not (tmp_path / "s").exists()


def test_a_file_may_name_options_of_other_commands_at_the_top(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "all.toml"
    config.write_text('alarm-below = "80%"\nuser = "who"\n')
    output("create", tmp_path / "s", folder / "visits.csv", "--config", config)


def test_former_names_work_and_say_what_they_are_now(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    made = run(
        "create",
        path,
        folder / "visits.csv",
        "--user",
        "who",
        "--seed",
        "1",
        "--watch-active",
        "--for",
        "n=20%,ticks=2",
    )
    assert made.stderr.splitlines() == [
        "--watch-active is now --for questions,watch=5%; the old name goes in 0.3",
    ]
    query = tmp_path / "n.sql"
    query.write_text("SELECT count(DISTINCT who) AS n FROM visits WHERE day = :day")
    line = ("monitor", path, query, "--from", "2024-01-01", "--to", "2024-01-02", "--quiet")
    asked = run(*line, "--watch-active", "0.8", "--out", tmp_path / "old.csv")
    assert asked.exit_code == 0, asked.stderr
    assert asked.stderr.splitlines() == [
        "--watch-active is now --alarm-below; the old name goes in 0.3",
        "--out is now --output; the old name goes in 0.3",
    ]
    again = run(*line, "--alarm-below=80%", "--output", tmp_path / "new.csv")
    assert (again.exit_code, again.stderr) == (0, "")
    assert (tmp_path / "old.csv").read_text() == (tmp_path / "new.csv").read_text()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("create", ["--reserve", "--forecast"]),
        (
            "monitor",
            [
                "--forecast",
                "--forecast-cap",
                "--fade",
                "--season",
                "--strategy",
                "--left-out",
                "--clip",
                "--part-time",
            ],
        ),
        ("plan", ["--for", "--reserve", "--no-forecast", "--historical", "--watch"]),
        ("demo", ["--norm-budget"]),
    ],
)
def test_what_a_part_of_the_budget_says_is_an_option_no_more(
    command: str, words: list[str], folder: Path
) -> None:
    for word in words:
        refused = run(command, folder / "web.sparseq", word)
        assert refused.exit_code == 2
        assert f"No such option '{word}'" in refused.stderr


def test_todays_names_cause_no_note(folder: Path, tmp_path: Path) -> None:
    made = run(
        "create",
        tmp_path / "s",
        folder / "visits.csv",
        "--user",
        "who",
        "--for",
        "questions,watch=5%",
        "--for",
        "n=20%,ticks=2",
        "--most",
        "work=1000",
    )
    assert made.exit_code == 0
    assert "is now" not in made.stderr
